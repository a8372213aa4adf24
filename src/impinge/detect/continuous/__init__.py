"""Continuous collision detection: when moving bodies first meet, and how far they may move.

May import ``mesh``, ``detect.common``, ``detect.boxes``, ``detect.box_tree`` and ``detect.proximity``.
"""
