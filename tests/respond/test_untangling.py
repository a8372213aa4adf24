"""Bodies that begin in each other, moved apart."""

from __future__ import annotations

import numpy as np
import pytest

import impinge
from impinge import Cloth, MeshError, OptionError, RigidBody, SoftBody, TriMesh, shapes, untangle
from shared_data import FOLDER, needs_data


def folded() -> TriMesh:
    """A sheet folded in two whose upper half dips through the lower one."""
    sheet = shapes.cloth_grid(30, 30, size=1.0)
    x = sheet.vertices.copy()
    u = 0.5 - np.abs(x[:, 0])
    upper = 0.06 - 0.12 * np.exp(-((u - 0.25) ** 2 + x[:, 1] ** 2) / 0.01)
    z = np.where(x[:, 0] > 0.0, upper, 0.0) + np.where(np.abs(x[:, 0]) < 0.02, 0.03, 0.0)
    return TriMesh(np.stack([u, x[:, 1], z], axis=1), sheet.faces)


def crossed_edges() -> list[impinge.TetMesh]:
    """Two cubes on edge, one above the other and turned: edges cross, no vertex is inside."""
    c = np.sqrt(0.5)
    a, b = (shapes.tet_box(4, 4, 4, size=(1.0, 1.0, 1.0)) for _ in range(2))
    a.update(a.vertices @ np.array([[c, 0, c], [0, 1, 0], [-c, 0, c]]))
    b.update(b.vertices @ np.array([[1, 0, 0], [0, c, -c], [0, c, c]]) + (0.03, 0.02, 2.0 * c - 0.08))
    return [a, b]


def spiked() -> list[TriMesh]:
    """A sheet of large triangles with the corner of a box through it."""
    box = shapes.box(0.4)
    axes = np.linalg.qr(np.array([[1.0, 1.0, 1.0], [1.0, -1.0, 0.0], [0.0, 1.0, -1.0]]).T)[0]
    x = box.vertices @ axes[:, [1, 2, 0]]
    box.update(x - (0.0, 0.0, x[:, 2].max()) + (0.003, 0.002, 0.05))
    return [box, shapes.cloth_grid(10, 10, size=2.0)]


SCENES = {
    "balls": (lambda: [shapes.icosphere(3), shapes.icosphere(3, center=(1.2, 0.013, 0.021))], 0.15),
    "balls, deep": (lambda: [shapes.icosphere(3), shapes.icosphere(3, center=(0.3, 0.013, 0.021))], 0.6),
    "coincident cubes": (lambda: [shapes.box(1.0), shapes.box(1.0)], 0.51),
    "coincident tets": (lambda: [shapes.tet_box(3, 3, 3), shapes.tet_box(3, 3, 3)], 1.6),
    "box in a box": (lambda: [shapes.box(1.0), shapes.box(0.3)], 0.4),
    "touching": (lambda: [shapes.box(1.0), shapes.box(1.0, center=(1.0, 0.0, 0.0))], 0.01),
    "cloth on a ball": (lambda: [shapes.icosphere(3, radius=0.3), shapes.cloth_grid(30, 30, size=2.0)], 0.06),
    "folded cloth": (lambda: [folded()], 0.02),
    "crossed edges": (crossed_edges, 0.02),
    "corner": (spiked, 0.05),
    "rigid": (lambda: [RigidBody(shapes.icosphere(2)), RigidBody(shapes.icosphere(2, center=(1.2, 0.1, 0.0)))], 0.42),
}


def met(surfaces: list[TriMesh]) -> int:
    """Pairs of triangles that meet, and nested bodies, found by another method than the one that is tested."""
    count = 0
    for k, a in enumerate(surfaces):
        count += len(impinge.self_pairs(a, method="spatial_hash"))
        count += sum(impinge.collides(a, b) for b in surfaces[:k])
    return count


def surfaces_at(bodies: list[object], positions: list[np.ndarray]) -> list[TriMesh]:
    """Surfaces of bodies at positions."""
    made = []
    for body, x in zip(bodies, positions):
        if isinstance(body, SoftBody):
            made.append(TriMesh(body.steered_by(x).copy(), body.surface.faces))
        else:
            made.append(TriMesh(x, (body.surface if isinstance(body, impinge.TetMesh) else body).faces))
    return made


@pytest.mark.parametrize("name", SCENES)
def test_scenes_become_free(name):
    """Part each scene by at most the displacement that was measured, and leave the bodies as they are."""
    make, most = SCENES[name]
    bodies = make()
    before = [(b.coarse if isinstance(b, SoftBody) else b).vertices.copy() for b in bodies]
    assert met(surfaces_at(bodies, before)) > 0

    found = untangle(bodies)

    assert found.complete
    assert found.reason is None
    assert not found.remaining
    assert met(surfaces_at(bodies, found.positions)) == 0
    assert found.rms.max() <= most
    for body, x in zip(bodies, before):
        assert np.array_equal((body.coarse if isinstance(body, SoftBody) else body).vertices, x)


@pytest.mark.parametrize("name", ["balls", "coincident cubes", "folded cloth"])
def test_results_are_repeatable(name):
    """Give the same bits twice, and with one thread."""
    make, _ = SCENES[name]
    first, threads = untangle(make()), impinge.thread_count()
    try:
        impinge.set_threads(1)
        second = untangle(make())
    finally:
        impinge.set_threads(threads)

    assert all(np.array_equal(a, b) for a, b in zip(first.positions, second.positions))


