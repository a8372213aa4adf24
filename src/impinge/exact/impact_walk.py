"""First impact of a moving vertex and face, or of two moving edges, decided in doubles where doubles suffice.

Points move along straight lines over [0, 1]. Differences of points (u, v, w: corners minus vertex; for edges ab and cd
the six differences of their ends) are linear in time. From them:

f      a cubic that is zero where the four points are coplanar: (u × v) · w; of edges ((c - a) × (d - c)) · (b - a).
g      quadratics. At an impact with weights α, β, γ of the corners, v × w = α N, w × u = β N, u × v = γ N, N their sum.
       Edges: (c - a) × (d - c) = s N, (b - c) × (d - c) = (1 - s) N, (c - a) × (b - a) = t N and
       (b - a) × (d - a) = (1 - t) N, with N = (b - a) × (d - c) and the parameters s, t of the impact. Along each axis,
       all g then have the sign of N, or are zero.

Walk dyadic intervals of time from left to right, without a stack. In each interval, with polynomials in Bernstein form:

1. Discard it if along some axis all differences have one strict sign at both ends: they have it in between.
2. Discard it if all coefficients of f have one strict sign: f has no root in it.
3. Discard it if along some axis two g have strictly opposite signs: no root of f in it is an impact.
4. Hit if f changes sign strictly between the ends and along one axis all g share one strict sign: every root is one.
5. Otherwise halve it. After ``NODES`` intervals the walk is undecided: ``exact.impact`` decides.

Intervals are closed, thus the times before the last interval are free of impact, its left end included.

Error bounds. Let u = 2^-53, and M(i) the largest computed |difference| along axis i at times 0 and 1.

- A difference has relative error u. At time l it is (1 - l) x + l y, with exact factors: the errors of x and y add at
  most u M(i), the two products together u M(i), the sum u M(i); with terms of higher order 3.01 u M(i) < 4 u M(i) = E.
- A product of two differences is off by at most 2 · 4.01 u M(i) M(j) before it is rounded. A coefficient of g at an end
  has 2 products, each rounded twice: 2 (8.02 + 2.01) u = 20.1 u, allowed 21 u M(i) M(j). Twice the middle coefficient
  has 4 products, each rounded three times: 4 (8.02 + 3.01) u = 44.2 u, allowed 46 u M(i) M(j).
- A product of three differences is off by at most 12.1 u P before it is rounded, P = M(0) M(1) M(2). A coefficient of f
  at an end has 6 products, each rounded at most 5 times: 6 (12.1 + 5.01) u = 102.7 u, allowed 112 u P. Three times a
  middle coefficient has 18 products, each rounded at most 7 times: 18 (12.1 + 7.01) u = 344 u, allowed 368 u P.
- The allowances exceed the sums by 3 % and more. That covers |difference| <= M(i) (1 + 4 u), the roundings of the
  bounds themselves, and underflow: every M(i) is zero, and with it every product along that axis, or in [2^-250, 2^250]
  (otherwise the walk is undecided at once). An underflow is off by 2^-1075, at most 2^-825 of M(i), 2^-575 of M(i) M(j)
  and, since P is at least 2^-750, 2^-75 · u of P with its factor of at most 2^250.
"""

from impinge.backend.jit import compiled

MISS, HIT, UNDECIDED = 0, 1, 2
NODES = 16
"""Intervals per walk; more decide nothing more."""
LEAST_SIZE = 2.0**-50
"""Size of an interval up to which its ends and their distances from 1 are doubles."""
LEAST, LARGEST = 2.0**-250, 2.0**250
UNIT = 2.0**-53
OF_DIFFERENCE = 4.0 * UNIT
OF_G, OF_G_MIDDLE = 21.0 * UNIT, 46.0 * UNIT
OF_F, OF_F_MIDDLE = 112.0 * UNIT, 368.0 * UNIT


@compiled
def _minus(a, b):
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@compiled
def _at(x, y, time):
    """Differences at a time between 0 and 1."""
    before = 1.0 - time
    return before * x[0] + time * y[0], before * x[1] + time * y[1], before * x[2] + time * y[2]


@compiled
def _cross(a, b):
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@compiled
def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@compiled
def _quadratic(x0, y0, x1, y1):
    """Bernstein coefficients of x × y on an interval; the middle one twice."""
    p, q = _cross(x0, y1), _cross(x1, y0)
    return _cross(x0, y0), (p[0] + q[0], p[1] + q[1], p[2] + q[2]), _cross(x1, y1)


@compiled
def _cubic(g, z0, z1):
    """Bernstein coefficients of g · z on an interval; the two in the middle three times."""
    return _dot(g[0], z0), _dot(g[1], z0) + _dot(g[0], z1), _dot(g[2], z0) + _dot(g[1], z1), _dot(g[2], z1)


@compiled
def _sign_of_cubic(f, bound, middle):
    """1 or -1 if all coefficients have this strict sign, 2 if the ends strictly differ, otherwise 0."""
    if f[0] > bound and f[3] > bound:
        return 1 if f[1] > middle and f[2] > middle else 0
    if f[0] < -bound and f[3] < -bound:
        return -1 if f[1] < -middle and f[2] < -middle else 0
    return 2 if (f[0] > bound and f[3] < -bound) or (f[0] < -bound and f[3] > bound) else 0


