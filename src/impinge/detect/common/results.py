"""Results of queries: frozen arrays, one row per item, sorted: runs compare equal.

Every result names its ``method``, the work done (``stats``, ``elapsed_ms``), and whether it is ``complete``; if not,
``reason`` is "budget", "limit" or "cancelled". A pickled result has no ``bodies``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Bools, Floats, Ints, Json, Stats, as_rows, distinct_rows, sorted_unique
from impinge.errors import OptionError
from impinge.exact import kinds
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh

Reason: TypeAlias = Literal["budget", "limit", "cancelled"]
PathLike: TypeAlias = str | os.PathLike[str]
Picture: TypeAlias = NDArray[np.uint8] | Path
"""Pixels, shape (height, width, 3), or the file that they were written to."""
Which: TypeAlias = NDArray[np.bool_] | NDArray[np.integer[Any]] | Sequence[int] | slice
"""A selection of rows."""
Rows = TypeVar("Rows", bound="Result")


class Kind(IntEnum):
    """How two triangles meet; ``impinge.exact.kinds`` defines the kinds by sets."""

    TOUCHING = kinds.TOUCHING
    CROSSING = kinds.CROSSING
    COPLANAR = kinds.COPLANAR


class Changes(NamedTuple):
    """Contacts compared with an earlier result; rows of the keys that identify a contact."""

    entered: NDArray[np.int64]
    persisting: NDArray[np.int64]
    left: NDArray[np.int64]


class Printer(Protocol):
    """The pretty-printer of IPython."""

    def text(self, text: str) -> None:
        """Print ``text``."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Result:
    """Base of all results."""

    complete: bool = True
    """Whether nothing was left out."""
    reason: Reason | None = None
    """Why the result is not complete."""
    method: str = ""
    """Name of the method."""
    stats: Stats = field(default_factory=dict)
    """Counters of the work done, and milliseconds per stage where stages are timed."""
    elapsed_ms: float = 0.0
    """Wall time of the query [ms]."""

    _rows: ClassVar[str] = ""
    """The field with one row per item."""
    _identity: ClassVar[tuple[str, ...]] = ()
    """The fields that together identify an item from one frame to the next."""

    def __len__(self) -> int:
        return len(getattr(self, self._rows))

    def __bool__(self) -> bool:
        """Whether anything was found."""
        return len(self) > 0

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        """One line; ``to_dict`` has the arrays."""
        state = "complete" if self.complete else f"incomplete: {self.reason}"
        return f"{type(self).__name__}: {self._found()} by {self.method}, {state}, {self.elapsed_ms:.3g} ms"

    def _found(self) -> str:
        """What was found: the number of items, or the value of a result that is one."""
        return f"{len(self):,}"

    def _repr_pretty_(self, printer: Printer, _: bool) -> None:
        """What a notebook shows."""
        printer.text(str(self))

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the fields alone: no bodies, nothing that was derived from them."""
        kept = {f.name: self.__dict__[f.name] for f in fields(self) if f.name in self.__dict__}
        return {**kept, "bodies": ()} if "bodies" in kept else kept

    def to_dict(self) -> dict[str, Json]:
        """Plain lists, numbers and strings, ready for JSON; NaN and infinity, which JSON lacks, become None."""
        return {f.name: plain(getattr(self, f.name)) for f in fields(self) if f.repr}

    def show(self, path: PathLike | None = None) -> Path | None:
        """Show the result in a notebook, else in the browser; with ``path``, write one html file."""
        shown: Path | None = import_module("impinge.view.live").show(self, path)
        return shown

    def changes(self, previous: Result) -> Changes:
        """Items that entered, persist and left since ``previous``, a result of the same kind."""
        if type(previous) is not type(self):
            raise OptionError(f"changes compares two {type(self).__name__}, but got a {type(previous).__name__}")
        now, before = self._keys(), previous._keys()
        is_old, is_kept = _rows_in(now, before), _rows_in(before, now)
        return Changes(now[~is_old], now[is_old], before[~is_kept])

    def _keys(self) -> NDArray[np.int64]:
        columns = [np.asarray(getattr(self, name), dtype=np.int64) for name in self._identity]
        return np.concatenate([c[:, None] if c.ndim == 1 else c for c in columns], axis=1)

    def _plot(self, function: str, path: PathLike | None) -> Picture:
        """Draw the result by a function of ``view.picture``."""
        picture: Picture = getattr(import_module("impinge.view.picture"), function)(self, path)
        return picture


def plain(value: object) -> Json:
    """A value as JSON knows it; what is not finite becomes None."""
    if isinstance(value, np.ndarray | np.generic):
        items: Json = value.tolist()
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
    return value  # type: ignore[return-value]  # bool, int, float, str or None


def _rows_in(rows: NDArray[np.int64], others: NDArray[np.int64]) -> Bools:
    """Mask of the ``rows`` that occur among ``others``."""
    _, group = distinct_rows(np.concatenate([others, rows]))
    known = np.zeros(len(group) + 1, dtype=np.bool_)
    known[group[: len(others)]] = True
    found: Bools = known[group[len(others) :]]
    return found


def select(result: Rows, columns: tuple[str, ...], which: Which) -> Rows:
    """The same result with some of its rows; ``columns`` that are None stay so."""
    given = {name: getattr(result, name) for name in columns}
    rows = as_rows(which, "which", len(result))
    return replace(result, **{name: column[rows] for name, column in given.items() if column is not None})


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TrianglePairs(Result):
    """Pairs of triangles that meet, sorted by (triangle of a, triangle of b), each once."""

    pairs: Ints
    """Triangle of a, triangle of b (self-collision: i < j), shape (k, 2)."""
    kind: NDArray[np.int8]
    """How they meet, a ``Kind``, shape (k,)."""
    ignored: int = 0
    """Number of intersecting pairs that ``ignore`` left out."""
    bodies: tuple[TriMesh, ...] = field(default=(), repr=False)
    """The bodies of the query, for pictures; not part of ``to_dict``."""

    _rows = "pairs"
    _identity = ("pairs",)

    @property
    def faces_a(self) -> Ints:
        """Sorted ids of a's triangles that occur in a pair."""
        return sorted_unique(self.pairs[:, 0])

    @property
    def faces_b(self) -> Ints:
        """Sorted ids of b's triangles that occur in a pair."""
        return sorted_unique(self.pairs[:, 1])

    def count_by_kind(self) -> dict[str, int]:
        """Numbers of pairs that touch, cross and are coplanar."""
        return {kind.name.lower(): int((self.kind == kind).sum()) for kind in Kind}

    def plot(self, path: PathLike | None = None) -> Picture:
        """Draw the bodies at their present positions, colliding triangles in colour; with ``path``, to a file."""
        return self._plot("plot_pairs", path)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
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
    """1 if the edge, from its first vertex on, goes the way of the face's normal, else -1."""
    parameter: Floats
    """Position on the edge, 0 at its first vertex to 1 at its second."""
    weights: Floats
    """Weights of the face's corners, shape (k, 3)."""
    is_self: Bools

    _rows = "face"
    _identity = ("body", "edge", "in_body", "face")

    def rows(self, which: Which) -> EdgeContacts:
        """Some of the rows."""
        columns = ("body", "edge", "in_body", "face", "kind", "sign", "parameter", "weights", "is_self")
        return select(self, columns, which)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class VertexContacts(Result):
    """Vertices inside tetrahedra, sorted by (body, vertex, in_body, tet)."""

    body: Ints
    """The body that the vertex belongs to, shape (k,)."""
    vertex: Ints
    in_body: Ints
    """The penetrated body."""
    tet: Ints
    """The penetrated tet, -1 where the penetrated body is a surface."""
    barycentric: Floats
    """Weights of the tet's corners, NaN where there is no tet, shape (k, 4)."""
    is_self: Bools
    """Whether the vertex and the tet belong to one body."""
    depth: Floats | None = None
    """Distance to the surface along ``direction``."""
    direction: Floats | None = None
    """Unit vectors out of the penetrated body, shape (k, 3)."""
    edges: EdgeContacts | None = None
    """Edges that pass through faces, if requested."""
    bodies: tuple[TriMesh | TetMesh, ...] = field(default=(), repr=False)
    """The bodies of the query, for pictures; not part of ``to_dict``."""

    _rows = "vertex"
    _identity = ("body", "vertex", "in_body", "tet")

    def rows(self, which: Which) -> VertexContacts:
        """Some of the contacts."""
        columns = ("body", "vertex", "in_body", "tet", "barycentric", "is_self", "depth", "direction")
        return select(self, columns, which)

    def plot(self, path: PathLike | None = None) -> Picture:
        """Draw the bodies at their present positions, vertices inside and directions; with ``path``, to a file."""
        return self._plot("plot_contacts", path)
