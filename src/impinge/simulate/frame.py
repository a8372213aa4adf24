"""One frame of a simulation on its way; see ``simulate.simulation`` for its steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np

from impinge.backend.stages import Stages
from impinge.checks import Bools, Floats
from impinge.detect.boxes.broad_phase import overlapping_boxes
from impinge.errors import ImpingeError, OptionError
from impinge.respond.contact_forces import ContactForces, ContactRows, Memory
from impinge.simulate.cloth_contacts import AHEAD, sheet_rows
from impinge.simulate.constraints import joined_rows, no_rows
from impinge.simulate.pair_scheduler import Pair
from impinge.simulate.report import FrameReport
from impinge.simulate.searches import Bodies, Search, ground_rows
from impinge.simulate.simulated_bodies import GivenPart, Part, SimulationError, SoftPart, boxes_of, is_sheet, thickness
from impinge.simulate.substeps import LostError, Substeps

REACH = 0.008
"""Share of the smallest body's size by which things move against each other between two searches, at most."""
REACH_OF_DENSE = 0.02
"""The same, of bodies whose contacts are joined: what enters beside a contact is felt by it before the next search."""
CARRIES = 20.0
"""Depth that was forgiven comes back until contacts press with so many times the weight of a body."""
PARTING = 2.0
"""Sizes of the smallest body per second, at most, at which what was found deep in each other parts."""
SETTLES = 2
"""How often swings are damped in a frame, about."""
MOST_SEARCHES = 64
"""Searches in a frame, about: very fast bodies get no more."""


class Resting(NamedTuple):
    """What was found when all had gone to sleep."""

    contacts: int
    deepest: float
    contact: float
    impulse_rate: Floats
    """Force on each body, that on the ground last, shape (n + 1, 3)."""


@dataclass
class Clock:
    """What a frame moves on."""

    time: float = 0.0
    frame: int = 0
    work: float = 0.0


class Scene(NamedTuple):
    """What a frame is about."""

    parts: list[Part]
    bodies: Bodies
    search: Search
    x: Floats
    """Coarse positions of all soft bodies, shape (n, 3)."""
    v: Floats
    masses: Floats
    gravity: Floats
    ground: tuple[Floats, float] | None
    friction: float


