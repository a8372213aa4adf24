"""Vector arithmetic, and normals of a surface.

A surface is (x, faces, start, triangle), the last two a CSR list of the triangles around vertices.
"""

# mypy: ignore-errors

import math

from impinge.backend.jit import compiled
from impinge.detect.proximity.features_kernels import mixed
from impinge.exact.orientation import point
from impinge.exact.triangle_triangle import cross, dot, minus

CANCELLED = 2.0**-20
"""Length of a mean of unit vectors below which its direction is noise."""
LEAST_COSINE = 0.5
"""Of the angle that a mixed normal may have to that of its triangle, and by which steps to feet may turn a normal."""


@compiled
def unit(v):
    """The unit vector, at any scale; zeros for a zero vector."""
    size = max(abs(v[0]), abs(v[1]), abs(v[2]))
    if not size > 0.0:
        return 0.0, 0.0, 0.0
    x, y, z = v[0] / size, v[1] / size, v[2] / size
    length = math.sqrt(x * x + y * y + z * z)
    return x / length, y / length, z / length


@compiled
def unit_rows(vectors, out):
    """Normalise each row; rows of zeros stay zero."""
    for i in range(len(vectors)):
        write(out, i, unit(point(vectors, i)))


@compiled
def times(v, factor):
    """The vector times a factor."""
    return v[0] * factor, v[1] * factor, v[2] * factor


@compiled
def plus(a, b):
    """The sum of two vectors."""
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


@compiled
def is_zero(v):
    """Whether all components are zero."""
    return v[0] == 0.0 and v[1] == 0.0 and v[2] == 0.0


@compiled
def write(rows, i, v):
    """Write the vector to row ``i``."""
    rows[i, 0], rows[i, 1], rows[i, 2] = v


@compiled
def outward_sign(x, faces):
    """The factor that turns normals outwards: 1.0, or -1.0 if the faces enclose a negative volume."""
    volume = 0.0
    for t in range(len(faces)):
        a, b, c = point(x, faces[t, 0]), point(x, faces[t, 1]), point(x, faces[t, 2])
        volume += dot(minus(a, point(x, faces[0, 0])), cross(minus(b, a), minus(c, a)))
    return -1.0 if volume < 0.0 else 1.0


@compiled
def vertex_normal(v, surface):
    """The mean normal Σ a × b / |a|² |b|² over the triangles around a vertex, a and b their sides there [Max1999]."""
    x, faces, start, tri = surface
    total = 0.0, 0.0, 0.0
    p = point(x, v)
    for i in range(start[v], start[v + 1]):
        t = tri[i]
        k = 0 if faces[t, 0] == v else 1 if faces[t, 1] == v else 2
        total = plus(total, corner_normal(p, point(x, faces[t, (k + 1) % 3]), point(x, faces[t, (k + 2) % 3])))
    return unit(total)


@compiled
def corner_normal(p, q, r):
    """The contribution of triangle pqr to the normal of its corner p."""
    a, b = minus(q, p), minus(r, p)
    product = dot(a, a) * dot(b, b)
    return times(cross(a, b), 1.0 / product) if product > 0.0 else (0.0, 0.0, 0.0)


@compiled
def normal_at(ca, cb, cc, u, v, w, surface):
    """The normal at a point of a triangle, mixed from those of its corners."""
    of_a, of_b, of_c = vertex_normal(ca, surface), vertex_normal(cb, surface), vertex_normal(cc, surface)
    a, b, c = point(surface[0], ca), point(surface[0], cb), point(surface[0], cc)
    return mixed_normal(mixed(u, of_a, v, of_b, w, of_c), a, b, c)


@compiled
def mixed_normal(mean, a, b, c):
    """A mean of the normals of the corners of triangle abc, at length one.

    The triangle's own, if that is more than 60 degrees off, as on a spike: there the mean may even point inwards.
    """
    n, own = unit(mean), unit(cross(minus(b, a), minus(c, a)))
    return n if dot(n, own) >= LEAST_COSINE or is_zero(own) else own


@compiled
def write_normals(corner, weight, surface, out):
    """The outward normals at points of triangles, one per row; the z axis where the surface has no area."""
    outward = outward_sign(surface[0], surface[1])
    for i in range(len(corner)):
        n = normal_of_row(i, corner, weight, surface)
        write(out, i, (0.0, 0.0, 1.0) if is_zero(n) else times(n, outward))


@compiled
def normal_of_row(i, corner, weight, surface):
    """The normal at the point of row ``i``, given by corners and weights."""
    return normal_at(
        corner[i, 0], corner[i, 1], corner[i, 2], weight[i, 0], weight[i, 1], weight[i, 2], surface
    )  # fmt: skip
