"""Derivatives of span lengths by the corners at their ends, for ``volume_gradient``."""

# mypy: ignore-errors

from impinge.backend.jit import compiled


@compiled
def _weights(p, a, b, c):
    """Weights of the corners of a triangle at a point of its projection; none is negative, and their sum is one."""
    wa = (b[0] - p[0]) * (c[1] - p[1]) - (b[1] - p[1]) * (c[0] - p[0])
    wb = (c[0] - p[0]) * (a[1] - p[1]) - (c[1] - p[1]) * (a[0] - p[0])
    wc = (a[0] - p[0]) * (b[1] - p[1]) - (a[1] - p[1]) * (b[0] - p[0])
    if wa + wb + wc < 0.0:
        wa, wb, wc = -wa, -wb, -wc
    wa, wb, wc = max(wa, 0.0), max(wb, 0.0), max(wc, 0.0)  # the pixel was covered up to the rounding of snapped corners
    total = wa + wb + wc
    if not total > 0.0:
        return 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0
    return wa / total, wb / total, wc / total


@compiled
def list_span_ends(side, axis, centre, area, span_pixel, span_tri, span_side, x, faces, vertex, gain):
    """Gain of the length of each span per motion of the corners at its ends along the axis; 0 on the other body."""
    u, v, n = (axis + 1) % 3, (axis + 2) % 3, centre.shape[1]
    for k in range(len(span_pixel)):
        p = (centre[0, span_pixel[k] % n], centre[1, span_pixel[k] // n])
        for end in range(2):
            if span_side[k, end] == side:
                t = span_tri[k, end]
                i, j, m = faces[t, 0], faces[t, 1], faces[t, 2]
                wi, wj, wm = _weights(p, (x[i, u], x[i, v]), (x[j, u], x[j, v]), (x[m, u], x[m, v]))
                signed = area if end == 1 else -area  # the far end lengthens a span, the near end shortens it
                vertex[k, end, 0], vertex[k, end, 1], vertex[k, end, 2] = i, j, m
                gain[k, end, 0], gain[k, end, 1], gain[k, end, 2] = signed * wi, signed * wj, signed * wm
