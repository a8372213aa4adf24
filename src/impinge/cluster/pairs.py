"""All near pairs of many parts: which meet, by how much, and how deep, on one machine or many.

1. Boxes.  Every part is read once, in runs, for the box around it.
2. Sweep.  Boxes that overlap make near pairs (``broad_phase``); all others cannot meet.
3. Pairs.  Near pairs, sorted and cut into runs of neighbours, are settled exactly, a body inside a body too. Of those
           that meet and are closed, the overlap volume (sampled, with its error estimate) and the largest depth of a
           vertex inside the other are found.

A worker keeps the parts that it used last, with their trees. A part that cannot be read gets a row that says why and
takes part in no pair.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import impinge
from impinge.cluster.engine import Answer, Engine, Work, engine_for
from impinge.cluster.frames import KINDS, Progress
from impinge.cluster.sources import InFile, Refused, Template, Unseen, in_file, listed_files, template_of
from impinge.cluster.standing import Standing, Watch
from impinge.cluster.store import Store, encode, folder_for, parquet, read_table, remove_with
from impinge.detect.box_tree import BoxTree
from impinge.detect.broad_phase import overlapping_boxes
from impinge.detect.results import TrianglePairs
from impinge.errors import ImpingeError, MeshError, OptionError
from impinge.mesh.body import as_surface
from impinge.mesh.tri_mesh import TriMesh
from impinge.queries import overlap_volume, penetrating_vertices

PARTS = 32
"""Runs that few pairs are cut into."""
LONGEST_RUN = 64
"""Pairs of a run at most: what a kill can cost each worker."""
SMALL = 200
"""Parts up to which the process itself is as fast as starting others."""
TRIANGLES_KEPT = 20_000_000
"""Triangles of the parts that a worker keeps; some 2 GB with their trees."""

Part = InFile | Template | Refused
"""Where to read a part, the part itself, or why it cannot be had."""


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
        bodies = []
        for part in (_sent(self._job.parts[a]), _sent(self._job.parts[b])):
            if not isinstance(part, Template):
                raise MeshError(part.sentence if isinstance(part, Refused) else str(part))
            bodies.append(as_surface(part.body()))
        return BoxTree(*bodies).query()


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

    ``parts`` is a folder of mesh files, or a list of bodies and files. ``resolution`` is that of the overlap volume.
    The other options are those of ``map_frames``.
    """
    parquet()
    job = _job(parts, resolution)
    store = Store(folder_for(out), job.description())
    run: PairsRun | None = None
    is_small = len(job.parts) <= SMALL
    try:
        with engine_for(scheduler=scheduler, workers=workers, processes=processes, is_small=is_small) as engine:
            _measure_boxes(job, store, engine)
            near = _near_pairs(store.read("parts"))
            resumed = _settle_pairs(job, near, store, engine, progress)
        totals = {**_totals(store.read("pairs")), **_totals_of_parts(store.read("parts"))}
        store.finish(totals)
        run = PairsRun(store.folder, totals, resumed, job)
        return run
    finally:
        store.close()
        _kept.clear()
        if out is None:
            remove_with(run, store.folder)


@dataclass(frozen=True, eq=False)
class _Job:
    digest: str
    names: list[str]
    parts: list[Part]
    resolution: int

    def description(self) -> dict[str, Any]:
        return {
            "kind": "pairs",
            "job": self.digest,
            "impinge": impinge.__version__,
            "parts": len(self.parts),
            "resolution": self.resolution,
        }


def _job(parts: Any, resolution: int) -> _Job:
    if isinstance(resolution, bool) or not isinstance(resolution, int) or not 1 <= resolution <= 4096:
        raise OptionError(f"resolution is {resolution!r}, expected a whole number from 1 to 4096")
    if isinstance(parts, str | os.PathLike):
        folder = Path(parts)
        files = listed_files(folder)
        names, given = [str(file.relative_to(folder)) for file in files], [in_file(file) for file in files]
        listed: list[Part] = list(given)
    elif isinstance(parts, Sequence):
        are_files = [isinstance(each, str | os.PathLike) for each in parts]
        names = [
            Path(each).name if is_file else f"parts[{i}]" for i, (each, is_file) in enumerate(zip(parts, are_files))
        ]
        listed = [
            in_file(each) if is_file else template_of(each, name=name)
            for each, is_file, name in zip(parts, are_files, names)
        ]
    else:
        raise OptionError(f"parts is a {type(parts).__name__}, expected a folder, or a list of bodies and files")
    if len(listed) < 2:
        raise OptionError(
            f"{parts if isinstance(parts, str | os.PathLike) else 'parts'} holds {len(listed)} parts, "
            "expected at least two mesh files or bodies"
        )
    digest = hashlib.sha256(str(resolution).encode())
    for name, part in zip(names, listed):
        digest.update(name.encode(errors="surrogateescape"))
        digest.update((part.digest() if isinstance(part, Template) else repr(part)).encode(errors="surrogateescape"))
    return _Job(digest.hexdigest()[:32], names, listed, resolution)


