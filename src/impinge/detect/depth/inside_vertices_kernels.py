"""Links from nodes, vertices inside bodies, to the neighbours of their vertices; see ``inside_vertices``."""

# mypy: ignore-errors

from impinge.backend.jit import inlined, kernel, prange
from impinge.detect.depth.surface_normals_kernels import write
from impinge.exact.orientation import point


@inlined
def find_key(keys, key, near):
    """The position of ``key`` in a rising list, -1 if absent; a galloping search from position ``near``."""
    low, high, step = near, near + 1, 1
    while low > 0 and keys[low] > key:
        high, low, step = low, max(low - step, 0), 2 * step
    while high < len(keys) and keys[high] <= key:
        low, high, step = high, min(high + step, len(keys)), 2 * step
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low if low < len(keys) and keys[low] == key else -1


@kernel(parallel_from=256)
def find_links(nodes, keys, vertex, body, links):
    """Ends of the links of nodes of one body.

    ``body`` is (x, start, neighbour), ``links`` is (start, vertex, node, x). Keys of nodes that are in the same body,
    and of the same body, differ as their vertices do.
    """
    x, neighbour_start, neighbour = body
    start, link_vertex, link_node, link_x = links
    for i in prange(len(nodes)):
        n = nodes[i]
        v = vertex[n]
        for k in range(neighbour_start[v + 1] - neighbour_start[v]):
            w = neighbour[neighbour_start[v] + k]
            link_vertex[start[n] + k] = w
            link_node[start[n] + k] = find_key(keys, keys[n] + w - v, n)
            write(link_x, start[n] + k, point(x, w))
