"""Thicken flat tets by small displacements of their vertices.

The stable step of an explicit integrator is proportional to the least height of any tet, and to its square where
damping dominates. One sliver among thousands of tets makes a body unusable; a coarse mesh need not follow its surface
exactly.

1. Heights. h_k of each corner above its opposite face, for all tets; the goal is ``GOAL`` mean edges.
2. Push.    For each deficit goal - h_k > 0 the corner moves up by half of it, and the face down by a sixth. A vertex
            moves by the mean of these displacements.
3. Check.   Displacements of tets that would invert are halved; thickening stops after ``HALVINGS`` corrections.
4. Repeat   until there is no deficit, or ``ROUNDS`` times; the best round is the result.

Guarantee   All tets keep positive volumes, and the least height does not decrease. Equal input gives equal bits.
"""

from __future__ import annotations

import numpy as np

from impinge.checks import Floats, Ints, sorted_unique
from impinge.mesh.adjacency import TET_FACES
from impinge.mesh.tet_mesh import TetMesh

GOAL = 0.15
"""Least height of every tet, in mean edges; a regular tet has 0.82, the tets of cubes have 0.46."""
ROUNDS = 150
HALVINGS = 20

_EDGES = np.array([[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]])


def thicken(mesh: TetMesh) -> TetMesh:
    """A mesh of the same tets with a larger least height; all volumes stay positive."""
    x, tets = mesh.vertices.copy(), mesh.tets
    goal = GOAL * mean_edge(x, tets)
    up, height = _heights(x, tets)
    best, best_height = x, height.min()
    for _ in range(ROUNDS):
        if not (height < goal).any():
            break
        step = _displacements(up, height, goal, tets, len(x))
        for _ in range(HALVINGS):
            moved = x + step
            up, height = _heights(moved, tets)
            over = height.min(axis=1) <= 0.0
            if not over.any():
                break
            step[sorted_unique(tets[over])] *= 0.5
        else:
            break
        x = moved
        if height.min() > best_height:
            best, best_height = x, height.min()
    return TetMesh(best, tets)


def mean_edge(x: Floats, tets: Ints) -> float:
    """Mean length of the edges of all tets."""
    ends = x[tets[:, _EDGES]]
    return float(np.linalg.norm(ends[:, :, 1] - ends[:, :, 0], axis=2).mean())


def least_height(mesh: TetMesh) -> float:
    """Least height of any tet, in mean edges."""
    return float(_heights(mesh.vertices, mesh.tets)[1].min()) / mean_edge(mesh.vertices, mesh.tets)


def _heights(x: Floats, tets: Ints) -> tuple[Floats, Floats]:
    """Unit vectors from each face up to the corner opposite, shape (m, 4, 3), and heights, shape (m, 4)."""
    corner = x[tets]
    face = corner[:, TET_FACES]
    up = np.cross(face[:, :, 2] - face[:, :, 0], face[:, :, 1] - face[:, :, 0])
    up /= np.maximum(np.linalg.norm(up, axis=2, keepdims=True), np.finfo(np.float64).tiny)
    return up, np.einsum("tkx,tkx->tk", up, corner - face[:, :, 0])


def _displacements(up: Floats, height: Floats, goal: float, tets: Ints, vertex_count: int) -> Floats:
    """Mean displacement of each vertex: corners up from faces, faces down from corners, where heights are too small."""
    deficit = np.clip(goal - height, 0.0, None)
    lift = deficit[:, :, None] * up
    push = 0.5 * lift
    for k in range(4):
        push[:, TET_FACES[k]] -= lift[:, k, None] / 6.0
    # Each deficit of a tet displaces all four corners: one by its own lift, three with the opposite face.
    pushes = np.repeat((deficit > 0.0).sum(axis=1), 4)
    rows = tets.reshape(-1)
    count = np.maximum(np.bincount(rows, weights=pushes, minlength=vertex_count), 1.0)
    total = [np.bincount(rows, weights=push[:, :, axis].reshape(-1), minlength=vertex_count) for axis in range(3)]
    return np.stack(total, axis=1) / count[:, None]
