"""Decide single queries: a vertex and a face, or two edges, per row; see ``primitives`` for the method."""

# mypy: ignore-errors

from impinge.backend.jit import compiled, kernel, prange
from impinge.exact.impact import first_impact
from impinge.exact.impact_walk import (
    HIT,
    MISS,
    UNDECIDED,
    edge_edge_walk,
    narrow_edge_edge,
    narrow_vertex_face,
    vertex_face_walk,
)
from impinge.exact.orientation import point


@compiled
def first_walk(is_edges, starts, ends):
    """Verdict and interval of two edges, or of a vertex and a face, in doubles."""
    if is_edges:
        return edge_edge_walk(*starts, *ends)
    return vertex_face_walk(*starts, *ends)


@compiled
def walk(is_edges, p0, q0, r0, s0, p1, q1, r1, s1, width):
    """Verdict and interval in doubles; undecided, too, if doubles cannot narrow the interval to ``width``."""
    verdict, lo, hi = first_walk(is_edges, (p0, q0, r0, s0), (p1, q1, r1, s1))
    if verdict == HIT:
        if is_edges:
            lo, hi, is_narrow = narrow_edge_edge(p0, q0, r0, s0, p1, q1, r1, s1, lo, hi, width)
        else:
            lo, hi, is_narrow = narrow_vertex_face(p0, q0, r0, s0, p1, q1, r1, s1, lo, hi, width)
        if not is_narrow:
            return UNDECIDED, lo, hi
    return verdict, lo, hi


@kernel(parallel_from=256)
def walk_rows(is_edges, start, end, width, verdict, lo, hi):
    """Walk all rows of four points each."""
    for i in prange(len(start)):
        x, y = start[i], end[i]
        verdict[i], lo[i], hi[i] = walk(
            is_edges,
            point(x, 0), point(x, 1), point(x, 2), point(x, 3), point(y, 0), point(y, 1), point(y, 2), point(y, 3),
            width,
        )  # fmt: skip


@kernel(parallel_from=8)
def resolve_rows(is_edges, start, end, width, rows, verdict, lo, hi):
    """Decide the given rows exactly."""
    for k in prange(len(rows)):
        i = rows[k]
        is_hit, lo[i], hi[i] = first_impact(is_edges, start[i], end[i], width)
        verdict[i] = HIT if is_hit else MISS
