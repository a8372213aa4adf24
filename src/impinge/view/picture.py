"""Still pictures without a screen: bodies shaded, colliding triangles, curves, vertices or volumes in colour.

Drawn by pyvista (VTK). Where the system has no OpenGL library VTK would end the process, so there the picture is
drawn by matplotlib instead: slower and flatter, but there.
"""

from __future__ import annotations

import ctypes.util
import io
import math
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from impinge.checks import Bools, Floats, Ints, sorted_unique
from impinge.contact.contacts import ContactKind, Contacts
from impinge.detect.common.nearest_results import Curves
from impinge.detect.common.results import TrianglePairs, VertexContacts
from impinge.detect.layered_depth.volume_overlap import VolumeOverlap
from impinge.detect.sphere_tree.contacts import SphereContacts
from impinge.detect.sphere_tree.hierarchy import SphereHierarchy
from impinge.errors import FileError, MissingExtra
from impinge.mesh.tri_mesh import TriMesh
from impinge.view.targets import obstacle, write_whole
from impinge.view.words import counted

BODY_COLOURS = ("#7fb2d9", "#e8b878")
HIT_COLOURS = ("#d81b60", "#8e0038")
CURVE_COLOUR = "#b00040"
CURVE_WIDTH = 4.0
MARK = 0.01
"""Half of the size of the mark at a vertex, as a share of the scene."""
SIZE = (1200, 900)
ENDINGS = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".webp": "webp", ".tif": "tiff", ".tiff": "tiff"}
"""Of pictures on the disk, and the formats that they stand for."""
FILL = 0.8
"""Share of the picture that the scene takes; the rest is for the title and the labels."""
EDGES_BELOW = 30_000
"""Bodies with more triangles are drawn without their edges, which would turn into a grey film."""
MOST_COLUMNS = 40_000
"""Spans of an overlap that are drawn one by one; of more, rows and columns are left out, and the label says so."""
FINE_BALLS_BELOW = 100
"""More spheres than these are drawn with few triangles each."""
WORDS_COLOUR = "#1b2733"
LEGEND_LEFT, LEGEND_LOW, LEGEND_STEP, LEGEND_INDENT = 0.015, 0.02, 0.035, 0.026
"""Where the labels begin, the height of each, and the place for its square, as shares of the picture."""
TITLE_FONT, TITLE_LETTERS, LONGEST_TITLE = 13, 88, 160
"""Size of the title, how many letters of it fit into the picture, and at most when set smaller."""
LABEL_LETTERS = 90
"""Of a label at most."""
WORDS_FROM = 900
"""Pixels across from which a picture has a title and labels."""
STEEP = 89.0
"""Degrees above which a picture is taken from above."""
FLAT_BELOW = 1e-12
"""Twice the area below which a triangle has no normal to shade it by; the whole scene is one unit wide."""


@dataclass(frozen=True)
class Part:
    """Some triangles of one body, drawn in one way."""

    label: str
    corners: Floats
    """Shape (m, 3, 3)."""
    colour: str
    opacity: float
    edges: bool
    width: float = 2.0
    """Of the lines that triangles without an area are drawn as, in pixels."""


class Sight(NamedTuple):
    """Where a picture is taken from, in degrees, and how large it is."""

    azimuth: float
    """About z, from x towards y."""
    elevation: float
    """Above the plane of x and y; 90 looks down on it, with y upwards."""
    size: tuple[int, int] = SIZE


DEFAULT_SIGHT = Sight(70.0, 35.264389682754654)
"""Along a diagonal of a cube, turned by 25 degrees."""


def plot_pairs(result: TrianglePairs, path: str | os.PathLike[str] | None = None, *, title: str | None = None) -> Any:
    """Draw the bodies of ``result`` as they are now; write ``path`` and return it, or return the pixels."""
    return _shown(draw_parts(parts_of_pairs(result), title or _title(result)), path)


def plot_curves(result: Curves, path: str | os.PathLike[str] | None = None, *, title: str | None = None) -> Any:
    """Draw the curves and the bodies as they were; write ``path`` and return it, or return the pixels."""
    closed = f" ({int(result.closed.sum())} closed)" if len(result.closed) else ""
    curves, segments = counted(len(result.loops), "curve"), counted(len(result), "segment")
    named = title or f"{curves}{closed}, {segments}, length {result.length:.6g}"
    return _shown(draw_parts(_parts_of_curves(result), named), path)


