"""Optimized spatial hashing for collision detection of deformable objects [Teschner2003].

The symbols are those of the paper: cell size l, cell (i, j, k), table size n, hash index h, vertex p, tetrahedron t
with corners x0 to x3, A = [x1 - x0, x2 - x0, x3 - x0] and β = A⁻¹ (p - x0).

First pass   (Sec. 3) Hash every vertex: i = ⌊x/l⌋, j = ⌊y/l⌋, k = ⌊z/l⌋, h = hash(i, j, k). Compute the AABB of every
             tetrahedron in its deformed state.
Second pass  (Sec. 3) Visit all cells of the AABB of every tetrahedron. Test the vertices stored at their hash indices.
Test         (Sec. 3, 4.4) Skip the corners of t. Compare p with the AABB of t, then test p against t.

Options
hash         (4.1) "paper": (i·73856093 xor j·19349663 xor k·83492791) mod n. "additive", "rotating": the families that
             the authors tried. "mixed": a full-avalanche mixer, for comparison; not in the paper.
table_size   (4.2) n. Default: the least prime above twice the number of vertices.
storage      (4.2) "time_stamps": a slot is reset on its first use in a step. "reset": all slots are reset in every
             step. "counting_sort": vertices sorted by slot, for comparison; not in the paper.
cell_size    (4.3) l. Default: the average edge length of all tetrahedra at construction.
inside_test  (4.4) "barycentric": β1, β2, β3 >= 0 and β1 + β2 + β3 <= 1. "half_space": four oriented faces.
passes       (7) 2, or 1: only tetrahedra are hashed, and those that share a slot are tested against each other.

Departures
1. 19349663 = 41 · 471943 is not prime. The multipliers are kept. Products wrap modulo 2^64.
2. A floating-point test is unreliable on faces. Doubles decide where an error bound allows it, exact signs elsewhere.
3. Several cells of a tetrahedron may share a slot. Its collisions are then found repeatedly; duplicates are removed.
4. A tetrahedron that covers more than ``MAX_CELLS`` cells is tested against all vertices: Sec. 5 assumes that p, the
   number of cells per tetrahedron, is constant.
5. A flat tetrahedron (det A = 0) contains nothing. Flat and inverted ones (det A < 0) are counted.
6. Cell indices are clamped to ±2^61. Clamping is monotone, like ⌊x/l⌋, and loses no collision.
Hash values of (i, j, k) and (i, -j, -k) are often equal: a weakness of the published function, kept.

Result       Exact and complete: vertices in closed tetrahedra, each pair once, sorted. Runs on one thread.

Example
>>> from impinge.mesh import shapes
>>> from impinge.published.spatial_hash import SpatialHashing
>>> plate = shapes.tet_box(4, 4, 1)
>>> cube = shapes.tet_box(2, 2, 2, center=(0.3, 0.2, 1.4))
>>> hashing = SpatialHashing([plate, cube], table_size=101, inside_test="half_space")
>>> len(hashing.detect())
13
>>> cube.update(cube.vertices + (0.0, 0.0, 1.0))  # the next simulation step
>>> len(hashing.detect())
0
"""

# ruff: noqa: E741 - l is the cell size of the paper

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from impinge.backend.jit import compiled, inlined
from impinge.checks import Bools, Floats, Ints, as_choice, check_finite, shown
from impinge.errors import MeshError, OptionError
from impinge.exact.orientation import orient3d, point
from impinge.exact.triangle_triangle import cross, dot, minus
from impinge.mesh.tet_mesh import TetMesh

Hash: TypeAlias = Literal["paper", "additive", "rotating", "mixed"]
Storage: TypeAlias = Literal["time_stamps", "reset", "counting_sort"]
InsideTest: TypeAlias = Literal["barycentric", "half_space"]
Longs: TypeAlias = NDArray[np.int64]
Keys: TypeAlias = NDArray[np.uint64]
Vector: TypeAlias = tuple[float, float, float]

