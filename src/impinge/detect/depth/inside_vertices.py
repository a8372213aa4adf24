"""Nodes, links and depths of nodes: vertices inside bodies, and the edges that lead from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Bools, Floats, Ints
from impinge.detect.common.results import VertexContacts
from impinge.detect.depth import inside_vertices_kernels as kernels
from impinge.detect.depth.body_states import State


class NodeDepths(NamedTuple):
    """Depths of nodes, a row per node."""

    depth: Floats
    direction: Floats
    round: Ints
    """The round that found it, 0 at the border; or UNKNOWN, or OPPOSED."""


class Nodes(NamedTuple):
    """Vertices inside bodies, each once per body that it is in; sorted by (in_body, body, vertex)."""

    key: NDArray[np.int64]
    """Rises; the keys of nodes of one body in one body differ as their vertices do."""
    in_body: NDArray[np.int64]
    body: NDArray[np.int64]
    vertex: Ints
    x: Floats

    @property
    def is_own(self) -> Bools:
        """Whether a node is a vertex of the body that it is in."""
        own: Bools = self.body == self.in_body
        return own

    def by_body(self, depths: NodeDepths) -> Iterator[tuple[int, slice, Nodes, NodeDepths]]:
        """For each penetrated body: the body, its range of nodes, and views of its nodes and depths."""
        for in_body, rows in groups(self.in_body):
            part = slice(int(rows[0]), int(rows[-1]) + 1)
            views: Any = [[column[part] for column in columns] for columns in (self, depths)]
            yield in_body, part, Nodes(*views[0]), NodeDepths(*views[1])


def nodes_of(states: Sequence[State], contacts: VertexContacts) -> tuple[Nodes, NDArray[np.int64]]:
    """The nodes of all contacts, and the node of each contact."""
    body_count = max(len(states), 1)
    vertex_count = max([len(state.positions) for state in states], default=1)
    pair = contacts.in_body.astype(np.int64) * body_count + contacts.body
    key, of_contact = np.unique(pair * vertex_count + contacts.vertex, return_inverse=True)
    pair, vertex = np.divmod(key, vertex_count)
    in_body, body = np.divmod(pair, body_count)
    x = np.zeros((len(key), 3))
    for b, rows in groups(body):
        x[rows] = states[b].positions[vertex[rows]]
    return Nodes(key, in_body, body, vertex.astype(np.int32), x), of_contact.reshape(-1)


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
    """The first link of each node, and the total."""
    vertex: Ints
    """The vertex at its end."""
    node: NDArray[np.int64]
    """The node at its end, negative if that vertex is outside."""
    x: Floats

    def of_nodes(self, part: slice) -> Links:
        """The links of a range of nodes, which are numbered from the first of them."""
        start = self.start[part.start : part.stop + 1]
        rows = slice(start[0], start[-1])
        return Links(start - start[0], self.vertex[rows], self.node[rows] - part.start, self.x[rows])


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
