"""Mesh files: round trips keep all bits, and invalid files raise one message."""

import contextlib
import gzip
import io
import json
import os
import re
import struct
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from impinge.errors import FileError, MeshError
from impinge.io import files
from impinge.io.files import SURFACE_KINDS, VOLUME_KINDS, read_mesh, write_mesh
from impinge.mesh.body import as_body

trimesh = pytest.importorskip("trimesh")
meshio = pytest.importorskip("meshio")

VERTICES = np.random.default_rng(7).normal(size=(6, 3)) * [1.0, 1e-7, 1e9]
"""Six points, the last unused, with coordinates that need all digits of a float64."""
TRIANGLES = np.array([[0, 1, 2], [0, 2, 3], [4, 2, 1], [3, 4, 0]], dtype=np.int32)
TETS = np.array([[0, 1, 2, 3], [4, 1, 2, 3]], dtype=np.int32)
WRITTEN = [kind for kind in SURFACE_KINDS + VOLUME_KINDS if kind != "gltf"]
EXACT = [kind for kind in WRITTEN if kind not in ("stl", "glb")]
MESHIO = {"msh": meshio.gmsh, "vtk": meshio.vtk, "vtu": meshio.vtu, "mesh": meshio.medit}


def read(folder, name, data):
    """Write text or bytes to a file and read it as a mesh."""
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return read_mesh(path)


def refused(folder, name, data, *, match, error=FileError):
    """Check that a file is refused with one message that names it."""
    with pytest.raises(error, match=match) as raised:
        read(folder, name, data)
    text = str(raised.value)
    assert name in text
    assert "\n" not in text
    return text


def written(tmp_path, kind, elements=TRIANGLES):
    """Return the bytes of a small mesh in some format."""
    path = tmp_path / f"whole.{kind}"
    write_mesh(path, VERTICES, elements)
    return path.read_bytes()


def ply_text(faces="3 0 1 2\n", *, vertex_count=3, face_count=1, form="ascii", coordinate="float"):
    """Return a PLY header with three vertices and the given faces."""
    return (
        f"ply\nformat {form} 1.0\ncomment made by hand\nelement vertex {vertex_count}\nproperty {coordinate} x\n"
        f"property {coordinate} y\nproperty {coordinate} z\nelement face {face_count}\n"
        "property list uchar int vertex_indices\nend_header\n"
    ) + (f"0.1 0 0\n1 0 0\n0 1 0\n{faces}" if form == "ascii" else "")


# round trips -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("kind", EXACT)
def test_triangles_come_back_bit_for_bit(tmp_path, kind, packed):
    """Write triangles, read them, and find every bit, the unused vertex too."""
    path = tmp_path / f"mesh.{kind}{packed}"
    write_mesh(path, VERTICES, TRIANGLES)
    content = read_mesh(path)

    np.testing.assert_array_equal(content.vertices, VERTICES)
    np.testing.assert_array_equal(content.elements, TRIANGLES)
    assert content.indexed
    assert content.vertices.dtype == np.float64
    assert content.elements.dtype == np.int32
    assert content.elements.flags.c_contiguous


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("kind", VOLUME_KINDS)
def test_tets_come_back_bit_for_bit(tmp_path, kind, packed):
    """Write tetrahedra, read them, and find every bit."""
    path = tmp_path / f"mesh.{kind}{packed}"
    write_mesh(path, VERTICES, TETS)
    content = read_mesh(path)

    np.testing.assert_array_equal(content.vertices, VERTICES)
    np.testing.assert_array_equal(content.elements, TETS)


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_glb_rounds_to_float32(tmp_path, packed):
    """Read back a glb file with coordinates rounded to float32 and all else unchanged."""
    path = tmp_path / f"mesh.glb{packed}"
    write_mesh(path, VERTICES, TRIANGLES)
    content = read_mesh(path)

    np.testing.assert_array_equal(content.vertices, VERTICES.astype(np.float32))
    np.testing.assert_array_equal(content.elements, TRIANGLES)


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_stl_gives_each_triangle_its_own_vertices(tmp_path, packed):
    """Read back an stl file as separate triangles, rounded to float32, with no vertex ids to rely on."""
    path = tmp_path / f"mesh.stl{packed}"
    write_mesh(path, VERTICES, TRIANGLES)
    content = read_mesh(path)

    np.testing.assert_array_equal(content.vertices, VERTICES.astype(np.float32)[TRIANGLES].reshape(-1, 3))
    np.testing.assert_array_equal(content.elements, np.arange(12).reshape(4, 3))
    assert not content.indexed


@pytest.mark.parametrize("value", [5e-324, 1e-308, 0.1, 1 / 3, -1.7976931348623157e308, np.pi])
@pytest.mark.parametrize("kind", EXACT)
def test_extreme_coordinates_survive(tmp_path, kind, value):
    """Keep the smallest, the largest and the crooked float64."""
    path = tmp_path / f"mesh.{kind}"
    x = np.array([[value, 0.0, -0.0], [1.0, 0.0, 0.0], [0.0, 1.0, value]])
    write_mesh(path, x, [[0, 1, 2]])

    np.testing.assert_array_equal(read_mesh(path).vertices, x)


def test_endings_are_read_in_any_case(tmp_path):
    """Take MESH.PLY.GZ for a packed ply file."""
    write_mesh(tmp_path / "MESH.PLY.GZ", VERTICES, TRIANGLES)

    assert gzip.decompress((tmp_path / "MESH.PLY.GZ").read_bytes()).startswith(b"ply")
    np.testing.assert_array_equal(read_mesh(tmp_path / "MESH.PLY.GZ").vertices, VERTICES)


