"""What a frame of a simulation did: energies, momenta, work, forces."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from impinge.checks import Floats


@dataclass(frozen=True)
class FrameReport:
    """One frame, as it ended."""

    frame: int
    """Number of the frame, from 1."""
    time: float
    """Simulated time at its end [s]."""
    dt: float
    searches: int
    """How often contacts were searched."""
    substeps: int
    """Between which contact forces were found anew."""
    contacts: int
    """Contacts that push."""
    deepest: float
    """How deep the deepest contact is [m]; of volumes the mean depth over all of them."""
    kinetic: float
    """Energies [J]."""
    elastic: float
    gravitational: float
    """Relative to the origin."""
    contact: float
    """In the springs of contacts."""
    work: float
    """That bodies with a given motion did on soft ones since the start [J]."""
    momentum: Floats
    """Of all soft bodies together [kg m / s], shape (3,)."""
    angular_momentum: Floats
    """About the origin [kg m² / s], shape (3,)."""
    forces: dict[str, Floats]
    """Mean contact force on each body over the frame [N], shape (3,); on the ground too, if there is one."""
    fastest: float
    """Largest speed of a coarse vertex [m / s]."""
    sleeping: tuple[str, ...]
    complete: bool
    """Whether every search had the time that it needed."""
    unsettled: tuple[tuple[str, str], ...] = ()
    """Pairs of bodies that a search had no time for, or too little; their contacts may be older, coarser or missing."""
    inverted: dict[str, int] = field(default_factory=dict)
    """Tets that are flat or inside out, by body; those without are left out."""
    elapsed_ms: float = 0.0
    stats: dict[str, Any] = field(default_factory=dict)
    """Milliseconds by stage, and what the governor chose."""

    @property
    def energy(self) -> float:
        """All energies together [J]."""
        return self.kinetic + self.elastic + self.gravitational + self.contact
