"""Sphere trees: what they promise, recomputed from the mesh, in rational arithmetic where that is affordable."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import impinge
import shared_data
from impinge import SphereHierarchy, TriMesh, build_spheres, shapes
from impinge.detect.sphere_tree.build.medial_axis import medial_spheres, signed_depth, surface_samples
from impinge.detect.sphere_tree.build.reduction_kernels import burst, expand, merge
from impinge.errors import FileError, MeshError, OptionError

BUILDERS = ("octree", "medial")
KINDS = ("wrapped", "layered")


# Judges -----------------------------------------------------------------------------------------------


def corner_points(tree, x, faces):
    """Corners of all pieces, shape (p, 3, 3)."""
    return np.einsum("pij,pjk->pik", tree.piece_corner, x[faces[tree.piece_triangle]])


def exact_point(weights, corners):
    """A point in fractions, from barycentric coordinates and corners in doubles."""
    return [sum((Fraction(w) * Fraction(c) for w, c in zip(weights, column)), Fraction(0)) for column in zip(*corners)]


def exact_area(a, b, c):
    """Twice the area of a piece over that of its triangle, from barycentric coordinates, in fractions."""
    (ax, ay), (bx, by), (cx, cy) = ((Fraction(p[0]), Fraction(p[1])) for p in (a, b, c))
    return (bx - ax) * (cy - ay) - (cx - ax) * (by - ay)


def assert_shape_of_tree(tree, branching, levels):
    """Nodes level by level, siblings together and in order, ranges of pieces that are unions of the children's."""
    assert tree.level_start[0] == 0
    assert tree.level_start[1] == 1
    assert tree.level_start[-1] == len(tree)
    assert tree.level_count <= levels + 1
    assert tree.parent[0] == -1
    assert (tree.piece_start[0], tree.piece_stop[0]) == (0, len(tree.piece_triangle))
    following = 1
    for n in range(len(tree)):
        count = tree.child_count[n]
        if tree.first_child[n] == -1:
            assert count == 0
            continue
        assert 2 <= count <= branching
        assert tree.first_child[n] == following
        children = np.arange(following, following + count)
        following += count
        assert (tree.parent[children] == n).all()
        assert {tree.level_of(c) for c in children} == {tree.level_of(n) + 1}
        assert tree.piece_start[children[0]] == tree.piece_start[n]
        assert tree.piece_stop[children[-1]] == tree.piece_stop[n]
        np.testing.assert_array_equal(tree.piece_stop[children[:-1]], tree.piece_start[children[1:]])
    assert following == len(tree)
    assert (tree.piece_stop > tree.piece_start).all()


def assert_pieces_tile(tree, mesh):
    """Corners in their triangles, areas that add up to one, in exact arithmetic; every live triangle is there."""
    assert (tree.piece_corner >= 0.0).all()
    assert (tree.piece_corner.sum(axis=2) == 1.0).all()  # sums of dyadic numbers: exact
    doubled = [abs(exact_area(*corners)) for corners in tree.piece_corner.tolist()]
    total: dict[int, Fraction] = {}
    for triangle, area in zip(tree.piece_triangle.tolist(), doubled):
        total[triangle] = total.get(triangle, Fraction(0)) + area
    assert set(total) == set(np.flatnonzero(mesh.alive).tolist())
    assert set(total.values()) == {Fraction(1)}


def assert_covers(tree, mesh):
    """Corners of all pieces in the balls of their leaves and of all ancestors, as doubles compute it."""
    points = corner_points(tree, mesh.vertices, mesh.faces)
    for n in range(len(tree)):
        below = points[tree.piece_start[n] : tree.piece_stop[n]].reshape(-1, 3)
        assert (np.linalg.norm(below - tree.centre[n], axis=1) <= tree.radius[n]).all(), n


