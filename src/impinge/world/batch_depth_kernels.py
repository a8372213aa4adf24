"""Penetration depths inside many small bodies at once; see ``batch_queries``.

``bodies`` are those of ``batch_kernels``; ``surface`` is (*bodies, low, high, normal): boxes of bodies, vertex normals.
Nodes, links, touches and hits are those of ``surface_meeting_kernels``, with memory for one node. Links to other nodes
are left out.
"""

# mypy: ignore-errors

import math

import numpy as np

from impinge.backend.claim import claim
from impinge.backend.jit import compiled, inlined, kernel, prange
from impinge.backend.simd.boxes import WIDTH, lowest_bit
from impinge.detect.depth.consistent_depth_kernels import (
    EXIT_REACH,
    ON_SURFACE,
    OPPOSED,
    RUN,
    STEADY,
    start_node,
    write_mean,
)
from impinge.detect.depth.inside_vertices_kernels import find_key
from impinge.detect.depth.surface_meeting_kernels import keep_hit, meet_segment, meet_triangle
from impinge.detect.depth.surface_normals_kernels import (
    LEAST_COSINE,
    corner_normal,
    is_zero,
    mixed_normal,
    outward_sign,
    plus,
    times,
    unit,
    write,
)
from impinge.detect.proximity.features_kernels import closest_on_triangle, mixed
from impinge.exact.orientation import point
from impinge.exact.triangle_triangle import cross, dot, error_bound, minus
from impinge.world.batch_kernels import GROUP, ONE, local_box, met

NO_VERTEX = np.int32(-1)
ROUNDING = 2.0**-20
"""A relative length above all rounding errors, whose square is above the rounding error of one operation."""


# Normals ------------------------------------------------------------------------------------------------


@kernel(parallel_from=128)
def fit_normals(penetrated, used_start, used, bodies, normal, outward):
    """Vertex normals of some bodies, initially zero, and the sign that turns those of each body outwards."""
    x, faces, face_start = bodies[0], bodies[1], bodies[2]
    for i in prange(len(penetrated)):
        body = penetrated[i]
        outward[body] = outward_sign(x, faces[face_start[body] : face_start[body + 1]])
        for t in range(face_start[body], face_start[body + 1]):
            for k in range(3):
                c, d, e = faces[t, k], faces[t, (k + 1) % 3], faces[t, (k + 2) % 3]
                write(normal, c, plus(point(normal, c), corner_normal(point(x, c), point(x, d), point(x, e))))
        for k in range(used_start[body], used_start[body + 1]):
            write(normal, used[k], unit(point(normal, used[k])))


@inlined
def _normal_at(corners, weights, surface):
    """The normal at a point of a triangle, interpolated from those of its corners."""
    x, normal, (a, b, c), (u, v, w) = surface[0], surface[9], corners, weights
    mean = mixed(u, point(normal, a), v, point(normal, b), w, point(normal, c))
    return mixed_normal(mean, point(x, a), point(x, b), point(x, c))


@inlined
def _normal_of_row(i, corner, weight, surface):
    corners = corner[i, 0], corner[i, 1], corner[i, 2]
    return _normal_at(corners, (weight[i, 0], weight[i, 1], weight[i, 2]), surface)


# Meeting the surface ------------------------------------------------------------------------------------


@inlined
def _meet_face(p, t, count, links, x, faces, bound, touches, hits, exactly):
    """A point and its links against one triangle; False if exact signs are needed and ``exactly`` is False.

    Heights over its plane have errors of up to ``bound`` (``exact.triangle_triangle``). Links with both ends certainly
    on one side, most of them, are skipped.
    """
    link_vertex, link_node, link_x = links
    corners = faces[t, 0], faces[t, 1], faces[t, 2]
    a, b, c = point(x, corners[0]), point(x, corners[1]), point(x, corners[2])
    n = cross(minus(a, c), minus(b, c))
    above = dot(n, minus(p, c))
    if not abs(above) > bound:
        if exactly:
            meet_triangle(0, p, NO_VERTEX, 0, count, link_vertex, link_node, link_x, x, corners, t, touches, hits)
        return exactly
    side = 1.0 if above > 0.0 else -1.0
    for k in range(count):
        o = point(link_x, k)
        beyond = side * dot(n, minus(o, c))
        if beyond > bound or _meet_link(k, p, o, a, b, c, above, side * beyond, corners, t, bound, hits):
            continue
        if not exactly:
            return False
        meet_segment(k, p, o, a, b, c, corners, t, hits)
    return True


