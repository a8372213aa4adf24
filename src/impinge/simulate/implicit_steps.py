"""Implicit steps of all bodies between two searches: elastic forces, contacts and friction in one minimisation.

Contacts are constraints on coarse vertices (``respond.contact_forces``). In a step of length h they become terms of the
incremental energy (``deform.implicit``):

1. Normal   p = k (d + h u) + c u with depth d, depth rate u at the end of the step, and c = k T, is the force of the
            one-sided spring k (1 + T / h) at the depth d / (1 + T / h) + G dx + h rate: pushes, never pulls. Where the
            sides are apart (d < 0), damping begins where they touch: the depth is d + G dx + h rate.
2. Friction A spring ``STICKING`` times as stiff as the contact's own inertia begins with the friction force of the step
            before: a contact that holds a load does not creep. Its force is returned to μ p, p the normal force of the
            last round (``deform.implicit.contact_kernels``).

Rigid       bodies are four masses in the minimisation; ``bodies.rigid_motion`` predicts their rotation and makes the
            result rigid.
Islands     of bodies that contacts join are solved separately. Sleeping bodies are held.
Guarantee   Contact forces are those of the last iterate: action equals reaction, and momentum is kept to rounding. A
            step that does not converge is reported, and so is friction whose limits have not settled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from impinge.bodies.rigid_body import RigidBody
from impinge.bodies.rigid_motion import RigidMotion
from impinge.checks import Floats
from impinge.deform.fem import Elements
from impinge.deform.implicit.system import (
    MOST_NEWTON_STEPS,
    NEWTON_TOLERANCE,
    ContactTerms,
    ImplicitReport,
    ImplicitSystem,
    Method,
)
from impinge.deform.springs import SpringSheet
from impinge.respond.contact_forces import ContactForces, SparseRows
from impinge.simulate import implicit_steps_kernels as kernels
from impinge.simulate.simulated_bodies import DynamicBody

STICKING = 100.0
"""Stiffness of a sticking contact relative to its own inertia over a step: a load that changes by f moves the contact
once by f h² / (100 m). With 10, Newton's method takes two thirds of the steps, and stacks swing for seconds."""
ROUGH_TOLERANCE = 0.02
"""Relative error of velocities that is enough to look for impacts."""
FORCE_CHANGE = 0.02
"""Difference between limits of friction and normal forces, relative to the sum of limits, that counts as settled."""


