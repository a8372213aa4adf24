"""The registry of scenes: names, lazy bodies of one's own, counts, motions, and answers known by hand."""

from collections import Counter

import numpy as np
import pytest

import oracle
from impinge import scenes
from impinge.detect.box_tree.detector import BoxTree
from impinge.errors import OptionError
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh
from impinge.scenes.registry import Scene

MOVING = [name for name in scenes.names() if scenes.get(name).motion is not None]
TINY = [name for name in scenes.SMALL if len(scenes.get(name).surfaces[0]) <= 12]
RELATIONS = {"disjoint", "touching", "overlapping", "crossing", "a in b", "b in a"}
ANSWERS = {"pairs", "kinds", "relation", "overlap_volume", "penetrating_vertices"}


def test_listing_builds_nothing():
    """List and fetch a scene without a call of its builder, then call it once."""
    calls = []
    scene = Scene("probe", "A probe.", lambda: calls.append(1) or (TriMesh([], []),))

    assert (str(scene), calls) == ("probe", [])
    assert scene.bodies is scene.bodies
    assert calls == [1]


def test_names_by_tag():
    """List all names, those with a tag, and refuse a tag that no scene has."""
    assert set(scenes.SMALL) == set(scenes.names("small"))
    assert set(scenes.SMALL) < set(scenes.names())
    assert scenes.names("paper-003") == tuple(f"hashing_setup_{letter}" for letter in "abcde")
    with pytest.raises(OptionError, match="there is no tag 'smal'; did you mean small"):
        scenes.names("smal")


def test_unknown_names_get_a_suggestion():
    """Name the scenes that look alike, or all of them if none does."""
    with pytest.raises(OptionError, match="no scene 'nested_sphere'; did you mean nested_spheres"):
        scenes.get("nested_sphere")
    with pytest.raises(OptionError, match=r"no scene '###'; there are .*cad_parts"):
        scenes.get("###")


def test_each_call_gets_bodies_of_its_own():
    """Leave the bodies of one caller alone when another moves theirs."""
    first, second = scenes.get("bumpy_spheres_1k"), scenes.get("bumpy_spheres_1k")
    first.move(1.0)

    assert (first.bodies[0].vertices != second.bodies[0].vertices).any()
    np.testing.assert_array_equal(first.rest_positions[0], second.bodies[0].vertices)


@pytest.mark.parametrize("name", scenes.names())
def test_scenes_are_described_and_repeatable(name):
    """Give each scene a title, answers of known kinds only, and equal bodies each time."""
    scene = scenes.get(name)

    assert scene.name == name
    assert scene.title.endswith(".")
    assert scene.tags
    assert set(scene.expected) <= ANSWERS
    assert scene.expected.get("relation", "disjoint") in RELATIONS
    assert len(scene.bodies) >= 2
    for body, again in zip(scene.bodies, scenes.get(name).bodies):
        np.testing.assert_array_equal(body.vertices, again.vertices)
        np.testing.assert_array_equal(body.snapshot().elements, again.snapshot().elements)


@pytest.mark.parametrize("name", scenes.SMALL)
def test_small_scenes_are_small(name):
    """Keep small scenes to two bodies of which every pair of triangles can be tested."""
    surfaces = scenes.get(name).surfaces

    assert len(surfaces) == 2
    assert all(isinstance(surface, TriMesh) and len(surface) <= 1280 for surface in surfaces)


@pytest.mark.parametrize("name", MOVING)
def test_motion_moves_every_body_and_comes_back(name):
    """Change all bodies that move from one time to the next, and reach the same positions at the same time again."""
    scene = scenes.get(name)
    scene.move(0.5)
    at_first = [body.vertices.copy() for body in scene.bodies]
    scene.move(0.9)
    moved = [body.vertices.copy() for body in scene.bodies]
    moves = [x is not None for x in scene.positions(0.5)]
    scene.move(0.5)

    assert moves[0]
    for body, before, after, is_moving in zip(scene.bodies, at_first, moved, moves):
        assert (before != after).any() == is_moving
        np.testing.assert_array_equal(body.vertices, before)


def test_scenes_without_motion_stay():
    """Offer no new positions for a scene that stands still, and leave its bodies alone."""
    scene = scenes.get("cad_parts")
    version = scene.bodies[0].version
    scene.move(1.0)

    assert scene.positions(1.0) == (None, None)
    assert scene.bodies[0].version == version


