"""A real Dask scheduler and real workers on loopback, each a process of its own that a test may kill."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

PATIENCE = 600.0
"""Seconds to wait for a process to appear on a busy machine."""

SETTINGS = {
    "DASK_DISTRIBUTED__ADMIN__TICK__LIMIT": "1h",
    "DASK_DISTRIBUTED__SCHEDULER__ACTIVE_MEMORY_MANAGER__START": "False",  # what it drops would travel twice
    "OMP_WAIT_POLICY": "passive",
}

PLAIN = ""
WITHOUT_PACKAGE = "sys.modules['impinge'] = None;"
"""Importing the package fails."""
WITHOUT_FILES = "import impinge.runs.sources as sources; sources._stamp = lambda path: None;"
"""No file is visible to the worker."""
NOTING = (
    "import os, time, impinge.runs.sources as s, impinge.runs.frame_work as w;"
    "note = lambda what: open('notes.txt', 'a').write(f'{os.getpid()} {what}\\n');"
    "s.Template.__setstate__ = lambda self, state: (note('got ' + state['name']), self.__dict__.update(state))[1];"
    "made = w.FrameTracker.__init__;"
    "w.FrameTracker.__init__ = lambda self, bodies: (note('trees'), made(self, bodies))[1];"
    "lone = lambda: len({line.split()[0] for line in open('notes.txt') if ' trees' in line}) < 2;"
    "read = w.positions_in;"
    "w.positions_in = lambda *args: ([time.sleep(0.01) for _ in iter(lone, False)], read(*args))[1];"
)
"""Each body that arrives, and each time that trees are made, is noted in a file; frames wait until two workers have
made theirs: each takes some of the work."""
DOOMED = (
    "import os, signal, impinge.runs.frame_work as w; read = w.positions_in; frames = [];"
    "die = lambda: os.kill(os.getpid(), signal.SIGKILL);"
    "w.positions_in = lambda *args: (frames.append(args), len(frames) > 2 and die(), read(*args))[2];"
)
"""Killed in the middle of its first task, at the third frame."""


class Cluster:
    """A scheduler and its workers."""

    def __init__(self, folder: Path, before: str = PLAIN) -> None:
        self._folder = folder
        self._file = folder / "scheduler.json"
        self._log = (folder / "log.txt").open("ab")
        self.workers: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._start(
            "scheduler",
            before,
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--no-dashboard",
            "--scheduler-file",
            str(self._file),
        )
        until(lambda: self._told_address() is not None)
        self.address = self._told_address()

    def _told_address(self) -> str | None:
        """What the scheduler has written, once it is whole."""
        try:
            return json.loads(self._file.read_text())["address"]
        except (FileNotFoundError, json.JSONDecodeError):
            return None

    def _start(self, what: str, before: str, *options: str) -> subprocess.Popen[bytes]:
        code = f"import sys; {before} from distributed.cli.dask_{what} import main; main()"
        environment = {**os.environ, **SETTINGS}
        command = [sys.executable, "-c", code, *options]
        return subprocess.Popen(command, stdout=self._log, stderr=self._log, cwd=self._folder, env=environment)

    def start_worker(self, before: str = PLAIN) -> subprocess.Popen[bytes]:
        """Start a worker with one thread, and wait until it is known."""
        count = self.worker_count() + 1
        options = ("--host", "127.0.0.1", "--nthreads", "1", "--no-nanny", "--no-dashboard", "--memory-limit", "0")
        worker = self._start("worker", before, self.address, *options, "--local-directory", str(self._folder))
        self.workers.append(worker)
        until(lambda: self.worker_count() >= count)
        return worker

    def worker_count(self) -> int:
        """How many workers the scheduler knows."""
        from distributed import Client

        with Client(self.address, set_as_default=False, timeout=PATIENCE) as client:
            return len(client.nthreads())

    def stop(self) -> None:
        """End all."""
        for process in [*self.workers, self.scheduler]:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            process.wait()
        self._log.close()


def until(condition, *, pause: float = 0.05) -> None:
    """Wait for something that will come."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(pause)


@contextlib.contextmanager
def cluster(folder: Path, *workers: str) -> Iterator[Cluster]:
    """A scheduler with workers, each described by what it runs first."""
    made = Cluster(folder)
    try:
        for before in workers:
            made.start_worker(before)
        yield made
    finally:
        made.stop()
