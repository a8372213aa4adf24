"""What triangle and tetrahedral meshes share: versioned positions, stable element ids, structures kept with the body.

Positions change every frame (``update``), elements rarely. ``version`` grows with both; a structure compares it with
the version that it was built for and is never stale. A removed element is dead, not renumbered, until ``compact``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from impinge.checks import (
    Floats,
    Ints,
    as_choice,
    as_flag,
    as_indices,
    as_positions,
    check_finite,
    check_range,
    out_of_range,
)
from impinge.errors import MeshWarning
from impinge.mesh.elements import Elements
from impinge.mesh.positions import Positions

Validate: TypeAlias = Literal["raise", "drop", "trust"]
Structure = TypeVar("Structure")


class Snapshot(NamedTuple):
    """What one query works on; later changes of the body do not reach it."""

    vertices: Floats
    """Positions, shape (n, 3)."""
    elements: Ints
    """Vertex ids of all triangles or tets, dead ones included, shape (m, 3) or (m, 4)."""
    live: Ints
    """Sorted ids of the live elements."""
    version: int


class Mesh:
    """Base of ``TriMesh`` and ``TetMesh``.

    ``positions`` and ``elements`` hold the arrays and their versions; structures read them in every frame.
    """

    positions: Positions
    elements: Elements
    _noun: ClassVar[str]
    """What the elements are called in messages."""

    def _adopt(self, positions: Positions, elements: Elements) -> None:
        self.positions = positions
        self.elements = elements
        self._bounds: tuple[int, Floats] | None = None
        self._structures: dict[str, Any] = {}

    @property
    def vertices(self) -> Floats:
        """Current positions, shape (n, 3), a read-only view; ``update`` changes them."""
        return self.positions.vertices

    @property
    def version(self) -> int:
        """Grows with every change of positions or topology."""
        return self.positions.version

    @property
    def topology_version(self) -> int:
        """Grows when elements are added or removed, not when vertices move."""
        return self.elements.version

    @property
    def alive(self) -> NDArray[np.bool_]:
        """Mask of the live elements, shape (m,)."""
        return self.elements.alive.copy()

    @property
    def live_count(self) -> int:
        """Number of live elements."""
        return self.elements.live_count

    @property
    def bounds(self) -> Floats:
        """Lowest and highest corner of the box around all live elements, shape (2, 3); lo > hi if there are none."""
        cached = self._bounds
        if cached is None or cached[0] != self.version:
            with self.positions.lock:
                (x, _, version, _), rows = self.positions.state, self.elements.live_rows
            self._bounds = cached = (version, box_around(x, rows))
        return cached[1].copy()

    def update(self, vertices: ArrayLike, *, copy: bool = True, check: bool = True) -> None:
        """Set new positions.

        Parameters
        ----------
        vertices : array_like, shape (n, 3)
            New positions of all vertices.
        copy : bool
            Copy the array, the default. ``False`` keeps the array itself if it is float64 and C-contiguous.
        check : bool
            Refuse NaN and infinity, the default.

        Raises
        ------
        MeshError
            If the shape is not that of ``vertices``, or a coordinate is not finite.
        """
        x = as_positions(vertices, count=len(self.positions), check=False)
        self.positions.update(x, copy=as_flag(copy, "copy"), check=as_flag(check, "check"))

    def snapshot(self) -> Snapshot:
        """Positions, elements and live ids of one moment."""
        with self.positions.lock:
            x, _, version, _ = self.positions.state
            return Snapshot(x, self.elements.rows, self.elements.live, version)

    def compact(self) -> Ints:
        """Renumber the live elements from 0, not the vertices; return the map old to new id, -1 for dead ones."""
        with self.positions.lock:
            new_id = self.elements.compact()
            self.positions.bump()
        return new_id

    def has_structure(self, name: str) -> bool:
        """Whether a structure is kept under ``name``."""
        return isinstance(name, str) and name in self._structures

    def structure(self, name: str, make: Callable[[Any], Structure]) -> Structure:
        """The structure kept under ``name``; ``make(body)`` builds it at the first call."""
        with self.positions.lock:
            if name not in self._structures:
                self._structures[name] = make(self)
            made: Structure = self._structures[name]
            return made

    def __getstate__(self) -> dict[str, Any]:
        """Pickle and copy the mesh without its structures and what else is derived from it."""
        return {**self.__dict__, "_structures": {}, "_adjacency": None, "_bounds": None}

    def __len__(self) -> int:
        """Number of live elements."""
        return self.elements.live_count

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        dead = len(self.elements.rows) - self.live_count
        return (
            f"<{type(self).__name__}: {len(self.positions)} vertices, {self.live_count} {self._noun}"
            f"{f' ({dead} dead)' if dead else ''}, version {self.version}>"
        )


def check_elements(x: ArrayLike, elements: ArrayLike, columns: int, validate: Validate) -> tuple[Floats, Ints]:
    """Convert arrays of any kind into positions and vertex ids that are safe to use, as ``validate`` says."""
    name = "tets" if columns == 4 else "faces"
    as_choice(validate, "validate", ("raise", "drop", "trust"))
    x = as_positions(x, check=False)
    if validate == "raise":
        check_finite(x, "vertices", remedy=f", pass validate='drop' to leave out the {name} that use such vertices")
    rows = as_indices(elements, name=name, columns=columns)
    if validate == "raise":
        check_range(rows, len(x), name, remedy=f"; pass validate='drop' to leave such {name} out")
    if validate != "drop":
        return x, rows
    # Drop rows with ids out of range or non-finite corners; non-finite vertices move to the origin.
    finite = np.asarray(np.isfinite(x).all(axis=1))
    bad = out_of_range(rows, len(x))
    in_range = ~bad
    bad[in_range] = ~finite[rows[in_range]].all(axis=1)
    if not finite.all():
        x = np.where(finite[:, None], x, 0.0)
    if bad.any() or not finite.all():
        ids = np.flatnonzero(bad)
        shown = ", ".join(map(str, ids[:8])) + (", ..." if len(ids) > 8 else "")
        warnings.warn(
            f"left out {len(ids)} of {len(rows)} {name} (rows {shown or 'none'}) that use a missing or non-finite "
            f"vertex; {int((~finite).sum())} non-finite vertices moved to the origin; ids count the rows that stay",
            MeshWarning,
            stacklevel=3,  # the line that makes the body
        )
    return x, np.ascontiguousarray(rows[~bad])


def used_ids(rows: Ints, vertex_count: int) -> Ints:
    """Sorted ids of the vertices that occur in ``rows``."""
    mask = np.zeros(vertex_count, dtype=np.bool_)
    mask[rows.reshape(-1)] = True
    return np.flatnonzero(mask).astype(np.int32)


def box_around(x: Floats, rows: Ints) -> Floats:
    """Lowest and highest corner of the vertices that occur in ``rows``, shape (2, 3); lo > hi if there are none."""
    if not len(rows):
        return np.array([[np.inf] * 3, [-np.inf] * 3])
    used = x[used_ids(rows, len(x))]
    return np.stack([used.min(axis=0), used.max(axis=0)])
