"""The hub's client, and reading one FederatedHPA, for the commands that talk to a hub."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fedhpa.api.errors import ApiError, ConfigError

if TYPE_CHECKING:
    from fedhpa.kube import ApiClient

KINDS = ("fhpa", "federatedhpa", "federatedhpas", "federatedhpa.autoscaling.karmada.io")
API_VERSION = "autoscaling.karmada.io/v1alpha1"
DEADLINE_SECONDS = 10.0


def parse_target(text: str) -> str:
    """Returns the name in `fhpa/NAME` or NAME. Raises ConfigError for another kind."""
    kind, separator, name = text.rpartition("/")
    if not name or (separator and kind.lower() not in KINDS):
        raise ConfigError(f"{text!r}: expected fhpa/NAME")
    return name


@asynccontextmanager
async def hub_client(kubeconfig: str, context: str) -> AsyncIterator[tuple[ApiClient, str]]:
    """Yields the hub's client and the namespace of the kubeconfig's context."""
    from fedhpa.kube import ApiClient, load_config

    _log_errors_only()
    config = await load_config(kubeconfig or None, context or None)
    async with ApiClient(config) as hub:
        yield hub, config.namespace


def _log_errors_only() -> None:
    """Sends errors to stderr and drops all other log lines, which are meant for processes."""
    import logging

    import structlog

    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


async def find_object(hub: ApiClient, namespace: str, name: str) -> dict[str, Any] | None:
    """Returns the FederatedHPA; None if it does not exist. Raises ConfigError if it cannot be read."""
    from fedhpa.kube import NOT_FOUND, resource_path

    try:
        return await hub.get_json(
            resource_path(API_VERSION, "federatedhpas", namespace, name), deadline=DEADLINE_SECONDS
        )
    except ApiError as error:
        if error.status == NOT_FOUND:
            return None
        raise ConfigError(f"cannot read FederatedHPA {namespace}/{name}: {error}") from error


async def read_object(hub: ApiClient, namespace: str, name: str, *, named: bool = True) -> dict[str, Any]:
    """Returns the FederatedHPA. Raises ConfigError if it cannot be read or does not exist.

    `named` is True if the user gave the namespace; without it, the message suggests -n.
    """
    found = await find_object(hub, namespace, name)
    if found is None:
        hint = "" if named else ": name its namespace with -n"
        raise ConfigError(f"FederatedHPA {namespace}/{name} not found{hint}")
    return found
