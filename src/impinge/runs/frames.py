"""Contacts in every frame of a sequence, on one machine or many, into a folder from which a killed run resumes.

1. Cut    the frames into shards of neighbours (``engine.cut``).
2. Query. A worker keeps the bodies with their trees; each frame updates the positions and refits the trees.
3. Store  each shard in two tables: ``contacts``, a row per triangle pair, and ``frames``, a row per frame. A continuous
          run has a third one, ``impacts``: pairs of features that meet on the way from the frame before.

A frame that cannot be read, or whose topology differs from the body's, gets a row with an error message.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from numpy.typing import ArrayLike

import impinge
from impinge.checks import as_flag, as_whole, check_callable
from impinge.detect.common.results import PathLike, TrianglePairs
from impinge.detect.continuous.impact_results import Impacts
from impinge.errors import OptionError
from impinge.mesh.body import BodyLike
from impinge.runs import frame_work
from impinge.runs.engine import Work, cut, engine_for, execute
from impinge.runs.sources import Frames, by_value, file_ref, frames_of, positions_in, template_of
from impinge.runs.store import Store, in_folder, parquet, read_table

FramesLike: TypeAlias = PathLike | Sequence[PathLike] | ArrayLike
"""A pattern, folder or npz archive, a list of files, or an array (frames, vertices, 3)."""

SMALL = 500_000_000
"""Triangles times frames below which one process is as fast as starting workers; about 30 s."""


@dataclass(frozen=True)
class Progress:
    """Progress of a run."""

    done: int
    total: int
    contacts: int
    bad: int
    workers: int
    """0 in the calling process."""
    resumed: int
    """Frames or pairs done by an earlier run."""


@dataclass(frozen=True, eq=False)
class Run:
    """Totals of a run, and tables on disk; ``bool(run)`` is True if anything collides."""

    folder: Path
    totals: dict[str, int]
    resumed: int
    """Frames or pairs done by an earlier run."""

    def __bool__(self) -> bool:
        return self.totals["colliding"] > 0 or self.totals.get("tunnelled", 0) > 0


@dataclass(frozen=True, eq=False)
class FramesRun(Run):
    """Result of ``map_frames``: totals frames, colliding, contacts, self_contacts and bad, and tables on disk.

    A continuous run also has the totals impacts, self_impacts, at_start and tunnelled. ``len(run)`` is the number of
    frames. ``bool(run)`` is True if any frame collides, or if bodies meet between two frames.
    """

    _job: _Job = field(repr=False)

    def __len__(self) -> int:
        return self.totals["frames"]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the bodies."""
        return tuple(body.name for body in (self._job.a, self._job.b) if body is not None)

    def frames(self) -> Any:
        """A ``pyarrow.Table`` with a row per frame, in order."""
        return read_table(self.folder, "frames")

    def contacts(self) -> Any:
        """A ``pyarrow.Table`` with a row per triangle pair, sorted by frame and triangles."""
        return read_table(self.folder, "contacts")

    def impacts(self) -> Any:
        """A ``pyarrow.Table`` with a row per impact, sorted by frame and time; None unless the run is continuous."""
        return read_table(self.folder, "impacts")

    def at(self, frame: int) -> list[TrianglePairs]:
        """Pairs of one frame, computed again: with the other body, and with itself."""
        tracker = frame_work.FrameTracker(self._job)
        tracker.move(*self._positions(frame))
        return [found for found in tracker.query()[1:] if found is not None]

    def impacts_at(self, frame: int) -> list[Impacts]:
        """Impacts on the way to a frame from the one before, computed again: with the other body, and with itself."""
        as_whole(frame, "frame", least=1, most=len(self) - 1)
        tracker = frame_work.FrameTracker(replace(self._job, continuous=True))
        tracker.move(*self._positions(frame - 1))
        return [found.rows(~found.at_start) for _, found in tracker.motion_to(*self._positions(frame)).searches]

    def _positions(self, frame: int) -> Any:
        """Positions of both bodies in a frame."""
        sources = ((self._job.frames, self._job.a), (self._job.frames_b, self._job.b))
        return [each and positions_in(by_value(each.items[frame], body), body) for each, body in sources]


@dataclass(frozen=True, eq=False)
class _Job(frame_work.FrameBodies):
    """Inputs of a run."""

    frames: Frames
    frames_b: Frames | None


