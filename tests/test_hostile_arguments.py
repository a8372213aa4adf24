"""Wrong arguments of public functions: one clear error each, no foreign exception, no endless work."""

from __future__ import annotations

import numpy as np
import pytest

import impinge
from impinge import runs, shapes
from impinge.detect.breadth_first.detector import query_many
from impinge.detect.sphere_tree.sharing import share_budget
from impinge.errors import ImpingeError, MeshError, OptionError
from impinge.published import gjk_cut

A = shapes.icosphere(1)
B = shapes.icosphere(1, center=(1.0, 0.0, 0.0))


def soft_body(material: object = "jelly") -> impinge.SoftBody:
    """A cube of eight cells."""
    mesh = shapes.tet_box(2, 2, 2)
    return impinge.SoftBody(mesh.surface, mesh, material=material)


def simulation(dt: float) -> impinge.Simulation:
    """One soft cube."""
    world = impinge.World()
    world.add(soft_body())
    return impinge.Simulation(world, dt=dt)


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
    with pytest.raises(OptionError, match=r"needs .* sub-steps of .* s, expected at most 1,000,000; step for a"):
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
