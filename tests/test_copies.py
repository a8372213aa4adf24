# ruff: noqa: ARG005 - every maker takes all bodies
"""Detectors and results are pickled and copied without their caches, and have a ``repr`` of one line."""

from __future__ import annotations

import copy
import pickle
from functools import cache

import numpy as np
import pytest

import impinge
from impinge import shapes


@cache
def bodies():
    """Two spheres that cross, and two boxes of tets that overlap."""
    a, b = shapes.icosphere(2), shapes.icosphere(2, center=(0.9, 0.2, 0.1))
    return a, b, shapes.tet_box(2, 2, 2), shapes.tet_box(2, 2, 2, center=(0.7, 0.6, 0.5))


DETECTORS = {
    "BoxTree": lambda a, b, s, t: impinge.BoxTree(a, b),
    "BoxTree, self": lambda a, b, s, t: impinge.BoxTree(a, neighbours="skip"),
    "ContinuousTree": lambda a, b, s, t: impinge.ContinuousTree(a, b),
    "ContinuousTree, self": lambda a, b, s, t: impinge.ContinuousTree(a),
    "BreadthFirst": lambda a, b, s, t: impinge.BreadthFirst(a, b, volume="14-dop"),
    "BruteForce": lambda a, b, s, t: impinge.BruteForce(a, b),
    "GjkCut": lambda a, b, s, t: impinge.GjkCut(a, b),
    "SpatialHash": lambda a, b, s, t: impinge.SpatialHash([s, t], cell_size=0.4),
    "SpatialHash, triangles": lambda a, b, s, t: impinge.SpatialHash([a, b]),
    "LayeredDepth": lambda a, b, s, t: impinge.LayeredDepth(a, b, resolution=16),
    "VolumeGradients": lambda a, b, s, t: impinge.VolumeGradients(a, b, resolution=16),
    "SphereTree": lambda a, b, s, t: impinge.SphereTree(a, b, order="priority"),
}
RESULTS = {
    "TrianglePairs": lambda a, b, s, t: impinge.triangle_pairs(a, b),
    "VertexContacts": lambda a, b, s, t: impinge.penetrating_vertices([s, t], depth=True, edges=True),
    "VolumeOverlap": lambda a, b, s, t: impinge.overlap_volume(a, b, resolution=16),
    "VolumeGradient": lambda a, b, s, t: impinge.volume_gradient(a, b, resolution=16),
    "SphereContacts": lambda a, b, s, t: impinge.sphere_contacts(a, b, max_tests=500),
    "ClosestPoints": lambda a, b, s, t: impinge.closest_points(a, b.vertices),
    "Distance": lambda a, b, s, t: impinge.distance(a, b),
    "HullDistance": lambda a, b, s, t: impinge.hull_distance(a, b),
    "Proximity": lambda a, b, s, t: impinge.proximity(a, b, margin=0.1),
    "Impacts": lambda a, b, s, t: impinge.impacts(a, b, end_a=a.vertices + 0.1),
    "SafeStep": lambda a, b, s, t: impinge.safe_step(s, end_a=s.vertices + 0.1),
    "Curves": lambda a, b, s, t: impinge.intersection_curves(a, b),
    "EdgeCrossings": lambda a, b, s, t: impinge.edge_crossings(a, b),
    "Contacts": lambda a, b, s, t: impinge.contacts_from_vertices(impinge.penetrating_vertices([a, b], depth=True)),
    "Report": lambda a, b, s, t: impinge.check(a, b),
    "SphereHierarchy": lambda a, b, s, t: impinge.build_spheres(a, levels=2),
    "Penalty": lambda a, b, s, t: impinge.penalty(
        impinge.sphere_contacts(a, b, max_tests=500), a.vertices, b.vertices, stiffness=1.0
    ),
}


def assert_says_something(value: object) -> None:
    text = repr(value)

    assert " object at 0x" not in text
    assert len(text) < 400


@pytest.mark.parametrize("name", DETECTORS)
def test_detectors_are_copied_without_caches(name):
    """Give the same answer after pickling and copying, and take no more bytes after a query."""
    detector = DETECTORS[name](*bodies())
    before = len(pickle.dumps(detector))
    expected = detector.query()
    loaded, deep, shallow = pickle.loads(pickle.dumps(detector)), copy.deepcopy(detector), copy.copy(detector)

    assert len(pickle.dumps(detector)) <= before
    for other in (loaded, deep, shallow):
        assert type(other) is type(detector)
        assert repr(other) == repr(detector)
        assert len(other.query()) == len(expected)
    assert_says_something(detector)


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_copied_without_caches(name):
    """Keep every field but the bodies, and take no more bytes after derived values were read."""
    result = RESULTS[name](*bodies())
    before = len(pickle.dumps(result))
    for derived in ("point", "normal", "depth", "curves", "overlap", "deepest", "mean_normals"):
        getattr(result, derived, None)
    loaded = pickle.loads(pickle.dumps(result))

    assert len(pickle.dumps(result)) <= before
    assert type(loaded) is type(copy.copy(result)) is type(result)
    for field, value in vars(loaded).items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, getattr(result, field))
    assert_says_something(result)


def test_the_rest_says_something():
    """Print worlds, simulations, particles, models and budgets in one line."""
    from impinge.budget import Budget

    mesh = shapes.tet_box(1, 1, 1)
    world = impinge.World()
    values = [
        world,
        impinge.Simulation(world),
        impinge.Particles(np.zeros((2, 3))),
        impinge.Barycentric(mesh.vertices, mesh.tets, mesh.vertices),
        Budget(1.0),
        mesh,
        mesh.surface,
    ]
    for value in values:
        assert_says_something(value)
