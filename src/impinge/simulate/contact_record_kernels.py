"""Torques of contacts on bodies, and the surfaces that face contacts, for ``contact_record``."""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled
from impinge.exact.orientation import point
from impinge.exact.triangle_triangle import cross, dot, minus

FACING = 0.5
"""Least cosine between a contact normal and a triangle that faces it; either side of an open surface may."""


GROWTHS = 6
"""Times that the disc around a contact of a dense surface doubles its area."""


@compiled
def add_torques(
    rows, normal_jacobian, slip_jacobian, normal_impulse, friction_impulse, body_a, body_b, first, stop, masses, x,
    centre, torque,
):  # fmt: skip
    """Add the angular impulses of the contacts ``rows`` on both bodies.

    Body b has the coarse vertices from ``first[b]`` to ``stop[b]``, and its centre of mass is written to ``centre``.
    Scripted bodies have none: their centres are given, and they receive the opposite of what acts on the other body.
    """
    is_known = np.zeros(len(first), dtype=np.bool_)
    for c in rows:
        other = -1
        for b in (body_a[c], body_b[c]):
            if b < 0:
                continue
            if first[b] == stop[b]:
                other = b
            elif not is_known[b]:
                is_known[b] = True
                _find_centre(masses, x, first[b], stop[b], centre[b])
        p = normal_impulse[c]
        fx, fy, fz = friction_impulse[c, 0], friction_impulse[c, 1], friction_impulse[c, 2]
        start, vertex, weight = normal_jacobian
        for e in range(start[c], start[c + 1]):
            v = vertex[e]
            b = body_a[c] if body_a[c] >= 0 and first[body_a[c]] <= v < stop[body_a[c]] else body_b[c]
            gx, gy, gz = -p * weight[e, 0], -p * weight[e, 1], -p * weight[e, 2]
            _add(torque, centre, b, x, v, gx, gy, gz)
            if other >= 0:
                _add(torque, centre, other, x, v, -gx, -gy, -gz)
        start, vertex, block = slip_jacobian
        for e in range(start[c], start[c + 1]):
            v = vertex[e]
            b = body_a[c] if body_a[c] >= 0 and first[body_a[c]] <= v < stop[body_a[c]] else body_b[c]
            gx = -(block[e, 0, 0] * fx + block[e, 1, 0] * fy + block[e, 2, 0] * fz)
            gy = -(block[e, 0, 1] * fx + block[e, 1, 1] * fy + block[e, 2, 1] * fz)
            gz = -(block[e, 0, 2] * fx + block[e, 1, 2] * fy + block[e, 2, 2] * fz)
            _add(torque, centre, b, x, v, gx, gy, gz)
            if other >= 0:
                _add(torque, centre, other, x, v, -gx, -gy, -gz)


@compiled
def _find_centre(masses, x, first, stop, centre):
    """The centre of mass of some vertices."""
    total, cx, cy, cz = 0.0, 0.0, 0.0, 0.0
    for i in range(first, stop):
        m = masses[i]
        total += m
        cx, cy, cz = cx + m * x[i, 0], cy + m * x[i, 1], cz + m * x[i, 2]
    centre[0], centre[1], centre[2] = cx / total, cy / total, cz / total


@compiled
def _add(torque, centre, b, x, v, gx, gy, gz):
    """Add the moment of a force at coarse vertex v about the centre of body b."""
    rx, ry, rz = x[v, 0] - centre[b, 0], x[v, 1] - centre[b, 1], x[v, 2] - centre[b, 2]
    torque[b, 0] += ry * gz - rz * gy
    torque[b, 1] += rz * gx - rx * gz
    torque[b, 2] += rx * gy - ry * gx


