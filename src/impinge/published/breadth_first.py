"""A. Greß, G. Zachmann: Object-Space Interference Detection on Programmable Graphics Hardware. CG-2004-2, Bonn, 2004.

All intersecting triangle pairs of two rigid bodies S and T. The matrix C maps T's object space to S's.

3    ``all_pairs``: m · n triangle tests; T is transformed once per line, or once per fragment.
4.1  ``AabbTree``: level L has n(L) = ⌈n(L + 1) / 2⌉ nodes, the children of node i are 2i and 2i + 1, and the lowest
     level holds the triangles. The shallower of two trees gets further levels of a single node on top.
4.2  ``InterferenceDetector``, Fig. 1. The node pair index map has a row for each node T_j of level L; row j lists the
     nodes S_i that are visited with T_j. ``row_start`` is the paper's vertex array: where each row starts and ends.
     1. Test all box pairs of the map (4.3). The overlap count of a pair is the number of children of S_i, or 0.
     2. No overlap: the bodies do not collide.
     3. Build the index map of level L + 1 from the overlap counts (4.4). Continue with that level.
     4. On the lowest level, test triangles instead of boxes.
4.3  ``_test_boxes``: SAT lite (Appendix A), the six face normals of the two boxes.
4.4  ``_sum_overlap_counts`` (Fig. 2) sums the counts of a row pairwise, level by level, like a 1-D MIP map.
     ``_find_nodes`` (Fig. 3) descends these sums once for each entry of the new row. ``_last_pass`` maps positions in
     the old row to nodes. ``expansion="scan"`` replaces sums and descent by prefix sums; the maps are the same.
     ``fuse`` moves the last pass into the tests.
5    ``entry_threshold``: the traversal starts at the level that the previous query of the object pair selected.

Departures
  - 4.4 lets both children of T_j inherit row j without saying so: row t of level L + 1 is made from row ⌊t / 2⌋.
  - 4.4 describes the descent as a walk down the AABB tree. Rows are compacted lists, so the descent finds positions in
    the list. The sums of a row therefore have ⌈log2(length)⌉ levels instead of L.
  - 4.1 does not describe the construction. Each run of 2^h leaves is sorted along the longest axis of its barycentres,
    and the first half goes left.
  - 5 selects "the highest level" above a percentage, and means the deepest. The level changes by one per query:
    deeper above the threshold, higher below a quarter of it. ``ENTRY_PAIRS`` limits the box pairs of the first level.
  - Appendix A subtracts ``centerS`` inside the constructor instead of from its result.
  - Appendix A ignores rounding. Here each of the six tests has a slack that covers centres, extents, C and its inverse.
  - 6 stores indices in half floats, which are exact up to 2048 and not to 4096. Indices are int32 here.
  - ``transform="vertices"`` is the alternative to SAT lite: T's vertices are moved once and its boxes are refitted.
  - Triangle tests use exact signs. A pair that only touches is an intersection.

Guarantee  Exact and complete for the corners of S and the corners of T as ``transform_points`` maps them.

>>> import numpy as np
>>> from impinge.mesh import shapes
>>> from impinge.published.breadth_first import InterferenceDetector
>>> s, t = shapes.bumpy_sphere(3), shapes.bumpy_sphere(3)
>>> detector = InterferenceDetector(s, t, expansion="histopyramid", entry_threshold=0.25)
>>> matC = np.eye(4)
>>> for matC[0, 3] in (1.2, 1.1, 1.0):
...     found = detector.query(matC)
...     print(len(found.pairs), found.entry_level, found.triangle_tests)
144 0 1760
156 1 1956
156 2 2124
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from impinge.backend.jit import compiled, inlined, kernel, prange
from impinge.backend.scan import exclusive_scan
from impinge.backend.stages import start_stages
from impinge.checks import Bools, Floats, Ints, as_choice, as_flag, as_number, as_transform
from impinge.errors import OptionError
from impinge.exact.kinds import NONE
from impinge.exact.triangle_triangle import triangle_triangle
from impinge.mesh.body import as_surface
from impinge.mesh.transform import transform_points

Expansion: TypeAlias = Literal["histopyramid", "scan"]
Transform: TypeAlias = Literal["boxes", "vertices"]
PerLineOrFragment: TypeAlias = Literal["line", "fragment"]
Longs: TypeAlias = NDArray[np.int64]
Point: TypeAlias = tuple[float, float, float]

LESS = 0.25
"""Below this part of the entry threshold the next query starts one level higher."""
ENTRY_PAIRS = 1 << 20
"""Largest number of box pairs on the entry level."""
ROUNDING = 2.0**-46
"""Relative error of mapping a box from one object space to the other: fewer than 64 roundings of 2^-53."""
UNDERFLOW = 2.0**-1060
"""Absolute error of the same for subnormal numbers."""


# 4.1 Bounding volume hierarchy --------------------------------------------------------------------------------


@dataclass(frozen=True)
class AabbTree:
    """A balanced tree of boxes (4.1). Level 0 is the root; the last level has one node per triangle."""

    corner: Floats
    """Corners of the triangles in leaf order, shape (n, 3, 3)."""
    triangle: Ints
    """Triangle id of each leaf, shape (n,)."""
    first: Longs
    """First node of each level."""
    count: Longs
    """n(L), the number of nodes of each level."""
    center: Floats
    """Centre of each box, shape (nodes, 3)."""
    extent: Floats
    """Half size of each box, shape (nodes, 3)."""

    @classmethod
    def build(cls, body: Any, *, name: str = "the body") -> AabbTree:
        """Build the tree of a body in its present state (the preprocessing step)."""
        corner, triangle = _soup(body, name)
        order = _leaf_order(np.ascontiguousarray((corner / 3.0).sum(axis=1)))
        count = [len(order)]
        while count[0] > 1:
            count.insert(0, -(-count[0] // 2))
        first = np.cumsum([0, *count[:-1]])
        return cls._fitted(corner[order], triangle[order], first, np.array(count, dtype=np.int64))

    @classmethod
    def _fitted(cls, corner: Floats, triangle: Ints, first: Longs, count: Longs) -> AabbTree:
        center, extent = _fit_boxes(corner, first, count)
        return cls(corner, triangle, first, count, center, extent)

    def transformed(self, matC: Floats) -> AabbTree:
        """Move the triangles and refit the boxes."""
        corner = transform_points(matC, self.corner.reshape(-1, 3)).reshape(-1, 3, 3)
        return self._fitted(corner, self.triangle, self.first, self.count)

    def levels(self, count: int) -> tuple[Longs, Longs]:
        """First node and n(L) of each of ``count`` levels; levels of a single node, the root, are added on top."""
        extra = np.zeros(count - len(self.count), dtype=np.int64)
        return np.concatenate([extra, self.first]), np.concatenate([extra + 1, self.count])


@compiled
def _leaf_order(barycentre: Floats) -> Ints:
    """Order triangles such that every aligned run of 2^h of them is compact."""
    order = np.arange(len(barycentre)).astype(np.int32)
    size = 1
    while size < len(order):
        size *= 2
    while size > 1:
        for begin in range(0, len(order), size):
            run = order[begin : begin + size].copy()
            if len(run) > size // 2:
                low, high = barycentre[run[0]].copy(), barycentre[run[0]].copy()
                for t in run:
                    low, high = np.minimum(low, barycentre[t]), np.maximum(high, barycentre[t])
                axis = np.argmax(high - low)
                order[begin : begin + size] = run[np.argsort(barycentre[run, axis], kind="mergesort")]
        size //= 2
    return order


@compiled
def _fit_boxes(corner: Floats, first: Longs, count: Longs) -> tuple[Floats, Floats]:
    """Centre and half size of all nodes, from the triangles up to the root."""
    low, high = np.zeros((first[-1] + count[-1], 3)), np.zeros((first[-1] + count[-1], 3))
    for i in range(count[-1]):
        for k in range(3):
            low[first[-1] + i, k] = min(corner[i, 0, k], corner[i, 1, k], corner[i, 2, k])
            high[first[-1] + i, k] = max(corner[i, 0, k], corner[i, 1, k], corner[i, 2, k])
    for L in range(len(count) - 2, -1, -1):
        for i in range(count[L]):
            left = first[L + 1] + 2 * i
            right = left + _child_count(i, count[L + 1]) - 1
            for k in range(3):
                low[first[L] + i, k] = min(low[left, k], low[right, k])
                high[first[L] + i, k] = max(high[left, k], high[right, k])
    return 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low


@compiled
def _child_count(i: int, count_below: int) -> int:
    """Children of node ``i``, one or two; the level below has ``count_below`` nodes."""
    return min(2, count_below - 2 * i)


# 4.3 Box overlap tests, Appendix A ----------------------------------------------------------------------------


def _inverse_and_slack(S: AabbTree, T: AabbTree, matC: Floats) -> tuple[Floats, Floats]:
    """Inverse of C and slack of the six axes, shape (2, 3): uniform parameters, constant for all box pairs.

    Let x = C y + d + δ be a common point, with x in a box of S around c_S, y in a box of T around c_T, and δ the
    rounding of ``transform_points``. Then distInS = C c_T + d - c_S = C (c_T - y) + (x - c_S) - δ. Hence
    |distInS| <= |C| e_T + e_S + |δ|, and for any N, also for an N that is only nearly the inverse of C,
    |N distInS| <= e_T + |N C - I| e_T + |N| (e_S + |δ|).
    """
    reach_S, reach_T = abs(S.center[0]) + S.extent[0], abs(T.center[0]) + T.extent[0]
    linear = matC[:3, :3]
    try:
        matCInv = np.linalg.inv(linear).astype(np.float64)
    except np.linalg.LinAlgError as error:
        raise OptionError("transform is singular; SAT lite needs its inverse, use transform='vertices'") from error
    with np.errstate(all="ignore"):  # a slack of inf or NaN separates nothing
        delta = ROUNDING * (abs(linear) @ reach_T + abs(matC[:3, 3]) + reach_S) + UNDERFLOW
        residual = abs(matCInv @ linear - np.eye(3)) + ROUNDING * (abs(matCInv) @ abs(linear) + np.eye(3))
        slack_T = 2.0 * (residual @ reach_T + abs(matCInv) @ delta) + UNDERFLOW
    return matCInv, np.stack([delta, slack_T])


@inlined
def _boxes_overlap(
    centerS: Floats, extentS: Floats, i: int, centerT: Floats, extentT: Floats, j: int, matC: Floats, matCInv: Floats,
    slack: Floats,
) -> bool:  # fmt: skip
    """Test two boxes by testBoxOverlap of Appendix A. A comparison with NaN separates nothing."""
    tx, ty, tz = centerT[j, 0], centerT[j, 1], centerT[j, 2]
    x = (matC[0, 0] * tx + matC[0, 1] * ty + matC[0, 2] * tz + matC[0, 3]) - centerS[i, 0]
    y = (matC[1, 0] * tx + matC[1, 1] * ty + matC[1, 2] * tz + matC[1, 3]) - centerS[i, 1]
    z = (matC[2, 0] * tx + matC[2, 1] * ty + matC[2, 2] * tz + matC[2, 3]) - centerS[i, 2]
    distInS = (x, y, z)
    overlaps = True
    for k in range(3):  # the axes of S
        extsum = extentS[i, k] + (
            abs(matC[k, 0]) * extentT[j, 0] + abs(matC[k, 1]) * extentT[j, 1] + abs(matC[k, 2]) * extentT[j, 2]
        )
        overlaps &= not abs(distInS[k]) > extsum + slack[0, k]
    for k in range(3):  # the axes of T
        dist = matCInv[k, 0] * x + matCInv[k, 1] * y + matCInv[k, 2] * z
        extsum = extentT[j, k] + (
            abs(matCInv[k, 0]) * extentS[i, 0] + abs(matCInv[k, 1]) * extentS[i, 1] + abs(matCInv[k, 2]) * extentS[i, 2]
        )
        overlaps &= not abs(dist) > extsum + slack[1, k]
    return overlaps


@inlined
def _aligned_boxes_overlap(
    centerS: Floats, extentS: Floats, i: int, centerT: Floats, extentT: Floats, j: int, slack: Floats
) -> bool:
    """Test two boxes of one space."""
    overlaps = True
    for k in range(3):
        overlaps &= not abs(centerT[j, k] - centerS[i, k]) > extentS[i, k] + extentT[j, k] + slack[0, k]
    return overlaps


@kernel()
def _test_boxes(
    row_start: Longs, old_row_start: Longs, old_index_map: Ints, node: Ints, child: Ints, is_last_pass_due: bool,
    index_map: Ints, count_below: int, centerS: Floats, extentS: Floats, centerT: Floats, extentT: Floats,
    is_aligned: bool, matC: Floats, matCInv: Floats, slack: Floats, overlap_count: Ints,
) -> None:  # fmt: skip
    """Write the overlap count of each entry of the index map: the children of S_i, or 0 for disjoint boxes."""
    for j in prange(len(row_start) - 1):
        if is_last_pass_due:
            _last_pass_of_row(j, row_start, old_row_start, old_index_map, node, child, index_map)
        for k in range(row_start[j], row_start[j + 1]):
            i = index_map[k]
            if is_aligned:
                overlaps = _aligned_boxes_overlap(centerS, extentS, i, centerT, extentT, j, slack)
            else:
                overlaps = _boxes_overlap(centerS, extentS, i, centerT, extentT, j, matC, matCInv, slack)
            overlap_count[k] = _child_count(i, count_below) if overlaps else 0


# 4.4 Generating the node pair index map -----------------------------------------------------------------------
#
# ``old_*`` is the map of level L. ``node`` and ``child`` are the paper's temporary buffer. They hold, for each entry of
# the new map, the current node index (a position in row ⌊t / 2⌋ of the old map) and the current child index.


@kernel()
def _sum_overlap_counts(row_start: Longs, overlap_count: Ints, map_start: Longs, count_map: Ints) -> None:
    """Sum the overlap counts of each row pairwise (Fig. 2).

    Row j of the count map has 2^h entries on its lowest level, padded with 0. Entry e of level l of the row is
    ``count_map[map_start[j] + 2^l + e]``, and its two summands are at twice that offset.
    """
    for j in prange(len(row_start) - 1):
        base, width = map_start[j], (map_start[j + 1] - map_start[j]) // 2
        for k in range(row_start[j], row_start[j + 1]):
            count_map[base + width + k - row_start[j]] = overlap_count[k]
        for e in range(width - 1, 0, -1):
            count_map[base + e] = count_map[base + 2 * e] + count_map[base + 2 * e + 1]


@kernel()
def _find_nodes(row_start: Longs, map_start: Longs, count_map: Ints, node: Ints, child: Ints) -> None:
    """Descend the sums for each entry of the new map (Fig. 3), all passes of an entry in a row."""
    for t in prange(len(row_start) - 1):
        base, width = map_start[t // 2], (map_start[t // 2 + 1] - map_start[t // 2]) // 2
        for k in range(row_start[t], row_start[t + 1]):
            e, child_index = 1, k - row_start[t]
            while e < width:
                e *= 2
                overlap = count_map[base + e]
                if overlap <= child_index:
                    e += 1
                    child_index -= overlap
            node[k], child[k] = e - width, child_index


@kernel()
def _find_nodes_by_scan(row_start: Longs, old_row_start: Longs, overlap_start: Longs, node: Ints, child: Ints) -> None:
    """Write node and child index of each entry of the new map from the prefix sums of the overlap counts."""
    for t in prange(len(row_start) - 1):
        begin, end = old_row_start[t // 2], old_row_start[t // 2 + 1]
        shift = row_start[t] - overlap_start[begin]
        for p in range(begin, end):
            for k in range(overlap_start[p], overlap_start[p + 1]):
                node[k + shift], child[k + shift] = p - begin, k - overlap_start[p]


@inlined
def _last_pass_of_row(
    t: int, row_start: Longs, old_row_start: Longs, old_index_map: Ints, node: Ints, child: Ints, index_map: Ints
) -> None:
    """Write row ``t`` of the new index map: the first or second child of the node that each entry comes from."""
    for k in range(row_start[t], row_start[t + 1]):
        index_map[k] = 2 * old_index_map[old_row_start[t // 2] + node[k]] + child[k]


@kernel()
def _last_pass(
    row_start: Longs, old_row_start: Longs, old_index_map: Ints, node: Ints, child: Ints, index_map: Ints
) -> None:
    """Write all rows of the new index map."""
    for t in prange(len(row_start) - 1):
        _last_pass_of_row(t, row_start, old_row_start, old_index_map, node, child, index_map)


# 3 Triangle intersection tests --------------------------------------------------------------------------------


@inlined
def _transformed(matC: Floats, corner: Floats, j: int) -> tuple[Point, Point, Point]:
    """Corners of triangle ``j`` in S's object space."""
    return _times(matC, _corner(corner, j, 0)), _times(matC, _corner(corner, j, 1)), _times(matC, _corner(corner, j, 2))


