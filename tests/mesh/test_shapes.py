"""Bodies made by formula: their counts, their orientation and their volumes."""

import math

import numpy as np
import pytest

from impinge.errors import OptionError
from impinge.mesh import shapes
from impinge.mesh.adjacency import TET_FACES
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh

CLOSED = {
    "uv_sphere": lambda: shapes.uv_sphere(12, 7),
    "coarsest uv_sphere": lambda: shapes.uv_sphere(3, 2),
    "icosahedron": lambda: shapes.icosphere(0),
    "icosphere": lambda: shapes.icosphere(3),
    "bumpy_sphere": lambda: shapes.bumpy_sphere(3, amplitude=0.3, frequency=9.0),
    "trefoil": lambda: shapes.torus_knot(2, 3, 90, 8),
    "unknot": lambda: shapes.torus_knot(1, 1, 40, 3),
    "box": shapes.box,
    "box of cells": lambda: shapes.box((1.0, 2.0, 3.0), cells=(2, 3, 4)),
    "cad_part": shapes.cad_part,
    "coarsest cad_part": lambda: shapes.cad_part((1, 1), segments=4),
}
TETS = {
    "one cube": lambda: shapes.tet_box(1, 1, 1),
    "tet_box": lambda: shapes.tet_box(3, 4, 5, size=(1.0, 2.0, 0.5), center=(1.0, 2.0, 3.0)),
    "tet_tube": lambda: shapes.tet_tube(2, 6, 3),
    "coarsest tet_tube": lambda: shapes.tet_tube(1, 4, 1, inner_radius=0.01),
}


def counts(mesh: TriMesh) -> tuple[int, int]:
    """Faces and vertices."""
    return len(mesh), len(mesh.vertices)


def areas(mesh: TriMesh) -> np.ndarray:
    """The area of each triangle."""
    corner = mesh.vertices[mesh.faces]
    return np.linalg.norm(np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]), axis=1) / 2.0


@pytest.mark.parametrize("make", CLOSED.values(), ids=CLOSED)
def test_closed_surfaces_are_closed_and_look_outwards(make):
    """Close every edge with exactly two agreeing triangles around a positive volume, all vertices in use."""
    mesh = make()

    assert mesh.is_closed
    assert mesh.adjacency.is_oriented
    assert (mesh.adjacency.edge_degree == 2).all()
    assert mesh.volume > 0.0
    assert areas(mesh).min() > 0.0
    assert len(mesh.used_vertices) == len(mesh.vertices)


@pytest.mark.parametrize("make", [*CLOSED.values(), *TETS.values()], ids=[*CLOSED, *TETS])
def test_same_arguments_give_the_same_mesh(make):
    """Return equal arrays from equal calls."""
    first, second = make(), make()

    np.testing.assert_array_equal(first.vertices, second.vertices)
    np.testing.assert_array_equal(first.snapshot().elements, second.snapshot().elements)


@pytest.mark.parametrize(
    ("nu", "nv", "face_count"),
    [(3, 2, 6), (30, 26, 1500), (100, 51, 10_000), (100, 66, 13_000), (200, 126, 50_000)],
)
def test_uv_sphere_counts(nu, nv, face_count):
    """Make the number of faces and vertices that the formula states."""
    assert counts(shapes.uv_sphere(nu, nv)) == (face_count, nu * (nv - 1) + 2)


@pytest.mark.parametrize("s", range(5))
def test_icosphere_counts(s):
    """Multiply the icosahedron's faces by four at each subdivision."""
    assert counts(shapes.icosphere(s)) == (20 * 4**s, 10 * 4**s + 2)
    assert counts(shapes.bumpy_sphere(s)) == (20 * 4**s, 10 * 4**s + 2)


