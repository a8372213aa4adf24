"""Contact normals within the normal cones of both features, for ``near_pairs``.

A side is (x, faces, start, triangle): a surface, the last two a CSR list of the triangles around vertices. Weights
above ``EDGE`` mark the nearest point of a feature: a corner, an edge, or the inside of a face.
"""

# mypy: ignore-errors

import math

from impinge.backend.jit import compiled, kernel, prange
from impinge.detect.proximity.features_kernels import closest_on_segments, closest_on_triangle
from impinge.exact.orientation import point
from impinge.exact.triangle_triangle import cross, dot, minus

EDGE = 1e-9
"""Weight up to which a corner does not take part."""
FLAT = 0.9
"""Cosine between the normals of a feature's triangles and their mean from which on it is flat: 26 degrees."""
FACING = 0.5
"""Least cosine between the direction to the other feature and the normal of a flat one."""
INWARD = 0.3
"""Largest sine by which the direction may leave the normal cone of a sharp feature."""
TOUCHING = 1e-7
"""Distance, relative to an edge, up to which the direction between features is noise: outward normals serve instead."""
PARALLEL = 1e-8
"""Square of the sine of two edges up to which their common normal is noise."""
SAME_PLACE = 0.02
"""Difference of weights up to which an impact is at the place of a contact."""
SAME_NORMAL = 0.9995
"""Cosine of the normals of both from which on it is the same contact."""
BOOST, MOST_BOOST = 4.0, 1000.0
"""How much stiffer a contact becomes each time that its features meet nevertheless, and in all."""
DROPPED, SHARP, FLAT_SIDE = 0, 1, 2
FROM_NEAREST, FROM_OUTSIDE, FROM_IMPACT, RENEWED = 0, 1, 2, 3
"""Where directions come from: the nearest points; these, and outward normals of closed surfaces; an impact; the nearest
points of a contact of the step before, which stays one where two edges are flat or meet at an end."""


@compiled
def _unit(v):
    size = math.sqrt(dot(v, v))
    return (v[0] / size, v[1] / size, v[2] / size) if size > 0.0 else (0.0, 0.0, 0.0)


@compiled
def _nearest(x, vertices, weights, row, first, last):
    """The nearest point of a feature."""
    px, py, pz = 0.0, 0.0, 0.0
    for k in range(first, last):
        v, w = vertices[row, k], weights[row, k]
        px, py, pz = px + w * x[v, 0], py + w * x[v, 1], pz + w * x[v, 2]
    return px, py, pz


@compiled
def _judge(side, u, w, p, direction):
    """Whether the direction from point p lies in the normal cone of vertex u (w < 0) or of edge uw, and their normal.

    Flat features have one normal, whatever the triangulation. A direction is in the cone of a sharp feature if no
    neighbouring vertex lies towards it.
    """
    x, faces, start, triangle = side
    nx, ny, nz, towards = 0.0, 0.0, 0.0, -1.0
    for k in range(start[u], start[u + 1]):
        f = triangle[k]
        a, b, c = faces[f, 0], faces[f, 1], faces[f, 2]
        if w >= 0 and a != w and b != w and c != w:
            continue
        n = _unit(cross(minus(point(x, b), point(x, a)), minus(point(x, c), point(x, a))))
        nx, ny, nz = nx + n[0], ny + n[1], nz + n[2]
        along = _unit(minus(point(x, max(w, 0)), point(x, u)))
        for q in (a, b, c):
            if q in (u, w):
                continue
            t = minus(point(x, q), p)
            if w >= 0:  # across the edge
                s = dot(t, along)
                t = t[0] - s * along[0], t[1] - s * along[1], t[2] - s * along[2]
            towards = max(towards, dot(_unit(t), direction))
    normal = _unit((nx, ny, nz))
    count, is_flat = 0, True
    for k in range(start[u], start[u + 1]):
        f = triangle[k]
        a, b, c = faces[f, 0], faces[f, 1], faces[f, 2]
        if w >= 0 and a != w and b != w and c != w:
            continue
        count += 1
        n = _unit(cross(minus(point(x, b), point(x, a)), minus(point(x, c), point(x, a))))
        is_flat &= dot(n, normal) >= FLAT
    if is_flat and count >= (2 if w >= 0 else 3):
        facing = dot(normal, direction)
        if abs(facing) < FACING:
            return DROPPED, normal
        return FLAT_SIDE, (normal if facing > 0.0 else (-normal[0], -normal[1], -normal[2]))
    return (SHARP if towards <= INWARD else DROPPED), direction