@compiled
def find_facing_areas(order, vertex, row, normal, x, faces, start, triangle, at, area, around):
    """Place of the vertex of each entry, a third of the triangles around it, and of those that face a contact there.

    ``order`` lists the entries of one body by vertex, ``row`` is the contact of each. Where no triangle faces a
    contact, all count.
    """
    first = 0
    while first < len(order):
        v = vertex[order[first]]
        last = first
        while last < len(order) and vertex[order[last]] == v:
            last += 1
        facing, total = 0.0, 0.0
        for k in range(start[v], start[v + 1]):
            f = triangle[k]
            p = point(x, faces[f, 0])
            n = cross(minus(point(x, faces[f, 1]), p), minus(point(x, faces[f, 2]), p))
            size = np.sqrt(dot(n, n))
            total += size / 6.0
            for e in range(first, last):
                if abs(dot(n, point(normal, row[order[e]]))) > FACING * size:
                    facing += size / 6.0
                    break
        for e in range(first, last):
            area[order[e]] = facing if facing > 0.0 else total
            around[order[e]] = total
            at[order[e], 0], at[order[e], 1], at[order[e], 2] = x[v, 0], x[v, 1], x[v, 2]
        first = last


@compiled
def find_points(start, weight, at, area, around, normal, gap, place, share):
    """The middle between the nearest points of both sides, and the share of the smaller one that faces the contact.

    Where a side has no vertices, its point is across the gap from the other one.
    """
    for c in range(len(gap)):
        p, total, facing, whole = np.zeros((2, 3)), np.zeros(2), np.zeros(2), np.zeros(2)
        for e in range(start[c], start[c + 1]):
            side, w = (0, weight[e]) if weight[e] > 0.0 else (1, -weight[e])
            total[side] += w
            facing[side] += w * area[e]
            whole[side] += w * around[e]
            for k in range(3):
                p[side, k] += w * at[e, k]
        chosen, least = -1, np.inf
        for side in range(2):
            if total[side] > 0.0 and whole[side] < least * total[side]:
                chosen, least = side, whole[side] / total[side]
        share[c] = facing[chosen] / whole[chosen] if chosen >= 0 and whole[chosen] > 0.0 else 1.0
        for k in range(3):
            across = gap[c] * normal[c, k]
            a = p[0, k] / total[0] if total[0] > 0.0 else p[1, k] / total[1] - across
            b = p[1, k] / total[1] if total[1] > 0.0 else a + across
            place[c, k] = 0.5 * (a + b)


@compiled
def _facing_area(v, normal, x, faces, start, triangle):
    """A third of the triangles around vertex v that face a direction."""
    area = 0.0
    for k in range(start[v], start[v + 1]):
        p, q, r = point(x, faces[triangle[k], 0]), point(x, faces[triangle[k], 1]), point(x, faces[triangle[k], 2])
        n = cross(minus(q, p), minus(r, p))
        size = np.sqrt(dot(n, n))
        if abs(dot(n, normal)) > FACING * size:
            area += size / 6.0
    return area


@compiled
def spread(seed, normal, area, groups, x, surface, row, vertex, weight):
    """Vertices of the group of each seed around it that have its area, with weights of sum 1; their number.

    A disc of that area around the seed grows until the surface in it is as large, or the group ends. Weights are the
    surfaces around vertices that face the contact. ``groups`` are the group of each vertex and a CSR list of the
    vertices of each group, ``surface`` are faces and a CSR list of the triangles around each vertex.
    """
    (group, start, members), (faces, first_triangle, triangle) = groups, surface
    count = 0
    for i in range(len(seed)):
        s, first, total = seed[i], count, 0.0
        reach = area[i] / np.pi
        for _ in range(GROWTHS):
            count, total, left = first, 0.0, 0
            for k in range(start[group[s]], start[group[s] + 1]):
                v = members[k]
                d = minus(point(x, v), point(x, s))
                if v != s and dot(d, d) > reach:
                    left += 1
                    continue
                facing = _facing_area(v, point(normal, i), x, faces, first_triangle, triangle)
                if facing > 0.0:
                    row[count], vertex[count], weight[count] = i, v, facing
                    total += facing
                    count += 1
            if total >= area[i] or left == 0:
                break
            reach *= 2.0
        if count == first:
            row[count], vertex[count], weight[count], total = i, s, 1.0, 1.0
            count += 1
        for k in range(first, count):
            weight[k] /= total
    return count
