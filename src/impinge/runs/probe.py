"""What a worker has to offer. Sent to it as code, not by name, for it may not have this package."""

from __future__ import annotations


def tell_versions() -> dict[str, str | None]:
    """The version of impinge, and of what it needs there; None of what is missing."""
    import importlib

    found: dict[str, str | None] = {}
    for name in ("impinge", "numba", "pyarrow"):
        try:
            found[name] = str(importlib.import_module(name).__version__)
        except Exception:  # noqa: BLE001, PERF203 - whatever keeps it from being imported keeps it from being used
            found[name] = None
    return found
