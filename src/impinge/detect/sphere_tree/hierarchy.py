"""A tree of spheres over the surface of a mesh at rest, as arrays: built off-line, saved, loaded, asked by queries.

Nodes     stand level by level: the root is node 0, the children of a node are neighbours, in order.
Pieces    Sub-triangles (``sphere_pieces``), each in exactly one leaf, in the order of the leaves along the tree, so
          that the pieces under any node are a range.
Coverage  The corners of every piece are in the balls of its leaf and of all ancestors. In exact arithmetic, and as
          doubles compute it: radii are rounded outwards.
Kinds     "wrapped": a ball holds the surface below its node, the balls of its children may stick out. "layered": a
          ball holds the balls of its children too.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from impinge.checks import NONE, Floats, Ints, sorted_unique
from impinge.detect.sphere_tree.build.pieces import Pieces
from impinge.errors import FileError, MeshError
from impinge.io.atomic import write_whole
from impinge.mesh.tri_mesh import TriMesh

Kind: TypeAlias = Literal["wrapped", "layered"]
Builder: TypeAlias = Literal["medial", "octree"]

VERSION = 1
"""Of the file."""
CORNER_SLACK = 1e-9
"""By how much the coordinates of a corner may differ from 1 when added up."""


@dataclass(frozen=True, eq=False)
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
    """Tells which mesh the tree belongs to: its live triangles, whatever its positions."""
    branching: int
    """Most children of a node."""
    kind: Kind
    builder: Builder
    """What built it: "octree" also where "medial" was asked for a surface that has no inside."""

    # looking --------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many spheres there are."""
        return len(self.radius)

    def __str__(self) -> str:
        """One line; the arrays are in ``repr``."""
        return f"SphereHierarchy: {len(self):,} spheres, {self.level_count} levels, {self.kind}, by {self.builder}"

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        """What a notebook shows."""
        printer.text(str(self))

    @property
    def level_count(self) -> int:
        """How many levels there are, that of the root included."""
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
        return int(np.searchsorted(self.level_start, node, side="right")) - 1

    def cut(self, level: int) -> Ints:
        """The nodes that stand for the whole surface at ``level``: those of the level, and leaves above it."""
        start, stop = self.level_start[min(level, self.level_count - 1) :][:2]
        nodes: Ints = np.arange(stop, dtype=np.int32)
        return np.asarray(nodes[(nodes >= start) | (self.first_child[:stop] == NONE)])

    def triangles_under(self, node: int) -> Ints:
        """Sorted ids of the triangles of which a part is under ``node``."""
        return sorted_unique(self.piece_triangle[self.piece_start[node] : self.piece_stop[node]])

    # mesh and file --------------------------------------------------------------------------------------

    def for_mesh(self, mesh: TriMesh) -> SphereHierarchy:
        """This tree, if its pieces are those of ``mesh``, deformed or not; else an error with a sentence."""
        snapshot = mesh.snapshot()
        live = len(snapshot.live)
        if self.faces_digest != digest_of_faces(snapshot.elements, snapshot.live, len(snapshot.vertices)):
            raise MeshError(
                f"the sphere tree belongs to another mesh than this one of {len(snapshot.vertices)} vertices and "
                f"{live} live triangles (the tree's has {len(self.rest)} vertices); build a tree for it with "
                "build_spheres, also after triangles were added or removed"
            )
        if len(self.rest) != len(snapshot.vertices) or self.piece_triangle.max() >= len(snapshot.elements):
            raise MeshError(
                f"the sphere tree names triangle {int(self.piece_triangle.max())} and has {len(self.rest)} vertices, "
                f"but its mesh has {len(snapshot.elements)} and {len(snapshot.vertices)}; it is damaged, build it anew"
            )
        return self

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the tree to an .npz file, whole or not at all, and return its path."""
        target, arrays = Path(path), {each.name: getattr(self, each.name) for each in _FIELDS}
        try:
            write_whole(target, lambda file: np.savez_compressed(file, version=VERSION, **arrays))
        except OSError as error:
            raise FileError(
                f"the sphere tree could not be written to {target} ({error}); choose another path"
            ) from error
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mesh: TriMesh | None = None) -> SphereHierarchy:
        """Read a tree from a file; with ``mesh``, refuse one that belongs to another mesh."""
        tree = cls(**_read(Path(path)))
        return tree if mesh is None else tree.for_mesh(mesh)


_FIELDS = fields(SphereHierarchy)
_TEXTS = {"faces_digest", "kind", "builder"}
_NO_ARCHIVE = (ValueError, EOFError, KeyError, RuntimeError, OverflowError, zipfile.BadZipFile, zlib.error)
"""What reading bytes that are no archive, or a broken one, may raise."""


def digest_of_faces(faces: Ints, live: Ints, vertex_count: int) -> str:
    """A name for the live triangles of a mesh."""
    digest = hashlib.sha256(f"{vertex_count} {len(faces)} ".encode())
    digest.update(np.ascontiguousarray(live, dtype=np.int32).tobytes())
    digest.update(np.ascontiguousarray(faces[live], dtype=np.int32).tobytes())
    return digest.hexdigest()


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream, zipfile.ZipFile(stream) as archive:  # numpy leaves broken files open
            found = {name.removesuffix(".npy"): _array(archive, name) for name in archive.namelist()}
    except OSError as error:
        raise FileError(f"the sphere tree could not be read from {path} ({error}); check the path") from error
    except _NO_ARCHIVE as error:
        raise FileError(
            f"{path} is no sphere tree ({error}); expected a file that SphereHierarchy.save wrote"
        ) from error
    missing = [each.name for each in _FIELDS if each.name not in found]
    if "version" not in found or missing:
        raise FileError(
            f"{path} is no sphere tree: it lacks {', '.join(missing) or 'a version'}; expected a file that "
            "SphereHierarchy.save wrote"
        )
    if int(found["version"]) != VERSION:
        raise FileError(
            f"{path} holds a sphere tree of version {int(found['version'])}, expected version {VERSION}; build it anew"
        )
    arrays = {each.name: found[each.name] for each in _FIELDS}
    if not _is_sound(arrays):
        raise FileError(f"{path} holds a damaged sphere tree: its arrays do not fit together; build it anew")
    return arrays | {name: str(arrays[name]) for name in _TEXTS} | {"branching": int(arrays["branching"])}


def _array(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    with archive.open(name) as file:
        return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


def _is_sound(tree: dict[str, Any]) -> bool:
    """Whether arrays have the right types and shapes and refer to one another, so that no query can leave them."""
    if any(tree[each.name].ndim == 0 for each in _FIELDS if each.name not in {*_TEXTS, "branching"}):
        return False
    if tree["branching"].ndim or tree["branching"].dtype.kind not in "iu":
        return False
    nodes, pieces, vertices = len(tree["radius"]), len(tree["piece_triangle"]), len(tree["rest"])
    floats = {"centre": (nodes, 3), "radius": (nodes,), "piece_corner": (pieces, 3, 3), "rest": (vertices, 3)}
    whole = dict.fromkeys(("first_child", "child_count", "parent", "piece_start", "piece_stop"), (nodes,))
    texts = {"kind": ("wrapped", "layered"), "builder": ("medial", "octree")}
    if any(str(tree[name]) not in allowed for name, allowed in texts.items()):
        return False
    whole |= {"level_start": (len(tree["level_start"]),), "piece_triangle": (pieces,)}
    if any(tree[name].dtype != np.float64 or tree[name].shape != shape for name, shape in floats.items()):
        return False
    if any(tree[name].dtype != np.int32 or tree[name].shape != shape for name, shape in whole.items()):
        return False
    return _is_tree(tree) and _holds_pieces(tree)


def _is_tree(tree: dict[str, Any]) -> bool:
    """Whether nodes stand level by level, siblings together and in order."""
    nodes, level, first, count = len(tree["radius"]), tree["level_start"], tree["first_child"], tree["child_count"]
    if nodes == 0 or len(level) < 2 or level[0] != 0 or level[-1] != nodes or not (np.diff(level) > 0).all():
        return False
    inner = np.flatnonzero(count > 0)
    if (count < 0).any() or int(count.sum(dtype=np.int64)) != nodes - 1:
        return False
    height = np.repeat(np.arange(len(level) - 1), np.diff(level))
    parent = np.concatenate([[NONE], np.repeat(inner, count[inner])])
    return bool(
        (tree["parent"] == parent).all()
        and (first[inner] == 1 + np.cumsum(count[inner]) - count[inner]).all()
        and (first[count == 0] == NONE).all()
        and (height[1:] == height[parent[1:]] + 1).all()
    )


def _holds_pieces(tree: dict[str, Any]) -> bool:
    """Whether spheres are finite, and the pieces below a node are those below its children; all below the root."""
    start, stop, first, count = (tree[name] for name in ("piece_start", "piece_stop", "first_child", "child_count"))
    inner = np.flatnonzero(count > 0)
    last = first[inner] + count[inner] - 1
    is_next = np.flatnonzero(tree["parent"][1:-1] == tree["parent"][2:]) + 1
    return bool(
        all(np.isfinite(tree[name]).all() for name in ("centre", "radius", "piece_corner", "rest"))
        and (tree["radius"] >= 0.0).all()
        and start[0] == 0
        and stop[0] == len(tree["piece_triangle"])
        and (start < stop).all()
        and (start[first[inner]] == start[inner]).all()
        and (stop[last] == stop[inner]).all()
        and (stop[is_next] == start[is_next + 1]).all()
        and (tree["piece_triangle"] >= 0).all()
        and (tree["piece_corner"] >= 0.0).all()
        and (np.abs(tree["piece_corner"].sum(axis=2) - 1.0) < CORNER_SLACK).all()
    )
