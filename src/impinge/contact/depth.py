"""How deep are vertices inside a body, and which way is out: consistent penetration depth.

A vertex p inside a body could leave it through the nearest point of its surface. Neighbours that lie on two sides of a
thin part would then leave in opposite directions. [Heidelberger2004] measures only where the surfaces cross, and
carries depth and direction inwards from there, so that neighbours agree:

1. Border.   Of each edge (p, o) of the mesh with p inside and o not, x is where it leaves the body: the crossing with
             the surface that is nearest to o (``edge_crossings_kernels``: exact signs; ``whole_tree``: few tests). n is
             the outward normal at x, mixed from those of the triangle's corners [Max1999]; or the triangle's own, where
             that is more than 60 degrees off, as on a spike.
                 ω = 1 / |x - p|²,   d(p) = Σ ω (x - p) · n / Σ ω,   r(p) = Σ ω n, at length one.
2. Rounds.   In each round, vertices without a depth take it from those neighbours q that had one before the round:
                 μ = 1 / |q - p|²,   d(p) = Σ μ ((q - p) · r(q) + d(q)) / Σ μ,   r(p) = Σ μ r(q), at length one.
3. Feet.     d is now the distance to planes that touch the surface somewhere near. A few times, c is the point of the
             surface that is nearest to p + d r, n the normal there, and d = (c - p) · n, r = n.
4. Rest.     Vertices that no round reaches (pieces that are wholly inside) leave through the nearest point of the
             surface (``closest_points``).

Departure  Step 3 is ours. As published, depths in round bodies do not converge as meshes are refined: between two balls
           of tets that overlap by a fifth of their radius they stay 5 % too large at the deepest vertex, between their
           surfaces alone, which have no edges inside, 40 %. Each step leaves a share of d / R of the angle between
           r and the shortest way out, R the radius of curvature; the side on which p leaves was chosen in step 2, and
           a step that would turn r by more than 60 degrees from there is not taken. ``foot_steps=0`` leaves step 3 out.
Guards     A vertex exactly on the surface has depth 0 and the normal there. Of several points, those at no distance
           count alone: the limit of the weights. A mean that would be negative is 0. Where directions cancel (a border
           vertex halfway between two sides), the nearest point of the surface decides. Where an edge crosses nothing
           (a tangled body), the other edges and then the neighbours decide.
Self       A body may be inside itself. Then faces that have p or o as a corner do not count for the edge (p, o); step 3
           is left out, since p + d r is as near to faces around p; and in step 4 faces do not count that have a corner
           in the same piece of colliding vertices as p.
Outside    is where a face's normal points to, if the surface encloses a positive volume, else the other side; an edge
           that passes through the inside of a face tells by itself.
Guarantee  Depths are not negative, directions have length one and are finite; the same bits for any number of threads,
           runs and orders of bodies. Depths below flat surfaces are exact but for rounding.
Limits     Near sharp edges the normals turn over the width of a triangle: a box of twelve triangles has no flat side in
           this sense. Where d exceeds the radius of curvature there is no one shortest way, and step 3 may end anywhere
           within its 60 degrees.

``local_depth`` is the simpler estimate of [Teschner2003, 8]: from the face or vertex of the penetrated tet that is part
of the surface.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations, count
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from impinge.arrays import NONE, Bools, Floats, Ints, as_transform
from impinge.backend.jit import thread_count
from impinge.contact import depth_kernels as kernels
from impinge.contact.depth_kernels import BY_NOTHING, OPPOSED, UNKNOWN
from impinge.detect.closest_points import closest_points
from impinge.detect.pair_query import PairOptions, moved
from impinge.detect.results import ClosestPoints, VertexContacts
from impinge.detect.tree_of_boxes import TreeOfBoxes, place, with_moved_vertices
from impinge.detect.whole_tree import LARGEST_EXPONENT, fit_in_range, whole_tree
from impinge.mesh.adjacency import Adjacency, grouped, tet_face_neighbours
from impinge.mesh.body import Body
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh

Answer = TypeVar("Answer")
Csr = tuple[NDArray[np.int64], NDArray[Any]]
"""Where the items of each row start, and the items."""

FOOT_STEPS = 6
"""Steps at most; each leaves a share d / R of the angle to the shortest way out, R the radius of curvature."""
ON_SURFACE = 2.0**-50
"""Distances below this share of the coordinates are rounding, and have no direction."""


# Bodies as a query saw them --------------------------------------------------------------------------------


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
        keys = np.unique(np.concatenate([low << 32 | high for low, high in (side.T for side in sides)]))
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
    kept: dict[tuple[int, int], Topology] = surface.structure("depth", lambda _: {})
    while True:
        version = body.version
        snapshot, boundary = body.snapshot(), surface.adjacency
        key = body.topology_version, boundary.vertex_count
        if body.version == version:
            break
    topology = kept.get(key)
    if topology is None:
        topology = Topology(snapshot.elements, snapshot.live, boundary)
        kept.clear()
        kept[key] = topology
    positions = snapshot.vertices if matrix is None else moved(matrix, snapshot.vertices, "transform")
    return State(positions, topology, surface, matrix, version)


def _ask(state: State, question: Callable[[TriMesh, Floats | None], Answer]) -> Answer:
    """What ``question`` says of the surface, on its kept tree; of a copy, if the body has changed since it was seen."""
    if state.surface.version == state.version:
        answer = question(state.surface, state.transform)
        if state.surface.version == state.version:
            return answer
    return question(TriMesh(state.positions, state.topology.boundary.faces, validate="trust"), None)


def _surface(state: State, x: Floats) -> tuple[Any, ...]:
    """The surface at given positions, as kernels take it."""
    boundary = state.topology.boundary
    return x, boundary.faces, *boundary.vertex_tri


# Vertices inside bodies, each once -------------------------------------------------------------------------


class _Nodes(NamedTuple):
    """Vertices inside bodies, each once per body that it is in; sorted by (in_body, body, vertex)."""

    key: NDArray[np.int64]
    """Rises; differs as the vertex does for nodes of one body in one body."""
    in_body: NDArray[np.int64]
    body: NDArray[np.int64]
    vertex: Ints
    x: Floats
    of_contact: NDArray[np.int64]
    """The node of each contact."""


def _nodes_of(states: Sequence[State], contacts: VertexContacts) -> _Nodes:
    body_count = max(len(states), 1)
    vertex_count = max([len(state.positions) for state in states], default=1)
    pair = contacts.in_body.astype(np.int64) * body_count + contacts.body
    key, of_contact = np.unique(pair * vertex_count + contacts.vertex, return_inverse=True)
    pair, vertex = np.divmod(key, vertex_count)
    in_body, body = np.divmod(pair, body_count)
    x = np.zeros((len(key), 3))
    for b, rows in _groups(body):
        x[rows] = states[b].positions[vertex[rows]]
    return _Nodes(key, in_body, body, vertex.astype(np.int32), x, of_contact.reshape(-1))


def _groups(values: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Each value that occurs, and where."""
    order = np.argsort(values, kind="stable")
    first = np.flatnonzero(np.diff(values[order], prepend=-1))
    for rows in np.split(order, first[1:]):
        if len(rows):
            yield int(values[rows[0]]), rows