def test_soft_bodies_and_cloth():
    """Part a soft cube and a cloth, and set their positions."""
    cube = SoftBody(shapes.box(0.4), shapes.tet_box(3, 3, 3, size=(0.4, 0.4, 0.4)))
    cloth = Cloth(shapes.cloth_grid(20, 20, size=1.0, center=(0.013, 0.007, 0.15)), fixed=[0])
    corner = cloth.surface.vertices[0].copy()
    found = untangle([cube, cloth], apply=True)

    assert found.complete
    assert met([cube.surface, cloth.surface]) == 0
    assert np.array_equal(cube.coarse.vertices, found.positions[0])
    assert np.array_equal(cloth.surface.vertices[0], corner)
    assert "free" in repr(found)


def test_fixed_bodies_stay():
    """Move only the other body; two fixed ones cannot be parted, and the result says so."""
    bodies = [shapes.icosphere(2), shapes.icosphere(2, center=(1.2, 0.0, 0.0))]
    found, stuck = untangle(bodies, fixed=[0]), untangle(bodies, fixed=[0, 1])

    assert found.complete
    assert np.array_equal(found.positions[0], bodies[0].vertices)
    assert found.largest[0] == 0.0 < found.largest[1]
    assert not stuck.complete
    assert stuck.remaining[0, 1] == len(impinge.triangle_pairs(*bodies))
    assert stuck.reason == "bodies 0 and 1 are fixed"
    assert "not free" in repr(stuck)
    assert "0 and 1" in repr(stuck)


def test_heavier_bodies_move_less():
    """Share displacements by weight."""
    bodies = [shapes.icosphere(2), shapes.icosphere(2, center=(1.2, 0.0, 0.0))]
    found = untangle(bodies, weights=[4.0, 1.0])

    assert found.complete
    assert found.rms[0] < 0.5 * found.rms[1]


def test_free_bodies_do_not_move():
    """Return the positions of bodies that do not meet."""
    bodies = [shapes.icosphere(2), shapes.icosphere(2, center=(3.0, 0.0, 0.0))]
    found = untangle(bodies)

    assert found.complete
    assert found.iterations == 0
    assert all(np.array_equal(x, body.vertices) for x, body in zip(found.positions, bodies))


def test_no_rounds_report_what_meets():
    """Count the pairs of a body with itself."""
    sheet = folded()
    found = untangle(sheet, max_iterations=0)

    assert found.remaining == {(0, 0): len(impinge.self_pairs(sheet))}
    assert np.array_equal(found.positions[0], sheet.vertices)
    assert "0 iterations" in (found.reason or "")


@needs_data
@pytest.mark.parametrize("name", ["spheres_intersecting.off", "self_intersectA.obj"])
def test_real_meshes(name):
    """Free pieces that cross; where that fails, have fewer pairs and say how many."""
    mesh = impinge.load(FOLDER / "nasty" / name)
    before = len(impinge.self_pairs(mesh))
    found = untangle(mesh, max_iterations=20)
    after = len(impinge.self_pairs((found.positions[0], mesh.faces)))

    assert np.isfinite(found.positions[0]).all()
    assert found.complete == (after == 0)
    assert after == sum(found.remaining.values()) < before
    assert (name == "spheres_intersecting.off") == found.complete


@needs_data
def test_two_cows():
    """Part two cows that stand in each other, whose legs cross their bodies."""
    with np.load(FOLDER / "seq" / "elastic_cow_120.npz") as data:
        x, faces = data["V"][0].astype(float), data["F"]
    found = untangle([(x, faces), (x + 0.25 * np.ptp(x, axis=0) * (0.5, 1.0, 0.3), faces)])

    assert found.complete
    assert met([TriMesh(y, faces) for y in found.positions]) == 0
    assert found.rms.max() < 0.2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_iterations": -1}, "max_iterations is -1"),
        ({"distance": 0.0}, "distance is 0"),
        ({"weights": [1.0]}, r"weights has shape \(1,\), expected one number for each of the 2 bodies"),
        ({"weights": [1.0, 0.0]}, r"weights\[1\] is 0"),
        ({"fixed": [2]}, "fixed"),
        ({"apply": 3}, "apply is 3"),
    ],
)
def test_invalid_options_are_refused(options, message):
    """Name the option, its value and what is expected."""
    with pytest.raises((OptionError, MeshError), match=message):
        untangle([shapes.box(1.0), shapes.box(1.0)], **options)


def test_invalid_bodies_are_refused():
    """Refuse an empty list and a body that is listed twice."""
    box = shapes.box(1.0)
    with pytest.raises(MeshError, match="bodies is empty, expected at least one body"):
        untangle([])
    with pytest.raises(OptionError, match=r"bodies\[1\] is listed twice"):
        untangle([box, box])


@pytest.mark.parametrize("factor", [1e200, 1e-200])
def test_sizes_out_of_range_are_refused(factor):
    """Refuse bodies whose volumes doubles cannot hold."""
    box = shapes.box(1.0)
    with pytest.raises(MeshError, match=r"bodies\[0\] has the size 1e.*; scale all bodies"):
        untangle([TriMesh(factor * box.vertices, box.faces), TriMesh(factor * box.vertices, box.faces)])


def test_degenerate_bodies():
    """Accept bodies without triangles, far from the origin, and with every triangle twice."""
    box = shapes.box(1.0)
    empty = TriMesh(box.vertices[:0], box.faces[:0])
    far = [TriMesh(box.vertices + 1e9, box.faces) for _ in range(2)]
    double = untangle((box.vertices, np.concatenate([box.faces, box.faces])))

    assert untangle([empty, box]).complete
    assert untangle(far).complete
    assert not double.complete
    assert np.isfinite(double.positions[0]).all()
