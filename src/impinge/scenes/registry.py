"""Scenes by name. Bodies are built on first access: listing names costs nothing.

Tags     small       two bodies, at most about a thousand triangles each
         degenerate  bodies that touch, are coplanar or cross at edges
         smooth, cad, cloth, tets     the class of input
         refined     coarse and fine triangles in one pool, some of them dead; open along the seams between them
         soft        surfaces for SoftBody.from_surface, in metres
         paper-001, paper-003, paper-004     setups of a published experiment, or similar (docs: references)

Answers in ``expected`` are derived by hand; sets are closed: touching counts.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from impinge.checks import Floats, shown
from impinge.deform.waves import Wave
from impinge.errors import OptionError
from impinge.mesh import shapes
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh
from impinge.scenes import creatures
from impinge.scenes.refinement import refined_pair

Body: TypeAlias = TriMesh | TetMesh
Build: TypeAlias = Callable[[], Iterable[Body]]
Motion: TypeAlias = Callable[[tuple[Floats, ...], float], tuple[Floats | None, ...]]
"""Maps the rest positions of all bodies and a time to new positions; None for a body at rest."""


@dataclass(frozen=True, eq=False)
class Scene:
    """Named bodies, optionally with a motion and known answers. Each ``get`` returns a scene with its own bodies."""

    name: str
    title: str
    """One sentence of description."""
    build: Build = field(repr=False)
    """Makes new bodies."""
    motion: Motion | None = field(default=None, repr=False)
    expected: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Answers known by hand, about the first body (a) and the second (b); any may be absent.

    pairs                 number of intersecting pairs of surface triangles
    kinds                 number of "crossing", "touching" and "coplanar" pairs, by name if any
    relation              "disjoint", "touching", "overlapping", "crossing", "a in b" or "b in a"
    overlap_volume        volume of the intersection
    penetrating_vertices  number of vertices of either tet mesh in the other
    """
    tags: frozenset[str] = frozenset()

    @cached_property
    def _built(self) -> tuple[tuple[Body, ...], tuple[Floats, ...]]:
        bodies = tuple(self.build())
        return bodies, tuple(body.vertices.copy() for body in bodies)

    @property
    def bodies(self) -> tuple[Body, ...]:
        """The bodies, built on first access."""
        return self._built[0]

    @property
    def surfaces(self) -> tuple[TriMesh, ...]:
        """The surface of each body: the triangle mesh, or the boundary of the tet mesh."""
        return tuple(body.surface if isinstance(body, TetMesh) else body for body in self.bodies)

    @property
    def rest_positions(self) -> tuple[Floats, ...]:
        """Initial vertex positions, one array for each body."""
        return self._built[1]

    def positions(self, t: float) -> tuple[Floats | None, ...]:
        """Positions of each body at time ``t``; None for a body at rest."""
        if self.motion is None:
            return (None,) * len(self.bodies)
        return self.motion(self.rest_positions, t)

    def move(self, t: float) -> None:
        """Update all bodies to time ``t``."""
        for body, x in zip(self.bodies, self.positions(t)):
            if x is not None:
                body.update(x)

    def __str__(self) -> str:
        return self.name


_SCENES: dict[str, Scene] = {}


def names(tag: str | None = None) -> tuple[str, ...]:
    """Names of all scenes, or of those with a tag, in the order of this file."""
    known = {each for scene in _SCENES.values() for each in scene.tags}
    if tag is not None and not (isinstance(tag, str) and tag in known):
        raise OptionError(f"there is no tag {shown(tag)}; {suggest(shown(tag), known)}")
    return tuple(name for name, scene in _SCENES.items() if tag is None or tag in scene.tags)


def get(name: str) -> Scene:
    """The scene of that name, with its own bodies."""
    if not isinstance(name, str) or name not in _SCENES:
        raise OptionError(f"there is no scene {shown(name)}; {suggest(shown(name), _SCENES)}")
    return replace(_SCENES[name])


def suggest(word: str, known: Iterable[str]) -> str:
    """Names close to a misspelled one, or all, for a message."""
    close = difflib.get_close_matches(str(word), known, n=3, cutoff=0.4)
    return f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(sorted(known))}"


def _add(name: str, title: str, build: Build, tags: str, motion: Motion | None = None, **expected: Any) -> None:
    _SCENES[name] = Scene(name, title, build, motion, MappingProxyType(expected), frozenset(tags.split()))


# poses and motions -----------------------------------------------------------------------------------


def rotation(axis: Any, angle: float) -> Floats:
    """Rotation matrix about an axis (Rodrigues' formula) by ``angle`` [rad]; the identity for a zero axis."""
    length = np.linalg.norm(axis)
    if length == 0.0:
        return np.eye(3)
    x, y, z = np.asarray(axis, dtype=np.float64) / length
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    matrix: Floats = np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * cross @ cross
    return matrix


