"""Vertices in tets of deforming bodies, update included: impinge against other libraries.

Scene      100 plates of 500 tets that penetrate each other: 5,000 to 10,000 contacts, the plates of setup E of
           [Teschner2003]. All move in every frame.
Ours       New positions for all bodies, then every vertex in every tet but its own, with barycentric coordinates,
           sorted; self-collisions included.
libigl     One tree over all tets, rebuilt, and ``in_element`` of all vertices: one tet for each, mostly one of the
           vertex's own, hence no contact. Second candidate, all contacts but self-collisions: a tree for each body,
           queried with the vertices of others in its box (selected by NumPy). One tet for each is enough, since tets
           of one body do not overlap. Neither gives barycentric coordinates.
pyvista    A locator over all tets, rebuilt, and one tet for each vertex, mostly its own.
Agreement  All tets of all vertices by libigl's ``AABB.find``, without the vertex's own, must be our contacts, and so
           must those of the trees for each body; checked once, at a pose where no vertex is on a face.
Ours alone Time per tet over the number of tets: copies of 20 such plates keep the contacts per tet constant; as
           separate bodies, and joined into one. And the memory beyond that of the bodies.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.measure import Candidate, Row, Sizes, interleave, interleaved, our_threads, row_of, unmeasured
from benchmarks.papers.p003_scenes import copies, counts, joined, tet_bodies
from impinge import scenes
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
"""Time between frames."""
MOST_BYTES = 100.0
"""Per primitive: vertex or tet."""
MOST_SPREAD = 1.4
"""Of the time per tet."""

Frame = tuple[Floats, ...]
"""Positions of all bodies."""
Contacts = set[tuple[int, int]]
"""Global indices of vertices and tets."""


# block: what is copied for the time per tet
FULL = Sizes(scene="hashing_setup_e_dense", block="hashing_setup_c_dense", copies=(1, 5, 20, 50, 200), rounds=30)
QUICK = Sizes(scene="hashing_setup_c_dense", block="hashing_setup_c_dense", copies=(1, 2), rounds=2)


def run(*, quick: bool = False) -> list[Row]:
    """Measure everything; ``quick`` takes few plates and rounds."""
    sizes = QUICK if quick else FULL
    return [*_against_peers(sizes), *_time_per_tet(sizes)]


def step_of(bodies: Sequence[TetMesh], detector: SpatialHash) -> Callable[[Frame], VertexContacts]:
    """A step: new positions for all bodies, then all contacts."""

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


def _against_peers(sizes: Sizes) -> list[Row]:
    scene = scenes.get(sizes.scene)
    bodies = tet_bodies(scene)
    frames = _frames(scene, FRAMES)
    detector = SpatialHash(bodies)
    step = step_of(bodies, detector)
    peers, missing = _peers(bodies)
    found = [step(frame) for frame in frames]
    _check(found[0], frames[0], peers)
    steps: dict[str, Callable[[Frame], object]] = {OURS: step, WITHOUT_UPDATE: lambda _: detector.query()}
    steps |= {name: peer.step for name, peer in peers.items()}
    objects, tets, vertices = counts(scene)
    label = f"{objects} plates, {tets:,} tets, {vertices:,} vertices"
    rows = interleaved(label, steps, frames, rounds=sizes.rounds)
    contacts = [len(each) for each in found]
    noted = [replace(rows[0], note=f"{min(contacts):,} to {max(contacts):,} contacts; {our_threads()}")]
    noted.append(replace(rows[1], note="build and contacts at given positions; nothing is reused from the last query"))
    for row in rows[2:]:
        alone = f"{row.min_ms / rows[1].min_ms:.2f} of ours without the update"
        note = f"medians {row.median_ms / rows[0].median_ms:.2f}, {alone}; {peers[row.candidate].note}"
        noted.append(replace(row, note=note))
    return noted + [unmeasured(label, name, why) for name, why in missing.items()]


class _Peer:
    """Tets of all bodies in the layout of a peer, built once."""

    note: str
    has_self = True
    """Whether ``contacts`` includes self-collisions."""

    def __init__(self, bodies: Sequence[TetMesh]) -> None:
        self.start = np.cumsum([0, *(len(body.vertices) for body in bodies)])
        self.tet_start = np.cumsum([0, *map(len, bodies)])
        self.body_tets = [body.tets.astype(np.int64) for body in bodies]
        self.tets = np.concatenate([tets + first for tets, first in zip(self.body_tets, self.start)])

    def step(self, frame: Frame) -> Any:
        """What is timed."""
        raise NotImplementedError

    def contacts(self, _: Frame) -> Contacts | None:
        """All contacts, at any cost; None from a peer without them."""
        return None


class _OneTree(_Peer):
    def __init__(self, bodies: Sequence[TetMesh]) -> None:
        super().__init__(bodies)
        self.igl: Any = importlib.import_module("igl")
        self.note = f"libigl {importlib.metadata.version('libigl')}: mostly the vertex's own tet, no contacts"

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
        """Global indices of vertices and tets."""
        x = np.concatenate(frame)
        vertex, tet = [], []
        for b, (own, tets) in enumerate(zip(frame, self.body_tets)):
            near = ((x >= own.min(axis=0)) & (x <= own.max(axis=0))).all(axis=1)
            near[self.start[b] : self.start[b + 1]] = False
            vertices = np.flatnonzero(near)
            tree = self.igl.AABB()
            tree.init(own, tets)
            found = self.igl.in_element(own, tets, x[vertices], tree)
            vertex.append(vertices[found >= 0])
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
        self.note = f"pyvista {pyvista.__version__}: mostly the vertex's own tet, no contacts"

    def step(self, frame: Frame) -> Ints:
        x = np.concatenate(frame)
        found: Ints = self.make(x).find_containing_cell(x)
        return found


PEERS: dict[str, tuple[str, str, type[_Peer]]] = {
    ONE_TREE: ("igl", "bench", _OneTree),
    TREES: ("igl", "bench", _Trees),
    PYVISTA: ("pyvista", "picture", _Pyvista),
}
"""Module, extra that installs it, and adapter."""


def _peers(bodies: Sequence[TetMesh]) -> tuple[dict[str, _Peer], dict[str, str]]:
    """Installed peers, and the reason for each of the others."""
    peers, missing = {}, {}
    for name, (module, extra, make) in PEERS.items():
        if importlib.util.find_spec(module) is None:
            missing[name] = f"not installed; pip install impinge[{extra}]"
        else:
            peers[name] = make(bodies)
    return peers, missing


def _check(ours: VertexContacts, frame: Frame, peers: dict[str, _Peer]) -> None:
    """Raise if the contacts of a peer differ from ours."""
    for name, peer in peers.items():
        found = peer.contacts(frame)
        if found is None:
            continue
        expected = _numbered(ours, peer)
        if found != expected:
            raise ImpingeError(
                f"{name} has {len(found - expected)} contacts more than ours and lacks {len(expected - found)} of "
                f"our {len(expected)}; none is timed"
            )


def _numbered(found: VertexContacts, peer: _Peer) -> Contacts:
    """Our contacts by global index, without self-collisions for a peer without them."""
    rows = slice(None) if peer.has_self else ~found.is_self
    vertex, tet = peer.start[found.body] + found.vertex, peer.tet_start[found.in_body] + found.tet
    return set(zip(vertex[rows].tolist(), tet[rows].tolist()))


# ours alone ---------------------------------------------------------------------------------------------------


@dataclass
class _Size:
    """One number of tets."""

    scene: Scene
    detector: SpatialHash
    candidate: Candidate[int, VertexContacts]
    contacts: int
    query_ms: list[float]


def _time_per_tet(sizes: Sizes) -> list[Row]:
    """Copies as separate bodies, then the same tets as one body: the difference is the cost of the bodies."""
    rows = []
    for name, change in (("bodies of their own", lambda scene: scene), ("one body", joined)):
        block = scenes.get(sizes.block)
        measured = [_prepare(change(copies(block, count))) for count in sizes.copies]
        candidates = [each.candidate for each in measured]
        for samples in interleave(candidates, range(3), rounds=max(2, sizes.rounds // 3)):
            for each, (sample,) in zip(measured, samples):
                each.candidate.judge(sample)
                each.query_ms.append(sample.answer.elapsed_ms)
        rows += _rows_per_tet(f"time per tet, copies as {name}", measured)
    return rows


def _prepare(scene: Scene) -> _Size:
    bodies = tet_bodies(scene)
    detector = SpatialHash(bodies)
    step, frames = step_of(bodies, detector), _frames(scene, 3)

    def at(frame: int) -> VertexContacts:
        return step(frames[frame])

    return _Size(scene, detector, Candidate(scene.name, at, lead_in=1), len(at(0)), [])


def _rows_per_tet(label: str, measured: list[_Size]) -> list[Row]:
    base = min(measured[0].candidate.times)
    ns = [1e6 * min(each.candidate.times) / counts(each.scene)[1] for each in measured]
    rows = []
    for each, per_tet in zip(measured, ns):
        objects, tets, vertices = counts(each.scene)
        times = each.candidate.times
        note = (
            f"{per_tet:.1f} ns per tet, {per_tet / min(ns):.2f} of the least (medians "
            f"{1e6 * statistics.median(times) / tets:.1f}; query alone {1e6 * min(each.query_ms) / tets:.1f}); "
            f"{each.contacts / tets:.4f} contacts per tet; {objects} bodies; "
            f"{memory_note(each.detector, tets + vertices)}"
        )
        rows.append(row_of(label, f"{OURS}, {tets:,} tets", times, base, note))
    spread = max(ns) / min(ns)
    verdict = f"most over least time per tet {spread:.2f}, at most {MOST_SPREAD:g} wanted"
    return [*rows, Row(label, "spread", math.nan, math.nan, spread, verdict)]


def memory_note(detector: SpatialHash, primitives: int) -> str:
    """Bytes per primitive of a detector, without the positions and tets of the bodies."""
    parts = kept_bytes(detector)
    listed = ", ".join(f"{name} {size / primitives:.1f}" for name, size in parts.items())
    return f"{sum(parts.values()) / primitives:.1f} bytes per primitive, at most {MOST_BYTES:g} wanted ({listed})"


def kept_bytes(detector: SpatialHash) -> dict[str, int]:
    """Memory of the search, of all tets in clusters, of the clusters of each body, and of joint positions."""
    kept, positions = detector._kept, detector._positions
    assert kept is not None
    orders, arena = kept
    return {
        "scratch": int(detector._search.scratch.bytes),
        "arena": _bytes_of([arena]),
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
