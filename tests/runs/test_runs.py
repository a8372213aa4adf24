"""Frames and pairs on a real Dask cluster: results equal those of one process, also after kills."""

from __future__ import annotations

import errno
import functools
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import impinge
from dask_cluster import DOOMED, NOTING, PATIENCE, PLAIN, WITHOUT_FILES, WITHOUT_PACKAGE, Cluster, cluster
from impinge import shapes
from impinge.deform.waves import Wave
from impinge.runs import connection, engine, frame_work, frames, map_frames, map_pairs, parts, sources
from impinge.runs.store import read_table

pytest.importorskip("distributed", reason="dask is not installed; pip install 'impinge[cluster]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed; pip install 'impinge[cluster]'")

FRAMES = 96
CORRUPT = 17


@pytest.fixture(autouse=True, scope="module")
def _patience() -> Iterator[None]:
    """Set long timeouts for scheduler and workers; tests of timeouts set their own."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(connection, "CONNECT_SECONDS", PATIENCE)
        monkeypatch.setattr(connection, "WORKER_SECONDS", PATIENCE)
        yield


def shifted(x: np.ndarray, by: tuple[float, float, float]) -> np.ndarray:
    return x + np.array(by)


def moved(ball: impinge.TriMesh, frame: int) -> np.ndarray:
    """Waves, and a way in and out of the other body."""
    return shifted(Wave(0.15, 3.0)(ball.vertices, 0.1 * frame), (0.9 * np.sin(0.13 * frame) - 0.2, 0.0, 0.0))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two bodies, frames of the first, one of which is no mesh."""
    made = tmp_path_factory.mktemp("sequence")
    ball = shapes.icosphere(2)
    impinge.save(ball, made / "a.ply")
    impinge.save(impinge.TriMesh(shifted(ball.vertices, (1.7, 0.2, 0.1)), ball.faces), made / "b.ply")
    (made / "frames").mkdir()
    for frame in range(FRAMES):
        impinge.save(impinge.TriMesh(moved(ball, frame), ball.faces), made / "frames" / f"f{frame}.ply")
    (made / "frames" / f"f{CORRUPT}.ply").write_bytes(b"Dear Sir or Madam,\n")
    return made


def arguments(folder: Path) -> tuple[Path, str, Path]:
    return folder / "a.ply", str(folder / "frames" / "*.ply"), folder / "b.ply"


@pytest.fixture(scope="module")
def serial(folder, tmp_path_factory) -> Path:
    """What one process finds."""
    run = map_frames(*arguments(folder), with_self=True, out=tmp_path_factory.mktemp("serial") / "run", workers=0)
    return run.folder


@pytest.fixture(scope="module")
def dask(tmp_path_factory):
    """A scheduler and two workers."""
    with cluster(tmp_path_factory.mktemp("dask"), PLAIN, PLAIN) as made:
        yield made


class Blind(NamedTuple):
    """Two workers that see no files and note what they get, after one run on them."""

    address: str
    run: frames.FramesRun
    notes: Path


@pytest.fixture(scope="module")
def blind(folder, tmp_path_factory) -> Iterator[Blind]:
    """A scheduler, two workers that see no files, and a run on them."""
    there = tmp_path_factory.mktemp("blind")
    with cluster(there, WITHOUT_FILES + NOTING, WITHOUT_FILES + NOTING) as made:
        out = tmp_path_factory.mktemp("blind-run") / "run"
        run = map_frames(*arguments(folder), with_self=True, out=out, scheduler=made.address)
        shutil.copy(there / "notes.txt", there / "first.txt")
        yield Blind(made.address, run, there)


def parts_of(run: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in sorted(run.rglob("*.parquet"))}


def rows(run: Path, table: str) -> list[dict]:
    return read_table(run, table).to_pylist()


def assert_same(run: Path, expected: Path) -> None:
    """Every part has the same bytes, and nothing is left over."""
    found = parts_of(run)
    assert found == parts_of(expected)
    assert len(found) > 20
    assert not list(run.rglob("*.tmp"))
    assert json.loads((run / "manifest.json").read_text())["state"] == "complete"


# the answer -------------------------------------------------------------------------------------------


