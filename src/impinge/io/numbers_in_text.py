"""Numbers in text: bytes to an array in one linear pass, without an object per number.

The text is parsed first and counted then: a declared count never allocates memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

CHUNK = 2**16
"""Bytes that are parsed at a time where the numbers may end before the text."""


def numbers_in(text: bytes, dtype: Any = np.float64) -> NDArray[Any]:
    """All numbers of a text, separated by white space; ``ValueError`` for any other word.

    NumPy before 2.3 returns the numbers before such a word, with a warning: callers compare their count.
    """
    return np.fromstring(text, dtype=dtype, sep=" ") if text and not text.isspace() else np.zeros(0, dtype)


def leading_numbers(text: bytes) -> NDArray[np.float64]:
    """The numbers of a text up to the first word that is none."""
    parts, at = [np.zeros(0)], 0
    while at < len(text):
        end = min(at + CHUNK, len(text))
        while end < len(text) and not text[end : end + 1].isspace():
            end += 1
        try:
            parts.append(numbers_in(text[at:end]))
        except ValueError:
            parts.append(_words_before_error(text[at:end]))
            break
        at = end
    return np.concatenate(parts)


def _words_before_error(text: bytes) -> NDArray[np.float64]:
    found: list[float] = []
    try:
        for word in text.split():
            found.append(float(word))  # noqa: PERF401 - those before the error are kept
    except ValueError:
        pass
    return np.array(found, dtype=np.float64)
