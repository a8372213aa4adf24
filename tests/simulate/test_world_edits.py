"""Edits during a simulation: bodies are added, removed and replaced, options change, sleeping bodies wake."""

from __future__ import annotations

import numpy as np
import pytest

import impinge
from impinge.errors import MeshError, OptionError
from impinge.mesh.shapes import box, tet_box
from impinge.simulate.simulation import Simulation, SimulationError
from impinge.world.world import World
from simulated_cubes import EDGE, FIRM, soft_cube, weight, world_of


def shift(*way):
    """A motion at constant velocity."""

    def moved(t):
        transform = np.eye(4)
        transform[:3, 3] = t * np.array(way)
        return transform

    return moved


def tool(x=0.0):
    return box(0.1, center=(x, 3.0, 0.0))


# motions ------------------------------------------------------------------------------------------------


def test_bodies_added_later_can_be_scripted():
    """Script bodies that were added, or whose index changed, after the first frame."""
    world = world_of(cube=soft_cube((0.0, 0.0, 0.3), cells=1))
    sim = Simulation(world)
    world.add(tool(), name="first")
    sim.step()
    world.add(tool(1.0), name="second")
    sim.script("second", shift(1.0, 0.0, 0.0))
    sim.step()
    world.remove("first")
    world.add(tool(2.0), name="third")
    sim.script("third", shift(0.0, 1.0, 0.0))
    sim.step()

    np.testing.assert_allclose(world["second"].vertices, tool(1.0 + sim.time).vertices, atol=1e-12)
    np.testing.assert_allclose(world["third"].vertices - tool(2.0).vertices, [[0.0, sim.time, 0.0]] * 8, atol=1e-12)


def test_a_replaced_body_inherits_no_motion():
    """Drop the motion and the initial positions of a replaced body; script the new one under its name."""
    world = World()
    world.add(tool(), name="tool")
    sim = Simulation(world)
    sim.script("tool", shift(1.0, 0.0, 0.0))
    sim.run(0.1)
    other = impinge.shapes.icosphere(1, radius=0.1, center=(5.0, 0.0, 0.0))
    start = other.vertices.copy()
    world.remove("tool")
    world.add(other, name="tool")
    sim.step()
    np.testing.assert_array_equal(other.vertices, start)
    sim.script("tool", shift(0.0, 1.0, 0.0))
    sim.step()

    np.testing.assert_allclose(other.vertices, start + np.array([0.0, sim.time, 0.0]), atol=1e-12)


def test_a_replaced_body_inherits_no_contacts():
    """Replace a cube in contact by another one of the same name: it starts as in a new simulation."""

    def lighter():
        return soft_cube((0.0, 0.0, 0.0499), cells=1, material=FIRM)

    world = world_of(cube=soft_cube((0.0, 0.0, 0.08), cells=1, material=FIRM))
    sim = Simulation(world, ground=0.0)
    assert sim.run(0.15)[-1].contacts
    world.remove("cube")
    world.add(lighter(), name="cube")
    fresh = Simulation(world_of(cube=lighter()), ground=0.0)

    assert sim.step().contact == fresh.step().contact
    np.testing.assert_array_equal(world["cube"].velocities, fresh.world["cube"].velocities)


def test_resting_bodies_keep_their_forces_across_edits():
    """Keep contact forces while the indices of bodies change."""
    world = World()
    world.add(tool(5.0), name="first")
    cube = soft_cube((0.0, 0.0, 0.0499), material=FIRM)
    world.add(cube, name="cube")
    sim = Simulation(world, ground=0.0, modal_damping=0.5, sleep_after=None)
    before = sim.run(1.2)[-1]
    world.remove("first")
    world.add(tool(6.0), name="second")
    after = [sim.step() for _ in range(3)]

    for report in after:
        np.testing.assert_allclose(report.forces["cube"][2], before.forces["cube"][2], rtol=0.02)


def test_converted_bodies_can_be_scripted():
    """Script bodies that were added as arrays or tets."""
    world, mesh = World(), tool()
    world.add((mesh.vertices, mesh.faces), name="arrays")
    tets = tet_box(1, 1, 1)
    world.add(tets, name="tets")
    sim = Simulation(world)
    for name in world.names:
        sim.script(name, shift(0.0, 0.0, 1.0))
    sim.step(0.5)

    np.testing.assert_allclose(world.surface("arrays").vertices, mesh.vertices + np.array([0.0, 0.0, 0.5]))
    np.testing.assert_allclose(tets.vertices[:, 2].max(), 1.0)


