"""What all queries for triangle pairs share: their options, and how candidates become a sorted result.

    options  ->  two sides (positions as transformed, live and active triangles)
    detector ->  candidate pairs, in any order
    narrow   ->  kinds by the exact test; hits packed into keys, sorted, filtered, cut at max_pairs

A pair travels as one 64-bit key: triangle of a, triangle of b, and two bits for the kind.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from impinge.backend.sort import sort_keys
from impinge.checks import Floats, Ints, as_ids, as_indices, as_transform
from impinge.detect.common import pair_query_kernels as kernels
from impinge.detect.common.pair_query_kernels import KIND_BITS
from impinge.detect.common.results import Reason, TrianglePairs
from impinge.errors import OptionError
from impinge.mesh.transform import transform_points
from impinge.mesh.tri_mesh import TriMesh

Keys = NDArray[np.uint64]

RADIX_FROM = 1 << 17
"""Keys from which counting digits on threads beats NumPy's vectorised sort."""


class Cancel(Protocol):
    """Anything with ``is_set()``, such as a ``threading.Event``."""

    def is_set(self) -> bool:
        """Whether to stop."""


@dataclass(frozen=True)
class Side:
    """One body as a query sees it."""

    vertices: Floats
    """Positions after the transform, shape (n, 3), read-only."""
    faces: Ints
    """All triangles, dead ones too, shape (m, 3)."""
    ids: Ints
    """Sorted ids of the triangles to test."""


@dataclass(frozen=True)
class PairOptions:
    """Options of every query for pairs."""

    transform_a: Any = None
    transform_b: Any = None
    active_a: Any = None
    active_b: Any = None
    ignore: Any = None
    max_pairs: int | None = None
    cancel: Cancel | None = None
    _seen: list[bool] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        check_max_pairs(self.max_pairs)
        check_cancel(self.cancel)

    def side_a(self, body: TriMesh) -> Side:
        """The first body with its transform and active triangles."""
        return make_side(body, self.transform_a, self.active_a, "a")

    def side_b(self, body: TriMesh) -> Side:
        """The second body with its transform and active triangles."""
        return make_side(body, self.transform_b, self.active_b, "b")

    @property
    def cancelled(self) -> bool:
        """Whether the caller wanted the query to stop at any time: a result that was cut short must say so."""
        if self.cancel is not None and self.cancel.is_set():
            self._seen.append(True)
        return bool(self._seen)


def check_max_pairs(limit: Any) -> None:
    """Refuse a limit that is none."""
    if limit is not None and (not isinstance(limit, int | np.integer) or isinstance(limit, bool) or limit < 1):
        raise OptionError(f"max_pairs is {limit!r}, expected a whole number from 1, or None for all pairs")


def check_cancel(cancel: Any) -> None:
    """Refuse what cannot tell whether to stop."""
    if cancel is not None and not hasattr(cancel, "is_set"):
        raise OptionError(f"cancel is {cancel!r}, expected an object with is_set(), like threading.Event")


_NO_OPTIONS = PairOptions()


def pair_options(options: dict[str, Any], *, is_self: bool = False) -> PairOptions:
    """Check the names of options; of one body, those of b mean nothing."""
    if not options:
        return _NO_OPTIONS
    known = [f.name for f in fields(PairOptions) if f.init and not (is_self and f.name.endswith("_b"))]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise OptionError(f"unknown option {', '.join(unknown)}; expected any of {', '.join(known)}")
    return PairOptions(**options)


def make_side(body: TriMesh, transform: Any, active: Any, letter: str) -> Side:
    """Snapshot of a body, moved by ``transform`` and narrowed to ``active`` triangles (ids or mask)."""
    snapshot = body.snapshot()
    matrix = as_transform(transform, f"transform_{letter}")
    vertices = snapshot.vertices
    if matrix is not None:
        vertices = moved(matrix, vertices, f"transform_{letter}")
    ids = snapshot.live
    if active is not None:
        chosen = as_ids(active, name=f"active_{letter}", count=len(snapshot.elements))
        is_chosen = np.zeros(len(snapshot.elements), dtype=np.bool_)
        is_chosen[chosen] = True
        ids = ids[is_chosen[ids]]
    return Side(vertices, snapshot.elements, ids)


def moved(matrix: Floats, vertices: Floats, name: str) -> Floats:
    """Positions moved by a transform; read-only, as those of a body are: Numba compiles anew for the other kind."""
    with np.errstate(over="ignore", invalid="ignore"):
        x = transform_points(matrix, vertices)
    if not np.isfinite(x).all():
        raise OptionError(f"{name} moves a vertex beyond the range of doubles; use smaller units")
    x.flags.writeable = False
    return x


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
    is_self: bool,
    method: str,
    stats: dict[str, Any],
    reason: Reason | None,
    bodies: tuple[TriMesh, ...],
    began: float,
) -> TrianglePairs:
    """Sort, leave out ignored pairs, cut at ``max_pairs``, and say so."""
    keys = np.sort(keys) if len(keys) < RADIX_FROM else sort_keys(keys, low_bit=KIND_BITS)
    keys = without_ignored(keys, options, is_self=is_self)
    if options.max_pairs is not None and len(keys) > options.max_pairs:
        keys, reason = keys[: options.max_pairs], reason or "limit"
    pairs, kind = unpack(keys)
    return TrianglePairs(
        pairs=pairs,
        kind=kind,
        complete=reason is None,
        reason=reason,
        method=method,
        stats=stats,
        elapsed_ms=1e3 * (perf_counter() - began),
        bodies=bodies,
    )


def without_ignored(keys: Keys, options: PairOptions, *, is_self: bool) -> Keys:
    """Leave out the pairs that the caller does not want to hear of."""
    if options.ignore is None:
        return keys
    return keys[~np.isin(keys >> np.uint64(KIND_BITS), ignored_keys(options.ignore, is_self))]


def ignored_keys(ignore: Any, is_self: bool) -> Keys:
    """Pairs to leave out, as keys without a kind; of one body, in either order."""
    pairs = as_indices(ignore, name="ignore", columns=2, of="triangle")
    if (pairs < 0).any():
        raise OptionError("ignore holds a negative triangle id; ids start at 0")
    if is_self:
        pairs = np.sort(pairs, axis=1)
    pair_a, pair_b = np.ascontiguousarray(pairs.T)
    return pack(pair_a, pair_b, np.zeros(len(pairs), dtype=np.int8)) >> np.uint64(KIND_BITS)