@inlined
def _meet_link(k, p, o, a, b, c, above, beyond, corners, t, bound, hits):
    """A link against triangle abc, from p at the height ``above`` its plane to o at ``beyond``; False if uncertain.

    The edges turn around its line in one direction if it passes through the triangle, in both if it passes beside. The
    turns are the weights of the opposite corners.
    """
    d, pa, pb, pc = minus(o, p), minus(a, p), minus(b, p), minus(c, p)
    ab, bc, ca = dot(d, cross(pa, pb)), dot(d, cross(pb, pc)), dot(d, cross(pc, pa))
    low, high = min(ab, bc, ca), max(ab, bc, ca)
    if low < -bound and high > bound:
        return True
    if abs(beyond) > bound and (low > bound or high < -bound):
        total = ab + bc + ca
        weights = bc / total, ca / total, ab / total
        keep_hit(k, above / (above - beyond), -1 if above > 0.0 else 1, weights, corners, t, hits)
        return True
    return False


@inlined
def _meet_body(p, b, count, links, surface, touches, hits, exactly):
    """The triangle of body ``b`` that contains p, and the exits of its links; False if exact signs are needed."""
    x, faces, face_start, group_start, group_box, leaf_box, origin, low, high, _ = surface
    touches[0][0], link_x = -1, links[2]
    low_x, low_y, low_z = p
    high_x, high_y, high_z = p
    for k in range(count):
        hits[0][k] = -1.0
        low_x, high_x = min(low_x, link_x[k, 0]), max(high_x, link_x[k, 0])
        low_y, high_y = min(low_y, link_x[k, 1]), max(high_y, link_x[k, 1])
        low_z, high_z = min(low_z, link_x[k, 2]), max(high_z, link_x[k, 2])
    bound = error_bound(  # of heights of points in this box over triangles of b
        max(high_x, high[b, 0]) - min(low_x, low[b, 0]),
        max(high_y, high[b, 1]) - min(low_y, low[b, 1]),
        max(high_z, high[b, 2]) - min(low_z, low[b, 2]),
    )
    box = local_box((low_x, low_y, low_z, high_x, high_y, high_z), origin)
    shift = GROUP * group_start[b] - face_start[b]
    for group in range(group_start[b], group_start[b + 1]):
        leaves = met(group_box, group, box)
        while leaves != 0:
            leaf = WIDTH * group + lowest_bit(leaves)
            leaves &= leaves - ONE
            slots = met(leaf_box, leaf, box)
            while slots != 0:
                t = WIDTH * leaf + lowest_bit(slots) - shift
                slots &= slots - ONE
                if not _meet_face(p, t, count, links, x, faces, bound, touches, hits, exactly):
                    return False
    return True


@compiled
def _meet_exactly(p, b, count, links, surface, touches, hits):
    """As ``_meet_body``, with exact signs: a separate function, since inlined they slow down the common case."""
    _meet_body(p, b, count, links, surface, touches, hits, True)


@compiled
def _scratch(most):
    """Vertices, nodes and ends of links, touches and hits, see ``surface_meeting_kernels``; and normals of links."""
    links = np.zeros(most, np.int32), np.full(most, -1, np.int64), np.zeros((most, 3))
    touches = np.zeros(1, np.int32), np.zeros((1, 3), np.int32), np.zeros((1, 3))
    hits = (
        np.zeros(most), np.zeros(most, np.int32), np.zeros((most, 3), np.int32), np.zeros((most, 3)),
        np.zeros(most, np.int8),
    )  # fmt: skip
    return links, touches, hits, np.zeros((most, 3))


# Border -------------------------------------------------------------------------------------------------


