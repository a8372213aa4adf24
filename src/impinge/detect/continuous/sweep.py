"""Pairs of moving features that meet: a broad phase over both ends of the motion, and a filter on each candidate.

1. Blocks.   Boxes around the vertices of each block and above at both ends of the motion, apart from the boxes that the
             tree keeps for its body. Two boxes are discarded if on some axis one is strictly on the same side of the
             other at both ends: vertices move along straight lines, and what is positive at both ends is positive in
             between. That is tighter than boxes around the whole motion: common motion does not enlarge it.
2. Features. Vertices, edges and faces of the blocks that remain (``mesh_features``), with float32 boxes at both ends,
             relative to a vertex of a at either. Subtraction and rounding preserve the order of numbers: a strict
             order of rounded numbers is one of the numbers themselves, at any size, and no pair is lost.
3. Join      each pair of blocks three times: edges with edges, vertices of a with faces of b, vertices of b with faces
             of a. Features of one body that share a vertex are skipped. Each candidate is decided at once by the filter
             in doubles (``exact.impact_walk``); only impacts and undecided candidates are kept.
4. Exact.    ``exact.impact`` decides the undecided ones, and narrows the times of the others.

Margin       Boxes are enlarged by half of the margin and an allowance for rounding, and ``separation_kernels`` decides.
             Coordinates beyond 2^60 or below 2^-60 are scaled by a power of two.
Slabs        With a budget, or for the first impact of large scenes, time is cut at 1/16, 1/8, 1/4 and 1/2. A slab has
             boxes at its own ends, enlarged by an allowance for rounding. A candidate of a slab is decided over the
             whole motion; one found in two slabs counts once. After a slab, every impact before its end is known.
Threads      claim ranges of block pairs. A range owns its output, and rows are sorted: the same bits for any number of
             threads.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from impinge.backend.jit import thread_count
from impinge.backend.simd.boxes import WIDTH
from impinge.backend.stages import Stages
from impinge.budget import NEVER, Budget
from impinge.checks import Bools, Floats, Ints, as_positions, check_finite, sorted_unique
from impinge.detect.boxes.mesh_features import Features, Layout, features_of, rows_not_ignored, triangles_around
from impinge.detect.boxes.tree import NO_ORIGIN, PosedTree, TreeOfBoxes, fit_trees, pose_tree, with_moved_vertices
from impinge.detect.boxes.whole_tree import LARGEST_EXPONENT, factor_for
from impinge.detect.common.pair_query import PairOptions, moved
from impinge.detect.common.results import Reason
from impinge.detect.continuous import sweep_kernels as kernels
from impinge.detect.continuous.primitives_kernels import resolve_rows
from impinge.exact.impact_walk import HIT
from impinge.mesh.adjacency import grouped
from impinge.mesh.tri_mesh import TriMesh

TASKS = 64
"""Ranges of block pairs."""
LEAST_ROOM = 256
"""Least number of rows that fit into the output of a range."""
ROOM = 64
"""Initial number of rows per block pair; untouched memory costs nothing."""
SLABS: tuple[float, ...] = (0.0, 0.0625, 0.125, 0.25, 0.5, 1.0)
"""Ends of the time slabs of a query with a budget, or for the first impact."""
FEW = 2048
"""Pairs of blocks up to which the first impact is searched without slabs, whose boxes cost more than they save."""
PORTION = 64
"""Block pairs between two checks of a budget or of ``cancel``; doubled and halved by time where time decides."""
CHECK_MS = 5.0
"""Approximate time between two checks [ms]."""
NO_LIMIT = 2**62
WIDTH_OF_TIMES = 2.0**-20
"""Largest length of the interval around a time of impact, as a share of the time."""
ROUNDING = 2.0**-46
"""Generous for a handful of roundings of 2^-53 each."""
ROUNDING_FEATURES = 2.0**-21
"""The same for float32, whose roundings are 2^-24."""
LARGEST_FLOAT32 = 1e37
"""Size of relative coordinates or margins from which enlarged boxes are infinite: float32 would overflow."""

WHOLE = (1.0, False, -1.0)
"""Impacts count up to the end of the motion, and none ends it."""
Part = tuple[NDArray[np.int8], NDArray[np.uint64], Floats]
"""Kinds, keys and times."""
Transforms = tuple[Floats | None, Floats | None]
"""Matrices at both ends of a motion, None for the identity."""


class Motion(NamedTuple):
    """A tree whose vertices move along straight lines."""

    posed: PosedTree
    """The tree at the start of the motion."""
    end: Floats
    """Positions at the end, shape (n, 3); those at the start if the body is static."""
    features: Features

    @property
    def start(self) -> Floats:
        """Positions at the start, shape (n, 3)."""
        return self.posed.x


class Found(NamedTuple):
    """Impacts, in the order of (kind, feature of a, feature of b)."""

    kind: NDArray[np.int8]
    """0: vertex of a and face of b; 1: face of a and vertex of b; 2: two edges."""
    feature: Ints
    """Feature of a, feature of b, shape (k, 2)."""
    vertices: Ints
    """The vertices of both features, those of a first, shape (k, 4)."""
    span: Floats
    """The times between which they first meet, shape (k, 2)."""
    at_start: Bools

    def rows(self, which: NDArray[np.int64] | Bools) -> Found:
        """Some of the rows."""
        return Found(
            self.kind[which], self.feature[which], self.vertices[which], self.span[which], self.at_start[which]
        )


class Request(NamedTuple):
    """Which impacts to find."""

    margin: float = 0.0
    first_only: bool = False
    skip_at_start: bool = False
    exclude_rings: int = 0


class Progress(NamedTuple):
    """How far a search came."""

    reason: Reason | None
    certain_until: float
    """Every impact before this time is known."""
    block_pairs: int
    tests: int


def pose_motion(
    body: TriMesh,
    tree: TreeOfBoxes,
    transforms: Transforms | None,
    end: ArrayLike | None,
    active: ArrayLike | None,
    letter: str,
) -> Motion:
    """A tree, up to date with edits, at both ends of a motion. Use it under the tree's lock."""
    before, after = (None, None) if transforms is None else transforms
    posed = pose_tree(body, tree, before, active, letter)
    rest = posed.state.vertices
    check_finite(rest, f"vertices of {letter}")
    target = rest if end is None else as_positions(end, name=f"end_{letter}", count=len(rest)).view()
    if after is not None:
        target = moved(after, target, f"transform_{letter}[1]")
    posed = with_moved_vertices(posed, letter)
    target.flags.writeable = False  # as positions of a body are: Numba specialises kernels on that
    fit_trees(posed)  # rebuilds a tree whose blocks have grown
    return Motion(posed, target, features_of(posed))


