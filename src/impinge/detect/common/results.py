"""What queries return: frozen arrays, one row per thing found, sorted so that runs compare equal.

Every result says how it was found (``method``), what that took (``stats``, ``elapsed_ms``) and whether it is
all there is (``complete``; if not, ``reason`` is "budget", "limit" or "cancelled").
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Bools, Floats, Ints, distinct_rows, sorted_unique
from impinge.errors import OptionError
from impinge.exact import kinds

Reason: TypeAlias = Literal["budget", "limit", "cancelled"]


class Kind(IntEnum):
    """How two triangles meet; see ``impinge.exact.kinds`` for the definition by sets."""

    TOUCHING = kinds.TOUCHING
    CROSSING = kinds.CROSSING
    COPLANAR = kinds.COPLANAR


class Changes(NamedTuple):
    """What became of the contacts since an earlier result; rows of the keys that identify a contact."""

    entered: NDArray[np.int64]
    persisting: NDArray[np.int64]
    left: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """What all results have in common."""

    complete: bool = True
    """Whether nothing was left out."""
    reason: Reason | None = None
    """Why it is not complete."""
    method: str = ""
    """The method that found it."""
    stats: dict[str, Any] = field(default_factory=dict)
    """Counters of the work done, and milliseconds per stage where stages are timed."""
    elapsed_ms: float = 0.0
    """Wall time of the query."""

    _rows: ClassVar[str] = ""
    """The field with one row per thing found."""
    _identity: ClassVar[tuple[str, ...]] = ()
    """The fields whose rows together identify a thing from one frame to the next."""

    def __len__(self) -> int:
        return len(getattr(self, self._rows))

    def __bool__(self) -> bool:
        """Whether anything was found."""
        return len(self) > 0

    def __str__(self) -> str:
        """One line; the arrays are in ``repr``."""
        state = "complete" if self.complete else f"cut short: {self.reason}"
        return f"{type(self).__name__}: {len(self):,} by {self.method}, {state}, {self.elapsed_ms:.3g} ms"

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        """What a notebook shows."""
        printer.text(str(self))

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and strings, ready for JSON; NaN and infinity, which JSON lacks, become None."""
        return {f.name: plain(getattr(self, f.name)) for f in fields(self) if f.repr}

    def show(self, path: Any = None) -> Any:
        """Show it in a notebook, else in the browser, to be turned by hand; as one html file if ``path`` is given."""
        from importlib import import_module

        return import_module("impinge.view.live").show(self, path)

    def changes(self, previous: Result) -> Changes:
        """Which things entered, persist and left since ``previous``, a result of the same kind."""
        if type(previous) is not type(self):
            raise OptionError(f"changes compares two {type(self).__name__}, but got a {type(previous).__name__}")
        now, before = self._keys(), previous._keys()
        is_old, is_kept = _rows_in(now, before), _rows_in(before, now)
        return Changes(now[~is_old], now[is_old], before[~is_kept])

    def _keys(self) -> NDArray[np.int64]:
        columns = [np.asarray(getattr(self, name), dtype=np.int64) for name in self._identity]
        return np.concatenate([c[:, None] if c.ndim == 1 else c for c in columns], axis=1)


