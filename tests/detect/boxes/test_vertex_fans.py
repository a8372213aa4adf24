"""Vertex fans: masks of pairs that share a vertex, proofs for whole fans, tests where there is no proof."""

from __future__ import annotations

import numpy as np
import pytest

import impinge
from impinge import shapes
from impinge.backend.jit import compiled
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.boxes import vertex_fans
from impinge.detect.boxes import vertex_fans_kernels as kernels
from impinge.detect.boxes.tree import TreeOfBoxes
from impinge.detect.boxes.vertex_fans import fans_of

pytestmark = pytest.mark.small


def assert_equals_brute_force(body, **options):
    expected = impinge.BruteForce(body).query(**options)
    actual = BoxTree(body).query(**options)

    np.testing.assert_array_equal(actual.pairs, expected.pairs)
    np.testing.assert_array_equal(actual.kind, expected.kind)
    return len(actual)


def fan(heights, *, turns=1):
    """A closed fan around vertex 0 with corners at these heights, in ``turns`` revolutions."""
    count = len(heights)
    angle = 2.0 * np.pi * turns * np.arange(count) / count
    ring = np.stack([np.cos(angle), np.sin(angle), heights], axis=1)
    corner = 1 + np.arange(count)
    return impinge.TriMesh(
        np.concatenate([np.zeros((1, 3)), ring]),
        np.stack([np.zeros(count, int), corner, np.roll(corner, -1)], axis=1),
    )


def proven(body):
    """Mask of the vertices with a closed fan, and of those proven to lie flat."""
    tree = TreeOfBoxes(body)
    start, _, closed, _, _, _, begin = fans_of(tree, len(body.vertices))
    flat = [bool(closed[v]) and _lies_flat(v, body.vertices, start, begin) for v in range(len(body.vertices))]
    return closed, np.array(flat)


@compiled
def _lies_flat(v, x, start, begin):
    return kernels.lies_flat(v, x, start, begin)


def test_fans_of_a_smooth_body_are_proven():
    """Prove every fan of a sphere: all are closed and none folds."""
    closed, flat = proven(shapes.bumpy_sphere(4))

    assert closed.all()
    assert flat.all()


@pytest.mark.parametrize(
    ("heights", "turns", "expected"),
    [
        ([0.0] * 6, 1, True),
        ([0.3, -0.3] * 3, 1, True),
        ([2.0] * 5, 1, True),
        ([0.0] * 7, 2, False),
        ([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], 3, False),
    ],
    ids=["flat", "wavy", "steep cone", "two revolutions", "three revolutions"],
)
def test_a_fan_is_proven_iff_it_makes_one_revolution(heights, turns, expected):
    """Prove fans of one revolution around their vertex, and none of several."""
    body = fan(np.array(heights), turns=turns)

    assert proven(body)[0][0]
    assert proven(body)[1][0] == expected
    assert (assert_equals_brute_force(body) == 0) == expected


