"""When do a moving vertex and face, or two moving edges, first meet? In exact integers, slow and plain.

All corners move on straight lines during [0, 1]; sets are closed. Nothing is rounded, nothing overflows.

1. Reduce. Vertex p and face abc meet iff 0 ∈ conv(a − p, b − p, c − p). Edges ab and cd meet iff 0 lies in the
   parallelogram of their differences, the union of the triangles (c − a, d − a, d − b) and (c − a, d − b, c − b).
   So every question is: when does a moving triangle uvw, or one of two, first contain 0?
2. Judge one time. With f = det(u, v, w) and N = u×v + v×w + w×u: the triangle contains 0 only if f = 0. If some
   component N_k ≠ 0, the barycentric coordinates of 0 are (v×w)_k, (w×u)_k, (u×v)_k over N_k: none may be negative.
   If N = 0, the triangle is the union of its edges, and edge uv contains 0 iff u×v = 0 and u·v ≤ 0.
   All of these are signs of polynomials in t: f has degree 3, the others 2.
3. List times. Between neighbouring roots of these polynomials no sign changes, and the times of contact are a closed
   set: the first one is 0 or a root. If f is not the zero polynomial, only its roots count; else those of all others.
4. Compute with roots. A root is rational, or it is a square-free integer polynomial with a dyadic interval that holds
   one simple root (found by Sturm's sequence and halving). The sign of q at a root of p: if gcd(p, q) changes
   sign on the interval, zero; else the interval is halved until bounds of q on it have one sign. Two roots are
   compared likewise.

Guarantee   exact for all finite doubles, subnormal and huge ones included
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import gcd

Poly = tuple[int, ...]
"""Coefficients from the constant upwards, without leading zeros; () is the zero polynomial."""
Moving = tuple[Poly, Poly, Poly]
"""A vector with components linear in t."""

HALVINGS_BEFORE_GCD = 24
"""Signs that differ from zero mostly show in fewer halvings; a gcd costs more than all of them."""


# ------------------------------------------------------------------------------------------ polynomials


def _trim(p: Sequence[int]) -> Poly:
    n = len(p)
    while n and p[n - 1] == 0:
        n -= 1
    return tuple(p[:n])


def _add(p: Poly, q: Poly) -> Poly:
    if len(p) < len(q):
        p, q = q, p
    return _trim([a + b for a, b in zip(p, q)] + list(p[len(q) :]))


def _negate(p: Poly) -> Poly:
    return tuple(-a for a in p)


def _multiply(p: Poly, q: Poly) -> Poly:
    if not p or not q:
        return ()
    out = [0] * (len(p) + len(q) - 1)
    for i, a in enumerate(p):
        for j, b in enumerate(q):
            out[i + j] += a * b
    return tuple(out)


def _primitive(p: Poly) -> Poly:
    """The polynomial over the greatest common divisor of its coefficients."""
    content = gcd(*p)
    return p if content <= 1 else tuple(a // content for a in p)


def _divide(p: Poly, q: Poly) -> tuple[Poly, Poly]:
    """Quotient and remainder of c·p by q for some integer c > 0 (pseudo-division)."""
    rest, factor = list(p), abs(q[-1])
    quotient = [0] * max(len(p) - len(q) + 1, 0)
    for shift in reversed(range(len(quotient))):
        top = rest[shift + len(q) - 1] * _sign(q[-1])
        rest = [a * factor for a in rest]
        quotient = [a * factor for a in quotient]
        quotient[shift] = top
        for i, b in enumerate(q):
            rest[shift + i] -= top * b
    return _trim(quotient), _trim(rest)


def _gcd(p: Poly, q: Poly) -> Poly:
    """A greatest common divisor over the rationals, by Euclid's algorithm; p and q are not both zero."""
    p, q = _primitive(p), _primitive(q)
    while q:
        p, q = q, _primitive(_divide(p, q)[1]) if len(p) >= len(q) else p
    return p


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)


def _sign_at(p: Poly, num: int, den: int) -> int:
    """Sign of p(num / den), den > 0."""
    value, power = 0, 1
    for a in reversed(p):
        value = value * num + a * power
        power *= den
    return _sign(value)


# ------------------------------------------------------------------------------------------------ roots


@dataclass(frozen=True)
class RationalTime:
    """A time that is a fraction."""

    time: Fraction

    @property
    def lo(self) -> Fraction:
        """The time itself."""
        return self.time

    @property
    def hi(self) -> Fraction:
        """The time itself."""
        return self.time

    def sign(self, q: Poly) -> int:
        """Sign of a polynomial at this time."""
        return _sign_at(q, self.time.numerator, self.time.denominator)

    def compare(self, other: Fraction) -> int:
        """−1, 0, +1: this time is before, at, after ``other``."""
        return (self.time > other) - (self.time < other)


