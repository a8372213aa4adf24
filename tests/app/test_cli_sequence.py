"""``impinge sequence`` and ``impinge clash``: results, output files, and runs killed at any point."""

from __future__ import annotations

import csv
import io
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
from test_cli import STRANGE_NAME

import impinge
from command_line import assert_refused, environment, run, run_process
from dask_cluster import PLAIN, cluster
from impinge import shapes
from impinge.app import cli
from impinge.app.commands.runs import PRINTED
from impinge.deform.waves import Wave
from interruption import strike

pytest.importorskip("pyarrow", reason="pyarrow is not installed; pip install 'impinge[cluster]'")
pytestmark = pytest.mark.usefixtures("short_orbits")

FRAMES = 12
MANY = 640
"""Frames of the run that is killed; 32 parts."""


def frame(ball: impinge.TriMesh, i: int) -> np.ndarray:
    """Waves, and a translation in and out of the other body."""
    return Wave(0.15, 3.0)(ball.vertices, 0.1 * i) + np.array([0.9 * np.sin(0.13 * i) - 0.2, 0.0, 0.0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Bodies, a few frames as files, many as an archive, and parts."""
    made = tmp_path_factory.mktemp("sequence")
    ball = shapes.icosphere(2)
    impinge.save(ball, made / "a.ply")
    impinge.save(impinge.TriMesh(ball.vertices + np.array([1.7, 0.2, 0.1]), ball.faces), made / "b.ply")
    impinge.save(impinge.TriMesh(ball.vertices + 50.0, ball.faces), made / "far.ply")
    (made / "frames").mkdir()
    for i in range(FRAMES):
        impinge.save(impinge.TriMesh(frame(ball, i), ball.faces), made / "frames" / f"f{i}.ply")
    np.savez(made / "many.npz", V=np.stack([frame(ball, i) for i in range(MANY)]), F=ball.faces)
    (made / "parts").mkdir()
    for i in range(3):
        x = 0.6 * ball.vertices + np.array([0.9 * i, 0.07 * i, 0.05 * i])
        impinge.save(impinge.TriMesh(x, ball.faces), made / "parts" / f"part{i}.ply")
    return made


@pytest.fixture
def call(folder) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command line in this process."""
    return partial(run, cwd=folder)


def parts_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.parquet"))}


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def is_complete(folder: Path) -> bool:
    return json.loads((folder / "manifest.json").read_text())["state"] == "complete"


# sequence ---------------------------------------------------------------------------------------------


def test_sequence_prints_its_result(folder, call, tmp_path):
    """Print totals; exit with 1 if a frame collides, with 0 otherwise."""
    done = run_process("sequence", "a.ply", "frames/*.ply", "--against", "b.ply", "--out", tmp_path / "run", cwd=folder)
    clear = call("sequence", "a.ply", "frames", "--against", "far.ply")
    lines = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in done.stdout.splitlines())
    found = impinge.runs.map_frames(folder / "a.ply", folder / "frames", folder / "b.ply")

    assert (done.returncode, done.stderr) == (cli.COLLIDING, "")
    assert lines["frames"] == str(FRAMES)
    assert int(lines["contacts"]) == found.totals["contacts"] > 0
    assert 0 < int(lines["colliding"]) <= FRAMES
    assert lines["results"] == str(tmp_path / "run")
    assert is_complete(tmp_path / "run")
    assert (clear.returncode, clear.stderr) == (cli.CLEAR, "")


def test_sequence_with_itself(folder, call):
    """Test self-collision without another body, and with --self."""
    alone = call("sequence", "a.ply", "frames", "--json", cwd=folder)
    both = json.loads(call("sequence", "a.ply", "frames", "--against", "b.ply", "--self", "--json", cwd=folder).stdout)

    assert alone.returncode == cli.CLEAR
    assert json.loads(alone.stdout) == {
        "frames": FRAMES, "colliding": 0, "contacts": 0, "self_contacts": 0, "bad": 0, "found": [], "not_used": [],
    }  # fmt: skip
    assert both["contacts"] > 0
    assert both["found"][0][2] >= both["found"][-1][2] > 0


def test_sequence_of_a_body_inside_another(folder, call, tmp_path):
    """Say why frames collide in which no triangles intersect."""
    ball = shapes.icosphere(2)
    impinge.save(impinge.TriMesh(5.0 * ball.vertices, ball.faces), tmp_path / "outer.ply")
    done = call(
        "sequence", "a.ply", "frames", "--against", tmp_path / "outer.ply", "--html", tmp_path / "report.html",
    )  # fmt: skip
    lines = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in done.stdout.splitlines())
    page = (tmp_path / "report.html").read_text()

    assert (lines["colliding"], lines["contacts"]) == (str(FRAMES), "0")
    assert lines["one inside the other"] == f"{FRAMES} frames"
    assert f"{FRAMES} frames collide, with one body inside the other and no triangles that intersect." in page


