"""Every surface gives a coarse body or an error message; failures of NetGen stay in its own process."""

from __future__ import annotations

import io
import math
import sys

import numpy as np
import pytest

import impinge
from impinge import MeshError, MissingExtra, OptionError, TetMesh, TriMesh, shapes
from impinge.mesh import cubes, prepare
from impinge.mesh.prepare import coarse_tets, simplify, tetrahedralise, tets_of_cubes
from impinge.mesh.thicken import least_height, thicken
from shared_data import FOLDER, Row, needs_data, rows

QUICK = {
    "closed/bunny_75k.off": "netgen",
    "open/stanford-bunny.obj": "cubes",
    "open/carotids.stl": "cubes",
    "nasty/all_degen.off": "cubes",
    "nasty/moebius.obj": "cubes",
    "nasty/nested_cubes.off": "netgen",
    "nasty/made_nan_inf.obj": None,
    "soup/soup_100.stl": "cubes",
}
"""Files that are prepared in every run, and the method of the result: None is an error."""

FOLDERS = ("closed", "open", "nasty", "soup", "cad")


def assert_is_a_body(mesh: TetMesh) -> None:
    """Positive volumes, every vertex used, a closed boundary."""
    assert len(mesh) > 0
    assert (mesh.volumes > 0.0).all()
    assert len(np.unique(mesh.tets)) == len(mesh.vertices)
    assert mesh.surface.is_closed


def encloses(mesh: TetMesh, points: np.ndarray) -> bool:
    return bool(impinge.points_inside(mesh, points).all())


# cubes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cells", [1, 2, 3, 5, 9, 16])
def test_cubes_enclose_a_sphere(cells):
    """Enclose every vertex, and fill the inside, for any size of cubes."""
    sphere = shapes.icosphere(3, center=(0.3, -0.2, 0.1))
    mesh = tets_of_cubes(sphere, cells=cells)

    assert_is_a_body(mesh)
    assert encloses(mesh, sphere.vertices)
    assert mesh.volume >= sphere.volume
    extent = np.ptp(mesh.vertices, axis=0).max()
    np.testing.assert_allclose(extent, cells * 2.0 / (cells - 0.5), rtol=0.02)
    assert len(mesh) % 5 == 0


def test_cubes_shrink_onto_the_solid():
    """Bring the volume near that of the solid as cubes get smaller."""
    sphere = shapes.icosphere(4)
    excess = [tets_of_cubes(sphere, cells=cells).volume / sphere.volume - 1.0 for cells in (8, 16, 32)]

    assert excess[0] > 1.6 * excess[1] > 1.6**2 * excess[2] > 0.0


def test_exactly_the_cubes_that_are_touched_or_inside_are_taken():
    """Take the cubes in which points of the surface lie, and all whose middle is inside, and few others."""
    body = shapes.torus_knot(2, 3, 90, 10)
    cells = 12
    solid = cubes._solid(body, cells)
    origin, edge, grid = cubes._lattice(body, cells)
    corners = body.vertices[body.faces]
    weights = np.random.default_rng(0).dirichlet((1.0, 1.0, 1.0), size=400)
    samples = np.einsum("wk,tkx->twx", weights, corners).reshape(-1, 3)
    sampled = np.zeros(grid, dtype=bool)
    sampled[tuple(np.floor((samples - origin) / edge).astype(int).T)] = True
    middles = origin + edge * (np.argwhere(np.ones(grid)) + 0.5)
    inside = impinge.points_inside(body, middles).reshape(grid)

    assert 0 < sampled.sum() < sampled.size / 2
    assert inside.any()
    assert solid[sampled | inside].all()
    assert (solid & ~(sampled | inside)).sum() < 0.05 * solid.sum()  # those of which the samples missed a corner


def test_a_bubble_stays_empty_and_a_nested_solid_is_filled():
    """Leave out what winds to zero: a hollow ball is hollow, a ball within a ball is not."""
    outer, inner = shapes.icosphere(3), shapes.icosphere(3, radius=0.6)
    x, shift = np.concatenate([outer.vertices, inner.vertices]), len(outer.vertices)
    hollow = TriMesh(x, np.concatenate([outer.faces, inner.faces[:, ::-1] + shift]))
    full = TriMesh(x, np.concatenate([outer.faces, inner.faces + shift]))
    middle = np.zeros((1, 3))

    assert not encloses(tets_of_cubes(hollow, cells=16), middle)
    assert encloses(tets_of_cubes(full, cells=16), middle)
    assert encloses(tets_of_cubes(TriMesh(x[:shift], outer.faces[:, ::-1]), cells=16), middle)


