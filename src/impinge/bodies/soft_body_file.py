"""One file for one soft body: plain arrays in an npz, no pickle, the same bits when read again.

The model and the embedding are made anew from the rest shapes, which gives the same numbers. Frames of rigid links are
kept too, since a triple on a line goes on from the one that it had last. Copying and pickling a body go the same way.
"""

from __future__ import annotations

import contextlib
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from impinge.deform.materials import Material
from impinge.deform.rigid_links import RigidLinks
from impinge.errors import FileError, ImpingeError, OptionError

if TYPE_CHECKING:
    from impinge.bodies.soft_body import SoftBody

FORMAT = "impinge soft body"
VERSION = 1
"""Grows when a file cannot be read by the code before."""

FIELDS = (
    "surface_rest", "surface", "faces", "alive", "coarse_rest", "coarse", "tets", "velocities", "fixed", "moved",
    "motion", "time", "material", "model", "embedding", "frames", "prepared",
)  # fmt: skip


def content_of(body: SoftBody) -> dict[str, NDArray[Any]]:
    """All that makes a body, as plain arrays."""
    material = getattr(body.model, "material", None)
    if body.model_name is None or not isinstance(material, Material):
        raise OptionError(
            "a soft body with a model of its own cannot be saved; pass model='green_strain' or 'corotated', or keep "
            "coarse.vertices and velocities yourself"
        )
    content: dict[str, Any] = {
        "surface_rest": body.rest_surface,
        "surface": body.surface.vertices,
        "faces": body.surface.faces,
        "alive": body.surface.alive,
        "coarse_rest": body.model.rest,
        "coarse": body.coarse.vertices,
        "tets": body.coarse.tets,
        "velocities": body.velocities,
        "fixed": body.fixed,
        "moved": body.moved,
        "motion": body.motion,
        "time": body.time,
        "material": [
            material.youngs_modulus, material.poisson_ratio, material.density,
            material.damping_dilation, material.damping_shear,
        ],
        "model": body.model_name,
        "embedding": body.embedding_name,
        "frames": body.embedding.frames if isinstance(body.embedding, RigidLinks) else np.zeros((0, 9)),
        "prepared": body.prepared,
    }  # fmt: skip
    return {name: np.array(value) for name, value in content.items()}


def save(body: SoftBody, path: str | os.PathLike[str]) -> None:
    """Write a body; a file of that name is replaced only when the new one is whole."""
    content: dict[str, Any] = {"format": FORMAT, "version": VERSION, **content_of(body)}
    target = Path(path)
    part = target.with_name(target.name + ".part")
    try:
        with part.open("wb") as file:
            np.savez(file, **content)
        part.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise FileError(f"{path} cannot be written ({error.strerror}); choose another place") from error


def load(path: str | os.PathLike[str]) -> SoftBody:
    """Read a body, or say what is wrong with the file."""
    content = _read(path)
    try:
        return restored(content)
    except (ImpingeError, TypeError, ValueError) as error:
        raise FileError(f"{path} holds a soft body that is damaged ({error}); save it again") from error


def _read(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    no_body = f"{path} is no soft body; expected a file that SoftBody.save wrote"
    try:
        with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            if not isinstance(file, np.lib.npyio.NpzFile) or str(file.get("format", "")) != FORMAT:
                raise FileError(no_body)
            version = file["version"].item()
            if version != VERSION:
                raise FileError(f"{path} has version {version} of the format, expected {VERSION}; update impinge")
            return {name: file[name] for name in FIELDS}
    except FileError:
        raise
    except KeyError as error:
        raise FileError(f"{path} lacks a part of the soft body ({error.args[0]}); save it again") from error
    except (ValueError, EOFError, zipfile.BadZipFile, AttributeError, TypeError) as error:
        raise FileError(no_body) from error
    except OSError as error:
        raise FileError(f"{path} cannot be read ({error.strerror or error}); check the path") from error


def restored(content: dict[str, NDArray[Any]]) -> SoftBody:
    """Make the body that ``content_of`` told of."""
    from impinge.bodies.soft_body import SoftBody
    from impinge.mesh.tet_mesh import TetMesh
    from impinge.mesh.tri_mesh import TriMesh

    surface = TriMesh(content["surface_rest"], content["faces"])
    surface.remove_triangles(~content["alive"])
    body = SoftBody(
        surface,
        TetMesh(content["coarse_rest"], content["tets"]),
        material=Material(*content["material"].tolist()),
        model=str(content["model"]),
        embedding=str(content["embedding"]),  # type: ignore[arg-type]  # checked there
        fixed=content["fixed"],
    )
    body.move(content["moved"], content["motion"])
    body.restore(
        content["coarse"], content["surface"], content["frames"], content["velocities"], float(content["time"])
    )
    body.prepared = str(content["prepared"])
    return body
