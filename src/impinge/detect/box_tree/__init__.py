"""``BoxTree``: all intersecting triangle pairs by joining two trees of boxes.

Imports: ``detect.boxes`` and folders to its left.
Imports no other method.
"""
