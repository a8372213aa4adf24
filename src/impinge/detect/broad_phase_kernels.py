"""The sweep over sorted boxes: count, scan, fill; see ``broad_phase``."""

# mypy: ignore-errors

from impinge.backend.jit import compiled, kernel, prange


@compiled
def _sweep(i, low, high, axis, order, first, out):
    """Boxes behind box ``i`` that begin before it ends and meet it; their pairs are written from ``first`` on."""
    count = 0
    for j in range(i + 1, len(low)):
        if low[j, axis] > high[i, axis]:
            break
        if (
            low[j, 0] <= high[i, 0]
            and high[j, 0] >= low[i, 0]
            and low[j, 1] <= high[i, 1]
            and high[j, 1] >= low[i, 1]
            and low[j, 2] <= high[i, 2]
            and high[j, 2] >= low[i, 2]
        ):
            if first >= 0:
                out[first + count, 0] = min(order[i], order[j])
                out[first + count, 1] = max(order[i], order[j])
            count += 1
    return count


@kernel(parallel_from=512)
def count_overlaps(low, high, axis, order, out, counts):
    """How many boxes further on in the order each box meets."""
    for i in prange(len(low)):
        counts[i] = _sweep(i, low, high, axis, order, -1, out)


@kernel(parallel_from=512)
def fill_overlaps(low, high, axis, order, start, out):
    """The pairs, each box's from ``start`` on."""
    for i in prange(len(low)):
        _sweep(i, low, high, axis, order, start[i], out)
