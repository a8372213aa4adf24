"""What happens between the frames of a sequence: impacts, tunnelled frames, and results that no engine changes."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

import impinge
from command_line import run as run_command
from dask_cluster import WITHOUT_FILES, cluster
from impinge import shapes
from impinge.app import cli
from impinge.runs import engine, frame_work, map_frames
from impinge.runs.reports import between_frames, frame_time
from impinge.runs.store import read_table

pytest.importorskip("distributed", reason="dask is not installed; pip install 'impinge[cluster]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed; pip install 'impinge[cluster]'")

FRAMES = 70
"""24 shards of at most three frames."""
CORRUPT = 40
OFFSET = np.array([0.6, 0.013, 0.007])
PLAIN_COLUMNS = [
    "frame", "name", "collides", "relation", "contacts", "self_contacts", "crossing", "touching", "coplanar", "error",
]  # fmt: skip


def ball() -> impinge.TriMesh:
    return shapes.icosphere(1, radius=0.2)


def pair_of_balls() -> impinge.TriMesh:
    """Two balls in one mesh, 0.6 apart."""
    x, faces = ball().vertices, ball().faces
    return impinge.TriMesh(np.concatenate([x, x + OFFSET]), np.concatenate([faces, faces + len(x)]))


def moved(frame: int) -> np.ndarray:
    """Both balls move up and down through z = 0; the second one also moves through the first."""
    x = pair_of_balls().vertices.copy()
    x[:, 2] += 0.031 + 0.8 * np.sin(0.9 * frame)
    half = len(x) // 2
    x[half:, 0] -= 0.55 + 1.1 * np.sin(1.3 * frame)
    return x


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two balls that move through a sheet, which moves too, and through each other; one frame is no mesh."""
    made = tmp_path_factory.mktemp("moving")
    balls, sheet = pair_of_balls(), shapes.cloth_grid(6, 6, size=(4.0, 4.0))
    impinge.save(balls, made / "a.ply")
    impinge.save(sheet, made / "b.ply")
    for name in ("frames", "frames_b"):
        (made / name).mkdir()
    for frame in range(FRAMES):
        impinge.save(impinge.TriMesh(moved(frame), balls.faces), made / "frames" / f"f{frame}.ply")
        x = sheet.vertices + np.array([0.011, 0.017, 0.1 * np.cos(frame)])
        impinge.save(impinge.TriMesh(x, sheet.faces), made / "frames_b" / f"f{frame}.ply")
    (made / "frames" / f"f{CORRUPT}.ply").write_bytes(b"Dear Sir or Madam,\n")
    return made


def find(folder: Path, out: Path | None = None, **options):
    """A continuous run with everything."""
    return map_frames(
        folder / "a.ply", folder / "frames", folder / "b.ply", against_frames=folder / "frames_b", with_self=True,
        **{"continuous": True, "workers": 0, "out": out, **options},
    )  # fmt: skip


@pytest.fixture(scope="module")
def serial(folder, tmp_path_factory) -> Path:
    """What one process finds."""
    return find(folder, tmp_path_factory.mktemp("serial") / "run").folder


def parts_of(run: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in sorted(run.rglob("*.parquet"))}


def rows(run: Path, table: str) -> list[dict]:
    return read_table(run, table).to_pylist()


