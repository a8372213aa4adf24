"""Find what an animation hides between its frames: a ball that passes through a sheet in one step."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import impinge


def main(picture: Path) -> impinge.runs.FramesRun:
    """Test a falling ball frame by frame and between frames, and draw the first impact."""
    sheet = impinge.shapes.cloth_grid(20, 20)
    ball = impinge.shapes.icosphere(2, radius=0.1)
    time = np.arange(8) / 10.0
    frames = [ball.vertices + np.array([0.013, 0.007, 1.0 - 4.905 * t * t]) for t in time]
    run = impinge.runs.map_frames(ball, frames, sheet, continuous=True)
    table = run.frames().to_pylist()
    for row in table:
        print(f"frame {row['frame']}: {row['contacts']} contacts, {row['impacts']} impacts, {row['first_impact']}")
    tunnelled = [row["frame"] for row in table if row["tunnelled"]]
    run.impacts_at(tunnelled[0])[0].plot(picture)
    print(f"tunnelled: {tunnelled}; picture: {picture}")
    return run


def check() -> None:
    """Compare the frame and the time of the impact with the fall of the lowest vertex."""
    with tempfile.TemporaryDirectory() as folder:
        run = main(Path(folder, "impact.png"))
        assert Path(folder, "impact.png").stat().st_size > 0
        assert run.totals["colliding"] == 0
        assert run.totals["tunnelled"] == 1
        first = min(time for time in run.frames().column("first_impact").to_pylist() if time is not None)
        lowest = impinge.shapes.icosphere(2, radius=0.1).vertices[:, 2].min()
        heights = 1.0 + lowest - 4.905 * np.array([0.4, 0.5]) ** 2  # linear between frames 4 and 5
        assert abs(first - (4.0 + heights[0] / (heights[0] - heights[1]))) < 1e-5


if __name__ == "__main__":
    main(Path("impact.png"))
