"""The parameters of spatial hashing: Figs 3 to 6 of [Teschner2003], and every choice of section 4 and 7.

Protocol   Deforming steps (``p003_steps``); candidates of a group differ in one parameter and alternate at
           every step, and all find the same contacts.
Figures    Time over table sizes 99, 199, 299, ... and the primes above them (Fig. 3: D, Fig. 4: A), cells as long as
           the mean edge; time over cell sizes (Fig. 5: D, table of 9973; Fig. 6: A, table of 4999).
Groups     Hash functions at small and large tables, also with the scene around the origin, where the paper's function
           maps cells and their mirror images to one slot; inside tests; one pass and two; time stamps, tables
           emptied in every step and counting sort; with and without edges; time per tet over the number of tets; many
           bodies, and one of the same tets.
Claims     In ``p003_parameters_claims``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.measure import Sizes
from benchmarks.papers.experiment import Experiment, Plot, Table
from benchmarks.papers.p003_parameters_claims import Found, claims
from benchmarks.papers.p003_scenes import SETUPS, copies, counts, joined, mean_edge, shifted
from benchmarks.papers.p003_steps import Candidate, Measured, hashed, measure, published
from impinge.published.spatial_hash import next_prime
from impinge.scenes.registry import Scene

FUNCTIONS = ("paper", "additive", "rotating", "mixed")
FAR = 1000.0
"""Offset from the origin of a scene whose cell indices are all positive."""

PROTOCOL = """
Same protocol; substitute geometry for D. Waves run through all bodies; {steps} steps are timed, after one that is not.
In each group one parameter is changed, and all candidates find the same contacts at every step. Unless stated
otherwise, the scheme is the one published (``impinge.published``: paper's hash, time stamps, barycentric test, two
passes, one thread; cells as long as the mean edge at rest; tables of 4999 slots for A, 9973 for D, else the least
prime above twice the number of vertices). "default" is the production detector, on all threads. The setups are those
of p003_setups. "Reset" empties all slots in every step.

