"""Decides what the leader writes next. A leader may end after any write, and the next one continues.

A `caBundle` of ours has exactly the CAs that Secret `fedhpa-ca` trusts: foreign ones that are kept could sign
for our servers for ever. A certificate is issued only when every registration of its server trusts the CA
that signs, so a registration that cannot be written stops its own server and no other.
"""

from __future__ import annotations

import datetime as dt
from typing import Final, NamedTuple

from cryptography import x509

from certs.authority import CertificateAuthority, is_ip
from certs.certificate_store import SERVING_SECRETS, with_bundle
from certs.stored import (
    CA_CERT,
    CA_SECRET,
    MAX_CAS,
    TLS_CERT,
    TLS_KEY,
    Object,
    Problem,
    Reading,
    Serving,
    Status,
    Step,
    bundle_pem,
    encode_ca,
    secret,
)

COMMON_NAME: Final = "fedhpa-ca"
CA: Final = "ca"
ROTATE: Final = "run: fedhpa certs rotate-ca"
EXPIRED, EXPIRES_SOON, UNFINISHED = "CAExpired", "CAExpiresSoon", "CAChangeUnfinished"


class Now(NamedTuple):
    """The time. `agreed` is false while two clocks differ; then no date is a reason to act."""

    time: dt.datetime
    agreed: bool = True


class Write(NamedTuple):
    """An object to store under its name. `issued` is the certificate that is new in it, if any.

    `reason` and `message` say why, for people.
    """

    name: str
    body: Object
    issued: str = ""
    reason: str = ""
    message: str = ""


def due(reading: Reading, namespace: str, lifetime: dt.timedelta, now: Now) -> list[Write]:
    """Returns the writes that are due. After them everything is read and decided again.

    `lifetime` is that of new certificates.
    """
    ca = reading.ca
    if ca.status in (Status.FOREIGN, Status.UNREAD):
        return []
    if ca.signer is None:
        return [_new_ca(reading, namespace, now)] if reading.is_complete else []
    pem, writes = bundle_pem(ca.trusted), []
    distrusting = set()
    for each in reading.published:
        if any(ca.signer.certificate not in bundle for bundle in each.bundles):
            distrusting.add(each.server)
        if each.found is not None and not each.trusts_only(ca.trusted):
            writes.append(Write(each.name, with_bundle(each.found, pem)))
    for server in reading.managed:
        why = "" if server.server in distrusting else _why_issue(server, ca.signer, now)
        if not why and (server.pair is None or set(server.bundle) == set(ca.trusted)):
            continue
        pair, message = server.pair, ""
        if why or pair is None:
            ips = [host for host in server.hosts if is_ip(host)]
            dns = sorted(server.hosts.difference(ips))
            pair = ca.signer.issue_server(server.service, dns=dns, ips=ips, validity=lifetime, now=now.time)
            message = f"issued until {pair.certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC: {why}"
        data = {CA_CERT: pem, TLS_CERT: pair.cert_pem, TLS_KEY: pair.key_pem}
        name = SERVING_SECRETS[server.server]
        body = secret(server.found, namespace, name, "kubernetes.io/tls", data)
        issued = ("CertificateIssued", message) if message else ("", "")
        writes.append(Write(f"secrets/{name}", body, server.server if message else "", *issued))
    return writes


def _new_ca(reading: Reading, namespace: str, now: Now) -> Write:
    """Creates the CA, or one in the place of a lost one.

    Servers may still serve certificates of the lost CA, so the CAs that the bundles have stay trusted.
    """
    bundles = [each.bundle for each in reading.managed]
    bundles += [bundle for each in reading.published for bundle in each.bundles]
    known = dict.fromkeys(ca for bundle in (reading.ca.trusted, *bundles) for ca in bundle)
    others = [each for each in known if _is_ca(each, now)][: MAX_CAS - 1]
    signer = reading.ca.successor or CertificateAuthority.create(COMMON_NAME, now=now.time)
    body = encode_ca(
        reading.ca.found, namespace, signer, [each for each in others if each != signer.certificate]
    )
    reason, message = "CACreated", f"created a CA until {signer.certificate.not_valid_after_utc:%Y-%m-%d}"
    if others:
        reason = "CAReplaced"
        message += (
            f", because Secret {CA_SECRET} has no usable key; {len(others)} stay trusted until you {ROTATE}"
        )
    return Write(f"secrets/{CA_SECRET}", body, CA, reason, message)


def _why_issue(serving: Serving, signer: CertificateAuthority, now: Now) -> str:
    """Returns why a certificate must be issued; "" if the stored one is good, or the CA cannot sign."""
    pair, end = serving.pair, signer.certificate.not_valid_after_utc
    if not is_valid(signer.certificate, now) or end <= now.time:
        return ""
    if pair is None:
        return "there is no usable pair" if serving.status is Status.OURS else "there is none"
    if not signer.issued(pair.certificate):
        return "another CA signs"
    if pair.hosts() != serving.hosts:
        return "its names are others"
    if now.agreed and not is_valid(pair.certificate, now):
        return "it is not valid at this time"
    # A certificate that ends with the CA cannot be renewed.
    if now.agreed and pair.renewal_due(now.time) and pair.certificate.not_valid_after_utc < end:
        return "two thirds of its life are over"
    return ""


def ca_problem(reading: Reading, now: Now) -> Problem | None:
    """Returns what a person must know about the CA; None if nothing is to be done."""
    ca = reading.ca
    if ca.signer is None or not now.agreed:
        return None
    end = ca.signer.certificate.not_valid_after_utc
    if not is_valid(ca.signer.certificate, now):
        return Problem(EXPIRED, f"the CA is not valid now, its end is {end:%Y-%m-%d}: {ROTATE}")
    if ca.step is Step.NONE and ca.signer.expires_soon(now.time):
        return Problem(EXPIRES_SOON, f"the CA and all certificates expire at {end:%Y-%m-%d}: {ROTATE}")
    if ca.step is not Step.NONE:
        text = f"{len(ca.trusted)} CAs are trusted, as a change of the CA is not finished: {ROTATE}"
        return Problem(UNFINISHED, text)
    return None


def is_valid(certificate: x509.Certificate, now: Now) -> bool:
    """True if the certificate is valid now, and while the clocks differ."""
    if not now.agreed:
        return True
    return certificate.not_valid_before_utc <= now.time < certificate.not_valid_after_utc


def _is_ca(certificate: x509.Certificate, now: Now) -> bool:
    """True for a valid CA; false for a certificate of others with fields that cannot be read."""
    try:
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        return constraints.ca and is_valid(certificate, now)
    except (ValueError, TypeError, x509.ExtensionNotFound, x509.DuplicateExtension):
        return False
