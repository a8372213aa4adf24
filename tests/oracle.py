"""Answers in exact integer arithmetic, slow and plain, to judge the library by.

Every finite double is an integer times a power of two, so the points of a question are brought to one
common power and all that follows is done with Python integers: nothing is rounded, nothing overflows.

How two triangles (segments, points) S and T are compared:

1. Reduce. S becomes the simplex on its extreme corners s₀ … sₖ (k = 2, 1, 0); so does T.
2. Describe. T is a set of equations e(x) = 0 (its plane, its line, its point) and of inequalities
   g(x) ≥ 0 (its edges, its ends), all linear.
3. Clip. A point of S is its barycentric coordinates β ≥ 0, up to a positive factor; there e(x) = Σ βᵢ e(sᵢ).
   The polygon S is cut by every e ≥ 0, −e ≥ 0 and g ≥ 0 in turn; what remains is I = S ∩ T.
4. Judge. The mean m of the vertices of I lies in relint(I). If relint(S) and relint(T) have a common point,
   relint(I) is their intersection; so they have one iff m has all βᵢ > 0 and all g(m) > 0.

Kinds       none      I is empty
            coplanar  the relative interiors meet, and all corners lie in one plane
            crossing  the relative interiors meet, and they do not
            touching  otherwise
Guarantee   exact for all finite doubles, subnormal and huge ones included; sets are closed
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from math import gcd

Point = Sequence[float]
IntPoint = Sequence[int]
Bary = tuple[int, ...]

KINDS = ("none", "touching", "crossing", "coplanar")

RAY_SPAN = 1 << 20
"""Ray directions are integers in ±RAY_SPAN: a random one hits an edge by accident about never."""


# ---------------------------------------------------------------------------------------------- numbers


def integers(values: Sequence[float]) -> list[int]:
    """The values times one common power of two, as integers; integers are returned as they are."""
    whole = list(map(int, values))
    if whole == values:  # Python compares int with float exactly
        return whole
    ratios = [(n, 1) if n == v else float(v).as_integer_ratio() for n, v in zip(whole, values)]
    scale = max(d for _, d in ratios)  # denominators are powers of two: the largest is a common one
    return [n * (scale // d) for n, d in ratios]


def integer_points(points: Iterable[Point]) -> list[tuple[int, int, int]]:
    """Points in space at one common power of two; kinds and signs do not depend on it."""
    v = integers([c for p in points for c in p])
    return list(zip(v[0::3], v[1::3], v[2::3]))


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)


def _sub(a: IntPoint, b: IntPoint) -> tuple[int, int, int]:
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


def _cross(u: IntPoint, v: IntPoint) -> tuple[int, int, int]:
    ux, uy, uz = u
    vx, vy, vz = v
    return uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx


def _dot(u: IntPoint, v: IntPoint) -> int:
    return u[0] * v[0] + u[1] * v[1] + u[2] * v[2]


# ------------------------------------------------------------------------------------------ orientation


def sign_orient2d(a: Point, b: Point, c: Point) -> int:
    """Sign of (b − a) × (c − a): > 0 iff a, b, c turn left."""
    ax, ay, bx, by, cx, cy = integers([*a, *b, *c])
    return _sign((bx - ax) * (cy - ay) - (by - ay) * (cx - ax))


def sign_orient3d(a: Point, b: Point, c: Point, d: Point) -> int:
    """Sign of ((b − a) × (c − a)) · (d − a): > 0 iff d is on the normal side of (a, b, c)."""
    a, b, c, d = integer_points((a, b, c, d))
    return _sign(_dot(_cross(_sub(b, a), _sub(c, a)), _sub(d, a)))


# --------------------------------------------------------------------------------------------- clipping


def _simplex(points: Sequence[IntPoint]) -> tuple[Sequence[IntPoint], IntPoint | None]:
    """Extreme corners of at most three points, and the normal if they span a triangle."""
    if len(points) == 3:
        a, b, c = points
        normal = _cross(_sub(b, a), _sub(c, a))
        if normal != (0, 0, 0):
            return points, normal
    # Collinear points in lexicographic order are in their order along the line.
    lo, hi = min(points), max(points)
    return ((lo,) if lo == hi else (lo, hi)), None


def _describe(simplex: Sequence[IntPoint], normal: IntPoint | None, at: Sequence[IntPoint]):
    """Rows of values at the points ``at``: equations e = 0 and inequalities g ≥ 0 that describe a simplex."""
    p = simplex[0]
    away = [_sub(x, p) for x in at]
    if normal is not None:
        q, r = simplex[1], simplex[2]
        u, v = _sub(q, p), _sub(r, p)
        equations = [[_dot(normal, x) for x in away]]
        # Inward normals of the edges pq, qr, rp in the plane are N × (q − p), N × (r − q), N × (p − r).
        n_pq, n_rp = _cross(normal, u), _cross(v, normal)
        n_qr = _cross(normal, _sub(r, q))
        from_q = _dot(n_qr, u)
        inequalities = [
            [_dot(n_pq, x) for x in away],
            [_dot(n_qr, x) - from_q for x in away],
            [_dot(n_rp, x) for x in away],
        ]
        return equations, inequalities
    if len(simplex) == 2:
        u = _sub(simplex[1], p)
        uu = _dot(u, u)
        along = [_dot(u, x) for x in away]
        equations = [list(row) for row in zip(*(_cross(u, x) for x in away))]
        return equations, [along, [uu - s for s in along]]
    return [list(row) for row in zip(*away)], []


def _values(row: Sequence[int], polygon: Sequence[Bary]) -> list[int]:
    if len(row) == 3:
        f, g, h = row
        return [f * a + g * b + h * c for a, b, c in polygon]
    return [sum(f * b for f, b in zip(row, beta)) for beta in polygon]


def _between(p: Bary, q: Bary, f: int, g: int) -> Bary:
    """The point of segment pq where a function is zero that is f at p and g at q, f·g < 0.

    The mix |g|·p + |f|·q has the value |g|·f + |f|·g = 0; both weights are positive.
    """
    f, g = abs(f), abs(g)
    mix = [g * a + f * b for a, b in zip(p, q)]
    common = gcd(*mix)
    return tuple(m // common for m in mix)


def _clip(polygon: list[Bary], row: Sequence[int]) -> list[Bary]:
    """The part of a convex polygon where the linear function with corner values ``row`` is ≥ 0."""
    value = _values(row, polygon)
    if min(value) >= 0:
        return polygon
    if max(value) < 0:
        return []
    kept = []
    p, f = polygon[-1], value[-1]
    for q, g in zip(polygon, value):
        if (f < 0 < g) or (g < 0 < f):
            kept.append(_between(p, q, f, g))
        if g >= 0:
            kept.append(q)
        p, f = q, g
    return kept


def _intersection(corner_count: int, equations, inequalities) -> list[Bary]:
    """Corners (some perhaps twice) of S ∩ T, in barycentric coordinates of S; empty if they are disjoint."""
    polygon: list[Bary] = [((1, 0, 0), (0, 1, 0), (0, 0, 1))[i][:corner_count] for i in range(corner_count)]
    for row in equations:
        if any(row):
            polygon = _clip(polygon, row)
            if not polygon:
                return []
            polygon = _clip(polygon, [-f for f in row])
            if not polygon:
                return []
    for row in inequalities:
        polygon = _clip(polygon, row)
        if not polygon:
            return []
    return polygon


def _boxes_apart(s: Sequence[IntPoint], t: Sequence[IntPoint]) -> bool:
    return any(max(a) < min(b) or max(b) < min(a) for a, b in zip(zip(*s), zip(*t)))


def _compare(s: Sequence[IntPoint], t: Sequence[IntPoint]):
    """Kind of two point lists, and the corners of S ∩ T as barycentric coordinates with their simplex."""
    if _boxes_apart(s, t):
        return "none", [], s
    s, normal_s = _simplex(s)
    t, normal_t = _simplex(t)
    flat = True  # if both are degenerate and meet, they lie in one plane
    for simplex, normal, other in ((t, normal_t, s), (s, normal_s, t)):
        if normal is not None:
            offset = _dot(normal, simplex[0])
            side = [_dot(normal, x) - offset for x in other]
            if min(side) > 0 or max(side) < 0:
                return "none", [], s
            flat = not any(side)
    equations, inequalities = _describe(t, normal_t, s)
    corners = _intersection(len(s), equations, inequalities)
    if not corners:
        return "none", [], s
    mean = tuple(map(sum, zip(*corners)))
    if min(mean) > 0 and all(_values(row, [mean])[0] > 0 for row in inequalities):
        return ("coplanar" if flat else "crossing"), corners, s
    return "touching", corners, s


def triangle_kind(t1: Sequence[Point], t2: Sequence[Point]) -> str:
    """Kind of two triangles, each a 3×3 nested sequence; zero-area triangles are segments or points."""
    points = integer_points((*t1, *t2))
    return _compare(points[:3], points[3:])[0]


def segment_triangle_kind(seg: Sequence[Point], tri: Sequence[Point]) -> str:
    """Kind of a segment (2×3) and a triangle (3×3), either perhaps degenerate."""
    points = integer_points((*seg, *tri))
    return _compare(points[:2], points[2:])[0]


# ------------------------------------------------------------------------------- neighbours in one mesh


def _in_hull(beta: Bary, simplex: Sequence[IntPoint], hull: Sequence[IntPoint]) -> bool:
    """Whether the point with barycentric coordinates ``beta`` lies on the point or segment ``hull``."""
    # In homogeneous coordinates x = (Σ βᵢ sᵢ) / w, w = Σ βᵢ; with p an end of the hull, d = w·(x − p).
    w = sum(beta)
    p, q = hull[0], hull[-1]
    d = tuple(sum(b * s[k] for b, s in zip(beta, simplex)) - w * p[k] for k in range(3))
    if p == q:
        return d == (0, 0, 0)
    u = _sub(q, p)
    return _cross(u, d) == (0, 0, 0) and 0 <= _dot(u, d) <= w * _dot(u, u)


def self_pair_kind(x: Sequence[Point], face_s: Sequence[int], face_t: Sequence[int]) -> str:
    """Kind of two faces of one mesh: neighbours count only if they meet beyond what they share.

    Two faces without a common vertex id, or with three, have the kind of their triangles. With one or two
    common ids they are "none" unless their intersection reaches outside the hull of the common vertices.
    """
    ids = [int(v) for v in (*face_s, *face_t)]
    points = integer_points([x[v] for v in ids])
    position = dict(zip(ids, points))
    kind, corners, simplex = _compare(points[:3], points[3:])
    shared = set(ids[:3]) & set(ids[3:])
    if kind == "none" or len(shared) not in (1, 2):
        return kind
    hull = [position[v] for v in shared]
    # The intersection is the hull of its corners, and the hull of the shared vertices is convex.
    return "none" if all(_in_hull(beta, simplex, hull) for beta in corners) else kind


# ---------------------------------------------------------------------------------------- point queries


def point_in_tet(p: Point, tet: Sequence[Point]) -> int:
    """+1 strictly inside the tetrahedron (4×3), 0 on its boundary, −1 outside; a flat one has no inside."""
    p, a, b, c, d = integer_points((p, *tet))

    def volume(a: IntPoint, b: IntPoint, c: IntPoint, d: IntPoint) -> int:
        return _dot(_cross(_sub(b, a), _sub(c, a)), _sub(d, a))

    whole = _sign(volume(a, b, c, d))
    if whole == 0:
        return -1
    parts = (volume(p, b, c, d), volume(a, p, c, d), volume(a, b, p, d), volume(a, b, c, p))
    return min(whole * _sign(part) for part in parts)


def point_in_closed_surface(p: Point, x: Sequence[Point], faces: Iterable[Sequence[int]]) -> int:
    """+1 strictly inside a closed surface, 0 on it, −1 outside, by the parity of crossings of a ray."""
    p, *points = integer_points((p, *x))
    triangles = [[points[int(v)] for v in face] for face in faces]
    if any(_compare([p], triangle)[0] != "none" for triangle in triangles):
        return 0
    solid = [t for t, (_, normal) in ((t, _simplex(t)) for t in triangles) if normal is not None]
    rng = random.Random(0)
    while True:
        ray = tuple(rng.randint(-RAY_SPAN, RAY_SPAN) for _ in range(3))
        crossings = [_ray_crosses(p, ray, triangle) for triangle in solid]
        if None not in crossings:
            return 1 if sum(crossings) % 2 else -1


def _ray_crosses(p: IntPoint, ray: IntPoint, triangle: Sequence[IntPoint]) -> bool | None:
    """Whether a ray passes through the inside of a triangle; None if its line meets an edge."""
    a, b, c = (_sub(x, p) for x in triangle)
    sides = [_sign(_dot(ray, _cross(u, v))) for u, v in ((a, b), (b, c), (c, a))]
    if 1 in sides and -1 in sides:
        return False
    if 0 in sides:
        return None
    # The line passes through the triangle, and p is not on it: the plane N·y = N·a is met at
    # y = s·ray with s = N·a / N·ray, and N·ray = ray·(a×b + b×c + c×a) ≠ 0.
    normal = _cross(_sub(b, a), _sub(c, a))
    return _dot(normal, a) * _dot(normal, ray) > 0