@compiled
def _sign_of_quadratic(g, k, size):
    """1 or -1 if all coefficients along axis ``k`` have this strict sign, otherwise 0; ``size`` is M(i) M(j)."""
    bound, middle = OF_G * size, OF_G_MIDDLE * size
    if g[0][k] > bound and g[1][k] > middle and g[2][k] > bound:
        return 1
    if g[0][k] < -bound and g[1][k] < -middle and g[2][k] < -bound:
        return -1
    return 0


@compiled
def _largest(a, b, c, k):
    return max(abs(a[k]), abs(b[k]), abs(c[k]))


@compiled
def _is_in_range(m):
    return m == 0.0 or (m >= LEAST and m <= LARGEST)


@compiled
def _next_interval(i, size):
    """The interval after number ``i`` of this size: the largest that begins there. An interval is [i, i + 1] size."""
    i += 1
    while i & 1 == 0 and size < 1.0:
        i >>= 1
        size *= 2.0
    return i, size


@compiled
def vertex_face_walk(p0, a0, b0, c0, p1, a1, b1, c1):
    """Verdict, and the interval of the first impact of vertex p and face abc; numbers are times 0 and 1.

    An undecided walk returns the part of the time that is not free of impact.
    """
    u0, v0, w0 = _minus(a0, p0), _minus(b0, p0), _minus(c0, p0)
    u1, v1, w1 = _minus(a1, p1), _minus(b1, p1), _minus(c1, p1)
    mx = max(_largest(u0, v0, w0, 0), _largest(u1, v1, w1, 0))
    my = max(_largest(u0, v0, w0, 1), _largest(u1, v1, w1, 1))
    mz = max(_largest(u0, v0, w0, 2), _largest(u1, v1, w1, 2))
    if not (_is_in_range(mx) and _is_in_range(my) and _is_in_range(mz)):
        return UNDECIDED, 0.0, 1.0
    near = OF_DIFFERENCE * mx, OF_DIFFERENCE * my, OF_DIFFERENCE * mz
    sizes = my * mz, mz * mx, mx * my
    volume = mx * my * mz
    i, size = 0, 1.0
    ul, vl, wl, ur, vr, wr = u0, v0, w0, u1, v1, w1
    for node in range(NODES):
        left = i * size
        if node > 0:
            ul, vl, wl = _at(u0, u1, left), _at(v0, v1, left), _at(w0, w1, left)
            right = left + size
            ur, vr, wr = _at(u0, u1, right), _at(v0, v1, right), _at(w0, w1, right)
        is_free = False
        for k in range(3):
            lowest = min(min(ul[k], vl[k], wl[k]), min(ur[k], vr[k], wr[k]))
            highest = max(max(ul[k], vl[k], wl[k]), max(ur[k], vr[k], wr[k]))
            is_free |= (lowest > near[k]) | (highest < -near[k])
        if not is_free:
            uv = _quadratic(ul, vl, ur, vr)
            sign = _sign_of_cubic(_cubic(uv, wl, wr), OF_F * volume, OF_F_MIDDLE * volume)
            is_free = sign == 1 or sign == -1
            if not is_free:
                vw, wu = _quadratic(vl, wl, vr, wr), _quadratic(wl, ul, wr, ur)
                for k in range(3):
                    x = _sign_of_quadratic(uv, k, sizes[k])
                    y = _sign_of_quadratic(vw, k, sizes[k])
                    z = _sign_of_quadratic(wu, k, sizes[k])
                    if x * y < 0 or y * z < 0 or z * x < 0:
                        is_free = True
                    elif sign == 2 and x != 0 and x == y and y == z:
                        return HIT, left, left + size
        if is_free:
            i, size = _next_interval(i, size)
            if size == 1.0:
                return MISS, 1.0, 1.0
        else:
            i, size = 2 * i, 0.5 * size
    return UNDECIDED, i * size, 1.0


