"""The spheres of one body in one tracking mode, kept with its surface, and the descriptor that kernels read.

Any number of detectors and pairs share them. A tree of the caller is used as long as the surface has the triangles that
it was built for. A surface without one builds an octree, again after each edit.
"""

from __future__ import annotations

import threading
from functools import cached_property
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from impinge.backend.raw_arrays import address_of
from impinge.backend.references import is_shared
from impinge.budget import NEVER
from impinge.checks import Floats, Ints, as_choice, check_finite
from impinge.deform.rigid_links import RigidLinks
from impinge.detect.common.pair_query import moved
from impinge.detect.sphere_tree.build.build import build_spheres
from impinge.detect.sphere_tree.hierarchy import SphereHierarchy
from impinge.detect.sphere_tree.search import tree_kernels as kernels
from impinge.detect.sphere_tree.search.self_search import leaf_triangles
from impinge.detect.sphere_tree.track import tracking_kernels as columns
from impinge.detect.sphere_tree.track.controls import Steering, make_controls
from impinge.detect.sphere_tree.track.mean_normals import SurfaceOrientation
from impinge.detect.sphere_tree.track.tracking import Layout, Spheres, Tracking, block_arrays
from impinge.errors import MeshError, OptionError
from impinge.mesh.body import SurfaceLike, as_surface
from impinge.mesh.positions import Positions
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import BodyState, TriMesh, used_ids

MODES = {"paper": kernels.PAPER, "affine": kernels.AFFINE, "bound": kernels.BOUND, "refit": kernels.REFIT}
MOST_LEVELS = 5
"""Of the tree that a surface builds itself: 32,768 leaves."""
NO_TRANSFORM: Floats = np.zeros((5, 3))
SLOT_NS = 6
"""Time to let a sphere hold one of its children."""


class EmbeddedBody(Protocol):
    """A body whose surface follows a coarse mesh, such as a ``SoftBody``."""

    embedding: Any
    model: Any

    @property
    def surface(self) -> TriMesh:
        """The surface, which follows the coarse mesh."""

    @property
    def coarse(self) -> TetMesh:
        """The coarse mesh."""

    @property
    def rest_surface(self) -> Floats:
        """Positions of the surface at rest."""


