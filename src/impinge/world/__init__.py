"""``World``: many bodies, its contact search, the batch of small surfaces, and the choice of a method.

Imports: ``respond`` and rooms to its left.
Imports neither ``queries`` nor any room to its right.
"""
