"""The boxes of a whole tree, from the root down to single triangles, for queries that may end anywhere.

Layout  Level 0 has a node for eight triangles, level 1 one for eight of those (a block), and so on;
        child ``lane`` of node i is node ``8 i + lane`` of the level below, or that slot. ``node_at`` finds its place.
Boxes   are float32, counted from a vertex of the body. Subtracting and rounding keep the order of numbers: a point
        rounded likewise is in every box that it is in. Distances of rounded boxes are off by a share of the largest
        coordinates (``LEAST_PAD``), which those who compare them add.
Range   Squared distances have to fit into a float32. Bodies or points beyond 2^60 are shrunk by a power of two, and
        those below 2^-60 enlarged, which changes no bit of any other number.
Cost    one pass over the triangles when the body has moved; kept with the tree until it moves again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.backend.simd.boxes import WIDTH
from impinge.checks import Bools, Floats, Ints
from impinge.detect.boxes import whole_tree_kernels as kernels
from impinge.detect.boxes.tree import LEVELS, PosedTree, fit_trees
from impinge.detect.boxes.tree_kernels import INTERIOR, fit_all_interiors

LARGEST_EXPONENT = 60
"""Coordinates beyond this power of two, and bodies below its inverse, are scaled."""


class WholeTree(NamedTuple):
    """Boxes of all levels, and the triangles below them."""

    box: NDArray[np.float32]
    """Shape (nodes, 6, 8)."""
    corner: NDArray[np.float32]
    """Corners of triangles, counted from the origin, shape (slots / 8, 9, 8)."""
    start: NDArray[np.int64]
    """First node of each level, from level 2 on."""
    top: int
    """The lowest level that has a single node."""
    origin: Floats
    """What boxes are counted from."""
    reach: float
    """The largest coordinate of all boxes."""
    x: Floats
    order_face: Ints
    order_tri: Ints
    """The triangle in each slot, -1 if there is none."""


def whole_tree(posed: PosedTree, *, only: Bools | None = None) -> WholeTree:
    """All boxes of a fitted tree; ``only`` leaves out the other triangles. Use it under the tree's lock."""
    tree = posed.tree
    key = posed.token, posed.state.mark
    kept: tuple[Any, WholeTree] | None = tree.derived.get("whole") if only is None else None
    if kept is not None and kept[0] == key:
        return kept[1]
    order_tri = tree.order_tri
    if only is not None:
        is_there = order_tri >= 0  # a body without triangles has empty slots only
        is_there[is_there] = only[order_tri[is_there]]
        order_tri = np.where(is_there, order_tri, np.int32(-1))
    counts = [-(-tree.block_count // WIDTH)]
    while len(counts) < LEVELS:
        counts.append(-(-counts[-1] // WIDTH))
    start = INTERIOR * tree.block_count + np.concatenate([[0, 0, 0], np.cumsum(counts[:-1])]).astype(np.int64)
    if kept is not None and len(kept[1].box) == start[-1] + 1:
        box, corner = kept[1].box, kept[1].corner
    else:
        box = np.zeros((start[-1] + 1, 6, WIDTH), dtype=np.float32)
        corner = np.zeros((len(order_tri) // WIDTH, 9, WIDTH), dtype=np.float32)
    origin = posed.origin().copy()
    slots = posed.x, tree.order_face, order_tri
    fit_all_interiors.over(tree.block_count)(tree.block_count, slots, origin, box)
    kernels.fit_corners.over(len(corner))(len(corner), tree.order_face, order_tri, posed.x, origin, corner)
    reach = kernels.fit_above(box, start, tree.block_count)
    top = 2 + int(np.argmax(np.diff(start[2:], append=start[-1] + 1) == 1))
    whole = WholeTree(box, corner, start, top, origin, reach, *slots)
    if only is None:
        tree.derived["whole"] = key, whole
    return whole


def fit_in_range(posed: Sequence[PosedTree], size: float = 0.0) -> tuple[list[PosedTree], float]:
    """Fit trees to their vertices, all times one power of two if that is needed; ``size`` is that of other input.

    The vertices have to be moved already. Returns the factor too.
    """
    for one in posed:
        fit_trees(one)
        bounds = one.tree.bounds
        if np.isfinite(bounds).all():
            size = max(size, float(np.abs(bounds).max()))
    if size == 0.0 or abs(math.frexp(size)[1]) <= LARGEST_EXPONENT:
        return list(posed), 1.0
    factor = factor_for(size)
    scaled = [one._replace(x=_read_only(factor * one.x), token=(one.token, factor)) for one in posed]
    for one in scaled:
        fit_trees(one)
    return scaled, factor


def factor_for(size: float) -> float:
    """The power of two that brings numbers of this size near to 1."""
    return math.ldexp(1.0, max(min(-math.frexp(size)[1], 1000), -1000))


def _read_only(x: Floats) -> Floats:
    """Positions as those of a body are: Numba compiles anew for the other kind."""
    x.flags.writeable = False
    return x
