"""Bodies that move, meet, push each other apart and come to rest.

    world = World()
    world.add(liver, name="liver")
    sim = Simulation(world, ground=0.0)
    sim.run(2.0)

A frame of length dt (``simulate.frame``):

1. Plan.    Bodies with a given motion tell where they are at the end; they go there evenly. Soft bodies that are at
            rest and that nothing comes near sleep (``simulate.sleep``).
2. Search   contacts of all bodies as they are now (``simulate.searches``), within a budget if there is one.
3. Respond. Contacts become springs, dampers and friction on the coarse vertices of soft bodies (``simulate.rows``),
            linear until the next search.
4. Step.    Bodies that touch move by sub-steps of 0.59 of what their models bear (``simulate.substeps``); for each,
            contact forces are found implicitly (``respond.contact_forces``). Bodies that touch nothing move at once,
            by Runge-Kutta's method.
5. Steer    the dense surfaces, and go on at 2 until the frame is over.

Settle      Some times in a frame slow swings of each soft body lose some of their speed (``simulate.settle``).
Searches    happen at least once per frame, and before anything can have moved by ``REACH`` of the smallest body's size
            against another; bodies whose boxes stay apart need none. Both follow from the state and not from the clock.
Guarantee   If a body cannot be followed, or a motion fails, a sentence names it and the step, and the simulation is as
            it was before the frame. Without ``budget_ms`` and ``target_ms`` the same run gives the same bits.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from impinge.bodies.soft_body import EARTH, SoftBody
from impinge.checks import Floats, shown
from impinge.deform.integrate import as_seconds
from impinge.deform.rigid_links import RigidLinks
from impinge.errors import MeshError, OptionError
from impinge.respond.contact_forces import no_memory
from impinge.simulate.constraints import no_rows
from impinge.simulate.frame import Clock, Frame, Resting, Scene
from impinge.simulate.frame_rate import Governor
from impinge.simulate.options import Option, as_gravity, as_ground, as_limits, as_number, numeric
from impinge.simulate.pair_scheduler import Turns
from impinge.simulate.particles import Particles
from impinge.simulate.report import FrameReport
from impinge.simulate.searches import SEARCHES, Bodies, Search
from impinge.simulate.simulated_bodies import GivenPart, Motion, Part, SimulationError, SoftPart, boxes_of, motion_of
from impinge.simulate.sleep import Sleep
from impinge.simulate.state_file import State, put_back, read, write
from impinge.world.world import World

__all__ = ["Simulation", "SimulationError"]


class Known(NamedTuple):
    """What follows from the bodies of the world and the options, and what that was."""

    edits: int
    """Of the world."""
    shapes: tuple[tuple[int, int], ...]
    """Version of the triangles, and number of vertices, of each surface."""
    level: float
    """Size of gravity, which stiffness depends on."""
    parts: list[Part]
    bodies: Bodies
    search: Search
    sleep: Sleep


class Simulation:
    """Soft bodies of a world under gravity, with contacts.

    gravity     acceleration [m / s²], shape (3,)
    dt          length of a frame [s], where ``step`` is given no other
    response    "vertices", "volume" or "spheres": how contacts are found and pushed apart
    ground      height of a level ground against gravity (along z without gravity), (point, normal) of a plane, or None
    stiffness   pressure per depth of all contacts [Pa / m]; None: from materials, sizes and gravity
    damping     damping ratio of a body that swings on its contacts as if it were rigid
    settling    damping ratio that the slowest swing of each body gets beyond what its material damps; 0 for none
    friction    coefficient of Coulomb's friction; 0 for none
    sleep_after  seconds after which bodies at rest sleep; None: never
    budget_ms, max_tests   what one search may take; with ``max_tests`` runs repeat bit for bit
    target_ms   what a frame may take: ``dt`` becomes shorter and searches get budgets such that this rate is held

    All but the last three may be set later too; bodies that sleep wake when what holds them changes.
    """

    gravity = Option(lambda _, value, name: as_gravity(value, name))
    dt = Option(lambda _, value, name: as_seconds(value, name, zero=False))
    response = Option(lambda _, value, __: _as_response(value), rebuilds=True)
    ground = Option(lambda sim, value, _: as_ground(value, sim.gravity))
    stiffness = Option(numeric(zero=False, none=True), rebuilds=True)
    damping, settling = Option(numeric(), rebuilds=True), Option(numeric(), rebuilds=True)
    friction = Option(numeric())
    sleep_after = Option(numeric(zero=False, none=True), rebuilds=True)
    particles = Option(lambda _, value, __: _as_particles(value))
    """``Particles`` that fall on the bodies and are pushed out of them; they push nothing. None at first."""

    def __init__(
        self,
        world: World,
        *,
        gravity: Any = EARTH,
        dt: float = 1.0 / 60.0,
        response: str = "vertices",
        ground: Any = None,
        stiffness: float | None = None,
        damping: float = 1.0,
        settling: float = 0.1,
        friction: float = 0.5,
        sleep_after: float | None = 0.5,
        budget_ms: float | None = None,
        max_tests: int | None = None,
        target_ms: float | None = None,
    ) -> None:
        if not isinstance(world, World):
            raise OptionError(f"world is a {type(world).__name__}, expected a World")
        self.world = world
        self._known: Known | None = None
        self.gravity, self.dt, self.response, self.ground = gravity, dt, response, ground
        self.stiffness, self.damping, self.settling, self.friction = stiffness, damping, settling, friction
        self.sleep_after = sleep_after
        self._turns = Turns(as_limits(budget_ms, max_tests, target_ms))
        self._governor = None if target_ms is None else Governor(as_number(target_ms, "target_ms", zero=False))
        self._clock, self._memory, self._last = Clock(), no_memory(), no_rows()
        self._resting: Resting | None = None
        self.particles = None
        self._motions: dict[str, tuple[Any, Motion]] = {}
        self._rests: dict[str, tuple[Any, Floats]] = {}
        """By name the body that it was said of, and what was said."""
        self._felt: dict[str, Any] = {}
        """Bodies by name that contacts may remember."""

    @property
    def time(self) -> float:
        """Simulated time [s]."""
        return self._clock.time

    @property
    def frame(self) -> int:
        """How many frames have passed."""
        return self._clock.frame

    @property
    def work(self) -> float:
        """What bodies with a given motion have done on soft ones [J]."""
        return self._clock.work

    # bodies with a given motion -------------------------------------------------------------------------

    def script(self, name: str, motion: Any, *, rate: float = 30.0) -> None:
        """Let a body move as told: a function of time that gives positions or a transform, or a ``Sequence``.

        ``rate`` is the number of frames of a sequence per second; before its first and after its last it stands still.
        """
        if isinstance(self.world[name], SoftBody):
            raise OptionError(f"body {name!r} is soft and moves by itself; fix or move its coarse vertices instead")
        if self.world.is_fixed(name):
            raise OptionError(f"body {name!r} is fixed; add it without fixed=True to move it")
        body, count = self.world[name], len(self.world.surface(name).vertices)
        given = motion_of(name, motion, count, as_number(rate, "rate", zero=False))
        self._motions[name] = body, given
        if name in self._rests and len(self._rests[name][1]) != count:
            del self._rests[name]
        if self._known is not None and self._known.edits == self.world.edits:
            for part in self._known.parts:
                if isinstance(part, GivenPart) and part.name == name:
                    part.motion = given
        # otherwise bodies have come or gone, and parts are made anew before the next frame

    # time ------------------------------------------------------------------------------------------------

    def run(self, seconds: float, *, each: Callable[[FrameReport], Any] | None = None) -> list[FrameReport]:
        """Step by frames until ``seconds`` have passed, the last one shorter if need be; ``each`` sees every report."""
        if each is not None and not callable(each):
            raise OptionError(f"each is {shown(each)}, expected a function of a report, or None")
        end, reports = self.time + as_seconds(seconds, "seconds"), []
        while end - self.time > 1e-9 * self.dt:
            reports.append(self.step(min(self.dt, end - self.time)))
            if each is not None:
                each(reports[-1])
        return reports

    def step(self, dt: float | None = None) -> FrameReport:
        """Move all by one frame, and report; with ``target_ms`` the frame may be shorter than asked."""
        began = perf_counter()
        asked = self.dt if dt is None else as_seconds(dt, "dt", zero=False)
        known = self._look()
        duration = self._govern(asked)
        before = self._state(known.parts, known.sleep)
        surfaces = {p.name: kept[0 if isinstance(p, GivenPart) else 1] for p, kept in zip(known.parts, before.kept)}
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # what is not finite gets its sentence
                report = self._step(known, duration)
                if self.particles is not None:
                    report = self._move_particles(self.particles, report, surfaces)
        except BaseException:
            self._go_to(before, known.parts, known.sleep)
            raise
        report = replace(report, elapsed_ms=1e3 * (perf_counter() - began))
        if self._governor is not None:
            search_ms, move_ms = report.stats.get("search_ms", 0.0), report.stats.get("move_ms", 0.0)
            self._governor.passed(duration, report.searches, search_ms, move_ms, report.elapsed_ms)
            told = {"target_ms": self._governor.target_ms, "asked_dt": asked, **self._turns.limits}
            report = replace(report, stats=report.stats | told)
        return report

    def _govern(self, asked: float) -> float:
        """How long the frame becomes where ``asked`` is wanted; searches get their budgets."""
        governor = self._governor
        if governor is None:
            return asked
        self._turns.limits = {"budget_ms": governor.budget_ms}
        self._turns.reserve_ms = governor.all_searches_ms
        return governor.length(asked, max(asked, self.dt))

    def _step(self, known: Known, duration: float) -> FrameReport:
        parts, sleep = known.parts, known.sleep
        scene = Scene(
            parts, known.bodies, known.search, self._x, self._v, self._masses, self.gravity, self.ground, self.friction,
        )  # fmt: skip
        frame = Frame(scene, self._clock, self._memory, self._last, duration)
        frame.plan()
        asleep = sleep.asleep(parts, frame.bounds, frame.reach, self._rules())
        all_asleep = bool(asleep[known.bodies.is_soft].all()) and not any(
            isinstance(part, GivenPart) and part.velocity.any() for part in parts
        )
        if all_asleep and self._resting is not None:
            report = frame.rest(self._resting)
        else:
            report, found = frame.go(asleep)
            self._resting = found if all_asleep else None
        self._memory, self._last = frame.memory, frame.last
        sleep.passed(parts, frame.bounds, duration, self._rules())
        return report

    def _rules(self) -> Floats:
        """What holds for all bodies; those that sleep wake when it changes."""
        normal, height = (np.zeros(0), np.nan) if self.ground is None else self.ground
        return np.concatenate([self.gravity, [self.friction], normal, [height][: len(normal)]])

    def _move_particles(self, particles: Particles, report: FrameReport, before: dict[str, Floats]) -> FrameReport:
        began = perf_counter()
        pushed = particles.move(self.world, before, report.dt, self.gravity, self.ground)
        ms = 1e3 * (perf_counter() - began)
        return replace(report, stats=report.stats | {"particles_pushed": pushed, "particles_ms": ms})

    # what is kept ----------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to one file (.npz), from which ``restore`` goes on bit for bit (but for ``budget_ms``)."""
        known = self._look()
        write(self._state(known.parts, known.sleep), known.parts, path)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Go to a state that ``save`` wrote of a simulation of the same bodies."""
        known = self._look()
        state = read(path, known.parts)
        (self.particles or Particles(np.zeros((0, 3)))).check(state.particles, path)
        self._go_to(state, known.parts, known.sleep)

    def forget(self) -> None:
        """Let all that follows from bodies and options be made anew before the next frame; all bodies wake."""
        self._known = None

    def _look(self) -> Known:
        """Parts for the bodies of the world, made anew when these have changed."""
        names, level = self.world.names, float(np.linalg.norm(self.gravity))
        surfaces = [self.world.surface(name) for name in names]
        shapes = tuple((surface.topology_version, len(surface.vertices)) for surface in surfaces)
        known, now = self._known, (self.world.edits, shapes)
        if known is None or (known.edits, known.shapes) != now or not math.isclose(known.level, level):
            bodies = {name: self.world[name] for name in names}
            self._drop_others(bodies)
            parts = self._parts(bodies)
            soft = [part for part in parts if isinstance(part, SoftPart)]
            hardness = {p.number: self.stiffness or p.stiffness(level) for p in soft}
            about = Bodies(self.world, parts, hardness, self.damping, self._turns, gravity=level)
            search, sleep = SEARCHES[self.response](about), Sleep(len(parts), self.sleep_after)
            self._known = known = Known(self.world.edits, shapes, level, parts, about, search, sleep)
            self._resting, self._last, self._turns.waiting = None, no_rows(), []
        return known

    def _drop_others(self, bodies: dict[str, Any]) -> None:
        """Forget what was said of bodies that are gone, and what was felt of those that others have replaced."""
        for said in (self._motions, self._rests):
            for name in [name for name, (body, _) in said.items() if bodies.get(name) is not body]:
                del said[name]
        if any(bodies.get(name, body) is not body for name, body in self._felt.items()):
            self._memory = no_memory()
        self._felt = bodies

    def _parts(self, bodies: dict[str, Any]) -> list[Part]:
        soft = {name: body for name, body in bodies.items() if self._moves_by_itself(name)}
        x = np.zeros((sum(len(body.velocities) for body in soft.values()), 3))
        v, parts, start = np.zeros_like(x), list[Part](), 0
        for number, (name, body) in enumerate(bodies.items()):
            if name in soft:
                rows = slice(start, start + len(body.velocities))
                parts.append(SoftPart(number, name, body, start, x[rows], v[rows], self.settling))
                start = rows.stop
            else:
                parts.append(self._given(number, name, body))
        self._x, self._v = x, v
        self._masses = np.concatenate([np.zeros(0), *(body.model.masses for body in soft.values())])
        return parts

    def _moves_by_itself(self, name: str) -> bool:
        """Whether a body is soft, and not added to the world as fixed, as which it stands still."""
        return isinstance(self.world[name], SoftBody) and not self.world.is_fixed(name)

    def _given(self, number: int, name: str, body: Any) -> GivenPart:
        surface = self.world.surface(name)
        motion = self._motions.get(name, (None, None))[1]
        rest = self._rests.setdefault(name, (body, surface.vertices.copy()))[1]
        if len(rest) != len(surface.vertices):
            if motion is not None:
                raise MeshError(
                    f"body {name!r} has {len(surface.vertices)} vertices, but {len(rest)} when its motion was given; "
                    "call script again"
                )
            rest = surface.vertices.copy()
            self._rests[name] = body, rest
        return GivenPart(number, name, surface, self.world.body(name), motion, rest, isinstance(body, SoftBody))

    def _state(self, parts: list[Part], sleep: Sleep) -> State:
        kept = list[tuple[Any, ...]]()
        for part in parts:
            if isinstance(part, SoftPart):
                body = part.body
                frames = body.embedding.frames.copy() if isinstance(body.embedding, RigidLinks) else None
                surface = body.surface.vertices.copy()
                kept.append((body.coarse.vertices.copy(), surface, frames, body.velocities.copy(), body.time))
            else:
                kept.append((part.surface.vertices.copy(),))
        particles = {} if self.particles is None else self.particles.content()
        waiting = np.array(self._turns.waiting, dtype=np.int64).reshape(-1, 2)
        return State(
            replace(self._clock), self._memory, self._last, waiting, self._resting, sleep.quiet.copy(), kept, particles
        )

    def _go_to(self, state: State, parts: list[Part], sleep: Sleep) -> None:
        put_back(state, parts)
        self._clock, self._memory, self._resting = replace(state.clock), state.memory, state.resting
        self._last, self._turns.waiting = state.last, [(a, b) for a, b in state.waiting.tolist()]
        sleep.quiet = state.quiet.copy()
        if self.particles is not None and state.particles:
            self.particles.put_back(state.particles)
        sleep.remember(parts, boxes_of(parts), self._rules())


def _as_particles(particles: Any) -> Particles | None:
    if particles is not None and not isinstance(particles, Particles):
        raise OptionError(f"particles is {shown(particles)}, expected Particles, or None")
    return particles


def _as_response(response: Any) -> str:
    if not isinstance(response, str) or response not in SEARCHES:
        raise OptionError(f"response is {shown(response)}, expected one of {', '.join(map(repr, SEARCHES))}")
    return response
