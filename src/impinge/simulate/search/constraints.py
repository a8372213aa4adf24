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
from impinge.respond.contact_forces import COLUMNS, RELEASE, ContactConstraints, SparseRows
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
    order = np.argsort(rows, kind="stable")
    order = order[np.abs(blocks).max(axis=(1, 2), initial=0.0)[order] > ROUNDING]
    start = np.concatenate([[0], np.cumsum(np.bincount(rows[order], minlength=contact_count))])
    return SparseRows(start, columns[order], blocks[order]), drive


def point_constraints(
    sides: Sequence[ContactSide], *, normal: Floats, depth: Floats, stiffness: Floats, relax: Floats, key: Ids,
    body_a: Ids, body_b: Ids,
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
    )


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
