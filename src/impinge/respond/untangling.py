"""Bodies that begin in each other are moved apart, without dynamics: the least displacement that is found.

1. Pairs   All pairs of triangles that meet, of each body with itself and of each two bodies (``BoxTree``, exact), and
           which closed bodies are inside one another (``relation_of``). None: done.
2. Rows    Each is a linear constraint J δ >= d on the displacement δ. Vertices inside another body, or inside another
           closed piece of the same one: their depths. Curves without such vertices: their lengths (``crossings``).
           Pairs that touch without a curve: apart along the normal of one of them. Each adds ``distance``.
3. Solve   min ½ δᵀ H δ + ½ Σ ρ max(0, d - J δ)², H = w (1 + λ L) with the Laplacian L of the edges of each body: a
           field that is small and smooth. ρ is ``STIFF`` times the stiffness of each row. Active sets are found by
           Newton's method with conjugate gradients. Then again from 1.
4. Stiffer Where the number of pairs has not become less, λ is doubled: fields reach farther, up to rigid motion.
5. Rigid   Bodies inside one another, and pairs that have no rows, are moved apart by a verified translation
           (``separating_translation``), shared by both. A second search starts with translations of all bodies that
           meet others, in the order of their sizes, clear of those before.
6. Shorter The displacement of each search is scaled down by bisection while the scaled one is free. The result is that
           with the fewest pairs left, of these that with the smallest sum of squares.

Verified   ``complete`` is the exact test of step 1 at the positions that are returned. It does not say that the volumes
           of tets stay positive, nor where closed pieces of one body are.
Symmetry   is broken by fixed rules: axes in order, bodies in order, the side of a normal. No random numbers.
Fails      where parts of one body pass through each other deeply: depths in itself [Heidelberger2004] were tried and
           change sides from round to round, and curves shrink slowly. Of 338 pairs of a creature whose limbs cross its
           trunk, 160 are left after 60 rounds. The result then says so, and has the fewest pairs that were seen.

Sources: [VolinoMagnenatThalmann2006], [Heidelberger2004].
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import block_diag, coo_array, csr_array, eye_array, kron, vstack
from scipy.sparse.csgraph import laplacian

from impinge.bodies.rigid_body import RigidBody
from impinge.bodies.soft_body import SoftBody
from impinge.checks import Bools, Floats, Ints, as_flag, as_ids, as_number, as_numbers, as_whole
from impinge.contact.separation import separating_translation
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.boxes.broad_phase import overlapping_boxes
from impinge.detect.common.results import Kind, TrianglePairs
from impinge.detect.proximity.relation import relation_of
from impinge.errors import MeshError, OptionError
from impinge.mesh.body import Body, BodyLike, as_body, as_surface
from impinge.mesh.tri_mesh import TriMesh
from impinge.respond.crossings import CrossingCurves, Exit, Exits, crossing_curves

Movable: TypeAlias = BodyLike | SoftBody

LARGEST = 1e60
"""Largest coordinate, and inverse of the smallest size."""
GAP = 1e-3
"""Default distance relative to the mean length of edges."""
ROUNDING = 1e-12
"""Least distance relative to the largest coordinate."""
SMOOTH = 4.0
"""λ at the start: displacements decay over two edges."""
SMOOTHEST = 4096.0
PATIENCE = 3
"""Rounds without fewer pairs before λ is doubled."""
GIVE_UP = 18
"""Rounds without fewer pairs before the search ends."""
STIFF = 100.0
"""Stiffness of rows relative to the field's."""
ACTIVE_SETS = 6
ITERATIONS = 120
"""Of conjugate gradients for each active set."""
TOLERANCE = 1e-4
LONGEST = 1.5
"""Longest displacement of one round relative to the largest constraint, or to a share of an edge if that is more."""
REACH = 0.3
"""That share of the mean length of edges."""
HALVINGS = 6
"""Bisections of the final displacement."""

