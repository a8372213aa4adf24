"""Eight boxes at once, boxes around vertices, and tasks that threads claim: each equals its plain definition."""

from __future__ import annotations

import numpy as np
import pytest

from impinge.backend.claim import claim
from impinge.backend.jit import compiled, kernel, prange
from impinge.backend.simd import boxes

pytestmark = [pytest.mark.small, pytest.mark.tiny]


@compiled
def mask(box, node, lo_x, lo_y, lo_z, hi_x, hi_y, hi_z):
    return boxes.overlap_mask(box, node, lo_x, lo_y, lo_z, hi_x, hi_y, hi_z)


@compiled
def square(box_a, node_a, box_b, node_b):
    return boxes.overlap_square(box_a, node_a, box_b, node_b)


@compiled
def passing(box_a, node_a, lane, box_b, node_b):
    return boxes.passing_mask(box_a, node_a, lane, box_b, node_b)


@compiled
def around_node(box, node):
    return boxes.node_box(box, node)


@compiled
def around_triangle(x, i, j, k, ox, oy, oz):
    return boxes.triangle_box(x, i, j, k, ox, oy, oz)


@compiled
def around_vertices(x, vertex, start, end):
    return boxes.vertices_box(x, vertex, start, end)


@compiled
def lowest(bits):
    return boxes.lowest_bit(bits)


def random_nodes(rng, dtype, count=20):
    """Nodes of boxes with small integer corners: many touch, some are empty."""
    corners = np.sort(rng.integers(0, 5, (count, 2, 3, 8)), axis=1).reshape(count, 6, 8).astype(dtype)
    empty = rng.random((count, 8)) < 0.1
    corners[:, :3][np.broadcast_to(empty[:, None], (count, 3, 8))] = np.inf
    corners[:, 3:][np.broadcast_to(empty[:, None], (count, 3, 8))] = -np.inf
    return corners


def meet(a, b):
    return bool((a[:3] <= b[3:]).all() and (b[:3] <= a[3:]).all())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_moving_boxes(rng, dtype):
    """Discard boxes that are strictly on one side along an axis at both ends; on different sides they may pass."""
    a, b = random_nodes(rng, dtype), random_nodes(rng, dtype)
    counts = {True: 0, False: 0}
    for n in range(10):
        for lane in range(8):
            bits = int(passing(a, n, lane, b, n))
            for j in range(8):
                one, one_end = a[2 * n : 2 * n + 2, :, lane]
                other, other_end = b[2 * n : 2 * n + 2, :, j]
                is_below = (one[3:] < other[:3]) & (one_end[3:] < other_end[:3])
                is_above = (one[:3] > other[3:]) & (one_end[:3] > other_end[3:])
                may_meet = not (is_below | is_above).any()
                assert bool(bits >> j & 1) == may_meet
                counts[may_meet] += 1

    assert min(counts.values()) > 100


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_eight_boxes_against_one_and_eight(rng, dtype):
    """Compare closed boxes lane by lane; touching counts, empty boxes meet nothing."""
    box = random_nodes(rng, dtype)
    hits = 0
    for a in range(10):
        for b in range(10, 20):
            expected = [[meet(box[a, :, i], box[b, :, j]) for j in range(8)] for i in range(8)]
            bits = int(square(box, a, box, b))
            assert [[bool(bits >> (8 * i + j) & 1) for j in range(8)] for i in range(8)] == expected
            one = int(mask(box, b, *box[a, :, 3]))
            assert [bool(one >> j & 1) for j in range(8)] == expected[3]
            hits += sum(map(sum, expected))

    assert 0.1 < hits / 6400 < 0.9


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_box_around_a_node(rng, dtype):
    """Enclose all children of a node."""
    box = random_nodes(rng, dtype)
    for node in range(len(box)):
        expected = (*box[node, :3].min(axis=1), *box[node, 3:].max(axis=1))
        assert tuple(around_node(box, node)) == expected


def test_boxes_around_vertices(rng):
    """Enclose listed vertices and triangles, the last vertex of the array included; none give an empty box."""
    x = rng.standard_normal((30, 3))
    vertex = rng.permutation(30).astype(np.int32)
    for start, end in ((0, 30), (3, 4), (7, 19), (29, 30)):
        listed = x[vertex[start:end]]
        assert tuple(around_vertices(x, vertex, start, end)) == (*listed.min(axis=0), *listed.max(axis=0))
    assert tuple(around_vertices(x, vertex, 5, 5)) == (np.inf,) * 3 + (-np.inf,) * 3
    origin = rng.standard_normal(3)
    for i, j, k in [*rng.integers(0, 30, (50, 3)).tolist(), [29, 29, 29]]:
        corners = x[[i, j, k]]
        expected = np.float32([*(corners.min(axis=0) - origin), *(corners.max(axis=0) - origin)])
        assert tuple(around_triangle(x, i, j, k, *origin)) == tuple(expected)


def test_lowest_bit():
    """Find the lowest bit that is set, the last of 64 included."""
    assert [lowest(np.uint64(1 << k | 1 << 63)) for k in range(64)] == list(range(64))


@kernel()
def take_tasks(threads, counter, taken):
    """Note for each task how often it was claimed."""
    for _ in prange(threads):
        t = claim(counter)
        while t < len(taken):
            taken[t] += 1
            t = claim(counter)


def test_every_task_is_claimed_once():
    """Give each task to exactly one thread, however many there are."""
    for threads in (1, 2, 4):
        taken = np.zeros(1000, dtype=np.int64)
        take_tasks(threads, np.zeros(1, dtype=np.int64), taken)
        assert (taken == 1).all()
