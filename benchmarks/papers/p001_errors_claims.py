"""Claims, tables and curves of ``p001_errors``: the errors of sphere contacts."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

from benchmarks.papers.experiment import NOISE, Claim, Plot, Table, judged

MEDIAN_ANGLE, ANGLE_95 = 15.0, 30.0
"""Degrees that are wanted within 1 ms: median and 95th percentile over the regions."""
NEAR = 0.05
"""Wanted distance from contact points of spheres to crossing triangles, as a share of the body's size."""
ENTRY = 8
"""Bytes of an entry of the queue."""
SPHERE = 32
"""Bytes of a sphere."""
CONSERVATIVE = ("bound", "refit")


@dataclass(frozen=True)
class Point:
    """A point of the curves."""

    mode: str
    at: float
    """Tests, or amplitude."""
    angle: float
    """Median over regions [degrees]."""
    angle_95: float
    distance: float
    """Of contact points, median over regions, share of the size."""
    force: float
    """Difference to the right force, as a share of it."""
    force_angle: float
    missed: float
    """Share of crossing triangles that are below no pair."""
    queue_peak: int
    """Entries."""


@dataclass(frozen=True)
class Controls:
    """Errors and cost for a number of coarse vertices per sphere."""

    mode: str
    count: int
    missed: float
    angle: float
    ms: float
    bytes: int


@dataclass(frozen=True)
class ModeMemory:
    """Memory of a mode for the spheres of both bodies."""

    mode: str
    bytes: int


@dataclass(frozen=True)
class Headline:
    """Errors within a budget in milliseconds."""

    builder: str
    budget_ms: float
    triangles: int
    regions: int
    angle: float
    angle_95: float
    angle_by_area: float
    angle_95_by_area: float
    reach: float
    """Farthest that crossing triangles are from the contact point of spheres that they are below."""
    near: float
    """Share of crossing triangles that are near."""
    tests: float


@dataclass(frozen=True)
class Found:
    """All figures."""

    budget: list[Point]
    amplitude: list[Point]
    controls: list[Controls]
    memory: list[ModeMemory]
    spheres: int
    """Of both trees."""
    headline: list[Headline]


def claims(found: Found) -> list[Claim]:
    """Verdicts on the claims of the paper, and on ours."""
    return [
        *_normals(found),
        *_near(found),
        _conservative(found),
        _paper_misses(found),
        _more_time(found),
        _more_controls(found),
        _memory(found),
        _queue(found),
    ]


def _normals(found: Found) -> list[Claim]:
    return [
        judged(
            f"Within 1 ms normals of regions are within {MEDIAN_ANGLE:g} degrees (median; {ANGLE_95:g} at the 95th "
            f"percentile) (ours; {each.builder}, {each.triangles:,} triangles each)",
            f"{each.angle:.1f} and {each.angle_95:.1f} degrees over {each.regions} regions; weighted by their area "
            f"{each.angle_by_area:.1f} and {each.angle_95_by_area:.1f}",
            each.angle <= MEDIAN_ANGLE and each.angle_95 <= ANGLE_95,
        )
        for each in found.headline
        if each.budget_ms == 1.0
    ]


def _near(found: Found) -> list[Claim]:
    return [
        judged(
            f"Within 1 ms every crossing of triangles is below spheres whose contact point is within {NEAR:.0%} of the "
            f"body's size (ours; {each.builder})",
            f"{each.near:.1%} of them are; the farthest is {each.reach:.1%} away",
            each.reach <= NEAR,
        )
        for each in found.headline
        if each.budget_ms == 1.0
    ]


def _conservative(found: Found) -> Claim:
    missed = [each.missed for each in (*found.amplitude, *found.budget) if each.mode in CONSERVATIVE]
    return judged(
        'Tracking "bound" and "refit" misses no crossing, whatever the budget and the deformation (ours)',
        f"at most {max(missed):.2%} missed",
        max(missed) == 0.0,
    )


def _paper_misses(found: Found) -> Claim:
    details = [(each.at, each.missed) for each in found.amplitude if each.mode == "paper"]
    return judged(
        'Spheres that follow "the average displacements" and "the maximum ratio" of distances cover the surface (4.4; '
        "here: a whole search misses no crossing at any amplitude)",
        "missed at amplitudes: " + ", ".join(f"{at:g}: {missed:.1%}" for at, missed in details),
        all(missed == 0.0 for _, missed in details),
    )


