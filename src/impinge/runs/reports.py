"""Output of a run: progress bar, csv and npz files, html report."""

from __future__ import annotations

import contextlib
import io
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from impinge.errors import FileError
from impinge.io.csv_files import csv_bytes
from impinge.runs.frames import FramesRun, Progress, Run
from impinge.runs.pairs import PAIR_COLUMNS, PairsRun
from impinge.runs.store import write_bytes
from impinge.view.labels import counted, relation_label
from impinge.view.picture import impact_items, impact_label, pair_items
from impinge.view.rendering import DrawItem, render
from impinge.view.report import Page, Tone

WORST = 3
"""Frames or pairs pictured in a report."""
LISTED = 20
"""Rows of a table in a report at most."""
LARGEST_MATRIX = 60
"""Parts in the contact matrix of a report: those with the most contacts."""
FILE_ENDINGS = (".csv", ".npz")
LABELS = {
    "frames": "frames",
    "parts": "parts",
    "near": "near pairs",
    "colliding": "colliding",
    "contacts": "intersecting triangle pairs",
    "self_contacts": "triangle pairs of the body with itself",
    "impacts": "impacts with the other body between frames",
    "self_impacts": "impacts of the body with itself between frames",
    "at_start": "pairs of features that meet at the start of a motion, not counted as impacts",
    "tunnelled": "tunnelled frames",
    "bad": "unreadable",
    "bad_pairs": "unresolved pairs",
}
"""Labels of totals."""


@contextlib.contextmanager
def progress_bar(console: Any, what: str) -> Iterator[Callable[[Progress], None]]:
    """Show progress, rate, contacts and workers on a terminal; yield the callback."""
    from rich import progress
    from rich.table import Column

    columns = (  # on a narrow terminal only the bar shrinks
        progress.TextColumn("{task.description}"), progress.BarColumn(),
        progress.MofNCompleteColumn(table_column=Column(no_wrap=True)),
        progress.TextColumn("{task.fields[speed]}"), progress.TextColumn("{task.fields[found]}"),
        progress.TimeRemainingColumn(table_column=Column(no_wrap=True)),
    )  # fmt: skip
    with progress.Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(what, total=None, speed="", found="")

        def show(state: Progress) -> None:
            seconds = bar.tasks[0].elapsed or 0.0
            speed = (state.done - state.resumed) / seconds if seconds > 0.0 else 0.0
            workers = "" if not state.workers else f", {state.workers} worker{'s' if state.workers > 1 else ''}"
            bad = f", {state.bad} bad" if state.bad else ""
            found = f"{state.contacts:,} contacts{bad}{workers}"
            bar.update(task, completed=state.done, total=state.total, speed=f"{speed:.1f} {what}/s", found=found)

        yield show


def run_folder(target: Path | None) -> Path | None:
    """The folder for shards: ``target`` itself, or one beside a csv or npz file."""
    if target is None or target.suffix.lower() not in FILE_ENDINGS:
        return target
    if not target.parent.is_dir():
        raise FileError(f"{target} cannot be written ({target.parent} is not a folder); choose a folder that exists")
    if target.is_dir():
        raise FileError(f"{target} is a folder, expected the name of a file; choose another")
    return target.with_name(f"{target.name}.run")


# sequences --------------------------------------------------------------------------------------------


def write_frames(run: FramesRun, target: Path) -> None:
    """Write a csv (a row per frame) or npz file (contacts and impacts too) and delete the shards.

    Other endings do nothing.
    """
    frames, contacts, impacts = run.frames(), run.contacts(), run.impacts()

    def arrays() -> dict[str, Any]:
        columns = {f"contact_{name}": _column(contacts, name) for name in ("frame", "is_self", "kind")}
        columns["contact_pair"] = np.stack([_column(contacts, f"triangle_{side}") for side in "ab"], axis=1)
        columns |= {name: frames.column(name).fill_null(-1).to_numpy() for name in ("contacts", "self_contacts")}
        if impacts is not None:
            columns |= {f"impact_{name}": _column(impacts, name) for name in ("frame", "is_self", "kind")}
            for name, of in {"feature": "ab", "vertex": "0123", "time": ("lo", "hi")}.items():
                columns[f"impact_{name}"] = np.stack([_column(impacts, f"{name}_{each}") for each in of], axis=1)
            columns |= {name: frames.column(name).fill_null(-1).to_numpy() for name in ("impacts", "self_impacts")}
            columns["first_impact"] = frames.column("first_impact").fill_null(np.nan).to_numpy()
            columns["tunnelled"] = frames.column("tunnelled").fill_null(False).to_numpy(zero_copy_only=False)
        return columns | {name: _texts(frames, name) for name in ("name", "relation", "error")}

    _write(run, target, frames, arrays)


