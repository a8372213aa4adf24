"""Weighted sums of sparse rows by group, for ``contact_merging``.

``row`` lists rows group by group; group g has those from ``first[g]`` to ``first[g + 1]``. ``stamp`` and ``place`` are
scratch, one number per coarse vertex. Stamps are negative on entry and on return.
"""

# mypy: ignore-errors

from impinge.backend.jit import compiled


@compiled
def count_vertices(first, row, start, vertex, stamp, count):
    """Count the distinct vertices of each group."""
    for g in range(len(count)):
        total = 0
        for k in range(first[g], first[g + 1]):
            for e in range(start[row[k]], start[row[k] + 1]):
                if stamp[vertex[e]] != g:
                    stamp[vertex[e]] = g
                    total += 1
        count[g] = total
    stamp[:] = -1


@compiled
def merge_weights(first, row, share, start, vertex, weight, stamp, place, begin, out_vertex, out_weight):
    """Sum the weights of each vertex of a group, scaled by ``share`` of their row; ``out_weight`` is zero on entry."""
    for g in range(len(first) - 1):
        end = begin[g]
        for k in range(first[g], first[g + 1]):
            i = row[k]
            for e in range(start[i], start[i + 1]):
                n = vertex[e]
                if stamp[n] != g:
                    stamp[n], place[n] = g, end
                    out_vertex[end] = n
                    end += 1
                for c in range(weight.shape[1]):
                    out_weight[place[n], c] += share[i] * weight[e, c]
    stamp[:] = -1
