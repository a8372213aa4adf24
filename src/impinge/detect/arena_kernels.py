"""Boxes, candidates and insides of many bodies in one call; see ``arena``, ``arena_pairs`` and ``arena_inside``."""

# mypy: ignore-errors

import numpy as np

from impinge.backend.claim import claim
from impinge.backend.jit import compiled, kernel, prange
from impinge.exact.orientation import point
from impinge.exact.point_surface import ON_SURFACE, ray_meets_triangle

CHUNK = 32
"""Triangles that follow one another and have a box together: mostly they are near each other."""
RUN = 16
"""Pairs of bodies that one task looks at."""


# Boxes --------------------------------------------------------------------------------------------------


@compiled
def _fit_body(b, x, used_start, used, low, high):
    for axis in range(3):
        lowest, highest = np.inf, -np.inf
        for k in range(used_start[b], used_start[b + 1]):
            value = x[used[k], axis]
            lowest, highest = min(lowest, value), max(highest, value)
        low[b, axis], high[b, axis] = lowest, highest


@compiled
def _fit_faces(first, end, x, faces, face_box):
    for t in range(first, end):
        i, j, k = faces[t, 0], faces[t, 1], faces[t, 2]
        for axis in range(3):
            a, b, c = x[i, axis], x[j, axis], x[k, axis]
            face_box[t, axis], face_box[t, axis + 3] = min(a, b, c), max(a, b, c)


@compiled
def _fit_chunks(first, end, face_box, chunk, chunk_box):
    for begin in range(first, end, CHUNK):
        for k in range(3):
            lowest, highest = np.inf, -np.inf
            for t in range(begin, min(begin + CHUNK, end)):
                lowest, highest = min(lowest, face_box[t, k]), max(highest, face_box[t, k + 3])
            chunk_box[chunk, k], chunk_box[chunk, k + 3] = lowest, highest
        chunk += 1


@kernel(parallel_from=1024)
def fit_boxes(
    bodies, x, used_start, used, face_start, faces, is_small, low, high, face_box, chunk_start, chunk_box
):  # fmt: skip
    """Fit the boxes of some bodies, and of the triangles and chunks of those that are small."""
    for i in prange(len(bodies)):
        b = bodies[i]
        _fit_body(b, x, used_start, used, low, high)
        if is_small[b]:
            _fit_faces(face_start[b], face_start[b + 1], x, faces, face_box)
            _fit_chunks(face_start[b], face_start[b + 1], face_box, chunk_start[b], chunk_box)


@kernel(parallel_from=1024)
def move_bodies(bodies, transforms, rest, vertex_start, x):
    """Positions ((m0·x + m1·y) + m2·z) + m3 of the vertices of some bodies, each by its own matrix."""
    for i in prange(len(bodies)):
        m = transforms[i]
        for v in range(vertex_start[bodies[i]], vertex_start[bodies[i] + 1]):
            for k in range(3):
                x[v, k] = ((m[k, 0] * rest[v, 0] + m[k, 1] * rest[v, 1]) + m[k, 2] * rest[v, 2]) + m[k, 3]


# Pairs of triangles -------------------------------------------------------------------------------------


@compiled
def _is_near(box, i, low, high, other):
    """Whether box ``i`` meets that of a body; without a branch, which would be guessed wrong half of the time."""
    return (
        (box[i, 0] <= high[other, 0])
        & (box[i, 3] >= low[other, 0])
        & (box[i, 1] <= high[other, 1])
        & (box[i, 4] >= low[other, 1])
        & (box[i, 2] <= high[other, 2])
        & (box[i, 5] >= low[other, 2])
    )


@compiled
def _near(b, other, face_start, face_box, chunk_start, chunk_box, low, high, out):
    """Triangles of body ``b`` whose boxes meet that of another body; returns how many."""
    count = 0
    for chunk in range(chunk_start[b], chunk_start[b + 1]):
        if _is_near(chunk_box, chunk, low, high, other):
            first = face_start[b] + CHUNK * (chunk - chunk_start[b])
            for t in range(first, min(first + CHUNK, face_start[b + 1])):
                out[count] = t
                count += np.int64(_is_near(face_box, t, low, high, other))
    return count


