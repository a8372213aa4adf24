"""The traversal of ``breadth_first``: level by level, for one or many object pairs at once, in bounded blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from impinge.backend.stages import Stages
from impinge.checks import Ints
from impinge.detect.breadth_first.kernels import CHUNK
from impinge.detect.breadth_first.trees import Device, Tree

FAN = 2
"""Children of a node."""
WHOLE_LEVEL = 1 << 31
"""Children of the first pair: all nodes of the level where the traversal starts."""


# Expansion (4.4): output k is a child of which input? ------------------------------------------------------


class Scan:
    """By prefix sums: each output looks for the last input that starts at or before it."""

    def __init__(self, device: Device, counts: Any) -> None:
        self._device = device
        self._start, self.total = device.scan(counts)

    def sources(self, first: int, count: int) -> tuple[Any, Any]:
        """Input, and number among its children, of outputs ``first`` .. ``first + count - 1``."""
        source, child = self._device.empty(count, np.int32), self._device.empty(count, np.int64)
        chunk_count = -(-count // CHUNK)
        self._device.run("expand_scan", chunk_count, chunk_count, self._start, first, source, child)
        return source, child


# Traversal (4.2) -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Forest:
    """The trees of one side of all object pairs; object pair q has the levels ``level[q]``."""

    level: NDArray[np.int64]
    """First row and number of nodes at each height, shape (object_pairs, HEIGHTS, 2)."""
    box: Any
    """Volumes of all nodes, on the device."""

    @classmethod
    def of_one(cls, tree: Tree) -> Forest:
        """One tree."""
        return cls(tree.level[None], tree.box)


class Traversal:
    """All pairs of leaves whose boxes overlap, level by level in blocks of bounded size, with counts of the work."""

    def __init__(
        self,
        device: Device,
        a: Forest,
        b: Forest,
        *,
        is_self: bool = False,
        block_pairs: int,
        stages: Stages,
        is_cancelled: Callable[[], bool],
    ) -> None:
        self._device = device
        self._block_pairs = block_pairs
        self._stages = stages
        self._is_cancelled = is_cancelled
        self._counts = (a.level[:, :, 1], b.level[:, :, 1])
        self._trees = (device.upload(a.level), a.box, device.upload(b.level), b.box, is_self)
        self.tests = [0] * a.level.shape[1]
        """Node pairs tested at each height."""
        self.overlaps = [0] * a.level.shape[1]
        """Node pairs found to overlap at each height."""

    def overlapping_leaves(self, height: int) -> Iterator[Ints]:
        """Rows (object pair, leaf of a, leaf of b) whose boxes overlap, starting from all node pairs at ``height``."""
        # one pair per pair of objects, as if all nodes at this height were its children
        count_a, count_b = self._counts
        parents = np.zeros((len(count_a), 3), dtype=np.int32)
        parents[:, 0] = np.arange(len(parents))
        expansion = Scan(self._device, self._device.upload(count_a[:, height] * count_b[:, height]))
        yield from self._descend(height, self._device.upload(parents), expansion, WHOLE_LEVEL)

    def _descend(self, height: int, parents: Any, expansion: Scan, fan: int = FAN) -> Iterator[Ints]:
        """Visit the children of ``parents``, which are at ``height``, and all below, one block after the other."""
        for first, count in self._blocks(expansion.total):
            pairs, children = self._visit(height, parents, *expansion.sources(first, count), fan)
            below = Scan(self._device, children)
            self._stages.done("expand")
            if height > 0:
                yield from self._descend(height - 1, pairs, below)
            elif below.total:
                source, _ = below.sources(0, below.total)
                leaves = self._device.download(pairs)[self._device.download(source)]
                self._stages.done("expand")
                yield leaves

    def _blocks(self, total: int) -> Iterator[tuple[int, int]]:
        """First output and number of outputs of each block; none after the caller has cancelled."""
        for first in range(0, total, self._block_pairs):
            if self._is_cancelled():
                return
            yield first, min(self._block_pairs, total - first)

    def _visit(self, height: int, parents: Any, source: Any, child: Any, fan: int) -> tuple[Any, Any]:
        """The node pairs of one block, and how many pairs of children of each are to be visited next."""
        self._stages.done("expand")
        count = len(source)
        pairs, children = self._device.empty((count, 3), np.int32), self._device.empty(count, np.int64)
        located = (height, parents, source, child, fan)
        self._device.run("locate_and_test_pairs", count, *located, *self._trees, pairs, children)
        self.tests[height] += count
        self.overlaps[height] += int(np.count_nonzero(self._device.download(children)))
        self._stages.done("test")
        return pairs, children
