"""What an implicit system has in common for all steps: elements, the pattern of its matrix, leaves of vertices.

Vertices of each body are ordered by recursive bisection of their rest positions along the longest side. The runs at
the bottom, *leaves* of at most ``LEAF`` vertices, are units of work and of sums; runs of leaves make the clusters of
the preconditioner.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats, Ints
from impinge.deform.fem import Elements
from impinge.deform.fem_kernels import GROUP
from impinge.deform.rigid_tet import RigidTet
from impinge.deform.springs import SpringSheet

LEAF = 72
"""Most vertices of a leaf."""

Longs = NDArray[np.int64]


class Topology(NamedTuple):
    """Arrays for kernels; vertices in the order of leaves, positions flat."""

    body_start: Longs
    """First vertex of each body, and the number of vertices."""
    is_rigid: NDArray[np.uint8]
    """Whether each body is a ``RigidTet``."""
    body_leaf: Longs
    leaf_start: Longs
    leaf_pair: Longs
    mass: Floats
    drag: Floats
    """Drag coefficient of each vertex [kg / s]."""
    body_group: Longs
    group_model: Longs
    constants: Floats
    group_corner: Longs
    """Rows of ``corner`` before each group, and their number; each group has three numbers of forces for each."""
    group_weight: Longs
    """Rows of ``weight`` before each group, and their number: none for tets."""
    group_block: Longs
    """Blocks of a lane before each group, and their number: one for each pair of corners."""
    corner: Ints
    weight: Floats
    shape: Floats
    body_spring_group: Longs
    spring_group: Longs
    spring_end: Ints
    spring_stiffness: Floats
    spring_damping: Floats
    spring_length: Floats
    force_start: Longs
    force_source: Ints
    row_start: Longs
    column: Ints
    pair_source_start: Longs
    pair_source: Ints
    pair_upper: Ints
    pair_lower: Ints


class Numbering(NamedTuple):
    """How internal numbers relate to those of the caller."""

    vertex: Longs
    """The caller's row of each internal vertex."""
    rank: Longs
    """The internal number of each of the caller's rows; -1 for rows of no model."""
    item: Longs
    """The tet, or smoothed domain, of each lane within its model; -1 for padding."""


