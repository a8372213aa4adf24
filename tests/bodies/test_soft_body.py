"""Soft bodies: a coarse model moves, a dense surface follows, and a file brings both back to the bit."""

from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys
import threading
import zipfile

import numpy as np
import pytest

import impinge
from impinge import FileError, Material, MeshError, MeshWarning, OptionError, SoftBody, TetMesh, TriMesh, shapes
from impinge.backend import jit
from impinge.deform.fem import Corotated, GreenStrain

NO_GRAVITY = (0.0, 0.0, 0.0)
SOFT = Material(2e4, 0.4, 1000.0)
STIFF = Material(4e4, 0.3, 1200.0)
UNDAMPED = Material(2e4, 0.4, 1000.0, 0.0, 0.0)


def coarse_bar() -> TetMesh:
    return shapes.tet_box(4, 2, 2, size=(0.4, 0.2, 0.2))


def dense_bar() -> TriMesh:
    return shapes.box((0.38, 0.18, 0.18), cells=(12, 6, 6))


def soft_bar(**options) -> SoftBody:
    return SoftBody(dense_bar(), coarse_bar(), **{"material": SOFT, **options})


def rotation() -> np.ndarray:
    turn, _ = np.linalg.qr(np.random.default_rng(7).normal(size=(3, 3)))
    return turn * np.sign(np.linalg.det(turn))


def assert_equal_states(first: SoftBody, second: SoftBody) -> None:
    """The same bits in positions, velocities, surface and what holds the body."""
    for name in ("velocities", "fixed", "moved", "motion", "rest_surface"):
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes(), name
    assert first.coarse.vertices.tobytes() == second.coarse.vertices.tobytes()
    assert first.surface.vertices.tobytes() == second.surface.vertices.tobytes()
    assert first.time == second.time


BOTH = pytest.mark.parametrize("embedding", ["rigid_links", "barycentric"])
MODELS = pytest.mark.parametrize("model", ["green_strain", "corotated"])

# motion ----------------------------------------------------------------------------------------------


@pytest.mark.small
@BOTH
@MODELS
def test_a_body_at_rest_stays_there(model, embedding):
    """Move nothing without gravity, and reproduce the dense surface."""
    soft = soft_bar(model=model, embedding=embedding)
    rest = soft.surface.vertices.copy()
    report = soft.step(0.02, gravity=NO_GRAVITY)

    assert report.substeps > 0
    assert len(report.inverted) == 0
    np.testing.assert_allclose(soft.surface.vertices, rest, atol=1e-14)
    np.testing.assert_allclose(soft.coarse.vertices, coarse_bar().vertices, atol=1e-14)


@BOTH
@MODELS
def test_a_falling_body_falls_as_a_whole(model, embedding):
    """Fall by g t² / 2 without a change of shape, the surface too."""
    soft = soft_bar(model=model, embedding=embedding)
    rest = soft.surface.vertices.copy()
    for _ in range(3):
        soft.step(0.02)
    fallen = np.array([0.0, 0.0, -0.5 * 9.81 * 0.06**2])

    np.testing.assert_allclose(soft.surface.vertices, rest + fallen, atol=1e-12)
    np.testing.assert_allclose(
        soft.momentum().linear, soft.model.masses.sum() * np.array([0, 0, -9.81 * 0.06]), atol=1e-9
    )
    assert soft.time == pytest.approx(0.06)


@pytest.mark.small
@BOTH
def test_a_turning_body_turns_its_surface(embedding):
    """Follow a rigid motion of the coarse mesh to 1e-12, through ``coarse.update``."""
    soft = soft_bar(embedding=embedding)
    rest, turn, shift = soft.surface.vertices.copy(), rotation(), np.array([3.0, -2.0, 5.0])
    soft.coarse.update(soft.coarse.vertices @ turn.T + shift)

    np.testing.assert_allclose(soft.surface.vertices, rest @ turn.T + shift, atol=1e-12)