def test_a_small_hole_is_closed_and_a_large_one_makes_a_shell():
    """Fill a sphere with one triangle missing; take the shell of a sphere that is cut in half."""
    sphere = shapes.icosphere(4)
    pricked = TriMesh(sphere.vertices, sphere.faces[1:])
    half = TriMesh(sphere.vertices, sphere.faces[sphere.vertices[sphere.faces][:, :, 2].min(axis=1) > 0.0])
    middle = np.array([[0.0, 0.0, 0.3]])

    assert encloses(tets_of_cubes(pricked, cells=8), middle)
    assert not encloses(tets_of_cubes(half, cells=16), middle)
    assert_is_a_body(tets_of_cubes(half, cells=16))


@pytest.mark.parametrize("seed", range(20))
def test_cubes_hold_every_triangle_of_a_soup_and_hang_together(seed):
    """Hold points of triangles on the lattice and off it; one triangle is one piece connected through faces."""
    rng = np.random.default_rng(seed)
    whole = seed % 2 == 0
    corners = rng.integers(0, 9, (3, 3)).astype(float) if whole else rng.normal(size=(3, 3))
    if (corners == corners[0]).all():
        corners[1] += 1.0
    triangle = TriMesh(corners, [[0, 1, 2]])
    mesh = tets_of_cubes(triangle, cells=int(rng.integers(2, 20)))
    points = rng.dirichlet((0.5, 0.5, 0.5), size=300) @ corners
    neighbours = mesh.neighbours

    assert_is_a_body(mesh)
    assert encloses(mesh, points)
    reached = latest = {0}
    while latest:
        latest = {n for t in latest for n in neighbours[t].tolist() if n >= 0} - reached
        reached = reached | latest
    assert len(reached) == len(mesh)


@pytest.mark.small
@pytest.mark.tiny
@pytest.mark.parametrize("faces", [100, 1000, 4000])
def test_number_of_faces_is_met_roughly(faces):
    """Choose the size of cubes such that the boundary has about the requested number of triangles."""
    mesh = tets_of_cubes(shapes.bumpy_sphere(4), faces=faces)

    assert 0.6 * faces < len(mesh.surface) < 1.6 * faces


@pytest.mark.small
@pytest.mark.tiny
def test_same_input_gives_the_same_cubes():
    """Return the same bits twice, whatever was computed in between."""
    first, _, second = (tets_of_cubes(shapes.icosphere(3), cells=cells) for cells in (7, 5, 7))

    assert first.vertices.tobytes() == second.vertices.tobytes()
    assert first.tets.tobytes() == second.tets.tobytes()


@pytest.mark.small
@pytest.mark.tiny
@pytest.mark.parametrize("scale", [1e-90, 1e-6, 1.0, 1e90])
def test_cubes_know_no_unit(scale):
    """Give the same tets for a body of any size."""
    sphere = shapes.icosphere(2)
    mesh = tets_of_cubes(TriMesh(scale * sphere.vertices, sphere.faces), cells=6)

    np.testing.assert_array_equal(mesh.tets, tets_of_cubes(sphere, cells=6).tets)


@pytest.mark.small
@pytest.mark.tiny
def test_many_candidates_are_tested_in_chunks(monkeypatch):
    """Give the same cubes whether pairs are tested at once or a few at a time."""
    body = shapes.cad_part()
    expected = cubes._solid(body, 20)
    monkeypatch.setattr(cubes, "CHUNK", 50)

    np.testing.assert_array_equal(cubes._solid(body, 20), expected)


# simplification --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_simplify_reaches_the_requested_number(scale):
    """Return a closed surface of that many triangles near the dense one, in any unit."""
    dense = shapes.bumpy_sphere(5)
    simple = simplify(TriMesh(scale * dense.vertices, dense.faces), 600)

    assert len(simple) == 600
    assert simple.adjacency.is_oriented
    np.testing.assert_allclose(simple.volume, scale**3 * dense.volume, rtol=0.02)


