"""Where spheres are now: one block of eight siblings at a time, from the vertices that steer them.

A sphere has *controls*, rows ``control_start[node] .. control_start[node + 1]`` of ``control`` (vertex ids) and of
``coefficient``; what these mean depends on the mode, as ``sphere_tracking`` explains. ``share`` holds what a sphere has
once: numbers of the mode, column by column.
"""

# mypy: ignore-errors

import math

import numpy as np

from impinge.backend.clock import monotonic_ns
from impinge.backend.jit import compiled, inlined, kernel, prange

PAPER, AFFINE, BOUND, REFIT = 0, 1, 2, 3

CLOCK_EVERY = 2048
"""Points of a refitted sphere between two looks at the clock: some microseconds."""
ROUNDING = 64 * 2.220446049250313e-16
"""Radii grow by this share, and by this times the largest coordinate that they were computed from."""


@inlined
def largest_stretch(f):
    """An upper bound of the largest singular value of a 3x3 matrix, exact if the two others are equal.

    With m the mean of the eigenvalues of C = FᵀF and p² = |C - m I|² / 6, they are m + 2 p cos(t) for three t.
    """
    xx = f[0] * f[0] + f[3] * f[3] + f[6] * f[6]
    yy = f[1] * f[1] + f[4] * f[4] + f[7] * f[7]
    zz = f[2] * f[2] + f[5] * f[5] + f[8] * f[8]
    xy = f[0] * f[1] + f[3] * f[4] + f[6] * f[7]
    xz = f[0] * f[2] + f[3] * f[5] + f[6] * f[8]
    yz = f[1] * f[2] + f[4] * f[5] + f[7] * f[8]
    m = (xx + yy + zz) / 3.0
    apart = (xx - m) ** 2 + (yy - m) ** 2 + (zz - m) ** 2 + 2.0 * (xy * xy + xz * xz + yz * yz)
    return math.sqrt(m + 2.0 * math.sqrt(apart / 6.0))


@inlined
def follow_as_published(node, x, start, stop, control, coefficient, share):
    """Follow as published: c' = c + mean(q' - q), r' = r max |q' - c'| / |q - c|.

    Columns of ``share``: c - mean(q), r. The first column of ``coefficient``: 1 / |q - c|².
    """
    dx, dy, dz = 0.0, 0.0, 0.0
    for k in range(start, stop):
        j = control[k]
        dx += x[j, 0]
        dy += x[j, 1]
        dz += x[j, 2]
    part = 1.0 / (stop - start)
    cx, cy, cz = share[node, 0] + dx * part, share[node, 1] + dy * part, share[node, 2] + dz * part
    ratio = 0.0
    for k in range(start, stop):
        j = control[k]
        qx, qy, qz = x[j, 0] - cx, x[j, 1] - cy, x[j, 2] - cz
        ratio = max(ratio, (qx * qx + qy * qy + qz * qz) * coefficient[k, 0])
    return cx, cy, cz, share[node, 3] * (math.sqrt(ratio) if ratio > 0.0 else 1.0)


@inlined
def follow_affine(node, x, rest, start, stop, control, coefficient, share, with_residuals):
    """C' = Σ w q', r' = |F| r with F = Σ q' gᵀ; ``with_residuals`` adds Σ spread |q' - F q - t|.

    Columns of ``coefficient``: w, g (3), spread. Columns of ``share``: the mean of the controls at rest, r.
    """
    cx, cy, cz, mx, my, mz = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    f0, f1, f2, f3, f4, f5, f6, f7, f8 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    first = control[start]
    ox, oy, oz = x[first, 0], x[first, 1], x[first, 2]  # counted from a control: sums stay as small as the sphere
    size = 0.0
    for k in range(start, stop):
        j = control[k]
        qx, qy, qz = x[j, 0] - ox, x[j, 1] - oy, x[j, 2] - oz
        size = max(size, abs(qx), abs(qy), abs(qz))
        w, gx, gy, gz = coefficient[k, 0], coefficient[k, 1], coefficient[k, 2], coefficient[k, 3]
        cx += w * qx
        cy += w * qy
        cz += w * qz
        mx += qx
        my += qy
        mz += qz
        f0 += qx * gx
        f1 += qx * gy
        f2 += qx * gz
        f3 += qy * gx
        f4 += qy * gy
        f5 += qy * gz
        f6 += qz * gx
        f7 += qz * gy
        f8 += qz * gz
    radius = share[node, 3] * largest_stretch((f0, f1, f2, f3, f4, f5, f6, f7, f8))
    if with_residuals:
        count = stop - start
        mx, my, mz = mx / count, my / count, mz / count
        for k in range(start, stop):
            j = control[k]
            rx, ry, rz = rest[j, 0] - share[node, 0], rest[j, 1] - share[node, 1], rest[j, 2] - share[node, 2]
            ux = x[j, 0] - ox - mx - (f0 * rx + f1 * ry + f2 * rz)
            uy = x[j, 1] - oy - my - (f3 * rx + f4 * ry + f5 * rz)
            uz = x[j, 2] - oz - mz - (f6 * rx + f7 * ry + f8 * rz)
            radius += coefficient[k, 4] * math.sqrt(ux * ux + uy * uy + uz * uz)
    # sums over all controls round by their number times their size, the last addition by the place of the sphere
    reach = size * (1.0 + 0.125 * (stop - start)) + abs(ox) + abs(oy) + abs(oz)
    return ox + cx, oy + cy, oz + cz, radius, reach


