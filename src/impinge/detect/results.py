"""What queries return: frozen arrays, one row per thing found, sorted so that runs compare equal.

Every result says how it was found (``method``), what that took (``stats``, ``elapsed_ms``) and whether it is
all there is (``complete``; if not, ``reason`` is "budget", "limit" or "cancelled").
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from impinge.arrays import Bools, Floats, Ints, distinct_rows, sorted_unique
from impinge.detect.sphere_pushes import Normals, Pushes, pushes_of
from impinge.errors import OptionError
from impinge.exact import kinds

Reason: TypeAlias = Literal["budget", "limit", "cancelled"]


class Kind(IntEnum):
    """How two triangles meet; see ``impinge.exact.kinds`` for the definition by sets."""

    TOUCHING = kinds.TOUCHING
    CROSSING = kinds.CROSSING
    COPLANAR = kinds.COPLANAR


class Changes(NamedTuple):
    """What became of the contacts since an earlier result; rows of the keys that identify a contact."""

    entered: NDArray[np.int64]
    persisting: NDArray[np.int64]
    left: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """What all results have in common."""

    complete: bool = True
    """Whether nothing was left out."""
    reason: Reason | None = None
    """Why it is not complete."""
    method: str = ""
    """The method that found it."""
    stats: dict[str, Any] = field(default_factory=dict)
    """Counters of the work done, and milliseconds per stage where stages are timed."""
    elapsed_ms: float = 0.0
    """Wall time of the query."""

    _rows: ClassVar[str] = ""
    """The field with one row per thing found."""
    _identity: ClassVar[tuple[str, ...]] = ()
    """The fields whose rows together identify a thing from one frame to the next."""

    def __len__(self) -> int:
        return len(getattr(self, self._rows))

    def __bool__(self) -> bool:
        """Whether anything was found."""
        return len(self) > 0

    def __str__(self) -> str:
        """One line; the arrays are in ``repr``."""
        state = "complete" if self.complete else f"cut short: {self.reason}"
        return f"{type(self).__name__}: {len(self):,} by {self.method}, {state}, {self.elapsed_ms:.3g} ms"

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        """What a notebook shows."""
        printer.text(str(self))

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and strings, ready for JSON; NaN and infinity, which JSON lacks, become None."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self) if f.repr}

    def show(self, path: Any = None) -> Any:
        """Show it in a notebook, else in the browser, to be turned by hand; as one html file if ``path`` is given."""
        from importlib import import_module

        return import_module("impinge.view.live").show(self, path)

    def changes(self, previous: Result) -> Changes:
        """Which things entered, persist and left since ``previous``, a result of the same kind."""
        if type(previous) is not type(self):
            raise OptionError(f"changes compares two {type(self).__name__}, but got a {type(previous).__name__}")
        now, before = self._keys(), previous._keys()
        is_old, is_kept = _rows_in(now, before), _rows_in(before, now)
        return Changes(now[~is_old], now[is_old], before[~is_kept])

    def _keys(self) -> NDArray[np.int64]:
        columns = [np.asarray(getattr(self, name), dtype=np.int64) for name in self._identity]
        return np.concatenate([c[:, None] if c.ndim == 1 else c for c in columns], axis=1)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        plain = value.tolist()
        is_finite = value.dtype.kind != "f" or bool(np.isfinite(value).all())
        return plain if is_finite else _plain(plain)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Result):
        return value.to_dict()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _rows_in(rows: NDArray[np.int64], others: NDArray[np.int64]) -> Bools:
    """Which of ``rows`` occur among ``others``."""
    _, group = distinct_rows(np.concatenate([others, rows]))
    known = np.zeros(len(group) + 1, dtype=np.bool_)
    known[group[: len(others)]] = True
    found: Bools = known[group[len(others) :]]
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class TrianglePairs(Result):
    """Pairs of triangles that meet, sorted by (triangle of a, triangle of b), each once."""

    pairs: Ints
    """Triangle of a, triangle of b (self-collision: i < j), shape (k, 2)."""
    kind: NDArray[np.int8]
    """How they meet, a ``Kind``, shape (k,)."""
    bodies: tuple[Any, ...] = field(default=(), repr=False)
    """The bodies that were asked about, for pictures; not part of ``to_dict``."""

    _rows = "pairs"
    _identity = ("pairs",)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the result without the bodies."""
        return {**self.__dict__, "bodies": ()}

    @property
    def faces_a(self) -> Ints:
        """Sorted ids of a's triangles that occur in a pair."""
        return sorted_unique(self.pairs[:, 0])

    @property
    def faces_b(self) -> Ints:
        """Sorted ids of b's triangles that occur in a pair."""
        return sorted_unique(self.pairs[:, 1])

    def count_by_kind(self) -> dict[str, int]:
        """How many pairs touch, cross and are coplanar."""
        return {kind.name.lower(): int((self.kind == kind).sum()) for kind in Kind}

    def plot(self, path: Any = None) -> Any:
        """Draw the bodies as they are now, their colliding triangles in colour; to a file if ``path`` is given."""
        from importlib import import_module

        return import_module("impinge.view.picture").plot_pairs(self, path)


