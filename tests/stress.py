"""Scenes made to break collision detectors, and a loop that compares a detector with the exact oracle.

1. Make.    A generator builds a small scene from ``(rng, size)``: ``PAIRS`` gives two meshes, ``SELF`` one.
2. Ask.     The detector reports index pairs and kinds.
3. Judge.   The oracle decides every pair of the scene, and the first difference is raised as an
            AssertionError with the generator, the seed and the corners as hexadecimal floats.

From the command line, for a minute: ``python tests/stress.py --seconds 60``.

Symbols     ``size``  about the number of faces of each mesh
Guarantee   the same name, seed and size give the same scene
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, product
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike, NDArray

import oracle

Rng = np.random.Generator
Mesh = tuple[NDArray[np.float64], NDArray[np.int32]]
PairScene = tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.float64], NDArray[np.int32]]
Answer = tuple[ArrayLike, ArrayLike]

SIZE = 12
"""Faces per mesh: 144 pairs, some milliseconds for the oracle."""

TINY = 5e-324
"""The smallest subnormal double."""


# --------------------------------------------------------------------------------------------- building


def _faces(faces: ArrayLike) -> NDArray[np.int32]:
    return np.asarray(faces, dtype=np.int32).reshape(-1, 3)


def _soup(corners: ArrayLike) -> Mesh:
    """Mesh of triangles that share nothing, from corners of shape [tri_count, 3, 3]."""
    corners = np.asarray(corners, dtype=np.float64).reshape(-1, 3, 3)
    return corners.reshape(-1, 3), _faces(np.arange(3 * len(corners)))


def _pair(a: ArrayLike, b: ArrayLike) -> PairScene:
    return (*_soup(a), *_soup(b))


def _grid(rng: Rng, count: int, box: int) -> NDArray[np.float64]:
    """Random triangles with integer corners in 0..box."""
    return rng.integers(0, box + 1, (count, 3, 3)).astype(np.float64)


def _rotation(rng: Rng) -> NDArray[np.float64]:
    q, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    return q


def _by_ulps(rng: Rng, x: NDArray[np.float64], most: int = 2) -> NDArray[np.float64]:
    """Move every coordinate by up to ``most`` units in the last place; next to zero those are subnormal."""
    steps = rng.integers(-most, most + 1, x.shape)
    x = x.copy()
    for step in range(most):
        x = np.where(np.abs(steps) > step, np.nextafter(x, np.copysign(np.inf, steps)), x)
    return x


def _plate(columns: int, rows: int) -> Mesh:
    """Flat sheet of 2·columns·rows triangles with unit cells, in the plane z = 0."""
    i, j = np.meshgrid(np.arange(columns + 1), np.arange(rows + 1), indexing="ij")
    x = np.stack([i.ravel(), j.ravel(), np.zeros(i.size)], axis=1).astype(np.float64)
    vertex = np.arange(i.size).reshape(i.shape)
    p, q, r, s = vertex[:-1, :-1], vertex[1:, :-1], vertex[1:, 1:], vertex[:-1, 1:]
    return x, _faces(np.stack([p, q, r, p, r, s], axis=-1))


def _plate_of(size: int) -> Mesh:
    rows = max(1, int((size / 2) ** 0.5))
    return _plate(max(1, size // (2 * rows)), rows)


def _box() -> Mesh:
    """Closed unit cube of twelve triangles, normals outwards."""
    x = np.array(list(product((0.0, 1.0), repeat=3)))
    quads = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
    return x, _faces([t for p, q, r, s in quads for t in ((p, q, r), (p, r, s))])


def _fan(rng: Rng, size: int, *, turns: float = 1.0) -> Mesh:
    """Fan of ``size`` triangles around vertex 0, in the plane z = 0; more than one turn overlaps itself."""
    angle = np.linspace(0.0, 2 * np.pi * turns, size + 1) + rng.uniform(0, 2 * np.pi)
    radius = rng.uniform(0.5, 2.0, size + 1)
    rim = np.stack([radius * np.cos(angle), radius * np.sin(angle), np.zeros(size + 1)], axis=1)
    faces = [(0, i, i + 1) for i in range(1, size + 1)]
    return np.concatenate([np.zeros((1, 3)), rim]), _faces(faces)


def _tilted_basis(rng: Rng) -> NDArray[np.float64]:
    """Two vectors with small dyadic coordinates that span a tilted plane, as rows."""
    while True:
        basis = rng.integers(-9, 10, (2, 3)) / 2.0 ** rng.integers(0, 6, (2, 1))
        if np.all(np.cross(basis[0], basis[1]) != 0):
            return basis


# ------------------------------------------------------------------------------------------- two meshes


def grid(rng: Rng, size: int) -> PairScene:
    """Integer corners in a box of side 1 to 50: contacts of all kinds, exactly."""
    box = int(rng.choice([1, 2, 3, 4, 6, 10, 20, 50]))
    return _pair(_grid(rng, size, box), _grid(rng, size, box))


def soup(rng: Rng, size: int) -> PairScene:
    """Random triangles of random size around the origin, all bits in use."""
    a, b = (0.4 * rng.normal(size=(size, 1, 3)) + rng.normal(size=(size, 3, 3)) for _ in range(2))
    return _pair(a, b)


def needles(rng: Rng, size: int) -> PairScene:
    """Triangles with one very short edge, and all through one small region."""

    def make() -> NDArray[np.float64]:
        end = rng.normal(size=(size, 3))
        width = 10.0 ** rng.uniform(-16, -2, (size, 1))
        far = -end * rng.uniform(0.5, 2.0, (size, 1))
        return np.stack([end, end + width * rng.normal(size=(size, 3)), far], axis=1)

    return _pair(make(), make())


def slivers(rng: Rng, size: int) -> PairScene:
    """Triangles with three corners almost on a line, some lines shared by both meshes."""
    line = rng.normal(size=(3, 2, 3))

    def make() -> NDArray[np.float64]:
        start, end = np.moveaxis(line[rng.integers(0, 3, size)], 1, 0)
        s = rng.uniform(-0.5, 1.5, (size, 3, 1))
        return _by_ulps(rng, start[:, None] * (1 - s) + end[:, None] * s, 3)

    return _pair(make(), make())


def fans(rng: Rng, size: int) -> PairScene:
    """Two fans in almost the same plane: heights of some units in the last place."""
    (xa, fa), (xb, fb) = _fan(rng, size), _fan(rng, size)
    height = 2.0 ** -int(rng.integers(20, 60))
    xa[:, 2] = height * rng.integers(-2, 3, len(xa))
    xb[:, 2] = height * rng.integers(-2, 3, len(xb))
    xb[:, :2] += rng.choice([0.0, 0.25, 1.0], 2)
    if rng.random() < 0.5:
        turn = _rotation(rng)
        xa, xb = xa @ turn, xb @ turn
    return xa, fa, xb, fb


def shared_features(rng: Rng, size: int) -> PairScene:
    """Corners of one mesh on corners, edges, insides and edge crossings of the other, exactly."""
    a = 8.0 * rng.integers(-6, 7, (size, 3, 3))
    b = 8.0 * rng.integers(-6, 7, (size, 3, 3))
    for t in range(size):
        p, q, r = a[rng.integers(size)][rng.permutation(3)]
        choice = rng.integers(7)
        if choice <= 1:  # a common corner, a common edge
            b[t, 0] = p
            if choice == 1:
                b[t, 1] = q
        elif choice == 2:  # a corner on an edge
            b[t, 0] = (p + q) / 2
        elif choice == 3:  # a corner on the inside
            b[t, 0] = (p + q + 2 * r) / 4
        elif choice == 4:  # edges that cross
            b[t, 1] = p + q - b[t, 0]
        elif choice == 5:  # an edge on part of an edge
            b[t, 0], b[t, 1] = (p + q) / 2, q + (q - p)
        else:  # an edge through the inside
            b[t, 1] = (p + q + 2 * r) / 2 - b[t, 0]
    return _pair(a, b[:, rng.permutation(3)])


def zero_area(rng: Rng, size: int) -> PairScene:
    """Segments and points among triangles, on a small grid."""

    def make() -> NDArray[np.float64]:
        x = _grid(rng, size, int(rng.integers(1, 5)))
        for t in range(size):
            choice = rng.integers(5)
            if choice == 0:
                x[t, 1] = x[t, 2] = x[t, 0]
            elif choice == 1:
                x[t, 2] = x[t, rng.integers(2)]
            elif choice == 2:
                x[t, 2] = 2 * x[t, 1] - x[t, 0]
            x[t] = x[t, rng.permutation(3)]
        return x

    return _pair(make(), make())


def offset(rng: Rng, size: int) -> PairScene:
    """A scene at a distance of a million from the origin, where few bits are left."""
    shift = 1e6 * rng.choice([-1.0, 1.0], 3)
    if rng.random() < 0.5:
        a, b = _grid(rng, size, 4) / 8, _grid(rng, size, 4) / 8
    else:
        a, b = rng.normal(size=(2, size, 3, 3)) * 2.0 ** -int(rng.integers(0, 30))
    return _pair(a + shift, b + shift)


def mixed_scales(rng: Rng, size: int) -> PairScene:
    """Triangles of sizes from 1e-8 to 1e8, all of which pass by one point at distances as mixed."""

    def make() -> NDArray[np.float64]:
        x = rng.normal(size=(size, 3, 3))
        x[:, 2] = -x[:, 0] * rng.uniform(0, 1, (size, 1)) - x[:, 1] * rng.uniform(0, 1, (size, 1))
        exponent = rng.uniform(-8, 8, (size, 1, 1))
        missed_by = 10.0 ** rng.uniform(-8, exponent)
        return x * 10.0**exponent + missed_by * rng.normal(size=(size, 1, 3))

    return _pair(make(), make())


def extreme_scales(rng: Rng, size: int) -> PairScene:
    """Sizes of 1e-150, 1 and 1e150 in one scene: products of three overflow and underflow."""

    def make() -> NDArray[np.float64]:
        scale = rng.choice([1e-150, 1.0, 1e150], (size, 1, 1))
        mixed = rng.random((size, 3, 3)) < 0.1
        x = rng.integers(-3, 4, (size, 3, 3)) * scale
        return np.where(mixed, rng.choice([1e-150, 1e150], (size, 3, 3)), x)

    return _pair(make(), make())


def largest(rng: Rng, size: int) -> PairScene:
    """Corners up to the largest double, whose differences overflow."""
    scale = 2.0**1021
    return _pair(*(rng.integers(-7, 8, (2, size, 3, 3)) * scale))


def duplicates(rng: Rng, size: int) -> PairScene:
    """The same few triangles again and again, turned and permuted, in both meshes."""
    x = _grid(rng, 3, 4) if rng.random() < 0.5 else rng.normal(size=(3, 3, 3))

    def make() -> NDArray[np.float64]:
        return np.stack([x[rng.integers(3)][rng.permutation(3)] for _ in range(size)])

    return _pair(make(), make())


def ulps(rng: Rng, size: int) -> PairScene:
    """Exact contacts on a grid, then moved by a few units in the last place."""
    box = int(rng.integers(1, 4))
    scale = rng.choice([1.0, 0.1, 1e-3, 1e5])
    shift = rng.choice([0.0, 1.0, 1000.0])
    a, b = (_by_ulps(rng, _grid(rng, size, box) * scale + shift, int(rng.integers(1, 4))) for _ in range(2))
    return _pair(a, b)


def subnormals(rng: Rng, size: int) -> PairScene:
    """Coordinates that are subnormal, and ones of normal size that differ by subnormals from zero."""

    def make() -> NDArray[np.float64]:
        tiny = rng.integers(-3, 4, (size, 3, 3)) * TINY * rng.choice([1.0, 2.0**30], (size, 1, 1))
        normal = rng.integers(-1, 2, (size, 3, 3)).astype(np.float64)
        return np.where(rng.random((size, 3, 3)) < share, tiny, normal)

    share = rng.choice([1.0, 0.6])
    return _pair(make(), make())


def tilted_plates(rng: Rng, size: int) -> PairScene:
    """Triangles in one tilted plane with dyadic coordinates, exactly coplanar; some corners stick out."""
    basis = _tilted_basis(rng)
    origin = rng.integers(-50, 51, 3) / 4

    def make() -> NDArray[np.float64]:
        x = rng.integers(0, 7, (size, 3, 2)) @ basis + origin
        out = rng.random((size, 3, 1)) < 0.1
        return np.where(out, x + np.cross(basis[0], basis[1]), x)

    return _pair(make(), make())


def rotated_plates(rng: Rng, size: int) -> PairScene:
    """Two sheets in one plane, rotated and rounded: coplanar only up to the last place."""
    (xa, fa), (xb, fb) = _plate_of(size), _plate_of(size)
    turn, shift = _rotation(rng), rng.normal(size=3)
    xb[:, :2] += rng.choice([0.0, 0.5, 1.0, 0.3], 2)
    return xa @ turn + shift, fa, xb @ turn + shift, fb


def touching_boxes(rng: Rng, size: int) -> PairScene:
    """Two boxes that share a face, an edge or a corner, exactly, or overlap by a fraction."""
    (xa, f), (xb, _) = _box(), _box()
    xb = xb * rng.choice([1.0, 0.5, 2.0], 3) + rng.choice([-1.0, 0.0, 0.25, 0.5, 1.0], 3)
    count = max(1, min(size, len(f)))
    picked_a, picked_b = (np.sort(rng.permutation(len(f))[:count]) for _ in range(2))
    return xa, f[picked_a], xb, f[picked_b]


def rotated_boxes(rng: Rng, size: int) -> PairScene:
    """Two boxes that shared a face before they were rotated and rounded."""
    xa, fa, xb, fb = touching_boxes(rng, size)
    turn, shift = _rotation(rng), rng.normal(size=3) * rng.choice([0.0, 1.0, 1e6])
    return xa @ turn + shift, fa, xb @ turn + shift, fb


def few(rng: Rng, size: int) -> PairScene:
    """Meshes of no face and of one."""
    del size
    counts = rng.integers(0, 2, 2)
    return _pair(_grid(rng, counts[0], 2), _grid(rng, counts[1], 2))


# --------------------------------------------------------------------------------------------- one mesh


def self_pool(rng: Rng, size: int) -> Mesh:
    """Random faces on few vertices of an integer grid: all ways to share, repeated indices included."""
    count = int(rng.integers(4, 13))
    x = rng.integers(0, int(rng.integers(1, 7)) + 1, (count, 3)).astype(np.float64)
    return x, _faces(rng.integers(0, count, (size, 3)))


def self_planar_pool(rng: Rng, size: int) -> Mesh:
    """Random faces on few vertices of one tilted plane: neighbours that are folded over, exactly."""
    count = int(rng.integers(5, 10))
    x = rng.integers(0, 6, (count, 2)) @ _tilted_basis(rng)
    return x, _faces([rng.permutation(count)[:3] for _ in range(size)])


def self_folded_fan(rng: Rng, size: int) -> Mesh:
    """A fan that overlaps itself, flat, or with heights of some units in the last place, or rotated."""
    x, f = _fan(rng, size, turns=rng.choice([0.9, 1.3, 2.0]))
    if rng.random() < 0.5:
        x = np.round(x * 4)
    style = rng.integers(3)
    if style == 1:
        x[:, 2] = 2.0**-50 * rng.integers(-2, 3, len(x))
    elif style == 2:
        x = x @ _rotation(rng)
    return x, f


def self_folded_strip(rng: Rng, size: int) -> Mesh:
    """A strip of triangles folded at random along its edges, onto itself or almost."""
    x, f = _plate(max(1, size // 2), 1)
    step = np.cumsum(rng.choice([-1.0, 1.0], len(x) // 2))
    x[:, 0] = np.repeat(step, 2)
    x[:, 2] = rng.choice([0.0, 0.0, 1.0], len(x)) * 2.0 ** -int(rng.integers(0, 55))
    return (x @ _rotation(rng) if rng.random() < 0.5 else x), f


def self_doubled(rng: Rng, size: int) -> Mesh:
    """A sheet with faces repeated on the same vertices, turned over or not, and on copies of vertices."""
    x, f = _plate_of(max(2, size // 2))
    x = x @ _rotation(rng) if rng.random() < 0.5 else x
    again = np.stack([f[rng.integers(len(f))][rng.permutation(3)] for _ in range(max(1, size // 2))])
    copied = rng.random(again.shape) < rng.choice([0.0, 0.3])
    return np.concatenate([x, x]), np.concatenate([f, np.where(copied, again + len(x), again)]).astype(np.int32)


def self_repeated(rng: Rng, size: int) -> Mesh:
    """Faces with repeated indices (segments and points) among faces on a grid, in space or in a plane."""
    count = int(rng.integers(4, 9))
    if rng.random() < 0.5:
        x = rng.integers(0, 4, (count, 3)).astype(np.float64)
    else:
        x = rng.integers(0, 5, (count, 2)) @ _tilted_basis(rng)
    f = np.stack([rng.permutation(count)[:3] for _ in range(size)])
    for t in range(size):
        choice = rng.integers(4)
        if choice == 0:
            f[t, 2] = f[t, rng.integers(2)]
        elif choice == 1 and rng.random() < 0.4:
            f[t] = f[t, 0]
    return x, _faces(f)


def self_crumpled(rng: Rng, size: int) -> Mesh:
    """A sheet with random vertices: neighbours meet only in what they share, others cross."""
    x, f = _plate_of(size)
    return rng.normal(size=x.shape), f


def self_near_flat(rng: Rng, size: int) -> Mesh:
    """A sheet whose vertices moved in their plane, then rotated and rounded."""
    x, f = _plate_of(size)
    x[:, :2] += rng.choice([-1.0, 0.0, 0.0, 0.5, 1.0], (len(x), 2))
    return _by_ulps(rng, x @ _rotation(rng) + rng.choice([0.0, 1e6]), int(rng.integers(1, 3))), f


def self_ulps(rng: Rng, size: int) -> Mesh:
    """Random faces on vertices of a grid that moved by units in the last place or by subnormals."""
    x, f = self_pool(rng, size)
    return _by_ulps(rng, x + rng.choice([0.0, 0.1, 1.0]), 2), f


def self_scales(rng: Rng, size: int) -> Mesh:
    """Random faces on vertices at distances of mixed and extreme size."""
    count = int(rng.integers(5, 12))
    low, high = (-8, 8) if rng.random() < 0.7 else (-150, 150)
    x = rng.integers(-3, 4, (count, 3)) * 10.0 ** rng.integers(low, high + 1, (count, 1))
    return x, _faces(rng.integers(0, count, (size, 3)))


def self_solid(rng: Rng, size: int) -> Mesh:
    """A clean closed box, rotated and rounded, whole or in part: nothing meets beyond what it shares."""
    x, f = _box()
    return x @ _rotation(rng) + rng.choice([0.0, 1e6]), f[: max(1, min(size, len(f)))]


def self_stacked_boxes(rng: Rng, size: int) -> Mesh:
    """Two boxes in one mesh that touch; equal positions are not always one vertex."""
    xa, fa, xb, fb = touching_boxes(rng, max(1, size // 2))
    x, f = np.concatenate([xa, xb]), np.concatenate([fa, fb + len(xa)])
    if rng.random() < 0.5:  # weld
        x, inverse = np.unique(x, axis=0, return_inverse=True)
        f = inverse.reshape(-1)[f]
    return x, _faces(f)


def self_soup(rng: Rng, size: int) -> Mesh:
    """A soup, on a grid or with all bits in use, with no common vertex ids."""
    box = int(rng.integers(1, 6))
    return _soup(_grid(rng, size, box) if rng.random() < 0.5 else rng.normal(size=(size, 3, 3)))


PAIRS: dict[str, Callable[[Rng, int], PairScene]] = {
    make.__name__: make
    for make in (
        grid,
        soup,
        needles,
        slivers,
        fans,
        shared_features,
        zero_area,
        offset,
        mixed_scales,
        extreme_scales,
        largest,
        duplicates,
        ulps,
        subnormals,
        tilted_plates,
        rotated_plates,
        touching_boxes,
        rotated_boxes,
        few,
    )
}
"""Generators of two meshes: ``name -> (rng, size) -> (vertices_a, faces_a, vertices_b, faces_b)``."""

SELF: dict[str, Callable[[Rng, int], Mesh]] = {
    make.__name__: make
    for make in (
        self_pool,
        self_planar_pool,
        self_folded_fan,
        self_folded_strip,
        self_doubled,
        self_repeated,
        self_crumpled,
        self_near_flat,
        self_ulps,
        self_scales,
        self_solid,
        self_stacked_boxes,
        self_soup,
    )
}
"""Generators of one mesh: ``name -> (rng, size) -> (vertices, faces)``."""


def scene(name: str, seed: int, size: int = SIZE) -> PairScene | Mesh:
    """The scene that a generator of either table makes from a seed."""
    return (PAIRS.get(name) or SELF[name])(np.random.default_rng(seed), size)


# ---------------------------------------------------------------------------------------------- judging


def expected_pairs(
    vertices_a: ArrayLike, faces_a: ArrayLike, vertices_b: ArrayLike, faces_b: ArrayLike
) -> dict[tuple[int, int], str]:
    """The oracle's kind of every pair of faces of two meshes that meet, in lexicographic order."""
    x_a, x_b = np.asarray(vertices_a).tolist(), np.asarray(vertices_b).tolist()
    points = oracle.integer_points([*x_a, *x_b])
    a = [[points[v] for v in face] for face in np.asarray(faces_a).tolist()]
    b = [[points[v + len(x_a)] for v in face] for face in np.asarray(faces_b).tolist()]
    kinds = {(i, j): oracle.triangle_kind(s, t) for (i, s), (j, t) in product(enumerate(a), enumerate(b))}
    return {pair: kind for pair, kind in kinds.items() if kind != "none"}


