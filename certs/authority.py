"""A certificate authority: the newest root certificate, its key, and the older roots that are still trusted.

Roots are self-signed EC P-256 certificates. The newest root signs all leaf certificates. During a rotation
`bundle_pem` has the old and the new root, so clients of the bundle accept leaves of both. To rotate, publish
the new bundle, issue the leaves again, and then drop the old root (`certs.stages`, `certs.renewal`).

Certificates and keys are written by `certs.files`, so they match at any time.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs.files import PRIVATE_MODE, File, locked, read, write_all
from fedhpa.api.errors import ConfigError

ROOT_VALIDITY = dt.timedelta(days=3650)
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
            self.replace_in(directory, cert_name=cert_name, key_name=key_name)

    def replace_in(self, directory: Path, *, cert_name: str = "tls.crt", key_name: str = "tls.key") -> None:
        """Writes both files; the caller holds the lock of the folder. Only the owner can read the key.

        The key is renamed first, so a process that watches the certificate file finds the matching key.
        """
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
    """The root that signs, its key, and the other roots that clients of the bundle trust.

    The root that signs is the newest one, unless a rotation was interrupted.
    """

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    previous: tuple[x509.Certificate, ...] = ()

    @classmethod
    def create(
        cls,
        common_name: str,
        *,
        validity: dt.timedelta = ROOT_VALIDITY,
        now: dt.datetime | None = None,
    ) -> CertificateAuthority:
        """Creates a new root named `common_name`, valid from five minutes ago."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(common_name)
        builder = (
            _builder(name, name, key.public_key(), validity, _now(now))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(sign_certificates=True), critical=True)
        )
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def load(
        cls, directory: Path, *, cert_name: str = CA_CERT_FILE, key_name: str = CA_KEY_FILE
    ) -> CertificateAuthority:
        """Reads the roots and the key of one of them. Raises ConfigError, which names the file."""
        cert_file, key_file = directory / cert_name, directory / key_name
        try:
            roots = x509.load_pem_x509_certificates(read(cert_file))
        except ValueError as error:
            raise ConfigError(f"{cert_file} holds no PEM certificate: {error}") from error
        try:
            key = serialization.load_pem_private_key(read(key_file), password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise ConfigError(f"{key_file} holds no unencrypted PEM private key: {error}") from error
        # A rotation that ended between its two files left the new roots with the old key.
        own = [root for root in roots if root.public_key() == key.public_key()]
        if not isinstance(key, ec.EllipticCurvePrivateKey) or not own:
            raise ConfigError(f"{key_file} is not the EC key of any certificate in {cert_file}")
        return cls(own[0], key, tuple(root for root in roots if root is not own[0]))

    def save(self, directory: Path) -> None:
        """Writes both files under the lock of the folder, or none of them and raises ConfigError."""
        with locked(directory):
            self.replace_in(directory)

    def replace_in(
        self, directory: Path, *, cert_name: str = CA_CERT_FILE, key_name: str = CA_KEY_FILE
    ) -> None:
        """Writes `ca.crt` (the whole bundle) and `ca.key`; the caller holds the lock of the folder.

        The order keeps the authority usable if the process ends between the two: a new folder gets the key
        first, because a root without its key cannot sign. A rotation writes the roots first, because the old
        key is the key of one of them.
        """
        cert = File(directory / cert_name, self.bundle_pem)
        key = File(directory / key_name, key_pem(self.key), PRIVATE_MODE)
        write_all([cert, key] if cert.path.exists() else [key, cert])

    @property
    def common_name(self) -> str:
        """The CN of the newest root."""
        return str(self.certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)

    @property
    def bundle_pem(self) -> bytes:
        """The CA bundle for clients: the newest root, then the older ones."""
        roots = (self.certificate, *self.previous)
        return b"".join(root.public_bytes(serialization.Encoding.PEM) for root in roots)

    def renewal_due(self, now: dt.datetime | None = None, *, leaf: dt.timedelta = LEAF_VALIDITY) -> bool:
        """True once a new leaf would outlive the newest root, or a third of its lifetime is left.

        `leaf` is the lifetime of new leaves.
        """
        end, start = _lifetime(self.certificate)
        return end - _now(now) < max((end - start) / 3, min(leaf, (end - start) / 2))

    def rotate(self, now: dt.datetime | None = None) -> CertificateAuthority:
        """Returns an authority with a new root of the same name and lifetime. Valid roots stay trusted."""
        moment = _now(now)
        length = self.certificate.not_valid_after_utc - self.certificate.not_valid_before_utc - BACKDATE
        fresh = CertificateAuthority.create(self.common_name, validity=length, now=moment)
        kept = [r for r in (self.certificate, *self.previous) if r.not_valid_after_utc > moment]
        return replace(fresh, previous=tuple(kept))

    def without_previous(self) -> CertificateAuthority:
        """Returns the authority with its newest root only, which ends a rotation."""
        return replace(self, previous=())

    def issued(self, certificate: x509.Certificate) -> bool:
        """True if the root that signs now signed `certificate`."""
        return is_signed_by(certificate, self.certificate)

    def trusts(self, certificate: x509.Certificate) -> bool:
        """True if a root of the bundle signed `certificate`."""
        return any(is_signed_by(certificate, root) for root in (self.certificate, *self.previous))

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

    def issue_for_hosts(
        self, common_name: str, hosts: Iterable[str], *, validity: dt.timedelta, now: dt.datetime
    ) -> IssuedCertificate:
        """Issues a serving certificate for DNS names and IP addresses, which may be mixed."""
        addresses = {host for host in hosts if is_ip(host)}
        dns = sorted(set(hosts) - addresses)
        return self.issue_server(common_name, dns=dns, ips=sorted(addresses), validity=validity, now=now)

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
            raise ConfigError(f"the root {self.common_name!r} expired at {end:%Y-%m-%d %H:%M} UTC")
        # Clients refuse a leaf whose root has expired, so its own end, and its renewal, must come first.
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
        return IssuedCertificate(certificate.public_bytes(serialization.Encoding.PEM), key_pem(key))


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


def is_signed_by(certificate: x509.Certificate, root: x509.Certificate) -> bool:
    """True if the root signed the certificate."""
    try:
        certificate.verify_directly_issued_by(root)
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


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Returns a key as PEM: PKCS #8, unencrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
