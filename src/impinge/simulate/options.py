"""Options of a simulation, validated on every assignment."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import numpy as np

from impinge.checks import Floats, as_number, as_numbers, as_whole, shown
from impinge.errors import OptionError
from impinge.simulate.pair_scheduler import Limits

if TYPE_CHECKING:
    from impinge.simulate.simulation import Simulation

MAX_GRAVITY = 1e100
"""Largest component of gravity [m / s²]: its square is finite."""

Value = TypeVar("Value")


class Option(Generic[Value]):
    """A validated attribute of a simulation; ``check`` takes the simulation, the value and the attribute's name.

    With ``invalidates``, an assignment discards the state that the simulation derives from its options.
    """

    def __init__(self, check: Callable[[Simulation, Any, str], Value], *, invalidates: bool = False) -> None:
        self._check, self._invalidates = check, invalidates

    def __set_name__(self, owner: type, name: str) -> None:
        """Store the attribute's name."""
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Option[Value]: ...

    @overload
    def __get__(self, instance: Simulation, owner: type) -> Value: ...

    def __get__(self, instance: Simulation | None, owner: type) -> Option[Value] | Value:
        """Return the current value."""
        return self if instance is None else instance.__dict__[self._name]

    def __set__(self, instance: Simulation, value: Any) -> None:
        """Validate and store a value."""
        instance.__dict__[self._name] = self._check(instance, value, self._name)
        if self._invalidates:
            instance.invalidate()


def as_positive(value: Any, name: str) -> float:
    """Convert ``value`` to a finite number above 0."""
    return as_number(value, name, "a positive number", above=0.0, below=np.inf)


def positive_or_none(_: Simulation, value: Any, name: str) -> float | None:
    """Check of an option: a finite number above 0, or None."""
    return None if value is None else as_positive(value, name)


def not_negative(_: Simulation, value: Any, name: str) -> float:
    """Check of an option: a finite number from 0."""
    return as_number(value, name, "a number from 0", least=0.0, below=np.inf)


def as_vector(value: Any, name: str) -> Floats:
    """Convert ``value`` to three finite numbers, read-only."""
    array = as_numbers(value, name).astype(np.float64)
    if array.shape != (3,) or not np.isfinite(array).all():
        raise OptionError(f"{name} is {shown(value)}, expected three finite numbers")
    array.flags.writeable = False
    return array


def as_gravity(value: Any, name: str) -> Floats:
    """Convert ``value`` to an acceleration whose square is finite."""
    array = as_vector(value, name)
    if np.abs(array).max() > MAX_GRAVITY:
        raise OptionError(f"{name} is {shown(value)}, expected three numbers up to {MAX_GRAVITY:g}")
    return array


def as_ground(ground: Any, gravity: Floats) -> tuple[Floats, float] | None:
    """Convert a height or (point, normal) to the unit normal and height of a plane."""
    if ground is None:
        return None
    expected = "a height, (point, normal) of a plane, or None"
    if isinstance(ground, tuple | list) and len(ground) == 2:
        point, normal = as_vector(ground[0], "the point of the ground"), as_vector(ground[1], "its normal")
        size = float(np.linalg.norm(normal))
        if size > 0.0:
            return normal / size, float(point @ normal) / size
        raise OptionError(f"ground is {shown(ground)}, expected {expected}")
    height = as_number(ground, "ground", expected, above=-np.inf, below=np.inf)
    size = float(np.linalg.norm(gravity))
    return -gravity / size if size > 0.0 else np.array([0.0, 0.0, 1.0]), height


def as_limits(budget_ms: float | None, max_tests: int | None, target_ms: float | None) -> Limits:
    """Convert the budget options to the limits of a search."""
    limits: Limits = {}
    if budget_ms is not None:
        limits["budget_ms"] = as_positive(budget_ms, "budget_ms")
    if max_tests is not None:
        limits["max_tests"] = as_whole(max_tests, "max_tests")
    if target_ms is not None and limits:
        raise OptionError(f"target_ms sets the budget of searches; omit {' and '.join(limits)}")
    if len(limits) > 1:
        raise OptionError("budget_ms and max_tests exclude each other; use max_tests for reproducible runs")
    return limits
