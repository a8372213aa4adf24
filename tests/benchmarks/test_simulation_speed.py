"""The benchmark of the simulation."""

from __future__ import annotations

import pytest

from benchmarks import simulation
from benchmarks.simulation import COMPARED


@pytest.mark.slow
def test_a_quick_run_tells_all_scenes():
    """Run small scenes: bodies touch, particles are pushed, and every scene has a row."""
    rows = simulation.run(quick=True)

    compared = [f"{name}, from the start" for name in COMPARED for _ in range(2)]
    assert [row.scene for row in rows] == ["two livers", "particles on a knot", "2 plates", "4 plates", *compared]
    assert all(row.min_ms > 0.0 and "frames per second" in row.note for row in rows)
    assert "at least 0 contacts" not in rows[0].note
    assert " 0 pushed" not in rows[1].note
