"""What people get of a run: a bar while it is on, lines when it is over, csv and npz files, an html report."""

from __future__ import annotations

import contextlib
import csv
import io
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from impinge.errors import FileError
from impinge.runs.frames import FramesRun, Progress
from impinge.runs.pairs import PairsRun
from impinge.runs.store import write_whole
from impinge.view.labels import counted, relation_label
from impinge.view.picture import pair_items
from impinge.view.rendering import render
from impinge.view.report import Page, Tone

WORST = 3
"""Frames or pairs with a picture in a report."""
LISTED = 20
"""Rows of a table in a report."""
LARGEST_MATRIX = 60
"""Parts in the matrix of a report: those with the most contacts."""
FILE_ENDINGS = (".csv", ".npz")
LABELS = {
    "frames": "frames",
    "parts": "parts",
    "near": "pairs near each other",
    "colliding": "colliding",
    "contacts": "contacts",
    "self_contacts": "contacts with itself",
    "bad": "could not be read or used",
    "bad_pairs": "pairs not settled",
}
"""What totals are called in a report."""


@contextlib.contextmanager
def progress_bar(console: Any, what: str) -> Iterator[Callable[[Progress], None]]:
    """Show how far a run is, how fast, what it found and on how many workers; nothing where there is no terminal."""
    from rich import progress
    from rich.table import Column

    columns = (  # where there is little room, the bar alone gets shorter
        progress.TextColumn("{task.description}"), progress.BarColumn(),
        progress.MofNCompleteColumn(table_column=Column(no_wrap=True)),
        progress.TextColumn("{task.fields[speed]}"), progress.TextColumn("{task.fields[found]}"),
        progress.TimeRemainingColumn(table_column=Column(no_wrap=True)),
    )  # fmt: skip
    with progress.Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(what, total=None, speed="", found="")

        def tell(state: Progress) -> None:
            seconds = bar.tasks[0].elapsed or 0.0
            speed = (state.done - state.resumed) / seconds if seconds > 0.0 else 0.0
            workers = "" if not state.workers else f", {state.workers} worker{'s' if state.workers > 1 else ''}"
            bad = f", {state.bad} bad" if state.bad else ""
            found = f"{state.contacts:,} contacts{bad}{workers}"
            bar.update(task, completed=state.done, total=state.total, speed=f"{speed:.1f} {what}/s", found=found)

        yield tell


def run_folder(target: Path | None) -> Path | None:
    """Where parts are kept until all are there: the folder itself, or one beside a csv or npz file."""
    if target is None or target.suffix.lower() not in FILE_ENDINGS:
        return target
    if not target.parent.is_dir():
        raise FileError(f"{target} cannot be written ({target.parent} is no folder); choose a folder that exists")
    if target.is_dir():
        raise FileError(f"{target} is a folder, expected the name of a file; choose another")
    return target.with_name(f"{target.name}.run")


# sequences --------------------------------------------------------------------------------------------


def write_frames(run: FramesRun, target: Path) -> None:
    """Write one csv (a row per frame) or npz file (contacts too), and remove the parts that it was made from."""
    if target.suffix.lower() not in FILE_ENDINGS:
        return
    frames = run.frames()
    if target.suffix.lower() == ".csv":
        data = _csv(frames)
    else:
        contacts = run.contacts()
        columns = {
            f"contact_{name}": contacts.column(name).to_numpy(zero_copy_only=False)
            for name in ("frame", "is_self", "kind")
        }
        columns["contact_pair"] = np.stack([contacts.column(f"triangle_{side}").to_numpy() for side in "ab"], axis=1)
        for name in ("contacts", "self_contacts"):
            columns[name] = frames.column(name).fill_null(-1).to_numpy()
        for name in ("name", "relation", "error"):
            columns[name] = np.array([each or "" for each in frames.column(name).to_pylist()], dtype=np.str_)
        file = io.BytesIO()
        np.savez_compressed(file, **columns)
        data = file.getvalue()
    _write(target, data)
    shutil.rmtree(run.folder, ignore_errors=True)


