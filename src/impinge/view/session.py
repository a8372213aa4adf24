"""The computation behind the live page: moving bodies of a scene, a collision query per frame, and cutting tools.

Independent of browsers: ``advance`` moves the bodies, runs the query and returns a ``RenderedFrame``, which the page
draws. All methods are thread-safe.

Positions   come from ``view.motion_sources``. Under a scripted motion the second body is also rotated about its centre
            and shifted; shifts are relative to the scene size, which makes one slider range fit all scenes. In a
            simulation a soft body is dragged instead.
Between     frames, if switched on, the impacts of the linear motion from the last frame to this one replace the query.
Cutting     removes triangles (ids stay) until ``restore``; the detectors are kept, since they follow edits. In a
            simulation it affects the query and not the contact forces, which act on the coarse body.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import impinge
from impinge.checks import Floats, Ints, as_choice
from impinge.detect.depth.vertices_in_surfaces import vertices_in_surfaces
from impinge.errors import ImpingeError, OptionError
from impinge.scenes import simulated as simulations
from impinge.view.drawing import LAYERS, Drawing, drawing_of, with_pressures
from impinge.view.labels import counted
from impinge.view.motion_sources import MotionSource, ScriptedMotion, SimulatedMotion
from impinge.view.picture import surface_of

SHOWN_SCENES = (
    "bumpy_spheres_20k", "bumpy_spheres_1k", "knots_12k", "two_livers", "hashing_setup_d", "cloth_on_ball", "cad_parts",
    "refined_spheres", "nested_spheres", "boxes_overlapping_by_half", "crossed_tets", "knots_12k_50k",
)  # fmt: skip
"""Scenes with two bodies, in the order of the list."""
SIMULATED = ", simulated"
"""Suffix of simulation names on the page; some scenes have the same name."""
SHOWN_SIMULATIONS = ("two_bunnies", "two_livers", "bulls", "turning_part", "cloth_on_ball")
SCALE = 0.1
"""Scale of simulations, chosen for about real time on a small machine."""
TARGET_MS = 25.0
"""Target duration of a simulation step on the page; slower simulations run in slow motion."""
DETECTORS: dict[str, Callable[[impinge.TriMesh, impinge.TriMesh], Any]] = {
    "gjk_cut": impinge.GjkCut,
    "sphere_tree": lambda a, b: impinge.SphereTree(a, b, exact=True),
    "layered_depth": impinge.LayeredDepth,
    "box_tree": impinge.BoxTree,
    "breadth_first": impinge.BreadthFirst,
    "spatial_hash": lambda a, b: impinge.SpatialHash([a, b]),
}
"""Detectors of two bodies by method, the slowest to compile first."""
METHODS = (*sorted(DETECTORS), "vertices_inside", "world")
"""Queries of the page by name."""
BETWEEN_FRAMES = "between frames"
"""Name of the search for impacts, beside those of ``METHODS``."""
HISTORY = 200
"""Frames shown in the charts."""


@dataclass
class Settings:
    """Values of the controls."""

    method: str = "box_tree"
    budget_ms: float = 2.0
    resolution: int = 64
    deformation: float = 1.0
    """0: rest shape, 1: the deformation of the scene."""
    shift: Floats = field(default_factory=lambda: np.zeros(3))
    """Translation of the second body, relative to the scene size."""
    turn: Floats = field(default_factory=lambda: np.eye(3))
    """Rotation matrix of the second body about its centre."""
    layers: frozenset[str] = frozenset(LAYERS) - {"pressure"}
    between_frames: bool = False
    """Show the impacts between the last frame and this one instead of the query."""


@dataclass(frozen=True, eq=False)
class RenderedFrame:
    """The drawing of one frame, and its timing."""

    frame: int
    time: float
    drawing: Drawing
    detection_ms: float
    budget_ms: float
    method: str

    @property
    def count(self) -> int:
        """Number of items found."""
        return self.drawing.count


class Session:
    """Moving bodies and a collision query."""

    def __init__(self, scene: str | MotionSource = SHOWN_SCENES[0], method: str | None = None) -> None:
        self._lock = threading.RLock()
        self._last_hits: tuple[Ints, ...] = ()
        self._before: tuple[Floats, ...] | None = None
        """Positions of the last frame that differs from this one."""
        self._is_placed = False
        """Whether the bodies are in a frame of the motion, not in the state in which they were made."""
        self._own: dict[str, MotionSource] = {} if isinstance(scene, str) else {scene.name: scene}
        self.settings = Settings()
        self.choose_scene(scene if isinstance(scene, str) else scene.name)
        if method is not None:
            self.choose_method(method)

    def choose_scene(self, name: str) -> None:
        """Load another scene; settings stay, except the pose of the second body."""
        motion = self._own[name] if name in self._own else named_motion(name)
        with self._lock:
            self.motion = motion
            motion.restart()
            bounds = np.array([surface.bounds for surface in motion.surfaces])
            low, high = bounds[:, 0].min(axis=0), bounds[:, 1].max(axis=0)
            self.centre: Floats = 0.5 * (low + high)
            self.size = float((high - low).max())
            self.centre_of_b: Floats = bounds[min(1, len(bounds) - 1)].mean(axis=0)
            if isinstance(motion, ScriptedMotion):
                self.settings.deformation = motion.deformation
            self.settings.shift, self.settings.turn = np.zeros(3), np.eye(3)
            self.frame = 0
            if len(motion.surfaces) != 2 or isinstance(motion, SimulatedMotion):
                self.settings.method = "world"
            self.restore()

    def restart(self) -> None:
        """Restart the motion at time 0; cuts and settings stay."""
        with self._lock:
            self.motion.restart()
            self._before, self._is_placed = None, False

    def choose_method(self, name: str) -> None:
        """Use another query from the next frame on."""
        with self._lock:
            self.settings.method = as_choice(name, "method", METHODS)

    @property
    def is_simulated(self) -> bool:
        """Whether the bodies are simulated, and a soft one can be dragged."""
        return isinstance(self.motion, SimulatedMotion)

    def advance(self, seconds: float, *, within_s: float = math.inf) -> RenderedFrame:
        """Advance the time, move the bodies and run the query.

        Where a motion or query raises, the frame shows the bodies and the reason. A simulation advances by less than
        ``seconds`` where it computes for longer than ``within_s``.
        """
        with self._lock:
            self.frame += 1
            method, elapsed_ms = self.settings.method, 0.0
            try:
                wanted = self.settings
                if isinstance(self.motion, ScriptedMotion):
                    self.motion.deformation = wanted.deformation
                self.motion.advance(seconds, within_s=within_s)
                self._move(self.motion.positions())
                if wanted.between_frames:
                    method = BETWEEN_FRAMES
                    drawing, elapsed_ms = self._draw_between()
                else:
                    result = self._query(method)
                    elapsed_ms = result.elapsed_ms
                    drawing = drawing_of(result, self.settings.layers)
            except ImpingeError as error:
                sentence = f"{method} is not applicable: {error}."
                drawing = Drawing(tuple(map(surface_of, self.bodies)), sentence, complete=False)
            if isinstance(self.motion, SimulatedMotion):
                active = counted(self.motion.contact_count, "active contact")
                step = "" if math.isnan(self.motion.step_ms) else f", {self.motion.step_ms:.1f} ms per step"
                note = f"simulated {self.motion.time:.2f} s: {active}{step}"
                drawing = replace(drawing, notes=(*drawing.notes, note))
                if "pressure" in self.settings.layers:
                    drawing = with_pressures(drawing, self.motion.pressures)
            self._last_hits = drawing.hits
            self.times.append(elapsed_ms)
            self.counts.append(drawing.count)
            return RenderedFrame(self.frame, self.motion.time, drawing, elapsed_ms, self.settings.budget_ms, method)

    def _move(self, positions: Sequence[Floats]) -> None:
        """Move the bodies to a frame, and keep where they were, unless they stay."""
        wanted, before = self.settings, tuple(body.vertices for body in self.bodies)
        for k, (body, x) in enumerate(zip(self.bodies, positions)):
            if k == 1 and not self.is_simulated:
                local = (x - self.centre_of_b) @ wanted.turn.T
                x = local + self.centre_of_b + self.size * wanted.shift  # noqa: PLW2901
            body.update(x)
        has_moved = any(not np.array_equal(x, body.vertices) for x, body in zip(before, self.bodies))
        if self._is_placed and has_moved:
            self._before = before
        self._is_placed = True

    def _draw_between(self) -> tuple[Drawing, float]:
        """Bodies in this frame with the impacts on the way from the last one, and milliseconds of the search."""
        if len(self.bodies) > 2:
            raise OptionError(f"it takes one or two bodies, found {len(self.bodies)}; switch it off")
        surfaces = tuple(map(surface_of, self.bodies))
        if self._before is None:
            return Drawing(surfaces, "No body has moved yet: there is no motion to search.", unit="impacts"), 0.0
        query = self._queries.get(BETWEEN_FRAMES, (0, None))[1]
        is_new = query is None
        if is_new:
            query = impinge.ContinuousTree(*self.bodies).query
            self._queries[BETWEEN_FRAMES] = (0, query)
        now = [body.vertices for body in self.bodies]
        ends = dict(zip(("end_a", "end_b"), now))
        for body, x in zip(self.bodies, self._before):
            body.update(x)
        try:
            if is_new:
                query(**ends)  # compiles and builds, outside of the timed frame
            result = query(**ends)
        finally:
            for body, x in zip(self.bodies, now):
                body.update(x)
        return replace(drawing_of(result, self.settings.layers), surfaces=surfaces), result.elapsed_ms

    def _query(self, method: str) -> Any:
        """What a method finds now; "world" shows the contacts of a simulation's last step."""
        if method == "world" and isinstance(self.motion, SimulatedMotion) and self.motion.report is not None:
            return self.motion.report.contacts
        if method == "vertices_inside" and len(self.bodies) == 2:
            return vertices_in_surfaces(self.bodies, depth=True)
        if method != "world" and len(self.bodies) != 2:
            raise OptionError(f"it takes two bodies, found {len(self.bodies)}; choose the method world")
        resolution = self.settings.resolution if method == "layered_depth" else 0
        kept_resolution, query = self._queries.get(method, (0, None))
        if query is None or kept_resolution != resolution:
            if method == "world":
                world = impinge.World()
                for number, body in enumerate(self.bodies):
                    world.add(body, name=f"body {number}")
                query = partial(world.contacts, method="vertices")
            elif method == "layered_depth":
                query = impinge.LayeredDepth(*self.bodies, resolution=resolution).query
            else:
                detector = DETECTORS[method](*self.bodies)
                if method == "sphere_tree":
                    detector.prepare()
                query = detector.query
            query()  # compiles and builds, outside of the timed frame
            self._queries[method] = (resolution, query)
        options = {"budget_ms": self.settings.budget_ms} if method == "sphere_tree" else {}
        return query(**options)

    def cut_around(self, point: ArrayLike, radius: float) -> int:
        """Remove the triangles with centres within ``radius`` of a point; return their number."""
        with self._lock:
            removed = 0
            for body in self.bodies:
                snapshot = body.snapshot()
                centres = snapshot.vertices[snapshot.elements[snapshot.live]].mean(axis=1)
                near = np.linalg.norm(centres - np.asarray(point), axis=1) <= radius
                body.remove_triangles(snapshot.live[near])
                removed += int(near.sum())
            return removed

    def cut_along(self, origin: ArrayLike, direction: ArrayLike, radius: float) -> int:
        """Remove triangles around the first intersection of a ray with a body; 0 if there is none."""
        start, along = np.asarray(origin, dtype=np.float64), np.asarray(direction, dtype=np.float64)
        with self._lock:
            nearest = min(first_hit(body, start, along) for body in self.bodies)
            return self.cut_around(start + nearest * along, radius) if np.isfinite(nearest) else 0

    def cut_colliding(self) -> int:
        """Remove the highlighted triangles of all bodies except the first; return their number."""
        with self._lock:
            removed = 0
            for body, hits in zip(self.bodies[1:], self._last_hits[1:]):
                found: Ints = np.intersect1d(hits, body.snapshot().live)
                body.remove_triangles(found)
                removed += len(found)
            return removed

    def restore(self) -> None:
        """Restore all triangles of the scene and clear the history."""
        with self._lock:
            # Copies with equal ids: surfaces of tet meshes cannot be cut by triangles.
            bodies = []
            for snapshot in (surface.snapshot() for surface in self.motion.surfaces):
                body = impinge.TriMesh(snapshot.vertices, snapshot.elements, validate="trust")
                body.remove_triangles(np.setdiff1d(np.arange(len(snapshot.elements)), snapshot.live))
                bodies.append(body)
            self.bodies = tuple(bodies)
            self._queries: dict[str, tuple[int, Any]] = {}
            """Query of each method, with its resolution; another resolution replaces it."""
            self._last_hits = ()
            self._before, self._is_placed = None, False
            self.times: deque[float] = deque(maxlen=HISTORY)
            self.counts: deque[int] = deque(maxlen=HISTORY)


