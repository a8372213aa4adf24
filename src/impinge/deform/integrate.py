"""Move a model through time: the classical Runge-Kutta method in steps that it bears.

1. Bound.  The model tells the longest stable step for its present state (``ReducedModel.stable_step``); what is left of
           the duration is divided evenly into steps of at most that.
2. Step.   Four evaluations of the forces, at the start, twice in the middle, and at the end. External forces
           (contacts) and gravity stay as they are over the whole call. Fixed vertices stand still; those of
           ``prescribed`` move evenly with the velocities given, and nothing pushes them.
3. Accept. The new state is asked for its own bound. If the step was longer than ``LENIENCE`` times that, or the state
           is not finite, the step is taken back and halved; else go on at 1 with the bound just found.

Departures  [MendozaOSullivan2005] fixes neither the step nor how forces change within it.
Guarantee   Positions and velocities are finite afterwards, or an error says where they would not have been and they
            are as after the last good step. The same input gives the same bits.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from impinge.checks import Floats, Ints, as_buffer, as_ids, as_numbers, as_positions, check_finite, shown
from impinge.deform import integrate_kernels as kernels
from impinge.deform.fem import ReducedModel
from impinge.errors import ImpingeError, MeshError, OptionError

LENIENCE = 1.5
"""How much longer than the bound of the new state a step may have been: the bound has this much safety."""
SHORTEST = 1e-6
"""Steps this much shorter than the stable one at rest, and than the whole call, mean that the state is lost."""
ROUNDING = 1e-9
"""By this share a step may exceed its bound, so that ten steps of 0.1 s fit into a second."""
NO_GRAVITY = (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one call of ``advance`` did."""

    substeps: int
    """Steps taken."""
    rejected: int
    """Steps taken back and halved."""
    shortest_substep: float
    """Length of the shortest step taken [s]; infinite if there was none."""
    inverted: Ints
    """Tets that are flat or inside out at the end, rising."""


class Integrator:
    """Runge-Kutta steps of one model, with the memory that they need."""

    def __init__(self, model: ReducedModel) -> None:
        self.model = model
        masses = np.asarray(model.masses, dtype=np.float64)
        if not (np.isfinite(masses) & (masses > 0.0)).all():
            first = int(np.argmin(np.isfinite(masses) & (masses > 0.0)))
            raise MeshError(f"the mass of vertex {first} is {masses[first]:g}, expected a positive number")
        self._inverse_mass = 1.0 / masses
        self._rest_step = model.stable_step()
        n = len(masses)
        self._force, self._sum_v, self._sum_a, self._stage_x, self._stage_v, self._new_x, self._new_v = (
            np.zeros((n, 3)) for _ in range(7)
        )

    def advance(
        self,
        x: Floats,
        v: Floats,
        duration: float,
        *,
        external: Any = None,
        gravity: Any = NO_GRAVITY,
        fixed: Any = None,
        prescribed: Any = None,
        max_substep: float | None = None,
    ) -> StepReport:
        """Move positions ``x`` and velocities ``v``, both (n, 3), in place, by ``duration`` [s].

        external     forces on vertices [N], shape (n, 3), constant over the call
        gravity      acceleration of all vertices [m / s²]
        fixed        ids, or a mask, of vertices that stand still
        prescribed   (ids, velocities): vertices that move evenly, one velocity each or one for all
        max_substep  longest step to take, if shorter than what is stable [s]
        """
        n = len(self._inverse_mass)
        for name, state in (("x", x), ("v", v)):
            check_finite(as_buffer(state, name=name, count=n), name)
        duration = as_seconds(duration, "duration")
        longest = math.inf if max_substep is None else as_seconds(max_substep, "max_substep", zero=False)
        held, velocity = _held(fixed, prescribed, n)
        inverse_mass = self._inverse_mass.copy()
        base = np.tile(_gravity(gravity), (n, 1))
        if external is not None:
            with np.errstate(over="ignore"):  # what is not finite gets its sentence
                base += as_positions(external, name="external", count=n) * inverse_mass[:, None]
        base[held] = inverse_mass[held] = 0.0
        v[held] = velocity
        return self._advance(x, v, duration, longest, inverse_mass, base)

    def _advance(
        self, x: Floats, v: Floats, duration: float, longest: float, inverse_mass: Floats, base: Floats
    ) -> StepReport:
        left, taken, rejected, shortest = duration, 0, 0, math.inf
        bound = min(self.model.stable_step(x, v), longest)
        too_short = SHORTEST * min(self._rest_step, longest, duration)
        while left > 0.0:
            if not bound > too_short:
                self._give_up(x, v, inverse_mass, base, f"sub-step {taken + 1}, {duration - left:g} s after the start")
            count = max(math.ceil(left / bound * (1.0 - ROUNDING)), 1)
            step = left / count
            next_bound = self._try(x, v, step, inverse_mass, base)
            if step > LENIENCE * next_bound:
                rejected += 1
                bound = 0.5 * step
                continue
            x[...], v[...] = self._new_x, self._new_v
            left = left - step if count > 1 else 0.0
            taken, shortest, bound = taken + 1, min(shortest, step), min(next_bound, longest)
        return StepReport(taken, rejected, shortest, self.model.inverted(x))

    def _try(self, x: Floats, v: Floats, step: float, inverse_mass: Floats, base: Floats) -> float:
        """Compute the state after a step; return the step that it bears itself, 0 if it is not finite."""
        stage = kernels.stage.over(len(x))
        self._stage_x[...], self._stage_v[...] = x, v
        for k, (weight, onwards) in enumerate(((1.0, 0.5), (2.0, 0.5), (2.0, 1.0), (1.0, 0.0))):
            stage(
                k == 0, weight, onwards * step, x, v, self._forces(), inverse_mass, base,
                self._stage_x, self._stage_v, self._sum_v, self._sum_a,
            )  # fmt: skip
        finish = kernels.finish.over(len(x))
        finish(step / 6.0, x, v, self._sum_v, self._sum_a, self._new_x, self._new_v)
        if not (np.isfinite(self._new_x).all() and np.isfinite(self._new_v).all()):
            return 0.0
        return self.model.stable_step(self._new_x, self._new_v)

    def _forces(self) -> Floats:
        """Forces at the present stage; a model may return another array than the one it was offered."""
        found = self.model.forces(self._stage_x, self._stage_v, self._force)
        if found is not self._force:
            self._force[...] = as_positions(found, name="forces of the model", count=len(self._force), check=False)
        return self._force

    def _give_up(self, x: Floats, v: Floats, inverse_mass: Floats, base: Floats, when: str) -> NoReturn:
        """Name the vertex that is pushed hardest in the last good state."""
        with np.errstate(over="ignore", invalid="ignore"):
            acceleration = np.abs(self.model.forces(x, v) * inverse_mass[:, None] + base).max(axis=1)
        hardest = int(np.argmax(np.where(np.isnan(acceleration), np.inf, acceleration)))
        raise ImpingeError(
            f"{when}: vertex {hardest}, accelerated by {acceleration[hardest]:.3g} m/s², would not stay finite however "
            "short the step; weaken the external forces or the prescribed motion, or start nearer to rest"
        )


