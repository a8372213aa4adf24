"""Points in a body: Table 2 and Fig. 10 of [Heidelberger2003].

Protocol   A body deforms in every frame; its whole image is drawn (stages 1 and 2), then 100,000 random points of its
           box are looked up (stage 3b).
Bodies     A tube along a torus knot for each object of the paper (``p004_bodies``), and spheres of as many faces, of
           different refinement.
Candidates The production detector, which draws in one pass, and the paper as written (``published.layered_depth``), a
           pass per layer or lists per pixel; the look-up of each.
Checked    Some points against the exact answer: those classified wrongly, and their distance from the surface.
Claims     The look-up does not depend on the body; images grow with faces and layers; rigid bodies keep their image.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.measure import Candidate, Row, Sizes, interleave, row_of, timed
from benchmarks.papers.experiment import NOISE, Claim, Experiment, Plot, Table, judged
from benchmarks.papers.p004_bodies import TABLE_2, ObjectRow, knot_of, sphere_of
from benchmarks.papers.p004_frames import RESOLUTION
from benchmarks.papers.p004_volumes import LISTS, MOST_RESIDUAL, MOST_SPREAD, PEELING, SINGLE, STEP, straight_line
from impinge.deform.waves import Wave
from impinge.detect.layered_depth.detector import find_device, images_of, views
from impinge.detect.layered_depth.images import Image
from impinge.detect.layered_depth.points import points_inside_sampled
from impinge.detect.proximity.closest_points import closest_points
from impinge.mesh.tri_mesh import TriMesh
from impinge.published import layered_depth

WAVE = Wave(0.03, 4.0, angular_speed=2.0)
"""That of the scenes ``knots_*``."""
LOOKUP, PUBLISHED_LOOKUP = "100,000 points", "100,000 points, as published"
RENDERINGS: dict[str, layered_depth.Rendering] = {PEELING: "peeling", LISTS: "a_buffer"}
CANDIDATES = (SINGLE, PEELING, LISTS, LOOKUP, PUBLISHED_LOOKUP)
KNOTS, SPHERES = "knot", "sphere"

PROTOCOL = """
Same protocol; substitute geometry. A tube along a torus knot of exactly as many faces stands in for each object of the
paper: depth complexities differ; and a sphere of as many faces, for sizes that differ in nothing else.
 {resolution} x {resolution} pixels over the box of the body; waves run through it; timing is interleaved over all
bodies, {frames} frames each are timed, after one that is not. {points:,} random points of the box are looked up.

