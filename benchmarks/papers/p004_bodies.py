"""The test objects of [Heidelberger2003], Tables 1 and 2, and their substitutes.

Knot, Rabbit, Reptile, Santa and Dragon were never published. Tubes along torus knots and spheres of the same numbers of
faces stand in for them: knots for what is folded many times, spheres for what is not. Depth complexities are
reported as measured. Each size is a refinement of one shape: cost of size and cost of shape are separate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from impinge import scenes
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh
from impinge.scenes.registry import Scene


@dataclass(frozen=True)
class PairRow:
    """A row of Table 1, or Fig. 9."""

    objects: str
    scene_name: str
    faces: tuple[int, int]
    depth: tuple[int, int]
    """Depth complexities of both within the volume of interest."""
    images_ms: float | None
    """Stages 1 and 2 on a Pentium 4 and a GeForce 4; None where the paper has the total only."""
    spans_ms: float | None
    """Stage 3a."""
    total_ms: float
    figure: int

    def scene(self) -> Scene:
        """New bodies; raises if their counts are not those of the table."""
        scene = scenes.get(self.scene_name)
        found = tuple(len(surface) for surface in scene.surfaces)
        if found != self.faces:
            raise AssertionError(f"{self.scene_name} has {found} faces, expected {self.faces}")
        return scene


TABLE_1 = (
    PairRow("Knot / Rabbit", "spheres_12k_50k", (12_000, 50_000), (3, 1), 19.0, 1.0, 20.0, 7),
    PairRow("Knot / Rabbit", "knots_12k_50k", (12_000, 50_000), (4, 6), 56.0, 1.0, 57.0, 8),
    PairRow("Rabbit / Reptile", "spheres_50k_110k", (50_000, 110_000), (7, 5), 36.0, 1.0, 37.0, 7),
    PairRow("Rabbit / Reptile", "knots_50k_110k", (50_000, 110_000), (4, 2), 48.0, 1.0, 49.0, 8),
    PairRow("Reptile / Santa", "spheres_110k_150k", (110_000, 150_000), (1, 3), 25.0, 1.0, 26.0, 7),
    PairRow("Reptile / Santa", "knots_110k_150k", (110_000, 150_000), (8, 6), 114.0, 1.0, 115.0, 8),
)
FIGURE_9 = PairRow("Knot / Dragon", "knots_12k_520k", (12_000, 520_000), (7, 8), None, None, 256.0, 9)


@dataclass(frozen=True)
class ObjectRow:
    """A row of Table 2."""

    name: str
    faces: int
    depth: int
    images_ms: float
    points_ms: float
    """Stage 3b: 100,000 points."""
    knot: tuple[int, int, int, int]
    """p, q, rings and sides of its substitute."""
    sphere: tuple[int, int]
    """Meridians and bands of the sphere of as many faces."""


TABLE_2 = (
    ObjectRow("Knot", 12_000, 8, 11.0, 26.0, (2, 3, 300, 20), (100, 61)),
    ObjectRow("Rabbit", 50_000, 8, 29.0, 27.0, (3, 5, 1000, 25), (200, 126)),
    ObjectRow("Reptile", 110_000, 12, 83.0, 28.0, (4, 7, 2200, 25), (250, 221)),
    ObjectRow("Santa", 150_000, 8, 79.0, 26.0, (5, 8, 2500, 30), (300, 251)),
    ObjectRow("Dragon", 520_000, 10, 307.0, 27.0, (5, 9, 6500, 40), (500, 521)),
)


HEIGHT = 4.0
"""Stretch of knots: rays along their shortest side cross them as often as the paper's objects."""


def knot_of(row: ObjectRow) -> TriMesh:
    """The tube that substitutes an object."""
    knot = _counted(shapes.torus_knot(*row.knot), row.faces)
    knot.update(knot.vertices * (1.0, 1.0, HEIGHT))
    return knot


def sphere_of(row: ObjectRow) -> TriMesh:
    """The sphere of as many faces."""
    return _counted(shapes.uv_sphere(*row.sphere), row.faces)


def _counted(body: TriMesh, faces: int) -> TriMesh:
    if len(body) != faces:
        raise AssertionError(f"the substitute has {len(body)} faces, expected {faces}")
    return body


def stack(layers: int, faces: int) -> TriMesh:
    """Flat spheres above each other, which rays along z cross twice each, and two specks that keep the window as it is.

    The more spheres the narrower they are: an image has as many fragments and, up to rounding, ``faces``
    in all, but in deeper pixels.
    """
    bands = max(3, round((faces / layers / 2.0) ** 0.5))
    radius, height = layers**-0.5, 1.0 / layers
    one = shapes.uv_sphere(bands, bands + 1)
    one.update(one.vertices * (radius, radius, 0.45 * height))
    speck = shapes.box(0.01)
    parts = [(one, (0.0, 0.0, (k + 0.5) * height - 0.5)) for k in range(layers)]
    parts += [(speck, (-1.0, -1.0, 0.0)), (speck, (1.0, 1.0, 0.0))]
    first = np.cumsum([0, *(len(body.vertices) for body, _ in parts[:-1])])
    return TriMesh(
        np.concatenate([body.vertices + np.array(shift) for body, shift in parts]),
        np.concatenate([body.faces + start for (body, _), start in zip(parts, first)]),
    )
