"""Consistent penetration depth: exact at planes, convergent at curves, smooth, and whole in every degenerate case."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import impinge
import impinge.mesh.transform
from impinge import shapes
from impinge.backend import jit
from impinge.backend.jit import compiled
from impinge.detect.common.results import VertexContacts
from impinge.detect.depth.body_states import state_of
from impinge.detect.depth.consistent_depth import consistent_depth
from impinge.detect.depth.local_depth import local_depth
from impinge.errors import OptionError
from impinge.exact.orientation import point
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh
from point_tet import point_in_tet

pytestmark = pytest.mark.small

UP = np.array([0.0, 0.0, 1.0])


# Contacts by brute force ------------------------------------------------------------------------------


@compiled
def mark_vertices_in_tets(x, y, tets, alive, is_self, inside):
    """Which vertices are in which tets, border included, their own tets left out."""
    for t in range(len(tets)):
        if not alive[t]:
            continue
        a, b, c, d = point(y, tets[t, 0]), point(y, tets[t, 1]), point(y, tets[t, 2]), point(y, tets[t, 3])
        for v in range(len(x)):
            p = point(x, v)
            apart = False
            for k in range(3):
                apart |= p[k] < min(a[k], b[k], c[k], d[k]) or p[k] > max(a[k], b[k], c[k], d[k])
            own = is_self and (v == tets[t, 0] or v == tets[t, 1] or v == tets[t, 2] or v == tets[t, 3])
            inside[v, t] = not apart and not own and point_in_tet(p, a, b, c, d) >= 0


def rows_of(bodies, states, i, j):
    """Vertices of body i in tets of body j, or in its triangles as a whole (tet -1), shape (k, 2)."""
    a, b = states[i].positions, states[j].positions
    used = np.zeros(len(a), dtype=bool)
    used[states[i].topology.elements[states[i].topology.live]] = True
    if isinstance(bodies[j], TriMesh):
        if i == j:
            return np.zeros((0, 2), dtype=int)
        live = bodies[j].faces[bodies[j].alive]
        found = np.flatnonzero(impinge.points_inside((b, live), a) & used)
        return np.stack([found, np.full(len(found), -1)], axis=1)
    inside = np.zeros((len(a), len(bodies[j].tets)), dtype=np.bool_)
    mark_vertices_in_tets(a, b, bodies[j].tets, bodies[j].alive, i == j, inside)
    return np.argwhere(inside & used[:, None])


def contacts_of(bodies, states, *, within=False):
    """All contacts between bodies, and within them on demand and where there is one only; sorted as results are."""
    found = []
    for i in range(len(bodies)):
        for j in range(len(bodies)):
            if i == j and len(bodies) > 1 and not within:
                continue
            rows = rows_of(bodies, states, i, j)
            found.append(np.column_stack([np.full(len(rows), i), rows[:, 0], np.full(len(rows), j), rows[:, 1]]))
    return contacts_from(np.concatenate(found))


def contacts_from(rows):
    """Contacts from rows (body, vertex, in_body, tet), sorted."""
    rows = np.asarray(rows, dtype=np.int32).reshape(-1, 4)
    body, vertex, in_body, tet = rows[np.lexsort(rows[:, ::-1].T)].T.copy()
    weights = np.zeros((len(rows), 4))
    return VertexContacts(
        body=body, vertex=vertex, in_body=in_body, tet=tet, barycentric=weights, is_self=body == in_body
    )


class DepthQuery:
    """Contacts of some bodies with their depths, for a look at those of one body in another."""

    def __init__(self, *bodies, depth=consistent_depth, transforms=None):
        self.states = [state_of(body, move) for body, move in zip(bodies, transforms or [None] * len(bodies))]
        self.contacts = contacts_of(bodies, self.states)
        self.depth, self.direction = depth(self.states, self.contacts)
        assert_sound(self.contacts, self.depth, self.direction)

    def of(self, body, in_body):
        """Vertices of one body in another, each once, with their positions, depths and directions."""
        rows = np.flatnonzero((self.contacts.body == body) & (self.contacts.in_body == in_body))
        vertex, first = np.unique(self.contacts.vertex[rows], return_index=True)
        rows = rows[first]
        return vertex, self.states[body].positions[vertex], self.depth[rows], self.direction[rows]


def assert_sound(contacts, depth, direction):
    """Depths are not negative, directions have length one, equal for all contacts of a vertex in a body."""
    assert depth.shape == (len(contacts),)
    assert direction.shape == (len(contacts), 3)
    assert np.isfinite(depth).all()
    assert (depth >= 0.0).all()
    np.testing.assert_allclose(np.linalg.norm(direction, axis=1), 1.0, rtol=1e-14)
    keys = np.stack([contacts.body, contacts.vertex, contacts.in_body], axis=1)
    _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    np.testing.assert_array_equal(depth, depth[first][group.reshape(-1)])
    np.testing.assert_array_equal(direction, direction[first][group.reshape(-1)])


# Bodies -----------------------------------------------------------------------------------------------


def ball(cells, *, radius=1.0, center=(0.0, 0.0, 0.0)):
    """A ball of tets: a box of cubes, each shell of it pushed out onto a sphere."""
    box = shapes.tet_box(cells, cells, cells, size=2.0)
    x = box.vertices
    shell, length = np.abs(x).max(axis=1, keepdims=True), np.linalg.norm(x, axis=1, keepdims=True)
    return TetMesh(radius * x * shell / np.where(length > 0.0, length, 1.0) + np.asarray(center), box.tets)


def triangles_of(body):
    """The surface of a tet mesh as a body of its own, without the vertices inside."""
    faces = body.surface.faces[body.surface.alive]
    used, faces = np.unique(faces, return_inverse=True)
    return TriMesh(body.vertices[used], faces.reshape(-1, 3))


def plate(cells=8, *, thickness=1.0):
    """A plate whose upper side is the plane z = 0."""
    return shapes.tet_box(cells, cells, 2, size=(4.0, 4.0, thickness), center=(0.0, 0.0, -thickness / 2.0))


def turned(angle=0.7, axis=(1.0, 2.0, -0.5), shift=(0.0, 0.0, 0.0)):
    """A rotation about an axis, then a shift, as a 4x4 matrix."""
    k = np.asarray(axis) / np.linalg.norm(axis)
    cross = np.array([[0.0, -k[2], k[1]], [k[2], 0.0, -k[0]], [-k[1], k[0], 0.0]])
    matrix = np.eye(4)
    matrix[:3, :3] += np.sin(angle) * cross + (1.0 - np.cos(angle)) * cross @ cross
    matrix[:3, 3] = shift
    return matrix


BUILD = {"tets": lambda body: body, "triangles": triangles_of}


# Planes: exact ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("penetrated", BUILD)
@pytest.mark.parametrize("penetrating", BUILD)
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_grid_in_a_plate_is_exact(penetrating, penetrated, offset):
    """Give a grid that dips into a plane the depths below the plane, however many layers deep, straight up."""
    below = BUILD[penetrated](plate())
    grid = BUILD[penetrating](shapes.tet_box(5, 5, 8, size=(1.7, 1.7, 1.5), center=(0.03, 0.01, 0.05)))
    for body in (below, grid):
        body.update(body.vertices + offset)
    vertex, x, depth, direction = DepthQuery(grid, below).of(0, 1)

    np.testing.assert_allclose(depth, offset - x[:, 2], rtol=0.0, atol=4e-15 + 4e-16 * offset)
    np.testing.assert_allclose(direction, np.tile(UP, (len(vertex), 1)), rtol=0.0, atol=4e-15 + 1e-9 * (offset > 0.0))
    assert len(np.unique(np.round(depth, 3))) >= 3
    assert len(vertex) >= 60


@pytest.mark.parametrize("build", BUILD)
def test_sphere_in_a_plate_is_exact(build):
    """Give the vertices of a ball that dips into a plane their depths below it."""
    dipping = BUILD[build](ball(8, radius=0.8, center=(0.02, 0.05, 0.45)))
    vertex, x, depth, direction = DepthQuery(dipping, plate()).of(0, 1)

    np.testing.assert_allclose(depth, -x[:, 2], rtol=0.0, atol=4e-15)
    np.testing.assert_allclose(direction, np.tile(UP, (len(vertex), 1)), rtol=0.0, atol=4e-15)
    assert len(vertex) > 20


def test_vertices_on_the_surface_have_no_depth():
    """Let a box that stands on a plate touch it, with depth 0 and straight up; one layer lower it has a layer's."""
    below = plate()
    standing = shapes.tet_box(3, 3, 3, size=1.5, center=(0.1, 0.1, 0.75))
    vertex, x, depth, direction = DepthQuery(standing, below).of(0, 1)
    np.testing.assert_array_equal(depth, 0.0)
    np.testing.assert_array_equal(direction, np.tile(UP, (16, 1)))
    assert len(vertex) == 16

    standing.update(standing.vertices - (0.0, 0.0, 0.5))
    vertex, x, depth, direction = DepthQuery(standing, below).of(0, 1)
    np.testing.assert_array_equal(depth, -x[:, 2])
    np.testing.assert_array_equal(direction, np.tile(UP, (32, 1)))
    assert len(vertex) == 32


