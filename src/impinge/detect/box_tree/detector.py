"""Every intersecting triangle pair of deforming meshes: two trees of boxes, joined where they overlap.

1. Fit    the boxes of all blocks of what moved, then the few levels above (``tree_of_boxes``).
2. Front. Descend both trees together to the pairs of blocks whose boxes overlap.
3. Join   each pair of blocks down to pairs of triangles whose boxes overlap, and filter these in doubles. What is
          inside of a block is fitted by the thread that reaches it and kept there for the next pairs; the rest of the
          mesh is not looked at.
4. Decide uncertain pairs exactly; sort.

Steps 1 and 3 run on threads, which claim parts of the front one by one. A part owns its output, parts are cut by the
front and not by the threads, and the keys are sorted: the same bits for any number of threads.

Self-     collision leaves pairs that share a vertex to their stars (``stars``); of the overlapping pairs of boxes of a
          smooth mesh, only five in a thousand are of another kind.
Moved     bodies (``transform_a=``) keep their boxes. A box of one body is turned into the axes of the other, and the
          other's into its own: SAT lite [GressZachmann2004, Appendix A], six axes of fifteen, for any affine
          transform. Let N be the inverse of b's matrix B as computed, A the other matrix, r the largest coordinates of
          each body and s its size. A point that both moved bodies share is, after N, at most
              2^-48 |N| (|A| r_a + |t_a| + |B| r_b + |t_b|) + |N B - 1| r_b + 2^-20 (|N A| s_a + s_b)
          away from where the turned boxes have it: the rounding of moved vertices and of turned boxes, what N lacks
          to an inverse, and float32 inside of blocks. Turned boxes are padded by that. Where the pad is not small
          against the bodies (nearly singular matrices), the vertices are moved and the tree is fitted to them instead.
Guarantee exact, complete, no cap: buffers that turn out too small are enlarged and the step is run again.
Tried     (20k triangles each, two cores) Insides kept with the tree and fitted in a launch of their own: joins 190
          instead of 150 us, since every box then travels between the caches of two cores. Boxes inside of blocks as
          doubles: grids of 8 x 8 take twice as long. Planes of many candidates in one vector loop before the test
          proper: gathering the corners costs what it saves. Parts of the front in turns to threads instead of in
          runs: slower, since neighbouring parts share blocks. One serial call instead of launches: two boxes of 12
          triangles 92 to 29 us. Not tried: to start from the front of the frame before, for finding it anew takes 12
          of 350 us.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from impinge.backend.jit import thread_count
from impinge.backend.simd.boxes import WIDTH
from impinge.backend.stages import Stages, start_stages
from impinge.checks import Bools, Floats, Ints, sorted_unique
from impinge.detect.box_tree import kernels
from impinge.detect.box_tree.kernels import ENTRIES, ROOM
from impinge.detect.boxes import vertex_fans_kernels as star_kernels
from impinge.detect.boxes.tree import Placed, TreeOfBoxes, fit_trees, locks_of, place, with_moved_vertices
from impinge.detect.boxes.tree_kernels import INSIDE
from impinge.detect.boxes.vertex_fans import Arrays, stars_of
from impinge.detect.common.narrow_phase import Neighbours, check_neighbours, settle, settle_self
from impinge.detect.common.pair_query import Keys, PairOptions, finish_pairs, pair_options, unpack, without_ignored
from impinge.detect.common.results import TrianglePairs
from impinge.mesh.body import as_surface
from impinge.mesh.transform import transform_points

NO_KEYS: Keys = np.zeros(0, dtype=np.uint64)
TASKS = 16
"""Cuts of the front; more than any thread count that pays at a millisecond."""
SMALL_BLOCKS = 48
"""Blocks of both trees up to which one serial call is faster than launches."""
FIRST_LOOK = 16
"""Block pairs joined before ``any_pair`` looks whether one was found; doubled from look to look."""
LARGEST_PAD = 1e-4
"""Pad of a turned box, as a share of the body's size, up to which boxes are turned instead of vertices moved."""
LEAST_SIZE, LARGEST_SIZE = 1e-30, 1e30
"""Sizes of bodies whose boxes are turned: float32 has room for them."""
ROUNDING = 2.0**-48
"""Generous for a handful of roundings of 2^-53 each."""
ROUNDING_INSIDE = 2.0**-20
"""The same for float32, whose roundings are 2^-24."""


