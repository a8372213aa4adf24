"""Queries of continuous collision detection with exact answers, from the folder of shared data.

``handcrafted``  the files of ``ccd``: every 8 rows are one query, 4 corners at the start and the same at the end; a row
                 has numerator and denominator of x, y, z and the answer. A coordinate that is no double is an error:
                 rounding it would be a different query, for which the answer need not hold.
``step``         two frames of a sequence in ``seq``, pairs of primitives and an answer for each pair. Ids count
                 vertices, then edges, then faces; edges (i, j), i < j, are sorted by j, then by i.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import impinge
from shared_data import FOLDER

HANDCRAFTED = sorted((FOLDER / "ccd").glob("*.csv.gz"))
STEPS = {
    "armadillo-rollers": ("326.ply", "327.ply", "326"),
    "cloth-ball": ("cloth_ball92.ply", "cloth_ball93.ply", "92"),
    "cloth-funnel": ("227.ply", "228.ply", "227"),
}
"""Folder of ``seq``: first frame, second frame, number in the names of pairs and answers."""

needs_handcrafted = pytest.mark.skipif(
    not HANDCRAFTED, reason="no folder ccd of queries with answers: set IMPINGE_DATA to the folder that has it"
)
needs_steps = pytest.mark.skipif(
    not all((FOLDER / "seq" / name).is_dir() for name in STEPS),
    reason="no folder seq of steps with answers: set IMPINGE_DATA to the folder that has it",
)


@dataclass(frozen=True)
class Queries:
    """Queries of one kind with their answers."""

    edges: bool
    """Two edges (a0, a1, b0, b1), else vertex and face (v, f0, f1, f2)."""
    start: np.ndarray
    """Corners at time 0, shape (n, 4, 3)."""
    end: np.ndarray
    """Corners at time 1, shape (n, 4, 3)."""
    hit: np.ndarray
    """The answers, shape (n,)."""


def fraction_rows(text: str) -> tuple[np.ndarray, list[str]]:
    """Points (rows, 3) of lines with numerator and denominator of x, y, z, and what follows on each line."""
    points, rest = [], []
    for line in text.split():
        *cells, last = line.split(",") if line.count(",") == 6 else (*line.split(","), "")
        exact = [Fraction(int(cells[i]), int(cells[i + 1])) for i in (0, 2, 4)]
        rounded = [float(x) for x in exact]
        if rounded != exact:  # Python compares float with Fraction exactly
            raise ValueError(f"{line} has a coordinate that is no double")
        points.append(rounded)
        rest.append(last)
    return np.array(points), rest


def handcrafted(path: Path) -> Queries:
    """The queries of one file of ``HANDCRAFTED``."""
    points, answers = fraction_rows(gzip.decompress(path.read_bytes()).decode())
    corners = points.reshape(-1, 2, 4, 3)
    hit = np.array(answers).reshape(-1, 8)
    if not np.isin(hit, ["0", "1"]).all() or (hit != hit[:, :1]).any():
        raise ValueError(f"{path.name} has a query without one answer on all its 8 rows")
    return Queries("edge-edge" in path.name, corners[:, 0].copy(), corners[:, 1].copy(), hit[:, 0] == "1")


def _json(folder: Path, name: str) -> np.ndarray:
    plain, packed = folder / f"{name}.json", folder / f"{name}.json.gz"
    return np.array(json.loads(plain.read_bytes() if plain.exists() else gzip.decompress(packed.read_bytes())))


def step(name: str, *, edges: bool) -> Queries:
    """The listed pairs of one step of ``STEPS``."""
    folder = FOLDER / "seq" / name
    first, second, number = STEPS[name]
    before, after = impinge.load(folder / first), impinge.load(folder / second)
    assert np.array_equal(before.faces, after.faces)
    kind = "ee" if edges else "vf"
    pairs, hit = _json(folder, f"boxes_{number}{kind}"), _json(folder, f"mma_bool_{number}{kind}")
    faces = np.asarray(before.faces, dtype=np.int64)
    vertex_count = len(before.vertices)
    lines = np.unique(np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])), axis=0)
    lines = lines[np.lexsort((lines[:, 0], lines[:, 1]))]
    if edges:
        corners = np.concatenate([lines[pairs[:, 0] - vertex_count], lines[pairs[:, 1] - vertex_count]], axis=1)
    else:
        corners = np.concatenate([pairs[:, :1], faces[pairs[:, 1] - vertex_count - len(lines)]], axis=1)
    x, y = (np.asarray(mesh.vertices, dtype=np.float64) for mesh in (before, after))
    return Queries(edges, x[corners], y[corners], hit.astype(bool))
