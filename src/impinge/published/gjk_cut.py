"""GJK for deformable object collision detection, as written in [HatabKheddar2006].

Algorithm 4.1, CutAlongDirection       ``cut_along_direction``
Algorithm 4.2, combined GJK with cut   ``_combined_gjk``
Algorithm 5.1, RecursiveCheck          ``recursive_check`` and ``_recursive_check``

>>> from impinge.mesh import shapes
>>> from impinge.published import gjk_cut
>>> a = shapes.uv_sphere(30, 26)  # 1,500 triangles, as in Fig. 5
>>> b = shapes.uv_sphere(30, 26, center=(1.5, 0.3, 0.1))
>>> left_a, left_b = gjk_cut.cut_along_direction(a, b, (1.0, 0.2, 0.0))
>>> bool(len(left_a) < len(a) and len(left_b) < len(b))
True
>>> found = gjk_cut.recursive_check(a, b)
>>> len(found.pairs) == len(gjk_cut.recursive_check(a, b, direction="gjk", stop="or", split="rank").pairs) > 100
True
>>> found.stats["leaves"] < found.stats["nodes"] <= found.stats["cuts"]
True

Symbols    TL is a triangle list, VL its vertex list, S the support direction SupDir (and cut direction CutDir), v_1 and
           v_2 are the support vertices. A triangle list is a range of the array ``Body.TL``: CutList and Split permute
           the entries of a range, and a range holds the same triangles after every call that received a part of it.
Options    direction  "chung_wang": line 15 of Algorithm 4.2, from [1]. "gjk": simplices and the distance sub-algorithm
                      of section III, from [5] and [3].
           stop       "and": line 7 of Algorithm 4.2, while both cuts succeed. "or": the text of section V, until no
                      list is cut.
           T_max      section VI, Fig. 2: cut a list only if the common region covers at most this share of it.
           split      "median": threshold at the median of all polygon points. "rank": equal halves by barycentre.
           leaf_pairs section V, "typically each leaf only contains one triangle": pairs of a leaf.
           hints      not in the paper: the first direction of the upper nodes, for temporal coherence.
Departures 1. Algorithm 4.2, line 10 is omitted. It is a remnant of Algorithm 3.1: together with line 15 it reflects
              S twice, and S never changes.
           2. Line 4: the difference of two arbitrary vertices may be 0. S starts from centroid to centroid of the
              vertex lists, or along x if these coincide.
           3. Line 14: v_1 - v_2 = 0 cannot be normalised. The supports touch, and the iteration ends. Where line 15
              leaves S unchanged (temp·S = 0), S is turned towards -temp.
           4. "Before v_2" is strict, with a margin μ for rounding, and the test for empty lists is inside of the loop.
              At most K_MAX cuts are made in a row.
           5. Algorithm 5.1, line 3: the ``And`` would skip the second Split. Both are evaluated.
           6. A threshold may leave one sub-list (nearly) empty and the recursion endless. Where a part has less than a
              quarter of the triangles, the list is halved by rank.
           7. The triangle test of [18] is a ray test; ``impinge.exact`` decides instead, exactly.
Rounding   Coordinates y are relative to the centre of both objects and scaled to -1 .. 1 by a power of two. With
           u = 2^-53, y is off by u and a dot product by 3 u sqrt(3) more, at most 4 sqrt(3) u < 2^-50. Two dot
           products and their comparison are off by less than 2^-48 = μ: no touching triangle is cut.
Guarantee  Exact and complete: cuts remove no triangle that touches the other list, and splits partition both lists.
Limits     Two bodies only: the paper does not treat self-collision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from impinge.backend.jit import compiled
from impinge.checks import Floats, Ints, as_choice, as_direction, as_ids, as_number, as_whole, check_finite
from impinge.errors import OptionError
from impinge.exact.kinds import NONE
from impinge.exact.triangle_triangle import cross, dot, minus, triangle_triangle
from impinge.mesh.body import as_surface

Direction: TypeAlias = Literal["chung_wang", "gjk"]
Stop: TypeAlias = Literal["and", "or"]
Split: TypeAlias = Literal["median", "rank"]
Vector: TypeAlias = tuple[float, float, float]

K_MAX = 32
"""Cuts in a row, at most."""
MU = 2.0**-48
"""Margin μ of a cut for rounding."""
NODES, CUTS, LEAVES, TESTS, FOUND = range(5)
"""Places of the counters."""


class Body(NamedTuple):
    """One object and its scratch memory."""

    x: Floats
    """Positions, shape (n, 3)."""
    y: Floats
    """Positions of the used vertices within -1 .. 1, shape (n, 3)."""
    faces: Ints
    TL: Ints
    """Triangle ids; a triangle list is a range of it."""
    VL: Ints
    """Vertex list of the triangle list at hand."""
    dots: Floats
    """Saved dot product of each vertex of VL."""
    mark: NDArray[np.int64]
    """Number of the last vertex list that each vertex was put on."""
    lists: NDArray[np.int64]
    """Number of vertex lists so far, shape (1,)."""


class Choices(NamedTuple):
    """The options of ``recursive_check``."""

    is_gjk: bool
    is_and: bool
    T_max: float
    is_median: bool
    leaf_pairs: int


@dataclass(frozen=True)
class CollidingPairs:
    """RL, the result list of Algorithm 5.1."""

    pairs: Ints
    """Triangle of a, triangle of b: unique, sorted, shape (p, 2)."""
    stats: dict[str, int]
    """Counts: nodes (calls of Algorithm 5.1 on non-empty lists), cuts, leaves, triangle_tests."""


# Sections III and IV: support vertices and cuts ---------------------------------------------------------------


@compiled
def _vertex_list(body: Body, first: int, last: int) -> int:
    """Write VL, the vertices of the triangle list; returns their number."""
    body.lists[0] += 1
    count = 0
    for k in range(first, last):
        for i in range(3):
            v = body.faces[body.TL[k], i]
            if body.mark[v] != body.lists[0]:
                body.mark[v] = body.lists[0]
                body.VL[count] = v
                count += 1
    return count


@compiled
def _support_vertex(body: Body, count: int, S: Vector) -> int:
    """SupportVertex(VL, S): the vertex farthest along S. Saves all dot products."""
    v: int = body.VL[0]
    for k in range(count):
        w = body.VL[k]
        body.dots[w] = body.y[w, 0] * S[0] + body.y[w, 1] * S[1] + body.y[w, 2] * S[2]
        if body.dots[w] > body.dots[v]:
            v = w
    return v


@compiled
def _cut_list(body: Body, first: int, last: int, limit: float) -> int:
    """CutList(TL, v): move triangles that are all before ``limit``, the position of v, behind the list.

    Returns the new end of the list. Only saved dot products are compared.
    """
    k = first
    while k < last:
        i, j, m = body.faces[body.TL[k], 0], body.faces[body.TL[k], 1], body.faces[body.TL[k], 2]
        if max(body.dots[i], body.dots[j], body.dots[m]) < limit - MU:
            last -= 1
            body.TL[k], body.TL[last] = body.TL[last], body.TL[k]
        else:
            k += 1
    return last


@compiled
def _is_below_threshold(body: Body, count: int, most: float, common: float, T_max: float) -> bool:
    """Section VI: whether the common region covers at most T_max of the object along S; needs the minimum, too."""
    if T_max >= 1.0:
        return True
    least = most
    for k in range(count):
        least = min(least, body.dots[body.VL[k]])
    return common <= T_max * (most - least)


@compiled
def _normalised(v: Vector) -> Vector:
    """A vector of length 1; x if ``v`` is 0."""
    length = math.sqrt(dot(v, v))
    if length == 0.0:
        return 1.0, 0.0, 0.0
    return v[0] / length, v[1] / length, v[2] / length


@compiled
def _centroid(body: Body, count: int) -> Vector:
    x = y = z = 0.0
    for k in range(count):
        v = body.VL[k]
        x, y, z = x + body.y[v, 0], y + body.y[v, 1], z + body.y[v, 2]
    return x / count, y / count, z / count


@compiled
def _chung_wang(S: Vector, temp: Vector) -> Vector:
    """Lines 14 and 15 of Algorithm 4.2."""
    temp = _normalised(temp)
    along = dot(temp, S)
    if along == 0.0:  # departure 3
        along = 0.5
    turned: Vector = _normalised((S[0] - temp[0] * along * 2, S[1] - temp[1] * along * 2, S[2] - temp[2] * along * 2))
    return turned


@compiled
def _weights(W: Floats, face: Any, m: int, weight: Floats) -> bool:
    """Write the weights of the origin's projection on m points of a simplex; False if it is not inside of them.

    Gaussian elimination on the Gram matrix G of the edges from the first point: G λ = -Eᵀ w_0.
    """
    G = np.zeros((3, 4))
    for i in range(m - 1):
        for axis in range(3):
            edge = W[face[i + 1], axis] - W[face[0], axis]
            G[i, 3] -= edge * W[face[0], axis]
            for j in range(m - 1):
                G[i, j] += edge * (W[face[j + 1], axis] - W[face[0], axis])
    for i in range(m - 1):
        if not G[i, i] > 1e-14:  # a flat face: another one has the nearest point
            return False
        for j in range(i + 1, m - 1):
            G[j] -= G[i] * (G[j, i] / G[i, i])
    weight[0] = 1.0
    for i in range(m - 2, -1, -1):
        weight[i + 1] = G[i, 3]
        for j in range(i + 1, m - 1):
            weight[i + 1] -= G[i, j] * weight[j + 1]
        weight[i + 1] /= G[i, i]
        weight[0] -= weight[i + 1]
    return bool(weight[:m].min() > 0.0)


@compiled
def _towards_origin(W: Floats, n: int) -> tuple[Vector, int]:
    """The distance sub-algorithm of GJK, by trying every face of the simplex W of n points.

    Keeps the face that has the point nearest to the origin; returns the direction from there to the origin, and
    the points kept: none if the origin is inside.
    """
    face, weight, kept = np.zeros(4, dtype=np.int64), np.zeros(4), np.zeros(4, dtype=np.int64)
    best, size, nearest = np.inf, 0, (0.0, 0.0, 0.0)
    for subset in range(1, 1 << n):
        m = 0
        for i in range(n):
            if subset >> i & 1:
                face[m] = i
                m += 1
        if not _weights(W, face, m, weight):
            continue
        x = y = z = 0.0
        for i in range(m):
            p = W[face[i]]
            x, y, z = x + weight[i] * p[0], y + weight[i] * p[1], z + weight[i] * p[2]
        if x * x + y * y + z * z < best:
            best, size, nearest = x * x + y * y + z * z, m, (x, y, z)
            kept[:] = face
    if size == 4 or best == 0.0:
        return nearest, 0
    for i in range(size):
        W[i] = W[kept[i]]
    return _normalised((-nearest[0], -nearest[1], -nearest[2])), size


@compiled
def _combined_gjk(
    body_1: Body, first_1: int, last_1: int, body_2: Body, first_2: int, last_2: int, hint: Vector, choices: Choices
) -> tuple[int, int, Vector, Vector, int]:  # fmt: skip
    """Algorithm 4.2: cut two lists along one direction after the other.

    Returns the ends of both lists, the direction of the last cut, the direction that cut most, and the number of cuts.
    One list is empty if a direction separates them. Otherwise the lists are not separated yet, no more.
    """
    n_1, n_2 = _vertex_list(body_1, first_1, last_1), _vertex_list(body_2, first_2, last_2)
    S = _normalised(hint)
    if math.isnan(hint[0]):
        S = _normalised(minus(_centroid(body_2, n_2), _centroid(body_1, n_1)))  # lines 2 to 4, departure 2
    W, points = np.zeros((4, 3)), 0
    used, best, most, cuts = S, S, -1, 0
    while True:
        v_1 = _support_vertex(body_1, n_1, S)  # line 8
        v_2 = _support_vertex(body_2, n_2, (-S[0], -S[1], -S[2]))  # line 9
        max_1, max_2 = body_1.dots[v_1], body_2.dots[v_2]  # along S and -S
        end_1, end_2 = last_1, last_2
        if _is_below_threshold(body_1, n_1, max_1, max_1 + max_2, choices.T_max):
            end_1 = _cut_list(body_1, first_1, last_1, -max_2)  # line 11
        if _is_below_threshold(body_2, n_2, max_2, max_1 + max_2, choices.T_max):
            end_2 = _cut_list(body_2, first_2, last_2, -max_1)  # line 12
        cut_1, cut_2, removed = end_1 < last_1, end_2 < last_2, last_1 - end_1 + last_2 - end_2
        last_1, last_2, used, cuts = end_1, end_2, S, cuts + 1
        if removed > most:
            best, most = S, removed
        goes_on = cut_1 and cut_2 if choices.is_and else cut_1 or cut_2  # line 7
        if not goes_on or last_1 == first_1 or last_2 == first_2 or cuts == K_MAX:
            break
        temp = minus(  # line 13
            (body_1.y[v_1, 0], body_1.y[v_1, 1], body_1.y[v_1, 2]),
            (body_2.y[v_2, 0], body_2.y[v_2, 1], body_2.y[v_2, 2]),
        )
        if dot(temp, temp) == 0.0:  # departure 3
            break
        if choices.is_gjk:
            W[points, 0], W[points, 1], W[points, 2] = temp
            S, points = _towards_origin(W, points + 1)
            if points == 0:
                break
        else:
            S = _chung_wang(S, temp)  # lines 14 and 15
        n_1, n_2 = _vertex_list(body_1, first_1, last_1), _vertex_list(body_2, first_2, last_2)
    return last_1, last_2, used, best, cuts


# Section V: the recursion -------------------------------------------------------------------------------------


@compiled
def _barycentres(body: Body, first: int, last: int, u: Vector) -> Floats:
    """Three times the barycentre of each triangle of the list, along u."""
    key = np.zeros(last - first)
    for k in range(last - first):
        for i in range(3):
            v = body.faces[body.TL[first + k], i]
            key[k] += body.y[v, 0] * u[0] + body.y[v, 1] * u[1] + body.y[v, 2] * u[2]
    return key


@compiled
def _median_of_points(body: Body, first: int, last: int, u: Vector) -> float:
    """The median of all polygon points along u."""
    points = np.empty(3 * (last - first))
    for k in range(last - first):
        for i in range(3):
            v = body.faces[body.TL[first + k], i]
            points[3 * k + i] = body.y[v, 0] * u[0] + body.y[v, 1] * u[1] + body.y[v, 2] * u[2]
    return float(np.median(points))


@compiled
def _split(body: Body, first: int, last: int, S: Vector, is_median: bool) -> int:
    """Split(TL, TL_1, TL_2): reorder the list; returns where TL_2 begins, the end of TL if that has one triangle.

    Of two directions orthogonal to S, the one along which the barycentres lie farther apart is taken.
    """
    count = last - first
    if count < 2:
        return last
    e = (1.0, 0.0, 0.0) if abs(S[0]) <= min(abs(S[1]), abs(S[2])) else (0.0, 1.0, 0.0)
    if abs(S[2]) < min(abs(S[0]), abs(S[1])):
        e = (0.0, 0.0, 1.0)
    u = _normalised(cross(S, e))
    key = _barycentres(body, first, last, u)
    w = cross(S, u)
    other = _barycentres(body, first, last, w)
    if other.max() - other.min() > key.max() - key.min():
        u, key = w, other
    triangles = body.TL[first:last].copy()
    if is_median:
        threshold = 3.0 * _median_of_points(body, first, last, u)
        middle, end = first, last
        for k in range(count):
            if key[k] < threshold:
                body.TL[middle] = triangles[k]
                middle += 1
            else:
                end -= 1
                body.TL[end] = triangles[k]
        if 4 * min(middle - first, last - middle) >= count:
            return middle
    body.TL[first:last] = triangles[np.argsort(key)]  # by rank, departure 6
    return first + count // 2


@compiled
def _corners(body: Body, t: int) -> tuple[Vector, Vector, Vector]:
    x, i, j, k = body.x, body.faces[t, 0], body.faces[t, 1], body.faces[t, 2]
    return (x[i, 0], x[i, 1], x[i, 2]), (x[j, 0], x[j, 1], x[j, 2]), (x[k, 0], x[k, 1], x[k, 2])


@compiled
def _check_all(
    body_1: Body, first_1: int, last_1: int, body_2: Body, first_2: int, last_2: int, RL: Ints, n: Any
) -> None:
    """Lines 5 and 6 of Algorithm 5.1: all triangles of TL_1 against all of TL_2. Counts pairs that RL cannot hold."""
    for k in range(first_1, last_1):
        p_1, q_1, r_1 = _corners(body_1, body_1.TL[k])
        for m in range(first_2, last_2):
            p_2, q_2, r_2 = _corners(body_2, body_2.TL[m])
            if triangle_triangle(p_1, q_1, r_1, p_2, q_2, r_2) != NONE:
                if n[FOUND] < len(RL):
                    RL[n[FOUND], 0], RL[n[FOUND], 1] = body_1.TL[k], body_2.TL[m]
                n[FOUND] += 1
    n[TESTS] += (last_1 - first_1) * (last_2 - first_2)
    n[LEAVES] += 1


@compiled
def _recursive_check(
    body_1: Body, first_1: int, last_1: int, body_2: Body, first_2: int, last_2: int, node: int, choices: Choices,
    hints: Floats, RL: Ints, n: Any,
) -> None:  # fmt: skip
    """Algorithm 5.1 on two lists; ``n`` are the counters, ``node`` numbers the calls for the hints."""
    if first_1 == last_1 or first_2 == last_2:
        return
    hint = (hints[node, 0], hints[node, 1], hints[node, 2]) if node < len(hints) else (np.nan, 0.0, 0.0)
    last_1, last_2, S, best, cuts = _combined_gjk(body_1, first_1, last_1, body_2, first_2, last_2, hint, choices)
    n[NODES] += 1
    n[CUTS] += cuts
    if node < len(hints):
        hints[node, 0], hints[node, 1], hints[node, 2] = best
    if first_1 == last_1 or first_2 == last_2:  # line 2: S separates the lists
        return
    if (last_1 - first_1) * (last_2 - first_2) <= choices.leaf_pairs:
        _check_all(body_1, first_1, last_1, body_2, first_2, last_2, RL, n)
        return
    middle_1 = _split(body_1, first_1, last_1, S, choices.is_median)  # line 3
    middle_2 = _split(body_2, first_2, last_2, S, choices.is_median)  # line 4
    child = min(4 * node, 1 << 60) + 1
    # Lines 8 to 11.
    _recursive_check(body_1, first_1, middle_1, body_2, first_2, middle_2, child, choices, hints, RL, n)
    _recursive_check(body_1, middle_1, last_1, body_2, first_2, middle_2, child + 1, choices, hints, RL, n)
    _recursive_check(body_1, first_1, middle_1, body_2, middle_2, last_2, child + 2, choices, hints, RL, n)
    _recursive_check(body_1, middle_1, last_1, body_2, middle_2, last_2, child + 3, choices, hints, RL, n)


# Public functions ---------------------------------------------------------------------------------------------


def cut_along_direction(
    a: Any, b: Any, CutDir: Any, *, active_a: Any = None, active_b: Any = None
) -> tuple[Ints, Ints]:  # fmt: skip
    """Algorithm 4.1: the triangles in the potential collision region along a direction.

    Parameters
    ----------
    a, b
        Bodies: ``TriMesh``, or anything ``impinge.triangle_pairs`` takes.
    CutDir
        Three numbers, the direction from a to b.
    active_a, active_b
        Ids or mask of the triangles of TL_1 and TL_2; all live ones by default.

    Returns
    -------
    tuple of arrays
        Sorted ids of the triangles of a and of b that remain; both empty if the direction separates the lists.

    Raises
    ------
    OptionError
        If the direction is not three finite numbers of which one is not zero.

    Examples
    --------
    >>> from impinge.mesh import shapes
    >>> left_a, left_b = cut_along_direction(shapes.box(2.0), shapes.box(2.0, center=(5.0, 0.0, 0.0)), (1, 0, 0))
    >>> len(left_a), len(left_b)
    (0, 0)

    """
    S = as_direction(CutDir, "CutDir")
    S = S / np.abs(S).max()
    x, y, z = (S / np.linalg.norm(S)).tolist()
    body_1, body_2 = _bodies(a, b, active_a, active_b)
    if not len(body_1.TL) or not len(body_2.TL):
        return body_1.TL[:0], body_2.TL[:0]
    v_1 = _support_vertex(body_1, _vertex_list(body_1, 0, len(body_1.TL)), (x, y, z))  # line 2
    v_2 = _support_vertex(body_2, _vertex_list(body_2, 0, len(body_2.TL)), (-x, -y, -z))  # line 3
    end_1 = _cut_list(body_1, 0, len(body_1.TL), -body_2.dots[v_2])  # lines 4 to 6
    end_2 = _cut_list(body_2, 0, len(body_2.TL), -body_1.dots[v_1])  # lines 7 to 9
    return np.sort(body_1.TL[:end_1]), np.sort(body_2.TL[:end_2])


def recursive_check(
    a: Any,
    b: Any,
    *,
    direction: Direction = "chung_wang",
    stop: Stop = "and",
    T_max: float = 1.0,
    split: Split = "median",
    leaf_pairs: int = 1,
    active_a: Any = None,
    active_b: Any = None,
    hints: Floats | None = None,
) -> CollidingPairs:
    """Algorithm 5.1: all colliding triangle pairs of two bodies.

    Parameters
    ----------
    a, b
        Bodies: ``TriMesh``, or anything ``impinge.triangle_pairs`` takes.
    direction
        Next direction: "chung_wang" reflects it, "gjk" solves simplices.
    stop
        "and" cuts while both lists are cut, as printed; "or" while one of them is.
    T_max
        Share of a list up to which the common region is cut (Fig. 2); 1 cuts always.
    split
        "median" of all polygon points, or "rank" of the barycentres.
    leaf_pairs
        Pairs of triangles up to which two lists are tested rather than split; 1 in the paper.
    active_a, active_b
        Ids or mask of the triangles of TL_1 and TL_2; all live ones by default.
    hints
        Directions of shape (n, 3) for the first n nodes, breadth first, NaN where there is none. Each is replaced by
        the direction that cut most: pass the array again in the next frame. Not in the paper.

    Returns
    -------
    CollidingPairs
        The pairs, sorted, and the counts of nodes, cuts, leaves and triangle tests.

    Raises
    ------
    OptionError
        If an option has another value than those above.

    Examples
    --------
    >>> from impinge.mesh import shapes
    >>> len(recursive_check(shapes.box(2.0), shapes.box(2.0, center=(1.5, 0.5, 0.5))).pairs) > 0
    True

    """
    choices = _choices(direction, stop, T_max, split, leaf_pairs)
    body_1, body_2 = _bodies(a, b, active_a, active_b)
    n_1, n_2 = len(body_1.TL), len(body_2.TL)
    hints = np.zeros((0, 3)) if hints is None else hints
    if hints.ndim != 2 or hints.shape[1] != 3 or hints.dtype != np.float64:
        raise OptionError(f"hints are {hints.dtype} of shape {hints.shape}, expected float64 of shape (n, 3)")
    RL = np.zeros((4 * (n_1 + n_2), 2), dtype=np.int32)
    while True:
        counters = np.zeros(5, dtype=np.int64)
        _recursive_check(body_1, 0, n_1, body_2, 0, n_2, 0, choices, hints, RL, counters)
        found = int(counters[FOUND])
        if found <= len(RL):
            break
        RL = np.zeros((found, 2), dtype=np.int32)  # RL was too short: again, with room for all
    pairs = RL[:found][np.lexsort((RL[:found, 1], RL[:found, 0]))]
    names = ("nodes", "cuts", "leaves", "triangle_tests")
    return CollidingPairs(pairs, dict(zip(names, counters.tolist())))


@compiled
def _used_box(x: Floats, faces: Ints, TL: Ints) -> Floats:
    """Lowest and highest coordinates of the triangles of a list, shape (2, 3)."""
    box = np.empty((2, 3))
    box[0], box[1] = np.inf, -np.inf
    for t in TL:
        for i in range(3):
            for axis in range(3):
                box[0, axis] = min(box[0, axis], x[faces[t, i], axis])
                box[1, axis] = max(box[1, axis], x[faces[t, i], axis])
    return box


@compiled
def _scale(body: Body, origin: Floats, factor: float) -> None:
    """Write y, for the vertices that triangles use."""
    for k in range(_vertex_list(body, 0, len(body.TL))):
        v = body.VL[k]
        for axis in range(3):
            body.y[v, axis] = (body.x[v, axis] - origin[axis]) * factor


def _bodies(a: Any, b: Any, active_a: Any, active_b: Any) -> list[Body]:
    """Both objects, with all triangles that take part listed and coordinates within -1 .. 1."""
    bodies = []
    for given, active, letter in ((a, active_a, "a"), (b, active_b, "b")):
        snapshot = as_surface(given, name=letter).snapshot()
        check_finite(snapshot.vertices, f"vertices of {letter}")
        TL = snapshot.live.copy()
        if active is not None:
            chosen = as_ids(active, name=f"active_{letter}", count=len(snapshot.elements))
            TL = np.intersect1d(TL, chosen, assume_unique=True)
        size = len(snapshot.vertices)
        arrays = np.empty(size, dtype=np.int32), np.empty(size), np.zeros(size, dtype=np.int64)
        one = Body(snapshot.vertices, np.empty((size, 3)), snapshot.elements, TL, *arrays, np.zeros(1, dtype=np.int64))
        bodies.append(one)
    if all(len(body.TL) for body in bodies):
        boxes = np.stack([_used_box(body.x, body.faces, body.TL) for body in bodies])
        low, high = boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)
        origin = 0.5 * low + 0.5 * high
        _, exponent = np.frexp(np.max(np.maximum(high - origin, origin - low)))
        factor = math.ldexp(1.0, min(-int(exponent), 1000))
        for body in bodies:
            _scale(body, origin, factor)
    return bodies


def _choices(direction: Any, stop: Any, T_max: Any, split: Any, leaf_pairs: Any) -> Choices:
    for name, value, known in (
        ("direction", direction, ("chung_wang", "gjk")),
        ("stop", stop, ("and", "or")),
        ("split", split, ("median", "rank")),
    ):
        as_choice(value, name, known)
    T_max = as_number(T_max, "T_max", "a number above 0 and up to 1", above=0.0, most=1.0)
    leaf_pairs = as_whole(leaf_pairs, "leaf_pairs")
    return Choices(direction == "gjk", stop == "and", T_max, split == "median", leaf_pairs)
