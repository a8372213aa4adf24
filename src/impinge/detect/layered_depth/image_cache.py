"""Cache of the layered depth images of a body, and the check that it encloses a volume.

An image belongs to one state of a body (version, transform, active triangles) and to one view (window, axis, range of
depths), which are its key. Images are immutable and versions never repeat: no image is stale.

Closedness and orientation follow from the indices of triangles, once per topology. Where indices do not suffice (soups,
whose triangles share no vertices), positions are compared, once per version.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from impinge.checks import Floats, Ints, as_ids
from impinge.detect.common.pair_query import moved
from impinge.detect.layered_depth import raster_kernels as kernels
from impinge.detect.layered_depth.images import Cpu, Image, Scratch, Solid, View
from impinge.detect.layered_depth.raster_kernels import BOX_CHUNKS
from impinge.errors import MeshError
from impinge.mesh.adjacency import Adjacency
from impinge.mesh.body import weld_vertices
from impinge.mesh.tri_mesh import TriMesh, used_ids

Item = TypeVar("Item", bound=np.generic)
BodyType = TypeVar("BodyType")

KEPT_IMAGES = 6
"""Most images kept per body: three axes of two pairs."""
KEPT_SIZE = 1 << 26
"""Most pixels and fragments of all images kept per body, some 700 MB; the latest image is kept at any size."""


class ImageCache(ABC, Generic[BodyType]):
    """The latest images of a body."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._images: dict[tuple[Hashable, ...], Image] = {}

    @abstractmethod
    def solid(self, body: BodyType, transform: Floats | None, active: ArrayLike | None, letter: str) -> Solid:
        """The body as it is now, after ``transform``, with ``active`` triangles only."""

    @abstractmethod
    def _draw(self, device: Cpu, solid: Solid, view: View) -> Image:
        """Draw an image that is not kept."""

    def image(self, device: Cpu, solid: Solid, view: View) -> Image:
        """The image of one state of the body; drawn if it is not kept."""
        key: tuple[Hashable, ...] = (solid.token, view, device.name)
        with self._lock:
            if key in self._images:
                return self._images[key]
            latest = self._draw(device, solid, view)
            kept, room = [(key, latest)], KEPT_SIZE - latest.size
            for each, image in reversed(self._images.items()):
                room -= image.size
                if image.solid.token[0] != solid.token[0] or room < 0 or len(kept) == KEPT_IMAGES:
                    break
                kept.append((each, image))
            self._images = dict(reversed(kept))
            return latest


class Topology(NamedTuple):
    """What does not depend on positions."""

    live: Ints
    """Live triangles; a topology is current while the body has this very array."""
    vertex_count: int
    active: bytes | None
    """Active triangles, None if all are."""
    ids: Ints
    used: Ints
    closed: bool
    """Whether the triangles are closed and oriented by their indices."""


class MeshImages(ImageCache[TriMesh]):
    """Images of a triangle mesh, its topology and its last state; a structure of the mesh."""

    def __init__(self, _: TriMesh) -> None:
        super().__init__()
        self._topology: Topology | None = None
        self._solid: Solid | None = None
        self._scratch = Scratch()

    def solid(self, body: TriMesh, transform: Floats | None, active: ArrayLike | None, letter: str) -> Solid:
        """The body as it is now, after ``transform``, with ``active`` triangles only; refused if these are open."""
        snapshot = body.snapshot()
        x, faces, ids, active_ids = snapshot.vertices, snapshot.elements, snapshot.live, None
        if active is not None:
            chosen = as_ids(active, name=f"active_{letter}", count=len(faces))
            active_ids = chosen.tobytes()
        token = (snapshot.version, b"" if transform is None else transform.tobytes(), active_ids)
        with self._lock:
            if self._solid is not None and self._solid.token == token:
                return self._solid
            topology = self._topology
            if topology is None or topology.live is not ids or topology[1:3] != (len(x), active_ids):
                if active is not None:
                    ids = np.intersect1d(chosen, ids, assume_unique=True)
                used, adjacency = read_only(used_ids(faces[ids], len(x))), Adjacency(faces[ids], len(x))
                closed = not (adjacency.edge_degree % 2).any() and not adjacency.edge_balance.any()
                topology = Topology(snapshot.live, len(x), active_ids, read_only(ids), used, closed)
                self._topology = topology
            if transform is not None:
                x = moved(transform, x, f"transform_{letter}")
            if not topology.closed:
                _check_closed(x, faces, topology.ids, f"body {letter}")
            box = np.zeros((BOX_CHUNKS, 6))
            kernels.bound_vertices.over(len(topology.used))(x, topology.used, box)
            bounds = np.stack([box[:, :3].min(axis=0), box[:, 3:].max(axis=0)])
            self._solid = Solid(x, faces, topology.ids, topology.used, bounds, token)
            return self._solid

    def _draw(self, device: Cpu, solid: Solid, view: View) -> Image:
        image = device.draw(solid, view, self._scratch)
        if numba.config.BOUNDSCHECK:  # where fragments were cut, only the whole body has as many exits as entries
            device.draw(solid, view._replace(cut=False), self._scratch).assert_valid(device)
            image.assert_valid(device)
        return image


def read_only(array: NDArray[Item]) -> NDArray[Item]:
    """A read-only view, as the arrays of bodies are: Numba specialises kernels on that."""
    view = array.view()
    view.flags.writeable = False
    return view


def _check_closed(x: Floats, faces: Ints, ids: Ints, name: str) -> None:
    """Refuse triangles that enclose no volume even if vertices at equal positions count as one."""
    _, welded = weld_vertices(x, faces[ids])
    adjacency = Adjacency(welded, len(x))
    is_open = adjacency.edge_degree % 2 == 1
    flipped = ~is_open & (adjacency.edge_balance != 0)
    bad = np.flatnonzero(is_open | flipped)
    if not len(bad):
        return
    start, triangle = adjacency.edge_tri
    row = int(triangle[start[bad[0]]])
    corners = [int(np.flatnonzero(welded[row] == vertex)[0]) for vertex in adjacency.edges[bad[0]]]
    places = " to ".join(str([float(f"{c:.6g}") for c in x[faces[ids[row], k]]]) for k in corners)
    raise MeshError(
        f"{name} has {int(is_open.sum())} open and {int(flipped.sum())} flipped edges, the first from {places} on "
        f"triangle {int(ids[row])}, but a volume needs a closed surface of consistently oriented triangles: close the "
        "holes or flip triangles (impinge.validate lists them)"
    )
