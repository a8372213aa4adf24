"""Out through the nearest point of the surface: for vertices that no border reaches, and where directions cancel."""

from __future__ import annotations

import math

import numpy as np

from impinge.checks import Bools, Floats, Ints
from impinge.detect.boxes.whole_tree import LARGEST_EXPONENT
from impinge.detect.common.nearest_results import ClosestPoints
from impinge.detect.depth import surface_normals_kernels as kernels
from impinge.detect.depth.body_states import State, ask, surface_arrays
from impinge.detect.depth.consistent_depth_kernels import ON_SURFACE
from impinge.detect.depth.inside_vertices import Group
from impinge.detect.proximity.closest_points import closest_points
from impinge.mesh.tri_mesh import TriMesh


def leave_by_nearest_point(state: State, group: Group, chosen: Bools, factor: float = 1.0) -> None:
    """Step 4, for the chosen nodes, whose depths are multiplied by ``factor``; they count as found at the border."""
    if not chosen.any():
        return
    found = group.found
    for is_self in (False, True):
        rows = np.flatnonzero(chosen & (group.is_own == is_self))
        if len(rows):
            without = _pieces_of(state, group.vertex[group.is_own], group.vertex[rows]) if is_self else None
            depth, direction = _nearest_point(state, group.points[rows], without)
            found.depth[rows], found.direction[rows], found.round[rows] = factor * depth, direction, 0


def _pieces_of(state: State, colliding: Ints, vertex: Ints) -> Bools:
    """Mark all colliding vertices that edges between such connect with one of ``vertex``, shape (n,)."""
    from scipy.sparse import csr_array  # takes longer to import than most queries
    from scipy.sparse.csgraph import connected_components

    vertex_count = len(state.positions)
    start, neighbour = state.topology.vertex_neighbour
    graph = csr_array((np.ones(len(neighbour), dtype=np.int8), neighbour, start), shape=(vertex_count, vertex_count))
    _, piece_of_colliding = connected_components(graph[colliding][:, colliding], directed=False)
    is_chosen = np.isin(piece_of_colliding, piece_of_colliding[np.isin(colliding, vertex)])
    marked = np.zeros(vertex_count, dtype=np.bool_)
    marked[colliding[is_chosen]] = True
    return marked


def _nearest(state: State, points: Floats, only: Bools | None = None) -> tuple[ClosestPoints, Ints]:
    """Nearest points of the surface, or of some of its faces, and the corners of their triangles."""

    def nearest(surface: TriMesh, transform: Floats | None) -> tuple[ClosestPoints, Ints]:
        answer = closest_points(surface, points, transform_a=transform, inside=False)
        return answer, surface.faces[answer.triangle]

    if only is None:
        return ask(state, nearest)
    return nearest(TriMesh(state.positions, state.topology.boundary.faces[only], validate="trust"), None)


def _nearest_point(state: State, points: Floats, without: Bools | None) -> tuple[Floats, Floats]:
    """Distance to the surface and direction there, of faces that have no vertex of ``without`` if there are such."""
    only = None
    if without is not None:
        is_left: Bools = np.logical_not(without[state.topology.boundary.faces].any(axis=1))
        only = is_left if is_left.any() else None
    answer, corner = _nearest(state, points, only)
    direction = np.zeros_like(points)
    kernels.unit_rows(answer.point - points, direction)
    is_on = answer.distance <= ON_SURFACE * np.abs(points).max(axis=1)
    if is_on.any():
        on_surface = np.zeros((int(is_on.sum()), 3))
        surface = surface_arrays(state, in_range(state.positions)[0])
        kernels.write_normals(corner[is_on], answer.barycentric[is_on], surface, on_surface)
        direction[is_on] = on_surface
    return answer.distance, direction


def in_range(x: Floats) -> tuple[Floats, float]:
    """Positions, times a power of two if products of four of them could leave the range of doubles, and that power."""
    exponent = math.frexp(float(np.abs(x).max(initial=0.0)))[1]
    if abs(exponent) <= LARGEST_EXPONENT:
        return x, 1.0
    factor = math.ldexp(1.0, max(min(-exponent, 1000), -1000))
    x = factor * x
    x.flags.writeable = False  # as a body's are: Numba compiles anew for the other kind
    return x, factor
