"""The address of the live page, and the requests that name it.

A browser sends the name of the server in ``Host`` and the page that makes the request in ``Origin``. Both are checked:

Host     is a loopback name or the address served, with the port served. A foreign name that resolves to this computer
         (DNS rebinding) is none of them. A page served at all addresses (0.0.0.0, ::) also accepts the name of the
         computer and any numeric address, which cannot be rebound.
Origin   is the page itself: the address in ``Host``, a loopback name or the address served, by plain http. Requests
         without one do not come from a page of another site and are accepted.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Sequence

from impinge.errors import OptionError

AUTHORITY = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\[\]:/?#@\s]+))(?::([0-9]{1,5}))?", re.IGNORECASE)
"""A numeric IPv6 address in brackets, or another host; then an optional port."""
HTTP_PORT = 80


def is_loopback(host: str) -> bool:
    """Whether only this computer can reach the address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_address(host: str, port: int) -> int:
    """Return the port, a free one for 0; raise ``OptionError`` where the address cannot be served."""
    if not 0 <= port <= 65535:
        raise OptionError(f"port is {port}, expected a number from 0 (any free port) to 65535")
    try:
        family, kind, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            return int(probe.getsockname()[1])
    except OSError as error:
        raise OptionError(
            f"the page cannot be served at {host} port {port} ({error.strerror or error}); choose another port with "
            f"--port, or omit --host to serve this computer alone"
        ) from error


class PageAddress:
    """The names of a served page."""

    def __init__(self, host: str) -> None:
        served = {str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
        self._is_everywhere = any(ipaddress.ip_address(name).is_unspecified for name in served)
        self._names = {host.lower(), *served, *([socket.gethostname().lower()] if self._is_everywhere else [])}

    def refusal(self, hosts: Sequence[str], origins: Sequence[str], port: int) -> str | None:
        """Why a request to ``port`` with these headers is not one of this page; None if it is."""
        if len(hosts) != 1 or not self._is_named(hosts[0], port, numeric=self._is_everywhere):
            return f"Host is {', '.join(hosts) or 'missing'}, expected the address of the page"
        for origin in origins:
            scheme, _, authority = origin.partition("://")
            is_same = authority.lower() == hosts[0].lower()
            if scheme.lower() != "http" or not (is_same or self._is_named(authority, port, numeric=False)):
                return f"Origin is {origin}, expected the page itself"
        return None

    def _is_named(self, authority: str, port: int, *, numeric: bool) -> bool:
        """Whether an authority is the page's; with ``numeric``, any numeric address is."""
        found = AUTHORITY.fullmatch(authority)
        if found is None or int(found[3] or HTTP_PORT) != port:
            return False
        host = (found[1] or found[2]).lower()
        try:
            if numeric and ipaddress.ip_address(host):
                return True
        except ValueError:
            pass
        return is_loopback(host) or host in self._names
