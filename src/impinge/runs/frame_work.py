"""Processing of a shard of frames: read, update, query, encode.

Each thread keeps the bodies of a job with their trees between shards: a frame costs a refit, not a build.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter, OrderedDict
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from impinge.checks import Floats
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.common.results import Kind, TrianglePairs
from impinge.detect.proximity.relation import Relation, relation_of
from impinge.errors import ImpingeError, MeshError
from impinge.mesh.body import as_surface
from impinge.runs.engine import Shard, ShardResult
from impinge.runs.sources import FileRef, Item, positions_in, template_of
from impinge.runs.store import encode, encode_rows, tally

JOBS_CACHED = 4
"""Jobs whose bodies and trees a process keeps."""
KINDS = {Kind.CROSSING: "crossing", Kind.TOUCHING: "touching", Kind.COPLANAR: "coplanar"}
FRAME_COLUMNS = {
    "frame": "int64", "name": "string", "collides": "bool", "relation": "string", "contacts": "int64",
    "self_contacts": "int64", **dict.fromkeys(KINDS.values(), "int64"), "error": "string",
}  # fmt: skip
CONTACT_COLUMNS = {"frame": "int64", "is_self": "bool", "triangle_a": "int32", "triangle_b": "int32", "kind": "int8"}


@dataclass(frozen=True)
class FrameShard(Shard):
    """Neighbouring frames."""

    first: int
    names: list[str]
    items_a: list[Item]
    items_b: list[Item] | None

    @property
    def nbytes(self) -> int:
        """Bytes of positions sent with the shard."""
        return sum(item.nbytes for item in [*self.items_a, *(self.items_b or ())] if isinstance(item, np.ndarray))


@dataclass(frozen=True, eq=False)
class FrameBodies:
    """The bodies of a job: templates, or references to their files before ``load_bodies``."""

    digest: str
    a: Any
    b: Any
    with_self: bool
    weld: bool | Literal["auto"]


class FrameTracker:
    """The bodies of a job with their trees, moved from frame to frame."""

    def __init__(self, bodies: FrameBodies) -> None:
        self._a = bodies.a.body()
        self._b = None if bodies.b is None else bodies.b.body()
        self._surfaces = [as_surface(body) for body in (self._a, self._b) if body is not None]
        self._pair = None if self._b is None else BoxTree(*self._surfaces)
        self._own = BoxTree(self._surfaces[0]) if bodies.with_self else None

    def move(self, x_a: Floats, x_b: Floats | None) -> None:
        """Set the positions of both bodies."""
        self._a.update(x_a)
        if x_b is not None and self._b is not None:
            self._b.update(x_b)

    def query(self) -> tuple[Relation | None, TrianglePairs | None, TrianglePairs | None]:
        """Relation and pairs of both bodies, and self pairs of the first; None for what the job leaves out."""
        pairs = None if self._pair is None else self._pair.query()
        relation = None if pairs is None else relation_of(pairs, *self._surfaces)
        return relation, pairs, None if self._own is None else self._own.query()


_bodies: OrderedDict[str, FrameBodies] = OrderedDict()
"""By the digest of the job."""
_trackers: weakref.WeakKeyDictionary[FrameBodies, dict[int, FrameTracker]] = weakref.WeakKeyDictionary()
"""By thread."""
_lock = threading.Lock()


def load_bodies(sources: FrameBodies) -> FrameBodies:
    """The bodies of a job, from the cache of this process if it holds them."""
    with _lock:
        cached = _bodies.get(sources.digest)
    if cached is not None:
        return cached
    a, b = (
        template_of(each, name="the body", weld=sources.weld) if isinstance(each, FileRef) else each
        for each in (sources.a, sources.b)
    )
    made = replace(sources, a=a, b=b)
    with _lock:
        _bodies[sources.digest] = made
        while len(_bodies) > JOBS_CACHED:
            _bodies.popitem(last=False)
    return made


def forget_job(digest: str) -> None:
    """Drop the bodies and trees of a job from the cache of this process."""
    with _lock:
        _bodies.pop(digest, None)


def query_frames(bodies: FrameBodies, shard: FrameShard) -> ShardResult:
    """Query every frame of a shard; a frame that cannot be read gets a row with its error."""
    with _lock:
        trackers = _trackers.setdefault(bodies, {})
    tracker = trackers.get(threading.get_ident()) or FrameTracker(bodies)
    trackers[threading.get_ident()] = tracker
    rows: list[dict[str, Any]] = []
    found: list[tuple[int, bool, TrianglePairs]] = []
    for k, (name, item) in enumerate(zip(shard.names, shard.items_a)):
        row: dict[str, Any] = {"frame": shard.first + k, "name": name}
        rows.append(row)
        try:
            x_b = None
            if shard.items_b is not None and bodies.b is not None:
                x_b = positions_in(shard.items_b[k], bodies.b)
            x_a = positions_in(item, bodies.a)
            try:
                tracker.move(x_a, x_b)
            except MeshError as error:
                raise MeshError(f"{name}: {error}") from error
            relation, pairs, own = tracker.query()
        except ImpingeError as error:
            row["error"] = str(error)
            continue
        row |= {"relation": relation, "collides": bool(own) or relation not in (None, "disjoint")}
        for column, is_self, each in (("contacts", False, pairs), ("self_contacts", True, own)):
            if each is not None:
                row[column] = len(each)
                found.append((shard.first + k, is_self, each))
        kinds = np.concatenate([each.kind for each in (pairs, own) if each is not None])
        row |= {kind_name: int(np.count_nonzero(kinds == kind)) for kind, kind_name in KINDS.items()}
    lengths = [len(pairs) for _, _, pairs in found]
    ids = np.concatenate([np.zeros((0, 2), dtype=np.int32), *(each.pairs for _, _, each in found)])
    contacts = {
        "frame": np.repeat(np.array([frame for frame, _, _ in found], dtype=np.int64), lengths),
        "is_self": np.repeat(np.array([is_self for _, is_self, _ in found], dtype=np.bool_), lengths),
        "triangle_a": np.ascontiguousarray(ids[:, 0]),
        "triangle_b": np.ascontiguousarray(ids[:, 1]),
        "kind": np.concatenate([np.zeros(0, dtype=np.int8), *(each.kind for _, _, each in found)]),
    }
    tables = {
        "contacts": encode(contacts, CONTACT_COLUMNS, dictionary=["frame", "is_self", "kind"]),
        "frames": encode_rows(rows, FRAME_COLUMNS),
    }
    return ShardResult(shard.number, tables, tally_frames(rows))


def tally_frames(rows: list[dict[str, Any]]) -> Counter[str]:
    """Totals over rows of frames."""
    return tally(rows, "frames", "bad", "contacts", "self_contacts")
