"""Nothing passes through anything: scenes judged frame by frame by the exact test, and by CCD between frames."""

import math

import numpy as np
import pytest

import contact_scenes as scenes
from contact_scenes import energy_never_grows, mean_velocity, run
from impinge import Cloth, OptionError, RigidBody, Simulation, TriMesh, impacts, load, shapes
from impinge.scenes import simulated
from shared_data import FOLDER, needs_data


@pytest.mark.parametrize("thickness", [0.001, 0.005, 0.02])
def test_a_fast_ball_does_not_pass_a_plate(thickness):
    """Throw a ball of 40 mm at 10 m/s on a fixed plate: 167 mm per frame."""
    sim = scenes.thrown_ball(thickness)
    reports = run(sim, 0.4, judges_motion=True)

    assert sim.world["ball"].surface.vertices[:, 2].min() > 0.5 * thickness
    assert energy_never_grows(reports)
    assert any(report.contacts for report in reports)


@pytest.mark.parametrize("thickness", [0.001, 0.005])
def test_a_fast_ball_does_not_pass_a_soft_plate(thickness):
    """Throw a ball on a clamped soft plate of one layer of tets: it comes back."""
    sim = scenes.thrown_ball(thickness, is_soft_plate=True)
    reports = run(sim, 0.25, judges_motion=True)

    assert energy_never_grows(reports)
    assert mean_velocity(sim.world["ball"])[2] > 0.0


@pytest.mark.parametrize("cells", [(1, 1), (20, 2), (120, 12)])
def test_a_block_slides_whatever_the_floor(cells):
    """Slide without friction over internal edges of floors: within 1 % of the speed after a second."""
    sim = scenes.sliding_block(*cells)
    run(sim, 1.0)

    np.testing.assert_allclose(mean_velocity(sim.world["block"])[:2], [1.0, 0.0], atol=0.01)


def test_a_block_sticks_on_a_ramp():
    """Stay at 0.98 of the friction angle, with a creep below 1 µm/s."""
    sim = scenes.ramp(0.98)
    run(sim, 1.0)
    place = sim.world["block"].surface.vertices.mean(axis=0)
    run(sim, 0.5)

    assert np.linalg.norm(sim.world["block"].surface.vertices.mean(axis=0) - place) < 0.5e-6


def test_a_block_slides_on_a_ramp():
    """Slide at 1.02 of the friction angle, at Coulomb's acceleration within 2 %."""
    sim = scenes.ramp(1.02)
    run(sim, 0.3)
    before = np.linalg.norm(mean_velocity(sim.world["block"]))
    run(sim, 0.5)
    gain = np.linalg.norm(mean_velocity(sim.world["block"])) - before
    angle = math.atan(0.51)

    assert gain / 0.5 == pytest.approx(9.81 * (math.sin(angle) - 0.5 * math.cos(angle)), rel=0.02)


@pytest.mark.parametrize("make", [lambda n: scenes.stack(n, 1e6), scenes.rigid_stack], ids=["soft", "rigid"])
def test_a_stack_of_five_stands(make):
    """Keep five cubes upright; the ground carries their weight within 0.1 %."""
    sim = make(5)
    sim.sleep_after = None
    reports = run(sim, 1.5)
    weight = 9.81 * sum(float(sim.world[name].model.masses.sum()) for name in sim.world.names)

    assert energy_never_grows(reports)
    assert -reports[-1].forces["ground"][2] == pytest.approx(weight, rel=1e-3)
    tops = [sim.world[name].surface.vertices[:, :2].mean(axis=0) for name in sim.world.names]
    assert np.abs(tops).max() < 0.006
    assert reports[-1].fastest < 2e-3


def test_an_arch_stands():
    """Hold seven wedges by friction and pressure alone."""
    sim = scenes.arch()
    top = max(sim.world.surface(name).vertices[:, 2].max() for name in sim.world.names)
    run(sim, 0.5)

    assert max(sim.world.surface(name).vertices[:, 2].max() for name in sim.world.names) > 0.98 * top


