"""Free loopback ports, reserved until this process ends.

A server starts seconds after its port is chosen, and may be restarted. No other process may take the port in
between. So a socket that never listens stays bound to each port. Linux still lets a server bind the port if
the server sets SO_REUSEADDR, as Go, asyncio and uvloop do.
"""

import random
import socket

# Below the range that Linux uses for outgoing connections, so that a restarted server finds its port free.
FIRST, LAST = 20000, 30000

# Port -> descriptor of its socket. The kernel closes them when this process ends; children inherit none.
_reserved: dict[int, int] = {}


def free_port() -> int:
    """Returns an unused port of 127.0.0.1 that this process has not returned before."""
    candidates = [port for port in range(FIRST, LAST) if port not in _reserved]
    random.SystemRandom().shuffle(candidates)
    for port in candidates:
        try:
            _reserved[port] = held(port).detach()
        except OSError:
            continue
        return port
    raise OSError(f"no free port of 127.0.0.1 between {FIRST} and {LAST}")


def held(port: int = 0) -> socket.socket:
    """Returns a socket that reserves a port of 127.0.0.1, by default any free one, until it is closed.

    Raises OSError if the port is in use.
    """
    place = socket.socket()
    try:
        # Binding without SO_REUSEADDR fails if another process has reserved the port.
        place.bind(("127.0.0.1", port))
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except OSError:
        place.close()
        raise
    return place