def bisect(points: Floats) -> tuple[Longs, list[int]]:
    """Order of points by recursive bisection, and the sizes of a power of two of leaves."""
    levels = max(0, math.ceil(math.log2(len(points) / LEAF)))
    runs: list[Longs] = [np.arange(len(points))]
    for _ in range(levels):
        halves: list[Longs] = []
        for run in runs:
            own = points[run]
            axis = int(np.argmax(own.max(axis=0) - own.min(axis=0)))
            along = run[np.argsort(own[:, axis], kind="stable")]
            halves += [along[: len(run) // 2], along[len(run) // 2 :]]
        runs = halves
    return np.concatenate(runs), [len(run) for run in runs]


def starts_of(counts: Any) -> Longs:
    """Offsets of runs of these lengths, and the total."""
    return np.concatenate([[0], np.cumsum(np.asarray(counts, dtype=np.int64))]).astype(np.int64)


def build(models: Sequence[Elements | SpringSheet], first: Sequence[int], row_count: int) -> tuple[Topology, Numbering]:
    """Make the topology of models whose vertices begin at the rows ``first``."""
    vertex, leaf_size, body_leaf = [], [], [0]
    for model, begin in zip(models, first):
        order, sizes = bisect(model.rest)
        vertex.append(order + begin)
        leaf_size += sizes
        body_leaf.append(len(leaf_size))
    numbering = np.concatenate(vertex)
    count = len(numbering)
    rank = np.full(row_count, -1, dtype=np.int64)
    rank[numbering] = np.arange(count)
    mass, drag = np.zeros(row_count), np.zeros(row_count)
    corners, weights, shapes, kinds, constants, items, group_counts = [], [], [], [], [], [], []
    corner_rows, weight_rows = [], []
    ends, stiffness, damping, length, spring_groups, spring_counts = [], [], [], [], [0], []
    for model, begin in zip(models, first):
        own = slice(begin, begin + len(model.rest))
        mass[own] = model.masses
        if isinstance(model, SpringSheet):
            drag[own] = model.drag
            ends.append(rank[model.ends + begin])
            stiffness.append(model.stiffness)
            damping.append(model.damping)
            length.append(model.lengths)
            done, edges = spring_groups[-1], len(model.ends)
            spring_groups += [done + min(edges, hi) for hi in range(GROUP, edges + GROUP, GROUP)]
            spring_counts.append(-(-edges // GROUP))
            group_counts.append(0)
            continue
        blocks = model.blocks
        groups, of_block = len(blocks.square) // GROUP, np.diff(blocks.group_start)
        corners.append(rank[blocks.corner_vertices() + begin])
        weights.append(blocks.weight)
        corner_rows.append(np.diff(blocks.corner_start))
        weight_rows.append(np.diff(blocks.weight_start))
        shapes.append(blocks.shape)
        kinds.append(np.full(groups, blocks.model[0]))
        constants.append(np.repeat(blocks.constants, of_block, axis=0))
        items.append(np.where(model.lanes.is_padding, -1, model.lanes.item))
        group_counts.append(groups)
        spring_counts.append(0)
    none: Longs = np.zeros(0, dtype=np.int64)
    corner, item = np.concatenate([none, *corners]), np.concatenate([none, *items])
    spring_end: Longs = np.concatenate([np.zeros((0, 2), dtype=np.int64), *ends])
    rows = np.concatenate([none, *corner_rows])
    group_corner, group_block = starts_of(rows), starts_of(rows * (rows - 1) // 2)
    record, at, source, a, b = _records(corner, group_corner, group_block, item >= 0)
    # Forces: a record for each corner of a lane, then two of each spring.
    record = np.concatenate([record, GROUP * group_corner[-1] + np.arange(2 * len(spring_end))])
    at = np.concatenate([at, spring_end.reshape(-1)])
    force_order = np.argsort(at, kind="stable")
    # Blocks: a record for each pair of corners, then one of each spring.
    source = np.concatenate([source, GROUP * group_block[-1] + np.arange(len(spring_end))])
    a, b = np.concatenate([a, spring_end[:, 0]]), np.concatenate([b, spring_end[:, 1]])
    pairs, which = np.unique(np.minimum(a, b) * count + np.maximum(a, b), return_inverse=True)
    which = which.reshape(-1)
    source_order = np.argsort(which, kind="stable")
    upper, lower = pairs // count, pairs % count
    row, column = np.concatenate([upper, lower]), np.concatenate([lower, upper])
    slot_order = np.lexsort((column, row))
    slot = np.empty(len(row), dtype=np.int64)
    slot[slot_order] = np.arange(len(row))
    leaf_start = starts_of(leaf_size)
    floats = np.zeros(0)
    topology = Topology(
        body_start=starts_of([len(model.rest) for model in models]),
        is_rigid=np.array([isinstance(model, RigidTet) for model in models], dtype=np.uint8),
        body_leaf=np.array(body_leaf, dtype=np.int64),
        leaf_start=leaf_start,
        leaf_pair=np.searchsorted(upper, leaf_start).astype(np.int64),
        mass=mass[numbering],
        drag=drag[numbering],
        body_group=starts_of(group_counts),
        group_model=np.concatenate([np.zeros(0, dtype=np.int64), *kinds]).astype(np.int64),
        constants=np.concatenate([np.zeros((0, 6)), *constants]),
        group_corner=group_corner,
        group_weight=starts_of(np.concatenate([none, *weight_rows])),
        group_block=group_block,
        corner=corner.astype(np.int32),
        weight=np.concatenate([floats, *weights]),
        shape=np.concatenate([floats, *shapes]),
        body_spring_group=starts_of(spring_counts),
        spring_group=np.array(spring_groups, dtype=np.int64),
        spring_end=spring_end.reshape(-1).astype(np.int32),
        spring_stiffness=np.concatenate([floats, *stiffness]),
        spring_damping=np.concatenate([floats, *damping]),
        spring_length=np.concatenate([floats, *length]),
        force_start=starts_of(np.bincount(at, minlength=count)),
        force_source=record[force_order].astype(np.int32),
        row_start=starts_of(np.bincount(row, minlength=count)),
        column=column[slot_order].astype(np.int32),
        pair_source_start=starts_of(np.bincount(which, minlength=len(pairs))),
        pair_source=(2 * source + (a > b))[source_order].astype(np.int32),
        pair_upper=slot[: len(pairs)].astype(np.int32),
        pair_lower=slot[len(pairs) :].astype(np.int32),
    )
    return topology, Numbering(numbering, rank, item)


def _records(
    corner: Longs, group_corner: Longs, group_block: Longs, is_real: NDArray[np.bool_]
) -> tuple[Longs, Longs, Longs, Longs, Longs]:
    """Records of forces with their vertices, and records of blocks with both vertices, rising; padding has none."""
    forces, blocks = [np.zeros((2, 0), dtype=np.int64)], [np.zeros((3, 0), dtype=np.int64)]
    counts, lane = np.diff(group_corner), np.arange(GROUP)[:, None]
    for count in np.unique(counts):
        of_count = np.flatnonzero(counts == count)[:, None, None]
        k = np.arange(count)
        vertex = corner[GROUP * (group_corner[of_count] + k) + lane]
        is_corner = is_real.reshape(-1, GROUP, 1)[of_count[:, 0, 0]] & ((k == 0) | (vertex != vertex[:, :, :1]))
        record = GROUP * group_corner[of_count] + count * lane + k
        forces.append(np.stack([record[is_corner], vertex[is_corner]]))
        lower, upper = np.triu_indices(count, 1)
        source = GROUP * group_block[of_count] + len(lower) * lane + np.arange(len(lower))
        is_pair = is_corner[:, :, lower] & is_corner[:, :, upper]
        blocks.append(np.stack([source[is_pair], vertex[:, :, lower][is_pair], vertex[:, :, upper][is_pair]]))
    record, at = _sorted(np.concatenate(forces, axis=1))
    source, a, b = _sorted(np.concatenate(blocks, axis=1))
    return record, at, source, a, b


def _sorted(rows: Longs) -> Longs:
    return rows[:, np.argsort(rows[0], kind="stable")]
