"""Detect self-collision and self-proximity of a folding cloth."""

from __future__ import annotations

import numpy as np

import impinge


def folded(flat: np.ndarray, amount: float) -> np.ndarray:
    """Return the cloth with its right half rotated over the left one; the fold is a cylinder."""
    angle = amount * np.pi * np.clip(flat[:, 0] / 0.1 + 0.5, 0.0, 1.0)
    x = np.minimum(flat[:, 0], -0.05)
    along = np.maximum(flat[:, 0] - 0.05, 0.0)
    bend = np.clip(flat[:, 0], -0.05, 0.05) + 0.05
    radius = 0.1 / np.maximum(amount * np.pi, 1e-9)
    x = x + radius * np.sin(bend / radius) + along * np.cos(angle)
    z = radius * (1 - np.cos(bend / radius)) + along * np.sin(angle)
    return np.column_stack([x, flat[:, 1], z])


def main() -> list[tuple[int, int]]:
    """Increase the fold angle; count feature pairs within a margin and intersecting triangle pairs."""
    cloth = impinge.shapes.cloth_grid(40, 40, size=1.0)
    flat = cloth.vertices - cloth.vertices.mean(axis=0)
    found = []
    for amount in (0.5, 0.9, 1.0, 1.1):
        cloth.update(folded(flat, amount))
        near = impinge.proximity(cloth, margin=0.07)
        meet = impinge.self_pairs(cloth)
        found.append((len(near), len(meet)))
        print(f"folded by {180 * amount:.0f} degrees: {len(near)} pairs within the margin, {len(meet)} intersect")
    return found


def check() -> None:
    """Require intersections only after the fold closes."""
    found = main()
    assert found[0][1] == found[1][1] == 0
    assert found[2][0] > found[0][0]
    assert found[-1][1] > 0


if __name__ == "__main__":
    main()
