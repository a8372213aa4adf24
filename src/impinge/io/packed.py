"""Limits of unpacking: a small file must not become gigabytes of memory.

A packed file (gzip, npz, compressed vtu) and a glTF scene that repeats a mesh may grow to

    max(its own size, 16 MiB, min(20 x its own size, 1 GiB))

bytes. Meshes shrink by factors of 2 to 10 in gzip, regular grids most; data made for attacks by up to 1000. The
environment variable ``IMPINGE_UNPACK_LIMIT`` replaces the limit by a number of bytes. The limit is enforced while
unpacking: what a header declares is not trusted.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from pathlib import Path

from impinge.errors import FileError, OptionError

VARIABLE = "IMPINGE_UNPACK_LIMIT"
ALWAYS = 16 * 2**20
"""Bytes that any file may grow to."""
RATIO = 20
MOST = 2**30
"""Bytes that no packed file grows beyond, unless it is larger itself."""


def unpack_limit(packed_size: int) -> int:
    """Bytes that a file of ``packed_size`` bytes may grow to."""
    given = os.environ.get(VARIABLE)
    if given is None:
        return max(packed_size, ALWAYS, min(RATIO * packed_size, MOST))
    if not given.isdecimal() or len(given) > 18:
        raise OptionError(f"{VARIABLE} is {given[:80]!r}, expected a number of bytes such as {4 * MOST}")
    return int(given)


def check_unpacked(size: int, packed_size: int, name: str | Path) -> None:
    """Refuse a file of ``packed_size`` bytes that grows to ``size`` or more."""
    limit = unpack_limit(packed_size)
    if size > limit:
        raise FileError(
            f"{name} has {packed_size:,} bytes and unpacks to more than the limit of {limit:,}; "
            f"set {VARIABLE} to a larger number of bytes if you trust it"
        )


def gunzip(data: bytes, name: str | Path) -> bytes:
    """Unpack gzip data, one byte beyond the limit at most."""
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        unpacked = file.read(unpack_limit(len(data)) + 1)
    check_unpacked(len(unpacked), len(data), name)
    return unpacked


def inflate(blocks: list[bytes], compressor: str, name: str | Path, packed_size: int) -> bytes:
    """Unpack the blocks of a compressed array of a file of ``packed_size`` bytes; compressors by their names in VTK."""
    unpacked, limit = bytearray(), unpack_limit(packed_size)
    for block in blocks:
        if compressor == "vtkZLibDataCompressor":
            unpacked += zlib.decompressobj().decompress(block, limit + 1 - len(unpacked))
        elif compressor == "vtkLZMADataCompressor":
            import lzma

            decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=max(limit, ALWAYS))
            unpacked += decoder.decompress(block, limit + 1 - len(unpacked))
        else:
            raise FileError(f"{name} is compressed by {compressor[:80]!r}, expected zlib, LZMA or none; write it again")
        check_unpacked(len(unpacked), packed_size, name)
    return bytes(unpacked)
