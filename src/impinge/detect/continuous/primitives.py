"""First impacts of moving vertices and faces, and of moving edges: exact for every finite input.

1. Walk.    Each query is decided in doubles with proven error bounds (``exact.impact_walk``), and the interval of its
            first time of impact narrowed to the width asked for.
2. Resolve. What doubles leave undecided is decided in integers of any length (``exact.impact``).

Guarantee   hit or miss is that of real arithmetic on linear motion of closed sets over [0, 1]: no false answers. The
            interval contains the first time of impact. Each row has one writer: the same bits for any thread count.
Cost        50 to 130 ns per query in doubles, 10 to 100 µs in integers; nearly all of the latter are degenerate
            (touching at an end of the motion, coplanar throughout, parallel), which double-double arithmetic would not
            decide either. Coordinates that span more than ``WIDE`` bits along one axis, such as 1 beside 1e-60, take
            milliseconds; ``stats`` counts them.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike, NDArray

from impinge.backend.stages import start_stages
from impinge.checks import Bools, Floats, as_number, as_numbers
from impinge.detect.common.results import Result
from impinge.detect.continuous import primitives_kernels as kernels
from impinge.errors import MeshError
from impinge.exact.impact_walk import HIT, UNDECIDED

WIDTH = 2.0**-20
"""Default width of time intervals, relative to their upper end."""
WIDE = 200
"""Bits that coordinates may span along one axis before a query takes more than 1 ms."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PrimitiveImpacts(Result):
    """For each query whether the two features meet, and when first."""

    hit: Bools
    """Whether they meet at any time in [0, 1], shape (n,)."""
    time_lo: Floats
    """No impact before this time, shape (n,); NaN without impact."""
    time_hi: Floats
    """The first impact is not later than this, shape (n,); NaN without impact."""
    at_start: Bools
    """Whether they meet at time 0, shape (n,)."""

    _rows = "hit"

    def __bool__(self) -> bool:
        """Whether any query is a hit."""
        return bool(self.hit.any())

    def _found(self) -> str:
        return f"{int(self.hit.sum()):,} of {len(self):,}"

    def _keys(self) -> NDArray[np.int64]:
        """Numbers of the queries that are hits."""
        return np.flatnonzero(self.hit)[:, None]


def vertex_face_impacts(start: ArrayLike, end: ArrayLike, *, width: float = WIDTH) -> PrimitiveImpacts:
    """Decide exactly whether moving vertices and faces meet, and when first.

    Parameters
    ----------
    start, end : array_like, shape (n, 4, 3)
        Positions at times 0 and 1, which points reach along straight lines: a vertex, then three corners of a face.
    width : float
        Width of the time interval, relative to its upper end; from 2^-40.

    Returns
    -------
    PrimitiveImpacts
        ``hit``, ``time_lo``, ``time_hi``, ``at_start``, a row per query. Sets are closed: touching counts.

    Examples
    --------
    >>> import impinge
    >>> start = [[(0.2, 0.2, 1), (0, 0, 0), (1, 0, 0), (0, 1, 0)]]
    >>> end = [[(0.2, 0.2, -1), (0, 0, 0), (1, 0, 0), (0, 1, 0)]]
    >>> r = impinge.vertex_face_impacts(start, end)
    >>> bool(r.hit[0]), bool(r.time_lo[0] <= 0.5 <= r.time_hi[0])
    (True, True)
    """
    return _impacts(False, start, end, width)


def edge_edge_impacts(start: ArrayLike, end: ArrayLike, *, width: float = WIDTH) -> PrimitiveImpacts:
    """Decide exactly whether pairs of moving edges meet, and when first.

    Parameters
    ----------
    start, end : array_like, shape (n, 4, 3)
        Positions at times 0 and 1, which points reach along straight lines: the ends of one edge, then of the other.
    width : float
        Width of the time interval, relative to its upper end; from 2^-40.

    Returns
    -------
    PrimitiveImpacts
        ``hit``, ``time_lo``, ``time_hi``, ``at_start``, a row per query. Sets are closed: touching counts.

    Examples
    --------
    >>> import impinge
    >>> start = [[(-1, 0, 1), (1, 0, 1), (0, -1, 0), (0, 1, 0)]]
    >>> end = [[(-1, 0, -3), (1, 0, -3), (0, -1, 0), (0, 1, 0)]]
    >>> r = impinge.edge_edge_impacts(start, end)
    >>> bool(r.hit[0]), bool(r.time_lo[0] <= 0.25 <= r.time_hi[0])
    (True, True)
    """
    return _impacts(True, start, end, width)


def _impacts(is_edges: bool, start: ArrayLike, end: ArrayLike, width: float) -> PrimitiveImpacts:
    began = perf_counter()
    width = as_number(width, "width", "a number from 2^-40 to 1", least=2.0**-40, most=1.0)
    x, y = _as_queries(start, "start"), _as_queries(end, "end")
    if len(x) != len(y):
        raise MeshError(f"start has {len(x)} queries and end has {len(y)}; expected one row in each per query")
    stages = start_stages()
    verdict = np.zeros(len(x), dtype=np.int8)
    lo, hi = np.zeros(len(x)), np.zeros(len(x))
    kernels.walk_rows.over(len(x))(is_edges, x, y, width, verdict, lo, hi)
    stages.done("walk")
    rows = np.flatnonzero(verdict == UNDECIDED)
    if len(rows):
        kernels.resolve_rows.over(len(rows))(is_edges, x, y, width, rows, verdict, lo, hi)
    stages.done("resolve")
    hit = verdict == HIT
    lo[~hit], hi[~hit] = np.nan, np.nan
    return PrimitiveImpacts(
        hit=hit,
        time_lo=lo,
        time_hi=hi,
        at_start=hi == 0.0,
        method="continuous",
        stats={
            "queries": len(x),
            "resolved_exactly": len(rows),
            "wide": _wide_count(x[rows], y[rows]),
            **stages.times(),
        },
        elapsed_ms=1e3 * (perf_counter() - began),
    )


def _as_queries(x: ArrayLike, name: str) -> Floats:
    """Four finite points per query."""
    array = as_numbers(x, name)
    if array.ndim != 3 or array.shape[1:] != (4, 3):
        raise MeshError(f"{name} has shape {array.shape}, expected (n, 4, 3): four points per query")
    queries = np.ascontiguousarray(array, dtype=np.float64)
    is_finite = np.isfinite(queries).all(axis=(1, 2))
    if not is_finite.all():
        first = int(np.argmin(is_finite))
        raise MeshError(f"{name}[{first}] has a coordinate that is not finite; all coordinates must be finite")
    return queries


def _wide_count(x: Floats, y: Floats) -> int:
    """Number of queries whose coordinates span more than ``WIDE`` bits along one axis."""
    both = np.concatenate([x, y], axis=1)
    mantissa, exponent = np.frexp(both)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    lowest = np.log2((whole & -whole).astype(np.float64), where=whole != 0, out=np.zeros(both.shape)) + exponent - 53
    high = np.where(both != 0.0, exponent, -5000).max(axis=1, initial=-5000)
    low = np.where(both != 0.0, lowest, 5000.0).min(axis=1, initial=5000.0)
    return int(((high - low) > WIDE).any(axis=1).sum())