@kernel(parallel_from=128)
def count_near(pairs, room, face_start, face_box, chunk_start, chunk_box, low, high, counts):
    """How many triangles of either body of each pair meet the box of the other, shape (k, 2)."""
    for i in prange(len(pairs)):
        near = np.empty(room, np.int32)
        counts[i, 0] = _near(pairs[i, 0], pairs[i, 1], face_start, face_box, chunk_start, chunk_box, low, high, near)
        counts[i, 1] = _near(pairs[i, 1], pairs[i, 0], face_start, face_box, chunk_start, chunk_box, low, high, near)


@compiled
def _meets(face_box, s, box, j):
    """Whether the box of triangle ``s`` meets box ``j`` of a list."""
    return (
        (face_box[s, 0] <= box[3, j])
        & (face_box[s, 3] >= box[0, j])
        & (face_box[s, 1] <= box[4, j])
        & (face_box[s, 4] >= box[1, j])
        & (face_box[s, 2] <= box[5, j])
        & (face_box[s, 5] >= box[2, j])
    )


@compiled
def _count_row(face_box, s, count, low_x, low_y, low_z, high_x, high_y, high_z):
    """How many boxes of a list meet that of triangle ``s``; eight at a time, since nothing branches."""
    a0, a1, a2, a3, a4, a5 = (
        face_box[s, 0], face_box[s, 1], face_box[s, 2], face_box[s, 3], face_box[s, 4], face_box[s, 5]
    )  # fmt: skip
    found = 0
    for j in range(count):
        found += np.int64(
            (a0 <= high_x[j])
            & (a3 >= low_x[j])
            & (a1 <= high_y[j])
            & (a4 >= low_y[j])
            & (a2 <= high_z[j])
            & (a5 >= low_z[j])
        )
    return found


@compiled
def _candidates(
    a, b, face_start, face_box, chunk_start, chunk_box, low, high, near_a, near_b, box, first, out_a, out_b
):  # fmt: skip
    """Pairs of triangles of two bodies whose boxes meet, written from ``first`` on; returns how many."""
    count_a = _near(a, b, face_start, face_box, chunk_start, chunk_box, low, high, near_a)
    count_b = _near(b, a, face_start, face_box, chunk_start, chunk_box, low, high, near_b) if count_a > 0 else 0
    for j in range(count_b):
        for k in range(6):
            box[k, j] = face_box[near_b[j], k]
    count = 0
    for i in range(count_a):
        s = near_a[i]
        row = _count_row(face_box, s, count_b, box[0], box[1], box[2], box[3], box[4], box[5])
        if row > 0 and first >= 0:
            at = first + count
            for j in range(count_b):
                if _meets(face_box, s, box, j):
                    out_a[at], out_b[at] = s, near_b[j]
                    at += 1
        count += row
    return count


@compiled
def _run_of_pairs(
    task, pairs, room, face_start, face_box, chunk_start, chunk_box, low, high, start, filling, counts, out_a, out_b
):  # fmt: skip
    near_a, near_b, box = np.empty(room, np.int32), np.empty(room, np.int32), np.empty((6, room))
    for i in range(task * RUN, min((task + 1) * RUN, len(pairs))):
        if filling and start[i + 1] == start[i]:
            continue
        first = start[i] if filling else -1
        counts[i] = _candidates(
            pairs[i, 0], pairs[i, 1], face_start, face_box, chunk_start, chunk_box, low, high, near_a, near_b, box,
            first, out_a, out_b,
        )  # fmt: skip


@kernel(parallel_from=64)
def find_candidates(
    pairs,
    room,
    face_start,
    face_box,
    chunk_start,
    chunk_box,
    low,
    high,
    start,
    filling,
    threads,
    counter,
    counts,
    out_a,
    out_b,
):
    """Count the pairs of triangles whose boxes meet, for each pair of bodies; or write them from ``start`` on.

    ``room`` is one more than the most triangles that any of the bodies has.
    """
    tasks = (len(pairs) + RUN - 1) // RUN
    for _ in prange(threads):
        task = claim(counter)
        while task < tasks:
            _run_of_pairs(
                task, pairs, room, face_start, face_box, chunk_start, chunk_box, low, high, start, filling, counts,
                out_a, out_b,
            )  # fmt: skip
            task = claim(counter)


