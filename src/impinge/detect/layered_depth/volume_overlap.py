"""Result of a query by layered depth images: the volume that bodies share."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats, Ints
from impinge.detect.common.results import Changes, Result
from impinge.detect.layered_depth.images import Solid
from impinge.errors import OptionError


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class VolumeOverlap(Result):
    """The volume that two closed bodies share, as spans along rays."""

    volume: float
    spans: Floats
    """First and last depth of each span of the overlap, shape (k, 2)."""
    pixel: Ints
    """Column and row of the ray that each span lies on, shape (k, 2)."""
    region: Floats
    """Lowest and highest corner of the sampled box, NaN if the boxes of the bodies are apart, shape (2, 3)."""
    centroid: Floats
    """Centre of the overlap, NaN if there is none, shape (3,)."""
    axis: int = 2
    """The axis of the spans; columns go along the next one, rows along the one after."""
    resolution: int = 0
    """Columns and rows of rays within the region."""
    rule: Literal["parity", "winding"] = "parity"
    """The rule for inside."""
    volumes: Floats = field(default_factory=lambda: np.full(3, np.nan))
    """The volume by rays along x, y and z, NaN for axes not sampled; ``volume`` is their mean, shape (3,)."""
    error: float = math.nan
    """Estimate of the sampling error of the volume, not a bound."""
    triangles: Ints = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int32))
    """The triangles that each span begins and ends with, -1 for depth sources, shape (k, 2)."""
    triangle_body: NDArray[np.int8] = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int8))
    """The bodies of these triangles: 0 a, 1 b, shape (k, 2)."""
    penetrating_a: Ints | None = None
    """Sorted ids of the vertices of a inside b; of one body, of those in its overlap with itself. None for a query
    with ``vertices=False``."""
    penetrating_b: Ints | None = None
    """Sorted ids of the vertices of b inside a; of one body, empty."""
    inverted_volume: float = 0.0
    """Volume where the body is inverted; for one body only."""
    depth_complexity: Ints | None = None
    """Crossings of each ray with each body within the region, shape (bodies, rows, columns)."""
    bodies: tuple[Solid, ...] = field(default=(), repr=False)
    """The bodies in the state of the query, for pictures; not part of ``to_dict``."""

    _rows = "spans"
    _identity = ("pixel",)

    def _found(self) -> str:
        return f"volume {self.volume:.6g} ± {self.error:.1g}"

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the result without the bodies."""
        return {**self.__dict__, "bodies": ()}

    def plot(self, path: str | os.PathLike[str] | None = None) -> NDArray[np.uint8] | Path:
        """Draw the spans as columns between the bodies; returns pixels, or the file if ``path`` is given."""
        from importlib import import_module

        picture: NDArray[np.uint8] | Path = import_module("impinge.view.picture").plot_overlap(self, path)
        return picture

    def __bool__(self) -> bool:
        """Whether the bodies overlap; touching does not count."""
        return self.volume > 0.0

    def changes(self, previous: Result) -> Changes:
        """Rays that gained, kept and lost a span; refused for results of different rays."""
        if isinstance(previous, VolumeOverlap):
            same = (self.axis, self.resolution) == (previous.axis, previous.resolution)
            if not same or not np.array_equal(self.region, previous.region, equal_nan=True):
                raise OptionError(
                    "the overlaps were sampled along different rays, which cannot be compared; compare their "
                    "penetrating_a and penetrating_b"
                )
        return super().changes(previous)
