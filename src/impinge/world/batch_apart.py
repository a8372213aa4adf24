"""Which pairs of small bodies are surely apart, though their boxes overlap: a plane between them tells.

1. Supports. Along a direction d, at first from the middle of one box to that of the other, take the farthest vertex p
             of the first body and the nearest vertex q of the second. If q is farther than p, a plane parts the bodies.
2. Turn.     Else d leads back from p to q, and a direction that parts the bodies must lead forth: mirror d at the
             plane across q - p, so that it does, and look again [ChungWang1996].

Guarantee  Bodies that are called apart have no point in common: heights along d are compared beyond their rounding.
           Nothing is said of the others; which ways are tried changes no answer, only the work that is saved.
Cost       A few products per vertex; of a thousand boxes at random, half of the near pairs end here.
"""

from __future__ import annotations

import numpy as np

from impinge.world import batch_apart_kernels as kernels
from impinge.world.surface_batch import Arena, Ids

FEW = 64
"""Vertices of both bodies up to which this is quicker than what it saves; boxes of leaves keep others apart."""
TURNS = 4
"""Directions that are tried. The first parts three quarters of the boxes that can be parted, four parts 95 %."""


def may_meet(arena: Arena, pairs: Ids) -> Ids:
    """The pairs of bodies that are not surely apart."""
    is_apart, layout = np.zeros(len(pairs), dtype=np.bool_), arena.layout
    kernels.part_bodies.over(len(pairs))(
        pairs, FEW, TURNS, arena.x, layout.used_start, layout.used, arena.low, arena.high, is_apart
    )  # fmt: skip
    return pairs[~is_apart]