# Vertices in bodies -------------------------------------------------------------------------------------


@compiled
def _points_in_box(b, other, x, used_start, used, low, high, first, out):
    """Vertices of body ``b`` in the box of another, written from ``first`` on; returns how many."""
    count = 0
    for k in range(used_start[b], used_start[b + 1]):
        v = used[k]
        if (
            low[other, 0] <= x[v, 0] <= high[other, 0]
            and low[other, 1] <= x[v, 1] <= high[other, 1]
            and low[other, 2] <= x[v, 2] <= high[other, 2]
        ):
            if first >= 0:
                out[first + count] = v
            count += 1
    return count


@kernel(parallel_from=128)
def find_points(pairs, x, used_start, used, low, high, start, filling, counts, out):
    """Count the vertices of the first body of each pair in the box of the second; or write them from ``start`` on."""
    for i in prange(len(pairs)):
        first = start[i] if filling else -1
        counts[i] = _points_in_box(pairs[i, 0], pairs[i, 1], x, used_start, used, low, high, first, out)


@compiled
def _mark_points(first, end, vertex, body, x, faces, face_start, face_box, oriented, column, inside):
    """Which vertices from ``first`` to ``end`` are inside a body; ``column`` is room for triangles above them."""
    low_x, low_y, low_z, high_x, high_y = np.inf, np.inf, np.inf, -np.inf, -np.inf
    for i in range(first, end):
        v = vertex[i]
        low_x, high_x = min(low_x, x[v, 0]), max(high_x, x[v, 0])
        low_y, high_y = min(low_y, x[v, 1]), max(high_y, x[v, 1])
        low_z = min(low_z, x[v, 2])
    count = 0
    for t in range(face_start[body], face_start[body + 1]):
        column[count] = t
        count += np.int64(
            face_box[t, 0] <= high_x
            and face_box[t, 3] >= low_x
            and face_box[t, 1] <= high_y
            and face_box[t, 4] >= low_y
            and face_box[t, 5] >= low_z
        )
    for i in range(first, end):
        inside[i] = _is_inside(point(x, vertex[i]), count, column, x, faces, face_box, oriented)


@compiled
def _is_inside(p, count, column, x, faces, face_box, oriented):
    """By winding number of oriented pieces, by parity of others; on the surface counts as inside."""
    winding = crossings = 0
    for k in range(count):
        t = column[k]
        if (
            face_box[t, 0] <= p[0] <= face_box[t, 3]
            and face_box[t, 1] <= p[1] <= face_box[t, 4]
            and p[2] <= face_box[t, 5]
        ):
            answer = ray_meets_triangle(p, point(x, faces[t, 0]), point(x, faces[t, 1]), point(x, faces[t, 2]))
            if answer == ON_SURFACE:
                return True
            if oriented[t]:
                winding += answer
            else:
                crossings += abs(answer)
    return winding != 0 or crossings % 2 == 1


@kernel(parallel_from=64)
def mark_inside(pairs, start, room, vertex, x, faces, face_start, face_box, oriented, threads, counter, inside):
    """Which vertices are inside the second body of their pair; those of pair i are from ``start[i]`` on."""
    tasks = (len(pairs) + RUN - 1) // RUN
    for _ in prange(threads):
        task = claim(counter)
        while task < tasks:
            column = np.empty(room, np.int32)
            for i in range(task * RUN, min((task + 1) * RUN, len(pairs))):
                if start[i + 1] > start[i]:
                    _mark_points(
                        start[i], start[i + 1], vertex, pairs[i, 1], x, faces, face_start, face_box, oriented, column,
                        inside,
                    )  # fmt: skip
            task = claim(counter)