def _cut(count: int) -> Iterator[tuple[int, slice]]:
    """Number and rows of each run."""
    length = min(max(-(-count // PARTS), 1), LONGEST_RUN)
    for number, first in enumerate(range(0, count, length)):
        yield number, slice(first, min(first + length, count))


def _sent(part: Part) -> Part:
    """The part itself, or why it cannot be had, for a machine that does not see the file."""
    if not isinstance(part, InFile):
        return part
    try:
        return template_of(part, name="the part")
    except Unseen:
        return Refused(f"{part.path} was changed or removed while the run was on; run again with another --out")
    except ImpingeError as error:
        return Refused(str(error))


# boxes ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _BoxRun:
    number: int
    first: int
    names: list[str]
    parts: list[Part]


def _measure_boxes(job: _Job, store: Store, engine: Engine) -> None:
    done = store.done("parts")
    runs = (
        _BoxRun(number, rows.start, job.names[rows], job.parts[rows])
        for number, rows in _cut(len(job.parts))
        if number not in done
    )
    work = Work(_nothing, _do_boxes, None, lambda: None, lambda run: replace(run, parts=list(map(_sent, run.parts))))
    for answer in engine.stream(work, runs):
        store.commit(answer.number, answer.tables)


def _nothing(_: None) -> None:
    """Boxes share nothing."""


def _do_boxes(_: None, run: _BoxRun) -> Answer:
    rows: list[dict[str, Any]] = []
    for k, (name, part) in enumerate(zip(run.names, run.parts)):
        row: dict[str, Any] = {"part": run.first + k, "name": name}
        try:
            body = _surface_of(part)
        except ImpingeError as error:
            rows.append({**row, "error": str(error)})
            continue
        low, high = body.bounds
        rows.append({**row, "triangles": len(body), "low": low.tolist(), "high": high.tolist()})
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


def _near_pairs(parts: Any) -> NDArray[np.int64]:
    empty = ([np.inf] * 3, [-np.inf] * 3)
    low, high = (
        np.array([corner or other for corner in parts.column(name).to_pylist()], dtype=np.float64)
        for name, other in zip(("low", "high"), empty)
    )
    return overlapping_boxes(low, high)


# pairs ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _PairRun:
    number: int
    pairs: list[tuple[int, int]]
    names: dict[int, str]
    parts: dict[int, Part]
    """Where the parts of these pairs are; those that all units share are left out."""
    resolution: int


def _settle_pairs(
    job: _Job, near: NDArray[np.int64], store: Store, engine: Engine, progress: Callable[[Progress], None] | None
) -> int:
    """Do what is not done yet; return how many pairs were."""
    done = store.done("pairs")
    before = _totals(store.read("pairs"))
    count = dict(before)
    given = {i: part for i, part in enumerate(job.parts) if isinstance(part, Template)}

    def tell() -> None:
        if progress is not None:
            bad, workers = count["bad_pairs"], engine.workers
            progress(Progress(count["near"], len(near), count["contacts"], bad, workers, before["near"]))

    def runs() -> Iterator[_PairRun]:
        for number, rows in _cut(len(near)):
            if number not in done:
                pairs = [(int(i), int(j)) for i, j in near[rows]]
                used = sorted({i for pair in pairs for i in pair})
                files = {i: job.parts[i] for i in used if i not in given}
                yield _PairRun(number, pairs, {i: job.names[i] for i in used}, files, job.resolution)

    def send(run: _PairRun) -> _PairRun:
        return replace(run, parts={i: _sent(part) for i, part in run.parts.items()})

    tell()
    for answer in engine.stream(Work(_as_given, _do_pairs, given, lambda: given, send), runs()):
        store.commit(answer.number, answer.tables)
        for name, value in answer.counts.items():
            count[name] += value
        tell()
    return before["near"]


def _as_given(parts: dict[int, Template]) -> dict[int, Template]:
    """Parts that were given as bodies travel once to each worker."""
    return parts


def _do_pairs(given: dict[int, Template], run: _PairRun) -> Answer:
    rows: list[dict[str, Any]] = []
    for i, j in run.pairs:
        row: dict[str, Any] = {"a": i, "b": j, "name_a": run.names[i], "name_b": run.names[j]}
        try:
            a, b = (_surface_of(given[k] if k in given else run.parts[k]) for k in (i, j))
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


# parts that a worker keeps ----------------------------------------------------------------------------

_kept: OrderedDict[Any, tuple[Part, TriMesh]] = OrderedDict()
"""By file, or by the number of an object, which it keeps alive for that."""
_kept_lock = threading.Lock()


def _surface_of(part: Part) -> TriMesh:
    """The body of a part, with the trees that were made for it, if it was used lately."""
    if isinstance(part, Refused):
        raise MeshError(part.sentence)
    key = part if isinstance(part, InFile) else id(part)
    with _kept_lock:
        kept = _kept.pop(key, None)
    if kept is None:
        template = template_of(part, name="the part") if isinstance(part, InFile) else part
        kept = part, as_surface(template.body())
    with _kept_lock:
        _kept[key] = kept
        while sum(len(body) for _, body in _kept.values()) > TRIANGLES_KEPT and len(_kept) > 1:
            _kept.popitem(last=False)
    return kept[1]
