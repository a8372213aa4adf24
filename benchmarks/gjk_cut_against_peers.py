"""GJK with cut against other libraries, update included, at the sizes of its paper and beyond.

Scenes     Bumpy spheres of 1,500, 13,000 and 82,000 triangles, two of each, which deform in every frame.
Candidates ``GjkCut`` first: ratios are to its time; ``BoxTree``; MeshLib, libigl, Coal and python-fcl, each with
           a refit where it has one. Visits and agreement as in ``peer_scenes``.
"""

from __future__ import annotations

from typing import Any

from benchmarks.measure import LEAST_ROUNDS, Row, Sizes
from benchmarks.peer_scenes import (
    ROUNDS,
    SECONDS_PER_CANDIDATE,
    Frame,
    Step,
    count_of,
    installed,
    measure_frames,
    our_candidate,
    pair_candidate,
    waves,
)
from benchmarks.peers import Peer, all_peers
from impinge.deform.waves import Wave
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.gjk_cut.detector import GjkCut
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh

PEERS = ("meshlib", "libigl", "coal", "python-fcl")
WAVE = Wave(0.05, 4.0, angular_speed=2.0)
CENTER = (1.1, 0.4, 0.2)
"""Of the second body, as in the scenes ``bumpy_spheres_*``."""

# grids: meridians and bands of the spheres
FULL = Sizes(grids=((30, 26), (100, 66), (250, 165)), rounds=ROUNDS, seconds=SECONDS_PER_CANDIDATE)
QUICK = Sizes(grids=((12, 9),), rounds=LEAST_ROUNDS, seconds=0.2)


def run(*, quick: bool = False) -> list[Row]:
    """Measure all sizes; ``quick`` takes one that is tiny."""
    sizes = QUICK if quick else FULL
    peers, rows = installed([peer for peer in all_peers() if peer.name in PEERS])
    for grid in sizes.grids:
        rows += _against_peers(grid, peers, sizes)
    return rows


def _against_peers(grid: tuple[int, int], peers: list[Peer], sizes: Sizes) -> list[Row]:
    bodies = shapes.uv_sphere(*grid), shapes.uv_sphere(*grid, center=CENTER)
    frames = waves(bodies, WAVE)
    us, expected = our_candidate("GjkCut", _detecting(GjkCut(*bodies), bodies), frames)
    tree, found = our_candidate("BoxTree", _detecting(BoxTree(*bodies), bodies), frames)
    if found != expected:
        raise AssertionError(f"GjkCut and BoxTree disagree on bodies of {count_of(bodies)} triangles: no time counts")
    candidates = [us, tree, *(pair_candidate(peer, bodies, expected) for peer in peers)]
    scene = f"smooth, {count_of(bodies)}"
    return measure_frames(scene, candidates, frames, rounds=sizes.rounds, seconds=sizes.seconds)


def _detecting(detector: GjkCut | BoxTree, bodies: tuple[TriMesh, TriMesh]) -> Step:
    def step(frame: Frame) -> Any:
        for body, x in zip(bodies, frame):
            body.update(x)
        return detector.query().pairs

    return step
