"""Analytic deformations: waves, twists and explosions, to move bodies without simulation.

A deformation maps rest positions, shape (n, 3), to new ones; pass the result to ``update``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from impinge.checks import Floats, as_choice, as_number, as_positions
from impinge.errors import OptionError


@dataclass(frozen=True, slots=True)
class Wave:
    """Travelling waves: each coordinate oscillates with the next one, ``x_i + A sin(k x_(i+1) + w t)``.

    The change has the Lipschitz constant A k: below 1 the map is injective: a body neither folds nor
    intersects itself. (Between vertices triangles stay flat; fine meshes follow the map closely.)
    """

    amplitude: float
    """A [input unit]."""
    wave_number: float
    """k [1 / input unit]: one wave is 2π / k long."""
    angular_speed: float = 1.0
    """w [1 / unit of t]."""

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, (self.amplitude, self.wave_number, self.angular_speed))):
            raise OptionError(f"{self} has an infinite or undefined number; all three must be finite")
        steepness = abs(self.amplitude * self.wave_number)
        if steepness >= 1.0:
            raise OptionError(f"amplitude · wave_number is {steepness:g}, expected less than 1: steeper waves fold")

    def __call__(self, rest_positions: ArrayLike, t: float) -> Floats:
        """Positions at time ``t``, shape (n, 3)."""
        x = as_positions(rest_positions, name="rest_positions")
        return x + self.amplitude * np.sin(self.wave_number * x[:, [1, 2, 0]] + self.angular_speed * t)


def twist(positions: ArrayLike, angle_per_length: float, *, axis: int = 2) -> Floats:
    """Rotate each slice across ``axis`` (0, 1 or 2) by ``angle_per_length`` [rad] times its coordinate."""
    as_choice(axis, "axis", (0, 1, 2))
    x = as_positions(positions, name="positions")
    u, v = (axis + 1) % 3, (axis + 2) % 3
    angle = angle_per_length * x[:, axis]
    twisted = x.copy()
    twisted[:, u] = np.cos(angle) * x[:, u] - np.sin(angle) * x[:, v]
    twisted[:, v] = np.sin(angle) * x[:, u] + np.cos(angle) * x[:, v]
    return twisted


def explode(positions: ArrayLike, amount: float, *, seed: int = 0) -> Floats:
    """Move vertices away from their mean by random fractions, up to ``amount``, of their distance.

    Neighbours separate: the hardest case for a structure that is refitted and not rebuilt.
    """
    as_number(amount, "amount", "a finite number of at least 0", least=0.0, below=math.inf)
    x = as_positions(positions, name="positions")
    if not len(x):
        return x.copy()
    share = np.random.default_rng(seed).random((len(x), 1))
    centre = x.mean(axis=0)
    return np.asarray(centre + (1.0 + amount * share) * (x - centre))


def turn_inside_out(positions: ArrayLike, t: float) -> Floats:
    """Push vertices through their mean to the other side, one slice across x after the other; all are at t = 1."""
    x = as_positions(positions, name="positions")
    if not len(x):
        return x.copy()
    lo, hi = x[:, 0].min(), x[:, 0].max()
    turn = np.clip(2.0 * t - (x[:, :1] - lo) / max(hi - lo, np.finfo(np.float64).tiny), 0.0, 1.0)
    centre = x.mean(axis=0)
    return np.asarray(centre + (1.0 - 2.0 * turn) * (x - centre))
