"""Cells in a hash table, and eight tets at a time against the vertices in their cells; see ``spatial_hash``."""

# mypy: ignore-errors

import numpy as np

from impinge.backend.claim import claim
from impinge.backend.jit import compiled, inlined, kernel, prange
from impinge.backend.simd.boxes import WIDTH, lowest_bit, vertices_box
from impinge.backend.simd.tets import CORNER_ROWS, TET_ROWS, fit_tets, points_in_box, tets_around, tets_with_corner
from impinge.exact.orientation import orient3d, point
from impinge.exact.triangle_triangle import cross, dot, minus

AXIS_BITS = 21
PERIOD = 2.0**AXIS_BITS
"""Cells so far apart look the same, which costs a test and changes no answer."""
TASK = 32
"""Clusters that a thread claims at a time."""
CORNERS = 4 * WIDTH
"""Corners of a cluster."""
LARGEST = 4.0
"""Cells along a cluster at most, on the level that fits it."""
SMALLEST = 0.125
"""Cells along a cluster at least."""
LEVEL_STEP = 4.0
"""Cells of a level are this much larger than those of the one below."""
INSIDE, OUTSIDE, UNSURE = range(3)
"""What doubles can tell of a vertex and a tet."""
HIGHEST = 1000
"""A level beyond all that finite numbers need; infinite ones, which nobody checked, end here."""
UNKNOWN = -9999
"""The level of a cluster that was not looked at yet."""


