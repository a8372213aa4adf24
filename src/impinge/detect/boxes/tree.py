"""The balanced tree of boxes of one body: built once, refitted when the body moves, patched when it is edited.

Order.   Triangles are ordered such that every aligned run of 2^h of them is compact [GressZachmann2004, 4.1: level
         counts n(l) = ceil(n(l + 1) / 2)]. The tree is that order: eight triangles are a group, eight groups a block,
         eight blocks a node of the lowest level, eight of those a node of the next, and so on; no pointers.
Nodes.   A node holds the boxes of its eight children side by side, ``box[node, 6, 8]``: one box is compared with all
         eight in a few instructions. All trees have equally many levels; the topmost of a small one hold a single
         child.
Refit.   The boxes of blocks come from their distinct vertices, those above from below. Block interiors (groups,
         triangles) are not kept: the thread that reaches a block fits its interior [LarssonAkenineMoller2001: lower
         levels when they are reached], into nodes of its own (``fit_interior``), which stay in the cache of its core.
Edits.   A removed triangle leaves an empty place in the order. Added triangles, ordered in the same way among
         themselves, fill new blocks at the end of the order, each of them compact. The tree is rebuilt when a quarter
         of the places is empty or late, or when the blocks have grown to five times their area at build, relative to
         the whole body.

Boxes of blocks and above are doubles and need no rounding. Boxes of block interiors are float32, which compare twice as
fast, relative to a vertex of a body. Both bodies of a query have the same origin: subtraction and rounding preserve the
order of numbers and cannot lose an overlap, and a body 1e6 away from the world origin is culled as well as any.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from impinge.backend.simd.boxes import WIDTH
from impinge.checks import Bools, Floats, Ints, as_ids
from impinge.detect.boxes import tree_kernels as kernels
from impinge.detect.boxes.rank_split_kernels import split_by_rank
from impinge.detect.boxes.tree_kernels import BLOCK
from impinge.detect.common.pair_query import moved
from impinge.mesh.tri_mesh import BodyState, TriMesh

Lock = AbstractContextManager[bool]

LEVELS = 8
"""Levels of every tree: 64 · 8^8 triangles are half of the largest number that a body can have."""
NO_ORIGIN: Floats = np.zeros(3)
NO_ORIGIN.flags.writeable = False  # as vertices are: Numba specialises kernels on that
REBUILD_GROWTH = 5.0
"""Growth of the blocks' relative area since the last build that triggers a rebuild. A build costs as much as some sixty
frames; of 2, 3, 5 and never, 5 was best or near it for bodies that twist, explode and turn inside out."""
REBUILD_SHARE = 0.25
"""Empty and late places, as a share of the triangles at build, that trigger a rebuild."""


class TreeOfBoxes:
    """The tree of one body, shared by all detectors that use the body. Use it under its lock."""

    def __init__(self, body: TriMesh) -> None:
        self.lock = threading.RLock()
        self.builds = 0
        self._build(body.state())

    # structure: changes with edits -------------------------------------------------------------------

    def _build(self, state: BodyState) -> None:
        """Order the live triangles and cut the order into blocks, with room for later triangles."""
        order = np.flatnonzero(state.live()).astype(np.int32)
        _make_runs_compact(order, state)
        self._built = len(order)
        self.built_blocks = max(-(-len(order) // BLOCK), 1)
        late = 2 + int(min(REBUILD_SHARE, 1.0) * len(order)) // BLOCK
        self.order_tri: Ints = np.full((self.built_blocks + late) * BLOCK, -1, dtype=np.int32)
        self.order_face: Ints = np.zeros((len(self.order_tri), 3), dtype=np.int32)
        self.vertex_start: NDArray[np.int64] = np.zeros(self.built_blocks + late + 1, dtype=np.int64)
        self.vertex: Ints = np.zeros(3 * (len(order) + late * BLOCK), dtype=np.int32)
        self.tri_order: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._seen_in: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._put_count = 0
        self.misplaced = 0
        self.builds += 1
        self.derived: dict[str, Any] = {}  # what depends on the order of the triangles
        self.block_count = 0
        self.token: object = None
        self._put(order, state)
        self.block_count = self.built_blocks
        counts = [-(-len(self.order_tri) // BLOCK // WIDTH)]
        while len(counts) < LEVELS:
            counts.append(-(-counts[-1] // WIDTH))
        self.level_start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.box = np.zeros((self.level_start[-1], 6, WIDTH))
        self.box[:, :3], self.box[:, 3:] = np.inf, -np.inf
        self.blocks = self.vertex_start, self.vertex, self.box, self.level_start
        """What fitting blocks needs, beside positions."""
        self.upper = self.box, self.level_start
        """Boxes of blocks and above."""
        self.order = self.order_face, self.order_tri
        """What fitting block interiors and joining need, beside positions: the triangles in tree order."""
        self.origin_vertex = int(self.vertex[self.vertex_start[self.built_blocks // 2]])
        """The vertex that block interiors are relative to."""
        self.mark = state.mark
        self._growth_base: float | None = None
        self.growth = 1.0

    def _put(self, order: Ints, state: BodyState) -> None:
        """Put triangles into new blocks behind the last one, in the given order."""
        first, block_count = self.block_count * BLOCK, self.block_count - (-len(order) // BLOCK)
        self.order_tri[first : first + len(order)] = order
        self.order_face[first : first + len(order)] = state.faces[order]
        self.tri_order = _grown(self.tri_order, len(state.faces))
        self.tri_order[order] = first + np.arange(len(order))
        self._seen_in = _grown(self._seen_in, len(state.vertices))
        kernels.list_block_vertices(
            self.order_face, self.order_tri, self.block_count, block_count, self._seen_in, self._put_count,
            self.vertex_start, self.vertex,
        )  # fmt: skip
        self._put_count += block_count - self.block_count
        self.block_count = block_count

    def follow_edits(self, state: BodyState) -> None:
        """Apply additions and removals since the last query, at a cost proportional to the edit."""
        old, new = self.mark, state.mark
        if old.epoch != new.epoch:
            self._build(state)
            return
        removed = state.removed_since(old)
        added: Ints = np.arange(old.added, new.added, dtype=np.int32)
        added = added[~np.isin(added, removed)]
        emptied = self.tri_order[removed[removed < old.added]]
        self.misplaced += len(emptied) + len(added)
        room = len(self.order_tri) - (self.block_count + 1) * BLOCK  # one block may be taken back
        if self.misplaced > REBUILD_SHARE * max(self._built, BLOCK) or len(added) > room:
            self._build(state)
            return
        self.order_tri[emptied] = -1
        if len(added):
            if self.block_count > self.built_blocks:  # take back the last block of late triangles and fill it up
                self.block_count -= 1
                last = self.order_tri[self.block_count * BLOCK :][:BLOCK]
                added = np.concatenate([last[last >= 0], added])
                last[:] = -1
            _make_runs_compact(added, state)
            first = self.block_count
            self._put(added, state)
            if self.token == (state.motion, b""):  # the other blocks are fitted to these positions
                tree = state.vertices, *self.blocks
                for b in range(first, self.block_count):
                    kernels.fit_block(b, tree)
                kernels.fit_upper_levels(self.box, self.level_start)
            else:
                self.token = None
        self.mark = new

    # boxes: change with every state ------------------------------------------------------------------

    def note_fit(self, token: object, state: BodyState, area: float | None = None) -> bool:
        """Record that all blocks are fitted, and fit the levels above unless their relative ``area`` is given.

        False if the blocks have grown so much that the tree was rebuilt and has to be fitted again.
        """
        self.token = token
        if area is None:
            area = float(kernels.fit_upper_levels(self.box, self.level_start))
        if self._growth_base is None:
            self._growth_base = area
        self.growth = area / self._growth_base if self._growth_base > 0.0 else 1.0
        if self.growth > REBUILD_GROWTH:
            self._build(state)
            return False
        return True

    @property
    def bounds(self) -> Any:
        """Lowest and highest corner of the fitted boxes, shape (2, 3)."""
        top = self.box[-1]
        return np.stack([top[:3].min(axis=1), top[3:].max(axis=1)])


def _make_runs_compact(order: Ints, state: BodyState) -> None:
    """Order triangles such that every aligned run of 2^h of them is compact."""
    corners = state.vertices[state.faces[order]]
    centre = np.zeros((3, len(state.faces)))
    with np.errstate(over="ignore"):
        centre[:, order] = (0.25 * corners).sum(axis=1).T  # a quarter of each: sums of huge corners stay finite
    split_by_rank(centre, order, WIDTH)


def _grown(numbers: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The same with room for at least ``count`` numbers, new ones -1; doubled: small additions are cheap."""
    if count <= len(numbers):
        return numbers
    return np.concatenate([numbers, np.full(max(count, 2 * len(numbers)) - len(numbers), -1, dtype=np.int64)])


