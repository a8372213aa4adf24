"""Triangles by contact pressure, for pictures and pages: colours from pale (little) to dark red (the largest)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from impinge.checks import Floats, Ints
from impinge.simulate.simulated_contacts import SimulatedContacts
from impinge.view.labels import counted
from impinge.view.picture import BODY_COLOURS, EDGES_BELOW, MOST_NAMES, BodySurface, PicturePath, surface_of
from impinge.view.rendering import DrawItem, Pixels, render, write_picture

PRESSURE_COLOURS = ("#fff3b0", "#fed976", "#feb24c", "#fd8d3c", "#fc4e2a", "#e31a1c", "#bd0026", "#800026")
"""Of equal steps up to the largest pressure."""


def plot_pressure(result: SimulatedContacts, path: PicturePath = None) -> Pixels | Path:
    """Draw the bodies as they are now and the contact pressure on them; write ``path``, or return the pixels."""
    surfaces = [surface_of(body) for body in result.bodies]
    pressures = [result.pressure(number) for number in range(len(surfaces))]
    total = f"{float(result.normal_force.sum()):.4g} N, at most {largest_pressure(pressures):.3g} Pa"
    title = f"{counted(len(result), 'contact')}, {total}" if len(result) else "No contacts"
    pixels = render(pressure_items(surfaces, pressures, result.names), title)
    return pixels if path is None else write_picture(pixels, Path(path))


def largest_pressure(pressures: Sequence[Floats]) -> float:
    """The largest pressure on any vertex [Pa]."""
    return max((float(pressure.max(initial=0.0)) for pressure in pressures), default=0.0)


def pressure_bands(surface: BodySurface, pressure: Floats, largest: float) -> list[Ints]:
    """Ids of the live triangles of each colour, by the mean of their corners; free triangles have none."""
    of_corners = pressure[surface.faces[surface.live]].mean(axis=1)
    steps = len(PRESSURE_COLOURS)
    share = of_corners / largest if largest > 0.0 else np.zeros(len(of_corners))
    band = np.ceil(steps * share).astype(np.int64).clip(max=steps)
    return [surface.live[band == each] for each in range(1, steps + 1)]


def pressure_items(
    surfaces: Sequence[BodySurface], pressures: Sequence[Floats], names: Sequence[str]
) -> Iterator[DrawItem]:
    """Bodies in alternating colours, and the surface in contact in the colours of its pressure."""
    largest = largest_pressure(pressures)
    bands = [pressure_bands(surface, pressure, largest) for surface, pressure in zip(surfaces, pressures)]
    for k, colour in enumerate(BODY_COLOURS):
        listed = names[k : len(surfaces) : 2]
        name = ", ".join(listed) if len(listed) <= MOST_NAMES else counted(len(listed), "body", "bodies")
        free = [
            surface.corners(np.setdiff1d(surface.live, np.concatenate(own)))
            for surface, own in zip(surfaces[k::2], bands[k::2])
        ]
        corners = np.concatenate([np.zeros((0, 3, 3)), *free])
        if len(corners):
            yield DrawItem(name, corners, colour, 0.35, len(corners) < EDGES_BELOW)
    for step, colour in enumerate(PRESSURE_COLOURS):
        corners = np.concatenate([np.zeros((0, 3, 3)), *(s.corners(own[step]) for s, own in zip(surfaces, bands))])
        if len(corners):
            below, above = (largest * each / len(PRESSURE_COLOURS) for each in (step, step + 1))
            yield DrawItem(f"{below:.3g} to {above:.3g} Pa", corners, colour, 1.0, edges=False)