@dataclass(frozen=True, kw_only=True, eq=False)
class EdgeContacts(Result):
    """Edges of surfaces that pass through faces, of many bodies; sorted by (body, edge, in_body, face), each once."""

    body: Ints
    """The body that the edge belongs to, shape (k,)."""
    edge: Ints
    """Its two vertices, the lower first, shape (k, 2)."""
    in_body: Ints
    """The body that the face belongs to."""
    face: Ints
    """The triangle of that body's surface."""
    kind: NDArray[np.int8]
    """``Kind.CROSSING``: the inside of the edge through the inside of the face; ``Kind.TOUCHING``: through an end."""
    sign: NDArray[np.int8]
    """1 if the edge, from its first vertex on, goes the way of the face's normal, out of its body, else -1."""
    parameter: Floats
    """Where on the edge, 0 at its first vertex to 1 at its second."""
    weights: Floats
    """Weights of the face's corners, shape (k, 3)."""
    is_self: Bools

    _rows = "face"
    _identity = ("body", "edge", "in_body", "face")

    def rows(self, which: Any) -> EdgeContacts:
        """Some of the rows."""
        columns = ("body", "edge", "in_body", "face", "kind", "sign", "parameter", "weights", "is_self")
        return replace(self, **{name: getattr(self, name)[which] for name in columns})