class BoxTree:
    """All intersecting pairs of two bodies, or of one with itself, kept between frames."""

    name = "box_tree"

    def __init__(self, a: Any, b: Any = None, *, neighbours: Neighbours = "exact") -> None:
        self.a = as_surface(a, name="a")
        self.b = None if b is None else as_surface(b, name="b")
        self._skip_neighbours = check_neighbours(neighbours, is_self=b is None)
        self._needs_stars = self.b is None and not self._skip_neighbours
        self._tree_a = self.a.structure("boxes", TreeOfBoxes)
        # A body against itself, moved, needs two sets of boxes at once.
        twice = self.b is self.a
        self._tree_b = (
            self._tree_a if self.b is None else TreeOfBoxes(self.b) if twice else self.b.structure("boxes", TreeOfBoxes)
        )
        self._locks = locks_of(self._tree_a, self._tree_b)
        self._front = np.zeros((1024, 2), dtype=np.int64)
        self._keys = np.zeros((TASKS, 1024), dtype=np.uint64)
        self._counts = np.zeros((TASKS, 2), dtype=np.int64)
        self._stamp = 0
        self._turned: tuple[Floats, Floats] | None = None
        """How boxes turn from a to b and back, in the query that runs."""
        self._make_scratch(1)

    def _make_scratch(self, threads: int) -> None:
        """Room for insides of blocks: each thread keeps some of either side."""
        self._inside_key = np.zeros((2 * threads * ENTRIES, 2), dtype=np.int64)
        self._inside = np.zeros((2 * threads * ENTRIES * INSIDE, 6, WIDTH), dtype=np.float32)
        self._candidate = np.zeros((threads * ROOM, 2), dtype=np.int64)
        self._bound = np.zeros(threads * ROOM)

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

    def refit(self) -> None:
        """Fit the boxes of what moved, as ``query`` does first; for timing."""
        with self._locks[0], self._locks[1]:
            fit_trees(*self._place(pair_options({}, is_self=self.b is None)))

    def any_pair(self, **options: Any) -> bool:
        """Whether any pair meets; looks no further than the first that does."""
        wanted = pair_options(options, is_self=self.b is None)
        with self._locks[0], self._locks[1]:
            a, b = self._place(wanted)
            fit_trees(a, b)
            moves = self._moves(a, b)
            threads = thread_count()
            scratch = self._scratch(threads)
            front = self._find_front(a, b, moves)
            first, size = 0, FIRST_LOOK
            while first < len(front):
                part = front[first : first + size]
                hits, uncertain = self._join(part, a, b, moves, scratch, threads)
                keys = np.concatenate([hits, self._settle(uncertain, a, b)]) if len(uncertain) else hits
                if len(without_ignored(_only_active(keys, a.active, b.active), wanted, is_self=self.b is None)):
                    return True
                first, size = first + size, 2 * size
            if not self._needs_stars:
                return False
            keys = _only_active(self._settle(self._test_stars(a)[0], a, b), a.active, b.active)
            return len(without_ignored(keys, wanted, is_self=True)) > 0

    def _place(self, options: PairOptions) -> tuple[Placed, Placed]:
        a = place(self.a, self._tree_a, options.transform_a, options.active_a, "a")
        if self.b is None:
            a = with_moved_vertices(a, "a")
            return a, a
        b = place(self.b, self._tree_b, options.transform_b, options.active_b, "b")
        if (a.matrix is None and b.matrix is None) or self._can_turn(a, b):
            return a, b
        return with_moved_vertices(a, "a"), with_moved_vertices(b, "b")

    # moved bodies ------------------------------------------------------------------------------------

    def _can_turn(self, a: Placed, b: Placed) -> bool:
        """Whether boxes can be turned from one body to the other; the trees are fitted to find out, and stay so."""
        fit_trees(a, b)
        self._turned = _turns(a, b)
        return self._turned is not None

    def _moves(self, a: Placed, b: Placed) -> tuple[Any, ...]:
        """Origins of boxes inside of blocks, how boxes turn a to b and b to a, and how vertices are placed."""
        if a.matrix is None and b.matrix is None:
            origin = a.origin
            return origin, origin, None, None, None, None
        assert self._turned is not None
        return (a.origin, b.origin, *self._turned, _matrix(a)[:3], _matrix(b)[:3])

    # the search --------------------------------------------------------------------------------------

    def _scratch(self, threads: int) -> tuple[Any, ...]:
        """Room for the insides of blocks, and a stamp that makes all that it holds outdated."""
        if len(self._inside_key) < 2 * threads * ENTRIES:
            self._make_scratch(threads)
        self._stamp += 1
        return self._inside_key, self._inside, self._stamp, self._candidate, self._bound

    def _search(self, a: Placed, b: Placed, stages: Stages) -> tuple[Keys, dict[str, Any]]:
        if a.tree.block_count + b.tree.block_count <= SMALL_BLOCKS:
            found = self._search_serially(a, b)
            if found is not None:
                stages.done("search")
                return found
        fit_trees(a, b)
        stages.done("refit")
        moves = self._moves(a, b)
        front = self._find_front(a, b, moves)
        stages.done("front")
        threads = thread_count()
        hits, uncertain = self._join(front, a, b, moves, self._scratch(threads), threads)
        tests = int(self._counts[:, 1].sum())
        stages.done("join")
        if self._needs_stars:
            around, more = self._test_stars(a)
            uncertain, tests = np.concatenate([uncertain, around]), tests + more
            stages.done("stars")
        stats = self._stats(a, b, len(front), tests, len(uncertain))
        if len(uncertain):
            hits = np.concatenate([hits, self._settle(uncertain, a, b)])
            stages.done("exact")
        return hits, stats

    def _search_serially(self, a: Placed, b: Placed) -> tuple[Keys, dict[str, Any]] | None:
        """The whole search in one call; None if the buffers are too small or a tree has to be built anew."""
        keys = self._keys.reshape(-1)
        fit_a, fit_b = a.tree.needs_fit(a.token), b.tree.needs_fit(b.token)
        scratch = self._scratch(1)
        if self.b is None:
            pair_count, count, open_count, tests, area_a = kernels.search_one_serially(
                fit_a, a.vertex_arrays, a.slots, a.origin, self._stars(a), self._skip_neighbours,
                scratch, self._front, keys,
            )  # fmt: skip
            area_b, fit_b = 0.0, 0
        else:
            pair_count, count, open_count, tests, area_a, area_b = kernels.search_serially(
                fit_a, a.vertex_arrays, a.slots, fit_b, b.vertex_arrays, b.slots,
                self._moves(a, b), scratch, self._front, keys,
            )  # fmt: skip
        if fit_a and not a.tree.closed(a.token, a.frame, area_a):
            return None
        if fit_b and not b.tree.closed(b.token, b.frame, area_b):
            return None
        if pair_count > len(self._front) or count > len(keys):
            return None
        hits, uncertain = kernels.part_keys(keys, count) if open_count else (keys[:count].copy(), NO_KEYS)
        if self._needs_stars:
            around, more = self._test_stars(a)
            uncertain, tests = np.concatenate([uncertain, around]), tests + more
        if len(uncertain):
            hits = np.concatenate([hits, self._settle(uncertain, a, b)])
        return hits, self._stats(a, b, pair_count, tests, len(uncertain))

    def _stars(self, a: Placed) -> Arrays:
        return stars_of(a.tree, len(a.x))

    def _test_stars(self, a: Placed) -> tuple[Keys, int]:
        """Keys of pairs that share a vertex and may meet beyond it, and how many were tested."""
        stars = self._stars(a)
        while True:
            counter = np.zeros(1, dtype=np.int64)
            out = (thread_count(), counter, self._keys, self._counts)
            star_kernels.test_stars.over(len(a.x))(a.slots, stars, *out)
            most = int(self._counts[:, 0].max())
            if most <= self._keys.shape[1]:
                break
            self._keys = np.zeros((TASKS, 2 * most), dtype=np.uint64)
        _, uncertain = kernels.gather_keys(self._keys, self._counts)
        return uncertain, int(self._counts[:, 1].sum())

    def _stats(self, a: Placed, b: Placed, block_pairs: int, tests: int, exact_tests: int) -> dict[str, Any]:
        return {
            "block_pairs": block_pairs,
            "growth": max(a.tree.growth, b.tree.growth),
            "builds": a.tree.builds if self.b is None else a.tree.builds + b.tree.builds,
            "triangle_tests": tests,
            "exact_tests": exact_tests,
        }

    def _settle(self, uncertain: Keys, a: Placed, b: Placed) -> Keys:
        """The exact test for pairs that doubles cannot decide."""
        if self.b is None:
            return settle_self(uncertain, a.x, a.frame.faces)
        pairs, _ = unpack(uncertain)
        return settle(uncertain, *_where_tested(a, pairs[:, 0]), *_where_tested(b, pairs[:, 1]))

    def _find_front(self, a: Placed, b: Placed, moves: tuple[Any, ...]) -> NDArray[np.int64]:
        """Pairs of blocks whose boxes overlap."""
        trees = (a.upper, b.upper, *moves[2:4], self.b is None)
        count = kernels.find_front(*trees, self._front)
        if count > len(self._front):
            self._front = np.zeros((2 * count, 2), dtype=np.int64)
            kernels.find_front(*trees, self._front)
        return self._front[:count]

    def _join(
        self,
        front: NDArray[np.int64],
        a: Placed,
        b: Placed,
        moves: tuple[Any, ...],
        scratch: tuple[Any, ...],
        threads: int,
    ) -> tuple[Keys, Keys]:
        """Keys of pairs that cross, and of pairs that doubles cannot decide."""
        while True:
            counter = np.zeros(1, dtype=np.int64)
            out = (scratch, threads, counter, self._keys, self._counts)
            if self.b is None:
                one = (front, a.slots, a.origin, self._stars(a), self._skip_neighbours)
                kernels.join_front_of_one.over(len(front))(*one, *out)
            else:
                kernels.join_front.over(len(front))(front, a.slots, b.slots, moves, *out)
            most = int(self._counts[:, 0].max())
            if most <= self._keys.shape[1]:
                break
            self._keys = np.zeros((TASKS, 2 * most), dtype=np.uint64)
        hits, uncertain = kernels.gather_keys(self._keys, self._counts)
        return hits, uncertain


