"""Contact points, normals and depths of pairs of spheres.

Point     The middle of what both spheres have of the line through their centres: of a sphere in the other, its centre.
Normal    "centres" [MendozaOSullivan2005, eq. 11]: n = (O2 - O1) / |O2 - O1|; of concentric spheres the direction from
          one root's centre to the other's.
          "facing": the line between points below the surfaces. With f the way that the surface below a sphere faces
          (``sphere_facing``), each centre counts as if it were ½ (r1 + r2) f deeper:
              n ~ O2 - O1 + ½ (r1 + r2) (f1 - f2).
          Of flat patches that face each other n never turns round, however deep, since |O2 - O1| <= r1 + r2. Where f
          tells nothing, as at the roots or of surfaces that have no outside, n is the line of centres.
Depth     How far b's sphere has to move along n to part from a's: with u = O2 - O1 and p what u has across n,
              δ = √((r1 + r2)² - p²) - u · n,
          r1 + r2 - |u| on the line of centres. 0 of spheres that are apart. At most both diameters together.

Why       Where bodies are deeper in each other than leaves are large, the leaf at the front of a lies beyond the one
          at the front of b, and the line of their centres points the wrong way: as published, two balls of radius 1 are
          drawn together once they overlap by 0.3. Along the way that surfaces face the depth goes on growing: it is how
          deep one patch is behind the other, and what both spheres stand off.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from impinge.checks import Floats

Normals: TypeAlias = Literal["facing", "centres"]


class Pushes(NamedTuple):
    """One row for each pair of spheres."""

    point: Floats
    normal: Floats
    depth: Floats


def pushes_of(a: Floats, b: Floats, roots: Floats, facing: tuple[Floats, Floats] | None) -> Pushes:
    """Pushes of spheres (x, y, z, radius), ``roots`` from a's root to b's; without ``facing`` along the centres."""
    between = b[:, :3] - a[:, :3]
    distance, fallback = _length(between), _unit(roots[None], np.array([0.0, 0.0, 1.0]))
    line = _unit(between, fallback)
    begin, end = np.maximum(distance - b[:, 3], -a[:, 3]), np.minimum(a[:, 3], distance + b[:, 3])
    point = a[:, :3] + line * (0.5 * (begin + end))[:, None]
    reach = a[:, 3] + b[:, 3]
    if facing is None:
        return Pushes(point, line, np.maximum(reach - distance, 0.0))
    way = facing[0] - facing[1]
    normal = _unit(between / 2.0 + (reach / 4.0)[:, None] * way, line)  # halves, for radii near the largest double
    along = (between * normal).sum(axis=1)
    across = _length(between - along[:, None] * normal)
    parted = np.sqrt(np.maximum(reach - across, 0.0)) * np.sqrt(reach + across) - along
    return Pushes(point, normal, np.where(distance < reach, np.maximum(parted, 0.0), 0.0))


def _length(v: Floats) -> Floats:
    return np.asarray(np.hypot(np.hypot(v[:, 0], v[:, 1]), v[:, 2]))


def _unit(v: Floats, fallback: Floats) -> Floats:
    """Rows of length 1, ``fallback`` for those without a direction."""
    length = _length(v)[:, None]
    return np.where(length > 0.0, v / np.where(length > 0.0, length, 1.0), fallback)
