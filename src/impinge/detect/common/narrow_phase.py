"""From candidate pairs to exact answers, the last stage of every detector of triangle pairs."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from impinge.checks import Floats, Ints, Stats
from impinge.detect.common import narrow_phase_kernels as kernels
from impinge.detect.common.pair_query import Keys, QueryBody, pack
from impinge.detect.common.pair_query_kernels import KIND_BITS
from impinge.exact.kinds import NONE, UNCERTAIN
from impinge.exact.triangle_triangle import error_bound

KIND_MASK = np.uint64((1 << KIND_BITS) - 1)
Neighbours: TypeAlias = Literal["exact", "skip"]


def classify(
    a: QueryBody, b: QueryBody, pair_a: Ints, pair_b: Ints, extent: Floats, stats: Stats,
    *, is_self: bool = False, skip_neighbours: bool = False,
) -> Keys:  # fmt: skip
    """Keys of those candidates that meet; of one body, beyond what they share.

    ``extent`` is the size of a box that holds any candidate pair; the filter's error bound follows from it.
    """
    kind = np.zeros(len(pair_a), dtype=np.int8)
    bound = error_bound(*extent)
    if is_self:
        kernels.classify_self_pairs.over(len(kind))(a.vertices, a.faces, pair_a, pair_b, skip_neighbours, bound, kind)
        rows = np.flatnonzero(kind == UNCERTAIN)
        kernels.resolve_self_pairs.over(len(rows))(a.vertices, a.faces, pair_a, pair_b, rows, kind)
    else:
        arrays = (a.vertices, a.faces, b.vertices, b.faces, pair_a, pair_b)
        kernels.classify_pairs.over(len(kind))(*arrays, bound, kind)
        rows = np.flatnonzero(kind == UNCERTAIN)
        kernels.resolve_pairs.over(len(rows))(*arrays, rows, kind)
    for name, count in (("triangle_tests", len(kind)), ("exact_tests", len(rows))):
        stats[name] = stats.get(name, 0) + count
    hit = np.flatnonzero(kind != NONE)
    return pack(pair_a[hit], pair_b[hit], kind[hit])


def resolve(keys: Keys, x_a: Floats, faces_a: Ints, x_b: Floats, faces_b: Ints) -> Keys:
    """Keys of those uncertain pairs that meet, by the exact test."""
    kind = np.zeros(len(keys), dtype=np.int8)
    kernels.resolve_keys.over(len(keys))(keys, x_a, faces_a, x_b, faces_b, kind)
    hit = np.flatnonzero(kind != NONE)
    found: Keys = (keys[hit] & ~KIND_MASK) | kind[hit].astype(np.uint64)
    return found


def resolve_self(keys: Keys, x: Floats, faces: Ints) -> Keys:
    """As ``resolve`` for one body, with the policy for neighbours."""
    kind = np.zeros(len(keys), dtype=np.int8)
    kernels.resolve_self_keys.over(len(keys))(keys, x, faces, kind)
    hit = np.flatnonzero(kind != NONE)
    found: Keys = (keys[hit] & ~KIND_MASK) | kind[hit].astype(np.uint64)
    return found
