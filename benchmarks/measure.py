"""Interleaved timing: one loop measures everything, with warm-up, minimum and median, and checked answers.

The speed of a machine drifts within minutes. Only ratios of candidates that alternate within one run are comparable.

Rounds     ``interleave`` visits every candidate once per round; another candidate is the first in each round. A visit
           runs ``lead_in`` untimed frames, which load the caches and wake the threads, then ``counted`` timed frames.
Warm-up    Each candidate runs the first frame once before the first round: that call may compile.
Pause      Workers of OpenMP and TBB spin for about 1 ms after their last job and occupy a core. Where threads compete,
           a pause before each visit lets them sleep.
Agreement  ``Candidate.judge`` counts a time only if the answer is the expected one; ``Candidate.remark`` reports the
           frames that disagree. Experiments that compare all candidates check the answers that ``interleave`` yields,
           and raise.
"""

from __future__ import annotations

import csv
import math
import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Generic, TypeVar

import impinge
from impinge.backend import jit
from impinge.errors import FileError
from impinge.io.csv_files import literal

Frame = TypeVar("Frame")
Answer = TypeVar("Answer")

LEAST_ROUNDS = 4
"""Rounds that every candidate gets, however slow it is."""


class Sizes(SimpleNamespace):
    """Problem sizes of a benchmark by name: ``FULL`` for figures, ``QUICK`` for a smoke run."""


@dataclass(frozen=True)
class Row:
    """One figure of a benchmark."""

    scene: str
    candidate: str
    min_ms: float
    median_ms: float
    ratio: float
    """Minimum time over that of the first candidate of the scene."""
    note: str = ""


def unmeasured(scene: str, candidate: str, note: str) -> Row:
    """A row without figures; the note gives the reason."""
    return Row(scene, candidate, math.nan, math.nan, math.nan, note)


def row_of(scene: str, candidate: str, times: Sequence[float], base: float | None = None, note: str = "") -> Row:
    """A row of milliseconds; ``base`` is the minimum of the first candidate, None for the first one itself."""
    least = min(times)
    return Row(scene, candidate, least, statistics.median(times), least / (least if base is None else base), note)


# clock --------------------------------------------------------------------------------------------------


