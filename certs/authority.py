"""A certificate authority: a long-lived self-signed certificate and its key, which issue all others.

All keys are EC P-256. Certificates and keys are written by `certs.files`, so they match at any time.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs.files import PRIVATE_MODE, File, locked, read, write_all
from fedhpa.api.errors import ConfigError

CA_VALIDITY = dt.timedelta(days=3650)
# People replace the CA, so they hear of its end long before. New leaves end with it from here on.
CA_NOTICE = dt.timedelta(days=365)
# As kubeadm. Renewal starts when a third of it is left.
LEAF_VALIDITY = dt.timedelta(days=365)
# A machine whose clock is slow would refuse a certificate that is valid from now on.
BACKDATE = dt.timedelta(minutes=5)

CA_CERT_FILE = "ca.crt"
CA_KEY_FILE = "ca.key"
IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class IssuedCertificate:
    """A leaf certificate and its key, both PEM. The key is PKCS #8, unencrypted."""

    cert_pem: bytes
    key_pem: bytes

    @property
    def certificate(self) -> x509.Certificate:
        """The decoded certificate."""
        return x509.load_pem_x509_certificate(self.cert_pem)

    def renewal_due(self, now: dt.datetime | None = None) -> bool:
        """True once less than a third of the certificate's lifetime is left."""
        end, start = _lifetime(self.certificate)
        return end - _now(now) < (end - start) / 3

    def hosts(self) -> frozenset[str]:
        """The DNS names and IP addresses of the certificate; none if they cannot be read."""
        try:
            names = self.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (ValueError, TypeError, x509.ExtensionNotFound, x509.DuplicateExtension):
            return frozenset()
        addresses = map(str, names.get_values_for_type(x509.IPAddress))
        return frozenset([*names.get_values_for_type(x509.DNSName), *addresses])

    def matches(self) -> bool:
        """True if the key is the one of the certificate, so a server can start with the pair."""
        try:
            key = serialization.load_pem_private_key(self.key_pem, password=None)
            return key.public_key() == self.certificate.public_key()
        except (ValueError, TypeError, UnsupportedAlgorithm):
            return False

    def save(self, directory: Path, *, cert_name: str = "tls.crt", key_name: str = "tls.key") -> None:
        """Writes both files under the lock of the folder, or none of them and raises ConfigError."""
        with locked(directory):
            self.write_unlocked(directory, cert_name, key_name)

    def write_unlocked(self, directory: Path, cert_name: str = "tls.crt", key_name: str = "tls.key") -> None:
        """Writes both files. The caller has the lock of the folder."""
        # The key is renamed first, so a process that watches the certificate file finds the matching key.
        key = File(directory / key_name, self.key_pem, PRIVATE_MODE)
        write_all([key, File(directory / cert_name, self.cert_pem)])

    @classmethod
    def load(
        cls, directory: Path, *, cert_name: str = "tls.crt", key_name: str = "tls.key"
    ) -> IssuedCertificate:
        """Reads the files that `save` wrote. Raises ConfigError, which names a file that cannot be read."""
        return cls(read(directory / cert_name), read(directory / key_name))