def test_packed_files_are_the_same_every_time(tmp_path):
    """Leave the time of day out of gz files."""
    write_mesh(tmp_path / "a.off.gz", VERTICES, TRIANGLES)
    write_mesh(tmp_path / "b.off.gz", VERTICES, TRIANGLES)

    assert (tmp_path / "a.off.gz").read_bytes() == (tmp_path / "b.off.gz").read_bytes()


@pytest.mark.parametrize("kind", SURFACE_KINDS[:5])
def test_other_libraries_read_what_we_write(tmp_path, kind):
    """Let trimesh find the same triangles in our files."""
    write_mesh(tmp_path / f"mesh.{kind}", VERTICES, TRIANGLES)
    mesh = trimesh.load(tmp_path / f"mesh.{kind}", process=False)

    mesh = mesh.to_mesh() if kind == "glb" else mesh
    np.testing.assert_allclose(mesh.triangles, VERTICES[TRIANGLES], rtol=1e-6)


@pytest.mark.parametrize("elements", [TRIANGLES, TETS])
@pytest.mark.parametrize("kind", VOLUME_KINDS)
def test_meshio_reads_what_we_write(tmp_path, kind, elements):
    """Let meshio find every bit in our files."""
    write_mesh(tmp_path / f"mesh.{kind}", VERTICES, elements)
    with contextlib.redirect_stderr(io.StringIO()):
        mesh = MESHIO[kind].read(str(tmp_path / f"mesh.{kind}"))

    np.testing.assert_array_equal(mesh.points, VERTICES)
    np.testing.assert_array_equal(mesh.cells[0].data, elements)
    assert [block.type for block in mesh.cells] == ["tetra" if elements is TETS else "triangle"]


# what files may look like ------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["little", "big"])
def test_binary_ply_with_mixed_polygons(tmp_path, order):
    """Read binary PLY of either byte order whose faces are triangles, quads and pentagons with colours."""
    mark = "<" if order == "little" else ">"
    header = (
        f"ply\r\nformat binary_{order}_endian 1.0\r\nelement vertex 5\r\nproperty double x\r\nproperty double y\r\n"
        "property double z\r\nproperty uchar red\r\nelement face 3\r\nproperty uchar red\r\n"
        "property list uchar uint vertex_index\r\nproperty list uchar float texcoord\r\n"
        "element edge 1\r\nproperty int vertex1\r\nend_header\r\n"
    ).encode()
    body = b"".join(struct.pack(f"{mark}3dB", *x, 9) for x in VERTICES[:5])
    for polygon in ([0, 1, 2], [1, 2, 3, 4], [4, 3, 2, 1, 0]):
        body += struct.pack(f"{mark}BB{len(polygon)}IB2f", 7, len(polygon), *polygon, 2, 0.5, 0.5)
    content = read(tmp_path, "mixed.ply", header + body + struct.pack(f"{mark}i", 3))

    np.testing.assert_array_equal(content.vertices, VERTICES[:5])
    expected = [[0, 1, 2], [1, 2, 3], [1, 3, 4], [4, 3, 2], [4, 2, 1], [4, 1, 0]]
    np.testing.assert_array_equal(content.elements, expected)


def test_text_ply_keeps_all_digits_and_the_order_of_faces(tmp_path):
    """Read text PLY in double precision, whatever its header says, with polygons cut in place."""
    content = read(tmp_path, "text.ply", ply_text("4 0 1 2 0\n3 2 1 0\n", face_count=2))

    assert content.vertices[0, 0] == 0.1
    np.testing.assert_array_equal(content.elements, [[0, 1, 2], [0, 2, 0], [2, 1, 0]])


def test_text_ply_with_words_around_its_numbers(tmp_path):
    """Pass over a comment in any language and whatever follows the last face.

    The second byte of Å in UTF-8 is a line break to Python's strings; such a comment was taken for two lines.
    """
    data = ply_text().replace("made by hand", "made by Åsa") + "the end\n"

    np.testing.assert_array_equal(read(tmp_path, "words.ply", data).elements, [[0, 1, 2]])


def test_text_ply_ids_that_are_fractions(tmp_path):
    """Refuse ids and lengths of lists that are no whole numbers, in faces of one size or mixed."""
    match = r"faces\[\d, 1\] is 1.5; vertex ids are whole numbers"
    refused(tmp_path, "a.ply", ply_text("4 0 1.5 2 0\n"), match=match, error=MeshError)
    mixed = ply_text("3 0 1 2\n4 0 1.5 2 0\n", face_count=2)
    refused(tmp_path, "b.ply", mixed, match=match, error=MeshError)
    refused(tmp_path, "c.ply", ply_text("3.5 0 1 2\n"), match="declares 1 rows of face, but holds 0")


def test_obj_vertices_are_not_split_at_texture_seams(tmp_path):
    """Keep the vertices of an OBJ file that has seams, materials, groups, comments and unused vertices."""
    text = (
        "mtllib none.mtl\no a b\nv 0 0 0 1.0 # origin\nv 1 0 0 0.5 0.5 0.5\nv 0 1 0\n v\t0 0 1\nv 9 9 9\n"
        "vt 0 0\nvt 1 1\nvn 0 0 1\ng first\nusemtl red\ns off\nf 1/1/1 2/2/1 3/1/1\nusemtl blue\n"
        "f 1//1 3//1 4//1 # seam\nusemtl red\nf 1/2 4/2 \\\n2/1\nf -5 -4 -3 -2\nl 1 2\np 1\n"
    )
    content = read(tmp_path, "seams.obj", text)

    expected = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [9, 9, 9]]
    np.testing.assert_array_equal(content.vertices, expected)
    np.testing.assert_array_equal(content.elements, [[0, 1, 2], [0, 2, 3], [0, 3, 1], [0, 1, 2], [0, 2, 3]])


