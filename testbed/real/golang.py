"""The go command: which one is used, and whether it can build the planes at all."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

# Go 1.27's encoding/json makes kube-apiserver 1.36 answer 503 on /openapi/v2 while /readyz says ok, and
# then `kubectl apply` fails; the modules themselves ask for at least 1.26.
SUPPORTED = "1.26"
TOOLCHAIN = "go1.26.8"

REMEDY = (
    f"install Go {SUPPORTED} (https://go.dev/dl/) so that `go version` works, "
    "or point KUBEBUILDER_ASSETS at a folder that holds the missing programs"
)


class GoUnusable(Exception):
    """No go command, or one that cannot build the planes; the message names the remedy."""


@dataclass(frozen=True)
class Go:
    """A go command that was asked for its version, and the environment to run it in."""

    command: str
    version: str
    environment: dict[str, str]


def find_go() -> Go:
    """The go command of PATH, proved to be Go 1.26.

    Another Go (1.21 or later) is asked to fetch the 1.26 toolchain itself, which is what GOTOOLCHAIN is
    for, unless the user's GOTOOLCHAIN says which one to use. Raises GoUnusable.
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
    """What `go version` calls itself, or "" if it does not run."""
    try:
        answer = subprocess.run(
            [command, "version"], env=environment, capture_output=True, text=True, timeout=300, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    found = re.search(r"\b(go\d+\.\d+\S*)", answer.stdout)
    return found.group(1) if found else ""