PAPER, ADDITIVE, ROTATING, MIXED = range(4)
P1, P2, P3 = np.uint64(73856093), np.uint64(19349663), np.uint64(83492791)
"""The multipliers of Sec. 4.1."""
FARTHEST_CELL = 2.0**61
MAX_CELLS, MAX_CELLS_ONE_PASS = 4096, 256
"""Cells that a tetrahedron may cover; fewer in one pass, whose time grows with the square of the slots' entries."""
INSIDE, OUTSIDE, UNDECIDED = range(3)
ROUNDING = 2.0**-46
"""Bound of the rounding error of a 3x3 determinant of differences up to 1: 48 roundings of 2^-53 are 2^-47.4."""
SMALLEST, LARGEST = 2.0**-300, 2.0**300
"""Range of AABB extents in which determinants neither underflow nor overflow."""


@dataclass(frozen=True, eq=False)
class Collisions:
    """Vertices inside tetrahedra, sorted by (body, vertex, in_body, tet), and counters of the step."""

    body: Ints
    """Object of the vertex, shape (k,)."""
    vertex: Ints
    """Vertex, numbered within its object."""
    in_body: Ints
    """Object of the penetrated tetrahedron."""
    tet: Ints
    """Penetrated tetrahedron, numbered within its object."""
    beta: Floats
    """β1, β2, β3 of Sec. 4.4, rounded, shape (k, 3). NaN where the extent of a tetrahedron exceeds all doubles."""
    is_self: Bools
    """Whether it is a self-collision."""
    vertices_met: int
    """Vertices found in the slots of all cells of all tetrahedra, repetitions included."""
    inside_tests: int
    """Those among them that passed the AABB test."""
    flat_tets: int
    inverted_tets: int

    def __len__(self) -> int:
        return len(self.vertex)


