"""Other libraries for the same task: one adapter each, with a common interface.

An adapter uses a peer at its best: it reuses everything that frames have in common, refits where the peer has a refit,
rebuilds where it has none, and requests detection only. Peers are optional packages (``pip install impinge[bench]``),
imported when they are used. Not all of them are free for every purpose: MeshLib's licence excludes commercial use.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
from typing import Any, ClassVar

import numpy as np

from impinge.checks import Floats, Ints
from impinge.mesh.tri_mesh import TriMesh

MODULES = ("embree", "meshlib", "igl", "coal", "fcl", "warp", "ipctk")
"""The adapters, quickest peer first."""


class Package:
    """A library that may be installed."""

    name: str
    package: ClassVar[str]
    """Distribution name, for pip."""
    module: ClassVar[str]
    """Module name, for import."""

    def available(self) -> str | None:
        """The reason why the peer cannot run here, one sentence; None if it can."""
        if importlib.util.find_spec(self.module.partition(".")[0]) is None:
            return f"{self.name} is not installed; pip install {self.package}"
        try:
            importlib.import_module(self.module)
        except ImportError as error:
            return f"{self.name} is installed but cannot be imported ({error}); reinstall {self.package}"
        return None

    def version(self) -> str:
        """The installed version."""
        return importlib.metadata.version(self.package)

    def threads(self) -> int:
        """Number of threads; one by default."""
        return 1


class Peer(Package):
    """One peer: pairs of two bodies or, where supported, of one with itself.

    Call ``prepare`` once, then ``update`` and ``query`` (or ``self_query``) for each frame.
    """

    how: ClassVar[str]
    """Steps of a frame, a few words."""
    has_self_query: ClassVar[bool] = False

    def prepare(self, a: TriMesh, b: TriMesh | None = None) -> None:
        """Set faces and first positions; without ``b`` only ``self_query`` is defined."""
        raise NotImplementedError

    def update(self, xa: Floats, xb: Floats | None = None) -> None:
        """Set new positions; ``None`` only where there is no ``b``."""
        raise NotImplementedError

    def query(self) -> Ints | bool:
        """Pairs of intersecting triangles, shape (k, 2), in any order; a boolean from a peer without pairs."""
        raise NotImplementedError

    def self_query(self) -> Ints:
        """Pairs of intersecting triangles of the first body, each once, shape (k, 2), in any order."""
        raise NotImplementedError


def all_peers() -> list[Peer]:
    """One of each, installed or not."""
    return [importlib.import_module(f"{__name__}.{module}").Adapter() for module in MODULES]


def faces_of(body: TriMesh, dtype: Any) -> Any:
    """All faces, contiguous, in the peer's own type."""
    return np.ascontiguousarray(body.faces, dtype=dtype)


def as_pairs(rows: Any) -> Ints:
    """Turn a list of pairs, perhaps an empty one, into an array of shape (k, 2)."""
    return np.asarray(rows, dtype=np.int32).reshape(-1, 2)


def cores() -> int:
    """Threads of a peer that uses all cores."""
    return os.cpu_count() or 1
