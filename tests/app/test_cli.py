"""The command line: every command on good, bad and hostile input, and as a process where that matters."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from time import sleep

import numpy as np
import pytest

import impinge
from command_line import CLI, assert_refused, environment, run, run_process
from impinge import shapes
from impinge.app import cli, demo
from impinge.scenes import simulated as simulations
from impinge.view.session import DETECTORS

COMMANDS = [command.name or command.callback.__name__ for command in cli.app.registered_commands]
STRANGE_NAME = "a [red]b[bold] :bear: \\[x] grün.ply"
"""Markup, an emoji code, a backslash, spaces and a letter that is not ASCII."""


@pytest.fixture(scope="module")
def meshes(tmp_path_factory) -> Path:
    """A folder with two crossing spheres, a distant one, and a small one inside the first."""
    folder = tmp_path_factory.mktemp("meshes")
    ball = shapes.icosphere(2)
    bodies = {
        "ball.ply": ball.vertices,
        "crossing.obj": ball.vertices + np.array([1.0, 0.2, 0.1]),
        "far.stl": ball.vertices + 9.0,
        "small.off": 0.3 * ball.vertices,
    }
    for name, vertices in bodies.items():
        impinge.save(impinge.TriMesh(vertices, ball.faces), folder / name)
    tets = shapes.tet_box(2, 2, 2)
    tets.update(
        tets.vertices + np.array([0.11, 0.13, 0.17])
    )  # not along the ball's own edges, where triangles only touch
    impinge.save(tets, folder / "tets.msh")
    return folder


# check ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "relation"),
    [
        ("ball.ply", "crossing.obj", "overlapping"),
        ("ball.ply", "far.stl", "disjoint"),
        ("small.off", "ball.ply", "a in b"),
        ("ball.ply", "small.off", "b in a"),
        ("tets.msh", "ball.ply", "overlapping"),
    ],
)
def test_check_prints_the_relation(meshes, a, b, relation):
    """Exit with 1 for colliding bodies, containment included, and with 0 otherwise."""
    done = run("check", meshes / a, meshes / b)

    assert done.returncode == (cli.CLEAR if relation == "disjoint" else cli.COLLIDING)
    assert done.stderr == ""
    assert done.stdout.splitlines()[0] == f"{a} and {b}"
    assert f"relation        {relation}\n" in done.stdout


def test_check_prints_the_counts_that_python_gets(meshes):
    """Print the pair counts of ``impinge.check`` by kind."""
    done = run("check", "ball.ply", "crossing.obj", "--method", "brute_force", cwd=meshes)
    expected = impinge.check(meshes / "ball.ply", meshes / "crossing.obj").pairs
    shown = dict(line.rsplit(maxsplit=1) for line in done.stdout.splitlines()[2:6])

    assert shown == {
        "triangle pairs": str(len(expected)),
        **{f"  {kind}": str(count) for kind, count in expected.count_by_kind().items()},
    }
    assert len(expected) > 0


def test_check_as_json(meshes):
    """Print the result of the Python function as JSON."""
    done = run_process("check", "ball.ply", "crossing.obj", "--json", cwd=meshes)
    found = json.loads(done.stdout)
    expected = impinge.check(meshes / "ball.ply", meshes / "crossing.obj").to_dict()
    for varying in ("elapsed_ms", "stats"):
        expected.pop(varying)
        found.pop(varying)

    assert done.returncode == cli.COLLIDING
    assert found == {"a": "ball.ply", "b": "crossing.obj", **json.loads(json.dumps(expected))}


def test_check_draws(meshes, tmp_path):
    """Write a picture, and print its long path unbroken."""
    import matplotlib.image

    path = tmp_path / ("a long folder " * 8).strip() / "found [red] ü.png"
    path.parent.mkdir()
    done = run("check", meshes / "ball.ply", meshes / "crossing.obj", "--picture", path)
    pixels = matplotlib.image.imread(path)

    assert done.returncode == cli.COLLIDING
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == f"picture         {path}"
    assert path.read_bytes().startswith(b"\x89PNG")
    assert np.ptp(pixels[:, :, :3]) > 0.5


@pytest.mark.parametrize("name", ["missing/x.png", "x.strange", "folder.png"])
def test_picture_that_cannot_be_written(meshes, tmp_path, name):
    """Report a picture path that cannot be written."""
    (tmp_path / "folder.png").mkdir()
    done = run("check", meshes / "ball.ply", meshes / "far.stl", "--picture", tmp_path / name)

    assert_refused(done, "could not be written", str(tmp_path / name), "choose a writable .png file")


@pytest.mark.parametrize("name", ["missing/x.png", "folder.png", "protected/x.png"])
def test_picture_path_is_checked_first(tmp_path, name):
    """Reject the picture path before loading meshes."""
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "protected").mkdir(mode=0o500)
    if name.startswith("protected") and os.access(tmp_path / "protected", os.W_OK):
        pytest.skip("this user may write everywhere")

    assert_refused(run("check", "a.ply", "b.ply", "--picture", tmp_path / name), str(tmp_path / name), "writable")


def test_check_writes_a_report(meshes, tmp_path):
    """Write one page with all numbers, three pictures, an animation and the command."""
    path = tmp_path / "report.html"
    done = run("check", meshes / "ball.ply", meshes / "crossing.obj", "--html", path)
    page = path.read_text(encoding="utf-8")
    count = len(impinge.check(meshes / "ball.ply", meshes / "crossing.obj").pairs)

    assert done.returncode == cli.COLLIDING
    assert done.stdout.splitlines()[-1] == f"report          {path}"
    assert page.count("data:image/png;base64,") == 3
    assert page.count("data:image/webp;base64,") == 1
    assert f"{count} pairs of triangles intersect" in page
    assert "impinge check" in page
    assert "http" not in page.replace("http://www.w3.org", "")


@pytest.mark.parametrize("name", ["pairs.csv", "pairs.npz"])
def test_check_writes_the_pairs(meshes, tmp_path, name):
    """Write the pairs of ``impinge.check``."""
    path = tmp_path / name
    done = run("check", meshes / "ball.ply", meshes / "crossing.obj", "--out", path)
    expected = impinge.check(meshes / "ball.ply", meshes / "crossing.obj").pairs

    assert done.returncode == cli.COLLIDING
    assert len(expected) > 10
    if name.endswith("npz"):
        with np.load(path) as found:
            np.testing.assert_array_equal(found["pairs"], expected.pairs)
            np.testing.assert_array_equal(found["kind"], expected.kind)
            assert bool(found["complete"])
    else:
        head, *rows = path.read_text().splitlines()
        assert head == "triangle_a,triangle_b,kind"
        assert rows == [
            f"{a},{b},{impinge.Kind(kind).name.lower()}" for (a, b), kind in zip(expected.pairs, expected.kind)
        ]


@pytest.mark.parametrize(
    ("option", "name"),
    [("--out", "pairs.txt"), ("--out", "no/pairs.csv"), ("--out", "folder.csv"), ("--html", "no/report.html")],
)
def test_output_paths_are_checked_first(tmp_path, option, name):
    """Reject output paths before loading meshes."""
    (tmp_path / "folder.csv").mkdir()
    done = run("check", "a.ply", "b.ply", option, tmp_path / name)

    assert_refused(done, "could not be written", str(tmp_path / name), "choose a writable")


def test_check_without_a_volume(meshes):
    """Omit the volume with --no-volume."""
    files = (meshes / "ball.ply", meshes / "crossing.obj")

    assert "overlap volume" in run("check", *files).stdout
    assert "overlap volume" not in run("check", *files, "--no-volume").stdout


# live -------------------------------------------------------------------------------------------------


def test_live_records(tmp_path):
    """Record without a browser, and print the path."""
    path = tmp_path / "run.html"
    done = run("live", "boxes_overlapping_by_half", "--record", path, "--seconds", "0.1")

    assert done.returncode == cli.CLEAR
    assert done.stdout == f"written: {path}\n"
    assert "__VISER_EMBED_DATA__" in path.read_text(encoding="utf-8")


def test_live_records_a_simulation(tmp_path):
    """Record falling soft bodies of a scene file; longer recordings are larger files."""
    soft = 'shape = { kind = "tet_box", nx = 2, ny = 2, nz = 2, size = 0.1 }\nsoft = { embedding = "barycentric" }\n'
    (tmp_path / "soft.toml").write_text(f"[[body]]\n{soft}[[body]]\n{soft}position = [0, 0, 0.15]\n")
    sizes = []
    for seconds in ("0.1", "0.3"):
        done = run("live", "soft.toml", "--record", "run.html", "--seconds", seconds, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (cli.CLEAR, "")
        sizes.append((tmp_path / "run.html").stat().st_size)

    assert sizes[1] > sizes[0] + 1000


@pytest.mark.parametrize(
    ("args", "fragment"),
    [
        (["nonsense"], "no scene 'nonsense'"),
        (["nonsense", "--simulate"], "no simulation 'nonsense'"),
        (["two_bunnies", "--scale", "-1"], "scale is -1"),
        (["knots_12k", "--scale", "2"], "--scale is 2, expected none"),
        (["--method", "magic"], "method is 'magic', expected one of 'box_tree', "),
        (["--port", "70000"], "port is 70000"),
        (["--host", "192.0.2.1"], "cannot be served at 192.0.2.1"),
        (["--record", "/nonsense/run.html"], "could not be written"),
    ],
)
def test_live_rejects(args, fragment):
    """Reject unknown scenes and unusable options with one sentence."""
    assert_refused(run("live", *args), fragment)


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ there")
@pytest.mark.parametrize(
    ("host", "warns", "end"), [("127.0.0.1", False, signal.SIGINT), ("0.0.0.0", True, signal.SIGTERM)]
)
def test_live_warns_of_open_addresses(host, warns, end):
    """Serve until SIGINT or SIGTERM, and warn of addresses other than loopback; see ``test_interrupt``."""
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        f"sys.argv = ['impinge', 'live', 'boxes_overlapping_by_half', '--port', '0', '--host', {host!r}];"
        "from impinge.app.cli import main; main()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
        env=environment(PYTHONUNBUFFERED="1"),
    ) as process:  # fmt: skip
        first = process.stdout.readline()
        process.send_signal(end)
        last, said = process.communicate(timeout=600)

    assert first.startswith(f"open http://{host}:")
    assert last.endswith("stopped\n")  # a signal in the middle of printing may have the first line printed again
    assert process.returncode == cli.CLEAR
    assert ("everyone who can reach this computer" in said) is warns
    assert "Traceback" not in said


# completion -------------------------------------------------------------------------------------------


def test_shells_complete_names():
    """Complete commands, scenes and methods."""
    for typed, expected in (
        ("impinge che", "check"),
        ("impinge live two_l", "two_livers"),
        ("impinge live two_b", "two_bunnies"),
        ("impinge live --method wor", "world"),
        ("impinge simulate two_b", "two_bunnies"),
    ):
        words = {"_IMPINGE_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
        done = run(**words)
        assert expected in done.stdout.split()


def test_check_refuses_an_unknown_method(meshes):
    """Name the available methods."""
    done = run("check", meshes / "ball.ply", meshes / "far.stl", "--method", "[red]magic")

    assert_refused(done, "method is '[red]magic'", "'auto'", "'brute_force'")


PLY = """ply
format ascii 1.0
element vertex 3
property float x
property float y
property float z
element face 1
property list uchar int vertex_indices
end_header
0 0 0
1 0 0
{last}
3 0 1 {index}
"""

BAD_FILES = {
    "missing.ply": None,
    "empty.ply": b"",
    "empty.stl": b"",
    "prose.ply": b"Dear Sir or Madam,\n",
    "noise.stl": bytes(range(256)) * 3,
    "noise.glb": b"\x00\xff" * 100,
    "noise.msh": b"\x00\xff" * 100,
    "truncated.ply": PLY.format(last="0 1 0", index=2)[:-8].encode(),
    "not_a_number.ply": PLY.format(last="0 nan 0", index=2).encode(),
    "infinite.ply": PLY.format(last="0 1e999 0", index=2).encode(),
    "out_of_range.ply": PLY.format(last="0 1 0", index=7).encode(),
    "negative.ply": PLY.format(last="0 1 0", index=-1).encode(),
    "damaged.ply.gz": b"\x1f\x8b\x08damaged",
    "lines_only.obj": b"v 0 0 0\nv 1 0 0\nl 1 2\n",
    "unknown.xyz": b"0 0 0\n",
    "no_ending": b"0 0 0\n",
    "[red] :bear:.ply": b"",
}


@pytest.mark.parametrize("name", [*BAD_FILES, "folder.ply", "folder", "null\0byte.ply"])
def test_bad_files_are_rejected(meshes, tmp_path, name):
    """Reject an invalid file with the message of the Python API and exit code 2."""
    path = tmp_path / name
    if name.startswith("folder"):
        path.mkdir()
    elif BAD_FILES.get(name) is not None:
        path.write_bytes(BAD_FILES[name])
    with pytest.raises(impinge.ImpingeError) as error:
        impinge.load(path)
    if "\0" in name:
        return  # no process can be given such an argument
    command = ["check", meshes / "ball.ply", path] if len(name) % 2 else ["validate", path]
    done = run(*command)

    assert_refused(done, str(path))
    assert done.stderr == f"error: {error.value}\n".replace("validate='drop'", "--drop")


@pytest.mark.parametrize("name", ["not_a_number.ply", "out_of_range.ply"])
def test_bad_elements_are_dropped_on_demand(meshes, tmp_path, name):
    """Drop invalid elements with a warning, as the message advises, and check the rest."""
    path = tmp_path / name
    path.write_bytes(BAD_FILES[name])
    advice = run_process("validate", path).stderr
    checked, validated = run("check", path, meshes / "ball.ply", "--drop"), run("validate", path, "--drop", "--json")

    assert "pass --drop to leave" in advice
    assert checked.returncode == cli.CLEAR
    assert json.loads(validated.stdout)["triangles"] == 0
    for done in (checked, validated):
        assert done.stderr.startswith("warning: left out 1 of 1 faces (rows 0)")


def test_weld_by_hand(meshes):
    """Weld by file format or by option."""
    vertex_counts = [
        json.loads(run("validate", meshes / "far.stl", "--json", *options).stdout)["vertices"]
        for options in ([], ["--weld"], ["--no-weld"])
    ]

    assert vertex_counts == [162, 162, 960]


def test_unreadable_file(tmp_path):
    """Report a file without read permission."""
    path = tmp_path / "secret.ply"
    path.write_text(PLY.format(last="0 1 0", index=2))
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")

    assert_refused(run("validate", path), str(path), "permissions")


# other commands ---------------------------------------------------------------------------------------


def test_validate(meshes, tmp_path):
    """Print defects, their first location, and the verdict."""
    whole = impinge.load(meshes / "ball.ply")
    impinge.save(impinge.TriMesh(whole.vertices, whole.faces[1:]), tmp_path / "open.ply")
    clean, torn = run("validate", meshes / "ball.ply"), run("validate", tmp_path / "open.ply")
    lines = [line.split() for line in torn.stdout.splitlines()]

    assert (clean.returncode, torn.returncode) == (0, 0)
    assert clean.stdout.splitlines()[0] == "ball.ply"
    assert clean.stdout.endswith("clean\n")
    assert ["closed", "no"] in lines
    assert any(line[:3] == ["open", "edges", "3"] and line[3] == "(first:" for line in lines)
    assert torn.stdout.splitlines()[-1].startswith("usable")


@pytest.mark.parametrize("name", ["ball.ply", "tets.msh"])
def test_validate_as_json(meshes, name):
    """Print the result of the Python function as JSON."""
    done = run("validate", meshes / name, "--json")

    assert done.returncode == 0
    assert json.loads(done.stdout) == {
        "file": str(meshes / name),
        **impinge.validate(impinge.load(meshes / name)).to_dict(),
    }


def test_info():
    """Print version, threads and cache folder, as lines and as JSON."""
    plain, data = run("info"), json.loads(run("info", "--json").stdout)

    assert plain.returncode == 0
    assert data["impinge"] == impinge.__version__
    assert data["threads"].startswith(f"{impinge.thread_count()} ")
    assert data["extras"]["view"] is True
    assert data["kernels"].startswith(("shipped for ", "not shipped: "))
    for name, value in data.items():
        if name != "extras":
            assert f"{name:<14}  {value}\n" in plain.stdout


def test_scenes_are_listed_one_per_line():
    """Print each scene on one line, which suits grep."""
    lines = run_process("scenes", COLUMNS="40").stdout.splitlines()[1:]

    expected = [*map(impinge.scenes.get, impinge.scenes.names()), *map(simulations.get, simulations.names())]
    assert [line.split()[0] for line in lines] == [scene.name for scene in expected]
    for line, scene in zip(lines, expected):
        assert scene.title in line


def test_demo(tmp_path):
    """Run the demo: all methods agree, and pictures and a report are written."""
    folder = tmp_path / "new" / "a b [red] ü"
    done = run_process("demo", folder)
    lines = done.stdout.splitlines()
    rows = [line.split() for line in lines if line.split()[:1] and line.split()[0] in DETECTORS and "yes" in line]

    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.count("  frame ") == 2 * demo.FRAMES
    assert len(rows) == 2 * len(DETECTORS) == 2 * 6
    assert "NO:" not in done.stdout
    assert done.stdout.count("brute force finds the same pairs") == 2
    assert f"report: {folder.resolve() / 'report.html'}" in lines
    assert lines[-4] == "try next:"
    for line in lines[-3:]:
        assert line.split()[0] == "impinge"
        assert line.split()[1] in COMMANDS
    assert f"first picture: {folder.resolve() / 'first.png'}" in lines
    for name in ("soft_bodies.png", "vessels.png"):
        assert f"picture: {folder.resolve() / name}" in lines
        assert (folder / name).stat().st_size > 10_000
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 2
    assert page.count("data:image/webp;base64,") == 1
    meeting = [int(line.split()[2]) for line in lines if line.startswith("  frame ")]
    assert max(meeting[: demo.FRAMES]) > 100
    assert min(meeting[demo.FRAMES :]) > 0


def test_demo_where_it_cannot_write(tmp_path):
    """Report a target folder that is a file."""
    (tmp_path / "file").write_text("")

    assert_refused(run("demo", tmp_path / "file"), str(tmp_path / "file"))


# help and usage ---------------------------------------------------------------------------------------


def test_no_arguments_show_the_help():
    """List commands and exit codes without arguments."""
    done = run_process()
    shown = done.stdout + done.stderr

    assert "0 clear, 1" in shown
    for command in COMMANDS:
        assert f"\n  {command} " in shown


def test_installed_script():
    """Print the same help from the installed script."""
    script = Path(sys.executable).with_name("impinge")
    if not script.exists():
        pytest.skip("impinge is not installed beside this Python")
    done = subprocess.run([script, "-h"], capture_output=True, encoding="utf-8", env=environment())

    assert done.returncode == 0
    assert "Collision detection between deformable bodies" in done.stdout


def test_version():
    """Print the version in one line."""
    done = run_process("--version")

    assert (done.returncode, done.stdout, done.stderr) == (0, f"impinge {impinge.__version__}\n", "")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command):
    """Show an example of each command."""
    done = run(command, "--help")

    assert done.returncode == 0
    assert f"Example: impinge {command}" in done.stdout


@pytest.mark.parametrize(
    "args", [["frobnicate"], ["check"], ["check", "a.ply"], ["scenes", "too many"], ["info", "--strange"]]
)
def test_wrong_usage(args):
    """Exit with 2 and a usage message on wrong arguments."""
    done = run(*args)

    assert done.returncode == cli.BAD_INPUT
    assert "Usage: " in done.stderr
    assert "-h" in done.stderr
    assert done.stdout == ""


# hostile surroundings ---------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such names")
def test_strange_names_are_printed_as_they_are(meshes, tmp_path):
    """Print markup, emoji codes, spaces and umlauts in a name literally."""
    path = tmp_path / STRANGE_NAME
    path.write_bytes((meshes / "ball.ply").read_bytes())
    checked = run("check", path, meshes / "far.stl")
    validated = run("validate", STRANGE_NAME, cwd=tmp_path)
    as_json = run("validate", path, "--json")
    missing = run("validate", tmp_path / f"no {STRANGE_NAME}")

    assert checked.returncode == cli.CLEAR
    assert checked.stdout.splitlines()[0] == f"{STRANGE_NAME} and far.stl"
    assert validated.stdout.splitlines()[0] == STRANGE_NAME
    assert json.loads(as_json.stdout)["file"] == str(path)
    assert_refused(missing, f"{tmp_path / f'no {STRANGE_NAME}'} does not exist")


def test_terminal_that_cannot_show_a_name(meshes, tmp_path):
    """Escape names that the terminal cannot encode."""
    path = tmp_path / "grün.ply"
    path.write_bytes((meshes / "ball.ply").read_bytes())
    done = run_process("validate", path, PYTHONIOENCODING="ascii")

    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == r"gr\xfcn.ply"


@pytest.mark.skipif(sys.platform != "linux", reason="only there a name may be any bytes")
def test_name_that_is_no_text(meshes, tmp_path):
    """Escape names whose bytes are not text."""
    path = os.fsencode(tmp_path) + b"/b\xff.ply"
    Path(os.fsdecode(path)).write_bytes((meshes / "ball.ply").read_bytes())
    done = subprocess.run([*CLI, "validate", path], capture_output=True, env=environment())

    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == rb"b\udcff.ply"


@pytest.mark.skipif(sys.platform == "win32", reason="pipes end differently there")
@pytest.mark.parametrize("args", [["scenes"], ["info"], ["info", "--json"]], ids=" ".join)
def test_closed_pipe(args):
    """Exit silently on a closed pipe, with a code other than that of a collision."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*CLI, *args], stdout=writer, stderr=subprocess.PIPE, env=environment())
    os.close(writer)

    assert done.stderr == b""
    assert done.returncode == cli.NO_READER


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
def test_head_takes_one_line():
    """Print one line to ``head -1``."""
    command = f"'{sys.executable}' -m impinge scenes | head -1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, encoding="utf-8", env=environment())

    assert done.stdout.split() == ["scene", "what", "it", "shows", "tags"]
    assert done.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("args", [["scenes"], ["info", "--json"]], ids=" ".join)
