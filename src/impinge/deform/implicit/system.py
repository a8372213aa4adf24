"""Implicit steps of one or many bodies: backward Euler, or the implicit midpoint rule.

1. Islands  Contacts couple bodies. Bodies that are coupled, directly or through others, form an island; each island
            is one minimisation (``newton_kernels``).
2. Solve    Islands below ``threaded_from`` tets and springs run side by side, each on one thread: a launch per phase of
            conjugate gradients costs more than it saves, and much more on a busy machine. Larger ones run one after the
            other, with threads inside of each phase.
3. Report   Newton steps, iterations, the error that was reached, inverted tets. A step that does not reach its
            tolerance is reported, never hidden; its state is the best one found.

Clusters    At most ``MOST_CLUSTERS`` for an island, at least one for each body: the leaves of bodies, halved in number
            until they are few enough.
Guarantee   The same bits for any number of threads: each sum has one owner and one order. The incremental energy never
            rises from one Newton step to the next. Backward Euler never adds energy to a body without contacts and
            scripted vertices, up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from impinge.backend.simd.linear import PANEL
from impinge.checks import Floats, Ints, as_buffer, as_choice, as_number, as_numbers, as_positions, check_finite, shown
from impinge.deform.fem import Corotated, Elements, GreenStrain, StableNeoHookean
from impinge.deform.fem_kernels import GROUP
from impinge.deform.implicit import cg_kernels, newton_kernels
from impinge.deform.implicit.topology import Longs, build, starts_of
from impinge.deform.rigid_tet import RigidTet
from impinge.deform.springs import SpringSheet
from impinge.errors import OptionError

Method = Literal["backward_euler", "midpoint"]

THREADED_FROM = 8000
"""Tets and springs of an island from which threads work on its phases."""
MOST_CLUSTERS = 64
NEWTON_TOLERANCE = 1e-3
"""Default error of velocities, relative to the change of velocity by forces in a step or to internal motion."""
LINEAR_TOLERANCE = 5e-5
"""The same for linear systems: a resting body then has 1e-4 of its sag."""
MOST_NEWTON_STEPS = 20
MOST_ITERATIONS = 1000


@dataclass(frozen=True)
class ContactTerms:
    """Contacts and friction as terms of the energy (``contact_kernels``); entry i of an array is contact i.

    Each contact moves a few vertices, its entries: the depth is offset + Σ weight·dx, the slip drift + Σ block dx, with
    dx the displacement since the start of the step.
    """

    start: NDArray[np.int64]
    """First entry of each contact, and the number of entries, shape (k + 1,)."""
    vertex: NDArray[np.int64]
    """Row of the vertex of each entry."""
    weight: Floats
    """Depth per displacement of each entry, shape (entries, 3)."""
    block: Floats
    """Slip per displacement of each entry, shape (entries, 3, 3)."""
    normal: Floats
    """Unit normals, shape (k, 3)."""
    offset: Floats
    """Depth at the start, negative where the sides are apart, shape (k,) [m]."""
    drift: Floats
    """Slip by scripted motion over the step, shape (k, 3) [m]."""
    stiffness: Floats
    """Normal force per depth, shape (k,) [N / m]."""
    stick: Floats
    """Friction per slip of a sticking contact, shape (k,) [N / m]."""
    friction: Floats
    """Largest friction per normal force, shape (k,)."""
    normal_force: Floats
    """Of the step before, shape (k,) [N]."""
    friction_force: Floats
    """Of the step before, shape (k, 3) [N]."""
    wall: Floats
    """Thickness of the contact layer, which becomes stiffer as the depth nears it; infinite without, shape (k,) [m]."""

    def __post_init__(self) -> None:
        count, entries = len(self.offset), len(self.vertex)
        expected = {
            "start": (count + 1,), "weight": (entries, 3), "block": (entries, 3, 3), "normal": (count, 3),
            "drift": (count, 3), "stiffness": (count,), "wall": (count,), "stick": (count,), "friction": (count,),
            "normal_force": (count,), "friction_force": (count, 3),
        }  # fmt: skip
        for name, shape in expected.items():
            if np.shape(getattr(self, name)) != shape:
                raise OptionError(
                    f"{name} has shape {np.shape(getattr(self, name))}, expected {shape} for {count} contacts with "
                    f"{entries} entries"
                )
        if self.start[0] != 0 or self.start[-1] != entries or (count and np.diff(self.start).min() < 1):
            raise OptionError(f"start must rise from 0 to {entries}, with at least one entry for each contact")
        for name in ("weight", "block", "offset", "drift"):
            if not np.isfinite(getattr(self, name)).all():
                raise OptionError(f"{name} of contacts must be finite; leave out those that are not")
        for name in ("stiffness", "stick", "friction"):
            values = getattr(self, name)
            if count and not (values >= 0.0).all():
                first = int(np.argmin(values >= 0.0))
                raise OptionError(f"{name}[{first}] is {values[first]:g}, expected a number of at least 0")


@dataclass(frozen=True)
class ImplicitReport:
    """Statistics of one step, with one entry for each body."""

    newton_steps: Longs
    """Newton steps of the body's island."""
    iterations: Longs
    """Iterations of conjugate gradients of the body's island, over all Newton steps."""
    converged: NDArray[np.bool_]
    error: Floats
    """Estimated error of velocities [m / s]."""
    relative_error: Floats
    """The same relative to the scale that ``tolerance`` counts from."""
    linear_residual: Floats
    """Largest residual of a linear system relative to its right-hand side."""
    shortest_fraction: Floats
    """Shortest fraction of a Newton step taken; 0 if no fraction lowered the energy."""
    worst_vertex: Longs
    """Row of the vertex with the largest residual force per mass in the body's island."""
    worst_tet: Longs
    """The tet of least det F of each body; -1 for a body without tets."""
    least_determinant: Floats
    """Its det F; 1 for a body without tets."""
    inverted: tuple[Ints, ...]
    """Ids of the tets of each body that are flat or inverted at the end, rising."""


