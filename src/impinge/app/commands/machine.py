"""``info``, ``warmup``, ``scenes`` and ``demo``: the installation, its scenes and a first example."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer
from rich.table import Table

import impinge
from impinge.app.commands.console import AsJson, err, out, print_json, print_rows, print_table

EXTRAS = {
    "soft": ("netgen", "fast_simplification"),
    "view": ("viser",),
    "picture": ("pyvista", "matplotlib"),
    "cuda": ("numba_cuda",),
    "cluster": ("distributed", "pyarrow"),
}


def info(as_json: AsJson = False) -> None:
    """Print versions, threads, devices and extras.

    Example: impinge info
    """
    from impinge.backend import jit
    from impinge.backend.shipped import shipped_kernels

    if find_spec("numba_cuda") is None:
        cuda = "no (numba-cuda is not installed; pip install 'impinge[cuda]')"
    else:
        from numba import cuda as driver

        cuda = "yes" if driver.is_available() else "no (no NVIDIA GPU or driver found)"
    facts = {
        "impinge": impinge.__version__,
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "numba": version("numba"),
        "threads": f"{jit.thread_count()} ({jit.thread_layer()})",
        "cuda device": cuda,
        "kernels": str(shipped_kernels()),
        "kernel cache": str(jit.cache_folder()),
    }
    extras = {name: all(map(find_spec, modules)) for name, modules in EXTRAS.items()}
    if as_json:
        print_json({**facts, "extras": extras})
        return
    found, missing = (", ".join(name for name in extras if extras[name] is there) or "none" for there in (True, False))
    print_rows([*facts.items(), ("extras found", found), ("extras missing", missing)])


Threads = Annotated[bool, typer.Option("--threads", help="Compile the threaded variants of large queries, too.")]


def warmup(threads: Threads = False) -> None:
    """Compile all kernels now, ahead of the first query.

    Kernels that were shipped or cached are loaded.

    Example: impinge warmup
    """
    from rich.progress import track

    from impinge.app import warmup as jobs

    began = perf_counter()
    running = jobs.run_jobs(processes=min(os.cpu_count() or 1, 4), threads=threads)
    for _ in track(running, total=len(jobs.JOBS), description="compiling", console=err):
        pass
    out.print(f"{len(jobs.JOBS)} groups of kernels ready in {perf_counter() - began:.1f} s")


def scenes() -> None:
    """List the scenes of impinge.

    `impinge simulate` runs those tagged "simulation"; `impinge live` shows all of them.

    Example: impinge scenes
    """
    from impinge.scenes import simulated as simulations

    table = Table("scene", "what it shows", "tags", box=None, pad_edge=False)
    for name in impinge.scenes.names():
        scene = impinge.scenes.get(name)
        table.add_row(name, scene.title, ", ".join(sorted(scene.tags)))
    for name in simulations.names():
        table.add_row(name, simulations.get(name).title, "simulation")
    print_table(table)


Folder = Annotated[Path, typer.Argument(help="Folder for the pictures and the report.")]


def demo(folder: Folder = Path("demo-output")) -> None:
    """Run all methods on two scenes and compare them.

    Simulates two soft bodies, deforms two vessels, compares the results of all methods, and writes pictures and one
    html report.

    Example: impinge demo
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console = out if out.is_terminal else err  # lines on the same terminal appear above the bar
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("importing", total=None)
        from impinge.app.demo import STEPS, run

        progress.update(bar, total=STEPS)
        folder.mkdir(parents=True, exist_ok=True)
        for line in run(folder, lambda step: progress.update(bar, advance=1, description=step)):
            out.print(line)
