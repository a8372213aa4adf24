"""Penalty forces of sphere trees push bodies apart at any penetration depth and any budget."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import impinge
from impinge import shapes
from impinge.detect.sphere_tree.detector import SphereTree
from impinge.respond.penalty import penalty

BODIES = {
    "balls": (lambda: shapes.icosphere(4), lambda: shapes.icosphere(3, radius=0.8)),
    "boxes": (lambda: shapes.box(1.0, cells=(5, 5, 5)), lambda: shapes.box((1.6, 0.9, 0.7), cells=(6, 4, 3))),
    "bumpy": (lambda: shapes.bumpy_sphere(4, amplitude=0.3), lambda: shapes.bumpy_sphere(4, amplitude=0.2)),
    "tets": (lambda: shapes.tet_box(5, 5, 5).surface, lambda: shapes.bumpy_sphere(3, radius=2.0)),
}
OVERLAPS = (0.01, 0.1, 0.3, 0.5)
TESTS = (1, 10, 100, 1000, 10_000, None)


def rotated(rng, body):
    """Rotate a body by a random angle."""
    q, r = np.linalg.qr(rng.normal(size=(3, 3)))
    q *= np.sign(np.diag(r))
    return impinge.TriMesh(body.vertices @ (q if np.linalg.det(q) > 0 else -q).T, body.faces)


def touching(a, b, direction):
    """Distance of b along ``direction`` at which it touches a."""
    near, far = 0.0, float((a.vertices @ direction).max() - (b.vertices @ direction).min())
    for _ in range(14):
        middle = 0.5 * (near + far)
        meet = impinge.collides(a, impinge.TriMesh(b.vertices + middle * direction, b.faces))
        near, far = (middle, far) if meet else (near, middle)
    return near


def pushes(contacts, a, b, combine, direction):
    found = penalty(contacts, a.vertices, b.vertices, stiffness=3.0, combine=combine)
    return float(found.force_a.sum(axis=0) @ direction), float(found.force_b.sum(axis=0) @ direction), found


@pytest.mark.parametrize("bodies", BODIES)
@pytest.mark.parametrize("pose", range(3))
def test_closed_bodies_are_pushed_apart(rng, bodies, pose):
    """Push b away from a at overlaps of 1 to 50 % and any budget; "sum" has zero total force."""
    a, b = (make() for make in BODIES[bodies])
    direction = np.array([1.0, 0.0, 0.0])
    if pose:
        rng = np.random.default_rng(pose)
        a, b, direction = rotated(rng, a), rotated(rng, b), rng.standard_normal(3)
        direction /= np.linalg.norm(direction)
    start, size = touching(a, b, direction), min(np.ptp(body.vertices @ direction) for body in (a, b))
    moved = [impinge.TriMesh(b.vertices + (start - overlap * size) * direction, b.faces) for overlap in OVERLAPS]
    for body in moved:
        detector = SphereTree(a, body)
        for tests in TESTS:
            contacts = detector.query(max_tests=tests)
            for combine in ("average", "sum"):
                on_a, on_b, found = pushes(contacts, a, body, combine, direction)
                assert on_b > 0.0
                if combine == "sum":
                    assert on_a < 0.0
                    assert np.abs(found.total).max() < 1e-9 * on_b
        assert contacts.complete


def test_lines_of_centres_attract_deep_bodies():
    """Push balls apart that overlap by more than a leaf; forces along lines of centres attract them."""
    a, b, direction = shapes.icosphere(5), shapes.icosphere(5, center=(1.7, 0.0, 0.0)), np.array([1.0, 0.0, 0.0])
    contacts = SphereTree(a, b).query()
    centres = replace(contacts, normals="centres")
    assert pushes(centres, a, b, "average", direction)[1] < 0.0 < pushes(contacts, a, b, "average", direction)[1]
    assert 5.0 * pushes(centres, a, b, "sum", direction)[1] < pushes(contacts, a, b, "sum", direction)[1]
