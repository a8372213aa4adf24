"""What tests of several experiments share."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.papers.experiment import Experiment


@pytest.fixture
def written_page(tmp_path: Path) -> Callable[[Experiment], str]:
    """Write an experiment, check its files, and return its page."""

    def check(experiment: Experiment) -> str:
        pytest.importorskip("matplotlib")
        folder = tmp_path / "new"
        written = experiment.write(folder)
        page = next(path for path in written if path.suffix == ".md").read_text(encoding="utf-8")
        picture = next(path for path in written if path.suffix == ".png")
        tables = [path for path in written if path.suffix == ".csv"]

        assert sorted(written) == sorted(folder.iterdir())
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert f"]({picture.name})" in page
        assert "quick run" in page
        assert "threads (" in page
        assert "ubstitute geometry" in page
        for text in [claim.text for claim in experiment.claims] + [row.candidate for row in experiment.rows]:
            assert text in page
        assert len(tables) == 1 + len(experiment.tables)
        for path in tables:
            lines = path.read_text(encoding="utf-8").splitlines()
            assert len({len(row) for row in csv.reader(lines[1:])}) == 1
        return page

    return check