def _posed(body: Body, axis: Any, angle: float, shift: Any) -> Body:
    """The body, rotated about the origin, then shifted."""
    body.update(body.vertices @ rotation(axis, angle).T + np.asarray(shift))
    return body


def _pile(make: Callable[[], TetMesh], grid: tuple[int, ...], spacing: tuple[float, ...], tilt: float) -> list[Body]:
    """Copies on a lattice, each rotated by up to ``tilt`` about a random axis, close enough to collide."""
    rng = np.random.default_rng(3)
    cells = np.argwhere(np.ones(grid)) * np.array(spacing)
    return [_posed(make(), rng.normal(size=3), tilt * rng.random(), cell) for cell in cells]


def _waves(amplitude: float, wave_number: float) -> Motion:
    """Waves through all bodies with different phases; equal phases would deform space and change no contact."""
    wave = Wave(amplitude, wave_number, angular_speed=2.0)
    return lambda rest, t: tuple(wave(x, t + 1.7 * i) for i, x in enumerate(rest))


# tiny scenes with known answers ----------------------------------------------------------------------


def _triangles(a: Any, b: Any) -> tuple[TriMesh, TriMesh]:
    return TriMesh(a, [[0, 1, 2]]), TriMesh(b, [[0, 1, 2]])


_FLAT = ((0, 0, 0), (4, 0, 0), (0, 4, 0))

_add(
    "crossing_triangles", "One triangle passes through the middle of another.",
    lambda: _triangles(_FLAT, ((1, 1, -1), (1, 1, 1), (2, 2, 1))),
    "small", pairs=1, kinds={"crossing": 1}, relation="crossing",
)  # fmt: skip
_add(
    "touching_triangles", "One triangle touches another with a corner.",
    lambda: _triangles(_FLAT, ((1, 1, 0), (2, 1, 3), (1, 2, 3))),
    "small degenerate", pairs=1, kinds={"touching": 1}, relation="touching",
)  # fmt: skip
_add(
    "coplanar_triangles", "Two triangles overlap in one plane.",
    lambda: _triangles(_FLAT, ((1, 1, 0), (5, 1, 0), (1, 5, 0))),
    "small degenerate", pairs=1, kinds={"coplanar": 1},
)  # fmt: skip

# Diagonals of a box's faces run from the lowest to the highest corner. In the common plane, body a shows
# 2 halves of a square (h), its 4 edges (e), where triangles of the sides end, and 4 corners (c), where the
# sides' other triangles end: (y, z) = (1, 1) twice, (0, 1), (1, 0). For body b the corners are (0, 0) twice,
# (0, 1), (1, 0). Closed sets meet as follows; only the two pairs of equal halves share more than an edge.
#   h-h 2 · 2 = 4       h-e and e-h 2 · (2 · 4) = 16     e-e 4 · 3 = 12      e-c and c-e 2 · (4 · 2) = 16
#   h-c and c-h: a corner on the diagonal lies in both halves, 2 · (2 · 2 + 1 + 1) = 12     c-c 1 + 1 = 2
_add(
    "two_boxes_sharing_a_face", "Two unit boxes stand side by side with one face in common.",
    lambda: (shapes.box(center=(-0.5, 0, 0)), shapes.box(center=(0.5, 0, 0))),
    "small degenerate", pairs=62, kinds={"touching": 60, "coplanar": 2}, relation="touching", overlap_volume=0.0,
)  # fmt: skip
# a = [0, 1]³, b = [½, 3/2]³. Six pairs of faces meet (x = 1 of a with y = ½ and z = ½ of b, and so on), each
# in a segment of length ½ that ends on a diagonal of a's face and on one of b's: one end each. So one pair
# of triangles shares the segment, and two pairs an end of it: 6 · 3.
_add(
    "boxes_overlapping_by_half", "Two unit boxes overlap by half an edge in each direction.",
    lambda: (shapes.box(center=(0.5, 0.5, 0.5)), shapes.box(center=(1, 1, 1))),
    "small degenerate", pairs=18, kinds={"crossing": 6, "touching": 12}, relation="overlapping", overlap_volume=0.125,
)  # fmt: skip
_add(
    "nested_spheres", "A small sphere is inside a large one without contact.",
    lambda: (shapes.icosphere(2, radius=0.5), shapes.icosphere(3)), "small smooth", pairs=0, relation="a in b",
)  # fmt: skip
_add(
    "disjoint_spheres", "Two spheres are disjoint, but their bounding boxes overlap.",
    lambda: (shapes.icosphere(3), shapes.icosphere(3, center=(1.3, 1.3, 1.3))),
    "small smooth", pairs=0, relation="disjoint", overlap_volume=0.0,
)  # fmt: skip


