"""Every intersecting triangle pair of deforming meshes: balanced trees of boxes, eight wide, refitted where needed.

Tree.   Triangles are ordered so that every aligned run of 2^h of them is compact [GressZachmann2004, 4.1: level counts
        n(l) = ceil(n(l + 1) / 2)]. The tree is that order: eight triangles are a group, eight groups a block, eight
        blocks a node of the next level, and so on; no pointers. A node holds the boxes of its eight children
        side by side, so that one box is compared with all eight in a few instructions. All trees have equally
        many levels; the topmost of a small one hold a single child.
Query.  1. Fit the boxes of all blocks from their distinct vertices, then the few levels above, bottom-up.
        2. Front: descend both trees together to the pairs of blocks whose boxes overlap.
        3. Fit the insides (groups, triangles) of those blocks only; the rest of the mesh is not looked at
           [LarssonAkenineMoller2001: lower levels when they are reached].
        4. Join each pair of blocks down to pairs of triangles whose boxes overlap, and filter these in doubles.
        5. Decide uncertain pairs exactly; sort.
        Steps 1, 3 and 4 run on threads. A task owns its output, tasks are cut by the front and not by the
        threads, and the keys are sorted: the same bits for any number of threads.
Edits.  A removed triangle leaves an empty slot. Added triangles fill new blocks at the end of the order. When a quarter
        of the slots is empty or late, the tree is built anew; so too when the blocks have grown to twice the area,
        measured against the whole body, that they had when it was built.

Guarantee   exact, complete, no cap: buffers that turn out too small are enlarged and the step is run again.
Boxes       are doubles: float32 rounded outwards would be faster to compare, but a body 1e6 away from the origin would
            lose its culling, and doubles need no rounding at all.
Tried       comparing the triangles of a group with the other group as a whole before comparing them one by one: joins
            take a fifth less. One serial call instead of four launches: two boxes of 12 triangles 92 to 29 us.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from impinge.arrays import Bools, Floats, Ints, as_ids, as_transform
from impinge.backend.simd import WIDTH
from impinge.backend.stages import Stages, start_stages
from impinge.detect import box_tree_kernels as kernels
from impinge.detect.box_tree_kernels import BLOCK, BLOCKS
from impinge.detect.narrow_phase import Neighbours, check_neighbours, settle, settle_self
from impinge.detect.pair_query import Keys, PairOptions, finish_pairs, moved, pair_options, unpack, without_ignored
from impinge.detect.rank_split_kernels import split_by_rank
from impinge.detect.results import TrianglePairs
from impinge.mesh.body import as_surface
from impinge.mesh.tri_mesh import Frame, TriMesh

NO_KEYS: Keys = np.zeros(0, dtype=np.uint64)
LEVELS = 10
"""Levels of every tree: eight to this power is half of all the triangles that a body can have."""
TASKS = 16
"""Cuts of the front; more than any thread count that pays at a millisecond."""
SMALL_BLOCKS = 48
"""Blocks of both trees up to which one serial call is faster than four launches."""
FIRST_LOOK = 16
"""Block pairs joined before ``any_pair`` looks whether one was found; doubled from look to look."""
REBUILD_GROWTH = 2.0
"""Blocks may grow to this times their relative area at build before the tree is built anew."""
REBUILD_SHARE = 0.25
"""Share of empty and late slots from which the tree is built anew."""


class TreeOfBoxes:
    """The tree of one body, shared by all detectors that use the body. Use it under its lock."""

    def __init__(self, body: TriMesh) -> None:
        self.lock = threading.RLock()
        self.builds = 0
        self._body = body
        self._build(body.frame())

    # structure: changes with edits -------------------------------------------------------------------

    def _build(self, frame: Frame) -> None:
        """Order the live triangles and cut the order into blocks."""
        order = np.flatnonzero(frame.alive[: frame.mark.added]).astype(np.int32)
        corners = frame.vertices[frame.faces[order]]
        centre = np.zeros((3, len(frame.faces)))
        with np.errstate(over="ignore"):
            centre[:, order] = (0.25 * corners).sum(axis=1).T  # a quarter of each: sums of huge corners stay finite
        split_by_rank(centre, order, WIDTH)
        self.slot_tri: Ints = np.zeros(0, dtype=np.int32)
        self.slot_face: Ints = np.zeros((0, 3), dtype=np.int32)
        self.vertex_start: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        self.vertex: Ints = np.zeros(0, dtype=np.int32)
        self.tri_slot: NDArray[np.int64] = np.full(len(frame.faces), -1, dtype=np.int64)
        self.misplaced = 0
        self.builds += 1
        self._append(order, frame)
        self._mark = frame.mark
        self._growth_base: float | None = None
        self.growth = 1.0

    def _append(self, order: Ints, frame: Frame) -> None:
        """Put triangles into new blocks behind the last one, in the given order."""
        block_count = -(-len(order) // BLOCK) if len(order) or len(self.slot_tri) else 1
        slot_tri = np.full(block_count * BLOCK, -1, dtype=np.int32)
        slot_tri[: len(order)] = order
        slot_face = np.zeros((len(slot_tri), 3), dtype=np.int32)
        slot_face[: len(order)] = frame.faces[order]
        start = np.zeros(block_count + 1, dtype=np.int64)
        vertex = np.zeros(3 * len(order), dtype=np.int32)
        count = kernels.list_block_vertices(slot_face, slot_tri, len(frame.vertices), start, vertex)
        self.tri_slot = np.concatenate([self.tri_slot, np.full(len(frame.faces) - len(self.tri_slot), -1, np.int64)])
        self.tri_slot[order] = len(self.slot_tri) + np.arange(len(order))
        self.vertex_start = np.concatenate([self.vertex_start[:-1], len(self.vertex) + start])
        self.vertex = np.concatenate([self.vertex, vertex[:count]])
        self.slot_tri = np.concatenate([self.slot_tri, slot_tri])
        self.slot_face = np.concatenate([self.slot_face, slot_face])
        self._lay_out_levels()

    def _lay_out_levels(self) -> None:
        counts = [len(self.slot_tri) // WIDTH, len(self.slot_tri) // BLOCK]
        while len(counts) < LEVELS:
            counts.append(-(-counts[-1] // WIDTH))
        self.level_start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.box = np.zeros((self.level_start[-1], 6, WIDTH))
        self.box[:, :3], self.box[:, 3:] = np.inf, -np.inf
        self.block_count = counts[BLOCKS]
        self.fitted = np.zeros(self.block_count, dtype=np.int64)
        self._stamp = 0
        self._token: object = None

    def follow_edits(self, frame: Frame) -> None:
        """Take over what was added and removed since the last query, at a cost that follows the edit."""
        old, new = self._mark, frame.mark
        if old == new:
            return
        if old.epoch != new.epoch:
            self._build(frame)
            return
        removed = self._body.removed_between(old, new)
        added: Ints = np.arange(old.added, new.added, dtype=np.int32)
        added = added[~np.isin(added, removed)]
        slots = self.tri_slot[removed[removed < old.added]]
        slots = slots[slots >= 0]  # a build may have seen a removal that came after its mark
        self.misplaced += len(slots) + len(added)
        if self.misplaced > REBUILD_SHARE * max(len(self.slot_tri), BLOCK):
            self._build(frame)
            return
        self.slot_tri[slots] = -1
        self.fitted[slots // BLOCK] = -1
        if len(added):
            self._append(added, frame)
        self._mark = new

    # boxes: change with every frame ------------------------------------------------------------------

    def needs_fit(self, token: object) -> int:
        """How many blocks have to be fitted for the positions that ``token`` stands for."""
        return 0 if token == self._token else self.block_count

    def close(self, token: object, frame: Frame) -> bool:
        """Close the upper levels over fitted blocks; False if the tree was built anew and has to be fitted again."""
        if token == self._token:
            return True
        self._stamp += 1
        return self.closed(token, frame, kernels.fit_upper_levels(self.box, self.level_start))

    def closed(self, token: object, frame: Frame, area: float) -> bool:
        """Note that all boxes are fitted, with this relative area of the blocks; False if that called for a rebuild."""
        self._token = token
        if self._growth_base is None:
            self._growth_base = area
        self.growth = area / self._growth_base if self._growth_base > 0.0 else 1.0
        if self.growth > REBUILD_GROWTH:
            self._build(frame)
            return False
        return True

    def next_stamp(self, token: object) -> tuple[int, bool]:
        """The stamp of insides fitted for these positions, and whether the blocks have to be fitted for them first."""
        if token == self._token:
            return self._stamp, False
        self._stamp += 1
        return self._stamp, True

    def stale_blocks(self, front: NDArray[np.int64], side: int) -> NDArray[np.int64]:
        """Blocks of the front whose insides are not fitted yet; the caller fits them."""
        blocks = np.zeros(min(len(front), self.block_count), dtype=np.int64)
        return blocks[: kernels.list_stale_blocks(front, side, self.fitted, self._stamp, blocks)]

    def assert_valid(self) -> None:
        """Check the structure: every live triangle in one slot, level counts, boxes that contain what is below."""
        frame = self._body.frame()
        live = np.flatnonzero(frame.alive[: frame.mark.added])
        filled = np.flatnonzero(self.slot_tri >= 0)
        assert self._mark == frame.mark
        assert np.array_equal(np.sort(self.slot_tri[filled]), live)
        assert np.array_equal(self.tri_slot[self.slot_tri[filled]], filled)
        assert np.array_equal(self.slot_face[filled], frame.faces[self.slot_tri[filled]])
        counts = np.diff(self.level_start)
        assert counts[-1] == 1
        assert np.array_equal(counts[2:], -(-counts[1:-1] // WIDTH))
        for b in range(self.block_count):
            of_slots = self.slot_face[b * BLOCK : (b + 1) * BLOCK][self.slot_tri[b * BLOCK : (b + 1) * BLOCK] >= 0]
            assert np.isin(of_slots, self.vertex[self.vertex_start[b] : self.vertex_start[b + 1]]).all()
        lo, hi = (self.box[:, side].transpose(0, 2, 1) for side in (slice(0, 3), slice(3, 6)))  # (node, lane, axis)
        first_fitted = BLOCKS + 1 if self._token is not None else LEVELS
        for level in range(first_fitted, LEVELS - 1):
            node = np.arange(self.level_start[level], self.level_start[level + 1])
            above, lane = np.divmod(np.arange(len(node)), WIDTH)
            above += self.level_start[level + 1]
            assert np.array_equal(lo[node].min(axis=1), lo[above, lane])
            assert np.array_equal(hi[node].max(axis=1), hi[above, lane])


@dataclass(frozen=True)
class _Placed:
    """A tree and the positions that a query sees it in."""

    tree: TreeOfBoxes
    frame: Frame
    x: Floats
    token: object
    """Stands for the positions: the body's version and the transform."""
    active: Bools | None

    @property
    def vertex_arrays(self) -> tuple[Any, ...]:
        """What fitting blocks needs; read anew after a rebuild."""
        return self.x, self.tree.vertex_start, self.tree.vertex, self.tree.box, self.tree.level_start

    @property
    def slot_arrays(self) -> tuple[Any, ...]:
        """What fitting insides and joining need."""
        return self.x, self.tree.slot_face, self.tree.slot_tri, self.tree.box, self.tree.level_start


