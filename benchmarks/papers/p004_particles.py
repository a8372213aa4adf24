"""Particles fall on a deforming body: Fig. 11 of [Heidelberger2003].

Scene      ``p004_rain``: 20,000 particles over a knot of 10,000 faces, which waves deform, and a fixed
           floor. (The paper has a Santa of 10k faces, and no floor.)
Frame      1. Deform. The knot gets new vertices.
           2. Move.   Particles fall by a time step.
           3. Detect. The image of the knot is redrawn and all particles are looked up in it, and in that of the floor,
              which is kept (``points_inside`` with a resolution). The paper as written (``published.layered_depth``)
              searches for the same particles, timed apart.
           4. Respond. Each particle inside is projected to the closest point of the surface and bounces off, relative
              to the velocity of the surface.
Checked    Every few frames, untimed: particles that the image classifies wrongly, by the exact answer, before the
           response; and the largest depth after it.
Claims     29 frames per second, the paper's, which includes drawing; here nothing is drawn.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from benchmarks.measure import Row, Sizes, timed
from benchmarks.papers.experiment import Claim, Experiment, Plot, Table, judged
from benchmarks.papers.p004_frames import RESOLUTION
from benchmarks.papers.p004_rain import COUNT, Particles, particle_scene
from impinge.checks import Bools, Floats
from impinge.detect.proximity.closest_points import closest_points
from impinge.mesh.tri_mesh import TriMesh
from impinge.published import layered_depth
from impinge.queries import points_inside
from impinge.scenes.registry import Scene

DT = 1.0 / 60.0
PAPER_FPS = 29.0
STAGES = ("deform", "move", "detect", "respond")
PUBLISHED = "detect, as published"
RECENT = 0.5
"""Seconds after a contact for which a particle is shown in colour."""
MARK = 0.015
"""Size of a particle in the picture; one in recent contact is twice as large."""

PROTOCOL = """
Same protocol; substitute geometry. {count:,} particles rain on a tube of 10,000 faces along a knot, which waves deform,
and on a fixed floor; {frames} frames of 1/60 s, after {warm} that are not timed. A frame is the new shape of the body,
the motion of the particles, the search for those inside ({resolution} x {resolution} pixels) and the response: each is
projected to the closest point of the surface and bounces off. Drawing is not timed; the paper's frames include it.
"{published}" is the search by the paper as written (`impinge.published.layered_depth`), a pass per layer on one thread,
for the same particles; it is no part of a frame.
"""


FULL = Sizes(particles=COUNT, warm=150, frames=300, check_every=30)
QUICK = Sizes(particles=1000, warm=60, frames=4, check_every=2)


@dataclass
class Run:
    """Figures of all frames."""

    ms: dict[str, list[float]] = field(default_factory=lambda: {stage: [] for stage in STAGES})
    contacts: list[int] = field(default_factory=list)
    wrong: list[float] = field(default_factory=list)
    """Share of particles that the image classifies wrongly."""
    farthest: list[float] = field(default_factory=list)
    """Largest distance of these from the surface, in diagonals of a pixel."""
    depth: list[float] = field(default_factory=list)
    """Largest depth of a particle after the response."""
    published_ms: list[float] = field(default_factory=list)
    """The search by the paper as written."""
    published_wrong: list[float] = field(default_factory=list)
    published_farthest: list[float] = field(default_factory=list)

    @property
    def frame_ms(self) -> list[float]:
        """All stages together."""
        return [sum(stages) for stages in zip(*self.ms.values())]

    @property
    def fps(self) -> float:
        """Frames per second, from the mean."""
        return 1e3 / statistics.fmean(self.frame_ms)

    @property
    def published_fps(self) -> float:
        """Frames per second if the search were that of the paper as written."""
        other = statistics.fmean(self.frame_ms) - statistics.fmean(self.ms["detect"])
        return 1e3 / (other + statistics.fmean(self.published_ms))


class Rain:
    """The scene, one frame after the other."""

    def __init__(self, count: int) -> None:
        self.scene: Scene
        self.particles: Particles
        self.scene, self.particles = particle_scene(count)
        self.body, self.floor = self.scene.surfaces
        self.time = 0.0
        self._before = self.body.vertices.copy()
        self._floor_image = _published_image(self.floor)  # of a rigid object: computed once (Table 2)

    def deform(self) -> None:
        """Deform the body for the next frame."""
        self._before = self.body.vertices.copy()
        self.time += DT
        self.scene.move(self.time)

    def move(self) -> None:
        """Let particles fall."""
        self.particles.fall(DT)

    def detect(self) -> tuple[Bools, Bools]:
        """Which particles are inside of the body, and of the floor."""
        inside, below = (
            points_inside(surface, self.particles.position, resolution=RESOLUTION)
            for surface in (self.body, self.floor)
        )
        return inside, below

    def detect_as_published(self) -> tuple[Bools, Bools]:
        """The same by the paper as written."""
        x = self.particles.position
        inside = layered_depth.vertices_in_volume(_published_image(self.body), x)
        return inside, layered_depth.vertices_in_volume(self._floor_image, x)

    def respond(self, inside: Bools, below: Bools) -> int:
        """Project particles out of both; return their number."""
        velocity = (self.body.vertices - self._before) / DT
        self._leap(self.body, inside, velocity)
        self._leap(self.floor, below, np.zeros_like(self.floor.vertices))
        self.particles.remember(np.flatnonzero(inside))
        return int(inside.sum() + below.sum())

    def _leap(self, surface: TriMesh, inside: Bools, velocity: Floats) -> None:
        ids = np.flatnonzero(inside)
        if not len(ids):
            return
        nearest = closest_points(surface, self.particles.position[ids], inside=False)
        corners = surface.faces[nearest.triangle]
        a, b, c = surface.vertices[corners].transpose(1, 0, 2)
        normal = np.cross(b - a, c - a)
        normal /= np.linalg.norm(normal, axis=1, keepdims=True)
        there = (nearest.barycentric[:, :, None] * velocity[corners]).sum(axis=1)
        self.particles.bounce(ids, nearest.point, normal, there)

    def frame(self, run: Run | None = None, *, check: bool = False) -> None:
        """One frame; its times go to ``run``."""
        run = run if run is not None else Run()
        ms = {}
        ms["deform"], _ = timed(self.deform)
        ms["move"], _ = timed(self.move)
        ms["detect"], (inside, below) = timed(self.detect)
        published_ms, (published, _) = timed(self.detect_as_published)
        run.published_ms.append(published_ms)
        if check:
            self._check_detection(run, inside, published)
        ms["respond"], contacts = timed(partial(self.respond, inside, below))
        run.contacts.append(contacts)
        for stage, taken in ms.items():
            run.ms[stage].append(taken)
        if check:
            ids = np.flatnonzero(inside)
            left = closest_points(self.body, self.particles.position[ids])
            run.depth.append(float(left.distance[np.asarray(left.inside)].max(initial=0.0)))

    def _check_detection(self, run: Run, inside: Bools, published: Bools) -> None:
        exact = closest_points(self.body, self.particles.position)
        low, high = self.body.bounds
        pixel = np.sort(high - low)[1:] / RESOLUTION  # the window is across the shortest side
        for found, shares, distances in (
            (inside, run.wrong, run.farthest),
            (published, run.published_wrong, run.published_farthest),
        ):
            wrong = found != exact.inside
            shares.append(float(wrong.mean()))
            distances.append(float(exact.distance[wrong].max(initial=0.0) / np.hypot(*pixel)))


def _published_image(body: TriMesh) -> layered_depth.LayeredDepthImage:
    box = layered_depth.aabb(body)
    voi = layered_depth.volume_of_interest(box, box)
    if voi is None:
        raise AssertionError("the body has no volume")
    return layered_depth.layered_depth_image(body, voi, from_low=True, resolution=RESOLUTION)


def run(*, quick: bool = False) -> Experiment:
    """Run all frames; ``quick`` takes few particles and frames."""
    sizes = QUICK if quick else FULL
    rain = Rain(sizes.particles)
    for _ in range(sizes.warm):
        rain.frame()
    found = Run()
    for n in range(sizes.frames):
        rain.frame(found, check=n % sizes.check_every == 0)
    return Experiment(
        name="p004_particles",
        title="Layered depth images: particles on a deforming body",
        protocol=PROTOCOL.format(
            count=sizes.particles,
            frames=sizes.frames,
            warm=sizes.warm,
            resolution=RESOLUTION,
            published=PUBLISHED,
        ),
        rows=_rows(found, sizes),
        claims=claims(found),
        tables=[_table(found)],
        plot=_plot(found, rain),
        quick=quick,
    )


def _rows(found: Run, sizes: Sizes) -> list[Row]:
    scene = f"{sizes.particles:,} particles, a body of 10,000 faces"
    base = min(found.frame_ms)
    note = f"{found.fps:.0f} frames per second; {statistics.fmean(found.contacts):,.0f} contacts per frame"
    rows = [Row(scene, "frame", base, statistics.median(found.frame_ms), 1.0, note)]
    stages = {**found.ms, PUBLISHED: found.published_ms}
    rows += [Row(scene, stage, min(ms), statistics.median(ms), min(ms) / base) for stage, ms in stages.items()]
    return rows


def _table(found: Run) -> Table:
    paper = ("the paper (Pentium 4, GeForce 4 Ti 4600, drawing included)", PAPER_FPS, "", "", "", "")
    here = (
        "here, without drawing", found.fps, statistics.fmean(found.contacts), f"{statistics.fmean(found.wrong):.3%}",
        max(found.farthest), max(found.depth),
    )  # fmt: skip
    as_published = (
        "here, without drawing, search as published", found.published_fps, statistics.fmean(found.contacts),
        f"{statistics.fmean(found.published_wrong):.3%}", max(found.published_farthest), "",
    )  # fmt: skip
    columns = (
        "who", "frames per second", "contacts per frame", "particles told wrongly",
        "farthest of these, pixel diagonals", "deepest after the response",
    )  # fmt: skip
    return Table("frames", "Frames per second, and how right they are", columns, [paper, here, as_published])


def claims(found: Run) -> list[Claim]:
    """The verdicts."""
    return [
        judged(
            "Deformation, particles, collision detection and response of 20,000 particles and a body of 10k faces run "
            f"in real time, at {PAPER_FPS:g} frames per second (5, Fig. 11; here: at least as many, without drawing).",
            f"{found.fps:.0f} frames per second, the slowest frame {max(found.frame_ms):.1f} ms; "
            f"{found.published_fps:.0f} frames per second with the search as published",
            min(found.fps, found.published_fps) >= PAPER_FPS,
        ),
        judged(
            "Vertices in a volume can be classified by its image (3.3; here: wrong particles are within 1 / √2 of a "
            "pixel's diagonal of the surface, and as published within half a diagonal).",
            f"{statistics.fmean(found.wrong):.3%} wrong, at most {max(found.farthest):.2f} diagonals away; as "
            f"published {statistics.fmean(found.published_wrong):.3%}, at most {max(found.published_farthest):.2f}",
            max(found.farthest) <= 0.5**0.5 * (1.0 + 2.0**-12)
            and max(found.published_farthest) <= 0.5 * (1.0 + 2.0**-12),
        ),
    ]


def _plot(found: Run, rain: Rain) -> Plot:
    """The last frame, particles of recent contact in colour; and the time of each frame."""

    def draw(figure: Any) -> None:
        image, times = figure.subplots(1, 2, width_ratios=(3, 2))
        image.imshow(picture_of(rain))
        image.set_axis_off()
        times.plot(found.frame_ms, color="black", linewidth=0.8, label="frame")
        for stage, ms in found.ms.items():
            times.plot(ms, linewidth=0.6, label=stage)
        times.axhline(1e3 / PAPER_FPS, color="black", linestyle=":", label=f"{PAPER_FPS:g} frames per second")
        times.set(title=f"{found.fps:.0f} frames per second", xlabel="frame", ylabel="ms", yscale="log")
        times.legend(fontsize=7)

    return Plot((13.0, 5.6), draw)


def picture_of(rain: Rain) -> Any:
    """Pixels of the scene as it is, recent contact in colour."""
    from impinge.view.picture import HIT_COLOURS, markers
    from impinge.view.rendering import DrawItem, render

    recent = rain.particles.recent(RECENT)
    x = rain.particles.position
    items = [
        DrawItem("the deforming body, 10,000 triangles", rain.body.vertices[rain.body.faces], "#7fb2d9", 1.0, False),
        DrawItem("the floor", rain.floor.vertices[rain.floor.faces], "#9aa3ad", 1.0, False),
        DrawItem(f"{int((~recent).sum()):,} particles", markers(x[~recent], MARK), "#4a5a6a", 1.0, False),
        DrawItem(f"{int(recent.sum()):,} in contact", markers(x[recent], 2.0 * MARK), HIT_COLOURS[0], 1.0, False),
    ]
    return render([item for item in items if len(item.corners)], f"{len(x):,} particles on a deforming body")