class _Step(NamedTuple):
    """A step for kernels.

    ``numbers``: h, linear tolerance, tolerance, most Newton steps, most iterations, midpoint, residual tolerance or 0,
    whether positions are a guess.
    """

    numbers: Floats
    held: NDArray[np.uint8]
    body_free: NDArray[np.uint8]
    moving: NDArray[np.uint8]
    body_range: Longs
    body: Longs
    leaf_range: Longs
    leaf: Longs
    task_range: Longs
    task: Longs
    cluster_start: Longs
    cluster_leaf: Longs
    leaf_row: Longs
    """Row of the coarse matrix at which the cluster of each leaf begins."""
    vertex_cluster: Longs
    coarse_row: Longs
    """Rows of coarse matrices before each island, and their number: multiples of ``PANEL``."""
    coarse_start: Longs
    contact_range: Longs
    c_start: Longs
    c_vertex: Longs
    c_weight: Floats
    c_block: Floats
    c_normal: Floats
    c_offset: Floats
    c_drift: Floats
    c_stiffness: Floats
    c_wall: Floats
    c_stick: Floats
    c_friction: Floats
    c_before: Floats


class _Scratch(NamedTuple):
    """Memory of kernels; vectors of vertices are flat."""

    x: Floats
    x0: Floats
    v: Floats
    """v0 + h a, then the velocities at the end."""
    v0: Floats
    target: Floats
    base: Floats
    gradient: Floats
    d: Floats
    p: Floats
    q: Floats
    r: Floats
    z: Floats
    arm: Floats
    total: Floats
    image: Floats
    smooth: Floats
    force: Floats
    block: Floats
    metric: Floats
    determinant: Floats
    task_energy: Floats
    body_energy: Floats
    leaf_sum: Floats
    """Two sums of each leaf; a sum by itself is the first."""
    leaf_mode: Floats
    value: Floats
    diagonal: Floats
    inverse: Floats
    coarse: Floats
    coarse_elements: Floats
    pivot: Floats
    mode: Floats
    mode_before: Floats
    product: Floats
    report: Floats
    c_active: Floats
    c_limit: Floats
    c_normal_force: Floats
    c_friction_force: Floats
    c_across: Floats
    c_along: Floats
    c_depth: Floats
    c_slip: Floats
    c_row: Floats
    """Second derivatives of contacts: a 3x3 block for each entry."""
    c_listed: Longs
    """Contacts with second derivatives, up to a negative number."""
    c_line: Floats
    c_mode: Floats
    c_stamp: Longs
    c_cluster: Longs


def has_hessian(model: Any) -> bool:
    """Whether a model is exactly one of ours; subclasses and patched instances may have other energies."""
    return type(model) in (GreenStrain, Corotated, StableNeoHookean, RigidTet, SpringSheet) and "forces" not in vars(
        model
    )


