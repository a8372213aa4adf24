"""The command line. One function per command; a new command is a new function under ``@app.command()``.

Exit codes: 0 clear (or done), 1 colliding, 2 bad input. Errors are one sentence on stderr, never a traceback.
Names of files are printed as they are: no markup, no emoji codes, and no line breaks that a pipe would trip over.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import io
import json
import os
import platform
import shlex
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

import impinge

if TYPE_CHECKING:
    from impinge.bench.measure import Row
    from impinge.mesh.tet_mesh import TetMesh
    from impinge.mesh.tri_mesh import TriMesh
    from impinge.mesh.validation import ValidationReport
    from impinge.queries import Report

CLEAR, COLLIDING, BAD_INPUT, INTERRUPTED, NO_READER = 0, 1, 2, 130, 141
"""The last two as shells report SIGINT and SIGPIPE; a reader that goes away must not look like a collision."""

PIPE_WIDTH = 10_000
"""Columns of a table that is not on a terminal: enough for one line per row."""

EXTRAS = {
    "io": ("trimesh", "meshio"),
    "soft": ("netgen", "fast_simplification"),
    "view": ("viser",),
    "picture": ("pyvista", "matplotlib"),
    "cuda": ("numba_cuda",),
    "cluster": ("distributed", "pyarrow"),
}

app = typer.Typer(
    name="impinge",
    help="Collision detection between deformable bodies. Exit codes: 0 clear, 1 colliding, 2 bad input.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class _Console(Console):
    """Rich's console, but with an exit code of our own when the reader goes away (``impinge scenes | head -1``)."""

    def on_broken_pipe(self) -> NoReturn:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(NO_READER)


out = _Console(markup=False, emoji=False, highlight=False, soft_wrap=True)
err = _Console(markup=False, emoji=False, highlight=False, stderr=True)

MeshPath = Annotated[Path, typer.Argument(help="A mesh file: ply obj stl off glb msh vtk vtu mesh, also .gz.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Drop = Annotated[bool, typer.Option("--drop", help="Leave out elements with bad ids or coordinates, with a warning.")]
Weld = Annotated[bool | None, typer.Option(help="Join vertices at equal positions; if not said, in stl files only.")]


def _print_json(data: dict[str, Any]) -> None:
    try:
        typer.echo(json.dumps(data, indent=2))
    except BrokenPipeError:
        out.on_broken_pipe()


def _print_table(table: Table) -> None:
    if not out.is_terminal:
        out.width = PIPE_WIDTH
    out.print(table, soft_wrap=False)


def _print_rows(rows: Iterable[tuple[str, Any]], *, title: str | None = None) -> None:
    rows = list(rows)
    if title is not None:
        out.print(title, style="bold")
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        out.print(f"{name:<{width}}  {value}")


def _tell_version(wanted: bool) -> None:
    if wanted:
        out.print(f"impinge {impinge.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Tell the version and exit.")
    ] = False,
) -> None:
    pass


def _load(path: Path, *, drop: bool, weld: bool | None) -> TriMesh | TetMesh:
    return impinge.load(path, weld="auto" if weld is None else weld, validate="drop" if drop else "raise")


@app.command()
def check(
    a: MeshPath,
    b: MeshPath,
    method: Annotated[
        str, typer.Option(help="How to find the pairs: auto, box_tree, breadth_first or brute_force.")
    ] = "auto",
    picture: Annotated[Path | None, typer.Option(help="Write a picture of what was found, e.g. out.png.")] = None,
    drop: Drop = False,
    weld: Weld = None,
    as_json: AsJson = False,
) -> None:
    """Tell whether two bodies collide, and where.

    Example: impinge check liver.obj tool.stl --picture found.png
    """
    if picture is not None:
        importlib.import_module("impinge.view.picture").check_path(picture)  # before the work, not after it
    bodies = [_load(path, drop=drop, weld=weld) for path in (a, b)]
    report = impinge.check(*bodies, method=method)
    if picture is not None:
        report.pairs.plot(picture)
    if as_json:
        _print_json({"a": str(a), "b": str(b), **report.to_dict()})
    else:
        _print_report(report, a, b, picture)
    raise typer.Exit(COLLIDING if report else CLEAR)


