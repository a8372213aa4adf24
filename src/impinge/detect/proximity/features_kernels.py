"""Closest points of points, segments and triangles, in doubles; degenerate ones included.

Triangle  [Ericson2005, 5.1.5] finds the Voronoi region of the point by products of dot products, which cancel on thin
          triangles. Here cross products project the point into the plane. If its weights are not negative, the
          projection is the answer. Otherwise the answer is the nearest point on the edges with a negative weight.
Thin      triangles, with a small sine s at corner a, have an inaccurate normal: the error of the projection is
          2^-53 / s of the distance to a. Each further projection multiplies the error by that factor. The result is
          compared with all edges, which take over as the triangle degenerates to a segment or a point.
Edge      Weights and distance have the same bits for either order of the ends: triangles that share an edge or a
          corner are equally near where that is the nearest.
Segments  [Ericson2005, 5.1.9] The closest points of the two lines, if they are within both segments, otherwise the best
          of the four ends against the other segment. Nearly parallel segments, at an angle of s, have an inaccurate
          common normal n; the error of the parameters is 2^-53 / s. The component of the gap perpendicular to n is
          brought to zero again, which multiplies the error by that factor, and the result is compared with the ends.
Order     The distance of two segments has the same bits for either order. Callers put the end with the lower vertex id
          first: all queries agree to the last bit.
Error     The distance is that of a point of the triangle or segment, up to 2^-53 of the coordinates; it exceeds the
          least by no more than about 1e-14 of the distance to the farthest corner (1e-13 for triangles thinner than
          1e-12 of their length). Products of four coordinates must neither over- nor underflow.
"""

# mypy: ignore-errors

import math

from impinge.backend.jit import compiled
from impinge.exact.triangle_triangle import cross, dot, minus

THIN = 2.0**-8
"""Square of the sine below which a corner, or the angle of two segments, is thin."""
REPEATS = 3
"""Further projections for a thin triangle or a pair of nearly parallel segments."""
NEARLY_PARALLEL = 2.0**-46
"""Square of the sine of two segments above which one more projection suffices: the first error is below 2^-30."""
CLEARLY = 2.0**-20
"""More than that error: parameters farther outside of a segment are outside."""


@compiled
def mixed(u, a, v, b, w, c):
    """The point u a + v b + w c."""
    return u * a[0] + v * b[0] + w * c[0], u * a[1] + v * b[1] + w * c[1], u * a[2] + v * b[2] + w * c[2]


@compiled
def closest_on_edge(a, b):
    """Weights of a and b at the point of segment ab nearest to the origin, and its squared distance."""
    along = minus(b, a)
    past_a, before_b = -dot(a, along), dot(b, along)
    if past_a <= 0.0:
        return 1.0, 0.0, dot(a, a)
    if before_b <= 0.0:
        return 0.0, 1.0, dot(b, b)
    whole = past_a + before_b
    u, v = before_b / whole, past_a / whole
    x, y, z = u * a[0] + v * b[0], u * a[1] + v * b[1], u * a[2] + v * b[2]
    return u, v, x * x + y * y + z * z


@compiled
def closest_on_triangle(p, a, b, c):
    """Weights of a, b and c at the point of triangle abc nearest to p, and its squared distance."""
    a, b, c = minus(a, p), minus(b, p), minus(c, p)
    ab, ac = minus(b, a), minus(c, a)
    n = cross(ab, ac)
    square = dot(n, n)
    if not square > THIN * dot(ab, ab) * dot(ac, ac):
        return _closest_on_thin(a, b, c, ab, ac, n, square)
    v, w = dot(cross(ac, a), n) / square, dot(cross(a, ab), n) / square
    u = 1.0 - v - w
    if u >= 0.0 and v >= 0.0 and w >= 0.0:
        x, y, z = a[0] + v * ab[0] + w * ac[0], a[1] + v * ab[1] + w * ac[1], a[2] + v * ab[2] + w * ac[2]
        return u, v, w, x * x + y * y + z * z
    return _closest_on_edges(a, b, c, u < 0.0, v < 0.0, w < 0.0)