class TrackedSpheres:
    """The spheres of one body, tracked as far as queries visited them. Use them under their lock."""

    def __init__(self, body: BodyBinding, state: BodyState, tree: SphereHierarchy) -> None:
        self.lock = threading.RLock()
        self.tree, self.mode = tree, body.tracking
        self.elements, self.mark, self.faces = body.surface.elements, state.mark, state.faces
        """The triangles have changed once ``elements.mark`` is another than ``mark``."""
        self._positions, self._driver = body.surface.positions, body.driver
        check_finite(state.vertices, "vertices")
        self.x: Floats = state.vertices
        """Positions of the surface before the transform."""
        self.matrix: Floats | None = None
        self.layout = layout = Layout(tree)
        self.orientation = SurfaceOrientation(tree, state.faces)
        self.is_layered = tree.kind == "layered"
        """Whether all spheres have to be tracked before the first is read."""
        steering = body.steering(tree, state)
        controls, points = make_controls(tree, state.faces, steering, body.tracking, body.controls)
        self.table, *rows = block_arrays(layout, controls, points[0] if body.tracking == "refit" else None)
        self._stamp = self.table[:-1, columns.STAMP]
        self._motion = np.zeros(kernels.MOTION_SHAPE)
        self._motion[kernels.SIZE, 1:] = kernels.largest_coordinate(steering.rest), -1.0
        self._motion[kernels.HANDLE] = steering.triple_length.max(initial=0.0)
        self.root = np.append(tree.centre[0], tree.radius[0])
        """Centre and radius of the last root that a query tracked; at rest before the first query."""
        self.spheres = Spheres.at_rest(layout)
        """The current spheres; those that no query visited since the body moved are outdated."""
        self._spare: Spheres | None = None
        self._address, self._spare_address = address_of(self.spheres.sphere), 0
        self._token: object = None
        self._transform: Floats | None = None
        self._followed = steering.rest[: len(steering.rest) - 3 * len(steering.triple)]
        handles = steering.rest.copy() if len(steering.triple) else np.zeros((0, 3))
        self._arrays = [
            self.spheres.sphere, self.spheres.sphere.copy(), self.table, layout.child, layout.child_count,
            *rows, *points, steering.triple, steering.triple_length,
            np.zeros(len(steering.triple), dtype=np.int64), handles, self._followed, self._motion, self.root,
        ]  # fmt: skip
        self._arrays = [np.ascontiguousarray(array) for array in self._arrays]
        self.descriptor: NDArray[np.int64] = np.zeros(kernels.DESCRIPTOR_SIZE, dtype=np.int64)
        """Addresses and lengths of all arrays, the mode, and the number of the state, for kernels."""
        self.descriptor[: kernels.MODE : 2] = [address_of(array) for array in self._arrays]
        self.descriptor[1 : kernels.MODE : 2] = [len(array) for array in self._arrays]
        self.descriptor[kernels.MODE] = MODES[body.tracking]
        self.descriptor[kernels.COLUMNS] = controls.coefficient.shape[1]

    @cached_property
    def leaf_triangles(self) -> tuple[Any, Ints]:
        """Distinct triangles below each leaf, as starts by node and ids."""
        return leaf_triangles(self.tree)

    def vertices(self, name: str) -> Floats:
        """Positions of the surface after the transform of that name."""
        return self.x if self.matrix is None else moved(self.matrix, self.x, name)

    def set_state(self, matrix: Floats | None) -> None:
        """Read the positions of the body as they are now, with a transform.

        Results refer to the spheres of their query: two buffers alternate, and one that anything but its owner refers
        to is replaced. With cold caches every Python object costs 1 to 5 µs, hence no ``BodyState`` here.
        """
        version, driver = 0, self._driver
        if driver is None:
            followed, motion, _, address = self._positions.state
            self.x = followed
        else:
            with driver.lock:  # the surface follows under the same lock
                followed, _, version, address = driver.state
                self.x, motion, _, _ = self._positions.state
        self.matrix = matrix
        token = (motion, version, b"" if matrix is None else matrix.tobytes())
        if token == self._token:
            return
        self._token, self._followed = token, followed
        spare, spare_address = self._spare, self._spare_address
        if spare is None or is_shared(spare, holders=2) or is_shared(spare[0]):
            spare = Spheres(np.zeros(self.spheres.sphere.shape), self.layout)
            spare_address = address_of(spare.sphere)
        self.spheres, self._spare = spare, self.spheres
        self._address, self._spare_address = spare_address, self._address
        descriptor = self.descriptor
        descriptor[kernels.SPHERE_AT], descriptor[kernels.X_AT] = spare_address, address
        descriptor[kernels.NOW] += 1
        transform = NO_TRANSFORM
        if matrix is not None:
            linear = matrix[:3, :3]
            stretch = float(np.linalg.norm(linear, 2)) * (1.0 + 1e-12)
            transform = np.concatenate([linear, matrix[None, :3, 3], [[stretch, float(np.abs(linear).max()), 1.0]]])
        if transform is not self._transform:
            self._transform = self._motion[: kernels.SIZE] = transform

    def track_all(self, deadline: int = NEVER) -> bool:
        """Track all spheres; False if the deadline came first."""
        descriptor, sphere = self.descriptor, self.spheres.sphere
        now = descriptor[kernels.NOW]
        if (self._stamp == now).all():
            return True
        if self.is_layered and deadline != NEVER:
            deadline -= SLOT_NS * len(self.layout.slot_parent)
        kernels.track_all.over(len(self._stamp))(descriptor, deadline)
        if (self._stamp != now).any():
            kernels.track_root(descriptor, 0)  # too late: restores the last root
            return False
        if self.is_layered:
            columns.layer_upwards(sphere, self.layout.slot_parent, self.layout.child_count == 0)
        self.root[:] = sphere[0, :, 0]
        return True


