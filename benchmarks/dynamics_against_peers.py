"""Implicit dynamics against MuJoCo, Newton and PyBullet: a cube falls onto a plane; and frame rates of our own scenes.

Cube       0.1 m, 1 Mg/m³, no material damping, falls by 1 cm onto a plane with friction 0.5, in frames of 1/60 s. All
           libraries simulate the same frames of the same mesh, alternately: fall, impact, oscillation, rest. The claim:
           at most half of MuJoCo's time with a tolerance of 1e-4, by medians, and at most 1.5 between the stiffnesses.
Residual   Median over the timed frames of the residual of the discrete equation of motion at the end of the frame,
           relative to the weight (``peers.soft_body``), for ours and MuJoCo's by the same formula. MuJoCo's tolerance
           bounds the scaled improvement of a cost, ours the error of velocities: equal numbers are not equal residuals.
           Therefore both also run with other tolerances. Rows of equal residual are comparable: ours and MuJoCo's
           with 1e-8, or ours with 100 times the tolerance and MuJoCo's with 1e-4.
Physics    The smallest cube then runs on, untimed, to 4 s: compression by its own weight, next to that of a uniaxial
           bar, and the largest speed that is left. Elastic energies differ (ours is corotated, MuJoCo's
           St. Venant-Kirchhoff, others are neo-Hookean): compressions of a few per cent of the height do too. A
           library whose stiffness has no effect has not converged.
Counted    A peer's time counts unless its cube collapses, explodes, or is not finite: its height must stay within
           ``TOLERATED`` of the first one.
Contacts   Ours and MuJoCo's touch with the same vertices. MuJoCo's are soft by default (2.7 mm deep under this cube),
           which is to its advantage.
First      ``first frame`` is that of a new simulation in a warm process; the claim: at most twice the median.
Rubber     Two tet meshes of NetGen kind below IMPINGE_DATA, 0.2 m long, fall onto the ground. The claims: 60 and 15
           frames per second.
Livers     Two livers lie on each other (``scenes.simulated``), after the fall. The claim: at most 8 ms per frame.
Plates     One plate of 500 tets on the ground, and 64 beside each other, in one call. The claim: at most 1.3 times 64
           single plates (``ratio``). Heaps of four likewise, by their number.

Sleeping is disabled. A peer that is not installed has a row that says how to install it.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import impinge
from benchmarks.measure import Candidate, Row, Sizes, interleave, our_threads, row_of, timed, unmeasured, with_medians
from benchmarks.peer_scenes import OURS, PAUSE
from benchmarks.peers.mujoco import MuJoCo
from benchmarks.peers.newton import Newton
from benchmarks.peers.pybullet import PyBullet
from benchmarks.peers.soft_body import GRAVITY, Drop, SoftBodyPeer
from impinge.bodies.soft_body import SoftBody
from impinge.checks import Floats
from impinge.deform.implicit.system import (
    LINEAR_TOLERANCE,
    MOST_NEWTON_STEPS,
    NEWTON_TOLERANCE,
    ContactTerms,
    ImplicitReport,
)
from impinge.mesh import shapes
from impinge.mesh.tet_mesh import TetMesh
from impinge.scenes import simulated
from impinge.simulate.simulation import Simulation
from impinge.world.world import World

FULL = Sizes(
    cells=(7, 12, 20), stiffnesses=(2e4, 1e6, 1e8), rounds=(15, 8, 4), rubber=60, livers=(1.0, 120, 60),
    plates=(1, 64), plate_frames=20, warm=10, first=3,
)  # fmt: skip
QUICK = Sizes(
    cells=(2,), stiffnesses=(2e4,), rounds=(2,), rubber=2, livers=(0.02, 4, 2), plates=(1, 2),
    plate_frames=2, warm=2, first=1,
)  # fmt: skip
SIDE = 0.1
"""Of the cube [m]."""
ABOVE = 0.01
"""Height of the fall [m]."""
TOLERANCES = (1e-4, 1e-8, 1e-10)
"""Of MuJoCo: that of the claim, and those whose residuals are about ours and a tenth of it."""
SETTLED = 240
"""Frames of the smallest cube, 4 s."""
LEAD_IN, COUNTED = 1, 3
"""Frames of a visit: untimed, then timed."""
EQUAL = 1.5
"""Factor within which residuals are equal."""
TOLERATED = 0.3
"""Largest change of height, relative, of a cube that counts."""
SECONDS = 15.0
"""A candidate whose frames would take longer in a scene is left out."""
SETTLING_SECONDS = 3.0
"""Time to settle, at most."""
BAR_MUJOCO, BAR_STIFFNESS, BAR_PLATES, BAR_FIRST, BAR_LIVERS = 0.5, 1.5, 1.3, 2.0, 8.0
RUBBER = {"liver": 60.0, "bunny": 15.0}
"""Meshes below ``tet`` in IMPINGE_DATA, and the frames per second that are claimed."""
NO_DATA = "left out: IMPINGE_DATA names no folder with it"


class Ours(SoftBodyPeer):
    """Our simulation; ``looseness`` multiplies the tolerances of its solver."""

    package, module = "impinge", "impinge"
    has_residual = True

    def __init__(self, looseness: float = 1.0) -> None:
        self.looseness = looseness
        self.name = OURS if looseness == 1.0 else f"{OURS}, tolerance x {looseness:g}"

    def prepare(self, drop: Drop) -> None:
        """Put the body into a world."""
        self.drop = drop
        self._terms: ContactTerms | None = None
        self._report: ImplicitReport | None = None
        self.simulation = _simulation([drop.tets], drop.material, friction=drop.friction, dt=drop.dt)
        self._system: Any = None
        if self.looseness != 1.0:
            self.observe()

    def observe(self) -> None:
        """Intercept the implicit steps of the simulation: they get the tolerances, we get their contacts.

        Neither is public. The cost is a call of Python per frame.
        """
        if self._system is not None:
            return
        steps = self.simulation._derive().implicit
        assert steps is not None
        self._system, inner = steps._system, steps._system.step
        tolerances = {
            "tolerance": self.looseness * NEWTON_TOLERANCE, "linear_tolerance": self.looseness * LINEAR_TOLERANCE,
            "max_newton_steps": MOST_NEWTON_STEPS,
        }  # fmt: skip

        def step(*state: Any, **options: Any) -> ImplicitReport:
            self._terms = options["contacts"]
            self._report = report = inner(*state, **(options | tolerances))
            return report

        self._system.step = step

    def step(self) -> None:
        """One frame."""
        self.simulation.step()

    @property
    def _body(self) -> SoftBody:
        body = self.simulation.world["body 0"]
        assert isinstance(body, SoftBody)
        return body

    def state(self) -> tuple[Floats, Floats]:
        """Of the coarse vertices."""
        return self._body.coarse.vertices.copy(), self._body.velocities.copy()

    def forces(self, x: Floats) -> Floats:
        """Elastic forces, normal forces and friction."""
        total = self._body.model.forces(x, np.zeros_like(x))
        if self._terms is not None:
            c = self._terms
            normal, friction, _ = self._system.contact_forces()
            entry = np.repeat(np.arange(len(normal)), np.diff(c.start))
            push = c.weight * normal[entry, None] + np.einsum("erc,er->ec", c.block, friction[entry])
            np.add.at(total, c.vertex, -push)
        return total

    def iterations(self) -> float:
        """Of conjugate gradients, over all Newton steps."""
        return 0.0 if self._report is None else float(self._report.iterations.max())


def run(*, quick: bool = False) -> list[Row]:
    """Time cubes with all libraries, then our own scenes."""
    sizes = QUICK if quick else FULL
    rows: list[Row] = []
    for cells, rounds in zip(sizes.cells, sizes.rounds):
        medians = []
        for modulus in sizes.stiffnesses:
            is_smallest = cells == sizes.cells[0]
            found = _cube(cells, modulus, rounds, settles=is_smallest, first=sizes.first)
            medians.append(found[0].median_ms)
            rows += found
        spread = max(medians) / min(medians)
        row = row_of(f"cube, {_count(cells)} tets, all stiffnesses", OURS, medians, note=_held(spread <= BAR_STIFFNESS))
        rows.append(replace(row, ratio=spread, note=f"slowest over fastest median, bar {BAR_STIFFNESS}: {row.note}"))
    return rows + _rubber(sizes.warm, sizes.rubber) + _livers(*sizes.livers) + _plates(sizes)


def _held(is_held: bool) -> str:
    return "held" if is_held else "not held"


def _count(cells: int) -> str:
    return f"{5 * cells**3 / 1e3:.3g}k"


def _simulation(bodies: Sequence[TetMesh], material: Any, *, friction: float = 0.5, dt: float = 1 / 60) -> Simulation:
    world = World()
    for k, tets in enumerate(bodies):
        body = SoftBody(tets.surface, tets, model="corotated", embedding="barycentric", material=material)
        world.add(body, name=f"body {k}")
    return Simulation(
        world, gravity=(0.0, 0.0, -GRAVITY), ground=0.0, integrator="implicit", friction=friction, dt=dt,
        sleep_after=None,
    )  # fmt: skip


# the cube -----------------------------------------------------------------------------------------------


def drop_of(cells: int, modulus: float) -> Drop:
    """A cube of ``cells`` per side."""
    tets = shapes.tet_box(cells, cells, cells, size=(SIDE, SIDE, SIDE), center=(0.0, 0.0, 0.5 * SIDE + ABOVE))
    return Drop(tets, modulus)


def all_peers(*, briefly: bool = False) -> list[SoftBodyPeer]:
    """Ours first, then others with the tolerances to compare; ``briefly`` without those that are slow."""
    main: list[SoftBodyPeer] = [Ours(), Ours(100.0), *(MuJoCo("CG", each) for each in TOLERANCES), Newton(1)]
    return main if briefly else [*main, Ours(0.01), MuJoCo("Newton", 1e-4), Newton(10), PyBullet()]


class Run:
    """One library in one scene: the step to time, and what is recorded beside it."""

    def __init__(self, peer: SoftBodyPeer, drop: Drop) -> None:
        self.peer, self.drop = peer, drop
        self.residuals: list[float] = []
        self.iterations: list[float] = []
        self.off = 0.0
        """Largest relative change of height."""
        peer.prepare(drop)
        self._before = peer.state()[1]
        self.first_ms, _ = timed(peer.step)
        peer.observe()
        self.second_ms, _ = timed(peer.step)

    def remember(self, _: None) -> None:
        """Keep the velocities at the start of a frame."""
        self._before = self.peer.state()[1]

    def step(self, _: None) -> None:
        """The frame."""
        self.peer.step()

    def record(self) -> None:
        """Record the frame that has just ended."""
        x, _ = self.peer.state()
        rest = self.drop.height(self.drop.tets.vertices)
        height = self.drop.height(x)
        self.off = max(self.off, abs(height / rest - 1.0) if np.isfinite(x).all() else np.inf)
        self.iterations.append(self.peer.iterations())
        if self.peer.has_residual:
            self.residuals.append(self.peer.residual(self._before))

    @property
    def typical(self) -> float:
        """Median residual."""
        return statistics.median(self.residuals)

    def note(self, times: Sequence[float], *, settles: bool) -> str:
        """What was recorded, in words."""
        peer, parts = self.peer, [f"mean {statistics.fmean(times):.3g} ms, first frame {self.first_ms:.3g} ms"]
        if self.residuals:
            parts.append(f"residual {self.typical:.1e} (median), {max(self.residuals):.1e} (largest)")
        else:
            parts.append(f"no residual: {peer.why_no_residual}")
        parts.append(f"{statistics.fmean(self.iterations):.3g} iterations")
        if settles:
            parts.append(self._settle())
        parts += [remark] if (remark := peer.remark()) else []
        return "; ".join([*parts, our_threads() if peer.package == "impinge" else "1 thread", peer.version()])

    def _settle(self) -> str:
        """Run on, and describe the state."""
        frames, passed = 2 + len(self.iterations) * (LEAD_IN + COUNTED), 0.0
        while frames < SETTLED and passed < 1e3 * SETTLING_SECONDS:
            passed += timed(self.peer.step)[0]
            frames += 1
        x, v = self.peer.state()
        compressed = self.drop.height(self.drop.tets.vertices) - self.drop.height(x)
        uniaxial = self.drop.uniaxial_compression
        speed = "" if np.isnan(v).all() else f", moving at {np.abs(v).max():.1g} m/s"
        return f"after {frames * self.drop.dt:.3g} s compressed by {compressed:.3g} m (uniaxial {uniaxial:.3g}){speed}"


def _cube(cells: int, modulus: float, rounds: int, *, settles: bool, first: int) -> list[Row]:
    """Rows of one cube; ours first."""
    scene, drop = f"cube, {_count(cells)} tets, E = {modulus:g}", drop_of(cells, modulus)
    runs: list[Run] = []
    missing: list[Row] = []
    for peer in all_peers(briefly=not settles):
        reason = peer.available() or peer.refusal(drop)
        if reason is None:
            if settles:  # the first cubes of the run
                Run(peer, drop_of(2, modulus)).record()  # compiles kernels
            each = Run(peer, drop)
            if each.second_ms * (LEAD_IN + COUNTED) * rounds <= 1e3 * SECONDS:
                runs.append(each)
                continue
            reason = f"left out: a frame takes {1e-3 * each.second_ms:.3g} s; {peer.version()}"
        missing.append(unmeasured(scene, peer.name, reason))
    candidates: list[Candidate[None, None]] = [
        Candidate(each.peer.name, each.step, prepare=each.remember, lead_in=LEAD_IN, counted=COUNTED) for each in runs
    ]
    for samples in interleave(candidates, [None], rounds=rounds, pause=PAUSE, warm_up=False):
        for each, candidate, taken in zip(runs, candidates, samples):
            candidate.times += [sample.ms for sample in taken]
            each.record()
    base, rows = min(candidates[0].times), list[Row]()
    for each, candidate in zip(runs, candidates):
        note = each.note(candidate.times, settles=settles)
        row = row_of(scene, candidate.name, candidate.times, base, note)
        if each.off > TOLERATED:
            row = unmeasured(scene, row.candidate, f"does not count: height off by {100 * each.off:.3g} %; {note}")
        rows.append(row)
    return [*_judged(with_medians(rows), runs), *missing, _first_frame(scene, drop, rows[0].median_ms, first)]


def _judged(rows: list[Row], runs: Sequence[Run]) -> list[Row]:
    """State our share of MuJoCo's time: with its tolerance of 1e-4, and with a residual as small as ours."""
    ours, parts = rows[0].median_ms, list[str]()
    for row in rows:
        if row.candidate == MuJoCo("CG", 1e-4).name:
            share = ours / row.median_ms
            parts.append(f"{share:.2f} of the time of {row.candidate} (medians), bar {BAR_MUJOCO}: ")
            parts[-1] += _held(share <= BAR_MUJOCO)
    accurate = [
        row for row, each in zip(rows, runs)
        if isinstance(each.peer, MuJoCo) and each.typical <= EQUAL * runs[0].typical and row.median_ms > 0.0
    ]  # fmt: skip
    if accurate:
        best = min(accurate, key=lambda row: row.median_ms)
        parts.append(f"{ours / best.median_ms:.2f} of that of {best.candidate}, the fastest with our residual")
    return [replace(rows[0], note="; ".join([*parts, rows[0].note])), *rows[1:]]