class _Links(NamedTuple):
    """Edges from nodes to all neighbours of their vertices."""

    start: NDArray[np.int64]
    """The first link of each node, and the number of all."""
    vertex: Ints
    """The vertex that it leads to."""
    node: NDArray[np.int64]
    """The node that it leads to, negative if that vertex is outside."""
    x: Floats

    def of_nodes(self, first: int, end: int) -> _Links:
        """The links of some nodes that follow one another, and are counted from the first."""
        rows = slice(self.start[first], self.start[end])
        return _Links(
            self.start[first : end + 1] - self.start[first], self.vertex[rows], self.node[rows] - first, self.x[rows]
        )

    def times(self, factor: float) -> _Links:
        """The same between points that are multiplied by ``factor``."""
        return self if factor == 1.0 else self._replace(x=factor * self.x)


def _links_of(states: Sequence[State], nodes: _Nodes) -> _Links:
    groups = list(_groups(nodes.body))
    start = np.zeros(len(nodes.key) + 1, dtype=np.int64)
    for b, rows in groups:
        of_vertex, vertex = states[b].topology.vertex_neighbour[0], nodes.vertex[rows]
        start[rows + 1] = of_vertex[vertex + 1] - of_vertex[vertex]
    np.cumsum(start, out=start)
    link_count = int(start[-1])
    links = _Links(start, np.zeros(link_count, np.int32), np.zeros(link_count, np.int64), np.zeros((link_count, 3)))
    for b, rows in groups:
        body = states[b].positions, *states[b].topology.vertex_neighbour
        kernels.find_links.over(len(rows))(rows, nodes.key, nodes.vertex, body, tuple(links))
    return links


