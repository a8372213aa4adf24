"""The overlap volume of two bodies: Table 1 and Figs 7 to 9 of [Heidelberger2003], and the cost of an image.

Protocol   Pairs deform in every frame (``p004_frames``); times of stages 1 and 2, and of 3a, are separate.
Bodies     Those of ``p004_bodies``: spheres that share a lens for the simple pairs of Fig. 7, knots through each other
           for the complex ones of Fig. 8 and for Fig. 9.
Candidates The production detector: one pass over all triangles. The paper as written (``published.layered_depth``): one
           pass per layer, or two passes that write lists per pixel.
Growth     Faces: pairs of spheres of 12k to 520k faces each, of different refinement. Layers: the same
           number of faces and fragments in one, two, four, ... flat spheres above each other.
Faces      Outside faces as published, eligible ones first, beside the shortest way through.
Claims     Cost and growth of a frame, an image and the combination; a body inside another.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from benchmarks.measure import Sizes, timed
from benchmarks.papers.experiment import Claim, Experiment, Plot, Table, judged
from benchmarks.papers.p004_bodies import FIGURE_9, TABLE_1, TABLE_2, PairRow, stack
from benchmarks.papers.p004_frames import RESOLUTION, Group, Measured, measure, production, published
from impinge import scenes
from impinge.detect.layered_depth.detector import LayeredDepth
from impinge.mesh import shapes
from impinge.published.layered_depth import OutsideFaces, aabb, collide, layered_depth_image, volume_of_interest
from impinge.scenes.registry import Scene

SINGLE, PEELING, LISTS = "one pass", "a pass per layer", "lists per pixel"
STEP = 0.1
"""Time between frames."""
MOST_SPREAD = 1.5
"""Times within this factor count as independent of the parameter."""
LINEAR = 0.25
"""Time grows linearly if its exponent is this near to one."""
MOST_RESIDUAL = 0.2
"""Times fit a straight line if none is farther from it, as a share."""
RULES: tuple[OutsideFaces, ...] = ("eligible", "shortest")
MOST_SETUP = 2.0
"""Frames that the first query may cost for "no setup"."""

PROTOCOL = """
Same protocol; substitute geometry. The objects of the paper were never published: spheres and tubes along torus knots
of exactly as many faces stand in for them: depth complexities differ, and are reported. {resolution} x
{resolution} pixels; waves run through all bodies; {frames} frames are timed, after one that is not. Times are those of
a frame's stages: 1 and 2 (bounds, volume of interest, both images) and 3a (the spans that both share). All candidates
look along the same rays and find the same volume, up to 1e-5 of it, in every frame.

