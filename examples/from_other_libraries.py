"""Bodies straight from trimesh and pyvista, and results back into them."""

from __future__ import annotations

import numpy as np
import pyvista
import trimesh

import impinge


def main() -> pyvista.PolyData:
    """Ask about a trimesh box and a pyvista ball; colour the ball's triangles that meet the box."""
    box = trimesh.creation.box(extents=(1.0, 1.0, 1.0))
    ball = pyvista.Icosphere(radius=0.7, nsub=4)
    result = impinge.triangle_pairs(box, ball)
    ball.cell_data["meets"] = np.isin(np.arange(ball.n_cells), result.pairs[:, 1])
    print(
        f"{impinge.check(box, ball).relation}; {ball.cell_data['meets'].sum()} of {ball.n_cells} triangles meet the box"
    )
    return ball


def check() -> None:
    """The box sticks out of the ball, all around."""
    ball = main()
    meets = ball.cell_data["meets"]
    assert 0 < meets.sum() < ball.n_cells


if __name__ == "__main__":
    main()
