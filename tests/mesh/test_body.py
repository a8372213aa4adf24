"""Whatever a caller calls a body: arrays, objects of other libraries, paths."""

import re

import numpy as np
import pytest

from impinge.errors import FileError, MeshError, MeshWarning, OptionError
from impinge.mesh.body import as_body, as_surface, load, save, weld_vertices
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh

trimesh = pytest.importorskip("trimesh")
meshio = pytest.importorskip("meshio")
pyvista = pytest.importorskip("pyvista")

VERTICES = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1], [9, 9, 9]])
"""Six points; the last is unused and must keep its number."""
TRIANGLES = np.array([[0, 1, 2], [4, 2, 1]], dtype=np.int32)
TETS = np.array([[0, 1, 2, 3], [4, 2, 1, 3]], dtype=np.int32)
QUAD = [[0, 1, 4, 2]]
CUT_QUAD = [[0, 1, 4], [0, 4, 2]]
CELL = pyvista.CellType


def check_triangles(body, faces=TRIANGLES):
    """Check for a TriMesh with all six vertices and the given faces."""
    assert type(body) is TriMesh
    np.testing.assert_array_equal(body.vertices, VERTICES)
    np.testing.assert_array_equal(body.faces, faces)


def check_tets(body):
    """Check for a TetMesh with all six vertices and both tets."""
    assert type(body) is TetMesh
    np.testing.assert_array_equal(body.vertices, VERTICES)
    np.testing.assert_array_equal(body.tets, TETS)


# arrays ------------------------------------------------------------------------------------------------------


def test_own_bodies_are_passed_through():
    """Return our own bodies themselves, a tet mesh's surface too."""
    for body in (TriMesh(VERTICES, TRIANGLES), TetMesh(VERTICES, TETS), TetMesh(VERTICES, TETS).surface):
        assert as_body(body) is body


@pytest.mark.parametrize("kind", [tuple, list])
def test_arrays(kind):
    """Take three columns for triangles and four for tets, of arrays or nested lists."""
    check_triangles(as_body(kind([VERTICES, TRIANGLES])))
    check_triangles(as_body(kind([VERTICES.tolist(), TRIANGLES.tolist()])))
    check_tets(as_body(kind([VERTICES, TETS])))


def test_empty_arrays():
    """Make an empty body of empty arrays."""
    assert len(as_body(([], []))) == 0


def test_arrays_are_copied():
    """Keep the body as it was when the caller writes into the array."""
    x = VERTICES.copy()
    body = as_body((x, TRIANGLES))
    x[:] = 0.0

    check_triangles(body)


@pytest.mark.parametrize(
    ("pair", "match"),
    [
        ((VERTICES, [[0, 1]]), r"faces have shape \(1, 2\), expected \(m, 3\)"),
        ((VERTICES, [[0, 1, 6]]), r"faces\[0\] refers to vertex 6, but there are 6 vertices"),
        ((VERTICES, [[0, 1, 2, 6]]), r"tets\[0\] refers to vertex 6, but there are 6 vertices"),
        ((VERTICES, "abc"), "elements hold strings; expected real numbers"),
        ((VERTICES, [[0, 1, 2], [0]]), "elements are ragged"),
        ((VERTICES[:, :2], TRIANGLES), r"vertices have shape \(6, 2\), expected \(n, 3\); these look like 2-D points"),
    ],
)
def test_arrays_that_are_no_body(pair, match):
    """Say what is wrong with a pair of arrays."""
    with pytest.raises(MeshError, match=match):
        as_body(pair)


@pytest.mark.parametrize("thing", [None, 5, (VERTICES,), (VERTICES, TRIANGLES, 3), VERTICES, {"v": 1}, object()])
def test_things_that_are_no_body(thing):
    """List what a body may be, and name the argument that is none."""
    with pytest.raises(MeshError, match=r"^body b is a .*; expected a TriMesh or TetMesh, a tuple .* or a path$"):
        as_body(thing, name="body b")


def test_surface_of_anything():
    """Return triangles themselves and the boundary of tets."""
    triangles, tets = TriMesh(VERTICES, TRIANGLES), TetMesh(VERTICES, TETS)

    assert as_surface(triangles) is triangles
    assert as_surface(tets) is tets.surface
    assert len(as_surface((VERTICES, TETS))) == 6


# objects of other libraries ----------------------------------------------------------------------------------


def test_trimesh():
    """Take vertices and faces of a trimesh.Trimesh as they are."""
    check_triangles(as_body(trimesh.Trimesh(VERTICES, TRIANGLES, process=False)))


