"""Forces of tetrahedra: against energy, mechanics, and the formulas as printed."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, cg
from scipy.spatial.transform import Rotation

from impinge.backend import jit
from impinge.deform import fem
from impinge.deform.fem import BARRIER_FROM, SAFETY, STABLE_RADIUS, SYMMETRIC, Corotated, GreenStrain, StableNeoHookean
from impinge.deform.materials import Material
from impinge.deform.matrices_kernels import nearest_rotation
from impinge.errors import MeshError, OptionError
from impinge.mesh import shapes

SOFT = Material(1e4, 0.35, 1000.0)
STILL = Material(1e4, 0.35, 1000.0, 0.0, 0.0)
MODELS = pytest.mark.parametrize("kind", [GreenStrain, Corotated, StableNeoHookean])


def block(kind=GreenStrain, material=SOFT, cells=(3, 2, 2), **options):
    mesh = shapes.tet_box(*cells, size=tuple(0.1 * n for n in cells))
    return kind(mesh.vertices, mesh.tets, material, **options)


def shaken(model, rng, amount):
    return model.rest + rng.normal(size=model.rest.shape) * amount


def stiffness_matrix(model, x, step=1e-7):
    """Minus the derivative of forces, by differences."""
    still = np.zeros_like(x)
    rows = []
    for n, c in np.ndindex(x.shape):
        moved = [x.copy(), x.copy()]
        moved[0][n, c] += step
        moved[1][n, c] -= step
        rows.append((model.forces(moved[1], still) - model.forces(moved[0], still)).reshape(-1) / (2.0 * step))
    return np.array(rows)


@MODELS
@pytest.mark.parametrize("amount", [0.005, 0.05], ids=["little", "inside out"])
def test_force_is_minus_the_gradient_of_energy(rng, kind, amount):
    """Push each vertex down the slope of energy, also where tets are inside out."""
    model = block(kind)
    x, step = shaken(model, rng, amount), 1e-6
    gradient = np.zeros_like(x)
    for n, c in np.ndindex(x.shape):
        moved = x.copy()
        moved[n, c] += step
        high = model.energy(moved)
        moved[n, c] -= 2.0 * step
        gradient[n, c] = (high - model.energy(moved)) / (2.0 * step)
    force = model.forces(x, np.zeros_like(x))

    assert (len(model.inverted(x)) > 5) == (amount > 0.01)
    np.testing.assert_allclose(force, -gradient, rtol=0.0, atol=1e-7 * np.abs(force).max())


@pytest.mark.small
@MODELS
def test_rigid_motion_has_no_force(rng, kind):
    """Feel nothing of rotations, translations, and their velocities."""
    model = block(kind)
    stress = SOFT.youngs_modulus * 0.1**2
    for seed in range(20):
        turn = Rotation.random(rng=np.random.default_rng(seed)).as_matrix()
        x = np.ascontiguousarray(model.rest @ turn.T + rng.normal(size=3))
        v = np.ascontiguousarray(np.cross(rng.normal(size=3), x) + rng.normal(size=3))

        assert np.abs(model.forces(x, v)).max() < 1e-12 * stress
        assert abs(model.energy(x)) < (1e-16 if kind is StableNeoHookean else 1e-20) * stress  # rounding of two terms
        assert len(model.inverted(x)) == 0


@pytest.mark.small
@MODELS
def test_momentum_and_angular_momentum_are_kept(rng, kind):
    """Have forces of sum zero and moments of sum zero, damped and inside out alike."""
    model = block(kind)
    x, v = shaken(model, rng, 0.05), rng.normal(size=model.rest.shape)
    force = model.forces(x, v)
    scale = np.abs(force).sum()

    assert len(model.inverted(x)) > 5
    assert np.abs(force.sum(axis=0)).max() < 1e-14 * scale
    assert np.abs(np.cross(x, force).sum(axis=0)).max() < 1e-14 * scale


@pytest.mark.small
@MODELS
def test_damping_only_takes_energy(rng, kind):
    """Let viscous forces work against any motion that changes shapes."""
    model, taken = block(kind), []
    for _ in range(50):
        x, v = shaken(model, rng, 0.03), rng.normal(size=model.rest.shape)
        viscous = model.forces(x, v) - model.forces(x, np.zeros_like(v))
        taken.append(float((viscous * v).sum()))

    assert max(taken) < -1e-3


@pytest.mark.small
@MODELS
def test_affine_patch(rng, kind):
    """Leave vertices inside at rest when the whole body is strained evenly."""
    model = block(kind, cells=(4, 4, 4))
    inside = (np.abs(model.rest) < 0.15).all(axis=1)
    for _ in range(10):
        x = np.ascontiguousarray(model.rest @ (np.eye(3) + 0.2 * rng.normal(size=(3, 3))))
        force = model.forces(x, np.zeros_like(x))

        assert np.abs(force[inside]).max() < 1e-12 * np.abs(force).max()
    assert 20 < inside.sum() < len(inside)


def printed_forces(p, v, m, material):
    """Forces on the corners of one tet, term by term as in O'Brien and Hodgins 1999 (p, v, m: corner, component)."""
    beta = np.linalg.inv(np.vstack([m.T, np.ones(4)]))
    volume = np.linalg.det((m[1:] - m[0]).T) / 6.0
    dx, dv = p.T @ beta[:, :3], v.T @ beta[:, :3]
    strain, rate = dx.T @ dx - np.eye(3), dx.T @ dv + dv.T @ dx
    stress = material.lame_lambda * np.trace(strain) * np.eye(3) + 2.0 * material.lame_mu * strain
    stress += material.damping_dilation * np.trace(rate) * np.eye(3) + 2.0 * material.damping_shear * rate
    force = np.zeros((4, 3))
    for i, j, k, n in itertools.product(range(4), range(4), range(3), range(3)):
        force[i] -= volume / 2.0 * p[j] * beta[j, n] * beta[i, k] * stress[k, n]
    return force


