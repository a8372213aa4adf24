"""The gradient of the overlap volume of two bodies, and the force that shrinks the overlap [Faure2008].

1. Rays   along x, y and z give the spans that both bodies share (``detect.layered_depth``).
2. Sum.   A span along axis d is as long as the distance of its two ends. An end on a triangle with corners v is at
          Σ w_v x_v[d], w the weights of the corners at the ray. Hence
              ∂V / ∂x_v[d] = Σ ± A w_v     over the ends on triangles of v, A the area of a pixel,
          + where the ray leaves the overlap, - where it enters. The rays of each axis give one coordinate.
3. Force. The energy ½ k V² pushes vertex v by -k V ∂V / ∂x_v.

Sampled   The sums are the derivatives of the sampled volume while corners move along the rays and the window stays:
          exact but for the rounding of snapped corners. With growing resolution they converge to those of the true
          volume, ∫ w_v n dS over the part of the surface inside the other body.
Balance   Each span gives A to one end and -A to the other: the gradients of both bodies add up to zero, and forces
          conserve momentum.
Depth     With g the sum of a's gradient, moving b along g / |g| shrinks the volume at the rate |g|: ``normal`` is that
          direction and ``depth`` is V / |g|, the distance at a constant rate. For a box pressed into the middle of a
          larger one this is the penetration depth. If one body is inside the other, no direction shrinks the volume:
          the normal is NaN and the depth infinite.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from impinge.backend.stages import start_stages
from impinge.checks import Cancel, Floats, as_number
from impinge.contact.volume_gradient_kernels import list_span_ends
from impinge.detect.common.pair_query import PairOptions
from impinge.detect.common.results import Changes, Result
from impinge.detect.layered_depth.detector import DeviceName, LayeredDepth, Look, Rule
from impinge.detect.layered_depth.images import Solid
from impinge.detect.layered_depth.sources import DepthSource
from impinge.detect.layered_depth.spans_kernels import SIDE_A, SIDE_B
from impinge.errors import OptionError
from impinge.mesh.body import SurfaceLike

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Ids: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class VolumeGradient(Result):
    """The overlap volume of two bodies and its derivatives by their vertices."""

    volume: float
    gradient_a: Floats
    """∂V / ∂x of each vertex of a, shape (n, 3)."""
    gradient_b: Floats
    point: Floats
    """Centre of the overlap, NaN without one, shape (3,)."""
    normal: Floats
    """Unit vector from a to b: moving b along it shrinks the overlap; NaN if no direction does, shape (3,)."""
    depth: float
    """Distance to move b along the normal, at a constant rate; 0 without overlap."""
    error: float
    """Estimated error of the volume."""

    def __len__(self) -> int:
        return int(self.volume > 0.0)

    def _found(self) -> str:
        return f"volume {self.volume:.6g} ± {self.error:.1g}, depth {self.depth:.6g}"

    def force_a(self, stiffness: float) -> Floats:
        """Forces on the vertices of a from the energy ½ stiffness V², shape (n, 3)."""
        return -_stiffness(stiffness) * self.volume * self.gradient_a

    def force_b(self, stiffness: float) -> Floats:
        """Forces on the vertices of b from the energy ½ stiffness V², shape (n, 3)."""
        return -_stiffness(stiffness) * self.volume * self.gradient_b

    def changes(self, previous: Result) -> Changes:
        """Refuse: a gradient has no rows."""
        raise OptionError(f"a gradient has no rows to compare; subtract the arrays (got a {type(previous).__name__})")


class VolumeCells(NamedTuple):
    """An overlap cut into cells, and the derivatives of their volumes by the vertices of both bodies."""

    place: Ids
    """Hashes of the grid cells, 31 bits, sorted, shape (k,)."""
    volume: Floats
    gradients: tuple[csr_array, csr_array]
    """∂V / ∂x of the vertices of a and of b, sparse, shape (k, 3 n)."""
    normal: Floats
    """Unit vectors from a to b, shape (k, 3)."""
    area: Floats
    """Length of the summed gradient of a: the area of the cell across the normal, shape (k,)."""


def _stiffness(x: float) -> float:
    return as_number(x, "stiffness", "a finite number", above=-np.inf, below=np.inf)


class VolumeGradients:
    """Computes gradients of the overlap volume of two bodies; kept between frames.

    A pickled or copied object has its bodies and options, and none of its images.

    Parameters
    ----------
    a, b : body or depth source
        Closed and oriented surfaces.
    resolution : int
        Pixels along each side of the images.
    rule : {"parity", "winding"}
        "winding" is for bodies that overlap themselves.
    device : {"cpu", "cuda"}
        Device that draws the images.
    """

    name = "volume_gradient"

    def __init__(
        self,
        a: SurfaceLike | DepthSource,
        b: SurfaceLike | DepthSource,
        *,
        resolution: int = 128,
        rule: Rule = "parity",
        device: DeviceName = "cpu",
    ) -> None:
        if b is None:
            raise OptionError("b is None, but a gradient of the overlap needs two bodies: pass both")
        self._options = resolution, rule, device
        self._detector = LayeredDepth(a, b, resolution=resolution, axes=3, rule=rule, device=device)

    def query(
        self,
        *,
        transform_a: ArrayLike | None = None,
        transform_b: ArrayLike | None = None,
        active_a: ArrayLike | None = None,
        active_b: ArrayLike | None = None,
        cancel: Cancel | None = None,
    ) -> VolumeGradient:
        """Compute the overlap volume and its gradient.

        Parameters
        ----------
        transform_a, transform_b, active_a, active_b, cancel
            As in ``triangle_pairs``; active triangles must be closed by themselves.

        Returns
        -------
        VolumeGradient
            Volume, gradients, normal and depth.
        """
        began = perf_counter()
        options = PairOptions(transform_a, transform_b, active_a, active_b, cancel=cancel)
        solids = self._detector.solids(options)
        looks = self._detector.looks(*solids, options, start_stages())
        overlap, cancelled = self._detector.overlap(*solids, looks), options.cancelled
        gradients = [np.zeros((len(solid.x), 3)) for solid in solids]
        g = np.zeros(3)
        """Sum of a's gradient. Weights of corners add up to one, and far and near ends of spans on a, whole numbers,
        cancel exactly; bodies without corners are pushed too."""
        for look in looks:
            axis = look.view.axis
            for side, (solid, gradient) in enumerate(zip(solids, gradients)):
                vertex, gain = _span_ends(side, solid, look)
                gradient[:, axis] = np.bincount(vertex.reshape(-1), gain.reshape(-1), len(solid.x))
            near, far = np.count_nonzero(look.spans.side == SIDE_A, axis=0)
            g[axis] = look.pixel_area * (int(far) - int(near))
        normal, depth, largest = np.full(3, np.nan), np.inf, float(np.abs(g).max())
        if not overlap.volume > 0.0:
            depth = 0.0
        elif largest > 0.0:
            share = float(np.linalg.norm(g / largest))  # of numbers near one: squares of tiny ones would vanish
            normal, depth = g / largest / share, overlap.volume / largest / share
        return VolumeGradient(
            volume=overlap.volume,
            error=overlap.error,
            gradient_a=gradients[SIDE_A],
            gradient_b=gradients[SIDE_B],
            point=overlap.centroid,
            normal=normal,
            depth=depth,
            complete=not cancelled,
            reason="cancelled" if cancelled else None,
            method=self.name,
            stats=overlap.stats,
            elapsed_ms=1e3 * (perf_counter() - began),
        )

    def cells(self, edge: float) -> VolumeCells:
        """Cut the overlap into the cubes of a fixed grid.

        Parameters
        ----------
        edge : float
            Edge length of the cubes.

        Returns
        -------
        VolumeCells
            Each span belongs to the cube that contains its middle. The gradients of a cell add up to zero over both
            bodies. Cells that no direction shrinks are left out.
        """
        as_number(edge, "edge", "a length above 0", above=0.0, below=np.inf)
        options = PairOptions()
        solids = self._detector.solids(options)
        looks = self._detector.looks(*solids, options, start_stages())
        hashes = [_cells_of(look, edge) for look in looks]
        place, rows = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *hashes]), return_inverse=True)
        volume, total = np.zeros(len(place)), np.zeros((len(place), 3))
        none = np.zeros(0, dtype=np.int64)
        entries = [[(np.zeros(0), none, none)], [(np.zeros(0), none, none)]]
        for look, cell in zip(looks, np.split(rows, np.cumsum([len(part) for part in hashes])[:-1])):
            axis = look.view.axis
            volume += np.bincount(cell, look.spans.length, len(place)) * look.pixel_area / len(looks)
            is_a = look.spans.side == SIDE_A
            ends = is_a[:, 1].astype(np.float64) - is_a[:, 0]
            total[:, axis] = np.bincount(cell, ends, len(place)) * look.pixel_area
            for side, solid in enumerate(solids):
                vertex, gain = _span_ends(side, solid, look)
                of_side = gain != 0.0
                cells = np.broadcast_to(cell[:, None, None], gain.shape)[of_side]
                entries[side].append((gain[of_side], cells, 3 * vertex[of_side] + axis))
        from scipy.sparse import csr_array  # a slow import

        area = np.linalg.norm(total, axis=1)
        kept = np.flatnonzero((area > 0.0) & (volume > 0.0))
        gradient_a, gradient_b = (
            csr_array((value, (row, column)), shape=(len(place), 3 * len(solid.x)))[kept]
            for solid, (value, row, column) in zip(solids, (map(np.concatenate, zip(*part)) for part in entries))
        )
        return VolumeCells(
            place[kept], volume[kept], (gradient_a, gradient_b), total[kept] / area[kept, None], area[kept]
        )  # fmt: skip

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy bodies and options."""
        resolution, rule, device = self._options
        make = partial(VolumeGradients, resolution=resolution, rule=rule, device=device)
        return make, (self._detector.a, self._detector.b)

    def __repr__(self) -> str:
        return f"<VolumeGradients: a {self._detector.a!r}, b {self._detector.b!r}, {self._options[0]} pixels>"


