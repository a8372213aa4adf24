"""Explicit integration: the classical Runge-Kutta method with adaptive stable steps.

1. Bound.  The model returns the longest stable step of its present state (``ReducedModel.stable_step``); the remaining
           duration is divided evenly into steps of at most that.
2. Step.   Four evaluations of the forces, at the start, twice in the middle, and at the end. External forces
           (contacts) and gravity are constant over the call. Fixed vertices do not move; those of ``prescribed`` move
           with constant velocities, independent of forces.
3. Accept. The new state has a bound of its own. If the step was longer than ``LENIENCE`` times that, or the state is
           not finite, the step is rejected and halved; else continue at 1 with the new bound.

Departures  [MendozaOSullivan2005] fixes neither the step nor how forces change within it.
Guarantee   Positions and velocities are finite afterwards; else an error names the vertex, and the state is that after
            the last accepted step. The same input gives the same bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from impinge.checks import Floats, Ints, as_buffer, as_ids, as_number, as_numbers, as_positions, check_finite, shown
from impinge.deform import integrate_kernels as kernels
from impinge.deform.fem import ReducedModel
from impinge.errors import ImpingeError, MeshError, OptionError

LENIENCE = 1.5
"""Largest ratio of a step to the bound of the new state: the safety of the bound."""
SHORTEST = 1e-6
"""Steps shorter by this factor than the stable step at rest and than the call mean divergence."""
ROUNDING = 1e-9
"""Relative tolerance of the bound: ten steps of 0.1 s fit into 1 s."""
NO_GRAVITY = (0.0, 0.0, 0.0)
MOST_SUBSTEPS = 200_000
"""Sub-steps of one call: minutes of work."""


def check_duration(duration: float, bound: float) -> None:
    """Refuse more than ``MOST_SUBSTEPS`` sub-steps of the length ``bound``."""
    if bound > 0.0 and duration / bound > MOST_SUBSTEPS:
        raise OptionError(
            f"a step of {duration:g} s needs {duration / bound:.3g} sub-steps of {bound:.3g} s, expected at most "
            f"{MOST_SUBSTEPS:,}; step for a shorter time, or use a softer material or a coarser mesh"
        )


@dataclass(frozen=True, slots=True)
class StepReport:
    """Statistics of one call of ``advance``."""

    substeps: int
    """Steps taken."""
    rejected: int
    """Steps rejected and halved."""
    shortest_substep: float
    """Length of the shortest step taken [s]; infinite if there was none."""
    inverted: Ints
    """Ids of tets that are flat or inverted at the end, rising."""
    newton_steps: int = 0
    """Newton steps of implicit steps."""
    iterations: int = 0
    """Iterations of conjugate gradients of implicit steps."""
    converged: bool = True
    """Whether all implicit steps reached their tolerance."""


class Integrator:
    """Runge-Kutta steps of one model, with their scratch memory."""

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
        external: ArrayLike | None = None,
        gravity: ArrayLike = NO_GRAVITY,
        fixed: ArrayLike | None = None,
        prescribed: tuple[ArrayLike, ArrayLike] | None = None,
        max_substep: float | None = None,
    ) -> StepReport:
        """Move positions ``x`` and velocities ``v``, both (n, 3), in place.

        Parameters
        ----------
        x, v
            Contiguous float64 arrays of shape (n, 3) [m], [m / s].
        duration
            Time to move by [s].
        external
            Forces on vertices [N], shape (n, 3), constant over the call.
        gravity
            Acceleration of all vertices [m / s²].
        fixed
            Ids, or a mask, of vertices that do not move.
        prescribed
            (ids, velocities): vertices of constant velocity, one velocity each or one for all.
        max_substep
            Upper bound of the step [s].

        Raises
        ------
        ImpingeError
            If the state would not stay finite; ``x`` and ``v`` are then those of the last accepted step.
        """
        n = len(self._inverse_mass)
        for name, state in (("x", x), ("v", v)):
            check_finite(as_buffer(state, name=name, count=n), name)
        duration = as_seconds(duration, "duration")
        longest = math.inf if max_substep is None else as_seconds(max_substep, "max_substep", zero=False)
        held, velocity = _held(fixed, prescribed, n)
        inverse_mass = self._inverse_mass.copy()
        acceleration = as_numbers(gravity, "gravity").astype(np.float64)
        if acceleration.shape != (3,) or not np.isfinite(acceleration).all():
            raise OptionError(f"gravity is {shown(gravity)}, expected three finite numbers [m/s²]")
        base = np.tile(acceleration, (n, 1))
        if external is not None:
            with np.errstate(over="ignore"):  # reported as an error below
                base += as_positions(external, name="external", count=n) * inverse_mass[:, None]
        base[held] = inverse_mass[held] = 0.0
        v[held] = velocity
        left, taken, rejected, shortest = duration, 0, 0, math.inf
        bound = min(self.model.stable_step(x, v), longest)
        check_duration(duration, min(self._rest_step, longest))
        too_short = SHORTEST * min(self._rest_step, longest, duration)
        while left > 0.0:
            if not bound > too_short:
                # Name the vertex of largest acceleration in the last accepted state.
                with np.errstate(over="ignore", invalid="ignore"):
                    pull = np.abs(self.model.forces(x, v) * inverse_mass[:, None] + base).max(axis=1)
                hardest = int(np.argmax(np.where(np.isnan(pull), np.inf, pull)))
                raise ImpingeError(
                    f"sub-step {taken + 1}, {duration - left:g} s after the start: vertex {hardest}, accelerated by "
                    f"{pull[hardest]:.3g} m/s², would not stay finite however short the step; weaken the external "
                    "forces or the prescribed motion, or start nearer to rest"
                )
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
        """Compute the state after a step; return its own bound, 0 if it is not finite."""
        stage = kernels.stage.over(len(x))
        self._stage_x[...], self._stage_v[...] = x, v
        for k, (weight, onwards) in enumerate(((1.0, 0.5), (2.0, 0.5), (2.0, 1.0), (1.0, 0.0))):
            found = self.model.forces(self._stage_x, self._stage_v, self._force)
            if found is not self._force:  # a model may return an array of its own
                self._force[...] = as_positions(found, name="forces of the model", count=len(x), check=False)
            stage(
                k == 0, weight, onwards * step, x, v, self._force, inverse_mass, base,
                self._stage_x, self._stage_v, self._sum_v, self._sum_a,
            )  # fmt: skip
        finish = kernels.finish.over(len(x))
        finish(step / 6.0, x, v, self._sum_v, self._sum_a, self._new_x, self._new_v)
        if not (np.isfinite(self._new_x).all() and np.isfinite(self._new_v).all()):
            return 0.0
        return self.model.stable_step(self._new_x, self._new_v)


def as_seconds(value: Any, name: str, *, zero: bool = True) -> float:
    """Convert ``value`` to a finite time [s], or raise an error."""
    expected = f"a {'' if zero else 'positive '}number of seconds"
    return as_number(value, name, expected, least=0.0, above=None if zero else 0.0, below=math.inf)


def _held(fixed: ArrayLike | None, prescribed: Any, count: int) -> tuple[Ints, Floats]:
    """Ids of fixed and prescribed vertices, and their velocities."""
    ids = as_ids([] if fixed is None else fixed, name="fixed", count=count)
    if prescribed is None:
        return ids, np.zeros((len(ids), 3))
    try:
        moved, velocities = prescribed
    except (TypeError, ValueError) as error:
        raise OptionError(f"prescribed is {shown(prescribed)}, expected a pair (ids, velocities)") from error
    moved, velocities = as_motion(moved, velocities, count, of=" of prescribed")
    both = np.intersect1d(ids, moved)
    if len(both):
        raise OptionError(f"vertex {both[0]} is both fixed and prescribed; leave it out of one of them")
    return np.concatenate([ids, moved]), np.concatenate([np.zeros((len(ids), 3)), velocities])


def as_motion(ids: ArrayLike, velocities: ArrayLike, count: int, *, of: str = "") -> tuple[Ints, Floats]:
    """Ids of distinct vertices, in the given order, and a velocity of each: one row for each id, or one for all."""
    rows = np.atleast_1d(as_numbers(ids, f"ids{of}"))
    unique = as_ids(rows, name=f"ids{of}", count=count)
    if rows.dtype.kind == "b":
        rows = unique
    if len(unique) != len(rows):
        raise OptionError(f"ids{of} hold a vertex twice; give each one velocity")
    motion = np.atleast_2d(as_numbers(velocities, f"velocities{of}")).astype(np.float64)
    if motion.shape not in ((1, 3), (len(rows), 3)):
        raise OptionError(f"velocities{of} have shape {motion.shape}, expected ({len(rows)}, 3) or (3,) for all")
    check_finite(motion, f"velocities{of}")
    return rows.astype(np.int32), np.broadcast_to(motion, (len(rows), 3))
