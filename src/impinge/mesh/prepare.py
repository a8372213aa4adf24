"""From a dense surface to a coarse body of tetrahedra that a finite-element model can afford.

1. Simplify.  Quadric simplification to ``coarse_faces`` triangles [Garland1997] (by fast-simplification). Where NetGen
              gives up on the result, it is made again with more patience, if it stays near the number asked for.
2. Fill.      NetGen [Schoeberl1997] fills the simplified surface and keeps its triangles. It runs in a process of its
              own (``netgen_worker.py``): what it prints, and a crash or an endless loop, stay there.
3. Thicken.   Vertices are moved a little where tets are flat (``thicken.py``), since the flattest one decides how short
              the steps of the model must be. Thin blades swell by that; where the volume is more than a tenth off,
              other simplifications are tried and the nearest one is taken.
4. Fall back. A surface that is open, not oriented, folded through itself, or that NetGen gives up on, is enclosed by
              cubes instead (``cubes.py``), which works for every surface that has a size.

Source      [MendozaOSullivan2005], section 3, which simplifies and fills with the same tools.
Departures  Steps 3 and 4: the paper tells neither its steps nor what became of surfaces that NetGen cannot take.
Guarantee   ``method="auto"`` ends in a body or in a sentence that says why not. All tets have positive volume, and
            those of NetGen fill the simplified surface before they are thickened (their volume is compared with it).
            Such bodies follow the dense surface and may cut its corners; cubes enclose it.
"""

from __future__ import annotations

import importlib.util
import math
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from impinge.checks import Floats, Ints, as_length, shown
from impinge.errors import MeshError, MissingExtra, OptionError
from impinge.mesh.adjacency import Adjacency
from impinge.mesh.cubes import MAX_CELLS, as_count, as_surface, box_of, tets_of_cubes
from impinge.mesh.tet_mesh import TetMesh, signed_volumes
from impinge.mesh.thicken import least_height, thicken
from impinge.mesh.tri_mesh import TriMesh

__all__ = ["CoarseTets", "coarse_tets", "simplify", "tetrahedralise", "tets_of_cubes"]

Method: TypeAlias = Literal["auto", "netgen", "cubes"]

PATIENCE = (7.0, 5.0, 3.0)
"""Aggressiveness of the simplification, tried in turn; lower values collapse fewer edges wrongly and may stop early."""

NEAR = 1.5
"""A patient simplification may have this many times the faces that were asked for, not more."""

TIME_LIMIT = 120.0
"""Seconds after which NetGen is stopped; a thousand faces take two."""

LONGEST_WAIT = 1e6
"""Seconds that the operating system can wait for."""

THIN = 0.02
"""Least height of a tet, in mean edges, with which a body can be simulated; the stable step falls with its square."""

VOLUME_AGREES = 1e-6
"""Largest relative difference between the volumes of a surface and of the tets that fill it."""

VOLUME_NEAR = 0.1
"""Change of volume, by simplifying and thickening, beyond which other simplifications are tried, and the best told."""

_simplifying = threading.Lock()
"""fast-simplification keeps the mesh in global variables."""


@dataclass(frozen=True)
class CoarseTets:
    """A coarse body, and how it came about."""

    mesh: TetMesh
    method: Literal["netgen", "cubes"]
    why: str
    """One sentence: what was done, and why nothing better."""
    pieces: int
    """Parts that share no vertex; more than one where the surface has parts, which then move each by itself."""

    def __str__(self) -> str:
        return self.why


def coarse_tets(
    surface: Any,
    *,
    coarse_faces: int = 1000,
    method: Method = "auto",
    mesh_size: float | None = None,
    cells: int | None = None,
    time_limit: float = TIME_LIMIT,
) -> CoarseTets:
    """Make a body of about ``coarse_faces`` boundary triangles, and tell how.

    ``method="netgen"`` simplifies and fills, ``"cubes"`` encloses, ``"auto"`` takes the first if it works.
    ``mesh_size`` is NetGen's longest edge, ``cells`` the number of cubes along the longest side.
    """
    if method not in ("auto", "netgen", "cubes"):
        raise OptionError(f"method is {method!r}, expected 'auto', 'netgen' or 'cubes'")
    surface = as_surface(surface)
    coarse_faces = as_count(coarse_faces, "coarse_faces", least=4)
    _as_limits(mesh_size, time_limit)
    if cells is not None:
        as_count(cells, "cells", least=1, most=MAX_CELLS)
    if method == "cubes":
        return _by_cubes(surface, coarse_faces, cells, "as asked")
    try:
        return _by_netgen(surface, coarse_faces, mesh_size, time_limit)
    except (MeshError, MissingExtra) as error:
        if method == "netgen":
            raise
        reason = str(error) if isinstance(error, MissingExtra) else str(error).partition(";")[0]
        return _by_cubes(surface, coarse_faces, cells, f"because {reason}")


