"""Every command on good, bad and hostile input: documented exit codes, no traceback."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import impinge
from command_line import run
from command_server import CommandServer, needs_fork
from impinge.app import cli
from shared_data import FOLDER, needs_data

NASTY = sorted(path.name for path in (FOLDER / "nasty").glob("*.*")) if (FOLDER / "nasty").is_dir() else []
HUGE = "9" * 400
"""A number larger than any machine word."""


@pytest.fixture(scope="module")
def commands() -> Iterator[CommandServer]:
    with CommandServer() as server:
        yield server


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Meshes, frames and scene files, good and bad."""
    made = tmp_path_factory.mktemp("hostile")
    ball = impinge.shapes.icosphere(2)
    impinge.save(ball, made / "ball.ply")
    impinge.save(impinge.shapes.icosphere(2, center=(0.5, 0.3, 0.1)), made / "other.ply")
    impinge.save(impinge.TriMesh(ball.vertices * 1e300, ball.faces), made / "giant.obj")
    impinge.save(impinge.TriMesh(ball.vertices * 1e-300, ball.faces), made / "dwarf.obj")
    np.savez(made / "frames.npz", V=np.stack([ball.vertices, ball.vertices + 0.1]), F=ball.faces)
    np.savez(made / "objects.npz", V=np.array([{"run": "code"}], dtype=object), F=ball.faces, allow_pickle=True)
    (made / "parts").mkdir()
    for name in ("ball.ply", "other.ply", "giant.obj"):
        shutil.copy(made / name, made / "parts" / name)
    (made / "scene.toml").write_text('[[body]]\nfile = "ball.ply"\n[[body]]\nfile = "other.ply"\n')
    (made / "traversal.toml").write_text('[[body]]\nfile = "../../../../etc/passwd"\n')
    (made / "bomb.toml").write_text('[[body]]\nshape = { kind = "icosphere", subdivisions = 30 }\n')
    (made / "code.toml").write_text("[[body]]\nshape = \"__import__('os').system('true')\"\n")
    (made / "empty").mkdir()
    (made / "loop.ply").symlink_to(made / "loop.ply")
    return made


