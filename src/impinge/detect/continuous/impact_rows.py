"""Rows of a result: impacts in order of time, with points, normals and weights."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from impinge.backend.stages import Stages
from impinge.detect.continuous.impact_points_kernels import locate_impacts
from impinge.detect.continuous.impact_results import Impacts, MovingSurface
from impinge.detect.continuous.sweep import Found, Motion, Progress


def impact_rows(
    found: Found, progress: Progress, a: Motion, b: Motion, margin: float, stages: Stages, began: float
) -> Impacts:
    """The result of a search."""
    found = found.rows(np.lexsort((found.feature[:, 1], found.feature[:, 0], found.kind, found.span[:, 0])))
    count = len(found.kind)
    place, normal, weights = np.zeros((count, 3)), np.zeros((count, 3)), np.zeros((count, 4))
    time_lo, time_hi = np.ascontiguousarray(found.span.T)
    locate_impacts.over(count)(
        found.kind, found.vertices, a.start, a.end, b.start, b.end, time_lo, margin > 0.0, place, normal, weights
    )
    stages.done("points")
    return Impacts(
        kind=found.kind,
        feature_a=np.ascontiguousarray(found.feature[:, 0]),
        feature_b=np.ascontiguousarray(found.feature[:, 1]),
        vertices=found.vertices,
        weights=weights,
        time_lo=time_lo,
        time_hi=time_hi,
        at_start=found.at_start,
        point=place,
        normal=normal,
        edges_a=a.features.edges,
        edges_b=b.features.edges,
        margin=margin,
        certain_until=progress.certain_until,
        bodies=tuple(map(_surface, (a,) if b.posed is a.posed else (a, b))),
        complete=progress.reason is None,
        reason=progress.reason,
        method="continuous_tree",
        stats={"block_pairs": progress.block_pairs, "candidates": progress.tests, **stages.times()},
        elapsed_ms=1e3 * (perf_counter() - began),
    )


def _surface(motion: Motion) -> MovingSurface:
    state, active = motion.posed.state, motion.posed.active
    is_used = state.live() if active is None else state.live() & active
    return MovingSurface(motion.start, motion.end, state.faces, is_used)
