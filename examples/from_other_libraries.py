"""Query trimesh and pyvista bodies, and store the result as cell data."""

from __future__ import annotations

import numpy as np
import pyvista
import trimesh

import impinge


def main() -> pyvista.PolyData:
    """Mark the triangles of a pyvista ball that intersect a trimesh box."""
    box = trimesh.creation.box(extents=(1.0, 1.0, 1.0))
    ball = pyvista.Icosphere(radius=0.7, nsub=4)
    result = impinge.triangle_pairs(box, ball)
    ball.cell_data["intersects"] = np.isin(np.arange(ball.n_cells), result.pairs[:, 1])
    count = ball.cell_data["intersects"].sum()
    print(f"{impinge.check(box, ball).relation}; {count} of {ball.n_cells} triangles intersect the box")
    return ball


def check() -> None:
    """Require some marked triangles, and not all."""
    ball = main()
    marked = ball.cell_data["intersects"]
    assert 0 < marked.sum() < ball.n_cells


if __name__ == "__main__":
    main()
