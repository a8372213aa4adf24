"""Every intersecting triangle pair of deforming meshes: two AABB trees, joined where they overlap.

1. Fit          the boxes of all blocks that moved, then the few levels above (``boxes.tree``).
2. Block pairs  Descend both trees together to the pairs of blocks whose boxes overlap.
3. Join         each block pair down to pairs of triangles whose boxes overlap, and filter these in doubles. The thread
                that reaches a block fits its interior and keeps it for the next pairs; the rest of the mesh is not
                read.
4. Resolve      uncertain pairs exactly; sort.

Steps 1 and 3 run on threads, which claim ranges of block pairs one by one. A range owns its output, ranges do not
depend on the threads, and the keys are sorted: the same bits for any number of threads.

Self-     collision leaves pairs that share a vertex to the vertex fans (``boxes.vertex_fans``); of the overlapping
          pairs of boxes of a smooth mesh, only 0.5 % are of another kind.
Moved     bodies (``transform_a=``) keep their boxes. A box of one body is rotated into the axes of the other and vice
          versa: SAT lite [GressZachmann2004, Appendix A], six axes of fifteen, for any affine transform. Let N be the
          inverse of b's matrix B as computed, A the other matrix, r the largest coordinates of each body and s its
          size. A point that both moved bodies share is, after N, at most
              2^-48 |N| (|A| r_a + |t_a| + |B| r_b + |t_b|) + |N B - 1| r_b + 2^-20 (|N A| s_a + s_b)
          away from its place in the rotated boxes: the rounding of moved vertices and of rotated boxes, the error of
          the inverse, and float32 inside of blocks. Rotated boxes are padded by that. Where the pad is not small
          against the bodies (nearly singular matrices), the vertices are moved and the tree is fitted to them instead.
Guarantee exact, complete, no cap: buffers that turn out too small are enlarged and the step is repeated.
Tried     (20k triangles each, two cores) Block interiors kept with the tree and fitted in a launch of their own: joins
          190 instead of 150 us, since every box then travels between the caches of two cores. Block interiors as
          doubles: grids of 8 x 8 take twice as long. Planes of many candidates in one vector loop before the test
          proper: gathering the corners costs what it saves. Round-robin ranges instead of contiguous ones: slower,
          since neighbouring ranges share blocks. One serial call instead of launches: two boxes of 12 triangles 92 to
          29 us. Not tried: starting from the block pairs of the previous frame; finding them takes 12 of 350 us.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from impinge.backend.jit import thread_count
from impinge.backend.simd.boxes import WIDTH
from impinge.backend.stages import Stages
from impinge.checks import Bools, Cancel, Floats, Ints, Stats, sorted_unique
from impinge.detect.box_tree import kernels
from impinge.detect.box_tree.kernels import ENTRIES, ROOM
from impinge.detect.boxes import vertex_fans_kernels as fan_kernels
from impinge.detect.boxes.tree import NO_ORIGIN, PosedTree, TreeOfBoxes, fit_trees, pose_tree, with_moved_vertices
from impinge.detect.boxes.tree_kernels import INTERIOR
from impinge.detect.boxes.vertex_fans import fans_of
from impinge.detect.common.narrow_phase import Neighbours, resolve, resolve_self
from impinge.detect.common.pair_detector import PairDetector
from impinge.detect.common.pair_query import NO_KEYS, Keys, PairOptions, unpack, without_ignored
from impinge.detect.common.results import Reason
from impinge.mesh.body import SurfaceLike
from impinge.mesh.transform import transform_points

TASKS = 16
"""Ranges of block pairs; more than any thread count that pays at a millisecond."""
SMALL_BLOCKS = 48
"""Blocks of both trees up to which one serial call is faster than launches."""
FIRST_RANGE = 16
"""Block pairs joined before ``any_pair`` checks for a hit; doubled each time."""
LARGEST_PAD = 1e-4
"""Pad of a rotated box, relative to the body's size, up to which boxes are rotated instead of vertices moved."""
LEAST_SIZE, LARGEST_SIZE = 1e-30, 1e30
"""Sizes of bodies whose boxes are rotated: float32 has room for them."""
ROUNDING = 2.0**-48
"""Generous for a handful of roundings of 2^-53 each."""
ROUNDING_INTERIOR = 2.0**-20
"""The same for float32, whose roundings are 2^-24."""

Moves = tuple[Any, ...]
"""Origins of block interiors, how boxes rotate a to b and b to a, and the matrices of both bodies."""


