"""``impinge simulate``: frames on disk, killed and resumed with equal bytes, and error messages."""

from __future__ import annotations

import base64
import csv
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import impinge
from command_line import assert_refused, environment, run
from impinge.app import cli
from impinge.runs.simulation_run import SimulationRun, frames_in, run_simulation
from impinge.scenes import simulated
from impinge.simulate.simulated_contacts import COLUMNS
from interruption import strike

pytestmark = pytest.mark.usefixtures("short_orbits")

SCENE = """
title = "Two soft cubes, one on the other"
[simulation]
ground = 0.0
dt = 0.005
[[body]]
name = "lower"
shape = { kind = "tet_box", nx = 1, ny = 1, nz = 1, size = 0.1 }
position = [0, 0, 0.0501]
soft = { material = "liver", embedding = "barycentric" }
[[body]]
name = "upper"
shape = { kind = "tet_box", nx = 1, ny = 1, nz = 1, size = 0.1 }
position = [0.02, 0.01, 0.152]
soft = { material = "liver", embedding = "rigid_links", velocity = [0, 0, -0.2] }
[[body]]
name = "tool"
shape = { kind = "box", size = 0.02 }
position = [0.3, 0.0, 0.1]
motion = { velocity = [-1, 0, 0] }
"""
FRAMES = 12
SECONDS = "0.06"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("scenes")
    (made / "scene.toml").write_text(SCENE)
    return made


@pytest.fixture(scope="module")
def whole(folder) -> Path:
    """An uninterrupted run in this process."""
    scene = impinge.read_scene(folder / "scene.toml")
    run_simulation(scene.simulation(), float(SECONDS), job={"scene": scene.digest()}, out=folder / "whole")
    return folder / "whole"


@pytest.fixture
def call(folder) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command in this process."""
    return partial(run, "simulate", cwd=folder)


def content_of(folder: Path) -> dict[str, bytes]:
    """All files except the timings, which vary."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "timings.csv")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_frames_are_those_of_the_simulation(folder, whole):
    """Write positions and report values of every frame."""
    simulation = impinge.read_scene(folder / "scene.toml").simulation()
    reports = [simulation.step() for _ in range(FRAMES)]
    bodies = np.load(whole / "bodies.npz")
    with (whole / "frames.csv").open() as file:
        rows = list(csv.DictReader(file))
    last = np.load(whole / "frames" / f"{FRAMES:06d}.npz")

    assert bodies["names"].tolist() == ["lower", "upper", "tool"]
    assert [float(row["kinetic"]) for row in rows] == [report.kinetic for report in reports]
    assert max(int(row["contacts"]) for row in rows) > 0
    assert [int(row["contacts"]) for row in rows] == [len(report.contacts) for report in reports]
    for name in (*simulation.world.names, "ground"):
        for k, axis in enumerate("xyz"):
            assert [float(row[f"force_{axis}:{name}"]) for row in rows] == [each.forces[name][k] for each in reports]
            if name != "ground":
                expected = [each.torques[name][k] for each in reports]
                assert [float(row[f"torque_{axis}:{name}"]) for row in rows] == expected
    for k, name in enumerate(simulation.world.names):
        surface = simulation.world.surface(name)
        np.testing.assert_array_equal(last[f"x_{k}"], surface.vertices)
        np.testing.assert_array_equal(bodies[f"faces_{k}"], surface.faces)
    assert len(list((whole / "frames").iterdir())) == FRAMES + 1


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals differ there")
def test_killed_again_and_again(folder, whole, call, tmp_path):
    """Kill the command at several points; the next one resumes, with the bytes of an uninterrupted run."""
    target = tmp_path / "run"
    args = ["simulate", "scene.toml", "--seconds", SECONDS, "--out", target]
    for after in (2, 3):
        struck = strike(tmp_path, *args, after=after, by=signal.SIGKILL, cwd=folder, env=environment())
        assert struck.returncode == -signal.SIGKILL
    kept = frames_there(target)
    done = call("scene.toml", "--seconds", SECONDS, "--out", target)

    assert 2 < kept < FRAMES + 1
    assert done.returncode == cli.CLEAR
    assert "of an earlier run" in done.stdout
    assert content_of(target) == content_of(whole)


def frames_there(target: Path) -> int:
    return len(list((target / "frames").glob("*.npz")))


@pytest.mark.parametrize("left", ["frame without its state", "no state", "a part of a file", "a cut line of timings"])
def test_resume_after_any_kill(folder, whole, call, tmp_path, left):
    """Resume from every state of the folder that a kill can leave."""
    target = tmp_path / "run"
    simulation = impinge.read_scene(folder / "scene.toml").simulation()
    job = {"scene": impinge.read_scene(folder / "scene.toml").digest()}
    if left == "no state":
        run_simulation(simulation, 0.0, job=job, out=target)
    else:
        run_simulation(simulation, 0.02, job=job, out=target)
    if left == "frame without its state":
        (target / "frames" / "000005.npz").write_bytes((whole / "frames" / "000005.npz").read_bytes())
    elif left == "a part of a file":
        (target / "frames" / "000005.npz.77.tmp").write_bytes(b"PK")
        (target / "state.npz.part").write_bytes(b"PK")
    elif left == "a cut line of timings":
        (target / "timings.csv").write_text("\n1,2.0\n2,2.5\n3")
    done = call("scene.toml", "--seconds", SECONDS, "--out", target)
    (target / "state.npz.part").unlink(missing_ok=True)

    assert done.returncode == cli.CLEAR
    assert content_of(target) == content_of(whole)


