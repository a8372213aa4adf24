"""Find particles inside a deforming body, and project them onto its surface."""

from __future__ import annotations

import numpy as np

import impinge


def main(count: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    """Move particles through a pulsating body; project those inside onto its surface."""
    rng = np.random.default_rng(4)
    body = impinge.shapes.bumpy_sphere(4)
    rest = body.vertices.copy()
    particles = rng.uniform(-1.5, 1.5, (count, 3))
    hits = []
    for frame in range(5):
        body.update(rest * (1 + 0.05 * np.sin(frame)))
        inside = np.flatnonzero(impinge.points_inside(body, particles))
        nearest = impinge.closest_points(body, particles[inside])
        particles[inside] = nearest.point + 1e-6 * (nearest.point - particles[inside])
        hits.append(len(inside))
        particles += [0.0, 0.0, -0.02]
    print(f"{count:,} particles, inside per frame: {hits}")
    return np.array(hits), particles


def check() -> None:
    """Require few particles inside at the end, and agreement of depth images with the exact test."""
    hits, particles = main(5_000)
    assert hits[0] > 100 > hits[-1]
    body = impinge.shapes.bumpy_sphere(4)
    exact = impinge.points_inside(body, particles)
    by_images = impinge.points_inside(body, particles, resolution=256)
    assert (exact == by_images).mean() > 0.98


if __name__ == "__main__":
    main()
