"""What bodies keep for their layered depth images: the images themselves, and whether the body has a volume.

An image belongs to one state of a body (its version, the transform, the active triangles) and to one view (the window,
the axis, the range of depths). It is never written after it was made, and found again by exactly that: what has moved
since has another version, so that no image can be stale.

Whether triangles are closed and agree on which side is outside follows from their indices, once per topology. Where
indices do not tell (soups, whose triangles share no vertices), positions are compared, once per version.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats, Ints, as_ids, as_transform
from impinge.detect.common.pair_query import moved
from impinge.detect.layered_depth import raster_kernels as kernels
from impinge.detect.layered_depth.images import Device, Image, Scratch, Solid, View
from impinge.detect.layered_depth.raster_kernels import BOX_CHUNKS
from impinge.errors import MeshError
from impinge.mesh.adjacency import Adjacency
from impinge.mesh.body import weld_vertices
from impinge.mesh.tri_mesh import Snapshot, TriMesh, used_ids

Item = TypeVar("Item", bound=np.generic)

KEPT_IMAGES = 6
"""Images that one body keeps: three axes of two pairs."""
KEPT_SIZE = 1 << 26
"""Pixels and fragments of all images that one body keeps, some 700 MB; the latest is kept, however large it is."""

Images = dict[tuple[Hashable, ...], Image]


def with_latest(images: Images, key: tuple[Hashable, ...], latest: Image) -> Images:
    """Images of the same version, as many of the later ones as there is room for, and the latest at the end."""
    kept, room = [(key, latest)], KEPT_SIZE - latest.size
    for each, image in reversed(images.items()):
        room -= image.size
        if image.solid.token[0] != latest.solid.token[0] or room < 0 or len(kept) == KEPT_IMAGES:
            break
        kept.append((each, image))
    return dict(reversed(kept))


class Topology(NamedTuple):
    """What does not depend on where vertices are."""

    live: Ints
    """The list of live triangles, told apart from others by being this very array."""
    vertex_count: int
    chosen: Ints | None
    """Active triangles, None if all are."""
    ids: Ints
    used: Ints
    closed: bool
    """Whether the triangles are closed and oriented as they are indexed."""

    def fits(self, snapshot: Snapshot, chosen: Ints | None) -> bool:
        """Whether it is that of a snapshot."""
        if self.live is not snapshot.live or self.vertex_count != len(snapshot.vertices):
            return False
        if self.chosen is None or chosen is None:
            return self.chosen is chosen
        return np.array_equal(self.chosen, chosen)


class Layers:
    """What one body keeps for all images of it."""

    def __init__(self, _: TriMesh) -> None:
        self.lock = threading.RLock()
        self._topology: Topology | None = None
        self._solid: Solid | None = None
        self._images: Images = {}
        self._scratch = Scratch()

    def solid(self, body: TriMesh, transform: Any, active: Any, letter: str) -> Solid:
        """The body as it is now, moved and narrowed to active triangles; refused if these are not closed."""
        snapshot = body.snapshot()
        matrix = as_transform(transform, f"transform_{letter}")
        chosen = None
        if active is not None:
            chosen = as_ids(active, name=f"active_{letter}", count=len(snapshot.elements))
        moved_by = b"" if matrix is None else matrix.tobytes()
        token = (snapshot.version, moved_by, None if chosen is None else chosen.tobytes())
        with self.lock:
            if self._solid is not None and self._solid.token == token:
                return self._solid
            topology = self._topology_of(snapshot, chosen)
            x = snapshot.vertices
            if matrix is not None:
                x = moved(matrix, x, f"transform_{letter}")
            if not topology.closed:
                _check_closed(x, snapshot.elements, topology.ids, f"body {letter}")
            bounds = _bounds(x, topology.used)
            self._solid = Solid(x, snapshot.elements, topology.ids, topology.used, bounds, token)
            return self._solid

    def image(self, device: Device, solid: Solid, view: View) -> Image:
        """The image of one state of the body, made if it is not kept."""
        key = (solid.token, view, device.name)
        with self.lock:
            found = self._images.get(key)
            if found is None:
                found = device.draw(solid, view, self._scratch)
                if numba.config.BOUNDSCHECK:  # where fragments were cut off, only the whole body is crossed evenly
                    whole = view._replace(cut=False)
                    device.draw(solid, whole, self._scratch).assert_valid(device)
                    found.assert_valid(device)
                self._images = with_latest(self._images, key, found)
            return found

    def _topology_of(self, snapshot: Snapshot, chosen: Ints | None) -> Topology:
        kept = self._topology
        if kept is not None and kept.fits(snapshot, chosen):
            return kept
        ids = snapshot.live if chosen is None else np.intersect1d(chosen, snapshot.live, assume_unique=True)
        faces = snapshot.elements[ids]
        ids, used = read_only(ids), read_only(used_ids(faces, len(snapshot.vertices)))
        adjacency = Adjacency(faces, len(snapshot.vertices))
        closed = not (adjacency.edge_degree % 2).any() and not adjacency.edge_balance.any()
        self._topology = Topology(snapshot.live, len(snapshot.vertices), chosen, ids, used, closed)
        return self._topology


def read_only(array: NDArray[Item]) -> NDArray[Item]:
    """A view that cannot be written: Numba compiles anew for the other kind."""
    view = array.view()
    view.flags.writeable = False
    return view


def _bounds(x: Floats, used: Ints) -> Floats:
    """Lowest and highest corner of the used vertices."""
    box = np.zeros((BOX_CHUNKS, 6))
    kernels.bound_vertices.over(len(used))(x, used, box)
    return np.stack([box[:, :3].min(axis=0), box[:, 3:].max(axis=0)])


def _check_closed(x: Floats, faces: Ints, ids: Ints, name: str) -> None:
    """Refuse triangles that do not enclose a volume, even if vertices at equal positions count as one."""
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
        f"triangle {int(ids[row])}, but a volume needs a closed surface whose triangles agree on which side is "
        "outside: close the holes or turn triangles round (impinge.validate tells more)"
    )