def plot_contacts(
    result: VertexContacts, path: str | os.PathLike[str] | None = None, *, title: str | None = None
) -> Any:
    """Draw the bodies as they are now, the vertices inside and their ways out; write ``path`` or return the pixels."""
    where = "tets" if (result.tet >= 0).any() else "surfaces"
    found = counted(len(result), "contact")
    named = title or f"{found} of vertices with {where}, {int(result.is_self.sum()):,} of a body with itself"
    return _shown(draw_parts(_parts_of_contacts(result), named), path)


def plot_overlap(result: VolumeOverlap, path: str | os.PathLike[str] | None = None, *, title: str | None = None) -> Any:
    """Draw the spans of the overlap as columns between the bodies as they were; write ``path`` or return the pixels."""
    return _shown(draw_parts(_parts_of_overlap(result), title or _title_of_overlap(result)), path)


def plot_tree(
    tree: SphereHierarchy,
    mesh: TriMesh,
    level: int,
    path: str | os.PathLike[str] | None = None,
    *,
    title: str | None = None,
) -> Any:
    """Draw the spheres of a level, and those of leaves above it, over ``mesh``; write ``path`` or return the pixels."""
    named = title or f"level {level}: {counted(len(tree.cut(level)), 'sphere')}, {tree.kind}, {tree.builder}"
    return _shown(draw_parts(_parts_of_tree(tree, mesh, level), named), path)


def plot_spheres(
    result: SphereContacts, path: str | os.PathLike[str] | None = None, *, title: str | None = None
) -> Any:
    """Draw the bodies as they are now and the spheres of all pairs; write ``path`` or return the pixels."""
    named = title or (
        f"{len(result.certain):,} certain and {len(result.possible):,} possible pairs of spheres, level {result.level}"
    )
    return _shown(draw_parts(_parts_of_spheres(result), named), path)


def plot_world(result: Contacts, path: str | os.PathLike[str] | None = None, *, title: str | None = None) -> Any:
    """Draw the bodies as they are now, contact points and ways out; write ``path`` or return the pixels."""
    pairs = counted(len(result.body_pairs), "pair of bodies", "pairs of bodies")
    named = title or (f"{counted(len(result), 'contact')} of {pairs}" if len(result) else "No body touches another")
    return _shown(draw_parts(parts_of_world(result), named), path)


def draw_parts(parts: Iterable[Part], title: str) -> Any:
    """Draw anything that is made of triangles; the pixels, shape (height, width, 3)."""
    return draw_from(parts, title, [DEFAULT_SIGHT])[0]


def draw_from(parts: Iterable[Part], title: str, sights: Sequence[Sight]) -> list[Any]:
    """Draw the same from several sides, with the pixels of each; small pictures have no words."""
    draw = _draw_with_vtk if _can_use_opengl() else _draw_with_matplotlib
    fitted = _fit_to_unit(list(parts))
    return [draw(fitted, title, sight) for sight in sights]


def marks(points: Floats, size: float) -> Floats:
    """An octahedron at each point, ``size`` from its centre to its corners, shape (8 n, 3, 3)."""
    return np.asarray(points[:, None, None, :] + size * _OCTAHEDRON).reshape(-1, 3, 3)


def _shown(pixels: Any, path: str | os.PathLike[str] | None) -> Any:
    """The pixels, or the file that they were written to."""
    return pixels if path is None else write_picture(pixels, Path(path))


def check_path(path: Path) -> None:
    """Refuse a path that a picture cannot be written to, as far as can be told without writing."""
    reason = obstacle(path)
    if reason is None and path.suffix.lower() not in ENDINGS:
        reason = f"the ending {path.suffix!r} is not known"
    if reason is not None:
        raise _not_written(path, reason)


def _not_written(path: Path, reason: Exception | str) -> FileError:
    return FileError(f"the picture could not be written to {path} ({reason}); choose a writable .png file")


def parts_of_pairs(
    result: TrianglePairs, names: Sequence[str] = ("a", "b"), curves: Curves | None = None
) -> Iterator[Part]:
    """The bodies as they are now, their colliding triangles, and the curves in which they cross."""
    hits: list[Ints] = [result.faces_a, result.faces_b] if len(result.bodies) == 2 else [np.unique(result.pairs)]
    for k, (body, found) in enumerate(zip(result.bodies, hits)):
        name = names[k] if len(result.bodies) == 2 else "body"
        snapshot = body.snapshot()
        corners = snapshot.vertices[snapshot.elements]
        edges = len(snapshot.live) < EDGES_BELOW
        hit = np.intersect1d(found, snapshot.live)  # the body may have been cut since
        others = np.setdiff1d(snapshot.live, hit)
        if len(others):
            label = f"{name}: {counted(len(snapshot.live), 'triangle')}"
            yield Part(label, corners[others], BODY_COLOURS[k], 0.55, edges)
        if len(hit):
            yield Part(f"{name}: {len(hit):,} colliding", corners[hit], HIT_COLOURS[k], 1.0, edges)
    if curves is not None and len(curves):
        yield _part_of_curves(curves, "#1b2733")


