"""Tightness of sphere trees, level by level: section 4.1 and Fig. 8 of [MendozaOSullivan2005].

Protocol   Trees of every body are built, timed, and measured per level (``p001_tightness``): volume of the union of
           the spheres outside of the solid, worst and mean stand-off.
Bodies     Substitutes: a bumpy sphere of as many triangles as its scans, a knot, a drilled plate of
           long thin triangles, and a long box of twelve triangles.
Candidates clusters and medial axis, wrapped and layered; clusters whose leaves are sunk below the surface
           (``sphere_sinking``); the medial axis of ``published.interruptible``, wrapped; and a sphere around every
           polygon, which Fig. 8 warns of.
Claims     Each level is a tighter fit; wrapped is always tighter than layered; spheres placed on the surface of the
           triangles avoid large bounding spheres; and, implied by the choice of the medial axis, it fits tighter than
           clusters of the surface. Ours: sunk leaves fit tighter than the smallest around the same pieces.
"""

from __future__ import annotations

from dataclasses import astuple, replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.measure import Row, Sizes, timed
from benchmarks.papers.experiment import NOISE, Claim, Experiment, Plot, Table, judged
from benchmarks.papers.p001_tightness import Tightness, tightness_by_level, tightness_of_balls
from impinge.detect.sphere_tree.build.build import build_spheres
from impinge.detect.sphere_tree.build.clusters import balls_around
from impinge.detect.sphere_tree.build.clusters_kernels import layer_upwards
from impinge.detect.sphere_tree.hierarchy import SphereHierarchy
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh
from impinge.published.interruptible import SphereTree, build_sphere_tree
from impinge.view.picture import BODY_COLOURS, sphere_triangles
from impinge.view.rendering import DrawItem, Pixels, render

FINE_SPHERES_BELOW = 100
"""More spheres are drawn with fewer triangles each."""
PROTOCOL = """
Substitute geometry: the paper's bunny and dragon are not part of this package. Trees have {branching} children and
{levels} levels below the root. Volumes outside of the solid are those of the union of the spheres, by {samples:,}
points per level; stand-offs are measured at 162 points of every sphere. Times are those of building wrapped trees,
off-line, once each; layered ones are the same with larger spheres above the leaves.
"""

TREES: dict[str, dict[str, Any]] = {
    "clusters": {"builder": "octree", "sink": 1.0},
    "sunk clusters": {"builder": "octree"},
    "medial": {"builder": "medial"},
}
PUBLISHED = "medial, as published"
POLYGONS = "a sphere per polygon"


FULL = Sizes(
    bodies={
        "bumpy sphere": lambda: shapes.bumpy_sphere(6),
        "knot": lambda: shapes.torus_knot(2, 3, 400, 48),
        "drilled plate": lambda: shapes.cad_part((6, 4), size=(6.0, 4.0, 0.5)),
        "long box": lambda: shapes.box((20.0, 1.0, 1.0)),
    },
    levels=4,
    samples=200_000,
)
QUICK = Sizes(
    bodies={"bumpy sphere": lambda: shapes.bumpy_sphere(2), "long box": lambda: shapes.box((20.0, 1.0, 1.0))},
    levels=2,
    samples=2000,
)
BRANCHING = 8

Found = dict[str, dict[str, list[Tightness]]]
"""By body, then by tree, level by level; a sphere per polygon is one level."""


def run(*, quick: bool = False) -> Experiment:
    """Build and measure all trees; ``quick`` takes small bodies and two levels."""
    sizes = QUICK if quick else FULL
    found: Found = {}
    rows: list[Row] = []
    shown: list[tuple[str, TriMesh, SphereHierarchy]] = []
    _compile()
    for name, make in sizes.bodies.items():
        body = make()
        trees, published = _build_all(f"{name}, {len(body)} triangles", body, sizes.levels, rows)
        found[name] = {
            tree: tightness_by_level(each, body, samples=sizes.samples) for tree, each in _both_kinds(trees).items()
        }
        found[name][PUBLISHED] = tightness_by_level(published, body, samples=sizes.samples)
        found[name][POLYGONS] = [_polygons(body, sizes.samples)]
        shown.append((name, body, trees["medial"]))
    return Experiment(
        name="p001_trees",
        title="Sphere trees: how tightly they fit, level by level",
        protocol=PROTOCOL.format(branching=BRANCHING, levels=sizes.levels, samples=sizes.samples),
        rows=rows,
        claims=claims(found),
        tables=[_table(found)],
        plot=_plot(found, shown[:1] if quick else shown, sizes.levels),
        quick=quick,
    )


