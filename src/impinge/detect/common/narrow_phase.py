"""From candidate pairs to exact answers, the last stage of every detector of triangle pairs."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats, Ints
from impinge.detect.common import narrow_phase_kernels as kernels
from impinge.detect.common.pair_query import Keys, Side, pack, unpack
from impinge.errors import OptionError
from impinge.exact.kinds import NONE, UNCERTAIN
from impinge.exact.triangle_triangle import error_bound

Neighbours: TypeAlias = Literal["exact", "skip"]


def check_neighbours(neighbours: str, *, is_self: bool) -> bool:
    """Whether pairs that share a vertex are to be skipped; a choice for self-collision only."""
    if neighbours not in ("exact", "skip"):
        raise OptionError(f"neighbours is {neighbours!r}, expected 'exact' or 'skip'")
    if neighbours == "skip" and not is_self:
        raise OptionError("neighbours='skip' is for self-collision; triangles of two bodies share no vertex")
    return neighbours == "skip"


def classify(a: Side, b: Side, pair_a: Ints, pair_b: Ints, extent: Floats, stats: dict[str, int]) -> Keys:
    """Keys of those candidates of two bodies that meet; ``extent`` is the size of a box that holds any candidate."""
    kind = np.zeros(len(pair_a), dtype=np.int8)
    arrays = (a.vertices, a.faces, b.vertices, b.faces, pair_a, pair_b)
    kernels.classify_pairs.over(len(kind))(*arrays, error_bound(*extent), kind)
    rows = np.flatnonzero(kind == UNCERTAIN)
    kernels.settle_pairs.over(len(rows))(*arrays, rows, kind)
    return _hits(pair_a, pair_b, kind, len(rows), stats)


def classify_self(
    a: Side, pair_a: Ints, pair_b: Ints, skip_neighbours: bool, extent: Floats, stats: dict[str, int]
) -> Keys:
    """Keys of those candidates of one body that meet beyond what they share; ``extent`` as in ``classify``."""
    kind = np.zeros(len(pair_a), dtype=np.int8)
    bound = error_bound(*extent)
    kernels.classify_self_pairs.over(len(kind))(a.vertices, a.faces, pair_a, pair_b, skip_neighbours, bound, kind)
    rows = np.flatnonzero(kind == UNCERTAIN)
    kernels.settle_self_pairs.over(len(rows))(a.vertices, a.faces, pair_a, pair_b, rows, kind)
    return _hits(pair_a, pair_b, kind, len(rows), stats)


def settle(keys: Keys, x_a: Floats, faces_a: Ints, x_b: Floats, faces_b: Ints) -> Keys:
    """Of pairs whose kind is open, keys of those that meet: the exact test for each."""
    pairs, kind = unpack(keys)
    pair_a, pair_b = np.ascontiguousarray(pairs.T)
    kernels.settle_pairs.over(len(keys))(x_a, faces_a, x_b, faces_b, pair_a, pair_b, np.arange(len(keys)), kind)
    hit = np.flatnonzero(kind != NONE)
    return pack(pair_a[hit], pair_b[hit], kind[hit])


def settle_self(keys: Keys, x: Floats, faces: Ints) -> Keys:
    """As ``settle`` for one body, with the policy for neighbours."""
    pairs, kind = unpack(keys)
    pair_a, pair_b = np.ascontiguousarray(pairs.T)
    kernels.settle_self_pairs.over(len(keys))(x, faces, pair_a, pair_b, np.arange(len(keys)), kind)
    hit = np.flatnonzero(kind != NONE)
    return pack(pair_a[hit], pair_b[hit], kind[hit])


def _hits(pair_a: Ints, pair_b: Ints, kind: NDArray[np.int8], exact_count: int, stats: dict[str, int]) -> Keys:
    stats["triangle_tests"] = stats.get("triangle_tests", 0) + len(kind)
    stats["exact_tests"] = stats.get("exact_tests", 0) + exact_count
    hit = np.flatnonzero(kind != NONE)
    return pack(pair_a[hit], pair_b[hit], kind[hit])