@pytest.mark.small
@pytest.mark.tiny
def test_simplify_leaves_a_coarse_surface_alone():
    """Return few triangles as they are, without those that repeat a vertex, dead ones, and unused vertices."""
    box = shapes.box()
    body = TriMesh(np.concatenate([box.vertices, [[9.0, 9.0, 9.0]]]), [*box.faces.tolist(), [0, 0, 1], [0, 1, 2]])
    body.remove_triangles([13])
    simple = simplify(body, 100)

    np.testing.assert_array_equal(simple.vertices, box.vertices)
    np.testing.assert_array_equal(simple.faces, box.faces)


# NetGen ----------------------------------------------------------------------------------------------


def test_netgen_fills_a_surface_and_keeps_its_triangles():
    """Keep vertices to the bit, triangles and volume; shorter edges give more tets."""
    surface = shapes.icosphere(2, radius=0.2, center=(5.0, 0.0, 0.0))
    coarse, fine = tetrahedralise(surface), tetrahedralise(surface, mesh_size=0.03)
    vertices = {tuple(x) for x in surface.vertices.tolist()}

    for mesh in (coarse, fine):
        assert_is_a_body(mesh)
        assert len(mesh.surface) == len(surface)
        assert {tuple(x) for x in mesh.vertices[mesh.surface.used_vertices].tolist()} == vertices
        np.testing.assert_allclose(mesh.volume, surface.volume, rtol=1e-12)
    assert len(fine) > len(coarse)


def test_netgen_turns_an_inside_out_surface():
    """Fill a surface that faces inwards."""
    sphere = shapes.icosphere(1)
    mesh = tetrahedralise(TriMesh(sphere.vertices, sphere.faces[:, ::-1]))

    assert_is_a_body(mesh)
    np.testing.assert_allclose(mesh.volume, sphere.volume)


def test_netgen_is_silent_and_stays_out_of_the_process(capfd):
    """Print nothing here, and load nothing here."""
    tetrahedralise(shapes.icosphere(1))

    assert capfd.readouterr() == ("", "")
    assert "netgen" not in sys.modules


