"""Many bodies of any kind: who is near whom, which triangles meet, and all contacts, in a handful of kernel calls.

    world = World()
    world.add(liver, name="liver")
    world.add(tool, name="tool")
    contacts = world.contacts(budget_ms=4.0)

1. Look.     Take the positions of what moved into one arena, and fit boxes (``detect.arena``): never stale, since
             versions are compared at every question.
2. Near.     Bodies whose boxes overlap (``detect.broad_phase``), without those that are ignored, fixed both, or of
             groups that do not collide.
3. Ask       all near pairs together (``world_search``): small bodies in one kernel call, large ones by the trees that
             they keep (``contact.arena_contacts``); pairs that got no time are ``possible``.

Numbers      of bodies in results are positions in ``names``. Ids of contacts follow from names, so that they persist
             while bodies come and go.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.backend.stages import start_stages
from impinge.checks import Bools, Floats, Ints, as_length, as_numbers, as_positions, shown
from impinge.contact.contacts import Contacts, body_key, joined, make_contacts
from impinge.detect.boxes.broad_phase import overlapping_boxes
from impinge.detect.common.results import Kind, Reason, Result
from impinge.errors import MeshError, OptionError
from impinge.mesh.body import as_body
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh
from impinge.world.auto import choose_contacts, choose_within_budget
from impinge.world.search import METHODS, WorldSearch, make_budget, put_first
from impinge.world.surface_batch import Arena, Ids, Layout

ALL_GROUPS = (1 << 63) - 1


@dataclass(frozen=True, kw_only=True, eq=False)
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
    bodies: tuple[Any, ...] = field(default=(), repr=False)

    _rows = "pairs"
    _identity = ("body_a", "body_b", "pairs")

    def count_by_kind(self) -> dict[str, int]:
        """How many pairs touch, cross and are coplanar."""
        return {kind.name.lower(): int((self.kind == kind).sum()) for kind in Kind}


@dataclass(frozen=True)
class _Entry:
    """One body of a world."""

    given: Any
    """What was added: a mesh, or something that has a surface."""
    body: TriMesh | TetMesh
    surface: TriMesh
    group: int
    collides_with: int
    fixed: bool
    moves_by_itself: bool
    rest: Floats
    """Positions when it was added."""


class _Cast(NamedTuple):
    """Who is in a world; made once for each set of bodies, since results and moves ask for it in every frame."""

    names: tuple[str, ...]
    bodies: tuple[Any, ...]
    number: dict[str, int]
    movers: list[str]
    """Names of bodies that move by themselves."""


class World:
    """Bodies by name, and questions about all of them: ``contacts``, ``pairs`` and ``near_pairs``.

    Move bodies by their own ``update``, or all at once by ``world.update`` and ``world.move``; then ask.
    """

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._ignored: set[tuple[str, str]] = set()
        self._lock = threading.RLock()
        self._filter: tuple[Any, ...] | None = None
        self._asks_all = True
        """Whether the filter lets all pairs pass."""
        self._rest: tuple[Any, Floats, set[str]] | None = None
        self.edits = 0
        """How often bodies have come, gone, or been ignored; the same as long as the same bodies may meet."""
        self._search: WorldSearch | None = None
        self._last: Layout | None = None
        """Of the set of bodies before this one."""
        self._forget()

    # bodies ---------------------------------------------------------------------------------------------

    def add(
        self,
        body: Any,
        *,
        name: str | None = None,
        group: int = 1,
        collides_with: int = ALL_GROUPS,
        fixed: bool = False,
    ) -> str:
        """Add a body, and return its name.

        A body is a mesh, whatever can be turned into one, or something with a ``surface``, such as a ``SoftBody``.
        ``group`` and ``collides_with`` are bits: two bodies are asked about if the groups of each are among those that
        the other collides with. Two ``fixed`` bodies are not asked about.
        """
        entry = _entry(body, group, collides_with, fixed)
        with self._lock:
            for other, known in self._entries.items():
                if known.surface.positions is entry.surface.positions:
                    raise MeshError(
                        f"this body is in the world already, as {other!r}; add a copy of it, or remove {other!r} first"
                    )
            name = self._free_name() if name is None else name
            if not isinstance(name, str) or not name or not _is_text(name):
                raise OptionError(f"name is {shown(name)}, expected a word, or None to be given one")
            if name in self._entries:
                raise OptionError(f"there is a body named {name!r} already; choose another name, or remove it first")
            self._entries[name] = entry
            self._forget()
            return name

    def remove(self, name: str) -> None:
        """Remove a body, and every ``ignore`` that names it."""
        with self._lock:
            self._entry(name)
            del self._entries[name]
            self._ignored = {pair for pair in self._ignored if name not in pair}
            self._forget()

    def ignore(self, a: str, b: str) -> None:
        """Leave out contacts between two bodies; those of one with itself, if both names are the same."""
        with self._lock:
            for name in (a, b):
                self._entry(name)
            self._ignored.add((min(a, b), max(a, b)))
            self._filter = None
            self.edits += 1

    def ignores(self, a: str, b: str) -> bool:
        """Whether two bodies, or one with itself, are ignored."""
        return (a, b) in self._ignored or (b, a) in self._ignored

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all bodies, in the order in which they were added; numbers in results are positions here."""
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
        """What was added under a name."""
        return self._entry(name).given

    def surface(self, name: str) -> TriMesh:
        """The surface of a body, which is what collides."""
        return self._entry(name).surface

    def body(self, name: str) -> TriMesh | TetMesh:
        """The mesh of a body, which ``update`` moves: what was added, or what that was turned into."""
        return self._entry(name).body

    def is_fixed(self, name: str) -> bool:
        """Whether a body was added as fixed."""
        return self._entry(name).fixed

    def __repr__(self) -> str:
        return f"<World: {len(self)} bodies>"

    def _entry(self, name: str) -> _Entry:
        if name not in self:
            known = ", ".join(map(repr, list(self._entries)[:8])) + (", ..." if len(self) > 8 else "")
            raise OptionError(f"there is no body named {shown(name)}; there are {known or 'none'}")
        return self._entries[name]

    def _free_name(self) -> str:
        number = len(self._entries)
        while f"body {number}" in self._entries:
            number += 1
        return f"body {number}"

    def _forget(self) -> None:
        """Forget what follows from the set of bodies; it is made again when somebody asks."""
        self.edits += 1
        if self._search is not None:
            self._last = self._search.arena.layout
        self._search = None
        self._filter = self._rest = None
        self._keys = np.zeros(0, dtype=np.uint64)
        self._cast: _Cast | None = None

    # moving all at once -----------------------------------------------------------------------------------

    def update(self, vertices: Any) -> None:
        """Set new positions of all bodies, one after the other in the order of ``names``, shape (all vertices, 3).

        One copy and one check serve all. Bodies show parts of that copy, and have new versions, as after an ``update``
        of each.
        """
        with self._lock:
            arena = self._look()
            self._check_movable(None)
            x, count = as_positions(vertices, check=False), arena.layout.vertex_count
            if len(x) != count:
                raise MeshError(
                    f"vertices have {len(x)} rows, but the bodies have {count} vertices together; "
                    "give those of all bodies, in the order of world.names"
                )
            arena.update_together(x)

    def move(self, transforms: Any, *, names: Sequence[str] | None = None) -> None:
        """Move bodies by affine matrices, shape (k, 4, 4), from where they were when they were added, in one call.

        ``names`` tells which bodies; None means all of them, in order.
        """
        with self._lock:
            names = None if names is None else _as_names(names)
            matrices = _as_transforms(transforms, len(self) if names is None else len(names))
            self._check_movable(names)
            if names is not None and len(set(names)) < len(names):
                twice = next(name for k, name in enumerate(names) if name in names[:k])
                raise OptionError(f"names has {twice!r} twice; give each body one transform")
            arena = self._look()
            rest, number = self._rest_positions(arena, names), self._casting().number
            arena.move(None if names is None else [number[name] for name in names], matrices, rest)

    def _check_movable(self, names: Sequence[str] | None) -> None:
        movers = self._casting().movers
        for name in movers if names is None else names:
            if self._entry(name).moves_by_itself:
                raise MeshError(f"body {name!r} moves its surface by itself; step it, and move the others by name")

    def _rest_positions(self, arena: Arena, names: Sequence[str] | None) -> Floats:
        """Where all vertices were when their bodies were added, by the arena's numbers."""
        if self._rest is None or self._rest[0] is not arena.layout:
            counts, parts, grown = np.diff(arena.layout.vertex_start).tolist(), [np.zeros((0, 3))], set[str]()
            for count, (name, entry) in zip(counts, self._entries.items()):
                if len(entry.rest) == count:
                    parts.append(entry.rest)
                else:
                    parts.append(np.zeros((count, 3)))
                    grown.add(name)
            self._rest = arena.layout, np.concatenate(parts), grown
        grown = self._rest[2]
        strange = [name for name in (self._entries if names is None else names) if name in grown] if grown else []
        if strange:
            raise MeshError(
                f"body {strange[0]!r} has vertices that it did not have when it was added; set its positions by update"
            )
        return self._rest[1]

    # questions --------------------------------------------------------------------------------------------

    def near_pairs(self, *, margin: float = 0.0) -> Ints:
        """Numbers (i < j) of bodies whose boxes, grown by ``margin``, overlap and that may collide, shape (k, 2)."""
        grown = as_length(margin)
        if grown is None or grown == np.inf:
            raise OptionError(f"margin is {shown(margin)}, expected a number from 0")
        with self._lock:
            return self._near(self._look(), grown).astype(np.int32)

    def pairs(self) -> WorldPairs:
        """All pairs of triangles of two bodies that meet."""
        began = perf_counter()
        with self._lock:
            arena, stats = self._look(), dict[str, Any]()
            near = self._near(arena)
            rows, kind = self._searching().in_arena.triangles(near, stats)
            layout = arena.layout
            body_a, body_b = layout.of_face[rows[:, 0]], layout.of_face[rows[:, 1]]
            order = np.argsort(body_a * len(self) + body_b, kind="stable")  # rows are sorted, and bodies follow them
            stats["body_pairs"] = len(near)
            return WorldPairs(
                body_a=body_a[order].astype(np.int32),
                body_b=body_b[order].astype(np.int32),
                pairs=layout.face_id[rows[order]],
                kind=kind[order],
                method="arena",
                stats=stats,
                elapsed_ms=1e3 * (perf_counter() - began),
                **self._named(),
            )

    def contacts(
        self,
        *,
        method: str = "auto",
        budget_ms: float | None = None,
        max_tests: int | None = None,
        self_collision: bool = False,
        first: Any = None,
    ) -> Contacts:
        """Find all contacts of near bodies.

        method       "vertices": vertices inside bodies, with depths; where none is inside and triangles meet, the
                     curve. "pairs": the curves; vertices of a body that is inside another. "volume": one contact for
                     two bodies that overlap; all bodies have to be closed. "spheres": by sphere trees, searched as far
                     as the budget goes. "auto" chooses, and says in ``stats`` what it chose, and why
        budget_ms, max_tests   limit the work; pairs of bodies that got no time are ``possible``
        self_collision   True adds contacts of bodies with themselves
        first        pairs of bodies by number, shape (k, 2), that are asked before all others, in this order, and the
                     first of them however long it takes: pass ``possible`` of the frame before, so that each has
                     its turn
        """
        began = perf_counter()
        budget = make_budget(budget_ms, max_tests, began)
        if not isinstance(self_collision, bool):
            raise OptionError(f"self_collision is {shown(self_collision)}, expected True or False")
        with self._lock:
            stages, stats = start_stages(), dict[str, Any]()
            arena = self._look()
            stages.done("look")
            asked = self._near(arena)
            if self_collision:
                asked = np.concatenate([asked, self._selves(arena)])
            asked, ahead = put_first(asked, first, len(self))
            stages.done("near")
            chosen, why = self._method(method, asked, budget_ms, max_tests, self_collision)
            stats["chosen"], stats["why"] = chosen, why
            found, left = self._searching().find(chosen, asked, budget, stats, ahead)
            stages.done("search")
            reason: Reason | None = "budget" if len(left) else None
            stats["body_pairs"] = len(asked)
            contacts = make_contacts(
                joined(found), self._keys, possible=left.astype(np.int32), method=chosen, complete=reason is None,
                reason=reason, stats=stats, elapsed_ms=1e3 * (perf_counter() - began), **self._named(),
            )  # fmt: skip
            stages.done("finish")
            stats.update(stages.times())
            return contacts

    # steps ------------------------------------------------------------------------------------------------

    def _searching(self) -> WorldSearch:
        if self._search is None:
            entries = list(self._entries.values())
            self._keys = np.array([body_key(name) for name in self._entries], dtype=np.uint64)
            self._search = WorldSearch(
                [e.given for e in entries],
                [e.body for e in entries],
                [e.surface for e in entries],
                self._keys.tolist(),
                self._last,
            )
            self._last = None
        return self._search

    def _look(self) -> Arena:
        arena = self._searching().arena
        arena.look()
        return arena

    def _filters(self) -> tuple[Any, ...]:
        """Groups, what they collide with, who is fixed, and keys of ignored pairs, as arrays."""
        if self._filter is None:
            entries = list(self._entries.values())
            number = {name: b for b, name in enumerate(self._entries)}
            ignored = [sorted((number[a], number[b])) for a, b in self._ignored]
            keys = np.array([a * len(entries) + b for a, b in ignored], dtype=np.int64)
            group, collides = np.array([[e.group, e.collides_with] for e in entries] or [[0, 0]], dtype=np.int64).T
            fixed = np.array([e.fixed for e in entries], dtype=np.bool_)
            self._filter = group, collides, fixed, keys
            self._asks_all = bool(
                not len(keys) and not fixed.any() and (group == 1).all() and (collides == ALL_GROUPS).all()
            )
        return self._filter

    def _wanted(self, pairs: Ids) -> Ids:
        """The pairs that are to be asked about."""
        group, collides, fixed, ignored = self._filters()
        if self._asks_all:
            return pairs
        a, b = pairs.T
        wanted: Bools = (group[a] & collides[b] != 0) & (group[b] & collides[a] != 0) & ~(fixed[a] & fixed[b])
        if len(ignored):
            wanted &= ~np.isin(a * len(self) + b, ignored)
        return pairs[wanted]

    def _near(self, arena: Arena, margin: float = 0.0) -> Ids:
        boxes = (arena.low - margin, arena.high + margin) if margin else (arena.low, arena.high)
        return self._wanted(overlapping_boxes(*boxes))

    def _selves(self, arena: Arena) -> Ids:
        numbers = np.flatnonzero(np.diff(arena.layout.face_start))
        pairs = np.stack([numbers, numbers], axis=1)
        return pairs[~np.isin(numbers * len(self) + numbers, self._filters()[3])]

    def _method(
        self, method: str, asked: Ids, budget_ms: float | None, max_tests: int | None, self_collision: bool
    ) -> tuple[str, str]:
        """The way to find contacts, and why it was chosen."""
        if method == "auto":
            search = self._searching()
            chosen = choose_contacts(search.count_insides(), len(self))
            if self_collision:
                chosen = chosen[0], f"{chosen[1]}; {self._why_of_selves()}"
            if chosen[0] == "vertices" and (budget_ms is not None or max_tests is not None):
                return choose_within_budget(search.in_arena.costs(asked), budget_ms, max_tests) or chosen
            return chosen
        if method not in METHODS:
            raise OptionError(f"method is {shown(method)}, expected 'auto' or one of {', '.join(map(repr, METHODS))}")
        return method, "asked for"

    def _why_of_selves(self) -> str:
        tets = sum(isinstance(entry.body, TetMesh) for entry in self._entries.values())
        return (
            f"of {tets} bodies their tets tell how deep they are in themselves, of {len(self) - tets} triangles where"
        )

    def _casting(self) -> _Cast:
        if self._cast is None:
            entries = self._entries
            self._cast = _Cast(
                tuple(entries),
                tuple(entry.body for entry in entries.values()),
                {name: b for b, name in enumerate(entries)},
                [name for name, entry in entries.items() if entry.moves_by_itself],
            )
        return self._cast

    def _named(self) -> dict[str, Any]:
        cast = self._casting()
        return {"names": cast.names, "bodies": cast.bodies}