def expected_self_pairs(vertices: ArrayLike, faces: ArrayLike) -> dict[tuple[int, int], str]:
    """The oracle's kind of every pair i < j of faces of one mesh that count, in lexicographic order."""
    points = oracle.integer_points(np.asarray(vertices).tolist())
    faces = np.asarray(faces).tolist()
    kinds = {(i, j): oracle.self_pair_kind(points, faces[i], faces[j]) for i, j in combinations(range(len(faces)), 2)}
    return {pair: kind for pair, kind in kinds.items() if kind != "none"}


def _kind_name(kind: object, kind_names: Mapping[int, str] | None) -> str:
    if isinstance(kind, str):
        return str(kind)
    if kind_names is None:
        raise ValueError(f"the detector gave the kind {kind!r}; pass kind_names to say what integers mean")
    return kind_names.get(int(kind), f"unknown kind {int(kind)}")


def _found(answer: Answer, kind_names: Mapping[int, str] | None) -> list[tuple[tuple[int, int], str]]:
    pairs, kinds = answer
    pairs = np.asarray(pairs).reshape(-1, 2).tolist()
    kinds = list(kinds)
    if len(pairs) != len(kinds):
        raise AssertionError(f"{len(pairs)} pairs, but {len(kinds)} kinds")
    return [((i, j), _kind_name(kind, kind_names)) for (i, j), kind in zip(pairs, kinds)]


