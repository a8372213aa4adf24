"""The direction of a Newton step: the minimum of a model of the energy around the present positions.

Model  g·d + d·A d / 2 + contacts(x + d), with the gradient g and the matrix A of inertia and elements
(``assembly_kernels``) and the contacts as they are (``contact_kernels``). Without contacts, its minimum solves
A d = -g.

Contacts open, close, stick and slip, which has nothing to do with the elements. With contacts, the model is therefore
minimised by a Newton method of its own, whose steps need no new matrix:

1. Start     from the better one of h v0 and free fall in the first Newton step, from 0 in later ones.
2. Linearise The contacts at x + d give second derivatives H and, where one has changed its state, the preconditioner.
3. Solve     (A + H) e = -gradient by conjugate gradients, to a tenth of the present error.
4. Search    along e: the model is convex and its slope costs one pass over the contacts (``search_line``).
5. Repeat    from 2 until the error is small. In the first Newton step, the limits of friction follow the normal forces
             once, as soon as the error is below ``ROUGH`` times its goal.

Error  √(r·B r) with the residual r and the preconditioner B, as in ``cg_kernels``.
"""

# mypy: ignore-errors

import math

from impinge.backend.jit import compiled
from impinge.deform.implicit import assembly_kernels as assembly
from impinge.deform.implicit import cg_kernels as cg
from impinge.deform.implicit import coarse_kernels as coarse
from impinge.deform.implicit import contact_kernels as contact
from impinge.deform.implicit.cg_kernels import NEGLIGIBLE

GOAL = 0.05
"""Error of a model with contacts, relative to that of Newton's method."""
SHARE = 0.02
"""The same, relative to the error of Newton's method before the step."""
FORCING = 0.1
"""Error of each linear system, relative to that before it."""
ROUGH = 30.0
"""Error relative to the goal at which limits of friction follow the normal forces."""
MOST_CONTACT_STEPS = 40

invert_serial, invert_threaded = assembly.invert_diagonals.serial, assembly.invert_diagonals.parallel
coarse_serial, coarse_threaded = coarse.coarse_rows.serial, coarse.coarse_rows.parallel


# preconditioner and residual ---------------------------------------------------------------------------------------


@compiled
def place(threaded, t, q, s, island):
    """The coarse matrix of the elements, and the preconditioner with the contacts as they were evaluated."""
    coarse.place_clusters(t, q, s, island)
    if threaded is None:
        coarse_serial(t, q, s, island)
    else:
        coarse_threaded(t, q, s, island)
    size = q.coarse_row[island + 1] - q.coarse_row[island]
    base = q.coarse_start[island]
    for k in range(base, base + size * size):
        s.coarse_elements[k] = s.coarse[k]
    prepare(threaded, t, q, s, island)


@compiled
def prepare(threaded, t, q, s, island):
    """The preconditioner: inverses of diagonal blocks, and the factorised coarse matrix, both with contacts."""
    lo, hi = q.leaf_range[island], q.leaf_range[island + 1]
    first, last = q.coarse_row[island], q.coarse_row[island + 1]
    size, base = last - first, q.coarse_start[island]
    for k in range(base, base + size * size):
        s.coarse[k] = s.coarse_elements[k]
    for k in range(lo, hi):
        leaf = q.leaf[k]
        for at in range(6 * t.leaf_start[leaf], 6 * t.leaf_start[leaf + 1]):
            s.inverse[at] = s.diagonal[at]
    contact.add_contact_preconditioner(q, s, island, q.contact_range[island], q.contact_range[island + 1])
    if threaded is None:
        invert_serial(t, q, s, lo, hi)
    else:
        invert_threaded(t, q, s, lo, hi)
    coarse.factorise(s.coarse[base : base + size * size], size, s.pivot[first:last])


@compiled
def error_of(threaded, t, q, s, island, inertia):
    """√(r·B r) and ‖r‖ of the gradient; with ``inertia`` false, of the elements' part of the gradient at x0."""
    h = q.numbers[0]
    for k in range(q.leaf_range[island], q.leaf_range[island + 1]):
        leaf = q.leaf[k]
        for i in range(t.leaf_start[leaf], t.leaf_start[leaf + 1]):
            for at in range(3 * i, 3 * i + 3):
                r = s.gradient[at]
                if not inertia and not q.held[i]:
                    r -= t.mass[i] / (h * h) * (s.x[at] - s.target[at])
                s.r[at], s.p[at], s.q[at] = r, 0.0, 0.0
    if not inertia:
        contact.subtract_contacts(q, s, q.contact_range[island], q.contact_range[island + 1], s.r)
    rr, rz = cg.precondition(threaded, t, q, s, island, 0.0)
    return math.sqrt(max(rz, 0.0)), math.sqrt(rr)


