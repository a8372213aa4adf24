"""Safe steps: what the returned positions promise, checked by the exact test and over all pairs of features."""

from __future__ import annotations

import json

import numpy as np
import pytest

import impinge
from impinge import shapes
from moving_features import impacts_by_brute_force, moved, shuffled_mesh, soup

pytestmark = pytest.mark.small


def pairs_at(a, b, x_a, x_b):
    """Pairs of triangles that meet at the given positions."""
    at_a = impinge.TriMesh(x_a, a.faces)
    found = impinge.self_pairs(at_a) if b is None else impinge.triangle_pairs(at_a, (x_b, b.faces))
    return {tuple(pair) for pair in found.pairs.tolist()}, bool((found.kind == impinge.Kind.CROSSING).any())


def check_promise(a, b, end_a, end_b, **options):
    """Take a safe step, or find the error for a start that crosses; return the step and check what it promises."""
    x_b = a.vertices if b is None else b.vertices
    start, crosses = pairs_at(a, b, a.vertices, x_b)
    if crosses:
        with pytest.raises(impinge.CrossingError, match=r"cross at the start: \("):
            impinge.safe_step(a, b, end_a=end_a, end_b=end_b, **options)
        return None
    step = impinge.safe_step(a, b, end_a=end_a, end_b=end_b, **options)
    y_a, y_b = step.positions_a, step.positions_b
    for x, y, end in ((a.vertices, y_a, end_a), (x_b, y_b, end_a if b is None else end_b)):
        target = x if end is None else end
        assert ((y >= np.minimum(x, target)) & (y <= np.maximum(x, target))).all()
    on_the_way = impacts_by_brute_force(a, b, a.vertices, y_a, x_b, y_b)
    assert all(at_start for _, _, at_start in on_the_way.values())
    assert pairs_at(a, b, y_a, y_b)[0] <= start
    assert 0.0 <= step.fraction <= 1.0
    assert bool(step.limited_by) or step.fraction == 1.0
    touching = impinge.impacts(a, b, margin=options.get("margin", 0.0))
    assert len(step.touching_at_start) == len(touching)
    return step


@pytest.mark.parametrize("per_vertex", [False, True], ids=["one fraction", "per vertex"])
@pytest.mark.parametrize("whole", [False, True], ids=["generic", "degenerate"])
def test_two_bodies_keep_the_promise(rng, whole, per_vertex):
    """Meet nothing on the way to the returned positions, and nothing there, in random scenes."""
    stopped = free = crossing = 0
    for _ in range(150):
        a, b = soup(rng, rng.integers(1, 4), whole=whole), soup(rng, rng.integers(1, 4), whole=whole)
        end_a, end_b = (moved(rng, body.vertices, whole=whole) for body in (a, b))
        step = check_promise(a, b, end_a, end_b, per_vertex=per_vertex)
        crossing += step is None
        if step is not None:
            stopped, free = stopped + (step.fraction < 1.0), free + (step.fraction == 1.0)

    assert min(stopped, free, crossing) > 10


@pytest.mark.parametrize("per_vertex", [False, True], ids=["one fraction", "per vertex"])
def test_one_body_keeps_the_promise(rng, per_vertex):
    """Keep a body from meeting itself."""
    stopped = 0
    for k in range(60):
        cloth = shapes.cloth_grid(3, 3) if k % 2 else shuffled_mesh(rng, 7, 3)
        step = check_promise(cloth, None, moved(rng, cloth.vertices, speed=0.8), None, per_vertex=per_vertex)
        stopped += step is not None and step.fraction < 1.0

    assert stopped > 20


@pytest.mark.parametrize("per_vertex", [False, True], ids=["one fraction", "per vertex"])
def test_margin_is_kept(rng, per_vertex):
    """Keep the margin between bodies that have it at the start."""
    stopped = 0
    for _ in range(40):
        a, b = soup(rng, 2), soup(rng, 2)
        b.update(b.vertices + 2.0)
        end_a, end_b = moved(rng, a.vertices) + 1.0, moved(rng, b.vertices) - 1.0
        step = check_promise(a, b, end_a, end_b, margin=0.05, per_vertex=per_vertex)
        assert impinge.distance((step.positions_a, a.faces), (step.positions_b, b.faces)).distance >= 0.05
        stopped += step.fraction < 1.0

    assert stopped > 10


