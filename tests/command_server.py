"""Commands as processes of their own without the cost of starting Python for each: one process loads all and forks.

    with CommandServer() as commands:
        done = commands.run("check", "a.ply", "b.ply", cwd=folder)

Every command has its own process, streams, folder, limits and exit code, as from a shell. Only where there is ``fork``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

SERVER = r"""
import ctypes, json, os, resource, sys
import impinge
from impinge.app import cli
from impinge.view import check_report, report
report.ORBIT_FRAMES = 3
ball = impinge.shapes.icosphere(1)
impinge.check(ball, impinge.shapes.box(1.5))  # loads what most commands need
impinge.check(ball, impinge.shapes.icosphere(1, center=(9.0, 0.0, 0.0)))
for line in sys.stdin:
    job = json.loads(line)
    child = os.fork()
    if child == 0:
        code = 99
        try:
            os.chdir(job["cwd"])
            for stream, (name, mode) in enumerate(zip(job["streams"], (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY))):
                os.dup2(os.open(name, mode), stream)
            if job["file_limit"]:
                sys.dont_write_bytecode = True  # Python would keep truncated files of bytecode
                os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
                resource.setrlimit(resource.RLIMIT_FSIZE, (job["file_limit"],) * 2)
            if job["powerless"] and os.geteuid() == 0:  # root without capabilities obeys permissions
                header, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
                assert ctypes.CDLL(None).capset(header, nothing) == 0
            sys.argv = ["impinge", *job["args"]]
            cli.main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        finally:
            try:
                sys.stdout.flush()
            except OSError:
                pass
            os._exit(code)
    _, status = os.waitpid(child, 0)
    print(json.dumps(os.waitstatus_to_exitcode(status)), flush=True)
"""


class CommandServer:
    """Runs commands one after the other."""

    def __enter__(self) -> CommandServer:
        self._folder = tempfile.TemporaryDirectory()
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.communicate()
        self._folder.cleanup()

    def run(
        self, *args: str | Path, cwd: Path, stdout: str | None = None, file_limit: int = 0, powerless: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run a command; no traceback may ever show, and no exit code but those that are documented."""
        said = [Path(self._folder.name) / name for name in ("stdout", "stderr")]
        for path in said:
            path.write_text("")
            path.chmod(0o666)
        streams = [os.devnull, stdout or str(said[0]), str(said[1])]
        job = {"args": list(map(str, args)), "cwd": str(cwd), "streams": streams}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({**job, "file_limit": file_limit, "powerless": powerless}) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        out, complaints = (path.read_text(encoding="utf-8", errors="replace") for path in said)
        words = f"impinge {' '.join(map(str, args))}: {code}\n{complaints}"
        assert "Traceback" not in out + complaints, words
        assert "error: unexpected" not in complaints, words
        assert code in (0, 1, 2), words
        assert code < 2 or complaints, words
        return subprocess.CompletedProcess(args, code, out, complaints)
