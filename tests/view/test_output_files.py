"""Output files: checked paths and atomic writes."""

from __future__ import annotations

import pytest

from impinge.errors import FileError
from impinge.view.output_files import OutputFile

TABLE = OutputFile("table", ".csv", (".csv",))


@pytest.mark.parametrize(
    ("name", "reason"),
    [("x.txt", "unknown suffix '.txt'"), ("folder.csv", "it is a directory"), ("no/x.csv", "no is not a directory")],
)
def test_paths_that_cannot_be_written(tmp_path, name, reason):
    """Name path, reason and remedy."""
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FileError) as error:
        TABLE.write(tmp_path / name, b"1,2")

    assert str(error.value).startswith(f"the table could not be written to {tmp_path / name} (")
    assert str(error.value).endswith(f"{reason}); choose a writable .csv file")


def test_suffixes_ignore_case(tmp_path):
    """Accept upper-case suffixes, and return the path."""
    assert TABLE.write(tmp_path / "x.CSV", b"1,2").read_bytes() == b"1,2"