def test_a_strip_folds_on_itself():
    """Let a strip fall on edge: it folds, and does not pass through itself."""
    sim = scenes.folding_strip()
    reports = run(sim, 0.8)

    assert energy_never_grows(reports)
    assert sim.world["strip"].surface.vertices[:, 2].max() < 0.3


def test_a_rod_is_twisted_onto_itself():
    """Turn the ends of a rod against each other until it coils."""
    sim, twist = scenes.twisted_rod(16)
    reports = run(sim, 0.7, each=twist)

    assert any(report.contacts for report in reports)


SUPPORTS = {
    "box": lambda: shapes.box(0.4, center=(0.0, 0.0, 0.2)),
    "ball": lambda: shapes.icosphere(3, radius=0.2, center=(0.0, 0.0, 0.22)),
}


@pytest.mark.parametrize("support", SUPPORTS)
def test_a_cloth_is_draped(support):
    """Let a cloth fall on corners and on a ball: it hangs on them, and corners do not poke through."""
    sim = scenes.draped(SUPPORTS[support](), cells=16)
    reports = run(sim, 0.6)

    assert energy_never_grows(reports)
    assert sim.world["cloth"].surface.vertices[:, 2].max() > 0.39


def test_two_cloths_lie_on_each_other():
    """Drop two cloths on a ball, one after the other."""
    sim = scenes.cloth_on_cloth(12)
    reports = run(sim, 0.5)

    assert energy_never_grows(reports)


def test_a_tool_presses_a_block():
    """Press a scripted tool into a soft block, move it, and take it away."""
    sim = scenes.tool_on_block()
    pressed = run(sim, 1.0)

    assert max(np.linalg.norm(report.forces["tool"]) for report in pressed) > 0.5
    assert np.linalg.norm(pressed[-1].forces["tool"]) == 0.0


@pytest.mark.parametrize("friction", [0.0, 0.5])
def test_spinning_rigid_bodies_gain_no_energy(friction):
    """Let two bars that spin by 100 rad/s meet: they turn by much more than a radian per frame."""
    first, second = RigidBody(shapes.box((0.2, 0.02, 0.02))), RigidBody(shapes.box((0.02, 0.2, 0.02)))
    first.pose, first.angular_velocity = scenes.at(0.0, 0.0, 0.2), (0.0, 100.0, 30.0)
    second.pose, second.angular_velocity = scenes.at(0.0, 0.0, 0.3), (100.0, 0.0, 0.0)
    second.velocity = 0.0, 0.0, -5.0
    sim = Simulation(scenes.world_of(first=first, second=second), ground=0.0, friction=friction)
    reports = run(sim, 0.4)

    assert energy_never_grows(reports)
    assert any(report.contacts for report in reports)


def test_held_bodies_come_to_rest():
    """Drop a pile with frames of half a second: bodies whose motion was shortened neither freeze nor gain energy."""
    first = scenes.soft(shapes.tet_box(3, 3, 3, size=(0.1,) * 3, center=(0.0, 0.0, 0.06)))
    second = scenes.soft(shapes.tet_box(3, 3, 3, size=(0.1,) * 3, center=(0.01, 0.0, 0.18)))
    third = RigidBody(shapes.box(0.1))
    third.pose = scenes.at(0.0, 0.01, 0.3)
    cloth = Cloth(shapes.cloth_grid(8, 8, size=0.3, center=(0.0, 0.0, 0.5)))
    world = scenes.world_of(first=first, second=second, third=third, cloth=cloth)
    reports = run(Simulation(world, ground=0.0, dt=0.5), 16.0)

    assert energy_never_grows(reports)
    assert reports[-1].fastest < 0.05


SCENES = {"two_livers": 0.1, "two_dragons": 0.1, "two_bunnies": 0.1, "plates_b": 0.5, "rigid_pile": 0.4, "bulls": 0.1,
    "turning_part": 0.2, "two_vessels": 0.05, "cloth_on_ball": 0.1}  # fmt: skip


@pytest.mark.parametrize("name", SCENES)
def test_scenes_stay_apart(name):
    """Run a part of each scene at a small size."""
    sim = simulated.make(name, scale=SCENES[name])
    run(sim, 0.5, judges_motion=name in ("two_dragons", "two_bunnies"))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in simulated.names() if name != "particles_on_knot"])
