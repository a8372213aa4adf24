"""Pictures of results: bodies, colliding triangles, curves, vertices, spheres or volumes as coloured draw items."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import impinge
from impinge.checks import Floats, Ints, sorted_unique
from impinge.contact.contacts import ContactKind
from impinge.detect.continuous.impact_results import ImpactKind
from impinge.view.labels import counted, pairs_label
from impinge.view.rendering import DrawItem, Pixels, render, write_picture

BODY_COLOURS = ("#7fb2d9", "#e8b878")
HIT_COLOURS = ("#d81b60", "#8e0038")
CURVE_COLOUR = "#b00040"
CURVE_ON_HITS_COLOUR = "#1b2733"
CURVE_WIDTH = 4.0
MOST_NAMES = 3
"""Bodies of one colour that are listed by name; more are counted."""
MARKER_SIZE = 0.01
"""Half of the width of a vertex marker, relative to the scene."""
EDGES_BELOW = 30_000
"""Larger bodies are drawn without triangle edges, which would merge into a grey film."""
MOST_COLUMNS = 40_000
"""Most spans of an overlap that are drawn one by one; beyond, rays are skipped and the label says so."""

ARROW = 0.14
"""Length of a normal, relative to the scene; its head is a quarter of it."""
MOST_ARROWS = 60
"""Most impacts at one time whose normals are drawn; the label says so."""

PicturePath: TypeAlias = str | os.PathLike[str] | None


@dataclass(frozen=True, eq=False)
class BodySurface:
    """The surface of one body."""

    vertices: Floats
    faces: Ints
    """All triangles by id, shape (m, 3)."""
    live: Ints
    """Ids of the triangles that exist."""

    def corners(self, ids: Ints | None = None) -> Floats:
        """Corners of all live triangles, or of those in ``ids``, shape (n, 3, 3)."""
        return np.asarray(self.vertices[self.faces[self.live if ids is None else ids]])


def surface_of(body: Any) -> BodySurface:
    """The current surface of a mesh or body, or the surface that a query stored with its result."""
    if hasattr(body, "snapshot"):
        snapshot = (body.surface if hasattr(body, "surface") else body).snapshot()
        return BodySurface(snapshot.vertices, snapshot.elements, snapshot.live)
    return BodySurface(body.x if hasattr(body, "x") else body.vertices, body.faces, body.ids)


def plot_pairs(result: impinge.TrianglePairs, path: PicturePath = None, *, title: str | None = None) -> Pixels | Path:
    """Draw the bodies as they are now and their colliding triangles; write ``path``, or return the pixels."""
    counts = ", ".join(f"{count:,} {kind}" for kind, count in result.count_by_kind().items() if count)
    short = "" if result.complete else f", incomplete: {result.reason}"
    named = f"{pairs_label(len(result))} ({counts}){short}" if len(result) else f"No triangles intersect{short}"
    return _plot(pair_items(result), title or named, path)


def plot_curves(result: impinge.Curves, path: PicturePath = None) -> Pixels | Path:
    """Draw the bodies as the query saw them and their intersection curves; write ``path``, or return the pixels."""
    closed = f" ({int(result.closed.sum())} closed)" if len(result.closed) else ""
    curves, segments = counted(len(result.loops), "curve"), counted(len(result), "segment")
    items = [item for k, name in enumerate("ab") for item in _body(name, result.bodies[k : k + 1], k, 0.4)]
    title = f"{curves}{closed}, {segments}, length {result.length:.6g}"
    return _plot([*items, *_polylines(result, CURVE_COLOUR)], title, path)


def plot_contacts(result: impinge.VertexContacts, path: PicturePath = None) -> Pixels | Path:
    """Draw the bodies as they are now and their penetrating vertices; write ``path``, or return the pixels."""
    points = np.zeros((len(result), 3))
    for k in np.unique(result.body):
        points[result.body == k] = result.bodies[k].vertices[result.vertex[result.body == k]]
    ends = None
    if result.depth is not None and result.direction is not None:
        ends = points + result.depth[:, None] * result.direction
    inside = counted(len(np.unique(points, axis=0)), "vertex", "vertices")
    where = "tets" if (result.tet >= 0).any() else "surfaces"
    title = f"{counted(len(result), 'contact')} of vertices with {where}, {int(result.is_self.sum()):,} self-contacts"
    return _plot(_marked_bodies(result.bodies, points, ends, f"{inside} inside"), title, path)


def plot_overlap(result: impinge.VolumeOverlap, path: PicturePath = None) -> Pixels | Path:
    """Draw the bodies as the query saw them and the spans of their overlap; write ``path``, or return the pixels."""
    names = "ab" if len(result.bodies) == 2 else ("body",)
    items = [item for k, name in enumerate(names) for item in _body(name, result.bodies[k : k + 1], k, 0.3)]
    if len(result):
        stride = math.ceil(math.sqrt(len(result) / MOST_COLUMNS))
        drawn = "" if stride == 1 else f", one ray of {stride} x {stride} is drawn"
        label = f"overlap: {counted(len(result), 'span')}{drawn}"
        items.append(DrawItem(label, span_columns(result, stride), HIT_COLOURS[0], 1.0, False))
    short = "" if result.complete else f", incomplete: {result.reason}"
    rays = f", sampled by {result.resolution} x {result.resolution} rays" if result.resolution else ""
    return _plot(items, f"overlap volume {result.volume:.6g} ± {result.error:.1g}{rays}{short}", path)


def plot_spheres(result: impinge.SphereContacts, path: PicturePath = None) -> Pixels | Path:
    """Draw the bodies as they are now and the spheres of all pairs; write ``path``, or return the pixels."""
    found = f"{len(result.certain):,} certain and {len(result.possible):,} possible pairs of spheres"
    return _plot(sphere_items(result), f"{found}, level {result.level}", path)


def plot_world(result: impinge.Contacts, path: PicturePath = None) -> Pixels | Path:
    """Draw the bodies as they are now and their contact points; write ``path``, or return the pixels."""
    pairs = counted(len(result.body_pairs), "pair of bodies", "pairs of bodies")
    title = f"{counted(len(result), 'contact')} of {pairs}" if len(result) else "No contacts"
    return _plot(contact_items(result), title, path)


def plot_impacts(result: impinge.Impacts, path: PicturePath = None) -> Pixels | Path:
    """Draw the bodies at the time of the first impact, and this impact; write ``path``, or return the pixels."""
    title = "No impacts"
    if len(result):
        a, b = ("a", "b") if len(result.bodies) == 2 else ("the body", "the body")
        which = "1 impact" if len(result) == 1 else f"the first of {len(result):,} impacts"
        title = f"{which}, at {result.time_lo[0]:.6g} of the motion: {impact_label(result, 0, a, b)}"
    short = "" if result.complete else f", incomplete: {result.reason}"
    return _plot(impact_items(result), title + short, path)


def impact_items(result: impinge.Impacts, names: Sequence[str] = ()) -> Iterator[DrawItem]:
    """The bodies at the time of the first impact (without impacts at the end), and what meets at this time.

    Of all impacts at this time: faces, edges and vertices in colour, points and normals.
    """
    time, rows = 1.0, result
    if len(result):
        time, rows = float(result.time_lo[0]), result.rows(result.time_lo <= result.time_hi[0])
    surfaces = [surface_of(body.at(time)) for body in result.bodies]
    shown = np.concatenate([rows.point, *(surface.corners().reshape(-1, 3) for surface in surfaces)])
    size = float(np.ptp(shown, axis=0).max()) if len(shown) else 0.0
    names = names or (("a", "b") if len(surfaces) == 2 else ("body",))
    for k, (surface, features) in enumerate(zip(surfaces, impact_features(rows))):
        others = np.setdiff1d(surface.live, features.faces)
        if len(others):
            label = f"{names[k]}: {counted(len(surface.live), 'triangle')}"
            yield DrawItem(label, surface.corners(others), BODY_COLOURS[k], 0.35, len(others) < EDGES_BELOW)
        x, nouns = surface.vertices, (("face", "faces"), ("edge", "edges"), ("vertex", "vertices"))
        found = ", ".join(counted(len(ids), *noun) for ids, noun in zip(features, nouns) if len(ids))
        if found:
            edges, vertices = x[features.edges][:, [0, 1, 1]], markers(x[features.vertices], MARKER_SIZE * size)
            corners = np.concatenate([surface.corners(features.faces), edges, vertices])
            yield DrawItem(f"{names[k]}: {found} at the impact", corners, HIT_COLOURS[k], 1.0, False, CURVE_WIDTH)
    if len(rows):
        drawn = np.linspace(0, len(rows) - 1, min(len(rows), MOST_ARROWS)).astype(np.int64)
        few = "" if len(drawn) == len(rows) else f", {len(drawn)} of {len(rows):,} drawn"
        points = rows.point[drawn]
        dots = markers(points, 0.6 * MARKER_SIZE * size)
        arrows = np.concatenate([_arrows(points, rows.normal[drawn], ARROW * size), dots])
        yield DrawItem(f"point and normal{few}", arrows, CURVE_ON_HITS_COLOUR, 1.0, False, CURVE_WIDTH)


def impact_label(result: impinge.Impacts, row: int, a: str = "a", b: str = "b") -> str:
    """Name the features of an impact: vertex 5 of a and face 12 of b."""
    kind, first, second = (int(column[row]) for column in (result.kind, result.feature_a, result.feature_b))
    edges = ["-".join(map(str, pair)) for pair in result.vertices[row].reshape(2, 2).tolist()]
    if kind == ImpactKind.EDGE_EDGE:
        return f"edge {edges[0]} of {a} and edge {edges[1]} of {b}"
    nouns = ("vertex", "face") if kind == ImpactKind.VERTEX_FACE else ("face", "vertex")
    return f"{nouns[0]} {first} of {a} and {nouns[1]} {second} of {b}"


class ImpactFeatures(NamedTuple):
    """Features of one body in impacts, each once."""

    faces: Ints
    edges: Ints
    """Two vertices each, shape (n, 2)."""
    vertices: Ints


def impact_features(result: impinge.Impacts) -> list[ImpactFeatures]:
    """Features of each body in impacts; of one body with itself, of both sides."""
    is_ee = result.kind == ImpactKind.EDGE_EDGE
    is_vf, is_fv = result.kind == ImpactKind.VERTEX_FACE, result.kind == ImpactKind.FACE_VERTEX
    sides = [
        [result.feature_a[is_fv], result.vertices[is_ee, :2], result.feature_a[is_vf]],
        [result.feature_b[is_vf], result.vertices[is_ee, 2:], result.feature_b[is_fv]],
    ]
    if len(result.bodies) == 1:
        sides = [[np.concatenate(both) for both in zip(*sides)]]
    return [ImpactFeatures(sorted_unique(f), np.unique(e, axis=0), sorted_unique(v)) for f, e, v in sides]


def _arrows(points: Floats, directions: Floats, length: float) -> Floats:
    """A line from each point and a pyramid at its end, as triangles."""
    ends, head = points + length * directions, 0.25 * length
    helper = np.where(np.abs(directions[:, :1]) < 0.9, [[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]])
    side = np.cross(directions, helper)
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    across = np.cross(directions, side)
    ring = np.stack([side, across, -side, -across], axis=1) * (0.35 * head) + (ends - head * directions)[:, None]
    tips = np.broadcast_to(ends[:, None], ring.shape)
    cones = np.stack([ring, np.roll(ring, -1, axis=1), tips], axis=2).reshape(-1, 3, 3)
    return np.concatenate([np.stack([points, ends, ends], axis=1), cones])


def sphere_items(result: impinge.SphereContacts) -> Iterator[DrawItem]:
    """The bodies as they are now and the spheres of all certain and possible pairs."""
    for k, name in enumerate("ab"[: len(result.bodies)]):
        for body in _body(name, result.bodies[k : k + 1], k, 0.35, edges=False):
            yield body
            for pairs, label, opacity in ((result.certain, "certain", 0.9), (result.possible, "possible", 0.5)):
                nodes = sorted_unique(pairs if result.is_self else pairs[:, k])
                if len(nodes) and result.spheres:
                    triangles = sphere_triangles(result.spheres[k].of(nodes), 2)
                    named = f"{name}: {counted(len(nodes), 'sphere')}, {label}"
                    yield DrawItem(named, triangles, HIT_COLOURS[k], opacity, False)


def _plot(items: Iterable[DrawItem], title: str, path: PicturePath) -> Pixels | Path:
    pixels = render(items, title)
    return pixels if path is None else write_picture(pixels, Path(path))


def pair_items(
    result: impinge.TrianglePairs, names: Sequence[str] = (), curves: impinge.Curves | None = None
) -> Iterator[DrawItem]:
    """The bodies as they are now, their colliding triangles and the intersection curves."""
    hits = (result.faces_a, result.faces_b) if len(result.bodies) == 2 else (np.unique(result.pairs),)
    names = names or ("a", "b") if len(result.bodies) == 2 else names or ("body",)
    for k, (body, found) in enumerate(zip(result.bodies, hits)):
        name, surface = names[k], surface_of(body)
        edges = len(surface.live) < EDGES_BELOW
        hit = np.intersect1d(found, surface.live)  # triangles may have been removed since the query
        others = np.setdiff1d(surface.live, hit)
        if len(others):
            label = f"{name}: {counted(len(surface.live), 'triangle')}"
            yield DrawItem(label, surface.corners(others), BODY_COLOURS[k], 0.55, edges)
        if len(hit):
            yield DrawItem(f"{name}: {len(hit):,} colliding", surface.corners(hit), HIT_COLOURS[k], 1.0, edges)
    if curves is not None:
        yield from _polylines(curves, CURVE_ON_HITS_COLOUR)


def contact_items(result: impinge.Contacts) -> Iterator[DrawItem]:
    """The bodies as they are now, contact points and penetration vectors of the penetrating side."""
    sign = np.where(result.kind == ContactKind.VERTEX_B, 1.0, -1.0)
    ends = result.point + (sign * result.depth)[:, None] * result.normal
    return _marked_bodies(result.bodies, result.point, ends, counted(len(result), "contact"), result.names)


def markers(points: Floats, size: float) -> Floats:
    """An octahedron of radius ``size`` at each point, shape (8 n, 3, 3)."""
    return np.asarray(points[:, None, None, :] + size * _OCTAHEDRON).reshape(-1, 3, 3)


def span_columns(result: impinge.VolumeOverlap, stride: int) -> Floats:
    """A box of 12 triangles around each span; only every ``stride``-th row and column of rays, widened to match."""
    axis, (low, high) = result.axis, result.region
    rows = (result.pixel % stride == stride // 2).all(axis=1)
    ends = np.zeros((int(rows.sum()), 2, 3))  # lowest and highest corner of each column
    for k, along in enumerate(((axis + 1) % 3, (axis + 2) % 3)):
        size = (high[along] - low[along]) / result.resolution
        ends[:, 0, along] = low[along] + size * (result.pixel[rows, k] - stride // 2)
        ends[:, 1, along] = ends[:, 0, along] + stride * size
    ends[:, :, axis] = result.spans[rows]
    box = impinge.shapes.box()
    is_high = (box.vertices > 0.0).astype(np.int64)  # which end of the column a corner of the box takes, by axis
    corners = np.stack([ends[:, is_high[:, k], k] for k in range(3)], axis=2)
    return np.asarray(corners[:, box.faces]).reshape(-1, 3, 3)


_SIGNS = (-1.0, 1.0)
_OCTAHEDRON = np.array([[[x, 0, 0], [0, y, 0], [0, 0, z]] for x in _SIGNS for y in _SIGNS for z in _SIGNS])
"""Eight triangles, shape (8, 3, 3)."""


def _body(name: str, bodies: Sequence[Any], k: int, opacity: float, *, edges: bool = True) -> Iterator[DrawItem]:
    """Bodies in the colour of side ``k``; nothing where they have no triangles."""
    corners = np.concatenate([np.zeros((0, 3, 3)), *(surface_of(body).corners() for body in bodies)])
    if len(corners):
        label = f"{name}: {counted(len(corners), 'triangle')}"
        yield DrawItem(label, corners, BODY_COLOURS[k], opacity, edges and len(corners) < EDGES_BELOW)


def _polylines(curves: impinge.Curves, colour: str) -> Iterator[DrawItem]:
    if len(curves):
        lines = curves.segments[:, [0, 1, 1]]  # a segment is a triangle without area
        yield DrawItem(counted(len(curves.loops), "intersection curve"), lines, colour, 1.0, False, CURVE_WIDTH)


def _marked_bodies(
    bodies: Sequence[Any], points: Floats, ends: Floats | None, label: str, names: Sequence[str] = ()
) -> Iterator[DrawItem]:
    """Bodies in alternating colours, a marker at each point, and a line from each point to its end."""
    shown = [points]
    for k in range(len(BODY_COLOURS)):
        listed = names[k : len(bodies) : 2] or [f"body {number}" for number in range(len(bodies))][k::2]
        name = ", ".join(listed) if len(listed) <= MOST_NAMES else counted(len(listed), "body", "bodies")
        for item in _body(name, bodies[k::2], k, 0.35):
            shown.append(item.corners.reshape(-1, 3))
            yield item
    if len(points):
        if ends is not None:
            yield DrawItem("penetration", np.stack([points, ends, ends], axis=1), CURVE_COLOUR, 1.0, False)
        size = MARKER_SIZE * float(np.ptp(np.concatenate(shown), axis=0).max())
        yield DrawItem(label, markers(np.unique(points, axis=0), size), HIT_COLOURS[0], 1.0, False)


def sphere_triangles(spheres: Floats, rounds: int) -> Floats:
    """Triangles of spheres (centre and radius, shape (n, 4)): octahedra, each triangle split in four per round."""
    unit = _OCTAHEDRON
    for _ in range(rounds):
        p, q, r = unit[:, 0], unit[:, 1], unit[:, 2]
        pq, qr, rp = p + q, q + r, r + p
        unit = np.concatenate([np.stack(one, axis=1) for one in ((p, pq, rp), (pq, q, qr), (rp, qr, r), (pq, qr, rp))])
        unit = unit / np.linalg.norm(unit, axis=2, keepdims=True)
    return np.asarray(spheres[:, None, None, :3] + spheres[:, None, None, 3:] * unit).reshape(-1, 3, 3)
