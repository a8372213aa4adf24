"""Files made for attacks: each is refused at once, and none reads what it should not."""

from __future__ import annotations

import base64
import gzip
import io
import json
import lzma
import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz_process import fuzz, needs_limits

import impinge
from impinge.errors import FileError, ImpingeError, MeshError, OptionError
from impinge.io.files import read_mesh, write_mesh
from impinge.io.npz import read_npz
from impinge.io.packed import ALWAYS, VARIABLE, unpack_limit

X = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
FACES = np.array([[0, 1, 2]], dtype=np.int32)
BODY = X.astype("<f4").tobytes()
LIMIT = rf"unpacks to more than the limit of [0-9,]+; set {VARIABLE} to a larger number of bytes if you trust it"


def refused(folder: Path, name: str, data: str | bytes, match: str, error: type[ImpingeError] = FileError) -> None:
    """Write a file and demand that reading it raises."""
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(error, match=match):
        read_mesh(folder / name)


# gltf buffers ------------------------------------------------------------------------------------------------


def gltf(uri: str, *, length: int = len(BODY), nodes: Any = None, **changes: Any) -> str:
    """A scene of four points and two triangles in a strip, whose buffer is ``uri``."""
    tree = {
        "asset": {"version": "2.0"},
        "nodes": [{"mesh": 0}] if nodes is None else nodes,
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "mode": 5}]}],
        "buffers": [{"uri": uri, "byteLength": length}],
        "bufferViews": [{"buffer": 0, "byteLength": len(BODY)}],
        "accessors": [{"bufferView": 0, "componentType": 5126, "type": "VEC3", "count": 4}],
    }
    return json.dumps(tree | changes)


DATA_URI = "data:application/octet-stream;base64," + base64.b64encode(BODY).decode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of a mesh; a secret lies beside it."""
    (tmp_path / "secret.bin").write_bytes(BODY)
    made = tmp_path / "mesh"
    made.mkdir()
    return made


@pytest.mark.parametrize(
    "uri", ["../secret.bin", "%2e%2e/secret.bin", "{above}/secret.bin", "a/../../secret.bin", "link.bin",
            "linked/secret.bin", "/dev/zero", "pipe.bin", ".", "missing.bin", "file:///etc/passwd", "..\\secret.bin",
            "a\0b"]
)  # fmt: skip
def test_gltf_reads_no_other_file(folder, uri):
    """Refuse buffers outside of the folder of the mesh, by any spelling or link, and pipes, devices and folders."""
    (folder / "link.bin").symlink_to(folder.parent / "secret.bin")
    (folder / "linked").symlink_to(folder.parent)
    os.mkfifo(folder / "pipe.bin")

    match = "expected a regular file below its folder|cannot be read as a .gltf mesh"
    refused(folder, "a.gltf", gltf(uri.format(above=folder.parent)), match)


def test_gltf_reads_files_below_its_folder(folder):
    """Read a buffer below the folder, also by a link within it, and a mesh that is named by a link's folder."""
    (folder / "parts").mkdir()
    (folder / "parts" / "b c.bin").write_bytes(BODY)
    (folder / "near.bin").symlink_to(folder / "parts" / "b c.bin")
    (folder.parent / "other").symlink_to(folder)
    for uri in ("parts/b%20c.bin", "parts/b c.bin", "./near.bin"):
        (folder / "a.gltf").write_text(gltf(uri))
        np.testing.assert_array_equal(read_mesh(folder / "a.gltf").vertices, X)
        np.testing.assert_array_equal(read_mesh(folder.parent / "other" / "a.gltf").elements, [[0, 1, 2], [1, 3, 2]])


