"""Interference of two trees, all node pairs of a level at once: [GressZachmann2004], on CPU threads and on CUDA.

Tree (4.1)       Balanced and binary: the leaves are the triangles in an order that keeps neighbours together, level l
                 has n(l) = ceil(n(l + 1) / 2) nodes, the children of node i are 2i and 2i + 1. Of two trees the
                 shallower one gets further levels of a single node on top.
Traversal (4.2)  1. Start with all node pairs of the entry level.
                 2. Test their boxes (4.3). A pair that overlaps counts its pairs of children, up to four, else 0.
                 3. Expand (4.4): the sum of the counts is the number of node pairs of the next level, and entry k of
                    that list is found from prefix sums.
                 4. At the leaves, test triangles: a filter in doubles, then exact arithmetic for what it leaves open.
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
            - Half floats count to 2048, not to 4096: here are int32 and int64.
            - Trees are refitted from the current vertices (the paper's bodies are rigid), and one body may be tested
              with itself: only pairs i <= j are followed.
            - What section 8 leaves for the future: ``volume`` may be a k-DOP (bounds along diagonals are rounded
              outwards), and ``query_many`` runs many object pairs in one traversal, each with its own transforms.
Guarantee   exact and complete; the same bits for every device, volume, threshold, block size and thread count.
Cost        a few launches per level, however little there is to do on it: on a CPU ``BoxTree`` is several times faster.
Tried       On one core: descending the pyramid takes three times as long as the prefix sums; finding and testing a pair
            in two passes takes as long as in one; k-DOPs halve box and triangle tests and double the refit, which loses
            while bodies deform.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from impinge.backend.stages import Stages, start_stages
from impinge.checks import Bools, Floats, Stats, as_ids, as_transform
from impinge.detect.breadth_first.traversal import Forest, Traversal
from impinge.detect.breadth_first.trees import Cpu, Device, Tree, Trees, Volume
from impinge.detect.breadth_first.triangles import (
    Job,
    Placed,
    active_pairs,
    common_error_bound,
    joint_kinds,
    kinds,
    runs,
    self_kinds,
)
from impinge.detect.common.narrow_phase import Neighbours
from impinge.detect.common.pair_detector import PairDetector
from impinge.detect.common.pair_query import NO_KEYS, Keys, PairOptions, finish_pairs, moved, pack
from impinge.detect.common.results import Reason, TrianglePairs
from impinge.errors import OptionError
from impinge.exact.kinds import NONE
from impinge.mesh.body import SurfaceLike, as_surface
from impinge.mesh.tri_mesh import Snapshot, TriMesh

DeviceName: TypeAlias = Literal["cpu", "cuda"]

BLOCK_PAIRS = 1 << 20
"""Node pairs visited at a time."""
LESS = 0.25
"""Below this part of the entry threshold the next query starts a level higher (the paper says only "adjust")."""


class BreadthFirst(PairDetector):
    """All intersecting pairs of two bodies, or of one with itself, level by level."""

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
        _check_option("volume", volume, Volume)
        _check_block_pairs(block_pairs)
        if entry_threshold is not None and not 0.0 < entry_threshold <= 1.0:
            raise OptionError(
                f"entry_threshold is {entry_threshold!r}, expected a share above 0 and up to 1, "
                "or None to start at the roots"
            )
        self._device = _device(device)
        self.device: DeviceName = device
        self.volume: Volume = volume
        self.entry_threshold, self.block_pairs = entry_threshold, block_pairs
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
        """How many pairs ``query`` would find; no list of them is made (the paper's occlusion query)."""
        options = PairOptions(transform_a, transform_b, active_a, active_b, is_self=self.b is None)
        return sum(len(keys) for keys in self._hits(options, {}, start_stages()))

    def assert_valid(self) -> None:
        """Check the structure of both trees, fitted to the bodies as they are now."""
        for body in (self.a,) if self.b is None else (self.a, self.b):
            snapshot = body.snapshot()
            tree = _trees_of(body, self._device).tree(snapshot, snapshot.vertices, (snapshot.version, b""), self.volume)
            tree.assert_valid(self._device, snapshot.vertices, snapshot.elements, snapshot.live)

    def _hits(self, options: PairOptions, stats: Stats, stages: Stages) -> Iterator[Keys]:
        """Keys of the pairs that meet, block by block; fills ``stats`` and learns the next entry level at the end."""
        a = self._place(self.a, options.transform_a, options.active_a, "a")
        b = a if self.b is None else self._place(self.b, options.transform_b, options.active_b, "b")
        stages.done("refit")
        stats.update(triangle_tests=0, exact_tests=0)
        traversal = Traversal(
            self._device,
            Forest.of_one(a.tree),
            Forest.of_one(b.tree),
            is_self=self.b is None,
            block_pairs=self.block_pairs,
            stages=stages,
            is_cancelled=lambda: options.cancelled,
        )
        top, height = _top([(a, b)]), self._entry_height(a.tree, b.tree)
        bound = common_error_bound([(a, b)])
        for leaves in traversal.overlapping_leaves(height):
            pair_a, pair_b = active_pairs(a, b, leaves, is_self=self.b is None)
            if self.b is None:
                kind = self_kinds(self._device, a, pair_a, pair_b, self._skip_neighbours, bound, stats)
                pair_a, pair_b = np.minimum(pair_a, pair_b), np.maximum(pair_a, pair_b)
            else:
                kind = kinds(self._device, a.x, a.faces, b.x, b.faces, pair_a, pair_b, bound, stats)
            stages.done("triangles")
            hit = np.flatnonzero(kind != NONE)
            yield pack(pair_a[hit], pair_b[hit], kind[hit])
        stats.update(_level_stats(traversal, top), entry_level=top - height)
        if not options.cancelled:
            self._adapt(a.tree, b.tree, top - height, traversal.overlaps[height])

    def _place(self, body: TriMesh, transform: Any, active: Any, letter: str) -> Placed:
        """Snapshot of a body, and its tree fitted to the positions that ``transform`` gives, or to its own."""
        snapshot = body.snapshot()
        mask = None
        if active is not None:
            mask = np.zeros(len(snapshot.elements), dtype=np.bool_)
            mask[as_ids(active, name=f"active_{letter}", count=len(mask))] = True
        return _placed(self._device, body, snapshot, transform, self.volume, letter, mask)

    # entry level (5) ---------------------------------------------------------------------------------

    def _entry_height(self, a: Tree, b: Tree) -> int:
        """The height to start at: the remembered level, or the deepest above it whose node pairs fit into a block."""
        height = max(a.height, b.height)
        for _ in range(min(self._entry_level, height)):
            if _pair_count(a, b, height - 1) > self.block_pairs:
                break
            height -= 1
        return height

    def _adapt(self, a: Tree, b: Tree, level: int, overlaps: int) -> None:
        """Choose the level that the next query starts at, from the share of node pairs that overlapped this time."""
        top = max(a.height, b.height)
        possible = _pair_count(a, b, top - level)
        if self.b is None:
            possible = (possible + int(a.level[top - level, 1])) // 2  # pairs s <= t
        if self.entry_threshold is None or not possible:
            return
        if overlaps > self.entry_threshold * possible:
            level = min(level + 1, top)
        elif overlaps < LESS * self.entry_threshold * possible:
            level = max(level - 1, 0)
        self._entry_level = level


def query_many(
    pairs: Sequence[tuple[Any, Any, Any, Any]],
    *,
    device: DeviceName = "cpu",
    block_pairs: int = BLOCK_PAIRS,
) -> list[TrianglePairs]:
    """All intersecting pairs of many object pairs (a, b, transform_a, transform_b) in one traversal (8).

    A body may occur in any number of them, each time with a transform of its own (4x4 or None); its tree is refitted
    once for each different transform. The answers are those of one query after the other; ``stats`` and ``elapsed_ms``
    of each are those of all together, but for ``hits``.
    """
    began = perf_counter()
    _check_block_pairs(block_pairs)
    where = _device(device)
    if not pairs:
        return []
    bodies = [(as_surface(a, name="a"), as_surface(b, name="b")) for a, b, *_ in pairs]
    stages = start_stages()
    jobs = _place_all(where, bodies, pairs)
    stages.done("refit")
    stats: Stats = {"triangle_tests": 0, "exact_tests": 0, "entry_level": 0}
    found: list[list[Keys]] = [[np.zeros(0, dtype=np.uint64)] for _ in jobs]
    traversal = Traversal(
        where, *_forests(where, jobs), block_pairs=block_pairs, stages=stages, is_cancelled=lambda: False
    )
    for q, keys in _joint_hits(where, jobs, traversal, stats, stages):
        found[q].append(keys)
    stats.update(_level_stats(traversal, _top(jobs)), **stages.times())
    return [
        finish_pairs(
            np.concatenate(keys),
            PairOptions(),
            method=BreadthFirst.name,
            stats={**stats, "hits": sum(map(len, keys))},
            reason=None,
            bodies=pair,
            began=began,
        )
        for keys, pair in zip(found, bodies)
    ]


def _joint_hits(
    device: Device, jobs: list[Job], traversal: Traversal, stats: Stats, stages: Stages
) -> Iterator[tuple[int, Keys]]:
    """Job and keys of the pairs that meet; rows of a block are sorted by job."""
    bound = common_error_bound(jobs)
    for leaves in traversal.overlapping_leaves(_top(jobs)):
        job = leaves[:, 0]
        pair_a, pair_b = np.zeros((2, len(job)), dtype=np.int32)
        for q, rows in runs(job):
            pair_a[rows] = jobs[q][0].tree.order[leaves[rows, 1]]
            pair_b[rows] = jobs[q][1].tree.order[leaves[rows, 2]]
        kind = joint_kinds(device, jobs, job, pair_a, pair_b, bound, stats)
        stages.done("triangles")
        hit = np.flatnonzero(kind != NONE)
        keys = pack(pair_a[hit], pair_b[hit], kind[hit])
        for q, rows in runs(job[hit]):
            yield q, keys[rows]


# Checks ----------------------------------------------------------------------------------------------------


def _check_option(name: str, value: object, allowed: Any) -> None:
    if value not in get_args(allowed):
        raise OptionError(f"{name} is {value!r}, expected one of {', '.join(map(repr, get_args(allowed)))}")


def _check_block_pairs(count: object) -> None:
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise OptionError(f"block_pairs is {count!r}, expected a whole number from 1")


def _device(name: DeviceName) -> Device:
    _check_option("device", name, DeviceName)
    if name == "cpu":
        return Cpu()
    from impinge.detect.breadth_first.cuda import Cuda

    return Cuda()


# Trees of bodies -------------------------------------------------------------------------------------------


def _trees_of(body: TriMesh, device: Device) -> Trees:
    return body.structure(f"breadth_first on {device.name}", lambda _: Trees(device))


def _placed(
    device: Device,
    body: TriMesh,
    snapshot: Snapshot,
    matrix: Floats | None,
    volume: Volume,
    letter: str,
    active: Bools | None,
) -> Placed:
    """A body in the state of ``snapshot``, moved by ``matrix``, with its tree."""
    x, token = snapshot.vertices, (snapshot.version, b"")
    if matrix is not None:
        x, token = moved(matrix, x, f"transform_{letter}"), (snapshot.version, matrix.tobytes())
    return Placed(x, snapshot.elements, _trees_of(body, device).tree(snapshot, x, token, volume), active)


def _place_all(
    device: Device, bodies: list[tuple[TriMesh, TriMesh]], pairs: Sequence[tuple[Any, Any, Any, Any]]
) -> list[Job]:
    """Place all bodies, from one snapshot of each, once for each of its transforms."""
    snapshots = {id(body): body.snapshot() for pair in bodies for body in pair}
    known: dict[tuple[int, bytes], Placed] = {}

    def place(body: TriMesh, transform: Any, letter: str) -> Placed:
        matrix = as_transform(transform, f"transform_{letter}")
        key = (id(body), b"" if matrix is None else matrix.tobytes())
        if key not in known:
            known[key] = _placed(device, body, snapshots[id(body)], matrix, "aabb", letter, None)
        return known[key]

    return [(place(a, move_a, "a"), place(b, move_b, "b")) for (a, b), (_, _, move_a, move_b) in zip(bodies, pairs)]


def _forests(device: Device, jobs: list[Job]) -> tuple[Forest, Forest]:
    """The trees of all jobs, each once, in one array; the levels of each job say where in it its trees are."""
    trees = {id(placed.tree): placed.tree for job in jobs for placed in job}
    sizes = [len(tree.box) for tree in trees.values()]
    first_row = dict(zip(trees, np.cumsum([0, *sizes[:-1]]).tolist()))
    box = device.concatenate([tree.box for tree in trees.values()])
    level = {key: tree.level + np.array([first_row[key], 0]) for key, tree in trees.items()}
    level_a, level_b = (np.stack([level[id(placed.tree)] for placed in side]) for side in zip(*jobs))
    return Forest(level_a, box), Forest(level_b, box)


def _top(jobs: Sequence[Job]) -> int:
    """Height of the highest root."""
    return max(placed.tree.height for job in jobs for placed in job)


def _pair_count(a: Tree, b: Tree, height: int) -> int:
    return int(a.level[height, 1] * b.level[height, 1])


def _level_stats(traversal: Traversal, top: int) -> Stats:
    """Counts of the work on each level, from the root down."""
    return {
        "box_tests": sum(traversal.tests),
        "tests_per_level": traversal.tests[top::-1],
        "overlaps_per_level": traversal.overlaps[top::-1],
    }
