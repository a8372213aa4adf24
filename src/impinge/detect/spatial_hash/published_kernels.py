"""The scheme as published: hash functions, tables, both passes, both inside tests; see ``spatial_hash_published``."""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled
from impinge.detect.spatial_hash.kernels import corner_of
from impinge.exact.orientation import point
from impinge.exact.triangle_triangle import cross, dot, minus

PAPER, ADDITIVE, ROTATING, MIXED = range(4)
FACTORS = (np.uint64(73856093), np.uint64(19349663), np.uint64(83492791))
"""The paper's multipliers, large primes but for the second, which is 41 · 471943."""
ROUNDING = 2.0**-46
"""Generous for a handful of roundings of 2^-53 each."""
FEW_CELLS = 4096
"""Cells that a tet may cover, or as many as there are vertices; beyond that all vertices are looked at instead."""
FEW_SLOTS = 256
"""The same where tets meet tets, whose number grows with its square."""


@compiled
def hash_cell(function, i, j, k, table_size):
    """The slot of a cell; all arithmetic is modulo 2^64, so that negative numbers are as good as others."""
    a, b, c = np.int64(i).view(np.uint64), np.int64(j).view(np.uint64), np.int64(k).view(np.uint64)
    p, q, r = FACTORS
    if function == PAPER:
        h = (a * p) ^ (b * q) ^ (c * r)
    elif function == ADDITIVE:
        h = a * p + b * q + c * r
    elif function == ROTATING:
        h = _rotate(_rotate(a) ^ b) ^ c
    else:
        h = _mix(_mix(_mix(a) + b) + c)
    return np.int64(h % np.uint64(table_size))


@compiled
def _rotate(h):
    return (h << np.uint64(11)) | (h >> np.uint64(53))


@compiled
def _mix(h):
    """Spread every bit over all bits."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@compiled
def _cell(p, cell_size):
    """The cell of a point: both passes use this very expression, so that rounding loses nobody."""
    return np.floor(p[0] / cell_size), np.floor(p[1] / cell_size), np.floor(p[2] / cell_size)


@compiled
def _slot(function, cell, table_size):
    return hash_cell(function, np.int64(cell[0]), np.int64(cell[1]), np.int64(cell[2]), table_size)


# the first pass: vertices -----------------------------------------------------------------------------------


@compiled
def hash_vertices(x, vertex, cell_size, function, now, stamp, first, following):
    """Put each vertex at the head of its slot's list; a slot with an outdated stamp is emptied first."""
    for n in range(len(vertex)):
        v = vertex[n]
        h = _slot(function, _cell(point(x, v), cell_size), len(stamp))
        if stamp[h] != now:
            stamp[h] = now
            first[h] = -1
        following[v] = first[h]
        first[h] = v


@compiled
def sort_vertices(x, vertex, cell_size, function, start, slot_of, listed):
    """Vertices by slot, by counting; ``start`` has an entry more than there are slots."""
    start[:] = 0
    for n in range(len(vertex)):
        slot_of[n] = _slot(function, _cell(point(x, vertex[n]), cell_size), len(start) - 1)
        start[slot_of[n] + 1] += 1
    for h in range(len(start) - 1):
        start[h + 1] += start[h]
    for n in range(len(vertex) - 1, -1, -1):
        start[slot_of[n] + 1] -= 1
        listed[start[slot_of[n] + 1]] = vertex[n]
    for h in range(len(start) - 1):
        start[h] = start[h + 1]
    start[len(start) - 1] = len(vertex)


# the inside tests -------------------------------------------------------------------------------------------


@compiled
def _size(u):
    return max(abs(u[0]), abs(u[1]), abs(u[2]))


@compiled
def _by_barycentric(p, a, b, c, d):
    """Whether the coordinates of p along the edges at a allow that it is inside, within rounding."""
    u, v, w, q = minus(b, a), minus(c, a), minus(d, a), minus(p, a)
    size = max(_size(u), _size(v), _size(w))
    bound = ROUNDING * size * size * max(size, _size(q))
    of_b, of_c, of_d = cross(v, w), cross(w, u), cross(u, v)
    det = dot(of_d, w)
    if not abs(det) > bound:
        return True
    s, t, r = dot(of_b, q) / det, dot(of_c, q) / det, dot(of_d, q) / det
    slack = 4.0 * bound / abs(det)
    return not (s < -slack or t < -slack or r < -slack or s + t + r > 1.0 + slack)


