"""Vertices inside tetrahedra, for any number of bodies at once [Teschner2003].

1. Hash vertices. A hash table lists the vertices in each cell of a uniform grid.
2. Hash tets.     Each tet looks up the cells that its box covers; the vertices there, except its own, are candidates.
3. Resolve.       A candidate is inside iff four signs agree (``exact.orientation``); faces, edges and corners count.

Only buffers are kept between frames: the cost of a frame depends on the number of primitives, not on motion or on
their distribution over bodies. Self-collision needs no extra step.

Search     ``cells``, eight tets at a time. The scheme as published is ``impinge.published.spatial_hash``.
Triangles  One or two triangle meshes: pairs of triangles that share a cell, tested exactly (``triangles``).
Guarantee  exact and complete, each contact once, sorted, the same bits for any number of threads and any cell size. A
           flat tet contains nothing; inverted ones count as others do.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from impinge.backend.stages import Stages
from impinge.checks import Cancel, Floats, Stats, as_choice
from impinge.detect.common.narrow_phase import Neighbours
from impinge.detect.common.results import TrianglePairs, VertexContacts
from impinge.detect.depth.vertex_query import Depth, RawHits, VertexQuery, bodies_of_one_kind, per_body
from impinge.detect.spatial_hash.cells import CellSearch, resolve
from impinge.detect.spatial_hash.tet_batch import Order, TetBatch, make_batch, order_of
from impinge.detect.spatial_hash.triangles import HashedTriangles, as_cell_size
from impinge.errors import MeshError, OptionError
from impinge.mesh.body import BodyLike
from impinge.mesh.mesh import Snapshot


class SpatialHash:
    """Vertices inside tets of any number of tet meshes, or triangle pairs of one or two triangle meshes.

    Pickling and copying keep bodies and options, not the buffers.

    Parameters
    ----------
    bodies : sequence of TetMesh or of TriMesh
        The bodies, all of one kind; also tuples (vertices, elements), meshes of other libraries, paths.
    cell_size : float, optional
        Edge length of the cells; None follows the edges of the meshes.
    neighbours : {"exact", "skip"}
        Triangle meshes only, as in ``BoxTree``.

    Examples
    --------
    >>> from impinge import SpatialHash, shapes
    >>> detector = SpatialHash([shapes.tet_box(2, 2, 2), shapes.tet_box(2, 2, 2, center=(0.9, 0.8, 0.7))])
    >>> len(detector.query()) > 0
    True
    """

    name = "spatial_hash"

    def __init__(
        self,
        bodies: Sequence[BodyLike],
        *others: NoReturn,
        cell_size: float | None = None,
        neighbours: Neighbours = "exact",
    ) -> None:
        self._tets, surfaces = bodies_of_one_kind(bodies, *others)
        self.bodies = self._tets or surfaces
        self.cell_size = as_cell_size(cell_size)
        self.neighbours: Neighbours = as_choice(neighbours, "neighbours", ("exact", "skip"))
        if len(surfaces) > 2:
            raise MeshError(f"bodies has {len(surfaces)} triangle meshes, expected one or two; query each pair")
        self._triangles = None
        if surfaces:
            self._triangles = HashedTriangles(*surfaces, neighbours=neighbours, cell_size=cell_size)
        elif self.neighbours != "exact":
            raise OptionError("neighbours is for triangle meshes; a vertex is never tested against its own tets")
        self._lock = threading.Lock()
        self._search = CellSearch(self.cell_size)
        self._cached: tuple[tuple[Order, ...], TetBatch] | None = None
        self._positions: Floats | None = None

    def query(
        self,
        *,
        transforms: Sequence[ArrayLike | None] | None = None,
        active: Sequence[ArrayLike | None] | None = None,
        transform_a: ArrayLike | None = None,
        transform_b: ArrayLike | None = None,
        active_a: ArrayLike | None = None,
        active_b: ArrayLike | None = None,
        ignore: ArrayLike | None = None,
        max_pairs: int | None = None,
        cancel: Cancel | None = None,
        depth: Depth = False,
        edges: bool = False,
    ) -> VertexContacts | TrianglePairs:
        """Find all contacts of the bodies as they are now.

        Parameters
        ----------
        transforms : sequence of array_like, shape (4, 4), or None, optional
            Affine matrices that move the bodies for this query, one entry for each body.
        active : sequence of array_like or None, optional
            Ids or masks of the elements that take part, one entry for each body. A vertex takes part if one of its
            tets does.
        transform_a, transform_b, active_a, active_b : array_like, optional
            The same for one or two bodies, as in ``BoxTree.query``.
        ignore : array_like, shape (k, 2), optional
            Tet meshes: pairs of bodies to leave out, in either order. Triangle meshes: pairs of triangles.
        max_pairs : int, optional
            Most contacts to return; a truncated result is not ``complete``.
        cancel : object with ``is_set()``, optional
            Stops the query when set, such as a ``threading.Event``.
        depth : {False, True, "local"}
            Tet meshes: fill ``depth`` and ``direction``, by consistent penetration depth or from the border of the
            penetrated tet alone. Not with ``active``.
        edges : bool
            Tet meshes: add the edges that pass through faces of the surfaces. Not with ``active``.

        Returns
        -------
        VertexContacts or TrianglePairs
            Vertices inside tets, of tet meshes; intersecting triangle pairs, of triangle meshes. Both sorted.
        """
        count = len(self.bodies)
        transforms = _by_letter(transforms, transform_a, transform_b, "transform", count)
        active = _by_letter(active, active_a, active_b, "active", count)
        if self._triangles is None:
            return self.find(VertexQuery(self.bodies, transforms, active, ignore, max_pairs, cancel, depth, edges))
        if depth or edges:
            raise OptionError("depth and edges are for tet meshes; for surfaces use penetrating_vertices")
        moves, chosen = per_body(transforms, "transforms", count), per_body(active, "active", count)
        by_name = {f"transform_{letter}": matrix for letter, matrix in zip("ab", moves)}
        by_name |= {f"active_{letter}": ids for letter, ids in zip("ab", chosen)}
        return self._triangles.query(**by_name, ignore=ignore, max_pairs=max_pairs, cancel=cancel)

    def find(self, query: VertexQuery) -> VertexContacts:
        """As ``query`` of tet meshes, with options that are checked already."""
        with self._lock:
            return query.find(self.name, self._find)

    def refit(self) -> None:
        """Hash the vertices of tet meshes without a search, for timing; a no-op for triangle meshes."""
        if self._triangles is None:
            with self._lock:
                self._search.hash_vertices(*self._join([body.snapshot() for body in self._tets]))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy bodies and options; buffers are allocated again."""
        return partial(type(self), cell_size=self.cell_size, neighbours=self.neighbours), (self.bodies,)

    def __repr__(self) -> str:
        noun, elements = ("triangle", "triangles") if self._triangles else ("tet", "tets")
        count, total = len(self.bodies), sum(map(len, self.bodies))
        return f"<SpatialHash: {count} {noun} mesh{'es' if count > 1 else ''}, {total:,} {elements}>"

    def _find(self, snapshots: Sequence[Snapshot], stats: Stats, stages: Stages) -> RawHits:
        x, batch = self._join(snapshots)
        stages.done("bodies")
        keys = np.sort(self._search.candidates(x, batch, stats, stages))
        stats["candidates"] = len(keys)
        is_new = keys[1:] != keys[:-1]
        if not is_new.all():
            keys = keys[np.concatenate([[True], is_new])]
        stages.done("sort")
        hits = resolve(keys, x, batch, stats)
        stages.done("resolve")
        return hits

    def _join(self, snapshots: Sequence[Snapshot]) -> tuple[Floats, TetBatch]:
        """Positions of all bodies in one array, and their tets as a batch, cached until the tets change."""
        orders, batch = self._cached or ((), None)
        if batch is None or any(order.live is not seen.live for order, seen in zip(orders, snapshots)):
            orders = tuple(map(order_of, self._tets, snapshots))
            batch = make_batch(orders, snapshots)
            self._cached = orders, batch
        if len(snapshots) == 1:
            return snapshots[0].vertices, batch
        count = int(batch.vertex_start[-1])
        if self._positions is None or len(self._positions) != count:
            self._positions = np.zeros((count, 3))
        np.concatenate([seen.vertices for seen in snapshots], out=self._positions)
        x = self._positions.view()
        x.flags.writeable = False  # as positions of bodies are: Numba specialises kernels on that
        return x, batch


def _by_letter(
    listed: Sequence[ArrayLike | None] | None, a: ArrayLike | None, b: ArrayLike | None, name: str, count: int
) -> Sequence[ArrayLike | None] | None:
    """Options of one or two bodies, given by letter, as the list of all bodies."""
    if a is None and b is None:
        return listed
    if listed is not None or count > 2 or (b is not None and count == 1):
        raise OptionError(f"{name}_a and {name}_b are for the first of one or two bodies; give one list for {count}")
    return [a, b][:count]
