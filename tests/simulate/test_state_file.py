"""Runs that stop and go on."""

from __future__ import annotations

import numpy as np
import pytest

from impinge.bodies.soft_body import SoftBody
from impinge.errors import FileError
from impinge.mesh.shapes import box, icosphere, tet_box
from impinge.simulate.particles import Particles
from impinge.simulate.simulation import Simulation
from impinge.world.world import World


def scene(response="vertices", embedding="rigid_links", second="b", max_tests=1_000_000) -> Simulation:
    """Two soft cubes that fall on each other and on the ground, and a plate that pushes them."""
    world = World()
    for name, height, edge in (("a", 0.0505, 0.1), (second, 0.1365, 0.07)):
        tets = tet_box(2, 2, 2, size=(edge,) * 3, center=(0.01, 0.0, height))
        world.add(SoftBody(tets.surface, tets, material="liver", embedding=embedding), name=name)
    world.add(box((0.02, 0.1, 0.1), center=(-0.055, 0.0, 0.06)), name="plate")
    sim = Simulation(world, ground=0.0, response=response, max_tests=max_tests)

    def push(t):
        moved = np.eye(4)
        moved[0, 3] = 0.2 * t
        return moved

    sim.script("plate", push)
    return sim


def state(sim):
    bodies = [sim.world[name] for name in sim.world.names[:2]]
    parts = [body.surface.vertices for body in bodies] + [body.velocities for body in bodies]
    return np.concatenate([*parts, sim.world["plate"].vertices])


@pytest.mark.parametrize("response", ["vertices", "volume", "spheres"])
def test_a_run_goes_on_bit_for_bit(tmp_path, response):
    """Save in the middle of a contact, restore into a new simulation, and end in the same bits."""
    whole, first, second = scene(response), scene(response), scene(response)
    whole.run(0.06)
    expected = whole.run(0.035)
    first.run(0.06)
    first.save(tmp_path / "state.npz")
    second.restore(tmp_path / "state.npz")
    actual = second.run(0.035)

    assert expected[-1].contacts > 0
    assert (actual[-1].energy, actual[-1].work, actual[-1].frame) == (
        expected[-1].energy,
        expected[-1].work,
        expected[-1].frame,
    )
    np.testing.assert_array_equal(state(second), state(whole))


def test_a_run_of_a_dense_body_goes_on_bit_for_bit(tmp_path):
    """Join contacts of a dense surface after a restore as before: by how links are at rest, not by how they are now.

    Vertices hung on the coarse one that moved them most when the run began to feel contacts, or when it went on.
    """

    def ball():
        world = World()
        surface = icosphere(3, radius=0.05, center=(0.0, 0.0, 0.052))
        world.add(SoftBody.from_surface(surface, coarse_faces=100, material="liver"), name="ball")
        return Simulation(world, ground=0.0)

    whole, second = ball(), ball()
    whole.run(0.12)
    whole.save(tmp_path / "state.npz")
    second.restore(tmp_path / "state.npz")
    expected, actual = whole.run(0.05)[-1], second.run(0.05)[-1]

    assert expected.contacts > 0
    assert actual.energy == expected.energy
    np.testing.assert_array_equal(second.world["ball"].velocities, whole.world["ball"].velocities)


@pytest.mark.parametrize("response", ["vertices", "volume", "spheres"])
def test_a_run_short_of_time_goes_on_bit_for_bit(tmp_path, response):
    """Save while bodies that touch wait for a search: who waits, and contacts as they were, are in the file."""
    whole, first, second = (scene(response, max_tests=50) for _ in range(3))
    before = whole.run(0.07)
    expected = whole.run(0.035)
    first.run(0.07)
    first.save(tmp_path / "state.npz")
    second.restore(tmp_path / "state.npz")
    actual = second.run(0.035)

    assert before[-1].unsettled
    assert before[-1].contacts > 0
    assert [report.unsettled for report in actual] == [report.unsettled for report in expected]
    assert actual[-1].energy == expected[-1].energy
    np.testing.assert_array_equal(state(second), state(whole))


