"""Spatial hashing as published, with the variants that the paper mentions or compares [Teschner2003].

hash         "paper": (i·73856093 xor j·19349663 xor k·83492791) mod n, where cells (i, j, k) and (i, -j, -k) often
             share a slot; "additive": the sum in place of xor; "rotating": rotate by 11 bits, then xor; "mixed": every
             bit of the cell reaches every bit of the slot.
table_size   n; the least prime above twice the number of vertices if not given.
inside_test  "barycentric": solve for the coordinates along three edges (4.4); "half_space": four oriented faces.
passes       2: vertices, then tets against vertices; 1: tets only, then tets that share a slot (section 7).
storage      "time_stamps": lists whose slots are emptied when they are first used in a frame (4.2);
             "counting_sort": the lists one behind the other, made anew.

Cells are ``cell_size`` wide, the mean edge length if not given (4.3), of one size for all tets. A tet that covers more
cells than there are vertices is tested against all vertices instead. Kernels run on one thread, as in the paper.
What several cells of a tet share is found several times; whoever asks sorts, and drops what is there twice.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from impinge.backend.stages import Stages
from impinge.checks import Floats, sorted_unique
from impinge.detect.spatial_hash import published_kernels as kernels
from impinge.detect.spatial_hash.cells import Keys, Scratch, farthest_of, mean_edge_of, orientations
from impinge.detect.spatial_hash.tet_batch import Arena
from impinge.errors import OptionError

Hash = Literal["paper", "additive", "rotating", "mixed"]
InsideTest = Literal["barycentric", "half_space"]
Storage = Literal["time_stamps", "counting_sort"]

FUNCTIONS = {
    "paper": kernels.PAPER, "additive": kernels.ADDITIVE, "rotating": kernels.ROTATING, "mixed": kernels.MIXED,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A choice among the variants."""

    hash: Hash = "paper"
    table_size: int | None = None
    inside_test: InsideTest = "barycentric"
    passes: Literal[1, 2] = 2
    storage: Storage = "time_stamps"

    def __post_init__(self) -> None:
        choices: dict[str, tuple[Any, ...]] = {
            "hash": get_args(Hash), "inside_test": get_args(InsideTest), "passes": (1, 2), "storage": get_args(Storage),
        }  # fmt: skip
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise OptionError(f"{name} is {getattr(self, name)!r}, expected one of {', '.join(map(repr, known))}")
        n = self.table_size
        if n is not None and (isinstance(n, bool) or not isinstance(n, int | np.integer) or not 1 <= n < 2**31):
            raise OptionError(f"table_size is {n!r}, expected a whole number from 1 to 2^31 - 1")


def variant_of(options: dict[str, Any]) -> Variant | None:
    """The variant that options ask for; None if they ask for nothing."""
    known = [f.name for f in fields(Variant)]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise OptionError(f"unknown option {', '.join(unknown)}; expected cell_size or any of {', '.join(known)}")
    return Variant(**options) if options else None


def next_prime(n: int) -> int:
    """The least prime above ``n``."""
    candidate = max(n + 1, 2)
    while any(candidate % d == 0 for d in range(2, int(candidate**0.5) + 1)):
        candidate += 1
    return candidate


class PublishedSearch:
    """Finds candidates; the table and its time stamps live on from frame to frame."""

    def __init__(self, cell_size: float | None, variant: Variant) -> None:
        self._cell_size, self.variant = cell_size, variant
        self.scratch = Scratch()
        self._now = 0
        self._room = 1024

    def candidates(self, x: Floats, arena: Arena, stats: dict[str, Any], stages: Stages) -> Keys:
        """Keys (vertex, tet) of all vertices that are in tets, and of a few that are nearly; some several times."""
        farthest_of(x, arena)  # refuses what is not finite
        cell_size = self._cell_size or mean_edge_of(x, arena, every=1)
        table_size = self.variant.table_size or next_prime(2 * len(arena.vertex))
        stages.done("cell_size")
        while True:
            keys = self.scratch.array("keys", self._room, np.uint64)
            tally = np.zeros(3, dtype=np.int64)
            self._run(x, arena, cell_size, table_size, keys, tally, stages)
            if tally[2] <= len(keys):
                break
            self._room = int(1.5 * tally[2])
        met, in_box, count = tally.tolist()
        may_be_flat = np.zeros(len(arena.tet), dtype=np.bool_)
        surely = kernels.sift_volumes(x, arena.corner, arena.tet, may_be_flat)
        flat, inverted = orientations(x, arena, np.flatnonzero(may_be_flat))
        stages.done("orientations")
        stats.update(
            cell_size=cell_size, table_size=table_size, vertices_met=met, inside_tests=in_box, flat_tets=flat,
            inverted_tets=surely + inverted,
        )  # fmt: skip
        return sorted_unique(keys[:count])

    def _run(
        self, x: Floats, arena: Arena, cell_size: float, table_size: int, keys: Keys, tally: NDArray[np.int64],
        stages: Stages,
    ) -> None:  # fmt: skip
        function, half_space = FUNCTIONS[self.variant.hash], self.variant.inside_test == "half_space"
        tets = (x, arena.corner, arena.tet, arena.vertex, cell_size, function, half_space)
        if self.variant.passes == 1:
            start = self.scratch.array("start", table_size + 1, np.int64)[: table_size + 1]
            kernels.search_one_pass(*tets, start, keys, tally)
        elif self.variant.storage == "counting_sort":
            start = self.scratch.array("start", table_size + 1, np.int64)[: table_size + 1]
            listed = self.scratch.array("listed", len(arena.vertex), np.int32)
            slots = self.scratch.array("slots", len(arena.vertex), np.int64)
            kernels.sort_vertices(x, arena.vertex, cell_size, function, start, slots, listed)
            stages.done("hash")
            kernels.search_sorted(*tets, start, listed, keys, tally)
        else:
            self._now += 1
            stamp = self.scratch.array("stamp", table_size, np.int64)[:table_size]
            first = self.scratch.array("first", table_size, np.int32)
            following = self.scratch.array("following", len(x), np.int32)
            kernels.hash_vertices(x, arena.vertex, cell_size, function, self._now, stamp, first, following)
            stages.done("hash")
            kernels.search_lists(*tets, self._now, stamp, first, following, keys, tally)
        stages.done("search")
