"""The live page, pictures and reports.

Imports: ``scenes`` and rooms to its left.
Imports neither ``runs`` nor ``app``.
"""
