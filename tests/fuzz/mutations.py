"""Mutations of bytes: a seed and a corpus give one mutant, the same on every machine.

1. Pick    an entry of the corpus.
2. Change  it one to four times: bits, bytes, slices, numbers in text and binary, words, repetition, nesting, cuts.
3. Pack    as it was packed. Entries that are archives are unpacked first, because nearly every change of packed bytes
           ends at a checksum; every eighth mutant changes the packed bytes themselves.
"""

from __future__ import annotations

import gzip
import io
import random
import re
import struct
import zipfile
import zlib
from collections.abc import Callable

MOST_BYTES = 400_000
"""Size of a mutant; entries have a few hundred to a few thousand bytes."""
NUMBERS = (
    b"-1", b"0", b"1", b"2", b"3", b"255", b"-5", b"65536", b"999999999", b"2147483647", b"2147483648", b"-2147483649",
    b"4294967295", b"1000000000000", b"9223372036854775807", b"-9223372036854775808", b"18446744073709551615",
    b"99999999999999999999999999", b"1e308", b"-1e400", b"nan", b"inf", b"-inf", b"0.5", b"1.5", b"1e-320", b"0x10",
    b"1_0",
    b"", b"''", b"\"a\"", b"[]", b"{}", b"null", b"true",
)  # fmt: skip
INTEGERS = (0, 1, 2, 3, 127, 128, 255, 256, 32767, 65535, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1)
NESTS = (b"[", b"{", b"(", b"[[", b"<a>", b'{"a":', b'["', b"a.", b"$", b"\n", b" ", b"\0", b"0 ", b"#", b"'''", b'"')

Change = Callable[[bytes, random.Random], bytes]


def _slice(data: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + int(2.0 ** rng.uniform(0.0, 9.0)))


def flip_bits(data: bytes, rng: random.Random) -> bytes:
    """Flip one to eight bits."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def replace_bytes(data: bytes, rng: random.Random) -> bytes:
    """Overwrite a slice by random bytes."""
    start, end = _slice(data, rng)
    return data[:start] + rng.randbytes(end - start) + data[end:]


def delete(data: bytes, rng: random.Random) -> bytes:
    """Remove a slice."""
    start, end = _slice(data, rng)
    return data[:start] + data[end:]


def copy(data: bytes, rng: random.Random) -> bytes:
    """Insert a slice elsewhere."""
    start, end = _slice(data, rng)
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[start:end] + data[at:]


def truncate(data: bytes, rng: random.Random) -> bytes:
    """Keep the beginning."""
    return data[: rng.randrange(len(data) + 1)]


def replace_number(data: bytes, rng: random.Random) -> bytes:
    """Replace a number in text by a hostile one; half of the time a whole number, such as a count."""
    pattern = rb"(?<![\w.])-?\d+(?![\w.])" if rng.random() < 0.5 else rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
    found = [match.span() for match in re.finditer(pattern, data[:20_000])]
    if not found:
        return replace_integer(data, rng)
    start, end = rng.choice(found)
    return data[:start] + rng.choice(NUMBERS) + data[end:]


def replace_integer(data: bytes, rng: random.Random) -> bytes:
    """Overwrite 1, 2, 4 or 8 bytes by a hostile integer in either byte order."""
    size = rng.choice((1, 2, 4, 4, 4, 8, 8))
    at = rng.randrange(max(len(data) - size, 0) + 1)
    value = rng.choice(INTEGERS) & (2 ** (8 * size) - 1)
    return data[:at] + value.to_bytes(size, rng.choice(("little", "big"))) + data[at + size :]


def replace_float(data: bytes, rng: random.Random) -> bytes:
    """Overwrite 4 or 8 bytes by a hostile float."""
    code = rng.choice(("<f", ">f", "<d", ">d"))
    values = (float("nan"), float("inf"), -0.0, 1e-38, 3e38 if code[1] == "f" else 1e308)
    packed = struct.pack(code, rng.choice(values))
    at = rng.randrange(max(len(data) - len(packed), 0) + 1)
    return data[:at] + packed + data[at + len(packed) :]


def swap_words(data: bytes, rng: random.Random) -> bytes:
    """Replace a word by another of the same file."""
    words = [match.span() for match in re.finditer(rb"[A-Za-z_$]+", data[:20_000])]
    if len(words) < 2:
        return flip_bits(data, rng)
    (start, end), (first, last) = rng.choice(words), rng.choice(words)
    return data[:start] + data[first:last] + data[end:]


def repeat(data: bytes, rng: random.Random) -> bytes:
    """Repeat a slice, or brackets and blanks, up to thousands of times."""
    start, end = _slice(data, rng)
    what = data[start:end] if rng.random() < 0.5 else rng.choice(NESTS)
    count = min(int(2.0 ** rng.uniform(1.0, 14.0)), MOST_BYTES // max(len(what), 1))
    return data[:start] + what * count + data[start:]


def swap_lines(data: bytes, rng: random.Random) -> bytes:
    """Exchange two lines."""
    lines = data.split(b"\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[i], lines[j] = lines[j], lines[i]
    return b"\n".join(lines)


CHANGES: tuple[Change, ...] = (
    flip_bits, replace_bytes, delete, copy, truncate, replace_number, replace_number, replace_number, replace_integer,
    replace_integer, replace_float, swap_words, repeat, swap_lines,
)  # fmt: skip


def change(data: bytes, rng: random.Random) -> bytes:
    """Apply one to four changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        data = rng.choice(CHANGES)(data or b"\n", rng)[:MOST_BYTES]
    return data


def mutant(corpus: list[bytes], name: str, seed: int) -> bytes:
    """The mutant with this seed of the corpus called ``name``."""
    rng = random.Random(f"{name} {seed}")
    data = rng.choice(corpus)
    if rng.random() < 0.1:  # one part of another entry
        other = rng.choice(corpus)
        data = data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]
    if rng.random() < 0.125:
        return change(data, rng)
    try:
        if data[:2] == b"\x1f\x8b":
            return gzip.compress(change(gzip.decompress(data), rng), mtime=0)
        if data[:2] == b"PK":
            return _change_archive(data, rng)
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, RuntimeError):
        pass  # parts of two entries are no archive
    return change(data, rng)


def _change_archive(data: bytes, rng: random.Random) -> bytes:
    """Change members of a zip archive, leave some out, and exchange some."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    names = list(members)
    for _ in range(rng.choice((1, 1, 2, 3))):
        name = rng.choice(names)
        how = rng.random()
        if how < 0.8:
            members[name] = change(members[name], rng)
        elif how < 0.9:
            members[name] = members[rng.choice(names)]
        else:
            members[name] = b""
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, content in members.items():
            if content or rng.random() < 0.5:
                archive.writestr(name, content)
    return packed.getvalue()