"{single}": the production detector, on all threads. "{peeling}": the paper as written
(`impinge.published.layered_depth`), on one thread; each body is drawn once per layer of its depth complexity, and each
pass keeps the next fragment of every pixel, as the paper's stencil test does. "{lists}": the same code, but two passes
count and write the fragments of all layers.
"""


FULL = Sizes(
    pairs=(*TABLE_1, FIGURE_9), spheres=tuple(row.sphere for row in TABLE_2), layers=(1, 2, 4, 8), layer_faces=100_000,
    frames=40,
)  # fmt: skip
QUICK = Sizes(pairs=TABLE_1[:2], spheres=((20, 11), (40, 21), (60, 31)), layers=(1, 2, 4), layer_faces=1000, frames=2)

Found = dict[str, Measured]
"""By candidate."""


@dataclass(frozen=True)
class View:
    """Both images between a pair of outside faces, as published."""

    axis: int
    extended: bool
    distance: float
    depth: tuple[int, int]
    fragments: int


@dataclass(frozen=True)
class Figures:
    """All figures."""

    pairs: dict[PairRow, Found]
    faces: dict[int, Found]
    """By faces of each of two spheres."""
    layers: dict[int, Found]
    """By layers of a stack: twice as many crossings."""
    fragments_by_axis: dict[PairRow, list[int]]
    """The shortest way through first."""
    outside_faces: dict[PairRow, dict[OutsideFaces, View]]
    """By rule."""
    setup: dict[PairRow, float]
    """Milliseconds of the first query of new bodies."""


def run(*, quick: bool = False) -> Experiment:
    """Measure all pairs, sizes and layers; ``quick`` takes few and small ones."""
    sizes = QUICK if quick else FULL
    figures = _figures(sizes)
    groups = (figures.pairs, figures.faces, figures.layers)
    return Experiment(
        name="p004_volumes",
        title="Layered depth images: volumes that deforming bodies share",
        protocol=PROTOCOL.format(
            resolution=RESOLUTION, frames=sizes.frames, single=SINGLE, peeling=PEELING, lists=LISTS
        ),
        rows=[each.row for group in groups for found in group.values() for each in found.values()],
        claims=claims(figures),
        tables=[_table_1(figures.pairs), _growth_table(figures), _outside_table(figures.outside_faces)],
        plot=_plot(figures),
        quick=quick,
    )


def _figures(sizes: Sizes) -> Figures:
    times = [STEP * n for n in range(sizes.frames)]
    face_counts = [2 * nu * (nv - 1) for nu, nv in sizes.spheres]
    pairs = measure([_candidates(_label(row), row.scene) for row in sizes.pairs], times)
    faces = measure(
        [
            _candidates(f"two spheres of {count:,} faces", partial(_lens, *size))
            for count, size in zip(face_counts, sizes.spheres)
        ],
        times,
    )
    layers = measure(
        [
            _candidates(
                f"{count} flat spheres of {sizes.layer_faces:,} faces in all, in a box",
                partial(_stacked, count, sizes.layer_faces),
            )
            for count in sizes.layers
        ],
        times,
    )
    return Figures(
        dict(zip(sizes.pairs, pairs)),
        dict(zip(face_counts, faces)),
        dict(zip(sizes.layers, layers)),
        {row: _fragments_by_axis(row.scene()) for row in sizes.pairs},
        {row: {rule: _view(row.scene(), rule) for rule in RULES} for row in sizes.pairs},
        {row: _first_ms(row.scene()) for row in sizes.pairs},
    )


def _label(row: PairRow) -> str:
    return f"Fig. {row.figure}, {row.scene_name} for {row.objects}"


def _candidates(label: str, scene: Callable[[], Scene]) -> Group:
    return label, [
        production(SINGLE, scene()),
        published(PEELING, scene(), rendering="peeling"),
        published(LISTS, scene(), rendering="a_buffer"),
    ]


def _lens(nu: int, nv: int) -> Scene:
    return Scene(
        "lens",
        "Two spheres that are cut alike share a lens.",
        lambda: (shapes.uv_sphere(nu, nv), shapes.uv_sphere(nu, nv, center=(1.1, 0.8, 0.7))),
        scenes.get("spheres_12k_50k").motion,
    )


def _stacked(layers: int, faces: int) -> Scene:
    """A stack that breathes: every frame differs, and no sphere touches its neighbour."""
    return Scene(
        "stack",
        "Flat spheres stand above each other in a box.",
        lambda: (stack(layers, faces), shapes.box(4.0)),
        lambda rest, t: (rest[0] * (1.0 + 0.1 * t), None),
    )


def _view(scene: Scene, rule: OutsideFaces, axis: Literal[0, 1, 2] | None = None) -> View:
    a, b = scene.surfaces[:2]
    voi = volume_of_interest(aabb(a), aabb(b), outside_faces=rule, axis=axis)
    if voi is None:
        raise AssertionError(f"the boxes of {scene.name} share no volume")
    images = [
        layered_depth_image(body, voi, from_low=from_low, resolution=RESOLUTION, rendering="a_buffer")
        for body, from_low in ((a, voi.a_from_low), (b, not voi.a_from_low))
    ]
    fragments = sum(int(image.n_p.sum()) for image in images)
    return View(voi.axis, voi.extended, voi.distance, (images[0].n_max, images[1].n_max), fragments)


def _fragments_by_axis(scene: Scene) -> list[int]:
    axes: tuple[Literal[0, 1, 2], ...] = (0, 1, 2)
    views = sorted((_view(scene, "shortest", axis) for axis in axes), key=lambda view: view.distance)
    return [view.fragments for view in views]


def _first_ms(scene: Scene) -> float:
    """Milliseconds of the first query, construction of the detector included; kernels are compiled."""
    a, b = scene.surfaces[:2]
    return timed(lambda: LayeredDepth(a, b, resolution=RESOLUTION).query())[0]


# Tables and picture -------------------------------------------------------------------------------------------


def _table_1(pairs: Mapping[PairRow, Found]) -> Table:
    rows: list[tuple[Any, ...]] = []
    for row, found in pairs.items():
        faces = " / ".join(f"{count:,}" for count in row.faces)
        details = [" / ".join(map(str, row.depth)), *("" if ms is None else ms for ms in (row.images_ms, row.spans_ms))]
        rows.append(
            (row.objects, faces, row.figure, "the paper (Pentium 4, GeForce 4 Ti 4600)", *details, row.total_ms)
        )
        for name, each in found.items():
            figures = (*map(statistics.median, (each.images_ms, each.spans_ms)), each.row.median_ms)
            rows.append((row.scene_name, faces, row.figure, name, " / ".join(map(str, each.depth)), *figures))
    columns = ("objects", "faces", "Fig.", "who", "depth complexity", "1 + 2 ms", "3a ms", "total ms")
    return Table("table_1", "Table 1 and Fig. 9: times of a frame (medians)", columns, rows)


def _growth_table(figures: Figures) -> Table:
    rows = []
    for what, group in (("faces of each sphere", figures.faces), ("flat spheres", figures.layers)):
        for number, found in group.items():
            for name, each in found.items():
                ms = (each.least_images_ms, each.least_spans_ms)
                rows.append((what, number, name, " / ".join(map(str, each.depth)), each.fragments, *ms))
    columns = ("what grows", "number", "who", "depth complexity", "fragments", "1 + 2 ms", "3a ms")
    return Table("growth", "What times grow with (least of all frames)", columns, rows)


def _outside_table(found: Mapping[PairRow, Mapping[OutsideFaces, View]]) -> Table:
    rows = []
    for row, views in found.items():
        for rule, view in views.items():
            depth = " / ".join(map(str, view.depth))
            extended = "yes" if view.extended else "no"
            rows.append((row.scene_name, rule, "xyz"[view.axis], extended, view.distance, depth, view.fragments))
    columns = ("objects", "outside faces", "axis", "extended", "distance", "depth complexity", "fragments")
    title = "Outside faces (3.1): eligible ones first, as published, and the shortest way through"
    return Table("outside_faces", title, columns, rows)


def _plot(figures: Figures) -> Plot:
    """Stages over faces, images over layers, and all pairs beside the paper's times."""

    def draw(figure: Any) -> None:
        over_faces, over_layers, bars = figure.subplots(1, 3)
        for name, style in ((SINGLE, "-"), (PEELING, "--")):
            faces = sorted(figures.faces)
            found = [figures.faces[count][name] for count in faces]
            over_faces.plot(faces, [f.least_images_ms for f in found], f".{style}", label=f"images, {name}")
            over_faces.plot(faces, [f.least_spans_ms for f in found], f"x{style}", label=f"spans, {name}")
            layers = sorted(figures.layers)
            ms = [figures.layers[count][name].least_images_ms for count in layers]
            over_layers.plot([2 * count for count in layers], ms, f".{style}", label=name)
        over_faces.set(title="two spheres", xlabel="faces of each", ylabel="ms", xscale="log", yscale="log")
        over_layers.set(
            title="flat spheres, as many faces and fragments", xlabel="depth complexity", ylabel="images, ms"
        )
        rows = list(figures.pairs)
        names = [f"{row.scene_name} (Fig. {row.figure})" for row in rows]
        for k, name in enumerate((SINGLE, PEELING)):
            at = [n + 0.25 * k for n in range(len(rows))]
            bars.barh(at, [figures.pairs[row][name].row.median_ms for row in rows], height=0.25, label=name)
        at = [n + 0.5 for n in range(len(rows))]
        bars.barh(at, [row.total_ms for row in rows], height=0.25, color="grey", label="the paper, 2003")
        bars.set_yticks([n + 0.25 for n in range(len(rows))], names, fontsize=7)
        bars.invert_yaxis()
        bars.set(title="a frame", xlabel="ms", xscale="log")
        for panel in (over_faces, over_layers, bars):
            panel.legend(fontsize=7)

    return Plot((15.0, 4.6), draw)


