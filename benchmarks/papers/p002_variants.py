"""Ablation of [GressZachmann2004]: the scheme with one option changed at a time.

Protocol   The rotation of ``p002_distance`` at one distance, where the bodies intersect; candidates of a group differ
           in one option. Counters stand beside the times. Options that only the paper has are those of the method as
           published (``impinge.published.breadth_first``); the others are measured on ``BreadthFirst``.
Bodies     The substitutes "lock" and "car" of ``p002_bodies``; for brute force, where work grows with m x n, tiny ones.
Groups     expansion (4.4), the last pass fused with the test (end of 4.4), boxes in one space or between spaces
           (Appendix A), the entry level (5), bounding volumes and many object pairs at once (8), block size, counting
           alone (the occlusion query of 3), threads, depth-first, and all m x n triangle pairs (3), moved once per
           triangle or once per pair.
Claims     Those on transforms, brute force, fusing and the entry level; parallel tests against scalar ones by threads
           against one thread, since there is no GPU; AABBs and joint traversals, which section 8 leaves open.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.measure import Sizes
from benchmarks.papers.experiment import Experiment, Plot, Table, ratio_bars
from benchmarks.papers.p002_bodies import Body, car, lock
from benchmarks.papers.p002_turn import (
    STAGE_COLUMNS,
    Candidate,
    all_steps_at_once,
    breadth_first,
    counting,
    depth_first,
    measure,
    on_one_thread,
    poses,
    published,
    published_brute_force,
    stage_cells,
    stage_ms,
)
from benchmarks.papers.p002_variants_claims import Found, Stages, claims
from impinge.published.breadth_first import Expansion

PROTOCOL = """
Same protocol, substitute geometry: the rotation of p002_distance ({steps} steps, {rounds} timed rotations) at distance
{distance:g}, brute force with {brute_steps} steps. In each group one option is changed; all candidates of a group find
the same pairs at every step, those that only count the same numbers. "lock" (drilled plates, a coil, a bolt) and "car"
(a hull refined towards its ends, wheels, slivers) stand in for the paper's models.