def test_motions_are_what_single_queries_find(folder, serial):
    """Find between two frames what ``impacts`` finds; a frame is tunnelled if ``check`` finds nothing at both ends."""
    bodies = [[None] * FRAMES, [None] * FRAMES]
    for k, name in enumerate(("frames", "frames_b")):
        for frame in set(range(FRAMES)) - {CORRUPT}:
            bodies[k][frame] = impinge.load(folder / name / f"f{frame}.ply")
    found, kinds = rows(serial, "impacts"), set()
    for row in rows(serial, "frames"):
        frame = row["frame"]
        if frame in (0, CORRUPT, CORRUPT + 1):
            assert [row[name] for name in frame_work.MOTION_COLUMNS] == [None] * 5
            continue
        (a, b), (end_a, end_b) = ((bodies[0][k], bodies[1][k]) for k in (frame - 1, frame))
        pair = impinge.impacts(a, b, end_a=end_a.vertices, end_b=end_b.vertices)
        own = impinge.impacts(a, end_a=end_a.vertices)
        firsts, tunnelled = [], []
        for is_self, all_of in ((False, pair), (True, own)):
            each = all_of.rows(~all_of.at_start)
            mine = [impact for impact in found if impact["frame"] == frame and impact["is_self"] == is_self]
            assert row["self_impacts" if is_self else "impacts"] == len(each) == len(mine)
            for name in ("kind", "feature_a", "feature_b", "time_lo", "time_hi"):
                assert [impact[name] for impact in mine] == getattr(each, name).tolist()
            assert [[impact[f"vertex_{k}"] for k in range(4)] for impact in mine] == each.vertices.tolist()
            firsts += each.time_lo[:1].tolist()
            ends = ((a, b), (end_a, end_b))
            clear = [
                not impinge.self_pairs(x) if is_self else impinge.check(x, y).relation == "disjoint" for x, y in ends
            ]
            tunnelled.append(len(each) > 0 and all(clear))
        assert row["tunnelled"] == any(tunnelled)
        assert row["at_start"] == int(pair.at_start.sum() + own.at_start.sum())
        assert row["first_impact"] == (frame - 1 + min(firsts) if firsts else None)
        kinds.add((*tunnelled, len(firsts)))

    assert {(True, False), (False, True), (False, False)} <= {kind[:2] for kind in kinds}, "both ways to tunnel"
    assert {kind[2] for kind in kinds} == {0, 1, 2}, "motions with impacts of either kind, of both, and of none"


def test_totals_of_a_continuous_run(serial):
    """Add up the columns of the frames."""
    table, totals = rows(serial, "frames"), json.loads((serial / "manifest.json").read_text())["totals"]

    for name in ("impacts", "self_impacts", "at_start", "tunnelled"):
        assert totals[name] == sum(row[name] or 0 for row in table)
    assert min(totals["impacts"], totals["self_impacts"], totals["tunnelled"]) > 0


def test_no_engine_changes_the_bytes(folder, serial, tmp_path):
    """Write the same files from two threads, and after the loss of some parts."""
    threads = find(folder, tmp_path / "threads", workers=2, processes=False)
    again = find(folder, tmp_path / "again")
    for number in (0, 5, 23):
        (again.folder / "frames" / f"part-{number:06d}.parquet").unlink()
    resumed = find(folder, tmp_path / "again")

    assert parts_of(threads.folder) == parts_of(serial)
    assert parts_of(resumed.folder) == parts_of(serial)
    assert resumed.totals == threads.totals
    assert len(parts_of(serial)) == 3 * 24
    assert 0 < resumed.resumed < FRAMES


def test_files_that_workers_do_not_see(folder, serial, tmp_path):
    """Send the frame before a shard, too, to workers that do not see the files."""
    (tmp_path / "dask").mkdir()
    with cluster(tmp_path / "dask", WITHOUT_FILES) as made:
        run = find(folder, tmp_path / "run", workers=None, scheduler=made.address)

    assert parts_of(run.folder) == parts_of(serial)


def test_no_cut_changes_the_rows(folder, serial, tmp_path, monkeypatch):
    """Find the same in shards of another length."""
    monkeypatch.setattr(engine, "SHARDS", 5)
    run = find(folder, tmp_path / "run")

    assert len(parts_of(run.folder)) == 3 * 5
    for table in ("frames", "contacts", "impacts"):
        assert read_table(run.folder, table) == read_table(serial, table)


