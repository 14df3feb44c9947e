"""The errors of the product.

Callers react to each class differently: an unavailable member is a matter of policy (`partialMetrics`), a
conflict is retried, and the user must correct an invalid object. Library exceptions do not make this
distinction. A message says what happened, to which object, and what to do. The cause is chained.
"""

from __future__ import annotations


class FedHPAError(Exception):
    """Base class of all errors that the product raises on purpose."""


class InvalidObject(FedHPAError):
    """An object, file or argument is invalid. The message names the field and the remedy."""


class InvalidQuantity(InvalidObject):
    """A text is not a Kubernetes quantity."""


class ConfigError(FedHPAError):
    """A flag, configuration file or kubeconfig is invalid. Processes exit with code 2."""


class ApiError(FedHPAError):
    """A Kubernetes API answered with an error status.

    `status` is the HTTP status code, or 0 without a usable answer. `reason` is the machine-readable reason of
    the Status body ("" if none), or a reason of `fedhpa.kube.transport`.
    """

    def __init__(self, message: str, *, status: int, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class Conflict(ApiError):
    """The object has a newer resourceVersion than the write, or already exists."""


class MemberUnavailable(FedHPAError):
    """A member cluster did not answer within its deadline, refused, or is not ready.

    `cluster` is its name. `reason` is a short text for conditions, Warning headers and logs.
    """

    def __init__(self, cluster: str, reason: str) -> None:
        super().__init__(f"cluster {cluster!r} is unavailable: {reason}")
        self.cluster = cluster
        self.reason = reason


class MetricsUnavailable(FedHPAError):
    """The cluster answers, but a metric cannot be read."""
