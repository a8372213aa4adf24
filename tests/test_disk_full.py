"""Every writer names its file when the disk is full; Python's own error names none."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import impinge
from impinge import FileError, shapes
from impinge.app import cli
from impinge.mesh import prepare
from impinge.runs import map_frames, map_pairs, reports
from impinge.runs.simulation_run import run_simulation
from impinge.view import check_report, live, rendering, report

BALL = shapes.icosphere(1)
FULL = "No space left on device"


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, FULL)


def soft_body() -> impinge.SoftBody:
    return impinge.SoftBody(BALL, shapes.tet_box(1, 1, 1, size=(3.0, 3.0, 3.0)))


def simulation() -> impinge.Simulation:
    world = impinge.World()
    world.add(soft_body(), name="soft")
    return impinge.Simulation(world)


WRITERS: dict[str, Callable[[Path], object]] = {
    **{f"mesh.{kind}": lambda path: impinge.save(BALL, path) for kind in ("ply", "ply.gz", "obj", "stl", "off", "vtk")},
    "soft.npz": lambda path: soft_body().save(path),
    "state.npz": lambda path: simulation().save(path),
    "spheres.npz": lambda path: impinge.build_spheres(BALL).save(path),
    "page.html": lambda path: report.Page("title").write(path),
    "recording.html": lambda path: live.PAGE_FILE.write(path, b"content"),
    "picture.png": lambda path: rendering.write_picture(np.zeros((4, 4, 3), dtype=np.uint8), path),
    "pairs.csv": lambda path: check_report.write_pairs(impinge.triangle_pairs(BALL, BALL), path),
    "run/manifest.json": lambda path: map_pairs([BALL, BALL], out=path.parent),
}


@pytest.mark.parametrize("name", WRITERS)
def test_the_file_is_named(tmp_path, monkeypatch, name):
    """Raise FileError with the path and the reason, and leave no file behind."""
    monkeypatch.setattr(os, "fsync", full)
    path = tmp_path / name

    with pytest.raises(FileError, match=FULL) as failed:
        WRITERS[name](path)
    assert str(path) in str(failed.value)
    assert not path.exists()


@pytest.mark.parametrize("ending", ["csv", "npz"])
def test_tables_of_runs_are_named(tmp_path, monkeypatch, ending):
    """Name the table of frames or pairs, which is written after the run."""
    runs = map_frames(BALL, [BALL.vertices], BALL), map_pairs([BALL, BALL])
    monkeypatch.setattr(os, "fsync", full)

    for write, run, path in zip((reports.write_frames, reports.write_pairs), runs, (tmp_path / "a", tmp_path / "b")):
        target = path.with_suffix(f".{ending}")
        with pytest.raises(FileError, match=FULL) as failed:
            write(run, target)
        assert str(target) in str(failed.value)


@pytest.mark.parametrize("name", ["bodies.npz", "frames/000000.npz", "state.npz", "timings.csv", "frames.csv"])
def test_files_of_a_simulation_are_named(tmp_path, monkeypatch, name):
    """Name each file of the folder of a run, the appended timings too."""
    opened = Path.open

    def open_file(path: Path, mode: str = "r", **options: object) -> object:
        file = opened(path, mode, **options)
        if path.name == name and mode == "a":
            file.close()
            full()
        return file

    replaced = Path.replace
    monkeypatch.setattr(Path, "open", open_file)
    monkeypatch.setattr(Path, "replace", lambda a, b: full() if b == tmp_path / name else replaced(a, b))

    with pytest.raises(FileError, match=FULL) as failed:
        run_simulation(simulation(), 0.01, job={}, out=tmp_path)
    assert str(tmp_path / name) in str(failed.value)


def test_the_input_of_netgen_is_named(monkeypatch):
    """Name the temporary file that NetGen would read."""
    monkeypatch.setattr(np, "savez", full)

    with pytest.raises(FileError, match=r"surface\.npz cannot be written \(No space left on device\); set TMPDIR"):
        prepare._run_netgen(BALL.vertices, BALL.faces, 1.0, 10.0)


def test_standard_output_is_named(monkeypatch, capsys):
    """Name standard output where it is a file on the full disk."""
    monkeypatch.setattr(sys.stdout, "write", full)
    for module, name in ((sys, "unraisablehook"), (cli.warnings, "showwarning")):
        monkeypatch.setattr(module, name, getattr(module, name))  # main replaces them
    monkeypatch.setattr(sys, "argv", ["impinge", "scenes"])
    with pytest.raises(SystemExit) as stop:
        cli.main()

    assert stop.value.code == cli.BAD_INPUT
    assert capsys.readouterr().err == f"error: standard output: {FULL}\n"
