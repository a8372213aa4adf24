"""The fuzzer of readers as a process of its own: no thread of the test is forked, no limit applies to the test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

FUZZER = Path(__file__).with_name("reader_fuzzer.py")
needs_limits = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory need Linux")


def fuzz(target: str, *options: object, path: Sequence[Path] = ()) -> dict[str, Any]:
    """The outcome of the fuzzer; folders of ``path`` come first in its ``PYTHONPATH``."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, path), *filter(None, sys.path)])}
    command = [sys.executable, "-W", "ignore", str(FUZZER), target, *map(str, options)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    outcome: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return outcome