class BoxTree:
    """All intersecting pairs of two bodies, or of one with itself, kept between frames."""

    name = "box_tree"

    def __init__(self, a: Any, b: Any = None, *, neighbours: Neighbours = "exact") -> None:
        self.a = as_surface(a, name="a")
        self.b = None if b is None else as_surface(b, name="b")
        self._skip_neighbours = check_neighbours(neighbours, is_self=b is None)
        self._tree_a = self.a.structure("boxes", TreeOfBoxes)
        # A body against itself, moved, needs two sets of boxes at once.
        twice = self.b is self.a
        self._tree_b = (
            self._tree_a if self.b is None else TreeOfBoxes(self.b) if twice else self.b.structure("boxes", TreeOfBoxes)
        )
        # Always in the same order, so that two queries never wait for each other.
        self._locks = [tree.lock for tree in sorted((self._tree_a, self._tree_b), key=id)]
        self._front = np.zeros((1024, 2), dtype=np.int64)
        self._keys = np.zeros((TASKS, 1024), dtype=np.uint64)
        self._counts = np.zeros((TASKS, 2), dtype=np.int64)

    def query(self, **options: Any) -> TrianglePairs:
        """Refit what moved, and find all pairs; options as in ``PairOptions``."""
        began = perf_counter()
        wanted = pair_options(options, is_self=self.b is None)
        stages = start_stages()
        with self._locks[0], self._locks[1]:
            a, b = self._place(wanted)
            cancelled = wanted.cancelled  # asked once: a result that was cut short must say so
            keys, stats = (NO_KEYS, {}) if cancelled else self._search(a, b, stages)
        keys = _only_active(keys, a.active, b.active)
        stats["hits"] = len(keys)
        stats.update(stages.times())
        return finish_pairs(
            keys,
            wanted,
            is_self=self.b is None,
            method=self.name,
            stats=stats,
            reason="cancelled" if cancelled else None,
            bodies=(self.a,) if self.b is None else (self.a, self.b),
            began=began,
        )

    def any_pair(self, **options: Any) -> bool:
        """Whether any pair meets; looks no further than the first that does."""
        wanted = pair_options(options, is_self=self.b is None)
        with self._locks[0], self._locks[1]:
            a, b = self._place(wanted)
            self._fit(a, b)
            front = self._find_front(a, b)
            first, size = 0, FIRST_LOOK
            while first < len(front):
                part = front[first : first + size]
                self._fit_insides(part, a, b)
                hits, uncertain = self._join(part, a, b)
                keys = np.concatenate([hits, self._settle(uncertain, a, b)]) if len(uncertain) else hits
                if len(without_ignored(_only_active(keys, a.active, b.active), wanted, is_self=self.b is None)):
                    return True
                first, size = first + size, 2 * size
        return False

    def _place(self, options: PairOptions) -> tuple[_Placed, _Placed]:
        a = _place(self.a, self._tree_a, options.transform_a, options.active_a, "a")
        return a, a if self.b is None else _place(self.b, self._tree_b, options.transform_b, options.active_b, "b")

    def _search(self, a: _Placed, b: _Placed, stages: Stages) -> tuple[Keys, dict[str, Any]]:
        if a.tree.block_count + b.tree.block_count <= SMALL_BLOCKS:
            found = self._search_serially(a, b)
            if found is not None:
                stages.done("search")
                return found
        self._fit(a, b)
        stages.done("refit")
        front = self._find_front(a, b)
        stages.done("front")
        self._fit_insides(front, a, b)
        stages.done("insides")
        stats = {"block_pairs": len(front), "growth": max(a.tree.growth, b.tree.growth), "builds": a.tree.builds}
        hits, uncertain = self._join(front, a, b)
        stages.done("join")
        stats["triangle_tests"] = int(self._counts[:, 1].sum())
        stats["exact_tests"] = len(uncertain)
        if len(uncertain):
            hits = np.concatenate([hits, self._settle(uncertain, a, b)])
            stages.done("exact")
        return hits, stats

    def _search_serially(self, a: _Placed, b: _Placed) -> tuple[Keys, dict[str, Any]] | None:
        """The whole search in one call; None if the buffers are too small or a tree has to be built anew."""
        stamp_a, fit_a = a.tree.next_stamp(a.token)
        stamp_b, fit_b = (stamp_a, False) if b is a else b.tree.next_stamp(b.token)
        keys = self._keys.reshape(-1)
        pair_count, count, tests, area_a, area_b = kernels.search_serially(
            fit_a, a.vertex_arrays, a.slot_arrays, a.tree.fitted, stamp_a,
            fit_b, b.vertex_arrays, b.slot_arrays, b.tree.fitted, stamp_b,
            self.b is None, self._skip_neighbours, self._front, keys,
        )  # fmt: skip
        if fit_a and not a.tree.closed(a.token, a.frame, area_a):
            return None
        if fit_b and not b.tree.closed(b.token, b.frame, area_b):
            return None
        if pair_count > len(self._front) or count > len(keys):
            return None
        hits, uncertain = kernels.part_keys(keys, count)
        if len(uncertain):
            hits = np.concatenate([hits, self._settle(uncertain, a, b)])
        growth = max(a.tree.growth, b.tree.growth)
        stats = {"block_pairs": pair_count, "growth": growth, "builds": a.tree.builds}
        return hits, {**stats, "triangle_tests": tests, "exact_tests": len(uncertain)}

    def _settle(self, uncertain: Keys, a: _Placed, b: _Placed) -> Keys:
        """The exact test for pairs that doubles cannot decide."""
        if self.b is None:
            return settle_self(uncertain, a.x, a.frame.faces)
        return settle(uncertain, a.x, a.frame.faces, b.x, b.frame.faces)

    def _fit(self, a: _Placed, b: _Placed) -> None:
        """Fit the boxes of all blocks that moved, and close the levels above; again where that rebuilt a tree."""
        fitted = False
        while not fitted:
            count_a = a.tree.needs_fit(a.token)
            count_b = 0 if b is a else b.tree.needs_fit(b.token)
            if count_a + count_b:
                kernels.fit_blocks.over(count_a + count_b)(count_a, a.vertex_arrays, count_b, b.vertex_arrays)
            fitted = a.tree.close(a.token, a.frame) and (b is a or b.tree.close(b.token, b.frame))

    def _find_front(self, a: _Placed, b: _Placed) -> NDArray[np.int64]:
        """Pairs of blocks whose boxes overlap."""
        boxes = (a.tree.box, a.tree.level_start, b.tree.box, b.tree.level_start, self.b is None)
        count = kernels.find_front(*boxes, self._front)
        if count > len(self._front):
            self._front = np.zeros((2 * count, 2), dtype=np.int64)
            kernels.find_front(*boxes, self._front)
        return self._front[:count]

    def _fit_insides(self, front: NDArray[np.int64], a: _Placed, b: _Placed) -> None:
        """Fit groups and triangles of the blocks that the front touches, unless an earlier query did."""
        stale_a = a.tree.stale_blocks(front, 0)
        stale_b = b.tree.stale_blocks(front, 1)
        count = len(stale_a) + len(stale_b)
        if count:
            kernels.fit_blocks_inside.over(count)(stale_a, a.slot_arrays, stale_b, b.slot_arrays)

    def _join(self, front: NDArray[np.int64], a: _Placed, b: _Placed) -> tuple[Keys, Keys]:
        """Keys of pairs that cross, and of pairs that doubles cannot decide."""
        while True:
            out = (self._keys, self._counts)
            if self.b is None:
                kernels.join_front_of_one.over(len(front))(front, a.slot_arrays, self._skip_neighbours, *out)
            else:
                kernels.join_front.over(len(front))(front, a.slot_arrays, b.slot_arrays, *out)
            most = int(self._counts[:, 0].max())
            if most <= self._keys.shape[1]:
                break
            self._keys = np.zeros((TASKS, 2 * most), dtype=np.uint64)
        hits, uncertain = kernels.gather_keys(*out)
        return hits, uncertain


def _place(body: TriMesh, tree: TreeOfBoxes, transform: Any, active: Any, letter: str) -> _Placed:
    """Bring a tree up to date with its body's edits, and the positions to where the transform puts them."""
    frame = body.frame()
    tree.follow_edits(frame)
    matrix = as_transform(transform, f"transform_{letter}")
    mask = None
    if active is not None:
        mask = np.zeros(len(frame.faces), dtype=np.bool_)
        mask[as_ids(active, name=f"active_{letter}", count=len(frame.faces))] = True
    if matrix is None:
        return _Placed(tree, frame, frame.vertices, (frame.version, b""), mask)
    x = moved(matrix, frame.vertices, f"transform_{letter}")
    return _Placed(tree, frame, x, (frame.version, matrix.tobytes()), mask)


def _only_active(keys: Keys, active_a: Bools | None, active_b: Bools | None) -> Keys:
    """Leave out pairs with a triangle that is not active."""
    if active_a is None and active_b is None:
        return keys
    pairs, _ = unpack(keys)
    keep = np.ones(len(keys), dtype=np.bool_)
    if active_a is not None:
        keep &= active_a[pairs[:, 0]]
    if active_b is not None:
        keep &= active_b[pairs[:, 1]]
    return keys[keep]
