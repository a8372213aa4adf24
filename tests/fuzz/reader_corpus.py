"""Small valid files of every format and variant: written by the package, or by hand."""

from __future__ import annotations

import base64
import gzip
import io
import json
import lzma
import struct
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

import impinge
from impinge.io.files import SURFACE_KINDS, VOLUME_KINDS, write_mesh

X = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.5, 1.0, 1.0], [0.25, 2.0, 3.0]])
TRIANGLES = np.array([[0, 1, 2], [0, 2, 3], [4, 2, 1], [3, 4, 0]], dtype=np.int32)
TETS = np.array([[0, 1, 2, 3], [4, 1, 2, 3]], dtype=np.int32)
BUFFER = "buffer.bin"
"""File that gltf entries name: the positions of ``X`` as float32."""


def rows(array: Any, last: str = "\n") -> str:
    """Lines of numbers."""
    return "".join(" ".join(map(str, row)) + last for row in np.asarray(array).tolist())


def _ply() -> list[bytes]:
    head = "ply\nformat {} 1.0\ncomment by hand\nelement vertex 6\nproperty {} x\nproperty {} y\nproperty {} z\n"
    faces = "element face 3\nproperty list uchar int vertex_indices\nend_header\n"
    text = head.format("ascii", *["float"] * 3) + faces + rows(X) + "3 0 1 2\n4 0 1 2 3\n5 0 1 2 3 4\n"
    big = (head.format("binary_big_endian", *["double"] * 3) + faces).encode() + X.astype(">f8").tobytes()
    for polygon in ([0, 1, 2], [1, 2, 3, 4], [4, 3, 2, 1, 0]):
        big += struct.pack(f">B{len(polygon)}i", len(polygon), *polygon)
    extra = (
        b"ply\nformat binary_little_endian 1.0\nelement face 1\nproperty uchar red\n"
        b"property list uint ushort vertex_index\nproperty list uchar float texcoord\nelement vertex 3\n"
        b"property float x\nproperty short n\nproperty float y\nproperty float z\nelement edge 2\n"
        b"property int vertex1\nend_header\n"
    )
    extra += struct.pack("<BI3HB2f", 7, 3, 0, 1, 2, 2, 0.5, 0.5)
    extra += b"".join(struct.pack("<fh2f", x, 1, y, z) for x, y, z in X[:3]) + struct.pack("<2i", 0, 1)
    return [text.encode(), big, extra]


def _gmsh() -> list[bytes]:
    nodes = "".join(f"{10 * (i + 1)} {' '.join(map(str, x))}\n" for i, x in enumerate(X.tolist()))
    tets = ["10 20 30 40", "50 20 30 40"]
    one = f"$NOD\n6\n{nodes}$ENDNOD\n$ELM\n3\n" + "".join(f"{i} 4 1 1 4 {row}\n" for i, row in enumerate(tets))
    one += "9 2 1 1 3 10 20 30\n$ENDELM\n"
    head = "$MeshFormat\n{} 0 8\n$EndMeshFormat\n"
    two = head.format("2.2") + f"$Nodes\n6\n{nodes}$EndNodes\n$Elements\n3\n"
    two += "".join(f"{i} 4 2 0 1 {row}\n" for i, row in enumerate(tets)) + "9 2 0 10 20 30\n$EndElements\n"
    four_0 = head.format("4.0") + f"$Nodes\n1 6\n1 3 0 6\n{nodes}$EndNodes\n$Elements\n1 2\n1 3 4 2\n"
    four_0 += "".join(f"{i} {row}\n" for i, row in enumerate(tets)) + "$EndElements\n"
    tags = "".join(f"{10 * (i + 1)}\n" for i in range(6))
    four = head.format("4.1") + "$Entities\n0 0 0 0\n$EndEntities\n"
    four += f"$Nodes\n2 6 10 60\n3 1 0 6\n{tags}{rows(X)}3 2 0 0\n$EndNodes\n"
    four += "$Elements\n2 3 1 3\n3 1 4 2\n" + "".join(f"{i} {row}\n" for i, row in enumerate(tets))
    four += "2 1 2 1\n3 10 20 30\n$EndElements\n"
    binary_head = b"$MeshFormat\n%s 1 8\n" + struct.pack("<i", 1) + b"\n$EndMeshFormat\n"
    two_nodes = b"".join(struct.pack("<i3d", i + 1, *x) for i, x in enumerate(X))
    two_cells = struct.pack("<3i", 4, 2, 1) + b"".join(struct.pack("<6i", i, 1, *row) for i, row in enumerate(TETS + 1))
    binary_2 = binary_head % b"2.2" + b"$Nodes\n6\n" + two_nodes + b"\n$EndNodes\n$Elements\n2\n" + two_cells
    binary_2 += b"\n$EndElements\n"
    cells = struct.pack("<2Q3iQ", 1, 2, 1, 3, 4, 2) + b"".join(
        struct.pack("<5i", i, *r) for i, r in enumerate(TETS + 1)
    )
    binary_4 = binary_head % b"4.0" + b"$Nodes\n" + struct.pack("<2Q3iQ", 1, 6, 1, 3, 0, 6) + two_nodes
    binary_4 += b"\n$EndNodes\n$Elements\n" + cells + b"\n$EndElements\n"
    return [*(text.encode() for text in (one, two, four_0, four)), binary_2, binary_4]


