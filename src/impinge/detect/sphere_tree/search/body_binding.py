"""What bodies keep for queries with sphere trees: a tree of their own, and the spheres where they are now.

All is kept with the surface, so that any number of detectors and pairs share it. A tree that the caller built is used
as long as the surface has the triangles that it was built for. The tree that a body makes itself is of the quick kind,
and made anew after an edit.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from impinge.checks import Floats, Ints, as_transform, sorted_unique
from impinge.deform.rigid_links import RigidLinks
from impinge.detect.common.pair_query import moved
from impinge.detect.sphere_tree.build.build import build_spheres
from impinge.detect.sphere_tree.hierarchy import SphereHierarchy
from impinge.detect.sphere_tree.track.controls import Steering
from impinge.detect.sphere_tree.track.tracking import TrackedSpheres, Tracking
from impinge.errors import MeshError, OptionError
from impinge.mesh.body import as_surface
from impinge.mesh.elements import Mark
from impinge.mesh.positions import Positions
from impinge.mesh.tri_mesh import BodyState, TriMesh, used_ids

MOST_LEVELS = 5
"""Of a tree that a body makes itself: 32,768 leaves."""
STILL: Floats = np.zeros((5, 3))
"""What moves nothing, as kernels take it."""


class Kept:
    """What one surface keeps."""

    def __init__(self, surface: TriMesh) -> None:
        self.lock = threading.RLock()
        self._surface = surface
        self._own: dict[bool, tuple[Mark, SphereHierarchy]] = {}
        """By whether it was built at rest, as for a soft body, or for the surface as it was."""
        self._tracked: dict[tuple[Any, ...], tuple[Mark, TrackedSpheres]] = {}

    def tree(self, body: SteeredBody, frame: BodyState) -> SphereHierarchy:
        """The given tree, if it is this surface's; else one that the surface makes itself."""
        if body.tree is not None:
            return body.tree.for_mesh(self._surface)
        own = self._own.get(body.is_soft)
        if own is None or own[0] != frame.mark:
            at_rest = body.at_rest(frame)
            own = (frame.mark, build_spheres(at_rest, builder="octree", levels=_levels(at_rest)))
            self._own[body.is_soft] = own
        return own[1]

    def tracked(self, body: SteeredBody, frame: BodyState) -> TrackedSpheres:
        """The spheres of a tree in one mode; made when first asked for."""
        with self.lock:
            key = (
                id(body.tree),
                body.tracking,
                body.controls,
                body.is_twin,
                body.is_soft,
            )  # what is kept keeps its tree, so that ids stay unique
            kept = self._tracked.get(key)
            if kept is None or kept[0] != frame.mark:
                tree = self.tree(body, frame)
                steering = body.steering(tree, frame)
                made = TrackedSpheres(tree, frame.faces, steering, body.tracking, body.controls)
                self._tracked[key] = kept = (frame.mark, made)
            return kept[1]


@dataclass(frozen=True)
class SteeredBody:
    """A body as a detector holds it: its surface, and what steers the spheres around it."""

    surface: TriMesh
    soft: Any
    """The soft body that the surface belongs to, None of others."""
    tree: SphereHierarchy | None
    tracking: Tracking
    controls: int
    letter: str
    driver: Positions | None
    """Positions of the soft body's coarse mesh, if spheres follow that."""
    is_twin: bool = False
    """Whether it is the second of two equal surfaces: these may have different transforms."""

    @property
    def is_soft(self) -> bool:
        """Whether it came as a soft body, whose spheres are built at rest, not as a surface, which may be of one."""
        return self.soft is not None

    @property
    def kept(self) -> Kept:
        """What the surface keeps."""
        return self.surface.structure("spheres", Kept)

    def steering(self, tree: SphereHierarchy, frame: BodyState) -> Steering:
        """Who may steer spheres: vertices of the coarse mesh, or of the surface itself."""
        if self.driver is None:
            return Steering(tree.rest, used_ids(frame.faces[frame.live()], len(frame.vertices)))
        rest, embedding = self.soft.model.rest, self.soft.embedding
        used = np.arange(len(rest), dtype=np.int32)
        if isinstance(embedding, RigidLinks) and self.tracking == "bound":
            links = embedding.handles(rest)
            alpha = links.weight[:, :3].copy()
            alpha[:, 0] = 1.0 - alpha[:, 1:].sum(axis=1)
            return Steering(
                links.rest, used, links.column, links.weight, links.column[:, :3], alpha, links.offset,
                links.triple, links.length,
            )  # fmt: skip
        if _is_linear(self.soft):
            column, weight = self.soft.coarse.tets[embedding.tets_of], embedding.weights
            return Steering(rest, used, column, weight, column, weight, np.zeros(len(weight)))
        return Steering(rest, used)

    def at_rest(self, frame: BodyState) -> TriMesh:
        """The surface where spheres are built, of a soft body at rest, of others as they are; whoever edits it now."""
        body = TriMesh(self.soft.rest_surface if self.is_soft else frame.vertices, frame.faces, validate="trust")
        body.remove_triangles(~frame.live())
        return body


