"""Implicit steps of all bodies between two searches: elastic forces, contacts and friction in one minimisation.

Contacts are constraints on coarse vertices (``respond.contact_forces``). In a step of length h they become terms of the
incremental energy (``deform.implicit``):

1. Normal   p = k (d + h u) + c u with depth d, depth rate u at the end of the step, and c = k T, is the force of the
            one-sided spring k (1 + T / h) at the depth d / (1 + T / h) + G dx + h rate: pushes, never pulls.
2. Stick    Two springs along the tangents of a contact, ``STICKING`` times as stiff as its own inertia. They begin with
            the friction force of the step before: a contact that holds a load does not creep.
3. Slide    Where friction exceeds μ p, a constant force μ p against the slip replaces the springs. A contact that slips
            backwards under that force is held, by springs that begin without force: it loses energy in any case.
4. Repeat   the step from 1 with the states and normal forces found, until no contact changes and normal forces change
            by at most ``FORCE_CHANGE``, at most ``MOST_ROUNDS`` times; in the last round contacts are only held.

Islands     of bodies that contacts join are solved separately. Sleeping bodies are held.
Guarantee   Contact forces are those of the converged step: action equals reaction, and momentum is kept to rounding. A
            step that does not converge is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats
from impinge.deform.implicit.system import Constraints, ImplicitReport, ImplicitSystem, Method
from impinge.respond.contact_forces import ContactForces, SparseRows
from impinge.simulate.simulated_bodies import DynamicBody

STICKING = 100.0
MOST_ROUNDS = 5
"""Solves per step: the first without friction of new contacts, the others with normal forces found before."""
FORCE_CHANGE = 0.02
"""Change of the normal forces between two rounds, relative to their sum, that needs no other round."""


FREE, STICKS, SLIDES, HELD = range(4)
"""States of the friction of a contact."""


class Friction(NamedTuple):
    """State of the friction of each contact."""

    force: Floats
    """On side b, shape (k, 3) [N]."""
    state: NDArray[np.int8]


class ImplicitSteps:
    """Implicit steps of several bodies; their coarse states are rows of common arrays."""

    def __init__(self, bodies: Sequence[DynamicBody], row_count: int, method: Method) -> None:
        self.bodies, self._method = bodies, method
        self._system = ImplicitSystem(
            [body.source.model for body in bodies], [body.start for body in bodies], row_count
        )

    def step(
        self, x: Floats, v: Floats, h: float, contacts: ContactForces, gravity: Floats, asleep: Sequence[DynamicBody]
    ) -> ImplicitReport:
        """Advance all bodies by ``h``, in place; ``contacts`` gets the forces."""
        held = np.zeros(len(x), dtype=np.bool_)
        for body in asleep:
            held[body.rows] = True
        for body in self.bodies:
            own = held[body.rows]
            own[body.source.fixed] = own[body.source.moved] = True
        self._hold()
        rows = contacts.constraints
        if not len(rows):
            report = self._system.step(x, v, h, gravity=gravity, held=held, method=self._method)
            self._hold()
            return report
        normal, tangent = _NormalRows(contacts, h), _TangentRows(contacts, h)
        pressure = contacts.normal_force.copy()
        friction = Friction(contacts.friction_force.copy(), np.where(tangent.rubs & (pressure > 0.0), STICKS, FREE))
        start_x, start_v = x.copy(), v.copy()
        for rounds in range(1, MOST_ROUNDS + 1):
            x[...], v[...] = start_x, start_v
            report = self._system.step(
                x, v, h, gravity=gravity, forces=tangent.sliding_forces(friction, len(x)), held=held,
                constraints=_joined(normal.constraints, *tangent.springs(friction.state)), method=self._method,
            )  # fmt: skip
            dx = x - start_x if self._method == "backward_euler" else 0.5 * (x - start_x)
            found = normal.force(dx)
            changed = np.abs(found - pressure).sum() > FORCE_CHANGE * found.sum()
            pressure = found
            rubbing, friction, has_switched = tangent.updated(
                friction, pressure, dx, is_last=rounds >= MOST_ROUNDS - 1
            )
            if not (has_switched or (changed and tangent.rubs.any() and rounds < MOST_ROUNDS - 1)):
                break
        contacts.normal_force, contacts.friction_force = pressure, rubbing
        self._balance(x, v, start_v, h, contacts, gravity, held)
        self._hold()
        return report

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
            x[body.rows] += h * shift
            if self._method == "backward_euler":
                _restore_spin(mass, x[body.rows], before, after, h)

    def _hold(self) -> None:
        """Set the velocities of fixed and moved vertices, which rounding has changed."""
        for body in self.bodies:
            body.source.held_to(body.v)


class _NormalRows:
    """One-sided springs of all contacts."""

    def __init__(self, contacts: ContactForces, h: float) -> None:
        rows = contacts.constraints
        damped = 1.0 + rows.relax / h
        self._jacobian, self._stiffness = rows.normal_jacobian, rows.stiffness * damped
        self._offset = contacts.released_depth(h) / damped + h * rows.rate
        start, vertex, weight = self._jacobian
        self.constraints = Constraints(
            start.astype(np.int64), vertex.astype(np.int32), weight, self._offset, self._stiffness,
            np.ones(len(rows), dtype=np.bool_),
        )  # fmt: skip

    def force(self, dx: Floats) -> Floats:
        """Normal forces of a displacement, shape (k,)."""
        return self._stiffness * np.maximum(self._offset + _products(self._jacobian, dx), 0.0)


class _TangentRows:
    """Friction along the two tangents of each contact."""

    def __init__(self, contacts: ContactForces, h: float) -> None:
        rows = contacts.constraints
        self._coefficient, self._h, self._drive, self._scale = contacts.friction, h, rows.drive, rows.scale
        self.rubs = (self._coefficient > 0.0) & (contacts.slip_response > 0.0)
        axis = np.eye(3)[np.abs(rows.normal).argmin(axis=1)]
        first = np.cross(rows.normal, axis)
        first /= np.linalg.norm(first, axis=1, keepdims=True)
        self._axes = np.stack([first, np.cross(rows.normal, first)], axis=1)
        self._slip = rows.slip_jacobian
        self._stiffness = STICKING / (h * h * np.where(self.rubs, contacts.slip_response, 1.0))
        of_entry = np.repeat(np.arange(len(rows)), np.diff(self._slip.start))
        self._weight = np.einsum("etr,erc->tec", self._axes[of_entry], self._slip.weight)
        before = np.einsum("ktr,kr->kt", self._axes, contacts.friction_force)
        limit = self._coefficient * contacts.normal_force * rows.scale
        self._before = before * np.minimum(limit / np.maximum(np.linalg.norm(before, axis=1), 1e-300), 1.0)[:, None]
        self._drift = h * np.einsum("ktr,kr->kt", self._axes, rows.drive)

    def springs(self, state: NDArray[np.int8]) -> list[Constraints]:
        """Springs of the contacts that stick or are held, one set along each tangent."""
        ids = np.flatnonzero((state == STICKS) | (state == HELD))
        parts = []
        for t in range(2):
            start, vertex, weight = SparseRows(self._slip.start, self._slip.vertex, self._weight[t]).rows(ids)
            offset = self._drift[ids, t] + self._spring_force(state)[ids, t] / self._stiffness[ids]
            parts.append(
                Constraints(
                    start.astype(np.int64), vertex.astype(np.int32), weight, offset, self._stiffness[ids],
                    np.zeros(len(ids), dtype=np.bool_),
                )
            )  # fmt: skip
        return parts

    def _spring_force(self, state: NDArray[np.int8]) -> Floats:
        """Force of each spring without slip, shape (k, 2)."""
        return np.where((state == STICKS)[:, None], self._before, 0.0)

    def sliding_forces(self, friction: Friction, count: int) -> Floats:
        """Forces of the contacts that slide on coarse vertices, shape (count, 3)."""
        start, vertex, block = self._slip
        out = np.zeros((count, 3))
        force = np.where((friction.state == SLIDES)[:, None], friction.force, 0.0)
        np.subtract.at(out, vertex, np.einsum("erc,er->ec", block, np.repeat(force, np.diff(start), axis=0)))
        return out

    def updated(
        self, friction: Friction, pressure: Floats, dx: Floats, *, is_last: bool
    ) -> tuple[Floats, Friction, bool]:
        """Friction forces of a solve, those of the next one, and whether a contact changes its state.

        The last time, contacts change their state only to be held.
        """
        state = friction.state
        slip = self._drift + np.stack(
            [_products(SparseRows(self._slip.start, self._slip.vertex, weight), dx) for weight in self._weight], axis=1
        )
        is_spring, slides = ((state == STICKS) | (state == HELD))[:, None], (state == SLIDES)[:, None]
        spring = self._spring_force(state) + self._stiffness[:, None] * slip
        constant = np.einsum("ktr,kr->kt", self._axes, friction.force)
        actual = np.where(is_spring, spring, np.where(slides, constant, 0.0))
        limit = self._coefficient * pressure * self._scale
        new = np.where(slides[:, 0] & ((constant * slip).sum(axis=1) < 0.0), HELD, state)
        if not is_last:
            exceeds = (state == STICKS) & (np.linalg.norm(spring, axis=1) > limit * (1.0 + 1e-9))
            new = np.where(exceeds, SLIDES, new)
            new = np.where(self.rubs & (state == FREE) & (pressure > 0.0), STICKS, new)
            new = np.where(pressure > 0.0, new, FREE)
        towards = limit[:, None] * _units(np.where(slides, slip, spring))
        coming = Friction(np.einsum("kt,ktr->kr", towards, self._axes), new.astype(np.int8))
        return np.einsum("kt,ktr->kr", actual, self._axes), coming, bool((new != state).any())


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


def _units(x: Floats) -> Floats:
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return np.divide(x, length, out=np.zeros_like(x), where=length > 0.0)


def _products(rows: SparseRows, dx: Floats) -> Floats:
    """Rows times a displacement of vertices, shape (k,)."""
    each = (rows.weight * dx[rows.vertex]).sum(axis=1)
    return np.asarray(
        np.bincount(np.repeat(np.arange(len(rows.start) - 1), np.diff(rows.start)), each, len(rows.start) - 1)
    )


def _joined(*parts: Constraints) -> Constraints:
    first = np.concatenate([[0], np.cumsum([len(each.vertex) for each in parts])])
    return Constraints(
        np.concatenate([*(each.start[:-1] + begin for each, begin in zip(parts, first)), first[-1:]]),
        np.concatenate([each.vertex for each in parts]),
        np.concatenate([each.weight for each in parts]),
        np.concatenate([each.offset for each in parts]),
        np.concatenate([each.stiffness for each in parts]),
        np.concatenate([each.one_sided for each in parts]),
    )
