"""Spheres that follow a deforming body, and contact frames of sphere pairs.

Imports: ``build`` and the hierarchy.
Does not import ``search``.
"""
