"""Creates certificates and authorities that are missing, and renews certificates that expire soon."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

from cryptography import x509

from certs.authority import CA_CERT_FILE, CA_KEY_FILE, CertificateAuthority, IssuedCertificate
from certs.files import locked
from fedhpa.api.errors import ConfigError


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
    """Gives the CA of a folder a new root, and returns it. Valid older roots stay in the bundle.

    Raises ConfigError, and then no file has changed.
    """
    with locked(directory):
        authority = CertificateAuthority.load(directory).rotate(now)
        authority.replace_in(directory)
        return authority


def ensure_certificate(
    authority: CertificateAuthority,
    directory: Path,
    issue: Callable[[], IssuedCertificate],
    *,
    now: dt.datetime | None = None,
) -> bool:
    """Saves the certificate of `issue` in the folder, unless the present pair is equivalent.

    The present pair is equivalent if its key matches, a root of the bundle signed the certificate, and it is
    valid, not due for renewal, and has the same subject, names and usages. Returns True if a certificate was
    saved. Raises ConfigError, and then no file has changed.
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
        and authority.trusts(certificate)
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
