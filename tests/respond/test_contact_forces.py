"""Contact forces on a line and on planes, against closed-form solutions."""

from __future__ import annotations

import numpy as np
import pytest

from impinge.respond.contact_forces import ContactConstraints, ContactForces, SparseRows, WarmStart, no_warm_start

DOWN = np.array([0.0, 0.0, -1.0])


def on_plane(depth, *, stiffness=1e4, relax=0.0, release=5.0, normal=DOWN, key=None, drive=None) -> ContactConstraints:
    """Contacts of vertices 0, 1, ... with a plane (side b), in penetration along ``normal``."""
    depth = np.atleast_1d(np.asarray(depth, dtype=np.float64))
    count = len(depth)
    start, vertex = np.arange(count + 1), np.arange(count)
    drive = np.zeros((count, 3)) if drive is None else np.tile(np.asarray(drive, dtype=np.float64), (count, 1))
    return ContactConstraints(
        normal_jacobian=SparseRows(start, vertex, np.tile(normal, (count, 1))),
        slip_jacobian=SparseRows(start, vertex, np.tile(np.eye(3), (count, 1, 1))),
        normal=np.tile(normal, (count, 1)), depth=depth, rate=drive @ normal, drive=drive,
        stiffness=np.full(count, float(stiffness)), relax=np.full(count, float(relax)), scale=np.ones(count),
        release=np.full(count, float(release)), volumetric=np.zeros(count, dtype=np.bool_),
        key=np.arange(count) if key is None else key,
        body_a=np.zeros(count, dtype=np.int64), body_b=np.full(count, -1), wall=np.full(count, np.inf),
    )  # fmt: skip


def warm(depth, *, normal_force=0.0) -> WarmStart:
    """Warm start of vertex 0 at a depth."""
    return WarmStart(np.array([0]), np.array([normal_force]), np.zeros((1, 3)), np.array([depth]))


def forces(rows, *, warm_start, friction=0.0, mass=1.0) -> ContactForces:
    return ContactForces(rows, np.full(len(rows), 1.0 / mass), friction=friction, warm_start=warm_start)


def after(force, v, h, mass=1.0):
    return v + h * force / mass


@pytest.mark.tiny
@pytest.mark.parametrize("stiffness", [1.0, 1e4, 1e12])
def test_springs_and_dampers_are_implicit(stiffness):
    """Apply the depth and the depth rate at the end of the step, for any stiffness."""
    h, relax, v = 1e-3, 2e-3, np.array([[0.0, 0.0, -0.5]])
    contact = forces(on_plane(0.001, stiffness=stiffness, relax=relax), warm_start=warm(0.001))
    force = contact.solve(h, np.zeros((1, 3)), v, 0.0)
    depth_rate = -after(force, v, h)[0, 2]

    np.testing.assert_allclose(force[0, 2], stiffness * (0.001 + (h + relax) * depth_rate), rtol=1e-9)
    assert force[0, 2] > 0.0
    np.testing.assert_array_equal(force[0, :2], 0.0)


@pytest.mark.tiny
def test_contacts_neither_pull_nor_act_at_a_distance():
    """Apply no force where sides separate faster than the spring, and where they do not touch within the step."""
    leaving = forces(on_plane(0.001, relax=1.0), warm_start=warm(0.001)).solve(
        1e-3, np.zeros((1, 3)), np.array([[0.0, 0.0, 5.0]]), 0.0
    )
    far = forces(on_plane(-0.01, relax=1.0), warm_start=no_warm_start()).solve(
        1e-3, np.zeros((1, 3)), np.array([[0.0, 0.0, -5.0]]), 0.0
    )
    near = forces(on_plane(-0.004, relax=1.0), warm_start=no_warm_start()).solve(
        1e-3, np.zeros((1, 3)), np.array([[0.0, 0.0, -5.0]]), 0.0
    )
    np.testing.assert_array_equal(leaving, 0.0)
    np.testing.assert_array_equal(far, 0.0)
    assert near[0, 2] > 0.0


