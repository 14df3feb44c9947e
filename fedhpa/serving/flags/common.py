"""The flags that several processes share.

Names are Karmada v1.19's. So are the defaults, unless docs/reference/processes.md says otherwise.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fedhpa.api import default_values
from fedhpa.serving.flags.types import (
    Flag,
    FlagType,
    NotBuilt,
    address,
    boolean,
    choice,
    duration,
    integer,
    ip,
    number,
    path,
    port,
    string,
    strings,
)

TLS_VERSIONS = {
    "1.0": ssl.TLSVersion.TLSv1,
    "1.1": ssl.TLSVersion.TLSv1_1,
    "1.2": ssl.TLSVersion.TLSv1_2,
    "1.3": ssl.TLSVersion.TLSv1_3,
}


def _tls_version(text: str) -> ssl.TLSVersion:
    # Karmada's webhook writes 1.3, Kubernetes' servers write VersionTLS13.
    for name, version in TLS_VERSIONS.items():
        if text in (name, "VersionTLS" + name.replace(".", "")):
            return version
    raise ValueError(text)


def _tls_name(version: ssl.TLSVersion) -> str:
    return next(name for name, known in TLS_VERSIONS.items() if known == version)


# Serving over TLS.
BIND_ADDRESS = ip(
    "bind-address",
    "0.0.0.0",  # noqa: S104 - a server in a pod serves its Service, and every request is authenticated
    "IP address that the secure port listens on.",
)
SECURE_PORT = port("secure-port", 8443, "Port to serve HTTPS on; 0 lets the system choose one.")
CERT_DIR = path(
    "cert-dir",
    "/tmp/k8s-webhook-server/serving-certs",  # noqa: S108 - controller-runtime's, where manifests mount them
    "Folder of the serving certificate and its key, if --tls-cert-file is not set.",
)
TLS_CERT_FILE_NAME = string(
    "tls-cert-file-name", "tls.crt", "File name of the serving certificate in --cert-dir."
)
TLS_PRIVATE_KEY_FILE_NAME = string(
    "tls-private-key-file-name", "tls.key", "File name of the private key in --cert-dir."
)
TLS_CERT_FILE = path(
    "tls-cert-file", "", "PEM file of the serving certificate with its chain; overrides --cert-dir."
)
TLS_PRIVATE_KEY_FILE = path(
    "tls-private-key-file", "", "PEM file of the private key for --tls-cert-file; overrides --cert-dir."
)
TLS_MIN_VERSION: Flag[ssl.TLSVersion] = Flag(
    "tls-min-version",
    ssl.TLSVersion.TLSv1_3,
    "Oldest TLS version that the secure port accepts.",
    FlagType(
        "version",
        "one of 1.0, 1.1, 1.2, 1.3, VersionTLS10, VersionTLS11, VersionTLS12, VersionTLS13",
        _tls_version,
        _tls_name,
    ),
)
SHUTDOWN_GRACE = duration(
    "shutdown-grace-period", 60.0, "Time that running requests get to finish after SIGTERM."
)
SERVING: tuple[Flag[Any], ...] = (
    BIND_ADDRESS,
    SECURE_PORT,
    CERT_DIR,
    TLS_CERT_FILE_NAME,
    TLS_PRIVATE_KEY_FILE_NAME,
    TLS_CERT_FILE,
    TLS_PRIVATE_KEY_FILE,
    TLS_MIN_VERSION,
    SHUTDOWN_GRACE,
)

# Plain HTTP listeners.
METRICS_BIND_ADDRESS = address(
    "metrics-bind-address", ":8080", "Address to serve /metrics on over plain HTTP; 0 switches it off."
)
HEALTH_PROBE_BIND_ADDRESS = address(
    "health-probe-bind-address",
    ":8000",
    "Address to serve /livez and /readyz on over plain HTTP; 0 switches it off.",
)
OBSERVING: tuple[Flag[Any], ...] = (METRICS_BIND_ADDRESS, HEALTH_PROBE_BIND_ADDRESS)

# The APIs of the hub and of the member clusters.
KUBECONFIG = path("kubeconfig", "", "Kubeconfig of the hub; if not set, the pod's service account is used.")
KUBE_API_QPS = number(
    "kube-api-qps",
    0.0,
    "Requests per second to the hub; 0 sets no limit on the client side.",
    minimum=0,
)
KUBE_API_BURST = integer(
    "kube-api-burst", 0, "Requests to the hub that may exceed --kube-api-qps in a burst.", minimum=0
)
HUB: tuple[Flag[Any], ...] = (KUBECONFIG, KUBE_API_QPS, KUBE_API_BURST)

CLUSTER_API_QPS = number(
    "cluster-api-qps",
    0.0,
    "Requests per second to each member cluster; 0 sets no limit on the client side.",
    minimum=0,
)
CLUSTER_API_BURST = integer(
    "cluster-api-burst",
    0,
    "Requests to a member cluster that may exceed --cluster-api-qps in a burst.",
    minimum=0,
)
MEMBER_DEADLINE = duration(
    "member-deadline",
    default_values.MEMBER_DEADLINE_SECONDS,
    "Time that a member cluster has to answer a request.",
    minimum=0.001,
)
MEMBERS: tuple[Flag[Any], ...] = (CLUSTER_API_QPS, CLUSTER_API_BURST, MEMBER_DEADLINE)

# Leader election.
LEADER_ELECT = boolean("leader-elect", True, "Reconcile only while holding a Lease on the hub.")
LEADER_ELECT_LEASE_DURATION = duration(
    "leader-elect-lease-duration",
    15.0,
    "Time without renewal after which another process may take the Lease.",
    minimum=1,
)
LEADER_ELECT_RENEW_DEADLINE = duration(
    "leader-elect-renew-deadline",
    10.0,
    "Time that the leader retries to renew its Lease before it stops leading.",
    minimum=0.1,
)
LEADER_ELECT_RETRY_PERIOD = duration(
    "leader-elect-retry-period",
    2.0,
    "Time between two attempts to acquire or renew a Lease.",
    minimum=0.1,
)
LEADER_ELECT_RESOURCE_NAMESPACE = string(
    "leader-elect-resource-namespace",
    "",
    "Namespace of the Lease; if not set, the pod's own namespace, or kube-system outside a pod.",
)
LEADER_ELECTION: tuple[Flag[Any], ...] = (
    LEADER_ELECT,
    LEADER_ELECT_LEASE_DURATION,
    LEADER_ELECT_RENEW_DEADLINE,
    LEADER_ELECT_RETRY_PERIOD,
    LEADER_ELECT_RESOURCE_NAMESPACE,
)

# Kubernetes' delegated authentication and authorization.
AUTHENTICATION_KUBECONFIG = path(
    "authentication-kubeconfig",
    "",
    "Kubeconfig of the API server that reviews tokens; if not set, --kubeconfig.",
)
AUTHORIZATION_KUBECONFIG = path(
    "authorization-kubeconfig",
    "",
    "Kubeconfig of the API server that reviews access; if not set, --kubeconfig.",
)
AUTHENTICATION_SKIP_LOOKUP = boolean(
    "authentication-skip-lookup",
    False,
    "Do not read the ConfigMap kube-system/extension-apiserver-authentication; trust only the CAs of the"
    " flags below.",
)
TOKEN_CACHE_TTL = duration(
    "authentication-token-webhook-cache-ttl", 10.0, "Time that the result of a token review is cached."
)
AUTHORIZED_TTL = duration(
    "authorization-webhook-cache-authorized-ttl", 10.0, "Time that a granted access review is cached."
)
UNAUTHORIZED_TTL = duration(
    "authorization-webhook-cache-unauthorized-ttl", 10.0, "Time that a denied access review is cached."
)
ALWAYS_ALLOW_PATHS = strings(
    "authorization-always-allow-paths",
    ("/healthz", "/readyz", "/livez"),
    "Paths that need no authorization; a trailing * matches every path with that prefix.",
)
CLIENT_CA_FILE = path(
    "client-ca-file",
    "",
    "PEM file of CAs for client certificates; the CN is the user, each O is a group.",
)
REQUESTHEADER_CLIENT_CA_FILE = path(
    "requestheader-client-ca-file",
    "",
    "PEM file of CAs for front proxies, whose X-Remote-* headers name the user.",
)
REQUESTHEADER_ALLOWED_NAMES = strings(
    "requestheader-allowed-names",
    (),
    "Common names that a front proxy's certificate may have; if empty, every name is allowed.",
)
REQUESTHEADER_USERNAME_HEADERS = strings(
    "requestheader-username-headers",
    ("x-remote-user",),
    "Headers with the user name; the first that is set counts.",
)
REQUESTHEADER_GROUP_HEADERS = strings(
    "requestheader-group-headers", ("x-remote-group",), "Headers with the user's groups."
)
REQUESTHEADER_EXTRA_HEADERS_PREFIX = strings(
    "requestheader-extra-headers-prefix",
    ("x-remote-extra-",),
    "Prefixes of headers with extra attributes of the user.",
)
REQUESTHEADER_UID_HEADERS = strings(
    "requestheader-uid-headers",
    ("x-remote-uid",),
    "Headers with the user's UID; the first that is set counts.",
)
DELEGATED_AUTH: tuple[Flag[Any], ...] = (
    AUTHENTICATION_KUBECONFIG,
    AUTHORIZATION_KUBECONFIG,
    AUTHENTICATION_SKIP_LOOKUP,
    TOKEN_CACHE_TTL,
    AUTHORIZED_TTL,
    UNAUTHORIZED_TTL,
    ALWAYS_ALLOW_PATHS,
    CLIENT_CA_FILE,
    REQUESTHEADER_CLIENT_CA_FILE,
    REQUESTHEADER_ALLOWED_NAMES,
    REQUESTHEADER_USERNAME_HEADERS,
    REQUESTHEADER_GROUP_HEADERS,
    REQUESTHEADER_EXTRA_HEADERS_PREFIX,
    REQUESTHEADER_UID_HEADERS,
)


def _only(*built: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in built:
            raise NotBuilt("not built in this version")
        return text

    return parse


# The audit flags of Kubernetes that Karmada's manifests set.
AUDIT_LOG_PATH = string(
    "audit-log-path",
    "",
    "With -, log one line per request: user, verb, path and status. Files are not supported.",
    parse=_only("", "-"),
    expected='- or ""',
)
AUDIT_LOG_MAXAGE = integer(
    "audit-log-maxage",
    0,
    "Without effect, because no audit file is written; only 0 is accepted.",
    minimum=0,
    maximum=0,
)
AUDIT_LOG_MAXBACKUP = integer(
    "audit-log-maxbackup",
    0,
    "Without effect, because no audit file is written; only 0 is accepted.",
    minimum=0,
    maximum=0,
)
AUDIT: tuple[Flag[Any], ...] = (AUDIT_LOG_PATH, AUDIT_LOG_MAXAGE, AUDIT_LOG_MAXBACKUP)

LOGGING_FORMAT = choice("logging-format", "text", "Format of the log on stderr.", choices=("text", "json"))
VERBOSITY = replace(
    integer("v", 0, "Log verbosity; 4 and above include debug lines.", minimum=0, maximum=10), shorthand="v"
)
LOGGING: tuple[Flag[Any], ...] = (LOGGING_FORMAT, VERBOSITY)

# Karmada's manifests set these flags. The features are not built.
FEATURE_GATES = string(
    "feature-gates",
    "",
    "Without effect, because there are no feature gates; only an empty value is accepted.",
    parse=_only(""),
    expected='""',
)
ENABLE_PPROF = boolean(
    "enable-pprof",
    False,
    "Without effect, because profiles are not served; only false is accepted.",
    not_built=True,
)
PROFILING_BIND_ADDRESS = string(
    "profiling-bind-address", ":6060", "Without effect, because profiles are not served."
)
UNBUILT: tuple[Flag[Any], ...] = (FEATURE_GATES, ENABLE_PPROF, PROFILING_BIND_ADDRESS)
