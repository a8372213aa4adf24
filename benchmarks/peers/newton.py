"""Newton's vertex block descent on the CPU: neo-Hookean tets, a fixed number of sweeps over coloured vertices.

One sub-step with 10 sweeps is its default. With few sweeps, stress crosses few tets per frame: stiff bodies behave like
soft ones, which the compression shows. Positions are floats, and its elastic energy is its own: no residual is
computed.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from benchmarks.peers.soft_body import GRAVITY, Drop, SoftBodyPeer
from impinge.checks import Floats

SWEEPS = 10
"""Per sub-step, its default."""
CONTACT_STIFFNESS = 1e4
"""[N / m]"""
RADIUS = 1e-3
"""Of particles, in contact [m]."""


class Newton(SoftBodyPeer):
    """One body of particles and tets; Warp's CPU device has one thread."""

    package, module = "newton", "newton"
    why_no_residual = "its energy is its own, in floats"

    def __init__(self, substeps: int = 1) -> None:
        self.substeps = substeps
        self.name = f"Newton, VBD {substeps} x {SWEEPS}"

    def prepare(self, drop: Drop) -> None:
        """Build and colour the model."""
        import newton
        import warp as wp

        wp.config.log_level = logging.ERROR  # no banner
        wp.config.quiet = True
        self.drop = drop
        builder = newton.ModelBuilder(gravity=wp.vec3(0.0, 0.0, -GRAVITY))
        builder.add_soft_mesh(
            pos=wp.vec3(0.0, 0.0, 0.0), rot=wp.quat_identity(), scale=1.0, vel=wp.vec3(0.0, 0.0, 0.0),
            vertices=[wp.vec3(*x) for x in drop.tets.vertices.tolist()],
            indices=drop.tets.tets.reshape(-1).tolist(), density=drop.material.density,
            k_mu=drop.material.lame_mu, k_lambda=drop.material.lame_lambda, k_damp=0.0, particle_radius=RADIUS,
        )  # fmt: skip
        builder.add_ground_plane()
        builder.color()
        self._model: Any = builder.finalize(device="cpu")
        self._model.soft_contact_ke, self._model.soft_contact_kd = CONTACT_STIFFNESS, 0.0
        self._model.soft_contact_mu = drop.friction
        self._solver = newton.solvers.SolverVBD(self._model, iterations=SWEEPS)
        self._now: Any = self._model.state()
        self._next: Any = self._model.state()
        self._control = self._model.control()
        self._pipeline = newton.CollisionPipeline(self._model)
        self._contacts = self._pipeline.contacts()

    def step(self) -> None:
        """Collide and sweep in each sub-step."""
        for _ in range(self.substeps):
            self._now.clear_forces()
            self._pipeline.collide(self._now, self._contacts)
            self._solver.step(self._now, self._next, self._control, self._contacts, self.drop.dt / self.substeps)
            self._now, self._next = self._next, self._now

    def state(self) -> tuple[Floats, Floats]:
        """Positions and velocities of particles."""
        return self._now.particle_q.numpy().astype(np.float64), self._now.particle_qd.numpy().astype(np.float64)

    def iterations(self) -> float:
        """Sweeps."""
        return float(self.substeps * SWEEPS)