def advance(model: ReducedModel, x: Floats, v: Floats, duration: float, **options: Any) -> StepReport:
    """Move a model once, in place; see ``Integrator.advance`` for the options."""
    return Integrator(model).advance(x, v, duration, **options)


def as_seconds(value: Any, name: str, *, zero: bool = True) -> float:
    """Turn ``value`` into a finite length of time, or say what was expected."""
    is_number = isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)
    if not is_number or not 0.0 <= value <= sys.float_info.max or (value == 0.0 and not zero):
        raise OptionError(f"{name} is {shown(value)}, expected a {'' if zero else 'positive '}number of seconds")
    return float(value)


def _gravity(gravity: Any) -> Floats:
    array = as_numbers(gravity, "gravity").astype(np.float64)
    if array.shape != (3,) or not np.isfinite(array).all():
        raise OptionError(f"gravity is {shown(gravity)}, expected three finite numbers [m/s²]")
    return array


def _held(fixed: Any, prescribed: Any, count: int) -> tuple[Ints, Floats]:
    """Ids of the vertices that forces do not move, and their velocities."""
    ids = as_ids([] if fixed is None else fixed, name="fixed", count=count)
    if prescribed is None:
        return ids, np.zeros((len(ids), 3))
    try:
        moved, velocities = prescribed
    except (TypeError, ValueError) as error:
        raise OptionError(f"prescribed is {shown(prescribed)}, expected a pair (ids, velocities)") from error
    moved = np.atleast_1d(as_numbers(moved, "ids of prescribed"))
    if moved.dtype.kind == "b":
        moved = as_ids(moved, name="ids of prescribed", count=count)
    if len(as_ids(moved, name="ids of prescribed", count=count)) != len(moved):
        raise OptionError("ids of prescribed hold a vertex twice; give each one velocity")
    velocities = np.atleast_2d(as_numbers(velocities, "velocities of prescribed")).astype(np.float64)
    if velocities.shape not in ((1, 3), (len(moved), 3)):
        raise OptionError(f"velocities of prescribed have shape {velocities.shape}, expected ({len(moved)}, 3) or (3,)")
    check_finite(velocities, "velocities of prescribed")
    both = np.intersect1d(ids, moved)
    if len(both):
        raise OptionError(f"vertex {both[0]} is both fixed and prescribed; leave it out of one of them")
    velocities = np.broadcast_to(velocities, (len(moved), 3))
    return np.concatenate([ids, moved.astype(np.int32)]), np.concatenate([np.zeros((len(ids), 3)), velocities])
