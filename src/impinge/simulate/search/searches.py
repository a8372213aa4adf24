"""Contact searches for the three responses, and the ground; each returns contact constraints.

Vertices    ([Heidelberger2004]) Consistent penetration depth leads each surface vertex inside another body to an exit
            triangle. The vertex is pushed along the normal of that triangle by its depth below the triangle's plane;
            the triangle receives the reaction. k = K times the area of the vertex. In implicit steps, which are as long
            as a frame, vertices that may enter a closed body before the next search have negative depths
            (``approaching``).
Volume      ([Faure2008]; cut as in [Allard2010]) The overlap of two bodies, sampled along three axes, is cut into the
            cells of a fixed grid; a span belongs to the cell of its midpoint. Each cell is one constraint: the energy
            ½ k V² of its volume pushes vertices along -∂V/∂x. k = K / A with A = |Σ ∂V/∂x| over body a, which makes the
            pressure K times the depth V / A. A single cell would press evenly and not resist rocking.
Spheres     ([MendozaOSullivan2005], section 4.3) Certain and possible pairs of spheres of two trees. As published,
            spheres push each other along the line of centres; bodies then hover by about a sphere radius and roll on
            spheres as on balls. Here that applies only where the budget left inner spheres. Two leaves push if flat
            surface patches below them (``sphere_patches``) face each other, along the mean of their normals, by the
            distance they have passed each other. The force acts on all vertices below, with the weights that define the
            patch centre, not on the nearest vertex: force and depth are then conjugate and do no spurious work.
            k = K times the smaller area of both, divided by the number of contacts of its patch ("average").
Ground      Each surface vertex below the plane, or near enough to reach it before the next search; for cloth, below
            half of its thickness. k = K times area.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from impinge.checks import NONE, Floats
from impinge.contact.contacts import ContactKind, Contacts, body_key, contact_ids
from impinge.contact.volume_gradient import VolumeGradients
from impinge.detect.sphere_tree.detector import SphereTree
from impinge.errors import MeshError
from impinge.respond.contact_forces import RELEASE, ContactConstraints, SparseRows
from impinge.simulate.pair_scheduler import PairScheduler
from impinge.simulate.search.approaching import approaching
from impinge.simulate.search.constraints import (
    GROUND,
    ContactSide,
    Ids,
    Touching,
    concatenate,
    no_constraints,
    point_constraints,
    relative_motion,
)
from impinge.simulate.search.contact_merging import merge_constraints, representatives
from impinge.simulate.search.sphere_patches import PatchBuilder, Patches, leaf_patch_pairs
from impinge.simulate.simulated_bodies import DynamicBody, SimulatedBody, is_cloth, thickness
from impinge.world.world import World

RESOLUTION = 64
"""Rays along each side of the overlap region."""
FACING = -0.5
"""Dot product of mean normals below which two patches face each other: at least 120° apart."""
MAX_LATERAL = 0.7
"""Largest lateral distance of two patches, relative to the square roots of their areas: half a square diagonal."""
AHEAD = 0.02
"""Distance at which spheres of two bodies are queried, relative to the size of the smallest soft body."""
MAX_PATCH = 0.3
"""Largest square root of a patch area, relative to the size of the smallest soft body."""
MAX_PASSED = 0.5
"""Largest distance by which patches have passed each other, relative to the square root of the smaller area."""
FLAT_CONTACT = 0.01
"""Height difference, relative to the size of a body, within which vertices of a coarse group land together."""
GROUND_KEY = body_key("")
"""Contact key of the ground; no body has this name."""
CELLS = 6
"""Cells of an overlap along the size of the smallest soft body."""


Response: TypeAlias = Literal["contact", "vertices", "volume", "spheres"]


class Search(Protocol):
    """Finds contacts at the current positions, within the budget of ``SearchContext.scheduler``."""

    margin: float
    """Distance beyond its box at which a body has contacts."""
    looks_ahead: bool
    """Whether it finds contacts before bodies touch."""

    def constraints(self, travel: Travel | None = None) -> ContactConstraints:
        """Return the constraints of all contacts; with ``travel`` also those that may begin before the next search."""


class Travel(NamedTuple):
    """How far bodies may move relative to each other before the next search."""

    longest: float
    """Of any pair [m]."""
    of_pairs: Callable[[Any, Any], Floats]
    """Of pairs of bodies, given by their numbers [m]."""


class SearchContext:
    """Bodies and their contact parameters, shared by all searches."""

    def __init__(
        self, world: World, bodies: Sequence[SimulatedBody], hardness: dict[int, float], damping: float,
        scheduler: PairScheduler, *, gravity: float,
    ) -> None:  # fmt: skip
        self.world, self.bodies, self.scheduler = world, bodies, scheduler
        self._keys = np.array([body_key(body.name) for body in bodies], dtype=np.uint64)
        self._hardness = np.array([hardness.get(body.number, np.inf) for body in bodies])
        self._relax = np.array([
            2.0 * damping * body.oscillation_time(hardness[body.number]) if isinstance(body, DynamicBody) else np.inf
            for body in bodies
        ])  # fmt: skip
        self._weight = np.array([body.pressure(gravity) if isinstance(body, DynamicBody) else 0.0 for body in bodies])
        self.is_soft = np.array([isinstance(body, DynamicBody) for body in bodies], dtype=np.bool_)
        self.is_cloth = np.array([is_cloth(body) for body in bodies], dtype=np.bool_)
        self.coarse_count = sum(len(body.x) for body in bodies if isinstance(body, DynamicBody))

    def hardness(self, a: Any, b: Any) -> Floats:
        """Contact pressure per depth of pairs of bodies [Pa / m]."""
        return np.asarray(np.minimum(self._hardness[a], self._hardness[b]))

    def static_depth(self, a: Any, b: Any) -> Floats:
        """Depth at which contacts of pairs of bodies carry the weight of either [m]; the ground has index -1."""
        one, other = np.where(a < 0, b, a), np.where(b < 0, a, b)
        return np.asarray(np.maximum(self._weight[one], self._weight[other]) / self.hardness(one, other))

    def harder(self, a: Any, b: Any) -> Floats:
        """The larger one of both bodies, of those that move."""
        one, other = self._hardness[a], self._hardness[b]
        return np.asarray(
            np.where(np.isfinite(one) & np.isfinite(other), np.maximum(one, other), np.minimum(one, other))
        )

    def cloth_hardness(self, cloth: int, other: int) -> float:
        """Contact pressure per depth of cloth on a body [Pa / m]: the larger one if both are soft."""
        finite = [float(self._hardness[number]) for number in (cloth, other)]
        return max(value for value in finite if value < np.inf)

    def relax(self, a: Any, b: Any) -> Floats:
        """Contact damping per stiffness of pairs of bodies [s]."""
        return np.asarray(np.minimum(self._relax[a], self._relax[b]))

    def keys(self, numbers: Any) -> Any:
        """Keys of bodies, derived from their names: stable while other bodies are added or removed."""
        return self._keys[numbers]

    def triangles(self, a: int, b: int) -> int:
        """Return the number of triangles of two bodies."""
        return sum(self.world.surface(self.bodies[number].name).live_count for number in (a, b))

    @property
    def smallest(self) -> float:
        """Size of the smallest soft body."""
        return min((body.size for body in self.bodies if isinstance(body, DynamicBody)), default=0.0)

    def near(self, margin: float) -> list[tuple[int, int]]:
        """Return pairs of bodies at a box distance up to 2 ``margin``, at least one of them soft, none cloth."""
        pairs = self.world.near_pairs(margin=margin)
        pairs = pairs[self.is_soft[pairs].any(axis=1) & ~self.is_cloth[pairs].any(axis=1)]
        return [(a, b) for a, b in pairs.tolist()]


class VertexSearch:
    """Vertices inside bodies, with consistent penetration depth; in long steps also vertices about to enter."""

    def __init__(self, context: SearchContext) -> None:
        self._context = context
        self.margin, self.looks_ahead = 0.0, True

    def constraints(self, travel: Travel | None = None) -> ContactConstraints:
        """Return the constraints of all contacts."""
        context, scheduler = self._context, self._context.scheduler
        near = set(context.near(0.0))
        inside = no_vertices()
        if near:
            found = context.world.contacts(method="vertices", first=scheduler.waiting, **scheduler.share())
            scheduler.skipped += [(a, b) for a, b in found.possible.tolist() if (a, b) in near]
            scheduler.spend(found.tests)
            inside = _penetrating(context, found)
        parts = [inside, *(() if travel is None else self._approaching(travel, inside))]
        rows = VertexRows(*(np.concatenate(columns) for columns in zip(*parts)))
        return vertex_constraints(self._context, rows) if len(rows.vertex) else no_constraints()

    def _approaching(self, travel: Travel, inside: VertexRows) -> list[VertexRows]:
        """Vertices that may enter a body before the next search; ``inside`` are those that have."""
        context, scheduler = self._context, self._context.scheduler
        skipped = scheduler.skipped
        pairs = [pair for pair in context.near(0.5 * travel.longest) if pair not in set(skipped)]
        a, b = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        lengths = dict(zip(pairs, travel.of_pairs(a, b).tolist()))
        found, scheduler.skipped = list[VertexRows](), []
        for pair in scheduler.schedule(pairs, context.triangles):
            length = lengths[pair]
            for inner, outer in (pair, pair[::-1]):
                surfaces = [context.world.surface(context.bodies[number].name) for number in (inner, outer)]
                if not surfaces[1].is_closed:
                    continue
                own = inside.vertex[(inside.inner == inner) & (inside.outer == outer)]
                near, body = approaching(surfaces[0], surfaces[1], length, own), context.bodies[inner]
                ids, area = representatives(
                    body.coarse_group[near.vertex],
                    -near.distance,
                    body.area[near.vertex],
                    FLAT_CONTACT * context.smallest,
                )
                found.append(
                    VertexRows(
                        np.full(len(ids), inner), np.full(len(ids), outer), near.vertex[ids], area[ids],
                        near.face[ids], near.corners[ids], near.weights[ids], near.outward[ids], -near.distance[ids],
                    )
                )  # fmt: skip
        scheduler.partial += scheduler.skipped  # their vertices inside are known
        scheduler.skipped = skipped
        return found


class VertexRows(NamedTuple):
    """Vertices in or near other bodies."""

    inner: Ids
    """Number of the body of each vertex."""
    outer: Ids
    """Number of the other body."""
    vertex: Ids
    area: Floats
    """Of the surface that each of them represents [m²]."""
    face: Ids
    """Triangle of the other surface that it touches."""
    corners: Ids
    """Vertices of that triangle, shape (k, 3)."""
    weights: Floats
    """Of the point of contact in that triangle, shape (k, 3)."""
    outward: Floats
    """Unit vectors that lead the vertices out of the other body, shape (k, 3)."""
    depth: Floats
    """Negative for vertices outside."""


def no_vertices() -> VertexRows:
    """Return an empty set."""
    none, corners, vectors = np.zeros(0, dtype=np.int64), np.zeros((0, 3), dtype=np.int64), np.zeros((0, 3))
    return VertexRows(none, none, none, np.zeros(0), none, corners, vectors, vectors, np.zeros(0))


def vertex_constraints(context: SearchContext, found: VertexRows) -> ContactConstraints:
    """Return the constraints of vertices in or near other bodies, merged by coarse groups."""
    inner, outer, vertex = found.inner, found.outer, found.vertex
    of_a = inner < outer
    sign, group, sides = np.where(of_a, 1.0, -1.0), vertex.copy(), []
    for b in np.unique(inner).tolist():
        rows = np.flatnonzero(inner == b)
        group[rows] = context.bodies[b].coarse_group[vertex[rows]]
        sides.append(ContactSide(context.bodies[b], rows, vertex[rows], sign[rows]))
    weight = -sign[:, None] * found.weights
    for b in np.unique(outer).tolist():
        rows = np.flatnonzero(outer == b)
        corners = found.corners[rows].reshape(-1)
        sides.append(ContactSide(context.bodies[b], np.repeat(rows, 3), corners, weight[rows].reshape(-1)))
    body_a, body_b = np.where(of_a, inner, outer), np.where(of_a, outer, inner)
    touching = Touching(
        np.where(of_a, ContactKind.VERTEX_A, ContactKind.VERTEX_B), np.where(of_a, vertex, found.face),
        np.where(of_a, found.face, vertex), found.area,
    )  # fmt: skip
    each = point_constraints(
        sides, normal=-sign[:, None] * found.outward, depth=found.depth,
        stiffness=context.hardness(body_a, body_b) * found.area, relax=context.relax(body_a, body_b),
        key=_vertex_keys(context.keys(inner), context.keys(outer), group), body_a=body_a, body_b=body_b,
        touching=touching,
    )  # fmt: skip
    return merge_constraints(each, context.coarse_count)


def _penetrating(context: SearchContext, found: Contacts) -> VertexRows:
    """Vertices inside other bodies, with the planes of the triangles through which they leave."""
    keep = (found.kind <= ContactKind.VERTEX_B) & (found.body_a != found.body_b)
    keep &= (context.is_soft[found.body_a] | context.is_soft[found.body_b]) & (found.depth > 0.0)
    keep &= ~(context.is_cloth[found.body_a] | context.is_cloth[found.body_b])
    found = found.rows(np.flatnonzero(keep))
    body_a, body_b = found.body_a.astype(np.int64), found.body_b.astype(np.int64)
    of_a = found.kind == ContactKind.VERTEX_A
    inner, outer = np.where(of_a, body_a, body_b), np.where(of_a, body_b, body_a)
    vertex = np.where(of_a, found.feature_a, found.feature_b).astype(np.int64)
    face = np.where(of_a, found.feature_b, found.feature_a).astype(np.int64)
    outward, area = np.where(of_a, -1.0, 1.0)[:, None] * found.normal, np.zeros(len(found))
    for b in np.unique(inner).tolist():
        rows = np.flatnonzero(inner == b)
        area[rows] = context.bodies[b].area[vertex[rows]]
    corners, corner = np.zeros((len(found), 3), dtype=np.int64), np.zeros((len(found), 3, 3))
    for b in np.unique(outer).tolist():
        rows, surface = np.flatnonzero(outer == b), context.world.surface(context.bodies[b].name)
        corners[rows] = surface.faces[face[rows]]
        corner[rows] = surface.vertices[corners[rows]]
    weights = _barycentric(corner, found.point + found.depth[:, None] * outward)
    # Use the plane of the exit triangle: at sharp edges, forces act along face normals, not along their mean.
    direction, depth = _exit_through_plane(corner, found.point, outward)
    return VertexRows(inner, outer, vertex, area, face, corners, weights, direction, depth)


def _vertex_keys(inner: Any, outer: Any, group: Any) -> Any:
    """Keys that persist while any vertex of a coarse group is in a body, whatever its exit triangle."""
    kind = np.full(len(group), ContactKind.VERTEX_A, dtype=np.int8)
    return contact_ids(inner, outer, kind, group, group)


def _exit_through_plane(corner: Floats, point: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Unit normals of triangles on the side of ``direction``, and the distance of points below their planes."""
    normal = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    size = np.linalg.norm(normal, axis=1, keepdims=True)
    normal = np.where(size > 0.0, normal / np.where(size > 0.0, size, 1.0), direction)
    normal = np.where((normal * direction).sum(axis=1, keepdims=True) < 0.0, -normal, normal)
    return normal, np.maximum(((corner[:, 0] - point) * normal).sum(axis=1), 0.0)


