"""Edges through a surface, normals on it, depths from neighbour to neighbour; see ``depth`` for the formulas.

A node is a vertex inside a body, a link leads from a node to a neighbour of its vertex; the links of node n are those
from ``start[n]`` on. A surface is (x, faces, start, triangle), where the last two list the triangles around vertices.
"""

# mypy: ignore-errors

import math

import numpy as np

from impinge.backend.claim import claim
from impinge.backend.jit import compiled, kernel, prange
from impinge.backend.simd import WIDTH, lowest_bit, overlap_mask
from impinge.detect.closest_points_kernels import nearest_slot
from impinge.detect.edge_crossings_kernels import crossing
from impinge.detect.features_kernels import closest_on_triangle, mixed
from impinge.detect.whole_tree_kernels import node_at
from impinge.exact.kinds import CROSSING, NONE
from impinge.exact.orientation import orient3d, point
from impinge.exact.segment_triangle import segment_triangle
from impinge.exact.triangle_triangle import cross, dot, minus

RUN = 32
"""Nodes that one task looks at."""
ONE = np.uint64(1)

UNKNOWN = -1
"""Round of a node that has no depth yet."""
OPPOSED = -2
"""Round of a node whose normals, or those of its neighbours, cancel."""
CANCELLED = 2.0**-20
"""Length of a mean of unit vectors below which its direction is noise."""

LEAST_COSINE = 0.5
"""Of the angle that a mixed normal may have to that of its triangle, and by which steps to feet may turn a normal."""

STEADY = 2.0**-10
"""Angle below which a step to a foot is the last; what is left changes depths by the order of its square."""

BY_FACE, BY_VERTEX, BY_NOTHING = 0, 1, 2
"""What the local estimate found at a tet, the best first."""


# Vectors ------------------------------------------------------------------------------------------------


@compiled
def unit(v):
    """The vector at length one, whatever its size; zeros if it has no direction."""
    size = max(abs(v[0]), abs(v[1]), abs(v[2]))
    if not size > 0.0:
        return 0.0, 0.0, 0.0
    x, y, z = v[0] / size, v[1] / size, v[2] / size
    length = math.sqrt(x * x + y * y + z * z)
    return x / length, y / length, z / length


@compiled
def unit_rows(vectors, out):
    """Each row at length one; a row of zeros stays so."""
    for i in range(len(vectors)):
        _write(out, i, unit(point(vectors, i)))


@compiled
def _times(v, factor):
    return v[0] * factor, v[1] * factor, v[2] * factor


@compiled
def _plus(a, b):
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


@compiled
def _is_zero(v):
    return v[0] == 0.0 and v[1] == 0.0 and v[2] == 0.0


@compiled
def _write(rows, i, v):
    rows[i, 0], rows[i, 1], rows[i, 2] = v


# Normals ------------------------------------------------------------------------------------------------


@compiled
def outward_sign(surface):
    """What turns the normals outwards: 1.0, or -1.0 if the faces enclose a negative volume."""
    x, faces, _, _ = surface
    volume = 0.0
    for t in range(len(faces)):
        a, b, c = point(x, faces[t, 0]), point(x, faces[t, 1]), point(x, faces[t, 2])
        volume += dot(minus(a, point(x, faces[0, 0])), cross(minus(b, a), minus(c, a)))
    return -1.0 if volume < 0.0 else 1.0


@compiled
def vertex_normal(v, surface):
    """The mean normal Σ a × b / |a|² |b|² over the triangles around a vertex, a and b their sides there [Max1999]."""
    x, faces, start, tri = surface
    total = 0.0, 0.0, 0.0
    p = point(x, v)
    for i in range(start[v], start[v + 1]):
        t = tri[i]
        k = 0 if faces[t, 0] == v else 1 if faces[t, 1] == v else 2
        a, b = minus(point(x, faces[t, (k + 1) % 3]), p), minus(point(x, faces[t, (k + 2) % 3]), p)
        product = dot(a, a) * dot(b, b)
        if product > 0.0:
            total = _plus(total, _times(cross(a, b), 1.0 / product))
    return unit(total)


