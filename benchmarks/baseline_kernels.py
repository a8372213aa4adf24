"""Kernels compiled for the targets of ``impinge-kernels`` against kernels compiled for this processor.

Processes, one per target, hold the same bodies and answer the same queries in turn, on one thread: a slow moment of the
machine hits all. Each time is the best of a few frames in a row; the other processes wait meanwhile. Answers are
compared by a digest: all targets must give the same bits.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite.binding import get_host_cpu_features

from benchmarks.measure import Row, row_of, timed
from impinge.backend.shipped import TARGETS
from impinge.errors import ImpingeError

FRAMES = 5
"""Frames of a visit; the best one counts."""


def run(*, quick: bool = False) -> list[Row]:
    """Time all queries in all processes."""
    settings: dict[str, dict[str, str]] = {"this processor": {}}
    for target in TARGETS[platform.machine()]:
        if all(get_host_cpu_features().get(name) for name in target.required):
            settings[target.processor] = {"NUMBA_CPU_NAME": target.processor, "NUMBA_CPU_FEATURES": target.tuning}
    workers = {name: _start(added) for name, added in settings.items()}
    rows = []
    try:
        for query in QUERIES:
            times: dict[str, list[float]] = {name: [] for name in workers}
            digests = {name: _ask(worker, query)[1] for name, worker in workers.items()}  # compiles
            if len(set(digests.values())) > 1:
                raise ImpingeError(f"{query} gives different results for {' and '.join(digests)}; please report this")
            for turn in range(2 if quick else 25):
                for name in list(workers)[:: -1 if turn % 2 else 1]:
                    times[name].append(_ask(workers[name], query)[0])
            base = min(times["this processor"])
            rows += [row_of(query, name, found, base) for name, found in times.items()]
    finally:
        for worker in workers.values():
            worker.communicate()
    return rows


def _start(added: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.baseline_kernels"]
    environment = {**os.environ, "IMPINGE_SHIPPED_KERNELS": "0", "NUMBA_NUM_THREADS": "1", **added}
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _ask(worker: subprocess.Popen[str], query: str) -> tuple[float, str]:
    """The best time of a few frames in milliseconds, and a digest of the last answer."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(f"{query}\n")
    worker.stdin.flush()
    milliseconds, digest = json.loads(worker.stdout.readline())
    return float(milliseconds), str(digest)


# The worker ---------------------------------------------------------------------------------------------


def _two_bodies(method: str, **options: Any) -> Callable[[], Any]:
    import impinge

    a, b = impinge.scenes.get("bumpy_spheres_20k").surfaces
    detector = getattr(impinge, method)(a, b)

    def answer() -> Any:
        a.update(a.vertices)
        b.update(b.vertices)
        return detector.query(**options)

    return answer


def _one_body(query: Callable[[Any], Any]) -> Callable[[], Any]:
    import impinge

    body = impinge.scenes.get("bumpy_spheres_20k").surfaces[0]

    def answer() -> Any:
        body.update(body.vertices)
        return query(body)

    return answer


def _tets() -> Callable[[], Any]:
    import impinge

    bodies = impinge.scenes.get("hashing_setup_d").bodies
    return lambda: impinge.penetrating_vertices(bodies, depth=True)


def _world() -> Callable[[], Any]:
    import impinge

    world = impinge.World()
    for k in range(60):
        world.add(impinge.shapes.bumpy_sphere(2, center=(1.5 * (k % 8), 1.5 * (k // 8), 0.0)))

    def answer() -> Any:
        world.move(np.tile(np.eye(4), (len(world), 1, 1)))
        return world.contacts()

    return answer


def _soft_step() -> Callable[[], Any]:
    import impinge

    ball = impinge.shapes.icosphere(4)
    body = impinge.SoftBody.from_surface(ball, method="cubes", cells=10, material="jelly")
    body.velocities = np.tile((0.0, 0.0, 1.0), (len(body.velocities), 1))

    def answer() -> Any:
        body.step(1e-3)
        return body

    return answer


def _points(body: Any) -> Any:
    import impinge

    return impinge.closest_points(body, 1.05 * body.vertices)


def _proximity(body: Any) -> Any:
    import impinge

    return impinge.proximity(body, margin=0.01)


QUERIES: dict[str, Callable[[], Callable[[], Any]]] = {
    "box tree": lambda: _two_bodies("BoxTree"),
    "gjk cut": lambda: _two_bodies("GjkCut"),
    "breadth first": lambda: _two_bodies("BreadthFirst"),
    "layered depth": lambda: _two_bodies("LayeredDepth"),
    "sphere tree": lambda: _two_bodies("SphereTree", max_tests=20_000),
    "tets and depths": _tets,
    "closest points": lambda: _one_body(_points),
    "proximity": lambda: _one_body(_proximity),
    "world of 60 bodies": _world,
    "soft body step": _soft_step,
}
ARRAYS = ("pairs", "kind", "depth", "direction", "distance", "point", "volume", "certain", "normal", "vertices")


def _digest(answer: Any) -> str:
    """Digest of the arrays of an answer."""
    digest = hashlib.sha256()
    for name in ARRAYS:
        value = getattr(answer, name, None)
        if value is not None:
            digest.update(name.encode() + np.ascontiguousarray(value).tobytes())
    surface = getattr(answer, "surface", None)
    if surface is not None and hasattr(surface, "vertices"):
        digest.update(surface.vertices.tobytes())
    return digest.hexdigest()


def main() -> None:
    """Answer the queries named on stdin, each with a time and a digest on one line."""
    made: dict[str, Callable[[], Any]] = {}
    for line in sys.stdin:
        name = line.strip()
        answer = made.setdefault(name, QUERIES[name]()) if name not in made else made[name]
        best = np.inf
        for _ in range(FRAMES):
            milliseconds, found = timed(answer)
            best = min(best, milliseconds)
        sys.stdout.write(f"{json.dumps([best, _digest(found)])}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
