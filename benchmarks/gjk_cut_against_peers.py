"""GJK with cut against what a user could install instead, update included, at the sizes of its paper and beyond.

Scenes     Bumpy spheres of 1,500, 13,000 and 82,000 triangles, two of each, which deform in every frame.
Candidates ``GjkCut`` first, so that ratios are times its own; ``BoxTree``; MeshLib, libigl, Coal and python-fcl, each
           at its best (refit where it has one). Rounds and agreement as in ``turns``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.measure import Row
from benchmarks.peers import Peer, all_peers
from benchmarks.turns import (
    LEAST_ROUNDS,
    ROUNDS,
    SECONDS_PER_CANDIDATE,
    Candidate,
    Frame,
    Step,
    count_of,
    measured,
    our_candidate,
    peer_candidate,
    take_turns,
    unmeasured,
    waves,
)
from impinge.deform.waves import Wave
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.gjk_cut.detector import GjkCut
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh

PEERS = ("meshlib", "libigl", "coal", "python-fcl")
WAVE = Wave(0.05, 4.0, angular_speed=2.0)
CENTER = (1.1, 0.4, 0.2)
"""Of the second body, as in the scenes ``bumpy_spheres_*``."""


@dataclass(frozen=True)
class _Sizes:
    grids: tuple[tuple[int, int], ...]
    """Meridians and bands of the spheres."""
    rounds: int
    seconds: float


FULL = _Sizes(((30, 26), (100, 66), (250, 165)), ROUNDS, SECONDS_PER_CANDIDATE)
QUICK = _Sizes(((12, 9),), LEAST_ROUNDS, 0.2)


def run(*, quick: bool = False) -> list[Row]:
    """Measure all sizes; ``quick`` takes one that is tiny."""
    sizes = QUICK if quick else FULL
    rows, peers = [], []
    for peer in all_peers():
        if peer.name in PEERS:
            reason = peer.available()
            if reason is None:
                peers.append(peer)
            else:
                rows.append(unmeasured("peers", peer.name, reason))
    for grid in sizes.grids:
        rows += _against_peers(grid, peers, sizes)
    return rows


def _against_peers(grid: tuple[int, int], peers: list[Peer], sizes: _Sizes) -> list[Row]:
    bodies = shapes.uv_sphere(*grid), shapes.uv_sphere(*grid, center=CENTER)
    frames = waves(bodies, WAVE)
    us, expected = our_candidate("GjkCut", _detecting(GjkCut(*bodies), bodies), frames)
    tree, found = our_candidate("BoxTree", _detecting(BoxTree(*bodies), bodies), frames)
    if found != expected:
        raise AssertionError(f"GjkCut and BoxTree find other pairs of {count_of(bodies)} triangles: no time counts")
    candidates = [us, tree, *(_peer(peer, bodies, expected) for peer in peers)]
    take_turns(candidates, frames, rounds=sizes.rounds, seconds=sizes.seconds)
    return measured(f"smooth, {count_of(bodies)}", candidates)


def _detecting(detector: GjkCut | BoxTree, bodies: tuple[TriMesh, TriMesh]) -> Step:
    def step(frame: Frame) -> Any:
        for body, x in zip(bodies, frame):
            body.update(x)
        return detector.query().pairs

    return step


def _peer(peer: Peer, bodies: tuple[TriMesh, TriMesh], expected: Any) -> Candidate:
    peer.prepare(*bodies)

    def step(frame: Frame) -> Any:
        peer.update(*frame)
        return peer.query()

    return peer_candidate(peer, step, expected)
