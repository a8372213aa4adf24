"""Pairs of spheres that meet or may meet: the result of a query within a budget."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats, Ints
from impinge.detect.common.results import Result, plain
from impinge.detect.sphere_tree.track.contact_frames import ContactFrames, Normals, contact_frames
from impinge.detect.sphere_tree.track.mean_normals import MeanNormals
from impinge.detect.sphere_tree.track.tracking import Spheres
from impinge.mesh.tri_mesh import TriMesh


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SphereContacts(Result):
    """Pairs of spheres that meet: with the budget, ``certain`` pairs only grow, ``possible`` ones are decided.

    Points, normals and depths are computed at the first access, outside of the budget of the query.
    """

    certain: Ints
    """Node of a's tree, node of b's: leaves whose spheres meet, and after the exact stage triangles below them too;
    sorted, shape (k, 2)."""
    possible: Ints
    """Pairs that are not ruled out and were not followed to the end, next first; every contact that is not below a
    certain pair is below one of these, shape (p, 2)."""
    level: int
    """The level to which both trees were searched everywhere; 0 is the root's."""
    tests: int = 0
    """Tests of sphere pairs and triangle pairs, as ``max_tests`` counts them."""
    pairs: Ints | None = None
    """Triangles that meet, after the exact stage, sorted, shape (n, 2)."""
    kind: NDArray[np.int8] | None = None
    """How they meet, a ``Kind``."""
    is_self: bool = False
    """Whether one body was searched against itself: both columns are then nodes of its tree."""
    normals: Normals = "facing"
    """Source of normals: the mean normals of the surfaces below spheres, where these are closed, or the lines of
    "centres"."""
    spheres: tuple[Spheres, ...] = field(default=(), repr=False)
    """The spheres of both trees in the state of the query. Those that it had no time to visit are as they were tracked
    last, or by a later query of the same state; not part of ``to_dict``."""
    surfaces: tuple[tuple[Any, ...], ...] = field(default=(), repr=False)
    """The fields of a ``MeanNormals`` for each body; not part of ``to_dict``."""
    bodies: tuple[TriMesh, ...] = field(default=(), repr=False)
    """The bodies, for pictures; not part of ``to_dict``."""

    _rows = "certain"
    _identity = ("certain",)

    def __bool__(self) -> bool:
        """Whether they may meet: anything certain or possible."""
        return len(self.certain) + len(self.possible) > 0

    def _found(self) -> str:
        return f"{len(self.certain):,} certain, {len(self.possible):,} possible"

    @property
    def mean_normals(self) -> tuple[MeanNormals, ...]:
        """Mean normals of the surfaces below the spheres of either body."""
        return tuple(map(MeanNormals._make, self.surfaces))

    @cached_property
    def _certain_frames(self) -> ContactFrames:
        return self._frames_of(self.certain)

    @cached_property
    def _possible_frames(self) -> ContactFrames:
        return self._frames_of(self.possible)

    @property
    def point(self) -> Floats:
        """Contact points of the certain pairs, in the middle of what their spheres share, shape (k, 3)."""
        return self._certain_frames.point

    @property
    def normal(self) -> Floats:
        """Unit vectors from a to b, between the mean normals of the surfaces below both spheres, shape (k, 3).

        Along the line of centres where one of the surfaces is not closed, or where ``normals`` is "centres".
        """
        return self._certain_frames.normal

    @property
    def depth(self) -> Floats:
        """How far b's sphere has to move along the normal to separate, at most both diameters, shape (k,).

        0 for spheres of one body whose triangles share a vertex: these always overlap.
        """
        return self._certain_frames.depth

    @property
    def possible_point(self) -> Floats:
        """As ``point``, of the possible pairs, shape (p, 3)."""
        return self._possible_frames.point

    @property
    def possible_normal(self) -> Floats:
        """As ``normal``, of the possible pairs, shape (p, 3)."""
        return self._possible_frames.normal

    @property
    def possible_depth(self) -> Floats:
        """As ``depth``, of the possible pairs; 0 where spheres that were not tested yet are apart.

        When a query ends by ``max_tests``, all of them are in the state of the query. When the time is up, one sphere
        of a pair may not have been visited since its body moved; it counts as it was tracked last.
        """
        return self._possible_frames.depth

    @property
    def certain_level(self) -> Ints:
        """The levels of both spheres of each certain pair, shape (k, 2)."""
        return self._levels_of(self.certain)

    @property
    def possible_level(self) -> Ints:
        """The levels of both spheres of each possible pair, shape (p, 2)."""
        return self._levels_of(self.possible)

    def _levels_of(self, pairs: Ints) -> Ints:
        if not self.spheres:
            return np.zeros_like(pairs)
        return np.stack([side.layout.level[pairs[:, k]] for k, side in enumerate(self.spheres)], axis=1, dtype=np.int32)

    def _frames_of(self, pairs: Ints) -> ContactFrames:
        if not self.spheres:
            return ContactFrames(np.zeros((len(pairs), 3)), np.zeros((len(pairs), 3)), np.zeros(len(pairs)))
        most = np.finfo(np.float64).max / 8.0  # radii may be infinite where squares of coordinates are
        a, b = (np.minimum(side.of(pairs[:, k]), most) for k, side in enumerate(self.spheres))
        first, second = (np.minimum(side.of(np.zeros(1, dtype=np.int32))[0], most) for side in self.spheres)
        normals, sides = None, self.mean_normals
        if self.normals == "facing" and sides and all(side.sign for side in sides):
            normals = sides[0].of(pairs[:, 0], float(first[3])), sides[1].of(pairs[:, 1], float(second[3]))
        found = contact_frames(a, b, second[:3] - first[:3], normals)
        if self.is_self:
            found = found._replace(depth=np.where(self.spheres[0].one_body.shares(pairs), 0.0, found.depth))
        return found

    def to_dict(self) -> dict[str, Any]:
        """As of every result, with points, normals and depths."""
        names = ("point", "normal", "depth", "possible_point", "possible_normal", "possible_depth")
        return super().to_dict() | {name: plain(getattr(self, name)) for name in names}

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draw the bodies as they are now and the spheres of all pairs; to a file if ``path`` is given."""
        return self._plot("plot_spheres", path)