@inlined
def _times(matC: Floats, p: Point) -> Point:
    """Transform a point with the roundings of ``transform_points``."""
    x, y, z = p
    return (
        matC[0, 0] * x + matC[0, 1] * y + matC[0, 2] * z + matC[0, 3],
        matC[1, 0] * x + matC[1, 1] * y + matC[1, 2] * z + matC[1, 3],
        matC[2, 0] * x + matC[2, 1] * y + matC[2, 2] * z + matC[2, 3],
    )


@inlined
def _corner(corner: Floats, i: int, c: int) -> Point:
    return corner[i, c, 0], corner[i, c, 1], corner[i, c, 2]


@kernel(parallel_from=1024)
def _test_triangles(
    row_start: Longs, old_row_start: Longs, old_index_map: Ints, node: Ints, child: Ints, is_last_pass_due: bool,
    index_map: Ints, cornerS: Floats, cornerT: Floats, matC: Floats, hit: Bools,
) -> None:  # fmt: skip
    """Test the triangle pairs of the index map; the triangle of a row is transformed once, in the vertex program."""
    for j in prange(len(row_start) - 1):
        if is_last_pass_due:
            _last_pass_of_row(j, row_start, old_row_start, old_index_map, node, child, index_map)
        p, q, r = _transformed(matC, cornerT, j)
        for k in range(row_start[j], row_start[j + 1]):
            i = index_map[k]
            kind = triangle_triangle(_corner(cornerS, i, 0), _corner(cornerS, i, 1), _corner(cornerS, i, 2), p, q, r)
            hit[k] = kind != NONE