class BoxTree(PairDetector):
    """All intersecting triangle pairs of two bodies, or of one with itself; the fastest exact method on a CPU.

    The AABB tree of a body is kept with the body and refitted when the body moved.

    Parameters
    ----------
    a, b : TriMesh, TetMesh, tuple (vertices, elements), mesh of trimesh, pyvista or meshio, or path
        The bodies; without ``b``, self-collision of ``a``.
    neighbours : {"exact", "skip"}
        Self-collision only: test triangles that share a vertex beyond what they share, or skip such pairs.

    Examples
    --------
    >>> from impinge import BoxTree, shapes
    >>> detector = BoxTree(shapes.box(1.0), shapes.box(1.0, center=(0.5, 0.5, 0.5)))
    >>> len(detector.query()) > 0
    True
    """

    name = "box_tree"

    def __init__(self, a: SurfaceLike, b: SurfaceLike | None = None, *, neighbours: Neighbours = "exact") -> None:
        super().__init__(a, b, neighbours=neighbours)
        self._needs_fans = self.b is None and not self._skip_neighbours
        self._tree_a = self.a.structure("boxes", TreeOfBoxes)
        if self.b is None:
            self._tree_b = self._tree_a
        elif self.b is self.a:  # a body against itself, moved, needs two sets of boxes at once
            self._tree_b = TreeOfBoxes(self.b)
        else:
            self._tree_b = self.b.structure("boxes", TreeOfBoxes)
        # Every query takes the locks of two trees in one fixed order: no deadlock.
        self._locks = sorted((self._tree_a.lock, self._tree_b.lock), key=id)
        self._block_pairs = np.zeros((1024, 2), dtype=np.int64)
        self._keys = np.zeros((TASKS, 1024), dtype=np.uint64)
        self._counts = np.zeros((TASKS, 2), dtype=np.int64)
        self._stamp = 0
        self._interior_key = np.zeros((0, 2), dtype=np.int64)

    def refit(self) -> None:
        """Fit the boxes of what moved, as ``query`` does first; for timing."""
        with self._locks[0], self._locks[1]:
            fit_trees(*self._pose(PairOptions())[:2])

    def any_pair(
        self,
        *,
        transform_a: ArrayLike | None = None,
        transform_b: ArrayLike | None = None,
        active_a: ArrayLike | None = None,
        active_b: ArrayLike | None = None,
        ignore: ArrayLike | None = None,
        cancel: Cancel | None = None,
    ) -> bool:
        """Whether any pair meets; stops at the first that does. Options as in ``query``."""
        return self.any_found(
            PairOptions(transform_a, transform_b, active_a, active_b, ignore, None, cancel, self.b is None)
        )

    def any_found(self, options: PairOptions) -> bool:
        """As ``any_pair``, with options that are checked already."""
        with self._locks[0], self._locks[1]:
            a, b, moves = self._pose(options)
            fit_trees(a, b)
            block_pairs = self._find_block_pairs(a, b, moves)
            first, size = 0, FIRST_RANGE
            while first < len(block_pairs) or (first == len(block_pairs) and self._needs_fans):
                if first < len(block_pairs):
                    hits, uncertain, _ = self._join(block_pairs[first : first + size], a, b, moves)
                    first, size = min(first + size, len(block_pairs)), 2 * size
                else:
                    hits, (uncertain, _) = NO_KEYS, self._test_fans(a)
                    first += 1
                keys = np.concatenate([hits, self._resolve(uncertain, a, b)]) if len(uncertain) else hits
                if len(without_ignored(_only_active(keys, a.active, b.active), options)):
                    return True
        return False

    def _find(self, options: PairOptions, stats: Stats, stages: Stages) -> tuple[Keys, Reason | None]:
        with self._locks[0], self._locks[1]:
            a, b, moves = self._pose(options)
            if options.cancel is not None and options.cancelled:
                return NO_KEYS, "cancelled"
            found = None
            if a.tree.block_count + b.tree.block_count <= SMALL_BLOCKS:
                found = self._search_serially(a, b, moves)
            if found is None:
                fit_trees(a, b)
                stages.done("refit")
                block_pairs = self._find_block_pairs(a, b, moves)
                stages.done("block_pairs")
                hits, uncertain, tests = self._join(block_pairs, a, b, moves)
                found = len(block_pairs), hits, uncertain, tests
            block_pair_count, hits, uncertain, tests = found
            stages.done("join")
            if self._needs_fans:
                around, more = self._test_fans(a)
                uncertain, tests = np.concatenate([uncertain, around]), tests + more
                stages.done("vertex_fans")
            if len(uncertain):
                hits = np.concatenate([hits, self._resolve(uncertain, a, b)])
                stages.done("exact")
            stats["block_pairs"] = block_pair_count
            stats["growth"] = max(a.tree.growth, b.tree.growth)
            stats["builds"] = a.tree.builds if b is a else a.tree.builds + b.tree.builds
            stats["triangle_tests"] = tests
            stats["exact_tests"] = len(uncertain)
            if a.active is not None or b.active is not None:
                hits = _only_active(hits, a.active, b.active)
        return hits, None

    def _pose(self, options: PairOptions) -> tuple[PosedTree, PosedTree, Moves]:
        """Both trees, up to date with edits, in the positions of the query; and how boxes move between them."""
        self._threads = thread_count()
        if len(self._interior_key) < 2 * self._threads * ENTRIES:  # block interiors of either body for each thread
            self._interior_key = np.zeros((2 * self._threads * ENTRIES, 2), dtype=np.int64)
            self._interior = np.zeros((2 * self._threads * ENTRIES * INTERIOR, 6, WIDTH), dtype=np.float32)
            self._candidate = np.zeros((self._threads * ROOM, 2), dtype=np.int64)
            self._bound = np.zeros(self._threads * ROOM)
        a = pose_tree(self.a, self._tree_a, options.transform_a, options.active_a, "a")
        if self.b is None:
            b = a = with_moved_vertices(a, "a")
        else:
            b = pose_tree(self.b, self._tree_b, options.transform_b, options.active_b, "b")
        if a.matrix is not None or b.matrix is not None:
            fit_trees(a, b)
            to_b, to_a = _box_rotation(a, b), _box_rotation(b, a)
            if to_b is not None and to_a is not None:
                return a, b, (a.origin(), b.origin(), to_b, to_a, _matrix(a)[:3], _matrix(b)[:3])
            a, b = with_moved_vertices(a, "a"), with_moved_vertices(b, "b")
        origin = a.x[a.tree.origin_vertex] if len(a.x) else NO_ORIGIN
        return a, b, (origin, origin, None, None, None, None)

    def _search_serially(self, a: PosedTree, b: PosedTree, moves: Moves) -> tuple[int, Keys, Keys, int] | None:
        """The whole search in one call; None if the buffers are too small or a tree has to be rebuilt."""
        keys = self._keys.reshape(-1)
        fit_a = 0 if a.token == a.tree.token else a.tree.block_count
        fit_b = 0 if b is a or b.token == b.tree.token else b.tree.block_count
        blocks_a, order_a, order_b = (a.x, *a.tree.blocks), (a.x, *a.tree.order), (b.x, *b.tree.order)
        self._stamp += 1  # outdates the interiors of earlier searches
        scratch = self._interior_key, self._interior, self._stamp, self._candidate, self._bound
        if self.b is None:
            pair_count, count, open_count, tests, area_a = kernels.search_one_serially(
                fit_a, blocks_a, order_a, moves[0], fans_of(a.tree, len(a.x)), self._skip_neighbours,
                scratch, self._block_pairs, keys,
            )  # fmt: skip
            area_b = 0.0
        else:
            pair_count, count, open_count, tests, area_a, area_b = kernels.search_serially(
                fit_a, blocks_a, order_a, fit_b, (b.x, *b.tree.blocks), order_b, moves, scratch, self._block_pairs, keys
            )
        for posed, fitted, area in ((a, fit_a, area_a), (b, fit_b, area_b)):
            if fitted and not posed.tree.note_fit(posed.token, posed.state, area):
                return None
        if pair_count > len(self._block_pairs) or count > len(keys):
            return None
        hits, uncertain = kernels.part_keys(keys, count) if open_count else (keys[:count].copy(), NO_KEYS)
        return pair_count, hits, uncertain, tests

    def _find_block_pairs(self, a: PosedTree, b: PosedTree, moves: Moves) -> NDArray[np.int64]:
        """Pairs of blocks whose boxes overlap."""
        trees = (a.tree.upper, b.tree.upper, *moves[2:4], self.b is None)
        count = kernels.find_block_pairs(*trees, self._block_pairs)
        if count > len(self._block_pairs):
            self._block_pairs = np.zeros((2 * count, 2), dtype=np.int64)
            kernels.find_block_pairs(*trees, self._block_pairs)
        return self._block_pairs[:count]

    def _join(self, block_pairs: NDArray[np.int64], a: PosedTree, b: PosedTree, moves: Moves) -> tuple[Keys, Keys, int]:
        """Keys of pairs that meet, keys of pairs that doubles cannot decide, and the number of triangle tests."""
        self._stamp += 1  # outdates the interiors of earlier searches
        scratch = self._interior_key, self._interior, self._stamp, self._candidate, self._bound
        while True:
            out = (scratch, self._threads, np.zeros(1, dtype=np.int64), self._keys, self._counts)
            if self.b is None:
                fans = fans_of(a.tree, len(a.x))
                kernels.join_block_pairs_of_one.over(len(block_pairs))(
                    block_pairs, (a.x, *a.tree.order), moves[0], fans, self._skip_neighbours, *out
                )
            else:
                kernels.join_block_pairs.over(len(block_pairs))(
                    block_pairs, (a.x, *a.tree.order), (b.x, *b.tree.order), moves, *out
                )
            most = int(self._counts[:, 0].max())
            if most <= self._keys.shape[1]:
                hits, uncertain = kernels.gather_keys(self._keys, self._counts)
                return hits, uncertain, int(self._counts[:, 1].sum())
            self._keys = np.zeros((TASKS, 2 * most), dtype=np.uint64)

    def _test_fans(self, a: PosedTree) -> tuple[Keys, int]:
        """Keys of pairs that share a vertex and may meet beyond it, and the number of pairs tested."""
        fans = fans_of(a.tree, len(a.x))
        while True:
            out = (self._threads, np.zeros(1, dtype=np.int64), self._keys, self._counts)
            fan_kernels.test_fans.over(len(a.x))((a.x, *a.tree.order), fans, *out)
            most = int(self._counts[:, 0].max())
            if most <= self._keys.shape[1]:
                _, uncertain = kernels.gather_keys(self._keys, self._counts)
                return uncertain, int(self._counts[:, 1].sum())
            self._keys = np.zeros((TASKS, 2 * most), dtype=np.uint64)

    def _resolve(self, uncertain: Keys, a: PosedTree, b: PosedTree) -> Keys:
        """The exact test for pairs that doubles cannot decide."""
        if self.b is None:
            return resolve_self(uncertain, a.x, a.state.faces)
        x = [a.x, b.x]
        if a.matrix is not None or b.matrix is not None:
            pairs, _ = unpack(uncertain)
            x = [_moved_corners(a, pairs[:, 0]), _moved_corners(b, pairs[:, 1])]
        return resolve(uncertain, x[0], a.state.faces, x[1], b.state.faces)


