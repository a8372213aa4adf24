"""Vertex fans: triangles that share a vertex, known in advance.

A smooth mesh of n triangles has about 6 n pairs that share a vertex, and hardly any other pairs whose boxes overlap.
Two structures make them cheap:

Masks    mark, for each pair of blocks with common vertices, the pairs of triangles that have one. They depend on the
         faces only and are built once; a join skips these pairs.
Fans     are the triangles around a vertex v. If a fan is closed, and a direction n exists along which its triangles
         project to sectors of equal orientation that make exactly one revolution around v, then no two sectors
         overlap: two of these triangles meet in v or in their common edge, and nowhere else. One such proof costs a few
         products per triangle and covers all pairs around v, some 15 for six triangles. n is the sum of the normals, as
         computed; only the signs of n·(a × b) and a·(d × n) have to be right. Their rounding is bounded, and everything
         below the bound counts as unproven (``lies_flat``).
         Pairs around vertices without a proof (creases, borders, folds) are tested one by one, unless the other vertex
         that they share has one.

Vertices with very many triangles, and triangles added since the masks were built, are not in the masks: the join tests
their pairs like all others. So it does for faces between random vertices, whose masks would take too much memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from impinge.detect.boxes import vertex_fans_kernels as kernels
from impinge.detect.boxes.tree import TreeOfBoxes
from impinge.detect.boxes.tree_kernels import BLOCK

MOST_MASKS = 64
"""Largest mean number of neighbouring blocks of a block with masks (512 bytes each): surfaces have about four, faces
between random vertices any number."""

Arrays = tuple[Any, ...]
"""``fans`` of the kernels; see ``vertex_fans_kernels``."""


def fans_of(tree: TreeOfBoxes, vertex_count: int) -> Arrays:
    """Fans and masks of a tree, built once for each build of the tree."""
    fans: Arrays | None = tree.derived.get("fans")
    if fans is not None:
        return fans
    built = tree.built_blocks * BLOCK  # late triangles change places
    order_face, order_tri = tree.order_face[:built], tree.order_tri[:built]
    start, at = kernels.list_fans(order_face, order_tri, vertex_count)
    begin, closed = kernels.order_fans(start, at, order_face)
    block_start = np.zeros(tree.built_blocks + 1, dtype=np.int64)
    other, mask = np.zeros(0, dtype=np.int64), np.zeros((0, 64), dtype=np.uint64)
    lists = (start, at, order_face, order_tri, block_start)
    count = kernels.mask_neighbours(*lists, other, mask)
    if count > MOST_MASKS * tree.built_blocks:  # no fans: the join tests all pairs
        start, at, begin = np.zeros_like(start), at[:0], begin[:0]
        closed, block_start = np.zeros_like(closed), block_start[:1]
    elif count:
        other, mask = np.zeros(count, dtype=np.int64), np.zeros((count, 64), dtype=np.uint64)
        kernels.mask_neighbours(*lists, other, mask)
    tree.derived["fans"] = fans = start, at, closed, block_start, other, mask, begin
    return fans
