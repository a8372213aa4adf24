"""Keys of a TOML file, taken one by one: each has a type and a range, and a message names the key that has neither.

    keys = Keys.read(path)
    title = keys.text("title", "")
    for body in keys.tables("body"):
        radius = body.number("radius", 1.0, above=0.0)
        body.end()                      # a key that nobody asked for is refused, with the nearest known one
    keys.end()

A file can describe and nothing else: TOML has no code, values are checked before they are used, and paths are resolved
and must stay below the folder of the file, links included.
"""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from impinge.checks import shown
from impinge.errors import FileError, OptionError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MOST_BYTES = 4_000_000
"""Of a scene file; meshes are files of their own."""
LARGEST = 1e12
"""Of any number in a scene file, and 1 / LARGEST is the least positive one: powers of lengths stay finite."""

_NEEDED: Any = object()


class Keys:
    """A table of the file."""

    def __init__(self, content: dict[str, Any], path: Path, place: str = "") -> None:
        self._content, self._path, self._place = content, path, place
        self._asked: set[str] = set()

    @classmethod
    def read(cls, path: Path) -> Keys:
        """The whole file as a table."""
        try:
            with path.open("rb") as file:
                data = file.read(MOST_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise FileError(f"{path} cannot be read ({reason}); expected a scene file like scene.toml") from error
        if len(data) > MOST_BYTES:
            raise FileError(f"{path} has more than {MOST_BYTES:,} bytes; expected a scene file, which names its meshes")
        try:
            return cls(tomllib.loads(data.decode()), path)
        except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, of numbers with too many digits
            reason = "tables are nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise FileError(f"{path} is no TOML file ({reason}); correct it there") from error

    # values ----------------------------------------------------------------------------------------------

    def has(self, key: str) -> bool:
        """Whether the key is there."""
        self._asked.add(key)
        return key in self._content

    def holds(self, key: str, kind: type) -> bool:
        """Whether the key is there and its value of that kind."""
        return self.has(key) and isinstance(self._content[key], kind)

    @property
    def folder(self) -> Path:
        """Where the file is, links resolved."""
        return self._path.parent.resolve()

    def text(self, key: str, default: Any = _NEEDED, *, among: Collection[str] = ()) -> Any:
        """A text, one of those given if any are."""
        known = f"one of {', '.join(among)}" if among else "a text in quotes"
        return self._take(key, default, known, lambda value: isinstance(value, str) and (not among or value in among))

    def flag(self, key: str, default: Any = _NEEDED) -> Any:
        """Yes or no."""
        return self._take(key, default, "true or false", lambda value: isinstance(value, bool))

    def count(self, key: str, default: Any = _NEEDED, *, least: int = 1, most: int) -> Any:
        """A whole number within a range."""
        return self._take(
            key, default, f"a whole number from {least:,} to {most:,}",
            lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most,
        )  # fmt: skip

    def number(self, key: str, default: Any = _NEEDED, *, above: float | None = None, least: float = -LARGEST) -> Any:
        """A finite number of a size that can be calculated with, as a float."""
        if above is not None:
            least = above + 1.0 / LARGEST
        expected = f"a number above {above:g}" if above is not None else "a number"
        expected += f" from {least:g}" if above is None and least > -LARGEST else ""
        found = self._take(key, default, f"{expected}, of at most {LARGEST:g}", lambda value: _fits(value, least))
        return float(found) if isinstance(found, int) else found

    def vector(self, key: str, default: Any = _NEEDED) -> Any:
        """Three numbers."""
        return self._floats(key, default, 3)

    def counts(self, key: str, default: Any = _NEEDED, *, length: int, most: int) -> Any:
        """So many whole numbers within a range."""
        found = self._take(
            key, default, f"{length} whole numbers from 1 to {most:,}",
            lambda value: isinstance(value, list) and len(value) == length
            and all(isinstance(each, int) and not isinstance(each, bool) and 1 <= each <= most for each in value),
        )  # fmt: skip
        return tuple(found) if isinstance(found, list) else found

    def sizes(self, key: str, default: Any = _NEEDED, *, length: int) -> Any:
        """A positive length, or one for each axis."""
        least = 1.0 / LARGEST

        def is_right(value: Any) -> bool:
            if isinstance(value, list):
                return len(value) == length and all(_fits(each, least) for each in value)
            return _fits(value, least)

        found = self._take(key, default, f"a positive number, or {length} of them", is_right)
        return tuple(map(float, found)) if isinstance(found, list) else found

    def _floats(self, key: str, default: Any, length: int) -> Any:
        found = self._take(
            key, default, f"{length} numbers like [0.0, 0.0, 1.0], of at most {LARGEST:g}",
            lambda value: isinstance(value, list) and len(value) == length and all(_fits(each) for each in value),
        )  # fmt: skip
        return tuple(map(float, found)) if isinstance(found, list) else found

    def file(self, key: str) -> Path:
        """A file or folder below that of the scene; the last part may be a pattern."""
        name = self.text(key)
        return self.inside(key, name)

    def inside(self, key: str, name: str) -> Path:
        """The path of something below the folder of the scene, links resolved; refuse any other."""
        folder = self.folder
        try:
            path = (folder / name).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise self.wrong(key, name, f"a path that can be followed ({error})") from error
        if Path(name).is_absolute() or not path.is_relative_to(folder) or path == folder:
            raise self.wrong(key, name, f"a path below the folder of the scene, {folder}; copy the file there")
        return path

    def table(self, key: str) -> Keys | None:
        """A table, None if it is not there."""
        found = self._take(key, None, f"a table [{key}]", lambda value: isinstance(value, dict))
        return None if found is None else Keys(found, self._path, f"{self._place}{key}.")

    def tables(self, key: str) -> Iterator[Keys]:
        """All tables of an array of tables."""
        found = self._take(
            key, [], f"tables [[{key}]]",
            lambda value: isinstance(value, list) and all(isinstance(each, dict) for each in value),
        )  # fmt: skip
        for number, each in enumerate(found):
            yield Keys(each, self._path, f"{self._place}{key}[{number}].")

    def pairs(self, key: str, known: Collection[str]) -> tuple[tuple[str, str], ...]:
        """Pairs of known names."""

        def is_pair(value: Any) -> bool:
            return isinstance(value, list) and len(value) == 2 and all(isinstance(name, str) for name in value)

        expected = 'pairs of names of bodies like [["a", "b"]]'
        found = self._take(key, [], expected, lambda value: isinstance(value, list) and all(map(is_pair, value)))
        for name in (each for pair in found for each in pair):
            if name not in known:
                raise self.wrong(key, name, f"names of bodies, which are {', '.join(known)}")
        return tuple((first, second) for first, second in found)

    # refusals --------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Refuse keys that nobody asked for."""
        for key in self._content:
            if key not in self._asked:
                close = difflib.get_close_matches(key, self._asked, n=1)
                known = f"did you mean {close[0]}?" if close else f"there may be {', '.join(sorted(self._asked))}"
                raise OptionError(f"{self._path}: {self._place}{key} is not known here; {known}")

    def wrong(self, key: str, found: Any, expected: str) -> OptionError:
        """An error that names the key."""
        return OptionError(f"{self._path}: {self._place}{key} is {shown(found)}, expected {expected}")

    def _take(self, key: str, default: Any, expected: str, is_right: Callable[[Any], bool]) -> Any:
        self._asked.add(key)
        if key not in self._content:
            if default is _NEEDED:
                raise OptionError(f"{self._path}: {self._place}{key} is missing, expected {expected}")
            return default
        found = self._content[key]
        if not is_right(found):
            raise self.wrong(key, found, expected)
        return found


def _fits(value: Any, least: float = -LARGEST) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return least <= value <= LARGEST and (isinstance(value, int) or math.isfinite(value))