# The published method, in plain Python ---------------------------------------------------------------


def leave(p, o, corners):
    """Where segment po leaves a convex body: the share of the way, the triangle and its weights."""
    best = (-1.0, None, None)
    for t, (a, b, c) in enumerate(corners):
        try:
            u, v, share = np.linalg.solve(np.stack([b - a, c - a, p - o], axis=1), p - a)
        except np.linalg.LinAlgError:
            continue
        if min(u, v, 1.0 - u - v) >= 0.0 and 0.0 <= share <= 1.0 and share > best[0]:
            best = share, t, np.array([1.0 - u - v, u, v])
    return best


def normals_of(x, faces):
    """Mean normals at vertices, as the module says."""
    total = np.zeros_like(x)
    for face in faces:
        for k in range(3):
            a, b = x[face[(k + 1) % 3]] - x[face[k]], x[face[(k + 2) % 3]] - x[face[k]]
            total[face[k]] += np.cross(a, b) / (a @ a * (b @ b))
    return total / np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-300)


def by_the_paper(x, elements, colliding, y, faces):
    """Depths and directions of colliding vertices of a mesh in a convex body, by vertex; border and rounds only."""
    edges = {(i, j) for row in elements.tolist() for i in row for j in row if i != j}
    normals, found = normals_of(y, faces), {}
    for p in colliding:
        d, r, total = 0.0, np.zeros(3), 0.0
        for _, o in sorted(edge for edge in edges if edge[0] == p and edge[1] not in colliding):
            share, t, weights = leave(x[p], x[o], y[faces])
            n = weights @ normals[faces[t]]
            n, gap = n / np.linalg.norm(n), share * (x[o] - x[p])
            d, r, total = d + gap @ n / (gap @ gap), r + n / (gap @ gap), total + 1.0 / (gap @ gap)
        if total:
            found[p] = max(d / total, 0.0), r / np.linalg.norm(r)
    while True:
        reached = {}
        for p in colliding - set(found):
            d, r, total = 0.0, np.zeros(3), 0.0
            for q in [j for i, j in edges if i == p and j in found]:
                gap = x[q] - x[p]
                mu = 1.0 / (gap @ gap)
                d, r, total = d + mu * (gap @ found[q][1] + found[q][0]), r + mu * found[q][1], total + mu
            if total:
                reached[p] = max(d / total, 0.0), r / np.linalg.norm(r)
        if not reached:
            return found
        found |= reached


