"""``impinge simulate``: frames on disk, killed and resumed with the same bytes, and refusals in a sentence."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_cli import assert_refused, environment, run

import impinge
from impinge.app import cli
from impinge.runs.simulation_run import SimulationRun, frames_in, run_simulation
from impinge.scenes import simulated
from interruption import strike

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
    """A run that nobody killed, in this process."""
    scene = impinge.read_scene(folder / "scene.toml")
    run_simulation(scene.simulation(), float(SECONDS), job={"scene": scene.digest()}, out=folder / "whole")
    return folder / "whole"


@pytest.fixture
def call(folder, monkeypatch, capsys):
    """Run the command in this process."""

    def do(*args: str | Path) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["impinge", "simulate", *map(str, args)])
        monkeypatch.setattr("warnings.showwarning", lambda *_: None)
        with pytest.raises(SystemExit) as stop:
            cli.main()
        shown = capsys.readouterr()
        return subprocess.CompletedProcess(args, stop.value.code or 0, shown.out, shown.err)

    return do


def content_of(folder: Path) -> dict[str, bytes]:
    """All files but the timings, which differ from run to run."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "timings.csv")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_frames_are_those_of_the_simulation(folder, whole):
    """Write where the bodies are, and the numbers of the reports."""
    simulation = impinge.read_scene(folder / "scene.toml").simulation()
    reports = [simulation.step() for _ in range(FRAMES)]
    bodies = np.load(whole / "bodies.npz")
    with (whole / "frames.csv").open() as file:
        rows = list(csv.DictReader(file))
    last = np.load(whole / "frames" / f"{FRAMES:06d}.npz")

    assert bodies["names"].tolist() == ["lower", "upper", "tool"]
    assert [float(row["kinetic"]) for row in rows] == [report.kinetic for report in reports]
    assert max(int(row["contacts"]) for row in rows) > 0
    for k, name in enumerate(simulation.world.names):
        surface = simulation.world.surface(name)
        np.testing.assert_array_equal(last[f"x_{k}"], surface.vertices)
        np.testing.assert_array_equal(bodies[f"faces_{k}"], surface.faces)
    assert len(list((whole / "frames").iterdir())) == FRAMES + 1


@pytest.mark.skipif(os.name == "nt", reason="signals differ there")
def test_killed_again_and_again(folder, whole, call, tmp_path):
    """Kill the command at several points; the next one goes on, and all bytes are those of a run without a kill."""
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
def test_whatever_a_kill_leaves(folder, whole, call, tmp_path, left):
    """Go on from every state of the folder that a kill may leave."""
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
    """Stop at Ctrl-C without a traceback, say that nothing is lost, and go on."""
    args = ["simulate", "scene.toml", "--seconds", SECONDS, "--out", str(tmp_path / "run")]
    struck = strike(tmp_path, *args, after=3, by=signal.SIGINT, cwd=folder, env=environment())
    done = call(*args[1:])

    assert struck.returncode == cli.INTERRUPTED
    assert struck.stderr == "what is done so far is kept; the same command goes on from there\n"
    assert "of an earlier run" in done.stdout
    assert content_of(tmp_path / "run") == content_of(whole)


def test_a_run_is_made_longer(folder, whole, call, tmp_path):
    """Go on with more seconds than at first; fewer change nothing."""
    for seconds in ("0.03", SECONDS, "0.01"):
        assert call("scene.toml", "--seconds", seconds, "--out", tmp_path / "run").returncode == cli.CLEAR

    assert content_of(tmp_path / "run") == content_of(whole)


def test_report_and_json(folder, whole, call, tmp_path):
    """Draw a report of a run that is there, and tell its numbers as JSON."""
    page = tmp_path / "report.html"
    done = call("scene.toml", "--seconds", SECONDS, "--out", whole, "--html", page)
    told = json.loads(call("scene.toml", "--seconds", SECONDS, "--out", whole, "--json").stdout)
    text = page.read_text()

    assert done.returncode == cli.CLEAR
    assert "Two soft cubes, one on the other" in done.stdout
    assert str(page) in done.stdout
    assert (told["frames"], told["resumed"]) == (FRAMES, FRAMES)
    assert text.count("image/webp") == 2
    assert text.count("image/png") == 2 + 3
    assert text.count("<svg") == 5
    assert "impinge simulate scene.toml" in text


