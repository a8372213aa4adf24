"""Contact frames of pairs of spheres: points, normals and depths.

Point     The middle of what both spheres share of the line through their centres: of a sphere in the other, its centre.
Normal    "centres" [MendozaOSullivan2005, eq. 11]: n = (O2 - O1) / |O2 - O1|; of concentric spheres the direction from
          the centre of one root to that of the other.
          "facing": the line between points below the surfaces. With f the mean normal of the surface below a sphere
          (``mean_normals``), each centre counts as if it were ½ (r1 + r2) f deeper:
              n ~ O2 - O1 + ½ (r1 + r2) (f1 - f2).
          Between flat patches that face each other n never reverses, however deep, since |O2 - O1| <= r1 + r2. Where f
          is 0, as at the roots or for surfaces without an outside, n is the line of centres.
Depth     How far the sphere of b has to move along n to separate from that of a: with u = O2 - O1 and p the component
          of u across n,
              δ = √((r1 + r2)² - p²) - u · n,
          r1 + r2 - |u| on the line of centres. 0 for spheres that are apart. At most both diameters together.

Why       Where bodies penetrate by more than the size of leaves, the leaf at the front of a lies beyond the one at the
          front of b, and the line of their centres points the wrong way: as published, two balls of radius 1 attract
          each other once they overlap by 0.3. Along the mean normals the depth keeps growing: it is the depth of one
          patch behind the other, plus the overshoot of both spheres.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from impinge.checks import Floats

Normals: TypeAlias = Literal["facing", "centres"]


class ContactFrames(NamedTuple):
    """One row for each pair of spheres."""

    point: Floats
    normal: Floats
    depth: Floats


def contact_frames(a: Floats, b: Floats, roots: Floats, mean_normals: tuple[Floats, Floats] | None) -> ContactFrames:
    """Frames of spheres (x, y, z, radius), ``roots`` from root to root; without ``mean_normals`` along the centres."""
    between = b[:, :3] - a[:, :3]
    distance, fallback = _length(between), _unit(roots[None], np.array([0.0, 0.0, 1.0]))
    line = _unit(between, fallback)
    begin, end = np.maximum(distance - b[:, 3], -a[:, 3]), np.minimum(a[:, 3], distance + b[:, 3])
    point = a[:, :3] + line * (0.5 * (begin + end))[:, None]
    reach = a[:, 3] + b[:, 3]
    if mean_normals is None:
        return ContactFrames(point, line, np.maximum(reach - distance, 0.0))
    way = mean_normals[0] - mean_normals[1]
    normal = _unit(between / 2.0 + (reach / 4.0)[:, None] * way, line)  # halves, for radii near the largest double
    along = (between * normal).sum(axis=1)
    across = _length(between - along[:, None] * normal)
    apart = np.sqrt(np.maximum(reach - across, 0.0)) * np.sqrt(reach + across) - along
    return ContactFrames(point, normal, np.where(distance < reach, np.maximum(apart, 0.0), 0.0))


def _length(v: Floats) -> Floats:
    return np.asarray(np.hypot(np.hypot(v[:, 0], v[:, 1]), v[:, 2]))


def _unit(v: Floats, fallback: Floats) -> Floats:
    """Rows of length 1, ``fallback`` for those without a direction."""
    length = _length(v)[:, None]
    return np.where(length > 0.0, v / np.where(length > 0.0, length, 1.0), fallback)
