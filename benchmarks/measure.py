"""How everything here is timed: warm, interleaved, minimum and median of many rounds.

The machine changes its mind between minutes, so that only ratios of candidates measured in turns within one run are
worth stating.
"""

from __future__ import annotations

import csv
import os
import platform
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from time import perf_counter

import impinge
from impinge.errors import FileError


@dataclass(frozen=True)
class Row:
    """One figure of a benchmark."""

    scene: str
    candidate: str
    min_ms: float
    median_ms: float
    ratio: float
    """Minimum time over that of the first candidate of the scene."""
    note: str = ""


def interleaved(
    scene: str, candidates: dict[str, Callable[[], object]], *, rounds: int = 30, note: str = ""
) -> list[Row]:
    """Time candidates in turns; the first call of each, which may compile, is not counted."""
    for run in candidates.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, run in candidates.items():
            began = perf_counter()
            run()
            times[name].append(1e3 * (perf_counter() - began))
    base = min(next(iter(times.values())))
    return [
        Row(scene, name, min(taken), statistics.median(taken), min(taken) / base, note) for name, taken in times.items()
    ]


def processor() -> str:
    """The processor's name, as far as the system tells."""
    if Path("/proc/cpuinfo").exists():
        found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
        if found:
            return found.group(1).strip()
    return platform.processor() or platform.machine()


def machine() -> str:
    """Processor, cores and versions in one line, so that figures can be judged later."""
    versions = f"Python {platform.python_version()}, impinge {impinge.__version__}"
    return f"{processor()}, {os.cpu_count()} cores, {platform.system()}, {versions}"


def write_csv(rows: Sequence[Row], folder: Path, name: str) -> Path:
    """Write one file per machine and benchmark."""
    label = re.sub(r"[^a-z0-9]+", "-", f"{processor()}-{os.cpu_count()}-cores".lower()).strip("-")
    path = folder / f"{name}-{label}.csv"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="", encoding="utf-8") as file:
            file.write(f"# {machine()}\n")
            writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
            writer.writeheader()
            for row in rows:
                values = asdict(row)
                writer.writerow({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in values.items()})
    except OSError as error:
        raise FileError(f"results could not be written to {path} ({error.strerror}); choose another folder") from error
    return path