@pytest.mark.parametrize(
    ("letter", "bodies", "tets", "vertices"),
    [
        ("a", 100, 1000, 1200),
        ("b", 8, 4000, 1936),
        ("c", 20, 10_000, 4840),
        ("d", 2, 20_520, 6264),
        ("e", 100, 50_000, 24_200),
    ],
)
def test_hashing_setups_have_their_counts(letter, bodies, tets, vertices):
    """Match the number of objects, tets and vertices, upright in rest and in motion."""
    scene = scenes.get(f"hashing_setup_{letter}")

    assert len(scene.bodies) == bodies
    assert sum(len(body) for body in scene.bodies) == tets
    assert sum(len(body.vertices) for body in scene.bodies) == vertices
    for t in (0.0, 1.0):
        scene.move(t)
        assert all(isinstance(body, TetMesh) and body.volumes.min() > 0.0 for body in scene.bodies)


@pytest.mark.parametrize(
    ("name", "face_counts"),
    [
        ("bumpy_spheres_1k", (1280, 1280)),
        ("bumpy_spheres_20k", (20_480, 20_480)),
        ("bumpy_spheres_82k", (81_920, 81_920)),
        ("knots_12k", (12_000, 12_000)),
        ("knots_12k_50k", (12_000, 50_000)),
        ("knots_50k_110k", (50_000, 110_000)),
        ("knots_110k_150k", (110_000, 150_000)),
        ("knots_12k_520k", (12_000, 520_000)),
        ("spheres_12k_50k", (12_000, 50_000)),
        ("spheres_50k_110k", (50_000, 110_000)),
        ("spheres_110k_150k", (110_000, 150_000)),
        ("particles_on_knot", (10_000, 12)),
        ("cloth_on_ball", (20_000, 20_480)),
    ],
)
def test_surface_scenes_have_their_counts(name, face_counts):
    """Match the number of triangles that the name promises."""
    assert tuple(len(surface) for surface in scenes.get(name).surfaces) == face_counts


@pytest.mark.parametrize("name", scenes.names())
def test_closed_bodies_enclose_volume(name):
    """Make every body but loose triangles, cloth and refined ones closed, looking outwards."""
    for surface in scenes.get(name).surfaces:
        if len(surface) > 1 and scenes.get(name).tags.isdisjoint({"cloth", "refined"}):
            assert surface.volume > 0.0


def test_refined_bodies_are_fine_where_they_meet():
    """Have coarse and dead triangles in the pool, and only fine ones in the pairs."""
    a, b = scenes.get("refined_spheres").bodies
    pairs = BoxTree(a, b).query().pairs

    assert len(pairs) > 50
    for body, met in zip((a, b), pairs.T):
        coarse = 20 * 4**3
        assert 0 < body.alive[:coarse].sum() < coarse
        assert met.min() >= coarse
        assert len(body) < len(body.faces)


@pytest.mark.parametrize("name", TINY)
def test_expected_pairs_and_kinds(name):
    """Confirm the pairs counted by hand, and their kinds, in exact arithmetic."""
    scene = scenes.get(name)
    a, b = (surface.vertices[surface.faces].tolist() for surface in scene.surfaces)
    kinds = Counter(oracle.triangle_kind(p, q) for p in a for q in b)
    del kinds["none"]

    assert dict(kinds) == scene.expected["kinds"]
    assert kinds.total() == scene.expected["pairs"]


@pytest.mark.parametrize("name", ["crossed_tets", "poked_tet"])
def test_expected_penetrating_vertices(name):
    """Confirm the vertices that are in the other tetrahedron."""
    scene = scenes.get(name)
    a, b = (body.vertices.tolist() for body in scene.bodies)
    inside = [oracle.point_in_tet(p, tet) >= 0 for points, tet in ((a, b), (b, a)) for p in points]

    assert sum(inside) == scene.expected["penetrating_vertices"]


def test_nested_and_disjoint_spheres():
    """Keep one sphere within the other's inscribed ball, and two spheres apart whose boxes overlap."""
    inner, outer = scenes.get("nested_spheres").surfaces
    corner = outer.vertices[outer.faces]
    normal = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    inscribed = np.einsum("ij,ij->i", corner[:, 0], normal) / np.linalg.norm(normal, axis=1)
    assert np.linalg.norm(inner.vertices, axis=1).max() < inscribed.min()

    a, b = scenes.get("disjoint_spheres").bodies
    middle = b.bounds.mean(axis=0)
    assert (a.bounds[1] > b.bounds[0]).all()
    assert (a.vertices @ middle).max() < (b.vertices @ middle).min()
