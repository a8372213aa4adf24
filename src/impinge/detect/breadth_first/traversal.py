"""The traversal of ``breadth_first``: level by level, for one or many object pairs at once, in bounded blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from impinge.backend.stages import Stages
from impinge.checks import Floats, Ints
from impinge.detect.breadth_first.kernels import CHUNK
from impinge.detect.breadth_first.trees import Device, Tree

Mode: TypeAlias = Literal["scan", "histopyramid", "exhaustive"]

FAN = 2
"""Children of a node."""
WHOLE_LEVEL = 1 << 31
"""Children of the first pair: all nodes of the level where the traversal starts."""

ROUNDING = 2.0**-46
"""Relative error of mapping positions and boxes from one space to another: fewer than 64 roundings of 2^-53 each."""
UNDERFLOW = 2.0**-1060
"""Absolute error of the same where numbers are subnormal."""


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


class Pyramid:
    """By the paper's overlap count pyramid: pairwise sums up (Fig. 2), one descent per output (Fig. 3)."""

    def __init__(self, device: Device, counts: Any) -> None:
        self._device = device
        first, self._sums = sum_pyramid(device, counts, len(counts))
        self._level_first = device.upload(first)
        self.total = int(device.download(self._sums[-1:])[0])

    def sources(self, first: int, count: int) -> tuple[Any, Any]:
        """Input, and number among its children, of outputs ``first`` .. ``first + count - 1``."""
        source, child = self._device.empty(count, np.int32), self._device.empty(count, np.int64)
        self._device.run("descend_pyramid", count, self._sums, self._level_first, first, source, child)
        return source, child


def sum_pyramid(device: Device, counts: Any, size: int) -> tuple[NDArray[np.int64], Any]:
    """Counts, padded with zeros to ``size``, and levels of pairwise sums up to one number; where each level begins."""
    sizes = [size]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // 2))
    first = np.concatenate([[0], np.cumsum(sizes[:-1])]).astype(np.int64)
    sums = device.empty(sum(sizes), np.int64)
    sums[: len(counts)] = counts
    if size > len(counts):
        sums[len(counts) : size] = np.zeros(size - len(counts), dtype=np.int64)
    for fine, fine_count, coarse, count in zip(first.tolist(), sizes, first[1:].tolist(), sizes[1:]):
        device.run("sum_neighbours", count, count, sums, fine, fine_count, coarse)
    return first, sums


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
        palette: Floats | None = None,
        is_self: bool = False,
        mode: Mode,
        fuse: bool,
        block_pairs: int,
        stages: Stages,
        is_cancelled: Callable[[], bool],
    ) -> None:
        self._device = device
        self._expand = Pyramid if mode == "histopyramid" else Scan
        self._fuse = fuse
        self._block_pairs = block_pairs
        self._stages = stages
        self._is_cancelled = is_cancelled
        self._counts = (a.level[:, :, 1], b.level[:, :, 1])
        self._level_a = device.upload(a.level)
        self._what = "pairs" if palette is None else "moved_pairs"
        relation = is_self if palette is None else device.upload(palette)
        self._trees = (self._level_a, a.box, device.upload(b.level), b.box, relation)
        self.tests = [0] * a.level.shape[1]
        """Node pairs tested at each height."""
        self.overlaps = [0] * a.level.shape[1]
        """Node pairs found to overlap at each height."""

    def overlapping_leaves(self, height: int) -> Iterator[Ints]:
        """Rows (object pair, leaf of a, leaf of b) whose boxes overlap, starting from all node pairs at ``height``."""
        yield from self._descend(height, *self._all_pairs(height), WHOLE_LEVEL)

    def all_leaves(self) -> Iterator[Ints]:
        """All rows (object pair, leaf of a, leaf of b), untested (section 3)."""
        parents, expansion = self._all_pairs(0)
        for first, count in self._blocks(expansion.total):
            pairs = self._device.empty((count, 3), np.int32)
            self._locate(0, parents, *expansion.sources(first, count), WHOLE_LEVEL, pairs)
            yield self._device.download(pairs)

    def _all_pairs(self, height: int) -> tuple[Any, Scan | Pyramid]:
        """One pair per pair of objects, as if all nodes at ``height`` were its children, and their expansion."""
        count_a, count_b = self._counts
        parents = np.zeros((len(count_a), 3), dtype=np.int32)
        parents[:, 0] = np.arange(len(parents))
        counts = count_a[:, height] * count_b[:, height]
        return self._device.upload(parents), self._expand(self._device, self._device.upload(counts))

    def _descend(self, height: int, parents: Any, expansion: Scan | Pyramid, fan: int = FAN) -> Iterator[Ints]:
        """Visit the children of ``parents``, which are at ``height``, and all below, one block after the other."""
        for first, count in self._blocks(expansion.total):
            pairs, children = self._visit(height, parents, *expansion.sources(first, count), fan)
            below = self._expand(self._device, children)
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
        if self._fuse:
            located = (height, parents, source, child, fan)
            self._device.run(f"locate_and_test_{self._what}", count, *located, *self._trees, pairs, children)
        else:
            self._locate(height, parents, source, child, fan, pairs)
            self._device.run(f"test_{self._what}", count, height, pairs, *self._trees, children)
        self.tests[height] += count
        self.overlaps[height] += int(np.count_nonzero(self._device.download(children)))
        self._stages.done("test")
        return pairs, children

    def _locate(self, height: int, parents: Any, source: Any, child: Any, fan: int, pairs: Any) -> None:
        located = (height, parents, source, child, fan, self._level_a, pairs)
        self._device.run("locate_pairs", len(source), *located)
        self._stages.done("expand")