@pytest.mark.small
def test_formulas_as_printed(rng):
    """Agree with the paper's sums for one tet, and for a body whose tets are summed by hand."""
    model = block(cells=(2, 2, 1), barrier=0.0)
    x, v = shaken(model, rng, 0.02), rng.normal(size=model.rest.shape)
    expected = np.zeros_like(x)
    for tet in model.tets:
        expected[tet] += printed_forces(x[tet], v[tet], model.rest[tet], SOFT)

    np.testing.assert_allclose(model.forces(x, v), expected, rtol=0.0, atol=1e-12 * np.abs(expected).max())


@MODELS
@pytest.mark.parametrize("amount", [0.0, 0.01, 0.05])
def test_stable_step_is_a_bound_and_not_idle(rng, kind, amount):
    """Bound the largest frequency of the whole body from above, by no more than some times."""
    model = block(kind, STILL, cells=(2, 2, 1))
    x = shaken(model, rng, amount)
    root = np.repeat(1.0 / np.sqrt(model.masses), 3)
    matrix = stiffness_matrix(model, x) * root * root[:, None]
    highest = np.sqrt(np.linalg.eigvalsh((matrix + matrix.T) / 2.0)[-1])
    bound = SAFETY * STABLE_RADIUS / model.stable_step(x)

    assert highest <= bound * (1.0 + 1e-6)
    assert bound < highest * (1.7 if amount == 0.0 else 6.0)


def test_damping_and_speed_shorten_the_step(rng):
    """Shorten the step for thick materials and for bodies that change quickly."""
    thick = Material(1e4, 0.35, 1000.0, 1e4, 1e4)
    model = block()
    v = rng.normal(size=model.rest.shape)

    assert block(material=thick).stable_step() < 0.1 * block(material=STILL).stable_step()
    assert model.stable_step(model.rest, 1e6 * v) == pytest.approx(1e-3 * model.stable_step(model.rest, 1e3 * v))


