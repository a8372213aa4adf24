"""Steps of rigid bodies around the implicit solver: exact free rotation, forces from the solver, rigid poses.

The solver (``deform.implicit``) moves the four masses of each body (``deform.rigid_tet``) on straight lines, as any
vertices. A step of length h:

1. Predict  The free rotation over h by Euler's equations, in parts of at most ``TURN``. Each part is a composition of
            fourth order [Suzuki1990] of steps that turn the body by a Cayley transform and keep momentum and energy
            ([Simo1991]).
2. Chords   Velocities of the masses become the chords to the predicted pose: without forces the solver returns that
            pose.
3. Solve    contacts, friction and gravity. Forces change the chords; their moments about the centre change the angular
            momentum. Gravity has none.
4. Finish   The pose is the rotation nearest to the solver's deformation gradient, and the angular velocity follows from
            the momentum and the inertia in that pose.

The midpoint rule has forces in the middle of the step: chords end there, and the rotation that forces cause up to there
is applied twice to the free rotation over h.

Guarantee   Free bodies keep their angular momentum and their energy to rounding, for any h, and follow Euler's
            equations to fourth order in ``TURN``. Poses are rigid to rounding. Impulses change linear and angular
            momentum as on the deformable tet: action equals reaction.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from impinge.bodies import rigid_motion_kernels as kernels
from impinge.checks import Bools, Floats
from impinge.deform.rigid_tet import RigidTet


class RigidMotion:
    """Steps of several bodies; the four masses of body k begin at row ``first[k]`` of the common arrays."""

    def __init__(self, models: Sequence[RigidTet], first: Sequence[int]) -> None:
        self._rows: NDArray[np.int64] = np.array(first, dtype=np.int64)
        self._mass = np.array([float(model.masses.sum()) for model in models])
        self._constants = tuple(
            np.array([getattr(model, name) for model in models]).reshape(-1, *shape)
            for name, shape in (("arms", (4, 3)), ("duals", (4, 3)), ("axes", (3, 3)), ("inertia", (3,)))
        )
        count = len(models)
        self._state = np.zeros((count, 3)), np.zeros((count, 3, 3)), np.zeros((count, 3, 3))
        """Angular momenta, and rotations of the free motion: at the time of forces, and at the end."""
        self._awake, self._is_midpoint = np.ones(count, dtype=np.bool_), False
        self._before = np.zeros((0, 3)), np.zeros((0, 3))

    def begin(self, x: Floats, v: Floats, h: float, *, awake: Bools, is_midpoint: bool) -> None:
        """Replace the velocities ``v`` of bodies that are awake by chords, in place."""
        self._awake, self._is_midpoint = awake, is_midpoint
        kernels.begin(h, is_midpoint, awake, self._rows, self._mass, *self._constants, x, v, *self._state)
        self._before = x.copy(), v.copy()

    def end(self, x: Floats, v: Floats, touched: Bools, couple: Floats | None = None) -> None:
        """Make the result of the solver rigid, in place.

        Forces, those of gravity aside, act on ``touched`` bodies; ``couple`` (m, 3) is angular momentum that they lose.
        """
        lost = np.zeros_like(self._state[0]) if couple is None else couple
        kernels.end(
            self._is_midpoint, self._awake, touched, lost, self._rows, self._mass, *self._constants, *self._before, x,
            v, *self._state,
        )  # fmt: skip