def test_gltf_reads_as_much_as_it_declares(folder):
    """Compare ``byteLength`` with the file, and views with ``byteLength``: bytes behind it are not for this mesh."""
    (folder / "b.bin").write_bytes(BODY)

    refused(folder, "a.gltf", gltf("b.bin", length=10**15), "declares 1000000000000000 bytes, but has 48")
    refused(folder, "a.gltf", gltf(DATA_URI, length=49), "declares 49 bytes, but has 48")
    refused(folder, "a.gltf", gltf("b.bin", length=47), "declares 4 elements of 12 bytes .* but its buffer has 47")


@pytest.mark.parametrize(
    "accessor",
    [
        {"count": 5}, {"count": -1}, {"count": 10**18}, {"count": 1.5}, {"count": True}, {"byteOffset": -12},
        {"byteOffset": 4}, {"bufferView": -1}, {"bufferView": 1}, {"componentType": 5130}, {"type": "VEC4"},
        {"count": None},
    ],
)  # fmt: skip
def test_gltf_accessors_stay_in_their_buffer(folder, accessor):
    """Refuse counts, offsets and indices that leave the buffer, negative ones too."""
    plain = {"bufferView": 0, "componentType": 5126, "type": "VEC3", "count": 4}

    refused(folder, "a.gltf", gltf(DATA_URI, accessors=[plain | accessor]), "declares|cannot be read|unpacks")


@pytest.mark.parametrize("stride", [0, 4, 11, 17, -12])
def test_gltf_strides_stay_in_their_buffer(folder, stride):
    """Refuse rows that overlap or leave the view."""
    views = [{"buffer": 0, "byteLength": len(BODY), "byteStride": stride}]

    refused(folder, "a.gltf", gltf(DATA_URI, bufferViews=views), "declares|cannot be read as a .gltf mesh")


def test_gltf_nodes_that_are_no_tree(folder):
    """Refuse nodes in a circle and nodes with two parents."""
    circle = [{"children": [1]}, {"children": [0]}, {"children": [0]}]
    shared = [{"children": [2]}, {"children": [2]}, {"mesh": 0}]

    for nodes in (circle, shared):
        data = gltf(DATA_URI, nodes=nodes, scenes=[{"nodes": [0, 1]}])
        refused(folder, "a.gltf", data, "two parents, expected a tree")


def test_gltf_ids_beyond_their_mesh(folder):
    """Refer to no vertex of another mesh: ids beyond the positions become -1, which the bodies refuse."""
    ids = base64.b64encode(bytes([0, 1, 4])).decode()
    data = gltf(
        DATA_URI, nodes=[{"mesh": 0}, {"mesh": 0}],
        meshes=[{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1}]}],
        buffers=[{"uri": DATA_URI, "byteLength": 48}, {"uri": f"data:;base64,{ids}", "byteLength": 3}],
        bufferViews=[{"buffer": 0, "byteLength": 48}, {"buffer": 1, "byteLength": 3}],
        accessors=[{"bufferView": 0, "componentType": 5126, "type": "VEC3", "count": 4},
                   {"bufferView": 1, "componentType": 5121, "type": "SCALAR", "count": 3}],
    )  # fmt: skip
    (folder / "a.gltf").write_text(data)

    np.testing.assert_array_equal(read_mesh(folder / "a.gltf").elements, [[0, 1, -1], [4, 5, -1]])
    with pytest.raises(MeshError):
        impinge.load(folder / "a.gltf")


def test_gltf_that_repeats_a_mesh(folder):
    """Limit the vertices that instances of one mesh become, as packed bytes are limited."""
    body = np.zeros((20_000, 3), dtype="<f4").tobytes()
    count = 3000  # 24 bytes a vertex: 1.4 GB from 0.4 MB
    data = gltf(
        "data:;base64," + base64.b64encode(body).decode(), length=len(body), nodes=[{"mesh": 0}] * count,
        bufferViews=[{"buffer": 0, "byteLength": len(body)}],
        accessors=[{"bufferView": 0, "componentType": 5126, "type": "VEC3", "count": 20_000}],
    )  # fmt: skip

    refused(folder, "a.gltf", data, LIMIT)