@BOTH
def test_updates_of_the_coarse_mesh_steer_at_once(embedding):
    """Bump both versions and answer queries for the new place, without a further call."""
    soft = soft_bar(embedding=embedding)
    tool = shapes.icosphere(2, radius=0.05, center=(0.0, 0.0, 0.5))
    versions = soft.coarse.version, soft.surface.version

    assert not impinge.collides(soft.surface, tool)
    soft.coarse.update(soft.coarse.vertices + np.array([0.0, 0.0, 0.5]))
    assert (soft.coarse.version, soft.surface.version) == (versions[0] + 1, versions[1] + 1)
    assert impinge.collides(soft.surface, tool)
    soft.steer()
    assert soft.surface.version == versions[1] + 2


@MODELS
def test_a_fixed_bar_sags_and_settles(model):
    """Let a bar fixed at one end sink in slowed motion until it rests; its fixed end stays to the bit."""
    soft = soft_bar(model=model, material=Material(1e5, 0.3, 1000.0), fixed=coarse_bar().vertices[:, 0] < -0.19)
    end = soft.fixed
    tip = np.argmax(soft.rest_surface[:, 0])
    heights = []
    for _ in range(40):
        soft.step(0.025)
        soft.velocities = 0.6 * soft.velocities
        heights.append(soft.surface.vertices[tip, 2] - soft.rest_surface[tip, 2])

    assert 0 < len(end) < len(soft.coarse.vertices)
    np.testing.assert_array_equal(soft.coarse.vertices[end], soft.model.rest[end])
    assert -0.2 < heights[-1] < -0.005
    assert heights[0] > heights[1] > heights[2] > 0.5 * heights[-1]
    assert abs(heights[-1] - heights[-5]) < 1e-3
    assert soft.energy().kinetic < 1e-3 * soft.energy().elastic


def test_moved_vertices_go_where_they_are_told():
    """Pull one end evenly while the other is fixed; release it, and the body springs back."""
    soft = soft_bar(material=Material(2e4, 0.3, 1000.0, damping_dilation=300.0, damping_shear=300.0))
    x = soft.coarse.vertices[:, 0]
    left, right = np.flatnonzero(x < -0.19), np.flatnonzero(x > 0.19)
    soft.fix(left)
    soft.move(right, (0.5, 0.0, 0.0))
    for _ in range(4):
        soft.step(0.05, gravity=NO_GRAVITY)

    np.testing.assert_allclose(soft.coarse.vertices[right], soft.model.rest[right] + (0.1, 0.0, 0.0), atol=1e-12)
    np.testing.assert_array_equal(soft.coarse.vertices[left], soft.model.rest[left])
    np.testing.assert_allclose(soft.velocities[right], np.tile((0.5, 0.0, 0.0), (len(right), 1)))
    stretched = soft.energy().elastic
    assert stretched > 0.1
    soft.release(right)
    assert len(soft.moved) == 0
    assert len(soft.fixed) == len(left)
    for _ in range(20):
        soft.step(0.05, gravity=NO_GRAVITY)
    assert soft.energy().total < 0.02 * stretched


@pytest.mark.small
def test_velocities_belong_to_the_ids_as_given():
    """Keep rows of velocities with their ids, whatever the order; fixing and moving replace each other."""
    soft = soft_bar()
    soft.move([7, 2, 30], [[7.0, 0, 0], [2.0, 0, 0], [30.0, 0, 0]])
    np.testing.assert_array_equal(soft.moved, [2, 7, 30])
    np.testing.assert_array_equal(soft.motion[:, 0], [2.0, 7.0, 30.0])
    soft.fix([7])
    np.testing.assert_array_equal(soft.moved, [2, 30])
    np.testing.assert_array_equal(soft.fixed, [7])
    soft.move(np.arange(45) == 7, (1.0, 0.0, 0.0))
    assert len(soft.fixed) == 0
    soft.release()
    assert len(soft.moved) == 0