def test_negative_obj_ids_count_back_from_their_line(tmp_path):
    """Resolve -1 as the last vertex before the face, not the last of the file."""
    content = read(tmp_path, "back.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf -3 -2 -1\nv 0 0 1\nf -4 -2 -1\n")

    np.testing.assert_array_equal(content.elements, [[0, 1, 2], [0, 2, 3]])


@pytest.mark.parametrize(
    "head", ["OFF\n4 2 0\n", "OFF 4 2 5\n", "# made\nOFF # by hand\n\n4 2 # counts\n", "COFF\n4 2 0\n"]
)
def test_off_headers(tmp_path, head):
    """Read the usual spellings of an OFF header, with comments, colours and polygons."""
    body = "0 0 0 255 0 0 255\n1 0 0\n\n1 1 0 # corner\n0 1 0\n4 0 1 2 3 0.5 0.5 0.5\n3 2 1 0\n"
    content = read(tmp_path, "mesh.off", head + body)

    np.testing.assert_array_equal(content.vertices, [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    np.testing.assert_array_equal(content.elements, [[0, 1, 2], [0, 2, 3], [2, 1, 0]])


def test_text_stl_with_two_solids(tmp_path):
    """Read all solids of a text STL file, in double precision."""
    facet = "facet normal 0 0 1\n outer loop\n  vertex 0.1 0 0\n  vertex 1E0 0 0\n  vertex 0 1 0\n endloop\nendfacet\n"
    content = read(tmp_path, "two.stl", f"solid a\n{facet}endsolid a\nSOLID b\n{facet}{facet}ENDSOLID b\n")

    assert content.vertices.shape == (9, 3)
    assert content.vertices[0, 0] == 0.1


def test_binary_stl_that_begins_with_solid(tmp_path):
    """Tell binary from text by its length, for many binary files begin with the word solid."""
    data = b"solid".ljust(80) + written(tmp_path, "stl")[80:]

    assert len(read(tmp_path, "named.stl", data).elements) == 4


@pytest.mark.parametrize("start", [b"impinge", b"solid"])
def test_binary_stl_with_bytes_behind_its_triangles(tmp_path, start):
    """Pass over what follows the counted triangles, as in every format."""
    data = start.ljust(80) + written(tmp_path, "stl")[80:]

    assert len(read(tmp_path, "padded.stl", data + b"\0").elements) == 4
    assert len(read(tmp_path, "padded.stl", data + b"exported by some program\n" * 9).elements) == 4


def gmsh1(elements, *, node_count=5, element_count=None):
    """Return a Gmsh 1 file with five nodes, numbered 50, 40, 30, 20, 10."""
    nodes = "".join(f"{50 - 10 * i} {x!r} {y!r} {z!r}\n" for i, (x, y, z) in enumerate(VERTICES[:5].tolist()))
    count = len(elements) if element_count is None else element_count
    rows = "".join(f"{i + 1} {row}\n" for i, row in enumerate(elements))
    return f"$NOD\n{node_count}\n{nodes}$ENDNOD\n$ELM\n{count}\n{rows}$ENDELM\n"


def test_gmsh_1_tets(tmp_path):
    """Read tets of a Gmsh 1 file by the numbers of its nodes, and leave its boundary triangles out."""
    rows = ["15 1 1 1 50", "2 1 1 3 50 40 30", "4 1 1 4 50 40 30 20", "1 1 1 2 10 20", "4 1 1 4 10 40 30 20"]
    content = read(tmp_path, "old.msh", gmsh1(rows))

    np.testing.assert_array_equal(content.vertices, VERTICES[:5])
    np.testing.assert_array_equal(content.elements, TETS)


def test_gmsh_1_surface(tmp_path):
    """Read triangles and quads of a Gmsh 1 file in order."""
    content = read(tmp_path, "old.msh", gmsh1(["3 1 1 4 50 40 30 20", "2 1 1 3 10 20 30"]))

    np.testing.assert_array_equal(content.elements, [[0, 1, 2], [0, 2, 3], [4, 3, 2]])


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("version", ["2.2", "4.0", "4.1"])
def test_gmsh_versions(tmp_path, version, binary):
    """Read what meshio writes as Gmsh 2 and 4, in text and binary."""
    with contextlib.redirect_stderr(io.StringIO()):
        meshio.gmsh.write(str(tmp_path / "mesh.msh"), meshio.Mesh(VERTICES, [("tetra", TETS)]), version, binary=binary)
    content = read_mesh(tmp_path / "mesh.msh")

    np.testing.assert_array_equal(content.vertices, VERTICES)
    np.testing.assert_array_equal(content.elements, TETS)


def scene(kind):
    """Return a glTF scene: a triangle, the same moved by a parent, and mirrored; and some points."""
    triangle = trimesh.Trimesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]], process=False)
    made = trimesh.Scene()
    made.add_geometry(triangle, geom_name="t", node_name="plain")
    made.graph.update("parent", matrix=trimesh.transformations.translation_matrix([10, 0, 0]))
    up = trimesh.transformations.translation_matrix([0, 0, 5])
    made.graph.update("moved", frame_from="parent", matrix=up, geometry="t")
    made.graph.update("mirrored", matrix=np.diag([-1.0, 1, 1, 1]), geometry="t")
    made.add_geometry(trimesh.PointCloud([[7.0, 7.0, 7.0]]), node_name="points")
    return made.export(file_type=kind)


EXPECTED_SCENE = {
    (((0, 0, 0), (1, 0, 0), (0, 1, 0))),
    (((10, 0, 5), (11, 0, 5), (10, 1, 5))),
    (((0, 1, 0), (-1, 0, 0), (0, 0, 0))),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["glb", "gltf"])