@pytest.mark.parametrize("step", [-1, 1])
def test_gltf_buffers_that_repeat_a_file(folder, step):
    """Limit what buffers become that read one file again, each a little less or more of it."""
    size, count = 200_000, 200
    (folder / "large.bin").write_bytes(bytes(size))
    lengths = range(size - count, size)[::step]
    data = gltf(
        "",
        buffers=[{"uri": "large.bin", "byteLength": length} for length in lengths],
        bufferViews=[{"buffer": i, "byteLength": len(BODY)} for i in range(count)],
        accessors=[{"bufferView": i, "componentType": 5126, "type": "VEC3", "count": 4} for i in range(count)],
        meshes=[{"primitives": [{"attributes": {"POSITION": i}, "mode": 5} for i in range(count)]}],
    )

    refused(folder, "a.gltf", data, LIMIT)


def test_gltf_that_repeats_nothing(folder):
    """Limit primitives without a vertex, which cost time."""
    empty = [{"bufferView": 0, "componentType": 5126, "type": "VEC3", "count": 0}]
    meshes = [{"primitives": [{"attributes": {"POSITION": 0}}] * 2000}]
    data = gltf(DATA_URI, nodes=[{"mesh": 0}] * 2000, accessors=empty, meshes=meshes)

    refused(folder, "a.gltf", data, LIMIT)


@pytest.mark.parametrize("mode", [4, 5, 6])
def test_gltf_agrees_with_trimesh(folder, mode):
    """Find the triangles that trimesh finds, moved by nested nodes; trimesh drops fans."""
    trimesh = pytest.importorskip("trimesh")
    nodes = [
        {"children": [1], "translation": [1, 2, 3], "rotation": [0, 0, 0.6, 0.8], "scale": [1, 2, 3]},
        {"mesh": 0, "matrix": [1, 0, 0, 0, 0, 0, 1, 0, 0, -1, 0, 0, 5, 6, 7, 1]},
    ]
    x = np.random.default_rng(3).normal(size=(6, 3)).astype("<f4")
    data = gltf(
        "data:application/octet-stream;base64," + base64.b64encode(x.tobytes()).decode(), length=x.nbytes, nodes=nodes,
        scene=0, scenes=[{"nodes": [0]}], meshes=[{"primitives": [{"attributes": {"POSITION": 0}, "mode": mode}]}],
        bufferViews=[{"buffer": 0, "byteLength": x.nbytes}],
        accessors=[{"bufferView": 0, "componentType": 5126, "type": "VEC3", "count": 6}],
    )  # fmt: skip
    (folder / "a.gltf").write_text(data)
    found = read_mesh(folder / "a.gltf")
    if mode == 6:
        np.testing.assert_array_equal(found.elements, [[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 4, 5]])
        return
    expected = trimesh.load_scene(folder / "a.gltf", process=False).to_mesh().triangles
    ours = found.vertices[found.elements]
    for triangle, other in zip(ours, expected, strict=True):  # corners may begin with another one
        first = int(np.argmin(np.abs(other - triangle[0]).sum(axis=1)))
        np.testing.assert_allclose(triangle, np.roll(other, -first, axis=0), rtol=1e-6)


# counts and tags ---------------------------------------------------------------------------------------------

HEAD = "$MeshFormat\n4.1 0 8\n$EndMeshFormat\n"
NODES = "1\n2\n3\n4\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n"
CELLS = "$Elements\n1 1 1 1\n3 1 4 1\n1 1 2 3 4\n$EndElements\n"


