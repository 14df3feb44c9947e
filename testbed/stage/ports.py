"""Free ports on the loop-back, which stay this process's until it ends.

A server is started seconds after its port was chosen, and may be stopped and started again: meanwhile another
process must not choose the same. So each port stays bound here by a socket that never listens, beside which
Linux lets a server bind that sets SO_REUSEADDR, as Go, asyncio and uvloop do.
"""

import random
import socket

# Below the range from which Linux gives ports to outgoing connections: a server that is stopped and started
# again must find its port free.
FIRST, LAST = 20000, 30000

# Their descriptors; the kernel closes them when this process ends, and no child inherits them.
_given: dict[int, int] = {}


def free_port() -> int:
    """A port of 127.0.0.1 that nobody has and that this process has not given out before."""
    candidates = [port for port in range(FIRST, LAST) if port not in _given]
    random.SystemRandom().shuffle(candidates)
    for port in candidates:
        try:
            _given[port] = held(port).detach()
        except OSError:
            continue
        return port
    raise OSError(f"no free port of 127.0.0.1 between {FIRST} and {LAST}")


def held(port: int = 0) -> socket.socket:
    """A socket that keeps a port of 127.0.0.1, or any free one, for its owner's servers until it is closed.

    Raises OSError if somebody has the port.
    """
    place = socket.socket()
    try:
        # Without SO_REUSEADDR it would not do beside another process's choice.
        place.bind(("127.0.0.1", port))
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except OSError:
        place.close()
        raise
    return place