def test_rate_is_held_by_shorter_frames(folder, call, tmp_path):
    """Simulate as long as was asked for, where frames are cut shorter to hold a rate; go on after the half."""
    (folder / "fast.toml").write_text(SCENE.replace("dt = 0.005", "dt = 0.005\ntarget_ms = 0.001"))
    for seconds in ("0.01", "0.015"):
        done = call("fast.toml", "--seconds", seconds, "--out", tmp_path / "run")
        assert done.returncode == cli.CLEAR
    with (tmp_path / "run" / "frames.csv").open() as file:
        rows = list(csv.DictReader(file))

    assert len(rows) > 10  # and not three: but for the first of each run, nothing is known of their cost then
    assert 0.015 <= float(rows[-1]["time"]) + 1e-9 < 0.021


def test_named_scene_without_a_folder(call):
    """Simulate a scene by its name, and leave nothing behind."""
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
        (["scene.toml", "--html", "missing/x.html"], ("x.html", "missing is no folder")),
        (["scene.toml", "--out", "scene.toml"], ("scene.toml", "written")),
        (["scene.toml", "--out", "."], ("holds other files",)),
        (["../outside.toml"], ("body[0].file is '../x.ply'", "below the folder")),
    ],
)
def test_refusals(folder, call, args, fragments):
    """Refuse before the work, in one sentence."""
    (folder.parent / "outside.toml").write_text('[[body]]\nfile = "../x.ply"\n')
    assert_refused(call(*args), *fragments)


def test_folder_of_another_run(folder, whole, call, tmp_path):
    """Refuse to go on with other bodies, or where frames are missing."""
    (folder / "other.toml").write_text(SCENE.replace("0.152", "0.153"))
    assert_refused(call("other.toml", "--out", whole), "holds a run on other bodies")
    scene = impinge.read_scene(folder / "scene.toml")
    run_simulation(scene.simulation(), 0.02, job={"scene": scene.digest()}, out=tmp_path / "run")
    (tmp_path / "run" / "frames" / "000002.npz").unlink()

    assert_refused(call("scene.toml", "--out", tmp_path / "run"), "000002.npz is missing", "start over")


def test_bad_frames_on_disk(whole, tmp_path):
    """Say which file cannot be read."""
    (tmp_path / "frames").mkdir()
    (tmp_path / "frames" / "000000.npz").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(impinge.FileError, match=r"000000\.npz cannot be read"):
        SimulationRun(tmp_path, ("a",), (np.zeros((0, 3), dtype=np.int32),), 0).positions(0)


@pytest.mark.skipif(os.name == "nt" or not hasattr(os, "geteuid"), reason="permissions differ there")
def test_where_it_may_not_write(folder, tmp_path):
    """Refuse a folder below one that may not be written to; the owner of the machine may write everywhere."""
    (tmp_path / "file").write_text("in the way")
    assert_refused(run("simulate", "scene.toml", "--out", tmp_path / "file" / "run", cwd=folder), "written")


def test_frames_in_a_time():
    """Count frames as people do, in spite of rounding."""
    assert [frames_in(seconds, 1.0 / 60.0) for seconds in (0.0, 1.0 / 60.0, 0.1, 5.0, 5.001)] == [0, 1, 6, 300, 301]


def test_report_numbers_frames_as_they_are(folder, whole, call, tmp_path):
    """Begin charts at frame 1, the first that was simulated, and state whether all searches were complete."""
    page = tmp_path / "report.html"
    call("scene.toml", "--seconds", SECONDS, "--out", whole, "--html", page)
    text = page.read_text()
    labels = re.findall(r'text-anchor="middle">([^<]*)<', text.split("</svg>")[0])

    assert "All searches were complete." in text
    assert "0" not in labels
    assert max(map(int, labels)) <= FRAMES