def _entry(given: Any, group: Any, collides_with: Any, fixed: Any) -> _Entry:
    own = getattr(given, "surface", None)
    body = own if isinstance(own, TriMesh) and not isinstance(given, TetMesh) else as_body(given)
    for option, value in (("group", group), ("collides_with", collides_with)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or not 0 <= value <= ALL_GROUPS:
            raise OptionError(f"{option} is {shown(value)}, expected bits of groups, a whole number from 0 to 2^63 - 1")
    if not isinstance(fixed, bool):
        raise OptionError(f"fixed is {shown(fixed)}, expected True or False")
    surface = body.surface if isinstance(body, TetMesh) else body
    return _Entry(given, body, surface, int(group), int(collides_with), fixed, body is own, body.vertices.copy())


def _is_text(name: str) -> bool:
    """Whether a name can be written: halves of characters cannot."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _as_names(names: Any) -> list[str]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise OptionError(f"names is {shown(names)}, expected a list of names of bodies, or None for all")
    return list(names)


def _as_transforms(transforms: Any, count: int) -> Floats:
    matrices = np.ascontiguousarray(as_numbers(transforms, "transforms"), dtype=np.float64)
    if matrices.shape != (count, 4, 4):
        raise OptionError(f"transforms have shape {matrices.shape}, expected ({count}, 4, 4): one for each body")
    if not np.isfinite(matrices).all():
        raise OptionError("transforms have a NaN or infinite entry; all must be finite")
    if not (matrices[:, 3] == (0.0, 0.0, 0.0, 1.0)).all():
        raise OptionError("transforms have a last row other than [0, 0, 0, 1]; expected affine ones, not projective")
    return matrices
