"""The stress scenes and the loop around them: valid, varied, and able to catch a wrong detector."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

import oracle
import stress

SEEDS = range(6)
"""Seeds per generator; enough for every policy case below to occur."""

KIND_NAMES = {0: "touching", 1: "crossing", 2: "coplanar"}


def as_answer(expected):
    """Pairs and kinds as a detector returns them."""
    return np.array(list(expected), dtype=np.int32).reshape(-1, 2), list(expected.values())


def exact(*scene):
    """The oracle, dressed as a detector of pairs between two meshes."""
    return as_answer(stress.expected_pairs(*scene))


def exact_self(*scene):
    """The oracle, dressed as a detector of pairs in one mesh."""
    return as_answer(stress.expected_self_pairs(*scene))


def changed(detector, change):
    """A detector whose list of (pair, kind) is changed before it answers."""

    def wrong(*scene):
        pairs, kinds = detector(*scene)
        listed = change(list(zip(map(tuple, pairs.tolist()), kinds)))
        return np.array([pair for pair, _ in listed], dtype=np.int32).reshape(-1, 2), [k for _, k in listed]

    return wrong


FAULTS = {
    "drops touching": lambda listed: [(p, k) for p, k in listed if k != "touching"],
    "drops coplanar": lambda listed: [(p, k) for p, k in listed if k != "coplanar"],
    "calls coplanar crossing": lambda listed: [(p, "crossing" if k == "coplanar" else k) for p, k in listed],
    "adds a pair": lambda listed: sorted({**dict(listed), (0, 1): "crossing"}.items()),
    "adds a pair that is not there": lambda listed: [*listed, ((99, 100), "crossing")],
    "reports a pair twice": lambda listed: [*listed, *listed[-1:]],
    "forgets to sort": lambda listed: listed[::-1],
}


@pytest.mark.parametrize("name", [*stress.PAIRS, *stress.SELF])
@pytest.mark.parametrize("size", [1, stress.SIZE, 20])
def test_scenes_are_valid_meshes(name, size):
    """Make finite float64 vertices and int32 faces with ids in range, about as many as requested."""
    for seed in SEEDS:
        scene = stress.scene(name, seed, size)
        for x, f in zip(scene[::2], scene[1::2]):
            assert x.dtype == np.float64
            assert f.dtype == np.int32
            assert x.shape[1:] == f.shape[1:] == (3,)
            assert np.isfinite(x).all()
            assert len(f) <= size + 3
            assert f.size == 0 or (f.min() >= 0 and f.max() < len(x))


@pytest.mark.parametrize("name", [*stress.PAIRS, *stress.SELF])
def test_a_seed_names_a_scene(name):
    """Make the same scene from the same seed, and another from another."""
    first, again, other = (stress.scene(name, seed) for seed in (3, 3, 4))
    for p, q in zip(first, again):
        np.testing.assert_array_equal(p, q)
    assert any(p.shape != q.shape or (p != q).any() for p, q in zip(first, other))


def test_all_generators_together_make_every_kind():
    """Find hundreds of pairs of every kind, and neither too few hits nor too many."""
    for count in (
        stress.run(exact, 1, 100) + stress.run(exact, 1, 101),
        stress.run_self(exact_self, 1, 100) + stress.run_self(exact_self, 1, 101),
    ):
        assert count["pairs"] == sum(count[kind] for kind in oracle.KINDS)
        assert count["pairs"] > 1000
        assert 0.1 < 1 - count["none"] / count["pairs"] < 0.6
        assert min(count[kind] for kind in oracle.KINDS) > 40


@pytest.mark.parametrize("name", sorted({*stress.PAIRS, *stress.SELF} - {"self_solid"}))
def test_every_generator_makes_pairs_that_meet(name):
    """Find at least one pair that meets in some seeds of every generator that is not made to have none."""
    expected = stress.expected_pairs if name in stress.PAIRS else stress.expected_self_pairs
    assert any(expected(*stress.scene(name, seed)) for seed in range(20))


def test_clean_solid_has_no_pair():
    """Find nothing on a rotated box: neighbours meet only in what they share, in exact arithmetic too."""
    for seed in SEEDS:
        assert stress.expected_self_pairs(*stress.scene("self_solid", seed)) == {}


def test_every_way_to_share_occurs():
    """Make pairs that share 0 to 3 vertices, count and do not count, with and without repeated indices."""
    count = Counter()
    for name, seed in itertools.product(stress.SELF, range(12)):
        x, f = stress.scene(name, seed)
        expected = stress.expected_self_pairs(x, f)
        for i, j in itertools.combinations(range(len(f)), 2):
            s, t = set(f[i].tolist()), set(f[j].tolist())
            count[len(s & t), len(s) + len(t) < 6, expected.get((i, j), "none")] += 1
    for kind in oracle.KINDS:
        assert count[0, False, kind] > 10
        assert count[1, False, kind] > 10
        assert count[0, True, kind] > 2
    assert count[1, True, "none"] > 10
    assert count[1, True, "coplanar"] > 2
    assert count[1, True, "touching"] > 2
    assert count[2, True, "none"] > 10
    assert count[2, False, "none"] > 10
    assert count[2, False, "coplanar"] > 10
    assert count[3, False, "coplanar"] > 10
    assert count[3, False, "none"] == 0


def test_run_accepts_an_exact_detector():
    """Let an exact detector pass, with kinds as strings and as integers, and count what was compared."""
    number = {name: kind for kind, name in KIND_NAMES.items()}
    as_integers = lambda listed: [(pair, number[kind]) for pair, kind in listed]  # noqa: E731
    assert stress.run(exact, 1, 1)["scenes"] == len(stress.PAIRS)
    assert stress.run_self(exact_self, 1, 1)["scenes"] == len(stress.SELF)
    assert stress.run(changed(exact, as_integers), 1, 1, kind_names=KIND_NAMES) == stress.run(exact, 1, 1)
    assert stress.run_self(changed(exact_self, as_integers), 1, 1, kind_names=KIND_NAMES) == stress.run_self(
        exact_self, 1, 1
    )


def test_rounds_take_one_seed_after_the_other():
    """Compare, in three rounds, the scenes of three seeds."""
    single = [stress.run(exact, 1, seed, names=["few"]) for seed in (7, 8, 9)]

    assert stress.run(exact, 3, 7, names=["few"]) == sum(single, Counter())
    assert single[0] != single[1]


@pytest.mark.parametrize("fault", FAULTS)
def test_run_catches_a_wrong_detector(fault):
    """Raise for each deliberate fault, between two meshes and within one."""
    with pytest.raises(AssertionError, match=r"generator '\w+', seed \d+, size 12: pair"):
        stress.run(changed(exact, FAULTS[fault]), 20)
    with pytest.raises(AssertionError, match=r"generator 'self_\w+', seed \d+, size 12: pair"):
        stress.run_self(changed(exact_self, FAULTS[fault]), 20)


def test_run_catches_neighbours_taken_for_strangers():
    """Raise for a detector that ignores common vertices, and for one that skips all neighbours."""

    def strangers(x, f):
        pairs, kinds = exact(x, f, x, f)
        upper = pairs[:, 0] < pairs[:, 1]
        return pairs[upper], [kind for kind, keep in zip(kinds, upper) if keep]

    def skips(x, f):
        pairs, kinds = exact_self(x, f)
        keep = [not set(f[i]) & set(f[j]) for i, j in pairs]
        return pairs[np.array(keep, dtype=bool)], [kind for kind, k in zip(kinds, keep) if k]

    for wrong in (strangers, skips):
        with pytest.raises(AssertionError, match="pair"):
            stress.run_self(wrong, 20)


def test_run_names_the_scene_that_a_detector_fails_on():
    """Turn an exception of the detector into one that names generator, seed and size."""

    def fails(*scene):
        raise IndexError("out of bounds")

    for go in (stress.run, stress.run_self):
        with pytest.raises(AssertionError, match=r"seed 7, size 12: the detector raised IndexError"):
            go(fails, 1, 7)


def test_run_catches_rounding():
    """Raise for a detector that is exact but sees positions rounded to float32, only on scenes that need more."""

    def rounded(x_a, f_a, x_b, f_b):
        return exact(x_a.astype(np.float32), f_a, x_b.astype(np.float32), f_b)

    stress.run(rounded, 1, names=["grid", "zero_area", "touching_boxes"])
    for name in ("offset", "fans", "ulps", "rotated_plates"):
        with pytest.raises(AssertionError, match=name):
            stress.run(rounded, 20, names=[name])


def test_description_of_a_difference_reproduces_it():
    """Name a scene and a pair whose corners, read back from the message, show the difference again."""
    with pytest.raises(AssertionError) as caught:
        stress.run(changed(exact, FAULTS["drops touching"]), 20)
    head, a, b, alone = str(caught.value).splitlines()
    assert "is touching, reported as none" in head
    corners = [
        [[float.fromhex(c) for c in p.split(", ")] for p in text.partition(" = ")[2][2:-2].split("], [")]
        for text in (a, b)
    ]
    assert oracle.triangle_kind(*corners) == "touching"
    assert alone.endswith("[]")


def test_integers_without_names_are_refused():
    """Say that kind_names is missing when a detector answers in integers."""
    with pytest.raises(ValueError, match="kind_names"):
        stress.run(changed(exact, lambda listed: [(pair, 1) for pair, _ in listed]), 1)
