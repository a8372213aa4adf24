"""How two closed convex pieces (triangles, segments, points) meet, as small integers for kernels.

Let I be what the two have in common, and let "inside" mean the relative interior: a triangle without its
edges, a segment without its ends, a point itself.

NONE       I is empty.
CROSSING   they have inside points in common and do not lie in one plane.
COPLANAR   they have inside points in common and lie in one plane.
TOUCHING   they meet, but only where one of them ends.
UNCERTAIN  rounding was too coarse to tell; never an answer of an exact test.
"""

UNCERTAIN = -1
NONE = 0
TOUCHING = 1
CROSSING = 2
COPLANAR = 3