def _print_report(report: Report, a: Path, b: Path, picture: Path | None) -> None:
    pairs = report.pairs
    rows: list[tuple[str, Any]] = [("relation", report.relation), ("triangle pairs", len(pairs))]
    rows += [(f"  {kind}", count) for kind, count in pairs.count_by_kind().items()]
    if report.overlap is not None:
        rows.append(("overlap volume", f"{report.overlap.volume:.6g}, give or take {report.overlap.error:.1g}"))
    if report.deepest is not None:
        way = ", ".join(f"{value:.3g}" for value in report.deepest.normal[0])
        rows.append(("deepest", f"{report.deepest.depth[0]:.6g}: b has to move along ({way})"))
    if report.curves is not None and len(report.curves):
        rows.append(("curves", f"{len(report.curves.loops)}, length {report.curves.length:.6g}"))
    without_inside = [name for name, inside in (("a", report.a_has_inside), ("b", report.b_has_inside)) if not inside]
    if without_inside and not len(pairs):
        rows.append(("not looked for", f"a body inside {' or '.join(without_inside)}, which is not closed"))
    rows.append(("complete", "yes" if pairs.complete else f"no: {pairs.reason}"))
    rows.append(("method", f"{pairs.method}, {pairs.elapsed_ms:.1f} ms"))
    if picture is not None:
        rows.append(("picture", picture))
    _print_rows(rows, title=f"{a.name} and {b.name}")


@app.command()
def validate(file: MeshPath, drop: Drop = False, weld: Weld = None, as_json: AsJson = False) -> None:
    """Count what is unusual in a mesh: open edges, doubled faces, inverted tets, ...

    Example: impinge validate scan.ply
    """
    report = impinge.validate(_load(file, drop=drop, weld=weld))
    if as_json:
        _print_json({"file": str(file), **report.to_dict()})
    else:
        _print_validation(report, file)


def _print_validation(report: ValidationReport, file: Path) -> None:
    data = report.to_dict()
    first = data.pop("first")
    rows = []
    for name, value in data.items():
        shown = ("yes" if value else "no") if isinstance(value, bool) else value
        where = f"   (first: {'-'.join(map(str, first[name]))})" if name in first else ""
        rows.append((name.replace("_", " "), f"{shown}{where}"))
    _print_rows(rows, title=file.name)
    out.print("clean" if report.clean else "usable; whether the above matters depends on the question asked")


@app.command()
def scenes() -> None:
    """List the scenes that come with impinge.

    Example: impinge scenes
    """
    table = Table(box=None, pad_edge=False)
    for column in ("scene", "what it shows", "tags"):
        table.add_column(column)
    for name in impinge.scenes.names():
        scene = impinge.scenes.get(name)
        table.add_row(name, scene.title, ", ".join(sorted(scene.tags)))
    _print_table(table)


@app.command()
def info(as_json: AsJson = False) -> None:
    """Tell the version, threads, devices and optional packages found.

    Example: impinge info
    """
    from impinge.backend import jit

    facts = {
        "impinge": impinge.__version__,
        "python": platform.python_version(),
        "numpy": importlib.metadata.version("numpy"),
        "numba": importlib.metadata.version("numba"),
        "threads": f"{jit.thread_count()} ({jit.thread_layer()})",
        "cuda device": _cuda_device(),
        "kernel cache": str(jit.cache_folder()),
    }
    extras = {name: all(map(importlib.util.find_spec, modules)) for name, modules in EXTRAS.items()}
    if as_json:
        _print_json({**facts, "extras": extras})
        return
    missing = [name for name, found in extras.items() if not found]
    found = ", ".join(name for name, is_there in extras.items() if is_there) or "none"
    _print_rows([*facts.items(), ("extras found", found), ("extras missing", ", ".join(missing) or "none")])


def _cuda_device() -> str:
    if importlib.util.find_spec("numba_cuda") is None:
        return "no (numba-cuda is not installed; pip install 'impinge[cuda]')"
    from numba import cuda

    return "yes" if cuda.is_available() else "no (no NVIDIA GPU or driver found)"


