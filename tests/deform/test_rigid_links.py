"""Embeddings: rest, rigid and affine motion, triples on a line, ties, duplicates."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from impinge.deform.barycentric import Barycentric
from impinge.deform.rigid_links import FLAT_AT_REST, RigidLinks
from impinge.deform.rigid_links_kernels import FLAT_IN_MOTION, place_all_handles
from impinge.errors import MeshError, OptionError
from impinge.mesh import shapes

COARSE = shapes.tet_box(3, 3, 3, size=2.0)
SURFACE_IDS = np.unique(COARSE.surface.faces)
BY_FARTHEST = sorted(itertools.combinations(range(12), 3), key=lambda triple: triple[::-1])
DENSE = shapes.bumpy_sphere(3).vertices


def links(dense=DENSE):
    return RigidLinks(COARSE.vertices, SURFACE_IDS, dense)


def weights(dense=DENSE):
    return Barycentric(COARSE.vertices, COARSE.tets, dense)


@pytest.mark.small
@pytest.mark.parametrize("embedding", [links(), weights()], ids=["links", "weights"])
def test_rest_and_rigid_motion_are_reproduced(rng, embedding):
    """Reproduce the rest state and every rigid motion to 1e-12."""
    np.testing.assert_allclose(embedding.steer(COARSE.vertices), DENSE, rtol=0.0, atol=1e-14)
    for turn in Rotation.random(20, rng=rng).as_matrix():
        shift = 5.0 * rng.normal(size=3)
        moved = np.ascontiguousarray(COARSE.vertices @ turn.T + shift)

        np.testing.assert_allclose(embedding.steer(moved), DENSE @ turn.T + shift, rtol=0.0, atol=1e-12)


@pytest.mark.small
def test_steering_into_a_given_array(rng):
    """Write to the array that is passed, and return it."""
    out = np.zeros_like(DENSE)
    for embedding in (links(), weights()):
        moved = COARSE.vertices + 0.1 * rng.normal(size=COARSE.vertices.shape)

        assert embedding.steer(moved, out) is out
        np.testing.assert_array_equal(out, embedding.steer(moved))


@pytest.mark.small
def test_links_are_weighted_sums_of_handles(rng):
    """Reproduce links by weights of sum 1 of coarse vertices and handles, near to a mean of coarse vertices."""
    embedding = links()
    handles = embedding.handles(COARSE.vertices)
    np.testing.assert_allclose(handles.weight.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_array_equal(handles.column[:, :3], embedding.triples)
    placed = np.zeros_like(handles.rest)
    for amount in (0.0, 0.1, 1.0, 5.0):
        moved = COARSE.vertices + amount * rng.normal(size=COARSE.vertices.shape)
        place_all_handles(moved, handles.triple, handles.length, FLAT_IN_MOTION, placed)
        dense = embedding.steer(moved)
        sums = np.einsum("vj,vjk->vk", handles.weight, placed[handles.column])
        np.testing.assert_allclose(sums, dense, atol=1e-11)
        alpha = handles.weight[:, 1:3]
        near = np.concatenate([1.0 - alpha.sum(axis=1, keepdims=True), alpha], axis=1)
        mean = np.einsum("vj,vjk->vk", near, moved[embedding.triples])
        assert (near >= 0.0).all()
        np.testing.assert_allclose(np.linalg.norm(dense - mean, axis=1), handles.offset, atol=1e-11)
    assert handles.offset.max() > 0.1


@pytest.mark.small
def test_nothing_to_steer():
    """Steer no vertices at all; refuse results of another size."""
    for embedding in (links(np.zeros((0, 3))), weights(np.zeros((0, 3)))):
        assert embedding.steer(COARSE.vertices).shape == (0, 3)
        with pytest.raises(OptionError, match=r"out is changed in place; expected a writable, .* \(0, 3\)"):
            embedding.steer(COARSE.vertices, np.zeros((5, 3)))


@pytest.mark.small
def test_links_follow_the_corrected_equations(rng):
    """Agree with equations 1 to 10, written out for each vertex, in a deformed state."""
    embedding = links()
    moved = COARSE.vertices + 0.1 * rng.normal(size=COARSE.vertices.shape)
    steered = embedding.steer(moved)
    for n in rng.choice(len(DENSE), 50, replace=False):
        triple = embedding.triples[n]
        rest, now = COARSE.vertices[triple], moved[triple]
        d = np.linalg.norm(rest - DENSE[n], axis=1)
        alpha = (d.sum() - d) / (2.0 * d.sum())
        signed = _frame(rest) @ (DENSE[n] - alpha @ rest)

        np.testing.assert_allclose(steered[n], alpha @ now + signed @ _frame(now), rtol=0.0, atol=1e-13)


def _frame(q):
    n = np.cross(q[1] - q[0], q[2] - q[0])
    rows = [n, q[0] - q[1], np.cross(q[1] - q[0], n)]
    return np.array([row / np.linalg.norm(row) for row in rows])


@pytest.mark.small
def test_triples_are_the_nearest_that_are_not_on_a_line(rng):
    """Choose as an exhaustive search does, by distance, ties by index, skipping triples on a line."""
    points = np.concatenate([DENSE[:100], COARSE.vertices[SURFACE_IDS], 0.5 * rng.normal(size=(50, 3))])
    found, skipped, tied = links(points).triples, 0, 0
    x = COARSE.vertices
    for n, p in enumerate(points):
        distance = np.sqrt(((x[SURFACE_IDS] - p) ** 2).sum(axis=1))
        order = SURFACE_IDS[np.lexsort((SURFACE_IDS, distance))]
        tied += len(np.unique(np.sort(distance)[:4])) < 4
        for a, b, c in BY_FARTHEST:
            q = x[order[[a, b, c]]]
            sides = [q[1] - q[0], q[2] - q[0], q[2] - q[1]]
            if np.linalg.norm(np.cross(*sides[:2])) > FLAT_AT_REST * max(side @ side for side in sides):
                break
            skipped += 1
        np.testing.assert_array_equal(found[n], np.sort(order[[a, b, c]]))

    assert skipped > 5
    assert tied > 20


@pytest.mark.small
def test_duplicate_coarse_vertices_count_once():
    """Hang on the lowest id of vertices at one place, as if there were no other."""
    doubled = np.concatenate([COARSE.vertices, COARSE.vertices[SURFACE_IDS]])
    embedding = RigidLinks(doubled, np.append(SURFACE_IDS, np.arange(len(COARSE.vertices), len(doubled))), DENSE)

    np.testing.assert_array_equal(embedding.triples, links().triples)


@pytest.mark.small
def test_triples_that_become_straight_keep_their_frame(rng):
    """Transport the last frame of a collinear triple the shortest way, report it, and recover with the triple."""
    rest = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]])
    dense = np.array([[0.2, 0.3, 0.5], [0.1, 0.1, -0.2]])
    embedding = RigidLinks(rest, [0, 1, 2], dense)
    assert len(embedding.straightened) == 0

    straight = np.array([[0.0, 0, 0], [0, 1, 0], [0, 2, 0]])  # q0 - q1 turns from -x to -y: a quarter about z
    steered = embedding.steer(straight)
    np.testing.assert_array_equal(embedding.straightened, [0, 1])
    np.testing.assert_allclose(steered[:, 2], dense[:, 2], rtol=0.0, atol=1e-14)

    steered = embedding.steer(np.zeros((3, 3)))  # all at one place: the frame stays as it was
    np.testing.assert_array_equal(embedding.straightened, [0, 1])
    np.testing.assert_allclose(steered[:, 2], dense[:, 2], rtol=0.0, atol=1e-14)

    half_turn = np.array([[0.0, 0, 0], [0, -1, 0], [0, -2, 0]])
    assert np.isfinite(embedding.steer(half_turn)).all()
    np.testing.assert_allclose(np.abs(embedding.steer(half_turn)[:, 2]), np.abs(dense[:, 2]), rtol=0.0, atol=1e-14)

    np.testing.assert_allclose(embedding.steer(rest), dense, rtol=0.0, atol=1e-14)
    assert len(embedding.straightened) == 0


@pytest.mark.small
def test_transport_is_the_smallest_rotation(rng):
    """Keep the frame orthonormal and turn it by no more than the angle of its second vector."""
    rest = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]])
    embedding = RigidLinks(rest, [0, 1, 2], [[0.2, 0.3, 0.5]])
    for _ in range(50):
        embedding.steer(rest)
        before = embedding._frame[0].reshape(3, 3).copy()
        along = rng.normal(size=3)
        embedding.steer(np.outer([0.0, 1.0, 3.0], along))
        after = embedding._frame[0].reshape(3, 3)

        np.testing.assert_allclose(after @ after.T, np.eye(3), rtol=0.0, atol=1e-13)
        np.testing.assert_allclose(after[1], -along / np.linalg.norm(along), rtol=0.0, atol=1e-13)
        angle = np.arccos(np.clip(before[1] @ after[1], -1.0, 1.0))
        turned = Rotation.from_matrix(after.T @ before).magnitude()
        assert turned == pytest.approx(angle, abs=1e-6)


@pytest.mark.small
@pytest.mark.tiny
def test_coarse_meshes_that_cannot_carry_links():
    """Refuse too few vertices, vertices all on a line, and ids that do not exist."""
    with pytest.raises(MeshError, match="the coarse mesh has 2 surface vertices at different places, but a link needs"):
        RigidLinks([[0, 0, 0], [1, 0, 0], [1, 0, 0]], [0, 1, 2], [[0, 0, 0]])
    with pytest.raises(MeshError, match="are collinear, thus no link has a frame; use a solid mesh"):
        RigidLinks(np.outer(np.arange(20.0), [1, 2, 3]), np.arange(20), [[0, 0, 0]])
    with pytest.raises(OptionError, match="surface_vertex_ids contains id 7, but ids go from 0 to 2"):
        RigidLinks(np.eye(3), [7], [[0, 0, 0]])
    with pytest.raises(MeshError, match="coarse have 5 rows, but the body has 3 vertices"):
        RigidLinks(np.eye(3), [0, 1, 2], [[0, 0, 0]]).steer(np.zeros((5, 3)))


@pytest.mark.small
def test_weights_have_linear_precision(rng):
    """Reproduce affine maps, inside of the coarse mesh and outside."""
    points = 1.5 * rng.normal(size=(300, 3))
    embedding = weights(points)
    affine = rng.normal(size=(3, 3))

    assert 0.2 < (embedding.distances > 0.0).mean() < 0.9
    np.testing.assert_allclose(embedding.weights.sum(axis=1), 1.0, rtol=0.0, atol=1e-13)
    np.testing.assert_allclose(
        embedding.steer(np.ascontiguousarray(COARSE.vertices @ affine)), points @ affine, rtol=0.0, atol=1e-12
    )


@pytest.mark.small
def test_weights_belong_to_the_nearest_tet(rng):
    """Choose the containing tet of the lowest id, else one at the least distance, as an exhaustive search does."""
    points = np.concatenate([1.2 * rng.normal(size=(100, 3)), COARSE.vertices])
    embedding = weights(points)
    corners = COARSE.vertices[COARSE.tets]
    inverse = np.linalg.inv((corners[:, 1:] - corners[:, :1]).transpose(0, 2, 1))
    shares = np.einsum("tij,ntj->nti", inverse, points[:, None] - corners[None, :, 0])
    least = np.minimum(shares.min(axis=2), 1.0 - shares.sum(axis=2))
    outside = np.maximum(np.abs(points) - 1.0, 0.0)  # the coarse mesh is a cube

    np.testing.assert_allclose(embedding.distances, np.linalg.norm(outside, axis=1), rtol=0.0, atol=1e-12)
    inner = least.max(axis=1) > 1e-9
    assert inner.sum() > 20
    np.testing.assert_array_equal(embedding.tets_of[inner], np.argmax(least[inner] > 0.0, axis=1))
    assert embedding.weights[inner].min() >= 0.0


@pytest.mark.small
@pytest.mark.tiny
def test_tets_that_nothing_can_follow():
    """Refuse flat tets and none at all."""
    corners = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]
    with pytest.raises(MeshError, match=r"tets\[0\] is flat at rest and has no barycentric coordinates; remove it"):
        Barycentric(corners, [[0, 1, 2, 3]], [[0, 0, 0]])
    with pytest.raises(MeshError, match="there are no tets; an embedding needs at least one"):
        Barycentric(corners, np.zeros((0, 4), int), [[0, 0, 0]])
