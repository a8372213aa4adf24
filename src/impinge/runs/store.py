"""The folder of a run: what was asked, and what was found so far, in parts that appear whole or not at all.

    run/manifest.json             what was asked; ``state`` is "running" or "complete"; totals once it is
    run/<table>/part-000012.parquet

1. Open.   The manifest says which job the folder belongs to. Another job is refused, the same one goes on.
2. Commit. A part is written beside its place, brought to the disk and renamed. The last table of a part to appear is
           the one that makes it count, so that a part counts if, and only if, all its tables are there.
3. Finish. The manifest is replaced by one that says so.

Whatever is killed, at any point, leaves parts that are whole, and files ending in ``.tmp``, which nobody reads.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

from impinge.errors import FileError, MissingExtra, OptionError

MANIFEST = "manifest.json"
FORMAT = 1


def parquet() -> Any:
    """The modules pyarrow and pyarrow.parquet, or a sentence."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra(
            "results of a run are Parquet files, which need pyarrow; install impinge[cluster]"
        ) from error
    return pyarrow


def encode(columns: dict[str, Any], schema: Any, *, repeating: list[str] | None = None) -> bytes:
    """A table as the bytes of a Parquet file; the same table gives the same bytes.

    ``repeating`` names the columns with few different values, if the others have many: a list of those takes time and
    room.
    """
    arrow = parquet()
    sink = arrow.BufferOutputStream()
    table = arrow.table(columns, schema=schema)
    arrow.parquet.write_table(table, sink, compression="zstd", use_dictionary=True if repeating is None else repeating)
    return bytes(sink.getvalue())


def folder_for(out: str | os.PathLike[str] | None) -> Path:
    """The folder that was asked for, or a new one that is to go with the result."""
    return Path(tempfile.mkdtemp(prefix="impinge-")) if out is None else Path(out)


def remove_with(owner: object | None, folder: Path) -> None:
    """Remove a folder once nobody holds ``owner`` any more; at once if there is no owner, since the run failed."""
    if owner is None:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)


class Store:
    """One run's folder, opened by one process at a time."""

    def __init__(self, folder: Path, description: dict[str, Any]) -> None:
        self.folder = folder
        self._manifest = {"format": FORMAT, **description, "state": "running"}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            others = [each.name for each in folder.iterdir() if not each.name.endswith(".tmp")]
            if MANIFEST not in others and others:
                raise OptionError(
                    f"{folder} holds other files ({others[0]}) and no run; choose an empty folder or a new name"
                )
            self._lock = _locked(folder)
        except OSError as error:
            raise _not_written(folder, error) from error
        try:
            self._begin(goes_on=bool(others))
        except BaseException:
            self.close()
            raise

    def _begin(self, *, goes_on: bool) -> None:
        """Write the manifest, or take the one that is there; sweep away what a killed process left."""
        if goes_on:
            self._take_manifest()
        try:
            if not goes_on:
                self._write_manifest()
            for left in self.folder.rglob("*.tmp"):
                left.unlink()
        except OSError as error:
            raise _not_written(self.folder, error) from error

    def _take_manifest(self) -> None:
        """Go on with the run in the folder, if it is the same job."""
        path = self.folder / MANIFEST
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
            job = held["job"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise OptionError(
                f"{path} is no manifest of a run ({error}); choose another folder, or remove it"
            ) from error
        if held.get("format") != FORMAT:
            raise OptionError(f"{path} has format {held.get('format')!r}, expected {FORMAT}; choose another folder")
        if job != self._manifest["job"]:
            raise OptionError(
                f"{self.folder} holds a run on other bodies, frames or options, or the files were changed since; "
                "choose another folder, or remove it to begin anew"
            )
        self._manifest = held

    @property
    def manifest(self) -> dict[str, Any]:
        """What was asked, and the state."""
        return dict(self._manifest)

    def done(self, table: str) -> set[int]:
        """Numbers of the parts that are there."""
        return {number for number, _ in _parts(self.folder / table)}

    def commit(self, number: int, tables: dict[str, bytes]) -> None:
        """Let a part appear; the last of its tables makes it count."""
        for table, data in tables.items():
            path = self.folder / table / f"part-{number:06d}.parquet"
            try:
                path.parent.mkdir(exist_ok=True)
                write_whole(path, data)
            except OSError as error:
                raise _not_written(path, error) from error

    def finish(self, totals: dict[str, Any]) -> None:
        """Say in the manifest that all is there."""
        if self._manifest.get("state") != "complete" or self._manifest.get("totals") != totals:
            self._manifest |= {"state": "complete", "totals": totals}
            try:
                self._write_manifest()
            except OSError as error:
                raise _not_written(self.folder, error) from error

    def close(self) -> None:
        """Let other processes open the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _write_manifest(self) -> None:
        write_whole(self.folder / MANIFEST, (json.dumps(self._manifest, indent=2) + "\n").encode())

    def read(self, table: str) -> Any:
        """All parts of a table, one after the other, as a pyarrow Table; None if there are none."""
        return read_table(self.folder, table)


def _parts(folder: Path) -> list[tuple[int, Path]]:
    found = (re.fullmatch(r"part-(\d+)\.parquet", path.name) for path in folder.glob("part-*"))
    return sorted((int(name[1]), folder / name[0]) for name in found if name)


def read_table(folder: Path, table: str) -> Any:
    """All parts of a table of a run, one after the other, as a pyarrow Table; None if there are none."""
    tables = [_read_part(path) for _, path in _parts(folder / table)]
    return parquet().concat_tables(tables) if tables else None


def _read_part(path: Path) -> Any:
    arrow = parquet()
    try:
        return arrow.parquet.read_table(path, partitioning=None)
    except (OSError, arrow.ArrowInvalid) as error:
        raise FileError(f"{path} cannot be read ({error}); remove it and run again") from error


def write_whole(path: Path, data: bytes) -> None:
    """Write beside ``path``, bring to the disk, rename."""
    part = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def _locked(folder: Path) -> int | None:
    """Keep other processes out of a folder; the lock ends with the process, however that ends. Windows has none."""
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


def _not_written(path: Path, error: OSError) -> FileError:
    return FileError(f"{path} cannot be written ({error.strerror or error}); choose a folder that may be written to")