def test_full_disk(args):
    """Report output that cannot be written."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*CLI, *args], stdout=full, stderr=subprocess.PIPE, encoding="utf-8", env=environment())

    assert done.returncode == cli.BAD_INPUT
    assert done.stderr.startswith("error: ")
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ there")
@pytest.mark.parametrize("part", ["_in_process", "_first_picture"])
def test_interrupt(tmp_path, part):
    """Stop at SIGINT with exit code 130 and no traceback, while other processes prepare and while this one computes.

    The handler is set explicitly: a shell without job control starts processes with SIGINT ignored.
    """
    code = f"""
import os, signal, sys
from impinge.app import demo
from impinge.app.cli import main
def struck(*args):
    os.kill(os.getpid(), signal.SIGINT)
    return "", 0.0
demo._in_process = lambda name, folder: (name, 0.0)
demo.{part} = struck
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["impinge", "demo", {str(tmp_path)!r}]
main()
"""
    own = environment(IMPINGE_CACHE_DIR=str(tmp_path / "cache"), IMPINGE_SHIPPED_KERNELS="0")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", env=own)

    assert "compiling kernels" in done.stdout
    assert done.returncode == cli.INTERRUPTED
    assert "report:" not in done.stdout
    assert "Traceback" not in done.stderr


def test_interrupt_while_loading():
    """Stop at SIGINT without a traceback while modules are imported."""
    code = """