def assert_covers_exactly(tree, mesh):
    """The same in fractions; every leaf's piece against the whole chain of balls above it."""
    for n in range(len(tree)):
        centre, radius = [Fraction(c) for c in tree.centre[n].tolist()], Fraction(tree.radius[n].item())
        for p in range(tree.piece_start[n], tree.piece_stop[n]):
            corners = mesh.vertices[mesh.faces[tree.piece_triangle[p]]].tolist()
            for weights in tree.piece_corner[p].tolist():
                point = exact_point(weights, corners)
                assert sum((a - b) ** 2 for a, b in zip(point, centre)) <= radius**2


def assert_nested(tree):
    """Balls of children in those of their parents, in fractions."""
    for n in range(1, len(tree)):
        parent = tree.parent[n]
        gap = Fraction(tree.radius[parent].item()) - Fraction(tree.radius[n].item())
        apart = [Fraction(a) - Fraction(b) for a, b in zip(tree.centre[n].tolist(), tree.centre[parent].tolist())]
        assert gap >= 0
        assert sum(d * d for d in apart) <= gap * gap


def assert_same(a, b):
    for name in a.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


def soup(rng, count):
    """Triangles of which a third has no area, and some are there twice."""
    x = rng.normal(size=(count, 3, 3)) * np.array([1.0, 0.5, 0.2]) + rng.normal(size=(count, 1, 3))
    x[::6, 2] = x[::6, 1]
    x[1::6, 2] = 0.5 * (x[1::6, 0] + x[1::6, 1])
    x[2::6] = x[3::6][: len(x[2::6])]
    return TriMesh(x.reshape(-1, 3), np.arange(3 * count).reshape(-1, 3))


# Coverage ---------------------------------------------------------------------------------------------


@pytest.mark.small
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("builder", BUILDERS)
@pytest.mark.parametrize(("branching", "levels"), [(8, 2), (3, 3), (2, 4)])
def test_covers_the_surface_at_every_level(builder, kind, branching, levels):
    """Hold every piece in all balls above it, tile all triangles, keep to branching and depth."""
    mesh = shapes.bumpy_sphere(2)
    tree = build_spheres(mesh, builder=builder, kind=kind, branching=branching, levels=levels)

    assert (tree.builder, tree.kind, tree.branching) == (builder, kind, branching)
    assert tree.level_count == levels + 1
    assert_shape_of_tree(tree, branching, levels)
    assert_pieces_tile(tree, mesh)
    assert_covers(tree, mesh)
    if kind == "layered":
        assert_nested(tree)


@pytest.mark.parametrize("builder", BUILDERS)
def test_covers_in_exact_arithmetic(builder):
    """Hold corners in fractions, at the middles of edges too, where doubles round."""
    mesh = shapes.box((1.0, 0.7, 0.3), center=(10.1, -3.3, 0.7))
    tree = build_spheres(mesh, builder=builder, branching=4, levels=2)

    assert (tree.piece_corner == 0.5).any(), "nothing was cut"
    assert_covers_exactly(tree, mesh)
    assert_pieces_tile(tree, mesh)


