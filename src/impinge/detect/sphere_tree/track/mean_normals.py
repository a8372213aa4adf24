"""Which way the surface below a sphere faces: the mean of its outward unit normals, by area.

Length    1 where the surface below is flat, less where it is bent, 0 of the root of a closed surface: how much the
          direction tells.
Whom      Closed surfaces that agree on which side is outside. Others face nowhere: the mean is 0.
When      As the body was in the query, transform included; found when it is first asked for, of the spheres that are
          asked about alone.
How many  At most ``MOST_PIECES`` pieces below a sphere are looked at, evenly spread along the tree, so that a sphere
          near the root costs no more than a leaf; leaves have fewer, as a rule.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from impinge.checks import Floats, Ints, sorted_unique
from impinge.detect.sphere_tree.build.sinking import outward_sign
from impinge.detect.sphere_tree.hierarchy import SphereHierarchy
from impinge.detect.sphere_tree.track import mean_normals_kernels as kernels

MOST_PIECES = 64


class Pieces(NamedTuple):
    """What kernels take of a tree: ranges of pieces by node, the triangle of each, and its share of that."""

    start: Ints
    stop: Ints
    triangle: Ints
    share: Floats


class Outside:
    """What tells the outside of one surface, and does not change while it deforms; made when first asked for."""

    def __init__(self, tree: SphereHierarchy, faces: Ints) -> None:
        self._tree, self._faces = tree, faces

    @cached_property
    def sign(self) -> float:
        """1 if normals of triangles point outwards, -1 if inwards, 0 if the surface has no outside."""
        rest = self._tree.rest
        size = float(np.abs(rest).max(initial=0.0))
        return outward_sign(rest / (size or 1.0), self._faces[sorted_unique(self._tree.piece_triangle)])

    @cached_property
    def pieces(self) -> Pieces:
        """Pieces by node."""
        tree = self._tree
        share = np.abs(np.linalg.det(tree.piece_corner))
        columns = (tree.piece_start, tree.piece_stop, tree.piece_triangle, share)
        return Pieces._make(map(read_only, columns))

    def prepare(self) -> None:
        """Do now what would be done when normals are first asked for."""
        _ = self.sign and self.pieces


class Facing(NamedTuple):
    """The surface of one body as a query saw it."""

    outside: Outside
    x: Floats
    faces: Ints
    matrix: Floats | None
    """The transform, if there was one."""

    @property
    def sign(self) -> float:
        """As of ``Outside``, after the transform: one that mirrors turns triangles over."""
        if self.matrix is None:
            return self.outside.sign
        return self.outside.sign * float(np.sign(np.linalg.det(self.matrix[:3, :3])))

    def of(self, nodes: Ints, size: float) -> Floats:
        """Mean outward unit normals below nodes, shape (k, 3); ``size``, about that of the body, scales products."""
        pieces, sign = self.outside.pieces, self.sign
        if sign == 0.0 or not size > 0.0:
            return np.zeros((len(nodes), 3))
        row: Ints = np.zeros(len(pieces.start), dtype=np.int32)
        row[nodes] = 1
        distinct = np.flatnonzero(row).astype(np.int32)  # a sphere may be in many pairs
        row[distinct] = np.arange(len(distinct))
        turn = np.eye(3) if self.matrix is None else np.ascontiguousarray(self.matrix[:3, :3])
        facing = np.zeros((len(distinct), 3))
        kernels.mean_normals.over(MOST_PIECES * len(distinct))(
            distinct, *pieces, MOST_PIECES, read_only(self.x), read_only(self.faces), turn, size, facing
        )
        return np.asarray(sign * facing[row[nodes]])


def read_only(array: Any) -> Any:
    """A view that cannot be written to, as positions of bodies are: Numba compiles anew for the other kind."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
