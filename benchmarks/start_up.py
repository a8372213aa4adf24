"""Start-up: from the start of Python to the first answer, as a whole and stage by stage.

*first answer*: wall time of a whole process, Python itself included, next to peers that are installed. Kernels come
from ``impinge-kernels`` or from the cache, as the note of the row says; a process that compiled anything is an error.

*stages*: one process of ``triangle_pairs``, split. Numba's share is what any program with compiled NumPy code pays.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from time import perf_counter

from benchmarks.measure import Candidate, Row, interleave, row_of, unmeasured

BODIES = "a, b = (impinge.shapes.bumpy_sphere(3, center=(x, 0.0, 0.0)) for x in (0.0, 1.0))"
ANSWERS = {
    "python": "",
    "import numba": "import numba",
    "triangle_pairs": f"import impinge; {BODIES}; impinge.triangle_pairs(a, b)",
    "check": f"import impinge; {BODIES}; str(impinge.check(a, b))",
    "SphereTree": f"import impinge; {BODIES}; impinge.SphereTree(a, b).query()",
    "Simulation.step": (
        "import impinge; mesh = impinge.shapes.tet_box(2, 2, 2, center=(0.0, 0.0, 0.55)); world = impinge.World(); "
        "world.add(impinge.SoftBody(mesh.surface, mesh, material='jelly')); "
        "impinge.Simulation(world, ground=0.0).step(0.01)"
    ),
}
PEERS = {
    "trimesh": (
        "import trimesh; a, b = trimesh.creation.icosphere(3), trimesh.creation.icosphere(3); "
        "m = trimesh.collision.CollisionManager(); m.add_object('a', a); m.in_collision_single(b)"
    ),
    "igl": "import igl, numpy as np; igl.winding_number(np.eye(3), np.array([[0, 1, 2]]), np.zeros((1, 3)))",
    "ipctk": "import ipctk; ipctk.point_triangle_distance([0.1, 0.1, 1.0], [0, 0, 0], [1, 0, 0], [0, 1, 0])",
}
COMPILED = "import sys; jit = sys.modules.get('impinge.backend.jit'); sys.exit(bool(jit and jit.compilations))"
STAGES = {
    "import numpy": "import numpy",
    "import numba": "import numba",
    "types and targets of Numba": "from numba.core.registry import cpu_target; cpu_target.target_context.refresh()",
    "digests of sources": "from impinge.backend import cache as c; c.source_digest(c.PACKAGE / 'backend' / 'scan.py')",
    "bodies": f"import impinge; {BODIES}",
    "modules of the method": "import impinge.queries as queries, impinge.world.auto; queries.pair_detector('gjk_cut')",
    "kernels and first answer": "impinge.triangle_pairs(a, b, method='gjk_cut')",
    "second answer": "impinge.triangle_pairs(a, b, method='gjk_cut')",
}


def run(*, quick: bool = False) -> list[Row]:
    """Time all processes alternately."""
    from impinge.backend.shipped import shipped_kernels

    source = "kernels shipped" if shipped_kernels().folder is not None else "kernels cached"
    rounds = 2 if quick else 11
    snippets = {**ANSWERS, **{name: code for name, code in PEERS.items() if find_spec(name) is not None}}
    for code in snippets.values():  # compile what is not cached, and read all files once
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    candidates = [Candidate(name, partial(_wall_ms, f"{code}\n{COMPILED}")) for name, code in snippets.items()]
    stages: dict[str, list[float]] = {name: [] for name in STAGES}
    for samples in interleave(candidates, [None], rounds=rounds):
        for each, (sample,) in zip(candidates, samples):
            each.times.append(sample.answer)
        for name, milliseconds in _stages().items():
            stages[name].append(milliseconds)
    base = min(candidates[0].times)
    rows = [
        row_of("first answer", each.name, each.times, base, source if "impinge" in snippets[each.name] else "")
        for each in candidates
    ]
    rows += [unmeasured("first answer", name, "not installed") for name in PEERS if name not in snippets]
    return rows + [row_of("stages", name, times, min(stages["import numpy"])) for name, times in stages.items()]


def _wall_ms(snippet: str, _: object) -> float:
    """Wall time of a process in milliseconds; it fails if it compiles anything."""
    began = perf_counter()
    subprocess.run([sys.executable, "-c", snippet], check=True, capture_output=True)
    return 1e3 * (perf_counter() - began)


def _stages() -> dict[str, float]:
    lines = ["from time import perf_counter as now", "import json", "times = {}"]
    for name, code in STAGES.items():
        lines += ["began = now()", *code.split("; "), f"times[{name!r}] = 1e3 * (now() - began)"]
    lines.append("print(json.dumps(times))")
    found: dict[str, float] = json.loads(subprocess.check_output([sys.executable, "-c", "\n".join(lines)]))
    return found