# Claims -------------------------------------------------------------------------------------------------------


def claims(figures: Figures) -> list[Claim]:
    """The verdicts; rules are about order and growth, but for the paper's own milliseconds."""
    return [
        _claim_on_frames(figures.pairs),
        _claim_on_spans(figures.faces),
        _claim_on_faces(figures.faces),
        _claim_on_layers(figures.layers),
        _claim_on_depth(figures.pairs),
        _claim_on_the_shortest_way(figures.fragments_by_axis),
        _claim_on_nested_bodies(),
        _claim_on_setup(figures),
    ]


def _claim_on_frames(pairs: Mapping[PairRow, Found]) -> Claim:
    details = [
        f"{row.scene_name} {pairs[row][PEELING].row.median_ms:.1f} ms a pass per layer, "
        f"{pairs[row][SINGLE].row.median_ms:.1f} ms in one pass (the paper: {row.total_ms:g})"
        for row in pairs
    ]
    return judged(
        "Volumes of deforming bodies are found at interactive rates up to very complex geometry (5, 6; here: no frame "
        "takes longer than the paper's, on median, drawn as the paper does).",
        "; ".join(details),
        all(found[PEELING].row.median_ms <= row.total_ms for row, found in pairs.items()),
    )


def _claim_on_spans(faces: Mapping[int, Found]) -> Claim:
    times = {count: found[SINGLE].least_spans_ms for count, found in faces.items()}
    spread = max(times.values()) / min(times.values())
    details = ", ".join(f"{count:,} faces {ms:.3f} ms" for count, ms in times.items())
    return judged(
        "Stage 3a takes 1 ms for every pair of Table 1: it does not depend on the number of faces (here: least times "
        f"within {MOST_SPREAD:g} times).",
        f"{details}; spread {spread:.2f}",
        spread <= MOST_SPREAD,
    )


