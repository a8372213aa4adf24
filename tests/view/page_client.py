"""A WebSocket client of the live page that sends what browsers send, and what they do not."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import msgspec
import viser  # noqa: TID253 - tests that import this are skipped without viser
from websockets.sync.client import ClientConnection, connect

from impinge.view.live import LivePage

CAMERA = {
    "type": "ViewerCameraMessage", "wxyz": [1, 0, 0, 0], "position": [1, 2, 3], "fov": 1, "near": 0.1, "far": 100,
    "image_height": 600, "image_width": 900, "look_at": [0, 0, 0], "up_direction": [0, 0, 1],
}  # fmt: skip


def port_of(page: LivePage) -> int:
    """The port that a page is served at."""
    return int(page.url.rpartition(":")[2])


def open_client(page: LivePage, *, host: str | None = None, origin: str | None = None) -> ClientConnection:
    """Connect to a page; ``host`` is the name of the server in the address of the browser."""
    sock = socket.create_connection(("127.0.0.1", port_of(page)))
    try:
        return connect(
            f"ws://{host or f'127.0.0.1:{port_of(page)}'}",
            sock=sock,
            origin=origin,
            subprotocols=[f"viser-v{viser.__version__}"],
            max_size=None,
            proxy=None,
        )
    except BaseException:
        sock.close()
        raise


@contextlib.contextmanager
def client(page: LivePage, **options: Any) -> Iterator[ClientConnection]:
    """A connected client."""
    opened = open_client(page, **options)
    try:
        yield opened
    finally:
        opened.close()


def send(to: ClientConnection, **message: Any) -> None:
    """Send one message."""
    to.send(msgspec.msgpack.encode(message))


def update(to: ClientConnection, handle: Any, **updates: Any) -> None:
    """Set properties of a control."""
    send(to, type="GuiUpdateMessage", uuid=handle._impl.uuid, updates=updates)


def drag(to: ClientConnection, phase: str, position: tuple[float, float, float] | None = None) -> None:
    """Take, move or release the drag handle."""
    kind = {"start": "DragStart", "update": "Update", "end": "DragEnd"}[phase]
    pose = {} if position is None else {"position": position, "wxyz": [1, 0, 0, 0]}
    send(to, type=f"TransformControls{kind}Message", name="/drag", owner="", **pose)