def named_motion(name: str, *, scale: float = SCALE, target_ms: float | None = TARGET_MS) -> MotionSource:
    """A scene, or a simulation if the name ends in ``SIMULATED``; with ``target_ms=None`` it is deterministic."""
    if not name.endswith(SIMULATED):
        return ScriptedMotion(impinge.scenes.get(name))
    make = simulations.get(name.removesuffix(SIMULATED)).make
    return SimulatedMotion(name, partial(make, scale=scale, target_ms=target_ms))


def first_hit(body: impinge.TriMesh, origin: Floats, direction: Floats) -> float:
    """Ray parameter of the first triangle hit (Möller and Trumbore), infinity if there is none."""
    snapshot = body.snapshot()
    p, q, r = np.moveaxis(snapshot.vertices[snapshot.elements[snapshot.live]], 1, 0)
    along_q, along_r = q - p, r - p
    across = np.cross(direction, along_r)
    volume = (along_q * across).sum(axis=1)
    usable = volume != 0.0
    safe = np.where(usable, volume, 1.0)
    u = ((origin - p) * across).sum(axis=1) / safe
    turned = np.cross(origin - p, along_q)
    v = (turned @ direction) / safe
    t = (along_r * turned).sum(axis=1) / safe
    meets = usable & (u >= 0.0) & (v >= 0.0) & (u + v <= 1.0) & (t > 0.0)
    return float(t[meets].min()) if meets.any() else np.inf
