"""A viewer that records calls instead of drawing."""

from __future__ import annotations

from dataclasses import dataclass, field

from impinge.checks import Floats, Ints


@dataclass
class RecordingViewer:
    """Counts the items of the last update of each element."""

    shown: dict[str, int] = field(default_factory=dict)
    highlighted: dict[str, int] = field(default_factory=dict)

    def update(self, name: str, points: Floats, faces: Ints | None = None) -> None:
        """Count faces, lines, arrows or balls."""
        self.shown[name] = len(points if faces is None else faces)

    def highlight(self, name: str, corners: Floats) -> None:
        """Count highlighted triangles."""
        self.highlighted[name] = len(corners)
