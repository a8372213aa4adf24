"""Extrapolation from single costs to a million frames on many workers: a calculation, not a measurement.

1. List.  The client finds and stamps all frames before the work.
2. Work.  Workers, scheduler and client then work concurrently: the slowest of them determines the time.
          Only the time of the workers shrinks with their number; once the scheduler or the client takes longer,
          more workers change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.papers.experiment import Table
from impinge.runs.engine import LONGEST_SHARD

LONG_SEQUENCE = 1_000_000
"""Frames of the calculation."""
MANY_WORKERS = (1, 10, 100, 1000)


@dataclass(frozen=True)
class Costs:
    """Measured costs in bytes, and in milliseconds of processor time, which other load changes little."""

    frame: float
    """Processor time of a worker that sees the file, reading included."""
    scheduler_task: float
    client_task: float
    """Processor time that a task takes of each."""
    part: float
    """A part written to the disk of the client, waiting included."""
    listed: float
    """A frame found and stamped by the client, before the work begins."""
    read: float
    """A frame read by the client, where workers do not see it."""
    sent_byte: float
    returned_byte: float
    """A byte to a worker and a byte back, of the client or the scheduler, whichever has more to do."""
    sent: float
    """Bytes of positions of a frame."""
    returned: float
    """Bytes that come back for a frame."""

    def shares(self, workers: int, *, frames: int = LONG_SEQUENCE, sending: bool = False) -> dict[str, float]:
        """Milliseconds that each needs, at the same time as the others."""
        tasks = frames / LONGEST_SHARD
        there = self.sent * self.sent_byte if sending else 0.0
        back = self.returned * self.returned_byte
        return {
            "workers": frames * self.frame / workers,
            "scheduler": tasks * self.scheduler_task + frames * (there + back),
            "client": tasks * (self.client_task + self.part)
            + frames * (there + back + (self.read if sending else 0.0)),
        }

    def hours(self, workers: int, *, frames: int = LONG_SEQUENCE, sending: bool = False) -> tuple[float, str]:
        """How long a sequence takes, and what limits it."""
        each = self.shares(workers, frames=frames, sending=sending)
        slowest = max(each, key=lambda who: each[who])
        return (frames * self.listed + each[slowest]) / 3.6e6, slowest

    def enough_workers(self, *, sending: bool = False) -> float:
        """Number of workers beyond which more change nothing."""
        each = self.shares(1, sending=sending)
        return each["workers"] / max(each["scheduler"], each["client"], 1e-9)


def calculated(costs: Costs) -> list[Table]:
    """The extrapolation; nothing of it is measured."""
    tables = []
    for sending in (False, True):
        how = "sent to workers that do not see the files" if sending else "read by workers that see the files"
        rows: list[tuple[Any, ...]] = []
        for workers in MANY_WORKERS:
            hours, limit = costs.hours(workers, sending=sending)
            alone = costs.hours(1, sending=sending)[0]
            each = [taken / 3.6e6 for taken in costs.shares(workers, sending=sending).values()]
            rows.append((workers, *each, LONG_SEQUENCE * costs.listed / 3.6e6, hours, alone / hours, limit))
        enough = costs.enough_workers(sending=sending)
        tables.append(Table(
            "sent" if sending else "seen",
            f"Calculated: {LONG_SEQUENCE:,} frames {how}; beyond {enough:.3g} workers more change nothing",
            ("workers", "workers h", "scheduler h", "client h", "listing h", "all h", "times one worker", "limited by"),
            rows,
        ))  # fmt: skip
    return tables


def draw(figure: Any, costs: Costs) -> None:
    """Hours over workers."""
    axes = figure.add_subplot()
    workers = sorted({round(10.0 ** (k / 10)) for k in range(41)})
    for sending, name in ((False, "files seen by workers"), (True, "frames sent")):
        axes.loglog(workers, [costs.hours(count, sending=sending)[0] for count in workers], label=name)
    axes.set_xlabel("workers")
    axes.set_ylabel(f"hours for {LONG_SEQUENCE:,} frames (calculated)")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
