"""Positions that change every frame, and the counter that tells who has seen them.

One ``Positions`` may serve two bodies: a tet mesh and its boundary surface. Its version grows with every
change of either, so that a structure built for one version knows when it is stale.

``update`` writes into a buffer of its own and swaps it in; it never writes into an array that a query in
another thread may still be reading. The buffer of the frame before last is used again when nobody else
refers to it any more, so that a steady animation allocates nothing.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np

from impinge.arrays import Floats, check_finite

_OWN_REFERENCES = 2
"""What ``sys.getrefcount`` says of an array that only one attribute refers to: that one, and its own argument."""

_CAN_REUSE = getattr(sys, "_is_gil_enabled", lambda: True)() and sys.implementation.name == "cpython"
"""Reference counts are exact only under a global interpreter lock."""

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


class Positions:
    """Current positions, shape (n, 3), their version, and a spare buffer for the next frame."""

    def __init__(self, vertices: Floats) -> None:
        self.lock = threading.RLock()
        self.version = 0
        self.motion = 0
        """Grows when positions change, not when elements are added or removed."""
        self._buffer = vertices
        self._count = len(vertices)
        self._spare: Floats | None = None
        self._buffer_is_ours = True
        self._show()

    def _show(self) -> None:
        """Make the view that queries keep, once per change."""
        view = self._buffer[: self._count]
        view.setflags(write=False)
        self.vertices: Floats = view
        """The current positions, read-only always, whatever array ``copy=False`` brought: Numba compiles kernels anew
        for the other kind."""

    def __len__(self) -> int:
        return self._count

    @property
    def edits(self) -> int:
        """Grows when elements or vertices are added or removed, not when positions change."""
        return self.version - self.motion

    def __getstate__(self) -> dict[str, object]:
        """Pickle positions and version; the lock and the spare buffer belong to a process."""
        return {"vertices": self.vertices, "version": self.version}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(np.array(state["vertices"]))  # type: ignore[misc]
        self.version = state["version"]

    def bump(self) -> None:
        """Tell that something besides the positions changed: elements were added or removed."""
        with self.lock:
            self.version += 1

    def update(self, vertices: Floats, *, copy: bool, check: bool) -> None:
        """Make ``vertices`` the current positions; with ``copy=False`` keep that very array."""
        with self.lock:
            if not copy:
                if check:
                    check_finite(vertices, "vertices")
                target = vertices
            else:
                target = self._take_spare()
                copy_positions(vertices, target[: self._count], check=check)
            self._swap_in(target, ours=copy)
            self.motion += 1
            self.version += 1

    def adopt(self, vertices: Floats) -> int:
        """Let checked, read-only positions be the current ones, without a copy; returns the version."""
        with self.lock:
            if self._buffer_is_ours:
                self._swap_in(vertices, ours=False)
            self._buffer = self.vertices = vertices
            self.motion += 1
            self.version += 1
            return self.version

    def append(self, vertices: Floats) -> int:
        """Add vertices behind the last one, amortised O(added); return the id of the first."""
        with self.lock:
            first = self._count
            count = first + len(vertices)
            if count > len(self._buffer) or not self._buffer_is_ours:
                grown = np.zeros((max(count, len(self._buffer) + len(self._buffer) // 2), 3))
                grown[:first] = self._buffer[:first]
                self._buffer, self._spare, self._buffer_is_ours = grown, None, True
            self._buffer[first:count] = vertices
            self._count = count
            self._show()
            self.version += 1
            return first

    def _take_spare(self) -> Floats:
        """A buffer that nobody reads: the one before the current one if it is free, else a new one."""
        if self._spare is not None and sys.getrefcount(self._spare) == _OWN_REFERENCES:
            spare, self._spare = self._spare, None
            return spare
        return np.zeros_like(self._buffer)

    def _swap_in(self, target: Floats, *, ours: bool) -> None:
        self._spare = self._buffer if self._buffer_is_ours and _CAN_REUSE else None
        self._buffer, self._buffer_is_ours = target, ours
        self._show()