@compiled
def normal_at(ca, cb, cc, u, v, w, surface):
    """The normal at a point of a triangle, mixed from those of its corners.

    The triangle's own, if that is more than 60 degrees off, as on a spike: there the mean may even point inwards.
    """
    n = unit(mixed(u, vertex_normal(ca, surface), v, vertex_normal(cb, surface), w, vertex_normal(cc, surface)))
    a, b, c = point(surface[0], ca), point(surface[0], cb), point(surface[0], cc)
    own = unit(cross(minus(b, a), minus(c, a)))
    return n if dot(n, own) >= LEAST_COSINE or _is_zero(own) else own


@compiled
def write_normals(corner, weight, surface, out):
    """The outward normals at points of triangles, one per row; the z axis where the surface has no area."""
    outward = outward_sign(surface)
    for i in range(len(corner)):
        n = _normal_of_row(i, corner, weight, surface)
        _write(out, i, (0.0, 0.0, 1.0) if _is_zero(n) else _times(n, outward))


@compiled
def _normal_of_row(i, corner, weight, surface):
    return normal_at(
        corner[i, 0], corner[i, 1], corner[i, 2], weight[i, 0], weight[i, 1], weight[i, 2], surface
    )  # fmt: skip


# Links --------------------------------------------------------------------------------------------------


