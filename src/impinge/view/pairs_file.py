"""Pairs of triangles as a file: csv for people and spreadsheets, npz for NumPy."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from impinge.detect.common.results import Kind, TrianglePairs
from impinge.errors import FileError
from impinge.view.targets import obstacle, write_whole

ENDINGS = (".csv", ".npz")


def check_path(path: Path) -> None:
    """Refuse a path that pairs cannot be written to, as far as can be told without writing."""
    if path.suffix.lower() not in ENDINGS:
        raise _not_written(path, f"the ending {path.suffix!r} is not known")
    reason = obstacle(path)
    if reason is not None:
        raise _not_written(path, reason)


def write(result: TrianglePairs, path: Path) -> None:
    """Write all pairs and how they meet, whole or not at all.

    csv has a line for each pair: triangle of a, triangle of b, kind. npz has ``pairs``, ``kind`` (numbers of ``Kind``)
    and ``complete``.
    """
    check_path(path)
    data = _csv(result) if path.suffix.lower() == ".csv" else _npz(result)
    try:
        write_whole(path, data)
    except OSError as error:
        raise _not_written(path, error.strerror or str(error)) from error


def _not_written(path: Path, reason: str) -> FileError:
    return FileError(f"the pairs could not be written to {path} ({reason}); choose a writable .csv or .npz file")


def _csv(result: TrianglePairs) -> bytes:
    names = {int(kind): kind.name.lower() for kind in Kind}
    lines = [f"{a},{b},{names[kind]}" for (a, b), kind in zip(result.pairs.tolist(), result.kind.tolist())]
    return ("\n".join(["triangle_a,triangle_b,kind", *lines]) + "\n").encode()


def _npz(result: TrianglePairs) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, pairs=result.pairs, kind=result.kind, complete=result.complete)
    return file.getvalue()
