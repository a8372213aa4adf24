"""Counts of mesh defects: the report of ``impinge.validate``.

None of them is an error. Detectors accept open edges, doubled faces, zero-area triangles and inverted tets. Volumes and
inside tests need a closed surface; the report states why a body is not one.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Bools, Json, distinct_rows
from impinge.mesh.body import BodyLike, as_body, as_surface
from impinge.mesh.tet_mesh import TetMesh

ZERO_AREA = 1e-14
"""Largest area of a degenerate triangle relative to its longest edge squared; volume of a flat tet likewise, cubed."""


@dataclass(frozen=True)
class ValidationReport:
    """Counts of defects of a body. The surface counts of a tet mesh are those of its boundary."""

    kind: str
    """``"triangles"`` or ``"tets"``."""
    vertices: int
    triangles: int
    """Live triangles; of a tet mesh, those of its boundary."""
    tets: int
    closed: bool
    """Every edge borders an even number of triangles."""
    oriented: bool
    """Triangles that share an edge agree on which side is outside; open surfaces may be oriented, too."""
    inside_out: bool
    """Closed and oriented, with a negative volume."""
    components: int
    """Pieces connected through shared vertices."""
    open_edges: int
    nonmanifold_edges: int
    flipped_edges: int
    """Edges whose two triangles have opposite orientations."""
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
    """The first defect of each kind that occurs: an edge as its two vertices, anything else as its id."""

    @property
    def clean(self) -> bool:
        """Closed, consistently oriented outwards, and without defects."""
        odd = [getattr(self, field.name) for field in fields(self) if field.type == "int"]
        usual = self.vertices + self.triangles + self.tets + self.components
        return self.closed and self.oriented and not self.inside_out and sum(odd) == usual

    def to_dict(self) -> dict[str, Json]:
        """Plain numbers and strings, ready for JSON."""
        return asdict(self)


def validate(body: BodyLike) -> ValidationReport:
    """Count the defects of a body.

    Parameters
    ----------
    body : body
        A TriMesh or TetMesh, or anything else that ``triangle_pairs`` accepts.

    Returns
    -------
    ValidationReport
        Counts, the first defect of each kind, and whether the surface is closed and oriented.

    Examples
    --------
    >>> import impinge
    >>> impinge.validate(impinge.shapes.cloth_grid(2, 2)).open_edges
    8
    """
    body = as_body(body)
    surface = as_surface(body)
    snapshot, elements = surface.snapshot(), body.snapshot()
    x, faces, adjacency = snapshot.vertices, snapshot.elements[snapshot.live], surface.adjacency
    repeats = (faces[:, 0] == faces[:, 1]) | (faces[:, 1] == faces[:, 2]) | (faces[:, 2] == faces[:, 0])
    unused = np.ones(len(x), dtype=np.bool_)
    unused[elements.elements[elements.live]] = False
    inverted = flat = np.zeros(0, dtype=np.bool_)
    if isinstance(body, TetMesh):
        with np.errstate(over="ignore", invalid="ignore"):
            corners = x[elements.elements[elements.live]]
            sides = corners[:, 1:] - corners[:, :1]
            size = np.abs(sides).max(axis=(1, 2), initial=0.0)
            sides /= np.where(size > 0.0, size, 1.0)[:, None, None]  # no unit under- or overflows
            flat, volumes = np.abs(np.linalg.det(sides)) <= 6.0 * ZERO_AREA, body.volumes
        # Files follow either winding, consistently: inverted tets are the minority.
        minority = 1.0 if (volumes > 0.0).sum() < (volumes < 0.0).sum() else -1.0
        inverted = (volumes * minority > 0.0) & ~flat
    p, q, r = (x[faces[:, k]] for k in range(3))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        longest = np.max([np.abs(q - p).max(axis=1), np.abs(r - q).max(axis=1), np.abs(p - r).max(axis=1)], axis=0)
        scale = np.where(longest > 0.0, longest, 1.0)[:, None]  # sizes of 1e-200 and 1e200 must not under- or overflow
        u, v = (q - p) / scale, (r - p) / scale
        area = 0.5 * np.linalg.norm(np.cross(u, v), axis=1)
        degenerate = area <= ZERO_AREA * np.max([(e**2).sum(axis=1) for e in (u, v, u - v)], axis=0)
    defects: dict[str, Bools] = {
        "open_edges": adjacency.open_edges,
        "nonmanifold_edges": adjacency.nonmanifold_edges,
        "flipped_edges": adjacency.flipped_edges,
        "degenerate_faces": degenerate,
        "repeated_index_faces": repeats,
        "doubled_faces": _is_copy(np.sort(faces, axis=1)) & ~repeats,
        "duplicate_vertices": _is_copy(x + 0.0),  # + 0.0: minus zero is zero
        "unused_vertices": unused,
        "inverted_tets": inverted,
        "flat_tets": flat,
    }
    ids = {"faces": snapshot.live, "tets": elements.live, "vertices": np.arange(len(x), dtype=np.int32)}
    first: dict[str, list[int]] = {}
    for name, mask in defects.items():
        if mask.any():
            row = int(np.argmax(mask))
            kind = name.rpartition("_")[2]
            first[name] = adjacency.edges[row].tolist() if kind == "edges" else [int(ids[kind][row])]
    return ValidationReport(
        kind="tets" if isinstance(body, TetMesh) else "triangles",
        vertices=len(x),
        triangles=len(faces),
        tets=len(body) if isinstance(body, TetMesh) else 0,
        closed=adjacency.is_closed,
        oriented=adjacency.is_consistent,
        inside_out=adjacency.is_oriented and surface.volume < 0.0,
        components=adjacency.component[0] if len(faces) else 0,
        first=first,
        **{name: int(mask.sum()) for name, mask in defects.items()},
    )


def _is_copy(rows: NDArray[Any]) -> Bools:
    """Mask of the rows that equal an earlier one."""
    copy = np.ones(len(rows), dtype=np.bool_)
    copy[distinct_rows(rows)[0]] = False
    return copy
