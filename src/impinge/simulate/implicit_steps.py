"""Implicit steps of all bodies between two searches: elastic forces, contacts and friction in one minimisation.

Contacts are constraints on coarse vertices (``respond.contact_forces``). In a step of length h they become terms of the
incremental energy (``deform.implicit``):

1. Normal   p = k (d + h u) + c u with depth d, depth rate u at the end of the step, and c = k T, is the force of the
            one-sided spring k (1 + T / h) at the depth d / (1 + T / h) + G dx + h rate: pushes, never pulls.
2. Stick    Two springs along the tangents of a contact, of the stiffness of its normal spring. They begin with the
            friction force of the step before: a contact that holds a load does not creep.
3. Slide    Where friction exceeds μ p, a constant force μ p against the slip replaces the springs. A contact that would
            slip backwards sticks again.
4. Repeat   the step from 1 with the states and normal forces found, until no contact changes and normal forces change
            by at most ``FORCE_CHANGE``, at most ``MOST_ROUNDS`` times; the last round stands.

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

MOST_ROUNDS = 4
"""Solves per step: the first without friction of new contacts, the others with normal forces found before."""
FORCE_CHANGE = 0.02
"""Change of the normal forces between two rounds, relative to their sum, that needs no other round."""


class Friction(NamedTuple):
    """State of the friction of each contact."""

    force: Floats
    """On side b, shape (k, 3) [N]."""
    slides: NDArray[np.bool_]


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
        normal = _NormalRows(contacts, h)
        tangent = _TangentRows(contacts, h)
        pressure, friction = contacts.normal_force.copy(), Friction(contacts.friction_force.copy(), tangent.no_slides)
        start_x, start_v = x.copy(), v.copy()
        for attempt in range(MOST_ROUNDS):
            x[...], v[...] = start_x, start_v
            sticks = ~friction.slides & (pressure > 0.0) & tangent.rubs
            report = self._system.step(
                x, v, h, gravity=gravity, forces=tangent.sliding_forces(friction, len(x)), held=held,
                constraints=_joined(normal.constraints, tangent.constraints(sticks)), method=self._method,
            )  # fmt: skip
            dx = x - start_x if self._method == "backward_euler" else 0.5 * (x - start_x)
            found = normal.force(dx)
            changed = np.abs(found - pressure).sum() > FORCE_CHANGE * found.sum()
            pressure = found
            friction, has_switched = tangent.updated(friction, sticks, pressure, dx)
            if not (has_switched or (changed and tangent.rubs.any())) or attempt == MOST_ROUNDS - 1:
                break
        contacts.normal_force, contacts.friction_force = pressure, friction.force
        self._balance(x, v, start_v, h, contacts, gravity, held)
        self._hold()
        return report

    def _balance(
        self, x: Floats, v: Floats, start_v: Floats, h: float, contacts: ContactForces, gravity: Floats,
        held: NDArray[np.bool_],
    ) -> None:  # fmt: skip
        """Shift each free body such that its momentum changes by the impulses on it, to rounding."""
        rows = contacts.constraints
        on_a = h * contacts.forces_on_a()
        touched = set(rows.body_a.tolist()) | set(rows.body_b.tolist())
        for body in self.bodies:
            if body.number not in touched or held[body.rows].any():
                continue
            impulse = on_a[rows.body_a == body.number].sum(axis=0) - on_a[rows.body_b == body.number].sum(axis=0)
            mass = body.source.model.masses[:, None]
            gained = (mass * (v[body.rows] - start_v[body.rows])).sum(axis=0)
            shift = (impulse + h * body.mass * gravity - gained) / body.mass
            v[body.rows] += shift
            x[body.rows] += h * shift

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
    """Two tangential springs for each contact that has friction."""

    def __init__(self, contacts: ContactForces, h: float) -> None:
        rows = contacts.constraints
        self._coefficient, self._h, self._drive = contacts.friction, h, rows.drive
        self.rubs = self._coefficient > 0.0
        self.no_slides = np.zeros(len(rows), dtype=np.bool_)
        axis = np.eye(3)[np.abs(rows.normal).argmin(axis=1)]
        first = np.cross(rows.normal, axis)
        first /= np.linalg.norm(first, axis=1, keepdims=True)
        self._axes = np.stack([first, np.cross(rows.normal, first)], axis=1)
        self._slip = rows.slip_jacobian
        self._scale = rows.scale
        self._stiffness = rows.stiffness * rows.scale**2
        """Of length, also where depths are volumes."""
        start, vertex, block = self._slip
        of_entry = np.repeat(np.arange(len(rows)), np.diff(start))
        self._weight = np.einsum("etr,erc->tec", self._axes[of_entry], block)
        self._before = np.einsum("ktr,kr->kt", self._axes, contacts.friction_force)

    def constraints(self, sticks: NDArray[np.bool_]) -> Constraints:
        """Springs of the contacts that stick, first along one axis of each, then along the other."""
        ids = np.flatnonzero(sticks)
        parts = []
        for t in range(2):
            start, vertex, weight = SparseRows(self._slip.start, self._slip.vertex, self._weight[t]).rows(ids)
            moved = self._h * (self._axes[ids, t] * self._drive[ids]).sum(axis=1)
            stiffness = self._stiffness[ids]
            parts.append(
                Constraints(
                    start.astype(np.int64), vertex.astype(np.int32), weight, self._before[ids, t] / stiffness + moved,
                    stiffness, np.zeros(len(ids), dtype=np.bool_),
                )
            )  # fmt: skip
        return _joined(*parts)

    def sliding_forces(self, friction: Friction, count: int) -> Floats:
        """Forces of the contacts that slide on coarse vertices, shape (count, 3)."""
        start, vertex, block = self._slip
        out = np.zeros((count, 3))
        force = np.where(friction.slides[:, None], friction.force, 0.0)
        np.subtract.at(out, vertex, np.einsum("erc,er->ec", block, np.repeat(force, np.diff(start), axis=0)))
        return out

    def updated(
        self, friction: Friction, sticks: NDArray[np.bool_], pressure: Floats, dx: Floats
    ) -> tuple[Friction, bool]:
        """Friction after a solve, and whether a contact has begun to stick or to slide."""
        slip = np.stack([_products(SparseRows(self._slip.start, self._slip.vertex, w), dx) for w in self._weight], 1)
        slip += self._h * np.einsum("ktr,kr->kt", self._axes, self._drive)
        limit = self._coefficient * pressure * self._scale
        spring = self._before + self._stiffness[:, None] * slip
        size = np.linalg.norm(spring, axis=1)
        slides = sticks & (size > limit * (1.0 + 1e-9))
        own = np.einsum("ktr,kr->kt", self._axes, friction.force)
        returns = friction.slides & ((own * slip).sum(axis=1) < 0.0)
        goes_on = friction.slides & ~returns & (pressure > 0.0)
        direction = np.where(goes_on[:, None], _units(slip), _units(spring))
        in_plane = np.where(
            (slides | goes_on)[:, None], limit[:, None] * direction, np.where(sticks[:, None], spring, 0.0)
        )
        fresh = self.rubs & (pressure > 0.0) & ~sticks & ~friction.slides
        force = np.einsum("kt,ktr->kr", in_plane, self._axes)
        return Friction(force, slides | goes_on), bool(slides.any() or returns.any() or fresh.any())


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
