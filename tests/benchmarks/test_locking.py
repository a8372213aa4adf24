"""The benchmark of locking measures sags and judges them."""

from __future__ import annotations

import pytest

from benchmarks import locking
from impinge.deform.fem import ELEMENTS


@pytest.mark.slow
def test_quick_run_writes_a_page_with_a_chart(tmp_path):
    """Compare both kinds of elements in a table, a chart and times."""
    found = locking.run(quick=True)
    written = found.write(tmp_path)

    assert [row[:2] for row in found.tables[0].rows] == [(r, k) for r in locking.POISSON_RATIOS for k in ELEMENTS]
    assert all(0.0 < share < 1.0 for row in found.tables[0].rows for share in row[2:])
    assert [row.candidate for row in found.rows] == list(ELEMENTS)
    assert all(claim.verdict == "held" for claim in found.claims)
    assert {path.suffix for path in written} == {".csv", ".png", ".md"}


def test_stiffer_elements_fail_the_claims(monkeypatch):
    """Judge smoothed tets that sag less than linear ones."""
    monkeypatch.setattr(locking, "sag", lambda _cells, _ratio, kind: 0.002 if kind == "linear" else 0.001)
    monkeypatch.setattr(locking, "_times", lambda _sizes: [])
    found = locking.run(quick=True)

    assert {claim.verdict for claim in found.claims} == {"not held"}
