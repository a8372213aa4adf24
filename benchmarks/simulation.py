"""The simulation: frames per second of two soft bodies in contact, of particles, and of stacks of plates.

Livers     Two liver-shaped bodies of about 20,000 triangles and 2,000 tets each; the upper lies on the lower. A frame
           is 1/60 s: detection, response, sub-steps and embedding. The fall before contact is not timed. The claim: at
           least 30 frames per second.
Particles  20,000 particles on a deforming knot and on the ground. The claim: more than the 29 frames per second of
           [Heidelberger2003], whose frames include rendering.
Plates     4 to 64 plates of 500 tets each, fallen onto stacks of four. The claim: the cost of a frame is linear in the
           number of plates: per plate at most 1.5 times that of the smallest scene (``ratio`` is the cost per plate
           over that).
Contact    The same scenes from their start, and a cloth that falls on a ball, with verified contacts (the default), and
           with the depth-based response and explicit sub-steps that they replace: frames alternate. The claim: at most
           twice the median time (``ratio``).

Sleeping is disabled: bodies at rest would cost nothing. Rounds are frames of one run, not repeats. There is no peer in
this table.
"""

from __future__ import annotations

import statistics
from dataclasses import replace

from benchmarks.measure import Row, row_of, timed
from impinge.backend import jit
from impinge.bodies.soft_body import SoftBody
from impinge.scenes import simulated
from impinge.simulate.report import FrameReport
from impinge.simulate.simulation import Simulation

PLATES, PLATES_QUICK = (4, 8, 16, 32, 64), (2, 4)
COMPARED = {"two_livers": 1.0, "plates_e": 0.64, "cloth_on_ball": 1.0}
"""Scenes and sizes whose responses are compared."""
BAR_CONTACT = 2.0


def run(*, quick: bool = False) -> list[Row]:
    """Time frames of all scenes; ``quick`` takes small ones and few frames."""
    rows = [_livers(quick), _particles(quick)]
    return rows + _plates(quick) + _against_depths(quick)


def _livers(quick: bool) -> Row:
    sim = simulated.make("two_livers", scale=0.05 if quick else 1.0, sleep_after=None)
    ms, reports = _timed(sim, warm=8 if quick else 120, frames=2 if quick else 60)
    bodies = [body for name in sim.world.names if isinstance(body := sim.world[name], SoftBody)]
    what = " and ".join(f"{len(body.surface)} triangles on {len(body.coarse)} tets" for body in bodies)
    touching = min(len(report.contacts) for report in reports)
    return _row("two livers", ms, f"{what}; at least {touching} contacts, {_steps(reports)}")


def _particles(quick: bool) -> Row:
    sim = simulated.make("particles_on_knot", scale=0.05 if quick else 1.0)
    ms, reports = _timed(sim, warm=40 if quick else 150, frames=2 if quick else 150)
    pushed = statistics.fmean(report.stats["particles_pushed"] for report in reports)
    count = 0 if sim.particles is None else len(sim.particles)
    return _row("particles on a knot", ms, f"{count} particles, {pushed:.0f} pushed per frame")


def _plates(quick: bool) -> list[Row]:
    rows, first = list[Row](), 0.0
    for count in PLATES_QUICK if quick else PLATES:
        sim = simulated.make("plates_e", scale=count / 100, sleep_after=None)
        ms, reports = _timed(sim, warm=8 if quick else 60, frames=2 if quick else 20)
        each = statistics.median(ms) / count
        first = first or each
        note = f"{each:.3g} ms per plate; {len(reports[-1].contacts) / count:.0f} contacts per plate, {_steps(reports)}"
        rows.append(_row(f"{count} plates", ms, note, ratio=each / first))
    return rows


def _against_depths(quick: bool) -> list[Row]:
    """Frames of verified contacts and of the depth-based response, by turns."""
    rows = list[Row]()
    for name, scale in COMPARED.items():
        size = min(scale, 0.05) if quick else scale
        verified = simulated.make(name, scale=size, sleep_after=None)
        depths = simulated.make(name, scale=size, sleep_after=None, integrator="explicit", response="vertices")
        both = [(timed(verified.step)[0], timed(depths.step)[0]) for _ in range(4 if quick else 60)][1:]
        new, old = ([pair[k] for pair in both] for k in range(2))
        ratio = statistics.median(new) / statistics.median(old)
        held = "held" if ratio <= BAR_CONTACT else "not held"
        rows.append(_row(f"{name}, from the start", old, "depth-based, explicit sub-steps"))
        note = f"verified contacts; bar {BAR_CONTACT:g} times the depth-based response: {held}"
        rows.append(_row(f"{name}, from the start", new, note, ratio=ratio))
    return rows


def _timed(sim: Simulation, *, warm: int, frames: int) -> tuple[list[float], list[FrameReport]]:
    """Milliseconds and reports of frames, after ``warm`` others."""
    for _ in range(warm):
        sim.step()
    taken = [timed(sim.step) for _ in range(frames)]
    return [ms for ms, _ in taken], [report for _, report in taken]


def _steps(reports: list[FrameReport]) -> str:
    searches = statistics.fmean(each.searches for each in reports)
    substeps = statistics.fmean(each.substeps for each in reports)
    return f"{searches:.1f} searches and {substeps:.1f} sub-steps per frame"


def _row(scene: str, ms: list[float], note: str, *, ratio: float = 1.0) -> Row:
    rate = f"{1e3 / statistics.median(ms):.0f} frames per second (median)"
    row = row_of(scene, "frame", ms, note=f"{rate}; {note}; {jit.thread_count()} threads")
    return replace(row, ratio=ratio)
