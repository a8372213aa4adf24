"""Which points are inside a closed body, looked up in its layered depth image [Heidelberger2003, 3.3].

1. Image  of the whole body, along the shortest side of its box.
2. Look   up the pixel of each point. Inside is where the state of its ray counts (``layered_depth``), borders
          included.

Plane-corrected  A pixel's crossings were found at its centre. Those near a point are moved along the plane of their
                 triangle to the point's own ray, by half a diagonal at most. Where the surface is smooth and slopes by
                 less than some 45 degrees that makes the error of second order in the size of a pixel; on steeper
                 parts it stays of first order.
Guarantee        A point that is told apart wrongly is at most 1 / sqrt 2 of a pixel's diagonal away from the surface,
                 the width of a square pixel (and the rounding of snapped vertices, 2^-16 of that):
                 Let c be the place at the point's depth above the centre of its pixel, half a diagonal away at most.
                 c is told apart rightly, so that if the point were told as c is, and wrongly, the surface would pass
                 between the two. If moving a crossing changed the answer, the point is between the crossing, half a
                 diagonal away across the rays, and its moved place, half a diagonal away along the ray: crossings
                 are moved no farther.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from impinge.checks import Bools, as_positions
from impinge.detect.common.pair_query import PairOptions
from impinge.detect.layered_depth.detector import (
    RULES,
    DeviceName,
    Rule,
    as_depth_body,
    check_option,
    check_resolution,
    find_device,
    layers_of,
    point_reach,
    views,
)
from impinge.detect.layered_depth.image_cache import read_only

_NO_OPTIONS = PairOptions()


def points_inside_sampled(
    body: Any,
    points: Any,
    resolution: int = 128,
    options: PairOptions = _NO_OPTIONS,
    *,
    rule: Rule = "winding",
    device: DeviceName = "cpu",
) -> Bools:
    """Which of ``points`` (n, 3) are inside ``body`` or on it, up to a pixel; of the options those of a.

    The image is kept with the body: the next call finds it if the body has not moved.
    """
    asked = read_only(as_positions(points, name="points"))
    resolution = check_resolution(resolution)
    check_option("rule", rule, Rule)
    where = find_device(device)
    surface = as_depth_body(body, "a")
    layers = layers_of(surface)
    solid = layers.solid(surface, options.transform_a, options.active_a, "a")
    looked_at = views(solid.bounds, solid.bounds, resolution, True)
    if not looked_at:
        return np.zeros(len(asked), dtype=np.bool_)
    image = layers.image(where, solid, looked_at[0][0])
    ids = read_only(np.arange(len(asked), dtype=np.int32))
    return where.inside(image, asked, ids, RULES[rule], point_reach(image))
