"""Processing of a shard of frames: read, update, query, encode.

Each thread keeps the bodies of a job with their trees between shards: a frame costs a refit, not a build.

A continuous job also searches the linear motion from each frame to the next. A shard carries the frame before its first
one: results do not depend on the cut into shards. Pairs that meet at the start of a motion are counted apart, for they
belong to the frame before. A frame is *tunnelled* if bodies meet on the way to it and neither it nor the frame before
has a contact.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter, OrderedDict
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from impinge.checks import Floats, as_positions
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.common.results import Kind, TrianglePairs
from impinge.detect.continuous.continuous_tree import ContinuousTree
from impinge.detect.continuous.impact_results import Impacts
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
MOTION_COLUMNS = {
    "impacts": "int64", "self_impacts": "int64", "at_start": "int64", "first_impact": "float64", "tunnelled": "bool",
}  # fmt: skip
"""Columns of frames in continuous jobs, about the motion from the frame before; null if one of both is unreadable."""
CONTACT_COLUMNS = {"frame": "int64", "is_self": "bool", "triangle_a": "int32", "triangle_b": "int32", "kind": "int8"}
IMPACT_COLUMNS = {
    "frame": "int64", "is_self": "bool", "kind": "int8", "feature_a": "int32", "feature_b": "int32",
    "vertex_0": "int32", "vertex_1": "int32", "vertex_2": "int32", "vertex_3": "int32",
    "time_lo": "float64", "time_hi": "float64",
}  # fmt: skip
"""Motion to ``frame``, an ``ImpactKind``, vertices of both features, those of a first; times from 0 to 1."""


@dataclass(frozen=True)
class FrameShard(Shard):
    """Neighbouring frames."""

    first: int
    names: list[str]
    items_a: list[Item]
    items_b: list[Item] | None
    before_a: Item | None = None
    """The frame before the first, in continuous jobs."""
    before_b: Item | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of positions sent with the shard."""
        items = [*self.items_a, *(self.items_b or ()), self.before_a, self.before_b]
        return sum(item.nbytes for item in items if isinstance(item, np.ndarray))


@dataclass(frozen=True, eq=False)
class FrameBodies:
    """The bodies of a job: templates, or references to their files before ``load_bodies``."""

    digest: str
    a: Any
    b: Any
    with_self: bool
    weld: bool | Literal["auto"]
    continuous: bool = field(default=False, kw_only=True)
    """Whether to search the motion between frames."""


class FrameContacts(NamedTuple):
    """Relation and pairs of both bodies, and self pairs of the first; None for what the job leaves out."""

    relation: Relation | None
    pairs: TrianglePairs | None
    own: TrianglePairs | None


class Motion(NamedTuple):
    """Impacts on the way from one frame to the next, pairs that meet at its start included; None as above."""

    pairs: Impacts | None
    own: Impacts | None

    @property
    def searches(self) -> list[tuple[bool, Impacts]]:
        """Whether with itself, and the impacts, of each search of the job."""
        return [(is_self, found) for is_self, found in zip((False, True), self) if found is not None]


