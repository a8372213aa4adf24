"""Splits of what remains of a piece, and the copy of a part as a piece of its own; see ``cut_kernels`` for names."""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled
from impinge.detect.gjk_cut.cut_kernels import normalised, project
from impinge.exact.triangle_triangle import cross, dot

ENOUGH_FOR_LENGTH = 128
"""Sample size of the extent of a list."""
SAMPLE = 129
"""Sample size of the median of a list."""


@compiled
def _spread(arena, piece, listed, count, u):
    """Extent of a sample of the listed triangles along ``u``."""
    low, high = np.inf, -np.inf
    for k in range(0, count, 1 + count // ENOUGH_FOR_LENGTH):
        i = piece[0] + arena[1][piece[2] + listed[k], 0]
        along = dot((arena[0][0, i], arena[0][1, i], arena[0][2, i]), u)
        low, high = min(low, along), max(high, along)
    return high - low


@compiled
def longest_across(arena, a, listed_a, count_a, b, listed_b, count_b, s):
    """Of two directions perpendicular to ``s``, the one along which both lists together are longer.

    Both lists are split along the same direction: halves on opposite sides have little in common.
    """
    ax, ay, az = abs(s[0]), abs(s[1]), abs(s[2])
    if ax <= ay and ax <= az:
        u = normalised((0.0, -s[2], s[1]))
    elif ay <= az:
        u = normalised((s[2], 0.0, -s[0]))
    else:
        u = normalised((-s[1], s[0], 0.0))
    w = normalised(cross(s, u))
    along_u = _spread(arena, a, listed_a, count_a, u) + _spread(arena, b, listed_b, count_b, u)
    along_w = _spread(arena, a, listed_a, count_a, w) + _spread(arena, b, listed_b, count_b, w)
    return u if along_u >= along_w else w


@compiled
def longest_axis(arena, piece):
    """The axis along which the vertices of a piece extend farthest, as a direction."""
    longest, best = np.float32(-1.0), 0
    for axis in range(3):
        values = arena[0][axis][piece[0] : piece[0] + piece[1]]
        length = values.max() - values.min()
        if length > longest:
            longest, best = length, axis
    return 1.0 * (best == 0), 1.0 * (best == 1), 1.0 * (best == 2)


@compiled
def _key(corner, t, projection):
    """Three times the projection of a triangle's barycentre."""
    return projection[corner[t, 0]] + projection[corner[t, 1]] + projection[corner[t, 2]]


@compiled
def split(arena, piece, listed, count, u, scratch):
    """Partition the list at the median along ``u`` into ``scratch.parted``; returns the size of the first part.

    The median is that of a sample. If it leaves less than a quarter on one side, it is that of all, and equal keys are
    divided by rank. Each step writes both ends and advances one of them: no branch depends on a triangle.
    """
    corner = arena[1][piece[2] : piece[2] + piece[3]]
    projection, keys, parted = scratch.projection, scratch.key, scratch.parted
    project(arena, piece, u, projection)
    for by_rank in (False, True):
        taken, step = 0, 1 if by_rank else 1 + (count - 1) // SAMPLE
        for k in range(0, count, step):
            keys[taken] = _key(corner, listed[k], projection)
            taken += 1
        middle = np.partition(keys[:taken], taken // 2)[taken // 2]
        equal = count // 2 - np.count_nonzero(keys[:taken] < middle) if by_rank else 0
        left, right = 0, count - 1
        for k in range(count):
            t = listed[k]
            key = _key(corner, t, projection)
            is_equal = (key == middle) & (equal > 0)
            is_left = (key < middle) | is_equal
            parted[left], parted[right] = t, t
            left += is_left
            right -= not is_left
            equal -= is_equal
        if 4 * min(left, count - left) >= count:
            break
    return left


@compiled
def make_piece(arena, piece, parted, count, vertex_top, tri_top, number):
    """Copy triangles and the vertices that they use to the top of the arena; ``number`` is scratch."""
    corner, new_corner = arena[1][piece[2] :], arena[1][tri_top:]
    number[: piece[1]] = 0
    for k in range(count):
        t = parted[k]
        number[corner[t, 0]] = number[corner[t, 1]] = number[corner[t, 2]] = 1
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
