"""What a worker does with a run of frames: read, update, find pairs, encode.

A thread keeps the bodies of a job and their trees from one run to the next, so that a frame is a refit, not a build.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from impinge.checks import Floats
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.common.results import Kind, TrianglePairs
from impinge.errors import ImpingeError, MeshError
from impinge.mesh.body import as_surface
from impinge.runs.engine import Answer
from impinge.runs.relations import Watch
from impinge.runs.sources import InFile, Item, Template, positions_in, template_of
from impinge.runs.store import encode, parquet

JOBS_KEPT = 4
"""Jobs whose bodies a process keeps, and whose trees a thread keeps."""
KINDS = {Kind.CROSSING: "crossing", Kind.TOUCHING: "touching", Kind.COPLANAR: "coplanar"}


@dataclass(frozen=True)
class FrameRun:
    """A run of neighbouring frames."""

    number: int
    first: int
    names: list[str]
    items_a: list[Item]
    items_b: list[Item] | None

    @property
    def nbytes(self) -> int:
        """Of positions that travel with it."""
        return sum(item.nbytes for item in [*self.items_a, *(self.items_b or ())] if isinstance(item, np.ndarray))


@dataclass(frozen=True, eq=False)
class DescribedBodies:
    """The bodies, or where they are to be read."""

    digest: str
    a: InFile | Template
    b: InFile | Template | None
    with_self: bool
    weld: bool | Literal["auto"]


@dataclass(frozen=True, eq=False)
class FrameBodies:
    """The bodies of a job."""

    digest: str
    a: Template
    b: Template | None
    with_self: bool


_bodies: OrderedDict[str, FrameBodies] = OrderedDict()
"""By the digest of their job."""
_lock = threading.Lock()


def make_bodies(described: DescribedBodies) -> FrameBodies:
    """The bodies that this process keeps for a job; read, where they are not here already."""
    with _lock:
        kept = _bodies.get(described.digest)
    if kept is not None:
        return kept
    a, b = (
        template_of(each, name="the body", weld=described.weld) if isinstance(each, InFile) else each
        for each in (described.a, described.b)
    )
    assert a is not None
    made = FrameBodies(described.digest, a, b, described.with_self)
    with _lock:
        _bodies[described.digest] = made
        while len(_bodies) > JOBS_KEPT:
            _bodies.popitem(last=False)
    return made


class FrameWatch:
    """The bodies of a job with their trees, moved from frame to frame."""

    def __init__(self, bodies: FrameBodies) -> None:
        self._a = bodies.a.body()
        self._b = None if bodies.b is None else bodies.b.body()
        surface = as_surface(self._a)
        self._pair = None if self._b is None else Watch(surface, as_surface(self._b))
        self._own = BoxTree(surface) if bodies.with_self else None

    def move(self, x_a: Floats, x_b: Floats | None) -> None:
        """Bring both bodies to a frame."""
        self._a.update(x_a)
        if x_b is not None and self._b is not None:
            self._b.update(x_b)

    def look(self) -> tuple[str | None, TrianglePairs | None, TrianglePairs | None]:
        """The relation and the pairs of both, and the pairs of a with itself; None of what was not asked."""
        relation = found = None
        if self._pair is not None:
            standing = self._pair.look()
            relation, found = standing.relation, standing.found
        return relation, found, None if self._own is None else self._own.query()


_watches: OrderedDict[tuple[str, int], FrameWatch] = OrderedDict()


def _watch_of(bodies: FrameBodies) -> FrameWatch:
    """The watch that this thread keeps for a job, so that trees are refitted and not built from one run to the next."""
    key = bodies.digest, threading.get_ident()
    with _lock:
        watch = _watches.pop(key, None)
    watch = watch or FrameWatch(bodies)
    with _lock:
        _watches[key] = watch
        mine = [each for each in _watches if each[1] == key[1]]
        for old in mine[:-JOBS_KEPT]:
            del _watches[old]
    return watch


def forget_job(digest: str) -> None:
    """Let go of what this process kept for a job."""
    with _lock:
        _bodies.pop(digest, None)
        for key in [key for key in _watches if key[0] == digest]:
            del _watches[key]


def look_at_frames(bodies: FrameBodies, run: FrameRun) -> Answer:
    """Look at every frame of a run."""
    watch = _watch_of(bodies)
    rows: list[dict[str, Any]] = []
    found: list[tuple[int, bool, TrianglePairs]] = []
    for k, (name, item) in enumerate(zip(run.names, run.items_a)):
        row: dict[str, Any] = {"frame": run.first + k, "name": name}
        try:
            x_b = None
            if run.items_b is not None and bodies.b is not None:
                x_b = positions_in(run.items_b[k], bodies.b)
            _move(watch, positions_in(item, bodies.a), x_b, name)
            relation, pairs, own = watch.look()
        except ImpingeError as error:
            rows.append({**row, "error": str(error)})
            continue
        rows.append({**row, **_counted(relation, pairs, own)})
        found += [(run.first + k, is_own, each) for is_own, each in ((False, pairs), (True, own)) if each is not None]
    tables = {"contacts": _contacts_table(found), "frames": _frames_table(rows)}
    counts = {
        "frames": len(rows),
        "colliding": sum(bool(row.get("collides")) for row in rows),
        "contacts": sum(row.get("contacts") or 0 for row in rows),
        "self_contacts": sum(row.get("self_contacts") or 0 for row in rows),
        "bad": sum("error" in row for row in rows),
    }
    return Answer(run.number, tables, counts)


def _move(watch: FrameWatch, x_a: Floats, x_b: Floats | None, name: str) -> None:
    try:
        watch.move(x_a, x_b)
    except MeshError as error:
        raise MeshError(f"{name}: {error}") from error


def _counted(relation: str | None, pairs: TrianglePairs | None, own: TrianglePairs | None) -> dict[str, Any]:
    """What the row of a frame says."""
    row: dict[str, Any] = {"relation": relation, "collides": bool(own) or relation not in (None, "disjoint")}
    kinds = np.concatenate([each.kind for each in (pairs, own) if each is not None])
    row |= {name: int(np.count_nonzero(kinds == kind)) for kind, name in KINDS.items()}
    row["contacts"] = None if pairs is None else len(pairs)
    row["self_contacts"] = None if own is None else len(own)
    return row


def _frames_table(rows: list[dict[str, Any]]) -> bytes:
    arrow = parquet()
    number, text = arrow.int64(), arrow.string()
    schema = arrow.schema(
        [
            ("frame", number), ("name", text), ("collides", arrow.bool_()), ("relation", text), ("contacts", number),
            ("self_contacts", number), *((name, number) for name in KINDS.values()), ("error", text),
        ]
    )  # fmt: skip
    return encode({name: [row.get(name) for row in rows] for name in schema.names}, schema)


def _contacts_table(found: list[tuple[int, bool, TrianglePairs]]) -> bytes:
    arrow = parquet()
    schema = arrow.schema(
        [
            ("frame", arrow.int64()), ("is_self", arrow.bool_()), ("triangle_a", arrow.int32()),
            ("triangle_b", arrow.int32()), ("kind", arrow.int8()),
        ]
    )  # fmt: skip
    lengths = [len(pairs) for _, _, pairs in found]
    pairs = np.concatenate([np.zeros((0, 2), dtype=np.int32), *(each.pairs for _, _, each in found)])
    columns = {
        "frame": np.repeat(np.array([frame for frame, _, _ in found], dtype=np.int64), lengths),
        "is_self": np.repeat(np.array([own for _, own, _ in found], dtype=np.bool_), lengths),
        "triangle_a": np.ascontiguousarray(pairs[:, 0]),
        "triangle_b": np.ascontiguousarray(pairs[:, 1]),
        "kind": np.concatenate([np.zeros(0, dtype=np.int8), *(each.kind for _, _, each in found)]),
    }
    return encode(columns, schema, repeating=["frame", "is_self", "kind"])
