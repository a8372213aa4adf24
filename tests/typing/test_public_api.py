"""Public names as type checkers see them: mypy and pyright pass on a file that uses all of them."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
import typing
from enum import Enum
from pathlib import Path

import pytest

import impinge

USE = Path(__file__).with_name("public_api.py")
ROOT = Path(__file__).parents[2]


def test_every_public_name_is_used():
    """Use each name of ``impinge.__all__`` in the file that is checked."""
    used = set(re.findall(r"impinge\.(\w+)", USE.read_text()))

    assert set(impinge.__all__) - used == set()


def test_mypy_knows_every_type():
    """Pass mypy in strict mode with no expression of type Any."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--disallow-any-expr", "--no-error-summary", str(USE)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    # Functions whose parameters accept any array have types that contain Any; no value may be Any itself.
    found = [line for line in done.stdout.splitlines() if "error" in line and USE.name in line]
    wrong = [line for line in found if "Expression type contains" not in line]

    assert done.stderr == ""
    assert wrong == []


def test_pyright_knows_every_type():
    """Pass pyright with no value of unknown type; its settings are in ``pyrightconfig.json``."""
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(USE.parent)],
        capture_output=True,
        text=True,
    )
    report = json.loads(done.stdout)
    wrong = [f"{each['range']['start']['line'] + 1}: {each['message']}" for each in report["generalDiagnostics"]]

    assert report["summary"]["filesAnalyzed"] == 1
    assert wrong == []


def public_callables() -> list[tuple[str, object]]:
    """Public functions and classes, and the public methods of classes that the package defines."""
    found: list[tuple[str, object]] = []
    for name in impinge.__all__:
        value = getattr(impinge, name)
        if not callable(value) or (inspect.isclass(value) and issubclass(value, BaseException | Enum)):
            continue
        found.append((name, value))
        if inspect.isclass(value):
            methods = inspect.getmembers(value, inspect.isfunction)
            found += [
                (f"{name}.{method}", function)
                for method, function in methods
                if not method.startswith("_") and function.__module__.startswith("impinge")
            ]
    return found


@pytest.mark.parametrize(
    ("name", "value"), public_callables(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_options_are_spelled_out(name, value):
    """Spell out and type every parameter: no ``**options``, no ``Any``, no parameter without a type."""
    for parameter in inspect.signature(value).parameters.values():
        if parameter.name == "self":
            continue
        assert parameter.kind is not inspect.Parameter.VAR_KEYWORD, f"{name}(**{parameter.name})"
        assert parameter.annotation not in (inspect.Parameter.empty, "Any", typing.Any), f"{name}({parameter.name})"
