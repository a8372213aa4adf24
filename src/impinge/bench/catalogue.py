"""All benchmarks by name, and the names that stand for several."""

from __future__ import annotations

from collections.abc import Sequence

from impinge.errors import OptionError

BENCHMARKS = {
    "start_up": "impinge.bench.start_up",
    "triangle_test": "impinge.bench.triangle_test",
    "pairs_against_peers": "impinge.bench.pairs_against_peers",
    "gjk_cut_against_peers": "impinge.bench.gjk_cut_against_peers",
    "proximity_against_peers": "impinge.bench.proximity_against_peers",
    "cloth_proximity": "impinge.bench.cloth_proximity",
    "hashing_against_peers": "impinge.bench.hashing_against_peers",
    "volumes_against_peers": "impinge.bench.volumes_against_peers",
    "worlds": "impinge.bench.worlds",
    "auto": "impinge.bench.auto_fit",
    "box_tree_decay": "impinge.bench.box_tree_decay",
    "tracking_speed": "impinge.bench.tracking_speed",
    "soft_bodies": "impinge.bench.soft_bodies",
    "soft_livers": "impinge.bench.soft_livers",
    "simulation": "impinge.bench.simulation",
    "cluster_speed": "impinge.bench.cluster_speed",
    "p000_threshold": "impinge.bench.papers.p000_threshold",
    "p000_removal": "impinge.bench.papers.p000_removal",
    "p000_deforming": "impinge.bench.papers.p000_deforming",
    "p000_variants": "impinge.bench.papers.p000_variants",
    "p000_replaced": "impinge.bench.papers.p000_replaced",
    "p001_budgets": "impinge.bench.papers.p001_budgets",
    "p001_trees": "impinge.bench.papers.p001_trees",
    "p001_pictures": "impinge.bench.papers.p001_pictures",
    "p001_orders": "impinge.bench.papers.p001_orders",
    "p001_errors": "impinge.bench.papers.p001_errors",
    "p002_distance": "impinge.bench.papers.p002_distance",
    "p002_variants": "impinge.bench.papers.p002_variants",
    "p003_setups": "impinge.bench.papers.p003_setups",
    "p003_parameters": "impinge.bench.papers.p003_parameters",
    "p004_volumes": "impinge.bench.papers.p004_volumes",
    "p004_points": "impinge.bench.papers.p004_points",
    "p004_particles": "impinge.bench.papers.p004_particles",
}
"""Modules by name; those below ``papers`` return an experiment, which writes a page and a picture too."""

PEERS = [
    "pairs_against_peers", "gjk_cut_against_peers", "proximity_against_peers", "cloth_proximity",
    "hashing_against_peers", "volumes_against_peers", "worlds",
]  # fmt: skip
"""Those that time other libraries beside us."""

PAPERS = {
    number: [name for name in BENCHMARKS if name.startswith(f"p{number}_")]
    for number in ("000", "001", "002", "003", "004")
}
"""Experiments of each paper."""


def is_experiment(name: str) -> bool:
    """Whether a benchmark has claims to judge, and writes a page with a picture, as those of the papers do."""
    return ".papers." in BENCHMARKS[name] or name == "cluster_speed"


def chosen(names: Sequence[str]) -> list[str]:
    """The benchmarks that names stand for, in their order: all if none; ``papers 000 003`` are those of two papers."""
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
            raise OptionError(f"no benchmark {name}; expected any of {known}, or compare OLD NEW")
    return list(dict.fromkeys(found))
