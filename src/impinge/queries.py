"""One-shot questions: build what is needed, ask, forget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from impinge.detect.box_tree import BoxTree
from impinge.detect.breadth_first import BreadthFirst
from impinge.detect.brute_force import BruteForce
from impinge.detect.containment import Enclosure, enclosure, has_piece_inside
from impinge.detect.narrow_phase import Neighbours
from impinge.detect.pair_query import Side, pair_options
from impinge.detect.results import Kind, TrianglePairs
from impinge.errors import OptionError
from impinge.mesh.body import as_surface
from impinge.mesh.tri_mesh import TriMesh

PairMethod: TypeAlias = type[BoxTree | BreadthFirst | BruteForce]

PAIR_METHODS: dict[str, PairMethod] = {"box_tree": BoxTree, "breadth_first": BreadthFirst, "brute_force": BruteForce}
"""Methods that find all intersecting triangle pairs, by name."""

Relation: TypeAlias = Literal["disjoint", "touching", "crossing", "a in b", "b in a", "unknown"]


def _pair_method(method: str) -> PairMethod:
    if method == "auto":
        return BoxTree
    if method not in PAIR_METHODS:
        raise OptionError(f"method is {method!r}, expected 'auto' or one of {', '.join(map(repr, PAIR_METHODS))}")
    return PAIR_METHODS[method]


def triangle_pairs(a: Any, b: Any, *, method: str = "auto", **options: Any) -> TrianglePairs:
    """All pairs of triangles, one of ``a`` and one of ``b``, that meet; touching counts.

    Bodies are meshes of ours, tuples (vertices, elements), objects of trimesh, pyvista or meshio, or paths; of a tet
    mesh the boundary is meant. Options: ``transform_a``, ``transform_b`` (4x4), ``active_a``, ``active_b`` (ids or
    mask), ``ignore`` (pairs), ``max_pairs``, ``cancel`` (an object with ``is_set()``).
    """
    return _pair_method(method)(as_surface(a, name="a"), as_surface(b, name="b")).query(**options)


def self_pairs(a: Any, *, neighbours: Neighbours = "exact", method: str = "auto", **options: Any) -> TrianglePairs:
    """All pairs i < j of triangles of ``a`` that meet beyond the vertices that they share.

    ``neighbours="skip"`` leaves out every pair that shares a vertex. Options as in ``triangle_pairs``, without those
    of b.
    """
    return _pair_method(method)(a, neighbours=neighbours).query(**options)


@dataclass(frozen=True, kw_only=True)
class Report:
    """How two bodies stand to each other, and the evidence."""

    relation: Relation
    """"disjoint", "touching" (triangles meet and no pair of them crosses), "crossing", "a in b" or "b in a" (no
    triangles meet), "unknown" (the query was cancelled before it found anything)."""
    pairs: TrianglePairs
    """Every pair of triangles that meet."""
    a_has_inside: bool
    """Whether a piece of ``a`` is closed, so that a body inside it would be found."""
    b_has_inside: bool

    def __bool__(self) -> bool:
        """Whether they collide."""
        if self.relation == "unknown":
            raise OptionError("whether they collide is unknown: the query was cancelled before it found anything")
        return self.relation != "disjoint"

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON."""
        return {
            "relation": self.relation,
            "a_has_inside": self.a_has_inside,
            "b_has_inside": self.b_has_inside,
            "pairs_by_kind": self.pairs.count_by_kind(),
            **self.pairs.to_dict(),
        }


def check(a: Any, b: Any, *, method: str = "auto", **options: Any) -> Report:
    """How ``a`` and ``b`` stand to each other; a body inside a closed body is found too.

    Options as in ``triangle_pairs``; pairs that are ignored count as not meeting. All answers are about one state of
    the bodies, whatever other threads do to them meanwhile.
    """
    wanted = pair_options(options)
    side_a, side_b = wanted.side_a(as_surface(a, name="a")), wanted.side_b(as_surface(b, name="b"))
    pairs = _pair_method(method)(_frozen(side_a), _frozen(side_b)).query(
        ignore=wanted.ignore, max_pairs=wanted.max_pairs, cancel=wanted.cancel
    )
    inside_a, inside_b = enclosure(side_a), enclosure(side_b)
    return Report(
        relation=_relation(pairs, inside_a, inside_b),
        pairs=pairs,
        a_has_inside=bool(inside_a),
        b_has_inside=bool(inside_b),
    )


def _frozen(side: Side) -> TriMesh:
    """A body that is what one query sees of another: moved, with its active triangles only, under the same ids."""
    body = TriMesh(side.vertices, side.faces, validate="trust")
    body.remove_triangles(np.setdiff1d(np.arange(len(side.faces)), side.ids))
    return body


def _relation(pairs: TrianglePairs, a: Enclosure, b: Enclosure) -> Relation:
    if len(pairs):
        return "crossing" if (pairs.kind == Kind.CROSSING).any() else "touching"
    if not pairs.complete:
        return "unknown"
    if pairs.stats["hits"] > 0:  # all of them ignored
        return "disjoint"
    if has_piece_inside(a.side, b):
        return "a in b"
    if has_piece_inside(b.side, a):
        return "b in a"
    return "disjoint"


def collides(a: Any, b: Any, **options: Any) -> bool:
    """Whether ``a`` and ``b`` meet, or one is inside the other (where the outer one is closed).

    Stops at the first pair of triangles that meet. Options as in ``check``.
    """
    wanted = pair_options(options)
    a, b = as_surface(a, name="a"), as_surface(b, name="b")
    return BoxTree(a, b).any_pair(**options) or (wanted.ignore is None and bool(check(a, b, **options)))