def test_frames_are_what_single_queries_find(folder, serial):
    """Find in each frame what ``check`` and ``self_pairs`` find there, and be of both kinds often."""
    frames = rows(serial, "frames")
    contacts = rows(serial, "contacts")
    b = impinge.load(folder / "b.ply")
    colliding = 0
    for row in frames:
        if row["frame"] == CORRUPT:
            continue
        a = impinge.load(folder / "frames" / row["name"])
        report, own = impinge.check(a, b), impinge.self_pairs(a)
        mine = [each for each in contacts if each["frame"] == row["frame"]]
        pairs = [(each["triangle_a"], each["triangle_b"]) for each in mine if not each["is_self"]]
        assert row["relation"] == report.relation
        assert pairs == list(map(tuple, report.pairs.pairs.tolist()))
        assert [each["kind"] for each in mine] == [*report.pairs.kind.tolist(), *own.kind.tolist()]
        assert (row["contacts"], row["self_contacts"]) == (len(report.pairs), len(own))
        colliding += row["collides"]

    assert [row["frame"] for row in frames] == list(range(FRAMES))
    assert 0.2 < colliding / FRAMES < 0.8


def test_corrupt_frame_is_recorded(folder, serial):
    """Record a bad frame with the message of ``load``, and continue."""
    path = folder / "frames" / f"f{CORRUPT}.ply"
    with pytest.raises(impinge.ImpingeError) as error:
        impinge.load(path)
    bad = [row for row in rows(serial, "frames") if row["error"] is not None]

    assert [(row["frame"], row["error"]) for row in bad] == [(CORRUPT, str(error.value))]
    assert bad[0]["contacts"] is None
    assert json.loads((serial / "manifest.json").read_text())["totals"]["bad"] == 1


def test_nested_and_open_bodies(tmp_path):
    """Tell a body inside a body from one beside it, and know no inside of an open one, frame after frame."""
    ball = shapes.icosphere(2)
    hood = impinge.TriMesh(ball.vertices, ball.faces[40:])
    small = impinge.TriMesh(0.2 * ball.vertices, ball.faces)
    frames = np.stack([shifted(0.2 * ball.vertices, (x, 0.0, 0.0)) for x in (0.1, 3.0, 0.2, 0.9)])
    expected = [[impinge.check((x, ball.faces), other).relation for x in frames] for other in (ball, hood)]
    found = [map_frames(small, frames, other).frames().column("relation").to_pylist() for other in (ball, hood)]
    swapped = map_frames(ball, np.stack([ball.vertices]), small).frames().column("relation").to_pylist()

    assert found == expected
    assert expected[0] == ["a in b", "disjoint", "a in b", "overlapping"]
    assert expected[1][0] == "disjoint"
    assert swapped == ["b in a"]


def test_both_bodies_move(tmp_path):
    """Move the other body by frames of its own, from an archive."""
    ball = shapes.icosphere(1)
    still = np.stack([ball.vertices] * 3)
    np.savez(
        tmp_path / "b.npz", V=np.stack([shifted(ball.vertices, (x, 0.03, 0.02)) for x in (1.0, 5.0, 1.5)]), F=ball.faces
    )
    run = map_frames(ball, still, ball, against_frames=tmp_path / "b.npz")

    assert run.frames().column("collides").to_pylist() == [True, False, True]


def test_tets_and_stl(tmp_path):
    """Take tet meshes, and join the vertices of stl frames as those of the body are joined."""
    box = shapes.tet_box(2, 2, 2)
    tets = map_frames(box, np.stack([box.vertices, box.vertices + 9.0]), shapes.icosphere(1))
    ball = shapes.icosphere(1)
    for frame in range(3):
        impinge.save(impinge.TriMesh(ball.vertices * (1.0 + frame), ball.faces), tmp_path / f"f{frame}.stl")
    joined = map_frames(tmp_path / "f0.stl", tmp_path)

    assert tets.frames().column("collides").to_pylist() == [True, False]
    assert joined.frames().column("self_contacts").to_pylist() == [0, 0, 0]
    assert joined.totals["bad"] == 0


# on many workers --------------------------------------------------------------------------------------


def test_two_workers_give_the_same_bytes(folder, serial, dask, tmp_path):
    """Write the same files from two workers as from one process, and say how many workers there are."""
    seen = []
    run = map_frames(
        *arguments(folder), with_self=True, out=tmp_path / "run", scheduler=dask.address, progress=seen.append
    )

    assert_same(run.folder, serial)
    assert run.resumed == 0
    assert max(state.workers for state in seen) == 2
    assert [state.done for state in seen] == sorted(state.done for state in seen)
    assert seen[-1].done == seen[-1].total == FRAMES
    assert seen[-1].contacts == run.totals["contacts"] + run.totals["self_contacts"] > 0


