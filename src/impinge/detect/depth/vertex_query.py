"""What all queries for vertices inside bodies share: operands, options, and how raw hits become contacts.

options  ->  snapshots of all bodies of one moment, after transforms, live and active elements only
search   ->  raw hits, sorted by (body, vertex, in_body, tet)
contacts ->  edges and depths where wanted, ignored pairs of bodies left out, truncated at ``max_pairs``
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Literal, NamedTuple, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from impinge.backend.stages import Stages, start_stages
from impinge.checks import (
    Bools,
    Cancel,
    Floats,
    Ints,
    Stats,
    as_choice,
    as_flag,
    as_ids,
    as_indices,
    as_numbers,
    as_transform,
    as_whole,
    check_cancel,
    shown,
)
from impinge.detect.common.pair_query import moved
from impinge.detect.common.results import EdgeContacts, Reason, VertexContacts
from impinge.detect.depth.body_states import State, state_of
from impinge.detect.depth.consistent_depth import consistent_depth
from impinge.detect.depth.edge_contacts import edge_contacts
from impinge.detect.depth.local_depth import local_depth
from impinge.errors import MeshError, OptionError
from impinge.mesh.body import Body, BodyLike, as_body, as_surface
from impinge.mesh.mesh import Snapshot
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh

Depth: TypeAlias = Literal[False, True, "local"]


class RawHits(NamedTuple):
    """Columns of ``VertexContacts``, sorted, before edges and depths."""

    body: Ints
    vertex: Ints
    in_body: Ints
    tet: Ints
    barycentric: Floats
    is_self: Bools


class VertexQuery:
    """Bodies and options of a query for vertices, checked; see ``penetrating_vertices`` for their meaning."""

    def __init__(
        self,
        bodies: Sequence[Body],
        transforms: Sequence[ArrayLike | None] | None = None,
        active: Sequence[ArrayLike | None] | None = None,
        ignore: ArrayLike | None = None,
        max_pairs: int | None = None,
        cancel: Cancel | None = None,
        depth: Depth = False,
        edges: bool = False,
    ) -> None:
        self.bodies, count = tuple(bodies), len(bodies)
        matrices = per_body(transforms, "transforms", count)
        self.transforms = [as_transform(matrix, f"transforms[{b}]") for b, matrix in enumerate(matrices)]
        self.active = per_body(active, "active", count)
        self.max_pairs = max_pairs
        if max_pairs is not None:
            self.max_pairs = as_whole(max_pairs, "max_pairs", remedy=", or None for all contacts")
        check_cancel(cancel)
        self.cancel = cancel
        self.depth: Depth = as_choice(depth, "depth", (False, True, "local"))
        self.edges = as_flag(edges, "edges")
        if (depth or edges) and any(chosen is not None for chosen in self.active):
            name = "depth" if depth else "edges"
            raise OptionError(f"{name} is about the whole surface of a body; leave active out, or {name}")
        self._ignored: NDArray[np.int64] | None = None
        if ignore is not None:
            given = as_numbers(ignore, "ignore")
            rows = given[None] if given.shape == (2,) else given
            pairs = np.sort(as_indices(rows, name="ignore", columns=2, of="body"), axis=1).astype(np.int64)
            unknown = pairs[(pairs < 0) | (pairs >= count)]
            if len(unknown):
                raise OptionError(f"ignore names body {unknown[0]}, expected pairs of numbers from 0 to {count - 1}")
            self._ignored = pairs @ (count, 1)

    @property
    def cancelled(self) -> bool:
        """Whether ``cancel`` is set now."""
        return self.cancel is not None and self.cancel.is_set()

    def find(self, method: str, search: Callable[[Sequence[Snapshot], Stats, Stages], RawHits]) -> VertexContacts:
        """Search the bodies as they are now; edges and depths are of the same moment, whatever changes meanwhile."""
        began = perf_counter()
        stages, stats = start_stages(), Stats()
        bodies, surfaces, states = self._snapshots()
        stages.done("bodies")
        reason: Reason | None = None
        if self.cancelled:
            reason, none = "cancelled", np.zeros(0, dtype=np.int32)
            hits = RawHits(none, none, none, none, np.zeros((0, 4)), none == 0)
        else:
            hits = search(bodies, stats, stages)
        stages.done("search")
        contacts = VertexContacts(**hits._asdict(), bodies=self.bodies)
        contacts = contacts.rows(self._is_wanted(contacts.body, contacts.in_body))
        if self.edges:
            contacts = replace(contacts, edges=self._edges(bodies, surfaces))
        stages.done("edges")
        if self.depth and self.cancelled:
            reason = "cancelled"
        elif self.depth:  # of all contacts: depths depend on neighbours
            measure = local_depth if self.depth == "local" else consistent_depth
            depth, direction = measure(states, contacts)
            contacts = replace(contacts, depth=depth, direction=direction)
        stages.done("depth")
        if self.max_pairs is not None and len(contacts) > self.max_pairs:
            contacts, reason = contacts.rows(slice(0, self.max_pairs)), reason or "limit"
        stats.update(stages.times())
        elapsed_ms = 1e3 * (perf_counter() - began)
        return replace(
            contacts, complete=reason is None, reason=reason, method=method, stats=stats, elapsed_ms=elapsed_ms
        )

    def _snapshots(self) -> tuple[list[Snapshot], list[Snapshot], list[State]]:
        """Bodies after transforms with active elements only; surfaces, for edges; states, for depths: of one moment."""
        while True:
            bodies = [body.snapshot() for body in self.bodies]
            surfaces = [as_surface(body).snapshot() for body in self.bodies] if self.edges else []
            states = [*map(state_of, self.bodies, self.transforms)] if self.depth else []
            versions = [snapshot.version for snapshot in bodies]
            if all([each.version for each in rows] == versions for rows in (surfaces, states) if rows):
                break  # no other thread has changed a body meanwhile
        for b, (seen, matrix, active) in enumerate(zip(bodies, self.transforms, self.active)):
            if matrix is not None:
                bodies[b] = seen._replace(vertices=moved(matrix, seen.vertices, f"transforms[{b}]"))
            if active is not None:
                chosen = as_ids(active, name=f"active[{b}]", count=len(seen.elements))
                bodies[b] = bodies[b]._replace(live=np.intersect1d(chosen, seen.live, assume_unique=True))
        return bodies, surfaces, states

    def _edges(self, bodies: Sequence[Snapshot], surfaces: Sequence[Snapshot]) -> EdgeContacts:
        """Edges through faces of bodies that are not ignored; none if the query is cancelled."""
        x, start = (
            np.concatenate([seen.vertices for seen in bodies]),
            np.cumsum([0, *(len(b.vertices) for b in bodies)]),
        )
        x.flags.writeable = False  # as positions of bodies are: Numba specialises kernels on that
        if self.cancelled:
            return replace(edge_contacts([], x, start), complete=False, reason="cancelled")
        edges = edge_contacts(surfaces, x, start)
        return edges.rows(self._is_wanted(edges.body, edges.in_body))

    def _is_wanted(self, body: Ints, in_body: Ints) -> Bools | slice:
        """Which rows are of pairs of bodies that are not ignored."""
        if self._ignored is None:
            return slice(None)
        low, high = np.minimum(body, in_body).astype(np.int64), np.maximum(body, in_body)
        return np.isin(low * len(self.bodies) + high, self._ignored, invert=True)


def per_body(values: Sequence[ArrayLike | None] | None, name: str, count: int) -> Sequence[ArrayLike | None]:
    """A list with an entry for each body; None for each if there is no list."""
    if values is None:
        return [None] * count
    try:
        listed = list(values)
    except Exception as error:  # iterators of a caller may raise anything
        raise OptionError(
            f"{name} is {shown(values)}, expected a list with an entry for each of the {count} bodies"
        ) from error
    if len(listed) != count:
        raise OptionError(f"{name} has {len(listed)} entries, expected one for each of the {count} bodies")
    return listed


def bodies_of_one_kind(
    bodies: Sequence[BodyLike], *others: NoReturn
) -> tuple[tuple[TetMesh, ...], tuple[TriMesh, ...]]:
    """Tet meshes and triangle meshes from one list of bodies of one kind; the other tuple is empty."""
    if others:
        raise MeshError(f"got {1 + len(others)} bodies one by one, expected them in one list, like [a, b]")
    if isinstance(bodies, TetMesh | TriMesh | str) or not isinstance(bodies, Sequence):
        raise MeshError(f"bodies is a {type(bodies).__name__}, expected a list of bodies, like [t1, t2]")
    if len(bodies) == 2 and all(isinstance(part, np.ndarray) for part in bodies):
        raise MeshError("bodies is two arrays, expected a list of bodies, like [(vertices, tets)]")
    if not bodies:
        raise MeshError("bodies is empty, expected at least one body")
    made = [as_body(body, name=f"bodies[{i}]") for i, body in enumerate(bodies)]
    tets = tuple(body for body in made if isinstance(body, TetMesh))
    surfaces = tuple(body for body in made if isinstance(body, TriMesh))
    if tets and surfaces:
        first = next(i for i, body in enumerate(made) if body is surfaces[0])
        raise MeshError(
            f"bodies[{first}] is a triangle mesh among tet meshes, expected bodies of one kind: pass the surfaces of "
            "the tet meshes, or tetrahedralise the triangle mesh"
        )
    return tets, surfaces