"{single}", "{peeling}" and "{lists}": stages 1 and 2, bounds and the whole image, drawn in one pass by the production
detector, and by the paper as written (`impinge.published.layered_depth`) once per layer or in two passes that write
lists per pixel. "{lookup}": stage 3b of the production detector; crossings near a point are moved along their plane to
the point's own ray, which the paper does not do. "{published}": stage 3b of the paper as written. The production
detector runs on all threads, the paper as written on one.
"""


# checked: points that are compared with the exact answer
FULL = Sizes(objects=TABLE_2, points=100_000, checked=5000, frames=20)
QUICK = Sizes(objects=TABLE_2[:3], points=2000, checked=500, frames=2)


@dataclass(frozen=True)
class Measured:
    """One body."""

    rows: dict[str, Row]
    """By candidate."""
    depth: int
    image_bytes: int
    wrong: float
    """Share of points that are classified wrongly."""
    farthest: float
    """Distance of these from the surface in diagonals of a pixel, the largest."""
    is_same_image: bool
    """Whether a second query without a movement finds the image that is there."""
    published_wrong: float
    """Share of points that the paper as written classifies wrongly."""
    published_farthest: float
    """Distance of these from the surface in diagonals of a pixel, the largest."""


Found = Mapping[tuple[str, str], Measured]
"""By shape and object."""


def run(*, quick: bool = False) -> Experiment:
    """Measure all bodies; ``quick`` takes few and few points."""
    sizes = QUICK if quick else FULL
    makers: dict[str, Callable[[ObjectRow], TriMesh]] = {KNOTS: knot_of, SPHERES: sphere_of}
    bodies = {
        (shape, row.name): _Body(f"{shape} of {row.faces:,} faces for {row.name}", make(row), sizes)
        for shape, make in makers.items()
        for row in sizes.objects
    }
    candidates = [Candidate(body.label, body.take) for body in bodies.values()]
    for samples in interleave(candidates, range(sizes.frames), rounds=sizes.frames):
        for body, (sample,) in zip(bodies.values(), samples):
            for name, ms in sample.answer.items():
                body.ms[name].append(ms)
    found = {key: body.measured() for key, body in bodies.items()}
    return Experiment(
        name="p004_points",
        title="Layered depth images: points in deforming bodies",
        protocol=PROTOCOL.format(
            resolution=RESOLUTION,
            frames=sizes.frames,
            points=sizes.points,
            single=SINGLE,
            peeling=PEELING,
            lists=LISTS,
            lookup=LOOKUP,
            published=PUBLISHED_LOOKUP,
        ),
        rows=[row for each in found.values() for row in each.rows.values()],
        claims=claims(found, sizes.objects),
        tables=[_table_2(found, sizes.objects)],
        plot=_plot(found, sizes.objects),
        quick=quick,
    )


class _Body:
    """One body, its points, and the milliseconds of all frames by candidate."""

    def __init__(self, label: str, body: TriMesh, sizes: Sizes) -> None:
        self.label, self.body, self.checked = label, body, sizes.checked
        self.rest = body.vertices.copy()
        low, high = body.bounds
        self.points = np.random.default_rng(10).uniform(low, high, (sizes.points, 3))
        self.ms: dict[str, list[float]] = {name: [] for name in CANDIDATES}

    def take(self, frame: int) -> dict[str, float]:
        """Render and look up once; milliseconds by candidate."""
        self.body.update(WAVE(self.rest, STEP * frame))
        ms = {}
        ms[SINGLE], _ = timed(lambda: image_of(self.body))
        ms[LOOKUP], _ = timed(lambda: points_inside_sampled(self.body, self.points, RESOLUTION))  # reuses the image
        for name, rendering in RENDERINGS.items():
            ms[name], ldi = timed(partial(published_image_of, self.body, rendering))
        ms[PUBLISHED_LOOKUP], _ = timed(lambda: layered_depth.vertices_in_volume(ldi, self.points))
        return ms

    def measured(self) -> Measured:
        """Rows of all frames, and the accuracy at the last."""
        image = image_of(self.body)
        base = min(self.ms[SINGLE])
        depth = int(np.diff(image.pixel_start).max())
        note = f"depth complexity {depth}; {image.count:,} fragments"
        rows = {name: row_of(self.label, name, taken, base, note) for name, taken in self.ms.items()}
        points = self.points[: self.checked]
        exact = closest_points(self.body, points)
        accuracy = []
        for inside in (
            points_inside_sampled(self.body, points, RESOLUTION),
            layered_depth.vertices_in_volume(published_image_of(self.body, "a_buffer"), points),
        ):
            wrong = inside != exact.inside
            accuracy.append((float(wrong.mean()), float(exact.distance[wrong].max(initial=0.0)) / image.view.diagonal))
        size = sum(array.nbytes for array in (image.pixel_start, image.depth, image.face))
        return Measured(rows, depth, size, *accuracy[0], image_of(self.body) is image, *accuracy[1])


def image_of(body: TriMesh) -> Image:
    """The image that ``points_inside`` looks into: of the whole body, along the shortest side of its box."""
    images = images_of(body)
    solid = images.solid(body, None, None, "a")
    image: Image = images.image(find_device("cpu"), solid, views(solid.bounds, solid.bounds, RESOLUTION, True)[0][0])
    return image


def published_image_of(body: TriMesh, rendering: layered_depth.Rendering) -> layered_depth.LayeredDepthImage:
    """The LDI of the entire object as published: the VoI is its box, bounds included in the time (Table 2)."""
    box = layered_depth.aabb(body)
    voi = layered_depth.volume_of_interest(box, box)
    if voi is None:
        raise AssertionError("the body has no volume")
    return layered_depth.layered_depth_image(body, voi, from_low=True, resolution=RESOLUTION, rendering=rendering)


# Table and picture --------------------------------------------------------------------------------------------


def _table_2(found: Found, objects: tuple[ObjectRow, ...]) -> Table:
    rows: list[tuple[Any, ...]] = []
    for row in objects:
        paper = ("the paper (Pentium 4, GeForce 4 Ti 4600)", row.depth, row.images_ms, row.images_ms, row.points_ms)
        rows.append((row.name, row.faces, *paper, "", "", "", row.images_ms, row.points_ms, "", ""))
        for shape in (KNOTS, SPHERES):
            each = found[shape, row.name]
            ms = [each.rows[name].median_ms for name in (SINGLE, PEELING, LOOKUP)]
            details = (f"{each.wrong:.2%}", each.farthest, each.image_bytes // 1024)
            published = [each.rows[name].median_ms for name in (LISTS, PUBLISHED_LOOKUP)]
            wrong = (f"{each.published_wrong:.2%}", each.published_farthest)
            rows.append((row.name, row.faces, shape, each.depth, *ms, *details, *published, *wrong))
    columns = (
        "object", "faces", "who", "depth complexity", "1 + 2 ms", "1 + 2 ms, a pass per layer", "3b ms",
        "points told wrongly", "farthest of these, pixel diagonals", "image, KiB", "1 + 2 ms, lists per pixel",
        "3b ms, as published", "points wrong, as published", "farthest of these, pixel diagonals, as published",
    )  # fmt: skip
    return Table("table_2", "Table 2: images and points (medians)", columns, rows)


def _plot(found: Found, objects: tuple[ObjectRow, ...]) -> Plot:
    """Times over faces, the paper's beside ours."""

    def draw(figure: Any) -> None:
        panels = figure.subplots(1, 2)
        faces = [row.faces for row in objects]
        for panel, shape in zip(panels, (KNOTS, SPHERES)):
            for name in CANDIDATES:
                ms = [found[shape, row.name].rows[name].median_ms for row in objects]
                panel.plot(faces, ms, marker="x" if name in (LOOKUP, PUBLISHED_LOOKUP) else ".", label=name)
            panel.plot(faces, [row.images_ms for row in objects], ":", color="black", label="the paper, image")
            panel.plot(faces, [row.points_ms for row in objects], ":", color="grey", label="the paper, points")
            panel.set(title=f"{shape}s", xlabel="faces", ylabel="ms", xscale="log", yscale="log")
            panel.legend(fontsize=7)

    return Plot((10.5, 4.4), draw)


