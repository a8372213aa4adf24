"""Which points are inside a closed surface: rays upwards through the tree of boxes, with exact signs.

1. Fit   the boxes of all levels (``whole_tree``).
2. Close What encloses are the closed pieces of the body, as in ``containment``. Which pieces there are is found once
         per topology; where they are open, the ends of their open edges are compared once per update.
3. Count the crossings of a ray from each point upwards (``exact.point_surface``), of those triangles only
         whose boxes it meets.

Meaning  Inside is where the winding number is not zero, or, of pieces whose triangles do not agree on which side is
         outside, where the number of crossings is odd. A point on a closed piece is inside. An open surface has no
         inside.
Exact    for all input: boxes are rounded as the point is, so that no triangle is missed, and the crossings are found by
         exact signs, rays through edges and vertices included.
Cost     refit, then O(log n + crossings) per point. Soups, all of whose edges are open, sort their vertices once per
         update.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from impinge.backend.jit import thread_count
from impinge.checks import Bools, Floats, as_positions
from impinge.detect.boxes.tree import Placed, TreeOfBoxes, fit_trees, place, with_moved_vertices
from impinge.detect.boxes.whole_tree import WholeTree, whole_tree
from impinge.detect.common.containment import closed_pieces, pieces_of
from impinge.detect.common.pair_query import PairOptions
from impinge.detect.proximity import points_inside_kernels as kernels
from impinge.mesh.tri_mesh import TriMesh


def points_inside(body: TriMesh, points: Any, options: PairOptions) -> Bools:
    """Which of ``points`` are inside ``body`` or on it; of the options those of a."""
    asked = np.array(as_positions(points, name="points"))  # Numba compiles anew for read-only ones
    tree = body.structure("boxes", TreeOfBoxes)
    with tree.lock:
        placed = with_moved_vertices(place(body, tree, options.transform_a, options.active_a, "a"), "a")
        if not _closed(placed).closed.any():
            return np.zeros(len(asked), dtype=np.bool_)
        fit_trees(placed)
        return inside_placed(placed, whole_tree(placed, only=placed.active), asked)


def inside_placed(placed: Placed, whole: WholeTree, points: Floats) -> Bools:
    """Which points are inside a fitted tree, whose boxes of active triangles are ``whole``."""
    inside = np.zeros(len(points), dtype=np.bool_)
    closed, oriented, is_all = _closed(placed)
    if not closed.any():
        return inside
    if not is_all:
        whole = whole_tree(placed, only=closed)
    counter = np.zeros(1, dtype=np.int64)
    kernels.answer_points.over(len(points))(points, tuple(whole), oriented, thread_count(), counter, inside)
    return inside


class _Closed(NamedTuple):
    """By triangle: whether its piece is closed, and oriented; and whether all active triangles are in closed pieces."""

    closed: Bools
    oriented: Bools
    is_all: bool


def _closed(placed: Placed) -> _Closed:
    """The closed pieces, kept with the tree while they hold: for positions only if there are open edges."""
    frame, derived = placed.frame, placed.tree.derived
    topology = frame.mark, None if placed.active is None else placed.active.tobytes()
    kept = derived.get("pieces")
    if kept is None or kept[0] != topology:
        ids = np.sort(placed.tree.slot_tri[placed.tree.slot_tri >= 0])
        ids = ids if placed.active is None else ids[placed.active[ids]]
        kept = derived["pieces"] = topology, ids, pieces_of(frame.faces[ids], len(placed.x))
        derived.pop("closed", None)
    _, ids, pieces = kept
    token = placed.token if len(pieces.open_edge) else None
    known: tuple[object, _Closed] | None = derived.get("closed")
    if known is None or known[0] != token:
        closed, oriented = np.zeros(len(frame.faces), dtype=np.bool_), np.zeros(len(frame.faces), dtype=np.bool_)
        closed[ids], oriented[ids] = closed_pieces(pieces, placed.x)
        known = derived["closed"] = token, _Closed(closed, oriented, bool(closed[ids].all()))
    return known[1]
