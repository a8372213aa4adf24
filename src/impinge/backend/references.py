"""Reference counts: the one guarded use of ``sys.getrefcount``.

A buffer may be overwritten when only its owner refers to it. CPython counts references exactly under a global
interpreter lock up to version 3.13. From 3.14 on, references borrowed by local variables are not counted; elsewhere
every object counts as shared, and buffers are allocated instead of reused.
"""

from __future__ import annotations

import sys

_HAS_LOCK = getattr(sys, "_is_gil_enabled", lambda: True)()
CAN_COUNT: bool = _HAS_LOCK and sys.implementation.name == "cpython" and sys.version_info < (3, 14)
"""Whether ``sys.getrefcount`` counts all references to an object."""


def is_shared(value: object, *, holders: int = 1) -> bool:
    """Whether more than ``holders`` names, attributes or containers refer to ``value``; True if unknown."""
    return not CAN_COUNT or sys.getrefcount(value) > holders + _CALL_REFERENCES


_CALL_REFERENCES = 0
_held = [object()]


def _calibrate() -> int:
    """References that a call of ``is_shared`` adds itself; they differ between versions of CPython."""
    extra = 0
    while is_shared(_held[0], holders=1 + extra):
        extra += 1
    return extra


_CALL_REFERENCES = _calibrate() if CAN_COUNT else 0
