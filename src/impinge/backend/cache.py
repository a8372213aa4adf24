"""Folders of compiled kernels, named by a digest of their sources.

Numba checks the file of a kernel for changes, not the files of its callees. Here the folder of a kernel is named by a
digest of its module and of all modules of the package that it imports, directly or indirectly, relative imports
included. A changed source leads to another folder, hence stale code is never loaded.

The folders lie in the user's cache directory; ``IMPINGE_CACHE_DIR`` moves them. An unwritable folder costs time, not
correctness. Folders that no process has used for ``STALE_AFTER_DAYS`` days are deleted.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import logging
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np

logger = logging.getLogger("impinge")

STALE_AFTER_DAYS = 30
PACKAGE = Path(__file__).resolve().parents[1]

compilations: list[str] = []
"""Functions compiled in this process for lack of cached code; empty after ``impinge warmup``."""


@functools.cache
def cache_folder() -> Path:
    """The folder of compiled kernels: ``IMPINGE_CACHE_DIR``, or a folder in the user's cache directory."""
    chosen = os.environ.get("IMPINGE_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "impinge" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "impinge"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "impinge"


def has_source(function: Callable[..., Any]) -> bool:
    """Whether a file defines the function; code typed at a prompt has no digest and is not cached."""
    return Path(function.__code__.co_filename).is_file()


def kernel_folder(function: Callable[..., Any]) -> Path:
    """The folder of a function's compiled code: one per module and digest."""
    path = Path(function.__code__.co_filename).resolve()
    return cache_folder() / "kernels" / f"{path.stem}-{source_digest(path)}"


def _package_root(path: Path) -> Path:
    """The outermost package folder around a module; the folder itself for a module outside of packages."""
    folder = path.parent
    while (folder.parent / "__init__.py").is_file():
        folder = folder.parent
    return folder


@functools.cache
def _imported_modules(path: Path) -> frozenset[Path]:
    """Files of impinge and of the module's own package that the module imports, without the module itself."""
    own = _package_root(path)
    here = (own.name, *path.parent.relative_to(own).parts)
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # ``from ..b import c`` in package x.y imports from x.b: level 1 is the module's own package
            base = here[: len(here) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            names.add(module)
            names.update(f"{module}.{alias.name}" for alias in node.names)
    found: set[Path] = set()
    for name in names:
        package, _, rest = name.partition(".")
        for root in (PACKAGE, own):
            if package == root.name:
                target = root.joinpath(*rest.split("."))
                found.update(file for file in (target.with_suffix(".py"), target / "__init__.py") if file.is_file())
    return frozenset(found - {path})


@functools.cache
def source_digest(path: Path) -> str:
    """Digest of a module, of its imports within the package, of library versions and of bounds checking."""
    seen: set[Path] = set()
    queue = {path}
    while queue:
        seen |= queue
        queue = {file for module in queue for file in _imported_modules(module)} - seen
    digest = hashlib.sha256(f"{numba.__version__} {np.__version__} {numba.config.BOUNDSCHECK}".encode())
    for file in sorted(seen):
        digest.update(file.relative_to(_package_root(file)).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@functools.cache
def announce_compilation() -> None:
    """Announce the delay of the first use, once per process and on terminals only."""
    if sys.stderr is not None and sys.stderr.isatty() and not os.environ.get("IMPINGE_QUIET"):
        sys.stderr.write("impinge: compiling for this machine, once; `impinge warmup` does it up front\n")


@functools.cache
def warn_uncached(reason: str) -> None:
    """Warn, once per reason, that the cache folder is not writable."""
    logger.warning(
        "compiled kernels cannot be stored in %s (%s): every process compiles them; "
        "set IMPINGE_CACHE_DIR to a writable folder",
        cache_folder(),
        reason,
    )


@functools.cache
def delete_stale_folders() -> None:
    """Delete kernel folders of earlier versions, once per process."""
    oldest = time.time() - STALE_AFTER_DAYS * 86400
    for folder in (cache_folder() / "kernels").iterdir():
        is_ours = re.fullmatch(r"\w+-[0-9a-f]{16}", folder.name) is not None
        if is_ours and folder.is_dir() and folder.stat().st_mtime < oldest:
            shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def mark_as_used(folder: str) -> None:
    """Set a folder's time to now, once per process."""
    with contextlib.suppress(OSError):
        os.utime(folder)