def map_frames(
    a: BodyLike,
    frames: FramesLike,
    against: BodyLike | None = None,
    *,
    against_frames: FramesLike | None = None,
    with_self: bool | None = None,
    continuous: bool = False,
    weld: bool | Literal["auto"] = "auto",
    scheduler: str | None = None,
    workers: int | None = None,
    processes: bool = True,
    out: str | os.PathLike[str] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> FramesRun:
    """Find all contacts of ``a`` in every frame: with ``against``, or with itself if that is None.

    A script that starts worker processes needs ``if __name__ == "__main__":``. Results do not depend on the engine.

    Parameters
    ----------
    a, against
        Bodies or paths.
    frames, against_frames
        Positions of ``a`` and, if it moves too, of ``against``: a pattern, folder or npz archive, a list of files, or
        an array (frames, vertices, 3).
    with_self
        True adds self contacts of ``a``.
    continuous
        True adds what happens between frames: the impacts while all vertices move along straight lines from one frame
        to the next. A frame is tunnelled if there are any, and no contact in this frame and the one before.
    weld
        Merge equal vertices of files, as in ``impinge.load``.
    scheduler
        Address of a Dask scheduler, such as "tcp://host:8786".
    workers
        Local workers to start; 0 for the calling process. Default: the calling process for small work, else one per
        core.
    processes
        False starts threads instead of processes.
    out
        Folder for the results (Parquet), written shard by shard. An interrupted run resumes when called again. Default:
        a temporary folder that is deleted with the result.
    progress
        Called with a ``Progress`` after every shard.

    Returns
    -------
    FramesRun

    Raises
    ------
    OptionError
        If options contradict each other, or ``out`` holds another run.
    MissingExtra
        If pyarrow, or Dask where it is needed, is not installed.
    ClusterError
        If the scheduler or its workers fail.
    """
    parquet()
    check_callable(progress, "progress")
    if with_self is not None:
        as_flag(with_self, "with_self")
    if against is None and against_frames is not None:
        raise OptionError("against_frames were given without the body that they move; give it as against")
    if against is None and with_self is False:
        raise OptionError("nothing to search: give a body as against, or omit with_self")
    template_a = template_of(a, name="a", weld=weld)
    template_b = None if against is None else template_of(against, name="against", weld=weld)
    frames_a, frames_b = frames_of(frames), None
    if against_frames is not None:
        frames_b = frames_of(against_frames, name="against_frames")
        if len(frames_b) != len(frames_a):
            raise OptionError(f"there are {len(frames_a)} frames, but {len(frames_b)} against_frames; give as many")
    own = against is None or bool(with_self)
    digests = [template_a.digest(), frames_a.digest(), str(own)]
    digests += [each.digest() if each is not None else "none" for each in (template_b, frames_b)]
    continuous = as_flag(continuous, "continuous")
    digests += ["continuous"] if continuous else []
    digest = hashlib.sha256(" ".join(digests).encode()).hexdigest()[:32]
    job = _Job(digest, template_a, template_b, own, weld, frames_a, frames_b, continuous=continuous)
    sources = frame_work.FrameBodies(digest, template_a, template_b, own, weld, continuous=continuous)
    files = [file_ref(each) if isinstance(each, str | os.PathLike) else None for each in (a, against)]
    by_file = replace(sources, a=files[0] or template_a, b=files[1] or template_b)
    shards, max_shards = cut(len(frames_a))
    work = Work(
        frame_work.load_bodies, frame_work.query_frames, by_file, lambda: sources, lambda shard: _inlined(shard, job),
        max_shards=max_shards, by_reference=files[0] is not None and (files[1] is not None or against is None),
    )  # fmt: skip
    triangles = len(template_a.elements) + (0 if template_b is None else len(template_b.elements))
    is_small = triangles * len(frames_a) < SMALL
    description = {
        "kind": "frames", "job": digest, "impinge": impinge.__version__, "a": template_a.name,
        "against": None if template_b is None else template_b.name, "with_self": own, "frames": len(frames_a),
        "frames_per_part": shards[0].stop, **({"continuous": True} if continuous else {}),
    }  # fmt: skip

    def run(folder: Path) -> FramesRun:
        with (
            contextlib.closing(Store(folder, description)) as store,
            engine_for(scheduler=scheduler, workers=workers, processes=processes, is_small=is_small) as engine,
        ):
            totals = frame_work.tally_frames(store.rows("frames"), continuous=continuous)
            resumed = totals["frames"]
            missing = (
                frame_work.FrameShard(
                    number, rows.start, frames_a.names[rows], frames_a.items[rows],
                    None if frames_b is None else frames_b.items[rows],
                    before_a=frames_a.items[rows.start - 1] if continuous and rows.start else None,
                    before_b=frames_b.items[rows.start - 1] if continuous and rows.start and frames_b else None,
                )
                for number, rows in store.missing("frames", shards)
            )  # fmt: skip

            def report() -> None:
                if progress is not None:
                    contacts = totals["contacts"] + totals["self_contacts"]
                    done, bad = totals["frames"], totals["bad"]
                    progress(Progress(done, len(frames_a), contacts, bad, engine.workers, resumed))

            execute(engine, work, missing, store, totals, report)
            store.finish(totals)
            return FramesRun(folder, dict(totals), resumed, job)

    try:
        return in_folder(out, run)
    finally:
        frame_work.forget_job(digest)


def _inlined(shard: frame_work.FrameShard, job: _Job) -> frame_work.FrameShard:
    """A shard with positions instead of files."""
    items_b = None if shard.items_b is None else [by_value(each, job.b) for each in shard.items_b]
    return replace(
        shard,
        items_a=[by_value(each, job.a) for each in shard.items_a],
        items_b=items_b,
        before_a=None if shard.before_a is None else by_value(shard.before_a, job.a),
        before_b=None if shard.before_b is None else by_value(shard.before_b, job.b),
    )
