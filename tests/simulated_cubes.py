"""Soft cubes for tests of the simulation."""

from __future__ import annotations

import numpy as np

from impinge.bodies.soft_body import SoftBody
from impinge.deform.materials import Material
from impinge.mesh.shapes import box, tet_box
from impinge.simulate.simulation import Simulation
from impinge.world.world import World

EDGE = 0.1
FIRM = Material(youngs_modulus=3e4, poisson_ratio=0.4, density=1000.0)
"""Stiff enough for a cube to carry another one; liver of that size buckles."""


def soft_cube(center, *, edge=EDGE, cells=2, material="liver", embedding="barycentric", dense=None) -> SoftBody:
    tets = tet_box(cells, cells, cells, size=(edge,) * 3, center=center)
    surface = tets.surface if dense is None else box(edge, center=center, cells=(dense,) * 3)
    return SoftBody(surface, tets, material=material, embedding=embedding)


def weight(body: SoftBody) -> float:
    return 9.81 * float(np.sum(body.model.masses))


def world_of(**bodies) -> World:
    """A world of bodies by name; bodies that are not soft are fixed."""
    world = World()
    for name, body in bodies.items():
        world.add(body, name=name, fixed=not isinstance(body, SoftBody))
    return world


def lowest_of(sim: Simulation, seconds: float) -> tuple[list, float]:
    """Reports of a run, and the lowest height that a surface vertex of a soft body reaches."""
    soft = [sim.world[name] for name in sim.world.names if isinstance(sim.world[name], SoftBody)]
    lowest = []
    reports = sim.run(seconds, each=lambda _: lowest.append(min(body.surface.vertices[:, 2].min() for body in soft)))
    return reports, min(lowest)