def _matrix(placed: Placed) -> Floats:
    return np.eye(4) if placed.matrix is None else placed.matrix


def _turns(a: Placed, b: Placed) -> tuple[Floats, Floats] | None:
    """How boxes turn from a to b and back, 3 x 6 each; None if either cannot be trusted."""
    to_b, to_a = _turn(a, b), _turn(b, a)
    return None if to_b is None or to_a is None else (to_b, to_a)


def _turn(a: Placed, b: Placed) -> Floats | None:
    """Matrix, translation (above blocks, inside of them) and pad that turn boxes of a into the axes of b."""
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
        pad += ROUNDING_INSIDE * (abs(turn) @ (hi_a - lo_a) + (hi_b - lo_b))
        made = np.column_stack([turn, shift, turn @ a.origin + shift - b.origin, pad])
        size = np.linalg.norm(abs(turn) @ (hi_a - lo_a)) + np.linalg.norm(hi_b - lo_b)
        sizes = np.linalg.norm(hi_a - lo_a), np.linalg.norm(hi_b - lo_b), size
        in_range = all(LEAST_SIZE < number < LARGEST_SIZE for number in sizes)
        trusted = in_range and np.isfinite(reach).all() and np.isfinite(made).all()
        trusted = trusted and bool((pad <= LARGEST_PAD * size).all())
    return made if trusted else None


def _where_tested(placed: Placed, triangles: Ints) -> tuple[Floats, Ints]:
    """Positions and faces for the exact test; of a moved body only the corners of ``triangles`` are moved."""
    if placed.matrix is None:
        return placed.x, placed.frame.faces
    faces = placed.frame.faces
    used = sorted_unique(faces[triangles])
    x = np.zeros_like(placed.x)
    x[used] = transform_points(placed.matrix, placed.x[used])
    x.flags.writeable = False
    return x, faces


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
