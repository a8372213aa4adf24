"""A fast triangle test in plain doubles: the baseline of the exact one."""

# mypy: ignore-errors

from impinge.backend.jit import compiled, kernel, prange
from impinge.detect.common.narrow_phase_kernels import face
from impinge.exact.orientation import point
from impinge.exact.triangle_triangle import cross, dot, minus


@compiled
def triangle_triangle_plain(p1, q1, r1, p2, q2, r2):
    """Guigue and Devillers in doubles: no bound, no kinds; wrong on touching, coplanar and degenerate pairs."""
    n2 = cross(minus(p2, r2), minus(q2, r2))
    sp1, sq1, sr1 = dot(n2, minus(p1, r2)), dot(n2, minus(q1, r2)), dot(n2, minus(r1, r2))
    if (sp1 > 0.0 and sq1 > 0.0 and sr1 > 0.0) or (sp1 < 0.0 and sq1 < 0.0 and sr1 < 0.0):
        return False
    n1 = cross(minus(p1, r1), minus(q1, r1))
    sp2, sq2, sr2 = dot(n1, minus(p2, r1)), dot(n1, minus(q2, r1)), dot(n1, minus(r2, r1))
    if (sp2 > 0.0 and sq2 > 0.0 and sr2 > 0.0) or (sp2 < 0.0 and sq2 < 0.0 and sr2 < 0.0):
        return False
    if (sp1 > 0.0) == (sq1 > 0.0):
        p1, q1, r1, sp1 = r1, p1, q1, sr1
    elif (sp1 > 0.0) == (sr1 > 0.0):
        p1, q1, r1, sp1 = q1, r1, p1, sq1
    if (sp2 > 0.0) == (sq2 > 0.0):
        p2, q2, r2, sp2 = r2, p2, q2, sr2
    elif (sp2 > 0.0) == (sr2 > 0.0):
        p2, q2, r2, sp2 = q2, r2, p2, sq2
    if sp1 < 0.0:
        q2, r2 = r2, q2
    if sp2 < 0.0:
        q1, r1 = r1, q1
    first = dot(cross(minus(p2, q1), minus(p1, q1)), minus(q2, q1))
    second = dot(cross(minus(p2, p1), minus(r1, p1)), minus(r2, p1))
    return first <= 0.0 and second <= 0.0


@kernel(parallel_from=512)
def classify_pairs_plain(x_a, faces_a, x_b, faces_b, pair_a, pair_b, kind):
    """The same loop as ``narrow_phase_kernels.classify_pairs``."""
    for i in prange(len(kind)):
        s, t = face(faces_a, pair_a[i]), face(faces_b, pair_b[i])
        kind[i] = triangle_triangle_plain(
            point(x_a, s[0]), point(x_a, s[1]), point(x_a, s[2]), point(x_b, t[0]), point(x_b, t[1]), point(x_b, t[2])
        )