@pytest.mark.parametrize("make", [lambda **k: shapes.uv_sphere(80, 60, **k), lambda **k: shapes.icosphere(4, **k)])
def test_spheres_approach_the_analytic_volume(make):
    """Put all vertices on the requested sphere and enclose nearly its volume, never more."""
    sphere = make(radius=2.0, center=(1.0, -2.0, 3.0))
    ball = 4.0 / 3.0 * math.pi * 2.0**3

    np.testing.assert_allclose(np.linalg.norm(sphere.vertices - (1.0, -2.0, 3.0), axis=1), 2.0, rtol=1e-14)
    assert 0.99 * ball < sphere.volume < ball


def test_icosahedron_is_regular():
    """Give the twenty faces of the first icosphere equal areas."""
    np.testing.assert_allclose(areas(shapes.icosphere(0)), areas(shapes.icosphere(0))[0], rtol=1e-14)


def test_bumps_stay_within_their_amplitude():
    """Keep every radius within the amplitude, use some of the range, and be a sphere at amplitude 0."""
    radius = np.linalg.norm(shapes.bumpy_sphere(4, radius=3.0, amplitude=0.2).vertices, axis=1)

    assert 3.0 * 0.8 <= radius.min() < 3.0 * 0.95
    assert 3.0 * 1.05 < radius.max() <= 3.0 * 1.2
    np.testing.assert_array_equal(shapes.bumpy_sphere(2, amplitude=0.0).vertices, shapes.icosphere(2).vertices)


@pytest.mark.parametrize(("rings", "sides", "face_count"), [(300, 20, 12_000), (1000, 25, 50_000)])
def test_torus_knot_counts(rings, sides, face_count):
    """Make two faces for each ring and side."""
    assert counts(shapes.torus_knot(2, 3, rings, sides)) == (face_count, rings * sides)


def test_torus_knot_volume_is_that_of_its_tube():
    """Enclose cross-section times length, as any tube does whose sections have their middle on the knot."""
    mesh = shapes.torus_knot(2, 3, 2000, 32, tube_radius=0.1)
    centre = mesh.vertices.reshape(32, 2000, 3).mean(axis=0)
    length = np.linalg.norm(np.roll(centre, -1, axis=0) - centre, axis=1).sum()
    section = 32 / 2 * 0.1**2 * math.sin(2.0 * math.pi / 32)

    np.testing.assert_allclose(mesh.volume, section * length, rtol=1e-3)


@pytest.mark.parametrize(("p", "q"), [(1, 1), (1, 4), (2, 3), (3, 2), (2, 7), (5, 3)])
def test_default_tube_leaves_room_between_strands(p, q):
    """Keep parts of the strand that are far apart along it farther apart in space than the tube is wide."""
    rings, sides = 600, 8
    x = shapes.torus_knot(p, q, rings, sides).vertices.reshape(sides, rings, 3)
    centre = x.mean(axis=0)
    tube = np.linalg.norm(x[0] - centre, axis=1).mean()
    step = np.linalg.norm(np.roll(centre, -1, axis=0) - centre, axis=1)
    along = np.abs(np.subtract.outer(np.cumsum(step), np.cumsum(step)))
    along = np.minimum(along, step.sum() - along)
    apart = np.linalg.norm(centre[:, None] - centre[None], axis=2)

    assert apart[along > 1.5 * math.pi * tube].min() > 2.5 * tube


@pytest.mark.parametrize("cells", [(1, 1, 1), (2, 1, 1), (3, 4, 5)])
def test_box_counts_volume_and_bounds(cells):
    """Cover the six sides with the stated triangles and reach the sides exactly."""
    a, b, c = cells
    mesh = shapes.box((1.0, 2.0, 3.0), (0.5, 1.0, 1.5), cells=cells)
    vertex_count = (a + 1) * (b + 1) * (c + 1) - (a - 1) * (b - 1) * (c - 1)

    assert counts(mesh) == (4 * (a * b + b * c + c * a), vertex_count)
    np.testing.assert_array_equal(mesh.bounds, [[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]])
    np.testing.assert_allclose(mesh.volume, 6.0, rtol=1e-14)
    np.testing.assert_allclose(areas(mesh).sum(), 22.0, rtol=1e-14)


