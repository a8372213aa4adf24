"""Argument checks: what a caller passes becomes a number or a contiguous array of fixed type, or one error sentence.

Arguments are checked once, here; code below trusts them. A message names the item, what was found, what was expected,
and the remedy.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from impinge.errors import MeshError, OptionError

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]
Number = TypeVar("Number", bound=np.generic)
Choice = TypeVar("Choice")
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""What ``to_dict`` of a result holds, ready for ``json.dumps``."""
Stats: TypeAlias = dict[str, Any]
"""Counters of the work done and milliseconds per stage, for people; no code takes decisions from them."""


class Cancel(Protocol):
    """Anything with ``is_set()``, such as a ``threading.Event``; set, it stops the query."""

    def is_set(self) -> bool:
        """Whether to stop."""


NONE = -1
"""The absent index."""

SMALL = 1000
"""Numbers up to which looking at each is quicker than setting up the sum below."""

FARTHEST = 1e153
"""The largest coordinate for which the squared distance of two points is finite."""

LONGEST_PATH, LONGEST_NAME = 4096, 255
"""Characters of a path and of each of its parts; systems refuse longer ones, in different ways."""

INDEX_LIMIT = 2**31 - 1
"""Ids are int32: this many elements, and no more, fit into one body."""


def as_numbers(x: Any, name: str) -> NDArray[Any]:
    """Turn ``x`` into an array of real numbers, or say why it is none; masked arrays are refused."""
    rows = x if isinstance(x, list | tuple) else (x,)
    if any(isinstance(row, np.ma.MaskedArray) for row in rows):
        raise MeshError(f"{name} are a masked array; leave the masked entries out, or fill them with numbers")
    try:
        array = np.asarray(x)
    except ValueError as error:
        raise MeshError(f"{name} are ragged: rows differ in length; expected one rectangular array") from error
    except Exception as error:  # sequences and __array__ of a caller may raise anything
        raise MeshError(f"{name} cannot be read as an array ({type(error).__name__}); expected numbers") from error
    if array.size == 0 and array.dtype == object:
        array = array.astype(np.float64)
    if array.dtype.kind not in "fiub":
        kind = {"c": "complex numbers", "O": "Python objects", "U": "strings", "S": "byte strings"}
        found = kind.get(array.dtype.kind, f"values of type {array.dtype}")
        raise MeshError(f"{name} hold {found}; expected real numbers, convert them first")
    return array


def as_positions(x: Any, *, name: str = "vertices", count: int | None = None, check: bool = True) -> Floats:
    """Turn ``x`` into C-contiguous float64 positions of shape (n, 3); no copy if it is that already."""
    array = as_numbers(x, name)
    if array.shape == (0,):
        array = array.reshape(0, 3)
    if array.ndim != 2 or array.shape[1] != 3:
        raise MeshError(f"{name} have shape {array.shape}, expected (n, 3){_shape_remedy(array)}")
    if len(array) > INDEX_LIMIT:
        raise MeshError(f"{name} have {len(array)} rows, but ids are int32: at most {INDEX_LIMIT}; split the body")
    if count is not None and len(array) != count:
        raise MeshError(
            f"{name} have {len(array)} rows, but the body has {count} vertices; "
            "add vertices to a TriMesh with add_vertices, or make a new body"
        )
    positions = np.ascontiguousarray(array, dtype=np.float64)
    if check:
        check_finite(positions, name)
    return positions


def is_buffer(x: Any, count: int) -> bool:
    """Whether ``x`` can be read and written by kernels as it is: (count, 3) float64, contiguous, writable."""
    return (
        isinstance(x, np.ndarray)
        and not isinstance(x, np.ma.MaskedArray)
        and x.shape == (count, 3)
        and x.dtype == np.float64
        and x.flags.c_contiguous
        and x.flags.writeable
    )


def as_buffer(x: Any, *, name: str, count: int) -> Floats:
    """Refuse what cannot be written in place."""
    if not is_buffer(x, count):
        found = f"an array {x.shape} of {x.dtype}" if isinstance(x, np.ndarray) else shown(x)
        raise OptionError(
            f"{name} is changed in place; expected a writable, contiguous float64 array ({count}, 3), found {found}"
        )
    buffer: Floats = x
    return buffer


def _shape_remedy(array: NDArray[Any]) -> str:
    if array.ndim == 2 and array.shape[1] == 2:
        return "; these look like 2-D points, add a column of zeros for z"
    if array.ndim == 2 and array.shape[0] == 3:
        return "; transpose them (coordinates go along the second axis)"
    return ""