class RootTime:
    """The only root of the square-free polynomial p in the open interval (a, b) / 2^k; p ≠ 0 at both ends."""

    def __init__(self, p: Poly, a: int, b: int, k: int):
        self.p, self.a, self.b, self.k = p, a, b, k
        self.sign_before = _sign_at(p, a, 1 << k)

    @property
    def lo(self) -> Fraction:
        """Lower end of the interval, before the root."""
        return Fraction(self.a, 1 << self.k)

    @property
    def hi(self) -> Fraction:
        """Upper end of the interval, after the root."""
        return Fraction(self.b, 1 << self.k)

    def halve(self) -> None:
        """Take the half that holds the root; if the middle is the root, the half around it."""
        middle = self.a + self.b
        sign = _sign_at(self.p, middle, 2 << self.k)
        if sign == 0:
            self.a, self.b, self.k = 2 * middle - (self.b - self.a), 2 * middle + (self.b - self.a), self.k + 2
        elif sign == self.sign_before:
            self.a, self.b, self.k = middle, 2 * self.b, self.k + 1
        else:
            self.a, self.b, self.k = 2 * self.a, middle, self.k + 1

    def sign(self, q: Poly) -> int:
        """Sign of a polynomial at this time."""
        if not q:
            return 0
        halvings = 0
        while True:
            # 0 ≤ a < b: each power of t is largest at b and smallest at a
            least = most = 0
            low, high, scale = 1, 1, 1 << self.k * (len(q) - 1)
            for c in q:
                least += c * scale * (low if c > 0 else high)
                most += c * scale * (high if c > 0 else low)
                low, high, scale = low * self.a, high * self.b, scale >> self.k
            if least > 0 or most < 0:
                return 1 if least > 0 else -1
            if halvings == HALVINGS_BEFORE_GCD and _changes_sign(_gcd(self.p, q), self.lo, self.hi):
                return 0
            for _ in range(4):
                self.halve()
                halvings += 1

    def compare(self, other: Fraction) -> int:
        """−1, 0, +1: this time is before, at, after ``other``."""
        while self.lo < other < self.hi:
            if _sign_at(self.p, other.numerator, other.denominator) == 0:
                return 0
            self.halve()
        return 1 if other <= self.lo else -1


Time = RationalTime | RootTime


def _changes_sign(p: Poly, lo: Fraction, hi: Fraction) -> bool:
    return _sign_at(p, lo.numerator, lo.denominator) != _sign_at(p, hi.numerator, hi.denominator)


def is_before(s: Time, t: Time) -> bool:
    """Whether time s is strictly before time t."""
    if isinstance(t, RationalTime):
        return s.compare(t.time) < 0
    if isinstance(s, RationalTime):
        return t.compare(s.time) > 0
    halvings = 0
    while s.lo < t.hi and t.lo < s.hi:
        if halvings == HALVINGS_BEFORE_GCD and _changes_sign(_gcd(s.p, t.p), max(s.lo, t.lo), min(s.hi, t.hi)):
            return False  # a common root in both intervals: each of them holds but one
        s.halve()
        t.halve()
        halvings += 1
    return s.hi <= t.lo


def _sturm(p: Poly) -> list[Poly]:
    """Sturm's sequence p, p′, … of a polynomial of degree one or more; the last one is gcd(p, p′)."""
    sequence = [p, _primitive(tuple(i * a for i, a in enumerate(p))[1:])]
    while rest := _divide(*sequence[-2:])[1]:
        sequence.append(_primitive(_negate(rest)))
    return sequence


def roots(p: Poly) -> Iterator[Time]:
    """All distinct roots in [0, 1] of a polynomial that is not zero, in ascending order."""
    if len(p) == 1:
        return
    p = _primitive(p)
    sequence = _sturm(p)
    if len(sequence[-1]) > 1:  # roots of the gcd are multiple
        p = _primitive(_divide(p, sequence[-1])[0])
        sequence = _sturm(p)
    if len(p) == 2:
        root = Fraction(-p[0], p[1])
        if 0 <= root <= 1:
            yield RationalTime(root)
        return

    def changes(c: int, k: int) -> int:
        """Changes of sign in the sequence at c / 2^k; (s, t] has as many roots as changes are lost from s to t."""
        signs = [sign for q in sequence if (sign := _sign_at(q, c, 1 << k))]
        return sum(s != t for s, t in pairwise(signs))

    if p[0] == 0:
        yield RationalTime(Fraction(0))
    todo = [(0, 0, changes(0, 0), changes(1, 0))]  # (c, k): search (c, c + 1] / 2^k, with changes at both ends
    while todo:
        c, k, before, after = todo.pop()
        if before == after:
            continue
        if before - after == 1 and _sign_at(p, c + 1, 1 << k) == 0:
            yield RationalTime(Fraction(c + 1, 1 << k))
        elif before - after == 1 and _sign_at(p, c, 1 << k) != 0:
            yield RootTime(p, c, c + 1, k)
        else:
            middle = changes(2 * c + 1, k + 1)
            todo += [(2 * c + 1, k + 1, middle, after), (2 * c, k + 1, before, middle)]


# --------------------------------------------------------------------------------------------- geometry


def _minus(u: Moving, v: Moving) -> Moving:
    return tuple(_add(a, _negate(b)) for a, b in zip(u, v))


