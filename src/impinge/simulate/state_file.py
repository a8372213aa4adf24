"""State of a simulation in one file: plain arrays in an npz archive, no pickle, bit-identical when read again.

Contents: time, frame number, work, warm start of contacts, loaded pairs of features, pairs that wait for a query, quiet
times of bodies and the contacts they rest on, positions and velocities of soft bodies with the state of their
embedding, and positions of scripted bodies. Bodies, options and motions are not stored: build the same simulation again
and call ``restore``.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats, as_path, shown
from impinge.deform.rigid_links import RigidLinks
from impinge.errors import FileError, OptionError
from impinge.io.atomic import write_whole
from impinge.io.npz import read_npz
from impinge.respond.contact_forces import (
    COLUMNS,
    ContactConstraints,
    ContactFeatures,
    SparseRows,
    WarmStart,
    unknown_features,
)
from impinge.simulate.contact.pairs import SPLIT, Pairs, no_pairs
from impinge.simulate.contact_record import ContactRows
from impinge.simulate.frame import Clock, RestingContacts
from impinge.simulate.simulated_bodies import DynamicBody, SimulatedBody
from impinge.simulate.simulated_contacts import ContactVertices

FORMAT = "impinge simulation"
VERSION = 5
"""Increases with every incompatible change of the format."""
SOFT = ("coarse", "surface", "frames", "velocities", "time")
SCRIPTED = ("surface",)
VECTORS = ("point", "normal_force", "friction_force", "normal")
"""Columns of resting contacts with three numbers each."""
WARM_START = ("key", "push", "rub", "depth")
"""Keys of the fields of ``WarmStart`` in a file."""


class State(NamedTuple):
    """Everything that a resumed run needs."""

    clock: Clock
    warm_start: WarmStart
    last: ContactConstraints
    """Constraints of the last search with current depths; empty without a search budget."""
    pairs: Pairs
    """Loaded contacts of the last step; empty without response="contact"."""
    waiting: NDArray[np.int64]
    """Pairs of bodies that it skipped, shape (k, 2)."""
    resting: RestingContacts | None
    """Contacts of a world in which all bodies sleep."""
    quiet: Floats
    """Quiet time of each body [s], by body number."""
    bodies: list[tuple[Any, ...]]
    """Arguments of ``SoftBody.restore`` for soft bodies, vertices for scripted ones."""
    particles: dict[str, NDArray[Any]]
    """Argument of ``Particles.restore``; empty without particles."""


def _arrays(state: State, bodies: list[SimulatedBody]) -> dict[str, NDArray[Any]]:
    """Convert a state to named arrays."""
    content: dict[str, Any] = {
        "time": state.clock.time,
        "frame": state.clock.frame,
        "work": state.clock.work,
        "names": [body.name for body in bodies],
        "quiet": state.quiet,
        "waiting": state.waiting,
        **{f"last_{name}": value for name, value in _constraint_arrays(state.last).items()},
        **{f"pair_{name}": value for name, value in state.pairs._asdict().items()},
        **{f"particle_{name}": value for name, value in state.particles.items()},
        **{f"memory_{name}": value for name, value in zip(WARM_START, state.warm_start)},
        **({} if state.resting is None else _resting_arrays(state.resting)),
    }
    for body, values in zip(bodies, state.bodies):
        names = SOFT if isinstance(body, DynamicBody) else SCRIPTED
        content |= {f"{name}_{body.number}": value for name, value in zip(names, values) if value is not None}
    return {name: np.array(value) for name, value in content.items()}


def _constraint_arrays(constraints: ContactConstraints) -> dict[str, NDArray[Any]]:
    """Named arrays of constraints; files call the Jacobians ``push`` (normal) and ``slide`` (slip)."""
    jacobians = {"push": constraints.normal_jacobian, "slide": constraints.slip_jacobian}
    arrays = {f"{name}_{field}": value for name, rows in jacobians.items() for field, value in rows._asdict().items()}
    features = unknown_features(len(constraints)) if constraints.features is None else constraints.features
    return arrays | _rows_arrays(features) | {name: getattr(constraints, name) for name in COLUMNS}


def _rows_arrays(rows: ContactFeatures | ContactRows) -> dict[str, NDArray[Any]]:
    """Named columns, and those of the surface vertices."""
    arrays = {name: value for name, value in rows._asdict().items() if name != "vertices"}
    return arrays | {f"surface_{name}": value for name, value in rows.vertices._asdict().items()}


def _columns_of(rows: type[ContactFeatures | ContactRows]) -> list[str]:
    """Fields with one entry per contact."""
    return [name for name in rows._fields if name != "vertices"]


def _resting_arrays(resting: RestingContacts) -> dict[str, Any]:
    """Named arrays of resting contacts."""
    numbers = {name: value for name, value in resting._asdict().items() if name != "rows"}
    return {f"resting_{name}": value for name, value in (numbers | _rows_arrays(resting.rows)).items()}


def _sparse_rows(content: dict[str, NDArray[Any]], prefix: str) -> SparseRows:
    return SparseRows(*(content[f"{prefix}_{field}"] for field in SparseRows._fields))


def _constraints(content: dict[str, NDArray[Any]]) -> ContactConstraints:
    columns = {name: content[f"last_{name}"] for name in _columns_of(ContactFeatures)}
    return ContactConstraints(
        _sparse_rows(content, "last_push"), _sparse_rows(content, "last_slide"),
        features=ContactFeatures(**columns, vertices=_sparse_rows(content, "last_surface")),
        **{name: content[f"last_{name}"] for name in COLUMNS},
    )  # fmt: skip


def _resting(content: dict[str, NDArray[Any]]) -> RestingContacts | None:
    if "resting_torque" not in content:
        return None
    columns = {name: content[f"resting_{name}"] for name in _columns_of(ContactRows)}
    vertices = ContactVertices(*(content[f"resting_surface_{field}"] for field in ContactVertices._fields))
    return RestingContacts(
        ContactRows(**columns, vertices=vertices),
        float(content["resting_deepest"]), float(content["resting_contact"]), content["resting_impulse_rate"],
        content["resting_torque"],
    )  # fmt: skip


def write(state: State, bodies: list[SimulatedBody], path: str | os.PathLike[str]) -> None:
    """Write a state atomically: an existing file is replaced only by a complete one."""
    target = as_path(path, "path", "a file name")
    if not target.name:
        raise OptionError(f"path is {shown(path)}, expected a file name")
    named: dict[str, Any] = {"format": FORMAT, "version": VERSION, **_arrays(state, bodies)}
    try:
        write_whole(target, lambda file: np.savez(file, **named))
    except OSError as error:
        raise FileError(f"{path} cannot be written ({error.strerror}); choose another path") from error


def read(path: str | os.PathLike[str], bodies: list[SimulatedBody]) -> State:
    """Read a state of ``bodies``; raise ``FileError`` if the file is invalid or of other bodies."""
    content = _load(path)
    try:
        _check_bodies(content, bodies, path)
        state = _state(content, bodies)
        coarse_count = sum(len(body.x) for body in bodies if isinstance(body, DynamicBody))
        _check_arrays(state, len(bodies), coarse_count, max((len(body.area) for body in bodies), default=0))
    except FileError:
        raise
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise FileError(f"{path} is a damaged simulation state ({error}); save it again") from error
    return state


def _state(content: dict[str, NDArray[Any]], bodies: list[SimulatedBody]) -> State:
    warm_start = WarmStart(*(content[f"memory_{name}"] for name in WARM_START))
    clock = Clock(float(content["time"]), int(content["frame"]), float(content["work"]))
    values = [
        tuple(content.get(f"{name}_{body.number}") for name in (SOFT if isinstance(body, DynamicBody) else SCRIPTED))
        for body in bodies
    ]
    prefix = "particle_"
    particles = {name.removeprefix(prefix): value for name, value in content.items() if name.startswith(prefix)}
    pairs = Pairs(*(content[f"pair_{name}"] for name in Pairs._fields))
    return State(
        clock, warm_start, _constraints(content), pairs, content["waiting"], _resting(content), content["quiet"],
        values, particles,
    )  # fmt: skip


def _check_arrays(state: State, body_count: int, coarse_count: int, surface_count: int) -> None:
    """Raise ``ValueError`` for inconsistent shapes and for values that are not finite."""
    warm_start, last, count = state.warm_start, state.last, len(state.last.depth)
    shapes: dict[str, tuple[NDArray[Any], tuple[int, ...]]] = {
        "time or work": (np.array([state.clock.time, state.clock.work]), (2,)),
        "quiet": (state.quiet, (body_count,)),
        "waiting": (state.waiting, (len(state.waiting), 2)),
        "memory_push": (warm_start.normal_force, warm_start.key.shape),
        "memory_rub": (warm_start.friction_force, (*warm_start.key.shape, 3)),
        "memory_depth": (warm_start.depth, warm_start.key.shape),
        **{f"last_{name}": (getattr(last, name), (count,)) for name in COLUMNS if name not in ("normal", "drive")},
        "last_normal": (last.normal, (count, 3)),
        "last_drive": (last.drive, (count, 3)),
    }
    for number, values in enumerate(state.bodies):
        shapes |= {f"body_{number}_{k}": (v, v.shape) for k, v in enumerate(values) if v is not None}
    _check_pairs(state.pairs, [len(values[0 if len(values) == 1 else 1]) for values in state.bodies])
    _check_rows("last_push", last.normal_jacobian, (count, coarse_count), (3,))
    _check_rows("last_slide", last.slip_jacobian, (count, coarse_count), (3, 3))
    numbers = [state.waiting.reshape(-1), last.body_a, last.body_b]
    if last.features is not None:
        shapes |= {f"last_{name}": (getattr(last.features, name), (count,)) for name in _columns_of(ContactFeatures)}
        _check_rows("last_surface", last.features.vertices, (count, surface_count), ())
    if state.resting is not None:
        resting, vertices = state.resting, state.resting.rows.vertices
        count = len(resting.rows.gap)
        shapes |= {
            "resting energies": (np.array([resting.deepest, resting.contact]), (2,)),
            "resting_impulse_rate": (resting.impulse_rate, (body_count + 1, 3)),
            "resting_torque": (resting.torque, (body_count, 3)),
        }
        for name in _columns_of(ContactRows):
            shapes[f"resting_{name}"] = getattr(resting.rows, name), ((count, 3) if name in VECTORS else (count,))
        _check_rows("resting_surface", SparseRows(*vertices[:3]), (count, surface_count), ())
        shapes["resting_surface_area"] = vertices.area, vertices.weight.shape
        numbers += [resting.rows.body_a, resting.rows.body_b]
    for name, (value, shape) in shapes.items():
        if value.shape != shape:
            raise ValueError(f"{name} has shape {value.shape}, expected {shape}")
        is_valid = np.isfinite(value) | (name == "last_wall") & (value > 0.0)
        if value.dtype.kind not in "biuf" or not is_valid.all():
            raise ValueError(f"{name} contains values that are not finite numbers")
    if not ((state.waiting >= 0).all() and all(((each >= -1) & (each < body_count)).all() for each in numbers)):
        raise ValueError("waiting, body_a or body_b contains numbers beyond the bodies")


def _check_rows(name: str, rows: SparseRows, shape: tuple[int, int], size: tuple[int, ...]) -> None:
    """Raise ``ValueError`` if sparse rows do not fit a matrix of this shape with entries of this size."""
    (count, most), (start, vertex, weight) = shape, rows
    if start.dtype != np.int64 or vertex.dtype != np.int64 or start.shape != (count + 1,):
        raise ValueError(f"{name}_start and {name}_vertex are no int64, or {name}_start has not {count + 1} entries")
    if start[0] or (np.diff(start) < 0).any():
        raise ValueError(f"{name}_start does not rise from 0")
    if vertex.shape != (start[-1],) or weight.shape != (start[-1], *size):
        raise ValueError(f"{name}_vertex or {name}_weight has another length than {name}_start says")
    if not ((vertex >= 0) & (vertex < most)).all():
        raise ValueError(f"{name}_vertex contains ids beyond the vertices")
    if weight.dtype.kind != "f" or not np.isfinite(weight).all():
        raise ValueError(f"{name}_weight contains values that are not finite numbers")


def _check_pairs(pairs: Pairs, vertex_counts: list[int]) -> None:
    """Raise ``ValueError`` for inconsistent pairs of features, and for vertices beyond those of their bodies."""
    empty, count = no_pairs(), len(pairs.kind)
    for name, value, expected in zip(Pairs._fields, list[NDArray[Any]](pairs), list[NDArray[Any]](empty)):
        if value.dtype != expected.dtype or value.shape != (count, *expected.shape[1:]):
            raise ValueError(f"pair_{name} has shape {value.shape} or another type of numbers")
        if not np.isfinite(value).all():
            raise ValueError(f"pair_{name} contains values that are not finite numbers")
    if not (np.isin(pairs.kind, (0, 1, 2)) & (pairs.body_a >= 0) & (pairs.body_a <= pairs.body_b)).all():
        raise ValueError("pair_kind or pair_body_a is not valid")
    if count and not pairs.body_b.max() < len(vertex_counts):
        raise ValueError("pair_body_b contains ids beyond the bodies")
    first = np.arange(4) < SPLIT[pairs.kind][:, None]
    most = np.array(vertex_counts, dtype=np.int64)[np.where(first, pairs.body_a[:, None], pairs.body_b[:, None])]
    if not ((pairs.vertices >= 0) & (pairs.vertices < most)).all():
        raise ValueError("pair_vertices contains ids beyond the vertices")


def _load(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    path = as_path(path, "path", "a file name")
    no_state = f"{path} is not a simulation state; expected a file from Simulation.save"
    try:
        content = read_npz(path)
        if str(content.get("format", "")) != FORMAT:
            raise FileError(no_state)
        version = content["version"].item()
        if version != VERSION:
            remedy = "update impinge" if version > VERSION else "run the simulation again from the start"
            raise FileError(f"{path} has format version {version}, expected {VERSION}; {remedy}")
    except FileError:
        raise
    except (ValueError, AttributeError, TypeError, KeyError) as error:
        raise FileError(no_state) from error
    except OSError as error:
        raise FileError(f"{path} cannot be read ({error.strerror or error}); check the path") from error
    return content


def restore_bodies(state: State, bodies: list[SimulatedBody]) -> None:
    """Return bodies to a saved state."""
    for body, values in zip(bodies, state.bodies):
        if isinstance(body, DynamicBody):
            coarse, surface, frames, velocities, time = values
            body.source.restore(coarse, surface, frames, velocities, float(time))
        elif not np.array_equal(body.surface.vertices, values[0]) and not body.is_steered:
            body.source.update(values[0])


def _check_bodies(content: dict[str, NDArray[Any]], bodies: list[SimulatedBody], path: str | os.PathLike[str]) -> None:
    """Raise ``FileError`` for states of other bodies, before anything changes."""
    saved_names, names = content["names"].tolist(), [body.name for body in bodies]
    if saved_names != names:
        raise FileError(
            f"{path} holds the bodies {', '.join(map(repr, saved_names)) or 'none'}, but the world has "
            f"{', '.join(map(repr, names)) or 'none'}; build the same simulation again"
        )
    for body in bodies:
        now = body.source.surface.vertices if isinstance(body, DynamicBody) else body.surface.vertices
        saved = content[f"surface_{body.number}"]
        if saved.shape != now.shape or (isinstance(body, DynamicBody) and not _matches(content, body)):
            raise FileError(
                f"{path} holds a different body {body.name!r}: {len(saved)} surface vertices, expected {len(now)}, or "
                "other coarse vertices or links; build the same simulation again"
            )


def _matches(content: dict[str, NDArray[Any]], body: DynamicBody) -> bool:
    """Whether the saved coarse state has the shapes of ``body``."""
    x, v, frames = (content.get(f"{name}_{body.number}") for name in ("coarse", "velocities", "frames"))
    links = body.source.embedding.frames if isinstance(body.source.embedding, RigidLinks) else None
    if links is None or frames is None:
        same = links is frames
    else:
        same = links.shape == frames.shape
    if x is None or v is None or content[f"time_{body.number}"].shape != ():
        return False
    return same and x.shape == v.shape == body.x.shape
