"""Start-up time: ``import impinge``, and the first query with cached kernels."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

from benchmarks.measure import Candidate, Row, interleave, row_of

SNIPPETS = {
    "import numpy": "import numpy",
    "import impinge": "import impinge",
    "import impinge, make a TriMesh": "import impinge; impinge.TriMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])",
    "import impinge, first triangle_pairs": (
        "import impinge; impinge.triangle_pairs(*impinge.scenes.get('crossing_triangles').bodies)"
    ),
}
"""The start of the interpreter itself is not counted."""


def run(*, quick: bool = False) -> list[Row]:
    """Time each snippet in new processes, alternately; a snippet returns its own time."""
    candidates = [Candidate(name, partial(_milliseconds, snippet)) for name, snippet in SNIPPETS.items()]
    for samples in interleave(candidates, [None], rounds=3 if quick else 15):
        for each, (sample,) in zip(candidates, samples):
            each.times.append(sample.answer)
    base = min(candidates[0].times)
    return [row_of("start", each.name, each.times, base) for each in candidates]


def _milliseconds(snippet: str, _: object) -> float:
    script = f"from time import perf_counter as now; began = now(); {snippet}; print(1e3 * (now() - began))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return float(done.stdout)
