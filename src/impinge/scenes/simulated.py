"""Simulations of the papers' scenes, by name.

    sim = scenes.make("two_livers")
    sim.run(1.0)

``scale`` is the size relative to the paper's scene: triangles, tets, plates or particles, about in proportion. Further
options are those of ``Simulation``. Lengths are in metres, equal calls give equal bits, and every run comes to rest or
is periodic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, TypeVar

import numpy as np

from impinge.bodies.cloth import Cloth
from impinge.bodies.rigid_body import RigidBody
from impinge.bodies.soft_body import SoftBody
from impinge.checks import Floats, as_number, shown
from impinge.deform.materials import Material
from impinge.deform.waves import Wave
from impinge.errors import OptionError
from impinge.mesh import shapes
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh
from impinge.scenes import creatures
from impinge.scenes.registry import suggest
from impinge.simulate.particles import Particles
from impinge.simulate.search.searches import Response
from impinge.simulate.simulation import Integrator, Simulation
from impinge.world.world import World

if TYPE_CHECKING:
    from typing_extensions import Unpack

NO_GRAVITY = (0.0, 0.0, 0.0)
TISSUE = Material(youngs_modulus=2e4, poisson_ratio=0.4, density=1060.0)
"""Between the presets liver and rubber: bodies keep their shape under their weight."""

Mesh = TypeVar("Mesh", TriMesh, TetMesh)


class SimulationOptions(TypedDict, total=False):
    """Options of ``Simulation``."""

    gravity: Any
    dt: float
    integrator: Integrator
    response: Response | None
    ground: Any
    stiffness: float | Mapping[str, float] | None
    contact_distance: float | Mapping[str, float] | None
    damping: float
    modal_damping: float | None
    friction: float
    restitution: float
    sleep_after: float | None
    budget_ms: float | None
    max_tests: int | None
    target_ms: float | None


Build: TypeAlias = Callable[[float, SimulationOptions], Simulation]
"""Makes a simulation of a scale and options."""


@dataclass(frozen=True)
class SimulationScene:
    """A named simulation."""

    name: str
    title: str
    """One sentence of description."""
    seconds: float
    """Simulated time that shows most of it [s]."""
    build: Build = field(repr=False)

    def make(self, *, scale: float = 1.0, **options: Unpack[SimulationOptions]) -> Simulation:
        """The simulation at time 0; ``scale`` is from 0.001 to 100, further options are those of ``Simulation``."""
        expected = "a number from 0.001 to 100; 1 is the paper's size"
        return self.build(as_number(scale, "scale", expected, least=1e-3, most=100.0), options)


_SCENES: dict[str, SimulationScene] = {}


def names() -> tuple[str, ...]:
    """Names of all simulations, in the order of this file."""
    return tuple(_SCENES)


def get(name: str) -> SimulationScene:
    """The simulation scene of that name."""
    if not isinstance(name, str) or name not in _SCENES:
        raise OptionError(f"there is no simulation {shown(name)}; {suggest(shown(name), _SCENES)}")
    return _SCENES[name]


def make(name: str, *, scale: float = 1.0, **options: Unpack[SimulationOptions]) -> Simulation:
    """The simulation of that name at time 0; further options are those of ``Simulation``."""
    return get(name).make(scale=scale, **options)


def _scene(name: str, title: str, seconds: float) -> Callable[[Build], Build]:
    def add(build: Build) -> Build:
        _SCENES[name] = SimulationScene(name, title, seconds, build)
        return build

    return add


# sizes, poses, motions ---------------------------------------------------------------------------------


def _times(count: int, scale: float, dimensions: int, *, least: int = 2) -> int:
    """Cells along a side for ``scale`` times as many in all."""
    return max(round(float(count * scale ** (1.0 / dimensions))), least)


def _turned(angle: float, axis: int) -> Floats:
    """A rotation about a coordinate axis, shape (4, 4)."""
    transform = np.eye(4)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    transform[i, i] = transform[j, j] = math.cos(angle)
    transform[i, j], transform[j, i] = -math.sin(angle), math.sin(angle)
    return transform


def _shifted(*shift: float) -> Floats:
    transform = np.eye(4)
    transform[:3, 3] = shift
    return transform


def _posed(body: Mesh, *transforms: Floats) -> Mesh:
    """The body, moved by the transforms in order."""
    for transform in transforms:
        body.update(body.vertices @ transform[:3, :3].T + transform[:3, 3])
    return body


def _on(body: Mesh, height: float) -> Mesh:
    """The body, lifted until its lowest vertex is at a height."""
    return _posed(body, _shifted(0.0, 0.0, height - float(body.vertices[:, 2].min())))


def _soft(surface: TriMesh, scale: float, *, cells: int = 11, material: Material | str = "liver") -> SoftBody:
    """A soft body on tets of cubes: 11 along the longest side give about 2,000 tets for a liver-like body."""
    cells = _times(cells, scale, 3, least=4)
    return SoftBody.from_surface(surface, method="cubes", cells=cells, material=material, embedding="barycentric")


def _soft_tets(tets: TetMesh, material: Material | str) -> SoftBody:
    return SoftBody(tets.surface, tets, material=material, embedding="barycentric")


def _throw(body: SoftBody, velocity: tuple[float, float, float]) -> SoftBody:
    body.velocities = np.tile(velocity, (len(body.velocities), 1))
    return body


def _simulation(bodies: dict[str, Any], options: SimulationOptions, **scene: Unpack[SimulationOptions]) -> Simulation:
    """A simulation of bodies; options override those of the scene."""
    world = World()
    for name, body in bodies.items():
        world.add(body, name=name)
    merged: SimulationOptions = {**scene, **options}
    return Simulation(world, **merged)


# paper 001 ---------------------------------------------------------------------------------------------


@_scene("two_livers", "A liver-like body falls on another one that lies on the ground.", 1.0)
def _two_livers(scale: float, options: SimulationOptions) -> Simulation:
    cells = _times(41, scale, 2, least=8)
    lower = _on(creatures.liver(cells), 0.001)
    upper = _on(_posed(creatures.liver(cells), _turned(0.9, 2), _shifted(0.01, 0.0, 0.0)), 0.001 + lower.bounds[1][2])
    return _simulation({"lower": _soft(lower, scale), "upper": _soft(upper, scale)}, options, ground=0.0)


def _meeting(creature: Callable[[int], TriMesh], beside: float, scale: float, options: SimulationOptions) -> Simulation:
    """Two equal bodies face to face, ``beside`` apart across their direction of motion."""
    cells = _times(41, scale, 2, least=10)
    left = _posed(creature(cells), _shifted(-0.11, -0.5 * beside, 0.0))
    right = _posed(creature(cells), _turned(math.pi, 2), _shifted(0.11, 0.5 * beside, 0.01))
    bodies = {
        "left": _throw(_soft(left, scale, material=TISSUE), (0.4, 0.0, 0.0)),
        "right": _throw(_soft(right, scale, material=TISSUE), (-0.4, 0.0, 0.0)),
    }
    return _simulation(bodies, options, gravity=NO_GRAVITY)


for _plural, _creature, _beside in (("dragons", creatures.dragon, 0.03), ("bunnies", creatures.bunny, 0.01)):
    _title = f"Two {_creature.__name__}-like bodies collide head on without gravity and separate."
    _scene(f"two_{_plural}", _title, 0.6)(partial(_meeting, _creature, _beside))


# paper 003 ---------------------------------------------------------------------------------------------


@_scene("two_vessels", "A vessel of 10260 tets falls across another one that is held at its ends.", 0.8)
def _two_vessels(scale: float, options: SimulationOptions) -> Simulation:
    around, along = 2 * _times(9, scale, 2, least=4), _times(57, scale, 2, least=10)

    def tube() -> TetMesh:
        made = shapes.tet_tube(2, around, along, inner_radius=0.012, outer_radius=0.02, length=0.2)
        return _posed(made, _turned(0.5 * math.pi, 1))

    held = _soft_tets(_posed(tube(), _shifted(0.0, 0.0, 0.08)), TISSUE)
    held.fix(np.abs(held.coarse.vertices[:, 0]) > 0.095)
    falling = _soft_tets(_posed(tube(), _turned(1.4, 2), _shifted(0.003, 0.002, 0.124)), TISSUE)
    return _simulation({"held": held, "falling": falling}, options, ground=0.0)


def _plates(count: int, scale: float, options: SimulationOptions) -> Simulation:
    """Plates of 10 x 10 x 1 cm in heaps of at most four, each slightly rotated and shifted against the one below."""
    rng, bodies = np.random.default_rng(3), {}
    count = max(round(count * scale), 2)
    heaps = math.ceil(count / 4)
    side = math.ceil(math.sqrt(heaps))
    for k in range(count):
        heap, level = k // 4, k % 4
        tilt = (_turned(rng.uniform(-0.12, 0.12), axis) for axis in (0, 1))
        place = 0.16 * (heap % side), 0.16 * (heap // side), 0.012 + 0.03 * level
        beside = rng.uniform(-0.02, 0.02, 2)
        tets = shapes.tet_box(10, 10, 1, size=(0.1, 0.1, 0.01))
        turn = _turned(rng.uniform(-0.5, 0.5), 2)
        moved = _posed(tets, turn, *tilt, _shifted(place[0] + beside[0], place[1] + beside[1], place[2]))
        bodies[f"plate {k}"] = _soft_tets(moved, TISSUE)
    return _simulation(bodies, options, ground=0.0)


for _letter, _count, _heaps in (("b", 8, "a heap"), ("c", 20, "a heap"), ("e", 100, "heaps")):
    _scene(f"plates_{_letter}", f"{_count} plates of 500 tets each fall in {_heaps}.", 1.0)(partial(_plates, _count))


# paper 004 and cloth -----------------------------------------------------------------------------------


@_scene("particles_on_knot", "20000 particles fall on a waving knot and on the ground.", 3.0)
def _particles_on_knot(scale: float, options: SimulationOptions) -> Simulation:
    knot, wave = shapes.torus_knot(2, 3, 250, 20), Wave(0.12, 3.0, angular_speed=3.0)
    rest = knot.vertices.copy()
    sim = _simulation({"knot": knot}, options, ground=-1.2)
    sim.script("knot", lambda t: wave(rest, t))

    def above(number: int, count: int) -> Floats:
        return np.random.default_rng([4, number]).uniform((-2.0, -2.0, 1.0), (2.0, 2.0, 2.5), (count, 3))

    count = max(round(20_000 * scale), 1)
    sim.particles = Particles(above(0, count), life=2.5, source=lambda number, n: above(number + 1, n))
    return sim


@_scene("cloth_on_ball", "A cloth falls on a ball, hangs in folds and collides with itself.", 1.5)
def _cloth_on_ball(scale: float, options: SimulationOptions) -> Simulation:
    cells = _times(50, scale, 2, least=6)
    cloth = Cloth(shapes.cloth_grid(cells, cells, size=1.0, center=(0.011, 0.007, 0.66)))
    ball = shapes.icosphere(4, radius=0.25, center=(0.0, 0.0, 0.4))
    return _simulation({"cloth": cloth, "ball": ball}, options, ground=0.0, friction=0.3)


# rigid bodies ------------------------------------------------------------------------------------------


@_scene("rigid_pile", "Rigid boxes and balls fall on a soft slab and on each other.", 1.5)
def _rigid_pile(scale: float, options: SimulationOptions) -> Simulation:
    cells = _times(8, scale, 3, least=5)
    tets = shapes.tet_box(cells, cells, 2, size=(0.4, 0.4, 0.08), center=(0.0, 0.0, 0.041))
    bodies: dict[str, Any] = {"slab": _soft_tets(tets, TISSUE)}
    rng = np.random.default_rng(5)
    for k in range(max(round(9 * scale), 2)):
        if k % 3 == 2:
            surface = shapes.icosphere(3, radius=0.04)
        else:
            surface = shapes.box((0.09, 0.07, 0.05), cells=(6, 5, 4))
        body = RigidBody(surface, density=500.0)
        beside = 0.055 * math.cos(2.0 * k), 0.055 * math.sin(2.0 * k)
        turn = _turned(rng.uniform(-0.6, 0.6), 0) @ _turned(rng.uniform(-3.0, 3.0), 2)
        body.pose = _shifted(*beside, 0.14 + 0.08 * k) @ turn
        bodies[f"{'ball' if k % 3 == 2 else 'box'} {k}"] = body
    scene: SimulationOptions = {"ground": 0.0, "integrator": "implicit"}
    return _simulation(bodies, options, **scene)


# papers 000 and 002 ------------------------------------------------------------------------------------


@_scene("bulls", "Two walls push two bull-like bodies into each other and retreat.", 2.0)
def _bulls(scale: float, options: SimulationOptions) -> Simulation:
    cells = _times(41, scale, 2, least=10)
    bodies: dict[str, Any] = {}
    for name, side in (("left", -1.0), ("right", 1.0)):
        bull = creatures.bull(cells)
        turn = _turned(0.0 if side < 0.0 else math.pi, 2)
        bull = _on(_posed(bull, turn, _shifted(side * 0.105, side * 0.005, 0.0)), 0.001)
        bodies[name] = _soft(bull, scale, material=TISSUE)
        wall = shapes.box((0.02, 0.16, 0.18), center=(side * 0.22, 0.0, 0.095), cells=(2, 12, 12))
        bodies[f"{name} wall"] = wall
    sim = _simulation(bodies, options, ground=0.0)

    def motion(side: float) -> Callable[[float], Floats]:
        return lambda t: _shifted(side * 0.02 * (1.0 - math.cos(math.pi * t)), 0.0, 0.0)

    for name, side in (("left wall", 1.0), ("right wall", -1.0)):
        sim.script(name, motion(side))
    return sim


@_scene("turning_part", "A drilled plate rotates and brushes past a soft one that is fixed at its foot.", 2.0)
def _turning_part(scale: float, options: SimulationOptions) -> Simulation:
    part = partial(shapes.cad_part, segments=4 * _times(8, scale, 1, least=2), hole_radius=0.015)
    turning = part((3, 2), size=(0.15, 0.1, 0.025), center=(0.0, 0.0, 0.1))
    upright = part((2, 3), size=(0.1, 0.15, 0.025))
    upright = _posed(upright, _turned(0.5 * math.pi, 0), _turned(0.5 * math.pi, 2), _shifted(0.092, 0.0, 0.075))
    soft = _soft(upright, scale, cells=12, material=TISSUE)
    soft.fix(soft.coarse.vertices[:, 2] < 0.01)
    sim = _simulation({"turning": turning, "soft": soft}, options)
    sim.script("turning", lambda t: _turned(0.5 * math.pi + 2.0 * t, 2))
    return sim