@compiled
def _closest_on_edges(a, b, c, on_bc, on_ca, on_ab):
    """Weights and squared distance of the point nearest to the origin on the marked edges of abc."""
    u, v, w, best = 1.0, 0.0, 0.0, math.inf
    if on_ab:
        of_a, of_b, square = closest_on_edge(a, b)
        u, v, w, best = of_a, of_b, 0.0, square
    if on_ca:
        of_c, of_a, square = closest_on_edge(c, a)
        if square < best:
            u, v, w, best = of_a, 0.0, of_c, square
    if on_bc:
        of_b, of_c, square = closest_on_edge(b, c)
        if square < best:
            u, v, w, best = 0.0, of_b, of_c, square
    return u, v, w, best


@compiled
def _closest_on_thin(a, b, c, ab, ac, n, square):
    """As ``closest_on_triangle`` with p in the origin, for a triangle with little or no area."""
    edges = _closest_on_edges(a, b, c, True, True, True)
    if not square > 0.0:
        return edges
    v = w = 0.0
    q = a
    for _ in range(1 + REPEATS):
        v, w = v + dot(cross(ac, q), n) / square, w + dot(cross(q, ab), n) / square
        q = a[0] + v * ab[0] + w * ac[0], a[1] + v * ab[1] + w * ac[1], a[2] + v * ab[2] + w * ac[2]
    u = 1.0 - v - w
    inner = dot(q, q)
    if u >= 0.0 and v >= 0.0 and w >= 0.0 and inner < edges[3]:
        return u, v, w, inner
    return edges


@compiled
def _gap(ac, s, ab, t, cd):
    """The vector ac + t cd - s ab; swapping the two segments changes its sign only."""
    return ac[0] + (t * cd[0] - s * ab[0]), ac[1] + (t * cd[1] - s * ab[1]), ac[2] + (t * cd[2] - s * ab[2])


@compiled
def closest_on_segments(a, b, c, d):
    """Parameters s on ab and t on cd of the nearest points of two segments, and the squared distance."""
    ab, cd, ac = minus(b, a), minus(d, c), minus(c, a)
    n = cross(ab, cd)
    square = dot(n, n)
    lengths = dot(ab, ab) * dot(cd, cd)
    if not square > THIN * lengths:
        return _closest_on_parallel(a, b, c, d, ab, cd, ac, n, square, lengths)
    s, t = dot(cross(ac, cd), n) / square, dot(cross(ac, ab), n) / square
    if 0.0 <= s <= 1.0 and 0.0 <= t <= 1.0:
        gap = _gap(ac, s, ab, t, cd)
        return s, t, dot(gap, gap)
    return _closest_at_ends(a, b, c, d)


@compiled
def _closest_on_parallel(a, b, c, d, ab, cd, ac, n, square, lengths):
    """As ``closest_on_segments``, for segments that are nearly parallel or degenerate to a point."""
    ends = _closest_at_ends(a, b, c, d)
    if not square > 0.0:
        return ends
    repeats = 1 if square > NEARLY_PARALLEL * lengths else REPEATS
    s, t = dot(cross(ac, cd), n) / square, dot(cross(ac, ab), n) / square
    if repeats == 1 and (abs(s - 0.5) > 0.5 + CLEARLY or abs(t - 0.5) > 0.5 + CLEARLY):
        return ends
    gap = _gap(ac, s, ab, t, cd)
    for _ in range(repeats):
        s, t = s + dot(cross(gap, cd), n) / square, t + dot(cross(gap, ab), n) / square
        gap = _gap(ac, s, ab, t, cd)
    inner = dot(gap, gap)
    if 0.0 <= s <= 1.0 and 0.0 <= t <= 1.0 and inner < ends[2]:
        return s, t, inner
    return ends


@compiled
def _closest_at_ends(a, b, c, d):
    """As ``closest_on_segments``, where one of the two points is an end."""
    _, t, best = closest_on_edge(minus(c, a), minus(d, a))
    s = 0.0
    _, along, square = closest_on_edge(minus(c, b), minus(d, b))
    if square < best:
        s, t, best = 1.0, along, square
    _, along, square = closest_on_edge(minus(a, c), minus(b, c))
    if square < best:
        s, t, best = along, 0.0, square
    _, along, square = closest_on_edge(minus(a, d), minus(b, d))
    if square < best:
        s, t, best = along, 1.0, square
    return s, t, best