@inlined
def follow_centre(node, x, start, stop, control, coefficient, share):
    """C' = Σ w q' + s n, n the unit normal of Σ u q' and Σ v q'; columns: w, u, v, and s in ``share[node, 0]``."""
    cx, cy, cz, ux, uy, uz, vx, vy, vz = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    first = control[start]
    ox, oy, oz = x[first, 0], x[first, 1], x[first, 2]
    for k in range(start, stop):
        j = control[k]
        qx, qy, qz = x[j, 0] - ox, x[j, 1] - oy, x[j, 2] - oz
        w, u, v = coefficient[k, 0], coefficient[k, 1], coefficient[k, 2]
        cx += w * qx
        cy += w * qy
        cz += w * qz
        ux += u * qx
        uy += u * qy
        uz += u * qz
        vx += v * qx
        vy += v * qy
        vz += v * qz
    offset = share[node, 0]
    if offset != 0.0:
        nx, ny, nz = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
        length = math.sqrt(nx * nx + ny * ny + nz * nz)
        if length > 0.0:
            offset /= length
            cx += offset * nx
            cy += offset * ny
            cz += offset * nz
    return ox + cx, oy + cy, oz + cz


@inlined
def radius_around(node, cx, cy, cz, surface, point_start, point_vertex, cut_start, cut_corner, cut_weight, deadline):
    """The distance of the farthest point of a node; negative if the time is up before all were seen."""
    square, reach = 0.0, 0.0
    for i in range(point_start[node], point_start[node + 1]):
        v = point_vertex[i]
        dx, dy, dz = surface[v, 0] - cx, surface[v, 1] - cy, surface[v, 2] - cz
        square = max(square, dx * dx + dy * dy + dz * dz)
        if (i + 1) % CLOCK_EVERY == 0 and monotonic_ns() >= deadline:
            return -1.0, 0.0
    for i in range(cut_start[node], cut_start[node + 1]):
        p, q, r = cut_corner[i, 0], cut_corner[i, 1], cut_corner[i, 2]
        s, t, u = cut_weight[i, 0], cut_weight[i, 1], cut_weight[i, 2]
        px = s * surface[p, 0] + t * surface[q, 0] + u * surface[r, 0]
        py = s * surface[p, 1] + t * surface[q, 1] + u * surface[r, 1]
        pz = s * surface[p, 2] + t * surface[q, 2] + u * surface[r, 2]
        dx, dy, dz = px - cx, py - cy, pz - cz
        square = max(square, dx * dx + dy * dy + dz * dz)
        for k in range(3):
            reach = max(reach, abs(surface[p, k]), abs(surface[q, k]), abs(surface[r, k]))
        if (i + 1) % CLOCK_EVERY == 0 and monotonic_ns() >= deadline:
            return -1.0, 0.0
    return math.sqrt(square), reach


@inlined
def place_sphere(cx, cy, cz, r, placing):
    """A sphere moved by an affine map; ``placing`` (5, 3): rows of the matrix, the shift, then stretch, size, used."""
    if placing[4, 2] == 0.0:
        return cx, cy, cz, r
    mx = placing[0, 0] * cx + placing[0, 1] * cy + placing[0, 2] * cz + placing[3, 0]
    my = placing[1, 0] * cx + placing[1, 1] * cy + placing[1, 2] * cz + placing[3, 1]
    mz = placing[2, 0] * cx + placing[2, 1] * cy + placing[2, 2] * cz + placing[3, 2]
    reach = placing[4, 1] * (abs(cx) + abs(cy) + abs(cz) + r) + abs(placing[3, 0]) + abs(placing[3, 1])
    return mx, my, mz, placing[4, 0] * r * (1.0 + ROUNDING) + ROUNDING * (reach + abs(placing[3, 2]))


