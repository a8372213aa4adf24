"""Choice of a method by the shipped costs, reported in the result, independent of the clock."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import impinge
from benchmarks import auto_fit
from impinge import queries, scenes
from impinge.budget import Budget
from impinge.detect.common.pair_query import PairOptions
from impinge.errors import ImpingeError, OptionError
from impinge.mesh import shapes
from impinge.world import auto


@pytest.fixture(autouse=True)
def _forget_choices():
    """Clear cached choices: tests bring their own costs."""
    auto.choose_pairs.cache_clear()
    yield
    auto.choose_pairs.cache_clear()


def test_costs_are_complete():
    """Ship a cost of at least 0 for each term of each method, and a machine that they are from."""
    shipped = json.loads(auto.COSTS.read_text(encoding="utf-8"))

    assert set(shipped["microseconds"]) == set(auto_fit.METHODS) <= set(queries.PAIR_METHODS)
    for terms in shipped["microseconds"].values():
        assert set(terms) == set(auto.Terms._fields)
        assert min(terms.values()) >= 0.0
        assert max(terms.values()) > 0.0
    assert set(shipped["contacts"]) == {"pair", "test", "spheres"}
    assert min(shipped["contacts"].values()) > 0.0
    assert "cores" in shipped["machine"]


@pytest.mark.parametrize("name", scenes.SMALL)
def test_auto_says_what_it_chose_and_finds_the_same(name):
    """Equal brute force, and report the method and the reason."""
    a, b = scenes.get(name).surfaces[:2]
    found = impinge.triangle_pairs(a, b)

    np.testing.assert_array_equal(found.pairs, impinge.triangle_pairs(a, b, method="brute_force").pairs)
    assert found.method == found.stats["chosen"] in auto_fit.METHODS
    assert "about" in found.stats["why"]
    assert "chosen" not in impinge.triangle_pairs(a, b, method="box_tree").stats


FREE = auto.Terms(*[0.0] * 9)


def choose_pairs(a, b):
    """Choose a method as ``triangle_pairs`` does."""
    return auto.choose_pairs(auto.features(a, b, remember=True))


def two_balls():
    return shapes.icosphere(2), shapes.icosphere(2, center=(0.5, 0.0, 0.0))


def test_the_choice_follows_the_costs(monkeypatch):
    """Take the method with the least sum of terms, and look at trees that are kept."""
    a, b = two_balls()
    made_up = {
        "box_tree": FREE._replace(call=1.0, new=1.0),
        "brute_force": FREE._replace(call=100.0),
        "spatial_hash": FREE._replace(pair=1.0),
    }
    monkeypatch.setattr(auto, "costs", lambda: made_up)

    assert auto.features(a, b) == (1, 2, 0, 0, 640, 0, 640, 320, 320 * 320)
    impinge.BoxTree(a, b)
    assert auto.features(a, b) == (1, 0, 0, 0, 640, 0, 0, 320, 320 * 320)
    assert auto.features(a, None) == (1, 0, 0, 0, 320, 320, 0, 320, 320 * 320 / 2)
    assert choose_pairs(a, b) == (
        "box_tree",
        "about 1 us for 640 triangles, 0 of them new to a tree, and 0 transforms; brute_force about 100 us",
    )
    assert choose_pairs(*two_balls())[0] == "brute_force"


def test_the_choice_looks_at_edits_transforms_and_active_triangles():
    """Count triangles that were edited since the last question, that are active, and bodies that a transform moves."""
    a, b = two_balls()
    choose_pairs(a, b)
    assert auto.features(a, b) == (1, 0, 0, 0, 640, 0, 0, 320, 320 * 320)
    rigid = PairOptions(transform_a=np.eye(4), transform_b=np.eye(4))
    assert auto.features(a, b, rigid).transform == 2
    assert auto.features(a, None, rigid).transform == 1
    some = PairOptions(active_a=[3, 4, 5], active_b=np.arange(320) < 12)
    assert auto.features(a, b, some) == (1, 0, 0, 0, 15, 0, 0, 6, 36)
    b.remove_triangles([0, 1, 2])
    b.add_triangles([[0, 1, 2]])
    assert auto.features(a, b)[:7] == (1, 0, 1, 0, 638, 0, 4)
    b.remove_triangles(np.arange(200))
    assert auto.features(a, b)[:7] == (1, 1, 0, 0, 320 + len(b), 0, len(b))  # enough edits for a rebuild
    choose_pairs(a, b)
    b.compact()
    assert auto.features(a, b).new == len(b)
    choose_pairs(a, b)
    assert auto.features(a, b).new == 0


def test_bodies_that_are_made_anew_need_no_tree():
    """Take what keeps nothing for bodies that are new in each frame, and a tree as soon as they stay as they are."""
    a, b = shapes.bumpy_sphere(4), shapes.bumpy_sphere(4, center=(1.1, 0.4, 0.2))
    chosen = []
    for frame in range(8):
        if frame < 4:
            for body in (a, b):
                body.add_triangles(body.faces[body.alive])
                body.remove_triangles(np.arange(len(body.faces) // 2))
                body.compact()
        chosen.append(impinge.triangle_pairs(a, b).method)
    assert chosen == ["gjk_cut"] * 4 + ["box_tree"] * 4


def test_wrong_options_are_refused_before_the_choice():
    """Say what is wrong with active triangles in the words of the methods."""
    a, b = two_balls()
    with pytest.raises(OptionError, match="active_b contains id 320, but ids go from 0 to 319"):
        impinge.triangle_pairs(a, b, active_b=[320])


def test_trees_are_built_for_who_asks_again(monkeypatch):
    """Leave out the cost of building trees from the second query on."""
    made_up = {"box_tree": FREE._replace(new=1.0), "brute_force": FREE._replace(call=100.0)}
    monkeypatch.setattr(auto, "costs", lambda: made_up)
    a, b = two_balls()

    assert [impinge.triangle_pairs(a, b).method for _ in range(3)] == ["brute_force", "box_tree", "box_tree"]


def test_the_same_question_gets_the_same_method():
    """Choose the same method for copies of bodies, independent of earlier queries."""
    chosen = set()
    for _ in range(3):
        a, b = shapes.box(1.0), shapes.box(1.0, center=(0.5, 0.0, 0.0))
        chosen.add(choose_pairs(a, b))
        impinge.triangle_pairs(a, b)
    assert len(chosen) == 1


def test_worlds_choose_by_what_is_closed():
    """Choose vertices if a body is closed, otherwise pairs."""
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
    world.add(shapes.tet_box(1, 1, 1, size=0.1))
    assert world.contacts().stats["chosen"] == "vertices"
    assert world.contacts().stats["why"] == "2 of 4 bodies are closed: vertices inside them have depths"
    assert "; 1 tet meshes report self-penetration depth, 3 curves" in world.contacts(self_collision=True).stats["why"]


@pytest.mark.parametrize(
    ("tests", "budget", "chosen"),
    [
        ([10, 20, 1000], {"max_tests": 30}, None),
        ([10, 2000, 1000], {"max_tests": 30}, "spheres"),
        ([10, 2000, 1000], {"max_tests": 1}, "spheres"),
        ([], {"max_tests": 1}, None),
        ([100_000, 900_000], {"budget_ms": 0.2}, None),
        ([900_000], {"budget_ms": 0.5}, "spheres"),
        ([10] * 1000, {"budget_ms": 0.5}, None),
    ],
    ids=["most fit", "most do not", "nothing fits", "no pairs", "half fits", "one too large",
         "so many that spheres reach fewer"],
)  # fmt: skip
def test_budgets_that_are_too_short_go_to_spheres(monkeypatch, tests, budget, chosen):
    """Choose spheres if the budget suffices for the vertices of less than half of the pairs, and spheres reach more."""
    monkeypatch.setattr(auto, "contact_costs", lambda: {"pair": 2.0, "test": 0.001, "spheres": 100.0})
    found = auto.choose_within_budget(np.array(tests, dtype=np.int64), Budget(**budget))

    assert (found[0] if found else None) == chosen
    if found:
        assert found[1].endswith(f"of {len(tests)} near pairs")


def made_up_samples(true, count=60):
    rng = np.random.default_rng(5)
    for _ in range(count):
        n, m = 10.0 ** rng.uniform(0, 5, 2)
        new, patched, posed = rng.integers(0, 2, 3)
        alone = float(rng.integers(0, 2)) * (n + m)
        terms = auto.Terms(1, 2 * new, 2 * patched, posed, n + m, alone, new * (n + m), np.sqrt(n * m), n * m)
        times = {method: [1e-3 * float(np.dot(terms, cost))] for method, cost in true.items()}
        yield auto_fit.Sample("made up", terms, times, "box_tree")


def test_costs_are_found_again():
    """Fit the costs that times were made from, and choose the best method by them."""
    rng = np.random.default_rng(5)
    true = {method: auto.Terms(*10.0 ** rng.uniform(-3, 0, 9)) for method in auto_fit.METHODS}
    samples = list(made_up_samples(true))
    fitted = auto_fit.fit(samples)

    for method, cost in true.items():
        np.testing.assert_allclose(fitted[method], cost, rtol=1e-2)
    assert all(auto_fit.chosen_by(fitted, sample) == sample.best() for sample in samples)


def test_costs_are_moved_until_choices_are_good():
    """Choose better than by least squares where times do not follow the model, and not worse anywhere else."""
    rng = np.random.default_rng(8)
    true = {method: auto.Terms(*10.0 ** rng.uniform(-3, 0, 9)) for method in auto_fit.METHODS}
    samples = []
    for sample in made_up_samples(true):
        times = {method: [value * rng.uniform(0.3, 3.0) for value in of] for method, of in sample.milliseconds.items()}
        samples.append(sample._replace(milliseconds=times))
    fitted = auto_fit.fit(samples)
    moved = auto_fit.improved(fitted, samples)
    before, after = (
        np.array([sample.ratio(auto_fit.chosen_by(costs, sample)) for sample in samples]) for costs in (fitted, moved)
    )

    assert before.max() > 1.5
    assert ((after - 1.0) ** 4).sum() < 0.8 * ((before - 1.0) ** 4).sum()
    assert min(min(terms) for terms in moved.values()) >= 0.0


def test_quick_run_judges_auto():
    """Give a row for each method, scene and state, and say how far auto is from the best, and where it is worst."""
    *rows, worst = auto_fit.run(quick=True)

    assert {row.scene for row in rows} == {f"{name}, {state}" for name in auto_fit.QUICK for state in auto_fit.STATES}
    assert {row.candidate for row in rows} == {"auto", *auto_fit.METHODS}
    of_auto = [row for row in rows if row.candidate == "auto"]
    assert all("times the best" in row.note for row in of_auto)
    assert worst.scene.startswith("worst: ")
    assert worst.ratio == max(row.ratio for row in of_auto)
    assert min(row.ratio for row in rows if row.candidate != "auto") == 1.0


def test_costs_are_measured_and_written(tmp_path, monkeypatch, capsys):
    """Write costs that the package can ship, and print how the choice by them does, the worst first."""
    monkeypatch.setattr(auto_fit.scenes, "names", lambda: auto_fit.QUICK[:1])
    monkeypatch.setattr(auto_fit, "ROUNDS", 1)
    path = tmp_path / "costs.json"
    auto_fit.main(str(path))
    written, shipped = (json.loads(p.read_text(encoding="utf-8")) for p in (path, auto.COSTS))

    assert written.keys() == shipped.keys()
    assert written["microseconds"].keys() == shipped["microseconds"].keys()
    assert written["contacts"].keys() == shipped["contacts"].keys()
    printed = [float(line.split()[0]) for line in capsys.readouterr().out.splitlines()]
    assert len(printed) == len(auto_fit.STATES)
    assert printed == sorted(printed, reverse=True)


def test_methods_that_disagree_are_not_timed(monkeypatch):
    """Refuse to fit costs to answers that differ."""

    class Wrong(impinge.BruteForce):
        def find(self, options):
            found = super().find(options)
            return dataclasses.replace(found, pairs=found.pairs[:1], kind=found.kind[:1])

    right = queries.pair_detector
    monkeypatch.setattr(queries, "pair_detector", lambda name: Wrong if name == "brute_force" else right(name))
    with pytest.raises(ImpingeError, match="methods disagree about boxes_overlapping_by_half"):
        auto_fit.run(quick=True)
