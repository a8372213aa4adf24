"""Words that reports and pictures share."""

from __future__ import annotations

SAID = {
    "disjoint": "{a} and {b} are apart",
    "touching": "{a} and {b} touch",
    "crossing": "{a} and {b} cross each other",
    "a in b": "{a} is inside {b}",
    "b in a": "{b} is inside {a}",
}


def counted(count: int, one: str, many: str | None = None) -> str:
    """A number and what it counts: 1 pair, 2,132 pairs."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def said(relation: str, a: str, b: str) -> str:
    """How two bodies stand to each other, as people say it."""
    return SAID.get(relation, "whether {a} and {b} collide is not known").format(a=a, b=b)