@pytest.mark.small
def test_pressing_a_bar_takes_a_force_that_never_falls():
    """Resist more the more a tet is pressed, through flat and inside out; without the barrier it would give way."""

    def forces(**options):
        model = block(cells=(1, 1, 1), **options)
        pressed = [model.rest * [share, 1.0, 1.0] for share in np.linspace(1.0, -0.5, 61)]
        return [float(np.abs(model.forces(x, np.zeros_like(x))[:, 0]).sum()) for x in pressed]

    assert abs(BARRIER_FROM - 3**-0.5) < 1e-15
    assert (np.diff(forces()) > 0.0).all()
    assert (np.diff(forces(barrier=0.0)) < 0.0).any()


@pytest.mark.small
def test_inverted_tets_are_named():
    """Name flat and reflected tets by their ids, and no other."""
    mesh = shapes.tet_box(8, 4, 4)
    model = GreenStrain(mesh.vertices, mesh.tets, SOFT)
    x = model.rest.copy()
    x[:, 0] = np.abs(x[:, 0])
    expected = np.flatnonzero(model.rest[model.tets][:, :, 0].min(axis=1) < 0.0)

    assert 0 < len(expected) < len(model.tets)
    np.testing.assert_array_equal(model.inverted(x), expected)
    np.testing.assert_array_equal(model.inverted(np.zeros_like(x)), np.arange(len(model.tets)))


@pytest.mark.small
@pytest.mark.tiny
def test_nearest_rotation_of_anything(rng):
    """Find the best rotation of regular, reflected, flat, straight and zero matrices."""
    for case in range(60):
        u, v = Rotation.random(2, rng=rng).as_matrix()
        s = np.sort(rng.random(3))[::-1] * 10.0 ** rng.integers(-3, 4)
        s[2] *= (1.0, -1.0, 0.0)[case % 3]
        s[1] *= case % 5 > 0
        f = u * s @ v.T
        r = np.array(nearest_rotation(tuple(f.reshape(-1).tolist()))).reshape(3, 3)

        np.testing.assert_allclose(r @ r.T, np.eye(3), atol=1e-13)
        assert np.linalg.det(r) > 0.0
        assert np.trace(r.T @ f) >= s.sum() - 1e-12 * s[0]
    assert nearest_rotation((0.0,) * 9) == (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)


def test_corotated_agrees_with_singular_values(rng):
    """Agree with the rotation from a singular value decomposition, near rest and far from it."""
    model = block(Corotated, STILL)
    edges = np.linalg.inv((model.rest[model.tets[:, 1:]] - model.rest[model.tets[:, :1]]).transpose(0, 2, 1))
    for amount in (1e-6, 0.01, 0.05, 0.5):
        x = shaken(model, rng, amount)
        f = (x[model.tets[:, 1:]] - x[model.tets[:, :1]]).transpose(0, 2, 1) @ edges
        s = np.linalg.svd(f, compute_uv=False)
        s[:, 2] *= np.sign(np.linalg.det(f))
        density = STILL.lame_mu * ((s - 1.0) ** 2).sum(axis=1) + STILL.lame_lambda / 2.0 * (s.sum(axis=1) - 3.0) ** 2
        volume = 1.0 / (6.0 * np.linalg.det(edges))

        assert model.energy(x) == pytest.approx(float(density @ volume), rel=1e-9)


def test_cantilever_sags_as_beam_theory_says():
    """Approach the sag of a beam under its own small weight, bending and shear, from below as tets become finer."""
    length, side, gravity, young = 1.0, 0.2, 1e-6, 1e6
    material = Material(young, 0.0, 1000.0)
    load, moment = material.density * gravity * side**2, side**4 / 12.0
    expected = load * length**4 / (8.0 * young * moment)
    expected += load * length**2 / (2.0 * (5.0 / 6.0) * (young / 2.0) * side**2)
    errors = []
    for cells in (4, 8):
        mesh = shapes.tet_box(5 * cells, cells, cells, size=(length, side, side))
        model = GreenStrain(mesh.vertices, mesh.tets, material)
        free = model.rest[:, 0] > -length / 2.0 + 1e-9
        weight = np.zeros_like(model.rest)
        weight[:, 2] = -gravity * model.masses
        sag = solve_linear(model, weight, free)
        errors.append(1.0 + sag[model.rest[:, 0] > length / 2.0 - 1e-9, 2].mean() / expected)

    assert 0.0 < errors[1] < 0.4 * errors[0]
    assert errors[1] < 0.05


