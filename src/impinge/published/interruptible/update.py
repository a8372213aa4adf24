"""Update of the spheres by the coarse mesh: section 4.4 (after [JamesPai2004]).

At rest  V_i = the ``count`` closest coarse vertices of sphere i.
Centre   c' = c + mean over V_i of (q' - q): the average displacement is added to the original centre.
Radius   λ = max over V_i of |q' - c'| / |q - c|, r' = λ r.

Departures  A coarse vertex at the centre of its sphere has no ratio and is skipped. The number of vertices is not given
            in the paper; 8 by default.
Limits      A heuristic: r' need not contain the deformed surface. It is exact for translations only; a rotation moves
            centres by |(R - I)(c - mean q)| and λ then grows. λ < 1 shrinks spheres.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from impinge.backend.jit import kernel, prange
from impinge.checks import Floats, Ints


def closest_vertices(centre: Floats, coarse: Floats, count: int) -> Ints:
    """Return the ``count`` closest coarse vertices of each sphere at rest, closest first.

    Parameters
    ----------
    centre : (n, 3) array
        Centres of the spheres.
    coarse : (m, 3) array
        Coarse vertices at rest.
    count : int
        Size of the set V_i; at most m are taken.

    Returns
    -------
    (n, count) array
    """
    _, found = cKDTree(coarse).query(centre, k=np.arange(1, min(count, len(coarse)) + 1))
    return np.ascontiguousarray(found, dtype=np.int32)


@kernel()
def _update(
    centre: Floats, radius: Floats, vertex: Ints, rest: Floats, now: Floats, new_centre: Floats, new_radius: Floats
) -> None:
    """Move one sphere for each index."""
    for i in prange(len(radius)):
        x, y, z = 0.0, 0.0, 0.0
        for k in range(vertex.shape[1]):
            q = vertex[i, k]
            x += now[q, 0] - rest[q, 0]
            y += now[q, 1] - rest[q, 1]
            z += now[q, 2] - rest[q, 2]
        count = vertex.shape[1]
        new_centre[i, 0] = centre[i, 0] + x / count
        new_centre[i, 1] = centre[i, 1] + y / count
        new_centre[i, 2] = centre[i, 2] + z / count
        ratio_sq = -1.0  # λ²
        for k in range(count):
            before, after = 0.0, 0.0
            for axis in range(3):
                before += (rest[vertex[i, k], axis] - centre[i, axis]) ** 2
                after += (now[vertex[i, k], axis] - new_centre[i, axis]) ** 2
            if before > 0.0:
                ratio_sq = max(ratio_sq, after / before)
        new_radius[i] = radius[i] * np.sqrt(ratio_sq) if ratio_sq >= 0.0 else radius[i]


def update_spheres(centre: Floats, radius: Floats, vertex: Ints, rest: Floats, now: Floats) -> tuple[Floats, Floats]:
    """Move all spheres with their sets of coarse vertices.

    Parameters
    ----------
    centre, radius : (n, 3) and (n,) arrays
        Spheres at rest.
    vertex : (n, k) array
        Coarse vertices V_i of each sphere.
    rest, now : (m, 3) arrays
        Coarse vertices at rest and in their present state.

    Returns
    -------
    (n, 3) array, (n,) array
        Present centres and radii.

    Examples
    --------
    >>> rest = np.array([[1.0, 0, 0], [-1, 0, 0]])
    >>> update_spheres(np.zeros((1, 3)), np.ones(1), np.array([[0, 1]], np.int32), rest, 2 * rest + 3)
    (array([[3., 3., 3.]]), array([2.]))
    """
    new_centre, new_radius = np.zeros_like(centre), np.zeros_like(radius)
    _update.over(len(radius))(centre, radius, vertex, rest, now, new_centre, new_radius)
    return new_centre, new_radius
