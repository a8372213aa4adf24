"""The verdicts of ``p003_parameters``: each takes a sentence of [Teschner2003] and the figures that decide it.

Rules are about order and growth, never about milliseconds, but for the paper's 15 Hz. Times are those of the scheme as
published; the default is reported beside it. Ratios are those of least times, and geometric means over scenes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from typing import TypeAlias

from benchmarks.papers.experiment import NOISE, Claim, judged
from benchmarks.papers.p003_steps import Measured
from impinge.published.spatial_hash import next_prime

Found: TypeAlias = dict[tuple[str, str], dict[str, Measured]]
"""Measurements by group and scene, then by candidate."""

AROUND = 1.5
"""The best cell size is the mean edge if it is within this factor of it."""
SLIGHTLY = 1.5
"""A slowdown up to this factor is slight."""
SIGNIFICANTLY = 1.5
"""A slowdown from this factor on is significant."""
SAME = 0.1
"""Times that differ by less than this share are independent of what was changed."""
MOST_EXPONENT = 1.1
"""Time that grows with at most this power of the number of tets is linear; caches fill up meanwhile."""
REAL_TIME_TETS = 20_000
REAL_TIME_MS = 1000.0 / 15.0


def claims(found: Found, tets: dict[str, int]) -> list[Claim]:
    """Judge all of them."""
    return [
        _claim_on_mean_edge(found),
        _claim_on_cell_size(found),
        _claim_on_larger_tables(found),
        _claim_on_oversized_tables(found),
        _claim_on_primes(found),
        _claim_on_hash_quality(found),
        _claim_on_papers_hash(found),
        _claim_on_sign_symmetry(found),
        _claim_on_time_stamps(found),
        _claim_on_inside_test(found),
        _claim_on_passes(found),
        _claim_on_linearity(found, tets),
        _claim_on_objects(found),
        _claim_on_real_time(found, tets),
        _claim_on_edges(found),
    ]


# reading measurements ---------------------------------------------------------------------------------------


def _of(found: Found, group: str) -> dict[str, dict[str, Measured]]:
    return {scene: candidates for (of, scene), candidates in found.items() if of == group}


def _ratio(candidates: dict[str, Measured], name: str, base: str) -> float:
    return candidates[name].row.min_ms / candidates[base].row.min_ms


def _mean_ratio(found: Found, group: str, name: str, base: str) -> float:
    return statistics.geometric_mean(_ratio(each, name, base) for each in _of(found, group).values())


def _told(found: Found, group: str, name: str, base: str) -> str:
    return ", ".join(f"{scene} {_ratio(each, name, base):.3f}" for scene, each in _of(found, group).items())


def _times(candidates: dict[str, Measured], *, ending: str = "") -> dict[float, float]:
    """Least times by the number at the head of a name, of those names that end so."""
    times = {}
    for name, each in candidates.items():
        number, _, rest = name.replace(" edges", "").partition(", ")
        if rest == ending:
            times[float(number)] = each.row.min_ms
    return times


def _swing(values: Iterable[float]) -> float:
    listed = list(values)
    return max(listed) / min(listed)


def _near(times: dict[float, float], middle: float) -> list[float]:
    """Times from half to twice the middle."""
    return [ms for at, ms in times.items() if 0.5 * middle <= at <= 2.0 * middle]


# cells --------------------------------------------------------------------------------------------------------


def _claim_on_mean_edge(found: Found) -> Claim:
    details, best = [], []
    for scene, each in _of(found, "cell size").items():
        times, default = _times(each), _times(each, ending="default")
        best.append(min(times, key=times.__getitem__))
        details.append(
            f"{scene}: best at {best[-1]:g} mean edges, one mean edge takes {times[1.0] / min(times.values()):.2f} "
            f"times the best; the default is best at {min(default, key=default.__getitem__):g}"
        )
    return judged(
        f"A cell as long as the mean edge is optimal (4.3; here: the best is within {AROUND:g} times of it).",
        "; ".join(details),
        all(1.0 / AROUND <= at <= AROUND for at in best),
    )


def _claim_on_cell_size(found: Found) -> Claim:
    details, holds = [], []
    tables, hashes = _of(found, "table size"), _of(found, "hash function")
    for scene, each in _of(found, "cell size").items():
        sizes = _times(tables[scene])
        published = {"A": 4999.0, "D": 9973.0}[scene]
        cell = _swing(_near(_times(each), 1.0))
        table = _swing(_near(sizes, published))
        function = _swing(other.row.min_ms for other in _in_table(hashes[scene], _slots(hashes[scene])[-1]).values())
        details.append(
            f"{scene}: {cell:.2f} times by cell size, {table:.2f} by table size, {function:.2f} by hash function; by "
            f"the whole range of cells {_swing(_times(each).values()):.1f}, of tables {_swing(sizes.values()):.1f}"
        )
        holds.append(cell > max(table, function))
    return judged(
        "The cell size has more impact than table size or hash function (4.3; here: most over least time from half to "
        "twice the published sizes; functions at the largest table).",
        "; ".join(details),
        all(holds),
    )


# tables -------------------------------------------------------------------------------------------------------


def _claim_on_larger_tables(found: Found) -> Claim:
    ratios = {scene: _times(each) for scene, each in _of(found, "table size").items()}
    gains = {scene: times[min(times)] / min(times.values()) for scene, times in ratios.items()}
    details = "; ".join(
        f"{scene}: {min(times):.0f} slots take {gains[scene]:.1f} times as long as the best, "
        f"{min(times, key=times.__getitem__):.0f}"
        for scene, times in ratios.items()
    )
    return judged("Larger tables are generally faster (4.2).", details, min(gains.values()) > 1.0 + NOISE)


def _claim_on_oversized_tables(found: Found) -> Claim:
    ratios, details = [], []
    for scene, each in _of(found, "table size").items():
        times = _times(each)
        ratios.append(times[max(times)] / min(times.values()))
        details.append(f"{scene}: {max(times):.0f} slots take {ratios[-1]:.2f} times the best")
    return judged(
        f"Tables that are too large are slightly slower (4.2; here: by {NOISE:.0%} to {SLIGHTLY - 1.0:.0%}).",
        "; ".join(details),
        all(1.0 + NOISE < ratio <= SLIGHTLY for ratio in ratios),
    )


def _claim_on_primes(found: Found) -> Claim:
    time, met = [], []
    for each in _of(found, "table size").values():
        for name, one in each.items():
            n = int(name.removesuffix(", prime"))
            if next_prime(n - 1) != n:
                prime = each[f"{next_prime(n)}, prime"]
                time.append(prime.row.min_ms / one.row.min_ms)
                met.append(prime.met / one.met)
    mean = statistics.geometric_mean(met)
    return judged(
        f"Tables of prime size work best (4.2, after [5]; here: at least {NOISE:.0%} fewer vertices met).",
        f"the primes above meet {mean:.3f} times the vertices in {statistics.geometric_mean(time):.3f} times the time",
        mean < 1.0 - NOISE,
    )


def _claim_on_time_stamps(found: Found) -> Claim:
    scenes = _of(found, "storage")
    slots = _slots(next(iter(scenes.values())))
    emptied, sort = (
        [_mean_ratio(found, "storage", f"{storage}, {n} slots", f"time stamps, {n} slots") for n in slots]
        for storage in ("reset", "counting sort")
    )
    measured = [f"{n} slots: {a:.2f} times, {b:.2f} times" for n, a, b in zip(slots, emptied, sort)]
    return judged(
        "Time stamps save the cost of emptying large tables (4.2; here: against a table emptied in every step).",
        f"time of the emptied table and of a counting sort over that of time stamps: {'; '.join(measured)}",
        emptied[-1] > 1.0 + NOISE,
    )


# hash functions -----------------------------------------------------------------------------------------------


def _slots(candidates: dict[str, Measured]) -> list[int]:
    """Table sizes in names like "paper, 199 slots", small ones first."""
    return sorted({int(name.split(", ")[1].removesuffix(" slots")) for name in candidates})


def _in_table(candidates: dict[str, Measured], slots: int) -> dict[str, Measured]:
    return {name.split(", ")[0]: each for name, each in candidates.items() if name.endswith(f", {slots} slots")}


def _claim_on_hash_quality(found: Found) -> Claim:
    details, holds = [], []
    for scene, each in _of(found, "hash function").items():
        tables = {n: _in_table(each, n) for n in _slots(each)}
        met = [_swing(one.met for one in same.values()) for same in tables.values()]
        time = [_swing(one.row.min_ms for one in same.values()) for same in tables.values()]
        shown = [f"{t:.2f} ({m:.2f}) with {n} slots" for n, t, m in zip(tables, time, met)]
        details.append(f"{scene}: {', '.join(shown)}")
        holds.append(time[-1] < time[0] and time[-1] <= 1.0 + SAME)
    return judged(
        "The quality of the hash function is less important for larger tables (4.1, 4.2; here: times of the four "
        f"functions differ less in the largest table than in the smallest, and by at most {SAME:.0%}).",
        f"most over least time (vertices met): {'; '.join(details)}",
        all(holds),
    )


def _claim_on_papers_hash(found: Found) -> Claim:
    details, ratios = [], []
    for scene, each in _of(found, "hash function").items():
        same = _in_table(each, _slots(each)[0])
        ratios.append(same["paper"].met / min(one.met for one in same.values()))
        details.append(f"{scene} {ratios[-1]:.2f}")
    return judged(
        "The function makes comparatively few hash collisions in small tables (4.1; here: it meets at most "
        f"{SAME:.0%} more vertices than the best of the four in the smallest).",
        f"times the vertices of the best: {', '.join(details)}",
        max(ratios) <= 1.0 + SAME,
    )


def _claim_on_sign_symmetry(found: Found) -> Claim:
    """Ours, not the paper's: around the origin its function maps (i, j, k) and (i, -j, -k) to one slot, often."""
    centred, far = (found["hash function", f"C {where} the origin"] for where in ("around", "far from"))
    details, excess = [], 0.0
    for n in _slots(centred):
        here, there = _in_table(centred, n), _in_table(far, n)
        over = {name: here[name].met / there[name].met for name in ("paper", "mixed")}
        excess = over["paper"] / over["mixed"]
        details.append(f"{n} slots: paper {over['paper']:.2f}, mixed {over['mixed']:.2f}")
    return judged(
        "Hash values should be uniformly distributed (4.1; here: around the origin, where mirrored cells share slots, "
        f"the paper's function meets at most {SAME:.0%} more vertices in the largest table than far from it).",
        f"vertices met around over far: {'; '.join(details)}",
        excess <= 1.0 + SAME,
    )


