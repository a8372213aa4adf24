"""The benchmark of soft bodies runs, and counts no time of formulas that disagree."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import soft_bodies


@pytest.mark.slow
def test_quick_run_measures_forces_links_and_frames():
    """Time forces against memory and NumPy, embeddings against a copy, and frames of each material."""
    rows = soft_bodies.run(quick=True)

    assert [row.candidate for row in rows] == [
        "impinge, GreenStrain", "impinge, Corotated", "memory alone", "NumPy einsum",
        "memory copy", "rigid links", "barycentric", "impinge", "impinge", "impinge",
    ]  # fmt: skip
    assert all(row.min_ms > 0.0 for row in rows)
    assert "times memory, NumPy takes" in rows[0].note
    for row, material in zip(rows[-3:], soft_bodies.MATERIALS):
        assert material in row.scene
        assert "frames per second" in row.note


def test_formulas_that_disagree_are_refused(monkeypatch):
    """Refuse to time NumPy if it has other forces."""
    monkeypatch.setattr(soft_bodies.NumpyForces, "forces", lambda _self, x, _v: np.zeros_like(x))

    with pytest.raises(AssertionError, match="NumPy has other forces"):
        soft_bodies.run(quick=True)
