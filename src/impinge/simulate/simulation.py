"""Simulation of soft bodies with contacts.

    world = World()
    world.add(liver, name="liver")
    sim = Simulation(world, ground=0.0)
    sim.run(2.0)

A simulation frame of length dt (``simulate.frame``) with ``response="contact"``, the default, is that of
``simulate.contact.contact_search``: contacts in thin layers, implicit steps, and the exact test of every motion. With
the other responses:

1. Plan.    Evaluate the motions of scripted bodies at the end of the frame; they move there at constant velocity. Soft
            bodies at rest without moving neighbours sleep (``simulate.sleep``).
2. Search   contacts of all bodies at the current positions (``simulate.search``), within a budget if there is one.
            With implicit steps and ``response="vertices"``, also those that begin before the next search.
3. Respond. Contacts become constraints on the coarse vertices of soft bodies (``simulate.search.constraints``):
            springs, dampers and friction, linear until the next search.
4. Step.    All bodies advance by one implicit step between two searches (``simulate.implicit_steps``), elastic forces,
            contacts and friction in one minimisation. With ``integrator="explicit"``, as in the papers, bodies in
            contact advance by sub-steps of 0.59 of their stable step (``simulate.substeps``) with implicit contact
            forces (``respond.contact_forces``), others by Runge-Kutta's method.
5. Steer    the dense surfaces by the coarse meshes, and repeat from 2 until the frame is over.

Damping     With explicit steps, modal damping reduces slow oscillations of each soft body about twice per frame
            (``simulate.modal_damping``).
Searches    run at least once per frame, and before two bodies can have moved by ``LOOK_AHEAD`` of the smallest body's
            size relative to each other, ``MAX_TRAVEL`` where searches do not look ahead; bodies with separated boxes
            need none. The schedule depends on the state, not on a clock.
Guarantee   If a body diverges or a motion fails, the error names the body and the frame, and the simulation keeps the
            state before the frame. Without ``budget_ms`` and ``target_ms``, runs are reproducible to the bit.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from impinge.bodies.rigid_body import RigidBody
from impinge.bodies.soft_body import EARTH, SoftBody
from impinge.checks import Floats, as_choice, as_number, shown
from impinge.deform.implicit.system import Method, has_hessian
from impinge.deform.integrate import as_seconds
from impinge.deform.rigid_links import RigidLinks
from impinge.errors import MeshError, OptionError, SimulationWarning
from impinge.io.sequence import Sequence
from impinge.respond.contact_forces import no_warm_start
from impinge.simulate.contact.contact_search import ContactSearch
from impinge.simulate.contact.pairs import no_pairs
from impinge.simulate.frame import Clock, FrameInput, RestingContacts, SimulationFrame
from impinge.simulate.frame_rate import FrameRateController
from impinge.simulate.implicit_steps import ImplicitSteps
from impinge.simulate.options import (
    Option,
    as_gravity,
    as_ground,
    as_limits,
    as_positive,
    not_negative,
    positive_or_none,
)
from impinge.simulate.pair_scheduler import PairScheduler
from impinge.simulate.particles import Particles
from impinge.simulate.report import FrameReport
from impinge.simulate.search.constraints import no_constraints
from impinge.simulate.search.searches import SEARCHES, Response, Search, SearchContext
from impinge.simulate.simulated_bodies import (
    DynamicBody,
    Motion,
    ScriptedBody,
    SimulatedBody,
    SimulationError,
    as_motion,
    surface_boxes,
)
from impinge.simulate.sleep import Sleep
from impinge.simulate.state_file import State, read, restore_bodies, write
from impinge.world.world import World

__all__ = ["Integrator", "Simulation", "SimulationError"]

Integrator: TypeAlias = Literal["implicit", "midpoint", "explicit"]
INTEGRATORS: tuple[Integrator, ...] = ("implicit", "midpoint", "explicit")
RESPONSES: tuple[Response, ...] = ("contact", *SEARCHES)
METHODS: dict[str, Method] = {"implicit": "backward_euler", "midpoint": "midpoint"}
MODAL_DAMPING = 0.1
"""Default damping ratio of slow oscillations with explicit steps."""


def _not_negative_or_none(simulation: Simulation, value: Any, name: str) -> float | None:
    return None if value is None else not_negative(simulation, value, name)


class DerivedState(NamedTuple):
    """State derived from the bodies of the world and the options, with the values it was derived from."""

    edits: int
    """Of the world."""
    shapes: tuple[tuple[int, int], ...]
    """Topology version and vertex count of each surface."""
    level: float
    """Magnitude of gravity, which contact stiffness depends on [m / s²]."""
    bodies: list[SimulatedBody]
    context: SearchContext
    search: Search | ContactSearch
    sleep: Sleep
    implicit: ImplicitSteps | None
    """None for explicit steps."""


MOST_FRAMES = 10_000_000
"""Frames of one call of ``run``: two days of simulated time at 60 Hz."""


class Simulation:
    """Soft bodies of a world under gravity, with contacts.

    All options but ``budget_ms``, ``max_tests`` and ``target_ms`` may be assigned later; sleeping bodies wake when an
    option that affects them changes.

    Parameters
    ----------
    world
        Bodies: soft bodies move dynamically, others are scripted or static.
    gravity
        Acceleration [m / s²], shape (3,).
    dt
        Default length of a frame [s].
    integrator
        "implicit": backward Euler, one step between two searches, whatever the stiffness. "midpoint": the implicit
        midpoint rule, of second order and without numerical damping. "explicit": Runge-Kutta's method and
        semi-implicit Euler in stable sub-steps, as in the papers. If a model has no second derivatives, all bodies
        are stepped explicitly, with a warning.
    response
        Contact detection and response. "contact": vertices against faces and edges against edges of all bodies and
        within each, in a thin layer around them, and no motion without the proof that nothing passes through
        anything (``simulate.contact``). "vertices", "volume" and "spheres" respond to penetration, as in the papers;
        only these keep search budgets. None: "contact", with explicit steps or a budget "vertices".
    ground
        Height of a level ground against gravity (along z without gravity), (point, normal) of a plane, or None.
    stiffness
        Contact pressure per depth [Pa / m]: one for all bodies or a dict by body name; None: from material, size and
        gravity of each body. Reads as a dict of the values in use.
    contact_distance
        With response="contact", the distance that bodies keep [m]: one for all bodies or a dict by body name; bodies
        without an entry keep the default, 0.002 of their size, cloth its thickness. Two solids keep the smaller
        distance of both, cloth and a solid half of the cloth's, two cloths the mean of theirs. Reads as a dict of the
        values in use.
    restitution
        With response="contact", rebound of solid bodies: an impact that lasts less than a step ends with this share of
        the speed of approach, from 0 to 1. Slower impacts rebound by the elasticity of the bodies alone.
    damping
        Damping ratio of a rigid body on its contacts.
    modal_damping
        Damping ratio of the slowest oscillation of each body, added to its material damping; 0: none. None: 0 with
        implicit steps, which damp oscillations by themselves, 0.1 with explicit ones.
    friction
        Coefficient of Coulomb friction; 0: none.
    sleep_after
        Time at rest after which bodies sleep [s]; None: never.
    budget_ms, max_tests
        Budget of one search; at most one of both. Runs with ``max_tests`` are reproducible to the bit.
    target_ms
        Wall-clock time per frame: shortens ``dt`` and sets search budgets to hold this rate.

    Raises
    ------
    OptionError
        For options out of range.

    Examples
    --------
    >>> import impinge
    >>> tets = impinge.shapes.tet_box(2, 2, 2, size=(0.1, 0.1, 0.1), center=(0.0, 0.0, 0.06))
    >>> world = impinge.World()
    >>> world.add(impinge.SoftBody(tets.surface, tets, embedding="barycentric"), name="cube")
    'cube'
    >>> impinge.Simulation(world, ground=0.0).step().frame
    1
    """

    gravity = Option[Floats](lambda _, value, name: as_gravity(value, name))
    dt = Option[float](lambda _, value, name: as_seconds(value, name, zero=False))
    integrator = Option[Integrator](lambda _, value, name: as_choice(value, name, INTEGRATORS), invalidates=True)
    response = Option[Response](lambda sim, value, name: sim._as_response(value, name), invalidates=True)
    ground = Option[tuple[Floats, float] | None](lambda sim, value, _: as_ground(value, sim.gravity))
    damping = Option[float](not_negative, invalidates=True)
    modal_damping = Option[float | None](_not_negative_or_none, invalidates=True)
    friction = Option[float](not_negative)
    restitution = Option[float](
        lambda _, value, name: as_number(value, name, "a number from 0 to 1", least=0.0, most=1.0)
    )
    sleep_after = Option[float | None](positive_or_none, invalidates=True)
    particles = Option[Particles | None](lambda _, value, __: _as_particles(value))
    """``Particles`` that bounce off the bodies without acting on them; None at first."""

    def __init__(
        self,
        world: World,
        *,
        gravity: ArrayLike = EARTH,
        dt: float = 1.0 / 60.0,
        integrator: Integrator = "implicit",
        response: Response | None = None,
        ground: float | tuple[ArrayLike, ArrayLike] | None = None,
        stiffness: float | Mapping[str, float] | None = None,
        contact_distance: float | Mapping[str, float] | None = None,
        damping: float = 1.0,
        modal_damping: float | None = None,
        friction: float = 0.5,
        restitution: float = 0.0,
        sleep_after: float | None = 0.5,
        budget_ms: float | None = None,
        max_tests: int | None = None,
        target_ms: float | None = None,
    ) -> None:
        if not isinstance(world, World):
            raise OptionError(f"world is a {type(world).__name__}, expected a World")
        self.world = world
        self._derived: DerivedState | None = None
        self.gravity, self.dt, self.ground, self.integrator = gravity, dt, ground, integrator
        limits = as_limits(budget_ms, max_tests, target_ms)
        self._scheduler = PairScheduler(limits)
        self._controller = None if target_ms is None else FrameRateController(as_positive(target_ms, "target_ms"))
        if response is None:
            response = "vertices" if self.integrator == "explicit" or limits else "contact"
        self.response = response
        self._stiffness = self._by_name(stiffness, "stiffness")
        self._contact_distance = self._by_name(contact_distance, "contact_distance")
        self.damping, self.modal_damping, self.friction = damping, modal_damping, friction
        self.restitution, self.sleep_after = restitution, sleep_after
        self._clock, self._warm_start, self._last = Clock(), no_warm_start(), no_constraints()
        self._resting: RestingContacts | None = None
        self.particles = None
        self._motions: dict[str, tuple[Any, Motion]] = {}
        """By name: the scripted body and its motion."""
        self._rests: dict[str, tuple[Any, Floats]] = {}
        """By name: the body and its initial positions."""
        self._warm_started: dict[str, Any] = {}
        """Bodies by name that the warm start refers to."""

    def __repr__(self) -> str:
        return f"<Simulation: {len(self.world)} bodies, frame {self.frame}, time {self.time:g} s>"

    @property
    def time(self) -> float:
        """Simulated time [s]."""
        return self._clock.time

    @property
    def frame(self) -> int:
        """Number of completed frames."""
        return self._clock.frame

    @property
    def work(self) -> float:
        """Work of scripted bodies on soft bodies [J]."""
        return self._clock.work

    @property
    def stiffness(self) -> dict[str, float]:
        """Contact pressure per depth of soft and rigid bodies [Pa / m], by name; assign one, a dict, or None."""
        return {body.name: self._hardness_of(body) for body in self._dynamic_bodies()}

    @stiffness.setter
    def stiffness(self, value: float | Mapping[str, float] | None) -> None:
        self._stiffness = self._by_name(value, "stiffness")
        self.invalidate()

    @property
    def contact_distance(self) -> dict[str, float]:
        """Thickness of the contact layers of soft and rigid bodies [m], by name; assign one, a dict, or None."""
        return {body.name: self._layer_of(body) for body in self._dynamic_bodies()}

    @contact_distance.setter
    def contact_distance(self, value: float | Mapping[str, float] | None) -> None:
        self._contact_distance = self._by_name(value, "contact_distance")
        self.invalidate()

    def _by_name(self, value: Any, name: str) -> dict[str, float]:
        """Positive numbers by body name; "" is that of all other bodies."""
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            return {"": as_positive(value, name)}
        numbers = {str(body): as_positive(each, f"{name}[{shown(body)}]") for body, each in value.items()}
        for body in value:
            if body not in self.world.names:
                known = ", ".join(map(repr, self.world.names)) or "none yet; add it first"
                raise OptionError(f"{name} names {shown(body)}, expected a body of the world: {known}")
        return numbers

    def _as_response(self, value: Any, name: str) -> Response:
        response = as_choice(value, name, RESPONSES)
        if response == "contact" and self._scheduler.limits and self._controller is None:
            raise OptionError(
                "response='contact' verifies every motion and accepts no search budget; leave budget_ms and max_tests "
                "out, or pass response='spheres'"
            )
        return response

    def _dynamic_bodies(self) -> list[DynamicBody]:
        return [body for body in self._derive().bodies if isinstance(body, DynamicBody)]

    def _layer_of(self, body: DynamicBody) -> float:
        chosen = self._contact_distance
        return chosen.get(body.name, chosen.get("", body.layer))

    def _hardness_of(self, body: DynamicBody) -> float:
        """Contact pressure per depth [Pa / m]."""
        chosen = self._stiffness.get(body.name, self._stiffness.get(""))
        if chosen is not None:
            return chosen
        level = float(np.linalg.norm(self.gravity))
        return (
            body.layer_stiffness(level, self._layer_of(body)) if self.response == "contact" else body.stiffness(level)
        )

    # scripted bodies ------------------------------------------------------------------------------------

    def script(self, name: str, motion: Motion | Sequence, *, rate: float = 30.0) -> None:
        """Set the motion of a body.

        Parameters
        ----------
        name
            Name of a body that is neither soft nor fixed.
        motion
            Function of time [s] that returns positions (n, 3) or a transform (4, 4) of the initial positions; or a
            ``Sequence`` of frames, interpolated linearly and static before the first and after the last frame.
        rate
            Frames of a sequence per second.

        Raises
        ------
        OptionError
            For soft or fixed bodies, and motions that are neither a function nor a sequence.
        MeshError
            For a sequence with another number of vertices.
        """
        if isinstance(self.world[name], RigidBody):
            raise OptionError(f"body {name!r} is a RigidBody, which moves by itself; add its surface to script that")
        if isinstance(self.world[name], SoftBody):
            raise OptionError(f"body {name!r} is soft, expected a mesh; fix or move its coarse vertices instead")
        if self.world.is_fixed(name):
            raise OptionError(f"body {name!r} is fixed; add it without fixed=True to move it")
        body, count = self.world[name], len(self.world.surface(name).vertices)
        function = as_motion(name, motion, count, as_positive(rate, "rate"))
        self._motions[name] = body, function
        if name in self._rests and len(self._rests[name][1]) != count:
            del self._rests[name]
        # After an edit of the world, the next frame derives its bodies, with this motion, from the world.
        if self._derived is not None and self._derived.edits == self.world.edits:
            for simulated in self._derived.bodies:
                if isinstance(simulated, ScriptedBody) and simulated.name == name:
                    simulated.motion = function

    # time ------------------------------------------------------------------------------------------------

    def run(self, seconds: float, *, each: Callable[[FrameReport], object] | None = None) -> list[FrameReport]:
        """Step by frames of ``dt`` until ``seconds`` have passed; the last frame may be shorter.

        Parameters
        ----------
        seconds
            Simulated time [s].
        each
            Called with the report of every frame.

        Returns
        -------
        list of FrameReport
            One report per frame.
        """
        if each is not None and not callable(each):
            raise OptionError(f"each is {shown(each)}, expected a function of a report, or None")
        duration = as_seconds(seconds, "seconds")
        if duration > MOST_FRAMES * self.dt:
            raise OptionError(
                f"seconds is {shown(seconds)}, {duration / self.dt:.3g} frames of {self.dt:g} s, expected at most "
                f"{MOST_FRAMES:,}; run for a shorter time, several times"
            )
        end, reports = self.time + duration, []
        while end - self.time > 1e-9 * self.dt:
            reports.append(self.step(min(self.dt, end - self.time)))
            if each is not None:
                each(reports[-1])
        return reports

    def step(self, dt: float | None = None) -> FrameReport:
        """Advance by one frame.

        Parameters
        ----------
        dt
            Length of the frame [s]; None: the option ``dt``. With ``target_ms`` the frame may be shorter.

        Returns
        -------
        FrameReport
            Energies, momenta, forces and statistics at the end of the frame.

        Raises
        ------
        SimulationError
            If a body diverges or a motion raises; the simulation keeps the state before the frame.
        """
        began = perf_counter()
        requested = self.dt if dt is None else as_seconds(dt, "dt", zero=False)
        derived, controller, duration = self._derive(), self._controller, requested
        if controller is not None:
            self._scheduler.limits = {"budget_ms": controller.budget_ms}
            self._scheduler.reserve_ms = controller.all_searches_ms
            duration = controller.frame_length(requested, max(requested, self.dt))
        before = self._state(derived)
        surfaces = {
            body.name: values[0 if isinstance(body, ScriptedBody) else 1]
            for body, values in zip(derived.bodies, before.bodies)
        }
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # states that are not finite raise an error
                report, stage_ms = self._step(derived, duration)
                if self.particles is not None:
                    report = self._move_particles(self.particles, report, surfaces)
        except BaseException:
            self._restore(before, derived)
            raise
        report = replace(report, elapsed_ms=1e3 * (perf_counter() - began))
        if controller is not None:
            search_ms, move_ms = stage_ms.get("search_ms", 0.0), stage_ms.get("move_ms", 0.0)
            controller.record(duration, report.searches, search_ms, move_ms, report.elapsed_ms)
            chosen = {"target_ms": controller.target_ms, "requested_dt": requested}
            report = replace(report, stats=report.stats | chosen | {"budget_ms": self._scheduler.limits["budget_ms"]})
        return report

    def _step(self, derived: DerivedState, duration: float) -> tuple[FrameReport, dict[str, float]]:
        """Advance the bodies; return the report and the milliseconds per stage."""
        bodies, sleep = derived.bodies, derived.sleep
        inputs = FrameInput(
            bodies, derived.context, derived.search, self.response, self._x, self._v, self._masses, self.gravity,
            self.ground, self.friction, self.restitution, derived.implicit,
            derived.implicit is None or bool(self.modal_damping),
        )  # fmt: skip
        frame = SimulationFrame(inputs, self._clock, self._warm_start, self._last, duration)
        frame.plan()
        asleep = sleep.asleep(bodies, frame.bounds, frame.reach, self._rules())
        all_asleep = bool(asleep[derived.context.is_soft].all()) and not any(
            isinstance(body, ScriptedBody) and body.velocity.any() for body in bodies
        )
        if all_asleep and self._resting is not None:
            report = frame.advance_asleep(self._resting)
        else:
            report, found = frame.advance(asleep)
            self._resting = found if all_asleep else None
        self._warm_start, self._last = frame.warm_start, frame.last
        sleep.record(bodies, frame.bounds, duration, self._rules())
        return report, frame.stages.times()

    def _rules(self) -> Floats:
        """Parameters common to all bodies; sleeping bodies wake when they change."""
        normal, height = (np.zeros(0), np.nan) if self.ground is None else self.ground
        return np.concatenate([self.gravity, [self.friction], normal, [height][: len(normal)]])

    def _move_particles(self, particles: Particles, report: FrameReport, before: dict[str, Floats]) -> FrameReport:
        began = perf_counter()
        pushed = particles.move(self.world, before, report.dt, self.gravity, self.ground)
        ms = 1e3 * (perf_counter() - began)
        return replace(report, stats=report.stats | {"particles_pushed": pushed, "particles_ms": ms})

    # state -----------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to one file (.npz), from which ``restore`` resumes bit for bit (without ``budget_ms``)."""
        derived = self._derive()
        write(self._state(derived), derived.bodies, path)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Return to a state that ``save`` wrote for a simulation of the same bodies.

        Raises
        ------
        FileError
            If the file is damaged or holds other bodies or particles; the simulation does not change.
        """
        derived = self._derive()
        state = read(path, derived.bodies)
        (self.particles or Particles(np.zeros((0, 3)))).check(state.particles, path)
        self._restore(state, derived)

    def invalidate(self) -> None:
        """Discard the state derived from bodies and options; the next frame rebuilds it, and all bodies wake."""
        self._derived = None

    def _derive(self) -> DerivedState:
        """Return the derived state, rebuilt if bodies or gravity have changed."""
        names, level = self.world.names, float(np.linalg.norm(self.gravity))
        surfaces = [self.world.surface(name) for name in names]
        shapes = tuple((surface.topology_version, len(surface.vertices)) for surface in surfaces)
        derived, now = self._derived, (self.world.edits, shapes)
        if derived is None or (derived.edits, derived.shapes) != now or not math.isclose(derived.level, level):
            sources = {name: self.world[name] for name in names}
            self._drop_replaced(sources)
            bodies = self._simulated_bodies(sources)
            implicit = self._implicit_steps(bodies)
            hardness = {body.number: self._hardness_of(body) for body in bodies if isinstance(body, DynamicBody)}
            context = SearchContext(self.world, bodies, hardness, self.damping, self._scheduler, gravity=level)
            search = self._search(context)
            sleep = Sleep(len(bodies), self.sleep_after)
            self._derived = derived = DerivedState(
                self.world.edits, shapes, level, bodies, context, search, sleep, implicit
            )
            self._resting, self._last, self._scheduler.waiting = None, no_constraints(), []
        return derived

    def _search(self, context: SearchContext) -> Search | ContactSearch:
        """The search of the response."""
        if self.response != "contact":
            return SEARCHES[self.response](context)
        layers = {body.number: self._layer_of(body) for body in context.bodies if isinstance(body, DynamicBody)}
        return ContactSearch(context, layers)

    def _damping_ratio(self, soft: Iterable[SoftBody]) -> float:
        if self.modal_damping is not None:
            return self.modal_damping
        is_explicit = self.integrator == "explicit" or not all(has_hessian(body.model) for body in soft)
        return MODAL_DAMPING if is_explicit else 0.0

    def _implicit_steps(self, bodies: list[SimulatedBody]) -> ImplicitSteps | None:
        """Implicit steps of all soft bodies, None if there are none or if steps are explicit."""
        soft = [body for body in bodies if isinstance(body, DynamicBody)]
        rigid = [body for body in soft if body.is_rigid]
        if self.integrator == "explicit" and rigid:
            raise OptionError(
                f"body {rigid[0].name!r} is rigid and cannot be stepped explicitly; pass integrator='implicit' or "
                "'midpoint'"
            )
        if self.integrator == "explicit" and self.response == "contact":
            raise OptionError(
                "response='contact' needs implicit steps; pass integrator='implicit' or 'midpoint', or "
                "response='vertices'"
            )
        if self.integrator == "explicit" or not soft:
            return None
        for body in soft:
            if not has_hessian(body.source.model):
                if rigid:
                    raise OptionError(
                        f"the model of body {body.name!r}, a {type(body.source.model).__name__}, has no second "
                        f"derivatives, hence no implicit steps, which the rigid body {rigid[0].name!r} needs; give it "
                        "the name of a model, or leave one of both out"
                    )
                warnings.warn(
                    f"the model of body {body.name!r}, a {type(body.source.model).__name__}, has no second "
                    "derivatives; all bodies are stepped explicitly, and respond as with response='vertices'",
                    SimulationWarning,
                    stacklevel=4,
                )
                self.__dict__["response"] = "vertices" if self.response == "contact" else self.response
                return None
        return ImplicitSteps(soft, len(self._x), METHODS[self.integrator])

    def _drop_replaced(self, sources: dict[str, Any]) -> None:
        """Drop motions and rest positions of removed bodies, and the warm start if a body was replaced."""
        for by_name in (self._motions, self._rests):
            for name in [name for name, (body, _) in by_name.items() if sources.get(name) is not body]:
                del by_name[name]
        if any(sources.get(name, body) is not body for name, body in self._warm_started.items()):
            self._warm_start = no_warm_start()
        self._warm_started = sources

    def _simulated_bodies(self, sources: dict[str, Any]) -> list[SimulatedBody]:
        """Return dynamic bodies for soft bodies that are not fixed, scripted bodies for all others."""
        soft = {
            name: body for name, body in sources.items() if isinstance(body, SoftBody) and not self.world.is_fixed(name)
        }
        x = np.zeros((sum(len(body.velocities) for body in soft.values()), 3))
        v, bodies, start, ratio = np.zeros_like(x), list[SimulatedBody](), 0, self._damping_ratio(soft.values())
        for number, (name, source) in enumerate(sources.items()):
            if name in soft:
                rows = slice(start, start + len(source.velocities))
                bodies.append(DynamicBody(number, name, source, start, x[rows], v[rows], ratio))
                start = rows.stop
            else:
                bodies.append(self._scripted_body(number, name, source))
        self._x, self._v = x, v
        self._masses = np.concatenate([np.zeros(0), *(body.model.masses for body in soft.values())])
        return bodies

    def _scripted_body(self, number: int, name: str, source: Any) -> ScriptedBody:
        surface = self.world.surface(name)
        motion = self._motions.get(name, (None, None))[1]
        rest = self._rests.setdefault(name, (source, surface.vertices.copy()))[1]
        if len(rest) != len(surface.vertices):
            if motion is not None:
                raise MeshError(
                    f"body {name!r} has {len(surface.vertices)} vertices, but {len(rest)} when its motion was set; "
                    "call script again"
                )
            rest = surface.vertices.copy()
            self._rests[name] = source, rest
        return ScriptedBody(number, name, surface, self.world.body(name), motion, rest, isinstance(source, SoftBody))

    def _state(self, derived: DerivedState) -> State:
        values = list[tuple[Any, ...]]()
        for body in derived.bodies:
            if isinstance(body, DynamicBody):
                soft = body.source
                frames = soft.embedding.frames.copy() if isinstance(soft.embedding, RigidLinks) else None
                surface = soft.surface.vertices.copy()
                values.append((soft.coarse.vertices.copy(), surface, frames, soft.velocities.copy(), soft.time))
            else:
                values.append((body.surface.vertices.copy(),))
        return State(
            clock=replace(self._clock),
            warm_start=self._warm_start,
            last=self._last,
            pairs=derived.search.last if isinstance(derived.search, ContactSearch) else no_pairs(),
            waiting=np.array(self._scheduler.waiting, dtype=np.int64).reshape(-1, 2),
            resting=self._resting,
            quiet=derived.sleep.quiet.copy(),
            bodies=values,
            particles={} if self.particles is None else self.particles.state(),
        )

    def _restore(self, state: State, derived: DerivedState) -> None:
        restore_bodies(state, derived.bodies)
        self._clock, self._warm_start, self._resting = replace(state.clock), state.warm_start, state.resting
        self._last, self._scheduler.waiting = state.last, [(a, b) for a, b in state.waiting.tolist()]
        derived.sleep.quiet = state.quiet.copy()
        if isinstance(derived.search, ContactSearch):
            derived.search.last = state.pairs
        if self.particles is not None and state.particles:
            self.particles.restore(state.particles)
        derived.sleep.store(derived.bodies, surface_boxes(derived.bodies), self._rules())


def _as_particles(particles: Any) -> Particles | None:
    if particles is not None and not isinstance(particles, Particles):
        raise OptionError(f"particles is {shown(particles)}, expected Particles, or None")
    return particles