class ImplicitSteps:
    """Implicit steps of several bodies; their coarse states are rows of common arrays."""

    def __init__(self, bodies: Sequence[DynamicBody], row_count: int, method: Method) -> None:
        self.bodies, self._method = bodies, method
        models = [cast("Elements | SpringSheet", body.source.model) for body in bodies]
        self._system = ImplicitSystem(models, [body.start for body in bodies], row_count)
        self._rigid = [body for body in bodies if body.is_rigid]
        tets = [body.source.model for body in self._rigid if isinstance(body.source, RigidBody)]
        first = [body.start for body in self._rigid]
        self._rigid_euler, self._rigid_midpoint = RigidMotion(tets, first), RigidMotion(tets, first)

    def step(
        self,
        x: Floats,
        v: Floats,
        h: float,
        contacts: ContactForces,
        gravity: Floats,
        asleep: Sequence[DynamicBody],
        guess: Floats | None = None,
        *,
        is_rough: bool = False,
    ) -> tuple[ImplicitReport, bool]:
        """Advance all bodies by ``h``, in place, and say whether friction settled; ``contacts`` gets the forces."""
        held = np.zeros(len(x), dtype=np.bool_)
        for body in asleep:
            held[body.rows] = True
        for body in self.bodies:
            own = held[body.rows]
            own[body.source.fixed] = own[body.source.moved] = True
        self._hold()
        terms = contact_terms(contacts, h) if len(contacts.constraints) else None
        is_euler = self._steps_by_euler(terms, len(x))
        awake = np.array([not held[body.start] for body in self._rigid], dtype=np.bool_)
        rigid = np.array([is_euler[k] for k, body in enumerate(self.bodies) if body.is_rigid], dtype=np.bool_)
        self._rigid_euler.begin(x, v, h, awake=awake & rigid, is_midpoint=False)
        self._rigid_midpoint.begin(x, v, h, awake=awake & ~rigid, is_midpoint=True)
        start_x, start_v = x.copy(), v.copy()
        report = self._solve(x, v, h, gravity, held, terms, is_euler, guess, 1 if is_rough else MOST_NEWTON_STEPS)
        is_settled, couple = True, np.zeros((len(self._rigid), 3))
        if terms is not None:
            contacts.normal_force, contacts.friction_force, limit = self._system.contact_forces()
            contacts.friction_limit = limit
            found = terms.friction * contacts.normal_force
            is_settled = bool(np.abs(found - limit).sum() <= FORCE_CHANGE * found.sum())
            couple = self._balance(x, v, start_x, start_v, h, contacts, gravity, held)
        pushed = contacts.normal_force > 0.0
        pressed = np.append(contacts.constraints.body_a[pushed], contacts.constraints.body_b[pushed])
        touched = np.isin([body.number for body in self._rigid], pressed)
        self._rigid_euler.end(x, v, touched, couple)
        self._rigid_midpoint.end(x, v, touched)
        self._hold()
        return report, is_settled

    def _steps_by_euler(self, terms: ContactTerms | None, row_count: int) -> NDArray[np.bool_]:
        """Which bodies are stepped by backward Euler: with the midpoint rule, those with contacts.

        That rule doubles the motion of half a step, and with it the depth of a contact that opens in it: stiff contacts
        would gain energy.
        """
        near = np.full(row_count, self._method == "backward_euler")
        if terms is not None:
            near[terms.vertex] = True
        return np.array([near[body.rows].any() for body in self.bodies], dtype=np.bool_)

    def _solve(
        self, x: Floats, v: Floats, h: float, gravity: Floats, held: NDArray[np.bool_], terms: ContactTerms | None,
        is_euler: NDArray[np.bool_], guess: Floats | None, most: int,
    ) -> ImplicitReport:  # fmt: skip
        """Advance bodies by the method of each."""
        if is_euler.all():
            return self._system.step(
                x,
                v,
                h,
                gravity=gravity,
                held=held,
                contacts=terms,
                guess=guess,
                max_newton_steps=most,
                tolerance=NEWTON_TOLERANCE if most > 1 else ROUGH_TOLERANCE,
            )
        if not is_euler.any():
            return self._system.step(x, v, h, gravity=gravity, held=held, method="midpoint")
        by_euler = np.zeros(len(x), dtype=np.bool_)
        for body, chosen in zip(self.bodies, is_euler):
            by_euler[body.rows] = chosen
        old_x, old_v = x[by_euler].copy(), v[by_euler].copy()
        free = self._system.step(x, v, h, gravity=gravity, held=held | by_euler, method="midpoint")
        new_x, new_v = x[~by_euler].copy(), v[~by_euler].copy()
        x[by_euler], v[by_euler] = old_x, old_v
        pressed = self._system.step(x, v, h, gravity=gravity, held=held | ~by_euler, contacts=terms)
        x[~by_euler], v[~by_euler] = new_x, new_v
        columns = {
            name: np.where(is_euler, getattr(pressed, name), getattr(free, name))
            for name in ImplicitReport.__dataclass_fields__
            if name != "inverted"
        }
        each = zip(is_euler, pressed.inverted, free.inverted)
        return ImplicitReport(**columns, inverted=tuple(a if chosen else b for chosen, a, b in each))

    def _balance(
        self, x: Floats, v: Floats, start_x: Floats, start_v: Floats, h: float, contacts: ContactForces,
        gravity: Floats, held: NDArray[np.bool_],
    ) -> Floats:  # fmt: skip
        """Give each free body in contact the momentum of the impulses on it, and the spin that the step has lost.

        The spin of a body follows the torque of contacts at the end of the step, its path their impulse at the start:
        contacts act at x - h v̄ instead of x0, v̄ the mean velocity. Where both sides of a contact are free, the torque
        of the difference is taken back, half from each. Returns what rigid bodies are to lose, shape (m, 3).
        """
        rows = contacts.constraints
        impulse = np.zeros((max(body.number for body in self.bodies) + 1, 3))
        on_a = h * contacts.forces_on_a()
        is_touched = np.zeros(len(impulse), dtype=np.bool_)
        for numbers, sign in ((rows.body_a, 1.0), (rows.body_b, -1.0)):
            own = np.flatnonzero((numbers >= 0) & (numbers < len(impulse)))
            np.add.at(impulse, numbers[own], sign * on_a[own])
            is_touched[numbers[own]] = True
        is_free = np.zeros(len(impulse) + 1, dtype=np.bool_)  # the last entry is the ground, which has number -1
        couple, arm = np.zeros_like(impulse), x - start_x
        for body in self.bodies:
            is_free[body.number] = not held[body.rows].any()
            arm[body.rows] -= (h / body.mass) * (body.source.model.masses @ v[body.rows])
        a, b = np.minimum(rows.body_a, len(impulse)), np.minimum(rows.body_b, len(impulse))
        kernels.add_couples(
            np.flatnonzero(is_free[a] & is_free[b]), rows.normal_jacobian, rows.slip_jacobian, arm,
            contacts.normal_force, contacts.friction_force, rows.body_a, rows.body_b, couple,
        )  # fmt: skip
        for body in self.bodies:
            if is_touched[body.number] and not held[body.rows].any():
                push, part = impulse[body.number] + h * body.mass * gravity, body.rows
                kernels.balance(
                    body.source.model.masses, push, h * couple[body.number], h,
                    not body.is_rigid, x[part], start_v[part], v[part],
                )  # fmt: skip
        return h * couple[[body.number for body in self._rigid]]

    def _hold(self) -> None:
        """Set the velocities of fixed and moved vertices, which rounding has changed."""
        for body in self.bodies:
            body.source.held_to(body.v)


