"""What a sequence costs on one worker and on two, what moving bytes costs, and what follows for many workers.

Scene      frames of two bumpy spheres of 82k triangles, a ply file each; the first body moves, the second stands still.
Workers    Dask workers on this machine, processes of one thread each, kernels too, started and warmed up before.
           The claim: two workers on two cores are at least 1.7 times as fast as one.
Single     costs, which a calculation for more machines needs: an empty task, a byte on its way to a worker and back,
           a part written to the disk.
Agreement  Every run must write the bytes that this process writes.

``Costs.hours`` is the calculation: the slowest of what workers, scheduler and client have to do, for they work at the
same time.
"""

from __future__ import annotations

import importlib.util
import math
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from impinge.bench.measure import Row
from impinge.cluster import map_frames
from impinge.cluster.engine import Answer, local_cluster, quiet
from impinge.cluster.frames import LONGEST_RUN
from impinge.cluster.store import Store
from impinge.deform.waves import Wave
from impinge.mesh import shapes
from impinge.mesh.body import save
from impinge.mesh.tri_mesh import TriMesh

FRAMES, FRAMES_QUICK = 300, 6
LEVEL, LEVEL_QUICK = 6, 2
"""Subdivisions of the sphere: 81,920 triangles, or 320."""
ROUNDS = 3
PAYLOAD = 8_000_000
"""Bytes of a message that is timed."""
EMPTY_TASKS = 200
LONG_SEQUENCE = 1_000_000
"""Frames of the calculation."""
MANY_WORKERS = (1, 10, 100, 1000)
SCENE = "{count} frames, {triangles:.3g}k x {triangles:.3g}k"


def run(*, quick: bool = False) -> list[Row]:
    """Time one worker and two in turns, then the single costs; calculate the rest."""
    missing = [name for name in ("distributed", "pyarrow") if importlib.util.find_spec(name) is None]
    if missing:
        note = f"{missing[0]} is not installed; pip install impinge[cluster]"
        return [Row("sequence", "one worker", math.nan, math.nan, math.nan, note)]
    with quiet(), tempfile.TemporaryDirectory(prefix="impinge-bench-") as name:
        folder = Path(name)
        sequence = _write_frames(folder, FRAMES_QUICK if quick else FRAMES, LEVEL_QUICK if quick else LEVEL)
        rows, frame_ms, returned = _time_workers(sequence, folder, rounds=1 if quick else ROUNDS)
        costs, cost_rows = _single_costs(folder, frame_ms, returned, sequence.sent_bytes, quick=quick)
    return [*rows, *cost_rows, *_calculated(costs)]


@dataclass(frozen=True)
class _Sequence:
    body: Path
    other: Path
    pattern: str
    count: int
    triangles: int
    sent_bytes: int
    """Bytes of the positions of a frame."""


def _write_frames(folder: Path, count: int, level: int) -> _Sequence:
    body = shapes.bumpy_sphere(level)
    wave = Wave(0.1, 3.0)
    save(body, folder / "a.ply")
    save(TriMesh(body.vertices + 0.7, body.faces), folder / "b.ply")
    (folder / "frames").mkdir()
    for i in range(count):
        save(TriMesh(wave(body.vertices, 0.05 * i), body.faces, validate="trust"), folder / "frames" / f"f{i}.ply")
    pattern = str(folder / "frames" / "*.ply")
    return _Sequence(folder / "a.ply", folder / "b.ply", pattern, count, len(body), body.vertices.nbytes)


def _time_workers(sequence: _Sequence, folder: Path, *, rounds: int) -> tuple[list[Row], float, float]:
    """Rows of one and two workers, the milliseconds of a frame on one, and the bytes that come back for a frame."""
    expected = _parts(_timed(sequence, folder, None)[1])
    times: dict[int, list[float]] = {1: [], 2: []}
    clusters = {count: local_cluster(count) for count in times}
    try:
        for turn in range(1 + rounds):  # the first warms up: imports, kernels, files in the cache of the system
            for count, cluster in clusters.items():
                taken, found = _timed(sequence, folder, cluster.scheduler_address)
                if _parts(found) != expected:
                    raise AssertionError(f"{count} workers found other contacts than this process")
                if turn:
                    times[count].append(taken)
    finally:
        for cluster in clusters.values():
            cluster.close()
    scene = SCENE.format(count=sequence.count, triangles=sequence.triangles / 1e3)
    rows = []
    for count, milliseconds in times.items():
        per_frame = min(milliseconds) / sequence.count
        speed = min(times[1]) / min(milliseconds)
        note = f"{per_frame:.2f} ms per frame, {speed:.2f} times as fast as one worker; reading the file included"
        name = "one worker" if count == 1 else f"{count} workers"
        rows.append(
            Row(
                scene, name, min(milliseconds), statistics.median(milliseconds), min(milliseconds) / min(times[1]), note
            )
        )
    return rows, min(times[1]) / sequence.count, sum(map(len, expected.values())) / sequence.count


