"""The flags of --metrics-source=prometheus."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fedhpa.serving.flags import Flag, duration, path, string


def _without_secrets(text: str) -> str:
    # A URL with credentials is refused, but flags are logged and quoted before that.
    before, at, _ = text.rpartition("@")
    return f"{before.partition('://')[0][:8]}://...@" if at else text


URL = replace(
    string(
        "metrics-store-url",
        "",
        "The metrics store of --metrics-source=prometheus: Prometheus, Thanos or Mimir, up to what comes"
        " before /api/v1; no credentials.",
        kind="url",
    ),
    parse=_without_secrets,
)
RULES = path(
    "metrics-rules",
    "",
    "The file that maps metrics to queries of the store (docs/how-to/metrics-store.md); reloaded on change.",
)
CA_FILE = path("metrics-store-ca-file", "", "The CAs that may vouch for the store; without it, the system's.")
TOKEN_FILE = path("metrics-store-token-file", "", "The bearer token for the store, read at each query.")
USERNAME = string("metrics-store-username", "", "The user name of basic authentication at the store.")
PASSWORD_FILE = path("metrics-store-password-file", "", "The password that goes with it, read at each query.")
TENANT = string("metrics-store-tenant", "", "The tenant, sent as X-Scope-OrgID (Mimir).")
DEADLINE = duration(
    "metrics-store-deadline",
    5.0,
    "How long the store may take for a query, with its waiting in our queue.",
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