Pair: TypeAlias = tuple[int, int]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Untangled:
    """Positions at which bodies do not intersect, or as few as were found."""

    positions: list[Floats]
    """Of the vertices of each body, in order: of the coarse mesh for a soft body; ``body.update`` takes them."""
    complete: bool
    """Whether no triangles meet and no closed body is inside another, by the exact test at these positions."""
    remaining: dict[tuple[int, int], int]
    """How many pairs of triangles still meet, by the numbers of both bodies, which are equal for a body with itself; 0
    where one is inside the other."""
    largest: Floats
    """Largest displacement of a vertex of each body, shape (n,)."""
    rms: Floats
    """Root mean square of the displacements of each body, shape (n,)."""
    iterations: int
    """Rounds of search and displacement."""
    reason: str | None = None
    """Why intersections remain; None if none do."""

    def __repr__(self) -> str:
        moved = f"largest displacement {self.largest.max(initial=0.0):.3g}, {self.iterations} iterations"
        if self.complete:
            return f"<Untangled: {len(self.positions)} bodies, free, {moved}>"
        left = ", ".join(f"{i} and {j}: {count}" for (i, j), count in self.remaining.items())
        return f"<Untangled: not free ({self.reason}); pairs left of bodies {left}; {moved}>"


def untangle(
    bodies: Movable | Sequence[Movable],
    *,
    max_iterations: int = 60,
    distance: float | None = None,
    fixed: ArrayLike = (),
    weights: ArrayLike | None = None,
    apply: bool = False,
) -> Untangled:
    """Move bodies that intersect apart, and parts of one body, by a small displacement.

    Parameters
    ----------
    bodies : body, or list of bodies
        TriMesh, TetMesh, SoftBody, Cloth, RigidBody, and whatever else counts as a body. Rigid bodies are translated,
        all others deform.
    max_iterations : int
        Most rounds of search and displacement from each of the two starts.
    distance : float, optional
        Gap that is aimed at where parts cross; by default a thousandth of the mean length of edges. The exact test
        only says that nothing meets.
    fixed : array_like
        Ids or a mask of bodies that must not move. The fixed vertices of a soft body do not move either.
    weights : array_like, optional
        Positive, one for each body; a body of twice the weight moves about half as far.
    apply : bool
        Also set the positions of the bodies, if the result is complete. By default, bodies are not changed.

    Returns
    -------
    Untangled
        Positions, whether they are free of intersections, and what remains.

    Raises
    ------
    MeshError
        If a body is not a valid mesh.
    OptionError
        If an option is out of its range.

    Examples
    --------
    >>> from impinge import shapes, untangle
    >>> found = untangle([shapes.icosphere(2), shapes.icosphere(2, center=(1.5, 0.0, 0.0))])
    >>> found.complete
    True
    """
    made = _as_list(bodies)
    rounds = as_whole(max_iterations, "max_iterations", least=0)
    apart = None if distance is None else as_number(distance, "distance", "a number above 0, or None", above=0.0)
    held = np.zeros(len(made), dtype=np.bool_)
    held[as_ids(fixed, name="fixed", count=len(made))] = True
    each = np.ones(len(made)) if weights is None else as_numbers(weights, "weights")
    if each.shape != (len(made),):
        raise OptionError(f"weights has shape {each.shape}, expected one number for each of the {len(made)} bodies")
    heavy = [
        as_number(w, f"weights[{k}]", "a positive number", above=0.0, below=math.inf)
        for k, w in enumerate(each.tolist())
    ]
    apply = as_flag(apply, "apply")
    for k, body in enumerate(made):
        _check_range(body, k)
    state = _Tangle([_Part(*row) for row in zip(made, heavy, held.tolist())], apart)
    result = state.solve(rounds)
    if apply and result.complete:
        for body, x, is_held in zip(made, result.positions, held.tolist()):
            if not is_held:
                (body.coarse if isinstance(body, SoftBody) else body).update(x)
    return result