@pytest.mark.small
@given(
    triangles=st.lists(st.lists(st.integers(-2, 2), min_size=9, max_size=9), min_size=1, max_size=7),
    branching=st.integers(2, 5),
    levels=st.integers(0, 3),
    kind=st.sampled_from(KINDS),
    third=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_covers_small_soups_exactly(triangles, branching, levels, kind, third):
    """Cover soups on a small grid, degenerate triangles and copies among them, exactly."""
    x = np.array(triangles, dtype=np.float64).reshape(-1, 3) / (3.0 if third else 1.0)
    mesh = TriMesh(x, np.arange(len(x)).reshape(-1, 3))
    tree = build_spheres(mesh, builder="octree", kind=kind, branching=branching, levels=levels)
    few = np.flatnonzero(np.arange(len(tree)) % 7 == 0)

    assert_shape_of_tree(tree, branching, levels)
    assert_covers(tree, mesh)
    for n in few.tolist():
        some = slice(tree.piece_start[n], tree.piece_stop[n])
        for triangle, corner in list(zip(tree.piece_triangle[some].tolist(), tree.piece_corner[some].tolist()))[:5]:
            for weights in corner:
                point = exact_point(weights, x[mesh.faces[triangle]].tolist())
                away = sum((a - Fraction(b)) ** 2 for a, b in zip(point, tree.centre[n].tolist()))
                assert away <= Fraction(tree.radius[n].item()) ** 2


def test_pieces_of_a_long_triangle_share_their_corners():
    """Cut a needle into pieces whose corners are corners of their neighbours, end to end."""
    mesh = TriMesh([[0, 0, 0], [100, 0, 0], [100, 0.1, 0]], [[0, 1, 2]])
    tree = build_spheres(mesh, builder="octree", branching=4, levels=3)
    corners, used = np.unique(tree.piece_corner.reshape(-1, 3), axis=0, return_counts=True)

    assert len(tree.piece_triangle) > 64
    assert (used > 1).sum() >= len(corners) - 3  # only corners of the triangle itself may be in one piece alone
    assert tree.radius[tree.leaves].max() < 2.0, "as large as the triangle"
    assert_pieces_tile(tree, mesh)


# Any input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("builder", BUILDERS)
def test_soups_and_open_surfaces(builder, caplog):
    """Build for what has no inside, with clusters, and say so."""
    for mesh in (soup(np.random.default_rng(3), 60), shapes.cloth_grid(6, 6)):
        caplog.clear()
        tree = build_spheres(mesh, builder=builder, branching=5, levels=3)

        assert tree.builder == "octree"
        assert ("the surface is open" in caplog.text) == (builder == "medial")
        assert_shape_of_tree(tree, 5, 3)
        assert_pieces_tile(tree, mesh)
        assert_covers(tree, mesh)


def test_a_closed_surface_without_an_inside(caplog):
    """Fall back for a sheet with two sides, which is closed and encloses nothing."""
    sheet = shapes.cloth_grid(3, 3)
    mesh = TriMesh(sheet.vertices, np.concatenate([sheet.faces, sheet.faces[:, ::-1]]))
    tree = build_spheres(mesh, levels=2)

    assert mesh.is_closed
    assert tree.builder == "octree"
    assert "encloses nothing" in caplog.text
    assert_covers(tree, mesh)


@pytest.mark.parametrize("builder", BUILDERS)
@pytest.mark.parametrize(
    "corners",
    [
        [[0.1, 0.2, 0.3]] * 3,
        [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.0, 0.0]],
        [[0.0, 0.0, 0.0], [1e-200, 0.0, 0.0], [1.0, 0.0, 0.0]],
        [[1e300, 0.0, 0.0], [0.0, 1e300, 0.0], [0.0, 0.0, -1e300]],
        [[1e-310, 0.0, 0.0], [0.0, 1e-310, 0.0], [0.0, 0.0, 1e-310]],
        [[1e300, 0.0, 0.0], [1e-30, 0.0, 0.0], [0.0, 2e-30, 0.0]],
        [[1e9, 1e9, 1e9], [1e9 + 1e-6, 1e9, 1e9], [1e9, 1e9 + 2e-6, 1e9]],
    ],
)
def test_a_single_triangle_of_any_size(builder, corners):
    """Cover one triangle, a point, a line, huge or tiny ones, exactly and with finite spheres."""
    mesh = TriMesh(corners, [[0, 1, 2]])
    for kind in KINDS:
        tree = build_spheres(mesh, builder=builder, kind=kind, branching=2, levels=2)

        assert np.isfinite(tree.centre).all()
        assert np.isfinite(tree.radius).all()
        assert_shape_of_tree(tree, 2, 2)
        assert_covers_exactly(tree, mesh)


@pytest.mark.small
@pytest.mark.parametrize("size", [2.0**-1000, 2.0**-500, 2.0**-130, 2.0**130, 2.0**500, 2.0**1000])
def test_closed_surfaces_of_any_size(size):
    """Cover closed surfaces in fractions, sunk leaves too, and fit them as tightly as at common sizes."""
    common = shapes.icosphere(1)
    mesh = TriMesh(common.vertices * size, common.faces)
    for kind in KINDS:
        tree, like = (build_spheres(body, builder="octree", kind=kind, levels=2) for body in (mesh, common))
        assert_covers_exactly(tree, mesh)
        np.testing.assert_allclose(tree.radius / size, like.radius, rtol=1e-9)


