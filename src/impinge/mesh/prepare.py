"""From a dense surface to a coarse body of tetrahedra that a finite-element model can afford.

1. Simplify.  Quadric simplification to ``coarse_faces`` triangles [Garland1997] (by fast-simplification). Where NetGen
              fails on the result, simplification is repeated with lower aggressiveness, if the result has at most
              ``NEAR`` times as many triangles.
2. Fill.      NetGen [Schoeberl1997] fills the simplified surface and keeps its triangles. It runs in a separate process
              (``netgen_worker.py``), which isolates output, crashes and endless loops.
3. Thicken.   Vertices move slightly where tets are flat (``thicken.py``): the flattest tet limits the time step of the
              model. Thin blades swell; where the volume changes by more than a tenth, other simplifications are tried,
              and the one with the nearest volume is taken.
4. Fall back. A surface that is open, not oriented, self-intersecting, or on which NetGen fails is enclosed by cubes
              instead (``cubes.py``), which works for every surface with an extent.

Source      [MendozaOSullivan2005], section 3, which simplifies and fills with the same tools.
Departures  Steps 3 and 4: the paper states neither its time steps nor its treatment of surfaces that NetGen rejects.
Guarantee   ``method="auto"`` returns a body or raises an error that states the reason. All tets have positive volume,
            and those of NetGen fill the simplified surface before they are thickened (the volumes are compared). Such
            bodies approximate the dense surface and may cut its corners; cubes enclose it.
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
from typing import Literal, TypeAlias

import numpy as np

from impinge.checks import Floats, Ints, as_choice, as_number, as_whole
from impinge.errors import FileError, MeshError, MissingExtra, optional_module
from impinge.mesh.adjacency import Adjacency
from impinge.mesh.body import SurfaceLike
from impinge.mesh.cubes import MAX_CELLS, sized_surface, tets_of_cubes
from impinge.mesh.tet_mesh import TetMesh, signed_volumes
from impinge.mesh.thicken import least_height, thicken
from impinge.mesh.tri_mesh import TriMesh

__all__ = ["CoarseTets", "coarse_tets", "simplify", "tetrahedralise", "tets_of_cubes"]

Method: TypeAlias = Literal["auto", "netgen", "cubes"]

AGGRESSIVENESS = (7.0, 5.0, 3.0)
"""Aggressiveness of the simplification, tried in turn; lower values collapse fewer edges wrongly and may stop early."""
NEAR = 1.5
"""Most triangles of a repeated simplification, relative to ``coarse_faces``."""
TIME_LIMIT = 120.0
"""Seconds after which NetGen is stopped; a thousand faces take two."""
LONGEST_WAIT = 1e6
"""Seconds that the operating system can wait for."""
THIN = 0.02
"""Least height of a tet, in mean edges, of a body that can be simulated; the stable step falls with its square."""
VOLUME_AGREES = 1e-6
"""Largest relative difference between the volumes of a surface and of the tets that fill it."""
VOLUME_NEAR = 0.1
"""Relative change of volume by steps 1 and 3 beyond which other simplifications are tried; the report states it."""
REMEDY = "; simplify to another number of triangles, or pass method='cubes'"

_simplifying = threading.Lock()
"""fast-simplification keeps the mesh in global variables."""


@dataclass(frozen=True)
class CoarseTets:
    """A coarse body and how it was made."""

    mesh: TetMesh
    method: Literal["netgen", "cubes"]
    why: str
    """One sentence: the method, and why no better one was used."""
    pieces: int
    """Parts that share no vertex; more than one if the surface has parts, which then move independently."""

    def __str__(self) -> str:
        return self.why


def coarse_tets(
    surface: SurfaceLike,
    *,
    coarse_faces: int = 1000,
    method: Method = "auto",
    mesh_size: float | None = None,
    cells: int | None = None,
    time_limit: float = TIME_LIMIT,
) -> CoarseTets:
    """Make a coarse body of tets for a surface.

    Parameters
    ----------
    surface : body
        See ``triangle_pairs`` for what counts as a body.
    coarse_faces : int
        Approximate number of boundary triangles, from 4.
    method : {"auto", "netgen", "cubes"}
        "netgen" simplifies and fills the surface, "cubes" encloses it, "auto" falls back to cubes where NetGen fails.
    mesh_size : float, optional
        Longest edge of NetGen's tets.
    cells : int, optional
        Cubes along the longest side, at most 128; by default ``coarse_faces`` determines them.
    time_limit : float
        Seconds after which NetGen is stopped.

    Returns
    -------
    CoarseTets
        The body and how it was made.

    Raises
    ------
    MeshError
        If the surface has no triangles or no extent, or if NetGen fails and ``method`` is "netgen".
    MissingExtra
        If ``method`` is "netgen" and a package of ``impinge[soft]`` is missing.
    OptionError
        If an option is out of range.
    """
    as_choice(method, "method", ("auto", "netgen", "cubes"))
    surface = sized_surface(surface)
    coarse_faces = as_whole(coarse_faces, "coarse_faces", least=4)
    _check_limits(mesh_size, time_limit)
    if cells is not None:
        as_whole(cells, "cells", most=MAX_CELLS)
    reason = "as requested"
    if method != "cubes":
        try:
            return _by_netgen(surface, coarse_faces, mesh_size, time_limit)
        except (MeshError, MissingExtra) as error:
            if method == "netgen":
                raise
            message = str(error) if isinstance(error, MissingExtra) else str(error).partition(";")[0]
            reason = f"because {message}"
    with _progress("enclosing the surface with cubes"):
        mesh = tets_of_cubes(surface, cells=cells, faces=coarse_faces)
    relative = _relative_volume(mesh, surface) if surface.adjacency.is_oriented and surface.volume else None
    return _report(mesh, "cubes", f"{len(mesh) // 5} cubes enclose the surface", relative, f", {reason}")


def _by_netgen(surface: TriMesh, coarse_faces: int, mesh_size: float | None, time_limit: float) -> CoarseTets:
    """Simplify, fill and thicken; of several attempts the one with the nearest volume."""
    _check_fillable(surface)
    failure = MeshError(f"the surface cannot be simplified to {coarse_faces} triangles; allow more of them")
    best: tuple[float, TetMesh, int] | None = None
    for aggressiveness in AGGRESSIVENESS:
        simple = simplify(surface, coarse_faces, aggressiveness=aggressiveness)
        if len(simple) > NEAR * coarse_faces:
            break
        try:
            mesh = thicken(tetrahedralise(simple, mesh_size=mesh_size, time_limit=time_limit))
            least = least_height(mesh)
            if least < THIN:
                found = f"the flattest tet of NetGen has a height of {least:.2g} mean edges"
                raise MeshError(f"{found}, expected {THIN}{REMEDY}")
        except MeshError as error:
            failure = error
            if len(simple) == len(surface):
                break
            continue
        change = abs(_relative_volume(mesh, surface) - 1.0)
        if best is None or change < best[0]:
            best = (change, mesh, len(simple))
        if change <= VOLUME_NEAR or len(simple) == len(surface):
            break
    if best is None:
        raise failure
    change, mesh, faces = best
    what = f"NetGen filled a surface of {faces} triangles with {len(mesh)} tets"
    return _report(mesh, "netgen", what, _relative_volume(mesh, surface) if change > VOLUME_NEAR else None)


def _report(
    mesh: TetMesh, method: Literal["netgen", "cubes"], what: str, relative: float | None, reason: str = ""
) -> CoarseTets:
    """The body with its sentence: what was made, pieces and relative volume where they matter, the reason."""
    pieces = Adjacency(np.concatenate([mesh.tets[:, :3], mesh.tets[:, 1:]]), len(mesh.vertices)).component[0]
    notes = [f"{pieces} pieces that move independently"] if pieces > 1 else []
    if relative is not None:
        notes.append(f"{relative:.2g} times the volume of the surface")
    note = f" ({', '.join(notes)})" if notes else ""
    return CoarseTets(mesh, method, f"{what}{note}{reason}", pieces)


def _relative_volume(mesh: TetMesh, surface: TriMesh) -> float:
    return mesh.volume / abs(surface.volume) if surface.volume else math.inf


# the steps -----------------------------------------------------------------------------------------------


def simplify(surface: SurfaceLike, faces: int, *, aggressiveness: float = AGGRESSIVENESS[0]) -> TriMesh:
    """Simplify a surface to at most ``faces`` triangles where possible; a closed surface stays closed.

    Parameters
    ----------
    surface : body
        Dead triangles, triangles that repeat a vertex and unused vertices are left out.
    faces : int
        Number of triangles, from 4.
    aggressiveness : float
        From 1 to 10. Lower values take longer and may end with more triangles.

    Returns
    -------
    TriMesh
        A new surface, with the triangles of ``surface`` if there are few enough.

    Raises
    ------
    MissingExtra
        If the package fast-simplification is missing.
    """
    surface = sized_surface(surface)
    faces = as_whole(faces, "faces", least=4)
    x, triangles, middle, size = _proper(surface)
    if len(triangles) <= faces:
        return TriMesh(x, triangles)
    needed = "simplifying a surface needs fast-simplification; install impinge[soft]"
    fast_simplification = optional_module("fast_simplification", needed)
    with _simplifying, _progress(f"simplifying {len(triangles)} triangles to {faces}"):
        x = (x - middle) / size  # its thresholds are absolute
        x, triangles = fast_simplification.simplify(x, triangles, target_count=faces, agg=aggressiveness)
    return TriMesh(middle + size * x, triangles)


def tetrahedralise(surface: SurfaceLike, *, mesh_size: float | None = None, time_limit: float = TIME_LIMIT) -> TetMesh:
    """Fill a closed surface with tets by NetGen, which keeps its triangles and their vertices.

    Parameters
    ----------
    surface : body
        Closed and oriented, facing outwards or inwards.
    mesh_size : float, optional
        Longest interior edge.
    time_limit : float
        Seconds after which NetGen is stopped.

    Returns
    -------
    TetMesh
        Tets of positive volume.

    Raises
    ------
    MeshError
        If NetGen cannot fill the surface, with its message, or not within ``time_limit``.
    MissingExtra
        If the package netgen-mesher is missing.
    """
    surface = sized_surface(surface)
    longest, seconds = _check_limits(mesh_size, time_limit)
    _check_fillable(surface)
    if importlib.util.find_spec("netgen") is None:
        raise MissingExtra("filling a surface with tets needs netgen-mesher; install impinge[soft]")
    x, triangles, middle, size = _proper(surface)
    outwards = triangles[:, ::-1] if surface.volume < 0.0 else triangles
    with _progress(f"filling {len(triangles)} triangles with tets"):
        filled, tets = _run_netgen((x - middle) / size, outwards, min(longest / size, 1e10), seconds)
    vertices = middle + size * filled
    vertices[: len(x)] = x  # to the bit
    volumes = signed_volumes(vertices, tets)
    if not (volumes > 0.0).all() or not math.isclose(volumes.sum(), abs(surface.volume), rel_tol=VOLUME_AGREES):
        raise MeshError(f"NetGen returned tets that do not fill the surface{REMEDY}")
    used, ids = np.unique(tets, return_inverse=True)  # where the surface folds flat, a vertex may have no tet
    return TetMesh(vertices[used], ids.reshape(-1, 4))


def _check_limits(mesh_size: float | None, time_limit: float) -> tuple[float, float]:
    """Longest edge and longest time as floats."""
    longest = math.inf
    if mesh_size is not None:
        longest = as_number(mesh_size, "mesh_size", "a positive length", above=0.0)
    return longest, as_number(time_limit, "time_limit", "a positive number of seconds", above=0.0)


def _check_fillable(surface: TriMesh) -> None:
    """Refuse a surface on which NetGen cannot succeed."""
    adjacency = surface.adjacency
    if not adjacency.is_oriented:
        defects = adjacency.count_defects()
        raise MeshError(f"the surface encloses no solid ({defects}); close and orient it, or pass method='cubes'")


def _proper(surface: TriMesh) -> tuple[Floats, Ints, Floats, float]:
    """Used vertices, live triangles with three different corners, middle and longest side of the bounding box."""
    snapshot = surface.snapshot()
    rows = snapshot.elements[snapshot.live]
    lo, hi = surface.bounds
    rows = rows[(rows[:, 0] != rows[:, 1]) & (rows[:, 1] != rows[:, 2]) & (rows[:, 2] != rows[:, 0])]
    used, ids = np.unique(rows, return_inverse=True)
    return snapshot.vertices[used], ids.reshape(-1, 3).astype(np.int32), 0.5 * (lo + hi), float((hi - lo).max())


def _run_netgen(x: Floats, faces: Ints, mesh_size: float, time_limit: float) -> tuple[Floats, Ints]:
    """Fill a surface of about unit size in a separate process; every failure is a MeshError."""
    with tempfile.TemporaryDirectory(prefix="impinge-") as folder:
        source, target = Path(folder) / "surface.npz", Path(folder) / "tets.npz"
        try:
            np.savez(source, vertices=x, faces=faces)
        except OSError as error:
            raise FileError(
                f"{source} cannot be written ({error.strerror or error}); set TMPDIR to a folder with more space"
            ) from error
        python = sys.executable or "python"  # unknown in some programs that embed Python
        command = [python, "-m", "impinge.mesh.netgen_worker", str(source), str(target), repr(mesh_size)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
        try:
            ended = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, errors="replace",
                stdin=subprocess.DEVNULL, timeout=min(time_limit, LONGEST_WAIT), check=False,
            )  # fmt: skip
        except OSError as error:
            raise MeshError(f"NetGen cannot be started ({error.strerror}){REMEDY}") from error
        except subprocess.TimeoutExpired:
            raise MeshError(f"NetGen did not end within {time_limit:g} seconds{REMEDY}") from None
        if ended.returncode != 0 or not target.exists():
            reason = f"exit code {ended.returncode}"
            said = [line for line in (ended.stdout + "\n" + ended.stderr).splitlines() if "rror: " in line]
            if ended.returncode < 0:
                reason = f"ended by signal {-ended.returncode}"
            elif said:  # the last error message of NetGen
                reason = said[-1].rpartition("rror: ")[2].strip().rstrip(".")[:120]
            raise MeshError(f"NetGen gave up ({reason}){REMEDY}")
        with np.load(target) as found:
            return found["vertices"], found["tets"]


@contextmanager
def _progress(what: str) -> Iterator[None]:
    """Show a running step on a terminal; be silent elsewhere."""
    if sys.stderr is None or not sys.stderr.isatty() or os.environ.get("IMPINGE_QUIET"):
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"impinge: {what} ..."):
        yield