def straight_line(x: list[float], y: list[float]) -> tuple[float, float, float]:
    """Constant and slope that leave the least sum of squared shares, and the largest share that is left."""
    # y = c + s x, each row divided by y: (1 / y) c + (x / y) s = 1.
    p, q = [1.0 / v for v in y], [u / v for u, v in zip(x, y)]
    pp, pq, qq = (sum(a * b for a, b in zip(u, v)) for u, v in ((p, p), (p, q), (q, q)))
    sum_p, sum_q, determinant = sum(p), sum(q), pp * qq - pq * pq
    constant, slope = (qq * sum_p - pq * sum_q) / determinant, (pp * sum_q - pq * sum_p) / determinant
    return constant, slope, max(abs(constant * a + slope * b - 1.0) for a, b in zip(p, q))


def _claim_on_faces(faces: Mapping[int, Found]) -> Claim:
    details, residuals = [], []
    for name in (SINGLE, PEELING):
        ms = [found[name].least_images_ms for found in faces.values()]
        constant, slope, residual = straight_line([2.0 * count for count in faces], ms)
        details.append(f"{name} {constant:.2f} ms + {1e6 * slope:.1f} ns per face, off by {residual:.0%} at most")
        residuals.append(residual)
    return judged(
        "The images depend on the geometric complexity (3.2; here: a constant and a term linear in the faces, off by "
        f"{MOST_RESIDUAL:.0%} at most, in one pass).",
        "; ".join(details),
        residuals[0] <= MOST_RESIDUAL,
    )