class FrameTracker:
    """The bodies of a job with their trees, moved from frame to frame."""

    def __init__(self, bodies: FrameBodies) -> None:
        self._a = bodies.a.body()
        self._b = None if bodies.b is None else bodies.b.body()
        self._surfaces = [as_surface(body) for body in (self._a, self._b) if body is not None]
        self._pair = None if self._b is None else BoxTree(*self._surfaces)
        self._own = BoxTree(self._surfaces[0]) if bodies.with_self else None
        self._moving_pair = None if self._pair is None or not bodies.continuous else ContinuousTree(*self._surfaces)
        self._moving_own = None if self._own is None or not bodies.continuous else ContinuousTree(self._surfaces[0])

    def move(self, x_a: Floats, x_b: Floats | None) -> None:
        """Set the positions of both bodies."""
        self._a.update(x_a)
        if x_b is not None and self._b is not None:
            self._b.update(x_b)

    def motion_to(self, x_a: Floats, x_b: Floats | None) -> Motion:
        """Impacts on the way from the present positions; raises for positions that ``move`` would refuse."""
        x_a = as_positions(x_a, count=len(self._a.positions))
        if x_b is not None and self._b is not None:
            x_b = as_positions(x_b, count=len(self._b.positions))
        return Motion(
            None if self._moving_pair is None else self._moving_pair.query(end_a=x_a, end_b=x_b),
            None if self._moving_own is None else self._moving_own.query(end_a=x_a),
        )

    def query(self) -> FrameContacts:
        """Contacts at the present positions."""
        pairs = None if self._pair is None else self._pair.query()
        relation = None if pairs is None else relation_of(pairs, *self._surfaces)
        return FrameContacts(relation, pairs, None if self._own is None else self._own.query())


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
    moved: list[tuple[int, bool, Impacts]] = []
    is_placed, before = _place_before(tracker, bodies, shard), None
    for k, (name, item) in enumerate(zip(shard.names, shard.items_a)):
        frame = shard.first + k
        row: dict[str, Any] = {"frame": frame, "name": name}
        rows.append(row)
        motion = None
        try:
            x_b = None
            if shard.items_b is not None and bodies.b is not None:
                x_b = positions_in(shard.items_b[k], bodies.b)
            x_a = positions_in(item, bodies.a)
            try:
                if is_placed:
                    motion = tracker.motion_to(x_a, x_b)
                    if before is None and any(not each.at_start.all() for _, each in motion.searches):
                        before = tracker.query()
                tracker.move(x_a, x_b)
            except MeshError as error:
                raise MeshError(f"{name}: {error}") from error
            contacts = tracker.query()
        except ImpingeError as error:
            row["error"] = str(error)
            is_placed, before = False, None
            continue
        relation, pairs, own = contacts
        row |= {"relation": relation, "collides": bool(own) or relation not in (None, "disjoint")}
        for column, is_self, each in (("contacts", False, pairs), ("self_contacts", True, own)):
            if each is not None:
                row[column] = len(each)
                found.append((frame, is_self, each))
        kinds = np.concatenate([each.kind for each in (pairs, own) if each is not None])
        row |= {kind_name: int(np.count_nonzero(kinds == kind)) for kind, kind_name in KINDS.items()}
        if motion is not None:
            row |= _motion_row(frame, motion, before, contacts)
            new = [(is_self, each.rows(~each.at_start)) for is_self, each in motion.searches]
            moved += [(frame, is_self, replace(each, bodies=())) for is_self, each in new]  # not the positions
        is_placed, before = bodies.continuous, contacts
    lengths = [len(pairs) for _, _, pairs in found]
    ids = np.concatenate([np.zeros((0, 2), dtype=np.int32), *(each.pairs for _, _, each in found)])
    contacts_table = {
        "frame": np.repeat(np.array([frame for frame, _, _ in found], dtype=np.int64), lengths),
        "is_self": np.repeat(np.array([is_self for _, is_self, _ in found], dtype=np.bool_), lengths),
        "triangle_a": np.ascontiguousarray(ids[:, 0]),
        "triangle_b": np.ascontiguousarray(ids[:, 1]),
        "kind": np.concatenate([np.zeros(0, dtype=np.int8), *(each.kind for _, _, each in found)]),
    }
    tables = {"contacts": encode(contacts_table, CONTACT_COLUMNS, dictionary=["frame", "is_self", "kind"])}
    columns = FRAME_COLUMNS
    if bodies.continuous:
        tables["impacts"] = encode(_impact_table(moved), IMPACT_COLUMNS, dictionary=["frame", "is_self", "kind"])
        columns = {**FRAME_COLUMNS, **MOTION_COLUMNS}
    tables["frames"] = encode_rows(rows, columns)
    return ShardResult(shard.number, tables, tally_frames(rows, continuous=bodies.continuous))


def _place_before(tracker: FrameTracker, bodies: FrameBodies, shard: FrameShard) -> bool:
    """Move to the frame before the shard; False if there is none, or if it cannot be read."""
    if shard.before_a is None:
        return False
    try:
        x_b = None
        if shard.before_b is not None and bodies.b is not None:
            x_b = positions_in(shard.before_b, bodies.b)
        tracker.move(positions_in(shard.before_a, bodies.a), x_b)
    except ImpingeError:
        return False
    return True


def _motion_row(frame: int, motion: Motion, before: FrameContacts | None, after: FrameContacts) -> dict[str, Any]:
    """Columns about the motion to a frame; ``before`` is known if there are impacts."""
    row: dict[str, Any] = {"at_start": 0, "first_impact": None, "tunnelled": False}
    for is_self, found in motion.searches:
        new = found.rows(~found.at_start)
        row["self_impacts" if is_self else "impacts"] = len(new)
        row["at_start"] += len(found) - len(new)
        if len(new):
            assert before is not None
            first = frame - 1 + float(new.time_lo[0])
            row["first_impact"] = first if row["first_impact"] is None else min(first, row["first_impact"])
            is_clear = [not state.own if is_self else state.relation == "disjoint" for state in (before, after)]
            row["tunnelled"] |= all(is_clear)
    return row


def _impact_table(moved: list[tuple[int, bool, Impacts]]) -> dict[str, Any]:
    """Columns of the impacts of all motions of a shard."""
    lengths = [len(each) for _, _, each in moved]
    vertices = np.concatenate([np.zeros((0, 4), dtype=np.int32), *(each.vertices for _, _, each in moved)])
    table: dict[str, Any] = {
        "frame": np.repeat(np.array([frame for frame, _, _ in moved], dtype=np.int64), lengths),
        "is_self": np.repeat(np.array([is_self for _, is_self, _ in moved], dtype=np.bool_), lengths),
        **{f"vertex_{k}": np.ascontiguousarray(vertices[:, k]) for k in range(4)},
    }
    for name in ("kind", "feature_a", "feature_b", "time_lo", "time_hi"):
        columns = [getattr(each, name) for _, _, each in moved]
        table[name] = np.concatenate([np.zeros(0, dtype=IMPACT_COLUMNS[name]), *columns])
    return table


def tally_frames(rows: list[dict[str, Any]], *, continuous: bool = False) -> Counter[str]:
    """Totals over rows of frames."""
    more = ("impacts", "self_impacts", "at_start", "tunnelled") if continuous else ()
    return tally(rows, "frames", "bad", "contacts", "self_contacts", *more)
