"""Verifies that a client certificate was issued by given CAs for client authentication.

The TLS layer accepts a certificate of any known CA. The issuing CA decides what the certificate proves: a
user or a front proxy. Therefore the leaf is verified again, against each CA bundle separately.

The rules are those of Go's crypto/x509, with which API servers verify. The verifier of cryptography follows
the Web PKI. It refuses what private CAs make: a CA without key usage, as from `openssl req -x509`, basic
constraints that are not critical, Ed25519 keys, and a leaf without a SAN or an extended key usage.
"""

from __future__ import annotations

import datetime as dt
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedhpa.api.errors import ConfigError

# A keep-alive connection presents the same certificate with each request, and a verification takes 0.1 ms.
CACHED_LEAVES = 256
CACHE_SECONDS = 60.0
# Critical extensions that are checked here, or that mean nothing for an issuer and its leaf.
KNOWN_EXTENSIONS = (
    x509.BasicConstraints,
    x509.KeyUsage,
    x509.ExtendedKeyUsage,
    x509.SubjectAlternativeName,
    x509.SubjectKeyIdentifier,
    x509.AuthorityKeyIdentifier,
)
NO_ISSUER = "no known CA has signed it directly"
CLIENT_USAGES = {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}


Extension = TypeVar("Extension", bound=x509.ExtensionType)


class RefusedCertificate(Exception):
    """A certificate proves nothing. The message says why."""


class ClientVerifier:
    """Verifies certificates against one CA bundle; immutable except for its cache."""

    def __init__(self, ca_pem: bytes, clock: Callable[[], dt.datetime]) -> None:
        """Raises ConfigError if the bundle holds no certificate."""
        try:
            self._authorities = x509.load_pem_x509_certificates(ca_pem)
        except ValueError as error:
            raise ConfigError(f"a client CA bundle holds no usable PEM certificate: {error}") from error
        self._clock = clock
        self._verified: OrderedDict[bytes, tuple[dt.datetime, x509.Certificate | str]] = OrderedDict()

    def verify(self, leaf_der: bytes) -> x509.Certificate | str:
        """Returns the certificate if it is valid now and a CA of the bundle signed it for clients.

        Otherwise it returns why not.
        """
        now = self._clock()
        known = self._verified.get(leaf_der)
        if known is not None and now < known[0]:
            return known[1]
        certificate = self._verify(leaf_der, now)
        until = now + dt.timedelta(seconds=CACHE_SECONDS)
        if not isinstance(certificate, str):
            until = min(until, certificate.not_valid_after_utc)
        self._verified[leaf_der] = (until, certificate)
        self._verified.move_to_end(leaf_der)
        if len(self._verified) > CACHED_LEAVES:
            self._verified.popitem(last=False)
        return certificate

    def _verify(self, leaf_der: bytes, now: dt.datetime) -> x509.Certificate | str:
        try:
            leaf = x509.load_der_x509_certificate(leaf_der)
            _check(leaf, now)
            issuers = [ca for ca in self._authorities if _issued(leaf, ca)]
            if not issuers:
                return NO_ISSUER
            problems = [problem for ca in issuers if (problem := _problem_of_issuer(ca, now))]
        except (RefusedCertificate, ValueError, UnsupportedAlgorithm) as error:
            return str(error)
        return leaf if len(problems) < len(issuers) else problems[0]


def _issued(leaf: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _problem_of_issuer(authority: x509.Certificate, now: dt.datetime) -> str:
    """Returns why a certificate of the bundle may not issue clients; "" if it may."""
    try:
        _check(authority, now)
        constraints = _extension(authority, x509.BasicConstraints)
        if constraints is None or not constraints.ca:
            raise RefusedCertificate("its issuer is no CA by its basic constraints")
        usage = _extension(authority, x509.KeyUsage)
        if usage is not None and not usage.key_cert_sign:
            raise RefusedCertificate("its issuer may not sign certificates by its key usage")
        if _extension(authority, x509.NameConstraints) is not None:
            raise RefusedCertificate("its issuer has name constraints, which are not evaluated here")
    except (RefusedCertificate, ValueError, UnsupportedAlgorithm) as error:
        return str(error)
    return ""


def _check(certificate: x509.Certificate, now: dt.datetime) -> None:
    """Raises RefusedCertificate unless a certificate is valid now and not for servers only.

    The TLS layer has refused weak keys and hashes before.
    """
    name = certificate.subject.rfc4514_string()
    if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
        raise RefusedCertificate(
            f"{name} is valid from {certificate.not_valid_before_utc} until {certificate.not_valid_after_utc}"
        )
    for extension in certificate.extensions:
        if extension.critical and not isinstance(extension.value, KNOWN_EXTENSIONS):
            raise RefusedCertificate(f"{name} has the critical extension {extension.oid.dotted_string}")
    usages = _extension(certificate, x509.ExtendedKeyUsage)
    if usages is not None and not CLIENT_USAGES.intersection(usages):
        raise RefusedCertificate(f"{name} is not for clients by its extended key usage")


def _extension(certificate: x509.Certificate, kind: type[Extension]) -> Extension | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def names_of(certificate: x509.Certificate, oid: x509.ObjectIdentifier) -> tuple[str, ...]:
    """Returns the subject's attributes of one type, in order."""
    return tuple(str(attribute.value) for attribute in certificate.subject.get_attributes_for_oid(oid))


def common_name(certificate: x509.Certificate) -> str:
    """Returns the subject's last CN, as Go does; "" if there is none."""
    return (names_of(certificate, NameOID.COMMON_NAME) or ("",))[-1]
