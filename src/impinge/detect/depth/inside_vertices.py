"""Vertices inside bodies, each once, the edges that lead from them, and the answer that is made for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Bools, Floats, Ints
from impinge.detect.common.results import VertexContacts
from impinge.detect.depth import inside_vertices_kernels as kernels
from impinge.detect.depth.body_states import State


class Nodes(NamedTuple):
    """Vertices inside bodies, each once per body that it is in; sorted by (in_body, body, vertex)."""

    key: NDArray[np.int64]
    """Rises; differs as the vertex does for nodes of one body in one body."""
    in_body: NDArray[np.int64]
    body: NDArray[np.int64]
    vertex: Ints
    x: Floats
    of_contact: NDArray[np.int64]
    """The node of each contact."""


def nodes_of(states: Sequence[State], contacts: VertexContacts) -> Nodes:
    """The vertices that contacts are about."""
    body_count = max(len(states), 1)
    vertex_count = max([len(state.positions) for state in states], default=1)
    pair = contacts.in_body.astype(np.int64) * body_count + contacts.body
    key, of_contact = np.unique(pair * vertex_count + contacts.vertex, return_inverse=True)
    pair, vertex = np.divmod(key, vertex_count)
    in_body, body = np.divmod(pair, body_count)
    x = np.zeros((len(key), 3))
    for b, rows in groups(body):
        x[rows] = states[b].positions[vertex[rows]]
    return Nodes(key, in_body, body, vertex.astype(np.int32), x, of_contact.reshape(-1))


def groups(values: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Each value that occurs, and where."""
    order = np.argsort(values, kind="stable")
    first = np.flatnonzero(np.diff(values[order], prepend=-1))
    for rows in np.split(order, first[1:]):
        if len(rows):
            yield int(values[rows[0]]), rows


class Links(NamedTuple):
    """Edges from nodes to all neighbours of their vertices."""

    start: NDArray[np.int64]
    """The first link of each node, and the number of all."""
    vertex: Ints
    """The vertex that it leads to."""
    node: NDArray[np.int64]
    """The node that it leads to, negative if that vertex is outside."""
    x: Floats

    def of_nodes(self, first: int, end: int) -> Links:
        """The links of some nodes that follow one another, and are counted from the first."""
        rows = slice(self.start[first], self.start[end])
        return Links(
            self.start[first : end + 1] - self.start[first], self.vertex[rows], self.node[rows] - first, self.x[rows]
        )

    def times(self, factor: float) -> Links:
        """The same between points that are multiplied by ``factor``."""
        return self if factor == 1.0 else self._replace(x=factor * self.x)


def links_of(states: Sequence[State], nodes: Nodes) -> Links:
    """All edges from the vertices of nodes."""
    by_body = list(groups(nodes.body))
    start = np.zeros(len(nodes.key) + 1, dtype=np.int64)
    for b, rows in by_body:
        of_vertex, vertex = states[b].topology.vertex_neighbour[0], nodes.vertex[rows]
        start[rows + 1] = of_vertex[vertex + 1] - of_vertex[vertex]
    np.cumsum(start, out=start)
    link_count = int(start[-1])
    links = Links(start, np.zeros(link_count, np.int32), np.zeros(link_count, np.int64), np.zeros((link_count, 3)))
    for b, rows in by_body:
        body = states[b].positions, *states[b].topology.vertex_neighbour
        kernels.find_links.over(len(rows))(rows, nodes.key, nodes.vertex, body, tuple(links))
    return links


class Found(NamedTuple):
    """The answer, a row per node."""

    depth: Floats
    direction: Floats
    round: Ints
    """When it was found, 0 at the border; or UNKNOWN, or OPPOSED."""


class Group(NamedTuple):
    """The nodes inside of one body; views."""

    in_body: int
    vertex: Ints
    is_own: Bools
    """Whether they are of that very body."""
    points: Floats
    found: Found


def groups_in(nodes: Nodes, found: Found) -> Iterator[tuple[Group, int, int]]:
    """The nodes inside of each penetrated body, which follow one another: the group, its first node and its end."""
    for in_body, rows in groups(nodes.in_body):
        first, end = int(rows[0]), int(rows[-1]) + 1
        part = slice(first, end)
        is_own = nodes.body[part] == in_body
        views = Found(found.depth[part], found.direction[part], found.round[part])
        yield Group(in_body, nodes.vertex[part], is_own, nodes.x[part], views), first, end
