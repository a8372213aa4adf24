"""Implicit steps of all bodies between two searches: elastic forces, contacts and friction in one minimisation.

Contacts are constraints on coarse vertices (``respond.contact_forces``). In a step of length h they become terms of the
incremental energy (``deform.implicit``):

1. Normal   p = k (d + h u) + c u with depth d, depth rate u at the end of the step, and c = k T, is the force of the
            one-sided spring k (1 + T / h) at the depth d / (1 + T / h) + G dx + h rate: pushes, never pulls.
2. Stick    Two springs along tangents of a contact, ``STICKING`` times as stiff as its own inertia. They begin with the
            friction force of the step before: a contact that holds a load does not creep. Their forces are at most μ p.
3. Slide    Where the springs would have a force f above μ p, the first tangent is that of f, and the spring along the
            second one is softer by μ p / |f|: friction turns with the slip.
4. Repeat   the step with the normal forces and slips found, until normal forces change by at most ``FORCE_CHANGE`` and
            no contact begins or ceases to slide, at most ``MOST_ROUNDS`` times.

Islands     of bodies that contacts join are solved separately. Sleeping bodies are held.
Guarantee   Contact forces are those of the last round: action equals reaction, and momentum is kept to rounding. A step
            that does not converge is reported, and so is friction that does not settle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats
from impinge.deform.fem import Elements
from impinge.deform.implicit.system import Constraints, ImplicitReport, ImplicitSystem, Method
from impinge.deform.springs import SpringSheet
from impinge.respond.contact_forces import ContactForces, SparseRows
from impinge.simulate.simulated_bodies import DynamicBody

STICKING = 100.0
"""Stiffness of a sticking contact relative to its own inertia over a step."""
MOST_ROUNDS = 4
"""Solves per step: the first with the friction of the step before, the others with the normal forces found."""
FORCE_CHANGE = 0.02
"""Change of the limits of friction between two rounds, relative to their sum, that needs no other round."""


class ImplicitSteps:
    """Implicit steps of several bodies; their coarse states are rows of common arrays."""

    def __init__(self, bodies: Sequence[DynamicBody], row_count: int, method: Method) -> None:
        self.bodies, self._method = bodies, method
        models = [cast("Elements | SpringSheet", body.source.model) for body in bodies]
        self._system = ImplicitSystem(models, [body.start for body in bodies], row_count)

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
        if not len(contacts.constraints):
            report = self._system.step(x, v, h, gravity=gravity, held=held, method=self._method)
            self._hold()
            return report, True
        normal, tangent = _NormalRows(contacts, h), _TangentRows(contacts, h, v)
        pressure, start_x, start_v = contacts.normal_force.copy(), x.copy(), v.copy()
        for _ in range(MOST_ROUNDS):
            x[...], v[...] = start_x, start_v
            rows = _joined(normal.constraints, *tangent.springs(pressure))
            report = self._system.step(x, v, h, gravity=gravity, held=held, constraints=rows, method=self._method)
            dx = x - start_x if self._method == "backward_euler" else 0.5 * (x - start_x)
            found, friction = normal.force(dx), tangent.force(dx, pressure)
            change = (np.abs(found - pressure) * tangent.coefficient).sum()
            total, pressure = (found * tangent.coefficient).sum(), found
            has_switched = tangent.align(tangent.slip(dx), pressure)
            is_settled = change <= FORCE_CHANGE * total and not has_switched
            if is_settled:
                break
        contacts.normal_force, contacts.friction_force = pressure, friction
        self._balance(x, v, start_v, h, contacts, gravity, held)
        self._hold()
        return report, bool(is_settled)

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

    def __init__(self, contacts: ContactForces, h: float, v: Floats) -> None:
        rows = contacts.constraints
        self.coefficient = np.where(contacts.slip_response > 0.0, contacts.friction, 0.0) * rows.scale
        self._normal, self._jacobian, self._drift = rows.normal, rows.slip_jacobian, h * rows.drive
        self._stiffness = STICKING / (h * h * np.where(self.coefficient > 0.0, contacts.slip_response, 1.0))
        self._of_entry = np.repeat(np.arange(len(rows)), np.diff(rows.slip_jacobian.start))
        self._before, self._slides = contacts.friction_force, np.zeros(len(rows), dtype=np.bool_)
        self.align(h * self._moved(v) + self._drift, contacts.normal_force)

    def _moved(self, dx: Floats) -> Floats:
        """Relative displacement of both sides by that of coarse vertices, shape (k, 3)."""
        start, vertex, block = self._jacobian
        each = np.einsum("erc,ec->er", block, dx[vertex])
        return np.stack([np.bincount(self._of_entry, column, len(start) - 1) for column in each.T], axis=1)

    def slip(self, dx: Floats) -> Floats:
        """Slip of each contact over the step, shape (k, 3)."""
        return self._moved(dx) + self._drift

    def align(self, slip: Floats, pressure: Floats) -> bool:
        """Choose tangents and stiffness by slips and normal forces; whether a contact begins or ceases to slide."""
        trial = self._before + self._stiffness[:, None] * slip
        trial -= (trial * self._normal).sum(axis=1, keepdims=True) * self._normal
        limit, size = self.coefficient * pressure, np.linalg.norm(trial, axis=1)
        slides = (size > limit) & (limit > 0.0)
        other = np.cross(self._normal, np.eye(3)[np.abs(self._normal).argmin(axis=1)])
        first = np.where(slides[:, None], trial, other)
        first /= np.linalg.norm(first, axis=1, keepdims=True)
        self._axes = np.stack([first, np.cross(self._normal, first)], axis=1)
        across = np.where(slides, limit / np.maximum(size, 1e-300), 1.0)
        self._both = np.stack([self._stiffness, across * self._stiffness], axis=1)
        begins = self._before / self._stiffness[:, None] + self._drift
        self._offset = np.einsum("ktr,kr->kt", self._axes, begins)
        has_switched = bool((slides != self._slides).any())
        self._slides = slides
        return has_switched

    def springs(self, pressure: Floats) -> list[Constraints]:
        """Springs of the contacts that press, one set along each tangent."""
        limit = self.coefficient * pressure
        ids = np.flatnonzero(limit > 0.0)
        start, vertex, block = self._jacobian.rows(ids)
        of_entry = np.repeat(ids, np.diff(start))
        return [
            Constraints(
                start.astype(np.int64), vertex.astype(np.int32),
                np.einsum("er,erc->ec", self._axes[of_entry, t], block), self._offset[ids, t], self._both[ids, t],
                np.zeros(len(ids), dtype=np.bool_), limit[ids],
            )
            for t in range(2)
        ]  # fmt: skip

    def force(self, dx: Floats, pressure: Floats) -> Floats:
        """Friction on side b in a solve with these limits, shape (k, 3)."""
        stretch = self._offset + np.einsum("ktr,kr->kt", self._axes, self._moved(dx))
        limit = (self.coefficient * pressure)[:, None]
        return np.asarray(np.einsum("ktr,kt->kr", self._axes, np.clip(self._both * stretch, -limit, limit)))


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


def _products(rows: SparseRows, dx: Floats) -> Floats:
    """Rows times a displacement of vertices, shape (k,)."""
    each = (rows.weight * dx[rows.vertex]).sum(axis=1)
    count = len(rows.start) - 1
    sums: Floats = np.bincount(np.repeat(np.arange(count), np.diff(rows.start)), each, count).astype(np.float64)
    return sums


def _joined(*parts: Constraints) -> Constraints:
    first = np.concatenate([[0], np.cumsum([len(each.vertex) for each in parts])])
    return Constraints(
        np.concatenate([*(each.start[:-1] + begin for each, begin in zip(parts, first)), first[-1:]]),
        np.concatenate([each.vertex for each in parts]),
        np.concatenate([each.weight for each in parts]),
        np.concatenate([each.offset for each in parts]),
        np.concatenate([each.stiffness for each in parts]),
        np.concatenate([each.one_sided for each in parts]),
        np.concatenate([np.full(len(each.offset), np.inf) if each.limit is None else each.limit for each in parts]),
    )
