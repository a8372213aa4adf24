"""Every intersecting triangle pair with no structure at all: cut away what lies apart, split what remains, repeat.

GJK with cut [HatabKheddar2006]. For two lists of triangles A and B:

0. Axes    The axes come first, in both directions at once: what misses the box around the other list goes, whole runs
           of triangles at a time, until nothing more does. Most of two bodies that touch here and there is gone then.
1. Cut     along a direction s, from A to B (Algorithm 4.1). The support v1 of A is its vertex farthest along s, the
           support v2 of B its vertex farthest along -s. Triangles of A that end before v2, and triangles of B that
           begin after v1, lie apart from all of the other list, and go. If a list is empty then, s separates the two.
2. Again   along another direction (Algorithm 4.2) until a cut removes too little. With t = v1 - v2, Chung and Wang
           mirror s at the plane across t, s - 2 t (t·s) / (t·t): the angle to any direction that separates the hulls
           never grows. ``direction="gjk"`` takes the way from the simplex of all t so far to the origin instead. A
           reflection that changes nothing (t·s = 0) turns s towards -t; supports that coincide end the search.
3. Split   each list in two, across the last direction, where both together are longer; look at all four pairs of
           halves (Algorithm 5.1).
4. Leaf    Two lists with no more than ``leaf_pairs`` pairs have their boxes compared, eight at once; boxes that meet
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
Options    ``stop="and"`` goes on while both lists get shorter, as printed; ``"or"`` while one does, as the text has
           it. A list gets shorter if it loses more than ``worth`` of its triangles (0: any; more pays, since halves are
           cut again). ``threshold`` cuts a list only where the common region takes up at most that share of it (Fig. 2;
           1: always), along the axes too. ``split="median"`` parts at the median of all corners instead of the middle
           barycentre. ``coherent=True`` starts each of the upper nodes with the direction that removed most there in
           the frame before; it saves nothing by default, where a slab takes a cut or two, and did not save cuts in
           the paper's recursion either (``p000_variants``). No option changes the result.
           ``leaf_pairs=1, stop="and", worth=0, box_first=False`` is the paper's recursion down to single triangles.
Departures Line 10 of Algorithm 4.2 is left out: with line 15 it would mirror the direction back. Directions start
           from centre to centre (of a sample), not between any two vertices. Step 0 and slabs are ours. The middle of a
           split is that of a sample of 129; where it leaves less than a quarter on one side, lists are halved by rank.
Cost       linear in the live triangles, and the same whether vertices, triangles or nothing changed since the last
           frame: nothing is kept but scratch memory (and hints). ``active_a`` costs what the active triangles cost.
Guarantee  exact and complete. Splits leave at most three quarters of a list, so that every input ends: bodies in one
           point, collinear ones, coincident centres and supports.
"""

from __future__ import annotations

import threading
from time import perf_counter
from typing import Any, Literal, TypeAlias

import numpy as np

from impinge.backend.stages import Stages, start_stages
from impinge.checks import Ints
from impinge.detect.common.narrow_phase import Neighbours, check_neighbours, classify, classify_self
from impinge.detect.common.pair_query import Keys, PairOptions, QueryBody, finish_pairs, query_body, pair_options
from impinge.detect.common.results import Reason, TrianglePairs
from impinge.detect.gjk_cut.cut_kernels import CHUNG_WANG, GJK, NO_HINT
from impinge.detect.gjk_cut.scratch import Memory
from impinge.detect.gjk_cut.search_kernels import SLABS
from impinge.detect.gjk_cut.split_kernels import MEDIAN, RANK
from impinge.errors import OptionError
from impinge.mesh.body import as_surface

Direction: TypeAlias = Literal["chung_wang", "gjk"]
Stop: TypeAlias = Literal["or", "and"]
Split: TypeAlias = Literal["rank", "median"]
Device: TypeAlias = Literal["cpu", "cuda"]

LEAF_PAIRS = 2**20
"""Pairs of boxes that are compared rather than cut and split further; 2^20 took 5 to 10 % less than 2^16 with 1,500,
13,000 and 82,000 triangles each."""
MOST_LEAF_PAIRS = 2**40
WORTH = 0.5
"""Share of a list that a cut has to remove for the next cut to be tried."""
HINTED = 341
"""Nodes of each slab whose direction is kept with ``coherent=True``: the first five levels."""
NO_KEYS: Keys = np.zeros(0, dtype=np.uint64)
_DIRECTIONS = {"chung_wang": CHUNG_WANG, "gjk": GJK}
_SPLITS = {"rank": RANK, "median": MEDIAN}


