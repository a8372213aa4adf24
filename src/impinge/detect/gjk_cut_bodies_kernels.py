"""Bodies into the arena: only live triangles, only the vertices that they use, counted from a common origin."""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled, kernel, prange


@compiled
def number_vertices(faces, ids, stamp, number, mark, vertex, corner):
    """Number the vertices of the triangles in ``ids`` as they are met; returns how many there are.

    ``stamp`` and ``number`` have an entry for each vertex of the body; entries without this ``mark`` are forgotten, so
    that the cost follows the triangles and not the body.
    """
    count = np.int32(0)
    for k in range(len(ids)):
        t = ids[k]
        for i in range(3):
            v = faces[t, i]
            is_new = stamp[v] != mark
            n = count if is_new else number[v]
            stamp[v] = mark
            number[v] = n
            vertex[count] = v
            corner[k, i] = n
            count = np.int32(count + np.int32(is_new))
    return count


@compiled
def mark_vertices(faces, stamp, mark):
    """Mark the vertices that triangles use, where all triangles of a body are live."""
    for t in range(len(faces)):
        stamp[faces[t, 0]] = mark
        stamp[faces[t, 1]] = mark
        stamp[faces[t, 2]] = mark


@compiled
def _bound(x, vertex, count, is_whole, box):
    """The box around vertices: those listed in ``vertex``, or the first ``count`` of the body."""
    lo_x = lo_y = lo_z = np.inf
    hi_x = hi_y = hi_z = -np.inf
    for i in range(count):
        v = i if is_whole else vertex[i]
        p, q, r = x[v, 0], x[v, 1], x[v, 2]
        lo_x, lo_y, lo_z = (p if p < lo_x else lo_x), (q if q < lo_y else lo_y), (r if r < lo_z else lo_z)
        hi_x, hi_y, hi_z = (p if p > hi_x else hi_x), (q if q > hi_y else hi_y), (r if r > hi_z else hi_z)
    box[0], box[1], box[2], box[3], box[4], box[5] = lo_x, lo_y, lo_z, hi_x, hi_y, hi_z


@compiled
def _look_at(x, faces, ids, stamp, number, mark, vertex, corner, box):
    """Number the vertices of one body's live triangles, and bound them; returns their number, and whether all are used.

    Where every vertex of the body is used by a live triangle, its own numbers serve.
    """
    if len(ids) == len(faces):
        mark_vertices(faces, stamp, mark)
        used = 0
        for v in range(len(x)):
            used += stamp[v] == mark
        if used == len(x):
            _bound(x, vertex, used, True, box)
            return used, True
        mark += 1
    count = np.int64(number_vertices(faces, ids, stamp, number, mark, vertex, corner))
    _bound(x, vertex, count, False, box)
    return count, False


@compiled
def _fill(x, faces, ids, vertex, corner, piece, is_whole, origin, factor, arena):
    """Copy one body into its piece of the arena."""
    px, py, pz = arena[0][piece[0] :], arena[1][piece[0] :], arena[2][piece[0] :]
    ox, oy, oz = origin[0] * factor, origin[1] * factor, origin[2] * factor
    for i in range(piece[1]):
        v = i if is_whole else vertex[i]
        px[i] = x[v, 0] * factor - ox
        py[i] = x[v, 1] * factor - oy
        pz[i] = x[v, 2] * factor - oz
    rows = faces if is_whole else corner
    to, tri = arena[3][piece[2] :], arena[4][piece[2] :]
    for k in range(piece[3]):
        to[k, 0], to[k, 1], to[k, 2] = rows[k, 0], rows[k, 1], rows[k, 2]
        tri[k] = ids[k]


@kernel(parallel_from=8192)
def look_at_bodies(a, b, mark, counts, box):
    """The vertices of both bodies' live triangles: their numbers, how many there are, and the boxes around them.

    A body is (x, faces, ids, stamp, number, vertex, corner).
    """
    for side in prange(len(counts)):
        if side == 0:
            counts[0, 0], counts[0, 1] = _look_at(a[0], a[1], a[2], a[3], a[4], mark, a[5], a[6], box[0])
        else:
            counts[1, 0], counts[1, 1] = _look_at(b[0], b[1], b[2], b[3], b[4], mark, b[5], b[6], box[1])


@kernel(parallel_from=8192)
def fill_arena(a, b, pieces, counts, origin, factor, arena):
    """Copy both bodies to where ``pieces`` say, counted from ``origin`` and scaled by a power of two."""
    for side in prange(len(counts)):
        if side == 0:
            _fill(a[0], a[1], a[2], a[5], a[6], pieces[0], counts[0, 1] == 1, origin, factor, arena)
        else:
            _fill(b[0], b[1], b[2], b[5], b[6], pieces[1], counts[1, 1] == 1, origin, factor, arena)
