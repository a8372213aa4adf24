"""Projected Gauss-Seidel sweeps over contacts, for ``contact_forces``.

Rows are triples (start, vertex, weight): row i has the entries start[i] to start[i + 1], each a coarse vertex and a
vector (push) or a 3 x 3 matrix (slide). A vertex may come twice in a row.
"""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled


@compiled
def _deepens(i, push, v):
    start, vertex, weight = push
    total = 0.0
    for e in range(start[i], start[i + 1]):
        n = vertex[e]
        total += weight[e, 0] * v[n, 0] + weight[e, 1] * v[n, 1] + weight[e, 2] * v[n, 2]
    return total


@compiled
def deepening(push, v, out):
    """Find how fast each contact deepens."""
    for i in range(len(out)):
        out[i] = _deepens(i, push, v)


@compiled
def act_back(push, slide, pressed, rubbed, out):
    """Add what pushes and friction do to vertices, side a being pushed back."""
    start, vertex, weight = push
    for i in range(len(pressed)):
        if pressed[i] == 0.0:
            continue
        for e in range(start[i], start[i + 1]):
            for c in range(3):
                out[vertex[e], c] -= weight[e, c] * pressed[i]
    start, vertex, block = slide
    for i in range(len(pressed)):
        if rubbed[i, 0] == 0.0 and rubbed[i, 1] == 0.0 and rubbed[i, 2] == 0.0:
            continue
        for e in range(start[i], start[i + 1]):
            for c in range(3):
                for r in range(3):
                    out[vertex[e], c] -= block[e, r, c] * rubbed[i, r]


@compiled
def own_masses(push, slide, inverse_mass, room, square, along, across):
    """Find how much a unit of push, and of friction in the worst direction, changes the speed of its own contact.

    Across, a bound by row sums of the 3 x 3 block S M⁻¹ Sᵀ. ``room`` is zero, shape (n, 3, 3), and so it is left;
    ``square`` is room for that block.
    """
    start, vertex, weight = push
    for i in range(len(along)):
        for e in range(start[i], start[i + 1]):
            for c in range(3):
                room[vertex[e], 0, c] += weight[e, c]
        total = 0.0
        for e in range(start[i], start[i + 1]):
            n = vertex[e]
            for c in range(3):
                total += inverse_mass[n] * room[n, 0, c] * room[n, 0, c]
                room[n, 0, c] = 0.0
        along[i] = total
    start, vertex, block = slide
    for i in range(len(across)):
        for e in range(start[i], start[i + 1]):
            for r in range(3):
                for c in range(3):
                    room[vertex[e], r, c] += block[e, r, c]
        square[:, :] = 0.0
        for e in range(start[i], start[i + 1]):
            n = vertex[e]
            for r in range(3):
                for q in range(3):
                    for c in range(3):
                        square[r, q] += inverse_mass[n] * room[n, r, c] * room[n, q, c]
            room[n, :, :] = 0.0
        across[i] = 0.0
        for r in range(3):
            across[i] = max(across[i], abs(square[r, 0]) + abs(square[r, 1]) + abs(square[r, 2]))


@compiled
def solve(
    h, since, most, tolerance, push, slide, inverse_mass, normal, depth, stiffness, relax, along, across, scale, unit,
    rate, drive, grip, dx, free,
    # in and out
    pressed, rubbing, force,
):  # fmt: skip
    """Find the forces of all contacts over a sub-step ``h``, from those of the one before, and add what they do.

    Sweeps end when no speed changes by more than ``tolerance`` of the largest in ``free``, or after ``most``.
    """
    count = 0
    active, slip = np.empty(len(pressed), dtype=np.int64), np.empty(3)
    bias, gain = np.empty(len(pressed)), np.empty(len(pressed))
    for i in range(len(pressed)):
        now = depth[i] + _deepens(i, push, dx) + since * rate[i]
        if now + h * (_deepens(i, push, free) + rate[i]) > 0.0:
            active[count] = i
            count += 1
            bias[i], gain[i] = h * stiffness[i] * now, h * stiffness[i] * (h + relax[i])
        else:
            pressed[i] = 0.0
            rubbing[i] = 0.0
    v, fastest = np.zeros_like(free), 0.0
    act_back(push, slide, pressed, rubbing, v)
    for n in range(len(free)):
        for c in range(3):
            fastest = max(fastest, abs(free[n, c]))
            v[n, c] = free[n, c] + h * inverse_mass[n] * v[n, c]
    pressed *= h
    rubbing *= h
    for _ in range(most):
        largest = _sweep(
            push, slide, inverse_mass, normal, active[:count], bias, gain, along, across, scale, unit, rate, drive,
            grip, pressed, rubbing, v, slip,
        )  # fmt: skip
        if largest <= tolerance * fastest:
            break
    pressed /= h
    rubbing /= h
    act_back(push, slide, pressed, rubbing, force)


@compiled
def _sweep(
    push, slide, inverse_mass, normal, active, bias, gain, along, across, scale, unit, rate, drive, grip,
    # in and out
    pressed, rubbed, v, slip,
):  # fmt: skip
    """Bring each contact in turn to where its own law holds, as the others are now; return the largest change of speed.

    ``scale`` is the force per push, ``unit`` what makes a speed of how fast a depth changes: 1, for volumes an area.
    ``pressed`` and ``rubbed`` are impulses, which have already acted on ``v``; ``slip`` is room for three numbers.
    """
    start, vertex, weight = push
    largest = 0.0
    for i in active:
        u = rate[i] + _deepens(i, push, v)
        change = max((bias[i] + gain[i] * u - pressed[i]) / (1.0 + gain[i] * along[i]), -pressed[i])
        pressed[i] += change
        largest = max(largest, abs(change) * along[i] / unit[i])
        for e in range(start[i], start[i + 1]):
            n = vertex[e]
            for c in range(3):
                v[n, c] -= inverse_mass[n] * weight[e, c] * change
        if grip[i] > 0.0 and across[i] > 0.0:
            most = grip[i] * pressed[i] * scale[i]
            largest = max(largest, _hold(i, slide, inverse_mass, normal, across, drive, most, rubbed, v, slip))
    return largest


@compiled
def _hold(i, slide, inverse_mass, normal, across, drive, most, rubbed, v, slip):
    """Stop the sliding of one contact as far as friction can; return how much its speed has changed."""
    start, vertex, block = slide
    for r in range(3):
        slip[r] = drive[i, r]
    for e in range(start[i], start[i + 1]):
        n = vertex[e]
        for r in range(3):
            slip[r] += block[e, r, 0] * v[n, 0] + block[e, r, 1] * v[n, 1] + block[e, r, 2] * v[n, 2]
    inward = slip[0] * normal[i, 0] + slip[1] * normal[i, 1] + slip[2] * normal[i, 2]
    size = 0.0
    for r in range(3):
        slip[r] = rubbed[i, r] + (slip[r] - inward * normal[i, r]) / across[i]
        size += slip[r] * slip[r]
    size = size**0.5
    share = most / size if size > most else 1.0
    largest = 0.0
    for r in range(3):
        slip[r] = share * slip[r] - rubbed[i, r]
        rubbed[i, r] += slip[r]
        largest = max(largest, abs(slip[r]))
    for e in range(start[i], start[i + 1]):
        n = vertex[e]
        for c in range(3):
            change = block[e, 0, c] * slip[0] + block[e, 1, c] * slip[1] + block[e, 2, c] * slip[2]
            v[n, c] -= inverse_mass[n] * change
    return largest * across[i]
