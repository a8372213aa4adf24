"""Self-collision of a cloth that folds: where it meets itself, and what is about to."""

from __future__ import annotations

import numpy as np

import impinge


def folded(flat: np.ndarray, amount: float) -> np.ndarray:
    """The cloth, its right half turned over the left one; the fold is a cylinder."""
    angle = amount * np.pi * np.clip(flat[:, 0] / 0.1 + 0.5, 0.0, 1.0)
    x = np.minimum(flat[:, 0], -0.05)
    along = np.maximum(flat[:, 0] - 0.05, 0.0)
    bend = np.clip(flat[:, 0], -0.05, 0.05) + 0.05
    radius = 0.1 / np.maximum(amount * np.pi, 1e-9)
    x = x + radius * np.sin(bend / radius) + along * np.cos(angle)
    z = radius * (1 - np.cos(bend / radius)) + along * np.sin(angle)
    return np.column_stack([x, flat[:, 1], z])


def main() -> list[tuple[int, int]]:
    """Fold more and more; count pairs nearer than a margin, and pairs that meet."""
    cloth = impinge.shapes.cloth_grid(40, 40, size=1.0)
    flat = cloth.vertices - cloth.vertices.mean(axis=0)
    found = []
    for amount in (0.5, 0.9, 1.0, 1.1):
        cloth.update(folded(flat, amount))
        near = impinge.proximity(cloth, margin=0.07)
        meet = impinge.self_pairs(cloth)
        found.append((len(near), len(meet)))
        print(f"folded by {180 * amount:.0f} degrees: {len(near)} pairs within the margin, {len(meet)} meet")
    return found


def check() -> None:
    """Nothing meets before the cloth is closed; then it does."""
    found = main()
    assert found[0][1] == found[1][1] == 0
    assert found[2][0] > found[0][0]
    assert found[-1][1] > 0


if __name__ == "__main__":
    main()
