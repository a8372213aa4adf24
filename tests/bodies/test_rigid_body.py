"""Rigid bodies by themselves: mass, pose, free motion, files."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import impinge
from impinge.bodies.rigid_body import RigidBody
from impinge.errors import FileError, MeshError, OptionError
from impinge.mesh import shapes
from impinge.scenes.registry import rotation

STILL = (0.0, 0.0, 0.0)
SIZES = np.array([0.1, 0.2, 0.3])
CENTRE = np.array([0.4, -0.3, 0.2])


def brick(**options) -> RigidBody:
    return RigidBody(shapes.box(tuple(SIZES), center=tuple(CENTRE), cells=(2, 2, 2)), **options)


def stretch(body: RigidBody) -> float:
    """Largest relative change of a distance between two vertices of the surface."""
    now, rest = body.surface.vertices, body.rest_surface
    i, j = np.triu_indices(len(now), 1)
    before, after = (np.linalg.norm(x[i] - x[j], axis=1) for x in (rest, now))
    return float(np.abs(after / before - 1.0).max())


def euler(inertia: np.ndarray, spin: np.ndarray, seconds: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Rotation and angular velocity in the body after free motion, by Runge-Kutta's method for Euler's equations."""

    def rate(turn, w):
        cross = np.array([[0.0, -w[2], w[1]], [w[2], 0.0, -w[0]], [-w[1], w[0], 0.0]])
        return turn @ cross, np.cross(inertia * w, w) / inertia

    turn, w, h = np.eye(3), np.array(spin), seconds / steps
    for _ in range(steps):
        a = rate(turn, w)
        b = rate(turn + 0.5 * h * a[0], w + 0.5 * h * a[1])
        c = rate(turn + 0.5 * h * b[0], w + 0.5 * h * b[1])
        d = rate(turn + h * c[0], w + h * c[1])
        turn = turn + h / 6.0 * (a[0] + 2.0 * b[0] + 2.0 * c[0] + d[0])
        w = w + h / 6.0 * (a[1] + 2.0 * b[1] + 2.0 * c[1] + d[1])
    return turn, w


def test_mass_and_inertia_are_those_of_the_solid():
    """Match the closed form of a brick, and turn the inertia with the body."""
    body = brick(density=500.0)
    expected = 3.0 / 12.0 * ((SIZES**2).sum() - SIZES**2)

    assert body.mass == pytest.approx(3.0, rel=1e-14)
    np.testing.assert_allclose(body.centre, CENTRE, atol=1e-15)
    np.testing.assert_allclose(body.inertia, np.diag(expected), atol=1e-15)
    turn = np.eye(4)
    turn[:3, :3] = rotation(np.array([0.6, 0.0, 0.8]), 1.1)
    body.pose = turn
    np.testing.assert_allclose(body.inertia, turn[:3, :3] @ np.diag(expected) @ turn[:3, :3].T, atol=1e-15)


def test_the_four_masses_have_momenta_and_energy_of_the_solid():
    """Move and turn a brick: momentum and energy are the closed forms."""
    body = brick()
    body.velocity, body.angular_velocity = (1.0, 2.0, 3.0), (4.0, 5.0, 6.0)
    inertia = 6.0 / 12.0 * ((SIZES**2).sum() - SIZES**2)
    spin = np.array([4.0, 5.0, 6.0])

    momentum = body.momentum()
    np.testing.assert_allclose(momentum.linear, 6.0 * np.array([1.0, 2.0, 3.0]), rtol=1e-13)
    expected = 6.0 * np.cross(CENTRE, (1.0, 2.0, 3.0)) + inertia * spin
    np.testing.assert_allclose(momentum.angular, expected, atol=1e-13)
    assert body.energy().kinetic == pytest.approx(0.5 * 6.0 * 14.0 + 0.5 * float(inertia @ spin**2), rel=1e-13)
    assert body.energy().elastic < 1e-15


