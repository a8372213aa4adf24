"""Build a tree of spheres over the surface of a mesh ([MendozaOSullivan2005], section 4).

1. Cut    triangles that are long beside the leaves into pieces (``sphere_pieces``), so that no ball is as large as it
          is only because a triangle is.
2. Build  "octree": clusters of pieces (``sphere_clusters``), for any surface. "medial": adaptive medial axis
          (``sphere_medial``), for closed surfaces; others get the quick tree, and the log says so.
3. Order  pieces along the tree, so that those under any node are a range.
4. Sink   "octree": the centres of leaves below closed surfaces (``sphere_sinking``), so that lines between centres are
          normals of contacts.
5. Round  radii up to what holds the pieces for certain; "layered": to what holds the children's balls.

Far       from the origin, steps 1 to 4 are about positions counted from the middle of the body: squares of coordinates
          would be all rounding.

Guarantee Every corner of a piece is in the balls of its leaf and of all ancestors, in exact arithmetic and in doubles;
          the pieces of a triangle tile it. The same bits for the same mesh, options and seed, whatever the threads.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from impinge.checks import NONE, Floats, Ints, as_length, shown
from impinge.detect.sphere_tree.build import clusters_kernels as kernels
from impinge.detect.sphere_tree.build.clusters import Draft, Wide, draft_by_clusters
from impinge.detect.sphere_tree.build.medial import draft_by_medial_axis
from impinge.detect.sphere_tree.build.pieces import Pieces, cut_to_length, length_for
from impinge.detect.sphere_tree.build.sinking import outward_sign, sunk_centres
from impinge.detect.sphere_tree.hierarchy import Builder, Kind, SphereHierarchy, digest_of_faces
from impinge.errors import MeshError, OptionError
from impinge.mesh.body import as_surface
from impinge.mesh.tri_mesh import TriMesh

logger = logging.getLogger("impinge")

PIECES_PER_LEAF = 8
"""How many pieces cutting adds at most per leaf: more make balls no smaller by more than a few percent."""
LEAVES_TO_CUT_FOR = 1 << 15
"""Trees with more leaves are cut no finer, unless the mesh is: the deepest levels then hold single pieces."""
MOST_LEVELS = 30
MOST_SUNK = 100.0
FAR = 16.0
"""How many times as far from the origin as it is large a body is counted from its own middle."""
LARGE, SMALL = 2.0**400, 2.0**-400
"""Coordinates whose squares may leave the range of doubles are scaled first, by a power of two."""


TINY = 2.0**-900
"""Bodies below may have radii that are no normal doubles."""
MOST_SCALED = 1000
"""Exponent of the largest factor; 2^1024 is no double."""


class Surface(NamedTuple):
    """What is built on: positions of moderate size, and live triangles."""

    vertices: Floats
    faces: Ints
    live: Ints
    factor: float
    """A power of two: positions of the mesh times this are ``vertices``."""
    middle: Floats
    """What a body is counted from while its tree is made; zero, unless it is far away."""

    @property
    def nearby(self) -> Surface:
        """The same at the origin."""
        return self._replace(vertices=self.vertices - self.middle) if self.middle.any() else self


def build_spheres(
    mesh: Any,
    *,
    builder: Builder = "medial",
    kind: Kind = "wrapped",
    branching: int = 8,
    levels: int = 4,
    samples: int = 10_000,
    seed: int = 0,
    sink: float = 1.5,
) -> SphereHierarchy:
    """Spheres around the surface of ``mesh`` as it is now: a root, and ``levels`` levels below it.

    ``builder`` "medial" takes a minute or so and fits a solid best, "octree" takes a fraction of a second and any
    surface. ``kind`` "wrapped": a sphere holds the surface below it; "layered": the spheres below it, too.
    ``branching``: most children of a sphere. ``samples``: points of the surface that the medial axis starts from and
    ``seed`` where they are. ``sink``: how much larger than the smallest the leaves of "octree" may be, to have their
    centres below a closed surface; 1 takes the smallest.
    """
    body = as_surface(mesh, name="mesh")
    _check(builder, ("medial", "octree"), "builder")
    _check(kind, ("wrapped", "layered"), "kind")
    branching = _whole(branching, "branching", least=2, most=64)
    levels = _whole(levels, "levels", least=0, most=MOST_LEVELS)
    samples = _whole(samples, "samples", least=4, most=10_000_000)
    seed = _whole(seed, "seed", least=0, most=2**32 - 1)
    if not 1.0 <= (as_length(sink) or 0.0) <= MOST_SUNK:
        raise OptionError(f"sink is {shown(sink)}, expected a number from 1, for the smallest leaves, to {MOST_SUNK:g}")
    snapshot = body.snapshot()
    if not len(snapshot.live):
        raise MeshError("the mesh has no live triangles, so there is nothing to put spheres around; add some first")
    surface = _moderate(snapshot.vertices, snapshot.elements, snapshot.live)
    nearby = surface.nearby
    pieces = _cut(nearby, branching, levels)
    draft = None
    if builder == "medial":
        draft = _draft_medial(nearby, pieces, branching=branching, levels=levels, samples=samples, seed=seed)
    built_by: Builder = "octree" if draft is None else "medial"
    if draft is None:
        draft = draft_by_clusters(pieces, _points(pieces, nearby), branching=branching, levels=levels)
    sunk = float(sink) if built_by == "octree" and sink > 1.0 else 1.0
    tree = _finish(draft, surface, layered=kind == "layered", sink=sunk)
    return SphereHierarchy(
        **tree,
        rest=np.array(snapshot.vertices),
        faces_digest=digest_of_faces(snapshot.elements, snapshot.live, len(snapshot.vertices)),
        branching=branching,
        kind=kind,
        builder=built_by,
    )


# Steps ----------------------------------------------------------------------------------------------------


def _moderate(vertices: Floats, faces: Ints, live: Ints) -> Surface:
    """The surface, scaled if squares of its coordinates would leave the range of doubles, and where it is."""
    size = float(np.abs(vertices[faces[live]]).max())
    factor = 1.0 if size == 0.0 or SMALL <= size <= LARGE else 2.0 ** min(-int(np.frexp(size)[1]), MOST_SCALED)
    scaled = factor * vertices
    used = scaled[faces[live]].reshape(-1, 3)
    low, high = used.min(axis=0), used.max(axis=0)
    middle = 0.5 * (low + high)
    is_far = np.abs(middle).max() > FAR * (high - low).max()
    return Surface(scaled, faces, live, factor, middle if is_far else np.zeros(3))


def _cut(surface: Surface, branching: int, levels: int) -> Pieces:
    leaves = min(float(branching) ** levels, float(LEAVES_TO_CUT_FOR))
    length = length_for(surface.live, surface.vertices, surface.faces, int(PIECES_PER_LEAF * leaves))
    return cut_to_length(surface.live, surface.vertices, surface.faces, length)


def _points(pieces: Pieces, surface: Surface) -> Floats:
    return pieces.points(surface.vertices, surface.faces)


def _draft_medial(surface: Surface, pieces: Pieces, *, branching: int, levels: int, **options: int) -> Draft | None:
    """The tree along the medial axis; None, which the log tells, if the surface has no inside."""
    body = TriMesh(surface.vertices, surface.faces[surface.live], validate="trust")
    if not body.is_closed:
        logger.warning("the surface is open, so it has no medial axis; its sphere tree is built with builder='octree'")
        return None
    of_body = Pieces(np.searchsorted(surface.live, pieces.triangle).astype(np.int32), pieces.corner)
    with _progress(branching, levels) as step:
        draft = draft_by_medial_axis(
            body, of_body, _points(pieces, surface), branching=branching, levels=levels, step=step, **options
        )
    if draft is None:
        logger.warning(
            "the surface encloses nothing, so it has no medial axis; its tree is built with builder='octree'"
        )
        return None
    return draft._replace(pieces=Pieces(surface.live[draft.pieces.triangle], draft.pieces.corner))


@contextmanager
def _progress(branching: int, levels: int) -> Iterator[Callable[[int], None]]:
    """A bar over the nodes to be divided, on a terminal; silent elsewhere."""
    if sys.stderr is None or not sys.stderr.isatty() or os.environ.get("IMPINGE_QUIET"):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("building spheres", total=sum(branching**level for level in range(levels)))
        yield lambda count: bar.advance(task, count)


def _finish(draft: Draft, surface: Surface, *, layered: bool, sink: float) -> dict[str, Any]:
    """Order the pieces along the tree, and let radii hold them for certain."""
    first_child, child_count = _children(draft.parent)
    start, stop = _ranges(draft, first_child)
    pieces = draft.pieces.take(np.argsort(start[draft.leaf], kind="stable"))
    nearby = surface.nearby
    centre, points = draft.centre.copy(), _points(pieces, nearby)
    sign = outward_sign(nearby.vertices, nearby.faces[nearby.live]) if sink > 1.0 else 0.0
    if sign != 0.0:
        radius = _radii(start, stop, centre, points.reshape(-1, 3), _slack(pieces, nearby))
        centre = sunk_centres(centre, radius, child_count == 0, start, points, sign * sink)
    centre += surface.middle
    radius = _radii(start, stop, centre, _points(pieces, surface).reshape(-1, 3), _slack(pieces, surface))
    if layered:
        kernels.layer_upwards(first_child, child_count, centre, radius)
    return {
        "centre": centre / surface.factor,
        "radius": radius / surface.factor + _lost_below_normal(surface.factor, draft.level_start),
        "first_child": first_child,
        "child_count": child_count,
        "parent": draft.parent,
        "level_start": draft.level_start,
        "piece_triangle": pieces.triangle,
        "piece_corner": pieces.corner,
        "piece_start": start.astype(np.int32),
        "piece_stop": stop.astype(np.int32),
    }


def _radii(start: Wide, stop: Wide, centre: Floats, points: Floats, slack: Floats) -> Floats:
    radius = np.zeros(len(start))
    kernels.radii_around_pieces.over(len(start))(start, stop, centre, points, slack, radius)
    return radius


def _children(parent: Ints) -> tuple[Ints, Ints]:
    """First child and number of children of every node, from the parents of nodes whose siblings stand together."""
    child_count = np.bincount(parent[1:], minlength=len(parent)).astype(np.int32)
    first_child = np.full(len(parent), NONE, dtype=np.int32)
    has_any, first = np.unique(parent[1:], return_index=True)
    first_child[has_any] = first + 1
    return first_child, child_count


def _ranges(draft: Draft, first_child: Ints) -> tuple[Wide, Wide]:
    """Range of pieces under every node: sizes from the leaves up, starts from the root down."""
    size = np.bincount(draft.leaf, minlength=len(draft.parent))
    levels = list(zip(draft.level_start[:-1], draft.level_start[1:], strict=True))
    for first, stop in reversed(levels[1:]):
        np.add.at(size, draft.parent[first:stop], size[first:stop])
    start = np.zeros(len(size), dtype=np.int64)
    for first, stop in levels[1:]:
        before = np.cumsum(size[first:stop]) - size[first:stop]
        parent = draft.parent[first:stop]
        start[first:stop] = start[parent] + before - before[first_child[parent] - first]
    return start, start + size


def _slack(pieces: Pieces, surface: Surface) -> Floats:
    """How far corners may be from where doubles put them: nothing for vertices, roundings for middles of edges."""
    is_cut = ~(pieces.corner == np.eye(3)).all(axis=(1, 2))
    size = np.abs(surface.vertices[surface.faces[pieces.triangle]]).max(axis=(1, 2))
    lost = np.finfo(np.float64).tiny if surface.factor < 1.0 else 0.0  # what scaling down may have flushed to zero
    return np.asarray(np.where(is_cut, 8.0 * np.finfo(np.float64).eps * size, 0.0) + lost)


def _lost_below_normal(factor: float, level_start: Ints) -> Floats:
    """What radii of subnormal size may lack when they are scaled back: some units for each level from the leaves up."""
    levels = len(level_start) - 1
    height = np.repeat(np.arange(levels, 0, -1), np.diff(level_start))
    unit = np.finfo(np.float64).smallest_subnormal if factor > 1.0 / TINY else 0.0
    return np.asarray(8.0 * height * unit)


# Options --------------------------------------------------------------------------------------------------


def _check(value: Any, allowed: tuple[str, ...], name: str) -> None:
    if value not in allowed:
        raise OptionError(f"{name} is {shown(value)}, expected one of {', '.join(map(repr, allowed))}")


def _whole(value: Any, name: str, *, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        raise OptionError(f"{name} is {shown(value)}, expected a whole number from {least} to {most}")
    return int(value)
