"""One simulation cycle of the whole system: sections 3.2 and 4.

1. Update    the sphere trees from the coarse positions (section 4.4).
2. Traverse  each pair of objects with an equal part of what is left of the critical time or of ``max_tests``
             (section 4.2).
3. Respond   Both lists become penalty forces on the closest coarse vertices, averaged (section 4.3).
4. Integrate the coarse meshes with these forces, constant over the cycle, and gravity (section 3).
5. Steer     the dense meshes by their rigid links (section 3.2).

Departures  The paper does not fix the order of the steps, the stiffness or the time step. Without a ``stiffness``,
            k = E times the mean coarse edge, at most m / dt² with m the smallest vertex mass, since forces are
            constant over dt. The test of both roots is the broad phase.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from impinge.backend.clock import now_ns
from impinge.checks import as_choice, as_flag, as_length, shown
from impinge.deform.integrate import as_seconds
from impinge.errors import OptionError
from impinge.published.interruptible.body import DeformableBody
from impinge.published.interruptible.response import Combine, Contacts, contacts_of, vertex_forces
from impinge.published.interruptible.search import Lists, traverse


@dataclass(frozen=True)
class Cycle:
    """What one simulation cycle did."""

    pairs: tuple[tuple[int, int], ...]
    """Objects of each pair."""
    lists: tuple[Lists, ...]
    """PAIRLIST and COLLISIONLIST of each pair of objects."""
    contacts: tuple[Contacts, ...]
    """Normals and depths of each pair of objects."""
    stiffness: float
    """k [N/m]."""
    substeps: int
    """Runge-Kutta steps of all objects."""
    search_ns: int
    """Time of step 2 [ns]."""

    @property
    def tests(self) -> int:
        """Sphere tests of all pairs of objects."""
        return sum(each.tests for each in self.lists)

    @property
    def interrupted(self) -> bool:
        """True if a search was interrupted."""
        return any(each.interrupted for each in self.lists)


class System:
    """Deformable objects that collide.

    Parameters
    ----------
    bodies : sequence of DeformableBody
        Objects; their state ``x``, ``v`` advances.
    stiffness : float, optional
        k of the penalty forces [N/m].
    combine : {"average", "sum"}
        How a coarse vertex combines the forces that it receives.
    retest : bool
        See ``traverse``.
    gravity : (3,) array
        Acceleration [m/s²].
    """

    def __init__(
        self,
        bodies: Sequence[DeformableBody],
        *,
        stiffness: float | None = None,
        combine: Combine = "average",
        retest: bool = True,
        gravity: Any = (0.0, 0.0, 0.0),
    ) -> None:
        if stiffness is not None and not 0.0 < (as_length(stiffness) or 0.0) < np.inf:
            raise OptionError(f"stiffness is {shown(stiffness)}, expected a positive number [N/m]")
        self.bodies = tuple(bodies)
        self.stiffness = stiffness
        self.combine: Combine = as_choice(combine, "combine", ("average", "sum"))
        self.retest = as_flag(retest, "retest")
        self.gravity = gravity

    def step(self, dt: float, *, critical_time: float | None = None, max_tests: int | None = None) -> Cycle:
        """Run one cycle.

        Parameters
        ----------
        dt : float
            Duration of the cycle [s].
        critical_time : float, optional
            Time budget of the search of all pairs [s].
        max_tests : int, optional
            Budget of sphere tests of all pairs; deterministic.

        Returns
        -------
        Cycle
            Lists and contacts of each pair of objects.
        """
        dt = as_seconds(dt, "dt", zero=False)
        for body in self.bodies:
            body.update()
        began = now_ns()
        pairs = tuple(itertools.combinations(range(len(self.bodies)), 2))
        lists: list[Lists] = []
        for number, (i, j) in enumerate(pairs):
            left = len(pairs) - number
            spent = 1e-9 * (now_ns() - began), sum(each.tests for each in lists)
            lists.append(
                traverse(
                    self.bodies[i].spheres, self.bodies[j].spheres, retest=self.retest,
                    critical_time=None if critical_time is None else max(critical_time - spent[0], 0.0) / left,
                    max_tests=None if max_tests is None else (max_tests - spent[1]) // left,
                )
            )  # fmt: skip
        search_ns = now_ns() - began
        contacts = tuple(
            contacts_of(self.bodies[i].spheres, self.bodies[j].spheres, found) for (i, j), found in zip(pairs, lists)
        )
        k = self._stiffness_for(dt)  # of the penalty forces k δ n
        substeps = 0
        for number, body in enumerate(self.bodies):
            force, vertex = [np.zeros((0, 3))], [np.zeros(0, dtype=np.int32)]
            for pair, found in zip(pairs, contacts):
                if number in pair:
                    side = pair.index(number)
                    sign = -1.0 if side == 0 else 1.0
                    force.append((sign * k * found.depth)[:, None] * found.normal)
                    vertex.append(body.closest[found.pair[:, side], 0])
            total = vertex_forces(
                np.concatenate(force), np.concatenate(vertex), vertex_count=len(body.x), combine=self.combine
            )
            substeps += body.advance(dt, total, self.gravity).substeps
            body.steer()
        return Cycle(pairs, tuple(lists), contacts, k, substeps, search_ns)

    def _stiffness_for(self, dt: float) -> float:
        if self.stiffness is not None:
            return self.stiffness
        return min(
            min(body.model.material.youngs_modulus * body.mean_edge, float(body.model.masses.min()) / dt**2)
            for body in self.bodies
        )