@app.command()
def warmup() -> None:
    """Compile everything now, so that no later call has to wait.

    Example: impinge warmup
    """
    from rich.progress import track

    from impinge import warming as jobs

    began = perf_counter()
    running = jobs.run_jobs(processes=min(os.cpu_count() or 1, 4))
    for _ in track(running, total=len(jobs.JOBS), description="compiling", console=err):
        pass
    out.print(f"{len(jobs.JOBS)} groups of kernels ready in {perf_counter() - began:.1f} s")


BENCHMARKS = {
    "start_up": "impinge.bench.start_up",
    "triangle_test": "impinge.bench.triangle_test",
    "pairs_against_peers": "impinge.bench.pairs_against_peers",
    "proximity_against_peers": "impinge.bench.proximity_against_peers",
    "gjk_cut_against_peers": "impinge.bench.gjk_cut_against_peers",
    "cloth_proximity": "impinge.bench.cloth_proximity",
    "hashing_against_peers": "impinge.bench.hashing_against_peers",
    "volumes_against_peers": "impinge.bench.volumes_against_peers",
    "worlds": "impinge.bench.worlds",
    "auto_fit": "impinge.bench.auto_fit",
    "box_tree_decay": "impinge.bench.box_tree_decay",
    "cluster_speed": "impinge.bench.cluster_speed",
    "p000_threshold": "impinge.bench.papers.p000_threshold",
    "p000_removal": "impinge.bench.papers.p000_removal",
    "p000_deforming": "impinge.bench.papers.p000_deforming",
    "p000_variants": "impinge.bench.papers.p000_variants",
    "p000_replaced": "impinge.bench.papers.p000_replaced",
    "p001_budgets": "impinge.bench.papers.p001_budgets",
    "soft_livers": "impinge.bench.soft_livers",
    "soft_bodies": "impinge.bench.soft_bodies",
    "p001_trees": "impinge.bench.papers.p001_trees",
    "p001_pictures": "impinge.bench.papers.p001_pictures",
    "p001_orders": "impinge.bench.papers.p001_orders",
    "p001_errors": "impinge.bench.papers.p001_errors",
    "tracking_speed": "impinge.bench.tracking_speed",
    "p002_distance": "impinge.bench.papers.p002_distance",
    "p002_variants": "impinge.bench.papers.p002_variants",
    "p003_setups": "impinge.bench.papers.p003_setups",
    "p003_parameters": "impinge.bench.papers.p003_parameters",
    "p004_volumes": "impinge.bench.papers.p004_volumes",
    "p004_points": "impinge.bench.papers.p004_points",
    "p004_particles": "impinge.bench.papers.p004_particles",
}
"""Modules by name; those below ``papers`` return an experiment, which writes a page and a picture too."""
GROUPS = {
    "peers": [name for name in BENCHMARKS if name.endswith("_against_peers")],
    "papers": [name for name, module in BENCHMARKS.items() if ".papers." in module],
}
"""Names that stand for several."""


@app.command()
def bench(
    names: Annotated[
        list[str] | None, typer.Argument(help=f"Any of {', '.join([*GROUPS, *BENCHMARKS])}; all if none.")
    ] = None,
    folder: Annotated[Path | None, typer.Option("--out", help="Write the figures to files in this folder.")] = None,
    quick: Annotated[bool, typer.Option(help="Few rounds: a smoke run, not a measurement.")] = False,
) -> None:
    """Measure, and print the figures with their ratios.

    Example: impinge bench triangle_test --out results
    """
    from impinge.bench import measure
    from impinge.bench.papers.experiment import Experiment, check_plotting

    names = [one for name in names or BENCHMARKS for one in GROUPS.get(name, [name])]
    unknown = set(names) - set(BENCHMARKS)
    if unknown:
        known = ", ".join([*GROUPS, *BENCHMARKS])
        raise impinge.OptionError(f"no benchmark {', '.join(sorted(unknown))}; expected any of {known}")
    if folder is not None and any(".papers." in BENCHMARKS[name] for name in names):
        check_plotting()  # before the work, not after it
    out.print(measure.machine())
    for name in names:
        with err.status(f"measuring {name} ..."):
            found = importlib.import_module(BENCHMARKS[name]).run(quick=quick)
        if isinstance(found, Experiment):
            _print_measured(name, found.rows)
            _print_rows([(claim.verdict, f"{claim.text} {claim.measured}") for claim in found.claims])
            written = [] if folder is None else found.write(folder)
        else:
            _print_measured(name, found)
            written = [] if folder is None else [measure.write_csv(found, folder, name)]
        for path in written:
            out.print(f"written: {path}")


