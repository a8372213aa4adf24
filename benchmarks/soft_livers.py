"""Two liver-shaped soft bodies: frames per second of model, sub-steps and dense surface together.

Each body is 0.2 m long, hangs by its upper part, has about 2,000 tets and drives a surface of 50 thousand triangles. A
frame is 1/60 s of time: as many sub-steps as the material needs, then one update of both surfaces. The claim: at
least 45 frames per second for a material of 5 kPa. Rubber is 300 times stiffer, and its sub-steps are 17 times shorter:
its figure is the real-time factor, simulated over elapsed time. Tet meshes are made of cubes,
without slivers and with long stable steps, and by NetGen, as in the paper. There is no peer in this table.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks.measure import Row, interleaved, unmeasured
from impinge import scenes
from impinge.backend import jit
from impinge.bodies.soft_body import SoftBody
from impinge.deform.materials import Material
from impinge.errors import MeshError
from impinge.mesh.prepare import Method

FRAME = 1.0 / 60.0
"""Simulated time of one frame [s]."""
LIVER = Material(youngs_modulus=5e3, poisson_ratio=0.45, density=1060.0)
FRAMES, FRAMES_QUICK = 40, 3
STIFF_FRAMES, STIFF_FRAMES_QUICK = 6, 1
COARSE: dict[Method, dict[str, Any]] = {"cubes": {"cells": 11}, "netgen": {"coarse_faces": 500}}
"""Options that give about 2,000 tets."""
COARSE_QUICK: dict[Method, dict[str, Any]] = {"cubes": {"cells": 5}, "netgen": {"coarse_faces": 100}}
HELD = 0.85
"""Vertices above this share of the height are fixed."""


def run(*, quick: bool = False) -> list[Row]:
    """Time frames of two bodies, soft and stiff, on tets of NetGen and of cubes."""
    rows = []
    for name, material, frames in (
        ("two livers, 5 kPa", LIVER, FRAMES_QUICK if quick else FRAMES),
        ("two livers of rubber", "rubber", STIFF_FRAMES_QUICK if quick else STIFF_FRAMES),
    ):
        candidates: dict[str, Callable[[object], object]] = {}
        notes: dict[str, str] = {}
        for method, options in (COARSE_QUICK if quick else COARSE).items():
            if method == "netgen" and importlib.util.find_spec("netgen") is None:
                rows.append(unmeasured(name, method, "not installed; pip install impinge[soft]"))
                continue
            try:
                bodies = _livers(method, options, material)
            except MeshError as error:
                rows.append(unmeasured(name, method, str(error)))
                continue
            candidates[method] = partial(_frame, bodies)
            substeps = bodies[0].step(FRAME).substeps
            notes[method] = (
                f"{len(bodies[0].coarse)} tets, {substeps} sub-steps, {len(bodies[0].surface)} triangles each"
            )
        for row in interleaved(name, candidates, [None], rounds=frames) if candidates else ():
            rate = f"{1e3 / row.median_ms:.0f} frames per second, {1e3 * FRAME / row.median_ms:.2g} times real time"
            rows.append(replace(row, note=f"{rate} (median); {notes[row.candidate]}; {jit.thread_count()} threads"))
    return rows


def _frame(bodies: list[SoftBody], _: object) -> None:
    for body in bodies:
        body.step(FRAME)


def _livers(method: Method, options: dict[str, Any], material: Material | str) -> list[SoftBody]:
    """Both bodies of the scene, hanging by their upper part."""
    bodies = []
    for surface in scenes.get("two_livers").surfaces:
        body = SoftBody.from_surface(surface, material=material, method=method, **options)
        height = body.coarse.vertices[:, 2]
        body.fix(height > height.min() + HELD * (height.max() - height.min()))
        bodies.append(body)
    return bodies
