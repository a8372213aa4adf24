"""Boxes that overlap, against all pairs."""

from __future__ import annotations

import numpy as np
import pytest

from impinge.detect.boxes.broad_phase import overlapping_boxes


@pytest.mark.parametrize("count", [0, 1, 2, 3, 50, 300])
@pytest.mark.parametrize("flat", [None, 0, 1, 2])
def test_against_all_pairs(rng, count, flat):
    """Find the pairs that comparing all boxes with all finds, touching ones too, on whatever axis they are spread."""
    low = rng.integers(-20, 20, size=(count, 3)).astype(float)
    high = low + rng.integers(0, 6, size=(count, 3))
    if flat is not None:
        low[:, flat], high[:, flat] = 1.0, 2.0
    meets = ((low[:, None] <= high) & (high[:, None] >= low)).all(axis=2)
    expected = np.argwhere(np.triu(meets, 1))

    np.testing.assert_array_equal(overlapping_boxes(low, high), expected)
    assert count < 50 or 0 < len(expected) < count * (count - 1) // 2


def test_empty_boxes_meet_nothing():
    """Let a box around nothing, from infinity to minus infinity, overlap no other."""
    low, high = np.array([[np.inf] * 3, [0.0] * 3, [0.5] * 3]), np.array([[-np.inf] * 3, [1.0] * 3, [2.0] * 3])

    assert overlapping_boxes(low, high).tolist() == [[1, 2]]


@pytest.mark.filterwarnings("ignore:invalid value")
def test_boxes_without_end_meet_all():
    """Let boxes that reach to infinity overlap all others, and nothing that is none."""
    low, high = np.array([[-np.inf] * 3, [0.0] * 3, [5.0] * 3]), np.array([[np.inf] * 3, [1.0] * 3, [6.0] * 3])

    assert overlapping_boxes(low, high).tolist() == [[0, 1], [0, 2]]
