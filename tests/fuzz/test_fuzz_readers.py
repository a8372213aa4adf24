"""Readers of files against mutants of valid ones: no crash, no hang, no gigabytes, no foreign error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fuzz_process import fuzz, needs_limits

TARGETS = (
    "ply", "obj", "off", "stl", "glb", "gltf", "msh", "vtk", "vtu", "mesh", "gz", "sequence", "scene", "soft", "state",
    "spheres",
)  # fmt: skip
QUICK, LONG = 1500, 200_000
"""Mutants per reader in ``make test`` and ``make test-all``."""

pytestmark = needs_limits


def check(target: str, first: int, count: int) -> None:
    """Demand that all mutants are read or refused, and that there are enough of both."""
    outcome = fuzz(target, "--first", first, "--count", count)

    repeat = f"python tests/fuzz/reader_fuzzer.py {target} --count 1 --first SEED"
    assert outcome["failures"] == [], repeat
    assert outcome["read"] + outcome["refused"] == count
    assert outcome["read"] > count // 200
    assert outcome["refused"] > count // 4


@pytest.mark.parametrize("target", TARGETS)
def test_mutants_are_read_or_refused(target: str):
    """Read or refuse each of a fixed set of mutants within 10 s of processor time and 2 GB."""
    check(target, 0, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_many_mutants_are_read_or_refused(target: str):
    """Read or refuse a larger set of mutants."""
    check(target, QUICK, LONG)


def test_every_reader_has_a_target():
    """Fuzz each format that can be loaded."""
    import reader_fuzzer

    assert set(TARGETS) == set(reader_fuzzer.TARGETS) >= set(reader_fuzzer.FORMATS)


def wrong_reader(folder: Path, code: str) -> dict[str, Any]:
    """Run the fuzzer on one file with another reader of OFF files."""
    (folder / "sitecustomize.py").write_text(
        "import impinge.io.files as files\nfrom impinge.errors import FileError\n"
        f"def decode(data, path):\n    {code}\nfiles._DECODERS['off'] = decode\n"
    )
    (folder / "a.off").write_text("OFF\n")
    return fuzz("off", "--file", folder / "a.off", path=[folder])


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import os; os.kill(os.getpid(), 11)", "signal 11"),
        ("import os; os._exit(3)", "exit code 3"),
        ("bytearray(3 * 2**30)", "more than 2147483648 bytes"),
        ("files.ImpingeError = ZeroDivisionError; 1 / 0", "ZeroDivisionError: division by zero"),
        ("raise FileError('a\\nb')", "several lines"),
    ],
)
def test_failures_are_noticed(tmp_path: Path, code: str, why: str):
    """Report crashes, exits, large allocations, foreign errors and messages of several lines."""
    outcome = wrong_reader(tmp_path, code)

    assert outcome["failed"] == 1
    assert why in outcome["failures"][0][1]


@pytest.mark.slow
def test_hangs_are_noticed(tmp_path: Path):
    """End a reader that does not return by its processor time."""
    outcome = wrong_reader(tmp_path, "while True: pass")

    assert outcome["failures"] == [[0, "signal 24"]]