class GjkCut:
    """All intersecting pairs of two bodies, or of one with itself; nothing is kept between frames."""

    name = "gjk_cut"

    def __init__(
        self,
        a: Any,
        b: Any = None,
        *,
        direction: Direction = "chung_wang",
        stop: Stop = "or",
        threshold: float = 1.0,
        split: Split = "rank",
        leaf_pairs: int = LEAF_PAIRS,
        coherent: bool = False,
        box_first: bool = True,
        worth: float = WORTH,
        neighbours: Neighbours = "exact",
    ) -> None:
        self.a = as_surface(a, name="a")
        self.b = None if b is None else as_surface(b, name="b")
        self._skip_neighbours = check_neighbours(neighbours, is_self=b is None)
        self._choices = _choices(direction, stop, threshold, split, leaf_pairs, worth)
        self._box_threshold = float(threshold) if box_first else None
        self._hints = np.full((SLABS, HINTED if coherent else 0, 3), NO_HINT)
        self._lock = threading.Lock()
        self._memory = Memory()

    def query(self, **options: Any) -> TrianglePairs:
        """Find all pairs as the bodies are now; options as in ``PairOptions``."""
        began = perf_counter()
        wanted = pair_options(options, is_self=self.b is None)
        a = wanted.side_a(self.a)
        b = a if self.b is None else wanted.side_b(self.b)
        stages = start_stages()
        stats: dict[str, Any] = {"nodes": 0, "cuts": 0, "leaves": 0, "candidates": 0}
        with self._lock:
            keys, reason = self._search(a, b, wanted, stats, stages)
        stats["hits"] = len(keys)
        stats.update(stages.times())
        return finish_pairs(
            keys,
            wanted,
            is_self=self.b is None,
            method=self.name,
            stats=stats,
            reason=reason,
            bodies=(self.a,) if self.b is None else (self.a, self.b),
            began=began,
        )

    def _search(
        self, a: QueryBody, b: QueryBody, options: PairOptions, stats: dict[str, Any], stages: Stages
    ) -> tuple[Keys, Reason | None]:
        if options.cancelled:
            return NO_KEYS, "cancelled"
        if not len(a.ids) or not len(b.ids):
            return NO_KEYS, None
        memory = self._memory
        loaded = memory.load(a, None if self.b is None else b, self._box_threshold)
        stages.done("load")
        if loaded is None:
            return NO_KEYS, None
        memory.search(loaded, self.b is None, self._choices, self._hints)
        stages.done("search")
        pair_a, pair_b = memory.candidates()
        with np.errstate(over="ignore"):
            extent = memory.extent() / loaded.factor
        memory.count(stats)
        if self.b is None:
            keys = classify_self(a, pair_a, pair_b, self._skip_neighbours, extent, stats)
        else:
            keys = classify(a, b, pair_a, pair_b, extent, stats)
        stages.done("test")
        return keys, None


def cut_along_direction(a: Any, b: Any, direction: Any, *, device: Device = "cpu") -> tuple[Ints, Ints]:
    """The potential collision region of ``a`` and ``b`` along a direction: sorted ids of the triangles that remain.

    Algorithm 4.1: ``a`` keeps the triangles that reach the nearest point of ``b`` along ``direction``, and ``b`` those
    that begin before ``a`` ends. Both are empty if the direction separates the bodies. No triangle that meets one of
    the other body is cut, whatever the direction; the best one points from a to b. Triangles that miss the other body
    by less than some 2^-17 of the size of both are kept, too: that much is left for rounding.
    """
    if device not in ("cpu", "cuda"):
        raise OptionError(f"device is {device!r}, expected 'cpu' or 'cuda'")
    side_a, side_b = (
        query_body(as_surface(a, name="a"), None, None, "a"),
        query_body(as_surface(b, name="b"), None, None, "b"),
    )
    s = _as_direction(direction)
    if not len(side_a.ids) or not len(side_b.ids):
        return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32)
    memory = Memory()
    loaded = memory.load(side_a, side_b, None)
    assert loaded is not None  # nothing was cut
    return memory.cut(loaded, s, device)


def _as_direction(direction: Any) -> tuple[float, float, float]:
    """A direction of length 1."""
    v = np.asarray(direction, dtype=np.float64)
    if v.shape != (3,) or not np.isfinite(v).all() or not v.any():
        raise OptionError(f"direction is {direction!r}, expected three finite numbers of which one is not zero")
    v = v / np.abs(v).max()
    x, y, z = (float(value) for value in v / np.linalg.norm(v))
    return x, y, z


def _choices(direction: Any, stop: Any, threshold: Any, split: Any, leaf_pairs: Any, worth: Any) -> tuple[Any, ...]:
    """The options as kernels take them."""
    if direction not in _DIRECTIONS:
        raise OptionError(f"direction is {direction!r}, expected 'chung_wang' or 'gjk'")
    if stop not in ("or", "and"):
        raise OptionError(f"stop is {stop!r}, expected 'or' or 'and'")
    if split not in _SPLITS:
        raise OptionError(f"split is {split!r}, expected 'rank' or 'median'")
    if not _is_share(threshold) or threshold == 0:
        raise OptionError(
            f"threshold is {threshold!r}, expected a number above 0 and up to 1: the share up to which to cut"
        )
    if not _is_share(worth):
        raise OptionError(f"worth is {worth!r}, expected a number from 0 to 1: the share that a cut has to remove")
    whole = isinstance(leaf_pairs, int | np.integer) and not isinstance(leaf_pairs, bool)
    if not whole or not 1 <= leaf_pairs <= MOST_LEAF_PAIRS:
        raise OptionError(f"leaf_pairs is {leaf_pairs!r}, expected a whole number from 1 to {MOST_LEAF_PAIRS}")
    return _DIRECTIONS[direction], stop == "and", float(threshold), _SPLITS[split], int(leaf_pairs), float(worth)


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and bool(0.0 <= value <= 1.0)