def _column(table: Any, name: str) -> Any:
    return table.column(name).to_numpy(zero_copy_only=False)


def _texts(table: Any, name: str) -> Any:
    return np.array([each or "" for each in table.column(name).to_pylist()], dtype=np.str_)


def _write(run: Run, target: Path, table: Any, arrays: Callable[[], dict[str, Any]]) -> None:
    """Write ``table`` as csv, or ``arrays`` as npz, and delete the shards."""
    ending = target.suffix.lower()
    if ending not in FILE_ENDINGS:
        return
    if ending == ".csv":
        data = csv_bytes(table.column_names, (row.values() for row in table.to_pylist()))
    else:
        file = io.BytesIO()
        np.savez_compressed(file, **arrays())
        data = file.getvalue()
    write_bytes(target, data)
    shutil.rmtree(run.folder, ignore_errors=True)


def _counts(frames: Any) -> Any:
    """Contacts of each frame, self contacts included; NaN for unreadable frames."""
    counts = [frames.column(name).fill_null(0).to_numpy().astype(np.float64) for name in ("contacts", "self_contacts")]
    bad = np.array([error is not None for error in frames.column("error").to_pylist()], dtype=np.bool_)
    return np.where(bad, np.nan, counts[0] + counts[1])


def worst_frames(run: FramesRun) -> list[tuple[int, str, int]]:
    """Number, name and contacts of the frames with the most contacts; ties by frame number."""
    frames = run.frames()
    counts = np.nan_to_num(_counts(frames))
    order = np.argsort(-counts, kind="stable")[:WORST]
    names = frames.column("name")
    return [(int(i), str(names[int(i)]), int(counts[i])) for i in order if counts[i] > 0]


def tunnelled_frames(run: FramesRun) -> list[dict[str, Any]]:
    """Number, name, impacts and time of the first impact of each tunnelled frame, in order."""
    columns = ("frame", "name", "impacts", "self_impacts", "first_impact")
    return [{name: row[name] for name in columns} for row in run.frames().to_pylist() if row.get("tunnelled")]


def between_frames(run: FramesRun) -> str | None:
    """What happens between the frames of a continuous run, as a phrase; None for other runs."""
    if "tunnelled" not in run.totals:
        return None
    found = f"{counted(run.totals['impacts'] + run.totals['self_impacts'], 'impact')} between frames"
    tunnelled = tunnelled_frames(run)
    if not tunnelled:
        return f"{found}, no frame tunnelled"
    frame, time = tunnelled[0]["frame"], frame_time(tunnelled[0]["first_impact"])
    count = counted(len(tunnelled), "frame")
    return f"{found}, {count} tunnelled (the first between frames {frame - 1} and {frame}, at {time})"


def frame_time(time: float) -> str:
    """A time in frames with up to four decimals, or as many as two digits after the frame take."""
    past = time - math.floor(time)
    decimals = max(4, 1 - math.floor(math.log10(past))) if past > 0.0 else 0
    return f"{time:.{decimals}f}".rstrip("0").rstrip(".") if decimals else f"{time:.0f}"


def bad_rows(table: Any, *names: str) -> list[tuple[str, str]]:
    """Names and errors of the rows that have one."""
    rows = zip(*(table.column(name).to_pylist() for name in names), table.column("error").to_pylist())
    return [(" and ".join(row[:-1]), row[-1]) for row in rows if row[-1] is not None]


def nested_count(table: Any) -> int:
    """Rows in which one body is inside the other: they collide, and no triangles intersect."""
    return sum(relation in ("a in b", "b in a") for relation in table.column("relation").to_pylist())


