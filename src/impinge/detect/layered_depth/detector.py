"""The volume that closed bodies share, from layered depth images [Heidelberger2003].

1. Region   The boxes around both bodies overlap in the *volume of interest* (3.1). Rays go along one axis through n x n
            pixels of a window, the two other sides of that volume. Along the rays each body is looked at from a side
            where it is surely outside: X from its own low end, Y from its own high end, so that the region reaches
            from lo_X to hi_Y. Of the six choices (three axes; a or b first) the shortest is taken. Where the boxes are
            nested this is the extension of Fig. 2b, and nothing needs to be told apart.
2. Images   of both bodies within the region (3.2): where each ray crosses the surface, sorted by depth.
            a. Snap vertices to whole numbers, 2^-16 of a pixel apart.
            b. Each triangle writes a fragment for every pixel whose centre it covers, to the list of its chunk.
            c. Count fragments per pixel, scan the counts, move fragments to their pixels, sort each pixel.
3. Combine  (3.3) Walk along both lists of a pixel: entries and exits tell where both bodies are inside. The volume is
            the area of a pixel times the length of all such spans. Vertices of one body are looked up in the image of
            the other; crossings near a vertex are moved along their plane to its own ray (``layered_depth_points``).
            Spans no longer than depths are rounded are none (``layered_depth_touching``).

Watertight  An edge function of whole numbers is exact, and of the two directions of an edge one owns the points on it:
            two triangles on either side of an edge cover a centre on it once, two on the same side twice or never. So
            every ray leaves a closed surface as often as it enters. Coordinates of 2^29 would overflow: a body much
            larger than the window gets fewer bits behind the point, and below 8 of them nothing is snapped, but the
            signs of doubles are found exactly, with the same rule. Triangles are never clipped.
Rules       "parity": inside is where the number of crossings is odd (the paper). "winding": where entries and exits
            do not cancel; a body that overlaps itself counts there. They agree for bodies that do not.
Self        ``LayeredDepth(a)`` (7, Ongoing Work): where entries and exits differ by two or more a body overlaps itself,
            where exits come first it is inside out. The region is the whole body. Vertices on or within half a pixel of
            such spans are listed: a vertex is on the surface itself, and its ray is not quite that of its pixel. Rays
            may miss sheets, and vertices of sheets, that stand on edge, so that all three axes are looked along.
Three axes  ``axes=3`` looks along x, y and z; the volume is the mean. It is the default for one body; 1 is for two.
Error       A ray stands for its pixel. What it cannot see shows as jumps between neighbours, so that the estimate is
            made from second differences of the lengths per ray, pixel by pixel (as if independent) and of their sums
            per row, per column and along slopes of 1, 2 and 3 to 1: where an edge runs along such a line of pixels,
            they err alike. With three axes it is at least their spread. Where nothing was found it is what a single ray
            would stand for. (Comparing two resolutions, or three axes alone, says 0 for a symmetric body.)
Sources     Bodies need not be triangles: see ``layered_depth_sources``.

Departures  One pass over the triangles draws all layers; the paper renders once per layer (``published.layered_depth``
            is the paper as written). There is no limit of 255 layers. Both images are sorted upwards, whichever side
            a body is known from, so that nothing is mirrored. Depths are doubles in the user's units. A ray that is
            still inside at the far end of the region ends there.
Guarantee   approximate: exact along the rays, sampled across them. The same bits for any number of threads and for
            either order of the bodies. Bodies that only touch do not overlap. Open or inconsistently oriented bodies
            are refused.
Cost        per triangle some nanoseconds, per fragment some more, however many layers there are; step 3 does not depend
            on the number of triangles, but for the look-up of vertices within the region.
Tried       (110k triangles, 128 x 128 pixels, one core of a busy machine) Most small triangles cover no centre:
            drawing them one by one takes 3.1 ms, since nobody can foretell which; picking candidates first, 64 in a
            row by vector instructions, 1.7. Counting spans and then writing them 1.5 ms, writing them with gaps that
            are closed afterwards 0.7. Points with a branch per crossing 2.1 ms, without 0.7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from impinge.backend.stages import Stages, start_stages
from impinge.checks import NONE, Floats, Ints
from impinge.detect.common.pair_query import PairOptions, pair_options
from impinge.detect.layered_depth.image_cache import Layers
from impinge.detect.layered_depth.images import MOST_BITS, Cpu, Device, Image, Solid, Spans, View
from impinge.detect.layered_depth.sources import DepthSource, SourceLayers
from impinge.detect.layered_depth.spans_kernels import INVERTED, OVERLAP, PARITY, WINDING, squares_of_bends
from impinge.detect.layered_depth.touching import without_touching
from impinge.detect.layered_depth.volume_overlap import VolumeOverlap
from impinge.errors import MeshError, OptionError
from impinge.mesh.body import as_surface
from impinge.mesh.tri_mesh import TriMesh

DeviceName: TypeAlias = Literal["cpu", "cuda"]
Rule: TypeAlias = Literal["parity", "winding"]

VOLUME_OPTIONS = ("transform_a", "transform_b", "active_a", "active_b", "cancel")
RULES: dict[Rule, int] = {"parity": PARITY, "winding": WINDING}
LARGEST_RESOLUTION = 1 << 13
"""Pixels per side: 2^26 in all, and 2^29 with the bits of a snapped coordinate that must be left."""
FEWEST_PIXELS = 4
"""Pixels per side from which neighbours say anything about the error."""
CERTAINTY = 2.0
"""Standard deviations that the error estimate stands for."""
STEEPEST_EDGE = 3
"""Slopes of edges, as whole numbers of pixels to one, along which pixels are taken to err alike."""


@dataclass(frozen=True)
class Look:
    """What the rays of one axis have seen."""

    a: Image
    b: Image
    spans: Spans

    @property
    def view(self) -> View:
        """The view of both images."""
        return self.a.view

    @property
    def pixel_area(self) -> float:
        """What each ray stands for."""
        return math.prod(self.view.pixel_size)

    @property
    def volume(self) -> float:
        """Area of a pixel times the length of all spans."""
        return float(self.spans.length.sum()) * self.pixel_area

    @property
    def centre(self) -> Floats:
        """Mean of all places within the spans."""
        view, length = self.view, self.spans.length
        (u, v), (row, column) = view.window_axes, np.divmod(self.spans.pixel, view.resolution)
        at_u, at_v = view.centres
        share, centre = length / length.sum(), np.zeros(3)
        # Sums, not products of linear algebra, which depend on the number of threads.
        centre[u], centre[v] = (share * at_u[column]).sum(), (share * at_v[row]).sum()
        centre[view.axis] = (share * (0.5 * self.spans.span[:, 0] + 0.5 * self.spans.span[:, 1])).sum()
        return centre

    @property
    def error(self) -> float:
        """Estimate of the sampling error of the volume."""
        view = self.view
        area, (least, largest) = math.prod(view.pixel_size), view.depths
        if not len(self.spans.span):
            return area * (largest - least)
        n = view.resolution
        if n < FEWEST_PIXELS:
            return max(self.volume, area * n**2 * (largest - least) - self.volume)
        per_ray = np.bincount(self.spans.pixel, weights=self.spans.length, minlength=n * n)
        length = per_ray.astype(np.float64, copy=False).reshape(n, n)
        bends = sum(squares_of_bends(each, STEEPEST_EDGE) for each in (length, np.ascontiguousarray(length.T)))
        # A jump shows in two second differences, and moves the integral by up to half of it either way: a
        # variance of 1 / 12 each.
        return CERTAINTY * area * math.sqrt(bends / 24.0)


class LayeredDepth:
    """The volume shared by two bodies, or by one with itself, kept between frames."""

    name = "layered_depth"

    def __init__(
        self,
        a: Any,
        b: Any = None,
        *,
        resolution: int = 128,
        axes: Literal[1, 3] | None = None,
        rule: Rule = "parity",
        device: DeviceName = "cpu",
    ) -> None:
        self.a = as_depth_body(a, "a")
        self.b = None if b is None else as_depth_body(b, "b")
        self._resolution = check_resolution(resolution)
        if axes not in (1, 3, None) or isinstance(axes, bool):
            raise OptionError(f"axes is {axes!r}, expected 1 (the shortest way through) or 3 (all of them)")
        check_option("rule", rule, Rule)
        self._axes = axes or (3 if b is None else 1)
        self._rule = RULES[rule]
        self._rule_name: Rule = rule
        self._device = find_device(device)
        self._layers_a = layers_of(self.a)
        self._layers_b = self._layers_a if self.b is None else layers_of(self.b)

    def query(self, *, vertices: bool = True, **options: Any) -> VolumeOverlap:
        """Draw what moved, and find the overlap; options ``transform_a, transform_b, active_a, active_b, cancel``.

        Active triangles must be closed by themselves, such as one of several pieces. Without ``vertices`` those inside
        are not looked for, which is a quarter of the time.
        """
        began = perf_counter()
        wanted = volume_options(options, is_self=self.b is None)
        stages = start_stages()
        a, b = self.solids(wanted)
        stages.done("region")
        looks = self.looks(a, b, wanted, stages)
        cancelled = wanted.cancelled
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
        a = self._layers_a.solid(self.a, options.transform_a, options.active_a, "a")
        if self.b is None:
            return a, a
        return a, self._layers_b.solid(self.b, options.transform_b, options.active_b, "b")

    def looks(self, a: Solid, b: Solid, options: PairOptions, stages: Stages) -> list[Look]:
        """What rays see along the shortest way through, or along all axes, the shortest first."""
        looks = []
        for view_a, view_b in views(a.bounds, b.bounds, self._resolution, self.b is None)[: self._axes]:
            if options.cancelled:
                break
            image_a = self._layers_a.image(self._device, a, view_a)
            image_b = image_a
            if self.b is not None:
                image_b = self._layers_b.image(self._device, b, view_b)
            stages.done("images")
            looks.append(self._look(image_a, image_b, OVERLAP if self.b is None else self._rule))
            stages.done("spans")
        return looks

    def _look(self, a: Image, b: Image, rule: int) -> Look:
        return _measurable(Look(a, b, without_touching(self._device.spans(a, b, rule), a, b)))

    def assert_valid(self) -> None:
        """Check all images of the bodies as they are now: sorted, and every ray leaves as often as it enters."""
        for body, layers, letter in ((self.a, self._layers_a, "a"), (self.b, self._layers_b, "b")):
            if body is not None:
                solid = layers.solid(body, None, None, letter)
                for view, _ in views(solid.bounds, solid.bounds, self._resolution, True):
                    layers.image(self._device, solid, view).assert_valid(self._device)

    # what comes out ----------------------------------------------------------------------------------

    def overlap(self, a: Solid, b: Solid, looks: list[Look]) -> VolumeOverlap:
        """What all rays have seen together, without the vertices."""
        volumes = np.full(3, np.nan)
        for look in looks:
            volumes[look.view.axis] = look.volume
        volume = float(np.mean(volumes[np.isfinite(volumes)])) if looks else 0.0
        return VolumeOverlap(
            volume=volume,
            volumes=volumes,
            error=_error(volume, looks, _common_box(a.bounds, b.bounds)),
            centroid=_centroid(looks),
            inverted_volume=self._inverted_volume(looks),
            resolution=self._resolution,
            rule=self._rule_name,
            method=self.name,
            stats=_stats(looks),
            depth_complexity=self._depth_complexity(looks[0]) if looks else None,
            bodies=(a,) if self.b is None else (a, b),
            **_spans_of(looks[0] if looks else None, _common_box(a.bounds, b.bounds)),
        )

    def _penetrating(self, a: Solid, b: Solid, looks: list[Look]) -> tuple[Ints, Ints]:
        """Vertices of each body that are inside the other; of one body, those in or near its overlap along any axis."""
        if not looks:
            return a.used[:0], b.used[:0]
        if self.b is None:
            found = np.zeros(len(a.used), dtype=np.bool_)
            for look in looks:
                if len(look.spans.span):
                    reach = look.view.diagonal / 2.0
                    found |= self._device.near_inside(look.a, a.x, a.used, OVERLAP, reach)
            return a.used[found], a.used[:0]
        image_a, image_b = looks[0].a, looks[0].b
        in_b = self._device.inside(image_b, a.x, a.used, self._rule, point_reach(image_b))
        in_a = self._device.inside(image_a, b.x, b.used, self._rule, point_reach(image_a))
        return a.used[in_b], b.used[in_a]

    def _inverted_volume(self, looks: list[Look]) -> float:
        if self.b is not None or not looks:
            return 0.0
        return float(np.mean([self._look(look.a, look.b, INVERTED).volume for look in looks]))

    def _depth_complexity(self, main: Look) -> Ints:
        n = self._resolution
        images = (main.a,) if self.b is None else (main.a, main.b)
        counts = [np.diff(self._device.download(image.pixel_start)).reshape(n, n) for image in images]
        return np.stack(counts).astype(np.int32)


def _measurable(look: Look) -> Look:
    """What rays have seen, but nothing if its volume is less than any double; refused if that is due to the units."""
    if not len(look.spans.span) or 0.0 < look.volume < math.inf:
        return look
    sides = [np.ptp(image.solid.bounds, axis=0).tolist() for image in (look.a, look.b)]
    if look.volume > 0.0 or not all(map(math.prod, sides)):
        raise MeshError(
            f"the bodies are {max(sides[0]):.3g} and {max(sides[1]):.3g} wide, so that the volume that they share is "
            "beyond the range of doubles; use other units"
        )
    return replace(look, spans=look.spans.only(slice(0)))


def _spans_of(main: Look | None, box: Floats) -> dict[str, Any]:
    """Fields of the result about single spans: those of the shortest axis."""
    if main is None:
        return {"spans": np.zeros((0, 2)), "pixel": np.zeros((0, 2), dtype=np.int32), "region": box}
    n, tri = main.view.resolution, main.spans.tri
    for side, image in enumerate((main.a, main.b)):
        if not image.has_planes:
            tri = np.where(main.spans.side == side, np.int32(NONE), tri)
    return {
        "spans": main.spans.span,
        "pixel": np.stack([main.spans.pixel % n, main.spans.pixel // n], axis=1),
        "triangles": tri,
        "triangle_body": main.spans.side,
        "region": np.array([main.view.low, main.view.high]),
        "axis": main.view.axis,
    }


def _centroid(looks: list[Look]) -> Floats:
    seen = [look for look in looks if look.volume > 0.0]
    if not seen:
        return np.full(3, np.nan)
    largest = max(look.volume for look in seen)
    share = np.array([look.volume / largest for look in seen])
    centroid: Floats = np.sum([look.centre * part for look, part in zip(seen, share / share.sum())], axis=0)
    return centroid


def _error(volume: float, looks: list[Look], box: Floats) -> float:
    """Mean of the axes' own estimates, at least their spread; without any look all that the boxes have in common."""
    if not looks:
        return float(np.prod(np.maximum(box[1] - box[0], 0.0)))
    own = float(np.mean([look.error for look in looks]))
    return max(own, *(abs(look.volume - volume) for look in looks))


