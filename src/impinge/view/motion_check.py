"""``impinge check --from``: what happens to two bodies on the way from other files, as words, JSON, page and picture.

1. Match   each body with its start: the same number of vertices, and the same triangles.
2. Search  the linear motion from start to end (``impacts``), and the relation at the start (``check``).
3. State   whether the bodies pass through each other: disjoint at both ends, and impacts on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import impinge
from impinge.detect.common.results import plain
from impinge.detect.continuous.impact_results import ImpactKind
from impinge.errors import MeshError
from impinge.view.labels import counted
from impinge.view.picture import impact_items, impact_label
from impinge.view.rendering import render, write_picture
from impinge.view.report import Page


@dataclass(frozen=True, eq=False)
class MotionCheck:
    """Relations at both ends of a motion, and the impacts on the way."""

    at_start: str
    at_end: str
    impacts: impinge.Impacts
    """Impacts on the way, without pairs of features that meet at the start."""
    touching: int
    """Pairs of features that meet at the start."""

    def __bool__(self) -> bool:
        """Whether the bodies collide at the start, or meet on the way."""
        return self.at_start != "disjoint" or len(self.impacts) > 0

    @property
    def passes_through(self) -> bool:
        """Whether they meet on the way, and are disjoint at both ends."""
        return self.at_start == self.at_end == "disjoint" and len(self.impacts) > 0

    def sentence(self) -> str:
        """What happens on the way."""
        if self.passes_through:
            return "they pass through each other on the way"
        return "they meet on the way" if len(self.impacts) else "nothing meets on the way"

    def in_words(self, names: Sequence[str] = ("a", "b")) -> list[tuple[str, str]]:
        """A name and a value for each line."""
        rows = [("relation at start", self.at_start), ("on the way", self.sentence())]
        rows.append(("impacts", f"{len(self.impacts):,}"))
        if self.touching:
            rows.append(("  at start", f"{counted(self.touching, 'further pair')} of features"))
        if len(self.impacts):
            place = ", ".join(f"{value:.6g}" for value in self.impacts.point[0] + 0.0)  # + 0.0: no -0
            first = f"at {self.impacts.time_lo[0]:.6g} of the way, {impact_label(self.impacts, 0, *names)}"
            rows.append(("first impact", f"{first}, at ({place})"))
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON."""
        found: impinge.Impacts = self.impacts
        first: dict[str, Any] | None = None
        if len(found):
            columns = ("feature_a", "feature_b", "vertices", "weights", "time_lo", "time_hi", "point", "normal")
            first = {"kind": ImpactKind(int(found.kind[0])).name.lower()}
            first |= {name: plain(getattr(found, name)[0]) for name in columns}
        return {
            "relation_at_start": self.at_start, "passes_through": self.passes_through, "impacts": len(found),
            "at_start": self.touching, "first": first,
        }  # fmt: skip

    def add_to(self, page: Page, names: Sequence[str]) -> None:
        """Add a section with the words, and a picture of the first impact."""
        page.section("On the way")
        page.facts([(name.strip(), value) for name, value in self.in_words(names)])
        if len(self.impacts):
            caption = (
                f"The bodies at {self.impacts.time_lo[0]:.6g} of the way: {impact_label(self.impacts, 0, *names)}."
            )
            page.picture(render(impact_items(self.impacts, names), caption), caption)

    def write_picture(self, names: Sequence[str], path: Path) -> None:
        """Draw the first impact."""
        title = f"{self.sentence()}, the first impact at {self.impacts.time_lo[0]:.6g} of the way"
        write_picture(render(impact_items(self.impacts, names), title), path)


def check_motion(
    report: impinge.Report, bodies: Sequence[Any], starts: Sequence[Any], files: Sequence[tuple[Path, Path]]
) -> MotionCheck:
    """What happens on the way from ``starts`` to ``bodies``, whose ``report`` is known; ``files`` name both of each.

    Raises
    ------
    MeshError
        If a body has another number of vertices, or other triangles, at the start.
    """
    ends = []
    for body, start, (file, start_file) in zip(bodies, starts, files):
        now, before = (getattr(each, "surface", each).snapshot() for each in (body, start))
        if len(before.vertices) != len(now.vertices):
            raise MeshError(
                f"{start_file} has {len(before.vertices)} vertices, but {file} has {len(now.vertices)}; "
                "--from takes the same mesh in another position"
            )
        if not np.array_equal(before.elements, now.elements):
            raise MeshError(
                f"{start_file} has other triangles than {file}; --from takes the same mesh in another position"
            )
        ends.append(now.vertices)
    found = impinge.impacts(*starts, end_a=ends[0], end_b=ends[1])
    relation = impinge.check(*starts, depth=False, volume=False).relation
    return MotionCheck(relation, report.relation, found.rows(~found.at_start), int(found.at_start.sum()))
