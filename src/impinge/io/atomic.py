"""Atomic file writes: a file appears whole or not at all.

1. Write   the content to a hidden ``.<hex>.tmp`` file in the folder of the target.
2. Sync    it to disk (``fsync``): a power failure cannot leave an empty file under the final name.
3. Rename  it to the target, which replaces an existing file in one step (POSIX ``rename``).

A failure removes the temporary file and leaves an existing target unchanged. A killed process can leave a ``.tmp``
file behind.
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Create or replace a file by what ``write`` writes to an open binary file.

    Symbolic links are followed: the link stays, its target is replaced.

    Raises
    ------
    OSError
        If the file exists and is write-protected, or a step fails; ``filename`` is ``path``. Python names no file where
        a write fails, as on a full disk.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "the file is write-protected", str(path))
    temporary = target.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        raise OSError(error.errno or errno.EIO, error.strerror or str(error), str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
