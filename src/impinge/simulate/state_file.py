"""State of a simulation in one file: plain arrays in an npz archive, no pickle, bit-identical when read again.

Contents: time, frame number, work, warm start of contacts, pairs that wait for a query, quiet times of bodies and the
contacts they rest on, positions and velocities of soft bodies with the state of their embedding, and positions of
scripted bodies. Bodies, options and motions are not stored: build the same simulation again and call ``restore``.
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
from impinge.respond.contact_forces import COLUMNS, ContactConstraints, SparseRows, WarmStart
from impinge.simulate.frame import Clock, RestingContacts
from impinge.simulate.simulated_bodies import DynamicBody, SimulatedBody

FORMAT = "impinge simulation"
VERSION = 3
"""Increases with every incompatible change of the format."""
SOFT = ("coarse", "surface", "frames", "velocities", "time")
SCRIPTED = ("surface",)
WARM_START = ("key", "push", "rub", "depth")
"""Keys of the fields of ``WarmStart`` in a file."""


class State(NamedTuple):
    """Everything that a resumed run needs."""

    clock: Clock
    warm_start: WarmStart
    last: ContactConstraints
    """Constraints of the last search with current depths; empty without a search budget."""
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
        **{f"particle_{name}": value for name, value in state.particles.items()},
        **{f"memory_{name}": value for name, value in zip(WARM_START, state.warm_start)},
        **({f"resting_{name}": value for name, value in state.resting._asdict().items()} if state.resting else {}),
    }
    for body, values in zip(bodies, state.bodies):
        names = SOFT if isinstance(body, DynamicBody) else SCRIPTED
        content |= {f"{name}_{body.number}": value for name, value in zip(names, values) if value is not None}
    return {name: np.array(value) for name, value in content.items()}


def _constraint_arrays(constraints: ContactConstraints) -> dict[str, NDArray[Any]]:
    """Named arrays of constraints; files call the Jacobians ``push`` (normal) and ``slide`` (slip)."""
    jacobians = {"push": constraints.normal_jacobian, "slide": constraints.slip_jacobian}
    arrays = {f"{name}_{field}": value for name, rows in jacobians.items() for field, value in rows._asdict().items()}
    return arrays | {name: getattr(constraints, name) for name in COLUMNS}


def _constraints(content: dict[str, NDArray[Any]]) -> ContactConstraints:
    normal_jacobian, slip_jacobian = (
        SparseRows(*(content[f"last_{name}_{field}"] for field in SparseRows._fields)) for name in ("push", "slide")
    )
    return ContactConstraints(normal_jacobian, slip_jacobian, **{name: content[f"last_{name}"] for name in COLUMNS})


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
        _check_arrays(state, len(bodies), sum(len(body.x) for body in bodies if isinstance(body, DynamicBody)))
    except FileError:
        raise
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise FileError(f"{path} is a damaged simulation state ({error}); save it again") from error
    return state


def _state(content: dict[str, NDArray[Any]], bodies: list[SimulatedBody]) -> State:
    resting = None
    if "resting_contacts" in content:
        resting = RestingContacts(
            int(content["resting_contacts"]), float(content["resting_deepest"]), float(content["resting_contact"]),
            content["resting_impulse_rate"],
        )  # fmt: skip
    warm_start = WarmStart(*(content[f"memory_{name}"] for name in WARM_START))
    clock = Clock(float(content["time"]), int(content["frame"]), float(content["work"]))
    values = [
        tuple(content.get(f"{name}_{body.number}") for name in (SOFT if isinstance(body, DynamicBody) else SCRIPTED))
        for body in bodies
    ]
    prefix = "particle_"
    particles = {name.removeprefix(prefix): value for name, value in content.items() if name.startswith(prefix)}
    return State(
        clock, warm_start, _constraints(content), content["waiting"], resting, content["quiet"], values, particles,
    )  # fmt: skip


def _check_arrays(state: State, body_count: int, coarse_count: int) -> None:
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
    if state.resting is not None:
        shapes["resting_impulse_rate"] = (state.resting.impulse_rate, (body_count + 1, 3))
    for rows, size in ((last.normal_jacobian, (3,)), (last.slip_jacobian, (3, 3))):
        if (
            any(x.dtype != np.int64 for x in (rows.start, rows.vertex))
            or rows.start[0]
            or (np.diff(rows.start) < 0).any()
        ):
            raise ValueError("last_start and last_vertex are no int64, or last_start does not rise from 0")
        entries = int(rows.start[-1])
        shapes |= {"last_start": (rows.start, (count + 1,)), "last_vertex": (rows.vertex, (entries,))}
        shapes["last_weight"] = (rows.weight, (entries, *size))
        if not ((rows.vertex >= 0) & (rows.vertex < coarse_count)).all():
            raise ValueError("last_vertex contains ids beyond the coarse vertices")
        for name, (value, shape) in shapes.items():
            if value.shape != shape:
                raise ValueError(f"{name} has shape {value.shape}, expected {shape}")
            if value.dtype.kind not in "biuf" or not np.isfinite(value).all():
                raise ValueError(f"{name} contains values that are not finite numbers")
    if not ((state.waiting >= 0) & (state.waiting < body_count)).all():
        raise ValueError("waiting contains ids beyond the bodies")


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
