"""Free ports on the loop-back."""

import random
import socket

# Below the range from which Linux gives ports to outgoing connections: a server that is stopped and started
# again must find its port free.
FIRST, LAST = 20000, 30000

_given: set[int] = set()


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on and that this process has not given out before."""
    candidates = [port for port in range(FIRST, LAST) if port not in _given]
    random.SystemRandom().shuffle(candidates)
    for port in candidates:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        return port
    raise OSError(f"no free port of 127.0.0.1 between {FIRST} and {LAST}")