class ImplicitSystem:
    """Models whose vertices are rows of common arrays.

    Parameters
    ----------
    models
        Finite elements or springs.
    first
        First row of each model.
    row_count
        Rows of the arrays; those of no model are left alone.
    threaded_from
        Tets and springs of an island from which threads work on its phases.
    """

    def __init__(
        self,
        models: Sequence[Elements | SpringSheet],
        first: Sequence[int] | None = None,
        row_count: int | None = None,
        *,
        threaded_from: int = THREADED_FROM,
    ) -> None:
        if not models:
            raise OptionError("there are no models; an implicit system needs at least one")
        for model in models:
            if not has_hessian(model):
                raise OptionError(
                    f"{type(model).__name__} has no second derivatives, expected GreenStrain, Corotated, "
                    "StableNeoHookean or SpringSheet; integrate it explicitly"
                )
        self.models = tuple(models)
        self.threaded_from = threaded_from
        sizes = [len(model.rest) for model in models]
        self.first: list[int] = list(starts_of(sizes)[:-1]) if first is None else list(first)
        self.row_count = sum(sizes) if row_count is None else row_count
        t, self._numbering = build(models, self.first, self.row_count)
        self._topology = t
        n, leaves, bodies = len(t.mass), len(t.leaf_start) - 1, len(models)
        lanes, springs = GROUP * len(t.group_model), len(t.spring_stiffness)
        vector = {name: np.zeros(3 * n) for name in _Scratch._fields[:16]}
        empty = np.zeros(0)
        self._scratch = _Scratch(
            **vector,
            force=np.zeros(3 * GROUP * t.group_corner[-1] + 6 * springs),
            block=np.zeros(9 * GROUP * t.group_block[-1] + 9 * springs),
            metric=np.zeros(6 * lanes),
            determinant=np.ones(lanes),
            task_energy=np.zeros(len(t.group_model) + len(t.spring_group) - 1),
            body_energy=np.zeros(bodies),
            leaf_sum=np.zeros(2 * leaves),
            leaf_mode=np.zeros(6 * leaves),
            value=np.zeros(9 * len(t.column) + 1),
            diagonal=np.zeros(6 * n),
            inverse=np.zeros(6 * n),
            coarse=empty, coarse_elements=empty, pivot=empty, mode=empty, mode_before=empty, product=empty,
            report=empty, c_active=empty, c_limit=empty, c_normal_force=empty, c_friction_force=empty, c_across=empty,
            c_along=empty, c_depth=empty, c_slip=empty, c_row=empty, c_line=empty, c_mode=empty,
            c_stamp=np.zeros(0, dtype=np.int64), c_cluster=np.zeros(0, dtype=np.int64),
            c_listed=np.zeros(0, dtype=np.int64),
        )  # fmt: skip
        self._body_of_vertex = np.repeat(np.arange(bodies), np.diff(t.body_start))
        self._body_lane = t.body_group * GROUP
        self._work = np.diff(self._body_lane) + np.diff(t.spring_group[t.body_spring_group])
        self._order: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Contacts of the last step in the order of islands."""
        self._islands_of: tuple[int, ...] | None = None
        self._islands: dict[str, Any] = {}

    def step(
        self,
        x: Floats,
        v: Floats,
        h: float,
        *,
        gravity: ArrayLike = (0.0, 0.0, 0.0),
        forces: ArrayLike | None = None,
        held: NDArray[np.bool_] | None = None,
        contacts: ContactTerms | None = None,
        guess: Floats | None = None,
        method: Method = "backward_euler",
        tolerance: float = NEWTON_TOLERANCE,
        linear_tolerance: float = LINEAR_TOLERANCE,
        residual_tolerance: float | None = None,
        max_newton_steps: int = MOST_NEWTON_STEPS,
        max_iterations: int = MOST_ITERATIONS,
    ) -> ImplicitReport:
        """Advance positions and velocities in place by ``h`` [s].

        Parameters
        ----------
        x, v
            Positions [m] and velocities [m / s], shape (row_count, 3).
        h
            Length of the step [s].
        gravity
            Acceleration [m / s²], shape (3,).
        forces
            External forces [N], shape (row_count, 3), constant over the step.
        held
            Mask of vertices that keep their velocities ``v``, zero or not, shape (row_count,).
        contacts
            Contacts and friction; with the midpoint rule they act at the middle of the step.
        guess
            Positions at the end from which Newton's method starts; by default free fall or the present velocities.
        method
            "backward_euler": robust, damps oscillations that a step does not resolve. "midpoint": of second order,
            without numerical damping.
        tolerance
            Error of velocities, relative to the largest of: the change by external forces in the step, the internal
            motion, and the velocity that elastic forces at the start would cause.
        linear_tolerance
            The same for the solution of each linear system.
        residual_tolerance
            Largest residual of linear systems relative to their right-hand sides, in addition.
        max_newton_steps, max_iterations
            Limits of Newton steps, and of iterations in each; the report says where they were reached.

        Returns
        -------
        ImplicitReport
            Statistics of each body.
        """
        for name, state in (("x", x), ("v", v)):
            check_finite(as_buffer(state, name=name, count=self.row_count), name)
        h = as_number(h, "h", "a positive number of seconds", above=0.0, below=math.inf)
        as_choice(method, "method", ("backward_euler", "midpoint"))
        acceleration = as_numbers(gravity, "gravity").astype(np.float64)
        if acceleration.shape != (3,) or not np.isfinite(acceleration).all():
            raise OptionError(f"gravity is {shown(gravity)}, expected three finite numbers [m/s²]")
        t, s, vertex = self._topology, self._scratch, self._numbering.vertex
        is_midpoint = method == "midpoint"
        half = 0.5 * h if is_midpoint else h
        start, velocity = x[vertex], v[vertex]
        push = np.tile(acceleration, (len(vertex), 1))
        if forces is not None:
            push += as_positions(forces, name="forces", count=self.row_count)[vertex] / t.mass[:, None]
        fixed = np.zeros(len(vertex), dtype=np.bool_) if held is None else np.asarray(held, dtype=np.bool_)[vertex]
        s.x[:], s.x0[:], s.v0[:] = start.reshape(-1), start.reshape(-1), velocity.reshape(-1)
        s.v[:] = (velocity + half * push).reshape(-1)
        s.target[:] = s.x0 + half * s.v
        turned = (t.is_rigid[self._body_of_vertex] > 0) & ~fixed
        s.x.reshape(-1, 3)[turned] += half * velocity[turned]
        if guess is not None:
            s.x[:] = guess[vertex].reshape(-1)
        q = self._request(fixed, velocity, contacts)
        q.numbers[:] = (
            half, linear_tolerance, tolerance, max_newton_steps, max_iterations, float(is_midpoint),
            residual_tolerance or 0.0, float(guess is not None),
        )  # fmt: skip
        s = self._scratch  # with memory for the islands of this step
        work = np.add.reduceat(self._work[q.body], q.body_range[:-1])
        multiply, islands = cg_kernels.multiply, np.arange(len(work))
        if work.max() >= self.threaded_from and multiply.over(multiply.parallel_from) is not multiply.serial:
            for island in islands[work >= self.threaded_from]:
                newton_kernels.solve_island(True, t, q, s, island)
            islands = islands[work < self.threaded_from]
        if len(islands):
            newton_kernels.solve_islands.over(len(islands))(t, q, s, islands)
        if not np.isfinite(s.report[:, 6:]).all():
            raise OptionError("the energy of the state is beyond the range of doubles; start nearer to rest")
        x[vertex], v[vertex] = s.x.reshape(-1, 3), s.v.reshape(-1, 3)
        return self._report(q, x, is_midpoint)

    def _request(self, fixed: NDArray[np.bool_], velocity: Floats, contacts: ContactTerms | None) -> _Step:
        """Islands, contacts and held vertices of a step."""
        t, rank = self._topology, self._numbering.rank
        bodies = np.arange(len(self.models))
        free = np.logical_or.reduceat(fixed | (t.drag > 0.0), t.body_start[:-1])
        terms = _NO_CONTACTS if contacts is None else contacts
        vertex = rank[terms.vertex]
        if len(vertex) and vertex.min() < 0:
            first = int(np.argmin(vertex))
            raise OptionError(
                f"entry {first} of the contacts is of row {terms.vertex[first]}, which belongs to no model; leave it "
                "out"
            )
        touched = self._body_of_vertex[vertex]
        label = _labels(len(bodies), touched, terms.start) if len(terms.offset) else bodies
        own = label[touched[terms.start[:-1]]]
        order = np.argsort(own, kind="stable")
        counts = np.diff(terms.start)[order]
        start = starts_of(counts)
        entries = np.repeat(terms.start[:-1][order] - start[:-1], counts) + np.arange(start[-1])
        free[touched] = True
        self._partition(label)
        islands = self._islands
        count = len(islands["body_range"]) - 1
        moves = fixed & (velocity != 0.0).any(axis=1)
        moving = np.bincount(label[self._body_of_vertex[moves]], minlength=count) > 0
        size = len(order)
        self._order = order
        self._scratch = self._scratch._replace(
            c_active=np.zeros(size), c_limit=_flat(terms.friction * terms.normal_force, order),
            c_normal_force=np.zeros(size), c_friction_force=np.zeros(3 * size), c_across=np.zeros(size),
            c_along=np.zeros(size), c_depth=np.zeros(size), c_slip=np.zeros(3 * size),
            c_row=np.zeros(9 * len(entries) + 1), c_line=np.zeros(4 * size), c_listed=np.zeros(size, dtype=np.int64),
        )  # fmt: skip
        return _Step(
            numbers=np.zeros(8), held=fixed.astype(np.uint8), body_free=(~free).astype(np.uint8),
            moving=moving.astype(np.uint8), **islands, contact_range=starts_of(np.bincount(own, minlength=count)),
            c_start=start, c_vertex=vertex[entries].astype(np.int64), c_weight=_flat(terms.weight, entries),
            c_block=_flat(terms.block, entries), c_normal=_flat(terms.normal, order),
            c_offset=_flat(terms.offset, order), c_drift=_flat(terms.drift, order),
            c_stiffness=_flat(terms.stiffness, order), c_wall=_flat(terms.wall, order),
            c_stick=_flat(terms.stick, order), c_friction=_flat(terms.friction, order),
            c_before=_flat(terms.friction_force, order),
        )  # fmt: skip

    def contact_forces(self) -> tuple[Floats, Floats, Floats]:
        """Normal forces (k,), friction forces (k, 3) and limits of friction (k,) of the last step [N]."""
        s, order = self._scratch, self._order
        normal, friction, limit = np.zeros(len(order)), np.zeros((len(order), 3)), np.zeros(len(order))
        normal[order], friction[order] = s.c_normal_force, s.c_friction_force.reshape(-1, 3)
        limit[order] = s.c_limit
        return normal, friction, limit

    def _partition(self, label: NDArray[np.int64]) -> None:
        """Lists of bodies, leaves, tasks and clusters of each island; ``label`` is the island of each body."""
        key = tuple(label.tolist())
        if key == self._islands_of:
            return
        t = self._topology
        count = int(label.max()) + 1
        body = np.argsort(label, kind="stable")
        leaves = np.diff(t.body_leaf)
        groups, springs = np.diff(t.body_group), np.diff(t.body_spring_group)
        clusters = leaves.copy()
        for island in range(count):
            own = np.flatnonzero(label == island)
            while clusters[own].sum() > max(MOST_CLUSTERS, len(own)):
                largest = own[clusters[own] == clusters[own].max()]
                clusters[largest] = np.maximum(clusters[largest] // 2, 1)
        leaf = np.concatenate([np.arange(t.body_leaf[b], t.body_leaf[b + 1]) for b in body])
        task = np.concatenate([
            np.concatenate([
                np.arange(t.body_group[b], t.body_group[b + 1]),
                len(t.group_model) + np.arange(t.body_spring_group[b], t.body_spring_group[b + 1]),
            ])
            for b in body
        ])  # fmt: skip
        edges = np.concatenate([
            np.linspace(t.body_leaf[b], t.body_leaf[b + 1], clusters[b] + 1).astype(np.int64)[[k, k + 1]]
            for b in body for k in range(clusters[b])
        ])  # fmt: skip
        leaf_cluster = np.zeros(len(t.leaf_start) - 1, dtype=np.int64)
        leaf_cluster[leaf] = np.repeat(np.arange(len(edges) // 2), np.diff(edges.reshape(-1, 2), axis=1)[:, 0])
        per_island = np.bincount(label, clusters, count).astype(np.int64)
        rows = -(-6 * per_island // PANEL) * PANEL
        coarse_row, coarse_start = starts_of(rows), starts_of(rows**2)
        cluster_row = np.arange(0, 6 * len(edges) // 2, 6) + np.repeat(
            coarse_row[:-1] - 6 * starts_of(per_island)[:-1], per_island
        )
        total = int(per_island.sum())
        self._islands = {
            "body_range": starts_of(np.bincount(label, minlength=count)),
            "body": body.astype(np.int64),
            "leaf_range": starts_of(np.bincount(label, leaves, count)),
            "leaf": leaf.astype(np.int64),
            "task_range": starts_of(np.bincount(label, groups + springs, count)),
            "task": task.astype(np.int64),
            "cluster_start": starts_of(per_island),
            "cluster_leaf": edges,
            "leaf_row": cluster_row[leaf_cluster],
            "vertex_cluster": np.repeat(leaf_cluster, np.diff(t.leaf_start)),
            "coarse_row": coarse_row,
            "coarse_start": coarse_start,
        }
        self._scratch = self._scratch._replace(
            coarse=np.zeros(coarse_start[-1]), coarse_elements=np.zeros(coarse_start[-1]),
            pivot=np.zeros(coarse_row[-1]), mode=np.zeros(coarse_row[-1]), mode_before=np.zeros(coarse_row[-1]),
            product=np.zeros(36 * total),
            report=np.zeros((count, 9)), c_mode=np.zeros(18 * total), c_stamp=np.zeros(total, dtype=np.int64),
            c_cluster=np.zeros(total, dtype=np.int64),
        )  # fmt: skip
        self._islands_of = key

    def _report(self, q: _Step, x: Floats, is_midpoint: bool) -> ImplicitReport:
        s, item = self._scratch, self._numbering.item
        island = np.zeros(len(self.models), dtype=np.int64)
        island[q.body] = np.repeat(np.arange(len(q.body_range) - 1), np.diff(q.body_range))
        r = s.report[island]
        inverted, worst, least = [], [], []
        for b, model in enumerate(self.models):
            lanes = slice(self._body_lane[b], self._body_lane[b + 1])
            ids, determinant = item[lanes], s.determinant[lanes]
            own = x[self.first[b] : self.first[b] + len(model.rest)]
            if isinstance(model, SpringSheet):
                inverted.append(np.zeros(0, dtype=np.int32))
                worst.append(-1)
                least.append(1.0)
                continue
            if is_midpoint or model.elements == "smoothed":  # lanes have the middle of the step, or domains
                determinant = model.determinants(own)
                ids = np.arange(len(determinant))
            at = int(np.argmin(determinant))
            worst.append(int(ids[at] if ids[at] >= 0 else ids[ids >= 0][-1]))
            least.append(float(determinant[at]))
            inverted.append(np.sort(ids[~(determinant > 0.0) & (ids >= 0)]).astype(np.int32))
        return ImplicitReport(
            newton_steps=r[:, 0].astype(np.int64),
            iterations=r[:, 1].astype(np.int64),
            converged=r[:, 2] > 0.0,
            error=r[:, 6],
            relative_error=np.divide(r[:, 6], r[:, 7], out=np.zeros(len(r)), where=r[:, 6] > 0.0),
            linear_residual=r[:, 3],
            shortest_fraction=r[:, 4],
            worst_vertex=self._numbering.vertex[r[:, 5].astype(np.int64)],
            worst_tet=np.array(worst, dtype=np.int64),
            least_determinant=np.array(least),
            inverted=tuple(inverted),
        )


def _labels(count: int, touched: NDArray[np.int64], start: NDArray[np.int64]) -> NDArray[np.int64]:
    """The island of each body, numbered by the first body of each: contacts join the bodies that they touch."""
    parent = list(range(count))

    def root(b: int) -> int:
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        return b

    first = np.repeat(touched[start[:-1]], np.diff(start))
    for code in np.unique(first * count + touched).tolist():
        a, b = divmod(code, count)
        low, high = sorted((root(a), root(b)))
        parent[high] = low
    roots = np.array([root(b) for b in range(count)])
    return np.unique(roots, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _flat(values: Floats, order: NDArray[np.int64]) -> Floats:
    return np.ascontiguousarray(values[order], dtype=np.float64).reshape(-1)


_NO_CONTACTS = ContactTerms(
    start=np.zeros(1, dtype=np.int64), vertex=np.zeros(0, dtype=np.int64), weight=np.zeros((0, 3)),
    block=np.zeros((0, 3, 3)), normal=np.zeros((0, 3)), offset=np.zeros(0), drift=np.zeros((0, 3)),
    stiffness=np.zeros(0), stick=np.zeros(0), friction=np.zeros(0),
    normal_force=np.zeros(0), friction_force=np.zeros((0, 3)), wall=np.zeros(0),
)  # fmt: skip