@pytest.mark.parametrize("builder", BUILDERS)
def test_bodies_far_away(builder):
    """Fit a body a million times as far from the origin as it is large as tightly as one at the origin.

    Squares of coordinates were all rounding: balls were up to half as large again, and of a medial axis of many samples
    nothing was found from a thousand on.
    """
    common = shapes.bumpy_sphere(2)
    mesh = TriMesh(common.vertices + 1e6, common.faces)
    tree, like = (build_spheres(body, builder=builder, branching=4, levels=2, samples=500) for body in (mesh, common))

    assert tree.builder == builder
    assert_covers_exactly(tree, mesh)
    for level in range(3):
        first, stop = tree.level_start[level : level + 2]
        assert tree.radius[first:stop].mean() < 1.1 * like.radius[slice(*like.level_start[level : level + 2])].mean()


@pytest.mark.small
@pytest.mark.tiny
def test_all_points_equal():
    """Give a mesh that is one point one sphere of radius zero."""
    mesh = TriMesh([[0.1, 0.2, 0.3]] * 6, [[0, 1, 2], [3, 4, 5], [0, 0, 0]])
    for kind in KINDS:
        tree = build_spheres(mesh, builder="octree", kind=kind)

        assert tree.radius.tolist() == [0.0] * len(tree)
        assert tree.triangles_under(0).tolist() == [0, 1, 2]


def test_dead_triangles_have_no_pieces():
    """Build around live triangles only, under their own ids."""
    for builder in BUILDERS:
        mesh = TriMesh(*_two_boxes())
        mesh.remove_triangles(np.arange(12))
        tree = build_spheres(mesh, builder=builder, levels=1)

        assert tree.builder == builder
        assert tree.triangles_under(0).tolist() == list(range(12, 24))
        assert tree.radius[0] < 1.0
        assert_covers(tree, mesh)


def _two_boxes():
    a, b = shapes.box(), shapes.box(center=(5.0, 0.0, 0.0))
    return np.concatenate([a.vertices, b.vertices]), np.concatenate([a.faces, b.faces + 8])


def test_no_levels_is_one_sphere():
    """Give the smallest sphere alone for zero levels below it."""
    for builder in BUILDERS:
        tree = build_spheres(shapes.box(2.0), builder=builder, levels=0)

        assert len(tree) == 1
        assert tree.leaves.tolist() == [0]
        np.testing.assert_allclose(tree.radius, np.sqrt(3.0), rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"builder": "magic"}, "builder is 'magic', expected one of 'medial', 'octree'"),
        ({"kind": "both"}, "kind is 'both', expected one of 'wrapped', 'layered'"),
        ({"branching": 1}, "branching is 1, expected a whole number from 2 to 64"),
        ({"levels": -1}, "levels is -1, expected a whole number from 0 to 30"),
        ({"levels": True}, "levels is True, expected a whole number"),
        ({"samples": 3}, "samples is 3, expected a whole number from 4"),
        ({"seed": 0.5}, "seed is 0.5, expected a whole number from 0"),
        ({"sink": 0.9}, "sink is 0.9, expected a number from 1, for the smallest leaves, to 100"),
        ({"sink": float("nan")}, "sink is nan, expected a number from 1"),
        ({"sink": "deep"}, "sink is 'deep', expected a number from 1"),
    ],
)
def test_bad_options_get_a_sentence(options, message):
    """Name the option, what it is and what it may be."""
    with pytest.raises(OptionError, match=message):
        build_spheres(shapes.box(), **options)


def test_an_empty_mesh_gets_a_sentence():
    """Refuse to put spheres around nothing."""
    with pytest.raises(MeshError, match="no live triangles, so there is nothing to put spheres around; add some first"):
        build_spheres(TriMesh(np.zeros((3, 3)), np.zeros((0, 3))))


