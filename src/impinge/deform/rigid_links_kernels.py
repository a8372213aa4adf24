"""Triples, their frames, and positions of linked vertices, for ``rigid_links``."""

# mypy: ignore-errors

import math

from impinge.backend.jit import compiled, contracted, kernel, prange
from impinge.exact.orientation import point
from impinge.exact.triangle_triangle import cross, dot, minus

NONE = -1
FLAT_IN_MOTION = 1e-6
"""|n| / longest side² up to which a moving triple counts as collinear: n has lost most of its digits."""


@compiled
def _is_straight(x, i, j, k, flatness):
    """Whether three points lie on a line: |n| / longest edge² is not above ``flatness``."""
    u, v, w = minus(point(x, j), point(x, i)), minus(point(x, k), point(x, i)), minus(point(x, k), point(x, j))
    n = cross(u, v)
    return not math.sqrt(dot(n, n)) > flatness * max(dot(u, u), dot(v, v), dot(w, w))


@kernel()
def choose_triples(x, nearest, flatness, triple):
    """For each row of ``nearest`` the first triple that is not on a line, by its farthest, then second, then first.

    Writes positions within the row; NONE where there is no such triple.
    """
    for n in prange(len(nearest)):
        triple[n, 0] = NONE
        for c in range(2, nearest.shape[1]):
            for b in range(1, c):
                for a in range(b):
                    if triple[n, 0] == NONE and not _is_straight(
                        x, nearest[n, a], nearest[n, b], nearest[n, c], flatness
                    ):
                        triple[n, 0], triple[n, 1], triple[n, 2] = a, b, c
            if triple[n, 0] != NONE:
                break


@compiled
def _put_frame(frame, n, u, a):
    """Write the unit vectors of n, u and a as the rows of a frame."""
    for row, e in ((0, n), (1, u), (2, a)):
        length = math.sqrt(dot(e, e))
        frame[3 * row], frame[3 * row + 1], frame[3 * row + 2] = e[0] / length, e[1] / length, e[2] / length


@compiled
def _transport(frame, u):
    """Turn a frame by the smallest rotation that takes its second vector to the direction of u."""
    length = math.sqrt(dot(u, u))
    if not 0.0 < length < math.inf:
        return
    p = frame[3], frame[4], frame[5]
    q = (u[0] / length, u[1] / length, u[2] / length)
    c = dot(p, q)
    if c <= -1.0 + 1e-12:  # a half turn about the normal is one of the smallest
        for k in range(3, 9):
            frame[k] = -frame[k]
        return
    axis = cross(p, q)  # its length is the sine
    for row in range(3):
        e = (frame[3 * row], frame[3 * row + 1], frame[3 * row + 2])
        across, along = cross(axis, e), dot(axis, e) / (1.0 + c)
        for k in range(3):
            frame[3 * row + k] = c * e[k] + across[k] + along * axis[k]


@kernel()
def place_frames(x, triple, flatness, frame, straight):
    """Frame of each triple: e0 along n = (q1 - q0) × (q2 - q0), e1 along q0 - q1, e2 along (q1 - q0) × n.

    A triple on a line keeps the frame that it had, turned the shortest way to its new e1.
    """
    for t in prange(len(triple)):
        q0, q1, q2 = triple[t, 0], triple[t, 1], triple[t, 2]
        u = minus(point(x, q1), point(x, q0))
        back = minus(point(x, q0), point(x, q1))
        straight[t] = _is_straight(x, q0, q1, q2, flatness)
        if straight[t]:
            _transport(frame[t], back)
        else:
            n = cross(u, minus(point(x, q2), point(x, q0)))
            _put_frame(frame[t], n, back, cross(u, n))


@compiled
def place_handles(x, q0, q1, q2, length, flatness, out, first):
    """Write q0 + length e for the unit vectors e of a triple's frame; whether it lies on a line: then q0 three times.

    The frame of a triple on a line is not known from its vertices; but no handle is farther from q0 than ``length``.
    """
    is_straight = _is_straight(x, q0, q1, q2, flatness)
    u, back = minus(point(x, q1), point(x, q0)), minus(point(x, q0), point(x, q1))
    n = cross(u, minus(point(x, q2), point(x, q0)))
    for row, e in ((0, n), (1, back), (2, cross(u, n))):
        scale = 0.0 if is_straight else length / math.sqrt(dot(e, e))
        for k in range(3):
            out[first + row, k] = x[q0, k] + scale * e[k]
    return is_straight


@compiled
def place_all_handles(x, triple, length, flatness, out):
    """Copy coarse vertices, and write the handles of all triples behind them."""
    out[: len(x)] = x
    for t in range(len(triple)):
        q0, q1, q2 = triple[t, 0], triple[t, 1], triple[t, 2]
        place_handles(x, q0, q1, q2, length[t], flatness, out, len(x) + 3 * t)


@contracted
def _follow_triple(x, q0, q1, q2, frame, coefficient, link_vertex, out):
    """Place the dense vertices of one triple: q0 + α1 (q1 - q0) + α2 (q2 - q0) + s0 e0 + s1 e1 + s2 e2."""
    ax, ay, az = x[q0, 0], x[q0, 1], x[q0, 2]
    bx, by, bz = x[q1, 0] - ax, x[q1, 1] - ay, x[q1, 2] - az
    cx, cy, cz = x[q2, 0] - ax, x[q2, 1] - ay, x[q2, 2] - az
    nx, ny, nz = frame[0], frame[1], frame[2]
    ex, ey, ez = frame[3], frame[4], frame[5]
    fx, fy, fz = frame[6], frame[7], frame[8]
    for k in range(len(link_vertex)):
        b, c = coefficient[k, 0], coefficient[k, 1]
        n, e, f = coefficient[k, 2], coefficient[k, 3], coefficient[k, 4]
        at = link_vertex[k]
        out[at, 0] = ax + b * bx + c * cx + n * nx + e * ex + f * fx
        out[at, 1] = ay + b * by + c * cy + n * ny + e * ey + f * fy
        out[at, 2] = az + b * bz + c * cz + n * nz + e * ez + f * fz


@kernel()
def follow(x, triple, frame, triple_link_start, chunk_start, chunk_triple, coefficient, link_vertex, out):
    """Place each dense vertex, in chunks of links that threads share out; ``chunk_triple`` is the first of a chunk."""
    for chunk in prange(len(chunk_triple)):
        at, end, t = chunk_start[chunk], chunk_start[chunk + 1], chunk_triple[chunk]
        while at < end:
            stop = min(triple_link_start[t + 1], end)
            q0, q1, q2 = triple[t, 0], triple[t, 1], triple[t, 2]
            _follow_triple(x, q0, q1, q2, frame[t], coefficient[at:stop], link_vertex[at:stop], out)
            at, t = stop, t + 1
