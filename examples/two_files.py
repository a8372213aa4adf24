"""Two files from disk: how do they stand to each other, which triangles meet, how much do they share?"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import impinge


def main(a: Path, b: Path, picture: Path) -> impinge.Report:
    """Read, ask, draw."""
    report = impinge.check(impinge.load(a), impinge.load(b))
    print(report)
    impinge.triangle_pairs(a, b).plot(picture)
    print(f"picture: {picture}")
    return report


def check() -> None:
    """Two balls a radius apart cross, and share the lens that geometry says."""
    with tempfile.TemporaryDirectory() as folder:
        a, b = Path(folder, "a.ply"), Path(folder, "b.stl")
        impinge.save(impinge.shapes.icosphere(4), a)
        impinge.save(impinge.shapes.icosphere(4, center=(1.0, 0.0, 0.0)), b)
        report = main(a, b, Path(folder, "found.png"))
        assert report.relation == "crossing"
        assert Path(folder, "found.png").stat().st_size > 0
        lens = impinge.overlap_volume(a, b).volume
        assert abs(lens / (5 * 3.14159 / 12) - 1) < 0.02


if __name__ == "__main__":
    if len(sys.argv) == 3:
        main(Path(sys.argv[1]), Path(sys.argv[2]), Path("found.png"))
    else:
        check()
