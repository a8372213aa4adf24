"""Gmsh files, versions 1, 2 and 4, as text or binary.

Version 1    ``$NOD``: ``id x y z`` per node; ``$ELM``: ``id type tag tag count nodes`` per element. Text.
Version 2    ``$Nodes``: a count, then ``id x y z``; ``$Elements``: a count, then ``id type count tags nodes``. In
             binary, elements come in blocks of one type and number of tags.
Version 4.0  blocks of ``id x y z``, and blocks of ``id nodes`` of one type.
Version 4.1  the same; the ids of a block of nodes precede its positions.

A section is a sequence of numbers. Every block is compared with the numbers that are left before it is taken, and block
counts are summed and compared with the total. Node ids are arbitrary and looked up by sorting: the largest id costs no
memory. An unknown node becomes vertex -1, which the bodies refuse. Other sections are ignored.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from impinge.checks import NONE, Floats, Ints
from impinge.errors import FileError, MeshError
from impinge.io.content import CUT_SHORT, FileContent, check_count, from_cells, refuse_kind
from impinge.io.numbers_in_text import numbers_in

_TYPES = {
    1: ("line", 2), 2: ("triangle", 3), 3: ("quad", 4), 4: ("tetra", 4), 5: ("hexahedron", 8), 6: ("wedge", 6),
    7: ("pyramid", 5), 8: ("line3", 3), 9: ("triangle6", 6), 10: ("quad9", 9), 11: ("tetra10", 10), 15: ("vertex", 1),
}  # fmt: skip
"""Names of cells in ``from_cells`` and numbers of nodes, by their types in Gmsh."""
_HEAD = re.compile(rb"\s*\$MeshFormat\s+([0-9.]{1,9})\s+([01])\s+([0-9]{1,2})[^\n]*\n")
_Cells = tuple[str, NDArray[Any]]


@dataclass
class _Section:
    """Numbers between ``$Nodes`` and ``$EndNodes``; ``at`` counts words of text, or bytes."""

    data: Any
    name: Path
    order: str
    """Byte order of binary numbers; empty for text."""
    size_type: str
    """Type of counts in version 4."""
    at: int = 0

    def take(self, count: int, code: str, what: str, width: int = 1) -> NDArray[Any]:
        """The next ``count`` rows of ``width`` numbers, of the type ``code`` in binary.

        More rows than are left, and negative counts, are refused.
        """
        unit = width * (np.dtype(self.order + code).itemsize if self.order else 1)
        left = (len(self.data) - self.at) // unit
        if not 0 <= count <= left:
            raise FileError(f"{self.name} declares {count} {what}, but holds {left}; {CUT_SHORT}")
        start, self.at = self.at, self.at + count * unit
        if self.order:
            return np.frombuffer(self.data, self.order + code, count * width, start).reshape(count, width)
        rows: NDArray[Any] = self.data[start : self.at].reshape(count, width)
        return rows

    def nodes(self, count: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Ids and positions of rows ``id x y z``; ids have 4 bytes in binary."""
        if not self.order:
            rows = self.take(count, "f8", "nodes", 4)
            return rows[:, 0], rows[:, 1:]
        rows = self.take(count, "u1", "nodes", 28)
        table = rows.reshape(-1).view([("id", self.order + "i4"), ("x", self.order + "f8", 3)])
        return table["id"], table["x"]

    def counts(self, codes: str) -> list[int]:
        """The next whole numbers, one per letter of ``codes``: i, or s for the type of sizes."""
        if self.order:
            form = self.order + codes.replace("s", "Q" if self.size_type == "u8" else "I")
            found = list(struct.unpack_from(form, self.data, self.at))
            self.at += struct.calcsize(form)
            return found
        numbers = self.take(1, "f8", "counts", len(codes))[0].tolist()
        if any(value != int(value) for value in numbers):
            raise ValueError("a count is a fraction")
        return [int(value) for value in numbers]

    def is_at_end(self, what: str) -> bool:
        """Whether binary numbers end here."""
        return bool(self.data[self.at : self.at + 64].lstrip().startswith(f"$End{what}".encode()))

    def finish(self, what: str) -> None:
        """Refuse binary numbers that do not end at the end of the section."""
        if self.order and not self.is_at_end(what):
            raise FileError(f"{self.name} has no $End{what} where its section ends; {CUT_SHORT}")


