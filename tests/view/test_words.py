"""Words that reports and pictures share."""

from __future__ import annotations

import pytest

from impinge.view.words import SAID, counted, said


@pytest.mark.parametrize(
    ("count", "words", "expected"),
    [(0, ("pair",), "0 pairs"), (1, ("pair",), "1 pair"), (2132, ("pair",), "2,132 pairs"),
     (1, ("vertex", "vertices"), "1 vertex"), (3, ("vertex", "vertices"), "3 vertices")],
)  # fmt: skip
def test_one_and_many(count, words, expected):
    """Count one thing as one, and many as many."""
    assert counted(count, *words) == expected


@pytest.mark.parametrize("relation", [*SAID, "unknown"])
def test_relations_name_both_bodies(relation):
    """Say how two bodies stand to each other by their names, whatever these hold."""
    sentence = said(relation, "{b}.ply", "%s.obj")

    assert "{b}.ply" in sentence
    assert "%s.obj" in sentence


def test_who_is_inside():
    """Name the inner body first, whichever that is."""
    assert said("a in b", "x", "y") == "x is inside y"
    assert said("b in a", "x", "y") == "y is inside x"