# Consistent depth ------------------------------------------------------------------------------------------


class _Found(NamedTuple):
    """The answer, a row per node."""

    depth: Floats
    direction: Floats
    round: Ints
    """When it was found, 0 at the border; or UNKNOWN, or OPPOSED."""


class _Group(NamedTuple):
    """The nodes inside of one body; views."""

    in_body: int
    vertex: Ints
    is_own: Bools
    """Whether they are of that very body."""
    points: Floats
    found: _Found


def _groups_in(nodes: _Nodes, found: _Found) -> Iterator[tuple[_Group, int, int]]:
    """The nodes inside of each penetrated body, which follow one another: the group, its first node and its end."""
    for in_body, rows in _groups(nodes.in_body):
        first, end = int(rows[0]), int(rows[-1]) + 1
        part = slice(first, end)
        is_own = nodes.body[part] == in_body
        views = _Found(found.depth[part], found.direction[part], found.round[part])
        yield _Group(in_body, nodes.vertex[part], is_own, nodes.x[part], views), first, end


def consistent_depth(
    states: Sequence[State], contacts: VertexContacts, *, foot_steps: int = FOOT_STEPS
) -> tuple[Floats, Floats]:
    """Depth (k,) and unit direction out of the penetrated body (k, 3) of each contact.

    ``contacts.body`` and ``.in_body`` are positions in ``states``. Contacts of one vertex in several tets of a body get
    the same. ``foot_steps=0`` is the method as published.
    """
    nodes = _nodes_of(states, contacts)
    links = _links_of(states, nodes)
    node_count = len(nodes.key)
    found = _Found(np.zeros(node_count), np.zeros((node_count, 3)), np.zeros(node_count, dtype=np.int32))
    for group, first, end in _groups_in(nodes, found):
        state, near = states[group.in_body], links.of_nodes(first, end)
        _ask(state, partial(_find_depths, state, group, near, foot_steps))
    return found.depth[nodes.of_contact], found.direction[nodes.of_contact]


def _find_depths(
    state: State, group: _Group, links: _Links, foot_steps: int, body: TriMesh, transform: Floats | None
) -> None:
    """All steps for the nodes inside of one body, whose tree is that of ``body``."""
    found, counter = group.found, np.zeros(2, dtype=np.int64)
    found.round[:] = UNKNOWN
    tree = body.structure("boxes", TreeOfBoxes)
    with tree.lock:
        placed = with_moved_vertices(place(body, tree, transform, None, "a"), "a")
        size = max(float(np.abs(group.points).max()), float(np.abs(links.x).max(initial=0.0)))
        (fitted,), factor = fit_in_range([placed], size)
        surface = _surface(state, fitted.x)
        points, links = group.points if factor == 1.0 else factor * group.points, links.times(factor)
        outward = kernels.outward_sign(surface)

        own = np.where(group.is_own, group.vertex, np.int32(NONE))
        touches, hits = _rows_for_touches(len(own)), _rows_for_hits(len(links.node))
        whole = tuple(whole_tree(fitted))
        kernels.meet_surface.over(len(own))(
            own, points, tuple(links), whole, thread_count(), counter[:1], touches, hits
        )  # fmt: skip
        kernels.start_at_border.over(len(own))(points, tuple(links), touches, hits, outward, surface, tuple(found))
        is_opposed = found.round == OPPOSED
        _leave_by_nearest_point(state, group, is_opposed, factor)
        _reach_inwards(points, links, found)
        walking = np.flatnonzero((found.round >= 0) & (found.depth > 0.0) & ~is_opposed & ~group.is_own)
        whole = tuple(whole_tree(fitted))  # again: a search for nearest points may have fitted it to another scale
        kernels.step_to_feet.over(len(walking))(
            walking, points, foot_steps, outward, surface, whole, thread_count(), counter[1:], tuple(found)
        )  # fmt: skip
        _leave_by_nearest_point(state, group, found.round < 0, factor)
    found.depth[:] /= factor


