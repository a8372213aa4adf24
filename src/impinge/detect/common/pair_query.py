"""What all queries for triangle pairs share: their options, and how hits become a sorted result.

    options  ->  two query bodies (positions after the transform, live and active triangles)
    detector ->  pairs that meet, as keys, in any order
    result   ->  keys sorted, ignored pairs left out, truncated at ``max_pairs``, unpacked

A pair travels as one 64-bit key: triangle of a, triangle of b, and two bits for the kind.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike, NDArray

from impinge.backend.sort import sort_keys
from impinge.checks import (
    Cancel,
    Ints,
    Stats,
    as_indices,
    as_transform,
    as_whole,
    check_cancel,
    sorted_unique,
)
from impinge.detect.common import pair_query_kernels as kernels
from impinge.detect.common.pair_query_kernels import KIND_BITS
from impinge.detect.common.query_body import QueryBody, moved, query_body
from impinge.detect.common.results import Reason, TrianglePairs
from impinge.errors import OptionError
from impinge.mesh.tri_mesh import TriMesh

__all__ = [
    "NO_KEYS", "Keys", "PairOptions", "QueryBody", "finish_pairs", "ignored_keys", "moved", "pack", "query_body",
    "unpack", "without_ignored",
]  # fmt: skip

Keys = NDArray[np.uint64]

NO_KEYS: Keys = np.zeros(0, dtype=np.uint64)
RADIX_FROM = 1 << 17
"""Keys from which the threaded radix sort beats NumPy's vectorised sort."""


class PairOptions:
    """Options of every query for pairs, checked; see ``PairDetector.query`` for their meaning."""

    __slots__ = (
        "_seen", "active_a", "active_b", "cancel", "ignored", "is_self", "max_pairs", "transform_a", "transform_b",
    )  # fmt: skip

    def __init__(
        self,
        transform_a: ArrayLike | None = None,
        transform_b: ArrayLike | None = None,
        active_a: ArrayLike | None = None,
        active_b: ArrayLike | None = None,
        ignore: ArrayLike | None = None,
        max_pairs: int | None = None,
        cancel: Cancel | None = None,
        is_self: bool = False,
    ) -> None:
        if is_self and (transform_b is not None or active_b is not None):
            raise OptionError("transform_b and active_b are for two bodies; self-collision takes those of a only")
        self.transform_a = None if transform_a is None else as_transform(transform_a, "transform_a")
        self.transform_b = None if transform_b is None else as_transform(transform_b, "transform_b")
        self.active_a = active_a
        self.active_b = active_b
        self.ignored = None if ignore is None else ignored_keys(ignore, is_self)
        self.max_pairs = max_pairs
        if max_pairs is not None:
            self.max_pairs = as_whole(max_pairs, "max_pairs", remedy=", or None for all pairs")
        if cancel is not None:
            check_cancel(cancel)
        self.cancel = cancel
        self.is_self = is_self
        self._seen = False

    @property
    def cancelled(self) -> bool:
        """Whether ``cancel`` was set at any check so far: a result that stopped early must say so."""
        if self.cancel is not None and not self._seen:
            self._seen = self.cancel.is_set()
        return self._seen

    def query_bodies(self, a: TriMesh, b: TriMesh | None) -> tuple[QueryBody, QueryBody]:
        """Both bodies with their transforms and active triangles; of one body, twice the same."""
        body_a = query_body(a, self.transform_a, self.active_a, "a")
        return body_a, body_a if b is None else query_body(b, self.transform_b, self.active_b, "b")


def pack(pair_a: Ints, pair_b: Ints, kind: NDArray[np.int8]) -> Keys:
    """Pairs as 64-bit keys that sort by (a, b)."""
    keys = np.zeros(len(kind), dtype=np.uint64)
    kernels.pack_pairs.over(len(keys))(pair_a, pair_b, kind, keys)
    return keys


def unpack(keys: Keys) -> tuple[Ints, NDArray[np.int8]]:
    """Keys as pairs, shape (k, 2), and kinds, shape (k,)."""
    pairs = np.zeros((len(keys), 2), dtype=np.int32)
    kind = np.zeros(len(keys), dtype=np.int8)
    kernels.unpack_keys.over(len(keys))(keys, pairs, kind)
    return pairs, kind


def finish_pairs(
    keys: Keys,
    options: PairOptions,
    *,
    method: str,
    stats: Stats,
    reason: Reason | None,
    bodies: tuple[TriMesh, ...],
    began: float,
) -> TrianglePairs:
    """Sort, leave out ignored pairs, truncate at ``max_pairs``, unpack."""
    hits = stats["hits"] = len(keys)
    keys = np.sort(keys) if hits < RADIX_FROM else sort_keys(keys, low_bit=KIND_BITS)
    if options.ignored is not None:
        keys = without_ignored(keys, options)
    ignored = hits - len(keys)
    if options.max_pairs is not None and len(keys) > options.max_pairs:
        keys, reason = keys[: options.max_pairs], reason or "limit"
    pairs, kind = np.zeros((len(keys), 2), dtype=np.int32), np.zeros(len(keys), dtype=np.int8)
    kernels.unpack_keys.over(len(keys))(keys, pairs, kind)
    return TrianglePairs(
        pairs=pairs,
        kind=kind,
        ignored=ignored,
        complete=reason is None,
        reason=reason,
        method=method,
        stats=stats,
        elapsed_ms=1e3 * (perf_counter() - began),
        bodies=bodies,
    )


def without_ignored(keys: Keys, options: PairOptions) -> Keys:
    """Leave out the pairs that the options ignore."""
    if options.ignored is None:
        return keys
    return keys[~np.isin(keys >> np.uint64(KIND_BITS), options.ignored)]


def ignored_keys(ignore: ArrayLike, is_self: bool) -> Keys:
    """Pairs to ignore, as sorted keys without a kind; of one body, in either order."""
    pairs = as_indices(ignore, name="ignore", columns=2, of="triangle")
    if (pairs < 0).any():
        raise OptionError("ignore holds a negative triangle id; ids start at 0")
    if is_self:
        pairs = np.sort(pairs, axis=1)
    pair_a, pair_b = np.ascontiguousarray(pairs.T)
    return sorted_unique(pack(pair_a, pair_b, np.zeros(len(pairs), dtype=np.int8)) >> np.uint64(KIND_BITS))
