"""Surface batches: layouts of bodies that are added, removed and edited."""

from __future__ import annotations

import numpy as np

from impinge.mesh import shapes
from impinge.world import surface_batch
from impinge.world.surface_batch import Layout, SurfaceBatch

MAKERS = (
    lambda: shapes.box(1.0),
    lambda: shapes.icosphere(1),
    lambda: shapes.cloth_grid(3, 2),
)


def _assert_same(layout, fresh):
    for name in ("vertex_start", "face_start", "faces", "face_id", "used", "used_start", "group_start", "is_closed"):
        np.testing.assert_array_equal(getattr(layout, name), getattr(fresh, name), err_msg=name)
    for name, known, found in zip(fresh.connectivity._fields, layout.connectivity, fresh.connectivity):
        np.testing.assert_array_equal(known, found, err_msg=name)
        assert known.dtype == found.dtype


def test_copied_connectivity_equals_computed_connectivity(rng):
    """Equal a new layout after bodies are added, removed, edited and reordered."""
    bodies = [MAKERS[k % len(MAKERS)]() for k in range(12)]
    layout, taken_over = Layout(bodies), 0
    for _ in range(60):
        assert len(layout.connectivity.start) == layout.vertex_count + 1
        for _ in range(rng.integers(1, 4)):
            way, b = rng.integers(4), int(rng.integers(len(bodies))) if bodies else 0
            if way == 0 or not bodies:
                bodies.insert(b, MAKERS[rng.integers(len(MAKERS))]())
            elif way == 1:
                del bodies[b]
            elif way == 2:
                bodies[b].add_triangles([[0, 1, 2]], vertices=[[1.0, 2.0, 3.0]])
                bodies[b].remove_triangles([int(rng.integers(len(bodies[b].faces)))])
            elif way == 3:
                bodies = bodies[b:] + bodies[:b]
        layout = Layout(bodies, layout)
        taken_over += "connectivity" in vars(layout)
        _assert_same(layout, Layout(bodies))
    assert taken_over > 30


def test_many_runs_are_computed(monkeypatch):
    """Copy no connectivity if there are more than ``MANY_RUNS`` runs."""
    monkeypatch.setattr(surface_batch, "MANY_RUNS", 4)
    bodies = [shapes.box(1.0) for _ in range(8)]
    layout = Layout(bodies)
    assert layout.is_closed.all()

    turned = Layout(bodies[::-1], layout)

    assert "connectivity" not in vars(turned)
    _assert_same(turned, Layout(bodies[::-1]))


def test_refresh_follows_edits_and_updates():
    """Rebuild the layout of an edited body and copy the positions of a moved one."""
    bodies = [shapes.box(1.0), shapes.box(2.0), shapes.box(3.0)]
    batch = SurfaceBatch(bodies)
    batch.refresh()
    assert batch.layout.is_closed.all()

    bodies[1].remove_triangles([3])
    bodies[2].update(bodies[2].vertices + 1.0)
    batch.refresh()

    assert batch.layout.is_closed.tolist() == [True, False, True]
    np.testing.assert_array_equal(batch.x, np.concatenate([body.vertices for body in bodies]))
    np.testing.assert_array_equal(batch.low, [body.bounds[0] for body in bodies])
