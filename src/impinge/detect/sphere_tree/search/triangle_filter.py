"""Active triangles and ignored pairs of triangles of a query.

The search visits spheres as if all triangles counted. Afterwards pairs of spheres without an active triangle below
either are left out, and so are pairs of triangles that are inactive or ignored.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from impinge.checks import Bools, Ints, as_ids
from impinge.detect.common.pair_query import Keys, ignored_keys, unpack
from impinge.detect.common.pair_query_kernels import KIND_BITS
from impinge.detect.sphere_tree.search.context import Trees


class TriangleFilter:
    """The triangles and pairs that count."""

    def __init__(
        self, trees: Trees, active: tuple[ArrayLike | None, ArrayLike | None], ignore: ArrayLike | None, is_self: bool
    ) -> None:
        self._masks: list[tuple[int, Bools, Bools]] = []
        """Column of a pair, mask of active triangles, mask of nodes with an active triangle below."""
        for k, (tracked, ids) in enumerate(zip(trees, active)):
            if ids is not None:
                mask: Bools = np.zeros(len(tracked.faces), dtype=np.bool_)
                mask[as_ids(ids, name=f"active_{'ab'[k]}", count=len(mask))] = True
                before = np.concatenate([[0], np.cumsum(mask[tracked.tree.piece_triangle])])
                self._masks.append((k, mask, before[tracked.tree.piece_stop] > before[tracked.tree.piece_start]))
        self._ignored = None if ignore is None else ignored_keys(ignore, is_self)

    def nodes(self, pairs: Ints) -> Ints:
        """Pairs of nodes with active triangles below both."""
        for k, _, has_active in self._masks:
            pairs = pairs[has_active[pairs[:, k]]]
        return pairs

    def triangles(self, keys: Keys) -> Bools:
        """Which pairs of triangles count."""
        kept: Bools = np.ones(len(keys), dtype=np.bool_)
        pairs, _ = unpack(keys)
        for k, mask, _ in self._masks:
            kept &= mask[pairs[:, k]]
        if self._ignored is not None:
            kept &= ~np.isin(keys >> np.uint64(KIND_BITS), self._ignored)
        return kept