import runpy, sys
class Interrupter:
    def find_spec(self, name, *_):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupter())
runpy.run_module("impinge", run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", env=environment())

    assert (done.returncode, done.stdout, done.stderr) == (cli.INTERRUPTED, "", "")


def test_info_needs_no_cache(tmp_path):
    """Print no warning about an unusable kernel cache, since nothing is compiled."""
    (tmp_path / "file").write_text("")
    done = run_process("info", IMPINGE_CACHE_DIR=str(tmp_path / "file"))

    assert done.returncode == 0
    assert done.stderr == ""


def wrapped_interrupt() -> RuntimeError:
    """Ctrl-C while a class is created, as Python 3.11 raises it."""
    error = RuntimeError("Error calling __set_name__")
    error.__cause__ = KeyboardInterrupt()
    return error


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (impinge.MeshError("[red] is no mesh"), cli.BAD_INPUT, "error: [red] is no mesh\n"),
        (MemoryError(), cli.BAD_INPUT, "error: out of memory; use smaller meshes"),
        (PermissionError(13, "Permission denied", "x [b]"), cli.BAD_INPUT, "error: x [b]: Permission denied\n"),
        (RuntimeError("[bold] oh"), cli.BAD_INPUT, "error: unexpected RuntimeError: [bold] oh; set IMPINGE_TRACEBACK"),
        (OSError(28, "No space left on device"), cli.BAD_INPUT, "error: standard output: No space left on device\n"),
        (KeyboardInterrupt(), cli.INTERRUPTED, "stopped\n"),
        (wrapped_interrupt(), cli.INTERRUPTED, "stopped\n"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_errors_become_messages(meshes, monkeypatch, capsys, error, code, sentence):
    """Convert expected and unexpected errors to one sentence and an exit code."""

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(impinge, "check", fail, raising=False)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main replaces it; put it back afterwards
    monkeypatch.setattr(sys, "argv", ["impinge", "check", str(meshes / "ball.ply"), str(meshes / "far.stl")])
    monkeypatch.delenv("IMPINGE_TRACEBACK", raising=False)
    with pytest.raises(SystemExit) as stop:
        cli.main()

    assert stop.value.code == code
    assert capsys.readouterr().err.startswith(sentence)


def test_traceback_on_request(meshes, monkeypatch):
    """Propagate unexpected errors with IMPINGE_TRACEBACK=1."""

    def fail(*_, **__):
        raise RuntimeError("oh")

    monkeypatch.setattr(impinge, "check", fail, raising=False)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.setattr(sys, "argv", ["impinge", "check", str(meshes / "ball.ply"), str(meshes / "far.stl")])
    monkeypatch.setenv("IMPINGE_TRACEBACK", "1")

    with pytest.raises(RuntimeError, match="oh"):
        cli.main()


def test_warnings_are_one_line(capsys):
    """Print a warning without its source line."""
    cli._show_warning(UserWarning("[red] left out " + "many " * 40), UserWarning, "file.py", 3)

    assert capsys.readouterr().err == f"warning: [red] left out {'many ' * 40}\n"


def test_help_lists_commands_with_whole_sentences():
    """List commands with untruncated sentences at 80 columns."""
    done = run("--help", COLUMNS="80")
    listed = done.stdout.split("Commands:\n")[1].splitlines()

    assert len(listed) == len(cli.COMMANDS)
    assert all(line.endswith(".") and not line.endswith("...") for line in listed)


def test_interrupt_in_a_call_from_c(monkeypatch, capfd):
    """Stop although Python drops an interrupt raised in a C callback, as during kernel loading."""

    def callback() -> None:
        raise KeyboardInterrupt

    def app() -> None:
        ctypes.CFUNCTYPE(None)(callback)()
        for _ in range(6000):
            sleep(0.01)  # which nothing ends but its time

    monkeypatch.setattr(cli, "app", app)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it may be ignored
    for module, name in ((sys, "unraisablehook"), (warnings, "showwarning")):
        monkeypatch.setattr(module, name, getattr(module, name))  # main replaces them
    try:
        with pytest.raises(SystemExit) as stop:
            cli.main()
    finally:
        signal.signal(signal.SIGINT, before)

    assert stop.value.code == cli.INTERRUPTED
    assert capfd.readouterr().err == "stopped\n"
