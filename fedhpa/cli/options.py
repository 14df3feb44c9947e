"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fedhpa.api.errors import ConfigError

Namespace = Annotated[
    str, typer.Option("-n", "--namespace", help="Namespace; if not set, that of the kubeconfig's context.")
]
Kubeconfig = Annotated[
    str, typer.Option("--kubeconfig", help="Kubeconfig of the hub; if not set, as kubectl finds it.")
]
Context = Annotated[
    str, typer.Option("--context", help="Context of the kubeconfig; if not set, its current context.")
]
Propagation = Annotated[
    str,
    typer.Option(
        "--propagation",
        help="The controller's --propagation (karmada or direct); if not set, that of the last decision.",
    ),
]
MetricsVia = Annotated[
    str,
    typer.Option(
        "--metrics-via", help="The controller's --metrics-via (members or hub); if not set, members."
    ),
]


class JsonOrText(StrEnum):
    """The output formats of most commands."""

    JSON = "json"
    TEXT = "text"


def read_certificates(option: str, path: Path) -> bytes:
    """Returns the PEM file that an option names. Raises ConfigError that names option and file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{option}={path}: cannot be read: {error.strerror}") from error
    if b"BEGIN CERTIFICATE" not in content:
        raise ConfigError(f"{option}={path}: expected a PEM certificate")
    return content
