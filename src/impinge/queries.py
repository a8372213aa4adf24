"""One-shot queries: build what is needed, answer, forget; structures stay with the bodies.

Each query imports the method that answers it, and no other: importing all methods takes longer than the first query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import ArrayLike

from impinge.budget import QUEUE_LIMIT
from impinge.checks import Bools, Cancel, Floats, as_choice, as_flag, as_whole, shown
from impinge.detect.common.pair_query import PairOptions, QueryBody
from impinge.errors import MeshError, OptionError
from impinge.mesh.body import BodyLike, SurfaceLike, as_surface
from impinge.mesh.tri_mesh import TriMesh, box_around

if TYPE_CHECKING:
    from impinge.contact.contacts import Contacts
    from impinge.detect.common.narrow_phase import Neighbours
    from impinge.detect.common.nearest_results import Curves
    from impinge.detect.common.pair_detector import PairDetector
    from impinge.detect.common.results import TrianglePairs, VertexContacts
    from impinge.detect.depth.vertex_query import Depth
    from impinge.detect.layered_depth.detector import DeviceName, Rule
    from impinge.detect.layered_depth.sources import DepthSource
    from impinge.detect.layered_depth.volume_overlap import VolumeOverlap
    from impinge.detect.proximity.relation import Relation
    from impinge.detect.sphere_tree.contacts import SphereContacts
    from impinge.detect.sphere_tree.detector import Order
    from impinge.detect.sphere_tree.hierarchy import SphereHierarchy
    from impinge.detect.sphere_tree.search.tracked_spheres import EmbeddedBody
    from impinge.detect.sphere_tree.track.tracking import Tracking

PairMethod: TypeAlias = Literal["auto", "box_tree", "breadth_first", "brute_force", "gjk_cut", "spatial_hash"]
PAIR_METHODS: tuple[str, ...] = get_args(PairMethod)[1:]
"""Methods that find all intersecting triangle pairs."""


def pair_detector(method: str) -> type[PairDetector]:
    """Import the detector of a method."""
    if not isinstance(method, str):
        raise OptionError(f"method is {shown(method)}, expected 'auto' or one of {', '.join(map(repr, PAIR_METHODS))}")
    if method == "box_tree":
        from impinge.detect.box_tree.detector import BoxTree

        return BoxTree
    if method == "breadth_first":
        from impinge.detect.breadth_first.detector import BreadthFirst

        return BreadthFirst
    if method == "brute_force":
        from impinge.detect.common.brute_force import BruteForce

        return BruteForce
    if method == "gjk_cut":
        from impinge.detect.gjk_cut.detector import GjkCut

        return GjkCut
    if method == "spatial_hash":
        from impinge.detect.spatial_hash.triangles import HashedTriangles

        return HashedTriangles
    raise OptionError(f"method is {shown(method)}, expected 'auto' or one of {', '.join(map(repr, PAIR_METHODS))}")


def find_pairs(
    method: PairMethod, a: TriMesh, b: TriMesh | None, options: PairOptions, neighbours: Neighbours = "exact"
) -> TrianglePairs:
    """All pairs by a method; ``"auto"`` chooses one and says in ``stats`` which, and why."""
    if not isinstance(method, str) or method != "auto":
        return pair_detector(method)(a, b, neighbours=neighbours).find(options)
    from impinge.world.auto import choose_pairs, features

    chosen, why = choose_pairs(features(a, b, options, remember=True))
    found = pair_detector(chosen)(a, b, neighbours=neighbours).find(options)
    found.stats.update(chosen=chosen, why=why)
    return found


def triangle_pairs(
    a: SurfaceLike,
    b: SurfaceLike,
    *,
    method: PairMethod = "auto",
    transform_a: ArrayLike | None = None,
    transform_b: ArrayLike | None = None,
    active_a: ArrayLike | None = None,
    active_b: ArrayLike | None = None,
    ignore: ArrayLike | None = None,
    max_pairs: int | None = None,
    cancel: Cancel | None = None,
) -> TrianglePairs:
    """Find all pairs of triangles, one of ``a`` and one of ``b``, that intersect; touching counts.

    Parameters
    ----------
    a, b : TriMesh, TetMesh, tuple (vertices, elements), mesh of trimesh, pyvista or meshio, or path
        The bodies. For a tet mesh, its boundary is meant.
    method : {"auto", "box_tree", "gjk_cut", "breadth_first", "spatial_hash", "brute_force"}
        All methods give the same pairs. "auto" chooses by a model of costs and says in ``stats`` of the result which
        method it chose, and why.
    transform_a, transform_b : array_like, shape (4, 4), optional
        Affine matrices that move the bodies for this query.
    active_a, active_b : array_like, optional
        Ids or masks of the triangles that take part.
    ignore : array_like, shape (k, 2), optional
        Pairs of triangles to leave out.
    max_pairs : int, optional
        Most pairs to return; a truncated result is not ``complete``.
    cancel : object with ``is_set()``, optional
        Stops the query when set, such as a ``threading.Event``.

    Returns
    -------
    TrianglePairs
        Sorted pairs, their kinds, and whether they are complete.

    Raises
    ------
    MeshError
        If a body is not a valid mesh.
    OptionError
        If an option is out of its range.

    Examples
    --------
    >>> from impinge import shapes, triangle_pairs
    >>> found = triangle_pairs(shapes.box(1.0), shapes.box(1.0, center=(0.5, 0.5, 0.5)))
    >>> found.complete, found.pairs.shape[1]
    (True, 2)
    """
    options = PairOptions(transform_a, transform_b, active_a, active_b, ignore, max_pairs, cancel)
    return find_pairs(method, as_surface(a, name="a"), as_surface(b, name="b"), options)


def self_pairs(
    a: SurfaceLike,
    *,
    neighbours: Neighbours = "exact",
    method: PairMethod = "auto",
    transform_a: ArrayLike | None = None,
    active_a: ArrayLike | None = None,
    ignore: ArrayLike | None = None,
    max_pairs: int | None = None,
    cancel: Cancel | None = None,
) -> TrianglePairs:
    """Find all pairs i < j of triangles of one body that intersect beyond the vertices that they share.

    Parameters
    ----------
    a : body
        As in ``triangle_pairs``.
    neighbours : {"exact", "skip"}
        "skip" leaves out every pair that shares a vertex.
    method, transform_a, active_a, ignore, max_pairs, cancel
        As in ``triangle_pairs``.

    Returns
    -------
    TrianglePairs
        Sorted pairs, their kinds, and whether they are complete.
    """
    options = PairOptions(transform_a, None, active_a, None, ignore, max_pairs, cancel, is_self=True)
    return find_pairs(method, as_surface(a, name="a"), None, options, neighbours)


@dataclass(frozen=True, kw_only=True)
class Report:
    """How two bodies stand to each other, and the evidence."""

    relation: Relation
    """"disjoint"; "touching": they meet and share no volume; "overlapping": closed bodies share volume; "crossing":
    triangles cross where no volume is defined; "a in b" or "b in a": no triangles meet; "unknown": the query was
    cancelled before it found anything."""
    pairs: TrianglePairs
    """Every pair of triangles that meet."""
    a_has_inside: bool
    """Whether a piece of ``a`` is closed: a body inside it is then found."""
    b_has_inside: bool
    bodies: tuple[TriMesh, ...] = field(default=(), repr=False)
    """Both bodies as the query saw them: moved, with their active triangles."""
    wants_depth: bool = True
    wants_volume: bool = True
    resolution: int = 128
    """Pixels along each side of the images that measure the overlap volume."""

    @cached_property
    def curves(self) -> Curves | None:
        """The curves in which the surfaces cross; None if the query was cut short."""
        from impinge.detect.proximity.intersection_curves import intersection_curves

        return intersection_curves(*self.bodies) if self.pairs.complete else None

    @cached_property
    def overlap(self) -> VolumeOverlap | None:
        """The overlap volume; None if a body is not closed and oriented, if nothing is known, or if not wanted.

        What a body covers twice is inside of it, as it is for the relation, and counts once.
        """
        if not self.wants_volume or self.relation == "unknown" or not (self.a_has_inside and self.b_has_inside):
            return None
        from impinge.detect.layered_depth.detector import LayeredDepth

        try:
            return LayeredDepth(*self.bodies, resolution=self.resolution, rule="winding").query()
        except MeshError:  # open somewhere, or turned inside out in parts: there is no volume to speak of
            return None

    @cached_property
    def deepest(self) -> Contacts | None:
        """The deepest contact, one row; None if bodies are apart, if neither has an inside, or if not wanted.

        Its depth is the distance of a vertex inside the other body to that body's surface, along the normal. Where
        there is no such vertex, or all lie on the surface, and the bodies overlap (crossed bars, equal bodies, sides
        that lie in each other), it is the overlap volume over the rate at which it shrinks along the normal. Neither
        is the way to separate the bodies, which ``separation`` gives.
        """
        if not self.wants_depth or self.relation in ("disjoint", "unknown"):
            return None
        from impinge.contact.contacts import contacts_from_vertices, contacts_from_volume
        from impinge.contact.volume_gradient import volume_gradient
        from impinge.detect.depth.vertices_in_surfaces import vertices_in_surfaces

        contacts = contacts_from_vertices(vertices_in_surfaces(self.bodies, depth=True))
        if not contacts.depth.any() and self.overlap:
            volume = volume_gradient(*self.bodies, resolution=self.resolution, rule="winding")
            contacts = contacts_from_volume(volume, *self.bodies) if volume.volume > 0.0 else contacts
        return contacts.rows([int(np.argmax(contacts.depth))]) if len(contacts) else None

    @cached_property
    def separation(self) -> Floats | None:
        """A translation of b that moves it clear of a, shape (3,): ``b.vertices + separation`` and a are disjoint.

        Verified by the exact test, and the shortest of those along contact normals and axes, not of all. None if the
        bodies are disjoint, if the query was cut short, if depths are not wanted, or if none was found.
        """
        if not self.wants_depth or not self.pairs.complete or self.relation in ("disjoint", "unknown"):
            return None
        from impinge.contact.separation import separating_translation

        a, b = self.bodies
        return separating_translation(a, b, np.zeros((0, 3)) if self.deepest is None else self.deepest.normal)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the fields alone; curves, overlap, deepest contact and separation are computed again."""
        return {f.name: self.__dict__[f.name] for f in fields(self)}

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
            rows.append(("overlap volume", f"{self.overlap.volume:.6g} ± {self.overlap.error:.1g}"))
        elif self.wants_volume and self.relation not in ("disjoint", "unknown"):
            rows.append(("overlap volume", f"not found: {self._why_no_volume()}"))
        if self.deepest is not None:
            rows.append(("deepest", self._depth_in_words(self.deepest)))
        if self.separation is not None:
            vector = ", ".join(f"{value:.6g}" for value in self.separation)
            rows.append(("separation", f"({vector}): b moved by this is clear of a, verified"))
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
    def _depth_in_words(deepest: Contacts) -> str:
        from impinge.contact.contacts import ContactKind

        depth = float(deepest.depth[0])
        if depth == 0.0:
            return "0: vertices lie on the other surface, none below it"
        way = ", ".join(f"{value:.3g}" for value in np.round(deepest.normal[0], 3) + 0.0)  # + 0.0: no -0
        if deepest.kind[0] == ContactKind.VOLUME:
            return f"{depth:.6g}: overlap volume over its rate of change along ({way})"
        return f"{depth:.6g}: depth of a vertex below the other surface, along ({way})"

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON; finds the overlap, the depth and the curves."""
        return {
            "relation": self.relation,
            "overlap_volume": None if self.overlap is None else self.overlap.volume,
            "depth": None if self.deepest is None else float(self.deepest.depth[0]),
            "normal": None if self.deepest is None else self.deepest.normal[0].tolist(),
            "separation": None if self.separation is None else self.separation.tolist(),
            "curves": None if self.curves is None else len(self.curves.loops),
            "curve_length": None if self.curves is None else self.curves.length,
            "a_has_inside": self.a_has_inside,
            "b_has_inside": self.b_has_inside,
            "pairs_by_kind": self.pairs.count_by_kind(),
            **self.pairs.to_dict(),
        }


def check(
    a: SurfaceLike,
    b: SurfaceLike,
    *,
    method: PairMethod = "auto",
    depth: bool = True,
    volume: bool = True,
    resolution: int = 128,
    transform_a: ArrayLike | None = None,
    transform_b: ArrayLike | None = None,
    active_a: ArrayLike | None = None,
    active_b: ArrayLike | None = None,
    ignore: ArrayLike | None = None,
    max_pairs: int | None = None,
    cancel: Cancel | None = None,
) -> Report:
    """Find the relation of two bodies: disjoint, touching, overlapping, crossing, or one inside the other.

    Parameters
    ----------
    a, b : body
        As in ``triangle_pairs``.
    depth, volume : bool
        False leaves out the deepest contact and the separation, or the overlap volume.
    resolution : int
        Pixels along each side of the images that measure the overlap volume, 1 to 8192.
    method, transform_a, transform_b, active_a, active_b, ignore, max_pairs, cancel
        As in ``triangle_pairs``; ignored pairs do not count as meeting.

    Returns
    -------
    Report
        The relation and the pairs of triangles that meet. Overlap volume, deepest contact, separation and curves are
        computed at the first access, for the bodies as they were at this call.
    """
    depth, volume = as_flag(depth, "depth"), as_flag(volume, "volume")
    as_whole(resolution, "resolution", most=8192)
    options = PairOptions(transform_a, transform_b, active_a, active_b, ignore, max_pairs, cancel)
    side_a, side_b = options.query_bodies(as_surface(a, name="a"), as_surface(b, name="b"))
    bodies = _frozen(side_a), _frozen(side_b)
    pairs = find_pairs(method, *bodies, PairOptions(ignore=ignore, max_pairs=max_pairs, cancel=cancel))
    return report_on(pairs, *bodies, depth=depth, volume=volume, resolution=resolution)


def report_on(
    pairs: TrianglePairs, a: TriMesh, b: TriMesh, *, depth: bool = True, volume: bool = True, resolution: int = 128
) -> Report:
    """The report on two bodies that do not change while it is used, from the pairs of triangles that meet."""
    from impinge.detect.proximity.relation import pieces_in, relation_of

    inside_a, inside_b = (bool(pieces_in(body).enclosure()) for body in (a, b))
    return Report(
        relation=relation_of(pairs, a, b),
        pairs=pairs,
        a_has_inside=inside_a,
        b_has_inside=inside_b,
        bodies=(a, b),
        wants_depth=depth,
        wants_volume=volume,
        resolution=resolution,
    )


def _frozen(side: QueryBody) -> TriMesh:
    """A body that is what one query sees of another: moved, with its active triangles only, under the same ids."""
    body = TriMesh(side.vertices, side.faces, validate="trust")
    body.remove_triangles(np.setdiff1d(np.arange(len(side.faces)), side.ids))
    return body


def collides(
    a: SurfaceLike,
    b: SurfaceLike,
    *,
    transform_a: ArrayLike | None = None,
    transform_b: ArrayLike | None = None,
    active_a: ArrayLike | None = None,
    active_b: ArrayLike | None = None,
    ignore: ArrayLike | None = None,
    cancel: Cancel | None = None,
) -> bool:
    """Whether two bodies meet, or one is inside the other, if the outer one is closed.

    Stops at the first pair of triangles that meet. Options are those of ``triangle_pairs``.
    """
    from impinge.detect.box_tree.detector import BoxTree
    from impinge.detect.common.containment import enclosure, has_piece_inside

    options = PairOptions(transform_a, transform_b, active_a, active_b, ignore, None, cancel)
    a, b = as_surface(a, name="a"), as_surface(b, name="b")
    detector = BoxTree(a, b)
    if detector.any_found(options):
        return True
    if ignore is not None and detector.any_found(PairOptions(transform_a, transform_b, active_a, active_b)):
        return False  # they meet in ignored pairs only
    side_a, side_b = options.query_bodies(a, b)
    if _are_apart(side_a, side_b):
        return False
    return has_piece_inside(side_a, enclosure(side_b)) or has_piece_inside(side_b, enclosure(side_a))


def _are_apart(a: QueryBody, b: QueryBody) -> bool:
    """Whether the boxes around two bodies do not overlap."""
    (lo_a, hi_a), (lo_b, hi_b) = (box_around(side.vertices, side.faces[side.ids]) for side in (a, b))
    return bool((lo_a > hi_b).any() or (lo_b > hi_a).any())


def points_inside(
    a: SurfaceLike | DepthSource,
    points: ArrayLike,
    resolution: int | None = None,
    *,
    rule: Rule = "winding",
    device: DeviceName = "cpu",
    transform_a: ArrayLike | None = None,
    active_a: ArrayLike | None = None,
) -> Bools:
    """Find which points are inside a body or on its surface: exactly, or up to a pixel.

    Pieces have an inside if they are closed as they are indexed, or closed once vertices at equal positions count as
    one. Inside is where their winding number is not zero; for pieces whose triangles do not agree on which side is
    outside, where a ray crosses them an odd number of times. There is no ``cancel``: a mask cannot say that it is
    incomplete.

    Parameters
    ----------
    a : body
        As in ``triangle_pairs``; with a ``resolution`` also a depth source, such as a ``Sphere``.
    points : array_like, shape (n, 3)
        Query points.
    resolution : int, optional
        Look points up in a layered depth image of that many pixels along each side: much faster for many points.
        Wrong answers are nearer to the surface than the longer side of a pixel. The body must be closed and oriented.
    rule : {"winding", "parity"}
        With a ``resolution``: "parity" leaves out what a body covers twice.
    device : {"cpu", "cuda"}
        With a ``resolution``: where the image is drawn.
    transform_a, active_a
        As in ``triangle_pairs``.

    Returns
    -------
    ndarray of bool, shape (n,)
        True for points inside or on the surface.
    """
    options = PairOptions(transform_a, active_a=active_a)
    if resolution is not None:
        from impinge.detect.layered_depth.points import points_inside_sampled

        return points_inside_sampled(a, points, resolution, options, rule=rule, device=device)
    rule, device = as_choice(rule, "rule", ("winding", "parity")), as_choice(device, "device", ("cpu", "cuda"))
    if (rule, device) != ("winding", "cpu"):
        raise OptionError(
            f"rule is {rule!r} and device {device!r}, but exact answers go by winding, on the CPU; pass a resolution"
        )
    from impinge.detect.proximity.points_inside import points_inside as find_points_inside

    surface = as_surface(cast(SurfaceLike, a), name="a")
    return find_points_inside(surface, points, transform=options.transform_a, active=active_a)


def overlap_volume(
    a: SurfaceLike | DepthSource,
    b: SurfaceLike | DepthSource,
    *,
    resolution: int = 128,
    axes: Literal[1, 3] = 1,
    rule: Rule = "parity",
    vertices: bool = True,
    transform_a: ArrayLike | None = None,
    transform_b: ArrayLike | None = None,
    active_a: ArrayLike | None = None,
    active_b: ArrayLike | None = None,
    cancel: Cancel | None = None,
) -> VolumeOverlap:
    """Find the volume that two closed bodies share, by layered depth images.

    The volume is exact along rays and sampled across them; ``error`` of the result estimates the difference.

    Parameters
    ----------
    a, b : body
        As in ``triangle_pairs``, closed and consistently oriented; or a depth source, such as a ``Sphere``.
    resolution : int
        Pixels along each side of the images, 1 to 8192.
    axes : {1, 3}
        1 samples along the axis with the shortest region, 3 along all axes.
    rule : {"parity", "winding"}
        "winding" is for bodies that overlap themselves.
    vertices : bool
        False leaves out the vertices inside the other body, which saves a quarter of the time.
    transform_a, transform_b, active_a, active_b, cancel
        As in ``triangle_pairs``; active triangles must be closed by themselves.

    Returns
    -------
    VolumeOverlap
        Volume, error estimate, spans along the rays, and vertices inside.

    Raises
    ------
    MeshError
        If a body is open or inconsistently oriented.
    OptionError
        If an option is out of its range, or ``b`` is None.

    Examples
    --------
    >>> from impinge import overlap_volume, shapes
    >>> overlap_volume(shapes.box(1.0), shapes.box(1.0, center=(0.5, 0.0, 0.0))).volume
    0.5
    """
    if b is None:
        raise OptionError("b is None, but an overlap needs two bodies; LayeredDepth(a) finds that of a with itself")
    from impinge.detect.layered_depth.detector import LayeredDepth

    return LayeredDepth(a, b, resolution=resolution, axes=axes, rule=rule).query(
        vertices=vertices,
        transform_a=transform_a,
        transform_b=transform_b,
        active_a=active_a,
        active_b=active_b,
        cancel=cancel,
    )


def penetrating_vertices(
    bodies: Sequence[BodyLike],
    *others: NoReturn,
    depth: Depth = False,
    edges: bool = False,
    transforms: Sequence[ArrayLike | None] | None = None,
    active: Sequence[ArrayLike | None] | None = None,
    ignore: ArrayLike | None = None,
    max_pairs: int | None = None,
    cancel: Cancel | None = None,
) -> VertexContacts:
    """Find all vertices inside tetrahedra of any number of bodies, their own included; or inside closed surfaces.

    Several surfaces are tested against one another, and one surface alone against itself: it must be closed and
    oriented. Its vertices are inside if the surface around them lies in the body, or if they lie on another part of it.

    Parameters
    ----------
    bodies : sequence of TetMesh or of TriMesh
        The bodies, all of one kind; also tuples (vertices, elements), meshes of other libraries, paths.
    depth : {False, True, "local"}
        Fill ``depth`` and ``direction``: True by consistent penetration depth, "local" from the border of the
        penetrated tet alone. Not with ``active``.
    edges : bool
        Add the edges that pass through faces of the surfaces, which coarse meshes need. Not with ``active``.
    transforms : sequence of array_like, shape (4, 4), or None, optional
        Affine matrices that move the bodies for this query, one entry for each body.
    active : sequence of array_like or None, optional
        Ids or masks of the tets or triangles that take part, one entry for each body.
    ignore : array_like, shape (k, 2), optional
        Pairs of bodies to leave out, in either order; a body twice for itself.
    max_pairs, cancel
        As in ``triangle_pairs``.

    Returns
    -------
    VertexContacts
        Sorted by (body, vertex, in_body, tet); the tet is -1 for closed surfaces.

    Raises
    ------
    MeshError
        If the bodies are of two kinds, or if one surface alone is open or inconsistently oriented.
    """
    from impinge.detect.depth.vertex_query import VertexQuery, bodies_of_one_kind
    from impinge.detect.depth.vertices_in_surfaces import find_in_surfaces

    tets, surfaces = bodies_of_one_kind(bodies, *others)
    query = VertexQuery(tets or surfaces, transforms, active, ignore, max_pairs, cancel, depth, edges)
    if not tets:
        return find_in_surfaces(surfaces, query)
    from impinge.detect.spatial_hash.detector import SpatialHash

    return SpatialHash(tets).find(query)


def sphere_contacts(
    a: SurfaceLike | EmbeddedBody,
    b: SurfaceLike | EmbeddedBody | None = None,
    *,
    budget_ms: float | Literal["auto"] | None = "auto",
    max_tests: int | None = None,
    exact: bool = False,
    tree_a: SphereHierarchy | None = None,
    tree_b: SphereHierarchy | None = None,
    tracking: Tracking | Literal["auto"] = "auto",
    controls: int = 8,
    order: Order = "breadth",
    queue_limit: int = QUEUE_LIMIT,
    neighbours: Neighbours = "exact",
    level: int | None = None,
    transform_a: ArrayLike | None = None,
    transform_b: ArrayLike | None = None,
    active_a: ArrayLike | None = None,
    active_b: ArrayLike | None = None,
    ignore: ArrayLike | None = None,
    max_pairs: int | None = None,
    cancel: Cancel | None = None,
) -> SphereContacts:
    """Find contacts of ``a`` and ``b``, or of ``a`` with itself, by sphere trees, within a budget.

    The first call with a body builds its tree, outside the budget; it stays with the body.

    Parameters
    ----------
    a, b : body
        As in ``triangle_pairs``, or ``SoftBody``. Without ``b``, ``a`` against itself.
    budget_ms : float, "auto" or None
        Milliseconds that the call may take; None for no limit. "auto" is 1, or None with ``max_tests``, whose result
        then does not depend on the clock.
    max_tests : int, optional
        Tests of pairs, a budget with the same result on every machine.
    exact : bool
        Continue to the triangles below spheres that meet.
    tree_a, tree_b, tracking, controls, order, queue_limit, neighbours
        As in ``SphereTree``.
    level, transform_a, transform_b, active_a, active_b, ignore, max_pairs, cancel
        As in ``SphereTree.query``.

    Returns
    -------
    SphereContacts
        Certain and possible pairs of spheres; with ``exact``, pairs of triangles.

    Examples
    --------
    >>> import impinge
    >>> a, b = impinge.shapes.icosphere(2), impinge.shapes.icosphere(2, center=(1.5, 0.0, 0.0))
    >>> found = impinge.sphere_contacts(a, b, max_tests=100_000, exact=True)
    >>> found.complete, len(found.pairs) == len(impinge.triangle_pairs(a, b))
    (True, True)
    """
    from impinge.detect.sphere_tree.detector import SphereTree

    if isinstance(budget_ms, str) and budget_ms == "auto":
        budget_ms = 1.0 if max_tests is None else None
    detector = SphereTree(
        a, b, tree_a=tree_a, tree_b=tree_b, tracking=tracking, controls=controls, exact=exact, order=order,
        queue_limit=queue_limit, neighbours=neighbours,
    )  # fmt: skip
    detector.prepare()
    return detector.query(
        budget_ms=budget_ms, max_tests=max_tests, level=level, transform_a=transform_a, transform_b=transform_b,
        active_a=active_a, active_b=active_b, ignore=ignore, max_pairs=max_pairs, cancel=cancel,
    )  # fmt: skip
