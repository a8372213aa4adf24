"""Drags of several clients of the live page, on a real server and real connections."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("viser", reason="the live page needs viser")

from page_client import CAMERA, client, drag, send

from browser import wait_for
from impinge.view.live import LivePage
from impinge.view.session import Session


@pytest.fixture
def page():
    """Two soft bodies."""
    page = LivePage(Session("two_bunnies, simulated"), port=0)
    yield page
    page.close()


def register(page, *connections) -> None:
    """Send the view of each client, as browsers do first."""
    before = len(page._server.get_clients())
    for each in connections:
        send(each, **CAMERA)
    wait_for(lambda: len(page._server.get_clients()) == before + len(connections), "the clients")


def wait_for_target(page, place) -> None:
    """Wait until the drag aims at a place of the drawing."""
    motion, wanted = page.session.motion, page._viewer.to_scene(np.array(place))
    wait_for(lambda: motion.drag_target is not None and np.allclose(motion.drag_target, wanted), f"a drag to {place}")


def wait_for_release(page) -> None:
    wait_for(lambda: page.session.motion.drag_target is None, "the end of the drag")


def test_handle_pulls_a_soft_body(page):
    """Pull a soft body while the handle is held, ignore late events, and keep the handle at the body."""
    motion = page.session.motion
    place = page._viewer.to_drawing(motion.positions()[1].mean(axis=0))
    np.testing.assert_allclose(page._gizmo.position, place, atol=1e-9)
    with client(page) as a:
        register(page, a)
        drag(a, "start")
        drag(a, "update", (0.5, 0.0, 0.0))
        wait_for_target(page, (0.5, 0.0, 0.0))
        drag(a, "end")
        wait_for_release(page)
        drag(a, "update", (0.6, 0.0, 0.0))
        wait_for(lambda: page._drag_pose[0][0] == 0.6, "the late event")
        page._follow_handle()

        assert motion.drag_target is None


def test_client_that_leaves_ends_its_own_drag_alone(page):
    """End the drag of a client that leaves, and no other."""
    with client(page) as a:
        register(page, a)
        drag(a, "start")
        drag(a, "update", (0.5, 0.0, 0.0))
        wait_for_target(page, (0.5, 0.0, 0.0))
        for takes in (False, True):
            with client(page) as b:
                register(page, b)
                if takes:
                    drag(b, "start")
                    drag(b, "update", (0.0, 0.7, 0.0))
                    wait_for_target(page, (0.0, 0.7, 0.0))
            wait_for(lambda: len(page._server.get_clients()) == 1, "the other client to leave")
            wait_for(lambda: len(page._drags) == 1, "the end of its drag")
            assert page.session.motion.drag_target is not None
            drag(a, "update", (0.4, 0.0, 0.1 * takes))
            wait_for_target(page, (0.4, 0.0, 0.1 * takes))
    wait_for_release(page)


def test_last_client_to_take_the_handle_moves_it(page):
    """Ignore the moves of others meanwhile, and let nobody keep the handle from others."""
    with client(page) as a, client(page) as b:
        register(page, a, b)
        drag(a, "start")
        drag(a, "update", (0.5, 0.0, 0.0))
        wait_for_target(page, (0.5, 0.0, 0.0))
        drag(b, "start")
        drag(b, "update", (0.0, 0.5, 0.0))
        wait_for_target(page, (0.0, 0.5, 0.0))
        drag(a, "update", (0.9, 0.0, 0.0))
        send(a, **{**CAMERA, "fov": 0.5})
        wait_for(lambda: 0.5 in [each.camera.fov for each in page._server.get_clients().values()], "both events")
        wait_for_target(page, (0.0, 0.5, 0.0))
        np.testing.assert_array_equal(page._gizmo.position, (0.0, 0.5, 0.0))
        drag(b, "end")
        wait_for(lambda: len(page._drags) == 1, "the end of one drag")
        drag(a, "update", (0.8, 0.0, 0.0))
        wait_for_target(page, (0.8, 0.0, 0.0))
        drag(a, "end")
        wait_for_release(page)


def test_unregistered_clients_hold_nothing(page):
    """Let no client hold the handle whose leaving is not reported."""
    with client(page) as hostile:
        drag(hostile, "start")
        drag(hostile, "update", (0.5, 0.0, 0.0))
        wait_for(lambda: page._drag_pose[0][0] == 0.5, "the event")

        assert page._drags == {}
