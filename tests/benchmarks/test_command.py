"""The benchmark command: ``python -m benchmarks``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import catalogue

ROOT = Path(__file__).parents[2]


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "benchmarks", *args], capture_output=True, text=True, cwd=ROOT)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["[red]magic"], ["no benchmark [red]magic", "triangle_test"]),
        (["compare", "one"], ["compare got 1 folders", "compare OLD NEW"]),
        (["summary"], ["summary got 0 folders", "summary FOLDER"]),
        (["compare-checkouts", "one", "two"], ["compare-checkouts got 2 arguments", "OLD NEW NAME..."]),
    ],
)
def test_wrong_arguments_are_one_sentence(args, words):
    """Exit with 2 and one sentence that names what was expected."""
    done = run(*args)

    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert all(word in done.stderr for word in words)


def test_every_module_is_in_the_catalogue():
    """Import every benchmark by the name under which it is listed."""
    for module in catalogue.BENCHMARKS.values():
        assert (ROOT / f"{module.replace('.', '/')}.py").is_file(), module