@kernel(parallel_from=1024)
def _test_all_triangles(cornerS: Floats, cornerT: Floats, matC: Floats, per_fragment: bool, hit: Bools) -> None:
    """Test all m · n triangle pairs; writes hit[j, i]."""
    for j in prange(len(cornerT)):
        p, q, r = _transformed(matC, cornerT, j)
        for i in range(len(cornerS)):
            if per_fragment:
                p, q, r = _transformed(matC, cornerT, j)
            kind = triangle_triangle(_corner(cornerS, i, 0), _corner(cornerS, i, 1), _corner(cornerS, i, 2), p, q, r)
            hit[j, i] = kind != NONE


def all_pairs(S: Any, T: Any, *, transform: Any = None, transform_per: PerLineOrFragment = "line") -> Ints:
    """Test all m · n triangle pairs, and list those that intersect (section 3).

    Parameters
    ----------
    S, T
        Two bodies: ``TriMesh``, ``TetMesh`` (its surface), ``(vertices, faces)``, or a path.
    transform
        matC, the affine 4x4 matrix from T's object space to S's; None for the identity.
    transform_per
        ``"line"`` transforms a triangle of T once, in the vertex program. ``"fragment"`` transforms it for each pair.

    Returns
    -------
    pairs
        Ids of intersecting triangles of S and T, sorted, int32 of shape (k, 2).

    Raises
    ------
    OptionError
        An option has an unknown value, or the transform is not affine or moves T beyond the range of doubles.

    Examples
    --------
    >>> from impinge.mesh import shapes
    >>> len(all_pairs(shapes.box(), shapes.box(center=(0.5, 0.5, 0.5))))
    18
    """
    hit, triangle_S, triangle_T = _render_rectangle(S, T, transform, transform_per)
    j, i = np.nonzero(hit)
    return _sorted_pairs(triangle_S[i], triangle_T[j])