def _by_netgen(surface: TriMesh, coarse_faces: int, mesh_size: float | None, time_limit: float) -> CoarseTets:
    _check_fillable(surface)
    last: MeshError | None = None
    best: tuple[float, TetMesh, int] | None = None
    for patience in PATIENCE:
        simple = simplify(surface, coarse_faces, aggressiveness=patience)
        if len(simple) > NEAR * coarse_faces:
            break
        try:
            mesh = thicken(tetrahedralise(simple, mesh_size=mesh_size, time_limit=time_limit))
            _check_thick(mesh)
        except MeshError as error:
            last = error
            if len(simple) == len(surface):
                break
            continue
        change = abs(_relative_volume(mesh, surface) - 1.0)
        if best is None or change < best[0]:
            best = (change, mesh, len(simple))
        if change <= VOLUME_NEAR or len(simple) == len(surface):
            break
    if best is not None:
        return _filled(surface, *best)
    raise (
        last
        if last is not None
        else MeshError(f"the surface cannot be simplified to {coarse_faces} triangles; ask for more of them")
    )


def _filled(surface: TriMesh, change: float, mesh: TetMesh, faces: int) -> CoarseTets:
    pieces = _pieces(mesh)
    parts = f" in {pieces} pieces that move each by itself" if pieces > 1 else ""
    note = f" ({_relative_volume(mesh, surface):.2g} times the volume of the surface)" if change > VOLUME_NEAR else ""
    why = f"NetGen filled a surface of {faces} triangles with {len(mesh)} tets{parts}{note}"
    return CoarseTets(mesh, "netgen", why, pieces)


def _relative_volume(mesh: TetMesh, surface: TriMesh) -> float:
    return mesh.volume / abs(surface.volume) if surface.volume else math.inf


def _check_thick(mesh: TetMesh) -> None:
    """Refuse tets that would make every step of a model tiny."""
    least = least_height(mesh)
    if least < THIN:
        raise MeshError(
            _refusal(f"the flattest tet of NetGen has {least:.2g} of an edge's length as its height, expected {THIN}")
        )


def _by_cubes(surface: TriMesh, coarse_faces: int, cells: int | None, because: str) -> CoarseTets:
    with _telling("enclosing the surface with cubes"):
        mesh = tets_of_cubes(surface, cells=cells, faces=coarse_faces)
    pieces = _pieces(mesh)
    notes = [f"{pieces} pieces that move each by itself"] if pieces > 1 else []
    if surface.adjacency.is_oriented and surface.volume:
        notes.append(f"{_relative_volume(mesh, surface):.2g} times the volume of the surface")
    note = f" ({', '.join(notes)})" if notes else ""
    return CoarseTets(mesh, "cubes", f"{len(mesh) // 5} cubes enclose the surface{note}, {because}", pieces)


def _pieces(mesh: TetMesh) -> int:
    tets = mesh.tets
    return Adjacency(np.concatenate([tets[:, :3], tets[:, 1:]]), len(mesh.vertices)).component[0]


# the steps -----------------------------------------------------------------------------------------------


def simplify(surface: Any, faces: int, *, aggressiveness: float = PATIENCE[0]) -> TriMesh:
    """The surface with at most ``faces`` triangles where that is possible; a closed one stays closed.

    Dead triangles, those that repeat a vertex and unused vertices are left out. A lower ``aggressiveness`` (1 to 10)
    takes longer and may end with more triangles.
    """
    surface = as_surface(surface)
    faces = as_count(faces, "faces", least=4)
    x, triangles = _proper(surface)
    if len(triangles) <= faces:
        return TriMesh(x, triangles)
    try:
        import fast_simplification
    except ImportError as error:
        raise MissingExtra("simplifying a surface needs fast-simplification; install impinge[soft]") from error
    middle, size = box_of(surface)  # its thresholds are absolute
    with _simplifying, _telling(f"simplifying {len(triangles)} triangles to {faces}"):
        x, triangles = fast_simplification.simplify(
            (x - middle) / size, triangles, target_count=faces, agg=aggressiveness
        )
    return TriMesh(middle + size * x, triangles)