def _hex(corners: NDArray[np.float64]) -> str:
    return "[" + ", ".join("[" + ", ".join(c.hex() for c in p) + "]" for p in corners.tolist()) + "]"


def _show_pair(detector: Callable[..., Answer], scene: PairScene, i: int, j: int) -> str:
    """Corners of a pair, bit by bit, and what the detector says if it sees nothing else."""
    x_a, f_a, x_b, f_b = scene
    if not (0 <= i < len(f_a) and 0 <= j < len(f_b)):
        return f"there are {len(f_a)} and {len(f_b)} faces"
    _, kinds = detector(x_a, f_a[[i]], x_b, f_b[[j]])
    return f"a = {_hex(x_a[f_a[i]])}\nb = {_hex(x_b[f_b[j]])}\nkinds reported for the pair alone: {list(kinds)}"


def _show_self_pair(detector: Callable[..., Answer], scene: Mesh, i: int, j: int) -> str:
    """Ids and corners of a pair in one mesh, and what the detector says if it sees nothing else."""
    x, f = scene
    if not 0 <= i < j < len(f):
        return f"pairs are i < j, and there are {len(f)} faces"
    _, kinds = detector(x, f[[i, j]])
    return (
        f"faces {f[i].tolist()} and {f[j].tolist()}\na = {_hex(x[f[i]])}\nb = {_hex(x[f[j]])}\n"
        f"kinds reported for the pair alone: {list(kinds)}"
    )


