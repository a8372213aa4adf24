"""Frames of overlapping bodies for the experiments of [Heidelberger2003]: all move, then every candidate is queried.

Every candidate has bodies of its own, moved alike and untimed; the order changes from frame to frame. Candidates are
the production detector and the paper as written (``impinge.published.layered_depth``) on the same rays. Times are
those of the stages: 1 and 2, bounds, region and both images; 3a, the spans that both share; 3b, the classification of
all vertices of both, for which the paper has no times of pairs. All candidates must find the same volume up to
``AGREEMENT``, or no time is returned: production snaps vertices to 2^-16 of a pixel, the published form does not. The
first frame runs once untimed, since it may compile.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.measure import Candidate as TimedCandidate
from benchmarks.measure import Row, interleave, row_of, stages_timed, timed
from impinge.detect.layered_depth.detector import LayeredDepth
from impinge.published import layered_depth
from impinge.scenes.registry import Scene

RESOLUTION = 128
"""The paper's."""
AGREEMENT = 1e-5
"""Relative difference of volumes up to which candidates agree."""


@dataclass(frozen=True)
class Answer:
    """The answer of one query, and the milliseconds of its stages."""

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

    def images() -> list[layered_depth.LayeredDepthImage]:
        voi = layered_depth.volume_of_interest(layered_depth.aabb(a), layered_depth.aabb(b), outside_faces="shortest")
        if voi is None:
            return []
        return [
            layered_depth.layered_depth_image(body, voi, from_low=from_low, resolution=RESOLUTION, rendering=rendering)
            for body, from_low in ((a, voi.a_from_low), (b, not voi.a_from_low))
        ]

    def query() -> Answer:
        images_ms, drawn = timed(images)
        if not drawn:
            return Answer(0.0, (0, 0), 0, images_ms, 0.0, 0.0)
        ldi_a, ldi_b = drawn
        spans_ms, found = timed(lambda: layered_depth.intersection_volume(ldi_a, ldi_b))
        vertices_ms, _ = timed(
            lambda: (
                layered_depth.vertices_in_volume(ldi_b, a.vertices),
                layered_depth.vertices_in_volume(ldi_a, b.vertices),
            )
        )
        fragments = int(ldi_a.n_p.sum() + ldi_b.n_p.sum())
        depth = (ldi_a.n_max, ldi_b.n_max)
        return Answer(found.volume, depth, fragments, images_ms, spans_ms, vertices_ms)

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


Group = tuple[str, Sequence[Candidate]]
"""A label, and candidates that find the same volume."""


def measure(groups: Sequence[Group], times: Sequence[float]) -> list[dict[str, Measured]]:
    """Time all candidates of all groups at all of these times, alternately; by name, for each group."""
    frames: list[list[list[Answer]]] = [[] for _ in groups]
    with stages_timed():
        for t, *rounds in zip(times, *(_frames(candidates, times) for _, candidates in groups)):
            for kept, answers, (label, candidates) in zip(frames, rounds, groups):
                _check_agreement(f"{label}, time {t:g}", candidates, answers)
                kept.append(answers)
    return [_measured(*group, kept) for group, kept in zip(groups, frames)]


def _frames(candidates: Sequence[Candidate], times: Sequence[float]) -> Iterator[list[Answer]]:
    """Answers of all candidates, frame by frame."""

    def move(t: float) -> None:
        for each in candidates:
            each.scene.move(t)

    timed_candidates = [TimedCandidate(each.name, partial(_query, each)) for each in candidates]
    loop = interleave(timed_candidates, times, rounds=len(times), before=move)
    return ([sample.answer for (sample,) in samples] for samples in loop)


def _query(candidate: Candidate, _: float) -> Answer:
    return candidate.query()


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
            row=row_of(label, candidate.name, total, base, note),
            images_ms=[answer.images_ms for answer in answers],
            spans_ms=[answer.spans_ms for answer in answers],
            vertices_ms=[answer.vertices_ms for answer in answers],
            depth=depth,
            fragments=fragments,
            volume=answers[0].volume,
        )
    return found


def _check_agreement(where: str, candidates: Sequence[Candidate], answers: Sequence[Answer]) -> None:
    for candidate, answer in zip(candidates, answers):
        if abs(answer.volume - answers[0].volume) > AGREEMENT * answers[0].volume:
            raise AssertionError(
                f"{where}: {candidate.name} finds the volume {answer.volume!r} and {candidates[0].name} "
                f"{answers[0].volume!r}, which differ: no time counts"
            )