def test_other_runs_have_no_such_columns(folder, serial, tmp_path):
    """Leave tables and manifest of a run without the option as they are, and refuse to mix both in a folder."""
    plain = find(folder, tmp_path / "run", continuous=False)
    manifest = json.loads((plain.folder / "manifest.json").read_text())

    assert plain.frames().column_names == PLAIN_COLUMNS
    assert {path.split("/")[0] for path in parts_of(plain.folder)} == {"contacts", "frames"}
    assert plain.frames() == read_table(serial, "frames").select(PLAIN_COLUMNS), "errors of bad frames included"
    assert plain.contacts() == read_table(serial, "contacts")
    assert list(manifest["totals"]) == ["frames", "colliding", "contacts", "self_contacts", "bad"]
    assert "continuous" not in manifest
    assert plain.impacts() is None
    assert between_frames(plain) is None
    with pytest.raises(impinge.OptionError, match="holds a run on other bodies, frames or options"):
        find(folder, tmp_path / "run")
    with pytest.raises(impinge.OptionError, match="continuous is 'yes', expected True or False"):
        find(folder, continuous="yes")


def test_bodies_that_touch_are_not_tunnelled():
    """Count pairs that meet at the start apart, and call neither a contact nor a body inside another tunnelling."""
    box, other = shapes.box(1.0), shapes.box(1.0, center=(0.0, 0.0, 3.0))
    z = (2.0, 5.0, 2.0, -2.0, -1.0, -2.0, -2.0)  # touches, apart, touches, through, apart, ...
    frames = np.stack([box.vertices + height * np.eye(3)[2] for height in z])
    run = map_frames(box, frames, other, continuous=True)
    table = run.frames().to_pylist()
    inner = np.stack([0.1 * box.vertices, 0.1 * box.vertices + [0.2, 0.0, 0.0], 0.1 * box.vertices + 5.0])
    nested = map_frames(box, inner, box, continuous=True).frames().to_pylist()

    assert [row["relation"] for row in table[:4]] == ["touching", "disjoint", "touching", "disjoint"]
    assert not any(row["tunnelled"] for row in table)
    assert table[1]["at_start"] > 0
    assert table[3]["at_start"] > 0
    assert [row["impacts"] for row in table[4:]] == [0, 0, 0]
    assert [row["impacts"] > 0 for row in nested[1:]] == [False, True]
    assert [row["tunnelled"] for row in nested[1:]] == [False, False]


def test_tunnelling_is_a_collision():
    """Let a run be true if bodies only meet between frames; find the impacts of a motion again."""
    sheet, heights = shapes.cloth_grid(4, 4), (1.0, 0.5, -0.3, -1.0)
    frames = np.stack([0.5 * ball().vertices + [0.013, 0.007, z] for z in heights])
    run = map_frames(ball(), frames, sheet, continuous=True)
    (found,) = run.impacts_at(2)
    first = float(run.frames().column("first_impact")[2])

    assert bool(run)
    assert (run.totals["colliding"], run.totals["tunnelled"]) == (0, 1)
    assert not map_frames(ball(), frames, sheet)
    assert len(found) == run.totals["impacts"] == run.impacts().num_rows > 0
    assert first == 1.0 + found.time_lo[0] == pytest.approx(1.0 + (0.5 - 0.1) / 0.8, abs=0.02)
    words = f"{len(found)} impacts between frames, 1 frame tunnelled (the first between frames 1 and 2, at 1.5)"
    assert between_frames(run) == words
    for wrong in (0, 4):
        with pytest.raises(impinge.OptionError, match=rf"frame is {wrong}, expected"):
            run.impacts_at(wrong)


def test_tets_and_stl_between_frames(tmp_path):
    """Take tet meshes by their surface, and stl frames by the welded vertices of the body."""
    box, sheet = shapes.tet_box(1, 1, 1, size=0.2), shapes.cloth_grid(4, 4)
    heights = 0.5, -0.5
    tets = map_frames(box, [box.vertices + np.array([0.013, 0.007, z]) for z in heights], sheet, continuous=True)
    for frame, z in enumerate(heights):
        x = ball().vertices + np.array([0.013, 0.007, z])
        impinge.save(impinge.TriMesh(x, ball().faces), tmp_path / f"f{frame}.stl")
    welded = map_frames(tmp_path / "f0.stl", tmp_path, sheet, continuous=True)

    for run in (tets, welded):
        assert run.frames().column("tunnelled").to_pylist() == [None, True]
        assert float(run.frames().column("first_impact")[1]) == pytest.approx(0.4 if run is tets else 0.3, abs=0.05)


