"""A world and options that change while a simulation goes on: bodies come and go, are replaced, and sleepers notice."""

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
    """A motion that goes on evenly."""

    def moved(t):
        transform = np.eye(4)
        transform[:3, 3] = t * np.array(way)
        return transform

    return moved


def tool(x=0.0):
    return box(0.1, center=(x, 3.0, 0.0))


# motions ------------------------------------------------------------------------------------------------


def test_bodies_that_come_later_can_be_given_motions():
    """Script bodies that were added, or whose number has changed, after the first frame."""
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


def test_a_body_that_takes_the_name_of_another_is_another():
    """Forget the motion and the first place of a body that was replaced; the new one moves as it is told."""
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
    """Take a cube away that presses on the ground, and lay another one down in its name: it begins as in a new run."""

    def lighter():
        return soft_cube((0.0, 0.0, 0.0499), cells=1, material=FIRM)

    world = world_of(cube=soft_cube((0.0, 0.0, 0.08), cells=1, material=FIRM))
    sim = Simulation(world, ground=0.0)
    assert sim.run(0.15)[-1].contacts > 0
    world.remove("cube")
    world.add(lighter(), name="cube")
    fresh = Simulation(world_of(cube=lighter()), ground=0.0)

    assert sim.step().contact == fresh.step().contact
    np.testing.assert_array_equal(world["cube"].velocities, fresh.world["cube"].velocities)


def test_what_rests_stays_at_rest_while_others_come_and_go():
    """Keep the forces of contacts while numbers of bodies change."""
    world = World()
    world.add(tool(5.0), name="first")
    cube = soft_cube((0.0, 0.0, 0.0499), material=FIRM)
    world.add(cube, name="cube")
    sim = Simulation(world, ground=0.0, settling=0.5, sleep_after=None)
    before = sim.run(1.2)[-1]
    world.remove("first")
    world.add(tool(6.0), name="second")
    after = [sim.step() for _ in range(3)]

    for report in after:
        np.testing.assert_allclose(report.forces["cube"][2], before.forces["cube"][2], rtol=0.02)


def test_what_was_turned_into_a_mesh_moves():
    """Move bodies that were added as arrays."""
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


def test_soft_bodies_that_the_world_holds_fixed_stand_still():
    """Treat a soft body that was added as fixed like any obstacle."""
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


def test_a_motion_that_fails_is_named():
    """Say whose motion failed and when, and be as before the frame."""
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

    gave = "positions that the motion of body 'tool' gave"
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


def test_a_body_that_grew_needs_its_motion_again():
    """Say that vertices came to a body whose motion was given; bodies that stand still may grow, and are felt."""
    world = World()
    block = box((0.3, 0.3, 0.1), center=(0.0, 0.0, -0.05), cells=(3, 3, 1))
    cube = soft_cube((0.0, 0.0, 0.0501), material=FIRM)
    world.add(block, name="block")
    world.add(cube, name="cube")
    sim = Simulation(world)
    sim.step()
    more = box(0.05, center=(0.05, 0.0, 0.2))
    block.add_triangles(more.faces + len(block.vertices), vertices=more.vertices)
    assert sim.run(0.1)[-1].contacts > 0
    sim.script("block", lambda _: np.eye(4))
    sim.step()
    block.add_vertices([[0.0, 0.0, 1.0]])
    with pytest.raises(MeshError, match="body 'block' has 41 vertices, but 40 when its motion was given; call script"):
        sim.step()
    sim.script("block", lambda _: np.eye(4))
    assert sim.step().contacts > 0


# sleepers -----------------------------------------------------------------------------------------------


def asleep_on(support, **options):
    """A cube that sleeps on what is below it, and another one that sleeps elsewhere."""
    world = World()
    world.add(soft_cube((0.0, 0.0, 0.0499), cells=1, material=FIRM), name="cube")
    world.add(soft_cube((2.0, 0.0, 0.0499), cells=1, material=FIRM), name="far")
    for x, name in ((0.0, "block"), (2.0, "far block")):
        if support == "block":
            world.add(box((0.3, 0.3, 0.1), center=(x, 0.0, -0.05), cells=(3, 3, 1)), name=name)
    options = {"settling": 0.5, "sleep_after": 0.2, **options}
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
def test_sleepers_notice_new_rules(change):
    """Wake all when what holds for all bodies changes."""
    sim = asleep_on("ground")
    change(sim)

    assert not sim.step().sleeping


