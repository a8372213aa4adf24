"""State files: a resumed run is bit-identical; damaged and foreign files raise errors."""

from __future__ import annotations

import numpy as np
import pytest

from impinge.bodies.soft_body import SoftBody
from impinge.errors import FileError, OptionError
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
    arrays = [body.surface.vertices for body in bodies] + [body.velocities for body in bodies]
    return np.concatenate([*arrays, sim.world["plate"].vertices])


@pytest.mark.parametrize("response", ["vertices", "volume", "spheres"])
def test_a_run_resumes_bit_for_bit(tmp_path, response):
    """Save during contact, restore into a new simulation, and reach the same bits."""
    whole, first, second = scene(response), scene(response), scene(response)
    whole.run(0.06)
    expected = whole.run(0.035)
    first.run(0.06)
    first.save(tmp_path / "state.npz")
    second.restore(tmp_path / "state.npz")
    actual = second.run(0.035)

    assert expected[-1].contacts
    assert (actual[-1].energy, actual[-1].work, actual[-1].frame) == (
        expected[-1].energy,
        expected[-1].work,
        expected[-1].frame,
    )
    np.testing.assert_array_equal(state(second), state(whole))


def test_a_run_of_a_dense_body_resumes_bit_for_bit(tmp_path):
    """Merge contacts of a dense surface after a restore as before: coarse groups depend on the rest state only.

    Groups once depended on the links at the first contact, which differ in a resumed run.
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

    assert expected.contacts
    assert actual.energy == expected.energy
    np.testing.assert_array_equal(second.world["ball"].velocities, whole.world["ball"].velocities)


@pytest.mark.parametrize("response", ["vertices", "volume", "spheres"])
def test_a_budgeted_run_resumes_bit_for_bit(tmp_path, response):
    """Save while pairs wait for a query: the file holds the queue and the constraints of skipped pairs."""
    whole, first, second = (scene(response, max_tests=50) for _ in range(3))
    before = whole.run(0.07)
    expected = whole.run(0.035)
    first.run(0.07)
    first.save(tmp_path / "state.npz")
    second.restore(tmp_path / "state.npz")
    actual = second.run(0.035)

    assert before[-1].incomplete_pairs
    assert before[-1].contacts
    assert [report.incomplete_pairs for report in actual] == [report.incomplete_pairs for report in expected]
    assert actual[-1].energy == expected[-1].energy
    np.testing.assert_array_equal(state(second), state(whole))


def test_damaged_files_raise(tmp_path):
    """Raise an error for arrays that are missing, of wrong shape or not finite, and change nothing."""
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
        if name.endswith("_start"):
            changes += [
                value.astype(np.uint64),
                value.astype(np.float32),
                value - 1,
                np.append(value[:-1] + value[-1] + 1, value[-1]),
            ]
        for change in changes:
            np.savez(path, **rest, **({} if change is None else {name: change}))
            with pytest.raises(FileError, match=r"state\.npz (is a damaged simulation state|holds)"):
                sim.restore(path)
    np.testing.assert_array_equal(state(sim), before)


def test_obstacles_moved_by_the_caller_are_part_of_the_state(tmp_path):
    """Restore an obstacle that the caller moved before the state was saved."""
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


def test_states_of_other_bodies_raise(tmp_path):
    """Raise an error for states with other links or other particles, and change nothing."""
    path = tmp_path / "state.npz"
    scene(embedding="rigid_links").save(path)
    with pytest.raises(FileError, match=r"holds a different body 'a'.* other coarse vertices or links"):
        scene(embedding="barycentric").restore(path)
    scene(embedding="barycentric").save(path)
    with pytest.raises(FileError, match="holds a different body 'a'"):
        scene(embedding="rigid_links").restore(path)
    rain = scene()
    rain.particles = Particles(np.ones((5, 3)))
    rain.save(path)
    with pytest.raises(FileError, match="holds 5 particles, expected 0"):
        scene().restore(path)


def test_invalid_files_raise(tmp_path):
    """Raise an error that describes the file, and change nothing."""
    sim, path = scene(), tmp_path / "state.npz"
    before = state(sim)
    with pytest.raises(FileError, match="cannot be read"):
        sim.restore(path)
    path.write_text("nothing")
    with pytest.raises(FileError, match="is not a simulation state"):
        sim.restore(path)
    for version, remedy in ((99, "update impinge"), (1, "run the simulation again from the start")):
        np.savez(path, format="impinge simulation", version=version)
        with pytest.raises(FileError, match=f"has format version {version}, expected 5; {remedy}"):
            sim.restore(path)
    scene(second="c").save(path)
    with pytest.raises(FileError, match="holds the bodies 'a', 'c', 'plate', but the world has 'a', 'b', 'plate'"):
        sim.restore(path)
    with pytest.raises(FileError, match="cannot be written"):
        sim.save(tmp_path / "nowhere" / "state.npz")
    for no_name in (7, ""):
        with pytest.raises(OptionError, match=f"path is {no_name!r}, expected a file name"):
            sim.save(no_name)
    np.testing.assert_array_equal(state(sim), before)