def parts_of_world(result: Contacts) -> Iterator[Part]:
    """The bodies as they are now, contact points, and which way what is inside goes."""
    ends = result.point - result.depth[:, None] * result.normal  # where a's side of the contact goes
    is_of_b = result.kind == ContactKind.VERTEX_B
    ends[is_of_b] = (result.point + result.depth[:, None] * result.normal)[is_of_b]
    return _parts_with_ways(result.bodies, result.point, ends, counted(len(result), "contact"))


def _parts_of_curves(result: Curves) -> Iterator[Part]:
    for name, colour, side in zip("ab", BODY_COLOURS, result.bodies):
        if len(side.ids):
            corners, edges = side.vertices[side.faces[side.ids]], len(side.ids) < EDGES_BELOW
            yield Part(f"{name}: {counted(len(side.ids), 'triangle')}", corners, colour, 0.4, edges)
    if len(result):
        yield _part_of_curves(result, CURVE_COLOUR)


def _part_of_curves(result: Curves, colour: str) -> Part:
    lines = result.segments[:, [0, 1, 1]]  # a segment is a triangle without an area
    return Part(f"{counted(len(result.loops), 'curve')} of crossing", lines, colour, 1.0, False, CURVE_WIDTH)


def _parts_of_contacts(result: VertexContacts) -> Iterator[Part]:
    points = np.zeros((len(result), 3))
    for b in np.unique(result.body):
        points[result.body == b] = result.bodies[b].vertices[result.vertex[result.body == b]]
    ends = None
    if result.depth is not None and result.direction is not None:
        ends = points + result.depth[:, None] * result.direction
    marked = f"{counted(len(np.unique(points, axis=0)), 'vertex', 'vertices')} inside"
    return _parts_with_ways(result.bodies, points, ends, marked)


def _parts_with_ways(bodies: Sequence[Any], points: Floats, ends: Floats | None, label_of_marks: str) -> Iterator[Part]:
    """Bodies, a mark at each point, and lines from there to the ends."""
    surfaces = [body.surface if hasattr(body, "surface") else body for body in bodies]
    snapshots = [surface.snapshot() for surface in surfaces]
    shown = [snapshot.vertices[snapshot.elements[snapshot.live]] for snapshot in snapshots]
    for k, colour in enumerate(BODY_COLOURS):
        corners = np.concatenate([np.zeros((0, 3, 3)), *shown[k::2]])
        if len(corners):
            several = counted(len(shown[k::2]), "body", "bodies")
            label = f"body {k}" if len(shown) <= len(BODY_COLOURS) else several
            yield Part(
                f"{label}: {counted(len(corners), 'triangle')}", corners, colour, 0.35, len(corners) < EDGES_BELOW
            )
    if not len(points):
        return
    if ends is not None:
        yield Part("ways out", np.stack([points, ends, ends], axis=1), CURVE_COLOUR, 1.0, False)
    size = MARK * float(
        np.ptp(np.concatenate([points[:, None].repeat(3, axis=1), *shown]).reshape(-1, 3), axis=0).max()
    )
    yield Part(label_of_marks, marks(np.unique(points, axis=0), size), HIT_COLOURS[0], 1.0, False)


def _parts_of_overlap(result: VolumeOverlap) -> Iterator[Part]:
    names = "ab" if len(result.bodies) == 2 else ("body",)
    for name, colour, side in zip(names, BODY_COLOURS, result.bodies):
        if len(side.ids):
            corners, edges = side.x[side.faces[side.ids]], len(side.ids) < EDGES_BELOW
            yield Part(f"{name}: {counted(len(side.ids), 'triangle')}", corners, colour, 0.3, edges)
    if len(result):
        stride = math.ceil(math.sqrt(len(result) / MOST_COLUMNS))
        drawn = "" if stride == 1 else f", drawn by one ray of {stride} x {stride}"
        label = f"overlap: {counted(len(result), 'span')}{drawn}"
        yield Part(label, columns_of_spans(result, stride), HIT_COLOURS[0], 1.0, False)


