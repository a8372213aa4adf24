"""Wrapped sphere tree by adaptive medial-axis approximation: section 4.1 (method of [BradshawOSullivan2004]).

1. Pieces    Triangles are cut into pieces (sub-triangles) no longer than a surface sampling of ``samples`` points is
             wide. A ball that contains the three corners of a piece contains the piece: the tree covers the surface
             itself. Samples are the corners and centroids of the pieces.
2. Root      A small enclosing ball of all pieces.
3. Axis      Medial spheres are the circumspheres of the Delaunay tets of forming points whose centres lie inside. The
             error of a sphere is r - d, d the signed depth of its centre.
4. Adapt     Level by level: while a node has fewer than ``min_spheres`` medial spheres, or a worst error above
             target = min(own error, mean error of the level) / ``ERROR_FACTOR``, the surface samples closest to the
             centres of its worst spheres become forming points.
5. Cover     Spheres centred on the surface join the candidates of a node (Fig. 8: spheres on the surface of triangles
             avoid large bounding spheres and complete the coverage).
6. Reduce    MERGE, BURST and EXPAND each reduce the candidates to at most ``branching`` spheres; the set with the least
             worst error is taken.
7. Assign    Each piece goes to the child on whose side of all radical planes its centroid lies. A child ball grows to
             contain its pieces; their enclosing ball replaces it where its error is smaller.

Wrapped      A sphere contains the surface below it, not the spheres below it.
Departures   The paper names the method only; sizes are parameters here. The Voronoi diagram is rebuilt after a batch of
             new forming points (``scipy.spatial.Delaunay``). d is measured to the nearest surface sample. Merged
             spheres keep one of the two centres. At most ``2 min_spheres`` medial spheres and ``MOST_PIECES`` pieces
             of a node, evenly spread, enter step 6. Children are addressed by first child and count instead of the
             implicit array of [DinglianaOSullivan2000].
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import Delaunay, QhullError, cKDTree

from impinge.backend.jit import compiled, kernel, prange
from impinge.checks import Bools, Floats, Ints, distinct_rows, shown
from impinge.errors import MeshError, OptionError
from impinge.exact.point_surface import ENTERED, LEFT, ON_SURFACE, ray_meets_triangle
from impinge.mesh.tri_mesh import TriMesh
from impinge.published.interruptible.search import Spheres

Ids = NDArray[np.int64]
ERROR_FACTOR = 2.0
"""Medial spheres of a node are refined to this fraction of the error of the node (erFact)."""
FIRST_FORMING = 1000
"""Forming points of the first diagram (initSpheres)."""
WORST = 0.25
"""Fraction of the medial spheres of a node that one round refines."""
ROUNDS = 6
"""Rounds of refinement per level."""
MOST_PIECES = 1000
"""Pieces of a node that enter its reduction."""
BISECTIONS = 20
"""Steps of EXPAND: the stand-off is found to a millionth of its range."""
BALL_STEPS = 100
"""Steps towards the enclosing ball; its radius is within some percent of the minimum."""
ROUND_UP = 1.0 + 1e-14
"""Radii are enlarged by this factor: the corners lie inside in floating-point arithmetic, too."""


@dataclass(frozen=True, eq=False)
class SphereTree:
    """Wrapped sphere tree of a closed surface at rest; children follow one another, levels too."""

    centre: Floats
    radius: Floats
    first_child: Ints
    child_count: Ints
    level: Ints
    piece: Floats
    """Corners of all pieces at rest, shape (m, 3, 3)."""
    piece_triangle: Ids
    """Triangle that a piece is part of, shape (m,)."""
    piece_leaf: Ids
    """Leaf that contains a piece, shape (m,)."""

    def __len__(self) -> int:
        return len(self.radius)

    @property
    def spheres(self) -> Spheres:
        """The tree at rest, for ``traverse``."""
        return Spheres(self.centre, self.radius, self.first_child, self.child_count, self.level)

    @property
    def level_count(self) -> int:
        """Levels, the root included."""
        return int(self.level.max()) + 1

    def cut(self, level: int) -> Ids:
        """Spheres of a level, and the leaves above it."""
        return np.flatnonzero((self.level == level) | ((self.level < level) & (self.child_count == 0)))


# Surface: pieces, inside test, depth ----------------------------------------------------------------------


def _pieces(corner: Floats, length: float) -> tuple[Floats, Ids]:
    """Halve the longest edge of all triangles until none exceeds ``length``; the triangle of each piece."""
    done, triangle = [], np.arange(len(corner))
    triangles = []
    while len(corner):
        edge = np.linalg.norm(np.roll(corner, -1, axis=1) - corner, axis=2)
        k = edge.argmax(axis=1)
        is_long = edge.max(axis=1) > length
        done.append(corner[~is_long])
        triangles.append(triangle[~is_long])
        corner, k, triangle = corner[is_long], k[is_long], triangle[is_long]
        row = np.arange(len(corner))
        a, b, c = corner[row, k], corner[row, (k + 1) % 3], corner[row, (k + 2) % 3]
        middle = 0.5 * (a + b)
        corner = np.concatenate([np.stack([a, middle, c], axis=1), np.stack([middle, b, c], axis=1)])
        triangle = np.concatenate([triangle, triangle])
    order = np.argsort(np.concatenate(triangles), kind="stable")
    return np.concatenate(done)[order], np.concatenate(triangles)[order]


@compiled
def _columns(corner: Floats, lo: Floats, cell: float, count: int) -> tuple[Ids, Ids]:
    """Triangles by column of a grid in x and y: start of each column, and ids."""
    start = np.zeros(count * count + 1, dtype=np.int64)
    ids = np.zeros(0, dtype=np.int64)
    for fill in range(2):
        for t in range(len(corner)):
            i0, i1 = int((corner[t, :, 0].min() - lo[0]) / cell), int((corner[t, :, 0].max() - lo[0]) / cell)
            j0, j1 = int((corner[t, :, 1].min() - lo[1]) / cell), int((corner[t, :, 1].max() - lo[1]) / cell)
            for i in range(i0, min(i1, count - 1) + 1):
                for j in range(j0, min(j1, count - 1) + 1):
                    if fill == 1:
                        ids[start[i * count + j]] = t
                    start[i * count + j] += 1
        total = 0
        for k in range(count * count):  # counts become starts; after filling, ends become starts again
            own = start[k] if fill == 0 else start[k] - total
            start[k] = total
            total += own
        start[count * count] = total
        if fill == 0:
            ids = np.zeros(total, dtype=np.int64)
    return start, ids


@kernel()
def _inside(
    points: Floats, corner: Floats, start: Ids, ids: Ids, lo: Floats, cell: float, count: int, out: Bools
) -> None:
    """Exact winding number of each point by a ray along +z: inside where it is not 0."""
    for k in prange(len(points)):
        i, j = int((points[k, 0] - lo[0]) / cell), int((points[k, 1] - lo[1]) / cell)
        i, j = min(i, count - 1), min(j, count - 1)
        p = (points[k, 0], points[k, 1], points[k, 2])
        winding, is_on = 0, False
        for s in range(start[i * count + j], start[i * count + j + 1]):
            t = corner[ids[s]]
            hit = ray_meets_triangle(
                p, (t[0, 0], t[0, 1], t[0, 2]), (t[1, 0], t[1, 1], t[1, 2]), (t[2, 0], t[2, 1], t[2, 2])
            )
            is_on = is_on or hit == ON_SURFACE
            winding += 1 if hit == LEFT else (-1 if hit == ENTERED else 0)
        out[k] = is_on or winding != 0


class _Surface:
    """Pieces and samples of a surface, with signed depth of points."""

    def __init__(self, corner: Floats, samples: int) -> None:
        area = 0.5 * np.linalg.norm(np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]), axis=1)
        self.corner = corner
        self.piece, self.triangle = _pieces(corner, 2.0 * math.sqrt(float(area.sum()) / samples))
        self.middle = self.piece.mean(axis=1)
        sample = np.concatenate([self.middle, self.piece.reshape(-1, 3)])
        first, _ = distinct_rows(sample)
        self.sample = sample[np.sort(first)]
        self.sample_piece = np.concatenate([np.arange(len(self.piece)), np.repeat(np.arange(len(self.piece)), 3)])
        self.sample_piece = self.sample_piece[np.sort(first)]
        self._nearest = cKDTree(self.sample)
        self.lo, self.hi = corner.min(axis=(0, 1)), corner.max(axis=(0, 1))
        self._count = max(int(math.sqrt(len(corner))), 1)
        self._cell = float((self.hi - self.lo)[:2].max()) / self._count * (1.0 + 1e-9)
        self._column = _columns(corner, self.lo, self._cell, self._count)

    def depth(self, points: Floats) -> tuple[Floats, Ids]:
        """Signed depth of points, negative outside, and the nearest sample."""
        distance, nearest = self._nearest.query(points, workers=-1)
        inside = np.zeros(len(points), dtype=np.bool_)
        in_box = np.flatnonzero(((points >= self.lo) & (points <= self.hi)).all(axis=1))
        found = np.zeros(len(in_box), dtype=np.bool_)
        _inside.over(len(in_box))(points[in_box], self.corner, *self._column, self.lo, self._cell, self._count, found)
        inside[in_box] = found
        return np.where(inside, distance, -distance), np.asarray(nearest, dtype=np.int64)


# Medial axis ----------------------------------------------------------------------------------------------


class _Medial(NamedTuple):
    """Medial spheres; ``forming`` holds four samples each, ``nearest`` the sample closest to the centre."""

    centre: Floats
    depth: Floats
    error: Floats
    nearest: Ids
    forming: Ids


def _medial_spheres(surface: _Surface, forming: Ids) -> _Medial:
    """Circumspheres of the Delaunay tets of the forming samples whose centres lie inside (step 3)."""
    points = surface.sample[forming]
    try:
        tets = Delaunay(points).simplices.astype(np.int64)
    except (QhullError, ValueError):  # all forming points in one plane
        tets = np.zeros((0, 4), dtype=np.int64)
    p = points[tets]
    a, b, c = p[:, 1] - p[:, 0], p[:, 2] - p[:, 0], p[:, 3] - p[:, 0]
    bc, ca, ab = np.cross(b, c), np.cross(c, a), np.cross(a, b)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        offset = (a * a).sum(1)[:, None] * bc + (b * b).sum(1)[:, None] * ca + (c * c).sum(1)[:, None] * ab
        centre = p[:, 0] + offset / (2.0 * (a * bc).sum(1)[:, None])
        usable = ((centre >= surface.lo) & (centre <= surface.hi)).all(axis=1)  # False for NaN
    centre, tets = centre[usable], tets[usable]
    depth, nearest = surface.depth(centre)
    inside = depth > 0.0
    centre, depth, nearest, tets = centre[inside], depth[inside], nearest[inside], tets[inside]
    radius = np.linalg.norm(points[tets[:, 0]] - centre, axis=1)
    return _Medial(centre, depth, np.maximum(radius - depth, 0.0), nearest, forming[tets])


def _adapt(
    surface: _Surface, forming: Ids, owner: Ids, nodes: Ids, error: Floats, min_spheres: int
) -> tuple[Ids, _Medial, list[Ids]]:
    """Refine the axis for the open nodes (step 4); forming samples, medial spheres and their ids by node."""
    target = np.minimum(error, error.mean()) / ERROR_FACTOR
    place = np.full(int(owner.max()) + 1, -1)
    place[nodes] = np.arange(len(nodes))
    for turn in range(ROUNDS + 1):
        medial = _medial_spheres(surface, forming)
        node = place[owner[surface.sample_piece[medial.forming]]]  # a sphere belongs to the nodes of its forming points
        rows = np.stack([node.reshape(-1), np.repeat(np.arange(len(node)), 4)], axis=1)
        rows = rows[distinct_rows(rows)[0]]
        rows = rows[rows[:, 0] >= 0]
        bounds = np.searchsorted(rows[:, 0], np.arange(len(nodes) + 1))
        of_node = [rows[i:j, 1] for i, j in itertools.pairwise(bounds)]
        if turn == ROUNDS or len(forming) == len(surface.sample):
            break
        new = []
        for k, own in enumerate(of_node):
            worst = medial.error[own].max(initial=0.0)
            if len(own) < min_spheres or (worst > target[k] and len(own) < 2 * min_spheres):
                order = own[np.argsort(-medial.error[own], kind="stable")][: math.ceil(WORST * len(own))]
                new.append(medial.nearest[order[medial.error[order] > 0.0]])
        more = np.setdiff1d(np.concatenate([*new, np.zeros(0, dtype=np.int64)]), forming)
        if not len(more):
            break
        forming = np.concatenate([forming, more])
    return forming, medial, of_node


# Reduction (step 6) ---------------------------------------------------------------------------------------
#
# need[i, j]: stand-off of sphere i that contains piece j, the distance from its centre to the farthest corner of the
# piece less the depth of the centre. The error of a set of spheres is the largest of the least needs of all pieces.


@compiled
def _needs(centre: Floats, depth: Floats, piece: Floats) -> Floats:
    need = np.zeros((len(centre), len(piece)))
    for i in range(len(centre)):
        for j in range(len(piece)):
            far_sq = 0.0
            for k in range(3):
                dx, dy, dz = piece[j, k, 0] - centre[i, 0], piece[j, k, 1] - centre[i, 1], piece[j, k, 2] - centre[i, 2]
                far_sq = max(far_sq, dx * dx + dy * dy + dz * dz)
            need[i, j] = max(math.sqrt(far_sq) - depth[i], 0.0)
    return need


@compiled
def _merge(need: Floats, most: int) -> Bools:
    """MERGE: join the two groups for which the centre of one of them needs the least stand-off, until few are left."""
    n, m = need.shape
    kept = np.zeros(n, dtype=np.bool_)
    group = np.zeros((n, n))  # group[i, g]: stand-off of sphere i that contains the pieces of group g
    for j in range(m):
        least = need[:, j].argmin()
        kept[least] = True
        for i in range(n):
            group[i, least] = max(group[i, least], need[i, j])
    left = kept.sum()
    while left > most:
        best, keep, drop = math.inf, -1, -1
        for i in range(n):
            for g in range(n):
                if kept[i] and kept[g] and i != g:
                    error = max(group[i, i], group[i, g])
                    if error < best:
                        best, keep, drop = error, i, g
        kept[drop] = False
        for i in range(n):
            group[i, keep] = max(group[i, keep], group[i, drop])
        left -= 1
    return kept


@compiled
def _burst(need: Floats, most: int) -> Bools:
    """BURST: remove the sphere whose pieces cost the others least, by the sixth powers of their errors."""
    n, m = need.shape
    kept = np.ones(n, dtype=np.bool_)
    first, second = np.zeros(m, dtype=np.int64), np.zeros(m, dtype=np.int64)
    for _ in range(n - most):
        error = np.zeros(n)
        for j in range(m):
            best, next_best = math.inf, math.inf
            for i in range(n):
                if kept[i] and need[i, j] < best:
                    next_best, second[j] = best, first[j]
                    best, first[j] = need[i, j], i
                elif kept[i] and need[i, j] < next_best:
                    next_best, second[j] = need[i, j], i
            error[first[j]] = max(error[first[j]], best)
        scale = max(error.max(), 1e-300)
        cost = np.zeros(n)
        after = np.zeros(n)
        for i in range(n):
            if not kept[i]:
                continue
            after[:] = error
            after[i] = 0.0
            for j in range(m):
                if first[j] == i:
                    after[second[j]] = max(after[second[j]], need[second[j], j])
            for k in range(n):
                cost[i] += (after[k] / scale) ** 6
        drop = -1
        for i in range(n):
            if kept[i] and (drop < 0 or cost[i] < cost[drop]):
                drop = i
        kept[drop] = False
    return kept


@compiled
def _expand(need: Floats, most: int) -> Bools:
    """EXPAND: the least common stand-off for which ``most`` spheres, chosen greedily, contain all pieces."""
    n, m = need.shape
    lo, hi = 0.0, math.inf
    for i in range(n):
        hi = min(hi, need[i].max())
    result = np.zeros(n, dtype=np.bool_)
    result[0] = True
    for step in range(BISECTIONS + 1):
        stand_off = hi if step == 0 else 0.5 * (lo + hi)
        chosen = np.zeros(n, dtype=np.bool_)
        covered = np.zeros(m, dtype=np.bool_)
        left = m
        for _ in range(most):
            best, gain = -1, 0
            for i in range(n):
                count = 0
                for j in range(m):
                    if not covered[j] and need[i, j] <= stand_off:
                        count += 1
                if count > gain:
                    best, gain = i, count
            if best < 0:
                break
            chosen[best] = True
            left -= gain
            for j in range(m):
                covered[j] = covered[j] or need[best, j] <= stand_off
        if left == 0:
            hi = stand_off
            result = chosen
        else:
            lo = stand_off
    return result


@compiled
def _reduce(need: Floats, most: int) -> Ids:
    """The spheres of the best of the three reductions; none if each of them uses a single sphere."""
    best, result = math.inf, np.zeros(0, dtype=np.int64)
    for method in range(3):
        kept = _merge(need, most) if method == 0 else (_burst(need, most) if method == 1 else _expand(need, most))
        used = np.zeros(len(kept), dtype=np.bool_)
        worst = 0.0
        for j in range(need.shape[1]):
            least = -1
            for i in range(len(kept)):
                if kept[i] and (least < 0 or need[i, j] < need[least, j]):
                    least = i
            used[least] = True
            worst = max(worst, need[least, j])
        if used.sum() > 1 and worst < best:
            best, result = worst, np.flatnonzero(used)
    return result


# Tree -----------------------------------------------------------------------------------------------------


@compiled
def _enclosing_ball(points: Floats) -> Floats:
    """Centre of a small ball around points: steps of decreasing length towards the farthest one."""
    centre = np.zeros(3)
    for k in range(3):
        centre[k] = 0.5 * (points[:, k].min() + points[:, k].max())
    best, least = centre.copy(), math.inf
    for step in range(BALL_STEPS):
        far, far_sq = 0, -1.0
        for i in range(len(points)):
            distance_sq = ((points[i] - centre) ** 2).sum()
            if distance_sq > far_sq:
                far, far_sq = i, distance_sq
        if far_sq < least:
            best, least = centre.copy(), far_sq
        centre += (points[far] - centre) / (step + 2.0)
    return best


@compiled
def _spread(points: Floats, count: int) -> Ids:
    """``count`` points that are far from one another, the first one first."""
    chosen = np.zeros(count, dtype=np.int64)
    nearest = np.full(len(points), math.inf)
    for k in range(1, count):
        for i in range(len(points)):
            nearest[i] = min(nearest[i], ((points[i] - points[chosen[k - 1]]) ** 2).sum())
        chosen[k] = nearest.argmax()
    return chosen


def _radius(centre: Floats, piece: Floats) -> float:
    return float(np.linalg.norm(piece.reshape(-1, 3) - centre, axis=1).max()) * ROUND_UP


def _divide(surface: _Surface, own: Ids, medial: _Medial, spheres: Ids, most: int) -> list[tuple[Ids, Floats]]:
    """Children of a node with the pieces ``own``: pieces and centre of each (steps 5 to 7); none if it stays a leaf."""
    piece, middle = surface.piece[own], surface.middle[own]
    cover = middle[_spread(middle, min(2 * most, len(own)))]  # on the surface: depth 0
    centre = np.concatenate([medial.centre[spheres], cover])
    depth = np.concatenate([medial.depth[spheres], np.zeros(len(cover))])
    count = min(len(own), MOST_PIECES)
    chosen = _reduce(_needs(centre, depth, piece[np.arange(count) * len(own) // count]), most)
    if not len(chosen):
        return []
    centre, depth = centre[chosen], depth[chosen]
    need = _needs(centre, depth, piece)
    least = need.argmin(axis=0)
    radius = np.array([depth[k] + need[k, least == k].max(initial=0.0) for k in range(len(chosen))])
    power = ((middle[:, None] - centre) ** 2).sum(axis=2) - radius**2  # least on the own side of all radical planes
    label = power.argmin(axis=1)
    if (label == label[0]).all():
        label = least
    return [(own[label == k], centre[k]) for k in np.unique(label)]


def build_sphere_tree(
    surface: TriMesh,
    *,
    branching: int = 8,
    levels: int = 4,
    samples: int = 10_000,
    min_spheres: int = 100,
    seed: int = 0,
) -> SphereTree:
    """Build the wrapped sphere tree of a closed surface along its medial axis.

    Parameters
    ----------
    surface : TriMesh
        Closed surface; its present positions are the rest state.
    branching : int
        Most children of a sphere.
    levels : int
        Levels below the root.
    samples : int
        Number of surface samples aimed at.
    min_spheres : int
        Medial spheres that each node is refined to.
    seed : int
        Seed of the first forming points.

    Returns
    -------
    SphereTree
        The same bits for the same arguments.

    Raises
    ------
    MeshError
        If the surface is not closed or encloses no volume.
    OptionError
        If an option is out of range.

    Examples
    --------
    >>> from impinge.mesh import shapes
    >>> tree = build_sphere_tree(shapes.box(1.0), levels=1, samples=100)
    >>> len(tree), tree.level.tolist()
    (9, [0, 1, 1, 1, 1, 1, 1, 1, 1])
    """
    options = (("branching", branching, 2), ("levels", levels, 0), ("samples", samples, 4))
    for name, value, least in (*options, ("min_spheres", min_spheres, 1), ("seed", seed, 0)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise OptionError(f"{name} is {shown(value)}, expected a whole number from {least}")
    if not surface.is_closed or not surface.volume:
        raise MeshError("the surface is not closed or encloses no volume, so it has no medial axis; close it first")
    snapshot = surface.snapshot()
    body = _Surface(snapshot.vertices[snapshot.elements[snapshot.live]], samples)
    first = np.random.default_rng(seed).permutation(len(body.sample))[:FIRST_FORMING]
    forming = np.sort(first)
    owner = np.zeros(len(body.piece), dtype=np.int64)
    centre = [_enclosing_ball(body.piece.reshape(-1, 3))]
    radius = [_radius(centre[0], body.piece)]
    depth = [float(body.depth(centre[0][None])[0][0])]
    first_child, child_count, level = [-1], [0], [0]
    nodes = np.zeros(1, dtype=np.int64)
    for below in range(1, levels + 1):
        error = np.array([radius[n] - depth[n] for n in nodes])
        forming, medial, of_node = _adapt(body, forming, owner, nodes, error, min_spheres)
        order = np.argsort(owner, kind="stable")
        bounds = np.searchsorted(owner[order], np.stack([nodes, nodes + 1]))
        begin = len(centre)
        for node, own_spheres, i, j in zip(nodes, of_node, *bounds):
            spread = _spread(medial.centre[own_spheres], min(2 * min_spheres, len(own_spheres)))
            children = _divide(body, order[i:j], medial, own_spheres[spread], branching)
            if children:  # two or more
                first_child[node], child_count[node] = len(centre), len(children)
            for own, chosen in children:
                around = _enclosing_ball(body.piece[own].reshape(-1, 3))
                both = np.stack([chosen, around])
                d = body.depth(both)[0]
                r = np.array([_radius(c, body.piece[own]) for c in both])
                k = int(np.argmin(r - d))
                owner[own] = len(centre)
                centre.append(both[k])
                radius.append(float(r[k]))
                depth.append(float(d[k]))
                first_child.append(-1)
                child_count.append(0)
                level.append(below)
        count = np.bincount(owner, minlength=len(centre))
        nodes = np.flatnonzero(count[begin:] > 1) + begin
        if not len(nodes):
            break
    return SphereTree(
        np.array(centre), np.array(radius), np.array(first_child, dtype=np.int32),
        np.array(child_count, dtype=np.int32), np.array(level, dtype=np.int32), body.piece,
        snapshot.live[body.triangle].astype(np.int64), owner,
    )  # fmt: skip
