"""Reports: one html file, nothing from elsewhere, nothing taken for markup."""

from __future__ import annotations

import os
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

import impinge
from impinge.view import report
from impinge.view.report import Page

HOSTILE = "<script>alert('x')</script> & \"quoted\""


class Tags(HTMLParser):
    """Collects the tags of a page, and holds that they are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, _: object) -> None:  # type: ignore[override]
        """Note a tag; those that hold something have to be closed."""
        self.seen.append(tag)
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, _: object) -> None:  # type: ignore[override]
        """Note a tag that holds nothing."""
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the tag that was opened last."""
        assert self.open.pop() == tag


def tags_of(page: Page) -> list[str]:
    tags = Tags()
    tags.feed(page.html())
    assert tags.open == []
    return tags.seen


def test_everything_is_escaped():
    """Show hostile names as they are, wherever they stand."""
    page = Page(HOSTILE)
    page.section(HOSTILE)
    page.text(HOSTILE)
    page.command(HOSTILE)
    page.table([(HOSTILE, 1)], (HOSTILE, "count"))
    page.chart(np.array([1.0, 2.0]), across=HOSTILE, up=HOSTILE, marked=[0], mark=HOSTILE)
    page.matrix([HOSTILE, "b"], np.array([[0.0, 1.0], [1.0, np.nan]]), unit=HOSTILE, zero=HOSTILE)
    page.picture(np.zeros((2, 3, 3), dtype=np.uint8), HOSTILE)
    page.verdict(HOSTILE, "hit")
    page.tiles([(HOSTILE, HOSTILE)])
    page.facts([(HOSTILE, HOSTILE)])

    assert "script" not in tags_of(page)
    assert page.html().count("&lt;script&gt;") >= 20


def test_a_page_needs_nothing_else(tmp_path):
    """Refer to no other file or host."""
    page = Page("a page")
    page.picture(np.full((4, 4, 3), 200, dtype=np.uint8), "grey")
    page.write(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")

    assert text.startswith("<!doctype html>")
    assert text.count("data:image/png;base64,iVBOR") == 1
    assert not re.search(r'(src|href)="(?!data:)|https?:|url\(', text)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    ("values", "lines", "dots"),
    [([], 0, 0), ([3.0], 0, 1), ([0.0, 0.0], 1, 0), ([1.0, 2.0, np.nan, 4.0, 5.0], 2, 0), ([np.nan, np.nan], 0, 0),
     ([1.0, np.nan, 2.0], 0, 2)],
)  # fmt: skip
def test_charts_have_gaps_where_there_is_no_value(values, lines, dots):
    """Draw a line for each run of values, a dot for a lone one, and nothing in between."""
    page = Page("chart")
    page.chart(np.array(values), across="frame", up="contacts")
    seen = tags_of(page)

    assert (seen.count("polyline"), seen.count("circle")) == (lines, dots)
    assert "nan" not in page.html().lower()


def test_long_charts_keep_their_peaks():
    """Draw no more columns than there are pixels, and the largest value of each."""
    values = np.zeros(100_000)
    values[77_777] = 500.0
    at, high = report._columns(values)

    assert len(at) <= report.COLUMNS
    assert high.max() == 500.0
    assert np.count_nonzero(high) == 1


@pytest.mark.parametrize(
    ("value", "expected"), [(0.0, 1.0), (0.7, 1.0), (1.0, 1.0), (3.0, 5.0), (11.0, 20.0), (999.0, 1000.0)]
)
def test_axes_end_in_round_numbers(value, expected):
    """End an axis at 1, 2 or 5 times a power of ten."""
    assert report._round_up(value) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("low", "high", "whole", "expected"),
    [(1.0, 24.0, True, [5, 10, 15, 20]), (0.0, 1.0, True, [0, 1]), (0.0, 250.0, False, [0, 50, 100, 150, 200, 250]),
     (0.0, 0.3, False, [0.0, 0.1, 0.2, 0.3]), (7.0, 7.0, True, [7])],
)  # fmt: skip
def test_ticks_are_round_numbers(low, high, whole, expected):
    """Number an axis by round numbers within it, and where only whole ones make sense, by those."""
    assert report._ticks(low, high, report.STEPS, whole=whole) == pytest.approx(expected)


def _labels(page: Page, anchor: str) -> list[str]:
    return re.findall(rf'text-anchor="{anchor}">([^<]*)<', page.html())


def test_charts_number_what_they_show():
    """Number the values of a chart as the caller does, and end the axis little above the largest."""
    page = Page("chart")
    page.chart(np.array([3.0, 246.0, 7.0]), at=np.array([1.0, 2.0, 4.0]), across="frame", up="contacts")
    line = re.search(r'polyline points="([^"]*)"', page.html())
    assert line is not None
    across = [float(point.split(",")[0]) for point in line[1].split()]

    assert _labels(page, "middle") == ["1", "2", "3", "4"]
    assert _labels(page, "end") == ["0", "50", "100", "150", "200", "250", "frame"]
    assert across[2] - across[1] == pytest.approx(2 * (across[1] - across[0]), abs=0.3)


def test_matrix_names_rows_and_columns():
    """Name each part beside and above the matrix, tell what the shades mean, and show zeros apart from nothing."""
    page = Page("matrix")
    values = np.array([[np.nan, 4.0, 0.0], [4.0, np.nan, np.nan], [0.0, np.nan, np.nan]])
    page.matrix(["bolt", "nut", "x" * 50], values, unit="contacts", zero="one is inside the other")
    text = page.html()

    assert text.count(">bolt<") == text.count(">nut<") == text.count(f">…{'x' * 39}<") == 2
    assert text.count(f'fill="{report.INSIDE_COLOUR}"') == 2
    assert "the darker, the more contacts: up to 4" in text
    assert "one is inside the other" in text


def test_devices_are_no_files(tmp_path):
    """Refuse what is there and no ordinary file: it would be replaced by one."""
    os.mkfifo(tmp_path / "pipe.html")

    with pytest.raises(impinge.FileError, match=r"pipe.html \(it is no ordinary file\)"):
        report.check_path(tmp_path / "pipe.html")


def test_paths_are_refused_before_the_work(tmp_path, monkeypatch):
    """Refuse a folder, a missing folder, and a machine that cannot draw."""
    with pytest.raises(
        impinge.FileError, match=r"could not be written to .* \(it is a folder\); choose a writable .html"
    ):
        report.check_path(tmp_path)
    with pytest.raises(impinge.FileError, match="nowhere is no folder"):
        report.check_path(tmp_path / "nowhere" / "x.html")
    report.check_path(tmp_path / "x.html")
    monkeypatch.setitem(sys.modules, "pyvista", None)
    with pytest.raises(impinge.MissingExtra, match=r"need pyvista and matplotlib; install impinge\[picture\]"):
        report.check_path(tmp_path / "x.html")


def test_a_page_that_cannot_be_written(tmp_path):
    """Say so, and leave no half of it."""
    (tmp_path / "x.html").mkdir()
    with pytest.raises(impinge.FileError, match="the report could not be written to"):
        Page("x").write(tmp_path / "x.html")

    assert [path.name for path in tmp_path.iterdir()] == ["x.html"]
