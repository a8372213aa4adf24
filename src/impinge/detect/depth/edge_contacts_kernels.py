"""Edges of one triangle that may pass through another; see ``edge_contacts``."""

# mypy: ignore-errors

from impinge.backend.jit import inlined, kernel, prange
from impinge.exact.orientation import point
from impinge.exact.triangle_triangle import cross, dot, minus


@inlined
def size(u):
    """The largest absolute component of a vector."""
    return max(abs(u[0]), abs(u[1]), abs(u[2]))


@inlined
def _is_apart(x, m, n, face):
    """Whether edge mn certainly misses a face: it shares a vertex, or lies beside its box or plane.

    Heights over the plane have errors below 2^-44 of the product of the sizes involved.
    """
    a, b, c = face[0], face[1], face[2]
    if m in (a, b, c) or n in (a, b, c):
        return True
    for axis in range(3):
        low, high = min(x[m, axis], x[n, axis]), max(x[m, axis], x[n, axis])
        if high < min(x[a, axis], x[b, axis], x[c, axis]) or low > max(x[a, axis], x[b, axis], x[c, axis]):
            return True
    u, v = minus(point(x, b), point(x, a)), minus(point(x, c), point(x, a))
    p, q = minus(point(x, m), point(x, a)), minus(point(x, n), point(x, a))
    normal = cross(u, v)
    reach = max(size(u), size(v), size(p), size(q))
    bound = 2.0**-44 * reach * reach * reach
    over_p, over_q = dot(normal, p), dot(normal, q)
    return bound > 1e-290 and ((over_p > bound and over_q > bound) or (over_p < -bound and over_q < -bound))


@kernel()
def filter_edges(x, faces, low, high, may_cross):
    """Which edges of two triangles may pass through the other: three of the lower one, then three of the higher."""
    for i in prange(len(low)):
        s, t = faces[low[i]], faces[high[i]]
        for k in range(3):
            may_cross[6 * i + k] = not _is_apart(x, s[k], s[(k + 1) % 3], t)
            may_cross[6 * i + 3 + k] = not _is_apart(x, t[k], t[(k + 1) % 3], s)