def columns_of_spans(result: VolumeOverlap, stride: int) -> Floats:
    """A column around each span, 12 triangles each; with a stride, of every so manieth row and column, wider for it."""
    axis, (low, high) = result.axis, result.region
    rows = (result.pixel % stride == stride // 2).all(axis=1)
    ends = np.zeros((int(rows.sum()), 2, 3))  # lowest and highest corner of each column
    for k, along in enumerate(((axis + 1) % 3, (axis + 2) % 3)):
        size = (high[along] - low[along]) / result.resolution
        ends[:, 0, along] = low[along] + size * (result.pixel[rows, k] - stride // 2)
        ends[:, 1, along] = ends[:, 0, along] + stride * size
    ends[:, :, axis] = result.spans[rows]
    corners = np.stack([ends[:, _CORNERS[:, k], k] for k in range(3)], axis=2)
    return np.asarray(corners[:, _BOX_FACES]).reshape(-1, 3, 3)


def _title_of_overlap(result: VolumeOverlap) -> str:
    complete = "" if result.complete else f", cut short: {result.reason}"
    rays = f", seen by {result.resolution} x {result.resolution} rays" if result.resolution else ""
    return f"overlap volume {result.volume:.6g} ± {result.error:.1g}{rays}{complete}"


def _parts_of_tree(tree: SphereHierarchy, mesh: TriMesh, level: int) -> Iterator[Part]:
    snapshot = mesh.snapshot()
    corners = snapshot.vertices[snapshot.elements[snapshot.live]]
    yield Part(counted(len(corners), "triangle"), corners, BODY_COLOURS[0], 1.0, False)
    nodes = tree.cut(level)
    ball = _ball(4 if len(nodes) < FINE_BALLS_BELOW else 3)
    balls = tree.centre[nodes, None, None] + tree.radius[nodes, None, None, None] * ball
    yield Part(counted(len(nodes), "sphere"), balls.reshape(-1, 3, 3), BODY_COLOURS[1], 0.9, False)


def _parts_of_spheres(result: SphereContacts) -> Iterator[Part]:
    for k, (name, body) in enumerate(zip("ab", result.bodies)):
        snapshot = body.snapshot()
        if not len(snapshot.live):
            continue
        corners = snapshot.vertices[snapshot.elements[snapshot.live]]
        yield Part(f"{name}: {counted(len(corners), 'triangle')}", corners, BODY_COLOURS[k], 0.35, False)
        for pairs, label, opacity in ((result.certain, "certain", 0.9), (result.possible, "possible", 0.5)):
            nodes = sorted_unique(pairs if result.is_self else pairs[:, k])
            if len(nodes) and result.spheres:
                spheres = result.spheres[k].of(nodes)
                balls = spheres[:, None, None, :3] + spheres[:, None, None, 3:] * _BALL
                named = f"{name}: {counted(len(nodes), 'sphere')}, {label}"
                yield Part(named, balls.reshape(-1, 3, 3), HIT_COLOURS[k], opacity, False)


_SIGNS = (-1.0, 1.0)
_OCTAHEDRON = np.array([[[x, 0, 0], [0, y, 0], [0, 0, z]] for x in _SIGNS for y in _SIGNS for z in _SIGNS])
"""Eight triangles, shape (8, 3, 3)."""
_CORNERS = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)])
"""Of a box: 0 for the lowest end along each axis, 1 for the highest, shape (8, 3)."""
_BOX_FACES = np.array(
    [
        [0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1],
        [2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3],
    ]
)  # fmt: skip
"""Two triangles for each side of a box, shape (12, 3)."""


def _ball(rounds: int) -> Floats:
    """Triangles of a unit ball: an octahedron, each triangle cut into four as often as asked."""
    corners = _OCTAHEDRON
    for _ in range(rounds):
        p, q, r = corners[:, 0], corners[:, 1], corners[:, 2]
        pq, qr, rp = p + q, q + r, r + p
        corners = np.concatenate(
            [np.stack(one, axis=1) for one in ((p, pq, rp), (pq, q, qr), (rp, qr, r), (pq, qr, rp))]
        )
        corners = corners / np.linalg.norm(corners, axis=2, keepdims=True)
    return corners


_BALL = _ball(2)


