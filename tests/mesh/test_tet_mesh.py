"""Tet meshes: the boundary faces outwards, follows the positions, and follows removed tets with stable ids."""

from collections import Counter

import numpy as np
import pytest

from impinge.errors import MeshError, MeshWarning, OptionError
from impinge.mesh import shapes
from impinge.mesh.tet_mesh import TetMesh, signed_volumes
from impinge.mesh.tri_mesh import TriMesh
from impinge.mesh.validation import validate

CORNER = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
POSITIVE, NEGATIVE = [0, 1, 2, 3], [0, 2, 1, 3]


def cycle(face) -> tuple[int, int, int]:
    """The face with its smallest vertex first: equal for equal vertices and orientation."""
    a, b, c = (int(v) for v in face)
    return min((a, b, c), (b, c, a), (c, a, b))


def boundary(x: np.ndarray, tets: np.ndarray) -> set[tuple[int, int, int]]:
    """Faces of exactly one tet, facing away from its fourth corner, by counting."""
    faces = []
    for tet in tets.tolist():
        for k in range(4):
            a, b, c = tet[:k] + tet[k + 1 :]
            inward = np.dot(np.cross(x[b] - x[a], x[c] - x[a]), x[tet[k]] - x[a]) > 0.0
            faces.append((a, c, b) if inward else (a, b, c))
    count = Counter(tuple(sorted(face)) for face in faces)
    return {cycle(face) for face in faces if count[tuple(sorted(face))] == 1}


def mixed_box(rng: np.random.Generator, cells: int = 3) -> TetMesh:
    """A box of tets, about half of them wound the other way."""
    box = shapes.tet_box(cells, cells, cells)
    tets = box.tets.copy()
    flip = rng.random(len(tets)) < 0.5
    tets[flip] = tets[flip][:, [1, 0, 2, 3]]
    return TetMesh(box.vertices, tets)


def live_faces(mesh: TriMesh) -> np.ndarray:
    """Vertex ids of the triangles that are alive."""
    return mesh.faces[mesh.alive]


# positions -----------------------------------------------------------------------------------------------


def test_construction_and_update_copy():
    """Keep the body as it is when the caller writes to the arrays later."""
    x, tets = CORNER.copy(), np.array([POSITIVE])
    mesh = TetMesh(x, tets)
    x[:], tets[:] = 9.0, 0
    np.testing.assert_array_equal(mesh.vertices, CORNER)
    np.testing.assert_array_equal(mesh.tets, [POSITIVE])

    y = CORNER + 1.0
    mesh.update(y)
    y[:] = 9.0
    np.testing.assert_array_equal(mesh.vertices, CORNER + 1.0)


def test_update_without_copy_keeps_the_array():
    """Use the very array with copy=False, for the surface too."""
    mesh, y = TetMesh(CORNER, [POSITIVE]), CORNER + 1.0
    mesh.update(y, copy=False)
    y[0] = 9.0

    assert mesh.vertices[0, 0] == mesh.surface.vertices[0, 0] == 9.0


@pytest.mark.parametrize("name", ["vertices", "tets"])
def test_views_are_read_only(name):
    """Refuse writes that would pass by the version."""
    view = getattr(TetMesh(CORNER, [POSITIVE]), name)

    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1