def _more_time(found: Found) -> Claim:
    """Held if in every mode the last point of the curve is better than the first, normals and points."""
    ends: dict[str, tuple[Point, Point]] = {}
    for each in found.budget:
        first, _ = ends.get(each.mode, (each, each))
        ends[each.mode] = (first, each)
    return judged(
        '"When we increase the critical time allowed", contacts "provide a more accurate response" (5; here: median '
        "angle and distance are less with the most tests than with the fewest)",
        "; ".join(
            f"{mode}: {first.angle:.0f} to {last.angle:.0f} degrees, {first.distance:.1%} to {last.distance:.1%}"
            for mode, (first, last) in ends.items()
        ),
        all(last.angle < first.angle and last.distance < first.distance for first, last in ends.values()),
    )


def _more_controls(found: Found) -> Claim:
    rows = [each for each in found.controls if each.mode == "paper"]
    first, last = rows[0], rows[-1]
    return judged(
        '"Results are better for a larger number of vertices in V, however increasing this number may lead to slower '
        'updates rates" (4.4; here: fewer crossings missed, and longer queries, with the most than with the fewest)',
        "; ".join(f"{each.count}: {each.missed:.1%} missed, {each.ms:.2g} ms" for each in rows),
        last.missed <= first.missed and last.ms > (1.0 + NOISE) * first.ms,
    )


def _memory(found: Found) -> Claim:
    paper = next(each for each in found.memory if each.mode == "paper")
    own = SPHERE * found.spheres
    return judged(
        'Storing a set of vertices per sphere "represents a high level of memory consumption" (6; here: all that is '
        "kept takes more than twice the spheres themselves)",
        "; ".join(f"{each.mode}: {each.bytes / found.spheres:.0f} bytes a sphere" for each in found.memory),
        paper.bytes > 2 * own,
    )


def _queue(found: Found) -> Claim:
    most = max(ENTRY * each.queue_peak for each in found.budget)
    return judged(
        '"the storage in the lists may be very high" (6; here: the queue takes more than the spheres of both trees)',
        f"the queue takes {most / 1e6:.2g} MB at most, spheres {SPHERE * found.spheres / 1e6:.2g} MB",
        most > SPHERE * found.spheres,
    )


# Tables and curves ----------------------------------------------------------------------------------------------


def tables_of(found: Found) -> list[Table]:
    """All figures as tables."""
    errors = (
        "median angle", "95th percentile", "distance of points", "force", "angle of force", "missed", "queue entries",
    )  # fmt: skip
    headline = (
        "builder", "budget ms", "triangles", "regions", "median angle", "95th percentile", "median angle by area",
        "95th percentile by area", "farthest contact", "near contacts", "tests",
    )  # fmt: skip
    controls = ("mode", "coarse vertices a sphere", "missed", "median angle", "query ms", "bytes")
    memory = [(each.mode, each.bytes, each.bytes / found.spheres) for each in found.memory]
    return [
        Table("headline", "Budgets in milliseconds", headline, [astuple(each) for each in found.headline]),
        Table("budget", "Errors over tests", ("mode", "tests", *errors), [astuple(each) for each in found.budget]),
        Table(
            "amplitude", "Errors over amplitude, whole search", ("mode", "amplitude", *errors),
            [astuple(each) for each in found.amplitude],
        ),
        Table("controls", "Coarse vertices per sphere", controls, [astuple(each) for each in found.controls]),
        Table("memory", "Memory of modes", ("mode", "bytes", "bytes a sphere"), memory),
    ]  # fmt: skip


def plot_of(found: Found) -> Plot:
    """Curves over tests, over amplitude, and over the number of coarse vertices."""

    def draw(figure: Any) -> None:
        panels = figure.subplots(2, 4)
        kinds = (("angle", "angle of normals, degrees"), ("distance", "distance of points"), ("force", "force"))
        for mode in dict.fromkeys(each.mode for each in found.budget):
            for row, points in zip(panels, (found.budget, found.amplitude)):
                mine = [each for each in points if each.mode == mode]
                for panel, (name, title) in zip(row, kinds):
                    panel.plot([each.at for each in mine], [getattr(each, name) for each in mine], "o-", label=mode)
                    panel.set_title(title)
            mine = [each for each in found.amplitude if each.mode == mode]
            panels[0, 3].plot([each.at for each in mine], [100.0 * each.missed for each in mine], "o-")
        for mode in dict.fromkeys(each.mode for each in found.controls):
            rows = [each for each in found.controls if each.mode == mode]
            panels[1, 3].plot([each.count for each in rows], [100.0 * each.missed for each in rows], "o-", label=mode)
        for panel in panels[0, :3]:
            panel.set(xscale="log", xlabel="tests")
        for panel in panels[0, 1:3]:
            panel.set_yscale("log")
        for panel in panels[1, :3]:
            panel.set(xlabel="amplitude, share of the size")
        panels[0, 3].set(title="missed, percent", xlabel="amplitude, share of the size")
        panels[1, 3].set(title="missed, percent", xscale="log", xlabel="coarse vertices a sphere")
        panels[1, 3].legend()
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)

    return Plot((14.0, 7.0), draw)
