"""One-shot questions: build what is needed, ask, forget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from impinge.detect.box_tree import BoxTree
from impinge.detect.breadth_first import BreadthFirst
from impinge.detect.brute_force import BruteForce
from impinge.detect.containment import has_piece_inside
from impinge.detect.narrow_phase import Neighbours
from impinge.detect.pair_query import PairOptions
from impinge.detect.results import Kind, TrianglePairs
from impinge.errors import OptionError
from impinge.mesh.body import as_surface
from impinge.mesh.tri_mesh import TriMesh

PairMethod: TypeAlias = type[BoxTree | BreadthFirst | BruteForce]

PAIR_METHODS: dict[str, PairMethod] = {"box_tree": BoxTree, "breadth_first": BreadthFirst, "brute_force": BruteForce}
"""Methods that find all intersecting triangle pairs, by name."""

Relation: TypeAlias = Literal["disjoint", "touching", "crossing", "a in b", "b in a"]


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
    return _pair_method(method)(a, b).query(**options)


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
    """"disjoint", "touching" (no pair crosses), "crossing", "a in b" or "b in a" (no triangles meet)."""
    pairs: TrianglePairs
    """Every pair of triangles that meet."""

    def __bool__(self) -> bool:
        """Whether they collide."""
        return self.relation != "disjoint"

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON."""
        return {"relation": self.relation, "pairs_by_kind": self.pairs.count_by_kind(), **self.pairs.to_dict()}


def check(a: Any, b: Any, *, method: str = "auto", **options: Any) -> Report:
    """How ``a`` and ``b`` stand to each other; a body inside a closed body is found too.

    Options as in ``triangle_pairs``.
    """
    a, b = as_surface(a, name="a"), as_surface(b, name="b")
    pairs = triangle_pairs(a, b, method=method, **options)
    return Report(relation=_relation(pairs, a, b, PairOptions(**options)), pairs=pairs)


def _relation(pairs: TrianglePairs, a: Any, b: Any, options: PairOptions) -> Relation:
    if len(pairs):
        return "crossing" if (pairs.kind == Kind.CROSSING).any() else "touching"
    return _containment(a, b, options)


def _containment(a: TriMesh, b: TriMesh, options: PairOptions) -> Relation:
    """Which of two bodies whose triangles do not meet is inside the other."""
    side_a, side_b = options.side_a(a), options.side_b(b)
    if has_piece_inside(side_a, side_b):
        return "a in b"
    if has_piece_inside(side_b, side_a):
        return "b in a"
    return "disjoint"


def collides(a: Any, b: Any, **options: Any) -> bool:
    """Whether ``a`` and ``b`` meet, or one is inside the other (where the outer one is closed).

    Stops at the first pair of triangles that meet. Options as in ``triangle_pairs``.
    """
    a, b = as_surface(a, name="a"), as_surface(b, name="b")
    return BoxTree(a, b).any_pair(**options) or _containment(a, b, PairOptions(**options)) != "disjoint"
