"""Every intersecting triangle pair with no structure at all: cut away what lies apart, split what remains, repeat.

GJK with cut [HatabKheddar2006]. For two lists of triangles A and B:

0. Axes    The axes come first, in both directions at once: what misses the box around the other list goes, whole runs
           of triangles at a time, until nothing more does. Most of two bodies that touch here and there is gone then.
1. Cut     along a direction s, from A to B (Algorithm 4.1). The support v1 of A is its vertex farthest along s, the
           support v2 of B its vertex farthest along -s. Triangles of A that end before v2, and triangles of B that
           begin after v1, lie apart from all of the other list, and go. If a list is empty then, s separates the two.
2. Again   along another direction (Algorithm 4.2) until a cut removes too little. With t = v1 - v2, Chung and Wang
           mirror s at the plane across t, s - 2 t (t·s) / (t·t): the angle to any direction that separates the hulls
           never grows. A reflection that changes nothing (t·s = 0) turns s towards -t; supports that coincide end the
           search. A cut is worth another one if it removes more than half of a list: halves are cut again.
3. Split   each list in two, across the last direction, where both together are longer; look at all four pairs of
           halves (Algorithm 5.1).
4. Leaf    Two lists with no more than ``LEAF_PAIRS`` pairs have their boxes compared, eight at once; boxes that meet
           are candidates for the exact test.

Each pair of triangles goes down one way only: none is found twice. A body alone is split along its longest axis; its
halves are looked at alone and, by the steps above, against each other.

Pieces     Lists lie in one arena as pieces: triangles, and the vertices that they use, numbered anew when a list is
           split. A cut projects each vertex of a piece once, in one pass of vector instructions, however many
           triangles share it, and passes over the triangles that remain twice, without a branch: how far each
           reaches, and which stay.
Rounding   What the axes leave is counted from its centre and scaled by a power of two, to y in -1 .. 1, as float32. Let
           u = 2^-24. Then y is off by at most u, and a dot product with s, of length 1 + 2 u at most, by at most
           3 u (|y1 s1| + |y2 s2| + |y3 s3|) <= 3 sqrt(3) u, and through y by sqrt(3) u: 8 u in all. Reach and support
           are two of these, and their comparison adds 3 u: a triangle that touches the other list never seems to end
           more than 19 u before its support. It is cut if that is 64 u, the ``MARGIN``. Boxes need no margin: scaling
           and rounding keep the order of numbers, so that boxes that meet do so after it.
Threads    Large bodies are parted into slabs, by a sample of a's triangles along the axis on which the bodies have most
           in common: each triangle of a is in one slab, and triangles of b in all whose boxes they meet. Threads claim
           slabs. A thread has its own part of the arena and its own candidates; the set of candidates does not depend
           on who found them, and keys are sorted: the same bits for any number of threads.
Published  ``impinge.published.gjk_cut`` is the paper's recursion, with its options.
Departures Line 10 of Algorithm 4.2 is left out: with line 15 it would mirror the direction back. Directions start
           from centre to centre (of a sample), not between any two vertices. Step 0 and slabs are ours. The middle of a
           split is that of a sample of 129; where it leaves less than a quarter on one side, lists are halved by rank.
Cost       linear in the live triangles, and the same whether vertices, triangles or nothing changed since the last
           frame: nothing is kept but scratch memory. ``active_a`` costs what the active triangles cost.
Guarantee  exact and complete. Splits leave at most three quarters of a list, so that every input ends: bodies in one
           point, collinear ones, coincident centres and supports.
"""

from __future__ import annotations

import threading
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from impinge.backend.stages import Stages
from impinge.checks import Ints, Stats, as_choice
from impinge.detect.common.narrow_phase import Neighbours, classify
from impinge.detect.common.pair_detector import PairDetector
from impinge.detect.common.pair_query import NO_KEYS, Keys, PairOptions, QueryBody, query_body
from impinge.detect.common.results import Reason
from impinge.detect.gjk_cut.scratch import Memory
from impinge.errors import OptionError
from impinge.mesh.body import SurfaceLike, as_surface