@inlined
def _start(n, nodes, edges, surface, scratch, out, exactly):
    """Depth and direction of a node from its links; False if exact signs are needed and ``exactly`` is False."""
    key, vertex, in_body, outward = nodes
    links, touches, hits, link_normal = scratch
    x, link_x, v, b, count = surface[0], links[2], vertex[n], in_body[n], 0
    p, found, exit_face, is_done = point(x, v), (out[0], out[1], out[2]), out[3], out[4]
    for k in range(edges[0][v], edges[0][v + 1]):
        w = edges[1][k]
        if find_key(key, key[n] + (w - v), n) < 0:  # w is no node: it is outside
            write(link_x, count, point(x, w))
            count += 1
    if not _meet_body(p, b, count, links, surface, touches, hits, exactly):
        return False
    exit_face[n] = touches[0][0]
    is_done[n] = touches[0][0] >= 0
    if is_done[n]:
        write_mean(n, 0.0, times(_normal_of_row(0, touches[1], touches[2], surface), outward[b]), 1.0, 0, found)
    else:
        for k in range(count):
            if hits[0][k] >= 0.0:
                write(link_normal, k, _normal_of_row(k, hits[2], hits[3], surface))
                exit_face[n] = hits[1][k]
        start_node(n, p, 0, count, link_x, hits[0], hits[4], link_normal, outward[b], found)
    if found[2][n] == OPPOSED:
        _leave_by_nearest_point(n, p, b, outward[b], surface, out)
        is_done[n] = True
    return True


@compiled
def _start_exactly(n, nodes, edges, surface, scratch, out):
    """As ``_start``, with exact signs: a separate function, since inlined they slow down the common case."""
    _start(n, nodes, edges, surface, scratch, out, True)


@compiled
def _start_run(first, end, nodes, edges, surface, out):
    scratch = _scratch(edges[2])
    for n in range(first, end):
        if not _start(n, nodes, edges, surface, scratch, out, False):
            _start_exactly(n, nodes, edges, surface, scratch, out)


@kernel(parallel_from=64)
def start_at_borders(nodes, edges, surface, threads, counter, out):
    """Depth and direction of the nodes on their body, and of those with links that leave it.

    ``nodes`` is (key, vertex, penetrated body, outward sign of each body), keys rise. ``edges`` is (start, neighbour)
    of the edges at each vertex and their largest number. ``out`` is (depth, direction, round, exit_face, is_done).
    Nodes on the body, and those whose normals cancel, are done; ``exit_face`` is a triangle near the exit, or -1.
    """
    count = len(nodes[0])
    for _ in prange(threads):
        first = RUN * claim(counter)
        while first < count:
            _start_run(first, min(first + RUN, count), nodes, edges, surface, out)
            first = RUN * claim(counter)


# Nearest points -----------------------------------------------------------------------------------------


@inlined
def _box_within(p, square, origin):
    """A box around all triangles within a squared distance of p, with a margin for rounding."""
    reach = math.sqrt(square) * (1.0 + ROUNDING) + ROUNDING**2 * max(abs(p[0]), abs(p[1]), abs(p[2]))
    box = p[0] - reach, p[1] - reach, p[2] - reach, p[0] + reach, p[1] + reach, p[2] + reach
    return local_box(box, origin)


@inlined
def _closest(p, t, x, faces):
    return closest_on_triangle(p, point(x, faces[t, 0]), point(x, faces[t, 1]), point(x, faces[t, 2]))


@inlined
def _nearest(p, b, guess, surface):
    """The triangle of body ``b`` nearest to p, the lowest of several, weights there and squared distance.

    ``guess`` is a triangle that may be near, or -1: the nearer it is, the fewer others are tested.
    """
    x, faces, face_start, group_start, group_box, leaf_box, origin, _, _, _ = surface
    shift = GROUP * group_start[b] - face_start[b]
    best, nearest, at = math.inf, face_start[b], (1.0, 0.0, 0.0)
    if guess >= 0:
        u, v, w, best = _closest(p, guess, x, faces)
        nearest, at = guess, (u, v, w)
    box = _box_within(p, best, origin)
    for group in range(group_start[b], group_start[b + 1]):
        leaves = met(group_box, group, box)
        while leaves != 0:
            leaf = WIDTH * group + lowest_bit(leaves)
            leaves &= leaves - ONE
            slots = met(leaf_box, leaf, box)
            while slots != 0:
                t = WIDTH * leaf + lowest_bit(slots) - shift
                slots &= slots - ONE
                if t == guess:
                    continue
                u, v, w, square = _closest(p, t, x, faces)
                if square < best:
                    box = _box_within(p, square, origin)
                    slots &= met(leaf_box, leaf, box)
                    leaves &= met(group_box, group, box)
                if square < best or (square == best and t < nearest):
                    best, nearest, at = square, t, (u, v, w)
    return nearest, at, best


