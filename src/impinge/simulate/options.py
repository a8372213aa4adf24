"""Options of a simulation: what each may be, checked whenever it is set, at first and later."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from impinge.checks import Floats, as_numbers, shown
from impinge.errors import OptionError

STRONGEST = 1e100
"""Gravity, at most [m / s²]."""


class Option:
    """An attribute that ``check`` turns into what is kept, given the object, the value and the attribute's name.

    With ``rebuilds`` the object's ``forget`` is called after a change.
    """

    def __init__(self, check: Callable[[Any, Any, str], Any], *, rebuilds: bool = False) -> None:
        self._check, self._rebuilds = check, rebuilds

    def __set_name__(self, owner: type, name: str) -> None:
        """Learn the attribute's name."""
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """What is kept."""
        return self if instance is None else instance.__dict__[self._name]

    def __set__(self, instance: Any, value: Any) -> None:
        """Check a value and keep it."""
        instance.__dict__[self._name] = self._check(instance, value, self._name)
        if self._rebuilds:
            instance.forget()


def numeric(*, zero: bool = True, none: bool = False) -> Callable[[Any, Any, str], float | None]:
    """A check for a finite number from 0, or above it; or for None."""
    return lambda _, value, name: None if none and value is None else as_number(value, name, zero=zero)


def as_number(value: Any, name: str, *, zero: bool = True) -> float:
    """A finite number from 0, or above it."""
    is_number = isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0.0 or (value == 0.0 and not zero):
        raise OptionError(f"{name} is {shown(value)}, expected a {'number from 0' if zero else 'positive number'}")
    return float(value)


def as_vector(value: Any, name: str) -> Floats:
    """Three finite numbers, which nobody changes."""
    array = as_numbers(value, name).astype(np.float64)
    if array.shape != (3,) or not np.isfinite(array).all():
        raise OptionError(f"{name} is {shown(value)}, expected three finite numbers")
    array.flags.writeable = False
    return array


def as_gravity(value: Any, name: str) -> Floats:
    """An acceleration whose square is finite."""
    array = as_vector(value, name)
    if np.abs(array).max() > STRONGEST:
        raise OptionError(f"{name} is {shown(value)}, expected three numbers up to {STRONGEST:g}")
    return array


def as_ground(ground: Any, gravity: Floats) -> tuple[Floats, float] | None:
    """Unit normal and height of the plane."""
    if ground is None:
        return None
    if isinstance(ground, int | float | np.floating | np.integer) and not isinstance(ground, bool):
        size = float(np.linalg.norm(gravity))
        up = -gravity / size if size > 0.0 else np.array([0.0, 0.0, 1.0])
        if math.isfinite(ground):
            return up, float(ground)
    elif isinstance(ground, tuple | list) and len(ground) == 2:
        point, normal = as_vector(ground[0], "the point of the ground"), as_vector(ground[1], "its normal")
        size = float(np.linalg.norm(normal))
        if size > 0.0:
            return normal / size, float(point @ normal) / size
    raise OptionError(f"ground is {shown(ground)}, expected a height, (point, normal) of a plane, or None")


def as_limits(budget_ms: Any, max_tests: Any, target_ms: Any) -> dict[str, Any]:
    """What a search may take, as a query takes it."""
    limits = {name: value for name, value in (("budget_ms", budget_ms), ("max_tests", max_tests)) if value is not None}
    if target_ms is not None and limits:
        raise OptionError(f"target_ms chooses the budget of searches by itself; leave out {' and '.join(limits)}")
    if budget_ms is not None:
        as_number(budget_ms, "budget_ms", zero=False)
    if max_tests is not None and (
        isinstance(max_tests, bool) or not isinstance(max_tests, int | np.integer) or max_tests < 1
    ):
        raise OptionError(f"max_tests is {shown(max_tests)}, expected a whole number from 1")
    if len(limits) > 1:
        raise OptionError("budget_ms and max_tests are both given; choose one, max_tests if runs have to repeat")
    return {name: int(value) if name == "max_tests" else float(value) for name, value in limits.items()}
