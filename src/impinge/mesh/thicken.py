"""Move vertices of a tet mesh a little, so that no tet is much flatter than the others.

The stable step of an explicit method falls with the least height of any tet, and with its square where damping rules.
One sliver among thousands of tets makes a body unusable; a coarse mesh need not follow its surface to the bit.

1. Heights. h_k of each corner above its opposite face, for all tets; the goal is ``GOAL`` of the mean edge.
2. Push.    Where h_k is less, the corner wants to go up by half of what lacks, and the face down by a sixth. Each
            vertex goes where its wishes agree on average.
3. Check.   The corners of tets that would turn over go half as far; give up after ``HALVINGS`` such corrections.
4. Repeat   until nothing lacks, or ``ROUNDS`` times; the best round counts.

Guarantee   All tets keep positive volumes, and the least height is not less than before. The same mesh gives the same
            bits.
"""

from __future__ import annotations

import numpy as np

from impinge.checks import Floats, Ints, sorted_unique
from impinge.mesh.adjacency import TET_FACES
from impinge.mesh.tet_mesh import TetMesh

GOAL = 0.15
"""Height that every tet should have, in mean edges; a regular tet has 0.82, the tets of cubes have 0.46."""
ROUNDS = 150
HALVINGS = 20

_EDGES = np.array([[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]])


def thicken(mesh: TetMesh) -> TetMesh:
    """A mesh of the same tets, all of positive volume, whose flattest one is less flat."""
    x, tets = mesh.vertices.copy(), mesh.tets
    goal = GOAL * mean_edge(x, tets)
    up, height = _heights(x, tets)
    best, best_height = x, height.min()
    for _ in range(ROUNDS):
        if not (height < goal).any():
            break
        step = _wishes(up, height, goal, tets, len(x))
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


def _wishes(up: Floats, height: Floats, goal: float, tets: Ints, vertex_count: int) -> Floats:
    """Where vertices want to go: up from faces they are too near to, down with faces that have a corner too near."""
    lack = np.clip(goal - height, 0.0, None)
    lift = lack[:, :, None] * up
    wish = 0.5 * lift
    for k in range(4):
        wish[:, TET_FACES[k]] -= lift[:, k, None] / 6.0
    # Every corner of a tet hears each of the four heights that lack: one by its own lift, three by a face's.
    told = np.repeat((lack > 0.0).sum(axis=1), 4)
    rows = tets.reshape(-1)
    count = np.maximum(np.bincount(rows, weights=told, minlength=vertex_count), 1.0)
    total = [np.bincount(rows, weights=wish[:, :, axis].reshape(-1), minlength=vertex_count) for axis in range(3)]
    return np.stack(total, axis=1) / count[:, None]
