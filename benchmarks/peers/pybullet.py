"""PyBullet's soft body: neo-Hookean tets with explicit elastic forces, hence in sub-steps.

Sub-steps are half as long as the stable step of the material, by ``impinge``'s estimate. Stiff bodies need hundreds:
they are left out, with their number.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.soft_body import GRAVITY, Drop, SoftBodyPeer
from impinge.checks import Floats
from impinge.deform.fem import GreenStrain

MOST_WORK = 100_000
"""Tets times sub-steps of a frame."""
MARGIN = 1e-3
"""Of collisions [m]."""


class PyBullet(SoftBodyPeer):
    """One body; one thread."""

    name, package, module = "PyBullet, explicit sub-steps", "pybullet", "pybullet"
    why_no_residual = "it reports neither forces nor velocities of vertices"

    def refusal(self, drop: Drop) -> str | None:
        """Refuse frames of many sub-steps."""
        count = _substeps(drop)
        if count * len(drop.tets) > MOST_WORK:
            return f"left out: explicit elastic forces need {count} sub-steps per frame"
        return None

    def prepare(self, drop: Drop) -> None:
        """Load the body from a file, the only way."""
        import pybullet

        self.drop, self.substeps, self._bullet = drop, _substeps(drop), pybullet
        self._client: int = pybullet.connect(pybullet.DIRECT)
        here: dict[str, Any] = {"physicsClientId": self._client}
        pybullet.resetSimulation(pybullet.RESET_USE_DEFORMABLE_WORLD, **here)
        pybullet.setGravity(0.0, 0.0, -GRAVITY, **here)
        pybullet.setTimeStep(drop.dt / self.substeps, **here)
        ground = pybullet.createMultiBody(0, pybullet.createCollisionShape(pybullet.GEOM_PLANE, **here), **here)
        pybullet.changeDynamics(ground, -1, lateralFriction=drop.friction, **here)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "body.vtk"
            path.write_text(_vtk(drop), encoding="ascii")
            self._body: int = pybullet.loadSoftBody(
                str(path), mass=float(drop.masses.sum()), useNeoHookean=1, NeoHookeanMu=drop.material.lame_mu,
                NeoHookeanLambda=drop.material.lame_lambda, NeoHookeanDamping=0.0, collisionMargin=MARGIN,
                useSelfCollision=0, frictionCoeff=drop.friction, **here,
            )  # fmt: skip

    def step(self) -> None:
        """All sub-steps of a frame."""
        for _ in range(self.substeps):
            self._bullet.stepSimulation(physicsClientId=self._client)

    def state(self) -> tuple[Floats, Floats]:
        """Positions of vertices; velocities are not available."""
        bullet = self._bullet
        flags = bullet.MESH_DATA_SIMULATION_MESH
        _, points = bullet.getMeshData(self._body, -1, flags=flags, physicsClientId=self._client)
        x = np.array(points)
        return x, np.full_like(x, np.nan)

    def iterations(self) -> float:
        """Sub-steps."""
        return float(self.substeps)


def _substeps(drop: Drop) -> int:
    model = GreenStrain(drop.tets.vertices, drop.tets.tets, drop.material)
    return math.ceil(2.0 * drop.dt / model.stable_step())


def _vtk(drop: Drop) -> str:
    x, tets = drop.tets.vertices, drop.tets.tets
    lines = ["# vtk DataFile Version 2.0", "body", "ASCII", "DATASET UNSTRUCTURED_GRID", f"POINTS {len(x)} double"]
    lines += [" ".join(map(repr, row)) for row in x.tolist()]
    lines.append(f"CELLS {len(tets)} {5 * len(tets)}")
    lines += ["4 " + " ".join(map(str, row)) for row in tets.tolist()]
    return "\n".join([*lines, f"CELL_TYPES {len(tets)}", *["10"] * len(tets), ""])
