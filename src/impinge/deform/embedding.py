"""What lets a coarse mesh steer a dense one."""

from __future__ import annotations

from typing import Protocol

from impinge.checks import Floats, Ints


class Embedding(Protocol):
    """Places dense vertices where the coarse ones take them."""

    def steer(self, coarse: Floats, out: Floats | None = None) -> Floats:
        """Dense positions, shape (n, 3), for coarse ones; written to ``out`` if given."""

    def differential(self, vertices: Ints) -> tuple[Ints, Floats]:
        """How dense vertices move with coarse ones when last steered: ids (k, c), and blocks (k, c, 3, 3) for them."""
