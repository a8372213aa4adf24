"""Which points are inside a closed surface: rays upwards through the tree of boxes, with exact signs.

1. Fit   the boxes of all levels (``whole_tree``).
2. Close What encloses are the closed pieces of the body, as in ``containment``. Of a body whose pieces are all closed
         as they are indexed, that does not depend on where its vertices are, and is found once per topology.
3. Count the crossings of a ray from each point upwards (``exact.point_surface``), of those triangles only
         whose boxes it meets.

Meaning  Inside is where the winding number is not zero, or, where triangles do not agree on which side is outside,
         where the number of crossings is odd. A point on a closed piece is inside. An open surface has no inside.
Exact    for all input: boxes are rounded as the point is, so that no triangle is missed, and the crossings are found by
         exact signs, rays through edges and vertices included.
Cost     refit, then O(log n + crossings) per point. Soups, whose vertices have to be compared, sort them once per
         update.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from impinge.arrays import Bools, Floats, Ints, as_positions
from impinge.backend.jit import thread_count
from impinge.detect import points_inside_kernels as kernels
from impinge.detect.containment import closed_pieces
from impinge.detect.pair_query import PairOptions
from impinge.detect.tree_of_boxes import Placed, TreeOfBoxes, fit_trees, place, with_moved_vertices
from impinge.detect.whole_tree import WholeTree, whole_tree
from impinge.mesh.tri_mesh import TriMesh


def points_inside(body: TriMesh, points: Any, options: PairOptions) -> Bools:
    """Which of ``points`` are inside ``body`` or on it; of the options those of a."""
    asked = np.array(as_positions(points, name="points"))  # Numba compiles anew for read-only ones
    tree = body.structure("boxes", TreeOfBoxes)
    with tree.lock:
        placed = with_moved_vertices(place(body, tree, options.transform_a, options.active_a, "a"), "a")
        fit_trees(placed)
        return inside_placed(placed, whole_tree(placed, only=placed.active), asked)


def inside_placed(placed: Placed, whole: WholeTree, points: Floats) -> Bools:
    """Which points are inside a fitted tree, whose boxes of active triangles are ``whole``."""
    inside = np.zeros(len(points), dtype=np.bool_)
    live = whole.slot_tri[whole.slot_tri >= 0]
    ids, by_winding = _closed(placed, np.sort(live))
    if not len(ids):
        return inside
    if len(ids) < len(live):
        only = np.zeros(len(placed.frame.faces), dtype=np.bool_)
        only[ids] = True
        whole = whole_tree(placed, only=only)
    counter = np.zeros(1, dtype=np.int64)
    kernels.answer_points.over(len(points))(points, tuple(whole), by_winding, thread_count(), counter, inside)
    return inside


def _closed(placed: Placed, ids: Ints) -> tuple[Ints, bool]:
    """Triangles of closed pieces among ``ids``, and whether they are oriented; kept with the tree while it holds."""
    frame, derived = placed.frame, placed.tree.derived
    if placed.active is not None:
        closed, oriented, _ = closed_pieces(placed.x, frame.faces[ids])
        return ids[closed], oriented
    kept = derived.get("closed")
    if kept is None or kept[0] not in ((frame.mark, None), (frame.mark, placed.token)):
        closed, oriented, by_index = closed_pieces(placed.x, frame.faces[ids])
        kept = (frame.mark, None if by_index else placed.token), ids[closed], oriented
        derived["closed"] = kept
    return kept[1], kept[2]