@pytest.mark.parametrize("margin", [1e-3, 0.05])
def test_margin_is_kept_step_after_step(rng, margin):
    """Keep the margin of bodies that stopped at it, however often they are pushed, and let them part."""
    pushed = 0
    for k in range(6):
        a, b = shapes.icosphere(1) if k % 2 else shapes.cloth_grid(6, 6), shapes.icosphere(1, radius=0.5)
        b.update(b.vertices + np.array([0.1, 0.05, 2.0]))
        tree = impinge.ContinuousTree(a, b)
        for speed in (2.0, 0.1, 1e-3, 2.0, 0.1, 1e-6, 2.0):
            noise = 0.01 * speed * rng.standard_normal(b.vertices.shape)
            step = tree.safe_step(end_b=b.vertices - (0.0, 0.0, speed) + noise, margin=margin)
            b.update(step.positions_b)
            pushed += step.fraction < 1.0
            assert len(step.touching_at_start) == 0
            assert impinge.distance(a, b).distance >= margin
        assert tree.safe_step(end_b=b.vertices + np.array([0.1, 0.2, 1.0]), margin=margin).fraction > 0.0

    assert pushed > 20


def test_near_the_margin_at_the_start():
    """Except pairs from the margin that are within it at the start, and no others."""
    a, b = shapes.box(1.0), shapes.box(1.0, center=(0.0, 0.0, 1.25))
    for start, fraction in ((0.0, 0.0), (-1e-3, 1.0)):
        x = b.vertices + np.array([0.0, 0.0, start + 0.25 * 2.0**-22])
        step = impinge.safe_step(a, (x, b.faces), end_b=x - (0.0, 0.0, 0.1), margin=0.25)
        assert bool(step.touching_at_start) == (fraction == 1.0)
        assert abs(step.fraction - fraction) < 1e-6
        assert impinge.safe_step(a, (x, b.faces), end_b=x + np.array([0.3, 0.2, 0.1]), margin=0.25).fraction == 1.0


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1.0, 1e160, 1e300])
def test_per_vertex_at_any_scale(scale):
    """Go half of the gap at any scale: squares of lengths are beyond the range of doubles."""
    a, b = shapes.box(1.0), shapes.box(1.0, center=(0.1, 0.2, 3.0))
    x_a, x_b = scale * a.vertices, scale * b.vertices
    end = x_b - np.array([0.0, 0.0, 4.0 * scale])
    step = impinge.safe_step((x_a, a.faces), (x_b, b.faces), end_b=end, per_vertex=True)

    assert 0.2499 < step.fraction < 0.25


def test_the_whole_way():
    """Return the very end positions where nothing meets."""
    a, b = shapes.box(1.0), shapes.box(1.0, center=(0.0, 0.0, 3.0))
    end = b.vertices - np.array([0.1, 0.2, 1.0])
    step = impinge.safe_step(a, b, end_b=end)

    assert step.fraction == 1.0
    np.testing.assert_array_equal(step.positions_b, end)
    np.testing.assert_array_equal(step.positions_a, a.vertices)
    assert not step.limited_by
    end[:] = 0.0
    assert step.positions_b.any()  # a copy


def test_nearly_all_the_way_to_an_impact():
    """Stop just before the impact, and name the features."""
    a, b = shapes.box(1.0), shapes.box(1.0, center=(0.0, 0.0, 3.0))
    step = impinge.safe_step(a, b, end_b=b.vertices - np.array([0.0, 0.0, 4.0]))

    assert 0.4999 < step.fraction < 0.5
    assert len(step) == len(step.limited_by) > 0
    assert (step.limited_by.time == 0.5).all()
    assert len(repr(step)) < 120
    assert json.loads(json.dumps(step.to_dict()))["fraction"] == step.fraction


def test_per_vertex_lets_the_rest_move():
    """Let vertices far from a contact go all the way while those near it stop."""
    a = shapes.cloth_grid(8, 8)
    b = shapes.box(0.05, center=(0.0, 0.0, -0.05))
    end = a.vertices - np.array([0.0, 0.0, 0.04])
    step = impinge.safe_step(a, b, end_a=end, per_vertex=True)

    assert step.fraction < 0.5
    assert (step.fractions_a == 1.0).sum() > 40
    np.testing.assert_array_equal(step.positions_a[step.fractions_a == 1.0], end[step.fractions_a == 1.0])


def test_touching_at_the_start_does_not_stop():
    """List pairs that touch at the start, and let bodies that part, or slide, go on."""
    a, b = shapes.box(1.0), shapes.box(1.0, center=(0.0, 0.0, 1.0))
    step = impinge.safe_step(a, b, end_b=b.vertices + np.array([0.0, 0.0, 0.5]))

    assert step.fraction == 1.0
    assert step.touching_at_start.at_start.all()
    assert len(step.touching_at_start) > 0


def test_transforms_and_static_bodies():
    """Step between two poses; a body without an end stays."""
    a, b = shapes.box(1.0), shapes.box(1.0)
    up, down = np.eye(4), np.eye(4)
    up[2, 3], down[2, 3] = 2.0, -2.0
    step = impinge.safe_step(a, b, transform_b=(up, down))

    assert 0.249 < step.fraction < 0.25
    np.testing.assert_array_equal(step.positions_a, a.vertices)


