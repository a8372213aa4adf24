"""Triangles that share a vertex, known in advance: nearly all pairs of boxes that overlap in one mesh are such pairs.

A smooth mesh of n triangles has some 6 n pairs that share a vertex, and hardly any other pairs whose boxes overlap. Two
things make them cheap:

Masks    say for each two blocks with common vertices which of their pairs of triangles have one. They depend on the
         faces only, and are made once; a join then never hears of these pairs.
Stars    are the triangles around a vertex v. If they go all around it, and a direction n exists from which all of
         them are seen from the same side, as sectors that go around v exactly once, then no two sectors overlap: two
         of these triangles meet in v, or in the edge that they share, and nowhere else. One such proof costs a few
         products per triangle and settles all pairs around v, some 15 for six triangles. The direction is the sum
         of the normals, as computed; only the signs of n·(a × b) and a·(d × n) have to be right, so that their
         rounding is bounded and everything below the bound counts as unproven (``lies_flat``).
         Pairs around vertices without a proof (creases, borders, folds) are tested one by one, unless the other vertex
         that they share has one.

Vertices with very many triangles, and triangles that were added since the masks were made, are not in the masks: their
pairs arrive at the join like all others and are tested there. So are all pairs of faces between random vertices, for
which masks would take too much memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from impinge.detect.boxes import vertex_fans_kernels as kernels
from impinge.detect.boxes.tree import TreeOfBoxes
from impinge.detect.boxes.tree_kernels import BLOCK

MOST_MASKS = 64
"""Blocks that a block may share vertices with on average, in order to have masks (512 bytes each): surfaces have
about four, faces between random vertices any number."""

Arrays = tuple[Any, ...]
"""What the kernels take as ``stars``: start and list of the slots around each vertex, which vertices they go around;
the masks: where those of a block start, the other block, 64 masks of 64 bits for each two blocks; and for each listed
slot of a closed star the vertex where it begins."""


def fans_of(tree: TreeOfBoxes, vertex_count: int) -> Arrays:
    """Stars and masks of a tree, made once for each build."""
    return tree.derive("stars", lambda: _make_fans(tree, vertex_count))


def _make_fans(tree: TreeOfBoxes, vertex_count: int) -> Arrays:
    built = tree.built_blocks * BLOCK  # late triangles change places
    order_face, order_tri = tree.order_face[:built], tree.order_tri[:built]
    start, slot = kernels.list_fans(order_face, order_tri, vertex_count)
    begin, closed = kernels.order_fans(start, slot, order_face)
    block_start = np.zeros(tree.built_blocks + 1, dtype=np.int64)
    other, mask = np.zeros(0, dtype=np.int64), np.zeros((0, 64), dtype=np.uint64)
    lists = (start, slot, order_face, order_tri, block_start)
    count = kernels.mask_neighbours(*lists, other, mask)
    if count > MOST_MASKS * tree.built_blocks:
        return _no_fans(vertex_count)
    if count:
        other, mask = np.zeros(count, dtype=np.int64), np.zeros((count, 64), dtype=np.uint64)
        kernels.mask_neighbours(*lists, other, mask)
    return start, slot, closed, block_start, other, mask, begin


def _no_fans(vertex_count: int) -> Arrays:
    """Nothing known in advance: all pairs are left to the join."""
    ids, nothing = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64)
    start, closed = np.zeros(vertex_count + 1, dtype=np.int64), np.zeros(vertex_count, dtype=np.bool_)
    return start, ids, closed, np.zeros(1, dtype=np.int64), nothing, np.zeros((0, 64), dtype=np.uint64), ids
