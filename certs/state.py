"""The stored Secrets and CA bundles, as `certs.stages` plans with them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from certs.authority import LEAF_VALIDITY, ROOT_VALIDITY, CertificateAuthority, IssuedCertificate

# Roots that a bundle may hold. A rotation needs two; a lost CA Secret leaves those that were found.
MAX_ROOTS: Final = 8


class Status(StrEnum):
    """The knowledge of a stored object. FOREIGN: it exists without the label of this project."""

    OURS = "ours"
    ABSENT = "absent"
    FOREIGN = "foreign"
    UNREAD = "unread"


@dataclass(frozen=True)
class Settings:
    """The lifetimes, and the settle time in seconds."""

    lifetime: dt.timedelta = LEAF_VALIDITY
    root_lifetime: dt.timedelta = ROOT_VALIDITY
    settle: float = 300.0


@dataclass(frozen=True)
class Authority:
    """The content of the CA Secret.

    `signer` is the root that signs, `successor` the new root of the stage PUBLISH, and `others` are roots
    that are only trusted. `rotation_requested` is true if a person asked for a new root.
    """

    signer: CertificateAuthority | None = None
    successor: CertificateAuthority | None = None
    others: tuple[x509.Certificate, ...] = ()
    rotation_requested: bool = False

    @property
    def roots(self) -> tuple[x509.Certificate, ...]:
        """The roots that every bundle must have."""
        held = [root.certificate for root in (self.signer, self.successor) if root is not None]
        return tuple(dict.fromkeys([*held, *self.others]))


@dataclass(frozen=True)
class Serving:
    """The serving certificate of one server. `pair` is None unless certificate and key fit each other.

    `hosts` are the DNS names and IP addresses that the certificate must have. `bundle` has the certificates
    of `ca.crt`.
    """

    server: str
    common_name: str
    hosts: frozenset[str]
    status: Status
    pair: IssuedCertificate | None = None
    bundle: tuple[x509.Certificate, ...] = ()

    @property
    def served_hosts(self) -> frozenset[str]:
        """The names of the stored certificate."""
        return frozenset() if self.pair is None else self.pair.hosts()


@dataclass(frozen=True)
class Trusting:
    """A registration whose CA bundles must trust the certificate of `server`.

    `bundles` has one entry for each caBundle. `uid` differs if the registration is created again.
    """

    name: str
    server: str
    status: Status
    uid: str = ""
    bundles: tuple[tuple[x509.Certificate, ...], ...] = ()


@dataclass(frozen=True)
class State:
    """The objects that are stored on the API servers."""

    authority: Authority
    authority_status: Status
    serving: tuple[Serving, ...] = ()
    trusting: tuple[Trusting, ...] = ()

    @property
    def is_complete(self) -> bool:
        """True if every object was read."""
        statuses = [each.status for each in self.serving] + [each.status for each in self.trusting]
        return Status.UNREAD not in statuses

    @property
    def managed(self) -> tuple[Serving, ...]:
        """The serving certificates that are issued here."""
        return tuple(each for each in self.serving if each.status in (Status.OURS, Status.ABSENT))

    @property
    def registrations(self) -> tuple[Trusting, ...]:
        """The registrations to publish to. The server of a foreign certificate has another CA."""
        issued = {each.server for each in self.managed}
        return tuple(each for each in self.trusting if each.status is Status.OURS and each.server in issued)


@dataclass(frozen=True)
class Now:
    """The time. `agreed` is false while two clocks differ; then no date is a reason to act."""

    time: dt.datetime
    agreed: bool = True


def fingerprint(certificate: x509.Certificate) -> str:
    """Returns the SHA-256 fingerprint of a certificate, in lower case without colons."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def server_hosts(service: str, namespace: str, more: Iterable[str] = ()) -> frozenset[str]:
    """Returns the names under which a Service is called, and further ones."""
    full = f"{service}.{namespace}.svc"
    return frozenset((service, f"{service}.{namespace}", full, f"{full}.cluster.local", *more))
