"""Triangles in all cells that their boxes cover, and pairs that share a cell; see ``spatial_hash_triangles``."""

# mypy: ignore-errors

import numpy as np

from impinge.backend.claim import claim
from impinge.backend.jit import compiled, inlined, kernel, prange
from impinge.detect.spatial_hash.kernels import cells_between, find_cell, first_slot, level_of, pack_cell
from impinge.exact.orientation import point
from impinge.exact.triangle_triangle import cross, dot, minus

TASK = 64
"""Triangles that a thread claims at a time."""


@kernel()
def fit_boxes(x, faces, box):
    """The box of each triangle: lowest x, y, z, highest x, y, z."""
    for t in prange(len(faces)):
        for axis in range(3):
            a, b, c = x[faces[t, 0], axis], x[faces[t, 1], axis], x[faces[t, 2], axis]
            box[t, axis], box[t, 3 + axis] = min(a, b, c), max(a, b, c)


@kernel()
def choose_levels(box, inverse, least_level, level):
    """The level whose cells fit each box."""
    for t in prange(len(box)):
        u = box[t, 3] * inverse - box[t, 0] * inverse
        v = box[t, 4] * inverse - box[t, 1] * inverse
        w = box[t, 5] * inverse - box[t, 2] * inverse
        level[t] = level_of(max(u, v, w), least_level)


@compiled
def mean_half_extent(box):
    """Half of the mean of the longest sides of all boxes; half, lest it overflows."""
    total = 0.0
    for t in range(len(box)):
        u, v = 0.5 * box[t, 3] - 0.5 * box[t, 0], 0.5 * box[t, 4] - 0.5 * box[t, 1]
        total += max(u, v, 0.5 * box[t, 5] - 0.5 * box[t, 2]) / len(box)
    return total


@inlined
def _cells(box, t, inverse):
    """The first cell of a box, and how many it covers along each axis."""
    i, j, k = np.floor(box[t, 0] * inverse), np.floor(box[t, 1] * inverse), np.floor(box[t, 2] * inverse)
    return (
        i, j, k, cells_between(i, box[t, 3] * inverse), cells_between(j, box[t, 4] * inverse),
        cells_between(k, box[t, 5] * inverse),
    )  # fmt: skip


@compiled
def count_entries(box, rows, inverse):
    """How many cells all boxes of ``rows`` cover, together."""
    count = 0
    for t in rows:
        _, _, _, m, n, o = _cells(box, t, inverse)
        count += m * n * o
    return count


@compiled
def fill_cells(box, rows, inverse, table, shift, cell_key, cell_start, entry):
    """Number the cells that triangles cover, and list the triangles of each; how many cells there are."""
    cells = 0
    cell_start[0] = 0
    for t in rows:
        i0, j0, k0, m, n, o = _cells(box, t, inverse)
        for i in range(m):
            for j in range(n):
                for k in range(o):
                    key = pack_cell(i0 + i, j0 + j, k0 + k)
                    slot = first_slot(key, shift)
                    while table[slot] >= 0 and cell_key[table[slot]] != key:
                        slot = (slot + 1) & (len(table) - 1)
                    if table[slot] < 0:
                        table[slot] = cells
                        cell_key[cells] = key
                        cells += 1
                        cell_start[cells] = 0
                    cell_start[table[slot] + 1] += 1
    for c in range(cells):
        cell_start[c + 1] += cell_start[c]
    for t in rows:
        i0, j0, k0, m, n, o = _cells(box, t, inverse)
        for i in range(m):
            for j in range(n):
                for k in range(o):
                    c = find_cell(table, shift, cell_key, pack_cell(i0 + i, j0 + j, k0 + k))
                    cell_start[c + 1] -= 1
                    entry[cell_start[c + 1]] = t
    last = len(entry)
    for c in range(cells):
        cell_start[c] = cell_start[c + 1]
    cell_start[cells] = last
    return cells


