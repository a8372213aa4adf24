"""The benchmark of two soft livers runs, and reports the contents of a frame."""

from __future__ import annotations

import pytest

from benchmarks import soft_livers


@pytest.mark.slow
def test_quick_run_tells_frames_and_substeps():
    """Time soft and stiff bodies on both kinds of tets, with frames per second and sub-steps beside the figure."""
    rows = soft_livers.run(quick=True)

    assert {row.candidate for row in rows} == {"cubes", "netgen"}
    assert len(rows) == 4
    for row in rows:
        assert "sub-steps, 49152 triangles each" in row.note or row.candidate == "netgen"
    cubes = [row for row in rows if row.candidate == "cubes"]
    assert all(row.min_ms > 0.0 and "frames per second" in row.note for row in cubes)
