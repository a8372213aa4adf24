"""A simulation on disk: frames are written as they come, and a run that was killed goes on from its last frame.

    run/manifest.json          what was asked; ``state`` is "complete" once all frames are there
    run/bodies.npz             names, and triangles of each surface: ``names``, ``faces_0``, ``faces_1``, ...
    run/frames/000000.npz      surface positions ``x_0``, ``x_1``, ... and the numbers of the frame's report
    run/state.npz              what the simulation needs to go on (``Simulation.save``)
    run/frames.csv             the numbers of all frames, once they are all there
    run/timings.csv            milliseconds that frames took, the only thing that differs from run to run

1. Begin. Frame 0 is where the bodies are at first.
2. Step.  A frame is written whole, then the state after it. Killed at any point, the state is at most one frame behind
          the frames, and that frame is computed again.
3. Go on. The same simulation is made again and brought to the state; a folder of another one is refused.

Guarantee  all files but the timings have the same bytes, however often the run was killed; unless searches have a
           ``budget_ms``, which depends on the clock. All frames last ``dt``, so that a run can be made longer later;
           with ``target_ms`` they may be shorter, as the clock has it, and there are as many as the time needs.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import impinge
from impinge.checks import Floats, Ints
from impinge.errors import FileError, OptionError
from impinge.runs.frames import Progress
from impinge.runs.store import Store, folder_for, remove_with, write_whole
from impinge.simulate.report import FrameReport
from impinge.simulate.simulation import Simulation

COLUMNS = (
    "frame", "time", "dt", "searches", "substeps", "contacts", "deepest", "kinetic", "elastic", "gravitational",
    "contact", "work", "fastest", "complete",
)  # fmt: skip
"""Numbers of a report that are kept."""
MOST_FRAMES = 1_000_000
ROUNDING = 1e-9
"""Share of the time by which the sum of all frames may differ from it."""
STATE = "state.npz"


@dataclass(frozen=True, eq=False)
class SimulationRun:
    """A run on disk."""

    folder: Path
    names: tuple[str, ...]
    faces: tuple[Ints, ...]
    """Triangles of each surface."""
    frame_count: int
    """Without frame 0."""
    resumed: int = 0
    """Frames of an earlier run."""

    def positions(self, frame: int) -> tuple[Floats, ...]:
        """Where the surfaces of all bodies are at the end of a frame."""
        kept = _read(self.folder / _name(frame))
        return tuple(kept[f"x_{k}"] for k in range(len(self.names)))

    def table(self) -> dict[str, Any]:
        """The numbers of all frames from 1, by column."""
        rows = [_read(self.folder / _name(frame))["report"] for frame in range(1, self.frame_count + 1)]
        values = np.array(rows, dtype=np.float64).reshape(-1, len(COLUMNS))
        return {name: values[:, k] for k, name in enumerate(COLUMNS)}

    def timings(self) -> Floats:
        """Milliseconds of all frames from 1, as far as they are known; else NaN."""
        found = np.full(self.frame_count, np.nan)
        with (self.folder / "timings.csv").open(encoding="utf-8", errors="replace") as file:
            for row in csv.reader(file):
                if len(row) == 2 and row[0].isdecimal() and 1 <= int(row[0]) <= len(found):
                    found[int(row[0]) - 1] = _number(row[1])
        return found


def frames_in(seconds: float, dt: float) -> int:
    """How many frames of ``dt`` last ``seconds`` or a little longer."""
    if not (isinstance(seconds, int | float) and 0.0 <= seconds < math.inf) or seconds / dt > MOST_FRAMES:
        raise OptionError(f"seconds is {seconds!r}, expected a number from 0 to {MOST_FRAMES * dt:g}")
    return math.ceil(seconds / dt * (1.0 - 1e-12))


def run_simulation(
    simulation: Simulation,
    seconds: float,
    *,
    job: dict[str, Any],
    out: Path | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> SimulationRun:
    """Simulate until ``seconds``, into a folder, or one that goes with the result; ``job`` says what was asked."""
    frames_in(seconds, simulation.dt)  # refuses what is no time
    folder = folder_for(out)
    try:
        run = _run(simulation, seconds, folder, job, progress or (lambda _: None))
    except BaseException:
        if out is None:
            remove_with(None, folder)
        raise
    if out is None:
        remove_with(run, folder)
    return run


def _run(
    simulation: Simulation, seconds: float, folder: Path, job: dict[str, Any], tell: Callable[[Progress], None]
) -> SimulationRun:
    count = frames_in(seconds, simulation.dt)
    names = simulation.world.names
    faces = tuple(simulation.world.surface(name).faces for name in names)
    bodies = {"names": np.array(names), **{f"faces_{k}": each for k, each in enumerate(faces)}}
    whole_job = {**job, "dt": simulation.dt, "bodies": _digest(bodies, simulation), "version": impinge.__version__}
    store = Store(folder, {"kind": "simulation", "job": whole_job})
    try:
        _make_folder(folder)
        resumed = _go_on(simulation, folder)
        if not resumed:
            _write(folder / "bodies.npz", _npz(bodies))
            _write(folder / _name(0), _npz(_positions(simulation)))
        contacts = 0
        tell(Progress(resumed, max(count, resumed), contacts, 0, 0, resumed))
        while simulation.frame < count or simulation.time < seconds * (1.0 - ROUNDING):
            report = simulation.step()
            _write(folder / _name(report.frame), _npz({"report": _numbers(report), **_positions(simulation)}))
            simulation.save(folder / STATE)
            _note(folder, report)
            contacts += report.contacts
            tell(Progress(report.frame, max(count, report.frame), contacts, 0, 0, resumed))
        run = SimulationRun(folder, names, faces, simulation.frame, resumed)
        _write(folder / "frames.csv", _csv(run.table()))
        store.finish({"frames": run.frame_count})
        return run
    finally:
        store.close()


def _go_on(simulation: Simulation, folder: Path) -> int:
    """Bring the simulation to the last state; how many frames that is, 0 if there is none."""
    if not (folder / STATE).exists():
        return 0
    simulation.restore(folder / STATE)
    for frame in range(simulation.frame + 1):
        if not (folder / _name(frame)).exists():
            raise FileError(f"{folder / _name(frame)} is missing; remove {folder} to begin anew, or choose another one")
    return simulation.frame


def _name(frame: int) -> str:
    return f"frames/{frame:06d}.npz"


def _digest(bodies: dict[str, Any], simulation: Simulation) -> str:
    """A name for triangles and first positions, so that other bodies are noticed."""
    found = hashlib.sha256()
    for array in (*bodies.values(), *_positions(simulation).values()):
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def _positions(simulation: Simulation) -> dict[str, Any]:
    world = simulation.world
    return {f"x_{k}": world.surface(name).vertices for k, name in enumerate(world.names)}


def _numbers(report: FrameReport) -> Floats:
    return np.array([float(getattr(report, name)) for name in COLUMNS])


def _npz(content: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **content)
    return file.getvalue()


def _csv(table: dict[str, Any]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    whole = {"frame", "searches", "substeps", "contacts", "complete"}
    columns = [[int(each) if name in whole else float(each) for each in table[name]] for name in COLUMNS]
    writer.writerows(zip(*columns))
    return text.getvalue().encode()


def _note(folder: Path, report: FrameReport) -> None:
    try:
        with (folder / "timings.csv").open("a", encoding="utf-8") as file:
            file.write(f"\n{report.frame},{report.elapsed_ms:.3f}")
    except OSError as error:
        raise _not_written(folder, error) from error


def _make_folder(folder: Path) -> None:
    try:
        (folder / "frames").mkdir(exist_ok=True)
        (folder / "timings.csv").touch()
    except OSError as error:
        raise _not_written(folder, error) from error


def _write(path: Path, data: bytes) -> None:
    try:
        write_whole(path, data)
    except OSError as error:
        raise _not_written(path, error) from error


def _not_written(path: Path, error: OSError) -> FileError:
    return FileError(f"{path} cannot be written ({error.strerror or error}); choose a folder that may be written to")


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except Exception as error:  # of the zip, the header or the disk
        raise FileError(f"{path} cannot be read ({error}); remove its folder to begin anew") from error


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
