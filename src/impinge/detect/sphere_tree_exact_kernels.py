"""The triangles below pairs of leaves that meet, tested in plain doubles with a bound on rounding."""

# mypy: ignore-errors

from impinge.backend.clock import monotonic_ns
from impinge.backend.jit import compiled
from impinge.detect.narrow_phase_kernels import face
from impinge.detect.pair_query_kernels import pair_key
from impinge.exact.kinds import NONE, UNCERTAIN
from impinge.exact.orientation import point
from impinge.exact.triangle_triangle import own_bound, triangle_triangle_filtered

CURSOR, TESTS, FOUND = range(3)
"""Places in ``state``: pairs of leaves done, pairs of triangles so far, and keys written."""
DONE, OUT_OF_TIME, OUT_OF_TESTS, FULL = range(4)
MISSED, HIT, OPEN = range(3)
"""What is known of a pair of leaves: no triangles meet, some do, or the exact test must tell."""
CLOCK_EVERY = 64


@compiled
def box_is_near(p, q, r, sphere, block, lane):
    """Whether the box around a triangle meets a sphere."""
    square = 0.0
    for k in range(3):
        c = sphere[block, k, lane]
        below, above = min(p[k], q[k], r[k]) - c, c - max(p[k], q[k], r[k])
        gap = max(below, above, 0.0)
        square += gap * gap
    return square <= sphere[block, 3, lane] * sphere[block, 3, lane] * (1.0 + 1e-14)


@compiled
def boxes_meet(p, q, r, s, t, u):
    """Whether the boxes around two triangles meet."""
    for k in range(3):
        if min(p[k], q[k], r[k]) > max(s[k], t[k], u[k]) or min(s[k], t[k], u[k]) > max(p[k], q[k], r[k]):
            return False
    return True


@compiled
def examine_leaf_pairs(leaves, side_a, side_b, spheres_b, limits, state, key, row, status):
    """Test triangles below pairs of leaves, in order; keys of those that meet or may, and the pair that each is below.

    A side: positions, faces, triangles by node (starts and ids). ``spheres_b``: spheres of b, slots by node.
    ``limits``: most tests, the time to stop at, and nanoseconds to list each key. ``status`` of a pair that was not
    done stays OPEN. A pair counts as as many tests as it has pairs of triangles.
    """
    most_tests, deadline, key_ns = limits
    x_a, faces_a, start_a, tri_a = side_a
    x_b, faces_b, start_b, tri_b = side_b
    sphere, slot = spheres_b
    looked = 0
    while state[CURSOR] < len(leaves):
        i = state[CURSOR]
        a, b = leaves[i, 0], leaves[i, 1]
        count_b = start_b[b + 1] - start_b[b]
        tests = (start_a[a + 1] - start_a[a]) * count_b
        if state[TESTS] + tests > most_tests:
            return OUT_OF_TESTS
        if state[FOUND] + tests > len(key):
            return FULL
        if monotonic_ns() + key_ns * state[FOUND] >= deadline:
            return OUT_OF_TIME
        found, hit, open_count = state[FOUND], False, 0
        for m in range(start_a[a], start_a[a + 1]):
            f = face(faces_a, tri_a[m])
            p, q, r = point(x_a, f[0]), point(x_a, f[1]), point(x_a, f[2])
            if not box_is_near(p, q, r, sphere, slot[b] >> 3, slot[b] & 7):
                continue
            for n in range(start_b[b], start_b[b + 1]):
                g = face(faces_b, tri_b[n])
                s, t, u = point(x_b, g[0]), point(x_b, g[1]), point(x_b, g[2])
                looked += 1
                if looked % CLOCK_EVERY == 0 and monotonic_ns() + key_ns * found >= deadline:
                    return OUT_OF_TIME
                if not boxes_meet(p, q, r, s, t, u):
                    continue
                kind = triangle_triangle_filtered(p, q, r, s, t, u, own_bound(p, q, r, s, t, u))
                if kind != NONE:
                    is_open = kind == UNCERTAIN
                    key[found] = pair_key(tri_a[m], tri_b[n], 0 if is_open else kind)
                    row[found] = i
                    found += 1
                    hit = hit or not is_open
                    open_count += int(is_open)
        status[i] = HIT if hit else (OPEN if open_count else MISSED)
        state[FOUND] = found
        state[TESTS] += tests
        state[CURSOR] += 1
    return DONE
