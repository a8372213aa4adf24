"""Controls and layout of spheres that follow a deforming body, mean normals, contact frames of sphere pairs.

Imports: ``build`` and the hierarchy.
Does not import ``search``.
"""