def test_scenes_are_put_together(tmp_path, kind, packed):
    """Put each mesh of a scene where its nodes say, and keep the outside of a mirrored one outside."""
    parts = scene(kind)
    parts = {"model.glb": parts} if kind == "glb" else parts
    for name, data in parts.items():
        (tmp_path / name).write_bytes(data)
    path = tmp_path / f"model.{kind}"
    if packed:
        path = tmp_path / f"model.{kind}.gz"
        path.write_bytes(gzip.compress((tmp_path / f"model.{kind}").read_bytes()))
    content = read_mesh(path)

    found = {tuple(tuple(map(float, x)) for x in content.vertices[row]) for row in content.elements}
    assert found == EXPECTED_SCENE


def test_nan_and_wrong_ids_pass_through(tmp_path):
    """Leave NaN and ids out of range to the checks of the bodies."""
    content = read(tmp_path, "odd.obj", "v nan 0 inf\nv 1 0 0\nv 0 1 0\nf 1 2 99\nf 1 2 -9\n")

    assert np.isnan(content.vertices[0, 0])
    np.testing.assert_array_equal(content.elements, [[0, 1, 98], [0, 1, -6]])


@pytest.mark.parametrize("kind", EXACT)
def test_nan_is_read_from_every_format(tmp_path, kind):
    """Read NaN and infinity where a file holds them."""
    x = np.array([[np.nan, 0.0, np.inf], [1.0, 0.0, 0.0], [0.0, 1.0, -np.inf]])
    write_mesh(tmp_path / f"nan.{kind}", x, [[0, 1, 2]])

    np.testing.assert_array_equal(read_mesh(tmp_path / f"nan.{kind}").vertices, x)


# files that are no meshes ------------------------------------------------------------------------------------


def test_missing_file(tmp_path):
    """Say that a file does not exist."""
    with pytest.raises(FileError, match=r"none\.ply does not exist, expected a \.ply file; check the path"):
        read_mesh(tmp_path / "none.ply")


def test_folder(tmp_path):
    """Say that a path is a folder, whether or not its name ends like a file's."""
    (tmp_path / "folder.ply").mkdir()
    (tmp_path / "folder").mkdir()

    with pytest.raises(
        FileError, match=r"folder is a folder, expected a file that ends in one of \.ply, .*; name a file"
    ):
        read_mesh(tmp_path / "folder")

    with pytest.raises(FileError, match=r"is a folder, device or pipe, expected a \.ply file"):
        read_mesh(tmp_path / "folder.ply")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names on this system")
def test_pipe(tmp_path):
    """Refuse a pipe, which would be waited for without end."""
    os.mkfifo(tmp_path / "pipe.ply")

    with pytest.raises(FileError, match="is a folder, device or pipe"):
        read_mesh(tmp_path / "pipe.ply")


@pytest.mark.parametrize("kind", SURFACE_KINDS + VOLUME_KINDS)
def test_empty_file(tmp_path, kind):
    """Say that a file is empty, packed or not."""
    refused(tmp_path, f"empty.{kind}", b"", match=f"is empty, expected a .{kind} mesh")
    refused(tmp_path, f"empty.{kind}.gz", gzip.compress(b""), match=f"is empty, expected a .{kind} mesh")


def test_unreadable_file(tmp_path, monkeypatch):
    """Say that a file may not be read."""

    def deny(_):
        raise PermissionError(13, "Permission denied")

    (tmp_path / "secret.ply").write_bytes(b"ply")
    monkeypatch.setattr(Path, "read_bytes", deny)

    with pytest.raises(FileError, match=r"cannot be opened \(PermissionError: Permission denied\); check the path"):
        read_mesh(tmp_path / "secret.ply")


def test_impossible_path():
    """Refuse a path that no system can have."""
    with pytest.raises(FileError, match="cannot be opened"):
        read_mesh(Path("a\0b.ply"))


@pytest.mark.parametrize("name", ["mesh.docx", "mesh.docx.gz", "mesh", "mesh.gz"])
def test_unknown_ending(tmp_path, name):
    """List the known endings where one is unknown or missing, for reading and writing."""
    listed = re.escape(", ".join(f".{kind}" for kind in SURFACE_KINDS + VOLUME_KINDS)) + ", each also with .gz"

    with pytest.raises(FileError, match=f"ending.*, expected one of {listed}"):
        read_mesh(tmp_path / name)
    with pytest.raises(FileError, match=f"ending.*, expected one of {listed}"):
        write_mesh(tmp_path / name, VERTICES, TRIANGLES)


@pytest.mark.parametrize(
    "junk", [b"hello, world\n", bytes(range(256)) * 3, b"\x00", b"\xff\xfe" * 100, b"<html></html>"]
)
@pytest.mark.parametrize("kind", SURFACE_KINDS + VOLUME_KINDS)
def test_bytes_that_are_no_mesh(tmp_path, kind, junk, capfd):
    """Refuse bytes that are no mesh, in silence."""
    refused(
        tmp_path, f"junk.{kind}", junk, match=f"not a .{kind} file|cannot be read as a .{kind}|declares|no line End"
    )

    assert capfd.readouterr() == ("", "")


def test_damaged_gzip(tmp_path):
    """Say that a gz file is none, or is truncated."""
    packed = gzip.compress(written(tmp_path, "ply"))

    refused(tmp_path, "a.ply.gz", b"ply\n", match="cannot be unpacked as gzip")
    refused(tmp_path, "b.ply.gz", packed[:-20], match="cannot be unpacked as gzip")
    refused(tmp_path, "c.ply.gz", packed[:30] + b"xxxx" + packed[34:], match="cannot be unpacked as gzip")


