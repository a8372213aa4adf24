"""Addresses of arrays, for kernels that read arrays by address (``backend.raw_arrays_kernels``)."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray


def address_of(array: NDArray[Any]) -> int:
    """Address of the first element of a contiguous array; valid while the array is alive."""
    return int(array.__array_interface__["data"][0])
