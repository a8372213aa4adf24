"""Vertices inside bodies, edges through faces, penetration depth, and the body states that it reads.

Imports: ``detect.proximity`` and folders to its left.
Imports none of the other methods.
"""