class Seat:
    """One body of a detector as long as its triangles stay the same, and where it is in the query that is at work.

    What a query does with it takes tens of microseconds if others have filled the caches: every object and every call
    count, so that positions are looked at without making a ``BodyState``.
    """

    __slots__ = ("_driver", "_positions", "elements", "faces", "letter", "mark", "matrix", "outside", "tracked", "x")

    def __init__(self, body: SteeredBody, frame: BodyState) -> None:
        self.letter = body.letter
        self.tracked = body.kept.tracked(body, frame)
        self.elements, self.mark, self.faces = body.surface.elements, frame.mark, frame.faces
        """The triangles are others once ``elements.mark`` is another than ``mark``."""
        self._positions, self._driver, self.outside = body.surface.positions, body.driver, self.tracked.outside
        self.x: Floats = frame.vertices
        """Positions of the surface before the transform."""
        self.matrix: Floats | None = None

    def place(self, transform: Any) -> None:
        """Let the spheres be those of the body as it is now."""
        version, driver = 0, self._driver
        if driver is None:
            followed, motion, _, address = self._positions.state
            self.x = followed
        else:
            with driver.lock:  # the surface follows in the same breath
                followed, _, version, address = driver.state
                self.x, motion, _, _ = self._positions.state
        self.matrix = matrix = None if transform is None else as_transform(transform, f"transform_{self.letter}")
        if matrix is None:
            self.tracked.place((motion, version, b""), followed, address, STILL)
        else:
            self.tracked.place((motion, version, matrix.tobytes()), followed, address, _placing(matrix))

    def vertices(self) -> Floats:
        """Positions of the surface after the transform."""
        return self.x if self.matrix is None else moved(self.matrix, self.x, f"transform_{self.letter}")


def _levels(surface: TriMesh) -> int:
    """As many levels as leave some eight triangles to a leaf."""
    return int(np.clip(round(np.log(max(surface.live_count, 1) / 8.0) / np.log(8.0)), 1, MOST_LEVELS))


def steered_body(body: Any, tree: Any, tracking: Any, controls: int, letter: str) -> SteeredBody:
    """Look at a body and at the options that are about it."""
    is_soft = hasattr(body, "coarse") and hasattr(body, "rest_surface")
    surface = body.surface if is_soft else as_surface(body, name=letter)
    if tree is not None and not isinstance(tree, SphereHierarchy):
        raise OptionError(
            f"tree_{letter} is a {type(tree).__name__}, expected a SphereHierarchy; build_spheres makes one"
        )
    is_bounded = is_soft and (_is_linear(body) or isinstance(body.embedding, RigidLinks))
    if tracking == "auto":
        tracking = "bound" if is_bounded else "refit"
    if tracking not in ("paper", "affine", "refit", "bound"):
        raise OptionError(f"tracking is {tracking!r}, expected 'auto', 'paper', 'affine', 'refit' or 'bound'")
    if tracking == "bound" and not is_bounded:
        raise OptionError(
            f"tracking='bound' needs a surface that is embedded in a coarse mesh, as a SoftBody's, but body {letter} "
            "is not; use tracking='refit', which is conservative too"
        )
    if tree is not None:
        tree.for_mesh(surface)
        if is_soft and not np.allclose(tree.rest, body.rest_surface, rtol=1e-9, atol=0.0):
            raise MeshError(
                f"tree_{letter} was built for body {letter} deformed, expected spheres around it at rest; "
                "reset the body before build_spheres, or build them for its rest_surface"
            )
    driver = body.coarse.positions if is_soft and tracking != "refit" else None
    return SteeredBody(surface, body if is_soft else None, tree, tracking, controls, letter, driver)


def _is_linear(soft: Any) -> bool:
    """Whether dense vertices are weighted sums of coarse ones."""
    return hasattr(soft.embedding, "weights")


def _placing(matrix: Floats) -> Floats:
    """An affine map as kernels take it: the matrix, the shift, then how much it stretches, its size, and that it is."""
    stretch = float(np.linalg.norm(matrix[:3, :3], 2)) * (1.0 + 1e-12)
    return np.concatenate([matrix[:3, :3], matrix[None, :3, 3], [[stretch, float(np.abs(matrix[:3, :3]).max()), 1.0]]])


def leaf_triangles(tree: SphereHierarchy) -> tuple[Any, Ints]:
    """Distinct triangles below each leaf, as starts by node and ids; other nodes have none."""
    size = np.where(tree.child_count == 0, tree.piece_stop - tree.piece_start, 0)
    node = np.repeat(np.arange(len(tree)), size)
    nth = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
    triangle = tree.piece_triangle[tree.piece_start[node] + nth].astype(np.int64)
    key = sorted_unique(node.astype(np.int64) << 32 | triangle)
    start = np.searchsorted(key >> 32, np.arange(len(tree) + 1)).astype(np.int64)
    return start, (key & 0xFFFFFFFF).astype(np.int32)
