"""Reports: self-contained html files with escaped text."""

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
    """Collects the tags of a page, and asserts that they are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, _: object) -> None:  # type: ignore[override]
        """Record a tag; all but void tags must be closed."""
        self.seen.append(tag)
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, _: object) -> None:  # type: ignore[override]
        """Record a void tag."""
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
    """Escape markup in every kind of block."""
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
    assert page.html().count("&lt;script&gt;") >= 18


def test_page_is_self_contained(tmp_path):
    """Refer to no other file or host."""
    page = Page("a page")
    page.picture(np.full((4, 4, 3), 200, dtype=np.uint8), "grey")
    page.chart(np.arange(3.0), across="frame", up="contacts")
    page.write(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")

    assert text.startswith("<!doctype html>")
    assert text.count("data:image/png;base64,iVBOR") == 1
    assert not re.search(r'(src|href)="(?!data:)|https?:|url\(', text)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_chart_needs_matplotlib(monkeypatch):
    """Replace charts by a sentence that names the extra where matplotlib is missing."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    page = Page("charts")
    page.chart(np.ones(3), across="frame", up="contacts")
    page.matrix(["a", "b"], np.ones((2, 2)), unit="contacts", zero="inside")

    assert page.html().count("charts need matplotlib; install impinge[picture].") == 2
    assert "img" not in tags_of(page)


def test_matrix_has_a_legend():
    """Explain the shades and the colour of zeros."""
    page = Page("matrix")
    page.matrix(["bolt", "nut"], np.array([[np.nan, 4.0], [4.0, 0.0]]), unit="contacts", zero="containment")

    assert "darker: more contacts, up to 4" in page.html()
    assert "containment" in page.html()


def test_pages_are_deterministic():
    """Write equal bytes for equal data."""
    pages = []
    for _ in range(2):
        page = Page("charts")
        page.chart(np.arange(9.0), across="frame", up="contacts")
        page.matrix(["a", "b"], np.eye(2), unit="contacts", zero="inside")
        page.picture(np.full((4, 4, 3), 200, dtype=np.uint8), "grey")
        pages.append(page.html())

    assert pages[0] == pages[1]


def test_devices_are_rejected(tmp_path):
    """Reject existing paths other than regular files, which the rename would replace."""
    os.mkfifo(tmp_path / "pipe.html")

    with pytest.raises(impinge.FileError, match=r"pipe.html \(it is not a regular file\)"):
        report.check_path(tmp_path / "pipe.html")


def test_paths_are_checked_first(tmp_path, monkeypatch):
    """Reject a directory, a missing directory, and missing renderers."""
    with pytest.raises(
        impinge.FileError, match=r"could not be written to .* \(it is a directory\); choose a writable .html"
    ):
        report.check_path(tmp_path)
    with pytest.raises(impinge.FileError, match="nowhere is not a directory"):
        report.check_path(tmp_path / "nowhere" / "x.html")
    report.check_path(tmp_path / "x.html")
    monkeypatch.setitem(sys.modules, "pyvista", None)
    with pytest.raises(impinge.MissingExtra, match=r"need pyvista and matplotlib; install impinge\[picture\]"):
        report.check_path(tmp_path / "x.html")


def test_page_that_cannot_be_written(tmp_path):
    """Report the path, and leave no partial file."""
    (tmp_path / "x.html").mkdir()
    with pytest.raises(impinge.FileError, match="the report could not be written to"):
        Page("x").write(tmp_path / "x.html")

    assert [path.name for path in tmp_path.iterdir()] == ["x.html"]
