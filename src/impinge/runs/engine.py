"""Executes shards of a run: in this process, on local workers, or on a Dask scheduler.

1. Cut.      The work is cut into shards of neighbouring frames or pairs. The cut depends on their number alone:
             every engine gives the same shards and the same bytes.
2. Share.    Data that all shards need (the bodies) is named by file, and each worker loads it once; or it is the result
             of one task on which all others depend. Dask then sends it once to each worker and recomputes it if lost.
3. Window.   Two tasks per thread are in flight. A task is assigned to the worker with the fewest shards per thread, for
             Dask would prefer the worker that holds the bodies, but may move to another. A task takes an equal share of
             the remaining shards per thread (guided self-scheduling [PolychronopoulosKuck1987]): large tasks first,
             since each costs client, scheduler and worker some milliseconds, single shards last. Results arrive in any
             order.
4. By value. A worker that does not see a file raises ``NotVisible``. That task and all later ones are sent with the
             contents. Inputs of several shards (parts of pairs) become tasks too and travel once to each worker.
5. Failure.  Dask reschedules the tasks of a lost worker. A task that ends several workers stops the run.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import multiprocessing
import os
import sys
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from time import monotonic
from typing import Any

from impinge.backend import jit
from impinge.checks import as_flag, as_whole
from impinge.errors import ClusterError, ImpingeError, OptionError
from impinge.runs.connection import connected, local_client, quiet
from impinge.runs.sources import NotVisible
from impinge.runs.store import Store

SHARDS = 32
"""Shards of a short run: the cores of a large machine. Each costs some milliseconds."""
LONGEST_SHARD = 64
"""Frames or pairs of a shard and of a task at most: the work that a kill can cost each worker."""
TASKS_PER_THREAD = 2
"""Tasks in flight: one running, one waiting at the worker."""
ANY_WORKER = ""
BYTES_IN_FLIGHT = 500_000_000
"""Contents sent with tasks; the scheduler holds them until the task is done."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Options of glibc's ``mallopt``: free bytes at the top of the heap, and bytes of one block, above which memory is
returned to the system."""
RETAINED_BYTES = 1 << 25
"""The largest M_MMAP_THRESHOLD that glibc accepts."""
POLL_SECONDS = 1.0
"""Interval at which workers are counted."""
MOST_WORKERS = 1024
"""Processes on one machine; more are on several machines, behind a scheduler."""


@dataclass(frozen=True)
class ShardResult:
    """Result of one shard."""

    number: int
    tables: dict[str, bytes]
    """Parquet files by table; the last one commits the shard."""
    counts: dict[str, int]


Process = Callable[[Any, Any], ShardResult]


@dataclass(frozen=True)
class Shard:
    """Neighbouring frames or pairs."""

    number: int

    @property
    def nbytes(self) -> int:
        """Bytes of contents sent with the shard."""
        return 0


def identity(value: Any) -> Any:
    """The value itself, as the result of a task."""
    return value


@dataclass(frozen=True)
class Work:
    """How to process shards."""

    load: Callable[[Any], Any]
    """Make the shared data of ``files`` or of ``contents()``."""
    process: Process
    """Process (shared data, shard)."""
    files: Any
    contents: Callable[[], Any]
    inline: Callable[[Any], Any]
    """Replace the file references of a shard by contents."""
    inputs: Callable[[Any], dict[int, Any]] = lambda _: {}
    """Files that a shard has in common with others; sent by value as ``read`` returns them, and added to the shared
    data."""
    read: Callable[[Any], Any] = identity
    max_shards: int = 1
    """Shards of a task at most."""
    by_reference: bool = False
    """Whether ``files`` only names files, and is small enough to travel with every task."""


def cut(count: int) -> tuple[list[slice], int]:
    """Rows of each shard, and the largest number of shards of a task."""
    length = min(max(-(-count // SHARDS), 1), LONGEST_SHARD)
    shards = [slice(first, min(first + length, count)) for first in range(0, count, length)]
    return shards, max(LONGEST_SHARD // length, 1)


class InProcess:
    """Executes shards in the calling process."""

    workers = 0

    def stream(self, work: Work, shards: Iterable[Shard]) -> Iterator[ShardResult]:
        """Process shards in order."""
        shared = work.load(work.contents())
        for shard in shards:
            try:
                result = work.process(shared, shard)
            except NotVisible:  # a file changed after it was listed
                inputs = {key: work.read(file) for key, file in work.inputs(shard).items()}
                result = work.process(shared | inputs if inputs else shared, work.inline(shard))
            yield result


@dataclass
class OnDask:
    """Executes shards on the workers of a Dask scheduler."""

    client: Any
    threads_each: int | None
    """Kernel threads of each task; None for the default."""
    workers: int = 0
    _threads: dict[str, int] = field(default_factory=dict, repr=False)
    """Threads of each worker by address."""
    _polled: float = field(default=0.0, repr=False)

    def stream(self, work: Work, shards: Iterable[Shard]) -> Iterator[ShardResult]:
        """Keep two tasks per thread in flight and yield results as they arrive."""
        from distributed import KilledWorker, as_completed

        tasks = _Tasks(self.client, work, shards, self.threads_each)
        futures: Any = as_completed(loop=self.client.loop)
        while True:
            with _scheduler_errors(self.client):
                if monotonic() - self._polled > POLL_SECONDS:
                    self._threads = self.client.nthreads()
                    self.workers, self._polled = len(self._threads), monotonic()
                futures.update(tasks.fill(self._threads))
                if not tasks.in_flight:
                    return
                future, results = next(futures), list[ShardResult]()
                try:
                    results = future.result()
                except NotVisible:
                    pass
                except ImpingeError:
                    raise
                except KilledWorker as error:
                    raise ClusterError(
                        f"the task {future.key} ended {error.allowed_failures + 1} workers one after the other, "
                        "perhaps for lack of memory; give workers more memory, or remove those meshes, and run again "
                        "to resume"
                    ) from error
                except ImportError as error:
                    raise ClusterError(f"a worker lacks a package ({error}); install impinge[cluster] there") from error
                finally:
                    future.release()
                tasks.end(future.key, visible=bool(results))  # a task has at least one shard
            yield from results


class _Tasks:
    """Queue of shards, tasks in flight, and shared data held by workers."""

    def __init__(self, client: Any, work: Work, shards: Iterable[Shard], threads_each: int | None) -> None:
        self._client, self._work, self._threads_each = client, work, threads_each
        self._queue = deque(shards)
        self._run = uuid.uuid4().hex[:12]
        self._by_value = False
        self._shared: dict[bool, Any] = {}
        """Shared data as files and by value."""
        self._uses = Counter(key for shard in self._queue for key in work.inputs(shard))
        self._inputs: dict[int, Any] = {}
        self.in_flight: dict[str, tuple[list[Shard], int, str]] = {}
        """Shards of each task, bytes sent with them, and the assigned worker."""

    def fill(self, threads: dict[str, int]) -> list[Any]:
        """Submit tasks until every worker has enough; without workers, tasks for the first that appears."""
        submitted, slots = [], threads or {ANY_WORKER: 1}
        tasks: Counter[str] = Counter()
        load: Counter[str] = Counter()
        for shards, _, worker in self.in_flight.values():
            tasks[worker] += 1
            load[worker] += len(shards)
        while self._queue:
            free = [each for each in slots if tasks[each] < TASKS_PER_THREAD * slots[each]]
            if not free or (self.in_flight and sum(each[1] for each in self.in_flight.values()) > BYTES_IN_FLIGHT):
                break
            worker = min(free, key=lambda each: load[each] / slots[each])
            share = -(-len(self._queue) // sum(slots.values()))
            count = 1 if self._by_value else min(share, self._work.max_shards)
            submitted.append(self._submit([self._queue.popleft() for _ in range(count)], worker))
            tasks[worker] += 1
            load[worker] += count
        return submitted

    def _submit(self, shards: list[Shard], worker: str) -> Any:
        work, by_value = self._work, self._by_value
        if by_value not in self._shared:
            if work.by_reference and not by_value:
                self._shared[by_value] = functools.partial(work.load, work.files)
            else:
                given = work.contents() if by_value else work.files
                self._shared[by_value] = self._client.submit(
                    work.load, given, key=self._key("bodies", by_value), priority=10
                )
        sent, inputs = shards, {}
        if by_value:
            sent = [work.inline(shard) for shard in shards]
            inputs = {key: self._input(key, file) for shard in shards for key, file in work.inputs(shard).items()}
        key = self._key(shards[0].number, len(shards), by_value)
        self.in_flight[key] = shards, sum(shard.nbytes for shard in sent), worker
        place = {} if worker == ANY_WORKER else {"workers": [worker], "allow_other_workers": True}
        return self._client.submit(
            _run_task, work.process, self._shared[by_value], inputs, sent, self._threads_each, key=key, **place
        )

    def _input(self, number: int, file: Any) -> Any:
        if number not in self._inputs:
            key = self._key("input", number)
            self._inputs[number] = self._client.submit(identity, self._work.read(file), key=key, priority=10)
        return self._inputs[number]

    def _key(self, *parts: object) -> str:
        return "-".join(map(str, ("impinge", self._run, *parts)))

    def end(self, key: str, *, visible: bool) -> None:
        """Remove a finished task; requeue the shards of one whose files were not visible, to send them by value."""
        shards, _, _ = self.in_flight.pop(key)
        if not visible:
            self._by_value = True
            self._queue.extendleft(reversed(shards))
            return
        for number in (number for shard in shards for number in self._work.inputs(shard)):
            self._uses[number] -= 1
            if not self._uses[number]:
                self._inputs.pop(number, None)


@contextlib.contextmanager
def _scheduler_errors(client: Any) -> Iterator[None]:
    """Raise ``ClusterError`` for what Dask raises when a scheduler ends; a closed client raises any exception."""
    from asyncio import CancelledError

    import distributed

    try:
        yield
    except ImpingeError:
        raise
    except (CancelledError, Exception) as error:
        is_known = isinstance(error, (CancelledError, distributed.CancelledError, OSError))
        if client.status == "running" and not is_known:
            raise
        raise ClusterError(
            "the connection to the scheduler was lost during the run; restart it and run again to resume"
        ) from error


def _run_task(
    process: Process, shared: Any, inputs: dict[int, Any], shards: list[Any], threads: int | None
) -> list[ShardResult]:
    """The task of a worker: process shards on ``threads`` kernel threads."""
    _retain_freed_memory()
    if threads is not None and jit.thread_count() != threads:
        jit.set_threads(threads)
    if isinstance(shared, functools.partial):  # shared data that the worker loads from files
        shared = shared()
    if inputs:
        shared = shared | inputs
    return [process(shared, shard) for shard in shards]


@functools.cache
def _retain_freed_memory() -> None:
    """In a worker process on Linux, let glibc retain freed memory.

    By default glibc returns the arrays of a frame to the system and requests them again for the next: about 2,400 page
    faults of 4 kB for a body of 82k triangles, which cost more than the search.
    """
    if multiprocessing.parent_process() is None or not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
            mallopt(option, RETAINED_BYTES)


Engine = InProcess | OnDask


def execute(
    engine: Engine, work: Work, shards: Iterable[Shard], store: Store, counts: Counter[str], report: Callable[[], None]
) -> None:
    """Process shards, commit their tables, and add to ``counts``; ``report`` is called first and after each shard."""
    report()
    for result in engine.stream(work, shards):
        store.commit(result.number, result.tables)
        counts.update(result.counts)
        report()


@contextlib.contextmanager
def engine_for(*, scheduler: str | None, workers: int | None, processes: bool, is_small: bool) -> Iterator[Engine]:
    """The requested engine; by default this process for small work, else one worker process per core."""
    as_flag(processes, "processes")
    if workers is not None:
        remedy = ": 0 for this process, or the number of processes to start"
        as_whole(workers, "workers", least=0, most=MOST_WORKERS, remedy=remedy)
    if scheduler is not None and workers is not None:
        raise OptionError("both a scheduler and workers were given; workers are started only without a scheduler")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if scheduler is not None:
        with connected(scheduler) as client:
            yield OnDask(client, threads_each=1)
        return
    if workers is None:
        workers = 0 if is_small or cores == 1 or find_spec("distributed") is None else cores
    if workers == 0:
        yield InProcess()
        return
    before = jit.thread_count()
    with quiet(), local_client(workers, processes=processes) as client:
        try:
            yield OnDask(client, threads_each=min(max(1, cores // workers), before))
        finally:  # workers that are threads set the thread count of this process
            jit.set_threads(before)
