"""The volume that closed bodies share, from layered depth images [Heidelberger2003].

1. Region   The boxes around both bodies overlap in the *volume of interest* (3.1). Rays go along one axis through n x n
            pixels of a window, the two other sides of that volume. Along the rays each body is rendered from an end
            where it is outside: X from its own low end, Y from its own high end, hence the region reaches from lo_X to
            hi_Y. Of the six choices (three axes; a or b first) the shortest is taken. Where the boxes are nested this
            is the extension of Fig. 2b, without a case distinction.
2. Images   of both bodies within the region (3.2): the crossings of each ray with the surface, sorted by depth.
            a. Snap vertices to integers, 2^-16 of a pixel apart.
            b. Each triangle writes a fragment for every pixel whose centre it covers, to the list of its chunk.
            c. Count fragments per pixel, scan the counts, move fragments to their pixels, sort each pixel.
3. Combine  (3.3) Merge both lists of a pixel: entries and exits give the spans where both bodies are inside. The volume
            is the area of a pixel times the length of all spans. Vertices of one body are looked up in the image of the
            other; crossings near a vertex are moved along their plane to its own ray (``points``).
4. Touching Spans not longer than the error of their depths are dropped: bodies that only touch share no volume, also
            where they touch in a slanted face. Two coplanar triangles have the same depth on a ray, with different
            rounding. The error of a depth is the sum of
                |slope| s   s: displacement of corners by snapping or, without snapping, by rounding of edge functions
                8 u D       D: depth range of the corners, u = 2^-53: rounding of weights and of their sum
                2 u |z|     rounding of the depth itself; exact if D = 0, since a flat triangle has its corners' depth
            where the first is at most D. Slopes above some 256 count as 256: only spans far shorter than a pixel go.

Watertight  An edge function of integers is exact, and of the two directions of an edge one owns the points on it: two
            triangles on either side of an edge cover a centre on it once, two on the same side twice or never. Hence
            every ray leaves a closed surface as often as it enters. Coordinates of 2^29 would overflow: a body much
            larger than the window gets fewer fractional bits, and below 8 of them nothing is snapped; the signs of
            doubles are then computed exactly, with the same rule. Triangles are never clipped.
Rules       "parity": inside is where the number of crossings is odd (the paper). "winding": where entries and exits
            do not cancel; the self-overlap of a body counts there. They agree for bodies without self-overlap.
Self        ``LayeredDepth(a)`` (7, Ongoing Work): where entries and exits differ by two or more a body overlaps itself,
            where exits come first it is inverted. The region is the whole body. Vertices on or within half a pixel of
            such spans are listed: a vertex lies on the surface, and its ray is not exactly that of its pixel. Rays may
            miss sheets parallel to them, and their vertices, hence all three axes are sampled.
Three axes  ``axes=3`` samples along x, y and z; the volume is the mean. Default for one body; 1 for two.
Error       A ray represents its pixel. What it misses shows as jumps between neighbours: the estimate is made from
            second differences of the lengths per ray, pixel by pixel (as if independent) and of their sums per row, per
            column and along slopes of 1, 2 and 3 to 1: where an edge runs along such a line of pixels, their errors are
            equal. With three axes it is at least their spread. Without any span it is the volume of a single ray.
            (Two resolutions, or three axes alone, estimate 0 for a symmetric body.)
Sources     Bodies without triangles: see ``sources``.

Departures  One pass over the triangles draws all layers; the paper renders once per layer (``published.layered_depth``
            is the paper as written). There is no limit of 255 layers. Both images are sorted upwards, from either end,
            and nothing is mirrored. Depths are doubles in the user's units. A ray still inside at the far end of the
            region ends there.
Guarantee   approximate: exact along the rays, sampled across them. The same bits for any number of threads and for
            either order of the bodies. Bodies that only touch do not overlap. Open or inconsistently oriented bodies
            are refused.
Cost        some nanoseconds per triangle and per fragment, for any number of layers; step 3 does not depend on the
            number of triangles, except for the look-up of vertices within the region.
Tried       (110k triangles, 128 x 128 pixels, one core of a busy machine) Most small triangles cover no centre: drawing
            them one by one takes 3.1 ms because of mispredicted branches; selecting candidates first, 64 at a time by
            vector instructions, 1.7 ms. Counting spans and then writing them 1.5 ms, writing them with gaps and packing
            them 0.7 ms. Points with a branch per crossing 2.1 ms, without 0.7 ms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from impinge.backend.stages import Stages, start_stages
from impinge.checks import NONE, Cancel, Floats, Ints, Stats, as_choice, as_flag, as_whole
from impinge.detect.common.pair_query import PairOptions
from impinge.detect.layered_depth.image_cache import ImageCache, MeshImages
from impinge.detect.layered_depth.images import MOST_BITS, Cpu, Image, Solid, Spans, View
from impinge.detect.layered_depth.sources import DepthSource, SourceImages
from impinge.detect.layered_depth.spans_kernels import INVERTED, OVERLAP, PARITY, WINDING, squares_of_bends
from impinge.detect.layered_depth.volume_overlap import VolumeOverlap
from impinge.errors import MeshError
from impinge.mesh.body import SurfaceLike, as_surface
from impinge.mesh.tri_mesh import TriMesh

DeviceName: TypeAlias = Literal["cpu", "cuda"]
Rule: TypeAlias = Literal["parity", "winding"]

RULES: dict[Rule, int] = {"parity": PARITY, "winding": WINDING}
LARGEST_RESOLUTION = 1 << 13
"""Pixels per side: 2^26 in all, and 2^29 with the fewest fractional bits of a snapped coordinate."""
FEWEST_PIXELS = 4
"""Pixels per side from which second differences estimate the error."""
CERTAINTY = 2.0
"""Standard deviations of the error estimate."""
STEEPEST_EDGE = 3
"""Slopes of edges, as whole numbers of pixels to one, along which errors of pixels are taken as equal."""
UNIT_ROUNDOFF = 2.0**-53
STEEPEST_SPAN = 512.0
"""Largest sum of the slopes of both ends of a span whose error by snapping is accounted for."""


@dataclass(frozen=True)
class Look:
    """Spans along the rays of one axis, and the images of both bodies."""

    a: Image
    b: Image
    spans: Spans

    @property
    def view(self) -> View:
        """The view of both images."""
        return self.a.view

    @property
    def pixel_area(self) -> float:
        """Area that a ray represents."""
        return math.prod(self.view.pixel_size)

    @property
    def volume(self) -> float:
        """Area of a pixel times the length of all spans."""
        return float(self.spans.length.sum()) * self.pixel_area

    @property
    def centre(self) -> Floats:
        """Centroid of the spans."""
        view, length = self.view, self.spans.length
        (u, v), (row, column) = view.window_axes, np.divmod(self.spans.pixel, view.resolution)
        at_u, at_v = view.centres
        share, centre = length / length.sum(), np.zeros(3)
        # Sums, not BLAS products, whose bits depend on the number of threads.
        centre[u], centre[v] = (share * at_u[column]).sum(), (share * at_v[row]).sum()
        centre[view.axis] = (share * (0.5 * self.spans.span[:, 0] + 0.5 * self.spans.span[:, 1])).sum()
        return centre

    @property
    def error(self) -> float:
        """Estimate of the sampling error of the volume."""
        view, area, n = self.view, self.pixel_area, self.view.resolution
        ray = view.high[view.axis] - view.low[view.axis]
        if not len(self.spans.span):
            return area * ray
        if n < FEWEST_PIXELS:
            return max(self.volume, area * n**2 * ray - self.volume)
        per_ray = np.bincount(self.spans.pixel, weights=self.spans.length, minlength=n * n)
        length = per_ray.astype(np.float64, copy=False).reshape(n, n)
        bends = sum(squares_of_bends(each, STEEPEST_EDGE) for each in (length, np.ascontiguousarray(length.T)))
        # A jump shows in two second differences, and moves the integral by up to half of it either way: a
        # variance of 1 / 12 each.
        return CERTAINTY * area * math.sqrt(bends / 24.0)


class LayeredDepth:
    """The volume shared by two closed bodies, or by one with itself; kept between frames.

    Images are kept with the bodies and drawn again when a body moved. A pickled or copied detector has its bodies and
    options.

    Parameters
    ----------
    a, b : TriMesh, TetMesh, tuple (vertices, elements), mesh of trimesh, pyvista or meshio, path, or depth source
        The bodies, closed and consistently oriented; without ``b``, the overlap of ``a`` with itself. A depth source
        has ``version``, ``bounds`` and ``crossings``, such as ``Sphere`` and ``HeightField``.
    resolution : int
        Pixels along each side of the images, 1 to 8192.
    axes : {1, 3}, optional
        1 samples along the axis with the shortest region, 3 along all axes. Default: 1, of one body 3.
    rule : {"parity", "winding"}
        Inside is where the number of crossings is odd, or where entries and exits do not cancel. "winding" is for
        bodies that overlap themselves.
    device : {"cpu", "cuda"}
        Where images are drawn; both give the same bits.

    Examples
    --------
    >>> from impinge import LayeredDepth, shapes
    >>> detector = LayeredDepth(shapes.box(1.0), shapes.box(1.0, center=(0.5, 0.0, 0.0)))
    >>> detector.query().volume
    0.5
    """

    name = "layered_depth"

    def __init__(
        self,
        a: SurfaceLike | DepthSource,
        b: SurfaceLike | DepthSource | None = None,
        *,
        resolution: int = 128,
        axes: Literal[1, 3] | None = None,
        rule: Rule = "parity",
        device: DeviceName = "cpu",
    ) -> None:
        self.a = as_depth_body(a, "a")
        self.b = None if b is None else as_depth_body(b, "b")
        self.resolution = as_whole(resolution, "resolution", most=LARGEST_RESOLUTION)
        self.axes = (3 if b is None else 1) if axes is None else as_choice(axes, "axes", (1, 3))
        self.rule: Rule = as_choice(rule, "rule", RULES)
        self._device = find_device(device)
        self.device: DeviceName = device
        self._images_a = images_of(self.a)
        self._images_b = self._images_a if self.b is None else images_of(self.b)

    def query(
        self,
        *,
        vertices: bool = True,
        transform_a: ArrayLike | None = None,
        transform_b: ArrayLike | None = None,
        active_a: ArrayLike | None = None,
        active_b: ArrayLike | None = None,
        cancel: Cancel | None = None,
    ) -> VolumeOverlap:
        """Find the overlap of the bodies as they are now.

        Parameters
        ----------
        vertices : bool
            False leaves out the vertices inside the other body, which saves a quarter of the time.
        transform_a, transform_b : array_like, shape (4, 4), optional
            Affine matrices that move the bodies for this query; not for depth sources.
        active_a, active_b : array_like, optional
            Ids or masks of the triangles that take part. They must be closed by themselves, such as one of several
            pieces.
        cancel : object with ``is_set()``, optional
            Stops the query when set, such as a ``threading.Event``.

        Returns
        -------
        VolumeOverlap
            Volume, error estimate, spans along the rays, and vertices inside.

        Raises
        ------
        MeshError
            If a body is open or inconsistently oriented, or too large for doubles.
        OptionError
            If an option is out of its range.
        """
        began = perf_counter()
        as_flag(vertices, "vertices")
        options = PairOptions(transform_a, transform_b, active_a, active_b, cancel=cancel, is_self=self.b is None)
        stages = start_stages()
        a, b = self.solids(options)
        stages.done("region")
        looks = self.looks(a, b, options, stages)
        cancelled = options.cancelled
        overlap = self.overlap(a, b, looks)
        in_b, in_a = self._penetrating(a, b, looks) if vertices else (None, None)
        stages.done("vertices")
        return replace(
            overlap,
            penetrating_a=in_b,
            penetrating_b=in_a,
            complete=not cancelled,
            reason="cancelled" if cancelled else None,
            stats={**overlap.stats, **stages.times()},
            elapsed_ms=1e3 * (perf_counter() - began),
        )

    def solids(self, options: PairOptions) -> tuple[Solid, Solid]:
        """Both bodies as they are now; of one body, twice the same."""
        a = self._images_a.solid(self.a, options.transform_a, options.active_a, "a")
        if self.b is None:
            return a, a
        return a, self._images_b.solid(self.b, options.transform_b, options.active_b, "b")

    def looks(self, a: Solid, b: Solid, options: PairOptions, stages: Stages) -> list[Look]:
        """Spans along the axis with the shortest region, or along all axes, the shortest first."""
        looks = []
        for view_a, view_b in views(a.bounds, b.bounds, self.resolution, self.b is None)[: self.axes]:
            if options.cancelled:
                break
            image_a = self._images_a.image(self._device, a, view_a)
            image_b = image_a if self.b is None else self._images_b.image(self._device, b, view_b)
            stages.done("images")
            looks.append(self._look(image_a, image_b, OVERLAP if self.b is None else RULES[self.rule]))
            stages.done("spans")
        return looks

    def _look(self, a: Image, b: Image, rule: int) -> Look:
        """Spans in which both bodies are inside; none if their volume underflows."""
        look = Look(a, b, _without_touching(self._device.spans(a, b, rule), a, b))
        if not len(look.spans.span) or 0.0 < look.volume < math.inf:
            return look
        sides = [np.ptp(image.solid.bounds, axis=0).tolist() for image in (a, b)]
        if look.volume > 0.0 or not all(map(math.prod, sides)):
            raise MeshError(
                f"the bodies are {max(sides[0]):.3g} and {max(sides[1]):.3g} wide, and their common volume is beyond "
                "the range of doubles; use other units"
            )
        return replace(look, spans=look.spans.only(slice(0)))

    def overlap(self, a: Solid, b: Solid, looks: list[Look]) -> VolumeOverlap:
        """The result of all axes together, without the vertices."""
        box, is_self = _common_box(a.bounds, b.bounds), self.b is None
        names = ("axes", "fragments_a", "fragments_b", "bits_a", "bits_b")
        counts = [(look.view.axis, look.a.count, look.b.count, look.a.bits, look.b.bits) for look in looks]
        stats: Stats = {name: [row[k] for row in counts] for k, name in enumerate(names)}
        result = partial(
            VolumeOverlap,
            resolution=self.resolution,
            rule=self.rule,
            method=self.name,
            stats=stats,
            bodies=(a,) if is_self else (a, b),
        )
        volumes, centroid = np.full(3, np.nan), np.full(3, np.nan)
        if not looks:
            error = float(np.prod(np.maximum(box[1] - box[0], 0.0)))
            none, no_pixel = np.zeros((0, 2)), np.zeros((0, 2), dtype=np.int32)
            region = box if (box[0] <= box[1]).all() else np.full((2, 3), np.nan)
            return result(volume=0.0, error=error, spans=none, pixel=no_pixel, region=region, centroid=centroid)
        for look in looks:
            volumes[look.view.axis] = look.volume
        volume = float(np.mean(volumes[np.isfinite(volumes)]))
        filled = [look for look in looks if look.volume > 0.0]
        if filled:
            share = np.array([look.volume / max(each.volume for each in filled) for look in filled])
            centroid = np.sum([look.centre * part for look, part in zip(filled, share / share.sum())], axis=0)
        main, n = looks[0], self.resolution
        spans, tri = main.spans, main.spans.tri
        for side, image in enumerate((main.a, main.b)):
            if not image.has_planes:
                tri = np.where(spans.side == side, np.int32(NONE), tri)
        images = (main.a,) if is_self else (main.a, main.b)
        crossings = [np.diff(self._device.download(image.pixel_start)).reshape(n, n) for image in images]
        inverted = [self._look(look.a, look.b, INVERTED).volume for look in looks] if is_self else [0.0]
        return result(
            volume=volume,
            volumes=volumes,
            error=max(float(np.mean([look.error for look in looks])), *(abs(look.volume - volume) for look in looks)),
            centroid=centroid,
            inverted_volume=float(np.mean(inverted)),
            depth_complexity=np.stack(crossings).astype(np.int32),
            spans=spans.span,
            pixel=np.stack([spans.pixel % n, spans.pixel // n], axis=1),
            triangles=tri,
            triangle_body=spans.side,
            region=np.array([main.view.low, main.view.high]),
            axis=main.view.axis,
        )

    def _penetrating(self, a: Solid, b: Solid, looks: list[Look]) -> tuple[Ints, Ints]:
        """Vertices of each body inside the other; of one body, those in or near its overlap along any axis."""
        if not looks:
            return a.used[:0], b.used[:0]
        if self.b is None:
            found = np.zeros(len(a.used), dtype=np.bool_)
            for look in looks:
                if len(look.spans.span):
                    found |= self._device.near_inside(look.a, a.x, a.used, OVERLAP, look.view.diagonal / 2.0)
            return a.used[found], a.used[:0]
        image_a, image_b, rule = looks[0].a, looks[0].b, RULES[self.rule]
        in_b = self._device.inside(image_b, a.x, a.used, rule, point_reach(image_b))
        in_a = self._device.inside(image_a, b.x, b.used, rule, point_reach(image_a))
        return a.used[in_b], b.used[in_a]

    def assert_valid(self) -> None:
        """Check all images of the bodies as they are now: sorted, and every ray leaves as often as it enters."""
        for body, images, letter in ((self.a, self._images_a, "a"), (self.b, self._images_b, "b")):
            if body is not None:
                solid = images.solid(body, None, None, letter)
                for view, _ in views(solid.bounds, solid.bounds, self.resolution, True):
                    images.image(self._device, solid, view).assert_valid(self._device)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy bodies and options."""
        options = {name: getattr(self, name) for name in ("resolution", "axes", "rule", "device")}
        return partial(type(self), **options), (self.a, self.b)

    def __repr__(self) -> str:
        sizes = [f"{len(x):,} triangles" if isinstance(x, TriMesh) else type(x).__name__ for x in (self.a, self.b)]
        bodies = f"a {sizes[0]}" if self.b is None else f"a {sizes[0]}, b {sizes[1]}"
        return f"<LayeredDepth: {bodies}, {self.resolution} pixels per side, axes={self.axes}, rule={self.rule!r}>"