@MODELS
def test_momentum_is_kept(model):
    """Keep linear momentum of a free body that is bent and turning, and angular momentum as far as steps are short."""
    soft = soft_bar(model=model)
    x = soft.coarse.vertices
    soft.coarse.update(x + 0.05 * np.sin(6.0 * x[:, [1, 2, 0]]))
    soft.velocities = np.cross((1.0, 2.0, 3.0), soft.coarse.vertices) + np.array([0.3, 0.0, -0.1])
    before, elastic = soft.momentum(), soft.energy().elastic
    for _ in range(5):
        soft.step(0.02, gravity=NO_GRAVITY, max_substep=5e-4)
    after = soft.momentum()

    assert elastic > 0.01
    assert soft.energy().elastic != elastic
    np.testing.assert_allclose(after.linear, before.linear, atol=1e-10)
    np.testing.assert_allclose(after.angular, before.angular, atol=1e-7)


def test_energy_is_kept_without_damping_and_lost_with_it():
    """Drift little without damping; lose energy with it."""
    total = {}
    for name, material in (("undamped", UNDAMPED), ("damped", SOFT)):
        soft = soft_bar(material=material)
        soft.coarse.update(soft.coarse.vertices * (1.1, 1.0, 1.0))
        before = soft.energy().total
        for _ in range(10):
            soft.step(0.01, gravity=NO_GRAVITY, max_substep=5e-4)
        total[name] = soft.energy().total / before

    assert abs(total["undamped"] - 1.0) < 1e-2
    assert total["damped"] < 0.9


@pytest.mark.small
def test_forces_of_the_caller_act():
    """Accelerate a free body by force over mass, whatever its shape does."""
    soft = soft_bar()
    forces = np.zeros_like(soft.coarse.vertices)
    forces[3] = (0.0, 2.0, 0.0)
    soft.step(0.1, gravity=NO_GRAVITY, forces=forces)

    np.testing.assert_allclose(soft.momentum().linear, (0.0, 0.2, 0.0), atol=1e-9)


@pytest.mark.small
def test_an_inverted_body_recovers():
    """Report inverted tets and push them back, without a number that is not finite."""
    soft = soft_bar()
    x = soft.coarse.vertices.copy()
    x[22] += (0.25, 0.0, 0.0)
    soft.coarse.update(x)
    inverted = len(soft.model.inverted(soft.coarse.vertices))
    for _ in range(20):
        report = soft.step(0.02, gravity=NO_GRAVITY)
        assert np.isfinite(soft.surface.vertices).all()

    assert inverted > 0
    assert len(report.inverted) == 0


@pytest.mark.small
def test_everything_fixed_does_not_move():
    """Stay to the bit where nothing may move."""
    soft = soft_bar(fixed=np.ones(45, dtype=bool))
    soft.step(0.1)

    np.testing.assert_array_equal(soft.coarse.vertices, soft.model.rest)


@pytest.mark.small
@BOTH
def test_one_tet_is_a_body(embedding):
    """Steer a surface by a single tet."""
    tet = TetMesh(np.concatenate([np.zeros((1, 3)), np.eye(3)]), [[0, 1, 2, 3]])
    soft = SoftBody(shapes.icosphere(2, radius=0.2, center=(0.2, 0.2, 0.2)), tet, embedding=embedding, material="jelly")
    soft.step(0.01)

    np.testing.assert_allclose(soft.surface.vertices, soft.rest_surface - (0, 0, 0.5 * 9.81 * 1e-4), atol=1e-9)


@pytest.mark.small
def test_reset_goes_back_to_rest():
    """Restore positions to the bit; what is fixed stays so."""
    soft = soft_bar(fixed=[0, 1])
    rest = soft.surface.vertices.copy()
    soft.step(0.05)
    soft.reset()

    np.testing.assert_array_equal(soft.coarse.vertices, soft.model.rest)
    np.testing.assert_allclose(soft.surface.vertices, rest, atol=1e-14)
    assert not soft.velocities.any()
    assert soft.time == 0.0
    assert len(soft.fixed) == 2


