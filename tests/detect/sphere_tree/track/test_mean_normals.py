"""Mean normals of the surfaces below spheres, and contact frames: normals and depths."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

import impinge
from impinge import shapes
from impinge.detect.sphere_tree.build.build import build_spheres
from impinge.detect.sphere_tree.detector import SphereTree
from impinge.detect.sphere_tree.track.contact_frames import contact_frames
from impinge.detect.sphere_tree.track.mean_normals import MOST_PIECES, MeanNormals, SurfaceOrientation

pytestmark = pytest.mark.small


def mean_normals_of(mesh, tree, matrix=None):
    return MeanNormals(SurfaceOrientation(tree, mesh.faces), mesh.vertices, mesh.faces, matrix)


def mean_normals(x, mesh, tree, nodes):
    """The definition, piece by piece."""
    found = []
    for node in nodes:
        rows = slice(tree.piece_start[node], tree.piece_stop[node])
        corner = tree.piece_corner[rows] @ x[mesh.faces[tree.piece_triangle[rows]]]
        area = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
        found.append(area.sum(axis=0) / np.linalg.norm(area, axis=1).sum())
    return np.array(found)


def test_means_by_area(rng):
    """Average unit normals of all pieces below leaves, by area; near the root of some of them, nearly as well."""
    mesh = shapes.bumpy_sphere(3, amplitude=0.3)
    tree = build_spheres(mesh, builder="octree", levels=3)
    mesh.update(mesh.vertices * [1.0, 1.4, 0.7] + 0.1 * rng.random(mesh.vertices.shape))
    nodes, size = np.arange(len(tree), dtype=np.int32), 3.0
    found, expected = mean_normals_of(mesh, tree).of(nodes, size), mean_normals(mesh.vertices, mesh, tree, nodes)
    few = tree.piece_stop - tree.piece_start <= MOST_PIECES
    assert few.sum() > 100
    assert (~few).sum() > 3
    np.testing.assert_allclose(found[few], expected[few], atol=1e-12)
    np.testing.assert_allclose(found, expected, atol=0.15)
    assert np.linalg.norm(found[0]) < 0.1
    assert (np.linalg.norm(found[tree.leaves], axis=1) > 0.3).all()


def test_outwards(rng):
    """Face away from the middle, also of a body inside out, and after transforms, also those that mirror."""
    ball = shapes.icosphere(2)
    for faces in (ball.faces, ball.faces[:, ::-1]):
        mesh = impinge.TriMesh(ball.vertices, faces)
        tree = build_spheres(mesh, builder="octree", levels=2)
        nodes = tree.leaves
        for linear in (np.eye(3), np.diag([1.0, 1.0, -1.0]), rng.standard_normal((3, 3))):
            matrix = np.eye(4)
            matrix[:3] = np.hstack([linear, rng.random((3, 1))])
            x = mesh.vertices @ linear.T
            outwards = [x[mesh.faces[tree.triangles_under(node)]].mean(axis=(0, 1)) for node in nodes]
            found = mean_normals_of(mesh, tree, matrix).of(nodes, 1.0)
            assert ((found * outwards).sum(axis=1) > 0.0).all()


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300])
def test_any_size(scale):
    """Find the same of tiny and huge bodies."""
    mesh = shapes.icosphere(2)
    other = impinge.TriMesh(scale * mesh.vertices, mesh.faces)
    tree = build_spheres(other, builder="octree", levels=2)
    found = mean_normals_of(other, tree).of(tree.leaves, scale)
    np.testing.assert_allclose(found, mean_normals(mesh.vertices, mesh, tree, tree.leaves), atol=1e-9)


def test_who_faces_nowhere():
    """Take the line of centres where one surface is open, or a soup, or flat."""
    ball, cloth = shapes.icosphere(2), shapes.cloth_grid(6, 6, size=2.0, center=(0.0, 0.0, 0.9))
    found = SphereTree(ball, cloth).query()
    assert len(found) > 10
    assert [side.sign for side in found.mean_normals] == [1.0, 0.0]
    centres = replace(found, normals="centres")
    np.testing.assert_array_equal(found.normal, centres.normal)
    np.testing.assert_array_equal(found.depth, centres.depth)
    flat = impinge.TriMesh(ball.vertices * [1.0, 1.0, 0.0], ball.faces)
    between = SphereTree(flat, ball).query()
    assert np.isfinite(between.normal).all()
    assert between.mean_normals[0].sign == 0.0


def test_lines_of_centres(rng):
    """Push along lines of centres, by how much two spheres overlap, where ``normals`` is "centres"."""
    a, b = shapes.icosphere(3), shapes.icosphere(3, center=(1.7, 0.1, 0.0))
    detector = SphereTree(a, b)
    for found in (detector.query(), detector.query(max_tests=60)):
        centres = replace(found, normals="centres")
        assert (found.normals, centres.normals) == ("facing", "centres")
        for name, prefix in (("certain", ""), ("possible", "possible_")):
            pairs = getattr(centres, name)
            np.testing.assert_array_equal(pairs, getattr(found, name))
            np.testing.assert_array_equal(getattr(centres, prefix + "point"), getattr(found, prefix + "point"))
            p, q = (centres.spheres[k].of(pairs[:, k]) for k in range(2))
            between = q[:, :3] - p[:, :3]
            distance = np.linalg.norm(between, axis=1)
            normal, depth = getattr(centres, prefix + "normal"), getattr(centres, prefix + "depth")
            np.testing.assert_allclose(normal * distance[:, None], between, atol=1e-12)
            np.testing.assert_allclose(depth, np.maximum(p[:, 3] + q[:, 3] - distance, 0.0), atol=1e-12)
        assert len(found.certain) + len(found.possible) > 20


def test_spheres_part_along_any_normal(rng):
    """Move b's sphere by the depth along the normal: the spheres then touch; those that are apart stay."""
    count = 4000
    a, b = (np.concatenate([rng.random((count, 3)), 0.5 * rng.random((count, 1))], axis=1) for _ in range(2))
    facing = tuple(0.5 * rng.uniform(-1.0, 1.0, (count, 3)) for _ in range(2))
    found = contact_frames(a, b, np.zeros(3), facing)
    reach = a[:, 3] + b[:, 3]
    meets = np.linalg.norm(b[:, :3] - a[:, :3], axis=1) < reach
    assert 500 < meets.sum() < count - 500
    moved = b[:, :3] + found.depth[:, None] * found.normal
    np.testing.assert_allclose(np.linalg.norm(moved - a[:, :3], axis=1)[meets], reach[meets], atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(found.normal, axis=1), 1.0)
    assert (found.depth[~meets] == 0.0).all()
    assert (found.depth <= 2.0 * reach + 1e-12).all()
    same = contact_frames(a, a, np.array([0.0, 2.0, 0.0]), (facing[0], facing[0]))  # no direction is preferred
    np.testing.assert_array_equal(same.normal, np.tile([0.0, 1.0, 0.0], (count, 1)))
    np.testing.assert_allclose(same.depth, 2.0 * a[:, 3])


