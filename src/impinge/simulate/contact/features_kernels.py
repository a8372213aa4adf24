"""Numbers of faces and edges by their vertices, for ``features``."""

# mypy: ignore-errors

from impinge.backend.jit import compiled

VERTEX_FACE, EDGE_EDGE = 0, 2
"""Kinds of pairs; the remaining one is 1, a face and a vertex."""


@compiled
def find_features(rows, side, kind, vertices, live, faces, start, triangle, edges, feature):
    """Write the vertex, face or edge that pairs have on one side; -1 where it is no longer on the surface.

    ``start`` and ``triangle`` list the rows of ``faces`` around each vertex, ``live`` are the ids of these rows.
    """
    for row in rows:
        if kind[row] == EDGE_EDGE:
            a, b = vertices[row, 2 * side], vertices[row, 2 * side + 1]
            a, b = min(a, b), max(a, b)
            lo, hi = 0, len(edges)
            while lo < hi:
                middle = (lo + hi) // 2
                if edges[middle, 0] < a or (edges[middle, 0] == a and edges[middle, 1] < b):
                    lo = middle + 1
                else:
                    hi = middle
            if lo < len(edges) and edges[lo, 0] == a and edges[lo, 1] == b:
                feature[row] = lo
        elif (kind[row] == VERTEX_FACE) == (side == 0):
            feature[row] = vertices[row, 3 * side]
        else:
            a, b, c = vertices[row, side], vertices[row, side + 1], vertices[row, side + 2]
            for k in range(start[a], start[a + 1]):
                face = faces[triangle[k], 0], faces[triangle[k], 1], faces[triangle[k], 2]
                if b in face and c in face:
                    feature[row] = live[triangle[k]]
                    break