def test_scenes_at_full_size_stay_apart(name):
    """Run each scene at the papers' size."""
    run(simulated.make(name), simulated.get(name).seconds)


def test_free_bodies_keep_their_momenta():
    """Collide two soft bodies without gravity: linear momentum to rounding, energy never grows."""
    sim = simulated.make("two_bunnies", scale=0.1)
    first = sim.step(1e-9)
    reports = run(sim, 0.6)
    scale = np.abs(first.momentum).max() + 0.4 * sum(
        float(sim.world[name].model.masses.sum()) for name in sim.world.names
    )

    assert any(report.contacts for report in reports)
    assert energy_never_grows(reports)
    np.testing.assert_allclose(reports[-1].momentum, first.momentum, atol=1e-10 * scale)


def test_a_run_repeats_and_resumes_to_the_bit(tmp_path):
    """Run twice, and resume from a file in the middle: the same bits."""

    def state(sim):
        return [sim.world[name].coarse.vertices for name in sim.world.names]

    first, second = (simulated.make("two_livers", scale=0.05) for _ in range(2))
    first.run(0.2)
    first.save(tmp_path / "state.npz")
    first.run(0.2)
    second.run(0.4)
    third = simulated.make("two_livers", scale=0.05)
    third.restore(tmp_path / "state.npz")
    third.run(0.2)

    for a, b, c in zip(state(first), state(second), state(third)):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)


@pytest.mark.parametrize(("restitution", "modulus"), [(0.0, 1e8), (0.5, 1e8), (0.8, 1e8), (1.0, 1e8)])
def test_restitution_is_the_share_of_speed_that_remains(restitution, modulus):
    """Drop a stiff cube: it rebounds with a share of its speed of approach, and never gains energy."""
    cube = scenes.soft(shapes.tet_box(3, 3, 3, size=(0.1,) * 3, center=(0.0, 0.0, 0.4)), modulus)
    sim = Simulation(scenes.world_of(cube=cube), ground=0.0, restitution=restitution, dt=1.0 / 120.0)
    speeds, reports = [], []
    for _ in range(50):
        reports.append(sim.step())
        speeds.append(mean_velocity(cube)[2])

    assert max(speeds) == pytest.approx(-restitution * min(speeds), abs=0.05 * -min(speeds))
    assert energy_never_grows(reports)


@pytest.mark.parametrize("dt", [1.0 / 60.0, 1.0 / 240.0])
@pytest.mark.parametrize("restitution", [0.0, 0.5, 1.0])
def test_restitution_of_rigid_bodies_that_would_pass_each_other(restitution, dt):
    """Let a ball hit one at rest, with frames in which it moves by less or more than its depth."""
    first, second = RigidBody(shapes.icosphere(2, radius=0.02)), RigidBody(shapes.icosphere(2, radius=0.02))
    second.pose, first.velocity = scenes.at(0.1, 0.0, 0.0), (1.0, 0.0, 0.0)
    world = scenes.world_of(first=first, second=second)
    sim = Simulation(world, gravity=(0.0, 0.0, 0.0), restitution=restitution, dt=dt, friction=0.0)
    reports = run(sim, 0.15)

    assert second.velocity[0] - first.velocity[0] == pytest.approx(restitution, abs=0.06)
    assert energy_never_grows(reports)
    assert max(report.substeps for report in reports) <= 2  # also of the body that is at rest in free space


def test_bodies_that_leave_each_other_feel_no_friction():
    """Let two balls rebound, and look at frames in which no contact has a normal force any more."""
    first, second = RigidBody(shapes.icosphere(2, radius=0.02)), RigidBody(shapes.icosphere(2, radius=0.02))
    second.pose, first.velocity = scenes.at(0.1, 0.0, 0.0), (1.0, 0.0, 0.0)
    world = scenes.world_of(first=first, second=second)
    reports = Simulation(world, gravity=(0.0, 0.0, 0.0), restitution=1.0).run(0.15)
    touched = [report.contacts for report in reports if report.contacts]

    assert touched
    for contacts in touched:
        assert (np.linalg.norm(contacts.friction_force, axis=1) <= 0.505 * contacts.normal_force).all()
    assert reports[-1].kinetic <= reports[0].kinetic * (1.0 + 1e-9)


