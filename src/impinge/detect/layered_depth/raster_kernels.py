"""Fragments of a mesh on a grid of pixels, sorted along the ray of each pixel; ``detector`` has the method.

``snapped[v]``      column and row of vertex v, in units of 2^-bits pixels; pixel i has its centre at (i + 1/2) 2^bits
``height[v]``       its depth, stored beside for locality
``pixel, depth``    of fragments: row · resolution + column, and the depth of the crossing
``face``            triangle of the crossing: its id where the ray enters the body, ~id where it leaves
``first, count``    start of the list of each chunk of triangles, and its number of fragments
``pixel_start[p]``  first fragment of pixel p among the sorted ones

``grid`` is (u, v, lowest u, lowest v, units per length along u, along v), ``raster`` is (bits, resolution, least depth,
largest depth), ``d`` is the axis of depths. ``cuda`` runs the bodies on a grid of CUDA threads.
"""

# mypy: ignore-errors

import math

import numpy as np

from impinge.backend.claim import claim
from impinge.backend.jit import compiled, inlined, kernel, prange
from impinge.backend.simd.boxes import lowest_bit, vertices_box
from impinge.exact.orientation import orient2d

CHUNKS = 32
"""Lists of fragments, one per chunk of triangles."""
BOX_CHUNKS = 16
BLOCK = 64
"""Triangles that are filtered before candidates are drawn: the bits of a mask."""
ONE = np.uint64(1)
WIDE = 8
"""Columns from which the covered part of a row is computed instead of tested pixel by pixel."""
GAPS = (1750, 701, 301, 132, 57, 23, 10, 4, 1)
"""Gaps of the shell sort [Ciura2001]; rays rarely have more than a dozen crossings: an insertion sort then."""


# Vertices ---------------------------------------------------------------------------------------------


