"""Sort 64-bit keys by counting, digit by digit from the lowest (stable radix sort).

For each digit: every block of keys counts its digits; a scan over (digit, block) gives the output offset of each block
and digit; every block then scatters its keys in order. Blocks have a fixed number of keys: the result does not depend
on the thread count. ``sort_keys`` runs the blocks on threads, with digits of 11 bits. ``sort_bits`` is for kernels: one
block, and digits of 8 bits, whose counters are quicker to clear for a few hundred keys.

A pair (a, b) with a small payload is packed into one key: sorting moves 8 bytes per pair and no index.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled, kernel, prange

DIGIT_BITS, KERNEL_DIGIT_BITS = 11, 8
BLOCK = 1 << 16


@compiled
def _count_block(keys, first, stop, shift, digit_count):
    digit_count[:] = 0
    for i in range(first, stop):
        digit_count[np.int64((np.uint64(keys[i]) >> np.uint64(shift)) & np.uint64(len(digit_count) - 1))] += 1


@compiled
def _scan_digits(digit_count):
    """Turn counts into offsets, in the order digit, block; True if all keys share one digit."""
    total = np.int64(0)
    largest = np.int64(0)
    for d in range(digit_count.shape[1]):
        first = total
        for b in range(digit_count.shape[0]):
            count = digit_count[b, d]
            digit_count[b, d] = total
            total += count
        largest = max(largest, total - first)
    return largest == total


@compiled
def _scatter_block(keys, first, stop, shift, digit_start, sorted_keys):
    for i in range(first, stop):
        d = np.int64((np.uint64(keys[i]) >> np.uint64(shift)) & np.uint64(len(digit_start) - 1))
        sorted_keys[digit_start[d]] = keys[i]
        digit_start[d] += 1


@kernel(parallel_from=2 * BLOCK)
def _count_digits(keys, shift, digit_count):
    for b in prange(digit_count.shape[0]):
        _count_block(keys, b * BLOCK, min((b + 1) * BLOCK, len(keys)), shift, digit_count[b])


@kernel(parallel_from=2 * BLOCK)
def _scatter(keys, shift, digit_start, sorted_keys):
    for b in prange(digit_start.shape[0]):
        _scatter_block(keys, b * BLOCK, min((b + 1) * BLOCK, len(keys)), shift, digit_start[b], sorted_keys)


def sort_keys(keys, *, low_bit=0, bits=64):
    """``keys`` (uint64) sorted by their bits ``low_bit`` .. ``bits - 1``; the input may serve as scratch."""
    n = len(keys)
    if n < 2:
        return keys
    other = np.zeros_like(keys)
    digit_count = np.zeros((-(-n // BLOCK), 1 << DIGIT_BITS), dtype=np.int64)
    for shift in range(low_bit, bits, DIGIT_BITS):
        _count_digits.over(n)(keys, shift, digit_count)
        if not _scan_digits(digit_count):
            _scatter.over(n)(keys, shift, digit_count, other)
            keys, other = other, keys
    return keys


@compiled
def sort_bits(keys, count, low_bit, bits, scratch):
    """Sort the first ``count`` keys in place by their bits ``low_bit`` .. ``bits - 1``; for kernels, on one thread."""
    digit_count = np.zeros((1, 1 << KERNEL_DIGIT_BITS), dtype=np.int64)
    is_swapped = False
    for shift in range(low_bit, bits, KERNEL_DIGIT_BITS):
        _count_block(keys, 0, count, shift, digit_count[0])
        if not _scan_digits(digit_count):
            _scatter_block(keys, 0, count, shift, digit_count[0], scratch)
            keys, scratch = scratch, keys
            is_swapped = not is_swapped
    if is_swapped:
        scratch[:count] = keys[:count]
