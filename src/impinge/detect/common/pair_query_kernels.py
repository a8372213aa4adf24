"""Pairs of triangles as 64-bit keys, and back."""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled, kernel, prange

KIND_BITS = 2
ID_BITS = 31

_KIND_SHIFT = np.uint64(KIND_BITS)
_ID_SHIFT = np.uint64(ID_BITS)
_PAIR_SHIFT = np.uint64(ID_BITS + KIND_BITS)
_ID_MASK = np.uint64((1 << ID_BITS) - 1)
_KIND_MASK = np.uint64((1 << KIND_BITS) - 1)


@compiled
def pair_key(a, b, kind):
    """Triangle of a, triangle of b and two bits for the kind; keys sort by (a, b)."""
    return ((np.uint64(a) << _ID_SHIFT) | np.uint64(b)) << _KIND_SHIFT | np.uint64(kind)


@compiled
def key_kind(key):
    """The kind of a key."""
    return np.int8(key & _KIND_MASK)


@compiled
def key_pair(key):
    """The triangles of a key."""
    return np.int32(key >> _PAIR_SHIFT), np.int32((key >> _KIND_SHIFT) & _ID_MASK)


@kernel(parallel_from=1 << 16)
def unpack_keys(keys, pairs, kind):
    """Write the pairs, shape (k, 2), and kinds of all keys."""
    for i in prange(len(keys)):
        pairs[i, 0], pairs[i, 1] = key_pair(keys[i])
        kind[i] = key_kind(keys[i])


@kernel(parallel_from=1 << 16)
def pack_pairs(pair_a, pair_b, kind, keys):
    """Write the keys of all pairs."""
    for i in prange(len(keys)):
        keys[i] = pair_key(pair_a[i], pair_b[i], kind[i])
