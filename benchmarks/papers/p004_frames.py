"""Frames of overlapping bodies for the experiments of [Heidelberger2003]: all move, then every candidate is asked.

Every candidate has bodies of its own, moved alike and untimed, so that each must draw them anew; the order changes from
frame to frame. Times are those of the stages (``impinge.time_stages``): 1 and 2, bounds, region and both images; 3a,
the spans that both share; and the look-up of all vertices of both, 3b, which the paper has no times of for pairs. All
candidates must find the same volume, to the last bit, or no time is returned. The first frame is taken once
beforehand, since it may compile.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.measure import Row
from impinge.backend.stages import time_stages
from impinge.detect.layered_depth.detector import LayeredDepth
from impinge.detect.layered_depth.volume_overlap import VolumeOverlap
from impinge.scenes.registry import Scene

RESOLUTION = 128
"""The paper's."""


@dataclass(frozen=True)
class Candidate:
    """A way to ask, and bodies of its own."""

    name: str
    scene: Scene
    detector: LayeredDepth


def asked(name: str, scene: Scene, **options: Any) -> Candidate:
    """The first two bodies of a scene, asked with options."""
    a, b = scene.surfaces[:2]
    return Candidate(name, scene, LayeredDepth(a, b, **{"resolution": RESOLUTION, **options}))


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
    frames: list[list[list[VolumeOverlap]]] = [[] for _ in groups]
    with stages_timed():
        for n, t in enumerate([times[0], *times]):
            for kept, (label, candidates) in zip(frames, groups):
                kept.append(_frame(label, candidates, t, first=n % len(candidates)))
    return [_measured(*group, kept[1:]) for group, kept in zip(groups, frames)]


def _measured(label: str, candidates: Sequence[Candidate], frames: list[list[VolumeOverlap]]) -> dict[str, Measured]:
    base = min(_total(frame[0]) for frame in frames)
    found = {}
    for n, candidate in enumerate(candidates):
        results = [frame[n] for frame in frames]
        total = [_total(result) for result in results]
        depth = tuple(max(_depth(result)[k] for result in results) for k in range(2))
        fragments = statistics.fmean(r.stats["fragments_a"][0] + r.stats["fragments_b"][0] for r in results)
        note = f"depth complexity {depth[0]} / {depth[1]}; {fragments:,.0f} fragments; volume {results[0].volume:.4g}"
        found[candidate.name] = Measured(
            row=Row(label, candidate.name, min(total), statistics.median(total), min(total) / base, note),
            images_ms=[r.stats["region_ms"] + r.stats["images_ms"] for r in results],
            spans_ms=[r.stats["spans_ms"] for r in results],
            vertices_ms=[r.stats["vertices_ms"] for r in results],
            depth=depth,
            fragments=fragments,
            volume=results[0].volume,
        )
    return found


def _total(result: VolumeOverlap) -> float:
    return sum(float(result.stats[f"{stage}_ms"]) for stage in ("region", "images", "spans"))


def _depth(result: VolumeOverlap) -> tuple[int, int]:
    if result.depth_complexity is None:
        return 0, 0
    a, b = result.depth_complexity
    return int(a.max()), int(b.max())


def _frame(label: str, candidates: Sequence[Candidate], t: float, *, first: int) -> list[VolumeOverlap]:
    for candidate in candidates:
        candidate.scene.move(t)
    found = {n: candidates[n].detector.query() for n in (*range(first, len(candidates)), *range(first))}
    results = [found[n] for n in range(len(candidates))]
    for candidate, result in zip(candidates, results):
        if result.volume != results[0].volume:
            raise AssertionError(
                f"{label}, time {t:g}: {candidate.name} finds the volume {result.volume!r} and {candidates[0].name} "
                f"{results[0].volume!r}, so that no time counts"
            )
    return results