@compiled
def edge_edge_walk(a0, b0, c0, d0, a1, b1, c1, d1):
    """The same of edges ab and cd."""
    e0, h0, r0 = _minus(b0, a0), _minus(d0, c0), _minus(c0, a0)
    s0, q0, t0 = _minus(d0, a0), _minus(b0, c0), _minus(b0, d0)
    e1, h1, r1 = _minus(b1, a1), _minus(d1, c1), _minus(c1, a1)
    s1, q1, t1 = _minus(d1, a1), _minus(b1, c1), _minus(b1, d1)
    mx = max(_largest(e0, h0, r0, 0), _largest(s0, q0, t0, 0), _largest(e1, h1, r1, 0), _largest(s1, q1, t1, 0))
    my = max(_largest(e0, h0, r0, 1), _largest(s0, q0, t0, 1), _largest(e1, h1, r1, 1), _largest(s1, q1, t1, 1))
    mz = max(_largest(e0, h0, r0, 2), _largest(s0, q0, t0, 2), _largest(e1, h1, r1, 2), _largest(s1, q1, t1, 2))
    if not (_is_in_range(mx) and _is_in_range(my) and _is_in_range(mz)):
        return UNDECIDED, 0.0, 1.0
    near = OF_DIFFERENCE * mx, OF_DIFFERENCE * my, OF_DIFFERENCE * mz
    sizes = my * mz, mz * mx, mx * my
    volume = mx * my * mz
    i, size = 0, 1.0
    el, hl, rl, sl, ql, tl = e0, h0, r0, s0, q0, t0
    er, hr, rr, sr, qr, tr = e1, h1, r1, s1, q1, t1
    for node in range(NODES):
        left = i * size
        if node > 0:
            el, hl, rl = _at(e0, e1, left), _at(h0, h1, left), _at(r0, r1, left)
            sl, ql, tl = _at(s0, s1, left), _at(q0, q1, left), _at(t0, t1, left)
            right = left + size
            er, hr, rr = _at(e0, e1, right), _at(h0, h1, right), _at(r0, r1, right)
            sr, qr, tr = _at(s0, s1, right), _at(q0, q1, right), _at(t0, t1, right)
        is_free = False
        for k in range(3):  # c - a, d - a, c - b, d - b
            lowest = min(min(rl[k], sl[k], -ql[k], -tl[k]), min(rr[k], sr[k], -qr[k], -tr[k]))
            highest = max(max(rl[k], sl[k], -ql[k], -tl[k]), max(rr[k], sr[k], -qr[k], -tr[k]))
            is_free |= (lowest > near[k]) | (highest < -near[k])
        if not is_free:
            rh = _quadratic(rl, hl, rr, hr)
            sign = _sign_of_cubic(_cubic(rh, el, er), OF_F * volume, OF_F_MIDDLE * volume)
            is_free = sign == 1 or sign == -1
            if not is_free:
                qh, re = _quadratic(ql, hl, qr, hr), _quadratic(rl, el, rr, er)
                es = _quadratic(el, sl, er, sr)
                for k in range(3):
                    w = _sign_of_quadratic(rh, k, sizes[k])
                    x = _sign_of_quadratic(qh, k, sizes[k])
                    y = _sign_of_quadratic(re, k, sizes[k])
                    z = _sign_of_quadratic(es, k, sizes[k])
                    if w * x < 0 or w * y < 0 or w * z < 0 or x * y < 0 or x * z < 0 or y * z < 0:
                        is_free = True
                    elif sign == 2 and w != 0 and w == x and x == y and y == z:
                        return HIT, left, left + size
        if is_free:
            i, size = _next_interval(i, size)
            if size == 1.0:
                return MISS, 1.0, 1.0
        else:
            i, size = 2 * i, 0.5 * size
    return UNDECIDED, i * size, 1.0


@compiled
def _narrow(x0, y0, z0, x1, y1, z1, lo, hi, width):
    """Halve the interval of the first root of (x × y) · z, and whether its width is at most ``width`` times its end.

    f changes sign strictly between the ends. With one change of sign among its coefficients it has a single root.
    """
    volume = 1.0
    for k in range(3):
        volume *= max(_largest(x0, y0, z0, k), _largest(x1, y1, z1, k))
    bound, middle = OF_F * volume, OF_F_MIDDLE * volume
    xl, yl, zl, xr, yr, zr = (
        _at(x0, x1, lo),
        _at(y0, y1, lo),
        _at(z0, z1, lo),
        _at(x0, x1, hi),
        _at(y0, y1, hi),
        _at(z0, z1, hi),
    )
    f = _cubic(_quadratic(xl, yl, xr, yr), zl, zr)
    sign = 1.0 if f[0] > 0.0 else -1.0
    if not (sign * f[1] > middle or sign * f[2] < -middle):
        return lo, hi, False
    while hi - lo > width * hi:
        if hi - lo <= LEAST_SIZE:
            return lo, hi, False
        mid = 0.5 * (lo + hi)
        value = sign * _dot(_cross(_at(x0, x1, mid), _at(y0, y1, mid)), _at(z0, z1, mid))
        if value > bound:
            lo = mid
        elif value < -bound:
            hi = mid
        else:
            return lo, hi, False
    return lo, hi, True


@compiled
def narrow_vertex_face(p0, a0, b0, c0, p1, a1, b1, c1, lo, hi, width):
    """Narrow the interval of a hit of ``vertex_face_walk``; and whether doubles sufficed."""
    return _narrow(
        _minus(a0, p0), _minus(b0, p0), _minus(c0, p0), _minus(a1, p1), _minus(b1, p1), _minus(c1, p1), lo, hi, width
    )


@compiled
def narrow_edge_edge(a0, b0, c0, d0, a1, b1, c1, d1, lo, hi, width):
    """Narrow the interval of a hit of ``edge_edge_walk``; and whether doubles sufficed."""
    return _narrow(
        _minus(c0, a0), _minus(d0, c0), _minus(b0, a0), _minus(c1, a1), _minus(d1, c1), _minus(b1, a1), lo, hi, width
    )
