"""What only brute force has: bounded memory, and cancelling between blocks."""

from __future__ import annotations

import numpy as np
import pytest

import impinge
from impinge import scenes
from impinge.detect.common import brute_force

pytestmark = pytest.mark.small


class CancelAfter:
    """Cancels a query at its third check or later."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def is_set(self) -> bool:
        """Whether all looks are used up."""
        self.looks -= 1
        return self.looks < 0


@pytest.mark.parametrize("block", [1, 7, 64, 10**6])
def test_block_size_does_not_show(monkeypatch, block):
    """Give the same result however few candidates are held at a time."""
    a, b = scenes.get("bumpy_spheres_1k").surfaces
    expected = impinge.triangle_pairs(a, b, method="brute_force")
    monkeypatch.setattr(brute_force, "BLOCK_CANDIDATES", block)
    actual = impinge.triangle_pairs(a, b, method="brute_force")

    np.testing.assert_array_equal(actual.pairs, expected.pairs)
    assert actual.stats == expected.stats


def test_cancelled_part_is_kept(monkeypatch):
    """Return what was found before the query was cancelled."""
    a, b = scenes.get("bumpy_spheres_1k").surfaces
    everything = impinge.triangle_pairs(a, b, method="brute_force").pairs
    monkeypatch.setattr(brute_force, "BLOCK_CANDIDATES", 64)
    part = impinge.triangle_pairs(a, b, method="brute_force", cancel=CancelAfter(5))

    assert (part.complete, part.reason) == (False, "cancelled")
    assert 0 < len(part) < len(everything)
    np.testing.assert_array_equal(part.pairs, everything[: len(part)])


def test_stage_times_are_reported_on_request():
    """Tell where the time went when stages are timed."""
    a, b = scenes.get("bumpy_spheres_1k").surfaces
    impinge.time_stages(True)
    try:
        timed = impinge.triangle_pairs(a, b, method="brute_force").stats
    finally:
        impinge.time_stages(False)

    assert {"boxes_ms", "count_ms", "fill_ms", "test_ms"} <= set(timed)
