"""A result as plain arrays for viewers: no window and no browser, which makes it testable.

A ``Drawing`` has the bodies, the colliding triangles, the spheres of the level reached, columns around the spans of an
overlap, intersection curves, contact normals, and a sentence: the result and its certainty.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import singledispatch

import numpy as np

import impinge
from impinge.checks import Floats, Ints, sorted_unique
from impinge.contact.contacts import ContactKind, contacts_from_pairs, contacts_from_vertices, contacts_from_volume
from impinge.detect.common.results import Result
from impinge.errors import ImpingeError, OptionError
from impinge.simulate.simulated_contacts import SimulatedContacts
from impinge.view.labels import counted, pairs_label
from impinge.view.picture import BodySurface, impact_features, impact_label, span_columns, surface_of
from impinge.view.pressure import PRESSURE_COLOURS, largest_pressure, pressure_bands

LAYERS = {
    "highlights": "colliding triangles",
    "spheres": "overlapping spheres",
    "spans": "spans of the overlap",
    "curves": "intersection curves",
    "normals": "contact normals",
    "points": "points of impact",
    "pressure": "contact pressure (simulations)",
}
"""Layers over the bodies, with their labels on the page; pressures replace the colliding triangles."""
MOST_ARROWS = 90
MOST_SPHERES = 150
MOST_COLUMNS = 1500
"""Drawing limits; beyond, items are sampled evenly and ``notes`` says so. Results are never sampled."""
ARROW = 0.09
"""Least length of an arrow relative to the scene; deeper contacts have arrows of their depth."""

POINT = 0.008
"""Radius of a point of impact, relative to the scene."""

_NO_LINES: Floats = np.zeros((0, 2, 3))


@dataclass(frozen=True, eq=False)
class Drawing:
    """Arrays of one frame."""

    surfaces: tuple[BodySurface, ...]
    sentence: str
    """The result and its certainty."""
    count: int = 0
    """Number of items found."""
    unit: str = "pairs"
    """Plural noun of the items."""
    complete: bool = True
    hits: tuple[Ints, ...] = ()
    """Ids of the colliding triangles, one array per body."""
    spheres: tuple[Floats, ...] = ()
    """Centre and radius of the spheres of all pairs, one array of shape (n, 4) per body."""
    columns: Floats = field(default_factory=lambda: np.zeros((0, 3, 3)))
    """Triangles around the spans of an overlap, shape (n, 3, 3)."""
    curves: Floats = field(default_factory=lambda: _NO_LINES)
    """Shape (n, 2, 3)."""
    arrows: Floats = field(default_factory=lambda: _NO_LINES)
    """From contact points along normals, shape (n, 2, 3)."""
    points: Floats = field(default_factory=lambda: np.zeros((0, 4)))
    """Points of impact with the radius of their marker, shape (n, 4)."""
    pressures: tuple[Floats, ...] = ()
    """Contact pressure on the vertices of each body [Pa]; empty where it is not known."""
    notes: tuple[str, ...] = ()
    """What the drawing omits, though the result has it."""

    def highlights(self, k: int) -> Floats:
        """Corners of the colliding triangles of body ``k``, shape (n, 3, 3)."""
        surface = self.surfaces[k]
        hits = np.intersect1d(self.hits[k], surface.live) if len(self.hits) > k else surface.live[:0]
        return surface.corners(hits)

    def pressed(self) -> list[Floats]:
        """Corners of the triangles of each colour of ``PRESSURE_COLOURS``, shape (n, 3, 3) each."""
        largest = largest_pressure(self.pressures)
        by_body = [pressure_bands(each, pressure, largest) for each, pressure in zip(self.surfaces, self.pressures)]
        return [
            np.concatenate([np.zeros((0, 3, 3)), *(s.corners(own[k]) for s, own in zip(self.surfaces, by_body))])
            for k in range(len(PRESSURE_COLOURS))
        ]

    @property
    def bounds(self) -> Floats:
        """Lowest and highest corner of all bodies, shape (2, 3)."""
        corners = np.concatenate([np.zeros((0, 3)), *(each.corners().reshape(-1, 3) for each in self.surfaces)])
        if not len(corners):
            return np.array([[-1.0] * 3, [1.0] * 3])
        return np.stack([corners.min(axis=0), corners.max(axis=0)])


@singledispatch
def drawing_of(result: Result, layers: Collection[str] = LAYERS) -> Drawing:  # noqa: ARG001 - used by the overloads
    """The drawing of a result; curves, columns and normals are computed for ``layers`` only."""
    raise OptionError(f"a {type(result).__name__} cannot be shown; use plot() or to_dict()")


@drawing_of.register
def _draw_pairs(result: impinge.TrianglePairs, layers: Collection[str] = LAYERS) -> Drawing:
    bodies, found = result.bodies, pairs_label(len(result))
    if not result.complete:
        sentence = f"{found} so far; there may be more, since the search was incomplete."
    elif len(result):
        counts = ", ".join(f"{count:,} {kind}" for kind, count in result.count_by_kind().items() if count)
        sentence = f"{found} ({counts}). The list is complete: every pair was decided exactly."
    elif len(bodies) == 2 and impinge.collides(*bodies):
        sentence = "No triangles intersect, but one body is inside the other. This was decided exactly."
    else:
        sentence = "No triangles intersect. This is certain: it was decided exactly."
    hits = (result.faces_a, result.faces_b) if len(bodies) == 2 else (np.unique(result.pairs),)
    surfaces = tuple(map(surface_of, bodies))
    drawing = Drawing(surfaces, sentence, len(result), complete=result.complete, hits=hits)
    if len(bodies) != 2 or not len(result):
        return drawing
    if "curves" in layers:
        drawing = replace(drawing, curves=impinge.intersection_curves(*bodies).segments)
    return _with_arrows(drawing, contacts_from_pairs(result)) if "normals" in layers else drawing


@drawing_of.register
def _draw_spheres(result: impinge.SphereContacts, layers: Collection[str] = LAYERS) -> Drawing:
    notes, spheres = [], []
    columns = [slice(None)] if result.is_self else [0, 1]
    for k, posed in enumerate(result.spheres[: len(columns)]):
        nodes = sorted_unique(np.concatenate([result.certain[:, columns[k]], result.possible[:, columns[k]]]))
        drawn, note = _sampled(nodes, MOST_SPHERES, f"spheres of {'ab'[k]}")
        spheres.append(posed.of(drawn) if len(drawn) else np.zeros((0, 4)))
        notes += note
    sphere_pairs = counted(len(result.certain), "pair of spheres overlaps", "pairs of spheres overlap")
    found, unit, count = sphere_pairs, "spheres overlap", len(result.certain)
    if result.pairs is not None:
        found, unit, count = f"{pairs_label(len(result.pairs))}; {found}", "triangles intersect", len(result.pairs)
    if result.complete:
        found = f"{found}. The list is complete" if count else f"No {unit}. This is certain"
        sentence = f"{found}: the search finished within the budget."
    else:
        more = counted(len(result.possible), "further pair of spheres is", "further pairs of spheres are")
        sentence = (
            f"{found}. These are certain; {more} possible, since the budget ended the search at level {result.level}. "
            f"A larger budget resolves the possible pairs."
        )
    hits = () if result.pairs is None else tuple(sorted_unique(result.pairs[:, column]) for column in columns)
    drawing = Drawing(tuple(map(surface_of, result.bodies)), sentence, count, complete=result.complete, hits=hits)
    drawing = replace(drawing, spheres=tuple(spheres), notes=tuple(notes))
    return _with_arrows(drawing, result) if "normals" in layers else drawing


@drawing_of.register
def _draw_overlap(result: impinge.VolumeOverlap, layers: Collection[str] = LAYERS) -> Drawing:
    rays = f"{result.resolution} x {result.resolution} rays"
    if result:
        volume = f"The overlap volume is {result.volume:.4g} ± {result.error:.1g}."
        sentence = f"{volume} It is exact along each of {rays} and estimated between them."
    else:
        sentence = f"None of {rays} found an overlap; a volume of at most {result.error:.2g} may be missed."
    found = [result.triangles[(result.triangle_body == k) & (result.triangles >= 0)] for k in range(len(result.bodies))]
    hits = tuple(map(np.unique, found))
    stride = max(math.ceil(math.sqrt(len(result) / MOST_COLUMNS)), 1)
    surfaces = tuple(map(surface_of, result.bodies))
    notes = () if stride == 1 else (f"spans: one ray of {stride} x {stride} is drawn",)
    drawing = Drawing(surfaces, sentence, len(result), "spans", result.complete, hits, notes=notes)
    if len(result) and "spans" in layers:
        drawing = replace(drawing, columns=span_columns(result, stride))
    if "normals" in layers and len(surfaces) == 2 and result:
        a, b = ((surface.vertices, surface.faces[surface.live]) for surface in surfaces)
        with suppress(ImpingeError):  # a body without a gradient has no arrow; the volume is valid
            return _with_arrows(drawing, contacts_from_volume(impinge.volume_gradient(a, b), a, b))
    return drawing


@drawing_of.register
def _draw_vertices(result: impinge.VertexContacts, layers: Collection[str] = LAYERS) -> Drawing:
    surfaces = tuple(map(surface_of, result.bodies))
    hits = [_triangles_at(surface, result.vertex[result.body == k]) for k, surface in enumerate(surfaces)]
    open_bodies = [name for name, body in zip("ab", result.bodies) if not body.is_closed]
    if len(result):
        deepest = "" if result.depth is None else f", the deepest by {result.depth.max():.3g}"
        found = counted(len(result), "vertex is", "vertices are")
        by_samples = bool((result.is_self & (result.tet < 0)).any())
        exactly = "" if by_samples else " The set of vertices was decided exactly."
        sentence = f"{found} inside a body{deepest}.{exactly}"
    elif open_bodies:
        are = "is open and has" if len(open_bodies) == 1 else "are open and have"
        sentence = f"No vertex is inside a closed body; {' and '.join(open_bodies)} {are} no inside."
    else:
        sentence = "No vertex of a body is inside another. This was decided exactly."
    drawing = Drawing(surfaces, sentence, len(result), "vertices", result.complete, tuple(hits))
    if "normals" not in layers or not len(result) or result.direction is None or result.depth is None:
        return drawing
    return _with_arrows(drawing, contacts_from_vertices(result))


@drawing_of.register
def _draw_contacts(result: impinge.Contacts, layers: Collection[str] = LAYERS) -> Drawing:
    if not result.complete:
        certainty = " The budget did not suffice for all pairs of bodies."
    else:
        certainty = " Penetrating vertices were decided exactly." if result.method == "vertices" else ""
    sentence = f"No contacts.{certainty}"
    if len(result):
        deepest = f", the deepest by {result.depth.max():.3g}" if result.has_depth.any() else ""
        pairs = counted(len(result.body_pairs), "pair of bodies", "pairs of bodies")
        sentence = f"{counted(len(result), 'contact')} of {pairs}{deepest}.{certainty}"
    vertex_kinds = ContactKind.VERTEX_A, ContactKind.VERTEX_B
    sides = list(zip((result.body_a, result.body_b), (result.feature_a, result.feature_b), vertex_kinds))
    surfaces, hits = tuple(map(surface_of, result.bodies)), []
    for k, surface in enumerate(surfaces):
        vertices = [feature[(body == k) & (result.kind == kind)] for body, feature, kind in sides]
        crossed = [feature[(body == k) & (result.kind == ContactKind.CURVE)] for body, feature, _ in sides]
        hits.append(sorted_unique(np.concatenate([_triangles_at(surface, np.concatenate(vertices)), *crossed])))
    drawing = Drawing(surfaces, sentence, len(result), "contacts", result.complete, tuple(hits))
    if isinstance(result, SimulatedContacts) and "pressure" in layers:
        drawing = with_pressures(drawing, [result.pressure(number) for number in range(len(surfaces))])
    return _with_arrows(drawing, result) if "normals" in layers else drawing


def with_pressures(drawing: Drawing, pressures: Sequence[Floats]) -> Drawing:
    """Add contact pressures to a drawing, and the largest to its notes."""
    largest = largest_pressure(pressures)
    note = (f"contact pressure: at most {largest:.3g} Pa",) if largest > 0.0 else ()
    return replace(drawing, pressures=tuple(pressures), notes=(*drawing.notes, *note))


@drawing_of.register
def _draw_curves(result: impinge.Curves, layers: Collection[str] = LAYERS) -> Drawing:  # noqa: ARG001 - always drawn
    curves = counted(len(result.loops), "curve")
    sentence = f"The surfaces intersect along {curves} of length {result.length:.4g}, connected by exact topology."
    surfaces = tuple(map(surface_of, result.bodies))
    return Drawing(surfaces, sentence, len(result.loops), "curves", result.complete, curves=result.segments)


@drawing_of.register
def _draw_impacts(result: impinge.Impacts, layers: Collection[str] = LAYERS) -> Drawing:
    new = result.rows(~result.at_start)
    names = ("a", "b") if len(result.bodies) == 2 else ("the body", "the body")
    if not result.complete:
        certainty = f" All impacts before {result.certain_until:.4g} are among them; there may be more later."
    else:
        certainty = " Every pair of features was decided exactly." if result.margin == 0.0 else ""
    sentence = f"No impacts on the way.{certainty}"
    if len(new):
        first = f"the first at {new.time_lo[0]:.4g} of the way ({impact_label(new, 0, *names)})"
        sentence = f"{counted(len(new), 'impact')} on the way, {first}.{certainty}"
    time = float(new.time_lo[0]) if len(new) else 1.0
    surfaces = tuple(surface_of(body.at(time)) for body in result.bodies)
    hits = []
    for surface, features in zip(surfaces, impact_features(new)):
        around = _triangles_at(surface, features.vertices), _triangles_with(surface, features.edges)
        hits.append(sorted_unique(np.concatenate([features.faces, *around])))
    touching = int(result.at_start.sum())
    notes = (f"{counted(touching, 'pair meets', 'pairs meet')} at the start already: not counted",) if touching else ()
    drawing = Drawing(surfaces, sentence, len(new), "impacts", result.complete, tuple(hits), notes=notes)
    rows, note = _sampled(np.arange(len(new), dtype=np.int32), MOST_ARROWS, "impacts")
    size = float(np.ptp(drawing.bounds, axis=0).max())
    points = np.column_stack([new.point[rows], np.full(len(rows), POINT * size)])
    drawing = replace(drawing, points=points if "points" in layers else points[:0], notes=(*notes, *note))
    if "normals" in layers:
        ends = new.point[rows] + ARROW * size * new.normal[rows]
        drawing = replace(drawing, arrows=np.stack([new.point[rows], ends], axis=1))
    return drawing


def _triangles_at(surface: BodySurface, vertices: Ints) -> Ints:
    """Ids of the live triangles with at least one of the vertices."""
    marked = np.zeros(len(surface.vertices), dtype=np.bool_)
    marked[vertices] = True
    return np.asarray(surface.live[marked[surface.faces[surface.live]].any(axis=1)])


def _triangles_with(surface: BodySurface, edges: Ints) -> Ints:
    """Ids of the live triangles with at least one of the edges (two vertices, the lower first)."""
    sides = np.sort(surface.faces[surface.live][:, [0, 1, 1, 2, 2, 0]].reshape(-1, 3, 2), axis=2).astype(np.int64)
    keys, wanted = (pair[..., 0] << 32 | pair[..., 1] for pair in (sides, edges.astype(np.int64)))
    return np.asarray(surface.live[np.isin(keys, wanted).any(axis=1)])


def _with_arrows(drawing: Drawing, contacts: impinge.Contacts | impinge.SphereContacts) -> Drawing:
    rows, note = _sampled(np.arange(len(contacts.point), dtype=np.int32), MOST_ARROWS, "normals")
    least, starts = ARROW * float(np.ptp(drawing.bounds, axis=0).max()), contacts.point[rows]
    ends = starts + np.maximum(contacts.depth[rows], least)[:, None] * contacts.normal[rows]
    return replace(drawing, arrows=np.stack([starts, ends], axis=1), notes=(*drawing.notes, *note))


def _sampled(rows: Ints, most: int, what: str) -> tuple[Ints, list[str]]:
    """At most ``most`` rows, sampled evenly, and a note where there are more."""
    if len(rows) <= most:
        return rows, []
    chosen = rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)]
    return chosen, [f"{what}: {most} of {len(rows):,} are drawn"]
