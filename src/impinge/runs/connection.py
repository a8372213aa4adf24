"""Ways to workers: a local cluster, or a scheduler somewhere; what is missing there is told in a sentence."""

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
from impinge.errors import ClusterError, MissingExtra, OptionError
from impinge.runs import probe

CONNECT_SECONDS = 30.0
WORKER_SECONDS = 30.0
"""How long to wait for a first worker."""
CLOSE_SECONDS = 10.0
"""How long to wait for a goodbye; by then all answers are here, and a scheduler that is gone says none."""
SEND_SECONDS = 0.001
"""How long what a client submits may wait for more; Dask's 10 ms are a loss at the beginning and the end of a run."""


def has_dask() -> bool:
    """Whether there can be more than this process."""
    from importlib.util import find_spec

    return find_spec("distributed") is not None


def _dask() -> Any:
    try:
        import dask
        import distributed
    except ImportError as error:
        raise MissingExtra("several workers need dask; install impinge[cluster]") from error
    dask.config.set(
        {
            "distributed.admin.large-graph-warning-threshold": "1TB",  # what travels with a task is meant to
            "distributed.worker.profile.enabled": False,  # of workers that are started here; nobody looks at it
            "distributed.scheduler.active-memory-manager.start": False,  # it drops bodies that are needed again
            "distributed.admin.tick.interval": "500ms",  # likewise: whether a loop is late, 50 times a second
        }
    )
    return distributed


@contextlib.contextmanager
def local_client(workers: int, *, processes: bool) -> Iterator[Any]:
    """Workers of our own, for as long as the context lasts."""
    distributed = _dask()
    with local_cluster(workers, processes=processes) as cluster, distributed.Client(cluster) as client:
        _send_soon(client)
        yield client


def local_cluster(workers: int, *, processes: bool = True) -> Any:
    """Workers of one thread each; processes are not reached by Ctrl-C, for what it means is ours to tell."""
    distributed = _dask()
    with _interrupts_ignored():
        return distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=processes, dashboard_address="127.0.0.1:0",
            silence_logs="CRITICAL", host="127.0.0.1" if processes else None,
        )  # fmt: skip


@contextlib.contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Let Ctrl-C reach nobody who is started meanwhile; only the main thread can say so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of a scheduler whose workers can do the work."""
    distributed = _dask()
    if re.fullmatch(r"((tcp|tls|ws|wss)://)?[^/\s:]+:\d+", address) is None:
        raise OptionError(f"the scheduler is {address!r}, expected an address like tcp://host:8786")
    with quiet(), _client_of(distributed, address) as client:
        yield client


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what Dask logs from the terminal: what goes wrong is told in a sentence."""
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
def _client_of(distributed: Any, address: str) -> Iterator[Any]:
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
    if stream is not None:  # it was lost already, which the next call tells
        stream.interval = SEND_SECONDS


def _check_workers(client: Any, address: str) -> None:
    """Refuse a cluster without workers, or with one that has not this version of the package."""
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
        found = {f"the scheduler at {address}": client.run_on_scheduler(probe.tell_versions)}
        found |= {f"the worker {worker}": told for worker, told in sorted(client.run(probe.tell_versions).items())}
    finally:
        cloudpickle.unregister_pickle_by_value(probe)
    for who, versions in found.items():
        missing = [name for name, version in versions.items() if version is None]
        if missing:
            raise ClusterError(
                f"{who} has no {missing[0]}; run `pip install 'impinge[cluster]'` in its environment and start it again"
            )
        if versions["impinge"] != impinge.__version__:
            raise ClusterError(
                f"{who} has impinge {versions['impinge']}, but this is {impinge.__version__}; "
                "install the same version there"
            )