def _vtk() -> list[bytes]:
    head = "# vtk DataFile Version {}\nby hand\n{}\nDATASET {}\n"
    points = f"POINTS 6 double\n{rows(X)}"
    old = head.format("3.0", "ASCII", "UNSTRUCTURED_GRID") + points + "\nCELLS 3 14\n4 0 1 2 3\n4 4 1 2 3\n3 0 1 2\n"
    old += "\nCELL_TYPES 3\n10\n10\n5\n\nPOINT_DATA 6\nSCALARS a float 1\nLOOKUP_TABLE default\n1 2 3 4 5 6\n"
    new = head.format("5.1", "ASCII", "UNSTRUCTURED_GRID") + "FIELD FieldData 1\nTIME 1 1 double\n0.5\n" + points
    new += "METADATA\nINFORMATION 0\n\nCELLS 3 8\nOFFSETS vtktypeint64\n0 4 8\nCONNECTIVITY vtktypeint64\n"
    new += "0 1 2 3 4 1 2 3\nCELL_TYPES 2\n10 9\n"
    surface = head.format("4.2", "BINARY", "POLYDATA").encode() + b"POINTS 6 float\n" + X.astype(">f4").tobytes()
    flat = np.array([3, 0, 1, 2, 4, 0, 1, 2, 3, 5, 0, 1, 2, 3, 4], dtype=">i4")
    surface += b"\nVERTICES 1 2\n" + np.array([1, 0], dtype=">i4").tobytes()
    surface += b"\nPOLYGONS 3 15\n" + flat.tobytes() + b"\n"
    binary = (
        head.format("3.0", "BINARY", "UNSTRUCTURED_GRID").encode() + b"POINTS 6 double\n" + X.astype(">f8").tobytes()
    )
    binary += b"\nCELLS 2 10\n" + np.column_stack([[4, 4], TETS]).astype(">i4").tobytes()
    binary += b"\nCELL_TYPES 2\n" + np.array([10, 10], dtype=">i4").tobytes() + b"\n"
    return [old.encode(), new.encode(), surface, binary]


def _vtu_file(arrays: dict[str, str], attributes: str = "", appended: bytes = b"") -> bytes:
    """A vtu file of two tets whose arrays are given as ``attributes>text``."""
    text = (
        '<?xml version="1.0"?>\n'
        f'<VTKFile type="UnstructuredGrid" version="0.1" byte_order="LittleEndian" {attributes}>\n'
        '<UnstructuredGrid>\n<Piece NumberOfPoints="6" NumberOfCells="2">\n<PointData></PointData>\n<Points>\n'
        f'<DataArray type="Float64" NumberOfComponents="3" {arrays["Points"]}</DataArray>\n</Points>\n<Cells>\n'
    )
    for name, kind in (("connectivity", "Int32"), ("offsets", "Int64"), ("types", "UInt8")):
        text += f'<DataArray type="{kind}" Name="{name}" {arrays[name]}</DataArray>\n'
    text += "</Cells>\n</Piece>\n</UnstructuredGrid>\n"
    return text.encode() + appended + b"</VTKFile>\n"


