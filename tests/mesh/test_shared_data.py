"""Every shared mesh loads, and is what the README of the shared folder says it is.

The README counts vertices and faces as the file holds them, and edges and pieces after joining vertices at
equal positions; so do these tests. All rows agree; there are no exceptions.
"""

import functools

import numpy as np
import pytest

import shared_data
from impinge.errors import MeshError, MeshWarning
from impinge.io.sequence import Sequence
from impinge.mesh.body import as_surface, load, weld_vertices
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh
from impinge.mesh.validation import ValidationReport, validate

pytestmark = shared_data.needs_data
ROWS = shared_data.rows()
MESHES = [row for row in ROWS if row.path.suffix != ".npz" and row.file != "nasty/made_nan_inf.obj"]
TET_ROWS = [row for row in MESHES if row.tets]

AS_HELD = {
    "doubled faces": "doubled_faces",
    "duplicate vertices": "duplicate_vertices",
    "unused vertices": "unused_vertices",
    "unused nodes": "unused_vertices",
    "zero-area faces": "degenerate_faces",
    "faces repeat an index": "repeated_index_faces",
    "inverted tets": "inverted_tets",
}
"""Findings that are counted as the file holds them, and their names in a report."""
MERGED = {
    "boundary edges": "open_edges",
    "non-manifold edges": "nonmanifold_edges",
    "edges with clashing winding": "flipped_edges",
    "pieces": "components",
}
"""Findings that are counted after joining vertices at equal positions."""


def merged(body):
    """Return the surface with vertices at equal positions joined."""
    surface = as_surface(body)
    return TriMesh(*weld_vertices(surface.vertices, surface.faces))


@functools.cache
def reports(row) -> tuple[ValidationReport, ValidationReport]:
    """What validation finds in a mesh as the file holds it, and with vertices at equal positions joined."""
    body = load(row.path)
    return validate(body), validate(merged(body))


def is_watertight(report):
    """Whether every edge is in exactly two faces, as the README defines it."""
    return report.closed and report.nonmanifold_edges == 0


def check_findings(row, report, names):
    """Compare counts with those of the README, where a finding that is not listed counts 0 (pieces: 1)."""
    found = {finding: getattr(report, name) for finding, name in names.items()}
    expected = {finding: row.count(finding, default=int(finding == "pieces")) for finding in names}
    unused = "unused vertices" if row.tets else "unused nodes"  # the README calls vertices of tets nodes
    found.pop(unused, None)
    expected.pop(unused, None)

    assert found == expected


def test_the_table_is_complete():
    """Find all files of the folder in the table, and the other way round."""
    endings = {".ply", ".obj", ".stl", ".off", ".msh", ".vtk", ".vtu", ".npz"}
    held = {path for path in shared_data.FOLDER.rglob("*") if path.suffix.lower() in endings}

    assert held == {row.path for row in ROWS}
    assert len(ROWS) == 100


@pytest.mark.parametrize("row", MESHES, ids=str)
def test_counts(row):
    """Find as many vertices, triangles and tets as the table says, and not one vertex split or joined."""
    body = load(row.path)
    report, _ = reports(row)

    assert isinstance(body, TetMesh) == bool(row.tets)
    assert (report.vertices, report.triangles, report.tets) == (row.vertices, row.faces, row.tets)
    assert len(body) == (row.tets or row.faces)


@pytest.mark.parametrize("row", MESHES, ids=str)
def test_findings(row):
    """Report the doubled, degenerate, unused, open, clashing and inside-out as the table does."""
    as_held, joined = reports(row)

    check_findings(row, as_held, AS_HELD)
    check_findings(row, joined, MERGED)
    assert as_held.inside_out == ("inside out" in row.measured)


@pytest.mark.parametrize("row", MESHES, ids=str)
def test_watertight(row):
    """Agree on which meshes are closed, as they are or after joining vertices."""
    as_held, joined = map(is_watertight, reports(row))

    if row.watertight == "yes":
        assert as_held
    elif row.watertight == "no":
        assert not as_held
        assert not joined
    elif row.watertight == "as indexed yes; merged no":
        assert as_held
        assert not joined
    else:
        assert row.watertight == "after merging equal vertices"
        assert joined
        is_stl = row.path.suffix.lower() == ".stl"  # joined on loading
        assert as_held == is_stl


