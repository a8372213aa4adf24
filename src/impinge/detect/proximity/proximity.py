"""Vertex-face and edge-edge pairs no farther apart than a margin: the input of barriers and penalties.

1. Features.    Vertices, edges and faces, each once, in the blocks of the tree (``mesh_features``).
2. Block pairs. Descend both trees of boxes to the pairs of blocks no farther apart than the margin.
3. Fit          boxes around the features of those blocks, each enlarged by half of the margin: boxes of near features
                overlap, and two groups of eight are compared in a few instructions (``backend.simd``).
4. Join         each pair of blocks three times: edges with edges, vertices of a with faces of b, vertices of b with
                faces of a. Features of one body that share a vertex are skipped; the distance decides about the others.
5. Measure      the pairs found, in sorted order.

Threads claim ranges of block pairs. A range owns its output, and keys are sorted: the same bits for any number of
threads. A query with ``cancel`` joins and measures in portions and checks ``cancel`` in between.

Scale      Bodies beyond 2^60 are shrunk by a power of two, those below 2^-60 enlarged, and the margin with them, which
           changes no bit of any answer: fourth powers of coordinates stay in range.
Boxes      are float32, relative to a vertex of a. Let r be the largest relative coordinate; four roundings of
           2^-24 (r + margin) may separate two boxes, which are enlarged by that amount.
Guarantee  complete, no cap. A pair belongs to the result iff its distance, as computed in doubles, is at most the
           margin; the error of that distance is a few units in the last place of the features' size
           (``features_kernels``). Boxes allow for more than that.
Ignored    triangle pairs: a pair of features is left out if all pairs of triangles that have them are ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike, NDArray

from impinge.backend.jit import thread_count
from impinge.backend.stages import start_stages
from impinge.checks import Bools, Cancel, Ints, as_number
from impinge.detect.box_tree.kernels import find_block_pairs
from impinge.detect.boxes.mesh_features import Features, features_of, rows_not_ignored, triangles_around
from impinge.detect.boxes.tree import PosedTree, TreeOfBoxes, fit_trees, lock_both, pose_tree, with_moved_vertices
from impinge.detect.boxes.whole_tree import fit_in_range
from impinge.detect.common.nearest_results import Proximity
from impinge.detect.common.pair_query import NO_KEYS, Keys, PairOptions
from impinge.detect.proximity import proximity_kernels as kernels
from impinge.mesh.body import SurfaceLike, as_surface

BlockPairs = NDArray[np.int64]
Listed = Callable[[BlockPairs], tuple[Bools, list[Ints]]]
"""Of pairs of blocks, those that have to be joined, and pairs of features of the others that may be near, by kind."""

TASKS = 64
"""Ranges of block pairs."""
LEAST_ROOM = 1024
"""Least number of keys that fit into the output of a range."""
ROOM = 256
"""Initial number of keys per block pair; untouched memory costs nothing."""
LARGEST_MARGIN = 2.0**64
"""More than the distance of any two features of bodies in range: a larger margin finds nothing more."""
NO_LIMIT = 2**62
FIRST_BLOCK_PAIRS = 64
"""Block pairs joined before the first check of ``cancel``; doubled or halved from check to check."""
CHECK_MS = 20.0
"""Approximate time between two checks of ``cancel`` [ms]."""
PAIRS_PER_CHECK = 1 << 18
"""Pairs of features measured between two checks."""
ROUNDING = 2.0**-46
"""Generous for a handful of roundings of 2^-53 each."""
ROUNDING_INTERIOR = 2.0**-21
"""The same for float32, whose roundings are 2^-24."""
LARGEST_FLOAT32 = 1e37
"""Size from which boxes are infinite: float32 would overflow."""


def proximity(
    a: SurfaceLike,
    b: SurfaceLike | None = None,
    *,
    margin: float,
    transform_a: ArrayLike | None = None,
    transform_b: ArrayLike | None = None,
    active_a: ArrayLike | None = None,
    active_b: ArrayLike | None = None,
    ignore: ArrayLike | None = None,
    cancel: Cancel | None = None,
) -> Proximity:
    """Find all vertex-face and edge-edge pairs no farther apart than a margin, with distances and weights.

    Parameters
    ----------
    a, b : body
        As in ``triangle_pairs``. Without ``b``, pairs of ``a`` with itself that share no vertex.
    margin : float
        Largest distance that counts.
    transform_a, transform_b, active_a, active_b, cancel
        As in ``triangle_pairs``. A cancelled query has no pairs: the answer is never truncated.
    ignore : array_like, shape (k, 2), optional
        Pairs of triangles. A pair of features is left out if all pairs of triangles that have the two are ignored.

    Returns
    -------
    Proximity
        Vertices and edges count once, if a live and active triangle has them.
    """
    return find_near(
        a, b, margin=margin, transform_a=transform_a, transform_b=transform_b, active_a=active_a, active_b=active_b,
        ignore=ignore, cancel=cancel,
    )  # fmt: skip


def find_near(
    a: SurfaceLike, b: SurfaceLike | None, *, margin: float, transform_a: ArrayLike | None = None,
    transform_b: ArrayLike | None = None, active_a: ArrayLike | None = None, active_b: ArrayLike | None = None,
    ignore: ArrayLike | None = None, cancel: Cancel | None = None, listed: Listed | None = None,
) -> Proximity:  # fmt: skip
    """As ``proximity``; ``listed`` decides about some pairs of blocks, unless the bodies have to be scaled."""
    began = perf_counter()
    margin = as_number(margin, "margin", "a finite number from 0", least=0.0, below=np.inf)
    is_self = b is None
    options = PairOptions(transform_a, transform_b, active_a, active_b, ignore, None, cancel, is_self)
    body_a = as_surface(a, name="a")
    body_b = body_a if b is None else as_surface(b, name="b")
    tree_a = tree_b = body_a.structure("boxes", TreeOfBoxes)
    if not is_self:  # a body against itself, moved, needs two sets of boxes at once
        tree_b = TreeOfBoxes(body_b) if body_b is body_a else body_b.structure("boxes", TreeOfBoxes)
    first, second = lock_both(tree_a, tree_b)
    with first, second:
        stages = start_stages()
        posed_a = posed_b = with_moved_vertices(
            pose_tree(body_a, tree_a, options.transform_a, options.active_a, "a"), "a"
        )
        if not is_self:
            posed_b = with_moved_vertices(pose_tree(body_b, tree_b, options.transform_b, options.active_b, "b"), "b")
        fit_trees(posed_a, posed_b)
        scaled, factor = fit_in_range([posed_a] if is_self else [posed_a, posed_b])
        posed_a, posed_b = scaled[0], scaled[-1]
        stages.done("refit")
        reach = min(factor * margin, LARGEST_MARGIN)
        features_a = features_of(posed_a)
        features_b = features_a if is_self else features_of(posed_b)
        stages.done("features")
        block_pairs: BlockPairs = np.zeros((0, 2), dtype=np.int64)
        if len(features_a.order) and len(features_b.order) and not options.cancelled:
            block_pairs = _near_block_pairs(posed_a, posed_b, reach, is_self)
        stages.done("block_pairs")
        joined, known = block_pairs, None
        if listed is not None and factor == 1.0:
            is_open, known = listed(block_pairs)
            joined = block_pairs[is_open]
        edge_keys, keys_a, keys_b = _join(posed_a, features_a, posed_b, features_b, joined, reach, options)
        stages.done("join")
        if is_self:
            keys_a, keys_b = keys_a + keys_b, []
        found = [_sorted_pairs(keys_a), _sorted_pairs(keys_b, swapped=True), _sorted_pairs(edge_keys)]
        if known is not None:
            found = [np.concatenate(both) for both in zip(found, known)]
            found = [pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))] for pairs in found]
        stages.done("sort")
        if ignore is not None and not options.cancelled:
            around_a, around_b = triangles_around(features_a, posed_a), triangles_around(features_b, posed_b)
            found = [
                pairs[rows_not_ignored(pairs, around_a[k], around_b[m], options)]
                for pairs, k, m in zip(found, (0, 2, 1), (2, 0, 1))
            ]
        measured = [(pairs, np.zeros(len(pairs)), np.zeros((len(pairs), n))) for pairs, n in zip(found, (3, 3, 2))]
        bodies = [(p.x, p.state.faces, f.edges) for p, f in ((posed_a, features_a), (posed_b, features_b))]
        start, per_check = 0, NO_LIMIT if cancel is None else PAIRS_PER_CHECK
        while start < max(map(len, found)) and not options.cancelled:
            part = [tuple(column[start : start + per_check] for column in columns) for columns in measured]
            kernels.measure_pairs.over(sum(len(columns[0]) for columns in part))(*bodies, *part)
            start += per_check
        if known is not None:
            kept = [columns[1] <= reach for columns in measured]
            measured = [(x[keep], y[keep], z[keep]) for keep, (x, y, z) in zip(kept, measured)]
        stages.done("measure")
    cancelled = options.cancelled
    if cancelled:  # no pairs: the answer is never truncated
        measured = [(pairs[:0], distance[:0], weights[:0]) for pairs, distance, weights in measured]
    lengths = [distance if factor == 1.0 else distance / factor for _, distance, _ in measured]
    return Proximity(
        margin=margin,
        vertex_face=measured[0][0],
        vertex_face_distance=lengths[0],
        vertex_face_weights=measured[0][2],
        face_vertex=measured[1][0],
        face_vertex_distance=lengths[1],
        face_vertex_weights=measured[1][2],
        edge_edge=measured[2][0],
        edge_edge_distance=lengths[2],
        edge_edge_weights=measured[2][2],
        edges_a=features_a.edges,
        edges_b=features_b.edges,
        complete=not cancelled,
        reason="cancelled" if cancelled else None,
        method="feature_boxes",
        stats={"block_pairs": len(block_pairs), **stages.times()},
        elapsed_ms=1e3 * (perf_counter() - began),
    )


def _near_block_pairs(a: PosedTree, b: PosedTree, margin: float, is_self: bool) -> BlockPairs:
    """Pairs of blocks no farther apart than the margin; the boxes of a are enlarged by it."""
    size = max(float(abs(posed.tree.bounds).max()) for posed in (a, b)) + margin
    enlarge = np.zeros((3, 6))
    enlarge[:, :3], enlarge[:, 5] = np.eye(3), margin + ROUNDING * size
    room = 16 * (a.tree.block_count + b.tree.block_count)
    while True:
        block_pairs = np.zeros((room, 2), dtype=np.int64)
        count = find_block_pairs(a.tree.upper, b.tree.upper, enlarge, None, is_self, block_pairs)
        if count <= room:
            return block_pairs[:count]
        room = count


def _join(
    a: PosedTree, features_a: Features, b: PosedTree, features_b: Features, block_pairs: BlockPairs, margin: float,
    options: PairOptions,
) -> tuple[list[Keys], list[Keys], list[Keys]]:  # fmt: skip
    """Keys of near features: edges, vertices of a with faces of b, vertices of b with faces of a."""
    found: tuple[list[Keys], list[Keys], list[Keys]] = [], [], []
    if not len(block_pairs) or options.cancelled:
        return found
    origin = a.origin()
    size = max(float(abs(posed.tree.bounds - origin).max()) for posed in (a, b)) + margin
    half = np.float32(np.inf if size > LARGEST_FLOAT32 else 0.5 * margin + ROUNDING_INTERIOR * size)
    columns = ((a, features_a, block_pairs[:, :1]), (b, features_b, block_pairs[:, 1:]))
    for posed, features, blocks in ((a, features_a, block_pairs),) if options.is_self else columns:
        is_listed = np.zeros(posed.tree.block_count, dtype=np.bool_)
        is_listed[blocks] = True
        listed = np.flatnonzero(is_listed)
        kernels.fit_features.over(len(listed))(listed, posed.x, *map(tuple, features[2:]), origin, half)
    layouts = [
        (posed.x, *layout)
        for posed, features in ((a, features_a), (b, features_b))
        for layout in (features.of_edges, features.of_vertices, features.of_faces)
    ]
    far = margin + ROUNDING * size
    first, count = 0, NO_LIMIT if options.cancel is None else FIRST_BLOCK_PAIRS
    while first < len(block_pairs) and not options.cancelled:
        began = perf_counter()
        part = block_pairs[first : first + count]
        room = LEAST_ROOM + ROOM * (len(part) // TASKS + 1)
        while True:
            keys, counts = np.zeros((3 * TASKS, room), dtype=np.uint64), np.zeros(3 * TASKS, dtype=np.int64)
            kernels.join_block_pairs.over(len(part))(
                part,
                *layouts,
                options.is_self,
                (margin, far * far),
                thread_count(),
                np.zeros(1, dtype=np.int64),
                keys,
                counts,
            )
            if counts.max() <= room:
                break
            room = int(counts.max())
        for t in range(3 * TASKS):
            found[t // TASKS].append(keys[t, : counts[t]].copy())
        first += count
        count = 2 * count if 1e3 * (perf_counter() - began) < CHECK_MS else max(count // 2, 1)
    return found


def _sorted_pairs(parts: list[Keys], *, swapped: bool = False) -> Ints:
    """Keys of all parts as rows, with columns swapped or not, sorted."""
    keys = np.concatenate([NO_KEYS, *parts])
    if swapped:
        keys = keys << np.uint64(32) | keys >> np.uint64(32)
    keys = np.sort(keys)
    pairs = np.zeros((len(keys), 2), dtype=np.int32)
    pairs[:, 0], pairs[:, 1] = keys >> np.uint64(32), keys & np.uint64(0xFFFFFFFF)
    return pairs
