"""Three ways to find contacts and turn them into rows of forces, and the ground.

Vertices    ([Heidelberger2004]) The way out of each surface vertex inside another body by
            consistent depth ends in a triangle; it is pushed along the normal of that triangle, as deep as it is below
            its plane, and the triangle is pushed back. k = K times the vertex's area.
Volume      ([Faure2008]; cut as in [Allard2010]) The overlap of two bodies, seen along three axes, is cut into cells
            of a fixed grid, each span going to the cell of its middle. Each cell is one row: the energy ½ k V² of
            its volume pushes vertices along -∂V/∂x. k = K / A with A = |Σ ∂V/∂x| over body a, so that the pressure is K
            times the depth V / A. One volume for all would press evenly, and not hinder bodies from rocking.
Spheres     ([MendozaOSullivan2005], section 4.3) Spheres of two trees that meet, those that are only possible too. As
            published, spheres push each other along the line of their centres, so that bodies hover by about a sphere
            and roll on them as on balls. Here that is so where the budget left inner spheres. Two leaves push if
            flat patches of surface below them (``sphere_patches``) face each other, along the mean of their normals, as
            far as these have passed each other. The force goes to all vertices below, as they carry the centre of the
            patch, and not to the nearest one: depth and force then belong together, and do no work for nothing.
            k = K times the smaller area of both, shared by all contacts of its patch ("average").
Ground      Each surface vertex below the plane, or near enough to get there before the next search; of cloth below half
            of its thickness. k = K times area.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from scipy.sparse import bsr_array, csr_array, diags_array, eye_array, kron

from impinge.checks import Floats
from impinge.contact.contacts import ContactKind, body_key, contact_ids
from impinge.contact.volume_gradient import VolumeGradients
from impinge.detect.sphere_tree.detector import SphereTree
from impinge.errors import MeshError
from impinge.respond.contact_forces import RELEASE, ContactRows, Sums
from impinge.simulate.constraints import GROUND, Ids, Side, joined_rows, no_rows, relative_motion, rows_of_points
from impinge.simulate.contact_merging import counted, gathered
from impinge.simulate.pair_scheduler import Turns
from impinge.simulate.simulated_bodies import Part, SoftPart, is_sheet, thickness
from impinge.simulate.sphere_patches import Patches, PatchMaker, leaf_patch_pairs
from impinge.world.world import World

RESOLUTION = 64
"""Rays along each side of an overlap."""
FACING = -0.5
"""Product of the mean normals of two patches, below which they face each other: at least 120 degrees apart."""
BESIDE = 0.7
"""How far patches may lie beside each other, relative to the roots of their areas: half the diagonal of a square."""
AHEAD = 0.02
"""Share of the smallest soft body's size at which spheres of two bodies are looked at, before these touch."""
FINEST = 0.3
"""Root of the area of patches at most, relative to the size of the smallest soft body."""
PASSED = 0.5
"""How far patches may have passed each other, relative to the root of the smaller area."""
STANDS_FOR = 0.01
"""Share of a body's size: vertices of a lump that touch the ground within so much touch it together."""
GROUND_KEY = body_key("")
"""Of the ground; no body has this name."""
CELLS = 6
"""Cells of an overlap along the size of the smaller soft body."""


class Search(Protocol):
    """Finds contacts of the bodies of a world as they are now, within the budget of ``Bodies.turns``."""

    margin: float
    """How far beyond its box a body is felt."""

    def rows(self) -> ContactRows:
        """Contacts as rows."""


