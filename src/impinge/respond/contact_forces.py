"""Implicit contact forces on all soft bodies, stable for any stiffness and step.

Each contact is one *constraint*: row i of two sparse Jacobians G and S over the coarse vertices of all bodies, which
are stored one body after the other. Between two searches constraints are linear:

    d = depth + G dx + rate t     penetration; dx  displacement of vertices since the search, t  time since the search
    s = S v + drive               relative velocity of the two sides, shape (k, 3)

``rate`` and ``drive`` are the contributions of scripted bodies. For a sub-step h and velocities v⁺ without contacts:

1. Normal   p = k (d + h u) + c u, at least 0, with u = G v + rate the depth rate at the *end* of the sub-step. Springs
            and dampers are implicit, hence stable for any stiffness (Moreau's time stepping).
2. Friction The tangential force that stops slip at the end of the sub-step, at most μ p (Coulomb). Sticking contacts do
            not creep: there is no tangential spring.
3. Solve    both for all contacts by projected Gauss-Seidel sweeps over v = v⁺ - M⁻¹ (Gᵀ h p + Sᵀ friction). Sweeps
            start from the forces of the previous sub-step and end when none changes a speed by more than ``TOLERANCE``
            times the largest speed.
4. Apply    F = -Gᵀ p - Sᵀ friction over the whole sub-step. Action equals reaction to rounding.

Active      A contact is active in a sub-step if its penetration would be positive at the end without contacts.
Damping     c = k T with T the ``relax`` of the contact. Damping acts only on touching sides and never pulls.
Release     Penetration not caused by relative motion is released gradually. A search may find a contact deeper than
            the motion explains: a new contact, or one whose exit direction has changed. Applying that depth at once
            would create energy. A contact starts with the depth of its warm start, 0 if it is new; the rest is withheld
            and returns at the rate ``release``, continuously in time, because a jump at the next search would be an
            impact on bodies deep in each other. It returns up to ``release_limit`` plus the depth that drives
            separation against the damper at that rate, or at ``release_speed``; beyond it, opposing contacts would
            store energy; in implicit steps, longer than the damper's time, also the travel at that rate. Bodies that
            start inside one another therefore separate slowly. Friction is off where more
            than ``friction_slack`` is withheld.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats
from impinge.respond import contact_forces_kernels as kernels

TOLERANCE = 1e-3
"""Largest change of a speed in the last sweep, relative to the largest speed of a vertex without contacts.

