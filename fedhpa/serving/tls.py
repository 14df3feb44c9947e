"""Server-side TLS with immutable contexts that are replaced as a whole when files or CAs change.

A listening socket keeps its first context, and OpenSSL can add a CA to a context but not remove one.
Therefore the listening context only answers the ClientHello: its SNI callback hands the connection to the
current context. A rotation is one assignment, and open connections are not affected.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from cryptography import x509

from fedhpa.api.errors import ConfigError, FedHPAError
from fedhpa.serving.flags import common
from fedhpa.serving.flags.types import Values

logger = structlog.get_logger(__name__)

# One poll costs two stat calls, and a rotation takes effect within a second.
POLL_SECONDS = 1.0


@dataclass(frozen=True)
class TlsFiles:
    """The files of the serving certificate (PEM, with its chain) and of its private key."""

    certificate: Path
    key: Path

    @property
    def await_content(self) -> bool:
        """True if the folder exists, and both files are missing or empty.

        Kubernetes mounts an optional Secret as an empty folder, and fills it once the Secret exists.
        """
        return self.certificate.parent.is_dir() and not any(map(_size, (self.certificate, self.key)))

    @classmethod
    def of(cls, values: Values) -> TlsFiles:
        """Returns the files that the serving flags name; raises ConfigError for half a pair."""
        certificate, key = values[common.TLS_CERT_FILE], values[common.TLS_PRIVATE_KEY_FILE]
        if bool(certificate) != bool(key):
            given, missing = (
                (common.TLS_CERT_FILE, common.TLS_PRIVATE_KEY_FILE)
                if certificate
                else (common.TLS_PRIVATE_KEY_FILE, common.TLS_CERT_FILE)
            )
            raise ConfigError(f'--{given.name}="{values[given]}": expected --{missing.name} with it')
        if certificate:
            return cls(Path(certificate), Path(key))
        folder = Path(values[common.CERT_DIR])
        return cls(
            folder / values[common.TLS_CERT_FILE_NAME],
            folder / values[common.TLS_PRIVATE_KEY_FILE_NAME],
        )


class ServingTls:
    """The TLS identity of one server: loaded at once, reloaded by `reload` or `watch`.

    If the files have no content yet, `filled` waits for it and loads them.

    With `request_client_certificates`, clients may present a certificate. The handshake fails if no CA given
    to `trust_clients` signed it. Clients without a certificate are served.
    """

    def __init__(
        self,
        files: TlsFiles,
        *,
        minimum_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
        request_client_certificates: bool = False,
    ) -> None:
        """Loads the files; raises FedHPAError that names a missing or unusable file.

        Files that await their content are not loaded.
        """
        self._files = files
        self._minimum_version = minimum_version
        self._request_clients = request_client_certificates
        self._client_cas = b""
        self._expires = 0.0
        self._seen = self._stats()
        # Why the newest files are not in use; "" if they are.
        self._problem = ""
        self._current: ssl.SSLContext | None = None
        self._listening: ssl.SSLContext | None = None
        if not files.await_content:
            self._load()

    @property
    def listening_context(self) -> ssl.SSLContext:
        """The context of the listening socket. Raises FedHPAError before the files have been loaded."""
        if self._listening is None:
            raise FedHPAError(self.awaits)
        return self._listening

    @property
    def awaits(self) -> str:
        """The folder that the process waits for, and the writers that may fill it; "" once it is filled."""
        if self._listening is not None:
            return ""
        folder, name = self._files.certificate.parent, self._files.certificate.name
        return (
            f"{folder} has no {name} yet: the Secret that is mounted there is filled by the controller with "
            "--manage-certificates, by cert-manager, or by a person"
        )

    async def filled(self, stop: asyncio.Event, interval: float = POLL_SECONDS) -> bool:
        """Waits until the files are loaded. Returns False if `stop` is set before."""
        if self._listening is None:
            logger.warning("waiting for the serving certificate", detail=self.awaits)
        while self._listening is None and not stop.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), interval)
            if not self._files.await_content:
                self.reload()
        return self._listening is not None

    def _load(self) -> None:
        for path in (self._files.certificate, self._files.key):
            try:
                path.read_bytes()
            except OSError as error:
                raise FedHPAError(f"cannot read {path}: {error.strerror}") from error
        self._current = self._build(self._client_cas)
        if self._listening is None:
            listening = self._build(b"")
            listening.sni_callback = self._select
            self._listening = listening

    @property
    def expires(self) -> float:
        """The expiry of the certificate in use, in POSIX seconds."""
        return self._expires

    def trust_clients(self, ca_pem: bytes) -> None:
        """Accepts client certificates of exactly these CAs from now on; raises FedHPAError for bad CAs."""
        if ca_pem != self._client_cas:
            if self._listening is not None:
                self._current = self._build(ca_pem)
            self._client_cas = ca_pem

    def reload(self) -> bool:
        """Loads the files again; returns False and keeps the old pair if they are unusable."""
        if self._listening is None and self._files.await_content:
            return False
        self._seen = self._stats()
        try:
            self._load()
        except FedHPAError as error:
            # Log once per problem. A broken file must not fill the log every second.
            if str(error) != self._problem:
                kept = "" if self._listening is None else ", keeping the old one"
                logger.error(f"serving certificate not loaded{kept}", error=str(error))  # noqa: TRY400 - no bug
            self._problem = str(error)
            return False
        self._problem = ""
        logger.info("serving certificate loaded", file=str(self._files.certificate))
        return True

    async def watch(self, interval: float = POLL_SECONDS) -> None:
        """Reloads when a file changes, until cancelled."""
        while True:
            await asyncio.sleep(interval)
            if self._stats() != self._seen:
                self.reload()

    def _select(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        if self._current is not None:
            connection.context = self._current

    def _build(self, client_cas: bytes) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with warnings.catch_warnings():
            # TLS 1.0 and 1.1 are deprecated, but --tls-min-version may allow them.
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = self._minimum_version
        context.set_alpn_protocols(["http/1.1"])
        try:
            # Without a password OpenSSL would prompt for one on the terminal.
            context.load_cert_chain(self._files.certificate, self._files.key, password=str)
            self._expires = _expiry(self._files.certificate)
        except (ssl.SSLError, OSError) as error:
            files = f"{self._files.certificate} with {self._files.key}"
            raise FedHPAError(f"cannot use the serving certificate {files}: {error}") from error
        if self._request_clients:
            context.verify_mode = ssl.CERT_OPTIONAL
            # A resumed session could keep a client certificate whose CA is no longer trusted.
            context.num_tickets = 0
            context.options |= ssl.OP_NO_TICKET
        if client_cas:
            try:
                context.load_verify_locations(cadata=client_cas.decode())
            except (ssl.SSLError, ValueError) as error:
                raise FedHPAError(f"cannot use the client CA bundle: {error}") from error
        return context

    def _stats(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_stat(path) for path in (self._files.certificate, self._files.key))


def peer_certificate(connection: ssl.SSLObject | None) -> bytes | None:
    """Returns the verified client certificate (DER) of a connection; None without one."""
    return (connection.getpeercert(binary_form=True) if connection is not None else None) or None


def peer_intermediates(connection: ssl.SSLObject) -> list[bytes]:
    """Returns the certificates (DER) that a client sent besides its own.

    Python before 3.13 has them in an undocumented place only. Without it a client needs a CA that signed its
    certificate directly.
    """
    public = getattr(connection, "get_unverified_chain", None)
    if public is not None:
        return list(public())[1:]
    inner: Any = getattr(connection, "_sslobj", None)
    chain = inner.get_unverified_chain() if hasattr(inner, "get_unverified_chain") else None
    return [ssl.PEM_cert_to_DER_cert(each.public_bytes()) for each in (chain or ())[1:]]


def _expiry(path: Path) -> float:
    """Returns when the first certificate of a PEM file expires; 0 if it cannot be read after all."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc.timestamp()
    except ValueError:
        return 0.0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _stat(path: Path) -> tuple[int, int, int] | None:
    # Kubernetes updates a mounted Secret by switching a symbolic link, so the inode of the file changes.
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
