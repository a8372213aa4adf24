"""Shared by all tests: seeded randomness."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import hypothesis
import numba
import numpy as np
import pytest

SLOW_IS_FINE = [hypothesis.HealthCheck.too_slow]
hypothesis.settings.register_profile(
    "repeatable", derandomize=True, database=None, deadline=None, suppress_health_check=SLOW_IS_FINE
)
hypothesis.settings.load_profile("repeatable")
with contextlib.suppress(ImportError, AttributeError):  # older versions try no numbers from the code that is loaded
    from hypothesis.internal.conjecture import providers

    # which code is loaded depends on what was tested before in the same process
    providers._get_local_constants = providers.Constants


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fixed seed: a failure repeats."""
    return np.random.default_rng(20061)


@pytest.fixture(autouse=True)
def _silent_arithmetic() -> Iterator[None]:
    """Let overflow pass as it does in compiled code, where Numba is off and NumPy's numbers would warn of it."""
    if not numba.config.DISABLE_JIT:
        yield
        return
    with np.errstate(all="ignore"):
        yield
