"""What the rest of the package knows of a viewer: five verbs, so that another one can be put in its place.

``add``        a thing under a name: a mesh, lines, arrows or balls, and how it looks
``update``     the arrays of a thing that was added
``highlight``  triangles that glow, laid over a mesh
``label``      a sentence
``close``      the end

``draw`` puts a ``Drawing`` on any viewer. ``NullViewer`` draws nothing and remembers what it was told, for tests and
for machines without a screen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

import numpy as np

from impinge.checks import Floats, Ints
from impinge.view.drawing import Drawing

Thing: TypeAlias = Literal["mesh", "lines", "arrows", "balls"]


@dataclass(frozen=True)
class Style:
    """How a thing looks."""

    colour: tuple[int, int, int]
    opacity: float = 1.0


class Viewer(Protocol):
    """Draws things by name."""

    def add(self, name: str, thing: Thing, style: Style) -> None:
        """Get ready to draw a thing; nothing is seen of it until it is updated."""

    def update(self, name: str, points: Floats, faces: Ints | None = None) -> None:
        """Draw a thing: vertices and faces, line ends (n, 2, 3), or centres and radii (n, 4); nothing if empty."""

    def highlight(self, name: str, corners: Floats) -> None:
        """Let triangles (n, 3, 3) glow over the mesh of that name; none if empty."""

    def label(self, sentence: str) -> None:
        """Say something."""

    def close(self) -> None:
        """Draw no more."""


BODIES = ("a", "b")
STYLES: dict[str, tuple[Thing, Style]] = {
    "a": ("mesh", Style((84, 150, 214), 0.62)),
    "b": ("mesh", Style((232, 168, 84), 0.62)),
    "spheres a": ("balls", Style((64, 130, 214), 0.35)),
    "spheres b": ("balls", Style((226, 132, 40), 0.35)),
    "spans": ("mesh", Style((38, 178, 120), 1.0)),
    "curves": ("lines", Style((255, 240, 120))),
    "normals": ("arrows", Style((236, 242, 255))),
}
"""Everything that a drawing may have; triangles that glow come with their mesh."""


def prepare(viewer: Viewer) -> None:
    """Add everything that a drawing may have."""
    for name, (thing, style) in STYLES.items():
        viewer.add(name, thing, style)


def draw(viewer: Viewer, drawing: Drawing, layers: frozenset[str]) -> None:
    """Put a drawing on a viewer, every other body in the same colour; spans stand for the triangles at their ends."""
    columns = drawing.columns if "spans" in layers else drawing.columns[:0]
    glows = "glow" in layers and not len(columns)
    for k, name in enumerate(BODIES):
        group = drawing.shapes[k::2]
        vertices, faces = _joined([(shape.vertices, shape.faces[shape.live]) for shape in group])
        viewer.update(name, vertices, faces)
        glowing = [drawing.glow(i) for i in range(k, len(drawing.shapes), 2)] if glows else []
        viewer.highlight(name, np.concatenate([np.zeros((0, 3, 3)), *glowing]))
        balls = drawing.spheres[k] if len(drawing.spheres) > k and "spheres" in layers else np.zeros((0, 4))
        viewer.update(f"spheres {name}", balls)
    viewer.update("spans", columns.reshape(-1, 3), np.arange(3 * len(columns), dtype=np.int32).reshape(-1, 3))
    viewer.update("curves", drawing.curves if "curves" in layers else drawing.curves[:0])
    viewer.update("normals", drawing.arrows if "normals" in layers else drawing.arrows[:0])
    viewer.label(drawing.sentence)


def _joined(meshes: list[tuple[Floats, Ints]]) -> tuple[Floats, Ints]:
    """Several meshes as one."""
    starts = np.cumsum([0, *(len(vertices) for vertices, _ in meshes)])
    vertices = np.concatenate([np.zeros((0, 3)), *(vertices for vertices, _ in meshes)])
    faces = [np.zeros((0, 3), dtype=np.int32), *(faces + start for (_, faces), start in zip(meshes, starts))]
    return vertices, np.concatenate(faces).astype(np.int32)


@dataclass
class NullViewer:
    """Remembers what it was told to draw."""

    things: dict[str, Thing] = field(default_factory=dict)
    shown: dict[str, int] = field(default_factory=dict)
    """How many faces, lines, arrows or balls were drawn last, by name."""
    glowing: dict[str, int] = field(default_factory=dict)
    sentence: str = ""
    closed: bool = False

    def add(self, name: str, thing: Thing, style: Style) -> None:  # noqa: ARG002 - nobody sees it
        """Remember the thing."""
        self.things[name] = thing

    def update(self, name: str, points: Floats, faces: Ints | None = None) -> None:
        """Count what is drawn."""
        self.shown[name] = len(points if faces is None else faces)

    def highlight(self, name: str, corners: Floats) -> None:
        """Count what glows."""
        self.glowing[name] = len(corners)

    def label(self, sentence: str) -> None:
        """Remember the sentence."""
        self.sentence = sentence

    def close(self) -> None:
        """Remember the end."""
        self.closed = True
