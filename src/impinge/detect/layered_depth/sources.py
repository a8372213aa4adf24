"""Bodies that are not triangles: whatever can tell where rays cross it has a layered depth image.

The paper asks for a watertight surface and a way to render it, not for triangles (section 3, Input). Here the way is
one method: given the rays of an image, return where they enter and leave the body.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Bools, Floats, as_length, as_numbers, as_positions, shown
from impinge.detect.layered_depth.image_cache import Images, read_only, with_latest
from impinge.detect.layered_depth.images import Device, Image, Solid, View
from impinge.errors import MeshError, OptionError


class Crossings(NamedTuple):
    """Where rays cross a body, in any order."""

    ray: NDArray[np.int64]
    """Ray of each crossing: row · number of columns + column, shape (k,)."""
    depth: Floats
    """Coordinate along the rays' axis, shape (k,)."""
    enters: Bools
    """Whether the ray, going up its axis, enters there; else it leaves, shape (k,)."""


class DepthSource(Protocol):
    """A closed body that knows where rays cross it; whatever has a method ``crossings`` is taken for one."""

    @property
    def version(self) -> int:
        """Grows with every change, so that no image is stale."""

    @property
    def bounds(self) -> Floats:
        """Lowest and highest corner of a box around it, shape (2, 3)."""

    def crossings(self, axis: int, u: Floats, v: Floats) -> Crossings:
        """Crossings with rays along ``axis``, at ``u`` along the next axis (columns), ``v`` along the third (rows)."""


BOUNDS_SLACK = 1e-9
"""Share of its size by which a source may round beyond its own bounds."""


@dataclass(frozen=True)
class Sphere:
    """A ball, as smooth as it gets."""

    center: Any
    radius: float
    version: int = 0

    def __post_init__(self) -> None:
        _check_point("center of a Sphere", self.center)
        _check_length("radius of a Sphere", self.radius)

    @property
    def bounds(self) -> Floats:
        """The box around it."""
        center = np.asarray(self.center, dtype=np.float64)
        return np.stack([center - self.radius, center + self.radius])

    def crossings(self, axis: int, u: Floats, v: Floats) -> Crossings:
        """Every ray nearer to the centre than the radius enters and leaves once."""
        center = np.asarray(self.center, dtype=np.float64)
        across = (u[None, :] - center[(axis + 1) % 3]) ** 2 + (v[:, None] - center[(axis + 2) % 3]) ** 2
        hit = np.flatnonzero(across.reshape(-1) < self.radius**2)
        half = np.sqrt(self.radius**2 - across.reshape(-1)[hit])
        depth = np.concatenate([center[axis] - half, center[axis] + half])
        return Crossings(np.tile(hit, 2), depth, np.arange(2 * len(hit)) < len(hit))


@dataclass(frozen=True)
class HeightField:
    """Columns that stand side by side on a floor, each with a flat top."""

    heights: Any
    """Top of each column above the floor, 0 or more, shape (columns along x, columns along y)."""
    corner: Any
    """Lowest corner of the whole."""
    cell: float
    """QueryBody of a column."""
    version: int = 0

    def __post_init__(self) -> None:
        _check_point("corner of a HeightField", self.corner)
        _check_length("cell of a HeightField", self.cell)
        heights = as_numbers(self.heights, "heights")
        if heights.ndim != 2 or not (np.isfinite(heights) & (heights >= 0)).all():
            raise MeshError(
                f"heights of a HeightField have shape {heights.shape}, or one is negative or not finite; expected a "
                "table of heights above the floor: lower the corner"
            )

    @property
    def bounds(self) -> Floats:
        """The box around all columns."""
        heights, corner = np.asarray(self.heights, dtype=np.float64), np.asarray(self.corner, dtype=np.float64)
        size = [heights.shape[0] * self.cell, heights.shape[1] * self.cell, heights.max(initial=0.0)]
        return np.stack([corner, corner + size])

    def crossings(self, axis: int, u: Floats, v: Floats) -> Crossings:
        """Upright rays cross the floor and a top, others enter and leave where tops rise above them and fall below."""
        heights, corner = np.asarray(self.heights, dtype=np.float64), np.asarray(self.corner, dtype=np.float64)
        if axis == 2:
            top = np.zeros((len(v), len(u)))
            i, j = self._cells(u - corner[0]), self._cells(v - corner[1])
            inside = ((j >= 0) & (j < heights.shape[1]))[:, None] & ((i >= 0) & (i < heights.shape[0]))[None, :]
            top[inside] = heights.T[np.ix_(j.clip(0, heights.shape[1] - 1), i.clip(0, heights.shape[0] - 1))][inside]
            ray = np.flatnonzero(top.reshape(-1) > 0.0)
            depth = np.concatenate([np.full(len(ray), corner[2]), corner[2] + top.reshape(-1)[ray]])
            return Crossings(np.tile(ray, 2), depth, np.arange(2 * len(ray)) < len(ray))
        # Along x columns of the image go along y and rows along z; along y columns go along z and rows along x.
        across, up = (u - corner[1], v - corner[2]) if axis == 0 else (v - corner[0], u - corner[2])
        line = heights.T if axis == 0 else heights  # one line of columns per row
        k = self._cells(across)
        known = (k >= 0) & (k < len(line))
        tops = np.where(known[:, None], line[k.clip(0, len(line) - 1)], 0.0)
        solid = (tops[:, None, :] > up[None, :, None]) & (up >= 0.0)[None, :, None]
        step = np.diff(np.pad(solid.astype(np.int8), ((0, 0), (0, 0), (1, 1))), axis=2)
        at, height, edge = np.nonzero(step)
        ray = height * len(u) + at if axis == 0 else at * len(u) + height
        return Crossings(ray, corner[axis] + self.cell * edge, step[at, height, edge] > 0)

    def _cells(self, offset: Floats) -> NDArray[np.int64]:
        return np.floor(offset / self.cell).astype(np.int64)