@pytest.mark.parametrize("processes", [pytest.param(True, marks=pytest.mark.slow), False])
def test_workers_of_our_own_give_the_same_bytes(folder, serial, tmp_path, processes):
    """Start processes or threads here, and leave the number of kernel threads as it was."""
    threads = impinge.thread_count()
    run = map_frames(*arguments(folder), with_self=True, out=tmp_path / "run", workers=2, processes=processes)

    assert_same(run.folder, serial)
    assert impinge.thread_count() == threads


@pytest.mark.slow
def test_killed_worker(folder, serial, dask, tmp_path):
    """Lose nothing when a worker is killed in the middle of a task, between two frames."""
    doomed = dask.start_worker(DOOMED)
    run = map_frames(*arguments(folder), with_self=True, out=tmp_path / "run", scheduler=dask.address)

    assert doomed.wait(timeout=PATIENCE) == -signal.SIGKILL
    assert_same(run.folder, serial)


def noted(path: Path) -> list[str]:
    """What workers noted, each with its process."""
    return path.read_text().splitlines()


def test_bodies_travel_once_to_each_worker(folder, serial, blind):
    """Bring a body to a worker once, however many tasks need it, and make its trees there once."""
    frames_notes = noted(blind.notes / "first.txt")
    files = [folder / "frames" / f"f{i}.ply" for i in (40, 41, 42, 43)]
    pairs = map_pairs(files, scheduler=blind.address)
    names = {file.name for file in files}
    parts = [note for note in noted(blind.notes / "notes.txt") if note.split()[-1] in names]

    assert_same(blind.run.folder, serial)
    assert sorted(set(frames_notes)) == sorted(frames_notes)
    assert {note.split()[1] for note in frames_notes} == {"got", "trees"}
    assert len({note.split()[0] for note in frames_notes}) == 2
    assert len(pairs) == 6  # one task each
    assert sorted(set(parts)) == sorted(parts)
    assert {note.split()[2] for note in parts} == names


def test_files_that_workers_do_not_see(folder, serial, blind):
    """Send bodies and frames to workers that do not see the files; a bad frame has the same message."""
    kept = [folder / "frames" / f"f{i}.ply" for i in (0, 1, CORRUPT, 2)]
    far, here = (map_pairs(kept, scheduler=address) for address in (blind.address, None))

    assert_same(blind.run.folder, serial)
    assert far.pairs() == here.pairs()
    assert far.parts() == here.parts()
    assert far.totals["bad"] == 1


def test_worker_without_the_package(folder, tmp_path):
    """Name the worker that has no impinge, and what to install there."""
    with (
        cluster(tmp_path, WITHOUT_PACKAGE) as bare,
        pytest.raises(
            impinge.ClusterError,
            match=r"the worker tcp://127.0.0.1:\d+ has no impinge; run `pip install 'impinge\[cluster\]'`",
        ),
    ):
        map_frames(*arguments(folder), scheduler=bare.address)


def test_scheduler_without_the_package(folder, tmp_path):
    """Name the scheduler that has no impinge: it looks at tasks, too."""
    bare = Cluster(tmp_path, WITHOUT_PACKAGE)
    try:
        bare.start_worker()
        with pytest.raises(
            impinge.ClusterError, match=r"the scheduler at tcp://127.0.0.1:\d+ has no impinge; run `pip"
        ):
            map_frames(*arguments(folder), scheduler=bare.address)
    finally:
        bare.stop()


@pytest.mark.slow
def test_scheduler_that_goes_away(folder, serial, tmp_path, monkeypatch):
    """Raise ClusterError when the scheduler is killed, keep finished shards, and resume without it."""
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 30.0)  # also how long it is looked for when it is gone
    (tmp_path / "dask").mkdir()
    made = Cluster(tmp_path / "dask")
    try:
        made.start_worker()

        def kill(state):
            if state.done > 0:
                made.scheduler.send_signal(signal.SIGKILL)

        with pytest.raises(impinge.ClusterError, match="the connection to the scheduler was lost during the run"):
            map_frames(*arguments(folder), with_self=True, out=tmp_path / "run", scheduler=made.address, progress=kill)
    finally:
        made.stop()
    again = map_frames(*arguments(folder), with_self=True, out=tmp_path / "run", workers=0)

    assert 0 < again.resumed < FRAMES
    assert_same(again.folder, serial)


