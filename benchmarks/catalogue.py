"""All benchmarks by name, and names of groups."""

from __future__ import annotations

from collections.abc import Sequence

from impinge.errors import OptionError

BENCHMARKS = {
    "start_up": "benchmarks.start_up",
    "baseline_kernels": "benchmarks.baseline_kernels",
    "triangle_test": "benchmarks.triangle_test",
    "pairs_against_peers": "benchmarks.pairs_against_peers",
    "gjk_cut_against_peers": "benchmarks.gjk_cut_against_peers",
    "proximity_against_peers": "benchmarks.proximity_against_peers",
    "cloth_proximity": "benchmarks.cloth_proximity",
    "continuous_against_peers": "benchmarks.continuous_against_peers",
    "dynamics_against_peers": "benchmarks.dynamics_against_peers",
    "hashing_against_peers": "benchmarks.hashing_against_peers",
    "volumes_against_peers": "benchmarks.volumes_against_peers",
    "worlds": "benchmarks.worlds",
    "auto": "benchmarks.auto_fit",
    "box_tree_decay": "benchmarks.box_tree_decay",
    "tracking_speed": "benchmarks.tracking_speed",
    "soft_bodies": "benchmarks.soft_bodies",
    "soft_livers": "benchmarks.soft_livers",
    "simulation": "benchmarks.simulation",
    "locking": "benchmarks.locking",
    "cluster_speed": "benchmarks.cluster_speed",
    "p000_threshold": "benchmarks.papers.p000_threshold",
    "p000_removal": "benchmarks.papers.p000_removal",
    "p000_deforming": "benchmarks.papers.p000_deforming",
    "p000_variants": "benchmarks.papers.p000_variants",
    "p000_replaced": "benchmarks.papers.p000_replaced",
    "p001_budgets": "benchmarks.papers.p001_budgets",
    "p001_trees": "benchmarks.papers.p001_trees",
    "p001_pictures": "benchmarks.papers.p001_pictures",
    "p001_orders": "benchmarks.papers.p001_orders",
    "p001_errors": "benchmarks.papers.p001_errors",
    "p002_distance": "benchmarks.papers.p002_distance",
    "p002_variants": "benchmarks.papers.p002_variants",
    "p003_setups": "benchmarks.papers.p003_setups",
    "p003_parameters": "benchmarks.papers.p003_parameters",
    "p004_volumes": "benchmarks.papers.p004_volumes",
    "p004_points": "benchmarks.papers.p004_points",
    "p004_particles": "benchmarks.papers.p004_particles",
}
"""Modules by name; those below ``papers`` return an experiment, which writes a page and a picture too."""

PEERS = [
    "pairs_against_peers", "gjk_cut_against_peers", "proximity_against_peers", "cloth_proximity",
    "continuous_against_peers", "dynamics_against_peers", "hashing_against_peers", "volumes_against_peers", "worlds",
]  # fmt: skip
"""Benchmarks that time other libraries."""

PAPERS = {
    number: [name for name in BENCHMARKS if name.startswith(f"p{number}_")]
    for number in ("000", "001", "002", "003", "004")
}
"""Experiments of each paper."""


def is_experiment(name: str) -> bool:
    """Whether a benchmark has claims, and writes a page with a picture."""
    return ".papers." in BENCHMARKS[name] or name in ("cluster_speed", "locking")


def chosen(names: Sequence[str]) -> list[str]:
    """The benchmarks of names and groups, in their order: all if none; ``papers 000 003`` are those of two papers."""
    found: list[str] = []
    for name in names or BENCHMARKS:
        if name == "peers":
            found += PEERS
        elif name == "papers":
            found += [] if set(names) & set(PAPERS) else [one for group in PAPERS.values() for one in group]
        elif name in PAPERS:
            found += PAPERS[name]
        elif name in BENCHMARKS:
            found.append(name)
        else:
            known = ", ".join(["peers", "papers", *PAPERS, *BENCHMARKS])
            raise OptionError(
                f"no benchmark {name}; expected any of {known}, compare OLD NEW or compare-checkouts OLD NEW NAME..."
            )
    return list(dict.fromkeys(found))