@pytest.mark.parametrize("thing", [trimesh.PointCloud(VERTICES), trimesh.Scene()])
def test_trimesh_without_faces(thing):
    """Refuse clouds and scenes of trimesh."""
    with pytest.raises(MeshError, match=r"the body is a trimesh\..*; expected"):
        as_body(thing)


def test_pyvista_polydata():
    """Take triangles of a PolyData as they are, and cut its polygons in place."""
    check_triangles(as_body(pyvista.PolyData(VERTICES, np.insert(TRIANGLES, 0, 3, axis=1).reshape(-1))))
    mixed = pyvista.PolyData(VERTICES, [4, *QUAD[0], 3, *TRIANGLES[0]])
    body = as_body(mixed)

    np.testing.assert_array_equal(body.vertices, VERTICES)
    assert len(body) == 3
    np.testing.assert_array_equal(body.faces[2], TRIANGLES[0])


def test_pyvista_grid():
    """Take tets of a grid if there are any, else its polygons in order; vertices keep their numbers."""
    check_tets(as_body(pyvista.UnstructuredGrid({CELL.TETRA: TETS}, VERTICES)))
    check_tets(as_body(pyvista.UnstructuredGrid({CELL.TRIANGLE: TRIANGLES, CELL.TETRA: TETS}, VERTICES)))
    check_triangles(as_body(pyvista.UnstructuredGrid({CELL.TRIANGLE: TRIANGLES}, VERTICES)))
    cells, types = [3, *TRIANGLES[0], 2, 0, 1, 4, *QUAD[0], 4, *QUAD[0], 3, *TRIANGLES[1]], [5, 3, 9, 7, 5]
    body = as_body(pyvista.UnstructuredGrid(np.array(cells), np.array(types), VERTICES))

    check_triangles(body, [TRIANGLES[0], *CUT_QUAD, *CUT_QUAD, TRIANGLES[1]])


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: pyvista.PolyData(VERTICES, lines=[2, 0, 1]), "b has no triangles .*, only 6 points and 1 lines"),
        (lambda: pyvista.PolyData(VERTICES), "b has no triangles or tetrahedra, only 6 points"),
        (pyvista.PolyData, "b has no triangles or tetrahedra, and no points either"),
        (lambda: pyvista.UnstructuredGrid({CELL.LINE: np.array([[0, 1]])}, VERTICES), "only 6 points and 1 lines"),
        (lambda: pyvista.UnstructuredGrid({CELL.WEDGE: np.arange(6)[None]}, VERTICES), "b has 1 cells of type VTK 13"),
        (pyvista.UnstructuredGrid, "b has no triangles or tetrahedra, and no points either"),
        (lambda: pyvista.ImageData(dimensions=(2, 2, 2)), r"b is a pyvista ImageData; .* extract_surface\(\)"),
        (pyvista.MultiBlock, r"b is a pyvista\.core\.composite\.MultiBlock; expected"),
    ],
)
def test_pyvista_without_elements(make, match):
    """Say what a pyvista object holds instead of triangles or tets."""
    with pytest.raises(MeshError, match=match):
        as_body(make(), name="b")


def test_meshio():
    """Take tets of a meshio.Mesh if there are any, else triangles and quads in order."""
    check_triangles(as_body(meshio.Mesh(VERTICES, [("triangle", TRIANGLES)])))
    check_tets(as_body(meshio.Mesh(VERTICES, [("triangle", TRIANGLES), ("tetra", TETS)])))
    cells = [("quad", QUAD), ("line", [[0, 1]]), ("triangle", TRIANGLES)]

    check_triangles(as_body(meshio.Mesh(VERTICES, cells)), [*CUT_QUAD, *TRIANGLES])


def test_meshio_without_elements():
    """Say what a meshio.Mesh holds instead of triangles or tets."""
    lines = meshio.Mesh(VERTICES, [("line", [[0, 1], [1, 2]])])
    blocks = meshio.Mesh(np.zeros((8, 3)), [("hexahedron", [list(range(8))])])

    with pytest.raises(MeshError, match="the meshio mesh has no triangles or tetrahedra, only 6 points and 2 lines"):
        as_body(lines)
    with pytest.raises(MeshError, match="the meshio mesh has 1 cells of type hexahedron"):
        as_body(blocks)


# files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ply", "obj.gz", "off", "msh", "vtk", "vtu", "mesh", "glb"])
def test_paths(tmp_path, kind):
    """Save and load triangles, by path or its text, or use the path itself as a body."""
    path = tmp_path / f"mesh.{kind}"
    save((VERTICES, TRIANGLES), path)

    for body in (load(path), load(str(path)), as_body(path), as_body(str(path))):
        check_triangles(body)