def test_same_bits_for_any_number_of_threads():
    """Give the same state after some steps with one thread and with several, of a body large enough for threads."""
    assert jit.PARALLEL_FROM <= 5 * 10**3
    code = (
        "import hashlib, impinge; from impinge import shapes;"
        "soft = impinge.SoftBody(shapes.bumpy_sphere(5), shapes.tet_box(10, 10, 10, size=2.6), material='jelly');"
        "soft.fix(range(20)); [soft.step(0.01) for _ in range(3)];"
        "print(hashlib.sha256(soft.coarse.vertices.tobytes() + soft.surface.vertices.tobytes()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "NUMBA_NUM_THREADS": threads},
            capture_output=True,
            check=True,
        ).stdout
        for threads in ("1", "2", "5")
    }

    assert len(digests) == 1
    assert len(digests.pop()) > 60


# making one ------------------------------------------------------------------------------------------


def test_from_surface_prepares_and_steers():
    """Make a body from a surface alone, and describe the coarse mesh."""
    surface = shapes.bumpy_sphere(4, radius=0.1)
    soft = SoftBody.from_surface(surface, coarse_faces=200, material="liver", embedding="barycentric")
    cubes = SoftBody.from_surface(surface, coarse_faces=200, method="cubes", model="corotated", elements="smoothed")

    assert soft.prepared.startswith("NetGen filled a surface of 200 triangles")
    assert "cubes enclose the surface" in cubes.prepared
    assert soft.model.material == impinge.deform.materials.MATERIALS["liver"]
    assert isinstance(cubes.model, Corotated)
    assert cubes.model.elements == "smoothed"
    assert isinstance(soft.model, GreenStrain)
    for body in (soft, cubes):
        assert len(body.surface) == len(surface)
        np.testing.assert_allclose(body.surface.vertices, surface.vertices, atol=1e-13)
        body.step(0.01)
        np.testing.assert_allclose(body.surface.vertices, surface.vertices - (0.0, 0.0, 0.5 * 9.81 * 1e-4), atol=1e-8)


def test_constants_replace_those_of_the_preset():
    """Take Young's modulus, Poisson's ratio and density by themselves; damping follows from them."""
    surface = shapes.icosphere(1)
    soft = SoftBody.from_surface(surface, youngs_modulus=3e3, density=900.0, method="cubes", cells=3)

    assert soft.model.material == Material(3e3, 0.47, 900.0)


def test_an_open_surface_becomes_a_body():
    """Carry a sheet of cloth on cubes."""
    sheet = shapes.cloth_grid(10, 10)
    soft = SoftBody.from_surface(sheet, coarse_faces=300, material="jelly")
    soft.step(0.01)

    assert len(soft.surface) == len(sheet)
    assert "3 open" not in soft.prepared
    assert "40 open" in soft.prepared


def test_own_model_is_used():
    """Take any object with forces and a stable step; refuse one of another mesh, and refuse to save it."""
    coarse = coarse_bar()
    model = GreenStrain(coarse.vertices, coarse.tets, SOFT, barrier=0.0)
    soft = soft_bar(model=model)
    soft.step(0.01)

    assert soft.model is model
    with pytest.raises(OptionError, match="custom model cannot be saved; pass the name of a model"):
        soft.save("nowhere.npz")
    with pytest.raises(OptionError, match="custom model cannot be saved"):
        pickle.dumps(soft)
    with pytest.raises(
        OptionError, match=r"the model has 45 vertices and 80 tets, but the coarse mesh has 8 and 5; make"
    ):
        SoftBody(shapes.box(), shapes.tet_box(1, 1, 1), model=model)


def test_tets_wound_the_other_way_are_turned():
    """Accept a file in which all tets have negative volume by its convention."""
    coarse = coarse_bar()
    soft = SoftBody(dense_bar(), TetMesh(coarse.vertices, coarse.tets[:, [0, 1, 3, 2]]), material=SOFT)

    assert (soft.coarse.volumes > 0.0).all()
    np.testing.assert_array_equal(soft.coarse.tets, coarse.tets)