# Quality ----------------------------------------------------------------------------------------------


def test_smallest_balls_are_the_smallest():
    """Find no smaller ball around the pieces of a cluster by trying points around its centre."""
    rng = np.random.default_rng(4)
    mesh = soup(rng, 200)
    tree = build_spheres(mesh, builder="octree", levels=2)
    points = corner_points(tree, mesh.vertices, mesh.faces)
    for n in range(0, len(tree), 5):
        below = points[tree.piece_start[n] : tree.piece_stop[n]].reshape(-1, 3)
        near = tree.centre[n] + rng.normal(size=(300, 3)) * tree.radius[n] * 10.0 ** rng.uniform(-4, 0, (300, 1))
        other = np.linalg.norm(below[None] - near[:, None], axis=2).max(axis=1)

        assert other.min() >= tree.radius[n] * (1.0 - 1e-9)


def test_wrapped_is_never_larger_than_layered():
    """Make balls around the surface no larger than balls around balls, and inner ones smaller."""
    mesh = shapes.bumpy_sphere(3)
    wrapped, layered = (build_spheres(mesh, builder="octree", kind=kind, levels=3) for kind in KINDS)

    np.testing.assert_array_equal(wrapped.piece_triangle, layered.piece_triangle)
    assert (wrapped.radius <= layered.radius * (1.0 + 1e-9)).all()
    assert wrapped.radius[0] < 0.95 * layered.radius[0]


def test_medial_spheres_stand_off_less_than_clusters():
    """Bound the overshoot of the medial tree below that of smallest clusters, at every level below the root."""
    mesh = shapes.bumpy_sphere(3)
    worst = {}
    for builder in BUILDERS:
        tree = build_spheres(mesh, builder=builder, levels=3, sink=1.0)
        bound = tree.radius - signed_depth(mesh, tree.centre)[0]
        worst[builder] = [bound[tree.cut(level)].mean() for level in range(1, 4)]

    assert (np.array(worst["medial"]) < 0.7 * np.array(worst["octree"])).all()


def test_sunk_leaves_lie_below_the_surface():
    """Put leaves below closed surfaces, inside out ones too: tighter, larger by half; inner spheres are as before."""
    mesh = shapes.bumpy_sphere(4)
    smallest = build_spheres(mesh, builder="octree", levels=3, sink=1.0)
    for faces in (mesh.faces, mesh.faces[:, ::-1]):
        tree = build_spheres(TriMesh(mesh.vertices, faces), builder="octree", levels=3)
        is_leaf = tree.child_count == 0
        depth = signed_depth(mesh, tree.centre)[0]
        above = signed_depth(mesh, smallest.centre)[0]
        np.testing.assert_allclose(tree.radius[~is_leaf], smallest.radius[~is_leaf], rtol=1e-12)
        assert (tree.radius <= 1.6 * smallest.radius).all()
        assert (depth[is_leaf] > 0.0).mean() > 0.99
        assert (depth - above)[is_leaf].min() > 0.0
        assert ((tree.radius - depth)[is_leaf]).mean() < 0.5 * (smallest.radius - above)[is_leaf].mean()
        assert_covers(tree, TriMesh(mesh.vertices, faces))


def test_surfaces_without_a_below_are_not_sunk():
    """Leave the smallest balls around soups, open surfaces and surfaces whose triangles disagree."""
    closed = shapes.icosphere(3)
    flipped = np.array(closed.faces)
    flipped[0] = flipped[0, ::-1]
    for mesh in (
        soup(np.random.default_rng(3), 200),
        TriMesh(closed.vertices, closed.faces[5:]),
        TriMesh(closed.vertices, flipped),
    ):
        trees = [build_spheres(mesh, builder="octree", levels=2, sink=sink) for sink in (1.0, 3.0)]
        np.testing.assert_array_equal(trees[0].centre, trees[1].centre)
        np.testing.assert_array_equal(trees[0].radius, trees[1].radius)


