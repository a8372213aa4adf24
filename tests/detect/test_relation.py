"""How two bodies stand to each other, containment included."""

from __future__ import annotations

import json

import numpy as np
import pytest

import impinge
import oracle
from impinge import scenes, shapes
from impinge.detect.containment import points_in_surface
from impinge.detect.pair_query import make_side

pytestmark = pytest.mark.small


@pytest.mark.parametrize("name", [n for n in scenes.SMALL if "relation" in scenes.get(n).expected])
def test_relations_known_by_hand(name):
    """Tell disjoint, touching, crossing and contained bodies apart."""
    scene = scenes.get(name)
    report = impinge.check(*scene.bodies)

    assert report.relation == scene.expected["relation"]
    assert bool(report) == impinge.collides(*scene.bodies) == (report.relation != "disjoint")
    assert json.loads(json.dumps(report.to_dict()))["relation"] == report.relation


def test_containment_needs_a_closed_body():
    """Find a body inside a closed one, in either order, and none inside an open one."""
    outer, inner = shapes.icosphere(2), shapes.box(0.2)
    assert impinge.check(inner, outer).relation == "a in b"
    assert impinge.check(outer, inner).relation == "b in a"

    outer.remove_triangles([0])
    assert impinge.check(inner, outer).relation == "disjoint"


def test_one_piece_of_many_inside():
    """Find a single piece of a body that lies inside another, whichever piece it is."""
    outer = shapes.box(1.0)
    far, near = shapes.box(0.1, (5.0, 0.0, 0.0)), shapes.box(0.1, (0.2, 0.0, 0.0))
    both = (np.concatenate([far.vertices, near.vertices]), np.concatenate([far.faces, near.faces + len(far.vertices)]))

    assert impinge.check(both, outer).relation == "a in b"


def test_transforms_move_containment_too():
    """Look for containment where the transforms put the bodies."""
    away = np.eye(4)
    away[0, 3] = 10.0
    outer, inner = shapes.icosphere(2), shapes.box(0.2)

    assert impinge.check(inner, outer, transform_a=away).relation == "disjoint"
    assert impinge.check(inner, outer, transform_a=away, transform_b=away).relation == "a in b"


def test_points_in_surface_against_the_oracle(rng):
    """Agree with rational ray casting on integer points of an integer surface, most of them degenerate."""
    body = shapes.box(4.0, cells=(2, 2, 2))
    x = np.array(body.vertices)
    x[rng.random(len(x)) < 0.3] *= 0.5  # dents with exact coordinates
    side = make_side(impinge.TriMesh(x, body.faces), None, None, "a")
    points = rng.integers(-3, 4, (120, 3)).astype(np.float64)
    expected = [oracle.point_in_closed_surface(p.tolist(), x.tolist(), body.faces.tolist()) >= 0 for p in points]

    np.testing.assert_array_equal(points_in_surface(points, side), expected)
    assert 0.1 < np.mean(expected) < 0.9