Device: TypeAlias = Literal["cpu", "cuda"]

LEAF_PAIRS = 2**20
"""Pairs of boxes that are compared rather than cut and split further; 2^20 took 5 to 10 % less than 2^16 with 1,500,
13,000 and 82,000 triangles each."""


class GjkCut(PairDetector):
    """All intersecting triangle pairs of two bodies, or of one with itself, without any structure.

    Nothing but scratch memory is kept between frames: triangles may come and go at no cost.

    Parameters
    ----------
    a, b, neighbours
        As in ``BoxTree``.
    """

    name = "gjk_cut"

    def __init__(self, a: SurfaceLike, b: SurfaceLike | None = None, *, neighbours: Neighbours = "exact") -> None:
        super().__init__(a, b, neighbours=neighbours)
        self._lock = threading.Lock()
        self._memory = Memory()

    def _find(self, options: PairOptions, stats: Stats, stages: Stages) -> tuple[Keys, Reason | None]:
        a, b = options.query_bodies(self.a, self.b)
        stats.update(nodes=0, cuts=0, leaves=0, candidates=0)
        with self._lock:
            return self._search(a, b, options, stats, stages)

    def _search(
        self, a: QueryBody, b: QueryBody, options: PairOptions, stats: Stats, stages: Stages
    ) -> tuple[Keys, Reason | None]:
        if options.cancelled:
            return NO_KEYS, "cancelled"
        if not len(a.ids) or not len(b.ids):
            return NO_KEYS, None
        memory = self._memory
        loaded = memory.load(a, None if self.b is None else b, cut_axes=True)
        stages.done("load")
        if loaded is None:
            return NO_KEYS, None
        memory.search(loaded, self.b is None, LEAF_PAIRS)
        stages.done("search")
        pair_a, pair_b = memory.candidates()
        with np.errstate(over="ignore"):
            extent = memory.extent() / loaded.factor
        memory.count(stats)
        keys = classify(
            a, b, pair_a, pair_b, extent, stats, is_self=self.b is None, skip_neighbours=self._skip_neighbours
        )
        stages.done("test")
        return keys, None


def cut_along_direction(
    a: SurfaceLike, b: SurfaceLike, direction: ArrayLike, *, device: Device = "cpu"
) -> tuple[Ints, Ints]:
    """The potential collision region of ``a`` and ``b`` along a direction: sorted ids of the triangles that remain.

    Algorithm 4.1: ``a`` keeps the triangles that reach the nearest point of ``b`` along ``direction``, and ``b`` those
    that begin before ``a`` ends. Both are empty if the direction separates the bodies. No triangle that meets one of
    the other body is cut, whatever the direction; the best one points from a to b. Triangles that miss the other body
    by less than some 2^-17 of the size of both are kept, too: that much is left for rounding.
    """
    as_choice(device, "device", ("cpu", "cuda"))
    side_a, side_b = query_body(as_surface(a, name="a")), query_body(as_surface(b, name="b"))
    s = _as_direction(direction)
    if not len(side_a.ids) or not len(side_b.ids):
        return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32)
    memory = Memory()
    loaded = memory.load(side_a, side_b, cut_axes=False)
    assert loaded is not None  # nothing was cut
    return memory.cut(loaded, s, device)


def _as_direction(direction: ArrayLike) -> tuple[float, float, float]:
    """A direction of length 1."""
    v = np.asarray(direction, dtype=np.float64)
    if v.shape != (3,) or not np.isfinite(v).all() or not v.any():
        raise OptionError(f"direction is {direction!r}, expected three finite numbers of which one is not zero")
    v = v / np.abs(v).max()
    x, y, z = (float(value) for value in v / np.linalg.norm(v))
    return x, y, z
