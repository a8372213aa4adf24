"""How the overlap volume of two bodies changes with each vertex, and the force that shrinks it [Faure2008].

1. Look   along x, y and z at the spans that both bodies share (``detect.layered_depth``).
2. Sum.   Along the axis d of its ray, a span is as long as its two ends are apart, and an end on a triangle with
          corners v is at Σ w_v x_v[d], w the weights of the corners at the ray. So
              ∂V / ∂x_v[d] = Σ ± A w_v     over the ends on triangles of v, A the area of a pixel,
          + where the ray leaves the overlap, - where it enters. The rays of each axis give one coordinate.
3. Force. The energy ½ k V² pushes vertex v by -k V ∂V / ∂x_v.

Sampled     The sums are the derivatives of the sampled volume, as long as corners move along the rays and the
            window stays: exact but for the rounding of snapped corners. As the resolution grows they converge to
            those of the true volume, ∫ w_v n dS over the part of the surface that is inside the other body.
Balance     Each span gives A to one end and -A to the other: the gradients of both bodies add up to zero, so that the
            forces keep the momentum.
Depth       A contact needs one direction and one length. With g the sum of a's gradient, moving b along g / |g|
            shrinks the volume at the rate |g|: ``normal`` is that direction and ``depth`` is V / |g|, how far it would
            have to go if the rate stayed. For a box pressed into the middle of a larger one that is how deep it is.
            Where one body is inside the other, no direction helps: the normal is NaN and the depth infinite.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from impinge.backend.stages import start_stages
from impinge.checks import Floats
from impinge.contact import volume_gradient_kernels as kernels
from impinge.detect.common.pair_query import PairOptions
from impinge.detect.common.results import Changes, Result
from impinge.detect.layered_depth.detector import DeviceName, LayeredDepth, Look, Rule
from impinge.detect.layered_depth.images import Solid
from impinge.detect.layered_depth.spans_kernels import SIDE_A, SIDE_B
from impinge.errors import OptionError

Ids: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class VolumeGradient(Result):
    """How the overlap volume of two bodies changes with their vertices."""

    volume: float
    gradient_a: Floats
    """∂V / ∂x of each vertex of a, shape (n, 3)."""
    gradient_b: Floats
    point: Floats
    """Centre of the overlap, NaN if there is none, shape (3,)."""
    normal: Floats
    """Unit vector from a to b: moving b along it shrinks the overlap; NaN if no direction does, shape (3,)."""
    depth: float
    """How far to move b along the normal, if the volume shrank at the same rate; 0 without overlap."""
    error: float
    """How far off the volume may be, an estimate."""

    def __len__(self) -> int:
        return int(self.volume > 0.0)

    def force_a(self, stiffness: float) -> Floats:
        """Forces on the vertices of a from the energy ½ stiffness V², shape (n, 3)."""
        return -stiffness * self.volume * self.gradient_a

    def force_b(self, stiffness: float) -> Floats:
        """Forces on the vertices of b from the energy ½ stiffness V², shape (n, 3)."""
        return -stiffness * self.volume * self.gradient_b

    def changes(self, previous: Result) -> Changes:
        """Refuse: a gradient is one thing."""
        raise OptionError(f"a gradient has no rows to compare; subtract the arrays (got a {type(previous).__name__})")


class VolumeCells(NamedTuple):
    """An overlap cut into cells, and how their volumes change with the vertices of both bodies."""

    place: Ids
    """Which cells of the grid these are, numbers of 31 bits, rising, shape (k,)."""
    volume: Floats
    gradients: tuple[Any, Any]
    """∂V / ∂x of the vertices of a and of b, sparse, shape (k, 3 n)."""
    normal: Floats
    """Unit vectors from a to b, shape (k, 3)."""
    area: Floats
    """Size of the summed gradient of a: the cell's face across the normal, shape (k,)."""


