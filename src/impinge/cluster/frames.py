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
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

import impinge
from impinge.arrays import Floats
from impinge.cluster.engine import Answer, Engine, Work, engine_for
from impinge.cluster.sources import (
    Frames,
    InFile,
    Item,
    Template,
    frames_of,
    in_file,
    positions_in,
    template_of,
    to_be_sent,
)
from impinge.cluster.standing import Watch
from impinge.cluster.store import Store, encode, folder_for, parquet, read_table, remove_with
from impinge.detect.box_tree import BoxTree
from impinge.detect.results import Kind, TrianglePairs
from impinge.errors import ImpingeError, MeshError, OptionError
from impinge.mesh.body import as_surface

PARTS = 32
"""Parts that a short sequence is cut into: as many as a large machine has cores; each costs some milliseconds."""
LONGEST_RUN = 64
"""Frames of a part at most: what a kill can cost each worker."""
SMALL = 500_000_000
"""Triangles times frames up to which the process itself is as fast as starting others; some 30 s."""
WATCHES_KEPT = 4
"""Jobs whose trees a worker keeps."""
KINDS = {Kind.CROSSING: "crossing", Kind.TOUCHING: "touching", Kind.COPLANAR: "coplanar"}


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

    def frames(self) -> Any:
        """A pyarrow Table with a row per frame, in order."""
        return read_table(self.folder, "frames")

    def contacts(self) -> Any:
        """A pyarrow Table with a row per pair of triangles, sorted by frame and triangles."""
        return read_table(self.folder, "contacts")

    def at(self, frame: int) -> list[TrianglePairs]:
        """What is found in one frame, with the bodies as they are there: with the other body, and with itself."""
        job = self._job
        watch = _FrameWatch(_Bodies(job.digest, job.a, job.b, job.with_self))
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
        _forget(job.digest)
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


@dataclass(frozen=True)
class _Run:
    """A run of neighbouring frames."""

    number: int
    first: int
    names: list[str]
    items_a: list[Item]
    items_b: list[Item] | None


def _runs(job: _Job, done: set[int]) -> Iterator[_Run]:
    for number, first in enumerate(range(0, len(job.frames), job.run_length)):
        rows = slice(first, first + job.run_length)
        if number not in done:
            items_b = None if job.frames_b is None else job.frames_b.items[rows]
            yield _Run(number, first, job.frames.names[rows], job.frames.items[rows], items_b)


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

    def send(run: _Run) -> _Run:
        items_b = None if run.items_b is None or job.b is None else [to_be_sent(each, job.b) for each in run.items_b]
        return replace(run, items_a=[to_be_sent(each, job.a) for each in run.items_a], items_b=items_b)

    sent = _Described(job.digest, job.a, job.b, job.with_self, job.weld)
    file_a, file_b = job.sources
    seen = replace(sent, a=file_a or job.a, b=file_b or job.b)
    tell()
    for answer in engine.stream(Work(_make, _do, seen, lambda: sent, send), _runs(job, done)):
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


# on a worker ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Described:
    """The bodies, or where they are to be read."""

    digest: str
    a: InFile | Template
    b: InFile | Template | None
    with_self: bool
    weld: bool | Literal["auto"]


@dataclass(frozen=True, eq=False)
class _Bodies:
    digest: str
    a: Template
    b: Template | None
    with_self: bool


def _make(described: _Described) -> _Bodies:
    a, b = (
        template_of(each, name="the body", weld=described.weld) if isinstance(each, InFile) else each
        for each in (described.a, described.b)
    )
    assert a is not None
    return _Bodies(described.digest, a, b, described.with_self)


class _FrameWatch:
    """The bodies of a job with their trees, moved from frame to frame."""

    def __init__(self, bodies: _Bodies) -> None:
        self._a = bodies.a.body()
        self._b = None if bodies.b is None else bodies.b.body()
        surface = as_surface(self._a)
        self._pair = None if self._b is None else Watch(surface, as_surface(self._b))
        self._own = BoxTree(surface) if bodies.with_self else None

    def move(self, x_a: Floats, x_b: Floats | None) -> None:
        """Bring both bodies to a frame."""
        self._a.update(x_a)
        if x_b is not None and self._b is not None:
            self._b.update(x_b)

    def look(self) -> tuple[str | None, TrianglePairs | None, TrianglePairs | None]:
        """The relation and the pairs of both, and the pairs of a with itself; None of what was not asked."""
        relation = found = None
        if self._pair is not None:
            standing = self._pair.look()
            relation, found = standing.relation, standing.found
        return relation, found, None if self._own is None else self._own.query()