def _claim_on_layers(layers: Mapping[int, Found]) -> Claim:
    least, most = min(layers), max(layers)
    exponent = {
        name: math.log(layers[most][name].least_images_ms / layers[least][name].least_images_ms)
        / math.log(most / least)
        for name in (SINGLE, PEELING)
    }
    details = "; ".join(
        f"{name}: "
        + ", ".join(f"{2 * n} crossings {found[name].least_images_ms:.2f} ms" for n, found in layers.items())
        for name in (SINGLE, PEELING)
    )
    return judged(
        "Bodies are rendered n_max times: images cost O(n_max) (3.2; here: the exponent is within "
        f"{LINEAR:g} of one, a pass per layer; one pass does not pay that).",
        f"exponents {exponent[PEELING]:.2f} and in one pass {exponent[SINGLE]:.2f}; {details}",
        abs(exponent[PEELING] - 1.0) <= LINEAR,
    )


def _claim_on_depth(pairs: Mapping[PairRow, Found]) -> Claim:
    simple = [found[PEELING] for row, found in pairs.items() if row.figure == 7]
    complicated = [found[PEELING] for row, found in pairs.items() if row.figure == 8]
    slower = [b.least_images_ms / a.least_images_ms for a, b in zip(simple, complicated)]
    details = ", ".join(
        f"depth {' / '.join(map(str, b.depth))} takes {ratio:.1f} times as long as {' / '.join(map(str, a.depth))}"
        for ratio, a, b in zip(slower, simple, complicated)
    )
    return judged(
        "Of two pairs with as many faces the one with deeper images takes longer (Table 1, where Rabbit / Reptile, 4 / "
        "2 in 48 ms and 7 / 5 in 36, shows the contrary; here: stages 1 and 2, a pass per layer).",
        details,
        all(ratio > 1.0 for ratio in slower),
    )


def _claim_on_the_shortest_way(fragments: Mapping[PairRow, list[int]]) -> Claim:
    least = sum(counts[0] == min(counts) for counts in fragments.values())
    details = "; ".join(f"{row.scene_name} {', '.join(f'{n:,}' for n in counts)}" for row, counts in fragments.items())
    return judged(
        "To look along the shortest way between outside faces is a heuristic for few layers (3.1; here: fewest "
        "crossings of all axes for more than half of the pairs).",
        f"crossings along the shortest and the other axes: {details}",
        2 * least > len(fragments),
    )


def _claim_on_nested_bodies() -> Claim:
    inner, outer = scenes.get("nested_spheres").surfaces
    found = LayeredDepth(inner, outer, resolution=RESOLUTION).query()
    volume = collide(inner, outer, resolution=RESOLUTION).volume
    as_published = 0.0 if volume is None else volume.volume
    return judged(
        "The approach is robust where one object lies completely inside another (1; here: the volume is that of the "
        "inner one, up to the estimated error).",
        f"volume {found.volume:.6f} ± {found.error:.1g}, as published {as_published:.6f}, the inner sphere has "
        f"{inner.volume:.6f}",
        max(abs(found.volume - inner.volume), abs(as_published - inner.volume)) <= found.error,
    )


def _claim_on_setup(figures: Figures) -> Claim:
    frames = {row: found[SINGLE] for row, found in figures.pairs.items()}
    whole = {
        row: statistics.median(sum(stages) for stages in zip(each.images_ms, each.spans_ms, each.vertices_ms))
        for row, each in frames.items()
    }
    ratios = {row: figures.setup[row] / whole[row] for row in whole}
    details = ", ".join(f"{row.scene_name} {ratio:.1f} frames" for row, ratio in ratios.items())
    return judged(
        "There is no expensive setup (1, 6; here: the first query of new bodies takes no longer than "
        f"{MOST_SETUP:g} frames; ours checks once per topology that bodies are closed; the paper trusts that).",
        f"the first query takes {details}",
        max(ratios.values()) <= MOST_SETUP,
    )