def _fit_to_unit(parts: list[Part]) -> list[Part]:
    """Move and scale the scene into [-1/2, 1/2]^3: what draws computes in float32, which ends at 1e38."""
    if not parts:
        return parts
    low = np.min([part.corners.min(axis=(0, 1)) for part in parts], axis=0)
    high = np.max([part.corners.max(axis=(0, 1)) for part in parts], axis=0)
    half = 0.5 * high - 0.5 * low  # halves, because the difference of two finite numbers may be infinite
    size = max(float(half.max()), np.finfo(np.float64).tiny)
    middle = 0.5 * high + 0.5 * low
    return [replace(part, corners=(0.5 * part.corners - 0.5 * middle) / size) for part in parts]


def _title(result: TrianglePairs) -> str:
    counts = ", ".join(f"{count:,} {kind}" for kind, count in result.count_by_kind().items() if count)
    complete = "" if result.complete else f", cut short: {result.reason}"
    if not len(result):
        return f"No triangles meet{complete}"
    return f"{counted(len(result), 'pair of triangles meets', 'pairs of triangles meet')} ({counts}){complete}"


def _can_use_opengl() -> bool:
    """Whether VTK can draw; where there is no screen, tell it to draw in memory."""
    if sys.platform != "linux" or os.environ.get("DISPLAY"):
        return True
    for library, window in (("EGL", "vtkEGLRenderWindow"), ("OSMesa", "vtkOSOpenGLRenderWindow")):
        if ctypes.util.find_library(library):
            os.environ.setdefault("VTK_DEFAULT_OPENGL_WINDOW", window)
            return True
    return False


def _draw_with_vtk(parts: list[Part], title: str, sight: Sight) -> Any:
    try:
        import pyvista
    except ImportError as error:
        raise MissingExtra("pictures need pyvista; install impinge[picture]") from error
    plotter = pyvista.Plotter(off_screen=True, window_size=list(sight.size))
    plotter.set_background("white", top="#e9eef4")
    for part in parts:
        flat = _is_flat(part.corners)
        solid = {"show_edges": part.edges, "edge_opacity": 0.12, "ambient": 0.4 if part.opacity == 1.0 else 0.25}
        for corners, style in ((part.corners[~flat], solid), (part.corners[flat], {"style": "wireframe"})):
            if len(corners):
                rows = np.arange(3 * len(corners)).reshape(-1, 3)
                mesh = pyvista.PolyData.from_regular_faces(corners.reshape(-1, 3), rows)
                plotter.add_mesh(mesh, color=part.colour, opacity=part.opacity, line_width=part.width, **style)
    if sight.size[0] >= WORDS_FROM:
        for k, part in enumerate(reversed(parts)):
            place = (LEGEND_LEFT + LEGEND_INDENT, LEGEND_LOW + LEGEND_STEP * k)
            words = _for_vtk(readable(part.label, LABEL_LETTERS))
            plotter.add_text(words, position=place, viewport=True, font_size=11, color=WORDS_COLOUR)
        words = readable(title, LONGEST_TITLE)
        look = {"font_size": _font_for(words), "color": "black"}
        plotter.add_text(_for_vtk(words), position=(LEGEND_LEFT, 0.955), viewport=True, **look)
    plotter.camera_position = [_direction(sight), (0.0, 0.0, 0.0), _upwards(sight)]
    plotter.reset_camera()
    _zoom_to_fit(plotter.camera, parts, sight)
    try:
        pixels = plotter.screenshot(return_img=True)
    finally:
        plotter.close()
    if sight.size[0] >= WORDS_FROM:
        _add_swatches(pixels, parts)
    return pixels


def readable(words: str, most: int) -> str:
    """Words in one line of at most so many letters; names of files may hold line breaks, and bytes that are no text."""
    words = words.encode("utf-8", errors="backslashreplace").decode()
    words = "".join(letter if letter.isprintable() else "?" for letter in words)
    return words if len(words) <= most else f"{words[: most - 1]}…"


def _for_vtk(words: str) -> str:
    """What VTK shows as the words are: between dollar signs it looks for formulas."""
    return words.replace("$", r"\$")