def _stats(looks: list[Look]) -> dict[str, Any]:
    return {
        "axes": [look.view.axis for look in looks],
        "fragments_a": [look.a.count for look in looks],
        "fragments_b": [look.b.count for look in looks],
        "bits_a": [look.a.bits for look in looks],
        "bits_b": [look.b.bits for look in looks],
    }


# The region ------------------------------------------------------------------------------------------------


def _common_box(bounds_a: Floats, bounds_b: Floats) -> Floats:
    """Volume of interest: lowest and highest corner, lo > hi if the boxes are apart."""
    return np.stack([np.maximum(bounds_a[0], bounds_b[0]), np.minimum(bounds_a[1], bounds_b[1])])


def views(bounds_a: Floats, bounds_b: Floats, resolution: int, is_self: bool) -> list[tuple[View, View]]:
    """Views of both bodies along each axis, the shortest way through first; none if the boxes share no volume."""
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
            return []  # thinner than any number can tell: no volume
    found = []
    for _, axis, a_is_low in sorted(ways):
        near, far = list(low), list(high)
        near[axis] = (low_a if a_is_low else low_b)[axis]
        far[axis] = (high_b if a_is_low else high_a)[axis]
        view_a = View(axis, resolution, tuple(near), tuple(far), is_self or a_is_low, not is_self)
        found.append((view_a, view_a._replace(from_low=is_self or not a_is_low)))
    return found


