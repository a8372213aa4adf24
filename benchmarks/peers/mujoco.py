"""MuJoCo's flex with the integrator "discrete": one linearised implicit step per frame, contacts inside.

It solves M̂ a = f(q) - h K v + Jᵀ f_c with M̂ = M + h² K: one step of Newton's method on St. Venant-Kirchhoff tets, K
without the compressive part of the geometric stiffness. Contact forces obey MuJoCo's regularised constraints with
default ``solref``, elliptic cones. ``tolerance`` ends the solver when the cost improves by less, scaled by the inverse
trace of the inertia matrix, or when the gradient does: it does not bound a relative residual.

Elastic forces for the residual are those of our ``GreenStrain`` without barrier: the same energy,
λ/2 tr(ε)² + μ tr(ε²) of the Green strain. With the solver "Newton", which is direct, the residual so computed falls to
1e-9: both energies agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers.soft_body import GRAVITY, Drop, SoftBodyPeer
from impinge.checks import Floats
from impinge.deform.fem import GreenStrain

RADIUS = 1e-4
"""Of contact vertices [m]; MuJoCo needs a positive one."""
MOST_ITERATIONS = 2000
MOST_TETS_FACTORED = 10_000
"""Larger bodies take the direct solver minutes."""


class MuJoCo(SoftBodyPeer):
    """One body; MuJoCo solves one island on one thread."""

    package, module = "mujoco", "mujoco"
    has_residual = True

    def __init__(self, solver: str, tolerance: float) -> None:
        self.solver, self.tolerance = solver, tolerance
        self.name = f"MuJoCo, {solver} {tolerance:.0e}"

    def refusal(self, drop: Drop) -> str | None:
        """Refuse the direct solver for large bodies."""
        if self.solver == "Newton" and len(drop.tets) > MOST_TETS_FACTORED:
            return f"left out: the direct solver is slow beyond {MOST_TETS_FACTORED} tets"
        return None

    def prepare(self, drop: Drop) -> None:
        """Compile the model with our masses."""
        import mujoco

        self.drop = drop
        mujoco.set_mju_user_warning(_ignore)  # each data counts its own
        x = drop.tets.vertices
        contact = f'friction="{drop.friction} 0.005 0.0001"'
        self._model: Any = mujoco.MjModel.from_xml_string(f"""<mujoco>
          <size memory="2G"/>
          <option timestep="{drop.dt!r}" integrator="discrete" cone="elliptic" solver="{self.solver}"
            tolerance="{self.tolerance!r}" iterations="{MOST_ITERATIONS}" gravity="0 0 {-GRAVITY}"/>
          <worldbody>
            <geom type="plane" size="0 0 1" {contact}/>
            <flexcomp name="body" type="direct" dim="3" mass="1" radius="{RADIUS}" point="{_text(x)}"
                element="{_text(drop.tets.tets)}">
              <contact selfcollide="none" {contact}/>
              <edge equality="false"/>
              <elasticity young="{drop.youngs_modulus!r}" poisson="{drop.material.poisson_ratio!r}" damping="0"/>
            </flexcomp>
          </worldbody></mujoco>""")
        self._model.body_mass[1:] = drop.masses
        mujoco.mj_setConst(self._model, mujoco.MjData(self._model))
        self._data: Any = mujoco.MjData(self._model)
        self._step = mujoco.mj_step
        self._elastic = GreenStrain(x, drop.tets.tets, drop.material, barrier=0.0)

    def step(self) -> None:
        """One step."""
        self._step(self._model, self._data)

    def state(self) -> tuple[Floats, Floats]:
        """Slides of vertices from their initial positions, and their speeds."""
        x = self.drop.tets.vertices
        return x + self._data.qpos.reshape(-1, 3), self._data.qvel.reshape(-1, 3).copy()

    def forces(self, x: Floats) -> Floats:
        """St. Venant-Kirchhoff forces and constraint forces."""
        contact: Floats = self._data.qfrc_constraint.reshape(-1, 3)
        return self._elastic.forces(x, np.zeros_like(x)) + contact

    def iterations(self) -> float:
        """Of the constraint solver; 0 if its warm start was good enough."""
        return float(self._data.solver_niter[0])

    def remark(self) -> str:
        """Warnings of the run: diagonal preconditioner failing, inertia singular."""
        count = sum(each.number for each in self._data.warning)
        return f"warns {count} times of unconverged or singular systems" if count else ""


def _ignore(_: str) -> None:
    pass


def _text(values: Any) -> str:
    return " ".join(map(repr, np.asarray(values).reshape(-1).tolist()))
