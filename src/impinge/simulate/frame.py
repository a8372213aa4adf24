"""One simulation frame; ``simulate.simulation`` lists its steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

import numpy as np

from impinge.backend.stages import Stages
from impinge.bodies.rigid_body import RigidBody
from impinge.checks import Bools, Floats, Ints
from impinge.deform.implicit.system import NEWTON_TOLERANCE, ImplicitReport
from impinge.detect.boxes.broad_phase import overlapping_boxes
from impinge.errors import ImpingeError, OptionError
from impinge.respond.contact_forces import ContactConstraints, ContactForces, WarmStart
from impinge.simulate.contact.contact_search import ContactSearch
from impinge.simulate.contact.features import features_of
from impinge.simulate.contact.pairs import Pairs
from impinge.simulate.contact.restitution import first_impact, rebound
from impinge.simulate.contact_record import ContactRecord, ContactRows, simulated_contacts
from impinge.simulate.implicit_steps import ImplicitSteps
from impinge.simulate.pair_scheduler import Pair
from impinge.simulate.report import FrameReport
from impinge.simulate.search.cloth_contacts import AHEAD, cloth_constraints
from impinge.simulate.search.constraints import concatenate, joined_features, no_constraints
from impinge.simulate.search.searches import Response, Search, SearchContext, Travel, ground_constraints
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
MOST_ROUNDS = 6
"""Times that a step is solved again with the contacts of its impacts before it is shortened."""
LEAST_STEP = 2.0**-6
"""Shortest step relative to a frame."""
CLEARANCE, LEAST_SHARE = 0.5, 0.01
"""Share of their motion that bodies in impacts of the shortest step are moved by at first, and at least."""
MOST_TURN = 0.5
"""Angle by which a rigid body in contact turns per step, at most, if that takes no shorter step than the shortest."""
MOST_HOLDS = 8
"""Times per frame that bodies are held in steps of the shortest length, and later in steps of any length."""
MOST_ERROR = 0.1
"""Relative error of a step of a rigid body from which on the step is shortened."""
MAX_SEARCHES = 64
"""Searches per frame, about; faster bodies get no more."""


class RestingContacts(NamedTuple):
    """Contacts of a world in which all bodies sleep; reported until one wakes."""

    rows: ContactRows
    deepest: float
    contact: float
    """Energy of the contact springs [J]."""
    impulse_rate: Floats
    """Force on each body, on the ground last, shape (n + 1, 3)."""
    torque: Floats
    """Torque on each body about its centre of mass, shape (n, 3)."""


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
    search: Search | ContactSearch
    response: Response
    x: Floats
    """Coarse positions of all soft bodies, shape (n, 3)."""
    v: Floats
    masses: Floats
    gravity: Floats
    ground: tuple[Floats, float] | None
    friction: float
    restitution: float
    implicit: ImplicitSteps | None
    """Implicit steps of all soft bodies; None steps explicitly."""
    damps: bool
    """Whether modal damping acts."""


def _size_of_energy(body: DynamicBody) -> float:
    """Elastic energy of a body; infinite if it is not finite."""
    energy = abs(body.source.model.energy(body.x))
    return energy if math.isfinite(energy) else math.inf


def _groups(pairs: set[Pair]) -> list[set[int]]:
    """Bodies that pairs join, directly or through others."""
    groups = list[set[int]]()
    for pair in sorted(pairs):
        joined = [group for group in groups if group & set(pair)]
        groups = [group for group in groups if not group & set(pair)] + [set(pair).union(*joined)]
    return groups


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
        self._record = ContactRecord(inputs.bodies, inputs.masses)
        self.searches = self._substeps = 0
        self._incomplete, self._inverted = set[Pair](), dict[str, Ints]()
        self._unsettled = self._newton = self._iterations = 0
        """Implicit steps whose friction had not settled."""
        self._held = set[str]()
        self._crossing = set[tuple[int, int]]()
        """Pairs of bodies that have crossed in this frame, by number."""
        """Bodies whose motion was shortened."""
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
    def _gravity(self) -> float:
        """Magnitude of gravity [m / s²]."""
        return float(np.linalg.norm(self.inputs.gravity))

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
        if isinstance(self.inputs.search, ContactSearch):
            forces, dx, since = self._advance_verified(self.inputs.search)
        else:
            forces, dx, since = self._advance_between_searches()
        rows, torque = self._record.forces(self._dt)
        deepest = forces.deepest(dx, since)
        if isinstance(self.inputs.search, ContactSearch):  # the depth of a spring is that in the contact layer
            deepest = max(0.0, -float(rows.gap.min(initial=0.0)))
        found = RestingContacts(rows, deepest, forces.energy(dx, since), self._impulse / self._dt, torque)
        return self._report(found), found

    def _advance_between_searches(self) -> tuple[ContactForces, Floats, float]:
        """Search contacts and move bodies by turns; the forces of the last step, displacements and time since then."""
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
            self._record.add(forces, forces.constraints.features, self._x, dx, since)
            self.warm_start = forces.warm_start(dx, since)
            limited = bool(self.inputs.context.scheduler.limits)
            self.last = forces.constraints_after(dx, since) if limited else no_constraints()
            self.stages.done("steer")
        assert forces is not None
        return forces, dx, since

    def _advance_verified(self, search: ContactSearch) -> tuple[ContactForces, Floats, float]:
        """Move bodies by steps whose motion is free of impacts; the same result.

        1. Solve a step with the contacts that are near or ahead, roughly if some are ahead.
        2. Verify the motion exactly. Impacts become contacts; solve again, from the solution before.
        3. If impacts remain after ``MOST_ROUNDS`` times, or where contacts cannot prevent them, halve the step. Bodies
           in impacts of the shortest step are held (``_hold``); after ``MOST_HOLDS``, in those of any step.
        """
        passed, h, holds = 0.0, self._dt, 0
        search.refresh()
        while passed < self._dt:
            if passed > 0.0:
                self._read()
            left = self._dt - passed
            h = left if h >= left * (1.0 - 1e-12) else h
            parting = search.parting()
            self._crossing |= search.crossing
            pairs, ahead = search.begin(self._free_ends(h, passed), self.inputs.ground)
            is_rough = ahead.size > 0
            if self.inputs.restitution > 0.0:
                h *= first_impact(ahead, h, distance=search.margin, slow=self._gravity * self._dt)
            h = min(h, self._longest_turn(pairs, left))
            self.searches += 1
            self.stages.done("search")
            x, v, rounds, guess, before = self._x.copy(), self._v.copy(), 0, None, np.zeros(0)
            while True:
                forces = self._forces_of(concatenate([parting, search.constraints(pairs)]), len(parting))
                forces.normal_force[: len(before)] = before
                self._x[...], self._v[...] = x, v
                result = self._solve(forces, h, passed, guess, is_rough=is_rough)
                for body in self._awake:
                    self._check_finite(body, passed + h)
                self.stages.done("move")
                reached = self._dt if h == left else passed + h
                hits = search.impacts(self._ends(reached), self.inputs.ground)
                self.stages.done("verify")
                if not hits.size:
                    if result is None or (result[0].relative_error <= NEWTON_TOLERANCE).all():
                        break
                    if is_rough:
                        is_rough = False
                    elif h <= self._dt * LEAST_STEP or not self._misses_a_turn(result[0]):
                        break
                    else:
                        h, rounds, guess, before = 0.5 * h, 0, None, np.zeros(0)
                        continue
                else:
                    more, may_help = search.with_impacts(pairs, hits)
                    rounds, is_rough = rounds + 1, True
                    is_last = rounds > MOST_ROUNDS or not may_help
                    if is_last and (h <= self._dt * LEAST_STEP or holds >= MOST_HOLDS):
                        holds += 1
                        self._hold(search, x, reached, hits)
                        break
                    pairs = more
                    shorter = min(0.5 * h if is_last else h, self._longest_turn(pairs, left))
                    if shorter < h:
                        h, rounds, guess, before = shorter, 0, None, np.zeros(0)
                        continue
                guess, before = self._x.copy(), forces.normal_force
            dx = self._x - x
            if self.inputs.restitution > 0.0:
                forces.normal_impulse += rebound(
                    self._awake, forces, self.inputs.masses, self._x, v, self._v, h,
                    restitution=self.inputs.restitution, slow=self._gravity * self._dt, stored=forces.energy(dx, h),
                )  # fmt: skip
            self._accept(forces, h, passed, result)
            self._write_back(reached, h)
            layer = forces.constraints.depth[len(parting) :] + pairs.gap
            own = features_of(pairs, search.surfaces, layer)
            features = joined_features([(parting.features, len(parting)), (own, pairs.size)])
            self._record.add(forces, features, self._x, dx, h)
            search.commit(pairs, forces.normal_force[len(parting) :] > 0.0)
            self.warm_start, passed, since = forces.warm_start(dx, h), reached, h
            h = min(2.0 * h, self._dt)
            self.stages.done("steer")
        return forces, dx, since

    def _hold(self, search: ContactSearch, x: Floats, reached: float, hits: Pairs) -> None:
        """Shorten the motion of bodies in impacts until there are none, and slow them as much.

        Bodies that kept their speed would be in the same impacts in the next step, and be held forever. Of bodies that
        meet nothing but each other, only the motion relative to their common one is shortened: momentum stays.
        Scripted bodies that leave no room cross them.
        """
        end_x, end_v, share, met = self._x.copy(), self._v.copy(), CLEARANCE, set[Pair]()
        awake = {body.number: body for body in self._awake}
        while hits.size:
            more = set(zip(hits.body_a.tolist(), hits.body_b.tolist()))
            if more <= met:
                if share == 0.0:
                    search.crossing.update(more)
                    search.excepted.update(more)
                share = 0.5 * share if share > LEAST_SHARE else 0.0
            met |= more
            for group in _groups(met):
                bodies = [awake[number] for number in sorted(group & awake.keys())]
                if not bodies:  # a scripted body and one that sleeps
                    continue
                rows = np.concatenate([np.arange(body.rows.start, body.rows.stop) for body in bodies])
                mass = self.inputs.masses[rows, None]
                is_free = group <= awake.keys() and not any(
                    len(body.source.fixed) or len(body.source.moved) for body in bodies
                )
                for now, start, end in ((self._x, x, end_x), (self._v, np.zeros_like(x), end_v)):
                    change = end[rows] - start[rows]
                    mean = (mass * change).sum(axis=0) / mass.sum() if is_free else 0.0
                    now[rows] = start[rows] + mean + share * (change - mean)
            hits = search.impacts(self._ends(reached), self.inputs.ground)
        self._held.update(awake[number].name for pair in met for number in pair if number in awake)

    def _longest_turn(self, pairs: Pairs, left: float) -> float:
        """Length of a step in which rigid bodies in contact turn by ``MOST_TURN``: in equal steps to the frame's end.

        Contacts act at the positions of the start of a step, on lines that a body leaves as it turns.
        """
        touched = set(np.unique([pairs.body_a, pairs.body_b]).tolist())
        spins = [
            body.source.spin_of(body.source.velocities)
            for body in self._awake
            if body.number in touched and isinstance(body.source, RigidBody)
        ]
        steps = min(left * max(spins, default=0.0) / MOST_TURN, left / (self._dt * LEAST_STEP))
        return left / max(math.ceil(steps), 1)

    def _misses_a_turn(self, report: ImplicitReport) -> bool:
        """Whether a step of a rigid body is far from its solution: it would turn too far under its contacts."""
        steps = self.inputs.implicit
        assert steps is not None
        is_far = ~report.converged & (report.relative_error > MOST_ERROR)  # errors of converged steps are rounding
        return any(is_far[k] for k, body in enumerate(steps.bodies) if body.is_rigid)

    def _free_ends(self, h: float, passed: float) -> list[Floats]:
        """Positions of all surfaces after a step at the present velocities."""
        x = self._x.copy()
        for body in self._awake:
            body.x += h * body.v
        ends = self._ends(min(passed + h, self._dt))
        self._x[...] = x
        return ends

    def _ends(self, reached: float) -> list[Floats]:
        """Positions of all surfaces at the end of a step; the present arrays of those that do not move."""
        awake, ends = {body.number for body in self._awake}, list[Floats]()
        for body in self.inputs.bodies:
            if isinstance(body, DynamicBody):
                moves = body.number in awake
                ends.append(body.source.steered_by(body.x).copy() if moves else body.source.surface.vertices)
            elif body.motion is not None:
                ends.append(self._start[body.number] + reached * body.velocity)
            else:
                ends.append(body.surface.vertices)
        return ends

    def _forces_of(self, constraints: ContactConstraints, parting: int) -> ContactForces:
        """Forces of contacts in a layer; the first ones part bodies that cross, at a limited speed."""
        context = self.inputs.context
        limit = RELEASE_LOAD * context.static_depth(constraints.body_a, constraints.body_b)
        limit[:parting] = 0.0
        return ContactForces(
            constraints, self._inverse_masses(), friction=self.inputs.friction, warm_start=self.warm_start,
            release_limit=limit, release_speed=RELEASE_SPEED * context.smallest, long_steps=True,
        )  # fmt: skip

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
        assert not isinstance(inputs.search, ContactSearch)
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
        begin = self._x.copy()
        if self.inputs.implicit is not None:
            self._step_implicitly(forces, interval, passed)
        else:
            self._step_explicitly(forces, interval, passed, begin)
            self._add_impulses(forces)
        return self._x - begin

    def _step_implicitly(self, forces: ContactForces, interval: float, passed: float) -> None:
        """Advance all soft bodies by one step."""
        self._accept(forces, interval, passed, self._solve(forces, interval, passed))

    def _solve(
        self, forces: ContactForces, h: float, passed: float, guess: Floats | None = None, *, is_rough: bool = False
    ) -> tuple[ImplicitReport, bool] | None:
        """Positions and velocities after an implicit step, and its report; None if all bodies sleep.

        A rough solution is that of one Newton step.
        """
        steps = self.inputs.implicit
        if steps is None or not self._awake:  # contacts of sleeping bodies keep their forces
            return None
        awake = {body.number for body in self._awake}
        asleep = [body for body in self._dynamic if body.number not in awake]
        try:
            return steps.step(self._x, self._v, h, forces, self.inputs.gravity, asleep, guess, is_rough=is_rough)
        except OptionError as error:
            worst = max(self._awake, key=_size_of_energy)
            self._fail(worst, passed, str(error), error)

    def _accept(
        self, forces: ContactForces, h: float, passed: float, result: tuple[ImplicitReport, bool] | None
    ) -> None:
        """Account for a step that is final."""
        forces.accumulate(h)
        steps = self.inputs.implicit
        if result is not None and steps is not None:
            report, is_settled = result
            self._newton += int(report.newton_steps.max())
            self._iterations += int(report.iterations.max())
            self._unsettled += not is_settled
            self._damp(h, passed + h)
            self._substeps += 1
            awake = {body.number for body in self._awake}
            for k, body in enumerate(steps.bodies):
                if body.number in awake:
                    self._check_finite(body, passed + h)
                    self._inverted[body.name] = report.inverted[k]
                    self._note_convergence(report, k, body)
        self._add_impulses(forces)

    def _add_impulses(self, forces: ContactForces) -> None:
        constraints, impulse = forces.constraints, forces.impulse_on_a()
        np.add.at(self._impulse, constraints.body_a, impulse)
        np.add.at(self._impulse, constraints.body_b, -impulse)
        self.clock.work += forces.work()

    def _note_convergence(self, report: ImplicitReport, k: int, body: DynamicBody) -> None:
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
        held = [
            f"the contacts of body {name!r} left no room for its motion in part of the frame, and it was held; use a "
            "shorter dt"
            for name in sorted(self._held)
        ]
        bodies = self.inputs.bodies
        crossing = [
            f"body {bodies[a].name!r} crosses itself; it is being parted"
            if a == b
            else f"bodies {bodies[a].name!r} and {bodies[b].name!r} cross; they are being parted"
            for a, b in sorted(self._crossing)
        ]
        return (*self._unconverged.values(), *held, *crossing, *flipped)

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
            contacts=simulated_contacts(
                found.rows,
                inputs.bodies,
                self._dt,
                has_ground=inputs.ground is not None,
                method=inputs.response,
                complete=not self._incomplete,
            ),
            deepest=found.deepest,
            kinetic=0.5 * float((momentum * self._v).sum()),
            elastic=float(sum(body.source.model.energy(body.x) for body in self._dynamic)),
            gravitational=-float((masses * self._x).sum(axis=0) @ inputs.gravity),
            contact=found.contact,
            work=self.clock.work,
            momentum=momentum.sum(axis=0),
            angular_momentum=np.cross(self._x, momentum).sum(axis=0),
            forces={name: found.impulse_rate[k].copy() for k, name in enumerate(names)},
            torques={body.name: found.torque[k].copy() for k, body in enumerate(inputs.bodies)},
            fastest=max((body.fastest() for body in self._dynamic), default=0.0),
            sleeping=tuple(body.name for body in self._dynamic if body.number not in awake),
            complete=not self._incomplete,
            incomplete_pairs=tuple((inputs.bodies[a].name, inputs.bodies[b].name) for a, b in sorted(self._incomplete)),
            inverted={name: len(ids) for name, ids in self._inverted.items() if len(ids)},
            warnings=self._warnings(),
            stats=self.stages.times()
            | {"newton_ms": self._newton, "iter_ms": self._iterations}
            | ({"unsettled_friction": self._unsettled} if self._unsettled else {}),
        )
