"""npz archives of plain arrays, with every size checked before memory is allocated.

1. File.    Only a regular file is opened: a pipe would block.
2. Archive. Members are stored or deflated; the sum of their unpacked sizes is limited (``packed``).
3. Arrays.  The shape and type in a member's header must take exactly as many bytes as the member holds. Pickled objects
            are refused, and so is text with numbers that are no characters, on which Python fails later.

``numpy.load`` was tried: it allocates what a header declares, and unpacks without limit.
"""

from __future__ import annotations

import math
import os
import sys
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from impinge.errors import ImpingeError
from impinge.io.packed import check_unpacked

LONGEST_EMPTY = 1000
"""Longest axis of an array without entries, which costs no bytes and would still be iterated over."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def read_npz(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """The arrays of an archive by name.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it is no archive of plain arrays, or damaged.
    FileError
        If it unpacks to more than the limit.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise ValueError("it is a folder, device or pipe")
    with path.open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
                check_unpacked(sum(member.file_size for member in members.values()), path.stat().st_size, path)
                return {name: _array(archive, member) for name, member in members.items()}
        except (OSError, ImpingeError):
            raise
        except Exception as error:  # of zipfile, zlib, and the parser of headers, which raise anything
            raise ValueError(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}") from error


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """The array of a member."""
    if member.compress_type not in _METHODS:
        raise ValueError(f"{member.filename[:80]} is compressed by method {member.compress_type}")
    opened: Any = archive.open(member)
    with opened as file:
        shape, is_column_major, dtype = _header(file)
        if dtype.hasobject or dtype.kind == "V":
            raise ValueError(f"{member.filename[:80]} holds pickled objects or records")
        if math.prod(shape) * dtype.itemsize != member.file_size - file.tell():
            raise ValueError(f"{member.filename[:80]} has {member.file_size} bytes, but declares {shape} of {dtype}")
        array: NDArray[Any] = np.empty(shape[::-1] if is_column_major else shape, dtype)
        if array.nbytes:
            file.readinto(array.reshape(-1).view(np.uint8).data)
        file.read(1)  # the end of the member, where its checksum is compared
    if dtype.kind == "U" and array.size and dtype.itemsize:
        codes = array.reshape(-1).view(np.dtype("u4").newbyteorder(dtype.byteorder))
        if codes.max() > sys.maxunicode:
            raise ValueError(f"{member.filename[:80]} holds text that is not Unicode")
    return array.T if is_column_major else array


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type; versions 1 and 2 differ in the length of the header."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, is_column_major, dtype = readers[np.lib.format.read_magic(file)](file)
    if min(shape, default=0) < 0 or (0 in shape and max(shape) > LONGEST_EMPTY):
        raise ValueError(f"the shape {shape} is negative, or long and empty")
    return shape, is_column_major, dtype