def test_velocities_read_back_and_survive_a_new_pose():
    """Assign velocities and a pose: each reads back, and the surface has the pose."""
    body = brick()
    body.angular_velocity, body.velocity = (0.1, -0.2, 0.3), (1.0, 0.0, -1.0)
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = rotation(np.array([0.0, 0.6, 0.8]), 2.0), (5.0, 6.0, 7.0)
    body.pose = pose

    np.testing.assert_allclose(body.pose, pose, atol=1e-14)
    np.testing.assert_allclose(body.velocity, (1.0, 0.0, -1.0), atol=1e-14)
    np.testing.assert_allclose(body.angular_velocity, (0.1, -0.2, 0.3), atol=1e-13)
    np.testing.assert_allclose(body.surface.vertices, body.rest_surface @ pose[:3, :3].T + pose[:3, 3], atol=1e-14)


@pytest.mark.parametrize("integrator", ["implicit", "midpoint"])
def test_free_fall_is_that_of_the_scheme(integrator):
    """Fall with a spin for 30 steps: the centre moves as the scheme's closed form, to rounding."""
    body, h, count = brick(), 1.0 / 60.0, 30
    body.velocity, body.angular_velocity = (1.0, 0.0, 2.0), (3.0, 1.0, 4.0)
    for _ in range(count):
        assert body.step(h, integrator=integrator).converged

    fall = 0.5 * 9.81 * h * h * (count * (count + 1) if integrator == "implicit" else count * count)
    expected = CENTRE + count * h * np.array([1.0, 0.0, 2.0]) - (0.0, 0.0, fall)
    np.testing.assert_allclose(body.centre, expected, atol=1e-13)
    np.testing.assert_allclose(body.velocity, (1.0, 0.0, 2.0 - 9.81 * count * h), atol=1e-12)


@pytest.mark.parametrize("integrator", ["implicit", "midpoint"])
def test_a_tumbling_body_follows_eulers_equations(integrator):
    """Spin a brick about its unstable axis: it tips over as the equations say; momentum and energy stay."""
    body, h, count = brick(), 1.0 / 60.0, 300
    body.angular_velocity = (0.02, 6.0, 0.01)
    start, energy = body.momentum().angular, body.energy().kinetic
    tipped, energies = 0.0, [energy]
    for _ in range(count):
        body.step(h, gravity=STILL, integrator=integrator)
        energies.append(body.energy().kinetic)
        tipped = min(tipped, float(body.pose[1, 1]))
    turn, spin = euler(0.5 * ((SIZES**2).sum() - SIZES**2), np.array([0.02, 6.0, 0.01]), count * h, 20_000)

    assert tipped < -0.99
    np.testing.assert_allclose(body.pose[:3, :3], turn, atol=2e-4)
    np.testing.assert_allclose(body.pose[:3, :3].T @ body.angular_velocity, spin, atol=1e-3)
    np.testing.assert_allclose(body.momentum().angular, start, atol=1e-10 * np.abs(start).max())
    assert max(energies) <= energy * (1.0 + 1e-12)
    assert min(energies) >= energy * (1.0 - 1e-10)
    assert stretch(body) < 1e-13