def _print_measured(name: str, rows: Iterable[Row]) -> None:
    table = Table(title=name, title_justify="left", box=None, pad_edge=False)
    for column in ("scene", "candidate", "min ms", "median ms", "ratio", "note"):
        table.add_column(column, justify="right" if column in ("min ms", "median ms", "ratio") else "left")
    for row in rows:
        figures = (f"{row.min_ms:.3g}", f"{row.median_ms:.3g}", f"{row.ratio:.2f}")
        table.add_row(row.scene, row.candidate, *figures, row.note)
    _print_table(table)


@app.command()
def demo(folder: Annotated[Path, typer.Argument(help="Where to put the picture.")] = Path("demo-output")) -> None:
    """Deform two bodies into each other, find every pair of triangles that meet, and draw it.

    Example: impinge demo
    """
    from impinge.demo import run

    folder.mkdir(parents=True, exist_ok=True)
    for line in run(folder):
        out.print(line)


Frames = Annotated[str, typer.Argument(help="Frames of A: a quoted pattern, a folder, or an npz archive.")]
Target = Annotated[Path | None, typer.Option("--out", help="Keep results in this folder, or in a .csv or .npz file.")]
Html = Annotated[Path | None, typer.Option(help="Write a report, e.g. report.html.")]
Scheduler = Annotated[str | None, typer.Option(help="Address of a Dask scheduler, e.g. tcp://host:8786.")]
Workers = Annotated[int | None, typer.Option(min=0, help="Processes to start here; 0 works in this one.")]
Threads = Annotated[bool, typer.Option("--threads", help="Let workers be threads, not processes.")]


@app.command()
def sequence(
    a: MeshPath,
    frames: Frames,
    against: Annotated[Path | None, typer.Option(help="The other body; without it A is tested with itself.")] = None,
    against_frames: Annotated[str | None, typer.Option(help="Frames of the other body, if it moves too.")] = None,
    with_self: Annotated[bool, typer.Option("--self", help="Test A with itself, too.")] = False,
    target: Target = None,
    html: Html = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    threads: Threads = False,
    weld: Weld = None,
    as_json: AsJson = False,
) -> None:
    """Find the contacts in every frame of a sequence; run again after a kill, it goes on where it stopped.

    Example: impinge sequence cloth.ply 'frames/*.ply' --against character.ply --out run --html report.html
    """
    from impinge.cluster import map_frames, reports

    folder = _prepare_run(target, html)
    with _going_on(target), reports.progress_bar(err, "frames") as progress:
        run = map_frames(
            a, frames, against, against_frames=against_frames, with_self=with_self or None,
            weld="auto" if weld is None else weld, scheduler=scheduler, workers=workers, processes=not threads,
            out=folder, progress=progress,
        )  # fmt: skip
    bad = reports.bad_rows(run.frames(), "name")
    worst = reports.worst_frames(run)
    if html is not None:
        asked = [("body", str(a)), ("frames", frames), ("against", str(against or "itself"))]
        reports.frames_report(run, asked=asked, command=_command_line()).write(html)
    if target is not None:
        reports.write_frames(run, target)
    rows: list[tuple[str, Any]] = [
        ("frames", f"{len(run)}{f', {run.resumed} of an earlier run' if run.resumed else ''}")
    ]
    rows += [(name.replace("_", " "), run.totals[name]) for name in ("colliding", "contacts", "self_contacts")]
    rows += [("worst frame", f"{number} ({name}): {count} contacts") for number, name, count in worst[:1]]
    _end_run(run.totals, rows, worst, bad, target=target, html=html, as_json=as_json, what=f"of {len(run)} frames")
    raise typer.Exit(COLLIDING if run else BAD_INPUT if bad else CLEAR)


