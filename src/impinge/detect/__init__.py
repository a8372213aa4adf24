"""Detectors: which features of which bodies meet. One folder per method.

Imports: ``io``, ``mesh``, ``deform``, and folders of ``detect`` to the left of its own.
Methods do not import each other; nothing here imports ``contact`` or any room to its right.
"""
