"""Package versions of a worker. Pickled by value: the worker may lack this package."""

from __future__ import annotations


def versions() -> dict[str, str | None]:
    """Versions of impinge, numba and pyarrow; None if a package cannot be imported."""
    import importlib

    found: dict[str, str | None] = {}
    for name in ("impinge", "numba", "pyarrow"):
        try:
            found[name] = str(importlib.import_module(name).__version__)
        except Exception:  # noqa: BLE001, PERF203 - any failed import makes the package unusable
            found[name] = None
    return found
