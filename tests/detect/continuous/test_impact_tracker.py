"""Impacts and near pairs of bodies that are tracked over many motions, against single queries."""

from __future__ import annotations

import numpy as np
import pytest

import impinge
from impinge import shapes
from impinge.backend import jit
from impinge.detect.continuous.continuous_tree import ContinuousTree
from impinge.detect.continuous.impact_tracker import ImpactTracker
from impinge.detect.proximity.proximity import proximity
from moving_features import soup

pytestmark = pytest.mark.small

IMPACTS = (
    "kind", "feature_a", "feature_b", "vertices", "weights", "time_lo", "time_hi", "at_start", "point", "normal",
)  # fmt: skip
NEAR = (
    "vertex_face", "vertex_face_distance", "vertex_face_weights", "face_vertex", "face_vertex_distance",
    "face_vertex_weights", "edge_edge", "edge_edge_distance", "edge_edge_weights",
)  # fmt: skip


def same_bytes(one, other, names):
    return all(getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in names)


def checked(tracker, a, b, end_a, end_b=None):
    """The answer of the tracker, compared with that of a single query."""
    ends = {"end_a": end_a} if b is None else {"end_a": end_a, "end_b": end_b}
    found = tracker.query(**ends)
    assert same_bytes(found, ContinuousTree(a, b).query(**ends), IMPACTS)
    return found


def checked_near(tracker, a, b, margin):
    """The near pairs of the tracker, compared with those of a single query."""
    found = tracker.near(margin)
    assert same_bytes(found, proximity(a, b, margin=margin), NEAR)
    return found


def ribbon(turns=2.2, cells=(90, 3)):
    """A rolled strip whose layers are near each other, and its parameters."""
    sheet = shapes.cloth_grid(*cells, size=1.0)
    u, w = sheet.vertices[:, 0] + 0.5, sheet.vertices[:, 1]
    return sheet, rolled(u, w, turns), u, w


def rolled(u, w, turns, gap=0.02):
    angle = 2.0 * np.pi * turns * u
    radius = 0.1 + gap * angle / (2.0 * np.pi)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), 0.2 * w], axis=1)


def rotation(rng, angle):
    """A rotation about a random axis."""
    axis = rng.normal(size=3)
    x, y, z = axis / np.linalg.norm(axis)
    k = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + np.sin(angle) * k + (1.0 - np.cos(angle)) * k @ k


def test_a_body_that_rolls_up_gives_the_answers_of_single_queries():
    """Track a strip that turns, moves and tightens until its layers meet: the same rows."""
    rng = np.random.default_rng(1)
    body, x, u, w = ribbon()
    body.update(x)
    tracker, hits = ImpactTracker(body), 0
    for step in range(30):
        turn = rotation(rng, 0.02)
        end = rolled(u, w, 2.2, 0.02 - 0.0015 * step) @ turn.T
        end += rng.normal(scale=2e-4, size=end.shape) * (step % 3 == 2)
        found = checked(tracker, body, None, end)
        hits += len(found)
        checked_near(tracker, body, None, 0.003)
        body.update(end if not len(found) else 0.7 * x + 0.3 * body.vertices)
    assert hits > 100


def test_near_layers_meet_by_listed_pairs():
    """Move layers that nearly touch through each other: the same rows, most of them without a join."""
    rng = np.random.default_rng(2)
    body, _, u, w = ribbon(cells=(180, 6))
    tracker, hits, near, joined = ImpactTracker(body), 0, 0, 0.0
    for step in range(12):
        turn = rotation(rng, 0.02)
        body.update(rolled(u, w, 2.2, 0.001) @ turn.T)
        end = rolled(u, w, 2.2, (-0.0002, 0.0005)[step % 2]) @ turn.T
        found = checked(tracker, body, None, end)
        if step >= 4:
            hits += len(found)
            near += len(checked_near(tracker, body, None, 0.0012).vertex_face)
            joined += found.stats["joined"] / found.stats["block_pairs"]
    assert hits > 100
    assert near > 1000
    assert joined < 0.3 * 8


