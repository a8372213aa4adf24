"""States of the live page: paused, recording, preparing a scene, or unable to show one."""

from __future__ import annotations

import socket
import urllib.request
from types import SimpleNamespace

import pytest

from impinge.errors import MissingExtra
from impinge.view import live
from impinge.view.session import Session

pytest.importorskip("viser")


@pytest.fixture
def page():
    """A page without a browser."""
    page = live.LivePage(Session("boxes_overlapping_by_half"), port=0)
    yield page
    page.close()


def test_pause_is_shown(page):
    """Show the pause at once, without a new query, until time continues."""
    frame = page.session.frame
    page._pause()
    shown = page._status.content
    page._pause()

    assert "paused" in shown
    assert f'data-frame="{frame}"' in shown
    assert page.session.frame == frame
    assert "paused" not in page._status.content


def test_recording_is_shown(page):
    """Show the recording from one click on Record to the next."""
    notes: list[str] = []
    client = SimpleNamespace(
        add_notification=lambda title, _body, **_: notes.append(title),
        send_file_download=lambda name, _content: notes.append(name),
    )
    page._record(client)
    shown = page._status.content
    page._record(client)

    assert "recording, 0.0 of 500 MB" in shown
    assert "recording" not in page._status.content
    assert notes == ["Recording", "impinge.html"]


def test_scene_that_cannot_be_shown(page, monkeypatch):
    """Notify of the reason, and keep the previous scene."""
    shown: list[tuple[str, str]] = []
    client = SimpleNamespace(add_notification=lambda title, body, **_: shown.append((title, body)))
    preparing: list[str] = []

    def refuse(_name: str) -> None:
        preparing.append(page._status.content)
        raise MissingExtra("soft bodies need netgen; install impinge[soft]")

    monkeypatch.setattr(page._server, "get_clients", lambda: {0: client})
    monkeypatch.setattr(page.session, "choose_scene", refuse)
    page._choose_scene("two_bunnies, simulated")

    assert "Preparing two_bunnies, simulated ..." in preparing[0]
    assert shown == [("two_bunnies, simulated cannot be shown", "soft bodies need netgen; install impinge[soft].")]
    assert page._scene.value == "boxes_overlapping_by_half"
    assert 'data-count="' in page._status.content


def test_switch_between_frames(page):
    """Show impacts instead of the contacts while the switch is on; at once if the page is paused."""
    page.session.settings.deformation = 1.0
    page.advance(0.1)
    page._pause()
    shown = []
    for wanted in (True, False):
        page._between.value = wanted
        page._edit(page._switch_between)
        shown.append(page._status.content)

    assert "on the way" in shown[0]
    assert 'data-method="between frames"' in shown[0]
    assert "on the way" not in shown[1]
    assert 'data-method="box_tree"' in shown[1]


def _has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6")
def test_page_at_an_address_of_ipv6():
    """Serve at any free port of an IPv6 address, with a valid URL."""
    page = live.LivePage(Session("boxes_overlapping_by_half"), host="::1", port=0)
    try:
        with urllib.request.urlopen(page.url) as answer:
            assert answer.status == 200
        assert page.url.startswith("http://[::1]:")
    finally:
        page.close()


def test_waiting_takes_nothing_for_markup():
    """Escape scene names, which may be file names."""
    assert "&lt;b&gt;" in live.waiting("<b>")