def _compile() -> None:
    """Build small trees: compile before anything is timed."""
    for options in TREES.values():
        build_spheres(shapes.icosphere(1), levels=1, samples=100, **options)
    build_sphere_tree(shapes.icosphere(1), levels=1, samples=100)


def _build_all(
    scene: str, body: TriMesh, levels: int, rows: list[Row]
) -> tuple[dict[str, SphereHierarchy], SphereTree]:
    """Build the wrapped trees of a body, the published one last; append the time of each to ``rows``."""
    trees, times = {}, {}
    for name, options in TREES.items():
        build = partial(build_spheres, body, branching=BRANCHING, levels=levels, **options)
        times[name], trees[name] = timed(build)
    times[PUBLISHED], published = timed(lambda: build_sphere_tree(body, branching=BRANCHING, levels=levels))
    base = next(iter(times.values()))
    rows += [Row(scene, name, taken, taken, taken / base) for name, taken in times.items()]
    return trees, published


def _both_kinds(trees: dict[str, SphereHierarchy]) -> dict[str, SphereHierarchy]:
    """The trees, and the same with spheres that hold those below them."""
    found = {}
    for name, tree in trees.items():
        layered = replace(tree, kind="layered", centre=tree.centre.copy(), radius=tree.radius.copy())
        layer_upwards(tree.first_child, tree.child_count, layered.centre, layered.radius)
        found[f"{name}, wrapped"], found[f"{name}, layered"] = tree, layered
    return found


def _polygons(body: TriMesh, samples: int) -> Tightness:
    """The smallest sphere around each triangle."""
    corners = body.vertices[body.faces]
    centre = balls_around(np.ones(len(corners), dtype=np.int64), corners)
    radius = np.linalg.norm(corners - centre[:, None], axis=2).max(axis=1)
    return tightness_of_balls(body, centre, radius, samples=samples)


# Claims -------------------------------------------------------------------------------------------------------


def claims(found: Found) -> list[Claim]:
    """Verdicts on the claims of the paper."""
    return [_tighter_by_level(found), _wrapped(found), _polygon_spheres(found), _medial(found), _sunk(found)]


def _tighter_by_level(found: Found) -> Claim:
    """Held if volume outside and mean stand-off fall from each level to the next, in the wrapped medial trees."""
    steps = [
        (after.outside_volume / before.outside_volume, after.mean_stand_off / before.mean_stand_off)
        for trees in found.values()
        for before, after in zip(trees["medial, wrapped"], trees["medial, wrapped"][1:])
    ]
    volume, stand_off = (max(each) for each in zip(*steps))
    return judged(
        '"each level of the hierarchy represents a tighter fit to the object"',
        f"from one level to the next the volume outside falls to {volume:.0%} or less, the mean stand-off to "
        f"{stand_off:.0%} or less",
        volume < 1.0 and stand_off < 1.0,
    )


def _wrapped(found: Found) -> Claim:
    """Held if no level of a layered tree has less volume outside, or a smaller worst stand-off, beyond noise."""
    ratios = [
        (wrapped.outside_volume / layered.outside_volume, wrapped.worst_stand_off / layered.worst_stand_off)
        for trees in found.values()
        for kind in ("clusters", "medial")
        for wrapped, layered in list(zip(trees[f"{kind}, wrapped"], trees[f"{kind}, layered"]))[:-1]  # leaves are equal
    ]
    volume, stand_off = (np.array(each) for each in zip(*ratios))
    return judged(
        '"the wrapped hierarchy is always tighter than the layered hierarchy"',
        f"above the leaves, which are equal, the volume outside is {volume.min():.2f} to {volume.max():.2f} of the "
        f"layered one, the worst stand-off {stand_off.min():.2f} to {stand_off.max():.2f} of it",
        bool((volume < 1.0 + NOISE).all() and (stand_off < 1.0 + NOISE).all()),
    )


def _polygon_spheres(found: Found) -> Claim:
    """Held if on long thin triangles no more medial spheres than there are polygons stand off less, worst and mean."""
    details, holds = [], True
    for body in ("drilled plate", "long box"):
        if body not in found:
            continue
        polygons = found[body][POLYGONS][0]
        level = [each for each in found[body]["medial, wrapped"] if each.count <= polygons.count][-1]
        details.append(
            f"{body}: {polygons.count} spheres of polygons stand off {polygons.mean_stand_off:.3g} (worst "
            f"{polygons.worst_stand_off:.3g}), {level.count} of the tree {level.mean_stand_off:.3g} (worst "
            f"{level.worst_stand_off:.3g})"
        )
        holds &= level.mean_stand_off < polygons.mean_stand_off and level.worst_stand_off < polygons.worst_stand_off
    return judged(
        '"putting spheres on the surface of the triangles avoids large bounding spheres" (Fig. 8)',
        "; ".join(details),
        holds,
    )


