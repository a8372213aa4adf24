"""Memory bandwidth: reading and writing arrays once, for ``soft_bodies``."""

# mypy: ignore-errors

from impinge.backend.jit import compiled, kernel, prange

PARTS = 64
"""Pieces into which a stream is cut for the threads."""


@compiled
def _any_bit(rows, lo, hi):
    """Bitwise or of integers: limited by memory bandwidth."""
    bits = rows[lo]
    for k in range(lo, hi):
        bits |= rows[k]
    return bits


@kernel()
def read_all(rows, bits):
    """Read a flat array of int64 once."""
    part = len(rows) // PARTS
    for p in prange(PARTS):
        bits[p] = _any_bit(rows, p * part, (p + 1) * part)


@kernel()
def copy_rows(source, out):
    """Read positions, and write them."""
    for n in prange(len(source)):
        for c in range(3):
            out[n, c] = source[n, c]
