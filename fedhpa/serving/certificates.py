"""Verifies that a client certificate was issued by given CAs for client authentication.

The TLS layer accepts a certificate of any known CA. The issuing CA decides what the certificate proves: a
user or a front proxy. Therefore the leaf is verified again, against each CA bundle separately. The default
policy of cryptography is that of the Web PKI and requires a SAN, which Kubernetes client certificates do not
have. Therefore the default policy applies to the CAs only, and the usage of the leaf is checked here.
"""

from __future__ import annotations

import datetime as dt
from collections import OrderedDict
from collections.abc import Callable

from cryptography import x509
from cryptography.x509 import verification
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedhpa.api.errors import ConfigError

# A keep-alive connection presents the same certificate with each request, and a verification takes 0.1 ms.
CACHED_LEAVES = 256
CACHE_SECONDS = 60.0


class ClientVerifier:
    """Verifies certificates against one CA bundle; immutable except for its cache."""

    def __init__(self, ca_pem: bytes, clock: Callable[[], dt.datetime]) -> None:
        """Raises ConfigError if the bundle holds no certificate."""
        try:
            self._store = verification.Store(x509.load_pem_x509_certificates(ca_pem))
        except ValueError as error:
            raise ConfigError(f"a client CA bundle holds no usable PEM certificate: {error}") from error
        self._clock = clock
        self._verified: OrderedDict[bytes, tuple[dt.datetime, x509.Certificate | None]] = OrderedDict()

    def verify(self, leaf_der: bytes) -> x509.Certificate | None:
        """Returns the certificate if it is valid now and a CA of the bundle signed it for clients."""
        now = self._clock()
        known = self._verified.get(leaf_der)
        if known is not None and now < known[0]:
            return known[1]
        certificate = self._verify(leaf_der, now)
        until = now + dt.timedelta(seconds=CACHE_SECONDS)
        if certificate is not None:
            until = min(until, certificate.not_valid_after_utc)
        self._verified[leaf_der] = (until, certificate)
        self._verified.move_to_end(leaf_der)
        if len(self._verified) > CACHED_LEAVES:
            self._verified.popitem(last=False)
        return certificate

    def _verify(self, leaf_der: bytes, now: dt.datetime) -> x509.Certificate | None:
        try:
            leaf = x509.load_der_x509_certificate(leaf_der)
            verifier = (
                verification.PolicyBuilder()
                .store(self._store)
                .time(now)
                .extension_policies(
                    ca_policy=verification.ExtensionPolicy.webpki_defaults_ca(),
                    ee_policy=verification.ExtensionPolicy.permit_all(),
                )
                .build_client_verifier()
            )
            verifier.verify(leaf, [])
            usages = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        except (verification.VerificationError, x509.ExtensionNotFound, ValueError):
            return None
        accepted = {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}
        return leaf if accepted.intersection(usages) else None


def names_of(certificate: x509.Certificate, oid: x509.ObjectIdentifier) -> tuple[str, ...]:
    """Returns the subject's attributes of one type, in order."""
    return tuple(str(attribute.value) for attribute in certificate.subject.get_attributes_for_oid(oid))


def common_name(certificate: x509.Certificate) -> str:
    """Returns the subject's last CN, as Go does; "" if there is none."""
    return (names_of(certificate, NameOID.COMMON_NAME) or ("",))[-1]
