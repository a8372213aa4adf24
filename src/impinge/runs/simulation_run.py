"""A simulation on disk: frames are written as they are computed, and a killed run resumes after its last frame.

    run/manifest.json          the job; ``state`` is "complete" once all frames are written
    run/bodies.npz             ``names``, and triangles of each surface: ``faces_0``, ``faces_1``, ...
    run/frames/000000.npz      surface positions ``x_0``, ``x_1``, ... and the ``report`` of the frame; after the first
                               also the contacts (``contact_point``, ``contact_force``, ...), and the pressure on the
                               surface vertices of bodies in contact (``pressure_0``, ...)
    run/state.npz              the state of the simulation (``Simulation.save``)
    run/frames.csv             reports of all frames, written last
    run/timings.csv            milliseconds per frame, the only file that differs between runs

1. Begin.  Frame 0 holds the initial positions.
2. Step.   A frame is written atomically, then the state after it. After a kill at any point the state is at most one
           frame behind, and that frame is computed again.
3. Resume. The same simulation is made again and restored from the state. The folder of another job is refused.

Guarantee  All files but the timings have the same bytes, however often the run is killed, unless ``budget_ms`` makes
           searches depend on the clock. All frames last ``dt``, and a finished run can be extended. With ``target_ms``
           frames may be shorter, and their number follows from the time.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import impinge
from impinge.checks import Floats, Ints, shown
from impinge.errors import FileError, OptionError
from impinge.io.csv_files import csv_bytes
from impinge.io.npz import read_npz
from impinge.runs.frames import Progress
from impinge.runs.store import Store, in_folder, write_bytes, writing
from impinge.simulate.report import FrameReport
from impinge.simulate.simulated_contacts import COLUMNS as CONTACT_COLUMNS
from impinge.simulate.simulation import Simulation

COLUMNS = (
    "frame", "time", "dt", "searches", "substeps", "contacts", "deepest", "kinetic", "elastic", "gravitational",
    "contact", "work", "fastest", "complete", "inverted", "warnings",
)  # fmt: skip
"""Stored fields of a report; of contacts, inverted tets and warnings, the numbers."""
WHOLE_COLUMNS = {"frame", "searches", "substeps", "contacts", "complete", "inverted", "warnings"}
MOST_FRAMES = 1_000_000
ROUNDING = 1e-9
"""Relative tolerance of the end time, for the sum of all frame durations."""
STATE = "state.npz"


@dataclass(frozen=True, eq=False)
class SimulationRun:
    """A simulation on disk."""

    folder: Path
    names: tuple[str, ...]
    faces: tuple[Ints, ...]
    """Triangles of each surface."""
    frame_count: int
    """Frames after frame 0."""
    resumed: int = 0
    """Frames of an earlier run."""
    has_ground: bool = False

    def positions(self, frame: int) -> tuple[Floats, ...]:
        """Surface positions of all bodies at the end of a frame."""
        arrays = self._read(frame)
        return tuple(arrays[f"x_{k}"] for k in range(len(self.names)))

    def table(self) -> dict[str, Floats]:
        """Reports of the frames from 1, by column."""
        rows = [self._read(frame)["report"] for frame in range(1, self.frame_count + 1)]
        columns = columns_of(self.names, has_ground=self.has_ground)
        values = np.array(rows, dtype=np.float64).reshape(-1, len(columns))
        return {name: values[:, k] for k, name in enumerate(columns)}

    def contacts(self, frame: int) -> dict[str, NDArray[Any]]:
        """Contacts of a frame, by column of ``SimulatedContacts``; none at the start."""
        prefix = "contact_"
        return {
            name.removeprefix(prefix): value for name, value in self._read(frame).items() if name.startswith(prefix)
        }

    def pressure(self, frame: int) -> tuple[Floats, ...]:
        """Contact pressure on the surface vertices of all bodies in a frame [Pa]."""
        arrays = self._read(frame)
        return tuple(arrays.get(f"pressure_{k}", np.zeros(len(arrays[f"x_{k}"]))) for k in range(len(self.names)))

    def warnings(self, frame: int) -> tuple[str, ...]:
        """Warnings of a frame, a sentence each."""
        return tuple(str(each) for each in self._read(frame).get("warnings", ()))

    def timings(self) -> Floats:
        """Milliseconds of the frames from 1; NaN where unknown."""
        found = np.full(self.frame_count, np.nan)
        with (self.folder / "timings.csv").open(encoding="utf-8", errors="replace") as file:
            for row in csv.reader(file):
                if len(row) == 2 and row[0].isdecimal() and 1 <= int(row[0]) <= len(found):
                    with contextlib.suppress(ValueError):
                        found[int(row[0]) - 1] = float(row[1])
        return found

    def _read(self, frame: int) -> dict[str, Any]:
        path = self.folder / _name(frame)
        try:
            return read_npz(path)
        except FileError:
            raise
        except (OSError, ValueError) as error:
            raise FileError(f"{path} cannot be read ({error}); remove its folder to start over") from error


def columns_of(names: Sequence[str], *, has_ground: bool) -> tuple[str, ...]:
    """Columns of a run: those of all simulations, forces on bodies and the ground, torques, the largest pressures."""
    forces = [f"force_{axis}:{name}" for name in (*names, *(("ground",) if has_ground else ())) for axis in "xyz"]
    torques = [f"torque_{axis}:{name}" for name in names for axis in "xyz"]
    return (*COLUMNS, *forces, *torques, *(f"pressure:{name}" for name in names))


def _values_of(report: FrameReport, names: Sequence[str], *, has_ground: bool) -> Floats:
    """The values of a report in these columns."""
    numbers = {
        "contacts": len(report.contacts), "inverted": sum(report.inverted.values()), "warnings": len(report.warnings)
    }  # fmt: skip
    values = np.array([float(numbers[name] if name in numbers else getattr(report, name)) for name in COLUMNS])
    forces = [report.forces[name] for name in (*names, *(("ground",) if has_ground else ()))]
    largest = [report.pressure[name].max(initial=0.0) for name in names]
    return np.concatenate([values, *forces, *(report.torques[name] for name in names), largest])


def _contact_arrays(report: FrameReport) -> dict[str, Any]:
    """Contacts of a frame, and the pressures on bodies in contact."""
    contacts = report.contacts
    pressures = {f"pressure_{k}": report.pressure[name] for k, name in enumerate(report.pressure)}
    arrays = {f"contact_{name}": getattr(contacts, name) for name in CONTACT_COLUMNS}
    return arrays | {name: value for name, value in pressures.items() if value.any()}


def frames_in(seconds: float, dt: float) -> int:
    """Number of frames of ``dt`` that last at least ``seconds``."""
    if not (isinstance(seconds, int | float) and 0.0 <= seconds < math.inf) or seconds / dt > MOST_FRAMES:
        raise OptionError(f"seconds is {shown(seconds)}, expected a number from 0 to {MOST_FRAMES * dt:g}")
    return math.ceil(seconds / dt * (1.0 - 1e-12))


def run_simulation(
    simulation: Simulation,
    seconds: float,
    *,
    job: dict[str, Any],
    out: Path | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> SimulationRun:
    """Simulate until ``seconds`` into the folder ``out``, or a temporary one that is deleted with the result.

    ``job`` identifies scene and options: a folder with another job is refused.
    """
    count = frames_in(seconds, simulation.dt)
    world = simulation.world
    faces = tuple(world.surface(name).faces for name in world.names)
    bodies = {"names": np.array(world.names), **{f"faces_{k}": each for k, each in enumerate(faces)}}
    digest = hashlib.sha256()
    for array in (*bodies.values(), *_positions(simulation).values()):
        digest.update(np.ascontiguousarray(array).tobytes())
    whole_job = {**job, "dt": simulation.dt, "bodies": digest.hexdigest(), "version": impinge.__version__}

    def run(folder: Path) -> SimulationRun:
        with contextlib.closing(Store(folder, {"kind": "simulation", "job": whole_job})) as store:
            timings = folder / "timings.csv"
            with writing(folder):
                (folder / "frames").mkdir(exist_ok=True)
                timings.touch()
            resumed = contacts = 0
            has_ground = simulation.ground is not None
            if (folder / STATE).exists():
                simulation.restore(folder / STATE)
                for path in (folder / _name(frame) for frame in range(simulation.frame + 1)):
                    if not path.exists():
                        raise FileError(f"{path} is missing; remove {folder} to start over, or choose another folder")
                resumed = simulation.frame
            if not resumed:
                _write_npz(folder / "bodies.npz", bodies)
                _write_npz(folder / _name(0), _positions(simulation))

            def report() -> None:
                if progress is not None:
                    frame = simulation.frame
                    progress(Progress(frame, max(count, frame), contacts, 0, 0, resumed))

            report()
            while simulation.frame < count or simulation.time < seconds * (1.0 - ROUNDING):
                found = simulation.step()
                values = _values_of(found, world.names, has_ground=has_ground)
                words = np.array(found.warnings, dtype=np.str_)
                arrays = {"report": values, "warnings": words, **_positions(simulation), **_contact_arrays(found)}
                _write_npz(folder / _name(found.frame), arrays)
                simulation.save(folder / STATE)
                with writing(timings), timings.open("a", encoding="utf-8") as file:
                    file.write(f"\n{found.frame},{found.elapsed_ms:.3f}")
                contacts += len(found.contacts)
                report()
            made = SimulationRun(folder, world.names, faces, simulation.frame, resumed, has_ground)
            table = made.table()
            columns = ([(int if name in WHOLE_COLUMNS else float)(x) for x in table[name]] for name in table)
            write_bytes(folder / "frames.csv", csv_bytes(table, zip(*columns)))
            store.finish({"frames": made.frame_count})
            return made

    return in_folder(out, run)


def _name(frame: int) -> str:
    return f"frames/{frame:06d}.npz"


def _positions(simulation: Simulation) -> dict[str, Floats]:
    world = simulation.world
    return {f"x_{k}": world.surface(name).vertices for k, name in enumerate(world.names)}


def _write_npz(path: Path, arrays: dict[str, Any]) -> None:
    file = io.BytesIO()
    np.savez(file, **arrays)
    write_bytes(path, file.getvalue())
