"""One page over all results of a folder: ratios by library, and verdicts on the claims of the papers.

The page is generated from the files of the benchmarks alone. A ratio is the minimum time of a peer over ours, in the
same run; several scenes give a span.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.catalogue import BENCHMARKS, PAPERS, PEERS, is_experiment
from impinge.errors import FileError

LIBRARIES = {
    "embree": "Embree", "meshlib": "MeshLib", "libigl": "libigl", "coal": "Coal", "python-fcl": "FCL (python-fcl)",
    "warp": "Warp", "ipc toolkit": "IPC Toolkit", "ipctk": "IPC Toolkit", "trimesh": "trimesh",
    "pyvista": "pyvista (VTK)", "manifold3d": "manifold3d", "open3d": "Open3D",
}  # fmt: skip
"""Libraries by how candidates that use them begin, in small letters."""

QUESTIONS = {
    "pairs_against_peers": "all pairs of triangles",
    "gjk_cut_against_peers": "all pairs of triangles, ours by `GjkCut`",
    "cloth_proximity": "pairs within a margin",
    "hashing_against_peers": "vertices in tets",
    "worlds": "all pairs in a world of many bodies",
}
"""The query of a benchmark; where one has several, ``SCENES`` distinguishes them."""

SCENES = {
    "closest points": "closest points",
    "points inside": "points inside",
    "volume, ": "overlap volume",
    "points, ": "points inside, ours up to a pixel",
    "self, ": "all pairs of triangles of one body",
}
"""Questions by how a scene begins."""

VERDICTS = ("held", "not held", "not testable here")

THREADS = re.compile(r"(?:^|; )([^;]+); (\d+ threads?)\b")
"""In a note: what a peer does, and on how many threads."""

NAME = "README.md"

OPENING = """# Results

Made by `python -m benchmarks summary` from the files beside this page; each of them names its machine and versions.

