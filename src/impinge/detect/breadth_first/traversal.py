"""Level-by-level traversal of pairs of trees, for one or many object pairs at once, in blocks of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from impinge.backend.stages import Stages
from impinge.checks import Ints
from impinge.detect.breadth_first.kernels import CHUNK
from impinge.detect.breadth_first.trees import Device

WHOLE_LEVEL = 1 << 31
"""Children of the first pair: all nodes of the entry level."""


class Traversal:
    """All pairs of leaves whose boxes overlap, level by level in blocks of bounded size.

    ``trees`` is (level_a, box_a, level_b, box_b): the level tables of each object pair, and the volumes of all nodes.
    """

    def __init__(
        self,
        device: Device,
        trees: tuple[NDArray[np.int64], Any, NDArray[np.int64], Any],
        block_pairs: int,
        stages: Stages,
        is_cancelled: Callable[[], bool] = lambda: False,
        *,
        is_self: bool = False,
    ) -> None:
        self._device, self._stages = device, stages
        self._block_pairs, self._is_cancelled = block_pairs, is_cancelled
        level_a, box_a, level_b, box_b = trees
        self.pair_count = level_a[:, :, 1] * level_b[:, :, 1]
        """Node pairs of each object pair at each height."""
        self._trees = (device.upload(level_a), box_a, device.upload(level_b), box_b, is_self)
        self.tests = [0] * level_a.shape[1]
        """Node pairs tested at each height."""
        self.overlaps = [0] * level_a.shape[1]
        """Node pairs that overlap at each height."""

    def overlapping_leaves(self, height: int) -> Iterator[Ints]:
        """Rows (object pair, leaf of a, leaf of b) whose boxes overlap, starting from all node pairs at ``height``."""
        parents = np.zeros((len(self.pair_count), 3), dtype=np.int32)
        parents[:, 0] = np.arange(len(parents))
        children = np.ascontiguousarray(self.pair_count[:, height])
        yield from self._descend(height, self._device.upload(parents), self._device.upload(children), WHOLE_LEVEL)

    def _descend(self, height: int, parents: Any, children: Any, fan: int = 2) -> Iterator[Ints]:
        """Visit the ``children[i]`` node pairs at ``height`` below each pair i of ``parents``, and all pairs below."""
        device, stages = self._device, self._stages
        start, total = device.scan(children)
        for first in range(0, total, self._block_pairs):
            if self._is_cancelled():
                return
            # Expand (4.4): find parent and child number of each output by the prefix sums.
            count = min(self._block_pairs, total - first)
            chunks, source, child = -(-count // CHUNK), device.empty(count, np.int32), device.empty(count, np.int64)
            device.run("expand_scan", chunks, chunks, start, first, source, child)
            stages.done("expand")
            pairs, below = device.empty((count, 3), np.int32), device.empty(count, np.int64)
            device.run("visit_pairs", count, height, parents, source, child, fan, *self._trees, pairs, below)
            overlapping = np.flatnonzero(device.download(below))
            self.tests[height] += count
            self.overlaps[height] += len(overlapping)
            stages.done("test")
            if height > 0:
                yield from self._descend(height - 1, pairs, below)
            elif len(overlapping):
                leaves = device.download(pairs)[overlapping]
                stages.done("expand")
                yield leaves
