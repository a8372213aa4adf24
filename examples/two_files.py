"""Check two mesh files: relation, intersecting triangles, overlap volume."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import impinge


def main(a: Path, b: Path, picture: Path) -> impinge.Report:
    """Load both files, print the report, and draw the intersecting triangles."""
    report = impinge.check(impinge.load(a), impinge.load(b))
    print(report)
    impinge.triangle_pairs(a, b).plot(picture)
    print(f"picture: {picture}")
    return report


def check() -> None:
    """Compare the relation and the overlap volume of two balls with the analytic lens."""
    with tempfile.TemporaryDirectory() as folder:
        a, b = Path(folder, "a.ply"), Path(folder, "b.stl")
        impinge.save(impinge.shapes.icosphere(4), a)
        impinge.save(impinge.shapes.icosphere(4, center=(1.0, 0.0, 0.0)), b)
        report = main(a, b, Path(folder, "found.png"))
        assert report.relation == "overlapping"
        assert Path(folder, "found.png").stat().st_size > 0
        lens = impinge.overlap_volume(a, b).volume
        assert abs(lens / (5 * 3.14159 / 12) - 1) < 0.02


if __name__ == "__main__":
    if len(sys.argv) == 3:
        main(Path(sys.argv[1]), Path(sys.argv[2]), Path("found.png"))
    else:
        check()