@dataclass(frozen=True, kw_only=True, eq=False)
class VertexContacts(Result):
    """Vertices inside tetrahedra, sorted by (body, vertex, in_body, tet)."""

    body: Ints
    """The body that the vertex belongs to, shape (k,)."""
    vertex: Ints
    in_body: Ints
    """The body that it is inside of."""
    tet: Ints
    """The tet, -1 where the body that it is inside of is a surface."""
    barycentric: Floats
    """Weights of the tet's corners, NaN where there is no tet, shape (k, 4)."""
    is_self: Bools
    """Whether a body's vertex is in its own tet."""
    depth: Floats | None = None
    """How far it is to the surface along ``direction``."""
    direction: Floats | None = None
    """Unit vectors out of the penetrated body, shape (k, 3)."""
    edges: EdgeContacts | None = None
    """Edges that pass through faces, if they were asked for."""
    bodies: tuple[Any, ...] = field(default=(), repr=False)
    """The bodies that were asked about, for pictures; not part of ``to_dict``."""

    _rows = "vertex"
    _identity = ("body", "vertex", "in_body", "tet")

    def rows(self, which: Any) -> VertexContacts:
        """Some of the contacts."""
        columns = ("body", "vertex", "in_body", "tet", "barycentric", "is_self", "depth", "direction")
        given = {name: getattr(self, name) for name in columns}
        return replace(self, **{name: column[which] for name, column in given.items() if column is not None})

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the result without the bodies."""
        return {**self.__dict__, "bodies": ()}

    def plot(self, path: Any = None) -> Any:
        """Draw the bodies as they are now, the vertices inside and their ways out; to a file if ``path`` is given."""
        from importlib import import_module

        return import_module("impinge.view.picture").plot_contacts(self, path)


@dataclass(frozen=True, kw_only=True, eq=False)
class VolumeOverlap(Result):
    """The volume that two closed bodies share, as spans along rays."""

    volume: float
    spans: Floats
    """First and last depth of each span of the overlap, shape (k, 2)."""
    pixel: Ints
    """Column and row of the ray that each span lies on, shape (k, 2)."""
    region: Floats
    """Lowest and highest corner of the box that was looked at, shape (2, 3)."""
    centroid: Floats
    """Centre of the overlap, NaN if there is none, shape (3,)."""
    axis: int = 2
    """The axis that spans lie along; columns go along the next one, rows along the one after."""
    resolution: int = 0
    """Columns and rows of rays within the region."""
    rule: Literal["parity", "winding"] = "parity"
    """What counted as inside."""
    volumes: Floats = field(default_factory=lambda: np.full(3, np.nan))
    """The volume as rays along x, y and z see it, NaN where none were sent; ``volume`` is their mean, shape (3,)."""
    error: float = math.nan
    """How far off the volume may be: an estimate, not a bound."""
    triangles: Ints = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int32))
    """The triangles that each span begins and ends with, -1 of a body that has none, shape (k, 2)."""
    triangle_body: NDArray[np.int8] = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int8))
    """Whose triangles they are: 0 a, 1 b, shape (k, 2)."""
    penetrating_a: Ints | None = None
    """Sorted ids of the vertices of a that are inside b; of one body, of those in its overlap with itself. None if
    the query was told not to look."""
    penetrating_b: Ints | None = None
    """Sorted ids of the vertices of b that are inside a; none of one body."""
    inverted_volume: float = 0.0
    """Volume that is inside out; only asked for of one body."""
    depth_complexity: Ints | None = None
    """How often each ray crosses each body within the region, shape (bodies, rows, columns)."""
    bodies: tuple[Any, ...] = field(default=(), repr=False)
    """The bodies as they were when they were asked about, for pictures; not part of ``to_dict``."""

    _rows = "spans"
    _identity = ("pixel",)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the result without the bodies."""
        return {**self.__dict__, "bodies": ()}

    def plot(self, path: Any = None) -> Any:
        """Draw the spans of the overlap as columns between the bodies; to a file if ``path`` is given."""
        from importlib import import_module

        return import_module("impinge.view.picture").plot_overlap(self, path)

    def __bool__(self) -> bool:
        """Whether they overlap; bodies that only touch do not."""
        return self.volume > 0.0

    def changes(self, previous: Result) -> Changes:
        """Which rays have a span now, and which had one; refused if the rays were not the same."""
        if isinstance(previous, VolumeOverlap):
            same = (self.axis, self.resolution) == (previous.axis, previous.resolution)
            if not same or not np.array_equal(self.region, previous.region):
                raise OptionError(
                    "the overlaps were looked at along different rays, which cannot be compared; compare their "
                    "penetrating_a and penetrating_b"
                )
        return super().changes(previous)