class Bodies:
    """What every search knows of the bodies."""

    def __init__(
        self, world: World, parts: Sequence[Part], hardness: dict[int, float], damping: float, turns: Turns, *,
        gravity: float,
    ) -> None:  # fmt: skip
        self.world, self.parts, self.turns = world, parts, turns
        self._keys = np.array([body_key(part.name) for part in parts], dtype=np.uint64)
        self._hardness = np.array([hardness.get(part.number, np.inf) for part in parts])
        self._relax = np.array(
            [2.0 * damping * p.swing_time(hardness[p.number]) if isinstance(p, SoftPart) else np.inf for p in parts]
        )
        self._weight = np.array([part.pressure(gravity) if isinstance(part, SoftPart) else 0.0 for part in parts])
        self.is_soft = np.array([isinstance(part, SoftPart) for part in parts], dtype=np.bool_)
        self.is_sheet = np.array([is_sheet(part) for part in parts], dtype=np.bool_)
        self.coarse_count = sum(len(part.x) for part in parts if isinstance(part, SoftPart))

    def hardness(self, a: Any, b: Any) -> Floats:
        """Pressure per depth of contacts of two bodies."""
        return np.asarray(np.minimum(self._hardness[a], self._hardness[b]))

    def sinking(self, a: Any, b: Any) -> Floats:
        """How deep contacts of two bodies have to be to carry the weight of either; the ground is number -1."""
        one, other = np.where(a < 0, b, a), np.where(b < 0, a, b)
        return np.asarray(np.maximum(self._weight[one], self._weight[other]) / self.hardness(one, other))

    def hardness_on(self, sheet: int, other: int) -> float:
        """Pressure per depth of cloth on a body: that of the harder one, if both are soft."""
        known = [float(self._hardness[number]) for number in (sheet, other)]
        return max(value for value in known if value < np.inf)

    def relax(self, a: Any, b: Any) -> Floats:
        """Damping per stiffness of contacts of two bodies."""
        return np.asarray(np.minimum(self._relax[a], self._relax[b]))

    def keys(self, numbers: Any) -> Any:
        """Of each body a number that follows from its name, so that it stays while others come and go."""
        return self._keys[numbers]

    def triangles(self, a: int, b: int) -> int:
        """How many triangles two bodies have together."""
        return sum(self.world.surface(self.parts[number].name).live_count for number in (a, b))

    @property
    def smallest(self) -> float:
        """Size of the smallest soft body."""
        return min((part.size for part in self.parts if isinstance(part, SoftPart)), default=0.0)

    def near(self, margin: float) -> list[tuple[int, int]]:
        """Pairs of bodies that may touch, one of them soft, none cloth, if they touch at a distance of 2 ``margin``."""
        pairs = self.world.near_pairs(margin=margin)
        pairs = pairs[self.is_soft[pairs].any(axis=1) & ~self.is_sheet[pairs].any(axis=1)]
        return [(a, b) for a, b in pairs.tolist()]


class VertexSearch:
    """Vertices inside bodies, with consistent depths."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self.margin = 0.0

    def rows(self) -> ContactRows:
        """Contacts as rows."""
        bodies, turns = self._bodies, self._bodies.turns
        near = set(bodies.near(0.0))
        if not near:
            return no_rows()
        found = bodies.world.contacts(method="vertices", first=turns.waiting, **turns.part())
        turns.left += [(a, b) for a, b in found.possible.tolist() if (a, b) in near]
        turns.spend(found.tests)
        wanted = (found.kind <= ContactKind.VERTEX_B) & (found.body_a != found.body_b)
        wanted &= (bodies.is_soft[found.body_a] | bodies.is_soft[found.body_b]) & (found.depth > 0.0)
        wanted &= ~(bodies.is_sheet[found.body_a] | bodies.is_sheet[found.body_b])
        found = found.rows(np.flatnonzero(wanted))
        if not len(found):
            return no_rows()
        body_a, body_b = found.body_a.astype(np.int64), found.body_b.astype(np.int64)
        of_a = found.kind == ContactKind.VERTEX_A
        inner, outer = np.where(of_a, body_a, body_b), np.where(of_a, body_b, body_a)
        vertex = np.where(of_a, found.feature_a, found.feature_b).astype(np.int64)
        face = np.where(of_a, found.feature_b, found.feature_a).astype(np.int64)
        sign = np.where(of_a, 1.0, -1.0)
        out = found.point - (sign * found.depth)[:, None] * found.normal
        area, lump, sides = np.zeros(len(found)), vertex.copy(), []
        corners, corner = np.zeros((len(found), 3), dtype=np.int64), np.zeros((len(found), 3, 3))
        for b in np.unique(inner).tolist():
            rows = np.flatnonzero(inner == b)
            area[rows] = bodies.parts[b].area[vertex[rows]]
            lump[rows] = bodies.parts[b].lumps[vertex[rows]]
            sides.append(Side(bodies.parts[b], rows, vertex[rows], sign[rows]))
        by_outer = [(bodies.parts[b], np.flatnonzero(outer == b)) for b in np.unique(outer).tolist()]
        for part, rows in by_outer:
            surface = bodies.world.surface(part.name)
            corners[rows] = surface.faces[face[rows]]
            corner[rows] = surface.vertices[corners[rows]]
        weight = -sign[:, None] * _coordinates(corner, out)
        sides += [
            Side(part, np.repeat(rows, 3), corners[rows].reshape(-1), weight[rows].reshape(-1))
            for part, rows in by_outer
        ]
        # The plane of that triangle: sharp edges then push across faces, not along a mean of both.
        way, depth = _through_plane(corner, found.point, -sign[:, None] * found.normal)
        normal = -sign[:, None] * way
        each = rows_of_points(
            sides, normal=normal, depth=depth,
            stiffness=bodies.hardness(body_a, body_b) * area, relax=bodies.relax(body_a, body_b),
            key=_vertex_keys(bodies.keys(inner), bodies.keys(outer), lump), body_a=body_a, body_b=body_b,
        )  # fmt: skip
        return gathered(each, bodies.coarse_count)


def _vertex_keys(inner: Any, outer: Any, vertex: Any) -> Any:
    """The same while a vertex, or any of its lump, is in a body, whichever triangle it leaves through."""
    kind = np.full(len(vertex), ContactKind.VERTEX_A, dtype=np.int8)
    return contact_ids(inner, outer, kind, vertex, vertex)


def _through_plane(corner: Floats, point: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Unit normals of triangles on the side of ``direction``, and how far points are from leaving through them."""
    normal = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    size = np.linalg.norm(normal, axis=1, keepdims=True)
    normal = np.where(size > 0.0, normal / np.where(size > 0.0, size, 1.0), direction)
    normal = np.where((normal * direction).sum(axis=1, keepdims=True) < 0.0, -normal, normal)
    return normal, np.maximum(((corner[:, 0] - point) * normal).sum(axis=1), 0.0)


