"""Many bodies of any kind: who is near whom, which triangles meet, and all contacts, in a handful of kernel calls.

    world = World()
    world.add(liver, name="liver")
    world.add(tool, name="tool")
    contacts = world.contacts(budget_ms=4.0)

1. Look.     Take the positions of what moved into one arena, and fit boxes (``detect.arena``): never stale, since
             versions are compared at every question.
2. Near.     Bodies whose boxes overlap (``detect.broad_phase``), without those that are ignored, fixed both, or of
             groups that do not collide.
3. Ask       all near pairs together: small bodies in one kernel call, large ones by the trees that they keep
             (``contact.arena_contacts``).

Budgets      Pairs are asked from the cheapest on, by the number of tests that each will cost, so that as many as can
             be get an answer. ``max_tests`` decides beforehand who is asked, and is deterministic; ``budget_ms`` looks
             at the clock between batches. Pairs that got no time are ``possible``.
Numbers      of bodies in results are positions in ``names``. Ids of contacts follow from names, so that they persist
             while bodies come and go.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from impinge.arrays import Bools, Floats, Ints, as_numbers, as_positions, shown
from impinge.auto import choose_contacts
from impinge.backend.stages import start_stages
from impinge.contact.arena_contacts import ArenaContacts
from impinge.contact.contacts import Columns, Contacts, body_key, joined, make_contacts, volume_row
from impinge.contact.volume_gradient import VolumeGradients
from impinge.detect.arena import Arena, Ids
from impinge.detect.broad_phase import overlapping_boxes
from impinge.detect.results import Kind, Reason, Result
from impinge.errors import MeshError, OptionError
from impinge.mesh.body import as_body
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh

ALL_GROUPS = (1 << 63) - 1
METHODS = ("vertices", "pairs", "volume")
"""Ways to find contacts; "auto" picks one."""
BATCH = 100_000
"""Tests between two looks at the clock: about a tenth of a millisecond."""


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


class World:
    """Bodies by name, and questions about all of them."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._ignored: set[tuple[str, str]] = set()
        self._lock = threading.RLock()
        self._filter: tuple[Any, ...] | None = None
        self._rest: tuple[Any, Floats, set[str]] | None = None
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

        Bodies are meshes, whatever can be turned into one, and what has a ``surface``. ``group`` and ``collides_with``
        are bits: two bodies are asked about if the groups of each are among those that the other collides with. Two
        ``fixed`` bodies are not asked about.
        """
        entry = _entry(body, group, collides_with, fixed)
        with self._lock:
            for other, known in self._entries.items():
                if known.surface.positions is entry.surface.positions:
                    raise MeshError(
                        f"this body is in the world already, as {other!r}; add a copy of it, or remove {other!r} first"
                    )
            name = self._free_name() if name is None else name
            if not isinstance(name, str) or not name:
                raise OptionError(f"name is {shown(name)}, expected a word, or None to be given one")
            if name in self._entries:
                raise OptionError(f"there is a body named {name!r} already; choose another name, or remove it first")
            self._entries[name] = entry
            self._forget()
            return name

    def remove(self, name: str) -> None:
        """Remove a body, and what was said about ignoring it."""
        with self._lock:
            self._entry(name)
            del self._entries[name]
            self._ignored = {pair for pair in self._ignored if name not in pair}
            self._forget()

    def ignore(self, a: str, b: str) -> None:
        """Ask no more about two bodies; about one with itself, if both names are the same."""
        with self._lock:
            for name in (a, b):
                self._entry(name)
            self._ignored.add((min(a, b), max(a, b)))
            self._filter = None

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
        return name in self._entries

    def __getitem__(self, name: str) -> Any:
        """What was added under a name."""
        return self._entry(name).given

    def __repr__(self) -> str:
        return f"<World: {len(self)} bodies>"

    def _entry(self, name: str) -> _Entry:
        if name not in self._entries:
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
        self._search: ArenaContacts | None = None
        self._filter = self._rest = None
        self._volumes: dict[tuple[int, int], VolumeGradients] = {}
        self._keys = np.zeros(0, dtype=np.uint64)

    # moving all at once -----------------------------------------------------------------------------------

    def update(self, vertices: Any) -> None:
        """Set new positions of all bodies, one behind the other in the order of ``names``, shape (all vertices, 3).

        One copy and one check serve all; bodies show parts of it, and have new versions, as after ``update`` of each.
        """
        with self._lock:
            arena = self._look()
            self._check_movable(list(self._entries))
            x, count = as_positions(vertices, check=False), arena.layout.vertex_count
            if len(x) != count:
                raise MeshError(
                    f"vertices have {len(x)} rows, but the bodies have {count} vertices together; "
                    "give those of all bodies, in the order of world.names"
                )
            arena.update_together(x)

    def move(self, transforms: Any, *, names: Sequence[str] | None = None) -> None:
        """Move bodies by transforms (k, 4, 4) of where they were when they were added, all in one call.

        ``names`` tells which; all of them, if it is None.
        """
        with self._lock:
            names = list(self._entries) if names is None else list(names)
            matrices = _as_transforms(transforms, len(names))
            self._check_movable(names)
            arena = self._look()
            number = {name: b for b, name in enumerate(self._entries)}
            arena.move([number[name] for name in names], matrices, self._rest_positions(arena, names))

    def _check_movable(self, names: Sequence[str]) -> None:
        for name in names:
            if self._entry(name).moves_by_itself:
                raise MeshError(f"body {name!r} moves its surface by itself; step it, and move the others by name")

    def _rest_positions(self, arena: Arena, names: Sequence[str]) -> Floats:
        """Where all vertices were when their bodies were added, by the arena's numbers."""
        if self._rest is None or self._rest[0] is not arena.layout:
            start, rest, grown = arena.layout.vertex_start, np.zeros((arena.layout.vertex_count, 3)), set[str]()
            for b, (name, entry) in enumerate(self._entries.items()):
                if len(entry.rest) == start[b + 1] - start[b]:
                    rest[start[b] : start[b + 1]] = entry.rest
                else:
                    grown.add(name)
            self._rest = arena.layout, rest, grown
        strange = [name for name in names if name in self._rest[2]]
        if strange:
            raise MeshError(
                f"body {strange[0]!r} has vertices that it did not have when it was added; set its positions by update"
            )
        return self._rest[1]

    # questions --------------------------------------------------------------------------------------------

    def near_pairs(self) -> Ints:
        """Numbers (i < j) of bodies whose boxes overlap and that may collide, sorted, shape (k, 2)."""
        with self._lock:
            return self._near(self._look()).astype(np.int32)

    def pairs(self) -> WorldPairs:
        """All pairs of triangles of two bodies that meet."""
        began = perf_counter()
        with self._lock:
            arena, stats = self._look(), dict[str, Any]()
            near = self._near(arena)
            rows, kind = self._searching().triangles(near, stats)
            layout = arena.layout
            body_a, body_b = layout.body_of_face(rows[:, 0]), layout.body_of_face(rows[:, 1])
            order = np.lexsort((rows[:, 1], rows[:, 0], body_b, body_a))
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
    ) -> Contacts:
        """All contacts of near bodies, and of bodies with themselves if asked for.

        ``method`` is "vertices" (vertices inside bodies with depths; where none is inside and triangles meet, the
        curve), "pairs" (curves only), "volume" (one contact for two bodies that overlap; all have to be closed), or
        "auto", which says in ``stats`` what it chose and why. ``budget_ms`` or ``max_tests`` limit the work; bodies
        that there was no time for are ``possible``.
        """
        began = perf_counter()
        _check_budgets(budget_ms, max_tests)
        with self._lock:
            stages, stats = start_stages(), dict[str, Any]()
            arena = self._look()
            stages.done("look")
            chosen, why = _method(method, arena)
            stats["chosen"], stats["why"] = chosen, why
            asked = self._near(arena)
            if self_collision:
                asked = np.concatenate([asked, self._selves(arena)])
            stages.done("near")
            ends = None if budget_ms is None else began + 1e-3 * budget_ms
            found, left = self._spend(chosen, asked, max_tests, ends, stats)
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

    def _searching(self) -> ArenaContacts:
        if self._search is None:
            entries = list(self._entries.values())
            self._search = ArenaContacts(Arena([e.surface for e in entries]), [e.body for e in entries])
            self._keys = np.array([body_key(name) for name in self._entries], dtype=np.uint64)
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
            self._filter = group, collides, np.array([e.fixed for e in entries], dtype=np.bool_), keys
        return self._filter

    def _wanted(self, pairs: Ids) -> Bools:
        """Which pairs are to be asked about."""
        group, collides, fixed, ignored = self._filters()
        a, b = pairs.T
        wanted: Bools = (group[a] & collides[b] != 0) & (group[b] & collides[a] != 0) & ~(fixed[a] & fixed[b])
        if len(ignored):
            wanted &= ~np.isin(a * len(self) + b, ignored)
        return wanted

    def _near(self, arena: Arena) -> Ids:
        pairs = overlapping_boxes(arena.low, arena.high)
        return pairs[self._wanted(pairs)]

    def _selves(self, arena: Arena) -> Ids:
        numbers = np.flatnonzero(np.diff(arena.layout.face_start))
        pairs = np.stack([numbers, numbers], axis=1)
        return pairs[~np.isin(numbers * len(self) + numbers, self._filters()[3])]

    def _spend(
        self, method: str, asked: Ids, max_tests: int | None, ends: float | None, stats: dict[str, Any]
    ) -> tuple[list[Columns], Ids]:
        """Contacts of the pairs that there is time for, and the pairs that are left."""
        if max_tests is None and ends is None:
            return [self._find(method, asked, stats)], asked[:0]
        cost = self._searching().costs(asked)
        order = np.argsort(cost, kind="stable")
        total = np.cumsum(cost[order])
        stats["tests_wanted"] = int(total[-1]) if len(total) else 0
        if max_tests is not None:
            count = int(np.searchsorted(total, max_tests, side="right"))
            found = [self._find(method, np.sort(order[:count]), stats, asked)]
        else:
            found, count = [], 0
            while count < len(order) and (ends is None or perf_counter() < ends):
                spent = total[count - 1] if count else 0
                end = max(count + 1, int(np.searchsorted(total, spent + BATCH, side="right")))
                found.append(self._find(method, order[count:end], stats, asked))
                count = end
        stats["tests_spent"] = int(total[count - 1]) if count else 0
        return found, asked[np.sort(order[count:])]

    def _find(self, method: str, rows: Ids, stats: dict[str, Any], asked: Ids | None = None) -> Columns:
        pairs = rows if asked is None else asked[rows]
        if method == "vertices":
            return self._searching().find(pairs, stats)
        if method == "pairs":
            return self._searching().curves(pairs, stats)
        return joined([self._volume(a, b) for a, b in pairs.tolist() if a != b])

    def _volume(self, a: int, b: int) -> Columns:
        arena, surfaces = self._searching().arena, self._searching().arena.surfaces
        if (a, b) not in self._volumes:
            self._volumes[a, b] = VolumeGradients(surfaces[a], surfaces[b])
        boxes = (np.stack([arena.low[k], arena.high[k]]) for k in (a, b))
        return volume_row(a, b, self._volumes[a, b].query(), *boxes)

    def _named(self) -> dict[str, Any]:
        return {"names": self.names, "bodies": tuple(entry.body for entry in self._entries.values())}


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