@pytest.mark.skipif(os.name == "nt", reason="signals differ there")
def test_interrupt(folder, whole, call, tmp_path):
    """Stop at SIGINT without a traceback, say that the same command goes on, and resume."""
    args = ["simulate", "scene.toml", "--seconds", SECONDS, "--out", str(tmp_path / "run")]
    struck = strike(tmp_path, *args, after=3, by=signal.SIGINT, cwd=folder, env=environment())
    done = call(*args[1:])

    assert struck.returncode == cli.INTERRUPTED
    assert struck.stderr == "stopped; run the same command to go on\n"
    assert "of an earlier run" in done.stdout
    assert content_of(tmp_path / "run") == content_of(whole)


def test_a_run_is_made_longer(folder, whole, call, tmp_path):
    """Extend a run by more seconds; fewer seconds change nothing."""
    for seconds in ("0.03", SECONDS, "0.01"):
        assert call("scene.toml", "--seconds", seconds, "--out", tmp_path / "run").returncode == cli.CLEAR

    assert content_of(tmp_path / "run") == content_of(whole)


def test_frames_hold_contacts_and_pressures(folder, whole):
    """Write the contacts of every frame, and the pressure on bodies in contact."""
    simulation = impinge.read_scene(folder / "scene.toml").simulation()
    report = [simulation.step() for _ in range(FRAMES)][-1]
    stored = run_simulation(
        impinge.read_scene(folder / "scene.toml").simulation(), float(SECONDS),
        job={"scene": impinge.read_scene(folder / "scene.toml").digest()}, out=whole,
    )  # fmt: skip
    arrays = stored.contacts(FRAMES)

    assert len(report.contacts) > 3
    assert set(arrays) == set(COLUMNS)
    for name, column in arrays.items():
        np.testing.assert_array_equal(column, getattr(report.contacts, name))
    for name, pressure in zip(stored.names, stored.pressure(FRAMES)):
        np.testing.assert_array_equal(pressure, report.pressure[name])
        assert stored.table()[f"pressure:{name}"][-1] == pressure.max()
    assert stored.contacts(0) == {}
    assert not any(each.any() for each in stored.pressure(0))
    assert "pressure_2" not in np.load(whole / "frames" / f"{FRAMES:06d}.npz")  # the tool touches nothing


def test_report_and_json(folder, whole, call, tmp_path):
    """Write a report of an existing run, and print its numbers as JSON."""
    page = tmp_path / "report.html"
    done = call("scene.toml", "--seconds", SECONDS, "--out", whole, "--html", page)
    summary = json.loads(call("scene.toml", "--seconds", SECONDS, "--out", whole, "--json").stdout)
    text = page.read_text()

    assert done.returncode == cli.CLEAR
    assert "Two soft cubes, one on the other" in done.stdout
    assert str(page) in done.stdout
    assert (summary["frames"], summary["resumed"]) == (FRAMES, FRAMES)
    assert text.count("image/webp") == 1 + 1  # the recording, and the pressure from all sides
    assert text.count("image/png") == 3 + 3
    assert text.count("data:image/svg+xml;base64,") == 5 + 3 + 2  # forces with the ground, torques
    assert "impinge simulate scene.toml" in text
    assert "contact pressure, at most" in text
    assert "N on " in done.stdout


def test_rate_is_held_by_shorter_frames(folder, call, tmp_path):
    """Simulate the full time with frames shortened by the frame-rate controller; resume after the first part."""
    (folder / "fast.toml").write_text(SCENE.replace("dt = 0.005", "dt = 0.005\ntarget_ms = 0.001"))
    for seconds in ("0.01", "0.015"):
        done = call("fast.toml", "--seconds", seconds, "--out", tmp_path / "run")
        assert done.returncode == cli.CLEAR
    with (tmp_path / "run" / "frames.csv").open() as file:
        rows = list(csv.DictReader(file))

    assert len(rows) > 10  # and not three: but for the first of each run, nothing is known of their cost then
    assert 0.015 <= float(rows[-1]["time"]) + 1e-9 < 0.021


def test_warnings_of_frames_are_shown(folder, call, tmp_path):
    """Count inverted tets and warnings in the table, and quote the first one: a collapsing body is no silent result."""
    soft = '{ youngs_modulus = 10.0, poisson_ratio = 0.3, density = 1000.0, embedding = "barycentric" }'
    shape = '{ kind = "tet_box", nx = 2, ny = 2, nz = 2, size = 0.1 }'
    scene = (
        f'[simulation]\nground = 0.0\n[[body]]\nname = "mud"\nshape = {shape}\nposition = [0, 0, 0.06]\nsoft = {soft}\n'
    )
    (folder / "mud.toml").write_text(scene)
    done = call("mud.toml", "--seconds", "0.5", "--out", tmp_path / "run")
    with (tmp_path / "run" / "frames.csv").open() as file:
        rows = list(csv.DictReader(file))

    assert done.returncode == cli.CLEAR
    words = " ".join(done.stdout.split())
    assert "warnings" in words
    assert re.search(r"in \d+ frames; the first, in frame \d+: .*'mud'", words)
    assert any(int(row["inverted"]) for row in rows)
    assert any(int(row["warnings"]) for row in rows)