@compiled
def _find(keys, key):
    """Where ``key`` is in a rising list, -1 if it is not there."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low if low < len(keys) and keys[low] == key else -1


@kernel(parallel_from=256)
def find_links(nodes, keys, vertex, body, links):
    """Where the links of those nodes lead to that belong to one body.

    ``body`` is (x, start, neighbour), ``links`` is (start, vertex, node, x). Keys of nodes that are in the same body,
    and of the same body, differ as their vertices do.
    """
    x, neighbour_start, neighbour = body
    start, link_vertex, link_node, link_x = links
    for i in prange(len(nodes)):
        n = nodes[i]
        v = vertex[n]
        for k in range(neighbour_start[v + 1] - neighbour_start[v]):
            w = neighbour[neighbour_start[v] + k]
            link_vertex[start[n] + k] = w
            link_node[start[n] + k] = _find(keys, keys[n] + w - v)
            _write(link_x, start[n] + k, point(x, w))


# Nodes and links on the surface -------------------------------------------------------------------------


@compiled
def _meet_segment(k, p, o, a, b, c, corners, tri, hits):
    """Keep where link ``k`` passes through a triangle if that is nearer to its outer end o; lowest id of several."""
    share, hit_tri, corner, weight, sign = hits
    for axis in range(3):
        if max(p[axis], o[axis]) < min(a[axis], b[axis], c[axis]):
            return
        if min(p[axis], o[axis]) > max(a[axis], b[axis], c[axis]):
            return
    kind, along, t, weights = crossing(p, o, a, b, c)
    if kind == NONE or t < share[k] or (t == share[k] and tri > hit_tri[k]):
        return
    share[k], hit_tri[k] = t, tri
    sign[k] = along if kind == CROSSING else 0
    corner[k, 0], corner[k, 1], corner[k, 2] = corners
    _write(weight, k, weights)


@compiled
def _meet_vertex(i, p, a, b, c, corners, tri, touches):
    """Keep a triangle that the vertex lies on, the one with the lowest id."""
    touch_tri, corner, weight = touches
    if touch_tri[i] >= 0 and touch_tri[i] < tri:
        return
    if orient3d(a, b, c, p) != 0 or segment_triangle(p, p, a, b, c) == NONE:
        return
    u, v, w, _ = closest_on_triangle(p, a, b, c)
    touch_tri[i] = tri
    corner[i, 0], corner[i, 1], corner[i, 2] = corners
    _write(weight, i, (u, v, w))


@compiled
def _meet_triangle(i, p, vertex, first, end, link_vertex, link_node, link_x, x, corners, tri, touches, hits):
    """A vertex and its outer links against one triangle; ``vertex`` is -1 unless the body is inside itself."""
    ca, cb, cc = corners
    if vertex in (ca, cb, cc):
        return
    a, b, c = point(x, ca), point(x, cb), point(x, cc)
    _meet_vertex(i, p, a, b, c, corners, tri, touches)
    for k in range(first, end):
        if link_node[k] < 0:
            w = link_vertex[k] if vertex >= 0 else np.int32(-1)
            if w not in (ca, cb, cc):
                _meet_segment(k, p, point(link_x, k), a, b, c, corners, tri, hits)


@compiled
def _box_of(p, first, end, link_node, link_x, origin):
    """The box around a vertex and its outer neighbours, counted and rounded as those of the tree."""
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
def _meet_surface(i, p, vertex, first, end, link_vertex, link_node, link_x, tree, mask, index, touches, hits):
    """A vertex and its outer links against all triangles near them.

    Each level has a frame: the node that is open there, and those of its children that are still to be looked at.
    """
    box, _, start, top, origin, _, x, slot_face, slot_tri = tree
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
            if slot_tri[s] >= 0:
                corners = slot_face[s, 0], slot_face[s, 1], slot_face[s, 2]
                _meet_triangle(
                    i, p, vertex, first, end, link_vertex, link_node, link_x, x, corners, slot_tri[s], touches, hits
                )  # fmt: skip
        while level <= top and mask[level] == 0:
            level += 1
        if level <= top:
            node = WIDTH * index[level] + lowest_bit(mask[level])
            mask[level] &= mask[level] - ONE
            level -= 1


@compiled
def _meet_run(first, end, own, points, links, tree, touches, hits):
    start, link_vertex, link_node, link_x = links
    top = tree[3]
    mask, index = np.empty(top + 1, np.uint64), np.empty(top + 1, np.int64)
    for i in range(first, end):
        touches[0][i] = -1
        for k in range(start[i], start[i + 1]):
            hits[0][k] = -1.0
        _meet_surface(
            i, point(points, i), own[i], start[i], start[i + 1], link_vertex, link_node, link_x, tree, mask, index,
            touches, hits,
        )  # fmt: skip


@kernel(parallel_from=128)
def meet_surface(own, points, links, tree, threads, counter, touches, hits):
    """Of all nodes of a penetrated body: the triangle that each lies on, and where its outer links leave the body.

    ``own`` is the vertex where the body is inside itself, else -1. ``touches`` is (triangle or -1, corners, weights),
    ``hits`` is (share of the link or -1, triangle, corners, weights, 1 or -1 if the link goes with or against the
    normal, 0 if it passes through an edge or corner).
    """
    tasks = (len(own) + RUN - 1) // RUN
    for _ in prange(threads):
        t = claim(counter)
        while t < tasks:
            _meet_run(t * RUN, min((t + 1) * RUN, len(own)), own, points, links, tree, touches, hits)
            t = claim(counter)


# Depths -------------------------------------------------------------------------------------------------


@compiled
def _settle(n, depth, direction, total_weight, this_round, out):
    """Write weighted sums as depth and direction; a node whose directions cancel gets none."""
    out_depth, out_direction, out_round = out
    if math.sqrt(dot(direction, direction)) <= CANCELLED * total_weight:
        out_round[n] = OPPOSED
        return
    out_depth[n] = max(depth / total_weight, 0.0)
    _write(out_direction, n, unit(direction))
    out_round[n] = this_round


@compiled
def _weight(least, square):
    """1 / distance², times that of the nearest; of those at no distance 1, and nothing of the others."""
    return 1.0 if square == least else least / square


@compiled
def _square_to_hit(k, p, link_x, share):
    """Squared distance from p to where link k leaves."""
    gap = _times(minus(point(link_x, k), p), share[k])
    return dot(gap, gap)


@compiled
def _start_node(n, p, first, end, link_x, hits, outward, surface, out):
    """ω = 1 / |x - p|²,  d = Σ ω (x - p) · n / Σ ω,  r = Σ ω n at length one, over the links that leave."""
    share, _, corner, weight, sign = hits
    least = math.inf
    for k in range(first, end):
        if share[k] >= 0.0:
            least = min(least, _square_to_hit(k, p, link_x, share))
    if least == math.inf:
        return
    depth, total, direction = 0.0, 0.0, (0.0, 0.0, 0.0)
    for k in range(first, end):
        if share[k] >= 0.0:
            n_out = _normal_of_row(k, corner, weight, surface)
            n_out = _times(n_out, outward if sign[k] == 0 else np.float64(sign[k]))
            omega = _weight(least, _square_to_hit(k, p, link_x, share))
            depth += omega * (share[k] * dot(minus(point(link_x, k), p), n_out))
            direction = _plus(direction, _times(n_out, omega))
            total += omega
    _settle(n, depth, direction, total, 0, out)


@kernel(parallel_from=256)
def start_at_border(points, links, touches, hits, outward, surface, out):
    """Depth and direction of the nodes that lie on the surface, and of those with links that leave the body."""
    touch_tri, corner, weight = touches
    start, _, _, link_x = links
    for n in prange(len(points)):
        if touch_tri[n] >= 0:
            _settle(n, 0.0, _times(_normal_of_row(n, corner, weight, surface), outward), 1.0, 0, out)
        else:
            _start_node(n, point(points, n), start[n], start[n + 1], link_x, hits, outward, surface, out)


@compiled
def _reach_node(n, start, link_node, node_x, this_round, out):
    """μ = 1 / |q - p|²,  d = Σ μ ((q - p) · r(q) + d(q)) / Σ μ,  r = Σ μ r(q) at length one, over earlier nodes q."""
    depth_of, direction_of, round_of = out
    p = point(node_x, n)
    least = math.inf
    for k in range(start[n], start[n + 1]):
        q = link_node[k]
        if q >= 0 and 0 <= round_of[q] < this_round:
            gap = minus(point(node_x, q), p)
            least = min(least, dot(gap, gap))
    if least == math.inf:
        return
    depth, total, direction = 0.0, 0.0, (0.0, 0.0, 0.0)
    for k in range(start[n], start[n + 1]):
        q = link_node[k]
        if q >= 0 and 0 <= round_of[q] < this_round:
            gap = minus(point(node_x, q), p)
            mu = _weight(least, dot(gap, gap))
            r = point(direction_of, q)
            depth += mu * (dot(gap, r) + depth_of[q])
            direction = _plus(direction, _times(r, mu))
            total += mu
    _settle(n, depth, direction, total, this_round, out)


@kernel(parallel_from=512)
def reach_neighbours(nodes, start, link_node, node_x, this_round, out):
    """Depth and direction of those nodes that have neighbours of earlier rounds; what this round writes is not read."""
    for i in prange(len(nodes)):
        _reach_node(nodes[i], start, link_node, node_x, this_round, out)


# Feet ---------------------------------------------------------------------------------------------------


@compiled
def _step_to_foot(p, depth, direction, steps, outward, surface, tree, keys, index, cursor):
    """Go to where direction and depth lead to, to the nearest point c of the surface, and take n there and (c - p) · n.

    Ends where n would turn too far from where it began, and where it does not turn any more.
    """
    box, corner, start, top, origin, reach, x, slot_face, slot_tri = tree
    began = direction
    slot = np.int64(-1)
    for _ in range(steps):
        goal = _plus(p, _times(direction, depth))
        slot = nearest_slot(
            goal, box, corner, start, top, origin, reach, x, slot_face, slot_tri, slot, keys, index, cursor
        )  # fmt: skip
        ca, cb, cc = slot_face[slot, 0], slot_face[slot, 1], slot_face[slot, 2]
        a, b, c = point(x, ca), point(x, cb), point(x, cc)
        u, v, w, _ = closest_on_triangle(goal, a, b, c)
        n = _times(normal_at(ca, cb, cc, u, v, w, surface), outward)
        above = dot(mixed(u, minus(a, p), v, minus(b, p), w, minus(c, p)), n)
        if dot(n, began) < LEAST_COSINE or above < 0.0:
            break
        turn = minus(n, direction)
        depth, direction = above, n
        if dot(turn, turn) <= STEADY * STEADY:
            break
    return depth, direction


@compiled
def _step_run(first, end, nodes, points, steps, outward, surface, tree, out):
    depth, direction, _ = out
    levels = tree[3] + 1
    keys, index, cursor = np.empty(WIDTH * levels, np.int32), np.empty(levels, np.int64), np.empty(levels, np.int64)
    for i in range(first, end):
        n = nodes[i]
        depth[n], foot_direction = _step_to_foot(
            point(points, n), depth[n], point(direction, n), steps, outward, surface, tree, keys, index, cursor
        )  # fmt: skip
        _write(direction, n, foot_direction)


@kernel(parallel_from=128)
def step_to_feet(nodes, points, steps, outward, surface, tree, threads, counter, out):
    """Move depth and direction of the given nodes towards the shortest way out."""
    tasks = (len(nodes) + RUN - 1) // RUN
    for _ in prange(threads):
        t = claim(counter)
        while t < tasks:
            _step_run(t * RUN, min((t + 1) * RUN, len(nodes)), nodes, points, steps, outward, surface, tree, out)
            t = claim(counter)


# The local estimate -------------------------------------------------------------------------------------


@compiled
def _nearest_face(p, t, x, tets, is_exposed):
    """Distance to the planes of the tet's faces on the surface, the least, and that face's normal out of the tet."""
    best, direction = math.inf, (0.0, 0.0, 0.0)
    for k in range(4):
        if is_exposed[t, k]:
            a, b, c = point(x, tets[t, (k + 1) % 4]), point(x, tets[t, (k + 2) % 4]), point(x, tets[t, (k + 3) % 4])
            n = unit(cross(minus(b, a), minus(c, a)))
            if dot(n, minus(point(x, tets[t, k]), a)) > 0.0:
                n = _times(n, -1.0)
            distance = max(dot(minus(a, p), n), 0.0)
            if distance < best and not _is_zero(n):
                best, direction = distance, n
    return best, direction


@compiled
def _nearest_vertex(p, t, tets, surface, outward):
    """Distance to the corners of the tet that are on the surface, the least, and the normal there."""
    best, direction = math.inf, (0.0, 0.0, 0.0)
    for k in range(4):
        v = tets[t, k]
        n = _times(vertex_normal(v, surface), outward)  # zero of a vertex inside
        gap = minus(point(surface[0], v), p)
        distance = math.sqrt(dot(gap, gap))
        if distance < best and not _is_zero(n):
            best, direction = distance, n
    return best, direction


@kernel(parallel_from=1024)
def estimate_at_tets(points, tet, tets, is_exposed, surface, depth, direction, source):
    """Depth and direction of vertices from what of the surface their tets have."""
    outward = outward_sign(surface)
    for i in prange(len(points)):
        p = point(points, i)
        best, n = _nearest_face(p, tet[i], surface[0], tets, is_exposed)
        source[i] = BY_FACE
        if best == math.inf:
            best, n = _nearest_vertex(p, tet[i], tets, surface, outward)
            source[i] = BY_VERTEX
        if best == math.inf:
            source[i] = BY_NOTHING
        depth[i] = best
        _write(direction, i, n)
