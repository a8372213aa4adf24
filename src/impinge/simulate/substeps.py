"""Sub-steps of all bodies in contact: semi-implicit Euler, one force evaluation each.

1. Free    v⁺ = v + h (f(x, v) / m + g): velocities at the end of the sub-step without contacts. Fixed coarse vertices
           have velocity 0, moved ones their prescribed velocity.
2. Contact Contact forces F for v⁺, implicit in the velocity at the end of the sub-step (``respond.contact_forces``).
3. Move    v' = v⁺ + h F / m and x' = x + h v'.
4. Accept  If the sub-step exceeds ``LENIENCE`` times its share of the stable step of the new state, or the state is not
           finite, all bodies return to the old state and the sub-step is halved.

Share      An oscillation of angular frequency ω and decay rate d is stable if h d < 2 and (h ω)² + 2 h d < 4. Within
           the step that models report as stable for Runge-Kutta's method, both products are at most 2.08
           (``deform.fem``); 0.594 of it is stable for any damping. Models overestimate ω: tet meshes by a quarter.
Guarantee  Bodies in equilibrium with their contacts stay at rest. Contact forces conserve momentum. Oscillations have
           the energy of a nearby conserved state; it does not grow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from impinge.checks import Floats, Ints, as_positions
from impinge.deform.batch import ModelBatch, can_batch
from impinge.deform.integrate import ROUNDING, check_duration
from impinge.errors import ImpingeError
from impinge.respond.contact_forces import ContactForces
from impinge.simulate import substeps_kernels as kernels
from impinge.simulate.simulated_bodies import DynamicBody

SHARE = 0.59
"""Sub-step relative to the stable step that the models report."""
LENIENCE = 1.15
"""Factor by which a sub-step may exceed its share of the stable step of the new state: ω is overestimated by more."""
SHORTEST = 1e-6
"""Sub-step relative to the stable step at rest below which the state counts as diverged."""


class DivergenceError(ImpingeError):
    """The motion of a body diverges."""

    def __init__(self, body: DynamicBody, reason: str) -> None:
        super().__init__(reason)
        self.body = body


class Substeps:
    """Sub-steps of several bodies; their coarse states are rows of ``x`` and ``v``, updated in place."""

    def __init__(self, bodies: Sequence[DynamicBody], gravity: Floats, x: Floats, v: Floats) -> None:
        self._bodies, self._gravity, self._x, self._v = bodies, np.array(gravity, dtype=np.float64), x, v
        self._force, self._free, self._new_x, self._new_v = (np.zeros_like(x) for _ in range(4))
        self._inverse_mass, self._moves = np.zeros(len(x)), np.zeros(len(x), dtype=np.bool_)
        self._prescribed = list[tuple[DynamicBody, Ints, Ints, Floats]]()
        for body in bodies:
            fixed, moved, own = body.source.fixed, body.source.moved, self._inverse_mass[body.rows]
            own[...] = 1.0 / body.source.model.masses
            own[fixed] = own[moved] = 0.0
            self._moves[body.rows] = True
            if len(fixed) or len(moved):
                self._prescribed.append((body, fixed, moved, body.source.motion))
        batched = [body for body in bodies if can_batch(body.source.model)]
        self._batched = batched if len(batched) > 1 else []
        self._single = [body for body in bodies if body not in self._batched]
        models: list[Any] = [body.source.model for body in self._batched]
        self._batch = ModelBatch(models, [body.start for body in self._batched], len(x)) if models else None
        self._bound = min(self._stable_steps(x, v), default=math.inf)
        self._rest_step = min((body.rest_step for body in bodies), default=0.0)
        self._too_short = SHORTEST * self._rest_step

    def step(self, left: float, contacts: ContactForces, dx: Floats, since: float) -> float:
        """Advance all bodies by one sub-step of at most ``left``, ``since`` after the search; return its length."""
        for body, fixed, moved, motion in self._prescribed:
            body.v[fixed], body.v[moved] = 0.0, motion
        self._update_forces()
        check_duration(left, self._rest_step)
        free_velocities = kernels.free_velocities.over(len(self._x))
        advance = kernels.advance.over(len(self._x))
        while True:
            count = math.ceil(left / (SHARE * self._bound) * (1.0 - ROUNDING)) if self._bound > 0.0 else 1
            h = left / max(count, 1)
            free_velocities(h, self._v, self._force, self._inverse_mass, self._gravity, self._free)
            contact = contacts.solve(h, dx, self._free, since)
            advance(h, self._x, self._free, contact, self._inverse_mass, self._moves, self._new_x, self._new_v)
            stable, weakest = self._stable_step(self._new_x, self._new_v)
            if h <= LENIENCE * SHARE * stable:
                self._x[...], self._v[...], self._bound = self._new_x, self._new_v, stable
                return h
            self._bound = 0.5 * h / SHARE
            if weakest is not None and not self._bound > min(self._too_short, SHORTEST * left):
                self._fail(weakest, contact)

    def _update_forces(self) -> None:
        """Evaluate the forces of all models; a model may return an array other than the output argument."""
        if self._batch is not None:
            self._batch.forces(self._x, self._v, self._force)
        for body in self._single:
            own = self._force[body.rows]
            found = body.source.model.forces(body.x, body.v, own)
            if found is not own:
                own[...] = as_positions(found, name="forces of the model", count=len(own), check=False)
        if not math.isfinite(self._force.sum()):
            for body in self._bodies:
                if not math.isfinite(self._force[body.rows].sum()):
                    raise DivergenceError(body, "its forces are not finite")

    def _stable_steps(self, x: Floats, v: Floats) -> list[float]:
        """Stable step of each body, those of the batch first."""
        steps = [] if self._batch is None else self._batch.stable_steps(x, v)
        return steps + [body.source.model.stable_step(x[body.rows], v[body.rows]) for body in self._single]

    def _stable_step(self, x: Floats, v: Floats) -> tuple[float, DynamicBody | None]:
        """Return the smallest stable step of a state, 0 if it is not finite, and the body that limits it."""
        bodies = [*self._batched, *self._single]
        if not (math.isfinite(x.sum()) and math.isfinite(v.sum())):
            for body in bodies:
                if not (math.isfinite(x[body.rows].sum()) and math.isfinite(v[body.rows].sum())):
                    return 0.0, body
        least, weakest = math.inf, None
        for body, stable in zip(bodies, self._stable_steps(x, v)):
            if not stable >= least:
                least, weakest = stable, body
        return least, weakest

    def _fail(self, body: DynamicBody, contact: Floats) -> NoReturn:
        """Raise an error that names the vertex of largest acceleration in the last finite state."""
        push = (self._force + contact) * self._inverse_mass[:, None]
        acceleration = np.abs(push + self._gravity)[body.rows].max(axis=1)
        largest = int(np.argmax(np.where(np.isnan(acceleration), np.inf, acceleration)))
        raise DivergenceError(
            body,
            f"vertex {largest}, with acceleration {acceleration[largest]:.3g} m/s², diverges for any step size",
        )