@dataclass(frozen=True)
class CertificateAuthority:
    """The certificate of the CA and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(
        cls, common_name: str, *, validity: dt.timedelta = CA_VALIDITY, now: dt.datetime | None = None
    ) -> CertificateAuthority:
        """Creates a CA named `common_name`, valid from five minutes ago."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(common_name)
        builder = (
            _builder(name, name, key.public_key(), validity, _now(now))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(sign_certificates=True), critical=True)
        )
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def load(cls, directory: Path) -> CertificateAuthority:
        """Reads `ca.key` and its certificate in `ca.crt`. Raises ConfigError, which names the file."""
        cert_file, key_file = directory / CA_CERT_FILE, directory / CA_KEY_FILE
        try:
            found = x509.load_pem_x509_certificates(read(cert_file))
        except ValueError as error:
            raise ConfigError(f"{cert_file} holds no PEM certificate: {error}") from error
        authority = cls.of(found, read(key_file))
        if authority is None:
            raise ConfigError(f"{key_file} is not the unencrypted EC key of any certificate in {cert_file}")
        return authority

    @classmethod
    def of(cls, certificates: Iterable[x509.Certificate], key_bytes: bytes) -> CertificateAuthority | None:
        """Returns the CA with this PEM key; None if it is no EC key of any of the certificates."""
        try:
            key = serialization.load_pem_private_key(key_bytes, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            return None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            return None
        for certificate in certificates:
            try:
                if certificate.public_key() == key.public_key():
                    return cls(certificate, key)
            except (ValueError, UnsupportedAlgorithm):
                continue
        return None

    def save(self, directory: Path) -> None:
        """Writes `ca.key` and `ca.crt` under the lock of the folder, or raises ConfigError."""
        with locked(directory):
            self.write_unlocked(directory)

    def write_unlocked(self, directory: Path) -> None:
        """Writes `ca.key` and `ca.crt`. The caller has the lock of the folder."""
        # The key comes first, because a CA without its key cannot sign.
        key = File(directory / CA_KEY_FILE, self.key_pem, PRIVATE_MODE)
        write_all([key, File(directory / CA_CERT_FILE, self.bundle_pem)])

    @property
    def common_name(self) -> str:
        """The CN of the CA."""
        return str(self.certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)

    @property
    def bundle_pem(self) -> bytes:
        """The certificate as PEM, for clients."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The key as PEM."""
        return _key_pem(self.key)

    def expires_soon(self, now: dt.datetime | None = None) -> bool:
        """True once the CA should be replaced: a year of it is left, or half of a shorter life."""
        end, start = _lifetime(self.certificate)
        return end - _now(now) < min(CA_NOTICE, (end - start) / 2)

    def issued(self, certificate: x509.Certificate) -> bool:
        """True if this CA signed `certificate`."""
        return is_signed_by(certificate, self.certificate)

    def issue_server(
        self,
        common_name: str,
        *,
        dns: Iterable[str] = (),
        ips: Iterable[str | IPAddress] = (),
        client_auth: bool = False,
        validity: dt.timedelta = LEAF_VALIDITY,
        now: dt.datetime | None = None,
    ) -> IssuedCertificate:
        """Issues a serving certificate for the names. Raises ConfigError for no name or an invalid one.

        `dns` must include SERVICE.NAMESPACE.svc for an aggregated API server or webhook behind a Service,
        because the API server verifies that name. `client_auth` adds the client usage, which etcd peers need.
        """
        if not all(dns := list(dict.fromkeys(dns))):
            raise ConfigError(f"certificate {common_name!r}: a DNS name is empty")
        try:
            names: list[x509.GeneralName] = [x509.DNSName(name) for name in dns]
            names += [x509.IPAddress(ipaddress.ip_address(ip)) for ip in dict.fromkeys(ips)]
        except ValueError as error:
            raise ConfigError(f"certificate {common_name!r}: {error}") from error
        if not names:
            raise ConfigError(f"certificate {common_name!r} needs at least one DNS name or IP address")
        usages = [ExtendedKeyUsageOID.SERVER_AUTH]
        if client_auth:
            usages.append(ExtendedKeyUsageOID.CLIENT_AUTH)
        return self._issue(_name(common_name), usages, names, validity, _now(now))

    def issue_client(
        self,
        common_name: str,
        *,
        organizations: Sequence[str] = (),
        validity: dt.timedelta = LEAF_VALIDITY,
        now: dt.datetime | None = None,
    ) -> IssuedCertificate:
        """Issues a certificate of the Kubernetes user `common_name` in the groups `organizations`."""
        subject = _name(common_name, organizations)
        return self._issue(subject, [ExtendedKeyUsageOID.CLIENT_AUTH], [], validity, _now(now))

    def _issue(
        self,
        subject: x509.Name,
        usages: list[x509.ObjectIdentifier],
        names: list[x509.GeneralName],
        validity: dt.timedelta,
        now: dt.datetime,
    ) -> IssuedCertificate:
        key = ec.generate_private_key(ec.SECP256R1())
        end = self.certificate.not_valid_after_utc
        if end <= now:
            raise ConfigError(f"the CA {self.common_name!r} expired at {end:%Y-%m-%d %H:%M} UTC")
        # Clients refuse a leaf whose CA has expired, so its own end, and its renewal, must come first.
        validity = min(validity, end - now)
        issuer = self.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        builder = (
            _builder(subject, self.certificate.subject, key.public_key(), validity, now)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(sign_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer), critical=False
            )
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        return IssuedCertificate(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key))


def is_ip(host: str) -> bool:
    """True for the text of an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _lifetime(certificate: x509.Certificate) -> tuple[dt.datetime, dt.datetime]:
    """Returns the end and the begin of a certificate's life, without the time by which it is backdated."""
    end, start = certificate.not_valid_after_utc, certificate.not_valid_before_utc
    return end, min(start + BACKDATE, end)


def is_signed_by(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    """True if the CA signed the certificate."""
    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _now(now: dt.datetime | None) -> dt.datetime:
    return dt.datetime.now(dt.UTC) if now is None else now


def _name(common_name: str, organizations: Sequence[str] = ()) -> x509.Name:
    if not all(organizations):
        raise ConfigError(f"certificate {common_name!r}: an organization is empty")
    try:
        groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
        return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    except ValueError as error:
        raise ConfigError(f"certificate {common_name!r}: {error}") from error


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    validity: dt.timedelta,
    now: dt.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + validity)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _key_usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign_certificates,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Returns a key as PEM: PKCS #8, unencrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def ensure_authority(
    directory: Path, common_name: str, *, now: dt.datetime | None = None
) -> CertificateAuthority:
    """Returns the CA of a folder, and creates it if it is missing.

    It never replaces a CA, because clients would not trust the new one yet. Raises ConfigError.
    """
    with locked(directory):
        if (directory / CA_CERT_FILE).exists():
            return CertificateAuthority.load(directory)
        if (directory / CA_KEY_FILE).exists():
            raise ConfigError(
                f"{directory} has {CA_KEY_FILE} without {CA_CERT_FILE}: restore the one or remove the other"
            )
        authority = CertificateAuthority.create(common_name, now=now)
        authority.write_unlocked(directory)
        return authority


def ensure_certificate(
    authority: CertificateAuthority,
    directory: Path,
    issue: Callable[[], IssuedCertificate],
    *,
    now: dt.datetime | None = None,
) -> bool:
    """Saves the certificate of `issue` in the folder, unless the present pair is equivalent.

    The present pair is equivalent if its key matches, the CA signed the certificate, and it
    is valid, not due for renewal, and has the same subject, names and usages. Returns True if a certificate
    was saved. Raises ConfigError, and then no file has changed.
    """
    fresh = issue()
    with locked(directory):
        kept = _is_equivalent(authority, directory, fresh, now)
        if not kept:
            fresh.write_unlocked(directory)
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