def decode(data: bytes, path: Path) -> FileContent:
    """Read nodes and elements."""
    if data.lstrip()[:4] == b"$NOD":
        return _version_1(data, path)
    head = _HEAD.match(data)
    if not head:
        refuse_kind("msh", path, "$MeshFormat or $NOD in the first line")
    version, size_type = head[1].decode(), f"u{int(head[3])}"
    if not re.fullmatch(r"2(\.\d)?|4(\.[01])?", version) or size_type not in ("u4", "u8"):
        raise FileError(
            f"{path} has version {version} of Gmsh with sizes {size_type}, expected 2 or 4; export it again"
        )
    order = ""
    if head[2] == b"1":
        order = "<" if data[head.end() : head.end() + 4] == struct.pack("<i", 1) else ">"
    sections = [
        _section(data, what, path, order, size_type, code) for what, code in (("Nodes", "d"), ("Elements", "q"))
    ]
    is_2 = version.startswith("2")
    nodes, x = _nodes_2(sections[0]) if is_2 else _nodes_4(sections[0], is_4_0=version == "4.0")
    cells = _elements_2(sections[1]) if is_2 else _elements_4(sections[1], is_4_0=version == "4.0")
    return from_cells(x, _by_vertex(cells, nodes), path)


def _section(data: bytes, what: str, name: Path, order: str = "", size_type: str = "u8", code: str = "d") -> _Section:
    """A section of the file, in text parsed as numbers of the type ``code``."""
    end = "END" if what.isupper() else "End"
    start = re.compile(rf"\${what}[ \t]*\r?\n".encode()).search(data)
    stop = data.find(f"${end}{what}".encode(), start.end()) if start else -1
    if not start or stop < 0:
        raise FileError(f"{name} has no complete section ${what} ... ${end}{what}; {CUT_SHORT}")
    body: Any = data[start.end() :] if order else numbers_in(data[start.end() : stop], np.dtype(code))
    return _Section(body, name, order, size_type)


def _by_vertex(cells: list[_Cells], nodes: NDArray[Any]) -> Iterator[_Cells]:
    """Replace node ids by vertex numbers; of equal ids the last counts."""
    order = np.argsort(nodes, kind="stable")
    ids = nodes[order]
    for kind, rows in cells:
        at = np.searchsorted(ids, rows.reshape(-1), side="right") - 1
        found = (at >= 0) & (ids[at] == rows.reshape(-1)) if len(ids) else np.zeros(rows.size, dtype=bool)
        yield kind, np.where(found, order[at] if len(ids) else NONE, NONE).reshape(rows.shape)


def _kind(gmsh_type: int, name: Path) -> tuple[str, int]:
    if gmsh_type not in _TYPES:
        raise MeshError(
            f"{name} has cells of Gmsh type {gmsh_type}, expected triangles, quads or tetrahedra; "
            "convert such cells to these first"
        )
    return _TYPES[gmsh_type]


def _version_1(data: bytes, name: Path) -> FileContent:
    section = _section(data, "NOD", name)
    nodes, x = section.nodes(section.counts("s")[0])
    section = _section(data, "ELM", name, code="q")
    cells = list(_element_rows(section, section.counts("s")[0], to_nodes=5))
    return from_cells(x, _by_vertex(cells, nodes), name)


def _nodes_2(section: _Section) -> tuple[NDArray[Any], NDArray[Any]]:
    """Ids and positions; the count is text in binary files too."""
    nodes = section.nodes(_count_line(section) if section.order else section.counts("s")[0])
    section.finish("Nodes")
    return nodes


def _elements_2(section: _Section) -> list[_Cells]:
    if not section.order:
        return list(_element_rows(section, section.counts("s")[0], to_nodes=3))
    cells, declared, found = [], _count_line(section), 0
    while found < declared and not section.is_at_end("Elements"):
        gmsh_type, count, tag_count = section.counts("iii")
        kind, corners = _kind(gmsh_type, section.name)
        if count < 1 or tag_count < 0:
            raise FileError(f"{section.name} has a block of {count} elements with {tag_count} tags; {CUT_SHORT}")
        rows = section.take(count, "i4", "elements", 1 + tag_count + corners)
        cells.append((kind, rows[:, -corners:]))
        found += count
    check_count(section.name, declared, found, "elements")
    section.finish("Elements")
    return cells


