"""Shared by all tests: seeded randomness, and no picture that needs a screen."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fixed seed, so that a failure repeats."""
    return np.random.default_rng(20061)
