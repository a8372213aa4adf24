"""Tests of atomic writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from impinge.io.atomic import write_whole


def test_a_file_is_created_and_replaced(tmp_path):
    """Create a file, replace it, and leave no temporary file."""
    path = tmp_path / "file"
    for content in (b"first", b"second"):
        write_whole(path, lambda file, content=content: file.write(content))
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_failed_step_leaves_the_old_file(tmp_path, monkeypatch, step):
    """Keep the old content and remove the temporary file, whichever step fails."""
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    def write(file):
        file.write(b"half")
        if step == "write":
            fail()

    if step == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    if step == "replace":
        monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space left") as failed:
        write_whole(path, write)

    assert failed.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupt_leaves_the_old_file(tmp_path):
    """Remove the temporary file on KeyboardInterrupt as well."""
    path = tmp_path / "file"

    def write(file):
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(path, write)
    assert not list(tmp_path.iterdir())


def test_a_write_protected_file_is_refused(tmp_path, monkeypatch):
    """Raise PermissionError and keep the content of a write-protected file."""
    path = tmp_path / "file"
    path.write_bytes(b"precious")
    monkeypatch.setattr(os, "access", lambda *_: False)

    with pytest.raises(PermissionError, match="write-protected"):
        write_whole(path, lambda file: file.write(b"new"))
    assert path.read_bytes() == b"precious"


@pytest.mark.skipif(os.name == "nt", reason="links need special rights")
def test_links_are_followed(tmp_path):
    """Replace the target of a symbolic link and keep the link."""
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_whole(tmp_path / "link", lambda file: file.write(b"new"))

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"
