"""Detect contacts of a NumPy animation at 1 kHz, without rebuilding structures."""

from __future__ import annotations

from time import perf_counter

import numpy as np

import impinge


def main(frames: int = 300) -> tuple[np.ndarray, impinge.TriMesh, impinge.TriMesh]:
    """Scale and translate a body through another; count the triangle pairs of each frame."""
    a = impinge.shapes.bumpy_sphere(4)
    b = impinge.shapes.bumpy_sphere(4, center=(1.4, 0.0, 0.0))
    rest = b.vertices.copy()
    centre = rest.mean(axis=0)
    detector = impinge.BoxTree(a, b)
    detector.query()

    pairs, times = np.zeros(frames, int), np.zeros(frames)
    for frame in range(frames):
        t = frame / 1000
        moved = centre + (rest - centre) * (1 + 0.1 * np.sin(40 * t)) - [2 * t, 0, 0]
        began = perf_counter()
        b.update(moved)
        pairs[frame] = len(detector.query())
        times[frame] = 1e3 * (perf_counter() - began)
    print(
        f"{2 * len(a.faces):,} triangles: {np.median(times):.2f} ms per frame (median), {times.max():.2f} ms (maximum)"
    )
    return pairs, a, b


def check() -> None:
    """Compare the last count with brute force, and require counts that vary with the motion."""
    pairs, a, b = main(60)
    assert pairs.min() > 0
    assert len(set(pairs.tolist())) > 10
    assert pairs[-1] == len(impinge.triangle_pairs(a, b, method="brute_force"))


if __name__ == "__main__":
    main()
