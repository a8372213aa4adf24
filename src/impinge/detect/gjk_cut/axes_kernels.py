"""First cut along the axes, and the copy of what remains into the arena.

Names beyond those of ``cut_kernels``:
body      (x, faces, ids, stamp, number): positions, all triangles, the live ones, and two scratch values per vertex.
run       ``RUN`` consecutive live triangles of a body. Neighbours in memory are mostly neighbours in space: most
          distant triangles are cut a run at a time, the others one by one.
region    a row per body: the box that its triangles have to overlap, which is the box of the other body.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled, kernel, prange
from impinge.backend.simd.boxes import triangles_box

RUN = 256
"""Triangles that are cut together first."""
ROUNDS = 16
"""Most passes over the runs; the second pass usually cuts nothing."""


@kernel(parallel_from=64)
def bound_runs(a, b, runs_a, box):
    """Boxes of all runs, those of a first."""
    for i in prange(len(box)):
        r = np.int64(i)  # the loop index is unsigned, a type of its own for the compiler
        if r < runs_a:
            box[r] = triangles_box(a[0], a[1], a[2], r * RUN, min((r + 1) * RUN, len(a[2])))
        else:
            first = (r - runs_a) * RUN
            box[r] = triangles_box(b[0], b[1], b[2], first, min(first + RUN, len(b[2])))


@compiled
def cut_runs(box, runs_a, kept, whole, region):
    """Cut runs along the axes until no more are cut; returns whether both bodies have any left.

    ``whole`` becomes the box around what is left of each body, and ``region`` what its triangles have to overlap.
    """
    for _ in range(ROUNDS):
        whole[:, :3], whole[:, 3:] = np.inf, -np.inf
        for r in range(len(box)):
            if kept[r]:
                side = 0 if r < runs_a else 1
                for k in range(3):
                    whole[side, k] = min(whole[side, k], box[r, k])
                    whole[side, 3 + k] = max(whole[side, 3 + k], box[r, 3 + k])
        if whole[0, 0] > whole[0, 3] or whole[1, 0] > whole[1, 3]:
            return False
        region[0], region[1] = whole[1], whole[0]
        is_done = True
        for r in range(len(box)):
            if kept[r]:
                side = 0 if r < runs_a else 1
                for k in range(3):
                    kept[r] &= (box[r, k] <= region[side, 3 + k]) & (box[r, 3 + k] >= region[side, k])
                is_done &= kept[r]
        if is_done:
            break
    return True


@compiled
def _apart(p, q, r, low, high):
    return (p < low and q < low and r < low) or (p > high and q > high and r > high)


@compiled
def _load(body, run_box, kept, region, mark, origin, factor, arena, piece, vertex):
    """Copy what the first cut left of a body to the arena, from the first vertex and triangle of ``piece`` on."""
    x, faces, ids, stamp, number = body
    corner, tri, box = arena[1][piece[2] :], arena[2][piece[2] :], arena[3][piece[2] :]
    # Triangles of kept runs that overlap the region.
    count = 0
    lo_x, lo_y, lo_z, hi_x, hi_y, hi_z = region[0], region[1], region[2], region[3], region[4], region[5]
    for r in range(len(kept)):
        if not kept[r]:
            continue
        is_inside = True
        for k in range(3):
            is_inside &= (run_box[r, k] >= region[k]) & (run_box[r, 3 + k] <= region[3 + k])
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
    # Their vertices, numbered in order of first use. Entries of ``stamp`` and ``number`` without this ``mark`` are
    # void: the cost follows the triangles, not the size of the body.
    used = np.uint32(0)
    for k in range(count):
        t = tri[k]
        for i in range(3):
            v = faces[t, i]
            is_new = stamp[v] != mark
            n = used if is_new else number[v]
            stamp[v], number[v], vertex[used], corner[k, i] = mark, n, v, n
            used = np.uint32(used + np.uint32(is_new))
    px, py, pz = arena[0][0][piece[0] :], arena[0][1][piece[0] :], arena[0][2][piece[0] :]
    ox, oy, oz = origin[0] * factor, origin[1] * factor, origin[2] * factor
    for i in range(np.int64(used)):
        v = vertex[i]
        px[i] = np.float32(x[v, 0] * factor - ox)
        py[i] = np.float32(x[v, 1] * factor - oy)
        pz[i] = np.float32(x[v, 2] * factor - oz)
    # Boxes: rounding to float32 keeps the order of numbers, hence boxes that overlap still do.
    for t in range(count):
        i, j, k = corner[t, 0], corner[t, 1], corner[t, 2]
        box[t, 0], box[t, 3] = min(px[i], px[j], px[k]), max(px[i], px[j], px[k])
        box[t, 1], box[t, 4] = min(py[i], py[j], py[k]), max(py[i], py[j], py[k])
        box[t, 2], box[t, 5] = min(pz[i], pz[j], pz[k]), max(pz[i], pz[j], pz[k])
    piece[1], piece[3] = used, count


@kernel(parallel_from=4096)
def load_bodies(a, b, sides, runs_a, box, kept, region, mark, origin, factor, arena, pieces, vertex):
    """Copy what the first cut left of either body to the arena, each body on a thread of its own."""
    for side in prange(sides):
        if side == 0:
            _load(a, box[:runs_a], kept[:runs_a], region[0], mark, origin, factor, arena, pieces[0], vertex[0])
        else:
            _load(b, box[runs_a:], kept[runs_a:], region[1], mark, origin, factor, arena, pieces[1], vertex[1])
