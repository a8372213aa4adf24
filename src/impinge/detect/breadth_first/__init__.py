"""``BreadthFirst``: level-by-level traversal of two balanced trees, on CPU threads and CUDA (paper 002).

Imports: ``detect.depth`` and folders to its left.
Imports no other method.
"""