@pytest.mark.parametrize(
    "kind", [*WRITTEN, "22.msh", "41.msh", "42.vtk", "text.vtu", "text.stl", "text.ply", "old.msh"]
)
def test_no_cut_goes_unnoticed(tmp_path, kind, capfd):
    """Return a file that is truncated whole (only its last line break is gone) or not at all."""
    path = tmp_path / f"whole.{kind}"
    mesh = meshio.Mesh(VERTICES, [("triangle", TRIANGLES)])
    corners = "".join("vertex {} {} {}\n" * 3 for _ in TRIANGLES).format(*VERTICES[TRIANGLES].reshape(-1))
    make = {
        "22.msh": lambda: meshio.gmsh.write(str(path), mesh, "2.2", binary=False),
        "41.msh": lambda: meshio.gmsh.write(str(path), mesh, "4.1", binary=False),
        "42.vtk": lambda: meshio.vtk.write(str(path), mesh, "4.2", binary=False),
        "text.vtu": lambda: meshio.vtu.write(str(path), mesh, binary=False),
        "text.stl": lambda: path.write_text(
            "solid s\n" + re.sub(r"((?:vertex.*\n){3})", r"facet normal 0 0 0\n\1endfacet\n", corners) + "endsolid\n"
        ),
        "text.ply": lambda: path.write_text(ply_text("3 0 1 2\n4 0 1 2 0\n", face_count=2)),
        "old.msh": lambda: path.write_text(gmsh1(["4 1 1 4 50 40 30 20", "4 1 1 4 10 40 30 20"])),
    }
    make.get(kind, lambda: write_mesh(path, VERTICES, TRIANGLES))()
    whole, data = read_mesh(path), path.read_bytes()
    capfd.readouterr()
    accepted = 0
    for size in range(1, len(data), 1 if len(data) < 600 else 3):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # as users run it, not as pytest does
                content = read(tmp_path, f"cut.{kind}", data[:size])
        except (FileError, MeshError):
            continue
        accepted += 1
        if kind != "obj":
            np.testing.assert_array_equal(content.vertices, whole.vertices)
            np.testing.assert_array_equal(content.elements, whole.elements)

    assert accepted <= (20 if kind == "obj" else 3)
    assert capfd.readouterr() == ("", "")


# headers that promise too much -------------------------------------------------------------------------------

HUGE = 10**12


@pytest.mark.parametrize("form", ["ascii", "binary_little_endian"])
@pytest.mark.parametrize(("vertex_count", "face_count"), [(HUGE, 1), (3, HUGE), (10**30, 0)])
def test_ply_that_declares_the_moon(tmp_path, form, vertex_count, face_count):
    """Refuse counts that the file cannot hold; memory for them is never allocated."""
    data = ply_text(vertex_count=vertex_count, face_count=face_count, form=form)

    refused(tmp_path, "moon.ply", data, match=r"declares \d+ rows of (vertex|face), but holds \d;")


def test_ply_that_declares_one_more(tmp_path):
    """Refuse a PLY file with one face less than promised, of one size or mixed."""
    refused(tmp_path, "one.ply", ply_text(face_count=2), match="declares 2 rows of face, but holds 1")
    mixed = ply_text("3 0 1 2\n4 0 1 2 0\n", face_count=3)
    refused(tmp_path, "two.ply", mixed, match="declares 3 rows of face, but holds 2")
    binary = written(tmp_path, "ply").replace(b"face 4", b"face 5")
    refused(tmp_path, "bin.ply", binary, match="declares 5 rows of face, but holds 4")


def test_ply_list_that_is_longer_than_the_file(tmp_path):
    """Refuse a face that claims more corners than there are numbers."""
    header = ply_text(form="binary_little_endian", vertex_count=0).replace("list uchar", "list uint").encode()

    refused(tmp_path, "long.ply", header + struct.pack("<I3i", 2**32 - 1, 0, 1, 2), match="declares 1 rows of face")
    refused(tmp_path, "text.ply", ply_text("200 0 1 2\n"), match="declares 1 rows of face, but holds 0")
    refused(tmp_path, "less.ply", ply_text("-3 0 1 2\n"), match="declares 1 rows of face, but holds 0")


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("format ascii 1.0", "format utf8 1.0", "without a known format"),
        ("format ascii 1.0\n", "", "without a known format"),
        ("vertex 3", "vertex -3", "header line 'element vertex -3'"),
        ("property float x", "property bool x", "cannot be read as a .ply mesh"),
        ("property float z\n", "", "no element vertex with the properties x, y, z"),
        ("end_header\n", "", "without end_header"),
    ],
)
def test_ply_header_that_is_wrong(tmp_path, old, new, match):
    """Quote the line of a PLY header that is wrong."""
    refused(tmp_path, "head.ply", ply_text().replace(old, new), match=match)


@pytest.mark.parametrize(("counts", "what"), [(f"{HUGE} 1", "vertices"), (f"3 {HUGE}", "faces"), ("3 2", "faces")])
def test_off_that_declares_too_much(tmp_path, counts, what):
    """Refuse an OFF file with fewer lines than promised."""
    data = f"OFF\n{counts} 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"

    refused(tmp_path, "moon.off", data, match=rf"declares \d+ {what}, but holds \d")


def test_off_line_that_is_cut(tmp_path):
    """Refuse a vertex of two coordinates, a face that lacks corners, and negative counts."""
    refused(tmp_path, "a.off", "OFF\n3 1 0\n0 0 0\n1 0\n0 1 0\n3 0 1 2\n", match="declares 3 vertices, but holds 2")
    refused(tmp_path, "b.off", "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1\n", match="declares 1 faces, but holds 0")
    refused(tmp_path, "c.off", "OFF\n-3 1 0\n0 0 0\n", match="declares -3 vertices")


