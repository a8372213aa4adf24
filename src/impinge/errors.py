"""The few errors of impinge. Each message says what was found, what was expected, and the remedy."""

from __future__ import annotations

import importlib
from typing import Any


class ImpingeError(Exception):
    """Root of every error that impinge raises on purpose."""


class MeshError(ImpingeError, ValueError):
    """A body that cannot be used as it is."""


class FileError(ImpingeError, OSError):
    """A file that cannot be read or written as a mesh."""

    def __str__(self) -> str:
        return str(self.args[0])


class OptionError(ImpingeError, ValueError):
    """An option outside of its range, or one that does not fit the bodies it is used with."""


class CrossingError(ImpingeError, ValueError):
    """Bodies that cross where they must not; the message names triangles."""


class MissingExtra(ImpingeError, ImportError):  # noqa: N818 - a public name
    """An optional package is needed and not installed; the message names the extra."""


def optional_module(name: str, message: str) -> Any:
    """Import a module of an optional package; ``MissingExtra`` with this message if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtra(message) from error


class ClusterError(ImpingeError, RuntimeError):
    """Other machines or processes that cannot be reached or used, or that ended; what was done so far is kept."""


class SimulationWarning(UserWarning):
    """A step that did not reach its tolerance, or that was integrated in another way; the message names the remedy."""


class MeshWarning(UserWarning):
    """Something was left out or repaired on request; the message names it."""
