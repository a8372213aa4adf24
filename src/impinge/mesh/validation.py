"""What is wrong with a mesh, counted: the report behind ``impinge.validate``.

Nothing here is an error. Open edges, doubled faces, zero-area triangles and inverted tets are all accepted by
the detectors; whoever needs a closed surface (volumes, inside tests) finds here why a body is not one.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from impinge.checks import Bools, Floats, Ints, distinct_rows
from impinge.mesh.adjacency import Adjacency
from impinge.mesh.body import as_body
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh

ZERO_AREA = 1e-14
"""A triangle below this share of its longest edge squared counts as zero-area (and a tet likewise, cubed)."""


@dataclass(frozen=True)
class ValidationReport:
    """Counts of what is unusual in a body. For a tet mesh the surface counts are those of its boundary."""

    kind: str
    """``"triangles"`` or ``"tets"``."""
    vertices: int
    triangles: int
    """Live triangles; of a tet mesh, those of its boundary."""
    tets: int
    closed: bool
    """Every edge borders an even number of triangles."""
    oriented: bool
    """Closed, and all triangles agree on which side is outside."""
    inside_out: bool
    """Oriented, with a negative volume."""
    components: int
    """Pieces connected through shared vertices."""
    open_edges: int
    nonmanifold_edges: int
    flipped_edges: int
    """Edges whose two triangles disagree on which side is outside."""
    degenerate_faces: int
    """Zero area: below 1e-14 of the longest edge squared; faces that repeat an index are among them."""
    repeated_index_faces: int
    doubled_faces: int
    """Faces on the same three vertices as an earlier one."""
    duplicate_vertices: int
    """Vertices at the position of an earlier one."""
    unused_vertices: int
    inverted_tets: int
    flat_tets: int
    first: dict[str, list[int]]
    """The first offender of each kind that occurs: an edge as its two vertices, anything else as its id."""

    @property
    def clean(self) -> bool:
        """Closed, consistently oriented outwards, and nothing counted as unusual."""
        odd = [getattr(self, field.name) for field in fields(self) if field.type == "int"]
        usual = self.vertices + self.triangles + self.tets + self.components
        return self.oriented and not self.inside_out and sum(odd) == usual

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON."""
        return asdict(self)


def validate(body: Any) -> ValidationReport:
    """Count what is unusual in ``body``: a mesh of ours, or anything else that is a body (see ``triangle_pairs``)."""
    body = as_body(body)
    surface = body.surface if isinstance(body, TetMesh) else body
    snapshot = surface.snapshot()
    x, faces = snapshot.vertices, np.ascontiguousarray(snapshot.elements[snapshot.live])
    adjacency = surface.adjacency
    offenders: dict[str, Bools] = {
        "open_edges": adjacency.open_edges,
        "nonmanifold_edges": adjacency.nonmanifold_edges,
        "flipped_edges": adjacency.flipped_edges,
        "degenerate_faces": _zero_area(x, faces),
        "repeated_index_faces": _repeats_index(faces),
        "doubled_faces": _later_copies(np.sort(faces, axis=1)) & ~_repeats_index(faces),
        "duplicate_vertices": _later_copies(x + 0.0),  # + 0.0: minus zero is zero
        "unused_vertices": _unused(body),
        "inverted_tets": _inverted(body),
        "flat_tets": _flat(body),
    }
    return ValidationReport(
        kind="tets" if isinstance(body, TetMesh) else "triangles",
        vertices=len(x),
        triangles=len(faces),
        tets=len(body) if isinstance(body, TetMesh) else 0,
        closed=adjacency.is_closed,
        oriented=adjacency.is_oriented,
        inside_out=adjacency.is_oriented and surface.volume < 0.0,
        components=adjacency.component[0] if len(faces) else 0,
        first=_first_offenders(offenders, adjacency, snapshot.live, body.snapshot().live),
        **{name: int(mask.sum()) for name, mask in offenders.items()},
    )


def _first_offenders(
    offenders: dict[str, Bools], adjacency: Adjacency, live_faces: Ints, live_elements: Ints
) -> dict[str, list[int]]:
    """Where to look first; faces and tets are counted among the live ones and named by their ids."""
    ids = {"faces": live_faces, "tets": live_elements}
    first = {}
    for name, mask in offenders.items():
        if mask.any():
            row = int(np.argmax(mask))
            if name.endswith("edges"):
                first[name] = adjacency.edges[row].tolist()
            else:
                first[name] = [int(ids[name.rpartition("_")[2]][row])] if not name.endswith("vertices") else [row]
    return first


def _zero_area(x: Floats, faces: Ints) -> Bools:
    p, q, r = (x[faces[:, k]] for k in range(3))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        longest = np.max([np.abs(q - p).max(axis=1), np.abs(r - q).max(axis=1), np.abs(p - r).max(axis=1)], axis=0)
        scale = np.where(longest > 0.0, longest, 1.0)[:, None]  # sizes of 1e-200 and 1e200 must not under- or overflow
        u, v = (q - p) / scale, (r - p) / scale
        area = 0.5 * np.linalg.norm(np.cross(u, v), axis=1)
        longest_sq = np.max([(e**2).sum(axis=1) for e in (u, v, u - v)], axis=0)
        degenerate: Bools = area <= ZERO_AREA * longest_sq
        return degenerate


def _repeats_index(faces: Ints) -> Bools:
    repeats: Bools = (faces[:, 0] == faces[:, 1]) | (faces[:, 1] == faces[:, 2]) | (faces[:, 2] == faces[:, 0])
    return repeats


def _later_copies(rows: Any) -> Bools:
    """Mark rows that equal an earlier one."""
    later = np.ones(len(rows), dtype=np.bool_)
    if len(rows):
        later[distinct_rows(rows)[0]] = False
    return later


def _unused(body: TriMesh | TetMesh) -> Bools:
    snapshot = body.snapshot()
    unused = np.ones(len(snapshot.vertices), dtype=np.bool_)
    unused[snapshot.elements[snapshot.live].reshape(-1)] = False
    return unused


def _inverted(body: TriMesh | TetMesh) -> Bools:
    """Mark tets wound the other way than most: files follow either convention, consistently."""
    if not isinstance(body, TetMesh):
        return np.zeros(0, dtype=np.bool_)
    volumes = body.volumes
    minority = 1.0 if (volumes > 0.0).sum() < (volumes < 0.0).sum() else -1.0
    inverted: Bools = volumes * minority > 0.0
    return inverted & ~_flat(body)


def _flat(body: TriMesh | TetMesh) -> Bools:
    if not isinstance(body, TetMesh):
        return np.zeros(0, dtype=np.bool_)
    snapshot = body.snapshot()
    corners = snapshot.vertices[snapshot.elements[snapshot.live]]
    with np.errstate(over="ignore", invalid="ignore"):
        edges = corners[:, 1:] - corners[:, :1]
        size = np.abs(edges).max(axis=(1, 2), initial=0.0)
        edges /= np.where(size > 0.0, size, 1.0)[:, None, None]  # so that no unit under- or overflows
        flat: Bools = np.abs(np.linalg.det(edges)) <= 6.0 * ZERO_AREA
    return flat