def _first_frame(scene: str, drop: Drop, median: float, count: int) -> Row:
    times = []
    for _ in range(count):
        ours = Ours()
        ours.prepare(drop)
        times.append(timed(ours.step)[0])
    share = statistics.median(times) / median
    note = f"over the median of the following frames, bar {BAR_FIRST:g}: {_held(share <= BAR_FIRST)}"
    return replace(row_of(scene, f"{OURS}, first frame", times, note=note), ratio=share)


# our own scenes -----------------------------------------------------------------------------------------


def _timed_frames(simulation: Simulation, warm: int, frames: int) -> tuple[list[float], str]:
    """Milliseconds of frames after ``warm`` others, and what happened; neither part takes much more than SECONDS."""
    spent = 0.0
    while simulation.frame < warm and spent < 1e3 * SECONDS:
        spent += timed(simulation.step)[0]
    passed = simulation.frame
    taken = [timed(simulation.step)]
    while len(taken) < frames and sum(ms for ms, _ in taken) < 1e3 * SECONDS:
        taken.append(timed(simulation.step))
    reports = [report for _, report in taken]
    searches = statistics.fmean(report.searches for report in reports)
    contacts = statistics.fmean(len(report.contacts) for report in reports)
    warnings = sum(bool(report.warnings) for report in reports)
    warned = f"{warnings} of {len(taken)} frames with warnings, after {passed}"
    words = f"{searches:.1f} searches, {contacts:.0f} contacts, {warned}"
    return [ms for ms, _ in taken], f"{words}; {our_threads()}"


