"""What tests of several commands share."""

from __future__ import annotations

import pytest

from impinge.view import report


@pytest.fixture
def short_orbits(monkeypatch) -> None:
    """Let animations of reports have a few frames; ``test_check_writes_a_report`` renders all."""
    monkeypatch.setattr(report, "ORBIT_FRAMES", 3)
