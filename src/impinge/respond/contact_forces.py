"""Forces of many contacts on all soft bodies together, stable for any stiffness and step.

Contacts are *rows* on the coarse vertices of all bodies, one behind the other. Between two searches they are linear:

    d = depth + G dx + rate t     how deep; dx  how far vertices have moved since the search, t  since then
    s = S v + drive               how fast the two sides slide against each other, shape (k, 3)

``rate`` and ``drive`` come from bodies whose motion is given. For a sub-step h from the velocities v⁺ without contacts:

1. Push    p = k (d + h u) + c u, not less than 0, u = G v + rate the speed at which the contact deepens at the *end* of
           the step: springs and dampers are implicit, so that no stiffness is too large (Moreau's time stepping).
2. Rub     The force across the normal that stops the sliding at the end of the step, but at most μ p (Coulomb). What
           holds, holds still: there is no spring that creeps.
3. Solve   both for all contacts at once by projected Gauss-Seidel sweeps over v = v⁺ - M⁻¹ (Gᵀ h p + Sᵀ rub), from the
           forces of the sub-step before, until no sweep changes any speed by more than ``TOLERANCE`` of the largest.
4. Act     F = -Gᵀ p - Sᵀ rub over the whole sub-step: what one body receives the other loses, to rounding.

Touch       A contact takes part in a sub-step if it would be deeper than 0 at its end without contacts.
Damping     c = k T, T the ``relax`` of the row: c does not act before the sides touch, and never pulls.
Forgive     A search may find a contact deeper than was foreseen: a new one, or one whose way out has changed. To push
            with all of that at once would make energy from nothing. A contact is given as much depth as it was last
            seen with, none if it is new, and the rest comes back at the rate ``release``: evenly as time passes, since
            all at the next search would be a blow to bodies deep in each other; and no farther than to ``most`` and
            what it takes to part against the damper at that rate, or at the speed ``parting``: contacts that push
            against each other would store the rest. Bodies that begin inside one another are thus parted gently. Where
            more than ``slack`` is forgiven, friction does not hold them back.
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
"""Change of a speed in the last sweep, relative to the largest speed of a vertex without contacts.