def _timed(sequence: _Sequence, folder: Path, scheduler: str | None) -> tuple[float, Path]:
    """Milliseconds of a whole run, and its folder."""
    out = Path(tempfile.mkdtemp(dir=folder)) / "run"
    began = perf_counter()
    workers = 0 if scheduler is None else None
    map_frames(sequence.body, sequence.pattern, sequence.other, out=out, scheduler=scheduler, workers=workers)
    return 1e3 * (perf_counter() - began), out


def _parts(run_folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run_folder)): path.read_bytes() for path in sorted(run_folder.rglob("*.parquet"))}


# single costs -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Costs:
    """What was measured, in milliseconds, and bytes."""

    frame: float
    """A frame on one worker that sees the file, reading included."""
    task: float
    """A task that does nothing: scheduler and client."""
    sent_byte: float
    returned_byte: float
    part: float
    """A part written to the disk of the client."""
    returned: float
    """Bytes that come back for a frame."""
    sent: float
    """Bytes of positions of a frame, where files are not to be seen."""

    def hours(self, workers: int, *, frames: int = LONG_SEQUENCE, sending: bool = False) -> tuple[float, str]:
        """How long a sequence takes, and what limits it."""
        runs = frames / LONGEST_RUN
        moved = self.returned * self.returned_byte + (self.sent * self.sent_byte if sending else 0.0)
        each = {
            "workers": frames * self.frame / workers,
            "scheduler": runs * self.task,
            "client": runs * self.part + frames * moved,
        }
        slowest = max(each, key=lambda who: each[who])
        return each[slowest] / 3.6e6, slowest


def _single_costs(
    folder: Path, frame_ms: float, returned: float, sent: float, *, quick: bool
) -> tuple[Costs, list[Row]]:
    from distributed import Client

    size = PAYLOAD // 100 if quick else PAYLOAD
    tasks = 5 if quick else EMPTY_TASKS
    rounds = 2 if quick else 10
    with local_cluster(1) as cluster, Client(cluster) as client:
        payload = bytes(size)
        empty = _best(lambda: client.gather(client.map(abs, range(tasks), pure=False)), rounds)
        there = _best(lambda: client.submit(len, payload, pure=False).result(), rounds)
        back = _best(lambda: client.submit(bytes, size, pure=False).result(), rounds)
    store = Store(folder / "parts", {"job": "bench"})
    answer = Answer(0, {"contacts": bytes(20_000), "frames": bytes(4_000)}, {})
    part = _best(lambda: store.commit(answer.number, answer.tables), rounds)
    store.close()
    task = [each / tasks for each in empty]
    one = min(task)
    costs = Costs(
        frame_ms, one, max(min(there) - one, 0.0) / size, max(min(back) - one, 0.0) / size, min(part), returned, sent
    )
    scene = "single costs"
    rows = [
        Row(scene, "empty task", one, statistics.median(task), 1.0, f"{1e3 / one:.0f} tasks per second"),
        Row(scene, "message to a worker", min(there), statistics.median(there), min(there) / one,
            f"{size / 1e6:g} MB through the scheduler: {1e6 * costs.sent_byte:.3g} ns per byte"),
        Row(scene, "message back", min(back), statistics.median(back), min(back) / one,
            f"{size / 1e6:g} MB: {1e6 * costs.returned_byte:.3g} ns per byte"),
        Row(scene, "part written", min(part), statistics.median(part), min(part) / one,
            "two files, brought to the disk"),
        Row(scene, "bytes back per frame", math.nan, math.nan, math.nan, f"{returned:.0f} bytes of Parquet"),
    ]  # fmt: skip
    return costs, rows


def _best(do: Callable[[], Any], rounds: int) -> list[float]:
    """Milliseconds of each round, after one that does not count."""
    do()
    times = []
    for _ in range(rounds):
        began = perf_counter()
        do()
        times.append(1e3 * (perf_counter() - began))
    return times


def _calculated(costs: Costs) -> list[Row]:
    """The rows that nobody measured; their notes say so."""
    rows = []
    for sending in (False, True):
        scene = f"{LONG_SEQUENCE:,} frames, {'sent to workers' if sending else 'read by workers'}"
        alone = costs.hours(1, sending=sending)[0]
        for workers in MANY_WORKERS:
            hours, limit = costs.hours(workers, sending=sending)
            note = (
                f"calculated, not measured: {hours:.3g} h, {alone / hours:.3g} times one worker, limited by the {limit}"
            )
            name = f"{workers} worker{'s' if workers > 1 else ''}"
            rows.append(Row(scene, name, 3.6e6 * hours, 3.6e6 * hours, hours / alone, note))
    return rows
