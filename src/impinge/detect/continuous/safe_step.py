"""How far bodies may move along straight lines without meeting anything.

1. Start.   The exact test of triangles at the start. A pair that crosses is an error: no step from there is safe. Pairs
            that touch are excepted from all that follows.
2. Limit.   The first impact of the whole motion. Without one, the bodies move all the way.
3. Step     to the positions y before that impact, each coordinate rounded, and clipped between start and end: y is not
            on the line from start to end, in general.
   By       Each vertex moves at most half of the smallest gap of the features that it belongs to (``proximity``): two
   vertex   features stay apart if each covers less than half of their gap. Where something meets, no vertex moves
            farther than twice the mean length of edges.
4. Verify.  Search for impacts on the way from the start to y, and test triangles at y. Anything that was not there at
            the start shortens the step, by 2^-20 of its length at first, then by more, and steps 3 and 4 repeat.

Guarantee   Moving from the start to the returned doubles meets nothing, and the exact test of triangles finds nothing
            there, except for pairs of features, and of triangles, that touch at the start.
Margin      Pairs closer than the margin at the start are excepted from the margin, not from meeting.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from impinge.backend.stages import Stages
from impinge.budget import Budget
from impinge.checks import Bools, Floats
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.common.pair_query import PairOptions
from impinge.detect.common.results import Kind
from impinge.detect.continuous.impact_results import Impacts, SafeStep
from impinge.detect.continuous.impact_rows import impact_rows
from impinge.detect.continuous.sweep import Motion, Request, find_impacts, within_rings
from impinge.detect.proximity.proximity import proximity
from impinge.errors import CrossingError
from impinge.mesh.elements import Mark
from impinge.mesh.tri_mesh import TriMesh

SHRINK = (0.0, 2.0**-20, 2.0**-16, 2.0**-12, 2.0**-8, 2.0**-4, 0.5, 1.0)
"""By how much each round shortens a step."""
LEAST_GAP = 1.0 - 2.0**-20
"""Share of half a gap that a vertex may cover: more than the error of distances."""
MOST_EDGES = 4.0
"""Gaps up to this many mean lengths of edges are measured."""


class StepOptions(NamedTuple):
    """What a safe step takes into account."""

    margin: float
    per_vertex: bool
    exclude_rings: int
    active_a: ArrayLike | None
    active_b: ArrayLike | None
    ignore: ArrayLike | None


class StaticTest:
    """The exact test of triangles at any positions, on copies of the bodies that follow their edits."""

    def __init__(self, is_self: bool) -> None:
        self._is_self = is_self
        self._copies: tuple[tuple[Mark, Mark], tuple[int, int], TriMesh, TriMesh | None, BoxTree] | None = None

    def bodies(self, a: Motion, b: Motion, x_a: Floats, x_b: Floats) -> tuple[TriMesh, TriMesh | None, BoxTree]:
        """Copies of both bodies at the given positions, and their detector."""
        key = a.posed.state.mark, b.posed.state.mark
        counts = len(x_a), len(x_b)
        if self._copies is None or self._copies[:2] != (key, counts):
            copy_a, copy_b = _copied(a, x_a), None if self._is_self else _copied(b, x_b)
            self._copies = key, counts, copy_a, copy_b, BoxTree(copy_a, copy_b)
        _, _, copy_a, copy_b, detector = self._copies
        copy_a.update(x_a)
        if copy_b is not None:
            copy_b.update(x_b)
        return copy_a, copy_b, detector


def _copied(motion: Motion, x: Floats) -> TriMesh:
    copy = TriMesh(x, motion.posed.state.faces, validate="trust")
    copy.remove_triangles(np.flatnonzero(~motion.posed.state.live()))
    return copy


class StepSearch:
    """One search for a safe step. Use it under the trees' locks."""

    def __init__(
        self, a: Motion, b: Motion, step: StepOptions, options: PairOptions, static: StaticTest, stages: Stages
    ) -> None:
        self.a, self.b, self.step, self.options, self.static, self.stages = a, b, step, options, static, stages
        self._chosen: dict[str, Any] = {"active_a": step.active_a, "ignore": step.ignore}
        if not options.is_self:
            self._chosen["active_b"] = step.active_b

    def find(self, began: float) -> SafeStep:
        """The step."""
        a, b = self.a, self.b
        self._start_pairs = self._triangles(a.start, b.start, at_start=True)
        touching = self._touching(began)
        limited_by, time = self._first_impact(a.end, b.end, began)
        share_a, share_b, y_a, y_b = np.ones(len(a.start)), np.ones(len(b.start)), a.end, b.end
        if time < np.inf or self._triangles_met(y_a, y_b):
            if self.step.per_vertex:
                share_a, share_b = self._shares(touching)
            else:  # triangles that meet at the end, without an impact on the way: degenerate ones
                fraction = time if time < np.inf else 0.5
                share_a, share_b = fraction * share_a, fraction * share_b
            for shrink in SHRINK:
                share_a, share_b = (1.0 - shrink) * share_a, (1.0 - shrink) * share_b
                y_a, y_b = _on_the_way(a, share_a), _on_the_way(b, share_b)
                if self._first_impact(y_a, y_b, began)[1] == np.inf and not self._triangles_met(y_a, y_b):
                    break
        moving = np.concatenate([share_a[(a.start != a.end).any(axis=1)], share_b[(b.start != b.end).any(axis=1)]])
        return SafeStep(
            fraction=float(moving.min(initial=1.0)),
            positions_a=(reached := y_a.copy()),  # not the array that the caller passed as the end
            positions_b=reached if self.options.is_self else y_b.copy(),
            limited_by=limited_by,
            touching_at_start=touching,
            margin=self.step.margin,
            fractions_a=share_a if self.step.per_vertex else None,
            fractions_b=share_b if self.step.per_vertex else None,
            method="continuous_tree",
            stats=dict(self.stages.times()),
            elapsed_ms=1e3 * (perf_counter() - began),
        )

    def _triangles(self, x_a: Floats, x_b: Floats, *, at_start: bool = False) -> NDArray[np.int64]:
        """Keys of the pairs of triangles that meet at the given positions; at the start they must not cross."""
        _, _, detector = self.static.bodies(self.a, self.b, x_a, x_b)
        found = detector.query(**self._chosen)
        pairs, kind = found.pairs, found.kind
        if self.step.exclude_rings:
            faces = self.a.posed.state.faces
            is_far = ~self._within_rings(faces[pairs[:, 0]], faces[pairs[:, 1]])
            pairs, kind = pairs[is_far], kind[is_far]
        is_crossing = kind == Kind.CROSSING
        if at_start and is_crossing.any():
            shown = ", ".join(str(tuple(pair)) for pair in pairs[is_crossing][:4].tolist())
            more = ", ..." if is_crossing.sum() > 4 else ""
            raise CrossingError(
                f"{int(is_crossing.sum())} pairs of triangles cross at the start: {shown}{more}; a safe step begins "
                "where none cross, separate them first, or leave them out (ignore=)"
            )
        return pairs[:, 0].astype(np.int64) << 32 | pairs[:, 1]

    def _within_rings(self, one: NDArray[Any], other: NDArray[Any]) -> Bools:
        """Which rows of vertices of one body are within ``exclude_rings`` edges of each other."""
        lists = [
            np.stack([np.repeat(np.arange(len(rows)), rows.shape[1]), rows.reshape(-1)], axis=1, dtype=np.int64)
            for rows in (one, other)
        ]
        return within_rings(self.a, lists[0], lists[1], len(one), self.step.exclude_rings)

    def _triangles_met(self, x_a: Floats, x_b: Floats) -> bool:
        """Whether triangles meet at the given positions that do not at the start."""
        return bool(len(np.setdiff1d(self._triangles(x_a, x_b), self._start_pairs)))

    def _touching(self, began: float) -> Impacts:
        """Pairs of features that meet at the start, or are within the margin."""
        a, b = self.a._replace(end=self.a.start), self.b._replace(end=self.b.start)
        request = Request(self.step.margin, exclude_rings=self.step.exclude_rings)
        found, progress = find_impacts(a, b, request, self.options, Budget(), self.stages)
        return impact_rows(found.rows(found.at_start), progress, a, b, self.step.margin, self.stages, began)

    def _first_impact(self, end_a: Floats, end_b: Floats, began: float) -> tuple[Impacts, float]:
        """The first impacts on the way to these positions, and the time of the first, infinite if there is none."""
        a, b = self.a._replace(end=end_a), self.b._replace(end=end_b)
        first: Impacts | None = None
        for margin in sorted({0.0, self.step.margin}):
            request = Request(margin, True, True, self.step.exclude_rings)
            found, progress = find_impacts(a, b, request, self.options, Budget(), self.stages)
            impacts = impact_rows(found, progress, a, b, margin, self.stages, began)
            if first is None or not first or (impacts and impacts.time_lo[0] < first.time_lo[0]):
                first = impacts
        assert first is not None
        return first, float(first.time_lo[0]) if first else np.inf

    def _shares(self, touching: Impacts) -> tuple[Floats, Floats]:
        """The share of its way that each vertex may go: half of the smallest gap of its features."""
        a, b, margin, is_self = self.a, self.b, self.step.margin, self.options.is_self
        with np.errstate(over="ignore"):
            way_a, way_b = (_lengths(m.end - m.start) for m in (a, b))
            edges = [m.start[m.features.edges[:, 1]] - m.start[m.features.edges[:, 0]] for m in (a, b)]
            length = float(np.mean(_lengths(np.concatenate(edges))))
        farthest = max(way_a.max(initial=0.0), way_b.max(initial=0.0))
        reach = margin + min(2.0 * farthest / (LEAST_GAP * LEAST_GAP), MOST_EDGES * length)
        body_a, body_b, _ = self.static.bodies(a, b, a.start, b.start)
        near = proximity(body_a, body_b, margin=min(reach, np.finfo(np.float64).max), **self._chosen)
        least = 0.5 * LEAST_GAP * (reach - margin)
        gap_a = np.full(len(a.start), least)
        gap_b = gap_a if is_self else np.full(len(b.start), least)
        faces_a, faces_b, edges_a, edges_b = a.posed.state.faces, b.posed.state.faces, near.edges_a, near.edges_b
        each_a, each_b = np.arange(len(a.start))[:, None], np.arange(len(b.start))[:, None]
        for kind, pairs, distance, of_a, of_b in (
            (0, near.vertex_face, near.vertex_face_distance, each_a, faces_b),
            (1, near.face_vertex, near.face_vertex_distance, faces_a, each_b),
            (2, near.edge_edge, near.edge_edge_distance, edges_a, edges_b),
        ):
            rows = touching.kind == kind
            excepted = touching.feature_a[rows].astype(np.int64) << 32 | touching.feature_b[rows]
            is_kept = ~np.isin(pairs[:, 0].astype(np.int64) << 32 | pairs[:, 1], excepted)
            if self.step.exclude_rings:
                is_kept &= ~self._within_rings(of_a[pairs[:, 0]], of_b[pairs[:, 1]])
            half = 0.5 * LEAST_GAP * np.maximum(distance[is_kept] - margin, 0.0)
            for gap, vertices in ((gap_a, of_a[pairs[is_kept, 0]]), (gap_b, of_b[pairs[is_kept, 1]])):
                np.minimum.at(gap, vertices, half[:, None])
        shares = [
            np.where(way > gap, np.divide(gap, way, out=np.ones_like(way), where=way > 0.0), 1.0)
            for way, gap in ((way_a, gap_a), (way_b, gap_b))
        ]
        return shares[0], shares[1]


def _lengths(vectors: Floats) -> Floats:
    """Lengths of vectors whose squares may be beyond the range of doubles."""
    return np.hypot(np.hypot(vectors[:, 0], vectors[:, 1]), vectors[:, 2])


def _on_the_way(motion: Motion, share: Floats) -> Floats:
    """Positions after a share of each vertex's way, rounded, and clipped between start and end."""
    s = share[:, None]
    x = (1.0 - s) * motion.start + s * motion.end
    x = np.clip(x, np.minimum(motion.start, motion.end), np.maximum(motion.start, motion.end))
    x.flags.writeable = False  # as positions of a body are: Numba specialises kernels on that
    return x
