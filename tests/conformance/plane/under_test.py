"""The API server that a check talks to, whichever it is."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from testbed.real.assets import find_program

# The user of the client certificate without any rights.
LIMITED = "conformance-limited"


@dataclass(frozen=True)
class PlaneUnderTest:
    """How to reach one API server and as whom. `folder` may be written to; it is the plane's own."""

    server: str
    ca_pem: bytes
    # A client certificate of system:masters, one of LIMITED, none.
    admin: ssl.SSLContext
    limited: ssl.SSLContext
    nobody: ssl.SSLContext
    # kubectl's way in, for the administrator.
    kubeconfig: Path
    folder: Path
    # None where there is none; with a member cluster whose metrics API works for `kubectl top`.
    kubectl: Path | None = None
    member_kubeconfig: Path | None = None
    # Seconds for what the plane does in its own time, such as noticing a webhook or a role.
    patience: float = 60.0
    # Makes versions up to now too old for a watch. A real server cannot be told to.
    forget_history: Callable[[], object] = lambda: None


def kubectl_version(kubectl: Path) -> str:
    """What it says its version is; "" if it says nothing."""
    command = [str(kubectl), "version", "--client"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    return answer.stdout


def find_kubectl() -> Path | None:
    """The kubectl of a real plane's programs, else the one on PATH."""
    own = find_program("kubectl")
    if own is not None:
        return own
    found = shutil.which("kubectl")
    return Path(found) if found else None
