"""Long sequences and many pairs, on one machine or many (Dask): the same code, the same answers.

::

    run = impinge.cluster.map_frames("cloth.ply", "frames/*.ply", "character.ply", out="run", workers=4)
    run = impinge.cluster.map_pairs("parts/", out="clashes", scheduler="tcp://host:8786")

``frames`` and ``pairs`` say what is done with a frame and with a pair, ``engine`` where, ``store`` what is kept of it,
``sources`` how bodies come there.
"""

from impinge.cluster.frames import FramesRun, Progress, map_frames
from impinge.cluster.pairs import PairsRun, map_pairs

__all__ = ["FramesRun", "PairsRun", "Progress", "map_frames", "map_pairs"]
