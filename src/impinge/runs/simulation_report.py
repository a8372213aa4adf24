"""The report of ``impinge simulate``: charts over time, pictures of three frames, a recording, the command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from impinge.checks import Floats
from impinge.mesh.tri_mesh import TriMesh
from impinge.runs.reports import add_picture
from impinge.runs.simulation_run import SimulationRun
from impinge.view.labels import counted
from impinge.view.picture import BODY_COLOURS, EDGES_BELOW, contact_items, surface_of
from impinge.view.pressure import largest_pressure, pressure_items
from impinge.view.rendering import DEFAULT_CAMERA, Camera, DrawItem, Pixels, render_views
from impinge.view.report import Page
from impinge.world.world import World

Quantity: TypeAlias = Literal["force", "torque"]
QUANTITIES: dict[Quantity, str] = {"force": "N", "torque": "N m"}
"""What contacts do to each body, and its unit."""
MOST_BODIES = 8
"""Bodies whose forces and torques are drawn."""
RECORDED = 48
"""Most pictures of a recording."""
SIZE = (640, 480)
SWING = 60.0
"""Rotation of the camera during a recording [degrees], which shows depth."""
CHARTS = (
    ("contacts", "active contacts"),
    ("deepest", "deepest contact [m]"),
    ("kinetic", "kinetic energy [J]"),
    ("elastic", "elastic energy [J]"),
)

Rows = list[tuple[str, Any]]


def found_in_words(run: SimulationRun) -> Rows:
    """Totals of a run: label and value of each line."""
    table = run.table()
    earlier = f", {run.resumed} of an earlier run" if run.resumed else ""
    rows: Rows = [("bodies", len(run.names)), ("frames", f"{run.frame_count}{earlier}")]
    if not run.frame_count:
        return rows
    most = int(np.argmax(table["contacts"]))
    rows += [
        ("simulated", f"{table['time'][-1]:.4g} s"),
        ("frames with contacts", int((table["contacts"] > 0).sum())),
        ("most contacts", f"{table['contacts'][most]:.0f}, in frame {most + 1}"),
        ("deepest", f"{table['deepest'].max():.3g} m"),
        *_largest_forces(run, table),
        ("fastest at the end", f"{table['fastest'][-1]:.3g} m/s"),
    ]
    if not table["complete"].all():
        rows.append(("incomplete", f"budget exceeded in {int((table['complete'] == 0).sum()):,} frames"))
    warned = np.flatnonzero(table["warnings"])
    if len(warned):
        first = int(warned[0]) + 1
        rows.append(
            ("warnings", f"in {counted(len(warned), 'frame')}; the first, in frame {first}: {run.warnings(first)[0]}")
        )
    timings = run.timings()
    if np.isfinite(timings).any():
        rows.append(("time per frame", f"{np.nanmedian(timings):.1f} ms (median)"))
    return rows


def _largest_forces(run: SimulationRun, table: dict[str, Floats]) -> Rows:
    """The largest contact force on a body, and the force on the ground at the end."""
    rows: Rows = []
    sizes = sizes_of(run, table, "force")
    of_bodies = {name: size for name, size in sizes.items() if name in run.names and size.any()}
    if of_bodies:
        name = max(of_bodies, key=lambda each: float(of_bodies[each].max()))
        frame = int(of_bodies[name].argmax())
        rows.append(("largest force", f"{of_bodies[name][frame]:.4g} N on {name}, in frame {frame + 1}"))
    if run.has_ground:
        down = [float(table[f"force_{axis}:ground"][-1]) for axis in "xyz"]
        rows.append(("ground at the end", f"{np.linalg.norm(down):.4g} N"))
    return rows


def sizes_of(run: SimulationRun, table: dict[str, Floats], quantity: Quantity) -> dict[str, Floats]:
    """Length of the force or torque on each body in each frame; of many bodies, of those with the largest."""
    names = (*run.names, "ground") if quantity == "force" and run.has_ground else run.names
    vectors = {name: np.stack([table[f"{quantity}_{axis}:{name}"] for axis in "xyz"]) for name in names}
    sizes = {name: np.linalg.norm(vector, axis=0) for name, vector in vectors.items()}
    largest = sorted(sizes, key=lambda name: -float(sizes[name].max(initial=0.0)))[:MOST_BODIES]
    return {name: size for name, size in sizes.items() if name in largest}


def simulation_report(run: SimulationRun, *, title: str, inputs: Sequence[tuple[str, Any]], command: str) -> Page:
    """A page with verdict, totals, recording, pictures and charts of a run."""
    table = run.table()
    page = Page(title)
    touched, short = int((table["contacts"] > 0).sum()), int((table["complete"] == 0).sum())
    met = "There were no contacts."
    if touched:
        met = f"The bodies were in contact in {touched:,} of {counted(run.frame_count, 'frame')}"
        deepest = table["deepest"].max()
        met += f", at most {deepest:.3g} m deep." if deepest > 0.0 else ", without penetration."
    sure = f"The budget was exceeded in {counted(short, 'frame')}." if short else "All searches were complete."
    verdict = f"{met} {sure}" if run.frame_count else "Nothing was simulated: these are the initial bodies."
    page.verdict(verdict, "unsure" if short else "plain")
    page.section("Input")
    page.facts(inputs)
    page.section("Result")
    page.facts(found_in_words(run))
    page.animation(list(recording(run)), "the whole run")
    page.section("Moments")
    most = int(np.argmax(table["contacts"])) + 1 if run.frame_count else 0
    for frame, words in {0: "start", most: "most contacts", run.frame_count: "end"}.items():
        world = World()
        for name, x, faces in zip(run.names, run.positions(frame), run.faces):
            world.add(TriMesh(x, faces, validate="trust"), name=name)
        contacts = world.contacts()
        found = counted(len(contacts), "vertex or pair of triangles", "vertices or pairs of triangles")
        caption = f"{words}: frame {frame}, {found} inside another body or crossing it"
        add_picture(page, contact_items(contacts), caption, sides=frame == most and len(contacts) > 0)
        pressures = run.pressure(frame)
        if frame == most and largest_pressure(pressures) > 0.0:
            surfaces = [surface_of(world.surface(name)) for name in run.names]
            caption = f"contact pressure, at most {largest_pressure(pressures):.3g} Pa: frame {frame}"
            add_picture(page, pressure_items(surfaces, pressures, run.names), caption, sides=True)
    if run.frame_count:
        page.section("Over time")
        for column, up in CHARTS:
            page.chart(table[column], at=table["frame"], across="frame", up=up)
        for quantity, unit in QUANTITIES.items():
            for name, size in sizes_of(run, table, quantity).items():
                if size.any():
                    page.chart(size, at=table["frame"], across="frame", up=f"contact {quantity} on {name} [{unit}]")
        page.chart(run.timings(), at=table["frame"], across="frame", up="time per frame [ms]")
    page.section("Command")
    page.command(command)
    return page


def recording(run: SimulationRun) -> Iterator[Pixels]:
    """Pictures of evenly spaced frames in one rotating view that contains all of them."""
    frames = np.unique(np.linspace(0, run.frame_count, RECORDED).astype(int))
    bounds = [bound for frame in frames for x in run.positions(frame) for bound in (x.min(axis=0), x.max(axis=0))]
    low, high = np.min(bounds, axis=0), np.max(bounds, axis=0)
    everything = DrawItem("", np.stack([low, high, high])[None], "#ffffff", 0.0, False)  # keeps the view constant
    for frame in frames:
        turn = SWING * (frame / max(run.frame_count, 1) - 0.5)
        camera = Camera(DEFAULT_CAMERA.azimuth + turn, 18.0, SIZE)
        shown = [x[faces] for x, faces in zip(run.positions(frame), run.faces)]
        items = [
            DrawItem("", np.concatenate(shown[k::2]), colour, 1.0, sum(map(len, shown)) < EDGES_BELOW)
            for k, colour in enumerate(BODY_COLOURS)
            if shown[k::2]
        ]
        yield render_views([*items, everything], "", [camera])[0]
