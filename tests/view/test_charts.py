"""Charts of reports: gaps, peaks, ticks and labels."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from impinge.view import charts


def line_chart(values, x=None):
    """A chart over indices."""
    y = np.array(values, dtype=np.float64)
    return charts.line_chart(
        np.arange(float(len(y))) if x is None else np.array(x), y, x_label="frame", title="contacts"
    )


@pytest.mark.parametrize(
    ("values", "dots"),
    [([], 0), ([3.0], 1), ([0.0, 0.0], 0), ([1.0, 2.0, np.nan, 4.0, 5.0], 0), ([np.nan, np.nan], 0),
     ([1.0, np.nan, 2.0], 2)],
)  # fmt: skip
def test_charts_have_gaps(values, dots):
    """Leave gaps at NaN, and draw isolated values as dots."""
    figure = line_chart(values)
    lines = figure.axes[0].lines

    assert b"<svg" in charts.svg_bytes(figure)
    if values:
        np.testing.assert_array_equal(lines[0].get_ydata(), values)
        assert len(lines[1].get_ydata()) == dots


def test_long_charts_keep_their_peaks():
    """Draw a bounded number of points, each the maximum of its frames."""
    values = np.zeros(100_000)
    values[77_777] = 500.0
    drawn = line_chart(values).axes[0].lines[0].get_ydata()

    assert len(drawn) <= charts.MOST_POINTS
    assert drawn.max() == 500.0
    assert np.count_nonzero(drawn) == 1


@pytest.mark.parametrize(
    ("values", "expected"),
    [([3.0, 246.0, 7.0], [0, 50, 100, 150, 200, 250]), ([1.0, 0.0], [0, 1]), ([0.3, 0.1], [0.0, 0.1, 0.2, 0.3])],
)
def test_ticks_are_round(values, expected):
    """End the axis at a round number above the maximum, with integer ticks for counts."""
    axes = line_chart(values).axes[0]

    np.testing.assert_allclose(axes.get_yticks(), expected, atol=1e-12)
    assert axes.get_ylim() == pytest.approx((0.0, expected[-1]))


def test_charts_use_the_given_numbers():
    """Place values at the numbers of the caller, and mark the given indices."""
    x = np.array([1.0, 2.0, 4.0])
    figure = charts.line_chart(x, np.array([3.0, np.nan, 7.0]), x_label="frame", title="contacts", marked=[1])
    axes = figure.axes[0]
    ticks = [path.vertices[0, 0] for path in axes.collections[-1].get_paths()]

    assert axes.get_xlim() == (1.0, 4.0)
    assert ticks == [2.0]
    assert (axes.get_xlabel(), axes.get_title(loc="left")) == ("frame", "contacts")


def test_matrix_names_rows_and_columns():
    """Label rows and columns, shorten long names at the front, and write the values into the cells."""
    values = np.array([[np.nan, 4.0, 0.0], [4.0, np.nan, np.nan], [0.0, np.nan, np.nan]])
    figure = charts.matrix_chart(["bolt", "$nut_2$", "x" * 50], values)
    axes = figure.axes[0]
    names = ["bolt", "$nut_2$", f"…{'x' * 39}"]
    colours = [collection.get_facecolor()[0] for collection in axes.collections]

    assert [label.get_text() for label in axes.get_xticklabels()] == names
    assert [label.get_text() for label in axes.get_yticklabels()] == names
    assert sorted(text.get_text() for text in axes.texts) == ["0", "0", "4", "4"]
    assert len({tuple(colour) for colour in colours}) == 3  # empty, zero and largest
    assert "$nut_2$" in charts.svg_bytes(figure).decode()


def test_hostile_names():
    """Draw names with line breaks, missing glyphs and bytes that are not text."""
    names = ["two\nlines", "漢字", "no\udcfftext", ""]

    assert b"<svg" in charts.svg_bytes(charts.matrix_chart(names, np.ones((4, 4))))
