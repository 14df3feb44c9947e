"""Addresses of members that an object of somebody else names, and the patterns that they must match.

Whoever writes such an object directs the credentials of its member. So only https counts, addresses of this
machine and its link do not, and an administrator may say which servers are meant.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from fedhpa.api.errors import InvalidObject
from fedhpa.kube.config import check_proxy, is_local_address
from fedhpa.members.cluster import parts_of

MAX_URL: Final = 2048
MAX_PATTERNS: Final = 64
# `localhost` and its like resolve on this machine, whatever the DNS of the hub says.
_LOCAL_NAME: Final = re.compile(r"(.+\.)?localhost\.?|localhost\.localdomain\.?", re.IGNORECASE)
_HTTPS: Final = 443


class ServerPattern:
    """HOST, *.DOMAIN or a network such as 10.0.0.0/8, with or without :PORT. Raises InvalidObject."""

    def __init__(self, text: str) -> None:
        self.text = text
        bare = text.removeprefix("https://")
        host, port = bare, ""
        if match := re.fullmatch(r"(.*?):(\d{1,5})", bare):
            # An IPv6 address without brackets is all host.
            host, port = (
                (match[1], match[2]) if match[1].count(":") == 0 or match[1].endswith("]") else (bare, "")
            )
        self._port = int(port) if port else None
        host = host.strip("[]").lower()
        self._network: ipaddress.IPv4Network | ipaddress.IPv6Network | None = None
        try:
            self._network = ipaddress.ip_network(host)
        except ValueError as error:
            labels = host.removeprefix("*.")
            if not re.fullmatch(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?", labels) or "*" in labels:
                raise InvalidObject(
                    f"{text[:100]!r} is no pattern of servers: write HOST, *.DOMAIN or a network such as "
                    "10.0.0.0/8, each with :PORT if you like"
                ) from error
        self._host = host

    def matches(self, host: str, port: int) -> bool:
        """True for a server of this host and port."""
        if self._port not in (None, port):
            return False
        if self._network is not None:
            try:
                return ipaddress.ip_address(host) in self._network
            except ValueError:
                return False
        host = host.lower().rstrip(".")
        if self._host.startswith("*."):
            return host.endswith(self._host[1:]) and host != self._host[2:]
        return host == self._host

    @property
    def names_local(self) -> bool:
        """True if the pattern is itself an address of this machine or its link."""
        if self._network is None:
            return bool(_LOCAL_NAME.fullmatch(self._host))
        return self._network.num_addresses == 1 and is_local_address(str(self._network.network_address))


def patterns_of(texts: object, where: str) -> tuple[ServerPattern, ...]:
    """Returns the patterns in a list. Raises InvalidObject that names the field."""
    if not isinstance(texts, list | tuple) or len(texts) > MAX_PATTERNS:
        raise InvalidObject(f"{where}: expected at most {MAX_PATTERNS} patterns")
    return tuple(ServerPattern(str(text)) for text in texts)


def checked_server(url: str, patterns: tuple[ServerPattern, ...], field: str, where: str) -> tuple[str, bool]:
    """Returns the address of a member, and whether names that resolve to local addresses are refused.

    `field` has the address, and `where` has the `patterns`; without any, all servers are meant. Raises
    InvalidObject.
    """
    url = url.rstrip("/")
    host, port = _place(url, field, secure=True)
    matching = [one for one in patterns if one.matches(host, port)]
    if patterns and not matching:
        raise InvalidObject(f"{field} {host}:{port} matches no pattern of {where}: correct one of them")
    local = any(one.names_local for one in matching)
    if not local:
        _refuse_local(host, field)
    return url, not local


def checked_proxy(url: str, field: str) -> str | None:
    """Returns the proxy of a member; None for "". Raises InvalidObject."""
    if not url:
        return None
    host, _ = _place(url, field, secure=False)
    _refuse_local(host, field)
    return check_proxy(url)


def _place(url: str, field: str, *, secure: bool) -> tuple[str, int]:
    if len(url) > MAX_URL:
        raise InvalidObject(f"{field} is too long")
    parts = parts_of(url, field)
    if secure and parts.scheme != "https":
        raise InvalidObject(f"{field} is {parts.scheme}, which would show the credentials: use https")
    return parts.hostname or "", parts.port or _HTTPS


def _refuse_local(host: str, field: str) -> None:
    if is_local_address(host) or _LOCAL_NAME.fullmatch(host):
        raise InvalidObject(
            f"{field} {host} is this machine or its link, where another server than a member's may answer: "
            "write an address that other machines reach"
        )
