"""The volume that two bodies share: what a query of layered depth images returns."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats, Ints
from impinge.detect.common.results import Changes, Result
from impinge.errors import OptionError


@dataclass(frozen=True, kw_only=True, eq=False)
class VolumeOverlap(Result):
    """The volume that two closed bodies share, as spans along rays."""

    volume: float
    spans: Floats
    """First and last depth of each span of the overlap, shape (k, 2)."""
    pixel: Ints
    """Column and row of the ray that each span lies on, shape (k, 2)."""
    region: Floats
    """Lowest and highest corner of the box that was looked at, shape (2, 3)."""
    centroid: Floats
    """Centre of the overlap, NaN if there is none, shape (3,)."""
    axis: int = 2
    """The axis that spans lie along; columns go along the next one, rows along the one after."""
    resolution: int = 0
    """Columns and rows of rays within the region."""
    rule: Literal["parity", "winding"] = "parity"
    """What counted as inside."""
    volumes: Floats = field(default_factory=lambda: np.full(3, np.nan))
    """The volume as rays along x, y and z see it, NaN where none were sent; ``volume`` is their mean, shape (3,)."""
    error: float = math.nan
    """How far off the volume may be: an estimate, not a bound."""
    triangles: Ints = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int32))
    """The triangles that each span begins and ends with, -1 of a body that has none, shape (k, 2)."""
    triangle_body: NDArray[np.int8] = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int8))
    """Whose triangles they are: 0 a, 1 b, shape (k, 2)."""
    penetrating_a: Ints | None = None
    """Sorted ids of the vertices of a that are inside b; of one body, of those in its overlap with itself. None if
    the query was told not to look."""
    penetrating_b: Ints | None = None
    """Sorted ids of the vertices of b that are inside a; none of one body."""
    inverted_volume: float = 0.0
    """Volume that is inside out; only asked for of one body."""
    depth_complexity: Ints | None = None
    """How often each ray crosses each body within the region, shape (bodies, rows, columns)."""
    bodies: tuple[Any, ...] = field(default=(), repr=False)
    """The bodies as they were when they were asked about, for pictures; not part of ``to_dict``."""

    _rows = "spans"
    _identity = ("pixel",)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the result without the bodies."""
        return {**self.__dict__, "bodies": ()}

    def plot(self, path: Any = None) -> Any:
        """Draw the spans of the overlap as columns between the bodies; to a file if ``path`` is given."""
        from importlib import import_module

        return import_module("impinge.view.picture").plot_overlap(self, path)

    def __bool__(self) -> bool:
        """Whether they overlap; bodies that only touch do not."""
        return self.volume > 0.0

    def changes(self, previous: Result) -> Changes:
        """Which rays have a span now, and which had one; refused if the rays were not the same."""
        if isinstance(previous, VolumeOverlap):
            same = (self.axis, self.resolution) == (previous.axis, previous.resolution)
            if not same or not np.array_equal(self.region, previous.region):
                raise OptionError(
                    "the overlaps were looked at along different rays, which cannot be compared; compare their "
                    "penetrating_a and penetrating_b"
                )
        return super().changes(previous)