@inlined
def track_block(
    block, sphere, stamp, block_node, lane_count, mode, now, placing,
    x, rest, control_start, control, coefficient, share, surface,
    point_start, point_vertex, cut_start, cut_corner, cut_weight, deadline,
):  # fmt: skip
    """Bring the spheres of one block up to date; whether there was time to.

    Inlined, and with arrays that its callers unpack once: to call it with tuples took ten times as long as its work.
    """
    for lane in range(lane_count[block]):
        node = block_node[block] + lane
        start, stop = control_start[node], control_start[node + 1]
        reach = 0.0
        if mode == PAPER:
            cx, cy, cz, r = follow_as_published(node, x, start, stop, control, coefficient, share)
        elif mode == REFIT:
            cx, cy, cz = follow_centre(node, x, start, stop, control, coefficient, share)
            r, reach = radius_around(
                node, cx, cy, cz, surface, point_start, point_vertex, cut_start, cut_corner, cut_weight, deadline
            )
            if r < 0.0:
                return False
        else:
            cx, cy, cz, r, reach = follow_affine(node, x, rest, start, stop, control, coefficient, share, mode == BOUND)
        if mode != PAPER:
            r = r * (1.0 + ROUNDING) + ROUNDING * reach
        cx, cy, cz, r = place_sphere(cx, cy, cz, r, placing)
        sphere[block, 0, lane], sphere[block, 1, lane], sphere[block, 2, lane] = cx, cy, cz
        sphere[block, 3, lane] = r
    stamp[block] = now
    return True


@compiled
def track_root(tree, steering, points, deadline):
    """Bring the root up to date; whether there was time to."""
    sphere, stamp, block_node, lane_count, mode, now, placing = tree
    x, rest, control_start, control, coefficient, share, surface = steering
    point_start, point_vertex, cut_start, cut_corner, cut_weight = points
    if stamp[0] == now:
        return True
    return monotonic_ns() < deadline and track_block(
        0, sphere, stamp, block_node, lane_count, mode, now, placing,
        x, rest, control_start, control, coefficient, share, surface,
        point_start, point_vertex, cut_start, cut_corner, cut_weight, deadline,
    )  # fmt: skip


@kernel(parallel_from=256)
def track_all(tree, steering, points, deadline):
    """Bring all blocks up to date; those that there was no time for keep their stamp."""
    sphere, stamp, block_node, lane_count, mode, now, placing = tree
    x, rest, control_start, control, coefficient, share, surface = steering
    point_start, point_vertex, cut_start, cut_corner, cut_weight = points
    for block in prange(len(stamp)):
        if stamp[block] != now and monotonic_ns() < deadline:
            track_block(
                block, sphere, stamp, block_node, lane_count, mode, now, placing,
                x, rest, control_start, control, coefficient, share, surface,
                point_start, point_vertex, cut_start, cut_corner, cut_weight, deadline,
            )  # fmt: skip


@compiled
def layer_upwards(sphere, slot_parent, leaf):
    """Let every sphere that is no leaf hold its children's; slots stand level by level, parents first."""
    for slot in range(len(slot_parent)):
        if slot_parent[slot] != -2 and not leaf[slot]:
            sphere[slot >> 3, 3, slot & 7] = 0.0
    for slot in range(len(slot_parent) - 1, 0, -1):
        up = slot_parent[slot]
        if up < 0:
            continue
        dx = sphere[slot >> 3, 0, slot & 7] - sphere[up >> 3, 0, up & 7]
        dy = sphere[slot >> 3, 1, slot & 7] - sphere[up >> 3, 1, up & 7]
        dz = sphere[slot >> 3, 2, slot & 7] - sphere[up >> 3, 2, up & 7]
        reach = math.sqrt(dx * dx + dy * dy + dz * dz) + sphere[slot >> 3, 3, slot & 7]
        sphere[up >> 3, 3, up & 7] = max(sphere[up >> 3, 3, up & 7], reach * (1.0 + ROUNDING))


@compiled
def radii_around(centre, surface, points, radius):
    """The distance of the farthest point of every node."""
    point_start, point_vertex, cut_start, cut_corner, cut_weight = points
    for n in range(len(radius)):
        radius[n], _ = radius_around(
            n, centre[n, 0], centre[n, 1], centre[n, 2], surface, point_start, point_vertex, cut_start, cut_corner,
            cut_weight, np.int64(1 << 62),
        )  # fmt: skip


@compiled
def spread_controls(node_start, node_vertex, position, wanted, start, control):
    """Choose up to ``wanted`` vertices of every node, each as far as can be from those before; returns how many."""
    count = 0
    for node in range(len(node_start) - 1):
        start[node] = count
        first, stop = node_start[node], node_start[node + 1]
        nearest = np.full(stop - first, np.inf)
        chosen = first
        for _ in range(min(wanted, stop - first)):
            control[count] = node_vertex[chosen]
            count += 1
            best = -1.0
            last = node_vertex[chosen]
            for i in range(first, stop):
                v = node_vertex[i]
                square = 0.0
                for k in range(3):
                    square += (position[v, k] - position[last, k]) ** 2
                nearest[i - first] = min(nearest[i - first], square)
                if nearest[i - first] > best:
                    best, chosen = nearest[i - first], i
            if best <= 0.0:
                break
    start[len(node_start) - 1] = count
    return count
