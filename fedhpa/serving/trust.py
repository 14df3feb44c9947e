"""Whom an aggregated API server believes, followed live.

The hub publishes its front proxies' CA, names and headers, and its client CA, in the ConfigMap
kube-system/extension-apiserver-authentication; flags may add a client CA or take the proxies' place. Both
change while we run, and each change is one swap: of the CAs of the handshake and of what they prove.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import structlog

from fedhpa.api.errors import ConfigError, FedHPAError
from fedhpa.kube.client import ApiClient
from fedhpa.kube.reflector import Change, Reflector
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
    """What the flags say: files that may be replaced while we run."""

    client_ca: Path | None = None
    request_header_ca: Path | None = None
    request_header: RequestHeader = field(default_factory=lambda: RequestHeader(b""))

    @classmethod
    def of(cls, values: Values) -> TrustFiles:
        """The trust that the authentication flags name."""
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
        """The trust of the files as they are now; raises ConfigError naming the unreadable one."""
        client_ca = _read(self.client_ca) if self.client_ca is not None else b""
        if self.request_header_ca is None:
            return Trust(client_ca)
        return Trust(client_ca, replace(self.request_header, ca_pem=_read(self.request_header_ca)))


class LiveTrust:
    """The trust of the moment, from files and hub together; `peers` authenticates under it."""

    def __init__(self, files: TrustFiles, tls: ServingTls) -> None:
        """Raises FedHPAError if the files of the flags cannot be used."""
        self._files = files
        self._tls = tls
        self._from_files = files.read()
        self._from_hub = Trust()
        self.peers = PeerAuthenticator(Trust())
        self._apply()

    def reload(self) -> None:
        """Read the flags' files again; unusable ones change nothing."""
        try:
            read = self._files.read()
        except FedHPAError as error:
            logger.warning("client CA files not loaded, keeping the old ones", error=str(error))
            return
        if read != self._from_files:
            self._swap(from_files=read, from_hub=self._from_hub)

    def take_hub(self, data: Mapping[str, str]) -> None:
        """Believe what the hub's ConfigMap says now; rubbish in it changes nothing."""
        try:
            published = published_trust(data)
        except FedHPAError as error:
            logger.warning("the hub's authentication ConfigMap is not usable", error=str(error))
            return
        self._swap(from_files=self._from_files, from_hub=published)

    async def follow_files(self) -> None:
        """Reload the flags' files as they change, until cancelled."""
        while True:
            await asyncio.sleep(FILE_POLL_SECONDS)
            self.reload()

    async def follow_hub(self, client: ApiClient, synced: Callable[[], object]) -> None:
        """Follow the hub's ConfigMap until cancelled; `synced` is called once it was looked up.

        A ConfigMap that disappears changes nothing: a hub without it is being restarted or repaired.
        """
        reflector: Reflector[dict[str, str]] = Reflector(
            client,
            f"/api/v1/namespaces/{NAMESPACE}/configmaps",
            dict[str, Any],
            lambda item: dict(item.get("data") or {}),
            field_selector=f"metadata.name={CONFIG_MAP}",
            name=CONFIG_MAP,
        )

        def changed(change: Change[dict[str, str]]) -> None:
            if change.new is not None:
                self.take_hub(change.new)

        reflector.subscribe(changed)
        async with asyncio.TaskGroup() as group:
            group.create_task(reflector.run())
            await reflector.synced.wait()
            synced()

    def _swap(self, *, from_files: Trust, from_hub: Trust) -> None:
        old = self._from_files, self._from_hub
        self._from_files, self._from_hub = from_files, from_hub
        try:
            self._apply()
        except FedHPAError as error:
            self._from_files, self._from_hub = old
            logger.warning("client CAs not usable, keeping the old ones", error=str(error))

    def _apply(self) -> None:
        trust = Trust(
            b"\n".join(pem for pem in (self._from_files.client_ca, self._from_hub.client_ca) if pem),
            self._from_files.request_header or self._from_hub.request_header,
        )
        if trust == self.peers.trust:
            return
        peers = PeerAuthenticator(trust)
        self._tls.trust_clients(trust.bundle)
        self.peers = peers
        names = trust.request_header.allowed_names if trust.request_header else ()
        logger.info("client trust loaded", front_proxies=trust.request_header is not None, names=list(names))


def published_trust(data: Mapping[str, str]) -> Trust:
    """The trust that the hub's ConfigMap publishes; raises ConfigError for keys that cannot be read."""
    client_ca = data.get("client-ca-file", "").encode()
    proxy_ca = data.get("requestheader-client-ca-file", "").encode()
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


def _names(data: Mapping[str, str], key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    text = data.get(key)
    if text is None:
        return default
    try:
        return tuple(msgspec.json.decode(text, type=list[str] | None) or ())
    except msgspec.DecodeError as error:
        raise ConfigError(f"{CONFIG_MAP} key {key}: expected a JSON list of texts: {error}") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
