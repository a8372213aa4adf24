"""A real ``dask scheduler`` and real ``dask worker`` processes on this machine, and the processor time of each."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from impinge.errors import ClusterError

PATIENCE = 600.0
"""Seconds to wait for a process to appear on a busy machine."""
ROOT = Path(__file__).parents[1]
"""Where workers find the package ``benchmarks``, which is not installed."""
SETTINGS = {
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "500ms",
    "DASK_DISTRIBUTED__SCHEDULER__ACTIVE_MEMORY_MANAGER__START": "False",
}
"""What docs/scale.md advises."""


class DaskProcesses:
    """A scheduler and its workers, of one thread each."""

    def __init__(self, folder: Path, workers: int) -> None:
        self._folder = folder
        self._log = (folder / "log.txt").open("ab")
        self._file = folder / "scheduler.json"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        try:
            self._start("scheduler", "scheduler", "--port", "0", "--scheduler-file", str(self._file))
            self.address = self._address()
            for number in range(workers):
                options = ("--nthreads", "1", "--no-nanny", "--memory-limit", "0", "--local-directory", str(folder))
                self._start(f"worker {number}", "worker", self.address, *options)
            self._wait(workers)
        except BaseException:
            self.close()
            raise

    def _start(self, name: str, what: str, *options: str) -> None:
        command = [sys.executable, "-m", "dask", what, "--host", "127.0.0.1", "--no-dashboard", *options]
        self._processes[name] = subprocess.Popen(
            command,
            stdout=self._log,
            stderr=self._log,
            cwd=self._folder,
            env={
                **os.environ,
                **SETTINGS,
                "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            },
        )

    def _address(self) -> str:
        end = monotonic() + PATIENCE
        while monotonic() < end:
            with contextlib.suppress(OSError, ValueError):  # not there yet, or half written
                return str(json.loads(self._file.read_text(encoding="utf-8"))["address"])
            sleep(0.05)
        raise ClusterError(f"no scheduler after {PATIENCE:g} s; see {self._folder / 'log.txt'}")

    def _wait(self, workers: int) -> None:
        with self.client() as client:
            client.wait_for_workers(workers, timeout=PATIENCE)

    def client(self) -> Any:
        """A client of these processes."""
        from distributed import Client

        return Client(self.address, set_as_default=False, timeout=PATIENCE)

    def cpu_seconds(self) -> dict[str, float]:
        """Processor time so far of "client" (this process), "scheduler" and "workers" (all together)."""
        import psutil  # comes with distributed

        found = {"client": _cpu_of(psutil.Process()), "scheduler": 0.0, "workers": 0.0}
        for name, process in self._processes.items():
            found["scheduler" if name == "scheduler" else "workers"] += _cpu_of(psutil.Process(process.pid))
        return found

    def close(self) -> None:
        """Terminate all processes."""
        for process in reversed(self._processes.values()):
            process.kill()
            process.wait()
        self._log.close()


def _cpu_of(process: Any) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@contextlib.contextmanager
def dask_processes(workers: int) -> Iterator[DaskProcesses]:
    """Processes that live as long as the context."""
    with tempfile.TemporaryDirectory(prefix="impinge-dask-") as folder:
        made = DaskProcesses(Path(folder), workers)
        try:
            yield made
        finally:
            made.close()