@pytest.mark.small
def test_several_pieces_warn():
    """Warn of a coarse mesh in two pieces, which move independently."""
    one = coarse_bar()
    x = np.concatenate([one.vertices, one.vertices + np.array([0.0, 0.0, 0.4])])
    two = TetMesh(x, np.concatenate([one.tets, one.tets + len(one.vertices)]))
    with pytest.warns(MeshWarning, match="2 pieces that share no vertex, which move independently; coarser"):
        soft = SoftBody(dense_bar(), two, material=SOFT, fixed=np.arange(len(x)) < len(one.vertices))
    soft.step(0.05)

    assert soft.pieces == 2
    assert "in 2 pieces" in repr(soft)
    np.testing.assert_array_equal(soft.coarse.vertices[:45], x[:45])
    assert (soft.coarse.vertices[45:, 2] < x[45:, 2]).all()


def test_bodies_are_copies_and_triangles_may_go():
    """Leave the caller's meshes alone; keep ids of the surface, dead ones too, and let more of them die."""
    surface, coarse = dense_bar(), coarse_bar()
    surface.remove_triangles([3, 4])
    soft = SoftBody(surface, coarse, material=SOFT)
    soft.step(0.02)
    soft.surface.remove_triangles([5])
    soft.surface.add_triangles([[0, 1, 2]])

    assert surface.version == 1
    assert coarse.version == 0
    np.testing.assert_array_equal(np.flatnonzero(~soft.surface.alive), [3, 4, 5])
    assert len(soft.surface) == len(surface)


# files -----------------------------------------------------------------------------------------------


@BOTH
@MODELS
def test_a_file_brings_the_body_back_to_the_bit(tmp_path, model, embedding):
    """Continue from a file with the same bits as without it."""
    soft = soft_bar(model=model, embedding=embedding, fixed=[0, 1, 2])
    soft.move([40, 41], [[0.1, 0, 0], [0.2, 0, 0]])
    soft.surface.remove_triangles([1, 7])
    soft.prepared = "made by hand"
    soft.step(0.03)
    soft.save(tmp_path / "bar.npz")
    again = SoftBody.load(tmp_path / "bar.npz")

    assert_equal_states(again, soft)
    assert again.prepared == "made by hand"
    assert (again.model_name, again.embedding_name) == (model, embedding)
    assert again.model.material == SOFT
    np.testing.assert_array_equal(again.surface.alive, soft.surface.alive)
    for body in (soft, again):
        body.step(0.03)
    assert_equal_states(again, soft)


@pytest.mark.small
@pytest.mark.parametrize("model", ["green_strain", "corotated", "stable_neo_hookean"])
@pytest.mark.parametrize("integrator", ["explicit", "implicit", "midpoint"])
def test_smoothed_bodies_come_back_to_the_bit(tmp_path, model, integrator):
    """Keep smoothed elements in files and copies; bend more than linear tets."""
    each = [STIFF if k % 2 else SOFT for k in range(len(coarse_bar()))]
    soft, linear = (
        soft_bar(model=model, elements=kind, material=each, fixed=coarse_bar().vertices[:, 0] < -0.19)
        for kind in ("smoothed", "linear")
    )
    for body in (soft, linear):
        for _ in range(5):
            body.step(0.01, integrator=integrator)
    soft.save(tmp_path / "bar.npz")
    again = [SoftBody.load(tmp_path / "bar.npz"), copy.deepcopy(soft)]
    soft.step(0.01, integrator=integrator)

    assert soft.coarse.vertices[:, 2].min() < linear.coarse.vertices[:, 2].min() - 1e-4
    for body in again:
        assert body.model.elements == "smoothed"
        body.step(0.01, integrator=integrator)
        assert_equal_states(body, soft)


def test_files_without_elements_have_linear_ones(tmp_path):
    """Read a file that was written before elements could be chosen."""
    soft_bar().save(tmp_path / "bar.npz")
    with np.load(tmp_path / "bar.npz") as file:
        content = {name: file[name] for name in file.files if name != "elements"}
    np.savez(tmp_path / "old.npz", **content)

    assert SoftBody.load(tmp_path / "old.npz").model.elements == "linear"


