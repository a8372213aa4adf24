"""Exit through the nearest surface point: for vertices that no border reaches, and where directions cancel."""

from __future__ import annotations

import math

import numpy as np

from impinge.checks import Bools, Floats, Ints
from impinge.detect.boxes.whole_tree import LARGEST_EXPONENT
from impinge.detect.common.nearest_results import ClosestPoints
from impinge.detect.depth import surface_normals_kernels as kernels
from impinge.detect.depth.body_states import State, ask, surface_arrays
from impinge.detect.depth.consistent_depth_kernels import ON_SURFACE
from impinge.detect.depth.inside_vertices import NodeDepths, Nodes
from impinge.detect.proximity.closest_points import closest_points
from impinge.mesh.tri_mesh import TriMesh


def leave_by_nearest_point(
    state: State, nodes: Nodes, depths: NodeDepths, chosen: Bools, factor: float = 1.0
) -> None:  # fmt: skip
    """Step 5 for the chosen nodes of one body; their depths are multiplied by ``factor``, their round is 0."""
    if not chosen.any():
        return
    for is_self in (False, True):
        rows = np.flatnonzero(chosen & (nodes.is_own == is_self))
        if len(rows):
            only = _other_faces(state, nodes.vertex[nodes.is_own], nodes.vertex[rows]) if is_self else None
            depth, direction = _nearest_point(state, nodes.x[rows], only)
            depths.depth[rows], depths.direction[rows], depths.round[rows] = factor * depth, direction, 0


def _other_faces(state: State, colliding: Ints, vertex: Ints) -> Bools | None:
    """Mask of the faces without a corner in a piece of colliding vertices that has one of ``vertex``; None if empty."""
    from scipy.sparse import csr_array  # takes longer to import than most queries
    from scipy.sparse.csgraph import connected_components

    vertex_count = len(state.positions)
    start, neighbour = state.topology.vertex_neighbour
    graph = csr_array((np.ones(len(neighbour), dtype=np.int8), neighbour, start), shape=(vertex_count, vertex_count))
    _, piece_of_colliding = connected_components(graph[colliding][:, colliding], directed=False)
    is_chosen = np.isin(piece_of_colliding, piece_of_colliding[np.isin(colliding, vertex)])
    marked = np.zeros(vertex_count, dtype=np.bool_)
    marked[colliding[is_chosen]] = True
    is_other: Bools = np.logical_not(marked[state.topology.boundary.faces].any(axis=1))
    return is_other if is_other.any() else None


def _nearest_point(state: State, points: Floats, only: Bools | None) -> tuple[Floats, Floats]:
    """Distance to the surface, or to some of its faces, and direction there."""

    def nearest(surface: TriMesh, transform: Floats | None) -> tuple[ClosestPoints, Ints]:
        answer = closest_points(surface, points, transform_a=transform, inside=False)
        return answer, surface.faces[answer.triangle]

    if only is None:
        answer, corner = ask(state, nearest)
    else:
        faces = state.topology.boundary.faces[only]
        answer, corner = nearest(TriMesh(state.positions, faces, validate="trust"), None)
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
    x.flags.writeable = False  # as positions of bodies are: Numba specialises kernels on that
    return x, factor
