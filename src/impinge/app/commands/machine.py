"""``info``, ``warmup``, ``scenes`` and ``demo``: what there is on this machine, and a first look."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer
from rich.table import Table

import impinge
from impinge.app.commands.console import AsJson, err, out, print_json, print_rows, print_table

EXTRAS = {
    "io": ("trimesh", "meshio"),
    "soft": ("netgen", "fast_simplification"),
    "view": ("viser",),
    "picture": ("pyvista", "matplotlib"),
    "cuda": ("numba_cuda",),
    "cluster": ("distributed", "pyarrow"),
}


def info(as_json: AsJson = False) -> None:
    """Tell what there is on this machine.

    The version, threads, devices and optional packages found.

    Example: impinge info
    """
    from impinge.backend import jit

    facts = {
        "impinge": impinge.__version__,
        "python": platform.python_version(),
        "numpy": importlib.metadata.version("numpy"),
        "numba": importlib.metadata.version("numba"),
        "threads": f"{jit.thread_count()} ({jit.thread_layer()})",
        "cuda device": _cuda_device(),
        "kernel cache": str(jit.cache_folder()),
    }
    extras = {name: all(map(importlib.util.find_spec, modules)) for name, modules in EXTRAS.items()}
    if as_json:
        print_json({**facts, "extras": extras})
        return
    missing = [name for name, found in extras.items() if not found]
    found = ", ".join(name for name, is_there in extras.items() if is_there) or "none"
    print_rows([*facts.items(), ("extras found", found), ("extras missing", ", ".join(missing) or "none")])


def _cuda_device() -> str:
    if importlib.util.find_spec("numba_cuda") is None:
        return "no (numba-cuda is not installed; pip install 'impinge[cuda]')"
    from numba import cuda

    return "yes" if cuda.is_available() else "no (no NVIDIA GPU or driver found)"


def warmup() -> None:
    """Compile everything now, so that no later call has to wait.

    Example: impinge warmup
    """
    from rich.progress import track

    from impinge.app import warmup as jobs

    began = perf_counter()
    running = jobs.run_jobs(processes=min(os.cpu_count() or 1, 4))
    for _ in track(running, total=len(jobs.JOBS), description="compiling", console=err):
        pass
    out.print(f"{len(jobs.JOBS)} groups of kernels ready in {perf_counter() - began:.1f} s")


def scenes() -> None:
    """List the scenes that come with impinge.

    Those tagged "simulation" are for `impinge simulate`, all are for `impinge live`.

    Example: impinge scenes
    """
    from impinge.scenes import simulated as simulations

    table = Table(box=None, pad_edge=False)
    for column in ("scene", "what it shows", "tags"):
        table.add_column(column)
    for name in impinge.scenes.names():
        scene = impinge.scenes.get(name)
        table.add_row(name, scene.title, ", ".join(sorted(scene.tags)))
    for name in simulations.names():
        table.add_row(name, simulations.get(name).title, "simulation")
    print_table(table)


def demo(
    folder: Annotated[Path, typer.Argument(help="Where to put pictures and the report.")] = Path("demo-output"),
) -> None:
    """Ask all methods about the same scenes, and report it.

    Two soft bodies are simulated, two vessels deform; the methods are held against each other, and what they found is
    drawn and written to one html page.

    Example: impinge demo
    """
    from impinge.app.demo import run

    folder.mkdir(parents=True, exist_ok=True)
    for line in run(folder):
        out.print(line)
