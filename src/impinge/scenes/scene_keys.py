"""Typed access to the keys of a TOML file; every error names the key, what was found and what was expected.

    keys = Keys.read(path)
    title = keys.take("title", TEXT, "")
    for body in keys.tables("body"):
        options = body.given({"radius": number(above=0.0), "position": VECTOR})
        body.end()                      # refuses unknown keys and suggests the nearest known one
    keys.end()

A file describes and cannot run code: TOML has none, values are checked before use, and paths are resolved, links
included, and must stay below the folder of the file.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from impinge.checks import shown
from impinge.errors import FileError, OptionError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MOST_BYTES = 4_000_000
"""Size limit of a scene file; meshes are separate files."""
MOST_PARTS = 16
"""Parts of a dotted key; keys of scene files have at most four."""
LARGEST = 1e12
"""Largest number of a scene file, and the inverse of the smallest positive one: powers of lengths stay finite."""

_REQUIRED: Any = object()


class Value(NamedTuple):
    """A kind of value."""

    expected: str
    """Its description in messages."""
    is_valid: Callable[[Any], bool]
    convert: Callable[[Any], Any] = lambda value: value


def text(*among: str) -> Value:
    """One of the given strings, or any."""
    expected = f"one of {', '.join(among)}" if among else "a text in quotes"
    return Value(expected, lambda value: isinstance(value, str) and (not among or value in among))


def count(least: int, most: int) -> Value:
    """An integer within a range."""
    expected = f"a whole number from {least:,} to {most:,}"
    return Value(expected, lambda value: type(value) is int and least <= value <= most)


def number(*, above: float | None = None, least: float = -LARGEST, most: float = LARGEST) -> Value:
    """A finite number, converted to float."""
    lowest = least if above is None else above + 1.0 / LARGEST
    limit = f" above {above:g}" if above is not None else f" from {least:g}" if least > -LARGEST else ""
    expected = f"a number{limit}, of at most {most:g}"
    return Value(expected, lambda value: type(value) in (int, float) and lowest <= value <= most, float)


def several(length: int | None, value: Value, expected: str) -> Value:
    """A list of ``length`` values, or of any number of them, converted to a tuple."""

    def is_valid(found: Any) -> bool:
        return isinstance(found, list) and length in (None, len(found)) and all(map(value.is_valid, found))

    return Value(expected, is_valid, lambda found: tuple(map(value.convert, found)))


def either(first: Value, second: Value, expected: str) -> Value:
    """A value of one of two kinds."""
    return Value(
        expected,
        lambda found: first.is_valid(found) or second.is_valid(found),
        lambda found: (first if first.is_valid(found) else second).convert(found),
    )


TEXT = text()
FLAG = Value("true or false", lambda value: isinstance(value, bool))
NUMBER, POSITIVE, NOT_NEGATIVE = number(), number(above=0.0), number(least=0.0)
VECTOR = several(3, NUMBER, f"3 numbers like [0.0, 0.0, 1.0], of at most {LARGEST:g}")
DIRECTION = Value("a direction: 3 numbers, not all zero", lambda x: VECTOR.is_valid(x) and any(x), VECTOR.convert)
TABLE = Value("a table", lambda value: isinstance(value, dict))


_TOKEN = re.compile(
    r"""\"{3}|'{3}|"[^"\\\n]*(?:\\.[^"\\\n]*)*"|'[^'\n]*'|#[^\n]*|[A-Za-z0-9_-]+|\.|[ \t]+|.""", re.DOTALL
)
_CLOSING = {'"""': re.compile(r'\\.|"""', re.DOTALL), "'''": re.compile("'''")}


def deepest_key(text: str) -> int:
    """The largest number of parts of a dotted key: ``a.b.c`` has three.

    tomllib takes quadratic time in that number. One pass over the tokens of TOML: names, strings and blanks continue a
    key, dots count, all else ends it. An unclosed string ends the pass, since tomllib stops there as well.
    """
    at = dots = most = 0
    while (found := _TOKEN.match(text, at)) and (token := found[0]) not in ('"', "'"):
        at = found.end()
        if token in _CLOSING:
            closing = next((end for end in _CLOSING[token].finditer(text, at) if end[0] == token), None)
            if closing is None:
                break
            at = closing.end()
            at += len(text[at : at + 2]) - len(text[at : at + 2].lstrip(token[0]))  # the string may end in two quotes
        elif token == ".":
            dots += 1
            most = max(most, dots)
        elif not (token[0].isalnum() or token[0] in " \t\"'-_"):
            dots = 0
    return most + 1