@compiled
def _set_residual(t, q, s, island, start):
    """Choose d and p = d, r = -gradient.

    ``start`` chooses x + d, 0: x; 1: x0 + h v0; 2: x̂; 3: x0, where held vertices move. Returns ‖gradient‖².
    """
    h = q.numbers[0]
    square = 0.0
    for k in range(q.leaf_range[island], q.leaf_range[island + 1]):
        leaf = q.leaf[k]
        for i in range(t.leaf_start[leaf], t.leaf_start[leaf + 1]):
            for at in range(3 * i, 3 * i + 3):
                d = 0.0
                if start == 1 or (start > 0 and q.held[i]):
                    d = h * s.v0[at] - (s.x[at] - s.x0[at])
                elif start == 2:
                    d = s.target[at] - s.x[at]
                elif start == 3:
                    d = s.x0[at] - s.x[at]
                g = s.gradient[at]
                s.d[at], s.p[at], s.r[at] = d, d, -g
                square += g * g
    return square


@compiled
def _subtract_product(t, q, s, island):
    """Subtract q from r; returns ‖r‖²."""
    square = 0.0
    for k in range(q.leaf_range[island], q.leaf_range[island + 1]):
        leaf = q.leaf[k]
        for at in range(3 * t.leaf_start[leaf], 3 * t.leaf_start[leaf + 1]):
            r = s.r[at] - s.q[at]
            s.r[at] = r
            square += r * r
    return square


@compiled
def _clear_direction(t, q, s, island):
    for k in range(q.leaf_range[island], q.leaf_range[island + 1]):
        leaf = q.leaf[k]
        for at in range(3 * t.leaf_start[leaf], 3 * t.leaf_start[leaf + 1]):
            s.p[at], s.q[at] = 0.0, 0.0


# without contacts --------------------------------------------------------------------------------------------------


@compiled
def _start_error(threaded, t, q, s, island, start):
    """Set d and its residual; returns √(r·B r)."""
    _set_residual(t, q, s, island, start)
    cg.product(threaded, t, q, s, island)
    _subtract_product(t, q, s, island)
    _clear_direction(t, q, s, island)
    _, rz = cg.precondition(threaded, t, q, s, island, 0.0)
    return math.sqrt(max(rz, 0.0))


@compiled
def _right_hand_side(threaded, t, q, s, island, first):
    """The norm that residuals are relative to."""
    norm = math.sqrt(_set_residual(t, q, s, island, 0))
    if first and q.moving[island]:
        _set_residual(t, q, s, island, 3)
        cg.product(threaded, t, q, s, island)
        norm = max(norm, math.sqrt(_subtract_product(t, q, s, island)))
    return norm


@compiled
def solve_linear(threaded, t, q, s, island, scale, first):
    """Solve for d; returns iterations, and the residual relative to the right-hand side."""
    norm = _right_hand_side(threaded, t, q, s, island, first)
    _set_residual(t, q, s, island, 0)
    if first:
        fall = _start_error(threaded, t, q, s, island, 2)
        if _start_error(threaded, t, q, s, island, 1) > fall:
            _start_error(threaded, t, q, s, island, 2)
    _clear_direction(t, q, s, island)
    residual = q.numbers[6] * norm if q.numbers[6] > 0.0 else math.inf
    count, _, left = cg.conjugate_gradients(
        threaded, t, q, s, island, q.numbers[1] * scale, residual, int(q.numbers[4]), False
    )
    return count, left / norm if norm > 0.0 else 0.0


# with contacts -----------------------------------------------------------------------------------------------------


@compiled
def _contacts_at(t, q, s, island):
    """Set x to base + total and the gradient to smooth + image + contacts there; returns the energy of contacts."""
    for k in range(q.leaf_range[island], q.leaf_range[island + 1]):
        leaf = q.leaf[k]
        for at in range(3 * t.leaf_start[leaf], 3 * t.leaf_start[leaf + 1]):
            s.x[at] = s.base[at] + s.total[at]
            s.gradient[at] = s.smooth[at] + s.image[at]
    return contact.evaluate_contacts(q, s, q.contact_range[island], q.contact_range[island + 1])


@compiled
def _start_from(threaded, t, q, s, island, start):
    """Set total and image; returns the error."""
    for k in range(q.leaf_range[island], q.leaf_range[island + 1]):
        leaf = q.leaf[k]
        for at in range(3 * t.leaf_start[leaf], 3 * t.leaf_start[leaf + 1]):
            s.x[at] = s.base[at]
    _set_residual(t, q, s, island, start)
    cg.element_product(threaded, t, q, s, island)
    for k in range(q.leaf_range[island], q.leaf_range[island + 1]):
        leaf = q.leaf[k]
        for at in range(3 * t.leaf_start[leaf], 3 * t.leaf_start[leaf + 1]):
            s.total[at], s.image[at] = s.d[at], s.q[at]
    _contacts_at(t, q, s, island)
    return error_of(threaded, t, q, s, island, True)[0]


