"""Impacts of moving bodies: options, the search (``sweep``), and the rows of the result.

Vertices move along straight lines from the positions of a body to the end positions of a query; both ends of a rigid
motion are given by two matrices, and vertices move along straight lines between them, not along arcs.

Exact     A pair of features belongs to the result iff it meets in real arithmetic at some time of [0, 1]; touching
          counts. Each time is between two doubles, no farther apart than 2^-20 of the later one.
Skipped   features of one body that share a vertex. A triangle that collapses through its own edge is not seen, nor is a
          body inside another: surfaces meet, or they do not.
Margin    A pair that is not reported never comes closer than the margin. A reported pair may be farther apart, by 2^-20
          of the margin, 2^-46 of its coordinates and 2^-24 of its motion (``separation_kernels``).
Budget    Time is cut into slabs (``sweep``). A query that ends early has every impact before ``certain_until``, the
          beginning of its last slab, and some of the later ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from impinge.backend.stages import start_stages
from impinge.budget import Budget
from impinge.checks import Cancel, as_choice, as_flag, as_number, as_transform, as_whole, shown
from impinge.detect.boxes.tree import TreeOfBoxes, lock_both
from impinge.detect.common.pair_query import PairOptions
from impinge.detect.continuous.impact_results import Impacts, SafeStep
from impinge.detect.continuous.impact_rows import impact_rows
from impinge.detect.continuous.safe_step import StaticTest, StepOptions, StepSearch
from impinge.detect.continuous.sweep import Motion, Request, Transforms, find_impacts, pose_motion
from impinge.errors import OptionError
from impinge.mesh.body import SurfaceLike, as_surface

AtStart: TypeAlias = Literal["report", "skip"]
TransformPair: TypeAlias = Sequence[ArrayLike | None] | ArrayLike
"""Two affine matrices, shape (2, 4, 4): the start and the end of a motion; None is the identity."""
MOST_RINGS = 1 << 20


class ContinuousTree:
    """Finds impacts of two moving bodies, or of one with itself; kept between frames.

    The detector uses the trees of boxes that bodies keep. A pickled or copied detector has its bodies only.

    Parameters
    ----------
    a, b : body
        As in ``triangle_pairs``. Without ``b``, impacts of ``a`` with itself.

    Examples
    --------
    >>> from impinge import ContinuousTree, shapes
    >>> a, b = shapes.box(1.0), shapes.box(1.0, center=(0.0, 0.0, 3.0))
    >>> tree = ContinuousTree(a, b)
    >>> float(tree.query(end_b=b.vertices - (0.0, 0.0, 4.0)).time[0])
    0.5
    """

    name = "continuous_tree"

    def __init__(self, a: SurfaceLike, b: SurfaceLike | None = None) -> None:
        self.a = as_surface(a, name="a")
        self.b = None if b is None else as_surface(b, name="b")
        self._tree_a = self._tree_b = self.a.structure("boxes", TreeOfBoxes)
        if self.b is not None:  # a body against itself, moved, needs two sets of boxes at once
            self._tree_b = TreeOfBoxes(self.b) if self.b is self.a else self.b.structure("boxes", TreeOfBoxes)
        self._locks = lock_both(self._tree_a, self._tree_b)
        self._static = StaticTest(self.b is None)

    def query(
        self,
        *,
        end_a: ArrayLike | None = None,
        end_b: ArrayLike | None = None,
        margin: float = 0.0,
        first_only: bool = False,
        at_start: AtStart = "report",
        exclude_rings: int = 0,
        transform_a: TransformPair | None = None,
        transform_b: TransformPair | None = None,
        active_a: ArrayLike | None = None,
        active_b: ArrayLike | None = None,
        ignore: ArrayLike | None = None,
        cancel: Cancel | None = None,
        budget_ms: float | None = None,
        max_tests: int | None = None,
    ) -> Impacts:
        """Find the impacts of the bodies between their present positions and the ends; options as in ``impacts``."""
        began = perf_counter()
        budget = Budget(budget_ms, max_tests)
        options = self._options(end_b, transform_b, active_a, active_b, ignore, cancel)
        request = Request(
            _as_margin(margin),
            as_flag(first_only, "first_only"),
            as_choice(at_start, "at_start", ("report", "skip")) == "skip",
            self._as_rings(exclude_rings),
        )
        transforms = _as_pair(transform_a, "transform_a"), _as_pair(transform_b, "transform_b")
        with self._locks[0], self._locks[1]:
            stages = start_stages()
            a, b = self._motions(end_a, end_b, transforms, options)
            stages.done("refit")
            found, progress = find_impacts(a, b, request, options, budget, stages)
            return impact_rows(found, progress, a, b, request.margin, stages, began)

    def safe_step(
        self,
        *,
        end_a: ArrayLike | None = None,
        end_b: ArrayLike | None = None,
        margin: float = 0.0,
        per_vertex: bool = False,
        exclude_rings: int = 0,
        transform_a: TransformPair | None = None,
        transform_b: TransformPair | None = None,
        active_a: ArrayLike | None = None,
        active_b: ArrayLike | None = None,
        ignore: ArrayLike | None = None,
    ) -> SafeStep:
        """Find how far the bodies may move towards the ends; options as in ``impinge.safe_step``."""
        began = perf_counter()
        options = self._options(end_b, transform_b, active_a, active_b, ignore, None)
        step = StepOptions(
            _as_margin(margin),
            as_flag(per_vertex, "per_vertex"),
            self._as_rings(exclude_rings),
            active_a,
            active_b,
            ignore,
        )
        transforms = _as_pair(transform_a, "transform_a"), _as_pair(transform_b, "transform_b")
        with self._locks[0], self._locks[1]:
            stages = start_stages()
            a, b = self._motions(end_a, end_b, transforms, options)
            stages.done("refit")
            return StepSearch(a, b, step, options, self._static, stages).find(began)

    def _options(
        self, end_b: ArrayLike | None, transform_b: TransformPair | None, active_a: ArrayLike | None,
        active_b: ArrayLike | None, ignore: ArrayLike | None, cancel: Cancel | None,
    ) -> PairOptions:  # fmt: skip
        if self.b is None and not (end_b is None and transform_b is None and active_b is None):
            raise OptionError(
                "end_b, transform_b and active_b are for two bodies; impacts of one body with itself take those of a"
            )
        return PairOptions(None, None, active_a, active_b, ignore, None, cancel, self.b is None)

    def _as_rings(self, exclude_rings: int) -> int:
        rings = as_whole(exclude_rings, "exclude_rings", least=0, most=MOST_RINGS)
        if rings and self.b is not None:
            raise OptionError("exclude_rings is for one body with itself; features of two bodies share no edge")
        return rings

    def _motions(
        self, end_a: ArrayLike | None, end_b: ArrayLike | None,
        transforms: tuple[Transforms | None, Transforms | None], options: PairOptions,
    ) -> tuple[Motion, Motion]:  # fmt: skip
        """Both trees at both ends of their motion; of one body, twice the same."""
        a = pose_motion(self.a, self._tree_a, transforms[0], end_a, options.active_a, "a")
        if self.b is None:
            return a, a
        return a, pose_motion(self.b, self._tree_b, transforms[1], end_b, options.active_b, "b")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy the bodies; scratch memory is made again."""
        return type(self), (self.a, self.b)

    def __repr__(self) -> str:
        bodies = [f"{letter} {len(body):,} triangles" for letter, body in (("a", self.a), ("b", self.b)) if body]
        return f"<{type(self).__name__}: {', '.join(bodies)}{', self-impacts' if self.b is None else ''}>"


