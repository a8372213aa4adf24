"""The validation report: each counter on the smallest mesh that shows it."""

import dataclasses
import json

import numpy as np
import pytest

import impinge
from impinge.mesh import shapes
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh
from impinge.mesh.validation import validate

CORNER = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
OUTWARDS = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
COUNTERS = (
    "open_edges",
    "nonmanifold_edges",
    "flipped_edges",
    "degenerate_faces",
    "repeated_index_faces",
    "doubled_faces",
    "duplicate_vertices",
    "unused_vertices",
    "inverted_tets",
    "flat_tets",
)


def counted(body) -> dict[str, int]:
    """The counters that are not zero, after checking what holds of every report."""
    report = validate(body)
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False)) == report.to_dict()
    assert set(report.first) == {name for name in COUNTERS if getattr(report, name)}
    if any(getattr(report, name) for name in COUNTERS):
        assert not report.clean
    return {name: getattr(report, name) for name in COUNTERS if getattr(report, name)}


def test_a_clean_surface_is_clean():
    """Count nothing on a closed surface that faces outwards."""
    report = validate(TriMesh(CORNER, OUTWARDS))

    assert report.clean
    assert (report.kind, report.vertices, report.triangles, report.tets) == ("triangles", 4, 4, 0)
    assert (report.closed, report.oriented, report.inside_out, report.components) == (True, True, False, 1)
    assert report.first == {}
    assert counted(TriMesh(CORNER, OUTWARDS)) == {}


def test_a_clean_tet_mesh_is_clean():
    """Count nothing on a box of tets, and report its boundary."""
    report = validate(shapes.tet_box(2, 2, 2))

    assert report.clean
    assert (report.kind, report.vertices, report.triangles, report.tets) == (
        "tets",
        27,
        48,
        len(shapes.tet_box(2, 2, 2)),
    )


@pytest.mark.parametrize(
    ("vertices", "faces", "expected", "first"),
    [
        (CORNER[:3], [[0, 1, 2]], {"open_edges": 3}, {"open_edges": [0, 1]}),
        (CORNER, [[0, 1, 2], [0, 3, 1]], {"open_edges": 4}, {"open_edges": [0, 2]}),
        (
            np.vstack([CORNER, [[1.0, 1.0, 1.0]]]),
            [[0, 1, 2], [1, 0, 3], [0, 1, 4]],
            {"open_edges": 6, "nonmanifold_edges": 1},
            {"open_edges": [0, 2], "nonmanifold_edges": [0, 1]},
        ),
        (
            CORNER,
            [[0, 1, 2], [0, 1, 3]],
            {"open_edges": 4, "flipped_edges": 1},
            {"open_edges": [0, 2], "flipped_edges": [0, 1]},
        ),
        (
            [[0.0, 0.0, 0.0], [1.0, 2.0, 3.0], [2.0, 4.0, 6.0]],
            [[0, 1, 2]],
            {"open_edges": 3, "degenerate_faces": 1},
            {"open_edges": [0, 1], "degenerate_faces": [0]},
        ),
        (
            CORNER,
            [*OUTWARDS.tolist(), [1, 2, 2]],
            {"degenerate_faces": 1, "repeated_index_faces": 1},
            {"degenerate_faces": [4], "repeated_index_faces": [4]},
        ),
        (
            CORNER[:3],
            [[0, 1, 2], [1, 2, 0]],
            {"flipped_edges": 3, "doubled_faces": 1},
            {"flipped_edges": [0, 1], "doubled_faces": [1]},
        ),
        (CORNER[:3], [[0, 1, 2], [2, 1, 0]], {"doubled_faces": 1}, {"doubled_faces": [1]}),
        (
            CORNER[:3],
            [[0, 1, 2], [2, 1, 0], [1, 0, 2]],
            {"nonmanifold_edges": 3, "doubled_faces": 2},
            {"nonmanifold_edges": [0, 1], "doubled_faces": [1]},
        ),
        (
            np.vstack([CORNER, [[5.0, 5.0, 5.0]]]),
            OUTWARDS,
            {"unused_vertices": 1},
            {"unused_vertices": [4]},
        ),
        (
            np.vstack([CORNER, CORNER[1:2], CORNER[1:2]]),
            OUTWARDS,
            {"duplicate_vertices": 2, "unused_vertices": 2},
            {"duplicate_vertices": [4], "unused_vertices": [4]},
        ),
    ],
    ids=[
        "one triangle",
        "two triangles",
        "three on an edge",
        "two that disagree",
        "a line",
        "a repeated index",
        "doubled",
        "doubled and reversed",
        "trebled",
        "an unused vertex",
        "duplicate vertices",
    ],
)
def test_each_counter_on_a_mesh_made_for_it(vertices, faces, expected, first):
    """Count exactly what is wrong with a mesh made by hand, and name the first of each."""
    mesh = TriMesh(vertices, faces)

    assert counted(mesh) == expected
    assert validate(mesh).first == first


