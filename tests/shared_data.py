"""The folder of shared meshes, and what its README says about each of them.

The folder is ``../shared/data`` beside the repository, or whatever the environment variable IMPINGE_DATA
names. It is not part of the repository; tests that need it are skipped where it is missing.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("IMPINGE_DATA") or Path(__file__).parents[2] / "shared" / "data")

needs_data = pytest.mark.skipif(
    not (FOLDER / "README.md").is_file(), reason="no shared meshes: set IMPINGE_DATA to their folder"
)


@dataclass(frozen=True)
class Row:
    """One file of the table."""

    file: str
    vertices: int
    faces: int
    """Triangles, polygons counted as such; of a tetrahedral file those of its boundary."""
    tets: int
    watertight: str
    """``yes``, ``no``, ``after merging equal vertices``, or ``as indexed yes; merged no``."""
    measured: str
    """Findings in words, such as ``2 pieces; 18 unused vertices``."""

    @property
    def path(self) -> Path:
        """Where the file is."""
        return FOLDER / self.file

    def count(self, finding: str, *, default: int = 0) -> int:
        """Number in front of a finding: ``count("pieces")`` is 2 for ``2 pieces; ...``."""
        match = re.search(rf"(?:^|; )([\d,]+) {finding}(?:;|$)", self.measured)
        return int(match[1].replace(",", "")) if match else default

    def __str__(self) -> str:
        return self.file


def rows() -> list[Row]:
    """Return all rows of the table, or none where the folder is missing."""
    readme = FOLDER / "README.md"
    if not readme.is_file():
        return []
    found = []
    for line in readme.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 9 and re.fullmatch(r"`[^`]+\.\w+`", cells[0]):
            numbers = [int(cell.replace(",", "") or 0) for cell in cells[2:5]]
            found.append(Row(cells[0].strip("`"), *numbers, watertight=cells[5], measured=cells[6]))
    return found