def test_sleepers_fall_when_their_support_is_moved():
    """Wake a cube whose obstacle is put elsewhere by hand; who is far from both places sleeps on."""
    sim = asleep_on("block")
    sim.world["block"].update(sim.world["block"].vertices + np.array([0.0, 9.0, 0.0]))
    assert sim.step().sleeping == ("far",)
    sim.run(0.2)

    assert sim.world["cube"].surface.vertices[:, 2].min() < -0.1


@pytest.mark.parametrize("way", ["ignore", "remove", "triangles"])
def test_sleepers_fall_when_their_support_is_gone(way):
    """Wake a cube when its support is ignored from now on, removed, or loses its triangles."""
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


def test_a_sleeper_falls_when_the_one_below_is_taken_away():
    """Wake a cube when the caller puts the soft body below it elsewhere."""
    lower, upper = soft_cube((0.0, 0.0, 0.0499), material=FIRM), soft_cube((0.0, 0.0, 0.139), edge=0.08, material=FIRM)
    sim = Simulation(world_of(lower=lower, upper=upper), ground=0.0, settling=0.5, sleep_after=0.2)
    assert sim.run(3.0)[-1].sleeping == ("lower", "upper")
    lower.coarse.update(lower.coarse.vertices + np.array([3.0, 0.0, 0.0]))

    assert not sim.step().sleeping
    sim.run(0.1)
    assert upper.surface.vertices[:, 2].min() < 0.09


def test_bodies_that_are_told_to_move_do_not_sleep():
    """Follow vertices that are moved slowly, and those whose velocity changes while the body sleeps."""
    cube = soft_cube((0.0, 0.0, 0.3), cells=1, material=FIRM)
    top = np.flatnonzero(cube.coarse.vertices[:, 2] > 0.3)
    cube.move(top, (0.0, 0.0, 0.0))
    sim = Simulation(world_of(cube=cube), settling=0.5, sleep_after=0.2)
    assert sim.run(3.0)[-1].sleeping == ("cube",)
    slow = 0.002 * EDGE
    start = cube.coarse.vertices[top].copy()
    cube.move(top, (slow, 0.0, 0.0))
    reports = sim.run(0.5)

    assert not any(report.sleeping for report in reports)
    np.testing.assert_allclose(cube.coarse.vertices[top], start + np.array([0.5 * slow, 0.0, 0.0]), atol=1e-12)


def test_time_passes_for_sleepers():
    """Count the time of soft bodies on while all sleep."""
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
        ("response", "magic", "response is 'magic', expected one of"),
        ("response", ["spheres"], "response is .*spheres.*, expected one of"),
    ],
)
def test_options_are_checked_when_they_are_set(name, value, message):
    """Say what was expected, and keep what was there."""
    sim = Simulation(world_of(cube=soft_cube((0.0, 0.0, 0.06), cells=1)), ground=0.0)
    before = getattr(sim, name)
    with pytest.raises(OptionError, match=message):
        setattr(sim, name, value)

    assert getattr(sim, name) is before
    sim.step()


def test_options_that_are_set_later_count():
    """Take another response, ground, gravity and stiffness in the middle of a run."""
    cube = soft_cube((0.0, 0.0, 0.0501), material=FIRM)
    sim = Simulation(world_of(cube=cube, block=box((0.3, 0.3, 0.1), center=(0.01, 0.0, -0.05), cells=(3, 3, 1))))
    sim.run(0.1)
    sim.response, sim.stiffness, sim.settling = "volume", 1e6, 0.5
    sim.run(0.6)
    assert cube.surface.vertices[:, 2].min() > -0.02 * EDGE
    sim.gravity = [0.0, 0.0, 0.0]
    sim.ground = ((0.0, 0.0, 0.0), (0.0, 0.0, 2.0))
    report = sim.run(0.05)[-1]

    np.testing.assert_array_equal(sim.ground[0], [0.0, 0.0, 1.0])
    assert report.gravitational == 0.0
    assert report.forces["cube"][2] < 0.5 * weight(cube)
