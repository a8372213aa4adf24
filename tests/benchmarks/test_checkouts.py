"""Two checkouts are compared by alternating processes."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

import impinge
from benchmarks import compare
from benchmarks.__main__ import app
from benchmarks.checkouts import compare_checkouts

FAKE = """
import os, sys
from pathlib import Path

arguments = sys.argv[1:]
out = Path(arguments[arguments.index("--out") + 1])
log = Path({log!r})
order = log.read_text().splitlines() if log.exists() else []
label = {label!r}
times = {times!r}[order.count(label)]
with log.open("a") as file:
    file.write(label + chr(10))
Path({log!r} + "-" + label).write_text(repr((arguments, os.environ["PYTHONPATH"], os.getcwd())))
if "broken" in arguments:
    sys.exit("error: broken is broken")
out.mkdir(parents=True)
rows = ["# machine", {header!r}] + [f"s,{{name}},{{low}},{{mid}},1,n" for name, low, mid in times]
(out / "tiny-cpu.csv").write_text(chr(10).join(rows) + chr(10))
(out / "tiny_counts-cpu.csv").write_text("level,tests" + chr(10) + "0,{tests}" + chr(10))
"""


@pytest.fixture
def checkouts(tmp_path: Path) -> tuple[Path, Path, Path]:
    """An old checkout with ``impinge bench``, a new one with ``benchmarks``, and the log of both."""
    log = tmp_path / "log"
    old, new = tmp_path / "old", tmp_path / "new"
    package = old / "src" / "impinge"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (new / "benchmarks").mkdir(parents=True)
    (new / "benchmarks" / "__init__.py").write_text("")
    header = ",".join(compare.TIMES)
    before = [[("same", 1.0, 1.1), ("grown", 1.0, 1.2)], [("same", 1.4, 1.6), ("grown", 0.9, 1.3)]]
    after = [[("same", 1.5, 1.7), ("grown", 1.6, 1.8)], [("same", 1.0, 1.2), ("grown", 1.5, 1.9)]]
    for path, label, times, tests in (
        (package / "__main__.py", "old", before, 7),
        (new / "benchmarks" / "__main__.py", "new", after, 8),
    ):
        path.write_text(FAKE.format(log=str(log), label=label, times=times, header=header, tests=tests))
    return old, new, log


def test_processes_alternate_and_figures_are_merged(checkouts, tmp_path):
    """Run old and new in alternating order; compare minima and medians over all rounds."""
    old, new, log = checkouts
    reports: list[str] = []

    found = compare_checkouts(old, new, ["tiny"], tmp_path / "out", rounds=2, quick=True, report=reports.append)

    assert log.read_text().splitlines() == ["old", "new", "new", "old"]
    assert len(reports) == 4
    assert [(move.figure, move.verdict) for move in found] == [("s, grown", "slower"), ("tests of 0", "changed")]
    assert found[0].old == "0.9 to 1.25 ms"
    assert found[0].new == "1.5 to 1.85 ms"


def test_each_process_sees_its_own_checkout(checkouts, tmp_path):
    """Put only ``src`` and the root of the checkout on the path; call the command that it has."""
    old, new, log = checkouts

    compare_checkouts(old, new, ["tiny"], tmp_path / "out", rounds=1)

    for label, root, command in (("old", old, ["bench", "tiny"]), ("new", new, ["tiny"])):
        arguments, path, folder = ast.literal_eval(Path(f"{log}-{label}").read_text())
        assert arguments == [*command, "--out", str(tmp_path / "out" / f"{label}-0")]
        assert path.split(os.pathsep) == [str(root / "src"), str(root)]
        assert folder == str(root)


@pytest.mark.parametrize(
    ("name", "rounds", "error", "words"),
    [
        ("broken", 1, impinge.FileError, "broken failed in .*old with exit code 1: error: broken is broken"),
        ("tiny", 0, impinge.OptionError, "rounds is 0, expected at least 1"),
    ],
)
def test_failures_name_the_checkout(name, rounds, error, words, checkouts, tmp_path):
    """Report the message of the process that failed."""
    old, new, _ = checkouts

    with pytest.raises(error, match=words):
        compare_checkouts(old, new, [name], tmp_path / "out", rounds=rounds)


def test_a_folder_without_sources_is_refused(checkouts, tmp_path):
    """Expect the root of a checkout."""
    with pytest.raises(impinge.FileError, match="expected the root of a checkout"):
        compare_checkouts(tmp_path / "out", checkouts[1], ["tiny"], tmp_path / "out", rounds=1)


def test_command_prints_what_moved(checkouts, tmp_path):
    """Exit with 1 where a figure became slower; keep the files of ``--out``."""
    old, new, _ = checkouts
    arguments = ["compare-checkouts", str(old), str(new), "tiny", "--rounds", "2", "--out", str(tmp_path / "kept")]

    done = CliRunner().invoke(app, arguments)

    assert done.exit_code == 1
    assert "2 figures moved by more than their noise, 1 of them are slower" in done.output
    assert (tmp_path / "kept" / "new" / "tiny-cpu.csv").is_file()
    with pytest.raises(impinge.OptionError, match="expected two folders and at least one benchmark"):
        CliRunner().invoke(app, arguments[:3], catch_exceptions=False)