def _ask(where: str, detector: Callable[..., Answer], *scene: NDArray) -> Answer:
    try:
        return detector(*scene)
    except Exception as error:
        raise AssertionError(f"{where}: the detector raised {error!r}") from error


def _judge(
    where: str,
    answer: Answer,
    expected: dict[tuple[int, int], str],
    *,
    show: Callable[[int, int], str],
    kind_names: Mapping[int, str] | None,
    in_order: bool,
) -> None:
    """Raise an AssertionError that describes the first difference between an answer and the oracle."""
    listed = _found(answer, kind_names)
    found = dict(listed)
    for pair in sorted(found.keys() | expected.keys()):
        is_kind, should_be = found.get(pair, "none"), expected.get(pair, "none")
        if is_kind != should_be:
            raise AssertionError(f"{where}: pair {pair} is {should_be}, reported as {is_kind}\n{show(*pair)}")
    if len(found) != len(listed):
        twice = Counter(pair for pair, _ in listed).most_common(1)[0][0]
        raise AssertionError(f"{where}: pair {twice} is reported more than once\n{show(*twice)}")
    if in_order and [pair for pair, _ in listed] != sorted(found):
        raise AssertionError(f"{where}: pairs are not in lexicographic order")


def _rounds(names: Sequence[str], rounds: int, seed: int) -> Iterator[tuple[str, int]]:
    """Every generator with a seed, then with the next seed."""
    for at in range(seed, seed + rounds):
        for name in names:
            yield name, at


