"""Implicit steps of all bodies between two searches: elastic forces, contacts and friction in one minimisation.

Contacts are constraints on coarse vertices (``respond.contact_forces``). In a step of length h they become terms of the
incremental energy (``deform.implicit``):

1. Normal   p = k (d + h u) + c u with depth d, depth rate u at the end of the step, and c = k T, is the force of the
            one-sided spring k (1 + T / h) at the depth d / (1 + T / h) + G dx + h rate: pushes, never pulls.
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
from impinge.deform.implicit.system import ContactTerms, ImplicitReport, ImplicitSystem, Method
from impinge.deform.springs import SpringSheet
from impinge.respond.contact_forces import ContactForces, SparseRows
from impinge.simulate.simulated_bodies import DynamicBody

STICKING = 100.0
"""Stiffness of a sticking contact relative to its own inertia over a step: a load that changes by f moves the contact
once by f h² / (100 m). With 10, Newton's method takes two thirds of the steps, and stacks swing for seconds."""
FORCE_CHANGE = 0.02
"""Difference between limits of friction and normal forces, relative to the sum of limits, that counts as settled."""


class ImplicitSteps:
    """Implicit steps of several bodies; their coarse states are rows of common arrays."""

    def __init__(self, bodies: Sequence[DynamicBody], row_count: int, method: Method) -> None:
        self.bodies, self._method = bodies, method
        models = [cast("Elements | SpringSheet", body.source.model) for body in bodies]
        self._system = ImplicitSystem(models, [body.start for body in bodies], row_count)
        self._rigid = [body for body in bodies if body.is_rigid]
        self._rigid_motion = RigidMotion(
            [body.source.model for body in self._rigid if isinstance(body.source, RigidBody)],
            [body.start for body in self._rigid],
        )

    def step(
        self, x: Floats, v: Floats, h: float, contacts: ContactForces, gravity: Floats, asleep: Sequence[DynamicBody]
    ) -> tuple[ImplicitReport, bool]:
        """Advance all bodies by ``h``, in place, and say whether friction settled; ``contacts`` gets the forces."""
        held = np.zeros(len(x), dtype=np.bool_)
        for body in asleep:
            held[body.rows] = True
        for body in self.bodies:
            own = held[body.rows]
            own[body.source.fixed] = own[body.source.moved] = True
        self._hold()
        awake = np.array([not held[body.start] for body in self._rigid], dtype=np.bool_)
        self._rigid_motion.begin(x, v, h, awake=awake, is_midpoint=self._method == "midpoint")
        start_v = v.copy()
        terms = contact_terms(contacts, h) if len(contacts.constraints) else None
        report = self._system.step(x, v, h, gravity=gravity, held=held, contacts=terms, method=self._method)
        is_settled = True
        if terms is not None:
            contacts.normal_force, contacts.friction_force, limit = self._system.contact_forces()
            found = terms.friction * contacts.normal_force
            is_settled = bool(np.abs(found - limit).sum() <= FORCE_CHANGE * found.sum())
            self._balance(x, v, start_v, h, contacts, gravity, held)
        pushed = contacts.normal_force > 0.0
        pressed = np.append(contacts.constraints.body_a[pushed], contacts.constraints.body_b[pushed])
        self._rigid_motion.end(x, v, np.isin([body.number for body in self._rigid], pressed))
        self._hold()
        return report, is_settled

    def _balance(
        self, x: Floats, v: Floats, start_v: Floats, h: float, contacts: ContactForces, gravity: Floats,
        held: NDArray[np.bool_],
    ) -> None:  # fmt: skip
        """Give each free body in contact the momentum of the impulses on it, and the spin that the step has lost.

        Backward Euler loses h Σ m v × v0 of the spin per step, velocities relative to the mean. A rotation of the
        velocities restores it, as far as it adds no more kinetic energy than Σ m |v - v0|² / 2, which the step loses at
        least.
        """
        rows = contacts.constraints
        on_a = h * contacts.forces_on_a()
        touched = set(rows.body_a.tolist()) | set(rows.body_b.tolist())
        for body in self.bodies:
            if body.number not in touched or held[body.rows].any():
                continue
            impulse = on_a[rows.body_a == body.number].sum(axis=0) - on_a[rows.body_b == body.number].sum(axis=0)
            mass, before, after = body.source.model.masses[:, None], start_v[body.rows], v[body.rows]
            shift = (impulse + h * body.mass * gravity - (mass * (after - before)).sum(axis=0)) / body.mass
            after += shift
            x[body.rows] += (h if self._method == "backward_euler" else 0.5 * h) * shift
            if self._method == "backward_euler" and not body.is_rigid:
                _restore_spin(mass, x[body.rows], before, after, h)

    def _hold(self) -> None:
        """Set the velocities of fixed and moved vertices, which rounding has changed."""
        for body in self.bodies:
            body.source.held_to(body.v)


def contact_terms(contacts: ContactForces, h: float) -> ContactTerms:
    """Contacts of a step of length ``h`` as terms of its energy."""
    rows = contacts.constraints
    damped = 1.0 + rows.relax / h
    weight, block = rows.normal_jacobian, rows.slip_jacobian
    if not (np.array_equal(weight.start, block.start) and np.array_equal(weight.vertex, block.vertex)):
        weight, block = _on_common_entries(weight, block)
    coefficient = np.where(contacts.slip_response > 0.0, contacts.friction, 0.0) * rows.scale
    return ContactTerms(
        start=weight.start, vertex=weight.vertex, weight=weight.weight, block=block.weight, normal=rows.normal,
        offset=contacts.released_depth(h) / damped + h * rows.rate, drift=h * rows.drive,
        stiffness=rows.stiffness * damped,
        stick=STICKING / (h * h * np.where(coefficient > 0.0, contacts.slip_response, 1.0)),
        friction=coefficient, normal_force=contacts.normal_force,
        friction_force=contacts.friction_force,
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


def _restore_spin(mass: Floats, x: Floats, before: Floats, after: Floats, h: float) -> None:
    """Rotate the velocities ``after`` in place."""
    total = mass.sum()
    arm, old, new = (each - (mass * each).sum(axis=0) / total for each in (x, before, after))
    lost = h * (mass * np.cross(new, old)).sum(axis=0)
    inertia = np.vdot(mass * arm, arm) * np.eye(3) - (mass * arm).T @ arm
    turn = np.cross(np.linalg.pinv(inertia) @ -lost, arm)
    allowed = 0.5 * float((mass * (new - old) ** 2).sum())
    slope, square = float((mass * turn * new).sum()), 0.5 * float((mass * turn**2).sum())
    share = 1.0
    if slope + square > allowed:
        share = 2.0 * allowed / (slope + np.sqrt(slope**2 + 4.0 * square * allowed)) if allowed > 0.0 else 0.0
    after += share * turn