def test_large_work_takes_all_cores(folder, serial, tmp_path, monkeypatch):
    """Start a worker for each core by default if the work is not small."""
    monkeypatch.setattr(frames, "SMALL", 0)
    seen = []
    run = map_frames(*arguments(folder), with_self=True, out=tmp_path / "run", processes=False, progress=seen.append)
    cores = len(os.sched_getaffinity(0))

    assert_same(run.folder, serial)
    assert max(state.workers for state in seen) == (cores if cores > 1 else 0)


class Recorder:
    """A client that submits nothing and remembers what it was given."""

    def __init__(self):
        self.tasks, self.places = [], []

    def submit(self, _, *args, key, **place):
        """Record the shards of a task under its key, and its worker."""
        if len(args) > 2:
            self.tasks.append((key, [each.number for each in args[3]]))
            self.places.append(place)
        return key


def shard(number: int, nbytes: int = 0) -> frame_work.FrameShard:
    positions = np.zeros(nbytes // 8)
    return frame_work.FrameShard(number, 0, [""], [positions], None)


def work(**options) -> engine.Work:
    return engine.Work(str, str, None, lambda: None, lambda each: each, **options)


def test_tasks_shrink_towards_the_end():
    """Give each task a thread's share of what is left, in order: many at first, one at the end, never too many."""
    client = Recorder()
    tasks = engine._Tasks(client, work(max_shards=6), map(shard, range(60)), 1)
    tasks.fill({"here": 1, "there": 1})
    at_first = len(client.tasks)
    while tasks.in_flight:
        tasks.end(next(iter(tasks.in_flight)), visible=True)
        tasks.fill({"here": 1, "there": 1})
    sizes = [len(numbers) for _, numbers in client.tasks]

    assert at_first == 4
    assert sizes == sorted(sizes, reverse=True)
    assert sizes == [*[6] * 9, 3, 2, 1]
    assert [number for _, numbers in client.tasks for number in numbers] == list(range(60))


def test_every_worker_gets_tasks():
    """Assign tasks to workers in proportion to their threads, but let them move; to no worker while there is none."""
    client = Recorder()
    tasks = engine._Tasks(client, work(), map(shard, range(60)), 1)
    tasks.fill({})
    while tasks.in_flight:
        tasks.end(next(iter(tasks.in_flight)), visible=True)
    tasks.fill({"small": 1, "large": 3})
    unmeant, meant = client.places[:2], client.places[2:]

    assert unmeant == [{}, {}]
    assert all(place["allow_other_workers"] for place in meant)
    assert sorted(place["workers"][0] for place in meant) == ["large"] * 6 + ["small"] * 2


def test_the_worker_with_the_fewest_shards_is_next():
    """Assign a task to the worker with the fewest shards, not the fewest tasks: these end at different times."""
    client = Recorder()
    tasks = engine._Tasks(client, work(max_shards=6), map(shard, range(13)), 1)
    tasks.fill({"here": 1, "there": 1})
    places = [place["workers"][0] for place in client.places]

    assert [len(numbers) for _, numbers in client.tasks] == [6, 4, 2, 1]
    assert places == ["here", "there", "there", "here"]


@pytest.mark.parametrize("named", [True, False])
def test_bodies_in_files_are_named(named):
    """Name files with every task, and submit no task of their own for them; send what is not in files as one."""
    submitted = []
    client = Recorder()
    client.submit = lambda what, *args, key, **_: submitted.append((what, args)) or key
    engine._Tasks(client, work(by_reference=named), map(shard, range(3)), 1).fill({"here": 1})
    shared = [args[1] for what, args in submitted if what is engine._run_task]

    assert len(submitted) == (2 if named else 3)
    assert [isinstance(each, functools.partial) for each in shared] == [named, named]


def test_bodies_are_read_once_by_each_process(folder, monkeypatch):
    """Keep the bodies of a job for its next task, and those of a few jobs only."""
    read = []
    monkeypatch.setattr(frame_work, "template_of", lambda file, **_: read.append(file) or file)
    file = sources.file_ref(folder / "a.ply")
    jobs = [frame_work.FrameBodies(f"job {i}", file, None, True, "auto") for i in range(frame_work.JOBS_CACHED + 1)]
    try:
        first = frame_work.load_bodies(jobs[0])
        assert frame_work.load_bodies(jobs[0]) is first
        assert len(read) == 1
        for job in jobs[1:]:
            frame_work.load_bodies(job)
        assert frame_work.load_bodies(jobs[0]) is not first
        assert len(frame_work._bodies) == frame_work.JOBS_CACHED
    finally:
        frame_work._bodies.clear()


def test_shards_with_invisible_files_are_sent_one_by_one():
    """Requeue the shards of a task whose files are not visible, and send them and all later ones one by one."""
    client = Recorder()
    tasks = engine._Tasks(client, work(max_shards=4), map(shard, range(12)), 1)
    tasks.fill({"here": 1})
    first, numbers = client.tasks[0]
    tasks.end(first, visible=False)
    client.tasks.clear()
    tasks.fill({"here": 1})

    assert numbers == [0, 1, 2, 3]
    assert [numbers for _, numbers in client.tasks] == [[0]]
    assert client.tasks[0][0] != first


def test_bytes_under_way_are_bounded(monkeypatch):
    """Send no more contents than the scheduler should hold, but always something."""
    monkeypatch.setattr(engine, "BYTES_IN_FLIGHT", 1000)
    client = Recorder()
    tasks = engine._Tasks(client, work(), (shard(number, 800) for number in range(9)), 1)
    tasks.fill({"here": 100})
    under_way = len(client.tasks)
    tasks.end(client.tasks[0][0], visible=True)
    tasks.fill({"here": 100})

    assert under_way == 2
    assert len(client.tasks) == 3


def test_no_scheduler(folder, monkeypatch, tmp_path):
    """Raise if no scheduler answers, with the command that starts one; leave no files."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 1.0)
    with pytest.raises(impinge.ClusterError, match=r"no scheduler answers at tcp://127.0.0.1:9 .* `dask scheduler`"):
        map_frames(*arguments(folder), scheduler="tcp://127.0.0.1:9")
    assert not list(tmp_path.iterdir())


def test_no_workers(folder, tmp_path, monkeypatch):
    """Say that the scheduler has no workers, and how to start one."""
    monkeypatch.setattr(connection, "WORKER_SECONDS", 0.2)
    with (
        cluster(tmp_path) as empty,
        pytest.raises(impinge.ClusterError, match=r"has no workers after .* `dask worker tcp:"),
    ):
        map_frames(*arguments(folder), scheduler=empty.address)


def test_packages_that_are_missing(folder, monkeypatch):
    """Name the extra that is missing."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(impinge.MissingExtra, match=r"several workers need dask; install impinge\[cluster\]"):
        map_frames(*arguments(folder), workers=2)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(impinge.MissingExtra, match=r"need pyarrow; install impinge\[cluster\]"):
        map_frames(*arguments(folder))


# going on ---------------------------------------------------------------------------------------------


def test_goes_on_where_it_stopped(folder, serial, tmp_path):
    """Resume after a stop, repeat no finished shard, and end with equal bytes."""

    class Stop(Exception):  # noqa: N818
        pass

    def stop(state):
        if state.done - state.resumed >= 30:
            raise Stop

    for _ in range(3):
        with pytest.raises(Stop):
            map_frames(*arguments(folder), with_self=True, out=tmp_path / "run", workers=0, progress=stop)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*.parquet")}
    run = map_frames(*arguments(folder), with_self=True, out=tmp_path / "run", workers=0)

    assert run.resumed >= 90
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert_same(run.folder, serial)


def test_part_that_was_half_written(folder, serial, tmp_path):
    """Repeat a shard of which only the contacts were written, and remove temporary files."""
    shutil.copytree(serial, tmp_path / "run")
    frames = sorted((tmp_path / "run" / "frames").glob("*.parquet"))
    frames[3].rename(frames[3].with_name(f"{frames[3].name}.99.tmp"))
    run = map_frames(*arguments(folder), with_self=True, out=tmp_path / "run", workers=0)

    assert FRAMES - run.resumed == 3
    assert_same(run.folder, serial)


def test_folder_of_another_run(folder, serial, tmp_path):
    """Refuse to mix two runs, and to write among other files."""
    shutil.copytree(serial, tmp_path / "run")
    with pytest.raises(impinge.OptionError, match="holds a run on other bodies, frames or options"):
        map_frames(*arguments(folder), out=tmp_path / "run")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("")
    with pytest.raises(
        impinge.OptionError, match=r"holds other files \(thesis.tex\) and no run; choose an empty folder"
    ):
        map_frames(*arguments(folder), out=tmp_path / "other")
    (tmp_path / "run" / "manifest.json").write_text("[")
    with pytest.raises(impinge.OptionError, match="is not a manifest of a run"):
        map_frames(*arguments(folder), with_self=True, out=tmp_path / "run")
    with pytest.raises(impinge.FileError, match="cannot be written"):
        map_frames(*arguments(folder), out=folder / "a.ply")


def test_disk_that_is_full(tmp_path, monkeypatch):
    """Raise if a shard cannot be written, leave no partial file, and resume when there is space again."""
    ball = shapes.icosphere(0)

    def fill(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    def no_room(state):
        if state.done == 1:
            monkeypatch.setattr(os, "fsync", fill)

    with pytest.raises(impinge.FileError, match=r"part-000001.parquet cannot be written \(No space left on device\)"):
        map_frames(ball, [ball.vertices] * 3, out=tmp_path / "run", progress=no_room, workers=0)
    monkeypatch.undo()
    assert not list((tmp_path / "run").rglob("*.tmp"))
    run = map_frames(ball, [ball.vertices] * 3, out=tmp_path / "run", workers=0)

    assert (run.resumed, run.totals["frames"]) == (1, 3)


def test_part_that_is_damaged(folder, serial, tmp_path):
    """Name a part that cannot be read, and do it again once it is removed."""
    shutil.copytree(serial, tmp_path / "run")
    damaged = tmp_path / "run" / "frames" / "part-000003.parquet"
    damaged.write_bytes(damaged.read_bytes()[:100])
    with pytest.raises(impinge.FileError, match=r"part-000003.parquet cannot be read .*; remove it and run again"):
        map_frames(*arguments(folder), with_self=True, out=tmp_path / "run", workers=0)
    damaged.unlink()
    run = map_frames(*arguments(folder), with_self=True, out=tmp_path / "run", workers=0)

    assert_same(run.folder, serial)


def test_trees_are_kept_between_runs(monkeypatch):
    """Make bodies and trees once, however many runs of frames there are, and let go of them at the end."""
    made = []
    watch = frame_work.FrameTracker

    def counted(bodies):
        made.append(watch(bodies))
        return made[-1]

    monkeypatch.setattr(frame_work, "FrameTracker", counted)
    ball = shapes.icosphere(2)
    run = map_frames(ball, np.stack([ball.vertices] * 70), ball)

    assert len(list(run.folder.glob("frames/*"))) == 24
    assert len(made) == 1
    assert made[0].query()[1].stats["builds"] == 2
    assert not frame_work._trackers


def test_folder_in_use(folder, tmp_path):
    """Let one process at a time write to a folder."""
    ball = shapes.icosphere(0)

    def again(_):
        map_frames(ball, [ball.vertices], out=tmp_path / "run")

    with pytest.raises(impinge.OptionError, match="another process is writing to"):
        map_frames(ball, [ball.vertices], out=tmp_path / "run", progress=again)


def test_frame_that_changes_in_mid_run(tmp_path):
    """Record an error for a frame that was changed after the frames were listed."""
    ball = shapes.icosphere(0)
    for frame in range(3):
        impinge.save(ball, tmp_path / f"f{frame}.ply")

    def change(state):
        if state.done == 1:
            (tmp_path / "f2.ply").write_bytes(b"")

    errors = map_frames(ball, tmp_path, progress=change, workers=0).frames().column("error").to_pylist()

    assert errors[:2] == [None, None]
    assert "f2.ply was changed or removed during the run" in errors[2]


# bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"workers": -1}, "workers is -1, expected a whole number"),
        ({"scheduler": "nonsense://x"}, "the scheduler is 'nonsense://x', expected an address like tcp://host:8786"),
        ({"workers": 1, "scheduler": "tcp://127.0.0.1:9"}, "both a scheduler and workers were given"),
        ({"frames": []}, "frames is empty, expected at least one frame"),
        ({"frames": 7}, "frames is a int; expected a pattern like"),
        ({"against_frames": [0]}, "against_frames were given without the body"),
        ({"with_self": False}, "nothing to search"),
    ],
)
def test_options_that_make_no_sense(change, message):
    """Refuse contradictory options before any work."""
    ball = shapes.icosphere(0)
    given = {"frames": [ball.vertices], **change}
    with pytest.raises(impinge.OptionError, match=message):
        map_frames(ball, given.pop("frames"), **given)


