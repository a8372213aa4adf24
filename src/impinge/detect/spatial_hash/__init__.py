"""``SpatialHash``: vertices in tetrahedra and triangle pairs by hashed cells (paper 003).

Imports: ``detect.depth`` and folders to its left.
Imports no other method.
"""
