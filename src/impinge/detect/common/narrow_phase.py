"""From candidate pairs to exact answers, the last stage of every detector of triangle pairs."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from impinge.checks import Floats, Ints, Stats
from impinge.detect.common import narrow_phase_kernels as kernels
from impinge.detect.common.pair_query import Keys, QueryBody, pack, unpack
from impinge.exact.kinds import NONE, UNCERTAIN
from impinge.exact.triangle_triangle import error_bound

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
    pairs, kind = unpack(keys)
    pair_a, pair_b = np.ascontiguousarray(pairs.T)
    kernels.resolve_pairs.over(len(keys))(x_a, faces_a, x_b, faces_b, pair_a, pair_b, np.arange(len(keys)), kind)
    hit = np.flatnonzero(kind != NONE)
    return pack(pair_a[hit], pair_b[hit], kind[hit])


def resolve_self(keys: Keys, x: Floats, faces: Ints) -> Keys:
    """As ``resolve`` for one body, with the policy for neighbours."""
    pairs, kind = unpack(keys)
    pair_a, pair_b = np.ascontiguousarray(pairs.T)
    kernels.resolve_self_pairs.over(len(keys))(x, faces, pair_a, pair_b, np.arange(len(keys)), kind)
    hit = np.flatnonzero(kind != NONE)
    return pack(pair_a[hit], pair_b[hit], kind[hit])


# SHIMS, deleted when every method room uses PairDetector


def check_neighbours(neighbours, *, is_self):  # type: ignore  # noqa
    from impinge.errors import OptionError

    if neighbours not in ("exact", "skip"):
        raise OptionError(f"neighbours is {neighbours!r}, expected 'exact' or 'skip'")
    if neighbours == "skip" and not is_self:
        raise OptionError("neighbours='skip' is for self-collision; triangles of two bodies share no vertex")
    return neighbours == "skip"


def classify_self(a, pair_a, pair_b, skip, extent, stats):  # type: ignore  # noqa
    return classify(a, a, pair_a, pair_b, extent, stats, is_self=True, skip_neighbours=skip)


settle = resolve