@app.command()
def clash(
    folder: Annotated[Path, typer.Argument(help="A folder of mesh files, one for each part.")],
    target: Target = None,
    html: Html = None,
    resolution: Annotated[int, typer.Option(min=1, max=4096, help="Rays along each side for overlap volumes.")] = 64,
    scheduler: Scheduler = None,
    workers: Workers = None,
    threads: Threads = False,
    as_json: AsJson = False,
) -> None:
    """Find all pairs of many parts that collide, with overlap volumes and depths; goes on after a kill.

    Example: impinge clash parts --out clashes.csv --html report.html
    """
    from impinge.cluster import map_pairs, reports

    kept = _prepare_run(target, html)
    with _going_on(target), reports.progress_bar(err, "pairs") as progress:
        run = map_pairs(
            folder, resolution=resolution, scheduler=scheduler, workers=workers, processes=not threads, out=kept,
            progress=progress,
        )  # fmt: skip
    found = reports.clashes(run)
    bad = reports.bad_rows(run.parts(), "name") + reports.bad_rows(run.pairs(), "name_a", "name_b")
    if html is not None:
        reports.pairs_report(run, asked=[("parts below", str(folder))], command=_command_line()).write(html)
    if target is not None:
        reports.write_pairs(run, target)
    rows: list[tuple[str, Any]] = [("parts", run.totals["parts"]), ("near pairs", len(run)), ("colliding", len(found))]
    rows += [(f"  {row['name_a']} and {row['name_b']}", _clash_in_words(row)) for row in found]
    _end_run(run.totals, rows, found, bad, target=target, html=html, as_json=as_json, what="parts or pairs")
    raise typer.Exit(COLLIDING if run else BAD_INPUT if bad else CLEAR)


def _clash_in_words(row: dict[str, Any]) -> str:
    volume = "" if row["volume"] is None else f", volume {row['volume']:.6g}"
    depth = "" if row["depth"] is None else f", depth {row['depth']:.6g}"
    return f"{row['relation']}, {row['contacts']} contacts{volume}{depth}"


def _prepare_run(target: Path | None, html: Path | None) -> Path | None:
    """Refuse what cannot be written before the work, and tell where parts are to be kept."""
    from impinge.cluster import reports

    if html is not None:
        importlib.import_module("impinge.view.report").check_path(html)
    return reports.run_folder(target)


@contextlib.contextmanager
def _going_on(target: Path | None) -> Iterator[None]:
    """Say after Ctrl-C that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        if target is not None:
            err.print("what is done so far is kept; the same command goes on from there")
        raise


def _command_line() -> str:
    return shlex.join(["impinge", *sys.argv[1:]])


def _end_run(
    totals: dict[str, int],
    rows: list[tuple[str, Any]],
    found: list[Any],
    bad: list[tuple[str, str]],
    *,
    target: Path | None,
    html: Path | None,
    as_json: bool,
    what: str,
) -> None:
    """Print what a run found, and on stderr what it could not use."""
    if as_json:
        _print_json({**totals, "found": found, "not_used": bad})
    else:
        rows += [(name, path) for name, path in (("results", target), ("report", html)) if path is not None]
        _print_rows(rows)
    if bad:
        err.print(
            f"warning: {len(bad)} {what} could not be used; the first is {bad[0][0]}: {bad[0][1]}", soft_wrap=True
        )


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    err.print(f"warning: {message}", soft_wrap=True)


def main() -> None:
    """Run the command line; turn every failure into one sentence and an exit code."""
    warnings.showwarning = _show_warning
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that the terminal cannot show is no reason to fail
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except impinge.ImpingeError as error:
        _fail(str(error).replace("validate='drop'", "--drop"))
    except KeyboardInterrupt:
        err.print("stopped")
        sys.exit(INTERRUPTED)
    except MemoryError:
        _fail("the memory of this machine does not suffice; use smaller meshes or fewer at a time")
    except OSError as error:
        _fail(f"{error.filename or 'a file'}: {error.strerror or error}")
    except Exception as error:  # the last line of defence: no traceback reaches a user
        if os.environ.get("IMPINGE_TRACEBACK"):
            raise
        _fail(f"unexpected {type(error).__name__}: {error}; set IMPINGE_TRACEBACK=1 to see where, and please report it")


def _fail(sentence: str) -> NoReturn:
    err.print(f"error: {sentence}", soft_wrap=True)
    sys.exit(BAD_INPUT)


if __name__ == "__main__":
    main()
