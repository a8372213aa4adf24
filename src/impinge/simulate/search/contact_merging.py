"""Contact merging: constraints of one key become one.

A dense surface has many vertices per coarse vertex. Contacts of vertices in one coarse group move the same few coarse
vertices; solving each separately costs time and adds no information. Constraints with equal keys are merged with the
shares s = k / Σ k:

    depth = Σ s depth,  G = Σ s G,  S = Σ s S,  k = Σ k,  normal and scale: direction and length of Σ s normal

Separated   Constraints with negative depth are ignored while another of the same key touches. If none touches, the
            nearest one represents all (``representatives``).
Guarantee   While all contacts of a key are active and equally deep, the merged force is the sum of their forces.
            Action equals reaction. Where normals differ, forces of the sides cancel in part and the reported force is
            the net force. Depths are lengths, not volumes.
Departure   Vertices deeper than their neighbours receive the mean force: features smaller than a coarse element may
            stay in penetration.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats
from impinge.respond.contact_forces import ContactConstraints, ContactFeatures, SparseRows
from impinge.simulate.search import contact_merging_kernels as kernels

Ids = NDArray[np.int64]


def merge_constraints(constraints: ContactConstraints, coarse_count: int) -> ContactConstraints:
    """Return one constraint per key, sorted by key; the input itself if all keys are distinct."""
    key, group = np.unique(constraints.key, return_inverse=True)
    if len(key) == len(constraints):
        return constraints
    row = np.lexsort([-constraints.depth, group])
    begins = np.concatenate([[True], group[row][1:] != group[row][:-1]])
    row = row[begins | (constraints.depth[row] > 0.0)]
    first = np.searchsorted(group[row], np.arange(len(key) + 1))
    counts = np.zeros(len(constraints))
    counts[row] = constraints.stiffness[row]
    stiffness = np.bincount(group, counts, len(key)).astype(np.float64)
    share = counts / np.where(stiffness > 0.0, stiffness, 1.0)[group]

    def mean(values: Floats) -> Floats:
        if values.ndim == 1:
            return np.bincount(group, share * values, len(key)).astype(np.float64)
        return np.stack([np.bincount(group, share * each, len(key)) for each in values.T], axis=1)

    one = row[first[:-1]]
    normal = mean(constraints.normal)
    size = np.linalg.norm(normal, axis=1, keepdims=True)
    return replace(
        constraints,
        normal_jacobian=_merge_rows(constraints.normal_jacobian, first, row, share, coarse_count),
        slip_jacobian=_merge_rows(constraints.slip_jacobian, first, row, share, coarse_count),
        normal=np.where(size > 0.0, normal / np.where(size > 0.0, size, 1.0), constraints.normal[one]),
        depth=mean(constraints.depth), rate=mean(constraints.rate), drive=mean(constraints.drive),
        relax=mean(constraints.relax), stiffness=stiffness, scale=size[:, 0], release=constraints.release[one],
        volumetric=constraints.volumetric[one], wall=constraints.wall[one], key=key,
        body_a=constraints.body_a[one], body_b=constraints.body_b[one],
        features=_merge_features(constraints.features, group, first, row, share),
    )  # fmt: skip


def _merge_features(
    features: ContactFeatures | None, group: Ids, first: Ids, row: Ids, share: Floats
) -> ContactFeatures | None:
    """Features of the deepest contact of each group, with the area and the vertices of all that touch."""
    if features is None:
        return None
    one = row[first[:-1]]
    start, vertex, weight = features.vertices
    # A vertex of a and one of b may have the same number.
    number = 2 * vertex + (weight < 0.0)
    merged = _merge_rows(
        SparseRows(start, number, weight[:, None]), first, row, share, int(number.max(initial=-1)) + 1
    )  # fmt: skip
    area = np.bincount(group[row], features.area[row], len(first) - 1).astype(np.float64)
    return features.rows(one)._replace(
        area=area, vertices=SparseRows(merged.start, merged.vertex // 2, merged.weight[:, 0])
    )


def representatives(group: Ids, depth: Floats, stiffness: Floats, within: float) -> tuple[Ids, Floats]:
    """Return ids of the contacts to keep, and the stiffness of all contacts.

    Contacts in penetration are kept. Of a coarse group without any, the nearest vertex is kept and carries the summed
    stiffness of all vertices at most ``within`` behind it: these touch with it, and a body that lands flat is stopped
    by its whole face instead of one vertex until the next search.
    """
    nearest = np.full(group.max(initial=-1) + 1, -np.inf)
    np.maximum.at(nearest, group, depth)
    ahead = nearest[group] <= 0.0
    close = ahead & (depth >= nearest[group] - within)
    total = np.bincount(group, np.where(close, stiffness, 0.0), len(nearest))
    representative = np.flatnonzero(ahead & (depth == nearest[group]))
    representative = representative[np.unique(group[representative], return_index=True)[1]]
    ids = np.union1d(np.flatnonzero(depth > 0.0), representative)
    return ids, np.where(ahead, total[group], stiffness)


def _merge_rows(rows: SparseRows, first: Ids, row: Ids, share: Floats, coarse_count: int) -> SparseRows:
    stamp, place = np.full(coarse_count, -1), np.zeros(coarse_count, dtype=np.int64)
    count = np.zeros(len(first) - 1, dtype=np.int64)
    kernels.count_vertices(first, row, rows.start, rows.vertex, stamp, count)
    begin = np.concatenate([[0], np.cumsum(count)])
    flat = rows.weight.reshape(len(rows.vertex), int(np.prod(rows.weight.shape[1:])))
    vertex, weight = np.zeros(begin[-1], dtype=np.int64), np.zeros((begin[-1], flat.shape[1]))
    kernels.merge_weights(first, row, share, rows.start, rows.vertex, flat, stamp, place, begin, vertex, weight)
    return SparseRows(begin, vertex, weight.reshape(-1, *rows.weight.shape[1:]))