@pytest.mark.parametrize(
    ("time", "words"),
    [(0.0, "0"), (120.0, "120"), (12.37, "12.37"), (12.3699998, "12.37"), (100.25, "100.25"), (3.14e-6, "0.0000031")],
)
def test_times_are_short_and_never_zero_by_rounding(time, words):
    """Print times in frames with four decimals, and more just after a frame."""
    assert frame_time(time) == words


# the command --------------------------------------------------------------------------------------------


def test_command_reports_tunnelling(tmp_path):
    """Print impacts, tunnelled frames and the first time as text, JSON, csv, npz and html; exit with 1."""
    sheet, body = shapes.cloth_grid(4, 4), ball()
    impinge.save(sheet, tmp_path / "sheet.ply")
    impinge.save(body, tmp_path / "ball.ply")
    x = np.stack([0.5 * body.vertices + [0.013, 0.007, z] for z in (1.0, 0.5, -0.5, -1.0, 0.4)])
    np.savez(tmp_path / "frames.npz", V=x, F=body.faces)
    base = ("sequence", "ball.ply", "frames.npz", "--against", "sheet.ply", "--continuous")
    text = run_command(*base, "--out", "found.csv", "--html", "report.html", cwd=tmp_path)
    run_command(*base, "--out", "found.npz", cwd=tmp_path)
    as_json = json.loads(run_command(*base, "--json", cwd=tmp_path).stdout)
    run = map_frames(body, x, sheet, continuous=True)
    times = run.frames().column("first_impact").to_pylist()
    lines = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in text.stdout.splitlines())
    with (tmp_path / "found.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    page = (tmp_path / "report.html").read_text()

    assert (text.returncode, text.stderr) == (cli.COLLIDING, "")
    assert lines["colliding"] == "0"
    assert lines["between frames"] == as_json["between_frames"] == between_frames(run)
    assert "2 frames tunnelled (the first between frames 1 and 2, at 1." in lines["between frames"]
    assert [row["frame"] for row in as_json["tunnelled_frames"]] == [2, 4]
    assert [row["first_impact"] for row in as_json["tunnelled_frames"]] == [times[2], times[4]]
    assert as_json["impacts"] == run.totals["impacts"]
    assert [row["tunnelled"] for row in table] == ["", "False", "True", "False", "True"]
    assert [float(row["first_impact"] or "nan") for row in table] == pytest.approx(
        [np.nan, np.nan, times[2], np.nan, times[4]], nan_ok=True
    )
    assert "0 of 5 frames collide, 2 frames tunnelled" in page
    assert between_frames(run) in page
    assert "tunnelled frame</th>" in page
    assert "meet</figcaption>" in page
    with np.load(tmp_path / "found.npz") as archive:
        np.testing.assert_array_equal(archive["impact_frame"], run.impacts().column("frame"))
        assert archive["impact_time"].shape == archive["impact_feature"].shape == (run.totals["impacts"], 2)
        assert archive["impact_vertex"].shape == (run.totals["impacts"], 4)
        assert archive["tunnelled"].tolist() == [False, False, True, False, True]
        np.testing.assert_array_equal(archive["first_impact"], [np.nan, np.nan, times[2], np.nan, times[4]])


def test_command_without_impacts(tmp_path):
    """Say that no frame was tunnelled, and exit with 0."""
    body = ball()
    impinge.save(body, tmp_path / "ball.ply")
    np.savez(tmp_path / "frames.npz", V=np.stack([body.vertices, body.vertices + 1.0]), F=body.faces)
    base = ("sequence", "ball.ply", "frames.npz", "--continuous")
    done = run_command(*base, "--html", "report.html", cwd=tmp_path)

    assert done.returncode == cli.CLEAR
    assert "0 impacts between frames, no frame tunnelled" in done.stdout
    assert "0 impacts between frames, no frame tunnelled" in (tmp_path / "report.html").read_text()
