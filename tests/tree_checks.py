"""Structural checks of the tree of boxes."""

from __future__ import annotations

import numpy as np

from impinge.backend.simd.boxes import WIDTH
from impinge.detect.boxes.tree import BLOCK, LEVELS, TreeOfBoxes
from impinge.mesh.tri_mesh import TriMesh


def assert_valid_tree(body: TriMesh) -> None:
    """Check places of live triangles in the order, level counts, and that boxes contain what is below."""
    tree, state = body.structure("boxes", TreeOfBoxes), body.state()
    live = np.flatnonzero(state.live())
    filled = np.flatnonzero(tree.order_tri >= 0)
    assert tree.mark == state.mark
    assert np.array_equal(np.sort(tree.order_tri[filled]), live)
    assert np.array_equal(tree.tri_order[tree.order_tri[filled]], filled)
    assert np.array_equal(tree.order_face[filled], state.faces[tree.order_tri[filled]])
    counts = np.diff(tree.level_start)
    assert counts[-1] == 1
    assert np.array_equal(counts, -(-np.array([len(tree.order_tri) // BLOCK, *counts[:-1]]) // WIDTH))
    assert (tree.order_tri[tree.block_count * BLOCK :] < 0).all()
    for b in range(tree.block_count):
        block = slice(b * BLOCK, (b + 1) * BLOCK)
        listed = tree.vertex[tree.vertex_start[b] : tree.vertex_start[b + 1]]
        assert np.isin(tree.order_face[block][tree.order_tri[block] >= 0], listed).all()
        if tree.token == (state.motion, b"") and len(listed):
            x, box = state.vertices[listed], tree.box[b // WIDTH, :, b % WIDTH]
            assert np.array_equal(box, [*x.min(axis=0), *x.max(axis=0)])
    if tree.token is not None:
        _assert_boxes_contain(tree)


def _assert_boxes_contain(tree: TreeOfBoxes) -> None:
    """Check that each box is the union of the boxes below it."""
    lo, hi = (tree.box[:, side].transpose(0, 2, 1) for side in (slice(0, 3), slice(3, 6)))  # (node, lane, axis)
    for level in range(LEVELS - 1):
        node = np.arange(tree.level_start[level], tree.level_start[level + 1])
        above, lane = np.divmod(np.arange(len(node)), WIDTH)
        above += tree.level_start[level + 1]
        assert np.array_equal(lo[node].min(axis=1), lo[above, lane])
        assert np.array_equal(hi[node].max(axis=1), hi[above, lane])
