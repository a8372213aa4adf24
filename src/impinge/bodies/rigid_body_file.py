"""Rigid bodies in files, as soft ones (``soft_body_file``): mass properties are stored, not computed again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from impinge.bodies import soft_body_file

if TYPE_CHECKING:
    from impinge.bodies.rigid_body import RigidBody

FORMAT = "impinge rigid body"


def content_of(body: RigidBody) -> dict[str, NDArray[Any]]:
    """Shape, mass properties and state as plain arrays."""
    content: dict[str, Any] = {
        "surface_rest": body.rest_surface,
        "surface": body.surface.vertices,
        "faces": body.surface.faces,
        "alive": body.surface.alive,
        "coarse": body.coarse.vertices,
        **{name: getattr(body, name) for name in ("density", "mass", "velocities", "time")},
        **{name: getattr(body.model, name) for name in ("centre", "axes", "moments")},
    }
    return {name: np.array(value) for name, value in content.items()}


def save(body: RigidBody, path: str | os.PathLike[str]) -> None:
    """Write a body to a file, whole or not at all."""
    soft_body_file.write(content_of(body), path, FORMAT)


def load(path: str | os.PathLike[str]) -> RigidBody:
    """Read a body."""
    return soft_body_file.read(path, FORMAT, "rigid body", "RigidBody.save", restored)


def restored(content: dict[str, NDArray[Any]]) -> RigidBody:
    """The body of ``content_of``."""
    from impinge.bodies.rigid_body import RigidBody
    from impinge.mesh.tri_mesh import TriMesh

    surface = TriMesh(content["surface_rest"], content["faces"])
    surface.remove_triangles(~content["alive"])
    mass, density, time = (float(content[name]) for name in ("mass", "density", "time"))
    axes = np.ascontiguousarray(content["axes"], dtype=np.float64).reshape(3, 3)
    body = RigidBody.__new__(RigidBody)
    body.build(surface, mass, density, content["centre"].reshape(3), axes, content["moments"].reshape(3))
    body.restore(content["coarse"], content["surface"], np.zeros((0, 9)), content["velocities"], time)
    return body
