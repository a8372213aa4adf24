"""Report of one simulation frame: energies, momenta, work, forces."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from impinge.checks import Floats
from impinge.simulate.simulated_contacts import SimulatedContacts


@dataclass(frozen=True)
class FrameReport:
    """State and statistics at the end of one simulation frame."""

    frame: int
    """Frame number, from 1."""
    time: float
    """Simulated time [s]."""
    dt: float
    """Length of the frame [s]."""
    searches: int
    """Number of contact searches."""
    substeps: int
    """Number of sub-steps of bodies in contact."""
    contacts: SimulatedContacts
    """Contacts that carried force, with these forces; ``len(contacts)`` is their number."""
    deepest: float
    """Largest penetration depth [m], 0 where contacts keep a gap; for volumes, the mean over the contact area."""
    kinetic: float
    """Kinetic energy [J]."""
    elastic: float
    """Elastic energy [J]."""
    gravitational: float
    """Potential energy relative to the origin [J]."""
    contact: float
    """Energy of the contact springs [J]."""
    work: float
    """Work of scripted bodies on soft bodies since the start [J]."""
    momentum: Floats
    """Linear momentum of all soft bodies [kg m / s], shape (3,)."""
    angular_momentum: Floats
    """Angular momentum of all soft bodies about the origin [kg m² / s], shape (3,)."""
    forces: dict[str, Floats]
    """Mean contact force on each body over the frame [N], shape (3,); with a ground, also on "ground"."""
    torques: dict[str, Floats]
    """Mean torque of these forces on each body about its centre of mass [N m], shape (3,); on scripted bodies about the
    centre of their volume, on open ones about the mean of their vertices. The ground has none."""
    fastest: float
    """Largest speed of a coarse vertex [m / s]."""
    sleeping: tuple[str, ...]
    """Names of sleeping bodies."""
    complete: bool
    """Whether every search finished within its budget."""
    incomplete_pairs: tuple[tuple[str, str], ...] = ()
    """Pairs of bodies whose query was skipped or incomplete; their contacts may be outdated, coarse or missing."""
    inverted: dict[str, int] = field(default_factory=dict)
    """Number of flat or inverted tets by body; bodies without are omitted."""
    warnings: tuple[str, ...] = ()
    """Steps that did not converge, bodies that were held, bodies that cross, and inverted tets, a sentence each."""
    elapsed_ms: float = 0.0
    """Wall-clock time of the frame [ms]."""
    stats: dict[str, float] = field(default_factory=dict)
    """Milliseconds per stage, the choices of the frame-rate controller, and the number of implicit steps whose friction
    has not settled (``unsettled_friction``): its limits still differ from the normal forces."""

    @cached_property
    def pressure(self) -> dict[str, Floats]:
        """Contact pressure on the surface vertices of each body [Pa], shape (n,), zero where nothing touches.

        The normal force of each contact is spread over the vertices of its features, and divided by the surface around
        them that faces it: pressure times ``contacts.vertex_areas`` sums to the normal forces on the body. Computed at
        the first access.
        """
        names = self.contacts.names[: len(self.contacts.vertex_counts)]
        return {name: self.contacts.pressure(number) for number, name in enumerate(names)}

    @property
    def energy(self) -> float:
        """Total energy [J]."""
        return self.kinetic + self.elastic + self.gravitational + self.contact
