"""Cells in a hash table, and pairs of boxes that share a cell; see ``hashed_grid``."""

# mypy: ignore-errors

import numpy as np

from impinge.backend.claim import claim
from impinge.backend.jit import compiled, inlined, kernel, prange

AXIS_BITS = 21
PERIOD = 2.0**AXIS_BITS
"""Cells this far apart share a key, which costs a test and changes no answer."""
TASK = 64
"""Boxes that a thread claims at a time."""
LARGEST = 4.0
"""Most cells along a box, on the level that fits it."""
SMALLEST = 0.125
"""Least cells along a box."""
LEVEL_STEP = 4.0
"""Ratio of cell sizes from one level to the next."""
HIGHEST = 1000
"""A level beyond all that finite numbers need; unchecked infinite ones end here."""


# cells ----------------------------------------------------------------------------------------------------


@inlined
def _wrapped(i):
    """A whole number of any size modulo ``PERIOD``; exact in doubles."""
    if abs(i) < 2.0**62:
        return np.int64(i) & np.int64(PERIOD - 1.0)
    return np.int64(i - PERIOD * np.floor(i / PERIOD))


@inlined
def pack_cell(i, j, k):
    """The key of a cell from its three whole numbers, which are doubles."""
    return (_wrapped(i) << (2 * AXIS_BITS)) | (_wrapped(j) << AXIS_BITS) | _wrapped(k)


@inlined
def find_slot(table, shift, cell_key, key):
    """The slot of the table that holds a key, or the free one where it belongs: open addressing, Fibonacci hashing."""
    slot = np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> shift)
    while table[slot] >= 0 and cell_key[table[slot]] != key:
        slot = (slot + 1) & (len(table) - 1)
    return slot


@inlined
def cells_between(first, last):
    """Number of cells from cell ``first`` to that of coordinate ``last``."""
    return np.int64(np.floor(last) - first) + 1


@compiled
def level_of(extent, least_level):
    """The level whose cells fit what is ``extent`` cells of level 0 long."""
    level = 0
    while extent > LARGEST and level < HIGHEST:
        extent /= LEVEL_STEP
        level += 1
    while 0.0 < extent <= SMALLEST and level > least_level:
        extent *= LEVEL_STEP
        level -= 1
    return level


@compiled
def fill_table(keys, table, shift, cell_key, cell_start, item_cell):
    """Number the cells of all items in the order of their first item; return the number of cells.

    ``item_cell`` becomes the cell of each item, ``cell_start[c]`` the end of cell c in a list of items by cell. Filling
    such a list from the back, with ``cell_start[c] -= 1`` before each item, turns ends into starts.
    """
    cells = 0
    last_key, last_cell = np.int64(-1), 0
    for n in range(len(keys)):
        key = keys[n]
        if key != last_key:
            slot = find_slot(table, shift, cell_key, key)
            if table[slot] < 0:
                table[slot], cell_key[cells], cell_start[cells] = cells, key, 0
                cells += 1
            last_key, last_cell = key, table[slot]
        item_cell[n] = last_cell
        cell_start[last_cell] += 1
    for c in range(1, cells):
        cell_start[c] += cell_start[c - 1]
    cell_start[cells] = len(keys)
    return cells


# boxes ----------------------------------------------------------------------------------------------------


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
    """Half of the mean of the longest sides of all boxes; the whole mean may overflow."""
    total = 0.0
    for t in range(len(box)):
        u, v = 0.5 * box[t, 3] - 0.5 * box[t, 0], 0.5 * box[t, 4] - 0.5 * box[t, 1]
        total += max(u, v, 0.5 * box[t, 5] - 0.5 * box[t, 2]) / len(box)
    return total


@inlined
def _cells(box, t, inverse):
    """The first cell of a box, and the number of cells along each axis."""
    i, j, k = np.floor(box[t, 0] * inverse), np.floor(box[t, 1] * inverse), np.floor(box[t, 2] * inverse)
    return (
        i, j, k, cells_between(i, box[t, 3] * inverse), cells_between(j, box[t, 4] * inverse),
        cells_between(k, box[t, 5] * inverse),
    )  # fmt: skip


@compiled
def enter_boxes(box, rows, inverse):
    """A grid with boxes in all cells that they cover: (inverse, table, shift, cell_key, cell_start, entry).

    Cell c holds the boxes ``entry[cell_start[c]:cell_start[c + 1]]``.
    """
    count = 0
    for t in rows:
        _, _, _, across_i, across_j, across_k = _cells(box, t, inverse)
        count += across_i * across_j * across_k
    keys, item, item_cell = np.empty(count, np.int64), np.empty(count, np.int32), np.empty(count, np.int32)
    n = 0
    for t in rows:
        i0, j0, k0, across_i, across_j, across_k = _cells(box, t, inverse)
        for i in range(across_i):
            for j in range(across_j):
                for k in range(across_k):
                    keys[n], item[n] = pack_cell(i0 + i, j0 + j, k0 + k), t
                    n += 1
    bits = 1
    while (1 << bits) <= 1.5 * count:
        bits += 1
    table, shift = np.full(1 << bits, -1, np.int32), np.uint64(64 - bits)
    cell_key, cell_start, entry = np.empty(count, np.int64), np.empty(count + 1, np.int64), np.empty(count, np.int32)
    cells = fill_table(keys, table, shift, cell_key, cell_start, item_cell)
    for n in range(count - 1, -1, -1):
        cell_start[item_cell[n]] -= 1
        entry[cell_start[item_cell[n]]] = item[n]
    return inverse, table, shift, cell_key, cell_start[: cells + 1], entry


@inlined
def _overlap_first_in(box, s, t, inverse, i, j, k):
    """Whether two boxes overlap, and (i, j, k) is the first cell that both cover: a pair counts in that cell only."""
    return (
        box[s, 0] <= box[t, 3] and box[s, 3] >= box[t, 0]
        and box[s, 1] <= box[t, 4] and box[s, 4] >= box[t, 1]
        and box[s, 2] <= box[t, 5] and box[s, 5] >= box[t, 2]
        and np.floor(max(box[s, 0], box[t, 0]) * inverse) == i
        and np.floor(max(box[s, 1], box[t, 1]) * inverse) == j
        and np.floor(max(box[s, 2], box[t, 2]) * inverse) == k
    )  # fmt: skip


@kernel(parallel_from=8 * TASK)
def find_pairs(box, level, split, wanted_level, grid, threads, counter, keys, counts):
    """Overlapping pairs of boxes, the larger of ``wanted_level``, as keys (lower, higher), per thread.

    Boxes from number ``split`` on belong to another body, and only pairs of both bodies count; 0 for one body.
    Counts continue beyond the room of ``keys``.
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
                            cell = table[find_slot(table, shift, cell_key, pack_cell(i0 + i, j0 + j, k0 + k))]
                            if cell < 0:
                                continue
                            for at in range(cell_start[cell], cell_start[cell + 1]):
                                s = entry[at]
                                if level[t] == wanted_level and s <= t:
                                    continue
                                if split > 0 and (s < split) == (t < split):
                                    continue
                                if _overlap_first_in(box, s, t, inverse, i0 + i, j0 + j, k0 + k):
                                    if found < len(own_keys):
                                        low, high = np.uint64(min(s, t)), np.uint64(max(s, t))
                                        own_keys[found] = (low << np.uint64(32)) | high
                                    found += 1
            task = claim(counter)
        counts[thread] = found