@compiled
def _judge_side(side, vertices, weights, row, first, last, p, direction):
    """The same for a side of a pair; the inside of a face counts as sharp."""
    u, w, count = -1, -1, 0
    for k in range(first, last):
        if weights[row, k] > EDGE:
            count += 1
            if u < 0:
                u = vertices[row, k]
            elif w < 0:
                w = vertices[row, k]
    if count == 3:
        return SHARP, direction
    return _judge(side, u, w, p, direction)


@compiled
def _outward(side, vertices, weights, row, first, last):
    """The mean normal of the triangles around the nearest point of a feature, and the square of a length there."""
    x, faces, start, triangle = side
    nx, ny, nz, size = 0.0, 0.0, 0.0, 0.0
    for k in range(first, last):
        if weights[row, k] > EDGE:
            u = vertices[row, k]
            for j in range(start[u], start[u + 1]):
                f = triangle[j]
                a, b, c = point(x, faces[f, 0]), point(x, faces[f, 1]), point(x, faces[f, 2])
                n = _unit(cross(minus(b, a), minus(c, a)))
                nx, ny, nz = nx + n[0], ny + n[1], nz + n[2]
                size = max(size, dot(minus(b, a), minus(b, a)))
    return _unit((nx, ny, nz)), size


@compiled
def _is_inside(weights, row, first, last):
    inside = True
    for k in range(first, last):
        inside &= weights[row, k] > EDGE
    return inside


@compiled
def _plane(x, vertices, row, first):
    a = point(x, vertices[row, first])
    return _unit(cross(minus(point(x, vertices[row, first + 1]), a), minus(point(x, vertices[row, first + 2]), a)))


@kernel(parallel_from=512)
def orient(kind, vertices, weights, a, b, source, normal, gap, keep):
    """Set normals from a to b, gaps along them, and which pairs are contacts.

    Impacts have a normal, and none is dropped.
    """
    for row in prange(len(kind)):
        split = 1 if kind[row] == 0 else (3 if kind[row] == 1 else 2)
        p, q = _nearest(a[0], vertices, weights, row, 0, split), _nearest(b[0], vertices, weights, row, split, 4)
        apart = minus(q, p)
        direction = _unit(apart)
        out_a, size = _outward(a, vertices, weights, row, 0, split)
        if dot(apart, apart) < TOUCHING * TOUCHING * size and source != FROM_IMPACT:
            out_b, _ = _outward(b, vertices, weights, row, split, 4)
            chosen = _unit(minus(out_a, out_b))
            normal[row, 0], normal[row, 1], normal[row, 2] = chosen
            gap[row], keep[row] = max(dot(chosen, apart), 0.0), dot(chosen, chosen) > 0.0
            continue
        on_face = (kind[row] == 0 and _is_inside(weights, row, 1, 4)) or (
            kind[row] == 1 and _is_inside(weights, row, 0, 3)
        )
        if source == FROM_IMPACT:
            direction = point(normal, row)
        elif kind[row] == 2:
            e = minus(point(a[0], vertices[row, 1]), point(a[0], vertices[row, 0]))
            f = minus(point(b[0], vertices[row, 3]), point(b[0], vertices[row, 2]))
            n = cross(e, f)
            if dot(n, n) > PARALLEL * dot(e, e) * dot(f, f) and _is_inside(weights, row, 0, 4):
                n = _unit(n)
                s = 1.0 if dot(n, apart) >= 0.0 else -1.0
                direction = s * n[0], s * n[1], s * n[2]
        elif kind[row] != 2 and on_face:
            n = _plane(b[0], vertices, row, 1) if kind[row] == 0 else _plane(a[0], vertices, row, 0)
            s = 1.0 if dot(n, apart) >= 0.0 else -1.0
            direction = s * n[0], s * n[1], s * n[2]
        back = -direction[0], -direction[1], -direction[2]
        of_a, normal_a = _judge_side(a, vertices, weights, row, 0, split, p, direction)
        of_b, normal_b = _judge_side(b, vertices, weights, row, split, 4, q, back)
        normal_b = -normal_b[0], -normal_b[1], -normal_b[2]
        chosen = direction
        if not on_face:
            if of_a == FLAT_SIDE and of_b == FLAT_SIDE:
                chosen = _unit((normal_a[0] + normal_b[0], normal_a[1] + normal_b[1], normal_a[2] + normal_b[2]))
            elif of_a == FLAT_SIDE:
                chosen = normal_a
            elif of_b == FLAT_SIDE:
                chosen = normal_b
        if source == FROM_IMPACT:
            if not dot(chosen, apart) > 0.0:
                chosen = direction
            if not dot(chosen, apart) > 0.0:
                chosen = _unit(apart)
            keep[row] = True
        else:
            both_flat = of_a == FLAT_SIDE and of_b == FLAT_SIDE and kind[row] == 2
            at_end = kind[row] == 2 and not _is_inside(weights, row, 0, 4)
            if source == FROM_OUTSIDE and kind[row] != 2:  # the normal of the face, or of the faces around the vertex
                out = _plane(b[0], vertices, row, 1) if kind[row] == 0 else _plane(a[0], vertices, row, 0)
                sign = -1.0 if kind[row] == 0 else 1.0
                out = sign * out[0], sign * out[1], sign * out[2]
                if dot(apart, out) < 0.0:
                    of_a = DROPPED
                chosen = out
            elif source == FROM_OUTSIDE:
                of_a = DROPPED
            is_once = source == RENEWED or not (both_flat or at_end)
            keep[row] = of_a != DROPPED and of_b != DROPPED and is_once
        normal[row, 0], normal[row, 1], normal[row, 2] = chosen
        gap[row] = dot(chosen, apart)


