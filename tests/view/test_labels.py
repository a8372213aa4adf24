"""Phrases shared by reports, pictures and the command line."""

from __future__ import annotations

import pytest

from impinge.view.labels import RELATIONS, counted, one_line, relation_label


@pytest.mark.parametrize(
    ("count", "words", "expected"),
    [(0, ("pair",), "0 pairs"), (1, ("pair",), "1 pair"), (2132, ("pair",), "2,132 pairs"),
     (1, ("vertex", "vertices"), "1 vertex"), (3, ("vertex", "vertices"), "3 vertices")],
)  # fmt: skip
def test_singular_and_plural(count, words, expected):
    """Use the singular for one and the plural otherwise."""
    assert counted(count, *words) == expected


@pytest.mark.parametrize("relation", [*RELATIONS, "unknown"])
def test_relations_name_both_bodies(relation):
    """Name both bodies, also where a name holds format characters."""
    sentence = relation_label(relation, "{b}.ply", "%s.obj")

    assert "{b}.ply" in sentence
    assert "%s.obj" in sentence


def test_inner_body_comes_first():
    """Name the inner body first."""
    assert relation_label("a in b", "x", "y") == "x is inside y"
    assert relation_label("b in a", "x", "y") == "y is inside x"


def test_one_line_is_printable_and_bounded():
    """Keep printable letters, replace the others, and end shortened text with an ellipsis."""
    assert one_line("a$b ü.ply", 20) == "a$b ü.ply"
    assert one_line("a\nb\udcff", 20) == "a?b\\udcff"
    assert one_line("x" * 30, 20) == "x" * 19 + "…"
