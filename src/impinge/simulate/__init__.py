"""Bodies that move: detect, respond, step.

Imports: ``queries`` and rooms to its left.
Imports neither ``scenes`` nor any room to its right.
"""
