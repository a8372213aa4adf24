"""The border: every array that cannot be used is refused with a sentence, and every other one becomes one type."""

import re
import sys

import numpy as np
import pytest

from impinge import checks
from impinge.checks import (
    INDEX_LIMIT,
    as_ids,
    as_indices,
    as_numbers,
    as_positions,
    as_transform,
    distinct_rows,
    sorted_unique,
)
from impinge.errors import FileError, ImpingeError, MeshError, MeshWarning, MissingExtra, OptionError
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh

SQUARE = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
FACES = np.array([[0, 1, 2], [0, 2, 3]])
FIVE = np.vstack([SQUARE, [[0.5, 0.5, 1.0]]])
TETS = np.array([[0, 1, 2, 4], [0, 2, 3, 4]])

NOT_NUMBERS = {
    "complex": (np.zeros((4, 3), dtype=np.complex128), "complex numbers"),
    "objects": (np.full((4, 3), None), "Python objects"),
    "huge Python ints": ([[10**30, 0, 0]], "Python objects"),
    "strings": ([["a", "b", "c"]], "strings"),
    "numbers as strings": ([["0", "1", "2"]], "strings"),
    "bytes": (np.array([[b"a", b"b", b"c"]]), "byte strings"),
    "dates": (np.zeros((4, 3), dtype="datetime64[s]"), re.escape("values of type datetime64[s]")),
    "records": (np.zeros(4, dtype=[("x", float), ("y", float)]), "values of type"),
    "nothing": (None, "Python objects"),
    "a dict": ({}, "Python objects"),
}


def huge(columns: int, dtype: type = np.int32, rows: int = 2**31) -> np.ndarray:
    """An array with more rows than ids, all of them one and the same row in memory."""
    return np.broadcast_to(np.zeros(columns, dtype=dtype), (rows, columns))


# errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "builtin"),
    [(MeshError, ValueError), (FileError, OSError), (OptionError, ValueError), (MissingExtra, ImportError)],
)
def test_errors_are_ours_and_a_fitting_builtin(error, builtin):
    """Let callers catch an error by our root or by the built-in that they know."""
    for expected in (ImpingeError, builtin):
        with pytest.raises(expected, match="the sentence"):
            raise error("the sentence")


def test_a_file_error_prints_its_sentence_only():
    """Print the sentence without the errno brackets of an OSError."""
    assert str(FileError("bunny.ply ends early")) == "bunny.ply ends early"
    assert issubclass(MeshWarning, UserWarning)


# numbers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("array", "found"), NOT_NUMBERS.values(), ids=NOT_NUMBERS)
@pytest.mark.parametrize("make", [lambda x: TriMesh(x, FACES), lambda x: TriMesh(SQUARE, x)], ids=["vertices", "faces"])
def test_what_is_not_a_real_number_is_named(make, array, found):
    """Name the kind of value that was found and the kind that was expected."""
    with pytest.raises(MeshError, match=rf"(vertices|faces) hold {found}.*; expected real numbers, convert them first"):
        make(array)


@pytest.mark.parametrize(
    "make", [lambda x: TriMesh(x, FACES), lambda x: TriMesh(SQUARE, x), lambda x: TetMesh(FIVE, x)]
)
def test_ragged_lists_are_called_ragged(make):
    """Say that rows differ in length where NumPy speaks of inhomogeneous shapes."""
    message = "(vertices|faces|tets) are ragged: rows differ in length; expected one rectang"
    with pytest.raises(MeshError, match=message):
        make([[0, 1, 2], [0, 1]])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble, np.int8, np.uint64, np.bool_])
def test_real_numbers_of_any_type_are_taken(dtype):
    """Take every real type as positions and turn it into float64."""
    x = as_positions(SQUARE.astype(dtype))

    assert x.dtype == np.float64
    np.testing.assert_array_equal(x, SQUARE)


def test_as_numbers_takes_an_empty_array_of_objects():
    """Take an array of objects that holds none."""
    assert as_numbers(np.array([], dtype=object), "vertices").dtype == np.float64


# positions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (9,), (4, 1), (4, 4), (0, 2), (0, 0), (1, 0), (2, 2, 3)], ids=str)
def test_positions_of_wrong_shape_are_refused(shape):
    """State the shape that was found and the one that was expected."""
    with pytest.raises(MeshError, match=rf"vertices have shape {re.escape(str(shape))}, expected \(n, 3\)"):
        as_positions(np.zeros(shape))


