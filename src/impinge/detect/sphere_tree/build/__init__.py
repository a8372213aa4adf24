"""Sphere trees, built offline: clusters of the surface, or spheres along the medial axis.

Imports: folders to the left of ``detect.sphere_tree``, and its hierarchy.
Imports neither ``track`` nor ``search``.
"""