def check_finite(positions: Floats, name: str, *, remedy: str = "") -> None:
    """Refuse NaN and infinity, naming the first vertex that has one."""
    # A finite sum proves that all terms are finite, in one pass and without a temporary array. The
    # converse fails when finite terms overflow, so only then are they looked at one by one.
    if positions.size < SMALL:
        if np.isfinite(positions).all():
            return
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(np.add.reduce(positions, axis=None)):
                return
    bad = ~np.isfinite(positions).all(axis=1)
    if bad.any():
        first = int(np.argmax(bad))
        more = int(bad.sum()) - 1
        also = f" (and {more} more)" if more else ""
        raise MeshError(f"{name}[{first}] is {_row(positions[first])}{also}; all coordinates must be finite{remedy}")


def check_squares(name: str, *positions: Floats) -> None:
    """Refuse positions so far apart that the squares of their distances are infinite."""
    extent = max((float(np.abs(x).max(initial=0.0)) for x in positions), default=0.0)
    if extent > FARTHEST:
        raise MeshError(
            f"{name} have a coordinate of {extent:g}, but squares of distances overflow beyond {FARTHEST:g}; choose "
            "a larger unit of length"
        )


def as_indices(x: Any, *, name: str, columns: int, of: str = "vertex") -> Ints:
    """Turn ``x`` into C-contiguous int32 rows of ``columns`` ids, of what is for the message."""
    array = as_numbers(x, name)
    if array.size == 0:
        if array.ndim == 2 and array.shape[1] not in (0, columns):
            raise MeshError(f"{name} have shape {array.shape}, expected (m, {columns})")
        return np.zeros((0, columns), dtype=np.int32)
    if array.dtype.kind == "b":
        raise MeshError(f"{name} hold booleans; expected {of} ids, whole numbers from 0")
    if array.ndim != 2 or array.shape[1] != columns:
        raise MeshError(f"{name} have shape {array.shape}, expected (m, {columns}){_columns_remedy(array, columns)}")
    if len(array) > INDEX_LIMIT:
        raise MeshError(f"{name} have {len(array)} rows, but ids are int32: at most {INDEX_LIMIT}; split the body")
    if array.dtype.kind == "f":
        array = array.astype(np.float64)  # float32 cannot tell the limit from the next number
        _check_whole(array, name, of)
    if array.dtype != np.int32:
        _check_int32(array, name)
    return np.ascontiguousarray(array, dtype=np.int32)


def _columns_remedy(array: NDArray[Any], columns: int) -> str:
    if array.ndim == 2 and array.shape[0] == columns:
        return "; transpose them (corners go along the second axis)"
    if array.ndim == 2 and (columns, array.shape[1]) == (3, 4):
        return "; four columns are tetrahedra (use TetMesh) or quads (split each into two triangles)"
    return ""


def _check_whole(array: NDArray[Any], name: str, of: str) -> None:
    whole = np.isfinite(array) & (array == np.floor(array))
    if not whole.all():
        row, column = np.argwhere(~whole)[0]
        raise MeshError(f"{name}[{row}, {column}] is {array[row, column]}; {of} ids are whole numbers")


def _check_int32(array: NDArray[Any], name: str) -> None:
    """Refuse ids that would wrap around when they become int32."""
    too_large = (array > INDEX_LIMIT) | (array < -INDEX_LIMIT)
    if too_large.any():
        row, column = np.argwhere(too_large)[0]
        raise MeshError(f"{name}[{row}, {column}] is {array[row, column]}, but ids are int32: at most {INDEX_LIMIT}")


def out_of_range(indices: Ints, vertex_count: int) -> Bools:
    """Mark the rows that name a vertex that does not exist."""
    if len(indices) and indices.min() >= 0 and indices.max() < vertex_count:
        return np.zeros(len(indices), dtype=np.bool_)
    return np.asarray(((indices < 0) | (indices >= vertex_count)).any(axis=1))


def check_range(indices: Ints, vertex_count: int, name: str, *, remedy: str = "") -> None:
    """Refuse ids outside of ``0 .. vertex_count - 1``, naming the first row that has one."""
    bad = out_of_range(indices, vertex_count)
    if bad.any():
        first = int(np.argmax(bad))
        row = indices[first]
        vertex = int(row[(row < 0) | (row >= vertex_count)][0])
        what = "ids start at 0" if vertex < 0 else f"there are {vertex_count} vertices"
        raise MeshError(f"{name}[{first}] refers to vertex {vertex}, but {what}{remedy}")


