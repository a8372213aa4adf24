"""Contact constraints from contacts: Jacobians on coarse vertices, stiffness and damping.

Each side of a contact is a weighted sum of surface vertices. Vertices of soft bodies map to coarse vertices through the
embedding (``deform.differential``). Vertices of scripted bodies add their velocity to ``drive``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats
from impinge.contact.contacts import ContactKind
from impinge.respond.contact_forces import (
    COLUMNS,
    RELEASE,
    ContactConstraints,
    ContactFeatures,
    SparseRows,
    unknown_features,
)
from impinge.simulate.simulated_bodies import ScriptedBody, SimulatedBody

GROUND = -1
"""Index of the ground among the bodies."""
ROUNDING = 1e-15
"""Coarse vertices with a weight of at most this are omitted.

A surface vertex that coincides with a coarse vertex lies in a tet whose other corners have weights of rounding error;
Jacobian rows would be four times as long.
"""
Ids = NDArray[np.int64]


class ContactSide(NamedTuple):
    """Surface vertices of one body that form one side of some contacts."""

    body: SimulatedBody
    contact: Ids
    """Contact of each vertex, shape (m,)."""
    vertex: Ids
    weight: Floats
    """Negative on side b, shape (m,)."""


class Touching(NamedTuple):
    """What contacts stand for; ``ContactFeatures`` describes the columns."""

    kind: ContactKind | NDArray[np.int8]
    feature_a: Ids
    feature_b: Ids
    area: Floats
    layer: float | Floats = 0.0

    def features(self, sides: Sequence[ContactSide]) -> ContactFeatures:
        """Return features with the surface vertices of both sides."""
        count = len(self.area)
        none = np.zeros(0, dtype=np.int64)
        contact, vertex = (np.concatenate([none, *(getattr(side, each) for side in sides)]) for each in _SIDE_IDS)
        weight = np.concatenate([np.zeros(0), *(side.weight for side in sides)])
        order = np.argsort(contact, kind="stable")
        order = order[weight[order] != 0.0]
        start = np.concatenate([[0], np.cumsum(np.bincount(contact[order], minlength=count))])
        return ContactFeatures(
            np.broadcast_to(np.asarray(self.kind, dtype=np.int8), count), self.feature_a, self.feature_b, self.area,
            np.broadcast_to(np.asarray(self.layer, dtype=np.float64), count),
            SparseRows(start, vertex[order], weight[order]),
        )  # fmt: skip


_SIDE_IDS = ("contact", "vertex")


def relative_motion(sides: Sequence[ContactSide], contact_count: int) -> tuple[SparseRows, Floats]:
    """Return the slip Jacobian (side a relative to side b), and ``drive`` (k, 3) of scripted bodies."""
    drive = np.zeros((contact_count, 3))
    row, column, block = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)], [np.zeros((0, 3, 3))]
    for body, contact, vertex, weight in sides:
        if isinstance(body, ScriptedBody):
            np.add.at(drive, contact, weight[:, None] * body.velocity[vertex])
            continue
        ids, blocks = body.source.embedding.differential(vertex.astype(np.int32))
        row.append(np.repeat(contact, ids.shape[1]))
        column.append(body.start + ids.astype(np.int64).reshape(-1))
        block.append((weight[:, None, None, None] * blocks).reshape(-1, 3, 3))
    rows, columns, blocks = np.concatenate(row), np.concatenate(column), np.concatenate(block)
    order = np.lexsort((columns, rows))
    order = order[np.abs(blocks).max(axis=(1, 2), initial=0.0)[order] > ROUNDING]
    rows, columns, blocks = rows[order], columns[order], blocks[order]
    first = np.flatnonzero(np.diff(rows, prepend=-1) | np.diff(columns, prepend=-1))  # a vertex is one entry of a row
    if len(first) < len(rows):
        rows, columns, blocks = rows[first], columns[first], np.add.reduceat(blocks, first)
    start = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=contact_count))])
    return SparseRows(start, columns, blocks), drive


def point_constraints(
    sides: Sequence[ContactSide], *, normal: Floats, depth: Floats, stiffness: Floats, relax: Floats, key: Ids,
    body_a: Ids, body_b: Ids, wall: Floats | None = None, touching: Touching | None = None,
) -> ContactConstraints:  # fmt: skip
    """Return constraints of contacts with one normal and one depth each."""
    count = len(depth)
    slip, drive = relative_motion(sides, count)
    of_entry = np.repeat(normal, np.diff(slip.start), axis=0)
    return ContactConstraints(
        normal_jacobian=SparseRows(slip.start, slip.vertex, np.einsum("er,erc->ec", of_entry, slip.weight)),
        slip_jacobian=slip,
        normal=normal,
        depth=depth,
        rate=(normal * drive).sum(axis=1),
        drive=drive,
        stiffness=stiffness,
        relax=relax,
        scale=np.ones(count),
        release=np.full(count, RELEASE),
        volumetric=np.zeros(count, dtype=np.bool_),
        key=key,
        body_a=body_a,
        body_b=body_b,
        wall=np.full(count, np.inf) if wall is None else wall,
        features=None if touching is None else touching.features(sides),
    )


def concatenate(constraints: Sequence[ContactConstraints]) -> ContactConstraints:
    """Concatenate several sets of constraints."""
    some = [each for each in constraints if len(each)] or list(constraints[:1])
    if len(some) == 1:
        return some[0]
    return ContactConstraints(
        _concatenate_rows([each.normal_jacobian for each in some]),
        _concatenate_rows([each.slip_jacobian for each in some]),
        **{name: np.concatenate([getattr(each, name) for each in some]) for name in COLUMNS},
        features=joined_features([(each.features, len(each)) for each in some]),
    )


def joined_features(parts: Sequence[tuple[ContactFeatures | None, int]]) -> ContactFeatures:
    """Return the features of several sets of contacts, given with their numbers; those of some may be unknown."""
    known = [unknown_features(count) if each is None else each for each, count in parts]
    names = [name for name in ContactFeatures._fields if name != "vertices"]
    columns = {name: np.concatenate([getattr(each, name) for each in known]) for name in names}
    return ContactFeatures(**columns, vertices=_concatenate_rows([each.vertices for each in known]))


def _concatenate_rows(rows: Sequence[SparseRows]) -> SparseRows:
    first = np.concatenate([[0], np.cumsum([len(each.vertex) for each in rows])])
    start = [each.start[:-1] + begin for each, begin in zip(rows, first)]
    return SparseRows(
        np.concatenate([*start, first[-1:]]),
        np.concatenate([each.vertex for each in rows]),
        np.concatenate([each.weight for each in rows]),
    )


@cache
def no_constraints() -> ContactConstraints:
    """Return the empty set of constraints."""
    none = np.zeros(0, dtype=np.int64)
    return point_constraints(
        [], normal=np.zeros((0, 3)), depth=np.zeros(0), stiffness=np.zeros(0), relax=np.zeros(0), key=none,
        body_a=none, body_b=none,
    )  # fmt: skip