# Claims -------------------------------------------------------------------------------------------------------


def claims(found: Found, objects: tuple[ObjectRow, ...]) -> list[Claim]:
    """The verdicts; rules are about order and growth."""
    return [
        _claim_on_lookup(found, objects),
        _claim_on_faces(found, objects),
        _claim_on_layers(found, objects),
        _claim_on_accuracy(found),
        _claim_on_rigid_bodies(found),
    ]


def _least(found: Found, shape: str, objects: tuple[ObjectRow, ...], name: str) -> list[float]:
    return [found[shape, row.name].rows[name].min_ms for row in objects]


def _claim_on_lookup(found: Found, objects: tuple[ObjectRow, ...]) -> Claim:
    spread, details = {}, []
    for shape in (SPHERES, KNOTS):
        ms = _least(found, shape, objects, LOOKUP)
        spread[shape] = max(ms) / min(ms)
        details.append(f"{shape}s {', '.join(f'{each:.2f}' for each in ms)} ms, spread {spread[shape]:.2f}")
        published = _least(found, shape, objects, PUBLISHED_LOOKUP)
        details.append(
            f"as published {', '.join(f'{each:.2f}' for each in published)} ms, "
            f"spread {max(published) / min(published):.2f}"
        )
    return judged(
        "Stage 3b takes 26 to 28 ms for 100,000 points, whatever the body (Table 2; here: least times of all knots "
        f"within {MOST_SPREAD:g} times, and those of all spheres, by the production detector).",
        "; ".join(details),
        max(spread.values()) <= MOST_SPREAD,
    )