@kernel(parallel_from=1 << 14)
def bound_vertices(x, used, box):
    """Lowest and highest corner of each chunk of the vertices ``used``."""
    for c in prange(BOX_CHUNKS):
        box[c] = vertices_box(x, used, c * len(used) // BOX_CHUNKS, (c + 1) * len(used) // BOX_CHUNKS)


@inlined
def snap_vertex(i, x, used, grid, d, snapped, height):
    """Snap vertex ``used[i]`` to the grid, once for all of its triangles; copy its depth."""
    u, v, low_u, low_v, scale_u, scale_v = grid
    vertex = used[i]
    snapped[vertex, 0] = np.int32(math.floor((x[vertex, u] - low_u) * scale_u + 0.5))
    snapped[vertex, 1] = np.int32(math.floor((x[vertex, v] - low_v) * scale_v + 0.5))
    height[vertex] = x[vertex, d]


@kernel(parallel_from=1 << 13)
def snap_vertices(x, used, grid, d, snapped, height):
    """Snap all used vertices."""
    for i in prange(len(used)):
        snap_vertex(i, x, used, grid, d, snapped, height)


# Triangles --------------------------------------------------------------------------------------------


@inlined
def _corners(t, faces):
    """The corners of a triangle; unsigned, which saves the check for negative indices."""
    return np.uint32(faces[t, 0]), np.uint32(faces[t, 1]), np.uint32(faces[t, 2])


@inlined
def _centres(a, b, c, bits, n):
    """First and last pixel whose centre is between the least and the largest of three coordinates."""
    half = np.int64(1) << (bits - 1)
    return max((min(a, b, c) + half - 1) >> bits, 0), min((max(a, b, c) - half) >> bits, n - 1)


@inlined
def _candidates(first, end, ids, faces, snapped, bits, n):
    """Bit k is set if triangle ``ids[first + k]`` may cover the centre of a pixel; up to 64 of them.

    This rejects nearly all small triangles that cover none. All in doubles and without a branch: it becomes vector
    instructions. A triangle whose box has more than one centre is a candidate. If its box has one, the edge functions
    there must not have opposite signs: both products of each are rounded, and rounding keeps their order, hence a sign
    may come out as zero, but never as the opposite.
    """
    half, last = np.float64(np.int64(1) << (bits - 1)), np.float64(n - 1)
    per_unit = 0.5 / half
    mask = np.uint64(0)
    for k in range(first, end):
        a, b, c = _corners(ids[k], faces)
        ax, bx, cx = np.float64(snapped[a, 0]), np.float64(snapped[b, 0]), np.float64(snapped[c, 0])
        ay, by, cy = np.float64(snapped[a, 1]), np.float64(snapped[b, 1]), np.float64(snapped[c, 1])
        i_lo = max(np.floor((min(ax, bx, cx) + (half - 1.0)) * per_unit), 0.0)
        i_hi = min(np.floor((max(ax, bx, cx) - half) * per_unit), last)
        j_lo = max(np.floor((min(ay, by, cy) + (half - 1.0)) * per_unit), 0.0)
        j_hi = min(np.floor((max(ay, by, cy) - half) * per_unit), last)
        px, py = (i_lo + i_lo + 1.0) * half, (j_lo + j_lo + 1.0) * half
        ax, bx, cx, ay, by, cy = ax - px, bx - px, cx - px, ay - py, by - py, cy - py
        w_a, w_b, w_c = bx * cy - by * cx, cx * ay - cy * ax, ax * by - ay * bx
        on_one_side = ((w_a >= 0.0) & (w_b >= 0.0) & (w_c >= 0.0)) | ((w_a <= 0.0) & (w_b <= 0.0) & (w_c <= 0.0))
        may_cover = (i_lo <= i_hi) & (j_lo <= j_hi) & (on_one_side | (i_lo < i_hi) | (j_lo < j_hi))
        mask |= np.uint64(may_cover) << np.uint64(k - first)
    return mask


@inlined
def _owns(dx, dy):
    """Whether points on an edge, inside to its left, belong to the triangle: one of the two directions of an edge."""
    return (dy > 0) | ((dy == 0) & (dx < 0))


@inlined
def _narrow(w, step, lo, hi):
    """The columns of ``lo`` .. ``hi`` on which w, counted from ``lo`` on in equal steps, is not negative."""
    if step > 0:
        if w < 0:
            lo += (-w + step - 1) // step
    elif w < 0:
        hi = lo - 1
    elif step < 0:
        hi = min(hi, lo + w // -step)
    return lo, hi


@inlined
def emit_triangle(t, faces, snapped, height, raster, first, room, pixel, depth, face):
    """Write the fragments of triangle ``t`` from ``first`` on, as many as there is room for; returns their number.

    With the edge functions w of the three sides, all integers, the centre of a pixel is covered if every w is positive,
    or zero on a side that owns its points; 1 is subtracted on the other sides, hence w >= 0 decides.
    """
    bits, n, least, largest = raster
    a, b, c = _corners(t, faces)
    ax, bx, cx = np.int64(snapped[a, 0]), np.int64(snapped[b, 0]), np.int64(snapped[c, 0])
    ay, by, cy = np.int64(snapped[a, 1]), np.int64(snapped[b, 1]), np.int64(snapped[c, 1])
    i_lo, i_hi = _centres(ax, bx, cx, bits, n)
    j_lo, j_hi = _centres(ay, by, cy, bits, n)
    if (i_lo > i_hi) | (j_lo > j_hi):
        return 0
    half = np.int64(1) << (bits - 1)
    px, py = (i_lo << bits) + half, (j_lo << bits) + half
    ax, bx, cx, ay, by, cy = ax - px, bx - px, cx - px, ay - py, by - py, cy - py
    row_a, row_b, row_c = bx * cy - by * cx, cx * ay - cy * ax, ax * by - ay * bx
    area = row_a + row_b + row_c
    turn = np.int64(1) if area > 0 else np.int64(-1)  # -1: clockwise
    off_a = np.int64(not _owns(turn * (cx - bx), turn * (cy - by)))
    off_b = np.int64(not _owns(turn * (ax - cx), turn * (ay - cy)))
    off_c = np.int64(not _owns(turn * (bx - ax), turn * (by - ay)))
    row_a, row_b, row_c = turn * row_a - off_a, turn * row_b - off_b, turn * row_c - off_c
    is_single = (i_lo == i_hi) & (j_lo == j_hi)
    if (area == 0) | (is_single & ((row_a | row_b | row_c) < 0)):
        return 0
    # A ray leaves through a triangle whose normal points up, along the ray.
    code = np.int32(~np.int64(t)) if area > 0 else np.int32(t)
    za, per_area = height[a], 1.0 / np.float64(turn * area)
    zb, zc = (height[b] - za) * per_area, (height[c] - za) * per_area
    if is_single:
        z = za + (np.float64(row_b + off_b) * zb + np.float64(row_c + off_c) * zc)
        if room > 0:
            pixel[first], depth[first], face[first] = np.int32(j_lo * n + i_lo), z, code
        return np.int64((least <= z) & (z <= largest))
    if min(za, height[b], height[c]) > largest or max(za, height[b], height[c]) < least:
        return 0
    step_a, step_b, step_c = turn * (by - cy) << bits, turn * (cy - ay) << bits, turn * (ay - by) << bits
    count = 0
    for j in range(j_lo, j_hi + 1):
        lo, hi = i_lo, i_hi
        w_a, w_b, w_c = row_a, row_b, row_c
        if i_hi - i_lo >= WIDE:
            lo_a, hi_a = _narrow(row_a, step_a, i_lo, i_hi)
            lo_b, hi_b = _narrow(row_b, step_b, i_lo, i_hi)
            lo_c, hi_c = _narrow(row_c, step_c, i_lo, i_hi)
            lo, hi = max(lo_a, lo_b, lo_c), min(hi_a, hi_b, hi_c)
            w_a, w_b, w_c = w_a + (lo - i_lo) * step_a, w_b + (lo - i_lo) * step_b, w_c + (lo - i_lo) * step_c
        for i in range(lo, hi + 1):
            if (w_a | w_b | w_c) >= 0:
                z = za + (np.float64(w_b + off_b) * zb + np.float64(w_c + off_c) * zc)
                if least <= z <= largest:
                    if count < room:
                        k = first + count
                        pixel[k], depth[k], face[k] = np.int32(j * n + i), z, code
                    count += 1
            w_a, w_b, w_c = w_a + step_a, w_b + step_b, w_c + step_c
        row_a += turn * (cx - bx) << bits
        row_b += turn * (ax - cx) << bits
        row_c += turn * (bx - ax) << bits
    return count


@compiled
def _emit_chunk(c, ids, faces, snapped, height, raster, first, pixel, depth, face):
    """Write the fragments of chunk ``c`` of the triangles; returns their number, which may exceed the room."""
    bits, n, _, _ = raster
    count, end_id = np.int64(0), (c + 1) * len(ids) // CHUNKS
    for block in range(c * len(ids) // CHUNKS, end_id, BLOCK):
        mask = _candidates(block, min(block + BLOCK, end_id), ids, faces, snapped, bits, n)
        while mask != 0:
            t = ids[block + lowest_bit(mask)]
            mask &= mask - ONE
            start = first[c] + count
            count += emit_triangle(t, faces, snapped, height, raster, start, first[c + 1] - start, pixel, depth, face)
    return count


@kernel(parallel_from=512)
def rasterise(faces, ids, snapped, height, raster, threads, counter, first, pixel, depth, face, count):
    """Write the fragments of all triangles ``ids`` to lists per chunk; ``count`` is right even without room."""
    for _ in prange(threads):
        c = claim(counter)
        while c < CHUNKS:
            count[c] = _emit_chunk(c, ids, faces, snapped, height, raster, first, pixel, depth, face)
            c = claim(counter)


# Triangles too far from the window to be snapped: exact signs of doubles ------------------------------


@compiled
def _covers(p, q, r):
    """Whether r is left of the edge from p to q, or on it and the edge owns its points."""
    side = orient2d(p, q, r)
    return side > 0 or (side == 0 and _owns(q[0] - p[0], q[1] - p[1]))


@compiled
def _depth_at(p, a, b, c, za, zb, zc):
    """Depth of a triangle at a point inside its projection, in doubles, and never beyond its corners."""
    ax, bx, cx, ay, by, cy = a[0] - p[0], b[0] - p[0], c[0] - p[0], a[1] - p[1], b[1] - p[1], c[1] - p[1]
    size = max(abs(ax), abs(bx), abs(cx), abs(ay), abs(by), abs(cy))
    if not 1e-100 < size < 1e100:  # products would overflow or vanish
        ax, bx, cx, ay, by, cy = ax / size, bx / size, cx / size, ay / size, by / size, cy / size
    wa, wb, wc = bx * cy - by * cx, cx * ay - cy * ax, ax * by - ay * bx
    area = wa + wb + wc
    z = za + ((wb / area) * (zb - za) + (wc / area) * (zc - za)) if area > 0.0 else za
    return min(max(z, min(za, zb, zc)), max(za, zb, zc))


@compiled
def _pixel_range(low, high, origin, scale, n):
    """First and last pixel whose centre may lie between ``low`` and ``high``; one more on either side for rounding."""
    last = float(n - 1)
    lo = min(max(math.floor((low - origin) * scale - 0.5) - 1.0, 0.0), last + 1.0)
    hi = min(max(math.ceil((high - origin) * scale - 0.5) + 1.0, -1.0), last)
    return np.int64(lo), np.int64(hi)


@compiled
def _emit_triangle_exactly(t, x, faces, centre, grid, d, raster, first, room, pixel, depth, face):
    """As ``emit_triangle``, with exact signs of doubles at the pixel centres ``centre[0]`` along u, ``centre[1]``."""
    u, v, low_u, low_v, scale_u, scale_v = grid
    _, n, least, largest = raster
    i, j, k = faces[t, 0], faces[t, 1], faces[t, 2]
    a, b, c = (x[i, u], x[i, v]), (x[j, u], x[j, v]), (x[k, u], x[k, v])
    za, zb, zc = x[i, d], x[j, d], x[k, d]
    if min(za, zb, zc) > largest or max(za, zb, zc) < least:
        return 0
    i_lo, i_hi = _pixel_range(min(a[0], b[0], c[0]), max(a[0], b[0], c[0]), low_u, scale_u, n)
    j_lo, j_hi = _pixel_range(min(a[1], b[1], c[1]), max(a[1], b[1], c[1]), low_v, scale_v, n)
    turn = orient2d(a, b, c) if i_lo <= i_hi and j_lo <= j_hi else 0
    if turn == 0:
        return 0
    code = np.int32(~t if turn > 0 else t)
    if turn < 0:
        b, zb, c, zc = c, zc, b, zb
    count = 0
    for row in range(j_lo, j_hi + 1):
        for column in range(i_lo, i_hi + 1):
            p = (centre[0, column], centre[1, row])
            if _covers(a, b, p) and _covers(b, c, p) and _covers(c, a, p):
                z = _depth_at(p, a, b, c, za, zb, zc)
                if least <= z <= largest:
                    if count < room:
                        m = first + count
                        pixel[m], depth[m], face[m] = np.int32(row * n + column), z, code
                    count += 1
    return count


@kernel(parallel_from=64)
def rasterise_exactly(x, faces, ids, centre, grid, d, raster, first, pixel, depth, face, count):
    """As ``rasterise``, with exact signs of doubles."""
    for c in prange(CHUNKS):
        total = np.int64(0)
        for k in range(c * len(ids) // CHUNKS, (c + 1) * len(ids) // CHUNKS):
            start = first[c] + total
            total += _emit_triangle_exactly(
                ids[k], x, faces, centre, grid, d, raster, start, first[c + 1] - start, pixel, depth, face
            )
        count[c] = total


# Sorting ----------------------------------------------------------------------------------------------


@kernel(parallel_from=1 << 12)
def count_pixels(bands, first, count, pixel, pixel_count):
    """Fragments of each pixel; every thread reads all lists and counts for its own band of pixels."""
    n = len(pixel_count)
    for k in prange(bands):
        low, high = k * n // bands, (k + 1) * n // bands
        for p in range(low, high):
            pixel_count[p] = 0
        for c in range(len(count)):
            for f in range(first[c], first[c] + count[c]):
                p = pixel[f]
                if low <= p < high:
                    pixel_count[p] += 1


@inlined
def sort_pixel(p, pixel_start, depth, face):
    """Sort the fragments of pixel ``p`` by (depth, triangle); a triangle has at most one per pixel."""
    first, end = pixel_start[p], pixel_start[p + 1]
    if end - first < 2:
        return
    for gap in GAPS:
        if gap >= end - first:
            continue
        for k in range(first + gap, end):
            z, code = depth[k], face[k]
            t = code if code >= 0 else ~code
            m = k - gap
            while m >= first:
                other = face[m] if face[m] >= 0 else ~face[m]
                if depth[m] < z or (depth[m] == z and other < t):
                    break
                depth[m + gap], face[m + gap] = depth[m], face[m]
                m -= gap
            depth[m + gap], face[m + gap] = z, code


@kernel(parallel_from=1 << 12)
def place_fragments(bands, first, count, pixel, depth, face, pixel_start, pixel_count, sorted_depth, sorted_face):
    """Move fragments to their pixels and sort each pixel; the counts of pixels are used up."""
    n = len(pixel_count)
    for band in prange(bands):
        low, high = band * n // bands, (band + 1) * n // bands
        for c in range(len(count)):
            for f in range(first[c], first[c] + count[c]):
                p = pixel[f]
                if low <= p < high:
                    pixel_count[p] -= 1
                    k = pixel_start[p] + pixel_count[p]
                    sorted_depth[k], sorted_face[k] = depth[f], face[f]
        for p in range(low, high):
            sort_pixel(p, pixel_start, sorted_depth, sorted_face)
