"""Finds a go command that can build the planes."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

# Built with Go 1.27, kube-apiserver 1.36 answers 503 for /openapi/v2 (encoding/json), and `kubectl apply`
# fails, while /readyz reports ok. The modules need at least Go 1.26.
SUPPORTED = "1.26"
TOOLCHAIN = "go1.26.8"

REMEDY = (
    f"install Go {SUPPORTED} (https://go.dev/dl/) so that `go version` works, "
    "or set KUBEBUILDER_ASSETS to a folder that has the missing programs"
)


class GoUnusable(Exception):
    """There is no usable go command. The message names the remedy."""


@dataclass(frozen=True)
class Go:
    """A go command with its version and environment."""

    command: str
    version: str
    environment: dict[str, str]


def find_go() -> Go:
    """Returns the go command of PATH, if it is Go 1.26 or can fetch it.

    Any Go from 1.21 downloads the 1.26 toolchain if GOTOOLCHAIN names it. A GOTOOLCHAIN of the user is kept.
    Raises GoUnusable.
    """
    command = shutil.which("go")
    if command is None:
        raise GoUnusable(f"there is no go command in PATH; {REMEDY}")
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    local = _version(command, {**environment, "GOTOOLCHAIN": "local"})
    if _supported(local):
        return Go(command, local, {**environment, "GOTOOLCHAIN": "local"})
    if "GOTOOLCHAIN" not in os.environ:
        environment["GOTOOLCHAIN"] = TOOLCHAIN
    used = _version(command, environment)
    if _supported(used):
        return Go(command, used, environment)
    raise GoUnusable(
        f"{Path(command)} is {used or 'not working'}, but the planes need Go {SUPPORTED}; {REMEDY}"
    )


def _supported(version: str) -> bool:
    return version == f"go{SUPPORTED}" or version.startswith((f"go{SUPPORTED}.", f"go{SUPPORTED}-"))


def _version(command: str, environment: dict[str, str]) -> str:
    """Returns the version that `go version` prints, or "" if it fails."""
    try:
        answer = subprocess.run(
            [command, "version"], env=environment, capture_output=True, text=True, timeout=300, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    found = re.search(r"\b(go\d+\.\d+\S*)", answer.stdout)
    return found.group(1) if found else ""