def test_frames_that_do_not_fit(tmp_path):
    """Record an error for each frame that does not match the body."""
    ball = shapes.icosphere(1)
    impinge.save(shapes.icosphere(0), tmp_path / "f0.ply")
    impinge.save(impinge.TriMesh(ball.vertices, ball.faces[:, ::-1]), tmp_path / "f1.ply")
    impinge.save(ball, tmp_path / "f2.ply")
    files = map_frames(ball, [tmp_path / f"f{i}.ply" for i in range(4)]).frames().column("error").to_pylist()
    given = map_frames(ball, [ball.vertices[:5], "x", np.full((42, 3), np.nan), ball.vertices])

    assert "f0.ply has 12 vertices, but a has 42" in files[0]
    assert "f1.ply has other elements than a" in files[1]
    assert files[2] is None
    assert "f3.ply does not exist" in files[3]
    assert [error is None for error in given.frames().column("error").to_pylist()] == [False, False, False, True]


# many parts -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def parts_folder(tmp_path_factory) -> Path:
    """Balls in a row, a small one inside the first, an open sheet through the last, a file that is no mesh."""
    made = tmp_path_factory.mktemp("parts")
    ball = shapes.icosphere(1)
    for i in range(5):
        impinge.save(
            impinge.TriMesh(shifted(0.6 * ball.vertices, (i, 0.07 * i, 0.05 * i)), ball.faces), made / f"ball{i}.ply"
        )
    impinge.save(impinge.TriMesh(0.6 * ball.vertices - 1.0, ball.faces), made / "corner.ply")  # in the box, not there
    impinge.save(impinge.TriMesh(0.1 * ball.vertices, ball.faces), made / "pea.obj")
    (made / "below").mkdir()
    sheet = impinge.TriMesh([[4.1, -1, -1], [4.1, 2, -1], [4.1, 0, 2]], [[0, 1, 2]])
    impinge.save(sheet, made / "below" / "sheet.off")
    (made / "prose.stl").write_bytes(b"")
    return made