@pytest.mark.medium
@pytest.mark.parametrize("penetrated", BUILD)
@pytest.mark.parametrize("penetrating", BUILD)
def test_published_method_against_plain_python(penetrating, penetrated):
    """Equal the formulas of the paper, written down again without trees, kernels or exact signs."""
    a = BUILD[penetrating](shapes.tet_box(5, 5, 5, size=1.1, center=(0.4, 0.33, 0.71)))
    b = BUILD[penetrated](ball(4))
    query = DepthQuery(a, b, depth=partial(consistent_depth, foot_steps=0))
    vertex, _, depth, direction = query.of(0, 1)
    elements = query.states[0].topology.elements
    surface = query.states[1].topology.boundary.faces
    found = by_the_paper(a.vertices, elements, set(vertex.tolist()), b.vertices, surface)

    assert sorted(found) == vertex.tolist()
    np.testing.assert_allclose(depth, [found[v][0] for v in vertex], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(direction, [found[v][1] for v in vertex], rtol=0.0, atol=1e-12)
    assert len(vertex) > 20


# Curves: convergence and smoothness -------------------------------------------------------------------


def two_balls(build, level, overlap=0.3):
    """Balls of radius 1, the first above the second."""
    center = (0.03, 0.02, 2.0 - overlap)
    if build == "tets":
        return ball(4 * 2**level, center=center), ball(4 * 2**level)
    return shapes.icosphere(2 + level, center=center), shapes.icosphere(2 + level)


def in_unit_ball(x, depth, direction):
    """Largest errors of depths and directions inside a ball of radius 1 about the origin."""
    length = np.linalg.norm(x, axis=1)
    return np.abs(depth - (1.0 - length)).max(), np.linalg.norm(direction - x / length[:, None], axis=1).max()


@pytest.mark.medium
@pytest.mark.parametrize("build", BUILD)
@pytest.mark.parametrize("overlap", [0.15, 0.4])
def test_two_balls_converge(build, overlap):
    """Approach the true depth of every vertex of a ball in a ball as meshes are refined, nearly by h², and outwards."""
    errors = []
    for level in range(3):
        _, x, depth, direction = DepthQuery(*two_balls(build, level, overlap)).of(0, 1)
        error, turn = in_unit_ball(x, depth, direction)
        errors.append(error)
        assert turn < 0.01
    assert errors[1] < 0.65 * errors[0]
    assert errors[2] < (0.65 if build == "tets" else 0.35) * errors[1]


@pytest.mark.medium
def test_plate_in_a_ball_converges():
    """Approach the true depth of the vertices of a flat body in a ball."""
    errors = []
    for cells in (4, 8, 16):
        flat = shapes.tet_box(cells, cells, cells // 2, size=(2.0, 2.0, 1.0), center=(0.01, 0.02, 1.3))
        _, x, depth, direction = DepthQuery(flat, ball(cells)).of(0, 1)
        errors.append(in_unit_ball(x, depth, direction)[0])
    assert errors[1] < 0.7 * errors[0]
    assert errors[2] < 0.5 * errors[1]


@pytest.mark.parametrize("build", BUILD)
def test_box_in_a_box_converges(build):
    """Be exact wherever the upper side of a box is flat for a triangle around: everywhere, as the box is refined."""
    errors = []
    for cells in (2, 4, 8):
        small = shapes.tet_box(4, 4, 4, size=1.8, center=(0.02, 0.01, 0.6))
        _, x, depth, _ = DepthQuery(BUILD[build](small), BUILD[build](plate(cells))).of(0, 1)
        errors.append(np.abs(depth + x[:, 2]).max())
    assert errors[0] >= errors[1] >= errors[2]
    assert errors[2] < 1e-14


def test_published_method_does_not_converge_in_a_ball():
    """Hold what the module says of the published method: without the steps to feet an error stays."""
    errors = []
    for level in (1, 2):
        a, b = two_balls("triangles", level, 0.2)
        states = [state_of(a), state_of(b)]
        contacts = contacts_of([a, b], states)
        depth, _ = consistent_depth(states, contacts, foot_steps=0)
        rows = contacts.body == 0
        true = 1.0 - np.linalg.norm(a.vertices[contacts.vertex[rows]], axis=1)
        errors.append(np.max(depth[rows] - true) / true.max())
    assert min(errors) > 0.3
    assert abs(errors[1] - errors[0]) < 0.05


@pytest.mark.medium
@pytest.mark.parametrize("build", BUILD)
def test_neighbours_agree(build):
    """Let depth and direction of neighbours differ by no more than a multiple of the edge between them."""
    jumps = []
    for level in range(3):
        query = DepthQuery(*two_balls(build, level, 0.4))
        vertex, x, depth, direction = query.of(0, 1)
        row = np.full(len(query.states[0].positions), -1)
        row[vertex] = np.arange(len(vertex))
        start, neighbour = query.states[0].topology.vertex_neighbour
        i, j = row[np.repeat(np.arange(len(row)), np.diff(start))], row[neighbour]
        i, j = i[(i >= 0) & (j >= 0)], j[(i >= 0) & (j >= 0)]
        length = np.linalg.norm(x[i] - x[j], axis=1)
        assert (np.abs(depth[i] - depth[j]) <= 1.1 * length).all()
        assert (np.linalg.norm(direction[i] - direction[j], axis=1) <= 2.5 * length).all()
        jumps.append(np.linalg.norm(direction[i] - direction[j], axis=1).max())
    assert jumps[1] < 0.75 * jumps[0]
    assert jumps[2] < 0.75 * jumps[1]


def test_neighbours_leave_a_thin_plate_on_one_side():
    """Let a ball leave a plate the way it came, though the other side is nearer to its lowest vertices."""
    thin, dipping = plate(16, thickness=0.4), ball(8, radius=0.6, center=(0.02, 0.05, 0.3))
    vertex, x, depth, direction = DepthQuery(dipping, thin).of(0, 1)

    np.testing.assert_allclose(depth, -x[:, 2], rtol=0.0, atol=1e-14)
    np.testing.assert_allclose(direction, np.tile(UP, (len(vertex), 1)), rtol=0.0, atol=1e-14)
    assert (impinge.closest_points(thin, x).point[:, 2] < -0.3).sum() > 3


# Invariance -------------------------------------------------------------------------------------------


def bumpy_pair():
    """A ball and a box with bumps on, of tets, well into each other."""
    a, b = ball(6, center=(0.1, 0.2, 0.9)), shapes.tet_box(6, 6, 6, size=1.6)
    b.update(b.vertices * (1.0 + 0.1 * np.sin(5.0 * b.vertices[:, ::-1])))
    return a, b


def by_key(query, rename=lambda body: body):
    """Depth and direction of each contact, by body, vertex and penetrated body."""
    c = query.contacts
    keys = zip(c.body.tolist(), c.vertex.tolist(), c.in_body.tolist())
    return {
        (rename(i), v, rename(j)): (d, *r)
        for (i, v, j), d, r in zip(keys, query.depth.tolist(), query.direction.tolist())
    }


def test_order_of_bodies_changes_no_bit():
    """Give the same bits whatever the order of the bodies and the other bodies of the query."""
    a, b = bumpy_pair()
    expected = by_key(DepthQuery(a, b))
    among_others = {(i + 1, v, j + 1): row for (i, v, j), row in expected.items()}
    assert by_key(DepthQuery(b, a), rename=lambda body: 1 - body) == expected
    assert by_key(DepthQuery(plate(2), a, b)).items() >= among_others.items()


def test_motion_and_scale_change_rounding_only():
    """Follow rotation, translation and scale."""
    a, b = bumpy_pair()
    still = DepthQuery(a, b)
    matrix = turned(shift=(3.0, -2.0, 5.0))
    moving = DepthQuery(a, b, transforms=[matrix, matrix])
    np.testing.assert_array_equal(moving.contacts.vertex, still.contacts.vertex)
    np.testing.assert_allclose(moving.depth, still.depth, rtol=0.0, atol=1e-13)
    np.testing.assert_allclose(moving.direction, still.direction @ matrix[:3, :3].T, rtol=0.0, atol=1e-12)

    scale = np.diag([0.3, 0.3, 0.3, 1.0])
    small = DepthQuery(a, b, transforms=[scale, scale])
    np.testing.assert_allclose(small.depth, 0.3 * still.depth, rtol=0.0, atol=1e-14)
    np.testing.assert_allclose(small.direction, still.direction, rtol=0.0, atol=1e-12)


def test_mirrored_bodies_leave_the_mirrored_way():
    """Find the way out of bodies whose transform turns their faces inwards, on the surface too."""
    a, b = plate(), shapes.tet_box(3, 3, 3, size=1.5, center=(0.1, 0.1, 0.25))
    mirror = np.diag([1.0, 1.0, -1.0, 1.0])
    still, mirrored = DepthQuery(a, b), DepthQuery(a, b, transforms=[mirror, mirror])
    np.testing.assert_array_equal(mirrored.depth, still.depth)
    np.testing.assert_allclose(mirrored.direction, still.direction * (1.0, 1.0, -1.0), rtol=0.0, atol=1e-15)
    assert (still.depth == 0.0).any()


def test_transform_equals_update():
    """Give the same bits for a transform as for vertices that were moved by it."""
    a, b = bumpy_pair()
    matrix = turned(0.3, shift=(0.1, 0.0, 0.05))
    expected = DepthQuery(a, b, transforms=[matrix, None])
    a.update(impinge.mesh.transform.transform_points(matrix, a.vertices))
    assert by_key(DepthQuery(a, b)) == by_key(expected)


@pytest.mark.parametrize("exponent", [-600, -70, 70, 330])
def test_powers_of_two_change_no_bit(exponent):
    """Give the same bits at any scale, where squares of lengths are no numbers any more."""
    a, b = bumpy_pair()
    still, local = DepthQuery(a, b), DepthQuery(a, b, depth=local_depth)
    for body in (a, b):
        body.update(np.ldexp(body.vertices, exponent))
    np.testing.assert_array_equal(DepthQuery(a, b).depth, np.ldexp(still.depth, exponent))
    np.testing.assert_array_equal(DepthQuery(a, b).direction, still.direction)
    np.testing.assert_array_equal(DepthQuery(a, b, depth=local_depth).depth, np.ldexp(local.depth, exponent))
    np.testing.assert_array_equal(DepthQuery(a, b, depth=local_depth).direction, local.direction)


def test_offset_of_a_million_costs_digits_only():
    """Answer a million away from the origin with the digits that are left."""
    a, b = bumpy_pair()
    still = DepthQuery(a, b)
    for body in (a, b):
        body.update(body.vertices + np.array([1e6, -1e6, 1e6]))
    far = DepthQuery(a, b)
    np.testing.assert_array_equal(far.contacts.vertex, still.contacts.vertex)
    np.testing.assert_allclose(far.depth, still.depth, rtol=0.0, atol=1e-8)
    np.testing.assert_allclose(far.direction, still.direction, rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("depth", [consistent_depth, local_depth])
def test_threads_change_no_bit(depth):
    """Give the same bits serial and on threads, time and again."""
    a, b = ball(12, center=(0.1, 0.2, 0.7)), ball(12)
    expected = DepthQuery(a, b, depth=depth)
    for variant in ("serial", "parallel", "parallel"):
        with jit.launch_always(variant):
            found = depth(expected.states, expected.contacts)
        np.testing.assert_array_equal(found[0], expected.depth)
        np.testing.assert_array_equal(found[1], expected.direction)
    assert len(np.unique(expected.contacts.vertex)) > 300


# Bodies that change -----------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [consistent_depth, local_depth])
@pytest.mark.parametrize("matrix", [None, turned(0.1)], ids=["still", "moved"])
def test_states_stay_as_they_were_seen(depth, matrix):
    """Answer about the bodies as they were seen, although they were moved and cut since."""
    a, b = bumpy_pair()
    expected = DepthQuery(a, b, depth=depth, transforms=[matrix, None])
    a.update(0.5 * a.vertices)
    b.update(b.vertices + 0.1)
    b.remove_tets(np.arange(300))
    found = depth(expected.states, expected.contacts)
    np.testing.assert_array_equal(found[0], expected.depth)
    np.testing.assert_array_equal(found[1], expected.direction)


def test_topology_is_kept_until_an_edit():
    """Make neighbours once for a body that moves, and again when tets are removed or renumbered."""
    body = plate(2)
    first = state_of(body).topology
    body.update(body.vertices + 1.0)
    assert state_of(body).topology is first
    body.remove_tets([0])
    cut = state_of(body).topology
    assert cut is not first
    assert len(cut.live) == len(first.live) - 1
    body.compact()
    assert len(state_of(body).topology.elements) == len(cut.live)


def test_a_tet_mesh_and_its_surface_have_topologies_of_their_own():
    """Give the surface of a tet mesh the same depths before and after a query for its tets."""
    ball = shapes.icosphere(3, radius=0.6, center=(0.6, 0.1, 0.1))
    tets, fresh = shapes.tet_box(6, 6, 6, size=1.0), shapes.tet_box(6, 6, 6, size=1.0)
    impinge.penetrating_vertices([tets], depth=True)
    found, expected = (impinge.penetrating_vertices([one.surface, ball], depth=True) for one in (tets, fresh))

    assert len(expected) > 100
    np.testing.assert_array_equal(found.depth, expected.depth)


def test_removed_tets_leave_a_way_out():
    """Let vertices leave through a hole: the surface is that of the tets that are left."""
    below = plate(8)
    middle = np.abs(below.vertices[below.tets].mean(axis=1)[:, :2]).max(axis=1) < 1.0
    below.remove_tets(middle & (below.vertices[below.tets].mean(axis=1)[:, 2] > -0.5))
    pin = shapes.tet_box(2, 2, 4, size=(0.6, 0.6, 1.2), center=(0.03, 0.02, -0.13))
    vertex, x, depth, direction = DepthQuery(pin, below).of(0, 1)
    np.testing.assert_allclose(depth, -0.5 - x[:, 2], rtol=0.0, atol=1e-14)
    np.testing.assert_allclose(direction, np.tile(UP, (len(vertex), 1)), rtol=0.0, atol=1e-14)
    assert len(vertex) == 9


# A body inside itself ---------------------------------------------------------------------------------


BEND = np.radians(110.0)
"""Angle of the arc that leads to either arm of the bent bar: beyond a right angle they come together."""


def bent_bar(cells):
    """A bar bent to a U whose short arm, which is narrower, ends inside the long one; and which vertices are on it."""
    bar = shapes.tet_box(14 * cells, cells, cells, size=(14.0, 1.0, 1.0), center=(-1.0, 0.0, 0.0))
    s, u, w = bar.vertices.T
    angle = np.minimum(np.abs(s) / 1.5, BEND)
    ahead = np.maximum(np.abs(s) - 1.5 * BEND, 0.0)
    x = -(1.5 + u) * np.cos(angle) + ahead * np.sin(angle)
    y = (1.5 + u) * np.sin(angle) + ahead * np.cos(angle)
    bar.update(np.stack([x, np.where(s < 0.0, -y, y), np.where(s > 0.0, 1.0 - 0.1 * s, 1.0) * w], axis=1))
    return bar, s > 0.0


@pytest.mark.parametrize("cells", [4, 6])
def test_arm_leaves_the_other_arm_of_a_bent_bar(cells):
    """Give the vertices of one arm the depth below the inner side of the other, and the way back."""
    bar, is_short = bent_bar(cells)
    assert (bar.volumes > 0.0).all()
    vertex, x, depth, direction = DepthQuery(bar).of(0, 0)
    short = is_short[vertex]
    inner = np.array([-np.cos(BEND), -np.sin(BEND), 0.0])  # from the inner to the outer side of the long arm
    start = 1.5 * inner  # where its straight part begins, on its middle line
    below = (x - start) @ inner + 0.5

    np.testing.assert_allclose(depth[short], below[short], rtol=0.0, atol=1e-13)
    np.testing.assert_allclose(direction[short], np.tile(-inner, (short.sum(), 1)), rtol=0.0, atol=1e-13)
    assert (direction[~short, 1] < 0.0).mean() > 0.9
    assert short.sum() >= 10
    assert (~short).sum() >= 2


def joined(*bodies):
    """One body of several tet meshes, not connected."""
    first = np.cumsum([0, *(len(body.vertices) for body in bodies)])
    return TetMesh(
        np.concatenate([body.vertices for body in bodies]),
        np.concatenate([body.tets + start for body, start in zip(bodies, first)]),
    )


def test_piece_inside_another_piece_of_the_same_body():
    """Let a piece that is wholly inside another piece of its body leave through the surface of that one."""
    outer, inner = shapes.tet_box(4, 4, 4, size=4.0), shapes.tet_box(2, 2, 2, size=1.0, center=(1.3, 0.1, 0.2))
    vertex, x, depth, direction = DepthQuery(joined(outer, inner)).of(0, 0)
    is_inner = vertex >= len(outer.vertices)
    assert is_inner.sum() == 27
    np.testing.assert_allclose(depth[is_inner], 2.0 - x[is_inner, 0], rtol=0.0, atol=1e-15)
    np.testing.assert_allclose(direction[is_inner], np.tile([1.0, 0.0, 0.0], (27, 1)), rtol=0.0, atol=1e-15)


def test_two_pieces_in_the_same_place():
    """Survive a body that is there twice: on the surface depth 0, inside what the neighbours say."""
    box = shapes.tet_box(4, 4, 4, size=4.0)
    vertex, x, depth, _ = DepthQuery(joined(box, box)).of(0, 0)
    on_surface = np.abs(x).max(axis=1) == 2.0
    np.testing.assert_array_equal(depth[on_surface], 0.0)
    assert (depth[~on_surface] > 0.0).all()
    assert len(vertex) == 2 * 125


# Wholly inside ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("penetrated", BUILD)
@pytest.mark.parametrize("penetrating", BUILD)
@pytest.mark.parametrize("depth", [consistent_depth, local_depth])
def test_submerged_body_leaves_by_the_nearest_point(penetrating, penetrated, depth):
    """Let a body without an edge through the surface leave through the nearest points of it."""
    small = BUILD[penetrating](ball(4, radius=0.3, center=(0.3, 0.2, 0.1)))
    large = BUILD[penetrated](shapes.tet_box(8, 8, 8, size=4.0))
    vertex, x, found, direction = DepthQuery(small, large, depth=depth).of(0, 1)
    nearest = impinge.closest_points(large, x)
    np.testing.assert_allclose(found, nearest.distance, rtol=1e-15)
    np.testing.assert_allclose(direction * found[:, None], nearest.point - x, rtol=0.0, atol=1e-14)
    assert len(vertex) == len(small.vertices)


def test_submerged_piece_beside_one_that_crosses():
    """Treat each piece of a body by itself."""
    crossing = shapes.tet_box(3, 3, 3, size=1.5, center=(0.1, 0.1, 0.6))
    sunk = shapes.tet_box(1, 1, 1, size=0.2, center=(1.1, 1.1, -0.8))
    _, x, depth, direction = DepthQuery(joined(crossing, sunk), plate()).of(0, 1)
    expected = np.where(x[:, 0] < 0.95, -x[:, 2], 1.0 + x[:, 2])
    np.testing.assert_allclose(depth, expected, rtol=0.0, atol=1e-14)
    np.testing.assert_allclose(direction[:, 2], np.where(x[:, 0] < 0.95, 1.0, -1.0), rtol=0.0, atol=1e-14)


# Degenerate input -------------------------------------------------------------------------------------


def test_nothing_inside():
    """Answer with no rows if there are none."""
    for depth in (consistent_depth, local_depth):
        found = depth([state_of(plate(2))], contacts_from([]))
        assert found[0].shape == (0,)
        assert found[1].shape == (0, 3)
        assert depth([], contacts_from([]))[0].shape == (0,)


@pytest.mark.tiny
def test_tip_of_a_tet():
    """Give the tip that pokes through a face the distance to its plane, and its normal, by symmetry."""
    a, b = TetMesh(6 * np.eye(4, 3, -1), [[0, 1, 2, 3]]), TetMesh(np.eye(4, 3, -1) * 5 + 1, [[0, 1, 2, 3]])
    vertex, _, depth, direction = DepthQuery(b, a).of(0, 1)
    np.testing.assert_array_equal(vertex, [0])
    np.testing.assert_allclose(depth, np.sqrt(3.0), rtol=1e-14)
    np.testing.assert_allclose(direction, np.full((1, 3), np.sqrt(1.0 / 3.0)), rtol=1e-14)


@pytest.mark.tiny
def test_opposing_normals_leave_by_the_nearest_point():
    """Let a vertex whose edges leave on both sides of a plate leave by the nearer one."""
    x = np.array([[0.1, 0.1, -0.45], [0.1, 0.1, 0.45], [0.3, 0.1, 0.45], [0.1, 0.1, -1.35], [0.3, 0.1, -1.35]])
    fan = TriMesh(x, [[0, 1, 2], [0, 3, 4]])
    below = shapes.tet_box(4, 4, 1, size=(4.0, 4.0, 0.9), center=(0.0, 0.0, -0.45))
    for shift in (0.0, 1e-9, -1e-9):
        fan.update(x + shift * UP)
        vertex, _, depth, direction = DepthQuery(fan, below).of(0, 1)
        np.testing.assert_array_equal(vertex, [0])
        np.testing.assert_allclose(depth, 0.45, rtol=1e-8)
        np.testing.assert_allclose(np.abs(direction), [UP], rtol=0.0, atol=1e-14)


def test_neighbours_at_the_same_place():
    """Take the depth of a neighbour that is at no distance, and no NaN."""
    below, grid = plate(), shapes.tet_box(3, 3, 6, size=(1.5, 1.5, 1.5), center=(0.1, 0.1, 0.1))
    x = grid.vertices.copy()
    x[x[:, 2] < -0.5] += (0.0, 0.0, 0.25)  # the two lowest layers become one
    grid.update(x)
    _, x, depth, direction = DepthQuery(grid, below).of(0, 1)
    np.testing.assert_allclose(depth, -x[:, 2], rtol=0.0, atol=1e-14)
    np.testing.assert_allclose(direction[:, 2], 1.0, rtol=1e-14)


def test_vertex_without_edges():
    """Let a vertex that no element uses leave by the nearest point, if a contact names it."""
    lonely = TriMesh([[0.0, 0.0, -0.1], [5.0, 0.0, 0.0], [6.0, 0.0, 0.0], [5.0, 1.0, 0.0]], [[1, 2, 3]])
    states = [state_of(lonely), state_of(plate())]
    depth, direction = consistent_depth(states, contacts_from([(0, 0, 1, 0)]))
    np.testing.assert_allclose(depth, 0.1, rtol=1e-15)
    np.testing.assert_allclose(direction, [UP], rtol=0.0, atol=1e-15)


def test_inside_out_and_flat_triangles_change_nothing():
    """Give the same depths for triangles that look inwards, and among others that have no area."""
    a, b = shapes.icosphere(2, center=(0.1, 0.03, 1.5)), shapes.icosphere(2)
    expected = DepthQuery(a, b)
    faces = b.faces.copy()
    flipped = DepthQuery(a, TriMesh(b.vertices, faces[:, ::-1]))
    np.testing.assert_allclose(flipped.depth, expected.depth, rtol=0.0, atol=1e-14)
    np.testing.assert_allclose(flipped.direction, expected.direction, rtol=0.0, atol=1e-14)
    flat = np.concatenate([faces, faces[:9, [0, 1, 1]], faces[:9, [2, 2, 2]]])
    among_flat = DepthQuery(a, TriMesh(b.vertices, flat))
    np.testing.assert_array_equal(among_flat.depth, expected.depth)
    np.testing.assert_array_equal(among_flat.direction, expected.direction)


def test_body_without_area():
    """Give some direction of length one even for a surface that has none."""
    nothing, lonely = TriMesh(np.ones((3, 3)), [[0, 1, 2]]), TriMesh(np.ones((3, 3)), [[0, 1, 2]])
    for depth in (consistent_depth, local_depth):
        found = depth([state_of(lonely), state_of(nothing)], contacts_from([(0, 0, 1, -1)]))
        np.testing.assert_array_equal(found[0], [0.0])
        np.testing.assert_array_equal(found[1], [UP])


@pytest.mark.parametrize("depth", [consistent_depth, local_depth])
def test_any_contacts_get_a_sound_answer(rng, depth):
    """Survive contacts of tangled bodies, where edges cross nothing, or leave where they should not."""
    for _ in range(20):
        bodies = [shapes.tet_box(2, 2, 2, size=2.0), shapes.tet_box(1, 2, 3, size=2.5), ball(2)]
        for body in bodies:
            body.update(np.round(body.vertices + 0.7 * rng.normal(size=body.vertices.shape), 1))
        rows = np.array([
            (i, rng.integers(len(bodies[i].vertices)), j, rng.integers(len(bodies[j].tets)))
            for i, j in rng.integers(3, size=(40, 2))
        ])  # fmt: skip
        states = [state_of(body) for body in bodies]
        contacts = contacts_from(np.unique(rows, axis=0))
        assert_sound(contacts, *depth(states, contacts))
        contacts = contacts_of(bodies, states, within=True)
        assert_sound(contacts, *depth(states, contacts))


def test_boxes_on_a_lattice_touch_without_depth(rng):
    """Give depth 0 to exactly the vertices that are on the surface, where boxes share corners, edges and planes."""
    touching = inside = 0
    for _ in range(40):
        size, shift = rng.integers(1, 5, size=3), rng.integers(-2, 3, size=3)
        a, b = shapes.tet_box(*size, center=shift + size / 2.0), shapes.tet_box(3, 3, 3, center=(1.5, 1.5, 1.5))
        vertex, x, depth, _ = DepthQuery(a, b).of(0, 1)
        on_surface = ((x == 0.0) | (x == 3.0)).any(axis=1)
        np.testing.assert_array_equal(depth[on_surface], 0.0)
        assert (depth[~on_surface] > 0.0).all()
        touching, inside = touching + on_surface.sum(), inside + len(vertex) - on_surface.sum()
    assert touching > 100
    assert inside > 20


# The local estimate -----------------------------------------------------------------------------------


def locally(state, normals, boundary, p, tet):
    """Rank, depth and direction from one tet, in plain NumPy; the rank is 2 if it has nothing of the surface."""
    x, topology = state.positions, state.topology
    corners = topology.elements[tet].tolist()
    found = []
    for k in range(4):
        face = corners[:k] + corners[k + 1 :]
        if frozenset(face) in boundary:
            n = np.cross(x[face[1]] - x[face[0]], x[face[2]] - x[face[0]])
            n *= -np.sign(n @ (x[corners[k]] - x[face[0]])) / np.linalg.norm(n)
            found.append((0, (x[face[0]] - p) @ n, tuple(n)))
    if not found:
        on = [v for v in corners if v in topology.boundary.faces]
        found = [(1, np.linalg.norm(x[v] - p), tuple(normals[v])) for v in on]
    return min(found, default=(2, 0.0, None))


def test_local_estimate_against_plain_python():
    """Take the nearest surface face of the tets around a vertex, else the nearest surface vertex, else any point."""
    a = shapes.tet_box(5, 5, 5, size=1.1, center=(0.4, 0.33, 0.31))
    b = shapes.tet_box(6, 6, 6, size=2.0)
    b.update(b.vertices + 0.05 * np.sin(4.0 * b.vertices[:, ::-1]))
    query = DepthQuery(a, b, depth=local_depth)
    c, faces = query.contacts, query.states[1].topology.boundary.faces
    at_tet = partial(locally, query.states[1], normals_of(b.vertices, faces), set(map(frozenset, faces.tolist())))
    ranks = []
    for v in np.unique(c.vertex[c.body == 0]):
        rows = np.flatnonzero((c.vertex == v) & (c.body == 0))
        p = a.vertices[v]
        rank, depth, direction = min(at_tet(p, tet) for tet in c.tet[rows])
        if rank == 2:
            nearest = impinge.closest_points(b, [p])
            depth, direction = nearest.distance[0], (nearest.point[0] - p) / nearest.distance[0]
        np.testing.assert_allclose(query.depth[rows[0]], depth, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(query.direction[rows[0]], direction, rtol=0.0, atol=1e-12)
        ranks.append(rank)
    assert np.bincount(ranks).min() > 5


# Options ----------------------------------------------------------------------------------------------


def test_bad_transform_is_refused():
    """Say what is wrong with a transform."""
    with pytest.raises(OptionError, match=r"transform has shape \(3, 3\), expected \(4, 4\)"):
        state_of(plate(2), np.eye(3))
    with pytest.raises(OptionError, match="transform moves a vertex beyond the range of doubles"):
        state_of(plate(2), np.diag([1.7e308, 1.0, 1.0, 1.0]))