@pytest.mark.parametrize("n", [1, 4, 5, 1000])
def test_transposed_positions_are_recognised(n):
    """Advise to transpose when coordinates go along the first axis."""
    with pytest.raises(MeshError, match=rf"shape \(3, {n}\), expected \(n, 3\); transpose them \(coordinates go along"):
        TriMesh(np.zeros((3, n)), [])


@pytest.mark.parametrize("n", [1, 3, 4])
def test_flat_points_are_recognised(n):
    """Advise to add a column for z to 2-D points, also to three of them."""
    message = rf"shape \({n}, 2\), .*; these look like 2-D points, add a column of zeros for z"
    with pytest.raises(MeshError, match=message):
        TriMesh(np.zeros((n, 2)), [])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("column", range(3))
def test_a_vertex_that_is_not_finite_is_named(value, column):
    """Name the first such vertex, show it, and tell the way out."""
    x = SQUARE.copy()
    x[2, column] = value
    shown = ", ".join(f"{v:g}" for v in x[2])

    message = rf"^vertices\[2\] is \[{shown}\]; all coordinates must be finite, pass validate="
    with pytest.raises(MeshError, match=message):
        TriMesh(x, FACES)


def test_more_vertices_that_are_not_finite_are_counted():
    """Count the vertices, not the coordinates, that are bad beside the first."""
    x = FIVE.copy()
    x[1:4] = [[np.nan, np.nan, 0.0], [np.inf, 0.0, 0.0], [0.0, 0.0, -np.inf]]

    with pytest.raises(MeshError, match=r"vertices\[1\] is \[nan, nan, 0\] \(and 2 more\); .* leave out the tets that"):
        TetMesh(x, TETS)


def test_infinities_that_cancel_are_found():
    """Find infinities of both signs, whose sum is no infinity."""
    with pytest.raises(MeshError, match=r"vertices\[0\] is \[inf, -inf, 0\]"):
        as_positions([[np.inf, -np.inf, 0.0]])


def test_finite_coordinates_may_overflow_when_summed():
    """Take coordinates near the largest double, though their sum is infinite."""
    x = np.full((4, 3), sys.float_info.max)

    np.testing.assert_array_equal(TriMesh(x, FACES).vertices, x)


def test_update_names_bad_vertices_without_advice_for_constructors():
    """Leave out the advice on validate=, which update does not have, unless check=False skips the look."""
    mesh = TriMesh(SQUARE, FACES)
    x = SQUARE.copy()
    x[3, 0] = np.nan

    with pytest.raises(MeshError, match=r"vertices\[3\] is \[nan, 1, 0\]; all coordinates must be finite$"):
        mesh.update(x)
    np.testing.assert_array_equal(mesh.vertices, SQUARE)
    assert mesh.version == 0
    mesh.update(x, check=False)
    assert np.isnan(mesh.vertices[3, 0])


@pytest.mark.parametrize("count", [0, 3, 5])
@pytest.mark.parametrize("make", [lambda: TriMesh(SQUARE, FACES), lambda: TetMesh(SQUARE, [[0, 1, 2, 3]])])
def test_update_needs_as_many_vertices_as_there_are(make, count):
    """Tell both numbers and the remedy when an update brings another number of vertices."""
    with pytest.raises(MeshError, match=rf"vertices have {count} rows, but the body has 4 vertices; add vertices"):
        make().update(np.zeros((count, 3)))


def test_positions_beyond_int32_are_refused():
    """Refuse more rows than ids without touching them."""
    with pytest.raises(MeshError, match=f"vertices have {2**31} rows, but ids are int32: at most {INDEX_LIMIT}; split"):
        TriMesh(huge(3, np.float64), [])


def test_right_positions_are_not_copied():
    """Pass on an array that has the right type and layout, and copy any other."""
    assert as_positions(SQUARE) is SQUARE
    for other in (np.asfortranarray(SQUARE), SQUARE.astype(np.float32), np.repeat(SQUARE, 2, axis=0)[::2]):
        x = as_positions(other)
        assert x.flags.c_contiguous
        assert not np.shares_memory(x, other)
        np.testing.assert_array_equal(x, SQUARE)


# vertex ids ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (3,), (6,), (2, 2), (2, 5), (1, 2, 3)], ids=str)
def test_faces_of_wrong_shape_are_refused(shape):
    """State the shape that was found and the one that was expected."""
    with pytest.raises(MeshError, match=rf"faces have shape {re.escape(str(shape))}, expected \(m, 3\)"):
        TriMesh(SQUARE, np.zeros(shape, dtype=int))