class VolumeGradients:
    """Gradients of the overlap volume of two bodies, kept between frames."""

    name = "volume_gradient"

    def __init__(
        self, a: Any, b: Any, *, resolution: int = 128, rule: Rule = "parity", device: DeviceName = "cpu"
    ) -> None:
        if b is None:
            raise OptionError("b is None, but a gradient of the overlap needs two bodies: pass both")
        self._detector = LayeredDepth(a, b, resolution=resolution, axes=3, rule=rule, device=device)

    def query(self, **options: Any) -> VolumeGradient:
        """Look along all axes and sum; options as in ``LayeredDepth.query``."""
        began = perf_counter()
        wanted = PairOptions(**options)
        a, b = self._detector.solids(wanted)
        looks = self._detector.looks(a, b, wanted, start_stages())
        cancelled = wanted.cancelled
        overlap = self._detector.overlap(a, b, looks)
        gradient_a, gradient_b = (_gradient(side, solid, looks) for side, solid in ((SIDE_A, a), (SIDE_B, b)))
        normal, depth = _way_out(overlap.volume, looks)
        return VolumeGradient(
            volume=overlap.volume,
            error=overlap.error,
            gradient_a=gradient_a,
            gradient_b=gradient_b,
            point=overlap.centroid,
            normal=normal,
            depth=depth,
            complete=not cancelled,
            reason="cancelled" if cancelled else None,
            method=self.name,
            stats=overlap.stats,
            elapsed_ms=1e3 * (perf_counter() - began),
        )

    def cells(self, edge: float, **options: Any) -> VolumeCells:
        """The overlap cut into cubes of a fixed grid; each span belongs to the cube that its middle is in.

        The gradients of a cell add up to zero over both bodies, since each span gives its area to both ends. Cells that
        no direction makes smaller are left out.
        """
        wanted = PairOptions(**options)
        solids = self._detector.solids(wanted)
        looks = self._detector.looks(*solids, wanted, start_stages())
        of_span = [_cells_of(look, edge) for look in looks]
        place, rows = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *of_span]), return_inverse=True)
        row = np.split(rows, np.cumsum([len(part) for part in of_span])[:-1]) if looks else []
        volume, total = np.zeros(len(place)), np.zeros((len(place), 3))
        for look, cell in zip(looks, row):
            volume += np.bincount(cell, look.spans.length, len(place)) * look.pixel_area / len(looks)
            is_a = look.spans.side == SIDE_A
            ends = is_a[:, 1].astype(np.float64) - is_a[:, 0]
            total[:, look.view.axis] = np.bincount(cell, ends, len(place)) * look.pixel_area
        gradients = [_sparse_gradient(side, solid, looks, row, len(place)) for side, solid in enumerate(solids)]
        area = np.linalg.norm(total, axis=1)
        kept = np.flatnonzero((area > 0.0) & (volume > 0.0))
        return VolumeCells(
            place=place[kept],
            volume=volume[kept],
            gradients=(gradients[0][kept], gradients[1][kept]),
            normal=total[kept] / area[kept, None],
            area=area[kept],
        )


def _sparse_gradient(side: int, solid: Solid, looks: list[Look], row: list[Ids], cell_count: int) -> Any:
    """∂V / ∂x of cells, shape (k, 3 n)."""
    entries = [(np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))]
    for look, cell in zip(looks if len(solid.faces) else [], row):
        view, spans = look.view, look.spans
        vertex, gain = np.zeros((len(cell), 2, 3), dtype=np.int64), np.zeros((len(cell), 2, 3))
        where = (side, view.axis, view.centres, look.pixel_area)
        kernels.list_span_ends(*where, spans.pixel, spans.tri, spans.side, solid.x, solid.faces, vertex, gain)
        of_side = gain != 0.0
        entries.append((gain[of_side], np.broadcast_to(cell[:, None, None], gain.shape)[of_side],
                        3 * vertex[of_side] + view.axis))  # fmt: skip
    value, rows, columns = (np.concatenate(column) for column in zip(*entries))
    return csr_array((value, (rows, columns)), shape=(cell_count, 3 * len(solid.x)))


def _cells_of(look: Look, edge: float) -> Ids:
    """The number of the cell that the middle of each span is in, 21 bits for each axis, hashed to 31."""
    view, spans = look.view, look.spans
    n, axis = view.centres.shape[1], view.axis
    middle = np.zeros((len(spans.pixel), 3))
    middle[:, (axis + 1) % 3] = view.centres[0, spans.pixel % n]
    middle[:, (axis + 2) % 3] = view.centres[1, spans.pixel // n]
    middle[:, axis] = spans.span.mean(axis=1)
    cell = np.floor(middle / edge).astype(np.int64)
    return np.asarray((cell @ np.array([73856093, 19349663, 83492791])) & 0x7FFFFFFF)


def volume_gradient(a: Any, b: Any, *, resolution: int = 128, rule: Rule = "parity", **options: Any) -> VolumeGradient:
    """How the overlap volume of ``a`` and ``b`` changes with each of their vertices; forces, normal and depth."""
    return VolumeGradients(a, b, resolution=resolution, rule=rule).query(**options)


def _gradient(side: int, solid: Solid, looks: list[Look]) -> Floats:
    gradient = np.zeros((len(solid.x), 3))
    for look in looks if len(solid.faces) else ():
        view, spans = look.view, look.spans
        where = (side, view.axis, view.centres, look.pixel_area)
        kernels.add_span_ends(*where, spans.pixel, spans.tri, spans.side, solid.x, solid.faces, gradient)
    return gradient


def _way_out(volume: float, looks: list[Look]) -> tuple[Floats, float]:
    """Direction in which b leaves, and how far at the present rate.

    The weights of corners add up to one, so that a's gradient sums to A times the number of far ends of spans on a less
    that of near ones: whole numbers, which cancel exactly. Bodies without corners are pushed, too.
    """
    if not volume > 0.0:
        return np.full(3, np.nan), 0.0
    g = np.zeros(3)
    for look in looks:
        near, far = np.count_nonzero(look.spans.side == SIDE_A, axis=0)
        g[look.view.axis] = look.pixel_area * (int(far) - int(near))
    largest = float(np.abs(g).max())
    if not largest > 0.0:
        return np.full(3, np.nan), np.inf
    share = float(np.linalg.norm(g / largest))  # of numbers near one: squares of tiny ones would vanish
    return g / largest / share, volume / largest / share