def _barycentric(corner: Floats, point: Floats) -> Floats:
    """Barycentric coordinates in triangles, clamped to the triangle, shape (k, 3)."""
    u, v, w = corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0], point - corner[:, 0]
    uu, uv, vv, wu, wv = ((p * q).sum(axis=1) for p, q in ((u, u), (u, v), (v, v), (w, u), (w, v)))
    det = uu * vv - uv * uv
    flat = ~(det > 0.0)
    det = np.where(flat, 1.0, det)
    b, c = np.where(flat, 0.0, (vv * wu - uv * wv) / det), np.where(flat, 0.0, (uu * wv - uv * wu) / det)
    weight = np.clip(np.stack([1.0 - b - c, b, c], axis=1), 0.0, 1.0)
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


class VolumeSearch:
    """Overlap of two bodies by cells, with volume gradients."""

    def __init__(self, context: SearchContext) -> None:
        self._context = context
        self._gradients: dict[tuple[int, int], VolumeGradients] = {}
        self.margin, self.looks_ahead = 0.0, False

    def constraints(self, travel: Travel | None = None) -> ContactConstraints:  # noqa: ARG002
        """Return the constraints of all contacts."""
        context = self._context
        pairs = context.scheduler.schedule(context.near(0.0), context.triangles)
        found = [self._pair(a, b) for a, b in pairs]
        return concatenate([no_constraints(), *(each for each in found if each is not None)])

    def _pair(self, a: int, b: int) -> ContactConstraints | None:
        context = self._context
        bodies = context.bodies[a], context.bodies[b]
        if (a, b) not in self._gradients:
            surfaces = [context.world.surface(body.name) for body in bodies]
            self._gradients[a, b] = VolumeGradients(*surfaces, resolution=RESOLUTION)
        try:
            cells = self._gradients[a, b].cells(context.smallest / CELLS)
        except MeshError as error:
            names = f"bodies {bodies[0].name!r} (a) and {bodies[1].name!r} (b)"
            raise MeshError(f"response='volume' fails for {names}: {error}") from error
        count = len(cells.place)
        if not count:
            return None
        jacobian, slip, rate, drive, sides = gradient_jacobians(bodies, cells.gradients, context.coarse_count)
        key_a, key_b = (np.repeat(context.keys([number]), count) for number in (a, b))
        place = cells.place.astype(np.int32)
        touching = Touching(ContactKind.VOLUME, np.full(count, NONE), np.full(count, NONE), cells.area)
        return ContactConstraints(
            normal_jacobian=jacobian, slip_jacobian=slip, normal=cells.normal,
            depth=cells.volume, rate=rate, drive=drive, stiffness=context.hardness(a, b) / cells.area,
            relax=np.full(count, context.relax(a, b)), scale=cells.area, release=np.full(count, RELEASE),
            volumetric=np.ones(count, dtype=np.bool_),
            key=contact_ids(key_a, key_b, np.full(count, ContactKind.VOLUME, dtype=np.int8), place, place),
            body_a=np.full(count, a), body_b=np.full(count, b), wall=np.full(count, np.inf),
            features=touching.features(sides),
        )  # fmt: skip


