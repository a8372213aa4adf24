"""Depths inside many small bodies at once; see ``arena_depth``.

``bodies`` is (x, faces, face_start, face_box): triangles of body b are rows ``face_start[b]`` to ``face_start[b + 1]``.
Nodes, links, touches and hits are those of ``surface_meeting_kernels``, surfaces those of ``surface_normals_kernels``.
"""

# mypy: ignore-errors

import math

import numpy as np

from impinge.backend.jit import compiled, kernel, prange
from impinge.contact.depth_kernels import STEADY, foot_at
from impinge.contact.surface_meeting_kernels import meet_segment, meet_triangle
from impinge.contact.surface_normals_kernels import (
    LEAST_COSINE,
    is_zero,
    normal_at,
    outward_sign,
    plus,
    times,
    unit,
    write,
)
from impinge.detect.features_kernels import closest_on_triangle, mixed
from impinge.exact.orientation import point
from impinge.exact.triangle_triangle import cross, dot, error_bound, minus

NO_VERTEX = np.int32(-1)


@kernel(parallel_from=256)
def find_outward_signs(body, surface, face_start, outward):
    """What turns the normals of some bodies outwards; writes the entries of those bodies."""
    x, faces, start, triangle = surface
    for i in prange(len(body)):
        b = body[i]
        outward[b] = outward_sign((x, faces[face_start[b] : face_start[b + 1]], start, triangle))


@compiled
def _box_of_links(p, first, end, link_node, link_x):
    """The box around a node and its outer neighbours."""
    low_x, low_y, low_z = p
    high_x, high_y, high_z = p
    for k in range(first, end):
        if link_node[k] < 0:
            low_x, high_x = min(low_x, link_x[k, 0]), max(high_x, link_x[k, 0])
            low_y, high_y = min(low_y, link_x[k, 1]), max(high_y, link_x[k, 1])
            low_z, high_z = min(low_z, link_x[k, 2]), max(high_z, link_x[k, 2])
    return low_x, low_y, low_z, high_x, high_y, high_z


@compiled
def _meet_face(i, p, t, first, end, link_vertex, link_node, link_x, x, faces, face_box, bound, touches, hits):
    """A node and its outer links against one triangle.

    Heights over its plane have errors of up to ``bound`` (``exact.triangle_triangle``). A link whose ends are surely on
    one side is passed over, which decides most of them; the others are tested exactly.
    """
    corners = faces[t, 0], faces[t, 1], faces[t, 2]
    a, b, c = point(x, corners[0]), point(x, corners[1]), point(x, corners[2])
    n = cross(minus(a, c), minus(b, c))
    above = dot(n, minus(p, c))
    if not abs(above) > bound:
        meet_triangle(i, p, NO_VERTEX, first, end, link_vertex, link_node, link_x, x, corners, t, touches, hits)
        return
    side = 1.0 if above > 0.0 else -1.0
    for k in range(first, end):
        if link_node[k] >= 0:
            continue
        o = point(link_x, k)
        if side * dot(n, minus(o, c)) > bound:
            continue
        if (
            max(p[0], o[0]) >= face_box[t, 0]
            and min(p[0], o[0]) <= face_box[t, 3]
            and max(p[1], o[1]) >= face_box[t, 1]
            and min(p[1], o[1]) <= face_box[t, 4]
            and max(p[2], o[2]) >= face_box[t, 2]
            and min(p[2], o[2]) <= face_box[t, 5]
            and not _passes_beside(p, o, a, b, c, bound)
        ):
            meet_segment(k, p, o, a, b, c, corners, t, hits)


@compiled
def _passes_beside(p, o, a, b, c, bound):
    """Whether the line through p and o surely passes beside triangle abc: its edges turn around it in both ways."""
    d, a, b, c = minus(o, p), minus(a, p), minus(b, p), minus(c, p)
    ab, bc, ca = dot(d, cross(a, b)), dot(d, cross(b, c)), dot(d, cross(c, a))
    return min(ab, bc, ca) < -bound and max(ab, bc, ca) > bound


@compiled
def _bound_of(box, low, high, b):
    """The error bound of heights of points in a box over triangles of body ``b``."""
    return error_bound(
        max(box[3], high[b, 0]) - min(box[0], low[b, 0]),
        max(box[4], high[b, 1]) - min(box[1], low[b, 1]),
        max(box[5], high[b, 2]) - min(box[2], low[b, 2]),
    )