# tests and passes -----------------------------------------------------------------------------------------------


def _claim_on_inside_test(found: Found) -> Claim:
    ratio = _mean_ratio(found, "inside test", "half_space", "barycentric")
    tested = [each["barycentric"] for each in _of(found, "inside test").values()]
    shares = [each.counters["inside_tests"] / each.met for each in tested]
    return judged(
        "The barycentric test is slightly faster than the half-space test (4.4; here: in the time of the whole query).",
        f"half spaces take {ratio:.3f} times as long ({_told(found, 'inside test', 'half_space', 'barycentric')}); "
        f"{min(shares):.1%} to {max(shares):.1%} of the vertices met are tested",
        1.0 + NOISE < ratio <= SLIGHTLY,
    )


def _claim_on_passes(found: Found) -> Claim:
    ratio = _mean_ratio(found, "passes", "one pass", "two passes")
    return judged(
        "Two passes are faster than one, in which tets only are hashed (7).",
        f"one pass takes {ratio:.2f} times as long ({_told(found, 'passes', 'one pass', 'two passes')})",
        ratio > 1.0 + NOISE,
    )


def _claim_on_edges(found: Found) -> Claim:
    ratio = _mean_ratio(found, "edges", "edges too", "vertices only")
    default = _mean_ratio(found, "edges", "edges too, default", "vertices only, default")
    return judged(
        "Edge tests would decrease performance significantly (7; here: edges of surfaces against their faces, from "
        f"{SIGNIFICANTLY:g} times on).",
        f"{ratio:.2f} times as long as published ({_told(found, 'edges', 'edges too', 'vertices only')}), "
        f"{default:.2f} times as the default",
        ratio >= SIGNIFICANTLY,
    )


