"""Phrases shared by reports, pictures and the command line."""

from __future__ import annotations

RELATIONS = {
    "disjoint": "{a} and {b} are disjoint",
    "touching": "{a} and {b} touch",
    "crossing": "{a} and {b} intersect",
    "a in b": "{a} is inside {b}",
    "b in a": "{b} is inside {a}",
}


def counted(count: int, one: str, many: str | None = None) -> str:
    """Format a number with its noun: 1 pair, 2,132 pairs."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def pairs_label(count: int) -> str:
    """Format a number of intersecting triangle pairs."""
    return counted(count, "pair of triangles intersects", "pairs of triangles intersect")


def relation_label(relation: str, a: str, b: str) -> str:
    """Describe the relation of two bodies by their names."""
    return RELATIONS.get(relation, "it is unknown whether {a} and {b} collide").format(a=a, b=b)


def one_line(text: str, most: int) -> str:
    """Text in one line of at most ``most`` letters; file names may hold line breaks and bytes that are not text."""
    text = text.encode("utf-8", errors="backslashreplace").decode()
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= most else f"{text[: most - 1]}…"
