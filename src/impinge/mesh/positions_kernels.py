"""Copy positions and detect NaN and infinity in one pass."""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import inlined, kernel, prange

CHUNKS = 16
EXPONENT = np.int64(0x7FF0000000000000)
"""All ones in the exponent: NaN or infinity."""


@inlined
def _copy(source, target):
    """Copy one chunk; a loop of its own vectorises."""
    found = np.int64(0)
    for i in range(len(source)):
        bits = source[i]
        target[i] = bits
        found |= np.int64((bits & EXPONENT) == EXPONENT)
    return found


@kernel(parallel_from=1 << 16)
def copy_numbers(source, target, strange):
    """Copy the bits of doubles, as integers; ``strange[c]`` is 1 if chunk c has a number that is not finite."""
    for c in prange(CHUNKS):
        first, end = c * len(source) // CHUNKS, (c + 1) * len(source) // CHUNKS
        strange[c] = _copy(source[first:end], target[first:end])