# Bodies, devices, checks -----------------------------------------------------------------------------------


def as_depth_body(x: Any, name: str) -> TriMesh | DepthSource:
    """A surface, or a source of depths as it is."""
    if hasattr(x, "crossings"):
        missing = [wanted for wanted in ("version", "bounds") if not hasattr(x, wanted)]
        if missing:
            raise MeshError(
                f"{name} is a {type(x).__name__} with crossings but without {' and '.join(missing)}; a depth source "
                "has version, bounds and crossings"
            )
        source: DepthSource = x
        return source
    return as_surface(x, name=name)


def layers_of(body: TriMesh | DepthSource) -> Any:
    """What is kept for images of a body."""
    return body.structure("layered_depth", Layers) if isinstance(body, TriMesh) else SourceLayers(body)


def point_reach(image: Image) -> float:
    """How far crossings are moved to the ray of a point: half a diagonal, as ``layered_depth_points`` explains."""
    return image.view.diagonal / 2.0 if image.has_planes else 0.0


def check_resolution(resolution: Any) -> int:
    """A whole number of pixels."""
    is_whole = isinstance(resolution, int | np.integer) and not isinstance(resolution, bool)
    if not is_whole or not 1 <= resolution <= LARGEST_RESOLUTION:
        raise OptionError(
            f"resolution is {resolution!r}, expected a whole number of pixels per side from 1 to {LARGEST_RESOLUTION}"
        )
    return int(resolution)


def check_option(name: str, value: object, allowed: Any) -> None:
    """Refuse what is not one of the allowed words."""
    if value not in get_args(allowed):
        raise OptionError(f"{name} is {value!r}, expected one of {', '.join(map(repr, get_args(allowed)))}")


def find_device(name: DeviceName) -> Device:
    """The device of that name."""
    check_option("device", name, DeviceName)
    if name == "cpu":
        return Cpu()
    from impinge.detect.layered_depth.cuda import Cuda

    found: Device = Cuda()
    return found


def volume_options(options: dict[str, Any], *, is_self: bool) -> PairOptions:
    """Options of a query for volumes, which finds no pairs that could be ignored or cut."""
    for name in ("ignore", "max_pairs"):
        if name in options:
            raise OptionError(f"{name} means nothing for a volume; leave it out")
    known = [name for name in VOLUME_OPTIONS if not (is_self and name.endswith("_b"))]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise OptionError(f"unknown option {', '.join(unknown)}; expected any of {', '.join(known)}")
    return pair_options(options, is_self=is_self)
