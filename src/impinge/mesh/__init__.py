"""Triangle and tetrahedral meshes: positions, edits, adjacency, validation, shapes, preparation.

Imports: ``io``.
Imports neither ``deform`` nor any room to its right.
"""