def test_minus_zero_is_zero():
    """Count two vertices that differ in the sign of zero as duplicates."""
    x = np.vstack([CORNER, [[-0.0, 0.0, -0.0]]])

    assert validate(TriMesh(x, OUTWARDS)).duplicate_vertices == 1


def test_three_vertices_at_one_point_are_degenerate():
    """Count a triangle that is one point as degenerate without dividing by its size."""
    report = validate(TriMesh(np.ones((3, 3)), [[0, 1, 2]]))

    assert (report.degenerate_faces, report.repeated_index_faces, report.duplicate_vertices) == (1, 0, 2)


def test_an_inside_out_surface_is_not_clean():
    """Report a closed surface that faces inwards and has no other defect."""
    report = validate(TriMesh(CORNER, OUTWARDS[:, ::-1]))

    assert report.inside_out
    assert (report.closed, report.oriented, report.clean) == (True, True, False)
    assert counted(TriMesh(CORNER, OUTWARDS[:, ::-1])) == {}


def test_open_surfaces_are_oriented_or_not():
    """Call an open surface oriented unless neighbours disagree, and never clean or inside out."""
    cloth = shapes.cloth_grid(2, 2)
    faces = cloth.faces.copy()
    report = validate(cloth)
    faces[3] = faces[3, ::-1]
    turned = validate(TriMesh(cloth.vertices, faces))

    assert (report.closed, report.oriented, report.inside_out, report.clean) == (False, True, False, False)
    assert (turned.oriented, turned.flipped_edges > 0) == (False, True)


@pytest.mark.parametrize(("turned", "oriented"), [((), False), ((1,), True), ((1, 2), True)])
def test_three_triangles_on_an_edge(turned, oriented):
    """Call three triangles on one edge oriented if they walk along it in both directions."""
    x = np.array([[0, 0, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0], [-1, -1, 0]], dtype=float)
    faces = np.array([[1, 0, k] if k - 2 in turned else [0, 1, k] for k in (2, 3, 4)])

    assert validate(TriMesh(x, faces)).oriented is oriented


def test_closed_is_not_oriented():
    """Report a closed surface with one flipped face, which has no volume."""
    faces = OUTWARDS.copy()
    faces[3] = faces[3, ::-1]
    report = validate(TriMesh(CORNER, faces))

    assert (report.closed, report.oriented, report.inside_out, report.flipped_edges) == (True, False, False, 3)


def test_components_hang_together_by_vertices():
    """Count two pieces as one when they share a vertex, and as two when only positions are equal."""
    mirrored = np.vstack([CORNER, -CORNER[1:]])
    touching = np.vstack([OUTWARDS, np.array([0, 4, 5, 6])[OUTWARDS][:, ::-1]])
    apart = np.vstack([OUTWARDS, OUTWARDS + 4])

    assert validate(TriMesh(mirrored, touching)).components == 1
    report = validate(TriMesh(np.vstack([CORNER, CORNER]), apart))
    assert (report.components, report.duplicate_vertices) == (2, 4)
    assert report.closed


def test_removed_triangles_do_not_count():
    """Count live triangles only, and name defects by their stable ids."""
    mesh = TriMesh(CORNER, [[0, 0, 0], *OUTWARDS.tolist(), [1, 1, 2]])
    mesh.remove_triangles([0])

    report = validate(mesh)
    assert (report.triangles, report.degenerate_faces) == (5, 1)
    assert report.first["degenerate_faces"] == [5]
    mesh.remove_triangles([5])
    assert validate(mesh).clean
    mesh.remove_triangles([1])
    assert counted(mesh) == {"open_edges": 3}


@pytest.mark.parametrize("scale", [1e-60, 1e-9, 1e9, 1e60])
@pytest.mark.parametrize(
    "make", [lambda: shapes.cad_part((2, 1)), lambda: shapes.tet_box(2, 1, 1)], ids=["part", "tets"]
)
def test_nothing_depends_on_scale(make, scale):
    """Give the same report for a body of any size, thin triangles included."""
    body = make()
    expected = validate(body)
    body.update(body.vertices * scale)

    assert validate(body) == expected
    assert expected.clean


