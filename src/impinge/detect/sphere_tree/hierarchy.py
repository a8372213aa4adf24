"""A tree of spheres over the surface of a mesh at rest, as arrays: built offline, saved, loaded, read by queries.

Nodes     are ordered level by level: the root is node 0, the children of a node are adjacent, in order.
Pieces    Sub-triangles (``build.pieces``), each in exactly one leaf, in the order of the leaves along the tree: the
          pieces under any node are a range.
Coverage  The corners of every piece are in the balls of its leaf and of all ancestors. In exact arithmetic, and as
          doubles compute it: radii are rounded outwards.
Kinds     "wrapped": a ball holds the surface below its node, the balls of its children may stick out. "layered": a
          ball holds the balls of its children too.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from impinge.checks import NONE, Floats, Ints, as_path, as_whole, check_type, shown, sorted_unique
from impinge.detect.sphere_tree.build.pieces import Pieces
from impinge.errors import FileError, MeshError
from impinge.io.atomic import write_whole
from impinge.io.npz import read_npz
from impinge.mesh.tri_mesh import TriMesh

Kind: TypeAlias = Literal["wrapped", "layered"]
Builder: TypeAlias = Literal["medial", "octree"]

VERSION = 1
"""Of the file."""
CORNER_SLACK = 1e-9
"""How much the sum of the coordinates of a corner may differ from 1."""


@dataclass(frozen=True, eq=False, repr=False)
class SphereHierarchy:
    """Spheres around the surface of a mesh at rest, coarse to fine."""

    centre: Floats
    """At rest, shape (n, 3)."""
    radius: Floats
    """At rest, shape (n,)."""
    first_child: Ints
    """NONE = -1 for leaves, shape (n,)."""
    child_count: Ints
    """Shape (n,); 0 for leaves."""
    parent: Ints
    """NONE for the root, shape (n,)."""
    level_start: Ints
    """First node of each level, and the number of nodes, shape (levels + 1,); the root is a level."""
    piece_triangle: Ints
    """Triangle that the piece is a part of, shape (p,)."""
    piece_corner: Floats
    """Barycentric coordinates of the corners in that triangle, shape (p, 3, 3)."""
    piece_start: Ints
    """First piece under each node, shape (n,)."""
    piece_stop: Ints
    """End of the pieces under each node, shape (n,)."""
    rest: Floats
    """Vertices of the mesh that the spheres are around, shape (v, 3)."""
    faces_digest: str
    """Identifies the mesh of the tree by its live triangles, whatever its positions."""
    branching: int
    """Most children of a node."""
    kind: Kind
    builder: Builder
    """What built it: "octree" also where "medial" was requested for a surface without an inside."""

    def __len__(self) -> int:
        """Number of spheres."""
        return len(self.radius)

    def __str__(self) -> str:
        """One line."""
        return f"SphereHierarchy: {len(self):,} spheres, {self.level_count} levels, {self.kind}, by {self.builder}"

    def __repr__(self) -> str:
        return f"<{self}>"

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        """What a notebook shows."""
        printer.text(str(self))

    @property
    def level_count(self) -> int:
        """Number of levels, that of the root included."""
        return len(self.level_start) - 1

    @property
    def leaves(self) -> Ints:
        """Nodes without children, in increasing order; they may stand on any level."""
        return np.flatnonzero(self.first_child == NONE).astype(np.int32)

    @property
    def pieces(self) -> Pieces:
        """The sub-triangles, in the order of the tree."""
        return Pieces(self.piece_triangle, self.piece_corner)

    def level_of(self, node: int) -> int:
        """The level that a node stands on; 0 is the root's."""
        as_whole(node, "node", least=0, most=len(self.first_child) - 1)
        return int(np.searchsorted(self.level_start, node, side="right")) - 1

    def cut(self, level: int) -> Ints:
        """The nodes that represent the whole surface at ``level``: those of the level, and leaves above it."""
        as_whole(level, "level", least=0)
        start, stop = self.level_start[min(level, self.level_count - 1) :][:2]
        nodes: Ints = np.arange(stop, dtype=np.int32)
        return np.asarray(nodes[(nodes >= start) | (self.first_child[:stop] == NONE)])

    def triangles_under(self, node: int) -> Ints:
        """Sorted ids of the triangles of which a part is under ``node``."""
        as_whole(node, "node", least=0, most=len(self.first_child) - 1)
        return sorted_unique(self.piece_triangle[self.piece_start[node] : self.piece_stop[node]])

    def for_mesh(self, mesh: TriMesh) -> SphereHierarchy:
        """This tree, if its pieces are those of ``mesh``, deformed or not; else a ``MeshError``."""
        check_type(mesh, "mesh", TriMesh)
        snapshot = mesh.snapshot()
        if self.faces_digest != digest_of_faces(snapshot.elements, snapshot.live, len(snapshot.vertices)):
            raise MeshError(
                f"the sphere tree belongs to another mesh than this one of {len(snapshot.vertices)} vertices and "
                f"{len(snapshot.live)} live triangles (the tree's has {len(self.rest)} vertices); build a tree for it "
                "with build_spheres, also after triangles were added or removed"
            )
        if len(self.rest) != len(snapshot.vertices) or self.piece_triangle.max() >= len(snapshot.elements):
            raise MeshError(
                f"the sphere tree names triangle {int(self.piece_triangle.max())} and has {len(self.rest)} vertices, "
                f"but its mesh has {len(snapshot.elements)} and {len(snapshot.vertices)}; it is damaged, build it again"
            )
        return self

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the tree to an .npz file, whole or not at all, and return its path."""
        target, arrays = as_path(path, "path"), {name: getattr(self, name) for name in _FIELDS}
        try:
            write_whole(target, lambda file: np.savez_compressed(file, version=VERSION, **arrays))
        except OSError as error:
            raise FileError(
                f"the sphere tree could not be written to {target} ({error.strerror}); choose another path"
            ) from error
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mesh: TriMesh | None = None) -> SphereHierarchy:
        """Read a tree from a file; with ``mesh``, refuse one that belongs to another mesh."""
        tree = cls(**_read(as_path(path, "path")))
        return tree if mesh is None else tree.for_mesh(mesh)


_FIELDS = [each.name for each in fields(SphereHierarchy)]
_SCALARS = ("faces_digest", "kind", "builder", "branching")


def digest_of_faces(faces: Ints, live: Ints, vertex_count: int) -> str:
    """A name for the live triangles of a mesh."""
    digest = hashlib.sha256(f"{vertex_count} {len(faces)} ".encode())
    digest.update(np.ascontiguousarray(live, dtype=np.int32).tobytes())
    digest.update(np.ascontiguousarray(faces[live], dtype=np.int32).tobytes())
    return digest.hexdigest()


def _read(path: Path) -> dict[str, Any]:
    try:
        found = read_npz(path)
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"the sphere tree could not be read from {path} ({error}); check the path") from error
    except ValueError as error:
        raise FileError(
            f"{path} is no sphere tree ({error}); expected a file that SphereHierarchy.save wrote"
        ) from error
    missing = [name for name in ("version", *_FIELDS) if name not in found]
    if missing:
        raise FileError(
            f"{path} is no sphere tree: it lacks {', '.join(missing)}; expected a file that SphereHierarchy.save wrote"
        )
    version = found["version"].item() if found["version"].size == 1 else None
    if version != VERSION:
        raise FileError(
            f"{path} holds a sphere tree of version {shown(version)}, expected version {VERSION}; build it again"
        )
    tree: dict[str, Any] = {name: found[name] for name in _FIELDS}
    if not all(_checks(tree)):
        raise FileError(f"{path} holds a damaged sphere tree: its arrays do not fit together; build it again")
    return tree | {name: tree[name].item() for name in _SCALARS}


def _checks(tree: dict[str, Any]) -> Iterator[Any]:
    """Whether arrays have the right types and shapes and refer to one another: no query can leave them.

    A check relies on those before it.
    """
    yield all((tree[name].ndim == 0) == (name in _SCALARS) for name in _FIELDS)
    yield all(tree[name].dtype.kind in ("iu" if name == "branching" else "U") for name in _SCALARS)
    yield tree["kind"].item() in ("wrapped", "layered") and tree["builder"].item() in ("medial", "octree")
    nodes, pieces = len(tree["radius"]), len(tree["piece_triangle"])
    floats = {"centre": (nodes, 3), "radius": (nodes,), "piece_corner": (pieces, 3, 3), "rest": (len(tree["rest"]), 3)}
    ints = dict.fromkeys(("first_child", "child_count", "parent", "piece_start", "piece_stop"), (nodes,))
    ints |= {"level_start": (len(tree["level_start"]),), "piece_triangle": (pieces,)}
    for shapes, dtype in ((floats, np.float64), (ints, np.int32)):
        yield all(tree[name].shape == shape and tree[name].dtype == dtype for name, shape in shapes.items())

    # nodes are ordered level by level, siblings together and in order
    level, first, count = tree["level_start"], tree["first_child"], tree["child_count"]
    yield nodes > 0 and len(level) > 1 and level[0] == 0 and level[-1] == nodes and (np.diff(level) > 0).all()
    yield (count >= 0).all() and int(count.sum(dtype=np.int64)) == nodes - 1
    inner = np.flatnonzero(count > 0)
    height = np.repeat(np.arange(len(level) - 1), np.diff(level))
    parent = np.concatenate([[NONE], np.repeat(inner, count[inner])])
    yield (tree["parent"] == parent).all()
    yield (first[inner] == 1 + np.cumsum(count[inner]) - count[inner]).all() and (first[count == 0] == NONE).all()
    yield (height[1:] == height[parent[1:]] + 1).all()

    # spheres are finite, and the pieces below a node are those below its children; all below the root
    start, stop = tree["piece_start"], tree["piece_stop"]
    last = first[inner] + count[inner] - 1
    is_next = np.flatnonzero(parent[1:-1] == parent[2:]) + 1
    yield all(np.isfinite(tree[name]).all() for name in floats) and (tree["radius"] >= 0.0).all()
    yield start[0] == 0 and stop[0] == pieces and (start < stop).all()
    yield (start[first[inner]] == start[inner]).all() and (stop[last] == stop[inner]).all()
    yield (stop[is_next] == start[is_next + 1]).all()
    yield (tree["piece_triangle"] >= 0).all() and (tree["piece_corner"] >= 0.0).all()
    yield (np.abs(tree["piece_corner"].sum(axis=2) - 1.0) < CORNER_SLACK).all()
