"""Closest points, distance, proximity pairs, points inside, edge crossings, intersection curves.

Imports: ``detect.box_tree`` and folders to its left.
Imports neither ``detect.depth`` nor the other methods.
"""
