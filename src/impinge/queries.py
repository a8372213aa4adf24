"""One-shot questions: build what is needed, ask, forget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias, cast

import numpy as np

from impinge.checks import Bools
from impinge.contact.contacts import Contacts, contacts_from_vertices, contacts_from_volume
from impinge.contact.volume_gradient import volume_gradient
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.breadth_first.detector import BreadthFirst
from impinge.detect.common.brute_force import BruteForce
from impinge.detect.common.containment import enclosure, has_piece_inside
from impinge.detect.common.narrow_phase import Neighbours
from impinge.detect.common.nearest_results import ClosestPoints, Curves, Distance, EdgeCrossings, Proximity
from impinge.detect.common.pair_query import PairOptions, Side, pair_options
from impinge.detect.common.relation import Relation, pieces_in, relation_of
from impinge.detect.common.results import TrianglePairs, VertexContacts
from impinge.detect.depth.vertices_in_surfaces import vertices_in_surfaces
from impinge.detect.gjk_cut.detector import GjkCut
from impinge.detect.layered_depth.detector import DeviceName, LayeredDepth, Rule
from impinge.detect.layered_depth.points import points_inside_sampled
from impinge.detect.layered_depth.volume_overlap import VolumeOverlap
from impinge.detect.proximity.closest_points import closest_points as find_closest_points
from impinge.detect.proximity.distance import distance as find_distance
from impinge.detect.proximity.edge_crossings import edge_crossings as find_edge_crossings
from impinge.detect.proximity.intersection_curves import intersection_curves as find_intersection_curves
from impinge.detect.proximity.points_inside import points_inside as find_points_inside
from impinge.detect.proximity.proximity import proximity as find_proximity
from impinge.detect.spatial_hash.detector import Depth, SpatialHash, bodies_of_one_sort
from impinge.detect.sphere_tree.contacts import SphereContacts
from impinge.detect.sphere_tree.detector import SphereTree
from impinge.errors import MeshError, OptionError
from impinge.mesh.body import as_surface
from impinge.mesh.tri_mesh import TriMesh, box_around
from impinge.world.auto import choose_pairs

PairMethod: TypeAlias = Callable[..., Any]
"""Makes a detector of one or two surfaces, whose ``query`` finds all pairs of triangles that meet."""


def _spatial_hash(a: Any, b: Any = None, *, neighbours: Neighbours = "exact") -> SpatialHash:
    surfaces = [as_surface(body, name=name) for body, name in ((a, "a"), (b, "b")) if body is not None]
    return SpatialHash(surfaces, neighbours=neighbours)


PAIR_METHODS: dict[str, PairMethod] = {
    "box_tree": BoxTree, "breadth_first": BreadthFirst, "brute_force": BruteForce, "gjk_cut": GjkCut,
    "spatial_hash": _spatial_hash,
}  # fmt: skip
"""Methods that find all intersecting triangle pairs, by name."""


def _find_pairs(method: str, a: TriMesh, b: TriMesh | None, options: dict[str, Any], **how: Any) -> TrianglePairs:
    """All pairs by a method, or by the one that fits; then the result tells which, and why."""
    wanted = pair_options(options, is_self=b is None)
    chosen, why = choose_pairs(a, b, wanted) if method == "auto" else (method, "")
    if chosen not in PAIR_METHODS:
        raise OptionError(f"method is {method!r}, expected 'auto' or one of {', '.join(map(repr, PAIR_METHODS))}")
    bodies = (a,) if b is None else (a, b)
    found: TrianglePairs = PAIR_METHODS[chosen](*bodies, **how).query(**options)
    if why:
        found.stats.update(chosen=chosen, why=why)
    return found


def triangle_pairs(a: Any, b: Any, *, method: str = "auto", **options: Any) -> TrianglePairs:
    """Find all pairs of triangles, one of ``a`` and one of ``b``, that meet; touching counts.

    A body is a mesh of ours, a tuple (vertices, elements), a trimesh, pyvista or meshio object, or a path. For a tet
    mesh, its boundary is meant.

    method       "auto", "box_tree", "gjk_cut", "breadth_first", "spatial_hash" or "brute_force"; they give the same
                 pairs, and "auto" says in ``stats`` of the result what it chose, and why
    transform_a, transform_b   affine matrices, shape (4, 4), that move the bodies for this query
    active_a, active_b   ids or masks of the triangles that take part
    ignore       pairs of triangles to leave out, shape (k, 2)
    max_pairs    most pairs to return; a result that was cut short is not ``complete``
    cancel       an object with ``is_set()``, such as a ``threading.Event``, that ends the query when set
    """
    return _find_pairs(method, as_surface(a, name="a"), as_surface(b, name="b"), options)


def self_pairs(a: Any, *, neighbours: Neighbours = "exact", method: str = "auto", **options: Any) -> TrianglePairs:
    """Find all pairs i < j of triangles of ``a`` that meet beyond the vertices that they share.

    ``neighbours="skip"`` leaves out every pair that shares a vertex. Other options are those of ``triangle_pairs`` that
    are about ``a``.
    """
    return _find_pairs(method, as_surface(a, name="a"), None, options, neighbours=neighbours)


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
    bodies: tuple[TriMesh, ...] = field(default=(), repr=False)
    """Both bodies as they were seen: moved, with their active triangles; what follows is found when it is asked for."""
    wants_depth: bool = True
    wants_volume: bool = True

    @cached_property
    def curves(self) -> Curves | None:
        """The curves in which the surfaces cross; None if the query was cut short."""
        return find_intersection_curves(*self.bodies) if self.pairs.complete else None

    @cached_property
    def overlap(self) -> VolumeOverlap | None:
        """The overlap volume; None if a body is not closed and oriented, if nothing is known, or if not wanted.

        What a body covers twice is inside of it, as it is for the relation, and counts once.
        """
        if not self.wants_volume or self.relation == "unknown" or not (self.a_has_inside and self.b_has_inside):
            return None
        try:
            return LayeredDepth(*self.bodies, rule="winding").query()
        except MeshError:  # open somewhere, or turned inside out in parts: there is no volume to speak of
            return None

    @cached_property
    def deepest(self) -> Contacts | None:
        """The deepest contact, one row; None if bodies are apart, if neither has an inside, or if not wanted.

        Of vertices inside the other body. Where there is none, or all lie on its surface, and the bodies overlap
        (crossed bars, equal bodies, sides that lie in each other), that of the overlap volume.
        """
        if not self.wants_depth or self.relation in ("disjoint", "unknown"):
            return None
        contacts = contacts_from_vertices(vertices_in_surfaces(self.bodies, depth=True))
        if not contacts.depth.any() and self.overlap:
            volume = volume_gradient(*self.bodies, rule="winding")
            contacts = contacts_from_volume(volume, *self.bodies) if volume.volume > 0.0 else contacts
        return contacts.rows([int(np.argmax(contacts.depth))]) if len(contacts) else None

    def __bool__(self) -> bool:
        """Whether they collide."""
        if self.relation == "unknown":
            raise OptionError("whether they collide is unknown: the query was cancelled before it found anything")
        return self.relation != "disjoint"

    def __str__(self) -> str:
        """What was found, a line each."""
        return "\n".join(f"{name:16} {value}" for name, value in self.in_words())

    def in_words(self) -> list[tuple[str, Any]]:
        """What was found, a name and a value for each line; finds the overlap, the depth and the curves."""
        rows: list[tuple[str, Any]] = [("relation", self.relation), ("triangle pairs", len(self.pairs))]
        rows += [(f"  {kind}", count) for kind, count in self.pairs.count_by_kind().items()]
        if self.overlap is not None:
            rows.append(("overlap volume", f"{self.overlap.volume:.6g}, give or take {self.overlap.error:.1g}"))
        elif self.wants_volume and self.relation not in ("disjoint", "unknown"):
            rows.append(("overlap volume", f"not found: {self._why_no_volume()}"))
        if self.deepest is not None:
            rows.append(("deepest", self._way_out(self.deepest)))
        if self.curves is not None and len(self.curves):
            rows.append(("curves", f"{len(self.curves.loops)}, length {self.curves.length:.6g}"))
        without_inside = [name for name, inside in (("a", self.a_has_inside), ("b", self.b_has_inside)) if not inside]
        if without_inside and not len(self.pairs):
            rows.append(("not looked for", f"a body inside {' or '.join(without_inside)}, which is not closed"))
        rows.append(("complete", "yes" if self.pairs.complete else f"no: {self.pairs.reason}"))
        rows.append(("method", f"{self.pairs.method}, {self.pairs.elapsed_ms:.1f} ms"))
        return rows

    def _why_no_volume(self) -> str:
        open_ones = [name for name, inside in (("a", self.a_has_inside), ("b", self.b_has_inside)) if not inside]
        if not open_ones:
            return "a body is open in places, or parts of it are turned inside out"
        return f"{' and '.join(open_ones)} {'is' if len(open_ones) == 1 else 'are'} not closed"

    @staticmethod
    def _way_out(deepest: Contacts) -> str:
        depth = float(deepest.depth[0])
        if depth == 0.0:
            return "0: vertices lie on the other surface, none below it"
        way = ", ".join(f"{value:.3g}" for value in np.round(deepest.normal[0], 3) + 0.0)  # + 0.0: no -0
        return f"{depth:.6g}: b has to move so far along ({way})"

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON; finds the overlap, the depth and the curves."""
        return {
            "relation": self.relation,
            "overlap_volume": None if self.overlap is None else self.overlap.volume,
            "depth": None if self.deepest is None else float(self.deepest.depth[0]),
            "normal": None if self.deepest is None else self.deepest.normal[0].tolist(),
            "curves": None if self.curves is None else len(self.curves.loops),
            "curve_length": None if self.curves is None else self.curves.length,
            "a_has_inside": self.a_has_inside,
            "b_has_inside": self.b_has_inside,
            "pairs_by_kind": self.pairs.count_by_kind(),
            **self.pairs.to_dict(),
        }


