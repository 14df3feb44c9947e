"""The API server that a check runs against."""

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
    """How to reach an API server as which user. Checks may write to `folder`."""

    server: str
    # With a client certificate of system:masters, with one of LIMITED, and without one.
    admin: ssl.SSLContext
    limited: ssl.SSLContext
    nobody: ssl.SSLContext
    # The administrator's kubeconfig.
    kubeconfig: Path
    folder: Path
    kubectl: Path | None = None
    # Of a member cluster with a metrics API, for `kubectl top`.
    member_kubeconfig: Path | None = None
    # Seconds to wait for asynchronous effects, such as a new webhook or role.
    patience: float = 60.0
    # Makes all versions up to now too old for a watch. Real servers have no such function.
    forget_history: Callable[[], object] = lambda: None


def kubectl_version(kubectl: Path) -> str:
    """Returns the output of `kubectl version`."""
    command = [str(kubectl), "version", "--client"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    return answer.stdout


def find_kubectl() -> Path | None:
    """Returns the kubectl of the real plane's programs, or the one on PATH."""
    own = find_program("kubectl")
    if own is not None:
        return own
    found = shutil.which("kubectl")
    return Path(found) if found else None