@pytest.mark.parametrize(("columns", "make"), [(3, lambda x: TriMesh(SQUARE, x)), (4, lambda x: TetMesh(FIVE, x))])
def test_transposed_elements_are_recognised(columns, make):
    """Advise to transpose when corners go along the first axis."""
    message = rf"shape \({columns}, 7\), expected \(m, {columns}\); transpose them \(corners"
    with pytest.raises(MeshError, match=message):
        make(np.zeros((columns, 7), dtype=int))


def test_four_columns_are_tets_or_quads():
    """Advise what to do with four corners where three are expected."""
    with pytest.raises(MeshError, match=r"faces have shape \(2, 4\).*tetrahedra \(use TetMesh\) or quads \(split each"):
        TriMesh(FIVE, TETS)


def test_three_columns_are_no_tets():
    """State the shape when triangles are passed for tets."""
    with pytest.raises(MeshError, match=r"tets have shape \(2, 3\), expected \(m, 4\)"):
        TetMesh(FIVE, FACES)


@pytest.mark.parametrize("vertex", [4, 5, 2**31 - 1])
def test_an_id_out_of_range_is_named(vertex):
    """Name the row, the vertex, and how many vertices there are."""
    message = rf"^faces\[1\] refers to vertex {vertex}, but there are 4 vertices; pass validate='drop' to leave such"
    with pytest.raises(MeshError, match=message):
        TriMesh(SQUARE, [[0, 1, 2], [0, vertex, 3]])


@pytest.mark.parametrize("vertex", [-1, -4, -(2**31) + 1])
def test_a_negative_id_is_named(vertex):
    """Name the row and the vertex where NumPy would count from the end."""
    message = rf"^tets\[0\] refers to vertex {vertex}, but ids start at 0; pass validate='drop'"
    with pytest.raises(MeshError, match=message):
        TetMesh(FIVE, [[0, 1, 2, vertex], [0, 2, 3, 4]])


def test_added_triangles_out_of_range_are_named():
    """Advise to pass vertices along, since add_triangles has no validate=, and leave the body as it was."""
    mesh = TriMesh(SQUARE, FACES)

    message = r"^faces\[0\] refers to vertex 6, but there are 5 vertices; pass new vertices alo"
    with pytest.raises(MeshError, match=message):
        mesh.add_triangles([[0, 1, 6]], vertices=[[2.0, 2.0, 2.0]])
    assert (len(mesh.vertices), len(mesh.faces), mesh.version) == (4, 2, 0)


def test_any_id_is_out_of_range_without_vertices():
    """Refuse faces of a body that has no vertices."""
    with pytest.raises(MeshError, match=r"faces\[0\] refers to vertex 0, but there are 0 vertices"):
        TriMesh([], [[0, 0, 0]])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.uint8, np.int64, np.uint64, ">i4"])
def test_whole_numbers_of_any_type_are_ids(dtype):
    """Take whole numbers of every type, floats too, as int32 ids."""
    rows = as_indices(FACES.astype(dtype), name="faces", columns=3)

    assert rows.dtype == np.int32
    assert rows.dtype.isnative
    assert rows.flags.c_contiguous
    np.testing.assert_array_equal(rows, FACES)


@pytest.mark.parametrize("value", [0.5, 2.000001, np.nan, np.inf])
def test_fractions_are_no_ids(value):
    """Name the entry of float faces that is no whole number."""
    with pytest.raises(MeshError, match=rf"faces\[1, 2\] is {value}; vertex ids are whole numbers"):
        TriMesh(SQUARE, [[0.0, 1.0, 2.0], [0.0, 2.0, value]])


def test_booleans_are_no_ids():
    """Refuse booleans, which would become the ids 0 and 1."""
    with pytest.raises(MeshError, match="faces hold booleans; expected vertex ids, whole numbers from 0"):
        TriMesh(SQUARE, np.ones((2, 3), dtype=bool))


@pytest.mark.parametrize(
    "value", [np.int64(2**31), np.int64(-(2**40)), np.uint32(2**31), np.uint64(2**64 - 1), np.float64(2**31), 1e300]
)
def test_ids_above_int32_are_refused(value):
    """Name the entry that would wrap around in int32."""
    faces = np.array([[0, 1, 2], [0, 1, 2]], dtype=np.asarray(value).dtype)
    faces[1, 1] = value

    message = rf"faces\[1, 1\] is {re.escape(str(value))}, but ids are int32: at most {INDEX_LIMIT}"
    with pytest.raises(MeshError, match=message):
        TriMesh(SQUARE, faces)