@compiled
def _advance(threaded, t, q, s, island):
    """Move by the best fraction of the direction d."""
    first, last = q.contact_range[island], q.contact_range[island + 1]
    for k in range(q.leaf_range[island], q.leaf_range[island + 1]):
        leaf = q.leaf[k]
        for at in range(3 * t.leaf_start[leaf], 3 * t.leaf_start[leaf + 1]):
            s.p[at] = s.d[at]
    curvature = cg.element_product(threaded, t, q, s, island)
    slope = 0.0
    for k in range(q.leaf_range[island], q.leaf_range[island + 1]):
        leaf = q.leaf[k]
        for at in range(3 * t.leaf_start[leaf], 3 * t.leaf_start[leaf + 1]):
            slope += (s.smooth[at] + s.image[at]) * s.d[at]
    contact.set_line(q, s, first, last)
    fraction = contact.search_line(q, s, first, last, slope, curvature)
    for k in range(q.leaf_range[island], q.leaf_range[island + 1]):
        leaf = q.leaf[k]
        for at in range(3 * t.leaf_start[leaf], 3 * t.leaf_start[leaf + 1]):
            s.total[at] += fraction * s.d[at]
            s.image[at] += fraction * s.q[at]


@compiled
def minimise(threaded, t, q, s, island, scale, least, outer, first, guessed):
    """Find d; returns iterations, the relative residual, and the change of the energy at x by new limits of friction.

    The gradient is that at x with these limits.
    """
    lo, hi = q.contact_range[island], q.contact_range[island + 1]
    goal = max(max(q.numbers[1], GOAL * q.numbers[2]) * scale, least)
    if outer < math.inf:
        goal = max(goal, SHARE * outer)
    norm = _right_hand_side(threaded, t, q, s, island, first)
    residual = q.numbers[6] * norm if q.numbers[6] > 0.0 else math.inf
    for k in range(q.leaf_range[island], q.leaf_range[island + 1]):
        leaf = q.leaf[k]
        for at in range(3 * t.leaf_start[leaf], 3 * t.leaf_start[leaf + 1]):
            s.base[at], s.smooth[at] = s.x[at], s.gradient[at]
            s.total[at], s.image[at] = 0.0, 0.0
    contact.subtract_contacts(q, s, lo, hi, s.smooth)
    before = _contacts_at(t, q, s, island)
    if first:
        best, least_error = -1, math.inf
        for start in range(0 if guessed else 1, 4):
            error = _start_from(threaded, t, q, s, island, start)
            if error < least_error:
                best, least_error = start, error
        if best != 3:
            _start_from(threaded, t, q, s, island, best)
    iterations, rounds, left, state = 0, 0, 0.0, -1
    for _ in range(MOST_CONTACT_STEPS):
        now = contact.state_of(s, lo, hi)
        if now != state:
            prepare(threaded, t, q, s, island)
            state = now
        error, left = error_of(threaded, t, q, s, island, True)
        error = max(error, cg.imbalance(t, q, s, island))
        if first and not guessed and rounds == 0 and error <= ROUGH * goal:
            rounds = 1
            if contact.limit_change(q, s, lo, hi) > contact.CHANGE:
                contact.update_limits(q, s, lo, hi)
                _contacts_at(t, q, s, island)
                continue
        small = goal if iterations > 0 else NEGLIGIBLE * goal
        if (error <= small and left <= residual) or not math.isfinite(error):
            break
        _set_residual(t, q, s, island, 0)
        _clear_direction(t, q, s, island)
        count, _, _ = cg.conjugate_gradients(
            threaded, t, q, s, island, max(FORCING * error, 0.5 * goal), residual, int(q.numbers[4]), True
        )
        iterations += count
        if count == 0 and error <= goal:
            break
        _advance(threaded, t, q, s, island)
        _contacts_at(t, q, s, island)
    for k in range(q.leaf_range[island], q.leaf_range[island + 1]):
        leaf = q.leaf[k]
        for at in range(3 * t.leaf_start[leaf], 3 * t.leaf_start[leaf + 1]):
            s.d[at], s.total[at], s.image[at] = s.total[at], 0.0, 0.0
    after = _contacts_at(t, q, s, island)
    return iterations, left / norm if norm > 0.0 else 0.0, after - before