def count_pairs(S: Any, T: Any, *, transform: Any = None, transform_per: PerLineOrFragment = "line") -> int:
    """Count the pairs of ``all_pairs`` without a list of them: the occlusion query of section 3.

    Parameters
    ----------
    S, T, transform, transform_per
        As for ``all_pairs``.

    Returns
    -------
    count
        The number of intersecting triangle pairs.

    Raises
    ------
    OptionError
        As for ``all_pairs``.

    Examples
    --------
    >>> from impinge.mesh import shapes
    >>> count_pairs(shapes.box(), shapes.box(center=(0.5, 0.5, 0.5)))
    18
    """
    return int(np.count_nonzero(_render_rectangle(S, T, transform, transform_per)[0]))


def _render_rectangle(S: Any, T: Any, transform: Any, transform_per: PerLineOrFragment) -> tuple[Bools, Ints, Ints]:
    """Whether triangle j of T meets triangle i of S, for all j and i; ids of the triangles of S and of T."""
    as_choice(transform_per, "transform_per", get_args(PerLineOrFragment))
    (corner_S, triangle_S), (corner_T, triangle_T) = _soup(S, "S"), _soup(T, "T")
    matC = _matrix(transform, corner_T)
    hit = np.zeros((len(corner_T), len(corner_S)), dtype=np.bool_)
    _test_all_triangles.over(hit.size)(corner_S, corner_T, matC, transform_per == "fragment", hit)
    return hit, triangle_S, triangle_T


