"""The errors of the product.

They are few and of our own because callers decide by kind: a member that is away is policy
(`partialMetrics`), a conflict is a retry, a wrong object is the user's to mend, and a library's
exception says none of that. Each message says what happened, to whom, and what to do; the cause
is chained.
"""

from __future__ import annotations


class FedHPAError(Exception):
    """Anything this product reports on purpose."""


class InvalidObject(FedHPAError):
    """A written object, file or argument cannot be used; the message names the field and the remedy."""


class InvalidQuantity(InvalidObject):
    """A text is not a Kubernetes quantity."""


class ConfigError(FedHPAError):
    """A flag, configuration file or kubeconfig cannot be used; processes exit 2 on it."""


class ApiError(FedHPAError):
    """A Kubernetes API answered with an error status.

    `status` is the HTTP status code, 0 if no usable answer came; `reason` is the machine-readable reason of
    the Status body ("" if none), or the transport's (`fedhpa.kube.transport`).
    """

    def __init__(self, message: str, *, status: int, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class Conflict(ApiError):
    """A write met a newer resourceVersion, or a create met an existing object."""


class MemberUnavailable(FedHPAError):
    """A member cluster did not answer within its deadline, refused, or is not ready.

    `cluster` is its name, `reason` a short text fit for a condition, a Warning header and a log line.
    """

    def __init__(self, cluster: str, reason: str) -> None:
        super().__init__(f"cluster {cluster!r} is unavailable: {reason}")
        self.cluster = cluster
        self.reason = reason


class MetricsUnavailable(FedHPAError):
    """A metric could not be had though the cluster answers."""
