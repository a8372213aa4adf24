"""Vertical rays through the tree of a closed surface; see ``points_inside``."""

# mypy: ignore-errors

import numpy as np

from impinge.backend.claim import claim
from impinge.backend.jit import compiled, kernel, prange
from impinge.backend.simd.boxes import WIDTH, lowest_bit, overlap_mask
from impinge.detect.boxes.whole_tree_kernels import node_at
from impinge.exact.orientation import point
from impinge.exact.point_surface import ON_SURFACE, ray_meets_triangle

RUN = 64
"""Points per task."""
OUTSIDE, INSIDE, ON = 0, 1, 2
"""Places of a point."""
ONE = np.uint64(1)
TOP = np.float32(np.inf)


@compiled
def _place(p, box, start, top, origin, x, order_face, order_tri, oriented, mask, index):
    """OUTSIDE, INSIDE or ON: by winding number of ``oriented`` triangles, or by parity of the others.

    Each level has an entry on the stack: its open node, and the children that the ray meets and that are not visited.
    """
    px, py, pz = np.float32(p[0] - origin[0]), np.float32(p[1] - origin[1]), np.float32(p[2] - origin[2])
    winding = crossings = 0
    on_surface = False
    level, node = top, np.int64(0)
    while level <= top and not on_surface:
        index[level] = node
        mask[level] = overlap_mask(box, node_at(level, node, start), px, py, pz, px, py, TOP)
        while level == 0 and mask[0] != 0:
            s = WIDTH * node + lowest_bit(mask[0])
            mask[0] &= mask[0] - ONE
            if order_tri[s] >= 0:
                a, b, c = order_face[s, 0], order_face[s, 1], order_face[s, 2]
                answer = ray_meets_triangle(p, point(x, a), point(x, b), point(x, c))
                on_surface |= answer == ON_SURFACE
                if oriented[order_tri[s]]:
                    winding += answer
                else:
                    crossings += abs(answer)
        while level <= top and mask[level] == 0:
            level += 1
        if level <= top:
            node = WIDTH * index[level] + lowest_bit(mask[level])
            mask[level] &= mask[level] - ONE
            level -= 1
    if on_surface:
        return ON
    return INSIDE if winding != 0 or crossings % 2 == 1 else OUTSIDE


@compiled
def _answer_run(first, end, points, tree, oriented, place):
    box, _, start, top, origin, _, x, order_face, order_tri = tree
    mask, index = np.empty(top + 1, np.uint64), np.empty(top + 1, np.int64)
    for i in range(first, end):
        p = point(points, i)
        place[i] = _place(p, box, start, top, origin, x, order_face, order_tri, oriented, mask, index)


@kernel(parallel_from=256)
def answer_points(points, tree, oriented, threads, counter, place):
    """The place of each point, in runs."""
    tasks = (len(points) + RUN - 1) // RUN
    for _ in prange(threads):
        t = claim(counter)
        while t < tasks:
            _answer_run(t * RUN, min((t + 1) * RUN, len(points)), points, tree, oriented, place)
            t = claim(counter)