Sub-steps begin with the forces of the one before: what rests comes nearer to its balance from one to the next.
"""
MOST_SWEEPS = 50
"""Sweeps of a sub-step; what is left goes on in the next, which begins with its forces."""
RELEASE = 5.0
"""How fast a depth comes back that was forgiven [1 / s]: gently, within some tenths of a second."""


class Sums(NamedTuple):
    """Rows of a sparse matrix on coarse vertices: row i has the entries start[i] to start[i + 1]."""

    start: NDArray[np.int64]
    vertex: NDArray[np.int64]
    weight: Floats
    """Of each entry a vector, shape (m, 3), or a matrix, shape (m, 3, 3)."""

    def rows(self, ids: NDArray[np.int64]) -> Sums:
        """Some of the rows."""
        count = np.diff(self.start)[ids]
        start = np.concatenate([[0], np.cumsum(count)])
        entry = np.repeat(self.start[ids] - start[:-1], count) + np.arange(start[-1])
        return Sums(start, self.vertex[entry], self.weight[entry])


@dataclass(frozen=True, eq=False)
class ContactRows:
    """Contacts as linear functions of the coarse vertices of all bodies."""

    push: Sums
    """G: how a contact deepens with its vertices."""
    slide: Sums
    """S: how its sides slide."""
    normal: Floats
    """Unit vectors from a to b, shape (k, 3)."""
    depth: Floats
    """At the search; negative where the sides are apart, shape (k,)."""
    rate: Floats
    drive: Floats
    stiffness: Floats
    """Force per depth, shape (k,)."""
    relax: Floats
    """Damping per stiffness [s], shape (k,)."""
    scale: Floats
    """Force on a body per push: 1 for lengths, less if normals of a row differ, the area for volumes, shape (k,)."""
    release: Floats
    """How fast a depth comes back that was forgiven [1 / s]; 0 where depths mean something by their changes only."""
    volumetric: NDArray[np.bool_]
    """Whether depths are volumes, shape (k,)."""
    key: NDArray[np.int64]
    """The same while the same things touch, shape (k,)."""
    body_a: NDArray[np.int64]
    """Number of the first body in the world, -1 for the ground, shape (k,)."""
    body_b: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.depth)

    def of_pairs(self, pairs: Collection[tuple[int, int]]) -> ContactRows:
        """The rows of some pairs of bodies, each given in any order."""
        wanted = {frozenset(pair) for pair in pairs}
        both = zip(self.body_a.tolist(), self.body_b.tolist())
        ids = np.array(
            [k for k, pair in enumerate(both) if frozenset(pair) in wanted] if wanted else [], dtype=np.int64
        )
        columns = {name: getattr(self, name)[ids] for name in COLUMNS}
        return ContactRows(push=self.push.rows(ids), slide=self.slide.rows(ids), **columns)


COLUMNS = (
    "normal", "depth", "rate", "drive", "stiffness", "relax", "scale", "release", "volumetric", "key", "body_a",
    "body_b",
)  # fmt: skip
"""Arrays of ``ContactRows`` with one entry for each contact."""


class Memory(NamedTuple):
    """What contacts remember from one search to the next."""

    key: NDArray[np.int64]
    """Rising."""
    push: Floats
    """With which they pushed last, shape (k,)."""
    rub: Floats
    """Friction then, shape (k, 3)."""
    depth: Floats
    """With which they pushed last, shape (k,)."""


def no_memory() -> Memory:
    """Nothing touches yet."""
    return Memory(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros((0, 3)), np.zeros(0))


class ContactForces:
    """Forces of the rows of one search; ``inverse_masses`` are 0 for coarse vertices that do as they are told."""

    def __init__(
        self, rows: ContactRows, inverse_masses: Floats, *, friction: float, memory: Memory, slack: float = np.inf,
        most: Floats | float = np.inf, parting: float = np.inf,
    ) -> None:  # fmt: skip
        self.rows, self._inverse_mass = rows, inverse_masses
        self._along, self._across = np.zeros(len(rows)), np.zeros(len(rows))
        room, square = np.zeros((len(inverse_masses), 3, 3)), np.zeros((3, 3))
        kernels.own_masses(rows.push, rows.slide, inverse_masses, room, square, self._along, self._across)
        self.pressed, self.rubbing, before = _recall(memory, rows.key)
        """Push of each contact, and force of friction on side b, in the last sub-step."""
        self._unit = np.where(rows.volumetric, rows.scale, 1.0)
        self._forgiven = np.clip(rows.depth - before, 0.0, np.maximum(rows.depth, 0.0))
        speed = np.minimum(rows.release * self._forgiven, parting * self._unit)
        self._room = np.maximum(most * self._unit + rows.relax * speed - (rows.depth - self._forgiven), 0.0)
        """How much of it may come back before the next search."""
        self._pushed, self._rubbed = np.zeros(len(rows)), np.zeros((len(rows), 3))
        self._grip = np.where(self._forgiven <= slack * self._unit, float(friction), 0.0)
        self.rubbing[self._grip == 0.0] = 0.0

    def over(self, h: float, dx: Floats, free: Floats, since: float) -> Floats:
        """Forces on all coarse vertices over a sub-step ``h`` that begins ``since`` after the search, shape (n, 3).

        ``free`` are the velocities that vertices would have at its end without contacts.
        """
        rows = self.rows
        if not len(rows):
            return np.zeros_like(free)
        force, pressed, rubbing = np.zeros_like(free), self.pressed.copy(), self.rubbing.copy()
        kernels.solve(
            h, since, MOST_SWEEPS, TOLERANCE, rows.push, rows.slide, self._inverse_mass, rows.normal,
            self._counted(since), rows.stiffness, rows.relax, self._along, self._across, rows.scale, self._unit,
            rows.rate, rows.drive, self._grip, dx, free, pressed, rubbing, force,
        )  # fmt: skip
        self.pressed, self.rubbing = pressed, rubbing
        return force

    def _counted(self, since: float) -> Floats:
        """Depths at the search without what is still forgiven ``since`` then, shape (k,)."""
        back = (1.0 - np.exp(-since * self.rows.release)) * self._forgiven
        return np.asarray(self.rows.depth - self._forgiven + np.minimum(back, self._room))

    def _deepening(self, v: Floats) -> Floats:
        """How fast contacts deepen by the motion of soft bodies, shape (k,)."""
        out = np.zeros(len(self.rows))
        kernels.deepening(self.rows.push, v, out)
        return out

    def energy(self, dx: Floats, since: float) -> float:
        """Energy in the springs of contacts [J]."""
        depth = np.maximum(self._depth_after(dx, since), 0.0)
        return 0.5 * float((self.rows.stiffness * depth**2).sum())

    def _depth_after(self, dx: Floats, since: float) -> Floats:
        """How deep each contact counts now, shape (k,)."""
        return np.asarray(self._counted(since) + self._deepening(dx) + since * self.rows.rate)

    def deepest(self, dx: Floats, since: float) -> float:
        """How deep the deepest contact is, with what is forgiven; volumes count by their sum per area of all."""
        rows, holds = self.rows, self.pressed > 0.0
        depth = rows.depth + self._deepening(dx) + since * rows.rate
        lengths, volumes = holds & ~rows.volumetric, holds & rows.volumetric
        mean = float(depth[volumes].sum() / rows.scale[volumes].sum()) if volumes.any() else 0.0
        return max(float(depth[lengths].max(initial=0.0)), mean)

    def memory(self, dx: Floats, since: float) -> Memory:
        """What the next search has to know, which comes ``since`` after this one."""
        depth = self._depth_after(dx, since)
        holds = np.flatnonzero((self.pressed > 0.0) | (depth > 0.0))
        order = holds[np.argsort(self.rows.key[holds], kind="stable")]
        return Memory(self.rows.key[order], self.pressed[order], self.rubbing[order], np.maximum(depth[order], 0.0))

    def rows_after(self, dx: Floats, since: float) -> ContactRows:
        """The same contacts ``since`` after the search, as deep as they are then."""
        return replace(self.rows, depth=self.rows.depth + self._deepening(dx) + since * self.rows.rate)

    def keep(self, h: float) -> None:
        """Let the forces found last count, over a sub-step ``h``, in what contacts have done since the search."""
        self._pushed += h * self.pressed
        self._rubbed += h * self.rubbing

    def on_a(self) -> Floats:
        """Impulse of each contact on side a since the search, shape (k, 3)."""
        return -(self._pushed * self.rows.scale)[:, None] * self.rows.normal - self._rubbed

    def work(self) -> float:
        """What bodies whose motion is given have done since the search [J]."""
        return float((self._pushed * self.rows.rate).sum() + (self._rubbed * self.rows.drive).sum())


def _recall(memory: Memory, key: NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
    """Push, friction and depth of contacts that were there before, 0 for others."""
    push, rub, depth = np.zeros(len(key)), np.zeros((len(key), 3)), np.zeros(len(key))
    if len(memory.key) and len(key):
        place = np.minimum(np.searchsorted(memory.key, key), len(memory.key) - 1)
        known = memory.key[place] == key
        old = place[known]
        push[known], rub[known], depth[known] = memory.push[old], memory.rub[old], memory.depth[old]
    return push, rub, depth
