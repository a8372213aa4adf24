"""Best-first search of two trees for the nearest pair of triangles; see ``distance``."""

# mypy: ignore-errors

import numpy as np

from impinge.backend.claim import claim
from impinge.backend.jit import compiled, inlined, kernel, prange
from impinge.backend.simd.boxes import WIDTH
from impinge.backend.simd.nearest import nearest_boxes
from impinge.detect.boxes.whole_tree_kernels import LARGEST_KEY, LEAST_PAD, key_within, node_at
from impinge.detect.common.narrow_phase_kernels import face
from impinge.detect.common.pair_query_kernels import KIND_BITS, pair_key
from impinge.detect.proximity.features_kernels import closest_on_segments, closest_on_triangle, mixed
from impinge.exact.orientation import point
from impinge.exact.triangle_triangle import cross, dot, minus

STEP = WIDTH * WIDTH
"""Pairs of children of two nodes."""
FARTHEST_ID = np.int64(2**31)
FLAT_PAD = 2.0**-45
"""Bound on the rounding of a distance along a direction, relative to the largest coordinates."""

NEXT = (1, 2, 0)


# Two triangles ----------------------------------------------------------------------------------------


@inlined
def _corners(x, face):
    return point(x, face[0]), point(x, face[1]), point(x, face[2])


@inlined
def _edge(triangle, face, i):
    """The ends of edge i, the lower vertex id first, as in ``proximity``."""
    j = NEXT[i]
    return (triangle[i], triangle[j]) if face[i] < face[j] else (triangle[j], triangle[i])


@compiled
def closest_on_triangles(s, face_s, t, face_t):
    """Squared distance of two triangles that do not meet, and the nearest point of each.

    Either a corner of one is nearest to the other, or an edge of one to an edge of the other.
    """
    best, on_s, on_t = np.inf, s[0], t[0]
    for i in range(3):
        u, v, w, square = closest_on_triangle(s[i], t[0], t[1], t[2])
        if square < best:
            best, on_s, on_t = square, s[i], mixed(u, t[0], v, t[1], w, t[2])
        u, v, w, square = closest_on_triangle(t[i], s[0], s[1], s[2])
        if square < best:
            best, on_s, on_t = square, mixed(u, s[0], v, s[1], w, s[2]), t[i]
    for i in range(3):
        a, b = _edge(s, face_s, i)
        for j in range(3):
            c, d = _edge(t, face_t, j)
            share_s, share_t, square = closest_on_segments(a, b, c, d)
            if square < best:
                best = square
                on_s, on_t = mixed(1.0 - share_s, a, share_s, b, 0.0, b), mixed(1.0 - share_t, c, share_t, d, 0.0, d)
    return best, on_s, on_t


@compiled
def _through(s, t):
    """The point of an edge of s on the plane of t that is nearest to t: squared distance, point of s, point of t."""
    best, on_s, on_t = np.inf, s[0], t[0]
    normal = cross(minus(t[1], t[0]), minus(t[2], t[0]))
    for i in range(3):
        a, b = s[i], s[NEXT[i]]
        above_a, above_b = dot(normal, minus(a, t[0])), dot(normal, minus(b, t[0]))
        if above_a * above_b < 0.0:
            share = above_a / (above_a - above_b)
            p = mixed(1.0 - share, a, share, b, 0.0, b)
            u, v, w, square = closest_on_triangle(p, t[0], t[1], t[2])
            if square < best:
                best, on_s, on_t = square, p, mixed(u, t[0], v, t[1], w, t[2])
    return best, on_s, on_t


@compiled
def common_points(s, t):
    """A point of each of two triangles that meet, equal up to rounding."""
    best, on_s, on_t = closest_on_triangles(s, (0, 1, 2), t, (0, 1, 2))
    square, p, q = _through(s, t)
    if square < best:
        best, on_s, on_t = square, p, q
    square, q, p = _through(t, s)
    if square < best:
        on_s, on_t = p, q
    return on_s, on_t


# The search -------------------------------------------------------------------------------------------


@compiled
def _are_farther(s, t, limit):
    """Whether the gap of two triangles along either normal exceeds the root of ``limit``; prunes parallel surfaces."""
    for g in (cross(minus(s[1], s[0]), minus(s[2], s[0])), cross(minus(t[1], t[0]), minus(t[2], t[0]))):
        a0, a1, a2 = 0.0, dot(g, minus(s[1], s[0])), dot(g, minus(s[2], s[0]))
        b0, b1, b2 = dot(g, minus(t[0], s[0])), dot(g, minus(t[1], s[0])), dot(g, minus(t[2], s[0]))
        gap = max(min(b0, b1, b2) - max(a0, a1, a2), min(a0, a1, a2) - max(b0, b1, b2))
        if gap > 0.0 and gap * gap > limit * dot(g, g):
            return True
    return False


