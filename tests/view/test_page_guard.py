"""Hostile clients of the live page, on a real server and real connections."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
import urllib.error
import urllib.request
from functools import partial

import pytest

pytest.importorskip("viser", reason="the live page needs viser")

import msgspec
import websockets.asyncio.server
from page_client import CAMERA, client, open_client, port_of, send, update
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError, InvalidStatus

from browser import PATIENCE_S, wait_for
from impinge.errors import ImpingeError
from impinge.view.live import LivePage
from impinge.view.page_guard import LINES, MESSAGE_BYTES, PageGuard, guarded
from impinge.view.session import Session

encode = msgspec.msgpack.encode


@pytest.fixture
def page(caplog, capfd):
    """A page without a browser; it must leave no traceback, in the log or elsewhere."""
    page = LivePage(Session("boxes_overlapping_by_half"), port=0)
    with caplog.at_level(logging.WARNING):
        yield page
    page.close()
    assert "Traceback" not in caplog.text + "".join(capfd.readouterr())


def refusals(caplog) -> list[str]:
    """Lines in the log about refusals."""
    lines = [record.getMessage() for record in caplog.records if record.name == "impinge.page"]
    assert all("\n" not in line and line.startswith("the page refused") for line in lines)
    return lines


def settle(page, through) -> None:
    """Wait until the page has handled what a connection sent, by setting a control, which comes after it."""
    radius = page._cut_radius
    wanted = 0.2 if radius.value != 0.2 else 0.25
    update(through, radius, value=wanted)
    wait_for(lambda: radius.value == wanted, "the page to handle all messages")


def status_of(page, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(page.url, headers=headers)) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example", "http://evil.example:{port}", "null", "file://", "https://127.0.0.1:{port}",
        "http://127.0.0.1:1", "http://127.0.0.1", "http://localhost.evil.example:{port}", "http://10.0.0.1:{port}",
        "http://evil.example#127.0.0.1:{port}", "http://user@127.0.0.1:{port}", "chrome-extension://127.0.0.1:{port}",
    ],
)  # fmt: skip
def test_pages_of_other_sites_are_refused(page, caplog, origin):
    """Refuse the WebSockets and requests of other sites, with one line each."""
    origin = origin.format(port=port_of(page))
    with pytest.raises(InvalidStatus) as refused:
        open_client(page, origin=origin)
    assert refused.value.response.status_code == 403
    assert status_of(page, Origin=origin) == 403

    lines = refusals(caplog)
    assert len(lines) == 2
    assert all(origin in line for line in lines)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "10.0.0.1:{port}", "0.0.0.0:{port}", "a:b:c"],
)
def test_names_that_lead_here_are_refused(page, caplog, host):
    """Refuse a foreign name that resolves to this computer, also where the origin has the same name."""
    host = host.format(port=port_of(page))
    if host != "a:b:c":
        with pytest.raises(InvalidStatus) as refused:
            open_client(page, host=host, origin=f"http://{host}")
        assert refused.value.response.status_code == 403
    assert status_of(page, Host=host) == 403

    assert all(host in line for line in refusals(caplog))
    assert len(refusals(caplog)) == (1 if host == "a:b:c" else 2)


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}"])
@pytest.mark.parametrize("origin", [None, "http://127.0.0.1:{port}", "http://localhost:{port}"])
def test_page_itself_is_accepted(page, caplog, host, origin):
    """Accept the names of the page and clients that are no browsers."""
    host, origin = host.format(port=port_of(page)), origin and origin.format(port=port_of(page))
    with client(page, host=host, origin=origin) as browser:
        update(browser, page._deformation, value=2)
        wait_for(lambda: page._deformation.value == 2.0, "the control")
    assert status_of(page, Host=host, **({} if origin is None else {"Origin": origin})) == 200

    assert refusals(caplog) == []


def test_requests_that_are_not_http(page, caplog):
    """Refuse bytes that are no request with one line, and say nothing of connections without a request."""
    with socket.create_connection(("127.0.0.1", port_of(page))):
        pass
    own = f"Host: 127.0.0.1:{port_of(page)}\r\n".encode()
    requests = (
        b"\x16\x03\x01\xff\x00\r\n\r\n",
        b"POST / HTTP/1.1\r\n" + own + b"\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + own + b"Upgrade: websocket\r\n\r\n",
    )
    for request in requests:
        with socket.create_connection(("127.0.0.1", port_of(page))) as sock:
            sock.sendall(request)
            with contextlib.suppress(ConnectionResetError):
                list(iter(lambda: sock.recv(4096), b""))
    wait_for(lambda: len(refusals(caplog)) == len(requests), "a line of each")
    assert status_of(page) == 200
    assert len(refusals(caplog)) == len(requests)


@pytest.mark.parametrize("path", ["/%00", "/" + 5000 * "a", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd"])
def test_paths_outside_of_the_page(page, path):
    """Answer strange paths with an error status."""
    with socket.create_connection(("127.0.0.1", port_of(page))) as sock:
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port_of(page)}\r\n\r\n".encode())
        answer = b"".join(iter(lambda: sock.recv(4096), b""))

    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 404"))


@pytest.mark.parametrize(
    "updates",
    [
        {"removed": True}, {"disabled": True}, {"update_cb": []}, {"sync_cb": None}, {"props": {}}, {"uuid": "x"},
        {"is_button": True}, {"gui_api": None}, {"value": 1.5, "removed": True}, {"no such": 1}, {},
    ],
)  # fmt: skip
def test_clients_set_values_alone(page, caplog, updates):
    """Refuse other attributes of a control, which stays as it is for everybody."""
    control = page._deformation
    before = {name: getattr(control._impl, name) for name in vars(control._impl)}
    with client(page) as hostile, client(page) as other:
        update(hostile, control, **updates)
        settle(page, hostile)
        assert {name: getattr(control._impl, name) for name in vars(control._impl)} == before
        update(other, control, value=2.5)
        wait_for(lambda: control.value == 2.5, "the control to follow another client")

    assert len(refusals(caplog)) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("_deformation", value) for value in (-0.1, 3.1, 1e300, math.nan, math.inf, True, "1", None, [1], {}, 2**63)),
        *(("_method", value) for value in ("no such", "", 0, True, ["world"], 40000 * "x")),
        *(("_cut_clicks", value) for value in ("yes", 1, 0.0, None)),
    ],
)
def test_values_have_type_and_range(page, caplog, name, value):
    """Refuse values that the control cannot have."""
    control = getattr(page, name)
    before = control.value
    with client(page) as hostile:
        update(hostile, control, value=value)
        settle(page, hostile)

    assert control.value == before
    assert type(control.value) is type(before)
    assert len(refusals(caplog)) == 1


def test_whole_numbers_stay_whole(page, caplog):
    """Refuse a fraction where a slider has whole numbers, and take a whole number where it has fractions."""
    resolution = next(handle for handle in _controls(page) if handle.label == "Resolution")
    with client(page) as browser:
        update(browser, resolution, value=64.5)
        update(browser, resolution, value=128)
        wait_for(lambda: resolution.value == 128, "the resolution")

    assert len(refusals(caplog)) == 1


def _controls(page) -> list:
    return list(page._server.gui._gui_input_handle_from_uuid.values())


def test_disabled_and_unknown_controls(page, caplog):
    """Refuse a value for a control that is disabled or does not exist."""
    page._deformation.disabled = True
    before = page._deformation.value
    with client(page) as hostile:
        update(hostile, page._deformation, value=2.0)
        send(hostile, type="GuiUpdateMessage", uuid="no such", updates={"value": 2.0})
        settle(page, hostile)

    assert page._deformation.value == before
    assert len(refusals(caplog)) == 2


DRAG = {"type": "TransformControlsUpdateMessage", "name": "/drag", "wxyz": [1, 0, 0, 0], "position": [0, 0, 0]}
CLICK = {
    "type": "ScenePointerMessage", "event_type": "click", "ray_origin": [0, 0, 9], "ray_direction": [0, 0, -1],
    "screen_pos": [[0, 0]], "modifier": None,
}  # fmt: skip
GARBAGE = {
    "nothing": b"",
    "no msgpack": b"\xc1",
    "a truncated message": encode(CAMERA)[:-3],
    "more than a message": encode(CAMERA) + b"\x00",
    "text": "text",
    "no map": encode([1, 2]),
    "deep nesting": 60000 * b"\x91" + b"\x01",
    "deep maps": 20000 * b"\x81\xa1a" + b"\x01",
    "no type": encode({"uuid": "x"}),
    "a type that is no word": encode({"type": 3}),
    "an unknown type": encode({"type": "NoSuchMessage\n\x1b[31m"}),
    "bytes that are no text": encode({"type": "GuiUpdateMessage", "uuid": "XX"}).replace(b"XX", b"\xff\xfe"),
    "updates that are no map": encode({"type": "GuiUpdateMessage", "uuid": "x", "updates": 3}),
    "a tunnel": encode({"type": "ShareUrlRequest"}),
    "the end of a tunnel": encode({"type": "ShareUrlDisconnect"}),
    "a program": encode({"type": "RunJavascriptMessage", "source": "alert(1)"}),
    "a form": encode({"type": "GuiFormDirtyMessage", "uuid": "x"}),
    "an upload": encode({"type": "FileTransferPart", "source_component_uuid": None, "transfer_uuid": "x",
                         "part_index": 0, "content": b"x"}),
    "a view without fields": encode({"type": "ViewerCameraMessage"}),
    "a view of no size": encode({**CAMERA, "image_height": math.nan}),
    "a view of words": encode({**CAMERA, "position": ["x", "y", "z"]}),
    "a drag to nowhere": encode({**DRAG, "position": [math.nan, 0, 0]}),
    "a drag to infinity": encode({**DRAG, "position": [1e300, 0, 0]}),
    "a drag in two dimensions": encode({**DRAG, "position": [0, 0]}),
    "a turn by nothing": encode({**DRAG, "wxyz": [0, 0, 0, 0]}),
    "a long name": encode({**DRAG, "name": 40000 * "x"}),
    "an unknown field": encode({**DRAG, "excluded_self_client": 0}),
    "a click without a ray": encode({**CLICK, "ray_origin": None}),
    "a click nowhere": encode({**CLICK, "screen_pos": []}),
    "a rectangle": encode({**CLICK, "event_type": "rect-select"}),
}  # fmt: skip


@pytest.mark.parametrize("raw", GARBAGE.values(), ids=GARBAGE)
def test_garbage_is_one_line(page, caplog, raw):
    """Drop garbage with one line in the log; the client and others go on."""
    with client(page) as hostile, client(page) as other:
        hostile.send(raw)
        settle(page, hostile)
        settle(page, other)

    assert len(refusals(caplog)) == 1
    assert page._server._share_tunnel is None
    assert all(map(math.isfinite, page._gizmo.position))


def test_valid_forms_are_accepted(page, caplog):
    """Accept the messages that the garbage was made from."""
    with client(page) as browser:
        for message in (CAMERA, DRAG, CLICK):
            send(browser, **message)
        settle(page, browser)
        wait_for(page._server.get_clients, "the client to be registered")

    assert refusals(caplog) == []


def test_repeated_keys_carry_nothing_past_the_check(page, caplog):
    """Give viser each key once, with the value that was checked."""
    start = "TransformControlsDragStartMessage"
    twice = _map(("type", start), ("name", "/first"), ("name", "/drag"), ("owner", ""))
    assert PageGuard().checked(twice) == _map(("type", start), ("name", "/drag"), ("owner", ""))

    uuid = page._deformation._impl.uuid
    pairs = [("type", "GuiUpdateMessage"), ("uuid", uuid), ("updates", {"removed": True}), ("updates", {"value": 2.0})]
    with client(page) as hostile:
        for order in (pairs, [*pairs[:2], pairs[3], pairs[2]], [*pairs, ("type", "ShareUrlRequest")]):
            hostile.send(_map(*order))
        settle(page, hostile)

    assert not page._deformation._impl.removed
    assert len(refusals(caplog)) == 3


def _map(*pairs: tuple[str, object]) -> bytes:
    """A map of these pairs in this order, whose keys may repeat."""
    return bytes([0x80 + len(pairs)]) + b"".join(encode(key) + encode(value) for key, value in pairs)


def test_long_messages_close_their_connection(page, caplog):
    """Close the connection of a client that sends too much, with one line; others go on."""
    with client(page) as hostile, client(page) as other:
        hostile.send(bytes(MESSAGE_BYTES + 1))
        with pytest.raises(ConnectionClosedError) as closed:
            list(iter(partial(hostile.recv, PATIENCE_S), None))
        assert closed.value.rcvd.code == 1009
        settle(page, other)
    wait_for(lambda: refusals(caplog), "the line")

    assert len(refusals(caplog)) == 1
    assert str(MESSAGE_BYTES) in refusals(caplog)[0]


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"\xff\xff\xff\xff\xff\xff", 1002),
        (b"\x82\x01\x00", 1002),  # not masked
        (b"\x81\x82\x00\x00\x00\x00\xff\xfe", 1007),  # text that is not UTF-8
        (b"\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00", 1009),  # announces 2^63 bytes
    ],
)
def test_broken_frames_close_their_connection(page, caplog, frame, code):
    """Close the connection of a client that breaks the protocol, with one line; others go on."""
    with client(page) as hostile, client(page) as other:
        hostile.socket.sendall(frame)
        with pytest.raises(ConnectionClosedError) as closed:
            list(iter(partial(hostile.recv, PATIENCE_S), None))
        assert closed.value.rcvd.code == code
        settle(page, other)
    wait_for(lambda: refusals(caplog), "the line")

    assert len(refusals(caplog)) == 1


def test_floods_of_garbage_fill_no_log(page, caplog):
    """Log a limited number of lines per connection, the last of which says so."""
    with client(page) as hostile:
        for _ in range(3 * LINES):
            hostile.send(b"\xc1")
        settle(page, hostile)

    assert len(refusals(caplog)) == LINES
    assert "other messages" in refusals(caplog)[-1]
    assert "other messages" not in refusals(caplog)[-2]


def test_page_is_not_served_without_its_guard():
    """Raise if viser opens its server in another way."""
    with pytest.raises(ImpingeError, match="cannot be guarded; install the version"), guarded("127.0.0.1"):
        pass


def test_other_servers_are_not_guarded():
    """Leave servers alone that the process opens while viser starts, and the function that opens them."""
    plain = websockets.asyncio.server.serve

    async def answer(connection) -> None:
        await connection.send("hello")

    async def run() -> str:
        with pytest.raises(ImpingeError), guarded("127.0.0.1"):
            server = await websockets.asyncio.server.serve(answer, "127.0.0.1", 0)
        try:
            port = server.sockets[0].getsockname()[1]
            async with connect(f"ws://127.0.0.1:{port}", origin="http://evil.example", proxy=None) as opened:
                return str(await opened.recv())
        finally:
            server.close()
            await server.wait_closed()

    assert asyncio.run(run()) == "hello"
    assert websockets.asyncio.server.serve is plain