# SAT lite between spaces (Appendix A) -----------------------------------------------------------------------


def sat_palette(matrix_a: Floats, matrix_b: Floats, root_a: Floats, root_b: Floats) -> Floats:
    """What maps boxes of b into the space of a and back, for all object pairs, shape (object_pairs, 2, 3, 5).

    Matrices have the shape (object_pairs, 4, 4), roots (object_pairs, 6). Two triangles that meet as transformed have
    points X, Y in their object boxes with A X + p + δa = B Y + q + δb, where the δ are the roundings of
    ``transform_points``. For any matrix N, also one that is only nearly the inverse of A,

        X = N B Y + N (q - p) + N (δb - δa) - (N A - I) X,

    so that |X - (C Y + d)| <= slack with C = N B, d = N (q - p) as rounded, and a slack for the other terms that is
    made once from how far the bodies reach. A singular matrix makes the slack large, never the answer wrong.
    """
    reach_a, reach_b = _reach(root_a), _reach(root_b)
    with np.errstate(all="ignore"):
        into_a = _half_palette(matrix_a, matrix_b, reach_a, reach_b)
        into_b = _half_palette(matrix_b, matrix_a, reach_b, reach_a)
    return np.ascontiguousarray(np.stack([into_a, into_b], axis=1))


def _half_palette(own: Floats, other: Floats, reach_own: Floats, reach_other: Floats) -> Floats:
    a, p, b, q = own[:, :3, :3], own[:, :3, 3:], other[:, :3, :3], other[:, :3, 3:]
    n = _inverses(a)
    c, d = n @ b, n @ (q - p)
    world = abs(a) @ reach_own + abs(p) + abs(b) @ reach_other + abs(q)
    slack = 1.01 * (abs(n @ a - np.eye(3)) @ reach_own) + ROUNDING * (abs(n) @ world + reach_own)
    sizes = abs(n).sum(axis=2, keepdims=True) + abs(c).sum(axis=2, keepdims=True)
    slack += UNDERFLOW * (1.0 + sizes + reach_own + reach_other.max(axis=1, keepdims=True))
    return np.concatenate([c, d, slack], axis=2)


def _reach(root: Floats) -> Floats:
    """The largest absolute coordinate along each axis, shape (object_pairs, 3, 1)."""
    return np.maximum(abs(root[:, :3]), abs(root[:, 3:]))[:, :, None]


def _inverses(matrices: Floats) -> Floats:
    """Something near the inverse of each matrix where it has one; zeros where numbers are beyond all bounds."""
    try:
        inverses = np.linalg.pinv(matrices)
    except np.linalg.LinAlgError:
        return np.zeros_like(matrices)
    return np.where(np.isfinite(inverses).all(axis=(1, 2), keepdims=True), inverses, 0.0)


def world_bounds(matrix: Floats, root: Floats) -> tuple[Floats, Floats]:
    """A box, rounded outwards, around what ``transform_points`` makes of positions in the box ``root``."""
    linear, shift = matrix[:3, :3], matrix[:3, 3]
    center, extent = 0.5 * root[:3] + 0.5 * root[3:], 0.5 * root[3:] - 0.5 * root[:3]
    with np.errstate(all="ignore"):
        middle = linear @ center + shift
        reach = abs(linear) @ np.maximum(abs(root[:3]), abs(root[3:])) + abs(shift)
        half = abs(linear) @ extent + ROUNDING * reach + UNDERFLOW
        return middle - half, middle + half
