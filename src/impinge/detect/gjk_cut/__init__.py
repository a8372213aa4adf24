"""``GjkCut``: triangle pairs without any structure (paper 000), and the distance of convex hulls.

Imports: ``detect.depth`` and folders to its left.
Imports no other method.
"""
