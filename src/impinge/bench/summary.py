"""One page over all results of a folder: how each library compares, and which claims of the papers held.

Everything on the page is read from the files that the benchmarks have written, so that it cannot disagree with them.
A ratio is the least time of a peer over ours, in the same run; several scenes give a span.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from impinge.bench.catalogue import PAPERS, PEERS
from impinge.errors import FileError

LIBRARIES = {
    "embree": "Embree", "meshlib": "MeshLib", "libigl": "libigl", "coal": "Coal", "python-fcl": "FCL (python-fcl)",
    "warp": "Warp", "ipc toolkit": "IPC Toolkit", "ipctk": "IPC Toolkit", "trimesh": "trimesh",
    "pyvista": "pyvista (VTK)", "manifold3d": "manifold3d", "open3d": "Open3D",
}  # fmt: skip
"""Libraries by how candidates that use them begin, in small letters."""

QUESTIONS = {
    "pairs_against_peers": "all pairs of triangles, deforming",
    "gjk_cut_against_peers": "all pairs of triangles, `GjkCut`",
    "proximity_against_peers": "closest points, points inside",
    "cloth_proximity": "pairs within a margin",
    "hashing_against_peers": "vertices in tets",
    "volumes_against_peers": "overlap volume, points by images",
    "worlds": "worlds of many bodies",
}

THREADS = re.compile(r"(?:^|; )([^;]+); (\d+ threads?)\b")
"""In a note: what a peer does, and on how many threads."""

NAME = "README.md"


class _Peer(NamedTuple):
    library: str
    how: str
    """What of it was asked, or how it was used, and on how many threads, as far as the file tells."""


class _Ratio(NamedTuple):
    scene: str
    value: float


def write(folder: Path) -> Path:
    """Write the page into the folder of results; return its path."""
    path = folder / NAME
    if not any(folder.glob("*.csv")):
        raise FileError(f"{folder} holds no results; expected a folder that impinge bench --out has written")
    try:
        path.write_text(page(folder), encoding="utf-8")
    except OSError as error:
        raise FileError(f"{path} cannot be written ({error.strerror}); choose another folder") from error
    return path


def page(folder: Path) -> str:
    """The page as Markdown."""
    return "\n".join(_lines(folder)) + "\n"


def _lines(folder: Path) -> Iterator[str]:
    yield "# Results\n"
    yield "Made from the files beside it by `impinge bench summary`; each file names its machine and versions.\n"
    yield "## How do you compare to ...?\n"
    yield "Times of the other library over ours, measured in turns in one run: 10 means that ours takes a tenth."
    yield "Least of many rounds; the spans go over the scenes of the file.\n"
    yield "| library | how | asked | ratio | scenes | figures |"
    yield "|---|---|---|---|---|---|"
    rows = [row for name in PEERS for path in sorted(folder.glob(f"{name}-*.csv")) for row in _peers(name, path)]
    for peer, question, ratios, path in sorted(rows, key=lambda row: row[0].library.lower()):
        least, most = min(ratios, key=lambda r: r.value), max(ratios, key=lambda r: r.value)
        scenes = least.scene if len(ratios) == 1 else f"{len(ratios)}; least in {least.scene}"
        span = _shown(least.value) if len(ratios) == 1 else f"{_shown(least.value)} to {_shown(most.value)}"
        figures = f"[{path.stem.split('-')[0]}]({path.name})"
        yield f"| {peer.library} | {peer.how} | {question} | {span} | {scenes} | {figures} |"
    yield from _absent([name for name in PEERS if not any(folder.glob(f"{name}-*.csv"))])
    yield "\n## What the papers claim\n"
    yield "| experiment | held | not held | not testable here |"
    yield "|---|---|---|---|"
    for group in PAPERS.values():
        for name in group:
            for path in sorted(folder.glob(f"{name}-*.md")):
                yield _claims(path)
    papers = [name for group in PAPERS.values() for name in group]
    yield from _absent([name for name in papers if not any(folder.glob(f"{name}-*.md"))])


def _absent(names: list[str]) -> Iterator[str]:
    if names:
        yield "\nNo result in this folder: " + ", ".join(f"`{name}`" for name in names) + "."


def _shown(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 20 else f"{ratio:.1f}"


def _peers(name: str, path: Path) -> Iterator[tuple[_Peer, str, list[_Ratio], Path]]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    found: dict[_Peer, list[_Ratio]] = {}
    for row in rows:
        peer = _peer(row["candidate"], row["note"])
        if peer is not None and not math.isnan(float(row["ratio"])):
            found.setdefault(peer, []).append(_Ratio(row["scene"], float(row["ratio"])))
    for peer, ratios in found.items():
        yield peer, QUESTIONS[name], ratios, path


def _peer(candidate: str, note: str) -> _Peer | None:
    """The library of a candidate, and how it is used: what follows its name, or what the note tells of it."""
    start = next((start for start in LIBRARIES if candidate.lower().startswith(start)), None)
    if start is None:
        return None
    noted = THREADS.search(note)
    use, threads = noted.groups() if noted else ("", "")
    told = candidate[len(start) :].lstrip(", ") or use
    return _Peer(LIBRARIES[start], "; ".join(part for part in (told, threads) if part))


def _claims(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    verdicts = re.findall(r"\| (held|not held|not testable here) \|$", text, re.MULTILINE)
    counts = " | ".join(str(verdicts.count(kind)) for kind in ("held", "not held", "not testable here"))
    return f"| [{title[1] if title else path.stem}]({path.name}) | {counts} |"