def _rubber(warm: int, frames: int) -> list[Row]:
    folder = os.environ.get("IMPINGE_DATA")
    rows = []
    for name, bar in RUBBER.items():
        scene, path = f"rubber {name}", Path(folder or "", "tet", f"{name}.msh")
        if folder is None or not path.is_file():
            rows.append(unmeasured(scene, OURS, NO_DATA))
            continue
        tets = impinge.load(path)
        assert isinstance(tets, TetMesh)
        low, high = tets.vertices.min(axis=0), tets.vertices.max(axis=0)
        size = 2.0 * SIDE / float((high - low).max())
        tets.update(size * (tets.vertices - low) + np.array([0.0, 0.0, ABOVE]))
        body = TetMesh(tets.vertices, tets.tets)
        ms, words = _timed_frames(_simulation([body], "rubber"), warm, frames)
        rate = 1e3 / statistics.median(ms)
        text = f"{rate:.3g} frames per second (median), bar {bar:g}: {_held(rate >= bar)}; {len(body)} tets"
        rows.append(row_of(scene, OURS, ms, note=f"{text}; {words}"))
    return rows


def _livers(scale: float, warm: int, frames: int) -> list[Row]:
    simulation = simulated.make("two_livers", scale=scale, sleep_after=None, integrator="implicit")
    ms, words = _timed_frames(simulation, warm, frames)
    verdict = f"bar {BAR_LIVERS:g} ms (median): {_held(statistics.median(ms) <= BAR_LIVERS)}"
    return [row_of("two livers", OURS, ms, note=f"{verdict}; {words}")]


