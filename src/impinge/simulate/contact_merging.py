"""Few contacts for many: rows of the same key become one.

A dense surface has many vertices for each coarse one, and all contacts of those move the same few coarse vertices:
to solve for each of them costs much and tells nothing new. Rows of one key are joined with the shares s = k / Σ k:

    depth = Σ s depth,  G = Σ s G,  S = Σ s S,  k = Σ k,  normal and scale: direction and length of Σ s normal

Ahead      Rows that do not touch yet take no part while others of their key touch; where none of a key touches, the one
           that is nearest to it stands for all (``counted``).
Guarantee  While all of them push, the forces of the joined row are the sum of theirs if depths are even; what one side
           receives the other loses, as before. Where normals differ the forces of the sides cancel in part, and the
           force that is told is what is left. Rows are of lengths, not of volumes.
Departure  Vertices that are deeper than their neighbours are pushed like these: the mean goes out, bumps smaller
           than a coarse element may stay in.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats
from impinge.respond.contact_forces import ContactRows, Sums
from impinge.simulate import contact_merging_kernels as kernels


def gathered(rows: ContactRows, coarse_count: int) -> ContactRows:
    """One row for each key, in the order of keys; as they are, if no key comes twice."""
    key, group = np.unique(rows.key, return_inverse=True)
    if len(key) == len(rows):
        return rows
    row = np.lexsort([-rows.depth, group])
    begins = np.concatenate([[True], group[row][1:] != group[row][:-1]])
    row = row[begins | (rows.depth[row] > 0.0)]
    first = np.searchsorted(group[row], np.arange(len(key) + 1))
    counts = np.zeros(len(rows))
    counts[row] = rows.stiffness[row]
    stiffness = np.bincount(group, counts, len(key)).astype(np.float64)
    share = counts / np.where(stiffness > 0.0, stiffness, 1.0)[group]

    def mean(values: Floats) -> Floats:
        if values.ndim == 1:
            return np.bincount(group, share * values, len(key)).astype(np.float64)
        return np.stack([np.bincount(group, share * each, len(key)) for each in values.T], axis=1)

    one = row[first[:-1]]
    normal = mean(rows.normal)
    size = np.linalg.norm(normal, axis=1, keepdims=True)
    return replace(
        rows,
        push=_joined(rows.push, first, row, share, coarse_count),
        slide=_joined(rows.slide, first, row, share, coarse_count),
        normal=np.where(size > 0.0, normal / np.where(size > 0.0, size, 1.0), rows.normal[one]),
        depth=mean(rows.depth), rate=mean(rows.rate), drive=mean(rows.drive), relax=mean(rows.relax),
        stiffness=stiffness, scale=size[:, 0], release=rows.release[one], volumetric=rows.volumetric[one], key=key,
        body_a=rows.body_a[one], body_b=rows.body_b[one],
    )  # fmt: skip


def counted(lump: NDArray[np.int64], depth: Floats, stiffness: Floats, within: float) -> tuple[Any, Floats]:
    """Which contacts count, as ids, and the stiffness of all: those that touch, and the nearest of lumps that do not.

    That one stands for all that are no more than ``within`` behind it, with the sum of their stiffness: when it touches
    they do, and a body that falls flat is stopped by its whole side, and not by one vertex until the next search.
    """
    nearest = np.full(lump.max(initial=-1) + 1, -np.inf)
    np.maximum.at(nearest, lump, depth)
    ahead = nearest[lump] <= 0.0
    close = ahead & (depth >= nearest[lump] - within)
    total = np.bincount(lump, np.where(close, stiffness, 0.0), len(nearest))
    stands = np.flatnonzero(ahead & (depth == nearest[lump]))
    stands = stands[np.unique(lump[stands], return_index=True)[1]]
    ids = np.union1d(np.flatnonzero(depth > 0.0), stands)
    return ids, np.where(ahead, total[lump], stiffness)


def _joined(sums: Sums, first: NDArray[np.int64], row: NDArray[np.int64], share: Floats, coarse_count: int) -> Sums:
    stamp, place = np.full(coarse_count, -1), np.zeros(coarse_count, dtype=np.int64)
    count = np.zeros(len(first) - 1, dtype=np.int64)
    kernels.count_vertices(first, row, sums.start, sums.vertex, stamp, count)
    begin = np.concatenate([[0], np.cumsum(count)])
    flat = sums.weight.reshape(len(sums.vertex), -1)
    vertex, weight = np.zeros(begin[-1], dtype=np.int64), np.zeros((begin[-1], flat.shape[1]))
    kernels.join_weights(first, row, share, sums.start, sums.vertex, flat, stamp, place, begin, vertex, weight)
    return Sums(begin, vertex, weight.reshape(-1, *sums.weight.shape[1:]))
