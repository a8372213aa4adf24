"""The measuring loop: order, warm-up, untimed frames, skipped rounds, and answers that do not count."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from benchmarks import measure
from benchmarks.measure import Candidate, Row, interleave, interleaved, row_of, unmeasured, with_medians, write_csv
from benchmarks.papers.experiment import Table, _write_table

PACKAGE = Path(measure.__file__).parent


def recording(name: str, calls: list[tuple[str, int]], **options) -> Candidate[int, int]:
    def step(frame: int) -> int:
        calls.append((name, frame))
        return frame

    return Candidate(name, step, **options)


def test_candidates_alternate_after_a_warm_up():
    """Begin each round with another candidate; give all of a round the same frame."""
    calls: list[tuple[str, int]] = []
    candidates = [recording("a", calls), recording("b", calls)]

    rounds = list(interleave(candidates, [5, 6, 7], rounds=3))

    assert calls[:2] == [("a", 5), ("b", 5)]
    assert calls[2:] == [("a", 5), ("b", 5), ("b", 6), ("a", 6), ("a", 7), ("b", 7)]
    assert [[sample.answer for (sample,) in samples] for samples in rounds] == [[5, 5], [6, 6], [7, 7]]
    assert all(sample.ms >= 0.0 for samples in rounds for (sample,) in samples)


def test_visits_have_untimed_frames():
    """Run the lead-in without a sample, and advance by the longest visit."""
    calls: list[tuple[str, int]] = []
    candidates = [recording("a", calls, lead_in=1, counted=2), recording("b", calls)]

    (first, second) = interleave(candidates, range(5), rounds=2, warm_up=False)

    assert [sample.frame for sample in first[0]] == [1, 2]
    assert [sample.frame for sample in second[0]] == [4, 0]
    assert [sample.frame for sample in first[1]] == [0]
    assert [sample.frame for sample in second[1]] == [3]
    assert calls == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 3), ("a", 3), ("a", 4), ("a", 0)]


def test_preparation_precedes_each_step():
    """Prepare a round once with its frame, and each candidate before each of its steps."""
    order: list[str] = []
    candidate = Candidate(
        "a", lambda frame: order.append(f"step {frame}"), prepare=lambda f: order.append(f"prepare {f}")
    )

    list(interleave([candidate], [0, 1], rounds=2, before=lambda frame: order.append(f"round {frame}")))

    assert order == [f"{what} {frame}" for frame in (0, 0, 1) for what in ("round", "prepare", "step")]


def test_slow_candidates_skip_rounds(monkeypatch: pytest.MonkeyPatch):
    """Give a candidate that needs 1 s per frame the least number of rounds, a fast one all."""
    now = [0.0]
    monkeypatch.setattr(measure, "perf_counter", lambda: now[0])

    def slow(_: int) -> None:
        now[0] += 1.0

    candidates = [Candidate("fast", lambda _: None), Candidate("slow", slow)]
    monkeypatch.setattr(measure, "_run", lambda each, frame: (1e3 if each.step is slow else 1.0, each.step(frame)))
    visits = [0, 0]
    for samples in interleave(candidates, [0, 1], rounds=40, seconds=2.0):
        visits = [count + len(taken) for count, taken in zip(visits, samples)]

    assert visits == [40, measure.LEAST_ROUNDS]


def test_threads_are_set_for_one_candidate_alone():
    """Restore the number of threads after each step."""
    before = measure.jit.thread_count()
    seen: list[int] = []
    list(interleave([Candidate("a", lambda _: seen.append(measure.jit.thread_count()), threads=1)], [0], rounds=1))

    assert seen == [1, 1]
    assert measure.jit.thread_count() == before


def test_wrong_answers_do_not_count():
    """Keep times of frames with the expected answer; report the others."""
    candidates = [
        Candidate("right", lambda frame: frame, "note"),
        Candidate("wrong", lambda frame: frame, "note", mismatch=lambda frame, _: 3 if frame else 0),
        Candidate("liar", lambda frame: frame, "note", mismatch=lambda *_: 1),
    ]

    right, wrong, liar = measure.measure("s", candidates, [0, 1], rounds=4)

    assert [len(each.times) for each in candidates] == [4, 2, 0]
    assert right.note == "note"
    assert wrong.note == "disagrees on 3 pairs in 1 frames, which do not count; note"
    assert liar.note == "disagrees on 2 pairs in 2 frames, its time does not count; note"
    assert math.isnan(liar.min_ms)


def test_rows_have_minimum_median_and_ratio():
    """Relate minima to the first candidate; medians go into notes on request."""
    base, other = row_of("s", "a", [2.0, 3.0, 9.0]), row_of("s", "b", [4.0, 6.0, 5.0], 2.0, "n")

    assert base == Row("s", "a", 2.0, 3.0, 1.0)
    assert other == Row("s", "b", 4.0, 5.0, 2.0, "n")
    assert [row.note for row in with_medians([base, other, unmeasured("s", "c", "gone")])] == [
        "",
        "medians 1.67; n",
        "gone",
    ]


def test_steps_run_over_all_frames():
    """Repeat frames cyclically, with one note for all rows."""
    seen: list[int] = []
    rows = interleaved("s", {"a": seen.append, "b": lambda _: None}, [1, 2], rounds=3, note="n")

    assert seen == [1, 1, 2, 1]
    assert [(row.candidate, row.note) for row in rows] == [("a", "n"), ("b", "n")]
    assert rows[0].ratio == 1.0


def test_only_the_measuring_loop_reads_the_clock():
    """Time everything by ``measure``: no other module has a stopwatch or a class of sizes of its own."""
    own = {"measure.py", "p000_refit_tree.py", "start_up.py"}  # a detector reports its time, a new process its own
    clocks = [path.name for path in PACKAGE.rglob("*.py") if re.search(r"\bperf_counter\b", path.read_text())]

    assert set(clocks) == own
    assert not [path.name for path in PACKAGE.rglob("*.py") if "class _Sizes" in path.read_text()]


def test_names_in_tables_of_benchmarks(tmp_path):
    """Escape names of scenes, and keep negative numbers."""
    path = write_csv([Row("=scene", "@method", -1.0, 2.0, 1.0)], tmp_path, "bench")
    table = _write_table(Table("table", "title", ("name", "x", "y"), [("=a", -1.5, -2)]), tmp_path / "table.csv")

    assert path.read_text().splitlines()[2].startswith("'=scene,'@method,-1,2")
    assert table.read_text().splitlines()[2] == "'=a,-1.5,-2"