class SpatialHashing:
    """Collisions and self-collisions of any number of tetrahedral meshes.

    Parameters
    ----------
    bodies : sequence of TetMesh
        The objects. Positions are read at every call of ``detect``.
    hash : {"paper", "additive", "rotating", "mixed"}
        Hash function (Sec. 4.1).
    table_size : int, optional
        Hash table size n (Sec. 4.2). Default: the least prime above twice the number of vertices.
    storage : {"time_stamps", "reset", "counting_sort"}
        How the table is reused from step to step (Sec. 4.2).
    cell_size : float, optional
        Grid cell size l (Sec. 4.3). Default: the average edge length at construction.
    inside_test : {"barycentric", "half_space"}
        Intersection test (Sec. 4.4).
    passes : {2, 1}
        Two passes (Sec. 3), or one that hashes tetrahedra only (Sec. 7).

    Raises
    ------
    MeshError
        A body is not a TetMesh.
    OptionError
        An option is out of range.

    Examples
    --------
    >>> from impinge.mesh import shapes
    >>> collisions = SpatialHashing([shapes.tet_box(2, 2, 2), shapes.tet_box(1, 1, 1)]).detect()
    >>> collisions.vertex[collisions.body == 0], int(collisions.is_self.sum())
    (array([13], dtype=int32), 0)
    """

    def __init__(
        self,
        bodies: Sequence[TetMesh],
        *,
        hash: Hash = "paper",  # noqa: A002 - the paper's name
        table_size: int | None = None,
        storage: Storage = "time_stamps",
        cell_size: float | None = None,
        inside_test: InsideTest = "barycentric",
        passes: Literal[1, 2] = 2,
    ) -> None:
        self.bodies = tuple(bodies)
        for b, body in enumerate(self.bodies):
            if not isinstance(body, TetMesh):
                raise MeshError(f"bodies[{b}] is a {type(body).__name__}, expected a TetMesh")
        as_choice(hash, "hash", get_args(Hash))
        as_choice(storage, "storage", get_args(Storage))
        as_choice(inside_test, "inside_test", get_args(InsideTest))
        as_choice(passes, "passes", (1, 2))
        if passes == 1 and storage == "counting_sort":
            raise OptionError("storage='counting_sort' sorts vertices, which one pass does not hash; use passes=2")
        self._function, self._storage, self._passes = get_args(Hash).index(hash), storage, passes
        self._half_space = inside_test == "half_space"
        self._live: list[Ints] | None = None
        x = self._read_bodies()
        self.cell_size = _as_cell_size(cell_size, x, self._tets)
        self.table_size = _as_table_size(table_size, len(self._vertices))
        self._now = 0
        self._stamp = np.zeros(self.table_size, dtype=np.int64)
        self._first = np.zeros(self.table_size, dtype=np.int32)
        self._start = np.zeros(self.table_size + 1 if storage == "counting_sort" else 0, dtype=np.int64)
        self._keys = np.zeros(1024, dtype=np.uint64)

    def detect(self) -> Collisions:
        """Detect all collisions of the current simulation step.

        Returns
        -------
        Collisions
            Vertices in tetrahedra that they are not part of.

        Raises
        ------
        MeshError
            A position is not finite.
        """
        x = self._read_bodies()
        low, high = np.zeros((2, len(self._tets), 3))
        sign = np.zeros(len(self._tets), dtype=np.int8)
        bound_tets(x, self._tets, low, high, sign)
        while True:
            tally = np.zeros(3, dtype=np.int64)
            self._search(x, low, high, sign, tally)
            if tally[2] <= len(self._keys):
                break
            self._keys = np.zeros(2 * int(tally[2]), dtype=np.uint64)
        keys = np.unique(self._keys[: tally[2]])
        v, t = (keys >> np.uint64(32)).astype(np.int32), (keys & np.uint64(0xFFFFFFFF)).astype(np.int32)
        beta = np.zeros((len(keys), 3))
        find_beta(x, self._tets, low, high, v, t, beta)
        body, in_body = self._vertex_body[v], self._tet_body[t]
        met, tested = tally[:2].tolist()
        return Collisions(
            body, self._vertex_id[v], in_body, self._tet_id[t], beta, body == in_body, met, tested,
            int((sign == 0).sum()), int((sign < 0).sum()),
        )  # fmt: skip

    def _read_bodies(self) -> Floats:
        """Positions of all vertices of all objects; the lists of vertices and tetrahedra follow edits."""
        snapshots = [body.snapshot() for body in self.bodies]
        x = np.concatenate([np.zeros((0, 3)), *(s.vertices for s in snapshots)])
        check_finite(x, "positions")
        live = [s.live for s in snapshots]
        if self._live is not None and all(a is b for a, b in zip(self._live, live)):
            return x
        counts = [len(s.vertices) for s in snapshots]
        first = np.cumsum([0, *counts]).tolist()
        tets = [s.elements[s.live] + np.int32(at) for s, at in zip(snapshots, first)]
        none = np.zeros(0, dtype=np.int32)
        number = np.arange(len(live), dtype=np.int32)
        self._tets: Ints = np.concatenate([none.reshape(0, 4), *tets])
        self._vertices: Ints = np.unique(self._tets)
        self._tet_id: Ints = np.concatenate([none, *live])
        self._tet_body: Ints = np.repeat(number, [len(ids) for ids in live])
        self._vertex_id: Ints = np.concatenate([none, *(np.arange(count, dtype=np.int32) for count in counts)])
        self._vertex_body: Ints = np.repeat(number, counts)
        self._following = np.zeros(len(x), dtype=np.int32)
        self._live = live
        return x

    def _search(self, x: Floats, low: Floats, high: Floats, sign: NDArray[np.int8], tally: Longs) -> None:
        """Run the passes; ``tally`` gets vertices met, inside tests, and collisions with repetitions."""
        grid = self.cell_size, self._function
        if self._storage == "reset":
            self._stamp[:] = self._now = 0
        self._now += 1
        table = self._now, self._stamp, self._first
        scene = x, self._tets, low, high, sign, self._vertices
        if self._passes == 1:
            single_pass(*scene, *grid, *table, self._half_space, self._keys, tally)
            return
        listed = np.zeros(len(self._vertices) if self._storage == "counting_sort" else 0, dtype=np.int32)
        if self._storage == "counting_sort":
            sort_vertices(x, self._vertices, *grid, self._start, listed)
        else:
            first_pass(x, self._vertices, *grid, *table, self._following)
        lists = self._following, self._start, listed
        second_pass(*scene, *grid, *table, *lists, self._half_space, self._keys, tally)


