"""The benchmark of nearest points runs, and times nobody who disagrees."""

from __future__ import annotations

import pytest

from impinge.bench import proximity_against_peers
from impinge.errors import ImpingeError

pytestmark = pytest.mark.filterwarnings("default")  # what peers warn of is not ours to mend


def test_quick_run_times_us_and_what_is_installed():
    """Give a row for us, with and without the test for inside, and one for each peer that is installed."""
    rows = proximity_against_peers.run(quick=True)

    assert [row.candidate for row in rows[:2]] == ["impinge", "impinge, inside too"]
    assert all(row.min_ms > 0.0 for row in rows)
    assert rows[0].ratio == 1.0


def test_peer_that_disagrees_is_not_timed(monkeypatch):
    """Refuse a peer with other distances."""
    wrong = {"wrong": lambda x: 7.0 + x[:1, 0]}
    monkeypatch.setattr(proximity_against_peers, "_peers", lambda _body, _points: wrong)

    with pytest.raises(ImpingeError, match="wrong finds distances that differ"):
        proximity_against_peers.run(quick=True)
