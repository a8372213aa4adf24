"""Contacts within a time budget: two sphere trees, searched level by level until the time is up.

1. Track  the spheres of both bodies, each when the search first visits it (``track.tracking``).
2. Search [MendozaOSullivan2005, Fig. 7]. PAIRLIST, a queue, holds the pair of both roots. The first pair is taken out;
          if its spheres meet, the children of the second join the end of the queue, each paired with the first and
          before it: the descent alternates between the trees. Two leaves go to COLLISIONLIST.
3. Stop   when the queue is empty, or when the time or the number of tests is used up. COLLISIONLIST is then
          ``certain``, PAIRLIST is ``possible``.
4. Resolve (``exact=True``) the triangles below pairs of leaves that meet, in order. Such a pair is certain once
          triangles below it meet, and possible until they were tested.

Source      [MendozaOSullivan2005], section 4. ``possible`` and ``certain`` have spheres of a in the first column,
            however often the search swapped them.
Departures  Eight siblings are tested at once, in the order of the queue. In the paper, a leaf that meets an inner
            sphere is swapped and tested again; here the children of the other follow at once. The queue is bounded:
            from ``queue_limit`` entries on, the newest are followed first, which needs no more memory. Normals of
            closed bodies are not lines of centres (``track.contact_frames``). ``order="priority"`` follows the pair
            with the deepest overlap first.
Guarantee   With a conservative tracking ("refit", "bound"): every pair of triangles that meet is below a pair in
            ``certain`` or ``possible``, at any time. Wrapped trees then find every pair of leaves whose triangles meet;
            layered ones every pair of leaves whose spheres do. ``certain`` only grows with the budget, and what is
            below ``possible`` only shrinks. The result after n tests depends on n alone, the spheres of waiting pairs
            included: these are tracked then. When the time is up, a sphere of a waiting pair that was not visited
            since its body moved is where it was tracked last. Squares of distances have to be finite doubles: bodies
            are between 1e-150 and 1e150 in size.
One body    against itself: the tree is searched against itself (``search.self_search``). Triangles that share a vertex
            count only if they meet beyond it, which spheres cannot decide: without ``exact``, pairs of leaves whose
            triangles share a vertex are left out, and the guarantee is about all others.
Budget      covers the whole call: the search stops earlier by the estimated time to list its result. If the time does
            not suffice for the roots, they are ``possible``, as they were tracked last, and ``stats["outdated"]`` is
            True.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from impinge.backend.clock import now_ns
from impinge.backend.stages import NO_STAGES, start_stages
from impinge.budget import NEVER, QUEUE_LIMIT, Budget
from impinge.checks import Cancel, Floats, as_choice, as_flag, as_transform, as_whole, check_cancel
from impinge.detect.common.narrow_phase import Neighbours
from impinge.detect.common.results import Reason
from impinge.detect.sphere_tree.contacts import SphereContacts
from impinge.detect.sphere_tree.hierarchy import SphereHierarchy
from impinge.detect.sphere_tree.search.context import NO_PAIRS, SLICE_NS, SearchContext
from impinge.detect.sphere_tree.search.context_kernels import OUT_OF_TIME
from impinge.detect.sphere_tree.search.exact import NO_KINDS, ExactStage
from impinge.detect.sphere_tree.search.self_search import OneBody
from impinge.detect.sphere_tree.search.tracked_spheres import EmbeddedBody, bind_body
from impinge.detect.sphere_tree.search.triangle_filter import TriangleFilter
from impinge.detect.sphere_tree.track.tracking import Tracking
from impinge.errors import OptionError
from impinge.mesh.body import SurfaceLike
from impinge.mesh.tri_mesh import TriMesh

Order: TypeAlias = Literal["breadth", "priority"]


class SphereTree:
    """Contacts of ``a`` and ``b``, or of ``a`` with itself, within a time budget; kept between frames.

    Parameters
    ----------
    a, b : body
        Surfaces as in ``triangle_pairs``, or ``SoftBody``. Without ``b``, ``a`` against itself.
    tree_a, tree_b : SphereHierarchy, optional
        Trees of ``build_spheres``; without, each body builds a quick one.
    tracking : {"auto", "refit", "bound", "affine", "paper"}
        How spheres follow the bodies. "auto" is "bound" for bodies that are embedded in a coarse mesh, "refit" for
        others, both conservative; "paper" and "affine" follow ``controls`` vertices each and may miss contacts.
    controls : int
        Number of vertices that a sphere follows.
    exact : bool
        Continue to the triangles below spheres that meet.
    order : {"breadth", "priority"}
        Breadth first, or the deepest overlap first.
    queue_limit : int
        Entries of the queue from which the newest are followed first.
    neighbours : {"exact", "skip"}
        Of one body: test triangles that share a vertex beyond it, or leave them out.

    Raises
    ------
    OptionError
        If an option has a wrong value, or is for two bodies or for one only.
    MeshError
        If a tree was built for another mesh, or for a soft body that was not at rest.
    """

    name = "sphere_tree"

    def __init__(
        self,
        a: SurfaceLike | EmbeddedBody,
        b: SurfaceLike | EmbeddedBody | None = None,
        *,
        tree_a: SphereHierarchy | None = None,
        tree_b: SphereHierarchy | None = None,
        tracking: Tracking | Literal["auto"] = "auto",
        controls: int = 8,
        exact: bool = False,
        order: Order = "breadth",
        queue_limit: int = QUEUE_LIMIT,
        neighbours: Neighbours = "exact",
    ) -> None:
        self._arguments: dict[str, Any] = {
            "a": a, "b": b, "tree_a": tree_a, "tree_b": tree_b, "tracking": tracking, "controls": controls,
            "exact": exact, "order": order, "queue_limit": queue_limit, "neighbours": neighbours,
        }  # fmt: skip
        self.is_self = b is None
        if self.is_self and tree_b is not None:
            raise OptionError("tree_b is given without b; leave it out for self-collision")
        skip_neighbours = as_choice(neighbours, "neighbours", ("exact", "skip")) == "skip"
        if skip_neighbours and not self.is_self:
            raise OptionError("neighbours='skip' is for self-collision; triangles of two bodies share no vertex")
        controls = as_whole(controls, "controls")
        body = bind_body(a, tree_a, tracking, controls, "a")
        other = body if b is None else bind_body(b, tree_b, tracking, controls, "b")
        if not self.is_self and body.surface is other.surface:
            other = other._replace(is_twin=True)
        self._bindings = body, other
        self.bodies: tuple[TriMesh, ...] = (body.surface,) if self.is_self else (body.surface, other.surface)
        self.exact = as_flag(exact, "exact")
        self._exact = ExactStage(is_self=self.is_self, skip_neighbours=skip_neighbours) if self.exact else None
        self._by_depth = as_choice(order, "order", ("breadth", "priority")) == "priority"
        self._queue_limit = min(as_whole(queue_limit, "queue_limit"), NEVER)
        self._context: SearchContext | None = None
        self._lock = threading.RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy bodies and options; what is kept between frames is made again."""
        return partial(type(self), **self._arguments), ()

    def __repr__(self) -> str:
        names = zip("ab", self.bodies)
        modes = "/".join(dict.fromkeys(binding.tracking for binding in self._bindings))
        return (
            f"<SphereTree: {', '.join(f'{letter} {len(body):,} triangles' for letter, body in names)}"
            f"{', self-collision' if self.is_self else ''}, tracking {modes}{', exact' if self.exact else ''}>"
        )

    def prepare(self) -> None:
        """Build missing structures, such as sphere trees, ahead of the first query and its budget."""
        with self._lock:
            context = self._bind()
            for tree in context.trees if context else ():
                if tree.orientation.sign:
                    _ = tree.orientation.pieces
                if self.exact:
                    _ = tree.leaf_triangles

    def _bind(self) -> SearchContext | None:
        """Bind a search context to the triangles that the bodies have now; None if a body has none."""
        a, b = self._bindings
        tree_a = a.cache.tracked(a)
        tree_b = tree_a if self.is_self else b.cache.tracked(b)
        context = self._context
        if tree_a is None or tree_b is None:
            return None
        if context is None or context.trees[0] is not tree_a or context.trees[1] is not tree_b:
            one_body = OneBody(tree_a.layout, tree_a.faces, neighbours_count=self.exact) if self.is_self else None
            self._context = context = SearchContext(
                (tree_a, tree_b), one_body, by_depth=self._by_depth, queue_limit=self._queue_limit,
                sorts=not self.exact, reserve=None if context is None else context.reserve,
            )  # fmt: skip
        return context

    def query(
        self,
        *,
        budget_ms: float | None = None,
        max_tests: int | None = None,
        level: int | None = None,
        transform_a: ArrayLike | None = None,
        transform_b: ArrayLike | None = None,
        active_a: ArrayLike | None = None,
        active_b: ArrayLike | None = None,
        ignore: ArrayLike | None = None,
        max_pairs: int | None = None,
        cancel: Cancel | None = None,
    ) -> SphereContacts:
        """Search until all is tested, or until the time or the number of tests is used up.

        Parameters
        ----------
        budget_ms : float, optional
            Milliseconds that the call may take.
        max_tests : int, optional
            Tests of pairs of spheres and of triangles; the result is the same on every machine.
        level : int, optional
            The finest level of the search. Pairs that meet there are possible, unless both are leaves.
        transform_a, transform_b : array_like, shape (4, 4), optional
            Affine matrices that move the bodies for this query.
        active_a, active_b : array_like, optional
            Ids or masks of triangles; pairs without active triangles below both are left out.
        ignore : array_like, shape (k, 2), optional
            Pairs of triangles to leave out; needs ``exact``.
        max_pairs : int, optional
            Most pairs of triangles to return; needs ``exact``.
        cancel : object with ``is_set()``, optional
            Stops the query when set, such as a ``threading.Event``.

        Returns
        -------
        SphereContacts
            Certain and possible pairs of spheres; with ``exact``, pairs of triangles.
        """
        budget = Budget(budget_ms, max_tests)
        if level is not None:
            level = as_whole(level, "level", least=0, remedy=", the root's level")
        if cancel is not None:
            check_cancel(cancel)
        if self.is_self:
            if transform_b is not None or active_b is not None:
                raise OptionError("transform_b and active_b are for two bodies; self-collision takes those of a only")
            transform_b, active_b = transform_a, active_a
        matrix_a = None if transform_a is None else as_transform(transform_a, "transform_a")
        matrix_b = None if transform_b is None else as_transform(transform_b, "transform_b")
        if max_pairs is not None:
            max_pairs = as_whole(max_pairs, "max_pairs", remedy=", or None for all pairs")
        if not self.exact and not (ignore is None and max_pairs is None):
            name = "max_pairs" if ignore is None else "ignore"
            raise OptionError(f"{name} is about pairs of triangles, but this search ends at spheres; pass exact=True")
        context = self._context
        if (
            context is None
            or context.trees[0].elements.mark is not context.trees[0].mark
            or context.trees[1].elements.mark is not context.trees[1].mark
        ):
            context = self._bind()
            if context is None:
                return self._without_search(budget, None)
        a, b = context.trees
        triangle_filter = None
        if not (active_a is None and active_b is None and ignore is None):
            triangle_filter = TriangleFilter(context.trees, (active_a, active_b), ignore, self.is_self)
        locks = (self._lock, a.lock, b.lock) if id(a) < id(b) else (self._lock, b.lock, a.lock)
        held = 0
        try:
            for lock in locks:
                if not (lock.acquire(False) or _wait_for(lock, budget, cancel)):
                    return self._without_search(budget, cancel)
                held += 1
            a.set_state(matrix_a)
            if b is not a:
                b.set_state(matrix_b)
            if context.level != level:
                context.set_level(level)
            return self._search(context, budget, triangle_filter, max_pairs, cancel)
        finally:
            for lock in locks[:held]:
                lock.release()

    def _search(
        self,
        context: SearchContext,
        budget: Budget,
        kept: TriangleFilter | None,
        most: int | None,
        cancel: Cancel | None,
    ) -> SphereContacts:
        """Search with a bound context, under the locks of its trees, for at most so many pairs of triangles."""
        stages, end, level = start_stages(), budget.end_ns, context.level
        a, b = trees = context.trees
        if a.is_layered or b.is_layered:
            latest = context.deadline(budget.began_ns, end)
            if not all(not tree.is_layered or tree.track_all(latest) for tree in trees):
                end = 0
        if stages is not NO_STAGES:
            stages.done("update")
        stop, lowest, deadline, tests, possible, certain, stats = context.search(budget, end, cancel)
        if stages is not NO_STAGES:
            stages.done("search")
        reached, reason = max(a.layout.finest, b.layout.finest), cast("Reason | None", None)
        if len(possible):
            is_cancelled = cancel is not None and stop == OUT_OF_TIME and cancel.is_set()
            reached, reason = lowest, "cancelled" if is_cancelled else "budget"
        if level is not None:
            leaf_a, leaf_b = (tree.tree.child_count == 0 for tree in trees)
            are_leaves = leaf_a[certain[:, 0]] & leaf_b[certain[:, 1]]
            if not are_leaves.all():
                possible, certain = np.concatenate([possible, certain[~are_leaves]]), certain[are_leaves]
                reached, reason = min(reached, level), reason or "limit"
        if kept is not None:
            possible, certain = kept.nodes(possible), kept.nodes(certain)
            reason = reason if len(possible) else None
        pairs, kind = None, None
        if self._exact is not None:
            limits = budget.tests - tests, deadline
            certain, untested, pairs, kind, counters = self._exact.resolve(context, certain, limits, cancel, kept)
            stats |= counters
            tests += counters["triangle_tests"]
            if len(untested):
                possible = np.concatenate([untested, possible])
                reason = reason or ("cancelled" if cancel is not None and cancel.is_set() else "budget")
            if most is not None and len(pairs) > most:
                pairs, kind, reason = pairs[:most], kind[:most], reason or "limit"
        spheres = (a.spheres, b.spheres)
        if context.one_body is not None:
            spheres = (a.spheres._replace(one_body=context.one_body),) * 2
        surfaces = (a.orientation, a.x, a.faces, a.matrix), (b.orientation, b.x, b.faces, b.matrix)
        fields = {
            "certain": certain,
            "possible": possible,
            "level": reached,
            "tests": tests,
            "pairs": pairs,
            "kind": kind,
        }
        fields |= {"is_self": self.is_self, "spheres": spheres, "surfaces": surfaces, "bodies": self.bodies}
        fields |= {"reason": reason, "complete": reason is None, "method": self.name, "stats": stats}
        fields["elapsed_ms"] = 1e-6 * (now_ns() - budget.began_ns)
        result = object.__new__(SphereContacts)  # the constructor would take microseconds longer
        object.__setattr__(result, "__dict__", fields)
        if stages is not NO_STAGES:
            stages.done("list")
            stats.update(stages.times())
        context.returned = 0 if budget.end_ns == NEVER else now_ns()
        return result

    def _without_search(self, budget: Budget, cancel: Cancel | None) -> SphereContacts:
        """The result without any test: both roots are possible; nothing is, where a body has no triangles."""
        is_empty = not all(body.live_count for body in self.bodies)
        reason: Reason | None = None if is_empty else "cancelled" if cancel and cancel.is_set() else "budget"
        possible = NO_PAIRS if is_empty else np.zeros((1, 2), dtype=np.int32)
        pairs, kind = (NO_PAIRS, NO_KINDS) if self.exact else (None, None)
        return SphereContacts(
            certain=NO_PAIRS, possible=possible, level=0, pairs=pairs, kind=kind, is_self=self.is_self,
            bodies=self.bodies, complete=is_empty, reason=reason, method=self.name,
            stats={"tests": 0, "outdated": not is_empty}, elapsed_ms=1e-6 * (now_ns() - budget.began_ns),
        )  # fmt: skip

    def skipped(self) -> SphereContacts:
        """The result of a query without any time: nothing is ruled out."""
        return self._without_search(Budget(), None)

    def roots(self) -> tuple[Floats, Floats]:
        """Bounding spheres of both bodies as the last query tracked them, at rest before the first; NaN if empty."""
        context = self._context or self._bind()
        return (np.full(4, np.nan),) * 2 if context is None else (context.trees[0].root, context.trees[1].root)


def _wait_for(lock: Any, budget: Budget, cancel: Cancel | None) -> bool:
    """Wait for a lock until the time is up or the query is cancelled; whether it was acquired."""
    while cancel is None or not cancel.is_set():
        left = NEVER if budget.end_ns == NEVER else max(budget.end_ns - now_ns(), 0)
        wait = left if cancel is None else min(left, SLICE_NS)
        if lock.acquire(timeout=-1.0 if wait == NEVER else 1e-9 * wait):
            return True
        if wait == left:
            return False
    return False