# 3 Collision detection algorithm ----------------------------------------------------------------------------------


@compiled
def bound_tets(x: Floats, tets: Ints, low: Floats, high: Floats, sign: NDArray[np.int8]) -> None:
    """First pass, second half: AABBs of all tetrahedra in their deformed state, and the signs of det A."""
    for t in range(len(tets)):
        a, b, c, d = tets[t, 0], tets[t, 1], tets[t, 2], tets[t, 3]
        for axis in range(3):
            low[t, axis] = min(x[a, axis], x[b, axis], x[c, axis], x[d, axis])
            high[t, axis] = max(x[a, axis], x[b, axis], x[c, axis], x[d, axis])
        sign[t] = orient3d(point(x, a), point(x, b), point(x, c), point(x, d))


@compiled
def first_pass(
    x: Floats, vertices: Ints, l: float, function: int, now: int, stamp: Longs, first: Ints, following: Ints,
) -> None:  # fmt: skip
    """Spatial hashing of vertices."""
    for v in vertices:
        insert(slot_of(x, v, l, function, len(stamp)), v, now, stamp, first, following)


@compiled
def sort_vertices(x: Floats, vertices: Ints, l: float, function: int, start: Longs, listed: Ints) -> None:
    """The same by counting sort: the vertices of slot h are ``listed[start[h]:start[h + 1]]``."""
    slot = np.zeros(len(vertices), dtype=np.int64)
    start[:] = 0
    for m in range(len(vertices)):
        slot[m] = slot_of(x, vertices[m], l, function, len(start) - 1)
        start[slot[m]] += 1
    total = 0
    for h in range(len(start)):
        total += start[h]
        start[h] = total
    for m in range(len(vertices) - 1, -1, -1):
        start[slot[m]] -= 1
        listed[start[slot[m]]] = vertices[m]


@compiled
def cell_range(low: Floats, high: Floats, t: int, l: float) -> Any:
    """Discretised minimum and maximum of the AABB of t, and the number of cells from one to the other."""
    i0, j0, k0 = cell_of(low[t, 0], l), cell_of(low[t, 1], l), cell_of(low[t, 2], l)
    i1, j1, k1 = cell_of(high[t, 0], l), cell_of(high[t, 1], l), cell_of(high[t, 2], l)
    return i0, j0, k0, i1, j1, k1, (i1 - i0 + 1.0) * (j1 - j0 + 1.0) * (k1 - k0 + 1.0)


@compiled
def second_pass(
    x: Floats, tets: Ints, low: Floats, high: Floats, sign: NDArray[np.int8], vertices: Ints, l: float, function: int,
    now: int, stamp: Longs, first: Ints, following: Ints, start: Longs, listed: Ints, half_space: bool, keys: Keys,
    tally: Longs,
) -> None:  # fmt: skip
    """Spatial hashing of tetrahedra: test the vertices at the hash indices of all cells of every AABB."""
    is_sorted = len(start) > 0
    for t in range(len(tets)):
        i0, j0, k0, i1, j1, k1, count = cell_range(low, high, t, l)
        if count > MAX_CELLS:
            for v in vertices:
                intersect(v, t, x, tets, low, high, sign, half_space, keys, tally)
            continue
        for i in range(i0, i1 + 1):
            for j in range(j0, j1 + 1):
                for k in range(k0, k1 + 1):
                    h = hash_cell(function, i, j, k, len(stamp))
                    if is_sorted:
                        for m in range(start[h], start[h + 1]):
                            intersect(listed[m], t, x, tets, low, high, sign, half_space, keys, tally)
                    elif stamp[h] == now:
                        v = first[h]
                        while v >= 0:
                            intersect(v, t, x, tets, low, high, sign, half_space, keys, tally)
                            v = following[v]