@inlined
def corner_of(corner, slot, k):
    """Corner ``k`` of the tet in ``slot``: clusters of four rows, a row of eight for each corner."""
    return corner[(slot // WIDTH) * CORNERS + k * WIDTH + slot % WIDTH]


# cells ----------------------------------------------------------------------------------------------------


@inlined
def _wrapped(i):
    """A whole number, however large, as an integer from 0 to ``PERIOD`` - 1; doubles do this exactly."""
    if abs(i) < 2.0**62:
        return np.int64(i) & np.int64(PERIOD - 1.0)
    return np.int64(i - PERIOD * np.floor(i / PERIOD))


@inlined
def pack_cell(i, j, k):
    """The three whole numbers of a cell, as doubles, in one integer."""
    return (_wrapped(i) << (2 * AXIS_BITS)) | (_wrapped(j) << AXIS_BITS) | _wrapped(k)


@inlined
def first_slot(key, shift):
    """Where to look for a key: the highest bits of its product with 2^64 over the golden ratio."""
    return np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> shift)


@compiled
def mean_half_edge(x, corner, tet, stride):
    """Half of the mean length of all edges of the tets in every ``stride``-th cluster; half, lest it overflows."""
    total, count = 0.0, 0
    for c in range(0, len(corner) // CORNERS, stride):
        for slot in range(c * WIDTH, (c + 1) * WIDTH):
            if tet[slot] < 0:
                continue
            for m in range(4):
                for n in range(m):
                    p, q = corner_of(corner, slot, m), corner_of(corner, slot, n)
                    u = 0.5 * x[p, 0] - 0.5 * x[q, 0]
                    v = 0.5 * x[p, 1] - 0.5 * x[q, 1]
                    w = 0.5 * x[p, 2] - 0.5 * x[q, 2]
                    size = max(abs(u), abs(v), abs(w))
                    if size > 0.0:
                        u, v, w = u / size, v / size, w / size
                        total += size * np.sqrt(u * u + v * v + w * w)
                    count += 1
    return min(total, 1e308) / max(count, 1)


@compiled
def farthest(x, vertex):
    """The largest coordinate of the vertices listed, by its size; infinite if one of them is undefined."""
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
def fill_table(keys, table, shift, cell_key, cell_start, vertex_cell):
    """Number the cells that have vertices, in the order of their first vertex; count their vertices, return how many.

    ``cell_start[c + 1]`` becomes the number of vertices in cell c.
    """
    mask = len(table) - 1
    cells = 0
    last_key, last_cell = np.int64(-1), 0
    cell_start[0] = 0
    for n in range(len(keys)):
        key = keys[n]
        if key != last_key:
            slot = first_slot(key, shift)
            while table[slot] >= 0 and cell_key[table[slot]] != key:
                slot = (slot + 1) & mask
            if table[slot] < 0:
                table[slot] = cells
                cell_key[cells] = key
                cells += 1
                cell_start[cells] = 0
            last_key, last_cell = key, table[slot]
        vertex_cell[n] = last_cell
        cell_start[last_cell + 1] += 1
    return cells


@compiled
def sort_into_cells(x, vertex, inverse, cell_start, cells, vertex_cell, place_x, place_y, place_z, place_id):
    """Copy vertices cell by cell: float32 counted from the corner of the cell, and the id.

    ``cell_start`` holds counts at first, shifted by one, and starts at last.
    """
    for c in range(cells):
        cell_start[c + 1] += cell_start[c]
    for n in range(len(vertex) - 1, -1, -1):  # from the back, so that starts are what is left
        v, c = vertex[n], vertex_cell[n]
        cell_start[c + 1] -= 1
        at = cell_start[c + 1]
        u, v_, w = x[v, 0] * inverse, x[v, 1] * inverse, x[v, 2] * inverse
        place_x[at] = u - np.floor(u)
        place_y[at] = v_ - np.floor(v_)
        place_z[at] = w - np.floor(w)
        place_id[at] = v
    for c in range(cells):
        cell_start[c] = cell_start[c + 1]
    cell_start[cells] = len(vertex)


@inlined
def find_cell(table, shift, cell_key, key):
    """The number of a cell, -1 if it has no vertices."""
    slot = first_slot(key, shift)
    while table[slot] >= 0 and cell_key[table[slot]] != key:
        slot = (slot + 1) & (len(table) - 1)
    return table[slot]


# the search -----------------------------------------------------------------------------------------------


@inlined
def cells_between(first, last):
    """How many cells there are from cell ``first`` to that of coordinate ``last``."""
    return np.int64(np.floor(last) - first) + 1


@compiled
def level_of(extent, least_level):
    """The level whose cells fit a cluster that is ``extent`` cells of level 0 long."""
    level = 0
    while extent > LARGEST and level < HIGHEST:
        extent /= LEVEL_STEP
        level += 1
    while 0.0 < extent <= SMALLEST and level > least_level:
        extent *= LEVEL_STEP
        level -= 1
    return level


@inlined
def _load_cluster(x, slot_corner, first, inverse, lo_x, lo_y, lo_z, corner):
    """Corners of eight tets as float32, in cells, counted from the lowest corner of their box."""
    for k in range(4):
        for lane in range(WIDTH):
            v = slot_corner[first + k * WIDTH + lane]
            corner[3 * k * WIDTH + lane] = x[v, 0] * inverse - lo_x
            corner[(3 * k + 1) * WIDTH + lane] = x[v, 1] * inverse - lo_y
            corner[(3 * k + 2) * WIDTH + lane] = x[v, 2] * inverse - lo_z


@inlined
def _fit_cluster(corner, tet, reach, valid, tally):
    """Prepare eight tets; bits of those whose volume has an unsure sign. They are open to every vertex."""
    positive, negative = fit_tets(corner, tet, reach)
    inverted = valid & negative
    while inverted != 0:
        tally[0] += 1
        inverted &= inverted - np.uint64(1)
    unsure = valid & ~(positive | negative)
    bits = unsure
    while bits != 0:
        tet[(TET_ROWS - 1) * WIDTH + lowest_bit(bits)] = -np.inf
        bits &= bits - np.uint64(1)
    return unsure


@inlined
def _emit(slot_tet, c, bits, v, keys, found):
    """Write the tets of a cluster that ``bits`` tells of; how many there are now."""
    while bits != 0:
        if found < len(keys):
            tet = slot_tet[c * WIDTH + lowest_bit(bits)]
            keys[found] = (np.uint64(v) << np.uint64(32)) | np.uint64(tet)
        found += 1
        bits &= bits - np.uint64(1)
    return found


@inlined
def _search_cell(place, start, end, box, shift_x, shift_y, shift_z, tet, lanes, slot_corner, slot_tet, c, keys, found):
    """Vertices of one cell against eight tets; ``box`` is that of the tets, counted from the corner of the cell."""
    place_x, place_y, place_z, place_id = place
    lo_x, lo_y, lo_z, hi_x, hi_y, hi_z = box
    for at in range(start, end, WIDTH):
        near = points_in_box(place_x, place_y, place_z, at, lo_x, lo_y, lo_z, hi_x, hi_y, hi_z)
        if end - at < WIDTH:
            near &= (np.uint64(1) << np.uint64(end - at)) - np.uint64(1)
        while near != 0:
            n = at + lowest_bit(near)
            near &= near - np.uint64(1)
            bits = lanes & tets_around(tet, place_x[n] + shift_x, place_y[n] + shift_y, place_z[n] + shift_z)
            bits &= ~tets_with_corner(slot_corner, c * CORNERS, place_id[n])
            if bits != 0:
                found = _emit(slot_tet, c, bits, place_id[n], keys, found)
    return found


@kernel(parallel_from=TASK * 8)
def search(x, tets, levels, grid, threads, counter, keys, counts, unsure, inverted):
    """Candidates (vertex, tet) of all clusters of one level, per thread; counts go on where there is no more room.

    ``tets`` is (slot_corner, slot_tet), ``levels`` (level of each cluster, the level wanted, the lowest one, 1 / cell
    size of level 0), ``grid`` that of ``spatial_hash_cells``. ``unsure`` gets the bits of tets, by cluster, that may be
    flat; ``inverted`` the number of tets that surely are, by thread.
    """
    for thread in prange(threads):
        slot_corner, slot_tet = tets
        cluster_level, level, least_level, base = levels
        inverse, table, shift, cell_key, cell_start, place_x, place_y, place_z, place_id = grid
        place = place_x, place_y, place_z, place_id
        corner = np.zeros(CORNER_ROWS * WIDTH, dtype=np.float32)
        tet = np.zeros(TET_ROWS * WIDTH, dtype=np.float32)
        own_keys, tally = keys[thread], np.zeros(1, dtype=np.int64)
        found = 0
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
                lo_x, lo_y, lo_z = a * inverse, b * inverse, d * inverse
                hi_x, hi_y, hi_z = e * inverse, f * inverse, g * inverse
                size = max(hi_x - lo_x, hi_y - lo_y, hi_z - lo_z)
                _load_cluster(x, slot_corner, first, inverse, lo_x, lo_y, lo_z, corner)
                valid = np.uint64(0)
                for lane in range(WIDTH):
                    valid |= np.uint64(slot_tet[c * WIDTH + lane] >= 0) << np.uint64(lane)
                reach = np.float32(2.0**-14 * size * (size + 1.0))
                unsure[c] = _fit_cluster(corner, tet, reach, valid, tally)
                pad = 2.0**-20 * (size + 1.0)
                i0, j0, k0 = np.floor(lo_x), np.floor(lo_y), np.floor(lo_z)
                for i in range(cells_between(i0, hi_x)):
                    for j in range(cells_between(j0, hi_y)):
                        for k in range(cells_between(k0, hi_z)):
                            at = i0 + i, j0 + j, k0 + k
                            cell = find_cell(table, shift, cell_key, pack_cell(*at))
                            if cell < 0:
                                continue
                            box = (
                                np.float32(lo_x - at[0] - pad), np.float32(lo_y - at[1] - pad),
                                np.float32(lo_z - at[2] - pad), np.float32(hi_x - at[0] + pad),
                                np.float32(hi_y - at[1] + pad), np.float32(hi_z - at[2] + pad),
                            )  # fmt: skip
                            found = _search_cell(
                                place, cell_start[cell], cell_start[cell + 1], box,
                                np.float32(at[0] - lo_x), np.float32(at[1] - lo_y), np.float32(at[2] - lo_z),
                                tet, valid, slot_corner, slot_tet, c, own_keys, found,
                            )  # fmt: skip
            task = claim(counter)
        counts[thread] = found
        inverted[thread] = tally[0]


# the answer -----------------------------------------------------------------------------------------------


@inlined
def _scaled(u, factor):
    return u[0] * factor, u[1] * factor, u[2] * factor


@inlined
def _size(u):
    return max(abs(u[0]), abs(u[1]), abs(u[2]))


@inlined
def vertex_of(key):
    """The vertex that a key names."""
    return np.int64(key >> np.uint64(32))


@inlined
def tet_of(key):
    """The tet that a key names."""
    return np.int64(key & np.uint64(0xFFFFFFFF))


@kernel(parallel_from=1024)
def settle(x, corner, slot_of, keys, state, barycentric):
    """Whether vertices are in tets, as far as doubles can tell: INSIDE, OUTSIDE or UNSURE; and the weights of corners.

    Let the longest edge be 1 and q the distance of the vertex. The five determinants are off by less than
    2^-44 max(1, q): nine roundings of 2^-53, of at most six products of three numbers no greater than 2, 2 and 2 q.
    """
    for i in prange(len(keys)):
        slot = np.int64(slot_of[tet_of(keys[i])])
        a, b = point(x, corner_of(corner, slot, 0)), point(x, corner_of(corner, slot, 1))
        c, d = point(x, corner_of(corner, slot, 2)), point(x, corner_of(corner, slot, 3))
        p = point(x, vertex_of(keys[i]))
        u, v, w, q = minus(b, a), minus(c, a), minus(d, a), minus(p, a)
        factor = 1.0 / max(_size(u), _size(v), _size(w), 1e-300)
        e, f, g = _scaled(minus(c, b), factor), _scaled(minus(d, b), factor), _scaled(minus(p, b), factor)
        u, v, w, q = _scaled(u, factor), _scaled(v, factor), _scaled(w, factor), _scaled(q, factor)
        det = dot(cross(u, v), w)
        sign = 1.0 if det > 0.0 else -1.0
        of_a, of_b = -sign * dot(cross(e, f), g), sign * dot(cross(v, w), q)
        of_c, of_d = sign * dot(cross(w, u), q), sign * dot(cross(u, v), q)
        bound = 2.0**-44 * max(1.0, _size(q))
        least = min(of_a, of_b, of_c, of_d)
        if abs(det) > bound and least > bound:
            state[i] = INSIDE
        elif abs(det) > bound and least < -bound:
            state[i] = OUTSIDE
        else:
            state[i] = UNSURE
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


@compiled
def _owner(start, i):
    """The body that the thing with number ``i`` belongs to; ``start`` tells where those of each body begin."""
    low, high = 0, len(start) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if start[middle] <= i:
            low = middle
        else:
            high = middle
    return low


@kernel(parallel_from=1024)
def tell_bodies(keys, vertex_start, tet_start, body, vertex, in_body, tet, is_self):
    """Numbers within bodies from numbers among all."""
    for i in prange(len(keys)):
        v, t = vertex_of(keys[i]), tet_of(keys[i])
        body[i], in_body[i] = _owner(vertex_start, v), _owner(tet_start, t)
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
