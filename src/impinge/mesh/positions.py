"""Positions that change every frame, and the counter that tells who has seen them.

One ``Positions`` may serve two bodies: a tet mesh and its boundary surface. Its version grows with every
change of either, so that a structure built for one version knows when it is stale.

``update`` writes into a buffer of its own and swaps it in; it never writes into an array that a query in
another thread may still be reading. The buffer of the frame before last is used again when nobody else
refers to it any more, so that a steady animation allocates nothing.

Many bodies may move together (``Together``): each then shows a part of one array, and a move of all is one assignment,
which bodies notice when somebody asks them. A body that is changed on its own leaves the others first.
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
    source.flags.writeable = False  # always: Numba compiles anew for the other kind
    strange = np.zeros(CHUNKS, dtype=np.int64)
    copy_numbers.over(vertices.size)(source, target.reshape(-1).view(np.int64), strange)
    if strange.any():
        check_finite(vertices, "vertices")


class Together:
    """Positions of many bodies in one array, checked and read-only."""

    def __init__(self, x: Floats) -> None:
        self.now = x, 0
        """The array, and how often all have moved: one tuple, so that nobody sees the one without the other."""
        self._lock = threading.Lock()
        self._left: list[int] = []

    def show(self, x: Floats, *, moved: bool) -> None:
        """Let all bodies show their parts of another array; unless it counts as a move, it must say the same."""
        self.now = x, self.now[1] + moved

    def leave(self, number: int) -> None:
        """Remember that a body is on its own now."""
        with self._lock:
            self._left.append(number)

    def who_left(self) -> list[int]:
        """Numbers of the bodies that left since the last question."""
        if not self._left:
            return []
        with self._lock:
            left, self._left = self._left, []
        return left


class _Part(NamedTuple):
    """What a body shows while it moves together with others."""

    together: Together
    number: int
    first: int
    end: int
    version: int
    """Less the moves of all, and so is motion."""
    motion: int


class State(NamedTuple):
    """Positions and counters that belong together."""

    vertices: Floats
    motion: int
    version: int
    address: int
    """Address of the positions, for kernels that read arrays by address (``backend.raw_arrays_kernels``)."""


class Positions:
    """Current positions, shape (n, 3), their version, and a spare buffer for the next frame."""

    def __init__(self, vertices: Floats) -> None:
        self.lock = threading.RLock()
        self._part: _Part | None = None
        self._buffer, self._address = vertices, address_of(vertices)
        self._count = len(vertices)
        self._spare: Floats | None = None
        self._spare_address = 0
        self._buffer_is_ours = True
        self._show(0, 0)

    def _show(self, motion: int, version: int) -> None:
        """Make what queries keep, once per change."""
        view = self._buffer[: self._count]
        view.setflags(write=False)
        self._state = State(view, motion, version, self._address)

    @property
    def state(self) -> State:
        """Positions, motion and version of one moment."""
        part = self._part
        if part is None:
            return self._state
        x, moves = part.together.now
        vertices = x[part.first : part.end]
        return State(vertices, part.motion + moves, part.version + moves, address_of(vertices))

    @property
    def vertices(self) -> Floats:
        """The current positions.

        Read-only always, whatever array ``copy=False`` brought: Numba compiles kernels anew for the other kind.
        """
        part = self._part
        return self._state.vertices if part is None else part.together.now[0][part.first : part.end]

    @property
    def version(self) -> int:
        """Grows with every change."""
        part = self._part
        return self._state.version if part is None else part.version + part.together.now[1]

    @property
    def motion(self) -> int:
        """Grows when positions change, not when elements are added or removed."""
        part = self._part
        return self._state.motion if part is None else part.motion + part.together.now[1]

    def __len__(self) -> int:
        return self._count

    @property
    def edits(self) -> int:
        """Grows when elements or vertices are added or removed, not when positions change."""
        part = self._part
        return self._state.version - self._state.motion if part is None else part.version - part.motion

    def __getstate__(self) -> dict[str, object]:
        """Pickle positions and version; the lock and the spare buffer belong to a process."""
        state = self.state
        return {"vertices": state.vertices, "version": state.version}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(np.array(state["vertices"]))  # type: ignore[misc]
        self._state = self._state._replace(version=state["version"])

    def bump(self) -> None:
        """Tell that something besides the positions changed: elements were added or removed."""
        with self.lock:
            self._leave()
            self._state = self._state._replace(version=self._state.version + 1)

    def update(self, vertices: Floats, *, copy: bool, check: bool) -> None:
        """Make ``vertices`` the current positions; with ``copy=False`` keep that very array."""
        with self.lock:
            self._leave()
            if not copy:
                if check:
                    check_finite(vertices, "vertices")
                target = vertices
            else:
                target = self._take_spare()
                copy_positions(vertices, target[: self._count], check=check)
            self._swap_in(target, self._state.motion + 1, self._state.version + 1, ours=copy)

    def join(self, together: Together, number: int, first: int, end: int) -> int:
        """Move to rows of what many show together, and stay with them; return the version less the moves of all.

        ``number`` is what ``together`` is told when this body leaves it.
        """
        with self.lock:
            part, moves = self._part, together.now[1]
            version, motion = self.version + 1 - moves, self.motion + 1 - moves
            self._part = _Part(together, number, first, end, version, motion)
            if part is not None and part.together is not together:
                part.together.leave(part.number)
            return version

    def _leave(self) -> None:
        """Be on its own again, before a change; the lock is held."""
        part = self._part
        if part is not None:
            vertices, motion, version, _ = self.state
            target = self._take_spare()
            target[: self._count] = vertices
            self._swap_in(target, motion, version, ours=True)
            self._part = None
            part.together.leave(part.number)

    def append(self, vertices: Floats) -> int:
        """Add vertices behind the last one, amortised O(added); return the id of the first."""
        with self.lock:
            self._leave()
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