def test_volumes_bounds_and_closedness():
    """Measure tets by sign, the body by size, and the box around live tets only."""
    x = np.vstack([CORNER, CORNER + 5.0, [[99.0, 99.0, 99.0]]])
    mesh = TetMesh(x, [POSITIVE, [4, 6, 5, 7]])

    np.testing.assert_allclose(mesh.volumes, [1.0 / 6.0, -1.0 / 6.0], rtol=1e-12)
    np.testing.assert_allclose(mesh.volume, 1.0 / 3.0, rtol=1e-12)
    np.testing.assert_array_equal(mesh.bounds, [[0.0, 0.0, 0.0], [6.0, 6.0, 6.0]])
    assert mesh.is_closed
    mesh.remove_tets([1])
    np.testing.assert_array_equal(mesh.bounds, [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    np.testing.assert_allclose(mesh.volumes, [1.0 / 6.0], rtol=1e-12)
    mesh.update(mesh.vertices * 2.0)
    np.testing.assert_array_equal(mesh.bounds, [[0.0, 0.0, 0.0], [2.0, 2.0, 2.0]])


def test_signed_volumes_follow_the_formula():
    """Give one sixth of the determinant, positive for the right-handed corner."""
    np.testing.assert_allclose(signed_volumes(CORNER, np.array([POSITIVE, NEGATIVE])), [1 / 6, -1 / 6], rtol=1e-15)


def test_every_change_grows_the_version():
    """Grow the version with every change, and the topology's version with edits only."""
    mesh = shapes.tet_box(1, 1, 1)
    seen = [(mesh.version, mesh.topology_version)]
    for change in (lambda: mesh.update(mesh.vertices + 1.0), lambda: mesh.remove_tets([0]), mesh.compact):
        change()
        seen.append((mesh.version, mesh.topology_version))

    versions, topology_versions = np.array(seen).T
    assert (np.diff(versions) > 0).all()
    np.testing.assert_array_equal(np.diff(topology_versions) > 0, [False, True, True])


def test_flat_and_inverted_tets_are_valid_and_counted():
    """Accept flat and inverted tets, and count both in the report."""
    x = np.vstack([CORNER, [[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]]])
    mesh = TetMesh(x, [POSITIVE, [1, 2, 3, 4], NEGATIVE, [0, 1, 2, 5]])
    report = validate(mesh)

    assert (report.inverted_tets, report.flat_tets) == (1, 1)
    assert not report.clean


def test_an_empty_mesh_answers_everything():
    """Answer every question about a mesh without tets."""
    mesh = TetMesh([], [])

    assert (len(mesh), mesh.live_count, mesh.volume, mesh.is_closed, bool(mesh)) == (0, 0, 0.0, False, True)
    assert mesh.bounds[0, 0] > mesh.bounds[1, 0]
    assert mesh.tets.shape == (0, 4)
    assert mesh.surface.faces.shape == (0, 3)
    assert len(mesh.surface.face_tet) == len(mesh.alive) == len(mesh.compact()) == 0
    mesh.remove_tets([])
    mesh.update([])
    assert repr(mesh) == "<TetMesh: 0 vertices, 0 tets, version 3>"


def test_repr_counts_the_dead():
    """Show vertices, live and dead tets and the version."""
    mesh = shapes.tet_box(1, 1, 1)
    mesh.remove_tets([0, 1])

    assert repr(mesh) == f"<TetMesh: 8 vertices, {len(mesh.tets) - 2} tets (2 dead), version 1>"


def test_validate_modes():
    """Leave bad tets out by name, trust on demand, and refuse other modes."""
    x = np.vstack([CORNER, [[np.nan, 0.0, 0.0]]])
    with pytest.warns(MeshWarning, match=r"left out 2 of 3 tets \(rows 0, 2\)") as caught:
        mesh = TetMesh(x, [[0, 1, 2, 9], POSITIVE, [0, 1, 2, 4]], validate="drop")

    assert caught[0].filename == __file__
    np.testing.assert_array_equal(mesh.tets, [POSITIVE])
    assert TetMesh(x, [[0, 1, 2, 9]], validate="trust").tets[0, 3] == 9
    with pytest.raises(OptionError, match="validate is 'repair', expected one of 'raise', 'drop', 'trust'"):
        TetMesh(CORNER, [POSITIVE], validate="repair")


# the surface ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tet", [POSITIVE, NEGATIVE, [3, 2, 1, 0], [2, 0, 3, 1]])
def test_the_surface_looks_outwards_whatever_the_order_of_corners(tet):
    """Orient all four faces of a tet outwards, for positive and negative tets alike."""
    mesh = TetMesh(CORNER, [tet])

    assert {cycle(face) for face in mesh.surface.faces} == {(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)}
    np.testing.assert_allclose(mesh.surface.volume, 1.0 / 6.0, rtol=1e-12)
    np.testing.assert_array_equal(mesh.surface.face_tet, [0, 0, 0, 0])


def test_the_surface_of_mixed_tets_is_oriented(rng):
    """Close and orient the boundary of tets of either sign."""
    mesh = mixed_box(rng)

    assert 0.3 < (mesh.volumes < 0.0).mean() < 0.7
    assert mesh.surface.adjacency.is_oriented
    np.testing.assert_allclose(mesh.surface.volume, mesh.volume, rtol=1e-12)
    assert {cycle(face) for face in mesh.surface.faces} == boundary(mesh.vertices, mesh.tets)


def test_the_surface_shares_positions_and_version():
    """Move the surface with the tets, as one object with one version and one memory."""
    mesh = shapes.tet_box(2, 2, 2)
    surface = mesh.surface
    kept = surface.snapshot()
    mesh.update(mesh.vertices + 1.0)

    assert mesh.surface is surface
    assert surface.version == mesh.version == 1
    assert surface.topology_version == 0
    assert np.shares_memory(surface.vertices, mesh.vertices)
    np.testing.assert_array_equal(surface.bounds, mesh.bounds)
    np.testing.assert_array_equal(kept.vertices + 1.0, mesh.vertices)


@pytest.mark.parametrize(
    ("edit", "verb"),
    [
        (lambda s: s.update(s.vertices), "be updated by itself"),
        (lambda s: s.add_vertices([[0.0, 0.0, 0.0]]), "gain vertices"),
        (lambda s: s.add_triangles([[0, 1, 2]]), "gain triangles"),
        (lambda s: s.remove_triangles([0]), "lose triangles"),
        (lambda s: s.compact(), "be compacted"),
    ],
)
def test_the_surface_refuses_edits(edit, verb):
    """Refuse every change of a surface by itself with a sentence that points to the tet mesh."""
    mesh = shapes.tet_box(1, 1, 1)

    message = rf"boundary of a TetMesh and cannot {verb}; change the tet mesh \(update, remove_tets\) or make a TriMesh"
    with pytest.raises(MeshError, match=message):
        edit(mesh.surface)
    assert (mesh.version, len(mesh.surface)) == (0, 12)


def test_outside_is_decided_at_rest():
    """Keep the orientation of the tets at rest, also if the surface is made after a deformation.

    The surface is made at the first access. It used the signs of that moment: a tet inverted by a simulation flipped
    its faces, and the boundary was no longer oriented.
    """
    early, late = shapes.tet_box(2, 2, 2), shapes.tet_box(2, 2, 2)
    expected = early.surface.faces.copy()
    x = early.vertices.copy()
    x[0] = x.mean(axis=0) * 3.0 - x[0] * 2.0  # the corner is pushed through the body
    early.update(x)
    late.update(x)

    assert (late.volumes < 0.0).any()
    np.testing.assert_array_equal(early.surface.faces, expected)
    np.testing.assert_array_equal(late.surface.faces, expected)
    assert late.surface.adjacency.is_oriented


# edits ---------------------------------------------------------------------------------------------------


def test_removing_a_tet_exposes_what_is_behind_it():
    """Drop the faces of the removed tet, expose the one behind it, and keep all other ids."""
    x = np.vstack([CORNER, [[1.0, 1.0, 1.0]]])
    mesh = TetMesh(x, [POSITIVE, [1, 2, 3, 4]])
    surface = mesh.surface
    assert len(surface) == 6
    before = surface.faces.copy()
    mesh.remove_tets([0])

    assert len(surface) == 4
    np.testing.assert_array_equal(surface.faces[:6], before)
    np.testing.assert_array_equal(surface.alive, [False, False, False, True, True, True, True])
    np.testing.assert_array_equal(surface.face_tet[3:], [1, 1, 1, 1])
    assert {cycle(face) for face in live_faces(surface)} == boundary(x, mesh.tets[1:])
    np.testing.assert_allclose(surface.volume, mesh.volume, rtol=1e-12)


def test_neighbours_removed_together_expose_nothing_between_them():
    """Leave no face between two tets that go at once, and nothing when all go."""
    mesh = shapes.tet_box(2, 2, 2)
    surface = mesh.surface
    mesh.remove_tets(np.ones(len(mesh.tets), dtype=bool))

    assert len(mesh) == len(surface) == 0
    assert not mesh.is_closed
    assert len(surface.faces) == 48


def test_dead_tets_may_be_removed_again():
    """Pass over tets that are dead already."""
    mesh = shapes.tet_box(2, 2, 2)
    mesh.remove_tets([3, 4])
    faces = live_faces(mesh.surface)
    mesh.remove_tets([4, 3, 3])

    np.testing.assert_array_equal(live_faces(mesh.surface), faces)


def test_doubled_and_degenerate_tets_can_be_removed():
    """Remove tets that share all their faces with another, or two faces with themselves."""
    mesh = TetMesh(CORNER, [POSITIVE, POSITIVE, [0, 1, 2, 2]])
    surface = mesh.surface
    mesh.remove_tets([2])
    assert len(surface) == 0
    mesh.remove_tets([0])
    assert {cycle(face) for face in live_faces(surface)} == boundary(CORNER, np.array([POSITIVE]))
    mesh.remove_tets([1])
    assert len(surface) == 0


def test_a_surface_made_late_equals_one_that_followed(rng):
    """Give the same boundary whether it was there from the start or made after compaction of a copy."""
    mesh = mixed_box(rng)
    gone = rng.random(len(mesh.tets)) < 0.4
    mesh.remove_tets(gone)
    fresh = TetMesh(mesh.vertices, mesh.tets[~gone])

    assert {cycle(f) for f in live_faces(mesh.surface)} == {cycle(f) for f in live_faces(fresh.surface)}


@pytest.mark.parametrize("seed", range(6))
def test_random_removals_equal_a_boundary_made_from_scratch(seed):
    """Equal the boundary counted from scratch after every removal, compactions in between, with stable ids."""
    rng = np.random.default_rng(seed)
    mesh = mixed_box(rng)
    surface, x = mesh.surface, mesh.vertices.copy()
    model = mesh.tets.copy()  # the rows by id, as compaction renumbers them
    alive = np.ones(len(model), dtype=bool)
    steps, compactions = 0, 0
    while alive.any():
        steps += 1
        rows, was_alive = surface.faces.copy(), surface.alive
        ids = rng.choice(len(model), size=rng.integers(1, 8))
        mesh.remove_tets(ids)
        alive[ids] = False
        mesh.update(mesh.vertices + rng.normal(size=3))  # a rigid shift: the boundary stays
        if rng.random() < 0.1:
            compactions += 1
            new_id = mesh.compact()
            np.testing.assert_array_equal(new_id, np.where(alive, np.cumsum(alive) - 1, -1))
            model, alive = model[alive], np.ones(int(alive.sum()), dtype=bool)
        np.testing.assert_array_equal(mesh.tets, model)
        np.testing.assert_array_equal(mesh.alive, alive)

        assert mesh.surface is surface
        assert {cycle(face) for face in live_faces(surface)} == boundary(x, model[alive])
        assert len(surface) == len(boundary(x, model[alive]))
        np.testing.assert_array_equal(surface.faces[: len(rows)], rows)
        assert not (surface.alive[: len(rows)] & ~was_alive).any()
        behind = surface.face_tet[surface.alive]
        assert alive[behind].all()
        assert (live_faces(surface)[:, :, None] == model[behind][:, None, :]).any(axis=2).all()
        if alive.any():
            assert mesh.is_closed
            assert surface.adjacency.is_oriented
            np.testing.assert_allclose(surface.volume, mesh.volume, rtol=1e-9)

    assert steps > 30
    assert compactions > 1
    assert len(surface.faces) <= 4 * 162


def test_compact_keeps_the_surface_and_its_ids():
    """Renumber tets behind a surface that stays the same object with the same triangles.

    A new surface object left references to the old one with faces that no longer followed removals.
    """
    mesh = shapes.tet_box(2, 2, 2)
    surface = mesh.surface
    mesh.remove_tets([0, 5, 6])
    faces, alive = surface.faces.copy(), surface.alive
    behind = mesh.tets[surface.face_tet[alive]]
    new_id = mesh.compact()

    assert mesh.surface is surface
    np.testing.assert_array_equal(surface.faces, faces)
    np.testing.assert_array_equal(surface.alive, alive)
    np.testing.assert_array_equal(mesh.tets[surface.face_tet[alive]], behind)
    assert (surface.face_tet[~alive] < new_id.max() + 1).all()
    mesh.compact()
    mesh.remove_tets([0])
    assert {cycle(face) for face in live_faces(surface)} == boundary(mesh.vertices, mesh.tets[1:])


def test_snapshots_survive_removals():
    """Keep the tets and faces of earlier snapshots through removals and compaction."""
    mesh = shapes.tet_box(2, 2, 2)
    body, surface = mesh.snapshot(), mesh.surface.snapshot()
    expected = [(s.vertices.copy(), s.elements.copy(), s.live.copy()) for s in (body, surface)]
    for tet in range(10):
        mesh.remove_tets([tet])
        mesh.update(mesh.vertices * 1.5)
    mesh.compact()

    for snapshot, (x, elements, live) in zip((body, surface), expected):
        np.testing.assert_array_equal(snapshot.vertices, x)
        np.testing.assert_array_equal(snapshot.elements, elements)
        np.testing.assert_array_equal(snapshot.live, live)


def test_removing_one_at_a_time_copies_in_proportion():
    """Copy O(n) faces in all when tets are removed one by one: the surface's capacity grows by a constant factor."""
    mesh = shapes.tet_box(8, 8, 8)
    surface = mesh.surface
    copied, moves, buffer = 0, 0, surface.faces.base
    for tet in range(len(mesh.tets)):
        rows = len(surface.faces)
        mesh.remove_tets([tet])
        if surface.faces.base is not buffer:
            buffer, moves, copied = surface.faces.base, moves + 1, copied + rows

    assert len(surface) == 0
    assert copied < 3 * len(surface.faces)
    assert moves < 3 * np.log2(len(surface.faces))


def across(tets: np.ndarray, alive: np.ndarray) -> np.ndarray:
    """The live tet that shares the face opposite each corner, by search."""
    owners: dict[frozenset[int], list[int]] = {}
    faces = [[frozenset(tet) - {v} for v in tet] for tet in tets.tolist()]
    for t in np.flatnonzero(alive):
        for face in faces[t]:
            owners.setdefault(face, []).append(t)
    others = [[[u for u in owners.get(face, []) if u != t] for face in faces[t]] for t in range(len(tets))]
    return np.array([[found[0] if found and alive[t] else -1 for found in row] for t, row in enumerate(others)])


def test_neighbours_lie_opposite_the_corners(rng):
    """Name the tet across each face, none at the boundary, also after removals and renumbering."""
    mesh = mixed_box(rng)
    at_first = mesh.neighbours
    np.testing.assert_array_equal(at_first, across(mesh.tets, mesh.alive))
    mesh.remove_tets(rng.choice(len(mesh), size=40, replace=False))
    np.testing.assert_array_equal(mesh.neighbours, across(mesh.tets, mesh.alive))
    assert (mesh.neighbours[~mesh.alive] == -1).all()
    mesh.compact()
    np.testing.assert_array_equal(mesh.neighbours, across(mesh.tets, mesh.alive))

    assert (at_first.dtype, at_first.shape) == (np.int32, (135, 4))
    assert 0.1 < (at_first == -1).mean() < 0.5
    assert TetMesh([], []).neighbours.shape == (0, 4)
