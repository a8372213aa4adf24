"""Sub-steps of bodies that touch, all together: semi-implicit Euler, one evaluation of the forces each.

1. Free    v⁺ = v + h (f(x, v) / m + g): what velocities would be at the end of the sub-step without contacts. Coarse
           vertices that are fixed stand still, and those with a motion of their own have its velocity.
2. Touch   Forces F of contacts, found for v⁺ as they are at the end of the sub-step (``respond.contact_forces``).
3. Move    v' = v⁺ + h F / m, and x' = x + h v'.
4. Accept  The new state is asked what it bears. If the sub-step was longer than ``LENIENCE`` times its share of that,
           or the state is not finite, all bodies go back and the sub-step is halved.

Share      A swing of frequency ω that decays at the rate d is stable if h d < 2 and (h ω)² + 2 h d < 4. Of a step that
           models tell to be stable for Runge-Kutta's method, both products are at most 2.08 (``deform.fem``), so that
           less than 0.594 of it will do, whatever the damping. Models overrate ω: of bodies made of tets by a quarter.
Guarantee  Bodies at rest on their contacts are at rest: where all forces balance nothing moves. Contacts give and take
           the same momentum. The energy of a swing is that of a state nearby, which stays; it does not grow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from impinge.checks import Floats, Ints, as_positions
from impinge.deform.batch import ModelBatch, can_batch
from impinge.errors import ImpingeError
from impinge.respond.contact_forces import ContactForces
from impinge.simulate import substeps_kernels as kernels
from impinge.simulate.simulated_bodies import SoftPart

SHARE = 0.59
"""Sub-step of bodies that touch, relative to the longest that their models bear."""
LENIENCE = 1.15
"""How much longer than its share of what the new state bears a sub-step may have been: ω is overrated by more."""
SHORTEST = 1e-6
"""Sub-steps this much shorter than the stable one at rest mean that the state is lost."""
ROUNDING = 1e-9
"""By this share a sub-step may exceed its bound, so that ten of 0.1 s fit into a second."""


class LostError(ImpingeError):
    """A body cannot be followed."""

    def __init__(self, part: SoftPart, why: str) -> None:
        super().__init__(why)
        self.part = part


class Substeps:
    """Sub-steps of some bodies, whose coarse states are rows of ``x`` and ``v`` and are moved in place."""

    def __init__(self, parts: Sequence[SoftPart], gravity: Floats, x: Floats, v: Floats) -> None:
        self._parts, self._gravity, self._x, self._v = parts, np.array(gravity, dtype=np.float64), x, v
        self._force, self._free, self._new_x, self._new_v = (np.zeros_like(x) for _ in range(4))
        self._inverse_mass, self._moves = np.zeros(len(x)), np.zeros(len(x), dtype=np.bool_)
        self._told = list[tuple[SoftPart, Ints, Ints, Floats]]()
        for part in parts:
            fixed, moved, own = part.body.fixed, part.body.moved, self._inverse_mass[part.rows]
            own[...] = 1.0 / part.body.model.masses
            own[fixed] = own[moved] = 0.0
            self._moves[part.rows] = True
            if len(fixed) or len(moved):
                self._told.append((part, fixed, moved, part.body.motion))
        joined = [part for part in parts if can_batch(part.body.model)]
        self._joined = joined if len(joined) > 1 else []
        self._alone = [part for part in parts if part not in self._joined]
        models: list[Any] = [part.body.model for part in self._joined]
        self._crowd = ModelBatch(models, [part.start for part in self._joined], len(x)) if models else None
        self._bound = min(self._steps(x, v), default=math.inf)
        self._too_short = SHORTEST * min((part.rest_step for part in parts), default=0.0)

    def step(self, left: float, contacts: ContactForces, dx: Floats, since: float) -> float:
        """Move all bodies by one sub-step of at most ``left``, ``since`` after the search; return its length."""
        for part, fixed, moved, motion in self._told:
            part.v[fixed], part.v[moved] = 0.0, motion
        self._pull()
        fall, move = kernels.fall.over(len(self._x)), kernels.move.over(len(self._x))
        while True:
            count = math.ceil(left / (SHARE * self._bound) * (1.0 - ROUNDING)) if self._bound > 0.0 else 1
            h = left / max(count, 1)
            fall(h, self._v, self._force, self._inverse_mass, self._gravity, self._free)
            contact = contacts.over(h, dx, self._free, since)
            move(h, self._x, self._free, contact, self._inverse_mass, self._moves, self._new_x, self._new_v)
            bears, weakest = self._bears(self._new_x, self._new_v)
            if h <= LENIENCE * SHARE * bears:
                self._x[...], self._v[...], self._bound = self._new_x, self._new_v, bears
                return h
            self._bound = 0.5 * h / SHARE
            if weakest is not None and not self._bound > min(self._too_short, SHORTEST * left):
                self._give_up(weakest, contact)

    def _pull(self) -> None:
        """Find the forces of all models; one may return another array than the one it was offered."""
        if self._crowd is not None:
            self._crowd.forces(self._x, self._v, self._force)
        for part in self._alone:
            own = self._force[part.rows]
            found = part.body.model.forces(part.x, part.v, own)
            if found is not own:
                own[...] = as_positions(found, name="forces of the model", count=len(own), check=False)
        if not math.isfinite(self._force.sum()):
            for part in self._parts:
                if not math.isfinite(self._force[part.rows].sum()):
                    raise LostError(part, "its forces are not finite")

    def _steps(self, x: Floats, v: Floats) -> list[float]:
        """The longest step of each body, those of the crowd first."""
        steps = [] if self._crowd is None else self._crowd.stable_steps(x, v)
        return steps + [part.body.model.stable_step(x[part.rows], v[part.rows]) for part in self._alone]

    def _bears(self, x: Floats, v: Floats) -> tuple[float, SoftPart | None]:
        """The longest step that the bodies bear in a state, 0 if it is not finite, and the body that bears least."""
        parts = [*self._joined, *self._alone]
        if not (math.isfinite(x.sum()) and math.isfinite(v.sum())):
            for part in parts:
                if not (math.isfinite(x[part.rows].sum()) and math.isfinite(v[part.rows].sum())):
                    return 0.0, part
        least, weakest = math.inf, None
        for part, bears in zip(parts, self._steps(x, v)):
            if not bears >= least:
                least, weakest = bears, part
        return least, weakest

    def _give_up(self, part: SoftPart, contact: Floats) -> NoReturn:
        """Name the vertex that is pushed hardest in the last good state."""
        push = (self._force + contact) * self._inverse_mass[:, None]
        acceleration = np.abs(push + self._gravity)[part.rows].max(axis=1)
        hardest = int(np.argmax(np.where(np.isnan(acceleration), np.inf, acceleration)))
        raise LostError(
            part,
            f"vertex {hardest}, accelerated by {acceleration[hardest]:.3g} m/s², would not stay finite however short "
            "the step",
        )
