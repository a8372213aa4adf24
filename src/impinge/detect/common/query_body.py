"""A body as one query sees it: positions after the transform, live and active triangles."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from impinge.checks import Floats, Ints, as_ids, check_finite
from impinge.errors import OptionError
from impinge.mesh.transform import transform_points
from impinge.mesh.tri_mesh import TriMesh


class QueryBody(NamedTuple):
    """One body as a query sees it."""

    vertices: Floats
    """Positions after the transform, shape (n, 3), read-only."""
    faces: Ints
    """All triangles, dead ones included, shape (m, 3)."""
    ids: Ints
    """Sorted ids of the triangles to test."""


def query_body(
    body: TriMesh, transform: Floats | None = None, active: ArrayLike | None = None, letter: str = "a"
) -> QueryBody:
    """Snapshot of a body, moved by ``transform`` and narrowed to ``active`` triangles (ids or mask).

    Positions that ``update(check=False)`` let in are checked here: splits by their order would never end.
    """
    snapshot = body.snapshot()
    check_finite(snapshot.vertices, f"vertices of {letter}")
    vertices = snapshot.vertices if transform is None else moved(transform, snapshot.vertices, f"transform_{letter}")
    ids = snapshot.live
    if active is not None:
        is_active = np.zeros(len(snapshot.elements), dtype=np.bool_)
        is_active[as_ids(active, name=f"active_{letter}", count=len(snapshot.elements))] = True
        ids = ids[is_active[ids]]
    return QueryBody(vertices, snapshot.elements, ids)


def moved(matrix: Floats, vertices: Floats, name: str) -> Floats:
    """Positions moved by a transform; read-only, as those of a body are: Numba specialises kernels on that."""
    with np.errstate(over="ignore", invalid="ignore"):
        x = transform_points(matrix, vertices)
    if not np.isfinite(x).all():
        raise OptionError(f"{name} moves a vertex beyond the range of doubles; use smaller units")
    x.flags.writeable = False
    return x
