"""Points inside a closed body, looked up in its layered depth image [Heidelberger2003, 3.3].

1. Image   of the whole body, along the shortest side of its box.
2. Look up the pixel of each point. Inside is where the state of its ray counts (``spans_kernels``), border included.

Plane-corrected  Crossings of a pixel are those of its centre. Those near a point are moved along the plane of their
                 triangle to the point's own ray, by half a diagonal at most. Where the surface is smooth and its slope
                 below some 45 degrees, the error becomes of second order in the size of a pixel; on steeper parts it
                 stays of first order.
Guarantee        A misclassified point is at most 1 / sqrt 2 of a pixel's diagonal away from the surface, the width of a
                 square pixel (plus the rounding of snapped vertices, 2^-16 of that):
                 Let c be the place at the point's depth above the centre of its pixel, half a diagonal away at most.
                 c is classified correctly. If the point were classified as c is, and wrongly, the surface would pass
                 between the two. If moving a crossing changed the answer, the point is between the crossing, half a
                 diagonal away across the rays, and its moved place, half a diagonal away along the ray: crossings
                 are moved no farther.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from impinge.checks import Bools, as_choice, as_positions, as_whole
from impinge.detect.common.pair_query import PairOptions
from impinge.detect.layered_depth import detector
from impinge.detect.layered_depth.detector import RULES, DeviceName, Rule
from impinge.detect.layered_depth.image_cache import read_only
from impinge.detect.layered_depth.sources import DepthSource
from impinge.mesh.body import SurfaceLike

_NO_OPTIONS = PairOptions()


def points_inside_sampled(
    body: SurfaceLike | DepthSource,
    points: ArrayLike,
    resolution: int = 128,
    options: PairOptions = _NO_OPTIONS,
    *,
    rule: Rule = "winding",
    device: DeviceName = "cpu",
) -> Bools:
    """Which of ``points`` (n, 3) are inside ``body`` or on it, up to a pixel; ``options`` are those of a.

    The image is kept with the body, and reused while the body does not move.
    """
    x = read_only(as_positions(points, name="points"))
    resolution = as_whole(resolution, "resolution", most=detector.LARGEST_RESOLUTION)
    inside = RULES[as_choice(rule, "rule", RULES)]
    where = detector.find_device(device)
    surface = detector.as_depth_body(body, "a")
    images = detector.images_of(surface)
    solid = images.solid(surface, options.transform_a, options.active_a, "a")
    views = detector.views(solid.bounds, solid.bounds, resolution, True)
    if not views:
        return np.zeros(len(x), dtype=np.bool_)
    image = images.image(where, solid, views[0][0])
    ids = read_only(np.arange(len(x), dtype=np.int32))
    return where.inside(image, x, ids, inside, detector.point_reach(image))