def _as_margin(margin: float) -> float:
    return as_number(margin, "margin", "a finite number from 0", least=0.0, below=np.inf)


def _as_pair(transforms: TransformPair | None, name: str) -> Transforms | None:
    """Both matrices of a motion, None for the identity."""
    if transforms is None:
        return None
    try:
        before, after = transforms  # type: ignore[misc]
    except Exception as error:  # sequences of a caller may raise anything
        raise OptionError(
            f"{name} is {shown(transforms)}, expected two matrices, for the start and the end of the motion"
        ) from error
    return as_transform(before, f"{name}[0]"), as_transform(after, f"{name}[1]")


def impacts(
    a: SurfaceLike,
    b: SurfaceLike | None = None,
    *,
    end_a: ArrayLike | None = None,
    end_b: ArrayLike | None = None,
    margin: float = 0.0,
    first_only: bool = False,
    at_start: AtStart = "report",
    exclude_rings: int = 0,
    transform_a: TransformPair | None = None,
    transform_b: TransformPair | None = None,
    active_a: ArrayLike | None = None,
    active_b: ArrayLike | None = None,
    ignore: ArrayLike | None = None,
    cancel: Cancel | None = None,
    budget_ms: float | None = None,
    max_tests: int | None = None,
) -> Impacts:
    """Find all pairs of features that meet while vertices move along straight lines, and when they first do.

    Parameters
    ----------
    a, b : body
        As in ``triangle_pairs``; their positions are the start of the motion. Without ``b``, impacts of ``a`` with
        itself, of features that share no vertex.
    end_a, end_b : array_like, shape (n, 3), optional
        Positions of all vertices at the end of the motion; None for a body that stays.
    margin : float
        Distance from which on features count as meeting. With 0 the answer is exact. Otherwise a pair that is not
        reported never comes closer than the margin, and a reported one comes as close, up to 2^-20 of the margin,
        2^-46 of its coordinates and 2^-24 of its motion.
    first_only : bool
        Find the earliest impact only, and those whose times overlap with its time; faster.
    at_start : {"report", "skip"}
        Pairs that meet at the start: report them with time 0, or leave them out.
    exclude_rings : int
        Leave out pairs of one body whose features are within this many edges of each other; 0: those that share a
        vertex.
    transform_a, transform_b : two array_like of shape (4, 4), optional
        Affine matrices at the start and at the end. The first moves the vertices, the second ``end_a``, or the vertices
        if it is None. In between, vertices move along straight lines: cut a large rotation into several motions.
    active_a, active_b, ignore, cancel
        As in ``proximity``.
    budget_ms : float, optional
        Milliseconds for the search; a result that is not complete has all impacts before ``certain_until``.
    max_tests : int, optional
        Number of candidates after which the search stops, checked every 64 pairs of blocks: the same answer on every
        machine.

    Returns
    -------
    Impacts
        Sorted by time, kind and ids.

    Raises
    ------
    MeshError
        If end positions have the wrong shape or are not finite.
    OptionError
        If an option is out of its range.

    Examples
    --------
    >>> from impinge import impacts, shapes
    >>> a, b = shapes.box(1.0), shapes.box(1.0, center=(0.0, 0.0, 3.0))
    >>> found = impacts(a, b, end_b=b.vertices - (0.0, 0.0, 4.0))
    >>> float(found.time[0]), found.normal[0].tolist()
    (0.5, [0.0, 0.0, 1.0])
    """
    return ContinuousTree(a, b).query(
        end_a=end_a,
        end_b=end_b,
        margin=margin,
        first_only=first_only,
        at_start=at_start,
        exclude_rings=exclude_rings,
        transform_a=transform_a,
        transform_b=transform_b,
        active_a=active_a,
        active_b=active_b,
        ignore=ignore,
        cancel=cancel,
        budget_ms=budget_ms,
        max_tests=max_tests,
    )


