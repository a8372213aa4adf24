"""Volume that bodies share where their surfaces meet without crossing, against voxels and linear programs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.spatial import ConvexHull, QhullError

import impinge
from impinge import shapes

GRID = 6
"""Cells of the lattice along each side."""


def voxel_body(cells: np.ndarray, size: int) -> impinge.TriMesh:
    """The surface of cubes of edge ``size``; ``cells`` are their lowest corners in units of ``size``."""
    filled = {tuple(cell) for cell in cells.tolist()}
    corners: dict[tuple[int, ...], int] = {}
    faces = []
    for cell, axis, high in product(sorted(filled), range(3), (0, 1)):
        beside = list(cell)
        beside[axis] += 2 * high - 1
        if tuple(beside) in filled:
            continue
        u, v = (axis + 1) % 3, (axis + 2) % 3
        quad = []
        for du, dv in ((0, 0), (1, 0), (1, 1), (0, 1)):
            corner = list(cell)
            corner[axis] += high
            corner[u] += du
            corner[v] += dv
            quad.append(corners.setdefault(tuple(size * x for x in corner), len(corners)))
        quad = quad if high else quad[::-1]
        faces += [[quad[0], quad[1], quad[2]], [quad[0], quad[2], quad[3]]]
    return impinge.TriMesh(np.array(list(corners), dtype=np.float64), faces)


def unit_cells(cells: np.ndarray, size: int) -> set[tuple[int, ...]]:
    """The unit cells that cubes of edge ``size`` fill."""
    return {tuple(size * np.array(cell) + offset) for cell in cells for offset in product(range(size), repeat=3)}


@pytest.mark.small
def test_voxels_that_share_cells_overlap(rng):
    """Tell bodies of cubes that share a cell of the lattice from those that only touch."""
    found = []
    for _ in range(150):
        sizes = [int(size) for size in rng.integers(1, 4, 2)]
        cells = [np.unique(rng.integers(0, GRID // size, (rng.integers(1, 6), 3)), axis=0) for size in sizes]
        a, b = (voxel_body(each, size) for each, size in zip(cells, sizes))
        shared = unit_cells(cells[0], sizes[0]) & unit_cells(cells[1], sizes[1])
        relation = impinge.check(a, b).relation

        assert (relation in ("overlapping", "a in b", "b in a")) == bool(shared), (cells, sizes)
        found.append((relation, bool(shared)))
    assert min(found.count(case) for case in (("overlapping", True), ("touching", False), ("disjoint", False))) > 10


def polytope(points: np.ndarray) -> tuple[impinge.TriMesh, np.ndarray] | None:
    """The convex hull of points as a surface, and its half-spaces; None if it is flat."""
    try:
        hull = ConvexHull(points)
    except QhullError:
        return None
    faces = hull.simplices.copy()
    normal = np.cross(points[faces[:, 1]] - points[faces[:, 0]], points[faces[:, 2]] - points[faces[:, 0]])
    inward = (normal * hull.equations[:, :3]).sum(axis=1) < 0
    faces[inward] = faces[inward][:, ::-1]
    return impinge.TriMesh(points, faces), hull.equations


@pytest.mark.small
def test_polytopes_that_share_volume_overlap(rng):
    """Tell convex bodies of integer corners that share a ball from those that only touch."""
    found = []
    while len(found) < 400:
        corners = 2.0 * rng.integers(0, 3, (rng.integers(4, 8), 3))
        others = 2.0 * rng.integers(0, 3, (rng.integers(4, 8), 3))
        if rng.random() < 0.5:  # on the first one: its corners, and middles between them
            others = corners[rng.integers(0, len(corners), (len(others), 2))].mean(axis=1)
        pair = [polytope(corners), polytope(others)]
        if pair[0] is None or pair[1] is None:
            continue
        spaces = np.concatenate([pair[0][1], pair[1][1]])
        widest = linprog(
            [0, 0, 0, -1],
            np.concatenate([spaces[:, :3], np.ones((len(spaces), 1))], axis=1),
            -spaces[:, 3],
            bounds=[(None, None)] * 4,
        )
        shares = widest.x[3] > 1e-6
        report = impinge.check(pair[0][0], pair[1][0])

        assert (report.relation in ("overlapping", "a in b", "b in a")) == shares, [each[0].vertices for each in pair]
        has_crossing = bool((report.pairs.kind == impinge.Kind.CROSSING).any())
        found.append((report.relation, has_crossing))
    assert found.count(("overlapping", False)) > 10
    assert found.count(("overlapping", True)) > 50
    assert found.count(("touching", False)) > 10


TETRA = impinge.TriMesh(
    np.array([[0, 0, 0], [1, 1, 0], [1, 0, 1], [0, 1, 1]]) - 0.5, [[0, 1, 2], [0, 2, 3], [0, 3, 1], [1, 3, 2]]
)
"""Edges are diagonals of the sides of the unit cube."""


@pytest.mark.small
@pytest.mark.parametrize(
    ("a", "b", "relation"),
    [
        (shapes.box((2.0, 1.0, 1.0)), shapes.box((2.0, 1.0, 1.0), (1.0, 0.0, 0.0)), "overlapping"),
        (shapes.box(1.0), shapes.box(1.0), "overlapping"),
        (shapes.box(1.0), shapes.box(1.0, cells=(3, 2, 1)), "overlapping"),
        (shapes.box(1.0), TETRA, "overlapping"),
        (shapes.box((3.0, 1.0, 1.0)), shapes.box((1.0, 1.0, 1.0)), "overlapping"),
        (shapes.box((3.0, 1.0, 1.0)), shapes.box((1.0, 3.0, 1.0)), "overlapping"),
        (shapes.box(1.0), shapes.box(1.0, (1.0, 0.0, 0.0)), "touching"),
        (shapes.box(1.0), shapes.box(1.0, (1.0, 0.5, 0.25)), "touching"),
        (shapes.box(1.0), shapes.box(1.0, (1.0, 1.0, 0.0)), "touching"),
        (shapes.box(1.0), shapes.box(1.0, (1.0, 1.0, 1.0)), "touching"),
        (shapes.box(1.0), shapes.cloth_grid(2, 2, size=3.0), "crossing"),
        (shapes.box(1.0), shapes.cloth_grid(2, 2, size=0.5, center=(0.0, 0.0, 0.5)), "touching"),
        (shapes.cloth_grid(2, 2), shapes.cloth_grid(3, 3), "touching"),
    ],
    ids=[
        "aligned", "equal", "equal, other triangles", "inscribed", "a slice", "crossed slabs", "side on side",
        "shifted sides", "edge on edge", "corner on corner", "a sheet through", "a sheet on", "sheets in a plane",
    ],
)  # fmt: skip
def test_solids_that_share_volume_overlap(a, b, relation):
    """Call solids overlapping where they share volume, whichever way their surfaces meet, in either order."""
    assert impinge.check(a, b).relation == impinge.check(b, a).relation == relation


@pytest.mark.small
def test_surfaces_inside_out_have_the_same_inside():
    """Find shared volume whichever way the triangles of a body are turned."""
    a, b = shapes.box((2.0, 1.0, 1.0)), shapes.box((2.0, 1.0, 1.0), (1.0, 0.0, 0.0))
    turned = impinge.TriMesh(b.vertices, b.faces[:, ::-1])

    assert impinge.check(a, turned).relation == "overlapping"
    assert impinge.check(a, impinge.TriMesh(b.vertices + np.eye(3)[0], b.faces[:, ::-1])).relation == "touching"


@pytest.mark.small
def test_a_cavity_is_outside():
    """Call a body that fits into the cavity of another touching."""
    hull, core = shapes.box(3.0), shapes.box(1.0)
    faces = np.concatenate([hull.faces, core.faces[:, ::-1] + len(hull.vertices)])
    hollow = impinge.TriMesh(np.concatenate([hull.vertices, core.vertices]), faces)

    assert impinge.check(hollow, shapes.box(1.0)).relation == "touching"
    assert impinge.check(hollow, shapes.box((1.5, 1.0, 1.0), (0.25, 0.0, 0.0))).relation == "overlapping"
