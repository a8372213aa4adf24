"""Cut a mesh during contact: remove and add triangles with stable ids."""

from __future__ import annotations

import numpy as np

import impinge


def main() -> list[int]:
    """Remove the cap of a ball around a rod that pierces it, slice by slice, and add it again."""
    ball = impinge.shapes.icosphere(4)
    rod = impinge.shapes.box((0.2, 0.2, 3.0))
    detector = impinge.GjkCut(ball, rod)
    counts = [len(detector.query())]

    corners = ball.faces.copy()
    heights = ball.vertices[corners].mean(axis=1)[:, 2]
    for height in (0.99, 0.97, 0.9):
        near = np.flatnonzero((heights > height) & ball.alive[: len(corners)])
        ball.remove_triangles(near)
        counts.append(len(detector.query()))
    removed = np.flatnonzero(~ball.alive[: len(corners)])
    ids = ball.add_triangles(corners[removed])
    counts.append(len(detector.query()))
    print(f"pairs while cutting: {counts}; {len(ids)} triangles were added with new ids from {ids[0]}")
    return counts


def check() -> None:
    """Require half of the pairs after removing the cap, and all of them after adding it."""
    counts = main()
    assert counts[0] == counts[-1] > 0
    assert counts[0] // 2 == counts[-2]
    assert counts == sorted(counts[:-1], reverse=True) + counts[-1:]


if __name__ == "__main__":
    main()