def _count_line(section: _Section) -> int:
    """The count on the first line of a binary section of version 2."""
    line = re.compile(rb"[ \t]*([0-9]{1,18})[ \t]*\r?\n").match(section.data)
    if not line:
        raise FileError(f"{section.name} has a section without a count; {CUT_SHORT}")
    section.at = line.end()
    return int(line[1])


def _element_rows(section: _Section, declared: int, *, to_nodes: int) -> Iterator[_Cells]:
    """Rows of text: id and type; in version 2 the number of tags, in version 1 two tags and the number of nodes.

    These are ``to_nodes`` numbers; in version 2 the tags follow, then the nodes.
    """
    words = memoryview(section.data)
    at, kinds, starts = section.at, list[int](), list[int]()
    while len(starts) < declared and at + to_nodes <= len(words):
        gmsh_type, count = words[at + 1], words[at + to_nodes - 1]
        corners = _kind(gmsh_type, section.name)[1]
        if count < 0 or (to_nodes == 5 and count != corners):
            raise FileError(f"{section.name} has an element of type {gmsh_type} with a count of {count}; {CUT_SHORT}")
        start = at + to_nodes + (count if to_nodes == 3 else 0)
        if start + corners > len(words):
            break
        kinds.append(gmsh_type)
        starts.append(start)
        at = start + corners
    check_count(section.name, declared, len(starts), "elements")
    runs = np.flatnonzero(np.diff(kinds, prepend=NONE, append=NONE))
    for first, end in itertools.pairwise(runs):
        kind, corners = _TYPES[kinds[first]]
        yield kind, section.data[np.array(starts[first:end])[:, None] + np.arange(corners)]


def _nodes_4(section: _Section, *, is_4_0: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    """Ids and positions of all blocks."""
    block_count, total = section.counts("ss" if is_4_0 else "ssss")[:2]
    ids: list[Any] = [np.zeros(0, dtype=np.int64)]
    x: list[Any] = [np.zeros((0, 3))]
    found = 0
    for _ in range(block_count):
        _, _, is_parametric, count = section.counts("iiis")
        if is_parametric:
            raise FileError(f"{section.name} has parametric nodes, which are not supported; export it without them")
        if is_4_0:
            block, positions = section.nodes(count)
        else:
            block = section.take(count, section.size_type, "nodes").reshape(-1)
            positions = section.take(count, "f8", "nodes", 3)
        if count:
            ids.append(block.astype(np.int64))
            x.append(positions)
        found += count
    check_count(section.name, total, found, "nodes")
    section.finish("Nodes")
    return np.concatenate(ids), np.concatenate(x)


def _elements_4(section: _Section, *, is_4_0: bool) -> list[_Cells]:
    """Blocks of node ids."""
    block_count, total = section.counts("ss" if is_4_0 else "ssss")[:2]
    cells, found = [], 0
    for _ in range(block_count):
        _, _, gmsh_type, count = section.counts("iiis")
        kind, corners = _kind(gmsh_type, section.name)
        code = "i4" if is_4_0 else section.size_type
        rows = section.take(count, code, "elements", 1 + corners)
        if count:
            cells.append((kind, rows[:, 1:].astype(np.int64)))
        found += count
    check_count(section.name, total, found, "elements")
    section.finish("Elements")
    return cells


def encode(x: Floats, elements: Ints) -> bytes:
    """Write triangles or tetrahedra as binary version 4.1: one block of nodes and one of elements."""
    n, m, is_tet = len(x), len(elements), elements.shape[1] == 4
    dimension, gmsh_type = (3, 4) if is_tet else (2, 2)
    rows = np.column_stack([np.arange(1, m + 1), elements.astype(np.int64) + 1])
    nodes = struct.pack("<4Q3iQ", 1, n, 1, n, dimension, 1, 0, n)
    nodes += np.arange(1, n + 1, dtype="<u8").tobytes() + x.astype("<f8").tobytes()
    cells = struct.pack("<4Q3iQ", 1, m, 1, m, dimension, 1, gmsh_type, m) + rows.astype("<u8").tobytes()
    head = b"$MeshFormat\n4.1 1 8\n" + struct.pack("<i", 1) + b"\n$EndMeshFormat\n"
    return head + b"$Nodes\n" + nodes + b"\n$EndNodes\n$Elements\n" + cells + b"\n$EndElements\n"
