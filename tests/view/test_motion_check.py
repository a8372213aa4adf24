"""``impinge check --from``: relations at both ends of a motion, and the first impact on the way."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import impinge
from command_line import assert_refused, run
from impinge import shapes
from impinge.app import cli


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A ball above a sheet, in it, and below it; boxes that touch; meshes that do not match."""
    made = tmp_path_factory.mktemp("motion")
    ball, box = shapes.icosphere(2, radius=0.2, center=(0.05, 0.03, 0.0)), shapes.box(1.0)
    impinge.save(shapes.cloth_grid(20, 20), made / "sheet.ply")
    for name, way in {"above": [0.0, 0.0, 0.5], "in": [0.0, 0.0, 0.01], "below": [0.021, 0.13, -0.5]}.items():
        impinge.save(impinge.TriMesh(ball.vertices + np.array(way), ball.faces), made / f"{name}.ply")
        impinge.save(impinge.TriMesh(ball.vertices + np.array(way), ball.faces), made / f"{name}.stl")
    impinge.save(shapes.icosphere(1), made / "coarse.ply")
    impinge.save(impinge.TriMesh(ball.vertices, ball.faces[::-1]), made / "turned.ply")
    for height in (0, 1, 3):
        impinge.save(impinge.TriMesh(box.vertices + height * np.eye(3)[2], box.faces), made / f"box{height}.ply")
    return made


def lines_of(done) -> dict[str, str]:
    return dict(line.strip().split("  ", 1) for line in done.stdout.splitlines()[1:])


@pytest.mark.parametrize("ending", ["ply", "stl"])
def test_bodies_that_pass_through_each_other(folder, ending):
    """Say so where both ends are disjoint and features meet on the way; name the first impact, and exit with 1."""
    names = f"below.{ending}", "sheet.ply", "--from", f"above.{ending}", "sheet.ply"
    done, as_json = run("check", *names, cwd=folder), run("check", *names, "--json", cwd=folder)
    lines = {name: value.strip() for name, value in lines_of(done).items()}
    found = json.loads(as_json.stdout)
    below, above, sheet = (impinge.load(folder / name) for name in (f"below.{ending}", f"above.{ending}", "sheet.ply"))
    expected = impinge.impacts(above, sheet, end_a=below.vertices)

    assert (done.returncode, as_json.returncode, done.stderr) == (cli.COLLIDING, cli.COLLIDING, "")
    assert (lines["relation"], lines["relation at start"]) == ("disjoint", "disjoint")
    assert lines["on the way"] == "they pass through each other on the way"
    assert lines["impacts"] == f"{len(expected):,}"
    vertex, face = int(expected.feature_a[0]), int(expected.feature_b[0])
    assert lines["first impact"].startswith(f"at 0.3 of the way, vertex {vertex} of a and face {face} of b, at (0.0")
    assert found["from"] == [f"above.{ending}", "sheet.ply"]
    motion = found["motion"]
    assert (motion["passes_through"], motion["impacts"], motion["at_start"]) == (True, len(expected), 0)
    assert motion["first"]["kind"] == "vertex_face"
    for name in ("feature_a", "feature_b", "time_lo", "time_hi", "vertices", "point", "normal", "weights"):
        assert motion["first"][name] == getattr(expected, name)[0].tolist()


@pytest.mark.parametrize(
    ("end", "start", "sentence", "code"),
    [
        (("above.ply", "sheet.ply"), ("above.ply", "sheet.ply"), "nothing meets on the way", cli.CLEAR),
        (("in.ply", "sheet.ply"), ("above.ply", "sheet.ply"), "they meet on the way", cli.COLLIDING),
        (("above.ply", "sheet.ply"), ("in.ply", "sheet.ply"), "they meet on the way", cli.COLLIDING),
        (("box3.ply", "box0.ply"), ("box1.ply", "box0.ply"), "nothing meets on the way", cli.COLLIDING),
    ],
)
def test_contacts_at_an_end_are_not_called_passing(folder, end, start, sentence, code):
    """Tell impacts from passing through, count pairs that meet at the start apart, and exit with 1 for any contact."""
    done = run("check", *end, "--from", *start, "--no-volume", cwd=folder)
    lines = {name: value.strip() for name, value in lines_of(done).items()}

    assert done.returncode == code
    assert lines["on the way"] == sentence
    assert (lines["impacts"] == "0") == (sentence == "nothing meets on the way") == ("first impact" not in lines)
    assert ("at start" in lines) == (start[0] == "box1.ply")


def test_report_and_picture_of_a_motion(folder, tmp_path, monkeypatch):
    """Write a page with the words and a picture of the first impact, and the picture alone."""
    from impinge.view import report

    monkeypatch.setattr(report, "ORBIT_FRAMES", 2)
    path, picture = tmp_path / "report.html", tmp_path / "impact.png"
    names = "below.ply", "sheet.ply", "--from", "above.ply", "sheet.ply"
    run("check", *names, "--html", path, "--picture", picture, cwd=folder)
    page = path.read_text()

    assert "On the way: they pass through each other on the way." in page
    assert "<h2>On the way</h2>" in page
    assert "The bodies at 0.3 of the way: vertex 10 of below.ply and face" in page
    assert 'verdict hit">' in page
    assert "a at the start" in page
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_meshes_that_do_not_match_are_refused(folder):
    """Name both files, what differs, and what is expected."""
    other = run("check", "below.ply", "sheet.ply", "--from", "coarse.ply", "sheet.ply", cwd=folder)
    turned = run("check", "below.ply", "sheet.ply", "--from", "turned.ply", "sheet.ply", cwd=folder)
    second = run("check", "sheet.ply", "below.ply", "--from", "sheet.ply", "missing.ply", cwd=folder)

    remedy = "--from takes the same mesh in another position"
    assert_refused(other, "coarse.ply has 42 vertices, but below.ply has 162", remedy)
    assert_refused(turned, "turned.ply has other triangles than below.ply", remedy)
    assert_refused(second, "missing.ply")
