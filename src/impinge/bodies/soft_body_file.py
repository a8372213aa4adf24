"""Bodies in files: plain arrays in an npz, no pickle, equal bits when read again.

``write`` and ``read`` serve soft and rigid bodies (``rigid_body_file``). Of a soft body, model and embedding are
rebuilt from the rest shapes, with equal results. Frames of rigid links are stored, since a collinear triple keeps its
last frame. Copying and pickling use the same content.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import astuple
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from impinge.checks import as_path, shown
from impinge.deform.fem import Elements
from impinge.deform.materials import Material
from impinge.deform.rigid_links import RigidLinks
from impinge.errors import FileError, ImpingeError, OptionError
from impinge.io.atomic import write_whole
from impinge.io.npz import read_npz

if TYPE_CHECKING:
    from impinge.bodies.soft_body import SoftBody

Body = TypeVar("Body")

FORMAT = "impinge soft body"
VERSION = 1
"""Increases when older code cannot read the file."""


def content_of(body: SoftBody) -> dict[str, NDArray[Any]]:
    """Shape, material and state as plain arrays."""
    model = body.model
    if body.model_name is None or not isinstance(model, Elements):
        raise OptionError(
            "a soft body with a custom model cannot be saved; pass the name of a model, or save "
            "coarse.vertices and velocities instead"
        )
    materials = [astuple(each) for each in model.materials]
    content: dict[str, Any] = {
        "surface_rest": body.rest_surface,
        "surface": body.surface.vertices,
        "faces": body.surface.faces,
        "alive": body.surface.alive,
        "coarse_rest": model.rest,
        "coarse": body.coarse.vertices,
        "tets": body.coarse.tets,
        **{name: getattr(body, name) for name in ("velocities", "fixed", "moved", "motion", "time")},
        "material": materials if len(materials) > 1 else materials[0],
        "tet_material": model.tet_material if len(materials) > 1 else np.zeros(0, dtype=np.int64),
        "model": body.model_name,
        "elements": model.elements,
        "embedding": body.embedding_name,
        "frames": body.embedding.frames if isinstance(body.embedding, RigidLinks) else np.zeros((0, 9)),
        "prepared": body.prepared,
    }
    return {name: np.array(value) for name, value in content.items()}


def save(body: SoftBody, path: str | os.PathLike[str]) -> None:
    """Write a body to a file, whole or not at all."""
    write(content_of(body), path, FORMAT)


def load(path: str | os.PathLike[str]) -> SoftBody:
    """Read a body."""
    return read(path, FORMAT, "soft body", "SoftBody.save", restored)


def write(content: dict[str, NDArray[Any]], path: str | os.PathLike[str], format_name: str) -> None:
    """Write arrays to a file, whole or not at all."""
    path = as_path(path, "path")
    named: dict[str, Any] = {"format": format_name, "version": VERSION, **content}
    try:
        write_whole(path, lambda file: np.savez(file, **named))
    except OSError as error:
        raise FileError(f"{path} cannot be written ({error.strerror}); choose another place") from error


def read(
    path: str | os.PathLike[str], format_name: str, kind: str, writer: str,
    restored: Callable[[dict[str, NDArray[Any]]], Body],
) -> Body:  # fmt: skip
    """Read a file of ``write`` and restore its body."""
    path = as_path(path, "path")
    no_body = f"{path} is not a {kind}; expected a file that {writer} wrote"
    try:
        content = read_npz(path)
    except FileError:
        raise
    except (ValueError, TypeError) as error:
        raise FileError(no_body) from error
    except OSError as error:
        raise FileError(f"{path} cannot be read ({error.strerror or error}); check the path") from error
    if str(content.get("format", "")) != format_name:
        raise FileError(no_body)
    version = content["version"].item() if "version" in content and content["version"].size == 1 else None
    if version != VERSION:
        raise FileError(f"{path} has version {shown(version)} of the format, expected {VERSION}; update impinge")
    try:
        return restored(content)
    except KeyError as error:
        raise FileError(f"{path} lacks a part of the {kind} ({error.args[0]}); save it again") from error
    except (ImpingeError, TypeError, ValueError) as error:
        raise FileError(f"{path} holds a {kind} that is damaged ({error}); save it again") from error


def restored(content: dict[str, NDArray[Any]]) -> SoftBody:
    """The body of ``content_of``."""
    from impinge.bodies.soft_body import SoftBody
    from impinge.mesh.tet_mesh import TetMesh
    from impinge.mesh.tri_mesh import TriMesh

    surface = TriMesh(content["surface_rest"], content["faces"])
    surface.remove_triangles(~content["alive"])
    rows = np.atleast_2d(content["material"])
    materials = [Material(*row.tolist()) for row in rows]
    several = len(materials) > 1
    body = SoftBody(
        surface,
        TetMesh(content["coarse_rest"], content["tets"]),
        material=[materials[k] for k in content["tet_material"]] if several else materials[0],
        model=str(content["model"]),
        elements=str(content.get("elements", "linear")),  # type: ignore[arg-type]  # older files lack it
        embedding=str(content["embedding"]),  # type: ignore[arg-type]  # checked there
        fixed=content["fixed"],
    )
    body.move(content["moved"], content["motion"])
    body.restore(
        content["coarse"], content["surface"], content["frames"], content["velocities"], float(content["time"])
    )
    body.prepared = str(content["prepared"])
    return body
