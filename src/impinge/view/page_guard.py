"""The checks between the clients of the live page and viser.

viser accepts WebSockets of every origin, sets any attribute of a control that a message names, and opens a tunnel to a
public address on request. Its options change none of this. The page therefore checks, in this order:

Request   ``Host`` and ``Origin`` name the page (``view.page_address``), for files and WebSockets alike.
Size      A message has at most ``MESSAGE_BYTES``. A longer one closes its connection.
Form      A message is one of the six kinds that the controls of the page send, with exactly their fields and types,
          and with finite numbers. Every other kind is refused.
Control   An update sets the value of a control that exists and is not disabled, to one of its type and in its range.

viser receives the checked message, encoded again: decoders differ about repeated keys. A refused request gets status
403; a refused message is dropped. Each is one line in the log ``impinge.page``, up to ``LINES`` per connection.

viser opens its server by ``websockets.asyncio.server.serve``. ``guarded`` replaces that function while viser starts,
and only for viser, and adds documented arguments of it: ``process_request``, ``max_size``, ``create_connection`` and
``logger``. If viser starts its server in another way, ``guarded`` raises, and the page is not served.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
import viser  # noqa: TID253 - view.live imports this module when it serves a page
import websockets.asyncio.server
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import InvalidStatus
from websockets.http11 import Request, Response

from impinge.errors import ImpingeError
from impinge.view.page_address import PageAddress

MESSAGE_BYTES = 64 * 1024
"""Size limit of a message; those of the controls have less than 1 KiB."""
LINES = 20
"""Most lines in the log per connection."""
LINE_CHARACTERS = 300
FARTHEST = 1e4
"""Largest coordinate of a drag or click; the drawing is a cube of side 2."""
UNIT = (0.5, 2.0)
"""Accepted norms of a quaternion."""
BROKEN = (1002, 1007, 1009)
"""Codes by which a server closes a connection: protocol error, invalid data, message too long."""
_STARTING = threading.Lock()
logger = logging.getLogger("impinge.page")

Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=100)]
Coordinate: TypeAlias = Annotated[float, msgspec.Meta(ge=-FARTHEST, le=FARTHEST)]
Pixels: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=1e6)]
Point: TypeAlias = tuple[Coordinate, Coordinate, Coordinate]
Turn: TypeAlias = tuple[Coordinate, Coordinate, Coordinate, Coordinate]


class NewValue(msgspec.Struct, forbid_unknown_fields=True):
    """The only property of a control that a client sets."""

    value: bool | int | float | str


class ControlUpdate(msgspec.Struct, tag="GuiUpdateMessage", forbid_unknown_fields=True):
    """A control has another value, or a button was clicked."""

    uuid: Name
    updates: NewValue


class DragStart(msgspec.Struct, tag="TransformControlsDragStartMessage", forbid_unknown_fields=True):
    """A handle is held."""

    name: Name
    owner: Name = ""


class DragUpdate(msgspec.Struct, tag="TransformControlsUpdateMessage", forbid_unknown_fields=True):
    """A held handle has moved."""

    name: Name
    wxyz: Turn
    position: Point
    owner: Name = ""


class DragEnd(msgspec.Struct, tag="TransformControlsDragEndMessage", forbid_unknown_fields=True):
    """A handle is released."""

    name: Name
    owner: Name = ""


class Click(msgspec.Struct, tag="ScenePointerMessage", forbid_unknown_fields=True):
    """A click into the picture."""

    event_type: Literal["click"]
    ray_origin: Point
    ray_direction: Point
    screen_pos: tuple[tuple[Coordinate, Coordinate]]
    modifier: Name | None


class CameraMove(msgspec.Struct, tag="ViewerCameraMessage", forbid_unknown_fields=True):
    """The view of a client; the first one registers it."""

    wxyz: tuple[float, float, float, float]
    position: tuple[float, float, float]
    fov: float
    near: float
    far: float
    image_height: Pixels
    image_width: Pixels
    look_at: tuple[float, float, float]
    up_direction: tuple[float, float, float]


DECODER = msgspec.msgpack.Decoder(ControlUpdate | DragStart | DragUpdate | DragEnd | Click | CameraMove)


class RefusedError(Exception):
    """A message that is not passed on, and why."""


class PageGuard:
    """Checks the messages of all clients of a page."""

    def __init__(self) -> None:
        self.gui: Any = None
        """The controls; None until the server has started."""

    def checked(self, raw: bytes | str) -> bytes:
        """The message for viser; raise ``RefusedError`` if it is not valid."""
        if isinstance(raw, str):
            raise RefusedError("text, expected bytes")
        try:
            message = DECODER.decode(raw)
        except (ValueError, RecursionError) as error:  # all errors of msgspec are ValueErrors
            raise RefusedError(str(error)) from None
        if isinstance(message, ControlUpdate):
            handle = None if self.gui is None else self.gui._gui_input_handle_from_uuid.get(message.uuid)
            if handle is None:
                raise RefusedError(f"no control {message.uuid}")
            if handle.disabled:
                raise RefusedError("the control is disabled")
            check_value(handle, message.updates.value)
        elif isinstance(message, DragUpdate) and not UNIT[0] <= math.hypot(*message.wxyz) <= UNIT[1]:
            raise RefusedError(f"a rotation by {message.wxyz}, expected a unit quaternion")
        return msgspec.msgpack.encode(message)


def check_value(handle: Any, value: object) -> None:
    """Raise ``RefusedError`` if a client cannot have set a control to this value."""
    label = getattr(handle, "label", "")
    if isinstance(handle, viser.GuiSliderHandle):
        kinds = (int,) if isinstance(handle.value, int) else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not handle.min <= value <= handle.max:
            raise RefusedError(f"{label} is {value!r}, expected a number from {handle.min:g} to {handle.max:g}")
    elif isinstance(handle, viser.GuiDropdownHandle | viser.GuiButtonGroupHandle):
        if value not in handle.options:
            raise RefusedError(f"{label} is {value!r}, expected one of its {len(handle.options)} options")
    elif isinstance(handle, viser.GuiCheckboxHandle):
        if not isinstance(value, bool):
            raise RefusedError(f"{label} is {value!r}, expected True or False")
    elif not isinstance(handle, viser.GuiButtonHandle) or value is not True:
        raise RefusedError(f"{label} is {value!r}, expected a click")


class GuardedConnection(ServerConnection):
    """A connection that receives only checked messages."""

    def __init__(self, *args: Any, guard: PageGuard, **options: Any) -> None:
        super().__init__(*args, **options)
        self._guard, self._refused_count = guard, 0

    async def recv(self, decode: bool | None = None) -> bytes:  # type: ignore[override]
        """Receive the next message that is not refused."""
        while True:
            raw = await super().recv(decode)
            try:
                return self._guard.checked(raw)
            except RefusedError as refused:
                self._refused_count += 1
                if self._refused_count <= LINES:
                    last = "; its other messages are refused without a line" * (self._refused_count == LINES)
                    _log(self, "a message", f"{refused}{last}")


def _one_line(reason: str) -> str:
    """A reason as one line, whatever characters the client sent."""
    return reason.encode("unicode_escape").decode("ascii")[:LINE_CHARACTERS]


def _log(connection: ServerConnection, what: str, reason: str) -> None:
    client = connection.remote_address
    logger.warning("the page refused %s from %s: %s", what, client[0] if client else "a client", _one_line(reason))


class OneLine(logging.Filter):
    """A request that is no valid HTTP is one line; a connection without a request, as browsers open, is none."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace the traceback of a failed handshake by its reason."""
        if record.msg == "opening handshake failed" and record.exc_info:
            error = record.exc_info[1]
            if isinstance(error, EOFError | OSError | InvalidStatus):  # websockets 13 raises where a file is sent
                return False
            if isinstance(getattr(error, "__cause__", None), EOFError):
                return False
            record.msg, record.args, record.exc_info = "the page refused a request: %s", (_one_line(str(error)),), None
        return True