def test_tets_as_files(tmp_path):
    """Save and load tets, and save their surface where a format holds no tets."""
    body = TetMesh(VERTICES, TETS)
    save(body, tmp_path / "tets.msh")
    check_tets(load(tmp_path / "tets.msh"))
    with pytest.raises(FileError, match=r"hold surfaces, not tetrahedra; save\(body\.surface, \.\.\.\)"):
        save(body, tmp_path / "tets.ply")
    save(body.surface, tmp_path / "tets.ply")

    np.testing.assert_array_equal(load(tmp_path / "tets.ply").faces, body.surface.faces)


def test_dead_elements_are_not_saved(tmp_path):
    """Write the live triangles only."""
    body = TriMesh(VERTICES, TRIANGLES)
    body.remove_triangles([0])
    save(body, tmp_path / "mesh.ply")

    check_triangles(load(tmp_path / "mesh.ply"), TRIANGLES[1:])


def test_weld_modes(tmp_path):
    """Join equal vertices of stl files by default and of others on demand; faces keep their order."""
    save((VERTICES, TRIANGLES), tmp_path / "mesh.stl")
    soup = VERTICES[TRIANGLES].reshape(-1, 3), np.arange(6).reshape(2, 3)
    save(soup, tmp_path / "mesh.ply")
    joined = [[0, 1, 2], [3, 2, 1]]

    for path, by_default in ((tmp_path / "mesh.stl", 4), (tmp_path / "mesh.ply", 6)):
        assert len(load(path).vertices) == len(load(path, weld="auto").vertices) == by_default
        for yes, no in ((True, False), (np.True_, np.False_)):
            np.testing.assert_array_equal(load(path, weld=yes).faces, joined)
            np.testing.assert_array_equal(load(path, weld=no).faces, soup[1])
    with pytest.raises(OptionError, match="weld is 'maybe', expected one of True, False, 'auto'"):
        load(tmp_path / "mesh.stl", weld="maybe")


def test_weld_joins_exactly_equal_positions():
    """Join minus zero with zero, keep the next float apart, and number by first occurrence."""
    x = np.array([[5.0, 0, 0], [0.0, 0, 0], [5.0, -0.0, 0], [np.nextafter(5.0, 6.0), 0, 0], [0, -0.0, 0]])
    vertices, faces = weld_vertices(x, np.array([[0, 1, 3], [4, 2, 3]], dtype=np.int32))

    np.testing.assert_array_equal(vertices, x[[0, 1, 3]])
    np.testing.assert_array_equal(faces, [[0, 1, 2], [1, 0, 2]])


@pytest.mark.parametrize("weld", [True, False])
def test_wrong_ids_in_a_file(tmp_path, weld):
    """Name the file and the face with a wrong id, welded or not, and leave it out on demand."""
    path = tmp_path / "wrong.obj"
    path.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 1 0\nf 1 2 3\nf 1 2 -9\nf 1 2 9\n")

    with pytest.raises(MeshError, match=r"wrong\.obj: faces\[1\] refers to vertex -5, but ids start at 0"):
        load(path, weld=weld)
    with pytest.warns(MeshWarning, match=r"left out 2 of 3 faces \(rows 1, 2\)"):
        assert len(load(path, weld=weld, validate="drop")) == 1


def test_warning_of_a_file_names_the_line_that_loads(tmp_path):
    """Let the warning point to the caller, for triangles and tets."""
    (tmp_path / "wrong.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\nf 1 2 9\n")
    meshio.Mesh(VERTICES, [("tetra", [[0, 1, 2, 3], [0, 1, 2, 9]])]).write(tmp_path / "wrong.vtk")

    for name in ("wrong.obj", "wrong.vtk"):
        with pytest.warns(MeshWarning, match="left out 1 of 2") as warned:
            load(tmp_path / name, validate="drop")
        assert warned[0].filename == __file__


@pytest.mark.parametrize("path", [3, None, b"bunny.ply", ["bunny.ply"]])
def test_path_that_is_none(path):
    """Say what a path is where something else was passed, for loading and saving."""
    for verb in (load, lambda path: save((VERTICES, TRIANGLES), path)):
        with pytest.raises(OptionError, match=f"^path is {re.escape(repr(path))}, expected the name of a mesh file"):
            verb(path)


def test_errors_of_files():
    """Let the sentences of the file reader through."""
    with pytest.raises(FileError, match="does not exist"):
        as_body("no/such/file.ply")
    with pytest.raises(FileError, match=r"has no ending, expected one of \.ply"):
        as_body("no such file")
