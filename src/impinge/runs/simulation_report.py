"""The report of ``impinge simulate``: numbers over time, pictures of three moments, a recording, how to repeat it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from impinge.checks import Floats
from impinge.mesh.tri_mesh import TriMesh
from impinge.runs.simulation_run import SimulationRun
from impinge.view.labels import counted
from impinge.view.picture import BODY_COLOURS, EDGES_BELOW, contact_items
from impinge.view.rendering import DEFAULT_CAMERA, Camera, DrawItem, Pixels, render, render_views
from impinge.view.report import Page, Tone
from impinge.world.world import World

RECORDED = 48
"""Pictures of the recording at most."""
SIZE = (640, 480)
SWING = 60.0
"""Degrees by which the recording turns about the scene, so that depth is to be seen."""
CHARTS = (
    ("contacts", "contacts that push"),
    ("deepest", "deepest contact [m]"),
    ("kinetic", "kinetic energy [J]"),
    ("elastic", "elastic energy [J]"),
)

Rows = list[tuple[str, Any]]


def found_in_words(run: SimulationRun) -> Rows:
    """What happened, a line each."""
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
        ("fastest at the end", f"{table['fastest'][-1]:.3g} m/s"),
    ]
    if not table["complete"].all():
        rows.append(
            ("cut short", f"too little time to look for all contacts in {int((table['complete'] == 0).sum()):,} frames")
        )
    timings = run.timings()
    if np.isfinite(timings).any():
        rows.append(("time per frame", f"{np.nanmedian(timings):.1f} ms (median)"))
    return rows


def simulation_report(run: SimulationRun, *, title: str, asked: Sequence[tuple[str, Any]], command: str) -> Page:
    """One page about a run."""
    table = run.table()
    page = Page(title)
    page.verdict(_sentence(table, run.frame_count), _tone(table))
    page.section("What was asked")
    page.facts(asked)
    page.section("What happened")
    page.facts(found_in_words(run))
    page.animation(list(recording(run)), "the whole run")
    page.section("Moments")
    most = int(np.argmax(table["contacts"])) + 1 if run.frame_count else 0
    for frame, words in {0: "at first", most: "with the most contacts", run.frame_count: "at the end"}.items():
        contacts = _world(run, frame).contacts()
        found = counted(len(contacts), "vertex or pair of triangles", "vertices or pairs of triangles")
        caption = f"{words}: frame {frame}, {found} in contact"
        if frame == most and len(contacts):
            page.views(contact_items(contacts), caption)
        else:
            page.picture(render(contact_items(contacts), caption), caption)
    if run.frame_count:
        page.section("Over time")
        for column, up in CHARTS:
            page.chart(table[column], at=table["frame"], across="frame", up=up)
        page.chart(run.timings(), at=table["frame"], across="frame", up="milliseconds that a frame took")
    page.section("How to repeat it")
    page.command(command)
    return page


def _sentence(table: dict[str, Any], frames: int) -> str:
    """What happened, and whether all contacts were looked for."""
    if not frames:
        return "Nothing was simulated: these are the bodies as they are at first."
    touched = int((table["contacts"] > 0).sum())
    met = f"The bodies were in contact in {touched:,} of {counted(frames, 'frame')}" if touched else "Nothing met"
    deep = f", at most {table['deepest'].max():.3g} m deep" if touched else ""
    short = int((table["complete"] == 0).sum())
    sure = (
        f"In {counted(short, 'frame')} there was no time to look for all contacts."
        if short
        else ("All contacts were looked for in every frame.")
    )
    return f"{met}{deep}. {sure}"


def _tone(table: dict[str, Any]) -> Tone:
    return "plain" if table["complete"].all() else "unsure"


def _world(run: SimulationRun, frame: int) -> World:
    world = World()
    for name, x, faces in zip(run.names, run.positions(frame), run.faces):
        world.add(TriMesh(x, faces, validate="trust"), name=name)
    return world


def recording(run: SimulationRun) -> Iterator[Pixels]:
    """Frames spread evenly over the run, all with the same part of space in view, which turns a little."""
    frames = np.unique(np.linspace(0, run.frame_count, RECORDED).astype(int))
    bounds = [bound for frame in frames for x in run.positions(frame) for bound in (x.min(axis=0), x.max(axis=0))]
    low, high = np.min(bounds, axis=0), np.max(bounds, axis=0)
    everything = DrawItem("", _outline(low, high), "#ffffff", 0.0, False)
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


def _outline(low: Floats, high: Floats) -> Floats:
    """The diagonal of a box, as a triangle without area."""
    return np.stack([low, high, high])[None]
