"""Which method fits: by the costs that are shipped, said in the result, and never by the clock."""

from __future__ import annotations

import json

import numpy as np
import pytest

import impinge
from impinge import auto, queries, scenes
from impinge.bench import auto_fit
from impinge.errors import ImpingeError
from impinge.mesh import shapes


def test_costs_are_complete():
    """Ship a cost of at least 0 for each term of each method, and a machine that they are from."""
    shipped = json.loads(auto.COSTS.read_text(encoding="utf-8"))

    assert set(shipped["microseconds"]) == set(auto_fit.METHODS) <= set(queries.PAIR_METHODS)
    for terms in shipped["microseconds"].values():
        assert set(terms) == set(auto.TERMS)
        assert min(terms.values()) >= 0.0
        assert max(terms.values()) > 0.0
    assert "cores" in shipped["machine"]


@pytest.mark.parametrize("name", scenes.SMALL)
def test_auto_says_what_it_chose_and_finds_the_same(name):
    """Find what brute force finds, and tell the method and the reason."""
    a, b = scenes.get(name).surfaces[:2]
    found = impinge.triangle_pairs(a, b)

    np.testing.assert_array_equal(found.pairs, impinge.triangle_pairs(a, b, method="brute_force").pairs)
    assert found.method == found.stats["chosen"] in auto_fit.METHODS
    assert "about" in found.stats["why"]
    assert "chosen" not in impinge.triangle_pairs(a, b, method="box_tree").stats


def test_the_choice_follows_the_costs(monkeypatch):
    """Take the method with the least sum of terms, and look at trees that are kept."""
    a, b = shapes.icosphere(2), shapes.icosphere(2, center=(0.5, 0.0, 0.0))
    free = dict.fromkeys(auto.TERMS, 0.0)
    made_up = {
        "box_tree": {**free, "call": 1.0, "new_triangle": 1.0},
        "brute_force": {**free, "call": 100.0},
        "spatial_hash": {**free, "pair": 1.0},
    }
    monkeypatch.setattr(auto, "costs", lambda: made_up)

    np.testing.assert_array_equal(auto.features(a, b), [1, 640, 640, 320 * 320])
    assert auto.choose_pairs(a, b)[0] == "brute_force"
    impinge.BoxTree(a, b)
    np.testing.assert_array_equal(auto.features(a, b), [1, 640, 0, 320 * 320])
    assert auto.choose_pairs(a, b) == ("box_tree", "about 1 us for 640 triangles; brute_force about 100 us")
    np.testing.assert_array_equal(auto.features(a, None), [1, 320, 0, 320 * 320 / 2])


def test_trees_are_built_for_who_asks_again(monkeypatch):
    """Do not count the building of trees from the second question on, so that frames end up with the quickest way."""
    free = dict.fromkeys(auto.TERMS, 0.0)
    made_up = {"box_tree": {**free, "new_triangle": 1.0}, "brute_force": {**free, "call": 100.0}}
    monkeypatch.setattr(auto, "costs", lambda: made_up)
    a, b = shapes.icosphere(2), shapes.icosphere(2, center=(0.5, 0.0, 0.0))

    assert [impinge.triangle_pairs(a, b).method for _ in range(3)] == ["brute_force", "box_tree", "box_tree"]


def test_the_same_question_gets_the_same_method():
    """Choose the same for copies of bodies, whatever was asked and timed before."""
    chosen = set()
    for _ in range(3):
        a, b = shapes.box(1.0), shapes.box(1.0, center=(0.5, 0.0, 0.0))
        chosen.add(auto.choose_pairs(a, b))
        impinge.triangle_pairs(a, b)
    assert len(chosen) == 1


def test_worlds_choose_by_what_is_closed():
    """Measure depths where something is closed, and look for curves where nothing is."""
    world = impinge.World()
    for shift in (0.0, 0.05):
        cloth = shapes.cloth_grid(4, 4)
        cloth.update(cloth.vertices[:, [0, 1, 2] if shift == 0.0 else [2, 1, 0]] + shift)
        world.add(cloth)
    open_ones = world.contacts()
    assert open_ones.method == open_ones.stats["chosen"] == "pairs"
    assert open_ones.stats["why"].startswith("none of 2 bodies is closed")
    assert len(open_ones) > 0
    world.add(shapes.box(0.5))
    assert world.contacts().stats["chosen"] == "vertices"


def test_costs_are_found_again():
    """Fit the costs that times were made from."""
    rng = np.random.default_rng(5)
    true = {method: 10.0 ** rng.uniform(-3, 0, 4) for method in auto_fit.METHODS}
    samples = []
    for _ in range(40):
        n, m = 10.0 ** rng.uniform(0, 5, 2)
        terms = np.array([1.0, n + m, rng.integers(2) * (n + m), n * m])
        times = {method: 1e-3 * float(terms @ cost) for method, cost in true.items()}
        samples.append(auto_fit.Sample("made up", terms, times, "box_tree", []))
    fitted = auto_fit.fit(samples)

    for method, cost in true.items():
        np.testing.assert_allclose([fitted[method][term] for term in auto.TERMS], cost, rtol=1e-2)


def test_quick_run_judges_auto():
    """Give a row for each method, scene and state, and say how far auto is from the best."""
    rows = auto_fit.run(quick=True)

    assert {row.scene for row in rows} == {f"{name}, {state}" for name in auto_fit.QUICK for state in ("new", "kept")}
    assert {row.candidate for row in rows} == set(auto_fit.METHODS)
    assert all("times the best" in row.note for row in rows)


def test_methods_that_disagree_are_not_timed(monkeypatch):
    """Refuse to fit costs to answers that differ."""

    class Wrong(impinge.BruteForce):
        def query(self, **options):
            return super().query(**options, max_pairs=1)

    monkeypatch.setitem(queries.PAIR_METHODS, "brute_force", Wrong)
    with pytest.raises(ImpingeError, match="methods disagree about boxes_overlapping_by_half"):
        auto_fit.run(quick=True)
