"""Turns: candidates that move bodies and answer, one after the other, frame by frame, each held to the right answer.

Rounds     In each round every candidate gets a turn: a pause, in which threads of the one before fall asleep (they
           would take a core away), one frame that does not count, which brings its own data and threads back, and two
           frames that do. Slow peers sit out rounds, evenly, so that none takes more than a few seconds. Before
           each frame its positions are written, untimed, to the same arrays: as in a simulation, which has just
           computed them, they come from the cache and not from memory.
Agreement  Times of a peer count on those frames only on which its pairs are ours, as sets; its row tells the others.
           A peer that says yes or no and no more is held to that.
Positions  are rounded to floats, so that peers in single precision see the same bodies.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.measure import Row
from benchmarks.peers import Peer
from impinge.backend import jit
from impinge.checks import Floats
from impinge.deform.waves import Wave
from impinge.mesh.tri_mesh import TriMesh

FRAMES = 13
"""A prime: slow peers, who sit out rounds, still see all of them."""
ROUNDS = 40
LEAST_ROUNDS = 4
PAUSE = 0.005
"""Seconds before each turn; workers of OpenMP and TBB spin for a millisecond or so after their last job."""
SECONDS_PER_CANDIDATE = 4.0
COUNTED_FRAMES = 2
"""Frames of each turn that count, after one that does not."""

Frame = tuple[Floats, ...]
"""Positions of all bodies at one time."""
Pairs = set[tuple[int, ...]]
Step = Callable[[Frame], Any]
"""Take new positions and answer: what is timed."""


@dataclass
class Candidate:
    """Who takes turns, and what came of it."""

    name: str
    step: Step
    note: str
    expected: list[Pairs] | None = None
    """The right answer for each frame; None if all answers count."""
    times: list[float] = field(default_factory=list)
    """Milliseconds of right answers."""
    wrong: dict[int, int] = field(default_factory=dict)
    """Frames with a wrong answer, and on how many pairs."""

    def judge(self, frame: int, milliseconds: float, answer: Any) -> None:
        """Count the time if the answer is right."""
        if self.expected is not None:
            expected = self.expected[frame]
            wrong = answer != bool(expected) if isinstance(answer, bool) else len(_as_set(answer) ^ expected)
            if wrong:
                self.wrong[frame] = int(wrong)
                return
        self.times.append(milliseconds)

    def remark(self) -> str:
        """The note, and what was wrong."""
        if not self.wrong:
            return self.note
        rest = "which do not count" if self.times else "so that its time does not count"
        return f"disagrees on {sum(self.wrong.values())} pairs in {len(self.wrong)} frames, {rest}; {self.note}"


def take_turns(candidates: list[Candidate], frames: list[Frame], *, rounds: int, seconds: float) -> None:
    """Time all candidates; answers are judged when the turn is over."""
    fresh = tuple(x.copy() for x in frames[0])

    def write(frame: int) -> Frame:
        """What a simulation does before it asks."""
        for target, x in zip(fresh, frames[frame % len(frames)]):
            target[:] = x
        return fresh

    stride = []
    for each in candidates:
        each.step(frames[0])  # may compile
        began = perf_counter()
        each.step(frames[1 % len(frames)])
        taken = (perf_counter() - began) * (1 + COUNTED_FRAMES)
        turns = min(max(int(seconds / taken), LEAST_ROUNDS), rounds)
        stride.append(max(rounds // turns, 1))
    at = 0
    for turn in range(rounds):
        for each, every in zip(candidates, stride):
            if turn % every:
                continue
            time.sleep(PAUSE)
            each.step(write(at))
            answers = []
            for ahead in range(1, 1 + COUNTED_FRAMES):
                frame = (at + ahead) % len(frames)
                positions = write(frame)
                began = perf_counter()
                answer = each.step(positions)
                answers.append((frame, 1e3 * (perf_counter() - began), answer))
            for judged in answers:
                each.judge(*judged)
        at += 1 + COUNTED_FRAMES


def measured(scene: str, candidates: list[Candidate]) -> list[Row]:
    """Rows with ratios to the first; the ratio of the medians goes into the note."""
    rows = []
    base = candidates[0].times
    for each in candidates:
        if not each.times:
            rows.append(unmeasured(scene, each.name, each.remark()))
            continue
        note = each.remark()
        if each.times is not base:
            note = f"medians {statistics.median(each.times) / statistics.median(base):.2f}; {note}"
        ratio = min(each.times) / min(base)
        rows.append(Row(scene, each.name, min(each.times), statistics.median(each.times), ratio, note))
    return rows


def unmeasured(scene: str, candidate: str, note: str) -> Row:
    """A row without figures, which tells why."""
    return Row(scene, candidate, math.nan, math.nan, math.nan, note)


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def our_threads() -> str:
    """How many threads ours use, and of which library."""
    return f"{_threads(jit.thread_count())} ({jit.thread_layer()})"


def _as_set(pairs: Any) -> Pairs:
    return set(map(tuple, pairs.tolist()))


def our_candidate(name: str, step: Step, frames: list[Frame]) -> tuple[Candidate, list[Pairs]]:
    """Us, and our pairs on each frame."""
    found = [_as_set(step(frame)) for frame in frames]
    hits = sorted(map(len, found))
    return Candidate(name, step, f"{hits[0]} to {hits[-1]} pairs; {our_threads()}"), found


def peer_candidate(peer: Peer, step: Step, expected: list[Pairs]) -> Candidate:
    """A peer, held to our pairs."""
    return Candidate(peer.name, step, f"{peer.how}; {_threads(peer.threads())}; {peer.version()}", expected)


# frames -----------------------------------------------------------------------------------------------


def waves(bodies: tuple[TriMesh, ...], wave: Wave, *, count: int = FRAMES) -> list[Frame]:
    """Frames of waves, each body at a time of its own: in step they would move all space and no contact."""
    rest = [body.vertices.copy() for body in bodies]
    return [tuple(_rounded(wave(x, 0.1 * frame + 1.7 * i)) for i, x in enumerate(rest)) for frame in range(count)]


def _rounded(x: Floats) -> Floats:
    return x.astype(np.float32).astype(np.float64)


def count_of(bodies: tuple[TriMesh, ...]) -> str:
    """Triangles of each body, in thousands or millions."""
    counts = [len(body.faces) for body in bodies]
    return " x ".join(f"{count / 1e6:.3g}M" if count >= 1e6 else f"{count / 1e3:.3g}k" for count in counts)
