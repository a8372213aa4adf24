"""The triangle stage of ``breadth_first``: kinds of leaf pairs, of one or of many object pairs at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Bools, Floats, Ints
from impinge.detect.breadth_first.trees import Device, Tree
from impinge.detect.common import narrow_phase_kernels
from impinge.exact.kinds import UNCERTAIN
from impinge.exact.triangle_triangle import error_bound


@dataclass(frozen=True)
class Placed:
    """One body as a query sees it."""

    x: Floats
    """Positions as transformed, to which the tree was fitted."""
    faces: Ints
    tree: Tree
    active: Bools | None


Job: TypeAlias = tuple[Placed, Placed]


def active_pairs(a: Placed, b: Placed, leaves: Ints, *, is_self: bool) -> tuple[Ints, Ints]:
    """Triangles of those leaf pairs that are active; of one body, each pair once."""
    if is_self:
        leaves = leaves[leaves[:, 1] < leaves[:, 2]]
    pair_a, pair_b = a.tree.order[leaves[:, 1]], b.tree.order[leaves[:, 2]]
    for placed, ids in ((a, 0), (b, 1)):
        if placed.active is not None:
            keep = placed.active[(pair_a, pair_b)[ids]]
            pair_a, pair_b = pair_a[keep], pair_b[keep]
    return pair_a, pair_b


def runs(job: Ints) -> Iterator[tuple[int, slice]]:
    """Each value of a sorted array with the rows that hold it."""
    values, first = np.unique(job, return_index=True)
    for value, start, end in zip(values.tolist(), first.tolist(), [*first[1:].tolist(), len(job)]):
        yield value, slice(start, end)


def common_error_bound(jobs: Sequence[Job]) -> float:
    """One bound on rounding for all triangle pairs: those of a job lie in one box around both bodies."""
    extent = np.zeros(3)
    for a, b in jobs:
        low, high = np.minimum(a.tree.root[:3], b.tree.root[:3]), np.maximum(a.tree.root[3:], b.tree.root[3:])
        with np.errstate(over="ignore"):
            extent = np.maximum(extent, high - low)
    return float(error_bound(*extent))


def kinds(
    device: Device,
    x_a: Floats,
    faces_a: Ints,
    x_b: Floats,
    faces_b: Ints,
    pair_a: Ints,
    pair_b: Ints,
    bound: float,
    stats: dict[str, Any],
) -> NDArray[np.int8]:
    """Kinds of candidates of two bodies: the filter on the device, the exact test for what it leaves uncertain."""
    arrays = (x_a, faces_a, x_b, faces_b, pair_a, pair_b)
    kind = device.empty(len(pair_a), np.int8)
    device.run("classify_pairs", len(pair_a), *map(device.upload, arrays), bound, kind)
    kind = device.download(kind)
    rows = np.flatnonzero(kind == UNCERTAIN)
    narrow_phase_kernels.resolve_pairs.over(len(rows))(*arrays, rows, kind)
    return _counted(kind, rows, stats)


def self_kinds(
    device: Device, a: Placed, pair_a: Ints, pair_b: Ints, skip_neighbours: bool, bound: float, stats: dict[str, Any]
) -> NDArray[np.int8]:
    """Kinds of candidates of one body, with the policy for neighbours."""
    arrays = (a.x, a.faces, pair_a, pair_b)
    kind = device.empty(len(pair_a), np.int8)
    device.run("classify_self_pairs", len(pair_a), *map(device.upload, arrays), skip_neighbours, bound, kind)
    kind = device.download(kind)
    rows = np.flatnonzero(kind == UNCERTAIN)
    narrow_phase_kernels.resolve_self_pairs.over(len(rows))(*arrays, rows, kind)
    return _counted(kind, rows, stats)


def joint_kinds(
    device: Device,
    jobs: Sequence[Job],
    job: Ints,
    pair_a: Ints,
    pair_b: Ints,
    bound: float,
    stats: dict[str, Any],
) -> NDArray[np.int8]:
    """Kinds of candidates of many object pairs, whose corners are gathered into one array."""
    x_a = _corners([side for side, _ in jobs], job, pair_a)
    x_b = _corners([side for _, side in jobs], job, pair_b)
    faces = np.arange(3 * len(job), dtype=np.int32).reshape(-1, 3)
    ids = np.arange(len(job), dtype=np.int32)
    return kinds(device, x_a, faces, x_b, faces, ids, ids, bound, stats)


def _corners(sides: list[Placed], job: Ints, tri: Ints) -> Floats:
    """Corners of the triangles of all object pairs, shape (3 · count, 3)."""
    x = np.zeros((3 * len(tri), 3))
    for q, rows in runs(job):
        x[3 * rows.start : 3 * rows.stop] = sides[q].x[sides[q].faces[tri[rows]]].reshape(-1, 3)
    x.flags.writeable = False
    return x


def _counted(kind: NDArray[np.int8], rows: NDArray[np.int64], stats: dict[str, Any]) -> NDArray[np.int8]:
    stats["triangle_tests"] += len(kind)
    stats["exact_tests"] += len(rows)
    return kind