def _medial(found: Found) -> Claim:
    """Held if, below the root, no level of clusters has less volume outside or a smaller worst stand-off."""
    ratios = [
        (medial.outside_volume / clusters.outside_volume, medial.worst_stand_off / clusters.worst_stand_off)
        for trees in found.values()
        for medial, clusters in list(zip(trees["medial, wrapped"], trees["clusters, wrapped"]))[1:]
    ]
    volume, stand_off = (np.array(each) for each in zip(*ratios))
    return judged(
        'the medial axis gives "a higher degree of accuracy" (here: than clusters of the surface)',
        f"below the root the volume outside is {volume.min():.2f} to {volume.max():.2f} of that of clusters, the worst "
        f"stand-off {stand_off.min():.2f} to {stand_off.max():.2f} of theirs",
        bool((volume < 1.0 + NOISE).all() and (stand_off < 1.0 + NOISE).all()),
    )


def _sunk(found: Found) -> Claim:
    """Held if sunk leaves have less volume outside and a smaller worst stand-off, on every body."""
    ratios = [
        (sunk.outside_volume / smallest.outside_volume, sunk.worst_stand_off / smallest.worst_stand_off)
        for sunk, smallest in (
            (trees["sunk clusters, wrapped"][-1], trees["clusters, wrapped"][-1]) for trees in found.values()
        )
    ]
    volume, stand_off = (np.array(each) for each in zip(*ratios))
    return judged(
        "leaves that are larger by half and sunk below the surface fit tighter than the smallest (ours)",
        f"the volume outside is {volume.min():.2f} to {volume.max():.2f} of that of the smallest, the worst stand-off "
        f"{stand_off.min():.2f} to {stand_off.max():.2f} of theirs",
        bool((volume < 1.0).all() and (stand_off < 1.0).all()),
    )


# Table and picture --------------------------------------------------------------------------------------------


def _table(found: Found) -> Table:
    columns = ("body", "tree", "level", "spheres", "mean radius", "volume outside", "its deviation", "mean stand-off")
    rows = [
        (body, tree, level, *astuple(each))
        for body, trees in found.items()
        for tree, levels in trees.items()
        for level, each in enumerate(levels)
    ]
    return Table("levels", "Tightness by level", (*columns, "worst stand-off"), rows)


def _plot(found: Found, shown: list[tuple[str, TriMesh, SphereHierarchy]], levels: int) -> Plot:
    """A row per body: volume and stand-off over the level, then the medial spheres of the levels below the root."""

    def draw(figure: Any) -> None:
        panels = figure.subplots(len(shown), 2 + levels, squeeze=False)
        for (name, body, tree), row in zip(shown, panels):
            for label, each in found[name].items():
                if label != POLYGONS:
                    row[0].plot([level.outside_volume for level in each], marker="o", label=label)
                    row[1].plot([level.worst_stand_off for level in each], marker="o", label=label)
            row[0].set(title=f"{name}: volume outside", yscale="log", xlabel="level")
            row[1].set(title="worst stand-off", yscale="log", xlabel="level")
            row[0].legend()
            for level, panel in enumerate(row[2:], start=1):
                panel.imshow(picture_of_level(tree, body, level))
                panel.set_axis_off()

    return Plot((5.0 * (2 + levels), 4.0 * len(shown)), draw)


def picture_of_level(tree: SphereHierarchy, body: TriMesh, level: int) -> Pixels:
    """A body and the spheres of one level of its tree, leaves of higher levels included."""
    nodes, corners = tree.cut(level), body.vertices[body.faces]
    spheres = np.column_stack([tree.centre[nodes], tree.radius[nodes]])
    triangles = sphere_triangles(spheres, 4 if len(nodes) < FINE_SPHERES_BELOW else 3)
    items = [
        DrawItem(f"{len(corners):,} triangles", corners, BODY_COLOURS[0], 1.0, False),
        DrawItem(f"{len(nodes):,} spheres", triangles, BODY_COLOURS[1], 0.9, False),
    ]
    return render(items, f"level {level}: {len(nodes):,} spheres, {tree.kind}, {tree.builder}")