def test_medial_spheres_touch_four_points_and_hold_none():
    """Put the spheres through their forming points, with no other inside, and their centres in the solid."""
    mesh = shapes.bumpy_sphere(2)
    forming = surface_samples(mesh, 200, np.random.default_rng(1))
    spheres = medial_spheres(mesh, forming)
    away = np.linalg.norm(forming[None] - spheres.centre[:, None], axis=2)
    radius = np.take_along_axis(away, spheres.forming.astype(np.int64), axis=1)

    assert len(spheres.centre) > 200
    assert impinge.points_inside(mesh, spheres.centre).all()
    np.testing.assert_allclose(radius, radius[:, :1].repeat(4, axis=1), rtol=1e-6)
    assert (away.min(axis=1) >= radius[:, 0] * (1.0 - 1e-6)).all()
    assert impinge.closest_points(mesh, forming).distance.max() < 1e-12


@pytest.mark.small
@pytest.mark.tiny
@pytest.mark.parametrize("method", [merge, burst, expand])
def test_reductions_are_close_to_the_best_set(method):
    """Come near the least worst need of all subsets, and never name more spheres than allowed."""
    from itertools import combinations

    rng = np.random.default_rng(6)
    ratios = []
    for _ in range(40):
        centre, place = rng.random((10, 2)), rng.random((25, 2))
        need = np.linalg.norm(centre[:, None] - place[None], axis=2)
        chosen = np.zeros(3, dtype=np.int64)
        count = method(need, 3, chosen)
        best = min(need[list(some)].min(axis=0).max() for some in combinations(range(10), 3))

        assert 1 <= count <= 3
        assert len(set(chosen[:count].tolist())) == count or method is merge
        ratios.append(need[chosen[:count]].min(axis=0).max() / best)
    assert min(ratios) >= 1.0 - 1e-12
    assert max(ratios) <= 2.0 + 1e-6
    assert np.mean(ratios) < 1.35


@shared_data.needs_data
def test_covers_scans_and_cad():
    """Cover real surfaces, open and broken ones among them, with the quick builder."""
    for name in ("closed/bunny_75k.off", "cad/fandisk.off", "nasty/caps_and_needles.off", "nasty/degenerated-sd.off"):
        mesh = impinge.load(shared_data.FOLDER / name)
        tree = build_spheres(mesh, builder="octree")

        assert tree.level_count >= 3
        assert_covers(tree, mesh)
        assert set(tree.piece_triangle.tolist()) == set(np.flatnonzero(mesh.alive).tolist())


@shared_data.needs_data
@pytest.mark.slow
def test_covers_a_scan_with_medial_spheres():
    """Cover the bunny with four levels of medial spheres whose overshoot is below that of the smallest clusters."""
    mesh = impinge.load(shared_data.FOLDER / "closed/bunny_75k.off")
    medial, clusters = (build_spheres(mesh, builder=builder, sink=1.0) for builder in ("medial", "octree"))

    assert medial.builder == "medial"
    assert medial.level_count == 5
    assert_covers(medial, mesh)
    assert_shape_of_tree(medial, 8, 4)
    for level in range(1, 5):
        mean = [
            (tree.radius - signed_depth(mesh, tree.centre)[0])[tree.cut(level)].mean() for tree in (medial, clusters)
        ]
        assert mean[0] < 0.7 * mean[1]


# Repeats ----------------------------------------------------------------------------------------------


def test_same_tree_again_and_other_seeds():
    """Build the same bits for the same seed, another medial tree for another."""
    mesh = shapes.bumpy_sphere(2)
    for builder in BUILDERS:
        assert_same(build_spheres(mesh, builder=builder, levels=2), build_spheres(mesh, builder=builder, levels=2))
    one, other = (build_spheres(mesh, levels=2, seed=seed) for seed in (0, 1))

    assert one.centre.shape != other.centre.shape or not np.array_equal(one.centre, other.centre)


