"""Files to arrays and back; sequences; atomic writes.

Imports: ``checks`` and ``errors``.
Imports no other room: ``mesh`` turns arrays into bodies.
"""
