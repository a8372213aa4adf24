"""Where work is done: in this process, on a local cluster of processes or threads, or on a Dask scheduler.

1. Cut.     The caller cuts the work into units, each a run of neighbours, and says what they share (the bodies).
2. Share.   Where files are named, every task names them, and each worker makes of them once what is shared. What has to
            be sent is the result of one task on which all others depend: it travels once to each worker, from the
            client or from another worker, and is made again if the worker that had it is lost.
3. Window.  Two tasks per thread are under way; one that is done makes room for the next. Each is meant for the worker
            with the fewest units, for Dask by itself would give most of them to the one that has the bodies, but may
            move to another. A task holds a thread's share of the units that are left (guided self-scheduling
            [PolychronopoulosKuck1987]): many at first, for a task costs client, scheduler and worker some milliseconds
            each, and one at the end, so that nobody waits long for the last. Answers come back in any order, each as
            the bytes of the files to be written.
4. Unseen.  A worker that does not see a file says so; that task, and all later ones, are sent with what the files hold.
            Pieces that several units need (parts of pairs) are results of tasks, too, and travel once to each worker.
5. Lost.    Dask gives the tasks of a lost worker to another. A task that ends several workers stops the run.

Every way gives the same bytes, for a unit does not know where it is worked on.
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
from time import monotonic
from typing import Any, Protocol

from impinge.backend import jit
from impinge.errors import ClusterError, ImpingeError, OptionError
from impinge.runs.connection import connected, has_dask, local_client, quiet
from impinge.runs.sources import Unseen

TASKS_PER_THREAD = 2
"""Under way at once: one that is worked on, and the next that is there already."""
ANYWHERE = ""
"""Stands for a worker that is not known."""
BYTES_UNDER_WAY = 500_000_000
"""Of contents that are sent: the scheduler holds them until a worker has done the task."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Options of ``mallopt`` in glibc: bytes free at the top, and bytes of one array, from which memory goes back."""
KEPT_BYTES = 1 << 25
"""The largest number that glibc takes for an array."""
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

    @property
    def nbytes(self) -> int:
        """Of the contents that travel with it, which are none as long as files are read where they are used."""


@dataclass(frozen=True)
class Work:
    """What to do with units."""

    make: Callable[[Any], Any]
    """Turn ``seen`` or ``sent()`` into what all units share; asked for with every task where these are only named."""
    do: Callable[[Any, Any], Answer]
    """Work on (shared, unit)."""
    seen: Any
    sent: Callable[[], Any]
    send: Callable[[Any], Any]
    """Put contents in place of the files of a unit."""
    pieces: Callable[[Any], dict[int, Any]] = lambda _: {}
    """Files that a unit has in common with others; each is sent as ``read`` makes it, and added to what is shared."""
    read: Callable[[Any], Any] = lambda file: file
    most: int = 1
    """Units of a task at most: what a kill can cost."""
    named: bool = False
    """Whether ``seen`` only names files, and is small enough to travel with every task."""


@dataclass(frozen=True)
class _Named:
    """What a worker is to make for itself of files that it sees."""

    make: Callable[[Any], Any]
    seen: Any


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
            pieces = {key: work.read(file) for key, file in work.pieces(unit).items()}
            return work.do(shared | pieces if pieces else shared, work.send(unit))


@dataclass
class OnDask:
    """Workers of a Dask scheduler."""

    client: Any
    threads_each: int | None
    """Threads of kernels in each task; None leaves them as they are."""
    workers: int = 0
    _threads: dict[str, int] = field(default_factory=dict, repr=False)
    """Threads of each worker, by address."""
    _looked: float = field(default=0.0, repr=False)

    def _look(self) -> None:
        """Count workers and their threads, from time to time."""
        if monotonic() - self._looked > LOOK_EVERY:
            self._threads = self.client.nthreads()
            self.workers, self._looked = len(self._threads), monotonic()

    def stream(self, work: Work, units: Iterable[Unit]) -> Iterator[Answer]:
        """Keep two tasks per thread under way, and give answers as they come."""
        from distributed import as_completed

        tasks = _Tasks(self.client, work, units, self.threads_each)
        futures: Any = as_completed(loop=self.client.loop)
        while True:
            with _while_the_scheduler_is_there(self.client):
                self._look()
                futures.update(tasks.fill(self._threads))
                if not tasks.under_way:
                    return
                future = next(futures)
                answers = self._answers_of(future)
                tasks.end(future.key, unseen=answers is None)
            yield from answers or ()

    @staticmethod
    def _answers_of(future: Any) -> list[Answer] | None:
        """The answers, None if files were not seen there, or a sentence."""
        from distributed import KilledWorker

        try:
            answers: list[Answer] = future.result()
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
        return answers


