"""Access to the incremental energy of a system: its value, gradient and matrix at any positions."""

from __future__ import annotations

import dataclasses

import numpy as np

from impinge.deform.fem import Corotated, GreenStrain, StableNeoHookean
from impinge.deform.implicit import assembly_kernels as assembly
from impinge.deform.implicit import newton_kernels as newton
from impinge.deform.implicit.system import ContactTerms, ImplicitSystem
from impinge.deform.materials import Material
from impinge.mesh import shapes

KINDS = [GreenStrain, Corotated, StableNeoHookean]
EARTH = (0.0, 0.0, -9.81)
SOFT = Material(1e4, 0.35, 1000.0)
STILL = Material(1e4, 0.35, 1000.0, 0.0, 0.0)


def block(kind=GreenStrain, material=SOFT, cells=(3, 2, 2), size=0.1, **options):
    mesh = shapes.tet_box(*cells, size=tuple(size * n for n in cells))
    return kind(mesh.vertices, mesh.tets, material, **options)


def contacts_of(rows, *, friction=0.0, block=None, **changes) -> ContactTerms:
    """Contacts from tuples (vertices, weights, offset, stiffness), normals along z; without ``block`` no slip."""
    count, entries = len(rows), sum(len(row[0]) for row in rows)
    weight = np.concatenate([np.asarray(row[1], dtype=float).reshape(-1, 3) for row in rows])
    terms = ContactTerms(
        start=np.cumsum([0, *(len(row[0]) for row in rows)]),
        vertex=np.concatenate([row[0] for row in rows]).astype(np.int64),
        weight=weight,
        block=np.zeros((entries, 3, 3)) if block is None else block,
        normal=np.tile([0.0, 0.0, 1.0], (count, 1)),
        offset=np.array([row[2] for row in rows], dtype=float),
        drift=np.zeros((count, 3)),
        stiffness=np.array([row[3] for row in rows], dtype=float),
        stick=np.full(count, 200.0),
        friction=np.full(count, friction),
        normal_force=np.zeros(count),
        friction_force=np.zeros((count, 3)),
        wall=np.full(count, np.inf),
    )
    return dataclasses.replace(terms, **changes)


class Incremental:
    """The minimised function of one island, by the kernels of the product."""

    def __init__(self, models, x0, h=1e-2, v0=None, contacts=None):
        self.system = ImplicitSystem(models)
        t, vertex = self.system._topology, self.system._numbering.vertex
        v0 = np.zeros_like(x0) if v0 is None else v0
        held = np.zeros(len(x0), dtype=bool)
        self.q = self.system._request(held, v0[vertex], contacts)
        self.t, self.s, self.h = t, self.system._scratch, h
        assert len(self.q.body_range) == 2
        self.q.numbers[:] = h, 1e-4, 1e-2, 20, 1000, 0.0, 0.0, 0.0
        self.s.x0[:] = x0[vertex].reshape(-1)
        self.s.target[:] = (x0 + h * v0)[vertex].reshape(-1)
        assembly.start_elements.serial(t, self.q, self.s, 0, len(self.q.task))

    def _place(self, x):
        self.s.x[:] = x[self.system._numbering.vertex].reshape(-1)

    def energy(self, x) -> float:
        """The minimised function."""
        self._place(x)
        return newton._evaluate(None, self.t, self.q, self.s, 0, False)

    def gradient(self, x) -> np.ndarray:
        """Its derivative."""
        self.energy(x)
        out = np.empty_like(x)
        out[self.system._numbering.vertex] = self.s.gradient.reshape(-1, 3)
        return out

    def matrix(self, x) -> np.ndarray:
        """Dense, column by column from the product of the solver."""
        self._place(x)
        newton._evaluate(None, self.t, self.q, self.s, 0, True)
        newton._assemble(None, self.t, self.q, self.s, 0)
        newton.model.place(None, self.t, self.q, self.s, 0)
        n, vertex = len(x), self.system._numbering.vertex
        columns = np.empty((3 * n, n, 3))
        for k in range(3 * n):
            p = np.zeros((n, 3))
            p.reshape(-1)[k] = 1.0
            self.s.p[:] = p[vertex].reshape(-1)
            newton.model.cg.product(None, self.t, self.q, self.s, 0)
            columns[k][vertex] = self.s.q.reshape(-1, 3)
        return columns.reshape(3 * n, 3 * n)


def differences(function, x, step):
    """The derivative of a function of positions by central differences, one row for each coordinate."""
    rows = []
    for n, c in np.ndindex(x.shape):
        there, back = x.copy(), x.copy()
        there[n, c] += step
        back[n, c] -= step
        rows.append((function(there) - function(back)) / (2.0 * step))
    return np.array(rows)