def timed(run: Callable[[], Answer], clock: Callable[[], float] = perf_counter) -> tuple[float, Answer]:
    """Milliseconds of one call, and its result."""
    began = clock()
    answer = run()
    return 1e3 * (clock() - began), answer


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Run kernels on ``count`` threads within the block."""
    before = jit.thread_count()
    jit.set_threads(count)
    try:
        yield
    finally:
        jit.set_threads(before)


@contextmanager
def stages_timed() -> Iterator[None]:
    """Record the times of stages in ``stats`` within the block."""
    impinge.time_stages(True)
    try:
        yield
    finally:
        impinge.time_stages(False)


def our_threads() -> str:
    """Number of threads of our kernels, and their threading layer."""
    return f"{thread_label(jit.thread_count())} ({jit.thread_layer()})"


def thread_label(count: int) -> str:
    """``1 thread`` or ``2 threads``."""
    return "1 thread" if count == 1 else f"{count} threads"


# the loop -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample(Generic[Answer]):
    """One timed frame."""

    frame: int
    """Index into the frames."""
    ms: float
    answer: Answer


@dataclass
class Candidate(Generic[Frame, Answer]):
    """A method to time, and its times."""

    name: str
    step: Callable[[Frame], Answer]
    """Answer for a frame: what is timed."""
    note: str = ""
    prepare: Callable[[Frame], object] | None = None
    """Untimed work before each step, such as moving the bodies."""
    mismatch: Callable[[int, Answer], int] | None = None
    """Number of wrong elements in the answer for the frame of that index; None accepts every answer."""
    lead_in: int = 0
    """Untimed frames at the beginning of a visit."""
    counted: int = 1
    """Timed frames of a visit."""
    threads: int | None = None
    """Threads of our kernels; None leaves the number as it is."""
    times: list[float] = field(default_factory=list)
    """Milliseconds of accepted answers."""
    wrong: dict[int, int] = field(default_factory=dict)
    """Number of wrong elements by frame that disagrees."""

    def judge(self, sample: Sample[Answer]) -> None:
        """Count the time if the answer is the expected one."""
        wrong = self.mismatch(sample.frame, sample.answer) if self.mismatch else 0
        if wrong:
            self.wrong[sample.frame] = wrong
        else:
            self.times.append(sample.ms)

    def remark(self) -> str:
        """The note, preceded by the frames that disagree."""
        if not self.wrong:
            return self.note
        rest = "which do not count" if self.times else "its time does not count"
        return f"disagrees on {sum(self.wrong.values())} pairs in {len(self.wrong)} frames, {rest}; {self.note}"


def interleave(
    candidates: Sequence[Candidate[Frame, Answer]],
    frames: Sequence[Frame],
    *,
    rounds: int,
    before: Callable[[Frame], object] | None = None,
    pause: float = 0.0,
    seconds: float = math.inf,
    warm_up: bool = True,
    first: int = 0,
) -> Iterator[list[list[Sample[Answer]]]]:
    """Time candidates alternately; yield the samples of each round, one list per candidate.

    Parameters
    ----------
    candidates
        What is timed; ``times`` of candidates are left to the caller.
    frames
        Inputs of the steps, repeated cyclically.
    rounds
        Number of visits of each candidate.
    before
        Untimed work at the beginning of each round, with the round's first frame.
    pause
        Seconds of sleep before each visit.
    seconds
        Time per candidate. Slower candidates skip rounds, evenly, down to ``LEAST_ROUNDS``.
    warm_up
        Whether each candidate runs the first frame once, untimed.
    first
        Candidate that the first round begins with.
    """
    strides = [1] * len(candidates)
    if warm_up and before is not None:
        before(frames[0])
    for n, each in enumerate(candidates if warm_up else ()):
        _run(each, frames[0])
        if seconds < math.inf:
            taken = 1e-3 * _run(each, frames[1 % len(frames)])[0] * (each.lead_in + each.counted)
            strides[n] = max(rounds // min(max(int(seconds / taken), LEAST_ROUNDS), rounds), 1)
    advance = max(each.lead_in + each.counted for each in candidates)
    for index in range(rounds):
        at = index * advance
        if before is not None:
            before(frames[at % len(frames)])
        samples: list[list[Sample[Answer]]] = [[] for _ in candidates]
        for k in range(len(candidates)):
            n = (first + index + k) % len(candidates)
            each = candidates[n]
            if index % strides[n]:
                continue
            if pause:
                time.sleep(pause)
            for ahead in range(each.lead_in + each.counted):
                frame = (at + ahead) % len(frames)
                ms, answer = _run(each, frames[frame])
                if ahead >= each.lead_in:
                    samples[n].append(Sample(frame, ms, answer))
        yield samples


def _run(candidate: Candidate[Frame, Answer], frame: Frame) -> tuple[float, Answer]:
    if candidate.prepare is not None:
        candidate.prepare(frame)
    with nullcontext() if candidate.threads is None else threads(candidate.threads):
        step = candidate.step  # not part of the time
        began = perf_counter()
        answer = step(frame)
        return 1e3 * (perf_counter() - began), answer


def measure(
    scene: str,
    candidates: Sequence[Candidate[Frame, Answer]],
    frames: Sequence[Frame],
    *,
    rounds: int,
    pause: float = 0.0,
    seconds: float = math.inf,
) -> list[Row]:
    """Time candidates alternately, judge every answer, and return a row for each."""
    for samples in interleave(candidates, frames, rounds=rounds, pause=pause, seconds=seconds):
        for each, taken in zip(candidates, samples):
            for sample in taken:
                each.judge(sample)
    base = min(candidates[0].times)
    return [
        row_of(scene, each.name, each.times, base, each.remark())
        if each.times
        else unmeasured(scene, each.name, each.remark())
        for each in candidates
    ]


def interleaved(
    scene: str,
    steps: Mapping[str, Callable[[Frame], object]],
    frames: Sequence[Frame],
    *,
    rounds: int = 30,
    note: str = "",
) -> list[Row]:
    """Time steps alternately over the frames, all with the same note; answers are checked by the caller."""
    candidates = [Candidate(name, step, note) for name, step in steps.items()]
    return measure(scene, candidates, frames, rounds=rounds)


def with_medians(rows: Sequence[Row]) -> list[Row]:
    """Put the ratio of medians to the first row into the notes of the others that have figures."""
    base = rows[0].median_ms
    return [
        row if row is rows[0] or math.isnan(row.median_ms)
        else replace(row, note=f"medians {row.median_ms / base:.2f}; {row.note}")
        for row in rows
    ]  # fmt: skip


# files --------------------------------------------------------------------------------------------------


def processor() -> str:
    """Name of the processor, as far as the system reports it."""
    if Path("/proc/cpuinfo").exists():
        found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
        if found:
            return found.group(1).strip()
    return platform.processor() or platform.machine()


def machine() -> str:
    """Processor, cores and versions in one line."""
    versions = f"Python {platform.python_version()}, impinge {impinge.__version__}"
    return f"{processor()}, {os.cpu_count()} cores, {platform.system()}, {versions}"


def write_csv(rows: Sequence[Row], folder: Path, name: str) -> Path:
    """Write one file per machine and benchmark."""
    label = re.sub(r"[^a-z0-9]+", "-", f"{processor()}-{os.cpu_count()}-cores".lower()).strip("-")
    path = folder / f"{name}-{label}.csv"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="", encoding="utf-8") as file:
            file.write(f"# {machine()}\n")
            writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
            writer.writeheader()
            for row in rows:
                values = asdict(row)
                writer.writerow({k: f"{v:.4g}" if isinstance(v, float) else literal(v) for k, v in values.items()})
    except OSError as error:
        raise FileError(f"results could not be written to {path} ({error.strerror}); choose another folder") from error
    return path