@pytest.mark.parametrize(
    "numbers", [f"1 4 1 4\n3 1 0 -4\n{NODES}", f"-1 4 1 4\n3 1 0 4\n{NODES}", f"1 4 1 4\n3 1 0 {10**12}\n{NODES}",
                f"{10**12} 4 1 4\n3 1 0 4\n{NODES}", f"1 {10**12} 1 4\n3 1 0 4\n{NODES}",
                f"1 4 1 4\n3 1 0 nan\n{NODES}"]
)  # fmt: skip
def test_gmsh_counts_of_nodes(tmp_path, numbers):
    """Refuse counts of blocks and nodes that the file cannot hold; a negative one was an endless loop."""
    refused(tmp_path, "a.msh", f"{HEAD}$Nodes\n{numbers}$EndNodes\n{CELLS}", "declares .* but holds|cannot be read as")


@pytest.mark.parametrize(
    "counts", ["1 1 1 1\n3 1 4 -1", f"1 1 1 1\n3 1 4 {10**12}", f"{10**12} 1 1 1\n3 1 4 1", "-1 1 1 1"]
)
def test_gmsh_counts_of_elements(tmp_path, counts):
    """Refuse counts of blocks and elements that the file cannot hold."""
    cells = f"$Elements\n{counts}\n1 1 2 3 4\n$EndElements\n"

    refused(tmp_path, "a.msh", f"{HEAD}$Nodes\n1 4 1 4\n3 1 0 4\n{NODES}$EndNodes\n{cells}", "declares .* but holds")


def test_gmsh_tags_cost_no_memory(tmp_path):
    """Look node tags up by sorting: a table by tag would take gigabytes for this file of four nodes."""
    for tag in (999_999_999, 2**53 - 1):
        nodes = NODES.replace("4\n", f"{tag}\n", 1)
        cells = CELLS.replace("1 1 2 3 4", f"1 1 2 3 {tag}")
        path = tmp_path / "a.msh"
        path.write_text(f"{HEAD}$Nodes\n1 4 1 {tag}\n3 1 0 4\n{nodes}$EndNodes\n{cells}")
        np.testing.assert_array_equal(read_mesh(path).elements, [[0, 1, 2, 3]])
        rows = f"1 0 0 0\n2 1 0 0\n3 0 1 0\n{tag} 0 0 1\n"
        (tmp_path / "b.msh").write_text(
            f"{HEAD.replace('4.1', '2.2')}$Nodes\n4\n{rows}$EndNodes\n$Elements\n1\n1 4 0 1 2 3 {tag}\n$EndElements\n"
        )
        np.testing.assert_array_equal(read_mesh(tmp_path / "b.msh").elements, [[0, 1, 2, 3]])


@pytest.mark.parametrize("count", [-1, -(10**12), 10**12, 2**63, 2**64])
@pytest.mark.parametrize("where", ["POINTS {} double", "CELLS {} 5", "CELLS 1 {}", "CELL_TYPES {}", "FIELD f {}"])
@pytest.mark.parametrize("form", ["ASCII", "BINARY"])
def test_vtk_counts(tmp_path, form, where, count):
    """Refuse counts that a legacy VTK file cannot hold."""
    sections = {
        "POINTS 4 double": X.astype(">f8"), "CELLS 1 5": np.array([[4, 0, 1, 2, 3]], dtype=">i4"),
        "CELL_TYPES 1": np.array([[10]], dtype=">i4"),
    }  # fmt: skip
    data = f"# vtk DataFile Version 3.0\na\n{form}\nDATASET UNSTRUCTURED_GRID\n".encode()
    if where.startswith("FIELD"):
        data += where.format(count).encode() + b"\na 1 -1 double\n"
    for line, x in sections.items():
        head = where.format(count) if line.split()[0] == where.split()[0] else line
        text = "\n".join(" ".join(map(str, row)) for row in x.tolist()).encode()
        data += head.encode() + b"\n" + (text if form == "ASCII" else x.tobytes()) + b"\n"

    refused(tmp_path, "a.vtk", data, "declares|has the section|cannot be read as a .vtk mesh")