def test_float32_ids_just_above_int32_are_refused():
    """Refuse 2^31 as a float32, which compares equal to the rounded limit 2^31 - 1."""
    with pytest.raises(MeshError, match=r"faces\[0, 2\] is 2147483648.0, but ids are int32"):
        TriMesh(SQUARE, np.array([[0, 1, 2**31]], dtype=np.float32))


@pytest.mark.parametrize(("columns", "make"), [(3, lambda x: TriMesh(SQUARE, x)), (4, lambda x: TetMesh(FIVE, x))])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float64])
def test_more_rows_than_ids_are_refused(columns, make, dtype):
    """Refuse more than 2^31 - 1 rows without touching them."""
    with pytest.raises(MeshError, match=f"have {2**31} rows, but ids are int32: at most {INDEX_LIMIT}; split the body"):
        make(huge(columns, dtype))


@pytest.mark.parametrize(
    "empty", [[], [[]], np.zeros((0, 3)), np.zeros((0, 3), int), np.zeros((0, 0)), np.zeros(0, bool)]
)
def test_no_faces_are_valid(empty):
    """Take every way to write no faces at all."""
    mesh = TriMesh(SQUARE, empty)

    assert (mesh.faces.shape, mesh.faces.dtype) == ((0, 3), np.int32)
    assert len(mesh) == 0


@pytest.mark.parametrize("empty", [[], (), np.zeros((0, 3)), np.zeros((0, 3), np.float32), np.array([], dtype=object)])
def test_no_vertices_are_valid(empty):
    """Take every way to write no vertices at all."""
    assert TriMesh(empty, []).vertices.shape == (0, 3)
    assert TetMesh(empty, []).vertices.shape == (0, 3)


def test_no_rows_of_the_wrong_width_are_refused():
    """Refuse an empty array whose width says that something else was meant."""
    with pytest.raises(MeshError, match=r"faces have shape \(0, 4\), expected \(m, 3\)"):
        TriMesh(SQUARE, np.zeros((0, 4), dtype=int))


# ids and masks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([3, 1, 1, 0], [0, 1, 3]),
        ([], []),
        (2, [2]),
        (np.uint8([4]), [4]),
        ([0.0, 4.0], [0, 4]),
        (range(2, 4), [2, 3]),
        ([True, False, False, True, True], [0, 3, 4]),
        (np.zeros(5, dtype=bool), []),
    ],
)
def test_ids_and_masks_become_sorted_ids(ids, expected):
    """Sort ids and drop repeats, and turn a mask into the ids that it marks."""
    found = as_ids(ids, name="ids", count=5)

    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([0, 5], "ids contains id 5, but ids go from 0 to 4"),
        ([-1], "ids contains id -1, but ids go from 0 to 4"),
        (np.uint64([2**64 - 1]), f"ids contains id {2**64 - 1}, but ids go"),
        ([1e30], "ids contains id 1000000000000000[0-9]+, but ids go"),
        ([0.5], "ids hold fractions; ids are whole numbers"),
        ([np.nan], "ids hold fractions; ids are whole numbers"),
        ([[0, 1]], r"ids has shape \(1, 2\), expected a flat list of ids"),
        ([True, False], r"ids is a mask of shape \(2,\), expected \(5,\): one flag per element"),
        (np.ones((5, 1), dtype=bool), r"ids is a mask of shape \(5, 1\), expected \(5,\)"),
        (True, r"ids is a mask of shape \(\), expected \(5,\)"),
    ],
)
def test_wrong_ids_are_refused(ids, message):
    """Name the id, the fraction or the shape that cannot be used."""
    with pytest.raises(OptionError, match=message):
        as_ids(ids, name="ids", count=5)


def test_no_id_is_right_where_there_are_no_elements():
    """Say that there are no elements instead of naming the range 0 to -1."""
    with pytest.raises(OptionError, match="ids contains id 0, but there are no elements"):
        as_ids([0], name="ids", count=0)


@pytest.mark.parametrize("ids", [["a"], [None], [1j]])
def test_ids_of_other_types_are_refused(ids):
    """Refuse ids that are no real numbers."""
    with pytest.raises(MeshError, match=r"ids hold .*; expected real numbers"):
        as_ids(ids, name="ids", count=5)