def gradient_jacobians(
    bodies: Sequence[SimulatedBody], gradients: Sequence[Any], coarse_count: int
) -> tuple[SparseRows, SparseRows, Floats, Floats, list[ContactSide]]:
    """Jacobians, ``rate`` and ``drive`` of contacts whose depths have these gradients by the vertices of two bodies.

    Also their sides: the mean of vertices, weighted by the gradients.
    """
    from scipy.sparse import bsr_array, csr_array, eye_array, kron  # a slow import

    count, coarse_coordinates = gradients[0].shape[0], 3 * coarse_count
    jacobian, slip = csr_array((count, coarse_coordinates)), csr_array((3 * count, coarse_coordinates))
    rate, drive, sides = np.zeros(count), np.zeros((count, 3)), list[ContactSide]()
    for body, gradient, sign in zip(bodies, gradients, (1.0, -1.0)):
        vertex = np.unique(gradient.indices // 3).astype(np.int64)
        each = np.arange(len(vertex))
        rows, speed = relative_motion([ContactSide(body, each, vertex, np.ones(len(each)))], len(each))
        moves = bsr_array((rows.weight, rows.vertex, rows.start), shape=(3 * len(each), coarse_coordinates)).tocsr()
        own = gradient[:, (3 * vertex[:, None] + np.arange(3)).reshape(-1)]
        jacobian, rate = jacobian + own @ moves, rate + own @ speed.reshape(-1)
        weights = sign * _mean_weights(own)
        sides.append(ContactSide(body, *_entries(weights, vertex)))
        mean = kron(weights, eye_array(3), format="csr")
        slip, drive = slip + mean @ moves, drive + (mean @ speed.reshape(-1)).reshape(-1, 3)
    return _sparse_rows(jacobian, 1), _sparse_rows(slip, 3), rate, drive, sides


def _entries(weights: Any, vertex: Ids) -> tuple[Ids, Ids, Floats]:
    """Row, vertex and weight of each entry of a sparse matrix whose columns are the vertices ``vertex``."""
    entries = weights.tocoo()
    return entries.row.astype(np.int64), vertex[entries.col], entries.data


def _sparse_rows(matrix: Any, height: int) -> SparseRows:
    """Convert a sparse matrix on coordinates to rows of blocks on vertices."""
    blocks = matrix.tocsr().tobsr(blocksize=(height, 3))
    weight = blocks.data[:, 0] if height == 1 else blocks.data
    return SparseRows(blocks.indptr.astype(np.int64), blocks.indices.astype(np.int64), np.ascontiguousarray(weight))


def _mean_weights(gradient: Any) -> Any:
    """Vertex weights of sum 1 per row, proportional to the gradient, shape (k, n)."""
    from scipy.sparse import diags_array, eye_array, kron

    size = abs(gradient) @ kron(eye_array(gradient.shape[1] // 3), np.ones((3, 1)), format="csr")
    total = np.asarray(size.sum(axis=1)).reshape(-1)
    return diags_array(1.0 / np.where(total > 0.0, total, 1.0)) @ size


class SphereSearch:
    """Overlapping spheres of sphere trees."""

    def __init__(self, context: SearchContext) -> None:
        self._context = context
        self._trees: dict[tuple[int, int], SphereTree] = {}
        self._builders: dict[int, PatchBuilder] = {}
        surfaces = [context.world.surface(body.name) for body in context.bodies]
        for a, b in itertools.pairwise(surfaces):
            SphereTree(a, b).prepare()  # build trees at the initial positions: a restored run has the same trees
        self.margin, self.looks_ahead = AHEAD * context.smallest, False

    def constraints(self, travel: Travel | None = None) -> ContactConstraints:  # noqa: ARG002
        """Return the constraints of all contacts."""
        near = self._context.near(self.margin)
        return concatenate([no_constraints(), *(self._pair(a, b, len(near) - k) for k, (a, b) in enumerate(near))])

    def _pair(self, a: int, b: int, remaining: int) -> ContactConstraints:
        """Return the contacts of a pair, the first of ``remaining`` pairs that share the remaining budget."""
        context, scheduler = self._context, self._context.scheduler
        surfaces = [context.world.surface(context.bodies[number].name) for number in (a, b)]
        if (a, b) not in self._trees:
            self._trees[a, b] = SphereTree(*surfaces)
        answer = self._trees[a, b].query(**scheduler.share(remaining))
        scheduler.spend(answer.tests)
        if not answer.complete:
            scheduler.partial.append((a, b))
        found = replace(answer, normals="centres")
        pair = np.concatenate([found.certain, found.possible]).astype(np.int64)
        if not len(pair):
            return no_constraints()
        trees = [spheres.layout.tree for spheres in found.spheres]
        for number, tree, surface in zip((a, b), trees, surfaces):
            if number not in self._builders:
                body = context.bodies[number]
                rest = body.source.rest_surface if isinstance(body, DynamicBody) else body.rest
                self._builders[number] = PatchBuilder(tree, rest, surface.faces, MAX_PATCH * context.smallest)
        leaf = (trees[0].first_child[pair[:, 0]] < 0) & (trees[1].first_child[pair[:, 1]] < 0)
        normal = np.concatenate([found.normal, found.possible_normal])[~leaf]
        depth = np.concatenate([found.depth, found.possible_depth])[~leaf]
        x = [surface.vertices for surface in surfaces]
        return concatenate([self._leaves(a, b, pair[leaf], x), self._inner(a, b, pair[~leaf], normal, depth, x)])

    def _leaves(self, a: int, b: int, pair: Ids, x: list[Floats]) -> ContactConstraints:
        """Return contacts of facing leaf patches."""
        builders = self._builders[a], self._builders[b]
        chosen = leaf_patch_pairs(*(builder.of_leaves(pair[:, k]) for k, builder in enumerate(builders)))
        ids, place = zip(*(np.unique(side, return_inverse=True) for side in chosen))
        patches = [builder.patches(i, at) for builder, i, at in zip(builders, ids, x)]
        normal, depth, meets = _facing(patches, place)
        keep = np.flatnonzero(meets)
        keys = [builder.key[side[keep]] for builder, side in zip(builders, chosen)]
        nodes = [builder.node_of(key) for builder, key in zip(builders, keys)]
        places = [p[keep] for p in place]
        return self._patch_constraints((a, b), patches, places, nodes, keys, normal[keep], depth[keep])

    def _inner(self, a: int, b: int, pair: Ids, normal: Floats, depth: Floats, x: list[Floats]) -> ContactConstraints:
        """Return contacts of spheres that the budget left unrefined, along lines of centres."""
        meets = depth > 0.0
        pair, normal, depth = pair[meets], normal[meets], depth[meets]
        nodes, place = zip(*(np.unique(pair[:, k], return_inverse=True) for k in range(2)))
        patches = [self._builders[number].below(n, at) for number, n, at in zip((a, b), nodes, x)]
        keys = [-1 - pair[:, 0], -1 - pair[:, 1]]
        return self._patch_constraints((a, b), patches, place, list(pair.T), keys, normal, depth)

    def _patch_constraints(
        self, numbers: tuple[int, int], patches: Any, place: Any, nodes: Any, keys: Any, normal: Floats, depth: Floats
    ) -> ContactConstraints:
        context, count, (a, b) = self._context, len(depth), numbers
        bodies = context.bodies[a], context.bodies[b]
        share = np.minimum(*(patch.area[p] / np.maximum(np.bincount(p), 1)[p] for patch, p in zip(patches, place)))
        sides = [
            ContactSide(body, row, vertex, sign * weight)
            for body, patch, p, sign in zip(bodies, patches, place, (1.0, -1.0))
            for row, vertex, weight in (patch.entries(p),)
        ]
        key_a, key_b = (np.repeat(context.keys([number]), count) for number in (a, b))
        kind = np.full(count, ContactKind.SPHERES, dtype=np.int8)
        return point_constraints(
            sides, normal=normal, depth=depth, stiffness=context.hardness(a, b) * share,
            relax=np.full(count, context.relax(a, b)),
            key=contact_ids(key_a, key_b, kind, keys[0], keys[1]),
            body_a=np.full(count, a), body_b=np.full(count, b),
            touching=Touching(ContactKind.SPHERES, nodes[0], nodes[1], share),
        )  # fmt: skip


def _facing(patches: Sequence[Patches], places: Sequence[Any]) -> tuple[Floats, Floats, Any]:
    """Return the normal between paired patches, their penetration along it, and whether they face each other.

    Patches are rejected if their lateral distance exceeds their extent, or if they have passed each other by more than
    ``MAX_PASSED``: they may then belong to opposite sides of a body.
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
    near = (beside < MAX_LATERAL * (edge_a + edge_b)) & (depth < MAX_PASSED * np.minimum(edge_a, edge_b))
    return normal, depth, faces & near


SEARCHES: dict[Response, Callable[[SearchContext], Search]] = {
    "vertices": VertexSearch,
    "volume": VolumeSearch,
    "spheres": SphereSearch,
}


def ground_constraints(context: SearchContext, normal: Floats, height: float, reach: float) -> ContactConstraints:
    """Return contacts of surface vertices below the plane n · x = height, or at most ``reach`` above it."""
    found, merges = [], False
    for body in context.bodies:
        if not isinstance(body, DynamicBody):
            continue
        surface = body.source.surface
        used = surface.used_vertices.astype(np.int64)
        depth = height + 0.5 * thickness(body) - surface.vertices[used] @ normal
        near = np.flatnonzero(depth > -reach)
        if not len(near):
            continue
        area = body.area[used[near]]
        if body.is_dense:
            group = body.coarse_group[used[near]]
            ids, area = representatives(group, depth[near], area, FLAT_CONTACT * body.size)
            near, area = near[ids], area[ids]
            merges = True
        vertex, count = used[near], len(near)
        number = np.full(count, body.number)
        ground_keys = np.full(count, GROUND_KEY, dtype=np.uint64)
        found.append(
            point_constraints(
                [ContactSide(body, np.arange(count), vertex, np.full(count, -1.0))],
                normal=np.tile(normal, (count, 1)),
                depth=depth[near],
                stiffness=context.hardness(body.number, body.number) * area,
                relax=np.full(count, context.relax(body.number, body.number)),
                key=_vertex_keys(context.keys(number), ground_keys, body.coarse_group[vertex]),
                body_a=np.full(count, GROUND),
                body_b=number,
                touching=Touching(
                    ContactKind.VERTEX_B, np.full(count, NONE), vertex, area, layer=0.5 * thickness(body)
                ),
            )
        )
    each = concatenate([no_constraints(), *found])
    return merge_constraints(each, context.coarse_count) if merges else each
