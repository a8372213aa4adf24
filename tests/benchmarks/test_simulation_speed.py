"""The benchmark of the simulation."""

from __future__ import annotations

import pytest

from benchmarks import simulation


@pytest.mark.slow
def test_a_quick_run_tells_all_scenes():
    """Run small scenes: bodies touch, particles are pushed, and every scene has a row."""
    rows = simulation.run(quick=True)

    assert [row.scene for row in rows] == ["two livers", "particles on a knot", "2 plates", "4 plates"]
    assert all(row.min_ms > 0.0 and "frames per second" in row.note for row in rows)
    assert "at least 0 contacts" not in rows[0].note
    assert " 0 pushed" not in rows[1].note