@compiled
def _by_half_spaces(p, a, b, c, d):
    """Whether p is on the inner side of all four faces, within rounding."""
    u, v, w, q = minus(b, a), minus(c, a), minus(d, a), minus(p, a)
    size = max(_size(u), _size(v), _size(w))
    bound = 4.0 * ROUNDING * size * size * max(size, _size(q))
    det = dot(cross(u, v), w)
    if not abs(det) > bound:
        return True
    sign = 1.0 if det > 0.0 else -1.0
    if sign * dot(cross(u, v), q) < -bound or sign * dot(cross(v, w), q) < -bound:
        return False
    if sign * dot(cross(w, u), q) < -bound:
        return False
    return not sign * dot(cross(minus(d, b), minus(c, b)), minus(p, b)) < -bound


@compiled
def _in_box(p, lo, hi):
    return lo[0] <= p[0] <= hi[0] and lo[1] <= p[1] <= hi[1] and lo[2] <= p[2] <= hi[2]


@compiled
def _lowest(a, b, c, d):
    return min(a[0], b[0], c[0], d[0]), min(a[1], b[1], c[1], d[1]), min(a[2], b[2], c[2], d[2])


@compiled
def _highest(a, b, c, d):
    return max(a[0], b[0], c[0], d[0]), max(a[1], b[1], c[1], d[1]), max(a[2], b[2], c[2], d[2])


@compiled
def _try(x, v, corner, at, tet, half_space, keys, tally):
    """Vertex ``v`` against the tet at slot ``at``: own corner, box, inside test; candidates are written.

    Tally: vertices met, those in the box, candidates.
    """
    tally[0] += 1
    m, n = corner_of(corner, at, 0), corner_of(corner, at, 1)
    o, q = corner_of(corner, at, 2), corner_of(corner, at, 3)
    if v in (m, n, o, q):
        return
    p, a, b, c, d = point(x, v), point(x, m), point(x, n), point(x, o), point(x, q)
    if not _in_box(p, _lowest(a, b, c, d), _highest(a, b, c, d)):
        return
    tally[1] += 1
    may_be = _by_half_spaces(p, a, b, c, d) if half_space else _by_barycentric(p, a, b, c, d)
    if may_be:
        if tally[2] < len(keys):
            keys[tally[2]] = (np.uint64(v) << np.uint64(32)) | np.uint64(tet[at])
        tally[2] += 1


@compiled
def _box_cells(x, corner, at, cell_size):
    """First and last cell of a tet's box."""
    a, b = point(x, corner_of(corner, at, 0)), point(x, corner_of(corner, at, 1))
    c, d = point(x, corner_of(corner, at, 2)), point(x, corner_of(corner, at, 3))
    return _cell(_lowest(a, b, c, d), cell_size), _cell(_highest(a, b, c, d), cell_size)


@compiled
def _cell_count(low, high):
    return (high[0] - low[0] + 1.0) * (high[1] - low[1] + 1.0) * (high[2] - low[2] + 1.0)


@compiled
def _try_all(x, vertex, corner, at, tet, half_space, keys, tally):
    for n in range(len(vertex)):
        _try(x, vertex[n], corner, at, tet, half_space, keys, tally)


# the second pass: tets --------------------------------------------------------------------------------------


@compiled
def search_lists(x, corner, tet, vertex, cell_size, function, half_space, now, stamp, first, following, keys, tally):
    """All tets against the lists of the slots that their boxes cover."""
    for at in range(len(tet)):
        if tet[at] < 0:
            continue
        low, high = _box_cells(x, corner, at, cell_size)
        if not _cell_count(low, high) <= max(FEW_CELLS, len(vertex)):
            _try_all(x, vertex, corner, at, tet, half_space, keys, tally)
            continue
        for i in range(np.int64(low[0]), np.int64(high[0]) + 1):
            for j in range(np.int64(low[1]), np.int64(high[1]) + 1):
                for k in range(np.int64(low[2]), np.int64(high[2]) + 1):
                    h = hash_cell(function, i, j, k, len(stamp))
                    v = first[h] if stamp[h] == now else -1
                    while v >= 0:
                        _try(x, v, corner, at, tet, half_space, keys, tally)
                        v = following[v]