# 4.2 Outline of the algorithm, 5 entry level ------------------------------------------------------------------


@dataclass(frozen=True)
class Interference:
    """Intersecting triangle pairs of one query, with counts of the work."""

    pairs: Ints
    """Ids of intersecting triangles of S and T, sorted, shape (k, 2)."""
    entry_level: int
    """Level where the traversal started."""
    box_tests: list[int] = field(default_factory=list)
    """Box pairs tested on each level, from the root down; the triangle level has none."""
    box_overlaps: list[int] = field(default_factory=list)
    """Box pairs that overlap on each level: the occlusion query."""
    triangle_tests: int = 0
    stage_ms: dict[str, float] = field(default_factory=dict)
    """Milliseconds of ``refit``, ``expand`` (index map), ``test`` (boxes) and ``triangles`` after ``time_stages()``."""


class InterferenceDetector:
    """Hierarchical interference detection of one object pair (sections 4 and 5).

    The trees are built here, from the bodies in their present state: bodies are rigid and move by ``transform``.

    Parameters
    ----------
    S, T
        Two bodies: ``TriMesh``, ``TetMesh`` (its surface), ``(vertices, faces)``, or a path.
    expansion
        How the index map of the next level is made (4.4): ``"histopyramid"`` by Figs 2 and 3, ``"scan"`` by prefix
        sums.
    fuse
        Do the last pass of 4.4 in the box and triangle tests.
    transform
        ``"boxes"`` tests boxes in their own spaces by SAT lite (Appendix A). ``"vertices"`` moves T and refits its
        boxes.
    entry_threshold
        Share of overlapping box pairs above which the next query starts one level deeper (5), in (0, 1]; None to start
        at the roots.

    Raises
    ------
    OptionError
        An option has an unknown value.

    Examples
    --------
    >>> from impinge.mesh import shapes
    >>> detector = InterferenceDetector(shapes.box(), shapes.box(center=(0.5, 0.5, 0.5)), expansion="scan")
    >>> detector.query().pairs.shape
    (18, 2)
    """

    def __init__(
        self,
        S: Any,
        T: Any,
        *,
        expansion: Expansion = "histopyramid",
        fuse: bool = False,
        transform: Transform = "boxes",
        entry_threshold: float | None = 0.25,
    ) -> None:
        as_choice(expansion, "expansion", get_args(Expansion))
        as_choice(transform, "transform", get_args(Transform))
        if entry_threshold is not None:
            as_number(entry_threshold, "entry_threshold", "a share in (0, 1], or None", above=0.0, most=1.0)
        self._S, self._T = AabbTree.build(S, name="S"), AabbTree.build(T, name="T")
        self._expansion, self._fuse, self._transform = expansion, as_flag(fuse, "fuse"), transform
        self._threshold = entry_threshold
        self._entry_level = 0

    def query(self, transform: Any = None) -> Interference:
        """Find all intersecting triangle pairs (Fig. 1).

        Parameters
        ----------
        transform
            matC, the affine 4x4 matrix from T's object space to S's; None for the identity.

        Returns
        -------
        Interference
            The pairs, and counts of the work.

        Raises
        ------
        OptionError
            The matrix is not affine, is singular (SAT lite), or moves T beyond the range of doubles.
        """
        S, T, matC = self._S, self._T, _matrix(transform, self._T.corner)
        if not len(S.triangle) or not len(T.triangle):
            return Interference(np.zeros((0, 2), dtype=np.int32), 0)
        stages = start_stages()
        is_aligned = self._transform == "vertices"
        if is_aligned:
            T, matC = T.transformed(matC), np.eye(4)
        matCInv, slack = _inverse_and_slack(S, T, matC)
        stages.done("refit")
        level_count = max(len(S.count), len(T.count))
        lowest = level_count - 1
        first_S, count_S = S.levels(level_count)
        first_T, count_T = T.levels(level_count)
        box_tests, box_overlaps = [0] * level_count, [0] * level_count

        # the index map of the entry level holds all node pairs
        entry = min(self._entry_level, max(lowest - 1, 0))
        while count_S[entry] * count_T[entry] > ENTRY_PAIRS:
            entry -= 1
        row_start = np.arange(count_T[entry] + 1) * count_S[entry]
        index_map = np.tile(np.arange(count_S[entry], dtype=np.int32), count_T[entry])
        unused = np.zeros(0, dtype=np.int32)
        origin, is_last_pass_due = (row_start, index_map, unused, unused), False
        stages.done("expand")
        for L in range(entry, lowest):
            nodes_S, nodes_T = slice(first_S[L], first_S[L] + count_S[L]), slice(first_T[L], first_T[L] + count_T[L])
            boxes = (S.center[nodes_S], S.extent[nodes_S], T.center[nodes_T], T.extent[nodes_T])
            overlap_count = np.zeros(len(index_map), dtype=np.int32)
            _test_boxes.over(len(index_map))(
                row_start, *origin, is_last_pass_due, index_map, count_S[L + 1], *boxes, is_aligned, matC, matCInv,
                slack, overlap_count,
            )  # fmt: skip
            box_tests[L], box_overlaps[L] = len(index_map), int(np.count_nonzero(overlap_count))
            stages.done("test")
            new_row_start, node, child = self._find(row_start, overlap_count, count_T[L + 1])
            origin, is_last_pass_due = (row_start, index_map, node, child), self._fuse
            row_start, index_map = new_row_start, np.zeros(len(node), dtype=np.int32)
            if not self._fuse:
                _last_pass.over(len(node))(row_start, *origin, index_map)
            stages.done("expand")
            if not box_overlaps[L]:  # the two objects do not collide
                break
        if entry < lowest:
            self._adjust_entry_level(entry, lowest, box_overlaps[entry] / box_tests[entry])
        hit = np.zeros(len(index_map), dtype=np.bool_)
        if not len(hit):
            return Interference(np.zeros((0, 2), dtype=np.int32), entry, box_tests, box_overlaps, 0, stages.times())
        _test_triangles.over(len(hit))(row_start, *origin, is_last_pass_due, index_map, S.corner, T.corner, matC, hit)
        row = np.repeat(np.arange(len(T.triangle)), np.diff(row_start))
        pairs = _sorted_pairs(S.triangle[index_map[hit]], T.triangle[row[hit]])
        stages.done("triangles")
        return Interference(pairs, entry, box_tests, box_overlaps, len(hit), stages.times())

    def _find(self, row_start: Longs, overlap_count: Ints, row_count: int) -> tuple[Longs, Ints, Ints]:
        """Rows of the next level, and the position and the child index in the present map of each of their entries."""
        if self._expansion == "histopyramid":
            width = 1 << np.ceil(np.log2(np.maximum(np.diff(row_start), 1))).astype(np.int64)
            map_start = exclusive_scan(2 * width)
            count_map = np.zeros(map_start[-1], dtype=np.int32)
            _sum_overlap_counts.over(len(overlap_count))(row_start, overlap_count, map_start, count_map)
            length = count_map[map_start[:-1] + 1]  # level 0 of the overlap count map
        else:
            overlap_start = exclusive_scan(overlap_count)
            length = np.diff(overlap_start[row_start])
        new_row_start = exclusive_scan(length[np.arange(row_count) // 2])
        node, child = np.zeros((2, new_row_start[-1]), dtype=np.int32)
        if self._expansion == "histopyramid":
            _find_nodes.over(len(node))(new_row_start, map_start, count_map, node, child)
        else:
            _find_nodes_by_scan.over(len(node))(new_row_start, row_start, overlap_start, node, child)
        return new_row_start, node, child

    def _adjust_entry_level(self, entry: int, lowest: int, share: float) -> None:
        """Select the entry level of the next query from the share of box pairs that overlap on this one (5)."""
        if self._threshold is None:
            return
        if share > self._threshold:
            entry += 1
        elif share < LESS * self._threshold:
            entry -= 1
        self._entry_level = min(max(entry, 0), lowest - 1)


def _soup(body: Any, name: str) -> tuple[Floats, Ints]:
    """Corners of the triangles of a body, shape (n, 3, 3), and their ids."""
    snapshot = as_surface(body, name=name).snapshot()
    return snapshot.vertices[snapshot.elements[snapshot.live]], snapshot.live


def _matrix(transform: Any, corner: Floats) -> Floats:
    """Check matC; refuse one that moves a corner beyond the range of doubles."""
    matC = as_transform(transform, "transform")
    if matC is None:
        return np.eye(4)
    with np.errstate(over="ignore", invalid="ignore"):
        reach = abs(matC[:3, :3]) @ abs(corner).max(axis=(0, 1), initial=0.0) + abs(matC[:3, 3])
    if not np.isfinite(reach).all():
        raise OptionError("transform moves a vertex beyond the range of doubles; use smaller units")
    return matC


def _sorted_pairs(s: Ints, t: Ints) -> Ints:
    order = np.lexsort((t, s))
    return np.stack([s[order], t[order]], axis=1)