def _begin(
    run: Run, title: str, what: str, tiles: tuple[str, ...], inputs: list[tuple[str, str]], nested: int, more: str = ""
) -> Page:  # fmt: skip
    """Page with verdict, tiles, options and totals; ``what`` collides, ``nested`` of them without pairs.

    ``more`` is added to the verdict.
    """
    page = Page(title)
    colliding, bad = run.totals["colliding"], run.totals["bad"] + run.totals.get("bad_pairs", 0)
    how = ", with one body inside the other and no triangles that intersect" if nested else ""
    how = f", {nested:,} of them{how[1:]}" if 0 < nested < colliding else how
    verb = "collides" if colliding == 1 else "collide"
    found = f"{counted(colliding, what)} {verb}{how}." if colliding else f"No {what} collides."
    tone: Tone = "unsure" if bad else "hit" if run else "clear"
    sure = "This is certain: every pair of triangles was decided exactly."
    if bad:
        missing = counted(bad, f"{what} could not be read and is", f"{what}s could not be read and are")
        sure = f"{missing} excluded from the result."
    page.verdict(f"{found}{more} {sure}", tone)
    page.tiles((f"{run.totals[name]:,}", LABELS[name]) for name in tiles)
    page.section("Input")
    page.facts(inputs)
    page.section("Result")
    page.facts((label, run.totals[name]) for name, label in LABELS.items() if name in run.totals)
    return page


def _end(page: Page, bad: list[tuple[str, str]], heading: str, command: str) -> Page:
    """Add what could not be read, and the command."""
    if bad:
        page.section(heading)
        page.table(bad[:LISTED])
        if len(bad) > LISTED:
            page.text(f"and {len(bad) - LISTED} more; the tables list all")
    page.section("Command")
    page.command(command)
    return page


def add_picture(page: Page, items: Iterator[DrawItem], caption: str, *, sides: bool) -> None:
    """Add a picture, from several directions if ``sides``."""
    if sides:
        page.views(items, caption)
    else:
        page.picture(render(items, caption), caption)


def frames_report(run: FramesRun, *, inputs: list[tuple[str, str]], command: str) -> Page:
    """Page with contacts over time, pictures of the worst frames, unreadable frames, and the command."""
    frames = run.frames()
    counts = _counts(frames)
    title = f"{run.totals['colliding']:,} of {counted(len(run), 'frame')} collide"
    between, tunnelled = between_frames(run), tunnelled_frames(run)
    tiles: tuple[str, ...] = ("frames", "colliding", "contacts")
    if between is not None:
        tiles = (*tiles, *(name for name in ("impacts", "self_impacts") if run.totals[name]), "tunnelled")
    more = "" if between is None else f" {between}."
    if tunnelled:
        title = f"{title}, {counted(len(tunnelled), 'frame')} tunnelled"
    page = _begin(run, title, "frame", tiles, inputs, nested_count(frames), more)
    page.section("Contacts over time")
    bad = np.flatnonzero(np.isnan(counts)).tolist()
    page.chart(counts, across="frame", up="intersecting triangle pairs", marked=bad, mark="unreadable frames")
    if between is not None:
        _add_between(page, run, between, tunnelled)
    worst = worst_frames(run)
    if worst:
        page.section("Worst frames")
        page.table(worst, ("frame", "name", "triangle pairs"))
        for place, (number, name, _) in enumerate(worst):
            for found in filter(len, run.at(number)):
                other = "itself" if len(found.bodies) == 1 else run.names[1]
                caption = f"frame {number} ({name}): {counted(len(found), 'triangle pair')} with {other}"
                add_picture(page, pair_items(found, run.names), caption, sides=place == 0)
    return _end(page, bad_rows(frames, "name"), "Unreadable frames", command)


def _add_between(page: Page, run: FramesRun, between: str, tunnelled: list[dict[str, Any]]) -> None:
    """Add impacts over time, the tunnelled frames, and a picture of the first impact."""
    rows = run.frames().to_pylist()
    page.section("Between frames")
    page.text(f"{between[0].upper()}{between[1:]}. Vertices move along straight lines from each frame to the next.")
    counts = [np.nan if row["tunnelled"] is None else _sum(row) for row in rows]
    page.chart(np.array(counts), across="frame", up="impacts on the way to the frame",
               marked=[row["frame"] for row in tunnelled], mark="tunnelled frames")  # fmt: skip
    if tunnelled:
        listed = [(row["frame"], row["name"], _sum(row), frame_time(row["first_impact"])) for row in tunnelled]
        page.table(listed[:LISTED], ("tunnelled frame", "name", "impacts", "first impact"))
        if len(listed) > LISTED:
            page.text(f"and {len(listed) - LISTED} more; the table of frames lists all")
    first = next((row for row in [*tunnelled, *rows] if row["first_impact"] is not None), None)
    if first is not None:
        found = min(filter(len, run.impacts_at(first["frame"])), key=lambda each: float(each.time_lo[0]))
        names = run.names if len(found.bodies) == 2 else run.names[:1]
        meet = impact_label(found, 0, names[0], names[-1])
        caption = f"the bodies at {frame_time(first['first_impact'])}: {meet} meet"
        page.picture(render(impact_items(found, names), caption), caption)


