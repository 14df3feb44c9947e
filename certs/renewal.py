"""Creates certificates and authorities that are missing, and renews those that expire soon."""

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
    """Returns the CA of a folder. Creates it if it is missing, and rotates it if it is due for renewal.

    After a rotation the old root stays in the bundle while it is valid.
    """
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
    """Saves the certificate of `issue` in the folder, unless its present one is equivalent.

    The present certificate is equivalent if the newest root signed it, it is not due for renewal, and it has
    the same subject, names and usages. Returns True if a certificate was saved.
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