def _span_ends(side: int, solid: Solid, look: Look) -> tuple[Ids, Floats]:
    """Corners of the triangles at both ends of each span and their gains, shape (k, 2, 3); 0 on the other body."""
    view, spans = look.view, look.spans
    vertex, gain = np.zeros((len(spans.pixel), 2, 3), dtype=np.int64), np.zeros((len(spans.pixel), 2, 3))
    if len(solid.faces):
        arrays = spans.pixel, spans.tri, spans.side, solid.x, solid.faces
        list_span_ends(side, view.axis, view.centres, look.pixel_area, *arrays, vertex, gain)
    return vertex, gain


def _cells_of(look: Look, edge: float) -> Ids:
    """Hash of the cell that contains the middle of each span: 21 bits per axis, hashed to 31."""
    view, spans = look.view, look.spans
    n, axis = view.centres.shape[1], view.axis
    middle = np.zeros((len(spans.pixel), 3))
    middle[:, (axis + 1) % 3] = view.centres[0, spans.pixel % n]
    middle[:, (axis + 2) % 3] = view.centres[1, spans.pixel // n]
    middle[:, axis] = spans.span.mean(axis=1)
    cell = np.floor(middle / edge).astype(np.int64)
    return np.asarray((cell @ np.array([73856093, 19349663, 83492791])) & 0x7FFFFFFF)


def volume_gradient(
    a: SurfaceLike | DepthSource,
    b: SurfaceLike | DepthSource,
    *,
    resolution: int = 128,
    rule: Rule = "parity",
    transform_a: ArrayLike | None = None,
    transform_b: ArrayLike | None = None,
    active_a: ArrayLike | None = None,
    active_b: ArrayLike | None = None,
    cancel: Cancel | None = None,
) -> VolumeGradient:
    """Compute the gradient of the overlap volume of two bodies, with forces, normal and depth.

    Parameters
    ----------
    a, b, resolution, rule
        As in ``VolumeGradients``.
    transform_a, transform_b, active_a, active_b, cancel
        As in ``VolumeGradients.query``.

    Returns
    -------
    VolumeGradient
        Volume, gradients, normal and depth.

    Raises
    ------
    MeshError
        If a body is not closed and oriented.
    """
    return VolumeGradients(a, b, resolution=resolution, rule=rule).query(
        transform_a=transform_a, transform_b=transform_b, active_a=active_a, active_b=active_b, cancel=cancel
    )
