"""Interference of two trees, all node pairs of a level at once: [GressZachmann2004], on CPU threads and on CUDA.

Tree (4.1)       Balanced and binary: the leaves are the triangles in a spatially coherent order, level l has
                 n(l) = ceil(n(l + 1) / 2) nodes, the children of node i are 2i and 2i + 1. The shallower of two trees
                 gets further levels of a single node on top.
Traversal (4.2)  1. Start with all node pairs of the entry level.
                 2. Test their boxes (4.3). A pair that overlaps counts its pairs of children, up to four, else 0.
                 3. Expand (4.4): the sum of the counts is the number of node pairs of the next level, and entry k of
                    that list is found from prefix sums.
                 4. At the leaves, test triangles: a filter in doubles, then exact arithmetic for uncertain pairs.
Entry (5)        When more than ``entry_threshold`` of the node pairs of the entry level overlap, the next query starts
                 a level deeper; when less than a quarter of that do, a level higher. The answer does not depend on it.

The paper as written, with its pyramid of counts and its box test between spaces, is
``impinge.published.breadth_first``.

Departures  - The paper's rows, a list of nodes of S for each node of T, are one list of pairs here.
            - Prefix sums replace the pyramid of counts.
            - A transform moves every vertex once, and boxes are refitted. Bounds in one space are compared exactly, for
              any volume; a test between spaces (SAT lite, Appendix A) needs a slack for rounding.
            - Lists are expanded in blocks of ``block_pairs``, one after the other down to the leaves. Memory is at
              most some 40 bytes times ``block_pairs`` times the levels, besides the answer.
            - Leaf boxes are tested before triangles.
            - Counters are int32 and int64; the half floats of the paper count to 2048.
            - Trees are refitted from the current vertices (the paper's bodies are rigid), and one body may be tested
              with itself: only pairs i <= j are followed.
            - What section 8 leaves for the future: ``volume`` may be a k-DOP (bounds along diagonals are rounded
              outwards), and ``query_many`` runs many object pairs in one traversal, each with its own transforms.
Guarantee   exact and complete; the same bits for every device, volume, threshold, block size and thread count.
Cost        a few launches per level, whatever its size: on a CPU ``BoxTree`` is several times faster.
Tried       On one core: descending the pyramid takes three times as long as the prefix sums; finding and testing a pair
            in two passes takes as long as in one; k-DOPs halve box and triangle tests and double the refit, which loses
            while bodies deform.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from time import perf_counter
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from impinge.backend.stages import Stages, start_stages
from impinge.checks import Ints, Stats, as_choice, as_number, as_transform, as_whole, shown
from impinge.detect.breadth_first.traversal import Traversal
from impinge.detect.breadth_first.trees import Device, PosedBody, Volume, pose
from impinge.detect.common import narrow_phase_kernels
from impinge.detect.common.narrow_phase import Neighbours
from impinge.detect.common.pair_detector import PairDetector
from impinge.detect.common.pair_query import NO_KEYS, Keys, PairOptions, finish_pairs, pack
from impinge.detect.common.results import Reason, TrianglePairs
from impinge.errors import OptionError
from impinge.exact.kinds import NONE, UNCERTAIN
from impinge.exact.triangle_triangle import error_bound
from impinge.mesh.body import SurfaceLike, as_surface
from impinge.mesh.tri_mesh import TriMesh

DeviceName: TypeAlias = Literal["cpu", "cuda"]
Job: TypeAlias = tuple[PosedBody, PosedBody]
"""One object pair of a traversal."""

BLOCK_PAIRS = 1 << 20
"""Node pairs visited at a time."""
LESS = 0.25
"""Below this share of the entry threshold the next query starts a level higher (the paper says only "adjust")."""


class BreadthFirst(PairDetector):
    """All intersecting pairs of two bodies, or of one with itself, level by level.

    Parameters
    ----------
    a, b, neighbours
        As in ``BoxTree``.
    device : {"cpu", "cuda"}
        Where boxes and triangles are tested.
    entry_threshold : float, optional
        Share of overlapping node pairs, above 0 and up to 1, above which the next query starts a level deeper; None
        always starts at the roots.
    block_pairs : int
        Node pairs visited at a time; bounds the memory.
    volume : {"aabb", "14-dop", "18-dop"}
        Bounding volume of the nodes.
    """

    name = "breadth_first"
    options = ("neighbours", "device", "entry_threshold", "block_pairs", "volume")

    def __init__(
        self,
        a: SurfaceLike,
        b: SurfaceLike | None = None,
        *,
        device: DeviceName = "cpu",
        entry_threshold: float | None = 0.25,
        block_pairs: int = BLOCK_PAIRS,
        volume: Volume = "aabb",
        neighbours: Neighbours = "exact",
    ) -> None:
        super().__init__(a, b, neighbours=neighbours)
        self.volume: Volume = as_choice(volume, "volume", get_args(Volume))
        self.block_pairs = as_whole(block_pairs, "block_pairs")
        self.entry_threshold = entry_threshold
        if entry_threshold is not None:
            expected = "a share above 0 and up to 1, or None to start at the roots"
            self.entry_threshold = as_number(entry_threshold, "entry_threshold", expected, above=0.0, most=1.0)
        self._device = _device(device)
        self.device: DeviceName = device
        self._entry_level = 0

    def _find(self, options: PairOptions, stats: Stats, stages: Stages) -> tuple[Keys, Reason | None]:
        keys = np.concatenate([NO_KEYS, *self._hits(options, stats, stages)])
        return keys, "cancelled" if options.cancelled else None

    def count(
        self,
        *,
        transform_a: ArrayLike | None = None,
        transform_b: ArrayLike | None = None,
        active_a: ArrayLike | None = None,
        active_b: ArrayLike | None = None,
    ) -> int:
        """Number of pairs that ``query`` finds; no list of them is made (the paper's occlusion query)."""
        options = PairOptions(transform_a, transform_b, active_a, active_b, is_self=self.b is None)
        return sum(len(keys) for keys in self._hits(options, {}, start_stages()))

    def _hits(self, options: PairOptions, stats: Stats, stages: Stages) -> Iterator[Keys]:
        """Keys of the pairs that meet, block by block; at the end, ``stats`` and the entry level of the next query."""
        device, volume, is_self = self._device, self.volume, self.b is None
        a = b = pose(device, self.a, self.a.snapshot(), options.transform_a, options.active_a, "a", volume)
        if self.b is not None:
            b = pose(device, self.b, self.b.snapshot(), options.transform_b, options.active_b, "b", volume)
        stages.done("refit")
        trees = a.tree.level[None], a.tree.box, b.tree.level[None], b.tree.box
        traversal = Traversal(device, trees, self.block_pairs, stages, lambda: options.cancelled, is_self=is_self)
        top = height = max(a.tree.height, b.tree.height)
        # Entry (5): the kept level, or the deepest above it whose node pairs fit into a block.
        while top - height < min(self._entry_level, top) and traversal.pair_count[0, height - 1] <= self.block_pairs:
            height -= 1
        skip_neighbours = self._skip_neighbours if is_self else None
        for _, keys in _find_hits(device, [(a, b)], traversal, height, stats, stages, skip_neighbours):
            yield keys
        possible = int(traversal.pair_count[0, height])
        if is_self:
            possible = (possible + int(a.tree.level[height, 1])) // 2  # pairs s <= t
        if options.cancelled or self.entry_threshold is None or not possible:
            return
        overlaps, many = traversal.overlaps[height], self.entry_threshold * possible
        self._entry_level = min(max(top - height + (overlaps > many) - (overlaps < LESS * many), 0), top)


def _listed(pairs: Any) -> list[tuple[Any, Any, Any, Any]]:
    """A list of the pairs; refuse rows without four entries."""
    rows = list(pairs) if isinstance(pairs, Iterable) else [pairs]
    for k, row in enumerate(rows):
        if not isinstance(row, tuple | list) or len(row) != 4:
            raise OptionError(
                f"pairs[{k}] is {shown(row)}, expected (a, b, transform_a, transform_b), None for no move"
            )
    return [(a, b, move_a, move_b) for a, b, move_a, move_b in rows]


def query_many(
    pairs: Sequence[tuple[SurfaceLike, SurfaceLike, ArrayLike | None, ArrayLike | None]],
    *,
    device: DeviceName = "cpu",
    block_pairs: int = BLOCK_PAIRS,
) -> list[TrianglePairs]:
    """Find all intersecting triangle pairs of many object pairs in one traversal (8).

    Parameters
    ----------
    pairs : sequence of (a, b, transform_a, transform_b)
        Object pairs. A body may occur in any number of them, each time with its own transform, shape (4, 4), or None;
        its tree is refitted once per transform.
    device, block_pairs
        As in ``BreadthFirst``.

    Returns
    -------
    list of TrianglePairs
        The results of single queries, in order. ``stats`` and ``elapsed_ms`` cover all pairs, except ``hits``.
    """
    began = perf_counter()
    as_whole(block_pairs, "block_pairs")
    where = _device(device)
    pairs = _listed(pairs)
    if not pairs:
        return []
    stages = start_stages()
    bodies = [(as_surface(a, name="a"), as_surface(b, name="b")) for a, b, *_ in pairs]
    snapshots = {id(body): body.snapshot() for pair in bodies for body in pair}
    posed: dict[tuple[int, bytes], PosedBody] = {}

    def posed_body(body: TriMesh, transform: ArrayLike | None, letter: str) -> PosedBody:
        matrix = as_transform(transform, f"transform_{letter}")
        key = (id(body), b"" if matrix is None else matrix.tobytes())
        if key not in posed:
            posed[key] = pose(where, body, snapshots[id(body)], matrix, None, letter)
        return posed[key]

    jobs = [
        (posed_body(a, move_a, "a"), posed_body(b, move_b, "b"))
        for (a, b), (_, _, move_a, move_b) in zip(bodies, pairs)
    ]
    stages.done("refit")
    stats: Stats = {}
    found: list[list[Keys]] = [[NO_KEYS] for _ in jobs]
    # Each tree is stored once, in one array; the level tables of each job say where.
    trees = {id(body.tree): body.tree for body in posed.values()}
    box = where.concatenate([tree.box for tree in trees.values()])
    first_row = np.cumsum([0, *(len(tree.box) for tree in trees.values())])
    level = {key: tree.level + np.array([first, 0]) for (key, tree), first in zip(trees.items(), first_row)}
    level_a, level_b = (np.stack([level[id(body.tree)] for body in side]) for side in zip(*jobs))
    traversal = Traversal(where, (level_a, box, level_b, box), block_pairs, stages)
    top = max(tree.height for tree in trees.values())
    for q, keys in _find_hits(where, jobs, traversal, top, stats, stages):
        found[q].append(keys)
    stats.update(stages.times())
    return [
        finish_pairs(
            np.concatenate(keys), PairOptions(), method=BreadthFirst.name, stats=stats.copy(), reason=None,
            bodies=pair, began=began,
        )
        for keys, pair in zip(found, bodies)
    ]  # fmt: skip


def _device(name: DeviceName) -> Device:
    if as_choice(name, "device", get_args(DeviceName)) == "cpu":
        return Device()
    from impinge.detect.breadth_first.cuda import Cuda

    return Cuda()


def _find_hits(
    device: Device, jobs: Sequence[Job], traversal: Traversal, height: int, stats: Stats, stages: Stages,
    skip_neighbours: bool | None = None,
) -> Iterator[tuple[int, Keys]]:  # fmt: skip
    """Job and keys of the pairs that meet, block by block; ``skip_neighbours`` is None unless it is self-collision."""
    # One bound on rounding for all triangle pairs: those of a job lie in one box around both bodies.
    extent = np.zeros(3)
    for a, b in jobs:
        low, high = np.minimum(a.tree.root[:3], b.tree.root[:3]), np.maximum(a.tree.root[3:], b.tree.root[3:])
        with np.errstate(over="ignore"):
            extent = np.maximum(extent, high - low)
    bound, triangle_tests, exact_tests = float(error_bound(*extent)), 0, 0
    for leaves in traversal.overlapping_leaves(height):
        job, pair, keep = leaves[:, 0], np.zeros((2, len(leaves)), dtype=np.int32), np.ones(len(leaves), dtype=np.bool_)
        for q, rows in _runs(job):
            for side, body in enumerate(jobs[q]):
                pair[side, rows] = body.tree.order[leaves[rows, 1 + side]]
                if body.active is not None:
                    keep[rows] &= body.active[pair[side, rows]]
        if not keep.all():
            job, pair = job[keep], np.ascontiguousarray(pair[:, keep])
        if skip_neighbours is not None:
            pair = np.stack([np.minimum(*pair), np.maximum(*pair)])
        kind, uncertain = _classify(device, jobs, job, pair[0], pair[1], bound, skip_neighbours)
        triangle_tests, exact_tests = triangle_tests + len(kind), exact_tests + uncertain
        stages.done("triangles")
        hit = np.flatnonzero(kind != NONE)
        keys = pack(pair[0, hit], pair[1, hit], kind[hit])
        for q, rows in _runs(job[hit]):
            yield q, keys[rows]
    top = max(body.tree.height for job in jobs for body in job)
    stats.update(
        triangle_tests=triangle_tests, exact_tests=exact_tests, entry_level=top - height,
        box_tests=sum(traversal.tests), tests_per_level=traversal.tests[top::-1],
        overlaps_per_level=traversal.overlaps[top::-1],
    )  # fmt: skip


def _classify(
    device: Device, jobs: Sequence[Job], job: Ints, pair_a: Ints, pair_b: Ints, bound: float,
    skip_neighbours: bool | None,
) -> tuple[NDArray[np.int8], int]:  # fmt: skip
    """Kinds of candidates, and how many needed the exact test: the device filters, the CPU resolves the uncertain."""
    kernel, resolve = "classify_pairs", narrow_phase_kernels.resolve_pairs
    a, b = jobs[0]
    arrays: tuple[NDArray[Any], ...] = (a.x, a.faces, b.x, b.faces, pair_a, pair_b)
    options: tuple[float, ...] = (bound,)
    if skip_neighbours is not None:
        kernel, resolve = "classify_self_pairs", narrow_phase_kernels.resolve_self_pairs
        arrays, options = (a.x, a.faces, pair_a, pair_b), (skip_neighbours, bound)
    elif len(jobs) > 1:  # gather the corners of all object pairs into one array
        faces, ids = np.arange(3 * len(job), dtype=np.int32).reshape(-1, 3), np.arange(len(job), dtype=np.int32)
        x = np.zeros((2, 3 * len(job), 3))
        for q, run in _runs(job):
            for side, (body, tri) in enumerate(zip(jobs[q], (pair_a, pair_b))):
                x[side, 3 * run.start : 3 * run.stop] = body.x[body.faces[tri[run]]].reshape(-1, 3)
        x.flags.writeable = False  # as positions of bodies are: Numba specialises kernels on that
        arrays = (x[0], faces, x[1], faces, ids, ids)
    kind = device.empty(len(pair_a), np.int8)
    device.run(kernel, len(pair_a), *map(device.upload, arrays), *options, kind)
    kind = device.download(kind)
    rows = np.flatnonzero(kind == UNCERTAIN)
    resolve.over(len(rows))(*arrays, rows, kind)
    return kind, len(rows)


def _runs(job: Ints) -> Iterator[tuple[int, slice]]:
    """Each value of a sorted array with the rows that hold it."""
    first = np.flatnonzero(np.diff(job, prepend=-1)).tolist()
    for start, end in zip(first, [*first[1:], len(job)]):
        yield int(job[start]), slice(start, end)
