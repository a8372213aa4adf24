"""Kinds of intersection of two closed convex pieces (triangles, segments, points), as small integers.

Let I be the intersection. "Inside" means the relative interior: a triangle without its edges, a segment without its
ends, a point itself.

NONE       I is empty.
CROSSING   I has points inside both, and they do not lie in one plane.
COPLANAR   I has points inside both, and they lie in one plane.
TOUCHING   I is not empty, but has no point inside both.
UNCERTAIN  not decided by the filter; never returned by an exact test.
"""

UNCERTAIN = -1
NONE = 0
TOUCHING = 1
CROSSING = 2
COPLANAR = 3
