"""Every method that finds triangle pairs, held to the oracle and to its options. New methods join by the registry."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import impinge
import stress
from impinge import scenes
from impinge.errors import MeshError, OptionError
from impinge.queries import PAIR_METHODS, pair_detector

METHODS = sorted(PAIR_METHODS)
KIND_NAMES = {kind.value: kind.name.lower() for kind in impinge.Kind}

pytestmark = pytest.mark.parametrize("method", METHODS)


def ask(method, **options):
    """A method as the stress tool wants it."""

    def detector(vertices_a, faces_a, vertices_b, faces_b):
        result = impinge.triangle_pairs((vertices_a, faces_a), (vertices_b, faces_b), method=method, **options)
        return result.pairs, result.kind

    return detector


def ask_self(method):
    def detector(vertices, faces):
        result = impinge.self_pairs((vertices, faces), method=method)
        return result.pairs, result.kind

    return detector


@pytest.mark.small
@pytest.mark.tiny
def test_one_round_of_stress(method):
    """Agree with the rational oracle on one small scene of every adversarial generator."""
    counts = stress.run(ask(method), 1, seed=1, kind_names=KIND_NAMES, size=4)
    stress.run_self(ask_self(method), 1, seed=1, kind_names=KIND_NAMES, size=4)

    assert counts["pairs"] > 100


def test_rounds_of_stress(method):
    """Agree with the rational oracle on twenty adversarial scenes of every generator, with every kind among them."""
    counts = stress.run(ask(method), 20, seed=1000, kind_names=KIND_NAMES)
    counts.update(stress.run_self(ask_self(method), 20, seed=1000, kind_names=KIND_NAMES))

    assert all(counts[kind] > 1000 for kind in KIND_NAMES.values())


@pytest.mark.slow
def test_thousands_of_rounds_of_stress(method):
    """Agree with the rational oracle on four thousand adversarial scenes of every generator."""
    counts = stress.run(ask(method), 4000, seed=50_000, kind_names=KIND_NAMES)
    counts.update(stress.run_self(ask_self(method), 4000, seed=50_000, kind_names=KIND_NAMES))

    assert counts["scenes"] == 4000 * (len(stress.PAIRS) + len(stress.SELF))
    assert all(counts[kind] > 200_000 for kind in KIND_NAMES.values())


@pytest.mark.parametrize("name", [n for n in scenes.SMALL if "pairs" in scenes.get(n).expected])
@pytest.mark.small
def test_scenes_with_known_answers(method, name):
    """Find as many pairs, of the kinds, as were derived by hand."""
    scene = scenes.get(name)
    result = impinge.triangle_pairs(*scene.surfaces, method=method)

    assert len(result) == scene.expected["pairs"]
    if "kinds" in scene.expected:
        found = {kind: count for kind, count in result.count_by_kind().items() if count}
        assert found == scene.expected["kinds"]


@pytest.mark.parametrize("name", scenes.SMALL)
@pytest.mark.small
def test_swapped_bodies_transpose_the_result(method, name):
    """Find (j, i) for b and a where (i, j) is found for a and b."""
    a, b = scenes.get(name).surfaces
    forward = impinge.triangle_pairs(a, b, method=method)
    backward = impinge.triangle_pairs(b, a, method=method)

    order = np.lexsort(forward.pairs.T)
    np.testing.assert_array_equal(backward.pairs, forward.pairs[order][:, ::-1])
    np.testing.assert_array_equal(backward.kind, forward.kind[order])


@pytest.mark.small
def test_result_is_sorted_unique_and_typed(method):
    """Return int32 pairs, sorted by (a, b), each once, complete, with what was counted."""
    result = impinge.triangle_pairs(*scenes.get("bumpy_spheres_1k").surfaces, method=method)

    assert result.pairs.dtype == np.int32
    assert result.kind.dtype == np.int8
    np.testing.assert_array_equal(result.pairs, np.unique(result.pairs, axis=0))
    assert result.complete
    assert result.reason is None
    assert result.method == method
    assert result.stats["hits"] == len(result) > 0
    assert result.elapsed_ms > 0.0


@pytest.mark.small
def test_empty_and_single_triangles(method):
    """Take bodies of no and of one triangle."""
    none = impinge.TriMesh([], [])
    one = impinge.TriMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])

    assert len(impinge.triangle_pairs(none, none, method=method)) == 0
    assert len(impinge.triangle_pairs(one, none, method=method)) == 0
    assert len(impinge.self_pairs(none, method=method)) == 0
    assert len(impinge.self_pairs(one, method=method)) == 0
    assert impinge.triangle_pairs(one, one, method=method).pairs.tolist() == [[0, 0]]


@pytest.mark.small
def test_transforms_give_the_pairs_of_the_transformed_vertices(method, rng):
    """Answer for exactly the positions that transform_points computes, bit for bit."""
    a, b = scenes.get("bumpy_spheres_1k").surfaces
    for _ in range(5):
        matrix_a, matrix_b = np.eye(4), np.eye(4)
        matrix_a[:3] += 0.2 * rng.standard_normal((3, 4))
        matrix_b[:3] += 0.2 * rng.standard_normal((3, 4))
        result = impinge.triangle_pairs(a, b, method=method, transform_a=matrix_a, transform_b=matrix_b)
        moved_a = (impinge.transform_points(matrix_a, a.vertices), a.faces)
        moved_b = (impinge.transform_points(matrix_b, b.vertices), b.faces)
        expected = impinge.triangle_pairs(moved_a, moved_b, method=method)

        np.testing.assert_array_equal(result.pairs, expected.pairs)
        assert len(result) > 20


@pytest.mark.small
def test_active_triangles_and_removed_ones(method, rng):
    """Leave out exactly the pairs of triangles that are not active, or dead."""
    a, b = scenes.get("bumpy_spheres_1k").surfaces
    everything = impinge.triangle_pairs(a, b, method=method).pairs
    keep_a = rng.random(len(a.faces)) < 0.6
    keep_b = np.flatnonzero(rng.random(len(b.faces)) < 0.6)
    expected = everything[keep_a[everything[:, 0]] & np.isin(everything[:, 1], keep_b)]

    active = impinge.triangle_pairs(a, b, method=method, active_a=keep_a, active_b=keep_b)
    np.testing.assert_array_equal(active.pairs, expected)
    a.remove_triangles(~keep_a)
    b.remove_triangles(np.setdiff1d(np.arange(len(b.faces)), keep_b))
    np.testing.assert_array_equal(impinge.triangle_pairs(a, b, method=method).pairs, expected)
    assert 0 < len(expected) < len(everything)


@pytest.mark.small
def test_ignored_pairs(method):
    """Leave out ignored pairs, in either order within one body, and no others."""
    a, b = scenes.get("bumpy_spheres_1k").surfaces
    everything = impinge.triangle_pairs(a, b, method=method).pairs
    result = impinge.triangle_pairs(a, b, method=method, ignore=everything[::2])
    np.testing.assert_array_equal(result.pairs, everything[1::2])

    soup = stress.scene("self_soup", 3, 12)
    all_self = impinge.self_pairs(soup, method=method).pairs
    assert len(impinge.self_pairs(soup, method=method, ignore=all_self[:, ::-1])) == 0


@pytest.mark.small
def test_max_pairs_is_no_silent_cap(method):
    """Return the first pairs in order, and say that more were left out; say nothing where none were."""
    a, b = scenes.get("bumpy_spheres_1k").surfaces
    everything = impinge.triangle_pairs(a, b, method=method).pairs
    cut = impinge.triangle_pairs(a, b, method=method, max_pairs=10)
    enough = impinge.triangle_pairs(a, b, method=method, max_pairs=len(everything))

    np.testing.assert_array_equal(cut.pairs, everything[:10])
    assert (cut.complete, cut.reason) == (False, "limit")
    assert (enough.complete, enough.reason) == (True, None)


@pytest.mark.small
def test_cancel(method):
    """Stop when cancelled, and say that the answer is not complete."""
    cancel = threading.Event()
    cancel.set()
    result = impinge.triangle_pairs(*scenes.get("bumpy_spheres_1k").surfaces, method=method, cancel=cancel)

    assert (result.complete, result.reason) == (False, "cancelled")


@pytest.mark.small
def test_cancel_that_is_taken_back(method):
    """Say that the answer is not complete where the wish to stop was seen once and then taken back."""

    class Wavering:
        looks = 0

        def is_set(self) -> bool:
            """Yes at the first look, no ever after."""
            self.looks += 1
            return self.looks == 1

    surfaces = scenes.get("bumpy_spheres_1k").surfaces
    result = impinge.triangle_pairs(*surfaces, method=method, cancel=Wavering())

    assert (result.complete, result.reason) == (False, "cancelled")


@pytest.mark.small
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_pairs": 0}, "max_pairs is 0, expected a whole number from 1"),
        ({"max_pairs": 2.5}, "max_pairs is 2.5"),
        ({"cancel": 7}, "cancel is 7, expected an object with is_set"),
        ({"transform_a": np.eye(3)}, r"transform_a has shape \(3, 3\), expected \(4, 4\)"),
        ({"active_b": [99_999]}, "active_b contains id 99999, but ids go from 0 to 1279"),
        ({"active_a": [True, False]}, r"active_a is a mask of shape \(2,\), expected \(1280,\)"),
        ({"ignore": [[-1, 0]]}, "ignore holds a negative triangle id"),
    ],
)
def test_bad_options(method, options, message):
    """Refuse options out of range with a sentence."""
    with pytest.raises(OptionError, match=message):
        impinge.triangle_pairs(*scenes.get("bumpy_spheres_1k").surfaces, method=method, **options)


@pytest.mark.small
def test_unknown_options_and_bodies(method):
    """Name what is not known: a method, a neighbour policy, a body."""
    a, b = scenes.get("crossing_triangles").surfaces
    with pytest.raises(OptionError, match=f"method is 'magic', expected 'auto' or .*'{method}'"):
        impinge.triangle_pairs(a, b, method="magic")
    with pytest.raises(OptionError, match="neighbours is 'maybe', expected one of 'exact', 'skip'"):
        impinge.self_pairs(a, neighbours="maybe", method=method)
    with pytest.raises(MeshError, match=r"b is a builtins\.int; expected a TriMesh"):
        impinge.triangle_pairs(a, 7, method=method)
    with pytest.raises(TypeError, match="colour"):
        impinge.triangle_pairs(a, b, method=method, colour="red")


@pytest.mark.small
def test_skipping_neighbours(method):
    """Leave out every pair that shares a vertex, and no other, with neighbours="skip"."""
    for name in stress.SELF:
        vertices, faces = stress.scene(name, 5, 12)
        every = impinge.self_pairs((vertices, faces), method=method).pairs
        skipped = impinge.self_pairs((vertices, faces), neighbours="skip", method=method).pairs
        strangers = [not set(faces[i]) & set(faces[j]) for i, j in every]

        np.testing.assert_array_equal(skipped, every[np.array(strangers, dtype=bool)])


def test_updates_are_seen(method):
    """Answer for the positions of the moment, frame after frame, with a detector that is kept."""
    scene = scenes.get("bumpy_spheres_1k")
    a, b = scene.surfaces
    detector = pair_detector(method)(a, b)
    for frame in range(5):
        scene.move(frame / 5)
        fresh = impinge.triangle_pairs((a.vertices, a.faces), (b.vertices, b.faces), method="brute_force")

        np.testing.assert_array_equal(detector.query().pairs, fresh.pairs)


DIGESTS = """
import hashlib, json, impinge
from impinge.queries import PAIR_METHODS
turn = [[0.8, -0.6, 0.0, 0.1], [0.6, 0.8, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
digests = {}
for method in sorted(PAIR_METHODS):
    pair = impinge.triangle_pairs(*impinge.scenes.get("bumpy_spheres_20k").surfaces, method=method)
    surfaces = impinge.scenes.get("bumpy_spheres_20k").surfaces
    moved = impinge.triangle_pairs(*surfaces, method=method, transform_b=turn)
    knot = impinge.shapes.torus_knot(2, 3, 120, 20, tube_radius=0.41)
    one, skip = (impinge.self_pairs(knot, method=method, neighbours=n) for n in ("exact", "skip"))
    arrays = [x for r in (pair, moved, one, skip) for x in (r.pairs, r.kind)]
    assert all(map(len, arrays))
    digests[method] = hashlib.sha256(b"".join(x.tobytes() for x in arrays)).hexdigest()
print(json.dumps([impinge.thread_count(), digests]))
"""
"""Prints a digest of the results of each method."""


@pytest.fixture(scope="module")
def digests() -> dict[int, dict[str, str]]:
    """Digests by thread count and method; one process for each thread count."""
    found = {}
    for count in ("1", "2", "4"):
        environment = {**os.environ, "NUMBA_NUM_THREADS": count}
        command = [sys.executable, "-c", DIGESTS]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        threads, by_method = json.loads(done.stdout)
        found[threads] = by_method
    return found


def test_same_bits_for_any_thread_count(method, digests):
    """Give the same pairs and kinds with 1, 2 and 4 threads."""
    assert sorted(digests) == [1, 2, 4]
    assert len({by_method[method] for by_method in digests.values()}) == 1


def test_eight_python_threads_ask_at_once(method):
    """Let eight Python threads query different detectors at the same time, each on threads of its own."""
    name = "bumpy_spheres_1k" if method == "brute_force" else "bumpy_spheres_20k"
    surfaces = [scenes.get(name).surfaces for _ in range(8)]
    expected = impinge.triangle_pairs(*surfaces[0], method=method).pairs
    answers: list[bool] = []

    def work(pair):
        detector = pair_detector(method)(*pair)
        answers.extend(np.array_equal(detector.query().pairs, expected) for _ in range(10))

    threads = [threading.Thread(target=work, args=(pair,)) for pair in surfaces]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(answers) == 80
    assert all(answers)
