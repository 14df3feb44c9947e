"""The flags that more than one process has, so that a flag means the same everywhere.

Names, and defaults where docs/reference/processes.md does not say otherwise, are Karmada v1.19's.
"""

from __future__ import annotations

import ssl
from dataclasses import replace
from typing import Any

from fedhpa.serving.flags.types import (
    Flag,
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
    # Karmada's webhook says 1.3, Kubernetes' servers say VersionTLS13: both mean the same here.
    for name, version in TLS_VERSIONS.items():
        if text in (name, "VersionTLS" + name.replace(".", "")):
            return version
    raise ValueError(text)


def _audit_target(text: str) -> str:
    if text not in ("", "-"):
        raise NotBuilt("not built in this version")
    return text


def _tls_name(version: ssl.TLSVersion) -> str:
    return next(name for name, known in TLS_VERSIONS.items() if known == version)


# Serving over TLS.
BIND_ADDRESS = ip(
    "bind-address",
    "0.0.0.0",  # noqa: S104 - a server in a pod serves its Service, and every request is authenticated
    "The address the secure port listens on.",
)
SECURE_PORT = port("secure-port", 8443, "The port served over TLS; 0 lets the system choose one.")
CERT_DIR = path(
    "cert-dir",
    "/tmp/k8s-webhook-server/serving-certs",  # noqa: S108 - controller-runtime's, where manifests mount them
    "The folder of the serving certificate and its key, where --tls-cert-file is not given.",
)
TLS_CERT_FILE_NAME = string("tls-cert-file-name", "tls.crt", "The certificate's file name in --cert-dir.")
TLS_PRIVATE_KEY_FILE_NAME = string(
    "tls-private-key-file-name", "tls.key", "The key's file name in --cert-dir."
)
TLS_CERT_FILE = path("tls-cert-file", "", "The serving certificate, PEM; goes before --cert-dir.")
TLS_PRIVATE_KEY_FILE = path("tls-private-key-file", "", "The serving certificate's private key, PEM.")
TLS_MIN_VERSION: Flag[ssl.TLSVersion] = Flag(
    "tls-min-version",
    ssl.TLSVersion.TLSv1_3,
    "The oldest TLS version that is spoken.",
    _tls_version,
    "one of 1.0, 1.1, 1.2, 1.3, VersionTLS10, VersionTLS11, VersionTLS12, VersionTLS13",
    "version",
    _tls_name,
)
SHUTDOWN_GRACE = duration(
    "shutdown-grace-period", 60.0, "How long requests that are being served may take to end after SIGTERM."
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

# Plain-HTTP side doors.
METRICS_BIND_ADDRESS = address(
    "metrics-bind-address", ":8080", "Where /metrics is served over plain HTTP; 0 switches it off."
)
HEALTH_PROBE_BIND_ADDRESS = address(
    "health-probe-bind-address", ":8000", "Where /livez and /readyz are served over plain HTTP; 0: off."
)
OBSERVING: tuple[Flag[Any], ...] = (METRICS_BIND_ADDRESS, HEALTH_PROBE_BIND_ADDRESS)

# The hub's and the members' APIs.
KUBECONFIG = path("kubeconfig", "", "The hub's kubeconfig; without it the pod's own service account.")
KUBE_API_QPS = number(
    "kube-api-qps", 0.0, "Requests a second to the hub; 0: no limit here, the server decides.", minimum=0
)
KUBE_API_BURST = integer(
    "kube-api-burst", 0, "Requests to the hub that may exceed --kube-api-qps at once.", minimum=0
)
HUB: tuple[Flag[Any], ...] = (KUBECONFIG, KUBE_API_QPS, KUBE_API_BURST)

CLUSTER_API_QPS = number(
    "cluster-api-qps",
    0.0,
    "Requests a second to each member; 0: no limit here, the server decides.",
    minimum=0,
)
CLUSTER_API_BURST = integer(
    "cluster-api-burst", 0, "Requests to a member that may exceed --cluster-api-qps at once.", minimum=0
)
MEMBER_DEADLINE = duration(
    "member-deadline", 3.0, "How long a member cluster may take to answer.", minimum=0.001
)
MEMBERS: tuple[Flag[Any], ...] = (CLUSTER_API_QPS, CLUSTER_API_BURST, MEMBER_DEADLINE)

# One active process of several.
LEADER_ELECT = boolean("leader-elect", True, "Work only while holding a Lease on the hub.")
LEADER_ELECT_LEASE_DURATION = duration(
    "leader-elect-lease-duration",
    15.0,
    "How long others wait before taking over an unrenewed Lease.",
    minimum=1,
)
LEADER_ELECT_RENEW_DEADLINE = duration(
    "leader-elect-renew-deadline", 10.0, "How long the leader tries to renew before giving up.", minimum=0.1
)
LEADER_ELECT_RETRY_PERIOD = duration(
    "leader-elect-retry-period", 2.0, "How long to wait between tries to take or renew a Lease.", minimum=0.1
)
LEADER_ELECT_RESOURCE_NAMESPACE = string(
    "leader-elect-resource-namespace", "", "The Lease's namespace; default the pod's own, else kube-system."
)
LEADER_ELECTION: tuple[Flag[Any], ...] = (
    LEADER_ELECT,
    LEADER_ELECT_LEASE_DURATION,
    LEADER_ELECT_RENEW_DEADLINE,
    LEADER_ELECT_RETRY_PERIOD,
    LEADER_ELECT_RESOURCE_NAMESPACE,
)

# Who calls, and what they may do: Kubernetes' delegated authentication and authorization.
AUTHENTICATION_KUBECONFIG = path(
    "authentication-kubeconfig", "", "The hub that reviews tokens; default --kubeconfig."
)
AUTHORIZATION_KUBECONFIG = path(
    "authorization-kubeconfig", "", "The hub that reviews access; default --kubeconfig."
)
AUTHENTICATION_SKIP_LOOKUP = boolean(
    "authentication-skip-lookup",
    False,
    "Do not read the hub's kube-system/extension-apiserver-authentication; only the flags below count.",
)
TOKEN_CACHE_TTL = duration(
    "authentication-token-webhook-cache-ttl", 10.0, "How long a reviewed token is believed."
)
AUTHORIZED_TTL = duration(
    "authorization-webhook-cache-authorized-ttl", 10.0, "How long a granted access is believed."
)
UNAUTHORIZED_TTL = duration(
    "authorization-webhook-cache-unauthorized-ttl", 10.0, "How long a refused access is believed."
)
ALWAYS_ALLOW_PATHS = strings(
    "authorization-always-allow-paths",
    ("/healthz", "/readyz", "/livez"),
    "Paths that need no authorization; a trailing * stands for everything that begins so.",
)
CLIENT_CA_FILE = path("client-ca-file", "", "CAs whose client certificates prove a user (CN) and groups (O).")
REQUESTHEADER_CLIENT_CA_FILE = path(
    "requestheader-client-ca-file", "", "CAs of the front proxies whose X-Remote-* headers are believed."
)
REQUESTHEADER_ALLOWED_NAMES = strings(
    "requestheader-allowed-names", (), "Common names of believed front proxies; none: any of the CA."
)
REQUESTHEADER_USERNAME_HEADERS = strings(
    "requestheader-username-headers", ("x-remote-user",), "Headers that carry the user's name."
)
REQUESTHEADER_GROUP_HEADERS = strings(
    "requestheader-group-headers", ("x-remote-group",), "Headers that carry the user's groups."
)
REQUESTHEADER_EXTRA_HEADERS_PREFIX = strings(
    "requestheader-extra-headers-prefix", ("x-remote-extra-",), "Prefixes of headers that carry more."
)
REQUESTHEADER_UID_HEADERS = strings(
    "requestheader-uid-headers", ("x-remote-uid",), "Headers that carry the user's UID."
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

# Kubernetes' audit flags, as far as Karmada's manifests use them.
AUDIT_LOG_PATH = replace(
    string("audit-log-path", "", "`-` logs who asked for what and what was answered, a line a request."),
    parse=_audit_target,
    expected='- or ""',
)
AUDIT_LOG_MAXAGE = integer("audit-log-maxage", 0, "There is no audit file; only 0.", minimum=0, maximum=0)
AUDIT_LOG_MAXBACKUP = integer(
    "audit-log-maxbackup", 0, "There is no audit file; only 0.", minimum=0, maximum=0
)
AUDIT: tuple[Flag[Any], ...] = (AUDIT_LOG_PATH, AUDIT_LOG_MAXAGE, AUDIT_LOG_MAXBACKUP)

LOGGING_FORMAT = choice("logging-format", "text", "The form of the log on stderr.", choices=("text", "json"))
VERBOSITY = Flag(
    "v",
    0,
    "The log's verbosity; from 4 on, debug lines too.",
    integer("v", 0, "", minimum=0, maximum=10).parse,
    "a whole number from 0 to 10",
    "int",
    shorthand="v",
)
LOGGING: tuple[Flag[Any], ...] = (LOGGING_FORMAT, VERBOSITY)


def _no_feature_gates(text: str) -> str:
    if text:
        raise NotBuilt("not built in this version")
    return text


def _no_pprof(text: str) -> bool:
    if _FALSE.parse(text):
        raise NotBuilt("not built in this version")
    return False


# Accepted because Karmada's manifests carry them; what they would switch on is not built.
_FALSE = boolean("enable-pprof", False, "Profiles are not served; only false is accepted.")
ENABLE_PPROF = replace(_FALSE, parse=_no_pprof, expected="false")
FEATURE_GATES = replace(
    string("feature-gates", "", "There are no feature gates; only an empty text is accepted."),
    parse=_no_feature_gates,
    expected='""',
)
PROFILING_BIND_ADDRESS = string("profiling-bind-address", ":6060", "Unused, as profiles are not served.")
UNBUILT: tuple[Flag[Any], ...] = (FEATURE_GATES, ENABLE_PPROF, PROFILING_BIND_ADDRESS)