@dataclass(frozen=True, kw_only=True, eq=False)
class SphereContacts(Result):
    """Pairs of spheres that meet; ``certain`` ones only grow with the budget, ``possible`` ones only settle.

    Points, normals and depths are made of the spheres when they are first asked for, not within the query's budget.
    """

    certain: Ints
    """Node of a's tree, node of b's: leaves whose spheres meet, and with the exact stage triangles below them too;
    sorted, shape (k, 2)."""
    possible: Ints
    """Pairs that nothing has ruled out yet and that were not followed to the end, those next in turn first; every
    contact that is not below a certain pair is below one of these, shape (p, 2)."""
    level: int
    """The level that both trees were searched to everywhere; 0 is the root's."""
    pairs: Ints | None = None
    """Triangles that meet, if the exact stage was asked for, sorted, shape (n, 2)."""
    kind: NDArray[np.int8] | None = None
    """How they meet, a ``Kind``."""
    is_self: bool = False
    """Whether it is about one body and itself: both columns are then nodes of its tree."""
    normals: Normals = "facing"
    """Where normals come from: the way that surfaces below spheres face, where these are closed, or the lines of
    "centres", as published."""
    spheres: tuple[Any, ...] = field(default=(), repr=False)
    """The spheres of both trees as the query saw them; not part of ``to_dict``."""
    facing: tuple[Any, ...] = field(default=(), repr=False)
    """The surfaces below them as the query saw them; not part of ``to_dict``."""
    bodies: tuple[Any, ...] = field(default=(), repr=False)
    """The bodies that were asked about, for pictures; not part of ``to_dict``."""

    _rows = "certain"
    _identity = ("certain",)

    @classmethod
    def made_of(cls, fields: dict[str, Any]) -> SphereContacts:
        """As the constructor, in a third of the time, since microseconds count here; of all ``fields``."""
        made = object.__new__(cls)
        object.__setattr__(made, "__dict__", fields)
        return made

    def __bool__(self) -> bool:
        """Whether they may meet: anything certain or possible."""
        return len(self.certain) + len(self.possible) > 0

    @cached_property
    def _certain_contacts(self) -> Pushes:
        return self._contacts_of(self.certain)

    @cached_property
    def _possible_contacts(self) -> Pushes:
        return self._contacts_of(self.possible)

    @property
    def point(self) -> Floats:
        """Contact points of the certain pairs, in the middle of what their spheres share, shape (k, 3)."""
        return self._certain_contacts.point

    @property
    def normal(self) -> Floats:
        """Unit vectors from a to b, between the ways that the surfaces below both spheres face, shape (k, 3).

        Along the line of centres where one of the surfaces is not closed, or after ``published``.
        """
        return self._certain_contacts.normal

    @property
    def depth(self) -> Floats:
        """How far b's sphere has to move along the normal to part from a's, at most both diameters, shape (k,).

        0 of spheres of one body whose triangles share a vertex: these always overlap.
        """
        return self._certain_contacts.depth

    @property
    def possible_point(self) -> Floats:
        """As ``point``, of the possible pairs, shape (p, 3)."""
        return self._possible_contacts.point

    @property
    def possible_normal(self) -> Floats:
        """As ``normal``, of the possible pairs, shape (p, 3)."""
        return self._possible_contacts.normal

    @property
    def possible_depth(self) -> Floats:
        """As ``depth``, of the possible pairs; 0 where spheres that were not compared yet turn out to be apart.

        When a query ends by ``max_tests``, all of them are where the bodies are. When it ends because the time is up,
        one sphere of a pair may not have been visited since its body moved; it counts as it was last known.
        """
        return self._possible_contacts.depth

    @property
    def certain_level(self) -> Ints:
        """The levels of both spheres of each certain pair, shape (k, 2)."""
        return self._levels_of(self.certain)

    @property
    def possible_level(self) -> Ints:
        """The levels of both spheres of each possible pair, shape (p, 2)."""
        return self._levels_of(self.possible)

    def _levels_of(self, pairs: Ints) -> Ints:
        if not self.spheres:
            return np.zeros_like(pairs)
        return np.stack([side.layout.level[pairs[:, k]] for k, side in enumerate(self.spheres)], axis=1, dtype=np.int32)

    def _contacts_of(self, pairs: Ints) -> Pushes:
        """Points, normals and depths (``sphere_pushes``)."""
        if not self.spheres:
            return Pushes(np.zeros((len(pairs), 3)), np.zeros((len(pairs), 3)), np.zeros(len(pairs)))
        most = np.finfo(np.float64).max / 8.0  # radii may be infinite where squares of coordinates are
        a, b = (np.minimum(side.of(pairs[:, k]), most) for k, side in enumerate(self.spheres))
        first, second = (np.minimum(side.of(np.zeros(1, dtype=np.int32))[0], most) for side in self.spheres)
        facing = None
        if self.normals == "facing" and self.facing and all(side.sign for side in self.facing):
            facing = tuple(
                side.of(pairs[:, k], float(root[3])) for k, (side, root) in enumerate(zip(self.facing, (first, second)))
            )
        found = pushes_of(a, b, second[:3] - first[:3], facing)
        if self.is_self:
            found = found._replace(depth=np.where(self.spheres[0].one_body.shares(pairs), 0.0, found.depth))
        return found

    def published(self) -> SphereContacts:
        """The same pairs, with normals along the lines of centres and depths ``r1 + r2 - |O2 - O1|``, as published."""
        return replace(self, normals="centres")

    def to_dict(self) -> dict[str, Any]:
        """As of every result, with points, normals and depths."""
        names = ("point", "normal", "depth", "possible_point", "possible_normal", "possible_depth")
        return super().to_dict() | {name: _plain(getattr(self, name)) for name in names}

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the result without the bodies."""
        return {**self.__dict__, "bodies": ()}

    def plot(self, path: Any = None) -> Any:
        """Draw the bodies as they are now and the spheres of all pairs; to a file if ``path`` is given."""
        from importlib import import_module

        return import_module("impinge.view.picture").plot_spheres(self, path)


@dataclass(frozen=True, kw_only=True, eq=False)
class ClosestPoints(Result):
    """For each query point the nearest point of a surface."""

    distance: Floats
    """Never negative, shape (n,)."""
    point: Floats
    """Shape (n, 3)."""
    triangle: Ints
    barycentric: Floats
    """Weights of the triangle's corners, shape (n, 3)."""
    inside: Bools | None = None
    """Whether the query point is inside, where the surface is closed."""

    _rows = "distance"

    def _keys(self) -> NDArray[np.int64]:
        """(point, triangle): a point persists while the same triangle is nearest to it."""
        return np.stack([np.arange(len(self)), self.triangle], axis=1, dtype=np.int64)


