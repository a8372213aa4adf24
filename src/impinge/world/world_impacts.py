"""Impacts of all near bodies of a world that move.

1. Ends.  Positions of each body at both ends of its motion: given, or by a pair of transforms; other bodies stay.
2. Near.  Pairs of bodies whose boxes around both ends overlap, if at least one of the two moves (``World.impacts``).
3. Search each pair by the trees that its bodies keep (``detect.continuous``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from impinge.checks import Cancel, Floats, Ints, as_numbers, as_positions, as_transform, shown
from impinge.detect.common.pair_query import moved
from impinge.detect.common.results import Reason, Which, select
from impinge.detect.continuous.continuous_tree import AtStart, ContinuousTree
from impinge.detect.continuous.impact_results import COLUMNS, ImpactRows
from impinge.errors import OptionError
from impinge.mesh.tri_mesh import TriMesh, box_around

Ends: TypeAlias = Mapping[str, ArrayLike | Sequence[ArrayLike]]
"""Name of a body to its positions at the end, shape (n, 3), or to two matrices, shape (2, 4, 4)."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WorldImpacts(ImpactRows):
    """Impacts of all near bodies, sorted by (time, body_a, body_b, kind, ids); columns as in ``Impacts``."""

    body_a: Ints
    """Number of the first body, below that of the second, or equal (self-impacts), shape (k,)."""
    body_b: Ints
    names: tuple[str, ...] = ()
    """Names of the bodies by number."""

    _identity = ("body_a", "body_b", "kind", "vertices")

    def rows(self, which: Which) -> WorldImpacts:
        """Some of the impacts."""
        return select(self, ("body_a", "body_b", *COLUMNS), which)


class BodyMotion(NamedTuple):
    """One body at both ends of its motion."""

    surface: TriMesh
    end: Floats | None
    """Positions at the end; None if the body stays, or moves by transforms."""
    transforms: tuple[Floats | None, Floats | None] | None
    low: Floats
    """Corners of the box around both ends."""
    high: Floats
    is_static: bool


def motions_of(surfaces: Mapping[str, TriMesh], ends: Ends) -> list[BodyMotion]:
    """All bodies at both ends, in order."""
    if not isinstance(ends, Mapping):
        raise OptionError(f"ends is {shown(ends)}, expected a dict of names of bodies to positions or two matrices")
    for name in ends:
        if name not in surfaces:
            raise OptionError(f"ends has {shown(name)}, but there is no body of that name; names are in world.names")
    motions = []
    for name, surface in surfaces.items():
        snapshot = surface.snapshot()
        start = target = snapshot.vertices
        end, transforms, given = None, None, ends.get(name)
        if given is not None:
            pair = _as_matrices(given, name)
            if pair is None:
                end = target = as_positions(given, name=f"ends[{name!r}]", count=len(start))
            else:
                transforms = pair
                start, target = (moved(matrix, start, f"ends[{name!r}]") for matrix in pair)
        faces = snapshot.elements[snapshot.live]
        boxes = np.stack([box_around(start, faces), box_around(target, faces)])
        low, high = boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)
        motions.append(BodyMotion(surface, end, transforms, low, high, given is None))
    return motions


def _as_matrices(given: ArrayLike | Sequence[ArrayLike], name: str) -> tuple[Floats, Floats] | None:
    """Both matrices, or None if positions are given."""
    array = as_numbers(given, f"ends[{name!r}]")
    if array.ndim != 3:
        return None
    if array.shape != (2, 4, 4):
        raise OptionError(
            f"ends[{name!r}] has shape {array.shape}, expected (n, 3): positions, or (2, 4, 4): two matrices"
        )
    before, after = (as_transform(matrix, f"ends[{name!r}][{k}]") for k, matrix in enumerate(array))
    assert before is not None
    assert after is not None
    return before, after


def impacts_of_pairs(
    motions: list[BodyMotion],
    pairs: NDArray[np.int64],
    names: tuple[str, ...],
    *,
    margin: float,
    first_only: bool,
    at_start: AtStart,
    exclude_rings: int,
    cancel: Cancel | None,
    began: float,
) -> WorldImpacts:
    """Impacts of the given pairs of bodies, (i, i) for one with itself."""
    parts: list[dict[str, Any]] = []
    reason: Reason | None = None
    certain_until = 1.0
    for i, j in pairs.tolist():
        a, b = motions[i], motions[j]
        options: dict[str, Any] = {"end_a": a.end, "transform_a": a.transforms, "exclude_rings": exclude_rings}
        if i != j:
            options = {"end_a": a.end, "transform_a": a.transforms, "end_b": b.end, "transform_b": b.transforms}
        tree = ContinuousTree(a.surface, b.surface if i != j else None)
        found = tree.query(margin=margin, first_only=first_only, at_start=at_start, cancel=cancel, **options)
        count = len(found)
        parts.append({name: getattr(found, name) for name in COLUMNS})
        parts[-1].update(body_a=np.full(count, i, dtype=np.int32), body_b=np.full(count, j, dtype=np.int32))
        if not found.complete:  # of the pairs that follow nothing is known
            reason, certain_until = found.reason, 0.0
            break
    empty = _no_rows()
    columns = {name: np.concatenate([empty[name], *(part[name] for part in parts)]) for name in empty}
    keys = ("feature_b", "feature_a", "kind", "body_b", "body_a", "time_lo")
    order = np.lexsort([columns[name] for name in keys])
    if first_only and len(order):
        order = order[columns["time_lo"][order] <= columns["time_hi"].min()]
    return WorldImpacts(
        **{name: column[order] for name, column in columns.items()},
        names=names,
        margin=margin,
        certain_until=certain_until,
        complete=reason is None,
        reason=reason,
        method=ContinuousTree.name,
        stats={"body_pairs": len(pairs)},
        elapsed_ms=1e3 * (perf_counter() - began),
    )


def _no_rows() -> dict[str, NDArray[Any]]:
    ints = ("body_a", "body_b", "feature_a", "feature_b")
    rows: dict[str, NDArray[Any]] = {name: np.zeros(0, dtype=np.int32) for name in ints}
    rows.update(kind=np.zeros(0, dtype=np.int8), vertices=np.zeros((0, 4), dtype=np.int32), weights=np.zeros((0, 4)))
    rows.update(time_lo=np.zeros(0), time_hi=np.zeros(0), at_start=np.zeros(0, dtype=np.bool_))
    rows.update(point=np.zeros((0, 3)), normal=np.zeros((0, 3)))
    return rows
