"""Bodies with a state of their own: ``SoftBody`` and ``Cloth``, and their files.

Imports: ``contact`` and rooms to its left.
Imports neither ``respond`` nor any room to its right.
"""
