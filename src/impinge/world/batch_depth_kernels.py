"""Depths inside many small bodies at once; see ``arena_depth``.

``bodies`` are those of ``arena_kernels``, ``normal`` has the normals of vertices.
Nodes, links, touches and hits are those of ``surface_meeting_kernels``; here there is room for those of one node, and
links that lead to other nodes are left out.
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
"""A share of lengths far above all rounding, the square of which is far above that of one operation."""


# Normals ------------------------------------------------------------------------------------------------


@kernel(parallel_from=128)
def fit_normals(penetrated, used_start, used, bodies, normal, outward):
    """Normals of the vertices of some bodies, which are zero before, and what turns those of each body outwards."""
    x, faces, face_start = bodies[0], bodies[1], bodies[2]
    for i in prange(len(penetrated)):
        body = penetrated[i]
        outward[body] = outward_sign(x, faces[face_start[body] : face_start[body + 1]])
        for t in range(face_start[body], face_start[body + 1]):
            ca, cb, cc = faces[t, 0], faces[t, 1], faces[t, 2]
            a, b, c = point(x, ca), point(x, cb), point(x, cc)
            write(normal, ca, plus(point(normal, ca), corner_normal(a, b, c)))
            write(normal, cb, plus(point(normal, cb), corner_normal(b, c, a)))
            write(normal, cc, plus(point(normal, cc), corner_normal(c, a, b)))
        for k in range(used_start[body], used_start[body + 1]):
            write(normal, used[k], unit(point(normal, used[k])))


@inlined
def _normal_at(ca, cb, cc, u, v, w, x, normal):
    """The normal at a point of a triangle, mixed from those of its corners."""
    mean = mixed(u, point(normal, ca), v, point(normal, cb), w, point(normal, cc))
    return mixed_normal(mean, point(x, ca), point(x, cb), point(x, cc))


@inlined
def _normal_of_row(i, corner, weight, x, normal):
    return _normal_at(
        corner[i, 0], corner[i, 1], corner[i, 2], weight[i, 0], weight[i, 1], weight[i, 2], x, normal
    )  # fmt: skip


# Meeting the surface ------------------------------------------------------------------------------------


@inlined
def _box_of_links(p, count, link_x):
    """The box around a point and the ends of its links."""
    low_x, low_y, low_z = p
    high_x, high_y, high_z = p
    for k in range(count):
        low_x, high_x = min(low_x, link_x[k, 0]), max(high_x, link_x[k, 0])
        low_y, high_y = min(low_y, link_x[k, 1]), max(high_y, link_x[k, 1])
        low_z, high_z = min(low_z, link_x[k, 2]), max(high_z, link_x[k, 2])
    return low_x, low_y, low_z, high_x, high_y, high_z


@inlined
def _meet_face(p, t, count, links, x, faces, bound, touches, hits, exactly):
    """A point and its links against one triangle; False if exact signs are needed, and not wanted.

    Heights over its plane have errors of up to ``bound`` (``exact.triangle_triangle``). A link whose ends are surely on
    one side is passed over, which decides most of them.
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
    """A link against triangle abc, from p at the height ``above`` its plane to o, which may be on the other side.

    The edges turn around its line all in one way if it passes through the triangle, in both ways if beside. Where that
    is sure, it needs no exact test, and how far they turn are the weights of the opposite corners; else it is False.
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
def _bound_of(box, low, high, b):
    """The error bound of heights of points in a box over triangles of body ``b``."""
    return error_bound(
        max(box[3], high[b, 0]) - min(box[0], low[b, 0]),
        max(box[4], high[b, 1]) - min(box[1], low[b, 1]),
        max(box[5], high[b, 2]) - min(box[2], low[b, 2]),
    )


@inlined
def _meet_body(p, b, count, links, bodies, low, high, touches, hits, exactly):
    """The triangle of body ``b`` that p lies on, and where its links leave the body.

    False if doubles cannot tell, and exact signs are not wanted: then nothing is told.
    """
    x, faces, face_start, group_start, group_box, leaf_box, origin = bodies
    touches[0][0] = -1
    for k in range(count):
        hits[0][k] = -1.0
    box = _box_of_links(p, count, links[2])
    bound = _bound_of(box, low, high, b)
    local, shift = local_box(box, origin), GROUP * group_start[b] - face_start[b]
    for group in range(group_start[b], group_start[b + 1]):
        leaves = met(group_box, group, local)
        while leaves != 0:
            leaf = WIDTH * group + lowest_bit(leaves)
            leaves &= leaves - ONE
            slots = met(leaf_box, leaf, local)
            while slots != 0:
                t = WIDTH * leaf + lowest_bit(slots) - shift
                slots &= slots - ONE
                if not _meet_face(p, t, count, links, x, faces, bound, touches, hits, exactly):
                    return False
    return True


@compiled
def _meet_exactly(p, b, count, links, bodies, low, high, touches, hits):
    """As ``_meet_body``, with exact signs: kept apart, since they would slow down what hardly ever needs them."""
    _meet_body(p, b, count, links, bodies, low, high, touches, hits, True)


@compiled
def _room_for_links(most):
    """Vertices, nodes and ends of links, touches and hits, see ``surface_meeting_kernels``; and normals for links."""
    links = np.zeros(most, np.int32), np.full(most, -1, np.int64), np.zeros((most, 3))
    touches = np.zeros(1, np.int32), np.zeros((1, 3), np.int32), np.zeros((1, 3))
    hits = (
        np.zeros(most), np.zeros(most, np.int32), np.zeros((most, 3), np.int32), np.zeros((most, 3)),
        np.zeros(most, np.int8),
    )  # fmt: skip
    return links, touches, hits, np.zeros((most, 3))


# Border -------------------------------------------------------------------------------------------------


@inlined
def _find_outer_links(n, key, vertex, x, neighbour_start, neighbour, link_x):
    """Ends of the links of a node that are no nodes; how many there are."""
    v, count = vertex[n], 0
    for k in range(neighbour_start[v], neighbour_start[v + 1]):
        w = neighbour[k]
        if find_key(key, key[n] + (w - v), n) < 0:
            write(link_x, count, point(x, w))
            count += 1
    return count


@inlined
def _start_at_border(n, p, count, link_x, touches, hits, link_normal, outward, x, normal, found, exit_face):
    """As ``depth_kernels.start_at_border``, with normals that are known; a triangle near the way out."""
    touch_tri, touch_corner, touch_weight = touches
    share, hit_tri, corner, weight, sign = hits
    exit_face[n] = touch_tri[0]
    if touch_tri[0] >= 0:
        way = times(_normal_of_row(0, touch_corner, touch_weight, x, normal), outward)
        write_mean(n, 0.0, way, 1.0, 0, found)
        return
    for k in range(count):
        if share[k] >= 0.0:
            write(link_normal, k, _normal_of_row(k, corner, weight, x, normal))
            exit_face[n] = hit_tri[k]
    start_node(n, p, 0, count, link_x, share, sign, link_normal, outward, found)


@inlined
def _start(n, nodes, edges, bodies, low, high, normal, room, found, exit_face, is_done, exactly):
    """Depth and direction of a node, if its links tell; False if exact signs are needed, and not wanted."""
    key, vertex, in_body, outward = nodes
    links, touches, hits, link_normal = room
    x = bodies[0]
    p, b = point(x, vertex[n]), in_body[n]
    count = _find_outer_links(n, key, vertex, x, edges[0], edges[1], links[2])
    if not _meet_body(p, b, count, links, bodies, low, high, touches, hits, exactly):
        return False
    _start_at_border(n, p, count, links[2], touches, hits, link_normal, outward[b], x, normal, found, exit_face)
    is_done[n] = touches[0][0] >= 0
    if found[2][n] == OPPOSED:
        _leave_by_nearest_point(n, p, b, outward[b], normal, bodies, found, exit_face)
        is_done[n] = True
    return True


@compiled
def _start_exactly(n, nodes, edges, bodies, low, high, normal, room, found, exit_face, is_done):
    """As ``_start``; apart, since code for exact signs slows down what hardly ever needs them."""
    _start(n, nodes, edges, bodies, low, high, normal, room, found, exit_face, is_done, True)


@compiled
def _start_run(first, end, nodes, edges, bodies, low, high, normal, found, exit_face, is_done):
    room = _room_for_links(edges[2])
    for n in range(first, end):
        if not _start(n, nodes, edges, bodies, low, high, normal, room, found, exit_face, is_done, False):
            _start_exactly(n, nodes, edges, bodies, low, high, normal, room, found, exit_face, is_done)


@kernel(parallel_from=64)
def start_at_borders(nodes, edges, bodies, low, high, normal, threads, counter, found, exit_face, is_done):
    """Depth and direction of the nodes that lie on their body, and of those with links that leave it.

    ``nodes`` is (key, vertex, body that it is in, what turns the normals of each body outwards), and keys rise.
    ``edges`` is (start, neighbour) of the edges from each vertex and the most that one has, ``found`` is (depth,
    direction, round). Nodes on the body, and those whose normals cancel, are done. ``exit_face`` is a triangle near the
    way out, or -1.
    """
    count = len(nodes[0])
    tasks = (count + RUN - 1) // RUN
    for _ in prange(threads):
        task = claim(counter)
        while task < tasks:
            first = task * RUN
            _start_run(
                first, min(first + RUN, count), nodes, edges, bodies, low, high, normal, found, exit_face, is_done
            )  # fmt: skip
            task = claim(counter)


# Nearest points -----------------------------------------------------------------------------------------


@inlined
def _box_within(p, square, origin):
    """A box that holds all triangles whose squared distance from p is as given, or seems to be by rounding."""
    reach = math.sqrt(square) * (1.0 + ROUNDING) + ROUNDING**2 * max(abs(p[0]), abs(p[1]), abs(p[2]))
    box = p[0] - reach, p[1] - reach, p[2] - reach, p[0] + reach, p[1] + reach, p[2] + reach
    return local_box(box, origin)


@inlined
def _nearest(p, b, guess, bodies):
    """The triangle of body ``b`` that is nearest to p, the lowest of several, weights there and squared distance.

    ``guess`` is a triangle that may be near, or -1: the nearer it is, the fewer others have to be looked at.
    """
    x, faces, face_start, group_start, group_box, leaf_box, origin = bodies
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
def _closest(p, t, x, faces):
    return closest_on_triangle(p, point(x, faces[t, 0]), point(x, faces[t, 1]), point(x, faces[t, 2]))


@inlined
def _step(p, depth, direction, b, guess, steps, outward, normal, bodies):
    """As ``depth_kernels.step_to_feet`` does; returns the triangle of the last foot, too."""
    x, faces = bodies[0], bodies[1]
    began = direction
    for _ in range(steps):
        goal = plus(p, times(direction, depth))
        guess, (u, v, w), _ = _nearest(goal, b, guess, bodies)
        ca, cb, cc = faces[guess, 0], faces[guess, 1], faces[guess, 2]
        n = times(_normal_at(ca, cb, cc, u, v, w, x, normal), outward)
        above = dot(mixed(u, minus(point(x, ca), p), v, minus(point(x, cb), p), w, minus(point(x, cc), p)), n)
        if dot(n, began) < LEAST_COSINE or above < 0.0:
            break
        turn = minus(n, direction)
        depth, direction = above, n
        if dot(turn, turn) <= STEADY * STEADY:
            break
    return depth, direction, guess


# Ways out -----------------------------------------------------------------------------------------------


@compiled
def _leave_by_nearest_point(n, p, b, outward, normal, bodies, found, exit_face):
    """Let a node leave by the nearest point of its body; along its normal, if it is on it."""
    depth, direction, rounds = found
    x, faces = bodies[0], bodies[1]
    t, (u, v, w), square = _nearest(p, b, exit_face[n], bodies)
    ca, cb, cc = faces[t, 0], faces[t, 1], faces[t, 2]
    exit_face[n], depth[n], rounds[n] = t, math.sqrt(square), 0
    if depth[n] <= ON_SURFACE * max(abs(p[0]), abs(p[1]), abs(p[2])):
        way = times(_normal_at(ca, cb, cc, u, v, w, x, normal), outward)
    else:
        way = unit(mixed(u, minus(point(x, ca), p), v, minus(point(x, cb), p), w, minus(point(x, cc), p)))
    write(direction, n, (0.0, 0.0, 1.0) if is_zero(way) else way)


@inlined
def _leave_along(n, p, b, links, bodies, low, high, touches, hits, found, exit_face):
    """Let depth be the way to the surface along direction; whether that leads out."""
    depth, direction, _ = found
    reach = EXIT_REACH * depth[n]
    write(links[2], 0, plus(p, times(point(direction, n), reach)))
    if not _meet_body(p, b, 1, links, bodies, low, high, touches, hits, False):
        _meet_exactly(p, b, 1, links, bodies, low, high, touches, hits)
    if not hits[0][0] > 0.0:
        return False
    depth[n], exit_face[n] = hits[0][0] * reach, hits[1][0]
    return True


@inlined
def _leave(n, nodes, steps, bodies, low, high, normal, room, found, exit_face):
    _, vertex, in_body, outward = nodes
    depth, direction, rounds = found
    links, touches, hits, _ = room
    p, b = point(bodies[0], vertex[n]), in_body[n]
    if rounds[n] >= 0 and depth[n] > 0.0:
        depth[n], way, exit_face[n] = _step(
            p, depth[n], point(direction, n), b, exit_face[n], steps, outward[b], normal, bodies
        )  # fmt: skip
        write(direction, n, way)
        if depth[n] > 0.0 and _leave_along(n, p, b, links, bodies, low, high, touches, hits, found, exit_face):
            return
    _leave_by_nearest_point(n, p, b, outward[b], normal, bodies, found, exit_face)


@compiled
def _leave_run(first, end, nodes, steps, bodies, low, high, normal, found, exit_face, is_done):
    room = _room_for_links(1)
    for n in range(first, end):
        if not is_done[n]:
            _leave(n, nodes, steps, bodies, low, high, normal, room, found, exit_face)


@kernel(parallel_from=64)
def leave_bodies(nodes, steps, bodies, low, high, normal, threads, counter, found, exit_face, is_done):
    """Steps to feet and along the direction, of nodes that are not done and have one; or to the nearest point."""
    count = len(nodes[0])
    tasks = (count + RUN - 1) // RUN
    for _ in prange(threads):
        task = claim(counter)
        while task < tasks:
            first = task * RUN
            _leave_run(
                first, min(first + RUN, count), nodes, steps, bodies, low, high, normal, found, exit_face, is_done
            )  # fmt: skip
            task = claim(counter)