def _coordinates(corner: Floats, point: Floats) -> Floats:
    """Barycentric coordinates in triangles, shape (k, 3); of points beyond an edge those of a place near it."""
    u, v, w = corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0], point - corner[:, 0]
    uu, uv, vv, wu, wv = ((p * q).sum(axis=1) for p, q in ((u, u), (u, v), (v, v), (w, u), (w, v)))
    det = uu * vv - uv * uv
    flat = ~(det > 0.0)
    det = np.where(flat, 1.0, det)
    b, c = np.where(flat, 0.0, (vv * wu - uv * wv) / det), np.where(flat, 0.0, (uu * wv - uv * wu) / det)
    weight = np.clip(np.stack([1.0 - b - c, b, c], axis=1), 0.0, 1.0)
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


class VolumeSearch:
    """The overlap of two bodies by cells, and how it changes with their vertices."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._gradients: dict[tuple[int, int], VolumeGradients] = {}
        self.margin = 0.0

    def rows(self) -> ContactRows:
        """Contacts as rows."""
        bodies = self._bodies
        asked = bodies.turns.in_turn(bodies.near(0.0), bodies.triangles)
        found = [self._pair(a, b) for a, b in asked]
        return joined_rows([no_rows(), *(rows for rows in found if rows is not None)])

    def _pair(self, a: int, b: int) -> ContactRows | None:
        bodies = self._bodies
        parts = bodies.parts[a], bodies.parts[b]
        if (a, b) not in self._gradients:
            surfaces = [bodies.world.surface(part.name) for part in parts]
            self._gradients[a, b] = VolumeGradients(*surfaces, resolution=RESOLUTION)
        try:
            cells = self._gradients[a, b].cells(bodies.smallest / CELLS)
        except MeshError as error:
            names = f"bodies {parts[0].name!r} (a) and {parts[1].name!r} (b)"
            raise MeshError(f"{names} cannot be pushed apart by their volumes: {error}") from error
        count = len(cells.place)
        if not count:
            return None
        push, slide = csr_array((count, 3 * bodies.coarse_count)), csr_array((3 * count, 3 * bodies.coarse_count))
        rate, drive = np.zeros(count), np.zeros((count, 3))
        for part, gradient, sign in zip(parts, cells.gradients, (1.0, -1.0)):
            vertex = np.unique(gradient.indices // 3).astype(np.int64)
            each = np.arange(len(vertex))
            sums, speed = relative_motion([Side(part, each, vertex, np.ones(len(each)))], len(each))
            shape = (3 * len(each), 3 * bodies.coarse_count)
            moves = bsr_array((sums.weight, sums.vertex, sums.start), shape=shape).tocsr()
            own = gradient[:, (3 * vertex[:, None] + np.arange(3)).reshape(-1)]
            push, rate = push + own @ moves, rate + own @ speed.reshape(-1)
            mean = kron(sign * _mean_of(own), eye_array(3), format="csr")
            slide, drive = slide + mean @ moves, drive + (mean @ speed.reshape(-1)).reshape(-1, 3)
        key_a, key_b = (np.repeat(bodies.keys([number]), count) for number in (a, b))
        place = cells.place.astype(np.int32)
        return ContactRows(
            push=_sums(push, 1), slide=_sums(slide, 3), normal=cells.normal, depth=cells.volume, rate=rate, drive=drive,
            stiffness=bodies.hardness(a, b) / cells.area, relax=np.full(count, bodies.relax(a, b)),
            scale=cells.area, release=np.full(count, RELEASE), volumetric=np.ones(count, dtype=np.bool_),
            key=contact_ids(key_a, key_b, np.full(count, ContactKind.VOLUME, dtype=np.int8), place, place),
            body_a=np.full(count, a), body_b=np.full(count, b),
        )  # fmt: skip


def _sums(matrix: Any, height: int) -> Sums:
    """A sparse matrix on coordinates as sums over vertices."""
    blocks = matrix.tocsr().tobsr(blocksize=(height, 3))
    weight = blocks.data[:, 0] if height == 1 else blocks.data
    return Sums(blocks.indptr.astype(np.int64), blocks.indices.astype(np.int64), np.ascontiguousarray(weight))


def _mean_of(gradient: Any) -> Any:
    """Weights of vertices in each row, of sum 1: their shares of the gradient, shape (k, n)."""
    size = abs(gradient) @ kron(eye_array(gradient.shape[1] // 3), np.ones((3, 1)), format="csr")
    return diags_array(1.0 / np.asarray(size.sum(axis=1)).reshape(-1)) @ size


class SphereSearch:
    """Spheres that meet."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._trees: dict[tuple[int, int], SphereTree] = {}
        self._makers: dict[int, PatchMaker] = {}
        surfaces = [bodies.world.surface(part.name) for part in bodies.parts]
        for a, b in itertools.pairwise(surfaces):
            SphereTree(a, b).prepare()  # trees of bodies where they begin, so that a run that goes on has the same
        self.margin = AHEAD * bodies.smallest

    def rows(self) -> ContactRows:
        """Contacts as rows."""
        near = self._bodies.near(self.margin)
        return joined_rows([no_rows(), *(self._pair(a, b, len(near) - k) for k, (a, b) in enumerate(near))])

    def _pair(self, a: int, b: int, still: int) -> ContactRows:
        """Contacts of the next of ``still`` pairs, which share what is left."""
        bodies, turns = self._bodies, self._bodies.turns
        surfaces = [bodies.world.surface(bodies.parts[number].name) for number in (a, b)]
        if (a, b) not in self._trees:
            self._trees[a, b] = SphereTree(*surfaces)
        answer = self._trees[a, b].query(**turns.part(still))
        turns.spend(answer.stats["tests"] + answer.stats.get("triangle_tests", 0))
        if not answer.complete:
            turns.partial.append((a, b))
        found = replace(answer, normals="centres")
        pair = np.concatenate([found.certain, found.possible]).astype(np.int64)
        if not len(pair):
            return no_rows()
        trees = [spheres.layout.tree for spheres in found.spheres]
        for number, tree, surface in zip((a, b), trees, surfaces):
            if number not in self._makers:
                part = bodies.parts[number]
                rest = part.body.rest_surface if isinstance(part, SoftPart) else part.rest
                self._makers[number] = PatchMaker(tree, rest, surface.faces, FINEST * bodies.smallest)
        leaf = (trees[0].first_child[pair[:, 0]] < 0) & (trees[1].first_child[pair[:, 1]] < 0)
        normal = np.concatenate([found.normal, found.possible_normal])[~leaf]
        depth = np.concatenate([found.depth, found.possible_depth])[~leaf]
        x = [surface.vertices for surface in surfaces]
        return joined_rows([self._leaves(a, b, pair[leaf], x), self._inner(a, b, pair[~leaf], normal, depth, x)])

    def _leaves(self, a: int, b: int, pair: Ids, x: list[Floats]) -> ContactRows:
        """Patches of leaves that face each other."""
        makers = self._makers[a], self._makers[b]
        chosen = leaf_patch_pairs(*(maker.of_leaves(pair[:, k]) for k, maker in enumerate(makers)))
        ids, place = zip(*(np.unique(side, return_inverse=True) for side in chosen))
        patches = [maker.patches(i, at) for maker, i, at in zip(makers, ids, x)]
        normal, depth, meets = _facing(patches, place)
        keep = np.flatnonzero(meets)
        keys = [maker.key[side[keep]] for maker, side in zip(makers, chosen)]
        return self._rows((a, b), patches, [p[keep] for p in place], keys, normal[keep], depth[keep])

    def _inner(self, a: int, b: int, pair: Ids, normal: Floats, depth: Floats, x: list[Floats]) -> ContactRows:
        """Spheres that the search had no time to look into, along lines of centres."""
        meets = depth > 0.0
        pair, normal, depth = pair[meets], normal[meets], depth[meets]
        nodes, place = zip(*(np.unique(pair[:, k], return_inverse=True) for k in range(2)))
        patches = [self._makers[number].below(n, at) for number, n, at in zip((a, b), nodes, x)]
        return self._rows((a, b), patches, place, [-1 - pair[:, 0], -1 - pair[:, 1]], normal, depth)

    def _rows(
        self, numbers: tuple[int, int], patches: Any, place: Any, keys: Any, normal: Floats, depth: Floats
    ) -> ContactRows:
        bodies, count, (a, b) = self._bodies, len(depth), numbers
        parts = bodies.parts[a], bodies.parts[b]
        share = np.minimum(*(patch.area[p] / np.maximum(np.bincount(p), 1)[p] for patch, p in zip(patches, place)))
        sides = [
            Side(part, row, vertex, sign * weight)
            for part, patch, p, sign in zip(parts, patches, place, (1.0, -1.0))
            for row, vertex, weight in (patch.entries(p),)
        ]
        key_a, key_b = (np.repeat(bodies.keys([number]), count) for number in (a, b))
        kind = np.full(count, ContactKind.SPHERES, dtype=np.int8)
        return rows_of_points(
            sides, normal=normal, depth=depth, stiffness=bodies.hardness(a, b) * share,
            relax=np.full(count, bodies.relax(a, b)),
            key=contact_ids(key_a, key_b, kind, keys[0], keys[1]),
            body_a=np.full(count, a), body_b=np.full(count, b),
        )  # fmt: skip


