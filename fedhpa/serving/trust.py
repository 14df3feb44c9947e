"""The client CAs and front proxies that an aggregated API server trusts, kept up to date.

The hub publishes the CA, names and headers of its front proxies, and its client CA, in the ConfigMap
kube-system/extension-apiserver-authentication. Flags may add a client CA or override the front proxies. Both
sources may change at any time. Each change replaces the CAs of the TLS handshake and the authenticator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import structlog

from fedhpa.api.errors import ConfigError, FedHPAError
from fedhpa.api.json import InvalidJson, decode_json
from fedhpa.kube import ApiClient, Clock, Reflector
from fedhpa.serving.authentication import PeerAuthenticator, RequestHeader, Trust
from fedhpa.serving.flags import common
from fedhpa.serving.flags.types import Values
from fedhpa.serving.tls import ServingTls

logger = structlog.get_logger(__name__)

NAMESPACE = "kube-system"
CONFIG_MAP = "extension-apiserver-authentication"
FILE_POLL_SECONDS = 5.0


@dataclass(frozen=True)
class TrustFiles:
    """The trust configured by flags; the files may change while the process runs."""

    client_ca: Path | None = None
    request_header_ca: Path | None = None
    request_header: RequestHeader = field(default_factory=lambda: RequestHeader(b""))

    @classmethod
    def of(cls, values: Values) -> TrustFiles:
        """Returns the files and headers that the authentication flags name."""
        client_ca = values[common.CLIENT_CA_FILE]
        proxy_ca = values[common.REQUESTHEADER_CLIENT_CA_FILE]
        header = RequestHeader(
            b"",
            values[common.REQUESTHEADER_ALLOWED_NAMES],
            values[common.REQUESTHEADER_USERNAME_HEADERS],
            values[common.REQUESTHEADER_GROUP_HEADERS],
            values[common.REQUESTHEADER_EXTRA_HEADERS_PREFIX],
            values[common.REQUESTHEADER_UID_HEADERS],
        )
        return cls(Path(client_ca) if client_ca else None, Path(proxy_ca) if proxy_ca else None, header)

    def read(self) -> Trust:
        """Reads the files now; raises ConfigError that names an unreadable file."""
        client_ca = _read(self.client_ca) if self.client_ca is not None else b""
        if self.request_header_ca is None:
            return Trust(client_ca)
        return Trust(client_ca, replace(self.request_header, ca_pem=_read(self.request_header_ca)))


class LiveTrust:
    """The current trust, merged from the files and the hub; `peers` authenticates with it."""

    def __init__(self, files: TrustFiles, tls: ServingTls, clock: Clock) -> None:
        """Raises FedHPAError if the files that the flags name are unusable."""
        # True once the hub's ConfigMap was looked for.
        self.synced = False
        self._files = files
        self._tls = tls
        self._clock = clock
        self._file_problem = ""
        self._hub_problem = ""
        self.peers = PeerAuthenticator(Trust(), clock.wall)
        self._use(files.read(), Trust())

    @property
    def problem(self) -> str:
        """Returns why the CAs of a file or of the hub are not used; "" if all are."""
        return self._file_problem or self._hub_problem

    def reload(self) -> None:
        """Reads the files again; unusable files change nothing."""
        try:
            self._use(self._files.read(), self._from_hub)
        except FedHPAError as error:
            # The files are read every few seconds, and a broken one must not fill the log.
            if str(error) != self._file_problem:
                logger.warning("client CA files not loaded, keeping the old ones", error=str(error))
            self._file_problem = str(error)
            return
        self._file_problem = ""

    def update_from_hub(self, data: Mapping[str, str]) -> None:
        """Applies the data of the hub's ConfigMap; unusable data changes nothing."""
        try:
            self._use(self._from_files, published_trust(data))
        except FedHPAError as error:
            logger.warning("the hub's authentication ConfigMap is unusable", error=str(error))
            self._hub_problem = f"the hub's ConfigMap {NAMESPACE}/{CONFIG_MAP} is unusable: {error}"
            return
        self._hub_problem = ""

    async def follow_files(self) -> None:
        """Reloads the files when they change, until cancelled."""
        while True:
            await asyncio.sleep(FILE_POLL_SECONDS)
            self.reload()

    async def follow_hub(self, client: ApiClient) -> None:
        """Watches the hub's ConfigMap until cancelled.

        A deleted ConfigMap changes nothing: it is missing only while the hub restarts or is repaired.
        """
        reflector: Reflector[dict[str, str]] = Reflector(
            client,
            f"/api/v1/namespaces/{NAMESPACE}/configmaps",
            dict[str, Any],
            lambda item: dict(item.get("data") or {}),
            field_selector=f"metadata.name={CONFIG_MAP}",
            name=CONFIG_MAP,
            clock=self._clock.monotonic,
        )

        reflector.subscribe(lambda _, __, new: None if new is None else self.update_from_hub(new))
        async with asyncio.TaskGroup() as group:
            group.create_task(reflector.run())
            await reflector.synced.wait()
            self.synced = True

    def _use(self, from_files: Trust, from_hub: Trust) -> None:
        """Trusts both from now on. Raises FedHPAError, and then nothing has changed."""
        trust = Trust(
            b"\n".join(pem for pem in (from_files.client_ca, from_hub.client_ca) if pem),
            from_files.request_header or from_hub.request_header,
        )
        changed = trust != self.peers.trust
        if changed:
            peers = PeerAuthenticator(trust, self._clock.wall)
            self._tls.trust_clients(trust.bundle)
            self.peers = peers
        self._from_files, self._from_hub = from_files, from_hub
        if not changed:
            return
        names = trust.request_header.allowed_names if trust.request_header else ()
        logger.info("client trust loaded", front_proxies=trust.request_header is not None, names=list(names))


def published_trust(data: Mapping[str, str]) -> Trust:
    """Returns the trust that the hub's ConfigMap publishes; raises ConfigError for an unreadable key."""
    client_ca = _text(data, "client-ca-file").encode()
    proxy_ca = _text(data, "requestheader-client-ca-file").encode()
    if not proxy_ca:
        return Trust(client_ca)
    standard = RequestHeader(proxy_ca)
    return Trust(
        client_ca,
        RequestHeader(
            proxy_ca,
            _names(data, "requestheader-allowed-names", ()),
            _names(data, "requestheader-username-headers", standard.username_headers),
            _names(data, "requestheader-group-headers", standard.group_headers),
            _names(data, "requestheader-extra-headers-prefix", standard.extra_prefixes),
            _names(data, "requestheader-uid-headers", standard.uid_headers),
        ),
    )


def _text(data: Mapping[str, object], key: str) -> str:
    text = data.get(key, "")
    if not isinstance(text, str):
        raise ConfigError(f"{CONFIG_MAP} key {key}: expected a text")
    return text


def _names(data: Mapping[str, str], key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    text = data.get(key)
    if text is None:
        return default
    try:
        return tuple(decode_json(text, list[str] | None) or ())
    except InvalidJson as error:
        raise ConfigError(f"{CONFIG_MAP} key {key}: expected a JSON list of texts: {error}") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
