"""Batches of elastic bodies: the forces of all bodies in one call, and their stable steps in another.

For a body of some hundred tets, call overhead exceeds the computation, and threads do not pay. Blocks of tets (``fem``)
are independent of each other: the blocks of many bodies, concatenated, are computed like those of a single body. Sums
keep their order: each body gets, to the bit, the forces that it would get alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats
from impinge.deform.fem import Blocks, Corotated, Elements, GreenStrain, StableNeoHookean

JOINED = ("model", "constants", "corner", "weight", "shape", "square")
"""Arrays of ``Blocks`` that hold no numbers of vertices or slots of the whole body."""
STARTS = ("group_start", "slot_start", "corner_start", "weight_start")


def can_batch(model: Any) -> bool:
    """Whether a model is exactly one of ours; subclasses and patched instances may compute other forces."""
    ours = type(model) in (GreenStrain, Corotated, StableNeoHookean)
    return ours and vars(model).keys().isdisjoint(("forces", "stable_step"))


class ModelBatch:
    """Models whose vertices are rows of common arrays; those of model i begin at row ``first[i]`` of ``row_count``."""

    def __init__(self, models: Sequence[Elements], first: Sequence[int], row_count: int) -> None:
        self._models = models
        blocks = [model.blocks for model in models]
        slot_start = _starts([len(each.slot_vertex) for each in blocks])
        slot_vertex = np.concatenate([each.slot_vertex + begin for each, begin in zip(blocks, first)]).astype(np.int32)
        slots_of: NDArray[np.int64] = np.zeros(row_count, dtype=np.int64)
        vertex_slot = []
        for each, begin, slot in sorted(zip(blocks, first, slot_start), key=lambda row: row[1]):
            own = np.diff(each.vertex_slot_start)
            slots_of[begin : begin + len(own)] = own
            vertex_slot.append(each.vertex_slot + slot)
        self._blocks = Blocks(
            **{name: np.concatenate([getattr(each, name) for each in blocks]) for name in JOINED},
            **{name: _shifted([getattr(each, name) for each in blocks]) for name in STARTS},
            slot_vertex=slot_vertex,
            vertex_slot_start=_starts(slots_of),
            vertex_slot=np.concatenate(vertex_slot).astype(np.int32),
        )
        self._scratch = self._blocks.scratch()
        self._first_block = _starts([len(each.model) for each in blocks])[:-1]

    def forces(self, x: Floats, v: Floats, out: Floats) -> None:
        """Write elastic and viscous forces of all rows; 0 for rows of no model."""
        self._blocks.forces(x, v, self._scratch, out)

    def stable_steps(self, x: Floats, v: Floats) -> list[float]:
        """The longest stable step of each model."""
        measure, _ = self._blocks.measure(x, v)
        bounds = np.maximum.reduceat(measure[:, 1:], self._first_block, axis=0)
        return [model.step_within(*each) for model, each in zip(self._models, bounds.tolist())]


def _starts(counts: Any) -> NDArray[np.int64]:
    """Offsets of runs of these lengths, and the total."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _shifted(starts: Sequence[NDArray[np.int64]]) -> NDArray[Any]:
    """Offsets of runs in concatenated arrays."""
    first = _starts([each[-1] for each in starts])
    return np.concatenate([*(each[:-1] + begin for each, begin in zip(starts, first)), first[-1:]])