def _facing(patches: Sequence[Patches], places: Sequence[Any]) -> tuple[Floats, Floats, Any]:
    """Of pairs of patches the normal between them, how far they have passed each other along it, and whether they face.

    Patches beside each other, which lie farther apart across the normal than both reach, do not count, and neither do
    those that have passed each other by more than ``PASSED``: they may belong to opposite sides of a body.
    """
    (centre_a, normal_a, area_a), (centre_b, normal_b, area_b) = (
        (patch.centre[p], patch.normal[p], patch.area[p]) for patch, p in zip(patches, places)
    )
    normal = normal_a - normal_b
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    normal = np.where(length > 0.0, normal / np.where(length > 0.0, length, 1.0), np.array([0.0, 0.0, 1.0]))
    apart = centre_a - centre_b
    depth = (apart * normal).sum(axis=1)
    beside = np.linalg.norm(apart - depth[:, None] * normal, axis=1)
    faces = (normal_a * normal_b).sum(axis=1) < FACING
    edge_a, edge_b = np.sqrt(area_a), np.sqrt(area_b)
    near = (beside < BESIDE * (edge_a + edge_b)) & (depth < PASSED * np.minimum(edge_a, edge_b))
    return normal, depth, faces & near


SEARCHES: dict[str, Callable[[Bodies], Search]] = {
    "vertices": VertexSearch,
    "volume": VolumeSearch,
    "spheres": SphereSearch,
}


