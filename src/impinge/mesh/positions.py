"""Versioned positions, double-buffered.

One ``Positions`` may serve two bodies: a tet mesh and its boundary surface. Its version grows with every change of
either; a structure built for one version detects that it is stale.

``update`` writes into a spare buffer and swaps it in; it never writes into an array that a query in another thread may
still read. The buffer of the frame before last is reused once nothing else refers to it: a steady animation allocates
nothing.

Many bodies may move at once (``SharedPositions``): each is attached to a range of one array, and moving all of them is
one assignment, which bodies notice at the next read. A body that is changed on its own detaches first.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np

from impinge.backend.raw_arrays import address_of
from impinge.backend.references import CAN_COUNT, is_shared
from impinge.checks import Floats, check_finite

KERNEL_FROM = 1 << 13
"""Numbers from which one compiled pass beats NumPy's two, the start of the call included."""


def copy_positions(vertices: Floats, target: Floats, *, check: bool) -> None:
    """Copy ``vertices``, and refuse them if one is not finite."""
    if not check or vertices.size < KERNEL_FROM:
        if check:
            check_finite(vertices, "vertices")
        np.copyto(target, vertices)
        return
    from impinge.mesh.positions_kernels import CHUNKS, copy_numbers  # loads the compiler

    source = vertices.reshape(-1).view(np.int64)
    source.flags.writeable = False  # always: Numba specialises on that
    strange = np.zeros(CHUNKS, dtype=np.int64)
    copy_numbers.over(vertices.size)(source, target.reshape(-1).view(np.int64), strange)
    if strange.any():
        check_finite(vertices, "vertices")


class SharedPositions:
    """Positions of many bodies in one array, checked and read-only."""

    def __init__(self, x: Floats) -> None:
        self.now = x, 0
        """The array, and the number of moves of all bodies: one tuple, read atomically."""
        self._lock = threading.Lock()
        self._detached: list[int] = []

    def show(self, x: Floats, *, moved: bool) -> None:
        """Replace the array; unless ``moved``, with equal positions."""
        self.now = x, self.now[1] + moved

    def detach(self, number: int) -> None:
        """Record that a body is on its own now."""
        with self._lock:
            self._detached.append(number)

    def detached(self) -> list[int]:
        """Numbers of the bodies that detached since the last call."""
        if not self._detached:
            return []
        with self._lock:
            detached, self._detached = self._detached, []
        return detached


class _Range(NamedTuple):
    """The rows of shared positions that a body is attached to."""

    shared: SharedPositions
    number: int
    first: int
    end: int
    version: int
    """Less the moves of all bodies, and so is ``motion``."""
    motion: int


class State(NamedTuple):
    """Positions and counters that belong shared."""

    vertices: Floats
    motion: int
    version: int
    address: int
    """Address of the positions, for kernels that read arrays by address (``backend.raw_arrays_kernels``)."""