def _matrix(posed: PosedTree) -> Floats:
    return np.eye(4) if posed.matrix is None else posed.matrix


def _box_rotation(a: PosedTree, b: PosedTree) -> Floats | None:
    """Matrix, translation (above blocks, inside of them) and pad that rotate boxes of a into the axes of b, (3, 6).

    None if rounding makes it unreliable.
    """
    at_a, at_b = _matrix(a), _matrix(b)
    (lo_a, hi_a), (lo_b, hi_b) = a.tree.bounds, b.tree.bounds
    r_a, r_b = np.maximum(abs(lo_a), abs(hi_a)), np.maximum(abs(lo_b), abs(hi_b))
    with np.errstate(all="ignore"):
        try:
            inverse = np.linalg.inv(at_b[:3, :3])
        except np.linalg.LinAlgError:
            return None
        turn, shift = inverse @ at_a[:3, :3], inverse @ (at_a[:3, 3] - at_b[:3, 3])
        reach = abs(at_a[:3, :3]) @ r_a + abs(at_a[:3, 3]) + abs(at_b[:3, :3]) @ r_b + abs(at_b[:3, 3])
        pad = ROUNDING * (abs(inverse) @ reach) + abs(inverse @ at_b[:3, :3] - np.eye(3)) @ r_b
        pad += ROUNDING_INTERIOR * (abs(turn) @ (hi_a - lo_a) + (hi_b - lo_b))
        made = np.column_stack([turn, shift, turn @ a.origin() + shift - b.origin(), pad])
        size = np.linalg.norm(abs(turn) @ (hi_a - lo_a)) + np.linalg.norm(hi_b - lo_b)
        sizes = np.linalg.norm(hi_a - lo_a), np.linalg.norm(hi_b - lo_b), size
        in_range = all(LEAST_SIZE < number < LARGEST_SIZE for number in sizes)
        trusted = in_range and np.isfinite(reach).all() and np.isfinite(made).all()
        trusted = trusted and bool((pad <= LARGEST_PAD * size).all())
    return made if trusted else None


def _moved_corners(posed: PosedTree, triangles: Ints) -> Floats:
    """Positions for the exact test; of a moved body only the corners of ``triangles`` are moved."""
    if posed.matrix is None:
        return posed.x
    used = sorted_unique(posed.state.faces[triangles])
    x = np.zeros_like(posed.x)
    x[used] = transform_points(posed.matrix, posed.x[used])
    x.flags.writeable = False
    return x


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
