"""Dask clients: a local cluster, or a scheduler at an address whose workers are checked before the run."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import signal
import threading
from collections.abc import Iterator
from typing import Any

import impinge
from impinge.checks import shown
from impinge.errors import ClusterError, OptionError, optional_module
from impinge.runs import probe

CONNECT_SECONDS = 30.0
WORKER_SECONDS = 30.0
"""Timeout for the first worker."""
CLOSE_SECONDS = 10.0
"""Timeout for closing a client; by then all results have arrived."""
SEND_SECONDS = 0.001
"""Batching interval of submissions; Dask's default of 10 ms delays the start and the end of a run."""


def _dask() -> Any:
    needed = "several workers need dask; install impinge[cluster]"
    dask, distributed = (optional_module(name, needed) for name in ("dask", "distributed"))
    dask.config.set(
        {
            "distributed.admin.large-graph-warning-threshold": "1TB",  # contents travel with tasks on purpose
            "distributed.worker.profile.enabled": False,  # of local workers; the profile is never read
            "distributed.scheduler.active-memory-manager.start": False,  # it drops bodies that later tasks need
            "distributed.admin.tick.interval": "500ms",  # event loop delay is sampled every 20 ms by default
        }
    )
    return distributed


@contextlib.contextmanager
def local_client(workers: int, *, processes: bool) -> Iterator[Any]:
    """A client of a local cluster of single-threaded workers; worker processes ignore Ctrl-C."""
    distributed = _dask()
    in_main = threading.current_thread() is threading.main_thread()  # only the main thread may set signal handlers
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_main else None
    try:
        cluster = distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=processes, dashboard_address="127.0.0.1:0",
            silence_logs="CRITICAL", host="127.0.0.1" if processes else None,
        )  # fmt: skip
    finally:
        if in_main:
            signal.signal(signal.SIGINT, before)
    with cluster, distributed.Client(cluster) as client:
        _send_soon(client)
        yield client


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the loggers of Dask; failures raise ``ClusterError``."""
    loggers = [logging.getLogger(name) for name in ("distributed", "asyncio", "tornado")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels):
            logger.setLevel(level)


@contextlib.contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the scheduler at ``address``."""
    distributed = _dask()
    if not isinstance(address, str) or re.fullmatch(r"((tcp|tls|ws|wss)://)?[^/\s:]+:\d+", address) is None:
        raise OptionError(f"the scheduler is {shown(address)}, expected an address like tcp://host:8786")
    with quiet():
        try:
            client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except OSError as error:
            raise ClusterError(
                f"no scheduler answers at {address} ({' '.join(str(error).split())[:120]}); start one with "
                "`dask scheduler` and give its address, like tcp://host:8786"
            ) from error
        try:
            _send_soon(client)
            _check_workers(client, address)
            yield client
        finally:
            with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                client.close(timeout=CLOSE_SECONDS)


def _send_soon(client: Any) -> None:
    stream = client.scheduler_comm
    if stream is not None:  # None if the connection is lost already; the next call raises
        stream.interval = SEND_SECONDS


def _check_workers(client: Any, address: str) -> None:
    """Refuse a cluster without workers, or with a missing package or another version of impinge."""
    import cloudpickle

    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except TimeoutError as error:
        raise ClusterError(
            f"the scheduler at {address} has no workers after {WORKER_SECONDS:g} s; start some with "
            f"`dask worker {address}`"
        ) from error
    cloudpickle.register_pickle_by_value(probe)
    try:
        found = {f"the scheduler at {address}": client.run_on_scheduler(probe.versions)}
        found |= {f"the worker {worker}": each for worker, each in sorted(client.run(probe.versions).items())}
    finally:
        cloudpickle.unregister_pickle_by_value(probe)
    for node, versions in found.items():
        missing = [name for name, version in versions.items() if version is None]
        if missing:
            raise ClusterError(
                f"{node} has no {missing[0]}; run `pip install 'impinge[cluster]'` in its environment and restart it"
            )
        if versions["impinge"] != impinge.__version__:
            raise ClusterError(
                f"{node} has impinge {versions['impinge']}, but this is {impinge.__version__}; "
                "install the same version there"
            )