def test_ignored_and_inactive_triangles_do_not_stop():
    """Pass through what does not count."""
    a, b = shapes.box(1.0), shapes.box(1.0, center=(0.0, 0.0, 3.0))
    end = b.vertices - np.array([0.0, 0.0, 6.0])
    everything = [(i, j) for i in range(len(a)) for j in range(len(b))]

    assert impinge.safe_step(a, b, end_b=end, ignore=everything).fraction == 1.0
    assert impinge.safe_step(a, b, end_b=end, active_b=[]).fraction == 1.0
    assert impinge.safe_step(a, b, end_b=end).fraction < 0.5


@pytest.mark.parametrize("per_vertex", [False, True], ids=["one fraction", "per vertex"])
def test_excluded_rings_do_not_stop(per_vertex):
    """Leave neighbours of one body out of the start, the way and the end; stop for those farther away."""
    x = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 2], [0.2, 0.2, 0.3], [0, 0, 1], [0.1, 0, 1], [0, 0.1, 1]])
    body = impinge.TriMesh(x, [[0, 1, 2], [1, 2, 3], [3, 4, 1], [5, 6, 7]])
    end = x.copy()
    end[4, 2] = -1.0  # through triangle 0, one edge away
    end[5:, 2] = -1.0  # through triangle 0, not connected
    one, all_rings = (
        impinge.safe_step(body, end_a=end, exclude_rings=rings, per_vertex=per_vertex) for rings in (0, 1)
    )

    assert {0, 4} <= set(impinge.impacts(body, end_a=end).vertices.reshape(-1).tolist())
    assert 0.0 < one.fraction < 1.0
    assert 0.0 < all_rings.fraction < 1.0
    assert not set(all_rings.limited_by.vertices.reshape(-1).tolist()).isdisjoint({5, 6, 7})
    near = end.copy()
    near[5:] = x[5:]
    assert impinge.safe_step(body, end_a=near, exclude_rings=1, per_vertex=per_vertex).fraction == 1.0
    body.update(near)
    with pytest.raises(impinge.CrossingError):
        impinge.safe_step(body, end_a=near)
    assert impinge.safe_step(body, end_a=near, exclude_rings=1, per_vertex=per_vertex).fraction == 1.0


def test_kept_between_frames(rng):
    """Simulate frames with edits on one detector: never a crossing."""
    tree = impinge.ContinuousTree(shapes.icosphere(1), shapes.icosphere(1, center=(2.5, 0.0, 0.0)))
    limited = 0
    for frame in range(8):
        a, b = tree.a, tree.b
        if frame == 3:
            a.remove_triangles([0, 1])
        if frame == 5:
            b.add_triangles([[0, 5, 9]])
        end_b = b.vertices - np.array([0.3, 0.0, 0.0]) + 0.05 * rng.standard_normal(b.vertices.shape)
        step = tree.safe_step(end_b=end_b)
        b.update(step.positions_b)
        assert not (impinge.triangle_pairs(a, b).kind == impinge.Kind.CROSSING).any()
        limited += step.fraction < 1.0

    assert limited > 2


def test_vertices_added_between_steps():
    """Follow bodies whose vertices have grown in number."""
    a, b = shapes.box(1.0), shapes.box(1.0, center=(0.0, 0.0, 3.0))
    tree = impinge.ContinuousTree(a, b)
    for body in (b, a, None):
        step = tree.safe_step(end_b=b.vertices - np.array([0.0, 0.0, 4.0]))
        assert 0.4999 < step.fraction < 0.5
        assert step.positions_a.shape == a.vertices.shape
        assert step.positions_b.shape == b.vertices.shape
        if body is not None:
            body.add_vertices([[9.0, 9.0, 9.0]])


def test_bad_input():
    """Name what is wrong."""
    a, b = shapes.box(1.0), shapes.box(1.0, center=(0.0, 0.0, 3.0))
    with pytest.raises(impinge.OptionError, match="per_vertex is 1"):
        impinge.safe_step(a, b, per_vertex=1)
    with pytest.raises(impinge.OptionError, match="margin is -1"):
        impinge.safe_step(a, b, margin=-1.0)
    with pytest.raises(impinge.MeshError, match="end_b have 1 rows"):
        impinge.safe_step(a, b, end_b=[[0.0, 0.0, 0.0]])
    with pytest.raises(impinge.CrossingError, match=r"pairs of triangles cross at the start: \(\d+, \d+\)"):
        impinge.safe_step(a, shapes.box(1.0, center=(0.3, 0.2, 0.1)))
