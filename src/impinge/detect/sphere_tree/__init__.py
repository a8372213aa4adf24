"""``SphereTree``: contacts within a time budget by trees of spheres (paper 001).

Imports: ``detect.depth`` and folders to its left. ``build`` is offline, ``track`` follows the deformation,
``search`` runs within the budget.
Imports no other method.
"""
