"""Build a sphere tree over the surface of a mesh ([MendozaOSullivan2005], section 4).

1. Cut    triangles that are long compared with the leaves into pieces (``pieces``): no ball is large only because a
          triangle is.
2. Build  "octree": clusters of pieces (``clusters``), for any surface. "medial": adaptive medial axis (``medial``), for
          closed surfaces; others get the quick tree, with a warning in the log.
3. Order  pieces along the tree: the pieces under any node are a range.
4. Sink   "octree": the centres of leaves below closed surfaces (``sinking``): lines between centres are then normals of
          contacts.
5. Round  radii up to hold the pieces in exact arithmetic; "layered": to hold the balls of the children.

Far       from the origin, steps 1 to 4 use positions relative to the middle of the body: squares of coordinates would
          be all rounding.

Guarantee Every corner of a piece is in the balls of its leaf and of all ancestors, in exact arithmetic and in doubles;
          the pieces of a triangle tile it. The same bits for the same mesh, options and seed, for any thread count.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import numpy as np

from impinge.checks import NONE, Floats, Ints, as_choice, as_number, as_whole, check_finite
from impinge.detect.sphere_tree.build import clusters_kernels as kernels
from impinge.detect.sphere_tree.build.clusters import draft_by_clusters, radii_around
from impinge.detect.sphere_tree.build.medial import draft_by_medial_axis
from impinge.detect.sphere_tree.build.pieces import Pieces, cut_to_length, length_for
from impinge.detect.sphere_tree.build.sinking import outward_sign, sunk_centres
from impinge.detect.sphere_tree.hierarchy import Builder, Kind, SphereHierarchy, digest_of_faces
from impinge.errors import MeshError
from impinge.mesh.body import SurfaceLike, as_surface
from impinge.mesh.tri_mesh import TriMesh

logger = logging.getLogger("impinge")

PIECES_PER_LEAF = 8
"""Most pieces that cutting adds per leaf: more shrink balls by a few percent only."""
LEAVES_TO_CUT_FOR = 1 << 15
"""Trees with more leaves are cut no finer, unless the mesh is: the deepest levels then hold single pieces."""
MOST_LEVELS = 30
MOST_SUNK = 100.0
FAR = 16.0
"""Distance from the origin, relative to the size, from which a body is counted from its own middle."""
LARGE, SMALL = 2.0**400, 2.0**-400
"""Coordinates whose squares may leave the range of doubles are scaled first, by a power of two."""
TINY = 2.0**-900
"""Bodies below may have subnormal radii."""
MOST_SCALED = 1000
"""Exponent of the largest factor; 2^1024 is no double."""
EPS = float(np.finfo(np.float64).eps)


def build_spheres(
    mesh: SurfaceLike,
    *,
    builder: Builder = "medial",
    kind: Kind = "wrapped",
    branching: int = 8,
    levels: int = 4,
    samples: int = 10_000,
    seed: int = 0,
    sink: float = 1.5,
) -> SphereHierarchy:
    """Build a tree of spheres around the surface of a mesh as it is now: a root, and ``levels`` levels below it.

    Parameters
    ----------
    mesh : body
        As in ``triangle_pairs``.
    builder : {"medial", "octree"}
        "medial" takes a minute or so and fits a solid best; "octree" takes a fraction of a second, for any surface.
    kind : {"wrapped", "layered"}
        A sphere holds the surface below it, or the spheres below it, too.
    branching : int
        Most children of a sphere, 2 to 64.
    levels : int
        Levels below the root, at most 30.
    samples, seed : int
        Surface points that the medial axis starts from, and the seed of their places.
    sink : float
        How much larger than the smallest ball the leaves of "octree" may be, to have their centres below a closed
        surface; 1 takes the smallest.

    Returns
    -------
    SphereHierarchy
        For ``tree_a=`` and ``tree_b=`` of ``SphereTree``.

    Raises
    ------
    OptionError
        If an option is out of its range.
    MeshError
        If the mesh has no live triangles.
    """
    body = as_surface(mesh, name="mesh")
    as_choice(builder, "builder", ("medial", "octree"))
    as_choice(kind, "kind", ("wrapped", "layered"))
    branching = as_whole(branching, "branching", least=2, most=64)
    levels = as_whole(levels, "levels", least=0, most=MOST_LEVELS)
    samples = as_whole(samples, "samples", least=4, most=10_000_000)
    seed = as_whole(seed, "seed", least=0, most=2**32 - 1)
    expected = f"a number from 1, for the smallest leaves, to {MOST_SUNK:g}"
    sink = as_number(sink, "sink", expected, least=1.0, most=MOST_SUNK)
    vertices, faces, live, _ = body.snapshot()
    if not len(live):
        raise MeshError("the mesh has no live triangles, so there is nothing to put spheres around; add some first")
    check_finite(vertices, "vertices")

    # positions of moderate size, near the origin
    size = float(np.abs(vertices[faces[live]]).max())
    factor = 1.0 if size == 0.0 or SMALL <= size <= LARGE else 2.0 ** min(-int(np.frexp(size)[1]), MOST_SCALED)
    x = factor * vertices
    used = x[faces[live]].reshape(-1, 3)
    low, high = used.min(axis=0), used.max(axis=0)
    middle = 0.5 * (low + high)
    is_far = np.abs(middle).max() > FAR * (high - low).max()
    near = x - middle if is_far else x

    count = int(PIECES_PER_LEAF * min(float(branching) ** levels, float(LEAVES_TO_CUT_FOR)))
    pieces = cut_to_length(live, near, faces, length_for(live, near, faces, count))
    draft, points = None, pieces.points(near, faces)
    if builder == "medial":
        solid, lack = TriMesh(near, faces[live], validate="trust"), "is open"
        if solid.is_closed:
            of_solid = Pieces(np.searchsorted(live, pieces.triangle).astype(np.int32), pieces.corner)
            with _progress(branching, levels) as step:
                draft = draft_by_medial_axis(solid, of_solid, points, branching, levels, samples, seed, step)
            lack = "encloses nothing"
        if draft is None:
            logger.warning(
                "the surface %s, so it has no medial axis; its sphere tree is built with builder='octree'", lack
            )
        else:
            draft = draft._replace(pieces=Pieces(live[draft.pieces.triangle], draft.pieces.corner))
    built_by: Builder = "octree" if draft is None else "medial"
    if draft is None:
        draft = draft_by_clusters(pieces, points, branching=branching, levels=levels)
    parent, level_start = draft.parent, draft.level_start
    child_count = np.bincount(parent[1:], minlength=len(parent)).astype(np.int32)
    first_child: Ints = np.full(len(parent), NONE, dtype=np.int32)
    inner, first = np.unique(parent[1:], return_index=True)
    first_child[inner] = first + 1

    # the range of pieces under every node: sizes from the leaves up, starts from the root down
    size_of, start = np.bincount(draft.leaf, minlength=len(parent)), np.zeros(len(parent), dtype=np.int64)
    spans = [slice(*span) for span in pairwise(level_start[1:])]
    for span in reversed(spans):
        np.add.at(size_of, parent[span], size_of[span])
    for span in spans:
        before = np.cumsum(size_of[span]) - size_of[span]
        start[span] = start[parent[span]] + before - before[first_child[parent[span]] - span.start]
    stop = start + size_of
    pieces = draft.pieces.take(np.argsort(start[draft.leaf], kind="stable"))

    # corners are known exactly if they are vertices, up to rounding where edges were cut
    is_cut = ~(pieces.corner == np.eye(3)).all(axis=(1, 2))
    lost = np.finfo(np.float64).tiny if factor < 1.0 else 0.0  # what scaling down may have flushed to zero

    def radii(centre: Floats, x: Floats) -> Floats:
        largest = np.abs(x[faces[pieces.triangle]]).max(axis=(1, 2))
        slack = np.where(is_cut, 8.0 * EPS * largest, 0.0) + lost
        return radii_around(start, stop, centre, pieces.points(x, faces), slack)

    centre = draft.centre.copy()
    sign = outward_sign(near, faces[live]) if sink > 1.0 and built_by == "octree" else 0.0
    if sign != 0.0:
        points = pieces.points(near, faces)
        centre = sunk_centres(centre, radii(centre, near), child_count == 0, start, points, sign * sink)
    centre += middle if is_far else 0.0
    radius = radii(centre, x)
    if kind == "layered":
        kernels.layer_upwards(first_child, child_count, centre, radius)
    # scaling back may cost subnormal radii some units for each level from the leaves up
    height = np.repeat(np.arange(len(level_start) - 1, 0, -1), np.diff(level_start))
    unit = np.finfo(np.float64).smallest_subnormal if factor > 1.0 / TINY else 0.0
    nodes = centre / factor, radius / factor + 8.0 * height * unit, first_child, child_count, parent, level_start
    ranges = start.astype(np.int32), stop.astype(np.int32)
    digest = digest_of_faces(faces, live, len(vertices))
    return SphereHierarchy(*nodes, *pieces, *ranges, np.array(vertices), digest, branching, kind, built_by)


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