def plain(value: Any) -> Any:
    """A value as JSON knows it; what is not finite becomes None."""
    if isinstance(value, np.ndarray | np.generic):
        items = value.tolist()
        is_finite = value.dtype.kind != "f" or bool(np.isfinite(value).all())
        return items if is_finite else plain(items)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Result):
        return value.to_dict()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _rows_in(rows: NDArray[np.int64], others: NDArray[np.int64]) -> Bools:
    """Which of ``rows`` occur among ``others``."""
    _, group = distinct_rows(np.concatenate([others, rows]))
    known = np.zeros(len(group) + 1, dtype=np.bool_)
    known[group[: len(others)]] = True
    found: Bools = known[group[len(others) :]]
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class TrianglePairs(Result):
    """Pairs of triangles that meet, sorted by (triangle of a, triangle of b), each once."""

    pairs: Ints
    """Triangle of a, triangle of b (self-collision: i < j), shape (k, 2)."""
    kind: NDArray[np.int8]
    """How they meet, a ``Kind``, shape (k,)."""
    ignored: int = 0
    """Number of intersecting pairs that ``ignore`` left out."""
    bodies: tuple[Any, ...] = field(default=(), repr=False)
    """The bodies that were asked about, for pictures; not part of ``to_dict``."""

    _rows = "pairs"
    _identity = ("pairs",)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the result without the bodies."""
        return {**self.__dict__, "bodies": ()}

    @property
    def faces_a(self) -> Ints:
        """Sorted ids of a's triangles that occur in a pair."""
        return sorted_unique(self.pairs[:, 0])

    @property
    def faces_b(self) -> Ints:
        """Sorted ids of b's triangles that occur in a pair."""
        return sorted_unique(self.pairs[:, 1])

    def count_by_kind(self) -> dict[str, int]:
        """How many pairs touch, cross and are coplanar."""
        return {kind.name.lower(): int((self.kind == kind).sum()) for kind in Kind}

    def plot(self, path: Any = None) -> Any:
        """Draw the bodies as they are now, their colliding triangles in colour; to a file if ``path`` is given."""
        from importlib import import_module

        return import_module("impinge.view.picture").plot_pairs(self, path)


@dataclass(frozen=True, kw_only=True, eq=False)
class EdgeContacts(Result):
    """Edges of surfaces that pass through faces, of many bodies; sorted by (body, edge, in_body, face), each once."""

    body: Ints
    """The body that the edge belongs to, shape (k,)."""
    edge: Ints
    """Its two vertices, the lower first, shape (k, 2)."""
    in_body: Ints
    """The body that the face belongs to."""
    face: Ints
    """The triangle of that body's surface."""
    kind: NDArray[np.int8]
    """``Kind.CROSSING``: the inside of the edge through the inside of the face; ``Kind.TOUCHING``: through an end."""
    sign: NDArray[np.int8]
    """1 if the edge, from its first vertex on, goes the way of the face's normal, out of its body, else -1."""
    parameter: Floats
    """Where on the edge, 0 at its first vertex to 1 at its second."""
    weights: Floats
    """Weights of the face's corners, shape (k, 3)."""
    is_self: Bools

    _rows = "face"
    _identity = ("body", "edge", "in_body", "face")

    def rows(self, which: Any) -> EdgeContacts:
        """Some of the rows."""
        columns = ("body", "edge", "in_body", "face", "kind", "sign", "parameter", "weights", "is_self")
        return replace(self, **{name: getattr(self, name)[which] for name in columns})


@dataclass(frozen=True, kw_only=True, eq=False)
class VertexContacts(Result):
    """Vertices inside tetrahedra, sorted by (body, vertex, in_body, tet)."""

    body: Ints
    """The body that the vertex belongs to, shape (k,)."""
    vertex: Ints
    in_body: Ints
    """The body that it is inside of."""
    tet: Ints
    """The tet, -1 where the body that it is inside of is a surface."""
    barycentric: Floats
    """Weights of the tet's corners, NaN where there is no tet, shape (k, 4)."""
    is_self: Bools
    """Whether a body's vertex is in its own tet."""
    depth: Floats | None = None
    """How far it is to the surface along ``direction``."""
    direction: Floats | None = None
    """Unit vectors out of the penetrated body, shape (k, 3)."""
    edges: EdgeContacts | None = None
    """Edges that pass through faces, if they were asked for."""
    bodies: tuple[Any, ...] = field(default=(), repr=False)
    """The bodies that were asked about, for pictures; not part of ``to_dict``."""

    _rows = "vertex"
    _identity = ("body", "vertex", "in_body", "tet")

    def rows(self, which: Any) -> VertexContacts:
        """Some of the contacts."""
        columns = ("body", "vertex", "in_body", "tet", "barycentric", "is_self", "depth", "direction")
        given = {name: getattr(self, name) for name in columns}
        return replace(self, **{name: column[which] for name, column in given.items() if column is not None})

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the result without the bodies."""
        return {**self.__dict__, "bodies": ()}

    def plot(self, path: Any = None) -> Any:
        """Draw the bodies as they are now, the vertices inside and their ways out; to a file if ``path`` is given."""
        from importlib import import_module

        return import_module("impinge.view.picture").plot_contacts(self, path)