# Touching --------------------------------------------------------------------------------------------------


def _without_touching(spans: Spans, a: Image, b: Image) -> Spans:
    """The spans that are longer than the error of their depths."""
    depths = np.abs(np.concatenate([image.solid.bounds[:, image.view.axis] for image in (a, b)]))
    limit = STEEPEST_SPAN * max(_displacement(a), _displacement(b)) + 32.0 * UNIT_ROUNDOFF * float(depths.max())
    length = spans.length
    short = np.flatnonzero(length <= limit)
    if not len(short):
        return spans
    error = np.zeros(len(short))
    for end in range(2):
        for side, image in enumerate((a, b)):
            here = np.flatnonzero(spans.side[short, end] == side)
            error[here] += _depth_error(image, spans.tri[short[here], end], spans.span[short[here], end])
    kept = np.ones(len(length), dtype=np.bool_)
    kept[short] = length[short] > error
    return spans.only(kept)


def _displacement(image: Image) -> float:
    """Largest displacement of a corner across the rays, by snapping or by rounding."""
    if not image.has_planes:
        return 0.0
    if image.bits:
        return image.view.diagonal * 2.0 ** -(image.bits + 1)
    low = np.array(image.view.low)
    return 8.0 * UNIT_ROUNDOFF * float(np.abs(image.solid.bounds - low)[:, list(image.view.window_axes)].max())


