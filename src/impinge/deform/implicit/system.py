"""Implicit steps of one or many bodies: backward Euler, or the implicit midpoint rule.

1. Islands  Constraints couple bodies. Bodies that are coupled, directly or through others, form an island; each island
            is one minimisation (``newton_kernels``).
2. Solve    Islands below ``threaded_from`` tets and springs run side by side, each on one thread: a launch per phase of
            conjugate gradients costs more than it saves, and much more on a busy machine. Larger ones run one after the
            other, with threads inside of each phase.
3. Report   Newton steps, iterations, the error that was reached, inverted tets. A step that does not reach its
            tolerance is reported, never hidden; its state is the best one found.

Clusters    At most ``MOST_CLUSTERS`` for an island, at least one for each body: the leaves of bodies, halved in number
            until they are few enough.
Guarantee   The same bits for any number of threads: each sum has one owner and one order. The incremental energy never
            rises from one Newton step to the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from impinge.checks import Floats, Ints, as_buffer, as_choice, as_number, as_numbers, as_positions, check_finite, shown
from impinge.deform.fem import Corotated, Elements, GreenStrain, StableNeoHookean
from impinge.deform.fem_kernels import GROUP
from impinge.deform.implicit import cg_kernels, newton_kernels
from impinge.deform.implicit.topology import Longs, build, starts_of
from impinge.deform.springs import SpringSheet
from impinge.errors import OptionError

Method = Literal["backward_euler", "midpoint"]

THREADED_FROM = 20_000
"""Tets and springs of an island from which threads work on its phases."""
MOST_CLUSTERS = 64
NEWTON_TOLERANCE = 1e-3
"""Default error of velocities, relative to the change of velocity by forces in a step or to internal motion."""
LINEAR_TOLERANCE = 2e-5
"""The same for linear systems: a resting body then has 1e-4 of its sag."""
MOST_NEWTON_STEPS = 20
MOST_ITERATIONS = 1000


@dataclass(frozen=True)
class Constraints:
    """Terms of the energy, each along one direction of a few vertices: d = offset + Σ w·(x - x0), x0 the start.

    The force of a constraint is k d, of a one-sided one only where d is positive (a contact that presses), and at most
    ``limit`` (friction that slides).
    """

    start: NDArray[np.int64]
    """First entry of each constraint, and the number of entries, shape (m + 1,)."""
    vertex: Ints
    """Row of the vertex of each entry."""
    weight: Floats
    """w of each entry, shape (entries, 3)."""
    offset: Floats
    """Offset of each constraint, shape (m,) [m]."""
    stiffness: Floats
    """k of each constraint, shape (m,) [N / m]."""
    one_sided: NDArray[np.bool_]
    """Whether a constraint acts only where d is positive, shape (m,)."""
    limit: Floats | None = None
    """Largest force of each constraint, shape (m,) [N]; None for no limits."""

    def __post_init__(self) -> None:
        count, entries = len(self.offset), len(self.vertex)
        shapes = [np.shape(each) for each in (self.start, self.weight, self.stiffness, self.one_sided)]
        if shapes != [(count + 1,), (entries, 3), (count,), (count,)]:
            raise OptionError(
                f"start, weight, stiffness and one_sided have shapes {', '.join(map(str, shapes))}, expected "
                f"({count + 1},), ({entries}, 3), ({count},), ({count},) for {count} offsets and {entries} vertices"
            )
        if self.start[0] != 0 or self.start[-1] != entries or (count and np.diff(self.start).min() < 1):
            raise OptionError(f"start must rise from 0 to {entries}, with at least one entry for each constraint")
        if count and not (np.isfinite(self.offset).all() and np.isfinite(self.weight).all()):
            raise OptionError("offsets and weights of constraints must be finite; leave out those that are not")
        if count and not (self.stiffness >= 0.0).all():
            first = int(np.argmin(self.stiffness >= 0.0))
            raise OptionError(f"stiffness[{first}] is {self.stiffness[first]:g}, expected a number of at least 0 [N/m]")


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

    ``numbers``: h, linear tolerance, tolerance, most Newton steps, most iterations, midpoint, residual tolerance or 0.
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
    leaf_cluster: Longs
    vertex_cluster: Longs
    coarse_start: Longs
    row_range: Longs
    row_start: Longs
    row_vertex: Longs
    row_weight: Floats
    row_offset: Floats
    row_stiffness: Floats
    row_one_sided: NDArray[np.uint8]
    row_limit: Floats


class _Scratch(NamedTuple):
    """Memory of kernels; vectors of vertices are flat."""

    x: Floats
    x0: Floats
    v: Floats
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
    force: Floats
    block: Floats
    metric: Floats
    determinant: Floats
    task_energy: Floats
    body_energy: Floats
    leaf_sum: Floats
    leaf_mode: Floats
    value: Floats
    diagonal: Floats
    inverse: Floats
    coarse: Floats
    pivot: Floats
    mode: Floats
    mode_before: Floats
    product: Floats
    row_active: Floats
    report: Floats


def has_hessian(model: Any) -> bool:
    """Whether a model is exactly one of ours; subclasses and patched instances may have other energies."""
    return type(model) in (GreenStrain, Corotated, StableNeoHookean, SpringSheet) and "forces" not in vars(model)


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
        vector = {name: np.zeros(3 * n) for name in _Scratch._fields[:13]}
        empty = np.zeros(0)
        self._scratch = _Scratch(
            **vector,
            force=np.zeros(12 * lanes + 6 * springs),
            block=np.zeros(54 * lanes + 9 * springs),
            metric=np.zeros(6 * lanes),
            determinant=np.ones(lanes),
            task_energy=np.zeros(len(t.group_model) + len(t.spring_group) - 1),
            body_energy=np.zeros(bodies),
            leaf_sum=np.zeros(2 * leaves),
            leaf_mode=np.zeros(6 * leaves),
            value=np.zeros(9 * len(t.column) + 3),
            diagonal=np.zeros(6 * n),
            inverse=np.zeros(6 * n),
            coarse=empty, pivot=empty, mode=empty, mode_before=empty, product=empty, row_active=empty, report=empty,
        )  # fmt: skip
        self._body_of_vertex = np.repeat(np.arange(bodies), np.diff(t.body_start))
        self._body_lane = t.body_group * GROUP
        self._work = np.diff(self._body_lane) + np.diff(t.spring_group[t.body_spring_group])
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
        constraints: Constraints | None = None,
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
        constraints
            Contacts, friction, springs; with the midpoint rule they act at the middle of the step.
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
        s.target[:] = (start + half * (velocity + half * push)).reshape(-1)
        q = self._request(fixed, velocity, constraints)
        q.numbers[:] = (
            half, linear_tolerance, tolerance, max_newton_steps, max_iterations, float(is_midpoint),
            residual_tolerance or 0.0,
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
        return self._report(q, x if is_midpoint else None)

    def _request(self, fixed: NDArray[np.bool_], velocity: Floats, constraints: Constraints | None) -> _Step:
        """Islands, constraints and held vertices of a step."""
        t, rank = self._topology, self._numbering.rank
        bodies = np.arange(len(self.models))
        free = np.logical_or.reduceat(fixed | (t.drag > 0.0), t.body_start[:-1])
        if constraints is None or not len(constraints.offset):
            label, touched = bodies, np.zeros(0, dtype=np.int64)
            start, row_vertex = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
            order, entries = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
            weight, offset, stiffness = np.zeros((0, 3)), np.zeros(0), np.zeros(0)
            one_sided, limit = np.zeros(0, dtype=np.bool_), np.zeros(0)
        else:
            row_vertex = rank[constraints.vertex]
            if len(row_vertex) and row_vertex.min() < 0:
                first = int(np.argmax(row_vertex < 0))
                raise OptionError(
                    f"entry {first} of the constraints is of row {constraints.vertex[first]}, which belongs to no "
                    "model; leave it out"
                )
            touched = self._body_of_vertex[row_vertex]
            label = _labels(len(bodies), touched, constraints.start)
            own = label[touched[constraints.start[:-1]]]
            order = np.argsort(own, kind="stable")
            counts = np.diff(constraints.start)[order]
            start = starts_of(counts)
            entries = np.repeat(constraints.start[:-1][order] - start[:-1], counts) + np.arange(start[-1])
            row_vertex, weight = row_vertex[entries], constraints.weight[entries]
            offset, stiffness = constraints.offset[order], constraints.stiffness[order]
            one_sided = constraints.one_sided[order]
            limit = np.full(len(order), np.inf) if constraints.limit is None else constraints.limit[order]
        free[touched] = True
        self._partition(label)
        islands = self._islands
        count = len(islands["body_range"]) - 1
        if len(order):
            row_range = starts_of(np.bincount(own, minlength=count))
        else:
            row_range = np.zeros(count + 1, dtype=np.int64)
        moves = fixed & (velocity != 0.0).any(axis=1)
        moving = np.bincount(label[self._body_of_vertex[moves]], minlength=count) > 0
        self._scratch = self._scratch._replace(row_active=np.zeros(len(offset)))
        return _Step(
            numbers=np.zeros(7), held=fixed.astype(np.uint8), body_free=(~free).astype(np.uint8),
            moving=moving.astype(np.uint8), **islands, row_range=row_range, row_start=start,
            row_vertex=np.ascontiguousarray(row_vertex, dtype=np.int64),
            row_weight=np.ascontiguousarray(weight, dtype=np.float64).reshape(-1),
            row_offset=np.ascontiguousarray(offset, dtype=np.float64),
            row_stiffness=np.ascontiguousarray(stiffness, dtype=np.float64),
            row_one_sided=np.ascontiguousarray(one_sided, dtype=np.uint8),
            row_limit=np.ascontiguousarray(limit, dtype=np.float64),
        )  # fmt: skip

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
        coarse_start = starts_of((6 * per_island) ** 2)
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
            "leaf_cluster": leaf_cluster,
            "vertex_cluster": np.repeat(leaf_cluster, np.diff(t.leaf_start)),
            "coarse_start": coarse_start,
        }
        self._scratch = self._scratch._replace(
            coarse=np.zeros(coarse_start[-1]), pivot=np.zeros(6 * total), mode=np.zeros(6 * total),
            mode_before=np.zeros(6 * total), product=np.zeros(36 * total), report=np.zeros((count, 9)),
        )  # fmt: skip
        self._islands_of = key

    def _report(self, q: _Step, x: Floats | None) -> ImplicitReport:
        s, tet = self._scratch, self._numbering.tet
        island = np.zeros(len(self.models), dtype=np.int64)
        island[q.body] = np.repeat(np.arange(len(q.body_range) - 1), np.diff(q.body_range))
        r = s.report[island]
        inverted, worst, least = [], [], []
        for b, model in enumerate(self.models):
            lanes = slice(self._body_lane[b], self._body_lane[b + 1])
            ids, determinant = tet[lanes], s.determinant[lanes]
            if not len(ids):
                inverted.append(np.zeros(0, dtype=np.int32))
                worst.append(-1)
                least.append(1.0)
                continue
            at = int(np.argmin(determinant))
            worst.append(int(ids[at] if ids[at] >= 0 else ids[ids >= 0][-1]))
            least.append(float(determinant[at]))
            if x is not None:
                inverted.append(model.inverted(x[self.first[b] : self.first[b] + len(model.rest)]))
            else:
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
    """The island of each body, numbered by the first body of each: constraints join the bodies that they touch."""
    parent = list(range(count))

    def root(b: int) -> int:
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        return b

    first = np.repeat(touched[start[:-1]], np.diff(start))
    for a, b in np.unique(np.stack([first, touched], axis=1), axis=0).tolist():
        low, high = sorted((root(a), root(b)))
        parent[high] = low
    roots = np.array([root(b) for b in range(count)])
    return np.unique(roots, return_inverse=True)[1].reshape(-1).astype(np.int64)
