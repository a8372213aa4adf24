"""Rows of contact forces from contacts: which coarse vertices a contact moves with, and how hard it is.

Each side of a contact is a sum of surface vertices. Those of soft bodies lead to coarse vertices through the embedding
(``deform.differential``); those of given bodies add their velocity to ``drive``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats
from impinge.respond.contact_forces import COLUMNS, RELEASE, ContactRows, Sums
from impinge.simulate.simulated_bodies import GivenPart, Part

GROUND = -1
"""Number of the ground among the bodies."""
ROUNDING = 1e-15
"""Coarse vertices that move a contact by no more than this share are left out.

A surface vertex that is a coarse one itself lies in a tet whose other corners have weights of rounding: rows would be
four times as long.
"""
Ids = NDArray[np.int64]


class Side(NamedTuple):
    """Surface vertices of one body that sides of contacts consist of."""

    part: Part
    contact: Ids
    """The contact that each belongs to, shape (m,)."""
    vertex: Ids
    weight: Floats
    """Negative on side b, shape (m,)."""


def relative_motion(sides: Sequence[Side], contact_count: int) -> tuple[Sums, Floats]:
    """How side a moves against side b with coarse vertices, and ``drive`` (k, 3) of given bodies."""
    drive = np.zeros((contact_count, 3))
    row, column, block = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)], [np.zeros((0, 3, 3))]
    for part, contact, vertex, weight in sides:
        if isinstance(part, GivenPart):
            np.add.at(drive, contact, weight[:, None] * part.velocity[vertex])
            continue
        ids, blocks = part.body.embedding.differential(vertex.astype(np.int32))
        row.append(np.repeat(contact, ids.shape[1]))
        column.append(part.start + ids.astype(np.int64).reshape(-1))
        block.append((weight[:, None, None, None] * blocks).reshape(-1, 3, 3))
    rows, columns, blocks = np.concatenate(row), np.concatenate(column), np.concatenate(block)
    order = np.argsort(rows, kind="stable")
    order = order[np.abs(blocks).max(axis=(1, 2), initial=0.0)[order] > ROUNDING]
    start = np.concatenate([[0], np.cumsum(np.bincount(rows[order], minlength=contact_count))])
    return Sums(start, columns[order], blocks[order]), drive


def rows_of_points(
    sides: Sequence[Side], *, normal: Floats, depth: Floats, stiffness: Floats, relax: Floats, key: Ids, body_a: Ids,
    body_b: Ids, release: float = RELEASE,
) -> ContactRows:  # fmt: skip
    """Rows of contacts with a normal and a depth each."""
    count = len(depth)
    slide, drive = relative_motion(sides, count)
    of_entry = np.repeat(normal, np.diff(slide.start), axis=0)
    return ContactRows(
        push=Sums(slide.start, slide.vertex, np.einsum("er,erc->ec", of_entry, slide.weight)),
        slide=slide,
        normal=normal,
        depth=depth,
        rate=(normal * drive).sum(axis=1),
        drive=drive,
        stiffness=stiffness,
        relax=relax,
        scale=np.ones(count),
        release=np.full(count, release),
        volumetric=np.zeros(count, dtype=np.bool_),
        key=key,
        body_a=body_a,
        body_b=body_b,
    )


def joined_rows(parts: Sequence[ContactRows]) -> ContactRows:
    """All rows of several."""
    parts = [part for part in parts if len(part)] or list(parts[:1])
    if len(parts) == 1:
        return parts[0]

    def together(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in parts])

    return ContactRows(
        push=_joined([part.push for part in parts]),
        slide=_joined([part.slide for part in parts]),
        **{name: together(name) for name in COLUMNS},
    )


def _joined(sums: Sequence[Sums]) -> Sums:
    first = np.concatenate([[0], np.cumsum([len(each.vertex) for each in sums])])
    start = [each.start[:-1] + begin for each, begin in zip(sums, first)]
    return Sums(
        np.concatenate([*start, first[-1:]]),
        np.concatenate([each.vertex for each in sums]),
        np.concatenate([each.weight for each in sums]),
    )


def no_rows() -> ContactRows:
    """Nothing touches."""
    none = np.zeros(0, dtype=np.int64)
    return rows_of_points(
        [], normal=np.zeros((0, 3)), depth=np.zeros(0), stiffness=np.zeros(0), relax=np.zeros(0), key=none,
        body_a=none, body_b=none,
    )  # fmt: skip
