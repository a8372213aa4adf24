"""Mass-spring sheets: cloth as masses at the vertices of a triangle mesh ([Provot1995], [VanGelder1998]).

1. Stretch. Each edge e is a spring of its length L at rest, with k = Y Σ A_t / L² over the triangles t beside it, which
            is nearest to a membrane of the modulus Y ([VanGelder1998]: "triangle area over edge length squared").
2. Bend.    A spring joins the two vertices opposite an inner edge ([Provot1995], flexion springs), with
            ``bending`` times the stiffness of the edge.
3. Damp.    Each spring resists changes of its length with c = k T; T follows from ``damping``, the damping
            ratio of the fastest oscillation. Air drag takes ``drag`` of the velocity per second.

Masses      a third of the triangles around each vertex, times ``density`` per area.
Stable step h ω ≤ R and h d ≤ R as in ``fem``: ω² ≤ Λ = max over vertices of 2 Σ k / m (rows of M⁻¹ K; an extended
            spring is never stiffer than k, a compressed one only buckles), d = Λ T + drag.
Departures  [Provot1995] limits how far springs stretch after each step, since its steps allow soft springs only. Here
            springs keep their stiffness, and steps are as short as they require.
Guarantee   Forces of springs sum to zero, and so do their moments, up to rounding; damping and drag never add energy.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from impinge.checks import Floats, Ints, as_indices, as_number, as_positions, check_range
from impinge.deform import springs_kernels as kernels
from impinge.deform.fem import SAFETY, STABLE_RADIUS
from impinge.errors import MeshError, OptionError

NO_TETS: Ints = np.zeros((0, 4), dtype=np.int32)


class SpringSheet:
    """Springs along and across the edges of a triangle mesh; a ``ReducedModel`` without tets.

    stretching  Y: force per width that would double a length [N / m]
    bending     stiffness of the springs across edges, as a share of that of the edge
    density     mass per area [kg / m²]
    damping     damping ratio of the fastest oscillation
    drag        share of the velocity that air drag takes, per second
    """

    def __init__(
        self, rest: ArrayLike, faces: ArrayLike, *, stretching: float = 100.0, bending: float = 0.02,
        density: float = 0.2, damping: float = 0.3, drag: float = 0.5,
    ) -> None:  # fmt: skip
        for name, value in (("stretching", stretching), ("density", density)):
            as_number(value, name, "a positive number", above=0.0, below=math.inf)
        for name, value in (("bending", bending), ("damping", damping), ("drag", drag)):
            as_number(value, name, "a number from 0", least=0.0, below=math.inf)
        self.rest: Floats = as_positions(rest, name="rest").copy()
        self.faces: Ints = as_indices(faces, name="faces", columns=3).copy()
        check_range(self.faces, len(self.rest), "faces")
        self.tets = NO_TETS
        corner = self.rest[self.faces]
        normal = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
        area: Floats = 0.5 * np.linalg.norm(normal, axis=1)
        shares = np.repeat(density * area / 3.0, 3)
        self.masses: Floats = np.bincount(self.faces.reshape(-1), shares, len(self.rest)).astype(np.float64)
        if not (self.masses > 0.0).all():
            lone = int(np.argmin(self.masses > 0.0))
            raise MeshError(f"vertex {lone} belongs to no triangle with an area and has no mass; remove it")
        self.size = math.sqrt(float(area.sum()))
        """Side of a square of the same area [m]."""
        # Springs along edges, then those across inner ones.
        x, f = self.rest, self.faces.astype(np.int64)
        sides = np.sort(np.concatenate([f[:, [1, 2]], f[:, [2, 0]], f[:, [0, 1]]]), axis=1)
        opposite, beside = f.T.reshape(-1), np.tile(area, 3)
        edges, edge = np.unique(sides, axis=0, return_inverse=True)
        edge = edge.reshape(-1)
        length_sq = ((x[edges[:, 1]] - x[edges[:, 0]]) ** 2).sum(axis=1)
        if not (length_sq > 0.0).all():
            first = edges[int(np.argmin(length_sq))]
            raise MeshError(f"vertices {first[0]} and {first[1]} coincide but are joined by an edge; merge them")
        k = stretching * np.bincount(edge, beside, len(edges)) / length_sq
        order = np.argsort(edge, kind="stable")
        place = np.searchsorted(edge[order], np.arange(len(edges)))
        inner = np.flatnonzero(np.bincount(edge, minlength=len(edges)) == 2)
        across = np.stack([opposite[order[place[inner]]], opposite[order[place[inner] + 1]]], axis=1)
        apart = across[:, 0] != across[:, 1]
        self.ends = np.concatenate([edges, np.sort(across[apart], axis=1)])
        self.stiffness: Floats = np.concatenate([k, bending * k[inner[apart]]])
        self.lengths = np.linalg.norm(self.rest[self.ends[:, 1]] - self.rest[self.ends[:, 0]], axis=1)
        at_vertex = np.bincount(self.ends.reshape(-1), np.repeat(self.stiffness, 2), len(self.rest))
        fastest_sq = float((2.0 * at_vertex / self.masses).max())
        if not 0.0 < fastest_sq < math.inf:
            raise OptionError(
                f"stretching is {stretching:g} N/m on a sheet of {float(self.masses.sum()):g} kg: its squared "
                f"frequency is {fastest_sq:g}, beyond the range of doubles; choose another stretching or density"
            )
        relax = 2.0 * damping / math.sqrt(fastest_sq)
        self._step = SAFETY * STABLE_RADIUS / max(math.sqrt(fastest_sq), fastest_sq * relax + drag)
        self.drag: Floats = drag * self.masses
        # Each spring from both ends, in the order of vertices.
        first, second = np.concatenate([self.ends, self.ends[:, ::-1]]).T
        order = np.argsort(first, kind="stable")
        each = np.concatenate([np.arange(len(self.stiffness))] * 2)[order]
        self._other = second[order].astype(np.int32)
        self._start = np.concatenate([[0], np.cumsum(np.bincount(first, minlength=len(self.rest)))]).astype(np.int64)
        self._spring_length, self._spring_k = self.lengths[each], self.stiffness[each]
        self._spring_damping = relax * self._spring_k
        self.damping: Floats = relax * self.stiffness

    def forces(self, x: Floats, v: Floats, out: Floats | None = None) -> Floats:
        """Forces on vertices at ``x`` that move with ``v``, shape (n, 3)."""
        out = np.zeros_like(self.rest) if out is None else out
        kernels.spring_forces.over(len(self._other))(
            np.ascontiguousarray(x), np.ascontiguousarray(v), self._start, self._other, self._spring_length,
            self._spring_k, self._spring_damping, self.drag, out,
        )  # fmt: skip
        return out

    def energy(self, x: Floats) -> float:
        """Energy of all springs [J]."""
        now = np.linalg.norm(x[self.ends[:, 1]] - x[self.ends[:, 0]], axis=1)
        return 0.5 * float((self.stiffness * (now - self.lengths) ** 2).sum())

    def stable_step(self, x: Floats | None = None, v: Floats | None = None) -> float:  # noqa: ARG002
        """Longest stable step of the classical Runge-Kutta method [s], the same in every state."""
        return self._step

    def inverted(self, x: Floats) -> Ints:  # noqa: ARG002
        """None: there are no tets."""
        return np.zeros(0, dtype=np.int32)
