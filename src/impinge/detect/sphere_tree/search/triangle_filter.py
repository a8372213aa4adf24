"""Which triangles a query with sphere trees is about.

Spheres are searched as if all triangles counted; then pairs of spheres without an active triangle below one of them are
left out, and of pairs of triangles those that are not active or to be ignored.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Bools, Ints, as_ids
from impinge.detect.common.pair_query import Keys, check_max_pairs, ignored_keys, unpack
from impinge.detect.common.pair_query_kernels import KIND_BITS
from impinge.detect.sphere_tree.hierarchy import SphereHierarchy
from impinge.detect.sphere_tree.search.body_binding import Seat
from impinge.errors import OptionError


class Choice(NamedTuple):
    """Active triangles of both bodies (ids or masks, None for all), pairs to ignore, and how many to list at most."""

    active_a: Any
    active_b: Any
    ignore: Any
    max_pairs: int | None
    is_self: bool = False

    @property
    def is_all(self) -> bool:
        """Whether all triangles count."""
        return self.active_a is None and self.active_b is None and self.ignore is None

    def check(self, *, exact: bool) -> None:
        """Refuse what is about pairs of triangles where there are none."""
        check_max_pairs(self.max_pairs)
        for name, value in (("ignore", self.ignore), ("max_pairs", self.max_pairs)):
            if value is not None and not exact:
                raise OptionError(
                    f"{name} is about pairs of triangles, but this search ends at spheres; pass exact=True"
                )

    def masks(self, placed: tuple[Seat, Seat]) -> list[Bools | None]:
        """Which triangles of each body are active, None for all."""
        found: list[Bools | None] = []
        for side, active in zip(placed, (self.active_a, self.active_b)):
            mask: Bools | None = None
            if active is not None:
                mask = np.zeros(len(side.faces), dtype=np.bool_)
                mask[as_ids(active, name=f"active_{side.letter}", count=len(mask))] = True
            found.append(mask)
        return found

    def nodes(self, placed: tuple[Seat, Seat], pairs: Ints) -> Ints:
        """Of pairs of nodes those with active triangles below both."""
        for k, (side, mask) in enumerate(zip(placed, self.masks(placed))):
            if mask is not None:
                pairs = pairs[_has_any(side.tracked.tree, mask)[pairs[:, k]]]
        return pairs

    def triangles(self, placed: tuple[Seat, Seat], keys: Keys) -> NDArray[np.bool_]:
        """Of pairs of triangles those that count."""
        kept = np.ones(len(keys), dtype=np.bool_)
        pairs, _ = unpack(keys)
        for k, mask in enumerate(self.masks(placed)):
            if mask is not None:
                kept &= mask[pairs[:, k]]
        if self.ignore is not None:
            kept &= ~np.isin(keys >> np.uint64(KIND_BITS), ignored_keys(self.ignore, is_self=self.is_self))
        return kept


ALL = Choice(None, None, None, None)
"""All triangles, all pairs."""


def _has_any(tree: SphereHierarchy, mask: Bools) -> NDArray[np.bool_]:
    """Whether there is an active triangle below each node."""
    before = np.concatenate([[0], np.cumsum(mask[tree.piece_triangle])])
    return np.asarray(before[tree.piece_stop] > before[tree.piece_start])
