"""Wrong arguments of public functions: one clear error each, no foreign exception, no endless work."""

from __future__ import annotations

import numpy as np
import pytest

import impinge
from impinge import runs, shapes
from impinge.detect.breadth_first.detector import query_many
from impinge.detect.sphere_tree.sharing import share_budget
from impinge.errors import ImpingeError, MeshError, OptionError
from impinge.published import breadth_first, gjk_cut, interruptible, spatial_hash

A = shapes.icosphere(1)
B = shapes.icosphere(1, center=(1.0, 0.0, 0.0))


def soft_body(material: object = "jelly") -> impinge.SoftBody:
    """A cube of eight cells."""
    mesh = shapes.tet_box(2, 2, 2)
    return impinge.SoftBody(mesh.surface, mesh, material=material)


def simulation(dt: float) -> impinge.Simulation:
    """One soft cube with sub-steps, which may be too many."""
    world = impinge.World()
    world.add(soft_body())
    return impinge.Simulation(world, dt=dt, integrator="explicit")


class Refusing:
    """An object that cannot become an array."""

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: query_many([(A, B)]), r"pairs\[0\] is .*, expected \(a, b, transform_a, transform_b\)"),
        (lambda: query_many(None), r"pairs\[0\] is None"),
        (lambda: gjk_cut.cut_along_direction(A, B, "x"), "CutDir is 'x', expected three finite numbers"),
        (lambda: impinge.cut_along_direction(A, B, "x"), "direction is 'x', expected three finite numbers"),
        (lambda: impinge.cut_along_direction(A, B, [[1], [2, 3]]), "expected three finite numbers"),
        (lambda: impinge.BreadthFirst(A, B, entry_threshold="x"), "entry_threshold is 'x'"),
        (lambda: impinge.Sequence(None), "source is None, expected a path"),
        (lambda: impinge.contacts_from_pairs(None), "found is None, expected TrianglePairs"),
        (lambda: impinge.contacts_from_vertices(A), "found is .*, expected VertexContacts"),
        (lambda: impinge.contacts_from_spheres([]), r"found is \[\], expected SphereContacts"),
        (lambda: impinge.contacts_from_volume(None, A, B), "found is None, expected VolumeGradient"),
        (lambda: share_budget(None, 1.0), "trees is None, expected several SphereTree"),
        (lambda: runs.map_pairs([A, B], scheduler=3), "the scheduler is 3, expected an address"),
        (lambda: runs.map_pairs([A, B], workers=2**63), "workers is .*, expected a whole number from 0 to 1024"),
        (lambda: impinge.triangle_pairs(A, B, method=np.array(["a", "b"])), "method is array.*, expected 'auto' or"),
        (lambda: impinge.triangle_pairs(A, B, method=None), "method is None, expected 'auto' or"),
        (lambda: impinge.build_spheres(A).cut(-1), "level is -1"),
        (lambda: impinge.build_spheres(A).level_of("abc"), "node is 'abc'"),
        (lambda: impinge.build_spheres(A).triangles_under(10**9), "node is 1000000000"),
        (lambda: impinge.VolumeGradients(A, B).cells(np.nan), "edge is nan, expected a length above 0"),
        (lambda: impinge.volume_gradient(A, B).force_a(1j), "stiffness is 1j, expected a finite number"),
        (lambda: impinge.volume_gradient(A, B).force_b(np.inf), "stiffness is inf, expected a finite number"),
    ],
)
def test_wrong_argument(call, message):
    """Name the argument, what was found and what was expected."""
    with pytest.raises(OptionError, match=message):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda x: impinge.TriMesh(x, A.faces),
        A.update,
        lambda x: impinge.points_inside(A, x),
        lambda x: impinge.closest_points(A, x),
        lambda x: impinge.triangle_pairs(A, B, transform_a=x),
        lambda x: impinge.triangle_pairs(A, B, active_a=x),
        lambda x: shapes.box(1.0, center=x),
    ],
)
def test_masked_arrays_are_refused(call):
    """Refuse masked arrays, with and without masked entries: masked data never counts as data."""
    for mask in (False, True):
        with pytest.raises(MeshError, match="are a masked array; leave the masked entries out"):
            call(np.ma.masked_array(A.vertices, mask=mask))
        with pytest.raises(MeshError, match="are a masked array; leave the masked entries out"):
            call([np.ma.masked_array(row, mask=mask) for row in A.vertices])