def _depth_error(image: Image, tri: Ints, depth: Floats) -> Floats:
    """Error of the depths at which rays cross triangles."""
    rounding = 2.0 * UNIT_ROUNDOFF * np.abs(depth)
    if not image.has_planes:
        return rounding
    (u, v), d, solid = image.view.window_axes, image.view.axis, image.solid
    corner = solid.x[solid.faces[tri]]
    rise = np.ptp(corner[:, :, d], axis=1)
    with np.errstate(all="ignore"):  # slopes that overflow, or of triangles parallel to the rays, are steep
        normal = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
        slope = np.hypot(normal[:, u], normal[:, v]) / np.abs(normal[:, d])
    snapped = np.fmin(slope * _displacement(image), rise)
    return np.where(rise > 0.0, snapped + 8.0 * UNIT_ROUNDOFF * rise + rounding, 0.0)


# The region ------------------------------------------------------------------------------------------------


def _common_box(bounds_a: Floats, bounds_b: Floats) -> Floats:
    """Volume of interest: lowest and highest corner, lo > hi if the boxes are disjoint."""
    return np.stack([np.maximum(bounds_a[0], bounds_b[0]), np.minimum(bounds_a[1], bounds_b[1])])


def views(bounds_a: Floats, bounds_b: Floats, resolution: int, is_self: bool) -> list[tuple[View, View]]:
    """Views of both bodies along each axis, the shortest region first; none if the boxes share no volume."""
    low, high = _common_box(bounds_a, bounds_b).tolist()
    if not all(least < largest for least, largest in zip(low, high)):
        return []
    (low_a, high_a), (low_b, high_b) = bounds_a.tolist(), bounds_b.tolist()
    ways = []
    for axis in range(3):
        a_first, b_first = high_b[axis] - low_a[axis], high_a[axis] - low_b[axis]
        ways.append((min(a_first, b_first), axis, a_first <= b_first))
        if math.isinf(max(a_first, b_first, high_a[axis] - low_a[axis], high_b[axis] - low_b[axis])):
            raise MeshError("the bodies are larger than doubles can measure; use smaller units")
        if math.isinf(resolution * 2.0**MOST_BITS / (high[axis] - low[axis])):
            return []  # thinner than doubles can resolve: no volume
    found = []
    for _, axis, a_is_low in sorted(ways):
        near, far = list(low), list(high)
        near[axis] = (low_a if a_is_low else low_b)[axis]
        far[axis] = (high_b if a_is_low else high_a)[axis]
        view_a = View(axis, resolution, tuple(near), tuple(far), is_self or a_is_low, not is_self)
        found.append((view_a, view_a._replace(from_low=is_self or not a_is_low)))
    return found