def _dot(u: Sequence[Poly], v: Sequence[Poly]) -> Poly:
    return _add(_add(_multiply(u[0], v[0]), _multiply(u[1], v[1])), _multiply(u[2], v[2]))


def _cross(u: Moving, v: Moving) -> tuple[Poly, Poly, Poly]:
    def minor(i: int, j: int) -> Poly:
        return _add(_multiply(u[i], v[j]), _negate(_multiply(u[j], v[i])))

    return minor(1, 2), minor(2, 0), minor(0, 1)


class _Triangle:
    """A moving triangle and the polynomials whose signs say whether it contains 0."""

    def __init__(self, u: Moving, v: Moving, w: Moving):
        self.crosses = [_cross(u, v), _cross(v, w), _cross(w, u)]
        self.dots = [_dot(u, v), _dot(v, w), _dot(w, u)]
        self.det = _dot(u, self.crosses[1])
        self.normal = [_add(_add(a, b), c) for a, b, c in zip(*self.crosses)]

    def contains_zero(self, at: Time) -> bool:
        if at.sign(self.det):
            return False
        for k in range(3):
            side = at.sign(self.normal[k])
            if side:
                return all(side * at.sign(cross[k]) >= 0 for cross in self.crosses)
        return any(
            not any(at.sign(c) for c in cross) and at.sign(dot) <= 0 for cross, dot in zip(self.crosses, self.dots)
        )

    def all_but_det(self) -> set[Poly]:
        """The other polynomials that are not zero everywhere, up to a factor."""
        polys = [*self.normal, *self.dots, *(c for cross in self.crosses for c in cross)]
        return {max(q, _negate(q)) for q in map(_primitive, polys) if len(q) > 1}


@dataclass(frozen=True)
class Impact:
    """Whether and when two features first meet."""

    time: Time | None
    """The first time of contact, None if there is none in [0, 1]."""

    @property
    def hit(self) -> bool:
        """Whether they meet."""
        return self.time is not None

    @property
    def at_start(self) -> bool:
        """Whether they meet at time 0."""
        return self.time is not None and self.time.compare(Fraction(0)) == 0


class Motion:
    """Four corners on straight lines, ``start`` and ``end`` 4×3 of doubles: v, f0, f1, f2 or a0, a1, b0, b1."""

    def __init__(self, start: Sequence[Sequence[float]], end: Sequence[Sequence[float]], *, edges: bool):
        # Each axis is brought to integers by a factor of its own: an affine map keeps contacts.
        axes: list[list[Poly]] = []
        self.boxes_apart = False
        for k in range(3):
            ratios = [x[k].as_integer_ratio() for x in (*start, *end)]
            scale = max(d for _, d in ratios)  # denominators are powers of two: the largest is a common one
            whole = [n * (scale // d) for n, d in ratios]
            factor = gcd(*whole) or 1
            axes.append([_trim((x // factor, (y - x) // factor)) for x, y in zip(whole[:4], whole[4:])])
            ends = whole[:4], whole[4:]
            for sign in (1, -1):
                s, e = ([sign * x for x in row] for row in ends)
                first, second = (slice(0, 2), slice(2, 4)) if edges else (slice(0, 1), slice(1, 4))
                self.boxes_apart |= max(s[first]) < min(s[second]) and max(e[first]) < min(e[second])
        a, b, c, d = zip(*axes)
        if edges:
            ac, bd = _minus(c, a), _minus(d, b)
            self.corners = [(ac, _minus(d, a), bd), (ac, bd, _minus(c, b))]
        else:
            self.corners = [(_minus(b, a), _minus(c, a), _minus(d, a))]

    def first_impact(self) -> Impact:
        """The first contact in [0, 1]."""
        if self.boxes_apart:  # one coordinate of one feature is smaller at 0 and at 1, hence always
            return Impact(None)
        triangles = [_Triangle(*corners) for corners in self.corners]

        def meet(at: Time) -> bool:
            return any(triangle.contains_zero(at) for triangle in triangles)

        det = triangles[0].det  # both triangles of two edges span one plane: their determinants have equal roots
        if det:
            return Impact(next((root for root in roots(det) if meet(root)), None))
        start = RationalTime(Fraction(0))
        if meet(start):
            return Impact(start)
        first: Time | None = None
        for q in set().union(*(triangle.all_but_det() for triangle in triangles)):
            for root in roots(q):
                if (first is None or is_before(root, first)) and meet(root):
                    first = root
        return Impact(first)

    def meet_at(self, time: Fraction) -> bool:
        """Whether the features meet at one rational time."""
        return any(_Triangle(*corners).contains_zero(RationalTime(time)) for corners in self.corners)


def vertex_face(start: Sequence[Sequence[float]], end: Sequence[Sequence[float]]) -> Impact:
    """First impact of a vertex and a face: rows v, f0, f1, f2."""
    return Motion(start, end, edges=False).first_impact()


def edge_edge(start: Sequence[Sequence[float]], end: Sequence[Sequence[float]]) -> Impact:
    """First impact of two edges: rows a0, a1, b0, b1."""
    return Motion(start, end, edges=True).first_impact()
