"""Long runs on disk and on Dask: frames of a sequence, pairs of many parts, simulations.

Imports: ``view`` and rooms to its left.
Does not import ``app``.

::

    run = impinge.runs.map_frames("cloth.ply", "frames/*.ply", "character.ply", out="run", workers=4)
    run = impinge.runs.map_pairs("parts/", out="clashes", scheduler="tcp://host:8786")

``frames`` and ``pairs`` define the work per frame and per pair, ``engine`` executes it, ``store`` keeps the results,
``sources`` reads or sends the bodies.
"""

from impinge.runs.frames import FramesRun, Progress, map_frames
from impinge.runs.pairs import PairsRun, map_pairs

__all__ = ["FramesRun", "PairsRun", "Progress", "map_frames", "map_pairs"]
