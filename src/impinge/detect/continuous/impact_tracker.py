"""Impacts in many motions of the same bodies: the answers of ``ContinuousTree``, sooner where deformation is slow.

1. Blocks   that may meet, as in every query (``sweep``).
2. Known    Of one body with itself, near pairs of features decide about the blocks that have deformed little since
            these were listed (``known_pairs``).
3. Join     the other blocks, as in every query.

The list is made again when joins since the last one have cost as much as a list, and twice as late each time that a new
list leaves half of the blocks open. It changes no answer: the same rows, to the last bit. Near pairs (``near``) come
from the same list.

Tried      A list of all candidates of the first motion of a step, with gaps along separating directions, for the other
           motions of the step: ends change by up to an edge from solve to solve, and making the list cost as much as it
           saved. A separating normal before the filter in doubles: no gain.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike

from impinge.backend.stages import start_stages
from impinge.checks import Bools, Floats, Ints
from impinge.detect.boxes.mesh_features import Features
from impinge.detect.boxes.tree import TreeOfBoxes, lock_both
from impinge.detect.common.nearest_results import Proximity
from impinge.detect.continuous.impact_results import Impacts
from impinge.detect.continuous.impact_rows import impact_rows
from impinge.detect.continuous.known_pairs import MARGIN, Ids, KnownPairs
from impinge.detect.continuous.sweep import (
    Found,
    Motion,
    Progress,
    Slab,
    joined_rows,
    pose_motion,
    resolved,
    rows_of,
)  # fmt: skip
from impinge.detect.proximity.proximity import find_near, proximity
from impinge.mesh.tri_mesh import TriMesh

PATIENCE = 2.0
"""Full joins that cost about as much as a list."""
LARGEST_PATIENCE = 64.0
LEAST_EDGE, LARGEST_EDGE = 1e-25, 1e25
"""Bodies whose mean length of edges is outside of these bounds have no list."""


class ImpactTracker:
    """Finds impacts of two moving bodies, or of one with itself, again and again.

    Parameters
    ----------
    a, b : TriMesh
        The bodies. Without ``b``, impacts of ``a`` with itself.
    """

    def __init__(self, a: TriMesh, b: TriMesh | None = None) -> None:
        self._a, self._b = a, a if b is None else b
        self._is_self = b is None
        self._trees = self._a.structure("boxes", TreeOfBoxes), self._b.structure("boxes", TreeOfBoxes)
        self._locks = lock_both(*self._trees)
        self._known: KnownPairs | None = None
        self._joined, self._patience, self._is_new = 0.0, PATIENCE, False
        self._features: Features | None = None
        self._edge = 0.0

    def query(self, *, end_a: ArrayLike | None = None, end_b: ArrayLike | None = None) -> Impacts:
        """Find the impacts between the present positions and the ends; as ``ContinuousTree.query``."""
        began = perf_counter()
        with self._locks[0], self._locks[1]:
            stages = start_stages()
            a = pose_motion(self._a, self._trees[0], None, end_a, None, "a")
            b = a if self._is_self else pose_motion(self._b, self._trees[1], None, end_b, None, "b")
            stages.done("refit")
            if self._is_self:
                self._update(a)
            stages.done("list")
            slab = Slab(a, b, (0.0, 1.0), margin=0.0, is_self=self._is_self)
            block_pairs, tests, parts = slab.block_pairs, 0, list[Found]()
            stages.done("block_pairs")
            if self._known is not None and len(block_pairs):
                is_open, found, tests = self._known.find(block_pairs, a)
                parts.append(found)
                slab.block_pairs = block_pairs[is_open]
            if self._is_self and len(block_pairs):
                self._count(len(slab.block_pairs) / len(block_pairs))
            stages.done("known")
            if len(slab.block_pairs):
                slab.fit_features()
                part, more = slab.join(slab.block_pairs)
                parts.append(rows_of([part], a, b, self._is_self))
                tests += more
            stages.done("join")
            rows = resolved(joined_rows(parts), a, b, 0.0)  # each pair of blocks is in one part, so no row is twice
            stages.done("exact")
            result = impact_rows(rows, Progress(None, 1.0, len(block_pairs), tests), a, b, 0.0, stages, began)
            result.stats["joined"] = len(slab.block_pairs)
            return result

    def near(self, margin: float) -> Proximity:
        """Find the pairs of features no farther apart than a margin at the present positions; as ``proximity``."""
        b = None if self._is_self else self._b
        with self._locks[0], self._locks[1]:
            motion = pose_motion(self._a, self._trees[0], None, None, None, "a")
            if self._known is None or not self._known.is_of(motion):
                return proximity(self._a, b, margin=margin)
            known = self._known

            def listed(block_pairs: Ids) -> tuple[Bools, list[Ints]]:
                is_open, found = known.near(block_pairs, motion, margin)
                self._joined += float(is_open.sum()) / max(len(block_pairs), 1)
                return is_open, found

            return find_near(self._a, b, margin=margin, listed=listed)

    def _count(self, share: float) -> None:
        """Add up what was joined, as a share of all pairs of blocks."""
        self._joined += share
        if self._is_new:
            self._is_new = False
            self._patience = PATIENCE if share < 0.5 else min(2.0 * self._patience, LARGEST_PATIENCE)

    def _update(self, motion: Motion) -> None:
        """Drop the list after edits; make one where it pays."""
        if motion.features is not self._features:
            self._features, self._known, self._edge = motion.features, None, _mean_edge(motion)
        if self._joined < self._patience or not LEAST_EDGE < self._edge < LARGEST_EDGE:
            return
        self._joined, self._is_new = 0.0, True
        near = proximity(self._a, margin=MARGIN * self._edge)
        if self._a.state().motion == motion.posed.state.motion:
            self._known = KnownPairs(motion, near)


def _mean_edge(motion: Motion) -> float:
    """Mean length of the edges at the start."""
    edges: Floats = motion.start[motion.features.edges]
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.sqrt(((edges[:, 1] - edges[:, 0]) ** 2).sum(axis=1)).mean()) if len(edges) else 0.0
