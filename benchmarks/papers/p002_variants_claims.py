"""The verdicts of ``p002_variants``: each takes a sentence of [GressZachmann2004] and the figures that decide it.

Rules are about order, never about milliseconds: which candidate is faster by more than the noise, which tests less.
Ratios are geometric means over the bodies.
"""

from __future__ import annotations

import statistics
from typing import TypeAlias

from benchmarks.papers.experiment import NOISE, Claim, judged
from benchmarks.papers.p002_turn import Measured, map_share
from impinge.backend import jit

Found: TypeAlias = dict[tuple[str, str], dict[str, Measured]]
"""Measurements by group and body, then by candidate."""
Stages: TypeAlias = dict[tuple[str, str, str], dict[str, float]]
"""Milliseconds per stage by body, mode and threads."""


def claims(found: Found, stages: Stages) -> list[Claim]:
    """Judge all of them."""
    return [
        _claim_on_parallel_tests(stages),
        _claim_on_map(stages),
        _claim_on_transform(found),
        _claim_on_brute_force(found),
        _claim_on_fusing(found),
        _claim_on_entry(found),
        _claim_on_volumes(found),
        _claim_on_many(found),
        Claim(
            "Rendering into super buffers would lessen the overhead of making index maps (7).",
            "a driver of 2004; there is nothing alike on a CPU",
            "not testable here",
        ),
    ]


def _ratio(found: Found, group: str, name: str, base: str) -> float:
    """Time of one candidate over that of another, averaged over bodies."""
    return statistics.geometric_mean(
        each[name].row.min_ms / each[base].row.min_ms for (of, _), each in found.items() if of == group
    )


def _tests_ratio(found: Found, group: str, name: str, base: str) -> float:
    """The same for box tests."""
    return statistics.geometric_mean(
        (each[name].work.box_tests or 1.0) / (each[base].work.box_tests or 1.0)
        for (of, _), each in found.items()
        if of == group
    )


def _claim_on_parallel_tests(stages: Stages) -> Claim:
    text = "Box and triangle tests are faster in parallel than scalar, up to four times (7; here: threads, no GPU)."
    if jit.thread_count() == 1:
        return Claim(text, "there is one thread only", "not testable here")
    gains = [
        _tests_ms(stages[body, mode, "one"]) / _tests_ms(ms)
        for (body, mode, threads), ms in stages.items()
        if threads == "all"
    ]
    measured = f"{jit.thread_count()} threads are {min(gains):.2f} to {max(gains):.2f} times as fast"
    return judged(text, measured, statistics.geometric_mean(gains) > 1.0 + NOISE)


def _tests_ms(ms: dict[str, float]) -> float:
    return ms["test"] + ms["triangles"]


def _claim_on_map(stages: Stages) -> Claim:
    share = {
        threads: statistics.fmean(map_share(ms) for (_, _, of), ms in stages.items() if of == threads)
        for threads in ("one", "all")
    }
    text = "Making index maps is the overhead, and a larger part in parallel than scalar (7; here: threads, no GPU)."
    if jit.thread_count() == 1:
        return Claim(text, f"{share['one']:.0%} of the query without refit on one thread", "not testable here")
    measured = f"{share['one']:.0%} of the query without refit on one thread, {share['all']:.0%} on all"
    return judged(text, measured, share["all"] > share["one"])


def _claim_on_transform(found: Found) -> Claim:
    brute = _ratio(found, "brute force", "m x n, moved pair by pair", "m x n, each triangle moved once")
    tree = _ratio(found, "transform", "boxes moved pair by pair", "vertices moved once, refit")
    return judged(
        "Moving each triangle once is more efficient than moving it for each pair (3).",
        f"pair by pair takes {brute:.2f} times as long for m x n; boxes of trees, against a refit, {tree:.2f} times",
        brute > 1.0 + NOISE,
    )


def _claim_on_brute_force(found: Found) -> Claim:
    ratios = {
        body: each["m x n, each triangle moved once"].row.min_ms / each["tree"].row.min_ms
        for (group, body), each in found.items()
        if group == "brute force"
    }
    return judged(
        "All m x n tests cannot outperform a hierarchy on large objects (4).",
        "; ".join(f"{body}: {ratio:.1f} times the tree's time" for body, ratio in ratios.items()),
        list(ratios.values())[-1] > 1.0 + NOISE,
    )


def _claim_on_fusing(found: Found) -> Claim:
    scan = _ratio(found, "last pass", "scan, fused", "scan, apart")
    pyramid = _ratio(found, "last pass", "pyramid, fused", "pyramid, apart")
    return judged(
        "The last pass can go into the tests, which saves a pass (4.4; here: time is saved in both modes).",
        f"fused takes {scan:.3f} times as long with prefix sums, {pyramid:.3f} with the pyramid",
        max(scan, pyramid) < 1.0 - NOISE,
    )


def _claim_on_entry(found: Found) -> Claim:
    details = []
    for group in ("entry level", "entry level, as published"):
        for share in _entry_names(found, group):
            tests = _tests_ratio(found, group, share, "from the roots")
            time = _ratio(found, group, share, "from the roots")
            by = " as published" if group.endswith("published") else ""
            details.append(f"{share}{by}: {tests:.4f} of the tests, {time:.3f} of the time")
    return judged(
        f"Starting where more than half of the node pairs overlap saves box tests (5; here: at least {NOISE:.0%}).",
        "; ".join(details),
        _tests_ratio(found, "entry level", "above 50%", "from the roots") < 1.0 - NOISE,
    )


def _entry_names(found: Found, group: str) -> list[str]:
    first = next(each for (of, _), each in found.items() if of == group)
    return [name for name in first if name != "from the roots"]


def _claim_on_volumes(found: Found) -> Claim:
    details = []
    fastest = True
    for volume in ("14-dop", "18-dop"):
        time = _ratio(found, "volume", volume, "aabb")
        details.append(
            f"{volume}: {time:.2f} of the time, {_tests_ratio(found, 'volume', volume, 'aabb'):.2f} of the tests"
        )
        fastest &= time > 1.0
    return judged(
        "AABBs suit the scheme and are efficient (4.1); others are left to future work (8; here: against k-DOPs, "
        "refit included).",
        "; ".join(details),
        fastest,
    )


def _claim_on_many(found: Found) -> Claim:
    spaces = _ratio(found, "many object pairs", "all in one traversal", "one by one, boxes between spaces")
    refit = _ratio(found, "many object pairs", "all in one traversal", "one by one, refit")
    return judged(
        "Traversing many object pairs at once might be faster (8).",
        f"{refit:.2f} times the time of one by one, {spaces:.2f} of that as published without refit",
        refit < 1.0 - NOISE,
    )