def _as_list(bodies: Movable | Sequence[Movable]) -> list[Body | SoftBody]:
    """The bodies, converted; a tuple or list of two arrays is one body."""
    many: list[Any] = list(bodies) if isinstance(bodies, list | tuple) else [bodies]
    if len(many) == 2 and not any(map(_is_body, many)):
        many = [bodies]
    if not many:
        raise MeshError("bodies is empty, expected at least one body")
    made = [b if isinstance(b, SoftBody) else as_body(b, name=f"bodies[{k}]") for k, b in enumerate(many)]
    for k, body in enumerate(made):
        if any(body is other for other in made[:k]):
            raise OptionError(
                f"bodies[{k}] is listed twice, expected different bodies; pass a copy to untangle it from itself"
            )
    return made


def _check_range(body: Body | SoftBody, number: int) -> None:
    """Refuse bodies whose volumes are out of the range of doubles."""
    x = (body.surface if isinstance(body, SoftBody) else body).vertices
    size, largest = float(np.ptp(x, axis=0).max()) if len(x) else 0.0, float(np.abs(x).max(initial=0.0))
    if largest > LARGEST or 0.0 < size < 1.0 / LARGEST:
        raise MeshError(
            f"bodies[{number}] has the size {size:g} and coordinates up to {largest:g}, expected sizes above "
            f"{1.0 / LARGEST:g} and coordinates up to {LARGEST:g}; scale all bodies"
        )


def _is_body(x: Any) -> bool:
    """Whether an entry of a list of two is a body rather than an array of vertices or faces."""
    return isinstance(x, SoftBody | str | os.PathLike | tuple) or not (isinstance(x, list) or hasattr(x, "__array__"))


class _Part:
    """A body: its degrees of freedom x, and a copy of its surface that follows them."""

    def __init__(self, body: Body | SoftBody, weight: float, is_fixed: bool) -> None:
        self.body, self.weight, self.is_fixed = body, weight, is_fixed
        mesh = body.coarse if isinstance(body, SoftBody) else body
        surface = body.surface if isinstance(body, SoftBody) else as_surface(body)
        seen = surface.snapshot()
        self.faces = np.ascontiguousarray(seen.elements[seen.live])
        self.start = mesh.vertices.copy()
        self.surface = TriMesh(seen.vertices.copy(), self.faces, validate="trust")
        self.is_rigid = isinstance(body, RigidBody)
        self.x = self.start.copy()
        count = len(self.start)
        self.is_held = np.full(1 if self.is_rigid else count, is_fixed)
        if isinstance(body, SoftBody) and not self.is_rigid:
            self.is_held[body.fixed] = True
        elements = mesh.snapshot()
        corners = elements.elements[elements.live]
        pairs = np.concatenate([corners[:, [i, j]] for j in range(corners.shape[1]) for i in range(j)])
        edges = np.unique(np.sort(pairs, axis=1), axis=0)
        length = (
            np.linalg.norm(self.start[edges[:, 0]] - self.start[edges[:, 1]], axis=1) if len(edges) else np.zeros(1)
        )
        self.edge = float(length.mean())
        links = coo_array((np.ones(len(edges)), edges.T), shape=(count, count))
        self.laplacian: Any = csr_array((1, 1)) if self.is_rigid else laplacian(csr_array(links + links.T))
        self.mass = weight * count
        self.piece = self.surface.adjacency.component[1]
        """Number of the connected piece of each triangle."""
        order = np.argsort(self.piece, kind="stable")
        self.local_face = np.zeros(len(order), dtype=np.int64)
        """Number of each triangle within its piece."""
        first = np.searchsorted(self.piece[order], self.piece[order])
        self.local_face[order] = np.arange(len(order)) - first

    def put(self, x: Floats) -> None:
        """Set positions, and those of the surface."""
        self.x = x
        body = self.body
        if self.is_rigid:
            assert isinstance(body, SoftBody)
            self.surface.update(body.surface.vertices + (x - self.start).mean(axis=0))
        elif isinstance(body, SoftBody):
            self.surface.update(body.steered_by(x).copy())
        else:
            self.surface.update(x)

    def vertices_of(self, piece: int) -> Ints:
        """Vertices of a connected piece of the surface."""
        return np.unique(self.faces[self.piece == piece]).astype(np.int32)

    def surface_of(self, piece: int) -> TriMesh:
        """A copy of a connected piece of the surface."""
        ids = self.vertices_of(piece)
        faces = np.searchsorted(ids, self.faces[self.piece == piece]).astype(np.int32)
        return TriMesh(self.surface.vertices[ids], faces, validate="trust")

    def moves(self) -> csr_array:
        """Derivatives of surface positions by degrees of freedom, shape (3n, 3m)."""
        count = len(self.surface.vertices)
        if self.is_rigid:
            return csr_array(kron(np.ones((count, 1)), eye_array(3)))
        if not isinstance(self.body, SoftBody):
            return csr_array(eye_array(3 * count))
        ids, blocks = self.body.embedding.differential(np.arange(count, dtype=np.int32))
        row = np.broadcast_to((3 * np.arange(count)[:, None] + np.arange(3))[:, None, :, None], blocks.shape)
        column = np.broadcast_to((3 * ids.astype(np.int64)[:, :, None] + np.arange(3))[:, :, None, :], blocks.shape)
        entries = np.ascontiguousarray(blocks).reshape(-1), (row.reshape(-1), column.reshape(-1))
        return csr_array(coo_array(entries, shape=(3 * count, 3 * len(self.x))))