def _plates(sizes: Sizes) -> list[Row]:
    scenes: dict[str, Callable[[int], Simulation]] = {
        "plates": _plates_apart,
        "heaps of 4 plates": lambda count: simulated.make(
            "plates_e", scale=4 * count / 100, sleep_after=None, integrator="implicit"
        ),
    }
    rows = []
    for scene, make in scenes.items():
        single = None
        for count in sizes.plates if scene == "plates" else sorted({1, max(sizes.plates) // 4 or 1}):
            ms, words = _timed_frames(make(count), sizes.warm, sizes.plate_frames)
            each = statistics.median(ms) / count
            single = single or each
            text = f"{each:.3g} ms each, bar {BAR_PLATES} times a single one: {_held(each / single <= BAR_PLATES)}"
            row = row_of(f"{count} {scene}", OURS, ms, note=f"{text}; {words}")
            rows.append(replace(row, ratio=each / single))
    return rows


def _plates_apart(count: int) -> Simulation:
    side = int(np.ceil(np.sqrt(count)))
    plate = partial(shapes.tet_box, 10, 10, 1, size=(0.1, 0.1, 0.01))
    bodies = [plate(center=(0.16 * (k % side), 0.16 * (k // side), 0.006)) for k in range(count)]
    return _simulation(bodies, "liver")
