"""The flags of the metrics adapter, named as in Karmada v1.19 and in Kubernetes' aggregated API servers."""

from __future__ import annotations

import ssl
from typing import Any

from fedhpa.api.errors import ConfigError
from fedhpa.api.member_sources import MemberSources
from fedhpa.serving.flags import Flag, Sections, Values, boolean, choice, common, duration, integer, members
from metrics_adapter import store_flags
from metrics_adapter.server import caller_limits

PROGRAM = "fedhpa-metrics-adapter"
ABOUT = (
    "Serves metrics.k8s.io, custom.metrics.k8s.io and external.metrics.k8s.io for all member clusters as if"
    " they were one cluster. Answers name the clusters that did not respond."
    " Register the adapter on the hub with the output of `fedhpa apiservice`."
)

MEMBERS, PROMETHEUS = "members", "prometheus"
METRICS_SOURCE = choice(
    "metrics-source",
    MEMBERS,
    "Where metrics come from: with members, the metrics APIs of the member clusters; with prometheus, a"
    " metrics store for the metrics in --metrics-rules and the member clusters for all others.",
    choices=(MEMBERS, PROMETHEUS),
)
METRICS_MAX_AGE = duration(
    "metrics-max-age",
    10.0,
    "Maximum age of cached metrics from a member cluster or the metrics store.",
)

# The hub reaches an aggregated API server through its Service, on the default HTTPS port.
SECURE_PORT = common.SECURE_PORT.with_default(443)
TLS_MIN_VERSION = common.TLS_MIN_VERSION.with_default(ssl.TLSVersion.TLSv1_2)
# The secure port serves the health paths. Karmada's adapter has no other health listener either.
HEALTH_PROBE_BIND_ADDRESS = common.HEALTH_PROBE_BIND_ADDRESS.with_default("0")

# Flags of Kubernetes' aggregated API servers that a Deployment may set.
PROFILING = boolean("profiling", False, "Without effect, because profiles are not served.")
DISABLE_HTTP2 = boolean("disable-http2-serving", True, "Without effect, because only HTTP/1.1 is served.")
HTTP2_STREAMS = integer(
    "http2-max-streams-per-connection", 0, "Without effect, because HTTP/2 is not served.", minimum=0
)

_CHANGED: dict[str, Flag[Any]] = {
    SECURE_PORT.name: SECURE_PORT,
    TLS_MIN_VERSION.name: TLS_MIN_VERSION,
    HEALTH_PROBE_BIND_ADDRESS.name: HEALTH_PROBE_BIND_ADDRESS,
}

FLAGS: Sections = {
    "Metrics": (METRICS_SOURCE, METRICS_MAX_AGE, *common.MEMBERS),
    "Members": (*members.SOURCES_OF_MEMBERS, members.ARGOCD_OWN_TOKENS),
    "Metrics store": store_flags.FLAGS,
    "Limits of callers": caller_limits.FLAGS,
    "Hub": common.HUB,
    "Serving": tuple(_CHANGED.get(flag.name, flag) for flag in common.SERVING),
    "Authentication and authorization": common.DELEGATED_AUTH,
    "Observing": tuple(_CHANGED.get(flag.name, flag) for flag in common.OBSERVING),
    "Logging": (*common.LOGGING, *common.AUDIT),
    "Accepted for Karmada's manifests": (*common.UNBUILT, PROFILING, DISABLE_HTTP2, HTTP2_STREAMS),
}


def check(values: Values) -> None:
    """Raises ConfigError if a flag that --metrics-source=prometheus requires is missing."""
    if values[METRICS_SOURCE] == PROMETHEUS:
        for flag in (store_flags.URL, store_flags.RULES):
            if not values[flag]:
                raise ConfigError(f"--metrics-source=prometheus: expected --{flag.name} with it")


def member_sources(values: Values) -> MemberSources:
    """Returns the sources of members, of whom only metrics are read. Raises ConfigError."""
    return members.member_sources(values, reads_metrics=True)


def without_effect(values: Values) -> list[str]:
    """Returns the metrics store flags that are set although --metrics-source does not use the store."""
    if values[METRICS_SOURCE] == PROMETHEUS:
        return []
    return [f"--{flag.name}" for flag in store_flags.FLAGS if values.given(flag)]