@pytest.mark.small
def test_frames_of_straight_links_are_kept(tmp_path):
    """Continue with the same bits where the coarse mesh was turned, and then pressed onto a line."""
    soft = soft_bar()
    soft.coarse.update(soft.coarse.vertices @ rotation().T)
    soft.coarse.update(soft.coarse.vertices * (1.0, 0.0, 0.0))
    soft.save(tmp_path / "line.npz")
    again = SoftBody.load(tmp_path / "line.npz")

    assert len(soft.embedding.straightened) == len(soft.surface.vertices)
    for body in (soft, again):
        body.coarse.update(body.coarse.vertices * (2.0, 0.0, 0.0))
    assert_equal_states(again, soft)
    with pytest.raises(MeshError, match=r"frames have shape \(1, 9\), expected finite numbers in the shape"):
        soft.embedding.frames = np.zeros((1, 9))


@pytest.mark.small
@BOTH
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda body: pickle.loads(pickle.dumps(body))])
def test_copies_go_their_own_way(copied, embedding):
    """Copy and pickle a body in motion to the bit; what happens to one does not happen to the other."""
    soft = soft_bar(embedding=embedding, fixed=[0, 1])
    soft.step(0.02)
    again, coarse = copied(soft), copied(soft.coarse)
    assert_equal_states(again, soft)
    np.testing.assert_array_equal(coarse.vertices, soft.coarse.vertices)
    coarse.update(coarse.vertices + 1.0)
    again.step(0.02)

    assert again.time > soft.time
    assert not np.array_equal(again.surface.vertices, soft.surface.vertices)
    soft.step(0.02)
    assert_equal_states(again, soft)


class _Waiting(GreenStrain):
    """A model whose step lasts until it is released."""

    begun, go = threading.Event(), threading.Event()

    def forces(self, x, v, out=None):
        self.begun.set()
        assert self.go.wait(60.0)
        return super().forces(x, v, out)


def test_an_update_waits_for_the_step_of_another_thread():
    """Let the later of two changes win whole: the surface belongs to the coarse mesh afterwards."""
    coarse = coarse_bar()
    soft = soft_bar(model=_Waiting(coarse.vertices, coarse.tets, SOFT))
    threads = [
        threading.Thread(target=lambda: soft.step(0.01)),
        threading.Thread(target=lambda: soft.coarse.update(soft.model.rest + 5.0)),
    ]
    threads[0].start()
    assert _Waiting.begun.wait(60.0)
    threads[1].start()
    threads[1].join(0.2)
    assert threads[1].is_alive()
    assert soft.coarse.version == 0
    _Waiting.go.set()
    for thread in threads:
        thread.join(60.0)

    np.testing.assert_array_equal(soft.coarse.vertices, soft.model.rest + 5.0)
    np.testing.assert_allclose(soft.surface.vertices, soft.rest_surface + 5.0, atol=1e-12)
    assert soft.velocities.any()


def test_names_are_checked_before_the_long_steps(monkeypatch):
    """Refuse unknown models, elements and embeddings before anything is prepared; read a surface once."""
    monkeypatch.setattr("impinge.bodies.soft_body.coarse_tets", lambda *_, **__: pytest.fail("began to prepare"))
    for options in ({"model": None}, {"model": "magic"}, {"elements": "cubic"}, {"embedding": "glue"}):
        with pytest.raises(OptionError, match="expected "):
            SoftBody.from_surface(dense_bar(), **options)


def test_a_file_is_replaced_when_the_new_one_is_whole(tmp_path):
    """Save over a file, under any name, and leave nothing else behind."""
    soft = soft_bar()
    for _ in range(2):
        soft.save(tmp_path / "bar.soft")
    assert [path.name for path in tmp_path.iterdir()] == ["bar.soft"]
    with zipfile.ZipFile(tmp_path / "bar.soft") as file:
        for name in file.namelist():
            np.lib.format.read_array(io.BytesIO(file.read(name)), allow_pickle=False)


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    """Say that the disk is full, keep the file from before, and leave no part of the new one."""
    soft = soft_bar()
    soft.save(tmp_path / "bar.npz")
    before = (tmp_path / "bar.npz").read_bytes()

    def fail(file, **_):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(FileError, match=r"cannot be written \(No space left on device\); choose another place"):
        soft.save(tmp_path / "bar.npz")

    assert [path.name for path in tmp_path.iterdir()] == ["bar.npz"]
    assert (tmp_path / "bar.npz").read_bytes() == before


