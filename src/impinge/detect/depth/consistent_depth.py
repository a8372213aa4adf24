"""Consistent penetration depth: how deep vertices are inside a body, and the direction out of it.

By the nearest surface point alone, neighbours on two sides of a thin part would leave in opposite directions.
[Heidelberger2004] measures where the surfaces cross, and propagates depth and direction inwards: neighbours agree.

1. Border.   Of each edge (p, o) of the mesh with p inside and o not, x is where it leaves the body: the crossing with
             the surface that is nearest to o (``edge_crossings_kernels``: exact signs, on the ``whole_tree``). n is
             the outward normal at x, mixed from those of the triangle's corners [Max1999]; or the triangle's own, where
             that is more than 60 degrees off, as on a spike.
                 ω = 1 / |x - p|²,   d(p) = Σ ω (x - p) · n / Σ ω,   r(p) = Σ ω n, at length one.
2. Rounds.   In each round, vertices without a depth take it from those neighbours q that had one before the round:
                 μ = 1 / |q - p|²,   d(p) = Σ μ ((q - p) · r(q) + d(q)) / Σ μ,   r(p) = Σ μ r(q), at length one.
3. Feet.     d is now the distance to planes that touch the surface somewhere near. A few times, c is the point of the
             surface that is nearest to p + d r, n the normal there, and d = (c - p) · n, r = n.
4. Exit.     d becomes the distance from p along r to the surface, if that is at most a quarter longer: p + d r is then
             on the surface.
5. Rest.     The others, and vertices that no round reaches (pieces wholly inside), leave through the nearest surface
             point (``closest_points``).

Departure  Steps 3 and 4 are ours. As published, depths in round bodies do not converge as meshes are refined: between
           two balls of tets that overlap by a fifth of their radius they stay 5 % too large at the deepest vertex,
           between their surfaces alone, which have no edges inside, 40 %. Each step leaves a share of d / R of the
           angle between r and the shortest way out, R the radius of curvature; the side on which p leaves was chosen in
           step 2, and a step that would turn r by more than 60 degrees from there is not taken. As published, too, d is
           the distance to a plane, and p + d r may be inside still. ``foot_steps=0`` leaves both steps out.
Guards     A vertex exactly on the surface has depth 0 and the normal there. Of several points, those at no distance
           count alone: the limit of the weights. A mean that would be negative is 0. Where directions cancel (a border
           vertex halfway between two sides), the nearest point of the surface decides. Where an edge crosses nothing
           (a tangled body), the other edges and then the neighbours decide.
Self       A body may be inside itself. Then faces that have p or o as a corner do not count for the edge (p, o); steps
           3 and 4 are left out, since p + d r is as near to faces around p; and in step 5 faces do not count that have
           a corner in the same piece of colliding vertices as p.
Outside    is where a face's normal points, if the surface encloses a positive volume, else the other side; for an edge
           through the interior of a face, its direction decides.
Guarantee  Depths are not negative, directions have length one and are finite; the same bits for any number of threads,
           runs and orders of bodies. p + d r is on the surface, but for rounding, unless a body is inside itself.
           Depths below flat surfaces are exact but for rounding.
Limits     Near sharp edges the normals turn over the width of a triangle, and ways out with them. Where d exceeds the
           radius of curvature there is no one shortest way, and step 3 may end anywhere within its 60 degrees. Of
           closed pieces within one another, the way leads out of one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from impinge.backend.jit import thread_count
from impinge.checks import NONE, Floats, Ints
from impinge.detect.boxes.tree import TreeOfBoxes, pose_tree, with_moved_vertices
from impinge.detect.boxes.whole_tree import fit_in_range, whole_tree
from impinge.detect.common.results import VertexContacts
from impinge.detect.depth import consistent_depth_kernels as kernels
from impinge.detect.depth.body_states import State, ask, surface_arrays
from impinge.detect.depth.consistent_depth_kernels import EXIT_REACH, OPPOSED, UNKNOWN
from impinge.detect.depth.inside_vertices import Links, NodeDepths, Nodes, links_of, nodes_of
from impinge.detect.depth.nearest_exit import leave_by_nearest_point
from impinge.detect.depth.surface_meeting_kernels import meet_surface
from impinge.detect.depth.surface_normals_kernels import outward_sign
from impinge.mesh.tri_mesh import TriMesh

FOOT_STEPS = 6
"""Most steps; each leaves a share d / R of the angle to the shortest way out, R the radius of curvature."""


def consistent_depth(
    states: Sequence[State], contacts: VertexContacts, *, foot_steps: int = FOOT_STEPS
) -> tuple[Floats, Floats]:
    """Depth (k,) and unit direction out of the penetrated body (k, 3) of each contact.

    ``contacts.body`` and ``.in_body`` are positions in ``states``. Contacts of one vertex in several tets of a body are
    equal. ``foot_steps=0`` is the method as published.
    """
    nodes, of_contact = nodes_of(states, contacts)
    links, many = links_of(states, nodes), len(nodes.key)
    depths = NodeDepths(np.zeros(many), np.zeros((many, 3)), np.zeros(many, dtype=np.int32))
    for in_body, rows, part, part_depths in nodes.by_body(depths):
        state, near = states[in_body], links.of_nodes(rows)
        ask(state, partial(_find_depths, state, part, part_depths, near, foot_steps))
    return depths.depth[of_contact], depths.direction[of_contact]


def _find_depths(
    state: State, nodes: Nodes, depths: NodeDepths, links: Links, foot_steps: int, body: TriMesh,
    transform: Floats | None,
) -> None:  # fmt: skip
    """All steps for the nodes inside of one body, whose tree is that of ``body``."""
    depths.round[:] = UNKNOWN
    tree = body.structure("boxes", TreeOfBoxes)
    with tree.lock:
        posed = with_moved_vertices(pose_tree(body, tree, transform, None, "a"), "a")
        size = max(float(np.abs(nodes.x).max()), float(np.abs(links.x).max(initial=0.0)))
        (fitted,), factor = fit_in_range([posed], size)
        points, surface = nodes.x, surface_arrays(state, fitted.x)
        if factor != 1.0:
            points, links = factor * points, links._replace(x=factor * links.x)
        outward = outward_sign(surface[0], surface[1])

        own = np.where(nodes.is_own, nodes.vertex, np.int32(NONE))
        touches, hits = _meet_surface(own, points, tuple(links), tuple(whole_tree(fitted)))
        kernels.start_at_border.over(len(own))(
            points, tuple(links), touches, hits, np.zeros((len(links.node), 3)), outward, surface, tuple(depths)
        )  # fmt: skip
        is_opposed = depths.round == OPPOSED
        leave_by_nearest_point(state, nodes, depths, is_opposed, factor)
        reach_inwards(points, links, depths)
        if foot_steps > 0:
            is_inside = (depths.round >= 0) & ~is_opposed & ~nodes.is_own & (touches[0] < 0)
            walking = np.flatnonzero(is_inside & (depths.depth > 0.0))
            whole = tuple(whole_tree(fitted))  # again: the search for nearest points may fit it to another scale
            kernels.step_to_feet.over(len(walking))(
                walking, points, foot_steps, outward, surface, whole, thread_count(), np.zeros(1, dtype=np.int64),
                tuple(depths),
            )  # fmt: skip
            depths.round[is_inside & (depths.depth <= 0.0)] = UNKNOWN
            # Exit: depth becomes the length of the way along direction, where that leads out.
            rows = walking[depths.depth[walking] > 0.0]
            many, reach = len(rows), EXIT_REACH * depths.depth[rows]
            ends = points[rows] + reach[:, None] * depths.direction[rows]
            none = np.full(many, NONE, dtype=np.int32)
            _, hits = _meet_surface(none, points[rows], (np.arange(many + 1), none, np.full(many, NONE), ends), whole)
            is_out = hits[0] > 0.0
            depths.depth[rows[is_out]] = (hits[0] * reach)[is_out]
            depths.round[rows[~is_out]] = UNKNOWN
        leave_by_nearest_point(state, nodes, depths, depths.round < 0, factor)
    depths.depth[:] /= factor


def _meet_surface(own: Ints, points: Floats, links: tuple[Any, ...], whole: tuple[Any, ...]) -> tuple[Any, Any]:
    """Touches and hits of ``meet_surface``."""
    n, k, counter = len(own), len(links[1]), np.zeros(1, dtype=np.int64)
    touches = np.zeros(n, np.int32), np.zeros((n, 3), np.int32), np.zeros((n, 3))
    hits = np.zeros(k), np.zeros(k, np.int32), np.zeros((k, 3), np.int32), np.zeros((k, 3)), np.zeros(k, np.int8)
    meet_surface.over(n)(own, points, links, whole, thread_count(), counter, touches, hits)
    return touches, hits


def reach_inwards(points: Floats, links: Links, depths: NodeDepths) -> None:
    """Step 2: rounds, until one reaches no node."""
    waiting = np.flatnonzero(depths.round == UNKNOWN)
    for this_round in count(1):
        kernels.reach_neighbours.over(len(waiting))(
            waiting, links.start, links.node, points, this_round, tuple(depths)
        )  # fmt: skip
        is_waiting = depths.round[waiting] == UNKNOWN
        if is_waiting.all():
            break
        waiting = waiting[is_waiting]
