"""Bars, sheets, motions and measures for tests of implicit steps."""

from __future__ import annotations

import numpy as np

from impinge.bodies.cloth import Cloth
from impinge.bodies.soft_body import SoftBody
from impinge.deform.materials import Material
from impinge.mesh.shapes import cloth_grid, tet_box
from impinge.simulate.simulation import Simulation
from simulated_cubes import world_of

H = 1.0 / 60.0
MODELS = ["green_strain", "corotated", "stable_neo_hookean"]
INTEGRATORS = ["implicit", "midpoint"]
STILL = (0.0, 0.0, 0.0)


def elastic(modulus=1e5, poisson=0.4, density=1000.0, viscous=0.0) -> Material:
    """A material whose viscosities are ``viscous`` times Lamé's constants, 0 for none [s]."""
    plain = Material(modulus, poisson, density, 0.0, 0.0)
    return Material(modulus, poisson, density, viscous * plain.lame_lambda, viscous * plain.lame_mu)


def bar(model="green_strain", material=None, *, cells=(3, 1, 1), size=0.1, center=(0.0, 0.0, 0.0)) -> SoftBody:
    """A bar of cubes of side ``size``."""
    tets = tet_box(*cells, size=tuple(size * n for n in cells), center=center)
    return SoftBody(
        tets.surface, tets, material=elastic() if material is None else material, model=model, embedding="barycentric"
    )


def sheet(**options) -> Cloth:
    """A square metre of cloth without drag."""
    return Cloth(cloth_grid(4, 4), **{"drag": 0.0, **options})


def clamp(body) -> np.ndarray:
    """Fix the vertices of least x; return the mask of the others."""
    x = body.coarse.vertices[:, 0]
    body.fix(x < x.min() + 1e-6 * np.ptp(x))
    free = np.ones(len(x), dtype=bool)
    free[body.fixed] = False
    return free


def tumble(body, rng, *, speed=1.0, turn=5.0, shake=0.3) -> None:
    """Set velocities of translation, rotation about the centre, and vibration."""
    arm = body.coarse.vertices - body.coarse.vertices.mean(axis=0)
    v = speed * np.array([1.0, -0.5, 0.2]) + np.cross([0.0, turn, 0.5 * turn], arm)
    body.velocities = v + shake * rng.normal(size=v.shape)


def spin(body) -> np.ndarray:
    """Angular momentum about the centre of mass."""
    x, v, m = body.coarse.vertices, body.velocities, body.model.masses
    center, mean = m @ x / m.sum(), m @ v / m.sum()
    return np.cross(x - center, m[:, None] * (v - mean)).sum(axis=0)


def energy(body, gravity=STILL) -> float:
    """Kinetic, elastic and gravitational energy."""
    weight = body.model.masses[:, None] * body.coarse.vertices
    return body.energy().total - float(weight.sum(axis=0) @ np.asarray(gravity))


def stepper(by, bodies, integrator, *, gravity=STILL, dt=H):
    """A function that advances all bodies by a frame, each by itself or in a simulation, and asserts convergence."""
    if by == "simulation":
        sim = Simulation(world_of(**bodies), gravity=gravity, dt=dt, integrator=integrator, sleep_after=None)

        def advance():
            report = sim.step()
            assert not report.warnings
            return report.substeps

        return advance

    def advance_each():
        for body in bodies.values():
            assert body.step(dt, gravity=gravity, integrator=integrator).converged
        return 1

    return advance_each


def stiffness(body, free, step=1e-6) -> np.ndarray:
    """∂²Ψ/∂x∂x of free vertices at the present state, from differences of forces."""
    x0, ids = body.coarse.vertices.copy(), np.flatnonzero(free)
    still, rows = np.zeros_like(x0), []
    for i in ids:
        for c in range(3):
            there, back = x0.copy(), x0.copy()
            there[i, c] += step
            back[i, c] -= step
            rows.append((body.model.forces(back, still) - body.model.forces(there, still))[ids].reshape(-1))
    matrix = np.array(rows) / (2.0 * step)
    return 0.5 * (matrix + matrix.T)


def modes(body, free) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies ω, rising, and mode shapes (k, free, 3), mass-normalised, of the discrete model."""
    root = np.repeat(1.0 / np.sqrt(body.model.masses[free]), 3)
    values, vectors = np.linalg.eigh(stiffness(body, free) * root * root[:, None])
    return np.sqrt(np.maximum(values, 0.0)), (vectors * root[:, None]).T.reshape(len(values), -1, 3)
