"""Base of the detectors of triangle pairs: constructor, query options, refit, result, pickling.

A detector implements ``_find``: candidates, exact tests, and the keys of the pairs that meet, in any order. The base
sorts, filters and packs the result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from time import perf_counter
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from impinge.backend.stages import NO_STAGES, Stages, start_stages
from impinge.checks import Cancel, Stats, as_choice
from impinge.detect.common.narrow_phase import Neighbours
from impinge.detect.common.pair_query import Keys, PairOptions, finish_pairs
from impinge.detect.common.results import Reason, TrianglePairs
from impinge.errors import OptionError
from impinge.mesh.body import SurfaceLike, as_surface
from impinge.mesh.tri_mesh import TriMesh


class PairDetector(ABC):
    """Finds all intersecting triangle pairs of two bodies, or of one with itself; kept between frames.

    The detector holds scratch memory and refers to its bodies, which hold positions and structures. A pickled or
    copied detector has its bodies and options, and none of its scratch memory.
    """

    name: ClassVar[str]
    """The name of the method, as in ``triangle_pairs(method=)``."""
    options: ClassVar[tuple[str, ...]] = ("neighbours",)
    """Constructor options; each is kept in an attribute of that name."""

    def __init__(self, a: SurfaceLike, b: SurfaceLike | None = None, *, neighbours: Neighbours = "exact") -> None:
        self.a = as_surface(a, name="a")
        self.b = None if b is None else as_surface(b, name="b")
        self.neighbours: Neighbours = as_choice(neighbours, "neighbours", ("exact", "skip"))
        self._skip_neighbours = self.neighbours == "skip"
        if self._skip_neighbours and b is not None:
            raise OptionError("neighbours='skip' is for self-collision; triangles of two bodies share no vertex")

    def query(
        self,
        *,
        transform_a: ArrayLike | None = None,
        transform_b: ArrayLike | None = None,
        active_a: ArrayLike | None = None,
        active_b: ArrayLike | None = None,
        ignore: ArrayLike | None = None,
        max_pairs: int | None = None,
        cancel: Cancel | None = None,
    ) -> TrianglePairs:
        """Find all intersecting pairs of the bodies as they are now.

        Parameters
        ----------
        transform_a, transform_b : array_like, shape (4, 4), optional
            Affine matrices that move the bodies for this query.
        active_a, active_b : array_like, optional
            Ids or masks of the triangles that take part.
        ignore : array_like, shape (k, 2), optional
            Pairs of triangles to leave out.
        max_pairs : int, optional
            Most pairs to return; a truncated result is not ``complete``.
        cancel : object with ``is_set()``, optional
            Stops the query when set, such as a ``threading.Event``.

        Returns
        -------
        TrianglePairs
            Sorted pairs, their kinds, and whether they are complete.
        """
        return self.find(
            PairOptions(transform_a, transform_b, active_a, active_b, ignore, max_pairs, cancel, self.b is None)
        )

    def find(self, options: PairOptions) -> TrianglePairs:
        """As ``query``, with options that are checked already."""
        began = perf_counter()
        stages, stats = start_stages(), Stats()
        keys, reason = self._find(options, stats, stages)
        if stages is not NO_STAGES:
            stats.update(stages.times())
        bodies = (self.a,) if self.b is None else (self.a, self.b)
        return finish_pairs(keys, options, method=self.name, stats=stats, reason=reason, bodies=bodies, began=began)

    def refit(self) -> None:  # noqa: B027 - a detector without structures has nothing to refit
        """Bring kept structures up to date with the bodies, as ``query`` does first; without structures, a no-op."""

    @abstractmethod
    def _find(self, options: PairOptions, stats: Stats, stages: Stages) -> tuple[Keys, Reason | None]:
        """Keys of all pairs that meet, in any order, and why the search stopped early, if it did."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy bodies and options; scratch memory is made again."""
        return _rebuild, (type(self), self.a, self.b, {name: getattr(self, name) for name in self.options})

    def __repr__(self) -> str:
        bodies = [f"{letter} {len(body):,} triangles" for letter, body in (("a", self.a), ("b", self.b)) if body]
        return f"<{type(self).__name__}: {', '.join(bodies)}{', self-collision' if self.b is None else ''}>"


def _rebuild(kind: Any, a: TriMesh, b: TriMesh | None, options: dict[str, Any]) -> Any:
    return kind(a, b, **options)
