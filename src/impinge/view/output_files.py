"""Output files named by users: paths are checked before the computation, contents are written atomically."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from impinge.errors import FileError
from impinge.io.atomic import write_whole


class OutputFile(NamedTuple):
    """One kind of output file."""

    content: str
    """Named in error messages."""
    expected: str
    """Suffixes named as the remedy."""
    suffixes: Collection[str] = ()
    """Accepted suffixes in lower case; empty accepts any."""

    def check(self, path: Path) -> None:
        """Raise ``FileError`` where the path cannot be written, as far as this is known without writing."""
        reason = None
        if self.suffixes and path.suffix.lower() not in self.suffixes:
            reason = f"unknown suffix {path.suffix!r}"
        elif path.is_dir():
            reason = "it is a directory"
        elif not path.parent.is_dir():
            reason = f"{path.parent} is not a directory"
        elif path.exists() and not path.is_file():
            reason = "it is not a regular file"  # renaming onto a device would replace the device
        elif not os.access(path.parent, os.W_OK):
            reason = "permission denied"
        if reason is not None:
            raise self._error(path, reason)

    def write(self, path: Path, data: bytes) -> Path:
        """Write the file atomically and return its path."""
        self.check(path)
        try:
            write_whole(path, lambda file: file.write(data))
        except OSError as error:
            raise self._error(path, error.strerror or str(error)) from error
        return path

    def _error(self, path: Path, reason: str) -> FileError:
        remedy = f"choose a writable {self.expected} file"
        return FileError(f"the {self.content} could not be written to {path} ({reason}); {remedy}")
