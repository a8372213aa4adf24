"""A pool of triangles or tetrahedra: ids are stable, removed elements are dead, not renumbered.

Adding costs O(added) amortised (capacity grows by half), removing O(removed). Rows are never overwritten and
a change replaces ``live``: the arrays of an earlier snapshot stay unchanged.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from impinge.checks import Bools, Ints


class Mark(NamedTuple):
    """A point in the history of edits."""

    epoch: int
    """Grows when ids are renumbered."""
    added: int
    """Rows added so far."""
    removals: int
    """Calls that removed something so far."""


class Elements:
    """Rows of vertex ids, shape (m, 3) or (m, 4), of which some are alive."""

    def __init__(self, rows: Ints) -> None:
        self.version = -1
        self._rows = rows
        self._alive = np.ones(len(rows), dtype=np.bool_)
        self._count = len(rows)
        self._dead_count = 0
        self._epoch = 0
        self.removed: list[Ints] = []
        """Ids by the call that removed them; a new list after ids were renumbered."""
        self._changed()

    def _changed(self) -> None:
        """Set what is read every frame, once per edit."""
        self.version += 1
        self._live: Ints | None = None
        self.rows: Ints = self._rows[: self._count]
        """All rows ever added, dead ones too; a row's position is its id."""
        self.alive: Bools = self._alive[: self._count]
        """Which ids are alive, shape (m,)."""
        self.mark = Mark(self._epoch, self._count, len(self.removed))
        """Position in the history of edits; edits since an earlier mark can be listed."""
        self.live_count = self._count - self._dead_count
        """Number of live elements."""

    def __getstate__(self) -> dict[str, object]:
        """Pickle without the list of live ids."""
        return {**self.__dict__, "_live": None}

    @property
    def live(self) -> Ints:
        """Sorted ids of the elements that are alive."""
        if self._live is None:
            self._live = np.flatnonzero(self.alive).astype(np.int32)
        return self._live

    @property
    def live_rows(self) -> Ints:
        """The rows that are alive, in the order of their ids."""
        return self.rows if self._dead_count == 0 else self.rows[self.live]

    def append(self, rows: Ints) -> Ints:
        """Add rows; return their ids."""
        first, count = self._count, self._count + len(rows)
        if count > len(self._rows):
            capacity = max(count, len(self._rows) + len(self._rows) // 2)
            grown = np.zeros((capacity, self._rows.shape[1]), dtype=np.int32)
            grown[:first] = self.rows
            alive = np.zeros(capacity, dtype=np.bool_)
            alive[:first] = self.alive
            self._rows, self._alive = grown, alive
        self._rows[first:count] = rows
        self._alive[first:count] = True
        self._count = count
        self._changed()
        return np.arange(first, count, dtype=np.int32)

    def remove(self, ids: Ints) -> Ints:
        """Mark ``ids`` as dead; return those that were alive."""
        ids = ids[self._alive[ids]]
        if len(ids):
            self._alive[ids] = False
            self._dead_count += len(ids)
            self.removed.append(ids)
            self._changed()
        return ids

    def compact(self) -> Ints:
        """Renumber the live elements from 0; return the map old to new, -1 for the dead."""
        new_id = np.full(self._count, -1, dtype=np.int32)
        new_id[self.live] = np.arange(self.live_count, dtype=np.int32)
        self._rows = np.ascontiguousarray(self.live_rows)
        self._count, self._dead_count = len(self._rows), 0
        self._alive = np.ones(self._count, dtype=np.bool_)
        self._epoch += 1
        self.removed = []
        self._changed()
        return new_id
