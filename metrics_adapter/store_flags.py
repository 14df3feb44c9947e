"""The flags of the metrics store, for --metrics-source=prometheus."""

from __future__ import annotations

from typing import Any

from fedhpa.serving.flags import Flag, duration, path, string


def _without_credentials(text: str) -> str:
    # A URL with credentials is refused later. Until then flags may be logged or quoted.
    before, at, _ = text.rpartition("@")
    return f"{before.partition('://')[0][:8]}://...@" if at else text


URL = string(
    "metrics-store-url",
    "",
    "Base URL of the metrics store (Prometheus, Thanos or Mimir), up to the part before /api/v1 and without"
    " credentials; required with --metrics-source=prometheus.",
    kind="url",
    parse=_without_credentials,
)
RULES = path(
    "metrics-rules",
    "",
    "YAML file that maps metrics to queries of the store (docs/how-to/metrics-store.md); reloaded on change.",
)
CA_FILE = path(
    "metrics-store-ca-file",
    "",
    "PEM file of CAs that verify the store's certificate; if not set, the system's CAs.",
)
TOKEN_FILE = path(
    "metrics-store-token-file", "", "File with the bearer token for the store; read for each query."
)
USERNAME = string("metrics-store-username", "", "User name for basic authentication at the store.")
PASSWORD_FILE = path(
    "metrics-store-password-file",
    "",
    "File with the password for --metrics-store-username; read for each query.",
)
TENANT = string("metrics-store-tenant", "", "Tenant to send as the header X-Scope-OrgID (Mimir).")
DEADLINE = duration(
    "metrics-store-deadline",
    5.0,
    "Time for one query of the store, including its time in the queue.",
    minimum=0.1,
)
FLAGS: tuple[Flag[Any], ...] = (
    URL,
    RULES,
    CA_FILE,
    TOKEN_FILE,
    USERNAME,
    PASSWORD_FILE,
    TENANT,
    DEADLINE,
)