# 4.1 Hash function ----------------------------------------------------------------------------------------------


@compiled
def hash_cell(function: int, i: int, j: int, k: int, n: int) -> Any:
    """hash(i, j, k) of Sec. 4.1 with arithmetic modulo 2^64."""
    a, b, c = np.int64(i).view(np.uint64), np.int64(j).view(np.uint64), np.int64(k).view(np.uint64)
    if function == PAPER:
        h = (a * P1) ^ (b * P2) ^ (c * P3)
    elif function == ADDITIVE:
        h = a * P1 + b * P2 + c * P3
    elif function == ROTATING:
        h = _rotate(_rotate(a) ^ b) ^ c
    else:
        h = _mix(_mix(_mix(a) + b) + c)
    return np.int64(h % np.uint64(n))


@compiled
def _rotate(h: Any) -> Any:
    return (h << np.uint64(11)) | (h >> np.uint64(53))


@compiled
def _mix(h: Any) -> Any:
    """The finaliser of SplitMix64: every bit of ``h`` affects all bits."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@compiled
def cell_of(x: float, l: float) -> Any:
    """⌊x/l⌋ of Sec. 3. Both passes evaluate this expression, which is monotone in x despite rounding."""
    return np.int64(min(max(np.floor(x / l), -FARTHEST_CELL), FARTHEST_CELL))


@compiled
def slot_of(x: Floats, v: int, l: float, function: int, n: int) -> Any:
    """Hash index of a vertex."""
    return hash_cell(function, cell_of(x[v, 0], l), cell_of(x[v, 1], l), cell_of(x[v, 2], l), n)


# 4.2 Hash table -------------------------------------------------------------------------------------------------


@inlined
def insert(h: int, entry: int, now: int, stamp: Longs, first: Ints, following: Ints) -> None:
    """Store an entry at index h. A slot with an outdated time stamp is reset before."""
    if stamp[h] != now:
        stamp[h] = now
        first[h] = -1
    following[entry] = first[h]
    first[h] = entry


# 4.3 Grid cell size ---------------------------------------------------------------------------------------------


@compiled
def average_edge_length(x: Floats, tets: Ints) -> float:
    """Average over the six edges of every tetrahedron."""
    total = 0.0
    for t in range(len(tets)):
        for a in range(4):
            for b in range(a):
                edge = minus(point(x, tets[t, a]), point(x, tets[t, b]))
                total += np.sqrt(dot(edge, edge))
    return total / max(6 * len(tets), 1)


# 4.4 Intersection test ------------------------------------------------------------------------------------------


@compiled
def solve_beta(a1: Vector, a2: Vector, a3: Vector, b: Vector) -> tuple[float, float, float, float]:
    """Compute det A and β = A⁻¹ b for A = [a1, a2, a3] by Cramer's rule."""
    n1, n2, n3 = cross(a2, a3), cross(a3, a1), cross(a1, a2)
    det = dot(a1, n1)
    return det, dot(n1, b) / det, dot(n2, b) / det, dot(n3, b) / det