def _vtu() -> list[bytes]:
    values = {
        "Points": X.astype("<f8"), "connectivity": TETS.astype("<i4"), "offsets": np.array([4, 8], dtype="<i8"),
        "types": np.array([10, 10], dtype="u1"),
    }  # fmt: skip
    plain = {name: 'format="ascii">' + rows(x.reshape(len(x), -1)) for name, x in values.items()}
    made = [_vtu_file(plain)]
    for name, pack in (("ZLib", zlib.compress), ("LZMA", lzma.compress)):
        inline = {}
        for key, x in values.items():
            block = pack(x.tobytes())
            header = struct.pack("<4I", 1, x.nbytes, 0, len(block))
            inline[key] = f'format="binary">{(base64.b64encode(header) + base64.b64encode(block)).decode()}'
        made.append(_vtu_file(inline, f'compressor="vtk{name}DataCompressor"'))
    offsets, raw, coded = {}, b"", b""
    places: dict[str, dict[str, int]] = {"raw": {}, "base64": {}}
    for key, x in values.items():
        places["raw"][key], places["base64"][key] = len(raw), len(coded)
        part = struct.pack("<Q", x.nbytes) + x.tobytes()
        raw, coded = raw + part, coded + base64.b64encode(part)
    for encoding, data in (("raw", raw), ("base64", coded)):
        offsets = {key: f'format="appended" offset="{at}">' for key, at in places[encoding].items()}
        appended = f'<AppendedData encoding="{encoding}">\n_'.encode() + data + b"\n</AppendedData>\n"
        made.append(_vtu_file(offsets, 'header_type="UInt64"', appended))
    return made


def _gltf(*, with_file: bool) -> bytes:
    """A tree of nodes, strips, a fan, a normalised and a strided accessor."""
    body = X.astype("<f4").tobytes()
    ids = TRIANGLES.astype("<u2").tobytes()
    small = (X * 40).astype("i1")
    strided = np.zeros((6, 4), dtype="i1")
    strided[:, :3] = small
    data = ids + strided.tobytes()
    uri = BUFFER if with_file else "data:application/octet-stream;base64," + base64.b64encode(body).decode()
    tree = {
        "asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": [0, 2]}],
        "nodes": [
            {"mesh": 0, "children": [1], "translation": [1, 2, 3], "rotation": [0, 0, 0.6, 0.8], "scale": [1, 2, -1]},
            {"mesh": 1, "matrix": [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 5, 6, 7, 1]}, {"mesh": 0},
        ],
        "meshes": [
            {"primitives": [{"attributes": {"POSITION": 0}, "indices": 1}, {"attributes": {"POSITION": 0}, "mode": 5}]},
            {"primitives": [{"attributes": {"POSITION": 2}, "mode": 6}, {"attributes": {"POSITION": 0}, "mode": 0}]},
        ],
        "buffers": [
            {"uri": uri, "byteLength": len(body)},
            {"uri": "data:;base64," + base64.b64encode(data).decode(), "byteLength": len(data)},
        ],
        "bufferViews": [
            {"buffer": 0, "byteLength": len(body)}, {"buffer": 1, "byteLength": len(ids)},
            {"buffer": 1, "byteOffset": len(ids), "byteLength": len(data) - len(ids), "byteStride": 4},
        ],
        "accessors": [
            {"bufferView": 0, "componentType": 5126, "type": "VEC3", "count": 6},
            {"bufferView": 1, "componentType": 5123, "type": "SCALAR", "count": 12},
            {"bufferView": 2, "componentType": 5120, "type": "VEC3", "count": 6, "normalized": True},
        ],
    }  # fmt: skip
    return json.dumps(tree).encode()


def _scene() -> list[bytes]:
    whole = """
title = "By hand"
ignore = [["a", "b"]]
[simulation]
gravity = [0.0, 0.0, -9.81]
dt = 1e-2
ground = {point = [0, 0, 0], normal = [0, 0, 1]}
friction = 0.3
[[body]]
name = "a"
shape = {kind = "box", size = [1.0, 2.0, 3.0], cells = [2, 2, 2]}
rotation = {axis = [0, 0, 1], degrees = 45.0}
position = [0, 0, 1]
soft.material = "rubber"
soft.hold = {normal = [0, 0, 1], point = [0, 0, 1]}
[[body]]
name = "b"
file = "mesh.ply"
scale = 2.0
weld = false
group = 3
motion.velocity = [1, 0, 0]
motion.spin.axis = [0, 1, 0]
motion.spin.degrees_per_second = 10
"""
    quoted = '''"title" = """a
"quoted" text"""
[[body]]
shape.kind = 'icosphere'
"shape".subdivisions = 1
'''
    return [whole.encode(), quoted.encode()]