def _claim_on_faces(found: Found, objects: tuple[ObjectRow, ...]) -> Claim:
    ms = _least(found, SPHERES, objects, SINGLE)
    constant, slope, residual = straight_line([float(row.faces) for row in objects], ms)
    paper = straight_line([float(row.faces) for row in objects], [row.images_ms / row.depth for row in objects])
    return judged(
        "The images depend on the geometric complexity (3.2; here: a constant and a term linear in the faces of "
        f"spheres, off by {MOST_RESIDUAL:.0%} at most).",
        f"{constant:.2f} ms + {1e6 * slope:.1f} ns per face, off by {residual:.0%} at most (the paper's times per "
        f"layer: {paper[0]:.2f} ms + {1e6 * paper[1]:.0f} ns, off by {paper[2]:.0%})",
        residual <= MOST_RESIDUAL,
    )


def _claim_on_layers(found: Found, objects: tuple[ObjectRow, ...]) -> Claim:
    rows = [found[KNOTS, row.name] for row in objects]
    ratios = [each.rows[PEELING].min_ms / each.rows[LISTS].min_ms for each in rows]
    details = ", ".join(f"depth {each.depth}: {ratio:.1f} times two passes" for each, ratio in zip(rows, ratios))
    flat = [found[SPHERES, row.name] for row in objects]
    flat_ratios = [each.rows[PEELING].min_ms / each.rows[LISTS].min_ms for each in flat]
    return judged(
        "The images depend on the depth complexity, since bodies are rendered n_max times (3.2; here: a pass per layer "
        "costs more over the two passes of lists per pixel for every knot than for the sphere of as many faces, which "
        "has depth 2).",
        f"knots of {details}; spheres of depth 2: {', '.join(f'{ratio:.1f}' for ratio in flat_ratios)}",
        all(knot > (1.0 + NOISE) * sphere for knot, sphere in zip(ratios, flat_ratios)),
    )


def _claim_on_accuracy(found: Found) -> Claim:
    details = ", ".join(
        f"{shape} for {name} {each.wrong:.2%}, at most {each.farthest:.2f} (as published {each.published_wrong:.2%}, "
        f"{each.published_farthest:.2f})"
        for (shape, name), each in found.items()
    )
    return judged(
        "Accuracy across the rays is that of the image's resolution (3.2; here: wrong points are within 1 / √2 "
        "of a pixel's diagonal, which is the width of a square pixel, and as published within half a diagonal).",
        f"share of wrong points, and their distance from the surface in diagonals: {details}",
        all(
            each.farthest <= 0.5**0.5 * (1.0 + 2.0**-12) and each.published_farthest <= 0.5 * (1.0 + 2.0**-12)
            for each in found.values()
        ),
    )


def _claim_on_rigid_bodies(found: Found) -> Claim:
    share = [
        each.rows[LOOKUP].min_ms / (each.rows[LOOKUP].min_ms + each.rows[SINGLE].min_ms) for each in found.values()
    ]
    return judged(
        "For rigid bodies stages 1 and 2 can be precomputed (Table 2; here: a body at rest is not drawn again).",
        f"then a query costs {min(share):.0%} to {max(share):.0%} of that of a deforming body",
        all(each.is_same_image for each in found.values()),
    )