def check(a: Any, b: Any, *, method: str = "auto", depth: bool = True, volume: bool = True, **options: Any) -> Report:
    """Tell how ``a`` and ``b`` stand to each other: apart, touching, crossing, or one inside the other.

    The report has the pairs of triangles that meet. Its overlap volume, deepest contact and curves are found when they
    are first read; ``depth=False`` and ``volume=False`` leave them out. All answers are about the bodies as they are
    now, whatever other threads do to them later. Options are those of ``triangle_pairs``; ignored pairs count as not
    meeting.
    """
    wanted = pair_options(options)
    side_a, side_b = wanted.side_a(as_surface(a, name="a")), wanted.side_b(as_surface(b, name="b"))
    bodies = _frozen(side_a), _frozen(side_b)
    limits = {"ignore": wanted.ignore, "max_pairs": wanted.max_pairs, "cancel": wanted.cancel}
    pairs = _find_pairs(method, *bodies, limits)
    inside_a, inside_b = (bool(pieces_in(body).enclosure()) for body in bodies)
    return Report(
        relation=relation_of(pairs, *bodies),
        pairs=pairs,
        a_has_inside=inside_a,
        b_has_inside=inside_b,
        bodies=bodies,
        wants_depth=_as_choice(depth, "depth"),
        wants_volume=_as_choice(volume, "volume"),
    )


