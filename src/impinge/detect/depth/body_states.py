"""Bodies as a query saw them: what depths are measured in, whatever happens to the bodies meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from impinge.checks import NONE, Bools, Floats, Ints, as_transform, sorted_unique
from impinge.detect.common.pair_query import moved
from impinge.mesh.adjacency import Adjacency, grouped, tet_face_neighbours
from impinge.mesh.body import Body
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh

Answer = TypeVar("Answer")
Csr = tuple[NDArray[np.int64], NDArray[Any]]
"""Where the items of each row start, and the items."""


@dataclass(frozen=True)
class Topology:
    """What does not change when a body moves; kept with it until it is edited."""

    elements: Ints
    """Vertex ids of all tets or triangles, dead ones too, shape (m, 4) or (m, 3)."""
    live: Ints
    """Sorted ids of the elements that are alive."""
    boundary: Adjacency
    """The live triangles of the surface."""

    @property
    def has_tets(self) -> bool:
        """Whether the elements are tets."""
        return bool(self.elements.shape[1] == 4)

    @cached_property
    def vertex_neighbour(self) -> Csr:
        """The vertices that share an edge of a live element with each vertex, each once: (start, vertex)."""
        rows = self.elements[self.live].astype(np.int64)
        sides = [np.sort(rows[:, pair], axis=1) for pair in combinations(range(rows.shape[1]), 2)]
        keys = sorted_unique(np.concatenate([low << 32 | high for low, high in (side.T for side in sides)]))
        low, high = keys >> 32, keys & 0xFFFFFFFF
        low, high = low[low != high], high[low != high]
        start, order = grouped(np.concatenate([low, high]), self.boundary.vertex_count)
        return start, np.concatenate([high, low])[order].astype(np.int32)

    @cached_property
    def is_exposed(self) -> Bools:
        """Which faces of live tets, each opposite the corner of the same number, are on the surface, shape (m, 4)."""
        exposed = np.zeros(self.elements.shape, dtype=np.bool_)
        exposed[self.live] = tet_face_neighbours(self.elements[self.live]) == NONE
        return exposed


class State(NamedTuple):
    """One body as a query saw it, whatever happens to the body later."""

    positions: Floats
    """Vertices after the transform, shape (n, 3), read-only."""
    topology: Topology
    surface: TriMesh
    """Holds the tree of boxes; its vertices may have moved since."""
    transform: Floats | None
    version: int
    """That of the body when it was seen."""


def state_of(body: Body, transform: Any = None) -> State:
    """The body as it is now, moved by ``transform`` (4x4); triangles have to be closed if vertices are in them."""
    matrix = as_transform(transform, "transform")
    surface = body.surface if isinstance(body, TetMesh) else body
    # A tet mesh and its surface share this structure: one topology each, by the number of corners.
    kept: dict[int, tuple[tuple[int, int], Topology]] = surface.structure("depth", lambda _: {})
    while True:
        version = body.version
        snapshot, boundary = body.snapshot(), surface.adjacency
        key = body.topology_version, boundary.vertex_count
        if body.version == version:
            break
    corners = snapshot.elements.shape[1]
    known = kept.get(corners)
    if known is None or known[0] != key:
        known = kept[corners] = key, Topology(snapshot.elements, snapshot.live, boundary)
    positions = snapshot.vertices if matrix is None else moved(matrix, snapshot.vertices, "transform")
    return State(positions, known[1], surface, matrix, version)


def ask(state: State, question: Callable[[TriMesh, Floats | None], Answer]) -> Answer:
    """What ``question`` says of the surface, on its kept tree; of a copy, if the body has changed since it was seen."""
    positions = state.surface.positions
    if positions.version == state.version:
        answer = question(state.surface, state.transform)
        if positions.version == state.version:
            return answer
    return question(TriMesh(state.positions, state.topology.boundary.faces, validate="trust"), None)


def surface_arrays(state: State, x: Floats) -> tuple[Any, ...]:
    """The surface at given positions, as kernels take it."""
    boundary = state.topology.boundary
    return x, boundary.faces, *boundary.vertex_tri
