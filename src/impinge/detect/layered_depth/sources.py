"""Depth sources: closed bodies without triangles that compute where rays cross them.

The paper requires a watertight surface that can be rendered, not triangles (section 3, Input). A depth source has one
method for that: the crossings of the rays of an image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from impinge.checks import Bools, Floats, as_number, as_numbers, as_positions, as_whole, shown
from impinge.detect.layered_depth.image_cache import ImageCache, read_only
from impinge.detect.layered_depth.images import Cpu, Image, Solid, View
from impinge.errors import MeshError, OptionError

BOUNDS_SLACK = 1e-9
"""Share of its size by which a source may round beyond its own bounds."""


class Crossings(NamedTuple):
    """Crossings of rays with a body, in any order."""

    ray: NDArray[np.int64]
    """Ray of each crossing: row · number of columns + column, shape (k,)."""
    depth: Floats
    """Coordinate along the axis of the rays, shape (k,)."""
    enters: Bools
    """Whether the ray, going up its axis, enters there; else it leaves, shape (k,)."""


class DepthSource(Protocol):
    """A closed body that computes its crossings with rays; any object with these three attributes is one."""

    @property
    def version(self) -> int:
        """Grows with every change, which invalidates images."""

    @property
    def bounds(self) -> Floats:
        """Lowest and highest corner of a box around it, shape (2, 3)."""

    def crossings(self, axis: int, u: Floats, v: Floats) -> Crossings:
        """Crossings with rays along ``axis``, at ``u`` along the next axis (columns), ``v`` along the third (rows)."""


@dataclass(frozen=True)
class Sphere:
    """A ball as a depth source.

    Parameters
    ----------
    center : array_like, shape (3,)
    radius : float
        Above 0.
    version : int
        Grows with every change.
    """

    center: ArrayLike
    radius: float
    version: int = 0

    def __post_init__(self) -> None:
        _check_point("center of a Sphere", self.center)
        as_number(self.radius, "radius of a Sphere", "a number above 0 and below 1e150", above=0.0, below=1e150)

    @property
    def bounds(self) -> Floats:
        """Lowest and highest corner, shape (2, 3)."""
        center = np.asarray(self.center, dtype=np.float64)
        return np.stack([center - self.radius, center + self.radius])

    def crossings(self, axis: int, u: Floats, v: Floats) -> Crossings:
        """Every ray nearer to the centre than the radius enters and leaves once."""
        u, v = _rays(axis, u, v)
        center = np.asarray(self.center, dtype=np.float64)
        across = (u[None, :] - center[(axis + 1) % 3]) ** 2 + (v[:, None] - center[(axis + 2) % 3]) ** 2
        hit = np.flatnonzero(across.reshape(-1) < self.radius**2)
        half = np.sqrt(self.radius**2 - across.reshape(-1)[hit])
        depth = np.concatenate([center[axis] - half, center[axis] + half])
        return Crossings(np.tile(hit, 2), depth, np.arange(2 * len(hit)) < len(hit))


@dataclass(frozen=True)
class HeightField:
    """Columns side by side on a floor, each with a flat top, as a depth source.

    Parameters
    ----------
    heights : array_like, shape (columns along x, columns along y)
        Top of each column above the floor, 0 or more.
    corner : array_like, shape (3,)
        Lowest corner.
    cell : float
        Width of a column.
    version : int
        Grows with every change.
    """

    heights: ArrayLike
    corner: ArrayLike
    cell: float
    version: int = 0

    def __post_init__(self) -> None:
        _check_point("corner of a HeightField", self.corner)
        as_number(self.cell, "cell of a HeightField", "a finite number above 0", above=0.0, below=np.inf)
        heights = as_numbers(self.heights, "heights")
        if heights.ndim != 2 or not (np.isfinite(heights) & (heights >= 0)).all():
            raise MeshError(
                f"heights of a HeightField have shape {heights.shape}, or one is negative or not finite; expected a "
                "table of heights above the floor: lower the corner"
            )

    @property
    def bounds(self) -> Floats:
        """Lowest and highest corner, shape (2, 3)."""
        heights, corner = np.asarray(self.heights, dtype=np.float64), np.asarray(self.corner, dtype=np.float64)
        size = [heights.shape[0] * self.cell, heights.shape[1] * self.cell, heights.max(initial=0.0)]
        return np.stack([corner, corner + size])

    def crossings(self, axis: int, u: Floats, v: Floats) -> Crossings:
        """Upright rays cross the floor and a top, others enter and leave where tops rise above them and fall below."""
        u, v = _rays(axis, u, v)
        corner = np.asarray(self.corner, dtype=np.float64)
        heights = np.pad(np.asarray(self.heights, dtype=np.float64), 1)  # columns around it have height 0

        def cells(at: Floats, k: int) -> NDArray[np.int64]:
            cell: NDArray[np.int64] = np.floor((at - corner[k]) / self.cell).astype(np.int64) + 1
            return cell.clip(0, heights.shape[k] - 1)

        if axis == 2:
            top = heights[cells(u, 0)][:, cells(v, 1)].T.reshape(-1)
            ray = np.flatnonzero(top > 0.0)
            depth = np.concatenate([np.full(len(ray), corner[2]), corner[2] + top[ray]])
            return Crossings(np.tile(ray, 2), depth, np.arange(2 * len(ray)) < len(ray))
        # Along x, columns of the image go along y and rows along z; along y, columns go along z and rows along x.
        line, up = (heights.T[cells(u, 1)], v - corner[2]) if axis == 0 else (heights[cells(v, 0)], u - corner[2])
        solid = (line[:, None, :] > up[None, :, None]) & (up >= 0.0)[None, :, None]
        step = np.diff(solid.astype(np.int8), axis=2)
        at, height, edge = np.nonzero(step)
        ray = height * len(u) + at if axis == 0 else at * len(u) + height
        return Crossings(ray, corner[axis] + self.cell * edge, step[at, height, edge] > 0)


def _rays(axis: int, u: ArrayLike, v: ArrayLike) -> tuple[Floats, Floats]:
    """Columns and rows of the rays along an axis."""
    as_whole(axis, "axis", least=0, most=2)
    found = as_numbers(u, "u"), as_numbers(v, "v")
    for name, x in zip("uv", found):
        if x.ndim != 1 or not np.isfinite(x).all():
            raise OptionError(f"{name} has shape {x.shape}, expected a flat list of finite numbers")
    return found[0].astype(np.float64, copy=False), found[1].astype(np.float64, copy=False)


def _check_point(name: str, x: ArrayLike) -> None:
    point = as_numbers(x, name)
    if point.shape != (3,) or not np.isfinite(point).all():
        raise MeshError(f"{name} is {shown(x)}, expected three finite numbers")


class SourceImages(ImageCache[DepthSource]):
    """Images of a depth source."""

    def __init__(self, source: DepthSource) -> None:
        super().__init__()
        self._source = source

    def solid(self, body: DepthSource, transform: Floats | None, active: ArrayLike | None, letter: str) -> Solid:
        """The source as it is now; it has no vertices."""
        if transform is not None or active is not None:
            raise OptionError(
                f"body {letter} is a depth source, which has neither vertices nor triangles: leave out "
                f"transform_{letter} and active_{letter}"
            )
        bounds = as_positions(body.bounds, name=f"bounds of body {letter}")
        if bounds.shape != (2, 3):
            raise MeshError(
                f"bounds of body {letter} have shape {bounds.shape}, expected (2, 3): lowest and highest corner"
            )
        none, token = read_only(np.zeros(0, dtype=np.int32)), (body.version, b"", None)
        return Solid(read_only(np.zeros((0, 3))), np.zeros((0, 3), dtype=np.int32), none, none, bounds, token)

    def _draw(self, device: Cpu, solid: Solid, view: View) -> Image:
        found, ray_count = self._source.crossings(view.axis, *view.centres), view.resolution**2
        name = f"crossings of {type(self._source).__name__}"
        try:
            ray, depth, enters = found
        except (TypeError, ValueError) as error:
            raise MeshError(f"{name} are {shown(found)}, expected rays, depths and flags") from error
        ray, depth = np.asarray(ray, dtype=np.int64), np.asarray(depth, dtype=np.float64)
        enters = np.asarray(enters, dtype=np.bool_)
        if not (ray.shape == depth.shape == enters.shape and ray.ndim == 1):
            shapes = f"{ray.shape}, {depth.shape} and {enters.shape}"
            raise MeshError(f"{name} have shapes {shapes}; expected one ray, one depth and one flag per crossing")
        if len(ray) and (ray.min() < 0 or ray.max() >= ray_count or not np.isfinite(depth).all()):
            expected = f"rays from 0 to {ray_count - 1}, row · columns + column, and finite depths"
            raise MeshError(f"{name} have a ray or a depth out of range; expected {expected}")
        uneven = np.flatnonzero(np.bincount(ray, weights=np.where(enters, 1, -1), minlength=ray_count))
        if len(uneven):
            first = f"on {len(uneven)} rays, the first is ray {int(uneven[0])}"
            raise MeshError(f"{name} enter and leave unequally often {first}; expected a closed body")
        # The region begins at the bounds, where the body must be outside.
        low, high = solid.bounds[:, view.axis].tolist()
        slack = BOUNDS_SLACK * max(abs(low), abs(high), high - low)
        beyond = depth[(depth < low - slack) | (depth > high + slack)]
        if len(beyond):
            bounds = f"bounds go from {low:.6g} to {high:.6g} there; return a box around the whole body"
            raise MeshError(f"{name} are as far as {float(beyond[0]):.6g}, but its {bounds}")
        least, largest = view.kept_depths
        kept = (depth >= least) & (depth <= largest)
        face = np.where(enters, 0, -1).astype(np.int32)
        return device.place(solid, view, ray[kept].astype(np.int32), depth[kept], face[kept])
