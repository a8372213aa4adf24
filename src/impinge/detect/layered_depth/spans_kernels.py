"""Evaluation of layered depth images: spans inside two bodies, and points inside one; ``detector`` has the method.

``layers`` is (pixel_start, depth, face, from_low): fragments sorted by pixel and depth, and the end of the rays at
which the body is outside. Along a ray the *state* is the number of entries minus the number of exits; it begins with 0,
or, if only the far end is outside, with the value that makes it end with 0. Every crossing changes it by one: it is odd
exactly where the number of crossings is. ``window`` is (u, v, axis of depth, lowest u, lowest v, highest u, highest v,
pixels per length along u, along v, resolution).
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled, inlined, kernel, prange

PARITY, WINDING, OVERLAP, INVERTED = 0, 1, 2, 3
"""Rules: which states count as inside."""
NONE = -1
SIDE_A, SIDE_B = 0, 1


@inlined
def is_inside(state, rule):
    """Whether a state counts as inside."""
    if rule == PARITY:
        return state & 1 == 1
    if rule == WINDING:
        return state != 0
    if rule == OVERLAP:
        return state >= 2 or state <= -2
    return state < 0


@inlined
def first_state(first, end, face, from_low):
    """State at the low end of a ray."""
    state = 0
    if not from_low:
        for f in range(first, end):
            state += -1 if face[f] >= 0 else 1
    return state


# Spans ------------------------------------------------------------------------------------------------


@inlined
def emit_spans(p, layers_a, layers_b, rule, first, room, span, span_pixel, span_tri, span_side):
    """Write the spans of ray ``p`` in which both bodies are inside, from row ``first`` on; returns their number.

    Both lists are merged. At the low end one body is outside, at the high end too: every span begins and ends with a
    fragment. A span of length 0 is none: bodies that touch do not overlap.
    """
    start_a, depth_a, face_a, from_low_a = layers_a
    start_b, depth_b, face_b, from_low_b = layers_b
    a, end_a = start_a[p], start_a[p + 1]
    b, end_b = start_b[p], start_b[p + 1]
    if a == end_a or b == end_b:
        return 0
    state_a = first_state(a, end_a, face_a, from_low_a)
    state_b = first_state(b, end_b, face_b, from_low_b)
    both, count = False, 0
    begin, begin_tri, begin_side = 0.0, 0, SIDE_A
    while a < end_a or b < end_b:
        if b == end_b or (a < end_a and depth_a[a] <= depth_b[b]):
            z, code, side = depth_a[a], face_a[a], SIDE_A
            state_a += 1 if code >= 0 else -1
            a += 1
        else:
            z, code, side = depth_b[b], face_b[b], SIDE_B
            state_b += 1 if code >= 0 else -1
            b += 1
        tri = code if code >= 0 else ~code
        now = is_inside(state_a, rule) and is_inside(state_b, rule)
        if now and not both:
            begin, begin_tri, begin_side = z, tri, side
        elif both and not now and z > begin:
            if count < room:
                k = first + count
                span[k, 0], span[k, 1], span_pixel[k] = begin, z, p
                span_tri[k, 0], span_tri[k, 1] = begin_tri, tri
                span_side[k, 0], span_side[k, 1] = begin_side, side
            count += 1
        both = now
    return count


@kernel(parallel_from=1 << 11)
def find_spans(layers_a, layers_b, rule, span, span_pixel, span_tri, span_side, count):
    """Write the spans of all rays with gaps between them, and the number of each ray.

    Every span has two fragments of its own: a ray has room for half as many spans as fragments.
    """
    start_a, start_b = layers_a[0], layers_b[0]
    for p in prange(len(count)):
        first, end = (start_a[p] + start_b[p]) // 2, (start_a[p + 1] + start_b[p + 1]) // 2
        count[p] = emit_spans(p, layers_a, layers_b, rule, first, end - first, span, span_pixel, span_tri, span_side)


@kernel(parallel_from=1 << 12)
def pack_spans(start_a, start_b, start, loose, span, span_pixel, span_tri, span_side):
    """Close the gaps between spans."""
    loose_span, loose_pixel, loose_tri, loose_side = loose
    for p in prange(len(start) - 1):
        k = (start_a[p] + start_b[p]) // 2
        for m in range(start[p], start[p + 1]):
            span_pixel[m] = loose_pixel[k]
            for end in range(2):
                span[m, end] = loose_span[k, end]
                span_tri[m, end], span_side[m, end] = loose_tri[k, end], loose_side[k, end]
            k += 1


@compiled
def squares_of_bends(length, steepest):
    """Sum of the squares of second differences along rows: of each pixel, and of their sums along lines of pixels.

    Lines go any whole number of columns up to ``steepest`` to either side from row to row; each has a sum of its own.
    """
    n, total = len(length), 0.0
    bend = np.zeros(n - 2)
    lines = np.zeros((2 * steepest + 1, n - 2 + steepest * (n - 1)))
    for row in range(n):
        for c in range(n - 2):
            bend[c] = (length[row, c + 2] - length[row, c + 1]) - (length[row, c + 1] - length[row, c])
            total += bend[c] * bend[c]
        for slope in range(-steepest, steepest + 1):
            first = slope * row if slope >= 0 else -slope * (n - 1 - row)
            line = lines[steepest + slope, first : first + n - 2]
            for c in range(n - 2):
                line[c] += bend[c]
    for value in lines.reshape(-1):
        total += value * value
    return total


# Points -----------------------------------------------------------------------------------------------


@inlined
def corrected(z, t, u, v, d, pu, pv, reach, x, faces):
    """The crossing at z moved along the plane of triangle ``t`` to the ray at (pu, pv), but no farther than ``reach``.

    A triangle parallel to the rays has a depth that is infinite (limited) or NaN (not moved).
    """
    i, j, k = faces[t, 0], faces[t, 1], faces[t, 2]
    bu, bv, bd = x[j, u] - x[i, u], x[j, v] - x[i, v], x[j, d] - x[i, d]
    cu, cv, cd = x[k, u] - x[i, u], x[k, v] - x[i, v], x[k, d] - x[i, d]
    normal_u, normal_v, normal_d = bv * cd - bd * cv, bd * cu - bu * cd, bu * cv - bv * cu
    moved = x[i, d] - (normal_u * (pu - x[i, u]) + normal_v * (pv - x[i, v])) / normal_d
    if moved > z + reach:
        return z + reach
    if moved < z - reach:
        return z - reach
    return moved if moved == moved else z  # noqa: PLR0124 - not a number


@inlined
def pixel_at(pu, pv, window):
    """The pixel of a point, NONE beyond the window; points on its upper border belong to the last one."""
    _, _, _, low_u, low_v, high_u, high_v, scale_u, scale_v, n = window
    if not (low_u <= pu <= high_u and low_v <= pv <= high_v):
        return NONE
    column = min(np.int64((pu - low_u) * scale_u), n - 1)
    row = min(np.int64((pv - low_v) * scale_v), n - 1)
    return row * n + column


@inlined
def point_inside(i, points, ids, window, low, high, layers, rule, reach, x, faces):
    """Whether point ``ids[i]`` is inside or on the border: the state just below or just above it counts.

    Only crossings nearer than ``reach`` are moved to the point's own ray: no other one can pass the point.
    """
    u, v, d, _, _, _, _, _, _, _ = window
    pu, pv, pd = points[ids[i], u], points[ids[i], v], points[ids[i], d]
    if not low <= pd <= high:
        return False
    p = pixel_at(pu, pv, window)
    if p == NONE:
        return False
    start, depth, face, from_low = layers
    below, above, total = 0, 0, 0
    for f in range(start[p], start[p + 1]):
        z, code = depth[f], face[f]
        if abs(z - pd) <= reach and reach > 0.0:
            z = corrected(z, code if code >= 0 else ~code, u, v, d, pu, pv, reach, x, faces)
        change = 1 if code >= 0 else -1
        below += change * int(z < pd)
        above += change * int(z <= pd)
        total += change
    if not from_low:
        below, above = below - total, above - total
    return is_inside(below, rule) | is_inside(above, rule)


@kernel(parallel_from=1 << 11)
def mark_points_inside(points, ids, window, low, high, layers, rule, reach, x, faces, inside):
    """Mark which of the points ``ids`` are inside."""
    for i in prange(len(ids)):
        inside[i] = point_inside(i, points, ids, window, low, high, layers, rule, reach, x, faces)


@inlined
def point_near_inside(i, points, ids, window, layers, rule, reach):
    """Whether the state counts anywhere within ``reach`` along the ray: a vertex lies on its own surface."""
    u, v, d, _, _, _, _, _, _, _ = window
    pd = points[ids[i], d]
    p = pixel_at(points[ids[i], u], points[ids[i], v], window)
    if p == NONE:
        return False
    start, depth, face, from_low = layers
    state = first_state(start[p], start[p + 1], face, from_low)
    found = False
    for f in range(start[p], start[p + 1]):
        if depth[f] > pd + reach:
            break
        if depth[f] >= pd - reach:
            found = found or is_inside(state, rule)
        state += 1 if face[f] >= 0 else -1
    return found or is_inside(state, rule)


@kernel(parallel_from=1 << 11)
def mark_points_near_inside(points, ids, window, layers, rule, reach, inside):
    """Mark which of the points ``ids`` are inside or near it."""
    for i in prange(len(ids)):
        inside[i] = point_near_inside(i, points, ids, window, layers, rule, reach)