@pytest.mark.parametrize(("holes", "segments"), [((1, 1), 4), ((3, 2), 32), ((1, 4), 12)])
def test_cad_part_counts_volume_and_area(holes, segments):
    """Match the drilled plate's counts, volume and area, which overlapping triangles would exceed."""
    a, b = holes
    width, depth, height, radius = 4.0, 5.0, 0.5, 0.4
    part = shapes.cad_part(holes, segments=segments, size=(width, depth, height), hole_radius=radius)
    hole = segments / 2 * radius**2 * math.sin(2.0 * math.pi / segments)
    rim = 2 * segments * radius * math.sin(math.pi / segments)
    plan = width * depth - a * b * hole

    assert len(part) == 4 * a * b * (segments + 2) + 4 * (a + b)
    np.testing.assert_allclose(part.volume, height * plan, rtol=1e-12)
    area = 2.0 * plan + height * (2.0 * (width + depth) + a * b * rim)
    np.testing.assert_allclose(areas(part).sum(), area, rtol=1e-12)


def test_cad_part_has_long_thin_triangles():
    """Contain triangles whose longest side exceeds their height twenty times, as CAD exports do."""
    part = shapes.cad_part(segments=128)
    corner = part.vertices[part.faces]
    longest = np.linalg.norm(corner - np.roll(corner, 1, axis=1), axis=2).max(axis=1)

    assert np.mean(longest**2 > 20.0 * 2.0 * areas(part)) > 0.5


def test_cloth_grid_is_an_open_flat_sheet():
    """Make an open sheet that faces up and has the requested area."""
    cloth = shapes.cloth_grid(4, 3, size=(2.0, 3.0), center=(0.0, 0.0, 1.0))

    assert counts(cloth) == (24, 20)
    assert not cloth.is_closed
    assert cloth.adjacency.open_edges.sum() == 2 * (4 + 3)
    np.testing.assert_allclose(areas(cloth).sum(), 6.0, rtol=1e-14)
    np.testing.assert_array_equal(cloth.bounds, [[-1.0, -1.5, 1.0], [1.0, 1.5, 1.0]])
    corner = cloth.vertices[cloth.faces]
    assert (np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])[:, 2] > 0.0).all()


@pytest.mark.parametrize("make", TETS.values(), ids=TETS)
def test_tet_meshes_fit_together(make):
    """Share every inner face between two tets, and close the boundary round the sum of the volumes."""
    mesh = make()
    faces = np.sort(mesh.tets[:, TET_FACES].reshape(-1, 3), axis=1)
    _, shared = np.unique(faces, axis=0, return_counts=True)

    assert mesh.volumes.min() > 0.0
    assert set(shared) <= {1, 2}
    assert len(mesh.surface) == (shared == 1).sum()
    assert mesh.surface.adjacency.is_oriented
    assert (mesh.surface.adjacency.edge_degree == 2).all()
    np.testing.assert_allclose(mesh.surface.volume, mesh.volume, rtol=1e-12)
    assert len(np.unique(mesh.tets)) == len(mesh.vertices)


@pytest.mark.parametrize(("cubes", "tet_count", "vertex_count"), [((2, 1, 1), 10, 12), ((10, 10, 1), 500, 242)])
def test_tet_box_counts(cubes, tet_count, vertex_count):
    """Make five tets per cube of edge 1, whose volumes are exactly a sixth and a third."""
    mesh = shapes.tet_box(*cubes)

    assert (len(mesh), len(mesh.vertices)) == (tet_count, vertex_count)
    np.testing.assert_allclose(np.unique(mesh.volumes), [1.0 / 6.0, 1.0 / 3.0], rtol=1e-15)
    assert len(mesh.surface) == 4 * (cubes[0] * cubes[1] + cubes[1] * cubes[2] + cubes[2] * cubes[0])


