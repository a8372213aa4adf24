"""Contacts of a simulation frame with their forces, and the pressures that follow from them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Bools, Floats, as_rows, as_whole
from impinge.contact.contacts import Contacts
from impinge.detect.common.results import PathLike, Picture, Which, select

COLUMNS = (
    "body_a", "body_b", "point", "normal", "depth", "feature_a", "feature_b", "id", "kind", "force", "normal_force",
    "friction_force", "impulse", "area", "gap", "sticking",
)  # fmt: skip
"""Arrays with one entry per contact."""


class ContactVertices(NamedTuple):
    """Surface vertices of the nearest points; contact i has the entries start[i] to start[i + 1]."""

    start: NDArray[np.int64]
    vertex: NDArray[np.int64]
    weight: Floats
    """Positive on side a, negative on side b, shape (m,)."""
    area: Floats
    """Surface around the vertex that faces the contacts of its body there [m²], shape (m,)."""

    def rows(self, ids: NDArray[np.int64]) -> ContactVertices:
        """Return the entries of the contacts ``ids``."""
        count = np.diff(self.start)[ids]
        start = np.concatenate([[0], np.cumsum(count)])
        entry = np.repeat(self.start[ids] - start[:-1], count) + np.arange(start[-1])
        return ContactVertices(start, self.vertex[entry], self.weight[entry], self.area[entry])


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SimulatedContacts(Contacts):
    """Contacts that carried force in a simulation frame.

    Forces are means over the frame, as those of ``FrameReport.forces``: the sum of ``force`` over the contacts of a
    body as b, less those as a, is the force on that body. A contact in several steps of a frame is one row, with the
    geometry of the last step in which it carried force and the direction of its total normal force. The ground has
    body number -1, is always a, and is the last of ``names``.

    By response: ``"contact"`` and cloth have vertices, faces and edges; ``"vertices"`` and the ground vertices and
    faces, of merged contacts those of the deepest one; ``"spheres"`` sphere numbers; ``"volume"`` no features (-1).
    """

    force: Floats
    """Mean force on body b over the frame, normal and friction; that on a is opposite, shape (k, 3) [N]."""
    normal_force: Floats
    """Shape (k,) [N]; along ``normal``."""
    friction_force: Floats
    """On body b, shape (k, 3) [N]."""
    impulse: Floats
    """On body b over the frame, shape (k, 3) [N s]."""
    area: Floats
    """Surface that the contact stands for, shape (k,) [m²]."""
    gap: Floats
    """Distance of the sides along ``normal``, negative where bodies penetrate, shape (k,) [m]; of volumes the negative
    mean depth."""
    sticking: Bools
    """Whether friction was below its limit in the last step; never without friction, shape (k,)."""
    vertices: ContactVertices = field(repr=False)
    """Where the contacts are on the surfaces; not part of ``to_dict``."""
    vertex_counts: tuple[int, ...] = field(default=(), repr=False)
    """Number of surface vertices by body number."""

    @property
    def has_depth(self) -> Bools:
        """Contacts with a penetration depth: all of them, shape (k,)."""
        return np.ones(len(self), dtype=np.bool_)

    def rows(self, which: Which) -> SimulatedContacts:
        """A selection of the contacts, by row numbers or mask."""
        rows = as_rows(which, "which", len(self))
        return replace(select(self, COLUMNS, rows), vertices=self.vertices.rows(rows))

    def plot(self, path: PathLike | None = None) -> Picture:
        """Draw the bodies as they are now, coloured by the pressures of these contacts; with ``path``, to a file."""
        picture: Picture = import_module("impinge.view.pressure").plot_pressure(self, path)
        return picture

    def _as_body(self, number: int) -> int:
        return as_whole(number, "number", least=0, most=len(self.vertex_counts) - 1, remedy=", that of a body")

    def vertex_forces(self, number: int) -> Floats:
        """Normal force on each surface vertex of a body, by its number, shape (n,) [N].

        Each contact is spread over the vertices of its features by their weights. The sum is that of the normal forces
        on the body; a contact of a body with itself counts on both sides.
        """
        number = self._as_body(number)
        count, (start, vertex, weight, _) = self.vertex_counts[number], self.vertices
        row = np.repeat(np.arange(len(self)), np.diff(start))
        is_a = weight > 0.0
        own = np.where(is_a, self.body_a[row], self.body_b[row]) == number
        force = np.zeros(count)
        for side, numbers in ((own & is_a, self.body_a), (own & ~is_a, self.body_b)):
            share: NDArray[np.float64] = np.abs(weight[side])
            total = np.bincount(row[side], share, len(self))
            has_side = (numbers == number) & (total > 0.0)
            each = np.where(has_side, self.normal_force / np.where(has_side, total, 1.0), 0.0)
            force += np.bincount(vertex[side], share * each[row[side]], count)
        return force

    def vertex_areas(self, number: int) -> Floats:
        """Surface in contact around each surface vertex of a body, by its number, shape (n,) [m²].

        A third of the triangles around the vertex that face its contacts: at an edge of a cube that stands on the
        ground, those below. 0 where nothing touches.
        """
        number = self._as_body(number)
        start, vertex, weight, area = self.vertices
        row = np.repeat(np.arange(len(self)), np.diff(start))
        own = np.where(weight > 0.0, self.body_a[row], self.body_b[row]) == number
        areas = np.zeros(self.vertex_counts[number])
        np.maximum.at(areas, vertex[own], area[own])
        return areas

    def pressure(self, number: int) -> Floats:
        """Contact pressure on each surface vertex of a body, by its number, shape (n,) [Pa]; 0 where nothing touches.

        ``vertex_forces`` over ``vertex_areas``.
        """
        area = self.vertex_areas(number)
        return np.asarray(np.divide(self.vertex_forces(number), area, out=np.zeros(len(area)), where=area > 0.0))