def solve_linear(model, force, free):
    """Displacement under a small force, where forces are linear in it; vertices that are not free stay."""
    still, step = np.zeros_like(model.rest), 1e-6

    def resist(u):
        move = np.zeros_like(model.rest)
        move[free] = u.reshape(-1, 3)
        scale = step / np.abs(move).max()
        return -model.forces(model.rest + scale * move, still)[free].reshape(-1) / scale

    count = 3 * int(free.sum())
    found, left = cg(
        LinearOperator((count, count), resist, dtype=np.float64), force[free].reshape(-1), rtol=1e-6, maxiter=5000
    )
    assert left == 0
    displacement = np.zeros_like(model.rest)
    displacement[free] = found.reshape(-1, 3)
    return displacement


@pytest.mark.small
def test_masses_and_odd_bodies(rng):
    """Weigh what the volume weighs; take one tet, and bodies in several pieces."""
    model = block()
    assert model.masses.sum() == pytest.approx(0.3 * 0.2 * 0.2 * 1000.0)

    one = GreenStrain([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 1, 2, 3]], "rubber")
    two = GreenStrain(np.concatenate([one.rest, one.rest + 5.0]), [[0, 1, 2, 3], [4, 5, 6, 7]], "rubber")
    x = shaken(one, rng, 0.1)
    apart = two.forces(np.concatenate([x, one.rest + 5.0]), np.zeros((8, 3)))
    np.testing.assert_array_equal(one.masses, one.masses[0])
    np.testing.assert_allclose(apart[:4], one.forces(x, np.zeros((4, 3))), rtol=1e-12)
    assert np.abs(apart[4:]).max() < 1e-9 * np.abs(apart[:4]).max()


@pytest.mark.small
@MODELS
def test_a_body_pressed_into_a_point(kind):
    """Return an infinite or finite stable step for collapsed tets, never NaN."""
    model = block(kind)
    point = np.zeros_like(model.rest)

    assert model.stable_step(point) > 0.0
    assert np.isfinite(model.forces(point, point)).all()


@pytest.mark.small
@pytest.mark.tiny
@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_eigenvalues_in_closed_form(rng, scale):
    """Agree with a library on matrices with single, double and threefold eigenvalues, large and small."""
    turns = Rotation.random(300, rng=rng).as_matrix()
    values = rng.random((300, 3))
    values[::3, 1] = values[::3, 0]
    values[1::3, 1] = values[1::3, 2]
    values[::30] = 1.0
    matrices = scale * (turns * values[:, None, :]) @ turns.transpose(0, 2, 1)
    found = fem._eigenvalues([matrices[:, i, j] for i, j in SYMMETRIC])

    np.testing.assert_allclose(found.T / scale, np.sort(values, axis=1), rtol=0.0, atol=1e-7)


CORNERS = [[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]]


@pytest.mark.small
@pytest.mark.tiny
@pytest.mark.parametrize(
    ("tets", "sentence"),
    [
        ([[0, 1, 2, 4]], r"tets\[0\] is flat at rest \(volume 0\), expected a positive one; remove it"),
        (
            [[0, 1, 2, 3], [0, 2, 1, 3]],
            r"tets\[1\] is inside out at rest \(volume -0.166667\).*swap two of its corners",
        ),
        ([[0, 1, 2, 3]], r"rest\[4\] belongs to no tet and has no mass; remove unused vertices"),
        ([[0, 1, 2, 9]], r"tets\[0\] refers to vertex 9, but there are 5 vertices"),
        (np.zeros((0, 4), int), "there are no tets; a model needs at least one"),
    ],
)
@MODELS
def test_bodies_that_cannot_be_simulated(kind, tets, sentence):
    """Refuse tets without volume and vertices without mass, naming the first."""
    with pytest.raises(MeshError, match=sentence):
        kind(CORNERS, tets, "liver")


