"""Triangle pairs as a file: csv for spreadsheets, npz for NumPy."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from impinge.detect.common.results import Kind, TrianglePairs
from impinge.view.output_files import OutputFile

PAIRS_FILE = OutputFile("pairs", ".csv or .npz", (".csv", ".npz"))


def write(result: TrianglePairs, path: Path) -> None:
    """Write all pairs and their kinds atomically.

    A csv file has one line per pair: triangle of a, triangle of b, name of the kind. An npz file has ``pairs``,
    ``kind`` (values of ``Kind``) and ``complete``.
    """
    file = io.BytesIO()
    if path.suffix.lower() == ".csv":
        names = {int(kind): kind.name.lower() for kind in Kind}
        rows = [f"{a},{b},{names[kind]}" for (a, b), kind in zip(result.pairs.tolist(), result.kind.tolist())]
        file.write(("\n".join(["triangle_a,triangle_b,kind", *rows]) + "\n").encode())
    else:
        np.savez_compressed(file, pairs=result.pairs, kind=result.kind, complete=result.complete)
    PAIRS_FILE.write(path, file.getvalue())