def test_depths_approach_the_truth():
    """Find the penetration depth of two balls where leaves reach across, plus the overshoot of spheres."""
    errors, overlap = [], 0.1
    for subdivisions in (3, 4, 5):
        a, b = shapes.icosphere(subdivisions), shapes.icosphere(subdivisions, center=(2.0 - overlap, 0.0, 0.0))
        found = SphereTree(a, b).query()
        radius = max(float(side.of(found.certain[:, k])[:, 3].max()) for k, side in enumerate(found.spheres))
        assert found.normal[np.argmax(found.depth), 0] > 0.9
        errors.append(found.depth.max() - overlap)
        assert 0.0 < errors[-1] < 0.6 * radius
    assert errors[2] < errors[1] < errors[0]


def test_normals_are_those_of_the_query(rng):
    """Keep the positions that the query saw: bodies may have moved before the first access to normals, or be gone."""
    a, b = shapes.bumpy_sphere(3), shapes.bumpy_sphere(3, center=(1.6, 0.3, 0.1))
    detector = SphereTree(a, b)
    early, late = detector.query(), detector.query()
    normal, depth = early.normal.copy(), early.depth.copy()
    for _ in range(3):
        a.update(a.vertices @ np.diag([1.0, -1.0, 1.3]))
        b.update(rng.random(b.vertices.shape))
        detector.query()
    np.testing.assert_array_equal(late.normal, normal)
    np.testing.assert_array_equal(late.depth, depth)
    again = pickle.loads(pickle.dumps(detector.query()))
    assert np.isfinite(again.normal).all()
    kept = pickle.loads(pickle.dumps(late))
    np.testing.assert_array_equal(kept.normal, normal)


def test_one_body_faces_itself():
    """Push two halves of a folded body apart, and give no depth to neighbours."""
    low, high = shapes.box(1.0, cells=(4, 4, 4)), shapes.box(1.0, center=(0.0, 0.0, 0.7), cells=(4, 4, 4))
    both = impinge.TriMesh(
        np.concatenate([low.vertices, high.vertices]), np.concatenate([low.faces, high.faces + len(low.vertices)])
    )
    found = SphereTree(both).query()
    of = [np.array([both.faces[found.spheres[0].layout.tree.triangles_under(n)].min() for n in found.certain[:, k]])
          for k in range(2)]  # fmt: skip
    across = (of[0] < len(low.vertices)) != (of[1] < len(low.vertices))
    sign = np.where(of[0] < len(low.vertices), 1.0, -1.0)
    assert across.sum() > 20
    assert (sign * found.depth * found.normal[:, 2])[across].sum() > 0.0
