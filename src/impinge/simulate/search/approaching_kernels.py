"""Which vertices face the surface that they approach, for ``approaching``."""

# mypy: ignore-errors

from impinge.backend.jit import kernel, prange
from impinge.detect.depth.surface_normals_kernels import vertex_normal
from impinge.exact.orientation import point
from impinge.exact.triangle_triangle import dot


@kernel(parallel_from=512)
def find_facing(vertex, direction, surface, least, faces):
    """Set ``faces`` where the normal of a vertex and the direction have a cosine of at least ``least``, up to sign."""
    for i in prange(len(vertex)):
        faces[i] = abs(dot(vertex_normal(vertex[i], surface), point(direction, i))) >= least