def test_inverted_tets_are_the_minority():
    """Count tets wound the other way than most, whichever way most are wound."""
    x = np.vstack([CORNER, CORNER + 3.0, CORNER + 6.0])
    right = np.arange(12).reshape(3, 4)
    left = right[:, [0, 2, 1, 3]]

    for most, few in ((right, left), (left, right)):
        assert validate(TetMesh(x, most)).clean
        mesh = TetMesh(x, [most[0], few[1], most[2]])
        assert counted(mesh) == {"inverted_tets": 1}
        assert validate(mesh).first == {"inverted_tets": [1]}
        assert validate(mesh).oriented


def test_flat_tets_are_not_inverted():
    """Count a tet without volume as flat, and not as inverted too."""
    x = np.vstack([CORNER, [[1.0, 1.0, 0.0], [1.0, 1.0, 1e-20]]])
    report = validate(TetMesh(x, [[0, 1, 2, 3], [0, 1, 2, 4], [2, 1, 0, 5]]))

    assert (report.flat_tets, report.inverted_tets) == (2, 0)
    assert report.first["flat_tets"] == [1]


def test_unused_vertices_of_a_tet_mesh_are_those_of_no_tet():
    """Count vertices that no tet uses, not those that the boundary does not."""
    inner = shapes.tet_box(2, 2, 2)
    assert len(inner.surface.used_vertices) == 26

    assert validate(inner).unused_vertices == 0
    x = np.vstack([inner.vertices, [[9.0, 9.0, 9.0]]])
    assert counted(TetMesh(x, inner.tets)) == {"unused_vertices": 1}


def test_a_deformed_tet_mesh_reports_inverted_tets():
    """Count tets that an update turned inside out."""
    mesh = shapes.tet_box(2, 2, 2)
    x = mesh.vertices.copy()
    x[0] = x.mean(axis=0) * 3.0 - x[0] * 2.0
    mesh.update(x)

    report = validate(mesh)
    assert report.inverted_tets > 0
    assert report.oriented


@pytest.mark.parametrize("make", [lambda: TriMesh([], []), lambda: TetMesh([], []), lambda: TriMesh(CORNER, [])])
def test_empty_bodies_have_reports(make):
    """Report on bodies without elements: nothing is closed, and nothing is counted but unused vertices."""
    body = make()
    report = validate(body)

    assert (report.triangles, report.tets, report.components, report.closed, report.clean) == (0, 0, 0, False, False)
    assert report.vertices == report.unused_vertices == len(body.vertices)
    assert set(counted(body)) <= {"unused_vertices"}


def test_reports_are_frozen_and_public():
    """Give the report under the public name, and refuse to change it."""
    report = impinge.validate(TriMesh(CORNER, OUTWARDS))

    assert report == validate(TriMesh(CORNER, OUTWARDS))
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.open_edges = 1


def test_every_number_of_the_report_is_tested_here():
    """Keep the list of counters in these tests complete."""
    names = {field.name for field in dataclasses.fields(validate(TriMesh([], [])))}

    assert names == {
        *COUNTERS,
        *("kind", "vertices", "triangles", "tets", "closed", "oriented", "inside_out", "components", "first"),
    }


def test_first_inverted_tet_is_named_by_its_id():
    """Name a tet by its id where earlier tets are dead."""
    body = shapes.tet_box(2, 1, 1)
    tets = np.array(body.tets)
    tets[3] = tets[3, [1, 0, 2, 3]]
    flipped = impinge.TetMesh(body.vertices, tets)
    flipped.remove_tets([0])

    assert validate(flipped).first["inverted_tets"] == [3]


@pytest.mark.parametrize("scale", [1e-200, 1e-150, 1.0, 1e150])
def test_flat_tets_are_flat_in_any_unit(scale):
    """Count flat tets by their shape, not their size."""
    body = shapes.tet_box(1, 1, 1)
    flat = np.array(body.vertices)
    flat[:, 2] = 0.0

    assert validate(impinge.TetMesh(scale * np.array(body.vertices), body.tets)).flat_tets == 0
    assert validate(impinge.TetMesh(scale * flat, body.tets)).flat_tets == 5


def test_whatever_is_a_body_is_validated(tmp_path):
    """Take arrays, objects of other libraries and paths, as every other function does."""
    trimesh = pytest.importorskip("trimesh")
    body = TriMesh(CORNER, OUTWARDS)
    impinge.save(body, tmp_path / "corner.ply")

    for thing in ((CORNER, OUTWARDS), trimesh.Trimesh(CORNER, OUTWARDS, process=False), tmp_path / "corner.ply"):
        assert validate(thing) == validate(body)
    assert validate((CORNER, [[0, 1, 2, 3]])).kind == "tets"
    with pytest.raises(impinge.MeshError, match="expected a TriMesh or TetMesh"):
        validate(3)