@dataclass
class _Meeting:
    """What meets at the present positions."""

    pairs: dict[Pair, TrianglePairs]
    inside: list[Pair]
    """Closed bodies of which one is inside the other, without triangles that meet."""

    @property
    def count(self) -> int:
        return sum(map(len, self.pairs.values())) + len(self.inside)


class _Tangle:
    """The search for positions of all bodies."""

    def __init__(self, parts: list[_Part], distance: float | None) -> None:
        self.parts = parts
        self._edge = edge = min((part.edge for part in parts), default=0.0)
        largest = max((float(np.abs(part.start).max(initial=0.0)) for part in parts), default=0.0)
        self.distance = max(GAP * edge, ROUNDING * largest) if distance is None else distance
        self._trees: dict[Pair, BoxTree] = {}
        self._exits: dict[Pair, Exit] = {}
        self._own_exits: dict[tuple[int, int, int], Exit] = {}
        self.iterations = 0
        self._first = np.cumsum([0, *(3 * len(part.is_held) for part in parts)])
        self._held = np.repeat(np.concatenate([part.is_held for part in parts]), 3)
        self._reason = ""

    def solve(self, rounds: int) -> Untangled:
        """Move until nothing meets, from the given positions, then after translations."""
        meeting = self._meeting()
        best = meeting.count, self._cost(), self._positions()
        if meeting.count:
            self._iterate(rounds)
            best = min(best, self._outcome(), key=lambda each: each[:2])
            self._put([part.start for part in self.parts])
            self._exits.clear()
            self._own_exits.clear()
            if rounds and self._spread(self._meeting()):
                self._iterate(rounds)
                best = min(best, self._outcome(), key=lambda each: each[:2])
            self._put(best[2])
        return self._result(self._meeting())

    def _outcome(self) -> tuple[int, float, list[Floats]]:
        """Number of pairs left, cost and positions, shortened if none are left."""
        count = self._meeting().count
        if not count:
            self._shorten()
        return count, self._cost(), self._positions()

    def _cost(self) -> float:
        """Sum of the squares of displacements."""
        return sum(part.weight * float(((part.x - part.start) ** 2).sum()) for part in self.parts)

    # search -------------------------------------------------------------------------------------------

    def _meeting(self, *, stop: bool = False) -> _Meeting:
        """Test everything exactly; with ``stop``, only until something is found."""
        found = _Meeting({}, [])
        boxes = np.array([part.surface.bounds for part in self.parts])
        near = overlapping_boxes(np.ascontiguousarray(boxes[:, 0]), np.ascontiguousarray(boxes[:, 1])).tolist()
        near = sorted([(i, j) for i, j in near] + [(i, i) for i, part in enumerate(self.parts) if not part.is_rigid])
        for i, j in near:
            a, b = self.parts[i].surface, self.parts[j].surface
            if (i, j) not in self._trees:
                self._trees[i, j] = BoxTree(a, None if i == j else b)
            pairs = self._trees[i, j].query(max_pairs=1) if stop else self._trees[i, j].query()
            if len(pairs):
                found.pairs[i, j] = pairs
            elif i != j and relation_of(pairs, a, b) != "disjoint":
                found.inside.append((i, j))
            if stop and found.count:
                break
        return found

    def _positions(self) -> list[Floats]:
        return [part.x.copy() for part in self.parts]

    def _put(self, positions: Sequence[Floats]) -> None:
        for part, x in zip(self.parts, positions):
            part.put(x.copy())

    # the field ----------------------------------------------------------------------------------------

    def _iterate(self, rounds: int) -> None:
        """Rounds of search and displacement; ends at the positions with the fewest pairs."""
        smooth, best, waited = SMOOTH, (math.inf, self._positions()), 0
        meeting = self._meeting()
        for _ in range(rounds):
            if meeting.count < best[0]:
                best, waited = (meeting.count, self._positions()), 0
            else:
                waited += 1
                smooth = min(smooth * 2.0, SMOOTHEST) if waited % PATIENCE == 0 else smooth
            if not meeting.count or waited > GIVE_UP:
                break
            self.iterations += 1
            if not self._displace(meeting, smooth):
                self._reason = "no displacement shortens the curves of intersection"
                break
            meeting = self._meeting()
        if meeting.count > best[0]:
            self._put(best[1])

    def _displace(self, meeting: _Meeting, smooth: float) -> bool:
        """Move by one field, or by a translation of pairs that have no rows; False if nothing moves."""
        rows, least = list[csr_array](), list[Floats]()
        is_moved = False
        for i, j in meeting.inside:
            is_moved |= self._separate(i, j)
        if is_moved:
            return True
        for (i, j), pairs in meeting.pairs.items():
            if self.parts[i].is_fixed and self.parts[j].is_fixed:
                continue
            matrix, wanted = self._rows(i, j, pairs)
            if matrix.shape[0]:
                rows.append(matrix)
                least.append(wanted)
            elif i != j:
                is_moved |= self._separate(i, j)
        if not rows:
            return is_moved
        field = self._field(csr_array(vstack(rows)), np.concatenate(least), smooth)
        if not np.isfinite(field).all() or not field.any():
            return is_moved
        for part, first, end in zip(self.parts, self._first, self._first[1:]):
            own = field[first:end].reshape(-1, 3)
            if own.any():
                part.put(part.x + own)
        return True

    def _field(self, rows: csr_array, least: Floats, smooth: float) -> Floats:
        """The smooth displacement that satisfies the rows, nearly."""
        blocks = [part.weight * (eye_array(len(part.is_held)) + smooth * part.laplacian) for part in self.parts]
        field_stiffness = csr_array(kron(block_diag(blocks), eye_array(3)))
        free = csr_array(rows.multiply(~self._held))
        inverse = 1.0 / field_stiffness.diagonal()
        response = np.asarray(free.multiply(free) @ inverse)
        keep = response > 0.0
        free, least, response = csr_array(free[keep]), least[keep], response[keep]
        delta = np.zeros(rows.shape[1])
        if not len(least):
            return delta
        stiffness = STIFF / response
        is_active = np.ones(len(least), dtype=np.bool_)
        for _ in range(ACTIVE_SETS):
            active, rho = csr_array(free[is_active]), stiffness[is_active]
            delta = _solve(field_stiffness, active, rho, least[is_active], self._held, delta)
            is_short = free @ delta < least
            if (is_short == is_active).all():
                break
            is_active = is_short
        longest = float(np.sqrt((delta.reshape(-1, 3) ** 2).sum(axis=1).max()))
        most = LONGEST * max(float(least.max()), REACH * self._edge)
        return delta * min(1.0, most / longest) if longest > 0.0 else delta

    def _rows(self, i: int, j: int, pairs: TrianglePairs) -> tuple[csr_array, Floats]:
        """Constraints of a pair of bodies on all degrees of freedom."""
        a, b = self.parts[i], self.parts[j]
        on_a, on_b, least = list[csr_array](), list[csr_array](), list[Floats]()
        inside = [np.zeros(len(part.surface.vertices), dtype=np.bool_) for part in (a, b)]
        for n, found in enumerate(self._exits_of(i, j, pairs.pairs)):
            side = n % 2
            own, other = ((a, b), (b, a))[side]
            inner, outer = _exit_rows(found, len(own.surface.vertices), len(other.surface.vertices))
            (on_a, on_b)[side].append(inner)
            (on_b, on_a)[side].append(outer)
            least.append(found.depth + self.distance)
            inside[side][found.vertex] = True
        if i == j:
            inside[1] = inside[0] = inside[0] | inside[1]
        curves = crossing_curves(a.surface, b.surface, pairs)
        kept = _without(curves, inside[0][a.faces], inside[1][b.faces])
        scale = 1.0 / curves.scale[kept]
        on_a.append(csr_array(-(curves.gradient_a[kept].multiply(scale[:, None]))))
        on_b.append(csr_array(-(curves.gradient_b[kept].multiply(scale[:, None]))))
        edge = min(a.edge, b.edge)
        least.append(np.minimum(curves.length[kept] * scale, edge) + self.distance)
        touching = pairs.pairs[(pairs.kind != Kind.CROSSING)]
        has_other_rows = bool(sum(map(len, least)))
        if len(touching) and (i == j or not has_other_rows):
            first, second = _apart_rows(a.surface, b.surface, touching)
            on_a.append(first)
            on_b.append(second)
            least.append(np.full(len(touching), self.distance) - _normal_gaps(a.surface, b.surface, touching))
        matrix = self._on_freedoms(i, csr_array(vstack(on_a))) + self._on_freedoms(j, csr_array(vstack(on_b)))
        return csr_array(matrix), np.concatenate(least)

    def _exits_of(self, i: int, j: int, pairs: Ints) -> list[Exits]:
        """Vertices inside the other body, or inside other pieces of the same one."""
        a, b = self.parts[i], self.parts[j]
        if i != j:
            if (i, j) not in self._exits:
                self._exits[i, j] = Exit(a.surface, b.surface)
            return list(self._exits[i, j].find(pairs))
        found, piece = list[Exits](), a.piece[pairs]
        for k, n in np.unique(np.sort(piece, axis=1), axis=0).tolist():
            if k == n:
                continue
            if (i, k, n) not in self._own_exits:
                self._own_exits[i, k, n] = Exit(a.surface_of(k), a.surface_of(n))
            exit_of, ids_k, ids_n = self._own_exits[i, k, n], a.vertices_of(k), a.vertices_of(n)
            exit_of.a.update(a.surface.vertices[ids_k])
            exit_of.b.update(a.surface.vertices[ids_n])
            rows = pairs[(np.sort(piece, axis=1) == (k, n)).all(axis=1)]
            rows = np.where((a.piece[rows[:, 0]] == k)[:, None], rows, rows[:, ::-1])
            of_k, of_n = exit_of.find(a.local_face[rows])
            found += [_renumbered(of_k, ids_k, ids_n), _renumbered(of_n, ids_n, ids_k)]
        return found

    def _on_freedoms(self, number: int, rows: csr_array) -> csr_array:
        """Rows on the surface of a body, as rows on all degrees of freedom."""
        mapped = csr_array(rows @ self.parts[number].moves())
        width, first = int(self._first[-1]), int(self._first[number])
        return csr_array((mapped.data, mapped.indices + first, mapped.indptr), shape=(rows.shape[0], width))

    # translations -------------------------------------------------------------------------------------

    def _separate(self, i: int, j: int) -> bool:
        """Translate two bodies apart; False if they cannot be."""
        a, b = self.parts[i], self.parts[j]
        inverse = [0.0 if part.is_held.any() else 1.0 / part.mass for part in (a, b)]
        if not sum(inverse) > 0.0:
            self._reason = f"bodies {i} and {j} are fixed"
            return False
        way = separating_translation(a.surface, b.surface, np.zeros((0, 3)))
        if way is None:
            self._reason = f"no translation separates bodies {i} and {j}"
            return False
        way = way * (1.0 + self.distance / max(float(np.linalg.norm(way)), 1e-300))
        for part, share in ((a, -inverse[0] / sum(inverse)), (b, inverse[1] / sum(inverse))):
            if share:
                part.put(part.x + share * way)
        return True

    def _spread(self, meeting: _Meeting) -> bool:
        """Translate bodies that meet others, one after the other, clear of those that have their place."""
        involved = {k for pair in (*meeting.pairs, *meeting.inside) if pair[0] != pair[1] for k in pair}
        if len(involved) == 2:
            return self._separate(*sorted(involved))
        placed = [k for k in range(len(self.parts)) if k not in involved or self.parts[k].is_held.any()]
        rest = sorted((k for k in involved if k not in placed), key=lambda k: (-self.parts[k].mass, k))
        is_moved = False
        for k in rest:
            if placed:
                together = _together([self.parts[n].surface for n in placed])
                own = self.parts[k]
                if relation_of(BoxTree(together, own.surface).query(), together, own.surface) != "disjoint":
                    way = separating_translation(together, own.surface, np.zeros((0, 3)))
                    if way is not None:
                        own.put(own.x + way * (1.0 + self.distance / max(float(np.linalg.norm(way)), 1e-300)))
                        is_moved = True
            placed.append(k)
        return is_moved

    # the result ---------------------------------------------------------------------------------------

    def _shorten(self) -> None:
        """Scale the displacement down while it stays free."""
        start, end = [part.start for part in self.parts], self._positions()
        low, high, best = 0.0, 1.0, end
        for _ in range(HALVINGS):
            share = 0.5 * (low + high)
            tried = [s + share * (e - s) for s, e in zip(start, end)]
            self._put(tried)
            if self._meeting(stop=True).count:
                low = share
            else:
                high, best = share, tried
        self._put(best)

    def _result(self, meeting: _Meeting) -> Untangled:
        largest, rms = np.zeros(len(self.parts)), np.zeros(len(self.parts))
        for k, part in enumerate(self.parts):
            square = ((part.x - part.start) ** 2).sum(axis=1)
            largest[k], rms[k] = math.sqrt(square.max(initial=0.0)), math.sqrt(square.mean()) if len(square) else 0.0
        remaining = {pair: len(pairs) for pair, pairs in meeting.pairs.items()} | dict.fromkeys(meeting.inside, 0)
        stuck = [pair for pair in remaining if all(self.parts[k].is_fixed for k in pair)]
        reason: str | None = None
        if stuck:
            reason = (
                f"bodies {stuck[0][0]} and {stuck[0][1]} are fixed"
                if len(set(stuck[0])) > 1
                else f"body {stuck[0][0]} is fixed"
            )
        elif remaining:
            reason = self._reason or f"no free positions were found in {self.iterations} iterations"
        return Untangled(
            positions=self._positions(), complete=not remaining, remaining=dict(sorted(remaining.items())),
            largest=largest, rms=rms, iterations=self.iterations, reason=reason,
        )  # fmt: skip


