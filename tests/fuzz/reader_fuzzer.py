"""Readers against mutants, each under limits of memory and processor time. A program of its own:

    python tests/fuzz/reader_fuzzer.py vtu --first 0 --count 1000        # mutants by seed
    python tests/fuzz/reader_fuzzer.py vtu --file hostile.vtu            # one file

A child of a fork reads one mutant after another; readers are imported, no kernel runs and no thread exists before the
fork. A mutant fails if the child dies of it, spends 10 s of processor time, needs 2 GB, or raises an error that is not
an ``ImpingeError``. The last line of the output is JSON: counts, and for each failure its seed and what happened.
"""

from __future__ import annotations

import argparse
import json
import math
import mmap
import os
import resource
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

if __name__ == "__main__":  # before NumPy and Numba are imported, and not for tests that import this module
    os.environ |= dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    sys.path.insert(0, str(Path(__file__).parent))

from mutations import mutant
from reader_corpus import BUFFER, X, corpus, simulation

import impinge
from impinge.errors import ImpingeError
from impinge.io.files import SURFACE_KINDS, VOLUME_KINDS, read_mesh

SECONDS = 10
MEMORY = 2 * 2**30
BATCH = 2000
"""Mutants of one child."""


def _sequence(path: Path) -> None:
    frames = impinge.Sequence(path)
    for i in range(min(len(frames), 3)):
        frames.frame(i)


def _state() -> Callable[[Path], object]:
    made = simulation()
    return made.restore


FORMATS = (*SURFACE_KINDS, *VOLUME_KINDS)
TARGETS: dict[str, tuple[str, Callable[[], Callable[[Path], object]]]] = {
    **{kind: (f".{kind}", lambda: read_mesh) for kind in FORMATS},
    "gz": (".ply.gz", lambda: read_mesh),
    "sequence": (".npz", lambda: _sequence),
    "scene": (".toml", lambda: impinge.read_scene),
    "soft": (".npz", lambda: impinge.SoftBody.load),
    "state": (".npz", _state),
    "spheres": (".npz", lambda: impinge.SphereHierarchy.load),
}
"""Ending of the file, and a function that makes the reader in the child."""


def trial(read: Callable[[Path], object], path: Path) -> tuple[str, str]:
    """What happens to one file: ``read``, ``refused`` or ``failed``, and why."""
    try:
        read(path)
    except ImpingeError as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, MemoryError):
                return "failed", f"more than {MEMORY} bytes: {error}"
            cause = cause.__cause__ or cause.__context__
        if "\n" in str(error) or len(str(error)) > 2000:
            return "failed", f"a message of {len(str(error))} characters or several lines: {str(error)[:200]!r}"
        return "refused", ""
    except Exception as error:  # noqa: BLE001 - any other error is a failure
        return "failed", f"{type(error).__name__}: {str(error)[:200]}"
    if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > MEMORY:
        return "failed", f"more than {MEMORY} bytes resident"
    return "read", ""


def child(name: str, jobs: Iterator[tuple[int, bytes]], folder: Path, place: mmap.mmap, out: int) -> None:
    """Run jobs under limits; write the seed of each to shared memory first, and a line per result."""
    ending, make = TARGETS[name]
    read = make()
    size = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    path = folder / f"mutant{ending}"
    with os.fdopen(out, "w") as results:
        for seed, data in jobs:
            struct.pack_into("<q", place, 0, seed)
            path.write_bytes(data)
            limit = math.ceil(time.process_time()) + SECONDS
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
            results.write(json.dumps([seed, *trial(read, path)]) + "\n")
            results.flush()


def run(
    name: str, jobs: Callable[[int, int], Iterator[tuple[int, bytes]]], first: int, count: int
) -> dict[str, object]:
    """Run the jobs with seeds from ``first``; after a death, go on with the next seed."""
    totals: dict[str, int] = {"read": 0, "refused": 0, "failed": 0}
    failures: list[list[object]] = []
    place = mmap.mmap(-1, 8)
    end = first + count
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / BUFFER).write_bytes(X.astype("<f4").tobytes())
        while first < end:
            last = min(first + BATCH, end)
            struct.pack_into("<q", place, 0, first)
            receive, send = os.pipe()
            process = os.fork()
            if process == 0:
                code = 1
                try:
                    os.close(receive)
                    child(name, jobs(first, last), folder, place, send)
                    code = 0
                finally:
                    os._exit(code)
            os.close(send)
            with os.fdopen(receive) as results:
                for line in results:
                    seed, what, why = json.loads(line)
                    totals[what] += 1
                    if why:
                        failures.append([seed, why])
            status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            if status == 0:
                first = last
                continue
            seed = struct.unpack_from("<q", place)[0]
            totals["failed"] += 1
            failures.append([seed, f"signal {-status}" if status < 0 else f"exit code {status}"])
            first = seed + 1
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"target": name, **totals, "failures": failures, "cpu_s": round(spent.ru_utime + spent.ru_stime, 1)}


def main() -> None:
    """Parse the arguments and print the outcome."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--file", type=Path)
    parser.add_argument("--keep", type=Path, help="write the first mutant to this file, and end")
    given = parser.parse_args()
    if given.file is not None:
        data = given.file.read_bytes()
        sys.stdout.write(json.dumps(run(given.target, lambda *_: iter([(0, data)]), 0, 1)) + "\n")
        return
    entries = corpus(given.target)
    if given.keep is not None:
        given.keep.write_bytes(mutant(entries, given.target, given.first))
        return

    def jobs(first: int, last: int) -> Iterator[tuple[int, bytes]]:
        return ((seed, mutant(entries, given.target, seed)) for seed in range(first, last))

    sys.stdout.write(json.dumps(run(given.target, jobs, given.first, given.count)) + "\n")


if __name__ == "__main__":
    main()
