"""Soft bodies: forces of a million tets, a million links, and frames of two livers.

Forces      Ours against the same formulas in NumPy (``einsum`` over all tets), whose answer must agree first, and
            against memory bandwidth: reading once, on all cores, the necessary input (four ids, a 3 by 3
            matrix and a volume per tet, a position and a velocity per vertex) and writing a force per vertex. The
            claims: at least 60 times as fast as NumPy, at most 5.5 times as long as memory.
Links       A million dense vertices against reading and writing as many positions. The claim: at most 4 times as long.
Frames      Two bodies of 0.2 m and 2,000 tets, fixed on one side under gravity, each driving a surface of 50,000
            triangles by rigid links: 1/60 s of motion in as many steps as needed. The claim: 45 frames per second
            of liver. The note has the real-time factor: seconds of motion per second of computing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks import soft_bodies_kernels as kernels
from benchmarks.measure import Row, interleaved
from impinge.backend import jit
from impinge.checks import Floats
from impinge.deform.barycentric import Barycentric
from impinge.deform.fem import BARRIER_FROM, Corotated, GreenStrain
from impinge.deform.integrate import Integrator
from impinge.deform.materials import Material
from impinge.deform.rigid_links import RigidLinks
from impinge.mesh import shapes

CELLS, CELLS_QUICK = 59, 8
"""Cubes along each side of the body whose forces are timed; five tets each."""
MERIDIANS, MERIDIANS_QUICK = 1000, 40
"""Of the sphere whose vertices are linked."""
FRAME = 1.0 / 60.0
"""Motion per frame [s]."""
MATERIALS = ("liver", "jelly", "rubber")


def run(*, quick: bool = False) -> list[Row]:
    """Time forces, links and frames."""
    return [*_forces(quick), *_links(quick), *_frames(quick)]


# forces ------------------------------------------------------------------------------------------------------


def _forces(quick: bool) -> list[Row]:
    cells = CELLS_QUICK if quick else CELLS
    mesh = shapes.tet_box(cells, cells, cells, size=0.2)
    green, corotated = GreenStrain(mesh.vertices, mesh.tets, "liver"), Corotated(mesh.vertices, mesh.tets, "liver")
    rng = np.random.default_rng(1)
    x = green.rest + 0.02 / cells * rng.normal(size=green.rest.shape)
    v, out = rng.normal(size=x.shape), np.zeros_like(x)
    peer = NumpyForces(green)
    expected, found = peer.forces(x, v), green.forces(x, v)
    if not np.allclose(found, expected, rtol=0.0, atol=1e-12 * np.abs(expected).max()):
        raise AssertionError("NumPy has other forces than ours")
    scene = f"forces, {len(green.tets) / 1e3:.4g}k tets"
    note = f"{len(x)} vertices, {jit.thread_count()} threads"
    rounds = 3 if quick else 30
    against_memory = interleaved(
        scene,
        {
            "impinge, GreenStrain": lambda _: green.forces(x, v, out),
            "impinge, Corotated": lambda _: corotated.forces(x, v, out),
            "memory alone": _stream(green, x, v, out),
        },
        [None],
        rounds=rounds,
        note=note,
    )
    against_numpy = interleaved(
        scene,
        {"impinge, GreenStrain": lambda _: green.forces(x, v, out), "NumPy einsum": lambda _: peer.forces(x, v)},
        [None],
        rounds=min(rounds, 3),
        note=note,
    )
    ours, memory, numpy_row = against_memory[0], against_memory[-1], against_numpy[1]
    figure = f"{ours.min_ms / memory.min_ms:.2f} times memory, NumPy takes {numpy_row.ratio:.0f} times as long"
    return [replace(ours, note=f"{figure}; {note}"), *against_memory[1:], numpy_row]


class NumpyForces:
    """The formulas of ``GreenStrain``, barrier included, over all tets at once."""

    def __init__(self, model: GreenStrain) -> None:
        self.tets, self.count, self.material = model.tets, len(model.rest), model.material
        edges = (model.rest[model.tets[:, 1:]] - model.rest[model.tets[:, :1]]).transpose(0, 2, 1)
        self.inverse: Floats = np.linalg.inv(edges).astype(np.float64, copy=False)
        self.volume: Floats = (np.linalg.det(edges) / 6.0).astype(np.float64, copy=False)

    def forces(self, x: Floats, v: Floats) -> Floats:
        """Elastic and viscous forces, shape (n, 3)."""
        m = self.material
        f, rate = self._gradient(x), self._gradient(v)
        product = np.einsum("tki,tkj->tij", f, rate)
        s = _hooke(0.5 * (np.einsum("tki,tkj->tij", f, f) - np.eye(3)), m.lame_lambda, m.lame_mu)
        s += _hooke(0.5 * (product + product.transpose(0, 2, 1)), m.damping_dilation, m.damping_shear)
        cofactor = np.stack([np.cross(f[:, k - 2], f[:, k - 1]) for k in range(3)], axis=1)
        below = np.minimum(np.einsum("tk,tk->t", f[:, 0], cofactor[:, 0]) - BARRIER_FROM, 0.0)
        p = np.einsum("tik,tkj->tij", f, s)
        p += np.einsum("t,tij->tij", (m.lame_lambda + 2.0 * m.lame_mu) * below, cofactor)
        force = -np.einsum("t,tik,tjk->tji", self.volume, p, self.inverse)
        corners = np.concatenate([-force.sum(axis=1, keepdims=True), force], axis=1)
        flat = self.tets.reshape(-1)
        columns = [np.bincount(flat, corners[:, :, c].reshape(-1), minlength=self.count) for c in range(3)]
        return np.stack(columns, axis=1)

    def _gradient(self, x: Floats) -> Floats:
        gradient: Floats = np.einsum("tkc,tkl->tcl", x[self.tets[:, 1:]] - x[self.tets[:, :1]], self.inverse)
        return gradient


def _hooke(strain: Floats, lam: float, mu: float) -> Floats:
    stress: Floats = lam * np.einsum("tkk,ij->tij", strain, np.eye(3)) + 2.0 * mu * strain
    return stress


def _stream(model: GreenStrain, x: Floats, v: Floats, out: Floats) -> Callable[[object], object]:
    """Read the input of the forces once, and write their output."""
    shapes_and_volumes = np.ones(10 * len(model.tets), dtype=np.int64)  # zeros would be one page of memory
    ids = np.ones(2 * len(model.tets), dtype=np.int64)  # four int32 each
    velocities = v.reshape(-1).view(np.int64)
    bits = np.zeros(kernels.PARTS, dtype=np.int64)

    def step(_: object) -> None:
        for rows in (shapes_and_volumes, ids, velocities):
            kernels.read_all.over(len(rows))(rows, bits)
        kernels.copy_rows.over(len(x))(x, out)

    return step


# links -------------------------------------------------------------------------------------------------------


def _links(quick: bool) -> list[Row]:
    around = MERIDIANS_QUICK if quick else MERIDIANS
    coarse = shapes.tet_box(12, 12, 12, size=2.1)
    dense = np.array(shapes.uv_sphere(around, around + 1).vertices)
    links = RigidLinks(coarse.vertices, np.unique(coarse.surface.faces), dense)
    weights = Barycentric(coarse.vertices, coarse.tets, dense)
    rng = np.random.default_rng(1)
    x, out = coarse.vertices + 0.01 * rng.normal(size=coarse.vertices.shape), np.zeros_like(dense)
    return interleaved(
        f"embedding, {len(dense) / 1e3:.4g}k vertices",
        {
            "memory copy": lambda _: kernels.copy_rows.over(len(dense))(dense, out),
            "rigid links": lambda _: links.steer(x, out),
            "barycentric": lambda _: weights.steer(x, out),
        },
        [None],
        rounds=3 if quick else 30,
        note=f"{jit.thread_count()} threads",
    )


# frames ------------------------------------------------------------------------------------------------------


def _frames(quick: bool) -> list[Row]:
    rows = []
    for name in MATERIALS:
        bodies = [_Body(name), _Body(name)]
        row = interleaved(
            f"2 bodies of 1,960 tets and 49.6k triangles, {name}",
            {"impinge": lambda bodies: [body.frame() for body in bodies]},
            [bodies],
            rounds=2 if quick else 60,
        )[0]
        factor = f"{1e3 / row.median_ms:.3g} frames per second, {FRAME / (1e-3 * row.median_ms):.3g} times real time"
        rows.append(replace(row, note=f"{factor}; at most {bodies[0].substeps} steps a frame; {_described(bodies[0])}"))
    return rows


class _Body:
    """A body that hangs from one side, and the surface that it drives."""

    def __init__(self, material: str) -> None:
        mesh = shapes.tet_box(7, 7, 8, size=0.2)
        self.model = GreenStrain(mesh.vertices, mesh.tets, material)
        self.surface = shapes.uv_sphere(158, 158, radius=0.1)
        self.links = RigidLinks(mesh.vertices, np.unique(mesh.surface.faces), self.surface.vertices)
        self.x, self.v = self.model.rest.copy(), np.zeros_like(self.model.rest)
        self.fixed = self.x[:, 0] < -0.099
        self.integrator = Integrator(self.model)
        self.dense = np.zeros_like(self.surface.vertices)
        self.substeps = 0
        """Maximum number of steps of a frame."""

    def frame(self) -> int:
        """Advance by one frame; return its number of steps."""
        report = self.integrator.advance(self.x, self.v, FRAME, gravity=(0.0, 0.0, -9.81), fixed=self.fixed)
        self.surface.update(self.links.steer(self.x, self.dense))
        self.substeps = max(self.substeps, report.substeps)
        return report.substeps


def _described(body: _Body) -> str:
    m: Material = body.model.material
    return f"E {m.youngs_modulus:g} Pa, ν {m.poisson_ratio:g}, ρ {m.density:g} kg/m³"