def test_pairs_are_what_single_queries_find(parts_folder, dask, tmp_path):
    """Find the pairs that ``check`` finds among all, with volumes and depths, in one process and on two workers."""
    run = map_pairs(parts_folder, out=tmp_path / "here")
    far = map_pairs(parts_folder, out=tmp_path / "far", scheduler=dask.address)
    names = [row["name"] for row in run.parts().to_pylist() if row["error"] is None]
    found = {(row["name_a"], row["name_b"]): row for row in run.pairs().to_pylist() if row["collides"]}
    expected = {}
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            report = impinge.check(parts_folder / a, parts_folder / b)
            if report:
                expected[a, b] = report

    assert parts_of(tmp_path / "far") == parts_of(tmp_path / "here")
    assert far.totals == run.totals
    assert {pair: (row["relation"], row["contacts"]) for pair, row in found.items()} == {
        pair: (report.relation, len(report.pairs)) for pair, report in expected.items()
    }
    assert {row["relation"] for row in found.values()} == {"overlapping", "crossing", "b in a"}
    for pair, report in expected.items():
        whole = report.to_dict()
        assert (found[pair]["volume"], found[pair]["depth"]) == (whole["overlap_volume"], whole["depth"])
    assert len(found) < run.totals["near"] < len(names) * (len(names) - 1) / 2
    assert run.totals["bad"] == 1
    assert found["ball0.ply", "ball1.ply"]["volume"] > 0.0
    assert found["ball0.ply", "ball1.ply"]["depth"] > 0.0
    sheet = next(row for pair, row in found.items() if "below/sheet.off" in pair)
    assert sheet["volume"] is None