def _as_transforms(transforms: Any, count: int) -> Floats:
    matrices = np.ascontiguousarray(as_numbers(transforms, "transforms"), dtype=np.float64)
    if matrices.shape != (count, 4, 4):
        raise OptionError(f"transforms have shape {matrices.shape}, expected ({count}, 4, 4): one for each body")
    if not np.isfinite(matrices).all():
        raise OptionError("transforms have a NaN or infinite entry; all must be finite")
    if not (matrices[:, 3] == (0.0, 0.0, 0.0, 1.0)).all():
        raise OptionError("transforms have a last row other than [0, 0, 0, 1]; expected affine ones, not projective")
    return matrices


def _check_budgets(budget_ms: Any, max_tests: Any) -> None:
    if budget_ms is not None and max_tests is not None:
        raise OptionError("budget_ms and max_tests are both given; choose one, max_tests if runs have to repeat")
    is_number = isinstance(budget_ms, int | float | np.integer | np.floating) and not isinstance(budget_ms, bool)
    if budget_ms is not None and not (is_number and budget_ms > 0.0):
        raise OptionError(f"budget_ms is {shown(budget_ms)}, expected a positive number of milliseconds, or None")
    is_whole = isinstance(max_tests, int | np.integer) and not isinstance(max_tests, bool)
    if max_tests is not None and not (is_whole and max_tests > 0):
        raise OptionError(f"max_tests is {shown(max_tests)}, expected a whole number from 1, or None")


def _method(method: str, arena: Arena) -> tuple[str, str]:
    """The way to find contacts, and why it was chosen."""
    if method == "auto":
        return choose_contacts(int(arena.layout.is_closed.sum()), arena.layout.body_count)
    if method not in METHODS:
        raise OptionError(f"method is {shown(method)}, expected 'auto' or one of {', '.join(map(repr, METHODS))}")
    return method, "asked for"