# Bodies and devices ----------------------------------------------------------------------------------------


def as_depth_body(x: SurfaceLike | DepthSource, name: str) -> TriMesh | DepthSource:
    """A surface, or a depth source unchanged."""
    if not hasattr(x, "crossings"):
        return as_surface(x, name=name)
    missing = [wanted for wanted in ("version", "bounds") if not hasattr(x, wanted)]
    if missing:
        raise MeshError(
            f"{name} is a {type(x).__name__} with crossings but without {' and '.join(missing)}; a depth source "
            "has version, bounds and crossings"
        )
    return cast(DepthSource, x)


def images_of(body: TriMesh | DepthSource) -> ImageCache[Any]:
    """The image cache of a body; that of a mesh is kept with it."""
    return body.structure("layered_depth", MeshImages) if isinstance(body, TriMesh) else SourceImages(body)


def point_reach(image: Image) -> float:
    """Largest distance that crossings are moved to the ray of a point: half a diagonal, see ``points``."""
    return image.view.diagonal / 2.0 if image.has_planes else 0.0


def find_device(name: DeviceName) -> Cpu:
    """The device of that name."""
    if as_choice(name, "device", ("cpu", "cuda")) == "cpu":
        return Cpu()
    from impinge.detect.layered_depth.cuda import Cuda

    device: Cpu = Cuda()
    return device