class BodyBinding(NamedTuple):
    """A body of a detector: its surface, and what steers the spheres around it."""

    surface: TriMesh
    soft: EmbeddedBody | None
    """The soft body that the surface belongs to, None for others. Spheres of soft bodies are built at rest."""
    tree: SphereHierarchy | None
    tracking: Tracking
    controls: int
    driver: Positions | None
    """Positions of the coarse mesh of a soft body, if spheres follow it."""
    cache: SphereCache
    """The trees and spheres that the surface keeps."""
    is_twin: bool = False
    """Whether it is the second of two equal surfaces, which may have different transforms."""

    def steering(self, tree: SphereHierarchy, state: BodyState) -> Steering:
        """Vertices that may steer spheres: of the coarse mesh, or of the surface itself."""
        if self.soft is None or self.driver is None:
            return Steering(tree.rest, used_ids(state.faces[state.live()], len(state.vertices)))
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
        if hasattr(embedding, "weights"):
            column, weight = self.soft.coarse.tets[embedding.tets_of], embedding.weights
            return Steering(rest, used, column, weight, column, weight, np.zeros(len(weight)))
        return Steering(rest, used)


class SphereCache:
    """The trees and tracked spheres that one surface keeps."""

    def __init__(self, surface: TriMesh) -> None:
        self._lock = threading.RLock()
        self._surface = surface
        self._own: dict[bool, tuple[Any, SphereHierarchy]] = {}
        """Mark and tree that the surface built itself, by whether it was built at rest, as for a soft body."""
        self._tracked: dict[tuple[Any, ...], TrackedSpheres] = {}

    def tracked(self, body: BodyBinding) -> TrackedSpheres | None:
        """The spheres for a binding, built at the first call and after edits; None without live triangles."""
        is_soft = body.soft is not None
        key = (id(body.tree), body.tracking, body.controls, body.is_twin, is_soft)  # a value keeps its tree alive
        with self._lock:
            kept = self._tracked.get(key)
            if kept is not None and kept.mark == self._surface.elements.mark:
                return kept
            state = self._surface.state()
            live = state.live()
            if not live.any():
                return None
            tree = body.tree
            if tree is not None:
                tree.for_mesh(self._surface)
            elif is_soft in self._own and self._own[is_soft][0] == state.mark:
                tree = self._own[is_soft][1]
            else:
                x = state.vertices if body.soft is None else body.soft.rest_surface
                surface = TriMesh(x, state.faces, validate="trust")
                surface.remove_triangles(~live)
                levels = round(np.log(surface.live_count / 8.0) / np.log(8.0))  # some eight triangles to a leaf
                tree = build_spheres(surface, builder="octree", levels=int(np.clip(levels, 1, MOST_LEVELS)))
                self._own[is_soft] = state.mark, tree
            self._tracked[key] = kept = TrackedSpheres(body, state, tree)
            return kept


def bind_body(
    body: SurfaceLike | EmbeddedBody, tree: SphereHierarchy | None, tracking: str, controls: int, letter: str
) -> BodyBinding:
    """Check a body and its options."""
    soft = cast(EmbeddedBody, body) if hasattr(body, "coarse") and hasattr(body, "rest_surface") else None
    surface = as_surface(cast(SurfaceLike, body), name=letter) if soft is None else soft.surface
    if tree is not None and not isinstance(tree, SphereHierarchy):
        raise OptionError(
            f"tree_{letter} is a {type(tree).__name__}, expected a SphereHierarchy; build_spheres makes one"
        )
    is_bounded = soft is not None and (hasattr(soft.embedding, "weights") or isinstance(soft.embedding, RigidLinks))
    mode: Any = as_choice(tracking, "tracking", ("auto", "paper", "affine", "refit", "bound"))
    if mode == "auto":
        mode = "bound" if is_bounded else "refit"
    if mode == "bound" and not is_bounded:
        raise OptionError(
            f"tracking='bound' needs a surface that is embedded in a coarse mesh, as a SoftBody's, but body {letter} "
            "is not; use tracking='refit', which is conservative too"
        )
    if tree is not None:
        tree.for_mesh(surface)
        if soft is not None and not np.allclose(tree.rest, soft.rest_surface, rtol=1e-9, atol=0.0):
            raise MeshError(
                f"tree_{letter} was built for body {letter} deformed, expected spheres around it at rest; "
                "reset the body before build_spheres, or build them for its rest_surface"
            )
    driver = soft.coarse.positions if soft is not None and mode != "refit" else None
    cache = surface.structure("spheres", SphereCache)
    return BodyBinding(surface, soft, tree, mode, controls, driver, cache)