def test_borders_folds_and_fins_are_not_proven():
    """Leave open fans, fans with a fold and vertices with three faces at an edge to the test of pairs."""
    closed, _ = proven(shapes.cloth_grid(4, 4))
    folded = fan(np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
    x = np.array(folded.vertices)
    x[3] = 0.9 * x[1]  # folds two triangles over their neighbours
    folded.update(x)

    assert not closed.all()
    assert not proven(folded)[1][0]
    assert assert_equals_brute_force(folded) > 0


def test_random_closed_meshes_with_folds(rng):
    """Equal brute force on closed meshes whose vertices are shaken until many fans fold, on a grid of integers too."""
    hits = proofs = fans = 0
    for round_ in range(30):
        body = shapes.icosphere(2)
        x = np.array(body.vertices)
        shaken = x + 0.04 * (round_ % 10) * rng.standard_normal(x.shape)
        body.update(np.round(6.0 * shaken) if round_ % 3 == 0 else shaken)
        hits += assert_equals_brute_force(body)
        flat = proven(body)[1]
        proofs, fans = proofs + flat.sum(), fans + len(flat)

    assert hits > 1000
    assert 0.2 < proofs / fans < 0.9


def test_every_neighbour_is_masked_and_no_other_pair():
    """Mask exactly the pairs that share a vertex."""
    body = shapes.icosphere(3)
    tree = TreeOfBoxes(body)
    _, _, _, block_start, other, mask, _ = fans_of(tree, len(body.vertices))
    masked = set()
    for a in range(tree.block_count):
        for row in range(block_start[a], block_start[a + 1]):
            for groups in range(64):
                bits = int(mask[row, groups])
                for bit in range(64):
                    if bits >> bit & 1:
                        s = 64 * a + groups // 8 * 8 + bit // 8
                        t = 64 * other[row] + groups % 8 * 8 + bit % 8
                        masked.add(tuple(sorted((int(tree.order_tri[s]), int(tree.order_tri[t])))))
    corners = body.faces
    shares = (corners[:, None, :, None] == corners[None, :, None, :]).any(axis=(2, 3))
    expected = {(int(i), int(j)) for i, j in np.argwhere(shares) if i < j}

    assert masked == expected


def test_vertex_with_very_many_triangles():
    """Be exact around a vertex with more triangles than masks cover, folded or not."""
    count = 3 * kernels.LARGEST_FAN
    flat, folded = fan(np.zeros(count)), fan(np.linspace(0.0, 1.0, count), turns=3)

    assert assert_equals_brute_force(flat) == 0
    assert assert_equals_brute_force(folded) > 0


def test_edits_after_the_masks_were_made(rng):
    """Stay exact while triangles of known fans are removed and added, mostly without a rebuild of the tree."""
    body = shapes.icosphere(3)
    x = np.array(body.vertices) + 0.05 * rng.standard_normal((len(body.vertices), 3))
    body.update(x)
    detector = BoxTree(body)
    hits = 0
    for _ in range(20):
        live = np.flatnonzero(body.alive)
        body.remove_triangles(rng.choice(live, 5, replace=False))
        body.add_triangles(rng.integers(0, len(x), (3, 3)))
        expected, actual = impinge.BruteForce(body).query(), detector.query()
        np.testing.assert_array_equal(actual.pairs, expected.pairs)
        hits += len(actual)

    assert hits > 100
    assert body.structure("boxes", TreeOfBoxes).builds < 10


def test_faces_that_repeat_a_vertex_or_a_face():
    """Be exact for faces that repeat an id, doubled faces and flipped faces, in closed fans."""
    sphere = shapes.icosphere(1)
    faces = np.array(sphere.faces)
    extra = np.concatenate([faces[:3], faces[4:6, ::-1], [[0, 0, 1], [2, 3, 3], [5, 5, 5]]])
    body = impinge.TriMesh(sphere.vertices, np.concatenate([faces, extra]))

    assert assert_equals_brute_force(body) >= 5


def test_faces_between_random_vertices(rng, monkeypatch):
    """Be exact with and without masks where nearly every block shares vertices with every other."""
    body = impinge.TriMesh(rng.random((400, 3)), rng.integers(0, 400, (600, 3)))
    with_masks = assert_equals_brute_force(body)
    monkeypatch.setattr(vertex_fans, "MOST_MASKS", 1)
    body = impinge.TriMesh(body.vertices, body.faces)

    assert assert_equals_brute_force(body) == with_masks > 1000
    assert len(vertex_fans.fans_of(body.structure("boxes", TreeOfBoxes), 400)[4]) == 0


@pytest.mark.parametrize("scale", [1e-200, 1e-70, 1e-8, 1.0, 1e8, 1e70, 1e150])
def test_any_scale(scale):
    """Be exact at any scale; where products of four lengths leave the range of doubles, nothing is proven."""
    body = shapes.icosphere(2)
    body.update(scale * np.array(body.vertices))

    assert assert_equals_brute_force(body) == 0
    assert proven(body)[1].all() == (1e-60 < scale < 1e60)


def test_any_pair_finds_a_folded_fan():
    """Answer yes for a body whose only contact is between triangles that share a vertex."""
    body = fan(np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]), turns=3)

    assert BoxTree(body).any_pair()
    assert not BoxTree(body, neighbours="skip").any_pair()
    assert not BoxTree(fan(np.zeros(6))).any_pair()
