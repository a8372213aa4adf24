"""Rebound of solid bodies after impacts, by Poisson's hypothesis.

An implicit step ends the approach of two bodies without rebound: contacts take all of it within the step. For each
contact whose sides approached each other at the start of the step,

1. Compression  p h is the impulse of its normal force p over the step h.
2. Restitution  The bodies get e times that impulse on top, as rigid motions: Δv = P / m, Δω = I⁻¹ L with the sums P
                and L of impulses and their moments about the centre of mass. A stiff body leaves with e times its
                speed. The step before ends where the impact begins (``first_impact``): one step then has all of it.
3. Energy       If the kinetic energy of all bodies would exceed that before the step, the rebound is scaled down.

Slow contacts, whose sides approach by less than ``RESTING`` times the speed that gravity gives in a step, come to rest.
Impacts of soft bodies last many steps: their elasticity makes them rebound. Cloth and bodies with fixed or moved
vertices do not rebound. Momenta are kept to rounding: both sides of a contact get opposite impulses.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from impinge.checks import Floats
from impinge.respond.contact_forces import ContactForces
from impinge.simulate.contact.pairs import Pairs
from impinge.simulate.simulated_bodies import DynamicBody, is_cloth

AT_ONCE = 0.05
"""Share of a step up to which impacts begin with it."""
RESTING = 2.0
"""Speed of approach, relative to that which gravity gives in a step, from which on contacts rebound."""


def first_impact(ahead: Pairs, h: float, *, distance: float, slow: float) -> float:
    """Share of a step of length ``h`` at which the first two bodies are at the contact distance; 1 if they are already.

    ``slow`` is the speed that gravity gives in a frame. Bodies that would pass each other also have impacts later in
    the step, whose normals are across the motion: the distance counts along the steepest of the first impacts.
    """
    travel = ahead.gap - ahead.end_gap
    rows = np.flatnonzero(travel > RESTING * slow * h)
    if not len(rows):
        return 1.0
    meeting = ahead.gap[rows] / travel[rows]
    steepest = travel[rows[meeting <= meeting.min() + AT_ONCE]].max()
    first = float(meeting.min() - distance / steepest)
    return first if first > AT_ONCE else 1.0


def rebound(
    bodies: Sequence[DynamicBody], contacts: ContactForces, masses: Floats, x: Floats, v0: Floats, v: Floats, h: float,
    *, restitution: float, slow: float, stored: float,
) -> Floats:  # fmt: skip
    """Add the rebound after a step of length ``h`` from velocities ``v0`` to ``v``, in place.

    ``slow`` is as in ``first_impact``, ``stored`` the energy in contacts [J]. Returns the impulse of each contact,
    shape (k,) [N s].
    """
    rows = contacts.constraints
    approach = contacts.depth_rates(v0) + rows.rate
    impulse = np.where(approach > RESTING * slow, restitution * h * contacts.normal_force, 0.0)
    if not (impulse > 0.0).any():
        return impulse
    push = contacts.spread(impulse)
    change = np.zeros_like(v)
    for body in bodies:
        part = body.rows
        if is_cloth(body) or len(body.source.fixed) or len(body.source.moved) or not push[part].any():
            continue
        mass, arm = masses[part, None], x[part] - masses[part] @ x[part] / body.mass
        inertia = (mass * (arm**2).sum(axis=1, keepdims=True)).sum() * np.eye(3) - arm.T @ (mass * arm)
        spin = np.linalg.lstsq(inertia, np.cross(arm, push[part]).sum(axis=0), rcond=1e-12)[0]
        change[part] = push[part].sum(axis=0) / body.mass + np.cross(spin, arm)
    room = 0.5 * float(masses @ (v0**2 - v**2).sum(axis=1)) - stored
    linear, square = float(masses @ (v * change).sum(axis=1)), 0.5 * float(masses @ (change**2).sum(axis=1))
    share = 1.0
    if linear + square > room:  # the larger root of square s² + linear s = room
        root = np.sqrt(max(linear**2 + 4.0 * square * room, 0.0))
        share = min(max((root - linear) / (2.0 * square), 0.0), 1.0) if square > 0.0 else 0.0
    v += share * change
    return np.asarray(share * impulse)
