"""The command line, the demo and the warm-up.

Imports: every room.
Nothing imports ``app`` except ``impinge.__main__`` and the lazy names of ``impinge``.
"""
