"""Tracked spheres, the interruptible search of two sphere trees, and the exact stage.

Imports: ``track``, ``build`` and the hierarchy. Raw array addresses are used in this folder only.
Does not import the detector above it.
"""
