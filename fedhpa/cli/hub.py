"""What the commands that talk to a hub share: its client, and reading one FederatedHPA."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedhpa.api.errors import ApiError, ConfigError

if TYPE_CHECKING:
    from fedhpa.kube.client import ApiClient

KINDS = ("fhpa", "federatedhpa", "federatedhpas", "federatedhpa.autoscaling.karmada.io")
API_VERSION = "autoscaling.karmada.io/v1alpha1"
DEADLINE_SECONDS = 10.0

Namespace = Annotated[str, typer.Option("-n", "--namespace", help="Its namespace; default the context's.")]
Kubeconfig = Annotated[str, typer.Option("--kubeconfig", help="The hub's kubeconfig.")]
Context = Annotated[str, typer.Option("--context", help="A context of the kubeconfig.")]
Propagation = Annotated[
    str,
    typer.Option(
        "--propagation", help="The controller's (karmada or direct); default what its last decision says."
    ),
]

MetricsVia = Annotated[
    str, typer.Option("--metrics-via", help="The controller's (members or hub); default members.")
]


def parse_target(text: str) -> str:
    """The name in `fhpa/NAME` or NAME. ConfigError for another kind."""
    kind, separator, name = text.rpartition("/")
    if not name or (separator and kind.lower() not in KINDS):
        raise ConfigError(f"{text!r}: expected fhpa/NAME")
    return name


@asynccontextmanager
async def hub_client(kubeconfig: str, context: str) -> AsyncIterator[tuple[ApiClient, str]]:
    """The hub's client and the context's namespace."""
    from fedhpa.kube.client import ApiClient
    from fedhpa.kube.config import load_config

    _quiet()
    config = await load_config(kubeconfig or None, context or None)
    async with ApiClient(config) as hub:
        yield hub, config.namespace


def _quiet() -> None:
    """Standard output is for data: what processes log is of no interest here but for errors."""
    import logging

    import structlog

    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


async def find_object(hub: ApiClient, namespace: str, name: str) -> dict[str, Any] | None:
    """The FederatedHPA, None if there is none. ConfigError if it cannot be read."""
    from fedhpa.kube.paths import resource_path
    from fedhpa.kube.responses import NOT_FOUND

    try:
        return await hub.get_json(
            resource_path(API_VERSION, "federatedhpas", namespace, name), deadline=DEADLINE_SECONDS
        )
    except ApiError as error:
        if error.status == NOT_FOUND:
            return None
        raise ConfigError(f"cannot read FederatedHPA {namespace}/{name}: {error}") from error


async def read_object(hub: ApiClient, namespace: str, name: str, *, named: bool = True) -> dict[str, Any]:
    """The FederatedHPA. ConfigError if it cannot be read; `named` says that the user gave the namespace."""
    found = await find_object(hub, namespace, name)
    if found is None:
        hint = "" if named else ": name its namespace with -n"
        raise ConfigError(f"FederatedHPA {namespace}/{name} not found{hint}")
    return found