def test_pairs_go_on(parts_folder, tmp_path):
    """Go on with pairs after a stop, and redo none."""

    class Stop(Exception):  # noqa: N818
        pass

    def stop(state):
        if state.done == 2:
            raise Stop

    with pytest.raises(Stop):
        map_pairs(parts_folder, out=tmp_path / "run", progress=stop, workers=0)
    run = map_pairs(parts_folder, out=tmp_path / "run", workers=0)

    assert run.resumed == 2
    assert parts_of(run.folder) == parts_of(map_pairs(parts_folder, out=tmp_path / "fresh", workers=0).folder)


def test_parts_that_make_no_sense(tmp_path):
    """Refuse a folder without parts, and what is no folder."""
    with pytest.raises(impinge.OptionError, match="holds 0 parts, expected at least two"):
        map_pairs(tmp_path)
    with pytest.raises(impinge.FileError, match="is not a folder, expected one with the mesh files"):
        map_pairs(tmp_path / "missing")
    with pytest.raises(impinge.OptionError, match="parts is a int, expected a folder"):
        map_pairs(7)
    with pytest.raises(impinge.OptionError, match="resolution is 0, expected a whole number from 1"):
        map_pairs(tmp_path, resolution=0)


SCENE = """
ignore = [["pin", "hub"]]

[[body]]
file = "ball.ply"
name = "hub"
[[body]]
file = "ball.ply"
name = "wheel"
scale = 0.5
rotation = { axis = [1, 2, 3], degrees = 40 }
position = [1.2, 0.1, 0.05]
[[body]]
name = "pin"
shape = { kind = "icosphere", subdivisions = 1, radius = 0.3 }
position = [0.9, 0.0, 0.0]
[[body]]
name = "ghost"
file = "ball.ply"
group = 2
collides_with = 2
"""