logger.addFilter(OneLine())


@contextmanager
def guarded(host: str) -> Iterator[PageGuard]:
    """Guard the server that viser starts within this context; raise if viser starts none by websockets."""
    guard, address, started = PageGuard(), PageAddress(host), []
    plain = websockets.asyncio.server.serve

    def serve(handler: Callable[[ServerConnection], Awaitable[None]], *args: Any, **options: Any) -> Any:
        if handler.__module__ != "viser.infra._infra":
            return plain(handler, *args, **options)  # another server of this process
        started.append(True)
        options["process_request"] = partial(_answer, address, options["process_request"])
        connection = partial(GuardedConnection, guard=guard)
        options |= {"max_size": MESSAGE_BYTES, "create_connection": connection, "logger": logger}
        return plain(partial(_handle, handler), *args, **options)

    with _STARTING:
        websockets.asyncio.server.serve = serve  # type: ignore[misc, assignment]
        try:
            yield guard
        finally:
            websockets.asyncio.server.serve = plain  # type: ignore[misc]
    if not started:
        raise ImpingeError(
            f"viser {viser.__version__} does not start its server by websockets.asyncio.server.serve, and the page "
            f"cannot be guarded; install the version that impinge[view] asks for"
        )


def _answer(
    address: PageAddress,
    files: Callable[[ServerConnection, Request], Response | None],
    connection: ServerConnection,
    request: Request,
) -> Response | None:
    """Refuse a request, answer it with a file, or (None) open a WebSocket."""
    headers, port = request.headers, connection.local_address[1]
    reason = address.refusal(headers.get_all("Host"), headers.get_all("Origin"), port)
    status = HTTPStatus.FORBIDDEN
    if reason is None:
        try:
            return files(connection, request)
        except (ValueError, LookupError, OSError) as error:  # paths and headers that viser does not expect
            reason, status = f"{type(error).__name__}: {error}", HTTPStatus.BAD_REQUEST
    _log(connection, "a request", reason)
    return connection.respond(status, "This request is not one of the page.\n")


async def _handle(handler: Callable[[ServerConnection], Awaitable[None]], connection: ServerConnection) -> None:
    """Serve a WebSocket; log a line if it ended because the client broke the protocol or sent too much."""
    try:
        await handler(connection)
    finally:
        closed = connection.protocol.close_sent
        if closed is not None and closed.code in BROKEN:
            _log(connection, "a message", closed.reason or f"code {closed.code}")
