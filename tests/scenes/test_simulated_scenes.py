"""Scenes of the papers: each runs, bodies meet, none explodes, none passes through another, and bits repeat."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest

import impinge
from impinge.bodies.soft_body import SoftBody
from impinge.errors import OptionError
from impinge.mesh import shapes
from impinge.scenes import simulated
from impinge.simulate.simulated_bodies import is_cloth

FRAMES = {
    "two_livers": (0.03, 6), "two_dragons": (0.04, 6), "two_bunnies": (0.04, 5), "two_vessels": (0.05, 7),
    "plates_b": (0.25, 4), "plates_c": (0.1, 4), "plates_e": (0.02, 4), "particles_on_knot": (0.02, 40),
    "cloth_on_ball": (0.03, 12), "bulls": (0.04, 6), "turning_part": (0.1, 20),
    "rigid_pile": (0.25, 10),
}  # fmt: skip
"""Scale and frames in which something is touched."""
DEEPEST = 0.1
"""How deep in another body a vertex of a soft body may be, relative to the size of the smallest soft body."""


def digest(sim) -> str:
    """Of all positions."""
    found = hashlib.sha256()
    for name in sim.world.names:
        found.update(np.ascontiguousarray(sim.world.surface(name).vertices).tobytes())
    if sim.particles is not None:
        found.update(sim.particles.positions.tobytes())
    return found.hexdigest()


def deepest(sim) -> float:
    """How deep the deepest vertex of any body is inside of another, closed one."""
    depths = [0.0]
    surfaces = [sim.world.surface(name) for name in sim.world.names]
    for a in surfaces:
        for b in surfaces:
            if a is not b and b.is_closed:
                near = impinge.closest_points(b, a.vertices[a.used_vertices])
                depths.append(float(near.distance[near.inside].max(initial=0.0)))
    return max(depths)


def run(name: str):
    """A small version of a scene after some frames: the simulation and its reports."""
    scale, frames = FRAMES[name]
    sim = simulated.make(name, scale=scale)
    return sim, [sim.step() for _ in range(frames)]


def test_every_scene_is_tested():
    """Know each scene of the registry."""
    assert set(FRAMES) == set(simulated.names())


@pytest.mark.parametrize("name", sorted(FRAMES))
def test_a_scene_runs(name):
    """Meet, stay whole, and stay out of each other; the same bits twice."""
    sim, reports = run(name)
    again, _ = run(name)
    soft = [sim.world[each] for each in sim.world.names if isinstance(sim.world[each], SoftBody)]

    assert digest(sim) == digest(again)
    if soft:
        assert max(len(report.contacts) for report in reports) > 0
        assert max(report.fastest for report in reports) < 20.0
        size = min(part.size for part in sim._derive().bodies if hasattr(part, "size"))
        assert deepest(sim) < DEEPEST * size
        low = [body.surface.bounds for body in soft]
        assert max(float(np.ptp(bounds, axis=0).max()) for bounds in low) < 3.0
    else:
        assert max(report.stats["particles_pushed"] for report in reports) > 3


MEETING = {
    "two_livers": ("lower", "upper"), "two_dragons": ("left", "right"), "two_bunnies": ("left", "right"),
    "two_vessels": ("held", "falling"), "plates_b": ("plate 0", "plate 1"), "bulls": ("left", "right"),
    "turning_part": ("turning", "soft"), "rigid_pile": ("slab", "box 0"),
}  # fmt: skip
"""Bodies of a scene that are there to meet."""


@pytest.mark.parametrize("name", sorted(MEETING))
def test_bodies_of_a_scene_really_meet(name):
    """Run a scene until its two bodies touch, and some frames more: both are pushed, and stay out of each other."""
    sim, pair = simulated.make(name, scale=FRAMES[name][0]), MEETING[name]
    a, b = sorted(sim.world.names.index(each) for each in pair)
    met, reports = 0, []
    while met < 4:
        reports.append(sim.step())
        found = reports[-1].contacts
        met += bool(((found.body_a == a) & (found.body_b == b)).any())
        assert sim.time < simulated.get(name).seconds

    size = min(part.size for part in sim._derive().bodies if hasattr(part, "size"))
    assert deepest(sim) < DEEPEST * size
    assert all(np.abs(reports[-1].forces[each]).max() > 1e-3 for each in pair)


def test_bulls_are_pushed_into_each_other_and_let_go():
    """Let the walls come and go: the bulls are pressed together in the middle of the run, by walls that do work."""
    sim = simulated.make("bulls", scale=0.04)
    start = sim.world["left"].surface.vertices[:, 0].mean()
    reports = sim.run(1.1)
    pressed = sim.world["left"].surface.vertices[:, 0].mean()

    assert pressed > start + 0.01
    assert reports[-1].work > 0.0
    assert max(report.forces["left wall"][0] for report in reports) < 10.0
    assert min(report.forces["left wall"][0] for report in reports) < -0.5
    assert max(report.forces["right wall"][0] for report in reports) > 0.5


@pytest.mark.parametrize("name", ["two_livers", "plates_b", "cloth_on_ball"])
def test_nothing_sinks_into_the_ground(name):
    """Keep what falls above the ground, up to 2 % of its size."""
    sim, _ = run(name)
    for part in sim._derive().bodies:
        if isinstance(part.source, SoftBody):
            assert part.source.surface.vertices[:, 2].min() > -0.02 * part.size


def test_particles_stay_outside(tmp_path):
    """Push particles out of the knot and off the ground in every frame, and resume from a file bit for bit."""
    sim = simulated.make("particles_on_knot", scale=0.02)
    pushed = [sim.step().stats["particles_pushed"] for _ in range(40)]
    knot = sim.world.surface("knot")
    near = impinge.closest_points(knot, sim.particles.positions)
    sim.save(tmp_path / "state.npz")
    again = simulated.make("particles_on_knot", scale=0.02)
    again.restore(tmp_path / "state.npz")
    for _ in range(5):
        sim.step(), again.step()

    assert sum(pushed) > 50
    assert near.distance[near.inside].max(initial=0.0) < 1e-9
    assert sim.particles.positions[:, 2].min() >= -1.2 - 1e-12
    assert sim.particles.renewals > 0
    assert digest(sim) == digest(again)


def test_cloth_does_not_pass_through_itself():
    """Fold a cloth onto itself: no two triangles meet, and the folds stay about a thickness apart."""
    cloth = impinge.Cloth(shapes.cloth_grid(6, 6, size=0.4, center=(0.0, 0.0, 0.3)))
    x = cloth.coarse.vertices.copy()
    folded = np.abs(x[:, 0])
    lower = x[:, 0] < 0.0
    x[:, 0], x[:, 2] = folded, np.where(lower, 0.27, 0.3)
    x[:, 2] = np.where(folded < 1e-9, 0.285, x[:, 2])
    cloth.coarse.update(x)
    world = impinge.World()
    world.add(cloth, name="cloth")
    sim = impinge.Simulation(world, ground=0.26)
    contacts = [len(sim.step().contacts) for _ in range(12)]

    assert max(contacts) > 5
    assert not impinge.self_pairs(cloth.surface).pairs.size


def test_a_scale_is_checked():
    """Say what a scale is."""
    with pytest.raises(OptionError, match=r"scale is -1, expected a number from 0\.001"):
        simulated.make("two_livers", scale=-1)


def test_a_name_is_suggested():
    """Say which scenes there are."""
    with pytest.raises(OptionError, match="did you mean two_livers"):
        simulated.make("two_liver")


def test_options_reach_the_simulation():
    """Let the caller replace what a scene would take."""
    sim = simulated.make("plates_b", scale=0.25, response="volume", friction=0.0)

    assert (sim.response, sim.friction) == ("volume", 0.0)
    assert math.isclose(sim.ground[1], 0.0)
    assert not any(is_cloth(part) for part in sim._derive().bodies)
