"""Spans that are no overlap: bodies that only touch share nothing, also where they touch in a slanted face.

Two triangles in one plane have the same depth on a ray, but not the same rounding of it. A depth is off by
    |slope| s   s: how far corners are moved by snapping or, where nothing is snapped, by rounding of edge functions
    8 u D       D: what the corners differ in depth, u = 2^-53: the rounding of weights and of their sum
    2 u |z|     the rounding of the depth itself; exact if D = 0, since a flat triangle has the depth of its corners
and never by more than D on account of s. A span that is no longer than its two ends are off is left out: nobody can
tell it from touching. Slopes above some 256 do not count beyond that, so that only spans far shorter than a pixel go.
"""

from __future__ import annotations

import numpy as np

from impinge.checks import Floats, Ints
from impinge.detect.layered_depth.images import Image, Spans

U = 2.0**-53
"""Half a unit in the last place of 1."""
STEEPEST = 512.0
"""Sum of the slopes of both ends up to which snapping is made up for."""


def without_touching(spans: Spans, a: Image, b: Image) -> Spans:
    """The spans that are longer than their ends are off."""
    depths = np.abs(np.concatenate([image.solid.bounds[:, image.view.axis] for image in (a, b)]))
    limit = STEEPEST * max(_moved_by(a), _moved_by(b)) + 32.0 * U * float(depths.max())
    length = spans.length
    short = np.flatnonzero(length <= limit)
    if not len(short):
        return spans
    off = np.zeros(len(short))
    for end in range(2):
        for side, image in enumerate((a, b)):
            here = np.flatnonzero(spans.side[short, end] == side)
            off[here] += _depth_error(image, spans.tri[short[here], end], spans.span[short[here], end])
    kept = np.ones(len(length), dtype=np.bool_)
    kept[short] = length[short] > off
    return spans.only(kept)


def _moved_by(image: Image) -> float:
    """How far from its place a corner may count, across the rays."""
    if not image.has_planes:
        return 0.0
    if image.bits:
        return image.view.diagonal * 2.0 ** -(image.bits + 1)
    low = np.array(image.view.low)
    return 8.0 * U * float(np.abs(image.solid.bounds - low)[:, list(image.view.window_axes)].max())


def _depth_error(image: Image, tri: Ints, depth: Floats) -> Floats:
    """How far off the depths are at which rays cross triangles."""
    if not image.has_planes:
        return 2.0 * U * np.abs(depth)
    (u, v), d, solid = image.view.window_axes, image.view.axis, image.solid
    corner = solid.x[solid.faces[tri]]
    rise = np.ptp(corner[:, :, d], axis=1)
    with np.errstate(all="ignore"):  # slopes that overflow, or of triangles on edge, are steep
        normal = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
        slope = np.hypot(normal[:, u], normal[:, v]) / np.abs(normal[:, d])
    snapped = np.fmin(slope * _moved_by(image), rise)
    return np.where(rise > 0.0, snapped + 8.0 * U * rise + 2.0 * U * np.abs(depth), 0.0)