def ground_rows(bodies: Bodies, normal: Floats, height: float, reach: float) -> ContactRows:
    """Surface vertices below a plane n · x = height, or at most ``reach`` above it."""
    found = []
    for part in bodies.parts:
        if not isinstance(part, SoftPart):
            continue
        surface = part.body.surface
        used = surface.used_vertices.astype(np.int64)
        depth = height + 0.5 * thickness(part) - surface.vertices[used] @ normal
        near = np.flatnonzero(depth > -reach)
        if not len(near):
            continue
        hardness = bodies.hardness(part.number, part.number) * part.area[used[near]]
        ids, stiffness = counted(part.lumps[used[near]], depth[near], hardness, STANDS_FOR * part.size)
        near = near[ids]
        vertex, count = used[near], len(near)
        number = np.full(count, part.number)
        found.append(
            rows_of_points(
                [Side(part, np.arange(count), vertex, np.full(count, -1.0))],
                normal=np.tile(normal, (count, 1)),
                depth=depth[near],
                stiffness=stiffness[ids],
                relax=np.full(count, bodies.relax(part.number, part.number)),
                key=_vertex_keys(bodies.keys(number), np.full(count, GROUND_KEY, dtype=np.uint64), part.lumps[vertex]),
                body_a=np.full(count, GROUND),
                body_b=number,
            )
        )
    return gathered(joined_rows([no_rows(), *found]), bodies.coarse_count)
