"""The functions of ``breadth_first.kernels`` on a CUDA grid, and the device that runs them."""

# mypy: ignore-errors

import numpy as np

from impinge.backend.cuda import cuda, grid_kernel, require_device
from impinge.detect.breadth_first import kernels as functions
from impinge.detect.breadth_first.trees import Device
from impinge.detect.common.narrow_phase_cuda import classify_pairs
from impinge.detect.common.narrow_phase_kernels import classify_self_pair

__all__ = ["Cuda", "classify_pairs"]


@grid_kernel
def fit_leaves(x, faces, order, directions, box):
    """Fit all leaves."""
    i = cuda.grid(1)
    if i < len(order):
        functions.fit_leaf(i, x, faces, order, directions, box)


@grid_kernel
def fit_nodes(count, first_child, child_count, first, box):
    """Fit the nodes of a level."""
    i = cuda.grid(1)
    if i < count:
        functions.fit_node(i, first_child, child_count, first, box)


@grid_kernel
def expand_scan(chunk_count, start, first, source, child):
    """Write all outputs of the expansion from ``first`` on."""
    c = cuda.grid(1)
    if c < chunk_count:
        functions.expand_chunk(c, start, first, source, child)


@grid_kernel
def sum_neighbours(count, sums, fine, fine_count, coarse):
    """Make one level of pairwise sums from the one below, which starts at ``fine``."""
    i = cuda.grid(1)
    if i < count:
        total = sums[fine + 2 * i]
        if 2 * i + 1 < fine_count:
            total += sums[fine + 2 * i + 1]
        sums[coarse + i] = total


@grid_kernel
def spread_starts(count, sums, level_first, coarse_first, start):
    """Make one level of prefix sums from the one above: a right child starts where its left sibling ends."""
    i = cuda.grid(1)
    if i < count:
        before = sums[level_first + i - 1] if i % 2 == 1 else 0
        start[level_first + i] = start[coarse_first + i // 2] + before


@grid_kernel
def visit_pairs(height, parents, source, child, fan, level_a, box_a, level_b, box_b, is_self, pairs, children):
    """Write and test all node pairs of a block in one pass."""
    k = cuda.grid(1)
    if k < len(pairs):
        functions.visit_pair(
            k, height, parents, source, child, fan, level_a, box_a, level_b, box_b, is_self, pairs, children
        )  # fmt: skip


@grid_kernel
def classify_self_pairs(x, faces, pair_a, pair_b, skip_neighbours, bound, kind):
    """Filter all candidates of one body."""
    i = cuda.grid(1)
    if i < len(kind):
        classify_self_pair(i, x, faces, pair_a, pair_b, skip_neighbours, bound, kind)


class Cuda(Device):
    """A CUDA device; arrays stay there from one kernel to the next."""

    name = "cuda"

    def __init__(self):
        require_device()

    def upload(self, array):
        """Copy to the device."""
        return cuda.to_device(array)

    def download(self, array):
        """Copy to the host."""
        return array.copy_to_host()

    def empty(self, shape, dtype):
        """Allocate an array with arbitrary contents."""
        return cuda.device_array(shape, dtype)

    def concatenate(self, arrays):
        """Concatenate the rows of device arrays."""
        joined = self.empty((sum(map(len, arrays)), *arrays[0].shape[1:]), arrays[0].dtype)
        first = 0
        for array in arrays:
            joined[first : first + len(array)] = array
            first += len(array)
        return joined

    def run(self, kernel, work, *args):
        """Launch a kernel with one thread per index."""
        globals()[kernel].launch(work, *args)

    def scan(self, counts):
        """Exclusive prefix sums by Blelloch's two sweeps: levels of pairwise sums up, starts down."""
        size = len(counts) + 1  # a last count of zero, whose start is the total
        sizes = [size]
        while sizes[-1] > 1:
            sizes.append(-(-sizes[-1] // 2))
        level_first = np.concatenate([[0], np.cumsum(sizes[:-1])]).astype(np.int64)
        sums = self.empty(sum(sizes), np.int64)
        sums[: len(counts)] = counts
        sums[len(counts) : size] = np.zeros(1, dtype=np.int64)
        for fine, fine_count, coarse, count in zip(level_first.tolist(), sizes, level_first[1:].tolist(), sizes[1:]):
            sum_neighbours.launch(count, count, sums, fine, fine_count, coarse)
        start = self.empty(sums.shape, np.int64)
        start[len(sums) - 1 :] = np.zeros(1, dtype=np.int64)
        ends = [*level_first[1:].tolist(), len(sums)]
        for level in range(len(level_first) - 2, -1, -1):
            first, end = int(level_first[level]), ends[level]
            spread_starts.launch(end - first, end - first, sums, first, end, start)
        return start[:size], int(self.download(start[size - 1 : size])[0])
