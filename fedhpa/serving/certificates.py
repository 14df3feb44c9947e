"""Verifies that a client certificate was issued by given CAs for client authentication.

The TLS layer accepts a certificate of any known CA. The issuing CA decides what the certificate proves: a
user or a front proxy. Therefore the leaf is verified again, against each CA bundle separately.

The rules are those of Go's crypto/x509, with which API servers verify. The verifier of cryptography follows
the Web PKI. It refuses what private CAs make: a CA without key usage, as from `openssl req -x509`, basic
constraints that are not critical, Ed25519 keys, and a leaf without a SAN or an extended key usage.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import ipaddress
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedhpa.api.errors import ConfigError
from fedhpa.cache import Recent

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
    x509.NameConstraints,
)
# Certificates beside its own that a client may send. Each may cost a few signatures to verify.
MAX_INTERMEDIATES = 4
# The kinds of names that are checked. A critical constraint on another kind refuses every certificate.
CHECKED = (x509.DNSName, x509.RFC822Name, x509.UniformResourceIdentifier, x509.IPAddress)
# Comparisons of one CA with all names below it.
MAX_COMPARISONS = 100_000
NO_ISSUER = "no known CA has signed it, and what the client sent leads to none"
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
        self._verified: Recent[bytes, tuple[dt.datetime, x509.Certificate | str]] = Recent(CACHED_LEAVES)

    def verify(
        self, leaf_der: bytes, sent: Callable[[], Sequence[bytes]] = lambda: ()
    ) -> x509.Certificate | str:
        """Returns the certificate if it is valid now and a CA of the bundle signed it for clients.

        Otherwise it returns why not. `sent` returns the other certificates that the client sent, which may
        lead to a CA of the bundle.
        """
        found = self._cached(leaf_der, ())
        if found == NO_ISSUER and (chain := tuple(sent())[:MAX_INTERMEDIATES]):
            return self._cached(leaf_der, chain)
        return found

    def _cached(self, leaf_der: bytes, chain: tuple[bytes, ...]) -> x509.Certificate | str:
        now, key = self._clock(), leaf_der
        if chain:
            key = b"".join(hashlib.sha256(each).digest() for each in (leaf_der, *chain))
        known = self._verified.get(key)
        if known is not None and now < known[0]:
            return known[1]
        certificate = self._verify(leaf_der, chain, now)
        until = now + dt.timedelta(seconds=CACHE_SECONDS)
        if not isinstance(certificate, str):
            until = min(until, certificate.not_valid_after_utc)
        self._verified[key] = (until, certificate)
        return certificate

    def _verify(self, leaf_der: bytes, chain: tuple[bytes, ...], now: dt.datetime) -> x509.Certificate | str:
        try:
            with warnings.catch_warnings():
                # The library warns of a serial number below 1, and a client may send any number of them.
                warnings.simplefilter("ignore", CryptographyDeprecationWarning)
                leaf, *intermediates = map(x509.load_der_x509_certificate, (leaf_der, *chain))
            _check(leaf, now)
            problem = self._climb([leaf], intermediates, now)
        except (RefusedCertificate, ValueError, UnsupportedAlgorithm) as error:
            return str(error)
        return problem or leaf

    def _climb(
        self, path: list[x509.Certificate], intermediates: Sequence[x509.Certificate], now: dt.datetime
    ) -> str:
        """Returns "" if a path of certificates leads from the last one of `path` to a CA of the bundle.

        Otherwise it returns why none does. A path has no certificate twice, so there are few paths.
        """
        problems = []
        for authority in self._authorities:
            if _issued(path[-1], authority):
                problem = _problem_of_issuer(authority, path, now)
                if not problem:
                    return ""
                problems.append(problem)
        for each in intermediates:
            if each in path or each in self._authorities or not _issued(path[-1], each):
                continue
            problem = _problem_of_issuer(each, path, now) or self._climb([*path, each], intermediates, now)
            if not problem:
                return ""
            problems.append(problem)
        return next((each for each in problems if each != NO_ISSUER), NO_ISSUER)


def _issued(leaf: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _problem_of_issuer(
    authority: x509.Certificate, path: Sequence[x509.Certificate], now: dt.datetime
) -> str:
    """Returns why a CA may not issue the last certificate of a path from a leaf; "" if it may."""
    try:
        _check(authority, now)
        constraints = _extension(authority, x509.BasicConstraints)
        if constraints is None or not constraints.ca:
            raise RefusedCertificate("its issuer is no CA by its basic constraints")
        if constraints.path_length is not None and len(path) - 1 > constraints.path_length:
            raise RefusedCertificate("its issuer may not have so many CAs below it")
        usage = _extension(authority, x509.KeyUsage)
        if usage is not None and not usage.key_cert_sign:
            raise RefusedCertificate("its issuer may not sign certificates by its key usage")
        _check_names(authority, path)
    except (RefusedCertificate, ValueError, UnsupportedAlgorithm) as error:
        return str(error)
    return ""


def _check_names(authority: x509.Certificate, path: Sequence[x509.Certificate]) -> None:
    """Raises RefusedCertificate if a name below a CA breaks its name constraints."""
    try:
        found = authority.extensions.get_extension_for_class(x509.NameConstraints)
    except x509.ExtensionNotFound:
        return
    names = [each for one in path for each in _extension(one, x509.SubjectAlternativeName) or ()]
    check_names(found.value, names, critical=found.critical)


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


def check_names(
    constraints: x509.NameConstraints, names: Iterable[x509.GeneralName], *, critical: bool
) -> None:
    """Raises RefusedCertificate unless a CA's constraints permit all names of a certificate below it."""
    permitted, excluded = (constraints.permitted_subtrees or ()), (constraints.excluded_subtrees or ())
    if critical and not all(isinstance(each, CHECKED) for each in (*permitted, *excluded)):
        raise RefusedCertificate("its issuer has critical name constraints of a kind that is not evaluated")
    left = MAX_COMPARISONS
    for name in names:
        kind = next((each for each in CHECKED if isinstance(name, each)), None)
        if kind is None:
            continue
        allowed = [each for each in permitted if isinstance(each, kind)]
        refused = [each for each in excluded if isinstance(each, kind)]
        left -= len(allowed) + len(refused)
        if left < 0:
            raise RefusedCertificate("its issuer has too many name constraints")
        if any(_matches(name, each, excludes=True) for each in refused):
            raise RefusedCertificate(f"the name constraints of its issuer exclude {name.value}")
        if allowed and not any(_matches(name, each) for each in allowed):
            raise RefusedCertificate(f"the name constraints of its issuer do not permit {name.value}")