@pytest.mark.parametrize("row", [row for row in MESHES if row.path.suffix.lower() == ".stl"], ids=str)
def test_stl_welds_on_demand(row):
    """Keep three vertices per triangle with weld=False, and join the same ones with True as with auto."""
    soup, welded = load(row.path, weld=False), load(row.path, weld=True)

    assert len(soup.vertices) == 3 * row.faces
    np.testing.assert_array_equal(welded.vertices[welded.faces], soup.vertices[soup.faces])
    np.testing.assert_array_equal(welded.faces, load(row.path).faces)


@pytest.mark.parametrize("row", TET_ROWS, ids=str)
def test_tet_surfaces_look_outwards(row):
    """Orient the boundary of every tet mesh: its volume is that of the tets."""
    body = load(row.path)
    if not body.surface.adjacency.is_oriented:
        pytest.skip("the boundary is not orientable as a whole")

    np.testing.assert_allclose(body.surface.volume, body.volume, rtol=1e-9)


def test_spot_is_not_split_at_its_seams():
    """Keep the 2930 vertices of a textured OBJ file, closed (a loader that follows texture ids has 3225)."""
    spot = load(shared_data.FOLDER / "closed/spot.obj")

    assert (len(spot.vertices), spot.is_closed) == (2930, True)


def test_far_tiny_stays_exact():
    """Read coordinates that collapse in float32 to the last bit."""
    x = load(shared_data.FOLDER / "nasty/made_far_tiny.off").vertices

    assert len(np.unique(x, axis=0)) == 8
    assert len(np.unique(x.astype(np.float32), axis=0)) < 8


def test_nan_is_refused_with_a_sentence():
    """Name the first vertex of the file that is not finite, and leave its faces out on demand."""
    path = shared_data.FOLDER / "nasty/made_nan_inf.obj"

    with pytest.raises(
        MeshError, match=r"made_nan_inf\.obj: vertices\[2\] is \[nan, 1, 0\] \(and 1 more\); all .*finite"
    ):
        load(path)
    with pytest.warns(MeshWarning, match=r"left out \d+ of 12 faces .* 2 non-finite vertices moved to the origin"):
        assert 0 < len(load(path, validate="drop")) < 12


def test_cow_sequence():
    """Read 120 frames of one closed body from an archive."""
    (row,) = [row for row in ROWS if row.path.suffix == ".npz"]
    frames = Sequence(row.path)
    report = validate(TriMesh(frames.frame(0), frames.elements))

    assert len(frames) == row.count(r"frames, [\d-]+ self-intersecting pairs per frame") == 120
    assert (report.vertices, report.triangles) == (row.vertices, row.faces)
    assert is_watertight(report)
    assert all(vertices.shape == (row.vertices, 3) and np.isfinite(vertices).all() for _, vertices in frames)
    duplicates = [validate(TriMesh(frames.frame(i), frames.elements)).duplicate_vertices for i in (0, 60, 119)]
    assert duplicates[0] == row.count("duplicate vertices")


@pytest.mark.parametrize("folder", ["armadillo-rollers", "cloth-ball", "cloth-funnel", "thick-cloth"])
def test_step_pairs_are_sequences(folder):
    """Read each folder of frames as one sequence of one topology, past the answers that lie beside them."""
    frames = Sequence(shared_data.FOLDER / "seq" / folder)

    assert len(frames) == sum(f"seq/{folder}/" in row.file for row in ROWS)
    assert len([vertices for _, vertices in frames]) == len(frames)


def test_cubes_of_both_windings_are_no_sequence():
    """Name the frame whose faces are wound the other way: the README calls its cubes inside out."""
    with pytest.raises(
        MeshError, match=r"two-cubes-far\.ply has other elements .* \(row 0 is \[39, 11, 55\], expected"
    ):
        list(Sequence(shared_data.FOLDER / "seq" / "two-cubes"))
