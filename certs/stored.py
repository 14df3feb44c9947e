"""The stored Secrets and CA bundles: decoded, and as objects to write.

These objects may hold anything. A part that cannot be used counts as missing.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.utils import CryptographyDeprecationWarning

from certs.authority import CertificateAuthority, IssuedCertificate
from fedhpa.api.free_json import at, text_at
from fedhpa.api.rights import PART_OF, PROJECT

Object = dict[str, Any]

CA_SECRET: Final = "fedhpa-ca"  # noqa: S105  # the name of a Secret
CA_CERT, CA_KEY, NEXT_KEY = "ca.crt", "ca.key", "next.key"
TLS_CERT, TLS_KEY = "tls.crt", "tls.key"
UNREADABLE: Final = "Unreadable"
# Bytes of one value. A bundle of eight CAs has about 6 kB, and each value is parsed every few seconds.
MAX_VALUE: Final = 64 * 1024
# CAs that a bundle may hold. A change needs two; a lost CA Secret leaves those that were found.
MAX_CAS: Final = 8
# A fingerprint's digits for people. JSON has all 64.
SHORT: Final = 16


class Status(StrEnum):
    """The knowledge of a stored object. FOREIGN: it belongs to another owner, so it is left alone."""

    OURS = "ours"
    ABSENT = "absent"
    FOREIGN = "foreign"
    UNREAD = "unread"


class Problem(NamedTuple):
    """The problem with an object: a reason for events, and a text for people."""

    reason: str
    text: str


class Step(StrEnum):
    """The step of a change of the CA, by the content of Secret fedhpa-ca."""

    NONE = "none"
    PUBLISH = "publish"
    SWITCH = "switch"


@dataclass(frozen=True)
class StoredCA:
    """Secret `fedhpa-ca`. `signer` issues, `successor` is the new CA of the step PUBLISH.

    `trusted` are the certificates that every CA bundle must have. Those of signer and successor are among
    them.
    """

    status: Status
    signer: CertificateAuthority | None = None
    successor: CertificateAuthority | None = None
    trusted: tuple[x509.Certificate, ...] = ()
    found: Object | None = None

    @property
    def step(self) -> Step:
        """The step of a change that a person has begun."""
        if self.successor is not None:
            return Step.PUBLISH
        return Step.SWITCH if len(self.trusted) > 1 else Step.NONE


@dataclass(frozen=True)
class Serving:
    """The Secret of one server. `pair` is None unless certificate and key fit each other.

    `hosts` are the DNS names and IP addresses that the certificate must have, and `bundle` is its `ca.crt`.
    """

    server: str
    service: str
    hosts: frozenset[str]
    status: Status
    pair: IssuedCertificate | None = None
    bundle: tuple[x509.Certificate, ...] = ()
    found: Object | None = None

    @property
    def is_managed(self) -> bool:
        """True if the certificate is issued here."""
        return self.status in (Status.OURS, Status.ABSENT)


@dataclass(frozen=True)
class Registration:
    """An object whose CA bundles must trust the certificate of `server`; one entry for each caBundle."""

    name: str
    server: str
    status: Status
    bundles: tuple[tuple[x509.Certificate, ...], ...] = ()
    found: Object | None = None

    @property
    def uid(self) -> str:
        """The UID, which differs if the registration is created again."""
        return text_at(self.found, "metadata", "uid")

    def trusts_only(self, wanted: Iterable[x509.Certificate]) -> bool:
        """True if every CA bundle has exactly these certificates."""
        return all(set(bundle) == set(wanted) for bundle in self.bundles)


@dataclass(frozen=True)
class Reading:
    """Everything that one look at the API servers found. `date` is the time of an answer of theirs."""

    ca: StoredCA
    serving: tuple[Serving, ...] = ()
    registrations: tuple[Registration, ...] = ()
    problems: Mapping[str, Problem] = field(default_factory=dict)
    date: dt.datetime | None = None

    @property
    def is_complete(self) -> bool:
        """True if every object was read."""
        statuses = [each.status for each in self.serving] + [each.status for each in self.registrations]
        return Status.UNREAD not in (self.ca.status, *statuses)

    @property
    def managed(self) -> list[Serving]:
        """The servers whose certificates are issued here."""
        return [each for each in self.serving if each.is_managed]

    @property
    def published(self) -> list[Registration]:
        """The registrations to publish to. The server of a foreign certificate has another CA."""
        issued = {each.server for each in self.managed}
        return [each for each in self.registrations if each.status is Status.OURS and each.server in issued]


def status_of(found: Mapping[str, Any] | None) -> Status:
    """Returns the status of a Secret that was read; None if it does not exist."""
    if found is None:
        return Status.ABSENT
    return Status.OURS if at(found, "metadata", "labels", PART_OF) == PROJECT else Status.FOREIGN


def decode_ca(status: Status, found: Object | None) -> StoredCA:
    """Returns the content of the CA Secret."""
    if status is not Status.OURS or found is None:
        return StoredCA(status, found=found)
    trusted = bundle_of(value(found, CA_CERT))
    signer, successor = (CertificateAuthority.of(trusted, value(found, key)) for key in (CA_KEY, NEXT_KEY))
    return StoredCA(status, signer, successor, trusted, found)


def encode_ca(
    found: Object | None,
    namespace: str,
    signer: CertificateAuthority,
    others: Iterable[x509.Certificate] = (),
    successor: CertificateAuthority | None = None,
) -> Object:
    """Returns the CA Secret to write. `others` are trusted, too."""
    held = [each.certificate for each in (signer, successor) if each is not None]
    data = {CA_CERT: bundle_pem([*held, *others][:MAX_CAS]), CA_KEY: signer.key_pem}
    if successor is not None:
        data[NEXT_KEY] = successor.key_pem
    return secret(found, namespace, CA_SECRET, "Opaque", data)


def decode_pair(found: Mapping[str, Any]) -> IssuedCertificate | None:
    """Returns the pair of a serving Secret, or None unless certificate and key fit each other."""
    pair = IssuedCertificate(value(found, TLS_CERT), value(found, TLS_KEY))
    return pair if bundle_of(pair.cert_pem) and pair.matches() else None


def secret(
    found: Mapping[str, Any] | None, namespace: str, name: str, kind: str, data: Mapping[str, bytes]
) -> Object:
    """Returns the Secret to write: a new one, or the found one with other data. `kind` is its type."""
    encoded = {key: base64.b64encode(content).decode() for key, content in data.items()}
    if found is not None:
        return {**found, "data": encoded}
    labels = {"app.kubernetes.io/name": PROJECT, PART_OF: PROJECT}
    labels["app.kubernetes.io/component"] = "certificates"
    metadata: Object = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": metadata, "data": encoded}


def bundle_of(pem: bytes) -> tuple[x509.Certificate, ...]:
    """Returns the certificates of a PEM bundle; none if it is unreadable or too large."""
    if not pem or len(pem) > MAX_VALUE:
        return ()
    try:
        with warnings.catch_warnings():
            # Serial numbers and names of others' certificates may be odd. They are only compared.
            warnings.simplefilter("ignore", CryptographyDeprecationWarning)
            found = x509.load_pem_x509_certificates(pem)
    except ValueError:
        return ()
    return tuple(dict.fromkeys(found))[: MAX_CAS + 1]


def bundle_pem(certificates: Iterable[x509.Certificate]) -> bytes:
    """Returns certificates as a PEM bundle."""
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


def fingerprint(certificate: x509.Certificate) -> str:
    """Returns the SHA-256 fingerprint of a certificate, in lower case without colons."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def name_of(certificate: x509.Certificate) -> str:
    """Returns the begin of the fingerprint and the end of a certificate, for people."""
    return f"{fingerprint(certificate)[:SHORT]} (until {certificate.not_valid_after_utc:%Y-%m-%d})"


def decoded(text: Any) -> bytes:
    """Returns the bytes of a base64 text; none if it is no such text or too large."""
    if not isinstance(text, str) or len(text) > MAX_VALUE * 4 // 3 + 4:
        return b""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def value(found: Mapping[str, Any], key: str) -> bytes:
    """Returns the bytes of a value of a Secret; none if it has no such value."""
    return decoded(at(found, "data", key))