def as_ids(x: Any, *, name: str, count: int) -> Ints:
    """Turn ids, or a mask of length ``count``, into sorted unique ids below ``count``."""
    array = as_numbers(x, name)
    if array.dtype.kind == "b":
        if array.shape != (count,):
            raise OptionError(f"{name} is a mask of shape {array.shape}, expected ({count},): one flag per element")
        return np.flatnonzero(array).astype(np.int32)
    array = np.atleast_1d(array)
    if array.ndim != 1:
        raise OptionError(f"{name} has shape {array.shape}, expected a flat list of ids")
    if array.dtype.kind == "f" and not (np.isfinite(array) & (array == np.floor(array))).all():
        raise OptionError(f"{name} hold fractions; ids are whole numbers")
    if array.size and (array.min() < 0 or array.max() >= count):
        wrong = int(array[(array < 0) | (array >= count)][0])
        have = f"ids go from 0 to {count - 1}" if count else "there are no elements"
        raise OptionError(f"{name} contains id {wrong}, but {have}")
    ids = array.astype(np.int32)
    if (ids[1:] > ids[:-1]).all():  # most lists are in order, and sorting takes longer than many a query
        return ids
    return sorted_unique(ids)


def sorted_unique(values: NDArray[Number]) -> NDArray[Number]:
    """The different numbers of an array, rising.

    ``np.unique`` hashes them, which takes a hundred times as long as sorting where most are different.
    """
    ordered = np.sort(values, axis=None)
    first = np.ones(len(ordered), dtype=np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def distinct_rows(rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The different rows of an array (n, k) in lexicographic order: where each is first, and which one each row is.

    ``np.unique(axis=0)`` compares rows one by one, which takes ten times as long.
    """
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    first = np.ones(len(rows), dtype=np.bool_)
    first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    group = np.zeros(len(rows), dtype=np.int64)
    group[order] = np.cumsum(first) - 1
    return order[first], group


def as_number(
    x: Any,
    name: str,
    expected: str,
    *,
    least: float = -np.inf,
    most: float = np.inf,
    above: float | None = None,
    below: float | None = None,
) -> float:
    """Convert ``x`` to a float with ``least <= x <= most`` and ``above < x < below``; NaN and bool are refused.

    ``expected`` completes the message "{name} is {x}, expected ...". An integer beyond the range of doubles counts as
    infinite.
    """
    if isinstance(x, int | float | np.integer | np.floating) and not isinstance(x, bool):
        try:
            number = float(x)
        except OverflowError:
            number = np.inf if x > 0 else -np.inf
        in_range = least <= number <= most
        if in_range and (above is None or number > above) and (below is None or number < below):
            return number
    raise OptionError(f"{name} is {shown(x)}, expected {expected}")


def as_whole(x: Any, name: str, *, least: int = 1, most: int | None = None, remedy: str = "") -> int:
    """Convert ``x`` to an int within ``least .. most``; bool and floats are refused."""
    is_whole = isinstance(x, int | np.integer) and not isinstance(x, bool)
    if not is_whole or x < least or (most is not None and x > most):
        span = f"from {least}" + (f" to {most}" if most is not None else "")
        raise OptionError(f"{name} is {shown(x)}, expected a whole number {span}{remedy}")
    return int(x)


def as_flag(x: Any, name: str) -> bool:
    """Refuse what is neither True nor False."""
    if not isinstance(x, bool | np.bool_):
        raise OptionError(f"{name} is {shown(x)}, expected True or False")
    return bool(x)


def as_choice(x: Any, name: str, choices: Collection[Choice]) -> Choice:
    """Refuse what is not one of ``choices``."""
    given = bool(x) if isinstance(x, np.bool_) else x
    for choice in choices:
        if type(given) is type(choice) and given == choice:
            return choice
    raise OptionError(f"{name} is {shown(x)}, expected one of {', '.join(map(repr, choices))}")


def as_path(x: Any, name: str, expected: str = "the path of a file") -> Path:
    """Convert ``x`` to a path that the system can look up; ``expected`` completes the message."""
    path: str | None = None
    if isinstance(x, str | os.PathLike):
        with contextlib.suppress(Exception):  # __fspath__ of a caller may raise anything
            path = os.fspath(x)
    if not isinstance(path, str) or "\0" in path:
        raise OptionError(f"{name} is {shown(x)}, expected {expected}")
    if len(path) > LONGEST_PATH or any(len(part) > LONGEST_NAME for part in Path(path).parts):
        raise OptionError(
            f"{name} has {len(path)} characters, expected at most {LONGEST_PATH}, {LONGEST_NAME} for each folder"
        )
    return Path(path)


def as_rows(x: Any, name: str, count: int) -> NDArray[np.int64]:
    """Turn row numbers, a mask or a slice into row numbers from 0 to ``count - 1``, in the order given."""
    if isinstance(x, slice):
        with contextlib.suppress(TypeError, ValueError):
            return np.arange(count)[x]
        raise OptionError(f"{name} is {shown(x)}, expected a slice of whole numbers")
    rows = np.atleast_1d(as_numbers(x, name))
    if rows.dtype.kind == "b" and rows.shape == (count,):
        return np.flatnonzero(rows)
    if rows.size == 0:
        return np.zeros(0, dtype=np.int64)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise OptionError(f"{name} is {shown(x)}, expected row numbers, or a mask of {count} flags")
    if rows.min() < -count or rows.max() >= count:
        wrong = int(rows[(rows < -count) | (rows >= count)][0])
        raise OptionError(f"{name} contains {wrong}, but there are {count} rows")
    rows = rows.astype(np.int64)
    return np.where(rows < 0, rows + count, rows)


def as_names(x: Any, name: str) -> list[str]:
    """Turn an iterable of names of bodies into a list."""
    if not isinstance(x, str):
        with contextlib.suppress(Exception):  # iterators of a caller may raise anything
            names = list(x)
            if all(isinstance(each, str) for each in names):
                return names
    raise OptionError(f"{name} is {shown(x)}, expected a list of names of bodies")


def check_callable(x: Any, name: str) -> None:
    """Refuse what is neither None nor a function."""
    if x is not None and not callable(x):
        raise OptionError(f"{name} is {shown(x)}, expected a function, or None")


def as_direction(x: Any, name: str) -> Floats:
    """Convert ``x`` to three finite numbers, not all zero."""
    if not isinstance(x, np.ma.MaskedArray):
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            v = np.array(x, dtype=np.float64)
            if v.shape == (3,) and np.isfinite(v).all() and v.any():
                return v
    raise OptionError(f"{name} is {shown(x)}, expected three finite numbers, not all zero")


def check_type(x: Any, name: str, expected: type) -> None:
    """Refuse what is not an instance of a class of the package."""
    if not isinstance(x, expected):
        raise OptionError(f"{name} is {shown(x)}, expected {expected.__name__}")


def as_length(x: Any) -> float | None:
    """Convert ``x`` to a float from 0, infinity beyond the range of doubles; None if it is no such number."""
    if isinstance(x, bool) or not isinstance(x, int | float | np.integer | np.floating):
        return None
    try:
        length = float(x)
    except OverflowError:
        length = np.inf if x > 0 else -np.inf
    return length if length >= 0.0 else None


def check_cancel(cancel: Any) -> None:
    """Refuse an object without ``is_set()``."""
    if cancel is not None and not hasattr(cancel, "is_set"):
        raise OptionError(f"cancel is {shown(cancel)}, expected an object with is_set(), like threading.Event")


def shown(x: Any) -> str:
    """The first characters of ``repr(x)``, for a message."""
    try:
        return f"{x!r:.40}"
    except ValueError:  # Python refuses to print integers of more than some thousand digits
        return "a number of very many digits"
    except Exception:  # noqa: BLE001 - __repr__ of a caller may raise anything
        return f"an object of type {type(x).__name__}"


def as_transform(x: Any, name: str) -> Floats | None:
    """Turn ``x`` into an affine 4x4 matrix (last row 0 0 0 1), or None."""
    if x is None:
        return None
    matrix = as_numbers(x, name)
    if matrix.shape != (4, 4):
        raise OptionError(f"{name} has shape {matrix.shape}, expected (4, 4)")
    matrix = np.ascontiguousarray(matrix, dtype=np.float64)
    if not np.isfinite(matrix).all():
        raise OptionError(f"{name} has a NaN or infinite entry; all sixteen must be finite")
    if not np.array_equal(matrix[3], (0.0, 0.0, 0.0, 1.0)):
        raise OptionError(f"{name} has the last row {_row(matrix[3])}, expected [0, 0, 0, 1]: affine, not projective")
    return matrix


def _row(values: Floats) -> str:
    return "[" + ", ".join(f"{value:g}" for value in values) + "]"
