"""All near pairs of many parts: relation, contacts, overlap volume and depth, on one machine or many.

1. Boxes.  Each part is read once for its bounding box.
2. Sweep.  Overlapping boxes make near pairs (``broad_phase``); groups and ignored pairs of a scene file are removed.
3. Pairs.  Near pairs, sorted and cut into shards, are tested exactly, nesting included. Pairs that collide get the
           overlap volume (sampled, with an error estimate) and the depth of ``check``.

A part that cannot be read gets a row with an error message and is in no pair.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import impinge
from impinge.checks import as_whole, check_callable
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.boxes.broad_phase import overlapping_boxes
from impinge.detect.common.results import PathLike, TrianglePairs
from impinge.mesh.body import BodyLike, as_surface
from impinge.queries import report_on
from impinge.runs.engine import Engine, Shard, ShardResult, Work, cut, engine_for, execute, identity
from impinge.runs.frame_work import KINDS
from impinge.runs.frames import Progress, Run
from impinge.runs.parts import Part, Parts, clear_parts, part_by_value, parts_of, read_part, surface_of
from impinge.runs.sources import Template, Unreadable, or_reason
from impinge.runs.store import Store, encode_rows, in_folder, measured, parquet, read_table, schema_of, tally

SMALL = 200
"""Parts up to which one process is as fast as starting workers."""
PART_COLUMNS = {
    "part": "int64", "name": "string", "triangles": "int64", "low": "point", "high": "point", "error": "string",
}  # fmt: skip
PAIR_COLUMNS = {
    "a": "int64", "b": "int64", "name_a": "string", "name_b": "string", "collides": "bool", "relation": "string",
    "contacts": "int64", **dict.fromkeys(KINDS.values(), "int64"), "volume": "float64", "volume_error": "float64",
    "depth": "float64", "error": "string",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class PairsRun(Run):
    """Result of ``map_pairs``: totals near, colliding, contacts, bad_pairs, parts and bad, and tables on disk.

    ``len(run)`` is the number of near pairs. ``bool(run)`` is True if any pair collides.
    """

    _parts: Parts = field(repr=False)

    def __len__(self) -> int:
        return self.totals["near"]

    def parts(self) -> Any:
        """A ``pyarrow.Table`` with a row per part."""
        return read_table(self.folder, "parts")

    def pairs(self) -> Any:
        """A ``pyarrow.Table`` with a row per near pair, sorted."""
        found = read_table(self.folder, "pairs")
        return schema_of(PAIR_COLUMNS).empty_table() if found is None else found

    def at(self, a: int, b: int) -> TrianglePairs:
        """Triangle pairs of two parts, computed again."""
        first, second = (as_surface(read_part(part_by_value(self._parts.items[i])).body()) for i in (a, b))
        return BoxTree(first, second).query()


def map_pairs(
    parts: PathLike | Sequence[BodyLike],
    *,
    resolution: int = 128,
    scheduler: str | None = None,
    workers: int | None = None,
    processes: bool = True,
    out: str | os.PathLike[str] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> PairsRun:
    """Find all pairs of ``parts`` that collide: relation, contacts, overlap volume and depth.

    Parameters
    ----------
    parts
        A folder of mesh files, a scene file (.toml), or a list of bodies and files.
    resolution
        Pixels per side of the depth images that measure overlap volumes, 1 to 4096.
    scheduler, workers, processes, out, progress
        As in ``map_frames``.

    Returns
    -------
    PairsRun

    Raises
    ------
    OptionError
        If there are fewer than two parts, or ``out`` holds another run.
    MissingExtra
        If pyarrow, or Dask where it is needed, is not installed.
    ClusterError
        If the scheduler or its workers fail.
    """
    parquet()
    as_whole(resolution, "resolution", most=4096)
    check_callable(progress, "progress")
    listed = parts_of(parts)
    digest = hashlib.sha256(f"{resolution} {listed.digest()}".encode()).hexdigest()[:32]
    description = {
        "kind": "pairs", "job": digest, "impinge": impinge.__version__, "parts": len(listed), "resolution": resolution,
    }  # fmt: skip
    is_small = len(listed) <= SMALL

    def run(folder: Path) -> PairsRun:
        with (
            contextlib.closing(Store(folder, description)) as store,
            engine_for(scheduler=scheduler, workers=workers, processes=processes, is_small=is_small) as engine,
        ):
            _measure_boxes(listed, store, engine)
            rows = store.rows("parts")
            low = np.array([row["low"] or [np.inf] * 3 for row in rows], dtype=np.float64)
            high = np.array([row["high"] or [-np.inf] * 3 for row in rows], dtype=np.float64)
            near = listed.filtered(overlapping_boxes(low, high))
            totals = _tally_pairs(store.rows("pairs"))
            resumed = totals["near"]

            def report() -> None:
                if progress is not None:
                    done, contacts, bad = totals["near"], totals["contacts"], totals["bad_pairs"]
                    progress(Progress(done, len(near), contacts, bad, engine.workers, resumed))

            _test_pairs(listed, near, resolution, store, engine, totals, report)
            totals.update({"parts": len(rows), "bad": sum(row["error"] is not None for row in rows)})
            store.finish(totals)
            return PairsRun(folder, dict(totals), resumed, listed)

    try:
        return in_folder(out, run)
    finally:
        clear_parts()


# boxes ------------------------------------------------------------------------------------------------


Box = dict[str, Any]
"""Triangles and bounding box of a part: the last columns of its row."""


@dataclass(frozen=True)
class _BoxShard(Shard):
    first: int
    names: list[str]
    parts: list[Part | Box]


def _measure_boxes(parts: Parts, store: Store, engine: Engine) -> None:
    """Fill the table of parts. Boxes of bodies are computed here: smaller to send than the bodies."""
    rows_of_shards, max_shards = cut(len(parts))
    shards = [
        _BoxShard(
            number, rows.start, parts.names[rows],
            [_box_by_value(part) if isinstance(part, Template) else part for part in parts.items[rows]],
        )
        for number, rows in store.missing("parts", rows_of_shards)
    ]  # fmt: skip

    def inlined(shard: _BoxShard) -> _BoxShard:
        return replace(shard, parts=[_box_by_value(part) for part in shard.parts])

    work = Work(identity, _do_boxes, None, lambda: None, inlined, max_shards=max_shards)
    execute(engine, work, shards, store, Counter(), lambda: None)


def _box_of(part: Part | Box) -> Box:
    if isinstance(part, dict):
        return part
    body = surface_of(part)
    low, high = body.bounds
    return {"triangles": len(body), "low": low.tolist(), "high": high.tolist()}


def _box_by_value(part: Part | Box) -> Box | Unreadable:
    return part if isinstance(part, dict) else or_reason(_box_of, part_by_value(part))


def _do_boxes(_: None, shard: _BoxShard) -> ShardResult:
    named = enumerate(zip(shard.names, shard.parts), shard.first)
    rows = [measured({"part": number, "name": name}, _box_of, part) for number, (name, part) in named]
    return ShardResult(shard.number, {"parts": encode_rows(rows, PART_COLUMNS)}, {})


# pairs ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _PairShard(Shard):
    pairs: list[tuple[int, int]]
    names: dict[int, str]
    files: dict[int, Part]
    """Parts of these pairs that are read from files."""
    resolution: int


def _test_pairs(
    parts: Parts, near: NDArray[np.int64], resolution: int, store: Store, engine: Engine, totals: Counter[str],
    report: Callable[[], None],
) -> None:  # fmt: skip
    """Fill the table of pairs. Parts given as bodies travel once to each worker."""
    given = {i: part for i, part in enumerate(parts.items) if isinstance(part, Template)}
    rows_of_shards, max_shards = cut(len(near))

    def shards() -> Iterator[_PairShard]:
        for number, rows in store.missing("pairs", rows_of_shards):
            pairs = [(int(i), int(j)) for i, j in near[rows]]
            used = sorted({i for pair in pairs for i in pair})
            files = {i: parts.items[i] for i in used if i not in given}
            yield _PairShard(number, pairs, {i: parts.names[i] for i in used}, files, resolution)

    work = Work(
        identity, _do_pairs, given, lambda: given, lambda shard: replace(shard, files={}),
        inputs=lambda shard: shard.files, read=part_by_value, max_shards=max_shards,
    )  # fmt: skip
    execute(engine, work, shards(), store, totals, report)


def _do_pairs(given: dict[int, Part], shard: _PairShard) -> ShardResult:
    names, parts = shard.names, {**shard.files, **given}
    rows = [
        measured({"a": i, "b": j, "name_a": names[i], "name_b": names[j]}, _test, parts[i], parts[j], shard.resolution)
        for i, j in shard.pairs
    ]
    return ShardResult(shard.number, {"pairs": encode_rows(rows, PAIR_COLUMNS)}, _tally_pairs(rows))


def _test(part_a: Part, part_b: Part, resolution: int) -> dict[str, Any]:
    """Columns of a pair, as ``check`` finds them; volume and depth are absent where they are not defined."""
    a, b = surface_of(part_a), surface_of(part_b)
    pairs = BoxTree(a, b).query()
    report = report_on(pairs, a, b, resolution=resolution)
    row: dict[str, Any] = {"collides": bool(report), "relation": report.relation, "contacts": len(pairs)}
    row |= {name: int(np.count_nonzero(pairs.kind == kind)) for kind, name in KINDS.items()}
    if report:
        if report.overlap is not None:
            row |= {"volume": report.overlap.volume, "volume_error": report.overlap.error}
        if report.deepest is not None:
            row["depth"] = float(report.deepest.depth[0])
    return {name: None if isinstance(value, float) and not np.isfinite(value) else value for name, value in row.items()}


def _tally_pairs(rows: list[dict[str, Any]]) -> Counter[str]:
    return tally(rows, "near", "bad_pairs", "contacts")
