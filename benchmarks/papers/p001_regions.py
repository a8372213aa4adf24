"""The exact contact regions of two surfaces, and the distance of sphere contacts from them.

Region    Intersecting triangles form a graph; each of its connected components is a region: one curve, or several that
          share triangles, in which the surfaces cross.
Normal    of a region is the vector area that its curve encloses, ½ Σ p × q over segments from p to q that run along
          n_a × n_b: the area vector of the part of a's surface inside of b, whatever its shape. Moving b along it
          takes most volume out of the overlap; it points from a to b.
Below     A pair of triangles is below a pair of spheres if both triangles have pieces below the spheres. A region is
          found if any of its pairs is below a pair of spheres in a list.
Estimate  Contacts of spheres push the region that is nearest to their point; a region that is nearest to none of them
          is pushed by those that it is below. Normal and point of a region are the averages of theirs, by depth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

import impinge
from impinge.checks import NONE, Floats, Ints, sorted_unique
from impinge.detect.sphere_tree.contacts import SphereContacts
from impinge.detect.sphere_tree.hierarchy import SphereHierarchy

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Regions:
    """Where two surfaces cross."""

    pairs: Ints
    """Triangles that cross, shape (k, 2)."""
    of_pair: Ids
    """Region of each pair, shape (k,)."""
    middle: Floats
    """Middle of the segment in which each pair crosses, shape (k, 3)."""
    point: Floats
    """Middle of each region, shape (r, 3)."""
    area: Floats
    """Vector area of each region, from a to b, shape (r, 3)."""

    def __len__(self) -> int:
        """Number of regions."""
        return len(self.area)


@dataclass(frozen=True)
class Push:
    """Contacts as input of the response."""

    point: Floats
    normal: Floats
    depth: Floats


@dataclass(frozen=True)
class Errors:
    """Errors of an answer against the exact regions, one entry for each region or pair of triangles."""

    angle: Floats
    """Between the normals [degrees]; 180 where nothing pushes the region, shape (r,)."""
    distance: Floats
    """From the point of the estimate to the region's, as a share of the size, shape (r,)."""
    reach: Floats
    """From where triangles cross to the nearest contact point of spheres that they are below, as a share of the size;
    infinite where they are below none, shape (k,)."""
    found: NDArray[np.bool_]
    """Whether any pair of the region is below a pair of spheres, shape (r,)."""

    @property
    def missed(self) -> float:
        """Share of the pairs of triangles that are below no pair of spheres."""
        return float(np.mean(~np.isfinite(self.reach))) if len(self.reach) else 0.0


def exact_regions(a: Any, b: Any) -> Regions:
    """The regions of two surfaces at their current positions."""
    curves = impinge.intersection_curves(a, b)
    rows, columns = curves.pairs[:, 0].astype(np.int64), curves.pairs[:, 1].astype(np.int64) + len(a)
    count = len(a) + len(b)
    graph = coo_array((np.ones(len(rows), dtype=np.int8), (rows, columns)), shape=(count, count))
    label = connected_components(graph, directed=False)[1][rows]
    region: Ids = np.unique(label, return_inverse=True)[1].reshape(-1).astype(np.int64)
    regions = int(region.max(initial=-1)) + 1
    p, q = curves.segments[:, 0], curves.segments[:, 1]
    middle = 0.5 * (p + q)
    length = np.linalg.norm(q - p, axis=1)
    total = np.maximum(np.bincount(region, length, minlength=regions), np.finfo(np.float64).tiny)
    point = _sums(region, length[:, None] * middle, regions) / total[:, None]
    area = _sums(region, 0.5 * np.cross(p - point[region], q - point[region]), regions)
    return Regions(curves.pairs, region, middle, point, area)


def _sums(row: Ids, values: Floats, count: int) -> Floats:
    total = np.zeros((count, values.shape[1]))
    np.add.at(total, row, values)
    return total


def all_contacts(result: SphereContacts) -> Push:
    """Contacts of certain and possible pairs, certain ones first."""
    return Push(
        np.concatenate([result.point, result.possible_point]),
        np.concatenate([result.normal, result.possible_normal]),
        np.concatenate([result.depth, result.possible_depth]),
    )


def errors_of(
    regions: Regions, listed: Ints, push: Push, trees: tuple[SphereHierarchy, SphereHierarchy], size: float
) -> Errors:
    """Compare contacts of the pairs of spheres in ``listed`` with the regions."""
    pair, row = _all_below(listed, regions.pairs, trees)
    below = _last_of(pair, row, len(regions.pairs))
    is_below = below != NONE
    reach = np.full(len(below), np.inf)
    np.minimum.at(reach, pair, np.linalg.norm(push.point[row] - regions.middle[pair], axis=1) / size)
    found: NDArray[np.bool_] = np.zeros(len(regions), dtype=np.bool_)
    found[regions.of_pair[is_below]] = True
    force, point = _estimates(regions, below, push)
    return Errors(_angles(force, regions.area), np.linalg.norm(point - regions.point, axis=1) / size, reach, found)