@pytest.mark.parametrize("seed", range(6))
def test_random_motions_give_the_answers_of_single_queries(seed):
    """Track soups and their smooth and rough motions, in real and in whole numbers: the same rows."""
    rng = np.random.default_rng(seed)
    whole = seed % 2 == 1
    body = soup(rng, 200, size=0.25, whole=whole)
    tracker, hits = ImpactTracker(body), 0
    for step in range(16):
        x = body.vertices
        if whole:
            end = x + rng.integers(-1, 2, size=(1, 3)) + (rng.random(x.shape) < 0.05)
        else:
            end = x @ rotation(rng, 0.1).T + rng.normal(scale=(1e-3, 0.2)[step % 2], size=x.shape)
        found = checked(tracker, body, None, end)
        near = checked_near(tracker, body, None, 0.5 if whole else 0.01)
        hits += len(found) + len(near.edge_edge)
        if step % 4 == 3:
            body.update(end)
    assert hits > 20


def test_two_bodies_give_the_answers_of_single_queries():
    """Track two bodies that move through each other: the same rows."""
    rng = np.random.default_rng(3)
    a, b = shapes.icosphere(3), shapes.icosphere(3, center=(1.9, 0.0, 0.0))
    tracker, hits = ImpactTracker(a, b), 0
    for _ in range(6):
        end_a, end_b = (body.vertices + rng.normal(scale=0.02, size=body.vertices.shape) for body in (a, b))
        hits += len(checked(tracker, a, b, end_a, end_b - (0.05, 0.0, 0.0)))
        checked_near(tracker, a, b, 0.05)
        b.update(end_b)
    assert hits > 10


@pytest.mark.parametrize("factor", [1e-60, 1e-20, 1.0, 1e20, 1e60])
def test_size_does_not_matter(factor):
    """Track a strip of any size: the same rows."""
    body, x, u, w = ribbon(cells=(60, 3))
    body.update(factor * x)
    tracker, hits = ImpactTracker(body), 0
    for step in range(6):
        end = factor * rolled(u, w, 2.2, 0.02 - 0.004 * step)
        hits += len(checked(tracker, body, None, end))
        checked_near(tracker, body, None, 0.003 * factor)
    assert hits > 10


def test_flat_and_collapsed_bodies_give_the_answers_of_single_queries():
    """Track a flat sheet, a line and a point, which determine no map: the same rows."""
    sheet = shapes.cloth_grid(4, 4)
    x, hits = sheet.vertices.copy(), 0
    for scale in ((1.0, 1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 0.0)):
        sheet.update(x * scale)
        tracker = ImpactTracker(sheet)
        for step in range(5):
            end = x * scale
            end[:, 2] += 0.01 * step * x[:, 0]
            hits += len(checked(tracker, sheet, None, end))
    assert hits > 100


def test_edits_renew_the_list():
    """Remove and add triangles while a body is tracked: the same rows."""
    body, x, u, w = ribbon()
    body.update(x)
    tracker, end, hits = ImpactTracker(body), rolled(u, w, 2.2, -0.01), 0
    for step in range(12):
        hits += len(checked(tracker, body, None, end if step % 2 else x))
        if step == 5:
            body.remove_triangles(np.arange(0, 60))
        if step == 8:
            body.add_triangles(np.array([[0, 50, 90]]))
    assert hits > 10


def test_a_body_that_stays_in_place_costs_no_candidates():
    """List the near pairs of a dense body, and decide about a rigid motion without a single test."""
    body = shapes.icosphere(5)
    tracker = ImpactTracker(body)
    turn = rotation(np.random.default_rng(0), 0.05)
    counts = [checked(tracker, body, None, body.vertices @ turn.T + 0.3).stats["candidates"] for _ in range(4)]
    assert counts[0] > 1000
    assert counts[-1] == 0


def test_thread_counts_give_the_same_bits():
    """Answer with serial and with parallel kernels: the same bits."""
    body, x, u, w = ribbon()
    body.update(x)
    end, answers = rolled(u, w, 2.2, -0.01), []
    for variant in ("serial", "parallel"):
        with jit.launch_always(variant):
            tracker = ImpactTracker(body)
            answers.append([tracker.query(end_a=y) for y in (end, x, end, 0.5 * (x + end), end)])
    assert len(answers[0][-1]) > 10
    for one, other in zip(*answers):
        assert same_bytes(one, other, IMPACTS)
    assert impinge.impacts(body, end_a=end).kind.tobytes() == answers[0][-1].kind.tobytes()