THREADS = """
import hashlib, numpy as np, impinge
for builder in ("octree", "medial"):
    for threads in (1, 2, 4):
        impinge.set_threads(threads)
        tree = impinge.build_spheres(impinge.shapes.bumpy_sphere(3), builder=builder, levels=3)
        parts = [np.ascontiguousarray(getattr(tree, name)).tobytes() for name in ("centre", "radius", "piece_corner")]
        print(builder, hashlib.sha256(b"".join(parts)).hexdigest())
"""


def test_same_bits_for_any_number_of_threads():
    """Build the same bits on one, two and four threads."""
    environment = {**os.environ, "NUMBA_NUM_THREADS": "4"}
    done = subprocess.run([sys.executable, "-c", THREADS], env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    lines = done.stdout.split("\n")[:-1]
    assert len(lines) == 6
    assert len(set(lines)) == 2


# Files ------------------------------------------------------------------------------------------------


def test_saved_trees_come_back(tmp_path):
    """Load what was saved, bit by bit, under any name, for the mesh deformed or not."""
    mesh = shapes.bumpy_sphere(1)
    tree = build_spheres(mesh, builder="octree", levels=2)
    path = tree.save(tmp_path / "tree.spheres")
    mesh.update(2.0 * mesh.vertices)

    assert path == tmp_path / "tree.spheres"
    assert_same(SphereHierarchy.load(path, mesh=mesh), tree)
    assert isinstance(SphereHierarchy.load(path).branching, int)


def test_trees_of_other_meshes_are_refused(tmp_path):
    """Refuse a tree for a mesh with other triangles, and after an edit."""
    mesh = shapes.icosphere(1)
    tree = build_spheres(mesh, builder="octree", levels=1)
    path = tree.save(tmp_path / "tree.npz")

    assert tree.for_mesh(mesh) is tree
    with pytest.raises(MeshError, match="belongs to another mesh than this one of 8 vertices and 12 live triangles"):
        SphereHierarchy.load(path, mesh=shapes.box())
    mesh.remove_triangles([0])
    with pytest.raises(MeshError, match=r"another mesh .* 79 live triangles .* build a tree for it with build_spheres"):
        tree.for_mesh(mesh)


def test_files_that_are_no_trees_are_refused(tmp_path):
    """Say what is wrong with a file that is missing, foreign, of another version or damaged."""
    path = tmp_path / "tree.npz"
    with pytest.raises(FileError, match=r"could not be read from .*; check the path"):
        SphereHierarchy.load(path)
    path.write_bytes(b"PK nonsense")
    with pytest.raises(FileError, match=r"is no sphere tree \(.*\); expected a file that SphereHierarchy.save wrote"):
        SphereHierarchy.load(path)
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(FileError, match="is no sphere tree"):
        SphereHierarchy.load(path)
    np.savez(path, centre=np.zeros(3))
    with pytest.raises(FileError, match="is no sphere tree: it lacks version, radius, first_child"):
        SphereHierarchy.load(path)
    with pytest.raises(FileError, match=r"could not be written to .*; choose another path"):
        build_spheres(shapes.box(), builder="octree", levels=1).save(tmp_path / "no" / "folder.npz")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("version", lambda value: value + 1),
        ("first_child", lambda value: value + 100),
        ("piece_stop", lambda value: value + 100),
        ("parent", lambda value: value[:-1]),
        ("radius", lambda value: value * np.nan),
        ("centre", lambda value: value.astype(np.float32)),
        ("level_start", lambda value: value[:0]),
        ("level_start", lambda value: value + np.int32(1)),
        ("radius", lambda value: value[0]),
        ("branching", lambda value: np.array(f"{value} or more")),
        ("kind", lambda value: np.array(f"{value} loosely")),
        ("builder", lambda value: np.array(f"{value} magic")),
        ("parent", lambda value: np.maximum(value, 0)),
        ("child_count", lambda value: value - np.int32(1)),
        ("piece_start", np.zeros_like),
        ("piece_triangle", lambda value: -value),
        ("piece_corner", lambda value: 0.5 * value),
    ],
)
def test_damaged_files_are_refused(tmp_path, name, change):
    """Refuse arrays that do not fit together, which queries would leave."""
    path = build_spheres(shapes.box(), builder="octree", levels=1).save(tmp_path / "tree.npz")
    with np.load(path) as file:
        found = {key: file[key] for key in file.files}
    np.savez(path, **{**found, name: change(found[name])})

    with pytest.raises(
        FileError, match="version 2, expected version 1" if name == "version" else "damaged sphere tree"
    ):
        SphereHierarchy.load(path)