def _check_point(name: str, x: Any) -> None:
    point = as_numbers(x, name)
    if point.shape != (3,) or not np.isfinite(point).all():
        raise MeshError(f"{name} is {shown(x)}, expected three finite numbers")


def _check_length(name: str, x: Any) -> None:
    length = as_length(x)
    if not length or not math.isfinite(length):
        raise MeshError(f"{name} is {shown(x)}, expected a finite number above 0")


class SourceLayers:
    """What a detector keeps for a depth source; the same interface as ``Layers``."""

    def __init__(self, source: DepthSource) -> None:
        self._source = source
        self._lock = threading.RLock()
        self._images: Images = {}

    def solid(self, _: Any, transform: Any, active: Any, letter: str) -> Solid:
        """The source as it is now; it has no vertices."""
        if transform is not None or active is not None:
            raise OptionError(
                f"body {letter} is a depth source, which has no vertices to move and no triangles to choose from: "
                f"leave out transform_{letter} and active_{letter}"
            )
        bounds = as_positions(self._source.bounds, name=f"bounds of body {letter}")
        if bounds.shape != (2, 3):
            raise MeshError(
                f"bounds of body {letter} have shape {bounds.shape}, expected (2, 3): lowest and highest corner"
            )
        none = read_only(np.zeros(0, dtype=np.int32))
        token = (self._source.version, b"", None)
        return Solid(read_only(np.zeros((0, 3))), np.zeros((0, 3), dtype=np.int32), none, none, bounds, token)

    def image(self, device: Device, solid: Solid, view: View) -> Image:
        """The image of the source, made if it is not kept."""
        key = (solid.token, view, device.name)
        with self._lock:
            found = self._images.get(key)
            if found is None:
                found = self._draw(device, solid, view)
                self._images = with_latest(self._images, key, found)
            return found

    def _draw(self, device: Device, solid: Solid, view: View) -> Image:
        found = self._source.crossings(view.axis, *view.centres)
        try:
            ray, depth, enters = found
        except (TypeError, ValueError) as error:
            raise MeshError(
                f"crossings of {type(self._source).__name__} are {shown(found)}, expected rays, depths and flags"
            ) from error
        ray, depth = np.asarray(ray, dtype=np.int64), np.asarray(depth, dtype=np.float64)
        enters = np.asarray(enters, dtype=np.bool_)
        self._check(ray, depth, enters, view.resolution**2)
        self._check_depths(depth, *solid.bounds[:, view.axis].tolist())
        least, largest = view.kept_depths
        kept = (depth >= least) & (depth <= largest)
        face = np.where(enters, 0, -1).astype(np.int32)
        return device.place(solid, view, ray[kept].astype(np.int32), depth[kept], face[kept])

    def _check(self, ray: NDArray[np.int64], depth: Floats, enters: Bools, ray_count: int) -> None:
        name = type(self._source).__name__
        if not (ray.shape == depth.shape == enters.shape and ray.ndim == 1):
            raise MeshError(
                f"crossings of {name} have shapes {ray.shape}, {depth.shape} and {enters.shape}; "
                "expected one ray, one depth and one flag per crossing"
            )
        if len(ray) and (ray.min() < 0 or ray.max() >= ray_count or not np.isfinite(depth).all()):
            raise MeshError(
                f"crossings of {name} name a ray outside of 0 .. {ray_count - 1} or a depth that is not finite; "
                "number rays by row · columns + column"
            )
        balance = np.bincount(ray, weights=np.where(enters, 1, -1), minlength=ray_count)
        wrong = np.flatnonzero(balance)
        if len(wrong):
            raise MeshError(
                f"crossings of {name} enter and leave unequally often on {len(wrong)} rays, the first is ray "
                f"{int(wrong[0])}; a closed body is left as often as it is entered"
            )

    def _check_depths(self, depth: Floats, low: float, high: float) -> None:
        """Refuse crossings outside of the bounds: the region begins there, where the body must be outside."""
        slack = BOUNDS_SLACK * max(abs(low), abs(high), high - low)
        wrong = np.flatnonzero((depth < low - slack) | (depth > high + slack))
        if len(wrong):
            raise MeshError(
                f"crossings of {type(self._source).__name__} are as far as {float(depth[wrong[0]]):.6g}, but its "
                f"bounds go from {low:.6g} to {high:.6g} there; return a box around the whole body"
            )
