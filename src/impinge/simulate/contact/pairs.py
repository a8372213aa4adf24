"""Pairs of near features: a vertex and a face, or two edges, of two bodies or of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Bools, Floats, Ints

Ids = NDArray[np.int64]

SPLIT = np.array([1, 3, 2])
"""Vertices on side a, by kind; the other ones of four are on side b."""


class Pairs(NamedTuple):
    """Pairs of features, one row each. Four vertices belong to both features, those of side a first."""

    kind: NDArray[np.int8]
    """An ``ImpactKind``: vertex and face, face and vertex, or two edges, shape (k,)."""
    body_a: Ids
    """Number of the first body, at most that of the second; the same for self-contact, shape (k,)."""
    body_b: Ids
    vertices: Ints
    """Shape (k, 4)."""
    weights: Floats
    """Of the nearest points, of either feature with the sum 1, shape (k, 4)."""
    normal: Floats
    """Unit vectors from a to b, shape (k, 3)."""
    gap: Floats
    """Distance along the normal at the start of the step, shape (k,)."""

    end_gap: Floats
    """Gap at the end of the motion, negative where features meet on the way, shape (k,)."""
    area: Floats
    """Surface that each stands for, shape (k,) [m²]."""
    group: Ids
    """Identity of the contact over frames, shape (k,)."""
    boost: Floats
    """Stiffness relative to that of other contacts, shape (k,)."""

    def rows(self, which: Ids | Bools) -> Pairs:
        """Some of the rows."""
        return Pairs._make(column[which] for column in self)

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.kind)

    @property
    def key(self) -> Ids:
        """Identity of the features: equal for equal pairs, shape (k,)."""
        return hashed(self.kind, self.body_a, self.body_b, self.vertices)


def hashed(*columns: NDArray[np.generic]) -> Ids:
    """A 63-bit hash of each row of several columns."""
    mixed = np.zeros(len(columns[0]), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in columns:
            for values in column.astype(np.int64).reshape(len(mixed), column.size // max(len(mixed), 1)).T:
                mixed = (mixed ^ values.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
                mixed ^= mixed >> np.uint64(29)
    return (mixed >> np.uint64(1)).astype(np.int64)


def no_pairs() -> Pairs:
    """Return an empty set."""
    none = np.zeros(0, dtype=np.int64)
    return Pairs(
        none.astype(np.int8),
        none,
        none,
        np.zeros((0, 4), np.int32),
        np.zeros((0, 4)),
        np.zeros((0, 3)),
        np.zeros(0),
        np.zeros(0),
        np.zeros(0),
        none,
        np.zeros(0),
    )


def joined(parts: Sequence[Pairs]) -> Pairs:
    """Several sets in one."""
    some = [part for part in parts if part.size]
    if not some:
        return no_pairs()
    return some[0] if len(some) == 1 else Pairs._make(map(np.concatenate, zip(*some)))
