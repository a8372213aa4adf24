"""Results of proximity queries: closest points, distances, pairs within a margin, intersection curves."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Bools, Floats, Ints, as_whole
from impinge.detect.common.query_body import QueryBody
from impinge.detect.common.results import Changes, PathLike, Picture, Result
from impinge.errors import OptionError


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
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
    """Base of results that are a single distance."""

    distance: float

    def __len__(self) -> int:
        return 1

    def __bool__(self) -> bool:
        """Whether they meet."""
        return self.distance == 0.0

    def changes(self, previous: Result) -> Changes:
        """Refuse: a distance is one number."""
        raise OptionError(f"a distance has no rows to compare; subtract the numbers (got a {type(previous).__name__})")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Distance(_OneDistance, Result):
    """The smallest distance of two bodies, 0 if they meet."""

    distance: float
    """Infinite if a body has no triangles, or if the bodies are farther apart than ``upper``."""
    upper: float = math.inf
    """The largest distance that the query looked for."""
    point_a: Floats
    """The nearest point of a, NaN if there is none, shape (3,)."""
    point_b: Floats
    triangles: Ints
    """The triangles that these points belong to, -1 if there are none, shape (2,)."""

    def _found(self) -> str:
        if not self.complete:
            return "unknown"
        return f"above {self.upper:.6g}" if self.distance > self.upper else f"{self.distance:.6g}"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HullDistance(_OneDistance, Result):
    """The distance of two convex hulls, 0 if they meet."""

    distance: float
    point_a: Floats
    """The point of a's hull nearest to b's; a common point if they meet, shape (3,)."""
    point_b: Floats
    direction: Floats
    """Unit vector from a to b: moving b along it by ``penetration`` separates hulls that meet, shape (3,)."""
    penetration: float = 0.0
    """Upper bound of the penetration depth, 0 if the hulls are disjoint."""
    iterations: int = 0
    """Steps of GJK."""

    def _found(self) -> str:
        return f"0, penetration at most {self.penetration:.6g}" if self else f"{self.distance:.6g}"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
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
    """Position of the nearest points on each edge, 0 at its first vertex to 1 at its second, shape (m, 2)."""
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


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
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
    """Position on the edge, 0 at its first vertex to 1 at its second."""
    weights: Floats
    """Weights of the face's corners, shape (k, 3)."""

    _rows = "face"
    _identity = ("edge", "face")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
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
    bodies: tuple[QueryBody, ...] = field(default=(), repr=False)
    """Both bodies as the query saw them, for pictures; not part of ``to_dict``."""

    _rows = "segments"
    _identity = ("pairs",)

    def _found(self) -> str:
        return f"{len(self.loops):,} of {len(self):,} segments and length {self.length:.6g}"

    @property
    def length(self) -> float:
        """Length of all curves together."""
        return float(np.linalg.norm(self.segments[:, 1] - self.segments[:, 0], axis=1).sum())

    def polyline(self, loop: int) -> Floats:
        """The points along a curve, one more than it has segments; of a closed one the last is the first."""
        rows = self.loops[as_whole(loop, "loop", least=-len(self.loops), most=len(self.loops) - 1)]
        ends = self.ends[rows]
        forward = np.ones(len(rows), dtype=np.bool_)
        if len(rows) > 1:
            forward[0] = ends[0, 1] in ends[1]
        for i in range(1, len(rows)):
            forward[i] = ends[i, 0] == ends[i - 1, int(forward[i - 1])]
        first = self.segments[rows[0], 1 - int(forward[0])]
        return np.concatenate([first[None], self.segments[rows, forward.astype(np.int64)]])

    def plot(self, path: PathLike | None = None) -> Picture:
        """Draw both bodies and the curves; with ``path``, to a file."""
        return self._plot("plot_curves", path)
