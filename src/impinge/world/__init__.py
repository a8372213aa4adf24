"""``World``: many bodies, its contact search, the surface batch with its queries, and the choice of a method.

Imports: ``respond`` and rooms to its left.
Imports neither ``queries`` nor any room to its right.
"""
