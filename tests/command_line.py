"""Commands in this process, with folder, environment and streams of their own, and commands as real processes.

``run`` loads nothing twice: a command takes milliseconds. ``run_process`` starts Python, for what only a process shows:
exit codes as a shell gets them, signals, an environment that is read at start-up.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from impinge.app import cli
from impinge.app.commands import console

CLI = [sys.executable, "-m", "impinge"]


def environment(**changes: str) -> dict[str, str]:
    """The environment without what changes output, with changes."""
    unwanted = ("COLUMNS", "FORCE_COLOR", "IMPINGE_TRACEBACK", "PYTHONWARNINGS")
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    return {**kept, "PYTHONIOENCODING": "utf-8", **changes}


def run(*args: str | Path, cwd: Path | None = None, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run a command in this process; an exception that leaves ``main`` fails the test."""
    encoding = changes.get("PYTHONIOENCODING", "utf-8")
    streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True) for _ in range(2)]
    with (
        _folder(cwd),
        _as_a_new_process(streams),
        mock.patch.object(sys, "argv", ["impinge", *map(str, args)]),
        mock.patch.dict(os.environ, environment(**changes), clear=True),
    ):
        try:
            cli.main()
            code = cli.CLEAR
        except SystemExit as stop:
            code = stop.code or cli.CLEAR
    out, err = (stream.buffer.getvalue().decode(encoding) for stream in streams)
    assert "Traceback" not in out + err
    return subprocess.CompletedProcess(args, code, out, err)


def run_process(*args: str | Path, cwd: Path | None = None, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run ``python -m impinge``, and assert that no traceback shows."""
    done = subprocess.run(
        [*CLI, *map(str, args)],
        capture_output=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        cwd=cwd,
        env=environment(**changes),
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done


def assert_refused(done: subprocess.CompletedProcess[str], *fragments: str) -> None:
    """Assert exit code 2, empty stdout, and one sentence with the fragments on stderr."""
    assert done.returncode == cli.BAD_INPUT
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert "unexpected" not in done.stderr
    for fragment in fragments:
        assert fragment in done.stderr


@contextlib.contextmanager
def _folder(path: Path | None) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(path or before)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def _as_a_new_process(streams: list[io.TextIOWrapper]) -> Iterator[None]:
    """Set streams, hooks, filters, width and program name as a process starts with; undo what ``main`` changes."""
    main = sys.modules["__main__"]
    with (
        mock.patch.object(sys, "stdout", streams[0]),
        mock.patch.object(sys, "stderr", streams[1]),
        mock.patch.object(sys, "unraisablehook", sys.unraisablehook),
        mock.patch.object(console.out, "_width", None),
        mock.patch.object(main, "__package__", None, create=True),  # or the program is "python -m pytest"
        warnings.catch_warnings(),  # restores showwarning, too
    ):
        warnings.resetwarnings()
        for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)
        yield
