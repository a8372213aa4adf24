"""Vertex fans: list them, mask pairs within them, prove that they do not fold; see ``vertex_fans`` for the method.

Fans are (start, at, closed, block_start, other, mask, begin): positions in tree order of the triangles around each
vertex, a CSR list, and whether they are closed; the masks of neighbouring blocks; the vertex where each listed triangle
begins.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.claim import claim
from impinge.backend.jit import compiled, inlined, kernel, prange
from impinge.backend.simd.boxes import WIDTH
from impinge.detect.boxes.tree_kernels import BLOCK
from impinge.detect.common.narrow_phase_kernels import face
from impinge.detect.common.pair_query_kernels import pair_key
from impinge.exact.kinds import NONE
from impinge.exact.neighbours import neighbours_filtered
from impinge.exact.triangle_triangle import cross, dot, error_bound

LARGEST_FAN = 32
"""Vertices with more triangles are left out: the pairs of a fan grow with the square of its size."""
ROUNDING = 2.0**-46
"""Generous for the roundings of a triple product, 2^-53 each."""
LEAST_BOUND = 1e-290
"""Far above the error of a product by underflow."""
SMALLEST, LARGEST = 1e-60, 1e60
"""Sizes of fans for which no product of four lengths leaves the range of doubles."""


# Lists ------------------------------------------------------------------------------------------------


@compiled
def list_fans(order_face, order_tri, vertex_count):
    """Triangles around each vertex, each once: start, and positions in tree order."""
    start = np.zeros(vertex_count + 1, np.int64)
    at, end = np.zeros(0, np.int32), start
    for fill in (False, True):
        for s in range(len(order_tri)):
            for k in range(3 if order_tri[s] >= 0 else 0):
                v = order_face[s, k]
                if k > 0 and (v == order_face[s, 0] or (k == 2 and v == order_face[s, 1])):
                    continue  # a face that repeats a vertex
                if fill:
                    at[end[v]] = s
                    end[v] += 1
                else:
                    start[v + 1] += 1
        if not fill:
            start = np.cumsum(start)
            at, end = np.zeros(start[vertex_count], np.int32), start[:-1].copy()
    return start, at


@inlined
def _link(order_face, s, v):
    """The other two corners of a triangle around ``v``, in its orientation."""
    p, q, r = order_face[s, 0], order_face[s, 1], order_face[s, 2]
    if p == v:
        return q, r
    return (r, p) if q == v else (p, q)


@compiled
def order_fans(start, at, order_face):
    """Order the triangles of each fan: each begins at the vertex where the previous one ends.

    Returns the vertex where each begins, and which fans are closed: the order visits all triangles in one revolution.
    """
    begin = np.zeros(len(at), np.int32)
    closed = np.zeros(len(start) - 1, np.bool_)
    for v in range(len(closed)):
        first, end = start[v], start[v + 1]
        if 2 < end - first <= LARGEST_FAN:
            closed[v] = _order(v, first, end, at, order_face, begin)
    return begin, closed


@compiled
def _order(v, first, end, at, order_face, begin):
    """Order one fan; returns whether it is closed."""
    begin[first], goal = _link(order_face, at[first], v)
    for i in range(first + 1, end):
        found = -1
        for j in range(i, end):
            a, _ = _link(order_face, at[j], v)
            if a == goal:
                if found >= 0:
                    return False  # two begin here
                found = j
        if found < 0:
            return False
        at[i], at[found] = at[found], at[i]
        begin[i], goal = _link(order_face, at[i], v)
        for j in range(first, i):
            if begin[j] == begin[i]:
                return False  # a shorter cycle
    return goal == begin[first] and v not in begin[first:end]


@compiled
def mask_neighbours(start, at, order_face, order_tri, block_start, other, mask):
    """Write pairs of blocks with common vertices and masks of their triangle pairs with one; returns their number.

    With an empty ``mask`` they are only counted. Block a has the pairs from ``block_start[a]`` on; the other block is
    never the lower one. ``mask[p, 8 i + j]`` has bit 8 k + m for triangle k of group i of a and triangle m of group j.
    """
    block_count = len(order_tri) // BLOCK
    where = np.full(block_count, -1, np.int64)
    count = np.int64(0)
    for a in range(block_count):
        block_start[a] = count
        for s in range(a * BLOCK, (a + 1) * BLOCK):
            for corner in range(3 if order_tri[s] >= 0 else 0):
                v = order_face[s, corner]
                if start[v + 1] - start[v] > LARGEST_FAN:
                    continue
                for i in range(start[v], start[v + 1]):
                    t = at[i]
                    if t <= s:
                        continue
                    b = t // BLOCK
                    if where[b] < block_start[a]:
                        where[b] = count
                        if len(mask):
                            other[count] = b
                        count += 1
                    if len(mask):
                        groups = (s % BLOCK) // WIDTH * WIDTH + (t % BLOCK) // WIDTH
                        mask[where[b], groups] |= np.uint64(1) << np.uint64(s % WIDTH * WIDTH + t % WIDTH)
    block_start[block_count] = count
    return count


@inlined
def masks_of(block_a, block_b, fans):
    """Row of the masks of two blocks, -1 if they have no vertex in common."""
    block_start, other = fans[3], fans[4]
    if block_a + 1 < len(block_start):
        for p in range(block_start[block_a], block_start[block_a + 1]):
            if other[p] == block_b:
                return p
    return -1


# Proof ------------------------------------------------------------------------------------------------


@inlined
def _spoke(x, v, w):
    """Vector from the centre of a fan to a corner."""
    return x[w, 0] - x[v, 0], x[w, 1] - x[v, 1], x[w, 2] - x[v, 2]


@inlined
def lies_flat(v, x, start, begin):
    """Whether the triangles of the closed fan of ``v`` project without overlap along a direction n, proven in doubles.

    a, b   spokes of a triangle: from v to its other two corners      n      sum of all a × b
    n·(a × b) > 0 for all triangles: each projects to a sector of less than half a turn, counter-clockwise. The sectors
    make a whole number of revolutions; one, if a ray d is passed once: a·(d × n) >= 0 > b·(d × n).
    """
    first, end = start[v], start[v + 1]
    size = nx = ny = nz = 0.0
    a = last = _spoke(x, v, begin[end - 1])
    for i in range(first, end):
        b = _spoke(x, v, begin[i])
        size = max(size, abs(b[0]), abs(b[1]), abs(b[2]))
        turn = cross(a, b)
        nx, ny, nz = nx + turn[0], ny + turn[1], nz + turn[2]
        a = b
    if not SMALLEST < size < LARGEST:
        return False
    n = nx, ny, nz
    bound = ROUNDING * size * size * (abs(nx) + abs(ny) + abs(nz))
    if not bound > LEAST_BOUND:
        return False
    b = _spoke(x, v, begin[first])
    m = cross((0.7 * last[0] + 0.3 * b[0], 0.7 * last[1] + 0.3 * b[1], 0.7 * last[2] + 0.3 * b[2]), n)
    a = last
    before = dot(a, m)
    if abs(before) <= bound:
        return False
    times = 0
    for i in range(first, end):
        b = _spoke(x, v, begin[i])
        after = dot(b, m)
        if not (dot(n, cross(a, b)) > bound and abs(after) > bound):
            return False
        times += before > 0.0 and after < 0.0
        a, before = b, after
    return times == 1


# Pairs within fans that are not proven ----------------------------------------------------------------


@compiled
def _test_fan(v, order, fans, keys, count):
    """Append the keys of pairs around ``v``, whose fan has no proof, that may meet beyond what they share.

    A pair with another common vertex is tested there if that is the lower one, and not at all if its fan is proven.
    Returns the new count, and the number of tests.
    """
    x, order_face, order_tri = order
    start, at, closed, begin = fans[0], fans[1], fans[2], fans[6]
    tests = 0
    if start[v + 1] - start[v] > LARGEST_FAN:
        return count, tests
    for i in range(start[v], start[v + 1]):
        for j in range(i + 1, start[v + 1]):
            s, t = face(order_face, at[i]), face(order_face, at[j])
            tri_s, tri_t = order_tri[at[i]], order_tri[at[j]]
            is_open = tri_s >= 0 and tri_t >= 0
            for w in s:
                if is_open and w != v and w in t and start[w + 1] - start[w] <= LARGEST_FAN:
                    is_open = w > v and not (closed[w] and lies_flat(w, x, start, begin))
            if not is_open:
                continue
            tests += 1
            lo_x = lo_y = lo_z = np.inf
            hi_x = hi_y = hi_z = -np.inf
            for w in s + t:
                lo_x, hi_x = min(lo_x, x[w, 0]), max(hi_x, x[w, 0])
                lo_y, hi_y = min(lo_y, x[w, 1]), max(hi_y, x[w, 1])
                lo_z, hi_z = min(lo_z, x[w, 2]), max(hi_z, x[w, 2])
            if neighbours_filtered(x, s, t, error_bound(hi_x - lo_x, hi_y - lo_y, hi_z - lo_z)) != NONE:
                if count < len(keys):
                    keys[count] = pair_key(min(tri_s, tri_t), max(tri_s, tri_t), 0)
                count += 1
    return count, tests


@compiled
def _test_range(first, end, order, fans, keys):
    """Write the keys of the pairs around vertices ``first`` to ``end``; returns their number and that of tests."""
    count = tests = np.int64(0)
    start, closed, begin = fans[0], fans[2], fans[6]
    for v in range(first, end):
        if not (closed[v] and lies_flat(v, order[0], start, begin)):
            count, more = _test_fan(v, order, fans, keys, count)
            tests += more
    return count, tests


@kernel(parallel_from=256)
def test_fans(order, fans, threads, counter, keys, counts):
    """Test the pairs around all vertices; task t is a range of them and owns row t of ``keys`` and ``counts``."""
    tasks, vertex_count = len(keys), len(fans[2])
    for _ in prange(threads):
        t = claim(counter)
        while t < tasks:
            first, end = t * vertex_count // tasks, (t + 1) * vertex_count // tasks
            counts[t, 0], counts[t, 1] = _test_range(first, end, order, fans, keys[t])
            t = claim(counter)
