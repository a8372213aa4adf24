"""The main job, shown: two bodies deform and approach, every pair of triangles that meet is found and drawn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from impinge import queries, scenes
from impinge.detect.box_tree import BoxTree
from impinge.view.picture import plot_pairs

FRAMES = 8


def run(folder: Path) -> Iterator[str]:
    """Run the demo, telling line by line what was found; pictures go to ``folder``."""
    scene = scenes.get("bumpy_spheres_20k")
    a, b = scene.surfaces
    yield f"{scene.title} ({a.live_count} and {b.live_count} triangles)"
    detector = BoxTree(a, b)
    began = perf_counter()
    result = detector.query()
    yield f"first query: {len(result)} pairs of triangles meet ({perf_counter() - began:.1f} s, compiling included)"
    for frame in range(FRAMES):
        scene.move(frame / FRAMES)
        result = detector.query()
        counts = ", ".join(f"{count} {kind}" for kind, count in result.count_by_kind().items() if count)
        yield f"frame {frame}: {len(result)} pairs ({counts}), {result.elapsed_ms:.2f} ms"
    judge = queries.triangle_pairs(a, b, method="brute_force")
    agrees = (
        "the same pairs" if (judge.pairs.tobytes() == result.pairs.tobytes()) else "OTHER PAIRS: please report this"
    )
    yield f"brute force, which tests every pair, finds {agrees}"
    inside = queries.check(*scenes.get("nested_spheres").bodies)
    yield f"a sphere within a sphere: no triangles meet, and still the answer is '{inside.relation}'"
    picture = plot_pairs(result, folder / "bumpy_spheres.png")
    yield f"picture: {picture.resolve()}"
    yield "try next: impinge scenes, impinge check A.ply B.ply --picture out.png, impinge validate A.ply"