class Keys:
    """A table of the file."""

    def __init__(self, content: dict[str, Any], path: Path, place: str = "") -> None:
        self._content, self._path, self._place = content, path, place
        self._known: set[str] = set()

    @classmethod
    def read(cls, path: Path) -> Keys:
        """The whole file as a table."""
        try:
            if path.exists() and not path.is_file():  # a pipe would block
                raise ValueError("it is a folder, device or pipe")
            with path.open("rb") as file:
                data = file.read(MOST_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise FileError(f"{path} cannot be read ({reason}); expected a scene file like scene.toml") from error
        if len(data) > MOST_BYTES:
            raise FileError(f"{path} has more than {MOST_BYTES:,} bytes; expected a scene file, which names its meshes")
        try:
            text = data.decode()
            if deepest_key(text) > MOST_PARTS:
                raise ValueError(f"a key has more than {MOST_PARTS} parts")
            return cls(tomllib.loads(text), path)
        except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, of numbers with too many digits
            reason = "tables are nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise FileError(f"{path} is not a TOML file ({reason}); correct it there") from error

    @property
    def folder(self) -> Path:
        """Folder of the file, links resolved."""
        return self._path.parent.resolve()

    def has(self, key: str, kind: type = object) -> bool:
        """Whether the key exists and its value is of that type."""
        self._known.add(key)
        return key in self._content and isinstance(self._content[key], kind)

    def take(self, key: str, value: Value, default: Any = _REQUIRED) -> Any:
        """The value of a key, checked and converted, or the default."""
        if not self.has(key):
            if default is _REQUIRED:
                raise OptionError(f"{self._path}: {self._place}{key} is missing, expected {value.expected}")
            return default
        if not value.is_valid(self._content[key]):
            raise self.wrong(key, self._content[key], value.expected)
        return value.convert(self._content[key])

    def given(self, values: Mapping[str, Value]) -> dict[str, Any]:
        """The values of those keys that exist."""
        return {key: self.take(key, value) for key, value in values.items() if self.has(key)}

    def file(self, key: str) -> Path:
        """A path below the folder of the scene; its last component may be a pattern."""
        return self.inside(key, self.take(key, TEXT))

    def inside(self, key: str, name: str) -> Path:
        """The path ``name`` below the folder of the scene, links resolved."""
        folder = self.folder
        try:
            path = (folder / name).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise self.wrong(key, name, f"a path that can be followed ({error})") from error
        if Path(name).is_absolute() or not path.is_relative_to(folder) or path == folder:
            raise self.wrong(key, name, f"a path below the folder of the scene, {folder}; copy the file there")
        return path

    def table(self, key: str) -> Keys:
        """A table, empty if it does not exist."""
        return Keys(self.take(key, TABLE, {}), self._path, f"{self._place}{key}.")

    def tables(self, key: str) -> Iterator[Keys]:
        """The tables of an array of tables."""
        for position, each in enumerate(self.take(key, several(None, TABLE, f"tables [[{key}]]"), ())):
            yield Keys(each, self._path, f"{self._place}{key}[{position}].")

    def pairs(self, key: str, known: Collection[str]) -> tuple[tuple[str, str], ...]:
        """Pairs of known names."""
        pairs, names = several(None, several(2, TEXT, ""), 'pairs of names of bodies like [["a", "b"]]'), set(known)
        found: tuple[tuple[str, str], ...] = self.take(key, pairs, ())
        for name in (each for two in found for each in two):
            if name not in names:
                raise self.wrong(key, name, f"names of bodies, which are {', '.join(known)}")
        return found

    def end(self) -> None:
        """Refuse keys that were not requested."""
        for key in self._content:
            if key not in self._known:
                close = difflib.get_close_matches(key, self._known, n=1)
                known = f"did you mean {close[0]}?" if close else f"expected any of {', '.join(sorted(self._known))}"
                raise OptionError(f"{self._path}: {self._place}{key[:80]} is not known here; {known}")

    def wrong(self, key: str, found: Any, expected: str) -> OptionError:
        """An error that names the key."""
        return OptionError(f"{self._path}: {self._place}{key} is {shown(found)}, expected {expected}")