def _solve(h: csr_array, rows: csr_array, rho: Floats, least: Floats, held: Bools, start: Floats) -> Floats:
    """(H + Jᵀ ρ J) δ = Jᵀ ρ d by conjugate gradients; sums are NumPy's own, the same for any number of threads."""
    back = csr_array(rows.T)
    diagonal = h.diagonal() + back.multiply(back) @ rho
    delta = np.where(held, 0.0, start)

    def times(v: Floats) -> Floats:
        return np.where(held, 0.0, h @ v + back @ (rho * (rows @ v)))

    right = np.where(held, 0.0, back @ (rho * least))
    rest = right - times(delta)
    limit = TOLERANCE**2 * float((right * right / diagonal).sum())
    z = rest / diagonal
    way, size = z, float((rest * z).sum())
    for _ in range(ITERATIONS):
        if not size > limit:
            break
        image = times(way)
        step = size / float((way * image).sum())
        delta, rest = delta + step * way, rest - step * image
        z = rest / diagonal
        size, before = float((rest * z).sum()), size
        way = z + (size / before) * way
    return delta


def _renumbered(found: Exits, inner: Ints, outer: Ints) -> Exits:
    """Vertices of pieces by their numbers in the whole surface."""
    return found._replace(vertex=inner[found.vertex].astype(np.int64), corners=outer[found.corners].astype(np.int64))