@inlined
def _open_pair(box_a, node_a, box_b, node_b, shift, farthest, keys, stack_key, stack_pair, top, level, a, b):
    """Push the pairs of children that are near enough, the nearest on top; returns the number of entries."""
    base = top
    sx, sy, sz = shift
    for i in range(WIDTH):
        lo_x, hi_x = box_a[node_a, 0, i] + sx, box_a[node_a, 3, i] + sx
        lo_y, hi_y = box_a[node_a, 1, i] + sy, box_a[node_a, 4, i] + sy
        lo_z, hi_z = box_a[node_a, 2, i] + sz, box_a[node_a, 5, i] + sz
        if not lo_x <= hi_x:
            continue
        nearest_boxes(box_b, node_b, lo_x, lo_y, lo_z, hi_x, hi_y, hi_z, keys, 0)
        for k in range(WIDTH):
            key = keys[k]
            if key > farthest:
                break
            at = top
            while at > base and stack_key[at - 1] < key:
                stack_key[at] = stack_key[at - 1]
                for column in range(3):
                    stack_pair[at, column] = stack_pair[at - 1, column]
                at -= 1
            stack_key[at] = key
            stack_pair[at, 0] = level - 1
            stack_pair[at, 1], stack_pair[at, 2] = WIDTH * a + i, WIDTH * b + (key & (WIDTH - 1))
            top += 1
    return top


@compiled
def _search(tree_a, tree_b, ignored, bound, best, stack_key, stack_pair, top, most):
    """Process at most ``most`` entries of a stack of ``top``; returns the remaining entries, and those of ``most``.

    An entry is a level and a node of each tree on it; level -1 means two triangles, by their positions in tree order.
    ``best`` holds the least squared distance so far, its triangles and their positions, and is updated; ``bound`` is
    the least of all threads and may lag. ``ignored`` holds sorted keys without a kind.
    """
    box_a, _, start_a, _, origin_a, reach_a, x_a, order_face_a, order_tri_a = tree_a
    box_b, _, start_b, _, origin_b, reach_b, x_b, order_face_b, order_tri_b = tree_b
    dx, dy, dz = origin_a[0] - origin_b[0], origin_a[1] - origin_b[1], origin_a[2] - origin_b[2]
    shift = np.float32(dx), np.float32(dy), np.float32(dz)
    size = reach_a + reach_b + max(abs(dx), abs(dy), abs(dz))
    keys = np.empty(WIDTH, np.int32)
    square, tri_a, tri_b, at_a, at_b = best[0], np.int64(best[1]), np.int64(best[2]), np.int64(-1), np.int64(-1)
    known = limit = np.inf
    farthest = LARGEST_KEY
    while top > 0 and most > 0:
        if min(square, bound[0]) < known:
            known = bound[0] = min(square, bound[0])
            farthest = key_within(known, LEAST_PAD * size)
            limit = (np.sqrt(known) + FLAT_PAD * size) ** 2
        top -= 1
        most -= 1
        if stack_key[top] > farthest:
            continue
        level, a, b = stack_pair[top, 0], stack_pair[top, 1], stack_pair[top, 2]
        if level >= 0:
            node_a, node_b = node_at(level, a, start_a), node_at(level, b, start_b)
            top = _open_pair(
                box_a, node_a, box_b, node_b, shift, farthest, keys, stack_key, stack_pair, top, level, a, b
            )
            continue
        face_s, face_t = face(order_face_a, a), face(order_face_b, b)
        s, t = _corners(x_a, face_s), _corners(x_b, face_t)
        if _are_farther(s, t, limit):
            continue
        found = closest_on_triangles(s, face_s, t, face_t)[0]
        i, j = np.int64(order_tri_a[a]), np.int64(order_tri_b[b])
        if found < square or (found == square and (i < tri_a or (i == tri_a and j < tri_b))):
            if len(ignored) > 0:
                key = pair_key(i, j, 0) >> np.uint64(KIND_BITS)
                place = np.searchsorted(ignored, key)
                if place < len(ignored) and ignored[place] == key:
                    continue
            square, tri_a, tri_b, at_a, at_b = found, i, j, a, b
    if at_a >= 0:
        best[0], best[1], best[2], best[3], best[4] = square, tri_a, tri_b, at_a, at_b
    return top, most


@kernel(parallel_from=2)
def search_parts(tree_a, tree_b, ignored, bound, best, entry_key, entry_pair, most, stack_key, stack_pair, counter):
    """Process entries, the last one first; each thread processes at most ``most`` pairs.

    A thread owns a row of ``best`` and a stack. Returns the number of pairs left on each stack; ``counter`` counts
    claimed entries.
    """
    left = np.zeros(len(stack_key), np.int64)
    for thread in prange(len(stack_key)):
        more = np.int64(most)
        while more > 0:
            t = claim(counter)
            if t >= len(entry_key):
                break
            e = len(entry_key) - 1 - t
            stack_key[thread, 0] = entry_key[e]
            for column in range(3):
                stack_pair[thread, 0, column] = entry_pair[e, column]
            left[thread], more = _search(
                tree_a, tree_b, ignored, bound, best[thread], stack_key[thread], stack_pair[thread], 1, more
            )
    return left