@inlined
def _overlap(box, s, t):
    return (
        box[s, 0] <= box[t, 3] and box[s, 3] >= box[t, 0]
        and box[s, 1] <= box[t, 4] and box[s, 4] >= box[t, 1]
        and box[s, 2] <= box[t, 5] and box[s, 5] >= box[t, 2]
    )  # fmt: skip


@inlined
def _starts_here(box, s, t, inverse, i, j, k):
    """Whether (i, j, k) is the first cell that both boxes cover: each pair is met there, and counts there only."""
    return (
        np.floor(max(box[s, 0], box[t, 0]) * inverse) == i
        and np.floor(max(box[s, 1], box[t, 1]) * inverse) == j
        and np.floor(max(box[s, 2], box[t, 2]) * inverse) == k
    )


@kernel(parallel_from=8 * TASK)
def find_pairs(box, level, split, wanted_level, grid, threads, counter, keys, counts):
    """Pairs of triangles with overlapping boxes, the larger of ``wanted_level``, as keys (lower, higher), per thread.

    Triangles from number ``split`` on belong to another body, and only pairs of both bodies count; 0 if there is only
    one body. Counts go on where there is no more room.
    """
    for thread in prange(threads):
        inverse, table, shift, cell_key, cell_start, entry = grid
        own_keys = keys[thread]
        found = 0
        task = claim(counter)
        while task * TASK < len(box):
            for t in range(task * TASK, min((task + 1) * TASK, len(box))):
                if level[t] > wanted_level:
                    continue
                i0, j0, k0, m, n, o = _cells(box, t, inverse)
                for i in range(m):
                    for j in range(n):
                        for k in range(o):
                            cell = find_cell(table, shift, cell_key, pack_cell(i0 + i, j0 + j, k0 + k))
                            if cell < 0:
                                continue
                            for at in range(cell_start[cell], cell_start[cell + 1]):
                                s = entry[at]
                                if level[t] == wanted_level and s <= t:
                                    continue
                                if split > 0 and (s < split) == (t < split):
                                    continue
                                if _overlap(box, s, t) and _starts_here(box, s, t, inverse, i0 + i, j0 + j, k0 + k):
                                    if found < len(own_keys):
                                        low, high = np.uint64(min(s, t)), np.uint64(max(s, t))
                                        own_keys[found] = (low << np.uint64(32)) | high
                                    found += 1
            task = claim(counter)
        counts[thread] = found


@inlined
def _size(u):
    return max(abs(u[0]), abs(u[1]), abs(u[2]))


@inlined
def _is_apart(x, m, n, face):
    """Whether the edge from m to n surely does not reach a face: it shares a vertex, or lies beside its box or plane.

    Heights over the plane are off by less than 2^-44 of the sizes that they are made of.
    """
    a, b, c = face[0], face[1], face[2]
    if m in (a, b, c) or n in (a, b, c):
        return True
    for axis in range(3):
        low, high = min(x[m, axis], x[n, axis]), max(x[m, axis], x[n, axis])
        if high < min(x[a, axis], x[b, axis], x[c, axis]) or low > max(x[a, axis], x[b, axis], x[c, axis]):
            return True
    u, v = minus(point(x, b), point(x, a)), minus(point(x, c), point(x, a))
    p, q = minus(point(x, m), point(x, a)), minus(point(x, n), point(x, a))
    normal = cross(u, v)
    reach = max(_size(u), _size(v), _size(p), _size(q))
    bound = 2.0**-44 * reach * reach * reach
    over_p, over_q = dot(normal, p), dot(normal, q)
    return bound > 1e-290 and ((over_p > bound and over_q > bound) or (over_p < -bound and over_q < -bound))


@kernel()
def sift_edges(x, faces, low, high, may_cross):
    """Which edges of two triangles may pass through the other: three of the lower one, then three of the higher."""
    for i in prange(len(low)):
        s, t = faces[low[i]], faces[high[i]]
        for k in range(3):
            may_cross[6 * i + k] = not _is_apart(x, s[k], s[(k + 1) % 3], t)
            may_cross[6 * i + 3 + k] = not _is_apart(x, t[k], t[(k + 1) % 3], s)
