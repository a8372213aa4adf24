"""What starting costs: ``import impinge``, and the first query with kernels in the cache."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.measure import Row

SNIPPETS = {
    "import numpy": "import numpy",
    "import impinge": "import impinge",
    "import impinge, make a TriMesh": "import impinge; impinge.TriMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])",
    "import impinge, first triangle_pairs": (
        "import impinge; impinge.triangle_pairs(*impinge.scenes.get('crossing_triangles').bodies)"
    ),
}
"""Python's own start is not counted."""


def run(*, quick: bool = False) -> list[Row]:
    """Time each snippet in fresh processes, in turns."""
    rounds = 3 if quick else 15
    times: dict[str, list[float]] = {name: [] for name in SNIPPETS}
    for _ in range(rounds + 1):
        for name, snippet in SNIPPETS.items():
            times[name].append(_milliseconds(snippet))
    rows = []
    base = min(times["import numpy"])
    for name, taken in times.items():
        counted = sorted(taken[1:])
        rows.append(Row("start", name, counted[0], counted[len(counted) // 2], counted[0] / base))
    return rows


def _milliseconds(snippet: str) -> float:
    script = f"from time import perf_counter as now; began = now(); {snippet}; print(1e3 * (now() - began))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return float(done.stdout)
