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
PAIRS = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
"""Corners of the six blocks of a tet."""

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
    corner: Ints
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
    tet: Longs
    """The tet of each lane within its model; -1 for padding."""


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
    corners, shapes, kinds, constants, tet_ids, group_counts = [], [], [], [], [], []
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
        corners.append(rank[model.tets[model.lane_tet] + begin].reshape(groups, GROUP, 4))
        shapes.append(blocks.shape)
        kinds.append(np.full(groups, blocks.model[0]))
        constants.append(np.repeat(blocks.constants, of_block, axis=0))
        tet_ids.append(np.where(model.is_padding, -1, model.lane_tet))
        group_counts.append(groups)
        spring_counts.append(0)
    corner: Longs = np.concatenate([np.zeros((0, GROUP, 4), dtype=np.int64), *corners])
    spring_end: Longs = np.concatenate([np.zeros((0, 2), dtype=np.int64), *ends])
    tet: Longs = np.concatenate([np.zeros(0, dtype=np.int64), *tet_ids])
    lanes = np.flatnonzero(tet >= 0)
    by_lane = corner.reshape(-1, 4)[lanes]
    # Forces: four records of each lane, then two of each spring.
    record = np.concatenate([
        (4 * lanes[:, None] + np.arange(4)).reshape(-1), 4 * GROUP * len(corner) + np.arange(2 * len(spring_end)),
    ])  # fmt: skip
    at = np.concatenate([by_lane.reshape(-1), spring_end.reshape(-1)])
    force_order = np.argsort(at, kind="stable")
    # Blocks: six records of each lane, then one of each spring.
    a = np.concatenate([by_lane[:, [i for i, _ in PAIRS]].reshape(-1), spring_end[:, 0]])
    b = np.concatenate([by_lane[:, [j for _, j in PAIRS]].reshape(-1), spring_end[:, 1]])
    source = np.concatenate([
        (6 * lanes[:, None] + np.arange(6)).reshape(-1), 6 * GROUP * len(corner) + np.arange(len(spring_end)),
    ])  # fmt: skip
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
        corner=np.ascontiguousarray(corner.transpose(0, 2, 1)).reshape(-1).astype(np.int32),
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
    return topology, Numbering(numbering, rank, tet)