class _Tasks:
    """What waits, what is under way, and what workers hold for it."""

    def __init__(self, client: Any, work: Work, units: Iterable[Unit], threads_each: int | None) -> None:
        self._client, self._work, self._threads_each = client, work, threads_each
        self._waiting = deque(units)
        self._run = uuid.uuid4().hex[:12]
        self._sending = False
        self._shared: dict[bool, Any] = {}
        self._uses = Counter(key for unit in self._waiting for key in work.pieces(unit))
        self._pieces: dict[int, Any] = {}
        self.under_way: dict[str, tuple[list[Unit], int, str]] = {}
        """The units of each task, the bytes that were sent with them, and the worker that they were meant for."""

    def fill(self, threads: dict[str, int]) -> list[Any]:
        """Submit tasks until every worker has enough; where there is none yet, for one that may come."""
        submitted, rooms = [], threads or {ANYWHERE: 1}
        tasks = Counter(where for _, _, where in self.under_way.values())
        load: Counter[str] = Counter()
        for units, _, where in self.under_way.values():
            load[where] += len(units)
        while self._waiting:
            free = [each for each in rooms if tasks[each] < TASKS_PER_THREAD * rooms[each]]
            if not free or (self.under_way and self._bytes_under_way() > BYTES_UNDER_WAY):
                break
            where = min(free, key=lambda each: load[each] / rooms[each])
            share = -(-len(self._waiting) // sum(rooms.values()))
            count = 1 if self._sending else min(share, self._work.most)
            submitted.append(self._submit([self._waiting.popleft() for _ in range(count)], where))
            tasks[where] += 1
            load[where] += count
        return submitted

    def _bytes_under_way(self) -> int:
        return sum(size for _, size, _ in self.under_way.values())

    def _share(self, *, sent: bool) -> Any:
        """What all units share, on its way to workers."""
        work = self._work
        if work.named and not sent:
            return _Named(work.make, work.seen)
        given = work.sent() if sent else work.seen
        return self._client.submit(work.make, given, key=self._key("bodies", sent), priority=10)

    def _submit(self, units: list[Unit], where: str) -> Any:
        work, sent = self._work, self._sending
        if sent not in self._shared:
            self._shared[sent] = self._share(sent=sent)
        what = [work.send(unit) for unit in units] if sent else units
        pieces = (
            {key: self._piece(key, file) for unit in units for key, file in work.pieces(unit).items()} if sent else {}
        )
        key = self._key(units[0].number, len(units), sent)
        self.under_way[key] = units, sum(unit.nbytes for unit in what), where
        place = {} if where == ANYWHERE else {"workers": [where], "allow_other_workers": True}
        return self._client.submit(_do, work.do, self._shared[sent], pieces, what, self._threads_each, key=key, **place)

    def _piece(self, number: int, file: Any) -> Any:
        if number not in self._pieces:
            key = self._key("piece", number)
            self._pieces[number] = self._client.submit(_itself, self._work.read(file), key=key, priority=10)
        return self._pieces[number]

    def _key(self, *parts: object) -> str:
        return "-".join(map(str, ("impinge", self._run, *parts)))

    def end(self, key: str, *, unseen: bool) -> None:
        """Forget a task that is done; put back the units of one that did not see its files, to send them."""
        units, _, _ = self.under_way.pop(key)
        if unseen:
            self._sending = True
            self._waiting.extendleft(reversed(units))
            return
        for number in (number for unit in units for number in self._work.pieces(unit)):
            self._uses[number] -= 1
            if not self._uses[number]:
                self._pieces.pop(number, None)


@contextlib.contextmanager
def _while_the_scheduler_is_there(client: Any) -> Iterator[None]:
    """Turn what Dask raises when a scheduler ends into a sentence; a client that has closed itself raises anything."""
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
            "the scheduler went away in the middle of the run; start it again and run again to go on"
        ) from error


def _do(
    do: Callable[[Any, Any], Answer], shared: Any, pieces: dict[int, Any], units: list[Any], threads: int | None
) -> list[Answer]:
    """What a worker runs: kernels on as many threads as the task may use."""
    _keep_freed_memory()
    if threads is not None and jit.thread_count() != threads:
        jit.set_threads(threads)
    if isinstance(shared, _Named):
        shared = shared.make(shared.seen)
    if pieces:
        shared = shared | pieces
    return [do(shared, unit) for unit in units]


@functools.cache
def _keep_freed_memory() -> None:
    """In a worker of its own process, let glibc keep memory that is freed.

    It gives arrays of a frame back to the system and asks for them again in the next, some 2,400 pages of 4 kB for a
    body of 82k triangles, which took longer than finding the pairs. Elsewhere nothing happens.
    """
    if multiprocessing.parent_process() is None or not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
            mallopt(option, KEPT_BYTES)


def _itself(piece: Any) -> Any:
    """What a worker keeps for others."""
    return piece


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
        workers = 0 if is_small or cores == 1 or not has_dask() else cores
    if workers == 0:
        yield InProcess()
    elif scheduler is not None:
        with connected(scheduler) as client:
            yield OnDask(client, threads_each=1)
    else:
        assert workers is not None
        before = jit.thread_count()
        with quiet(), local_client(workers, processes=processes) as client:
            try:
                yield OnDask(client, threads_each=min(max(1, cores // workers), before))
            finally:  # workers that are threads use this process
                jit.set_threads(before)
