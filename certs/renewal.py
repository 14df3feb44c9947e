"""Certificates that are there when they are needed: issued when missing, renewed before they end."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

from cryptography import x509

from certs.authority import CA_CERT_FILE, CertificateAuthority, IssuedCertificate
from fedhpa.api.errors import ConfigError


def ensure_authority(
    directory: Path, common_name: str, *, now: dt.datetime | None = None
) -> CertificateAuthority:
    """The CA of a folder, created if there is none, rotated (with overlap) if it is due."""
    if not (directory / CA_CERT_FILE).exists():
        authority = CertificateAuthority.create(common_name, now=now)
        authority.save(directory)
        return authority
    authority = CertificateAuthority.load(directory)
    if authority.renewal_due(now):
        authority = authority.rotate(now)
        authority.save(directory)
    return authority


def ensure_certificate(
    authority: CertificateAuthority,
    directory: Path,
    issue: Callable[[], IssuedCertificate],
    *,
    now: dt.datetime | None = None,
) -> bool:
    """Put what `issue` gives into the folder unless what is there is as good; whether it was put.

    As good means: signed by the newest root, not due for renewal, and of the same subject, names and usages.
    """
    fresh = issue()
    try:
        present = IssuedCertificate.load(directory)
        kept = (
            authority.issued(present.certificate)
            and not present.renewal_due(now)
            and _identity(present.certificate) == _identity(fresh.certificate)
        )
    except (ConfigError, ValueError):
        kept = False
    if not kept:
        fresh.save(directory)
    return not kept


def _identity(certificate: x509.Certificate) -> tuple[object, ...]:
    return certificate.subject, *(
        _extension(certificate, kind) for kind in (x509.SubjectAlternativeName, x509.ExtendedKeyUsage)
    )


def _extension(certificate: x509.Certificate, kind: type[x509.ExtensionType]) -> x509.ExtensionType | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None