class PosedTree(NamedTuple):
    """A tree and the positions in which a query sees it."""

    tree: TreeOfBoxes
    state: BodyState
    x: Floats
    token: object
    """Identifies the positions that the tree has to be fitted to."""
    active: Bools | None
    matrix: Floats | None
    """The transform, if the query applies it; None if there is none, or if ``x`` is moved already."""

    def origin(self) -> Floats:
        """A vertex of the body: the origin of its block interiors."""
        return self.x[self.tree.origin_vertex] if len(self.x) else NO_ORIGIN


def lock_both(tree_a: TreeOfBoxes, tree_b: TreeOfBoxes) -> tuple[Lock, Lock]:
    """The locks of two trees in the one order in which every query takes them: no deadlock."""
    first, second = sorted((tree_a.lock, tree_b.lock), key=id)
    return first, second


def pose_tree(
    body: TriMesh, tree: TreeOfBoxes, transform: Floats | None, active: ArrayLike | None, letter: str = "a"
) -> PosedTree:
    """Bring a tree up to date with the edits of its body; ``transform`` is left to the query."""
    state = body.state()
    if tree.mark != state.mark:
        tree.follow_edits(state)
    mask = None
    if active is not None:
        mask = np.zeros(len(state.faces), dtype=np.bool_)
        mask[as_ids(active, name=f"active_{letter}", count=len(state.faces))] = True
    return PosedTree(tree, state, state.vertices, (state.motion, b""), mask, transform)


def with_moved_vertices(posed: PosedTree, letter: str) -> PosedTree:
    """The same with the vertices moved by the transform, if there is one; the tree has to be fitted to them."""
    if posed.matrix is None:
        return posed
    x = moved(posed.matrix, posed.state.vertices, f"transform_{letter}")
    return posed._replace(x=x, token=(posed.state.motion, posed.matrix.tobytes()), matrix=None)


def fit_trees(a: PosedTree, b: PosedTree | None = None) -> None:
    """Fit the boxes of all blocks that moved, and the levels above; again where that rebuilt a tree."""
    b = a if b is None else b
    fitted = False
    while not fitted:
        count_a = 0 if a.token == a.tree.token else a.tree.block_count
        count_b = 0 if b is a or b.token == b.tree.token else b.tree.block_count
        if count_a + count_b:
            blocks = (a.x, *a.tree.blocks), (b.x, *b.tree.blocks)
            kernels.fit_blocks.over(count_a + count_b)(count_a, blocks[0], count_b, blocks[1])
        fitted = all(
            not count or posed.tree.note_fit(posed.token, posed.state) for posed, count in ((a, count_a), (b, count_b))
        )