def test_motions_of_frames_are_those_that_were_verified():
    """Compare surfaces after a frame with impacts along straight lines: none, with contacts in the layer."""
    sim = simulated.make("two_dragons", scale=0.1)
    names = list(sim.world.names)
    touched = 0
    for _ in range(30):
        before = [sim.world.surface(name).vertices.copy() for name in names]
        report = sim.step()
        if report.searches == 1 and report.contacts:
            touched += 1
            start = [TriMesh(x, sim.world.surface(n).faces) for n, x in zip(names, before)]
            ends = [sim.world.surface(name).vertices for name in names]
            assert not impacts(*start, end_a=ends[0], end_b=ends[1])
            for body, end in zip(start, ends):
                assert not impacts(body, end_a=end)

    assert touched > 3


def test_contact_distances_and_stiffness_can_be_read_and_set():
    """Report the distances and stiffness in use; a body rests at the distance that it is given."""
    sim = scenes.stack(1)
    assert sim.contact_distance == {"cube 0": pytest.approx(2e-4)}
    assert sim.stiffness["cube 0"] > 0.0
    sim.contact_distance = {"cube 0": 2e-3}
    sim.run(1.0)

    assert 1e-3 < sim.world["cube 0"].surface.vertices[:, 2].min() < 2e-3
    assert sim.contact_distance == {"cube 0": 2e-3}
    assert sim.step().deepest == 0.0  # contacts keep a gap
    for name in ("contact_distance", "stiffness"):
        with pytest.raises(OptionError, match=f"{name} names 'cube', expected a body of the world: 'cube 0'"):
            setattr(sim, name, {"cube": 1e-3})


def test_a_budget_cannot_be_combined_with_contact_later():
    """Refuse to change the response of a simulation with a search budget to one that verifies every motion."""
    sim = Simulation(scenes.stack(1).world, response="spheres", max_tests=10)
    with pytest.raises(OptionError, match="response='contact' verifies every motion and accepts no search budget"):
        sim.response = "contact"

    assert sim.response == "spheres"


# full size, in make test-all ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_cloth_falls_on_a_knot():
    """Drape a cloth of 3,200 triangles on a torus knot."""
    reports = run(scenes.on_knot(), 1.5)

    assert energy_never_grows(reports)


@pytest.mark.slow
def test_a_rod_is_coiled():
    """Turn the ends of a fine rod against each other until it coils."""
    sim, twist = scenes.twisted_rod()
    reports = run(sim, 1.2, each=twist)

    assert any(report.contacts for report in reports)


@pytest.mark.slow
@needs_data
def test_an_armadillo_goes_through_rollers():
    """Draw a scan of 52k triangles between two rollers that leave it half of the room it needs."""
    sim = scenes.through_rollers(load(FOLDER / "closed" / "armadillo_52k.off"))
    reports = run(sim, 1.0)

    assert any(report.contacts for report in reports)
    assert sim.world["body"].surface.vertices[:, 2].max() < sim.world["left"].vertices[:, 2].min()


@pytest.mark.slow
@needs_data
def test_a_screw_sinks_into_a_nut():
    """Let gravity pull a rigid screw through the thread of a fixed nut."""
    sim = scenes.screw_in_nut(load(FOLDER / "cad" / "screw-big.obj"), load(FOLDER / "cad" / "nut-big.obj"))
    height = sim.world["screw"].centre[1]
    run(sim, 0.5)

    assert sim.world["screw"].centre[1] < height - 0.002


@pytest.mark.slow
def test_bodies_at_rest_do_not_drift():
    """Rest for a minute without sleep: no vertex moves by more than a millionth of the size per second."""
    sim = scenes.stack(3, 1e6)
    sim.sleep_after = None
    sim.run(3.0)
    before = [sim.world[name].coarse.vertices.copy() for name in sim.world.names]
    sim.run(60.0)
    drift = [np.abs(sim.world[name].coarse.vertices - x).max() for name, x in zip(sim.world.names, before)]

    assert max(drift) < 60.0 * 1e-6 * 0.1