def contact_terms(contacts: ContactForces, h: float) -> ContactTerms:
    """Contacts of a step of length ``h`` as terms of its energy."""
    rows = contacts.constraints
    damped, depth, wall = 1.0 + rows.relax / h, contacts.released_depth(h), contacts.released_wall(h)
    harder = np.where(np.isfinite(wall), rows.wall / wall, 1.0)
    weight, block = rows.normal_jacobian, rows.slip_jacobian
    if not (np.array_equal(weight.start, block.start) and np.array_equal(weight.vertex, block.vertex)):
        weight, block = _on_common_entries(weight, block)
    coefficient = np.where(contacts.slip_response > 0.0, contacts.friction, 0.0) * rows.scale
    return ContactTerms(
        start=weight.start, vertex=weight.vertex, weight=weight.weight, block=block.weight, normal=rows.normal,
        offset=depth / np.where(depth > 0.0, damped, 1.0) + h * rows.rate, drift=h * rows.drive,
        stiffness=rows.stiffness * damped * harder,
        stick=STICKING / (h * h * np.where(coefficient > 0.0, contacts.slip_response, 1.0)),
        friction=coefficient, normal_force=contacts.normal_force,
        friction_force=contacts.friction_force, wall=wall,
    )  # fmt: skip


def _on_common_entries(weight: SparseRows, block: SparseRows) -> tuple[SparseRows, SparseRows]:
    """Append the entries of each to those of the other, with zeros: a contact then has one list of entries."""
    count, more = np.diff(weight.start), np.diff(block.start)
    start = np.concatenate([[0], np.cumsum(count + more)])
    first = np.repeat(start[:-1] - weight.start[:-1], count) + np.arange(weight.start[-1])
    second = np.repeat(start[:-1] + count - block.start[:-1], more) + np.arange(block.start[-1])
    vertex, vectors, blocks = np.zeros(start[-1], dtype=np.int64), np.zeros((start[-1], 3)), np.zeros((start[-1], 3, 3))
    vertex[first], vertex[second], vectors[first], blocks[second] = (
        weight.vertex,
        block.vertex,
        weight.weight,
        block.weight,
    )
    return SparseRows(start, vertex, vectors), SparseRows(start, vertex, blocks)