@compiled
def barycentric_test(p: Vector, x0: Vector, x1: Vector, x2: Vector, x3: Vector, size: float) -> int:
    """β1, β2, β3 >= 0 and β1 + β2 + β3 <= 1, as far as doubles decide; ``size`` is the extent of the AABB.

    Numerators and det A are off by at most ``error``, 1 - β1 - β2 - β3 by at most four times as much over |det A|.
    """
    det, beta1, beta2, beta3 = solve_beta(minus(x1, x0), minus(x2, x0), minus(x3, x0), minus(p, x0))
    error = ROUNDING * size * size * size
    if not (SMALLEST < size < LARGEST and abs(det) > error):
        return UNDECIDED
    margin = min(beta1, beta2, beta3, 1.0 - beta1 - beta2 - beta3)
    slack = 4.0 * error / abs(det)
    if margin < -slack:
        return OUTSIDE
    return INSIDE if margin > slack else UNDECIDED


@compiled
def half_space_test(p: Vector, x0: Vector, x1: Vector, x2: Vector, x3: Vector, sign: int, size: float) -> int:
    """Whether p is in the inner half-space of all four oriented faces, as far as doubles decide."""
    if not SMALLEST < size < LARGEST:
        return UNDECIDED
    error = ROUNDING * size * size * size
    answer = INSIDE
    for a, b, c in ((x1, x3, x2), (x0, x2, x3), (x0, x3, x1), (x0, x1, x2)):
        side = sign * dot(cross(minus(b, a), minus(c, a)), minus(p, a))
        if side < -error:
            return OUTSIDE
        if side <= error:
            answer = UNDECIDED
    return answer


@compiled
def exact_test(p: Vector, x0: Vector, x1: Vector, x2: Vector, x3: Vector, sign: int) -> int:
    """The same by exact signs."""
    for a, b, c in ((x1, x3, x2), (x0, x2, x3), (x0, x3, x1), (x0, x1, x2)):
        if sign * orient3d(a, b, c, p) < 0:
            return OUTSIDE
    return INSIDE


@inlined
def intersect(
    v: int, t: int, x: Floats, tets: Ints, low: Floats, high: Floats, sign: NDArray[np.int8], half_space: bool,
    keys: Keys, tally: Longs,
) -> None:  # fmt: skip
    """Test vertex v against tetrahedron t (Sec. 3): own corner, AABB, inside test. Collisions are appended to keys."""
    tally[0] += 1
    if v == tets[t, 0] or v == tets[t, 1] or v == tets[t, 2] or v == tets[t, 3]:
        return
    p = point(x, v)
    if not (low[t, 0] <= p[0] <= high[t, 0] and low[t, 1] <= p[1] <= high[t, 1] and low[t, 2] <= p[2] <= high[t, 2]):
        return
    tally[1] += 1
    if sign[t] == 0:
        return
    x0, x1, x2, x3 = point(x, tets[t, 0]), point(x, tets[t, 1]), point(x, tets[t, 2]), point(x, tets[t, 3])
    size = extent(low, high, t)
    if half_space:
        answer = half_space_test(p, x0, x1, x2, x3, sign[t], size)
    else:
        answer = barycentric_test(p, x0, x1, x2, x3, size)
    if answer == UNDECIDED:
        answer = exact_test(p, x0, x1, x2, x3, sign[t])
    if answer == INSIDE:
        if tally[2] < len(keys):
            keys[tally[2]] = (np.uint64(v) << np.uint64(32)) | np.uint64(t)
        tally[2] += 1


@inlined
def extent(low: Floats, high: Floats, t: int) -> Any:
    """Longest side of the AABB of t."""
    return max(high[t, 0] - low[t, 0], high[t, 1] - low[t, 1], high[t, 2] - low[t, 2])


@compiled
def find_beta(x: Floats, tets: Ints, low: Floats, high: Floats, v: Ints, t: Ints, beta: Floats) -> None:
    """β of every collision, from lengths divided by the extent of the AABB, which avoids underflow and overflow."""
    for row in range(len(v)):
        size = extent(low, high, t[row])
        x0, x1 = point(x, tets[t[row], 0]), point(x, tets[t[row], 1])
        x2, x3 = point(x, tets[t[row], 2]), point(x, tets[t[row], 3])
        a1, a2, a3 = _over(minus(x1, x0), size), _over(minus(x2, x0), size), _over(minus(x3, x0), size)
        _, beta1, beta2, beta3 = solve_beta(a1, a2, a3, _over(minus(point(x, v[row]), x0), size))
        beta[row, 0], beta[row, 1], beta[row, 2] = beta1, beta2, beta3