@inlined
def _foot(p, t, weights, surface):
    """Corners of a triangle, and the vector from p to the point with these weights."""
    x, faces, (u, v, w) = surface[0], surface[1], weights
    a, b, c = faces[t, 0], faces[t, 1], faces[t, 2]
    return (a, b, c), mixed(u, minus(point(x, a), p), v, minus(point(x, b), p), w, minus(point(x, c), p))


@compiled
def _leave_by_nearest_point(n, p, b, outward, surface, out):
    """Exit of a node through the nearest point of its body; along the normal if it is on the surface."""
    depth, direction, rounds, exit_face, _ = out
    t, weights, square = _nearest(p, b, exit_face[n], surface)
    corners, way = _foot(p, t, weights, surface)
    exit_face[n], depth[n], rounds[n] = t, math.sqrt(square), 0
    if depth[n] <= ON_SURFACE * max(abs(p[0]), abs(p[1]), abs(p[2])):
        way = times(_normal_at(corners, weights, surface), outward)
    else:
        way = unit(way)
    write(direction, n, (0.0, 0.0, 1.0) if is_zero(way) else way)


# Exits --------------------------------------------------------------------------------------------------


@inlined
def _leaves_along(n, p, b, steps, outward, surface, scratch, out):
    """Steps to feet as ``step_to_feet`` of ``depth``, then the exit along the direction; whether there is one."""
    depth, direction, _, exit_face, _ = out
    links, touches, hits, _ = scratch
    began = way = point(direction, n)
    length, t = depth[n], exit_face[n]
    for _ in range(steps):
        t, weights, _ = _nearest(plus(p, times(way, length)), b, t, surface)
        corners, foot = _foot(p, t, weights, surface)
        normal = times(_normal_at(corners, weights, surface), outward)
        above = dot(foot, normal)
        if dot(normal, began) < LEAST_COSINE or above < 0.0:
            break
        turn = minus(normal, way)
        length, way = above, normal
        if dot(turn, turn) <= STEADY * STEADY:
            break
    depth[n], exit_face[n] = length, t
    write(direction, n, way)
    if not length > 0.0:
        return False
    reach = EXIT_REACH * length
    write(links[2], 0, plus(p, times(way, reach)))
    if not _meet_body(p, b, 1, links, surface, touches, hits, False):
        _meet_exactly(p, b, 1, links, surface, touches, hits)
    if not hits[0][0] > 0.0:
        return False
    depth[n], exit_face[n] = hits[0][0] * reach, hits[1][0]
    return True


@compiled
def _leave_run(first, end, nodes, steps, surface, out):
    scratch, (_, vertex, in_body, outward) = _scratch(1), nodes
    for n in range(first, end):
        if not out[4][n]:
            p, b = point(surface[0], vertex[n]), in_body[n]
            is_inside = out[2][n] >= 0 and out[0][n] > 0.0
            if not (is_inside and _leaves_along(n, p, b, steps, outward[b], surface, scratch, out)):
                _leave_by_nearest_point(n, p, b, outward[b], surface, out)


@kernel(parallel_from=64)
def leave_bodies(nodes, steps, surface, threads, counter, out):
    """Exits of nodes that are not done: by feet and along the direction, or through the nearest point."""
    count = len(nodes[0])
    for _ in prange(threads):
        first = RUN * claim(counter)
        while first < count:
            _leave_run(first, min(first + RUN, count), nodes, steps, surface, out)
            first = RUN * claim(counter)
