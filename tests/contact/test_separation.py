"""Translations that separate two bodies."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import impinge
from impinge import shapes

CLOTH = shapes.cloth_grid(4, 4, size=3.0)


@pytest.mark.parametrize(
    ("a", "b", "shortest"),
    [
        (shapes.box((2.0, 1.0, 1.0)), shapes.box((2.0, 1.0, 1.0), (1.0, 0.0, 0.0)), 1.0),
        (shapes.box(1.0), shapes.box(1.0), 1.0),
        (shapes.box(3.0), shapes.box(1.0, (0.5, 0.0, 0.0)), 1.5),
        (shapes.box(1.0), shapes.box(1.0, (1.0, 0.0, 0.0)), 0.0),
        (shapes.box((4.0, 0.2, 0.2)), shapes.box((0.2, 4.0, 0.2), (0.0, 0.0, 0.15)), 0.05),
        (shapes.icosphere(3), shapes.icosphere(3, center=(1.0, 0.7, 0.2)), 0.75),
        (shapes.bumpy_sphere(3), shapes.torus_knot(2, 3, 60, 8), None),
        (shapes.box(1.0), CLOTH, 0.5),
        (CLOTH, shapes.cloth_grid(3, 3, size=2.0), 0.0),
        (shapes.box(1e-6), shapes.box(1e-6, (2e-7, 1e-7, 3e-7)), 7e-7),
        (shapes.box(1e12), shapes.box(1e12, (2e11, 1e11, 3e11)), 7e11),
    ],
    ids=["aligned", "equal", "inside", "touching", "bars", "balls", "knot", "sheet", "sheets", "tiny", "huge"],
)  # fmt: skip
def test_separation_separates(a, b, shortest):
    """Move b clear of a by the translation, as it is printed too; and not by half of it."""
    report = impinge.check(a, b)
    vector = report.separation
    printed = dict(report.in_words())["separation"]
    typed = np.array([float(x) for x in re.match(r"\((.*)\):", printed)[1].split(", ")])

    assert report.relation != "disjoint"
    np.testing.assert_array_equal(typed, vector)
    assert json.loads(json.dumps(report.to_dict()))["separation"] == vector.tolist()
    assert not impinge.collides(a, impinge.TriMesh(b.vertices + vector, b.faces))
    assert impinge.check(a, (b.vertices + vector, b.faces)).relation == "disjoint"
    length, size = np.linalg.norm(vector), np.ptp(np.concatenate([a.vertices, b.vertices]), axis=0).max()
    if shortest is not None:
        assert shortest * 0.999 <= length <= shortest * 1.05 + 2e-6 * size


def test_no_separation_where_nothing_is_to_separate():
    """Give none for disjoint bodies, cancelled queries and reports without depths."""
    a, b = shapes.box(1.0), shapes.box(1.0, (0.5, 0.2, 0.1))

    assert impinge.check(a, shapes.box(1.0, (3.0, 0.0, 0.0))).separation is None
    assert impinge.check(a, b, depth=False).separation is None
    assert impinge.check(a, b, max_pairs=1).separation is None
    assert impinge.check(a, b).separation is not None


def test_bodies_stay_where_they_are():
    """Leave both bodies of the report as they were."""
    a, b = shapes.box(1.0), shapes.box(1.0, (0.5, 0.2, 0.1))
    report = impinge.check(a, b)
    before = [(body.vertices.copy(), body.version) for body in (a, b, *report.bodies)]
    assert report.separation is not None

    for body, (x, version) in zip((a, b, *report.bodies), before):
        np.testing.assert_array_equal(body.vertices, x)
        assert body.version == version


def test_separation_of_active_triangles():
    """Move clear what the query saw: moved bodies with their active triangles."""
    a, b = shapes.box(1.0), shapes.cloth_grid(4, 4, size=3.0)
    shift = np.eye(4)
    shift[:3, 3] = (0.1, 0.2, 0.3)
    active = np.arange(10, 20)
    report = impinge.check(a, b, transform_a=shift, active_b=active)
    moved = np.eye(4)
    moved[:3, 3] = report.separation

    assert report
    assert not impinge.collides(a, b, transform_a=shift, active_b=active, transform_b=moved)
