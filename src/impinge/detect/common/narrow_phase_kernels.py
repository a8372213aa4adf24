"""Candidate pairs to kinds: the filter for all, then the exact test for the few that it leaves uncertain.

The filter runs on any device (no scratch memory, no exact arithmetic); uncertain rows are resolved on the CPU. Keeping
the exact test out of the first loop makes that loop a quarter faster. One rounding bound serves all candidates: the
filter costs no more than a test in plain doubles. Where that bound is too coarse, the second loop tries the pair's own
bound before exact arithmetic.
"""

# mypy: ignore-errors

from impinge.backend.jit import compiled, kernel, prange
from impinge.detect.common.pair_query_kernels import key_pair
from impinge.exact.kinds import NONE, UNCERTAIN
from impinge.exact.neighbours import neighbours_kind, shared_count
from impinge.exact.orientation import point
from impinge.exact.triangle_triangle import triangle_triangle, triangle_triangle_filtered


@compiled
def face(faces, t):
    """Row ``t`` of faces as a tuple."""
    return faces[t, 0], faces[t, 1], faces[t, 2]


@compiled
def classify_pair(i, x_a, faces_a, x_b, faces_b, pair_a, pair_b, bound, kind):
    """Filter candidate ``i`` of two bodies; writes ``kind[i]``."""
    s, t = face(faces_a, pair_a[i]), face(faces_b, pair_b[i])
    kind[i] = triangle_triangle_filtered(
        point(x_a, s[0]),
        point(x_a, s[1]),
        point(x_a, s[2]),
        point(x_b, t[0]),
        point(x_b, t[1]),
        point(x_b, t[2]),
        bound,
    )


@compiled
def classify_self_pair(i, x, faces, pair_a, pair_b, skip_neighbours, bound, kind):
    """Filter candidate ``i`` of one body; pairs that share a vertex are uncertain, or skipped on request."""
    s, t = face(faces, pair_a[i]), face(faces, pair_b[i])
    if shared_count(s, t) > 0:
        kind[i] = NONE if skip_neighbours else UNCERTAIN
    else:
        classify_pair(i, x, faces, x, faces, pair_a, pair_b, bound, kind)


@kernel(parallel_from=1024)
def classify_pairs(x_a, faces_a, x_b, faces_b, pair_a, pair_b, bound, kind):
    """Filter all candidates of two bodies."""
    for i in prange(len(kind)):
        classify_pair(i, x_a, faces_a, x_b, faces_b, pair_a, pair_b, bound, kind)


@kernel(parallel_from=512)
def classify_self_pairs(x, faces, pair_a, pair_b, skip_neighbours, bound, kind):
    """Filter all candidates of one body."""
    for i in prange(len(kind)):
        classify_self_pair(i, x, faces, pair_a, pair_b, skip_neighbours, bound, kind)


@kernel(parallel_from=32)
def resolve_pairs(x_a, faces_a, x_b, faces_b, pair_a, pair_b, rows, kind):
    """The exact test for the candidates in ``rows``."""
    for k in prange(len(rows)):
        i = rows[k]
        s, t = face(faces_a, pair_a[i]), face(faces_b, pair_b[i])
        kind[i] = triangle_triangle(
            point(x_a, s[0]), point(x_a, s[1]), point(x_a, s[2]), point(x_b, t[0]), point(x_b, t[1]), point(x_b, t[2])
        )


@kernel(parallel_from=256)
def resolve_self_pairs(x, faces, pair_a, pair_b, rows, kind):
    """The exact test for the candidates in ``rows``, with the policy for neighbours."""
    for k in prange(len(rows)):
        i = rows[k]
        kind[i] = neighbours_kind(x, face(faces, pair_a[i]), face(faces, pair_b[i]))


@kernel(parallel_from=32)
def resolve_keys(keys, x_a, faces_a, x_b, faces_b, kind):
    """The exact test for the pairs of ``keys``."""
    for i in prange(len(keys)):
        a, b = key_pair(keys[i])
        s, t = face(faces_a, a), face(faces_b, b)
        kind[i] = triangle_triangle(
            point(x_a, s[0]), point(x_a, s[1]), point(x_a, s[2]), point(x_b, t[0]), point(x_b, t[1]), point(x_b, t[2])
        )


@kernel(parallel_from=256)
def resolve_self_keys(keys, x, faces, kind):
    """The exact test for the pairs of ``keys``, with the policy for neighbours."""
    for i in prange(len(keys)):
        a, b = key_pair(keys[i])
        kind[i] = neighbours_kind(x, face(faces, a), face(faces, b))
