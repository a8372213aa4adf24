"""How deep, by the penetrated tet alone: the estimate that [Teschner2003, 8] announces.

From the face or vertex of the penetrated tet that is part of the surface. Cheaper than ``depth``, but neighbours may
disagree on the way out, and tets without either leave by the nearest point of the surface.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats, Ints
from impinge.detect.common.results import VertexContacts
from impinge.detect.depth import local_depth_kernels as kernels
from impinge.detect.depth.body_states import State, surface_arrays
from impinge.detect.depth.inside_vertices import Found, groups, groups_in, nodes_of
from impinge.detect.depth.local_depth_kernels import BY_NOTHING
from impinge.detect.depth.nearest_exit import in_range, leave_by_nearest_point


def local_depth(states: Sequence[State], contacts: VertexContacts) -> tuple[Floats, Floats]:
    """Depth (k,) and unit direction out of the penetrated body (k, 3), each from the penetrated tet alone.

    If faces of the tet are on the surface: the least distance to the plane of one, and its normal. Else, if corners of
    it are: the distance to the nearest, and the normal of the surface there. Else, and where triangles are
    penetrated: the nearest point of the surface. Of several tets around a vertex, a face comes before a corner,
    then the least depth counts. Cheaper than ``consistent_depth``, but neighbours may disagree.
    """
    nodes = nodes_of(states, contacts)
    depth, direction = np.zeros(len(contacts.vertex)), np.zeros((len(contacts.vertex), 3))
    source = np.full(len(depth), BY_NOTHING, dtype=np.int8)
    for in_body, rows in groups(contacts.in_body):
        if states[in_body].topology.has_tets:
            points = nodes.x[nodes.of_contact[rows]]
            depth[rows], direction[rows], source[rows] = _estimate(states[in_body], points, contacts.tet[rows])
    order = np.lexsort((depth, source, nodes.of_contact))
    best = order[np.unique(nodes.of_contact[order], return_index=True)[1]]
    found = Found(depth[best], direction[best], source[best].astype(np.int32))
    for group, _, _ in groups_in(nodes, found):
        leave_by_nearest_point(states[group.in_body], group, group.found.round == BY_NOTHING)
    return found.depth[nodes.of_contact], found.direction[nodes.of_contact]


def _estimate(state: State, points: Floats, tet: Ints) -> tuple[Floats, Floats, NDArray[np.int8]]:
    """Depth, direction and what they were taken from, of points in tets."""
    topology, (x, factor) = state.topology, in_range(state.positions)
    depth, direction, source = np.zeros(len(tet)), np.zeros((len(tet), 3)), np.zeros(len(tet), dtype=np.int8)
    kernels.estimate_at_tets.over(len(tet))(
        factor * points, tet, topology.elements, topology.is_exposed, surface_arrays(state, x), depth, direction, source
    )
    return depth / factor, direction, source