def test_netgen_refuses_what_meets_itself():
    """Report the message of NetGen on two intersecting spheres, and the remedy."""
    sphere = shapes.icosphere(1)
    x = np.concatenate([sphere.vertices, sphere.vertices + 0.7])
    both = TriMesh(x, np.concatenate([sphere.faces, sphere.faces + len(sphere.vertices)]))

    with pytest.raises(MeshError, match=r"^NetGen gave up \(.*overlapping\); .* or pass method='cubes'$"):
        tetrahedralise(both)


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", r"gave up \(ended by signal 11\)"),
        ("import time; time.sleep(600)", "did not end within 1 seconds"),
        ("raise RuntimeError('the queue is stuck')", r"gave up \(the queue is stuck\)"),
        ("import sys; sys.exit(3)", r"gave up \(exit code 3\)"),
    ],
    ids=["crashes", "hangs", "raises", "exits"],
)
def test_failures_of_netgen_become_errors(tmp_path, monkeypatch, code, sentence):
    """Convert crashes, endless loops and exceptions of NetGen into an error, or fall back to cubes."""
    (tmp_path / "netgen").mkdir()
    (tmp_path / "netgen" / "__init__.py").write_text("")
    (tmp_path / "netgen" / "meshing.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(MeshError, match=sentence):
        coarse_tets(shapes.icosphere(1), method="netgen", time_limit=1.0 if "sleep" in code else 600.0)
    if "sleep" not in code:
        assert coarse_tets(shapes.icosphere(1)).method == "cubes"


def test_tets_that_do_not_fill_the_surface_are_refused(monkeypatch):
    """Compare volumes, and refuse tets that are not those of the surface."""
    box = shapes.tet_box(1, 1, 1)
    monkeypatch.setattr(prepare, "_run_netgen", lambda *_: (box.vertices.copy(), box.tets[:4]))

    with pytest.raises(MeshError, match="NetGen returned tets that do not fill the surface"):
        tetrahedralise(shapes.box())


# the choice ------------------------------------------------------------------------------------------


def test_auto_reports_the_method():
    """Fill what can be filled, enclose the rest, and state the reason in one sentence."""
    sphere = shapes.bumpy_sphere(3)
    filled = coarse_tets(sphere, coarse_faces=300)
    enclosed = coarse_tets(TriMesh(sphere.vertices, sphere.faces[1:]), coarse_faces=300)
    requested = coarse_tets(sphere, method="cubes", cells=4)

    assert (filled.method, enclosed.method, requested.method) == ("netgen", "cubes", "cubes")
    assert str(filled) == f"NetGen filled a surface of 300 triangles with {len(filled.mesh)} tets"
    assert "because the surface encloses no solid (3 open, 0 non-manifold and 0 flipped edges)" in enclosed.why
    assert requested.why.endswith("as requested")
    assert "times the volume of the surface" in requested.why
    assert filled.pieces == enclosed.pieces == requested.pieces == 1


def test_pieces_are_counted_and_reported():
    """Keep distant parts apart, and report their number."""
    sphere = shapes.icosphere(2)
    x = np.concatenate([sphere.vertices, sphere.vertices + 5.0])
    both = TriMesh(x, np.concatenate([sphere.faces, sphere.faces + len(sphere.vertices)]))

    for method in ("netgen", "cubes"):
        found = coarse_tets(both, method=method)
        assert found.pieces == 2
        assert "2 pieces that move independently" in found.why


def test_auto_does_without_the_extra(monkeypatch):
    """Enclose with cubes where NetGen is missing, and name the extra; refuse with method="netgen"."""
    monkeypatch.setitem(sys.modules, "fast_simplification", None)
    found = coarse_tets(shapes.icosphere(3), coarse_faces=200)

    assert found.method == "cubes"
    assert found.why.endswith("because simplifying a surface needs fast-simplification; install impinge[soft]")
    with pytest.raises(MissingExtra, match=r"^simplifying .* install impinge\[soft\]$"):
        simplify(shapes.icosphere(3), 200)
    monkeypatch.setattr(prepare.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"^filling .* needs netgen-mesher; install impinge\[soft\]$"):
        coarse_tets(shapes.icosphere(1), method="netgen")


def test_a_patient_simplification_helps_where_a_quick_one_folds(monkeypatch):
    """Try again with more patience when NetGen gives up on the first simplification."""
    tried = []

    def fill(surface, **_):
        tried.append(len(surface))
        if len(tried) < 3:
            raise MeshError("NetGen gave up; try again")
        return shapes.tet_box(1, 1, 1)

    monkeypatch.setattr(prepare, "tetrahedralise", fill)

    assert coarse_tets(shapes.bumpy_sphere(3), coarse_faces=300).method == "netgen"
    assert len(tried) == 3


def test_the_simplification_that_keeps_the_volume_is_taken(monkeypatch):
    """Try others where thickening swells a body, take the one that swells least, and report its volume."""
    factors = iter((1.2, 1.1, 1.3))
    monkeypatch.setattr(prepare, "thicken", lambda mesh: TetMesh(mesh.vertices * next(factors), mesh.tets))
    monkeypatch.setattr(prepare, "THIN", 0.0)
    found = coarse_tets(shapes.bumpy_sphere(3), coarse_faces=300)

    assert found.method == "netgen"
    assert found.why.endswith("tets (1.3 times the volume of the surface)")
    assert next(factors, None) is None


def test_a_python_that_cannot_be_started_is_reported(monkeypatch):
    """Report that no process can be started; accept an infinite time limit."""
    assert len(tetrahedralise(shapes.icosphere(1), time_limit=math.inf)) > 0
    monkeypatch.setattr(sys, "executable", "/nowhere/python")

    with pytest.raises(MeshError, match=r"^NetGen cannot be started \(No such file or directory\); .*'cubes'$"):
        tetrahedralise(shapes.icosphere(1))


def test_slivers_are_thickened_and_worse_ones_refused(monkeypatch):
    """Make the flattest tet many times higher, keep volumes positive, and refuse what stays flat."""
    flat = tetrahedralise(simplify(shapes.bumpy_sphere(4), 400))
    thick = thicken(flat)

    assert least_height(flat) < 0.05
    assert least_height(thick) > 0.08
    assert_is_a_body(thick)
    np.testing.assert_array_equal(thick.tets, flat.tets)
    np.testing.assert_allclose(thick.volume, flat.volume, rtol=0.05)
    assert thicken(flat).vertices.tobytes() == thick.vertices.tobytes()
    monkeypatch.setattr(prepare, "thicken", lambda mesh: mesh)
    monkeypatch.setattr(prepare, "THIN", 0.3)
    with pytest.raises(
        MeshError, match=r"^the flattest tet of NetGen has a height of .* mean edges, expected 0.3; .*'cubes'$"
    ):
        coarse_tets(shapes.bumpy_sphere(4), coarse_faces=400, method="netgen")


@pytest.mark.small
@pytest.mark.tiny
def test_thick_tets_are_left_alone():
    """Move nothing where no tet is flat."""
    box = shapes.tet_box(2, 2, 2)

    assert thicken(box).vertices.tobytes() == box.vertices.tobytes()


def test_progress_is_shown_on_a_terminal_only(monkeypatch):
    """Show a running step on a terminal only."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown, silent = Terminal(), io.StringIO()
    monkeypatch.delenv("IMPINGE_QUIET", raising=False)
    for stream in (shown, silent):
        monkeypatch.setattr(sys, "stderr", stream)
        coarse_tets(shapes.icosphere(2), method="cubes")

    assert "enclosing the surface with cubes" in shown.getvalue()
    assert silent.getvalue() == ""


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: coarse_tets(TriMesh([], [])), MeshError, "has no triangles; a soft body needs at least one"),
        (lambda: coarse_tets(TriMesh([[1, 1, 1]] * 3, [[0, 1, 2]])), MeshError, "are one point; a soft body needs"),
        (lambda: coarse_tets(TriMesh(np.eye(3) * 1e120, [[0, 1, 2]])), MeshError, r"1e\+120 across; scale it"),
        (lambda: coarse_tets(TriMesh(np.eye(3) * 1e308 * [[1], [-1], [1]], [[0, 1, 2]])), MeshError, "scale it"),
        (lambda: coarse_tets(TriMesh(np.eye(3) + 1e12, [[0, 1, 2]])), MeshError, "rounded too coarsely; move it"),
        (lambda: coarse_tets(shapes.box(), method="magic"), OptionError, "expected one of 'auto', 'netgen', 'cubes'"),
        (lambda: coarse_tets(shapes.box(), coarse_faces=2), OptionError, "coarse_faces is 2, expected a whole"),
        (lambda: coarse_tets(shapes.box(), cells=2.5), OptionError, "cells is 2.5, expected a whole number from 1 to"),
        (lambda: coarse_tets(shapes.box(), method="cubes", mesh_size="a"), OptionError, "mesh_size is 'a', expected"),
        (lambda: coarse_tets(shapes.box(), method="cubes", time_limit=None), OptionError, "time_limit is None, exp"),
        (lambda: simplify(shapes.box(), 2.5), OptionError, "faces is 2.5, expected a whole number from 4"),
        (lambda: tets_of_cubes(shapes.box(), cells=0), OptionError, "cells is 0, expected a whole number from 1 to"),
        (lambda: tets_of_cubes(shapes.box(), cells=999), OptionError, "cells is 999, expected .* to 128"),
        (lambda: tetrahedralise(shapes.box(), mesh_size=-1.0), OptionError, "mesh_size is -1.0, expected a positive"),
        (lambda: tetrahedralise(shapes.box(), time_limit=0.0), OptionError, "time_limit is 0.0, expected a positive"),
        (lambda: tetrahedralise(shapes.cloth_grid(2, 2)), MeshError, "encloses no solid .* or pass method='cubes'"),
    ],
)
@pytest.mark.small
@pytest.mark.tiny
def test_bad_input_gets_a_sentence(call, error, sentence):
    """Say what was found, what was expected and the remedy."""
    with pytest.raises(error, match=sentence):
        call()


# real meshes -----------------------------------------------------------------------------------------


def prepared(path) -> prepare.CoarseTets | None:
    """Prepare a file, or see that a sentence refuses it; the body must hold or follow the surface."""
    try:
        surface = impinge.load(path)
        found = coarse_tets(surface)
    except impinge.ImpingeError:
        return None
    assert_is_a_body(found.mesh)
    if found.method == "cubes":
        assert encloses(found.mesh, surface.vertices[surface.used_vertices])
    else:
        is_stated = "times the volume of the surface" in found.why
        assert is_stated or 0.9 <= found.mesh.volume / abs(surface.volume) <= 1.1
    return found


@needs_data
@pytest.mark.parametrize(("file", "method"), QUICK.items())
def test_real_meshes_become_bodies(file, method):
    """Make a body of scans, vessels, soups and degenerate surfaces, by the method that fits."""
    found = prepared(FOLDER / file)

    assert (found and found.method) == method


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in rows() if row.file.startswith(FOLDERS)], ids=str)
def test_every_file_ends_in_a_body_or_a_sentence(row: Row):
    """Try them all."""
    if prepared(row.path) is None:
        assert row.file == "nasty/made_nan_inf.obj"
