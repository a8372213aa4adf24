"""Forces from contacts: implicit contact constraints, and penalty forces.

Imports: ``bodies`` and rooms to its left.
Imports neither ``world`` nor any room to its right.
"""