class _OneDistance:
    """What results that are a single distance have in common."""

    distance: float

    def __len__(self) -> int:
        return 1

    def __bool__(self) -> bool:
        """Whether they meet."""
        return self.distance == 0.0

    def changes(self, previous: Result) -> Changes:
        """Refuse: a distance is one number."""
        raise OptionError(f"a distance has no rows to compare; subtract the numbers (got a {type(previous).__name__})")


@dataclass(frozen=True, kw_only=True, eq=False)
class Distance(_OneDistance, Result):
    """The smallest distance of two bodies, 0 if they meet."""

    distance: float
    """Infinite if one of them has no triangles, or all are farther than was asked for."""
    point_a: Floats
    """The nearest point of a, NaN if there is none, shape (3,)."""
    point_b: Floats
    triangles: Ints
    """The triangles that these points belong to, -1 if there are none, shape (2,)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class HullDistance(_OneDistance, Result):
    """The distance of two convex hulls, 0 if they meet."""

    distance: float
    point_a: Floats
    """The point of a's hull nearest to b's; a common point if they meet, shape (3,)."""
    point_b: Floats
    direction: Floats
    """Unit vector from a to b: moving b along it by ``penetration`` separates hulls that meet, shape (3,)."""
    penetration: float = 0.0
    """How deep at most they are in each other, 0 if they do not meet; the least depth may be less."""
    iterations: int = 0
    """Steps of GJK."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Proximity(Result):
    """Vertex-face and edge-edge pairs no farther apart than a margin; column 0 is of a, column 1 of b.

    Of one body (self-proximity) b is a: all vertex-face pairs are in ``vertex_face``, and of two edges the lower comes
    first. Rows are unique and sorted.
    """

    margin: float
    """The largest distance that counts."""
    vertex_face: Ints
    """Vertex of a, face of b, shape (k, 2)."""
    vertex_face_distance: Floats
    vertex_face_weights: Floats
    """Weights of the face's corners at its nearest point, shape (k, 3)."""
    face_vertex: Ints
    """Face of a, vertex of b, shape (n, 2); none of one body."""
    face_vertex_distance: Floats
    face_vertex_weights: Floats
    """Weights of the face's corners at its nearest point, shape (n, 3)."""
    edge_edge: Ints
    """Edge of a, edge of b, rows of ``edges_a`` and ``edges_b``, shape (m, 2)."""
    edge_edge_distance: Floats
    edge_edge_weights: Floats
    """Where the nearest points are on each edge, 0 at its first vertex to 1 at its second, shape (m, 2)."""
    edges_a: Ints
    """Edges of a's live and active triangles: two vertices, the lower first; sorted, shape (e, 2)."""
    edges_b: Ints
    """The same of b; of one body the same array."""

    _identity = ("vertex_face",)
    _rows = "vertex_face"

    def __len__(self) -> int:
        return len(self.vertex_face) + len(self.face_vertex) + len(self.edge_edge)

    def _keys(self) -> NDArray[np.int64]:
        """(0, vertex, face, -1, -1), (1, face, vertex, -1, -1) or (2, and the vertices of two edges)."""
        edges = np.concatenate([self.edges_a[self.edge_edge[:, 0]], self.edges_b[self.edge_edge[:, 1]]], axis=1)
        rows = [np.pad(pairs, ((0, 0), (0, 2)), constant_values=-1) for pairs in (self.vertex_face, self.face_vertex)]
        sort = np.repeat([0, 1, 2], [len(self.vertex_face), len(self.face_vertex), len(edges)])
        return np.concatenate([sort[:, None], np.concatenate([*rows, edges])], axis=1, dtype=np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class EdgeCrossings(Result):
    """Edges of a that pass through faces of b, sorted by (edge, face), each once."""

    edge: Ints
    """The two vertices of a's edge, the lower first, shape (k, 2)."""
    face: Ints
    """The face of b, shape (k,)."""
    kind: NDArray[np.int8]
    """``Kind.CROSSING``: the inside of the edge through the inside of the face; ``Kind.TOUCHING``: through an end."""
    sign: NDArray[np.int8]
    """1 if the edge, from its first vertex on, goes the way of the face's normal, -1 if against it."""
    parameter: Floats
    """Where on the edge, 0 at its first vertex to 1 at its second."""
    weights: Floats
    """Weights of the face's corners, shape (k, 3)."""

    _rows = "face"
    _identity = ("edge", "face")


@dataclass(frozen=True, kw_only=True, eq=False)
class Curves(Result):
    """The segments in which triangles cross, sorted by pair, and the curves that they form."""

    segments: Floats
    """Both ends of each segment, along the cross product of the normals of a and b, shape (k, 2, 3)."""
    pairs: Ints
    """The triangles that meet in each segment, shape (k, 2)."""
    ends: Ints
    """Numbers of both ends: segments that share a number are joined there, shape (k, 2)."""
    loops: list[Ints]
    """Segments of each curve, in order; open curves first."""
    closed: Bools
    """Which curves end where they began, shape (len(loops),)."""
    has_gaps: bool = False
    """Whether pairs that touch or lie in one plane were left out: curves may be open, or missing, where they do."""
    bodies: tuple[Any, ...] = field(default=(), repr=False)
    """Both bodies as they were when they crossed, for pictures; not part of ``to_dict``."""

    _rows = "segments"
    _identity = ("pairs",)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the result without the bodies."""
        return {**self.__dict__, "bodies": ()}

    @property
    def length(self) -> float:
        """Length of all curves together."""
        return float(np.linalg.norm(self.segments[:, 1] - self.segments[:, 0], axis=1).sum())

    def polyline(self, loop: int) -> Floats:
        """The points along a curve, one more than it has segments; of a closed one the last is the first."""
        rows = self.loops[loop]
        ends = self.ends[rows]
        forward = np.ones(len(rows), dtype=np.bool_)
        if len(rows) > 1:
            forward[0] = ends[0, 1] in ends[1]
        for i in range(1, len(rows)):
            forward[i] = ends[i, 0] == ends[i - 1, int(forward[i - 1])]
        first = self.segments[rows[0], 1 - int(forward[0])]
        return np.concatenate([first[None], self.segments[rows, forward.astype(np.int64)]])

    def plot(self, path: Any = None) -> Any:
        """Draw both bodies as they were when they crossed, and the curves; to a file if ``path`` is given."""
        from importlib import import_module

        return import_module("impinge.view.picture").plot_curves(self, path)