def tetrahedralise(surface: Any, *, mesh_size: float | None = None, time_limit: float = TIME_LIMIT) -> TetMesh:
    """Fill a closed surface with tets by NetGen, keeping its triangles and their vertices.

    ``mesh_size`` bounds the edges inside. A surface that NetGen cannot fill, or not within ``time_limit`` seconds, is
    refused with a sentence that tells what it said.
    """
    surface = as_surface(surface)
    longest, seconds = _as_limits(mesh_size, time_limit)
    _check_fillable(surface)
    if importlib.util.find_spec("netgen") is None:
        raise MissingExtra("filling a surface with tets needs netgen-mesher; install impinge[soft]")
    x, triangles = _proper(surface)
    inside_out = surface.volume < 0.0
    middle, size = box_of(surface)
    with _telling(f"filling {len(triangles)} triangles with tets"):
        filled, tets = _run_netgen(
            (x - middle) / size,
            triangles[:, ::-1] if inside_out else triangles,
            min(longest / size, 1e10),
            seconds,
        )
    vertices = middle + size * filled
    vertices[: len(x)] = x  # to the bit
    volumes = signed_volumes(vertices, tets)
    if not (volumes > 0.0).all() or not math.isclose(volumes.sum(), abs(surface.volume), rel_tol=VOLUME_AGREES):
        raise MeshError(_refusal("NetGen returned tets that do not fill the surface"))
    used, ids = np.unique(tets, return_inverse=True)  # where the surface folds flat, a vertex may have no tet
    return TetMesh(vertices[used], ids.reshape(-1, 4))


def _as_limits(mesh_size: Any, time_limit: Any) -> tuple[float, float]:
    """Longest edge and longest time, or a sentence that says what was expected."""
    longest = math.inf if mesh_size is None else as_length(mesh_size)
    if not longest:
        raise OptionError(f"mesh_size is {shown(mesh_size)}, expected a positive length")
    seconds = as_length(time_limit)
    if not seconds:
        raise OptionError(f"time_limit is {shown(time_limit)}, expected a positive number of seconds")
    return longest, seconds


def _check_fillable(surface: TriMesh) -> None:
    """Refuse what NetGen could only fail at."""
    adjacency = surface.adjacency
    if not adjacency.is_oriented:
        raise MeshError(
            f"the surface encloses no solid ({int(adjacency.open_edges.sum())} open, "
            f"{int(adjacency.nonmanifold_edges.sum())} non-manifold and {int(adjacency.flipped_edges.sum())} flipped "
            "edges); close and orient it, or pass method='cubes'"
        )


def _proper(surface: TriMesh) -> tuple[Floats, Ints]:
    """Live triangles with three different corners, and the vertices that they use; arrays of their own."""
    snapshot = surface.snapshot()
    rows = snapshot.elements[snapshot.live]
    rows = rows[(rows[:, 0] != rows[:, 1]) & (rows[:, 1] != rows[:, 2]) & (rows[:, 2] != rows[:, 0])]
    used, ids = np.unique(rows, return_inverse=True)
    return snapshot.vertices[used], ids.reshape(-1, 3).astype(np.int32)


def _run_netgen(x: Floats, faces: Ints, mesh_size: float, time_limit: float) -> tuple[Floats, Ints]:
    """Fill a surface about the size of one in another process; every way to fail is a MeshError."""
    with tempfile.TemporaryDirectory(prefix="impinge-") as folder:
        source, target = Path(folder) / "surface.npz", Path(folder) / "tets.npz"
        np.savez(source, vertices=x, faces=faces)
        python = sys.executable or "python"  # a program that embeds Python may not know it
        command = [python, "-m", "impinge.mesh.netgen_worker", str(source), str(target), repr(mesh_size)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
        try:
            ended = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, errors="replace",
                stdin=subprocess.DEVNULL, timeout=min(time_limit, LONGEST_WAIT), check=False,
            )  # fmt: skip
        except OSError as error:
            raise MeshError(_refusal(f"NetGen cannot be started ({error.strerror})")) from error
        except subprocess.TimeoutExpired:
            raise MeshError(_refusal(f"NetGen did not end within {time_limit:g} seconds")) from None
        if ended.returncode != 0 or not target.exists():
            raise MeshError(_refusal(f"NetGen gave up ({_reason(ended)})"))
        with np.load(target) as found:
            vertices, tets = found["vertices"], found["tets"]
    return vertices, tets


def _reason(ended: subprocess.CompletedProcess[str]) -> str:
    """What NetGen said last of why it failed, in a few words."""
    if ended.returncode < 0:
        return f"it was ended by signal {-ended.returncode}"
    said = [line for line in (ended.stdout + "\n" + ended.stderr).splitlines() if "rror: " in line]
    return said[-1].rpartition("rror: ")[2].strip().rstrip(".")[:120] if said else f"exit code {ended.returncode}"


def _refusal(what: str) -> str:
    return f"{what}; simplify to another number of triangles, or pass method='cubes'"


@contextmanager
def _telling(what: str) -> Iterator[None]:
    """Show on a terminal that a long step goes on; be silent elsewhere."""
    if sys.stderr is None or not sys.stderr.isatty() or os.environ.get("IMPINGE_QUIET"):
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"impinge: {what} ..."):
        yield
