"""Cut a mesh while it collides: triangles go and come, their ids stay, and the contacts follow."""

from __future__ import annotations

import numpy as np

import impinge


def main() -> list[int]:
    """Cut the cap of a ball away where a rod pierces it, slice by slice, and close it again."""
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
    print(f"pairs while cutting: {counts}; {len(ids)} triangles came back with new ids from {ids[0]}")
    return counts


def check() -> None:
    """Half of the contacts go with the cap, and all of them come back."""
    counts = main()
    assert counts[0] == counts[-1] > 0
    assert counts[0] // 2 == counts[-2]
    assert counts == sorted(counts[:-1], reverse=True) + counts[-1:]


if __name__ == "__main__":
    main()