def test_bad_files_get_a_sentence(tmp_path):
    """Say what is wrong: no such file, something else, another version, parts missing, parts damaged."""
    good = tmp_path / "good.npz"
    soft_bar().save(good)
    with np.load(good) as file:
        content = dict(file)

    def refuses(message: str, **changes) -> None:
        kept = {name: array for name, array in {**content, **changes}.items() if array is not None}
        np.savez(tmp_path / "bad.npz", **kept)
        with pytest.raises(FileError, match=message):
            SoftBody.load(tmp_path / "bad.npz")

    refuses("is not a soft body; expected a file that SoftBody.save wrote", format=np.array("another"))
    refuses("has version 7 of the format, expected 1; update impinge", version=np.array(7))
    refuses(r"lacks a part of the soft body \(.*velocities.*\); save it again", velocities=None)
    refuses(r"is damaged \(velocities have 3 rows", velocities=np.zeros((3, 3)))
    refuses(r"is damaged \(coarse.*|vertices\[0\] is \[nan", coarse=np.full((45, 3), np.nan))
    refuses(r"is damaged \(tets\[0\] refers to vertex 99", tets=np.full((80, 4), 99))
    refuses(r"is damaged \(model is 'magic'", model=np.array("magic"))
    refuses(r"is damaged \(poisson_ratio is", material=np.array([1.0, 0.7, 1.0, 0.0, 0.0]))
    refuses(r"is damaged \(frames have shape", frames=np.zeros((2, 9)))
    refuses(r"is damaged", time=np.zeros(3))
    np.save(tmp_path / "array.npy", np.zeros(3))
    (tmp_path / "text.npz").write_text("solid nothing")
    (tmp_path / "empty.npz").write_bytes(b"")
    (tmp_path / "cut.npz").write_bytes(good.read_bytes()[:5000])
    for name in ("array.npy", "text.npz", "empty.npz", "cut.npz"):
        with pytest.raises(FileError, match="is not a soft body; expected a file that SoftBody"):
            SoftBody.load(tmp_path / name)
    with pytest.raises(FileError, match=r"cannot be read \(No such file or directory\); check the path"):
        SoftBody.load(tmp_path / "missing.npz")
    with pytest.raises(FileError, match=r"cannot be written \(No such file or directory\); choose another place"):
        soft_bar().save(tmp_path / "no" / "folder.npz")