def _sum(row: dict[str, Any]) -> int:
    """Impacts on the way to a frame."""
    return int((row["impacts"] or 0) + (row["self_impacts"] or 0))


# many parts -------------------------------------------------------------------------------------------


def clashes(run: PairsRun) -> list[dict[str, Any]]:
    """Rows of colliding pairs, by decreasing volume, then contacts."""
    rows = [row for row in run.pairs().to_pylist() if row["collides"]]
    return sorted(rows, key=lambda row: (-(row["volume"] or 0.0), -row["contacts"], row["a"], row["b"]))


def pair_in_words(row: dict[str, Any]) -> str:
    """The relation of a row as a phrase."""
    return relation_label(row["relation"], row["name_a"], row["name_b"])


def write_pairs(run: PairsRun, target: Path) -> None:
    """Write a csv or npz file with a row per near pair and delete the shards; other endings do nothing."""
    table = run.pairs()

    def arrays() -> dict[str, Any]:
        zero = {"bool": False, "int64": 0, "float64": np.nan}
        return {
            name: _texts(table, name)
            if kind == "string"
            else table.column(name).fill_null(zero[kind]).to_numpy(zero_copy_only=False)
            for name, kind in PAIR_COLUMNS.items()
        }

    _write(run, target, table, arrays)


def pairs_report(run: PairsRun, *, inputs: list[tuple[str, str]], command: str) -> Page:
    """Page with the colliding pairs, their contact matrix, pictures, unreadable parts, and the command."""
    rows = clashes(run)
    verb = "collides" if len(rows) == 1 else "collide"
    title = f"{counted(len(rows), 'pair')} of {counted(run.totals['parts'], 'part')} {verb}"
    page = _begin(run, title, "pair", ("parts", "near", "colliding", "contacts"), inputs, nested_count(run.pairs()))
    if rows:
        page.section("Colliding pairs")
        columns = ("contacts", "volume", "depth")
        listed = [[pair_in_words(row), *(row[name] for name in columns)] for row in rows[:LISTED]]
        page.table(listed, ("pair", "triangle pairs", "overlap volume", "deepest penetration"))
        if len(rows) > LISTED:
            page.text(f"and {len(rows) - LISTED} more; the table of pairs lists all")
        _add_matrix(page, rows)
        page.section("Worst pairs")
        for place, row in enumerate(rows[:WORST]):
            contacts = f": {counted(row['contacts'], 'triangle pair')}" if row["contacts"] else ""
            names, caption = (row["name_a"], row["name_b"]), f"{pair_in_words(row)}{contacts}"
            add_picture(page, pair_items(run.at(row["a"], row["b"]), names), caption, sides=place == 0)
    bad = bad_rows(run.parts(), "name") + bad_rows(run.pairs(), "name_a", "name_b")
    return _end(page, bad, "Unreadable parts and unresolved pairs", command)


def _add_matrix(page: Page, rows: list[dict[str, Any]]) -> None:
    """Add the symmetric matrix of contact counts of the parts with the most contacts."""
    names: dict[int, str] = {}
    total: dict[int, int] = {}
    for row in rows:
        for side in "ab":
            names[row[side]] = row[f"name_{side}"]
            total[row[side]] = total.get(row[side], 0) + max(row["contacts"], 1)
    shown = sorted(sorted(total, key=lambda i: (-total[i], i))[:LARGEST_MATRIX])
    place = {part: k for k, part in enumerate(shown)}
    values = np.full((len(shown), len(shown)), np.nan)
    for row in rows:
        if row["a"] in place and row["b"] in place:
            i, j = place[row["a"]], place[row["b"]]
            values[i, j] = values[j, i] = row["contacts"]
    page.section("Contacts of every pair")
    if len(shown) < len(total):
        page.text(f"The {len(shown):,} parts with the most contacts, of {len(total):,} that collide.")
    page.matrix([names[part] for part in shown], values, unit="contacts", zero="one is inside the other")
