"""Edges through faces: exact signs, and coordinates in doubles; see ``edge_crossings``."""

# mypy: ignore-errors

from impinge.backend.jit import compiled
from impinge.exact.kinds import CROSSING, NONE, TOUCHING
from impinge.exact.orientation import orient3d, point
from impinge.exact.triangle_triangle import cross, dot, minus


@compiled
def _size(u):
    return max(abs(u[0]), abs(u[1]), abs(u[2]))


@compiled
def _scaled(u, factor):
    return u[0] * factor, u[1] * factor, u[2] * factor


@compiled
def _unit(u, v):
    """Two vectors, scaled by one factor: their products stay in the range of doubles."""
    size = max(_size(u), _size(v))
    if size == 0.0:
        return u, v
    return (u[0] / size, u[1] / size, u[2] / size), (v[0] / size, v[1] / size, v[2] / size)


@compiled
def parameter(u, v, p, q, r, side_u, side_v):
    """Parameter where segment uv meets plane pqr, 0 at u to 1 at v; the ends are not on the same side."""
    if side_u == 0:
        return 0.0
    if side_v == 0:
        return 1.0
    # Heights over the plane are h(u) and h(v), of different signs; h(u + t (v - u)) = 0 at t = h(u) / (h(u) - h(v)).
    normal = cross(*_unit(minus(q, p), minus(r, p)))
    up, vp = _unit(minus(u, p), minus(v, p))
    height_u, height_v = abs(dot(normal, up)), abs(dot(normal, vp))
    total = height_u + height_v
    return height_u / total if total > 0.0 else 0.5


@compiled
def on_segment(u, v, t):
    """The point at ``t``, 0 at u to 1 at v; exactly u or v there."""
    s = 1.0 - t
    return s * u[0] + t * v[0], s * u[1] + t * v[1], s * u[2] + t * v[2]


@compiled
def _weights(u, v, p, q, r, sides):
    """Weights of the corners of face pqr where line uv passes through it."""
    d, _ = _unit(minus(v, u), minus(v, u))
    p, q, r = minus(p, u), minus(q, u), minus(r, u)
    size = max(_size(p), _size(q), _size(r))
    factor = 1.0 / size if size > 1e-300 else 1.0
    p, q, r = _scaled(p, factor), _scaled(q, factor), _scaled(r, factor)
    # Volumes spanned by the line and each opposite edge; exactly 0 where the line meets that edge.
    wp = 0.0 if sides[1] == 0 else abs(dot(d, cross(q, r)))
    wq = 0.0 if sides[2] == 0 else abs(dot(d, cross(r, p)))
    wr = 0.0 if sides[0] == 0 else abs(dot(d, cross(p, q)))
    total = wp + wq + wr
    if total > 0.0:
        return wp / total, wq / total, wr / total
    return 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0


@compiled
def crossing(u, v, p, q, r):
    """Crossing of segment uv and face pqr: kind, direction along the face's normal, parameter, weights."""
    nowhere = NONE, 0, 0.0, (0.0, 0.0, 0.0)
    side_u, side_v = orient3d(p, q, r, u), orient3d(p, q, r, v)
    if side_u == side_v:
        return nowhere
    sides = orient3d(u, v, p, q), orient3d(u, v, q, r), orient3d(u, v, r, p)
    if min(sides) < 0 < max(sides):
        return nowhere
    kind = CROSSING if side_u * side_v != 0 and sides[0] * sides[1] * sides[2] != 0 else TOUCHING
    t = parameter(u, v, p, q, r, side_u, side_v)
    return kind, 1 if side_v > side_u else -1, t, _weights(u, v, p, q, r, sides)


@compiled
def cross_edges(x_a, edge, x_b, faces_b, face, kind, sign, along, weights):
    """Test each edge of a, two vertices, against the face of b in the same row."""
    for i in range(len(face)):
        f = face[i]
        p, q, r = point(x_b, faces_b[f, 0]), point(x_b, faces_b[f, 1]), point(x_b, faces_b[f, 2])
        u, v = point(x_a, edge[i, 0]), point(x_a, edge[i, 1])
        kind[i], sign[i], along[i], corner = crossing(u, v, p, q, r)
        weights[i, 0], weights[i, 1], weights[i, 2] = corner