class Frame:
    """One frame on its way.

    ``last`` are the rows of the search before, with depths as they are now: pairs of bodies that a search has no time
    for keep theirs.
    """

    def __init__(self, scene: Scene, clock: Clock, memory: Memory, last: ContactRows, dt: float) -> None:
        self.scene, self.clock, self.memory, self.last, self._dt = scene, clock, memory, last, dt
        self._x, self._v = scene.x, scene.v
        self._soft = [part for part in scene.parts if isinstance(part, SoftPart)]
        self._given = [part for part in scene.parts if isinstance(part, GivenPart)]
        self._awake = self._soft
        self._start: dict[int, Floats] = {}
        self._owed = 0.0
        self._impulse = np.zeros((len(scene.parts) + 1, 3))
        """On each body; that on the ground is the last, which is also number -1."""
        self.searches = self._substeps = 0
        self._unsettled, self._inverted = set[Pair](), dict[str, int]()
        self.stages = Stages()

    def plan(self) -> None:
        """Find where given bodies go in this frame, and where soft ones are."""
        world = self.scene.bodies.world
        edits = world.edits
        for given in self._given:
            if given.motion is not None:
                now = given.surface.vertices
                self._start[given.number] = now
                given.velocity = (given.at(self.clock.time + self._dt) - now) / self._dt
                if world.edits != edits:
                    raise OptionError(
                        f"the motion of body {given.name!r} has added, removed or ignored bodies of the world; do so "
                        "between frames"
                    )
        self._read()

    @property
    def reach(self) -> float:
        """How far bodies come in this frame, about, and how far beyond their boxes they are felt."""
        fall = float(np.linalg.norm(self.scene.gravity)) * self._dt
        return (2.0 * self._fastest() + fall) * self._dt + self.scene.search.margin

    @property
    def bounds(self) -> Floats:
        """Boxes of all bodies, shape (n, 2, 3)."""
        return boxes_of(self.scene.parts)

    def go(self, asleep: Bools) -> tuple[FrameReport, Resting]:
        """Move all that is awake."""
        self._awake = [part for part in self._soft if not asleep[part.number]]
        for part in self._soft:
            if asleep[part.number]:
                part.v[...] = 0.0
        passed, forces, dx, since = 0.0, None, np.zeros_like(self._x), 0.0
        while passed < self._dt:
            if passed > 0.0:
                self._read()
            forces = self._respond(self._dt - passed)
            self.stages.done("search")
            interval = self._interval(self._dt - passed)
            dx, since = self._move(forces, interval, passed), interval
            self.stages.done("move")
            passed = self._dt if interval >= (self._dt - passed) * (1.0 - 1e-12) else passed + interval
            self._put(passed, interval)
            self.memory = forces.memory(dx, since)
            self.last = forces.rows_after(dx, since) if self.scene.bodies.turns.limits else no_rows()
            self.stages.done("steer")
        assert forces is not None
        found = Resting(
            int((forces.pressed > 0.0).sum()), forces.deepest(dx, since), forces.energy(dx, since),
            self._impulse / self._dt,
        )  # fmt: skip
        return self._report(found), found

    def rest(self, resting: Resting) -> FrameReport:
        """Let the time pass: nothing moves."""
        self._awake = []
        for part in self._soft:
            part.body.time += self._dt
        return self._report(resting)

    def _read(self) -> None:
        for part in self._soft:
            part.x[...], part.v[...] = part.body.coarse.vertices, part.body.velocities

    def _settle(self, h: float, passed: float) -> None:
        """Let swings die out, some times in a frame, and at its end."""
        self._owed += h
        if self._owed >= self._dt / SETTLES or passed >= self._dt * (1.0 - 1e-9):
            for part in self._awake:
                part.settle.settle(part.x, part.v, self._owed)
                part.body.held_to(part.v)
            self._owed = 0.0

    def _respond(self, left: float) -> ContactForces:
        scene = self.scene
        if not self._soft:
            return ContactForces(no_rows(), self._inverse_masses(), friction=scene.friction, memory=self.memory)
        turns = scene.bodies.turns
        turns.begin()
        rows = joined_rows([scene.search.rows(), *sheet_rows(scene.bodies)])
        turns.end()
        rows = joined_rows([rows, self.last.of_pairs(turns.left)])
        self._unsettled.update(turns.left, turns.partial)
        self.searches += 1
        if scene.ground is not None:
            normal, height = scene.ground
            reach = left * (2.0 * self._fastest() + left * float(np.linalg.norm(scene.gravity)))
            rows = joined_rows([rows, ground_rows(scene.bodies, normal, height, reach)])
        slack = 2.0 * REACH * scene.bodies.smallest  # more than a search may be late
        most, parting = CARRIES * scene.bodies.sinking(rows.body_a, rows.body_b), PARTING * scene.bodies.smallest
        return ContactForces(
            rows, self._inverse_masses(), friction=scene.friction, memory=self.memory, slack=slack, most=most,
            parting=parting,
        )  # fmt: skip

    def _inverse_masses(self) -> Floats:
        """0 for coarse vertices that do as they are told, and of bodies that sleep."""
        inverse = np.zeros(len(self.scene.masses))
        for part in self._awake:
            own = inverse[part.rows]
            own[...] = 1.0 / self.scene.masses[part.rows]
            own[part.body.fixed] = own[part.body.moved] = 0.0
        return inverse

    def _fastest(self) -> float:
        speeds = [np.sqrt((part.v**2).sum(axis=1).max()) for part in self._soft]
        speeds += [np.sqrt((part.velocity**2).sum(axis=1).max()) for part in self._given if len(part.velocity)]
        return float(max(speeds, default=0.0))

    def _interval(self, left: float) -> float:
        """How long to wait until the next search."""
        bodies, margin = self.scene.bodies, self.scene.search.margin
        if not self._awake:
            return left
        fastest = self._fastest()
        farthest = (fastest + float(np.linalg.norm(self.scene.gravity)) * left) * left
        low, high = (np.ascontiguousarray(self.bounds[:, side]) for side in (0, 1))
        pairs = overlapping_boxes(low - farthest - margin, high + farthest + margin)
        sheets = np.flatnonzero(bodies.is_sheet)  # cloth meets itself
        pairs = np.concatenate([pairs[bodies.is_soft[pairs].any(axis=1)], np.stack([sheets, sheets], axis=1)])
        a, b = pairs.T
        gap = np.maximum(low[a] - high[b], low[b] - high[a]).max(axis=1) - 2.0 * margin
        closing = np.maximum(self._closing(a, b, fastest), 1e-300)
        wait = np.maximum(gap / (2.0 * max(farthest, 1e-300)) * left, self._reaches(a, b) / closing)
        soonest = min(wait.min(initial=np.inf), self._ground_wait(left, farthest))
        return float(min(left, max(soonest, self._dt / MOST_SEARCHES)))

    def _ground_wait(self, left: float, farthest: float) -> float:
        """How long dense bodies may go on before the ground looks anew which of their vertices touch it."""
        if self.scene.ground is None:
            return math.inf
        normal, height = self.scene.ground
        wait = math.inf
        for part in self._awake:
            if part.is_dense and not is_sheet(part):
                low, high = part.body.surface.bounds
                gap = 0.5 * float((low + high) @ normal - (high - low) @ np.abs(normal)) - height
                speed = math.sqrt(float((part.v**2).sum(axis=1).max()))
                soon = self._reach_of(part) / max(speed, 1e-300)
                wait = min(wait, max(gap / (2.0 * max(farthest, 1e-300)) * left, soon))
        return wait

    def _closing(self, a: Any, b: Any, fastest: float) -> Floats:
        """How fast vertices of two bodies move against each other, about; of dense bodies and cloth at most.

        What both have in common does not count there, so that bodies that fall together are searched seldom.
        """
        bounded = np.array([not isinstance(p, SoftPart) or p.is_dense or is_sheet(p) for p in self.scene.parts])
        velocities = [part.v if isinstance(part, SoftPart) else part.velocity for part in self.scene.parts]
        velocities = [v if len(v) else np.zeros((1, 3)) for v in velocities]  # of empty bodies
        mean = np.stack([v.mean(axis=0) for v in velocities])
        spread = np.array([np.sqrt(((v - m) ** 2).sum(axis=1).max()) for v, m in zip(velocities, mean)])
        most = spread[a] + spread[b] + np.linalg.norm(mean[a] - mean[b], axis=1)
        return np.where(bounded[a] & bounded[b], most, fastest)

    def _reaches(self, a: Any, b: Any) -> Floats:
        """How far two bodies may move against each other between two searches."""
        reach = [self._reach_of(part) for part in self.scene.parts]
        return np.asarray(np.minimum(np.take(reach, a), np.take(reach, b)))

    def _reach_of(self, part: Part) -> float:
        if not isinstance(part, SoftPart):
            return math.inf
        if is_sheet(part):
            return 0.5 * (AHEAD - 1.0) * thickness(part)
        return (REACH_OF_DENSE if part.is_dense else REACH) * self.scene.bodies.smallest

    def _move(self, forces: ContactForces, interval: float, passed: float) -> Floats:
        """Move soft bodies by ``interval``; return how far their coarse vertices have come."""
        rows, begin = forces.rows, self._x.copy()
        involved = set(np.unique(np.concatenate([rows.body_a, rows.body_b])).tolist())
        together = [part for part in self._awake if part.number in involved]
        for part in self._awake:
            if part.number not in involved:
                self._advance(part, interval, passed)
        steps = Substeps(together, self.scene.gravity, self._x, self._v)
        done, dx = 0.0, np.zeros_like(begin)
        while done < interval:
            try:
                h = steps.step(interval - done, forces, dx, done)
            except LostError as lost:
                self._give_up(lost.part, passed + done, str(lost), lost)
            forces.keep(h)
            done = interval if h == interval - done else done + h
            self._settle(h, passed + done)
            dx = self._x - begin
            self._substeps += 1
        for part in together:
            self._check(part, passed + done)
            self._inverted[part.name] = len(part.body.model.inverted(part.x))
        on_a = forces.on_a()
        np.add.at(self._impulse, rows.body_a, on_a)
        np.add.at(self._impulse, rows.body_b, -on_a)
        self.clock.work += forces.work()
        return dx

    def _advance(self, part: SoftPart, h: float, passed: float) -> None:
        """Move a body that touches nothing."""
        try:
            report = part.body.advance(part.x, part.v, h, gravity=self.scene.gravity, forces=None)
        except ImpingeError as error:
            self._give_up(part, passed, str(error), error)
        self._inverted[part.name] = len(report.inverted)
        self._check(part, passed)

    def _check(self, part: SoftPart, passed: float) -> None:
        if not np.isfinite((part.v**2).sum()):
            self._give_up(part, passed, "its energy is beyond the range of doubles")

    def _give_up(self, part: SoftPart, passed: float, why: str, error: Exception | None = None) -> NoReturn:
        clock = self.clock
        raise SimulationError(
            f"body {part.name!r} cannot be followed in frame {clock.frame + 1}, at time {clock.time + passed:g} s "
            f"({why}); the simulation is as after frame {clock.frame}, take shorter steps or softer contacts"
        ) from error

    def _put(self, passed: float, interval: float) -> None:
        """Steer surfaces, and move given bodies on."""
        awake = {part.number for part in self._awake}
        for part in self._soft:
            if part.number in awake:
                part.body.take(part.x, part.v, interval)
            else:
                part.body.velocities = part.v
                part.body.time += interval
        for given in self._given:
            if given.motion is not None:
                given.body.update(self._start[given.number] + passed * given.velocity)

    def _report(self, found: Resting) -> FrameReport:
        scene, masses = self.scene, self.scene.masses[:, None]
        self.clock.time += self._dt
        self.clock.frame += 1
        momentum, awake = masses * self._v, {part.number for part in self._awake}
        names = [part.name for part in scene.parts] + (["ground"] if scene.ground is not None else [])
        return FrameReport(
            frame=self.clock.frame,
            time=self.clock.time,
            dt=self._dt,
            searches=self.searches,
            substeps=self._substeps,
            contacts=found.contacts,
            deepest=found.deepest,
            kinetic=0.5 * float((momentum * self._v).sum()),
            elastic=float(sum(part.body.model.energy(part.x) for part in self._soft)),
            gravitational=-float((masses * self._x).sum(axis=0) @ scene.gravity),
            contact=found.contact,
            work=self.clock.work,
            momentum=momentum.sum(axis=0),
            angular_momentum=np.cross(self._x, momentum).sum(axis=0),
            forces={name: found.impulse_rate[k].copy() for k, name in enumerate(names)},
            fastest=float(np.sqrt((self._v**2).sum(axis=1).max(initial=0.0))),
            sleeping=tuple(part.name for part in self._soft if part.number not in awake),
            complete=not self._unsettled,
            unsettled=tuple((scene.parts[a].name, scene.parts[b].name) for a, b in sorted(self._unsettled)),
            inverted={name: count for name, count in self._inverted.items() if count},
            stats=dict[str, Any](self.stages.times()),
        )