# bad input -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda _: SoftBody(TriMesh([], []), coarse_bar()), MeshError, "has no triangles"),
        (lambda _: SoftBody(dense_bar(), dense_bar()), MeshError, "has triangles only, expected tets; SoftBody.from_"),
        (lambda _: SoftBody(dense_bar(), TetMesh([], [])), MeshError, "there are no tets; a model needs at least one"),
        (lambda _: SoftBody(shapes.box(1000.0), coarse_bar()), MeshError, "must lie in the same place, in the same"),
        (lambda _: SoftBody(shapes.box(1e-4), coarse_bar()), MeshError, "must lie in the same place, in the same unit"),
        (lambda _: SoftBody(shapes.box(0.2, (9, 9, 9)), coarse_bar()), MeshError, "must lie in the same place"),
        (lambda _: SoftBody(dense_bar(), TetMesh(np.eye(4)[:, :3], [[0, 1, 2, 2]])), MeshError, "is flat at rest"),
        (lambda _: soft_bar(material="cheese"), OptionError, "no material 'cheese'; expected any of rubber"),
        (lambda _: soft_bar(model="magic"), OptionError, "expected 'green_strain', 'corotated', .* or a ReducedModel"),
        (lambda _: soft_bar(embedding="glue"), OptionError, "is 'glue', expected one of 'rigid_links', 'barycentric'"),
        (lambda _: soft_bar(elements="cubic"), OptionError, "is 'cubic', expected one of 'linear', 'smoothed'"),
        (
            lambda s: soft_bar(model=s.model, elements="smoothed"),
            OptionError,
            "elements is 'smoothed', but the model is an object with elements of its own; make that model with",
        ),
        (lambda _: soft_bar(fixed=[45]), OptionError, "ids contains id 45, but ids go from 0 to 44"),
        (lambda s: s.step(-1.0), OptionError, "dt is -1.0, expected a number of seconds"),
        (lambda s: s.step(10**400), OptionError, "dt is 1000.*, expected a number of seconds"),
        (lambda s: s.step(0.01, gravity=(0, 0)), OptionError, "gravity is .*, expected three finite numbers"),
        (lambda s: s.step(0.01, forces=np.full((45, 3), np.nan)), MeshError, r"forces\[0\] is \[nan, nan, nan\]"),
        (
            lambda s: s.step(0.01, forces=np.zeros_like(s.surface.vertices)),
            OptionError,
            r"forces have shape \(362, 3\), expected \(45, 3\): one row for each vertex of soft.coarse",
        ),
        (lambda s: s.step(0.01, forces="up"), MeshError, "forces hold strings; expected real numbers"),
        (lambda _: soft_bar(model=None), OptionError, "model is None, expected .* an object that has rest, tets, mass"),
        (lambda _: soft_bar(model=object()), OptionError, "model is <object object.*, expected 'green_strain', "),
        (lambda s: s.coarse.update(np.full((45, 3), np.nan), check=False), MeshError, "vertices of the surface.*nan"),
        (
            lambda s: s.coarse.update(1.7e308 * (-1.0) ** np.arange(135).reshape(45, 3)),
            MeshError,
            "vertices of the surface.* must be finite; move the coarse mesh nearer",
        ),
        (lambda s: s.coarse.update(np.full((45, 3), np.inf)), MeshError, "all coordinates must be finite"),
        (lambda s: s.coarse.remove_tets([0]), MeshError, "cannot lose tets; make a new SoftBody"),
        (lambda s: s.coarse.compact(), MeshError, "has no dead tets to remove; make a new SoftBody"),
        (lambda s: s.surface.update(s.surface.vertices), MeshError, "steered by a soft body and cannot be updated"),
        (lambda s: s.surface.add_vertices([[0, 0, 0]]), MeshError, "cannot gain vertices; make a new SoftBody"),
        (lambda s: s.surface.add_triangles([[0, 1, 2]], [[0, 0, 0]]), MeshError, "cannot gain vertices"),
        (lambda s: s.move([1, 1], (0, 0, 1)), OptionError, "ids hold a vertex twice; give each one velocity"),
        (lambda s: s.move([1, 2], np.zeros((3, 3))), OptionError, r"velocities have shape \(3, 3\), expected \(2, 3\)"),
        (lambda s: s.move([1], (0, 0, np.nan)), MeshError, r"velocities\[0\] is \[0, 0, nan\]"),
        (lambda s: setattr(s, "velocities", np.zeros((2, 3))), MeshError, "velocities have 2 rows"),
    ],
)
def test_bad_input_raises_and_changes_nothing(call, error, message):
    """Say what was found, what was expected and the remedy; the state is as it was."""
    soft = soft_bar()
    soft.step(0.01)
    before = soft.coarse.vertices.tobytes(), soft.velocities.tobytes(), soft.surface.vertices.tobytes()

    with pytest.raises(error, match=message):
        call(soft)
    assert (soft.coarse.vertices.tobytes(), soft.velocities.tobytes(), soft.surface.vertices.tobytes()) == before


def test_a_motion_that_cannot_be_followed_is_refused():
    """Raise instead of returning NaN under absurd forces, and keep the state."""
    soft = soft_bar()
    before = soft.coarse.vertices.copy()
    forces = np.zeros((45, 3))
    forces[0] = 1e300
    with pytest.raises(impinge.ImpingeError, match="weaken the external forces"):
        soft.step(0.01, forces=forces)

    np.testing.assert_array_equal(soft.coarse.vertices, before)
    assert not soft.velocities.any()
