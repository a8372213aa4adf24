"""The cost of a sequence on one worker and on two, by process, and an extrapolation to many workers.

Scene      300 frames of two bumpy spheres of 82k triangles, a ply file each; the first body moves, the second is fixed.
Processes  A real ``dask scheduler``, and one and two real ``dask worker`` processes of one thread each, kernels too,
           after one untimed run. The claim: two workers on two cores are at least 1.7 times as fast.
Shares     Processor time of workers, scheduler and client in each run; of a frame also by stage, in this process.
Single     costs for the extrapolation: an empty task, a byte to a worker and a byte back, a frame listed, as processor
           time; and a part written to disk.
Agreement  Every run must write the bytes that this process writes.

``cluster_costs`` computes the extrapolation.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import pickle
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

from benchmarks.cluster_costs import Costs, calculated, draw
from benchmarks.dask_processes import DaskProcesses, dask_processes
from benchmarks.measure import Candidate, Row, interleave, row_of, threads, timed
from benchmarks.papers.experiment import Experiment, Plot, Table, judged
from impinge.deform.waves import Wave
from impinge.mesh import shapes
from impinge.mesh.body import save
from impinge.mesh.tri_mesh import TriMesh
from impinge.runs import map_frames
from impinge.runs.connection import quiet
from impinge.runs.engine import OnDask, Shard, ShardResult, Work
from impinge.runs.frame_work import FrameBodies, FrameShard, FrameTracker, query_frames
from impinge.runs.sources import frames_of, positions_in, template_of
from impinge.runs.store import Store

FRAMES, FRAMES_QUICK = 300, 6
LEVEL, LEVEL_QUICK = 6, 2
"""Subdivisions of the sphere: 81,920 triangles, or 320."""
ROUNDS = 5
WANTED = 1.7
"""Times as fast on two workers as on one."""
PAYLOAD = 8_000_000
"""Bytes of a message that is timed."""
EMPTY_TASKS = 100
WHO = ("workers", "scheduler", "client")


def run(*, quick: bool = False) -> Experiment | list[Row]:
    """Time one worker and two alternately, then stages and single costs; extrapolate."""
    missing = [name for name in ("distributed", "pyarrow") if importlib.util.find_spec(name) is None]
    if missing:
        note = f"{missing[0]} is not installed; pip install impinge[cluster]"
        return [Row("sequence", "one worker", math.nan, math.nan, math.nan, note)]
    with quiet(), tempfile.TemporaryDirectory(prefix="impinge-bench-") as name:
        folder = Path(name)
        sequence = _write_frames(folder, FRAMES_QUICK if quick else FRAMES, LEVEL_QUICK if quick else LEVEL)
        with contextlib.ExitStack() as stack:
            clusters = {count: stack.enter_context(dask_processes(count)) for count in (1, 2)}
            timed = _time_workers(sequence, folder, clusters, rounds=1 if quick else ROUNDS)
            stages = _stages(sequence)
            costs, single = _single_costs(sequence, folder, clusters[1], timed, stages, quick=quick)
    rows = [*timed.rows(sequence), *_stage_rows(stages), *single]
    return _experiment(sequence, rows, timed, costs, quick=quick)


@dataclass(frozen=True)
class _Sequence:
    body: Path
    other: Path
    pattern: str
    count: int
    triangles: int
    file_bytes: int
    """Bytes of the file of a frame."""
    sent_bytes: int
    """Bytes of the positions of a frame."""
    face_bytes: int

    @property
    def scene(self) -> str:
        return f"{self.count} frames, {self.triangles / 1e3:.3g}k x {self.triangles / 1e3:.3g}k"


def _write_frames(folder: Path, count: int, level: int) -> _Sequence:
    body = shapes.bumpy_sphere(level)
    wave = Wave(0.1, 3.0)
    save(body, folder / "a.ply")
    save(TriMesh(body.vertices + 0.7, body.faces), folder / "b.ply")
    (folder / "frames").mkdir()
    for i in range(count):
        save(TriMesh(wave(body.vertices, 0.05 * i), body.faces, validate="trust"), folder / "frames" / f"f{i}.ply")
    pattern = str(folder / "frames" / "*.ply")
    size = (folder / "a.ply").stat().st_size
    return _Sequence(
        folder / "a.ply", folder / "b.ply", pattern, count, len(body), size, body.vertices.nbytes, body.faces.nbytes
    )


# one worker and two -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Timed:
    """Times of all rounds, by the number of workers."""

    wall: dict[int, list[float]]
    """Milliseconds of a run."""
    cpu: dict[int, list[dict[str, float]]]
    """Milliseconds of processor time of each, "workers", "scheduler" and "client"."""
    named: float
    """Bytes of a reference to a frame."""
    returned: float
    """Bytes that come back for a frame."""

    def least_cpu(self, count: int) -> dict[str, float]:
        """Processor time of the round with the minimum."""
        return min(self.cpu[count], key=lambda each: sum(each.values()))

    @property
    def speed_up(self) -> float:
        return min(self.wall[1]) / min(self.wall[2])

    def rows(self, sequence: _Sequence) -> list[Row]:
        rows = []
        for count, taken in self.wall.items():
            least, name = min(taken), "one worker" if count == 1 else f"{count} workers"
            speed = min(self.wall[1]) / least
            note = f"{least / sequence.count:.2f} ms per frame, {speed:.2f} times as fast as one worker"
            rows.append(row_of(sequence.scene, name, taken, min(self.wall[1]), note))
        for count in self.cpu:
            spent = self.least_cpu(count)
            for who in WHO:
                each = [cpu[who] / sequence.count for cpu in self.cpu[count]]
                share = spent[who] / max(sum(spent.values()), 1e-9)
                rows.append(Row(
                    f"processor time per frame, {count} at work", who, min(each), statistics.median(each), share,
                    f"{100 * share:.0f}% of all processor time",
                ))  # fmt: skip
        return rows


def _time_workers(sequence: _Sequence, folder: Path, clusters: dict[int, DaskProcesses], *, rounds: int) -> _Timed:
    expected = _parts(_timed(sequence, folder, None)[1])
    wall: dict[int, list[float]] = {count: [] for count in clusters}
    cpu: dict[int, list[dict[str, float]]] = {count: [] for count in clusters}

    def measure(cluster: DaskProcesses, _: object) -> tuple[float, Path, dict[str, float]]:
        before = cluster.cpu_seconds()
        taken, found = _timed(sequence, folder, cluster.address)
        after = cluster.cpu_seconds()
        return taken, found, {who: 1e3 * (after[who] - before[who]) for who in WHO}

    # the warm-up imports, loads kernels, and reads files into the cache of the system
    candidates = [Candidate(str(count), partial(measure, cluster)) for count, cluster in clusters.items()]
    for samples in interleave(candidates, [None], rounds=rounds):
        for count, (sample,) in zip(clusters, samples):
            taken, found, spent = sample.answer
            if _parts(found) != expected:
                raise AssertionError(f"{count} workers found other contacts than this process")
            wall[count].append(taken)
            cpu[count].append(spent)
    frames = frames_of(sequence.pattern)
    named = len(pickle.dumps(FrameShard(0, 0, frames.names, frames.items, None))) / sequence.count
    return _Timed(wall, cpu, named, sum(map(len, expected.values())) / sequence.count)


def _timed(sequence: _Sequence, folder: Path, scheduler: str | None) -> tuple[float, Path]:
    """Milliseconds of a whole run, and its folder."""
    out = Path(tempfile.mkdtemp(dir=folder)) / "run"
    workers = 0 if scheduler is None else None
    find = partial(map_frames, sequence.body, sequence.pattern, sequence.other)
    ms, _ = timed(lambda: find(out=out, scheduler=scheduler, workers=workers))
    return ms, out


def _parts(run_folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run_folder)): path.read_bytes() for path in sorted(run_folder.rglob("*.parquet"))}


# stages of a frame ------------------------------------------------------------------------------------


def _stages(sequence: _Sequence) -> dict[str, float]:
    """Milliseconds of processor time that a frame takes in each stage, on one thread; the least of all frames."""
    with threads(1):
        a, b = (template_of(path, name="the body") for path in (sequence.body, sequence.other))
        frames = frames_of(sequence.pattern)
        bodies = FrameBodies("bench", a, b, with_self=False, weld="auto")
        tracker = FrameTracker(bodies)
        stages: dict[str, list[float]] = {"read the file": [], "update": [], "find pairs": []}
        for item in frames.items:
            read_ms, x = timed(partial(positions_in, item, a), process_time)
            update_ms, _ = timed(partial(tracker.move, x, None), process_time)
            find_ms, _ = timed(tracker.query, process_time)
            for taken, ms in zip(stages.values(), (read_ms, update_ms, find_ms)):
                taken.append(ms)
        found = {name: statistics.median(taken) for name, taken in stages.items()}
        count = min(10, len(frames))
        whole = FrameShard(0, 0, frames.names[:count], frames.items[:count], None)
        first_ms, again_ms = (timed(lambda: query_frames(bodies, whole), process_time)[0] for _ in range(2))
        found["rows and Parquet"] = max(again_ms / count - sum(found.values()), 0.0)
        found["trees, once for a worker"] = max(first_ms - again_ms, 0.0)  # the first call builds them
        return found


def _stage_rows(stages: dict[str, float]) -> list[Row]:
    of_frame = {name: taken for name, taken in stages.items() if "once" not in name}
    total = max(sum(of_frame.values()), 1e-9)
    return [
        Row("stages of a frame, processor time", name, taken, taken, taken / total,
            f"{100 * taken / total:.0f}% of a frame" if name in of_frame else "not part of a frame")
        for name, taken in stages.items()
    ]  # fmt: skip


# single costs -----------------------------------------------------------------------------------------


def _no_bodies(_: None) -> None:
    """Nothing is shared."""


def _no_work(_: None, unit: Shard) -> ShardResult:
    return ShardResult(unit.number, {}, {})


def _same_unit(unit: Shard) -> Shard:
    return unit


def _single_costs(
    sequence: _Sequence,
    folder: Path,
    cluster: DaskProcesses,
    timed: _Timed,
    stages: dict[str, float],
    *,
    quick: bool,
) -> tuple[Costs, list[Row]]:
    size, tasks, rounds = (PAYLOAD // 100, 10, 2) if quick else (PAYLOAD, EMPTY_TASKS, 10)
    scene = "single costs"
    with cluster.client() as client:
        work = Work(_no_bodies, _no_work, None, lambda: None, _same_unit)
        engine = OnDask(client, threads_each=1)

        def empty() -> None:
            for _ in engine.stream(work, [Shard(number) for number in range(tasks)]):
                pass

        task, of_tasks = _spent(cluster, empty, rounds)
        task, of_task = [each / tasks for each in task], {who: each / tasks for who, each in of_tasks.items()}
        there, of_there = _spent(cluster, lambda: client.submit(len, bytes(size), pure=False).result(), rounds)
        back, of_back = _spent(cluster, lambda: client.submit(bytes, size, pure=False).result(), rounds)
    store = Store(folder / "parts", {"job": "bench"})
    part = _times(lambda: store.commit(0, {"contacts": bytes(200_000), "frames": bytes(4_000)}), rounds)
    store.close()
    listed = [
        each / sequence.count
        for each in _times(lambda: frames_of(sequence.pattern).digest(), rounds, clock=process_time)
    ]

    def per_byte(spent: dict[str, float]) -> float:
        """Of client or scheduler, whichever has more to do."""
        return max(max(spent[who] - of_task[who], 0.0) for who in ("client", "scheduler")) / size

    costs = Costs(
        frame=timed.least_cpu(1)["workers"] / sequence.count,
        scheduler_task=of_task["scheduler"],
        client_task=of_task["client"],
        part=min(part),
        listed=min(listed),
        read=stages["read the file"],
        sent_byte=per_byte(of_there),
        returned_byte=per_byte(of_back),
        sent=sequence.sent_bytes,
        returned=timed.returned,
    )

    def row(name: str, taken: list[float], note: str) -> Row:
        return row_of(scene, name, taken, min(task), note)

    def processors(spent: dict[str, float]) -> str:
        return "processor time: " + ", ".join(f"{who} {spent[who]:.2g} ms" for who in WHO)

    return costs, [
        row("empty task", task, processors(of_task)),
        row(
            "message to a worker", there, f"{size / 1e6:g} MB, {1e6 * costs.sent_byte:.2g} ns/B; {processors(of_there)}"
        ),
        row("message back", back, f"{size / 1e6:g} MB, {1e6 * costs.returned_byte:.2g} ns/B; {processors(of_back)}"),
        row("part written", part, "two files, 204 kB, synchronised to disk"),
        row("frame listed", listed, "processor time; found and stamped by the client before the work"),
    ]


def _times(run: Callable[[], object], rounds: int, **clock: Callable[[], float]) -> list[float]:
    """Milliseconds of each round, after an untimed one."""
    run()
    return [timed(run, **clock)[0] for _ in range(rounds)]


def _spent(cluster: DaskProcesses, do: Callable[[], object], rounds: int) -> tuple[list[float], dict[str, float]]:
    """Milliseconds of each round, and of processor time that each process spends on one, the mean of all."""
    do()
    before = cluster.cpu_seconds()
    times = _times(do, rounds)
    after = cluster.cpu_seconds()
    return times, {who: 1e3 * (after[who] - before[who]) / (rounds + 1) for who in WHO}


# what follows -----------------------------------------------------------------------------------------


def _experiment(sequence: _Sequence, rows: list[Row], timed: _Timed, costs: Costs, *, quick: bool) -> Experiment:
    claims = [
        judged(
            f"Two workers on two cores are at least {WANTED} times as fast as one.",
            f"{timed.speed_up:.2f} times, {min(timed.wall[1]) / sequence.count:.2f} and "
            f"{min(timed.wall[2]) / sequence.count:.2f} ms per frame.",
            timed.speed_up >= WANTED,
        )
    ]
    return Experiment(
        "cluster_speed", "Sequences on one worker and on two", PROTOCOL.format(scene=sequence.scene), rows, claims,
        [_moved(sequence, timed), *calculated(costs)], Plot((8.0, 3.6), lambda figure: draw(figure, costs)),
        quick=quick, source="claim",
    )  # fmt: skip


PROTOCOL = """
{scene} triangles, a binary ply file per frame; the first body moves. A `dask scheduler` and one and two
`dask worker` processes of one thread run on this machine, with the settings that `docs/scale.md` advises; runs on one
and on two alternate, and each writes the bytes that a single process writes. Shares of processor time are those of the
round with the minimum. The last tables are extrapolated from the single costs, not measured. The extrapolation leaves
out file systems that serve many readers at once, networks slower than loopback, workers that start late, and the first
run on each worker, which imports the package and loads or compiles kernels.
"""


def _moved(sequence: _Sequence, timed: _Timed) -> Table:
    rows: list[tuple[Any, ...]] = [
        ("read from the file by a worker", sequence.file_bytes),
        ("to a worker that sees the file: its name and stamp", round(timed.named)),
        ("to a worker that does not: positions", sequence.sent_bytes),
        ("back: rows and contacts as Parquet", round(timed.returned)),
        (
            "once to each worker: two bodies, where it does not see them",
            2 * (sequence.sent_bytes + sequence.face_bytes),
        ),
    ]
    return Table("bytes", "Bytes moved per frame", ("what", "bytes"), rows)
