"""Bodies into the arena: the first cut, along the axes, and what it leaves, counted from a common origin.

Names beyond those of ``gjk_cut_kernels``:
body      (x, faces, ids, stamp, number): positions, all triangles, the live ones, and two notes per vertex.
run       ``RUN`` consecutive live triangles of a body. Neighbours in memory are mostly neighbours in space, so that
          most of what is far away is cut a run at a time; where they are not, triangles are cut one by one.
region    a row for each body: the box that its triangles have to meet, which is that of the other body.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled, kernel, prange
from impinge.backend.simd.boxes import triangles_box

RUN = 256
"""Triangles that are cut together first."""
ROUNDS = 16
"""Times that runs are cut along the axes; mostly the second cuts nothing."""


@compiled
def _bound_run(r, x, faces, ids, box):
    """The box around run ``r``; writes ``box``."""
    box[0], box[1], box[2], box[3], box[4], box[5] = triangles_box(x, faces, ids, r * RUN, min((r + 1) * RUN, len(ids)))


@kernel(parallel_from=64)
def bound_runs(a, b, runs_a, box):
    """The boxes around all runs, those of a first."""
    for i in prange(len(box)):
        r = np.int64(i)  # threads count in unsigned numbers, for which all would be compiled anew
        if r < runs_a:
            _bound_run(r, a[0], a[1], a[2], box[r])
        else:
            _bound_run(r - runs_a, b[0], b[1], b[2], box[r])


@compiled
def _bound_kept(box, kept, first, last, whole):
    """The box around the runs that are kept; returns whether there are any."""
    for k in range(3):
        whole[k], whole[3 + k] = np.inf, -np.inf
    for r in range(first, last):
        if kept[r]:
            for k in range(3):
                whole[k] = min(whole[k], box[r, k])
                whole[3 + k] = max(whole[3 + k], box[r, 3 + k])
    return whole[0] <= whole[3]


@compiled
def _meets(box, region):
    meets = True
    for k in range(3):
        meets &= (box[k] <= region[3 + k]) & (box[3 + k] >= region[k])
    return meets


@compiled
def cut_runs(box, runs_a, kept, whole, region):
    """Cut whole runs along the axes, until no more go; returns whether any are left on both sides.

    ``whole`` becomes the boxes around what is left of each body, and ``region`` what its triangles have to meet.
    """
    for _ in range(ROUNDS):
        left_a = _bound_kept(box, kept, np.int64(0), runs_a, whole[0])
        if not (left_a and _bound_kept(box, kept, runs_a, len(box), whole[1])):
            return False
        region[0], region[1] = whole[1], whole[0]
        removed = 0
        for r in range(len(box)):
            if kept[r] and not _meets(box[r], region[0 if r < runs_a else 1]):
                kept[r] = False
                removed += 1
        if removed == 0:
            break
    return True


@compiled
def _apart(p, q, r, low, high):
    return (p < low and q < low and r < low) or (p > high and q > high and r > high)


@compiled
def _list_triangles(x, faces, ids, box, kept, region, tri):
    """List the triangles of the runs that are kept whose boxes meet the region; returns how many do."""
    count = 0
    lo_x, lo_y, lo_z, hi_x, hi_y, hi_z = region[0], region[1], region[2], region[3], region[4], region[5]
    for r in range(len(kept)):
        if not kept[r]:
            continue
        is_inside = True
        for k in range(3):
            is_inside &= (box[r, k] >= region[k]) & (box[r, 3 + k] <= region[3 + k])
        for k in range(r * RUN, min((r + 1) * RUN, len(ids))):
            t = ids[k]
            i, j, m = faces[t, 0], faces[t, 1], faces[t, 2]
            if is_inside or not (
                _apart(x[i, 0], x[j, 0], x[m, 0], lo_x, hi_x)
                or _apart(x[i, 1], x[j, 1], x[m, 1], lo_y, hi_y)
                or _apart(x[i, 2], x[j, 2], x[m, 2], lo_z, hi_z)
            ):
                tri[count] = t
                count += 1
    return count


@compiled
def _number_vertices(faces, tri, count, stamp, number, mark, vertex, corner):
    """Number the vertices of triangles as they are met; returns how many there are.

    ``stamp`` and ``number`` have an entry for each vertex of the body; entries without this ``mark`` are forgotten, so
    that the cost follows the triangles and not the body.
    """
    used = np.uint32(0)
    for k in range(count):
        t = tri[k]
        for i in range(3):
            v = faces[t, i]
            is_new = stamp[v] != mark
            n = used if is_new else number[v]
            stamp[v] = mark
            number[v] = n
            vertex[used] = v
            corner[k, i] = n
            used = np.uint32(used + np.uint32(is_new))
    return np.int64(used)


@compiled
def fit_box(t, x, y, z, corner, box):
    """The box around triangle ``t``: rounding to float32 keeps the order of numbers, and boxes that meet still do."""
    i, j, k = corner[t, 0], corner[t, 1], corner[t, 2]
    box[t, 0], box[t, 3] = min(x[i], x[j], x[k]), max(x[i], x[j], x[k])
    box[t, 1], box[t, 4] = min(y[i], y[j], y[k]), max(y[i], y[j], y[k])
    box[t, 2], box[t, 5] = min(z[i], z[j], z[k]), max(z[i], z[j], z[k])


@compiled
def _load(body, run_box, kept, region, mark, origin, factor, arena, piece, vertex):
    """Copy what the first cut left of a body to the arena, from the first vertex and triangle of ``piece`` on."""
    x, faces, ids, stamp, number = body
    corner, tri, box = arena[1][piece[2] :], arena[2][piece[2] :], arena[3][piece[2] :]
    count = _list_triangles(x, faces, ids, run_box, kept, region, tri)
    used = _number_vertices(faces, tri, count, stamp, number, mark, vertex, corner)
    px, py, pz = arena[0][0][piece[0] :], arena[0][1][piece[0] :], arena[0][2][piece[0] :]
    ox, oy, oz = origin[0] * factor, origin[1] * factor, origin[2] * factor
    for i in range(used):
        v = vertex[i]
        px[i] = np.float32(x[v, 0] * factor - ox)
        py[i] = np.float32(x[v, 1] * factor - oy)
        pz[i] = np.float32(x[v, 2] * factor - oz)
    for t in range(count):
        fit_box(t, px, py, pz, corner, box)
    piece[1], piece[3] = used, count


@kernel(parallel_from=4096)
def load_bodies(a, b, sides, runs_a, box, kept, region, mark, origin, factor, arena, pieces, vertex):
    """Copy what the first cut left of either body to the arena, each body on a thread of its own."""
    for side in prange(sides):
        if side == 0:
            _load(a, box[:runs_a], kept[:runs_a], region[0], mark, origin, factor, arena, pieces[0], vertex[0])
        else:
            _load(b, box[runs_a:], kept[runs_a:], region[1], mark, origin, factor, arena, pieces[1], vertex[1])