def test_fixed_soft_bodies_are_obstacles():
    """Treat a soft body that was added as fixed as an obstacle."""
    lower, upper = soft_cube((0.0, 0.0, -0.05), material=FIRM), soft_cube((0.0, 0.0, 0.0501), edge=0.09, material=FIRM)
    world = World()
    world.add(lower, name="lower", fixed=True)
    world.add(upper, name="upper")
    start = lower.coarse.vertices.copy()
    sim = Simulation(world)
    report = sim.run(0.3)[-1]

    np.testing.assert_array_equal(lower.coarse.vertices, start)
    assert upper.surface.vertices[:, 2].min() > -0.02 * EDGE
    assert report.forces["lower"][2] < 0.0


def test_a_failing_motion_is_named():
    """Name the body whose motion failed and the time, and keep the state before the frame."""
    world = World()
    world.add(tool(), name="tool")
    sim = Simulation(world)
    start = world["tool"].vertices.copy()
    sim.step(0.5)

    def fails(t):
        return {}[t]

    def adds(_):
        world.add(tool(9.0))
        return np.eye(4)

    gave = "positions from the motion of body 'tool'"
    for motion, kind, message in (
        (fails, SimulationError, r"the motion of body 'tool' failed at time 1 \(KeyError: 1.0\)"),
        (lambda _: "up", MeshError, f"{gave} hold strings"),
        (lambda _: None, MeshError, f"{gave} hold Python objects"),
        (lambda _: [[1.0], [2.0, 3.0]], MeshError, f"{gave} are ragged"),
        (adds, OptionError, "the motion of body 'tool' has added, removed or ignored bodies"),
    ):
        sim.script("tool", motion)
        with pytest.raises(kind, match=message):
            sim.step(0.5)
        assert (sim.frame, sim.time) == (1, 0.5)
        np.testing.assert_array_equal(world["tool"].vertices, start)


def test_a_grown_body_needs_its_motion_again():
    """Raise an error for new vertices of a scripted body; static bodies may grow and have contacts."""
    world = World()
    block = box((0.3, 0.3, 0.1), center=(0.0, 0.0, -0.05), cells=(3, 3, 1))
    cube = soft_cube((0.0, 0.0, 0.0501), material=FIRM)
    world.add(block, name="block")
    world.add(cube, name="cube")
    sim = Simulation(world)
    sim.step()
    more = box(0.05, center=(0.05, 0.0, 0.2))
    block.add_triangles(more.faces + len(block.vertices), vertices=more.vertices)
    assert sim.run(0.1)[-1].contacts
    sim.script("block", lambda _: np.eye(4))
    sim.step()
    block.add_vertices([[0.0, 0.0, 1.0]])
    with pytest.raises(MeshError, match="body 'block' has 41 vertices, but 40 when its motion was set; call script"):
        sim.step()
    sim.script("block", lambda _: np.eye(4))
    assert sim.step().contacts


# sleeping bodies -----------------------------------------------------------------------------------------------


def asleep_on(support, **options):
    """A cube that sleeps on a support, and another one that sleeps elsewhere."""
    world = World()
    world.add(soft_cube((0.0, 0.0, 0.0499), cells=1, material=FIRM), name="cube")
    world.add(soft_cube((2.0, 0.0, 0.0499), cells=1, material=FIRM), name="far")
    for x, name in ((0.0, "block"), (2.0, "far block")):
        if support == "block":
            world.add(box((0.3, 0.3, 0.1), center=(x, 0.0, -0.05), cells=(3, 3, 1)), name=name)
    options = {"modal_damping": 0.5, "sleep_after": 0.2, **options}
    sim = Simulation(world, ground=0.0 if support == "ground" else None, **options)
    assert sim.run(2.0)[-1].sleeping == ("cube", "far")
    return sim


@pytest.mark.parametrize(
    "change",
    [
        lambda sim: setattr(sim, "ground", None),
        lambda sim: setattr(sim, "ground", -0.2),
        lambda sim: setattr(sim, "friction", 0.0),
        lambda sim: setattr(sim, "gravity", (1.0, 0.0, -9.0)),
        lambda sim: setattr(sim, "stiffness", 1e7),
    ],
    ids=["no ground", "lower ground", "friction", "gravity", "stiffness"],
)
def test_changed_parameters_wake_all_bodies(change):
    """Wake all bodies when a common parameter changes."""
    sim = asleep_on("ground")
    change(sim)

    assert not sim.step().sleeping


def test_a_moved_support_wakes_a_body():
    """Wake a cube whose obstacle the caller moves; bodies far from both places sleep on."""
    sim = asleep_on("block")
    sim.world["block"].update(sim.world["block"].vertices + np.array([0.0, 9.0, 0.0]))
    assert sim.step().sleeping == ("far",)
    sim.run(0.2)

    assert sim.world["cube"].surface.vertices[:, 2].min() < -0.1