def _exit_rows(found: Exits, inner_count: int, outer_count: int) -> tuple[csr_array, csr_array]:
    """Rows of depths on the inner and the outer surface."""
    count = len(found.vertex)
    row = np.repeat(np.arange(count), 3)
    inner = found.outward.reshape(-1), (row, (3 * found.vertex[:, None] + np.arange(3)).reshape(-1))
    data = -found.weights[:, :, None] * found.outward[:, None]
    column = 3 * found.corners[:, :, None] + np.arange(3)
    outer = data.reshape(-1), (np.repeat(row, 3), column.reshape(-1))
    return (
        csr_array(coo_array(inner, shape=(count, 3 * inner_count))),
        csr_array(coo_array(outer, shape=(count, 3 * outer_count))),
    )


def _without(curves: CrossingCurves, inside_a: Bools, inside_b: Bools) -> Ints:
    """Curves none of whose triangles has a vertex in the other body."""
    has_depth = np.zeros(len(curves.length), dtype=np.bool_)
    has_depth[curves.curve[inside_a[curves.pairs[:, 0]].any(axis=1) | inside_b[curves.pairs[:, 1]].any(axis=1)]] = True
    return np.flatnonzero(~has_depth).astype(np.int32)


def _side(a: TriMesh, b: TriMesh, pairs: Ints) -> tuple[Floats, Floats]:
    """Unit normals of b's triangles towards those of a, and the distances of the centres of both along them."""
    p, q = a.vertices[a.faces[pairs[:, 0]]], b.vertices[b.faces[pairs[:, 1]]]
    normal = np.cross(q[:, 1] - q[:, 0], q[:, 2] - q[:, 0])
    size = np.linalg.norm(normal, axis=1, keepdims=True)
    normal = np.where(size > 0.0, normal / np.where(size > 0.0, size, 1.0), (0.0, 0.0, 1.0))
    gap = ((p.mean(axis=1) - q.mean(axis=1)) * normal).sum(axis=1)
    sign = np.where(gap < 0.0, -1.0, 1.0)
    return sign[:, None] * normal, sign * gap