@pytest.mark.parametrize("what", ["Vertices", "Tetrahedra"])
@pytest.mark.parametrize("count", ["-1", "1000000000000", "9" * 30, "nan", "1e3"])
def test_medit_counts(tmp_path, what, count):
    """Refuse counts that a Medit file cannot hold."""
    write_mesh(tmp_path / "a.mesh", X, [[0, 1, 2, 3]])
    data = (tmp_path / "a.mesh").read_text()
    held = "4" if what == "Vertices" else "1"
    assert f"{what}\n{held}\n" in data

    refused(tmp_path, "a.mesh", data.replace(f"{what}\n{held}\n", f"{what}\n{count}\n"), "declares|without a count")


@pytest.mark.parametrize("change", ["Points=-1", "Cells=-1", f"Points={10**12}", f"Cells={2**64}"])
def test_vtu_counts(tmp_path, change):
    """Refuse counts that a vtu file cannot hold."""
    write_mesh(tmp_path / "a.vtu", X, [[0, 1, 2, 3]])
    what, count = change.split("=")
    data = (tmp_path / "a.vtu").read_text()
    changed = data.replace(f'NumberOf{what}="{4 if what == "Points" else 1}"', f'NumberOf{what}="{count}"')
    assert changed != data

    refused(tmp_path, "a.vtu", changed, "declares")


@pytest.mark.parametrize("size", [2**64 - 1, 2**40, 0])
def test_vtu_sizes(tmp_path, size):
    """Refuse sizes of arrays that a vtu file cannot hold."""
    write_mesh(tmp_path / "a.vtu", X, [[0, 1, 2, 3]])
    data = (tmp_path / "a.vtu").read_bytes()
    old, new = (base64.b64encode(struct.pack("<Q", n) + X.tobytes()) for n in (X.nbytes, size))
    assert old in data

    refused(tmp_path, "a.vtu", data.replace(old, new), "declares")


def test_vtu_entities(tmp_path):
    """Refuse a document type in any encoding: its entities could grow without limit."""
    entities = "".join(f'<!ENTITY e{i + 1} "{f"&e{i};" * 10}">' for i in range(12))
    text = f'<?xml version="1.0"?><!DOCTYPE V [<!ENTITY e0 "0 ">{entities}]><VTKFile type="&e12;"></VTKFile>'

    refused(tmp_path, "a.vtu", text, "has a document type")
    wide = text.replace("?>", ' encoding="utf-16"?>', 1).encode("utf-16")
    refused(tmp_path, "b.vtu", wide + b"</VTKFile>", "document type|not a .vtu file|cannot be read as a .vtu mesh")


# packed files ------------------------------------------------------------------------------------------------


def test_limit_of_unpacking(monkeypatch):
    """Grow by ratio and absolute size, always a little, never less than the file itself; the variable replaces all."""
    assert unpack_limit(0) == unpack_limit(1000) == 16 * 2**20
    assert unpack_limit(10**6) == 20 * 10**6
    assert unpack_limit(10**8) == 2**30
    assert unpack_limit(10**10) == 10**10
    monkeypatch.setenv(VARIABLE, "5000")
    assert unpack_limit(10**10) == 5000
    monkeypatch.setenv(VARIABLE, "4 GB")
    with pytest.raises(OptionError, match="IMPINGE_UNPACK_LIMIT is '4 GB', expected a number of bytes"):
        unpack_limit(1)


