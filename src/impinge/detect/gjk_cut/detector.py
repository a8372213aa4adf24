"""Every intersecting triangle pair without any structure: cut away what lies apart, split what remains, repeat.

GJK with cut [HatabKheddar2006]. For two lists of triangles A and B:

0. Axes    First along the axes, in both directions at once: triangles that miss the box around the other list are cut,
           whole runs at a time, until nothing more is cut. This removes most of two bodies that touch locally.
1. Cut     along a direction s, from A to B (Algorithm 4.1). The support v1 of A is its vertex farthest along s, the
           support v2 of B its vertex farthest along -s. Triangles of A that end before v2, and triangles of B that
           begin after v1, are disjoint from the other list, and are cut. If a list is empty then, s separates the two.
2. Repeat  along another direction (Algorithm 4.2) until a cut removes too little. With t = v1 - v2, Chung and Wang
           mirror s at the plane across t, s - 2 t (t·s) / (t·t): the angle to any direction that separates the hulls
           never grows. A reflection that changes nothing (t·s = 0) turns s towards -t; supports that coincide end the
           loop. A cut that removes more than half of a list is followed by another.
3. Split   each list in two, perpendicular to the last direction, where both together are longer; recurse into all four
           pairs of halves (Algorithm 5.1).
4. Leaf    Two lists with at most ``LEAF_PAIRS`` pairs have their boxes compared, eight at once; pairs of boxes that
           overlap are candidates for the exact test.

Each pair of triangles reaches one leaf only: none is found twice. A body alone is split along its longest axis; each
half is searched alone and, by the steps above, against the other.

Pieces     Lists are stored in one arena as pieces: triangles and the vertices that they use, renumbered at each split.
           A cut projects each vertex of a piece once, in one pass of vector instructions, however many triangles share
           it, and makes two passes without branches over the remaining triangles: their reach, and which stay.
Rounding   What the axes leave is translated to its centre and scaled by a power of two, to y in -1 .. 1, as float32.
           Let u = 2^-24. Then y has an error of at most u, and a dot product with s, of length 1 + 2 u at most, one of
           at most 3 u (|y1 s1| + |y2 s2| + |y3 s3|) <= 3 sqrt(3) u, and through y of sqrt(3) u: 8 u in all. Reach and
           support are two of these, and their comparison adds 3 u: a triangle that touches the other list never seems
           to end more than 19 u before its support. It is cut from 64 u on, the ``MARGIN``. Boxes need no margin:
           scaling and rounding keep the order of numbers, hence boxes that overlap still do.
Threads    Large bodies are divided into slabs, by a sample of a's triangles along the axis on which the boxes of both
           overlap most: each triangle of a is in one slab, triangles of b in all whose boxes they overlap. Threads
           claim slabs. A thread has its own part of the arena and its own candidates; the set of candidates does not
           depend on the threads, and keys are sorted: the same bits for any number of threads.
Published  ``impinge.published.gjk_cut`` is the paper's recursion, with its options.
Departures Line 10 of Algorithm 4.2 is left out: with line 15 it would mirror the direction back. The first direction is
           from centre to centre (of a sample), not between any two vertices. Step 0 and slabs are additions. The median
           of a split is that of a sample of 129; where it leaves less than a quarter on one side, lists are halved by
           rank.
Cost       linear in the live triangles, and the same whether vertices, triangles or nothing changed since the last
           frame: only scratch memory is kept. With ``active_a``, linear in the active triangles.
Guarantee  exact and complete. Splits leave at most three quarters of a list, hence every input terminates: bodies in
           one point, collinear ones, coincident centres and supports.
"""

from __future__ import annotations

import threading
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from impinge.backend.stages import Stages
from impinge.checks import Ints, Stats, as_choice, as_direction
from impinge.detect.common.narrow_phase import Neighbours, classify
from impinge.detect.common.pair_detector import PairDetector
from impinge.detect.common.pair_query import NO_KEYS, Keys, PairOptions, query_body
from impinge.detect.common.results import Reason
from impinge.detect.gjk_cut.scratch import Memory
from impinge.mesh.body import SurfaceLike, as_surface

Device: TypeAlias = Literal["cpu", "cuda"]

LEAF_PAIRS = 2**20
"""Most pairs of boxes that a leaf compares; 2^20 took 5 to 10 % less time than 2^16 with 1,500, 13,000 and 82,000
triangles each."""


class GjkCut(PairDetector):
    """All intersecting triangle pairs of two bodies, or of one with itself, without any structure.

    Nothing but scratch memory is kept between frames: edits of triangles cost nothing.

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
        stats.update(candidates=0, nodes=0, cuts=0, leaves=0)
        if options.cancelled:
            return NO_KEYS, "cancelled"
        if not len(a.ids) or not len(b.ids):
            return NO_KEYS, None
        is_self = self.b is None
        with self._lock:
            loaded = self._memory.load(a, None if is_self else b, cut_axes=True)
            stages.done("load")
            if loaded is None:
                return NO_KEYS, None
            found = self._memory.search(loaded, is_self, LEAF_PAIRS)
            stages.done("search")
        stats.update(zip(("candidates", "nodes", "cuts", "leaves"), found.counts))
        with np.errstate(over="ignore"):
            extent = found.extent / loaded.factor
        keys = classify(
            a, b, found.pair_a, found.pair_b, extent, stats, is_self=is_self, skip_neighbours=self._skip_neighbours
        )
        stages.done("test")
        return keys, None


def cut_along_direction(
    a: SurfaceLike, b: SurfaceLike, direction: ArrayLike, *, device: Device = "cpu"
) -> tuple[Ints, Ints]:
    """Find the potential collision region of two bodies along a direction (Algorithm 4.1).

    ``a`` keeps the triangles that reach the nearest point of ``b`` along ``direction``, and ``b`` those that begin
    before ``a`` ends. No triangle that intersects one of the other body is cut, whatever the direction; the best one
    points from a to b. Triangles that miss the other body by less than some 2^-17 of the size of both are kept as well,
    the margin for rounding.

    Parameters
    ----------
    a, b : body
        As in ``triangle_pairs``.
    direction : array_like, shape (3,)
        Any length but zero.
    device : {"cpu", "cuda"}
        Where to project and cut; both give the same triangles.

    Returns
    -------
    tuple of two ndarrays of int32
        Sorted ids of the triangles of a and of b that remain; both empty if the direction separates the bodies.

    Examples
    --------
    >>> from impinge import cut_along_direction, shapes
    >>> near, far = shapes.box(1.0), shapes.box(1.0, center=(3.0, 0.0, 0.0))
    >>> [len(ids) for ids in cut_along_direction(near, far, (1.0, 0.0, 0.0))]
    [0, 0]
    """
    as_choice(device, "device", ("cpu", "cuda"))
    body_a, body_b = query_body(as_surface(a, name="a")), query_body(as_surface(b, name="b"))
    v = as_direction(direction, "direction")
    if not len(body_a.ids) or not len(body_b.ids):
        return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32)
    memory = Memory()
    loaded = memory.load(body_a, body_b, cut_axes=False)
    assert loaded is not None  # nothing was cut
    v = v / np.abs(v).max()
    x, y, z = (v / np.linalg.norm(v)).tolist()
    return memory.cut(loaded, (x, y, z), device)
