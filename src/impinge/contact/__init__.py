"""Contacts of every method in one vocabulary, and the gradient of the overlap volume.

Imports: ``detect`` and rooms to its left.
Imports neither ``bodies`` nor any room to its right.
"""
