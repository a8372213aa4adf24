"""After ``impinge warmup`` no query compiles a kernel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from impinge.app import warmup
from warmup_cases import CASES, compiled_by


def run(*command: str, cache: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "IMPINGE_CACHE_DIR": str(cache)}
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, env=environment)


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    """A cache filled by ``impinge warmup --threads``; takes more than a minute."""
    folder = tmp_path_factory.mktemp("cache") / "not there yet"
    done = run("-m", "impinge.app.cli", "warmup", "--threads", cache=folder)

    assert done.returncode == 0, done.stderr
    assert f"{len(warmup.JOBS)} groups of kernels ready" in done.stdout
    assert "Traceback" not in done.stderr
    return folder


@pytest.fixture(scope="module")
def compiled(cache) -> dict[str, list[str]]:
    """Functions compiled by each query after the warm-up."""
    return compiled_by([sys.executable], {**os.environ, "IMPINGE_CACHE_DIR": str(cache)})


@pytest.mark.slow
@pytest.mark.parametrize("question", CASES)
def test_nothing_is_left_to_compile(compiled, question):
    """Load all kernels from the cache of the warm-up, for any arrays and options.

    A single pair is not sorted: a warm-up with two triangles omits the sorting kernels.
    """
    assert compiled[question] == []


@pytest.mark.slow
def test_second_warmup_compiles_nothing(cache):
    """Load everything from the cache in a second warm-up, from Python as from the command line."""
    code = (
        "import impinge; from impinge.backend import jit; print(impinge.warmup(threads=True) > 0.0, jit.compilations)"
    )
    done = run("-c", code, cache=cache)

    assert done.stdout.strip() == "True []", done.stderr


def test_jobs_are_yielded_one_by_one():
    """Yield each job as it finishes, for a progress bar."""
    assert list(warmup.run_jobs()) == list(warmup.JOBS)
