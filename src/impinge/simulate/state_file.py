"""The state of a simulation in one file: plain arrays in an npz, no pickle, the same bits when read again.

What a run needs to go on: time, number of the frame, work, what contacts remember, which bodies wait for a search, how
long bodies have been at rest and what they rest on, positions and velocities of soft bodies with what their embedding
remembers, and positions of given bodies. Bodies, options and motions are not in it: make the same simulation again and
``restore`` it.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from impinge.checks import Floats, shown
from impinge.deform.rigid_links import RigidLinks
from impinge.errors import FileError
from impinge.io.atomic import write_whole
from impinge.respond.contact_forces import COLUMNS, ContactRows, Memory, Sums
from impinge.simulate.frame import Clock, Resting
from impinge.simulate.simulated_bodies import Part, SoftPart

FORMAT = "impinge simulation"
VERSION = 3
"""Grows when a file cannot be read by the code before."""
SOFT = ("coarse", "surface", "frames", "velocities", "time")
GIVEN = ("surface",)


class State(NamedTuple):
    """All that a run needs to go on."""

    clock: Clock
    memory: Memory
    last: ContactRows
    """Contacts as the last search left them; none where searches have no limits."""
    waiting: NDArray[np.int64]
    """Pairs of bodies that it had no time for, shape (k, 2)."""
    resting: Resting | None
    quiet: Floats
    """Seconds that bodies have been at rest, by number."""
    kept: list[tuple[Any, ...]]
    """Of soft bodies what ``SoftBody.restore`` takes, of others their vertices."""
    particles: dict[str, NDArray[Any]]
    """What ``Particles.put_back`` takes; empty if there are none."""


def _content_of(state: State, parts: list[Part]) -> dict[str, NDArray[Any]]:
    """A state as plain arrays."""
    content: dict[str, Any] = {
        "time": state.clock.time,
        "frame": state.clock.frame,
        "work": state.clock.work,
        "names": [part.name for part in parts],
        "quiet": state.quiet,
        "waiting": state.waiting,
        **{f"last_{name}": value for name, value in _arrays_of(state.last).items()},
        **{f"particle_{name}": value for name, value in state.particles.items()},
        **{f"memory_{name}": value for name, value in state.memory._asdict().items()},
        **({f"resting_{name}": value for name, value in state.resting._asdict().items()} if state.resting else {}),
    }
    for part, kept in zip(parts, state.kept):
        names = SOFT if isinstance(part, SoftPart) else GIVEN
        content |= {f"{name}_{part.number}": value for name, value in zip(names, kept) if value is not None}
    return {name: np.array(value) for name, value in content.items()}


def _arrays_of(rows: ContactRows) -> dict[str, NDArray[Any]]:
    sums = {"push": rows.push, "slide": rows.slide}
    split = {f"{name}_{part}": value for name, each in sums.items() for part, value in each._asdict().items()}
    return split | {name: getattr(rows, name) for name in COLUMNS}


def _rows_of(content: dict[str, NDArray[Any]]) -> ContactRows:
    push, slide = (Sums(*(content[f"last_{name}_{part}"] for part in Sums._fields)) for name in ("push", "slide"))
    return ContactRows(push=push, slide=slide, **{name: content[f"last_{name}"] for name in COLUMNS})


def write(state: State, parts: list[Part], path: str | os.PathLike[str]) -> None:
    """Write a state; a file of that name is replaced only when the new one is whole."""
    try:
        target = Path(path)
        if not target.name:
            raise ValueError("the path has no file name")
    except (TypeError, ValueError) as error:
        raise FileError(f"path is {shown(path)}, expected the name of a file") from error
    named: dict[str, Any] = {"format": FORMAT, "version": VERSION, **_content_of(state, parts)}
    try:
        write_whole(target, lambda file: np.savez(file, **named))
    except OSError as error:
        raise FileError(f"{path} cannot be written ({error.strerror}); choose another place") from error


def read(path: str | os.PathLike[str], parts: list[Part]) -> State:
    """Read a state of these bodies, or say what is wrong with the file."""
    content = _read(path)
    try:
        _check(content, parts, path)
        state = _state_of(content, parts)
        _check_numbers(state, len(parts), sum(len(part.x) for part in parts if isinstance(part, SoftPart)))
    except FileError:
        raise
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise FileError(f"{path} is a damaged state of a simulation ({error}); save it again") from error
    return state


def _state_of(content: dict[str, NDArray[Any]], parts: list[Part]) -> State:
    resting = None
    if "resting_contacts" in content:
        resting = Resting(
            int(content["resting_contacts"]), float(content["resting_deepest"]), float(content["resting_contact"]),
            content["resting_impulse_rate"],
        )  # fmt: skip
    key, push, rub, depth = (content[f"memory_{name}"] for name in ("key", "push", "rub", "depth"))
    memory = Memory(key, push, rub, depth)
    clock = Clock(float(content["time"]), int(content["frame"]), float(content["work"]))
    kept = [
        tuple(content.get(f"{name}_{part.number}") for name in (SOFT if isinstance(part, SoftPart) else GIVEN))
        for part in parts
    ]
    particles = {name[9:]: value for name, value in content.items() if name.startswith("particle_")}
    return State(
        clock, memory, _rows_of(content), content["waiting"], resting, content["quiet"], kept, particles,
    )  # fmt: skip


def _check_numbers(state: State, body_count: int, coarse_count: int) -> None:
    """Refuse arrays that do not belong together."""
    memory, last, count = state.memory, state.last, len(state.last.depth)
    shapes: dict[str, tuple[NDArray[Any], tuple[int, ...]]] = {
        "time or work": (np.array([state.clock.time, state.clock.work]), (2,)),
        "quiet": (state.quiet, (body_count,)),
        "waiting": (state.waiting, (len(state.waiting), 2)),
        "memory_push": (memory.push, memory.key.shape),
        "memory_rub": (memory.rub, (*memory.key.shape, 3)),
        "memory_depth": (memory.depth, memory.key.shape),
        **{f"last_{name}": (getattr(last, name), (count,)) for name in COLUMNS if name not in ("normal", "drive")},
        "last_normal": (last.normal, (count, 3)),
        "last_drive": (last.drive, (count, 3)),
    }
    for number, values in enumerate(state.kept):
        shapes |= {f"body_{number}_{k}": (v, v.shape) for k, v in enumerate(values) if v is not None}
    if state.resting is not None:
        shapes["resting_impulse_rate"] = (state.resting.impulse_rate, (body_count + 1, 3))
    for sums, size in ((last.push, (3,)), (last.slide, (3, 3))):
        entries = int(sums.start[-1])
        shapes |= {"last_start": (sums.start, (count + 1,)), "last_vertex": (sums.vertex, (entries,))}
        shapes["last_weight"] = (sums.weight, (entries, *size))
        if not ((sums.vertex >= 0) & (sums.vertex < coarse_count)).all():
            raise ValueError("last_vertex names vertices that do not exist")
        for name, (value, shape) in shapes.items():
            if value.shape != shape:
                raise ValueError(f"{name} has shape {value.shape}, expected {shape}")
            if value.dtype.kind not in "biuf" or not np.isfinite(value).all():
                raise ValueError(f"{name} holds what is no finite number")
    if not ((state.waiting >= 0) & (state.waiting < body_count)).all():
        raise ValueError("waiting names bodies that do not exist")


def _read(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    no_state = f"{path} is no state of a simulation; expected a file that Simulation.save wrote"
    try:
        with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            if not isinstance(file, np.lib.npyio.NpzFile) or str(file.get("format", "")) != FORMAT:
                raise FileError(no_state)
            version = file["version"].item()
            if version != VERSION:
                remedy = "update impinge" if version > VERSION else "run it again from the start"
                raise FileError(f"{path} has version {version} of the format, expected {VERSION}; {remedy}")
            return {name: file[name] for name in file.files}
    except FileError:
        raise
    except (ValueError, EOFError, zipfile.BadZipFile, AttributeError, TypeError, KeyError) as error:
        raise FileError(no_state) from error
    except OSError as error:
        raise FileError(f"{path} cannot be read ({error.strerror or error}); check the path") from error


def put_back(state: State, parts: list[Part]) -> None:
    """Bring bodies to where they were."""
    for part, kept in zip(parts, state.kept):
        if isinstance(part, SoftPart):
            coarse, surface, frames, velocities, time = kept
            part.body.restore(coarse, surface, frames, velocities, float(time))
        elif not np.array_equal(part.surface.vertices, kept[0]) and not part.is_steered:
            part.body.update(kept[0])


def _check(content: dict[str, NDArray[Any]], parts: list[Part], path: str | os.PathLike[str]) -> None:
    """Refuse states of other bodies before anything is changed."""
    kept, names = content["names"].tolist(), [part.name for part in parts]
    if kept != names:
        raise FileError(
            f"{path} holds the bodies {', '.join(map(repr, kept)) or 'none'}, but the world has "
            f"{', '.join(map(repr, names)) or 'none'}; make the same simulation again"
        )
    for part in parts:
        now = part.body.surface.vertices if isinstance(part, SoftPart) else part.surface.vertices
        saved = content[f"surface_{part.number}"]
        if saved.shape != now.shape or (isinstance(part, SoftPart) and not _is_of(content, part)):
            raise FileError(
                f"{path} holds another body named {part.name!r}, of {len(saved)} surface vertices where this one has "
                f"{len(now)}, or with other coarse vertices or links; make the same simulation again"
            )


def _is_of(content: dict[str, NDArray[Any]], part: SoftPart) -> bool:
    """Whether the coarse state is one of this body."""
    x, v, frames = (content.get(f"{name}_{part.number}") for name in ("coarse", "velocities", "frames"))
    links = part.body.embedding.frames if isinstance(part.body.embedding, RigidLinks) else None
    if links is None or frames is None:
        same = links is frames
    else:
        same = links.shape == frames.shape
    there = x is not None and v is not None and content[f"time_{part.number}"].shape == ()
    return same and there and x.shape == v.shape == part.x.shape  # type: ignore[union-attr]
