"""Which vertices are inside which tetrahedra, for any number of bodies at once [Teschner2003].

1. Hash vertices. Space is cut into cells; a hash table knows the vertices in each.
2. Hash tets.     Each tet looks up the cells that its box covers: the vertices there are candidates, but for its own.
3. Settle.        A candidate is inside iff four signs agree (``exact.orientation``); faces, edges and corners count.

Nothing is kept between frames but room in memory: a frame costs the same whatever moved, and it costs what its
primitives cost, whatever bodies they belong to. Self-collisions are found along the way.

Search     ``spatial_hash_cells``, eight tets at a time. The scheme as published is ``impinge.published.spatial_hash``.
Triangles  one or two triangle meshes: pairs of triangles that share a cell, tested exactly
           (``spatial_hash_triangles``).
Guarantee  exact and complete, each contact once, sorted, the same bits for any number of threads and any cell size. A
           flat tet contains nothing; inverted ones count as others do.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from importlib import import_module
from time import perf_counter
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from impinge.backend.stages import Stages, start_stages
from impinge.checks import Bools, Floats, Ints, as_indices, as_transform
from impinge.detect.common.narrow_phase import Neighbours
from impinge.detect.common.pair_query import Cancel, check_cancel, check_max_pairs, moved
from impinge.detect.common.results import EdgeContacts, Reason, TrianglePairs, VertexContacts
from impinge.detect.spatial_hash import kernels
from impinge.detect.spatial_hash.cells import CellSearch, Keys, sides_of
from impinge.detect.spatial_hash.tet_batch import Arena, Order, make_arena, order_of, order_of_active
from impinge.detect.spatial_hash.triangles import TriangleCells, edge_contacts
from impinge.errors import MeshError, OptionError
from impinge.mesh.body import as_body
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import Snapshot, TriMesh

Depth: TypeAlias = Literal[False, True, "local"]


@dataclass(frozen=True)
class HashOptions:
    """Options of a query about tets; lists have an entry for each body."""

    transforms: Sequence[Any] | None = None
    """4x4, or None for a body that stays where it is."""
    active: Sequence[Any] | None = None
    """Tets that take part, ids or a mask, or None for all; a vertex takes part if one of its tets does."""
    ignore: Any = None
    """Pairs of bodies whose contacts are left out, in either order, shape (k, 2); a body twice for itself."""
    max_pairs: int | None = None
    """Contacts at most."""
    cancel: Cancel | None = None

    def __post_init__(self) -> None:
        check_max_pairs(self.max_pairs)
        check_cancel(self.cancel)


class State(NamedTuple):
    """All bodies as one query sees them."""

    arena: Arena
    x: Floats
    """Positions of all vertices, transformed, one body behind the other."""
    surfaces: Sequence[Snapshot]
    """Surfaces, if somebody asked for edges."""
    depth_states: Sequence[Any]
    """The bodies as depths are measured in them, if somebody asked for depths."""


class Found(NamedTuple):
    """Rows of the answer."""

    body: Ints
    vertex: Ints
    in_body: Ints
    tet: Ints
    barycentric: Floats
    is_self: Bools


class SpatialHash:
    """Vertices in tets of any number of tet meshes; or pairs of triangles of one or two triangle meshes."""

    name = "spatial_hash"

    def __init__(
        self,
        bodies: Sequence[Any],
        *others: Any,
        cell_size: float | None = None,
        neighbours: Neighbours = "exact",
    ) -> None:
        self.bodies = bodies_of_one_sort(bodies, *others)
        cell_size = _as_cell_size(cell_size)
        self._lock = threading.Lock()
        self._kept: tuple[tuple[Order, ...], Arena] | None = None
        self._positions: Floats | None = None
        if _are_surfaces(self.bodies):
            if len(self.bodies) > 2:
                raise MeshError(
                    f"bodies has {len(self.bodies)} triangle meshes, expected one or two; ask for each pair"
                )
            self._triangles = TriangleCells(cast(Any, self.bodies), cell_size, neighbours)
        elif neighbours != "exact":
            raise OptionError("neighbours is for triangle meshes; of tets, a vertex is never tested against its own")
        self._search = CellSearch(cell_size)

    def query(self, *, depth: Depth = False, edges: bool = False, **options: Any) -> VertexContacts | TrianglePairs:
        """All contacts as the bodies are now; options as in ``HashOptions``, of triangles as in ``PairOptions``.

        ``depth=True`` fills ``depth`` and ``direction`` (consistent penetration depth), ``depth="local"`` by the border
        of the penetrated tet alone. ``edges=True`` adds the edges that pass through faces of the surfaces.
        """
        began = perf_counter()
        check_answers(depth, edges)
        if _are_surfaces(self.bodies):
            if depth or edges:
                raise OptionError("depth and edges are for tet meshes; for surfaces ask penetrating_vertices")
            return self._triangles.query(method=self.name, **options)
        wanted = hash_options(options)
        check_whole(wanted, depth, edges)
        with self._lock:
            return self._query(wanted, depth, edges, began)

    def _query(self, options: HashOptions, depth: Depth, edges: bool, began: float) -> VertexContacts:
        stages, stats = start_stages(), dict[str, Any]()
        state = self._state(options, depth, edges)
        stages.done("bodies")
        reason: Reason | None = None
        if options.cancel is not None and options.cancel.is_set():
            reason, found = "cancelled", _found(np.zeros(0, dtype=np.uint64), np.zeros((0, 4)), state.arena)
        else:
            found = self._find(state, stats, stages)
        through = wanted_edges(state.surfaces, state.x, state.arena.vertex_start, options) if edges else None
        stages.done("edges")
        contacts = finish_contacts(found, self.bodies, through, state.depth_states, options, depth, reason)
        stages.done("depth")
        stats.update(stages.times())
        return replace(contacts, method=self.name, stats=stats, elapsed_ms=1e3 * (perf_counter() - began))

    def refit(self) -> None:
        """Hash the vertices as they are now, and answer nothing: the first pass alone, for timing.

        Of triangle meshes a query makes everything, and nothing is done here.
        """
        with self._lock:
            if not _are_surfaces(self.bodies):
                arena, x, *_ = self._state(HashOptions(), False, False)
                self._search.hash_vertices(x, arena)

    def __repr__(self) -> str:
        sort = "triangle" if _are_surfaces(self.bodies) else "tet"
        return f"<SpatialHash: {len(self.bodies)} {sort} mesh{'es' if len(self.bodies) > 1 else ''}>"

    # steps ---------------------------------------------------------------------------------------------

    def _state(self, options: HashOptions, depth: Depth, edges: bool) -> State:
        """Positions, tets and surfaces that belong together; taken again if a body was changed meanwhile."""
        bodies = cast("tuple[TetMesh, ...]", self.bodies)
        while True:
            snapshots = [body.snapshot() for body in bodies]
            surfaces = [body.surface.snapshot() for body in bodies] if edges else []
            depth_states = states_of(bodies, options) if depth else []
            seen = [snapshot.version for snapshot in snapshots]
            if all([each.version for each in rows] == seen for rows in (surfaces, depth_states) if rows):
                break
        arena = self._arena(bodies, snapshots, options)
        parts = [snapshot.vertices for snapshot in snapshots]
        if options.transforms is not None:
            matrices = per_body(options.transforms, "transforms", len(bodies))
            parts = [moved_by(x, matrix, f"transforms[{b}]") for b, (x, matrix) in enumerate(zip(parts, matrices))]
        return State(arena, self._joined(parts), surfaces, depth_states)

    def _joined(self, parts: Sequence[Floats]) -> Floats:
        """Positions of all bodies in one array, which the next query uses again."""
        if len(parts) == 1:
            return parts[0]
        count = sum(map(len, parts))
        if self._positions is None or len(self._positions) != count:
            self._positions = np.zeros((count, 3))
        np.concatenate(parts, out=self._positions)
        shown = self._positions.view()
        shown.flags.writeable = False  # as the positions of a body are: Numba compiles anew for the other kind
        return shown

    def _arena(self, bodies: Sequence[TetMesh], snapshots: Sequence[Snapshot], options: HashOptions) -> Arena:
        """The tets of all bodies, kept while nobody edits them or chooses others."""
        active = per_body(options.active, "active", len(bodies))
        if options.active is None and self._kept is not None:
            orders, arena = self._kept
            if all(order.live is snapshot.live for order, snapshot in zip(orders, snapshots)):
                return arena
        orders = tuple(
            order_of(body, snapshot) if chosen is None else order_of_active(snapshot, chosen, f"active[{b}]")
            for b, (body, snapshot, chosen) in enumerate(zip(bodies, snapshots, active))
        )
        self._kept = orders, make_arena(orders, snapshots)
        return self._kept[1]

    def _find(self, state: State, stats: dict[str, Any], stages: Stages) -> Found:
        """Candidates, sorted and settled."""
        keys = self._search.candidates(state.x, state.arena, stats, stages)
        stats["candidates"] = len(keys)
        keys = _sorted(keys)
        stages.done("sort")
        is_inside, barycentric = _settled(keys, state, stats)
        if not is_inside.all():
            keys, barycentric = keys[is_inside], barycentric[is_inside]
        found = _found(keys, barycentric, state.arena)
        stages.done("settle")
        return found


def _sorted(keys: Keys) -> Keys:
    """Keys in order, each once."""
    keys = np.sort(keys)
    is_new = keys[1:] != keys[:-1]
    return keys if is_new.all() else keys[np.concatenate([[True], is_new])]


def _settled(keys: Keys, state: State, stats: dict[str, Any]) -> tuple[Bools, Floats]:
    """Which candidates are inside, exactly, and the weights of the corners; exactly 0 for a face that they lie on."""
    arena, x = state.arena, state.x
    known, barycentric = np.zeros(len(keys), dtype=np.int8), np.zeros((len(keys), 4))
    kernels.settle.over(len(keys))(x, arena.corner, arena.slot_of, keys, known, barycentric)
    is_inside = known == kernels.INSIDE
    unsure = np.flatnonzero(known == kernels.UNSURE)
    stats["exact_tests"] = len(unsure)
    if len(unsure):
        vertices = (keys[unsure] >> np.uint64(32)).astype(np.int64)
        slots = arena.slot_of[(keys[unsure] & np.uint64(0xFFFFFFFF)).astype(np.int64)].astype(np.int64)
        sides = sides_of(x, arena, slots, vertices)
        inwards = sides[:, :4] * sides[:, 4:]
        is_inside[unsure] = (sides[:, 4] != 0) & (inwards >= 0).all(axis=1)
        weights = np.where(inwards == 0, 0.0, np.fmax(barycentric[unsure], np.finfo(np.float64).tiny))
        total = weights.sum(axis=1, keepdims=True)
        barycentric[unsure] = weights / np.where(total > 0.0, total, 1.0)  # flat tets have none, and contain nothing
    return is_inside, barycentric


def _found(keys: Keys, barycentric: Floats, arena: Arena) -> Found:
    body, vertex, in_body, tet = np.zeros((4, len(keys)), dtype=np.int32)
    is_self = np.zeros(len(keys), dtype=np.bool_)
    kernels.tell_bodies.over(len(keys))(keys, arena.vertex_start, arena.tet_start, body, vertex, in_body, tet, is_self)
    return Found(body, vertex, in_body, tet, barycentric, is_self)


def moved_by(vertices: Floats, transform: Any, name: str) -> Floats:
    """Positions after a transform, if there is one."""
    matrix = as_transform(transform, name)
    return vertices if matrix is None else moved(matrix, vertices, name)


def states_of(bodies: Sequence[Any], options: HashOptions) -> list[Any]:
    """Bodies as depths are measured in them; ``contact`` stands to the right, so it is loaded when asked for."""
    state_of = import_module("impinge.detect.depth.body_states").state_of
    transforms = per_body(options.transforms, "transforms", len(bodies))
    return [state_of(body, matrix) for body, matrix in zip(bodies, transforms)]


def finish_contacts(
    found: Found, bodies: Sequence[Any], edges: EdgeContacts | None, states: Sequence[Any], options: HashOptions,
    depth: Depth, reason: Reason | None,
) -> VertexContacts:  # fmt: skip
    """Leave out ignored pairs of bodies; measure depths, which needs all contacts; cut at ``max_pairs``."""
    contacts = VertexContacts(**found._asdict(), edges=edges, bodies=tuple(bodies), complete=not reason, reason=reason)
    if options.ignore is not None:
        contacts = contacts.rows(~_is_ignored(contacts.body, contacts.in_body, options.ignore, len(bodies)))
    if depth and options.cancel is not None and options.cancel.is_set():
        contacts = replace(contacts, complete=False, reason="cancelled")
    elif depth == "local":
        length, direction = import_module("impinge.detect.depth.local_depth").local_depth(states, contacts)
        contacts = replace(contacts, depth=length, direction=direction)
    elif depth:
        length, direction = import_module("impinge.detect.depth.consistent_depth").consistent_depth(states, contacts)
        contacts = replace(contacts, depth=length, direction=direction)
    if options.max_pairs is not None and len(contacts) > options.max_pairs:
        contacts = replace(
            contacts.rows(slice(0, options.max_pairs)), complete=False, reason=contacts.reason or "limit"
        )
    return contacts


def wanted_edges(
    surfaces: Sequence[Snapshot], x: Floats, vertex_start: NDArray[np.int64], options: HashOptions
) -> EdgeContacts:
    """Edges through faces of bodies that are not ignored; none if the query was cancelled."""
    cancelled = options.cancel is not None and options.cancel.is_set()
    edges = edge_contacts(surfaces[:0] if cancelled else surfaces, x, vertex_start)
    if cancelled:
        return replace(edges, complete=False, reason="cancelled")
    if options.ignore is None:
        return edges
    return edges.rows(~_is_ignored(edges.body, edges.in_body, options.ignore, len(surfaces)))


def _is_ignored(body: Ints, in_body: Ints, ignore: Any, count: int) -> Bools:
    one_pair = np.ndim(ignore) == 1 and len(ignore) == 2
    pairs = np.sort(as_indices([ignore] if one_pair else ignore, name="ignore", columns=2, of="body"), axis=1)
    strange = pairs[(pairs < 0) | (pairs >= count)]
    if len(strange):
        raise OptionError(f"ignore names body {strange[0]}, expected pairs of numbers from 0 to {count - 1}")
    low, high = np.minimum(body, in_body), np.maximum(body, in_body)
    return np.isin(low.astype(np.int64) * count + high, pairs[:, 0].astype(np.int64) * count + pairs[:, 1])


# arguments ------------------------------------------------------------------------------------------------


def bodies_of_one_sort(bodies: Any, *others: Any) -> tuple[TetMesh, ...] | tuple[TriMesh, ...]:
    """Bodies from what the caller gave: tet meshes only, or triangle meshes only, in one list."""
    if others:
        raise MeshError(f"got {1 + len(others)} bodies one by one, expected them in one list, like [a, b]")
    if isinstance(bodies, TetMesh | TriMesh | str) or not isinstance(bodies, Sequence):
        raise MeshError(f"bodies is a {type(bodies).__name__}, expected a list of bodies, like [t1, t2]")
    if len(bodies) == 2 and all(isinstance(part, np.ndarray) for part in bodies):
        raise MeshError("bodies is two arrays, expected a list of bodies, like [(vertices, tets)]")
    if not bodies:
        raise MeshError("bodies is empty, expected at least one body")
    made = tuple(as_body(body, name=f"bodies[{i}]") for i, body in enumerate(bodies))
    surfaces = [i for i, body in enumerate(made) if isinstance(body, TriMesh)]
    if surfaces and len(surfaces) < len(made):
        raise MeshError(
            f"bodies[{surfaces[0]}] is a triangle mesh among tet meshes, expected bodies of one sort: give the "
            "surface of the tet meshes, or cut the triangle mesh into tets"
        )
    return cast("tuple[TetMesh, ...] | tuple[TriMesh, ...]", made)


def _are_surfaces(bodies: Sequence[Any]) -> bool:
    return isinstance(bodies[0], TriMesh)


def check_answers(depth: Any, edges: Any) -> None:
    """Refuse what is none of the ways to measure depths, or no choice about edges."""
    if not (isinstance(depth, bool) or (isinstance(depth, str) and depth == "local")):
        raise OptionError(f"depth is {depth!r}, expected False, True or 'local'")
    if not isinstance(edges, bool):
        raise OptionError(f"edges is {edges!r}, expected True or False")


def check_whole(options: HashOptions, depth: Depth, edges: bool) -> None:
    """Refuse to measure depths or edges of bodies of which only a part is active: both are about whole surfaces."""
    if (depth or edges) and any(chosen is not None for chosen in options.active or []):
        asked = "depth" if depth else "edges"
        raise OptionError(f"{asked} is about the whole surface of a body; leave active out, or {asked}")


def _as_cell_size(cell_size: Any) -> float | None:
    is_number = isinstance(cell_size, int | float | np.integer | np.floating) and not isinstance(cell_size, bool)
    if cell_size is not None and not (is_number and 0.0 < cell_size < np.inf):
        raise OptionError(f"cell_size is {cell_size!r}, expected a positive number, or None to let it follow the edges")
    return None if cell_size is None else float(cell_size)


def hash_options(options: dict[str, Any]) -> HashOptions:
    """Check the names of options."""
    known = [f.name for f in fields(HashOptions)]
    unknown = sorted(set(options) - set(known))
    if unknown:
        elsewhere = "; cell_size is an option of SpatialHash(bodies, ...)" if unknown == ["cell_size"] else ""
        raise OptionError(f"unknown option {', '.join(unknown)}; expected any of {', '.join(known)}{elsewhere}")
    return HashOptions(**options)


def per_body(values: Any, name: str, count: int) -> Sequence[Any]:
    """A list with an entry for each body; None for each if there is no list."""
    if values is None:
        return [None] * count
    if not hasattr(values, "__len__"):
        raise OptionError(f"{name} is {values!r}, expected a list with an entry for each of the {count} bodies")
    if len(values) != count:
        raise OptionError(f"{name} has {len(values)} entries, expected one for each of the {count} bodies")
    return cast("Sequence[Any]", values)
