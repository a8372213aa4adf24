"""Shared by all tests: seeded randomness, and no picture that needs a screen."""

from __future__ import annotations

from collections.abc import Iterator

import numba
import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fixed seed, so that a failure repeats."""
    return np.random.default_rng(20061)


@pytest.fixture(autouse=True)
def _silent_arithmetic() -> Iterator[None]:
    """Let overflow pass as it does in compiled code, where Numba is off and NumPy's numbers would warn of it."""
    if not numba.config.DISABLE_JIT:
        yield
        return
    with np.errstate(all="ignore"):
        yield
