"""Rigid links: each dense vertex follows the three coarse surface vertices that are nearest to it at rest.

At rest, once ([MendozaOSullivan2005], section 3.1 and 3.2, equations 1 to 10), for a dense vertex p:

1. Triple. q0, q1, q2 are its three nearest coarse surface vertices. Where they are collinear (|n| of at most
           ``FLAT_AT_REST`` times the square of the longest side), the first triple, ordered by its farthest member,
           that is not. Coincident vertices count as one, the lowest id; ties go to the lower id.
2. Origin. d_i = |q_i - p|, α_i = (Σd - d_i) / (2 Σd), O = Σ α_i q_i.
3. Frame.  e0 along n = (q1 - q0) × (q2 - q0), e1 along q0 - q1, e2 along (q1 - q0) × n; unit vectors, right-handed.
4. Link.   s_i = e_i · (p - O).

Then, whenever coarse vertices have moved: p' = O' + Σ s_i e_i', from the moved triple. A triple that became
collinear keeps its last frame, rotated the shortest way to its new e1; ``straightened`` lists its vertices.

Departures  Equation 3 as printed has weights of sum 2, with which any motion displaces the mesh; they are halved.
            Equation 8 loses the signs of projections; signed coordinates are used instead. Triples are sorted by id:
            those with the same vertices share one frame; links are stored in the order of their triples.
Guarantee   The rest state and every rigid motion of it are reproduced up to rounding. Under strain, the
            surface has steps between vertices of different triples: a property of the method.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from impinge.checks import (
    Bools,
    Floats,
    Ints,
    as_buffer,
    as_ids,
    as_numbers,
    as_positions,
    as_rows,
    check_squares,
    distinct_rows,
)
from impinge.deform import rigid_links_kernels as kernels
from impinge.deform.differential import rigid_link_blocks
from impinge.deform.rigid_links_kernels import FLAT_IN_MOTION
from impinge.errors import MeshError

FLAT_AT_REST = 1e-3
"""|n| / longest side² up to which three vertices count as collinear at rest."""
CHUNK = 4096
"""Links per task of a thread."""
FIRST_NEIGHBOURS = 8
"""Nearest vertices of the first round; their number doubles from round to round."""


class Handles(NamedTuple):
    """Links as weighted sums: of the triple's vertices, and of three more points for every triple, its handles.

    Handle k of a triple is q0 + length e_k, hence p' = Σ w_j h_j' with weights of sum 1 in any motion.
    """

    triple: Ints
    """Vertices of the distinct triples, shape (t, 3)."""
    length: Floats
    """Shape (t,)."""
    rest: Floats
    """Coarse vertices at rest, and behind them the handles, three for each triple, shape (m + 3 t, 3)."""
    column: Ints
    """For each dense vertex the triple's vertices and handles, as rows of ``rest``, shape (n, 6)."""
    weight: Floats
    """Shape (n, 6)."""
    offset: Floats
    """How far dense vertices are from O, a mean of the triple's vertices, whatever the motion, shape (n,)."""


