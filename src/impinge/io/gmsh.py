"""Gmsh files: version 1 is read here; versions 2 and 4 are counted here and read by meshio.

Version 1   text that begins with ``$NOD``, not supported by meshio: ``id x y z`` per node, then in ``$ELM``
            ``id type tag tag count nodes`` per element. Node ids are arbitrary.
Version 2   ``$Nodes`` and ``$Elements`` begin with their count.
Version 4   both consist of blocks with counts. meshio trusts the total and returns uninitialised memory for nodes that
            are in no block; the block counts are therefore summed first.
"""

from __future__ import annotations

import itertools
import re
import struct
from pathlib import Path

import numpy as np

from impinge.checks import NONE
from impinge.errors import FileError
from impinge.io.content import CUT_SHORT, FileContent, check_count, from_cells, refuse_kind

_TYPES = {1: "line", 2: "triangle", 3: "quad", 4: "tetra", 15: "vertex"}
"""Cell types of Gmsh by their names in meshio."""


def decode_version_1(data: bytes, name: Path) -> FileContent:
    """Read nodes and elements; an unknown node becomes vertex -1, which the bodies refuse."""
    words = _section(data, "NOD", name).split()
    node_count = int(words[0])
    check_count(name, node_count, (len(words) - 1) // 4, "nodes")
    nodes = words[1 : 1 + 4 * node_count]
    vertex_of = {int(number): i for i, number in enumerate(nodes[::4])}
    x = np.array(nodes, dtype=np.float64).reshape(-1, 4)[:, 1:]
    lines = [line.split() for line in _section(data, "ELM", name).splitlines() if line.strip()]
    elements = [row for row in lines[1:] if len(row) > 4 and len(row) == 5 + int(row[4])]
    check_count(name, int(lines[0][0]), len(elements), "elements")
    cells = []
    for gmsh_type, group in itertools.groupby(elements, key=lambda row: int(row[1])):
        rows = [[vertex_of.get(int(number), NONE) for number in row[5:]] for row in group]
        cells.append((_TYPES.get(gmsh_type, f"Gmsh {gmsh_type}"), np.array(rows)))
    return from_cells(x, cells, name)


def declared_elements(data: bytes, name: Path) -> int:
    """Number of elements that a file of version 2 or 4 declares; checks its nodes."""
    head = re.search(rb"^\s*\$MeshFormat\s+(\S+)\s+([01])\s", data[:4096], re.MULTILINE)
    if not head:
        refuse_kind("msh", name, "$MeshFormat or $NOD in the first line")
    nodes, elements = (_section(data, what, name) for what in ("Nodes", "Elements"))
    if float(head[1]) < 4.0:
        return int(elements.split(None, 1)[0])
    # The nodes begin with the number of blocks and the total, in 4.1 also with the range of tags. A block begins with
    # four numbers, the last of which is its count; its nodes have four numbers each.
    is_binary, is_4_0 = head[2] == b"1", head[1] == b"4.0"
    words = [] if is_binary else nodes.split()
    at = 2 if is_4_0 else 4
    if is_binary:
        block_count, total = struct.unpack_from("<2Q", nodes)
        at, to_count, block_size, node_size = 8 * at, 12, 20, 28 if is_4_0 else 32  # in bytes
    else:
        block_count, total = int(words[0]), int(words[1])
        to_count, block_size, node_size = 3, 4, 4  # in words
    found = 0
    for _ in range(block_count):
        count = struct.unpack_from("<Q", nodes, at + to_count)[0] if is_binary else int(words[at + to_count])
        at, found = at + block_size + node_size * count, found + count
    check_count(name, total, found, "nodes")
    return int(struct.unpack_from("<2Q", elements)[1] if is_binary else elements.split(None, 2)[1])


def _section(data: bytes, what: str, name: Path) -> bytes:
    """The bytes between ``$Nodes`` and ``$EndNodes``, or other such words."""
    end = "END" if what.isupper() else "End"
    match = re.search(rf"^\s*\${what}[ \t]*\r?\n(.*?)\${end}{what}\b".encode(), data, re.MULTILINE | re.DOTALL)
    if not match:
        raise FileError(f"{name} has no complete section ${what} ... ${end}{what}; {CUT_SHORT}")
    return match[1]
