"""What there is to see of a result, as plain arrays: no window, no browser, so that it can be tested without.

A ``Drawing`` has the bodies, the triangles that glow, the spheres of the level reached, columns around the spans of an
overlap, intersection curves and contact normals, and a sentence that says what was found and how sure it is. Pictures,
pages and recordings are made of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from impinge.checks import Floats, Ints, sorted_unique
from impinge.contact.contacts import (
    ContactKind,
    Contacts,
    contacts_from_pairs,
    contacts_from_vertices,
    contacts_from_volume,
)
from impinge.contact.volume_gradient import volume_gradient
from impinge.detect.common.nearest_results import Curves
from impinge.detect.common.results import Result, TrianglePairs, VertexContacts
from impinge.detect.layered_depth.volume_overlap import VolumeOverlap
from impinge.detect.proximity.intersection_curves import intersection_curves
from impinge.detect.sphere_tree.contacts import SphereContacts
from impinge.errors import ImpingeError, OptionError
from impinge.queries import collides
from impinge.view.picture import columns_of_spans
from impinge.view.words import counted

LAYERS = ("glow", "spheres", "spans", "curves", "normals")
"""What can be drawn over the bodies."""
MOST_ARROWS = 90
MOST_SPHERES = 150
MOST_COLUMNS = 1500
"""Drawn at most; of more, every so manieth, and ``notes`` tells it. What is found is never cut."""
ARROW = 0.09
"""Least length of an arrow, as a share of the scene; deeper contacts have arrows as long as they are deep."""

_NO_CORNERS: Floats = np.zeros((0, 3, 3))
_NO_LINES: Floats = np.zeros((0, 2, 3))
_NO_BALLS: Floats = np.zeros((0, 4))
_NO_IDS: Ints = np.zeros(0, dtype=np.int32)


@dataclass(frozen=True, eq=False)
class Shape:
    """The surface of one body."""

    vertices: Floats
    faces: Ints
    """All triangles, by id, shape (m, 3)."""
    live: Ints
    """Ids of those that are there."""

    @property
    def corners(self) -> Floats:
        """Of the triangles that are there, shape (n, 3, 3)."""
        return np.asarray(self.vertices[self.faces[self.live]])


@dataclass(frozen=True, eq=False)
class Drawing:
    """What there is to see."""

    shapes: tuple[Shape, ...]
    sentence: str
    """What was found, and how sure it is."""
    count: int = 0
    """How many things were found."""
    unit: str = "pairs"
    """What they are called."""
    complete: bool = True
    hits: tuple[Ints, ...] = ()
    """Ids of the triangles that glow, one array for each body."""
    spheres: tuple[Floats, ...] = ()
    """Centre and radius of spheres that meet, one array of shape (n, 4) for each body."""
    columns: Floats = field(default_factory=lambda: _NO_CORNERS)
    """Triangles around the spans of an overlap, shape (n, 3, 3)."""
    curves: Floats = field(default_factory=lambda: _NO_LINES)
    """Shape (n, 2, 3)."""
    arrows: Floats = field(default_factory=lambda: _NO_LINES)
    """From contact points along normals, shape (n, 2, 3)."""
    notes: tuple[str, ...] = ()
    """What was left out of the drawing, though not of the result."""

    def glow(self, k: int) -> Floats:
        """Corners of the triangles of a body that glow, shape (n, 3, 3)."""
        shape = self.shapes[k]
        hits = np.intersect1d(self.hits[k], shape.live) if len(self.hits) > k else _NO_IDS
        return np.asarray(shape.vertices[shape.faces[hits]])

    @property
    def bounds(self) -> Floats:
        """Lowest and highest corner of all bodies, shape (2, 3)."""
        corners = np.concatenate([np.zeros((0, 3)), *(shape.corners.reshape(-1, 3) for shape in self.shapes)])
        if not len(corners):
            return np.array([[-1.0] * 3, [1.0] * 3])
        return np.stack([corners.min(axis=0), corners.max(axis=0)])


def drawing_of(result: Result, layers: Collection[str] = LAYERS) -> Drawing:
    """What there is to see of a result; what is found for the drawing alone is found for ``layers`` only."""
    for kind, draw in _DRAW.items():
        if isinstance(result, kind):
            return draw(result, layers)
    raise OptionError(f"a {type(result).__name__} cannot be shown; plot() and to_dict() tell what is in it")


def bodies_alone(bodies: Sequence[Any], sentence: str) -> Drawing:
    """A drawing of bodies about which nothing could be found."""
    return Drawing(shapes=tuple(map(_shape, bodies)), sentence=sentence, complete=False)


def _shape(body: Any) -> Shape:
    """The surface of a mesh, or of what a query saw of one."""
    if hasattr(body, "snapshot"):
        surface = body.surface if hasattr(body, "surface") else body
        snapshot = surface.snapshot()
        return Shape(snapshot.vertices, snapshot.elements, snapshot.live)
    return Shape(body.x if hasattr(body, "x") else body.vertices, body.faces, body.ids)


# one function for each kind of result ---------------------------------------------------------------------


def _draw_pairs(result: TrianglePairs, layers: Collection[str]) -> Drawing:
    hits = (result.faces_a, result.faces_b) if len(result.bodies) == 2 else (np.unique(result.pairs),)
    drawing = Drawing(
        shapes=tuple(map(_shape, result.bodies)),
        sentence=_sentence_of_pairs(result),
        count=len(result),
        complete=result.complete,
        hits=hits,
    )
    if len(result.bodies) != 2 or not len(result):
        return drawing
    if "curves" in layers:
        drawing = replace(drawing, curves=intersection_curves(*result.bodies).segments)
    return _with_arrows(drawing, contacts_from_pairs(result)) if "normals" in layers else drawing


def _sentence_of_pairs(result: TrianglePairs) -> str:
    if not result.complete:
        return f"{_pairs_meet(len(result))} so far; there may be more, for the search was cut short."
    if len(result):
        counts = ", ".join(f"{count:,} {kind}" for kind, count in result.count_by_kind().items() if count)
        all_ = "These are all" if len(result) > 1 else "This is all"
        return f"{_pairs_meet(len(result))} ({counts}). {all_}: every pair was decided exactly."
    if len(result.bodies) == 2 and collides(*result.bodies):
        return "No triangles meet, but one body is inside the other. This was decided exactly."
    return "Nothing meets. This is certain: it was decided exactly."


def _pairs_meet(count: int) -> str:
    return counted(count, "pair of triangles meets", "pairs of triangles meet")


def _draw_spheres(result: SphereContacts, layers: Collection[str]) -> Drawing:
    notes = []
    spheres = []
    columns = [slice(None)] if result.is_self else [0, 1]
    for k, placed in enumerate(result.spheres[: len(columns)]):
        nodes = sorted_unique(np.concatenate([result.certain[:, columns[k]], result.possible[:, columns[k]]]))
        drawn, note = _thinned(nodes, MOST_SPHERES, f"spheres of {'ab'[k]}")
        spheres.append(placed.of(drawn) if len(drawn) else _NO_BALLS)
        notes += note
    drawing = Drawing(
        shapes=tuple(map(_shape, result.bodies)),
        sentence=_sentence_of_spheres(result),
        count=len(result.certain if result.pairs is None else result.pairs),
        complete=result.complete,
        hits=() if result.pairs is None else tuple(sorted_unique(result.pairs[:, column]) for column in columns),
        spheres=tuple(spheres),
        notes=tuple(notes),
    )
    if "normals" not in layers:
        return drawing
    return _with_lines(drawing, result.point, result.normal, result.depth)


def _sentence_of_spheres(result: SphereContacts) -> str:
    below = counted(len(result.certain), "pair of spheres", "pairs of spheres")
    found = f"{below} meet" if result.pairs is None else f"{_pairs_meet(len(result.pairs))}, below {below}"
    if result.complete and not len(result.certain if result.pairs is None else result.pairs):
        what = "spheres" if result.pairs is None else "triangles"
        return f"No {what} meet. This is certain: the search came to its end within the budget."
    if result.complete:
        return f"{found}. This is all: the search came to its end within the budget."
    more = counted(len(result.possible), "more pair of spheres is", "more pairs of spheres are")
    return (
        f"{found}. So much is certain; {more} possible, for the budget ended the search at level {result.level}. "
        f"More time adds to what is certain and settles what is possible."
    )


def _draw_overlap(result: VolumeOverlap, layers: Collection[str]) -> Drawing:
    hits = [
        np.unique(result.triangles[(result.triangle_body == k) & (result.triangles >= 0)])
        for k in range(len(result.bodies))
    ]
    stride = max(math.ceil(math.sqrt(len(result) / MOST_COLUMNS)), 1)
    columns = columns_of_spans(result, stride) if len(result) and "spans" in layers else _NO_CORNERS
    drawing = Drawing(
        shapes=tuple(map(_shape, result.bodies)),
        sentence=_sentence_of_overlap(result),
        count=len(result),
        unit="spans",
        complete=result.complete,
        hits=tuple(hits),
        columns=columns,
        notes=() if stride == 1 else (f"spans: one ray of {stride} x {stride} is drawn",),
    )
    if "normals" not in layers or len(result.bodies) != 2 or not result:
        return drawing
    try:
        way_out = contacts_from_volume(volume_gradient(*_meshes(drawing)), *_meshes(drawing))
    except ImpingeError:  # a body with no gradient has no arrow; the volume stands
        return drawing
    return _with_arrows(drawing, way_out)


def _meshes(drawing: Drawing) -> list[tuple[Floats, Ints]]:
    return [(shape.vertices, shape.faces[shape.live]) for shape in drawing.shapes]


def _sentence_of_overlap(result: VolumeOverlap) -> str:
    rays = f"{result.resolution} x {result.resolution} rays"
    if not result:
        return f"No ray of {rays} found a volume that both share; at most {result.error:.2g} may have slipped through."
    return (
        f"The bodies share a volume of {result.volume:.4g}, give or take {result.error:.1g}. It is exact along each of "
        f"{rays} and an estimate between them."
    )


def _draw_vertices(result: VertexContacts, layers: Collection[str]) -> Drawing:
    shapes = tuple(map(_shape, result.bodies))
    hits = []
    for k, shape in enumerate(shapes):
        inside = np.zeros(len(shape.vertices), dtype=np.bool_)
        inside[result.vertex[result.body == k]] = True
        hits.append(shape.live[inside[shape.faces[shape.live]].any(axis=1)])
    without_inside = [name for name, body in zip("ab", result.bodies) if not body.is_closed]
    sentence = "No vertex of a body is inside another. This was decided exactly."
    if without_inside:
        has = "has" if len(without_inside) == 1 else "have"
        sentence = f"No vertex is inside a closed body; {' and '.join(without_inside)}, being open, {has} no inside."
    if len(result):
        deepest = "" if result.depth is None else f", the deepest {result.depth.max():.3g} below the surface"
        found = counted(len(result), "vertex is", "vertices are")
        sentence = f"{found} inside a body{deepest}. Which ones was decided exactly."
    drawing = Drawing(shapes, sentence, len(result), "vertices", result.complete, tuple(hits))
    if "normals" not in layers or not len(result) or result.direction is None or result.depth is None:
        return drawing
    return _with_arrows(drawing, contacts_from_vertices(result))


def _draw_contacts(result: Contacts, layers: Collection[str]) -> Drawing:
    shapes = tuple(map(_shape, result.bodies))
    drawing = Drawing(
        shapes, _sentence_of_contacts(result), len(result), "contacts", result.complete, _hits_of(result, shapes)
    )
    return _with_arrows(drawing, result) if "normals" in layers else drawing


def _sentence_of_contacts(result: Contacts) -> str:
    if not result.complete:
        sure = " There was no time for all pairs of bodies."
    else:
        sure = " Which vertices are inside was decided exactly." if result.method == "vertices" else ""
    if not len(result):
        return f"No body touches another.{sure}"
    deepest = f", the deepest {result.depth.max():.3g}" if result.has_depth.any() else ""
    pairs = counted(len(result.body_pairs), "pair of bodies", "pairs of bodies")
    return f"{counted(len(result), 'contact')} of {pairs}{deepest}.{sure}"


def _hits_of(result: Contacts, shapes: tuple[Shape, ...]) -> tuple[Ints, ...]:
    """Triangles of each body that have a vertex inside another body, or that others meet."""
    hits = []
    for k, shape in enumerate(shapes):
        inside, met = np.zeros(len(shape.vertices), dtype=np.bool_), [_NO_IDS]
        for side, kind in ((0, ContactKind.VERTEX_A), (1, ContactKind.VERTEX_B)):
            body, feature = ((result.body_a, result.feature_a), (result.body_b, result.feature_b))[side]
            inside[feature[(body == k) & (result.kind == kind)]] = True
            met.append(feature[(body == k) & (result.kind == ContactKind.CURVE)])
        touched = shape.live[inside[shape.faces[shape.live]].any(axis=1)]
        hits.append(sorted_unique(np.concatenate([touched, *met])))
    return tuple(hits)


def _draw_curves(result: Curves, _layers: Collection[str]) -> Drawing:
    count = len(result.loops)
    sentence = (
        f"The surfaces cross along {counted(count, 'curve')} of length {result.length:.4g}, joined by exact topology."
    )
    shapes = tuple(map(_shape, result.bodies))
    return Drawing(shapes, sentence, count, "curves", result.complete, curves=result.segments)


_DRAW: dict[type[Result], Callable[[Any, Collection[str]], Drawing]] = {
    TrianglePairs: _draw_pairs,
    SphereContacts: _draw_spheres,
    VolumeOverlap: _draw_overlap,
    VertexContacts: _draw_vertices,
    Contacts: _draw_contacts,
    Curves: _draw_curves,
}


def _with_arrows(drawing: Drawing, contacts: Contacts) -> Drawing:
    return _with_lines(drawing, contacts.point, contacts.normal, contacts.depth)


def _with_lines(drawing: Drawing, point: Floats, normal: Floats, depth: Floats) -> Drawing:
    rows, note = _thinned(np.arange(len(point)), MOST_ARROWS, "normals")
    least = ARROW * float(np.ptp(drawing.bounds, axis=0).max())
    ends = point[rows] + np.maximum(depth[rows], least)[:, None] * normal[rows]
    return replace(drawing, arrows=np.stack([point[rows], ends], axis=1), notes=(*drawing.notes, *note))


def _thinned(rows: Any, most: int, what: str) -> tuple[Any, list[str]]:
    """At most so many rows, evenly taken, and a note if there were more."""
    if len(rows) <= most:
        return rows, []
    chosen = rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)]
    return chosen, [f"{what}: {most} of {len(rows):,} are drawn"]
