"""The trees of ``breadth_first``: a leaf permutation per body, boxes fitted bottom-up, and where the arrays live.

A tree is its leaf permutation: node i at height h covers leaves i·2^h .. (i + 1)·2^h - 1, so that level h has
ceil(n / 2^h) nodes (4.1). Heights above the root have one node too, the root again: that is how trees of different
depths are made equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from impinge.backend.scan import exclusive_scan
from impinge.checks import Floats, Ints
from impinge.detect.boxes.rank_split_kernels import split_by_rank
from impinge.detect.breadth_first import kernels
from impinge.mesh.tri_mesh import Snapshot

Volume: TypeAlias = Literal["aabb", "14-dop", "18-dop"]

HEIGHTS = 32
"""Levels of every tree, most of them above the root: 2^31 leaves are more than a body can have."""

# Directions are a quarter of (±1, ±1, ±1) and (±1, ±1, 0), so that no projection overflows.
DIRECTIONS: dict[Volume, Floats] = {
    "aabb": np.zeros((0, 3)),
    "14-dop": 0.25 * np.array([[1, 1, 1], [1, 1, -1], [1, -1, 1], [1, -1, -1]]),
    "18-dop": 0.25 * np.array([[1, 1, 0], [1, -1, 0], [1, 0, 1], [1, 0, -1], [0, 1, 1], [0, 1, -1]]),
}
"""Axes of each volume beyond x, y and z: corners of a cube, or its edges."""


class Device(Protocol):
    """Where arrays live and kernels run."""

    name: str

    def upload(self, array: Any) -> Any:
        """A host array on the device."""

    def download(self, array: Any) -> Any:
        """A device array on the host."""

    def empty(self, shape: Any, dtype: Any) -> Any:
        """A new array on the device, to be written in full."""

    def concatenate(self, arrays: list[Any]) -> Any:
        """Rows of all arrays, one after the other."""

    def run(self, kernel: str, work: int, *args: Any) -> None:
        """Run a kernel of ``breadth_first_kernels`` for indices 0 .. work - 1."""

    def scan(self, counts: Any) -> tuple[Any, int]:
        """Exclusive prefix sums, one more than counts, and the total."""


class Cpu:
    """Threads and NumPy arrays."""

    name = "cpu"

    def upload(self, array: Any) -> Any:
        """The array itself."""
        return array

    def download(self, array: Any) -> Any:
        """The array itself."""
        return array

    def empty(self, shape: Any, dtype: Any) -> Any:
        """A new array."""
        return np.zeros(shape, dtype)

    def concatenate(self, arrays: list[Any]) -> Any:
        """Rows of all arrays, one after the other."""
        return np.concatenate(arrays)

    def run(self, kernel: str, work: int, *args: Any) -> None:
        """Run a kernel on one thread or on all, whatever suits the work."""
        getattr(kernels, kernel).over(work)(*args)

    def scan(self, counts: Any) -> tuple[Any, int]:
        """Exclusive prefix sums, one more than counts, and the total."""
        start = exclusive_scan(counts)
        return start, int(start[-1])


@dataclass(frozen=True)
class Tree:
    """A leaf permutation and the volumes of all nodes, those of the leaves first; never written after it was made."""

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

    def assert_valid(self, device: Device, x: Floats, faces: Ints, live: Ints) -> None:
        """Check that every live triangle is one leaf, levels have their counts, and nodes bound what is below."""
        np.testing.assert_array_equal(np.sort(self.order), live)
        box, count = device.download(self.box), len(live)
        axes = box.shape[1] // 2
        corners = x[faces[self.order]]
        np.testing.assert_array_equal(box[:count, :3], corners.min(axis=1))
        np.testing.assert_array_equal(box[:count, axes : axes + 3], corners.max(axis=1))
        for below, (first, size) in zip(self.level[: self.height], self.level[1:]):
            assert size == -(-below[1] // 2)
            children = box[below[0] : below[0] + below[1]]
            pairs = np.concatenate([children, children[-1:]])[: 2 * size].reshape(size, 2, -1)
            np.testing.assert_array_equal(box[first : first + size, :axes], pairs[:, :, :axes].min(axis=1))
            np.testing.assert_array_equal(box[first : first + size, axes:], pairs[:, :, axes:].max(axis=1))
        assert len(box) == (self.level[self.height].sum() if count else 0)
        assert (self.level[self.height :] == self.level[self.height]).all()


class Trees:
    """What one body keeps for all detectors of a device: its leaf order, and the tree last fitted for each volume."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._arranged: tuple[Ints, Ints, Any, Any] | None = None
        self._fitted: dict[Volume, tuple[object, Tree]] = {}

    def tree(self, snapshot: Snapshot, x: Floats, token: object, volume: Volume) -> Tree:
        """The tree of a body as ``snapshot`` says, fitted to positions ``x``, for which ``token`` stands."""
        known = self._fitted.get(volume)
        if known is None or known[0] != token:
            order, on_device = self._arrange(snapshot)
            known = self._fitted[volume] = (token, fit(self._device, x, order, *on_device, volume))
        return known[1]

    def _arrange(self, snapshot: Snapshot) -> tuple[Ints, tuple[Any, Any]]:
        """Leaf order, and faces and order on the device; made anew after an edit, which gives a body new live ids."""
        known = self._arranged
        if known is None or known[0] is not snapshot.live:
            order = leaf_order(snapshot)
            device = self._device
            known = (snapshot.live, order, device.upload(snapshot.elements), device.upload(order))
            self._arranged = known
        return known[1], known[2:]


def leaf_order(snapshot: Snapshot) -> Ints:
    """Order the live triangles so that every aligned run of 2^h of them is compact."""
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
    level = level_table(len(order))
    directions = DIRECTIONS[volume]
    height = max(len(order) - 1, 0).bit_length()
    axes = 3 + len(directions)
    if not len(order):
        return Tree(order, level, device.empty((0, 2 * axes), np.float64), np.zeros(6))
    box = device.empty((int(level[height].sum()), 2 * axes), np.float64)
    device.run("fit_leaves", len(order), device.upload(x), faces, leaves, device.upload(directions), box)
    for below, (first, count) in zip(level[:height].tolist(), level[1:].tolist()):
        device.run("fit_nodes", count, count, *below, first, box)
    root = device.download(box[-1:])[0]
    return Tree(order, level, box, np.concatenate([root[:3], root[axes : axes + 3]]))
