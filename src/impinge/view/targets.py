"""Files that people ask for: looked at before the work, and written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def obstacle(path: Path) -> str | None:
    """Why a file cannot be written there, as far as can be told without writing; None if nothing speaks against it."""
    if path.is_dir():
        return "it is a folder"
    if not path.parent.is_dir():
        return f"{path.parent} is no folder"
    if path.exists() and not path.is_file():
        return "it is no ordinary file"  # a device would be replaced by a file of its name
    return None if os.access(path.parent, os.W_OK) else "permission denied"


def write_whole(path: Path, data: bytes) -> None:
    """Write beside ``path`` and rename; what is there stays as it is until all is written."""
    part = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        part.write_bytes(data)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