def _matches(name: x509.GeneralName, constraint: x509.GeneralName, *, excludes: bool = False) -> bool:
    if isinstance(name, x509.IPAddress):
        return _ip_matches(name.value, constraint.value)
    if isinstance(name, x509.DNSName):
        # An excluded name below a wildcard would be served by it.
        if excludes and name.value.startswith("*."):
            return _domain_matches(name.value[2:], constraint.value) or _domain_matches(
                str(constraint.value).lstrip("."), name.value[2:]
            )
        return _domain_matches(name.value, constraint.value)
    if isinstance(name, x509.RFC822Name):
        return _mail_matches(name.value, constraint.value)
    return _domain_matches(_host_of(str(name.value)), constraint.value)


def _labels(domain: str) -> list[str]:
    """Returns the labels of a domain, the last one first. Raises RefusedCertificate for another text."""
    labels = domain.lower().removesuffix(".").split(".")
    if not all(0 < len(each) < 64 and each.isascii() and each.isprintable() for each in labels):
        raise RefusedCertificate(f"{domain[:64]!r} is no domain name")
    return labels[::-1]


def _domain_matches(domain: str, constraint: str) -> bool:
    """True for a domain that is the constraint or below it; with a leading dot only below it."""
    found = _labels(domain)
    if not constraint:
        return True
    wanted = _labels(constraint.removeprefix("."))
    if constraint.startswith(".") and len(found) == len(wanted):
        return False
    return found[: len(wanted)] == wanted


def _mail_matches(address: str, constraint: str) -> bool:
    local, at, domain = address.rpartition("@")
    if not at or not local:
        raise RefusedCertificate(f"{address[:64]!r} is no mail address")
    wanted_local, at, wanted = constraint.rpartition("@")
    if at:
        return local == wanted_local and domain.lower() == wanted.lower()
    return _domain_matches(domain, constraint)


def _host_of(uri: str) -> str:
    try:
        host = urlsplit(uri).hostname or ""
    except ValueError as error:
        raise RefusedCertificate(f"{uri[:64]!r} is no URI") from error
    if not host:
        raise RefusedCertificate(f"{uri[:64]!r} has no host")
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host
    raise RefusedCertificate(f"{uri[:64]!r} has an address as its host, which no constraint can name")


def _ip_matches(address: object, constraint: object) -> bool:
    networks = (ipaddress.IPv4Network, ipaddress.IPv6Network)
    addresses = (ipaddress.IPv4Address, ipaddress.IPv6Address)
    if not isinstance(constraint, networks) or not isinstance(address, addresses):
        raise RefusedCertificate("an address cannot be compared with the name constraints of its issuer")
    return address.version == constraint.version and address in constraint