def test_forces_on_the_masses_push_and_turn():
    """Push the masses by a couple and a force: both momenta change by the impulses."""
    body = brick()
    arm = body.coarse.vertices - body.centre
    forces = np.tile((1.0, 0.0, 0.0), (4, 1)) + np.cross((0.0, 0.0, 2.0), arm)
    torque = np.cross(arm, forces).sum(axis=0)
    body.step(0.001, gravity=STILL, forces=forces)

    np.testing.assert_allclose(body.velocity, 0.001 * forces.sum(axis=0) / body.mass, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(body.inertia @ body.angular_velocity, 0.001 * torque, rtol=1e-3, atol=1e-9)
    assert stretch(body) < 1e-13


def test_a_body_inside_out_moves_alike():
    """Reverse the surface: mass and motion are the same."""
    body = brick()
    other = RigidBody((body.rest_surface, body.surface.faces[:, ::-1]))
    for each in (body, other):
        each.angular_velocity = (1.0, 2.0, 3.0)
        each.step(0.1)

    assert other.mass == pytest.approx(6.0)
    np.testing.assert_allclose(other.surface.vertices, body.surface.vertices, atol=1e-13)


def test_a_saved_body_is_equal_to_the_bit(tmp_path):
    """Save, load, copy and pickle a moving body: every later step is equal to the bit."""
    body = brick(density=700.0)
    body.velocity, body.angular_velocity = (1.0, 2.0, 3.0), (4.0, 5.0, 6.0)
    body.step(0.1)
    body.surface.remove_triangles([3])
    body.save(tmp_path / "body.npz")
    others = [RigidBody.load(tmp_path / "body.npz"), copy.deepcopy(body), pickle.loads(pickle.dumps(body))]
    body.step(0.1)
    for other in others:
        other.step(0.1)

        assert isinstance(other, RigidBody)
        assert (other.mass, other.density, other.time) == (body.mass, body.density, body.time)
        assert other.surface.live_count == body.surface.live_count
        np.testing.assert_array_equal(other.coarse.vertices, body.coarse.vertices)
        np.testing.assert_array_equal(other.velocities, body.velocities)
        np.testing.assert_array_equal(other.surface.vertices, body.surface.vertices)


def test_files_of_other_bodies_are_refused(tmp_path):
    """Load a soft body as a rigid one, and a rigid one as a soft one."""
    brick().save(tmp_path / "rigid.npz")
    tets = shapes.tet_box(1, 1, 1)
    impinge.SoftBody(tets.surface, tets).save(tmp_path / "soft.npz")

    with pytest.raises(FileError, match=r"soft.npz is not a rigid body; expected a file that RigidBody.save wrote"):
        RigidBody.load(tmp_path / "soft.npz")
    with pytest.raises(FileError, match=r"rigid.npz is not a soft body; expected a file that SoftBody.save wrote"):
        impinge.SoftBody.load(tmp_path / "rigid.npz")


def test_reset_returns_to_rest():
    """Move and reset a body: the pose is the identity, and nothing moves."""
    body = brick()
    body.angular_velocity = (1.0, 2.0, 3.0)
    body.step(0.1)
    body.reset()

    np.testing.assert_allclose(body.pose, np.eye(4), atol=1e-14)
    np.testing.assert_array_equal(body.velocity, 0.0)
    assert body.time == 0.0


def test_refusals_name_the_remedy():
    """Refuse what a rigid body cannot do."""
    body, box = brick(), shapes.box(1.0)

    with pytest.raises(MeshError, match="expected a closed and oriented one"):
        RigidBody((box.vertices, box.faces[1:]))
    with pytest.raises(OptionError, match="density is -1"):
        RigidBody(box, density=-1.0)
    with pytest.raises(OptionError, match="cannot be stepped explicitly; pass integrator='implicit' or 'midpoint'"):
        body.step(0.1, integrator="explicit")
    with pytest.raises(OptionError, match="has no vertices to fix; add it to the world with fixed=True"):
        body.fix([0])
    with pytest.raises(OptionError, match="has no vertices to move; set its velocity"):
        body.move([0], (1.0, 0.0, 0.0))
    with pytest.raises(OptionError, match=r"call RigidBody\(surface\)"):
        RigidBody.from_surface(box)
    with pytest.raises(OptionError, match="expected three finite numbers"):
        body.velocity = (1.0, np.nan, 0.0)
    for wrong in (2.0 * np.eye(4), np.diag([1.0, 1.0, -1.0, 1.0]), np.eye(3), np.full((4, 4), np.nan)):
        with pytest.raises(OptionError, match="expected a rotation and a translation as a 4x4 matrix"):
            body.pose = wrong