@pytest.fixture
def scene(tmp_path) -> Path:
    """A scene file with placed meshes, a shape, an ignored pair, and a body of another group."""
    impinge.save(shapes.icosphere(2), tmp_path / "ball.ply")
    (tmp_path / "scene.toml").write_text(SCENE)
    return tmp_path / "scene.toml"


def test_parts_of_a_scene_file(scene, dask, blind, tmp_path):
    """Put parts where a scene file puts them, leave out whom it ignores, and find what ``check`` finds."""
    run = map_pairs(scene, out=tmp_path / "here")
    map_pairs(scene, out=tmp_path / "far", scheduler=dask.address)
    map_pairs(scene, out=tmp_path / "sent", scheduler=blind.address)
    bodies = {body.name: body.load() for body in impinge.read_scene(scene).bodies}
    rows = {(row["name_a"], row["name_b"]): row for row in run.pairs().to_pylist()}

    assert [row["name"] for row in run.parts().to_pylist()] == ["hub", "wheel", "pin", "ghost"]
    assert sorted(rows) == [("hub", "wheel"), ("wheel", "pin")]
    for (a, b), row in rows.items():
        report = impinge.check(bodies[a], bodies[b])
        assert (row["relation"], row["contacts"]) == (report.relation, len(report.pairs))
        assert row["volume"] == impinge.overlap_volume(bodies[a], bodies[b], rule="winding").volume > 0.0
        assert row["depth"] == report.to_dict()["depth"] > 0.0
    assert len(run.at(0, 1)) == rows["hub", "wheel"]["contacts"]
    assert parts_of(tmp_path / "far") == parts_of(tmp_path / "sent") == parts_of(tmp_path / "here")


def test_scene_that_changed_is_another_run(scene, tmp_path):
    """Refuse to resume with a scene whose poses or ignored pairs differ from those of the run."""
    map_pairs(scene, out=tmp_path / "run")
    scene.write_text(SCENE.replace("degrees = 40", "degrees = 41"))
    with pytest.raises(impinge.OptionError, match="holds a run on other bodies, frames or options"):
        map_pairs(scene, out=tmp_path / "run")
    scene.write_text(SCENE.replace('["pin", "hub"]', '["pin", "wheel"]'))
    with pytest.raises(impinge.OptionError, match="holds a run on other bodies, frames or options"):
        map_pairs(scene, out=tmp_path / "run")


def test_part_that_changes_in_mid_run(scene, tmp_path):
    """Record a part that was changed after the parts were listed, in every pair that needs it."""

    def change(state):
        if state.done == 0:
            (scene.parent / "ball.ply").write_bytes(b"")
            parts._cache.clear()

    errors = map_pairs(scene, progress=change, workers=0).pairs().column("error").to_pylist()

    assert len(errors) == 2
    assert all("ball.ply was changed or removed during the run" in error for error in errors)


def test_parts_that_are_bodies():
    """Take bodies that are in memory, far apart or not."""
    ball = shapes.icosphere(1)
    run = map_pairs([ball, (shifted(ball.vertices, (0.5, 0.1, 0.2)), ball.faces), (ball.vertices + 50.0, ball.faces)])
    alone = map_pairs([ball, (ball.vertices + 50.0, ball.faces)])

    assert run.totals["near"] == run.totals["colliding"] == 1
    assert len(run.at(0, 1)) == run.totals["contacts"] > 0
    assert (len(alone), bool(alone), len(alone.pairs())) == (0, False, 0)
