"""Simulation: friction, scripted bodies, sleep, frame rate, options and failures."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import impinge
from impinge.bodies.soft_body import SoftBody
from impinge.deform.fem import GreenStrain
from impinge.errors import MeshError, OptionError, SimulationWarning
from impinge.mesh.shapes import box, tet_box
from impinge.simulate.simulation import Simulation, SimulationError
from impinge.world.world import World
from simulated_cubes import EDGE, FIRM, lowest_of, soft_cube, weight, world_of


def test_friction_holds_below_its_coefficient():
    """Hold a cube on a slope below the coefficient of friction, and let it slide on a steeper one."""
    slid = {}
    for friction in (0.5, 0.1):
        cube = soft_cube((0.0, 0.0, 0.0501), material=FIRM)
        slope = 0.25  # rotate gravity instead of the ground
        gravity = 9.81 * np.array([np.sin(slope), 0.0, -np.cos(slope)])
        sim = Simulation(
            world_of(cube=cube), gravity=gravity, ground=((0.0, 0.0, 0.0), (0.0, 0.0, 1.0)), friction=friction
        )
        sim.run(0.4)
        slid[friction] = float(cube.surface.vertices[cube.surface.vertices[:, 2] < 0.01, 0].mean())

    free = 0.5 * 9.81 * (np.sin(0.25) - 0.1 * np.cos(0.25)) * 0.4**2
    assert abs(slid[0.5]) < 0.01 * EDGE
    np.testing.assert_allclose(slid[0.1], free, rtol=0.15)


def test_a_scripted_body_lifts_a_soft_one():
    """Lift a cube by a plate that moves by a function of time; its work becomes energy."""
    cube = soft_cube((0.0, 0.0, 0.0501), material=FIRM)
    world = World()
    world.add(cube, name="cube")
    world.add(box((0.3, 0.3, 0.05), center=(0.01, 0.0, -0.025), cells=(4, 4, 1)), name="plate")
    sim = Simulation(world)
    start = sim.step().energy

    def rise(t):
        lift = np.eye(4)
        lift[2, 3] = 0.1 * t
        return lift

    sim.script("plate", rise)
    report = sim.run(0.4)[-1]
    gained = weight(cube) * 0.04

    np.testing.assert_allclose(world["plate"].vertices[:, 2].max(), 0.1 * sim.time, atol=1e-12)
    assert cube.surface.vertices[:, 2].min() > 0.1 * sim.time - 0.02 * EDGE
    assert 0.9 * gained < report.work < 1.3 * gained  # the start of the plate accelerates the cube
    assert 0.9 * gained < report.energy - start < report.work


def test_initial_penetration_is_released_gradually():
    """Separate bodies that start in penetration without large velocities."""
    cubes = {"a": soft_cube((0.0, 0.0, 0.0), dense=4), "b": soft_cube((0.07, 0.01, 0.01), dense=4)}
    sim = Simulation(world_of(**cubes), gravity=(0.0, 0.0, 0.0))
    before = impinge.overlap_volume(cubes["a"].surface, cubes["b"].surface).volume
    reports = sim.run(0.6)
    after = impinge.overlap_volume(cubes["a"].surface, cubes["b"].surface).volume

    assert before > 0.2 * EDGE**3
    assert after < 0.2 * before
    assert max(report.fastest for report in reports) < 1.0
    np.testing.assert_allclose(reports[-1].momentum, 0.0, atol=1e-12)


@pytest.mark.parametrize("others", [{}, {"block": (0.0, 0.0, 0.5), "wall": (0.5, 0.0, 0.0)}])
def test_divergence_names_the_body_and_keeps_the_last_state(others):
    """Name the body and the frame, and keep the state before it, also where boxes become infinite."""
    cube = soft_cube((0.0, 0.0, 0.06))
    blocks = {name: box(EDGE, center=center) for name, center in others.items()}
    sim = Simulation(world_of(cube=cube, **blocks), ground=0.0)
    sim.run(0.05)
    kept, time = cube.coarse.vertices.copy(), sim.time
    cube.velocities = 1e200 * np.ones((len(cube.velocities), 3))

    with pytest.raises(SimulationError, match=r"body 'cube' diverges in frame 4, at time .* state after frame 3"):
        sim.step()
    np.testing.assert_array_equal(cube.coarse.vertices, kept)
    assert sim.time == time
    cube.velocities = np.zeros((len(cube.velocities), 3))
    assert sim.step().frame == 4


def test_runs_are_reproducible():
    """Repeat a run to the same bits."""

    def end():
        cubes = {"a": soft_cube((0.0, 0.0, 0.051)), "b": soft_cube((0.02, 0.01, 0.138), edge=0.07)}
        sim = Simulation(world_of(**cubes), ground=0.0, max_tests=1_000_000)
        assert len(sim.run(0.1)[-1].contacts) > 10
        return np.concatenate([cubes["a"].surface.vertices, cubes["b"].surface.vertices])

    np.testing.assert_array_equal(end(), end())


def test_static_worlds():
    """Step empty worlds, and worlds in which everything is fixed."""
    for world in (World(), world_of(block=box(1.0))):
        report = Simulation(world, ground=0.0).step()
        assert not report.contacts
        assert report.energy == 0.0
    cube = soft_cube((0.0, 0.0, 0.04))
    cube.fix(np.arange(len(cube.velocities)))
    rest = cube.coarse.vertices.copy()
    Simulation(world_of(cube=cube), ground=0.0).run(0.1)
    np.testing.assert_array_equal(cube.coarse.vertices, rest)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dt": 0.0}, "dt is 0.0, expected a positive number of seconds"),
        ({"gravity": (0.0, 1.0)}, "gravity is .*, expected three finite numbers"),
        ({"gravity": (0.0, 0.0, -1e300)}, "gravity is .*, expected three numbers up to 1e.100"),
        ({"response": "magic"}, "response is 'magic', expected one of 'contact', 'vertices', 'volume', 'spheres'"),
        ({"ground": "floor"}, "ground is 'floor', expected a height"),
        ({"ground": ((0, 0, 0), (0, 0, 0))}, "ground is .*, expected a height"),
        ({"friction": -1.0}, "friction is -1.0, expected a number from 0"),
        ({"stiffness": 0.0}, "stiffness is 0.0, expected a positive number"),
        ({"damping": float("nan")}, "damping is nan, expected a number from 0"),
        ({"sleep_after": 0.0}, "sleep_after is 0.0, expected a positive number"),
        ({"max_tests": 0}, "max_tests is 0, expected a whole number from 1"),
        ({"budget_ms": -1.0}, "budget_ms is -1.0, expected a positive number"),
        ({"target_ms": 0.0}, "target_ms is 0.0, expected a positive number"),
        ({"restitution": 1.5}, "restitution is 1.5, expected a number from 0 to 1"),
        ({"contact_distance": 0.0}, "contact_distance is 0.0, expected a positive number"),
        ({"contact_distance": {"a": -1.0}}, r"contact_distance\['a'\] is -1.0, expected a positive number"),
        (
            {"response": "contact", "max_tests": 9},
            "response='contact' verifies every motion and accepts no search budget",
        ),
        ({"budget_ms": 9.0, "max_tests": 9}, "budget_ms and max_tests exclude each other"),
        ({"target_ms": 9.0, "max_tests": 9}, "target_ms sets the budget of searches; omit max_tests"),
    ],
)
def test_invalid_options_raise(options, message):
    """Raise an error that names the option, its value and the expected range."""
    with pytest.raises(OptionError, match=message):
        Simulation(World(), **options)


def test_a_step_of_zero_length_raises():
    """Raise an error for a step of zero length."""
    with pytest.raises(OptionError, match=r"dt is 0.0, expected a positive number of seconds"):
        Simulation(World()).step(0.0)


def test_each_must_be_callable():
    """Raise an error before anything moves if ``each`` is not callable."""
    sim = Simulation(World())
    with pytest.raises(OptionError, match="each is 5, expected a function of a report, or None"):
        sim.run(0.1, each=5)
    assert sim.frame == 0


@pytest.mark.parametrize("response", ["vertices", "volume", "spheres"])
def test_empty_bodies_are_ignored(response):
    """Ignore bodies without vertices or triangles, scripted or static, without warnings."""
    world = world_of(cube=soft_cube((0.0, 0.0, 0.0501), cells=1), block=box(0.3, center=(0.0, 0.0, -0.15)))
    world.add(impinge.TriMesh(np.zeros((0, 3)), np.zeros((0, 3), dtype=int)), name="nothing")
    world.add(impinge.TriMesh(np.zeros((0, 3)), np.zeros((0, 3), dtype=int)), name="moving nothing")
    bare = box(0.1)
    bare.remove_triangles(np.arange(12))
    world.add(bare, name="bare")
    sim = Simulation(world, response=response)
    sim.script("moving nothing", lambda _: np.eye(4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reports = sim.run(0.1)

    assert reports[-1].contacts


def test_open_bodies_have_no_volume():
    """Name the bodies that have no volume, and keep the state."""
    world = world_of(cube=soft_cube((0.0, 0.0, 0.0499)), sheet=impinge.shapes.cloth_grid(3, 3, size=0.4))
    sim = Simulation(world, response="volume")
    with pytest.raises(MeshError, match=r"response='volume' fails for bodies 'cube' \(a\) and 'sheet' \(b\)"):
        sim.step()
    assert sim.frame == 0


def test_invalid_particles_raise():
    """Raise an error for invalid options of particles and invalid sources."""
    x = np.zeros((3, 3))
    for options, message in (
        ({"restitution": "x"}, "restitution is 'x', expected a number from 0 to 1"),
        ({"sliding": 2.0}, "sliding is 2.0, expected a number from 0 to 1"),
        ({"life": "long"}, "life is 'long', expected a positive number of seconds"),
        ({"velocities": np.zeros((2, 3))}, r"velocities have shape \(2, 3\), expected \(3, 3\), or \(3,\)"),
        ({"resolution": 0}, r"resolution is 0, expected a whole number from 1 \(pixels per side\), or None"),
        ({"source": 3}, "source is 3, expected a function"),
    ):
        with pytest.raises(OptionError, match=message):
            impinge.Particles(x, **options)
    sim = Simulation(World(), ground=0.0)
    with pytest.raises(OptionError, match="particles is 3, expected Particles"):
        sim.particles = 3
    sim.particles = impinge.Particles(x, life=0.01, source=lambda _, __: np.zeros((1, 3)))
    with pytest.raises(OptionError, match="source returned 1 positions for"):
        sim.run(0.1)


def test_invalid_motions_raise():
    """Raise an error for invalid motions, name the body whose motion fails, and keep the state."""
    cube = soft_cube((0.0, 0.0, 0.2))
    world = world_of(cube=cube, block=box(0.1))
    world.add(box(0.1, center=(3.0, 0.0, 0.0)), name="tool")
    sim = Simulation(world)
    with pytest.raises(OptionError, match="world is a int, expected a World"):
        Simulation(3)
    with pytest.raises(OptionError, match="body 'cube' is soft, expected a mesh"):
        sim.script("cube", lambda _: np.eye(4))
    with pytest.raises(OptionError, match="body 'block' is fixed"):
        sim.script("block", lambda _: np.eye(4))
    with pytest.raises(OptionError, match="the motion of body 'tool' is a str"):
        sim.script("tool", "upwards")
    sim.script("tool", lambda _: np.zeros((2, 3)))
    with pytest.raises(
        OptionError, match=r"the motion of body 'tool' returned shape \(2, 3\) at time .*, expected \(4, 4\)"
    ):
        sim.step()
    sim.script("tool", lambda _: np.full((4, 4), np.nan))
    with pytest.raises(OptionError, match="returned a NaN or infinite number"):
        sim.step()
    assert sim.time == 0.0


class NoMaterial:
    """A model without a material."""

    def __init__(self, tets) -> None:
        self._inner = GreenStrain(tets.vertices, tets.tets, FIRM)
        self.rest, self.tets, self.masses = self._inner.rest, self._inner.tets, self._inner.masses
        self.forces, self.energy = self._inner.forces, self._inner.energy
        self.stable_step, self.inverted = self._inner.stable_step, self._inner.inverted


def test_models_without_material_are_simulated():
    """Derive contact stiffness from mass and size where a model has no material; step explicitly, and say so."""
    tets = tet_box(1, 1, 1, size=(EDGE,) * 3, center=(0.0, 0.0, 0.0501))
    cube = SoftBody(tets.surface, tets, model=NoMaterial(tets), embedding="barycentric")
    assert not hasattr(cube.model, "material")
    sim = Simulation(world_of(cube=cube), ground=0.0, integrator="implicit")
    with pytest.warns(SimulationWarning, match="a NoMaterial, has no second derivatives; all bodies are stepped expl"):
        reports, lowest = lowest_of(sim, 0.4)
    assert reports[-1].contacts
    assert -0.02 * EDGE < lowest < 0.0


def test_bodies_without_mass_raise():
    """Name the vertex without mass at construction."""
    tets = tet_box(1, 1, 1, size=(EDGE,) * 3)
    model = NoMaterial(tets)
    model.masses = np.where(np.arange(len(tets.vertices)) == 3, 0.0, model.masses)
    with pytest.raises(MeshError, match="the mass of vertex 3 is 0, expected a positive number"):
        SoftBody(tets.surface, tets, model=model, embedding="barycentric")


@pytest.mark.parametrize("response", ["vertices", "volume", "spheres"])
def test_a_body_inside_another_stays_slow(response):
    """Start with a small cube inside a larger one: states stay finite and slow, and momentum is conserved."""
    cubes = {"outer": soft_cube((0.0, 0.0, 0.0)), "inner": soft_cube((0.012, 0.007, 0.004), edge=0.03, cells=1)}
    sim = Simulation(world_of(**cubes), gravity=(0.0, 0.0, 0.0), response=response)
    reports = sim.run(0.2)

    assert max(report.fastest for report in reports) < 1.0
    for report in reports:
        assert np.isfinite([report.energy, *report.forces["inner"]]).all()
        np.testing.assert_allclose(report.momentum, 0.0, atol=1e-12)


@pytest.mark.parametrize("gravity", [0.0, -9.81])
@pytest.mark.parametrize("material", ["liver", "rubber"])
def test_a_body_inside_an_obstacle_leaves_slowly(gravity, material):
    """Start deep inside a fixed box: leave through the nearest face at a few edge lengths per second.

    A share of the whole depth was once applied at each search and ejected stiff bodies at 60 edge lengths per second.
    """
    cube = soft_cube((0.0, 0.0, 0.1), material=material)
    sim = Simulation(world_of(cube=cube, box=box(0.4)), gravity=(0.0, 0.0, gravity))
    reports = sim.run(0.5)

    assert cube.coarse.vertices[:, 2].mean() > 0.15
    assert max(report.fastest for report in reports) < 12.0 * EDGE
    assert max(np.ptp(cube.coarse.vertices, axis=0)) < 1.1 * EDGE


def test_bodies_at_rest_sleep_and_wake():
    """Sleep at rest without searches; wake by the caller, by gravity and by approaching bodies."""
    cube = soft_cube((0.0, 0.0, 0.0499), cells=1, material=FIRM)
    world = world_of(cube=cube)
    world.add(box(0.05, center=(0.3, 0.0, 0.1)), name="tool")
    sim = Simulation(world, ground=0.0, modal_damping=0.5, sleep_after=0.3)
    reports = sim.run(1.2)
    last, rest = reports[-1], cube.coarse.vertices.copy()

    assert not reports[0].sleeping
    assert last.sleeping == ("cube",)
    assert (last.searches, last.fastest) == (0, 0.0)
    np.testing.assert_allclose(last.forces["cube"][2], weight(cube), rtol=0.05)
    sim.run(0.1)
    np.testing.assert_array_equal(cube.coarse.vertices, rest)

    sim.gravity = np.array([0.0, 0.0, -5.0])
    assert not sim.step().sleeping
    assert sim.run(1.2)[-1].sleeping == ("cube",)
    cube.velocities = np.tile([0.0, 0.0, 0.2], (len(cube.velocities), 1))
    assert not sim.step().sleeping
    assert sim.run(1.2)[-1].sleeping == ("cube",)

    def come(t):
        moved = np.eye(4)
        moved[0, 3] = -0.4 * min(max(t - began, 0.0), 0.6)
        return moved

    began, before = sim.time, float(cube.coarse.vertices[:, 0].mean())
    sim.script("tool", come)
    far, near = sim.run(0.2), sim.run(0.4)
    assert far[2].sleeping == ("cube",)
    assert not near[-1].sleeping
    assert float(cube.coarse.vertices[:, 0].mean()) < before - 0.01


def test_sleep_can_be_disabled():
    """Never sleep with ``sleep_after=None``."""
    cube = soft_cube((0.0, 0.0, 0.2), cells=1)
    sim = Simulation(world_of(cube=cube), gravity=(0.0, 0.0, 0.0), sleep_after=None)
    assert not any(report.sleeping for report in sim.run(1.0))


def test_target_ms_shortens_frames():
    """Simulate less time per frame under a short target, and report the search budget."""
    cubes = {"a": soft_cube((0.0, 0.0, 0.0499)), "b": soft_cube((0.01, 0.0, 0.139), edge=0.08)}
    sim = Simulation(world_of(**cubes), ground=0.0, response="spheres", target_ms=1e-3)
    reports = [sim.step() for _ in range(4)]

    assert reports[0].dt == sim.dt
    assert reports[-1].dt == sim.dt / 64.0
    assert 0.0 < reports[-1].stats["budget_ms"] <= 0.5e-3
    np.testing.assert_allclose(sim.time, sum(report.dt for report in reports))
    generous = Simulation(world_of(a=soft_cube((0.0, 0.0, 0.0499))), ground=0.0, target_ms=1e6)
    assert [generous.step().dt for _ in range(3)] == [generous.dt] * 3


# sequences on disk ------------------------------------------------------------------------------------------


def frames_on_disk(folder, kind):
    """Five frames on disk of a box that rises by 1 cm per frame, and the box."""
    plate = box((0.3, 0.3, 0.05), center=(0.01, 0.0, -0.025), cells=(4, 4, 1))
    frames = [plate.vertices + np.array([0.0, 0.0, 0.01 * k]) for k in range(5)]
    if kind == "npz":
        np.savez(folder / "frames.npz", V=np.array(frames), F=plate.faces)
        return folder / "frames.npz", plate
    for k, x in enumerate(frames):
        impinge.save(impinge.TriMesh(x, plate.faces), folder / f"frame{k}.ply")
    return folder, impinge.load(folder / "frame0.ply")


@pytest.mark.parametrize("kind", ["npz", "ply"])
def test_a_sequence_on_disk_lifts_a_soft_body(tmp_path, kind):
    """Interpolate frames on disk linearly, and stay static after the last one."""
    source, plate = frames_on_disk(tmp_path, kind)
    cube, start = soft_cube((0.0, 0.0, 0.0501), material=FIRM), plate.vertices.copy()
    world = World()
    world.add(cube, name="cube")
    world.add(plate, name="plate")
    sim = Simulation(world, dt=0.01)
    sim.script("plate", impinge.Sequence(source), rate=10.0)
    for _ in range(25):
        report = sim.step()
        lift = np.array([0.0, 0.0, 0.01 * min(10.0 * sim.time, 4.0)])
        np.testing.assert_allclose(plate.vertices, start + lift, atol=1e-7)
    assert cube.surface.vertices[:, 2].min() > 0.025 - 0.02 * EDGE
    assert report.work > 0.5 * weight(cube) * 0.02
    sim.run(0.25)
    np.testing.assert_allclose(plate.vertices[:, 2].max(), 0.04, atol=1e-7)


def test_mismatched_sequences_raise(tmp_path):
    """Raise an error for frames of another body, and name the body when a frame cannot be read; keep the state."""
    source, plate = frames_on_disk(tmp_path, "ply")
    world = World()
    world.add(plate, name="plate")
    world.add(box(0.1, center=(2.0, 0.0, 0.0)), name="other")
    sim = Simulation(world, dt=0.1)
    frames = impinge.Sequence(source)
    with pytest.raises(MeshError, match=r"the sequence for body 'other' has .* vertices, but the body has 8"):
        sim.script("other", frames)
    sim.script("plate", frames, rate=10.0)
    sim.step()
    (source / "frame3.ply").write_text("nothing")
    sim.step()
    kept = plate.vertices.copy()
    with pytest.raises(SimulationError, match=r"the motion of body 'plate' failed at time 0\.3 \(.*frame3\.ply"):
        sim.step()
    np.testing.assert_array_equal(plate.vertices, kept)
    assert sim.frame == 2


@pytest.mark.parametrize("response", ["vertices", "volume", "spheres"])
def test_obstacles_that_are_inside_out_carry(response):
    """Let no body sink into an obstacle whose triangles face inwards."""
    floor = box((0.5, 0.5, 0.1), center=(0.0, 0.0, -0.05), cells=(4, 4, 1))
    turned = impinge.TriMesh(floor.vertices, floor.faces[:, ::-1])
    sim = Simulation(world_of(cube=soft_cube((0.0, 0.0, 0.06), material=FIRM), floor=turned), response=response)
    _, lowest = lowest_of(sim, 0.5)

    assert -0.005 < lowest < 0.01


def test_a_run_of_too_many_frames_is_refused():
    """Refuse at once what would take years."""
    sim = Simulation(world_of(cube=soft_cube((0.0, 0.0, 0.5))))
    with pytest.raises(
        OptionError, match=r"frames of 0\.0166667 s, expected at most 10,000,000; run for a shorter time"
    ):
        sim.run(2**63)
    assert sim.time == 0.0


@pytest.mark.parametrize("integrator", ["implicit", "explicit"])
def test_a_body_released_above_a_floor_does_not_fall_through(integrator):
    """Search for contacts while a body gathers speed, however long the frame: 196 mm in one frame of 0.2 s."""
    cube = soft_cube((0.0, 0.0, 0.5 * EDGE + 0.001))
    floor = box(1.0, center=(0.0, 0.0, -0.5))
    sim = Simulation(world_of(cube=cube, floor=floor), dt=0.2, integrator=integrator, response="vertices")
    reports = sim.run(1.0)

    assert reports[0].searches > 1
    assert cube.coarse.vertices[:, 2].min() > -0.05 * EDGE