def _archive(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def _saved(kind: str, folder: Path) -> bytes:
    """A file of one of the package's own formats."""
    path = folder / f"{kind}.npz"
    if kind in ("soft", "smoothed"):
        tets = impinge.shapes.tet_box(1, 1, 1, size=1.0)
        impinge.SoftBody(tets.surface, tets, elements="smoothed" if kind == "smoothed" else "linear").save(path)
    elif kind == "state":
        simulation().save(path)
    else:
        impinge.build_spheres(impinge.shapes.icosphere(0), builder="octree", levels=2, branching=4).save(path)
    return path.read_bytes()


def simulation() -> impinge.Simulation:
    """A soft cube above a box."""
    world = impinge.World()
    tets = impinge.shapes.tet_box(1, 1, 1, size=1.0)
    tets.update(tets.vertices + np.array([0.0, 0.0, 2.0]))
    world.add(impinge.SoftBody(tets.surface, tets), name="soft")
    world.add(impinge.shapes.box(1.0), name="box", fixed=True)
    return impinge.Simulation(world)


def corpus(name: str) -> list[bytes]:
    """Entries for a target of ``reader_fuzzer``."""
    with tempfile.TemporaryDirectory() as folder:
        if name in ("soft", "state", "spheres"):
            kinds = ("soft", "smoothed") if name == "soft" else (name,)
            return [_saved(kind, Path(folder)) for kind in kinds]
        made = []
        if name in _FORMATS:
            for elements in (TRIANGLES, TETS) if name in VOLUME_KINDS else (TRIANGLES,):
                if name != "gltf":
                    path = Path(folder) / f"mesh.{name}"
                    write_mesh(path, X, elements)
                    made.append(path.read_bytes())
        return made + _BY_HAND[name]()


_FORMATS = SURFACE_KINDS + VOLUME_KINDS
_FACET = "facet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1e0 0 0\nvertex 0 1.5 0\nendloop\nendfacet\n"
_BY_HAND = {
    "ply": _ply,
    "obj": lambda: [
        b"mtllib a.mtl\no a\nv 0 0 0 1.0 # origin\nv 1 0 0\nv 0 1 0\nv 0 0 1\nvt 0 0\nvn 0 0 1\ng b\nusemtl c\n"
        b"f 1/1/1 2//1 3\nf -1 -2 \\\n-3\nf 1 2 3 4\nl 1 2\n"
    ],
    "off": lambda: [b"# a\nCOFF\n4 2 0\n0 0 0 255 0 0\n1 0 0\n\n1 1 0 # b\n0 1 0\n4 0 1 2 3 0.5 0.5 0.5\n3 2 1 0\n"],
    "stl": lambda: [f"solid a\n{_FACET}{_FACET}endsolid a\nSOLID b\n{_FACET}ENDSOLID b\n".encode()],
    "glb": list,
    "gltf": lambda: [_gltf(with_file=True), _gltf(with_file=False)],
    "msh": _gmsh,
    "vtk": _vtk,
    "vtu": _vtu,
    "mesh": lambda: [
        f"MeshVersionFormatted 1\nDimension\n3\n# a\nIdentifier\n\"a b\"\nVertices\n6\n{rows(X, ' 1' + chr(10))}"
        f"Corners\n1\n1\nTriangles\n4\n{rows(TRIANGLES + 1, ' 0' + chr(10))}Quadrilaterals 1 1 2 3 4 0\nEnd\n".encode()
    ],
    "gz": lambda: [gzip.compress(part, mtime=0) for part in _ply()],
    "sequence": lambda: [
        _archive(V=np.stack([X, X + 1.0]), F=TRIANGLES),
        _archive(V=np.asfortranarray(np.stack([X, X])).astype("f4"), F=TETS.astype("u2"), other=np.array(["a", "b"])),
    ],
    "scene": _scene,
}  # fmt: skip
