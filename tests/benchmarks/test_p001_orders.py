"""Orders of the search are cut off after the same tests, and held against exact contact regions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.papers import p001_orders
from benchmarks.papers.experiment import Experiment
from benchmarks.papers.p001_orders import WAYS, Found, claims


@pytest.fixture(scope="module")
def orders() -> Experiment:
    return p001_orders.run(quick=True)


@pytest.mark.slow
def test_lists_of_pairs_that_wait_miss_nothing(orders: Experiment):
    """Miss no crossing with either list of pairs that wait; depth-first alone misses some when cut off."""
    missed: dict[str, list[float]] = {}
    for name, _, _, pairs, _, _ in orders.tables[0].rows:
        missed.setdefault(name, []).append(pairs)

    assert set(missed) == set(WAYS)
    for name in ("breadth-first", "priority", "Fig. 7", "depth-first, stack"):
        assert max(missed[name]) == 0.0
    assert missed["depth-first"][0] > 0.0
    assert missed["depth-first"][-1] == 0.0
    assert missed["depth-first, capped"][0] > 0.0
    assert missed["depth-first, capped"][-1] == 0.0


@pytest.mark.slow
def test_page_is_written(orders: Experiment, tmp_path: Path):
    """Write times, table, picture and page."""
    pytest.importorskip("matplotlib")
    written = orders.write(tmp_path)

    assert {path.suffix for path in written} == {".csv", ".md", ".png"}
    assert len(orders.rows) == len(WAYS)


def test_verdicts_follow_from_the_figures():
    """Call all claims held by figures as the paper has them, and none by contrary ones."""
    some, none = Found(0.5, 0.5, 20.0, False), Found(0.0, 0.0, 5.0, True)
    whole = replace(none, complete=False)
    as_told = {
        "breadth-first": [whole, none],
        "breadth-first, found": [some, none],
        "depth-first": [some, none],
        "depth-first, capped": [some, none],
        "depth-first, stack": [whole, none],
    }
    contrary = {name: [whole, some] for name in as_told}
    contrary["breadth-first, found"] = [whole, none]

    assert [claim.verdict for claim in claims(as_told)] == ["held"] * 4
    assert [claim.verdict for claim in claims(contrary)] == ["not held"] * 4
