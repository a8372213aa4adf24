"""What runs behind the live page: bodies of a scene that move, a method that is asked, and tools that change them.

Knows nothing of browsers: ``advance`` moves the bodies, asks, and returns a ``Shot``, which is drawn elsewhere. All
methods may be called from any thread; a lock keeps steps whole.

Positions   what ``view.motions`` says. Where a formula moves the bodies, the second one is turned about its centre and
            shifted, too; shifts are shares of the size of the scene, so that one slider fits all scenes. In a
            simulation a soft body is pulled instead.
Cutting     removes triangles for good (ids stay) until ``mend``; the detectors are kept, since they follow edits. In a
            simulation it changes what is asked about and not what pushes: that is the coarse body inside.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from impinge import scenes
from impinge.checks import Floats, Ints
from impinge.contact.contacts import Contacts
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.breadth_first.detector import BreadthFirst
from impinge.detect.depth.vertices_in_surfaces import vertices_in_surfaces
from impinge.detect.gjk_cut.detector import GjkCut
from impinge.detect.layered_depth.detector import LayeredDepth
from impinge.detect.spatial_hash.detector import SpatialHash
from impinge.detect.sphere_tree.detector import SphereTree
from impinge.errors import ImpingeError, OptionError
from impinge.mesh.tri_mesh import TriMesh
from impinge.scenes import simulated as simulations
from impinge.view.drawing import LAYERS, Drawing, bodies_alone, drawing_of
from impinge.view.motions import Formula, Motion, Physics
from impinge.view.words import counted
from impinge.world.world import World

SHOWN_SCENES = (
    "bumpy_spheres_20k",
    "bumpy_spheres_1k",
    "knots_12k",
    "two_livers",
    "hashing_setup_d",
    "cloth_on_ball",
    "cad_parts",
    "refined_spheres",
    "nested_spheres",
    "boxes_overlapping_by_half",
    "crossed_tets",
    "knots_12k_50k",
)
"""Scenes with two bodies, the ones to begin with first."""
SIMULATED = ", simulated"
"""What the names of simulations end in, some of which are names of scenes, too."""
SHOWN_SIMULATIONS = ("two_bunnies", "two_livers", "bulls", "turning_part", "cloth_on_ball")
SCALE = 0.1
"""Of simulations: as large as moves about as fast as the clock on a small machine."""
TARGET_MS = 25.0
"""What a frame of a simulation may take on the page; what does not fit is shown slowly rather than in jerks."""
METHODS = {
    "box_tree": "all pairs of triangles, by trees of boxes",
    "breadth_first": "all pairs of triangles, level by level",
    "gjk_cut": "all pairs of triangles, with no structure at all",
    "spatial_hash": "all pairs of triangles, by a hash of cells",
    "sphere_tree": "contacts within the time budget, by trees of spheres",
    "layered_depth": "the overlap volume, by layered depth images",
    "vertices_inside": "vertices inside the other body, and their depths",
    "world": "contacts of all bodies, however many",
}
"""What can be asked for, by name."""
HISTORY = 200
"""Frames that the chart looks back on."""


@dataclass
class Settings:
    """What a person sets with sliders and buttons."""

    method: str = "box_tree"
    budget_ms: float = 2.0
    resolution: int = 64
    deformation: float = 1.0
    """0: as at rest, 1: as the scene has it."""
    shift: Floats = field(default_factory=lambda: np.zeros(3))
    """Of the second body, in sizes of the scene."""
    turn: Floats = field(default_factory=lambda: np.eye(3))
    """Of the second body about its centre, a rotation matrix."""
    layers: frozenset[str] = frozenset(LAYERS)


@dataclass(frozen=True, eq=False)
class Shot:
    """One frame: what there is to see, and what it took."""

    frame: int
    time: float
    drawing: Drawing
    detection_ms: float
    budget_ms: float
    method: str

    @property
    def count(self) -> int:
        """How many things were found."""
        return self.drawing.count


class Session:
    """Bodies, a clock and a method."""

    def __init__(self, scene: str | Motion = SHOWN_SCENES[0], method: str | None = None) -> None:
        self._lock = threading.RLock()
        self._own: dict[str, Motion] = {} if isinstance(scene, str) else {scene.name: scene}
        self._last: Drawing | None = None
        self.settings = Settings()
        self.choose_scene(scene if isinstance(scene, str) else scene.name)
        if method is not None:
            self.choose_method(method)

    # choosing ---------------------------------------------------------------------------------------------

    def choose_scene(self, name: str) -> None:
        """Begin with another scene; sliders keep their values, but for the place of the second body."""
        motion = self._own[name] if name in self._own else named_motion(name)
        with self._lock:
            self.motion = motion
            motion.begin()
            bounds = np.array([surface.bounds for surface in motion.surfaces])
            low, high = bounds[:, 0].min(axis=0), bounds[:, 1].max(axis=0)
            self.centre: Floats = 0.5 * (low + high)
            self.size = float((high - low).max())
            self.centre_of_b: Floats = bounds[min(1, len(bounds) - 1)].mean(axis=0)
            if isinstance(motion, Formula):
                self.settings.deformation = motion.deformation
            self.settings.shift, self.settings.turn = np.zeros(3), np.eye(3)
            self.frame = 0
            if len(motion.surfaces) != 2:
                self.settings.method = "world"
            self.mend()

    def begin(self) -> None:
        """Let the scene start again; cuts and sliders stay."""
        with self._lock:
            self.motion.begin()

    def choose_method(self, name: str) -> None:
        """Ask another method from now on."""
        if name not in METHODS:
            raise OptionError(f"method is {name!r}, expected one of {', '.join(METHODS)}")
        with self._lock:
            self.settings.method = name

    # moving and asking ------------------------------------------------------------------------------------

    @property
    def is_simulated(self) -> bool:
        """Whether the bodies push each other, and a soft one can be pulled."""
        return isinstance(self.motion, Physics)

    def advance(self, seconds: float, *, within_s: float = math.inf) -> Shot:
        """Let time go on, move the bodies, ask the method; the bodies alone and the reason if it refuses.

        A simulation goes on by less if that takes longer than ``within_s``.
        """
        with self._lock:
            self.frame += 1
            asked, took = self.settings.method, 0.0
            try:
                self._move(seconds, within_s)
                result = self._ask(asked)
                took = result.elapsed_ms
                drawing = drawing_of(result, self.settings.layers)
            except ImpingeError as refusal:
                drawing = bodies_alone(self.bodies, f"{asked} cannot answer here: {refusal}.")
            drawing = replace(drawing, notes=(*drawing.notes, *self._note()))
            self._last = drawing
            self.times.append(took)
            self.counts.append(drawing.count)
            return Shot(self.frame, self.motion.time, drawing, took, self.settings.budget_ms, asked)

    def _move(self, seconds: float, within_s: float) -> None:
        wanted = self.settings
        if isinstance(self.motion, Formula):
            self.motion.deformation = wanted.deformation
        self.motion.advance(seconds, within_s=within_s)
        for k, (body, x) in enumerate(zip(self.bodies, self.motion.positions())):
            if k == 1 and not self.is_simulated:
                x = (x - self.centre_of_b) @ wanted.turn.T + self.centre_of_b + self.size * wanted.shift  # noqa: PLW2901
            body.update(x)

    def _note(self) -> tuple[str, ...]:
        if not isinstance(self.motion, Physics):
            return ()
        pushing = (
            counted(self.motion.pushing, "contact pushes", "contacts push") if self.motion.pushing else "nothing pushes"
        )
        took = "" if math.isnan(self.motion.frame_ms) else f"; a step takes {self.motion.frame_ms:.1f} ms"
        return (f"simulated {self.motion.time:.2f} s: {pushing}{took}",)

    def _ask(self, method: str) -> Any:
        if method == "vertices_inside" and len(self.bodies) == 2:
            return vertices_in_surfaces(self.bodies, depth=True)
        key = (method, self.settings.resolution if method == "layered_depth" else 0)
        if key not in self._detectors:
            self._detectors[key] = self._make(method)
            self._detectors[key].query()  # compiles and builds, which is no part of any frame
        detector = self._detectors[key]
        return detector.query(budget_ms=self.settings.budget_ms) if method == "sphere_tree" else detector.query()

    def _make(self, method: str) -> Any:
        if method == "world":
            return _WorldDetector(self.bodies)
        if len(self.bodies) != 2:
            raise OptionError(f"it looks at two bodies and there are {len(self.bodies)}; choose the method world")
        a, b = self.bodies
        if method == "sphere_tree":
            spheres = SphereTree(a, b, exact=True)
            spheres.prepare()
            return spheres
        if method == "layered_depth":
            return LayeredDepth(a, b, resolution=self.settings.resolution)
        if method == "spatial_hash":
            return SpatialHash([a, b])
        makers: dict[str, Callable[..., Any]] = {"box_tree": BoxTree, "breadth_first": BreadthFirst, "gjk_cut": GjkCut}
        return makers[method](a, b)

    # tools ------------------------------------------------------------------------------------------------

    def cut_around(self, point: Any, radius: float) -> int:
        """Remove the triangles of both bodies whose centre is within ``radius`` of a point; how many went."""
        with self._lock:
            went = 0
            for body in self.bodies:
                snapshot = body.snapshot()
                centres = snapshot.vertices[snapshot.elements[snapshot.live]].mean(axis=1)
                near = np.linalg.norm(centres - np.asarray(point), axis=1) <= radius
                body.remove_triangles(snapshot.live[near])
                went += int(near.sum())
            return went

    def cut_along(self, origin: Any, direction: Any, radius: float) -> int:
        """Remove triangles around the place where a ray first meets a body; 0 if it meets none."""
        with self._lock:
            distances = [first_hit(body, np.asarray(origin), np.asarray(direction)) for body in self.bodies]
            nearest = min(distances)
            if not np.isfinite(nearest):
                return 0
            return self.cut_around(np.asarray(origin) + nearest * np.asarray(direction), radius)

    def cut_colliding(self) -> int:
        """Remove the triangles that glow, but those of the first body; how many went."""
        with self._lock:
            hits = () if self._last is None else self._last.hits
            went = 0
            for body, hit in zip(self.bodies[1:], hits[1:]):
                glowing: Ints = np.intersect1d(hit, body.snapshot().live)
                body.remove_triangles(glowing)
                went += len(glowing)
            return went

    def mend(self) -> None:
        """Bring all triangles of the scene back."""
        with self._lock:
            self.bodies = tuple(_copy(surface) for surface in self.motion.surfaces)
            self._detectors: dict[tuple[str, int], Any] = {}
            self._last = None
            self.times: deque[float] = deque(maxlen=HISTORY)
            self.counts: deque[int] = deque(maxlen=HISTORY)


class _WorldDetector:
    """All bodies in a world, asked like any detector."""

    def __init__(self, bodies: tuple[TriMesh, ...]) -> None:
        self._world = World()
        for number, body in enumerate(bodies):
            self._world.add(body, name=f"body {number}")

    def query(self) -> Contacts:
        return self._world.contacts(method="vertices")


def named_motion(name: str, *, scale: float = SCALE, target_ms: float | None = TARGET_MS) -> Motion:
    """A scene or, if its name says so, a simulation; without ``target_ms`` it repeats bit for bit."""
    if not name.endswith(SIMULATED):
        return Formula(scenes.get(name))
    make = simulations.get(name.removesuffix(SIMULATED)).make
    return Physics(name, partial(make, scale=scale, target_ms=target_ms))


def _copy(surface: TriMesh) -> TriMesh:
    """A mesh of its own with the same ids, so that tet meshes can be cut by triangles too."""
    snapshot = surface.snapshot()
    body = TriMesh(snapshot.vertices, snapshot.elements, validate="trust")
    body.remove_triangles(np.setdiff1d(np.arange(len(snapshot.elements)), snapshot.live))
    return body


def first_hit(body: TriMesh, origin: Floats, direction: Floats) -> float:
    """How far along a ray the first triangle is (Möller and Trumbore), infinity if there is none."""
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
