"""Frames of overlapping bodies for the experiments of [Heidelberger2003]: all move, then every candidate is queried.

Every candidate has bodies of its own, moved alike and untimed; the order changes from frame to frame. Candidates are
the production detector and the paper as written (``impinge.published.layered_depth``) on the same rays. Times are
those of the stages: 1 and 2, bounds, region and both images; 3a, the spans that both share; and the look-up of all
vertices of both, 3b, which the paper has no times of for pairs. All candidates must find the same volume up to
``AGREEMENT``, or no time is returned: production snaps vertices to 2^-16 of a pixel, the published form does not. The
first frame is taken once beforehand, since it may compile.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter

from benchmarks.measure import Row
from impinge.backend.stages import time_stages
from impinge.detect.layered_depth.detector import LayeredDepth
from impinge.published import layered_depth
from impinge.scenes.registry import Scene

RESOLUTION = 128
"""The paper's."""
AGREEMENT = 1e-5
"""Relative difference of volumes up to which candidates agree."""


@dataclass(frozen=True)
class Answer:
    """What one query found, and the milliseconds of its stages."""

    volume: float
    depth: tuple[int, int]
    """Most crossings of a ray with each body."""
    fragments: int
    """Of both images."""
    images_ms: float
    """Stages 1 and 2."""
    spans_ms: float
    """Stage 3a."""
    vertices_ms: float
    """Stage 3b, all vertices of both."""

    @property
    def total_ms(self) -> float:
        """Stages 1 to 3a, as in Table 1."""
        return self.images_ms + self.spans_ms


@dataclass(frozen=True)
class Candidate:
    """A way to query the first two bodies of a scene of its own."""

    name: str
    scene: Scene
    query: Callable[[], Answer]


def production(name: str, scene: Scene, *, resolution: int = RESOLUTION) -> Candidate:
    """The detector of the package."""
    detector = LayeredDepth(*scene.surfaces[:2], resolution=resolution)

    def query() -> Answer:
        found = detector.query()
        depth = (0, 0)
        if found.depth_complexity is not None:
            depth = (int(found.depth_complexity[0].max()), int(found.depth_complexity[1].max()))
        stats = found.stats
        return Answer(
            volume=found.volume,
            depth=depth,
            fragments=sum(stats["fragments_a"]) + sum(stats["fragments_b"]),
            images_ms=stats["region_ms"] + stats["images_ms"],
            spans_ms=stats["spans_ms"],
            vertices_ms=stats["vertices_ms"],
        )

    return Candidate(name, scene, query)


def published(name: str, scene: Scene, *, rendering: layered_depth.Rendering) -> Candidate:
    """The paper as written, on the rays of the production detector: those between the nearest outside faces."""
    a, b = scene.surfaces[:2]

    def query() -> Answer:
        times = [perf_counter()]
        voi = layered_depth.volume_of_interest(layered_depth.aabb(a), layered_depth.aabb(b), outside_faces="shortest")
        if voi is None:
            return Answer(0.0, (0, 0), 0, 1e3 * (perf_counter() - times[0]), 0.0, 0.0)
        ldi_a, ldi_b = (
            layered_depth.layered_depth_image(body, voi, from_low=from_low, resolution=RESOLUTION, rendering=rendering)
            for body, from_low in ((a, voi.a_from_low), (b, not voi.a_from_low))
        )
        times.append(perf_counter())
        volume = layered_depth.intersection_volume(ldi_a, ldi_b).volume
        times.append(perf_counter())
        layered_depth.vertices_in_volume(ldi_b, a.vertices)
        layered_depth.vertices_in_volume(ldi_a, b.vertices)
        times.append(perf_counter())
        fragments = int(ldi_a.n_p.sum() + ldi_b.n_p.sum())
        stages = [1e3 * (end - begin) for begin, end in pairwise(times)]
        return Answer(volume, (ldi_a.n_max, ldi_b.n_max), fragments, *stages)

    return Candidate(name, scene, query)


@dataclass(frozen=True)
class Measured:
    """One candidate over all frames, milliseconds per frame."""

    row: Row
    images_ms: list[float]
    """Stages 1 and 2."""
    spans_ms: list[float]
    """Stage 3a."""
    vertices_ms: list[float]
    depth: tuple[int, ...]
    """Most crossings of a ray with each body, of all frames."""
    fragments: float
    """Of both images, per frame."""
    volume: float

    @property
    def least_images_ms(self) -> float:
        """Of all frames."""
        return min(self.images_ms)

    @property
    def least_spans_ms(self) -> float:
        """Of all frames."""
        return min(self.spans_ms)


@contextmanager
def stages_timed() -> Iterator[None]:
    """Let queries tell the times of their stages meanwhile."""
    time_stages(True)
    try:
        yield
    finally:
        time_stages(False)


Group = tuple[str, Sequence[Candidate]]
"""A label, and candidates that find the same volume."""


def measure(groups: Sequence[Group], times: Sequence[float]) -> list[dict[str, Measured]]:
    """Time all candidates of all groups at all of these times, in turns; by name, for each group."""
    frames: list[list[list[Answer]]] = [[] for _ in groups]
    with stages_timed():
        for n, t in enumerate([times[0], *times]):
            for kept, (label, candidates) in zip(frames, groups):
                kept.append(_frame(label, candidates, t, first=n % len(candidates)))
    return [_measured(*group, kept[1:]) for group, kept in zip(groups, frames)]


def _measured(label: str, candidates: Sequence[Candidate], frames: list[list[Answer]]) -> dict[str, Measured]:
    base = min(frame[0].total_ms for frame in frames)
    found = {}
    for n, candidate in enumerate(candidates):
        answers = [frame[n] for frame in frames]
        total = [answer.total_ms for answer in answers]
        depth = tuple(max(answer.depth[k] for answer in answers) for k in range(2))
        fragments = statistics.fmean(answer.fragments for answer in answers)
        note = f"depth complexity {depth[0]} / {depth[1]}; {fragments:,.0f} fragments; volume {answers[0].volume:.4g}"
        found[candidate.name] = Measured(
            row=Row(label, candidate.name, min(total), statistics.median(total), min(total) / base, note),
            images_ms=[answer.images_ms for answer in answers],
            spans_ms=[answer.spans_ms for answer in answers],
            vertices_ms=[answer.vertices_ms for answer in answers],
            depth=depth,
            fragments=fragments,
            volume=answers[0].volume,
        )
    return found


def _frame(label: str, candidates: Sequence[Candidate], t: float, *, first: int) -> list[Answer]:
    for candidate in candidates:
        candidate.scene.move(t)
    found = {n: candidates[n].query() for n in (*range(first, len(candidates)), *range(first))}
    answers = [found[n] for n in range(len(candidates))]
    for candidate, answer in zip(candidates, answers):
        if abs(answer.volume - answers[0].volume) > AGREEMENT * answers[0].volume:
            raise AssertionError(
                f"{label}, time {t:g}: {candidate.name} finds the volume {answer.volume!r} and {candidates[0].name} "
                f"{answers[0].volume!r}, which differ: no time counts"
            )
    return answers
