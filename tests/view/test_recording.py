"""Recordings of the live page, which are limited in size."""

from __future__ import annotations

import logging

import pytest

pytest.importorskip("viser", reason="the live page needs viser")

from browser import wait_for
from impinge.view.live import LivePage
from impinge.view.session import Session


@pytest.fixture
def page():
    """A page that records at most 0.2 MB."""
    page = LivePage(Session("bumpy_spheres_1k"), port=0, recording_bytes=200_000)
    yield page
    page.close()


class Visitor:
    """Keeps what the page sends to a client."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.files: list[bytes] = []

    def add_notification(self, title: str, body: str, **_: object) -> None:
        """Keep a notification."""
        self.notes.append(f"{title}: {body}")

    def send_file_download(self, _name: str, content: bytes) -> None:
        """Keep a file."""
        self.files.append(content)


def test_forgotten_recording_stops_at_its_limit(page, monkeypatch):
    """Stop at the limit, say so on the page and to all clients, and keep what was recorded until it is saved."""
    starter, other = Visitor(), Visitor()
    monkeypatch.setattr(page._server, "get_clients", lambda: {0: starter, 1: other})
    page._record(starter)
    assert "It stops at 0.2 MB" in starter.notes[0]
    assert "recording, 0.0 of 0.2 MB" in page._status.content

    frames = 0
    while not page._recording.is_full:
        page.advance(0.01)
        frames += 1
        assert frames < 1000
    assert frames > 3
    assert "recording stopped at 0.2 MB, press Record to save it" in page._status.content
    assert len(starter.notes) == 2
    assert other.notes == starter.notes[1:]
    assert "Recording stopped" in other.notes[0]

    recorders = page._server._websock_server._record_handles
    wait_for(lambda: not recorders, "the end of the recording")
    for _ in range(5):
        page.advance(0.01)
    assert len(other.notes) == 1
    assert "recording stopped" in page._status.content

    page._record(other)
    assert len(other.files) == 1
    assert b"__VISER_EMBED_DATA__" in other.files[0]
    assert "recording" not in page._status.content
    page._record(starter)
    assert "recording, 0.0 of 0.2 MB" in page._status.content
    page._record(starter)
    assert len(starter.files) == 1


def test_unsaved_recording_is_reported(page, caplog):
    """Log a line if the page is closed before a recording is saved."""
    page._record(Visitor())
    with caplog.at_level(logging.WARNING, "impinge.page"):
        page.close()

    assert "a recording, which is not saved" in caplog.text
