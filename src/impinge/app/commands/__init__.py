"""One module per family of commands; ``impinge.app.cli`` registers them.

Imports: every room.
Imports nothing of ``benchmarks``.
"""
