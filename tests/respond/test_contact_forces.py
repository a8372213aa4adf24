"""Contact forces of points on a line and on planes, where the right answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from impinge.respond.contact_forces import ContactForces, ContactRows, Memory, Sums, no_memory

DOWN = np.array([0.0, 0.0, -1.0])


def on_plane(depth, *, stiffness=1e4, relax=0.0, release=5.0, normal=DOWN, key=None, drive=None) -> ContactRows:
    """Vertices 0, 1, ... against a plane that they sink into along ``normal``; the plane is side b."""
    depth = np.atleast_1d(np.asarray(depth, dtype=np.float64))
    count = len(depth)
    start, vertex = np.arange(count + 1), np.arange(count)
    drive = np.zeros((count, 3)) if drive is None else np.tile(np.asarray(drive, dtype=np.float64), (count, 1))
    return ContactRows(
        push=Sums(start, vertex, np.tile(normal, (count, 1))),
        slide=Sums(start, vertex, np.tile(np.eye(3), (count, 1, 1))),
        normal=np.tile(normal, (count, 1)), depth=depth, rate=drive @ normal, drive=drive,
        stiffness=np.full(count, float(stiffness)), relax=np.full(count, float(relax)), scale=np.ones(count),
        release=np.full(count, float(release)), volumetric=np.zeros(count, dtype=np.bool_),
        key=np.arange(count) if key is None else key,
        body_a=np.zeros(count, dtype=np.int64), body_b=np.full(count, -1),
    )  # fmt: skip


def known(depth, *, push=0.0) -> Memory:
    """A memory of vertex 0 at a depth."""
    return Memory(np.array([0]), np.array([push]), np.zeros((1, 3)), np.array([depth]))


def forces(rows, *, memory, friction=0.0, mass=1.0) -> ContactForces:
    return ContactForces(rows, np.full(len(rows), 1.0 / mass), friction=friction, memory=memory)


def after(force, v, h, mass=1.0):
    return v + h * force / mass


@pytest.mark.tiny
@pytest.mark.parametrize("stiffness", [1.0, 1e4, 1e12])
def test_springs_and_dampers_act_as_they_will_be(stiffness):
    """Push by the depth and the speed at the end of the step, however stiff."""
    h, relax, v = 1e-3, 2e-3, np.array([[0.0, 0.0, -0.5]])
    contact = forces(on_plane(0.001, stiffness=stiffness, relax=relax), memory=known(0.001))
    force = contact.over(h, np.zeros((1, 3)), v, 0.0)
    sinks = -after(force, v, h)[0, 2]

    np.testing.assert_allclose(force[0, 2], stiffness * (0.001 + (h + relax) * sinks), rtol=1e-9)
    assert force[0, 2] > 0.0
    np.testing.assert_array_equal(force[0, :2], 0.0)


@pytest.mark.tiny
def test_contacts_neither_pull_nor_push_before_they_touch():
    """Leave alone what parts faster than its spring could push, and what does not arrive in this step."""
    parts = forces(on_plane(0.001, relax=1.0), memory=known(0.001)).over(
        1e-3, np.zeros((1, 3)), np.array([[0.0, 0.0, 5.0]]), 0.0
    )
    far = forces(on_plane(-0.01, relax=1.0), memory=no_memory()).over(
        1e-3, np.zeros((1, 3)), np.array([[0.0, 0.0, -5.0]]), 0.0
    )
    near = forces(on_plane(-0.004, relax=1.0), memory=no_memory()).over(
        1e-3, np.zeros((1, 3)), np.array([[0.0, 0.0, -5.0]]), 0.0
    )
    np.testing.assert_array_equal(parts, 0.0)
    np.testing.assert_array_equal(far, 0.0)
    assert near[0, 2] > 0.0


@pytest.mark.tiny
def test_friction_holds_up_to_its_cone():
    """Stop sliding where friction can, and slip against the motion with its full force where it cannot."""
    h = 1e-3
    for across, holds in ((1e-3, True), (1.0, False)):
        v = np.array([[0.6 * across, 0.8 * across, -0.01]])
        contact = forces(on_plane(0.001), memory=known(0.001), friction=0.5)
        force = contact.over(h, np.zeros((1, 3)), v, 0.0)
        rubs = float(np.linalg.norm(force[0, :2]))
        if holds:
            np.testing.assert_allclose(after(force, v, h)[0, :2], 0.0, atol=1e-12)
            assert rubs <= 0.5 * force[0, 2]
        else:
            np.testing.assert_allclose(force[0, :2], -0.5 * force[0, 2] * np.array([0.6, 0.8]), rtol=1e-9)


@pytest.mark.tiny
def test_given_motions_carry_what_touches_them():
    """Drag a vertex along with a plane that slides, as long as friction holds."""
    contact = forces(on_plane(0.001, drive=(-0.001, 0.0, 0.0)), memory=known(0.001), friction=0.5)
    force = contact.over(1e-3, np.zeros((1, 3)), np.zeros((1, 3)), 0.0)
    np.testing.assert_allclose(1e-3 * force[0, :2], [0.001, 0.0], atol=1e-12)


def test_surprises_are_forgiven_and_come_back_slowly():
    """Push new contacts by their damper alone, known ones by the depth last seen, and the rest as time passes."""
    still = np.zeros((1, 3))
    new = forces(on_plane(0.001), memory=no_memory()).over(1e-6, still, still, 0.0)
    foreseen = forces(on_plane(0.001), memory=known(0.001)).over(1e-6, still, still, 0.0)
    half = forces(on_plane(0.001), memory=no_memory()).over(1e-6, still, still, np.log(2.0) / 5.0)
    np.testing.assert_allclose(new, 0.0, atol=1e-12)
    np.testing.assert_allclose(foreseen[0, 2], 10.0, rtol=1e-6)
    np.testing.assert_allclose(half[0, 2], 5.0, rtol=1e-6)
    assert forces(on_plane(0.001), memory=no_memory()).deepest(still, 0.0) == 0.0


def test_vertices_that_do_as_they_are_told_take_no_part():
    """Bear rows on vertices of no inverse mass: their force is that of the spring, and nothing divides by zero."""
    contact = ContactForces(on_plane(0.001), np.zeros(1), friction=0.5, memory=known(0.001))
    force = contact.over(1e-3, np.zeros((1, 3)), np.zeros((1, 3)), 0.0)
    np.testing.assert_allclose(force, [[0.0, 0.0, 10.0]], rtol=1e-9)


def test_many_contacts_on_one_vertex_are_solved_together():
    """Share a load among equal contacts of one vertex: all laws hold at once."""
    count, h, v = 7, 1e-3, np.array([[0.0, 0.0, -0.3]])
    rows = on_plane(np.full(count, 0.001), stiffness=3e5, relax=1e-3)
    rows = ContactRows(**{
        **{name: getattr(rows, name) for name in rows.__dataclass_fields__},
        "push": rows.push._replace(vertex=np.zeros(count, dtype=np.int64)),
        "slide": rows.slide._replace(vertex=np.zeros(count, dtype=np.int64)),
    })  # fmt: skip
    memory = Memory(np.arange(count), np.zeros(count), np.zeros((count, 3)), np.full(count, 0.001))
    contact = ContactForces(rows, np.ones(1), friction=0.0, memory=memory)
    force = contact.over(h, np.zeros((1, 3)), v, 0.0)
    sinks = -after(force, v, h)[0, 2]
    np.testing.assert_allclose(contact.pressed, 3e5 * (0.001 + 2e-3 * sinks), rtol=5e-3)
    np.testing.assert_allclose(contact.pressed.sum(), force[0, 2])
    assert contact.pressed.min() > 0.0