@pytest.mark.parametrize("way", ["ignore", "remove", "triangles"])
def test_a_removed_support_wakes_a_body(way):
    """Wake a cube when its support is ignored, removed or loses its triangles."""
    sim = asleep_on("block")
    if way == "ignore":
        sim.world.ignore("cube", "block")
    elif way == "remove":
        sim.world.remove("block")
    else:
        sim.world["block"].remove_triangles(np.arange(len(sim.world["block"].faces)))
    assert "cube" not in sim.step().sleeping
    sim.run(0.3)

    assert sim.world["cube"].surface.vertices[:, 2].min() < -0.1


def test_a_moved_soft_support_wakes_a_body():
    """Wake a cube when the caller moves the soft body below it."""
    lower, upper = soft_cube((0.0, 0.0, 0.0499), material=FIRM), soft_cube((0.0, 0.0, 0.139), edge=0.08, material=FIRM)
    sim = Simulation(world_of(lower=lower, upper=upper), ground=0.0, modal_damping=0.5, sleep_after=0.2)
    assert sim.run(3.0)[-1].sleeping == ("lower", "upper")
    lower.coarse.update(lower.coarse.vertices + np.array([3.0, 0.0, 0.0]))

    assert not sim.step().sleeping
    sim.run(0.1)
    assert upper.surface.vertices[:, 2].min() < 0.09


def test_bodies_with_prescribed_motion_do_not_sleep():
    """Stay awake with slowly moving vertices; wake when their velocity changes."""
    cube = soft_cube((0.0, 0.0, 0.3), cells=1, material=FIRM)
    top = np.flatnonzero(cube.coarse.vertices[:, 2] > 0.3)
    cube.move(top, (0.0, 0.0, 0.0))
    sim = Simulation(world_of(cube=cube), modal_damping=0.5, sleep_after=0.2)
    assert sim.run(3.0)[-1].sleeping == ("cube",)
    slow = 0.002 * EDGE
    start = cube.coarse.vertices[top].copy()
    cube.move(top, (slow, 0.0, 0.0))
    reports = sim.run(0.5)

    assert not any(report.sleeping for report in reports)
    np.testing.assert_allclose(cube.coarse.vertices[top], start + np.array([0.5 * slow, 0.0, 0.0]), atol=1e-12)


def test_time_advances_for_sleeping_bodies():
    """Advance the time of soft bodies while all sleep."""
    sim = asleep_on("ground")
    sim.run(0.2)

    np.testing.assert_allclose([sim.world["cube"].time, sim.world["far"].time], sim.time)


# options ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("gravity", (0.0, 1.0), "gravity is .*, expected three finite numbers"),
        ("dt", 0.0, "dt is 0.0, expected a positive number of seconds"),
        ("ground", "floor", "ground is 'floor', expected a height"),
        ("friction", -1.0, "friction is -1.0, expected a number from 0"),
        ("damping", None, "damping is None, expected a number from 0"),
        ("response", "magic", "response is 'magic', expected one of 'contact', 'vertices', 'volume', 'spheres'"),
        (
            "response",
            ["spheres"],
            "response is .*spheres.*, expected one of 'contact', 'vertices', 'volume', 'spheres'",
        ),
    ],
)
def test_options_are_checked_on_assignment(name, value, message):
    """Raise an error for an invalid value, and keep the old one."""
    sim = Simulation(world_of(cube=soft_cube((0.0, 0.0, 0.06), cells=1)), ground=0.0)
    before = getattr(sim, name)
    with pytest.raises(OptionError, match=message):
        setattr(sim, name, value)

    assert getattr(sim, name) is before
    sim.step()


def test_options_can_be_assigned_during_a_run():
    """Apply another response, ground, gravity and stiffness during a run."""
    cube = soft_cube((0.0, 0.0, 0.0501), material=FIRM)
    sim = Simulation(world_of(cube=cube, block=box((0.3, 0.3, 0.1), center=(0.01, 0.0, -0.05), cells=(3, 3, 1))))
    sim.run(0.1)
    sim.response, sim.stiffness, sim.modal_damping = "volume", 1e6, 0.5
    sim.run(0.6)
    assert cube.surface.vertices[:, 2].min() > -0.03 * EDGE
    sim.gravity = [0.0, 0.0, 0.0]
    sim.ground = ((0.0, 0.0, 0.0), (0.0, 0.0, 2.0))
    report = sim.run(0.05)[-1]

    np.testing.assert_array_equal(sim.ground[0], [0.0, 0.0, 1.0])
    assert report.gravitational == 0.0
    assert report.forces["cube"][2] < 0.5 * weight(cube)