def _csv(table: Any) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.column_names)
    writer.writerows(["" if value is None else value for value in row.values()] for row in table.to_pylist())
    return text.getvalue().encode(errors="backslashreplace")


def _write(path: Path, data: bytes) -> None:
    try:
        write_whole(path, data)
    except OSError as error:
        raise FileError(
            f"{path} cannot be written ({error.strerror}); choose a folder that may be written to"
        ) from error


def _counts(frames: Any) -> Any:
    """Contacts of each frame, with the other body and itself; NaN of frames that could not be used."""
    counts = [frames.column(name).fill_null(0).to_numpy().astype(np.float64) for name in ("contacts", "self_contacts")]
    bad = np.array([error is not None for error in frames.column("error").to_pylist()], dtype=np.bool_)
    return np.where(bad, np.nan, counts[0] + counts[1])


def worst_frames(run: FramesRun) -> list[tuple[int, str, int]]:
    """Number, name and contacts of the frames with the most, the earlier first of equal ones."""
    frames = run.frames()
    counts = np.nan_to_num(_counts(frames))
    order = np.argsort(-counts, kind="stable")[:WORST]
    names = frames.column("name")
    return [(int(i), str(names[int(i)]), int(counts[i])) for i in order if counts[i] > 0]


def bad_rows(table: Any, *names: str) -> list[tuple[str, str]]:
    """Who could not be used, and why."""
    rows = zip(*(table.column(name).to_pylist() for name in names), table.column("error").to_pylist())
    return [(" and ".join(row[:-1]), row[-1]) for row in rows if row[-1] is not None]


def frames_report(run: FramesRun, *, asked: list[tuple[str, str]], command: str) -> Page:
    """Contacts over time, the worst frames with pictures, frames that could not be used, how to repeat it."""
    frames = run.frames()
    counts = _counts(frames)
    page = Page(f"{run.totals['colliding']:,} of {counted(len(run), 'frame')} collide")
    sentence, tone = _verdict(run.totals["colliding"], run.totals["bad"], "frame")
    page.verdict(sentence, tone)
    page.tiles((f"{run.totals[name]:,}", LABELS[name]) for name in ("frames", "colliding", "contacts"))
    _add_facts(page, asked, run.totals)
    page.section("Contacts over time")
    bad = np.flatnonzero(np.isnan(counts)).tolist()
    page.chart(
        counts, across="frame", up="pairs of triangles that meet", marked=bad, mark="frames that could not be used"
    )
    worst = worst_frames(run)
    if worst:
        page.section("Worst frames")
        page.table([(number, name, count) for number, name, count in worst], ("frame", "name", "contacts"))
        for place, (number, name, _) in enumerate(worst):
            for found in run.at(number):
                if len(found):
                    with_what = "with itself" if len(found.bodies) == 1 else "with the other body"
                    caption = f"frame {number} ({name}): {counted(len(found), 'contact')} {with_what}"
                    if place == 0:
                        page.views(pair_items(found, run.names), caption)
                    else:
                        page.picture(render(pair_items(found, run.names), caption), caption)
    _add_bad(page, bad_rows(frames, "name"), "Frames that could not be used")
    page.section("How to repeat it")
    page.command(command)
    return page


def _add_facts(page: Page, asked: list[tuple[str, str]], totals: dict[str, int]) -> None:
    page.section("What was asked")
    page.facts(asked)
    page.section("What was found")
    page.facts((words, totals[name]) for name, words in LABELS.items() if name in totals)


def _verdict(colliding: int, bad: int, what: str) -> tuple[str, Tone]:
    """What a run found, and how sure it is."""
    found = (
        f"{counted(colliding, what)} collide{'s' if colliding == 1 else ''}." if colliding else f"No {what} collides."
    )
    if not bad:
        return f"{found} This is certain: every pair of triangles was decided exactly.", "hit" if colliding else "clear"
    missing = counted(bad, f"{what} could not be read or used, and is", f"{what}s could not be read or used, and are")
    return f"{found} {missing} left out; nothing is known of what could not be used.", "unsure"


