"""What only box trees have: a structure that follows motion and edits."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import impinge
from impinge import scenes, shapes
from impinge.deform.waves import explode, turn_inside_out, twist
from impinge.detect.box_tree import detector as box_tree
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.boxes import tree
from impinge.detect.boxes.tree import BLOCK, TreeOfBoxes
from tree_checks import assert_valid_tree

pytestmark = pytest.mark.small


def tree_of(body):
    return body.structure("boxes", TreeOfBoxes)


def assert_equals_brute_force(detector, **options):
    expected = impinge.BruteForce(detector.a, detector.b).query(**options)
    actual = detector.query(**options)

    np.testing.assert_array_equal(actual.pairs, expected.pairs)
    np.testing.assert_array_equal(actual.kind, expected.kind)
    return len(actual)


def soup(rng, count, size=0.3):
    corners = rng.random((count, 1, 3)) + size * rng.standard_normal((count, 3, 3))
    return impinge.TriMesh(corners.reshape(-1, 3), np.arange(3 * count).reshape(-1, 3))


@pytest.fixture(params=[0, box_tree.SMALL_BLOCKS], ids=["in launches", "in one call"], autouse=True)
def _both_searches(request, monkeypatch):
    """Search in launches and in one serial call."""
    monkeypatch.setattr(box_tree, "SMALL_BLOCKS", request.param)


@pytest.mark.parametrize("count", [*range(12), 63, 64, 65, 100, 511, 513])
def test_structure_of_any_size(rng, count):
    """Build and refit trees of every size around the powers of eight."""
    a, b = soup(rng, count), soup(rng, 40)
    detector = BoxTree(a, b)
    assert_valid_tree(a)
    for _ in range(2):
        a.update(np.array(a.vertices) + 0.05 * rng.standard_normal(a.vertices.shape))
        assert_equals_brute_force(detector)
        assert_valid_tree(a)


def test_order_is_compact():
    """Keep triangles of a block together: blocks of a sphere cover a small multiple of its own area."""
    body = shapes.icosphere(4)
    BoxTree(body, shapes.box(0.1)).query()
    tree = tree_of(body)
    first, last = tree.level_start[0], tree.level_start[1]
    lo, hi = tree.box[first:last, :3], tree.box[first:last, 3:]
    size = np.where(hi >= lo, hi - lo, 0.0)
    area = 2.0 * (size * np.roll(size, 1, axis=1)).sum()

    assert area < 6.0 * 4.0 * np.pi


def test_boxes_are_shared_by_detectors(monkeypatch):
    """Refit a body once per version, however many detectors use it."""
    a, b, c = (shapes.icosphere(3, center=(0.5 * k, 0.0, 0.0)) for k in range(3))
    detectors = [BoxTree(a, b), BoxTree(a, c), BoxTree(b, c), BoxTree(a)]
    fitted = []
    original = TreeOfBoxes.note_fit
    monkeypatch.setattr(TreeOfBoxes, "note_fit", lambda tree, *args: fitted.append(tree) or original(tree, *args))
    for _ in range(3):
        for detector in detectors:
            detector.query()

    assert sorted(map(id, fitted)) == sorted(map(id, map(tree_of, (a, b, c))))
    assert tree_of(a).builds == tree_of(b).builds == 1


def test_thousands_of_random_edits(rng):
    """Follow thousands of random additions and removals, always equal to brute force."""
    a, b = soup(rng, 150), soup(rng, 150)
    detector, alone = BoxTree(a, b), BoxTree(a)
    hits = 0
    for step in range(250):
        for body in (a, b):
            live = np.flatnonzero(body.alive)
            body.remove_triangles(rng.choice(live, min(len(live), rng.integers(0, 6)), replace=False))
            new = rng.integers(0, 6)
            if new:
                corners = (rng.random((new, 1, 3)) + 0.3 * rng.standard_normal((new, 3, 3))).reshape(-1, 3)
                first = len(body.vertices)
                body.add_triangles(first + np.arange(3 * new).reshape(-1, 3), corners)
        if step % 60 == 59:
            a.compact()
        hits += assert_equals_brute_force(detector)
        assert_equals_brute_force(alone)
        assert_valid_tree(a)
        assert_valid_tree(b)

    assert hits > 1000
    assert tree_of(b).builds < 150


def test_small_edits_do_not_rebuild(rng):
    """Follow a few edits without a rebuild, and rebuild when a quarter has changed."""
    a, b = shapes.icosphere(4), shapes.icosphere(3, center=(1.0, 0.0, 0.0))
    detector = BoxTree(a, b)
    detector.query()
    a.remove_triangles(rng.choice(len(a.faces), 100, replace=False))
    detector.query()
    assert tree_of(a).builds == 1

    a.remove_triangles(np.arange(2000))
    assert_equals_brute_force(detector)
    assert tree_of(a).builds == 2


def test_blocks_of_scattered_additions_are_compact(rng):
    """Put neighbours into the same block, wherever on the body triangles were added."""
    body = shapes.icosphere(4)
    tree = tree_of(body)
    gone = rng.choice(len(body), 512, replace=False)
    faces = body.faces[gone]
    body.remove_triangles(gone)
    body.add_triangles(faces)
    tree.follow_edits(body.state())
    late = [tree.order_tri[b * BLOCK :][:BLOCK] for b in range(tree.block_count)]
    extents = [np.ptp(body.vertices[body.faces[block]].reshape(-1, 3), axis=0) for block in late[tree.built_blocks :]]

    assert len(extents) == 512 // BLOCK
    assert np.prod(extents, axis=1).max() < 0.5 * 8.0  # the box of the whole ball is of volume 8


def test_an_edit_fits_only_what_it_touches(monkeypatch, rng):
    """Refit only the added blocks after an edit of a body that did not move."""
    a, b = shapes.icosphere(4), shapes.icosphere(3, center=(1.0, 0.0, 0.0))
    detector = BoxTree(a, b)
    detector.query()
    fitted = []
    original = TreeOfBoxes.note_fit
    monkeypatch.setattr(TreeOfBoxes, "note_fit", lambda tree, *args: fitted.append(tree) or original(tree, *args))
    for _ in range(5):
        a.remove_triangles(rng.choice(len(a.faces), 5, replace=False))
        a.add_triangles(rng.integers(0, 100, (2, 3)))
        assert_equals_brute_force(detector)
        assert_valid_tree(a)

    assert not fitted


def test_compact_between_frame_and_query():
    """Answer for the frame that a query began with, though ids are renumbered before the tree follows it."""
    a, b = shapes.icosphere(2), shapes.icosphere(2, center=(0.5, 0.0, 0.0))
    tree = TreeOfBoxes(a)
    a.remove_triangles(np.arange(5))
    frame = a.state()
    a.remove_triangles([7])
    a.compact()
    tree.follow_edits(frame)

    np.testing.assert_array_equal(np.sort(tree.order_tri[tree.order_tri >= 0]), np.arange(5, 320))
    assert_equals_brute_force(BoxTree(a, b))


@pytest.mark.medium
def test_single_additions_share_blocks(rng):
    """Fill blocks of late triangles: adding one at a time does not make a block for each."""
    a, b = shapes.icosphere(3), shapes.icosphere(2)
    detector = BoxTree(a, b)
    detector.query()
    blocks = tree_of(a).block_count
    for _ in range(100):
        a.add_triangles(rng.integers(0, 42, (1, 3)))
        detector.query()
        assert_valid_tree(a)

    assert tree_of(a).builds == 1
    assert tree_of(a).block_count == blocks + 2
    assert_equals_brute_force(detector)


@pytest.mark.parametrize(
    "deform",
    [lambda x, t: twist(x, 20.0 * t), lambda x, t: explode(x, 5.0 * t), turn_inside_out],
    ids=["twisted by several turns", "exploded", "turned inside out"],
)
def test_far_deformations_rebuild_and_stay_exact(deform, monkeypatch):
    """Stay exact however far a body deforms, and rebuild the tree when it has become loose."""
    monkeypatch.setattr(tree, "REBUILD_GROWTH", 2.0)
    a, b = shapes.icosphere(4), shapes.icosphere(3, center=(0.9, 0.2, 0.1))
    rest = np.array(a.vertices)
    detector = BoxTree(a, b)
    growth = []
    for t in np.linspace(0.0, 1.0, 6):
        a.update(deform(rest, t))
        assert_equals_brute_force(detector)
        assert_valid_tree(a)
        growth.append(tree_of(a).growth)

    assert max(growth) <= tree.REBUILD_GROWTH
    assert deform is turn_inside_out or tree_of(a).builds > 1  # which lets blocks grow less than that


def test_far_deformations_really_loosen_the_tree(monkeypatch):
    """Let boxes grow under an explosion when nothing is rebuilt, which a rebuild would correct."""
    monkeypatch.setattr(tree, "REBUILD_GROWTH", np.inf)
    a, b = shapes.icosphere(4), shapes.icosphere(3)
    detector = BoxTree(a, b)
    detector.query()
    a.update(explode(np.array(a.vertices), 5.0))
    detector.query()

    assert tree_of(a).growth > 2.0


def test_body_against_itself_moved():
    """Take one body on both sides, with different transforms."""
    body = shapes.bumpy_sphere(3)
    move = np.eye(4)
    move[0, 3] = 0.7
    detector = BoxTree(body, body)

    assert assert_equals_brute_force(detector, transform_b=move) > 50
    assert assert_equals_brute_force(detector) >= body.live_count


def test_buffers_grow_when_results_do(rng):
    """Find every pair although the first query has far less room than they need."""
    a, b = soup(rng, 300, size=1.0), soup(rng, 300, size=1.0)
    detector = BoxTree(a, b)
    detector._block_pairs = detector._block_pairs[:1]
    detector._keys = detector._keys[:, :1]

    assert assert_equals_brute_force(detector) > 10_000


@pytest.mark.parametrize("offset", [0.0, 1e6, -1e12])
@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1.0, 1e8, 1e150])
def test_any_scale_and_place(rng, scale, offset):
    """Be exact at scales from 1e-150 to 1e150 and far away from the origin."""
    a, b = soup(rng, 60), soup(rng, 60)
    for body in (a, b):
        body.update(scale * (np.array(body.vertices) + offset))

    assert_equals_brute_force(BoxTree(a, b))
    assert_equals_brute_force(BoxTree(a))


def test_queries_on_shared_bodies_from_many_threads():
    """Let threads query detectors that share bodies, while another moves one of them."""
    scene = scenes.get("bumpy_spheres_1k")
    a, b = scene.surfaces
    frames = [scene.positions(t) for t in (0.0, 0.5)]
    answers = []
    for positions in frames:
        a.update(positions[0])
        answers.append(impinge.triangle_pairs(a, b, method="brute_force").pairs.tobytes())
    b_rest = np.array(b.vertices)
    found: set[bytes] = set()

    def ask():
        for _ in range(30):
            found.add(BoxTree(a, b).query().pairs.tobytes())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for step in range(60):
        a.update(frames[step % 2][0])
    for thread in threads:
        thread.join()

    np.testing.assert_array_equal(b.vertices, b_rest)
    assert found <= set(answers)


def test_any_pair_stops_early_and_is_right(rng):
    """Tell whether anything meets, on scenes that barely do and barely do not, with all options."""
    a, b = shapes.icosphere(3), shapes.icosphere(3)
    detector = BoxTree(a, b)
    answers = []
    for gap in (1.9, 1.999, 2.0, 2.001, 2.1):
        move = np.eye(4)
        move[0, 3] = gap
        expected = len(detector.query(transform_b=move)) > 0
        answers.append(expected)
        assert detector.any_pair(transform_b=move) == expected
        assert impinge.collides(a, b, transform_b=move) == expected
        everything = detector.query(transform_b=move).pairs
        assert not detector.any_pair(transform_b=move, ignore=everything)
        assert not detector.any_pair(transform_b=move, active_a=[])

    assert set(answers) == {True, False}
    assert not BoxTree(a).any_pair()