@pytest.mark.parametrize(
    "remove", [TriMesh(SQUARE, FACES).remove_triangles, TetMesh(FIVE, TETS).remove_tets], ids=["triangles", "tets"]
)
def test_edits_check_their_ids(remove):
    """Refuse to remove what never was."""
    with pytest.raises(OptionError, match="ids contains id 2, but ids go from 0 to 1"):
        remove([0, 2])


# transforms ----------------------------------------------------------------------------------------------


def test_no_transform_stays_none():
    """Pass on None, which means that the body stays where it is."""
    assert as_transform(None, "transform_a") is None


def test_transforms_become_float64():
    """Take nested lists of whole numbers as a matrix."""
    matrix = as_transform([[1, 0, 0, 5], [0, 1, 0, 6], [0, 0, 1, 7], [0, 0, 0, 1]], "transform_a")

    assert matrix.dtype == np.float64
    np.testing.assert_array_equal(matrix[:3, 3], [5.0, 6.0, 7.0])


@pytest.mark.parametrize("shape", [(3, 3), (3, 4), (16,), (1, 4, 4), ()], ids=str)
def test_transforms_of_wrong_shape_are_refused(shape):
    """State the shape that was found and the one that was expected."""
    with pytest.raises(OptionError, match=rf"transform_b has shape {re.escape(str(shape))}, expected \(4, 4\)"):
        as_transform(np.zeros(shape), "transform_b")


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("place", [(0, 3), (3, 3)])
def test_transforms_must_be_finite(value, place):
    """Refuse NaN and infinity anywhere in the matrix."""
    matrix = np.eye(4)
    matrix[place] = value

    with pytest.raises(OptionError, match="transform_a has a NaN or infinite entry; all sixteen must be finite"):
        as_transform(matrix, "transform_a")


@pytest.mark.parametrize("last_row", [(0.0, 0.0, 0.5, 1.0), (0.0, 0.0, 0.0, 2.0), (5.0, 6.0, 7.0, 1.0)])
def test_projective_transforms_are_refused(last_row):
    """Show the last row of a matrix that is projective, or transposed."""
    matrix = np.eye(4)
    matrix[3] = last_row
    shown = ", ".join(f"{v:g}" for v in last_row)

    message = rf"the last row \[{shown}\], expected \[0, 0, 0, 1\]: affine, not projective"
    with pytest.raises(OptionError, match=message):
        as_transform(matrix, "transform_a")


@pytest.mark.parametrize("matrix", [[["a"] * 4] * 4, np.eye(4, dtype=complex), [[1, 2], [3]]])
def test_transforms_of_other_types_are_refused(matrix):
    """Refuse matrices of anything but real numbers."""
    with pytest.raises(MeshError, match=r"transform_a (hold|are ragged)"):
        as_transform(matrix, "transform_a")


def test_the_absent_index_is_no_id():
    """Keep the sign for no index out of the range of ids."""
    assert checks.NONE < 0 < INDEX_LIMIT == np.iinfo(np.int32).max


@pytest.mark.parametrize("shape", [(0,), (1,), (500,), (40, 4)])
@pytest.mark.parametrize("dtype", [np.int32, np.uint64, np.float64])
def test_sorted_unique_is_unique(rng, shape, dtype):
    """Find what ``np.unique`` finds, of the same type."""
    values = rng.integers(0, 100, shape).astype(dtype)
    found = sorted_unique(values)

    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.unique(values))


@pytest.mark.parametrize("count", [0, 1, 300])
@pytest.mark.parametrize("dtype", [np.int32, np.float64])
def test_distinct_rows_are_those_of_unique(rng, count, dtype):
    """Find the first of equal rows, and which of them each is, as ``np.unique`` does; minus zero is zero."""
    rows = rng.integers(-2, 3, (count, 3)).astype(dtype)
    if dtype == np.float64:
        rows[rng.random(rows.shape) < 0.3] *= -0.0
    first, group = distinct_rows(rows)
    if not count:
        assert len(first) == len(group) == 0
        return
    expected, expected_first, expected_group = np.unique(rows + 0.0, axis=0, return_index=True, return_inverse=True)

    assert count == 1 or 20 < len(first) < count
    np.testing.assert_array_equal(first, expected_first)
    np.testing.assert_array_equal(group, expected_group.reshape(-1))
    np.testing.assert_array_equal(rows[first], expected)