def _crossed_tets() -> tuple[TetMesh, TetMesh]:
    """Wedges edge against edge.

    At height z, a is the rectangle |x| <= 3 (1 - s), |y| <= s with s = (1 - z) / 6, and b the rectangle
    |x| <= r, |y| <= 3 (1 - r) with r = (1 + z) / 6, both for z in [-1, 1]. Only the two long sides of each
    meet: 4 pairs. The common volume is the integral of 4 r s, 4 / 27.
    """
    a = np.array([(-3, 0, 1), (3, 0, 1), (0, 1, -5), (0, -1, -5)])
    b = a[:, [1, 0, 2]] * (1, 1, -1)
    return TetMesh(a, [[0, 1, 2, 3]]), TetMesh(b, [[0, 1, 2, 3]])


def _poked_tet() -> tuple[TetMesh, TetMesh]:
    """The tip of b is in a, cut off by the plane x + y + z = 6 at 3 / 7 of its height: (3 / 7)³ · 112 / 6."""
    a = [(0, 0, 0), (6, 0, 0), (0, 6, 0), (0, 0, 6)]
    b = [(1, 1, 1), (6, 2, 2), (2, 6, 2), (2, 2, 6)]
    return TetMesh(a, [[0, 1, 2, 3]]), TetMesh(b, [[0, 1, 2, 3]])


_add(
    "crossed_tets", "Two tetrahedra cross edge against edge, and no vertex of one is in the other.", _crossed_tets,
    "small tets", pairs=4, kinds={"crossing": 4}, relation="overlapping", overlap_volume=4 / 27, penetrating_vertices=0,
)  # fmt: skip
_add(
    "poked_tet", "A vertex of one tetrahedron passes through a face of another.", _poked_tet,
    "small tets", pairs=3, kinds={"crossing": 3}, relation="overlapping", overlap_volume=72 / 49,
    penetrating_vertices=1,
)  # fmt: skip


# deforming surfaces ----------------------------------------------------------------------------------


def _bumpy_spheres(subdivisions: int) -> tuple[TriMesh, TriMesh]:
    return shapes.bumpy_sphere(subdivisions), shapes.bumpy_sphere(subdivisions, center=(1.1, 0.4, 0.2))


def _knots(first: tuple[int, int, int, int], second: tuple[int, int, int, int]) -> tuple[Body, Body]:
    """Two knots (p, q, rings, sides), the second on edge and passing through the first."""
    upright = _posed(shapes.torus_knot(*second), (1.0, 0.2, 0.1), np.pi / 2.0, (0.7, 0.1, 0.05))
    return shapes.torus_knot(*first), upright


def _spheres(first: tuple[int, int], second: tuple[int, int]) -> tuple[TriMesh, TriMesh]:
    return shapes.uv_sphere(*first), shapes.uv_sphere(*second, center=(1.1, 0.8, 0.7))


def _cloth_on_ball() -> tuple[TriMesh, TriMesh]:
    """A sheet draped over the ball, with wrinkles that dip into the ball."""
    cloth, ball = shapes.cloth_grid(100, 100, size=3.0), shapes.icosphere(5)
    x, y = cloth.vertices[:, 0], cloth.vertices[:, 1]
    r, azimuth = np.hypot(x, y), np.arctan2(y, x)
    theta = np.minimum(r, np.pi / 2.0)
    wrinkle = 1.0 + 0.02 * np.sin(6.0 * azimuth) * np.sin(theta)
    side = wrinkle * np.sin(theta)
    height = wrinkle * np.cos(theta) - (r - theta)  # straight down below the equator
    cloth.update(np.stack([side * np.cos(azimuth), side * np.sin(azimuth), height], axis=1))
    return cloth, ball


def _cad_parts() -> tuple[Body, Body]:
    across = shapes.cad_part((2, 2), segments=96, size=(2.5, 2.5, 0.4))
    return shapes.cad_part(segments=64), _posed(across, (1.0, 0.3, 0.2), 1.2, (0.3, 0.2, 0.1))


def _livers() -> tuple[TriMesh, TriMesh]:
    """Two liver-like bodies, the second on top."""
    liver = creatures.liver(64)
    turned = liver.vertices @ rotation((0.2, 0.1, 1.0), 0.9).T + np.array([0.01, 0.0, 0.075])
    return liver, TriMesh(turned, liver.faces)


for _subdivisions, _size, _tags in ((3, "1k", "small smooth"), (5, "20k", "smooth"), (6, "82k", "smooth")):
    _add(
        f"bumpy_spheres_{_size}",
        f"Two bumpy spheres of {20 * 4**_subdivisions} triangles each overlap and are deformed by waves.",
        partial(_bumpy_spheres, _subdivisions), _tags, _waves(0.05, 4.0),
    )  # fmt: skip

