"""Modal damping of a soft body: viscous steps that damp its slow oscillations beyond its material damping.

Material damping attenuates fast oscillations and hardly the slow ones, which would last for minutes. The damping ratio
ζ of the slowest shear wave, of angular frequency ω, is given. The corresponding viscous stress is τ = 2 ζ / ω times the
linear elastic stress at rest:

    (M + dt τ K) v' = M v     K  stiffness of linear elasticity at rest, in the co-rotated frame of the body

The step is implicit and stable for any dt. The matrix is factorised for powers of 2: a step dt is dt / longer of a step
of the next power of 2, ``longer``. Only the non-rigid part of the motion is damped, and the rigid part of the result is
removed again: linear and angular momentum are conserved to rounding, and energy never grows. Models without a material
are not damped.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from impinge.checks import Floats
from impinge.deform.fem import ReducedModel
from impinge.deform.materials import Material


class ModalDamping:
    """Viscous step of one body; ``size`` is its edge length [m], ``ratio`` the damping ratio of its slowest mode."""

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

    def apply(self, x: Floats, v: Floats, dt: float) -> None:
        """Damp the velocities ``v`` in place over a time ``dt``."""
        if self._stiffness is None or not v.any():
            return
        arm = x - (self._masses * x).sum(axis=0) / self._total
        inertia = np.vdot(self._masses * arm, arm) * np.eye(3) - (self._masses * arm).T @ arm
        if not np.isfinite(inertia).all():
            return  # diverged; the frame raises the error
        inverse = np.asarray(np.linalg.pinv(inertia))
        rotation = self._rotation(arm)
        oscillation = v - self._rigid(arm, inverse, v)
        longer = 2.0 ** math.ceil(math.log2(dt))
        momentum = (self._masses * (oscillation @ rotation)).reshape(-1)
        damped = self._factor(longer).solve(momentum).reshape(-1, 3) @ rotation.T
        v += dt / longer * (damped - self._rigid(arm, inverse, damped) - oscillation)

    def _factor(self, dt: float) -> Any:
        """Sparse factorisation of M + dt τ K, cached."""
        from scipy.sparse import diags_array
        from scipy.sparse.linalg import splu

        if dt not in self._factors:
            mass = diags_array(np.repeat(self._masses, 3))
            self._factors[dt] = splu(
                (mass + dt * self._stiffness).tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            )  # fmt: skip
        return self._factors[dt]

    def _rigid(self, arm: Floats, inverse_inertia: Floats, v: Floats) -> Floats:
        """Rigid motion with the linear and angular momentum of ``v``."""
        each = self._masses * v
        moment = arm.T @ each
        omega = inverse_inertia @ (moment - moment.T)[[1, 2, 0], [2, 0, 1]]
        # ω x arm as a matrix product
        cross = np.array([[0.0, omega[2], -omega[1]], [-omega[2], 0.0, omega[0]], [omega[1], -omega[0], 0.0]])
        return np.asarray(each.sum(axis=0) / self._total + arm @ cross)

    def _rotation(self, arm: Floats) -> Floats:
        """Rotation from rest: the best fit of the mass-weighted positions (polar decomposition)."""
        u, _, w = np.linalg.svd(arm.T @ self._rest_moments)
        if np.linalg.det(u @ w) < 0.0:
            u[:, 2] = -u[:, 2]
        return np.asarray(u @ w)


def _stiffness(model: ReducedModel, material: Material) -> Any:
    """Stiffness of linear elasticity at rest: V (λ g_a g_bᵀ + μ g_b g_aᵀ + μ (g_a · g_b) I).

    g are the gradients of the barycentric coordinates.
    """
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