@pytest.mark.small
@pytest.mark.tiny
def test_nonsense_is_refused():
    """Refuse barriers that are none, unknown materials and masses that overflow."""
    corners, tets = CORNERS[:4], [[0, 1, 2, 3]]
    with pytest.raises(OptionError, match="barrier is -1, expected a number of at least 0"):
        GreenStrain(corners, tets, "liver", barrier=-1)
    with pytest.raises(OptionError, match="no material 'granite'"):
        GreenStrain(corners, tets, "granite")
    with pytest.raises(MeshError, match="masses are beyond the range of doubles"):
        GreenStrain(1e-107 * np.array(corners), tets, Material(1.0, 0.3, 1e-3))


@pytest.mark.small
def test_states_of_any_kind(rng):
    """Take lists, other types and read-only arrays; refuse other shapes and results that cannot be written."""
    model = block()
    x, v = shaken(model, rng, 0.01), np.zeros_like(model.rest)
    fixed = x.copy()
    fixed.flags.writeable = False
    for state in (x.tolist(), fixed, np.asfortranarray(x)):
        np.testing.assert_array_equal(model.forces(state, v), model.forces(x, v))
        assert model.energy(state) == model.energy(x)
    with pytest.raises(MeshError, match="v have 5 rows, but the body has 36 vertices"):
        model.forces(x, v[:5])
    with pytest.raises(OptionError, match=r"out is changed in place; .* found an array \(36, 3\) of float32"):
        model.forces(x, v, x.astype(np.float32))


@MODELS
def test_serial_kernels_give_the_same_bits(rng, kind):
    """Have the same bits from serial and threaded kernels, for several blocks."""
    model = block(kind, cells=(12, 12, 12))
    x, v = shaken(model, rng, 0.02), rng.normal(size=model.rest.shape)
    answers = []
    for variant in ("serial", "parallel"):
        with jit.launch_always(variant):
            answers.append((model.forces(x, v), model.energy(x), model.stable_step(x, v), model.inverted(x)))

    assert answers[0][0].tobytes() == answers[1][0].tobytes()
    assert answers[0][1:3] == answers[1][1:3]
    np.testing.assert_array_equal(answers[0][3], answers[1][3])


THREADS = """
import hashlib, numpy as np, impinge
from impinge import shapes
from impinge.deform.fem import Corotated, GreenStrain
from impinge.deform.integrate import Integrator
from impinge.deform.rigid_links import RigidLinks
mesh, dense = shapes.tet_box(14, 14, 14, size=0.2), shapes.icosphere(5, radius=0.1)
digests = []
for threads in (1, 2, 4):
    impinge.set_threads(threads)
    digest = hashlib.sha256()
    for kind in (GreenStrain, Corotated):
        model = kind(mesh.vertices, mesh.tets, "liver")
        assert len(model.tets) > 2 * 4096, "no work for threads"
        x, v = model.rest * [1.2, 0.9, 1.0], model.rest[:, ::-1].copy()
        report = Integrator(model).advance(x, v, 0.005, gravity=(0, 0, -9.81), fixed=[0, 1, 2])
        links = RigidLinks(model.rest, np.unique(mesh.surface.faces), dense.vertices)
        for part in (x, v, links.steer(x), np.array([model.energy(x), report.shortest_substep])):
            digest.update(part.tobytes())
    digests.append(digest.hexdigest())
assert len(set(digests)) == 1, digests
"""


def test_same_bits_for_any_number_of_threads():
    """Give the same bits on one, two and four threads, from forces to links."""
    environment = {**os.environ, "NUMBA_NUM_THREADS": "4"}
    ended = subprocess.run(
        [sys.executable, "-c", THREADS], env=environment, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