def test_stl_that_declares_too_much(tmp_path):
    """Refuse a binary STL file whose length does not fit its count."""
    data = written(tmp_path, "stl")

    refused(
        tmp_path,
        "moon.stl",
        data[:80] + b"\xff\xff\xff\xff" + data[84:],
        match="declares 4294967295 triangles in 21474",
    )
    refused(tmp_path, "cut.stl", data[:-1], match="declares 4 triangles in 284 bytes, but has 283")


@pytest.mark.parametrize("missing", ["endsolid s\n", "endfacet\n", "vertex 0 1 0\n"])
def test_text_stl_that_is_cut(tmp_path, missing):
    """Refuse a text STL file that lacks an end or a corner."""
    corners = "vertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\n"
    text = f"solid s\nfacet normal 0 0 1\nouter loop\n{corners}endloop\nendfacet\nendsolid s\n"
    assert len(read(tmp_path, "whole.stl", text).elements) == 1

    refused(tmp_path, "cut.stl", text.replace(missing, ""), match="endsolid|declares 1 facets|2 corners in 1 facets")


@pytest.mark.parametrize("faces", ["f 1 2 0\n", "f 0/1 1/2 2/3\n", "f 1 2 3\nf 1 2 3 0\n"])
def test_obj_id_of_zero(tmp_path, faces):
    """Refuse ids that were counted from 0, in the words of OBJ."""
    face = faces.count("f")
    match = rf"^face {face} of .*zero\.obj refers to vertex 0; OBJ counts from 1, add 1 to every id$"
    refused(tmp_path, "zero.obj", f"v 0 0 0\nv 1 0 0\nv 0 1 0\n{faces}", match=match)


def test_obj_line_that_is_cut(tmp_path):
    """Refuse an OBJ vertex of two coordinates and a face of two corners."""
    refused(tmp_path, "v.obj", "v 0 0 0\nv 1 0\nf 1 2 3\n", match="2 coordinates at vertex 1, expected 3")
    refused(tmp_path, "f.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\nf 1 2\n", match="2 corners at face 1, expected 3")


@pytest.mark.parametrize("version", ["4.2", "5.1"])
@pytest.mark.parametrize("section", ["POINTS", "CELLS", "CELL_TYPES"])
def test_vtk_that_declares_too_much(tmp_path, section, version):
    """Refuse a legacy VTK file with fewer points or cells than promised."""
    with contextlib.redirect_stderr(io.StringIO()):
        mesh = meshio.Mesh(VERTICES, [("triangle", TRIANGLES)])
        meshio.vtk.write(str(tmp_path / "a.vtk"), mesh, version, binary=False)
    text = (tmp_path / "a.vtk").read_text()
    more = re.sub(rf"{section} (\d+)", lambda found: f"{section} {int(found[1]) + 1}", text)
    assert more != text

    refused(tmp_path, "more.vtk", more, match="cannot be read as a .vtk mesh|declares")


def test_vtk_cells_of_unknown_type(tmp_path):
    """Refuse a VTK file with cells that are neither polygons nor tets, by their name."""
    text = (
        "# vtk DataFile Version 5.1\nstrip\nASCII\nDATASET UNSTRUCTURED_GRID\n"
        "POINTS 4 double\n0 0 0 1 0 0 0 1 0 1 1 0\n"
        "CELLS 3 7\nOFFSETS vtktypeint64\n0 3 7\nCONNECTIVITY vtktypeint64\n0 1 2 0 1 2 3\nCELL_TYPES 2\n5\n6\n"
    )

    refused(tmp_path, "strip.vtk", text, match="has 1 cells of type triangle_strip, expected", error=MeshError)


def test_vtu_of_several_pieces(tmp_path):
    """Concatenate the pieces of a vtu file; an id of the first piece cannot refer to the second."""
    data = written(tmp_path, "vtu").decode()
    piece = re.search("<Piece.*</Piece>", data, re.DOTALL)[0]
    content = read(tmp_path, "two.vtu", data.replace(piece, piece + piece))

    np.testing.assert_array_equal(content.vertices, [*VERTICES, *VERTICES])
    np.testing.assert_array_equal(content.elements, [*TRIANGLES, *TRIANGLES + 6])

    text = '<VTKFile type="UnstructuredGrid"><UnstructuredGrid>{0}{0}</UnstructuredGrid></VTKFile>'.format(
        '<Piece NumberOfPoints="3" NumberOfCells="1"><Points><DataArray type="Float64" NumberOfComponents="3">'
        '0 0 0 1 0 0 0 1 0</DataArray></Points><Cells><DataArray type="Int32" Name="connectivity">0 1 3</DataArray>'
        '<DataArray type="Int32" Name="offsets">3</DataArray><DataArray type="UInt8" Name="types">5</DataArray>'
        "</Cells></Piece>"
    )
    np.testing.assert_array_equal(read(tmp_path, "odd.vtu", text).elements, [[0, 1, -1], [3, 4, -1]])


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("version", ["2.2", "4.0", "4.1"])
@pytest.mark.parametrize("section", ["Nodes", "Elements"])
def test_msh_that_declares_too_much(tmp_path, version, binary, section):
    """Refuse a Gmsh file whose section counts one more than it holds."""
    path = tmp_path / "a.msh"
    with contextlib.redirect_stderr(io.StringIO()):
        meshio.gmsh.write(str(path), meshio.Mesh(VERTICES, [("triangle", TRIANGLES)]), version, binary=binary)
    data = path.read_bytes()
    count = 6 if section == "Nodes" else 4
    at = data.index(f"${section}\n".encode()) + len(section) + 2
    if binary and version != "2.2":
        assert struct.unpack_from("<2Q", data, at) == (1, count)
        data = data[: at + 8] + struct.pack("<Q", count + 1) + data[at + 16 :]
    else:
        start = f"{count}\n" if version == "2.2" else f"1 {count}"
        assert data[at:].startswith(start.encode())
        data = data[:at] + start.replace(str(count), str(count + 1)).encode() + data[at + len(start) :]

    refused(tmp_path, "more.msh", data, match=rf"declares {count + 1}|no \$End{section} where its section ends")


