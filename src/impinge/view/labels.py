"""Phrases shared by reports, pictures and the command line."""

from __future__ import annotations

from impinge.detect.continuous.impact_results import ImpactKind, Impacts

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


def impact_label(result: Impacts, row: int, a: str = "a", b: str = "b") -> str:
    """Name the features of an impact: vertex 5 of a and face 12 of b."""
    kind, first, second = (int(column[row]) for column in (result.kind, result.feature_a, result.feature_b))
    edges = ["-".join(map(str, pair)) for pair in result.vertices[row].reshape(2, 2).tolist()]
    if kind == ImpactKind.EDGE_EDGE:
        return f"edge {edges[0]} of {a} and edge {edges[1]} of {b}"
    nouns = ("vertex", "face") if kind == ImpactKind.VERTEX_FACE else ("face", "vertex")
    return f"{nouns[0]} {first} of {a} and {nouns[1]} {second} of {b}"


def one_line(text: str, most: int) -> str:
    """Text in one line of at most ``most`` letters; file names may hold line breaks and bytes that are not text."""
    text = text.encode("utf-8", errors="backslashreplace").decode()
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= most else f"{text[: most - 1]}…"
