"""The main job, shown: bodies deform into each other, every method is asked about the same frames, and they must agree.

1. Prepare.  Two soft bodies are thrown at each other and simulated; other processes ask each method once, since
             on a fresh machine nearly all of the time goes to the compiler, which uses one core per process. What they
             compile is cached, so that the rest only loads it. One thread is used throughout: half as much is compiled.
2. Ask.      All methods about the same frames of the simulation, and of two vessels that move as a formula says.
3. Judge.    The pairs must be the same in all frames, and those of brute force in the last one. Volumes must be there
             where surfaces meet, and nowhere else.
4. Show.     A table, a picture, and one html report.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from impinge import queries, scenes
from impinge.backend import jit
from impinge.bodies.soft_body import SoftBody
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.breadth_first.detector import BreadthFirst
from impinge.detect.common.results import TrianglePairs
from impinge.detect.gjk_cut.detector import GjkCut
from impinge.detect.layered_depth.detector import LayeredDepth
from impinge.detect.spatial_hash.detector import SpatialHash
from impinge.detect.sphere_tree.detector import SphereTree
from impinge.errors import ImpingeError
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh
from impinge.runs.simulation_report import recording
from impinge.runs.simulation_run import SimulationRun, run_simulation
from impinge.simulate.simulation import Simulation
from impinge.view.drawing import drawing_of
from impinge.view.picture import plot_pairs
from impinge.view.report import Page
from impinge.world.world import World

FRAMES = 8
"""Of each scene, about which all methods are asked."""
SECONDS = 0.15
PROCESSES = min(max(os.cpu_count() or 1, 2), 4)
"""That compile at the same time; each takes some 450 MB."""
VESSELS = "hashing_setup_d"
HEAD = ("method", "found in the last frame", "best ms", "agrees")
MAKERS: dict[str, Callable[[TriMesh, TriMesh], Any]] = {
    "gjk_cut": GjkCut,
    "sphere_tree": lambda a, b: SphereTree(a, b, exact=True),
    "layered_depth": LayeredDepth,
    "box_tree": BoxTree,
    "breadth_first": BreadthFirst,
    "spatial_hash": lambda a, b: SpatialHash([a, b]),
}
"""All methods, those that take longest to compile first."""
JUDGE = "box_tree"
SIMULATION = "simulation"


@dataclass
class Asked:
    """What one method found in all frames."""

    name: str
    detector: Any
    found: list[Any]

    @property
    def best_ms(self) -> float:
        """The least time that a frame took."""
        return float(min(result.elapsed_ms for result in self.found))

    @property
    def last(self) -> str:
        """What was found in the last frame, in words."""
        result = self.found[-1]
        if isinstance(self.detector, LayeredDepth):
            return f"overlap volume {result.volume:.4g}, give or take {result.error:.1g}"
        spheres = f" below {len(result.certain):,} pairs of spheres" if isinstance(self.detector, SphereTree) else ""
        return f"{len(result.pairs):,} pairs of triangles{spheres}"

    def agrees(self, judge: Sequence[TrianglePairs]) -> bool:
        """Whether the same pairs meet in all frames; a volume is there where surfaces meet, and nowhere else."""
        if isinstance(self.detector, LayeredDepth):
            return all(
                result.volume + result.error > 0.0 if right else result.volume == 0.0
                for result, right in zip(self.found, judge)
            )
        return all(np.array_equal(result.pairs, right.pairs) for result, right in zip(self.found, judge))

    def row(self, judge: Sequence[TrianglePairs]) -> tuple[str, str, float, str]:
        """A row of the table."""
        return self.name, self.last, round(self.best_ms, 3), "yes" if self.agrees(judge) else "NO: please report this"


def run(folder: Path) -> Iterator[str]:
    """Run the demo, telling line by line what was found; pictures and the report go to ``folder``."""
    page = Page("What impinge found")
    with tempfile.TemporaryDirectory(prefix="impinge-demo-") as frames, jit.launch_always("serial"):
        yield "simulating two soft bodies, and compiling what is not compiled yet ..."
        began = perf_counter()
        yield from _prepare(Path(frames))
        yield f"ready after {perf_counter() - began:.0f} s"
        thrown = simulate(Path(frames))
        meshes = [TriMesh(x, faces) for x, faces in zip(thrown.positions(0), thrown.faces)]
        title = "Two soft bodies are thrown at each other"
        yield from _show(title, meshes, _frames_of(thrown, meshes), folder / "soft_bodies.png", page)
        page.animation(list(recording(thrown)), f"{SECONDS} seconds, slowly and without end")
        vessels = scenes.get(VESSELS)
        motion = ((str(k), partial(vessels.move, k / FRAMES)) for k in range(FRAMES))
        yield from _show(vessels.title, vessels.surfaces, motion, folder / "vessels.png", page)
    page.section("How to repeat it")
    page.command("impinge demo")
    page.write(folder / "report.html")
    yield f"report: {(folder / 'report.html').resolve()}"
    yield "try next:"
    yield "  impinge live two_livers                                   a page to play with"
    yield "  impinge check A.ply B.ply --html report.html              your own meshes"
    yield "  impinge simulate two_bunnies --scale 0.1 --html sim.html  bodies that bounce"


def soft_bodies() -> Simulation:
    """Two soft bodies with bumps that fly at each other, without gravity."""
    world = World()
    for name, side in (("left", -1.0), ("right", 1.0)):
        surface = shapes.bumpy_sphere(3, radius=0.05, center=(0.056 * side, 0.01 * side, 0.0))
        body = SoftBody.from_surface(surface, method="cubes", cells=4, material="jelly", embedding="barycentric")
        body.velocities = np.tile((-0.5 * side, 0.0, 0.0), (len(body.velocities), 1))
        world.add(body, name=name)
    return Simulation(world, gravity=(0.0, 0.0, 0.0))


def simulate(folder: Path) -> SimulationRun:
    """Simulate the soft bodies, or take what is there."""
    return run_simulation(soft_bodies(), SECONDS, job={"scene": "demo"}, out=folder)


def _prepare(folder: Path) -> Iterator[str]:
    """Simulate, and ask each method once, in processes of their own."""
    names = [SIMULATION, *MAKERS]
    pool = ThreadPoolExecutor(PROCESSES)
    try:
        for done in as_completed([pool.submit(_in_process, name, folder) for name in names]):
            yield f"  {done.result()}"
    finally:
        pool.shutdown(cancel_futures=True)  # who is interrupted starts nothing more


def _in_process(name: str, folder: Path) -> str:
    began = perf_counter()
    command = [sys.executable, "-m", "impinge.app.demo", name, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ImpingeError(f"{name} failed ({last}); IMPINGE_TRACEBACK=1 impinge demo shows the whole story")
    return f"{name:<14} {perf_counter() - began:5.1f} s"


def _do(name: str, folder: Path) -> None:
    """What one of the processes does."""
    with jit.launch_always("serial"):
        if name == SIMULATION:
            simulate(folder)
            return
        vessels = scenes.get(VESSELS)
        detector = MAKERS[name](*vessels.surfaces)
        detector.query()
        vessels.move(0.1)
        detector.query()


def _frames_of(thrown: SimulationRun, meshes: Sequence[TriMesh]) -> Iterator[tuple[str, Callable[[], None]]]:
    """Frames of the simulation, and what brings the meshes there."""

    def put(frame: int) -> None:
        for mesh, x in zip(meshes, thrown.positions(frame)):
            mesh.update(x)

    for frame in np.linspace(1, thrown.frame_count, FRAMES).astype(int).tolist():
        yield str(frame), partial(put, frame)


def _show(
    title: str,
    meshes: Sequence[TriMesh],
    frames: Iterator[tuple[str, Callable[[], None]]],
    picture: Path,
    page: Page,
) -> Iterator[str]:
    a, b = meshes
    title = title.rstrip(".")
    yield f"{title} ({a.live_count:,} and {b.live_count:,} triangles)"
    methods = [Asked(name, make(a, b), []) for name, make in MAKERS.items()]
    for asked in methods:
        asked.detector.query()  # builds, which is no part of any frame
    judge = next(asked.found for asked in methods if asked.name == JUDGE)
    numbers = []
    for number, move in frames:
        move()
        numbers.append(number)
        for asked in methods:
            asked.found.append(asked.detector.query())
        yield f"  frame {number}: {len(judge[-1])} pairs of triangles meet"
    rows = [asked.row(judge) for asked in methods]
    widths = [max(len(str(row[k])) for row in (HEAD, *rows)) for k in range(len(HEAD))]
    for row in (HEAD, *rows):
        yield "  " + "  ".join(str(value).ljust(width) for value, width in zip(row, widths)).rstrip()
    by_force = queries.triangle_pairs(a, b, method="brute_force")
    same = np.array_equal(by_force.pairs, judge[-1].pairs)
    told = "the same pairs" if same else "OTHER PAIRS: please report this"
    yield f"  brute force, which tests every pair, finds {told}"
    page.section(title)
    agreed = same and all(asked.agrees(judge) for asked in methods)
    told = "All methods agree in all frames." if agreed else "METHODS DISAGREE: please report this."
    page.verdict(f"{drawing_of(judge[-1], ()).sentence} {told}", "clear" if agreed else "hit")
    page.text(f"All were asked about the same {len(numbers)} frames, on one thread; the times are the best of them.")
    page.table(rows, HEAD)
    counts = np.array([len(result) for result in judge], dtype=np.float64)
    page.chart(counts, at=np.array(numbers, dtype=np.float64), across="frame", up="pairs of triangles that meet")
    pixels = plot_pairs(judge[-1])
    page.picture(pixels, f"frame {numbers[-1]}: triangles that meet are red")
    yield f"picture: {plot_pairs(judge[-1], picture).resolve()}"


if __name__ == "__main__":
    _do(sys.argv[1], Path(sys.argv[2]))
