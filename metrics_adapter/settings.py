"""The flags of the metrics adapter: Karmada v1.19's names, Kubernetes' for an aggregated API server."""

from __future__ import annotations

import ssl
from typing import Any

from fedhpa.api.errors import ConfigError
from fedhpa.serving.flags import Flag, Sections, Values, boolean, choice, common, duration, integer
from metrics_adapter.prometheus import settings as store_settings
from metrics_adapter.server import callers

PROGRAM = "fedhpa-metrics-adapter"
ABOUT = (
    "Serves metrics.k8s.io, custom.metrics.k8s.io and external.metrics.k8s.io for all member clusters as if"
    " they were one, saying who did not answer."
    " Register it on the hub with the output of `fedhpa apiservice`."
)

MEMBERS, PROMETHEUS = "members", "prometheus"
METRICS_SOURCE = choice(
    "metrics-source",
    MEMBERS,
    "Where metrics come from: the members' own metrics APIs, or for what --metrics-rules name a metrics store"
    " and the members for the rest.",
    choices=(MEMBERS, PROMETHEUS),
)
METRICS_MAX_AGE = duration(
    "metrics-max-age",
    10.0,
    "An answer may be served from a member's list, or a store's answer, at most this old.",
)

# Who serves an aggregated API is found by Service name on the default HTTPS port.
SECURE_PORT = common.SECURE_PORT.with_default(443)
TLS_MIN_VERSION = common.TLS_MIN_VERSION.with_default(ssl.TLSVersion.TLSv1_2)
# The secure port has the health paths, and Karmada's adapter has no other; give an address to add one.
HEALTH_PROBE_BIND_ADDRESS = common.HEALTH_PROBE_BIND_ADDRESS.with_default("0")

# Kubernetes' aggregated servers have them, so a Deployment may.
PROFILING = boolean("profiling", False, "Unused, as profiles are not served.")
DISABLE_HTTP2 = boolean("disable-http2-serving", True, "Unused: HTTP/1.1 alone is served.")
HTTP2_STREAMS = integer("http2-max-streams-per-connection", 0, "Unused, as HTTP/2 is not served.", minimum=0)

_CHANGED: dict[str, Flag[Any]] = {
    SECURE_PORT.name: SECURE_PORT,
    TLS_MIN_VERSION.name: TLS_MIN_VERSION,
    HEALTH_PROBE_BIND_ADDRESS.name: HEALTH_PROBE_BIND_ADDRESS,
}

FLAGS: Sections = {
    "Metrics": (METRICS_SOURCE, METRICS_MAX_AGE, *common.MEMBERS),
    "Metrics store": store_settings.FLAGS,
    "Limits of callers": callers.FLAGS,
    "Hub": common.HUB,
    "Serving": tuple(_CHANGED.get(flag.name, flag) for flag in common.SERVING),
    "Authentication and authorization": common.DELEGATED_AUTH,
    "Observing": tuple(_CHANGED.get(flag.name, flag) for flag in common.OBSERVING),
    "Logging": (*common.LOGGING, *common.AUDIT),
    "Accepted for Karmada's manifests": (*common.UNBUILT, PROFILING, DISABLE_HTTP2, HTTP2_STREAMS),
}


def check(values: Values) -> None:
    """What flags demand of one another. Raises ConfigError."""
    if values[METRICS_SOURCE] == PROMETHEUS:
        for flag in (store_settings.URL, store_settings.RULES):
            if not values[flag]:
                raise ConfigError(f"--metrics-source=prometheus: expected --{flag.name} with it")


def without_effect(values: Values) -> list[str]:
    """Flags that somebody gave and that the source of metrics does not look at."""
    if values[METRICS_SOURCE] == PROMETHEUS:
        return []
    return [f"--{flag.name}" for flag in store_settings.FLAGS if values.given(flag)]
