"""Contacts in every frame of a sequence, on one machine or many, into a folder that survives a kill.

1. Cut    the frames into runs of neighbours. The cut follows from their number alone, so that every way to run gives
          the same parts.
2. Watch. A worker keeps the bodies of a run and their trees; a frame brings new positions, which refit them.
3. Store  each run as a part of two tables: ``contacts``, a row per pair of triangles, and ``frames``, a row per frame.

A frame that cannot be read, or has other elements than the body, gets a row with the sentence that says why.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

import impinge
from impinge.checks import Floats
from impinge.detect.common.results import TrianglePairs
from impinge.errors import OptionError
from impinge.runs.engine import Engine, Work, engine_for
from impinge.runs.frame_work import (
    DescribedBodies,
    FrameBodies,
    FrameRun,
    FrameWatch,
    forget_job,
    look_at_frames,
    make_bodies,
)
from impinge.runs.sources import (
    Frames,
    Item,
    Template,
    frames_of,
    in_file,
    positions_in,
    template_of,
    to_be_sent,
)
from impinge.runs.store import Store, folder_for, parquet, read_table, remove_with

PARTS = 32
"""Parts that a short sequence is cut into: as many as a large machine has cores; each costs some milliseconds."""
LONGEST_RUN = 64
"""Frames of a part at most: what a kill can cost each worker."""
SMALL = 500_000_000
"""Triangles times frames up to which the process itself is as fast as starting others; some 30 s."""


@dataclass(frozen=True)
class Progress:
    """How far a run has come."""

    done: int
    total: int
    contacts: int
    bad: int
    workers: int
    """0 in the process itself."""
    resumed: int
    """How many were done by an earlier run."""


@dataclass(frozen=True, eq=False)
class FramesRun:
    """What was found: tables on the disk, and their sums."""

    folder: Path
    totals: dict[str, int]
    """frames, colliding, contacts, self_contacts, bad."""
    resumed: int
    """Frames that an earlier run had done."""
    _job: Any = field(repr=False)

    def __len__(self) -> int:
        """How many frames there are."""
        return self.totals["frames"]

    def __bool__(self) -> bool:
        """Whether any frame collides."""
        return self.totals["colliding"] > 0

    @property
    def names(self) -> tuple[str, ...]:
        """What the bodies are called."""
        return tuple(body.name for body in (self._job.a, self._job.b) if body is not None)

    def frames(self) -> Any:
        """A pyarrow Table with a row per frame, in order."""
        return read_table(self.folder, "frames")

    def contacts(self) -> Any:
        """A pyarrow Table with a row per pair of triangles, sorted by frame and triangles."""
        return read_table(self.folder, "contacts")

    def at(self, frame: int) -> list[TrianglePairs]:
        """What is found in one frame, with the bodies as they are there: with the other body, and with itself."""
        job = self._job
        watch = FrameWatch(FrameBodies(job.digest, job.a, job.b, job.with_self))
        x_b = None if job.frames_b is None else _now(job.frames_b.items[frame], job.b)
        watch.move(_now(job.frames.items[frame], job.a), x_b)
        _, pairs, own = watch.look()
        return [found for found in (pairs, own) if found is not None]


def map_frames(
    a: Any,
    frames: Any,
    against: Any = None,
    *,
    against_frames: Any = None,
    with_self: bool | None = None,
    weld: bool | Literal["auto"] = "auto",
    scheduler: str | None = None,
    workers: int | None = None,
    processes: bool = True,
    out: str | os.PathLike[str] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> FramesRun:
    """All contacts of ``a`` in every one of ``frames``: with ``against``, or with itself if that is not given.

    ``a`` and ``against`` are bodies or paths; ``frames`` (and ``against_frames``, if the other body moves too) are a
    pattern, folder or npz archive, a list of files, or positions (frames, vertices, 3). ``with_self=True`` adds
    contacts of ``a`` with itself. Results go to the folder ``out`` as Parquet, part by part; a run that was ended in
    any way goes on where it stopped when it is called again. ``scheduler`` is the address of a Dask scheduler;
    ``workers=N`` starts N processes here (``processes=False``: threads), 0 means this process. Answers are the same in
    all cases. A script that starts processes needs the usual ``if __name__ == "__main__":``.
    """
    parquet()
    job = _job(a, frames, against, against_frames, with_self, weld)
    store = Store(folder_for(out), job.description())
    run: FramesRun | None = None
    try:
        with engine_for(scheduler=scheduler, workers=workers, processes=processes, is_small=job.is_small) as engine:
            resumed, totals = _run(job, store, engine, progress)
        store.finish(totals)
        run = FramesRun(store.folder, totals, resumed, job)
        return run
    finally:
        store.close()
        forget_job(job.digest)
        if out is None:
            remove_with(run, store.folder)


# the job ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Job:
    """What was asked."""

    digest: str
    sources: tuple[Any, Any]
    """The bodies as they were given: files, or None where the template has to be sent."""
    a: Template
    b: Template | None
    frames: Frames
    frames_b: Frames | None
    with_self: bool
    weld: bool | Literal["auto"]

    @property
    def run_length(self) -> int:
        return min(max(-(-len(self.frames) // PARTS), 1), LONGEST_RUN)

    @property
    def is_small(self) -> bool:
        triangles = len(self.a.elements) + (0 if self.b is None else len(self.b.elements))
        return triangles * len(self.frames) < SMALL

    def description(self) -> dict[str, Any]:
        """What the manifest says."""
        return {
            "kind": "frames",
            "job": self.digest,
            "impinge": impinge.__version__,
            "a": self.a.name,
            "against": None if self.b is None else self.b.name,
            "with_self": self.with_self,
            "frames": len(self.frames),
            "frames_per_part": self.run_length,
        }


def _job(a: Any, frames: Any, against: Any, against_frames: Any, with_self: bool | None, weld: Any) -> _Job:
    if against is None and against_frames is not None:
        raise OptionError("against_frames were given without the body that they move; give it as against")
    if against is None and with_self is False:
        raise OptionError("there is nothing to look for: give a body as against, or leave with_self out")
    template_a = template_of(a, name="a", weld=weld)
    template_b = None if against is None else template_of(against, name="against", weld=weld)
    listed, listed_b = frames_of(frames), None
    if against_frames is not None:
        listed_b = frames_of(against_frames, name="against_frames")
        if len(listed_b) != len(listed):
            raise OptionError(f"there are {len(listed)} frames, but {len(listed_b)} against_frames; give as many")
    own = against is None or bool(with_self)
    parts = [template_a.digest(), listed.digest(), str(own)]
    parts += [each.digest() if each is not None else "none" for each in (template_b, listed_b)]
    digest = hashlib.sha256(" ".join(parts).encode()).hexdigest()[:32]
    sources = tuple(in_file(each) if isinstance(each, str | os.PathLike) else None for each in (a, against))
    return _Job(digest, (sources[0], sources[1]), template_a, template_b, listed, listed_b, own, weld)


def _runs(job: _Job, done: set[int]) -> Iterator[FrameRun]:
    for number, first in enumerate(range(0, len(job.frames), job.run_length)):
        rows = slice(first, first + job.run_length)
        if number not in done:
            items_b = None if job.frames_b is None else job.frames_b.items[rows]
            yield FrameRun(number, first, job.frames.names[rows], job.frames.items[rows], items_b)


def _run(
    job: _Job, store: Store, engine: Engine, progress: Callable[[Progress], None] | None
) -> tuple[int, dict[str, int]]:
    """Do what is not done yet; return how many frames were, and the sums over all."""
    done = store.done("frames")
    before = _totals(store.read("frames"))
    count = dict(before)

    def tell() -> None:
        if progress is not None:
            contacts = count["contacts"] + count["self_contacts"]
            progress(
                Progress(count["frames"], len(job.frames), contacts, count["bad"], engine.workers, before["frames"])
            )

    def send(run: FrameRun) -> FrameRun:
        items_b = None if run.items_b is None or job.b is None else [to_be_sent(each, job.b) for each in run.items_b]
        return replace(run, items_a=[to_be_sent(each, job.a) for each in run.items_a], items_b=items_b)

    sent = DescribedBodies(job.digest, job.a, job.b, job.with_self, job.weld)
    file_a, file_b = job.sources
    seen = replace(sent, a=file_a or job.a, b=file_b or job.b)
    most = max(LONGEST_RUN // job.run_length, 1)
    named = file_a is not None and (file_b is not None or job.b is None)
    work = Work(make_bodies, look_at_frames, seen, lambda: sent, send, most=most, named=named)
    tell()
    for answer in engine.stream(work, _runs(job, done)):
        store.commit(answer.number, answer.tables)
        for name, value in answer.counts.items():
            count[name] += value
        tell()
    return before["frames"], count


def _now(item: Item, template: Template) -> Floats:
    """Positions of a frame, read again; a sentence if the file was changed meanwhile."""
    return positions_in(to_be_sent(item, template), template)


def _totals(frames: Any) -> dict[str, int]:
    """Sums over the rows of frames."""
    if frames is None:
        return dict.fromkeys(("frames", "colliding", "contacts", "self_contacts", "bad"), 0)
    column = {name: frames.column(name).to_numpy(zero_copy_only=False) for name in ("contacts", "self_contacts")}
    return {
        "frames": len(frames),
        "colliding": int(np.count_nonzero(frames.column("collides").fill_null(False).to_numpy())),
        **{name: int(np.nansum(values.astype(np.float64))) for name, values in column.items()},
        "bad": len(frames) - frames.column("error").null_count,
    }
