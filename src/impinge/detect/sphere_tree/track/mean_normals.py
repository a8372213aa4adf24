"""Mean outward unit normals of the surface below spheres, weighted by area.

Length    1 where the surface below is flat, less where it is curved, 0 at the root of a closed surface: a measure of
          how reliable the direction is.
Scope     Closed, consistently oriented surfaces. For others the mean is 0.
State     As the body was in the query, transform included; computed on demand, for the spheres in question alone.
Cost      At most ``MOST_PIECES`` pieces below a sphere are read, evenly spread along the tree: a sphere near the root
          costs no more than a leaf; leaves usually have fewer.
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


class SurfaceOrientation:
    """The orientation of one surface, which does not change while it deforms; computed on demand."""

    def __init__(self, tree: SphereHierarchy, faces: Ints) -> None:
        self._tree, self._faces = tree, faces

    @cached_property
    def sign(self) -> float:
        """1 if normals of triangles point outwards, -1 if inwards, 0 if the surface has no outside."""
        rest = self._tree.rest
        size = float(np.abs(rest).max(initial=0.0))
        return outward_sign(rest / (size or 1.0), self._faces[sorted_unique(self._tree.piece_triangle)])

    @cached_property
    def pieces(self) -> tuple[Any, ...]:
        """Start and stop of the pieces by node, the triangle of each, and its share of that; as kernels read them."""
        tree = self._tree
        share = np.abs(np.linalg.det(tree.piece_corner))
        return tuple(map(read_only, (tree.piece_start, tree.piece_stop, tree.piece_triangle, share)))


class MeanNormals(NamedTuple):
    """The surface of one body in the state of a query."""

    orientation: SurfaceOrientation
    x: Floats
    faces: Ints
    matrix: Floats | None
    """The transform, if there was one."""

    @property
    def sign(self) -> float:
        """As of the orientation, after the transform: a mirror image reverses it."""
        if self.matrix is None:
            return self.orientation.sign
        return self.orientation.sign * float(np.sign(np.linalg.det(self.matrix[:3, :3])))

    def of(self, nodes: Ints, size: float) -> Floats:
        """Mean outward unit normals below nodes, shape (k, 3); ``size``, about that of the body, scales products."""
        sign = self.sign
        if sign == 0.0 or not size > 0.0:
            return np.zeros((len(nodes), 3))
        row: Ints = np.zeros(len(self.orientation.pieces[0]), dtype=np.int32)
        row[nodes] = 1
        distinct = np.flatnonzero(row).astype(np.int32)  # a sphere may be in many pairs
        row[distinct] = np.arange(len(distinct))
        linear = np.eye(3) if self.matrix is None else np.ascontiguousarray(self.matrix[:3, :3])
        mean = np.zeros((len(distinct), 3))
        surface = *self.orientation.pieces, MOST_PIECES, read_only(self.x), read_only(self.faces)
        kernels.mean_normals.over(MOST_PIECES * len(distinct))(distinct, *surface, linear, size, mean)
        return np.asarray(sign * mean[row[nodes]])


def read_only(array: Any) -> Any:
    """A read-only view, as positions of bodies are: Numba compiles a kernel again for the other kind."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