class RigidLinks:
    """Dense vertices that follow triples of coarse ones; the state (frames) belongs to one body.

    Parameters
    ----------
    coarse_rest
        Coarse positions at rest, shape (m, 3).
    surface_vertex_ids
        Ids, or a mask, of the coarse surface vertices.
    dense_rest
        Dense positions at rest, shape (n, 3).
    """

    def __init__(self, coarse_rest: ArrayLike, surface_vertex_ids: ArrayLike, dense_rest: ArrayLike) -> None:
        coarse = as_positions(coarse_rest, name="coarse_rest")
        dense = as_positions(dense_rest, name="dense_rest")
        check_squares("coarse_rest and dense_rest", coarse, dense)
        ids = as_ids(surface_vertex_ids, name="surface_vertex_ids", count=len(coarse))
        self._now: Floats = coarse.copy()
        triples = _nearest_triples(self._now, np.sort(ids[distinct_rows(coarse[ids])[0]]), dense)
        first, link_triple = distinct_rows(triples)
        self._triple: Ints = triples[first]
        self._frame: Floats = np.zeros((len(first), 9))
        self._straight: Bools = np.zeros(len(first), dtype=np.bool_)
        self._place_frames()
        self._link_vertex: Ints = np.argsort(link_triple, kind="stable").astype(np.int32)
        self._vertex_link: Ints = np.argsort(self._link_vertex).astype(np.int32)
        self._link_triple: Ints = link_triple[self._link_vertex].astype(np.int32)
        counts = np.bincount(link_triple, minlength=len(first))
        self._triple_link_start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self._chunk_start = np.append(np.arange(0, len(dense), CHUNK, dtype=np.int64), len(dense))
        self._chunk_triple: Ints = self._link_triple[self._chunk_start[:-1]]
        # α1, α2 and the coordinates of p - O in the frame, shape (n, 5)
        q = coarse[triples]
        distance = np.sqrt(((q - dense[:, None]) ** 2).sum(axis=2))
        total = distance.sum(axis=1, keepdims=True)
        alpha = (total - distance) / (2.0 * total)
        origin = q[:, 0] + alpha[:, 1:2] * (q[:, 1] - q[:, 0]) + alpha[:, 2:] * (q[:, 2] - q[:, 0])
        signed = (self._frame[link_triple].reshape(-1, 3, 3) @ (dense - origin)[:, :, None])[:, :, 0]
        self._coefficient: Floats = np.concatenate([alpha[:, 1:], signed], axis=1)[self._link_vertex]

    @property
    def triples(self) -> Ints:
        """The coarse vertices of each dense vertex, rising, shape (n, 3)."""
        found = np.zeros((len(self._link_vertex), 3), dtype=np.int32)
        found[self._link_vertex] = self._triple[self._link_triple]
        return found

    @property
    def straightened(self) -> Ints:
        """Dense vertices whose triple is collinear in the last state, rising: their frame is a guess."""
        return np.sort(self._link_vertex[self._straight[self._link_triple]])

    @property
    def frames(self) -> Floats:
        """Frame of each distinct triple in the last state, rows of nine: the whole state of the links."""
        return self._frame.copy()

    @frames.setter
    def frames(self, frames: Floats) -> None:
        rows = as_numbers(frames, "frames")
        if rows.shape != self._frame.shape or not np.isfinite(rows).all():
            raise MeshError(f"frames have shape {rows.shape}, expected finite numbers in the shape {self._frame.shape}")
        self._frame[...] = rows

    def steer(self, coarse: Floats, out: Floats | None = None) -> Floats:
        """Dense positions, shape (n, 3), for coarse ones; written to ``out`` if given."""
        self._now[...] = as_positions(coarse, name="coarse", count=len(self._now), check=False)
        count = len(self._link_vertex)
        out = np.zeros((count, 3)) if out is None else as_buffer(out, name="out", count=count)
        self._place_frames()
        kernels.follow.over(count)(
            self._now, self._triple, self._frame, self._triple_link_start, self._chunk_start, self._chunk_triple,
            self._coefficient, self._link_vertex, out,
        )  # fmt: skip
        return out

    def differential(self, vertices: ArrayLike) -> tuple[Ints, Floats]:
        """Derivatives of dense by coarse positions in the last state: ids (k, 3), and their blocks (k, 3, 3, 3)."""
        link = self._vertex_link[as_rows(vertices, "vertices", len(self._vertex_link))]
        triple = self._link_triple[link]
        ids = self._triple[triple]
        frame = self._frame[triple].reshape(-1, 3, 3)
        return ids, rigid_link_blocks(self._now[ids], self._coefficient[link], frame)

    def handles(self, coarse_rest: Floats) -> Handles:
        """The links as weighted sums."""
        coarse_rest = as_positions(coarse_rest, name="coarse_rest", count=len(self._now))
        corner = coarse_rest[self._triple]
        length = np.sqrt(((corner - np.roll(corner, 1, axis=1)) ** 2).sum(axis=2)).max(axis=1)
        rest = np.zeros((len(coarse_rest) + 3 * len(length), 3))
        kernels.place_all_handles(np.array(coarse_rest), self._triple, length, FLAT_IN_MOTION, rest)
        triple_of = self._link_triple[self._vertex_link]
        alpha, signed = np.split(self._coefficient[self._vertex_link], [2], axis=1)
        by_handle = signed / length[triple_of, None]
        first = 1.0 - alpha.sum(axis=1) - by_handle.sum(axis=1)
        own = len(coarse_rest) + 3 * triple_of[:, None] + np.arange(3)
        column = np.concatenate([self._triple[triple_of], own], axis=1).astype(np.int32)
        weight = np.concatenate([first[:, None], alpha, by_handle], axis=1)
        return Handles(self._triple, length, rest, column, weight, np.sqrt((signed * signed).sum(axis=1)))

    def _place_frames(self) -> None:
        place = kernels.place_frames.over(len(self._triple))
        place(self._now, self._triple, FLAT_IN_MOTION, self._frame, self._straight)


def _nearest_triples(coarse: Floats, ids: Ints, dense: Floats) -> Ints:
    """The coarse vertices of each dense vertex, shape (n, 3), rising; ``ids`` are distinct surface vertices."""
    if len(ids) < 3:
        raise MeshError(
            f"the coarse mesh has {len(ids)} surface vertices at different places, but a link needs three; refine it"
        )
    from scipy.spatial import cKDTree  # a slow import

    tree = cKDTree(coarse[ids])
    found = np.full((len(dense), 3), -1, dtype=np.int32)
    open_rows, k = np.arange(len(dense)), FIRST_NEIGHBOURS
    while len(open_rows):
        count = min(k, len(ids))
        points = dense[open_rows]
        nearest = tree.query(points, k=count, workers=-1)[1].reshape(len(points), count)
        distance = np.sqrt(((coarse[ids[nearest]] - points[:, None]) ** 2).sum(axis=2))
        order = np.lexsort((nearest, distance), axis=1)
        nearest, distance = np.take_along_axis(nearest, order, axis=1), np.take_along_axis(distance, order, axis=1)
        candidates = np.ascontiguousarray(ids[nearest], dtype=np.int32)
        place = np.full((len(points), 3), -1, dtype=np.int32)
        kernels.choose_triples.over(len(points))(coarse, candidates, FLAT_AT_REST, place)
        found[open_rows] = np.take_along_axis(candidates, place.clip(min=0), axis=1)
        # Final if no other vertex can belong to the triple.
        farthest = np.take_along_axis(distance, place[:, 2:].clip(min=0), axis=1)[:, 0]
        is_final = (place[:, 0] >= 0) & ((count == len(ids)) | (farthest < distance[:, -1] * (1.0 - 1e-12)))
        if count == len(ids) and not is_final.all():
            raise MeshError(
                "all surface vertices of the coarse mesh are collinear, thus no link has a frame; use a solid mesh"
            )
        open_rows, k = open_rows[~is_final], 2 * k
    return np.sort(found, axis=1)