def test_objects_that_refuse_to_be_arrays():
    """Refuse an object whose conversion raises."""
    with pytest.raises(MeshError, match=r"vertices cannot be read as an array \(RuntimeError\)"):
        impinge.TriMesh(Refusing(), A.faces)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_positions_that_are_not_finite(value):
    """Refuse positions that ``update(check=False)`` let in, where a search would not end; never crash elsewhere."""
    a, b = shapes.icosphere(3), shapes.icosphere(3, center=(1.0, 0.0, 0.0))
    detectors = [impinge.BoxTree(a, b), impinge.BreadthFirst(a, b)]
    x = a.vertices.copy()
    x[::2, 1] = value
    a.update(x, check=False)

    for find in (
        lambda: impinge.GjkCut(a, b).query(),
        lambda: impinge.BruteForce(a, b).query(),
        lambda: impinge.triangle_pairs(a, b, method="spatial_hash"),
        lambda: gjk_cut.recursive_check(a, b),
        lambda: impinge.SphereTree(a, b).query(),
    ):
        with pytest.raises(MeshError, match=r"vertices.*\[0\] is .* all coordinates must be finite"):
            find()
    for detector in detectors:
        detector.query()


@pytest.mark.parametrize(
    "call",
    [
        lambda: soft_body().step(1e30),
        lambda: soft_body().step(1e-3, max_substep=1e-320),
        lambda: soft_body(impinge.Material(1e30, 0.3, 1000.0)).step(0.01),
        lambda: simulation(1e30).step(),
        lambda: simulation(0.01).step(1e30),
    ],
)
def test_endless_work_is_refused(call):
    """Refuse a step of more than a million sub-steps."""
    with pytest.raises(OptionError, match=r"needs .* sub-steps of .* s, expected at most 200,000; step for a"):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: shapes.tet_box(10**6, 10**6, 10**6),
        lambda: shapes.uv_sphere(10**9, 10**9),
        lambda: shapes.box(1.0, cells=(10**5, 10**5, 1)),
        lambda: shapes.cloth_grid(2**63, 2**63),
        lambda: shapes.torus_knot(2, 3, rings=10**6, sides=10**6),
        lambda: shapes.tet_tube(10**3, 10**4, 10**4),
    ],
)
def test_endless_meshes_are_refused(call):
    """Refuse a regular mesh of more cells than fit into memory."""
    with pytest.raises(ImpingeError, match=r"cells is too large, expected at most 16,777,216"):
        call()


def _spheres() -> impinge.SphereContacts:
    return impinge.sphere_contacts(A, B, max_tests=1000)


@pytest.mark.parametrize(
    "call",
    [
        lambda: impinge.penalty(_spheres(), A.vertices * 1e300, B.vertices, stiffness=1.0),
        lambda: impinge.penalty(_spheres(), A.vertices, B.vertices * 1e300, stiffness=1.0, spread=3),
        lambda: impinge.RigidLinks(A.vertices * 1e300, np.arange(len(A.vertices)), B.vertices),
        lambda: impinge.RigidLinks(A.vertices, np.arange(len(A.vertices)), B.vertices * 1e300),
    ],
    ids=["penalty a", "penalty b", "coarse", "dense"],
)
def test_distances_that_overflow_are_refused(call):
    """Name the coordinate and the limit where squares of distances are infinite."""
    with pytest.raises(MeshError, match=r"have a coordinate of .*e\+300, but squares of distances overflow beyond 1e"):
        call()


@pytest.mark.parametrize("flag", ["no", "yes", 1, 0, None, 1.5, np.array([True, False]), np.ones(2)], ids=repr)
@pytest.mark.parametrize(
    "call",
    [
        lambda flag: shapes.box().update(shapes.box().vertices, check=flag),
        lambda flag: shapes.box().update(shapes.box().vertices, copy=flag),
        lambda flag: soft_body().coarse.update(soft_body().coarse.vertices, check=flag),
        lambda flag: impinge.closest_points(A, B.vertices, inside=flag),
        lambda flag: impinge.sphere_contacts(A, B, exact=flag),
        lambda flag: impinge.overlap_volume(A, B, vertices=flag),
        lambda flag: impinge.penetrating_vertices([A, B], edges=flag),
        lambda flag: impinge.check(A, B, volume=flag),
        lambda flag: impinge.World().add(A, fixed=flag),
        lambda flag: impinge.time_stages(on=flag),
        lambda flag: impinge.warmup(threads=flag),
        lambda flag: breadth_first.InterferenceDetector(A, B, fuse=flag),
        lambda flag: interruptible.System([], retest=flag),
    ],
    ids=[
        "check", "copy", "coarse", "inside", "exact", "vertices", "edges", "volume", "fixed", "on", "threads", "fuse",
        "retest",
    ],
)  # fmt: skip
def test_flags_are_true_or_false(call, flag):
    """Take True and False for a flag, of Python or NumPy, and nothing else."""
    with pytest.raises(OptionError, match="expected True or False"):
        call(flag)


