"""Digests of sources: what compiled code was made from.

Numba checks the file of a kernel for changes, not the files of its callees. The digest of a module here covers its file
and all files of the package that it imports, directly or indirectly, relative imports included.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import os
from pathlib import Path

import numba
import numpy as np

PACKAGE = Path(__file__).resolve().parents[1]
IS_PLAIN = os.environ.get("IMPINGE_PLAIN_NUMBA", "0") not in ("", "0") or not numba.__version__.startswith("0.68.")
"""Whether compilation goes through the public interface of Numba alone."""


def package_root(path: Path) -> Path:
    """The outermost package folder around a module; the folder itself for a module outside of packages."""
    folder = path.parent
    while (folder.parent / "__init__.py").is_file():
        folder = folder.parent
    return folder


@functools.cache
def imported_modules(path: Path) -> frozenset[Path]:
    """Files of impinge and of the module's own package that the module imports, without the module itself."""
    own = package_root(path)
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


def _closure(path: Path) -> set[Path]:
    """The module and all modules that it imports, directly or indirectly."""
    seen: set[Path] = set()
    queue = {path}
    while queue:
        seen |= queue
        queue = {file for module in queue for file in imported_modules(module)} - seen
    return seen


@functools.cache
def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def parsed_digest(path: Path) -> str:
    """Digest of the sources of a module and of its imports."""
    digest = hashlib.sha256()
    for file in sorted(_closure(path)):
        digest.update(f"{file.relative_to(package_root(file)).as_posix()} {_file_digest(file)}\n".encode())
    return digest.hexdigest()


@functools.cache
def package_digest() -> str:
    """One hash of all sources of the package."""
    digest = hashlib.sha256()
    for file in sorted(PACKAGE.rglob("*.py")):
        digest.update(f"{file.relative_to(PACKAGE).as_posix()} {_file_digest(file)}\n".encode())
    return digest.hexdigest()


def make_manifest() -> dict[str, str]:
    """Parse the package: digests of all modules by their path in it."""
    return {file.relative_to(PACKAGE).as_posix(): parsed_digest(file) for file in sorted(PACKAGE.rglob("*.py"))}


CODE_SETTINGS = ("BOUNDSCHECK", "OPT", "DEBUGINFO_DEFAULT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "USING_SVML")
"""Settings of Numba that change machine code."""


def code_flags() -> str:
    """What machine code depends on besides its source: the compiler, its settings, the major version of NumPy."""
    compiler = f"numba {numba.__version__}{' plain' if IS_PLAIN else ''}, numpy {np.__version__.split('.')[0]}"
    settings = {name: getattr(numba.config, name, None) or 0 for name in CODE_SETTINGS}
    numbers = {name: "max" if getattr(value, "is_opt_max", False) else int(value) for name, value in settings.items()}
    return ", ".join([compiler, *(f"{name}={number}" for name, number in numbers.items())])
