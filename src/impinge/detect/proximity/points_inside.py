"""Points inside a closed surface: vertical rays through the tree of boxes, with exact signs.

1. Fit   the boxes of all levels (``whole_tree``).
2. Close Closed pieces of the body enclose points, as in ``containment``. Pieces are found once per topology; where they
         have open edges, the ends of these are compared once per update.
3. Count the crossings of a ray from each point upwards (``exact.point_surface``) with the triangles whose boxes it
         meets.

Meaning  Inside is where the winding number is not zero; for pieces with inconsistent orientation, where the number of
         crossings is odd. A point on a closed piece is inside. An open surface has no inside.
Exact    for all input: boxes are rounded like the point, hence no triangle is missed, and exact signs decide the
         crossings, rays through edges and vertices included.
Cost     refit, then O(log n + crossings) per point. Soups, all of whose edges are open, sort their vertices once per
         update.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from impinge.backend.jit import thread_count
from impinge.checks import Bools, Floats, as_positions
from impinge.detect.boxes.tree import PosedTree, TreeOfBoxes, fit_trees, pose_tree, with_moved_vertices
from impinge.detect.boxes.whole_tree import WholeTree, whole_tree
from impinge.detect.common.containment import closed_pieces, pieces_of
from impinge.detect.proximity import points_inside_kernels as kernels
from impinge.detect.proximity.points_inside_kernels import OUTSIDE
from impinge.mesh.tri_mesh import TriMesh


def points_inside(
    body: TriMesh, points: ArrayLike, *, transform: Floats | None = None, active: ArrayLike | None = None
) -> Bools:
    """Mask of the points inside ``body`` or on it; see ``impinge.points_inside``."""
    return np.asarray(locate_points(body, points, transform=transform, active=active) != OUTSIDE)


def locate_points(
    body: TriMesh, points: ArrayLike, *, transform: Floats | None = None, active: ArrayLike | None = None
) -> NDArray[np.int8]:
    """The place of each point: OUTSIDE, INSIDE or ON, of the closed pieces of ``body``."""
    p = np.array(as_positions(points, name="points"))  # a copy: Numba specialises kernels on read-only arrays
    tree = body.structure("boxes", TreeOfBoxes)
    with tree.lock:
        posed = with_moved_vertices(pose_tree(body, tree, transform, active, "a"), "a")
        if not _closed_triangles(posed)[0].any():
            return np.zeros(len(p), dtype=np.int8)
        fit_trees(posed)
        return _locate_posed(posed, whole_tree(posed, only=posed.active), p)


def inside_posed(posed: PosedTree, whole: WholeTree, points: Floats) -> Bools:
    """Mask of the points inside a fitted tree or on it, whose boxes of active triangles are ``whole``."""
    return np.asarray(_locate_posed(posed, whole, points) != OUTSIDE)


def _locate_posed(posed: PosedTree, whole: WholeTree, points: Floats) -> NDArray[np.int8]:
    place = np.zeros(len(points), dtype=np.int8)
    closed, oriented, is_all = _closed_triangles(posed)
    if not closed.any():
        return place
    if not is_all:
        whole = whole_tree(posed, only=closed)
    counter = np.zeros(1, dtype=np.int64)
    kernels.answer_points.over(len(points))(points, tuple(whole), oriented, thread_count(), counter, place)
    return place


def _closed_triangles(posed: PosedTree) -> tuple[Bools, Bools, bool]:
    """Masks of the triangles in closed and in oriented pieces, and whether all active triangles are in closed pieces.

    Cached with the tree: per topology, and per positions if there are open edges.
    """
    state, derived = posed.state, posed.tree.derived
    topology = state.mark, None if posed.active is None else posed.active.tobytes()
    kept = derived.get("pieces")
    if kept is None or kept[0] != topology:
        ids = np.sort(posed.tree.order_tri[posed.tree.order_tri >= 0])
        ids = ids if posed.active is None else ids[posed.active[ids]]
        kept = derived["pieces"] = topology, ids, pieces_of(state.faces[ids], len(posed.x))
        derived.pop("closed", None)
    _, ids, pieces = kept
    token = posed.token if len(pieces.open_edge) else None
    cached: tuple[object, tuple[Bools, Bools, bool]] | None = derived.get("closed")
    if cached is None or cached[0] != token:
        closed, oriented = np.zeros((2, len(state.faces)), dtype=np.bool_)
        closed[ids], oriented[ids] = closed_pieces(pieces, posed.x)
        cached = derived["closed"] = token, (closed, oriented, bool(closed[ids].all()))
    return cached[1]
