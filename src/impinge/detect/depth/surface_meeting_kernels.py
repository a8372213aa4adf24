"""Where nodes lie on a surface and their links pass through it; see ``consistent_depth``.

A node is a vertex inside a body, a link leads from a node to a neighbour of its vertex; the links of node n are those
from ``start[n]`` on.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.claim import claim
from impinge.backend.jit import compiled, inlined, kernel, prange
from impinge.backend.simd.boxes import WIDTH, lowest_bit, overlap_mask
from impinge.detect.boxes.whole_tree_kernels import node_at
from impinge.detect.depth.surface_normals_kernels import write
from impinge.detect.proximity.edge_crossings_kernels import crossing
from impinge.detect.proximity.features_kernels import closest_on_triangle
from impinge.exact.kinds import CROSSING, NONE
from impinge.exact.orientation import orient3d, point
from impinge.exact.segment_triangle import segment_triangle

RUN = 32
"""Nodes per task."""
ONE = np.uint64(1)


@compiled
def meet_segment(k, p, o, a, b, c, corners, tri, hits):
    """Keep where link ``k`` passes through a triangle, if nearer to its outer end o; the lowest id of several."""
    kind, along, t, weights = crossing(p, o, a, b, c)
    if kind != NONE:
        keep_hit(k, t, along if kind == CROSSING else 0, weights, corners, tri, hits)


@inlined
def keep_hit(k, t, along, weights, corners, tri, hits):
    """Keep the passage of link ``k`` through a triangle at ``t``, if nearer to its end; the lowest id of several."""
    share, hit_tri, corner, weight, sign = hits
    if t < share[k] or (t == share[k] and tri > hit_tri[k]):
        return
    share[k], hit_tri[k], sign[k] = t, tri, along
    corner[k, 0], corner[k, 1], corner[k, 2] = corners
    write(weight, k, weights)


@compiled
def _is_beside(p, o, a, b, c):
    """Whether the box of a link is beside that of a triangle."""
    for axis in range(3):
        if max(p[axis], o[axis]) < min(a[axis], b[axis], c[axis]):
            return True
        if min(p[axis], o[axis]) > max(a[axis], b[axis], c[axis]):
            return True
    return False


@compiled
def meet_triangle(i, p, vertex, first, end, link_vertex, link_node, link_x, x, corners, tri, touches, hits):
    """Test a vertex and its outer links against one triangle; ``vertex`` is -1 unless the body is inside itself.

    Of several triangles that the vertex lies on, the one with the lowest id is kept.
    """
    ca, cb, cc = corners
    if vertex in (ca, cb, cc):
        return
    a, b, c = point(x, ca), point(x, cb), point(x, cc)
    side = orient3d(a, b, c, p)
    if side == 0 and not 0 <= touches[0][i] < tri and segment_triangle(p, p, a, b, c) != NONE:
        u, v, weight_c, _ = closest_on_triangle(p, a, b, c)
        touches[0][i] = tri
        touches[1][i, 0], touches[1][i, 1], touches[1][i, 2] = corners
        write(touches[2], i, (u, v, weight_c))
    for k in range(first, end):
        if link_node[k] < 0:
            w = link_vertex[k] if vertex >= 0 else np.int32(-1)
            o = point(link_x, k)
            # Most links begin and end on the same side of the plane, a cheap test.
            if w not in (ca, cb, cc) and not _is_beside(p, o, a, b, c) and orient3d(a, b, c, o) != side:
                meet_segment(k, p, o, a, b, c, corners, tri, hits)


@compiled
def _box_of(p, first, end, link_node, link_x, origin):
    """The box around a vertex and its outer neighbours, relative to the origin and rounded as those of the tree."""
    lo_x, lo_y, lo_z = p
    hi_x, hi_y, hi_z = p
    for k in range(first, end):
        if link_node[k] < 0:
            lo_x, hi_x = min(lo_x, link_x[k, 0]), max(hi_x, link_x[k, 0])
            lo_y, hi_y = min(lo_y, link_x[k, 1]), max(hi_y, link_x[k, 1])
            lo_z, hi_z = min(lo_z, link_x[k, 2]), max(hi_z, link_x[k, 2])
    low = np.float32(lo_x - origin[0]), np.float32(lo_y - origin[1]), np.float32(lo_z - origin[2])
    return low, (np.float32(hi_x - origin[0]), np.float32(hi_y - origin[1]), np.float32(hi_z - origin[2]))


@compiled
def _meet_surface(i, p, vertex, first, end, links, tree, mask, index, touches, hits):
    """Test a vertex and its outer links against all triangles near them.

    Depth first: each level holds its open node, ``index``, and the children still to visit, ``mask``.
    """
    _, link_vertex, link_node, link_x = links
    box, _, start, top, origin, _, x, order_face, order_tri = tree
    low, high = _box_of(p, first, end, link_node, link_x, origin)
    level, node = top, np.int64(0)
    while level <= top:
        index[level] = node
        mask[level] = overlap_mask(
            box, node_at(level, node, start), low[0], low[1], low[2], high[0], high[1], high[2]
        )  # fmt: skip
        while level == 0 and mask[0] != 0:
            s = WIDTH * node + lowest_bit(mask[0])
            mask[0] &= mask[0] - ONE
            if order_tri[s] >= 0:
                corners = order_face[s, 0], order_face[s, 1], order_face[s, 2]
                meet_triangle(
                    i, p, vertex, first, end, link_vertex, link_node, link_x, x, corners, order_tri[s], touches, hits
                )  # fmt: skip
        while level <= top and mask[level] == 0:
            level += 1
        if level <= top:
            node = WIDTH * index[level] + lowest_bit(mask[level])
            mask[level] &= mask[level] - ONE
            level -= 1


@kernel(parallel_from=128)
def meet_surface(own, points, links, tree, threads, counter, touches, hits):
    """For all nodes of a penetrated body: the triangle that each lies on, and where its outer links leave the body.

    ``own`` is the vertex where the body is inside itself, else -1. ``touches`` is (triangle or -1, corners, weights),
    ``hits`` is (share of the link or -1, triangle, corners, weights, 1 or -1 if the link goes with or against the
    normal, 0 if it passes through an edge or corner).
    """
    for _ in prange(threads):
        start, top = links[0], tree[3]
        mask, index = np.empty(top + 1, np.uint64), np.empty(top + 1, np.int64)
        task = claim(counter)
        while task * RUN < len(own):
            for i in range(task * RUN, min((task + 1) * RUN, len(own))):
                touches[0][i] = -1
                for k in range(start[i], start[i + 1]):
                    hits[0][k] = -1.0
                _meet_surface(
                    i, point(points, i), own[i], start[i], start[i + 1], links, tree, mask, index, touches, hits
                )  # fmt: skip
            task = claim(counter)
