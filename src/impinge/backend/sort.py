"""Sort 64-bit keys by counting, digit by digit from the lowest (stable radix sort).

For each digit of 11 bits: every block of keys counts its digits; a scan over (digit, block) gives the output offset of
each block and digit; every block then scatters its keys in order. Blocks have a fixed number of keys: the result does
not depend on the thread count.

A pair (a, b) with a small payload is packed into one key: sorting moves 8 bytes per pair and no index.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import kernel, prange

DIGIT_BITS = 11
DIGITS = 1 << DIGIT_BITS
BLOCK = 1 << 16


@kernel(parallel_from=2 * BLOCK)
def _count_digits(keys, shift, digit_count):
    for b in prange(digit_count.shape[0]):
        for d in range(DIGITS):
            digit_count[b, d] = 0
        for i in range(b * BLOCK, min((b + 1) * BLOCK, len(keys))):
            digit_count[b, (keys[i] >> shift) & np.uint64(DIGITS - 1)] += 1


@kernel(parallel_from=1 << 62)
def _scan_digits(digit_count):
    """Turn counts into offsets, in the order digit, block; True if all keys share one digit."""
    total = np.int64(0)
    largest = np.int64(0)
    for d in range(DIGITS):
        first = total
        for b in range(digit_count.shape[0]):
            count = digit_count[b, d]
            digit_count[b, d] = total
            total += count
        largest = max(largest, total - first)
    return largest == total


@kernel(parallel_from=2 * BLOCK)
def _scatter(keys, shift, digit_start, sorted_keys):
    for b in prange(digit_start.shape[0]):
        for i in range(b * BLOCK, min((b + 1) * BLOCK, len(keys))):
            d = (keys[i] >> shift) & np.uint64(DIGITS - 1)
            sorted_keys[digit_start[b, d]] = keys[i]
            digit_start[b, d] += 1


def sort_keys(keys, *, low_bit=0, bits=64):
    """``keys`` (uint64) sorted by their bits ``low_bit`` .. ``bits - 1``; the input may serve as scratch."""
    n = len(keys)
    if n < 2:
        return keys
    other = np.zeros_like(keys)
    digit_count = np.zeros((-(-n // BLOCK), DIGITS), dtype=np.int64)
    for low in range(low_bit, bits, DIGIT_BITS):
        shift = np.uint64(low)
        _count_digits.over(n)(keys, shift, digit_count)
        if not _scan_digits.serial(digit_count):
            _scatter.over(n)(keys, shift, digit_count, other)
            keys, other = other, keys
    return keys
