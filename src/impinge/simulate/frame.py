"""One simulation frame; ``simulate.simulation`` lists its steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

import numpy as np

from impinge.backend.stages import Stages
from impinge.checks import Bools, Floats, Ints
from impinge.detect.boxes.broad_phase import overlapping_boxes
from impinge.errors import ImpingeError, OptionError
from impinge.respond.contact_forces import ContactConstraints, ContactForces, WarmStart
from impinge.simulate.implicit_steps import ImplicitSteps
from impinge.simulate.pair_scheduler import Pair
from impinge.simulate.report import FrameReport
from impinge.simulate.search.cloth_contacts import AHEAD, cloth_constraints
from impinge.simulate.search.constraints import concatenate, no_constraints
from impinge.simulate.search.searches import Search, SearchContext, Travel, ground_constraints
from impinge.simulate.simulated_bodies import (
    DynamicBody,
    ScriptedBody,
    SimulatedBody,
    SimulationError,
    is_cloth,
    surface_boxes,
    thickness,
)
from impinge.simulate.substeps import DivergenceError, Substeps

MAX_TRAVEL = 0.008
"""Largest relative travel between two searches, in sizes of the smallest body."""
MAX_TRAVEL_DENSE = 0.02
"""The same for bodies with merged contacts: a merged contact responds to vertices that enter beside it."""
LOOK_AHEAD = 0.1
"""The same for implicit steps and searches that find contacts before bodies touch."""
LEAST_LOOK_AHEAD = 0.01
"""Least distance at which such searches find contacts, in sizes of the smallest body."""
ACCELERATION = 1.5
"""Distance up to which they do, relative to the travel at the present speeds: forces change these."""
RELEASE_LOAD = 20.0
"""Withheld penetration returns until contacts carry this many times the weight of a body."""
RELEASE_SPEED = 2.0
"""Largest separation speed of released penetration, in sizes of the smallest body per second."""
DAMPING_STEPS = 2
"""Modal damping steps per frame, about."""
MAX_FALL = 0.02
"""Largest travel by gravity between two searches of a body without contacts, in sizes of the smallest body."""
_NO_TETS = np.zeros(0, dtype=np.int32)
MAX_SEARCHES = 64
"""Searches per frame, about; faster bodies get no more."""


class RestingContacts(NamedTuple):
    """Contacts of a world in which all bodies sleep; reported until one wakes."""

    contacts: int
    deepest: float
    contact: float
    """Energy of the contact springs [J]."""
    impulse_rate: Floats
    """Force on each body, on the ground last, shape (n + 1, 3)."""


@dataclass
class Clock:
    """Accumulated over frames: simulated time [s], number of frames, work of scripted bodies [J]."""

    time: float = 0.0
    frame: int = 0
    work: float = 0.0


class FrameInput(NamedTuple):
    """Bodies and parameters of a frame."""

    bodies: list[SimulatedBody]
    context: SearchContext
    search: Search
    x: Floats
    """Coarse positions of all soft bodies, shape (n, 3)."""
    v: Floats
    masses: Floats
    gravity: Floats
    ground: tuple[Floats, float] | None
    friction: float
    implicit: ImplicitSteps | None
    """Implicit steps of all soft bodies; None steps explicitly."""
    damps: bool
    """Whether modal damping acts."""


def _size_of_energy(body: DynamicBody) -> float:
    """Elastic energy of a body; infinite if it is not finite."""
    energy = abs(body.source.model.energy(body.x))
    return energy if math.isfinite(energy) else math.inf


class SimulationFrame:
    """One frame in progress.

    ``last`` are the constraints of the previous search with current depths: pairs of bodies that a search skips keep
    theirs.
    """

    def __init__(
        self, inputs: FrameInput, clock: Clock, warm_start: WarmStart, last: ContactConstraints, dt: float
    ) -> None:
        self.inputs, self.clock, self.warm_start, self.last, self._dt = inputs, clock, warm_start, last, dt
        self._x, self._v = inputs.x, inputs.v
        self._dynamic = [body for body in inputs.bodies if isinstance(body, DynamicBody)]
        self._scripted = [body for body in inputs.bodies if isinstance(body, ScriptedBody)]
        self._awake = self._dynamic
        self._start: dict[int, Floats] = {}
        """Positions of scripted bodies at the start of the frame, by body number."""
        self._undamped = 0.0
        """Time since the last modal damping step [s]."""
        self._impulse = np.zeros((len(inputs.bodies) + 1, 3))
        """On each body; the last entry is the ground, which has index -1."""
        self.searches = self._substeps = 0
        self._incomplete, self._inverted = set[Pair](), dict[str, Ints]()
        self._unsettled = 0
        """Implicit steps whose friction had not settled."""
        self._unconverged = dict[str, str]()
        """Remarks on bodies whose step did not converge, by name."""
        self.stages = Stages()

    def plan(self) -> None:
        """Evaluate the motions of scripted bodies at the end of the frame and read the states of soft bodies."""
        world = self.inputs.context.world
        edits = world.edits
        for body in self._scripted:
            if body.motion is not None:
                now = body.surface.vertices
                self._start[body.number] = now
                body.velocity = (body.at(self.clock.time + self._dt) - now) / self._dt
                if world.edits != edits:
                    raise OptionError(
                        f"the motion of body {body.name!r} has added, removed or ignored bodies of the world; edit the "
                        "world between frames"
                    )
        self._read()

    @property
    def reach(self) -> float:
        """Estimated travel of bodies in this frame, plus the search margin [m]."""
        fall = float(np.linalg.norm(self.inputs.gravity)) * self._dt
        return (2.0 * self._fastest() + fall) * self._dt + self.inputs.search.margin

    @property
    def bounds(self) -> Floats:
        """Bounding boxes of all bodies, shape (n, 2, 3)."""
        return surface_boxes(self.inputs.bodies)

    def advance(self, asleep: Bools) -> tuple[FrameReport, RestingContacts]:
        """Search contacts and move all bodies that are awake, until the frame is over."""
        self._awake = [body for body in self._dynamic if not asleep[body.number]]
        for body in self._dynamic:
            if asleep[body.number]:
                body.v[...] = 0.0
        passed, forces, dx, since = 0.0, None, np.zeros_like(self._x), 0.0
        while passed < self._dt:
            if passed > 0.0:
                self._read()
            forces = self._respond(self._dt - passed)
            self.stages.done("search")
            interval = self._search_interval(self._dt - passed, forces)
            dx, since = self._move(forces, interval, passed), interval
            self.stages.done("move")
            passed = self._dt if interval >= (self._dt - passed) * (1.0 - 1e-12) else passed + interval
            self._write_back(passed, interval)
            self.warm_start = forces.warm_start(dx, since)
            limited = bool(self.inputs.context.scheduler.limits)
            self.last = forces.constraints_after(dx, since) if limited else no_constraints()
            self.stages.done("steer")
        assert forces is not None
        found = RestingContacts(
            int((forces.normal_force > 0.0).sum()), forces.deepest(dx, since), forces.energy(dx, since),
            self._impulse / self._dt,
        )  # fmt: skip
        return self._report(found), found

    def advance_asleep(self, resting: RestingContacts) -> FrameReport:
        """Advance time only: all bodies sleep."""
        self._awake = []
        for body in self._dynamic:
            body.source.time += self._dt
        return self._report(resting)

    def _read(self) -> None:
        for body in self._dynamic:
            body.x[...], body.v[...] = body.source.coarse.vertices, body.source.velocities

    def _damp(self, h: float, passed: float) -> None:
        """Apply modal damping ``DAMPING_STEPS`` times per frame, and at its end."""
        if not self.inputs.damps:
            return
        self._undamped += h
        if self._undamped >= self._dt / DAMPING_STEPS or passed >= self._dt * (1.0 - 1e-9):
            for body in self._awake:
                body.modal_damping.apply(body.x, body.v, self._undamped)
                body.source.held_to(body.v)
            self._undamped = 0.0

    def _respond(self, left: float) -> ContactForces:
        """Search contacts and set up their forces; ``left`` is the rest of the frame [s]."""
        inputs, context = self.inputs, self.inputs.context
        if not self._dynamic:
            return ContactForces(
                no_constraints(), self._inverse_masses(), friction=inputs.friction, warm_start=self.warm_start
            )
        scheduler = context.scheduler
        scheduler.begin()
        constraints = concatenate([inputs.search.constraints(self._travel(left)), *cloth_constraints(context)])
        scheduler.end()
        constraints = concatenate([constraints, self.last.of_pairs(scheduler.skipped)])
        self._incomplete.update(scheduler.skipped, scheduler.partial)
        self.searches += 1
        if inputs.ground is not None:
            normal, height = inputs.ground
            reach = left * (2.0 * self._fastest() + left * float(np.linalg.norm(inputs.gravity)))
            constraints = concatenate([constraints, ground_constraints(context, normal, height, reach)])
        return ContactForces(
            constraints, self._inverse_masses(), friction=inputs.friction, warm_start=self.warm_start,
            friction_slack=2.0 * MAX_TRAVEL * context.smallest,  # deeper contacts part without friction
            release_limit=RELEASE_LOAD * context.static_depth(constraints.body_a, constraints.body_b),
            release_speed=RELEASE_SPEED * context.smallest, long_steps=self._looks_ahead,
        )  # fmt: skip

    def _inverse_masses(self) -> Floats:
        """Inverse masses of coarse vertices; 0 for prescribed motion and for sleeping bodies."""
        inverse = np.zeros(len(self.inputs.masses))
        for body in self._awake:
            own = inverse[body.rows]
            own[...] = 1.0 / self.inputs.masses[body.rows]
            own[body.source.fixed] = own[body.source.moved] = 0.0
        return inverse

    def _fastest(self) -> float:
        speeds = [body.fastest() for body in self._dynamic]
        speeds += [np.sqrt((body.velocity**2).sum(axis=1).max()) for body in self._scripted if len(body.velocity)]
        return float(max(speeds, default=0.0))

    @property
    def _looks_ahead(self) -> bool:
        """Whether searches find contacts before bodies touch: explicit steps are too short to need them."""
        return self.inputs.implicit is not None and self.inputs.search.looks_ahead

    @property
    def _most_travel(self) -> float:
        """Largest relative travel between two searches, in sizes of the smallest body."""
        return LOOK_AHEAD if self._looks_ahead else MAX_TRAVEL

    def _travel(self, left: float) -> Travel | None:
        """How far bodies may move relative to each other before the next search, None if it does not matter."""
        if not self._looks_ahead:
            return None
        size, fastest = self.inputs.context.smallest, self._fastest()
        fall = left * float(np.linalg.norm(self.inputs.gravity))

        def of_pairs(a: Ints, b: Ints) -> Floats:
            travel = ACCELERATION * left * (self._closing_speeds(a, b, fastest) + fall)
            return np.clip(travel, LEAST_LOOK_AHEAD * size, LOOK_AHEAD * size)

        return Travel(LOOK_AHEAD * size, of_pairs)

    def _search_interval(self, left: float, forces: ContactForces) -> float:
        """Time until the next search [s], at most ``left``."""
        context, margin = self.inputs.context, self.inputs.search.margin
        if not self._awake:
            return left
        fastest = self._fastest()
        farthest = (fastest + float(np.linalg.norm(self.inputs.gravity)) * left) * left
        low, high = (np.ascontiguousarray(self.bounds[:, side]) for side in (0, 1))
        pairs = overlapping_boxes(low - farthest - margin, high + farthest + margin)
        cloths = np.flatnonzero(context.is_cloth)  # cloth collides with itself
        pairs = np.concatenate([pairs[context.is_soft[pairs].any(axis=1)], np.stack([cloths, cloths], axis=1)])
        if not len(pairs):
            return float(min(left, max(self._ground_interval(left, farthest), self._dt / MAX_SEARCHES)))
        a, b = pairs.T
        gap = np.maximum(low[a] - high[b], low[b] - high[a]).max(axis=1) - 2.0 * margin
        closing = np.maximum(self._closing_speeds(a, b, fastest), 1e-300)
        travel = [self._max_travel(body) for body in self.inputs.bodies]
        most = np.minimum(np.take(travel, a), np.take(travel, b))
        if self._looks_ahead:  # nothing looked ahead for pairs beyond the budget
            beyond = {*context.scheduler.skipped, *context.scheduler.partial}
            is_beyond = np.array([(i, j) in beyond for i, j in pairs.tolist()] if beyond else [], dtype=np.bool_)
            most[np.flatnonzero(is_beyond)] = MAX_TRAVEL_DENSE * context.smallest
        level = float(np.linalg.norm(self.inputs.gravity))
        # closing t + level t² = most, in a form without cancellation
        fall = level if self._looks_ahead else 0.0
        travel_time = 2.0 * most / (closing + np.sqrt(closing**2 + 4.0 * fall * most))
        if level > 0.0 and not self._looks_ahead:  # bodies at rest that nothing carries begin to fall
            pressed = forces.normal_force > 0.0
            is_carried = np.zeros(len(self.inputs.bodies) + 1, dtype=np.bool_)
            is_carried[forces.constraints.body_a[pressed]] = is_carried[forces.constraints.body_b[pressed]] = True
            falls = (context.is_soft & ~is_carried[:-1])[pairs].any(axis=1)
            fall_time = math.sqrt(2.0 * MAX_FALL * context.smallest / level)
            travel_time = np.where(falls, np.minimum(travel_time, fall_time), travel_time)
        wait = np.maximum(gap / (2.0 * max(farthest, 1e-300)) * left, travel_time)
        soonest = min(wait.min(initial=np.inf), self._ground_interval(left, farthest))
        return float(min(left, max(soonest, self._dt / MAX_SEARCHES)))

    def _ground_interval(self, left: float, farthest: float) -> float:
        """Time until the next ground query of bodies with merged contacts [s]."""
        if self.inputs.ground is None:
            return math.inf
        normal, height = self.inputs.ground
        wait = math.inf
        for body in self._awake:
            if body.is_dense and not is_cloth(body):
                low, high = body.source.surface.bounds
                gap = 0.5 * float((low + high) @ normal - (high - low) @ np.abs(normal)) - height
                travel_time = self._max_travel(body) / max(body.fastest(), 1e-300)
                wait = min(wait, max(gap / (2.0 * max(farthest, 1e-300)) * left, travel_time))
        return wait

    def _closing_speeds(self, a: Ints, b: Ints, fastest: float) -> Floats:
        """Relative speeds of pairs of bodies [m / s]: a bound for dense and rigid bodies and cloth, else ``fastest``.

        The bound excludes the common velocity: bodies that fall together need few searches.
        """
        bodies = self.inputs.bodies
        bounded = np.array([
            self._looks_ahead or not isinstance(body, DynamicBody) or body.is_dense or body.is_rigid or is_cloth(body)
            for body in bodies
        ])  # fmt: skip
        velocities = [body.v if isinstance(body, DynamicBody) else body.velocity for body in bodies]
        velocities = [v if len(v) else np.zeros((1, 3)) for v in velocities]  # of empty bodies
        mean = np.stack([v.mean(axis=0) for v in velocities])
        spread = np.array([
            body.spread() if isinstance(body, DynamicBody) else np.sqrt(((v - m) ** 2).sum(axis=1).max())
            for body, v, m in zip(bodies, velocities, mean)
        ])  # fmt: skip
        most = spread[a] + spread[b] + np.linalg.norm(mean[a] - mean[b], axis=1)
        return np.where(bounded[a] & bounded[b], most, fastest)

    def _max_travel(self, body: SimulatedBody) -> float:
        """Largest relative travel of a body between two searches [m]."""
        if not isinstance(body, DynamicBody):
            return math.inf
        if is_cloth(body):
            return 0.5 * (AHEAD - 1.0) * thickness(body)
        dense = LOOK_AHEAD if self._looks_ahead else MAX_TRAVEL_DENSE
        return (dense if body.is_dense else self._most_travel) * self.inputs.context.smallest

    def _move(self, forces: ContactForces, interval: float, passed: float) -> Floats:
        """Advance soft bodies by ``interval``; return the displacement of their coarse vertices."""
        constraints, begin = forces.constraints, self._x.copy()
        if self.inputs.implicit is not None:
            self._step_implicitly(self.inputs.implicit, forces, interval, passed)
        else:
            self._step_explicitly(forces, interval, passed, begin)
        impulse = forces.impulse_on_a()
        np.add.at(self._impulse, constraints.body_a, impulse)
        np.add.at(self._impulse, constraints.body_b, -impulse)
        self.clock.work += forces.work()
        return self._x - begin

    def _step_implicitly(self, steps: ImplicitSteps, forces: ContactForces, interval: float, passed: float) -> None:
        """Advance all soft bodies by one step."""
        awake = {body.number for body in self._awake}
        asleep = [body for body in self._dynamic if body.number not in awake]
        if not self._awake:  # contacts of sleeping bodies keep their forces
            forces.accumulate(interval)
            return
        try:
            report, is_settled = steps.step(self._x, self._v, interval, forces, self.inputs.gravity, asleep)
        except OptionError as error:
            worst = max(self._awake, key=_size_of_energy)
            self._fail(worst, passed, str(error), error)
        self._unsettled += not is_settled
        forces.accumulate(interval)
        self._damp(interval, passed + interval)
        self._substeps += 1
        for k, body in enumerate(steps.bodies):
            if body.number not in awake:
                continue
            self._check_finite(body, passed + interval)
            self._inverted[body.name] = report.inverted[k]
            if not report.converged[k]:
                worst, least = report.worst_tet[k], report.least_determinant[k]
                vertex = report.worst_vertex[k] - body.start
                tet = f", the most deformed tet is {worst} (det F {least:.3g})" if worst >= 0 else ""
                self._unconverged[body.name] = (
                    f"the step of body {body.name!r} did not converge: after {report.newton_steps[k]} Newton steps the "
                    f"error is {report.error[k]:.3g} m/s, worst at vertex {vertex}{tet}; use a shorter dt"
                )

    def _step_explicitly(self, forces: ContactForces, interval: float, passed: float, begin: Floats) -> None:
        """Advance soft bodies by sub-steps: those in contact together, the others by Runge-Kutta's method."""
        constraints = forces.constraints
        touching = set(np.unique(np.concatenate([constraints.body_a, constraints.body_b])).tolist())
        together = [body for body in self._awake if body.number in touching]
        for body in self._awake:
            if body.number not in touching:
                self._advance_free(body, interval, passed)
        steps = Substeps(together, self.inputs.gravity, self._x, self._v)
        done, dx = 0.0, np.zeros_like(begin)
        while done < interval:
            try:
                h = steps.step(interval - done, forces, dx, done)
            except DivergenceError as error:
                self._fail(error.body, passed + done, str(error), error)
            forces.accumulate(h)
            done = interval if h == interval - done else done + h
            self._damp(h, passed + done)
            dx = self._x - begin
            self._substeps += 1
        for body in together:
            self._check_finite(body, passed + done)
            self._inverted[body.name] = body.source.model.inverted(body.x)

    def _advance_free(self, body: DynamicBody, h: float, passed: float) -> None:
        """Advance a body without contacts by Runge-Kutta's method."""
        try:
            report = body.source.advance(body.x, body.v, h, gravity=self.inputs.gravity, forces=None)
        except OptionError:  # the step is too long, the body does not diverge
            raise
        except ImpingeError as error:
            self._fail(body, passed, str(error), error)
        self._inverted[body.name] = report.inverted
        self._check_finite(body, passed)

    def _check_finite(self, body: DynamicBody, passed: float) -> None:
        if not np.isfinite((body.v**2).sum()):
            self._fail(body, passed, "its energy exceeds the range of doubles")

    def _fail(self, body: DynamicBody, passed: float, reason: str, error: Exception | None = None) -> NoReturn:
        clock = self.clock
        raise SimulationError(
            f"body {body.name!r} diverges in frame {clock.frame + 1}, at time {clock.time + passed:g} s ({reason}); "
            f"the simulation keeps the state after frame {clock.frame}, use shorter steps or softer contacts"
        ) from error

    def _write_back(self, passed: float, interval: float) -> None:
        """Write coarse states to soft bodies, update their surfaces, and move scripted bodies."""
        awake = {body.number for body in self._awake}
        for body in self._dynamic:
            if body.number in awake:
                body.source.take(body.x, body.v, interval)
            else:
                body.source.velocities = body.v
                body.source.time += interval
        for scripted in self._scripted:
            if scripted.motion is not None:
                scripted.source.update(self._start[scripted.number] + passed * scripted.velocity)

    def _warnings(self) -> tuple[str, ...]:
        """What to know about this frame, a sentence each."""
        flipped = list[str]()
        for body in self._dynamic:
            ids = self._inverted.get(body.name, _NO_TETS)
            if len(ids):
                which = ", ".join(map(str, ids[:5].tolist())) + (", ..." if len(ids) > 5 else "")
                remedy = "use a shorter dt, or larger tets"
                if getattr(body.source, "model_name", None) != "stable_neo_hookean":
                    remedy += ", or the model 'stable_neo_hookean', which resists"
                flipped.append(f"{len(ids)} tets of body {body.name!r} are flat or inverted ({which}); {remedy}")
        return (*self._unconverged.values(), *flipped)

    def _report(self, found: RestingContacts) -> FrameReport:
        inputs, masses = self.inputs, self.inputs.masses[:, None]
        self.clock.time += self._dt
        self.clock.frame += 1
        momentum, awake = masses * self._v, {body.number for body in self._awake}
        names = [body.name for body in inputs.bodies] + (["ground"] if inputs.ground is not None else [])
        return FrameReport(
            frame=self.clock.frame,
            time=self.clock.time,
            dt=self._dt,
            searches=self.searches,
            substeps=self._substeps,
            contacts=found.contacts,
            deepest=found.deepest,
            kinetic=0.5 * float((momentum * self._v).sum()),
            elastic=float(sum(body.source.model.energy(body.x) for body in self._dynamic)),
            gravitational=-float((masses * self._x).sum(axis=0) @ inputs.gravity),
            contact=found.contact,
            work=self.clock.work,
            momentum=momentum.sum(axis=0),
            angular_momentum=np.cross(self._x, momentum).sum(axis=0),
            forces={name: found.impulse_rate[k].copy() for k, name in enumerate(names)},
            fastest=max((body.fastest() for body in self._dynamic), default=0.0),
            sleeping=tuple(body.name for body in self._dynamic if body.number not in awake),
            complete=not self._incomplete,
            incomplete_pairs=tuple((inputs.bodies[a].name, inputs.bodies[b].name) for a, b in sorted(self._incomplete)),
            inverted={name: len(ids) for name, ids in self._inverted.items() if len(ids)},
            warnings=self._warnings(),
            stats=self.stages.times() | ({"unsettled_friction": self._unsettled} if self._unsettled else {}),
        )