@kernel(parallel_from=4096)
def find_nearest(kind, vertices, a, b, weights):
    """Weights of the nearest points of features."""
    for row in prange(len(kind)):
        if kind[row] == 2:
            s, t, _ = closest_on_segments(
                point(a, vertices[row, 0]), point(a, vertices[row, 1]),
                point(b, vertices[row, 2]), point(b, vertices[row, 3]),
            )  # fmt: skip
            weights[row, 0], weights[row, 1], weights[row, 2], weights[row, 3] = 1.0 - s, s, 1.0 - t, t
        elif kind[row] == 0:
            u, v, w, _ = closest_on_triangle(
                point(a, vertices[row, 0]), point(b, vertices[row, 1]), point(b, vertices[row, 2]),
                point(b, vertices[row, 3]),
            )  # fmt: skip
            weights[row, 0], weights[row, 1], weights[row, 2], weights[row, 3] = 1.0, u, v, w
        else:
            u, v, w, _ = closest_on_triangle(
                point(b, vertices[row, 3]), point(a, vertices[row, 0]), point(a, vertices[row, 1]),
                point(a, vertices[row, 2]),
            )  # fmt: skip
            weights[row, 0], weights[row, 1], weights[row, 2], weights[row, 3] = u, v, w, 1.0


@kernel(parallel_from=4096)
def measure_rest(kind, vertices, x, distance):
    """Distances of features of one body at rest."""
    for row in prange(len(kind)):
        p, q = point(x, vertices[row, 0]), point(x, vertices[row, 1])
        r, s = point(x, vertices[row, 2]), point(x, vertices[row, 3])
        if kind[row] == 2:
            square = closest_on_segments(p, q, r, s)[2]
        elif kind[row] == 0:
            square = closest_on_triangle(p, q, r, s)[3]
        else:
            square = closest_on_triangle(s, p, q, r)[3]
        distance[row] = math.sqrt(square)


@compiled
def keep_nearest(order, group, normal, cosine, area, keep, total):
    """Of the pairs of a group, in order, keep those whose normal differs from those kept, which get the area of all."""
    first = 0
    for i in range(len(order)):
        row = order[i]
        if i > 0 and group[row] != group[order[i - 1]]:
            first = i
        for k in range(first, i):
            other = order[k]
            if keep[other] and dot(point(normal, row), point(normal, other)) > cosine:
                keep[row] = False
                total[other] += area[row]
                break


@compiled
def boost_or_add(rows, key, weights, normal, order, own_key, own_weights, own_normal, boost, elsewhere):
    """Mark impacts that meet elsewhere than the contacts of the same features, and make these stiffer where not.

    ``order`` sorts the contacts by key.
    """
    for i in range(len(rows)):
        row = rows[i]
        lo, hi = 0, len(order)
        while lo < hi:
            middle = (lo + hi) // 2
            if own_key[order[middle]] < key[row]:
                lo = middle + 1
            else:
                hi = middle
        found = False
        while lo < len(order) and own_key[order[lo]] == key[row]:
            other = order[lo]
            far = 0.0
            for k in range(4):
                far = max(far, abs(weights[row, k] - own_weights[other, k]))
            if far <= SAME_PLACE and dot(point(normal, row), point(own_normal, other)) > SAME_NORMAL:
                if boost[other] < MOST_BOOST:
                    boost[other] *= BOOST
                found = True
            lo += 1
        elsewhere[row] = not found
