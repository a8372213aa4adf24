"""The tree of boxes that several methods share, broad phases (sweep, hashed grid), and mesh features in tree order.

Imports: ``detect.common`` and rooms to its left.
Imports no detector.
"""
