"""Access to the metrics store: its URL, its CA, and the adapter's credentials."""

from __future__ import annotations

import base64
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from fedhpa.api.errors import ConfigError, FedHPAError, MetricsUnavailable

MAX_SECRET = 64 * 1024
TENANT_HEADER = "X-Scope-OrgID"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class StoreUnavailable(MetricsUnavailable):
    """The store could not be reached, did not answer or failed, so another query would fail too."""


@dataclass(frozen=True)
class StoreAccess:
    """The store's URL and the credentials for it. Files are read at each query, so rotation needs no restart.

    `url` may have a path (Mimir's is /prometheus). Raises ConfigError for unusable values, and for a secret
    that would be sent without TLS.
    """

    url: str
    ca_file: str = ""
    token_file: str = ""
    username: str = ""
    password_file: str = ""
    tenant: str = ""

    def __post_init__(self) -> None:
        if "@" in self.url:
            raise ConfigError("--metrics-store-url holds credentials: expected files, set by their own flags")
        if not _is_base_url(self.url):
            raise ConfigError(f'--metrics-store-url="{self.url}": expected http(s)://HOST[:PORT][/PATH]')
        parts = urlsplit(self.url)
        if bool(self.username) != bool(self.password_file):
            raise ConfigError("expected both --metrics-store-username and --metrics-store-password-file")
        if self.username and self.token_file:
            raise ConfigError("expected --metrics-store-token-file or --metrics-store-username, not both")
        secret = self.username or self.token_file
        if secret and parts.scheme == "http" and parts.hostname not in LOOPBACK:
            raise ConfigError(
                f'--metrics-store-url="{self.url}": expected https, or credentials are sent in the clear'
            )
        if not (self.tenant.isascii() and self.tenant.isprintable() and self.tenant == self.tenant.strip()):
            raise ConfigError("--metrics-store-tenant: expected printable ASCII, without spaces around it")

    def check(self) -> None:
        """Reads all files once. Raises ConfigError naming a file that cannot be read."""
        try:
            self.headers()
            self.context()
        except FedHPAError as error:
            raise ConfigError(str(error)) from error

    def headers(self) -> dict[str, str]:
        """Returns the headers of a query. Raises StoreUnavailable naming a file that cannot be read."""
        # A small compressed answer could expand until it fills the memory.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "Connection": "close"}
        if self.tenant:
            headers[TENANT_HEADER] = self.tenant
        if self.token_file:
            headers["Authorization"] = f"Bearer {_secret('token', self.token_file)}"
        elif self.username:
            pair = f"{self.username}:{_secret('password', self.password_file)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return headers

    def context(self) -> ssl.SSLContext | None:
        """Returns the TLS context, or None for http. Raises StoreUnavailable naming an unusable CA file."""
        if not self.url.startswith("https:"):
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file or None)
        except OSError as error:  # SSLError is a subclass
            reason = error.strerror or type(error).__name__
            raise StoreUnavailable(
                f"cannot use {self.ca_file} of --metrics-store-ca-file: {reason}"
            ) from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context


def _is_base_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        bare = not (parts.query or parts.fragment) and parts.port != 0
    except ValueError:  # an invalid address or port
        return False
    return bare and parts.scheme in ("http", "https") and bool(parts.hostname)


def _secret(name: str, file: str) -> str:
    which = f"{file} of --metrics-store-{name}-file"
    try:
        with Path(file).open("rb") as stream:
            text = stream.read(MAX_SECRET).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not ASCII text"
        raise StoreUnavailable(f"cannot read {which}: {reason}") from None
    if not text or not text.isprintable():
        raise StoreUnavailable(f"cannot use {which}: expected one line of text")
    return text