Expansion, last pass, transform, brute force and the stages are measured on the published method. Candidates called
BreadthFirst, and all other groups unless stated otherwise, are measured on the detector. Threads are used on levels
with enough node pairs for a launch to pay. Many object pairs at once are the steps of the rotation, each a pair of
objects with a matrix of its own.
"""


FULL = Sizes(
    bodies=(lambda: lock(6), lambda: car(4)), brute_bodies=(lambda: car(1), lambda: lock(1), lambda: car(2)),
    distance=1.0, steps=16, brute_steps=2, rounds=5,
)  # fmt: skip
QUICK = Sizes(bodies=(lambda: car(1),), brute_bodies=(lambda: car(1),), distance=1.0, steps=3, brute_steps=1, rounds=1)


# Groups -------------------------------------------------------------------------------------------------------


def _expansion(body: Body) -> list[Candidate]:
    return [
        published("scan", body, expansion="scan", transform="vertices"),
        published("pyramid", body, transform="vertices"),
        breadth_first("BreadthFirst, scan", body),
    ]


def _last_pass(body: Body) -> list[Candidate]:
    return [
        published("scan, fused", body, expansion="scan", transform="vertices", fuse=True),
        published("scan, apart", body, expansion="scan", transform="vertices"),
        published("pyramid, fused", body, transform="vertices", fuse=True),
        published("pyramid, apart", body, transform="vertices"),
    ]


def _transform(body: Body) -> list[Candidate]:
    return [
        published("vertices moved once, refit", body, expansion="scan", transform="vertices"),
        published("boxes moved pair by pair", body, expansion="scan"),
        breadth_first("BreadthFirst, refit", body),
    ]


def _entry_level(body: Body) -> list[Candidate]:
    shares = [breadth_first(f"above {share:.0%}", body, entry_threshold=share) for share in (0.1, 0.25, 0.5, 0.75)]
    return [breadth_first("from the roots", body, entry_threshold=None), *shares]


def _published_entry_level(body: Body) -> list[Candidate]:
    shares = [published(f"above {share:.0%}", body, entry_threshold=share) for share in (0.25, 0.5)]
    return [published("from the roots", body, entry_threshold=None), *shares]


def _volume(body: Body) -> list[Candidate]:
    return [breadth_first(volume, body, volume=volume) for volume in ("aabb", "14-dop", "18-dop")]


def _block_size(body: Body) -> list[Candidate]:
    return [breadth_first(f"{1 << log2:,} node pairs", body, block_pairs=1 << log2) for log2 in (20, 16, 14, 12, 10)]


def _answer(body: Body) -> list[Candidate]:
    return [breadth_first("pairs", body), counting("count only", body)]


def _many(body: Body) -> list[Candidate]:
    return [
        published("one by one, boxes between spaces", body, expansion="scan", entry_threshold=None),
        breadth_first("one by one, refit", body, entry_threshold=None),
        all_steps_at_once("all in one traversal", body),
    ]


def _threads(body: Body) -> list[Candidate]:
    return [
        breadth_first("all threads", body),
        on_one_thread(breadth_first("", body), "one thread"),
        depth_first("depth-first, all threads", body),
        on_one_thread(depth_first("", body), "depth-first, one thread"),
    ]


def _brute_force(body: Body) -> list[Candidate]:
    return [
        published_brute_force("m x n, each triangle moved once", body, transform_per="line", is_listed=False),
        published_brute_force("m x n, moved pair by pair", body, transform_per="fragment", is_listed=False),
        counting("tree", body),
        published_brute_force("m x n, pairs listed", body, transform_per="line", is_listed=True),
    ]


GROUPS: dict[str, Callable[[Body], list[Candidate]]] = {
    "expansion": _expansion,
    "last pass": _last_pass,
    "transform": _transform,
    "entry level": _entry_level,
    "entry level, as published": _published_entry_level,
    "volume": _volume,
    "block size": _block_size,
    "answer": _answer,
    "many object pairs": _many,
    "threads": _threads,
}


# Run ----------------------------------------------------------------------------------------------------------


def run(*, quick: bool = False) -> Experiment:
    """Measure all groups; ``quick`` takes tiny bodies and few steps."""
    sizes = QUICK if quick else FULL
    bodies = [make() for make in sizes.bodies]
    matrices = poses(sizes.distance, sizes.steps)
    found: Found = {}
    for group, candidates in GROUPS.items():
        for body in bodies:
            scene = f"{group}: {body.name}"
            found[group, body.name] = measure(scene, candidates(body), matrices, rounds=sizes.rounds)
    for body in (make() for make in sizes.brute_bodies):
        few = poses(sizes.distance, sizes.brute_steps)
        scene = f"brute force: {body.name}"
        found["brute force", body.name] = measure(scene, _brute_force(body), few, rounds=sizes.rounds)
    stages = _stages(bodies, sizes)
    return Experiment(
        name="p002_variants",
        title="Breadth-first interference detection: what each part is worth",
        protocol=PROTOCOL.format(
            steps=sizes.steps, rounds=sizes.rounds, distance=sizes.distance, brute_steps=sizes.brute_steps
        ),
        rows=[each.row for group in found.values() for each in group.values()],
        claims=claims(found, stages),
        tables=[_stage_table(stages)],
        plot=_plot(found),
        quick=quick,
    )


def _stages(bodies: list[Body], sizes: Sizes) -> Stages:
    """Stages of the published form with the last pass apart: the whole index map is made in its own stage."""
    matrices = poses(sizes.distance, sizes.steps)
    found = {}
    expansions: dict[str, Expansion] = {"scan": "scan", "pyramid": "histopyramid"}
    for body in bodies:
        for name, expansion in expansions.items():
            candidate = published(name, body, expansion=expansion, transform="vertices")
            for threads, each in (("all", candidate), ("one", on_one_thread(candidate, name))):
                found[body.name, name, threads] = stage_ms(each, matrices, rounds=sizes.rounds)
    return found


def _stage_table(stages: Stages) -> Table:
    rows = [(*key, *stage_cells(ms)) for key, ms in stages.items()]
    columns = ("body", "mode", "threads", *STAGE_COLUMNS)
    return Table("stages", "Stages of a step as published, the last pass apart", columns, rows)


def _plot(found: Found) -> Plot:
    """One panel per group, with a bar for each candidate and body."""
    bars: dict[str, list[tuple[str, float]]] = {}
    for (group, body), candidates in found.items():
        labels = [f"{name} ({body.removesuffix(' triangles')})" for name in candidates]
        bars.setdefault(group, []).extend(zip(labels, (each.row.ratio for each in candidates.values())))
    return ratio_bars(bars, height=3.0)
