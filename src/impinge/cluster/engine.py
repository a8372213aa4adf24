"""Where work is done: in this process, on a local cluster of processes or threads, or on a Dask scheduler.

1. Cut.     The caller cuts the work into units, each a run of neighbours, and says what they share (the bodies).
2. Share.   What is shared is the result of one task on which all others depend: it travels once to each worker, from
            the client or from another worker, and is made again if the worker that had it is lost.
3. Window.  A few units per thread are under way; a unit that is done makes room for the next. Answers come back in any
            order, each as the bytes of the files to be written.
4. Unseen.  A worker that does not see a file says so; that unit, and all later ones, are sent with what the files hold.
5. Lost.    Dask gives the tasks of a lost worker to another. A unit that ends several workers stops the run.

Every way gives the same bytes, for a unit does not know where it is worked on.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Protocol

import impinge
from impinge.backend import jit
from impinge.cluster import probe
from impinge.cluster.sources import Unseen
from impinge.errors import ClusterError, ImpingeError, MissingExtra, OptionError

UNITS_PER_THREAD = 3
"""Under way at once: one that is worked on, the next that is there already, and one that travels."""
CONNECT_SECONDS = 10.0
WORKER_SECONDS = 30.0
"""How long to wait for a first worker."""
LOOK_EVERY = 1.0
"""Seconds between two looks at how many workers there are."""


@dataclass(frozen=True)
class Answer:
    """What came of a unit."""

    number: int
    tables: dict[str, bytes]
    """Parquet files by the name of their table; the one that makes the part count is the last."""
    counts: dict[str, int]


class Unit(Protocol):
    """A run of neighbours."""

    @property
    def number(self) -> int:
        """Which one: the number of its part."""


@dataclass(frozen=True)
class Work:
    """What to do with units."""

    make: Callable[[Any], Any]
    """Turn ``seen`` or ``sent()`` into what all units share."""
    do: Callable[[Any, Any], Answer]
    """Work on (shared, unit)."""
    seen: Any
    sent: Callable[[], Any]
    send: Callable[[Any], Any]
    """Put contents in place of the files of a unit."""


class InProcess:
    """The caller's own process."""

    workers = 0

    def stream(self, work: Work, units: Iterable[Unit]) -> Iterator[Answer]:
        """Work on one unit after the other."""
        shared = work.make(work.sent())
        return (self._answer(work, shared, unit) for unit in units)

    @staticmethod
    def _answer(work: Work, shared: Any, unit: Unit) -> Answer:
        try:
            return work.do(shared, unit)
        except Unseen:  # a file that was changed since it was listed
            return work.do(shared, work.send(unit))


@dataclass
class OnDask:
    """Workers of a Dask scheduler."""

    client: Any
    threads_each: int | None
    """Threads of kernels in each task; None leaves them as they are."""
    workers: int = 0
    _threads: int = 1
    _looked: float = field(default=0.0, repr=False)

    def _look(self) -> None:
        """Count workers and their threads, from time to time."""
        if monotonic() - self._looked > LOOK_EVERY:
            found = self.client.nthreads()
            self.workers, self._threads = len(found), max(sum(found.values()), 1)
            self._looked = monotonic()

    def stream(self, work: Work, units: Iterable[Unit]) -> Iterator[Answer]:
        """Keep a few units per thread under way, and give answers as they come."""
        from distributed import as_completed

        run = uuid.uuid4().hex[:12]
        waiting = iter(units)
        shared: dict[bool, Any] = {}
        under_way: dict[str, Unit] = {}
        futures: Any = as_completed(loop=self.client.loop)
        sending = False

        def submit(unit: Unit, *, sent: bool) -> None:
            if sent not in shared:
                given = work.sent() if sent else work.seen
                shared[sent] = self.client.submit(work.make, given, key=f"impinge-bodies-{run}-{sent}", priority=10)
            key = f"impinge-{run}-{unit.number}-{sent}"
            under_way[key] = unit
            what = work.send(unit) if sent else unit
            futures.add(self.client.submit(_do, work.do, shared[sent], what, self.threads_each, key=key))

        while True:
            with _while_the_scheduler_is_there():
                self._look()
                while len(under_way) < UNITS_PER_THREAD * self._threads:
                    unit = next(waiting, None)
                    if unit is None:
                        break
                    submit(unit, sent=sending)
                if not under_way:
                    return
                future = next(futures)
                unit = under_way.pop(future.key)
                answer = self._answer_of(future)
                if answer is None:
                    sending = True
                    submit(unit, sent=True)
            if answer is not None:
                yield answer

    def _answer_of(self, future: Any) -> Answer | None:
        """The answer, None if files were not seen there, or a sentence."""
        from distributed import KilledWorker

        try:
            answer: Answer = future.result()
        except Unseen:
            return None
        except ImpingeError:
            raise
        except KilledWorker as error:
            raise ClusterError(
                f"the task {future.key} ended {error.allowed_failures + 1} workers one after the other, perhaps for "
                "lack of memory; give workers more memory, or leave those meshes out, and run again to go on"
            ) from error
        except ImportError as error:
            raise ClusterError(f"a worker cannot do its part ({error}); install impinge[cluster] there") from error
        finally:
            future.release()
        return answer


@contextlib.contextmanager
def _while_the_scheduler_is_there() -> Iterator[None]:
    """Turn what Dask raises when a scheduler ends into a sentence."""
    from asyncio import CancelledError

    import distributed

    try:
        yield
    except ImpingeError:
        raise
    except (CancelledError, distributed.CancelledError, OSError) as error:
        raise ClusterError(
            "the scheduler went away in the middle of the run; start it again and run again to go on"
        ) from error


def _do(do: Callable[[Any, Any], Answer], shared: Any, unit: Any, threads: int | None) -> Answer:
    """What a worker runs: kernels on as many threads as the task may use."""
    if threads is not None and jit.thread_count() != threads:
        jit.set_threads(threads)
    return do(shared, unit)


Engine = InProcess | OnDask


@contextlib.contextmanager
def engine_for(*, scheduler: str | None, workers: int | None, processes: bool, is_small: bool) -> Iterator[Engine]:
    """The engine that was asked for; if none was, this process for small work, and one process per core for more."""
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 0):
        raise OptionError(f"workers is {workers!r}, expected a whole number: 0 for this process, or how many to start")
    if scheduler is not None and workers is not None:
        raise OptionError(
            "both a scheduler and workers were given; workers are started only where there is no scheduler"
        )
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if scheduler is None and workers is None:
        workers = 0 if is_small or cores == 1 or not _has_dask() else cores
    if workers == 0:
        yield InProcess()
    elif scheduler is not None:
        with _connected(scheduler) as client:
            yield OnDask(client, threads_each=1)
    else:
        assert workers is not None
        with quiet(), _local(workers, processes=processes, threads=max(1, cores // workers)) as engine:
            yield engine


def _has_dask() -> bool:
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
        }
    )
    return distributed


@contextlib.contextmanager
def _local(workers: int, *, processes: bool, threads: int) -> Iterator[OnDask]:
    """Workers of our own; as threads they use this process, whose number of kernel threads is put back at the end."""
    distributed = _dask()
    before = jit.thread_count()
    cluster = local_cluster(workers, processes=processes)
    with cluster, distributed.Client(cluster) as client:
        try:
            yield OnDask(client, threads_each=min(threads, before))
        finally:
            jit.set_threads(before)


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
def _connected(address: str) -> Iterator[Any]:
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
        _check_workers(client, address)
        yield client
    finally:
        client.close(timeout=2)


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
