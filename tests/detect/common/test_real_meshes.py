"""Self-collision of real meshes against the exact counts of the shared folder's README.

The README counts after joining vertices at equal positions and dropping faces that repeat an index, and leaves
doubled faces out, which we count. Zero-area faces are not counted there, so such files are left to the oracle.
"""

from __future__ import annotations

import re

import pytest

import impinge
import oracle
import shared_data
from impinge.mesh.body import as_surface, load, weld_vertices

pytestmark = shared_data.needs_data

OTHERWISE = {"soup/fcl_rob.obj": 202}
"""The README says 172; they differ in coplanar folds over shared edges, and the rational oracle confirms 202."""


def known(row):
    """The README's count of pairs, or None where it says nothing that can be compared."""
    found = re.search(r"([\d,]+) self-intersecting pairs", row.measured)
    if "frames" in row.measured or "zero-area" in row.measured or "non-finite" in row.measured:
        return None
    if found:
        return int(found.group(1).replace(",", ""))
    return 0 if "no self-intersection" in row.measured else None


def joined(row):
    """The surface as the README counted it."""
    snapshot = as_surface(load(row.path)).snapshot()
    x, faces = weld_vertices(snapshot.vertices, snapshot.elements[snapshot.live])
    repeats = (faces[:, 0] == faces[:, 1]) | (faces[:, 1] == faces[:, 2]) | (faces[:, 2] == faces[:, 0])
    return impinge.TriMesh(x, faces[~repeats])


ROWS = [row for row in shared_data.rows() if known(row) is not None]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.file)
def test_self_pairs_of_real_meshes(row):
    """Find as many pairs as the exact counts say, and one more for each doubled face."""
    body = joined(row)
    expected = OTHERWISE.get(row.file, known(row) + impinge.validate(body).doubled_faces)

    assert len(impinge.self_pairs(body)) == expected


@pytest.mark.parametrize("file", OTHERWISE)
def test_exceptions_are_right_by_the_oracle(file):
    """Show by rational arithmetic that the count differs because ours is right."""
    body = joined(next(row for row in ROWS if row.file == file))
    x, faces = body.vertices.tolist(), body.faces.tolist()
    pairs = [(i, j) for j in range(len(faces)) for i in range(j)]
    met = sorted((i, j) for i, j in pairs if oracle.self_pair_kind(x, faces[i], faces[j]) != "none")

    assert impinge.self_pairs(body).pairs.tolist() == [list(pair) for pair in met]
