"""Results of continuous collision detection on bodies: impacts, and steps that meet nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Bools, Floats, Ints
from impinge.detect.common.query_body import QueryBody
from impinge.detect.common.results import PathLike, Picture, Result, Which, select
from impinge.detect.continuous.sweep_kernels import EDGE_EDGE, FACE_VERTEX, VERTEX_FACE


class ImpactKind(IntEnum):
    """Which features meet; the first is of a."""

    VERTEX_FACE = VERTEX_FACE
    FACE_VERTEX = FACE_VERTEX
    EDGE_EDGE = EDGE_EDGE


class MovingSurface(NamedTuple):
    """One body at both ends of its motion, without copies of the arrays."""

    start: Floats
    """Positions at the start, shape (n, 3)."""
    end: Floats
    """Positions at the end; if the array that a query received changes later, so does this."""
    faces: Ints
    """All triangles by id, shape (m, 3)."""
    is_used: Bools
    """Which triangles are live and active, shape (m,)."""

    def at(self, time: float) -> QueryBody:
        """The body on the way, at a time from 0 to 1."""
        x = (1.0 - time) * self.start + time * self.end
        return QueryBody(x, self.faces, np.flatnonzero(self.is_used).astype(np.int32))


COLUMNS = (
    "kind", "feature_a", "feature_b", "vertices", "weights", "time_lo", "time_hi", "at_start", "point", "normal",
)  # fmt: skip
"""Fields with one row per impact."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ImpactRows(Result):
    """Base of results with one row per impact of two moving features; the first feature is of body a."""

    kind: NDArray[np.int8]
    """An ``ImpactKind``, shape (k,)."""
    feature_a: Ints
    """Vertex, face, or row of the edges of a, shape (k,)."""
    feature_b: Ints
    """Face, vertex, or row of the edges of b, shape (k,)."""
    vertices: Ints
    """Vertices of both features, those of a first, shape (k, 4)."""
    weights: Floats
    """Weights of these vertices at the impact, of either feature with the sum 1, shape (k, 4)."""
    time_lo: Floats
    """The features are apart before this time; 0 is the start of the motion, 1 its end."""
    time_hi: Floats
    """They have met at this time."""
    at_start: Bools
    """Whether they meet at the start."""
    point: Floats
    """Where they meet, shape (k, 3)."""
    normal: Floats
    """Unit vector from a towards b, on the side where b was before the impact, shape (k, 3)."""
    margin: float = 0.0
    """The distance from which on features count as meeting."""
    certain_until: float = 1.0
    """All impacts before this time are among the rows; 1 if the result is complete."""

    _rows = "kind"

    @property
    def time(self) -> Floats:
        """Lower bounds of the times of impact: ``time_lo``."""
        return self.time_lo

    def count_by_kind(self) -> dict[str, int]:
        """Numbers of impacts of each kind."""
        return {kind.name.lower(): int((self.kind == kind).sum()) for kind in ImpactKind}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Impacts(ImpactRows):
    """Pairs of moving features that meet, each once, at their first time; sorted by (time, kind, ids).

    Of one body (self-impacts) b is a: all vertex-face pairs are of kind ``VERTEX_FACE``, and of two edges the lower
    comes first.
    """

    edges_a: Ints
    """Edges of a's live and active triangles: two vertices, the lower first; sorted, shape (e, 2)."""
    edges_b: Ints
    """The same of b; of one body the same array."""
    bodies: tuple[MovingSurface, ...] = field(default=(), repr=False)
    """One or two bodies at both ends of the motion, for pictures; not part of ``to_dict``."""

    def rows(self, which: Which) -> Impacts:
        """Some of the impacts."""
        return select(self, COLUMNS, which)

    def plot(self, path: PathLike | None = None) -> Picture:
        """Draw the bodies at the time of the first impact, with its features, point and normal; to a file if named."""
        return self._plot("plot_impacts", path)

    def _found(self) -> str:
        return f"{len(self):,}, the first at {self.time_lo[0]:.6g}" if len(self) else "none"

    def _keys(self) -> NDArray[np.int64]:
        """Kind and vertices."""
        return np.concatenate([self.kind[:, None], self.vertices], axis=1, dtype=np.int64)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SafeStep(Result):
    """Positions that bodies reach along straight lines without meeting anything; its rows are the pairs that limit it.

    Moving from the start to ``positions_a`` and ``positions_b`` meets nothing, and the exact test of triangles finds
    nothing at these positions, except for pairs that touch at the start.
    """

    fraction: float
    """The share of the motion; with ``per_vertex`` the smallest of all vertices."""
    positions_a: Floats
    """Positions of a, shape (n, 3)."""
    positions_b: Floats
    """Positions of b; of one body the same array."""
    limited_by: Impacts
    """The first impacts of the whole motion; none if the fraction is 1."""
    touching_at_start: Impacts
    """Pairs that meet at the start; they are excepted."""
    margin: float = 0.0
    fractions_a: Floats | None = None
    """The share of each vertex of a with ``per_vertex``, shape (n,)."""
    fractions_b: Floats | None = None

    def __len__(self) -> int:
        return len(self.limited_by)

    def __bool__(self) -> bool:
        """Whether bodies may move at all."""
        return self.fraction > 0.0

    def _found(self) -> str:
        return f"fraction {self.fraction:.6g}, limited by {len(self.limited_by):,}"

    def _keys(self) -> NDArray[np.int64]:
        return self.limited_by._keys()