# growth -----------------------------------------------------------------------------------------------------------


def _claim_on_linearity(found: Found, tets: dict[str, int]) -> Claim:
    scenes = _of(found, "number of tets")
    exponent, details = {}, []
    for name in ("as published", "default"):
        points = [(tets[scene], each[name].row.min_ms) for scene, each in scenes.items()]
        slope, _ = statistics.linear_regression([math.log(n) for n, _ in points], [math.log(ms) for _, ms in points])
        exponent[name] = slope
        per_tet = [1e6 * ms / n for n, ms in points]
        details.append(f"{name}: n^{slope:.2f}, {', '.join(f'{ns:.0f}' for ns in per_tet)} ns per tet")
    return judged(
        "Time is linear in the number of primitives (5; here: at constant density, it grows with a power of at most "
        f"{MOST_EXPONENT:g}).",
        f"{'; '.join(details)} for {', '.join(f'{tets[scene]:,}' for scene in scenes)} tets",
        exponent["as published"] <= MOST_EXPONENT,
    )


def _claim_on_objects(found: Found) -> Claim:
    ratio = {scene: _ratio(each, "many bodies", "one body") for scene, each in _of(found, "number of objects").items()}
    default = _told(found, "number of objects", "many bodies, default", "one body, default")
    return judged(
        f"Time does not depend on the number of objects (6; here: within {SAME:.0%} of one object of the same tets).",
        f"many take {_told(found, 'number of objects', 'many bodies', 'one body')} times as long as one; by the "
        f"default {default}",
        all(1.0 - SAME <= each <= 1.0 + SAME for each in ratio.values()),
    )


def _claim_on_real_time(found: Found, tets: dict[str, int]) -> Claim:
    text = "Up to 20k tets are tested in real time, at 15 Hz (6; here: the smallest setup of as many)."
    large = {
        scene: each["barycentric"].row.median_ms
        for scene, each in _of(found, "inside test").items()
        if tets[scene] >= REAL_TIME_TETS
    }
    if not large:
        return Claim(text, "no setup of this size was measured", "not testable here")
    smallest = min(large, key=tets.__getitem__)
    ms = large[smallest]
    return judged(text, f"{smallest}: {ms:.1f} ms in the median, {1e3 / ms:.0f} Hz", ms <= REAL_TIME_MS)
