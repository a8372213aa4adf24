"""Scenes and candidates that comparisons with other libraries share.

Classes    Smooth bodies, scans, CAD parts with needles, soups and cloth. All but the first are read from the folder
           that IMPINGE_DATA names; without it, rows report what is left out.
Motion     Both bodies deform in every frame. Before each step the positions of the frame are copied, untimed, into the
           same arrays: they are in the cache, as after the step of a simulation.
Visits     A pause, one untimed frame, two timed frames.
Agreement  Times of a peer count on those frames only on which its pairs are ours, as sets. A peer that answers with a
           boolean is compared with whether there are pairs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import impinge
from benchmarks.measure import Candidate, Row, measure, our_threads, thread_label, unmeasured, with_medians
from benchmarks.peers import Peer
from impinge.checks import Floats
from impinge.deform.waves import Wave
from impinge.mesh.tri_mesh import TriMesh

OURS = "impinge"
FRAMES = 13
"""Prime to the 3 frames of a visit: every candidate runs all frames."""
ROUNDS = 40
PAUSE = 0.005
"""Seconds before each visit."""
SECONDS_PER_CANDIDATE = 4.0
COUNTED_FRAMES = 2
"""Timed frames of a visit."""

DATA = {
    "scan": ("closed/armadillo_52k.off", "closed/bunny_75k.off", "closed/dragon_100k.ply"),
    "cad": ("cad/turbine.off", "cad/cheese.off"),
    "soup": ("soup/truck.obj", "open/tableCloth.obj"),
}
"""Files below IMPINGE_DATA by class of input."""

NOT_INSTALLED = "not installed; pip install impinge[bench]"

Frame = tuple[Floats, ...]
"""Positions of all bodies at one time."""
Pairs = set[tuple[int, ...]]
Step = Callable[[Frame], Any]
"""Set new positions and answer: what is timed."""


@dataclass(frozen=True)
class PeerScene:
    """Bodies and the frames of their motion."""

    name: str
    bodies: tuple[TriMesh, ...]
    frames: list[Frame]


def data_bodies(question: str = "") -> Iterator[tuple[str, TriMesh | Row]]:
    """Labels and bodies of the classes that are read from files; a row instead of a body that is not there."""
    folder = os.environ.get("IMPINGE_DATA")
    for kind, files in DATA.items():
        for file in files:
            label = f"{kind}, {Path(file).stem}"
            if folder is None or not Path(folder, file).is_file():
                note = "left out: IMPINGE_DATA names no folder with it"
                yield label, unmeasured(f"{question}{label}", OURS, note)
                continue
            body = impinge.load(Path(folder, file))
            assert isinstance(body, TriMesh)
            yield label, body


def unit_size(body: TriMesh, shift: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> TriMesh:
    """A copy whose box has a diagonal of 1; its centre is ``shift`` times the sides of the box from the origin."""
    low, high = body.bounds
    x = (body.vertices - (low + high) / 2.0 + np.array(shift) * (high - low)) / np.linalg.norm(high - low)
    return TriMesh(x, body.faces)


def waves(bodies: tuple[TriMesh, ...], wave: Wave, *, count: int = FRAMES, rounded: bool = True) -> list[Frame]:
    """Frames of waves with a phase per body: in phase, the bodies would keep their contact.

    ``rounded`` rounds positions to float32: peers in single precision get the same bodies.
    """
    rest = [body.vertices.copy() for body in bodies]
    frames = [tuple(wave(x, 0.1 * frame + 1.7 * i) for i, x in enumerate(rest)) for frame in range(count)]
    if not rounded:
        return frames
    return [tuple(x.astype(np.float32).astype(np.float64) for x in frame) for frame in frames]


def count_of(bodies: tuple[TriMesh, ...]) -> str:
    """Triangles of each body, in thousands or millions."""
    counts = [len(body.faces) for body in bodies]
    return " x ".join(f"{count / 1e6:.3g}M" if count >= 1e6 else f"{count / 1e3:.3g}k" for count in counts)


# candidates ---------------------------------------------------------------------------------------------


def installed(peers: Sequence[Peer]) -> tuple[list[Peer], list[Row]]:
    """Peers that can run here, and rows with the reason for each of the others."""
    reasons = [(peer, peer.available()) for peer in peers]
    missing = [unmeasured("peers", peer.name, reason) for peer, reason in reasons if reason is not None]
    return [peer for peer, reason in reasons if reason is None], missing


def as_set(pairs: Any) -> Pairs:
    """Pairs of an array of shape (k, 2)."""
    return set(map(tuple, pairs.tolist()))


def our_candidate(name: str, step: Step, frames: list[Frame]) -> tuple[Candidate[Frame, Any], list[Pairs]]:
    """A detector of ours, and its pairs on each frame."""
    found = [as_set(step(frame)) for frame in frames]
    hits = sorted(map(len, found))
    return Candidate(name, step, f"{hits[0]} to {hits[-1]} pairs; {our_threads()}"), found


def peer_candidate(peer: Peer, step: Step, expected: list[Pairs]) -> Candidate[Frame, Any]:
    """A peer; its times count on frames on which it returns the expected pairs."""

    def mismatch(frame: int, answer: Any) -> int:
        if isinstance(answer, bool):
            return int(answer != bool(expected[frame]))
        return len(as_set(answer) ^ expected[frame])

    note = f"{peer.how}; {thread_label(peer.threads())}; {peer.version()}"
    return Candidate(peer.name, step, note, mismatch=mismatch)


def pair_candidate(peer: Peer, bodies: tuple[TriMesh, ...], expected: list[Pairs]) -> Candidate[Frame, Any]:
    """A peer that queries two bodies."""
    peer.prepare(*bodies)

    def step(frame: Frame) -> Any:
        peer.update(*frame)
        return peer.query()

    return peer_candidate(peer, step, expected)


def measure_frames(
    scene: str, candidates: Sequence[Candidate[Frame, Any]], frames: list[Frame], *, rounds: int, seconds: float
) -> list[Row]:
    """Time candidates alternately on positions that were just written."""
    current = tuple(x.copy() for x in frames[0])

    def write(frame: Frame) -> None:
        for target, x in zip(current, frame):
            target[:] = x

    for each in candidates:
        each.prepare, each.lead_in, each.counted = write, 1, COUNTED_FRAMES
        each.step = _on_written(each.step, current)
    return with_medians(measure(scene, candidates, frames, rounds=rounds, seconds=seconds, pause=PAUSE))


def _on_written(step: Step, current: Frame) -> Step:
    return lambda _: step(current)
