"""What a report shows of one moment: pictures from three sides, and one that turns."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from impinge.view.picture import DEFAULT_SIGHT, Part, Sight, draw_from
from impinge.view.report import Page

SIDE_SIZE = (800, 600)
"""Too small for words in the picture, which a row of three would make too small to read."""
SIDES = {
    "from the front": Sight(-90.0, 0.0, SIDE_SIZE),
    "from the right": Sight(0.0, 0.0, SIDE_SIZE),
    "from above": Sight(-90.0, 90.0, SIDE_SIZE),
}
TURN_FRAMES = 36
"""Pictures of one turn."""
TURN_SIZE = (640, 480)


def add_sides(page: Page, parts: Iterable[Part], title: str) -> None:
    """Add what the colours mean, three pictures in a row, and below them one that turns."""
    shown = list(parts)
    page.text(title)
    page.legend([(part.label, part.colour) for part in shown])
    page.pictures(draw_from(shown, title, list(SIDES.values())), list(SIDES))
    turns = [
        Sight(DEFAULT_SIGHT.azimuth + turn, DEFAULT_SIGHT.elevation, TURN_SIZE)
        for turn in np.linspace(0.0, 360.0, TURN_FRAMES, endpoint=False)
    ]
    page.animation(draw_from(shown, title, turns), "once around")
