"""Impacts of all bodies of a world, against a query per pair."""

from __future__ import annotations

import numpy as np
import pytest

import impinge
from cancel_after import CancelAfter
from impinge import shapes
from impinge.world.world_impacts import COLUMNS
from moving_features import moved, soup

pytestmark = pytest.mark.small


def world_of(bodies):
    world = impinge.World()
    for k, body in enumerate(bodies):
        world.add(body, name=f"b{k}")
    return world


def test_every_pair_is_searched(rng):
    """Equal a query for each pair of bodies of which one moves."""
    bodies = [soup(rng, 5) for _ in range(5)]
    world = world_of(bodies)
    ends = {f"b{k}": moved(rng, bodies[k].vertices) for k in (0, 2, 4)}
    found = world.impacts(ends, self_impacts=True)
    hits = 0
    for i in range(5):
        for j in range(i, 5):
            rows = found.rows((found.body_a == i) & (found.body_b == j))
            end_i, end_j = ends.get(f"b{i}"), ends.get(f"b{j}")
            if end_i is None and end_j is None:
                assert len(rows) == 0
                continue
            if i == j:
                expected = impinge.impacts(bodies[i], end_a=end_i)
            else:
                expected = impinge.impacts(bodies[i], bodies[j], end_a=end_i, end_b=end_j)
            assert all(getattr(rows, name).tobytes() == getattr(expected, name).tobytes() for name in COLUMNS)
            hits += len(rows)

    assert hits == len(found) > 80
    keys = (found.feature_b, found.feature_a, found.kind, found.body_b, found.body_a, found.time)
    assert (np.lexsort(keys) == np.arange(hits)).all()
    assert found.names == world.names
    first = world.impacts(ends, self_impacts=True, first_only=True)
    assert first.vertices.tolist() == found.rows(found.time_lo <= found.time_hi.min()).vertices.tolist()
    assert not (world.impacts(ends).body_a == world.impacts(ends).body_b).any()


def test_transforms_groups_and_fixed_bodies():
    """Move bodies by pairs of matrices; leave out ignored pairs; see a body that is far at both ends."""
    down = np.eye(4)
    down[2, 3] = -20.0
    world = world_of([shapes.box(1.0, center=(0.0, 0.0, 10.0)), shapes.cloth_grid(4, 4), shapes.box(0.2)])
    found = world.impacts({"b0": (np.eye(4), down)})

    assert set(zip(found.body_a.tolist(), found.body_b.tolist())) == {(0, 1), (0, 2)}
    world.ignore("b0", "b1")
    assert set(world.impacts({"b0": [np.eye(4), down]}).body_b.tolist()) == {2}
    assert len(world.impacts({})) == 0


def test_bad_input_and_cancel(rng):
    """Name what is wrong, and say if the search was cancelled."""
    world = world_of([soup(rng, 3), soup(rng, 3)])
    end = np.zeros((9, 3))
    for ends, options, message in (
        ([], {}, r"ends is \[\], expected a dict"),
        ({"x": end}, {}, "ends has 'x', but there is no body"),
        ({"b0": np.zeros((3, 4, 4))}, {}, r"ends\['b0'\] has shape \(3, 4, 4\)"),
        ({"b0": end}, {"margin": -1}, "margin is -1"),
        ({"b0": end}, {"self_impacts": 1}, "self_impacts is 1"),
        ({"b0": end}, {"at_start": "no"}, "at_start is 'no'"),
    ):
        with pytest.raises(impinge.OptionError, match=message):
            world.impacts(ends, **options)
    with pytest.raises(impinge.MeshError, match=r"ends\['b0'\] have 2 rows"):
        world.impacts({"b0": np.zeros((2, 3))})
    stopped = world.impacts({"b0": end}, cancel=CancelAfter(0))
    assert (stopped.complete, stopped.reason, stopped.certain_until) == (False, "cancelled", 0.0)
