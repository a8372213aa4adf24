"""Kernels for Warp on the CPU: its tree of boxes, with a triangle test of ours, since its own is wrong on many pairs.

Imported only where Warp is installed. Warp reads the types from annotations, which cannot be postponed.
"""

# mypy: ignore-errors

import warp as wp


@wp.func
def _corner(x: wp.array(dtype=wp.vec3d), face: wp.array(dtype=wp.int32), t: int, k: int):
    return x[face[3 * t + k]]


@wp.func
def triangles_meet(p1: wp.vec3d, q1: wp.vec3d, r1: wp.vec3d, p2: wp.vec3d, q2: wp.vec3d, r2: wp.vec3d):
    """Guigue and Devillers in doubles, as in ``triangle_test_kernels``."""
    zero = wp.float64(0.0)
    n2 = wp.cross(p2 - r2, q2 - r2)
    sp1 = wp.dot(n2, p1 - r2)
    sq1 = wp.dot(n2, q1 - r2)
    sr1 = wp.dot(n2, r1 - r2)
    if (sp1 > zero and sq1 > zero and sr1 > zero) or (sp1 < zero and sq1 < zero and sr1 < zero):
        return False
    n1 = wp.cross(p1 - r1, q1 - r1)
    sp2 = wp.dot(n1, p2 - r1)
    sq2 = wp.dot(n1, q2 - r1)
    sr2 = wp.dot(n1, r2 - r1)
    if (sp2 > zero and sq2 > zero and sr2 > zero) or (sp2 < zero and sq2 < zero and sr2 < zero):
        return False
    a0, a1, a2, sa = p1, q1, r1, sp1  # the corner that is alone on its side goes first
    if (sp1 > zero) == (sq1 > zero):
        a0, a1, a2, sa = r1, p1, q1, sr1
    elif (sp1 > zero) == (sr1 > zero):
        a0, a1, a2, sa = q1, r1, p1, sq1
    b0, b1, b2, sb = p2, q2, r2, sp2
    if (sp2 > zero) == (sq2 > zero):
        b0, b1, b2, sb = r2, p2, q2, sr2
    elif (sp2 > zero) == (sr2 > zero):
        b0, b1, b2, sb = q2, r2, p2, sq2
    c1, c2 = a1, a2
    d1, d2 = b1, b2
    if sa < zero:
        d1, d2 = b2, b1
    if sb < zero:
        c1, c2 = a2, a1
    return wp.dot(wp.cross(b0 - c1, a0 - c1), d1 - c1) <= zero and wp.dot(wp.cross(b0 - a0, c2 - a0), d2 - a0) <= zero


@wp.kernel
def find_pairs(
    tree: wp.uint64,
    xa: wp.array(dtype=wp.vec3d),
    face_a: wp.array(dtype=wp.int32),
    xb: wp.array(dtype=wp.vec3d),
    face_b: wp.array(dtype=wp.int32),
    # outputs
    count: wp.array(dtype=wp.int32),
    pair: wp.array(dtype=wp.vec2i),
):
    """Test triangle ``t`` of b against those of a whose boxes overlap; pairs beyond the room there is are counted."""
    t = wp.tid()
    p, q, r = _corner(xb, face_b, t, 0), _corner(xb, face_b, t, 1), _corner(xb, face_b, t, 2)
    lo = wp.vec3(wp.min(wp.min(p, q), r))
    hi = wp.vec3(wp.max(wp.max(p, q), r))
    query = wp.mesh_query_aabb(tree, lo, hi)
    s = wp.int32(0)
    while wp.mesh_query_aabb_next(query, s):
        if triangles_meet(_corner(xa, face_a, s, 0), _corner(xa, face_a, s, 1), _corner(xa, face_a, s, 2), p, q, r):
            i = wp.atomic_add(count, 0, 1)
            if i < pair.shape[0]:
                pair[i] = wp.vec2i(s, t)
