"""Penetration depth from the penetrated tet alone: the estimate that [Teschner2003, 8] announces.

It uses the faces or corners of the penetrated tet that are on the surface. Cheaper than ``consistent_depth``, but
neighbours may disagree on the way out; vertices in tets without either exit through the nearest surface point.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from impinge.checks import Floats
from impinge.detect.common.results import VertexContacts
from impinge.detect.depth import local_depth_kernels as kernels
from impinge.detect.depth.body_states import State, surface_arrays
from impinge.detect.depth.inside_vertices import NodeDepths, groups, nodes_of
from impinge.detect.depth.local_depth_kernels import BY_NOTHING
from impinge.detect.depth.nearest_exit import in_range, leave_by_nearest_point


def local_depth(states: Sequence[State], contacts: VertexContacts) -> tuple[Floats, Floats]:
    """Depth (k,) and unit direction out of the penetrated body (k, 3), each from the penetrated tet alone.

    If faces of the tet are on the surface: the least distance to the plane of one, and its normal. Else, if corners
    are: the distance to the nearest, and the normal of the surface there. Else, and in triangle meshes: the nearest
    surface point. Of several tets around a vertex, a face comes before a corner, then the least depth counts.
    """
    nodes, of_contact = nodes_of(states, contacts)
    count = len(contacts.vertex)
    depth, direction, source = np.zeros(count), np.zeros((count, 3)), np.full(count, BY_NOTHING, dtype=np.int8)
    for in_body, rows in groups(contacts.in_body):
        state, topology = states[in_body], states[in_body].topology
        if topology.elements.shape[1] == 4:
            x, factor = in_range(state.positions)
            out = np.zeros(len(rows)), np.zeros((len(rows), 3)), np.zeros(len(rows), dtype=np.int8)
            kernels.estimate_at_tets.over(len(rows))(
                factor * nodes.x[of_contact[rows]], contacts.tet[rows], topology.elements, topology.is_exposed,
                surface_arrays(state, x), *out,
            )  # fmt: skip
            depth[rows], direction[rows], source[rows] = out[0] / factor, out[1], out[2]
    order = np.lexsort((depth, source, of_contact))
    best = order[np.unique(of_contact[order], return_index=True)[1]]
    depths = NodeDepths(depth[best], direction[best], source[best].astype(np.int32))
    for in_body, _, part, part_depths in nodes.by_body(depths):
        leave_by_nearest_point(states[in_body], part, part_depths, part_depths.round == BY_NOTHING)
    return depths.depth[of_contact], depths.direction[of_contact]