def _font_for(title: str) -> int:
    """A size at which the title fits into one line."""
    return max(min(TITLE_FONT, TITLE_FONT * TITLE_LETTERS // max(len(title), 1)), 5)


def _add_swatches(pixels: Any, parts: list[Part]) -> None:
    """Put a square of its colour before each label; pale colours would make poor letters."""
    height, width = pixels.shape[:2]
    side, left = round(0.6 * LEGEND_STEP * height), round(LEGEND_LEFT * width)
    for k, part in enumerate(reversed(parts)):
        low = round((1.0 - LEGEND_LOW - LEGEND_STEP * k) * height)
        colour = [int(part.colour[i : i + 2], 16) for i in (1, 3, 5)]
        pixels[low - side : low, left : left + side] = colour


def _direction(sight: Sight) -> tuple[float, float, float]:
    """From the middle of the scene to who looks at it."""
    turn, up = math.radians(sight.azimuth), math.radians(sight.elevation)
    return math.cos(up) * math.cos(turn), math.cos(up) * math.sin(turn), math.sin(up)


def _upwards(sight: Sight) -> tuple[float, float, float]:
    return (0.0, 1.0, 0.0) if abs(sight.elevation) > STEEP else (0.0, 0.0, 1.0)


def _zoom_to_fit(camera: Any, parts: list[Part], sight: Sight) -> None:
    """Let the scene fill most of the picture, and no corner of it leave the picture."""
    if not parts:
        return
    forward = np.subtract(camera.focal_point, camera.position)
    forward /= np.linalg.norm(forward)
    right = np.cross(forward, camera.up)
    right /= np.linalg.norm(right)
    seen = np.concatenate([part.corners.reshape(-1, 3) for part in parts]) - camera.position
    half_height = (seen @ forward) * np.tan(np.radians(camera.view_angle) / 2.0)
    tall = np.abs(seen @ np.cross(right, forward)) / half_height
    wide = np.abs(seen @ right) / (half_height * sight.size[0] / sight.size[1])
    camera.zoom(FILL / max(float(np.maximum(tall, wide).max()), 0.1))


def _draw_with_matplotlib(parts: list[Part], title: str, sight: Sight) -> Any:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch
        from mpl_toolkits.mplot3d.art3d import Poly3DCollection
    except ImportError as error:
        raise MissingExtra("pictures need matplotlib; install impinge[picture]") from error
    figure = Figure(figsize=(sight.size[0] / 100, sight.size[1] / 100), dpi=100)
    canvas = FigureCanvasAgg(figure)
    axes: Any = figure.add_axes((0.0, 0.0, 1.0, 0.95), projection="3d")
    axes.set_axis_off()
    axes.view_init(elev=sight.elevation, azim=sight.azimuth)
    axes.computed_zorder = False  # it sorts whole parts by their middle, which hides what collides inside a body
    axes.set_box_aspect((1.0, 1.0, 1.0), zoom=1.7)
    reach = max([float(np.linalg.norm(part.corners, axis=2).max()) for part in parts], default=1.0) or 1.0
    for set_limits in (axes.set_xlim, axes.set_ylim, axes.set_zlim):
        set_limits(-reach, reach)
    for part in parts:
        flat = _is_flat(part.corners)
        style = {"alpha": part.opacity, "facecolors": part.colour, "clip_on": False, "zorder": part.opacity}
        if not flat.all():
            axes.add_collection3d(Poly3DCollection(part.corners[~flat], shade=True, **style))
        if flat.any():
            lines = {"edgecolors": part.colour, "linewidths": 0.5 * part.width}
            axes.add_collection3d(Poly3DCollection(part.corners[flat], **lines, **style))
    if sight.size[0] >= WORDS_FROM:
        if parts:
            patches = [Patch(color=part.colour, label=readable(part.label, LABEL_LETTERS)) for part in parts]
            for text in axes.legend(handles=patches, loc="lower right").get_texts():
                text.set_parse_math(False)  # a name may hold dollar signs
        words = readable(title, LONGEST_TITLE)
        figure.suptitle(words, x=0.01, ha="left", fontsize=_font_for(words), parse_math=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a box is drawn for a letter that no font has
        canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()


def _is_flat(corners: Floats) -> Bools:
    """Which triangles are so thin that only a line of them is to be seen."""
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    return np.asarray(np.linalg.norm(normal, axis=1) < FLAT_BELOW)


def write_picture(pixels: Any, path: Path) -> Path:
    """Write pixels to a file, whole or not at all."""
    try:
        import matplotlib.image
    except ImportError as error:
        raise MissingExtra("pictures need matplotlib; install impinge[picture]") from error
    check_path(path)
    file = io.BytesIO()
    matplotlib.image.imsave(file, pixels, format=ENDINGS[path.suffix.lower()])
    try:
        write_whole(path, file.getvalue())
    except OSError as error:
        raise _not_written(path, error.strerror or error) from error
    return path