_watches: OrderedDict[tuple[str, int], _FrameWatch] = OrderedDict()
_watches_lock = threading.Lock()


def _watch_of(bodies: _Bodies) -> _FrameWatch:
    """The watch that this thread keeps for a job, so that trees are refitted and not built from one run to the next."""
    key = bodies.digest, threading.get_ident()
    with _watches_lock:
        watch = _watches.pop(key, None)
    watch = watch or _FrameWatch(bodies)
    with _watches_lock:
        _watches[key] = watch
        while len(_watches) > WATCHES_KEPT * max(threading.active_count(), 1):
            _watches.popitem(last=False)
    return watch


def _forget(digest: str) -> None:
    """Let go of what this process kept for a job."""
    with _watches_lock:
        for key in [key for key in _watches if key[0] == digest]:
            del _watches[key]


def _do(bodies: _Bodies, run: _Run) -> Answer:
    """Look at every frame of a run."""
    watch = _watch_of(bodies)
    rows: list[dict[str, Any]] = []
    found: list[tuple[int, bool, TrianglePairs]] = []
    for k, (name, item) in enumerate(zip(run.names, run.items_a)):
        row: dict[str, Any] = {"frame": run.first + k, "name": name}
        try:
            x_b = None
            if run.items_b is not None and bodies.b is not None:
                x_b = positions_in(run.items_b[k], bodies.b)
            _move(watch, positions_in(item, bodies.a), x_b, name)
            relation, pairs, own = watch.look()
        except ImpingeError as error:
            rows.append({**row, "error": str(error)})
            continue
        rows.append({**row, **_counted(relation, pairs, own)})
        found += [(run.first + k, is_own, each) for is_own, each in ((False, pairs), (True, own)) if each is not None]
    tables = {"contacts": _contacts_table(found), "frames": _frames_table(rows)}
    counts = {
        "frames": len(rows),
        "colliding": sum(bool(row.get("collides")) for row in rows),
        "contacts": sum(row.get("contacts") or 0 for row in rows),
        "self_contacts": sum(row.get("self_contacts") or 0 for row in rows),
        "bad": sum("error" in row for row in rows),
    }
    return Answer(run.number, tables, counts)


def _move(watch: _FrameWatch, x_a: Floats, x_b: Floats | None, name: str) -> None:
    try:
        watch.move(x_a, x_b)
    except MeshError as error:
        raise MeshError(f"{name}: {error}") from error


def _counted(relation: str | None, pairs: TrianglePairs | None, own: TrianglePairs | None) -> dict[str, Any]:
    """What the row of a frame says."""
    row: dict[str, Any] = {"relation": relation, "collides": bool(own) or relation not in (None, "disjoint")}
    kinds = np.concatenate([each.kind for each in (pairs, own) if each is not None])
    row |= {name: int(np.count_nonzero(kinds == kind)) for kind, name in KINDS.items()}
    row["contacts"] = None if pairs is None else len(pairs)
    row["self_contacts"] = None if own is None else len(own)
    return row


def _frames_table(rows: list[dict[str, Any]]) -> bytes:
    arrow = parquet()
    number, text = arrow.int64(), arrow.string()
    schema = arrow.schema(
        [
            ("frame", number), ("name", text), ("collides", arrow.bool_()), ("relation", text), ("contacts", number),
            ("self_contacts", number), *((name, number) for name in KINDS.values()), ("error", text),
        ]
    )  # fmt: skip
    return encode({name: [row.get(name) for row in rows] for name in schema.names}, schema)


def _contacts_table(found: list[tuple[int, bool, TrianglePairs]]) -> bytes:
    arrow = parquet()
    schema = arrow.schema(
        [
            ("frame", arrow.int64()), ("is_self", arrow.bool_()), ("triangle_a", arrow.int32()),
            ("triangle_b", arrow.int32()), ("kind", arrow.int8()),
        ]
    )  # fmt: skip
    lengths = [len(pairs) for _, _, pairs in found]
    pairs = np.concatenate([np.zeros((0, 2), dtype=np.int32), *(each.pairs for _, _, each in found)])
    columns = {
        "frame": np.repeat(np.array([frame for frame, _, _ in found], dtype=np.int64), lengths),
        "is_self": np.repeat(np.array([own for _, own, _ in found], dtype=np.bool_), lengths),
        "triangle_a": np.ascontiguousarray(pairs[:, 0]),
        "triangle_b": np.ascontiguousarray(pairs[:, 1]),
        "kind": np.concatenate([np.zeros(0, dtype=np.int8), *(each.kind for _, _, each in found)]),
    }
    return encode(columns, schema)
