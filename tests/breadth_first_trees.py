"""Structure checks of the trees of ``BreadthFirst``."""

from __future__ import annotations

import numpy as np

from impinge.detect.breadth_first.trees import pose


def assert_valid(detector):
    """Check both trees, fitted to the current positions.

    Every live triangle is one leaf, levels halve from the leaves up, and nodes bound exactly what is below them.
    """
    device = detector._device
    for body in {detector.a, detector.b or detector.a}:
        snapshot = body.snapshot()
        tree = pose(device, body, snapshot, None, None, "a", detector.volume).tree
        np.testing.assert_array_equal(np.sort(tree.order), snapshot.live)
        box, count = device.download(tree.box), len(snapshot.live)
        axes = box.shape[1] // 2
        corners = snapshot.vertices[snapshot.elements[tree.order]]
        np.testing.assert_array_equal(box[:count, :3], corners.min(axis=1))
        np.testing.assert_array_equal(box[:count, axes : axes + 3], corners.max(axis=1))
        for below, (first, size) in zip(tree.level[: tree.height], tree.level[1:]):
            assert size == -(-below[1] // 2)
            children = box[below[0] : below[0] + below[1]]
            pairs = np.concatenate([children, children[-1:]])[: 2 * size].reshape(size, 2, -1)
            np.testing.assert_array_equal(box[first : first + size, :axes], pairs[:, :, :axes].min(axis=1))
            np.testing.assert_array_equal(box[first : first + size, axes:], pairs[:, :, axes:].max(axis=1))
        assert len(box) == (tree.level[tree.height].sum() if count else 0)
        assert (tree.level[tree.height :] == tree.level[tree.height]).all()