def find_impacts(
    a: Motion, b: Motion, request: Request, options: PairOptions, budget: Budget, stages: Stages
) -> tuple[Found, Progress]:
    """All impacts that the budget allows for; the earliest only if requested. Use it under the trees' locks."""
    margin, first_only = request.margin, request.first_only
    scaled_a, scaled_b, factor = _in_range(a, b) if margin > 0.0 else (a, b, 1.0)
    is_limited = budget.budget_ms is not None or budget.max_tests is not None
    slab_of = partial(Slab, scaled_a, scaled_b, margin=factor * margin, is_self=options.is_self)
    whole, cuts = None if is_limited else slab_of((0.0, 1.0)), SLABS
    if whole is not None and not (first_only and len(whole.block_pairs) > FEW):
        cuts = 0.0, 1.0
    elif whole is not None and 2 * len(slab_of((SLABS[0], SLABS[1])).block_pairs) > len(whole.block_pairs):
        whole, cuts = slab_of((0.0, 1.0)), (0.0, 1.0)  # a body near itself: slabs would join the same blocks each time
    is_filtered = options.ignored is not None or request.exclude_rings > 0
    stages.done("block_pairs")
    found, until, tests, block_pair_count, certain_until = _nothing(), 1.0, 0, 0, 0.0
    for begin, end in pairwise(cuts):
        reason, certain_until = _reason_to_stop(options, budget, tests), begin
        if reason is not None:
            break
        slab = slab_of((begin, end)) if whole is None or cuts == SLABS else whole
        block_pairs = slab.block_pairs
        stages.done("block_pairs")
        slab.fit_features()
        stages.done("features")
        block_pair_count += len(block_pairs)
        parts: list[Part] = []
        first, count = 0, PORTION if is_limited or options.cancel is not None else NO_LIMIT
        while first < len(block_pairs) and reason is None:
            began = perf_counter()
            # An impact that is left out later must not end the search for others.
            limit = until, first_only and not is_filtered, 0.0 if request.skip_at_start else -1.0
            part, more = slab.join(block_pairs[first : first + count], limit)
            parts.append(part)
            first, tests = first + count, tests + more
            if limit[1]:
                last = part[2][:, 1]
                until = min([until, *last[(last >= 0.0) & (last > limit[2])].tolist()])
            if first < len(block_pairs):
                reason = _reason_to_stop(options, budget, tests)
            if budget.tests == NEVER:  # a number of tests decides the same on every machine
                count = 2 * count if 1e3 * (perf_counter() - began) < CHECK_MS else max(count // 2, 1)
        stages.done("join")
        if first_only and not is_filtered:
            early = [part[2][:, 0] <= until for part in parts]
            parts = [(kind[keep], keys[keep], span[keep]) for (kind, keys, span), keep in zip(parts, early)]
        new = resolved(rows_of(parts, a, b, options.is_self), a, b, margin)
        if request.skip_at_start:
            new = new.rows(~new.at_start)
        new = _filtered(new, a, b, request.exclude_rings, options) if is_filtered else new
        found = sorted_rows(joined_rows([found, new])) if len(found.kind) else new
        stages.done("exact")
        if reason is not None:
            break
        certain_until = end
        if first_only and len(found.kind):
            until = min(until, float(found.span[:, 1].min()))
            if until <= end:
                break
    if first_only and len(found.kind):
        found = found.rows(found.span[:, 0] <= found.span[:, 1].min())
    return found, Progress(reason, 1.0 if reason is None else certain_until, block_pair_count, tests)


def _reason_to_stop(options: PairOptions, budget: Budget, tests: int) -> Reason | None:
    if options.cancelled:
        return "cancelled"
    return "budget" if budget.is_over() or tests >= budget.tests else None


class Slab:
    """Both bodies between two times, and their boxes."""

    def __init__(self, a: Motion, b: Motion, times: tuple[float, float], margin: float, is_self: bool) -> None:
        self.a, self.b, self.is_self = a, b, is_self
        self.margin = margin if margin > 0.0 else None
        self.x_a = _at(a, times[0]), _at(a, times[1])
        self.x_b = self.x_a if is_self else (_at(b, times[0]), _at(b, times[1]))
        self.origins: tuple[Floats, ...] = tuple(
            x[a.posed.tree.origin_vertex] if len(x) else NO_ORIGIN for x in self.x_a
        )
        self.pad, self.pad_features = 0.0, np.float32(0.0)
        if margin > 0.0 or times != (0.0, 1.0):
            size = relative = 0.0
            with np.errstate(over="ignore"):
                for at_end, origin in zip((*self.x_a, *self.x_b), self.origins * 2):
                    size = max(size, float(abs(at_end).max(initial=0.0)))
                    relative = max(relative, float(abs(at_end - origin).max(initial=0.0)))
            self.pad = 0.5 * margin + ROUNDING * (size + margin)
            if max(relative, self.pad) > LARGEST_FLOAT32:
                self.pad_features = np.float32(np.inf)
            else:
                self.pad_features = np.float32(self.pad + ROUNDING_FEATURES * (relative + self.pad))
        for motion, x in ((a, self.x_a), (b, self.x_b))[: 1 if is_self else 2]:
            tree = motion.posed.tree
            box, _ = _boxes(motion)
            kernels.fit_moving_blocks.over(tree.block_count)(
                tree.block_count, *x, tree.vertex_start, tree.vertex, self.pad, box
            )
            kernels.fit_moving_levels(box, tree.level_start)
        self.block_pairs = self._find_block_pairs()

    def _find_block_pairs(self) -> NDArray[np.int64]:
        """Pairs of blocks that may meet in this slab."""
        a, b = self.a.posed.tree, self.b.posed.tree
        if not len(self.a.features.order) or not len(self.b.features.order):
            return np.zeros((0, 2), dtype=np.int64)
        room = 16 * (a.block_count + b.block_count)
        while True:
            pairs = np.zeros((room, 2), dtype=np.int64)
            count = kernels.find_passing_blocks(
                _boxes(self.a)[0], a.level_start, _boxes(self.b)[0], b.level_start, self.is_self, pairs
            )
            if count <= room:
                return pairs[:count]
            room = count

    def fit_features(self) -> None:
        """Fit the boxes of the features of all blocks that occur in pairs."""
        pairs = self.block_pairs
        columns = ((self.a, self.x_a, pairs[:, :1]), (self.b, self.x_b, pairs[:, 1:]))
        for motion, x, blocks in ((self.a, self.x_a, pairs),) if self.is_self else columns:
            is_listed = np.zeros(motion.posed.tree.block_count, dtype=np.bool_)
            is_listed[blocks] = True
            listed = np.flatnonzero(is_listed)
            layouts = _boxes(motion)[1]
            kernels.fit_moving_features.over(len(listed))(listed, *x, *layouts, self.origins, self.pad_features)

    def join(self, block_pairs: NDArray[np.int64], limit: tuple[float, bool, float] = WHOLE) -> tuple[Part, int]:
        """Kinds, keys and times of the pairs that meet or may meet, and the number of candidates."""
        layouts = []
        for motion in (self.a, self.b):
            vertices, edges, faces = _boxes(motion)[1]
            layouts += [(motion.start, motion.end, *layout) for layout in (edges, vertices, faces)]
        room = LEAST_ROOM + ROOM * (len(block_pairs) // TASKS + 1)
        while True:
            keys = np.zeros((3 * TASKS, room), dtype=np.uint64)
            span = np.zeros((3 * TASKS, room, 2))
            counts = np.zeros((3 * TASKS, 2), dtype=np.int64)
            kernels.join_passing_blocks.over(len(block_pairs))(
                block_pairs, *layouts, self.is_self, self.margin, limit, thread_count(),
                np.zeros(1, dtype=np.int64), keys, span, counts,
            )  # fmt: skip
            if counts[:, 0].max() <= room:
                break
            room = int(counts[:, 0].max())
        tests = int(counts[:, 1].sum())
        filled = np.flatnonzero(counts[:, 0])
        if not len(filled):
            return (np.zeros(0, dtype=np.int8), keys[0, :0], span[0, :0]), tests
        kind = np.repeat(np.array([2, 0, 1], dtype=np.int8)[filled // TASKS], counts[filled, 0])
        found_keys, found_span = (
            np.concatenate([column[t, : counts[t, 0]] for t in filled.tolist()]) for column in (keys, span)
        )
        return (kind, found_keys, found_span), tests


def _at(motion: Motion, t: float) -> Floats:
    """Positions at a time; within the motion, off by two roundings."""
    if t in (0.0, 1.0):
        return motion.end if t else motion.start
    x = (1.0 - t) * motion.start + t * motion.end
    x.flags.writeable = False
    return x


def _boxes(motion: Motion) -> tuple[Floats, list[Layout]]:
    """Memory for the moving boxes of a tree, kept with it: blocks and above, then vertices, edges and faces."""
    tree, features = motion.posed.tree, motion.features
    kept: tuple[Features, Floats, list[Layout]] | None = tree.derived.get("moving_boxes")
    if kept is None or kept[0] is not features:
        box = np.zeros((2 * len(tree.box), 6, WIDTH))
        box[:, :3], box[:, 3:] = np.inf, -np.inf
        layouts = [
            layout._replace(box=np.repeat(layout.box, 2, axis=0), top=np.repeat(layout.top, 2, axis=0))
            for layout in (features.of_vertices, features.of_edges, features.of_faces)
        ]
        kept = tree.derived["moving_boxes"] = features, box, layouts
    return kept[1], kept[2]


def _in_range(a: Motion, b: Motion) -> tuple[Motion, Motion, float]:
    """Both motions, scaled by a power of two where their size needs it, and the factor."""
    size = max((float(abs(x).max()) for x in (a.start, a.end, b.start, b.end) if len(x)), default=0.0)
    if size == 0.0 or abs(math.frexp(size)[1]) <= LARGEST_EXPONENT:
        return a, b, 1.0
    factor = factor_for(size)
    scaled = []
    for motion in (a, b):
        start, end = factor * motion.start, factor * motion.end
        start.flags.writeable = end.flags.writeable = False
        scaled.append(motion._replace(posed=motion.posed._replace(x=start), end=end))
    return scaled[0], scaled[1], factor


def _nothing() -> Found:
    return Found(
        np.zeros(0, dtype=np.int8), np.zeros((0, 2), dtype=np.int32), np.zeros((0, 4), dtype=np.int32),
        np.zeros((0, 2)), np.zeros(0, dtype=np.bool_),
    )  # fmt: skip


def rows_of(
    parts: list[tuple[NDArray[np.int8], NDArray[np.uint64], Floats]], a: Motion, b: Motion, is_self: bool
) -> Found:
    """Rows of all parts, sorted."""
    if not any(len(part[0]) for part in parts):
        return _nothing()
    kind, keys, span = (np.concatenate(columns) for columns in zip(*parts))
    high, low = (keys >> np.uint64(32)).astype(np.int32), (keys & kernels.LOW_HALF).astype(np.int32)
    if is_self:
        kind = np.where(kind == 1, np.int8(0), kind)
    feature = np.where((kind == 1)[:, None], np.stack([low, high], axis=1), np.stack([high, low], axis=1))
    order = np.lexsort((feature[:, 1], feature[:, 0], kind))
    kind, feature, span = kind[order], feature[order], span[order]
    vertices = np.zeros((len(kind), 4), dtype=np.int32)
    faces_a, faces_b = a.posed.state.faces, b.posed.state.faces
    of_face, of_vertex, of_edge = (kind == k for k in range(3))
    vertices[of_face, 0], vertices[of_face, 1:] = feature[of_face, 0], faces_b[feature[of_face, 1]]
    vertices[of_vertex, :3], vertices[of_vertex, 3] = faces_a[feature[of_vertex, 0]], feature[of_vertex, 1]
    vertices[of_edge, :2] = a.features.edges[feature[of_edge, 0]]
    vertices[of_edge, 2:] = b.features.edges[feature[of_edge, 1]]
    return Found(kind, feature, vertices, span, np.zeros(len(kind), dtype=np.bool_))


def resolved(found: Found, a: Motion, b: Motion, margin: float) -> Found:
    """Rows that meet, with narrow times; pairs within a margin have them already."""
    if margin > 0.0:
        return found._replace(at_start=found.span[:, 1] == 0.0)
    count, span = len(found.kind), found.span.copy()
    if not count:
        return found
    motion = a.start, a.end, b.start, b.end
    is_open, is_hit, at_start = np.ones(count, dtype=np.bool_), np.ones(count, dtype=np.bool_), found.at_start.copy()
    kernels.narrow_times.over(count)(found.kind, found.vertices, *motion, WIDTH_OF_TIMES, span, is_open)
    for is_edges in (False, True):
        rows = np.flatnonzero(is_open & ((found.kind == kernels.EDGE_EDGE) == is_edges))
        if not len(rows):
            continue
        before, after = np.zeros((len(rows), 4, 3)), np.zeros((len(rows), 4, 3))
        kernels.gather_points.over(len(rows))(rows, found.kind, found.vertices, *motion, before, after)
        verdict, lo, hi = np.zeros(len(rows), dtype=np.int8), np.zeros(len(rows)), np.zeros(len(rows))
        resolve_rows.over(len(rows))(is_edges, before, after, WIDTH_OF_TIMES, np.arange(len(rows)), verdict, lo, hi)
        is_hit[rows], span[rows, 0], span[rows, 1], at_start[rows] = verdict == HIT, lo, hi, hi == 0.0
    return found._replace(span=span, at_start=at_start).rows(is_hit)


def _filtered(found: Found, a: Motion, b: Motion, rings: int, options: PairOptions) -> Found:
    """Rows without ignored pairs, and without those whose features are within ``rings`` edges of each other."""
    if options.ignored is not None and len(found.kind):
        around_a, around_b = triangles_around(a.features, a.posed), triangles_around(b.features, b.posed)
        kept = [
            rows[rows_not_ignored(found.feature[rows], around_a[k], around_b[m], options)]
            for rows, k, m in zip((np.flatnonzero(found.kind == kind) for kind in range(3)), (0, 2, 1), (2, 0, 1))
        ]
        found = found.rows(np.concatenate(kept))
    if not rings or not len(found.kind):
        return found
    of_a = np.arange(4) < np.array([1, 3, 2])[found.kind][:, None]
    rows = np.arange(len(of_a))[:, None] + np.zeros(4, dtype=np.int64)
    one, other = (np.stack([rows[part], found.vertices[part]], axis=1, dtype=np.int64) for part in (of_a, ~of_a))
    return found.rows(~within_rings(a, one, other, len(of_a), rings))


def within_rings(motion: Motion, one: NDArray[np.int64], other: NDArray[np.int64], row_count: int, rings: int) -> Bools:
    """Which rows have a vertex in ``other`` at most ``rings`` edges from one in ``one``; lists of (row, vertex)."""
    tree, vertex_count = motion.posed.tree, len(motion.start)
    faces = tree.order_face[tree.order_tri >= 0].astype(np.int64)
    begin, end = faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1), faces[:, [1, 0, 2, 1, 0, 2]].reshape(-1)
    start, side = grouped(begin, vertex_count)
    keys = sorted_unique(one[:, 0] * vertex_count + one[:, 1])
    for _ in range(rings):
        row, vertex = np.divmod(keys, vertex_count)
        count = start[vertex + 1] - start[vertex]
        before = np.cumsum(count) - count
        near = end[side[np.repeat(start[vertex] - before, count) + np.arange(count.sum())]]
        keys = sorted_unique(np.concatenate([keys, np.repeat(row, count) * vertex_count + near]))
    is_near = np.zeros(row_count, dtype=np.bool_)
    is_near[other[np.isin(other[:, 0] * vertex_count + other[:, 1], keys), 0]] = True
    return is_near


def joined_rows(parts: list[Found]) -> Found:
    """Rows of all parts, in turn."""
    filled = [part for part in parts if len(part.kind)]
    if len(filled) < 2:
        return filled[0] if filled else _nothing()
    return Found(*map(np.concatenate, zip(*filled)))


def sorted_rows(found: Found) -> Found:
    """All rows in order, each once."""
    order = np.lexsort((found.feature[:, 1], found.feature[:, 0], found.kind))
    kind, feature = found.kind[order], found.feature[order]
    is_new = np.ones(len(order), dtype=np.bool_)
    is_new[1:] = (kind[1:] != kind[:-1]) | (feature[1:] != feature[:-1]).any(axis=1)
    return found.rows(order[is_new])
