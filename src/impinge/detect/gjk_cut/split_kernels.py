"""Split what remains of a piece in two, and make pieces of the halves; see ``gjk_cut_kernels`` for the names."""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled
from impinge.detect.gjk_cut.cut_kernels import normalised, project
from impinge.exact.triangle_triangle import cross, dot

ENOUGH_FOR_LENGTH = 128
"""Triangles that are looked at to see in which direction a list is longer."""
SAMPLE = np.int64(129)
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
        i = piece[0] + arena[1][piece[2] + listed[k], 0]
        along = dot((arena[0][0, i], arena[0][1, i], arena[0][2, i]), u)
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
def _value_of_rank(key, count, rank):
    """Quickselect: the value of this rank; reorders ``key``."""
    first, last = 0, count
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
                i += 1
                j -= 1
        if rank <= j:
            last = j + 1
        elif rank >= i:
            first = i
        else:
            return pivot
    return key[first]


@compiled
def _key(corner, t, projection):
    """Three times the projection of a triangle's barycentre."""
    return projection[corner[t, 0]] + projection[corner[t, 1]] + projection[corner[t, 2]]


@compiled
def _keys_of_sample(corner, listed, count, projection, most, key):
    """Write the keys of some triangles, about ``most``, or of all if they are few; returns how many."""
    taken = 0
    for k in range(0, count, 1 + (count - 1) // most):
        key[taken] = _key(corner, listed[k], projection)
        taken += 1
    return taken


@compiled
def _part(corner, listed, count, projection, middle, equal, parted):
    """Write triangles with keys below ``middle`` from the front, others from the back; returns how many are in front.

    The first ``equal`` of those in the middle go to the front too. Both places are written and one of them is moved on:
    no branch depends on a triangle.
    """
    left, right = 0, count - 1
    for k in range(count):
        t = listed[k]
        key = _key(corner, t, projection)
        is_equal = (key == middle) & (equal > 0)
        is_left = (key < middle) | is_equal
        parted[left] = t
        parted[right] = t
        left += is_left
        right -= not is_left
        equal -= is_equal
    return left


@compiled
def halve(corner, listed, count, projection, key, parted):
    """Part what is listed at the middle of its projection; neither part gets fewer than a quarter of two or more."""
    taken = _keys_of_sample(corner, listed, count, projection, SAMPLE, key)
    half, by_rank = 0, False
    while True:
        middle = _value_of_rank(key, taken, taken // 2)
        equal = 0
        if by_rank:
            equal = count // 2
            for k in range(taken):
                equal -= key[k] < middle
        half = _part(corner, listed, count, projection, middle, equal, parted)
        if by_rank or 4 * min(half, count - half) >= count:
            return half
        taken, by_rank = _keys_of_sample(corner, listed, count, projection, count, key), True


@compiled
def split(arena, piece, listed, count, u, scratch):
    """Part what is listed along ``u``; returns the size of the first part."""
    if count < 2:
        scratch.parted[0] = listed[0]
        return count
    corner = arena[1][piece[2] : piece[2] + piece[3]]
    project(arena, piece, u, scratch.projection)
    return halve(corner, listed, count, scratch.projection, scratch.key, scratch.parted)


@compiled
def longest_axis(arena, piece):
    """The axis along which the vertices of a piece lie farthest apart."""
    best, longest = 0, np.float32(-1.0)
    for axis in range(3):
        values = arena[0][axis][piece[0] : piece[0] + piece[1]]
        low, high = np.float32(np.inf), np.float32(-np.inf)
        for i in range(len(values)):
            low = values[i] if values[i] < low else low
            high = values[i] if values[i] > high else high
        if high - low > longest:
            best, longest = axis, high - low
    return (1.0, 0.0, 0.0) if best == 0 else ((0.0, 1.0, 0.0) if best == 1 else (0.0, 0.0, 1.0))


@compiled
def make_piece(arena, piece, parted, count, vertex_top, tri_top, number):
    """Copy triangles, with the vertices that they use and no others, to the top of the arena.

    ``number`` has room for the vertices of the piece, and is scratch.
    """
    corner, new_corner = arena[1][piece[2] :], arena[1][tri_top:]
    number[: piece[1]] = 0
    for k in range(count):
        t = parted[k]
        number[corner[t, 0]] = 1
        number[corner[t, 1]] = 1
        number[corner[t, 2]] = 1
    x, y, z = arena[0][0][piece[0] :], arena[0][1][piece[0] :], arena[0][2][piece[0] :]
    new_x, new_y, new_z = arena[0][0][vertex_top:], arena[0][1][vertex_top:], arena[0][2][vertex_top:]
    used = np.uint32(0)
    for i in range(piece[1]):
        new_x[used], new_y[used], new_z[used] = x[i], y[i], z[i]
        is_used = number[i]
        number[i] = used
        used = np.uint32(used + is_used)
    tri, new_tri, box, new_box = arena[2][piece[2] :], arena[2][tri_top:], arena[3][piece[2] :], arena[3][tri_top:]
    for k in range(count):
        t = parted[k]
        for i in range(3):
            new_corner[k, i] = number[corner[t, i]]
        for i in range(6):
            new_box[k, i] = box[t, i]
        new_tri[k] = tri[t]
    return vertex_top, np.int64(used), tri_top, np.int64(count)


@compiled
def parts_of(piece, half):
    """The two parts of a piece whose triangles are in the order of a split; they share its vertices."""
    first, count = piece[2], piece[3]
    return (piece[0], piece[1], first, half), (piece[0], piece[1], first + half, count - half)
