"""Vertices in tets of deforming bodies, update included: impinge against what a user could install instead.

Scene      100 plates of 500 tets, sunk into each other: 5,000 to 10,000 contacts, the plates of setup E of
           [Teschner2003]. All move in every frame.
Ours       New positions into all bodies, then every vertex in every tet but its own, with barycentric coordinates,
           sorted; self-collisions too.
libigl     One tree over all tets, built anew, and ``in_element`` of all vertices: one tet for each, mostly one of the
           vertex's own, so that it tells no contact. And what tells all but self-collisions: a tree for each body,
           asked about the vertices of others in its box (which NumPy picks): one tet for each, which is enough, since
           tets of one body do not overlap. Neither gives barycentric coordinates.
pyvista    A locator over all tets, built anew, and one tet for each vertex, mostly its own, too.
Agreement  All tets of all vertices by libigl's ``AABB.find``, but for the vertex's own, must be our contacts, and so
           must those of the trees for each body; once, at a pose where no vertex is on a face.
Ours alone Time per tet over the number of tets: copies of 20 such plates, so that contacts per tet are the same; as
           many bodies, and joined into one. And the memory beyond the bodies' own.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.measure import Row, interleaved
from benchmarks.papers.p003_scenes import copies, counts, joined, tet_bodies
from impinge import scenes
from impinge.backend import jit
from impinge.checks import Floats, Ints
from impinge.detect.common.results import VertexContacts
from impinge.detect.spatial_hash.detector import SpatialHash
from impinge.errors import ImpingeError
from impinge.mesh.tet_mesh import TetMesh
from impinge.scenes.registry import Scene

OURS = "impinge"
WITHOUT_UPDATE = "impinge, without the update"
ONE_TREE, TREES = "libigl, one tree, a tet for each vertex", "libigl, a tree for each body"
PYVISTA = "pyvista, a tet for each vertex"
FRAMES = 5
STEP = 0.1
"""Of time, between frames."""
MOST_BYTES = 100.0
"""Per primitive, that is to say vertex or tet."""
MOST_SPREAD = 1.4
"""Of the time per tet."""

Frame = tuple[Floats, ...]
"""Positions of all bodies."""
Contacts = set[tuple[int, int]]
"""Vertices and tets, by their numbers among all."""


@dataclass(frozen=True)
class _Sizes:
    scene: str
    block: str
    """What is copied for the time per tet."""
    copies: tuple[int, ...]
    rounds: int


FULL = _Sizes("hashing_setup_e_dense", "hashing_setup_c_dense", (1, 5, 20, 50, 200), 30)
QUICK = _Sizes("hashing_setup_c_dense", "hashing_setup_c_dense", (1, 2), 2)


def run(*, quick: bool = False) -> list[Row]:
    """Measure everything; ``quick`` takes few plates and rounds."""
    sizes = QUICK if quick else FULL
    return [*_against_peers(sizes), *_time_per_tet(sizes)]


def step_of(bodies: Sequence[TetMesh], detector: SpatialHash) -> Callable[[Frame], VertexContacts]:
    """New positions into all bodies, then all contacts."""

    def step(frame: Frame) -> VertexContacts:
        for body, x in zip(bodies, frame):
            body.update(x)
        found = detector.query()
        assert isinstance(found, VertexContacts)
        return found

    return step


def _frames(scene: Scene, count: int) -> list[Frame]:
    return [tuple(x for x in scene.positions(STEP * n) if x is not None) for n in range(count)]


# against peers ------------------------------------------------------------------------------------------------


def _against_peers(sizes: _Sizes) -> list[Row]:
    scene = scenes.get(sizes.scene)
    bodies = tet_bodies(scene)
    frames = _frames(scene, FRAMES)
    detector = SpatialHash(bodies)
    step = step_of(bodies, detector)
    peers, missing = _peers(bodies)
    found = [step(frame) for frame in frames]
    _check(found[0], frames[0], peers)
    turns: dict[str, Callable[[], object]] = {OURS: _over(step, frames), WITHOUT_UPDATE: detector.query}
    turns |= {name: _over(peer.step, frames) for name, peer in peers.items()}
    objects, tets, vertices = counts(scene)
    label = f"{objects} plates, {tets:,} tets, {vertices:,} vertices"
    rows = interleaved(label, turns, rounds=sizes.rounds)
    contacts = [len(each) for each in found]
    note = f"{min(contacts):,} to {max(contacts):,} contacts; {jit.thread_count()} threads ({jit.thread_layer()})"
    base = rows[0].median_ms
    noted = [_with_note(rows[0], note)]
    noted.append(_with_note(rows[1], "build and contacts, the positions being there; nothing is kept from before"))
    for row in rows[2:]:
        alone = f"{row.min_ms / rows[1].min_ms:.2f} of ours without the update"
        noted.append(_with_note(row, f"medians {row.median_ms / base:.2f}, {alone}; {peers[row.candidate].note}"))
    return noted + [Row(label, name, math.nan, math.nan, math.nan, why) for name, why in missing.items()]


def _with_note(row: Row, note: str) -> Row:
    return Row(row.scene, row.candidate, row.min_ms, row.median_ms, row.ratio, note)


def _over(step: Callable[[Frame], object], frames: list[Frame]) -> Callable[[], object]:
    """A step that goes on to the next frame each time."""
    turns = itertools.cycle(frames)
    return lambda: step(next(turns))


class _Peer:
    """Tets of all bodies as a peer wants them; made once, since they do not change."""

    note: str
    has_self = True
    """Whether ``contacts`` tells self-collisions."""

    def __init__(self, bodies: Sequence[TetMesh]) -> None:
        self.start = np.cumsum([0, *(len(body.vertices) for body in bodies)])
        self.tet_start = np.cumsum([0, *map(len, bodies)])
        self.body_tets = [body.tets.astype(np.int64) for body in bodies]
        self.tets = np.concatenate([tets + first for tets, first in zip(self.body_tets, self.start)])

    def step(self, frame: Frame) -> Any:
        """What is timed."""
        raise NotImplementedError

    def contacts(self, _: Frame) -> Contacts | None:
        """All contacts, at any cost; None from a peer that cannot tell them."""
        return None


class _OneTree(_Peer):
    def __init__(self, bodies: Sequence[TetMesh]) -> None:
        super().__init__(bodies)
        self.igl: Any = importlib.import_module("igl")
        self.note = f"libigl {importlib.metadata.version('libigl')}: mostly the vertex's own tet, no contact is told"

    def step(self, frame: Frame) -> Ints:
        x = np.concatenate(frame)
        tree = self.igl.AABB()
        tree.init(x, self.tets)
        found: Ints = self.igl.in_element(x, self.tets, x, tree)
        return found

    def contacts(self, frame: Frame) -> Contacts:
        x = np.concatenate(frame)
        tree = self.igl.AABB()
        tree.init(x, self.tets)
        hits = ((v, t) for v in range(len(x)) for t in tree.find(x, self.tets, x[v], False))
        return {(v, t) for v, t in hits if v not in self.tets[t]}


class _Trees(_Peer):
    has_self = False

    def __init__(self, bodies: Sequence[TetMesh]) -> None:
        super().__init__(bodies)
        self.igl: Any = importlib.import_module("igl")
        self.note = f"libigl {importlib.metadata.version('libigl')}: contacts of two bodies, no self-collisions"

    def step(self, frame: Frame) -> tuple[Ints, Ints]:
        """Vertices and tets by their numbers among all."""
        x = np.concatenate(frame)
        vertex, tet = [], []
        for b, (own, tets) in enumerate(zip(frame, self.body_tets)):
            near = ((x >= own.min(axis=0)) & (x <= own.max(axis=0))).all(axis=1)
            near[self.start[b] : self.start[b + 1]] = False
            asked = np.flatnonzero(near)
            tree = self.igl.AABB()
            tree.init(own, tets)
            found = self.igl.in_element(own, tets, x[asked], tree)
            vertex.append(asked[found >= 0])
            tet.append(found[found >= 0] + self.tet_start[b])
        return np.concatenate(vertex), np.concatenate(tet)

    def contacts(self, frame: Frame) -> Contacts:
        vertex, tet = self.step(frame)
        return set(zip(vertex.tolist(), tet.tolist()))


class _Pyvista(_Peer):
    def __init__(self, bodies: Sequence[TetMesh]) -> None:
        super().__init__(bodies)
        pyvista: Any = importlib.import_module("pyvista")
        kinds = np.full(len(self.tets), pyvista.CellType.TETRA, dtype=np.uint8)
        cells = np.insert(self.tets, 0, 4, axis=1).reshape(-1)
        self.make = lambda x: pyvista.UnstructuredGrid(cells, kinds, x)
        self.note = f"pyvista {pyvista.__version__}: mostly the vertex's own tet, no contact is told"

    def step(self, frame: Frame) -> Ints:
        x = np.concatenate(frame)
        found: Ints = self.make(x).find_containing_cell(x)
        return found


PEERS: dict[str, tuple[str, str, type[_Peer]]] = {
    ONE_TREE: ("igl", "bench", _OneTree),
    TREES: ("igl", "bench", _Trees),
    PYVISTA: ("pyvista", "picture", _Pyvista),
}
"""Module, extra that brings it, and how it is asked."""


def _peers(bodies: Sequence[TetMesh]) -> tuple[dict[str, _Peer], dict[str, str]]:
    """Those that are installed, and why others are not there."""
    peers, missing = {}, {}
    for name, (module, extra, make) in PEERS.items():
        if importlib.util.find_spec(module) is None:
            missing[name] = f"not installed; pip install impinge[{extra}]"
        else:
            peers[name] = make(bodies)
    return peers, missing


def _check(ours: VertexContacts, frame: Frame, peers: dict[str, _Peer]) -> None:
    """Refuse to time a peer that has other contacts."""
    for name, peer in peers.items():
        found = peer.contacts(frame)
        if found is None:
            continue
        expected = _numbered(ours, peer)
        if found != expected:
            raise ImpingeError(
                f"{name} has {len(found - expected)} contacts that we have not, and lacks {len(expected - found)} of "
                f"our {len(expected)}; none is timed"
            )


def _numbered(found: VertexContacts, peer: _Peer) -> Contacts:
    """Our contacts of the sort that the peer knows, by its numbers."""
    rows = slice(None) if peer.has_self else ~found.is_self
    vertex, tet = peer.start[found.body] + found.vertex, peer.tet_start[found.in_body] + found.tet
    return set(zip(vertex[rows].tolist(), tet[rows].tolist()))


# ours alone ---------------------------------------------------------------------------------------------------


@dataclass
class _Size:
    """One number of tets."""

    scene: Scene
    detector: SpatialHash
    step: Callable[[Frame], VertexContacts]
    frames: list[Frame]
    ms: list[float]
    query_ms: list[float]
    contacts: int = 0

    @property
    def tets(self) -> int:
        return counts(self.scene)[1]


def _time_per_tet(sizes: _Sizes) -> list[Row]:
    """Copies as bodies of their own, then the same tets as one body: what the number of bodies costs shows between."""
    rows = []
    for name, change in (("bodies of their own", lambda scene: scene), ("one body", joined)):
        block = scenes.get(sizes.block)
        measured = [_prepare(change(copies(block, count))) for count in sizes.copies]
        for turn in range(max(2, sizes.rounds // 3)):
            for each in measured:
                _take(each, turn)
        rows += _rows_per_tet(f"time per tet, copies as {name}", measured)
    return rows


def _prepare(scene: Scene) -> _Size:
    bodies = tet_bodies(scene)
    detector = SpatialHash(bodies)
    size = _Size(scene, detector, step_of(bodies, detector), _frames(scene, 3), [], [])
    size.contacts = len(size.step(size.frames[0]))
    return size


def _take(size: _Size, turn: int) -> None:
    """One frame to bring the data back, then one that counts."""
    size.step(size.frames[turn % 3])
    began = perf_counter()
    found = size.step(size.frames[(turn + 1) % 3])
    size.ms.append(1e3 * (perf_counter() - began))
    size.query_ms.append(found.elapsed_ms)


def _rows_per_tet(label: str, measured: list[_Size]) -> list[Row]:
    ns = [1e6 * min(each.ms) / each.tets for each in measured]
    rows = []
    for each, per_tet in zip(measured, ns):
        objects, tets, vertices = counts(each.scene)
        note = (
            f"{per_tet:.1f} ns per tet, {per_tet / min(ns):.2f} of the least (medians "
            f"{1e6 * statistics.median(each.ms) / tets:.1f}; query alone {1e6 * min(each.query_ms) / tets:.1f}); "
            f"{each.contacts / tets:.4f} contacts per tet; {objects} bodies; "
            f"{told_memory(each.detector, tets + vertices)}"
        )
        ratio = min(each.ms) / min(measured[0].ms)
        rows.append(Row(label, f"{OURS}, {tets:,} tets", min(each.ms), statistics.median(each.ms), ratio, note))
    spread = max(ns) / min(ns)
    verdict = f"most over least time per tet {spread:.2f}, at most {MOST_SPREAD:g} wanted"
    return [*rows, Row(label, "spread", math.nan, math.nan, spread, verdict)]


def told_memory(detector: SpatialHash, primitives: int) -> str:
    """Bytes per primitive that a detector keeps besides the bodies' positions and tets."""
    parts = kept_bytes(detector)
    told = ", ".join(f"{name} {size / primitives:.1f}" for name, size in parts.items())
    return f"{sum(parts.values()) / primitives:.1f} bytes per primitive, at most {MOST_BYTES:g} wanted ({told})"


def kept_bytes(detector: SpatialHash) -> dict[str, int]:
    """Memory of the search, of all tets in clusters, of the clusters of each body, and of joint positions."""
    cached, positions = detector._cached, detector._positions
    assert cached is not None
    orders, batch = cached
    return {
        "scratch": sum(array.nbytes for array in detector._search.arrays.values()),
        "batch": _bytes_of([batch]),
        "orders": _bytes_of(orders),
        "positions": 0 if positions is None else positions.nbytes,
    }


def _bytes_of(groups: Iterable[Any]) -> int:
    """Arrays in tuples, each counted once; lists of live tets belong to the bodies."""
    arrays = {}
    for group in groups:
        for name, value in group._asdict().items():
            if isinstance(value, np.ndarray) and name != "live":
                arrays[id(value)] = value.nbytes
    return sum(arrays.values())
