"""The overshoot of a ball over a solid: the distance of the farthest point of the ball outside of the solid.

It is sampled at points spread evenly over the ball. The sampled value is a lower bound; the true one is larger by at
most the spacing of the points, since the distance to the surface is 1-Lipschitz.
"""

from __future__ import annotations

import numpy as np

from impinge.checks import Floats
from impinge.detect.sphere_tree.build.medial_axis import signed_depth
from impinge.mesh.tri_mesh import TriMesh

BALLS_AT_ONCE = 2000
"""Balls that are sampled together, to bound memory."""


def overshoots(body: TriMesh, centre: Floats, radius: Floats, count: int) -> Floats:
    """The overshoot of each ball, sampled at ``count`` points."""
    worst = np.zeros(len(radius))
    for first in range(0, len(radius), BALLS_AT_ONCE):
        some = slice(first, first + BALLS_AT_ONCE)
        points = centre[some, None] + radius[some, None, None] * directions(count)
        depth, _ = signed_depth(body, points.reshape(-1, 3))
        worst[some] = np.maximum(-depth, 0.0).reshape(-1, count).max(axis=1)
    return worst


def directions(count: int) -> Floats:
    """Unit vectors spread evenly over the sphere: along a spiral, by the golden angle."""
    height = 1.0 - (2.0 * np.arange(count) + 1.0) / count
    angle = np.pi * (3.0 - np.sqrt(5.0)) * np.arange(count)
    across = np.sqrt(1.0 - height * height)
    return np.stack([across * np.cos(angle), across * np.sin(angle), height], axis=1)