def test_tet_box_fills_the_requested_size():
    """Reach the sides of the box exactly."""
    mesh = shapes.tet_box(3, 7, 5, size=(1.0, 2.0, 3.0), center=(0.5, 1.0, 1.5))

    np.testing.assert_array_equal(mesh.bounds, [[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]])
    np.testing.assert_allclose(mesh.volume, 6.0, rtol=1e-13)


def test_tet_tube_counts_and_volume():
    """Match the vessel's counts and the volume between two regular prisms."""
    mesh = shapes.tet_tube(2, 18, 57, inner_radius=0.5, outer_radius=1.0, length=3.0)
    ring = 18 / 2 * math.sin(2.0 * math.pi / 18) * (1.0**2 - 0.5**2)

    assert (len(mesh), len(mesh.vertices)) == (10_260, 3132)
    np.testing.assert_allclose(mesh.volume, 3.0 * ring, rtol=1e-12)
    assert isinstance(mesh, TetMesh)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: shapes.uv_sphere(2, 5), "nu is 2, expected a whole number from 3"),
        (lambda: shapes.uv_sphere(3, 1), "nv is 1, expected a whole number from 2"),
        (lambda: shapes.uv_sphere(8.5, 5), "nu is 8.5, expected a whole number"),
        (lambda: shapes.uv_sphere(8, 5, radius=-1.0), "radius is -1.0, expected a positive"),
        (lambda: shapes.uv_sphere(8, 5, center=(0.0, 0.0)), "center is .* expected three finite numbers"),
        (lambda: shapes.icosphere(-1), "subdivisions is -1, expected a whole number from 0"),
        (lambda: shapes.icosphere(11), "subdivisions is 11, expected a whole number from 0 to 10: there are"),
        (lambda: shapes.icosphere(1, radius=math.nan), "radius is nan"),
        (lambda: shapes.bumpy_sphere(1, amplitude=1.0), "amplitude is 1.0, expected 0 <= amplitude < 1"),
        (lambda: shapes.torus_knot(2, 4, 30, 5), "p and q are 2 and 4, expected .* common divisor"),
        (lambda: shapes.torus_knot(2, 3, 30, 5, minor_radius=2.0), "minor_radius is 2.0, expected less than"),
        (lambda: shapes.torus_knot(2, 3, 30, 5, tube_radius=0.0), "tube_radius is 0.0, expected a positive"),
        (lambda: shapes.box((1.0, 2.0)), "size is .* expected one positive number or 3"),
        (lambda: shapes.box(0.0), "size is 0.0, expected one positive number"),
        (lambda: shapes.box(cells=(1, 0, 1)), r"cells\[1\] is 0, expected a whole number from 1"),
        (lambda: shapes.box(cells=4), "cells is 4, expected 3 whole numbers"),
        (lambda: shapes.cad_part(segments=30), "segments is 30, expected a multiple of 4"),
        (lambda: shapes.cad_part(hole_radius=0.5), "hole_radius is 0.5, expected less than 0.5"),
        (lambda: shapes.tet_box(0, 1, 1), r"cubes\[0\] is 0, expected a whole number from 1"),
        (lambda: shapes.tet_tube(1, 7, 1), "n_theta is 7, expected an even number"),
        (lambda: shapes.tet_tube(1, 6, 1, inner_radius=1.0), "inner_radius is 1.0, expected less than outer_radius"),
        (lambda: shapes.cloth_grid(3, 0), r"cells\[1\] is 0"),
        (lambda: shapes.cloth_grid(3, True), r"cells is \(3, True\), expected 2 whole numbers"),
        (lambda: shapes.tet_box(2, np.bool_(True), 1), "cubes is .* expected 3 whole numbers"),
        (lambda: shapes.box(True), "size is True, expected one positive number or 3"),
        (lambda: shapes.box((1.0, True, 2.0)), "size is .* expected one positive number or 3"),
        (lambda: shapes.box(center=(0.0, False, 0.0)), "center is .* expected three finite numbers"),
    ],
)
def test_bad_options_get_a_sentence(call, sentence):
    """Say which option was found bad and what was expected."""
    with pytest.raises(OptionError, match=sentence):
        call()
