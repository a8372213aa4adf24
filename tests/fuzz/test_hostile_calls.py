"""Hostile arguments of every public callable: an error of the package, or an answer, and nothing else."""

from __future__ import annotations

import inspect
import os
import warnings
from pathlib import Path

import numpy as np
import pytest

import impinge
from fuzz import hostile_calls

SEED = 26
QUICK, LONG = 24_000, 100_000


@pytest.fixture
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in an empty folder."""
    monkeypatch.chdir(tmp_path)
    hostile_calls._files.cache_clear()


@pytest.mark.skipif(os.name != "posix", reason="limits of memory and processor time are those of POSIX")
def test_hostile_calls_end_well(tmp_path: Path):
    """Find no crash, no endless call and no foreign exception in thousands of hostile calls."""
    outcome = hostile_calls.run(SEED, 0, QUICK, tmp_path)

    assert outcome.calls == QUICK
    assert not outcome.findings, outcome.summary()


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="limits of memory and processor time are those of POSIX")
def test_many_hostile_calls_end_well(tmp_path: Path):
    """Find nothing in a hundred thousand calls of another seed."""
    outcome = hostile_calls.run(SEED + 1, 0, LONG, tmp_path)

    assert not outcome.findings, outcome.summary()


@pytest.mark.usefixtures("_inside")
def test_attacks_start_from_valid_calls():
    """Make every target's valid call succeed: an attack then fails for the hostile argument alone."""
    assert len(hostile_calls.targets()) > 150
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for target in hostile_calls.targets():
            given = [p for p in target.parameters if (target.name, p.name) in hostile_calls.OVERRIDES]
            given += [p for p in target.parameters if p.default is inspect.Parameter.empty and p not in given]
            hostile_calls.call(target, {p.name: target.valid(p) for p in given})


def test_every_public_callable_is_a_target():
    """Attack every public function and class of the package that takes arguments, or say why not."""
    attacked = {target.name.split(".")[0] for target in hostile_calls.targets()}
    for name in impinge.__all__:
        value = getattr(impinge, name)
        if inspect.isfunction(value) and inspect.signature(value).parameters:
            assert name in attacked or name in hostile_calls.LEFT_OUT, name
        elif inspect.isclass(value) and name not in attacked:
            records = (
                "Distance",
                "HullDistance",
                "Penalty",
                "FrameReport",
                "ValidationReport",
                "Report",
                "SceneFile",
                "Untangled",
            )
            assert issubclass(value, Exception | tuple | int) or name in records, name


def _target(function: object, name: str = "shapes.box") -> hostile_calls.Target:
    """A target that calls ``function``."""

    class Fake(hostile_calls.Target):
        def function(self):
            return function

    return Fake(name, None, tuple(inspect.signature(function).parameters.values()))


def test_findings_are_found():
    """Report foreign exceptions, flags that take words, and words that take arrays; pass what the package refuses."""

    def flagged(*, on: bool = True):
        """Take anything."""

    def worded(*, kind: str = "x"):
        """Compare."""
        return kind == "x"

    def broken(*, x: int = 0):
        """Index."""
        return [1][x]

    def refusing(*, x: int = 0):
        """Refuse."""
        raise impinge.OptionError("no")

    def attack(function: object, **hostile: object) -> str | None:
        return hostile_calls.verdict(hostile_calls.Case(_target(function), hostile, dict.fromkeys(hostile, "it")))

    assert attack(flagged, on="no") == "accepted on"
    assert attack(flagged, on=np.bool_(True)) is None
    assert attack(worded, kind=np.array(["x", "y"])) == "accepted kind"
    assert "IndexError" in str(attack(broken, x=9))
    assert attack(refusing, x=9) is None


@pytest.mark.skipif(os.name != "posix", reason="limits of memory and processor time are those of POSIX")
def test_cases_repeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Make the same calls of the same seed, and other ones of another."""
    monkeypatch.chdir(tmp_path)
    hostile_calls._files.cache_clear()
    first, again, other = ([str(hostile_calls.case(seed, k)) for k in range(300)] for seed in (1, 1, 2))

    assert first == again
    assert first != other
