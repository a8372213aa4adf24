"""The folder of a run: a manifest, and tables in shards that appear whole or not at all.

    run/manifest.json                    the job; ``state`` is "running" or "complete"; totals once it is complete
    run/<table>/part-000012.parquet      rows of shard 12 (Parquet's usual file name)

1. Open.   The manifest identifies the job. The folder of another job is refused; a run of the same job is resumed.
2. Commit. The tables of a shard are written atomically (``io.atomic``), in order. The last table commits the shard: a
           shard counts if and only if all its tables exist.
3. Finish. A manifest with state "complete" and the totals replaces the first one.

A process killed at any point leaves whole shards, and ``.tmp`` files that are never read.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from impinge.checks import as_path
from impinge.errors import FileError, ImpingeError, OptionError, optional_module
from impinge.io.atomic import write_whole

MANIFEST = "manifest.json"
FORMAT = 1
Made = TypeVar("Made")
Row = dict[str, Any]


def parquet() -> Any:
    """The module pyarrow, with ``pyarrow.parquet`` loaded.

    Raises
    ------
    MissingExtra
        If pyarrow is not installed.
    """
    needed = "results of a run are Parquet files, which need pyarrow; install impinge[cluster]"
    optional_module("pyarrow.parquet", needed)
    return optional_module("pyarrow", needed)


def schema_of(types: dict[str, str]) -> Any:
    """A pyarrow schema of column names and type aliases; "point" is a list of three float64."""
    arrow = parquet()
    point = arrow.list_(arrow.float64(), 3)
    return arrow.schema([(n, point if kind == "point" else arrow.type_for_alias(kind)) for n, kind in types.items()])


def encode(columns: dict[str, Any], types: dict[str, str], *, dictionary: bool | list[str] = True) -> bytes:
    """A table as the bytes of a Parquet file; equal tables give equal bytes.

    ``dictionary`` names the columns to be dictionary-encoded: those with few distinct values.
    """
    arrow = parquet()
    sink = arrow.BufferOutputStream()
    table = arrow.table(columns, schema=schema_of(types))
    arrow.parquet.write_table(table, sink, compression="zstd", use_dictionary=dictionary)
    return bytes(sink.getvalue())


def encode_rows(rows: list[Row], types: dict[str, str]) -> bytes:
    """Rows as the bytes of a Parquet file; absent values become null."""
    return encode({name: [row.get(name) for row in rows] for name in types}, types)


def measured(row: Row, measure: Callable[..., Row], *args: Any) -> Row:
    """A row with the columns that ``measure(*args)`` returns, or with the message of its error."""
    try:
        return row | measure(*args)
    except ImpingeError as error:
        return row | {"error": str(error)}


def tally(rows: list[Row], count: str, bad: str, *summed: str) -> Counter[str]:
    """Totals over rows: their number as ``count``, "colliding", sums of columns, and rows with an error as ``bad``."""
    totals = Counter({count: len(rows), "colliding": sum(bool(row.get("collides")) for row in rows)})
    totals.update({name: sum(row.get(name) or 0 for row in rows) for name in summed})
    totals[bad] = sum(row.get("error") is not None for row in rows)
    return totals


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Replace an ``OSError`` by a ``FileError`` that names the path."""
    try:
        yield
    except OSError as error:
        raise FileError(
            f"{path} cannot be written ({error.strerror or error}); choose a folder that may be written to"
        ) from error


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    with writing(path):
        write_whole(path, lambda file: file.write(data))


def in_folder(out: str | os.PathLike[str] | None, run: Callable[[Path], Made]) -> Made:
    """Call ``run`` with the folder ``out``, or a temporary one that is deleted with the result or after a failure."""
    if out is not None:
        return run(as_path(out, "out", "the path of a folder"))
    folder = Path(tempfile.mkdtemp(prefix="impinge-"))
    try:
        made = run(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(made, shutil.rmtree, folder, ignore_errors=True)
    return made


class Store:
    """The folder of one run, locked by one process at a time."""

    def __init__(self, folder: Path, job: dict[str, Any]) -> None:
        self.folder = folder
        self._manifest = {"format": FORMAT, **job, "state": "running"}
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            found = [each.name for each in folder.iterdir() if not each.name.endswith(".tmp")]
            if found and MANIFEST not in found:
                raise OptionError(
                    f"{folder} holds other files ({found[0]}) and no run; choose an empty folder or a new name"
                )
            self._lock = _locked(folder)
        try:
            if found:
                self._resume()
            else:
                self._write_manifest()
            with writing(folder):
                for left in folder.rglob("*.tmp"):
                    left.unlink()
        except BaseException:
            self.close()
            raise

    def _resume(self) -> None:
        """Take the manifest of the folder if it belongs to the same job."""
        path = self.folder / MANIFEST
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
            job = held["job"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise OptionError(f"{path} is not a manifest of a run ({error}); choose another folder") from error
        if held.get("format") != FORMAT:
            raise OptionError(f"{path} has format {held.get('format')!r}, expected {FORMAT}; choose another folder")
        if job != self._manifest["job"]:
            raise OptionError(
                f"{self.folder} holds a run on other bodies, frames or options, or the files have changed since; "
                "choose another folder, or remove this one to start over"
            )
        self._manifest = held

    def missing(self, table: str, shards: list[slice]) -> list[tuple[int, slice]]:
        """Number and rows of the shards that are not committed."""
        done = {number for number, _ in _shard_files(self.folder / table)}
        return [(number, rows) for number, rows in enumerate(shards) if number not in done]

    def commit(self, number: int, tables: dict[str, bytes]) -> None:
        """Write the tables of a shard; the last one commits it."""
        for table, data in tables.items():
            path = self.folder / table / f"part-{number:06d}.parquet"
            with writing(path):
                path.parent.mkdir(exist_ok=True)
            write_bytes(path, data)

    def finish(self, totals: dict[str, int]) -> None:
        """Mark the run as complete."""
        if self._manifest.get("state") != "complete" or self._manifest.get("totals") != totals:
            self._manifest |= {"state": "complete", "totals": totals}
            self._write_manifest()

    def close(self) -> None:
        """Release the lock on the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _write_manifest(self) -> None:
        write_bytes(self.folder / MANIFEST, (json.dumps(self._manifest, indent=2) + "\n").encode())

    def rows(self, table: str) -> list[Row]:
        """All rows of a table."""
        found = read_table(self.folder, table)
        return [] if found is None else list(found.to_pylist())


def _shard_files(folder: Path) -> Iterable[tuple[int, Path]]:
    found = (re.fullmatch(r"part-(\d+)\.parquet", path.name) for path in folder.glob("part-*"))
    return sorted((int(name[1]), folder / name[0]) for name in found if name)


def read_table(folder: Path, table: str) -> Any:
    """All shards of a table, concatenated in order, as a pyarrow Table; None if there are none."""
    arrow, tables = parquet(), []
    for _, path in _shard_files(folder / table):
        try:
            tables.append(arrow.parquet.read_table(path, partitioning=None))
        except (OSError, arrow.ArrowInvalid) as error:  # noqa: PERF203 - the message names the file
            raise FileError(f"{path} cannot be read ({error}); remove it and run again") from error
    return arrow.concat_tables(tables) if tables else None


def _locked(folder: Path) -> int | None:
    """Lock a folder until its descriptor is closed or the process ends; None on Windows, which has no ``flock``."""
    try:
        import fcntl
    except ImportError:
        return None
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise OptionError(
            f"another process is writing to {folder}; wait until it ends, or choose another folder"
        ) from error
    return lock