def test_damaged_files_get_a_sentence(tmp_path):
    """Refuse files in which something is missing, of another shape or no number, and change nothing."""
    sim, path = scene("vertices", max_tests=50), tmp_path / "state.npz"
    sim.run(0.07)
    sim.save(path)
    whole, before = dict(np.load(path)), state(sim)
    for name, value in whole.items():
        if name in ("format", "version"):
            continue
        rest = {key: kept for key, kept in whole.items() if key != name}
        changes = [None, np.array("word")]
        changes += [np.concatenate([value, value[:1]])] if value.ndim and len(value) and name != "waiting" else []
        changes += [np.full(value.shape, np.nan)] if value.dtype.kind == "f" and value.size else []
        for change in changes:
            np.savez(path, **rest, **({} if change is None else {name: change}))
            with pytest.raises(FileError, match=r"state\.npz (is a damaged state|holds)"):
                sim.restore(path)
    np.testing.assert_array_equal(state(sim), before)


def test_obstacles_moved_by_hand_are_part_of_the_state(tmp_path):
    """Put an obstacle back that the caller had moved before the state was saved."""
    path = tmp_path / "state.npz"

    def bodies():
        world = World()
        tets = tet_box(1, 1, 1, size=(0.1,) * 3, center=(0.0, 0.0, 0.2))
        world.add(SoftBody(tets.surface, tets, embedding="barycentric"), name="cube")
        world.add(box(0.1, center=(0.3, 0.0, 0.0)), name="hand")
        return world

    first, second = Simulation(bodies()), Simulation(bodies())
    first.world["hand"].update(first.world["hand"].vertices + np.array([0.0, 1.0, 0.0]))
    first.run(0.05)
    first.save(path)
    second.restore(path)

    np.testing.assert_array_equal(second.world["hand"].vertices, first.world["hand"].vertices)


def test_states_of_other_bodies_get_a_sentence(tmp_path):
    """Refuse states of bodies with other links, and of other particles, and change nothing."""
    path = tmp_path / "state.npz"
    scene(embedding="rigid_links").save(path)
    with pytest.raises(FileError, match=r"holds another body named 'a'.* with other coarse vertices or links"):
        scene(embedding="barycentric").restore(path)
    scene(embedding="barycentric").save(path)
    with pytest.raises(FileError, match="holds another body named 'a'"):
        scene(embedding="rigid_links").restore(path)
    rain = scene()
    rain.particles = Particles(np.ones((5, 3)))
    rain.save(path)
    with pytest.raises(FileError, match="holds 5 particles and not 0"):
        scene().restore(path)


def test_wrong_files_get_a_sentence(tmp_path):
    """Say what is wrong with a file, and change nothing."""
    sim, path = scene(), tmp_path / "state.npz"
    before = state(sim)
    with pytest.raises(FileError, match="cannot be read"):
        sim.restore(path)
    path.write_text("nothing")
    with pytest.raises(FileError, match="is no state of a simulation"):
        sim.restore(path)
    for version, remedy in ((99, "update impinge"), (1, "run it again from the start")):
        np.savez(path, format="impinge simulation", version=version)
        with pytest.raises(FileError, match=f"has version {version} of the format, expected 3; {remedy}"):
            sim.restore(path)
    scene(second="c").save(path)
    with pytest.raises(FileError, match="holds the bodies 'a', 'c', 'plate', but the world has 'a', 'b', 'plate'"):
        sim.restore(path)
    with pytest.raises(FileError, match="cannot be written"):
        sim.save(tmp_path / "nowhere" / "state.npz")
    for no_name in (7, ""):
        with pytest.raises(FileError, match=f"path is {no_name!r}, expected the name of a file"):
            sim.save(no_name)
    np.testing.assert_array_equal(state(sim), before)
