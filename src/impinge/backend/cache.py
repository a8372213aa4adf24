"""Folders of compiled kernels, named by a digest of their sources.

A changed source leads to another folder, hence stale code is never loaded. The folders lie in the user's cache
directory; ``IMPINGE_CACHE_DIR`` moves them. An unwritable folder costs time, not correctness. Folders that no process
has used for ``STALE_AFTER_DAYS`` days are deleted. Kernels that were compiled when the package was built are found
before these (``backend.shipped``).

Parsing the imports of all modules takes half a second. Digests are therefore kept in a *manifest*: a file named by one
hash of all sources of the package, which a process computes in milliseconds. A changed source leads to another
manifest. Modules outside of the package (benchmarks, tests) are parsed.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import os
import re
import shutil
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from impinge.backend.shipped import shipped_kernels
from impinge.backend.sources import PACKAGE, code_flags, make_manifest, package_digest, parsed_digest

logger = logging.getLogger("impinge")

STALE_AFTER_DAYS = 30

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


@functools.cache
def _manifest() -> Mapping[str, str]:
    """Digests of the modules of the package: shipped, from the file of this package hash, or parsed and kept."""
    if shipped_kernels().folder is not None:
        return shipped_kernels().digests
    path = cache_folder() / "sources" / f"{package_digest()}.json"
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(path.read_bytes())
        if isinstance(found, dict) and all(isinstance(each, str) for each in found.values()):
            return found
    digests = make_manifest()
    with contextlib.suppress(OSError):  # reported when kernels are saved
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{uuid.uuid4().hex}")
        unfinished.write_text(json.dumps(digests))
        unfinished.replace(path)
    return digests


@functools.cache
def source_digest(path: Path) -> str:
    """Digest of a module, of its imports within the package, and of ``code_flags``."""
    sources = _manifest().get(path.relative_to(PACKAGE).as_posix()) if path.is_relative_to(PACKAGE) else None
    return hashlib.sha256(f"{code_flags()} {sources or parsed_digest(path)}".encode()).hexdigest()[:16]


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