def test_named_scene_without_a_folder(call):
    """Simulate a named scene without output files."""
    done = call("plates_b", "--scale", "0.25", "--seconds", "0.02")

    assert done.returncode == cli.CLEAR
    assert simulated.get("plates_b").title in done.stdout
    assert "frames                2" in done.stdout


@pytest.mark.parametrize(
    ("args", "fragments"),
    [
        (["two_liver"], ("no simulation 'two_liver'", "did you mean two_livers")),
        (["none.toml"], ("none.toml cannot be read", "No such file")),
        (["scene.toml", "--seconds", "nan"], ("seconds is nan", "a number from 0")),
        (["scene.toml", "--seconds", "1e300"], ("seconds is 1e+300",)),
        (["scene.toml", "--seconds", "-1"], ("seconds is -1",)),
        (["plates_b", "--scale", "nan"], ("scale is nan",)),
        (["scene.toml", "--scale", "2"], ("--scale", "in the scene file")),
        (["scene.toml", "--html", "missing/x.html"], ("x.html", "missing is not a directory")),
        (["scene.toml", "--out", "scene.toml"], ("scene.toml", "written")),
        (["scene.toml", "--out", "."], ("holds other files",)),
        (["../outside.toml"], ("body[0].file is '../x.ply'", "below the folder")),
    ],
)
def test_bad_input(folder, call, args, fragments):
    """Reject bad input before the simulation, with one sentence."""
    (folder.parent / "outside.toml").write_text('[[body]]\nfile = "../x.ply"\n')
    assert_refused(call(*args), *fragments)


def test_options_replace_those_of_the_scene(call):
    """Step implicitly, with another response and budget, and refuse unknown words."""
    options = ["--scale", "0.02", "--seconds", "0.05"]
    done = call("two_bunnies", *options, "--integrator", "implicit", "--response", "volume")
    assert done.returncode == 0
    assert "frames with contacts" in done.stdout
    short = call("two_bunnies", *options, "--response", "spheres", "--max-tests", "10", "--json")
    assert short.returncode == 0
    wrong = call("two_bunnies", *options, "--integrator", "euler")
    assert wrong.returncode == 2
    assert "integrator is 'euler', expected one of 'implicit', 'midpoint', 'explicit'" in wrong.stderr


def test_folder_of_another_run(folder, whole, call, tmp_path):
    """Reject a folder of other bodies, or with missing frames."""
    (folder / "other.toml").write_text(SCENE.replace("0.152", "0.153"))
    assert_refused(call("other.toml", "--out", whole), "holds a run on other bodies")
    scene = impinge.read_scene(folder / "scene.toml")
    run_simulation(scene.simulation(), 0.02, job={"scene": scene.digest()}, out=tmp_path / "run")
    (tmp_path / "run" / "frames" / "000002.npz").unlink()

    assert_refused(call("scene.toml", "--out", tmp_path / "run"), "000002.npz is missing", "start over")


def test_bad_frames_on_disk(whole, tmp_path):
    """Name the file that cannot be read."""
    (tmp_path / "frames").mkdir()
    (tmp_path / "frames" / "000000.npz").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(impinge.FileError, match=r"000000\.npz cannot be read"):
        SimulationRun(tmp_path, ("a",), (np.zeros((0, 3), dtype=np.int32),), 0).positions(0)


@pytest.mark.skipif(os.name == "nt" or not hasattr(os, "geteuid"), reason="permissions differ there")
def test_where_it_may_not_write(folder, tmp_path):
    """Reject a folder that cannot be created."""
    (tmp_path / "file").write_text("in the way")
    assert_refused(run("simulate", "scene.toml", "--out", tmp_path / "file" / "run", cwd=folder), "written")


def test_frames_in_a_time():
    """Count frames despite rounding errors."""
    assert [frames_in(seconds, 1.0 / 60.0) for seconds in (0.0, 1.0 / 60.0, 0.1, 5.0, 5.001)] == [0, 1, 6, 300, 301]


def test_report_numbers_frames_as_they_are(folder, whole, call, tmp_path):
    """Begin charts at frame 1, the first that was simulated, and state whether all searches were complete."""
    page = tmp_path / "report.html"
    call("scene.toml", "--seconds", SECONDS, "--out", whole, "--html", page)
    text = page.read_text()
    chart = base64.b64decode(re.search(r"data:image/svg\+xml;base64,([^\"]*)", text)[1]).decode()
    x_labels = re.findall(r"text-anchor: middle[^>]*>(\d+)<", chart)

    assert "All searches were complete." in text
    assert "0" not in x_labels
    assert 1 < max(map(int, x_labels)) <= FRAMES