def _normal_gaps(a: TriMesh, b: TriMesh, pairs: Ints) -> Floats:
    """Least distance of corners of a's triangles from the planes of b's, on the side of their centres."""
    normal, _ = _side(a, b, pairs)
    p, q = a.vertices[a.faces[pairs[:, 0]]], b.vertices[b.faces[pairs[:, 1]]]
    return np.asarray(((p - q.mean(axis=1)[:, None]) * normal[:, None]).sum(axis=2).min(axis=1))


def _apart_rows(a: TriMesh, b: TriMesh, pairs: Ints) -> tuple[csr_array, csr_array]:
    """Rows that move triangles apart along the normals of b's."""
    normal, _ = _side(a, b, pairs)
    count, made = len(pairs), list[csr_array]()
    for side, sign, column in ((a, 1.0, 0), (b, -1.0, 1)):
        corners = side.faces[pairs[:, column]].astype(np.int64)
        data = np.broadcast_to(sign / 3.0 * normal[:, None], (count, 3, 3)).reshape(-1)
        place = np.repeat(np.arange(count), 9), (3 * corners[:, :, None] + np.arange(3)).reshape(-1)
        made.append(csr_array(coo_array((data, place), shape=(count, 3 * len(side.vertices)))))
    return made[0], made[1]


def _together(surfaces: Sequence[TriMesh]) -> TriMesh:
    """Several surfaces as one."""
    first = np.cumsum([0, *(len(surface.vertices) for surface in surfaces)])
    faces = np.concatenate([surface.faces + start for surface, start in zip(surfaces, first)])
    return TriMesh(np.concatenate([s.vertices for s in surfaces]), faces.astype(np.int32), validate="trust")
