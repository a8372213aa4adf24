"""Interface of embeddings: dense vertices that follow a coarse mesh."""

from __future__ import annotations

from typing import Protocol

from impinge.checks import Floats, Ints


class Embedding(Protocol):
    """Maps coarse positions to dense ones."""

    def steer(self, coarse: Floats, out: Floats | None = None) -> Floats:
        """Dense positions, shape (n, 3), for coarse ones; written to ``out`` if given."""

    def differential(self, vertices: Ints) -> tuple[Ints, Floats]:
        """Derivatives of dense by coarse positions in the last state: ids (k, c), and their blocks (k, c, 3, 3)."""
