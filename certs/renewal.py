"""Creates certificates and authorities that are missing, and renews certificates that expire soon."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from cryptography import x509

from certs.authority import CA_CERT_FILE, CA_KEY_FILE, CertificateAuthority, IssuedCertificate
from certs.files import locked
from fedhpa.api.errors import ConfigError

NEXT_CERT_FILE, NEXT_KEY_FILE = "next.crt", "next.key"


def ensure_authority(
    directory: Path, common_name: str, *, now: dt.datetime | None = None
) -> CertificateAuthority:
    """Returns the CA of a folder, and creates it if it is missing.

    It never replaces a root, because clients would not trust the new one yet. Raises ConfigError.
    """
    with locked(directory):
        if (directory / CA_CERT_FILE).exists():
            return CertificateAuthority.load(directory)
        if (directory / CA_KEY_FILE).exists():
            raise ConfigError(
                f"{directory} has {CA_KEY_FILE} without {CA_CERT_FILE}: restore the one or remove the other"
            )
        authority = CertificateAuthority.create(common_name, now=now)
        authority.replace_in(directory)
        return authority


def rotate_authority(directory: Path, *, now: dt.datetime | None = None) -> CertificateAuthority:
    """Puts a new root beside the present one, which still signs. A second call changes nothing.

    The new root and its key are in `next.crt` and `next.key`, and it is in `ca.crt` for clients. Returns the
    authority. Raises ConfigError, and then no file has changed.
    """
    with locked(directory):
        authority = CertificateAuthority.load(directory)
        successor = _successor(directory) or authority.rotate(now).without_previous()
        # The new root's files come first, because `ca.crt` alone could not be continued.
        successor.replace_in(directory, cert_name=NEXT_CERT_FILE, key_name=NEXT_KEY_FILE)
        known = [root for root in authority.previous if root != successor.certificate]
        authority = replace(authority, previous=(successor.certificate, *known))
        authority.replace_in(directory)
        return authority


def sign_with_successor(directory: Path) -> CertificateAuthority:
    """Lets the root of `rotate_authority` sign. The old root stays trusted. Returns the authority.

    Raises ConfigError, also without such a root.
    """
    with locked(directory):
        authority, successor = CertificateAuthority.load(directory), _successor(directory)
        if successor is None:
            raise ConfigError(f"{directory} has no {NEXT_CERT_FILE}: begin with --stage publish")
        trusted = [authority.certificate, *authority.previous]
        kept = tuple(root for root in trusted if root != successor.certificate)
        authority = replace(successor, previous=kept)
        authority.replace_in(directory)
        for name in (NEXT_CERT_FILE, NEXT_KEY_FILE):
            (directory / name).unlink(missing_ok=True)
        return authority


def drop_previous(directory: Path) -> CertificateAuthority:
    """Drops all roots but the one that signs. Returns the authority. Raises ConfigError before that stage."""
    with locked(directory):
        authority = CertificateAuthority.load(directory)
        if _successor(directory) is not None:
            raise ConfigError(f"{directory} has {NEXT_CERT_FILE}: first let it sign with --stage sign")
        authority = authority.without_previous()
        authority.replace_in(directory)
        return authority


def has_successor(directory: Path) -> bool:
    """True between the stages publish and sign of a folder."""
    return (directory / NEXT_CERT_FILE).exists()


def _successor(directory: Path) -> CertificateAuthority | None:
    if not has_successor(directory):
        return None
    return CertificateAuthority.load(directory, cert_name=NEXT_CERT_FILE, key_name=NEXT_KEY_FILE)


def ensure_certificate(
    authority: CertificateAuthority,
    directory: Path,
    issue: Callable[[], IssuedCertificate],
    *,
    now: dt.datetime | None = None,
) -> bool:
    """Saves the certificate of `issue` in the folder, unless the present pair is equivalent.

    The present pair is equivalent if its key matches, the root that signs now signed the certificate, and it
    is valid, not due for renewal, and has the same subject, names and usages. Returns True if a certificate
    was saved. Raises ConfigError, and then no file has changed.
    """
    fresh = issue()
    with locked(directory):
        kept = _is_equivalent(authority, directory, fresh, now)
        if not kept:
            fresh.replace_in(directory)
    return not kept


def _is_equivalent(
    authority: CertificateAuthority, directory: Path, fresh: IssuedCertificate, now: dt.datetime | None
) -> bool:
    try:
        present = IssuedCertificate.load(directory)
        certificate = present.certificate
    except (ConfigError, ValueError):
        return False
    return (
        present.matches()
        and authority.issued(certificate)
        and certificate.not_valid_before_utc <= (now or dt.datetime.now(dt.UTC))
        and not present.renewal_due(now)
        and _identity(certificate) == _identity(fresh.certificate)
    )


def _identity(certificate: x509.Certificate) -> tuple[object, ...]:
    return certificate.subject, *(
        _extension(certificate, kind) for kind in (x509.SubjectAlternativeName, x509.ExtendedKeyUsage)
    )


def _extension(certificate: x509.Certificate, kind: type[x509.ExtensionType]) -> x509.ExtensionType | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None