- [How do you compare to ...?](#against-other-libraries)
- [What do the papers claim](#what-the-papers-claim), and did it [hold](#claim-by-claim)?
"""

AGAINST = """## Against other libraries

A ratio is the time of the other library over ours: 10 means that ours takes a tenth of the time, below 1 the other one
is faster. Both are minima over many rounds of one run with interleaved timing; a time counts only where the answers
agree. All bodies deform in every frame. Several scenes give a span, and the one with the least ratio is named.
"""

CLAIM_BY_CLAIM = """
## Claim by claim

Brackets name the place in the paper and, after "here", the rule of the verdict, which was fixed before the run. The
figures are on the page of the experiment. Claims marked "ours" or "not the paper's", and those of
experiments that are in no paper, at the end, are our own.
"""


class _Peer(NamedTuple):
    library: str
    how: str
    """The part of the library that was used, and its number of threads, if known."""


class _Ratio(NamedTuple):
    scene: str
    value: float
    """NaN where the answer disagrees."""


class _Experiment(NamedTuple):
    link: str
    """Title, and where its page is."""
    claims: list[tuple[str, str]]
    """Sentences and verdicts, in the order of the page."""

    def count(self, verdict: str) -> int:
        return sum(found == verdict for _, found in self.claims)


def write(folder: Path) -> Path:
    """Write the page into the folder of results; return its path."""
    path = folder / NAME
    if not any(folder.glob("*.csv")):
        raise FileError(f"{folder} holds no results; expected a folder that python -m benchmarks --out has written")
    try:
        path.write_text(page(folder), encoding="utf-8")
    except OSError as error:
        raise FileError(f"{path} cannot be written ({error.strerror}); choose another folder") from error
    return path


def page(folder: Path) -> str:
    """The page as Markdown."""
    return "\n".join(_lines(folder)) + "\n"


def _lines(folder: Path) -> Iterator[str]:
    yield OPENING
    yield from _comparison(folder)
    yield from _verdicts(folder)


def _comparison(folder: Path) -> Iterator[str]:
    yield AGAINST
    yield "| library | question | ratio | how it is used | scenes | figures |"
    yield "|---|---|---|---|---|---|"
    rows = [row for name in PEERS for path in sorted(folder.glob(f"{name}-*.csv")) for row in _peers(name, path)]
    for peer, question, timed, path in sorted(rows, key=lambda row: row[0].library.lower()):
        ratios = [ratio for ratio in timed if not math.isnan(ratio.value)]
        wrong = f"; in {len(timed) - len(ratios)} more its answer disagrees" if len(timed) > len(ratios) else ""
        least, most = min(ratios, key=lambda r: r.value), max(ratios, key=lambda r: r.value)
        scenes = least.scene if len(ratios) == 1 else f"{len(ratios)}{wrong}; least in {least.scene}"
        span = _shown(least.value) if len(ratios) == 1 else f"{_shown(least.value)} to {_shown(most.value)}"
        figures = f"[{path.stem.split('-')[0]}]({path.name})"
        yield f"| {peer.library} | {question} | {span} | {peer.how} | {scenes} | {figures} |"
    untimed = [one for name in PEERS for path in sorted(folder.glob(f"{name}-*.csv")) for one in _untimed(path)]
    if untimed:
        yield "\nNot timed, for the reason in the file: " + ", ".join(untimed) + "."
    yield from _absent([name for name in PEERS if not any(folder.glob(f"{name}-*.csv"))])


def _verdicts(folder: Path) -> Iterator[str]:
    papers = [name for group in PAPERS.values() for name in group]
    found = [_experiment(path) for name in papers for path in sorted(folder.glob(f"{name}-*.md"))]
    yield "\n## What the papers claim\n"
    yield "| experiment | " + " | ".join(VERDICTS) + " |"
    yield "|---" * (1 + len(VERDICTS)) + "|"
    for page in found:
        yield f"| {page.link} | " + " | ".join(str(page.count(verdict)) for verdict in VERDICTS) + " |"
    yield "| all | " + " | ".join(str(sum(page.count(verdict) for page in found)) for verdict in VERDICTS) + " |"
    yield from _absent([name for name in papers if not any(folder.glob(f"{name}-*.md"))])
    yield CLAIM_BY_CLAIM
    for page in found:
        yield from _claims(page)
    others = [name for name in BENCHMARKS if is_experiment(name) and name not in papers]
    for path in [path for name in others for path in sorted(folder.glob(f"{name}-*.md"))]:
        yield from _claims(_experiment(path))


def _claims(page: _Experiment) -> Iterator[str]:
    yield f"\n### {page.link}\n"
    yield "| claim | verdict |"
    yield "|---|---|"
    for text, verdict in page.claims:
        yield f"| {text} | {f'**{verdict}**' if verdict == 'not held' else verdict} |"


def _absent(names: list[str]) -> Iterator[str]:
    if names:
        yield "\nNo result in this folder: " + ", ".join(f"`{name}`" for name in names) + "."


def _shown(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 20 else f"{ratio:.1f}"


def _peers(name: str, path: Path) -> Iterator[tuple[_Peer, str, list[_Ratio], Path]]:
    found: dict[tuple[_Peer, str], list[_Ratio]] = {}
    for row in _rows(path):
        peer = _peer(row["candidate"], row["note"])
        if peer is not None and (row["note"].startswith("disagrees") or not math.isnan(float(row["ratio"]))):
            found.setdefault((peer, _question(name, row["scene"])), []).append(
                _Ratio(row["scene"], float(row["ratio"]))
            )
    for (peer, question), ratios in found.items():
        if not all(math.isnan(ratio.value) for ratio in ratios):
            yield peer, question, ratios, path


def _untimed(path: Path) -> Iterator[str]:
    """Libraries of a file that have no time at all, such as those that were not installed."""
    rows = [(peer.library, row["min_ms"]) for row in _rows(path) if (peer := _peer(row["candidate"], row["note"]))]
    timed = {library for library, time in rows if not math.isnan(float(time))}
    for library in sorted({library for library, _ in rows} - timed):
        yield f"{library} ([{path.stem.split('-')[0]}]({path.name}))"


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def _question(name: str, scene: str) -> str:
    return next((question for start, question in SCENES.items() if scene.startswith(start)), None) or QUESTIONS[name]


def _peer(candidate: str, note: str) -> _Peer | None:
    """The library of a candidate, and its use: from the name of the candidate, or from its note."""
    start = next((start for start in LIBRARIES if candidate.lower().startswith(start)), None)
    if start is None:
        return None
    noted = THREADS.search(note)
    use, threads = noted.groups() if noted else ("", "")
    part = re.sub(r"^\s*\((.+?)\)", r"\1", candidate[len(start) :]).lstrip(", ") or use
    return _Peer(LIBRARIES[start], "; ".join(each for each in (part, threads) if each))


def _experiment(path: Path) -> _Experiment:
    text = path.read_text(encoding="utf-8")
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    claims = re.findall(rf"^\| (.+?) \| .+ \| ({'|'.join(VERDICTS)}) \|$", text, re.MULTILINE)
    return _Experiment(f"[{title[1] if title else path.stem}]({path.name})", claims)