def test_any_broken_bytes_are_refused(tmp_path):
    """Say that a file is no tree, or damaged, whatever bytes were changed or cut off; never anything else."""
    rng = np.random.default_rng(8)
    whole = np.frombuffer(build_spheres(shapes.icosphere(1), builder="octree").save(tmp_path / "a").read_bytes(), "u1")
    refused = 0
    for k in range(300):
        broken = whole[: rng.integers(len(whole))] if k % 5 == 0 else whole.copy()
        if k % 5:
            broken[rng.integers(len(whole), size=rng.integers(1, 5))] = rng.integers(256)
        (tmp_path / "b").write_bytes(broken.tobytes())
        try:
            SphereHierarchy.load(tmp_path / "b")
        except FileError:
            refused += 1
    assert refused > 200


@pytest.mark.parametrize(
    ("name", "change"), [("piece_triangle", lambda value: value + np.int32(5)), ("rest", lambda value: value[:-1])]
)
def test_files_that_name_what_the_mesh_has_not_are_refused(tmp_path, name, change):
    """Refuse a damaged tree of the right mesh before a query leaves its arrays."""
    mesh = shapes.box()
    path = build_spheres(mesh, builder="octree", levels=1).save(tmp_path / "tree.npz")
    with np.load(path) as file:
        found = {key: file[key] for key in file.files}
    np.savez(path, **{**found, name: change(found[name])})

    with pytest.raises(MeshError, match="its mesh has 12 and 8; it is damaged, build it again"):
        SphereHierarchy.load(path, mesh=mesh)


# Looking ----------------------------------------------------------------------------------------------


def test_cuts_stand_for_the_whole_surface():
    """Name nodes that hold every piece once, at every level and below the last."""
    corners = np.zeros((8, 3, 3)) + np.array([0, 0, 0, 0, 1, 2, 3, 9])[:, None, None]  # points, four in one place
    tree = build_spheres(TriMesh(corners.reshape(-1, 3), np.arange(24).reshape(-1, 3)), builder="octree", branching=2)
    assert len({tree.level_of(leaf) for leaf in tree.leaves}) > 1, "leaves on one level only"
    for level in range(7):
        held = [np.arange(tree.piece_start[n], tree.piece_stop[n]) for n in tree.cut(level)]
        assert sorted(np.concatenate(held).tolist()) == list(range(len(tree.piece_triangle)))
    assert set(tree.cut(6).tolist()) == set(tree.leaves.tolist())


def test_triangles_under_a_node():
    """Name the triangles of the pieces below, once and in order."""
    tree = build_spheres(shapes.box(), builder="octree", levels=2)
    for n in range(len(tree)):
        below = tree.piece_triangle[tree.piece_start[n] : tree.piece_stop[n]]
        assert tree.triangles_under(n).tolist() == sorted(set(below.tolist()))


def test_a_tree_is_told_in_a_line():
    """Say how many spheres there are, on how many levels, and what built them, instead of all arrays."""
    tree = build_spheres(shapes.icosphere(2), builder="octree", levels=2)
    assert str(tree) == "SphereHierarchy: 73 spheres, 3 levels, wrapped, by octree"


def test_progress_is_shown_on_a_terminal_only(monkeypatch, capsys):
    """Draw a progress bar on a terminal, and nothing elsewhere."""
    build_spheres(shapes.icosphere(1), levels=1)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.delenv("IMPINGE_QUIET", raising=False)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    build_spheres(shapes.icosphere(1), levels=1)

    assert "building spheres" in capsys.readouterr().err