def safe_step(
    a: SurfaceLike,
    b: SurfaceLike | None = None,
    *,
    end_a: ArrayLike | None = None,
    end_b: ArrayLike | None = None,
    margin: float = 0.0,
    per_vertex: bool = False,
    exclude_rings: int = 0,
    transform_a: TransformPair | None = None,
    transform_b: TransformPair | None = None,
    active_a: ArrayLike | None = None,
    active_b: ArrayLike | None = None,
    ignore: ArrayLike | None = None,
) -> SafeStep:
    """Find how far bodies may move towards given positions without meeting anything.

    Moving along straight lines from the start to the returned positions, as doubles, meets nothing, and the exact test
    of triangles finds nothing there, except for pairs that touch at the start.

    Parameters
    ----------
    a, b, end_a, end_b, exclude_rings, transform_a, transform_b, active_a, active_b, ignore
        As in ``impacts``.
    margin : float
        Distance that features keep; those closer at the start are excepted from it.
    per_vertex : bool
        Give each vertex its own share of the motion, by half of the smallest gap of its features: one impact does not
        stop everything.

    Returns
    -------
    SafeStep
        The fraction, the positions, the pairs that limit the step, and those that touch at the start.

    Raises
    ------
    CrossingError
        If triangles cross at the start.
    MeshError, OptionError
        As in ``impacts``.

    Examples
    --------
    >>> from impinge import safe_step, shapes
    >>> a, b = shapes.box(1.0), shapes.box(1.0, center=(0.0, 0.0, 3.0))
    >>> step = safe_step(a, b, end_b=b.vertices - (0.0, 0.0, 4.0))
    >>> 0.499 < step.fraction < 0.5
    True
    """
    return ContinuousTree(a, b).safe_step(
        end_a=end_a,
        end_b=end_b,
        margin=margin,
        per_vertex=per_vertex,
        exclude_rings=exclude_rings,
        transform_a=transform_a,
        transform_b=transform_b,
        active_a=active_a,
        active_b=active_b,
        ignore=ignore,
    )
