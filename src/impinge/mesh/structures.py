"""What detectors keep with a body: trees, orders, whatever is made once and used by all who ask about the body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from impinge.mesh.positions import Positions

Made = TypeVar("Made")


class KeepsStructures:
    """A body that keeps structures for detectors; they die with it, and are not pickled."""

    _positions: Positions
    _structures: dict[str, Any]

    @property
    def positions(self) -> Positions:
        """What holds the positions and their version; a tet mesh and its surface have one in common."""
        return self._positions

    def has_structure(self, name: str) -> bool:
        """Whether something is kept under ``name``."""
        return name in self._structures

    def structure(self, name: str, make: Callable[[Any], Made]) -> Made:
        """What is kept under ``name``; ``make(body)`` makes it when it is first asked for."""
        with self._positions.lock:
            if name not in self._structures:
                self._structures[name] = make(self)
            made: Made = self._structures[name]
            return made

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the body without what detectors keep with it."""
        return {**self.__dict__, "_structures": {}}