def _add_bad(page: Page, rows: list[tuple[str, str]], heading: str) -> None:
    if rows:
        page.section(heading)
        page.table(rows[:LISTED])
        if len(rows) > LISTED:
            page.text(f"and {len(rows) - LISTED} more; the tables have all of them")


# many parts -------------------------------------------------------------------------------------------


def clashes(run: PairsRun) -> list[dict[str, Any]]:
    """Rows of pairs that meet, the largest volume first, then the most contacts."""
    rows = [row for row in run.pairs().to_pylist() if row["collides"]]
    return sorted(rows, key=lambda row: (-(row["volume"] or 0.0), -row["contacts"], row["a"], row["b"]))


def pair_in_words(row: dict[str, Any]) -> str:
    """How the parts of a row stand to each other."""
    return relation_label(row["relation"], row["name_a"], row["name_b"])


def write_pairs(run: PairsRun, target: Path) -> None:
    """Write one csv or npz file with a row per near pair, and remove the parts that it was made from."""
    if target.suffix.lower() not in FILE_ENDINGS:
        return
    table = run.pairs()
    if target.suffix.lower() == ".csv":
        data = _csv(table)
    else:
        columns: dict[str, Any] = {}
        for name in table.column_names:
            column = table.column(name)
            if name in ("name_a", "name_b", "relation", "error"):
                columns[name] = np.array([each or "" for each in column.to_pylist()], dtype=np.str_)
            elif name in ("volume", "volume_error", "depth"):
                columns[name] = column.to_numpy(zero_copy_only=False)
            else:
                nothing = False if name == "collides" else 0
                columns[name] = column.fill_null(nothing).to_numpy(zero_copy_only=False)
        file = io.BytesIO()
        np.savez_compressed(file, **columns)
        data = file.getvalue()
    _write(target, data)
    shutil.rmtree(run.folder, ignore_errors=True)


def pairs_report(run: PairsRun, *, asked: list[tuple[str, str]], command: str) -> Page:
    """The pairs that meet, a matrix of them, parts that could not be used, how to repeat it."""
    rows = clashes(run)
    verb = "collides" if len(rows) == 1 else "collide"
    page = Page(f"{counted(len(rows), 'pair')} of {counted(run.totals['parts'], 'part')} {verb}")
    sentence, tone = _verdict(len(rows), run.totals["bad"] + run.totals["bad_pairs"], "pair")
    page.verdict(sentence, tone)
    page.tiles((f"{run.totals[name]:,}", LABELS[name]) for name in ("parts", "near", "colliding", "contacts"))
    _add_facts(page, asked, run.totals)
    if rows:
        page.section("Pairs that meet")
        head = ("pair", "contacts", "volume", "depth")
        page.table([[pair_in_words(row), *(row[name] for name in head[1:])] for row in rows[:LISTED]], head)
        if len(rows) > LISTED:
            page.text(f"and {len(rows) - LISTED} more; the table of pairs has all of them")
        _add_matrix(page, rows)
        page.section("Worst pairs")
        for place, row in enumerate(rows[:WORST]):
            found = run.at(row["a"], row["b"])
            contacts = f": {counted(row['contacts'], 'contact')}" if row["contacts"] else ""
            title = f"{pair_in_words(row)}{contacts}"
            items = pair_items(found, (row["name_a"], row["name_b"]))
            if place == 0:
                page.views(items, title)
            else:
                page.picture(render(items, title), title)
    bad = bad_rows(run.parts(), "name") + bad_rows(run.pairs(), "name_a", "name_b")
    _add_bad(page, bad, "What could not be used")
    page.section("How to repeat it")
    page.command(command)
    return page


def _add_matrix(page: Page, rows: list[dict[str, Any]]) -> None:
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
        page.text(f"The {len(shown):,} parts with the most contacts, of {len(total):,} that meet another.")
    page.matrix([names[part] for part in shown], values, unit="contacts", zero="one is inside the other")
