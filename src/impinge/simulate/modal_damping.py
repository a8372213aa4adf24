"""Let slow swings of a soft body die out: viscous steps, some in each frame, beyond what its material damps.

Materials damp fast swings and hardly slow ones, which would go on for minutes. Here the damping ratio ζ of the slowest
shear wave, of frequency ω, is given; the viscous stress that has it is τ = 2 ζ / ω times the elastic one at rest:

    (M + dt τ K) v' = M v     K  the stiffness of linear elasticity at rest, in the frame that turns with the body

Implicit, so that any dt is stable. The matrix is factorised for powers of 2; of a step of the next longer one, the
share is taken that dt is of it. Only the motion beyond that of a rigid body
takes part, and what the step makes of it loses its own rigid part: both momenta stay to rounding, energy never grows.
A model that tells no material is left alone.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from impinge.checks import Floats
from impinge.deform.fem import ReducedModel
from impinge.deform.materials import Material


class Settle:
    """The viscous step of one body of a given size."""

    def __init__(self, model: ReducedModel, size: float, ratio: float) -> None:
        material = getattr(model, "material", None)
        self._masses = np.asarray(model.masses, dtype=np.float64)[:, None]
        self._total = self._masses.sum()
        self._rest_moments = self._masses * (model.rest - (self._masses * model.rest).sum(axis=0) / self._total)
        self._stiffness: Any = None
        self._factors: dict[float, Any] = {}
        if isinstance(material, Material) and ratio > 0.0:
            slowest = 0.5 * math.pi * math.sqrt(material.lame_mu / material.density) / size
            self._stiffness = 2.0 * ratio / slowest * _stiffness(model, material)

    def settle(self, x: Floats, v: Floats, dt: float) -> None:
        """Change velocities in place, as over a time ``dt``."""
        if self._stiffness is None or not v.any():
            return
        arm = x - (self._masses * x).sum(axis=0) / self._total
        inverse = self._inverse_inertia(arm)
        if inverse is None:
            return  # lost; the step will say so
        turn = self._turn(arm)
        swing = v - self._rigid(arm, inverse, v)
        longer = 2.0 ** math.ceil(math.log2(dt))
        damped = self._factor(longer).solve((self._masses * (swing @ turn)).reshape(-1)).reshape(-1, 3) @ turn.T
        v += dt / longer * (damped - self._rigid(arm, inverse, damped) - swing)

    def _factor(self, dt: float) -> Any:
        from scipy.sparse import diags_array
        from scipy.sparse.linalg import splu

        if dt not in self._factors:
            mass = diags_array(np.repeat(self._masses, 3))
            self._factors[dt] = splu(
                (mass + dt * self._stiffness).tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            )  # fmt: skip
        return self._factors[dt]

    def _inverse_inertia(self, arm: Floats) -> Floats | None:
        """Inverse moments of inertia about the centre, None if they are not finite."""
        inertia = np.vdot(self._masses * arm, arm) * np.eye(3) - (self._masses * arm).T @ arm
        return np.asarray(np.linalg.pinv(inertia)) if np.isfinite(inertia).all() else None

    def _rigid(self, arm: Floats, inverse_inertia: Floats, v: Floats) -> Floats:
        """The motion as a rigid body with the same momenta."""
        each = self._masses * v
        moment = arm.T @ each
        turning = inverse_inertia @ (moment - moment.T)[[1, 2, 0], [2, 0, 1]]
        # The product ω x arm as one with a matrix.
        matrix = np.array(
            [[0.0, turning[2], -turning[1]], [-turning[2], 0.0, turning[0]], [turning[1], -turning[0], 0.0]]
        )
        return np.asarray(each.sum(axis=0) / self._total + arm @ matrix)

    def _turn(self, arm: Floats) -> Floats:
        """How the body is turned against its rest: the rotation nearest to where masses have gone."""
        u, _, w = np.linalg.svd(arm.T @ self._rest_moments)
        if np.linalg.det(u @ w) < 0.0:
            u[:, 2] = -u[:, 2]
        return np.asarray(u @ w)


def _stiffness(model: ReducedModel, material: Material) -> Any:
    """Linear elasticity at rest: V (λ g_a g_bᵀ + μ g_b g_aᵀ + μ (g_a · g_b) I), g the gradients of corner weights."""
    from scipy.sparse import coo_array

    tets = np.asarray(model.tets, dtype=np.int64)
    corner = model.rest[tets]
    edges = corner[:, 1:] - corner[:, :1]
    inner = np.linalg.inv(edges).transpose(0, 2, 1)
    gradient = np.concatenate([-inner.sum(axis=1, keepdims=True), inner], axis=1)
    volume = np.abs(np.linalg.det(edges)) / 6.0
    outer = np.einsum("tai,tbj->tabij", gradient, gradient)
    dot = np.einsum("tabii->tab", outer)[..., None, None] * np.eye(3)
    block = material.lame_lambda * outer + material.lame_mu * (outer.swapaxes(-1, -2) + dot)
    block *= volume[:, None, None, None, None]
    place = 3 * tets[:, :, None] + np.arange(3)
    row = np.broadcast_to(place[:, :, None, :, None], block.shape)
    column = np.broadcast_to(place[:, None, :, None, :], block.shape)
    size = 3 * len(model.rest)
    return coo_array((block.reshape(-1), (row.reshape(-1), column.reshape(-1))), shape=(size, size)).tocsr()
