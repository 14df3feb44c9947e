"""The hub's client, and reading one FederatedHPA, for the commands that talk to a hub."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fedhpa.api.errors import ApiError, ConfigError
from fedhpa.api.names import dns_subdomain

if TYPE_CHECKING:
    from fedhpa.kube import ApiClient

KINDS = ("fhpa", "federatedhpa", "federatedhpas", "federatedhpa.autoscaling.karmada.io")
CRON_KINDS = (
    "cronfhpa",
    "cronfederatedhpa",
    "cronfederatedhpas",
    "cronfederatedhpa.autoscaling.karmada.io",
)
API_VERSION = "autoscaling.karmada.io/v1alpha1"
DEADLINE_SECONDS = 10.0
# Statuses of ApiError; 0 is that of a request without an answer.
NO_ANSWER, UNAUTHORIZED, FORBIDDEN = 0, 401, 403
# The message of a 404 that is about the API and not about one object.
NOT_SERVED = "the server could not find the requested resource"


def parse_target(text: str) -> str:
    """Returns the name in `fhpa/NAME` or NAME. Raises ConfigError for another kind, and for no name."""
    kind, separator, name = text.rpartition("/")
    if dns_subdomain(name) or (separator and kind.lower() not in KINDS):
        raise ConfigError(f"{text[:300]!r}: expected fhpa/NAME, the name of a FederatedHPA")
    return name


def joined(target: str, name: str) -> str:
    """Returns KIND/NAME of `KIND NAME`, the form of kubectl; `target` alone without a name."""
    return f"{target}/{name}" if name else target


def expanded(targets: Sequence[str]) -> list[str]:
    """Returns each target as KIND/NAME, also where one kind stands before the names, as for kubectl."""
    kind, *found = targets or [""]
    return [f"{kind}/{name}" for name in found] if kind.lower() in (*KINDS, *CRON_KINDS) else list(targets)


def names_cron(text: str) -> bool:
    """True for `cronfhpa/NAME`, which is no FederatedHPA."""
    return text.rpartition("/")[0].lower() in CRON_KINDS


def parse_cron_target(text: str) -> str:
    """Returns the name in `cronfhpa/NAME` or NAME. Raises ConfigError for another kind, and for no name."""
    kind, separator, name = text.rpartition("/")
    if dns_subdomain(name) or (separator and kind.lower() not in CRON_KINDS):
        raise ConfigError(f"{text[:300]!r}: expected cronfhpa/NAME, the name of a CronFederatedHPA")
    return name


def hub_error(action: str, error: ApiError) -> ConfigError:
    """Returns the error of a request to the hub, with the remedy. `action` says what was not done."""
    if error.status == UNAUTHORIZED:
        remedy = "log in again, or correct --kubeconfig or --context"
    elif error.status == FORBIDDEN:
        remedy = "ask an administrator of the hub for this right, or choose another --context"
    elif error.status == NO_ANSWER:
        remedy = "check --kubeconfig and --context, and the hub with: kubectl cluster-info"
    else:
        remedy = "run the command again, and look into the hub's log if it fails again"
    return ConfigError(f"{action}: {error}: {remedy}")


@asynccontextmanager
async def hub_client(kubeconfig: str, context: str) -> AsyncIterator[tuple[ApiClient, str]]:
    """Yields the hub's client and the namespace of the kubeconfig's context."""
    from fedhpa.kube import SYSTEM, ApiClient, load_config

    _log_errors_only()
    config = await load_config(kubeconfig or None, context or None, clock=SYSTEM)
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


async def find_object(
    hub: ApiClient, namespace: str, name: str, kind: str = "FederatedHPA"
) -> dict[str, Any] | None:
    """Returns an object of our kinds; None if it does not exist. Raises ConfigError if it cannot be read."""
    from fedhpa.kube import NOT_FOUND, resource_path

    try:
        return await hub.get_json(
            resource_path(API_VERSION, f"{kind.lower()}s", namespace, name), deadline=DEADLINE_SECONDS
        )
    except ApiError as error:
        if error.status == NOT_FOUND and NOT_SERVED not in str(error):
            return None
        action = f"cannot read {kind} {namespace}/{name}"
        if error.status == NOT_FOUND:
            raise ConfigError(
                f"{action}: the hub does not serve {kind}s: choose another --context, or install them "
                "with: fedhpa crds | kubectl apply -f -"
            ) from error
        raise hub_error(action, error) from error


async def read_object(
    hub: ApiClient, namespace: str, name: str, *, named: bool = True, kind: str = "FederatedHPA"
) -> dict[str, Any]:
    """Returns an object of our kinds. Raises ConfigError if it cannot be read or does not exist.

    `named` is True if the user gave the namespace; without it, the message suggests -n.
    """
    found = await find_object(hub, namespace, name, kind)
    if found is None:
        hint = "" if named else ": name its namespace with -n"
        raise ConfigError(f"{kind} {namespace}/{name} not found{hint}")
    return found