def test_gmsh_1_that_declares_too_much(tmp_path):
    """Refuse a Gmsh 1 file with fewer nodes or elements than promised, or no end."""
    row = "2 1 1 3 50 40 30"
    refused(tmp_path, "n.msh", gmsh1([row], node_count=6), match="declares 6 nodes, but holds 5")
    refused(tmp_path, "e.msh", gmsh1([row], element_count=HUGE), match=f"declares {HUGE} elements, but holds 1")
    refused(tmp_path, "c.msh", gmsh1([row, "2 1 1 3 50 40"]), match="declares 2 elements, but holds 1")
    refused(tmp_path, "end.msh", gmsh1([row]).replace("$ENDELM\n", ""), match=r"no complete section \$ELM ... \$ENDELM")


def test_gmsh_1_node_that_is_not_listed(tmp_path):
    """Pass an unknown node on as vertex -1, which the bodies refuse."""
    content = read(tmp_path, "odd.msh", gmsh1(["2 1 1 3 50 40 99", "2 1 1 3 5 40 30"]))

    np.testing.assert_array_equal(content.elements, [[0, 1, -1], [-1, 1, 2]])


def test_mesh_without_end(tmp_path):
    """Refuse a medit file that lacks its last word, for whole sections may be missing."""
    data = written(tmp_path, "mesh").replace(b"End", b"")

    refused(tmp_path, "cut.mesh", data, match="has no line End")


def test_glb_that_declares_too_much(tmp_path):
    """Refuse a glb file that is shorter than it says."""
    refused(tmp_path, "cut.glb", written(tmp_path, "glb")[:-4], match=r"declares \d+ bytes, but has \d+")


@pytest.mark.parametrize("change", ["sparse", "no view", "normalized"])
def test_gltf_with_accessors_that_are_not_supported(tmp_path, change):
    """Refuse compressed and sparse positions, which would be read as zeros, and normalised float32."""
    for name, data in scene("gltf").items():
        (tmp_path / name).write_bytes(data)
    tree = json.loads((tmp_path / "model.gltf").read_bytes())
    primitive = tree["meshes"][0]["primitives"][0]
    accessor = tree["accessors"][primitive["attributes"]["POSITION"]]
    if change == "no view":
        del accessor["bufferView"]
    else:
        accessor[change] = True

    refused(tmp_path, "model.gltf", json.dumps(tree), match="compressed, sparse or normalised")


def test_gltf_without_its_buffer(tmp_path):
    """Refuse a gltf file whose binary part is missing."""
    refused(
        tmp_path, "model.gltf", scene("gltf")["model.gltf"], match=r"buffer_\d\.bin', expected a regular file below"
    )


# files without elements --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data", "held"),
    [
        ("a.obj", "v 0 0 0\nv 1 0 0\nl 1 2\n", "2 points and 1 lines"),
        ("a.off", "OFF\n2 1 0\n0 0 0\n1 0 0\n2 0 1\n", "2 points and 1 lines"),
        ("a.ply", ply_text("0 1\n", face_count=1).replace("face", "edge").replace("list uchar int", "int"), "3 points"),
        ("b.ply", ply_text("", face_count=0), "3 points"),
        ("a.stl", b"".ljust(84, b"\0"), "no points"),
        ("b.stl", "solid\nendsolid\n", "no points"),
        ("a.msh", gmsh1(["1 1 1 2 50 40", "15 1 1 1 50"]), "5 points and 1 lines"),
        ("a.mesh", "MeshVersionFormatted 2\nDimension 3\nVertices\n1\n0 0 0 1\nEnd\n", "1 points"),
    ],
)
def test_points_and_lines_only(tmp_path, name, data, held):
    """Say what a file holds instead of triangles."""
    if name == "a.ply":
        data = data.replace("0 1\n", "5\n")

    refused(tmp_path, name, data, match=f"has no triangles or tetrahedra, (only|and) {held}", error=MeshError)


@pytest.mark.parametrize("kind", VOLUME_KINDS)
def test_lines_only_of_meshio(tmp_path, kind):
    """Say what a file of meshio holds instead of triangles."""
    mesh = meshio.Mesh(VERTICES, [("line", np.array([[0, 1], [1, 2]]))])
    MESHIO[kind].write(str(tmp_path / f"lines.{kind}"), mesh)

    with pytest.raises(MeshError, match="no triangles or tetrahedra, only 6 points and 2 lines"):
        read_mesh(tmp_path / f"lines.{kind}")


def test_points_only_glb(tmp_path):
    """Say what a scene of points holds."""
    data = trimesh.Scene([trimesh.PointCloud([[0.0, 0, 0], [1, 1, 1]])]).export(file_type="glb")

    refused(tmp_path, "points.glb", data, match="no triangles or tetrahedra, only 2 points", error=MeshError)


# meshio objects ----------------------------------------------------------------------------------------------


def test_meshio_blocks_keep_their_order():
    """Cut quads and polygons in place between triangles, and put plane points at z = 0."""
    cells = [("triangle", [[0, 1, 2]]), ("quad", [[0, 1, 2, 3]]), ("line", [[0, 1]]), ("triangle", [[3, 2, 1]])]
    body = as_body(meshio.Mesh(VERTICES[:, :2], cells))

    np.testing.assert_array_equal(body.faces, [[0, 1, 2], [0, 1, 2], [0, 2, 3], [3, 2, 1]])
    np.testing.assert_array_equal(body.vertices[:, 2], 0.0)