The warm start makes resting contacts converge over successive sub-steps.
"""
MAX_SWEEPS = 50
"""Sweeps per sub-step; the next sub-step continues from the residual through its warm start."""
AT_LIMIT = 1e-9
"""Relative distance from its limit below which friction is at it: rounding."""
RELEASE = 5.0
"""Rate at which withheld penetration returns [1 / s]: within some tenths of a second."""


class SparseRows(NamedTuple):
    """Rows of a sparse matrix on coarse vertices; row i has the entries start[i] to start[i + 1]."""

    start: NDArray[np.int64]
    vertex: NDArray[np.int64]
    weight: Floats
    """A vector per entry, shape (m, 3), a matrix, shape (m, 3, 3), or a number, shape (m,)."""

    def rows(self, ids: NDArray[np.int64]) -> SparseRows:
        """Return the rows ``ids``."""
        count = np.diff(self.start)[ids]
        start = np.concatenate([[0], np.cumsum(count)])
        entry = np.repeat(self.start[ids] - start[:-1], count) + np.arange(start[-1])
        return SparseRows(start, self.vertex[entry], self.weight[entry])


class ContactFeatures(NamedTuple):
    """Features of the surfaces that contacts stand for, for reports; entry i of each column is contact i."""

    kind: NDArray[np.int8]
    """A ``ContactKind``, shape (k,)."""
    feature_a: NDArray[np.int64]
    """Vertex, edge, face or sphere of a, by kind; -1 without one, shape (k,)."""
    feature_b: NDArray[np.int64]
    area: Floats
    """Surface that a contact stands for [m²], shape (k,)."""
    layer: Floats
    """Distance of the sides at which the depth is 0 [m], shape (k,)."""
    vertices: SparseRows
    """Surface vertices of the nearest points, shape (m,): weights are positive on side a and negative on side b."""

    def rows(self, ids: NDArray[np.int64]) -> ContactFeatures:
        """Return the rows ``ids``."""
        columns = {name: getattr(self, name)[ids] for name in self._fields if name != "vertices"}
        return ContactFeatures(**columns, vertices=self.vertices.rows(ids))


def unknown_features(count: int) -> ContactFeatures:
    """Return features of contacts about which only forces are known."""
    none, unknown = np.full(count, -1), np.full(count, np.nan)
    rows = SparseRows(np.zeros(count + 1, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))
    return ContactFeatures(np.full(count, -1, dtype=np.int8), none, none, unknown, np.zeros(count), rows)


@dataclass(frozen=True, eq=False)
class ContactConstraints:
    """Contacts as linear functions of the coarse vertices of all bodies; entry i of each array is contact i."""

    normal_jacobian: SparseRows
    """G: depth rate per vertex velocity."""
    slip_jacobian: SparseRows
    """S: relative velocity of the sides per vertex velocity."""
    normal: Floats
    """Unit vectors from a to b, shape (k, 3)."""
    depth: Floats
    """Penetration at the search, negative where the sides are apart, shape (k,)."""
    rate: Floats
    """Depth rate due to scripted bodies, shape (k,)."""
    drive: Floats
    """Relative velocity due to scripted bodies, shape (k, 3)."""
    stiffness: Floats
    """Force per depth, shape (k,)."""
    relax: Floats
    """Damping per stiffness [s], shape (k,)."""
    scale: Floats
    """Force on a body per unit of normal force, shape (k,): 1 for lengths, less where merged normals differ, an area
    for volumes."""
    release: Floats
    """Rate at which withheld penetration returns [1 / s], shape (k,); 0 where only changes of depth are meaningful."""
    volumetric: NDArray[np.bool_]
    """Whether depths are volumes, shape (k,)."""
    key: NDArray[np.int64]
    """Identity of a contact across searches, shape (k,)."""
    body_a: NDArray[np.int64]
    """Index of the first body in the world, -1 for the ground, shape (k,)."""
    body_b: NDArray[np.int64]
    wall: Floats
    """Thickness of the contact layer, which becomes stiffer in implicit steps as the depth nears it; infinite without a
    layer, shape (k,)."""
    features: ContactFeatures | None = None
    """Where the contacts are on the surfaces; None if the search reports that itself."""

    def __len__(self) -> int:
        return len(self.depth)

    def of_pairs(self, pairs: Collection[tuple[int, int]]) -> ContactConstraints:
        """Return the constraints between the given pairs of bodies, in either order."""
        wanted = {frozenset(pair) for pair in pairs}
        both = zip(self.body_a.tolist(), self.body_b.tolist())
        ids = np.array(
            [k for k, pair in enumerate(both) if frozenset(pair) in wanted] if wanted else [], dtype=np.int64
        )
        columns = {name: getattr(self, name)[ids] for name in COLUMNS}
        features = None if self.features is None else self.features.rows(ids)
        return ContactConstraints(
            self.normal_jacobian.rows(ids), self.slip_jacobian.rows(ids), features=features, **columns
        )


COLUMNS = (
    "normal", "depth", "rate", "drive", "stiffness", "relax", "scale", "release", "volumetric", "key", "body_a",
    "body_b", "wall",
)  # fmt: skip
"""Arrays of ``ContactConstraints`` with one entry per contact."""


class WarmStart(NamedTuple):
    """Solution of the last sub-step, by contact key: the initial guess after the next search."""

    key: NDArray[np.int64]
    """Sorted, shape (k,)."""
    normal_force: Floats
    """Shape (k,)."""
    friction_force: Floats
    """Shape (k, 3)."""
    depth: Floats
    """Penetration that the springs acted on, shape (k,)."""


def no_warm_start() -> WarmStart:
    """Return a warm start without contacts."""
    return WarmStart(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros((0, 3)), np.zeros(0))


class ContactForces:
    """Forces of the constraints of one search; ``inverse_masses`` are 0 for vertices with prescribed motion."""

    def __init__(
        self, constraints: ContactConstraints, inverse_masses: Floats, *, friction: float, warm_start: WarmStart,
        friction_slack: float = np.inf, release_limit: Floats | float = np.inf, release_speed: float = np.inf,
        long_steps: bool = False,
    ) -> None:  # fmt: skip
        self.constraints, self._inverse_mass = constraints, inverse_masses
        count, depth = len(constraints), constraints.depth
        self._response_n, self.slip_response = np.zeros(count), np.zeros(count)
        kernels.own_responses(
            constraints.normal_jacobian, constraints.slip_jacobian, inverse_masses,
            np.zeros((len(inverse_masses), 3, 3)), np.zeros((3, 3)), self._response_n, self.slip_response,
        )  # fmt: skip
        self.normal_force, self.friction_force, previous = _lookup(warm_start, constraints.key)
        """Of each contact in the last sub-step; friction acts on side b."""
        self._unit = np.where(constraints.volumetric, constraints.scale, 1.0)
        self._withheld = np.clip(depth - previous, 0.0, np.maximum(depth, 0.0))
        speed = np.minimum(constraints.release * self._withheld, release_speed * self._unit)
        self._releasable = np.maximum(
            release_limit * self._unit + constraints.relax * speed - (depth - self._withheld), 0.0
        )
        """Withheld penetration that may return before the next search, shape (k,)."""
        self._release_speed = speed if long_steps else np.zeros(count)
        """Speed at which that grows: a step that is long for the damper follows the depth at once, shape (k,)."""
        self.normal_impulse, self.friction_impulse = np.zeros(count), np.zeros((count, 3))
        """Of each contact since the search; friction acts on side b."""
        self.friction = np.where(self._withheld <= friction_slack * self._unit, float(friction), 0.0)
        """Coefficient of each contact, shape (k,)."""
        self.friction_force[self.friction == 0.0] = 0.0
        self.friction_limit: Floats | None = None
        """Largest friction force of each contact in the last step, if the solver knows it; None: μ times the normal
        force."""

    def solve(self, h: float, dx: Floats, free: Floats, since: float) -> Floats:
        """Return forces on all coarse vertices over a sub-step ``h`` that starts ``since`` after the search, (n, 3).

        ``free`` are the velocities at its end without contacts.
        """
        rows = self.constraints
        if not len(rows):
            return np.zeros_like(free)
        force, normal_force, friction_force = np.zeros_like(free), self.normal_force.copy(), self.friction_force.copy()
        kernels.solve(
            h, since, MAX_SWEEPS, TOLERANCE, rows.normal_jacobian, rows.slip_jacobian, self._inverse_mass, rows.normal,
            self.released_depth(since), rows.stiffness, rows.relax, self._response_n, self.slip_response, rows.scale,
            self._unit, rows.rate, rows.drive, self.friction, dx, free, normal_force, friction_force, force,
        )  # fmt: skip
        self.normal_force, self.friction_force = normal_force, friction_force
        return force

    def released_depth(self, since: float) -> Floats:
        """Depths at the search without the part that is still withheld ``since`` after it, shape (k,)."""
        released = (1.0 - np.exp(-since * self.constraints.release)) * self._withheld
        most = self._releasable + since * self._release_speed
        return np.asarray(self.constraints.depth - self._withheld + np.minimum(released, most))

    def released_wall(self, since: float) -> Floats:
        """Walls, less the part of the depth that is still withheld, shape (k,)."""
        return np.asarray(self.constraints.wall - (self.constraints.depth - self.released_depth(since)))

    def depth_rates(self, v: Floats) -> Floats:
        """G v, shape (k,)."""
        out = np.zeros(len(self.constraints))
        kernels.depth_rates(self.constraints.normal_jacobian, v, out)
        return out

    def spread(self, impulse: Floats) -> Floats:
        """Impulses on coarse vertices of normal impulses (k,), shape (n, 3)."""
        out, rows = np.zeros((len(self._inverse_mass), 3)), self.constraints.normal_jacobian
        each = np.repeat(impulse, np.diff(rows.start))
        np.add.at(out, rows.vertex, -each[:, None] * rows.weight)
        return out

    def energy(self, dx: Floats, since: float) -> float:
        """Energy of the contact springs [J]."""
        depth = np.maximum(self._spring_depth(dx, since), 0.0)
        energy = 0.5 * self.constraints.stiffness * depth**2
        layered = np.flatnonzero((depth > 0.0) & np.isfinite(self.constraints.wall))
        if len(layered):
            kernels.layer_energies(layered, self.constraints.stiffness, self.released_wall(since), depth, energy)
        return float(energy.sum())

    def _spring_depth(self, dx: Floats, since: float) -> Floats:
        """Penetration that the springs act on now, shape (k,)."""
        return np.asarray(self.released_depth(since) + self.depth_rates(dx) + since * self.constraints.rate)

    def deepest(self, dx: Floats, since: float) -> float:
        """Largest penetration including what is withheld; volumes count by their total divided by the total area."""
        rows, active = self.constraints, self.normal_force > 0.0
        depth = self.depths(dx, since)
        lengths, volumes = active & ~rows.volumetric, active & rows.volumetric
        mean = float(depth[volumes].sum() / rows.scale[volumes].sum()) if volumes.any() else 0.0
        return max(float(depth[lengths].max(initial=0.0)), mean)

    def depths(self, dx: Floats, since: float) -> Floats:
        """Penetration including what is withheld, ``since`` after the search; volumes for volumetric contacts, (k,)."""
        rows = self.constraints
        return np.asarray(rows.depth + self.depth_rates(dx) + since * rows.rate)

    @property
    def is_sticking(self) -> NDArray[np.bool_]:
        """Whether friction is below its limit, shape (k,)."""
        limit = self.friction_limit
        if limit is None:
            limit = self.friction * self.constraints.scale * self.normal_force
        return np.asarray(np.sqrt((self.friction_force**2).sum(axis=1)) < (1.0 - AT_LIMIT) * limit)

    def warm_start(self, dx: Floats, since: float) -> WarmStart:
        """Return the warm start of the next search, ``since`` after this one."""
        depth, key = self._spring_depth(dx, since), self.constraints.key
        active = np.flatnonzero((self.normal_force > 0.0) | (depth > 0.0))
        order = active[np.argsort(key[active], kind="stable")]
        return WarmStart(
            key[order], self.normal_force[order], self.friction_force[order], np.maximum(depth[order], 0.0)
        )

    def constraints_after(self, dx: Floats, since: float) -> ContactConstraints:
        """Return the constraints with the depths they have ``since`` after the search."""
        return replace(self.constraints, depth=self.depths(dx, since))

    def accumulate(self, h: float) -> None:
        """Add the forces of the last solve, over a sub-step ``h``, to the impulses since the search."""
        self.normal_impulse += h * self.normal_force
        self.friction_impulse += h * self.friction_force

    def impulse_on_a(self) -> Floats:
        """Impulse of each contact on side a since the search, shape (k, 3)."""
        return self._on_a(self.normal_impulse, self.friction_impulse)

    def forces_on_a(self) -> Floats:
        """Force of each contact on side a in the last solve, shape (k, 3)."""
        return self._on_a(self.normal_force, self.friction_force)

    def _on_a(self, normal: Floats, friction: Floats) -> Floats:
        return -(normal * self.constraints.scale)[:, None] * self.constraints.normal - friction

    def work(self) -> float:
        """Work of scripted bodies since the search [J]."""
        rows = self.constraints
        return float((self.normal_impulse * rows.rate).sum() + (self.friction_impulse * rows.drive).sum())


def _lookup(warm_start: WarmStart, key: NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
    """Normal force, friction force and depth of the contacts ``key`` in a warm start, 0 for new contacts."""
    normal, friction, depth = np.zeros(len(key)), np.zeros((len(key), 3)), np.zeros(len(key))
    if len(warm_start.key) and len(key):
        place = np.minimum(np.searchsorted(warm_start.key, key), len(warm_start.key) - 1)
        found = warm_start.key[place] == key
        old = place[found]
        normal[found], friction[found] = warm_start.normal_force[old], warm_start.friction_force[old]
        depth[found] = warm_start.depth[old]
    return normal, friction, depth
