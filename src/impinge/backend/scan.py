"""Exclusive prefix sums, the primitive behind "count, scan, fill".

1. Each block of the input is summed by one thread.
2. The block sums are scanned serially.
3. Each thread writes the running sums of its block.

Integer sums do not depend on the order of addition: the result is the same for any thread count.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import kernel, prange

BLOCK = 1 << 15
"""Elements per block: 256 KB, which stay in the cache for the second pass."""


@kernel(parallel_from=2 * BLOCK)
def _sum_blocks(counts, block_sum):
    for b in prange(len(block_sum)):
        total = np.int64(0)
        for i in range(b * BLOCK, min((b + 1) * BLOCK, len(counts))):
            total += counts[i]
        block_sum[b] = total


@kernel(parallel_from=2 * BLOCK)
def _scan_blocks(counts, block_start, start):
    for b in prange(len(block_start)):
        total = block_start[b]
        for i in range(b * BLOCK, min((b + 1) * BLOCK, len(counts))):
            start[i] = total
            total += counts[i]


def exclusive_scan(counts):
    """Where each group starts: int64 of length n + 1, the last entry is the sum of all counts."""
    n = len(counts)
    block_sum = np.zeros(max(1, -(-n // BLOCK)), dtype=np.int64)
    _sum_blocks.over(n)(counts, block_sum)
    total = np.cumsum(block_sum)
    start = np.zeros(n + 1, dtype=np.int64)
    _scan_blocks.over(n)(counts, total - block_sum, start)
    start[n] = total[-1]
    return start