def test_sequence_to_one_file(folder, call, tmp_path):
    """Write one csv or npz file with the content of the folder, and remove the parts."""
    for name in ("found.csv", "found.npz"):
        assert (
            call("sequence", "a.ply", "frames", "--against", "b.ply", "--out", tmp_path / name, cwd=folder).returncode
            == cli.COLLIDING
        )
    expected = impinge.runs.map_frames(folder / "a.ply", folder / "frames", folder / "b.ply")
    with (tmp_path / "found.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    contacts = expected.contacts()
    with np.load(tmp_path / "found.npz") as archive:
        pairs = np.column_stack([contacts.column("triangle_a"), contacts.column("triangle_b")])

        np.testing.assert_array_equal(archive["contact_pair"], pairs)
        np.testing.assert_array_equal(archive["contact_frame"], contacts.column("frame"))
        assert archive["name"].tolist() == [row["name"] for row in rows]
    assert [int(row["contacts"]) for row in rows] == expected.frames().column("contacts").to_pylist()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["found.csv", "found.npz"]


def test_sequence_with_a_bad_frame(folder, call, tmp_path):
    """Continue after a bad frame and name it; without contacts, exit with 2 instead of 0."""
    (tmp_path / "frames").mkdir()
    for name in ("f0.ply", "f1.ply"):
        (tmp_path / "frames" / name).write_bytes((folder / "frames" / name).read_bytes())
    (tmp_path / "frames" / "f10.ply").write_bytes(b"")
    colliding = call("sequence", folder / "a.ply", "frames", "--against", folder / "b.ply", cwd=tmp_path)
    unsure = call("sequence", folder / "a.ply", "frames", "--against", folder / "far.ply", cwd=tmp_path)

    assert (colliding.returncode, unsure.returncode) == (cli.COLLIDING, cli.BAD_INPUT)
    for done in (colliding, unsure):
        assert done.stderr.startswith("warning: 1 of 3 frames could not be used; the first is f10.ply: ")
        assert "is empty, expected a .ply mesh" in done.stderr
        assert done.stderr.count("\n") == 1


def test_sequence_report(folder, call, tmp_path):
    """Write one self-contained html file with a chart, pictures and the command."""
    (tmp_path / "frames").mkdir()
    (tmp_path / "frames" / STRANGE_NAME.replace("a [red]", "<b>&")).write_bytes(
        (folder / "frames" / "f3.ply").read_bytes()
    )
    (tmp_path / "frames" / "<i>bad.ply").write_bytes(b"")
    done = call(
        "sequence", folder / "a.ply", "frames", "--against", folder / "b.ply", "--html", "report.html", cwd=tmp_path
    )
    page = (tmp_path / "report.html").read_text(encoding="utf-8")

    assert done.returncode == cli.COLLIDING
    assert done.stdout.splitlines()[-1].split() == ["report", "report.html"]
    assert "<h1>1 of 2 frames collide</h1>" in page
    assert page.count("data:image/svg+xml;base64,") == 1
    assert page.count("data:image/png;base64,") == 3
    assert page.count("data:image/webp;base64,") == 1
    assert "Command" in page
    assert "impinge sequence" in page
    assert "&lt;b&gt;&amp;" in page
    assert "&lt;i&gt;bad.ply" in page
    assert not re.search(r'(src|href)="(?!data:)', page)
    assert "<i>" not in page


@pytest.mark.parametrize(
    ("args", "fragments"),
    [
        (["missing.ply", "frames"], ["missing.ply does not exist"]),
        (["a.ply", "nowhere/*.ply"], ["nowhere/*.ply names no mesh files"]),
        (["a.ply", "frames", "--against", "nothing.obj"], ["nothing.obj does not exist"]),
        (
            ["a.ply", "frames", "--html", "nowhere/r.html"],
            ["the report could not be written", "nowhere is not a directory"],
        ),
        (["a.ply", "frames", "--out", "nowhere/x.csv"], ["nowhere is not a folder"]),
        (["a.ply", "frames", "--out", "frames"], ["frames holds other files", "choose an empty folder"]),
        (["a.ply", "frames", "--out", "a.ply"], ["a.ply cannot be written"]),
        (["a.ply", "frames", "--against-frames", "frames"], ["without the body that they move"]),
        (["a.ply", "frames", "--against", "b.ply", "--against-frames", "b.ply"], ["12 frames, but 1 against_frames"]),
        (["a.ply", "frames", "--scheduler", "nonsense://x"], ["the scheduler is 'nonsense://x', expected an address"]),
        (["a.ply", "frames", "--scheduler", "tcp://127.0.0.1:9", "--workers", "2"], ["both a scheduler and workers"]),
    ],
    ids=lambda value: " ".join(value) if value[0] != "error" else "",
)
def test_sequence_rejects(folder, call, args, fragments):
    """Reject bad input with one sentence and exit code 2."""
    assert_refused(call("sequence", *args, cwd=folder), *fragments)


def test_sequence_where_it_may_not_write(folder, tmp_path):
    """Report a folder without write permission."""
    (tmp_path / "protected").mkdir(mode=0o500)
    if os.access(tmp_path / "protected", os.W_OK):
        pytest.skip("this user may write everywhere")

    assert_refused(run("sequence", "a.ply", "frames", "--out", tmp_path / "protected" / "run", cwd=folder), "written")


# killed -----------------------------------------------------------------------------------------------


def kill_in_mid_run(folder: Path, target: Path, *args: str, after: int) -> None:
    """Kill the client after some more parts, before the end."""
    run_of = ["sequence", "a.ply", "many.npz", "--against", "b.ply", "--out", target]
    done = strike(target.parent, *run_of, *args, after=after, by=signal.SIGKILL, cwd=folder, env=environment())

    assert done.returncode == -signal.SIGKILL
    assert not is_complete(target)


@pytest.fixture(scope="module")
def whole(folder, tmp_path_factory) -> Path:
    """An uninterrupted run."""
    target = tmp_path_factory.mktemp("whole") / "run"
    impinge.runs.map_frames(folder / "a.ply", folder / "many.npz", folder / "b.ply", out=target, workers=0)
    return target


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals differ there")
def test_killed_again_and_again(folder, call, whole, tmp_path):
    """Kill the command at several points; the next one repeats and loses nothing, and ends with equal bytes."""
    target, stamps = tmp_path / "run", dict[Path, int]()
    for after in (1, 15):
        kill_in_mid_run(folder, target, after=after)
        assert stamps == {path: path.stat().st_mtime_ns for path in stamps}
        stamps = {path: path.stat().st_mtime_ns for path in (target / "frames").glob("*.parquet")}
    done = call("sequence", "a.ply", "many.npz", "--against", "b.ply", "--out", target)

    assert done.returncode == cli.COLLIDING
    assert f"640, {20 * len(stamps)} of an earlier run" in done.stdout
    assert stamps == {path: path.stat().st_mtime_ns for path in stamps}
    assert parts_of(target) == parts_of(whole)
    assert is_complete(target)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals differ there")
def test_client_of_a_cluster_is_killed(folder, whole, tmp_path):
    """Kill the client of a real scheduler, and resume with the same workers."""
    pytest.importorskip("distributed", reason="dask is not installed; pip install 'impinge[cluster]'")
    (tmp_path / "dask").mkdir()
    with cluster(tmp_path / "dask", PLAIN, PLAIN) as dask:
        kill_in_mid_run(folder, tmp_path / "run", "--scheduler", dask.address, after=1)
        done = run_process(
            "sequence", "a.ply", "many.npz", "--against", "b.ply", "--out", tmp_path / "run", "--scheduler",
            dask.address, cwd=folder,
        )  # fmt: skip

    assert (done.returncode, done.stderr) == (cli.COLLIDING, "")
    assert "of an earlier run" in done.stdout
    assert parts_of(tmp_path / "run") == parts_of(whole)


@pytest.mark.skipif(os.name == "nt", reason="signals differ there")
@pytest.mark.parametrize("workers", ["0", pytest.param("1", marks=pytest.mark.slow)])
def test_interrupt(folder, call, whole, tmp_path, workers):
    """Stop at SIGINT to the process group without a traceback, say that the same command goes on, and resume."""
    args = ["sequence", "a.ply", "many.npz", "--against", "b.ply", "--out", str(tmp_path / "run")]
    struck = strike(
        tmp_path, *args, "--workers", workers, after=2, by=signal.SIGINT, cwd=folder, env=environment()
    )  # fmt: skip
    done = call(*args)

    assert struck.returncode == cli.INTERRUPTED
    assert struck.stderr == "stopped; run the same command to go on\n"
    assert "of an earlier run" in done.stdout
    assert parts_of(tmp_path / "run") == parts_of(whole)


@pytest.mark.parametrize("place", ["runs.store.write_whole", "runs.reports.write_bytes", "view.report.Page.write"])
@pytest.mark.parametrize("args", [["sequence", "a.ply", "frames", "--against", "b.ply"], ["clash", "parts"]])
def test_interrupt_at_any_place(folder, call, tmp_path, monkeypatch, args, place):
    """Say after Ctrl-C in the run, in the report and in the table that the same command goes on, and exit with 130."""
    whole = [*args, "--out", tmp_path / "found.csv", "--html", tmp_path / "found.html"]
    with monkeypatch.context() as patch:
        patch.setattr(f"impinge.{place}", interrupt)
        stopped = call(*whole)
    done = call(*whole)

    assert (stopped.returncode, stopped.stderr) == (cli.INTERRUPTED, "stopped; run the same command to go on\n")
    assert done.returncode == cli.COLLIDING


def test_interrupt_without_a_folder(call, monkeypatch):
    """Say after Ctrl-C that nothing is kept without --out."""
    monkeypatch.setattr("impinge.runs.store.write_whole", interrupt)
    stopped = call("clash", "parts")

    assert (stopped.returncode, stopped.stderr) == (cli.INTERRUPTED, "stopped; nothing is kept without --out\n")


# clash ------------------------------------------------------------------------------------------------


def test_clash_prints_its_result(folder, tmp_path):
    """Print colliding pairs with volume and depth, and write a table and a report."""
    done = run("clash", "parts", "--out", tmp_path / "c.csv", "--html", tmp_path / "c.html", cwd=folder)
    page = (tmp_path / "c.html").read_text(encoding="utf-8")
    with (tmp_path / "c.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))

    assert (done.returncode, done.stderr) == (cli.COLLIDING, "")
    assert re.search(
        r"^  part0.ply and part1.ply  overlapping, \d+ contacts, volume 0\.\d+, depth 0\.\d+$", done.stdout, re.M
    )
    assert [(row["name_a"], row["name_b"]) for row in rows] == [("part0.ply", "part1.ply"), ("part1.ply", "part2.ply")]
    assert "<h1>2 pairs of 3 parts collide</h1>" in page
    assert page.count("data:image/svg+xml;base64,") == 1
    assert page.count("data:image/png;base64,") == 3 + 1


def test_clash_of_a_scene_file(folder, call, tmp_path):
    """Read posed parts from a scene file; reject an invalid one."""
    (tmp_path / "ball.ply").write_bytes((folder / "a.ply").read_bytes())
    bodies = "".join(
        f'[[body]]\nname = "{name}"\nfile = "ball.ply"\nposition = [{x}, 0.1, 0.0]\n'
        for name, x in (("left", 0.0), ("right", 1.5), ("far", 9.0))
    )
    (tmp_path / "scene.toml").write_text(bodies)
    (tmp_path / "wrong.toml").write_text('[[body]]\nfile = "../ball.ply"\n')
    done = call("clash", tmp_path / "scene.toml", "--json")
    found = json.loads(done.stdout)

    assert done.returncode == cli.COLLIDING
    assert [(row["name_a"], row["name_b"], row["relation"]) for row in found["found"]] == [
        ("left", "right", "overlapping")
    ]
    assert found["found"][0]["volume"] > 0.0
    assert found["parts"] == 3
    assert_refused(call("clash", tmp_path / "wrong.toml"), "wrong.toml", "file")
    assert_refused(call("clash", tmp_path / "missing.toml"), "missing.toml")


def test_progress_bar():
    """Show frames per second, contacts and workers on a terminal, and nothing otherwise."""
    from rich.console import Console

    from impinge.runs.frames import Progress
    from impinge.runs.reports import progress_bar

    shown = {}
    for is_terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=is_terminal, width=200)
        with progress_bar(console, "frames") as tell:
            tell(Progress(done=30, total=90, contacts=12345, bad=2, workers=3, resumed=10))
        shown[is_terminal] = console.file.getvalue()

    assert "30/90" in shown[True]
    assert re.search(r"\d+\.\d frames/s", shown[True])
    assert "12,345 contacts, 2 bad, 3 workers" in shown[True]
    assert shown[False].strip() == ""


def test_clash_of_disjoint_parts(folder, call, tmp_path):
    """Exit with 0 for disjoint parts, as text, JSON and files."""
    for name in ("a.ply", "far.ply"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    done = call("clash", tmp_path, "--json")
    files = [call("clash", tmp_path, "--out", folder / name).returncode for name in ("none.csv", "none.npz")]
    call("clash", "parts", "--out", folder / "some.npz", cwd=folder)

    assert done.returncode == cli.CLEAR
    assert json.loads(done.stdout)["near"] == 0
    assert files == [cli.CLEAR, cli.CLEAR]
    assert (folder / "none.csv").read_text().startswith("a,b,name_a,")
    with np.load(folder / "none.npz") as none, np.load(folder / "some.npz") as some:
        assert (len(none["a"]), len(some["a"])) == (0, 2)
        assert some["collides"].all()
        assert (some["volume"] > 0.0).all()


def test_clash_refuses(folder, call, tmp_path):
    """Refuse a path that is not a folder of parts."""
    assert_refused(call("clash", folder / "missing"), "missing is not a folder")
    assert_refused(call("clash", tmp_path), "holds 0 parts, expected at least two")


def test_sequence_report_begins_with_what_is_certain(folder, call, tmp_path):
    """State result and certainty, name both bodies, and warn of unusable frames."""
    frames = tmp_path / "frames"
    frames.mkdir()
    (frames / "f0.ply").write_bytes((folder / "frames" / "f3.ply").read_bytes())
    pages = []
    for bad in (False, True):
        if bad:
            (frames / "f1.ply").write_bytes(b"")
        call("sequence", folder / "a.ply", "frames", "--against", folder / "b.ply", "--html", "r.html", cwd=tmp_path)
        pages.append((tmp_path / "r.html").read_text(encoding="utf-8"))

    assert '<p class="verdict hit">1 frame collides. This is certain: every pair of triangles was decided' in pages[0]
    assert '<p class="verdict unsure">1 frame collides. 1 frame could not be read and is excluded' in pages[1]
    assert "a.ply: 320 triangles" in pages[0]
    assert "b.ply: 320 triangles" in pages[0]


def test_clash_report_names_relations(call, tmp_path):
    """Name the inner part, show the worst pair from all sides, and colour zeros of the matrix."""
    (tmp_path / "parts").mkdir()
    impinge.save(shapes.box(4.0), tmp_path / "parts" / "case.ply")
    impinge.save(shapes.icosphere(1), tmp_path / "parts" / "pearl.ply")
    done = call("clash", "parts", "--html", "report.html", cwd=tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")

    assert done.returncode == cli.COLLIDING
    assert "b in a, 0 contacts, volume" in done.stdout
    assert "<h1>1 pair of 2 parts collides</h1>" in page
    assert "1 pair collides, with one body inside the other and no triangles that intersect. This is certain" in page
    assert "pearl.ply is inside case.ply" in page
    assert "one is inside the other" in page
    assert page.count("data:image/png;base64,") == 3
    assert page.count("data:image/webp;base64,") == 1


def test_clash_prints_a_limited_list(call, tmp_path):
    """Print a limited number of pairs and the number of the others; list all in JSON."""
    (tmp_path / "parts").mkdir()
    for k in range(11):
        impinge.save(shapes.box(1.0 + 0.01 * k), tmp_path / "parts" / f"part{k:02d}.ply")
    done = call("clash", "parts", "--workers", "0", cwd=tmp_path)
    as_json = call("clash", "parts", "--workers", "0", "--json", cwd=tmp_path)
    pairs = 11 * 10 // 2

    assert len(json.loads(as_json.stdout)["found"]) == pairs
    assert len(re.findall(r"^  part\d+.ply and part\d+.ply ", done.stdout, re.M)) == PRINTED
    assert f"{pairs - PRINTED} pairs; --out, --html and --json list all" in done.stdout


def test_progress_bar_of_a_narrow_terminal():
    """Shorten the bar, not the numbers, at 80 columns."""
    from rich.console import Console

    from impinge.runs.frames import Progress
    from impinge.runs.reports import progress_bar

    console = Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)
    with progress_bar(console, "frames") as tell:
        tell(Progress(done=12_000, total=250_000, contacts=1_234_567, bad=0, workers=8, resumed=12_000))

    assert "12000/250000 0.0 frames/s 1,234,567 contacts, 8 workers" in console.file.getvalue()
