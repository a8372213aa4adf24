"""Derivatives of dense by coarse positions: the matrix that maps velocities forth and forces back.

    dp = D dq     of chosen dense vertices p; forces f on them act on the coarse mesh as Dᵀ f

The transpose conserves the work, the sum and the torque of forces.

Barycentric  p = Σ w_j q_j, hence D has the weights on its diagonals and is constant.
Rigid links  p = O + Σ s_i e_i. With u = q1 - q0, w = q2 - q0, n = u × w:
                 dO  = Σ α_i dq_i
                 de0 = (dn - e0 (e0 · dn)) / |n|,   dn = du × w + u × dw
                 de1 = -(du - e1 (e1 · du)) / |u|
                 de2 = de0 × e1 + e0 × de1,         since e2 = e0 × e1
             For a collinear triple, |n| is bounded from below by ``FLAT``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from impinge.checks import Floats

FLAT = 1e-3
"""Least |n| / longest side²: below it, forces on links would grow without bound."""


def rigid_link_blocks(q: Floats, coefficient: Floats, frame: Floats) -> Floats:
    """Blocks of D for vertices that hang on triples ``q`` (k, 3, 3), shape (k, 3, 3, 3).

    ``coefficient`` has α1, α2 and s in its rows, ``frame`` the unit vectors e0, e1, e2, shape (k, 3, 3).
    """
    u, w = q[:, 1] - q[:, 0], q[:, 2] - q[:, 0]
    e0, e1 = frame[:, 0], frame[:, 1]
    s = coefficient[:, 2:]
    side_sq = np.maximum((u * u).sum(axis=1), (w * w).sum(axis=1))
    normal_length = np.maximum(np.linalg.norm(np.cross(u, w), axis=1), FLAT * side_sq)
    u_length = np.maximum(np.linalg.norm(u, axis=1), FLAT * np.sqrt(side_sq))
    # de0 = A (dn), de1 = -B (du), with A and B projections across e0 and e1
    across_0 = (np.eye(3) - e0[:, :, None] * e0[:, None]) / normal_length[:, None, None]
    across_1 = (np.eye(3) - e1[:, :, None] * e1[:, None]) / u_length[:, None, None]
    turn_0 = s[:, 0, None, None] * np.eye(3) - s[:, 2, None, None] * _cross(e1)  # of de0: s0 + s2 (· × e1)
    turn_1 = s[:, 1, None, None] * np.eye(3) + s[:, 2, None, None] * _cross(e0)  # of de1: s1 + s2 (e0 × ·)
    by_u = turn_0 @ across_0 @ -_cross(w) - turn_1 @ across_1
    by_w = turn_0 @ across_0 @ _cross(u)
    alpha_1, alpha_2 = coefficient[:, 0, None, None] * np.eye(3), coefficient[:, 1, None, None] * np.eye(3)
    at_1, at_2 = alpha_1 + by_u, alpha_2 + by_w
    return np.stack([np.eye(3) - at_1 - at_2, at_1, at_2], axis=1)


def _cross(a: Floats) -> Any:
    """Matrices of a × ·, shape (k, 3, 3)."""
    zero = np.zeros(len(a))
    x, y, z = a.T
    return np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=1).reshape(-1, 3, 3)
