"""The hub's client, and reading one FederatedHPA, for the commands that talk to a hub."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final

from fedhpa.api.errors import ApiError, ConfigError
from fedhpa.api.names import dns_subdomain

if TYPE_CHECKING:
    from fedhpa.kube import ApiClient
    from fedhpa.members import Cluster

# The short name of each kind. People may also write its name and its plural, as for kubectl.
SHORT: Final = {"FederatedHPA": "fhpa", "CronFederatedHPA": "cronfhpa"}
_KINDS: Final = {
    word: kind
    for kind, short in SHORT.items()
    for lower in (kind.lower(),)
    for word in (short, lower, f"{lower}s", f"{lower}.autoscaling.karmada.io")
}
API_VERSION = "autoscaling.karmada.io/v1alpha1"
DEADLINE_SECONDS = 10.0
HUB, MEMBER = "the hub", "the member"
# The options by which a person chooses each side.
OPTIONS: Final = {
    HUB: ("--kubeconfig", "--context"),
    MEMBER: ("--cluster-kubeconfig", "--cluster-context"),
}
# Statuses of ApiError; 0 is that of a request without an answer.
NO_ANSWER, UNAUTHORIZED, FORBIDDEN, ABSENT = 0, 401, 403, 404
# The message of a 404 that is about the API and not about one object.
NOT_SERVED = "the server could not find the requested resource"


def kind_of(word: str) -> str:
    """Returns the kind that a person names; "" for none of ours."""
    return _KINDS.get(word.lower(), "")


def parse_target(text: str, kind: str = "FederatedHPA") -> str:
    """Returns the name in KIND/NAME or NAME. Raises ConfigError for another kind, and for no name."""
    before, separator, name = text.rpartition("/")
    if dns_subdomain(name) or (separator and kind_of(before) != kind):
        raise ConfigError(f"{text[:300]!r}: expected {SHORT[kind]}/NAME, the name of a {kind}")
    return name


def parse_any_target(text: str, default: str = "") -> tuple[str, str]:
    """Returns kind and name in KIND/NAME, or in NAME with a `default` kind. Raises ConfigError."""
    before, separator, name = text.rpartition("/")
    kind = kind_of(before) if separator else default
    if not kind or dns_subdomain(name):
        raise ConfigError(f"{text[:300]!r}: expected fhpa/NAME or cronfhpa/NAME")
    return kind, name


def joined(target: str, name: str) -> str:
    """Returns KIND/NAME of `KIND NAME`, the form of kubectl; `target` alone without a name.

    Raises ConfigError for a kind alone.
    """
    if not name and kind_of(target):
        raise ConfigError(f"{target}: expected a NAME after it")
    return f"{target}/{name}" if name else target


def expanded(targets: Sequence[str]) -> list[str]:
    """Returns each target as KIND/NAME, also where one kind stands before the names, as for kubectl."""
    kind, *found = targets or [""]
    return [f"{kind}/{name}" for name in found] if kind_of(kind) else list(targets)


def hub_error(action: str, error: ApiError, side: str = HUB) -> ConfigError:
    """Returns the error of a request to a side, with the remedy. `action` says what was not done."""
    kubeconfig, context = OPTIONS[side]
    action = action if side == HUB else f"{side}: {action}"
    if NOT_SERVED in str(error):
        remedy = f"choose another {context}, or see how to install it with: fedhpa doctor"
        return ConfigError(f"{action}: {side} does not serve this kind: {remedy}")
    remedies = {
        NO_ANSWER: f"check {kubeconfig} and {context}, and {side} with: kubectl cluster-info",
        UNAUTHORIZED: f"log in again, or correct {kubeconfig} or {context}",
        FORBIDDEN: f"ask an administrator of {side} for this right, or choose another {context}"
        f" or {kubeconfig}",
        ABSENT: "see the names with: kubectl get clusters"
        if "Cluster" in action
        else "correct its name, or its namespace with -n",
    }
    remedy = remedies.get(error.status, f"run the command again, and look into the log of {side} if it fails")
    return ConfigError(f"{action}: {error}: {remedy}")


@contextmanager
def asking(action: str, side: str = HUB) -> Iterator[None]:
    """Turns an ApiError within the context into a ConfigError with the remedy. `action` says what failed."""
    try:
        yield
    except ApiError as error:
        raise hub_error(action, error, side) from error


async def find(api: ApiClient, path: str, what: str, side: str = HUB) -> dict[str, Any] | None:
    """Returns an object; None if it does not exist. Raises ConfigError if it cannot be read."""
    with asking(f"cannot read {what}", side):
        try:
            return await api.get_json(path, deadline=DEADLINE_SECONDS)
        except ApiError as error:
            if error.status == ABSENT and NOT_SERVED not in str(error):
                return None
            raise


async def clusters_of(api: ApiClient, side: str = HUB) -> Sequence[Cluster]:
    """Returns the Clusters; none where the hub serves no such kind. Raises ConfigError."""
    from fedhpa.members import CLUSTERS_PATH, Cluster

    with asking("cannot list Clusters", side):
        try:
            return (await api.list(CLUSTERS_PATH, Cluster, idle=DEADLINE_SECONDS)).items
        except ApiError as error:
            if error.status == ABSENT:
                return ()
            raise


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
    from fedhpa.kube import resource_path

    path = resource_path(API_VERSION, f"{kind.lower()}s", namespace, name)
    return await find(hub, path, f"{kind} {namespace}/{name}")


async def read_object(
    hub: ApiClient, namespace: str, name: str, *, named: bool = True, kind: str = "FederatedHPA"
) -> dict[str, Any]:
    """Returns an object of our kinds. Raises ConfigError if it cannot be read or does not exist.

    `named` is True if the user gave the namespace; without it, the message suggests -n.
    """
    found = await find_object(hub, namespace, name, kind)
    if found is None:
        hint = "" if named else "name its namespace with -n, or "
        see = f"see the names with: kubectl get {SHORT[kind]} {f'-n {namespace}' if named else '-A'}"
        raise ConfigError(f"{kind} {namespace}/{name} not found: {hint}{see}")
    return found
