"""The fall-back for other versions of Numba: public interface only, never stale."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import impinge

SOURCE = Path(impinge.__file__).parent
ROOT = Path(__file__).parents[2]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the fall-back forced."""
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "IMPINGE_PLAIN_NUMBA": "1", **environment},
    )


MODULE = """
from numba import types
from impinge.backend.jit import compiled, inlined, kernel, outlined, prange
from impinge.exact.probe_callee import OFFSET, callee

@inlined
def doubled(x, i):
    return 2.0 * x[i]

@outlined(types.float64(types.float64))
def shifted(x):
    return callee(x)

@kernel(parallel_from=1)
def probe(x, out):
    for i in prange(len(x)):
        out[i] = shifted(doubled(x, i)) + OFFSET
"""

CALLEE = """
from impinge.backend.jit import compiled

OFFSET = {number}.0

@compiled
def callee(x):
    return x + {number}.0
"""

ASK = """
import numpy as np
from impinge.backend import jit
from impinge.exact.probe_kernels import probe
assert jit.IS_PLAIN
x, serial, parallel = np.arange(3.0), np.zeros(3), np.zeros(3)
probe.serial(x, serial)
probe.parallel(x, parallel)
hits = sum(sum(variant.stats.cache_hits.values()) for variant in (probe.serial, probe.parallel))
print(serial.tolist() == parallel.tolist(), serial.tolist(), hits)
"""


def test_no_change_is_missed(tmp_path):
    """Load cached code while no source changes, and compile again after a callee in another file changed."""
    package = tmp_path / "impinge"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "exact" / "probe_kernels.py").write_text(MODULE)
    # Python itself does not see a change of the same length within the same second in files of bytecode
    environment = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tmp_path)}
    environment["IMPINGE_CACHE_DIR"] = str(tmp_path / "cache")
    answers = []
    for number in (1, 1, 5):
        (package / "exact" / "probe_callee.py").write_text(CALLEE.format(number=number))
        done = run("-c", ASK, **environment)
        assert done.returncode == 0, done.stderr
        answers.append(done.stdout.strip())

    assert answers == ["True [2.0, 4.0, 6.0] 0", "True [2.0, 4.0, 6.0] 2", "True [10.0, 12.0, 14.0] 0"]


def test_unwritable_cache(tmp_path):
    """Compile without a cache in an unwritable folder, with one warning, and write nothing beside the sources."""
    blocked = tmp_path / "a-file-not-a-folder"
    blocked.write_text("")
    package = tmp_path / "impinge"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    code = """
import logging; logging.basicConfig(stream=__import__("sys").stdout, format="%(message)s")
from impinge.exact.orientation import point
import numpy as np
print(point(np.arange(3.0).reshape(1, 3), 0))
"""
    done = run("-c", code, PYTHONPATH=str(tmp_path), IMPINGE_CACHE_DIR=str(blocked))

    assert done.stdout.endswith("(0.0, 1.0, 2.0)\n"), done.stderr
    assert done.stdout.count("set IMPINGE_CACHE_DIR to a writable folder") == 1
    assert not list(package.rglob("*.nb[ic]"))


QUICK = ["tests/exact/test_triangle_triangle.py", "tests/backend/test_raw_arrays.py"]
LONG = ["tests/exact", "tests/detect/box_tree/test_box_tree.py::test_body_against_itself_moved"]


@pytest.mark.parametrize("tests", [QUICK, pytest.param(LONG, marks=pytest.mark.slow)], ids=["predicates", "box tree"])
def test_exact_core_in_fall_back(tests):
    """Pass the tests of the exact predicates and of the box tree with the fall-back forced."""
    done = run("-m", "pytest", "-q", "-m", "small", "-p", "no:cacheprovider", *tests)

    assert done.returncode == 0, done.stdout + done.stderr