@pytest.mark.tiny
def test_friction_holds_up_to_its_cone():
    """Stop slip inside the friction cone, and apply the full friction force against slip outside of it."""
    h = 1e-3
    for slip, holds in ((1e-3, True), (1.0, False)):
        v = np.array([[0.6 * slip, 0.8 * slip, -0.01]])
        contact = forces(on_plane(0.001), warm_start=warm(0.001), friction=0.5)
        force = contact.solve(h, np.zeros((1, 3)), v, 0.0)
        tangential = float(np.linalg.norm(force[0, :2]))
        if holds:
            np.testing.assert_allclose(after(force, v, h)[0, :2], 0.0, atol=1e-12)
            assert tangential <= 0.5 * force[0, 2]
        else:
            np.testing.assert_allclose(force[0, :2], -0.5 * force[0, 2] * np.array([0.6, 0.8]), rtol=1e-9)


@pytest.mark.tiny
def test_scripted_motion_drags_contacts():
    """Drag a vertex along with a sliding plane while friction holds."""
    contact = forces(on_plane(0.001, drive=(-0.001, 0.0, 0.0)), warm_start=warm(0.001), friction=0.5)
    force = contact.solve(1e-3, np.zeros((1, 3)), np.zeros((1, 3)), 0.0)
    np.testing.assert_allclose(1e-3 * force[0, :2], [0.001, 0.0], atol=1e-12)


def test_unexplained_penetration_is_released_gradually():
    """Apply only damping to new contacts, the previous depth to known ones, and release the rest over time."""
    still = np.zeros((1, 3))
    new = forces(on_plane(0.001), warm_start=no_warm_start()).solve(1e-6, still, still, 0.0)
    previous = forces(on_plane(0.001), warm_start=warm(0.001)).solve(1e-6, still, still, 0.0)
    half = forces(on_plane(0.001), warm_start=no_warm_start()).solve(1e-6, still, still, np.log(2.0) / 5.0)
    np.testing.assert_allclose(new, 0.0, atol=1e-12)
    np.testing.assert_allclose(previous[0, 2], 10.0, rtol=1e-6)
    np.testing.assert_allclose(half[0, 2], 5.0, rtol=1e-6)
    assert forces(on_plane(0.001), warm_start=no_warm_start()).deepest(still, 0.0) == 0.0


def test_prescribed_vertices_have_zero_inverse_mass():
    """Apply the spring force to a vertex of zero inverse mass, without division by zero."""
    contact = ContactForces(on_plane(0.001), np.zeros(1), friction=0.5, warm_start=warm(0.001))
    force = contact.solve(1e-3, np.zeros((1, 3)), np.zeros((1, 3)), 0.0)
    np.testing.assert_allclose(force, [[0.0, 0.0, 10.0]], rtol=1e-9)


def test_contacts_on_one_vertex_are_solved_together():
    """Distribute a load over equal contacts of one vertex: all contact laws hold at once."""
    count, h, v = 7, 1e-3, np.array([[0.0, 0.0, -0.3]])
    rows = on_plane(np.full(count, 0.001), stiffness=3e5, relax=1e-3)
    rows = ContactConstraints(**{
        **{name: getattr(rows, name) for name in rows.__dataclass_fields__},
        "normal_jacobian": rows.normal_jacobian._replace(vertex=np.zeros(count, dtype=np.int64)),
        "slip_jacobian": rows.slip_jacobian._replace(vertex=np.zeros(count, dtype=np.int64)),
    })  # fmt: skip
    warm_start = WarmStart(np.arange(count), np.zeros(count), np.zeros((count, 3)), np.full(count, 0.001))
    contact = ContactForces(rows, np.ones(1), friction=0.0, warm_start=warm_start)
    force = contact.solve(h, np.zeros((1, 3)), v, 0.0)
    depth_rate = -after(force, v, h)[0, 2]
    np.testing.assert_allclose(contact.normal_force, 3e5 * (0.001 + 2e-3 * depth_rate), rtol=5e-3)
    np.testing.assert_allclose(contact.normal_force.sum(), force[0, 2])
    assert contact.normal_force.min() > 0.0