The figures of the paper have lost their axes: ranges are ours. Cells of the default are rounded to powers of
two. Vertices met are those in the slots of the cells of a tet, its own included, with multiplicity.
"Around the origin" and "far from it" are the plates of C moved as a whole. Copies are side by side and deform alike.
"""


# hash_tables: small, middling, large; copies: of the 8 plates of B; letters: setups of the groups that have no figure
FULL = Sizes(
    table_sizes=(
        *range(99, 2000, 100), *range(2999, 10_000, 1000), 19_999, 49_999, 99_999, 499_999, 999_999, 4_999_999,
    ),
    cell_factors=(0.25, 0.35, 0.5, 0.7, 0.85, 1.0, 1.2, 1.4, 1.7, 2.0, 2.8, 4.0),
    hash_tables=(199, 1999, 49_999),
    storage_tables=(9973, 99_991, 999_983),
    copies=(1, 3, 12, 50),
    letters="ADE",
    figure_letters="DA",
    steps=9,
)  # fmt: skip
QUICK = Sizes(
    table_sizes=(99, 999, 4999, 9999, 99_999),
    cell_factors=(0.5, 1.0, 2.0),
    hash_tables=(199, 9999),
    storage_tables=(99_991,),
    copies=(1, 2),
    letters="A",
    figure_letters="A",
    steps=1,
)


# Groups -------------------------------------------------------------------------------------------------------
# Each is a function of a scene, the published table size and the sizes of the run.


def _table_size(scene: Scene, _: int | None, sizes: Sizes) -> list[Candidate]:
    primes = map(next_prime, sizes.table_sizes)
    return [published(f"{n}", scene, table_size=n) for n in sizes.table_sizes] + [
        published(f"{n}, prime", scene, table_size=n) for n in primes
    ]


def _cell_size(scene: Scene, table_size: int | None, sizes: Sizes) -> list[Candidate]:
    edge = mean_edge(scene)
    return [
        published(f"{factor:g} edges", scene, table_size=table_size, cell_size=factor * edge)
        for factor in sizes.cell_factors
    ] + [hashed(f"{factor:g} edges, default", scene, cell_size=factor * edge) for factor in sizes.cell_factors]


def _hash_function(scene: Scene, _: int | None, sizes: Sizes) -> list[Candidate]:
    return [
        published(f"{function}, {n} slots", scene, hash=function, table_size=n)
        for n in map(next_prime, sizes.hash_tables)
        for function in FUNCTIONS
    ]


def _inside_test(scene: Scene, table_size: int | None, _: Sizes) -> list[Candidate]:
    return [
        published("barycentric", scene, table_size=table_size),
        published("half_space", scene, table_size=table_size, inside_test="half_space"),
    ]


def _passes(scene: Scene, table_size: int | None, _: Sizes) -> list[Candidate]:
    return [
        published("two passes", scene, table_size=table_size),
        published("one pass", scene, table_size=table_size, passes=1),
    ]


def _storage(scene: Scene, _: int | None, sizes: Sizes) -> list[Candidate]:
    return [
        published(f"{storage.replace('_', ' ')}, {n} slots", scene, table_size=n, storage=storage)
        for n in sizes.storage_tables
        for storage in ("time_stamps", "reset", "counting_sort")
    ]


def _edges(scene: Scene, table_size: int | None, _: Sizes) -> list[Candidate]:
    return [
        published("vertices only", scene, table_size=table_size),
        published("edges too", scene, table_size=table_size, edges=True),
        hashed("vertices only, default", scene),
        hashed("edges too, default", scene, edges=True),
    ]


def _object_count(scene: Scene, table_size: int | None, _: Sizes) -> list[Candidate]:
    one = joined(scene)
    return [
        published("many bodies", scene, table_size=table_size),
        published("one body", one, table_size=table_size),
        hashed("many bodies, default", scene),
        hashed("one body, default", one),
    ]


def _tet_count(scene: Scene, _: int | None, __: Sizes) -> list[Candidate]:
    return [published("as published", scene), hashed("default", scene)]


GROUPS: dict[str, Callable[[Scene, int | None, Sizes], list[Candidate]]] = {
    "table size": _table_size,
    "cell size": _cell_size,
    "hash function": _hash_function,
    "inside test": _inside_test,
    "passes": _passes,
    "storage": _storage,
    "edges": _edges,
    "number of objects": _object_count,
    "number of tets": _tet_count,
}


def _scenes(group: str, sizes: Sizes) -> list[tuple[str, Callable[[], Scene], int | None]]:
    """Names, makers and published table sizes of the scenes of a group."""
    if group == "number of tets":
        block = SETUPS["B"].scene()
        return [(f"{count} x B", partial(copies, block, count), None) for count in sizes.copies]
    letters = sizes.figure_letters if group in ("table size", "cell size") else sizes.letters
    listed = [(letter, SETUPS[letter].scene, SETUPS[letter].table_size) for letter in letters]
    if group == "hash function":
        moved = SETUPS["C"].scene()
        listed += [
            ("C around the origin", partial(shifted, moved, (0.0, 0.0, 0.0)), None),
            ("C far from the origin", partial(shifted, moved, (FAR, FAR, FAR)), None),
        ]
    return listed


# Run ----------------------------------------------------------------------------------------------------------


def run(*, quick: bool = False) -> Experiment:
    """Measure all groups; ``quick`` takes few candidates on small setups."""
    sizes = QUICK if quick else FULL
    found: Found = {}
    tets: dict[str, int] = {}
    for group, candidates in GROUPS.items():
        for name, make, table_size in _scenes(group, sizes):
            scene = make()
            label = f"{group}: {name}, {counts(scene)[1]:,} tets"
            tets[name] = counts(scene)[1]
            times = [0.1 * step for step in range(sizes.steps)]
            found[group, name] = measure(label, candidates(scene, table_size, sizes), times)
    return Experiment(
        name="p003_parameters",
        title="Optimized spatial hashing: what each parameter is worth",
        protocol=PROTOCOL.format(steps=sizes.steps),
        rows=[each.row for group in found.values() for each in group.values()],
        claims=claims(found, tets),
        tables=[_hash_table(found)],
        plot=_plot(found, tets),
        quick=quick,
    )


def _hash_table(found: Found) -> Table:
    """Time and vertices met of each function, beside the best of them in the same table."""
    rows: list[tuple[Any, ...]] = []
    for (group, scene), candidates in found.items():
        if group != "hash function":
            continue
        for name, each in candidates.items():
            function, slots = name.removesuffix(" slots").split(", ")
            same = [other for key, other in candidates.items() if key.endswith(f", {slots} slots")]
            least = min(other.met for other in same)
            rows.append((scene, int(slots), function, each.row.min_ms, each.row.median_ms, each.met, each.met / least))
    columns = ("scene", "slots", "function", "least ms", "median ms", "vertices met", "over the least")
    return Table("hash_functions", "Hash functions", columns, rows)


# Picture ------------------------------------------------------------------------------------------------------

BARS = ("hash function", "inside test", "passes", "storage", "edges", "number of objects")


def _plot(found: Found, tets: dict[str, int]) -> Plot:
    """Figs 3 to 6 above, then time per tet and bars of the other parameters."""
    figures = [key for key in found if key[0] in ("table size", "cell size")]
    columns = 4
    panels_needed = len(figures) + 1 + len(BARS)
    rows = -(-panels_needed // columns)

    def draw(figure: Any) -> None:
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for panel, key in zip(panels, figures):
            _draw_curve(panel, *key, found[key])
        _draw_tet_count(panels[len(figures)], found, tets)
        for panel, group in zip(panels[len(figures) + 1 :], BARS):
            _draw_bars(panel, group, found)
        for panel in panels[panels_needed:]:
            panel.set_visible(False)

    return Plot((5.2 * columns, 3.8 * rows), draw)


FIGURE = {("table size", "D"): 3, ("table size", "A"): 4, ("cell size", "D"): 5, ("cell size", "A"): 6}


def _draw_curve(panel: Any, group: str, scene: str, candidates: dict[str, Measured]) -> None:
    """Medians over the number that a name begins with, a line for each ending."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for name, each in candidates.items():
        number, _, ending = name.replace(" edges", "").partition(", ")
        lines.setdefault(ending, []).append((float(number), each.row.median_ms))
    plain = "99, 199, 299, ..." if group == "table size" else "as published"
    for ending, points in lines.items():
        panel.plot(*zip(*points), marker=".", label=ending or plain)
    panel.set(title=f"Fig. {FIGURE[group, scene]}: {group}, setup {scene}", xscale="log", yscale="log", ylabel="ms")
    panel.set_xlabel("slots" if group == "table size" else "cell size over mean edge")
    panel.legend()


def _draw_tet_count(panel: Any, found: Found, tets: dict[str, int]) -> None:
    here = [(tets[scene], candidates) for (group, scene), candidates in found.items() if group == "number of tets"]
    for name in here[0][1]:
        per_tet = [1e6 * each[name].row.median_ms / n for n, each in here]
        panel.plot([n for n, _ in here], per_tet, marker=".", label=name)
    panel.set(title="number of tets", xscale="log", yscale="log", xlabel="tets", ylabel="ns per tet")
    panel.legend()


def _draw_bars(panel: Any, group: str, found: Found) -> None:
    bars = [
        (f"{name} ({scene})", each.row.ratio)
        for (of, scene), candidates in found.items()
        if of == group
        for name, each in candidates.items()
    ]
    panel.barh([name for name, _ in bars], [ratio for _, ratio in bars])
    panel.invert_yaxis()
    panel.tick_params(axis="y", labelsize=5 if len(bars) > 12 else 8)
    panel.axvline(1.0, color="black", linewidth=0.8)
    panel.set(title=group, xlabel="time over that of the first")