def _estimates(regions: Regions, below: Ids, push: Push) -> tuple[Floats, Floats]:
    """Force on each region, and where it acts; no force, and a point infinitely far, where there is none."""
    count = len(regions)
    pushes = np.flatnonzero(push.depth > 0.0)
    if not count or not len(pushes):
        return np.zeros((count, 3)), np.full((count, 3), np.inf)
    nearest = regions.of_pair[cKDTree(regions.middle).query(push.point[pushes])[1]]
    lacks = ~np.isin(np.arange(count), nearest)
    spare = lacks[regions.of_pair] & (below != NONE)  # regions that are nearest to no contact, by what they are below
    extra = np.unique(np.stack([regions.of_pair[spare], below[spare]], axis=1), axis=0)
    region = np.concatenate([nearest, extra[:, 0]])
    contact = np.concatenate([pushes, extra[:, 1]])
    depth = push.depth[contact]
    total = np.bincount(region, depth, minlength=count)
    force = _sums(region, depth[:, None] * push.normal[contact], count)
    point = _sums(region, depth[:, None] * push.point[contact], count)
    return force, np.where(total[:, None] > 0.0, point / np.where(total > 0.0, total, 1.0)[:, None], np.inf)


def _angles(u: Floats, v: Floats) -> Floats:
    """Degrees between rows; 180 where either is zero."""
    length = np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1)
    cosine = np.where(length > 0.0, (u * v).sum(axis=1) / np.where(length > 0.0, length, 1.0), -1.0)
    return np.asarray(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))))


# Triangles below spheres ----------------------------------------------------------------------------------------


def below_which(listed: Ints, pairs: Ints, trees: tuple[SphereHierarchy, SphereHierarchy]) -> Ids:
    """Last row of ``listed`` that each pair of triangles is below, NONE if it is below none, shape (len(pairs),)."""
    return _last_of(*_all_below(listed, pairs, trees), len(pairs))


def _last_of(pair: Ids, row: Ids, count: int) -> Ids:
    last: Ids = np.full(count, NONE, dtype=np.int64)
    np.maximum.at(last, pair, row)
    return last


def _all_below(listed: Ints, pairs: Ints, trees: tuple[SphereHierarchy, SphereHierarchy]) -> tuple[Ids, Ids]:
    """Pairs of triangles, and rows of ``listed`` that they are below; some may occur several times."""
    key = listed[:, 0].astype(np.int64) << 32 | listed[:, 1]
    order = np.argsort(key, kind="stable")
    key = key[order]
    found: list[tuple[Ids, Ids]] = [(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))]
    if len(key) and len(pairs):
        of, leaf_a, leaf_b = _pairs_of_leaves(pairs, trees)
        for node_a in _upwards(trees[0], leaf_a):
            for node_b in _upwards(trees[1], leaf_b):
                wanted = node_a << 32 | node_b
                place = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
                hit = (node_a >= 0) & (node_b >= 0) & (key[place] == wanted)
                found.append((of[hit], order[place[hit]]))
    pair, row = (np.concatenate(each) for each in zip(*found))
    return pair, row


def _pairs_of_leaves(pairs: Ints, trees: tuple[SphereHierarchy, SphereHierarchy]) -> tuple[Ids, Ids, Ids]:
    """Leaves that have pieces of both triangles of each pair: row of the pair, leaf of a, leaf of b."""
    (start_a, count_a, leaf_a), (start_b, count_b, leaf_b) = (
        _leaves_of(tree, pairs[:, k]) for k, tree in enumerate(trees)
    )
    count = count_a * count_b
    of = np.repeat(np.arange(len(pairs)), count)
    nth = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    return of, leaf_a[start_a[of] + nth // count_b[of]], leaf_b[start_b[of] + nth % count_b[of]]


def _leaves_of(tree: SphereHierarchy, triangles: Ints) -> tuple[Ids, Ids, Ids]:
    """First and number of the leaves of each triangle, and all leaves by triangle."""
    leaves = tree.leaves[np.argsort(tree.piece_start[tree.leaves], kind="stable")]
    leaf = np.repeat(leaves, tree.piece_stop[leaves] - tree.piece_start[leaves])
    key = sorted_unique(tree.piece_triangle.astype(np.int64) << 32 | leaf)
    first = np.searchsorted(key >> 32, triangles, side="left")
    stop = np.searchsorted(key >> 32, triangles, side="right")
    return first, stop - first, key & 0xFFFFFFFF


def _upwards(tree: SphereHierarchy, node: Ids) -> list[Ids]:
    """The nodes, their parents, and so on up to the root; NONE beyond it."""
    chain = [node]
    for _ in range(tree.level_count - 1):
        last = chain[-1]
        chain.append(np.where(last >= 0, tree.parent[last], NONE).astype(np.int64))
    return chain
