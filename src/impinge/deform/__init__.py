"""Materials, deformation models, integrators, embeddings and waves: what moves the vertices of a body.

Imports: ``mesh`` and ``io``.
Imports neither ``detect`` nor any room to its right.
"""
