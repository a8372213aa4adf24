"""The main task as a demonstration: every method queries the same frames of deforming bodies, and results must agree.

1. Prepare.  Kernels that were neither shipped nor cached are compiled by running each method once, in processes of
             their own: the compiler uses one core per process. One thread is used throughout, which halves the kernels
             to compile. With shipped kernels, or after the first run, no process is started.
2. Look.     The first method that is ready finds the colliding triangles of two vessels, and the picture is written.
3. Query.    Two soft bodies collide in a simulation. All methods on the same frames of it, and of the two vessels with
             a scripted motion.
4. Compare.  The pairs must be equal in all frames, and equal to brute force in the last one. A volume must be found
             exactly in frames where surfaces intersect.
5. Report.   A table, a picture and one html report.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import impinge
from impinge import queries, scenes
from impinge.backend import jit
from impinge.backend.cache import cache_folder
from impinge.backend.shipped import shipped_kernels
from impinge.backend.sources import package_digest
from impinge.errors import ImpingeError
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh
from impinge.runs.simulation_report import recording
from impinge.runs.simulation_run import SimulationRun, run_simulation
from impinge.view.drawing import drawing_of
from impinge.view.picture import pair_items
from impinge.view.rendering import render, write_picture
from impinge.view.report import Page
from impinge.view.session import DETECTORS

FRAMES = 8
"""Frames of each scene that are queried."""
SECONDS = 0.15
PROCESSES = min(max(os.cpu_count() or 1, 2), 4)
"""Compiling processes; each takes some 450 MB."""
VESSELS = "hashing_setup_d"
HEAD = ("method", "result of the last frame", "best ms", "agrees")
REFERENCE: queries.PairMethod = "box_tree"
SIMULATION = "simulation"


STEPS = 1 + len(DETECTORS) + 1 + 2 * (FRAMES + 1) + 1
"""Calls of ``advance`` in one run: simulation and methods, first picture, frames and picture of both scenes, report."""


def run(folder: Path, advance: Callable[[str], None] = lambda _: None) -> Iterator[str]:
    """Run the demo and yield its output line by line; pictures and the report go to ``folder``.

    ``advance`` is called ``STEPS`` times with the step that begins, for a progress bar.
    """
    page = Page("Results of the impinge demo")
    with tempfile.TemporaryDirectory(prefix="impinge-demo-") as frames, jit.launch_always("serial"):
        yield from _prepare_and_look(Path(frames), folder, advance)
        thrown = simulate(Path(frames))
        meshes = [TriMesh(x, faces) for x, faces in zip(thrown.positions(0), thrown.faces)]

        def pose(frame: int) -> None:
            for mesh, x in zip(meshes, thrown.positions(frame)):
                mesh.update(x)

        numbers = np.linspace(1, thrown.frame_count, FRAMES).astype(int).tolist()
        poses = ((frame, partial(pose, frame)) for frame in numbers)
        yield from _compare("Two soft bodies collide", meshes, poses, folder / "soft_bodies.png", page, advance)
        page.animation(recording(thrown), f"{SECONDS} s in slow motion")
        vessels = scenes.get(VESSELS)
        poses = ((frame, partial(vessels.move, frame / FRAMES)) for frame in range(FRAMES))
        title = vessels.title.rstrip(".")
        yield from _compare(title, vessels.surfaces, poses, folder / "vessels.png", page, advance)
    advance("report")
    page.section("Command")
    page.command("impinge demo")
    page.write(folder / "report.html")
    yield f"report: {(folder / 'report.html').resolve()}"
    yield "try next:"
    yield "  impinge live two_livers                                   an interactive page"
    yield "  impinge check A.ply B.ply --html report.html              your own meshes"
    yield "  impinge simulate two_bunnies --scale 0.1 --html sim.html  colliding soft bodies"


def _prepare_and_look(frames: Path, folder: Path, advance: Callable[[str], None]) -> Iterator[str]:
    """Compile what is missing, and write the first picture as soon as the method for it is ready."""
    jobs = (REFERENCE, SIMULATION, *(name for name in DETECTORS if name != REFERENCE))
    marker = cache_folder() / "prepared" / f"demo-{package_digest()[:16]}"
    if shipped_kernels().folder is not None or marker.is_file():
        for name in jobs:
            advance(name)
        advance("first picture")
        yield _first_picture(folder)
        return
    yield "compiling kernels that are not cached (once, in the background); with impinge-kernels this is not needed"
    began = perf_counter()
    pool = ThreadPoolExecutor(PROCESSES)
    try:
        for done in as_completed([pool.submit(_in_process, name, frames) for name in jobs]):
            name, seconds = done.result()
            advance(f"compiling, {name} is ready")
            yield f"  {name:<14} {seconds:5.1f} s"
            if name == REFERENCE:
                advance("first picture")
                yield _first_picture(folder)
    finally:
        pool.shutdown(cancel_futures=True)  # after an interrupt, start no further process
    with contextlib.suppress(OSError):
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()
    yield f"kernels ready after {perf_counter() - began:.0f} s"


def _first_picture(folder: Path) -> str:
    """Draw the colliding triangles of the vessels."""
    pairs = impinge.triangle_pairs(*scenes.get(VESSELS).surfaces, method=REFERENCE)
    caption = f"{len(pairs)} pairs of triangles intersect: they are red"
    return f"first picture: {write_picture(render(pair_items(pairs), caption), folder / 'first.png').resolve()}"


def simulate(folder: Path) -> SimulationRun:
    """Simulate two bumpy soft bodies that fly at each other without gravity, or load the run in ``folder``."""
    world = impinge.World()
    for name, side in (("left", -1.0), ("right", 1.0)):
        ball = shapes.bumpy_sphere(3, radius=0.05, center=(0.056 * side, 0.01 * side, 0.0))
        body = impinge.SoftBody.from_surface(ball, method="cubes", cells=4, material="jelly", embedding="barycentric")
        body.velocities = np.tile((-0.5 * side, 0.0, 0.0), (len(body.velocities), 1))
        world.add(body, name=name)
    # they are to penetrate each other, for the detectors to find
    simulation = impinge.Simulation(world, gravity=(0.0, 0.0, 0.0), response="vertices")
    return run_simulation(simulation, SECONDS, job={"scene": "demo"}, out=folder)


def _in_process(name: str, folder: Path) -> tuple[str, float]:
    """Run ``_prepare`` in a new process; return its name and duration in seconds."""
    began = perf_counter()
    command = [sys.executable, "-m", "impinge.app.demo", name, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ImpingeError(f"{name} failed ({last}); IMPINGE_TRACEBACK=1 impinge demo shows the traceback")
    return name, perf_counter() - began


def _prepare(name: str, folder: Path) -> None:
    """Run the simulation, or two queries of one method, to compile and cache its kernels."""
    with jit.launch_always("serial"):
        if name == SIMULATION:
            simulate(folder)
            return
        vessels = scenes.get(VESSELS)
        detector = DETECTORS[name](*vessels.surfaces)
        detector.query()
        vessels.move(0.1)
        detector.query()


def _compare(
    title: str,
    meshes: Sequence[TriMesh],
    poses: Iterable[tuple[int, Callable[[], None]]],
    picture: Path,
    page: Page,
    advance: Callable[[str], None],
) -> Iterator[str]:
    """Query all methods in each pose, yield what they found, and add a section to the page."""
    a, b = meshes
    yield f"{title} ({a.live_count:,} and {b.live_count:,} triangles)"
    detectors = {name: make(a, b) for name, make in DETECTORS.items()}
    for detector in detectors.values():
        detector.query()  # builds, outside of the timed frames
    found: dict[str, list[Any]] = {name: [] for name in detectors}
    reference, frames = found[REFERENCE], []
    for frame, move in poses:
        advance(f"frame {frame}")
        move()
        frames.append(frame)
        for name, detector in detectors.items():
            found[name].append(detector.query())
        yield f"  frame {frame}: {len(reference[-1])} pairs of triangles intersect"
    advance("picture")
    rows = []
    for name, results in found.items():
        last, pairs = results[-1], zip(results, reference)
        if name == "layered_depth":
            agrees = all(each.volume + each.error > 0.0 if right else each.volume == 0.0 for each, right in pairs)
            result = f"overlap volume {last.volume:.4g} ± {last.error:.1g}"
        else:
            agrees = all(np.array_equal(each.pairs, right.pairs) for each, right in pairs)
            spheres = f", {len(last.certain):,} pairs of spheres" if name == "sphere_tree" else ""
            result = f"{len(last.pairs):,} pairs of triangles{spheres}"
        best_ms = round(float(min(each.elapsed_ms for each in results)), 3)
        rows.append((name, result, best_ms, "yes" if agrees else "NO: please report this"))
    widths = [max(len(str(row[k])) for row in (HEAD, *rows)) for k in range(len(HEAD))]
    for row in (HEAD, *rows):
        yield "  " + "  ".join(str(value).ljust(width) for value, width in zip(row, widths)).rstrip()
    brute_force = impinge.triangle_pairs(a, b, method="brute_force")
    is_same = np.array_equal(brute_force.pairs, reference[-1].pairs)
    yield f"  brute force finds {'the same pairs' if is_same else 'OTHER PAIRS: please report this'}"
    agreed = is_same and all(row[-1] == "yes" for row in rows)
    verdict = "All methods agree in all frames." if agreed else "METHODS DISAGREE: please report this."
    page.section(title)
    page.verdict(f"{drawing_of(reference[-1], ()).sentence} {verdict}", "clear" if agreed else "hit")
    page.text(f"All methods queried the same {len(frames)} frames on one thread; times are the best of all frames.")
    page.table(rows, HEAD)
    counts = np.array([len(result) for result in reference], dtype=np.float64)
    page.chart(counts, at=np.array(frames, dtype=np.float64), across="frame", up="pairs of intersecting triangles")
    caption = f"frame {frames[-1]}: colliding triangles are red"
    pixels = render(pair_items(reference[-1]), caption)
    page.picture(pixels, caption)
    yield f"picture: {write_picture(pixels, picture).resolve()}"


if __name__ == "__main__":
    _prepare(sys.argv[1], Path(sys.argv[2]))