def _rows_for_touches(count: int) -> tuple[NDArray[Any], ...]:
    """Triangle, corners, weights; see ``meet_surface``."""
    return np.zeros(count, np.int32), np.zeros((count, 3), np.int32), np.zeros((count, 3))


def _rows_for_hits(count: int) -> tuple[NDArray[Any], ...]:
    """Share, triangle, corners, weights, sign; see ``meet_surface``."""
    return np.zeros(count), *_rows_for_touches(count), np.zeros(count, np.int8)


def _reach_inwards(points: Floats, links: _Links, found: _Found) -> None:
    """Step 2: rounds, until one reaches nobody."""
    waiting = np.flatnonzero(found.round == UNKNOWN)
    for this_round in count(1):
        kernels.reach_neighbours.over(len(waiting))(
            waiting, links.start, links.node, points, this_round, tuple(found)
        )  # fmt: skip
        is_waiting = found.round[waiting] == UNKNOWN
        if is_waiting.all():
            break
        waiting = waiting[is_waiting]


# The nearest point of the surface --------------------------------------------------------------------------


def _leave_by_nearest_point(state: State, group: _Group, chosen: Bools, factor: float = 1.0) -> None:
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
        answer = closest_points(surface, points, PairOptions(transform_a=transform), inside=False)
        return answer, surface.faces[answer.triangle]

    if only is None:
        return _ask(state, nearest)
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
        surface = _surface(state, _in_range(state.positions)[0])
        kernels.write_normals(corner[is_on], answer.barycentric[is_on], surface, on_surface)
        direction[is_on] = on_surface
    return answer.distance, direction


def _in_range(x: Floats) -> tuple[Floats, float]:
    """Positions, times a power of two if products of four of them could leave the range of doubles, and that power."""
    exponent = math.frexp(float(np.abs(x).max(initial=0.0)))[1]
    if abs(exponent) <= LARGEST_EXPONENT:
        return x, 1.0
    factor = math.ldexp(1.0, max(min(-exponent, 1000), -1000))
    x = factor * x
    x.flags.writeable = False  # as a body's are: Numba compiles anew for the other kind
    return x, factor


# The local estimate ----------------------------------------------------------------------------------------


def local_depth(states: Sequence[State], contacts: VertexContacts) -> tuple[Floats, Floats]:
    """Depth (k,) and unit direction out of the penetrated body (k, 3), each from the penetrated tet alone.

    If faces of the tet are on the surface: the least distance to the plane of one, and its normal. Else, if corners of
    it are: the distance to the nearest, and the normal of the surface there. Else, and where triangles are
    penetrated: the nearest point of the surface. Of several tets around a vertex, a face comes before a corner,
    then the least depth counts. Cheaper than ``consistent_depth``, but neighbours may disagree.
    """
    nodes = _nodes_of(states, contacts)
    depth, direction = np.zeros(len(contacts.vertex)), np.zeros((len(contacts.vertex), 3))
    source = np.full(len(depth), BY_NOTHING, dtype=np.int8)
    for in_body, rows in _groups(contacts.in_body):
        if states[in_body].topology.has_tets:
            points = nodes.x[nodes.of_contact[rows]]
            depth[rows], direction[rows], source[rows] = _estimate(states[in_body], points, contacts.tet[rows])
    order = np.lexsort((depth, source, nodes.of_contact))
    best = order[np.unique(nodes.of_contact[order], return_index=True)[1]]
    found = _Found(depth[best], direction[best], source[best].astype(np.int32))
    for group, _, _ in _groups_in(nodes, found):
        _leave_by_nearest_point(states[group.in_body], group, group.found.round == BY_NOTHING)
    return found.depth[nodes.of_contact], found.direction[nodes.of_contact]


def _estimate(state: State, points: Floats, tet: Ints) -> tuple[Floats, Floats, NDArray[np.int8]]:
    """Depth, direction and what they were taken from, of points in tets."""
    topology, (x, factor) = state.topology, _in_range(state.positions)
    depth, direction, source = np.zeros(len(tet)), np.zeros((len(tet), 3)), np.zeros(len(tet), dtype=np.int8)
    kernels.estimate_at_tets.over(len(tet))(
        factor * points, tet, topology.elements, topology.is_exposed, _surface(state, x), depth, direction, source
    )
    return depth / factor, direction, source
