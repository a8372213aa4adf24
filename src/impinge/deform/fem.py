"""Finite elements: elastic and viscous forces of tetrahedra from positions and velocities.

Each tet carries one deformation gradient F = D B: D holds its edges now, B is the inverse of its edges at rest. A model
is a stress P(F, Ḟ); the forces on corners 1 to 3 are the columns of -volume · P Bᵀ, the force on corner 0 is minus
their sum. Masses are lumped: a quarter of each tet's to each of its corners.

``GreenStrain``, the default ([OBrienHodgins1999], used for the reduced model of [MendozaOSullivan2005]):

1. Strain E = (Fᵀ F - I) / 2 and its rate Ė = (Fᵀ Ḟ + Ḟᵀ F) / 2. (The paper has no halves; instead it halves the force.)
2. Stress S = λ tr(E) I + 2 μ E + φ tr(Ė) I + 2 ψ Ė, and P = F S.
3. Barrier. This material weakens when compressed below 1/√3 of its length and does not resist inversion. Therefore
   det F below 1/√3 adds the energy κ/2 (det F - 1/√3)² per volume, κ = λ + 2 μ: the force of a compressed bar then
   never falls, and inverted tets recover. The force is continuous, derives from that energy, and is zero above the
   threshold. ``barrier=0`` disables it.

``Corotated``, linear elasticity in the frame that turns with the tet ([Mueller2002], in the form per tet that
keeps angular momentum): P = 2 μ (F - R) + λ tr(Rᵀ F - I) R, and the same viscous stress. R is the rotation nearest
to F (a proper one: an inverted tet recovers the shortest way); it is computed in closed form from the invariants
of F, and from an eigenvector where that form is ill-conditioned.

``StableNeoHookean`` ([Smith2018]): Ψ = μ'/2 (‖F‖² - 3) + λ'/2 (det F - α)² - μ'/2 log(‖F‖² + 1), less its
value at rest, μ' = 4/3 μ, λ' = λ + 5/6 μ, α = 1 + 3/4 μ'/λ', and the same viscous stress. It keeps volume under large
strain, is defined for inverted tets, which recover, and is free of stress at rest.

Parallel    Tets are sorted along a Morton curve and cut into blocks, whose size depends on the number of tets alone. A
            block sums the forces of its tets on its own vertices, in order; then each vertex sums the forces of its
            blocks, in order. The result does not depend on threads.
Materials   A model has one material, or one for each tet. Tets are then sorted by material first, and each material
            fills whole groups and blocks of its own: kernels read constants per block, at no cost per tet. Each
            distinct material pads its last group, hence hundreds of materials cost up to 64 tets each.
Smoothed    Linear tets are too stiff where they bend or must keep their volume. ``elements="smoothed"`` averages their
            deformation gradients around edges (``smoothing``); lanes are then domains of edges, not tets.
Stable step An explicit step h needs h ω ≤ R, and h d ≤ R with damping, where ω is the largest frequency, d the largest
            rate of decay, and R the radius of the half disc in which Runge-Kutta's method is stable. Since masses
            are sums over tets, ω² is at most the largest of any single tet: 4/ρ times the largest eigenvalue of
            2 μ diag(γ) + λ s sᵀ at rest, where γ are the eigenvalues of Σ g gᵀ over the gradients g of the four corner
            weights, s = √γ; (λ + 2 μ) max γ never exceeds it. Deformed, stiffness grows at most by the
            factor C + (S + κ (‖cof F‖² + 2 √C |det F - 1/√3|)) / (λ + 2 μ), where C and S bound the eigenvalues of Fᵀ F
            and of the elastic stress (0 under compression), the barrier counting where it acts; corotated, by
            1 + 2 λ (t - 3) / ((s2 + s3)(λ + 2 μ)), t = s1 + s2 + s3, if t > 3; neo-Hookean, by
            λ' Q / (λ + 2/3 μ) + (a + 2 μ' ‖F‖² / (‖F‖² + 1)² + |b| √(4/3) ‖F‖) / (λ + 2 μ), P = a F + b cof F, where Q
            bounds the eigenvalues of (cof F)ᵀ cof F: rank-one and other terms of the second derivative, each by its
            norm. A step also changes no F by more than ``LARGEST_CHANGE``.
Guarantee   Forces sum to zero, and so do their moments; elastic forces are minus the gradient of ``energy``; damping
            never adds energy. Up to rounding.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from impinge.checks import (
    Floats,
    Ints,
    as_buffer,
    as_choice,
    as_indices,
    as_number,
    as_positions,
    check_range,
    is_buffer,
)
from impinge.deform import fem_kernels as kernels
from impinge.deform.materials import Material, materials_of, mean_material
from impinge.deform.smoothing import edge_domains, group_corners
from impinge.errors import MeshError
from impinge.mesh.tet_mesh import signed_volumes

ElementName: TypeAlias = Literal["linear", "smoothed"]

ELEMENTS: tuple[ElementName, ...] = ("linear", "smoothed")
BLOCK_GROUPS = 32
"""Groups per block of a large body: the vertices of a block fit into the cache of a core."""
BLOCKS_OF_SMALL = 16
"""Blocks of a small body: work for threads."""
STABLE_RADIUS = 2.6
"""Within this half disc of the left half plane the classical Runge-Kutta method is stable (2.61 at the narrowest)."""
SAFETY = 0.8
"""Fraction of the stable step in use, since stiffness changes within a step."""
LARGEST_CHANGE = 0.5
"""Largest change of any deformation gradient within a step: tets do not invert within a step."""
BARRIER_FROM = 1.0 / math.sqrt(3.0)
"""Determinant below which the barrier acts: where the force of a compressed bar has its maximum."""


class ReducedModel(Protocol):
    """A model of a coarse body: forces, energy and stable step."""

    @property
    def rest(self) -> Floats:
        """Positions at rest, shape (n, 3)."""

    @property
    def tets(self) -> Ints:
        """Vertices of each tet, shape (m, 4)."""

    @property
    def masses(self) -> Floats:
        """Mass of each vertex, shape (n,); positive."""

    def forces(self, x: Floats, v: Floats, out: Floats | None = None) -> Floats:
        """Elastic and viscous forces on vertices at ``x`` that move with ``v``, shape (n, 3)."""

    def energy(self, x: Floats) -> float:
        """Elastic energy."""

    def stable_step(self, x: Floats | None = None, v: Floats | None = None) -> float:
        """Longest stable step, at rest or in the given state."""

    def inverted(self, x: Floats) -> Ints:
        """Ids of the tets that are flat or inside out, rising."""


class Blocks(NamedTuple):
    """Tets or domains in groups, groups in blocks; a block has its own material and its own vertices, the *slots*."""

    model: NDArray[np.int64]
    """Of each block, shape (b,)."""
    constants: Floats
    """Of each block: λ, μ, φ, ψ, stiffness of the barrier, and where that begins, shape (b, 6)."""
    group_start: NDArray[np.int64]
    slot_start: NDArray[np.int64]
    corner_start: NDArray[np.int64]
    """Rows of ``corner`` before each group, and their number: four for each group of tets."""
    weight_start: NDArray[np.int64]
    """Rows of ``weight`` before each group, and their number: none for tets, three for each corner of domains."""
    corner: Ints
    weight: Floats
    shape: Floats
    square: Floats
    """Largest ω² of each lane by itself, at rest."""
    slot_vertex: Ints
    vertex_slot_start: NDArray[np.int64]
    vertex_slot: Ints

    def scratch(self) -> Floats:
        """Scratch memory for ``forces``."""
        return np.zeros(3 * len(self.slot_vertex))

    def forces(self, x: Floats, v: Floats, scratch: Floats, out: Floats) -> None:
        """Write the forces on all vertices; 0 for vertices of no block."""
        work = len(self.square)
        kernels.block_forces.over(work)(
            self.model, self.constants, self.group_start, self.slot_start, self.corner_start, self.weight_start,
            self.corner, self.weight, self.shape, self.slot_vertex, x, v, scratch,
        )  # fmt: skip
        kernels.gather_forces.over(work)(self.vertex_slot_start, self.vertex_slot, scratch, out)

    def measure(self, x: Floats, v: Floats) -> tuple[Floats, Floats]:
        """Per block: energy and three bounds of the step; per lane, in the order of blocks: det F."""
        measure, determinant = np.zeros((len(self.model), 4)), np.zeros(len(self.square))
        kernels.measure_blocks.over(len(self.square))(
            self.model, self.constants, self.group_start, self.slot_start, self.corner_start, self.weight_start,
            self.corner, self.weight, self.shape, self.square, self.slot_vertex, x, v, measure, determinant,
        )  # fmt: skip
        return measure, determinant

    def corner_vertices(self) -> Ints:
        """The vertex of each entry of ``corner``."""
        rows = np.diff(self.corner_start[self.group_start])
        slots = np.repeat(self.slot_start[:-1], rows * kernels.GROUP) + self.corner
        return np.asarray(self.slot_vertex[slots])


class Lanes(NamedTuple):
    """Tets or domains in the order of blocks; the last group of a material is padded with copies of its last one."""

    item: NDArray[np.int64]
    is_padding: NDArray[np.bool_]
    group_start: NDArray[np.int64]
    material: list[int]
    """Of each block."""


class Elements:
    """Base of all models: blocks of tets, masses, bounds. NaN in a state gives NaN forces."""

    _model: ClassVar[int]
    _barrier: float = 0.0

    def __init__(
        self,
        rest: ArrayLike,
        tets: ArrayLike,
        material: Material | str | Sequence[Material | str],
        *,
        elements: ElementName = "linear",
    ) -> None:
        self.elements: ElementName = as_choice(elements, "elements", ELEMENTS)
        self.rest: Floats = as_positions(rest, name="rest").copy()
        self.tets: Ints = as_indices(tets, name="tets", columns=4).copy()
        check_range(self.tets, len(self.rest), "tets")
        self.materials, self.tet_material = materials_of(material, len(self.tets))
        if not len(self.tets):
            raise MeshError("there are no tets; a model needs at least one")
        with np.errstate(over="ignore", invalid="ignore"):
            volumes = signed_volumes(self.rest, self.tets)
            longest = np.abs(_edges(self.rest, self.tets)).max(axis=(1, 2))
            flat = ~(np.abs(volumes) > FLAT * longest**3) | ~np.isfinite(volumes)
        if flat.any() or (volumes < 0.0).any():
            first = int(np.argmax(flat | (volumes < 0.0)))
            what, remedy = ("flat", "remove it") if flat[first] else ("inside out", "swap two of its corners")
            at_rest = f"at rest (volume {volumes[first]:g}), expected a positive one"
            raise MeshError(f"tets[{first}] is {what} {at_rest}; {remedy}")
        unused = np.bincount(self.tets.reshape(-1), minlength=len(self.rest)) == 0
        if unused.any():
            first = int(np.argmax(unused))
            raise MeshError(f"rest[{first}] belongs to no tet and has no mass; remove unused vertices")
        self.material = mean_material(self.materials, np.bincount(self.tet_material, volumes).astype(np.float64))
        """The material; of several their mean, weighted by volume."""
        density = np.array([each.density for each in self.materials])[self.tet_material]
        quarter = np.repeat(0.25 * (density * volumes), 4)
        self.masses: Floats = np.bincount(self.tets.reshape(-1), quarter, len(self.rest)).astype(np.float64)
        if not np.isfinite(self.masses).all() or not (self.masses > 0.0).all():
            raise MeshError("masses are beyond the range of doubles; use other units of length or density")
        self._relaxation_time = max(map(_relaxation_time, self.materials))
        """Smallest τ such that viscous stress is at most τ times the elastic stress of the same strain."""
        self._lock = threading.Lock()
        self._volumes = volumes
        self.lanes, self.blocks = self._domain_blocks() if self.elements == "smoothed" else self._tet_blocks()
        self._scratch = self.blocks.scratch()

    def forces(self, x: Floats, v: Floats, out: Floats | None = None) -> Floats:
        """Elastic and viscous forces on vertices at ``x`` that move with ``v``, shape (n, 3)."""
        x, v = self._state(x, "x"), self._state(v, "v")
        out = np.zeros_like(self.rest) if out is None else as_buffer(out, name="out", count=len(self.rest))
        with self._lock:
            self.blocks.forces(x, v, self._scratch, out)
        return out

    def energy(self, x: Floats) -> float:
        """Elastic energy [J], that of the barrier included."""
        return float(self._measure(x, np.zeros_like(self.rest))[0][:, 0].sum())

    def stable_step(self, x: Floats | None = None, v: Floats | None = None) -> float:
        """Longest stable step of the classical Runge-Kutta method [s], at rest or in the state ``x``, ``v``."""
        x = self.rest if x is None else x
        v = np.zeros_like(self.rest) if v is None else v
        _, *bounds = map(float, self._measure(x, v)[0].max(axis=0))
        return self.step_within(*bounds)

    def step_within(self, stiffness: float, damping: float, rate: float) -> float:
        """Longest stable step [s] from the largest ω², the largest ω² of damping, and ‖Ḟ‖² of all blocks."""
        stiffness, damping, rate = (
            as_number(x, name, "a number from 0", least=0.0)
            for x, name in ((stiffness, "stiffness"), (damping, "damping"), (rate, "rate"))
        )
        quickest = max(math.sqrt(stiffness), self._relaxation_time * damping)
        stable = SAFETY * STABLE_RADIUS / quickest if quickest > 0.0 else math.inf  # all tets collapsed to a point
        return stable if rate == 0.0 else min(stable, LARGEST_CHANGE / math.sqrt(rate))

    def inverted(self, x: Floats) -> Ints:
        """Ids of the tets that are flat or inside out (det F ≤ 0), rising."""
        return np.flatnonzero(~(self.determinants(x) > 0.0)).astype(np.int32)

    def determinants(self, x: Floats) -> Floats:
        """Det F of each tet, shape (m,)."""
        if self.elements == "smoothed":
            with np.errstate(over="ignore", invalid="ignore"):
                return np.asarray(signed_volumes(self._state(x, "x"), self.tets) / self._volumes)
        found = np.empty(len(self.tets))
        found[self.lanes.item] = self._measure(x, np.zeros_like(self.rest))[1]  # copies have the same
        return found

    def _measure(self, x: Floats, v: Floats) -> tuple[Floats, Floats]:
        return self.blocks.measure(self._state(x, "x"), self._state(v, "v"))

    def _state(self, x: Any, name: str) -> Floats:
        """Positions or velocities as a contiguous array, not checked for finite values."""
        if is_buffer(x, len(self.rest)):
            state: Floats = x
            return state
        return as_positions(x, name=name, count=len(self.rest), check=False).copy()

    def _sort(self, points: Floats, item_material: NDArray[np.int64]) -> Lanes:
        """Fill groups and blocks, material by material, each along a Morton curve."""
        group = kernels.GROUP
        order = _morton_order(points)
        runs = [order[item_material[order] == k] for k in range(len(self.materials))]
        group_counts = [-(-len(run) // group) for run in runs]
        per_block = min(BLOCK_GROUPS, -(-sum(group_counts) // BLOCKS_OF_SMALL))
        sizes, material = [], []
        for k, groups in enumerate(group_counts):
            own_sizes = [min(per_block, groups - lo) for lo in range(0, groups, per_block)]
            sizes += own_sizes
            material += [k] * len(own_sizes)
        return Lanes(
            item=np.concatenate([
                np.concatenate([run, np.repeat(run[-1:], groups * group - len(run))])
                for run, groups in zip(runs, group_counts)
            ]),
            is_padding=np.concatenate([
                np.arange(groups * group) >= len(run) for run, groups in zip(runs, group_counts)
            ]),
            group_start=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            material=material,
        )  # fmt: skip

    def _tet_blocks(self) -> tuple[Lanes, Blocks]:
        """Blocks of linear tets."""
        lanes = self._sort(self.rest[self.tets].mean(axis=1), self.tet_material)
        rows = self.tets[lanes.item]
        inverse: Floats = np.linalg.inv(_edges(self.rest, rows)).astype(np.float64, copy=False)
        square = _frequencies_squared(inverse, self._elastic()[self.tet_material[lanes.item]])
        corners = list(rows.reshape(-1, kernels.GROUP, 4))
        weights = [np.zeros((kernels.GROUP, 0))] * len(corners)
        return lanes, self._blocks_of(lanes, corners, weights, inverse, self._volumes[lanes.item], square)

    def _domain_blocks(self) -> tuple[Lanes, Blocks]:
        """Blocks of smoothed domains, each sorted by the number of corners."""
        inverse: Floats = np.linalg.inv(_edges(self.rest, self.tets)).astype(np.float64, copy=False)
        domains = edge_domains(self.rest, self.tets, self._volumes, inverse, self.tet_material)
        lanes, counts = self._sort(domains.middle, domains.material), np.diff(domains.start)
        block_of_lane = np.repeat(np.arange(len(lanes.material)), np.diff(lanes.group_start) * kernels.GROUP)
        order = np.lexsort((counts[lanes.item], block_of_lane))
        lanes = lanes._replace(item=lanes.item[order], is_padding=lanes.is_padding[order])
        groups = [group_corners(domains, ids) for ids in lanes.item.reshape(-1, kernels.GROUP)]
        square = domains.largest(_frequencies_squared(inverse, self._elastic()[self.tet_material]))[lanes.item]
        unit = np.tile(np.eye(3), (len(lanes.item), 1, 1))
        weights = [weight.reshape(kernels.GROUP, -1) for _, weight in groups]
        corners = [vertex for vertex, _ in groups]
        return lanes, self._blocks_of(lanes, corners, weights, unit, domains.volume[lanes.item], square)

    def _elastic(self) -> Floats:
        """λ, μ, ρ of each material."""
        return np.array([(each.lame_lambda, each.lame_mu, each.density) for each in self.materials])

    def _blocks_of(
        self, lanes: Lanes, corners: Sequence[NDArray[Any]], weights: Sequence[Floats], inverse: Floats, sizes: Floats,
        square: Floats,
    ) -> Blocks:  # fmt: skip
        """Number the slots of each block; corners and weights of each group have shapes (64, c) and (64, 0 or 3 c)."""
        starts = lanes.group_start
        vertices, local = [], []
        for lo, hi in itertools.pairwise(starts):
            own, places = np.unique(np.concatenate([_by_rows(rows) for rows in corners[lo:hi]]), return_inverse=True)
            local.append(places.reshape(-1))
            vertices.append(own)
        slot_vertex = np.concatenate(vertices).astype(np.int32)
        slots_of = np.bincount(slot_vertex, minlength=len(self.rest))
        volume = np.where(lanes.is_padding, 0.0, sizes)  # padding has no force
        shape = np.concatenate([inverse.reshape(-1, 9), volume[:, None]], axis=1)
        return Blocks(
            model=np.full(len(starts) - 1, self._model, dtype=np.int64),
            constants=np.array([self._constants(each) for each in self.materials])[lanes.material],
            group_start=starts,
            slot_start=np.concatenate([[0], np.cumsum([len(own) for own in vertices])]).astype(np.int64),
            corner_start=np.concatenate([[0], np.cumsum([rows.shape[1] for rows in corners])]).astype(np.int64),
            weight_start=np.concatenate([[0], np.cumsum([rows.shape[1] for rows in weights])]).astype(np.int64),
            corner=np.concatenate(local).astype(np.int32),
            weight=np.concatenate([_by_rows(rows) for rows in weights]),
            shape=_by_rows(shape.reshape(-1, kernels.GROUP, kernels.SHAPE_ROWS)),
            square=square,
            slot_vertex=slot_vertex,
            vertex_slot_start=np.concatenate([[0], np.cumsum(slots_of)]).astype(np.int64),
            vertex_slot=np.argsort(slot_vertex, kind="stable").astype(np.int32),
        )

    def _constants(self, m: Material) -> tuple[float, ...]:
        """Of a material, as ``Blocks.constants``."""
        barrier = self._barrier * (m.lame_lambda + 2.0 * m.lame_mu)
        return m.lame_lambda, m.lame_mu, m.damping_dilation, m.damping_shear, barrier, BARRIER_FROM


class GreenStrain(Elements):
    """Green strain with elastic and viscous stress: exact under any rotation, stiffens under tension.

    Parameters
    ----------
    rest
        Positions at rest, shape (n, 3) [m].
    tets
        Vertices of each tet, shape (m, 4), of positive volume.
    material
        A ``Material`` or the name of a preset, or a sequence with one for each tet.
    barrier
        Stiffness of the barrier against inversion, relative to λ + 2 μ; 0 for none.
    elements
        "linear" tets, or "smoothed" ones, which do not lock.
    """

    _model = kernels.GREEN

    def __init__(
        self,
        rest: ArrayLike,
        tets: ArrayLike,
        material: Material | str | Sequence[Material | str],
        *,
        barrier: float = 1.0,
        elements: ElementName = "linear",
    ) -> None:
        expected = "a number of at least 0, relative to λ + 2 μ"
        self._barrier = as_number(barrier, "barrier", expected, least=0.0, below=math.inf)
        super().__init__(rest, tets, material, elements=elements)


class Corotated(Elements):
    """Corotated linear elasticity: never weakens under compression.

    Parameters
    ----------
    rest
        Positions at rest, shape (n, 3) [m].
    tets
        Vertices of each tet, shape (m, 4), of positive volume.
    material
        A ``Material`` or the name of a preset, or a sequence with one for each tet.
    elements
        "linear" tets, or "smoothed" ones, which do not lock.
    """

    _model = kernels.COROTATED


class StableNeoHookean(Elements):
    """Stable neo-Hookean elasticity: keeps volume under large strain and recovers from inversion.

    Parameters
    ----------
    rest
        Positions at rest, shape (n, 3) [m].
    tets
        Vertices of each tet, shape (m, 4), of positive volume.
    material
        A ``Material`` or the name of a preset, or a sequence with one for each tet.
    elements
        "linear" tets, or "smoothed" ones, which do not lock.
    """

    _model = kernels.STABLE_NEO_HOOKEAN


FLAT = 1e-12
"""Volume relative to the cube of the longest edge below which the shape of a tet is rounding."""


def _edges(x: Floats, tets: Ints) -> Floats:
    """Edges from corner 0 of each tet as columns, shape (m, 3, 3)."""
    return np.ascontiguousarray((x[tets[:, 1:]] - x[tets[:, :1]]).transpose(0, 2, 1))


def _relaxation_time(m: Material) -> float:
    bulk, viscous_bulk = 3.0 * m.lame_lambda + 2.0 * m.lame_mu, 3.0 * m.damping_dilation + 2.0 * m.damping_shear
    return max(m.damping_shear / m.lame_mu, viscous_bulk / bulk)


def _frequencies_squared(inverse: Floats, material: Floats) -> Floats:
    """Largest ω² of each tet by itself, at rest, from its rows λ, μ, ρ; see the derivation above."""
    gradients = np.concatenate([inverse, -inverse.sum(axis=1, keepdims=True)], axis=1)
    gamma = np.maximum(_eigenvalues([(gradients[:, :, i] * gradients[:, :, j]).sum(axis=1) for i, j in SYMMETRIC]), 0.0)
    lam, mu, density = material.T
    root = np.sqrt(gamma)
    normal = [(lam + 2.0 * mu) * gamma[i] if i == j else lam * root[i] * root[j] for i, j in SYMMETRIC]
    shear = mu * (gamma[1] + gamma[2])
    return np.asarray(4.0 / density * np.maximum(_eigenvalues(normal)[2], shear))


SYMMETRIC = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
"""Places of the six numbers that make a symmetric matrix."""


def _eigenvalues(entries: list[Floats]) -> Floats:
    """Eigenvalues of symmetric matrices of positive trace, rising, shape (3, m), to 1e-7 of the largest [Smith1961].

    The mean eigenvalue is 1 after scaling; with p² a sixth of the square of what deviates from it, and 2 r p³ its
    determinant, they are 1 + 2 p cos(φ + 2 π k / 3), r = cos 3 φ.
    """
    mean = (entries[0] + entries[1] + entries[2]) / 3.0
    x, y, z, d, e, f = (entry / mean for entry in entries)
    x, y, z = x - 1.0, y - 1.0, z - 1.0
    p = np.sqrt((x * x + y * y + z * z + 2.0 * (d * d + e * e + f * f)) / 6.0)
    half = 0.5 * (x * (y * z - f * f) - d * (d * z - e * f) + e * (d * f - e * y))
    phi = np.arccos(np.clip(half / np.maximum(p * p * p, np.finfo(np.float64).tiny), -1.0, 1.0)) / 3.0
    high, low = 1.0 + 2.0 * p * np.cos(phi), 1.0 + 2.0 * p * np.cos(phi + 2.0 * math.pi / 3.0)
    return np.asarray(mean * np.stack([low, 3.0 - high - low, high]))


def _by_rows(lanes: NDArray[Any]) -> NDArray[Any]:
    """Numbers of lanes (..., 64, r) as rows of 64 lanes, flat."""
    return np.ascontiguousarray(np.swapaxes(lanes, -1, -2)).reshape(-1)


def _morton_order(points: Floats) -> NDArray[np.int64]:
    """Indices of points along a Morton curve; equal points by index."""
    low = points.min(axis=0)
    extent = float((points.max(axis=0) - low).max())
    cell = ((points - low) * (CELLS / extent if extent > 0.0 else 0.0)).astype(np.uint64)
    key = np.zeros(len(points), dtype=np.uint64)
    for k in range(3):
        bits = np.minimum(cell[:, k], np.uint64(CELLS - 1))
        for shift, mask in ((16, 0x030000FF), (8, 0x0300F00F), (4, 0x030C30C3), (2, 0x09249249)):  # to every third bit
            bits = (bits | (bits << np.uint64(shift))) & np.uint64(mask)
        key |= bits << np.uint64(k)
    return np.argsort(key, kind="stable")


CELLS = 1024
"""Cells along the longest side of the body, for the order of tets."""
