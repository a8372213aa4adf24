"""Random queries of continuous collision detection in which degeneracy is the rule, by class.

A class is a function of (generator, count, edges) that returns start and end, each (n, 4, 3): rows v, f0, f1, f2, or
a0, a1, b0, b1 if ``edges``. Coordinates are small integers or quarters unless a class says otherwise, so what is
constructed to touch does so exactly. Every class has queries that meet and queries that do not.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Query = tuple[np.ndarray, np.ndarray]
Maker = Callable[[np.random.Generator, int, bool], Query]


def _both(start: np.ndarray, end: np.ndarray) -> Query:
    return np.asarray(start, dtype=np.float64), np.asarray(end, dtype=np.float64)


def _pick(rng: np.random.Generator, n: int, first: Query, second: Query) -> Query:
    """Row by row, from one of two lots at random."""
    which = rng.random((n, 1, 1)) < 0.5
    return np.where(which, first[0], second[0]), np.where(which, first[1], second[1])


def touching(rng: np.random.Generator, n: int, edges: bool) -> np.ndarray:
    """Features in one position (n, 4, 3) that touch in two of three rows, often at a corner or on an edge."""
    x = 4.0 * rng.integers(-3, 4, (n, 4, 3))
    if edges:
        # a0 is moved until the point at s of a is the point at t of b; s = -1/2 and 3/2 are beyond the ends
        s, t = (rng.choice([0.0, 0.5, 1.0, 0.5, 1.5, -0.5], (n, 1)) for _ in range(2))
        apart = x[:, 2] + t * (x[:, 3] - x[:, 2]) - (x[:, 0] + s * (x[:, 1] - x[:, 0]))
        x[:, :2] += apart[:, None]
        return x
    weights = np.array([[4, 0, 0], [2, 2, 0], [2, 1, 1], [1, 1, 2], [1, 4, -1], [5, -1, 0]]) / 4
    weight = rng.permuted(weights[rng.integers(0, len(weights), n)], axis=1)
    x[:, 0] = np.einsum("nk,nkd->nd", weight, x[:, 1:])
    return x


def small_integers(rng: np.random.Generator, n: int, edges: bool) -> Query:
    """Corners anywhere in boxes of side 1 to 4."""
    box = rng.integers(1, 5, (n, 1, 1)) + 1
    return _both(rng.integers(0, box, (n, 4, 3)), rng.integers(0, box, (n, 4, 3)))


def planar(rng: np.random.Generator, n: int, edges: bool) -> Query:
    """Everything stays in one plane: of two axes, or tilted."""
    start, end = small_integers(rng, n, edges)
    tilt = rng.integers(-2, 3, (2, n, 1))
    for x in (start, end):
        x[:, :, 2] = tilt[0] * x[:, :, 0] + tilt[1] * x[:, :, 1]
    return start, end


def collinear(rng: np.random.Generator, n: int, edges: bool) -> Query:
    """All corners on one line at each time; the line itself may turn."""
    direction = rng.integers(-2, 3, (2, n, 1, 3))
    direction[1] = np.where(rng.random((n, 1, 1)) < 0.7, direction[0], direction[1])
    along = rng.integers(-6, 7, (2, n, 4, 1))
    return _both(along[0] * direction[0], along[1] * direction[1])


def static(rng: np.random.Generator, n: int, edges: bool) -> Query:
    """No motion; half of the queries touch or nearly do."""
    x = np.where(rng.random((n, 1, 1)) < 0.5, touching(rng, n, edges), small_integers(rng, n, edges)[0])
    return x, x.copy()


def translated(rng: np.random.Generator, n: int, edges: bool) -> Query:
    """One feature stands still, the other is translated; they touch at some quarter of the time or never."""
    x = touching(rng, n, edges)
    velocity = 4.0 * rng.integers(-2, 3, (n, 1, 3))
    time = rng.integers(-1, 6, (n, 1, 1)) / 4
    moving = np.arange(4)[None, :, None] < (2 if edges else 1)
    return np.where(moving, x - time * velocity, x), np.where(moving, x + (1 - time) * velocity, x)


def common_motion(rng: np.random.Generator, n: int, edges: bool) -> Query:
    """Everything moves by one vector: contact at the start or never."""
    x = touching(rng, n, edges)
    return x, x + rng.integers(-3, 4, (n, 1, 3))


def shared_points(rng: np.random.Generator, n: int, edges: bool) -> Query:
    """All corners at both times are drawn from a few points: corners coincide, features collapse."""
    count = 5 if edges else 6
    pool = rng.integers(0, 4, (n, count, 3))
    rows = np.arange(n)[:, None]
    return _both(pool[rows, rng.integers(0, count, (n, 4))], pool[rows, rng.integers(0, count, (n, 4))])


def collapsed(rng: np.random.Generator, n: int, edges: bool) -> Query:
    """A face of zero area or an edge of zero length, at the start, at the end or throughout."""
    start, end = (touching(rng, n, edges), 4.0 * rng.integers(-3, 4, (n, 4, 3)))
    swap = rng.random((n, 1, 1)) < 0.5
    start, end = np.where(swap, end, start), np.where(swap, start, end)
    when = rng.integers(1, 4, n)
    for bit, x in ((1, start), (2, end)):
        flat = (when & bit) > 0
        middle = x[:, 1] + (x[:, 2] - x[:, 1]) * rng.choice([0.0, 0.5, 1.0, 2.0], (n, 1))
        x[flat, 3] = x[flat, 2] if edges else middle[flat]
    return start, end


def parallel(rng: np.random.Generator, n: int, edges: bool) -> Query:
    """Edges with one direction at both times; for faces, a motion in a plane through an edge of the face."""
    if not edges:
        start, end = touching(rng, n, edges), touching(rng, n, edges)
        along = rng.integers(-2, 3, (2, n, 2))
        for x, (s, t) in zip((start, end), along.transpose(0, 2, 1)):
            x[:, 0] = x[:, 1] + (s / 2)[:, None] * (x[:, 2] - x[:, 1])
            x[:, 3] = x[:, 2] + t[:, None] * (x[:, 2] - x[:, 1])
        return start, end
    direction = rng.integers(-2, 3, (2, n, 3))
    direction[1] = np.where(rng.random((n, 1)) < 0.7, direction[0], direction[1])
    side = rng.integers(-1, 2, (n, 3))  # the second edge passes the first sideways, or changes its side
    ends = rng.integers(-3, 4, (2, n, 4, 1)) * direction[:, :, None]
    ends[:, :, 2:] += rng.integers(-2, 3, (2, n, 1, 1)) * side[:, None]
    return _both(*ends)


def touching_at_start(rng: np.random.Generator, n: int, edges: bool) -> Query:
    """Touch at the start in two of three rows, then anything."""
    return touching(rng, n, edges), 4.0 * rng.integers(-3, 4, (n, 4, 3))


def touching_at_end(rng: np.random.Generator, n: int, edges: bool) -> Query:
    """Anything, and at the end touch in two of three rows."""
    return 4.0 * rng.integers(-3, 4, (n, 4, 3)), touching(rng, n, edges)


def grazing(rng: np.random.Generator, n: int, edges: bool) -> Query:
    """Coplanar at half time with a double root of the determinant, and then mostly touching."""
    middle = touching(rng, n, edges)
    velocity = rng.integers(-2, 3, (n, 4, 3)).astype(np.float64)
    # det(x1 - x0, x2 - x0, x3 - x0) has the gradients g1, g2, g3 at x1, x2, x3, and -(g1 + g2 + g3) at x0
    u, v, w = (middle[:, k] - middle[:, 0] for k in (1, 2, 3))
    gradient = np.stack([np.cross(v, w), np.cross(w, u), np.cross(u, v)], axis=1)
    gradient = np.concatenate([-gradient.sum(axis=1, keepdims=True), gradient], axis=1)
    rate = np.einsum("nkd,nkd->n", gradient, velocity)
    # x0 moves along one axis to cancel the rate; all velocities times that component of the gradient are integers
    axis = np.argmax(np.abs(gradient[:, 0]), axis=1)
    rows = np.arange(n)
    divisor = gradient[rows, 0, axis]
    velocity *= np.where(divisor == 0, 1, divisor)[:, None, None]
    velocity[rows, 0, axis] -= np.where(divisor == 0, 0, rate)
    return middle - velocity, middle + velocity


def nearly_grazing(rng: np.random.Generator, n: int, edges: bool) -> Query:
    """Grazing but for one coordinate, which is 2^-60 to 2^-1000 instead of 0: no root, or two very near ones."""
    start, end = grazing(rng, n, edges)
    rows, axis, corner = np.arange(n), rng.integers(0, 3, n), rng.integers(0, 4, n)
    offset = start[rows, corner, axis]
    for x in (start, end):
        x[rows, :, axis] -= offset[:, None]
    start[rows, corner, axis] = np.ldexp(rng.choice([-1.0, 1.0], n), -rng.choice([60, 100, 200, 500, 1000], n))
    return start, end


def turning(rng: np.random.Generator, n: int, edges: bool) -> Query:
    """Coplanar at a third of the time, when a quadratic of the test for the inside has its extremum."""
    then = touching(rng, n, edges)
    velocity = 3.0 * rng.integers(-2, 3, (n, 4, 3))
    u, v = then[:, 1] - then[:, 0], then[:, 2] - then[:, 0]
    du, dv = velocity[:, 1] - velocity[:, 0], velocity[:, 2] - velocity[:, 0]
    # component z of u × v has the rate du × v + u × dv; x of the velocity of corner 1 cancels it
    rate = (np.cross(du, v) + np.cross(u, dv))[:, 2]
    divisor = v[:, 1]
    velocity *= np.where(divisor == 0, 1, divisor)[:, None, None]
    velocity[:, 1, 0] -= np.where(divisor == 0, 0, rate)
    rolled = (np.arange(3) + rng.integers(0, 3, (n, 1)))[:, None] % 3
    return tuple(np.take_along_axis(x, rolled, axis=2) for x in (then - velocity / 3, then + 2 * velocity / 3))


def axis_aligned(rng: np.random.Generator, n: int, edges: bool) -> Query:
    """Edges and right-angled faces along the axes, near each other; each feature moves along the third axis."""
    x = rng.integers(-1, 2, (n, 4, 3))
    axes = np.eye(3, dtype=np.int64)[np.argsort(rng.random((n, 3)), axis=1)]
    length = rng.choice([-3, -2, 2, 3], (n, 2, 1))
    if edges:
        x[:, 1] = x[:, 0] + length[:, 0] * axes[:, 0]
        second = np.where(rng.random((n, 1)) < 0.8, axes[:, 1], axes[:, 0])
        x[:, 3] = x[:, 2] + length[:, 1] * second
    else:
        x[:, 2] = x[:, 1] + length[:, 0] * axes[:, 0]
        x[:, 3] = x[:, 1] + length[:, 1] * axes[:, 1]
    far = rng.integers(-4, 5, (n, 2, 1)) * axes[:, 2:]
    return _both(x, x + far[:, [0, 0, 1, 1] if edges else [0, 1, 1, 1]])


def real_numbers(rng: np.random.Generator, n: int, edges: bool) -> Query:
    """Random doubles: the ordinary case."""
    return rng.standard_normal((n, 4, 3)), rng.standard_normal((n, 4, 3))


def rounded_touch(rng: np.random.Generator, n: int, edges: bool) -> Query:
    """Real numbers that touch at the start, at the end or in between but for the rounding of coordinates."""
    x = rng.standard_normal((n, 4, 3))
    if edges:
        s, t = rng.random((2, n, 1))
        x[:, :2] += (x[:, 2] + t * (x[:, 3] - x[:, 2]) - (x[:, 0] + s * (x[:, 1] - x[:, 0])))[:, None]
    else:
        x[:, 0] = np.einsum("nk,nkd->nd", rng.dirichlet((1, 1, 1), n), x[:, 1:])
    velocity = rng.standard_normal((n, 4, 3)) * (rng.random((n, 4, 1)) < 0.7)
    time = rng.choice([0.0, 1.0, 0.5, 1e-9], (n, 1, 1))
    return x - time * velocity, x + (1 - time) * velocity


def rounded_border(rng: np.random.Generator, n: int, edges: bool) -> Query:
    """A corner moves through an edge along an axis, seen along which it stays on the edge but for rounding."""
    start, end = rng.standard_normal((2, n, 4, 3))
    axis = np.eye(3)[rng.integers(0, 3, n)]
    height = rng.random((n, 1)) + 0.1
    weight = rng.choice([0.0, 0.25, 0.5, 1.0, -1.0], (n, 1))
    weight = np.where(weight < 0, rng.random((n, 1)), weight)
    for x, sign in ((start, 1), (end, -1)):
        x[:, 0] = x[:, 2] + weight * (x[:, 3] - x[:, 2]) + sign * height * axis
    return start, end


def three_crossings(rng: np.random.Generator, n: int, edges: bool) -> Query:
    """The determinant has three chosen roots, two of them perhaps nearly equal; mostly the features meet at each.

    x and y of all corners are chosen; the determinant is then linear in the z of the corners, at each time.
    """
    base = [(-2, 0), (2, 0), (0, -2), (0, 2)] if edges else [(1, 1), (0, 0), (4, 0), (0, 4)]
    start, end = np.zeros((2, n, 4, 3))
    for x in (start, end):
        x[:, :, :2] = np.array(base) + 0.5 * rng.standard_normal((n, 4, 2))
    root = rng.uniform(-0.2, 1.2, (n, 3))
    near = rng.choice([0.0, 1e-3, 1e-6, 1e-9], n)
    root[:, 1] = np.where(rng.random(n) < 0.5, root[:, 0] + near, root[:, 1])
    times = np.arange(4) / 3
    equation, value = np.empty((n, 4, 8)), np.empty((n, 4))
    for m, t in enumerate(times):
        x = (1 - t) * start + t * end
        u, v, w = (x[:, k] - x[:, 0] for k in (1, 2, 3))
        of_z = np.stack([np.cross(v, w)[:, 2], np.cross(w, u)[:, 2], np.cross(u, v)[:, 2]], axis=1)
        of_z = np.concatenate([-of_z.sum(axis=1, keepdims=True), of_z], axis=1)
        equation[:, m] = np.concatenate([(1 - t) * of_z, t * of_z], axis=1)
        value[:, m] = (t - root).prod(axis=1)
    z = np.einsum("nij,nj->ni", np.linalg.pinv(equation), value)
    start[:, :, 2], end[:, :, 2] = z[:, :4], z[:, 4:]
    return start, end


PLAIN: dict[str, Maker] = {
    "small integers": small_integers,
    "planar": planar,
    "collinear": collinear,
    "static": static,
    "translated": translated,
    "common motion": common_motion,
    "shared points": shared_points,
    "collapsed": collapsed,
    "parallel": parallel,
    "touching at start": touching_at_start,
    "touching at end": touching_at_end,
    "grazing": grazing,
    "nearly grazing": nearly_grazing,
    "turning": turning,
    "axis-aligned": axis_aligned,
    "real numbers": real_numbers,
    "rounded touch": rounded_touch,
    "rounded border": rounded_border,
    "three crossings": three_crossings,
}


def _any_plain(rng: np.random.Generator, n: int, edges: bool) -> Query:
    """Rows of all plain classes in random order."""
    lots = [make(rng, n, edges) for make in PLAIN.values()]
    which, rows = rng.integers(0, len(lots), n), np.arange(n)
    start, end = (np.stack([lot[i] for lot in lots])[which, rows] for i in (0, 1))
    return start, end


def one_ulp_off(rng: np.random.Generator, n: int, edges: bool) -> Query:
    """A plain query in which one to three coordinates are moved to the next double; next to 0 is 5e-324, or 1e-17."""
    ends = np.stack(_any_plain(rng, n, edges), axis=1).reshape(n, 24)
    for _ in range(3):
        column = rng.integers(0, 24, n)
        value = ends[np.arange(n), column]
        sign = rng.choice([-1.0, 1.0], n)
        moved = np.nextafter(value, sign * np.inf)
        moved = np.where((value == 0) & (rng.random(n) < 0.5), sign * 1e-17, moved)
        ends[np.arange(n), column] = np.where(rng.random(n) < 0.7, moved, value)
    ends = ends.reshape(n, 2, 4, 3)
    return ends[:, 0].copy(), ends[:, 1].copy()


def _scaled(rng: np.random.Generator, n: int, edges: bool, power: np.ndarray) -> Query:
    """Plain or nearly degenerate queries times powers of two (n, 1, 1) or (n, 1, 3)."""
    start, end = _pick(rng, n, _any_plain(rng, n, edges), one_ulp_off(rng, n, edges))
    return np.ldexp(start, power), np.ldexp(end, power)


def tiny(rng: np.random.Generator, n: int, edges: bool) -> Query:
    """About 1e-300: products underflow."""
    return _scaled(rng, n, edges, rng.integers(-1000, -980, (n, 1, 1)))


def subnormal(rng: np.random.Generator, n: int, edges: bool) -> Query:
    """Small multiples of 5e-324."""
    return _scaled(rng, n, edges, rng.integers(-1074, -1070, (n, 1, 1)))


def huge(rng: np.random.Generator, n: int, edges: bool) -> Query:
    """From 1e302 to the largest doubles: products, sums and differences overflow."""
    start, end = _pick(rng, n, _any_plain(rng, n, edges), one_ulp_off(rng, n, edges))
    largest = np.maximum(np.abs(start), np.abs(end)).max(axis=(1, 2), keepdims=True)
    power = 1024 - np.frexp(largest)[1] - rng.choice([0, 1, 2, 20], (n, 1, 1))
    return np.ldexp(start, power), np.ldexp(end, power)


def scaled_axes(rng: np.random.Generator, n: int, edges: bool) -> Query:
    """Another power of two on every axis, from 1e-300 to 1e300."""
    return _scaled(rng, n, edges, rng.integers(-1000, 1000, (n, 1, 3)))


def mixed_scales(rng: np.random.Generator, n: int, edges: bool) -> Query:
    """Plain queries, to a third of whose coordinates a number between 1e-300 and 1e300 is added or assigned."""
    start, end = _any_plain(rng, n, edges)
    for x in (start, end):
        size = np.ldexp(rng.choice([-1.0, 1.0], x.shape), rng.integers(-1000, 1000, x.shape))
        size = np.where(rng.random((n, 1, 1)) < 0.8, np.minimum(np.abs(size), 1e-3) * np.sign(size), size)
        change = rng.random(x.shape) < rng.choice([0.05, 0.33], (n, 1, 1))
        x[change] = (x + size)[change]
    zero = rng.random((n, 4, 3)) < 0.1
    start[zero & (start == 0)] = 5e-324
    return start, end


CLASSES: dict[str, Maker] = {
    **PLAIN,
    "one ulp off": one_ulp_off,
    "tiny": tiny,
    "subnormal": subnormal,
    "huge": huge,
    "scaled axes": scaled_axes,
    "mixed scales": mixed_scales,
}