def run(
    detector: Callable[..., Answer],
    rounds: int = 1,
    seed: int = 0,
    *,
    kind_names: Mapping[int, str] | None = None,
    size: int = SIZE,
    names: Sequence[str] | None = None,
    in_order: bool = True,
) -> Counter[str]:
    """Compare ``detector(vertices_a, faces_a, vertices_b, faces_b)`` with the oracle, ``rounds`` seeds from ``seed``.

    The detector returns pairs, shape [k, 2], and k kinds: strings, or integers named by ``kind_names``.
    Returns the counts "scenes", "pairs" (all that were compared) and one for each kind.
    """
    count: Counter[str] = Counter()
    for name, at in _rounds(list(PAIRS if names is None else names), rounds, seed):
        x_a, f_a, x_b, f_b = PAIRS[name](np.random.default_rng(at), size)
        expected = expected_pairs(x_a, f_a, x_b, f_b)
        _judge(
            where := f"generator {name!r}, seed {at}, size {size}",
            _ask(where, detector, x_a, f_a, x_b, f_b),
            expected,
            show=partial(_show_pair, detector, (x_a, f_a, x_b, f_b)),
            kind_names=kind_names,
            in_order=in_order,
        )
        _tally(count, len(f_a) * len(f_b), expected)
    return count