class Positions:
    """Current positions, shape (n, 3), their version, and a spare buffer for the next frame."""

    def __init__(self, vertices: Floats) -> None:
        self.lock = threading.RLock()
        self._range: _Range | None = None
        self._buffer, self._address = vertices, address_of(vertices)
        self._count = len(vertices)
        self._spare: Floats | None = None
        self._spare_address = 0
        self._buffer_is_ours = True
        self._show(0, 0)

    def _show(self, motion: int, version: int) -> None:
        """Set what queries read, once per change."""
        view = self._buffer[: self._count]
        view.setflags(write=False)
        self._state = State(view, motion, version, self._address)

    @property
    def state(self) -> State:
        """Positions, motion and version of one moment."""
        rows = self._range
        if rows is None:
            return self._state
        x, moves = rows.shared.now
        vertices = x[rows.first : rows.end]
        return State(vertices, rows.motion + moves, rows.version + moves, address_of(vertices))

    @property
    def vertices(self) -> Floats:
        """The current positions.

        Always read-only, also with ``copy=False``: Numba specialises kernels on that.
        """
        rows = self._range
        return self._state.vertices if rows is None else rows.shared.now[0][rows.first : rows.end]

    @property
    def version(self) -> int:
        """Grows with every change."""
        rows = self._range
        return self._state.version if rows is None else rows.version + rows.shared.now[1]

    @property
    def motion(self) -> int:
        """Grows when positions change, not when elements are added or removed."""
        rows = self._range
        return self._state.motion if rows is None else rows.motion + rows.shared.now[1]

    def __len__(self) -> int:
        return self._count

    @property
    def edits(self) -> int:
        """Grows when elements or vertices are added or removed, not when positions change."""
        rows = self._range
        return self._state.version - self._state.motion if rows is None else rows.version - rows.motion

    def __getstate__(self) -> dict[str, object]:
        """Pickle positions and version; the lock and the spare buffer belong to a process."""
        state = self.state
        return {"vertices": state.vertices, "version": state.version}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(np.array(state["vertices"]))  # type: ignore[misc]
        self._state = self._state._replace(version=state["version"])

    def bump(self) -> None:
        """Record an edit: elements were added or removed."""
        with self.lock:
            self._detach()
            self._state = self._state._replace(version=self._state.version + 1)

    def update(self, vertices: Floats, *, copy: bool, check: bool) -> None:
        """Make ``vertices`` the current positions; with ``copy=False`` keep that very array."""
        with self.lock:
            self._detach()
            if not copy:
                if check:
                    check_finite(vertices, "vertices")
                target = vertices
            else:
                target = self._take_spare()
                copy_positions(vertices, target[: self._count], check=check)
            self._swap_in(target, self._state.motion + 1, self._state.version + 1, ours=copy)

    def attach(self, shared: SharedPositions, number: int, first: int, end: int) -> int:
        """Move to rows ``first .. end`` of shared positions; return the version less the moves of all bodies.

        ``shared`` records ``number`` when this body detaches.
        """
        with self.lock:
            rows, moves = self._range, shared.now[1]
            version, motion = self.version + 1 - moves, self.motion + 1 - moves
            self._range = _Range(shared, number, first, end, version, motion)
            if rows is not None and rows.shared is not shared:
                rows.shared.detach(rows.number)
            return version

    def _detach(self) -> None:
        """Copy the rows before a change of this body alone; the lock is held."""
        rows = self._range
        if rows is not None:
            vertices, motion, version, _ = self.state
            target = self._take_spare()
            target[: self._count] = vertices
            self._swap_in(target, motion, version, ours=True)
            self._range = None
            rows.shared.detach(rows.number)

    def append(self, vertices: Floats) -> int:
        """Add vertices behind the last one, amortised O(added); return the id of the first."""
        with self.lock:
            self._detach()
            first = self._count
            count = first + len(vertices)
            if count > len(self._buffer) or not self._buffer_is_ours:
                grown = np.zeros((max(count, len(self._buffer) + len(self._buffer) // 2), 3))
                grown[:first] = self._buffer[:first]
                self._buffer, self._address, self._spare, self._buffer_is_ours = grown, address_of(grown), None, True
            self._buffer[first:count] = vertices
            self._count = count
            self._show(self._state.motion, self._state.version + 1)
            return first

    def _take_spare(self) -> Floats:
        """A buffer that nobody reads: the one before the current one if it is free, else a new one."""
        if self._spare is not None and not is_shared(self._spare):
            spare, self._spare = self._spare, None
            return spare
        self._spare_address = 0
        return np.zeros_like(self._buffer)

    def _swap_in(self, target: Floats, motion: int, version: int, *, ours: bool) -> None:
        self._spare = self._buffer if self._buffer_is_ours and CAN_COUNT else None
        address = self._spare_address if ours else 0
        self._spare_address, self._address = self._address, address or address_of(target)
        self._buffer, self._buffer_is_ours = target, ours
        self._show(motion, version)
