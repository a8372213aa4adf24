"""Split what remains of a piece in two, and make pieces of the halves; see ``gjk_cut_kernels`` for the names."""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled
from impinge.detect.gjk_cut_kernels import normalised, project
from impinge.exact.triangle_triangle import cross, dot

RANK, MEDIAN = 0, 1
"""Ways to halve a list."""
ENOUGH_FOR_LENGTH = 128
"""Triangles that are looked at to see in which direction a list is longer."""
SAMPLE = 129
"""Triangles of a list whose middle stands for the middle of all."""


@compiled
def _across(s):
    """Two directions at right angles to ``s`` and to each other."""
    ax, ay, az = abs(s[0]), abs(s[1]), abs(s[2])
    if ax <= ay and ax <= az:
        u = normalised((0.0, -s[2], s[1]))
    elif ay <= az:
        u = normalised((s[2], 0.0, -s[0]))
    else:
        u = normalised((-s[1], s[0], 0.0))
    return u, normalised(cross(s, u))


@compiled
def _spread(arena, piece, listed, count, u):
    """How far apart some of the listed triangles lie along ``u``."""
    low, high = np.inf, -np.inf
    for k in range(0, count, 1 + count // ENOUGH_FOR_LENGTH):
        i = piece[0] + arena[3][piece[2] + listed[k], 0]
        along = dot((arena[0][i], arena[1][i], arena[2][i]), u)
        low, high = min(low, along), max(high, along)
    return high - low


@compiled
def longest_across(arena, a, listed_a, count_a, b, listed_b, count_b, s):
    """Of two directions across ``s`` the one along which both lists together lie farther apart.

    Both are then parted in the same direction, so that parts on opposite sides have little in common.
    """
    u, w = _across(s)
    along_u = _spread(arena, a, listed_a, count_a, u) + _spread(arena, b, listed_b, count_b, u)
    along_w = _spread(arena, a, listed_a, count_a, w) + _spread(arena, b, listed_b, count_b, w)
    return u if along_u >= along_w else w


@compiled
def _select(key, listed, first, last, rank):
    """Quickselect: reorder both arrays so that the entry with this rank is in its place."""
    while last - first > 1:
        a, b, c = key[first], key[(first + last) // 2], key[last - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = first, last - 1
        while i <= j:
            while key[i] < pivot:
                i += 1
            while pivot < key[j]:
                j -= 1
            if i <= j:
                key[i], key[j] = key[j], key[i]
                listed[i], listed[j] = listed[j], listed[i]
                i += 1
                j -= 1
        if rank <= j:
            last = j + 1
        elif rank >= i:
            first = i
        else:
            return


@compiled
def _key(corner, t, projection):
    """Three times the projection of a triangle's barycentre."""
    return projection[corner[t, 0]] + projection[corner[t, 1]] + projection[corner[t, 2]]


@compiled
def _middle_of_sample(corner, listed, count, projection, key, other):
    """The key in the middle of those of some triangles; of all if they are few."""
    step = 1 + (count - 1) // SAMPLE
    taken = 0
    for k in range(0, count, step):
        key[taken] = _key(corner, listed[k], projection)
        taken += 1
    _select(key, other, 0, taken, taken // 2)
    return key[taken // 2]


@compiled
def _middle_of_corners(corner, listed, count, projection, key, other):
    """The median of all corners of all triangles, as a key."""
    for k in range(count):
        for i in range(3):
            key[3 * k + i] = projection[corner[listed[k], i]]
    _select(key, other, 0, 3 * count, 3 * count // 2)
    return 3.0 * key[3 * count // 2]


@compiled
def part_at(corner, listed, count, projection, middle, parted):
    """Write triangles with keys below ``middle`` from the front, others from the back; returns how many are below.

    Both places are written and one of them is moved on: no branch depends on a triangle.
    """
    left, right = 0, count - 1
    for k in range(count):
        t = listed[k]
        is_left = _key(corner, t, projection) < middle
        parted[left] = t
        parted[right] = t
        left += is_left
        right -= not is_left
    return left


@compiled
def part_by_rank(corner, listed, count, projection, key, parted):
    """Write the half with the lesser keys first, exactly half of them; returns its size."""
    for k in range(count):
        key[k] = _key(corner, listed[k], projection)
        parted[k] = listed[k]
    _select(key, parted, 0, count, count // 2)
    return count // 2


@compiled
def halve(corner, listed, count, projection, how, key, parted):
    """Part what is listed at the middle of its projection; neither part gets fewer than a quarter of two or more."""
    if how == MEDIAN:
        middle = _middle_of_corners(corner, listed, count, projection, key, parted)
    else:
        middle = _middle_of_sample(corner, listed, count, projection, key, parted)
    half = part_at(corner, listed, count, projection, middle, parted)
    if 4 * min(half, count - half) < count:
        return part_by_rank(corner, listed, count, projection, key, parted)
    return half


@compiled
def split(arena, piece, listed, count, u, how, scratch):
    """Part what is listed along ``u``; returns the size of the first part."""
    projection, key, parted = scratch[2], scratch[6], scratch[7]
    if count < 2:
        parted[0] = listed[0]
        return count
    corner = arena[3][piece[2] : piece[2] + piece[3]]
    project(arena, piece, u, projection)
    return halve(corner, listed, count, projection, how, key, parted)


@compiled
def _extent(values):
    low, high = np.inf, -np.inf
    for i in range(len(values)):
        low = values[i] if values[i] < low else low
        high = values[i] if values[i] > high else high
    return high - low


@compiled
def split_alone(arena, piece, listed, how, scratch):
    """Part a whole piece along the axis in which it is longest; returns the size of the first part."""
    key, parted = scratch[6], scratch[7]
    first, last = piece[0], piece[0] + piece[1]
    x, y, z = arena[0][first:last], arena[1][first:last], arena[2][first:last]
    dx, dy, dz = _extent(x), _extent(y), _extent(z)
    along = x if dx >= max(dy, dz) else (y if dy >= dz else z)
    corner = arena[3][piece[2] : piece[2] + piece[3]]
    return halve(corner, listed, piece[3], along, how, key, parted)


@compiled
def make_piece(arena, piece, parted, count, vertex_top, tri_top, number):
    """Copy triangles, with the vertices that they use and no others, to the top of the arena.

    ``number`` has room for the vertices of the piece, and is scratch.
    """
    x, y, z = arena[0][piece[0] :], arena[1][piece[0] :], arena[2][piece[0] :]
    new_x, new_y, new_z = arena[0][vertex_top:], arena[1][vertex_top:], arena[2][vertex_top:]
    corner, new_corner = arena[3][piece[2] :], arena[3][tri_top:]
    tri, new_tri = arena[4][piece[2] :], arena[4][tri_top:]
    for i in range(piece[1]):
        number[i] = 0
    for k in range(count):
        t = parted[k]
        number[corner[t, 0]] = 1
        number[corner[t, 1]] = 1
        number[corner[t, 2]] = 1
    used = np.uint32(0)
    for i in range(piece[1]):
        new_x[used], new_y[used], new_z[used] = x[i], y[i], z[i]
        is_used = number[i]
        number[i] = used
        used = np.uint32(used + is_used)
    for k in range(count):
        t = parted[k]
        new_corner[k, 0] = number[corner[t, 0]]
        new_corner[k, 1] = number[corner[t, 1]]
        new_corner[k, 2] = number[corner[t, 2]]
        new_tri[k] = tri[t]
    return vertex_top, np.int64(used), tri_top, np.int64(count)


@compiled
def parts_of(piece, half):
    """The two parts of a piece whose triangles are in the order of a split; they share its vertices."""
    first, count = piece[2], piece[3]
    return (piece[0], piece[1], first, half), (piece[0], piece[1], first + half, count - half)
