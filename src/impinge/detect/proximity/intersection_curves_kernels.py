"""Ends of the segments in which triangles cross, and their curves; see ``intersection_curves``."""

# mypy: ignore-errors

import numpy as np

from impinge.backend.jit import compiled, kernel, prange
from impinge.detect.proximity.edge_crossings_kernels import on_segment, parameter
from impinge.exact.orientation import orient3d, point

NO_FEATURE = -1


# Ends ---------------------------------------------------------------------------------------------------


@compiled
def _tip(sides):
    """The single corner strictly on its side of a plane; the triangle has corners on both sides."""
    if sides[0] != 0 and sides[1] != sides[0] and sides[2] != sides[0]:
        return 0
    return 1 if sides[1] != 0 and sides[2] != sides[1] and sides[0] != sides[1] else 2


@compiled
def _feature(ends, face, corner, tip, foot, sides, out):
    """Write the feature of a triangle that an end lies on: (v, v) a vertex, (v, w) an edge, (face, -1) its interior."""
    if not ends:
        out[0], out[1] = face, NO_FEATURE
    elif sides[foot] == 0:
        out[0] = out[1] = corner[foot]
    else:
        out[0], out[1] = min(corner[tip], corner[foot]), max(corner[tip], corner[foot])


@compiled
def _place(on_a, on_b, x_a, corner_a, x_b, corner_b):
    """Coordinates of an end, from one edge and one face, or of a vertex."""
    if on_a[0] == on_a[1]:
        return point(x_a, on_a[0])
    if on_b[0] == on_b[1]:
        return point(x_b, on_b[0])
    if on_a[1] != NO_FEATURE:
        return _pierced(x_a, on_a, x_b, corner_b)
    return _pierced(x_b, on_b, x_a, corner_a)


@compiled
def _pierced(x, edge, x_other, corner):
    """The point where an edge passes through a face of the other body."""
    u, v = point(x, edge[0]), point(x, edge[1])
    p, q, r = point(x_other, corner[0]), point(x_other, corner[1]), point(x_other, corner[2])
    return on_segment(u, v, parameter(u, v, p, q, r, 1, -1))


@compiled
def _cross_pair(x_a, face_a, corner_a, x_b, face_b, corner_b, feature, place):
    """Write both ends of the segment of two crossing triangles; False if one of them has no plane."""
    a = point(x_a, corner_a[0]), point(x_a, corner_a[1]), point(x_a, corner_a[2])
    b = point(x_b, corner_b[0]), point(x_b, corner_b[1]), point(x_b, corner_b[2])
    of_a = orient3d(b[0], b[1], b[2], a[0]), orient3d(b[0], b[1], b[2], a[1]), orient3d(b[0], b[1], b[2], a[2])
    of_b = orient3d(a[0], a[1], a[2], b[0]), orient3d(a[0], a[1], a[2], b[1]), orient3d(a[0], a[1], a[2], b[2])
    if not (min(of_a) < 0 < max(of_a) and min(of_b) < 0 < max(of_b)):
        return False
    p1, p2 = _tip(of_a), _tip(of_b)
    flip_a, flip_b = of_b[p2] < 0, of_a[p1] < 0
    q1, r1 = ((p1 + 2) % 3, (p1 + 1) % 3) if flip_a else ((p1 + 1) % 3, (p1 + 2) % 3)
    q2, r2 = ((p2 + 2) % 3, (p2 + 1) % 3) if flip_b else ((p2 + 1) % 3, (p2 + 2) % 3)
    # Names of [GuigueDevillers2003]. Edge p1 s1 meets the common line before (after) edge p2 s2 does iff
    # orient3d(p1, s1, p2, s2) > 0 (< 0). The later of p1 r1 and p2 q2 begins the segment, the earlier of p1 q1 and
    # p2 r2 ends it; where they are equal, the end lies on both.
    for end in range(2):
        foot_a, foot_b = (r1, q2) if end == 0 else (q1, r2)
        ahead = orient3d(a[p1], a[foot_a], b[p2], b[foot_b])
        if end == 0:
            ahead = -ahead
        row = end if flip_a == flip_b else 1 - end  # along the cross product of the normals
        _feature(ahead >= 0, face_a, corner_a, p1, foot_a, of_a, feature[row, :2])
        _feature(ahead <= 0, face_b, corner_b, p2, foot_b, of_b, feature[row, 2:])
        p = _place(feature[row, :2], feature[row, 2:], x_a, corner_a, x_b, corner_b)
        place[row, 0], place[row, 1], place[row, 2] = p
    return True


@kernel(parallel_from=128)
def cross_pairs(x_a, faces_a, x_b, faces_b, pairs, has_segment, feature, place):
    """Write the ends of the segment of each crossing pair: features of a and b, and coordinates."""
    for i in prange(len(pairs)):
        t, f = pairs[i, 0], pairs[i, 1]
        has_segment[i] = _cross_pair(x_a, t, faces_a[t], x_b, f, faces_b[f], feature[i], place[i])


# Curves -------------------------------------------------------------------------------------------------


@compiled
def trace_curves(ends, node_start, node_segment, order, start, closed):
    """Traverse all segments, from branches and open ends first, then around; returns the number of curves.

    Curve c has the segments ``order[start[c]:start[c + 1]]``; it ends where it branches or meets itself.
    """
    seen = np.zeros(len(ends), np.bool_)
    count = done = np.int64(0)
    for from_branches in (True, False):
        for first in range(len(ends)):
            for side in range(2):
                segment, node = np.int64(first), ends[first, side]
                if seen[first] or (from_branches and node_start[node + 1] - node_start[node] == 2):
                    continue
                start[count] = done
                while not seen[segment]:
                    seen[segment] = True
                    order[done] = segment
                    done += 1
                    node = ends[segment, 1] if ends[segment, 0] == node else ends[segment, 0]
                    at = node_start[node]
                    if node_start[node + 1] - at != 2:
                        break
                    segment = node_segment[at + 1] if node_segment[at] == segment else node_segment[at]
                closed[count] = node == ends[first, side]
                count += 1
    start[count] = done
    return count
