"""Drop a soft body on another: detection, response and integration in one loop."""

from __future__ import annotations

import numpy as np

import impinge


def main(seconds: float = 0.4) -> tuple[impinge.Simulation, list[impinge.FrameReport]]:
    """Drop a cube on a plate on the ground."""
    world = impinge.World()
    for name, size, height in (("plate", (0.2, 0.2, 0.06), 0.031), ("cube", (0.1, 0.1, 0.1), 0.13)):
        tets = impinge.shapes.tet_box(3, 3, 2, size=size, center=(0.0, 0.0, height))
        world.add(impinge.SoftBody(tets.surface, tets, material="liver", embedding="barycentric"), name=name)
    simulation = impinge.Simulation(world, ground=0.0)
    reports = simulation.run(seconds)
    last = reports[-1]
    print(f"{len(reports)} frames; the ground carries {-last.forces['ground'][2]:.2f} N; energy {last.energy:.4f} J")
    return simulation, reports


def check() -> None:
    """Require a downward force on the ground, finite positions, and the cube above the plate."""
    simulation, reports = main(0.3)
    cube, plate = simulation.world["cube"], simulation.world["plate"]
    assert reports[-1].forces["ground"][2] < 0
    assert np.isfinite(cube.surface.vertices).all()
    assert cube.surface.vertices[:, 2].mean() > plate.surface.vertices[:, 2].mean()


if __name__ == "__main__":
    main()