@compiled
def search_sorted(x, corner, tet, vertex, cell_size, function, half_space, start, listed, keys, tally):
    """All tets against the sorted vertices of the slots that their boxes cover."""
    for at in range(len(tet)):
        if tet[at] < 0:
            continue
        low, high = _box_cells(x, corner, at, cell_size)
        if not _cell_count(low, high) <= max(FEW_CELLS, len(vertex)):
            _try_all(x, vertex, corner, at, tet, half_space, keys, tally)
            continue
        for i in range(np.int64(low[0]), np.int64(high[0]) + 1):
            for j in range(np.int64(low[1]), np.int64(high[1]) + 1):
                for k in range(np.int64(low[2]), np.int64(high[2]) + 1):
                    h = hash_cell(function, i, j, k, len(start) - 1)
                    for n in range(start[h], start[h + 1]):
                        _try(x, listed[n], corner, at, tet, half_space, keys, tally)


# one pass: tets only ------------------------------------------------------------------------------------------


@compiled
def _tet_slots(x, corner, at, limit, cell_size, function, table_size, slots):
    """Slots of all cells of a tet's box, or of its corners only if they are too many; how many there are."""
    low, high = _box_cells(x, corner, at, cell_size)
    count = 0
    if not _cell_count(low, high) <= limit:
        for k in range(4):
            slots[k] = _slot(function, _cell(point(x, corner_of(corner, at, k)), cell_size), table_size)
        return -4
    for i in range(np.int64(low[0]), np.int64(high[0]) + 1):
        for j in range(np.int64(low[1]), np.int64(high[1]) + 1):
            for k in range(np.int64(low[2]), np.int64(high[2]) + 1):
                slots[count] = hash_cell(function, i, j, k, table_size)
                count += 1
    return count


@compiled
def search_one_pass(x, corner, tet, vertex, cell_size, function, half_space, start, keys, tally):
    """Put tets into the slots of their boxes; then all tets of a slot against each other's corners."""
    limit = FEW_SLOTS
    slots = np.zeros(limit, dtype=np.int64)
    start[:] = 0
    for at in range(len(tet)):
        if tet[at] >= 0:
            for n in range(abs(_tet_slots(x, corner, at, limit, cell_size, function, len(start) - 1, slots))):
                start[slots[n] + 1] += 1
    for h in range(len(start) - 1):
        start[h + 1] += start[h]
    listed = np.zeros(start[len(start) - 1], dtype=np.int32)
    for at in range(len(tet) - 1, -1, -1):
        if tet[at] < 0:
            continue
        count = _tet_slots(x, corner, at, limit, cell_size, function, len(start) - 1, slots)
        for n in range(abs(count)):
            start[slots[n] + 1] -= 1
            listed[start[slots[n] + 1]] = at
        if count < 0:
            _try_all(x, vertex, corner, at, tet, half_space, keys, tally)
    for h in range(1, len(start)):
        end = start[h + 1] if h + 1 < len(start) else len(listed)
        for m in range(start[h], end):
            for n in range(start[h], end):
                if m != n:
                    for k in range(4):
                        _try(x, corner_of(corner, listed[n], k), corner, listed[m], tet, half_space, keys, tally)


@compiled
def sift_volumes(x, corner, tet, may_be_flat):
    """How many tets are surely inverted; marks those whose sign doubles cannot tell."""
    inverted = 0
    for at in range(len(tet)):
        if tet[at] >= 0:
            a = point(x, corner_of(corner, at, 0))
            u = minus(point(x, corner_of(corner, at, 1)), a)
            v = minus(point(x, corner_of(corner, at, 2)), a)
            w = minus(point(x, corner_of(corner, at, 3)), a)
            size = max(_size(u), _size(v), _size(w))
            det = dot(cross(u, v), w)
            may_be_flat[at] = not abs(det) > ROUNDING * size * size * size + 1e-290
            inverted += int(det < 0.0 and not may_be_flat[at])
    return inverted