@compiled
def _over(a: Vector, size: float) -> Vector:
    return a[0] / size, a[1] / size, a[2] / size


# 7 Discussion: one pass -------------------------------------------------------------------------------------------


@compiled
def single_pass(
    x: Floats, tets: Ints, low: Floats, high: Floats, sign: NDArray[np.int8], vertices: Ints, l: float, function: int,
    now: int, stamp: Longs, first: Ints, half_space: bool, keys: Keys, tally: Longs,
) -> None:  # fmt: skip
    """Hash tetrahedra only: each is tested against those already stored in its slots, and then stored there.

    A tetrahedron of too many cells is tested against all vertices, and stored where its corners are.
    """
    room = 0
    for t in range(len(tets)):
        count = cell_range(low, high, t, l)[6]
        room += 4 if count > MAX_CELLS_ONE_PASS else int(count)
    stored, following = np.zeros(room, dtype=np.int32), np.zeros(room, dtype=np.int32)
    slots = np.zeros(MAX_CELLS_ONE_PASS, dtype=np.int64)
    entry = 0
    for t in range(len(tets)):
        i0, j0, k0, i1, j1, k1, count = cell_range(low, high, t, l)
        covered = 0
        if count > MAX_CELLS_ONE_PASS:
            for v in vertices:
                intersect(v, t, x, tets, low, high, sign, half_space, keys, tally)
            for corner in range(4):
                slots[corner] = slot_of(x, tets[t, corner], l, function, len(stamp))
            covered = 4
        else:
            for i in range(i0, i1 + 1):
                for j in range(j0, j1 + 1):
                    for k in range(k0, k1 + 1):
                        slots[covered] = hash_cell(function, i, j, k, len(stamp))
                        covered += 1
        for h in slots[:covered]:
            e = first[h] if stamp[h] == now else -1
            while e >= 0:
                other = stored[e]
                if other != t:
                    for corner in range(4):
                        intersect(tets[other, corner], t, x, tets, low, high, sign, half_space, keys, tally)
                        intersect(tets[t, corner], other, x, tets, low, high, sign, half_space, keys, tally)
                e = following[e]
            stored[entry] = t
            insert(h, entry, now, stamp, first, following)
            entry += 1


# options ------------------------------------------------------------------------------------------------------


def _as_cell_size(cell_size: Any, x: Floats, tets: Ints) -> float:
    """Sec. 4.3: the average edge length if not given; 1 if that is 0 or overflows."""
    if cell_size is None:
        average = float(average_edge_length(x, tets))
        return average if 0.0 < average < np.inf else 1.0
    is_number = isinstance(cell_size, int | float | np.integer | np.floating) and not isinstance(cell_size, bool)
    if not (is_number and 0.0 < cell_size < np.inf):
        raise OptionError(f"cell_size is {shown(cell_size)}, expected a positive number, or None for the average edge")
    return float(cell_size)


def _as_table_size(n: Any, vertex_count: int) -> int:
    if n is None:
        return next_prime(2 * vertex_count)
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or not 1 <= n < 2**31:
        raise OptionError(f"table_size is {shown(n)}, expected a whole number from 1 to 2^31 - 1")
    return int(n)


def next_prime(n: int) -> int:
    """Return the least prime above ``n``.

    Parameters
    ----------
    n : int
        Any whole number.

    Returns
    -------
    int
        A prime.

    Examples
    --------
    >>> next_prime(9968)
    9973
    """
    candidate = max(n + 1, 2)
    while any(candidate % d == 0 for d in range(2, int(candidate**0.5) + 1)):
        candidate += 1
    return candidate