_add(
    "refined_spheres", "Two spheres, coarse, and fine near contact: one pool of triangles each, some of them dead.",
    partial(refined_pair, 3, 5), "refined", _waves(0.03, 4.0),
)  # fmt: skip

_KNOTS = {
    "12k": (2, 3, 300, 20), "50k": (3, 5, 1000, 25), "110k": (4, 7, 2200, 25), "150k": (5, 8, 2500, 30),
    "520k": (5, 9, 6500, 40),
}  # fmt: skip
for _first, _second in (("12k", "12k"), ("12k", "50k"), ("50k", "110k"), ("110k", "150k"), ("12k", "520k")):
    _one, _two = _KNOTS[_first], _KNOTS[_second]
    _add(
        f"knots_{_first}" if _first == _second else f"knots_{_first}_{_second}",
        f"Torus knots T{_one[:2]} and T{_two[:2]} pass through each other.",
        partial(_knots, _one, _two), "smooth paper-004", _waves(0.03, 4.0),
    )  # fmt: skip

_SPHERES = {"12k": (100, 61), "50k": (200, 126), "110k": (250, 221), "150k": (300, 251)}
for _first, _second in (("12k", "50k"), ("50k", "110k"), ("110k", "150k")):
    _add(
        f"spheres_{_first}_{_second}",
        f"Spheres of {_SPHERES[_first]} and {_SPHERES[_second]} meridians and bands share a lens.",
        partial(_spheres, _SPHERES[_first], _SPHERES[_second]), "smooth paper-004", _waves(0.03, 4.0),
    )  # fmt: skip

_add(
    "particles_on_knot",
    "A knot of 10000 triangles deforms above a floor; 20000 particles fall on it.",
    lambda: (shapes.torus_knot(2, 3, 250, 20), shapes.box((5.0, 5.0, 0.3), center=(0.0, 0.0, -1.35))),
    "smooth paper-004", lambda rest, t: (Wave(0.12, 3.0, angular_speed=3.0)(rest[0], t), None),
)  # fmt: skip
_add(
    "two_livers", "Two liver-like bodies of 49152 triangles each, 0.2 m long, lie on each other; for SoftBody.",
    _livers, "smooth soft paper-001", _waves(0.004, 40.0),
)  # fmt: skip
_add(
    "cloth_on_ball", "A wrinkled sheet hangs over a ball and touches it in many places.",
    _cloth_on_ball, "cloth", _waves(0.02, 5.0),
)  # fmt: skip
_add("cad_parts", "Two drilled plates of long thin triangles intersect.", _cad_parts, "cad")


# many tet meshes -------------------------------------------------------------------------------------


def _vessels() -> tuple[Body, Body]:
    make = partial(shapes.tet_tube, 2, 18, 57, inner_radius=0.8, outer_radius=1.0, length=10.0)
    return make(), _posed(make(), (1.0, 0.0, 0.1), np.pi / 2.0, (1.7, 0.2, 0.1))


_boxes = partial(_pile, partial(shapes.tet_box, 2, 1, 1), (5, 5, 4), (1.8, 1.3, 1.3), np.pi)
_plates = partial(_pile, partial(shapes.tet_box, 10, 10, 1), spacing=(10.4, 10.4, 1.4), tilt=0.12)
for _letter, _title, _build in (
    ("a", "100 boxes of 10 tets each lie in a heap: 1000 tets, 1200 vertices.", _boxes),
    ("b", "8 plates of 500 tets each lie in stacks: 4000 tets, 1936 vertices.", partial(_plates, (2, 2, 2))),
    ("c", "20 plates of 500 tets each lie in stacks: 10000 tets, 4840 vertices.", partial(_plates, (2, 2, 5))),
    ("d", "Two vessels cross wall through wall: 20520 tets, 6264 vertices.", _vessels),
    ("e", "100 plates of 500 tets each lie in stacks: 50000 tets, 24200 vertices.", partial(_plates, (5, 5, 4))),
):
    _add(f"hashing_setup_{_letter}", _title, _build, "tets paper-003", _waves(0.1, 2.0))

# Denser setups than the paper's: about 0.15 contacts per tet.
for _letter, _grid, _count in (("c", (2, 2, 5), 20), ("e", (5, 5, 4), 100)):
    _add(
        f"hashing_setup_{_letter}_dense", f"{_count} plates of 500 tets each lie in stacks and penetrate each other.",
        partial(_plates, _grid, spacing=(10.4, 10.4, 1.0)), "tets", _waves(0.1, 2.0),
    )  # fmt: skip
