"""Balanced binary trees over triangles: a leaf order per body, volumes fitted bottom-up, on a device.

A tree is its leaf order: node i at height h covers leaves i·2^h .. (i + 1)·2^h - 1; level h has ceil(n / 2^h) nodes
(4.1). Heights above the root repeat the root: trees of different depths become equally deep.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from impinge.backend.scan import exclusive_scan
from impinge.checks import Bools, Floats, Ints, as_ids
from impinge.detect.boxes.rank_split_kernels import split_by_rank
from impinge.detect.breadth_first import kernels
from impinge.detect.common.pair_query import moved
from impinge.mesh.tri_mesh import Snapshot, TriMesh

Volume: TypeAlias = Literal["aabb", "14-dop", "18-dop"]

HEIGHTS = 32
"""Levels of every tree, most of them above the root: 2^31 leaves are more than a body can have."""

# Directions are a quarter of (±1, ±1, ±1) and (±1, ±1, 0): no projection overflows.
DIRECTIONS: dict[Volume, Floats] = {
    "aabb": np.zeros((0, 3)),
    "14-dop": 0.25 * np.array([[1, 1, 1], [1, 1, -1], [1, -1, 1], [1, -1, -1]]),
    "18-dop": 0.25 * np.array([[1, 1, 0], [1, -1, 0], [1, 0, 1], [1, 0, -1], [0, 1, 1], [0, 1, -1]]),
}
"""Axes of each volume beyond x, y and z: corners of a cube, or its edges."""


class Device:
    """Where arrays live and kernels run: NumPy arrays and CPU threads. ``Cuda`` overrides all methods."""

    name = "cpu"

    def upload(self, array: NDArray[Any]) -> Any:
        """Copy a host array to the device."""
        return array

    def download(self, array: Any) -> NDArray[Any]:
        """Copy a device array to the host."""
        host: NDArray[Any] = array
        return host

    def empty(self, shape: int | tuple[int, ...], dtype: type[np.generic]) -> Any:
        """Allocate an array on the device; the caller writes all of it."""
        return np.zeros(shape, dtype)

    def concatenate(self, arrays: list[Any]) -> Any:
        """Concatenate the rows of device arrays."""
        return np.concatenate(arrays)

    def run(self, kernel: str, work: int, *args: Any) -> None:
        """Run a kernel of ``breadth_first.kernels`` for indices 0 .. work - 1."""
        getattr(kernels, kernel).over(work)(*args)

    def scan(self, counts: Any) -> tuple[Any, int]:
        """Exclusive prefix sums, one more than counts, and the total."""
        start = exclusive_scan(counts)
        return start, int(start[-1])


@dataclass(frozen=True)
class Tree:
    """A leaf order and the volumes of all nodes, leaves first; immutable."""

    order: Ints
    """Triangle of each leaf, shape (leaf_count,)."""
    level: NDArray[np.int64]
    """First row and number of nodes at each height, shape (HEIGHTS, 2)."""
    box: Any
    """Lower then upper bounds of each node, shape (node_count, 2 · axes), on the device."""
    root: Floats
    """Box of the root, on the host, shape (6,); zeros for a tree without leaves."""

    @property
    def height(self) -> int:
        """Height of the root above the leaves."""
        return max(len(self.order) - 1, 0).bit_length()


class Trees:
    """Structure kept with a body per device: its leaf order, and the last fitted tree of each volume."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._arranged: tuple[Ints, Ints, Any, Any] | None = None
        self._fitted: dict[Volume, tuple[object, Tree]] = {}

    def tree(self, snapshot: Snapshot, x: Floats, token: object, volume: Volume) -> Tree:
        """The tree of ``snapshot`` fitted to positions ``x``, which ``token`` identifies."""
        fitted = self._fitted.get(volume)
        if fitted is None or fitted[0] != token:
            arranged = self._arranged
            if arranged is None or arranged[0] is not snapshot.live:  # an edit replaces the list of live ids
                order, upload = leaf_order(snapshot), self._device.upload
                arranged = self._arranged = (snapshot.live, order, upload(snapshot.elements), upload(order))
            fitted = self._fitted[volume] = token, fit(self._device, x, *arranged[1:], volume)
        return fitted[1]


class PosedBody(NamedTuple):
    """One body as a query sees it."""

    x: Floats
    """Positions after the transform, to which the tree is fitted."""
    faces: Ints
    tree: Tree
    active: Bools | None
    """Mask of the triangles that take part; None for all."""


def pose(
    device: Device, body: TriMesh, snapshot: Snapshot, matrix: Floats | None, active: ArrayLike | None, letter: str,
    volume: Volume = "aabb",
) -> PosedBody:  # fmt: skip
    """Move ``snapshot`` by ``matrix`` and fit the tree to it."""
    x, token, mask = snapshot.vertices, (snapshot.version, b""), None
    if matrix is not None:
        x, token = moved(matrix, x, f"transform_{letter}"), (snapshot.version, matrix.tobytes())
    if active is not None:
        mask = np.zeros(len(snapshot.elements), dtype=np.bool_)
        mask[as_ids(active, name=f"active_{letter}", count=len(mask))] = True
    trees = body.structure(f"breadth_first on {device.name}", lambda _: Trees(device))
    return PosedBody(x, snapshot.elements, trees.tree(snapshot, x, token, volume), mask)


def leaf_order(snapshot: Snapshot) -> Ints:
    """Order the live triangles for compact nodes: each aligned range of 2^h triangles is a cluster."""
    order = snapshot.live.copy()
    centre = np.zeros((3, len(snapshot.elements)))
    corners = snapshot.vertices[snapshot.elements[order]]
    centre[:, order] = (0.25 * corners).sum(axis=1).T  # a quarter of each: sums of huge corners stay finite
    split_by_rank(centre, order, 1)
    return order


def level_table(leaf_count: int) -> NDArray[np.int64]:
    """First row and number of nodes at each height; heights above the root repeat the root."""
    table = np.zeros((HEIGHTS, 2), dtype=np.int64)
    table[0, 1] = leaf_count
    for h in range(1, HEIGHTS):
        first, count = table[h - 1]
        table[h] = (first + count, -(-count // 2)) if count > 1 else (first, count)
    return table


def fit(device: Device, x: Floats, order: Ints, faces: Any, leaves: Any, volume: Volume) -> Tree:
    """Fit the leaves to positions ``x``, then every level above to the one below [vandenBergen1997]."""
    level, directions = level_table(len(order)), DIRECTIONS[volume]
    axes = 3 + len(directions)
    if not len(order):
        return Tree(order, level, device.empty((0, 2 * axes), np.float64), np.zeros(6))
    height = (len(order) - 1).bit_length()
    box = device.empty((int(level[height].sum()), 2 * axes), np.float64)
    device.run("fit_leaves", len(order), device.upload(x), faces, leaves, device.upload(directions), box)
    for below, (first, count) in zip(level[:height].tolist(), level[1:].tolist()):
        device.run("fit_nodes", count, count, *below, first, box)
    root = device.download(box[-1:])[0]
    return Tree(order, level, box, np.concatenate([root[:3], root[axes : axes + 3]]))
