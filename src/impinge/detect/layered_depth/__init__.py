"""``LayeredDepth``: overlap volume and points inside by layered depth images (paper 004).

Imports: ``detect.depth`` and folders to its left.
Imports no other method.
"""