def _as_choice(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise OptionError(f"{name} is {value!r}, expected True or False")
    return value


def _frozen(side: Side) -> TriMesh:
    """A body that is what one query sees of another: moved, with its active triangles only, under the same ids."""
    body = TriMesh(side.vertices, side.faces, validate="trust")
    body.remove_triangles(np.setdiff1d(np.arange(len(side.faces)), side.ids))
    return body


def collides(a: Any, b: Any, **options: Any) -> bool:
    """Tell whether ``a`` and ``b`` meet, or one is inside the other, if the outer one is closed.

    Stops at the first pair of triangles that meet. Options are those of ``triangle_pairs``, without ``method``.
    """
    wanted = pair_options(options)
    a, b = as_surface(a, name="a"), as_surface(b, name="b")
    detector = BoxTree(a, b)
    if detector.any_pair(**options):
        return True
    if wanted.ignore is not None and detector.any_pair(**{**options, "ignore": None}):
        return False  # they meet where nobody wants to hear of it
    side_a, side_b = wanted.side_a(a), wanted.side_b(b)
    if _are_apart(side_a, side_b):
        return False
    return has_piece_inside(side_a, enclosure(side_b)) or has_piece_inside(side_b, enclosure(side_a))


def _are_apart(a: Side, b: Side) -> bool:
    """Whether the boxes around two bodies do not overlap."""
    (lo_a, hi_a), (lo_b, hi_b) = (box_around(side.vertices, side.faces[side.ids]) for side in (a, b))
    return bool((lo_a > hi_b).any() or (lo_b > hi_a).any())


def closest_points(a: Any, points: Any, *, inside: bool = True, **options: Any) -> ClosestPoints:
    """Find, for each of ``points`` (n, 3), the nearest point of the surface of ``a`` and the triangle that has it.

    If several triangles have the same computed distance, the lowest id is given. ``inside`` of the result tells exactly
    which points are inside ``a``, as ``points_inside`` does; none are inside an open surface. ``inside=False`` leaves
    that out (None). Where there is no triangle, distances are infinite, triangles -1, points and weights NaN. Points
    that had no answer yet when the query was cancelled have an infinite distance. Options, as in ``triangle_pairs``:
    ``transform_a``, ``active_a``, ``cancel``.
    """
    return find_closest_points(as_surface(a, name="a"), points, _options_of_a(options, "cancel"), inside=inside)


def points_inside(
    a: Any,
    points: Any,
    resolution: int | None = None,
    *,
    rule: Rule = "winding",
    device: DeviceName = "cpu",
    **options: Any,
) -> Bools:
    """Tell which of ``points`` (n, 3) are inside ``a`` or on its surface: exactly, or up to a pixel.

    Pieces have an inside if they are closed as they are indexed, whatever else touches them, or closed once vertices at
    equal positions count as one. Inside is where their winding number is not zero; for pieces whose triangles do not
    agree on which side is outside, where a ray crosses them an odd number of times. A point is inside if either says
    so. Options, as in ``triangle_pairs``: ``transform_a`` and ``active_a``. There is no ``cancel``, since a mask cannot
    say that it is incomplete: ask about fewer points at a time, or use ``closest_points``.

    With a ``resolution``, points are looked up in a layered depth image of that many pixels along each side, which is
    much faster for many points; those that get the wrong answer are nearer to the surface than the longer side of a
    pixel. The body must then be closed and oriented, and may be a depth source, such as a ``Sphere``. ``rule="parity"``
    leaves out what a body covers twice, and ``device="cuda"`` draws the image on a GPU.
    """
    wanted = _options_of_a(options)
    if resolution is not None:
        return points_inside_sampled(a, points, resolution, wanted, rule=rule, device=device)
    if (rule, device) != ("winding", "cpu"):
        raise OptionError(
            f"rule is {rule!r} and device {device!r}, but exact answers go by winding, on the CPU; pass a resolution"
        )
    return find_points_inside(as_surface(a, name="a"), points, wanted)


def distance(a: Any, b: Any, *, upper: float | None = None, **options: Any) -> Distance:
    """Find the smallest distance between the surfaces of ``a`` and ``b``, where it is, and between which triangles.

    It is 0 exactly if triangles meet; for a body inside another it is the distance between their surfaces. With
    ``upper``, bodies that are farther apart than that have an infinite distance, which is found sooner. If several
    pairs of triangles have the same computed distance, the one with the lowest ids is given. Options, as in
    ``triangle_pairs``: ``transform_a``, ``transform_b``, ``active_a``, ``active_b``, ``ignore``, ``cancel``.
    """
    if "max_pairs" in options:
        raise OptionError("max_pairs means nothing for a distance; leave it out")
    return find_distance(as_surface(a, name="a"), as_surface(b, name="b"), pair_options(options), upper=upper)


def _options_of_a(options: dict[str, Any], *more: str) -> PairOptions:
    """Options of a query about one body and points."""
    known = ["transform_a", "active_a", *more]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise OptionError(f"unknown option {', '.join(unknown)}; expected any of {', '.join(known)}")
    return pair_options(options)


def overlap_volume(
    a: Any, b: Any, *, resolution: int = 128, axes: Literal[1, 3] = 1, rule: Rule = "parity", **options: Any
) -> VolumeOverlap:
    """Find the volume that closed bodies ``a`` and ``b`` share, by layered depth images.

    It is exact along rays and sampled across them; ``error`` of the result estimates how far off it may be.

    resolution   pixels along each side of the images
    axes         3 looks along all three axes
    rule         "winding" is for bodies that overlap themselves
    vertices     False does not look for vertices inside, which saves a quarter of the time

    Further options, as in ``triangle_pairs``: ``transform_a``, ``transform_b``, ``active_a``, ``active_b``, ``cancel``.
    """
    if b is None:
        raise OptionError("b is None, but an overlap needs two bodies; LayeredDepth(a) finds that of a with itself")
    return LayeredDepth(a, b, resolution=resolution, axes=axes, rule=rule).query(**options)


def penetrating_vertices(
    bodies: Sequence[Any], *others: Any, depth: Depth = False, edges: bool = False, **options: Any
) -> VertexContacts:
    """Find all vertices inside tetrahedra of any number of bodies, their own included; or inside closed surfaces.

    Bodies are all tet meshes or all triangle meshes; for closed surfaces, the tet is -1.

    depth        True fills ``depth`` and ``direction`` by consistent penetration depth, "local" by the border of the
                 penetrated tet alone
    edges        True adds the edges that pass through faces of the surfaces, which coarse meshes need
    transforms   affine matrices, shape (4, 4), or None: one entry for each body
    active       ids or masks of tets or triangles, or None: one entry for each body
    ignore       pairs of bodies to leave out
    max_pairs, cancel   as in ``triangle_pairs``
    """
    made = bodies_of_one_sort(bodies, *others)
    if isinstance(made[0], TriMesh):
        return vertices_in_surfaces(cast(Any, made), depth=depth, edges=edges, **options)
    return cast(VertexContacts, SpatialHash(made).query(depth=depth, edges=edges, **options))


def sphere_contacts(
    a: Any,
    b: Any = None,
    *,
    budget_ms: float | Literal["auto"] | None = "auto",
    max_tests: int | None = None,
    exact: bool = False,
    **options: Any,
) -> SphereContacts:
    """Find contacts of ``a`` and ``b``, or of ``a`` with itself, by trees of spheres, as good as the budget allows.

    The first question about a body builds its tree, outside the budget; it stays with the body.

    budget_ms    milliseconds that the call may take; None: until the search ends; "auto": 1, or None if ``max_tests``
                 is given, whose answer then does not depend on the clock
    max_tests    tests of pairs of spheres, a budget that gives the same answer on every machine
    exact        True goes on to the triangles below spheres that meet

    Further options are those of ``SphereTree``: ``tree_a``, ``tree_b`` (of ``build_spheres``), ``tracking``,
    ``controls``, ``order``, ``queue_limit``, ``retest``, ``neighbours``; and of its query: ``level``, ``transform_a``,
    ``transform_b``, ``active_a``, ``active_b``, ``ignore``, ``max_pairs``, ``cancel``.
    """
    of_query = ("level", "transform_a", "transform_b", "active_a", "active_b", "ignore", "max_pairs", "cancel")
    asked = {name: options.pop(name) for name in of_query if name in options}
    known = ("tree_a", "tree_b", "tracking", "controls", "order", "queue_limit", "retest", "neighbours")
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise OptionError(f"unknown option {', '.join(unknown)}; expected any of {', '.join([*known, *of_query])}")
    if isinstance(budget_ms, str) and budget_ms == "auto":
        budget_ms = 1.0 if max_tests is None else None
    detector = SphereTree(a, b, exact=exact, **options)
    detector.prepare()
    return detector.query(budget_ms=budget_ms, max_tests=max_tests, **asked)


def proximity(a: Any, b: Any = None, *, margin: float, **options: Any) -> Proximity:
    """Find all vertex-face and edge-edge pairs no farther apart than ``margin``, with distances and weights.

    Without ``b`` these are pairs of ``a`` with itself, apart from those that share a vertex. Vertices and edges count
    once, if a live and active triangle has them. Options are those of ``triangle_pairs`` without ``method`` and
    ``max_pairs``: the answer is never cut. ``ignore`` leaves a pair out if all pairs of triangles that have the two are
    ignored. A query that was cancelled has no pairs.
    """
    return find_proximity(a, b, margin=margin, **options)


def intersection_curves(a: Any, b: Any, **options: Any) -> Curves:
    """Find the segments in which triangles of ``a`` and ``b`` cross, joined into curves by exact topology.

    Triangles that only touch, or lie in one plane, have no segment; ``has_gaps`` tells whether there are any. Triangles
    that share no vertices by index have no common edges, so that the curves of soups stay open. Options are those of
    ``triangle_pairs`` without ``method`` and ``max_pairs``.
    """
    return find_intersection_curves(a, b, **options)


def edge_crossings(a: Any, b: Any, **options: Any) -> EdgeCrossings:
    """Find all edges of ``a`` that pass through faces of ``b``: where, which way, and whether through both insides.

    Options are those of ``triangle_pairs`` without ``method`` and ``max_pairs``. ``ignore`` names pairs of
    triangles: a crossing is left out if every triangle that has the edge is ignored with that face.
    """
    return find_edge_crossings(a, b, **options)