def test_meshio_tets_come_first():
    """Take the tets of all blocks where there are any, and leave triangles out."""
    cells = [("tetra", TETS[:1]), ("triangle", TRIANGLES), ("tetra", TETS[1:])]

    np.testing.assert_array_equal(as_body(meshio.Mesh(VERTICES, cells)).tets, TETS)


@pytest.mark.parametrize(("kind", "corners"), [("hexahedron", 8), ("wedge", 6), ("tetra10", 10), ("triangle6", 6)])
def test_meshio_cells_that_would_be_lost(kind, corners):
    """Refuse cells that are neither polygons nor linear tets, also beside tets."""
    cells = [("tetra", TETS), (kind, np.zeros((2, corners), dtype=int))]

    with pytest.raises(MeshError, match=f"mesh has 2 cells of type {kind}, expected triangles, .* convert such cells"):
        as_body(meshio.Mesh(VERTICES, cells))


def test_ids_beyond_int32():
    """Refuse ids that would wrap around to valid ones."""
    mesh = meshio.Mesh(VERTICES, [("triangle", np.array([[0, 1, 2**32 + 2]]))])

    with pytest.raises(MeshError, match=r"the meshio mesh: faces\[0, 2\] is 4294967298, but ids are int32"):
        as_body(mesh)


# optional packages -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", WRITTEN)
def test_formats_need_no_package(tmp_path, monkeypatch, kind):
    """Read and write all formats with NumPy alone."""
    monkeypatch.setitem(sys.modules, "trimesh", None)
    monkeypatch.setitem(sys.modules, "meshio", None)
    write_mesh(tmp_path / f"mesh.{kind}", VERTICES, TRIANGLES)

    assert len(read_mesh(tmp_path / f"mesh.{kind}").elements) == 4


# writing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ply", "obj", "stl", "off", "glb"])
def test_tets_do_not_fit_surface_formats(tmp_path, kind):
    """Point to the surface where a format holds no tets."""
    with pytest.raises(FileError, match=rf"\.{kind} files hold surfaces, not tetrahedra; save\(body.surface, ...\)"):
        write_mesh(tmp_path / f"tets.{kind}", VERTICES, TETS)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", WRITTEN)
@pytest.mark.parametrize("columns", [3, 4])
def test_nothing_is_not_written(tmp_path, kind, columns):
    """Refuse to write a file that could not be loaded again."""
    with pytest.raises(FileError, match=rf"empty\.{kind}: the body has no triangles or tetrahedra, .*skip it"):
        write_mesh(tmp_path / f"empty.{kind}", VERTICES, np.zeros((0, columns), dtype=np.int32))

    assert list(tmp_path.iterdir()) == []


def test_gltf_is_not_written(tmp_path):
    """Point to glb, which is one file."""
    with pytest.raises(FileError, match=r"save as \.glb"):
        write_mesh(tmp_path / "mesh.gltf", VERTICES, TRIANGLES)


@pytest.mark.parametrize("kind", ["stl", "glb"])
def test_coordinates_too_large_for_float32(tmp_path, kind):
    """Refuse to write infinity where float32 overflows."""
    with pytest.raises(FileError, match=f"1e\\+200 does not fit the float32 of .{kind} files; save as .ply"):
        write_mesh(tmp_path / f"large.{kind}", [[1e200, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])


def test_folder_that_cannot_be_written(tmp_path):
    """Say that a folder is missing, or is a file, or that the name is a folder's."""
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.ply").mkdir()

    with pytest.raises(FileError, match=r"cannot be written .*; choose a folder that exists and may be written to"):
        write_mesh(tmp_path / "missing" / "mesh.ply", VERTICES, TRIANGLES)
    with pytest.raises(FileError, match="cannot be written"):
        write_mesh(tmp_path / "file" / "mesh.ply", VERTICES, TRIANGLES)
    with pytest.raises(FileError, match="cannot be written"):
        write_mesh(tmp_path / "folder.ply", VERTICES, TRIANGLES)


def test_write_protected_file(tmp_path, monkeypatch):
    """Leave a write-protected file alone."""
    path = tmp_path / "mesh.ply"
    path.write_bytes(b"precious")
    monkeypatch.setattr(os, "access", lambda *_: False)

    with pytest.raises(FileError, match="is write-protected"):
        write_mesh(path, VERTICES, TRIANGLES)
    assert path.read_bytes() == b"precious"


@pytest.mark.parametrize("kind", ["ply", "vtk"])
def test_failed_write_leaves_the_old_file(tmp_path, monkeypatch, kind):
    """Keep the old file, and no remains, when the disk is full or the writer fails."""
    path = tmp_path / f"mesh.{kind}"
    write_mesh(path, VERTICES, TRIANGLES)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(FileError, match="No space left on device"):
        write_mesh(path, VERTICES + 1.0, TRIANGLES)
    monkeypatch.setitem(files._ENCODERS, kind, full)
    with pytest.raises(FileError, match=f"cannot be written as .{kind}"):
        write_mesh(path, VERTICES + 1.0, TRIANGLES)

    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name == "nt", reason="links need special rights")
def test_links_are_written_through(tmp_path):
    """Write to the file that a link points to, and keep the link."""
    (tmp_path / "real.ply").write_bytes(b"old")
    (tmp_path / "link.ply").symlink_to(tmp_path / "real.ply")
    write_mesh(tmp_path / "link.ply", VERTICES, TRIANGLES)

    assert (tmp_path / "link.ply").is_symlink()
    assert len(read_mesh(tmp_path / "real.ply").elements) == 4