def run_self(
    detector: Callable[..., Answer],
    rounds: int = 1,
    seed: int = 0,
    *,
    kind_names: Mapping[int, str] | None = None,
    size: int = SIZE,
    names: Sequence[str] | None = None,
    in_order: bool = True,
) -> Counter[str]:
    """Compare ``detector(vertices, faces)`` with the oracle; otherwise as ``run``."""
    count: Counter[str] = Counter()
    for name, at in _rounds(list(SELF if names is None else names), rounds, seed):
        x, f = SELF[name](np.random.default_rng(at), size)
        expected = expected_self_pairs(x, f)
        _judge(
            where := f"generator {name!r}, seed {at}, size {size}",
            _ask(where, detector, x, f),
            expected,
            show=partial(_show_self_pair, detector, (x, f)),
            kind_names=kind_names,
            in_order=in_order,
        )
        _tally(count, len(f) * (len(f) - 1) // 2, expected)
    return count


def _tally(count: Counter[str], pair_count: int, expected: dict[tuple[int, int], str]) -> None:
    count["scenes"] += 1
    count["pairs"] += pair_count
    count["none"] += pair_count - len(expected)
    count.update(expected.values())


# ----------------------------------------------------------------------------------------- command line


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the library's brute force and its self-collision against the oracle."""
    import impinge
    from impinge.detect.common.results import Kind

    parser = argparse.ArgumentParser(description="Compare impinge with exact arithmetic on scenes made to break it.")
    parser.add_argument("--seconds", type=float, default=60.0, help="time for both halves together")
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--size", type=int, default=SIZE, help="faces per mesh")
    parser.add_argument("--method", default="brute_force", help="method of impinge.triangle_pairs")
    parser.add_argument("--only", action="append", choices=[*PAIRS, *SELF], help="a generator; may be repeated")
    options = parser.parse_args(arguments)
    kind_names = {int(kind): kind.name.lower() for kind in Kind}

    def pairs(x_a, f_a, x_b, f_b) -> Answer:
        a, b = impinge.TriMesh(x_a, f_a), impinge.TriMesh(x_b, f_b)
        result = impinge.triangle_pairs(a, b, method=options.method)
        return result.pairs, result.kind

    def self_pairs(x, f) -> Answer:
        result = impinge.self_pairs(impinge.TriMesh(x, f))
        return result.pairs, result.kind

    only = options.only or [*PAIRS, *SELF]
    halves = [
        (title, go, detector, names)
        for title, go, detector, table in (
            ("two meshes", run, pairs, PAIRS),
            ("one mesh", run_self, self_pairs, SELF),
        )
        if (names := [name for name in only if name in table])
    ]
    for title, go, detector, names in halves:
        count: Counter[str] = Counter()
        seed, end = options.seed, perf_counter() + options.seconds / len(halves)
        while seed == options.seed or perf_counter() < end:
            count += go(detector, 1, seed, kind_names=kind_names, size=options.size, names=names)
            seed += 1
        sys.stdout.write(f"{title}: " + ", ".join(f"{key} {count[key]}" for key in count) + "\n")


if __name__ == "__main__":
    main()