def test_gzip_that_grows(tmp_path, monkeypatch):
    """Refuse gzip that grows a thousand times, in one member or many; read it where the limit is raised."""
    text = b"OFF\n4 1 0\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2\n" + b"\n" * (ALWAYS + 1)
    refused(tmp_path, "a.off.gz", gzip.compress(text), LIMIT)
    refused(tmp_path, "b.off.gz", gzip.compress(text[: len(text) // 2]) + gzip.compress(text[len(text) // 2 :]), LIMIT)

    monkeypatch.setenv(VARIABLE, str(2 * ALWAYS))
    assert len(read_mesh(tmp_path / "a.off.gz").elements) == 1
    assert len(read_mesh(tmp_path / "b.off.gz").elements) == 1


def test_npz_that_grows(tmp_path, monkeypatch):
    """Refuse archives that grow a thousand times, wherever they are read; read one where the limit is raised."""
    path = tmp_path / "a.npz"
    np.savez_compressed(path, V=np.zeros((ALWAYS // 96 + 1, 4, 3)), F=FACES)
    readers = [impinge.Sequence, impinge.SoftBody.load, impinge.SphereHierarchy.load, read_npz]
    world = impinge.World()
    world.add(impinge.shapes.box(1.0), name="box")
    for read in [*readers, impinge.Simulation(world).restore]:
        with pytest.raises(FileError, match=LIMIT):
            read(path)

    monkeypatch.setenv(VARIABLE, str(2 * ALWAYS))
    assert len(impinge.Sequence(path)) == ALWAYS // 96 + 1


def test_scene_that_names_a_packed_file(tmp_path):
    """Limit the meshes and frames of a scene file alike."""
    np.savez_compressed(tmp_path / "frames.npz", V=np.zeros((ALWAYS // 96 + 1, 4, 3)), F=FACES)
    (tmp_path / "a.off.gz").write_bytes(gzip.compress(b"OFF\n" + b"\n" * ALWAYS))
    write_mesh(tmp_path / "b.ply", X, FACES)
    scene = tmp_path / "scene.toml"
    scene.write_text('[[body]]\nfile = "a.off.gz"\n[[body]]\nfile = "b.ply"\nmotion.frames = "frames.npz"\n')
    bodies = impinge.read_scene(scene).bodies
    with pytest.raises(ImpingeError, match=LIMIT):
        bodies[0].load()
    scene.write_text('[[body]]\nfile = "b.ply"\nmotion.frames = "frames.npz"\n')
    with pytest.raises(ImpingeError, match=LIMIT):
        impinge.read_scene(scene).simulation()


@pytest.mark.parametrize(("name", "pack"), [("ZLib", zlib.compress), ("LZMA", lzma.compress)])
def test_vtu_that_grows(tmp_path, name, pack):
    """Refuse compressed arrays that grow a thousand times."""
    block = pack(bytes(ALWAYS + 1))
    header = struct.pack("<4I", 1, ALWAYS, 0, len(block))
    text = (
        f'<VTKFile type="UnstructuredGrid" compressor="vtk{name}DataCompressor"><UnstructuredGrid>'
        '<Piece NumberOfPoints="4" NumberOfCells="1"><Points><DataArray type="Float64" NumberOfComponents="3" '
        f'format="binary">{(base64.b64encode(header) + base64.b64encode(block)).decode()}</DataArray></Points>'
        "</Piece></UnstructuredGrid></VTKFile>"
    )

    refused(tmp_path, "a.vtu", text, LIMIT)


def test_vtu_pieces_that_share_their_bytes(tmp_path):
    """Limit what pieces become that refer to the same appended bytes."""
    x = np.zeros((20_000, 3)).tobytes()
    arrays = "".join(
        f'<DataArray type="{kind}" Name="{name}" format="appended" offset="{at}"/>'
        for name, kind, at in (
            ("connectivity", "Int64", len(x) + 4),
            ("offsets", "Int64", len(x) + 4),
            ("types", "UInt8", len(x) + 4),
        )
    )
    piece = (
        '<Piece NumberOfPoints="20000" NumberOfCells="0"><Points><DataArray type="Float64" NumberOfComponents="3" '
        f'format="appended" offset="0"/></Points><Cells>{arrays}</Cells></Piece>'
    )
    appended = struct.pack("<I", len(x)) + x + struct.pack("<I", 0)
    text = f'<VTKFile type="UnstructuredGrid"><UnstructuredGrid>{piece * 100}</UnstructuredGrid>'.encode()
    text += b'<AppendedData encoding="raw">_' + appended + b"</AppendedData></VTKFile>"

    refused(tmp_path, "a.vtu", text, LIMIT)


def test_vtu_pieces_that_share_empty_blocks(tmp_path):
    """Limit what is read for pieces that refer to the same compressed blocks, which unpack to nothing."""
    block, count = zlib.compress(b""), 10_000
    appended = struct.pack("<3I", count, 0, 0) + struct.pack("<I", len(block)) * count + block * count
    points, *cells = (
        f'<DataArray type="Int64" Name="{name}" format="appended" offset="0"/>'
        for name in ("Points", "connectivity", "offsets", "types")
    )
    piece = (
        f'<Piece NumberOfPoints="0" NumberOfCells="0"><Points>{points}</Points><Cells>{"".join(cells)}</Cells></Piece>'
    )
    head = '<VTKFile type="UnstructuredGrid" compressor="vtkZLibDataCompressor">'
    text = f"{head}<UnstructuredGrid>{piece * 100}</UnstructuredGrid>".encode()
    text += b'<AppendedData encoding="raw">_' + appended + b"</AppendedData></VTKFile>"

    refused(tmp_path, "a.vtu", text, LIMIT)


def test_npz_without_vertices(tmp_path):
    """Refuse a trillion frames of nothing, which take no bytes and would be named one by one."""
    for count in (1, 10**9):
        header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({count}, 0, 3), }}\n"
        (tmp_path / "a.npz").write_bytes(npz_with(header.encode()))
        with pytest.raises(FileError, match=r"long and empty|expected one or more frames"):
            impinge.Sequence(tmp_path / "a.npz")


def test_scene_patterns(tmp_path):
    """Refuse patterns with several **, which take exponential time in deep folders."""
    write_mesh(tmp_path / "b.ply", X, FACES)
    (tmp_path / "/".join("a" * 20)).mkdir(parents=True)
    scene = tmp_path / "scene.toml"
    scene.write_text(f'[[body]]\nfile = "b.ply"\nmotion.frames = "{"**/" * 30}x.ply"\n')
    with pytest.raises(OptionError, match=r"a pattern with one \*\* at most"):
        impinge.read_scene(scene)


def npz_with(header: bytes, body: bytes = b"") -> bytes:
    """An archive with one member F whose header is given."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + body
        archive.writestr("F.npy", data)
        archive.writestr("V.npy", data)
    return file.getvalue()


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }\n",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }\n",
        b"{'descr': '|S999999999', 'fortran_order': False, 'shape': (1,), }\n",
        b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (0, 99999999999999999999), }\n",
        b"{'descr': '<U2', 'fortran_order': False, 'shape': (1,), }\n",
        b"(" * 9000 + b"\n",
        b"",
    ],
)
def test_npz_headers(tmp_path, header):
    """Compare the header of an array with the bytes that follow it before memory is allocated."""
    (tmp_path / "a.npz").write_bytes(npz_with(header, b"\xff" * 8))

    with pytest.raises(FileError, match="cannot be read as an npz archive"):
        impinge.Sequence(tmp_path / "a.npz")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names on this system")
def test_pipes_do_not_block(tmp_path):
    """Refuse pipes wherever a file is read."""
    os.mkfifo(tmp_path / "a.npz")
    os.mkfifo(tmp_path / "a.toml")
    for read in (impinge.Sequence, impinge.SoftBody.load, impinge.SphereHierarchy.load):
        with pytest.raises(FileError):
            read(tmp_path / "a.npz")
    with pytest.raises(FileError, match="folder, device or pipe"):
        impinge.read_scene(tmp_path / "a.toml")
    os.mkfifo(tmp_path / "a.ply")
    (tmp_path / "b.toml").write_text('[[body]]\nfile = "a.ply"\n')
    for read in (impinge.read_scene(tmp_path / "b.toml").digest, impinge.read_scene(tmp_path / "b.toml").world):
        with pytest.raises(ImpingeError, match=r"no regular file|folder, device or pipe"):
            read()


# time --------------------------------------------------------------------------------------------------------

N = 300_000
SLOW = {
    "blank lines.msh": "\n" * N + "$MeshFormat\n",
    "blank lines after.msh": HEAD + "\n" * N,
    "sections.msh": HEAD + "$Nodes\n" * (N // 7),
    "blocks.msh": f"{HEAD}$Nodes\n{N} 4 1 4\n" + "3 1 0 0\n" * (N // 8) + "$EndNodes\n" + CELLS,
    "mixed elements.msh": "$NOD\n1\n1 0 0 0\n$ENDNOD\n$ELM\n100000\n"
    + "1 15 0 0 1 1\n1 1 0 0 2 1 1\n" * 50_000
    + "$ENDELM\n",
    "blank lines.mesh": "MeshVersionFormatted 2\n" + " \n" * N,
    "words.mesh": "MeshVersionFormatted 2\n" + "Triangles " * (N // 10) + "End\n",
    "one word.mesh": "MeshVersionFormatted 2\n" + "a" * N,
    "quotes.mesh": "MeshVersionFormatted 2\n" + '"' * N,
    "pieces.vtu": "<VTKFile>" + "<Piece " * (N // 7) + "</VTKFile>",
    "nested.vtu": "<VTKFile>" + "<a>" * (N // 3) + "</VTKFile>",
    "attribute.vtu": '<VTKFile a="' + " " * N + "</VTKFile>",
    "appended.vtu": "<VTKFile>" + "<AppendedData " * (N // 14) + "</VTKFile>",
    "words.vtk": "# vtk DataFile Version 3.0\na\nASCII\nDATASET POLYDATA\n" + "METADATA\n" * (N // 9),
    "spaces.vtk": "# vtk DataFile Version 3.0\na\nASCII\n" + " " * N,
    "points.vtk": "# vtk DataFile Version 3.0\na\nASCII\nDATASET POLYDATA\n" + "POINTS 0 float\n" * (N // 15),
    "cells.vtk": "# vtk DataFile Version 3.0\na\nASCII\nDATASET POLYDATA\nPOINTS 1 float\n0 0 0\n"
    f"POLYGONS {N // 5} {N // 2}\n" + "1 0 2 0 0 " * (N // 10),
    "no end.ply": "ply\n" + "end_header" * (N // 10),
    "words.ply": "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nend_header\n" + "x" * N,
    "vertex.stl": "solid " + "vertex " * (N // 7),
    "spaces.stl": "solid " + "vertex" + " " * N,
    "comments.off": "#\n" * (N // 2) + "OFF\n",
    "continued.obj": "v 0 0 0\nf " + "\\\n" * (N // 2),
    "nested.gltf": '{"asset": ' + "[" * N,
    "dotted.scene": "a" + ".a" * N + " = 1\n",
    "dotted table.scene": "[" + "a." * N + "a]\n",
    "quoted.scene": "x = 1\n" + '"a,".' * (N // 5) + "a = 1\n",
    "after quotes.scene": 'x = """a""""\n' + "a." * N + "a = 1\n",
    "bodies.scene": "[[body]]\nshape.kind='box'\n" * 40_000,
    "ignored.scene": "ignore = ["
    + "['box 8999', 'box 8998']," * 100_000
    + "]\n"
    + "[[body]]\nshape.kind='box'\n" * 9000,
}
"""Files for which a careless pattern takes quadratic time: minutes to hours."""


@needs_limits
@pytest.mark.parametrize("name", SLOW)
def test_time_is_linear(tmp_path, name):
    """Read or refuse files made for quadratic patterns within 10 s of processor time."""
    (tmp_path / "file").write_text(SLOW[name])
    outcome = fuzz(name.rpartition(".")[2], "--file", tmp_path / "file")

    assert outcome["failures"] == []
    assert outcome["read"] + outcome["refused"] == 1