def test_flags_of_numpy_are_flags():
    """Accept ``numpy.bool_``."""
    assert impinge.closest_points(A, B.vertices, inside=np.bool_(False)).inside is None
    assert impinge.closest_points(A, B.vertices, inside=np.bool_(True)).inside is not None


@pytest.mark.parametrize("word", [np.array(["exact", "skip"]), np.zeros(0), np.ones((2, 2)), True, b"exact"], ids=repr)
@pytest.mark.parametrize(
    "call",
    [
        lambda word: impinge.self_pairs(A, neighbours=word),
        lambda word: impinge.triangle_pairs(A, B, method=word),
        lambda word: impinge.SpatialHash([shapes.tet_box(1, 1, 1)], neighbours=word),
        lambda word: impinge.points_inside(A, B.vertices, rule=word),
        lambda word: impinge.points_inside(A, B.vertices, 8, device=word),
        lambda word: impinge.overlap_volume(A, B, rule=word),
        lambda word: impinge.World().contacts(method=word),
        lambda word: impinge.load("x.ply", weld=word if word is not True else None),
        lambda word: impinge.BreadthFirst(A, B, volume=word),
        lambda word: impinge.SphereTree(A, B, order=word),
        lambda word: gjk_cut.recursive_check(A, B, split=word),
        lambda word: spatial_hash.SpatialHashing([shapes.tet_box(1, 1, 1)], passes=word),
        lambda word: breadth_first.InterferenceDetector(A, B, expansion=word),
        lambda word: interruptible.System([], combine=word),
    ],
    ids=[
        "neighbours", "method", "hash", "rule", "device", "volume rule", "contacts", "weld", "volume", "order", "split",
        "passes", "expansion", "combine",
    ],
)  # fmt: skip
def test_words_are_words(call, word):
    """Refuse arrays and other objects where a word is expected, by an error that shows them."""
    with pytest.raises(OptionError, match="expected"):
        call(word)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: impinge.load("a\0b.ply"), "path is 'a"),
        (lambda: impinge.load("x" * 300 + ".ply"), "path has 304 characters, expected at most 4096, 255 for each"),
        (lambda: impinge.save(A, 7), "path is 7, expected the name of a mesh file"),
        (lambda: impinge.read_scene(None), "path is None, expected the path of a scene file"),
        (lambda: soft_body().save(1.5), "path is 1.5, expected the path of a file"),
        (lambda: runs.map_pairs([A, B], progress=3), "progress is 3, expected a function, or None"),
        (lambda: impinge.triangle_pairs(A, B).changes(None), "changes compares two TrianglePairs"),
        (lambda: impinge.contacts_from_pairs(impinge.triangle_pairs(A, B)).rows("x"), "which hold strings"),
        (lambda: impinge.contacts_from_pairs(impinge.triangle_pairs(A, B)).rows([10**6]), "which contains 1000000"),
        (lambda: impinge.contacts_from_pairs(impinge.triangle_pairs(A, B)).rows([0.5]), "which is .* row numbers"),
        (lambda: impinge.intersection_curves(A, B).polyline(99), "loop is 99"),
        (lambda: impinge.scenes.get([]), r"there is no scene \[\]"),
        (lambda: impinge.scenes.names(np.zeros(2)), "there is no tag array"),
        (lambda: impinge.Cloth.from_surface(shapes.cloth_grid(2, 2)), "a cloth has no tets"),
        (lambda: impinge.Cloth(shapes.cloth_grid(2, 2), stretching=5e-324), "stretching is .* beyond the range"),
        (lambda: impinge.Sphere((0.0, 0.0, 0.0), 1e300), "radius of a Sphere is 1e"),
        (lambda: shapes.torus_knot(10**400, 3, 20, 4), "p is 1000000.* expected a whole number from 1 to"),
    ],
)  # fmt: skip
def test_arguments_of_a_wrong_kind_are_named(call, message):
    """Name the argument, what was found and what is expected."""
    with pytest.raises(ImpingeError, match=message):
        call()


def test_rows_are_those_of_numpy():
    """Select rows by numbers from either end, masks and slices, as arrays do."""
    contacts = impinge.contacts_from_pairs(impinge.triangle_pairs(A, B))
    count = len(contacts)
    for which in ([2, 0, -1], np.arange(count) % 3 == 0, slice(1, None, 2), np.array([], dtype=int), [], [1, 1]):
        expected = contacts.id[np.array(which, dtype=int) if isinstance(which, list) else which]
        assert contacts.rows(which).id.tolist() == expected.tolist()
