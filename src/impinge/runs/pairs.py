"""All near pairs of many parts: which meet, by how much, and how deep, on one machine or many.

1. Boxes.  Every part is read once, in runs, for the box around it.
2. Sweep.  Boxes that overlap make near pairs (``broad_phase``); all others cannot meet.
3. Pairs.  Near pairs, sorted and cut into runs of neighbours, are settled exactly, a body inside a body too. Of those
           that meet and are closed, the overlap volume (sampled, with its error estimate) and the largest depth of a
           vertex inside the other are found.

A part that cannot be read gets a row that says why and takes part in no pair. Pairs that a scene file leaves out
(``ignore``, groups) are not near.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import impinge
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.boxes.broad_phase import overlapping_boxes
from impinge.detect.common.results import TrianglePairs
from impinge.errors import ImpingeError, MeshError, OptionError
from impinge.mesh.body import as_surface
from impinge.mesh.tri_mesh import TriMesh
from impinge.queries import overlap_volume, penetrating_vertices
from impinge.runs.engine import Answer, Engine, Work, engine_for
from impinge.runs.frame_work import KINDS
from impinge.runs.frames import Progress
from impinge.runs.relations import Standing, Watch
from impinge.runs.shards import Part, Parts, forget_parts, parts_of, read_part, surface_of, to_be_sent
from impinge.runs.sources import Refused, Template
from impinge.runs.store import Store, encode, folder_for, parquet, read_table, remove_with

PARTS = 32
"""Runs that few pairs are cut into."""
LONGEST_RUN = 64
"""Pairs of a run at most: what a kill can cost each worker."""
SMALL = 200
"""Parts up to which the process itself is as fast as starting others."""


@dataclass(frozen=True, eq=False)
class PairsRun:
    """What was found: tables on the disk, and their sums."""

    folder: Path
    totals: dict[str, int]
    """parts, bad, near, colliding, contacts."""
    resumed: int
    """Pairs that an earlier run had done."""
    _job: Any = field(repr=False)

    def __len__(self) -> int:
        """How many near pairs there are."""
        return self.totals["near"]

    def __bool__(self) -> bool:
        """Whether any two parts collide."""
        return self.totals["colliding"] > 0

    def parts(self) -> Any:
        """A pyarrow Table with a row per part."""
        return read_table(self.folder, "parts")

    def pairs(self) -> Any:
        """A pyarrow Table with a row per near pair, sorted."""
        found = read_table(self.folder, "pairs")
        return _pairs_schema().empty_table() if found is None else found

    def at(self, a: int, b: int) -> TrianglePairs:
        """The pairs of triangles of two parts that meet, with the bodies."""
        first, second = (as_surface(read_part(to_be_sent(self._job.parts.items[i])).body()) for i in (a, b))
        return BoxTree(first, second).query()


def map_pairs(
    parts: Any,
    *,
    resolution: int = 64,
    scheduler: str | None = None,
    workers: int | None = None,
    processes: bool = True,
    out: str | os.PathLike[str] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> PairsRun:
    """All pairs of ``parts`` that meet: how they stand, contacts, overlap volume and depth.

    ``parts`` is a folder of mesh files, a scene file (.toml), or a list of bodies and files. ``resolution`` is that of
    the overlap volume. The other options are those of ``map_frames``.
    """
    parquet()
    job = _job(parts, resolution)
    store = Store(folder_for(out), job.description())
    run: PairsRun | None = None
    is_small = len(job.parts) <= SMALL
    try:
        with engine_for(scheduler=scheduler, workers=workers, processes=processes, is_small=is_small) as engine:
            _measure_boxes(job, store, engine)
            near = _near_pairs(job, store.read("parts"))
            resumed = _settle_pairs(job, near, store, engine, progress)
        totals = {**_totals(store.read("pairs")), **_totals_of_parts(store.read("parts"))}
        store.finish(totals)
        run = PairsRun(store.folder, totals, resumed, job)
        return run
    finally:
        store.close()
        forget_parts()
        if out is None:
            remove_with(run, store.folder)


@dataclass(frozen=True, eq=False)
class _Job:
    digest: str
    parts: Parts
    resolution: int

    def description(self) -> dict[str, Any]:
        return {
            "kind": "pairs",
            "job": self.digest,
            "impinge": impinge.__version__,
            "parts": len(self.parts),
            "resolution": self.resolution,
        }


def _job(source: Any, resolution: int) -> _Job:
    if isinstance(resolution, bool) or not isinstance(resolution, int) or not 1 <= resolution <= 4096:
        raise OptionError(f"resolution is {resolution!r}, expected a whole number from 1 to 4096")
    parts = parts_of(source)
    digest = hashlib.sha256(f"{resolution} {parts.digest()}".encode()).hexdigest()[:32]
    return _Job(digest, parts, resolution)


def _cut(count: int) -> tuple[int, list[slice]]:
    """How many make a run, and the rows of each run."""
    length = min(max(-(-count // PARTS), 1), LONGEST_RUN)
    return length, [slice(first, min(first + length, count)) for first in range(0, count, length)]


# boxes ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Box:
    """What is to be known of a part before any pair."""

    triangles: int
    low: list[float]
    high: list[float]


@dataclass(frozen=True)
class _BoxRun:
    number: int
    first: int
    names: list[str]
    parts: list[Part | _Box]
    nbytes: int = 0


def _measure_boxes(job: _Job, store: Store, engine: Engine) -> None:
    done = store.done("parts")
    length, cut = _cut(len(job.parts))
    runs = [
        _BoxRun(number, rows.start, job.parts.names[rows], [_at_hand(part) for part in job.parts.items[rows]])
        for number, rows in enumerate(cut)
        if number not in done
    ]

    def send(run: _BoxRun) -> _BoxRun:
        """Boxes of parts that this process has read: less to send than the parts."""
        return replace(run, parts=[_boxed_or_refused(part) for part in run.parts])

    work = Work(_nothing, _do_boxes, None, lambda: None, send, most=max(LONGEST_RUN // length, 1))
    for answer in engine.stream(work, runs):
        store.commit(answer.number, answer.tables)


def _at_hand(part: Part) -> Part | _Box | Refused:
    """The box of a body, which needs no worker, or the file to be read there."""
    return _boxed_or_refused(part) if isinstance(part, Template) else part


def _boxed(part: Part | _Box) -> _Box:
    if isinstance(part, _Box):
        return part
    body = surface_of(part)
    low, high = body.bounds
    return _Box(len(body), low.tolist(), high.tolist())


def _boxed_or_refused(part: Part | _Box) -> Refused | _Box:
    if isinstance(part, _Box):
        return part
    sent = to_be_sent(part)
    try:
        return sent if isinstance(sent, Refused) else _boxed(sent)
    except ImpingeError as error:
        return Refused(str(error))


def _nothing(_: None) -> None:
    """Boxes share nothing."""


def _do_boxes(_: None, run: _BoxRun) -> Answer:
    rows: list[dict[str, Any]] = []
    for k, (name, part) in enumerate(zip(run.names, run.parts)):
        row: dict[str, Any] = {"part": run.first + k, "name": name}
        try:
            rows.append({**row, **asdict(_boxed(part))})
        except ImpingeError as error:
            rows.append({**row, "error": str(error)})
    arrow = parquet()
    corner = arrow.list_(arrow.float64(), 3)
    schema = arrow.schema(
        [
            ("part", arrow.int64()), ("name", arrow.string()), ("triangles", arrow.int64()), ("low", corner),
            ("high", corner), ("error", arrow.string()),
        ]
    )  # fmt: skip
    table = encode({name: [row.get(name) for row in rows] for name in schema.names}, schema)
    return Answer(run.number, {"parts": table}, {"parts": len(rows)})


def _near_pairs(job: _Job, parts: Any) -> NDArray[np.int64]:
    empty = ([np.inf] * 3, [-np.inf] * 3)
    low, high = (
        np.array([corner or other for corner in parts.column(name).to_pylist()], dtype=np.float64)
        for name, other in zip(("low", "high"), empty)
    )
    return job.parts.wanted(overlapping_boxes(low, high))


# pairs ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _PairRun:
    number: int
    pairs: list[tuple[int, int]]
    names: dict[int, str]
    parts: dict[int, Part]
    """Where the parts of these pairs are; those that all units share are left out."""
    resolution: int
    nbytes: int = 0


def _settle_pairs(
    job: _Job, near: NDArray[np.int64], store: Store, engine: Engine, progress: Callable[[Progress], None] | None
) -> int:
    """Do what is not done yet; return how many pairs were."""
    done = store.done("pairs")
    before = _totals(store.read("pairs"))
    count = dict(before)
    given = {i: part for i, part in enumerate(job.parts.items) if isinstance(part, Template)}
    length, cut = _cut(len(near))

    def tell() -> None:
        if progress is not None:
            bad, workers = count["bad_pairs"], engine.workers
            progress(Progress(count["near"], len(near), count["contacts"], bad, workers, before["near"]))

    def runs() -> Iterator[_PairRun]:
        for number, rows in enumerate(cut):
            if number not in done:
                pairs = [(int(i), int(j)) for i, j in near[rows]]
                used = sorted({i for pair in pairs for i in pair})
                files = {i: job.parts.items[i] for i in used if i not in given}
                yield _PairRun(number, pairs, {i: job.parts.names[i] for i in used}, files, job.resolution)

    work = Work(
        _as_given, _do_pairs, given, lambda: given, lambda run: replace(run, parts={}), pieces=lambda run: run.parts,
        read=to_be_sent, most=max(LONGEST_RUN // length, 1),
    )  # fmt: skip
    tell()
    for answer in engine.stream(work, runs()):
        store.commit(answer.number, answer.tables)
        for name, value in answer.counts.items():
            count[name] += value
        tell()
    return before["near"]


def _as_given(parts: dict[int, Part]) -> dict[int, Part]:
    """Parts that were given as bodies travel once to each worker."""
    return parts


def _do_pairs(given: dict[int, Part], run: _PairRun) -> Answer:
    rows: list[dict[str, Any]] = []
    for i, j in run.pairs:
        row: dict[str, Any] = {"a": i, "b": j, "name_a": run.names[i], "name_b": run.names[j]}
        try:
            a, b = (surface_of(given[k] if k in given else run.parts[k]) for k in (i, j))
            standing = Watch(a, b).look()
            rows.append({**row, **_counted(standing), **_measured(a, b, standing, run.resolution)})
        except ImpingeError as error:
            rows.append({**row, "error": str(error)})
    counts = {
        "near": len(rows),
        "colliding": sum(bool(row.get("collides")) for row in rows),
        "contacts": sum(row.get("contacts") or 0 for row in rows),
        "bad_pairs": sum("error" in row for row in rows),
    }
    schema = _pairs_schema()
    table = encode({name: [row.get(name) for row in rows] for name in schema.names}, schema)
    return Answer(run.number, {"pairs": table}, counts)


def _pairs_schema() -> Any:
    arrow = parquet()
    number, text, real = arrow.int64(), arrow.string(), arrow.float64()
    return arrow.schema(
        [
            ("a", number), ("b", number), ("name_a", text), ("name_b", text), ("collides", arrow.bool_()),
            ("relation", text), ("contacts", number), *((name, number) for name in KINDS.values()), ("volume", real),
            ("volume_error", real), ("depth", real), ("error", text),
        ]
    )  # fmt: skip


def _counted(standing: Standing) -> dict[str, Any]:
    kind = standing.found.kind
    counts = {name: int(np.count_nonzero(kind == each)) for each, name in KINDS.items()}
    return {"collides": bool(standing), "relation": standing.relation, "contacts": len(kind), **counts}


def _measured(a: TriMesh, b: TriMesh, standing: Standing, resolution: int) -> dict[str, float | None]:
    """Volume and depth of what meets; None where a body is not closed, or no vertex is inside."""
    measured: dict[str, float | None] = {"volume": None, "volume_error": None, "depth": None}
    if not standing:
        return measured
    try:
        overlap = overlap_volume(a, b, resolution=resolution)
        measured |= {"volume": _finite(overlap.volume), "volume_error": _finite(overlap.error)}
        depth = penetrating_vertices([a, b], depth=True).depth
        if depth is not None and len(depth):
            measured["depth"] = _finite(float(depth.max()))
    except MeshError:  # an open surface has neither; how they meet is settled all the same
        pass
    return measured


def _finite(x: float) -> float | None:
    return float(x) if np.isfinite(x) else None


def _totals(pairs: Any) -> dict[str, int]:
    if pairs is None:
        return dict.fromkeys(("near", "colliding", "contacts", "bad_pairs"), 0)
    contacts = pairs.column("contacts").fill_null(0).to_numpy()
    return {
        "near": len(pairs),
        "colliding": int(np.count_nonzero(pairs.column("collides").fill_null(False).to_numpy())),
        "contacts": int(contacts.sum()),
        "bad_pairs": len(pairs) - pairs.column("error").null_count,
    }


def _totals_of_parts(parts: Any) -> dict[str, int]:
    return {"parts": len(parts), "bad": len(parts) - parts.column("error").null_count}
