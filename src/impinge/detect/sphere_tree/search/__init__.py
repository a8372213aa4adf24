"""The interruptible search of two sphere trees, its budget, and the exact stage.

Imports: ``track``, ``build`` and the hierarchy. Raw array addresses are used in this folder only.
Does not import the detector above it.
"""
