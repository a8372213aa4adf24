"""Vertices sorted into cells, and eight tets at a time against the vertices in their cells; see ``cells``."""

# mypy: ignore-errors

import numpy as np

from impinge.backend.claim import claim
from impinge.backend.jit import compiled, inlined, kernel, prange
from impinge.backend.simd.boxes import WIDTH, lowest_bit, vertices_box
from impinge.backend.simd.tets import CORNER_ROWS, TET_ROWS, fit_tets, points_in_box, tets_around, tets_with_corner
from impinge.detect.boxes.hashed_grid_kernels import cells_between, find_slot, level_of, pack_cell
from impinge.detect.depth.edge_contacts_kernels import size
from impinge.detect.depth.surface_normals_kernels import times
from impinge.exact.orientation import orient3d, point
from impinge.exact.triangle_triangle import cross, dot, minus

TASK = 32
"""Clusters that a thread claims at a time."""
CORNERS = 4 * WIDTH
"""Corners of a cluster."""
INSIDE, OUTSIDE, UNSURE = range(3)
"""Position of a vertex relative to a tet, decided in doubles."""
HIGH, LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
"""A key is (vertex << HIGH) | tet."""
UNKNOWN = -9999
"""The level of a cluster before its first visit."""


@inlined
def corner_of(corner, slot, k):
    """Corner ``k`` of the tet in ``slot``: clusters of four rows, a row of eight for each corner."""
    return corner[(slot // WIDTH) * CORNERS + k * WIDTH + slot % WIDTH]


@compiled
def mean_half_edge(x, corner, tet, stride):
    """Half of the mean edge length of the tets in every ``stride``-th cluster; the whole mean may overflow."""
    total, count = 0.0, 0
    for c in range(0, len(corner) // CORNERS, stride):
        for slot in range(c * WIDTH, (c + 1) * WIDTH):
            if tet[slot] < 0:
                continue
            for m in range(4):
                for n in range(m):
                    p, q = corner_of(corner, slot, m), corner_of(corner, slot, n)
                    u = minus(times(point(x, p), 0.5), times(point(x, q), 0.5))
                    longest = size(u)
                    if longest > 0.0:
                        u = u[0] / longest, u[1] / longest, u[2] / longest
                        total += longest * np.sqrt(dot(u, u))
                    count += 1
    return min(total, 1e308) / max(count, 1)


@compiled
def farthest(x, vertex):
    """The largest absolute coordinate of the listed vertices; infinite if one of them is undefined."""
    largest, strange = 0.0, 0.0
    for n in range(len(vertex)):
        v = vertex[n]
        largest = max(largest, abs(x[v, 0]), abs(x[v, 1]), abs(x[v, 2]))
        strange += 0.0 * x[v, 0] + 0.0 * x[v, 1] + 0.0 * x[v, 2]  # NaN if one of them is not finite
    return largest if strange == 0.0 else np.inf


@kernel()
def find_keys(x, vertex, inverse, key):
    """The cell of each vertex."""
    for n in prange(len(vertex)):
        v = vertex[n]
        key[n] = pack_cell(np.floor(x[v, 0] * inverse), np.floor(x[v, 1] * inverse), np.floor(x[v, 2] * inverse))


@compiled
def sort_into_cells(x, vertex, inverse, cell_start, vertex_cell, place_x, place_y, place_z, place_id):
    """Copy vertices cell by cell: float32 offsets from the corner of the cell, and the id.

    ``cell_start`` is that of ``fill_table``; its ends become starts.
    """
    for n in range(len(vertex) - 1, -1, -1):
        v = vertex[n]
        cell_start[vertex_cell[n]] -= 1
        at = cell_start[vertex_cell[n]]
        a, b, c = x[v, 0] * inverse, x[v, 1] * inverse, x[v, 2] * inverse
        place_x[at], place_y[at], place_z[at] = a - np.floor(a), b - np.floor(b), c - np.floor(c)
        place_id[at] = v


# the search -----------------------------------------------------------------------------------------------


@inlined
def _fit_cluster(x, slot_corner, slot_tet, c, inverse, lo, length, corner, tet):
    """Fit eight tets, in cells from the lowest corner of their box; bits of all tets, of unsure and of inverted ones.

    A tet whose volume has an unsure sign accepts every vertex.
    """
    valid = np.uint64(0)
    for lane in range(WIDTH):
        valid |= np.uint64(slot_tet[c * WIDTH + lane] >= 0) << np.uint64(lane)
    for k in range(4):
        for lane in range(WIDTH):
            v = slot_corner[c * CORNERS + k * WIDTH + lane]
            for axis in range(3):
                corner[(3 * k + axis) * WIDTH + lane] = x[v, axis] * inverse - lo[axis]
    positive, negative = fit_tets(corner, tet, np.float32(2.0**-14 * length * (length + 1.0)))
    unsure = bits = valid & ~(positive | negative)
    while bits != 0:
        tet[(TET_ROWS - 1) * WIDTH + lowest_bit(bits)] = -np.inf
        bits &= bits - np.uint64(1)
    return valid, unsure, valid & negative


@inlined
def _as_floats(u, pad):
    return np.float32(u[0] + pad), np.float32(u[1] + pad), np.float32(u[2] + pad)


@inlined
def _search_cell(place, start, end, low, high, shift, tet, lanes, slot_corner, slot_tet, c, keys, found):
    """Vertices of one cell against eight tets, whose box is ``low`` to ``high`` from the corner of the cell."""
    place_x, place_y, place_z, place_id = place
    for at in range(start, end, WIDTH):
        near = points_in_box(place_x, place_y, place_z, at, low[0], low[1], low[2], high[0], high[1], high[2])
        if end - at < WIDTH:
            near &= (np.uint64(1) << np.uint64(end - at)) - np.uint64(1)
        while near != 0:
            n = at + lowest_bit(near)
            near &= near - np.uint64(1)
            bits = lanes & tets_around(tet, place_x[n] + shift[0], place_y[n] + shift[1], place_z[n] + shift[2])
            bits &= ~tets_with_corner(slot_corner, c * CORNERS, place_id[n])
            while bits != 0:
                if found < len(keys):
                    of_tet = np.uint64(slot_tet[c * WIDTH + lowest_bit(bits)])
                    keys[found] = (np.uint64(place_id[n]) << HIGH) | of_tet
                found += 1
                bits &= bits - np.uint64(1)
    return found


@kernel(parallel_from=TASK * 8)
def search(x, tets, levels, grid, threads, counter, keys, counts, unsure, inverted):
    """Candidates (vertex, tet) of all clusters of one level, per thread; counts continue beyond the room of ``keys``.

    ``tets`` is (slot_corner, slot_tet), ``levels`` (level of each cluster, the wanted level, the lowest one, 1 / cell
    size of level 0), ``grid`` that of ``CellSearch.hash_vertices``. ``unsure`` becomes the bits of possibly flat tets
    by cluster, ``inverted`` the number of certainly inverted tets by thread.
    """
    for thread in prange(threads):
        slot_corner, slot_tet = tets
        cluster_level, level, least_level, base = levels
        inverse, table, shift, cell_key, cell_start, place_x, place_y, place_z, place_id = grid
        place = place_x, place_y, place_z, place_id
        corner, tet = np.zeros(CORNER_ROWS * WIDTH, dtype=np.float32), np.zeros(TET_ROWS * WIDTH, dtype=np.float32)
        own_keys, found, inverted_count = keys[thread], 0, 0
        task = claim(counter)
        while task * TASK < len(cluster_level):
            for c in range(task * TASK, min((task + 1) * TASK, len(cluster_level))):
                if cluster_level[c] != UNKNOWN and cluster_level[c] != level:
                    continue
                first = c * CORNERS
                a, b, d, e, f, g = vertices_box(x, slot_corner, first, first + CORNERS)
                if cluster_level[c] == UNKNOWN:
                    extent = max(e * base - a * base, f * base - b * base, g * base - d * base)
                    cluster_level[c] = level_of(extent, least_level)
                    if cluster_level[c] != level:
                        continue
                lo, hi = (a * inverse, b * inverse, d * inverse), (e * inverse, f * inverse, g * inverse)
                length = max(hi[0] - lo[0], hi[1] - lo[1], hi[2] - lo[2])
                lanes, unsure[c], bits = _fit_cluster(
                    x, slot_corner, slot_tet, c, inverse, lo, length, corner, tet
                )  # fmt: skip
                while bits != 0:
                    inverted_count += 1
                    bits &= bits - np.uint64(1)
                pad = 2.0**-20 * (length + 1.0)
                i0, j0, k0 = np.floor(lo[0]), np.floor(lo[1]), np.floor(lo[2])
                for i in range(cells_between(i0, hi[0])):
                    for j in range(cells_between(j0, hi[1])):
                        for k in range(cells_between(k0, hi[2])):
                            at = i0 + i, j0 + j, k0 + k
                            cell = table[find_slot(table, shift, cell_key, pack_cell(*at))]
                            if cell < 0:
                                continue
                            found = _search_cell(
                                place, cell_start[cell], cell_start[cell + 1], _as_floats(minus(lo, at), -pad),
                                _as_floats(minus(hi, at), pad), _as_floats(minus(at, lo), 0.0), tet, lanes, slot_corner,
                                slot_tet, c, own_keys, found,
                            )  # fmt: skip
            task = claim(counter)
        counts[thread] = found
        inverted[thread] = inverted_count


# the answer -----------------------------------------------------------------------------------------------


@kernel(parallel_from=1024)
def filter_candidates(x, corner, slot_of, keys, known, barycentric):
    """Whether vertices are in tets, decided in doubles: INSIDE, OUTSIDE or UNSURE; and the weights of corners.

    Let the longest edge be 1 and q the distance of the vertex. The five determinants are off by less than
    2^-44 max(1, q): nine roundings of 2^-53, of at most six products of three numbers no greater than 2, 2 and 2 q.
    """
    for i in prange(len(keys)):
        slot = np.int64(slot_of[np.int64(keys[i] & LOW)])
        a, b = point(x, corner_of(corner, slot, 0)), point(x, corner_of(corner, slot, 1))
        c, d = point(x, corner_of(corner, slot, 2)), point(x, corner_of(corner, slot, 3))
        p = point(x, np.int64(keys[i] >> HIGH))
        u, v, w, q = minus(b, a), minus(c, a), minus(d, a), minus(p, a)
        factor = 1.0 / max(size(u), size(v), size(w), 1e-300)
        e, f, g = times(minus(c, b), factor), times(minus(d, b), factor), times(minus(p, b), factor)
        u, v, w, q = times(u, factor), times(v, factor), times(w, factor), times(q, factor)
        det = dot(cross(u, v), w)
        sign = 1.0 if det > 0.0 else -1.0
        of_a, of_b = -sign * dot(cross(e, f), g), sign * dot(cross(v, w), q)
        of_c, of_d = sign * dot(cross(w, u), q), sign * dot(cross(u, v), q)
        bound = 2.0**-44 * max(1.0, size(q))
        least = min(of_a, of_b, of_c, of_d)
        if abs(det) > bound and least > bound:
            known[i] = INSIDE
        elif abs(det) > bound and least < -bound:
            known[i] = OUTSIDE
        else:
            known[i] = UNSURE
        of_a, of_b, of_c, of_d = max(of_a, 0.0), max(of_b, 0.0), max(of_c, 0.0), max(of_d, 0.0)
        total = of_a + of_b + of_c + of_d
        barycentric[i, 0], barycentric[i, 1] = of_a / total, of_b / total
        barycentric[i, 2], barycentric[i, 3] = of_c / total, of_d / total


@compiled
def exact_sides(x, corner, slots, vertices, sides):
    """Five exact signs for each vertex and tet: the side of the faces opposite to corners 0 to 3, and the volume."""
    for i in range(len(slots)):
        a, b = point(x, corner_of(corner, slots[i], 0)), point(x, corner_of(corner, slots[i], 1))
        c, d = point(x, corner_of(corner, slots[i], 2)), point(x, corner_of(corner, slots[i], 3))
        p = point(x, vertices[i])
        for k, (e, f, g, h) in enumerate(((b, d, c, p), (a, c, d, p), (a, d, b, p), (a, b, c, p), (a, b, c, d))):
            sides[i, k] = orient3d(e, f, g, h)


@kernel(parallel_from=1024)
def unpack_keys(keys, vertex_start, tet_start, body, vertex, in_body, tet, is_self):
    """Bodies, and numbers within bodies, from numbers in the batch."""
    for i in prange(len(keys)):
        v, t = np.int64(keys[i] >> HIGH), np.int64(keys[i] & LOW)
        body[i], in_body[i] = np.searchsorted(vertex_start, v, "right") - 1, np.searchsorted(tet_start, t, "right") - 1
        vertex[i], tet[i] = v - vertex_start[body[i]], t - tet_start[in_body[i]]
        is_self[i] = body[i] == in_body[i]


@compiled
def list_vertices(corner, vertex_count):
    """The vertices in ``corner``, each once, in the order of their first mention."""
    is_seen = np.zeros(vertex_count, dtype=np.bool_)
    listed = np.zeros(min(vertex_count, len(corner)), dtype=np.int32)
    count = 0
    for n in range(len(corner)):
        if not is_seen[corner[n]]:
            is_seen[corner[n]] = True
            listed[count] = corner[n]
            count += 1
    return listed[:count].copy()
