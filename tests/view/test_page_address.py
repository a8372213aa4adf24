"""Names of the live page in requests."""

from __future__ import annotations

import socket

import pytest

import impinge
from impinge.view.page_address import PageAddress, check_address, is_loopback


@pytest.mark.parametrize(
    ("host", "alone"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("host", False)]
)
def test_loopback_addresses(host, alone):
    """Distinguish loopback addresses from others."""
    assert is_loopback(host) is alone


def test_bad_addresses_are_refused():
    """Reject invalid ports and foreign addresses."""
    with pytest.raises(impinge.OptionError, match="port is 70000, expected"):
        check_address("127.0.0.1", 70000)
    with pytest.raises(impinge.OptionError, match=r"cannot be served at 192\.0\.2\.1 port 8765"):
        check_address("192.0.2.1", 8765)


@pytest.mark.parametrize(
    ("served", "host", "port", "accepted"),
    [
        ("127.0.0.1", "localhost:8765", 8765, True),
        ("127.0.0.1", "127.0.0.2:8765", 8765, True),
        ("127.0.0.1", "[::1]:8765", 8765, True),
        ("127.0.0.1", "localhost", 80, True),
        ("127.0.0.1", "localhost", 8765, False),
        ("127.0.0.1", "192.0.2.1:8765", 8765, False),
        ("127.0.0.1", "localhost:8765:8765", 8765, False),
        ("127.0.0.1", "localhost:99999999", 8765, False),
        ("127.0.0.1", "", 80, False),
        ("127.0.0.1", "::1", 80, False),
        ("192.0.2.1", "192.0.2.1:8765", 8765, True),
        ("192.0.2.1", "192.0.2.2:8765", 8765, False),
        ("192.0.2.1", "127.0.0.1:8765", 8765, True),
        ("192.0.2.1", f"{socket.gethostname()}.example:8765", 8765, False),
        ("0.0.0.0", "192.0.2.2:8765", 8765, True),
        ("0.0.0.0", f"{socket.gethostname()}:8765", 8765, True),
        ("0.0.0.0", "evil.example:8765", 8765, False),
        ("::", "[2001:db8::1]:8765", 8765, True),
        ("::", "evil.example:8765", 8765, False),
    ],
)
def test_hosts_of_requests(served, host, port, accepted):
    """Accept loopback names, the address served, and every numeric address where all are served."""
    reason = PageAddress(served).refusal([host], [], port)

    assert (reason is None) is accepted
    assert accepted or f"Host is {host or ''}" in str(reason)


@pytest.mark.parametrize(
    ("origins", "accepted"),
    [
        ([], True),
        (["http://192.0.2.2:8765"], True),
        (["HTTP://192.0.2.2:8765"], True),
        (["http://localhost:8765"], True),
        (["http://192.0.2.3:8765"], False),
        (["https://192.0.2.2:8765"], False),
        (["http://192.0.2.2"], False),
        (["http://192.0.2.2:8765", "http://evil.example"], False),
        (["null"], False),
        ([""], False),
    ],
)
def test_origins_of_requests(origins, accepted):
    """Accept the page itself alone, also where every numeric address is served."""
    reason = PageAddress("0.0.0.0").refusal(["192.0.2.2:8765"], origins, 8765)

    assert (reason is None) is accepted
    assert accepted or "Origin is" in str(reason)


@pytest.mark.parametrize("hosts", [[], ["localhost:8765", "localhost:8765"], ["localhost:8765", "evil.example"]])
def test_one_host_is_expected(hosts):
    """Refuse requests without a host, or with several."""
    assert "Host is" in str(PageAddress("127.0.0.1").refusal(hosts, [], 8765))
