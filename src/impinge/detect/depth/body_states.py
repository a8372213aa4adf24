"""Body states: bodies at the moment of a query, in which depths are measured; later changes do not reach them."""

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
"""Start of each row, and the items: a CSR list."""


@dataclass(frozen=True)
class Topology:
    """Connectivity, kept with the body until an edit."""

    elements: Ints
    """Vertex ids of all tets or triangles, dead ones too, shape (m, 4) or (m, 3)."""
    live: Ints
    """Sorted ids of the elements that are alive."""
    boundary: Adjacency
    """The live triangles of the surface."""

    @cached_property
    def vertex_neighbour(self) -> Csr:
        """The vertices that share an edge of a live element with each vertex, each once: (start, vertex)."""
        pairs = list(combinations(range(self.elements.shape[1]), 2))
        side = np.sort(self.elements[self.live].astype(np.int64)[:, pairs], axis=2)
        keys = sorted_unique(side[..., 0] << 32 | side[..., 1])
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
    """One body at the moment of a query."""

    positions: Floats
    """Vertices after the transform, shape (n, 3), read-only."""
    topology: Topology
    surface: TriMesh
    """Holds the tree of boxes; its vertices may have moved since."""
    transform: Floats | None
    version: int
    """Version of the body at that moment."""


def state_of(body: Body, transform: Any = None) -> State:
    """The current state of a body, moved by ``transform`` (4x4); surfaces that vertices are inside of are closed."""
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
    """The answer of ``question`` for the surface with its kept tree; for a copy, if the body has changed since."""
    if state.surface.version == state.version:
        answer = question(state.surface, state.transform)
        if state.surface.version == state.version:
            return answer
    return question(TriMesh(state.positions, state.topology.boundary.faces, validate="trust"), None)


def surface_arrays(state: State, x: Floats) -> tuple[Any, ...]:
    """The surface at given positions, as kernels take it: (x, faces, start, triangle)."""
    boundary = state.topology.boundary
    return x, boundary.faces, *boundary.vertex_tri
