"""Many elastic bodies as one: the forces of all in one call, and the steps that they bear in another.

A body of some hundred tets takes less time to compute than to be called for, and too little to be shared by threads.
Blocks of tets (``fem``) know what they are made of and nothing of each other, so that the blocks of many bodies, one
behind the other, are computed like those of a single one. Sums keep their order: each body gets, to the bit, what it
would get by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats
from impinge.deform.fem import Blocks, Corotated, Elements, GreenStrain


def can_join(model: Any) -> bool:
    """Whether a model is one of ours as it is; others, or one that was given such, may have forces of their own."""
    return type(model) in (GreenStrain, Corotated) and vars(model).keys().isdisjoint(("forces", "stable_step"))


class Crowd:
    """Models whose vertices are rows of common arrays: those of model i begin at row ``first[i]`` of ``row_count``."""

    def __init__(self, models: Sequence[Elements], first: Sequence[int], row_count: int) -> None:
        self._models = models
        self._blocks = _joined([model.blocks for model in models], first, row_count)
        self._room = self._blocks.room()
        self._first_block = _starts([len(model.blocks.model) for model in models])[:-1]

    def forces(self, x: Floats, v: Floats, out: Floats) -> None:
        """Elastic and viscous forces on all rows; 0 on those of no model."""
        self._blocks.forces(x, v, self._room, out)

    def stable_steps(self, x: Floats, v: Floats) -> list[float]:
        """The longest stable step of each model."""
        measure, _ = self._blocks.measure(x, v)
        bounds = np.maximum.reduceat(measure[:, 1:], self._first_block, axis=0)
        return [model.step_within(*each) for model, each in zip(self._models, bounds.tolist())]


def _joined(blocks: Sequence[Blocks], first: Sequence[int], row_count: int) -> Blocks:
    slot_start = _starts([len(each.slot_vertex) for each in blocks])
    slot_vertex = np.concatenate([each.slot_vertex + begin for each, begin in zip(blocks, first)]).astype(np.int32)
    slots_of: NDArray[np.int64] = np.zeros(row_count, dtype=np.int64)
    vertex_slot = []
    for each, begin, slot in sorted(zip(blocks, first, slot_start), key=lambda row: row[1]):
        own = np.diff(each.vertex_slot_start)
        slots_of[begin : begin + len(own)] = own
        vertex_slot.append(each.vertex_slot + slot)
    return Blocks(
        model=np.concatenate([each.model for each in blocks]),
        constants=np.concatenate([each.constants for each in blocks]),
        group_start=_shifted([each.group_start for each in blocks]),
        slot_start=_shifted([each.slot_start for each in blocks]),
        corner=np.concatenate([each.corner for each in blocks]),
        shape=np.concatenate([each.shape for each in blocks]),
        square=np.concatenate([each.square for each in blocks]),
        slot_vertex=slot_vertex,
        vertex_slot_start=_starts(slots_of),
        vertex_slot=np.concatenate(vertex_slot).astype(np.int32),
    )


def _starts(counts: Any) -> NDArray[np.int64]:
    """Where each of some runs begins, and where the last ends."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _shifted(starts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Starts of runs in arrays that are put one behind the other."""
    first = _starts([each[-1] for each in starts])
    return np.concatenate([*(each[:-1] + begin for each, begin in zip(starts, first)), first[-1:]])