@kernel(parallel_from=128)
def meet_bodies(points, in_body, links, bodies, low, high, touches, hits):
    """The triangle that each node lies on, and where its outer links leave the body that it is in."""
    start, link_vertex, link_node, link_x = links
    x, faces, face_start, face_box = bodies
    for i in prange(len(points)):
        touches[0][i] = -1
        for k in range(start[i], start[i + 1]):
            hits[0][k] = -1.0
        p, b = point(points, i), in_body[i]
        box = _box_of_links(p, start[i], start[i + 1], link_node, link_x)
        bound = _bound_of(box, low, high, b)
        for t in range(face_start[b], face_start[b + 1]):
            if (
                face_box[t, 0] <= box[3]
                and face_box[t, 3] >= box[0]
                and face_box[t, 1] <= box[4]
                and face_box[t, 4] >= box[1]
                and face_box[t, 2] <= box[5]
                and face_box[t, 5] >= box[2]
            ):
                _meet_face(
                    i, p, t, start[i], start[i + 1], link_vertex, link_node, link_x, x, faces, face_box, bound,
                    touches, hits,
                )  # fmt: skip


@compiled
def _gap(low, high, value):
    return max(low - value, value - high, 0.0)


@compiled
def _nearest(p, b, x, faces, face_start, face_box):
    """The triangle of body ``b`` that is nearest to p, the lowest of several, weights there and squared distance."""
    best, nearest, at = math.inf, face_start[b], (1.0, 0.0, 0.0)
    for t in range(face_start[b], face_start[b + 1]):
        gap_x = _gap(face_box[t, 0], face_box[t, 3], p[0])
        gap_y = _gap(face_box[t, 1], face_box[t, 4], p[1])
        gap_z = _gap(face_box[t, 2], face_box[t, 5], p[2])
        if gap_x * gap_x + gap_y * gap_y + gap_z * gap_z < best:
            u, v, w, square = closest_on_triangle(
                p, point(x, faces[t, 0]), point(x, faces[t, 1]), point(x, faces[t, 2])
            )
            if square < best:
                best, nearest, at = square, t, (u, v, w)
    return nearest, at, best


@compiled
def _step(p, depth, direction, b, steps, outward, surface, bodies):
    """As ``step_to_feet`` does, with a search through all triangles of body ``b``."""
    x, faces, face_start, face_box = bodies
    began = direction
    for _ in range(steps):
        goal = plus(p, times(direction, depth))
        t, _, _ = _nearest(goal, b, x, faces, face_start, face_box)
        n, above = foot_at(p, goal, (faces[t, 0], faces[t, 1], faces[t, 2]), x, outward, surface)
        if dot(n, began) < LEAST_COSINE or above < 0.0:
            break
        turn = minus(n, direction)
        depth, direction = above, n
        if dot(turn, turn) <= STEADY * STEADY:
            break
    return depth, direction


@kernel(parallel_from=64)
def step_to_feet(nodes, points, in_body, steps, outward, surface, bodies, depth, direction):
    """Move depth and direction of the given nodes towards the shortest way out."""
    for i in prange(len(nodes)):
        n = nodes[i]
        depth[n], way = _step(
            point(points, n), depth[n], point(direction, n), in_body[n], steps, outward[n], surface, bodies
        )  # fmt: skip
        write(direction, n, way)


@kernel(parallel_from=64)
def leave_by_nearest_points(nodes, points, in_body, on_surface, outward, surface, bodies, depth, direction):
    """Let the given nodes leave by the nearest point of their body; along its normal, if they are on it."""
    x, faces, face_start, face_box = bodies
    for i in prange(len(nodes)):
        n = nodes[i]
        p = point(points, n)
        t, (u, v, w), square = _nearest(p, in_body[n], x, faces, face_start, face_box)
        ca, cb, cc = faces[t, 0], faces[t, 1], faces[t, 2]
        depth[n] = math.sqrt(square)
        if depth[n] <= on_surface * max(abs(p[0]), abs(p[1]), abs(p[2])):
            way = times(normal_at(ca, cb, cc, u, v, w, surface), outward[n])
        else:
            way = unit(mixed(u, minus(point(x, ca), p), v, minus(point(x, cb), p), w, minus(point(x, cc), p)))
        write(direction, n, (0.0, 0.0, 1.0) if is_zero(way) else way)


@kernel(parallel_from=64)
def find_nearest(points, in_body, bodies, triangle):
    """The row of the triangle of its body that is nearest to each point."""
    x, faces, face_start, face_box = bodies
    for i in prange(len(points)):
        triangle[i], _, _ = _nearest(point(points, i), in_body[i], x, faces, face_start, face_box)
