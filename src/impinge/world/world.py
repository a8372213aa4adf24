"""Many bodies of any kind: near pairs, triangles that meet, and all contacts, in a handful of kernel calls.

    world = World()
    world.add(liver, name="liver")
    world.add(tool, name="tool")
    contacts = world.contacts(budget_ms=4.0)

1. Refresh. Copy the positions of bodies that moved into one batch, and refit boxes (``surface_batch``). Versions are
            compared in every query: structures are never stale.
2. Near.    Pairs of bodies whose boxes overlap (``detect.boxes.broad_phase``), without pairs that are ignored, both
            fixed, or in groups that do not collide.
3. Search   all near pairs together (``search``): small bodies in one kernel call, large ones by the trees that they
            keep. Pairs beyond the budget are ``possible``.

Body numbers in results are positions in ``names``. Ids of contacts derive from names: they persist while bodies are
added and removed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from time import perf_counter
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from impinge.backend.stages import start_stages
from impinge.budget import Budget
from impinge.checks import (
    Bools,
    Cancel,
    Floats,
    Ints,
    Stats,
    as_choice,
    as_flag,
    as_indices,
    as_names,
    as_number,
    as_numbers,
    as_positions,
    as_whole,
    check_cancel,
    shown,
)
from impinge.contact.contacts import Contacts, make_contacts
from impinge.detect.boxes.broad_phase import overlapping_boxes
from impinge.detect.common.results import Kind, Result
from impinge.detect.continuous.continuous_tree import AtStart
from impinge.errors import MeshError, OptionError
from impinge.mesh.body import Body, BodyLike, as_body
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh
from impinge.world.auto import choose_contacts, choose_within_budget
from impinge.world.batch_queries import may_meet
from impinge.world.search import BodyEntry, WorldSearch
from impinge.world.surface_batch import Ids, Layout
from impinge.world.world_impacts import Ends, WorldImpacts, impacts_of_pairs, motions_of

ALL_GROUPS = (1 << 63) - 1

ContactMethod: TypeAlias = Literal["auto", "vertices", "pairs", "volume", "spheres"]


class HasSurface(Protocol):
    """A body that moves its own surface, such as a ``SoftBody``."""

    @property
    def surface(self) -> TriMesh:
        """The surface that collides."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WorldPairs(Result):
    """Pairs of triangles that meet, of all near bodies; sorted by (body_a, body_b, triangle of a, triangle of b)."""

    body_a: Ints
    """Number of the first body, below that of the second, shape (k,)."""
    body_b: Ints
    pairs: Ints
    """Triangle of a, triangle of b, shape (k, 2)."""
    kind: NDArray[np.int8]
    """How they meet, a ``Kind``, shape (k,)."""
    names: tuple[str, ...] = ()
    """Names of the bodies by number."""
    bodies: tuple[Body, ...] = field(default=(), repr=False)
    """The bodies by number; not part of ``to_dict`` and of pickles."""

    _rows = "pairs"
    _identity = ("body_a", "body_b", "pairs")

    def count_by_kind(self) -> dict[str, int]:
        """Number of touching, crossing and coplanar pairs."""
        return {kind.name.lower(): int((self.kind == kind).sum()) for kind in Kind}

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the result without the bodies."""
        return {**self.__dict__, "bodies": ()}


class _Filter(NamedTuple):
    """Pairs of bodies that may collide, as arrays."""

    group: Ids
    collides_with: Ids
    fixed: Bools
    ignored: Ids
    """Keys of ignored pairs, first body times number of bodies plus second."""
    passes_all: bool


class World:
    """Bodies by name, and queries on all of them: ``contacts``, ``pairs``, ``impacts`` and ``near_pairs``.

    Move bodies by their own ``update``, or all at once by ``World.update`` and ``World.move``. A pickled or copied
    world has its bodies, names, groups and ignored pairs, and none of its caches.

    Examples
    --------
    >>> import impinge
    >>> world = impinge.World()
    >>> floor = world.add(impinge.shapes.box(4.0), name="floor", fixed=True)
    >>> ball = world.add(impinge.shapes.icosphere(2, center=(0.0, 0.0, 2.5)))
    >>> world.contacts().body_pairs.tolist()
    [[0, 1]]
    """

    def __init__(self) -> None:
        self._entries: dict[str, BodyEntry] = {}
        self._ignored: set[tuple[str, str]] = set()
        self.edits = 0
        """Number of changes of the set of bodies and ignored pairs."""
        self._reset_caches()

    def _reset_caches(self) -> None:
        self._lock = threading.RLock()
        self._filter: _Filter | None = None
        self._rest: tuple[Layout, Floats, set[str]] | None = None
        self._search: WorldSearch | None = None
        self._last: Layout | None = None
        """Layout of the previous set of bodies."""

    def __getstate__(self) -> dict[str, Any]:
        """Pickle and copy bodies, names, groups and ignored pairs."""
        with self._lock:
            return {"_entries": dict(self._entries), "_ignored": set(self._ignored), "edits": self.edits}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset_caches()

    # bodies ---------------------------------------------------------------------------------------------

    def add(
        self,
        body: BodyLike | HasSurface,
        *,
        name: str | None = None,
        group: int = 1,
        collides_with: int = ALL_GROUPS,
        fixed: bool = False,
    ) -> str:
        """Add a body.

        Parameters
        ----------
        body : body or object with a ``surface``
            A mesh, anything that converts to one, or an object that moves its own ``surface``, such as a ``SoftBody``.
        name : str, optional
            A name that no other body has; None chooses one.
        group, collides_with : int
            Bit masks. Two bodies collide if each one's ``group`` has a bit in common with the ``collides_with`` of the
            other.
        fixed : bool
            Two fixed bodies do not collide.

        Returns
        -------
        str
            The name.

        Raises
        ------
        MeshError
            If the body is in the world already, or is no mesh.
        OptionError
            If the name is taken, or an option is not as described.
        """
        surface = getattr(body, "surface", None)
        moves_itself = isinstance(surface, TriMesh) and not isinstance(body, TetMesh)
        mesh: Body = surface if moves_itself else as_body(body)  # type: ignore[assignment, arg-type]
        surface = mesh.surface if isinstance(mesh, TetMesh) else mesh
        group = as_whole(group, "group", least=0, most=ALL_GROUPS, remedy=", a mask of bits")
        collides_with = as_whole(collides_with, "collides_with", least=0, most=ALL_GROUPS, remedy=", a mask of bits")
        rest = mesh.vertices.copy()
        entry = BodyEntry(body, mesh, surface, group, collides_with, as_flag(fixed, "fixed"), moves_itself, rest)
        with self._lock:
            for other, known in self._entries.items():
                if known.surface.positions is surface.positions:
                    raise MeshError(
                        f"this body is in the world already, as {other!r}; add a copy of it, or remove {other!r} first"
                    )
            if name is None:
                name = next(f"body {k}" for k in count(len(self._entries)) if f"body {k}" not in self._entries)
            if not isinstance(name, str) or not name or name.encode(errors="ignore").decode() != name:
                raise OptionError(f"name is {shown(name)}, expected a non-empty string, or None")
            if name in self._entries:
                raise OptionError(f"there is a body named {name!r} already; choose another name, or remove it first")
            self._entries[name] = entry
            self._bodies_changed()
            return name

    def remove(self, name: str) -> None:
        """Remove a body, and every ``ignore`` with its name."""
        with self._lock:
            self._entry(name)
            del self._entries[name]
            self._ignored = {pair for pair in self._ignored if name not in pair}
            self._bodies_changed()

    def ignore(self, a: str, b: str) -> None:
        """Leave out contacts between two bodies; the self-collision of one if both names are the same."""
        with self._lock:
            for name in (a, b):
                self._entry(name)
            self._ignored.add((min(a, b), max(a, b)))
            self._filter = None
            self.edits += 1

    def ignores(self, a: str, b: str) -> bool:
        """Whether two bodies, or one with itself, are ignored."""
        return a in self and b in self and ((a, b) in self._ignored or (b, a) in self._ignored)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all bodies, in the order of ``add``; body numbers in results are positions here."""
        return tuple(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._entries

    def __getitem__(self, name: str) -> Any:
        """The object that was added under a name."""
        return self._entry(name).added

    def surface(self, name: str) -> TriMesh:
        """The surface of a body, which collides."""
        return self._entry(name).surface

    def body(self, name: str) -> Body:
        """The mesh of a body, which ``update`` moves: the added object, or its conversion."""
        return self._entry(name).body

    def is_fixed(self, name: str) -> bool:
        """Whether a body was added as fixed."""
        return self._entry(name).fixed

    def __repr__(self) -> str:
        triangles = sum(entry.surface.live_count for entry in self._entries.values())
        return f"<World: {len(self)} bodies, {triangles:,} triangles, {len(self._ignored)} ignored pairs>"

    def _entry(self, name: str) -> BodyEntry:
        if name not in self:
            known = ", ".join(map(repr, list(self._entries)[:8])) + (", ..." if len(self) > 8 else "")
            raise OptionError(f"there is no body named {shown(name)}; there are {known or 'none'}")
        return self._entries[name]

    def _bodies_changed(self) -> None:
        """Drop the derived state of the previous set of bodies, except for its layout."""
        self.edits += 1
        if self._search is not None:
            self._last = self._search.batch.layout
        self._search = self._filter = self._rest = None

    # moving all at once -----------------------------------------------------------------------------------

    def update(self, vertices: ArrayLike) -> None:
        """Set new positions of all bodies, by one copy and one check.

        The bodies get new versions, as after an ``update`` of each.

        Parameters
        ----------
        vertices : array_like, shape (n, 3)
            Positions of the vertices of all bodies, in the order of ``names``.

        Raises
        ------
        MeshError
            If the shape is wrong, a coordinate is not finite, or a body moves itself.
        """
        with self._lock:
            search = self._refreshed()
            self._check_movable(search.self_moving)
            x, expected = as_positions(vertices, check=False), search.batch.layout.vertex_count
            if len(x) != expected:
                raise MeshError(
                    f"vertices have {len(x)} rows, but the bodies have {expected} vertices together; "
                    "pass those of all bodies, in the order of world.names"
                )
            search.batch.update(x)

    def move(self, transforms: ArrayLike, *, names: Iterable[str] | None = None) -> None:
        """Move bodies by affine transforms, relative to their positions when they were added, in one call.

        Parameters
        ----------
        transforms : array_like, shape (k, 4, 4)
            One matrix per body.
        names : iterable of str, optional
            The bodies, each once; None for all, in the order of ``names``.

        Raises
        ------
        MeshError
            If a body moves itself, or has more vertices than when it was added.
        OptionError
            If the transforms are not affine and finite, or their number is wrong.
        """
        with self._lock:
            chosen = None if names is None else as_names(names, "names")
            expected = (len(self) if chosen is None else len(chosen), 4, 4)
            matrices = np.ascontiguousarray(as_numbers(transforms, "transforms"), dtype=np.float64)
            if matrices.shape != expected:
                raise OptionError(f"transforms have shape {matrices.shape}, expected {expected}: one per body")
            if not np.isfinite(matrices).all():
                raise OptionError("transforms have a NaN or infinite entry, expected finite numbers")
            if not (matrices[:, 3] == (0.0, 0.0, 0.0, 1.0)).all():
                raise OptionError("transforms have a last row other than [0, 0, 0, 1], expected affine matrices")
            search = self._refreshed()
            self._check_movable(search.self_moving if chosen is None else chosen)
            if chosen is not None and len(set(chosen)) < len(chosen):
                twice = next(name for k, name in enumerate(chosen) if name in chosen[:k])
                raise OptionError(f"names has {twice!r} twice; pass one transform per body")
            layout = search.batch.layout
            if self._rest is None or self._rest[0] is not layout:
                parts, grown = [np.zeros((0, 3))], set[str]()
                for vertices, (name, entry) in zip(np.diff(layout.vertex_start).tolist(), self._entries.items()):
                    parts.append(np.resize(entry.rest, (vertices, 3)))
                    grown |= {name} if len(entry.rest) != vertices else set()
                self._rest = layout, np.concatenate(parts), grown
            for name in self._rest[2].intersection(self._entries if chosen is None else chosen):
                raise MeshError(f"body {name!r} has vertices that were added later; set its positions by update")
            numbers = None if chosen is None else [search.number[name] for name in chosen]
            search.batch.move(numbers, matrices, self._rest[1])

    def _check_movable(self, names: list[str]) -> None:
        for name in names:
            if self._entry(name).moves_itself:
                raise MeshError(f"body {name!r} moves its surface itself; step it, and move the others by name")

    # queries ----------------------------------------------------------------------------------------------

    def near_pairs(self, *, margin: float = 0.0) -> Ints:
        """Find pairs of bodies whose boxes overlap and that may collide.

        Parameters
        ----------
        margin : float
            Length by which all boxes grow on every side.

        Returns
        -------
        ndarray of int32, shape (k, 2)
            Numbers (i < j) of bodies, sorted.
        """
        length = as_number(margin, "margin", "a number from 0", least=0.0, below=np.inf)
        with self._lock:
            return self._near(self._refreshed(), length).astype(np.int32)

    def pairs(self) -> WorldPairs:
        """Find all pairs of triangles of two bodies that meet."""
        began = perf_counter()
        with self._lock:
            search, stats = self._refreshed(), Stats()
            near, layout = self._near(search), search.batch.layout
            rows, kind = search.triangles(may_meet(search.batch, near), stats)
            body_a, body_b = layout.body_of_face[rows[:, 0]], layout.body_of_face[rows[:, 1]]
            order = np.argsort(body_a * len(self) + body_b, kind="stable")  # rows are sorted, and bodies follow them
            stats["body_pairs"] = len(near)
            return WorldPairs(
                body_a=body_a[order].astype(np.int32),
                body_b=body_b[order].astype(np.int32),
                pairs=layout.face_id[rows[order]],
                kind=kind[order],
                names=search.names,
                bodies=search.bodies,
                method="surface_batch",
                stats=stats,
                elapsed_ms=1e3 * (perf_counter() - began),
            )

    def contacts(
        self,
        *,
        method: ContactMethod = "auto",
        budget_ms: float | None = None,
        max_tests: int | None = None,
        self_collision: bool = False,
        first: ArrayLike | None = None,
    ) -> Contacts:
        """Find all contacts of near bodies.

        Parameters
        ----------
        method : {"auto", "vertices", "pairs", "volume", "spheres"}
            "vertices": vertices inside bodies, with depths; the intersection curve of pairs without one.
            "pairs": intersection curves; vertices of a body inside another.
            "volume": one contact per pair of bodies that overlap; all bodies must be closed.
            "spheres": sphere trees, searched as far as the budget allows.
            "auto" chooses, and reports ``chosen`` and ``why`` in ``stats``.
        budget_ms : float, optional
            Milliseconds; pairs of bodies beyond are ``possible``.
        max_tests : int, optional
            Number of tests, a budget with the same answer on every machine; excludes ``budget_ms``.
        self_collision : bool
            Add contacts of bodies with themselves.
        first : array_like, shape (k, 2), optional
            Pairs of body numbers to process before all others, in this order; the first of them regardless of the
            budget. With ``possible`` of the previous frame, pairs take turns.

        Returns
        -------
        Contacts
            Contacts sorted by bodies, kind and features.

        Raises
        ------
        OptionError
            If an option is not as described.
        MeshError
            If a body is not closed and oriented (method "volume").
        """
        began = perf_counter()
        if budget_ms is not None and max_tests is not None:
            raise OptionError("budget_ms and max_tests are both given; choose one, max_tests for repeatable answers")
        is_limited = budget_ms is not None or max_tests is not None
        budget = Budget(budget_ms, max_tests) if is_limited else None
        as_choice(method, "method", get_args(ContactMethod))
        as_flag(self_collision, "self_collision")
        with self._lock:
            stages, stats = start_stages(), Stats()
            search = self._refreshed()
            stages.done("refresh")
            pairs, ahead = self._near(search, self_collision=self_collision), 0
            if first is not None:
                pairs, ahead = _put_first(pairs, first, len(search.names))
            stages.done("near")
            chosen, why = str(method), "requested"
            if method == "auto":
                chosen, why = choose_contacts(search.count_enclosing(), len(search.names))
                if self_collision:
                    tets = sum(isinstance(body, TetMesh) for body in search.bodies)
                    why += f"; {tets} tet meshes report self-penetration depth, {len(search.bodies) - tets} curves"
                if chosen == "vertices" and budget is not None:
                    chosen, why = choose_within_budget(search.costs(pairs), budget) or (chosen, why)
            found = search.find(chosen, pairs, budget, stats, ahead)
            stages.done("search")
            # Pairs to be put first next time: those that came first now, in that order, then the others, sorted.
            left = np.sort(found.left)
            others = pairs[left[left >= ahead]]
            others = others[np.lexsort((others[:, 1], others[:, 0]))]
            stats.update({"chosen": chosen, "why": why, "body_pairs": len(pairs), "tests_spent": found.tests})
            contacts = make_contacts(
                found.rows,
                search.keys,
                Result(complete=not len(left), reason="budget" if len(left) else None, method=chosen, stats=stats),
                bodies=search.bodies,
                names=search.names,
                possible=np.concatenate([pairs[left[left < ahead]], others]).astype(np.int32),
                tests=found.tests,
            )
            stages.done("finish")
            stats.update(stages.times())
            return replace(contacts, elapsed_ms=1e3 * (perf_counter() - began))

    def impacts(
        self,
        ends: Ends,
        *,
        margin: float = 0.0,
        first_only: bool = False,
        at_start: AtStart = "report",
        self_impacts: bool = False,
        exclude_rings: int = 0,
        cancel: Cancel | None = None,
    ) -> WorldImpacts:
        """Find all impacts of bodies that move along straight lines from their present positions.

        Parameters
        ----------
        ends : dict
            Name of a body to its positions at the end, shape (n, 3), or to two affine matrices, shape (2, 4, 4), at the
            start and at the end of the motion. Other bodies stay.
        margin, first_only, at_start, cancel
            As in ``impinge.impacts``.
        self_impacts : bool
            Add impacts of moving bodies with themselves.
        exclude_rings : int
            For these, as in ``impinge.impacts``.

        Returns
        -------
        WorldImpacts
            Sorted by time, bodies, kind and ids.

        Raises
        ------
        MeshError
            If end positions have the wrong shape or are not finite.
        OptionError
            If a name is unknown, or an option is not as described.
        """
        began = perf_counter()
        length = as_number(margin, "margin", "a finite number from 0", least=0.0, below=np.inf)
        as_flag(first_only, "first_only")
        as_choice(at_start, "at_start", get_args(AtStart))
        as_flag(self_impacts, "self_impacts")
        rings = as_whole(exclude_rings, "exclude_rings", least=0)
        if cancel is not None:
            check_cancel(cancel)
        with self._lock:
            search = self._refreshed()
            motions = motions_of({name: entry.surface for name, entry in self._entries.items()}, ends)
            low, high = (np.array([getattr(m, side) for m in motions]).reshape(-1, 3) for side in ("low", "high"))
            pairs = self._near(search, length, self_collision=self_impacts, boxes=(low, high))
            is_static = np.array([motion.is_static for motion in motions], dtype=np.bool_)
            return impacts_of_pairs(
                motions,
                pairs[~is_static[pairs].all(axis=1)],
                search.names,
                margin=length,
                first_only=first_only,
                at_start=at_start,
                exclude_rings=rings,
                cancel=cancel,
                began=began,
            )

    def _refreshed(self) -> WorldSearch:
        """The derived state of the present bodies at their present positions."""
        if self._search is None:
            self._search, self._last = WorldSearch(self._entries, self._last), None
        self._search.batch.refresh()
        return self._search

    def _near(
        self,
        search: WorldSearch,
        margin: float = 0.0,
        *,
        self_collision: bool = False,
        boxes: tuple[Floats, Floats] | None = None,
    ) -> Ids:
        """Numbers of bodies that may collide, (i < j) sorted, then (i, i) with ``self_collision``.

        ``boxes`` are those of the present positions unless given.
        """
        batch, entries = search.batch, self._entries.values()
        if self._filter is None:
            ignored = [sorted((search.number[a], search.number[b])) for a, b in self._ignored]
            group, collides = np.array([[e.group, e.collides_with] for e in entries] or [[0, 0]], dtype=np.int64).T
            fixed = np.array([e.fixed for e in entries], dtype=np.bool_)
            passes_all = not ignored and not fixed.any() and bool(((group == 1) & (collides == ALL_GROUPS)).all())
            keys = np.array([a * len(entries) + b for a, b in ignored], dtype=np.int64)
            self._filter = _Filter(group, collides, fixed, keys, passes_all)
        low, high = (batch.low, batch.high) if boxes is None else boxes
        boxes = (low - margin, high + margin) if margin else (low, high)
        pairs, (group, collides, fixed, keys, passes_all) = overlapping_boxes(*boxes), self._filter
        if not passes_all:
            a, b = pairs.T
            allowed: Bools = (group[a] & collides[b] != 0) & (group[b] & collides[a] != 0) & ~(fixed[a] & fixed[b])
            pairs = pairs[allowed & ~np.isin(a * len(entries) + b, keys)]
        if self_collision:
            filled = np.flatnonzero(np.diff(batch.layout.face_start))
            filled = filled[~np.isin(filled * (len(entries) + 1), keys)]
            pairs = np.concatenate([pairs, np.stack([filled, filled], axis=1)])
        return pairs


def _put_first(pairs: Ids, first: ArrayLike, body_count: int) -> tuple[Ids, int]:
    """Move the pairs in ``first`` to the front, in its order; return their number too."""
    wanted = as_indices(first, name="first", columns=2, of="body")
    strange = wanted[(wanted < 0) | (wanted >= body_count)]
    if len(strange):
        raise OptionError(f"first has body {strange[0]}, expected numbers below {body_count}: positions in world.names")
    row_of = {(a, b): row for row, (a, b) in enumerate(pairs.tolist())}
    ordered = [(min(a, b), max(a, b)) for a, b in wanted.tolist()]
    front = list(dict.fromkeys(row_of[pair] for pair in ordered if pair in row_of))
    order = np.concatenate([front, np.setdiff1d(np.arange(len(pairs)), front)]).astype(np.int64)
    return pairs[order], len(front)