def ask(*args: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command; assert that its exit code is documented and an error is expected by the program."""
    done = run(*args, cwd=cwd)
    assert done.returncode in (cli.CLEAR, cli.COLLIDING, cli.BAD_INPUT)
    assert "error: unexpected" not in done.stderr
    assert done.returncode != cli.BAD_INPUT or done.stderr
    return done


GOOD = [
    (["check", "ball.ply", "other.ply", "--json"], cli.COLLIDING, "overlapping"),
    (["check", "giant.obj", "ball.ply"], cli.COLLIDING, "b in a"),
    (["check", "dwarf.obj", "ball.ply"], cli.COLLIDING, "a in b"),
    (["validate", "giant.obj"], cli.CLEAR, "clean"),
    (["sequence", "ball.ply", "frames.npz", "--against", "other.ply", "--workers", "0"], cli.COLLIDING, "colliding"),
    (["clash", "parts", "--workers", "0"], cli.COLLIDING, "near pairs"),
    (["simulate", "scene.toml", "--seconds", "0"], cli.CLEAR, "frames"),
    (["scenes"], cli.CLEAR, "two_livers"),
    (["info", "--json"], cli.CLEAR, "extras"),
    (["--version"], cli.CLEAR, "impinge"),
]


@pytest.mark.parametrize(("args", "code", "output"), GOOD, ids=lambda each: each[0] if isinstance(each, list) else "")
def test_good_input(folder, args, code, output):
    """Print a result, and exit with the documented code."""
    done = ask(*args, cwd=folder)

    assert done.returncode == code
    assert output in done.stdout
    assert "error" not in done.stderr


BAD = [
    *(
        ["check", "ball.ply", bad]
        for bad in ("none.ply", "empty", "scene.toml", "loop.ply", "", "\\u0000", "/dev/null")
    ),
    ["check", "ball.ply", "other.ply", "--method", "magic"],
    ["check", "ball.ply", "other.ply", "--out", "pairs.exe"],
    ["check", "ball.ply", "other.ply", "--out", "ball.ply/pairs.csv"],
    ["check", "ball.ply", "other.ply", "--html", "empty"],
    ["check", "ball.ply", "other.ply", "--picture", "none/x.png"],
    ["validate", "frames.npz"],
    ["validate", "x" * 5000],
    ["sequence", "ball.ply", "none/*.ply"],
    ["sequence", "ball.ply", "objects.npz", "--workers", "0"],
    ["sequence", "ball.ply", "frames.npz", "--against", "none.ply"],
    ["sequence", "ball.ply", "frames.npz", "--workers", "-1"],
    ["sequence", "ball.ply", "frames.npz", "--workers", HUGE],
    ["sequence", "ball.ply", "frames.npz", "--workers", "1000000"],
    ["sequence", "ball.ply", "frames.npz", "--scheduler", "nonsense"],
    ["sequence", "ball.ply", "frames.npz", "--out", "empty/../ball.ply"],
    ["clash", "none"],
    ["clash", "empty"],
    ["clash", "parts", "--resolution", HUGE],
    ["clash", "parts", "--resolution", "2.5"],
    ["simulate"],
    ["simulate", "nonsense"],
    ["simulate", "none.toml"],
    ["simulate", "ball.ply"],
    ["simulate", "traversal.toml"],
    ["simulate", "bomb.toml"],
    ["simulate", "code.toml"],
    ["simulate", "scene.toml", "--seconds", "inf"],
    ["simulate", "scene.toml", "--seconds", HUGE],
    ["simulate", "scene.toml", "--seconds", "long"],
    ["simulate", "scene.toml", "--seconds", "0", "--out", "parts"],
    ["simulate", "two_livers", "--scale", "-1"],
    ["simulate", "two_livers", "--scale", "1e300"],
    ["live", "nonsense"],
    ["live", "traversal.toml"],
    ["live", "code.toml"],
    ["live", "--port", HUGE],
    ["live", "--port", "70000"],
    ["live", "--method", "magic"],
    ["live", "--host", "not a host"],
    ["live", "--record", "none/x.html"],
    ["live", "bulls", "--scale", HUGE],
    ["live", "two_livers", "--scale", "0.5"],
    ["live", "scene.toml", "--scale", "0.5"],
    ["live", "crossed_tets", "--simulate"],
    ["live", "--record", "x.html", "--seconds", "1e9"],
    ["demo", "ball.ply"],
    ["info", "too", "many"],
    ["--nonsense"],
    ["frobnicate"],
]


@pytest.mark.parametrize("args", BAD, ids=lambda args: " ".join(args)[:60])
def test_bad_input(folder, args):
    """Exit with 2 and one sentence or the usage, and leave no files."""
    before = sorted(folder.rglob("*"))
    done = ask(*args, cwd=folder)

    assert done.returncode == cli.BAD_INPUT
    assert done.stdout == ""
    assert done.stderr.startswith(("error: ", "Usage: ", "Warning: "))
    if done.stderr.startswith("error: "):
        assert done.stderr.count("\n") == 1
    assert sorted(folder.rglob("*")) == before


@needs_data
@pytest.mark.parametrize("name", NASTY)
def test_nasty_meshes(folder, name):
    """Validate each nasty mesh and check it against a good one: a result, or an error message."""
    validated = ask("validate", FOLDER / "nasty" / name, cwd=folder)
    checked = ask("check", FOLDER / "nasty" / name, "ball.ply", "--no-volume", cwd=folder)

    assert validated.returncode in (cli.CLEAR, cli.BAD_INPUT)
    assert (checked.returncode == cli.BAD_INPUT) == (validated.returncode == cli.BAD_INPUT)
    if checked.returncode == cli.BAD_INPUT:
        dropped = ask("check", FOLDER / "nasty" / name, "ball.ply", "--drop", "--no-volume", cwd=folder)
        assert dropped.returncode in (0, 1, 2)


@needs_fork
@pytest.mark.parametrize(
    "args", [["check", "ball.ply", "other.ply"], ["validate", "ball.ply"], ["scenes"], ["info"], ["--version"]],
    ids=lambda args: args[0],
)  # fmt: skip
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_stdout_on_a_full_disk(commands, folder, args):
    """Exit with 2, not with the code of a collision."""
    assert commands.run(*args, cwd=folder, stdout="/dev/full").returncode == cli.BAD_INPUT


@needs_fork
@pytest.mark.parametrize(
    ("args", "target"),
    [
        (["check", "ball.ply", "other.ply", "--out"], "pairs.npz"),
        (["check", "ball.ply", "other.ply", "--picture"], "found.png"),
        (["check", "ball.ply", "other.ply", "--html"], "report.html"),
        (["live", "boxes_overlapping_by_half", "--seconds", "0.1", "--record"], "run.html"),
        (["sequence", "ball.ply", "frames.npz", "--against", "other.ply", "--workers", "0", "--out"], "found.csv"),
        (["simulate", "scene.toml", "--seconds", "0", "--out"], "run"),
    ],
    ids=lambda each: each[0] if isinstance(each, list) else each,
)
def test_full_disk(commands, folder, tmp_path, args, target):
    """Name the file that could not be written, and leave no partial file."""
    done = commands.run(*args, tmp_path / target, cwd=folder, file_limit=300)

    assert done.returncode == cli.BAD_INPUT
    assert str(tmp_path / target) in done.stderr
    assert not (tmp_path / target).is_file()
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.skipif(sys.platform != "linux", reason="permissions differ there")
@pytest.mark.parametrize(
    "args",
    [
        ["validate", "secret.ply"],
        ["check", "closed/a.ply", "open.ply"],
        ["check", "open.ply", "open.ply", "--out", "pairs.csv"],
        ["check", "open.ply", "open.ply", "--html", "report.html"],
        ["check", "open.ply", "open.ply", "--picture", "found.png"],
        ["sequence", "open.ply", "closed"],
        ["sequence", "open.ply", "open.ply", "--out", "run"],
        ["clash", "closed"],
        ["simulate", "secret.toml"],
        ["simulate", "open.toml", "--out", "run"],
        ["live", "--record", "run.html"],
        ["demo", "made"],
    ],
    ids=" ".join,
)
def test_missing_permissions(commands, tmp_path, args):
    """Reject paths without read or write permission."""
    (tmp_path / "closed").mkdir()
    for name in ("open.ply", "secret.ply", "closed/a.ply"):
        impinge.save(impinge.shapes.box(), tmp_path / name)
    for name in ("open.toml", "secret.toml"):
        (tmp_path / name).write_text('[[body]]\nfile = "open.ply"\n')
    for name in ("secret.ply", "secret.toml", "closed"):
        (tmp_path / name).chmod(0)
    tmp_path.chmod(0o555)
    try:
        done = commands.run(*args, cwd=tmp_path, powerless=True)
    finally:
        for path in (tmp_path, tmp_path / "closed"):
            path.chmod(0o755)

    assert done.returncode == cli.BAD_INPUT
    assert done.stderr.startswith(("error: ", "Usage: "))
